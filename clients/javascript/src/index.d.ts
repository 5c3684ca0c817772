// What each function and class does and promises. The types of the actions are in actions.d.ts.
import type { Message as SqsMessage, SQS, SQSClientConfig, SQSServiceException } from "@aws-sdk/client-sqs";
import type * as Model from "./actions.js";
import type { Actions, Errors, Lists, ListedTicket, Target } from "./actions.js";

/** The requests, replies and values of the actions. */
export type { Model };

// --- calls -----------------------------------------------------------------------------------------------------------

export interface ClientOptions extends Omit<SQSClientConfig, "endpoint"> {
  /** A URL; else the variable TALLY_ENDPOINT, else http://127.0.0.1:9324. */
  endpoint?: string;
  /** A file in PEM: who may vouch for an https:// server; else TALLY_CA_FILE, else who Node.js trusts. */
  caFile?: string;
  /** What this worker calls itself for `tally inflight`: 1 to 128 characters of ASCII; else HOST/PROCESS. */
  name?: string;
}

export interface CallOptions {
  abortSignal?: AbortSignal;
}

export interface Metadata {
  $metadata: { httpStatusCode: number; requestId?: string; attempts?: number; totalRetryDelay?: number };
}

/** An error that the server answered. Those of `client.sqs` are the SDK's own, with the same names. */
export class TallyError extends SQSServiceException {
  /** The name that the protocol uses, such as BatchDoesNotExist. */
  readonly name: string;
  /** The older code of SQS, where SQS has one: AWS.SimpleQueueService.NonExistentQueue is QueueDoesNotExist. */
  readonly code: string;
  /** The HTTP status. */
  readonly status: number;
}

/** What answered is not Tally but, for example, a proxy; or the reply was spoiled on its way. Nobody knows whether the
 *  server did what it was asked for. Its text says what answered. Also of `client.sqs`. */
export class UnreadableReply extends Error {
  /** The HTTP status. */
  readonly status: number;
}

export interface ErrorClass {
  new (...options: never[]): TallyError;
  readonly prototype: TallyError;
}

/** The class of each error: `error instanceof errors.BatchDoesNotExist`. */
export const errors: Errors;

/** Calls a Tally server. A queue is named by its URL or its bare name, wherever a QueueUrl is asked for. */
export interface Client extends Actions {
  /** The SDK's client for the actions that SQS has, such as sqs.sendMessage(). */
  readonly sqs: SQS;
  /** Lists, item by item: for await (const batch of client.each.listBatches()). */
  readonly each: Lists;
  /** Closes the connections. */
  destroy(): void;
}

/** A client of the server at `endpoint`. Sends no request. All other options are the SDK's: region, maxAttempts, ….
 *
 *  Requests are signed with `credentials`; else with what AWS's tools are configured with; else with any key, which a
 *  server without --credentials takes. A request without a reply of Tally is sent up to three times, so what must not be
 *  done twice needs what tells a repeat: a MessageDeduplicationId, a BatchId. */
export function createClient(options?: ClientOptions): Client;

// --- workers ---------------------------------------------------------------------------------------------------------

/** A message that a Worker has in hand. */
export class Message {
  /** `raw` is what sqs.receiveMessage() gives, with MessageAttributeNames ["All"]. */
  constructor(queue: string, raw: SqsMessage);
  readonly queue: string;
  readonly raw: SqsMessage;
  readonly id: string;
  readonly body: string;
  readonly receiptHandle: string;
  /** The message attributes, with those of Tally. Numbers are text, as they were sent. */
  readonly attributes: Record<string, string | Uint8Array>;
  readonly groupId?: string;
  /** Deliveries, this one included. */
  readonly receiveCount: number;
  readonly sentAt: Date;
  /** Grows with every delivery in the namespace, so what the handler writes to can refuse an older one. */
  readonly fencingToken: number;
  /** Why the newest failed attempt failed. */
  readonly failureReason?: string;
  readonly isDeadLetter: boolean;
  /** Aborts with a LeaseLost when another worker may have the message, and with an AbortError when the worker stops and
   *  its grace is over. Give it to what the handler waits for. */
  readonly signal: AbortSignal;
  /** False: the lease was lost, or the server has not confirmed it in time. */
  readonly isHeld: boolean;
}

/** Another worker may have the message. A handler that throws after that leaves the message alone. */
export class LeaseLost extends Error {}

