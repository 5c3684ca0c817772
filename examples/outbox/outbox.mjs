// Writes orders with their messages, some of which are rolled back, while relays and workers are killed; then counts
// the shipments.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import pg from "pg";
import { countMessages, createQueue, sleep, waitUntil, Workers } from "../common/tally.mjs";
import { Relays } from "../common/relays.mjs";

const CUSTOMERS = 8;
const ORDERS = 50; // of each customer

const db = new pg.Client();
await db.connect();
await db.query(execFileSync(process.env.TALLY, ["relay", "schema", "--type", "postgres"], { encoding: "utf8" }));
await db.query(readFileSync(new URL("schema.sql", import.meta.url), "utf8"));

const QueueUrl = await createQueue("shipping.fifo");
const queue = QueueUrl.split("/").pop();
const relays = new Relays(
  2,
  `postgres:host=${process.env.PGHOST} user=${process.env.PGUSER} dbname=${process.env.PGDATABASE}`,
  "queue",
);
const workers = new Workers(new URL("worker.mjs", import.meta.url), 3, [QueueUrl]);

// A customer's orders, one transaction each: the order and its message are committed together, or neither is.
async function takeOrders(customer) {
  const shop = new pg.Client();
  await shop.connect();
  let rolledBack = 0;
  for (let number = 1; number <= ORDERS; number++) {
    await shop.query("BEGIN");
    await shop.query("INSERT INTO orders VALUES ($1, $2)", [customer, number]);
    await shop.query("SELECT tally.send($1, $2, $3)", [
      queue,
      JSON.stringify({ customer, number }),
      `customer-${customer}`,
    ]);
    await sleep(Math.random() * 100); // the transactions overlap, and end in another order than they began
    const isGood = Math.random() < 0.9;
    await shop.query(isGood ? "COMMIT" : "ROLLBACK");
    rolledBack += isGood ? 0 : 1;
  }
  await shop.end();
  return rolledBack;
}

const customers = Array.from({ length: CUSTOMERS }, (_, index) => takeOrders(index + 1));
for (let i = 0; i < 4; i++) {
  await sleep(500);
  await relays.killActive();
  workers.kill();
}
const rolledBack = (await Promise.all(customers)).reduce((sum, count) => sum + count);
await waitUntil(
  async () => (await db.query("SELECT count(*)::int AS n FROM tally.outbox")).rows[0].n === 0,
  "an empty outbox",
);
await waitUntil(async () => (await countMessages(QueueUrl)) === 0, "the last shipment");
workers.stop();
await relays.stop();

const {
  rows: [seen],
} = await db.query(`
  SELECT (SELECT count(*)::int FROM orders) AS orders, count(*)::int AS shipments,
         (SELECT count(*)::int FROM (SELECT customer, number FROM shipment JOIN orders USING (customer, number)
                                      GROUP BY 1, 2) s) AS shipped,
         (SELECT count(*)::int FROM (SELECT number < lag(number) OVER (PARTITION BY customer ORDER BY id) AS is_late
                                      FROM shipment) s
           WHERE is_late) AS late, (SELECT count(*)::int FROM tally.dead) AS parked
    FROM shipment`);
await db.end();
console.log(`${seen.orders} orders of ${CUSTOMERS} customers were committed, ${rolledBack} rolled back.
${relays.killed} times the active relay was killed, and the other one took over.
${workers.counts.killed} workers were killed.

in the database   ${seen.shipments} shipments of ${seen.shipped} orders,
                  ${seen.late} out of a customer's order, ${seen.parked} rows parked
as it should be   ${seen.orders} shipments of ${seen.orders} orders,
                  0 out of a customer's order, 0 rows parked`);
const isGood =
  seen.orders > 0 &&
  seen.shipments === seen.orders &&
  seen.shipped === seen.orders &&
  seen.late === 0 &&
  seen.parked === 0;
console.log(isGood ? "\nEach committed order shipped once, none that was rolled back." : "\nThat is WRONG.");
process.exit(isGood ? 0 : 1);
