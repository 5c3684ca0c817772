/* BullMQ: fan-in with flows. A parent waits for N children; when the last has completed, the parent runs.
 *
 * bullmq.mjs --port PORT --children N --warm-up N --concurrency N
 *
 * The flow is there before the workers start. The clock starts when the warm-up flow's parent has run; a child counts
 * when Redis has confirmed its completion ("completed"), the flow when its parent has run. Prints JSON. */
import { createRequire } from "node:module";
import { options, print, now } from "./common.mjs";

const require = createRequire(`${process.cwd()}/`);
const { FlowProducer, Worker } = require("bullmq");

const given = options({ port: 6379, children: 10000, "warm-up": 200, concurrency: 100 });
const connection = { host: "127.0.0.1", port: given.port, maxRetriesPerRequest: null };
const producer = new FlowProducer({ connection });

function add(name, count) {
  const opts = { removeOnComplete: true };
  return producer.add({
    name,
    queueName: "parents",
    opts,
    children: Array.from({ length: count }, (_, at) => ({ name: "unit", data: { at }, queueName: "units", opts })),
  });
}

let completed = 0;
let lastChildAt = 0;
const parents = new Map(); // name -> when it ran; how often
const parentRan = { warmup: null, flow: null };
const waits = Object.fromEntries(
  Object.keys(parentRan).map((name) => [name, new Promise((resolve) => (parentRan[name] = resolve))]),
);

const children = new Worker("units", async () => {}, { connection, concurrency: given.concurrency, autorun: false });
children.on("completed", () => {
  completed++;
  lastChildAt = now();
});
const actions = new Worker(
  "parents",
  async (job) => {
    parents.set(job.name, (parents.get(job.name) ?? 0) + 1);
    parentRan[job.name](now());
  },
  { connection, autorun: false },
);

await Promise.all([children.waitUntilReady(), actions.waitUntilReady(), producer.waitUntilReady()]);
await add("warmup", given["warm-up"]);
children.run();
actions.run();
await waits.warmup;
await children.pause();

const addBegin = now();
await add("flow", given.children);
const added = now() - addBegin;
completed = 0;
const cpuBefore = process.cpuUsage();
const begin = now();
children.resume();
const parentAt = await waits.flow;
const seconds = parentAt - begin;
const cpu = process.cpuUsage(cpuBefore);
await new Promise((resolve) => setTimeout(resolve, 100));
const isWhole = completed === given.children && parents.get("flow") === 1;
print({
  children: given.children,
  added_s: added,
  seconds,
  messages_per_s: given.children / seconds,
  action_after_ms: (parentAt - lastChildAt) * 1000,
  completed,
  actions: parents.get("flow"),
  client_cpu_us: (cpu.user + cpu.system) / given.children,
});
await Promise.all([children.close(true), actions.close(true), producer.close()]);
process.exit(isWhole ? 0 : 1);
