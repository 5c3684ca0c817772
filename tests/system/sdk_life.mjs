// The whole life of messages, and of a batch, through the AWS SDK for JavaScript v3 as it comes from npm.
// Run by test_sdk_js.py: node sdk_life.mjs ENDPOINT SCENARIO; ends with status 0 if everything was as it must be.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import http from "node:http";
import * as sqs from "@aws-sdk/client-sqs";

const [endpoint, wanted] = process.argv.slice(2);
const client = new sqs.SQSClient({
  endpoint,
  region: "us-east-1",
  credentials: { accessKeyId: "any", secretAccessKey: "thing" },
  maxAttempts: 1,
});

/** call("SendMessage", {...}): one command of the SDK. */
const call = (name, input = {}) => client.send(new sqs[`${name}Command`](input));
const md5 = (text) => createHash("md5").update(text).digest("hex");
const text = (value) => ({ DataType: "String", StringValue: value });

async function makeQueue(name, attributes) {
  return (await call("CreateQueue", { QueueName: name, Attributes: attributes })).QueueUrl;
}

/** Every message that is there now, up to `count` a call. */
async function receive(url, more = {}) {
  const answer = await call("ReceiveMessage", { QueueUrl: url, MaxNumberOfMessages: 10, ...more });
  return answer.Messages ?? [];
}

/** A Tally action as a plain request: what a client without any SDK does. */
async function tally(action, body) {
  const answer = await fetch(endpoint, {
    method: "POST",
    headers: { "Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": `Tally.${action}` },
    body: JSON.stringify(body),
  });
  const reply = await answer.text();
  const json = reply === "" ? {} : JSON.parse(reply);
  if (!answer.ok)
    throw Object.assign(new Error(json.message), { name: json.__type.split("#")[1], status: answer.status });
  return json;
}

/** A Tally action through the SDK's own client: its connections, its signature, its errors. A command of the SDK
 *  lends its form; one middleware names the action and the parameters, another takes the reply before the SDK looks
 *  for its own fields. */
async function tallyBySdk(action, body) {
  const command = new sqs.ListQueuesCommand({});
  let reply;
  command.middlewareStack.add(
    (next) => (args) => {
      args.request.headers["x-amz-target"] = `Tally.${action}`;
      args.request.body = JSON.stringify(body);
      args.request.headers["content-length"] = String(Buffer.byteLength(args.request.body));
      return next(args);
    },
    { step: "build", priority: "low" },
  );
  command.middlewareStack.addRelativeTo(
    (next) => async (args) => {
      const result = await next(args);
      if (result.response.statusCode === 200) {
        const chunks = [];
        for await (const chunk of result.response.body) chunks.push(chunk);
        const bytes = Buffer.concat(chunks);
        reply = bytes.length === 0 ? {} : JSON.parse(bytes.toString());
        result.response.body = Buffer.from("{}");
      }
      return result;
    },
    { relation: "after", toMiddleware: "deserializerMiddleware" },
  );
  await client.send(command);
  return reply;
}

