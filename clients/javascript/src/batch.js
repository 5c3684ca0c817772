// Batches: messages that are counted together.
import { randomUUID } from "node:crypto";
import { TallyError } from "./client.js";
import { attributeValues, plainValues } from "./message.js";

const ENTRIES_MAX = 10;
const REQUEST_MAX = 1 << 20; // bytes

class Batch {
  #run = randomUUID();
  #count = 0;
  #keys; // of the external units, once the batch is known to be sealed

  constructor(client, id) {
    this.client = client;
    this.id = id;
  }

  async send(queue, body, { group, dedup, delay, attributes } = {}) {
    const entry = this.#entryOf(body, { group, dedup, attributes });
    const request = { QueueUrl: queue, ...entry, DelaySeconds: delay };
    return (await this.client.sqs.sendMessage(request)).MessageId;
  }

  async sendAll(queue, bodies, { group, dedup, attributes } = {}) {
    const sent = [];
    const entryOf = (body) => this.#entryOf(body, { group, dedup: dedup && idFrom(dedup, body), attributes });
    for await (const entries of portionsOf(bodies, entryOf))
      sent.push(...(await this.#sendSome(queue, entries)));
    return sent;
  }

  async add(...keys) {
    if (keys.length === 0) return 0;
    try {
      return (await this.client.addUnits({ BatchId: this.id, Units: keys })).Added;
    } catch (error) {
      if (error.name !== "BatchSealed") throw error;
      this.#keys ??= await externalKeys(this.client, this.id);
      const unknown = keys.filter((key) => !this.#keys.has(key));
      if (unknown.length === 0) return 0;
      error.message += ` Not in the batch: ${unknown.length} of these units, the first is '${unknown[0]}'.`;
      throw error;
    }
  }

  /** With an id for deduplication, a request that is repeated after a lost answer adds one unit. */
  #entryOf(body, { group, dedup = `${this.#run}-${this.#count++}`, attributes }) {
    if (!dedup) throw new TypeError("dedup must not be empty: without it the message could be sent twice");
    return {
      MessageBody: body,
      MessageGroupId: group,
      MessageDeduplicationId: dedup,
      MessageAttributes: attributeValues({ ...attributes, "Tally.Batch": this.id }),
    };
  }

  async #sendSome(queue, entries) {
    const numbered = entries.map((entry, index) => ({ Id: String(index), ...entry }));
    const reply = await this.client.sqs.sendMessageBatch({ QueueUrl: queue, Entries: numbered });
    const [failed] = reply.Failed ?? [];
    if (failed !== undefined) {
      const $metadata = { ...reply.$metadata, httpStatusCode: failed.SenderFault ? 400 : 503 };
      throw new TallyError({ name: failed.Code, message: failed.Message, $metadata });
    }
    return reply.Successful.sort((a, b) => a.Id - b.Id).map(({ MessageId }) => MessageId);
  }
}

/** A missing id must not pass for one that was left out: the message would be sent twice. */
function idFrom(dedup, body) {
  const id = dedup(body);
  if (typeof id === "string" && id !== "") return id;
  const given = id === "" ? "''" : String(id);
  throw new TypeError(`dedup() returned ${given} for the body '${body.slice(0, 100)}': it must return a text`);
}

/** A batch that is sealed loses none of them. */
async function externalKeys(client, id) {
  const keys = new Set();
  for await (const { Unit, MessageId, BatchId } of client.each.listUnits({ BatchId: id }))
    if (MessageId === undefined && BatchId === undefined) keys.add(Unit);
  return keys;
}

/** The entries for bodies, as many together as fit one request. */
async function* portionsOf(bodies, entryOf) {
  let entries = [];
  let size = 0;
  for await (const body of bodies) {
    const entry = entryOf(body);
    const own = sizeOf(entry);
    if (entries.length === ENTRIES_MAX || (entries.length > 0 && size + own > REQUEST_MAX)) {
      yield entries;
      [entries, size] = [[], 0];
    }
    entries.push(entry);
    size += own;
  }
  if (entries.length > 0) yield entries;
}

/** What SQS counts: the body, and names, types and values of the attributes. */
function sizeOf({ MessageBody, MessageAttributes }) {
  const parts = Object.entries(MessageAttributes).flatMap(([name, { DataType, StringValue, BinaryValue }]) => [
    name,
    DataType,
    StringValue ?? BinaryValue,
  ]);
  return [MessageBody, ...parts].reduce((size, part) => size + Buffer.byteLength(part), 0);
}

const targetOf = (target) => (typeof target === "string" ? { QueueUrl: target } : target);

export async function withBatch(client, options, addUnits) {
  const { onComplete, onSuccess, onFirstFailure, total, parent, expiresAfter, retention } = options;
  const isOurs = options.id === undefined;
  const id = isOurs ? randomUUID() : options.id;
  await client.createBatch({
    BatchId: id,
    OnComplete: targetOf(onComplete),
    OnSuccess: targetOf(onSuccess),
    OnFirstFailure: targetOf(onFirstFailure),
    Total: total,
    Parent: parent,
    ExpiresAfterSeconds: expiresAfter,
    RetentionSeconds: retention,
  });
  let result;
  try {
    result = await addUnits(new Batch(client, id));
  } catch (error) {
    if (isOurs) await cancel(client, id, error); // another id may be an earlier run's
    throw error;
  }
  await client.sealBatch({ BatchId: id }).catch((error) => {
    // The last unit of its total sealed it, it completed, and its retention is over.
    if (total === undefined || error.name !== "BatchDoesNotExist") throw error;
  });
  return result;
}

function cancel(client, id, error) {
  return client.cancelBatch({ BatchId: id }).catch((why) => {
    if (error instanceof Error) error.message += ` (and the batch ${id} could not be cancelled: ${why.message})`;
  });
}

export async function* failedUnits(client, id) {
  for await (const { Unit, MessageId, Detail } of client.each.listUnits({ BatchId: id, State: "failed" })) {
    const letter = MessageId === undefined ? {} : await client.getMessage({ MessageId });
    const attributes = plainValues(letter.MessageAttributes);
    yield { key: Unit, messageId: MessageId, body: letter.Body, reason: letter.FailureReason ?? Detail, attributes };
  }
}
