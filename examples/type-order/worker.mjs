// Creates posts, or comments, whatever its queue holds. Nothing here knows that one must come before the other.
import { appendFileSync } from "node:fs";
import { DeleteMessageCommand, ReceiveMessageCommand } from "@aws-sdk/client-sqs";
import { sleep, sqs, tally } from "../common/tally.mjs";

const [QueueUrl, done] = process.argv.slice(2);

async function create({ type, post, number }) {
  await sleep(type === "create-post" ? 20 + Math.random() * 60 : 2);
  if (Math.random() < 0.05) throw new Error("the database does not answer");
  appendFileSync(done, type === "create-post" ? `${post}\n` : `${post} ${number}\n`);
}

for (;;) {
  const { Messages = [] } = await sqs.send(
    new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 1, WaitTimeSeconds: 5, VisibilityTimeout: 2 }),
  );
  for (const { Body, ReceiptHandle } of Messages) {
    try {
      await create(JSON.parse(Body));
      await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
    } catch (error) {
      process.send({ count: "failed" });
      // it is another's now
      await tally("FailMessage", { QueueUrl, ReceiptHandle, Reason: error.message }).catch(() => {});
    }
  }
}
