// Books payments in PostgreSQL, each once, however often its message comes. Any number of these may run, and be killed.
//
//   node worker.mjs QUEUE        TALLY_ENDPOINT says where the server is, and PGHOST … where the database is
//
// The body of a message is the account and the amount: "ann 30". Make the tables once:
//   tally relay schema --type postgres | psql
//   psql -c 'CREATE TABLE payment (account text, amount int)'
import { once, Reject, Worker } from "@tally-queue/client";
import pg from "pg";

const [queue] = process.argv.slice(2);
const db = new pg.Pool();
db.on("error", (error) => console.error(error.message)); // of a connection that was idle; another one is made

async function book(message) {
  const [account, amount, ...rest] = message.body.split(" ");
  if (!Number.isInteger(Number(amount)) || rest.length > 0)
    throw new Reject(`not an account and an amount: '${message.body}'`);
  await once(db, message, (connection) => connection.query("INSERT INTO payment VALUES ($1, $2)", [account, amount]));
}

await new Worker({ queue, handler: book, concurrency: 4, visibility: 10 }).run();
await db.end();
