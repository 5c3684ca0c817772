// Programs that use sqs-consumer and sqs-producer as they come from npm. Run by test_clients_sqs_consumer.py: node
// consumer_life.mjs ENDPOINT SCENARIO; ends with status 0 if everything was as it must be.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import * as aws from "@aws-sdk/client-sqs";
import { Consumer } from "sqs-consumer";
import { Producer } from "sqs-producer";

const [endpoint, wanted] = process.argv.slice(2);
const COUNT = Number(process.env.COUNT ?? 1000);
const sqs = new aws.SQSClient({
  endpoint,
  region: "eu-west-1",
  credentials: { accessKeyId: "any", secretAccessKey: "thing" },
});

async function makeQueue(name, attributes) {
  return (await sqs.send(new aws.CreateQueueCommand({ QueueName: name, Attributes: attributes }))).QueueUrl;
}

/** [visible, in flight, delayed] */
async function counts(queueUrl) {
  const { Attributes } = await sqs.send(
    new aws.GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ["All"] }),
  );
  return ["", "NotVisible", "Delayed"].map((kind) => Number(Attributes[`ApproximateNumberOfMessages${kind}`]));
}

async function until(claim, seconds, what) {
  const deadline = Date.now() + seconds * 1000;
  while (!(await claim())) {
    assert.ok(Date.now() < deadline, `${what} did not happen within ${seconds} s`);
    await sleep(20);
  }
}

/** Starts a consumer. What it complains about ends the program, but for what the scenario expects and for its own
 *  aborts. */
function consume(options, expected = /^$/) {
  const consumer = Consumer.create({ sqs, waitTimeSeconds: 20, ...options });
  for (const event of ["error", "processing_error", "timeout_error"])
    consumer.on(event, (error) => {
      const isAbort = !consumer.status.isRunning && /abort/i.test(error.message);
      if (!isAbort && !expected.test(error.message)) throw error;
    });
  consumer.start();
  return consumer;
}

const scenarios = {
  /** Four consumers, batches and single messages. Every twentieth fails at first and comes back; some take longer
   *  than the visibility timeout, which the heartbeat prolongs; one consumer is aborted in the middle. */
  async nothing_is_lost() {
    const queueUrl = await makeQueue("jobs", { VisibilityTimeout: "6" });
    const producer = Producer.create({ queueUrl, sqs });
    const ids = [...Array(COUNT).keys()].map(String);
    const sent = await producer.send(
      ids.map((id) => ({
        id,
        body: JSON.stringify({ job: id }),
        messageAttributes: { job: { DataType: "Number", StringValue: id } },
      })),
    );
    assert.equal(sent.length, COUNT);
    assert.equal(await producer.queueSize(), COUNT);

    const done = new Map(); // how often each job was done
    const failed = new Set();
    let isAborted = false;
    const shared = {
      queueUrl,
      batchSize: 10,
      visibilityTimeout: 6,
      heartbeatInterval: 1,
      terminateVisibilityTimeout: true,
      messageAttributeNames: ["job"],
      messageSystemAttributeNames: ["ApproximateReceiveCount"],
    };
    const work = async (message) => {
      const { job } = JSON.parse(message.Body);
      assert.equal(message.MessageAttributes.job.StringValue, job);
      if (Number(job) % 20 === 7 && !failed.has(job)) {
        failed.add(job);
        // What the aborted one was just being given comes again, though nobody worked at it.
        assert.ok(message.Attributes.ApproximateReceiveCount === "1" || isAborted);
        throw new Error("not today");
      }
      await sleep(Number(job) % 250 === 3 ? 7500 : 5);
      done.set(job, (done.get(job) ?? 0) + 1);
    };
    const settle = async (messages) => {
      const results = await Promise.allSettled(messages.map(work));
      return messages.filter((_, i) => results[i].status === "fulfilled"); // only these are deleted
    };
    const consumers = [
      consume({ ...shared, handleMessage: work }, /not today/),
      consume({ ...shared, handleMessage: work }, /not today/),
      consume({ ...shared, handleMessageBatch: settle }),
    ];
    const aborted = consume({ ...shared, handleMessageBatch: settle });
    await until(() => done.size > COUNT / 4, 30, "a quarter");
    isAborted = true;
    aborted.stop({ abort: true });
    assert.equal(aborted.status.isRunning, false);

    await until(() => done.size === COUNT, 60, "the last job");
    await until(async () => (await counts(queueUrl)).every((count) => count === 0), 20, "an empty queue");
    for (const consumer of consumers) consumer.stop({ abort: true });
    const twice = [...done.values()].filter((times) => times > 1).length;
    console.log(`${COUNT} jobs, ${failed.size} failed once, ${twice} done more than once`);
    assert.equal(failed.size, ids.filter((id) => Number(id) % 20 === 7).length);
    assert.ok(twice <= 10, "more than the aborted consumer had"); // its deletes were aborted with it
  },

  /** Without a client of its own, the consumer sends to where its queue's URL points. A consumer that gave up while
   *  it waited takes nothing along: the next one gets the message at once, and it was received once. */
  async q54_an_aborted_long_poll_takes_nothing() {
    const queueUrl = await makeQueue("quiet.fifo", { FifoQueue: "true", ContentBasedDeduplication: "true" });
    const options = {
      sqs: undefined,
      queueUrl,
      region: "eu-west-1",
      suppressFifoWarning: true,
      messageSystemAttributeNames: ["All"],
    };
    const taken = [];
    const impatient = consume({ ...options, handleMessage: async (message) => void taken.push(message) });
    await sleep(300);
    impatient.stop({ abort: true });
    await sleep(100);
    const producer = Producer.create({ queueUrl, region: "eu-west-1" });
    const [sent] = await producer.send({ id: "1", body: "hello", groupId: "g" });
    const began = Date.now();
    const patient = consume({ ...options, handleMessage: async (message) => void taken.push(message) });
    await until(() => taken.length > 0, 5, "the message");
    assert.ok(Date.now() - began < 3000);
    assert.equal(taken[0].MessageId, sent.MessageId);
    assert.equal(taken[0].Attributes.ApproximateReceiveCount, "1");
    assert.equal(taken[0].Attributes.MessageGroupId, "g");
    await until(async () => (await counts(queueUrl)).every((count) => count === 0), 5, "the delete");
    patient.stop({ abort: true });
    patient.sqs.destroy();
    impatient.sqs.destroy();
    producer.sqs.destroy();
  },

  /** What the library makes of Tally's errors: the SDK's names and statuses; a batch with one bad entry names it. */
  async q3_errors_are_the_sdks() {
    const queueUrl = await makeQueue("strict", { MaximumMessageSize: "1024" });
    const errors = [];
    const consumer = Consumer.create({ sqs, queueUrl: `${queueUrl}-gone`, handleMessage: async () => {} });
    consumer.on("error", (error) => errors.push(error));
    consumer.start();
    await until(() => errors.length > 0, 10, "an error");
    consumer.stop();
    assert.equal(errors[0].name, "SQSError");
    assert.equal(errors[0].code, "QueueDoesNotExist");
    assert.equal(errors[0].statusCode, 400);
    const producer = Producer.create({ queueUrl, sqs });
    const messages = [..."abc"].map((id) => ({ id, body: id === "b" ? "x".repeat(1025) : id }));
    await assert.rejects(producer.send(messages), { message: "Failed to send messages: b" });
    assert.equal(await producer.queueSize(), 2);
  },
};

await scenarios[wanted]();
sqs.destroy();
