// Calls the server's public actions, as every client does, and knows which of them there are and what the caller may.
import * as signing from "./sign.js";
import { ahead, noteServerTime, now } from "./words.js";

const JUMP_MS = 60000; // of the browser's clock, so that its signatures are refused

export class Refusal extends Error {
  constructor(code, text, status) {
    super(text);
    this.code = code;
    this.status = status;
  }
  /** The caller lacks a right, or what it asks for is out of its reach. */
  get isDenied() {
    return this.status === 403 && /^AccessDenied/.test(this.code);
  }
  /** Nobody has signed, or wrongly. */
  get isUnsigned() {
    return this.status === 403 && !this.isDenied;
  }
}

/** Nobody answers. */
export class Silence extends Error {}

/** config: what GET /ui/config says. described: what DescribeServer says, or null. rights: of the caller. */
export const server = { config: null, described: null, rights: new Set() };
const targets = new Map(); // of each action by its name

export async function begin() {
  server.config = await read("config");
  for (const target of Object.keys(server.config.Actions)) targets.set(target.split(".")[1], target);
}

export const needsSigning = () => server.config.HasCredentials;
export const signer = () => signing.kept(signing.stampOf(now()));

async function get(url, options) {
  try {
    const answer = await fetch(url, { cache: "no-store", ...options });
    noteServerTime(answer.headers.get("date"));
    return { answer, text: await answer.text() };
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Silence("The server does not answer.");
  }
}

/** Whole numbers that JavaScript would round stay as texts, where the browser can tell. */
function exact(key, value, context) {
  const isRounded = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
  return isRounded && context?.source ? context.source : value;
}

const parse = (text) => (/\d{16}/.test(text) ? JSON.parse(text, exact) : JSON.parse(text));

/** A page of the server's own in JSON, such as /health. */
export async function read(url, signal) {
  const { text } = await get(url, { signal });
  return parse(text);
}

/** The reply of an action; throws a Refusal, or Silence. */
export async function call(action, members = {}, signal, isAgain = false) {
  const target = targets.get(action) ?? `Tally.${action}`;
  const body = JSON.stringify(members);
  let fields = { "x-amz-target": target };
  const before = ahead;
  if (needsSigning()) {
    if (signer() === null) await read("config", signal); // is it another day, or has the browser's clock jumped?
    const mine = signer();
    if (mine === null)
      throw signing.isOld(signing.stampOf(now()))
        ? new Refusal("Expired", "The key in this tab was of another day (UTC). Sign in again.", 403)
        : new Refusal("NotSignedIn", "Sign in first.", 403);
    fields = await signing.sign(mine, location.host, target, body, signing.stampOf(now()));
  }
  fields["content-type"] = "application/x-amz-json-1.0";
  const { answer, text } = await get("/", { method: "POST", headers: fields, body, signal });
  if (answer.ok) return text === "" ? {} : parse(text);
  const refusal = refusalOf(text, answer.status);
  const hasJumped = refusal.isUnsigned && needsSigning() && Math.abs(ahead - before) > JUMP_MS;
  if (hasJumped && !isAgain) return call(action, members, signal, true);
  throw refusal;
}

function refusalOf(text, status) {
  try {
    const reply = JSON.parse(text);
    return new Refusal(
      String(reply.__type ?? "")
        .split("#")
        .pop(),
      reply.message ?? `HTTP ${status}`,
      status,
    );
  } catch {
    return new Refusal("", `HTTP ${status}: ${text.slice(0, 200)}`, status);
  }
}

const needed = (action) => server.config.Actions[targets.get(action)];
export const isThere = (action) => targets.has(action);

/** May the caller ask for it, as far as rights go? */
export function may(action) {
  const right = needed(action);
  return right !== undefined && (right === "any" || server.rights.has(right));
}

/** The same of what changes something, which ui = read-only hides. */
export const can = (action) => server.config.Ui === "on" && may(action);

/** The reply of an action that only looks; null where there is no such action, or it is not for this caller. */
export async function look(action, members, signal) {
  if (!may(action)) return null;
  try {
    return await call(action, members, signal);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const isUnknown = /^(UnknownOperation|InvalidAction)/.test(error.code); // an older node has the namespace
    if (isUnknown) targets.delete(action);
    if (isUnknown || error.isDenied) return null;
    throw error;
  }
}

/** The same, but null as well where what is named is not there. */
export async function find(action, members, signal) {
  try {
    return await look(action, members, signal);
  } catch (error) {
    if (error instanceof Refusal && error.status === 400) return null;
    throw error;
  }
}

// --- who asks -------------------------------------------------------------------------------------------------------

const PROBES = { admin: "ReleaseGroup", write: "CancelBatch", read: "GetMessage" };

/** Which rights has the caller? The server checks them before it misses the members that these calls lack. */
async function probe() {
  const rights = new Set();
  for (const [right, action] of Object.entries(PROBES)) {
    try {
      await call(action, {});
    } catch (error) {
      if (!(error instanceof Refusal) || error.isUnsigned) throw error;
      if (!error.isDenied) rights.add(right);
    }
  }
  return rights;
}

/** Asks the server what it is, and who asks. */
export async function describe(signal) {
  const isFirst = server.rights.size === 0;
  await begin(); // credentials may have come or gone
  server.described = await look("DescribeServer", {}, signal); // the owner may be of an older version
  const told = server.described?.Caller?.Rights;
  if (told) server.rights = new Set(told);
  else if (!needsSigning()) server.rights = new Set(Object.keys(PROBES));
  else if (isFirst) server.rights = await probe();
  return server.described;
}

/** Does the caller cover all queues? To others the server does not name a dead-letter queue out of their reach. */
export const coversAll = () =>
  !needsSigning() || (server.described !== null && server.described.Caller?.Queues === undefined);

export function forgetCaller() {
  server.described = null;
  server.rights = new Set();
}

const hasDryRun = (action) => (server.described?.DryRun ?? []).includes(action);

/** A server passes over members that it does not know. So DryRun goes only to actions that it names: of another the
 *  thing itself would be done. It is asked anew before each, because an older one may own the namespace by now. */
export async function takesDryRun(action) {
  server.described = await look("DescribeServer");
  return hasDryRun(action);
}

/** Filters of move tasks came with their dry run; takesFilters() asks anew. */
export const hasFilters = () => hasDryRun("StartMessageMoveTask");
export const takesFilters = () => takesDryRun("StartMessageMoveTask");
