// The client for JavaScript, in one process, against the daemon of TALLY_ENDPOINT. Run by test_client_js.py, with
// @tally-queue/client beside it.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { AlreadyDone, createClient, errors, Matcher, Message, Reject, Retry, TallyError } from "@tally-queue/client";
import { failedUnits, withBatch, Worker } from "@tally-queue/client";

const client = createClient();
let queues = 0;

/** A queue that retries at once and gives up after three attempts. */
async function makeQueue(attributes = {}, end = "") {
  const name = `q${queues++}${end}`;
  const fifo = end ? { FifoQueue: "true" } : {};
  await client.sqs.createQueue({ QueueName: `${name.replace(end, "")}-dead${end}`, Attributes: fifo });
  const RedrivePolicy = JSON.stringify({
    deadLetterTargetArn: `arn:aws:sqs:us-east-1:000000000000:${name.replace(end, "")}-dead${end}`,
    maxReceiveCount: "3",
  });
  await client.sqs.createQueue({ QueueName: name, Attributes: { ...fifo, RedrivePolicy, ...attributes } });
  return name;
}

async function send(queue, ...bodies) {
  const ids = [];
  for (const MessageBody of bodies) {
    const { MessageId } = await client.sqs.sendMessage({ QueueUrl: queue, MessageBody });
    ids.push(MessageId);
  }
  return ids;
}

/** Works until the queue is empty. Returns what was logged. */
async function drain(queue, handler, options = {}) {
  const told = [];
  const log = (text) => told.push(text);
  await new Worker({ queue, handler, client, untilEmpty: true, log, ...options }).run();
  return told.join("\n");
}

async function waitUntil(claim) {
  for (const end = Date.now() + 20_000; !(await claim()); await sleep(20))
    assert(Date.now() < end, String(claim));
}

const hangUp = () => Object.assign(new Error("socket hang up"), { code: "ECONNRESET" });

/** A client whose first request of that name gets no answer, though the server gets it; or whose every one is lost.
 *  With an error the first request ends with that, and the server does not get it. */
function makeLossy(name, { always = false, error = hangUp } = {}) {
  const lossy = createClient();
  let isOver = false;
  const lose = (next, { commandName }) => async (args) => {
    if (commandName !== `${name}Command` || isOver) return next(args);
    isOver = !always;
    if (!always && error === hangUp) await next(args);
    throw error();
  };
  lossy.sqs.middlewareStack.add(lose, { step: "finalizeRequest", priority: "low" });
  return lossy;
}

const statsOf = async (queue) => (await client.listQueueStats({ QueueNamePrefix: queue })).Queues[0];

