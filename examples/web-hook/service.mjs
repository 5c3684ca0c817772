// A web service that counts, and dies now and then: before its effect, or between the effect and the answer. /once
// remembers the Idempotency-Key of each request together with the effect; /blind does not know such keys. Effects are
// lines of a file.
import { createHmac, timingSafeEqual } from "node:crypto";
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { createServer } from "node:http";

const [file, port, secret] = process.argv.slice(2);
const done = new Set(
  existsSync(file)
    ? readFileSync(file, "utf8")
        .split("\n")
        .map((line) => line.split(" ")[1])
    : [],
);

// The request comes from who has the secret, and is not an old one sent again: the signature of Standard Webhooks.
function isGenuine(headers, body) {
  const hmac = createHmac("sha256", secret).update(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.`);
  const good = Buffer.from("v1," + hmac.update(body).digest("base64"));
  const one = Buffer.from(headers["webhook-signature"] ?? "");
  return (
    Math.abs(Date.now() / 1000 - headers["webhook-timestamp"]) < 300 &&
    one.length === good.length &&
    timingSafeEqual(one, good)
  );
}

// Key and effect in one write, which is on the disk before the answer.
function makeEffect(path, key, batch) {
  const descriptor = openSync(file, "a");
  writeSync(descriptor, `${path} ${key} ${batch}\n`);
  fsyncSync(descriptor);
  closeSync(descriptor);
  done.add(key);
}

function dieSometimes() {
  if (Math.random() < 0.08) process.kill(process.pid, "SIGKILL");
}

createServer(async (request, response) => {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  const body = Buffer.concat(pieces);
  if (!isGenuine(request.headers, body)) {
    response.writeHead(401).end("the signature is wrong");
    return;
  }
  const key = request.headers["idempotency-key"];
  const isRepeat = request.url === "/once" && done.has(key);
  process.send({ count: isRepeat ? "repeat" : "request" });
  dieSometimes();
  if (!isRepeat) makeEffect(request.url, key, JSON.parse(body).batch);
  dieSometimes();
  response.writeHead(200).end();
}).listen(Number(port), "127.0.0.1", function () {
  process.send({ port: this.address().port });
});
process.on("disconnect", () => process.exit());
