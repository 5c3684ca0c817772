// once() in MySQL, through mysql2. Run by test_client_js.py with the URL of a database with the inbox.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { AlreadyDone, Message, once } from "@tally-queue/client";
import callbacks from "mysql2";
import mysql from "mysql2/promise";

const url = process.argv[2];
const db = mysql.createPool(url);
await db.query("CREATE TABLE booking (n int)");
const affect = async (connection) => (await connection.query("INSERT INTO booking VALUES (1)"))[0].affectedRows;
const count = async () => (await db.query("SELECT count(*) AS n FROM booking"))[0][0].n;

// What may be given as a message, and as a connection.
const client = await db.getConnection();
const single = await mysql.createConnection(url);
const relayed = { MessageId: "m-3", MessageAttributes: { "Tally.OutboxId": { StringValue: "uid" } } };
for (const message of ["m-1", { MessageId: "m-2" }, relayed, new Message("q", { MessageId: "m-4" })])
  for (const [index, connection] of [db, client, single, db].entries()) {
    const work = once(connection, message, affect);
    if (index === 0) assert.equal(await work, 1);
    else await assert.rejects(work, AlreadyDone);
  }
await assert.rejects(once(db, "uid", affect), /the effect of message uid is committed/);
await once(db, "m-1", affect, { consumer: "another" });
assert.equal(await count(), 5);

// Rows that are no objects, a connection that is not in autocommit, and the half of mysql2 that has callbacks.
const odd = await mysql.createConnection({ uri: url, rowsAsArray: true, namedPlaceholders: true });
await odd.query("SET autocommit = 0");
const old = [callbacks.createPool(url), callbacks.createConnection(url)];
for (const [index, connection] of [odd, ...old].entries()) {
  await once(connection, `odd-${index}`, affect);
  await assert.rejects(once(connection, `odd-${index}`, affect), AlreadyDone);
}
await odd.end();
for (const connection of old) await connection.promise().end();
assert.equal(await count(), 8);

// An effect that fails is not there, and may be tried again.
const fail = async (connection) => {
  await affect(connection);
  throw new RangeError("no");
};
await assert.rejects(once(db, "m-5", fail), RangeError);
await once(client, "m-5", affect);
assert.equal(await count(), 9);

// An effect of which the server takes back everything, and that makes light of it.
const deadlock = async (connection) => {
  await affect(connection);
  await connection.query("ROLLBACK");
};
await assert.rejects(once(db, "m-6", deadlock), /the transaction had ended before its COMMIT/);
await once(db, "m-6", affect);
const define = (connection) => connection.query("CREATE TABLE other (n int)");
await assert.rejects(once(db, "m-7", define), /the transaction had ended before its COMMIT/);
await assert.rejects(once(db, "m-7", define), AlreadyDone);
assert.equal(await count(), 10);

// What somebody else has been told is not taken for this message.
const other = (connection) => connection.query("CALL tally_once_or_raise('m-6', '')");
await assert.rejects(once(db, "m-8", other), { sqlState: "TALLY", name: "Error" });
await once(db, "m-8", affect);

// A connection that breaks is not used again.
await assert.rejects(once(db, "m-9", async (connection) => {
  const [[{ id }]] = await connection.query("SELECT CONNECTION_ID() AS id");
  await single.query("KILL ?", [id]);
  await sleep(100);
  await affect(connection);
}));
await once(db, "m-9", affect);
assert.equal(await count(), 12);

// Two at once: the second waits for the first.
const slowly = async (connection) => {
  await affect(connection);
  await sleep(300);
};
const outcomes = await Promise.allSettled([once(db, "m-10", slowly), once(db, "m-10", slowly)]);
assert.deepEqual(outcomes.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
assert.ok(outcomes.find(({ status }) => status === "rejected").reason instanceof AlreadyDone);
assert.equal(await count(), 13);

// A connection whose transaction somebody else has begun: ours would commit it.
const [first, second] = await Promise.allSettled([once(client, "m-11", slowly), once(client, "m-12", affect)]);
assert.equal(first.status, "fulfilled");
assert.match(second.reason.message, /the connection is in a transaction/);
await client.beginTransaction();
await affect(client);
await assert.rejects(once(client, "m-12", affect), /the connection is in a transaction/);
await client.rollback();
await once(client, "m-12", affect);
assert.equal(await count(), 15);

await assert.rejects(once(db, "m", affect, { schema: "a; b" }), /schema must be a name/);
await db.query("DROP PROCEDURE tally_once_or_raise");
await assert.rejects(once(db, "m", affect), /tally_once_or_raise does not exist/);
assert.equal(db.pool._allConnections.length - db.pool._freeConnections.length, 1, "only client is out");
client.release();
await single.end();
await db.end();
