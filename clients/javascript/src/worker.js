// A worker: takes messages from a queue and calls a function for each. It does what `tally work` does for commands.
import { createClient } from "./client.js";
import { AlreadyDone } from "./inbox.js";
import { Message } from "./message.js";
import { isOutage, limited, pause, pauses } from "./outage.js";

const RECEIVE_WAIT_S = 20;
const SHORT_WAIT_S = 1; // of a receive that must not last when the worker is to end
const RECEIVE_MAX = 10;
const ANSWER_MS = 10_000; // how long any other answer may take
const BEAT_MIN_MS = 200;
const BEAT_WAIT_MIN_MS = 2000; // how long a heartbeat may take
const BEAT_WAIT_MAX_MS = 60_000;
const END_MS = 3000; // how long a handler may take that was told to end
const ATTEMPTS_MAX = 25; // of a message that always fails, unless somebody says otherwise
const REASON_MAX = 1024; // bytes
const BACKOFF = { min: 1, max: 900 }; // where the queue has none: what always fails must not spin
const TIMER_MAX_MS = 2 ** 31 - 1; // a longer one would fire at once
const SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"];

const running = new Set(); // the workers of this process, which signals stop
const stopAll = () => running.forEach((worker) => worker.stop());

/** Thrown by a handler: the message is to be tried again. */
export class Retry extends Error {
  name = "Retry";

  constructor(reason = "to be tried again", { after, ...options } = {}) {
    super(reason, options);
    this.after = after;
  }
}

/** Thrown by a handler: the message can't be handled, now or later. */
export class Reject extends Error {
  name = "Reject";
}

export class Worker {
  #options;
  #client;
  #sqs;
  #isFifo;
  #isAtMostOnce = false;
  #attemptsOfQueue = 0;
  #backoffMax = BACKOFF.max;
  #stopping = new AbortController();
  #graceIsOver = new AbortController();
  #graceTimer;
  #over = new AbortController(); // no request outlives run(): it would keep the process alive
  #inHand = new Map(); // a message -> its work, a promise
  #wake = () => {}; // who waits for room
  #lanes = new Map(); // what must be handled one after the other -> the work that came last
  #isAway = false;
  #retryBy = 0; // until then a message comes again that failed here
  #lostBy = 0; // and until then one that was given out with a reply which was lost
  #isLossTold = false;

