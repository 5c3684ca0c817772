// Signs requests with AWS Signature 4 in the browser. Of the secret only the key derived for today is kept, and only in
// the tab: it signs for this service until midnight UTC.
const REGION = "us-east-1";
const SERVICE = "sqs";
const KEPT = "tally-signer";
const encoder = new TextEncoder();

const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

async function hmac(key, text) {
  const imported = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return crypto.subtle.sign("HMAC", imported, encoder.encode(text));
}

async function digest(text) {
  return hex(await crypto.subtle.digest("SHA-256", encoder.encode(text)));
}

/** crypto.subtle is only there over HTTPS and on this machine. */
export const canSign = () => globalThis.crypto?.subtle !== undefined;

export const stampOf = (seconds) => new Date(seconds * 1000).toISOString().replace(/[-:]|\.\d+/g, "");

export async function derive(accessKey, secret, token, stamp) {
  const day = stamp.slice(0, 8);
  let key = encoder.encode(`AWS4${secret}`);
  for (const part of [day, REGION, SERVICE, "aws4_request"]) key = await hmac(key, part);
  return { accessKey, token: token || null, day, key: hex(key) };
}

export function keep(signer) {
  sessionStorage.setItem(KEPT, JSON.stringify(signer));
}

export function forget() {
  sessionStorage.removeItem(KEPT);
}

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT));
  } catch {
    return null;
  }
}

/** The signer of today, or null. */
export function kept(stamp) {
  const signer = read();
  return signer?.day === stamp.slice(0, 8) ? signer : null;
}

/** Is there a key, though not of today? */
export const isOld = (stamp) => read() !== null && kept(stamp) === null;

/** Keeps the key of an address that `tally ui` has printed, and takes it out of the address; true if there was one. */
export function keepFromAddress() {
  if (!location.hash.startsWith("#k=")) return false;
  const { k, d, s, t } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  history.replaceState(null, "", "#/");
  if (!k || !/^\d{8}$/.test(d) || !/^[0-9a-f]{64}$/.test(s)) return false;
  keep({ accessKey: k, token: t || null, day: d, key: s });
  return true;
}

/** The header fields that make a POST of `body` to / a signed request. */
export async function sign(signer, host, target, body, stamp) {
  const fields = { host, "x-amz-date": stamp, "x-amz-target": target };
  if (signer.token) fields["x-amz-security-token"] = signer.token;
  const names = Object.keys(fields).sort();
  const lines = names.map((name) => `${name}:${fields[name]}\n`).join("");
  const request = ["POST", "/", "", lines, names.join(";"), await digest(body)].join("\n");
  const scope = `${signer.day}/${REGION}/${SERVICE}/aws4_request`;
  const text = ["AWS4-HMAC-SHA256", stamp, scope, await digest(request)].join("\n");
  const signature = hex(await hmac(unhex(signer.key), text));
  delete fields.host; // the browser sends it
  fields.authorization =
    `AWS4-HMAC-SHA256 Credential=${signer.accessKey}/${scope}, ` +
    `SignedHeaders=${names.join(";")}, Signature=${signature}`;
  return fields;
}
