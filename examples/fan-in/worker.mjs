// Works off units. It knows nothing of batches: deleting the message is what ends its unit.
import { DeleteMessageCommand, ReceiveMessageCommand } from "@aws-sdk/client-sqs";
import { sleep, sqs } from "../common/tally.mjs";

const [QueueUrl] = process.argv.slice(2);
for (;;) {
  const { Messages = [] } = await sqs.send(
    new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 5, VisibilityTimeout: 2 }),
  );
  for (const { ReceiptHandle } of Messages) {
    await sleep(5 + Math.random() * 10);
    await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
  }
}