/** Thrown by a handler: the message is to be tried again, after so many seconds (0 to 43,200) if `after` is given. The
 *  attempt counts. */
export class Retry extends Error {
  constructor(reason?: string, options?: ErrorOptions & { after?: number });
  readonly after?: number;
}

/** Thrown by a handler: the message can't be handled, now or later. It goes to the dead-letter queue, and is dropped if
 *  there is none. */
export class Reject extends Error {}

export interface WorkerOptions {
  /** Its URL or bare name. */
  queue: string;
  /** Called for each message. */
  handler(message: Message): unknown;
  /** Of createClient(); else createClient() makes one. */
  client?: Client;
  /** Handle up to so many messages at a time; 1 to 1,000. The default is 1. */
  concurrency?: number;
  /** After a crash of this machine others get its messages so many seconds later (1 to 43,200). The default is 30. */
  visibility?: number;
  /** A failed message is tried again so many seconds later; else later each time. */
  retryAfter?: number;
  /** Give a message up that failed so often, or sooner if the queue's RedrivePolicy says so; else that policy decides,
   *  and without one it is 25 times; 0: no limit but the policy's. What is a dead letter already is given up only if
   *  this says so. */
  maxAttempts?: number;
  /** The queue where messages go that are given up; else where the queue's RedrivePolicy says. */
  deadLetter?: string;
  /** When told to stop, running handlers may go on for so many seconds. The default is 20. */
  grace?: number;
  /** Stop when there is no message, and none is to come again that failed here, or that was given out with a reply which
   *  was lost. If a reply was lost, this waits while the queue has a message, also in flight with other workers or
   *  delayed; at most for the time that such a message is hidden. */
  untilEmpty?: boolean;
  /** Gets what somebody should know: failed messages, lost leases, a server that is away. Else console.error() does. */
  log?(text: string, error?: unknown): void;
}

/** Calls handler(message) for each message of a queue, until it is told to stop.
 *
 *  When the handler is done, the message is deleted. When it throws, the attempt has failed, with the name and text of
 *  the error as its reason. The message is tried again after its queue's Tally.Backoff, or, if it has none, after 1 s,
 *  2 s, 4 s and so on up to 15 minutes, less or more by a fifth. When its attempts are over it goes to the dead-letter
 *  queue. Retry and Reject say otherwise; AlreadyDone, of once(), deletes the message.
 *
 *  Each message is handled at least once: after a crash it comes again. While its handler runs it is hidden from other
 *  workers, however long that takes. If the lease is lost all the same, message.signal aborts. On a FIFO queue the
 *  messages of a group are handled one after the other, in order. */
export class Worker {
  constructor(options: WorkerOptions);
  readonly queue: string;
  /** Works until stop() is called, or SIGTERM, SIGINT or SIGHUP comes. Then no message is begun, and running handlers
   *  may finish within the grace, which a second signal ends. Those that still run get an aborted signal, and three
   *  seconds. A message whose handler throws then is given back; one whose handler goes on comes again when its
   *  visibility timeout is over. If the queue delivers at most once, the receive under way may last for the grace, too.
   *  If it is not answered by then, its message is lost. Call run() once.
   *
   *  While the server can't be reached the worker tries again, with longer and longer pauses. The same when something
   *  else answers, or spoils the replies, such as a proxy. Errors: only those of the server itself if it refuses to give
   *  messages, for example because the queue does not exist or the credentials are wrong. */
  run(): Promise<void>;
  /** Ends run() as a signal does: at the latest after the grace, or three seconds later if handlers run then. Returns at
   *  once. A second call ends the grace. */
  stop(): void;
}

// --- batches ---------------------------------------------------------------------------------------------------------

export interface BatchOptions {
  /** The id of the batch; else a UUID. */
  id?: string;
  /** A queue, or a message for one, which is sent when all units have ended. */
  onComplete?: string | Target;
  /** The same, when all have succeeded. */
  onSuccess?: string | Target;
  /** The same, when the first has failed. */
  onFirstFailure?: string | Target;
  /** How many units there will be. */
  total?: number;
  /** A batch of which this one is a unit. */
  parent?: string;
  /** After so many seconds the batch completes as expired; else after 14 days. */
  expiresAfter?: number;
  /** For how many seconds it is remembered after that; else 4 days. */
  retention?: number;
}

