// Completes batches and counts how often the service was called for each, in both modes, while the service and the
// relays are killed.
import { fork } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { countMessages, createQueue, sleep, sqs, tally, waitUntil } from "../common/tally.mjs";
import { GetQueueUrlCommand } from "@aws-sdk/client-sqs";
import { Relays } from "../common/relays.mjs";

const BATCHES = 40; // for each mode
const [folder] = process.argv.slice(2);
const suffix = process.env.TALLY_EXAMPLE_SUFFIX;
const effects = join(folder, "effects");
const secret = "a secret of the two of them";
writeFileSync(join(folder, "secret"), secret);
writeFileSync(effects, "");

// The service, which is started again on its port when it has died.
const service = { port: 0, deaths: 0, counts: { request: 0, repeat: 0 } };
function startService() {
  service.process = fork(new URL("service.mjs", import.meta.url), [effects, service.port, secret]);
  service.process.on("message", ({ port, count }) => {
    service.port = port ?? service.port;
    service.counts[count]++;
  });
  service.process.on("exit", () => {
    if (service.process === null) return;
    service.deaths++;
    startService();
  });
}
startService();
await waitUntil(() => service.port !== 0, "the service");

// For each mode a queue of completion messages and two relays to the service.
async function startMode(name, mode, path) {
  const queue = await createQueue(name);
  const options = ["--mode", mode, "--secret-file", join(folder, "secret"), "--lease", "2"];
  const relays = new Relays(
    2,
    `queue:${queue.split("/").pop()}`,
    `http://127.0.0.1:${service.port}${path}`,
    options,
    `${name}${suffix}-`,
  );
  return { name, path, queue, relays };
}
const modes = [await startMode("once", "at-least-once", "/once"), await startMode("blind", "at-most-once", "/blind")];

// Batches of three units each; a completion message is made when the last one ends.
async function completeBatch({ name, queue }, number) {
  const BatchId = `${name}-${number}${suffix}`;
  const keys = ["a", "b", "c"];
  await tally("CreateBatch", {
    BatchId,
    OnComplete: { QueueUrl: queue, MessageBody: JSON.stringify({ batch: BatchId }) },
  });
  await tally("AddUnits", { BatchId, Units: keys });
  await tally("SealBatch", { BatchId });
  await tally("CompleteUnits", { BatchId, Units: keys.map((Unit) => ({ Unit })) });
}

for (let number = 1; number <= BATCHES; number++) {
  await Promise.all(modes.map((mode) => completeBatch(mode, number)));
  await sleep(60);
  if (number % 10 === 5) modes.forEach(({ relays }) => relays.killActive());
}

// What may have arrived and was never answered stands in a queue of each relay's own, for somebody to decide.
async function countParked({ name }) {
  let parked = 0;
  for (const index of [1, 2]) {
    const QueueName = `${name}${suffix}-${index}-parked`;
    const QueueUrl = await sqs.send(new GetQueueUrlCommand({ QueueName })).then(
      (reply) => reply.QueueUrl,
      () => null,
    );
    parked += QueueUrl === null ? 0 : await countMessages(QueueUrl);
  }
  return parked;
}
for (const mode of modes)
  await waitUntil(async () => (await countMessages(mode.queue)) === 0, `the last call of ${mode.name}`);
for (const mode of modes) await mode.relays.stop();
const { process: last } = service;
service.process = null;
last.kill("SIGKILL");

function countEffects({ path }) {
  const batches = readFileSync(effects, "utf8")
    .split("\n")
    .filter((line) => line.startsWith(`${path} `))
    .map((line) => line.split(" ")[2]);
  return { effects: batches.length, batches: new Set(batches).size };
}
const once = countEffects(modes[0]),
  blind = countEffects(modes[1]);
const parked = await countParked(modes[1]);
const killed = modes.reduce((sum, { relays }) => sum + relays.killed, 0);
console.log(`${BATCHES} batches completed for each mode.
The service died ${service.deaths} times; ${killed} relays were killed.

at-least-once, and the service remembers Idempotency-Key
  ${service.counts.repeat} requests came again and changed nothing: ${once.effects} effects of ${once.batches} batches
at-most-once, and the service knows no keys
  ${blind.effects} effects of ${blind.batches} batches
  ${parked} requests have an unknown outcome and are listed, not repeated
  (the service alone knows: ${blind.batches + parked - BATCHES} of these had their effect)`);
const isGood =
  once.effects === BATCHES &&
  once.batches === BATCHES &&
  blind.effects === blind.batches &&
  blind.batches + parked >= BATCHES &&
  service.deaths > 0;
console.log(
  isGood ? "\nAt-least-once: each once. At-most-once: none twice, and none lost in silence." : "\nThat is WRONG.",
);
process.exit(isGood ? 0 : 1);