  constructor({ queue, handler, client, ...options }) {
    this.queue = queue;
    this.#client = client ?? createClient();
    this.#sqs = this.#client.sqs;
    this.#isFifo = queue.endsWith(".fifo");
    const usual = { concurrency: 1, visibility: 30, grace: 20, log: (text) => console.error(text) };
    this.#options = { ...usual, ...options, handler };
    for (const [name, most] of [["concurrency", 1000], ["visibility", 43200]])
      if (!(this.#options[name] >= 1 && this.#options[name] <= most))
        throw new RangeError(`${name} must be 1 to ${most}, not ${this.#options[name]}`);
    if (typeof handler !== "function") throw new TypeError(`handler must be a function, not ${typeof handler}`);
  }

  async run() {
    if (running.size === 0) for (const signal of SIGNALS) process.on(signal, stopAll);
    running.add(this);
    onAbort(this.#stopping.signal, () => this.#beginGrace());
    try {
      await this.#askAboutQueue();
      while (await this.#hasRoom()) await this.#take();
    } finally {
      this.#stopping.abort();
      await this.#finish();
      running.delete(this);
      if (running.size === 0) for (const signal of SIGNALS) process.off(signal, stopAll);
    }
  }

  stop() {
    if (this.#isStopping) this.#graceIsOver.abort();
    this.#stopping.abort();
    this.#wake();
  }

  #beginGrace() {
    const ms = Math.min(this.#options.grace * 1000, TIMER_MAX_MS);
    this.#graceTimer = setTimeout(() => this.#graceIsOver.abort(), ms);
  }

  get #isStopping() {
    return this.#stopping.signal.aborted;
  }

  // --- taking messages -----------------------------------------------------------------------------------------------

  /** Its attributes of these names; undefined when the worker stops. */
  async #askQueue(AttributeNames) {
    const request = { QueueUrl: this.queue, AttributeNames };
    const reply = await this.#reach((abortSignal) => this.#sqs.getQueueAttributes(request, { abortSignal }));
    return reply?.Attributes;
  }

  async #askAboutQueue() {
    const attributes = (await this.#askQueue(["All"])) ?? {};
    this.#isAtMostOnce = attributes["Tally.DeliveryMode"] === "at-most-once";
    this.#attemptsOfQueue = Number(JSON.parse(attributes.RedrivePolicy ?? "{}").maxReceiveCount ?? 0);
    this.#backoffMax = JSON.parse(attributes["Tally.Backoff"] ?? "{}").max ?? BACKOFF.max;
  }

  /** Until another message may be begun. False: none is to be begun any more. */
  async #hasRoom() {
    while (this.#room() === 0 && !this.#isStopping) await new Promise((resolve) => (this.#wake = resolve));
    return !this.#isStopping;
  }

  #room() {
    return this.#options.concurrency - this.#inHand.size;
  }

  async #take() {
    const beganAt = performance.now();
    const reply = await this.#reach((abortSignal) => this.#receive(abortSignal), {
      answerMs: (RECEIVE_WAIT_S + 10) * 1000,
      // What is received at most once must not get lost with an answer that nobody reads.
      outer: (this.#isAtMostOnce ? this.#graceIsOver : this.#stopping).signal,
    });
    if (!reply && this.#graceIsOver.signal.aborted && this.#isAtMostOnce)
      this.#log("the server did not answer within the grace: if it gave out a message meanwhile, that one is lost");
    const visibility = this.#isAtMostOnce ? undefined : this.#options.visibility;
    for (const raw of reply?.Messages ?? []) this.#begin(new Message(this.queue, raw, visibility));
    if (reply && !reply.Messages?.length && this.#options.untilEmpty && (await this.#isDrained(beganAt))) this.stop();
  }

  /** Of a group one message at a time: if it fails, the next one must not be here. */
  async #receive(abortSignal) {
    const request = {
      QueueUrl: this.queue,
      MaxNumberOfMessages: this.#isFifo ? 1 : Math.min(this.#room(), RECEIVE_MAX),
      WaitTimeSeconds: this.#receiveWait(),
      VisibilityTimeout: this.#options.visibility,
      AttributeNames: ["All"],
      MessageAttributeNames: ["All", "Tally.*"],
    };
    let isFirst = false;
    try {
      const reply = await this.#sqs.receiveMessage(request, { abortSignal });
      isFirst = !(reply.$metadata.attempts > 1); // else the SDK has repeated it
      return reply;
    } finally {
      if (!isFirst) this.#noteLostReceive(request.WaitTimeSeconds);
    }
  }

  /** A message may have been given out with a reply that was lost. Or the server gives one out yet, because it doesn't
   *  know that nobody waits any more. */
  #noteLostReceive(waitS) {
    if (this.#isAtMostOnce) return;
    this.#noteReturn(waitS);
    this.#noteLoss(waitS + this.#options.visibility);
  }

  /** A message of which we don't know may come again within so many seconds. */
  #noteLoss(seconds) {
    this.#lostBy = Math.max(this.#lostBy, performance.now() + seconds * 1000);
    this.#isLossTold = false;
  }

