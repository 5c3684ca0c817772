// The inbox of a consumer: which messages have had their effect, in the database of the effect.
import { isMysql, onceInMysql } from "./inbox_mysql.js";
import { Message } from "./message.js";

/** The effect of the message is committed. A Worker deletes the message then. */
export class AlreadyDone extends Error {
  name = "AlreadyDone";
}

export async function once(db, message, effect, { consumer = "", schema = "tally" } = {}) {
  if (!/^[a-z_][a-z0-9_]*$/i.test(schema)) throw new TypeError(`schema must be a name, not '${schema}'`);
  const note = { id: idOf(message), consumer, schema };
  if (isMysql(db)) return onceInMysql(db, note, effect, alreadyDone);
  if (typeof db.query === "function") return onceInPostgres(db, note, effect);
  if (typeof db.prepare === "function") return onceInSqlite(db, note, effect);
  throw new TypeError(
    "once() takes a Client or Pool of pg, those of mysql2, or a database of node:sqlite or better-sqlite3",
  );
}

function idOf(message) {
  if (typeof message === "string") return message;
  const raw = message instanceof Message ? message.raw : message;
  return raw.MessageAttributes?.["Tally.OutboxId"]?.StringValue ?? raw.MessageId;
}

const asyncEffect = () =>
  new TypeError("the effect in SQLite must not be async: other work on this connection would join it");
const alreadyDone = (id) => new AlreadyDone(`the effect of message ${id} is committed`);

const ACTIVE_TRANSACTION = "25001"; // an SQLSTATE

// --- PostgreSQL ------------------------------------------------------------------------------------------------------

async function onceInPostgres(db, note, effect) {
  if (!("totalCount" in db)) return inTransaction(db, note, effect);
  const client = await db.connect(); // it is a pool
  let broken;
  const noteBroken = (error) => (broken = error);
  client.on("error", noteBroken); // without a listener, a connection that breaks would end the process
  try {
    return await inTransaction(client, note, effect, noteBroken);
  } finally {
    client.off("error", noteBroken);
    client.release(broken);
  }
}

async function inTransaction(client, { id, consumer, schema }, effect, noteBroken = () => {}) {
  await begin(client);
  try {
    const { rows } = await client.query(`SELECT ${schema}.once($1, $2) AS is_first`, [id, consumer]);
    if (!rows[0].is_first) throw alreadyDone(id);
    const result = await effect(client);
    await commit(client);
    return result;
  } catch (error) {
    await client.query("ROLLBACK").catch(noteBroken);
    throw error;
  }
}

/** In a transaction that is under way, BEGIN only warns. Our COMMIT would commit the work of somebody else, and a
 *  ROLLBACK of theirs would undo our note, but not what we do behind it. */
async function begin(client) {
  let isInTransaction = false;
  const heed = ({ code }) => (isInTransaction ||= code === ACTIVE_TRANSACTION);
  client.on?.("notice", heed);
  try {
    await client.query("BEGIN");
  } finally {
    client.off?.("notice", heed);
  }
  if (!isInTransaction) return;
  throw new Error("the client is in a transaction: take a Pool, or a client that nothing else uses meanwhile");
}

/** PostgreSQL answers COMMIT with ROLLBACK if a statement had failed, also when the effect made light of it. */
async function commit(client) {
  const { command } = await client.query("COMMIT");
  if (command === "COMMIT") return;
  throw new Error("the transaction was rolled back, because one of its statements had failed");
}

// --- SQLite ----------------------------------------------------------------------------------------------------------

function onceInSqlite(db, { id, consumer, schema }, effect) {
  if (effect.constructor.name === "AsyncFunction") throw asyncEffect(); // before it does something
  db.exec("BEGIN IMMEDIATE");
  try {
    const insert = db.prepare(`INSERT INTO ${schema}_inbox(consumer, message_id) VALUES (?, ?) ON CONFLICT DO NOTHING`);
    if (Number(insert.run(consumer, id).changes) === 0) throw alreadyDone(id);
    const result = effect(db);
    if (typeof result?.then === "function") throw asyncEffect();
    db.exec("COMMIT");
    return result;
  } catch (error) {
    if (db.isTransaction ?? db.inTransaction ?? true) db.exec("ROLLBACK");
    throw error;
  }
}
