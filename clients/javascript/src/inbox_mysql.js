// The inbox in MySQL and MariaDB, through mysql2.

const IN_TRANSACTION = 1; // a bit of the server's status, which stands in its answers
const NO_SUCH_SAVEPOINT = 1305; // an error of the server
const ALREADY_DONE = "TALLY"; // an SQLSTATE

export const isMysql = (db) => typeof db.beginTransaction === "function" || typeof db.getConnection === "function";

export async function onceInMysql(db, note, effect, alreadyDone) {
  const mysql = typeof db.promise === "function" ? db.promise() : db; // the other half of mysql2 has callbacks
  if (typeof mysql.getConnection !== "function") return inTransaction(mysql, note, effect, alreadyDone);
  const connection = await mysql.getConnection(); // it is a pool
  try {
    return await inTransaction(connection, note, effect, alreadyDone);
  } finally {
    connection.release();
  }
}

async function inTransaction(connection, { id, consumer, schema }, effect, alreadyDone) {
  await begin(connection);
  try {
    await connection.execute(`CALL ${schema}_once_or_raise(?, ?)`, [id, consumer]).catch((error) => {
      throw error.sqlState === ALREADY_DONE ? alreadyDone(id) : error;
    });
    const result = await effect(connection);
    await commit(connection);
    return result;
  } catch (error) {
    await connection.query("ROLLBACK").catch(() => connection.destroy());
    throw error;
  } finally {
    inUse.delete(connection.connection);
  }
}

const inUse = new WeakSet(); // connections with a transaction of ours, without what promise() wraps around each

/** In a transaction that is under way, START TRANSACTION would commit the work of somebody else. */
async function begin(connection) {
  const inner = connection.connection;
  const refuse = () => {
    throw new Error(
      "the connection is in a transaction: take a pool, or a connection that nothing else uses meanwhile",
    );
  };
  if (inUse.has(inner)) refuse();
  inUse.add(inner);
  try {
    const [{ serverStatus }] = await connection.query("DO 0");
    if (serverStatus & IN_TRANSACTION) refuse();
    await connection.query("START TRANSACTION");
    await connection.query("SAVEPOINT tally_once");
  } catch (error) {
    inUse.delete(inner);
    throw error;
  }
}

/** The savepoint is gone if the transaction has ended meanwhile: what came behind that is committed already. */
async function commit(connection) {
  await connection.query("RELEASE SAVEPOINT tally_once").catch((error) => {
    if (error.errno !== NO_SUCH_SAVEPOINT) throw error;
    throw new Error(
      "the transaction had ended before its COMMIT: " +
        "a deadlock rolled it back, or a statement such as CREATE committed it",
    );
  });
  await connection.query("COMMIT");
}