const scenarios = {
  async queues() {
    assert.equal((await call("ListQueues")).QueueUrls, undefined);
    const url = await makeQueue("first", { VisibilityTimeout: "5", DelaySeconds: "0" });
    assert.equal(url, `${endpoint}/000000000000/first`);
    assert.equal(await makeQueue("first"), url);
    assert.equal(await makeQueue("first", { VisibilityTimeout: "5" }), url);
    await assert.rejects(makeQueue("first", { VisibilityTimeout: "6" }), sqs.QueueNameExists);
    assert.equal((await call("GetQueueUrl", { QueueName: "first" })).QueueUrl, url);

    for (let i = 0; i < 25; i++) await makeQueue(`many-${String(i).padStart(2, "0")}`);
    const pages = [];
    for await (const page of sqs.paginateListQueues({ client, pageSize: 10 }, { QueueNamePrefix: "many-" }))
      pages.push(page.QueueUrls);
    assert.deepEqual(
      pages.map((page) => page.length),
      [10, 10, 5],
    );
    assert.equal(new Set(pages.flat()).size, 25);
    assert.equal((await call("ListQueues")).QueueUrls.length, 26);
    assert.equal((await call("ListQueues", { QueueNamePrefix: "fir" })).QueueUrls.length, 1);

    const { Attributes: all } = await call("GetQueueAttributes", { QueueUrl: url, AttributeNames: ["All"] });
    assert.equal(all.QueueArn, "arn:aws:sqs:us-east-1:000000000000:first");
    assert.equal(all.VisibilityTimeout, "5");
    assert.equal(all.MaximumMessageSize, "1048576");
    assert.equal(all.MessageRetentionPeriod, "345600");
    assert.equal(all.ReceiveMessageWaitTimeSeconds, "0");
    assert.match(all.CreatedTimestamp, /^\d{10}$/);
    await call("SetQueueAttributes", {
      QueueUrl: url,
      Attributes: { VisibilityTimeout: "77", MaximumMessageSize: "2048" },
    });
    const some = await call("GetQueueAttributes", {
      QueueUrl: url,
      AttributeNames: ["VisibilityTimeout", "MaximumMessageSize"],
    });
    assert.deepEqual(some.Attributes, { VisibilityTimeout: "77", MaximumMessageSize: "2048" });
    assert.equal((await call("GetQueueAttributes", { QueueUrl: url })).Attributes, undefined);

    await call("DeleteQueue", { QueueUrl: url });
    await assert.rejects(call("GetQueueUrl", { QueueName: "first" }), sqs.QueueDoesNotExist);
    await assert.rejects(call("SendMessage", { QueueUrl: url, MessageBody: "a" }), sqs.QueueDoesNotExist);
  },

  async messages() {
    const url = await makeQueue("messages");
    const body = 'Grüße\r\n\t"&quot;" <tag> 🎉';
    const attributes = {
      color: text("blue"),
      count: { DataType: "Number.int", StringValue: "3" },
      blob: { DataType: "Binary", BinaryValue: new Uint8Array([1, 2, 3]) },
    };
    const sent = await call("SendMessage", {
      QueueUrl: url,
      MessageBody: body,
      MessageAttributes: attributes,
      MessageSystemAttributes: {
        AWSTraceHeader: text("Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"),
      },
      MessageGroupId: "tenant-1",
    });
    assert.equal(sent.MD5OfMessageBody, md5(body));
    assert.equal(sent.MD5OfMessageSystemAttributes, "5ae4d5d7636402d80f4eb6d213245a88");
    assert.match(sent.MessageId, /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/);

    // The SDK checks MD5OfBody itself.
    const [first] = await receive(url, {
      MessageAttributeNames: ["blob", "co.*"],
      MessageSystemAttributeNames: ["All"],
      VisibilityTimeout: 0,
    });
    assert.equal(first.Body, body);
    assert.equal(first.MessageId, sent.MessageId);
    assert.equal(first.MD5OfMessageAttributes, sent.MD5OfMessageAttributes);
    assert.equal(first.MessageAttributes.color.StringValue, "blue");
    assert.deepEqual({ ...first.MessageAttributes.count }, { DataType: "Number.int", StringValue: "3" });
    assert.deepEqual([...first.MessageAttributes.blob.BinaryValue], [1, 2, 3]);
    assert.equal(first.Attributes.ApproximateReceiveCount, "1");
    assert.equal(first.Attributes.MessageGroupId, "tenant-1");
    assert.ok(Math.abs(Number(first.Attributes.SentTimestamp) - Date.now()) < 600_000);
    assert.match(first.Attributes.AWSTraceHeader, /^Root=1-5759e988/);

    const filtered = async (names) =>
      Object.keys(
        (await receive(url, { MessageAttributeNames: names, VisibilityTimeout: 0 }))[0].MessageAttributes ?? {},
      ).sort();
    assert.deepEqual(await filtered(["color"]), ["color"]);
    assert.deepEqual(await filtered(["co.*"]), ["color", "count"]);
    assert.deepEqual(await filtered([".*"]), ["blob", "color", "count"]);
    assert.deepEqual(await filtered(["nothing", "§"]), []);
    const [plain] = await receive(url);
    assert.equal(plain.MessageAttributes, undefined);
    assert.equal(plain.MD5OfMessageAttributes, undefined);
    assert.equal(plain.Attributes, undefined);

    // In flight, then visible again by the heartbeat's opposite, then deleted.
    assert.deepEqual(await receive(url), []);
    await call("ChangeMessageVisibility", { QueueUrl: url, ReceiptHandle: plain.ReceiptHandle, VisibilityTimeout: 0 });
    const [again] = await receive(url, { AttributeNames: ["ApproximateReceiveCount"] });
    assert.deepEqual(again.Attributes, { ApproximateReceiveCount: "7" });
    await call("DeleteMessage", { QueueUrl: url, ReceiptHandle: again.ReceiptHandle });
    await call("DeleteMessage", { QueueUrl: url, ReceiptHandle: again.ReceiptHandle });
    assert.deepEqual(await receive(url), []);
    await assert.rejects(
      call("DeleteMessage", { QueueUrl: url, ReceiptHandle: "garbage" }),
      sqs.ReceiptHandleIsInvalid,
    );

    // A long poll is answered by the first message that comes.
    const polled = receive(url, { WaitTimeSeconds: 20 });
    await new Promise((resolve) => setTimeout(resolve, 100));
    await call("SendMessage", { QueueUrl: url, MessageBody: "wake up" });
    const [woken] = await polled;
    assert.equal(woken.Body, "wake up");
    await call("DeleteMessage", { QueueUrl: url, ReceiptHandle: woken.ReceiptHandle });

    await call("SendMessage", { QueueUrl: url, MessageBody: "later", DelaySeconds: 1 });
    assert.deepEqual(await receive(url), []);
    assert.equal((await receive(url, { WaitTimeSeconds: 20 }))[0].Body, "later");
    const before = Date.now();
    assert.deepEqual(await receive(url, { WaitTimeSeconds: 1 }), []);
    assert.ok(Date.now() - before >= 950);
  },

  async a_message_is_forwarded_as_it_came() {
    const here = await makeQueue("here");
    const there = await makeQueue("there");
    const ten = { blob: { DataType: "Binary", BinaryValue: new Uint8Array([0, 255]) } };
    for (let n = 0; n < 9; n++) ten[`a${n}`] = text(String(n));
    const sent = await call("SendMessage", { QueueUrl: here, MessageBody: "a", MessageAttributes: ten });
    const [message] = await receive(here, {
      MessageAttributeNames: ["All"],
      MessageSystemAttributeNames: ["Tally.FencingToken"],
    });
    assert.ok(Number(message.Attributes["Tally.FencingToken"]) > 0);
    const on = await call("SendMessage", {
      QueueUrl: there,
      MessageBody: message.Body,
      MessageAttributes: message.MessageAttributes,
    });
    const [came] = await receive(there, { MessageAttributeNames: ["All"] });
    assert.deepEqual(Object.keys(came.MessageAttributes).sort(), Object.keys(ten).sort());
    assert.equal(on.MD5OfMessageAttributes, sent.MD5OfMessageAttributes);
    assert.equal(came.MD5OfMessageAttributes, sent.MD5OfMessageAttributes);
  },

  async batches_of_sqs() {
    const url = await makeQueue("tens", { MaximumMessageSize: "1024" });
    const ids = [...Array(10).keys()].map(String);
    const sent = await call("SendMessageBatch", {
      QueueUrl: url,
      Entries: ids.map((Id) => ({
        Id,
        MessageBody: Id === "3" ? "x".repeat(1025) : Id === "4" ? "bad \u0001" : `body ${Id}`,
        MessageAttributes:
          Id === "5" ? { n: { DataType: "Number", StringValue: "abc" } } : Id === "6" ? { a: text("b") } : undefined,
      })),
    });
    assert.deepEqual(
      sent.Successful.map((entry) => entry.Id),
      ["0", "1", "2", "6", "7", "8", "9"],
    );
    assert.deepEqual(
      sent.Failed.map((entry) => [entry.Id, entry.Code, entry.SenderFault]),
      [
        ["3", "InvalidParameterValue", true],
        ["4", "InvalidMessageContents", true],
        ["5", "InvalidParameterValue", true],
      ],
    );
    const held = await receive(url, { MessageAttributeNames: ["All"] });
    assert.deepEqual(
      held.map((message) => message.Body),
      ["0", "1", "2", "6", "7", "8", "9"].map((id) => `body ${id}`),
    );
    assert.equal(held[3].MessageAttributes.a.StringValue, "b");

    const changed = await call("ChangeMessageVisibilityBatch", {
      QueueUrl: url,
      Entries: [
        { Id: "now", ReceiptHandle: held[0].ReceiptHandle, VisibilityTimeout: 0 },
        { Id: "long", ReceiptHandle: held[1].ReceiptHandle, VisibilityTimeout: 600 },
        { Id: "bad", ReceiptHandle: "garbage", VisibilityTimeout: 600 },
      ],
    });
    assert.deepEqual(
      changed.Successful.map((entry) => entry.Id),
      ["now", "long"],
    );
    assert.deepEqual(
      changed.Failed.map((entry) => [entry.Id, entry.Code]),
      [["bad", "ReceiptHandleIsInvalid"]],
    );
    const [back] = await receive(url);
    assert.equal(back.MessageId, held[0].MessageId);

    const deleted = await call("DeleteMessageBatch", {
      QueueUrl: url,
      Entries: [...held.slice(1), back].map((message, i) => ({ Id: `e${i}`, ReceiptHandle: message.ReceiptHandle })),
    });
    assert.equal(deleted.Successful.length, 7);
    assert.equal(deleted.Failed, undefined);
    const { Attributes: counts } = await call("GetQueueAttributes", { QueueUrl: url, AttributeNames: ["All"] });
    assert.deepEqual([counts.ApproximateNumberOfMessages, counts.ApproximateNumberOfMessagesNotVisible], ["0", "0"]);

    const entries = (count, id = (i) => `e${i}`) =>
      [...Array(count).keys()].map((i) => ({ Id: id(i), MessageBody: "a" }));
    const send = (Entries) => call("SendMessageBatch", { QueueUrl: url, Entries });
    await assert.rejects(send([]), sqs.EmptyBatchRequest);
    await assert.rejects(send(entries(11)), sqs.TooManyEntriesInBatchRequest);
    await assert.rejects(send(entries(2, () => "same")), sqs.BatchEntryIdsNotDistinct);
    await assert.rejects(send(entries(1, () => "a b")), sqs.InvalidBatchEntryId);
    const huge = await makeQueue("huge");
    await assert.rejects(
      call("SendMessageBatch", {
        QueueUrl: huge,
        Entries: [0, 1].map((i) => ({ Id: `e${i}`, MessageBody: "x".repeat(600_000) })),
      }),
      sqs.BatchRequestTooLong,
    );
  },

  async dead_letters_and_purge() {
    const dead = await makeQueue("dead");
    const { Attributes } = await call("GetQueueAttributes", { QueueUrl: dead, AttributeNames: ["QueueArn"] });
    const policy = JSON.stringify({ deadLetterTargetArn: Attributes.QueueArn, maxReceiveCount: "2" });
    const url = await makeQueue("poison", { VisibilityTimeout: "0" });
    await call("SetQueueAttributes", { QueueUrl: url, Attributes: { RedrivePolicy: policy } });
    const shown = await call("GetQueueAttributes", { QueueUrl: url, AttributeNames: ["RedrivePolicy"] });
    assert.equal(
      shown.Attributes.RedrivePolicy,
      `{"deadLetterTargetArn":"${Attributes.QueueArn}","maxReceiveCount":2}`,
    );
    const sent = await call("SendMessage", {
      QueueUrl: url,
      MessageBody: "poison",
      MessageAttributes: { a: text("b") },
    });
    for (let i = 0; i < 2; i++) assert.equal((await receive(url)).length, 1);
    assert.deepEqual(await receive(url), []);
    const [message] = await receive(dead, { MessageSystemAttributeNames: ["All"], MessageAttributeNames: ["All"] });
    assert.equal(message.MessageId, sent.MessageId);
    assert.equal(message.MessageAttributes.a.StringValue, "b");
    assert.equal(message.Attributes.ApproximateReceiveCount, "3");
    assert.equal(message.Attributes.DeadLetterQueueSourceArn, "arn:aws:sqs:us-east-1:000000000000:poison");

    for (let i = 0; i < 5; i++) await call("SendMessage", { QueueUrl: dead, MessageBody: `more ${i}` });
    await call("PurgeQueue", { QueueUrl: dead });
    assert.deepEqual(await receive(dead), []);
    const { Attributes: counts } = await call("GetQueueAttributes", {
      QueueUrl: dead,
      AttributeNames: ["ApproximateNumberOfMessagesNotVisible"],
    });
    assert.equal(counts.ApproximateNumberOfMessagesNotVisible, "0");
    await call("SetQueueAttributes", { QueueUrl: url, Attributes: { RedrivePolicy: "" } });
    assert.equal(
      (await call("GetQueueAttributes", { QueueUrl: url, AttributeNames: ["RedrivePolicy"] })).Attributes,
      undefined,
    );
  },

  async what_queues_have_besides_messages() {
    const tags = { team: "billing", "Größe:x": "" };
    const url = (await call("CreateQueue", { QueueName: "tagged", tags })).QueueUrl;
    await call("TagQueue", { QueueUrl: url, Tags: { team: "mail", cost: "1" } });
    await call("UntagQueue", { QueueUrl: url, TagKeys: ["cost", "unknown"] });
    assert.deepEqual((await call("ListQueueTags", { QueueUrl: url })).Tags, { team: "mail", "Größe:x": "" });
    assert.equal((await call("ListQueueTags", { QueueUrl: await makeQueue("plain") })).Tags, undefined);

    const get = async (...names) =>
      (await call("GetQueueAttributes", { QueueUrl: url, AttributeNames: names })).Attributes;
    const { QueueArn: arn } = await get("QueueArn");
    const permission = { QueueUrl: url, Label: "them", AWSAccountIds: ["111122223333"], Actions: ["SendMessage"] };
    await call("AddPermission", permission);
    await assert.rejects(call("AddPermission", permission), { name: "InvalidParameterValue" });
    assert.deepEqual(JSON.parse((await get("Policy")).Policy).Statement, [
      {
        Sid: "them",
        Effect: "Allow",
        Principal: { AWS: "arn:aws:iam::111122223333:root" },
        Action: "SQS:SendMessage",
        Resource: arn,
      },
    ]);
    await call("RemovePermission", { QueueUrl: url, Label: "them" });
    assert.equal(await get("Policy"), undefined);

    await call("SetQueueAttributes", {
      QueueUrl: url,
      Attributes: { KmsMasterKeyId: "alias/aws/sqs", KmsDataKeyReusePeriodSeconds: "600" },
    });
    assert.deepEqual(await get("KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", "SqsManagedSseEnabled"), {
      KmsMasterKeyId: "alias/aws/sqs",
      KmsDataKeyReusePeriodSeconds: "600",
      SqsManagedSseEnabled: "false",
    });

    const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: arn, maxReceiveCount: 3 });
    const sources = [];
    for (let i = 0; i < 5; i++) sources.push(await makeQueue(`source-${i}`, { RedrivePolicy }));
    const pages = [];
    for await (const page of sqs.paginateListDeadLetterSourceQueues({ client, pageSize: 2 }, { QueueUrl: url }))
      pages.push(page.queueUrls);
    assert.deepEqual(pages, [sources.slice(0, 2), sources.slice(2, 4), sources.slice(4)]);
    assert.equal((await call("ListDeadLetterSourceQueues", { QueueUrl: sources[0] })).queueUrls, undefined);
    await call("SetQueueAttributes", {
      QueueUrl: url,
      Attributes: { RedriveAllowPolicy: JSON.stringify({ redrivePermission: "denyAll" }) },
    });
    await assert.rejects(makeQueue("late", { RedrivePolicy }), { name: "InvalidParameterValue" });
  },

  async move_tasks() {
    const dead = await makeQueue("dead");
    const arnOf = (name) => `arn:aws:sqs:us-east-1:000000000000:${name}`;
    const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: arnOf("dead"), maxReceiveCount: 1 });
    const sources = [];
    for (const name of ["one", "two"]) {
      const url = await makeQueue(name, { RedrivePolicy, VisibilityTimeout: "0" });
      for (let i = 0; i < 3; i++) await call("SendMessage", { QueueUrl: url, MessageBody: `${name} ${i}` });
      assert.equal((await receive(url)).length, 3);
      assert.deepEqual(await receive(url), []);
      await call("SetQueueAttributes", { QueueUrl: url, Attributes: { VisibilityTimeout: "30" } });
      sources.push(url);
    }
    const newest = async () => (await call("ListMessageMoveTasks", { SourceArn: arnOf("dead") })).Results[0];
    const ended = async (status) => {
      for (let i = 0; i < 500; i++) {
        const task = await newest();
        if (task.Status === status) return task;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      assert.fail(`the task did not become ${status}`);
    };

    // Without a destination, each goes back where it came from.
    const { TaskHandle } = await call("StartMessageMoveTask", { SourceArn: arnOf("dead") });
    assert.equal(JSON.parse(Buffer.from(TaskHandle, "base64").toString()).sourceArn, arnOf("dead"));
    const done = await ended("COMPLETED");
    assert.equal(done.ApproximateNumberOfMessagesMoved, 6);
    assert.equal(done.DestinationArn, undefined);
    assert.ok(Math.abs(done.StartedTimestamp - Date.now()) < 600_000);
    for (const [i, name] of ["one", "two"].entries()) {
      const moved = await receive(sources[i], { MessageSystemAttributeNames: ["All"] });
      assert.deepEqual(
        moved.map((message) => message.Body).sort(),
        [0, 1, 2].map((n) => `${name} ${n}`),
      );
      assert.equal(moved[0].Attributes.ApproximateReceiveCount, "1");
    }

    // Slowly to a queue of one's choice, one task at a time, and cancelled.
    for (let i = 0; i < 10; i++) await call("SendMessage", { QueueUrl: dead, MessageBody: String(i) });
    const other = await makeQueue("other");
    const slow = { SourceArn: arnOf("dead"), DestinationArn: arnOf("other"), MaxNumberOfMessagesPerSecond: 1 };
    const handle = (await call("StartMessageMoveTask", slow)).TaskHandle;
    await assert.rejects(call("StartMessageMoveTask", slow), (error) => error instanceof sqs.SQSServiceException);
    assert.equal((await newest()).TaskHandle, handle);
    assert.equal((await receive(other, { WaitTimeSeconds: 20 }))[0].Body, "0");
    const { ApproximateNumberOfMessagesMoved: moved } = await call("CancelMessageMoveTask", { TaskHandle: handle });
    assert.ok(moved >= 1 && moved < 10);
    const cancelled = await ended("CANCELLED");
    assert.equal(cancelled.TaskHandle, undefined);
    assert.equal(cancelled.DestinationArn, arnOf("other"));
    assert.equal((await call("ListMessageMoveTasks", { SourceArn: arnOf("dead"), MaxResults: 10 })).Results.length, 2);
    await assert.rejects(call("StartMessageMoveTask", { SourceArn: arnOf("nowhere") }), sqs.ResourceNotFoundException);
    await assert.rejects(
      call("CancelMessageMoveTask", { TaskHandle: handle }),
      (error) => error instanceof sqs.SQSServiceException,
    );
  },

  /** Without an endpoint of its own the SDK sends to the host of the queue's URL, without its path; with one it
   *  passes the URL's host over. Also run through a proxy. */
  async q11_queue_urls_as_endpoints() {
    const url = await makeQueue("q");
    assert.ok(url.startsWith(`${endpoint}/`));
    const keys = { region: "us-east-1", credentials: { accessKeyId: "any", secretAccessKey: "thing" }, maxAttempts: 1 };
    const quiet = { logger: { ...console, warn() {} } }; // it warns that the URL is not AWS's
    const ways = [
      ...(new URL(endpoint).pathname === "/" ? [[new sqs.SQSClient({ ...keys, ...quiet }), url]] : []),
      [new sqs.SQSClient({ ...keys, endpoint, useQueueUrlAsEndpoint: true }), "http://nowhere.invalid/000000000000/q"],
      [
        new sqs.SQSClient({ ...keys, endpoint, useQueueUrlAsEndpoint: false }),
        "https://sqs.us-east-1.amazonaws.com/000000000000/q",
      ],
      [new sqs.SQSClient({ ...keys, endpoint, md5: false }), "q"],
    ];
    for (const [one, QueueUrl] of ways) {
      const { MessageId } = await one.send(new sqs.SendMessageCommand({ QueueUrl, MessageBody: "a".repeat(100_000) }));
      const { Messages } = await one.send(new sqs.ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 5 }));
      assert.equal(Messages[0].MessageId, MessageId);
      await one.send(new sqs.DeleteMessageCommand({ QueueUrl, ReceiptHandle: Messages[0].ReceiptHandle }));
      one.destroy();
    }
  },

  /** Programs whose code says nothing about where SQS is. */
  async the_endpoint_comes_from_the_environment() {
    Object.assign(process.env, { AWS_ENDPOINT_URL_SQS: endpoint, AWS_REGION: "eu-north-1" }); // keys: from there too
    const plain = new sqs.SQSClient({});
    const { QueueUrl } = await plain.send(new sqs.CreateQueueCommand({ QueueName: "q" }));
    assert.equal(QueueUrl, `${endpoint}/000000000000/q`);
    await plain.send(new sqs.SendMessageCommand({ QueueUrl, MessageBody: "a" }));
    assert.equal((await plain.send(new sqs.ReceiveMessageCommand({ QueueUrl }))).Messages[0].Body, "a");
    plain.destroy();
  },

  /** A pool of one connection, on which every second request fails. */
  async q14_errors_keep_the_connection() {
    const url = await makeQueue("q");
    const accepted = async () => {
      const answer = http.get(`${endpoint}/metrics`, { agent: false }); // on a connection of its own
      const text = (await (await once(answer, "response"))[0].setEncoding("utf8").toArray()).join("");
      return Number(text.match(/^tally_http_connections_accepted_total (\d+)$/m)[1]);
    };
    const before = await accepted();
    const narrow = new sqs.SQSClient({
      endpoint,
      region: "us-east-1",
      credentials: { accessKeyId: "a", secretAccessKey: "b" },
      requestHandler: { httpAgent: { keepAlive: true, maxSockets: 1 } },
    });
    for (let i = 0; i < 100; i++) {
      await narrow.send(new sqs.SendMessageCommand({ QueueUrl: url, MessageBody: "a" }));
      await assert.rejects(
        narrow.send(new sqs.SendMessageCommand({ QueueUrl: `${url}-gone`, MessageBody: "a" })),
        sqs.QueueDoesNotExist,
      );
    }
    narrow.destroy();
    assert.equal((await accepted()) - before, 2, "one for all requests, and that of this question");
  },

  async batch_of_messages() {
    const jobs = await makeQueue("jobs");
    const results = await makeQueue("results");
    const unit = { "Tally.Batch": text("import-7") };
    await tally("CreateBatch", { BatchId: "import-7", OnComplete: { QueueUrl: results } });
    const alone = await call("SendMessage", { QueueUrl: jobs, MessageBody: "0", MessageAttributes: unit });
    assert.ok(alone.MD5OfMessageAttributes);
    await call("SendMessageBatch", {
      QueueUrl: jobs,
      Entries: [1, 2, 3, 4].map((i) => ({ Id: `e${i}`, MessageBody: String(i), MessageAttributes: unit })),
    });
    await assert.rejects(
      call("SendMessage", { QueueUrl: jobs, MessageBody: "x", MessageAttributes: { "Tally.Batch": text("no-such") } }),
      { name: "BatchDoesNotExist" },
    );
    assert.deepEqual(await tally("SealBatch", { BatchId: "import-7" }), {
      State: "sealed",
      Remaining: 5,
      Completed: false,
    });
    await assert.rejects(call("SendMessage", { QueueUrl: jobs, MessageBody: "x", MessageAttributes: unit }), {
      name: "BatchSealed",
    });
    const held = await receive(jobs, { MessageAttributeNames: ["Tally.*"] });
    assert.deepEqual(
      held.map((message) => message.MessageAttributes["Tally.Batch"].StringValue),
      Array(5).fill("import-7"),
    );
    await Promise.all(
      held.map((message) => call("DeleteMessage", { QueueUrl: jobs, ReceiptHandle: message.ReceiptHandle })),
    );
    const completed = await receive(results, { WaitTimeSeconds: 5, MessageAttributeNames: ["All"] });
    assert.equal(completed.length, 1);
    assert.equal(completed[0].MessageAttributes["Tally.Batch.Completed"].StringValue, "import-7");
    const { createdAt, completedAt, ...told } = JSON.parse(completed[0].Body);
    assert.deepEqual(told, { batch: "import-7", status: "succeeded", total: 5, succeeded: 5, failed: 0, cancelled: 0 });
    assert.ok(completedAt >= createdAt);
    const described = await tally("DescribeBatch", { BatchId: "import-7" });
    assert.equal(described.CompletionMessageId, completed[0].MessageId);
  },

  // Every action of batches, once as plain requests and once through the SDK's client.
  async batch_actions() {
    const results = await makeQueue("results");
    for (const [name, act] of [
      ["plain", tally],
      ["sdk", tallyBySdk],
    ]) {
      const batch = `${name}-1`;
      const settings = { BatchId: batch, OnComplete: { QueueUrl: results, MessageBody: `${name} done` } };
      assert.deepEqual(await act("CreateBatch", settings), { BatchId: batch, State: "open" });
      assert.deepEqual(await act("CreateBatch", settings), { BatchId: batch, State: "open" });
      await assert.rejects(act("CreateBatch", { BatchId: batch }), { name: "BatchAlreadyExists" });
      assert.deepEqual(await act("AddUnits", { BatchId: batch, Count: 2 }), { Added: 2, Total: 2 });
      assert.deepEqual(await act("AddUnits", { BatchId: batch, Units: ["a", "b", "a"] }), { Added: 2, Total: 4 });
      assert.deepEqual(await act("CompleteUnits", { BatchId: batch, Units: [{ Unit: "a" }, { Unit: "0" }] }), {
        Results: [
          { Unit: "a", Recorded: true },
          { Unit: "0", Recorded: true },
        ],
        Remaining: 2,
        Completed: false,
      });
      await assert.rejects(act("CompleteUnits", { BatchId: batch, Units: [{ Unit: "z" }] }), {
        name: "UnitDoesNotExist",
      });
      assert.deepEqual(await act("SealBatch", { BatchId: batch }), { State: "sealed", Remaining: 2, Completed: false });
      const { Units } = await act("ListUnits", { BatchId: batch, State: "outstanding" });
      assert.deepEqual(Units.map((unit) => unit.Unit).sort(), ["1", "b"]);
      const last = await act("CompleteUnits", {
        BatchId: batch,
        Units: [{ Unit: "1", Status: "failed", Detail: "no" }, { Unit: "b" }],
      });
      assert.equal(last.Completed, true);
      const described = await act("DescribeBatch", { BatchId: batch });
      assert.deepEqual(
        [described.State, described.Status, described.Succeeded, described.Failed],
        ["completed", "failed", 3, 1],
      );
      const [done] = await receive(results, { MessageAttributeNames: ["All"] });
      assert.equal(done.Body, `${name} done`);
      assert.equal(done.MessageId, described.CompletionMessageId);
      await call("DeleteMessage", { QueueUrl: results, ReceiptHandle: done.ReceiptHandle });

      await act("CreateBatch", { BatchId: `${name}-2` });
      await act("AddUnits", { BatchId: `${name}-2`, Count: 3 });
      await act("CancelBatch", { BatchId: `${name}-2` });
      assert.equal((await act("DescribeBatch", { BatchId: `${name}-2` })).Status, "cancelled");
      await act("CreateBatch", { BatchId: `${name}-3`, Tracking: "xor" });
      const toggle = { BatchId: `${name}-3`, Value: "00000000deadbeef", RequestToken: "t1" };
      assert.deepEqual(await act("XorUnits", toggle), { Zero: false, Completed: false });
      assert.deepEqual(await act("XorUnits", toggle), { Zero: false, Completed: false });
      assert.deepEqual(await act("XorUnits", { ...toggle, RequestToken: "t2" }), { Zero: true, Completed: false });
      assert.equal((await act("SealBatch", { BatchId: `${name}-3` })).Completed, true);
      const listed = await act("ListBatches", { Prefix: `${name}-` });
      assert.deepEqual(
        listed.Batches.map((one) => [one.BatchId, one.State]),
        [1, 2, 3].map((i) => [`${name}-${i}`, "completed"]),
      );
      assert.deepEqual(await act("DeleteBatch", { BatchId: batch }), {});
      await assert.rejects(act("DescribeBatch", { BatchId: batch }), { name: "BatchDoesNotExist" });
    }
  },

  // A FIFO queue from its creation on: ids, order, duplicates, repeated receives, expired handles.
  async fifo_queues() {
    await assert.rejects(makeQueue("orders", { FifoQueue: "true" }), { name: "InvalidParameterValue" });
    const url = await makeQueue("orders.fifo", {
      FifoQueue: "true",
      ContentBasedDeduplication: "true",
      VisibilityTimeout: "60",
    });
    const { Attributes: all } = await call("GetQueueAttributes", { QueueUrl: url, AttributeNames: ["All"] });
    assert.deepEqual(
      [all.FifoQueue, all.ContentBasedDeduplication, all.DeduplicationScope, all.FifoThroughputLimit],
      ["true", "true", "queue", "perQueue"],
    );
    const send = (MessageBody, MessageGroupId, more = {}) =>
      call("SendMessage", { QueueUrl: url, MessageBody, MessageGroupId, ...more });
    await assert.rejects(call("SendMessage", { QueueUrl: url, MessageBody: "x" }), { name: "MissingParameter" });
    await assert.rejects(send("x", "a", { DelaySeconds: 1 }), { name: "InvalidParameterValue" });

    const first = await send("a1", "a");
    assert.match(first.SequenceNumber, /^\d{20}$/);
    for (const again of [
      await send("a1", "a"),
      await send("a1", "b"),
      await send("other", "a", { MessageDeduplicationId: createHash("sha256").update("a1").digest("hex") }),
    ]) {
      assert.deepEqual([again.MessageId, again.SequenceNumber], [first.MessageId, first.SequenceNumber]);
    }
    const sent = await call("SendMessageBatch", {
      QueueUrl: url,
      Entries: ["b1", "a2", "a1", "b2"].map((body, i) => ({ Id: `e${i}`, MessageBody: body, MessageGroupId: body[0] })),
    });
    assert.deepEqual(
      sent.Successful.map((entry) => entry.Id),
      ["e0", "e1", "e2", "e3"],
    );
    assert.equal(sent.Successful[2].MessageId, first.MessageId);
    const numbers = [first, sent.Successful[0], sent.Successful[1], sent.Successful[3]].map(
      (entry) => entry.SequenceNumber,
    );
    assert.deepEqual([...numbers].sort(), numbers);

    // The reply is lost: the same attempt id gives the same messages under the same handles.
    const attempt = {
      ReceiveRequestAttemptId: "attempt-1",
      MessageSystemAttributeNames: ["All"],
      MaxNumberOfMessages: 3,
    };
    const taken = await receive(url, attempt);
    assert.deepEqual(
      taken.map((message) => message.Body),
      ["a1", "a2", "b1"],
    );
    assert.deepEqual(await receive(url, attempt), taken);
    assert.deepEqual(await receive(url), []);
    assert.equal(taken[0].Attributes.MessageGroupId, "a");
    assert.equal(taken[0].Attributes.SequenceNumber, first.SequenceNumber);
    assert.equal(taken[0].Attributes.MessageDeduplicationId, createHash("sha256").update("a1").digest("hex"));
    const handle = (message) => ({ QueueUrl: url, ReceiptHandle: message.ReceiptHandle });
    await call("DeleteMessage", handle(taken[0]));
    await assert.rejects(receive(url, attempt), (error) => {
      assert.equal(error.name, "InvalidParameterValue");
      assert.match(error.message, /The receiveRequestAttemptId is not valid anymore/);
      return true;
    });

    // Given back, a group begins again at its head; the handle is dead then.
    await call("ChangeMessageVisibility", { ...handle(taken[2]), VisibilityTimeout: 0 });
    await assert.rejects(call("DeleteMessage", handle(taken[2])), { name: "InvalidParameterValue" });
    const again = await receive(url);
    assert.deepEqual(
      again.map((message) => message.Body),
      ["b1", "b2"],
    );
    const deleted = await call("DeleteMessageBatch", {
      QueueUrl: url,
      Entries: [taken[1], taken[2], ...again].map((message, i) => ({
        Id: `e${i}`,
        ReceiptHandle: message.ReceiptHandle,
      })),
    });
    assert.deepEqual(
      deleted.Successful.map((entry) => entry.Id),
      ["e0", "e2", "e3"],
    );
    assert.deepEqual(
      deleted.Failed.map((entry) => [entry.Id, entry.Code]),
      [["e1", "ReceiptHandleIsInvalid"]],
    );
    // What was sent is remembered longer than it lives.
    assert.equal((await send("a1", "a")).MessageId, first.MessageId);
    assert.deepEqual(await receive(url), []);
  },

  // Tally's side of groups: attributes through the SDK, own actions as plain requests and through the SDK's client.
  async groups() {
    for (const [name, act] of [
      ["plain", tally],
      ["sdk", tallyBySdk],
    ]) {
      const url = await makeQueue(`${name}.fifo`, {
        FifoQueue: "true",
        "Tally.OnGroupFailure": "hold",
        "Tally.DeduplicationWindow": "0",
      });
      const group = { QueueUrl: url, MessageGroupId: "g" };
      const sent = [];
      for (const body of ["1", "2"])
        sent.push(await call("SendMessage", { ...group, MessageBody: body, MessageDeduplicationId: "same" }));
      assert.notEqual(sent[0].MessageId, sent[1].MessageId);
      const [head] = await receive(url, { MaxNumberOfMessages: 1, MessageAttributeNames: ["Tally.FencingToken"] });
      assert.ok(Number(head.MessageAttributes["Tally.FencingToken"].StringValue) > 0);
      const explained = await act("ExplainMessage", { QueueUrl: url, MessageId: sent[1].MessageId });
      assert.deepEqual(
        [explained.State, explained.Why[0].Code, explained.Why[0].MessageId],
        ["blocked", "GroupHead", sent[0].MessageId],
      );
      await act("FailMessage", { QueueUrl: url, ReceiptHandle: head.ReceiptHandle, Reason: "no", Final: true });
      const { Groups } = await act("ListGroups", { QueueUrl: url, State: "held" });
      assert.deepEqual([Groups[0].MessageGroupId, Groups[0].Reason, Groups[0].Messages], ["g", "no", 2]);
      await act("ReleaseGroup", { ...group, Action: "skip" });
      await assert.rejects(act("ReleaseGroup", { ...group, Action: "skip" }), { name: "GroupNotHeld" });
      await act("PauseGroup", group);
      await act("PauseQueue", { QueueUrl: url });
      await act("ResumeGroup", group);
      assert.deepEqual(await receive(url), []);
      await act("ResumeQueue", { QueueUrl: url });
      assert.deepEqual(
        (await receive(url)).map((message) => message.Body),
        ["2"],
      );
    }
  },

  // Dependencies, types, numbered producers and Commit: attributes through the SDK, own actions as plain requests and
  // through its client.
  async order_and_once() {
    for (const [name, act] of [
      ["plain", tally],
      ["sdk", tallyBySdk],
    ]) {
      const first = await makeQueue(`${name}-first.fifo`, { FifoQueue: "true", "Tally.DeduplicationWindow": "0" });
      const then = await makeQueue(`${name}-then`, { "Tally.Backoff": '{"min": 1}' });
      const group = { MessageGroupId: "g" };
      const numbered = {
        "Tally.Producer": text("p"),
        "Tally.Sequence": { DataType: "Number", StringValue: "1" },
        "Tally.Type": text(`${name}-a`),
      };
      await act("PutTypeOrder", { Name: name, Types: [`${name}-a`, `${name}-b`] });
      const head = await call("SendMessage", {
        QueueUrl: first,
        MessageBody: "head",
        MessageAttributes: numbered,
        ...group,
      });
      const again = await call("SendMessage", {
        QueueUrl: first,
        MessageBody: "head",
        MessageAttributes: numbered,
        ...group,
      });
      assert.deepEqual([again.MessageId, again.SequenceNumber], [head.MessageId, head.SequenceNumber]);
      const typed = await call("SendMessage", {
        QueueUrl: then,
        MessageBody: "typed",
        MessageAttributes: { "Tally.Type": text(`${name}-b`) },
        ...group,
      });
      await call("SendMessage", {
        QueueUrl: then,
        MessageBody: "after",
        MessageAttributes: { "Tally.After": text(`message:${head.MessageId}`) },
      });
      assert.deepEqual(await receive(then), []);
      const { State, Why } = await act("ExplainMessage", { QueueUrl: then, MessageId: typed.MessageId });
      assert.deepEqual(
        [State, Why[0].Code, Why[0].Type, typeof Why[0].Since],
        ["blocked", "TypeOrder", `${name}-a`, "number"],
      );
      const refused = {
        QueueUrl: then,
        MessageBody: "never",
        MessageAttributes: { "Tally.After": text("batch:none") },
      };
      await assert.rejects(call("SendMessage", refused), { name: "DependencyDoesNotExist" });
      const [held] = await receive(first, { MessageAttributeNames: ["All"] });
      const commit = {
        Deletes: [{ QueueUrl: first, ReceiptHandle: held.ReceiptHandle }],
        Sends: [{ QueueUrl: then, MessageBody: "made" }],
      };
      const done = await act("Commit", commit);
      assert.equal(done.Sends[0].MD5OfMessageBody, md5("made"));
      await assert.rejects(act("Commit", commit), { name: "ReceiptHandleIsInvalid" });
      const bodies = [];
      while (bodies.length < 3)
        bodies.push(...(await receive(then, { WaitTimeSeconds: 5 })).map((message) => message.Body));
      assert.deepEqual(bodies.sort(), ["after", "made", "typed"]);
    }
  },

  async errors_have_names() {
    const url = await makeQueue("q", { MaximumMessageSize: "1024" });
    await assert.rejects(call("SendMessage", { QueueUrl: url + "x", MessageBody: "a" }), (error) => {
      assert.ok(error instanceof sqs.QueueDoesNotExist);
      assert.equal(error.name, "QueueDoesNotExist");
      assert.equal(error.$metadata.httpStatusCode, 400);
      assert.equal(error.message, "The specified queue does not exist. Namespace 000000000000 has no queue 'qx'.");
      return true;
    });
    await assert.rejects(
      call("GetQueueAttributes", { QueueUrl: url, AttributeNames: ["Nonsense"] }),
      sqs.InvalidAttributeName,
    );
    await assert.rejects(
      call("SetQueueAttributes", { QueueUrl: url, Attributes: { DelaySeconds: "901" } }),
      sqs.InvalidAttributeValue,
    );
    await assert.rejects(call("SendMessage", { QueueUrl: url, MessageBody: "\u0001" }), sqs.InvalidMessageContents);
    // Oversized: above the queue's limit, and above what the server reads at all.
    await assert.rejects(call("SendMessage", { QueueUrl: url, MessageBody: "x".repeat(1025) }), {
      name: "InvalidParameterValue",
    });
    await assert.rejects(call("SendMessage", { QueueUrl: url, MessageBody: "x".repeat(9 << 20) }), (error) => {
      assert.equal(error.$metadata.httpStatusCode, 413);
      assert.equal(error.name, "RequestTooLarge");
      return true;
    });
    await assert.rejects(tallyBySdk("Nonsense", {}), { name: "InvalidAction" }); // an action that nobody knows
    // Broken JSON: the SDK makes none, so a middleware breaks it.
    const broken = new sqs.SendMessageCommand({ QueueUrl: url, MessageBody: "a" });
    broken.middlewareStack.add(
      (next) => (args) => {
        args.request.body = '{"QueueUrl": ';
        args.request.headers["content-length"] = String(args.request.body.length);
        return next(args);
      },
      { step: "build", priority: "low" },
    );
    await assert.rejects(client.send(broken), (error) => {
      assert.equal(error.name, "MalformedInput");
      assert.equal(error.$metadata.httpStatusCode, 400);
      return true;
    });
    // The connection and the queue are as before.
    await call("SendMessage", { QueueUrl: url, MessageBody: "x".repeat(1024) });
    assert.equal((await receive(url))[0].Body.length, 1024);
  },
};

await scenarios[wanted]();
client.destroy();
