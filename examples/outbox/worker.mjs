// Ships orders: the effect, the inbox and the ack in one transaction. There is no DeleteMessage: a relay deletes what
// was acked.
import { ReceiveMessageCommand } from "@aws-sdk/client-sqs";
import pg from "pg";
import { sleep, sqs } from "../common/tally.mjs";

const [QueueUrl] = process.argv.slice(2);
const db = new pg.Client();
await db.connect();

async function ship(messageId, receiptHandle, { customer, number }) {
  await db.query("BEGIN");
  const {
    rows: [{ first }],
  } = await db.query("SELECT tally.once($1) AS first", [messageId]);
  if (first) await db.query("INSERT INTO shipment (customer, number) VALUES ($1, $2)", [customer, number]);
  await sleep(Math.random() * 20); // the work
  await db.query("SELECT tally.ack($1)", [receiptHandle]);
  await db.query("COMMIT");
}

for (;;) {
  const { Messages = [] } = await sqs.send(
    new ReceiveMessageCommand({
      QueueUrl,
      MaxNumberOfMessages: 1,
      WaitTimeSeconds: 5,
      VisibilityTimeout: 3,
      MessageAttributeNames: ["Tally.OutboxId"],
    }),
  );
  for (const { Body, ReceiptHandle, MessageAttributes } of Messages)
    await ship(MessageAttributes["Tally.OutboxId"].StringValue, ReceiptHandle, JSON.parse(Body));
}
