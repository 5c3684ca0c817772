// 1,000 units of work, a report that waits for all of them, and a completion message; workers die meanwhile.
import { DeleteMessageCommand, ReceiveMessageCommand, SendMessageCommand } from "@aws-sdk/client-sqs";
import { createQueue, sendAll, sleep, sqs, tally, Workers } from "../common/tally.mjs";

const UNITS = 1000;
const KILLS = 10; // of workers, one a second: where a machine is slow to start them, they get to work all the same
const BatchId = `invoices-${Date.now()}`;
const jobs = await createQueue("jobs");
const reports = await createQueue("reports");
const done = await createQueue("done");
const attribute = (StringValue) => ({ DataType: "String", StringValue });

// The batch completes when it has had 1,000 units and each has ended, and says so with a message in `done`.
await tally("CreateBatch", { BatchId, Total: UNITS, OnComplete: { QueueUrl: done } });

// The report is sent first of all. It stays in the queue, undelivered, until the batch has ended well.
const { MessageId: reportId } = await sqs.send(
  new SendMessageCommand({
    QueueUrl: reports,
    MessageBody: "write the report",
    MessageAttributes: { "Tally.After": attribute(`batch:${BatchId}`) },
  }),
);

await sendAll(
  jobs,
  Array.from({ length: UNITS }, (_, unit) => ({
    MessageBody: `invoice ${unit}`,
    MessageAttributes: { "Tally.Batch": attribute(BatchId) },
  })),
);
console.log(`${UNITS} units and one report are sent. Asked why the report does not run, the server says:`);
const { State, Why } = await tally("ExplainMessage", { QueueUrl: reports, MessageId: reportId });
console.log(`  ${State}: ${Why.map((reason) => reason.Text ?? reason).join(" ")}`);

const workers = new Workers(new URL("worker.mjs", import.meta.url), 4, [jobs]);
const killing = setInterval(() => workers.counts.killed < KILLS && workers.kill(), 1000);

// Takes what a queue has, for as long as nothing else is expected: a second message would be found.
async function receive(QueueUrl, WaitTimeSeconds) {
  const { Messages = [] } = await sqs.send(new ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds }));
  for (const { ReceiptHandle } of Messages) await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
  return Messages.map(({ Body }) => Body);
}

const ran = [];
let remaining = UNITS;
for (const start = Date.now(); ran.length === 0 && Date.now() - start < 150_000;) {
  const early = await receive(reports, 1);
  ({ Remaining: remaining } = await tally("DescribeBatch", { BatchId }));
  ran.push(...early.map((body) => ({ body, remaining })));
  if (early.length === 0) console.log(`  ${remaining} units to go, and no report`);
}
clearInterval(killing);
await sleep(1000); // a second report would be delivered now
ran.push(...(await receive(reports, 1)).map((body) => ({ body, remaining })));
workers.stop();
const completions = await receive(done, 5);
completions.push(...(await receive(done, 1)));

console.log(`\n${workers.counts.killed} workers were killed.`);
console.log(
  `The report ran ${ran.length === 1 ? "once" : `${ran.length} times`}, with ${ran[0]?.remaining} units left to do.`,
);
console.log(`Completion messages: ${completions.length}\n  ${completions.join("\n  ")}`);
const isGood =
  ran.length === 1 &&
  ran[0].remaining === 0 &&
  completions.length === 1 &&
  JSON.parse(completions[0]).succeeded === UNITS;
console.log(isGood ? "Once each, after all." : "That is WRONG.");
process.exit(isGood ? 0 : 1);