  #receiveWait() {
    if (!this.#options.untilEmpty) return this.#isAtMostOnce ? SHORT_WAIT_S : RECEIVE_WAIT_S;
    const seconds = Math.ceil((this.#retryBy - performance.now()) / 1000);
    return Math.min(Math.max(seconds, SHORT_WAIT_S), RECEIVE_WAIT_S);
  }

  /** Is there nothing more to come, now that a receive which began then has found nothing? */
  async #isDrained(beganAt) {
    if (this.#inHand.size > 0 || beganAt < this.#retryBy) return false;
    return beganAt >= this.#lostBy || (await this.#isQueueEmpty());
  }

  /** A lost message is in flight, or in its back-off, or it is back since the receive that found none. */
  async #isQueueEmpty() {
    const counts = ["", "NotVisible", "Delayed"].map((state) => `ApproximateNumberOfMessages${state}`);
    const attributes = await this.#askQueue(counts);
    if (attributes === undefined || counts.every((name) => attributes[name] === "0")) return true;
    const seconds = Math.ceil((this.#lostBy - performance.now()) / 1000);
    if (!this.#isLossTold) this.#log(`a reply was lost, perhaps with a message: waiting up to ${seconds} s for it`);
    this.#isLossTold = true;
    return false;
  }

  // --- handling one --------------------------------------------------------------------------------------------------

  /** If the lease of a message was lost, it comes again, perhaps to us, while its handler runs. Then that one is waited
   *  for, and in a FIFO queue also those of the same group. Its heartbeats must end: with an older handle they would
   *  prolong the new lease. */
  #begin(message) {
    for (const other of this.#inHand.keys()) if (other.id === message.id) this.#lose(other, "it was delivered again");
    const lane = this.#isFifo ? message.groupId : message.id;
    const work = this.#work(message, this.#lanes.get(lane));
    this.#inHand.set(message, work);
    this.#lanes.set(lane, work);
    work.finally(() => {
      this.#inHand.delete(message);
      if (this.#lanes.get(lane) === work) this.#lanes.delete(lane);
      this.#wake();
    });
  }

  /** Never fails. */
  async #work(message, before) {
    const lease = this.#isAtMostOnce ? undefined : this.#keepLease(message);
    await before;
    const settle = await this.#handle(message);
    message.end();
    await lease; // a heartbeat that comes later would undo what follows
    if (settle && !this.#isAtMostOnce) await this.#settle(message, settle);
  }

  /** What is to become of the message; undefined: it is left alone. */
  async #handle(message) {
    if (message.signal.aborted) return undefined;
    if (this.#isStopping && !this.#isAtMostOnce) return this.#giveBack;
    try {
      await this.#options.handler(message);
    } catch (error) {
      return this.#afterError(message, error);
    }
    return this.#delete;
  }

  #afterError(message, error) {
    if (error instanceof AlreadyDone) return this.#delete;
    if (message.signal.aborted && message.isHeld) return this.#giveBack; // we told it to end
    if (!message.signal.aborted && !this.#isAtMostOnce) return (message) => this.#fail(message, error);
    const why = this.#isAtMostOnce ? "its queue delivers at most once, so it is not tried again" : "its lease was lost";
    this.#log(`message ${message.id}: ${reasonOf(error)}; ${why}`, error);
    return undefined;
  }

  /** Tells the server what becomes of a message; as often as it takes, until the worker stops. */
  async #settle(message, settle) {
    try {
      await settle.call(this, message);
    } catch (error) {
      if (error.name === "ReceiptHandleIsInvalid") {
        this.#log(`message ${message.id}: its lease is lost, so another worker may have it: ${error.message}`);
        return;
      }
      const { visibility } = this.#options;
      this.#log(
        `message ${message.id}: the server did not hear how it ended, so it comes back in at most ${visibility} s: ` +
          error.message,
      );
      this.#noteReturn(visibility);
    }
  }

  #delete({ receiptHandle: ReceiptHandle }) {
    const request = { QueueUrl: this.queue, ReceiptHandle };
    return this.#tell((abortSignal) => this.#sqs.deleteMessage(request, { abortSignal }));
  }

  #giveBack({ receiptHandle: ReceiptHandle }) {
    const request = { QueueUrl: this.queue, ReceiptHandle, VisibilityTimeout: 0 };
    return this.#tell((abortSignal) => this.#sqs.changeMessageVisibility(request, { abortSignal }));
  }

  async #fail(message, error) {
    const request = {
      QueueUrl: this.queue,
      ReceiptHandle: message.receiptHandle,
      Reason: reasonOf(error),
      Final: error instanceof Reject,
      RetryAfterSeconds: (error instanceof Retry ? error.after : undefined) ?? this.#options.retryAfter,
      Backoff: BACKOFF,
      MaxAttempts: this.#attemptsMax(message),
      DeadLetterQueueUrl: this.#options.deadLetter,
    };
    let tries = 0;
    const ask = (abortSignal) => {
      tries++;
      return this.#client.failMessage(request, { abortSignal });
    };
    const told = await this.#tell(ask).catch((refusal) => {
      // A FIFO queue answers so to the repeat of what it has done, when the first reply got lost.
      const isRepeat = tries > 1 || refusal.$metadata?.attempts > 1;
      if (isRepeat && refusal.name === "ReceiptHandleIsInvalid")
        this.#noteLoss(request.RetryAfterSeconds ?? this.#backoffMax);
      throw refusal;
    });
    if (told.Outcome === "returned") this.#noteReturn(told.RetryAfterSeconds ?? 0);
    this.#log(`message ${message.id}: ${reasonOf(error)}; ${fateOf(told)}`, error);
  }

  /** Who gets a dead letter wants it dealt with: it is not thrown away because it had its attempts elsewhere. */
  #attemptsMax(message) {
    const { maxAttempts } = this.#options;
    if (maxAttempts !== undefined) return maxAttempts || undefined;
    return message.isDeadLetter ? undefined : Math.max(ATTEMPTS_MAX, this.#attemptsOfQueue);
  }

  #noteReturn(seconds) {
    this.#retryBy = Math.max(this.#retryBy, performance.now() + seconds * 1000);
  }

  // --- heartbeats ----------------------------------------------------------------------------------------------------

  /** Prolongs the lease until the work has ended. A server that was away gives leases time to be renewed. */
  async #keepLease(message) {
    const { visibility } = this.#options;
    const every = Math.max((visibility * 1000) / 3, BEAT_MIN_MS);
    const wait = Math.min(Math.max(every, BEAT_WAIT_MIN_MS), BEAT_WAIT_MAX_MS);
    let took = 0;
    while (await pause(Math.max(every - took, BEAT_MIN_MS), message.ended)) {
      if (message.isLost) return;
      const askedAt = performance.now();
      // A heartbeat now might change the lease of whoever has the message.
      if (message.isOverslept(visibility)) return this.#lose(message, "its heartbeat came too late");
      try {
        await limited(wait, this.#over.signal, (abortSignal) => this.#beat(message, abortSignal));
        message.renew(askedAt, visibility);
      } catch (error) {
        // A key or a right that is refused says nothing about the lease, which is lost when its time is over.
        const isAboutLease = !isOutage(error) && error.$metadata?.httpStatusCode !== 403;
        if (isAboutLease) return this.#lose(message, error.message);
        this.#tellOutage(error);
      }
      message.beatenAt = performance.now();
      took = message.beatenAt - askedAt;
    }
  }

  #beat({ receiptHandle: ReceiptHandle }, abortSignal) {
    const request = { QueueUrl: this.queue, ReceiptHandle, VisibilityTimeout: this.#options.visibility };
    return this.#sqs.changeMessageVisibility(request, { abortSignal });
  }

  #lose(message, why) {
    if (message.isLost) return;
    message.lose(why);
    this.#log(`message ${message.id}: its lease is lost, so another worker may have it: ${why}`);
  }

  // --- the end -------------------------------------------------------------------------------------------------------

  /** Waits for the handlers that run, and then for those that listen to their signal. */
  async #finish() {
    const { visibility } = this.#options;
    const all = Promise.all(this.#inHand.values());
    await Promise.race([all, aborted(this.#graceIsOver.signal)]);
    clearTimeout(this.#graceTimer);
    for (const message of this.#inHand.keys()) message.abort(new DOMException("the worker stops", "AbortError"));
    await Promise.race([all, pause(END_MS, this.#over.signal)]);
    this.#over.abort();
    for (const message of this.#inHand.keys()) {
      message.lose("the worker has stopped");
      message.end();
      this.#log(`message ${message.id}: its handler did not end in time, so it comes back in at most ${visibility} s`);
    }
  }

  // --- a server that is away -----------------------------------------------------------------------------------------

  /** The answer of call(signal), asked for until there is one. When the worker stops: undefined. What is a last word is
   *  told once more then, and fails if that does. */
  async #reach(call, { answerMs = ANSWER_MS, outer = this.#stopping.signal, isLastWord = false } = {}) {
    for (const ms of pauses()) {
      try {
        const reply = await limited(answerMs, outer, call);
        this.#tellReached();
        return reply;
      } catch (error) {
        if (!isOutage(error) || (isLastWord && this.#isStopping)) throw error;
        this.#tellOutage(error);
      }
      if (!(await pause(ms, this.#stopping.signal)) && !isLastWord) return undefined;
    }
  }

  #tell(call) {
    return this.#reach(call, { outer: this.#over.signal, isLastWord: true });
  }

  #tellOutage(error) {
    if (!this.#isAway && !this.#isStopping) this.#log(`${error.message}; trying again until it works`);
    this.#isAway = true;
  }

  #tellReached() {
    if (this.#isAway) this.#log("the server answers again");
    this.#isAway = false;
  }

  #log(text, error) {
    this.#options.log(text, error);
  }
}

function onAbort(signal, act) {
  if (signal.aborted) act();
  else signal.addEventListener("abort", act, { once: true });
}

const aborted = (signal) => new Promise((resolve) => onAbort(signal, resolve));

/** What became of a failed message. */
function fateOf({ Outcome, Attempt, MaxAttempts, RetryAfterSeconds = 0, QueueName }) {
  if (Outcome === "ignored") return "it had ended before";
  if (Outcome === "returned") {
    const most = MaxAttempts === undefined ? "" : ` of ${MaxAttempts}`;
    return `attempt ${Attempt}${most}, next in ${Math.round(RetryAfterSeconds)} s`;
  }
  const fates = {
    "dead-lettered": `it is in queue ${QueueName} now`,
    dropped: "it is dropped: its queue has no dead-letter queue",
    held: "its group is held",
  };
  return `attempt ${Attempt} was the last, ${fates[Outcome]}`;
}

/** Name and text of an error, as a message may contain them. Anything can be thrown, also what is no text. */
function reasonOf(error) {
  try {
    if (!(error instanceof Error)) return sound(String(error));
    const isPlain = error instanceof Retry || error instanceof Reject;
    return sound(isPlain && error.message ? String(error.message) : `${error.name}: ${error.message}`);
  } catch {
    return `something was thrown that has no text: ${typeof error}`;
  }
}

function sound(text) {
  // eslint-disable-next-line no-control-regex -- SQS refuses them
  const clean = text.slice(0, REASON_MAX).replaceAll(/[\0-\x08\v\f\x0e-\x1f\ufffe\uffff]|\p{Surrogate}/gu, "?");
  return new TextDecoder().decode(Buffer.from(clean).subarray(0, REASON_MAX)).replace(/\ufffd$/, "");
}
