// Books payments in MySQL, each once, as examples/worker.mjs does in PostgreSQL. Run, and killed, by test_client_js.py.
import { once, Worker } from "@tally-queue/client";
import mysql from "mysql2/promise";

const db = mysql.createPool(process.argv[2]);
const book = (message) =>
  once(db, message, (connection) => connection.execute("INSERT INTO payment VALUES (?, ?)", message.body.split(" ")));

await new Worker({ queue: "payments", handler: book, concurrency: 4, visibility: 10 }).run();
await db.end();