describe("workers", { concurrency: true }, () => {
  it("do what a handler decides", async () => {
    const queue = await makeQueue();
    const bodies = ["good", "bad", "later", "never", "done", "long", "mute"];
    const ids = Object.fromEntries((await send(queue, ...bodies)).map((id, index) => [bodies[index], id]));
    const seen = Object.fromEntries(bodies.map((body) => [body, []]));
    const told = await drain(
      queue,
      ({ body, receiveCount, failureReason }) => {
        seen[body].push([Date.now(), receiveCount, failureReason]);
        if (body === "bad") throw new TypeError("not now");
        if (body === "later" && receiveCount === 1) throw new Retry("busy", { after: 2 });
        if (body === "never") throw new Reject("no use");
        if (body === "done") throw new AlreadyDone();
        if (body === "mute") throw Object.create(null);
        if (body === "long") throw `\0\ud800${"é".repeat(2000)}`;
      },
      { concurrency: 3, retryAfter: 0 },
    );
    assert.deepEqual(seen.bad.map(([, count]) => count), [1, 2, 3]);
    assert.equal(seen.bad[1][2], "TypeError: not now");
    assert(seen.later[1][0] - seen.later[0][0] >= 1900);
    assert.equal(seen.later[1][2], "busy");
    assert.deepEqual([seen.good, seen.done, seen.never].map((times) => times.length), [1, 1, 1]);
    const dead = {};
    const request = { QueueUrl: `${queue}-dead`, Body: "full" };
    for await (const { MessageId, FailureReason } of client.each.listMessages(request)) dead[MessageId] = FailureReason;
    assert.equal(dead[ids.long], `??${"é".repeat(511)}`);
    assert.equal(dead[ids.mute], "something was thrown that has no text: object");
    delete dead[ids.long];
    delete dead[ids.mute];
    assert.deepEqual(dead, { [ids.bad]: "TypeError: not now", [ids.never]: "no use" });
    assert.match(told, /TypeError: not now; attempt 1 of 3, next in 0 s/);
    assert.match(told, /no use; attempt 1 was the last, it is in queue/);
  });

  it("give a message up when the options say so, and a dead letter never", async () => {
    const queue = await makeQueue();
    const [sent] = await send(queue, "m");
    const counts = [];
    const fail = ({ receiveCount }) => {
      counts.push(receiveCount);
      throw new Error("no");
    };
    const deadLetter = "elsewhere";
    await client.sqs.createQueue({ QueueName: deadLetter });
    await drain(queue, fail, { retryAfter: 0, maxAttempts: 2, deadLetter });
    assert.deepEqual(counts, [1, 2]);
    await drain(deadLetter, (message) => counts.length < 30 && fail(message), { retryAfter: 0 });
    assert.equal(counts.length, 30);
    assert.equal((await client.getMessage({ MessageId: sent })).State, "ended");
  });

  it("keep a message with heartbeats, and tell the handler when it is lost", async () => {
    const queue = await makeQueue();
    const [MessageId] = await send(queue, "m");
    const held = [];
    const runs = [];
    const told = await drain(
      queue,
      async (message) => {
        runs.push(message.receiveCount);
        if (runs.length > 1) return assert.deepEqual(held, [true, false, "LeaseLost"]);
        await sleep(1500);
        held.push(message.isHeld);
        await client.releaseMessage({ MessageId });
        await sleep(10_000, undefined, { signal: message.signal }).catch(() => {});
        await sleep(300); // it comes again meanwhile, and must wait for this
        held.push(message.isHeld, message.signal.reason.name);
        message.signal.throwIfAborted();
      },
      { visibility: 1, concurrency: 2 },
    );
    assert.deepEqual(runs, [1, 2]);
    assert.equal(told.split("its lease is lost").length, 2);
    assert.match(told, /LeaseLost: .*; its lease was lost/);
  });

  it("know that a lease that was over stays over", async () => {
    const message = new Message("q", { MessageId: "m" }, 0.001);
    await sleep(10);
    message.renew(performance.now(), 30);
    assert.equal(message.isHeld, false);
  });

  it("tell the handler when the server does not confirm the lease", async () => {
    const queue = await makeQueue();
    await send(queue, "m");
    const reasons = [];
    const handler = async ({ signal }) => {
      await sleep(10_000, undefined, { signal }).catch(() => {});
      reasons.push(signal.reason.message);
    };
    const lossy = makeLossy("ChangeMessageVisibility", { always: true });
    const told = await drain(queue, handler, { visibility: 1, client: lossy });
    assert.deepEqual(reasons, ["the server did not confirm the lease in time"]);
    assert.match(told, /socket hang up; trying again until it works/);
  });

  it("keep a message though one heartbeat of theirs is refused", async () => {
    const queue = await makeQueue();
    await send(queue, "m");
    const name = "AccessDeniedException"; // its rights were being changed
    const error = () => new TallyError({ name, message: "no right to write", $metadata: { httpStatusCode: 403 } });
    const runs = [];
    const handler = async ({ signal }) => {
      await sleep(4000);
      runs.push(signal.aborted);
    };
    const refused = makeLossy("ChangeMessageVisibility", { error });
    const told = await drain(queue, handler, { visibility: 3, client: refused });
    assert.deepEqual(runs, [false]);
    assert.match(told, /no right to write; trying again until it works/);
  });

  it("handle a group in order at any concurrency", async () => {
    const queue = await makeQueue({}, ".fifo");
    for (let number = 0; number < 40; number++)
      await client.sqs.sendMessage({
        QueueUrl: queue,
        MessageBody: String(number),
        MessageGroupId: `g${number % 4}`,
        MessageDeduplicationId: String(number),
      });
    const busy = new Set();
    const orders = {};
    let most = 0;
    await drain(
      queue,
      async ({ body, groupId, receiveCount }) => {
        assert(!busy.has(groupId));
        busy.add(groupId);
        most = Math.max(most, busy.size);
        await sleep(20);
        busy.delete(groupId);
        if (body === "8" && receiveCount === 1) throw new Error("its group waits for it");
        (orders[groupId] ??= []).push(Number(body));
      },
      { concurrency: 8, retryAfter: 1 },
    );
    const all = Object.values(orders);
    assert.deepEqual(all, all.map((numbers) => [...numbers].sort((a, b) => a - b)));
    assert.equal(all.flat().length, 40);
    assert(most > 1);
  });

  it("finish what they have when they are stopped, and begin nothing", async () => {
    const queue = await makeQueue();
    await send(queue, "first", "second");
    const begun = [];
    const ended = [];
    const worker = new Worker({
      queue,
      client,
      concurrency: 2, // so both come in one answer
      handler: async ({ body }) => {
        begun.push(body);
        worker.stop();
        await sleep(500);
        ended.push(body);
      },
    });
    await worker.run();
    assert.deepEqual([begun, ended], [["first"], ["first"]]);
    await waitUntil(async () => (await statsOf(queue)).Visible === 1);
  });

  it("give back what they had not begun", async () => {
    const queue = await makeQueue();
    const worker = new Worker({ queue, client, handler: () => assert.fail() });
    const run = worker.run();
    await waitUntil(async () => (await statsOf(queue)).WaitingReceives === 1);
    worker.stop();
    await run;
    const [MessageId] = await send(queue, "m");
    await sleep(200);
    assert.equal((await client.getMessage({ MessageId })).State, "ready");
  });

  it("end a handler that listens when the grace is over, and leave one that does not", async () => {
    const queue = await makeQueue();
    const [listens, deaf] = await send(queue, "listens", "deaf");
    const told = [];
    const worker = new Worker({
      queue,
      client,
      concurrency: 2,
      grace: 0.2,
      log: (text) => told.push(text),
      handler: async ({ body, signal }) => {
        if (body === "deaf") await new Promise(() => {});
        await sleep(100);
        worker.stop();
        await sleep(10_000, undefined, { signal });
      },
    });
    await worker.run();
    assert.equal((await client.getMessage({ MessageId: listens })).State, "ready");
    assert.equal((await client.getMessage({ MessageId: deaf })).State, "in-flight");
    assert.match(told.join("\n"), /its handler did not end in time/);
  });

  it("let a handler take its time when the grace never ends", async () => {
    const queue = await makeQueue();
    await send(queue, "m");
    const ends = [];
    const handler = async ({ signal }) => {
      worker.stop();
      await sleep(500);
      ends.push(signal.aborted);
    };
    const worker = new Worker({ queue, client, handler, grace: Infinity });
    await worker.run();
    assert.deepEqual(ends, [false]);
  });

  it("leave a message alone that is delivered at most once", async () => {
    const queue = await makeQueue({ "Tally.DeliveryMode": "at-most-once" });
    await send(queue, "bad", "good");
    const told = await drain(queue, async ({ body }) => {
      await sleep(1500);
      if (body === "bad") assert.fail("lost");
    }, { visibility: 1, concurrency: 2 });
    assert.match(told, /^message [^ ]+: AssertionError: lost; its queue delivers at most once[^\n]*$/);
    assert.equal((await statsOf(`${queue}-dead`)).Visible, 0);
  });

  it("say what is wrong", async () => {
    assert.throws(() => new Worker({ queue: "q", client, concurrency: 0 }), /concurrency must be 1 to 1000, not 0/);
    assert.throws(() => new Worker({ queue: "q", client, visibility: 43201 }), /visibility must be 1 to 43200, not/);
    assert.throws(() => new Worker({ queue: "q", client, handle() {} }), /handler must be a function, not undefined/);
    await assert.rejects(new Worker({ queue: "nowhere", client, handler() {} }).run(), { name: "QueueDoesNotExist" });
  });
});

