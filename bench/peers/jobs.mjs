/* Jobs without order: added in hundreds, worked off 64 at once, gone. One of three libraries, each tuned as its
 * documentation says.
 *
 * jobs.mjs --library graphile-worker|pg-boss|bullmq --connection URI --port PORT --seconds N --warm-up SECONDS
 *
 * The warm-up's jobs go the whole way first, more and more of them until its time is over; their rate says how many
 * the measured part needs. Then the clock runs while all jobs are added, and again while they are worked off, until
 * the server has confirmed the end of the last; a job's life is both. If that was over too soon it is done again with
 * more. Prints "begin" and "end" around each, then JSON. */
import { createRequire } from "node:module";
import { options, print, sleep, now } from "./common.mjs";

const require = createRequire(`${process.cwd()}/`);
const given = options({ library: "", connection: "", port: 0, seconds: 2.5, "warm-up": 0.8, clients: 64, body: 200 });
const HUNDRED = 100;
const body = "x".repeat(given.body);

/* Calls `add` for every hundred of them, eight at once. */
async function inHundreds(count, add) {
  let left = count;
  const one = async () => {
    while (left > 0) {
      const size = Math.min(HUNDRED, left);
      left -= size;
      await add(Array.from({ length: size }));
    }
  };
  await Promise.all(Array.from({ length: 8 }, one));
}

async function until(isDone) {
  while (!(await isDone())) await sleep(5);
}

/* graphile-worker: localQueue of 500, completions in batches (its documented tuning). */
async function graphile() {
  const { run, makeWorkerUtils, Logger } = require("graphile-worker");
  const { Pool } = require("pg");
  const logger = new Logger(() => () => {});
  const pgPool = new Pool({ connectionString: given.connection, max: 24 });
  const utils = await makeWorkerUtils({ pgPool, logger });
  await utils.migrate();
  let ran = 0;
  let runner;
  const held = async () => {
    const { rows } = await pgPool.query("select count(*)::int as count from graphile_worker._private_jobs");
    return rows[0].count;
  };
  return {
    add: (jobs) => utils.addJobs(jobs.map(() => ({ identifier: "work", payload: { body } }))),
    async work(count) {
      ran = 0;
      const tuned = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
      runner ??= await run({
        pgPool,
        logger,
        taskList: { work: async () => void ran++ },
        noHandleSignals: true,
        preset: { worker: { concurrentJobs: given.clients, pollInterval: 50, ...tuned } },
      });
      await until(() => ran >= count);
      await until(async () => (await held()) === 0);
    },
    stop: async () => {
      await runner?.stop();
      runner = undefined;
    },
    held,
    close: () => pgPool.end(),
  };
}

/* pg-boss: eight loops of fetch and complete, in hundreds, on one pool: more only wait for each other. Without its
 * own maintenance. */
async function boss() {
  const PgBoss = require("pg-boss");
  const boss = new PgBoss({ connectionString: given.connection, max: 24, supervise: false, schedule: false });
  boss.on("error", (error) => {
    throw error;
  });
  await boss.start();
  await boss.createQueue("jobs");
  return {
    add: (jobs) => boss.insert(jobs.map(() => ({ name: "jobs", data: { body } }))),
    async work(count) {
      let left = count;
      const loop = async () => {
        while (left > 0) {
          const jobs = await boss.fetch("jobs", { batchSize: HUNDRED });
          if (jobs.length === 0) await sleep(1);
          else
            await boss.complete(
              "jobs",
              jobs.map((job) => job.id),
            );
          left -= jobs.length;
        }
      };
      await Promise.all(Array.from({ length: 8 }, loop));
    },
    stop: async () => {},
    held: () => boss.getQueueSize("jobs"),
    close: () => boss.stop({ graceful: false }),
  };
}

/* BullMQ: addBulk, a worker with a concurrency of as many as clients, jobs removed when they are complete. */
async function bull() {
  const { Queue, Worker } = require("bullmq");
  const connection = { host: "127.0.0.1", port: given.port, maxRetriesPerRequest: null };
  const queue = new Queue("jobs", { connection });
  let completed = 0;
  const worker = new Worker("jobs", async () => {}, { connection, concurrency: given.clients, autorun: false });
  worker.on("completed", () => completed++);
  await Promise.all([queue.waitUntilReady(), worker.waitUntilReady()]);
  let isRunning = false;
  return {
    add: (jobs) => queue.addBulk(jobs.map(() => ({ name: "job", data: { body }, opts: { removeOnComplete: true } }))),
    async work(count) {
      completed = 0;
      if (isRunning) worker.resume();
      else worker.run();
      isRunning = true;
      await until(() => completed >= count);
    },
    stop: () => worker.pause(),
    held: async () => Object.values(await queue.getJobCounts()).reduce((sum, count) => sum + count, 0),
    close: async () => {
      await worker.close(true);
      await queue.close();
    },
  };
}

const library = await { "graphile-worker": graphile, "pg-boss": boss, bullmq: bull }[given.library]();

/* So many jobs, the whole way. */
async function lives(jobs) {
  const cpuBefore = process.cpuUsage();
  const begin = now();
  await inHundreds(jobs, library.add);
  const added = now() - begin;
  const heldAfterAdding = await library.held();
  const workBegin = now();
  await library.work(jobs);
  const worked = now() - workBegin;
  const cpu = process.cpuUsage(cpuBefore);
  return {
    jobs,
    added_s: added,
    worked_s: worked,
    seconds: added + worked,
    messages_per_s: jobs / (added + worked),
    generator_cpu_s: (cpu.user + cpu.system) / 1e6,
    held_after_adding: heldAfterAdding,
  };
}

/* Hundreds of jobs that take so many seconds at that rate, and a fifth more. */
function enough(rate, seconds) {
  return HUNDRED * Math.ceil((1.2 * rate * seconds) / HUNDRED);
}

let done;
let warmed = 0;
for (let jobs = 2 * HUNDRED; warmed < given["warm-up"]; jobs *= 2) {
  done = await lives(jobs);
  await library.stop();
  warmed += done.seconds;
}
do {
  const jobs = enough(done.messages_per_s, given.seconds);
  print("begin");
  done = await lives(jobs);
  print("end");
  await library.stop();
} while (done.seconds < given.seconds);
const held = await library.held();
print({ ...done, held });
await library.close();
process.exit(done.held_after_adding === done.jobs && held === 0 ? 0 : 1);
