// Publishes comments. Nothing here knows of order: a FIFO queue gives out the next comment of a post when the one
// before has been deleted, and the comments of other posts meanwhile.
import { appendFileSync } from "node:fs";
import { DeleteMessageCommand, ReceiveMessageCommand } from "@aws-sdk/client-sqs";
import { sleep, sqs, tally } from "../common/tally.mjs";

const [QueueUrl, published] = process.argv.slice(2);

async function publish({ post, number }) {
  await sleep(10 + Math.random() * 40);
  if (Math.random() < 0.03) throw new Error("the spam filter does not answer");
  appendFileSync(published, `${post} ${number}\n`);
  await sleep(Math.random() * 20); // here a kill hurts most: published, but not yet deleted
}

for (;;) {
  const { Messages = [] } = await sqs.send(
    new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 1, WaitTimeSeconds: 5, VisibilityTimeout: 2 }),
  );
  for (const { Body, ReceiptHandle } of Messages) {
    try {
      await publish(JSON.parse(Body));
      await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
    } catch (error) {
      process.send({ count: "failed" });
      // it is another's now
      await tally("FailMessage", { QueueUrl, ReceiptHandle, Reason: error.message }).catch(() => {});
    }
  }
}