describe("batches", { concurrency: true }, () => {
  it("count what is sent, and end with its last", async () => {
    const queue = await makeQueue();
    const onComplete = `${queue}-dead`;
    const onSuccess = { QueueUrl: onComplete, MessageBody: "all" };
    let sent;
    const id = await withBatch(client, { onComplete, onSuccess, expiresAfter: 60 }, async (batch) => {
      sent = [await batch.send(queue, "one", { attributes: { size: 7, raw: new Uint8Array([0]), name: "a" } })];
      sent.push(...(await batch.sendAll(queue, [..."0123456789x", "x".repeat(600_000), "y".repeat(600_000)])));
      assert.equal(await batch.add("external"), 1);
      assert.equal((await client.describeBatch({ BatchId: batch.id })).State, "open");
      return batch.id;
    });
    await client.completeUnits({ BatchId: id, Units: [{ Unit: "external" }] });
    const seen = {};
    await drain(queue, (message) => void (seen[message.id] = message), { concurrency: 4 });
    assert.deepEqual(new Set(Object.keys(seen)), new Set(sent));
    assert.deepEqual(sent.slice(0, 2).map((id) => seen[id].body), ["one", "0"]);
    const { size, raw, name } = seen[sent[0]].attributes;
    assert.deepEqual([size, [...raw], name], ["7", [0], "a"]);
    const bodies = [];
    await drain(onComplete, ({ body }) => void bodies.push(body));
    const [completion] = bodies.filter((body) => body !== "all");
    assert.equal(bodies.length, 2);
    assert.deepEqual([JSON.parse(completion).status, JSON.parse(completion).total], ["succeeded", 15]);
  });

  it("are cancelled by an error", async () => {
    const queue = await makeQueue();
    const units = async (batch) => {
      await batch.send(queue, "never delivered");
      throw new Error("stop");
    };
    let id;
    await assert.rejects(
      withBatch(client, { onComplete: queue }, (batch) => ((id = batch.id), units(batch))),
      /^Error: stop$/,
    );
    assert.equal((await client.describeBatch({ BatchId: id })).Status, "cancelled");
    const gone = async ({ id }) => {
      await client.cancelBatch({ BatchId: id });
      await client.deleteBatch({ BatchId: id });
      throw new Error("stop");
    };
    await assert.rejects(withBatch(client, {}, gone), /^Error: stop \(and the batch .* could not be cancelled: There/);
  });

  it("with an id can be sent again, and harm nothing", async () => {
    const queue = await makeQueue();
    const order = (pages, options = { dedup: (page) => page }) =>
      withBatch(client, { id: "again", onComplete: `${queue}-dead` }, (batch) => batch.sendAll(queue, pages, options));
    function* unreadable() {
      yield* "0123456789x"; // a request is full, and sent
      throw new Error("no such page");
    }
    await assert.rejects(order(unreadable()), /^Error: no such page$/);
    const { State, Total } = await client.describeBatch({ BatchId: "again" });
    assert.deepEqual([State, Total], ["open", 10]);
    const first = await order([..."0123456789x"]);
    assert.deepEqual(await order([..."0123456789x"]), first);
    await assert.rejects(order(["0"], {}), { name: "BatchSealed" });
    await assert.rejects(order(["y"]), { name: "BatchSealed" });
    const { Remaining, ...told } = await client.describeBatch({ BatchId: "again" });
    assert.deepEqual([told.State, told.Total, Remaining], ["sealed", 11, 11]);
  });

  it("take their external units again when an earlier run has sealed them", async () => {
    const queue = await makeQueue();
    const order = (keys, options) =>
      withBatch(client, { id: "outside", ...options }, async (batch) => {
        await batch.send(queue, "m", { dedup: batch.id });
        await withBatch(client, { id: "outside-child", parent: "outside" }, () => {});
        const added = [await batch.add(), await batch.add(...keys)];
        for (const key of keys.slice(0, 2)) added.push(await batch.add(key));
        return added;
      });
    const many = Array.from({ length: 1500 }, (_, index) => `page-${index}`); // more than one page of ListUnits
    assert.deepEqual(await order(many), [0, 1500, 0, 0]);
    assert.deepEqual(await order(many), [0, 0, 0, 0]);
    const { MessageId } = (await client.listUnits({ BatchId: "outside" })).Units[0];
    for (const unknown of ["page-1500", "outside-child", MessageId])
      await assert.rejects(order(["page-0", unknown]), (error) => {
        assert.equal(error.name, "BatchSealed");
        return error.message.endsWith(`Not in the batch: 1 of these units, the first is '${unknown}'.`);
      });
    assert.equal((await client.describeBatch({ BatchId: "outside" })).Total, 1502);
    const options = { id: "short", total: 1, retention: 0 };
    await withBatch(client, options, async (batch) => {
      await batch.add("a");
      await client.completeUnits({ BatchId: "short", Units: [{ Unit: "a" }] });
    });
    await assert.rejects(client.describeBatch({ BatchId: "short" }), { name: "BatchDoesNotExist" });
  });

  it("refuse an id for deduplication that is missing", async () => {
    const queue = await makeQueue();
    await withBatch(client, { id: "no-id" }, async (batch) => {
      for (const [made, words] of [[undefined], [null], ["", "''"], [0], [Promise.resolve("1"), "[object Promise]"]])
        await assert.rejects(batch.sendAll(queue, ["page 1"], { dedup: () => made }), {
          message: `dedup() returned ${words ?? made} for the body 'page 1': it must return a text`,
        });
      for (const dedup of ["", null])
        await assert.rejects(batch.send(queue, "page 1", { dedup }), /^TypeError: dedup must not be empty/);
    });
    assert.equal((await client.describeBatch({ BatchId: "no-id" })).Total, 0);
  });

  it("tell which units failed, and why", async () => {
    const queue = await makeQueue();
    let sent;
    await withBatch(client, { id: "failed" }, async (batch) => {
      const send = (body, page) => batch.send(queue, body, { attributes: { page } });
      sent = [await send("good", 1), await send("bad", 2), await send("worse", 3)];
      await batch.add("scan");
      await withBatch(client, { id: "failed-child", parent: "failed" }, (child) => child.add("part"));
    });
    const Status = "failed";
    await client.completeUnits({ BatchId: "failed", Units: [{ Unit: "scan", Status, Detail: "no paper" }] });
    await client.completeUnits({ BatchId: "failed-child", Units: [{ Unit: "part", Status }] });
    await drain(queue, ({ body }) => {
      if (body !== "good") throw new Reject(`${body} file`);
    });
    await client.deleteMessages({ QueueUrl: `${queue}-dead`, MessageIds: [sent[2]] });
    await waitUntil(async () => ["ended", "unknown"].includes((await client.getMessage({ MessageId: sent[2] })).State));
    const found = [];
    for await (const unit of failedUnits(client, "failed")) found.push(unit);
    assert.deepEqual(
      found.map(({ key, messageId, body, reason }) => [key, messageId, body, reason]),
      [
        [sent[1], sent[1], "bad", "bad file"],
        [sent[2], sent[2], undefined, undefined],
        ["scan", undefined, undefined, "no paper"],
        ["failed-child", undefined, undefined, undefined],
      ],
    );
    assert.equal(found[0].attributes.page, "2");
  });

  it("tell which message was refused", async () => {
    const queue = await makeQueue({ MaximumMessageSize: "1024" });
    const units = (batch) => batch.sendAll(queue, ["a", "x".repeat(2000)]);
    await assert.rejects(withBatch(client, {}, units), (error) => error instanceof TallyError && error.status === 400);
  });
});

describe("repeats", { concurrency: true }, () => {
  it("of a send with a lost answer add one unit", async () => {
    const queue = await makeQueue();
    for (const [name, add] of [
      ["SendMessage", (batch) => batch.send(queue, "m")],
      ["SendMessageBatch", (batch) => batch.sendAll(queue, ["m"])],
      ["AddUnits", (batch) => batch.add("m")],
    ]) {
      await withBatch(makeLossy(name), { id: name, total: 1 }, add);
      const { Total, State } = await client.describeBatch({ BatchId: name });
      assert.deepEqual([Total, State], [1, "sealed"]);
    }
  });

  it("of CreateBatch and XorUnits do nothing more", async () => {
    const known = async () => (await client.listBatches()).Batches.filter(({ Tracking }) => Tracking === "xor").length;
    const { BatchId } = await makeLossy("CreateBatch").createBatch({ Tracking: "xor" });
    assert.equal(await known(), 1);
    await makeLossy("XorUnits").xorUnits({ BatchId, Value: "0000000000000001", Registered: 2, Finished: 0 });
    assert.equal((await client.describeBatch({ BatchId })).Total, 2);
  });
});

describe("matchers", { concurrency: true }, () => {
  function* tens(tickets) {
    for (const [index, one] of tickets.entries())
      for (const other of tickets.slice(0, index))
        if (one.Attributes.n + other.Attributes.n === 10) yield [one, other];
  }

  async function makePool(name, ...numbers) {
    const queue = await makeQueue();
    const more = { ResultQueueUrl: queue, Attributes: { n: "num" }, Matcher: "external" };
    await client.createPool({ PoolName: name, ...more });
    if (numbers.length > 0) await offer(name, ...numbers);
    return queue;
  }

  const offer = (PoolName, ...numbers) =>
    client.offerTickets({ PoolName, Tickets: numbers.map((n) => ({ TicketId: `t${n}`, Attributes: { n } })) });

  it("propose what is found, once", async () => {
    const queue = await makePool("once", 1, 2, 3, 4);
    const matchers = [1, 2].map(() => new Matcher({ pool: "once", find: tens, client }));
    const runs = matchers.map((matcher) => matcher.run());
    await offer("once", 6, 7, 8, 9);
    await waitUntil(async () => (await statsOf(queue)).Visible === 4);
    for (const matcher of matchers) matcher.stop();
    await Promise.all(runs);
    assert.equal((await client.countTickets({ PoolName: "once" })).Tickets, 0);
  });

  it("share the work", async () => {
    await makePool("shared");
    const [one, other] = [0, 1].map((part) => new Matcher({ pool: "shared", find: tens, client, part, parts: 2 }));
    for (const matcher of [one, other]) await matcher.match(0);
    const numbers = Array.from({ length: 20 }, (_, index) => index + 6);
    await offer("shared", ...numbers, ...numbers.map((number) => 10 - number).filter((number) => number < 5));
    const counts = [await one.match(0), await other.match(0)];
    assert(counts.every((count) => count > 0), String(counts));
    assert.equal(counts[0] + counts[1], 20);
  });

  it("do not repeat what is refused for good", async () => {
    await makePool("refused", 1, 2);
    const told = [];
    let asked = 0;
    const find = async ([one]) => (asked++, one ? [[one, one]] : []);
    const matcher = new Matcher({ pool: "refused", find, client, log: (text) => told.push(text) });
    assert.equal(await matcher.match(0), 0);
    assert.equal(await matcher.match(0), 0);
    assert.equal(told.length, 1);
    assert(asked < 6);
    assert.throws(() => new Matcher({ pool: "refused", find, client, part: 1 }), /part must be 0 to parts - 1/);
    await assert.rejects(new Matcher({ pool: "nowhere", find, client }).run(), errors.PoolDoesNotExist);
  });
});