export interface SendOptions {
  group?: string;
  attributes?: Record<string, string | number | bigint | Uint8Array>;
}

/** A batch that is open. */
export interface Batch {
  readonly client: Client;
  readonly id: string;
  /** Sends a message that is a unit: it ends when the message is deleted, or has failed. Returns its MessageId.
   *
   *  `delay` is in seconds, up to 900. Without `dedup` the message gets a MessageDeduplicationId of this call, so that
   *  a request which is repeated after a lost answer adds one unit. Give your own if the program may be run again.
   *  Errors: those of SendMessage, and BatchSealed; TypeError if `dedup` is empty. */
  send(queue: string, body: string, options?: SendOptions & { dedup?: string; delay?: number }): Promise<string>;
  /** send() for each body, ten in a request. Returns the MessageIds, in order.
   *
   *  `dedup(body)` is the MessageDeduplicationId of a body. Give it if the program may be run again.
   *
   *  Errors: those of SendMessageBatch, and that of the first message which the server refused. The messages before it
   *  are units then, and so may be those behind it. TypeError if dedup(body) is empty, or no text. */
  sendAll(
    queue: string,
    bodies: Iterable<string> | AsyncIterable<string>,
    options?: SendOptions & { dedup?: (body: string) => string },
  ): Promise<string[]>;
  /** Adds external units, which completeUnits() of the client ends. Returns how many were new.
   *
   *  It may be repeated, also when the batch is sealed and the units are in it. An earlier run may have sealed it, or
   *  the last unit of its total, whose answer got lost. To see which units are in it, a sealed batch is read once: a
   *  request for each 1,000 of its units. BatchSealed: at least one key is new, and nothing was added. */
  add(...keys: string[]): Promise<number>;
}

/** Makes a batch, or opens it again; `addUnits` adds its units; when it is done the batch is sealed. Returns what
 *  `addUnits` returned.
 *
 *  With an `id` of yours the call may be repeated with the same options, so that a program which was killed can be run
 *  again. Then give each unit a deduplication id, the same in each run: a unit that is there already is not sent again.
 *  If addUnits throws, the batch is left as it is, for it may be an earlier run's. Without an `id` it is a UUID, and the
 *  batch is cancelled then, with its units.
 *
 *  A batch that is left open waits for its seal until expiresAfter. Errors: those of addUnits, CreateBatch and
 *  SealBatch. A new unit of a batch that is sealed is refused with BatchSealed. */
export function withBatch<Result>(
  client: Client,
  options: BatchOptions,
  addUnits: (batch: Batch) => Promise<Result> | Result,
): Promise<Result>;

/** A unit that failed. What the server no longer knows is undefined. */
export interface FailedUnit {
  /** An external unit's key, a child's BatchId, or the MessageId of a message. */
  key: string;
  /** That of its dead letter. */
  messageId?: string;
  body?: string;
  /** The newest FailureReason of its attempts, or the Detail of CompleteUnits. */
  reason?: string;
  /** Those with which the message was sent. */
  attributes: Record<string, string | Uint8Array>;
}

/** The units of a batch that failed, in the order in which they were added, with what their dead letters say. A dead
 *  letter that was deleted, or that expired, leaves a unit without body and reason. Asks once for each message. Errors:
 *  those of ListUnits and GetMessage, such as BatchDoesNotExist. Needs the right `read`. */
export function failedUnits(client: Client, id: string): AsyncGenerator<FailedUnit>;

// --- the inbox -------------------------------------------------------------------------------------------------------

/** The effect of the message is committed already. A Worker deletes the message then. */
export class AlreadyDone extends Error {}

export interface OnceOptions {
  /** Tells apart two consumers of one database that both are to act. */
  consumer?: string;
  /** What `tally relay schema --schema` was told. That command makes the tables. The default is tally. */
  schema?: string;
}

/** A Client of pg. */
export interface PostgresClient {
  query(text: string, values?: unknown[]): Promise<{ rows: any[]; command?: string }>;
}

/** A Pool of pg. */
export interface PostgresPool<Connection extends PostgresClient> extends PostgresClient {
  readonly totalCount: number;
  connect(): Promise<Connection & { release(error?: unknown): void }>;
}

/** A Connection of mysql2/promise. */
export interface MysqlConnection {
  query(text: string, values?: any): Promise<any>;
  execute(text: string, values?: any): Promise<any>;
  beginTransaction(): Promise<void>;
}

