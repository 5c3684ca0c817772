/* graphile-worker: jobs of many keys in order, each key a named queue, as its documentation says.
 *
 * graphile.mjs --connection URI --jobs N --keys K --warm-up N --batched yes|no
 *
 * All jobs are there before the first runs. The clock starts when the warm-up's jobs have gone from the table of jobs
 * and stops when the last has: a job counts when the database has forgotten it, not when its handler ran. Prints
 * JSON. */
import { createRequire } from "node:module";
import { options, print, sleep, now } from "./common.mjs";

const require = createRequire(`${process.cwd()}/`);
const { run, Logger } = require("graphile-worker");
const pg = require("pg");

const given = options({ connection: "", jobs: 20000, keys: 2000, "warm-up": 2000, batched: "yes", concurrency: 24 });
const total = given.jobs + given["warm-up"];
const silent = new Logger(() => () => {});
const pool = new pg.Pool({ connectionString: given.connection, max: 10 });

const next = new Map(); // key -> the place in its key's order that must come
let outOfOrder = 0;
let started = 0;
const taskList = {
  work: async ({ key, place }) => {
    started++;
    if ((next.get(key) ?? 0) !== place) outOfOrder++;
    next.set(key, place + 1);
  },
};

/* The documented way to many jobs: add_jobs with arrays. Round by round, so that every key waits with its first. */
async function fill() {
  const { makeWorkerUtils } = require("graphile-worker");
  const utils = await makeWorkerUtils({ pgPool: pool, logger: silent });
  await utils.migrate();
  await utils.release();
  for (let from = 0; from < total; from += 10000) {
    await pool.query(
      `select count(*) from graphile_worker.add_jobs((
         select array_agg(row('work', json_build_object('key', n % $3, 'place', n / $3), 'key' || n % $3,
           null, null, null, null, null)::graphile_worker.job_spec order by n)
         from generate_series($1::int, $2::int) n))`,
      [from, Math.min(from + 10000, total) - 1, given.keys],
    );
  }
}

async function left() {
  const { rows } = await pool.query("select count(*)::int as count from graphile_worker._private_jobs");
  return rows[0].count;
}

async function leftAtMost(count) {
  for (;;) {
    const found = await left();
    if (found <= count) return found;
    await sleep(20);
  }
}

const tuned = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
await fill();
const cpuBefore = process.cpuUsage();
const runner = await run({
  pgPool: pool,
  logger: silent,
  taskList,
  noHandleSignals: true,
  preset: { worker: { concurrentJobs: given.concurrency, ...(given.batched === "yes" ? tuned : {}) } },
});
const first = await leftAtMost(given.jobs);
const begin = now();
await leftAtMost(0);
const seconds = now() - begin;
await runner.stop();
await pool.end();
const cpu = process.cpuUsage(cpuBefore);
print({
  jobs: first,
  keys: given.keys,
  seconds,
  messages_per_s: first / seconds,
  started,
  expected: total,
  out_of_order: outOfOrder,
  client_cpu_us: (cpu.user + cpu.system) / total,
});
process.exit(started === total ? 0 : 1);
