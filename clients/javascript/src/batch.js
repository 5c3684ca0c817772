// Batches: messages that are counted together.
import { randomUUID } from "node:crypto";
import { TallyError } from "./client.js";
import { attributeValues, plainValues } from "./message.js";

const ENTRIES_MAX = 10;
const REQUEST_MAX = 1 << 20; // bytes

class Batch {
  #run = randomUUID();
  #count = 0;

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
    const entryOf = (body) => this.#entryOf(body, { group, dedup: dedup?.(body), attributes });
    for await (const entries of portionsOf(bodies, entryOf))
      sent.push(...(await this.#sendSome(queue, entries)));
    return sent;
  }

  async add(...keys) {
    return (await this.client.addUnits({ BatchId: this.id, Units: keys })).Added;
  }

  /** With an id for deduplication, a request that is repeated after a lost answer adds one unit. */
  #entryOf(body, { group, dedup = `${this.#run}-${this.#count++}`, attributes }) {
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
  await client.sealBatch({ BatchId: id });
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