/** A Pool of mysql2/promise. */
export interface MysqlPool<Connection extends MysqlConnection> {
  getConnection(): Promise<Connection & { release(): void }>;
}

/** A database of node:sqlite or better-sqlite3. */
export interface SqliteDatabase {
  exec(text: string): unknown;
  prepare(text: string): { run(...values: any[]): { changes: number | bigint } };
}

/** Does an effect in a transaction that notes the message, commits it, and returns what `effect` returned. Throws
 *  AlreadyDone, without calling `effect`, if it was committed before. So the effect happens once, however often the
 *  message is delivered. While another transaction holds the same message, the call waits for its end.
 *
 *  db       a Client of pg or a Connection of mysql2 that is in no transaction, a Pool of either, or a database of
 *           node:sqlite or better-sqlite3
 *  message  what a Worker gives, a message of sqs.receiveMessage(), or an id: Tally.OutboxId if the message has that
 *           attribute, else its MessageId. A plain message must have been received with MessageAttributeNames ["All"]
 *  effect   gets the connection on which to work. In SQLite it must not be async
 *
 *  Errors: AlreadyDone; what `effect` throws, after a ROLLBACK; an Error if the Client is in a transaction, of another
 *  once() for example, because that one's COMMIT or ROLLBACK would be this one's, too; the driver's errors. At
 *  REPEATABLE READ or SERIALIZABLE the driver throws if another worker commits first: try again. If the answer of COMMIT
 *  is lost, it throws, and the effect may be there: the next call knows. In MySQL the driver throws at a deadlock (errno
 *  1213) or a time-out (1205): try again. And there is an Error if the effect has a statement that commits, as CREATE
 *  and ALTER do: what came before it is there then, and the message counts as done. */
export function once<Connection extends MysqlConnection, Result>(
  db: MysqlPool<Connection>,
  message: Message | SqsMessage | string,
  effect: (connection: Connection) => Promise<Result> | Result,
  options?: OnceOptions,
): Promise<Result>;
export function once<Connection extends PostgresClient, Result>(
  db: PostgresPool<Connection>,
  message: Message | SqsMessage | string,
  effect: (connection: Connection) => Promise<Result> | Result,
  options?: OnceOptions,
): Promise<Result>;
export function once<Connection extends PostgresClient | MysqlConnection | SqliteDatabase, Result>(
  db: Connection,
  message: Message | SqsMessage | string,
  effect: (connection: Connection) => Promise<Result> | Result,
  options?: OnceOptions,
): Promise<Result>;

// --- matchers --------------------------------------------------------------------------------------------------------

/** A ticket that waits: an offer in the feed, or in the list. */
export type Ticket = ListedTicket;

export interface MatcherOptions {
  /** A pool whose Matcher is `external` or `both`. */
  pool: string;
  /** Gets the tickets that wait, the oldest offer first, and gives groups of them. A ticket may be in several groups:
   *  the first that the server takes counts. It is called when something has changed, and every 20 seconds. */
  find(tickets: Ticket[]): Groups | Promise<Groups>;
  client?: Client;
  /** Several matchers share the work: of `parts` (up to 64) this is number `part`, from 0 on. It proposes the groups
   *  whose first ticket is its own. When a matcher dies, others get its part after 10 seconds. */
  part?: number;
  parts?: number;
  /** Gets proposals that the server refuses, and that the server is away. Else console.error() does. */
  log?(text: string): void;
}

export type Groups = Iterable<Ticket[]> | AsyncIterable<Ticket[]>;

/** Proposes matches of a pool. The server judges each proposal when it is decided, so a matcher that is late or runs
 *  twice can cost a conflict, and nothing else. It keeps nothing that must be saved: its process may be killed. */
export class Matcher {
  constructor(options: MatcherOptions);
  readonly pool: string;
  /** Matches until stop() is called. While the server can't be reached it tries again, with longer and longer pauses.
   *  Errors: those of FeedTickets, ListTickets and ProposeMatches, such as PoolDoesNotExist. */
  run(): Promise<void>;
  /** Ends run() at once. */
  stop(): void;
  /** Reads what is new, waiting up to so many seconds (0 to 20) for something, and proposes until nothing more is
   *  found. Returns how many matches were made. Errors: as run(), and those of a server that is away. */
  match(wait?: number): Promise<number>;
}
