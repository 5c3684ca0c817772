// A message that was received, and what is known of its lease.

const LEASE_SHARE = 0.9; // of its visibility timeout: so long it lasts at least

/** The message may be somebody else's by now. */
export class LeaseLost extends Error {
  name = "LeaseLost";
}

export class Message {
  #abort = new AbortController();
  #end = new AbortController();
  #timer;
  #isLost = false;
  #heldUntil = Infinity;

  constructor(queue, raw, visibility) {
    this.queue = queue;
    this.raw = raw;
    if (visibility !== undefined) this.renew(performance.now(), visibility);
  }

  get id() {
    return this.raw.MessageId;
  }

  get body() {
    return this.raw.Body;
  }

  get receiptHandle() {
    return this.raw.ReceiptHandle;
  }

  get attributes() {
    return plainValues(this.raw.MessageAttributes);
  }

  get groupId() {
    return this.raw.Attributes?.MessageGroupId;
  }

  get receiveCount() {
    return Number(this.raw.Attributes?.ApproximateReceiveCount ?? 0);
  }

  get sentAt() {
    return new Date(Number(this.raw.Attributes?.SentTimestamp ?? 0));
  }

  get fencingToken() {
    return Number(this.attributes["Tally.FencingToken"] ?? 0);
  }

  get failureReason() {
    return this.attributes["Tally.FailureReason"];
  }

  get isDeadLetter() {
    return this.raw.Attributes?.DeadLetterQueueSourceArn !== undefined;
  }

  get signal() {
    return this.#abort.signal;
  }

  get isHeld() {
    return !this.#isLost && performance.now() < this.#heldUntil;
  }

  // --- for the worker ------------------------------------------------------------------------------------------------

  /** Notes a lease of so many seconds that was asked for then. One that was over then stays over: another worker may
   *  have had the message in between, and a standard queue takes older handles, too. */
  renew(askedAt, visibility) {
    const lasts = LEASE_SHARE * visibility * 1000;
    this.beatenAt = askedAt;
    if (askedAt >= this.#heldUntil) return;
    this.#heldUntil = askedAt + lasts;
    if (this.ended.aborted) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.abort(new LeaseLost("the server did not confirm the lease in time")), lasts);
    this.#timer.unref();
  }

  /** Has no heartbeat even been tried for as long as a lease lasts, because this process stood still? */
  isOverslept(visibility) {
    return this.beatenAt + LEASE_SHARE * visibility * 1000 <= performance.now();
  }

  get isLost() {
    return this.#isLost;
  }

  lose(why) {
    this.#isLost = true;
    this.abort(new LeaseLost(why));
  }

  abort(reason) {
    this.#abort.abort(reason);
  }

  /** Nobody works on it any more. */
  end() {
    clearTimeout(this.#timer);
    this.#end.abort();
  }

  /** Aborts with end(). */
  get ended() {
    return this.#end.signal;
  }
}

/** Message attributes as SQS takes them. */
export function attributeValues(attributes) {
  return Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name, attributeValue(value)]));
}

/** What they were made of. Numbers are text. */
export function plainValues(attributes = {}) {
  const values = Object.entries(attributes);
  return Object.fromEntries(values.map(([name, value]) => [name, value.StringValue ?? value.BinaryValue]));
}

function attributeValue(value) {
  if (value instanceof Uint8Array) return { DataType: "Binary", BinaryValue: value };
  return { DataType: typeof value === "string" ? "String" : "Number", StringValue: String(value) };
}
