// once() in PostgreSQL, and in SQLite where Node.js has it. Run by test_client_js.py in a database with the inbox.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { AlreadyDone, Message, once } from "@tally-queue/client";
import pg from "pg";

const db = new pg.Pool();
await db.query("CREATE TABLE effect (n int)");
const affect = (connection) => connection.query("INSERT INTO effect VALUES (1)");
const count = async () => Number((await db.query("SELECT count(*) FROM effect")).rows[0].count);

// What may be given as a message, and as a connection.
const client = await db.connect();
const relayed = { MessageId: "m-3", MessageAttributes: { "Tally.OutboxId": { StringValue: "uid" } } };
for (const message of ["m-1", { MessageId: "m-2" }, relayed, new Message("q", { MessageId: "m-4" })])
  for (const [index, connection] of [db, client, db].entries()) {
    const work = once(connection, message, affect);
    if (index === 0) assert.equal((await work).rowCount, 1);
    else await assert.rejects(work, AlreadyDone);
  }
await assert.rejects(once(db, "uid", affect), /the effect of message uid is committed/);
await once(db, "m-1", affect, { consumer: "another" });
assert.equal(await count(), 5);

// An effect that fails, and one that makes light of it, are not there, and may be tried again.
const fail = async (connection) => {
  await affect(connection);
  throw new RangeError("no");
};
const belittle = async (connection) => {
  await affect(connection);
  await connection.query("SELECT 1 / 0").catch(() => {});
};
await assert.rejects(once(db, "m-5", fail), RangeError);
await assert.rejects(once(client, "m-5", belittle), /was rolled back, because one of its statements had failed/);
await once(client, "m-5", affect);
assert.equal(await count(), 6);

// A connection that breaks is not used again.
const kill = (connection) => connection.query("SELECT pg_terminate_backend(pg_backend_pid())");
db.on("error", () => {});
await assert.rejects(once(db, "m-6", kill));
await once(db, "m-6", affect);

// Two at once: the second waits for the first.
const slowly = async (connection) => {
  await affect(connection);
  await sleep(300);
};
const outcomes = await Promise.allSettled([once(db, "m-7", slowly), once(db, "m-7", slowly)]);
assert.deepEqual(outcomes.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
assert.equal(await count(), 8);

// A client whose transaction somebody else has begun: its COMMIT would be ours, and its ROLLBACK would take our note.
const [first, second] = await Promise.allSettled([once(client, "m-8", slowly), once(client, "m-9", affect)]);
assert.equal(first.status, "fulfilled");
assert.match(second.reason.message, /the client is in a transaction/);
await client.query("BEGIN");
await affect(client);
await assert.rejects(once(client, "m-9", affect), /the client is in a transaction/);
await client.query("ROLLBACK");
await once(client, "m-9", affect);
assert.equal(await count(), 10);

await assert.rejects(once(db, "m", affect, { schema: "a; b" }), /schema must be a name/);
await assert.rejects(once({}, "m", affect), /once\(\) takes a Client or Pool of pg/);
client.release();
await db.end();

// Node.js 22.5 and later have the one; the other is tried where it is installed.
const { DatabaseSync } = await import("node:sqlite").catch(() => ({}));
const { default: Database } = await import("better-sqlite3").catch(() => ({}));
for (const Sqlite of [DatabaseSync, Database].filter(Boolean)) {
  const shop = new Sqlite(":memory:");
  shop.exec(`${process.env.SQLITE_SCHEMA}; CREATE TABLE effect (n int)`);
  const book = (connection) => connection.prepare("INSERT INTO effect VALUES (1)").run().changes;
  assert.equal(await once(shop, "m", book), 1);
  await assert.rejects(once(shop, "m", book), AlreadyDone);
  const never = async () => assert.fail("it was called");
  await assert.rejects(once(shop, "n", never), /must not be async/);
  await assert.rejects(once(shop, "n", (connection) => Promise.resolve(book(connection))), /must not be async/);
  await assert.rejects(once(shop, "n", (connection) => connection.exec("ROLLBACK; nonsense")), /syntax error/);
  assert.equal(await once(shop, "n", book), 1);
  assert.equal(shop.prepare("SELECT count(*) AS n FROM effect").get().n, 2);
  console.log(`${Sqlite.name}, too`);
}
