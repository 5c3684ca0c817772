// A job of many messages, worked on four at a time, and its report, which comes once, after the last message.
//
//   node batch.mjs [COUNT]       TALLY_ENDPOINT says where the server is
import { randomUUID } from "node:crypto";
import { createClient, withBatch, Worker } from "@tally-queue/client";

const count = Number(process.argv[2] ?? 1000);
const job = `squares-${randomUUID().slice(0, 8)}`;
const client = createClient();
const [numbers, reports] = [`${job}-numbers`, `${job}-reports`];
for (const QueueName of [numbers, reports]) await client.sqs.createQueue({ QueueName });

await withBatch(client, { id: job, onComplete: reports, expiresAfter: 3600 }, (batch) =>
  batch.sendAll(numbers, Array.from({ length: count }, (_, number) => String(number))),
);

let sum = 0;
const square = ({ body }) => void (sum += Number(body) ** 2);
await new Worker({ queue: numbers, handler: square, client, concurrency: 4, untilEmpty: true }).run();

function report({ body }) {
  const { status, succeeded, total } = JSON.parse(body);
  console.log(`${status}: ${succeeded} of ${total}, the sum of their squares is ${sum}`);
}

await new Worker({ queue: reports, handler: report, client, untilEmpty: true }).run();
for (const QueueUrl of [numbers, reports]) await client.sqs.deleteQueue({ QueueUrl });
