// The same as sdk_repeats.py, with the AWS SDK for JavaScript: what it sends to a FIFO queue comes once, and in the
// order of its group, though it repeats what got a 503 or no answer.
//
//   node sdk_repeats.mjs ENDPOINT QUEUE    until standard input ends; then, when all has come, one line of JSON

import { randomUUID } from "node:crypto";
import {
  CreateQueueCommand, DeleteMessageCommand, ReceiveMessageCommand, SendMessageCommand, SQSClient,
} from "@aws-sdk/client-sqs";

const GROUPS = 3, REPEATS = 15, BACKLOG = 50;
const [endpoint, name] = process.argv.slice(2);

function makeClient() {
  return new SQSClient({
    endpoint, region: "us-east-1", maxAttempts: REPEATS,
    credentials: { accessKeyId: "any", secretAccessKey: "thing" },
  });
}

const faults = [], next = Array.from({ length: GROUPS }, (_, group) => group);
let sent = 0, taken = 0, isEnding = false, hasSent = false;

async function produce(client, queue) {
  while (!isEnding && faults.length === 0) {
    if (sent - taken > BACKLOG) {
      await new Promise((done) => setTimeout(done, 20));
      continue;
    }
    await client.send(new SendMessageCommand({
      QueueUrl: queue, MessageBody: `${sent}`, MessageDeduplicationId: `${sent}`, MessageGroupId: `g${sent % GROUPS}`,
    }));
    sent++;
  }
  hasSent = true;
}

function take(number) {
  const group = number % GROUPS;
  if (number !== next[group])
    faults.push(`message ${number} came, and message ${next[group]} of its group was due`);
  next[group] = number + GROUPS;
  taken++;
}

async function consume(client, queue) {
  while (faults.length === 0) {
    const isLast = hasSent;
    const { Messages = [] } = await client.send(new ReceiveMessageCommand({
      QueueUrl: queue, MaxNumberOfMessages: 10, WaitTimeSeconds: 1, ReceiveRequestAttemptId: randomUUID(),
    }));
    for (const message of Messages) {
      take(Number(message.Body));
      await client.send(new DeleteMessageCommand({ QueueUrl: queue, ReceiptHandle: message.ReceiptHandle }));
    }
    if (isLast && Messages.length === 0)
      return;
  }
}

process.stdin.on("end", () => { isEnding = true; }).resume();
const client = makeClient();
const { QueueUrl } = await client.send(new CreateQueueCommand({
  QueueName: name, Attributes: { FifoQueue: "true", VisibilityTimeout: "120" },
}));
console.log("begun");
await Promise.all([produce(makeClient(), QueueUrl), consume(client, QueueUrl)])
  .catch((error) => faults.push(`${error.name}: ${error.message}`));
console.log(JSON.stringify({ sent, taken, next, faults }));
process.exit(0);
