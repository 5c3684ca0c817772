// Books payments: the effect, the inbox and the fencing token in one transaction.
import { DeleteMessageCommand, ReceiveMessageCommand } from "@aws-sdk/client-sqs";
import pg from "pg";
import { sleep, sqs } from "../common/tally.mjs";

const [QueueUrl] = process.argv.slice(2);
const db = new pg.Client();
await db.connect();

// Returns what became of it: "booked", "duplicate" (booked before) or "fenced" (another worker has the message by now).
async function book(messageId, token, { payment, account, amount }) {
  await db.query("BEGIN");
  // Nobody may write to an account who holds an older delivery than the newest that wrote to it.
  const fence = await db.query("UPDATE account SET token = $1 WHERE id = $2 AND token < $1", [token, account]);
  if (fence.rowCount === 0) {
    await db.query("ROLLBACK");
    return "fenced";
  }
  const inbox = await db.query("INSERT INTO inbox (message_id) VALUES ($1) ON CONFLICT DO NOTHING", [messageId]);
  if (inbox.rowCount === 1) {
    await db.query("INSERT INTO booking VALUES ($1, $2, $3)", [payment, account, amount]);
    await db.query("UPDATE account SET balance = balance + $1 WHERE id = $2", [amount, account]);
  }
  await db.query("COMMIT");
  return inbox.rowCount === 1 ? "booked" : "duplicate";
}

for (;;) {
  const { Messages = [] } = await sqs.send(
    new ReceiveMessageCommand({
      QueueUrl,
      MaxNumberOfMessages: 1,
      WaitTimeSeconds: 5,
      VisibilityTimeout: 2,
      MessageAttributeNames: ["Tally.FencingToken"],
    }),
  );
  for (const { MessageId, Body, ReceiptHandle, MessageAttributes } of Messages) {
    await sleep(20 + Math.random() * 60); // the work, during which this process may be frozen
    const token = MessageAttributes["Tally.FencingToken"].StringValue;
    const outcome = await book(MessageId, token, JSON.parse(Body));
    process.send({ count: outcome });
    if (outcome === "fenced") continue; // it is not ours any more: neither to delete nor to fail
    if (outcome === "booked" && Math.random() < 0.03) {
      process.send({ count: "died" }, () => process.kill(process.pid, "SIGKILL")); // the gap that no queue can close
      await sleep(10_000);
    }
    try {
      await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
    } catch {
      process.send({ count: "late" }); // booked in time, deleted too late: who has it now finds it in the inbox
    }
  }
}
