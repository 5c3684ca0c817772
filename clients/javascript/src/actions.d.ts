// Made by make-actions.mjs from the service model.
import type { CallOptions, ErrorClass, Metadata } from "./index.js";

/** Tally's actions. */
export interface Actions {
  /** Adds external units to an open batch. Adding a key again adds nothing. Give either Units or Count. It needs
   *  the right `write`. */
  addUnits(input: AddUnitsRequest, options?: CallOptions): Promise<AddUnitsResult & Metadata>;
  /** Cancels the units that have not ended. Their messages are never delivered again. The batch completes with the
   *  status cancelled. It needs the right `write`. */
  cancelBatch(input: CancelBatchRequest, options?: CallOptions): Promise<CancelBatchResult & Metadata>;
  /** Cancels tickets that wait. It needs the right `write`. */
  cancelTickets(input: CancelTicketsRequest, options?: CallOptions): Promise<CancelTicketsResult & Metadata>;
  /** Consumes, counts and produces in one step: all or nothing, in one record. If one receipt handle is stale,
   *  nothing is done. It does its work in this order: batches, additions, sends, units, deletes. It needs the right
   *  `write` for all but Deletes and Holds, which need the right `read`. */
  commit(input?: CommitRequest, options?: CallOptions): Promise<CommitResult & Metadata>;
  /** Reports how external units ended. If one of them is unknown, nothing is recorded. The reply whose request
   *  completed the batch says so, and no other. It needs the right `write`. */
  completeUnits(input: CompleteUnitsRequest, options?: CallOptions): Promise<CompleteUnitsResult & Metadata>;
  /** Says that a ticket accepts its match, or refuses it. It is for pools with ConfirmSeconds. It needs the right
   *  `write`. */
  confirmMatch(input: ConfirmMatchRequest, options?: CallOptions): Promise<ConfirmMatchResult & Metadata>;
  /** Counts the tickets that wait, or those of them that meet a filter. It needs the right `read`. */
  countTickets(input: CountTicketsRequest, options?: CallOptions): Promise<CountTicketsResult & Metadata>;
  /** Makes a batch. A batch counts units and sends a message when the last one has ended, exactly once. The same id
   *  with the same arguments answers the same, so a repeat is harmless. It needs the right `write`. */
  createBatch(input?: CreateBatchRequest, options?: CallOptions): Promise<CreateBatchResult & Metadata>;
  /** Makes a pool, in which tickets wait to be matched with each other. Each match is one message in the result
   *  queue. The same arguments again change nothing. It needs the right `admin`. */
  createPool(input: CreatePoolRequest, options?: CallOptions): Promise<CreatePoolResult & Metadata>;
  /** Makes a relay, which carries messages from a source to a sink until it is deleted. The same arguments again
   *  change nothing. Whether the source can be reached is told by DescribeRelay. It needs the right `admin`. */
  createRelay(input: CreateRelayRequest, options?: CallOptions): Promise<CreateRelayResult & Metadata>;
  /** Removes a backup, or ends one that is being made. It needs the right `admin`. */
  deleteBackup(input: DeleteBackupRequest, options?: CallOptions): Promise<Metadata>;
  /** Deletes a batch that has completed. Its id is free at once. It needs the right `write`. */
  deleteBatch(input: DeleteBatchRequest, options?: CallOptions): Promise<Metadata>;
  /** Deletes the messages of a queue that fit, as a task that runs on. Name them by MessageIds alone, or by one or
   *  more of the other filters. Messages in flight stay. It needs the right `admin`. */
  deleteMessages(input: DeleteMessagesRequest, options?: CallOptions): Promise<DeleteMessagesResult & Metadata>;
  /** Deletes a pool and its tickets. The messages of its matches stay. It needs the right `admin`. */
  deletePool(input: DeletePoolRequest, options?: CallOptions): Promise<Metadata>;
  /** Ends a relay. Its rows stay where they are. It needs the right `admin`. */
  deleteRelay(input: DeleteRelayRequest, options?: CallOptions): Promise<Metadata>;
  /** Deletes a schedule. It needs the right `admin`. */
  deleteSchedule(input: DeleteScheduleRequest, options?: CallOptions): Promise<Metadata>;
  /** Deletes a type order. Messages that wait already go on waiting for what they waited for. It needs the right
   *  `admin`. */
  deleteTypeOrder(input: DeleteTypeOrderRequest, options?: CallOptions): Promise<Metadata>;
  /** Says how far a backup is, and where it stands. It needs the right `admin`. */
  describeBackup(input?: DescribeBackupRequest, options?: CallOptions): Promise<DescribeBackupResult & Metadata>;
  /** Says what a batch is, and how many of its units have ended. It needs any right. */
  describeBatch(input: DescribeBatchRequest, options?: CallOptions): Promise<DescribeBatchResult & Metadata>;
  /** Says what a pool is, how many tickets wait, how long they waited, and how well it works. It needs any right. */
  describePool(input: DescribePoolRequest, options?: CallOptions): Promise<DescribePoolResult & Metadata>;
  /** Says how a relay is, how far it is, and what went wrong last. It needs any right. */
  describeRelay(input: DescribeRelayRequest, options?: CallOptions): Promise<DescribeRelayResult & Metadata>;
  /** Says what a schedule is, when it is due next, and what it sends. It needs any right. */
  describeSchedule(input: DescribeScheduleRequest, options?: CallOptions): Promise<DescribeScheduleResult & Metadata>;
  /** Says how the server is: version, memory, disk, slow requests, settings, and who asks. It shows no secret. A
   *  credential with `queues=` gets neither Config nor Nodes. It needs any right. */
  describeServer(input?: DescribeServerRequest, options?: CallOptions): Promise<DescribeServerResult & Metadata>;
  /** Says where a message is, and why it is not delivered, in words and in fields. It needs any right. */
  explainMessage(input: ExplainMessageRequest, options?: CallOptions): Promise<ExplainMessageResult & Metadata>;
  /** Says why a ticket waits: what each rule asks at its level, and how many candidates each one rejects. It needs
   *  the right `read`. */
  explainTicket(input: ExplainTicketRequest, options?: CallOptions): Promise<ExplainTicketResult & Metadata>;
  /** Ends this attempt now, with a reason. The message comes again after its back-off. If it is out of attempts, it
   *  goes to the dead-letter queue, is dropped, or holds its group. It needs the right `read`. */
  failMessage(input: FailMessageRequest, options?: CallOptions): Promise<FailMessageResult & Metadata>;
  /** Tells what administrators and the server did, and what they do next. The newest 10,000 events of a namespace
   *  are kept in memory. It needs any right. */
  feedEvents(input?: FeedEventsRequest, options?: CallOptions): Promise<FeedEventsResult & Metadata>;
  /** Tells everything that happens to the tickets of a pool, numbered without gaps. Give Next as From the next
   *  time. It needs the right `read`. */
  feedTickets(input: FeedTicketsRequest, options?: CallOptions): Promise<FeedTicketsResult & Metadata>;
  /** Finds messages by what their sender knows, or by a text in them. Give one of MessageId,
   *  MessageDeduplicationId, OutboxId, Producer and Text. What is not remembered is looked for in 2,000 messages a
   *  call. It needs the right `read`. */
  findMessage(input?: FindMessageRequest, options?: CallOptions): Promise<FindMessageResult & Metadata>;
  /** Sends the message of a schedule now, once, also while the schedule is paused. The next firing stays as it is.
   *  It needs the right `admin`. */
  fireSchedule(input: FireScheduleRequest, options?: CallOptions): Promise<FireScheduleResult & Metadata>;
  /** Shows a message wherever it is, without receiving it. One that is gone has only State and Why. It needs the
   *  right `read`. */
  getMessage(input: GetMessageRequest, options?: CallOptions): Promise<GetMessageResult & Metadata>;
  /** Tells what came and went in each period, and what there was at its end. The server keeps a series of 256
   *  queues in memory. It needs any right. */
  getSeries(input: GetSeriesRequest, options?: CallOptions): Promise<GetSeriesResult & Metadata>;
  /** Says what a ticket is. One that is over for good has only TicketId, Status, Version and MatchId. It needs the
   *  right `read`. */
  getTicket(input: GetTicketRequest, options?: CallOptions): Promise<GetTicketResult & Metadata>;
  /** Lists batches in the order of their creation. With a filter, a page may be short or empty and still have a
   *  NextToken. It needs any right. */
  listBatches(input?: ListBatchesRequest, options?: CallOptions): Promise<ListBatchesResult & Metadata>;
  /** Lists the messages that wait for a message or for a batch, and those that are held because it did not succeed.
   *  Give either MessageId or BatchId. It needs any right. */
  listDependents(input?: ListDependentsRequest, options?: CallOptions): Promise<ListDependentsResult & Metadata>;
  /** Lists the parked rows of a relay, the oldest first, at most 100 in all. It needs any right. */
  listDoubts(input: ListDoubtsRequest, options?: CallOptions): Promise<ListDoubtsResult & Metadata>;
  /** Lists the groups of a queue, and says what keeps them. A page may be short or empty and still have a
   *  NextToken. It needs any right. */
  listGroups(input: ListGroupsRequest, options?: CallOptions): Promise<ListGroupsResult & Metadata>;
  /** Lists the messages that somebody has, of one queue or of all, and who has them. It needs any right. */
  listInFlight(input?: ListInFlightRequest, options?: CallOptions): Promise<ListInFlightResult & Metadata>;
  /** Shows the messages of a queue, the oldest first, without receiving them. One call looks at 10,000 messages, so
   *  a page may be short or empty and still have a NextToken. It needs the right `read`. */
  listMessages(input: ListMessagesRequest, options?: CallOptions): Promise<ListMessagesResult & Metadata>;
  /** Lists pools by name. It needs any right. */
  listPools(input?: ListPoolsRequest, options?: CallOptions): Promise<ListPoolsResult & Metadata>;
  /** Lists queues with what is in them and how they work, exactly, in one call. With SortBy or Having, one call
   *  puts 10,000 queues in order and gives the first of these. It needs any right. */
  listQueueStats(input?: ListQueueStatsRequest, options?: CallOptions): Promise<ListQueueStatsResult & Metadata>;
  /** Lists relays by name. It needs any right. */
  listRelays(input?: ListRelaysRequest, options?: CallOptions): Promise<ListRelaysResult & Metadata>;
  /** Lists schedules by name, without their messages. It needs any right. */
  listSchedules(input?: ListSchedulesRequest, options?: CallOptions): Promise<ListSchedulesResult & Metadata>;
  /** Lists the tickets that wait, in no order. A matcher begins with it, and goes on with FeedTickets behind
   *  Sequence. It needs the right `read`. */
  listTickets(input: ListTicketsRequest, options?: CallOptions): Promise<ListTicketsResult & Metadata>;
  /** Lists the type orders by name. It needs any right. */
  listTypeOrders(input?: ListTypeOrdersRequest, options?: CallOptions): Promise<ListTypeOrdersResult & Metadata>;
  /** Lists the units of a batch in the order in which they were added. A batch with the Tracking xor does not know
   *  its units. It needs any right. */
  listUnits(input: ListUnitsRequest, options?: CallOptions): Promise<ListUnitsResult & Metadata>;
  /** Offers tickets to a pool. The same TicketId again adds nothing, and says what the ticket is now. A fault of
   *  one ticket is not the others'. It needs the right `write`. */
  offerTickets(input: OfferTicketsRequest, options?: CallOptions): Promise<OfferTicketsResult & Metadata>;
  /** Makes the caller the owner of a publisher, which stands for one outbox. From then on only this owner may
   *  publish its rows. Relays do this by themselves. It needs the right `write`. */
  openPublisher(input: OpenPublisherRequest, options?: CallOptions): Promise<OpenPublisherResult & Metadata>;
  /** Stops the deliveries of a group. It can be paused before it has messages. It needs the right `admin`. */
  pauseGroup(input: PauseGroupRequest, options?: CallOptions): Promise<Metadata>;
  /** Stops the deliveries of a queue. Sends, deletes and leases go on. It needs the right `admin`. */
  pauseQueue(input: PauseQueueRequest, options?: CallOptions): Promise<Metadata>;
  /** Pauses a relay. It settles what is in flight and gives its source up. It needs the right `admin`. */
  pauseRelay(input: PauseRelayRequest, options?: CallOptions): Promise<PauseRelayResult & Metadata>;
  /** Pauses a schedule: it is not due until it is resumed. It needs the right `admin`. */
  pauseSchedule(input: PauseScheduleRequest, options?: CallOptions): Promise<PauseScheduleResult & Metadata>;
  /** Proposes matches that a program has found. Each is taken whole or not at all. A match is one record: its
   *  tickets are retired, and one message stands in the result queue. It needs the right `write`. */
  proposeMatches(input: ProposeMatchesRequest, options?: CallOptions): Promise<ProposeMatchesResult & Metadata>;
  /** Stores rows of an outbox, each once, whatever is lost or repeated. A row that is at fault does not touch the
   *  others. It needs the right `write`. */
  publish(input: PublishRequest, options?: CallOptions): Promise<PublishResult & Metadata>;
  /** Undoes a match whose result message has not been deleted. All its tickets wait again, with the age they had.
   *  It needs the right `write`. */
  putBackMatch(input: PutBackMatchRequest, options?: CallOptions): Promise<PutBackMatchResult & Metadata>;
  /** Makes or replaces a schedule, which sends a message at each time that a cron expression names. Each firing
   *  happens once. A schedule that is paused stays so. It needs the right `admin`. */
  putSchedule(input: PutScheduleRequest, options?: CallOptions): Promise<PutScheduleResult & Metadata>;
  /** Makes or replaces an order between types of messages. A message with `Tally.Type` waits for earlier messages
   *  of its group whose type comes first. It needs the right `admin`. */
  putTypeOrder(input: PutTypeOrderRequest, options?: CallOptions): Promise<PutTypeOrderResult & Metadata>;
  /** Lets a held group go on. A group is held when its first message failed, if the queue's `Tally.OnGroupFailure`
   *  is `hold`. It needs the right `admin`. */
  releaseGroup(input: ReleaseGroupRequest, options?: CallOptions): Promise<ReleaseGroupResult & Metadata>;
  /** Takes a message in flight away from whoever has it. It is visible at once, and the attempt counts. It needs
   *  the right `admin`. */
  releaseMessage(input: ReleaseMessageRequest, options?: CallOptions): Promise<ReleaseMessageResult & Metadata>;
  /** Puts a changed copy in the place of a message, in one record. A dead letter goes back to the queue where it
   *  failed. A message in flight can't be replaced. It needs the right `admin`. */
  replaceMessage(input: ReplaceMessageRequest, options?: CallOptions): Promise<ReplaceMessageResult & Metadata>;
  /** Decides about a parked row. Name the row by either Id or Uid, as ListDoubts shows it. It needs the right
   *  `admin`. */
  resolveDoubt(input: ResolveDoubtRequest, options?: CallOptions): Promise<Metadata>;
  /** Lets a paused group deliver again. It needs the right `admin`. */
  resumeGroup(input: ResumeGroupRequest, options?: CallOptions): Promise<Metadata>;
  /** Lets a paused queue deliver again. It needs the right `admin`. */
  resumeQueue(input: ResumeQueueRequest, options?: CallOptions): Promise<Metadata>;
  /** Lets a paused relay go on. It needs the right `admin`. */
  resumeRelay(input: ResumeRelayRequest, options?: CallOptions): Promise<ResumeRelayResult & Metadata>;
  /** Lets a paused schedule go on. Nothing is made up for. It needs the right `admin`. */
  resumeSchedule(input: ResumeScheduleRequest, options?: CallOptions): Promise<ResumeScheduleResult & Metadata>;
  /** Seals a batch: no units join it from outside any more. It completes when the last unit has ended. It needs the
   *  right `write`. */
  sealBatch(input: SealBatchRequest, options?: CallOptions): Promise<SealBatchResult & Metadata>;
  /** Begins a backup of all namespaces at one instant, and answers at once. It needs the right `admin`. */
  startBackup(input?: StartBackupRequest, options?: CallOptions): Promise<StartBackupResult & Metadata>;
  /** Counts the messages of a queue by their newest failure reason, the most frequent first. One call looks at
   *  10,000 messages. It needs the right `read`. */
  summarizeFailures(input: SummarizeFailuresRequest,
      options?: CallOptions): Promise<SummarizeFailuresResult & Metadata>;
  /** Changes those settings of a pool that the request names. After a change of the rules each waiting ticket is
   *  looked at again. It needs the right `admin`. */
  updatePool(input: UpdatePoolRequest, options?: CallOptions): Promise<UpdatePoolResult & Metadata>;
  /** Replaces what a waiting ticket says, asks, or both. Its age stays. Give Attributes, Need, or both. It needs
   *  the right `write`. */
  updateTicket(input: UpdateTicketRequest, options?: CallOptions): Promise<UpdateTicketResult & Metadata>;
  /** Counts units of a batch with the Tracking xor. XOR in the random id of each unit when it starts, and again
   *  when it ends. When all have ended, the value is zero. It needs the right `write`. */
  xorUnits(input: XorUnitsRequest, options?: CallOptions): Promise<XorUnitsResult & Metadata>;
}

/** Lists, item by item: each page is asked for when it is needed. */
export interface Lists {
  findMessage(input?: FindMessageRequest): AsyncGenerator<FoundMessage>;
  listBatches(input?: ListBatchesRequest): AsyncGenerator<Batch>;
  listDependents(input?: ListDependentsRequest): AsyncGenerator<Dependent>;
  listDoubts(input?: ListDoubtsRequest): AsyncGenerator<Doubt>;
  listGroups(input?: ListGroupsRequest): AsyncGenerator<Group>;
  listInFlight(input?: ListInFlightRequest): AsyncGenerator<MessageInFlight>;
  listMessages(input?: ListMessagesRequest): AsyncGenerator<ListedMessage>;
  listPools(input?: ListPoolsRequest): AsyncGenerator<Pool>;
  listQueueStats(input?: ListQueueStatsRequest): AsyncGenerator<QueueStats>;
  listRelays(input?: ListRelaysRequest): AsyncGenerator<Relay>;
  listSchedules(input?: ListSchedulesRequest): AsyncGenerator<Schedule>;
  listTickets(input?: ListTicketsRequest): AsyncGenerator<ListedTicket>;
  listTypeOrders(input?: ListTypeOrdersRequest): AsyncGenerator<TypeOrder>;
  listUnits(input?: ListUnitsRequest): AsyncGenerator<Unit>;
}

/** The classes of Tally's errors. */
export interface Errors {
  AccessDeniedException: ErrorClass;
  BackupDoesNotExist: ErrorClass;
  BackupInProgress: ErrorClass;
  BatchAlreadyExists: ErrorClass;
  BatchDoesNotExist: ErrorClass;
  BatchNotCompleted: ErrorClass;
  BatchRequestTooLong: ErrorClass;
  BatchSealed: ErrorClass;
  BatchTotalExceeded: ErrorClass;
  DependencyCycle: ErrorClass;
  DependencyDoesNotExist: ErrorClass;
  DependencyTooDeep: ErrorClass;
  DiskIsFull: ErrorClass;
  DoubtDoesNotExist: ErrorClass;
  EmptyBatchRequest: ErrorClass;
  GroupNotHeld: ErrorClass;
  IncompleteSignatureException: ErrorClass;
  InvalidMessageContents: ErrorClass;
  InvalidParameterValueException: ErrorClass;
  InvalidSignatureException: ErrorClass;
  MemoryIsFull: ErrorClass;
  MissingRequiredParameterException: ErrorClass;
  OverLimit: ErrorClass;
  PoolAlreadyExists: ErrorClass;
  PoolDoesNotExist: ErrorClass;
  PublisherBatchConflict: ErrorClass;
  PublisherBatchOutOfOrder: ErrorClass;
  PublisherFenced: ErrorClass;
  PublisherIsFull: ErrorClass;
  QueueDoesNotExist: ErrorClass;
  ReceiptHandleIsInvalid: ErrorClass;
  RelayAlreadyExists: ErrorClass;
  RelayDoesNotExist: ErrorClass;
  RequestTooLarge: ErrorClass;
  ScheduleDoesNotExist: ErrorClass;
  SerializationException: ErrorClass;
  ServiceUnavailable: ErrorClass;
  TicketDoesNotExist: ErrorClass;
  TooManyEntriesInBatchRequest: ErrorClass;
  TypeOrderConflict: ErrorClass;
  TypeOrderDoesNotExist: ErrorClass;
  UnitDoesNotExist: ErrorClass;
  UnknownOperationException: ErrorClass;
  UnrecognizedClientException: ErrorClass;
  UnsupportedOperation: ErrorClass;
}

/** The request of AddUnits. */
export interface AddUnitsRequest {
  /** The id of the batch. */
  BatchId: string;
  /** The keys of the units. */
  Units?: Array<string>;
  /** How many units. Their keys are the numbers from 0 to Count - 1. */
  Count?: number;
}

/** The reply of AddUnits. */
export interface AddUnitsResult {
  /** Units that are new. */
  Added: number;
  /** Units that the batch has now. */
  Total: number;
}

/** What was added to a batch. */
export interface AddedUnitsOfBatch {
  /** The id of the batch. */
  BatchId: string;
  /** Units that are new. */
  Added: number;
  /** Units that the batch has now. */
  Total: number;
}

/** How long a failed message waits. Attempt n waits min times factor to the power of n - 1, at most max seconds. */
export interface Backoff {
  /** The shortest wait in seconds. The default is 1. */
  min?: number;
  /** The longest wait in seconds, from min on. The default is 900. */
  max?: number;
  /** By how much each wait is longer than the last. The default is 2. */
  factor?: number;
  /** A random part of the wait that is added or taken away. The default is 0.2. */
  jitter?: number;
}

/** A batch as it is now. */
export interface Batch {
  /** The id of the batch. */
  BatchId: string;
  /** `open` takes units. `sealed` takes none from outside. `completed` has sent its messages. */
  State: "open" | "sealed" | "completed";
  /** How the batch ended. It is there when the batch has completed. */
  Status?: "succeeded" | "failed" | "cancelled" | "expired";
  /** The units that there are. */
  Total: number;
  /** Units that succeeded. */
  Succeeded: number;
  /** Units that failed. */
  Failed: number;
  /** Units that were cancelled. */
  Cancelled: number;
  /** Units that have not ended. */
  Remaining: number;
  /** When the batch was created. */
  CreatedAt: Date;
  /** When the batch was sealed. */
  SealedAt?: Date;
  /** When the batch completed. */
  CompletedAt?: Date;
  /** The MessageId of the message of OnComplete, once the batch has completed. */
  CompletionMessageId?: string;
  /** As in CreateBatch. */
  Tracking: "exact" | "xor";
  /** The Total of CreateBatch, and the units that have joined from inside. */
  ExpectedTotal?: number;
  /** The batch that counts this one as a unit. */
  Parent?: string;
  /** Where the completion message goes. It is left out if that queue was deleted. */
  OnComplete?: TargetView;
  /** Where the message of a success goes. */
  OnSuccess?: TargetView;
  /** Where the message of the first failure goes. */
  OnFirstFailure?: TargetView;
  /** When the batch will expire. It is there until the batch completes. */
  ExpiresAt?: Date;
}

/** What a rule asks at the ticket's level. */
export interface BoundOfRule {
  /** The rule. */
  Rule: string;
  /** Its bound, or the text off. */
  Value?: unknown;
  /** The attribute that the rule asks for, if this ticket lacks it. No ticket fits then. */
  Lacks?: Array<string>;
}

/** Who asks, and what the credential may do. */
export interface Caller {
  /** The access key. It is left out if the server has no credentials. */
  AccessKeyId?: string;
  /** The namespace of the request. */
  Namespace: string;
  /** The rights of the caller. */
  Rights: Array<"read" | "write" | "admin">;
  /** The patterns of the queues that the credential covers. */
  Queues?: Array<string>;
}

/** The request of CancelBatch. */
export interface CancelBatchRequest {
  /** The id of the batch. */
  BatchId: string;
  /** True: nothing is changed, and the reply says what would happen. */
  DryRun?: boolean;
}

/** The reply of CancelBatch. */
export interface CancelBatchResult {
  /** The id of the batch. */
  BatchId?: string;
  /** `open` takes units. `sealed` takes none from outside. `completed` has sent its messages. */
  State?: "open" | "sealed" | "completed";
  /** How the batch ended. It is there when the batch has completed. */
  Status?: "succeeded" | "failed" | "cancelled" | "expired";
  /** The units that there are. */
  Total?: number;
  /** Units that succeeded. */
  Succeeded?: number;
  /** Units that failed. */
  Failed?: number;
  /** Units that were cancelled. */
  Cancelled?: number;
  /** Units that have not ended. */
  Remaining?: number;
  /** When the batch was created. */
  CreatedAt?: Date;
  /** When the batch was sealed. */
  SealedAt?: Date;
  /** When the batch completed. */
  CompletedAt?: Date;
  /** The MessageId of the message of OnComplete, once the batch has completed. */
  CompletionMessageId?: string;
  /** As in CreateBatch. */
  Tracking?: "exact" | "xor";
  /** The Total of CreateBatch, and the units that have joined from inside. */
  ExpectedTotal?: number;
  /** The batch that counts this one as a unit. */
  Parent?: string;
  /** Where the completion message goes. It is left out if that queue was deleted. */
  OnComplete?: TargetView;
  /** Where the message of a success goes. */
  OnSuccess?: TargetView;
  /** Where the message of the first failure goes. */
  OnFirstFailure?: TargetView;
  /** Of a dry run: messages that would end. */
  Messages?: number;
  /** Of a dry run: how many of these messages are somebody's work now. */
  InFlight?: number;
  /** Of a dry run: units of batches that would end. */
  Units?: number;
  /** Of a dry run: batches that have these units. */
  Batches?: number;
  /** Of a dry run: messages that wait for one of these. */
  Dependents?: number;
  /** Of a dry run: groups that would lose their last message. */
  Groups?: number;
  /** Of a dry run: false if there are more than the 10,000 messages that it looked at. */
  IsComplete?: boolean;
}

/** What became of a ticket. */
export interface CancelResult {
  /** The id of the ticket: 1 to 128 ASCII letters, digits and punctuation. */
  TicketId: string;
  /** `too-late`: it is matched or held. `unknown`: the pool has no such ticket. */
  Status: "cancelled" | "too-late" | "expired" | "unknown";
  /** The match of a ticket for which it is too late. */
  MatchId?: string;
}

/** The request of CancelTickets. */
export interface CancelTicketsRequest {
  /** The name of the pool: 1 to 80 letters, digits, hyphens, underscores and dots. */
  PoolName: string;
  /** 1 to 1,000 tickets. */
  TicketIds: Array<string>;
}

/** The reply of CancelTickets. */
export interface CancelTicketsResult {
  /** What became of each ticket, in the order of the request. */
  Results: Array<CancelResult>;
}

/** The server's certificate that expires first. */
export interface Certificate {
  /** When it expires. */
  ExpiresAt: Date;
}

/** External units that a Commit adds to a batch. Give either Units or Count. */
export interface CommitAddition {
  /** A batch that is there, or one that the same Commit makes. */
  BatchId: string;
  /** The keys of the units. */
  Units?: Array<string>;
  /** How many units. Their keys are the numbers from 0 to Count - 1. */
  Count?: number;
}

/** A batch that a Commit makes. The members are those of CreateBatch. */
export interface CommitBatch {
  /** The id of the new batch. */
  BatchId: string;
  /** How many units the batch will have. It seals itself when that many were added; 0 completes at once. */
  Total?: number;
  /** `exact` (the default) remembers each unit. `xor` keeps one number for all, so memory does not grow. */
  Tracking?: "exact" | "xor";
  /** The message that is sent when the batch completes, whatever its status. */
  OnComplete?: Target;
  /** The message that is sent when the batch completes as succeeded. */
  OnSuccess?: Target;
  /** The message that is sent once, at the first failed unit. */
  OnFirstFailure?: Target;
  /** A batch that counts this one as a unit. The unit ends when the completion message of this batch has been
   *  deleted. Batches nest at most 32 levels deep. */
  Parent?: string;
  /** After so many seconds the batch completes as expired. The default is 1,209,600, which is 14 days. */
  ExpiresAfterSeconds?: number;
  /** For how long the batch is remembered after it completes. The default is 345,600, which is 4 days. */
  RetentionSeconds?: number;
}

/** A message that the caller has received. */
export interface CommitMessage {
  /** The URL of the queue, or its bare name. */
  QueueUrl: string;
  /** The newest handle of the message. */
  ReceiptHandle: string;
}

/** The request of Commit. */
export interface CommitRequest {
  /** Batches to make. */
  CreateBatches?: Array<CommitBatch>;
  /** External units to add to batches. */
  AddUnits?: Array<CommitAddition>;
  /** Messages to send. */
  Sends?: Array<CommitSend>;
  /** External units that have ended. */
  Units?: Array<CommitUnit>;
  /** Messages to delete. */
  Deletes?: Array<CommitMessage>;
  /** Messages that the caller must still have, and keeps. */
  Holds?: Array<CommitMessage>;
}

/** The reply of Commit. */
export interface CommitResult {
  /** The batches that were made, in the order of the request. */
  CreateBatches?: Array<CreatedBatch>;
  /** What was added, in the order of the request. */
  AddUnits?: Array<AddedUnitsOfBatch>;
  /** The messages that were sent, in the order of the request. */
  Sends?: Array<SendResult>;
  /** What became of the reports, in the order of the request. */
  Units?: Array<CommitUnitResult>;
}

/** A message that a Commit sends. The members are those of SendMessage, and Uid. */
export interface CommitSend {
  /** The URL of the queue, or its bare name. */
  QueueUrl: string;
  /** The text of the message. */
  MessageBody: string;
  /** How long the message stays hidden. The default is the queue's. On a FIFO queue only 0 is taken, which means
   *  the queue's. */
  DelaySeconds?: number;
  /** The group of the message. A FIFO queue needs one. */
  MessageGroupId?: string;
  /** A second message with this id is a duplicate, for as long as the queue's `Tally.DeduplicationWindow`. */
  MessageDeduplicationId?: string;
  /** Attributes of the message. `Tally.Batch`, `Tally.After`, `Tally.Type`, `Tally.Priority`, `Tally.Producer` and
   *  `Tally.Sequence` have a meaning. */
  MessageAttributes?: Record<string, MessageAttributeValue>;
  /** The system attribute AWSTraceHeader. */
  MessageSystemAttributes?: Record<string, MessageAttributeValue>;
  /** Names the message where it comes from. The queue takes a message of this Uid and body once in 14 days. It
   *  becomes the attribute `Tally.OutboxId`. */
  Uid?: string;
}

/** How an external unit ended, as a Commit reports it. */
export interface CommitUnit {
  /** The batch of the unit. */
  BatchId: string;
  /** The key of the unit. */
  Unit: string;
  /** `succeeded` is the default. */
  Status?: "succeeded" | "failed";
  /** A note, which ListUnits shows. */
  Detail?: string;
}

/** What became of a report. */
export interface CommitUnitResult {
  /** The id of the batch. */
  BatchId: string;
  /** The key of the unit. */
  Unit: string;
  /** False if the unit had ended before. */
  Recorded: boolean;
  /** True if this Commit completed the batch. */
  Completed: boolean;
}

/** The request of CompleteUnits. */
export interface CompleteUnitsRequest {
  /** The id of the batch. */
  BatchId: string;
  /** The units that have ended. */
  Units: Array<UnitReport>;
}

/** The reply of CompleteUnits. */
export interface CompleteUnitsResult {
  /** What became of each report, in the order of the request. */
  Results: Array<UnitResult>;
  /** Units that have not ended. */
  Remaining: number;
  /** True in exactly one reply in the life of the batch. */
  Completed: boolean;
}

/** The request of ConfirmMatch. */
export interface ConfirmMatchRequest {
  /** The name of the pool: 1 to 80 letters, digits, hyphens, underscores and dots. */
  PoolName: string;
  /** The id of the match. */
  MatchId: string;
  /** The id of the ticket: 1 to 128 ASCII letters, digits and punctuation. */
  TicketId: string;
  /** False: the ticket refuses. The default is true. */
  Accept?: boolean;
}

/** The reply of ConfirmMatch. */
export interface ConfirmMatchResult {
  /** The id of the match. */
  MatchId: string;
  /** `held`: others have not answered yet. `too-late`: it was decided before. `unknown`: there is no such match. */
  Status: "held" | "matched" | "refused" | "too-late" | "unknown";
}

/** The request of CountTickets. */
export interface CountTicketsRequest {
  /** The name of the pool: 1 to 80 letters, digits, hyphens, underscores and dots. */
  PoolName: string;
  /** As the Need of a ticket. */
  Filter?: Record<string, NeedClause>;
}

/** The reply of CountTickets. */
export interface CountTicketsResult {
  /** How many tickets there are. */
  Tickets: number;
  /** Their weight. */
  Weight: number;
}

/** The request of CreateBatch. */
export interface CreateBatchRequest {
  /** The id of the batch: 1 to 128 ASCII letters, digits and punctuation. Left out, a UUID is made. */
  BatchId?: string;
  /** How many units the batch will have. It seals itself when that many were added; 0 completes at once. */
  Total?: number;
  /** `exact` (the default) remembers each unit. `xor` keeps one number for all, so memory does not grow. */
  Tracking?: "exact" | "xor";
  /** The message that is sent when the batch completes, whatever its status. */
  OnComplete?: Target;
  /** The message that is sent when the batch completes as succeeded. */
  OnSuccess?: Target;
  /** The message that is sent once, at the first failed unit. */
  OnFirstFailure?: Target;
  /** A batch that counts this one as a unit. The unit ends when the completion message of this batch has been
   *  deleted. Batches nest at most 32 levels deep. */
  Parent?: string;
  /** After so many seconds the batch completes as expired. The default is 1,209,600, which is 14 days. */
  ExpiresAfterSeconds?: number;
  /** For how long the batch is remembered after it completes. The default is 345,600, which is 4 days. */
  RetentionSeconds?: number;
}

/** The reply of CreateBatch. */
export interface CreateBatchResult {
  /** The id of the batch. */
  BatchId: string;
  /** The state of the batch. `completed` if its Total is 0. */
  State: "open" | "sealed" | "completed";
}

/** The request of CreatePool. */
export interface CreatePoolRequest {
  /** The name of the pool: 1 to 80 letters, digits, hyphens, underscores and dots. */
  PoolName: string;
  /** The standard queue that gets a message for each match. */
  ResultQueueUrl: string;
  /** A standard queue that gets a message for each ticket that expires. */
  OnExpiryQueueUrl?: string;
  /** What tickets say: the names of attributes and their types. UpdatePool can only add some. */
  Attributes?: Record<string, "str" | "num" | "set">;
  /** Rules that each two members of a match must meet. Without rules all tickets fit. */
  Rules?: Array<PoolRule>;
  /** The weight of a whole match. The default is 2. In a pool with the Matcher `external` it may be 0: groups of
   *  any weight. */
  Size?: number;
  /** The teams of a match, instead of Size. */
  Teams?: Array<Team>;
  /** Which candidate is taken: `oldest` (the default), `first`, `nearest:ATTRIBUTE` or `score:EXPRESSION`. */
  Pick?: string;
  /** Who finds matches: Tally (`built-in`, the default), programs that read the feed (`external`), or both. */
  Matcher?: "built-in" | "external" | "both";
  /** What is found within a window is accepted at its end, the best first. The default is 0: at once. */
  WindowMilliseconds?: number;
  /** How long a ticket waits. The default is 0: for ever. */
  TicketTtlSeconds?: number;
  /** How long the members of a match have to confirm it. The default is 0: nobody is asked. */
  ConfirmSeconds?: number;
  /** True: proposals must meet the rules. */
  Verify?: boolean;
  /** No match is made while the result queue holds so many messages. The default is 0: no limit. */
  ResultsMax?: number;
  /** How long ended tickets are remembered. The default is 86,400, a day. */
  RetentionSeconds?: number;
}

/** The reply of CreatePool. */
export interface CreatePoolResult {
  /** The name of the pool. */
  PoolName: string;
  /** The version of the rules. It rises with each change of them. */
  RulesVersion: number;
  /** What makes the pool slow. */
  Warnings?: Array<string>;
}

/** The request of CreateRelay. */
export interface CreateRelayRequest {
  /** The name of the relay: 1 to 80 letters, digits, hyphens and underscores. */
  RelayName: string;
  /** Where the messages come from. */
  Source: RelaySource;
  /** Where they go. */
  Sink: RelaySink;
  /** `group` (the default) keeps the order of each group. `strict` keeps that of all rows. */
  Order?: "group" | "strict";
}

/** The reply of CreateRelay. */
export interface CreateRelayResult {
  /** The name of the relay. */
  RelayName: string;
  /** Whether the relay is paused. */
  Paused: boolean;
}

/** A batch that was made. */
export interface CreatedBatch {
  /** The id of the batch. */
  BatchId: string;
  /** The state of the batch after the Commit. */
  State: "open" | "sealed" | "completed";
}

/** The request of DeleteBackup. */
export interface DeleteBackupRequest {
  /** The id of the backup. */
  BackupId: string;
}

/** The request of DeleteBatch. */
export interface DeleteBatchRequest {
  /** The id of the batch. */
  BatchId: string;
}

/** The request of DeleteMessages. */
export interface DeleteMessagesRequest {
  /** The URL of the queue, or its bare name. */
  QueueUrl: string;
  /** The messages: 1 to 1,000. */
  MessageIds?: Array<string>;
  /** Messages whose newest failure reason begins so. */
  Reason?: string;
  /** Messages of this group. */
  MessageGroupId?: string;
  /** Messages that were sent before this time. */
  SentBefore?: Date;
  /** Messages that were sent then or later. */
  SentAfter?: Date;
  /** At most so many. */
  MaxMessages?: number;
  /** At most so many a second. */
  MaxNumberOfMessagesPerSecond?: number;
  /** True: nothing is changed, and the reply says what would happen. */
  DryRun?: boolean;
}

/** The reply of DeleteMessages. */
export interface DeleteMessagesResult {
  /** Names the task. ListMessageMoveTasks of SQS shows how far it is. */
  TaskHandle?: string;
  /** Of a dry run: messages that would end. */
  Messages?: number;
  /** Of a dry run: how many of these messages are somebody's work now. */
  InFlight?: number;
  /** Of a dry run: units of batches that would end. */
  Units?: number;
  /** Of a dry run: batches that have these units. */
  Batches?: number;
  /** Of a dry run: messages that wait for one of these. */
  Dependents?: number;
  /** Of a dry run: groups that would lose their last message. */
  Groups?: number;
  /** Of a dry run: false if there are more than the 10,000 messages that it looked at. */
  IsComplete?: boolean;
  /** Of a dry run: messages that would stay. */
  Refused?: number;
  /** Of a dry run: the first 100 messages that would stay, and why. */
  Refusals?: Array<Refusal>;
}

/** The request of DeletePool. */
export interface DeletePoolRequest {
  /** The name of the pool: 1 to 80 letters, digits, hyphens, underscores and dots. */
  PoolName: string;
}

/** The request of DeleteRelay. */
export interface DeleteRelayRequest {
  /** The name of the relay: 1 to 80 letters, digits, hyphens and underscores. */
  RelayName: string;
}

/** The request of DeleteSchedule. */
export interface DeleteScheduleRequest {
  /** The name of the schedule: 1 to 80 letters, digits, hyphens, underscores and dots. */
  Name: string;
}

/** The request of DeleteTypeOrder. */
export interface DeleteTypeOrderRequest {
  /** The name of the order. */
  Name: string;
}

/** A message that waits for another one, or is held because of it. */
export interface Dependent {
  /** The id of the message. */
  MessageId: string;
  /** The queue where the message is. */
  QueueUrl: string;
  /** Where the message is, as ExplainMessage says it. */
  State: "ready" | "delayed" | "in-flight" | "blocked" | "held" | "ended" | "unknown";
}

/** The request of DescribeBackup. */
export interface DescribeBackupRequest {
  /** The backup. Left out, the newest one. */
  BackupId?: string;
}

/** The reply of DescribeBackup. */
export interface DescribeBackupResult {
  /** The id of the backup. */
  BackupId: string;
  /** How far the backup is. */
  State: "running" | "finished" | "failed";
  /** When it was begun. */
  StartedAt: Date;
  /** Everything that was acknowledged before is in the backup. */
  Instant?: Date;
  /** When it was finished, or failed. */
  FinishedAt?: Date;
  /** Where the backup is on the server's machine. */
  Folder?: string;
  /** How many files it has. */
  Files?: number;
  /** How many bytes they have. */
  Bytes?: number;
  /** Why it failed. */
  FailureReason?: string;
}

/** The request of DescribeBatch. */
export interface DescribeBatchRequest {
  /** The id of the batch. */
  BatchId: string;
}

/** The reply of DescribeBatch. */
export interface DescribeBatchResult {
  /** The id of the batch. */
  BatchId: string;
  /** `open` takes units. `sealed` takes none from outside. `completed` has sent its messages. */
  State: "open" | "sealed" | "completed";
  /** How the batch ended. It is there when the batch has completed. */
  Status?: "succeeded" | "failed" | "cancelled" | "expired";
  /** The units that there are. */
  Total: number;
  /** Units that succeeded. */
  Succeeded: number;
  /** Units that failed. */
  Failed: number;
  /** Units that were cancelled. */
  Cancelled: number;
  /** Units that have not ended. */
  Remaining: number;
  /** When the batch was created. */
  CreatedAt: Date;
  /** When the batch was sealed. */
  SealedAt?: Date;
  /** When the batch completed. */
  CompletedAt?: Date;
  /** The MessageId of the message of OnComplete, once the batch has completed. */
  CompletionMessageId?: string;
  /** As in CreateBatch. */
  Tracking: "exact" | "xor";
  /** The Total of CreateBatch, and the units that have joined from inside. */
  ExpectedTotal?: number;
  /** The batch that counts this one as a unit. */
  Parent?: string;
  /** Where the completion message goes. It is left out if that queue was deleted. */
  OnComplete?: TargetView;
  /** Where the message of a success goes. */
  OnSuccess?: TargetView;
  /** Where the message of the first failure goes. */
  OnFirstFailure?: TargetView;
  /** When the batch will expire. It is there until the batch completes. */
  ExpiresAt?: Date;
}

/** The request of DescribePool. */
export interface DescribePoolRequest {
  /** The name of the pool: 1 to 80 letters, digits, hyphens, underscores and dots. */
  PoolName: string;
}

/** The reply of DescribePool. */
export interface DescribePoolResult {
  /** The name of the pool. */
  PoolName: string;
  /** The queue that gets the matches. */
  ResultQueueUrl: string;
  /** The queue that gets expired tickets. */
  OnExpiryQueueUrl?: string;
  /** As in CreatePool. */
  Matcher: "built-in" | "external" | "both";
  /** As in CreatePool. */
  WindowMilliseconds: number;
  /** As in CreatePool. */
  TicketTtlSeconds: number;
  /** As in CreatePool. */
  ConfirmSeconds: number;
  /** As in CreatePool. */
  Verify: boolean;
  /** As in CreatePool. */
  ResultsMax: number;
  /** As in CreatePool. */
  RetentionSeconds: number;
  /** As in CreatePool. */
  Attributes: Record<string, "str" | "num" | "set">;
  /** As in CreatePool. */
  Rules: Array<PoolRule>;
  /** As in CreatePool. It is left out if the pool has Teams. */
  Size?: number;
  /** As in CreatePool. */
  Teams?: Array<Team>;
  /** As in CreatePool. */
  Pick: string;
  /** The version of the rules. */
  RulesVersion: number;
  /** How the rules are searched. */
  Plan: string;
  /** What makes the pool slow. */
  Warnings?: Array<string>;
  /** The number of the newest event of the feed. */
  Sequence: number;
  /** Tickets by what became of them. */
  Tickets: TicketCounts;
  /** When the ticket was offered that has waited for the longest. */
  OldestOfferedAt?: Date;
  /** The weight of all tickets that wait. */
  Weight: number;
  /** Matches made since the pool was created. */
  Matches: number;
  /** Matches that were put back. */
  PutBacks: number;
  /** Proposals that met a ticket that does not wait, since the server started. */
  Conflicts: number;
  /** Proposals that met a newer version. */
  Stale: number;
  /** Looks of the built-in matcher. */
  Probes: number;
  /** Tickets that these looks have seen. */
  Candidates: number;
  /** Looks that had to go on later. */
  BudgetStops: number;
  /** Expressions that met an error. */
  ExpressionErrors: number;
  /** Tickets that the built-in matcher has yet to look at. */
  Seeds: number;
  /** How long matched tickets had waited, since the server started. */
  WaitedMs: WaitQuantiles;
  /** The same for each level. */
  Levels: Array<PoolLevel>;
}

/** The request of DescribeRelay. */
export interface DescribeRelayRequest {
  /** The name of the relay: 1 to 80 letters, digits, hyphens and underscores. */
  RelayName: string;
}

/** The reply of DescribeRelay. */
export interface DescribeRelayResult {
  /** The name of the relay. */
  RelayName: string;
  /** `standby`: another relay owns the source. `blocked` and `failed` have their reason in LastError. */
  State: "starting" | "standby" | "active" | "paused" | "blocked" | "failed" | "stopped";
  /** When the state began. */
  Since?: Date;
  /** Whether somebody has paused the relay. */
  Paused: boolean;
  /** As in CreateRelay, without secrets. */
  Source: RelaySource;
  /** As in CreateRelay, without secrets. */
  Sink: RelaySink;
  /** As in CreateRelay. */
  Order: "group" | "strict";
  /** The number of the relay's term, while it owns the source. */
  Epoch?: number;
  /** The highest id that is done. */
  Position: number;
  /** What waits in the source, as of the last look. */
  Lag: RelayLag;
  /** Parked rows that may have been delivered, among the 100 oldest. */
  InDoubt: number;
  /** Rows that wait for ResolveDoubt. */
  Parked: number;
  /** Rows delivered since the relay was started here. */
  Delivered: number;
  /** How many of these the sink had before. */
  Duplicates: number;
  /** Attempts that were repeated. */
  Retries: number;
  /** How often the relay took the source over. */
  Takeovers: number;
  /** What went wrong last. */
  LastError?: string;
  /** When that was. */
  LastErrorAt?: Date;
  /** Something about the source that will hurt, or that its oldest row waits too long. */
  Warning?: string;
}

/** The request of DescribeSchedule. */
export interface DescribeScheduleRequest {
  /** The name of the schedule: 1 to 80 letters, digits, hyphens, underscores and dots. */
  Name: string;
}

/** The reply of DescribeSchedule. */
export interface DescribeScheduleResult {
  /** The name of the schedule. */
  Name: string;
  /** When the schedule is due next. It is left out while the schedule is paused, or if the expression names no time
   *  within eight years. */
  NextAt?: Date;
  /** Whether the schedule is paused. */
  Paused: boolean;
  /** The cron expression. */
  Cron: string;
  /** The time zone of the expression. */
  TimeZone: string;
  /** The queue to which the schedule sends. */
  QueueUrl: string;
  /** As in PutSchedule. */
  CatchUp: "one" | "none" | "all";
  /** Why the schedule does not fire, such as a time zone that the server can't read. */
  Warning?: string;
  /** When the newest firing was due. */
  LastAt?: Date;
  /** The message of that firing. */
  LastMessageId?: string;
  /** The text of the message. */
  MessageBody: string;
  /** The group of the message. */
  MessageGroupId?: string;
  /** The attributes of the message, with those that Tally adds. */
  MessageAttributes: Record<string, MessageAttributeValue>;
  /** The MD5 digest of the attributes. */
  MD5OfMessageAttributes: string;
}

/** The request of DescribeServer. */
export interface DescribeServerRequest {
}

/** The reply of DescribeServer. */
export interface DescribeServerResult {
  /** The version of tallyd. */
  Version: string;
  /** The server's clock. */
  Now: Date;
  /** How long the log was read at the start. */
  RecoverySeconds?: number;
  /** The memory of all namespaces together. */
  Memory: MemoryUse;
  /** The disk of this namespace. */
  Disk: DiskUse;
  /** The newest snapshot of this namespace. */
  Snapshot: SnapshotState;
  /** The newest requests that took long. */
  SlowRequests: Array<SlowRequest>;
  /** Who asks. */
  Caller: Caller;
  /** The actions that take the parameter DryRun. */
  DryRun: Array<string>;
  /** The name of this node of the cluster. */
  Node?: string;
  /** When the server was started. */
  StartedAt: Date;
  /** The certificate that expires first. */
  Certificate?: Certificate;
  /** Whether the dashboard is on. */
  Ui?: string;
  /** Each key of the configuration. */
  Config?: Array<Setting>;
  /** The nodes of the cluster. */
  Nodes?: Array<Node>;
}

/** The log of the namespace on its disk. */
export interface DiskUse {
  /** Bytes that the log takes. */
  Used: number;
  /** The bound under which Used stays. */
  Max?: number;
  /** Bytes that are free in the file system. */
  Free: number;
  /** The value of disk-min-free in bytes. */
  MinFree: number;
  /** Whether there is room for new messages. */
  Room: "ample" | "short" | "spent";
}

/** A parked row: the sink refused it, or nobody knows whether it was delivered. */
export interface Doubt {
  /** The id of the row. */
  Id: number;
  /** The uid of the row. */
  Uid: string;
  /** The queue that the row names. */
  QueueName?: string;
  /** The group of the row. */
  MessageGroupId?: string;
  /** Why the row is parked. */
  Error: string;
  /** True if the row may have been delivered. */
  IsInDoubt: boolean;
  /** When the row was parked. */
  Since: Date;
}

/** Something that an administrator or the server did. */
export interface Event {
  /** The number of the event. Later events have higher numbers, with gaps. */
  Number: number;
  /** When it happened. */
  At: Date;
  /** `audit`: a request that needs the right admin. `server`: what the server did. */
  Kind: "audit" | "server";
  /** The action that was asked for, or what the server did. */
  Action: string;
  /** Who asked. */
  AccessKeyId?: string;
  /** From which address. */
  Address?: string;
  /** The queue that it was about. */
  QueueName?: string;
  /** What it was about: a group, schedule, relay, pool or label. */
  Target?: string;
  /** OK, or the error. */
  Result?: string;
  /** The event in words. */
  Text: string;
}

/** The request of ExplainMessage. */
export interface ExplainMessageRequest {
  /** The queue of the message. Left out, the message is looked for in all queues. */
  QueueUrl?: string;
  /** The id of the message. */
  MessageId: string;
}

/** The reply of ExplainMessage. */
export interface ExplainMessageResult {
  /** Where the message is. `unknown`: it is no message of this queue. */
  State: "ready" | "delayed" | "in-flight" | "blocked" | "held" | "ended" | "unknown";
  /** The reasons, the nearest one first. */
  Why: Array<Why>;
}

/** The request of ExplainTicket. */
export interface ExplainTicketRequest {
  /** The name of the pool: 1 to 80 letters, digits, hyphens, underscores and dots. */
  PoolName: string;
  /** The id of the ticket: 1 to 128 ASCII letters, digits and punctuation. */
  TicketId: string;
}

/** The reply of ExplainTicket. */
export interface ExplainTicketResult {
  /** The id of the ticket. */
  TicketId: string;
  /** What the ticket is now. */
  Status: "waiting" | "held" | "matched" | "cancelled" | "expired";
  /** The match that has the ticket. */
  MatchId?: string;
  /** How many widening steps its age has reached. This and what follows is told of a ticket that waits. */
  Level?: number;
  /** What each rule asks at this level. */
  Rules?: Array<BoundOfRule>;
  /** When its next step comes. */
  NextStepAt?: Date;
  /** When it expires. */
  ExpiresAt?: Date;
  /** How many tickets were looked at now. */
  Candidates?: number;
  /** How many of them fit. */
  Fits?: number;
  /** How many of them each rule rejects. */
  Rejects?: Array<Rejection>;
  /** Proposals with it that failed. */
  Conflicts?: number;
  /** False if the look stopped at 4,096 steps. */
  Complete?: boolean;
}

/** The request of FailMessage. */
export interface FailMessageRequest {
  /** The URL of the queue, or its bare name. */
  QueueUrl: string;
  /** The newest handle of the message, as a receive gave it. */
  ReceiptHandle: string;
  /** Why the attempt failed. The next receiver gets it as `Tally.FailureReason`. */
  Reason?: string;
  /** True: the message is given up at once. The default is false. */
  Final?: boolean;
  /** The message comes again after so many seconds, whatever the queue says. */
  RetryAfterSeconds?: number;
  /** The back-off, if the queue has no `Tally.Backoff`. */
  Backoff?: Backoff;
  /** The message is out of attempts at this one, or earlier if the queue says so. */
  MaxAttempts?: number;
  /** Where the message goes if it is given up, instead of the queue's own dead-letter queue. It needs the right
   *  write. */
  DeadLetterQueueUrl?: string;
}

/** The reply of FailMessage. */
export interface FailMessageResult {
  /** What became of the message. `ignored`: it had ended or was moved before. */
  Outcome: "returned" | "dead-lettered" | "dropped" | "held" | "ignored";
  /** The attempt that failed. */
  Attempt?: number;
  /** How many attempts there are. */
  MaxAttempts?: number;
  /** When the message comes again, in seconds. */
  RetryAfterSeconds?: number;
  /** Where the message is now, if it was dead-lettered. */
  QueueName?: string;
}

/** A reason, and how many messages have it. */
export interface FailureReasonCount {
  /** The first 256 bytes of the reason. */
  Reason: string;
  /** True if some of these reasons go on. */
  IsCut?: boolean;
  /** How many messages have it. */
  Count: number;
  /** When the first of them was received last. */
  OldestAt: Date;
  /** When the newest of them was received last. */
  NewestAt: Date;
  /** Up to three of the messages. */
  MessageIds: Array<string>;
}

/** The request of FeedEvents. */
export interface FeedEventsRequest {
  /** Events with higher numbers, the oldest first. Left out, the newest events. */
  After?: number;
  /** How many one page has at most: 1 to 1,000. The default is 1,000. */
  MaxResults?: number;
  /** How long to wait if there is no event yet. The default is 0. */
  WaitTimeSeconds?: number;
}

/** The reply of FeedEvents. */
export interface FeedEventsResult {
  /** The events. */
  Events: Array<Event>;
  /** Give it as After the next time. */
  Next: number;
  /** True if events behind After are gone. */
  Missed?: boolean;
}

/** The request of FeedTickets. */
export interface FeedTicketsRequest {
  /** The name of the pool: 1 to 80 letters, digits, hyphens, underscores and dots. */
  PoolName: string;
  /** The number of the first event that is wanted. 0: from the first there was. */
  From: number;
  /** How many one page has at most: 1 to 1,000. The default is 1,000. */
  MaxResults?: number;
  /** How long to wait if there is no event yet. The default is 0. */
  WaitTimeSeconds?: number;
  /** With Parts: for which part the caller looks for partners. */
  Part?: number;
  /** In how many parts the pool is shared out among callers. Tickets have a Part below it; the default is 64. */
  Parts?: number;
}

/** The reply of FeedTickets. */
export interface FeedTicketsResult {
  /** The events. */
  Events: Array<TicketEvent>;
  /** Give it as From the next time. */
  Next: number;
  /** True if From is not to be had. Read ListTickets to its end, and go on at Next. */
  Resync?: boolean;
  /** With Part: the parts whose tickets are the caller's. */
  SeedParts?: Array<number>;
}

/** The request of FindMessage. */
export interface FindMessageRequest {
  /** The id of the message. */
  MessageId?: string;
  /** The deduplication id. */
  MessageDeduplicationId?: string;
  /** With a deduplication id: the group, if ids belong to groups. */
  MessageGroupId?: string;
  /** The value of the attribute `Tally.OutboxId`. */
  OutboxId?: string;
  /** The value of `Tally.Producer`. It needs Sequence and QueueUrl. */
  Producer?: string;
  /** The number of the producer's message. */
  Sequence?: number;
  /** Words that must all be in the body, or in the value of one attribute. Between quotation marks it is looked for
   *  as it stands. */
  Text?: string;
  /** Where to look. Left out, a deduplication id, an OutboxId or a Text is looked for in all queues. */
  QueueUrl?: string;
  /** `none` is the default. `preview` shows the first 256 bytes. `full` shows the body and the attributes. */
  Body?: "none" | "preview" | "full";
  /** The NextToken of the page before. It outlives a restart of the server. */
  NextToken?: string;
}

/** The reply of FindMessage. */
export interface FindMessageResult {
  /** The messages that were found. */
  Messages: Array<FoundMessage>;
  /** True if a publisher remembers a row of this OutboxId. */
  IsPublished?: boolean;
  /** At how many messages this call looked. Of a MessageId it is left out. */
  Looked?: number;
  /** How many queues the search is through, this call and those before. It is there without QueueUrl, for callers
   *  who cover all queues. */
  QueuesLooked?: number;
  /** How many queues there are. It stands beside QueuesLooked. */
  QueueCount?: number;
  /** True if there is no more to look at. Else NextToken goes on. */
  IsComplete: boolean;
  /** Give it to get the next page. Without it the list is over. */
  NextToken?: string;
}

/** The request of FireSchedule. */
export interface FireScheduleRequest {
  /** The name of the schedule: 1 to 80 letters, digits, hyphens, underscores and dots. */
  Name: string;
}

/** The reply of FireSchedule. */
export interface FireScheduleResult {
  /** The name of the schedule. */
  Name: string;
  /** When the schedule is due next. It is left out while the schedule is paused, or if the expression names no time
   *  within eight years. */
  NextAt?: Date;
  /** Whether the schedule is paused. */
  Paused: boolean;
  /** The message that was sent. */
  MessageId: string;
}

/** A message that was found. One that has ended has only MessageId, State and Why. */
export interface FoundMessage {
  /** The queue where the message is. */
  QueueUrl?: string;
  /** The id of the message. */
  MessageId: string;
  /** Where the message is, as ExplainMessage says it. */
  State: "ready" | "delayed" | "in-flight" | "blocked" | "held" | "ended" | "unknown";
  /** When the message was sent. */
  SentAt?: Date;
  /** How often it was delivered. */
  ReceiveCount?: number;
  /** When it was delivered first. */
  FirstReceivedAt?: Date;
  /** When it was delivered last. */
  LastReceivedAt?: Date;
  /** The group of the message. */
  MessageGroupId?: string;
  /** Why the newest failed attempt failed. */
  FailureReason?: string;
  /** The batch of which the message is a unit. */
  BatchId?: string;
  /** The queue where the message failed, if it is a dead letter. */
  DeadLetterQueueSource?: string;
  /** Who has the message, if it is in flight. */
  Holder?: Holder;
  /** The size of the body in bytes. It is there if the request asks for a preview or the full body. */
  BodySize?: number;
  /** The deduplication id that the sender gave. */
  MessageDeduplicationId?: string;
  /** The body, or its first 256 bytes. */
  Body?: string;
  /** The access key of the sender. It is there with the full body, like the next members. */
  SenderId?: string;
  /** The trace header of the message. */
  AWSTraceHeader?: string;
  /** The attributes with which the message was sent. */
  MessageAttributes?: Record<string, MessageAttributeValue>;
  /** The MD5 digest of these attributes. */
  MD5OfMessageAttributes?: string;
  /** True if the log can't be read where the content is. */
  IsDamaged?: boolean;
  /** Why the message is not delivered, the nearest cause first. */
  Why: Array<Why>;
}

/** The request of GetMessage. */
export interface GetMessageRequest {
  /** The id of the message. */
  MessageId: string;
  /** `full` is the default. */
  Body?: "none" | "preview" | "full";
}

/** The reply of GetMessage. */
export interface GetMessageResult {
  /** The queue where the message is. */
  QueueUrl?: string;
  /** The id of the message. */
  MessageId?: string;
  /** Where the message is, as ExplainMessage says it. */
  State: "ready" | "delayed" | "in-flight" | "blocked" | "held" | "ended" | "unknown";
  /** When the message was sent. */
  SentAt?: Date;
  /** How often it was delivered. */
  ReceiveCount?: number;
  /** When it was delivered first. */
  FirstReceivedAt?: Date;
  /** When it was delivered last. */
  LastReceivedAt?: Date;
  /** The group of the message. */
  MessageGroupId?: string;
  /** Why the newest failed attempt failed. */
  FailureReason?: string;
  /** The batch of which the message is a unit. */
  BatchId?: string;
  /** The queue where the message failed, if it is a dead letter. */
  DeadLetterQueueSource?: string;
  /** Who has the message, if it is in flight. */
  Holder?: Holder;
  /** The size of the body in bytes. It is there if the request asks for a preview or the full body. */
  BodySize?: number;
  /** The deduplication id that the sender gave. */
  MessageDeduplicationId?: string;
  /** The body, or its first 256 bytes. */
  Body?: string;
  /** The access key of the sender. It is there with the full body, like the next members. */
  SenderId?: string;
  /** The trace header of the message. */
  AWSTraceHeader?: string;
  /** The attributes with which the message was sent. */
  MessageAttributes?: Record<string, MessageAttributeValue>;
  /** The MD5 digest of these attributes. */
  MD5OfMessageAttributes?: string;
  /** True if the log can't be read where the content is. */
  IsDamaged?: boolean;
  /** Why the message is not delivered, the nearest cause first. */
  Why: Array<Why>;
}

/** The request of GetSeries. */
export interface GetSeriesRequest {
  /** The queue. Left out, it is about the whole namespace. */
  QueueUrl?: string;
  /** The length of a period in seconds: 5 or 60. */
  Period: number;
  /** How many periods: at most 720 of 5 seconds, or 1,440 of 60. The default is all. */
  Points?: number;
}

/** The reply of GetSeries. */
export interface GetSeriesResult {
  /** The length of a period in seconds. */
  Period: number;
  /** When the last period ended. */
  EndsAt: Date;
  /** Messages that were sent. */
  Sent: Array<number | null>;
  /** Deliveries. */
  Received: Array<number | null>;
  /** Messages that ended well. */
  Deleted: Array<number | null>;
  /** Attempts that failed. */
  Failed: Array<number | null>;
  /** Messages that were dead-lettered. */
  DeadLettered: Array<number | null>;
  /** Messages that were visible at the end. */
  Visible: Array<number | null>;
  /** Messages that were in flight at the end. */
  InFlight: Array<number | null>;
  /** The age of the oldest message at the end, in seconds. 0: there was none. */
  OldestAge: Array<number | null>;
}

/** The request of GetTicket. */
export interface GetTicketRequest {
  /** The name of the pool: 1 to 80 letters, digits, hyphens, underscores and dots. */
  PoolName: string;
  /** The id of the ticket: 1 to 128 ASCII letters, digits and punctuation. */
  TicketId: string;
}

/** The reply of GetTicket. */
export interface GetTicketResult {
  /** The id of the ticket. */
  TicketId: string;
  /** What the ticket is now. */
  Status: "waiting" | "held" | "matched" | "cancelled" | "expired";
  /** The version of the ticket. */
  Version: number;
  /** The match that has the ticket. */
  MatchId?: string;
  /** The part of the pool to which the ticket belongs. */
  Part?: number;
  /** What the ticket says. */
  Attributes?: Record<string, unknown>;
  /** What it asks of the others. */
  Need?: Record<string, NeedClause>;
  /** How much of the Size it takes. */
  Weight?: number;
  /** Its priority. */
  Priority?: number;
  /** The set of which only one ticket may be matched. */
  ExclusiveSet?: string;
  /** When it was offered first. Its age counts from there. */
  OfferedAt?: Date;
  /** When it expires. */
  ExpiresAt?: Date;
  /** How many widening steps its age has reached. */
  Level?: number;
  /** Text for the result message. */
  Body?: string;
}

/** A group of a queue. */
export interface Group {
  /** The id of the group. */
  MessageGroupId: string;
  /** `held` waits for ReleaseGroup. `paused` waits for ResumeGroup. `ready` has a message to deliver. `busy` has
   *  none now. */
  State: "held" | "paused" | "ready" | "busy";
  /** True if the group is paused, also when it is held. */
  Paused?: boolean;
  /** Messages of the group. */
  Messages: number;
  /** How many of them are in flight. */
  InFlight: number;
  /** When the hold began, or what keeps the first message. */
  Since?: Date;
  /** Why the group delivers nothing. */
  Reason?: string;
  /** The first message of the group. */
  HeadMessageId?: string;
}

/** Who has a message. What is not known is left out. */
export interface Holder {
  /** The access key of the receiver. */
  AccessKeyId?: string;
  /** The receiver's IP address. */
  Address?: string;
  /** What the receiver calls itself in the header X-Tally-Worker. */
  Worker?: string;
}

/** The request of ListBatches. */
export interface ListBatchesRequest {
  /** Only batches in this state. */
  State?: "open" | "sealed" | "completed";
  /** Only batches whose id begins so. */
  Prefix?: string;
  /** How many one page has at most: 1 to 1,000. The default is 1,000. */
  MaxResults?: number;
  /** The NextToken of the page before. It outlives a restart of the server. */
  NextToken?: string;
}

/** The reply of ListBatches. */
export interface ListBatchesResult {
  /** The batches of this page. */
  Batches: Array<Batch>;
  /** Give it to get the next page. Without it the list is over. */
  NextToken?: string;
}

/** The request of ListDependents. */
export interface ListDependentsRequest {
  /** The message that others wait for. */
  MessageId?: string;
  /** The batch that others wait for. */
  BatchId?: string;
  /** How many one page has at most: 1 to 1,000. The default is 1,000. */
  MaxResults?: number;
  /** The NextToken of the page before. It outlives a restart of the server. */
  NextToken?: string;
}

/** The reply of ListDependents. */
export interface ListDependentsResult {
  /** The messages of this page. */
  Dependents: Array<Dependent>;
  /** Give it to get the next page. Without it the list is over. */
  NextToken?: string;
}

/** The request of ListDoubts. */
export interface ListDoubtsRequest {
  /** The name of the relay: 1 to 80 letters, digits, hyphens and underscores. */
  RelayName: string;
  /** How many one page has at most: 1 to 1,000. The default is 1,000. */
  MaxResults?: number;
  /** The NextToken of the page before. It outlives a restart of the server. */
  NextToken?: string;
}

/** The reply of ListDoubts. */
export interface ListDoubtsResult {
  /** The rows of this page. */
  Doubts: Array<Doubt>;
  /** Give it to get the next page. Without it the list is over. */
  NextToken?: string;
}

/** The request of ListGroups. */
export interface ListGroupsRequest {
  /** The URL of the queue, or its bare name. */
  QueueUrl: string;
  /** Only groups in this state. */
  State?: "held" | "paused" | "ready" | "busy";
  /** Only this group. */
  MessageGroupId?: string;
  /** How many one page has at most: 1 to 1,000. The default is 1,000. */
  MaxResults?: number;
  /** The NextToken of the page before. It outlives a restart of the server. */
  NextToken?: string;
}

/** The reply of ListGroups. */
export interface ListGroupsResult {
  /** The groups of this page. */
  Groups: Array<Group>;
  /** Give it to get the next page. Without it the list is over. */
  NextToken?: string;
}

/** The request of ListInFlight. */
export interface ListInFlightRequest {
  /** The queue. Left out, all queues are listed. */
  QueueUrl?: string;
  /** Only messages that this access key has. */
  AccessKeyId?: string;
  /** Only messages that this worker has. */
  Worker?: string;
  /** How many one page has at most: 1 to 1,000. The default is 1,000. */
  MaxResults?: number;
  /** The NextToken of the page before. It outlives a restart of the server. */
  NextToken?: string;
}

/** The reply of ListInFlight. */
export interface ListInFlightResult {
  /** The messages of this page. */
  Messages: Array<MessageInFlight>;
  /** Give it to get the next page. Without it the list is over. */
  NextToken?: string;
}

/** The request of ListMessages. */
export interface ListMessagesRequest {
  /** The URL of the queue, or its bare name. */
  QueueUrl: string;
  /** Only messages in this state. */
  State?: "ready" | "delayed" | "in-flight" | "blocked" | "held";
  /** Only messages of this group. */
  MessageGroupId?: string;
  /** Only units of this batch. */
  BatchId?: string;
  /** Only messages whose newest failure reason begins so. */
  Reason?: string;
  /** Only messages that were sent more than so many seconds ago. */
  OlderThan?: number;
  /** `none` is the default. `preview` shows the first 256 bytes. `full` shows the body and the attributes. */
  Body?: "none" | "preview" | "full";
  /** How many one page has at most: 1 to 1,000. The default is 1,000. */
  MaxResults?: number;
  /** The NextToken of the page before. It outlives a restart of the server. */
  NextToken?: string;
}

/** The reply of ListMessages. */
export interface ListMessagesResult {
  /** The messages of this page. */
  Messages: Array<ListedMessage>;
  /** Give it to get the next page. Without it the list is over. */
  NextToken?: string;
}

/** The request of ListPools. */
export interface ListPoolsRequest {
  /** Only pools whose name begins so. */
  Prefix?: string;
  /** How many one page has at most: 1 to 1,000. The default is 1,000. */
  MaxResults?: number;
  /** The NextToken of the page before. It outlives a restart of the server. */
  NextToken?: string;
}

/** The reply of ListPools. */
export interface ListPoolsResult {
  /** The pools of this page. */
  Pools: Array<Pool>;
  /** Give it to get the next page. Without it the list is over. */
  NextToken?: string;
}

/** The request of ListQueueStats. */
export interface ListQueueStatsRequest {
  /** Only queues whose name begins so. */
  QueueNamePrefix?: string;
  /** `name` is the default. `age`: the oldest deliverable message first. `oldest`: the oldest message first.
   *  `visible`: the most visible messages first. */
  SortBy?: "name" | "age" | "oldest" | "visible";
  /** Only queues in which something stands still. `nothing-visible`: all messages are in flight, delayed or
   *  blocked. `dead-letters`: dead-letter queues that are not empty. */
  Having?: "held-groups" | "pause" | "nothing-visible" | "dead-letters";
  /** How many one page has at most: 1 to 1,000. The default is 1,000. */
  MaxResults?: number;
  /** The NextToken of the page before. It outlives a restart of the server. */
  NextToken?: string;
}

/** The reply of ListQueueStats. */
export interface ListQueueStatsResult {
  /** The queues of this page. */
  Queues: Array<QueueStats>;
  /** Give it to get the next page. Without it the list is over. */
  NextToken?: string;
}

/** The request of ListRelays. */
export interface ListRelaysRequest {
  /** How many one page has at most: 1 to 1,000. The default is 1,000. */
  MaxResults?: number;
  /** The NextToken of the page before. It outlives a restart of the server. */
  NextToken?: string;
}

/** The reply of ListRelays. */
export interface ListRelaysResult {
  /** The relays of this page. */
  Relays: Array<Relay>;
  /** Give it to get the next page. Without it the list is over. */
  NextToken?: string;
}

/** The request of ListSchedules. */
export interface ListSchedulesRequest {
  /** Only schedules whose name begins so. */
  Prefix?: string;
  /** How many one page has at most: 1 to 1,000. The default is 1,000. */
  MaxResults?: number;
  /** The NextToken of the page before. It outlives a restart of the server. */
  NextToken?: string;
}

/** The reply of ListSchedules. */
export interface ListSchedulesResult {
  /** The schedules of this page. */
  Schedules: Array<Schedule>;
  /** Give it to get the next page. Without it the list is over. */
  NextToken?: string;
}

/** The request of ListTickets. */
export interface ListTicketsRequest {
  /** The name of the pool: 1 to 80 letters, digits, hyphens, underscores and dots. */
  PoolName: string;
  /** The pool is shared out by so many parts. The default is 64. */
  Parts?: number;
  /** How many one page has at most: 1 to 1,000. The default is 1,000. */
  MaxResults?: number;
  /** The NextToken of the page before. It outlives a restart of the server. */
  NextToken?: string;
}

/** The reply of ListTickets. */
export interface ListTicketsResult {
  /** The tickets of this page. */
  Tickets: Array<ListedTicket>;
  /** The number of the newest event when the page was made. */
  Sequence: number;
  /** The version of the rules. */
  RulesVersion: number;
  /** Give it to get the next page. Without it the list is over. */
  NextToken?: string;
}

/** The request of ListTypeOrders. */
export interface ListTypeOrdersRequest {
  /** How many one page has at most: 1 to 1,000. The default is 1,000. */
  MaxResults?: number;
  /** The NextToken of the page before. It outlives a restart of the server. */
  NextToken?: string;
}

/** The reply of ListTypeOrders. */
export interface ListTypeOrdersResult {
  /** The orders of this page. */
  TypeOrders: Array<TypeOrder>;
  /** Give it to get the next page. Without it the list is over. */
  NextToken?: string;
}

/** The request of ListUnits. */
export interface ListUnitsRequest {
  /** The id of the batch. */
  BatchId: string;
  /** Only units in this state. */
  State?: "outstanding" | "succeeded" | "failed" | "cancelled";
  /** How many one page has at most: 1 to 1,000. The default is 1,000. */
  MaxResults?: number;
  /** The NextToken of the page before. It outlives a restart of the server. */
  NextToken?: string;
}

/** The reply of ListUnits. */
export interface ListUnitsResult {
  /** The units of this page. */
  Units: Array<Unit>;
  /** Give it to get the next page. Without it the list is over. */
  NextToken?: string;
}

/** A message of a queue. Of the reasons only the nearest is told. */
export interface ListedMessage {
  /** The id of the message. */
  MessageId: string;
  /** Where the message is, as ExplainMessage says it. */
  State: "ready" | "delayed" | "in-flight" | "blocked" | "held" | "ended" | "unknown";
  /** When the message was sent. */
  SentAt?: Date;
  /** How often it was delivered. */
  ReceiveCount?: number;
  /** When it was delivered first. */
  FirstReceivedAt?: Date;
  /** When it was delivered last. */
  LastReceivedAt?: Date;
  /** The group of the message. */
  MessageGroupId?: string;
  /** Why the newest failed attempt failed. */
  FailureReason?: string;
  /** The batch of which the message is a unit. */
  BatchId?: string;
  /** The queue where the message failed, if it is a dead letter. */
  DeadLetterQueueSource?: string;
  /** Who has the message, if it is in flight. */
  Holder?: Holder;
  /** The size of the body in bytes. It is there if the request asks for a preview or the full body. */
  BodySize?: number;
  /** The deduplication id that the sender gave. */
  MessageDeduplicationId?: string;
  /** The body, or its first 256 bytes. */
  Body?: string;
  /** The access key of the sender. It is there with the full body, like the next members. */
  SenderId?: string;
  /** The trace header of the message. */
  AWSTraceHeader?: string;
  /** The attributes with which the message was sent. */
  MessageAttributes?: Record<string, MessageAttributeValue>;
  /** The MD5 digest of these attributes. */
  MD5OfMessageAttributes?: string;
  /** True if the log can't be read where the content is. */
  IsDamaged?: boolean;
  /** Why the message is not delivered, the nearest cause first. */
  Why: Array<Why>;
}

/** A ticket that waits. */
export interface ListedTicket {
  /** The id of the ticket: 1 to 128 ASCII letters, digits and punctuation. */
  TicketId: string;
  /** The version of the ticket. */
  Version: number;
  /** The part of the pool to which the ticket belongs. */
  Part: number;
  /** What the ticket says. */
  Attributes: Record<string, unknown>;
  /** What it asks of the others. */
  Need?: Record<string, NeedClause>;
  /** How much of the Size it takes. */
  Weight: number;
  /** Its priority. */
  Priority: number;
  /** The set of which only one ticket may be matched. */
  ExclusiveSet?: string;
  /** When it was offered first. Its age counts from there. */
  OfferedAt: Date;
  /** When it expires. */
  ExpiresAt?: Date;
  /** How many widening steps its age has reached. */
  Level: number;
}

/** The memory of all that is kept, bodies aside. */
export interface MemoryUse {
  /** Bytes in use. */
  Used: number;
  /** The value of memory-max in bytes. */
  Max?: number;
}

/** A typed value of a message attribute. */
export interface MessageAttributeValue {
  /** `String`, `Number` or `Binary`. A label of your own may follow behind a dot. */
  DataType: string;
  /** The value, if the type is String or Number. */
  StringValue?: string;
  /** The value, if the type is Binary. */
  BinaryValue?: Uint8Array;
}

/** A message in flight, and who has it. */
export interface MessageInFlight {
  /** The id of the message. */
  MessageId: string;
  /** The queue where the message is. */
  QueueUrl: string;
  /** The group of the message. */
  MessageGroupId?: string;
  /** How often it was delivered. */
  ReceiveCount: number;
  /** The number of this delivery. */
  FencingToken: number;
  /** When it was delivered. */
  ReceivedAt: Date;
  /** When its visibility timeout is over. */
  VisibleAt: Date;
  /** Who has it. */
  Holder?: Holder;
}

/** What is asked of one attribute. Every member that is there must hold. */
export interface NeedClause {
  /** The value must be this number or text. */
  eq?: unknown;
  /** The value must be one of these. */
  in?: Array<unknown>;
  /** The value must be none of these. */
  not?: Array<unknown>;
  /** The number must be at least this. */
  min?: number;
  /** The number must be at most this. */
  max?: number;
  /** The set must have one of these texts. */
  any?: Array<string>;
  /** The set must have all of these texts. */
  all?: Array<string>;
}

/** A node of the cluster, as this one last heard of it. */
export interface Node {
  /** The name of the node. */
  Node: string;
  /** Where the other nodes reach it. */
  Address?: string;
  /** The version of its tallyd. */
  Version: string;
  /** Whether the node serves. */
  State: "alive" | "draining" | "gone";
  /** How many namespaces it has. */
  Owned: number;
  /** How many it should have. */
  Wanted: number;
}

/** What a ticket is now. */
export interface OfferResult {
  /** The id of the ticket: 1 to 128 ASCII letters, digits and punctuation. */
  TicketId: string;
  /** With `invalid` and `key-reused` nothing was done. */
  Status: "waiting" | "held" | "matched" | "cancelled" | "expired" | "invalid" | "key-reused";
  /** The version of the ticket. It rises with each change. */
  Version?: number;
  /** True if the ticket was there. */
  AlreadyOffered: boolean;
  /** The match of a ticket that is matched or held. */
  MatchId?: string;
  /** Why the ticket was not taken. */
  Why?: string;
}

/** The request of OfferTickets. */
export interface OfferTicketsRequest {
  /** The name of the pool: 1 to 80 letters, digits, hyphens, underscores and dots. */
  PoolName: string;
  /** 1 to 1,000 tickets. */
  Tickets: Array<Ticket>;
}

/** The reply of OfferTickets. */
export interface OfferTicketsResult {
  /** What each ticket is now, in the order of the request. */
  Results: Array<OfferResult>;
}

/** The request of OpenPublisher. */
export interface OpenPublisherRequest {
  /** Names the publisher. */
  Publisher: string;
  /** The number of the owner's term. It must be above the one known. */
  Epoch: number;
  /** Names the owner. */
  Owner: string;
}

/** The reply of OpenPublisher. */
export interface OpenPublisherResult {
  /** True if the caller is the owner now. */
  Accepted: boolean;
  /** The epoch that is known now. */
  Epoch: number;
  /** The owner that is known now. */
  Owner: string;
  /** The number of the last batch that was published. */
  LastBatch: number;
  /** Rows that are stored and may still be in the source. They are told to the owner. */
  Unconfirmed?: Array<UnconfirmedRow>;
}

/** The request of PauseGroup. */
export interface PauseGroupRequest {
  /** The URL of the queue, or its bare name. */
  QueueUrl: string;
  /** The group. */
  MessageGroupId: string;
}

/** The request of PauseQueue. */
export interface PauseQueueRequest {
  /** The URL of the queue, or its bare name. */
  QueueUrl: string;
}

/** The request of PauseRelay. */
export interface PauseRelayRequest {
  /** The name of the relay: 1 to 80 letters, digits, hyphens and underscores. */
  RelayName: string;
}

/** The reply of PauseRelay. */
export interface PauseRelayResult {
  /** The name of the relay. */
  RelayName: string;
  /** Whether the relay is paused. */
  Paused: boolean;
}

/** The request of PauseSchedule. */
export interface PauseScheduleRequest {
  /** The name of the schedule: 1 to 80 letters, digits, hyphens, underscores and dots. */
  Name: string;
}

/** The reply of PauseSchedule. */
export interface PauseScheduleResult {
  /** The name of the schedule. */
  Name: string;
  /** Whether the schedule is paused. */
  Paused: boolean;
}

/** A pool of the list. */
export interface Pool {
  /** The name of the pool: 1 to 80 letters, digits, hyphens, underscores and dots. */
  PoolName: string;
  /** Tickets that wait. */
  Waiting: number;
  /** The version of the rules. */
  RulesVersion: number;
}

/** Matched tickets of one level: how many widening steps their age had reached. */
export interface PoolLevel {
  /** Tickets that were matched at this level. */
  Matched: number;
  /** Half of them waited at most so many milliseconds. */
  P50: number;
  /** Nine tenths of them waited at most so long. */
  P90: number;
  /** 99 of 100 waited at most so long. */
  P99: number;
  /** The longest wait. */
  Max: number;
}

/** A rule that says which two tickets fit. Which members it may have depends on its type. */
export interface PoolRule {
  /** `equal` and `differ` compare two values. `pairs` lists texts that fit. `near` bounds a difference. `share`
   *  counts common values. `expr` is an expression. `team_near` compares teams. */
  type: "equal" | "differ" | "pairs" | "near" | "share" | "expr" | "team_near";
  /** The attribute that the rule is about. Every type but `expr` needs it. */
  attr?: string;
  /** For `near` and `team_near`: the greatest difference. */
  max?: number;
  /** For `share`: how many values must be common to both. */
  min?: number;
  /** For `pairs`: pairs of texts that fit, in either order. */
  allow?: Array<Array<string>>;
  /** For `expr`: it must be true for both orders of the two tickets. */
  expr?: string;
  /** For rules with steps: `both` (the default) takes the stricter of the two tickets' bounds, `either` the looser
   *  one. */
  agree?: "both" | "either";
  /** `any`: the rule is skipped for a ticket without the attribute. By default such a ticket fails it. */
  missing?: "any";
  /** `match` for `team_near`, else `pair`. */
  scope?: "pair" | "match";
  /** For `near` and `share`: how the bound widens while a ticket waits. */
  expand?: Array<RuleStep>;
}

/** A match that a program proposes. */
export interface Proposal {
  /** Names the proposal, so that it can be repeated. */
  ProposalId: string;
  /** The tickets of the match. */
  Members: Array<ProposalMember>;
  /** A number that means nothing to Tally. */
  Score?: number;
  /** The version of the rules that the program used. 0 or absent: it is not checked. */
  RulesVersion?: number;
  /** Text for the result message. */
  Body?: string;
}

/** A member that is at fault. */
export interface ProposalFaultOfMember {
  /** The id of the ticket: 1 to 128 ASCII letters, digits and punctuation. */
  TicketId: string;
  /** What is wrong with it. */
  Why: "matched" | "held" | "cancelled" | "expired" | "stale" | "exclusive-set" | "unknown" | "twice";
  /** The match that has the ticket. */
  MatchId?: string;
  /** The version that the ticket has now. */
  Version?: number;
}

/** A ticket of a proposal, as the program knows it. */
export interface ProposalMember {
  /** The id of the ticket: 1 to 128 ASCII letters, digits and punctuation. */
  TicketId: string;
  /** The version that the program read. */
  Version: number;
}

/** What became of a proposal. */
export interface ProposalResult {
  /** The id of the proposal. */
  ProposalId: string;
  /** Only `matched` has changed anything. */
  Status: "matched" | "conflict" | "stale" | "invalid" | "key-reused" | "result-full";
  /** The match that was made, now or before. */
  MatchId?: string;
  /** The pool's version, if that of the proposal is older. */
  RulesVersion?: number;
  /** Why the proposal was not taken. */
  Why?: string;
  /** The members that are at fault. */
  Members?: Array<ProposalFaultOfMember>;
}

/** The request of ProposeMatches. */
export interface ProposeMatchesRequest {
  /** The name of the pool: 1 to 80 letters, digits, hyphens, underscores and dots. */
  PoolName: string;
  /** 1 to 100 proposals. */
  Proposals: Array<Proposal>;
}

/** The reply of ProposeMatches. */
export interface ProposeMatchesResult {
  /** What became of each proposal, in the order of the request. */
  Results: Array<ProposalResult>;
}

/** The request of Publish. */
export interface PublishRequest {
  /** The publisher. */
  Publisher: string;
  /** The epoch of OpenPublisher. */
  Epoch: number;
  /** The owner of OpenPublisher. */
  Owner: string;
  /** The number of this batch: the next one, or the last one again. */
  Batch: number;
  /** All rows up to this batch have left the source. It must be below Batch. */
  ConfirmedBatch: number;
  /** `group` (the default): a row that is not stored holds back its group. `strict`: it holds back all rows behind
   *  it. */
  Order?: "group" | "strict";
  /** `park` (the default) passes over a refused row. `block` holds back those behind it. */
  Refused?: "park" | "block";
  /** The rows, in the order of the source. */
  Rows: Array<PublishRow>;
}

/** The reply of Publish. */
export interface PublishResult {
  /** How many rows were stored just now. */
  Stored: number;
  /** The rows that were not stored just now, and why. */
  Results: Array<RowResult>;
}

/** A row of an outbox: a message to send, or with ReceiptHandle a message to delete. */
export interface PublishRow {
  /** The id of the row in its source. */
  Id: number;
  /** Names the row. A publisher stores each Uid once. */
  Uid: string;
  /** The queue of a message. A row that sends needs it. */
  QueueUrl?: string;
  /** The text of a message. A row that sends needs it. */
  MessageBody?: string;
  /** How long the message stays hidden. */
  DelaySeconds?: number;
  /** The group of the message. Rows of a group keep their order. */
  MessageGroupId?: string;
  /** The deduplication id of the message. On a FIFO queue the default is the Uid. */
  MessageDeduplicationId?: string;
  /** Attributes of the message. */
  MessageAttributes?: Record<string, MessageAttributeValue>;
  /** The system attribute AWSTraceHeader. */
  MessageSystemAttributes?: Record<string, MessageAttributeValue>;
  /** The message of this handle is deleted, and nothing is sent. */
  ReceiptHandle?: string;
}

/** The request of PutBackMatch. */
export interface PutBackMatchRequest {
  /** The name of the pool: 1 to 80 letters, digits, hyphens, underscores and dots. */
  PoolName: string;
  /** The id of the match. */
  MatchId: string;
}

/** The reply of PutBackMatch. */
export interface PutBackMatchResult {
  /** The id of the match. */
  MatchId: string;
  /** `acked`: the result message is gone, and nothing happens. `unknown`: there is no such match. */
  Status: "put-back" | "acked" | "unknown";
}

/** The request of PutSchedule. */
export interface PutScheduleRequest {
  /** The name of the schedule: 1 to 80 letters, digits, hyphens, underscores and dots. */
  Name: string;
  /** Five fields, such as `30 2 * * *`, or a word like `@daily`. */
  Cron: string;
  /** The time zone of the expression. The default is UTC. */
  TimeZone?: string;
  /** The queue to which the message goes. */
  QueueUrl: string;
  /** The text of the message. Body and attributes have at most 65,536 bytes together. */
  MessageBody: string;
  /** The group of the message. A FIFO queue needs one. */
  MessageGroupId?: string;
  /** Attributes of the message. Names that begin with `Tally.` are refused. */
  MessageAttributes?: Record<string, MessageAttributeValue>;
  /** What is sent for firings that were missed: `one` message for all (the default), `none`, or `all` of them. */
  CatchUp?: "one" | "none" | "all";
}

/** The reply of PutSchedule. */
export interface PutScheduleResult {
  /** The name of the schedule. */
  Name: string;
  /** When the schedule is due next. It is left out while the schedule is paused, or if the expression names no time
   *  within eight years. */
  NextAt?: Date;
  /** Whether the schedule is paused. */
  Paused: boolean;
}

/** The request of PutTypeOrder. */
export interface PutTypeOrderRequest {
  /** The name of the order. */
  Name: string;
  /** The types, the first one to come first. */
  Types: Array<string>;
  /** True: a message also waits until a message of each earlier type has succeeded. */
  Require?: boolean;
  /** For how long a success counts. It needs Require. The default is 1,209,600, which is 14 days. */
  RetentionSeconds?: number;
}

/** The reply of PutTypeOrder. */
export interface PutTypeOrderResult {
  /** The name of the order. */
  Name: string;
  /** The types of the order. */
  Types: Array<string>;
  /** Whether earlier types must have succeeded. */
  Require: boolean;
  /** For how long a success counts. It is there if Require is true. */
  RetentionSeconds?: number;
}

/** A queue, and what is in it. */
export interface QueueStats {
  /** The name of the queue. */
  QueueName: string;
  /** The URL of the queue. */
  QueueUrl: string;
  /** Messages that are visible. */
  Visible: number;
  /** Messages that somebody has. */
  InFlight: number;
  /** Messages that are not to be delivered yet. */
  Delayed: number;
  /** How many of Delayed wait for other messages or batches. */
  Blocked: number;
  /** How many groups have messages. */
  Groups?: number;
  /** How many groups wait for ReleaseGroup. */
  HeldGroups: number;
  /** The age of the oldest message in seconds. */
  OldestMessageAge?: number;
  /** The age in seconds of the oldest message that a receive could be given. */
  OldestDeliverableAge?: number;
  /** True if another message may be older. */
  OldestDeliverableAgeIsAtLeast?: boolean;
  /** Long polls that wait at the queue now. */
  WaitingReceives: number;
  /** Messages sent a second, over the last minute. */
  SentPerSecond: number;
  /** Deliveries a second. */
  ReceivedPerSecond: number;
  /** Messages a second that ended well. */
  DeletedPerSecond: number;
  /** Attempts a second that failed. */
  FailedPerSecond: number;
  /** When somebody last asked for messages. */
  LastReceiveAt?: Date;
  /** True while the queue is paused. */
  Paused?: boolean;
  /** The name of the queue's dead-letter queue. */
  DeadLetterQueue?: string;
  /** With Having `dead-letters`: how many queues have this one as their dead-letter queue. */
  Sources?: number;
}

/** A message that stays where it is. */
export interface Refusal {
  /** The id of the message. */
  MessageId: string;
  /** Why the message stays. */
  Reason: "not-in-queue" | "in-flight" | "delayed" | "waiting" | "group-held" | "group-paused" | "came-from-nowhere" |
      "no-such-queue";
}

/** How many candidates a rule rejects. */
export interface Rejection {
  /** The rule. `need` is the ticket's own, `their-need` the other's, `exclusive-set` a set that has a match. */
  Rule: string;
  /** How many candidates it rejects. */
  Count: number;
  /** For how many of them an expression ended in an error, such as a missing attribute. Left out if there is none. */
  Errors?: number;
  /** Attributes that the rule asks for and this ticket lacks. Left out if there is none. */
  Lacks?: Array<string>;
  /** Attributes that the rule asks for and a candidate lacks. Left out if there is none. */
  CandidatesLack?: Array<string>;
}

/** A relay as it is now. */
export interface Relay {
  /** The name of the relay. */
  RelayName: string;
  /** `standby`: another relay owns the source. `blocked` and `failed` have their reason in LastError. */
  State: "starting" | "standby" | "active" | "paused" | "blocked" | "failed" | "stopped";
  /** When the state began. */
  Since?: Date;
  /** Whether somebody has paused the relay. */
  Paused: boolean;
  /** As in CreateRelay, without secrets. */
  Source: RelaySource;
  /** As in CreateRelay, without secrets. */
  Sink: RelaySink;
  /** As in CreateRelay. */
  Order: "group" | "strict";
  /** The number of the relay's term, while it owns the source. */
  Epoch?: number;
  /** The highest id that is done. */
  Position: number;
  /** What waits in the source, as of the last look. */
  Lag: RelayLag;
  /** Parked rows that may have been delivered, among the 100 oldest. */
  InDoubt: number;
  /** Rows that wait for ResolveDoubt. */
  Parked: number;
  /** Rows delivered since the relay was started here. */
  Delivered: number;
  /** How many of these the sink had before. */
  Duplicates: number;
  /** Attempts that were repeated. */
  Retries: number;
  /** How often the relay took the source over. */
  Takeovers: number;
  /** What went wrong last. */
  LastError?: string;
  /** When that was. */
  LastErrorAt?: Date;
  /** Something about the source that will hurt, or that its oldest row waits too long. */
  Warning?: string;
}

/** Keys for an SQS endpoint. Replies show only AccessKeyId. */
export interface RelayCredentials {
  /** The access key. */
  AccessKeyId: string;
  /** The secret key. CreateRelay needs it. */
  SecretAccessKey?: string;
  /** The session token of temporary keys. */
  SessionToken?: string;
}

/** What waits in a relay's source. */
export interface RelayLag {
  /** How many rows wait. */
  Rows: number;
  /** How long the oldest one has waited. */
  Seconds: number;
}

/** Where a relay delivers messages to. */
export interface RelaySink {
  /** Each type has its own members, and others are refused. */
  Type: "queue" | "sqs" | "http";
  /** For `queue`, a queue of this server. Without it each row names its queue. For `sqs`, a queue or an endpoint. */
  QueueUrl?: string;
  /** For `sqs`: the region that requests are signed for. */
  Region?: string;
  /** For `sqs`: the keys. The default are those in the server's environment. */
  Credentials?: RelayCredentials;
  /** For `sqs`: whether a message that may have arrived is sent again or parked. The default is `park` for FIFO
   *  queues, `send` for standard ones. */
  Doubts?: "send" | "park";
  /** For `http`: the address that gets a POST for each message. Replies leave user and query out. */
  Url?: string;
  /** For `http`: signs the requests. Replies never show it. */
  Secret?: string;
  /** For `http`: whether a request whose outcome is unknown is repeated. The default is `at-least-once`. */
  Mode?: "at-least-once" | "at-most-once";
  /** For `http`: how long a request may take. The default is 10. */
  TimeoutSeconds?: number;
  /** What becomes of a message that the sink refuses: `park` (the default) sets it aside, `block` stops its group. */
  Refused?: "park" | "block";
}

/** Where a relay takes messages from. */
export interface RelaySource {
  /** Each type has its own members, and others are refused. */
  Type: "postgres" | "sqlite" | "mysql" | "queue" | "sqs";
  /** For `postgres`, a URI or keywords that libpq takes. For `sqlite`, a path on the server's machine. For `mysql`,
   *  a URL: `mysql://USER:PASSWORD@HOST:PORT/DATABASE`. Replies leave passwords out. */
  Connection?: string;
  /** For `postgres`, the schema of the outbox. For `sqlite` and `mysql`, what the names of its tables begin with.
   *  The default is `tally`. */
  Table?: string;
  /** For `postgres`: how a PgBouncer in between pools connections. */
  Pooler?: "session" | "transaction";
  /** For `postgres`: a row leaves when so many replicas have flushed its commit. The default is 0. */
  PublishAfterReplicas?: number;
  /** For `queue`, a queue of this server. For `sqs`, a queue behind any endpoint of SQS. */
  QueueUrl?: string;
  /** For `sqs`: the region that requests are signed for. */
  Region?: string;
  /** For `sqs`: the keys. The default are those in the server's environment. */
  Credentials?: RelayCredentials;
  /** How long the relay owns the source, or its messages, without a renewal. The default is 3; for `sqs` it is 30,
   *  and at least 5. */
  LeaseSeconds?: number;
}

/** The request of ReleaseGroup. */
export interface ReleaseGroupRequest {
  /** The URL of the queue, or its bare name. */
  QueueUrl: string;
  /** The group. */
  MessageGroupId: string;
  /** `retry` gives the first message fresh attempts. `skip` gives it up. `cancel-rest` cancels what stands behind
   *  it, too. */
  Action: "retry" | "skip" | "cancel-rest";
  /** True: nothing is changed, and the reply says what would happen. */
  DryRun?: boolean;
}

/** The reply of ReleaseGroup. */
export interface ReleaseGroupResult {
  /** Of a dry run: messages that would end. */
  Messages?: number;
  /** Of a dry run: how many of these messages are somebody's work now. */
  InFlight?: number;
  /** Of a dry run: messages that would go to the dead-letter queue. */
  DeadLettered?: number;
  /** Of a dry run: units of batches that would end. */
  Units?: number;
  /** Of a dry run: batches that have these units. */
  Batches?: number;
  /** Of a dry run: messages that wait for one of these. */
  Dependents?: number;
  /** Of a dry run: groups that would lose their last message. */
  Groups?: number;
  /** Of a dry run: false if there are more than the 10,000 messages that it looked at. */
  IsComplete?: boolean;
}

/** The request of ReleaseMessage. */
export interface ReleaseMessageRequest {
  /** The queue of the message. Left out, it is looked for in all queues. */
  QueueUrl?: string;
  /** The id of the message. */
  MessageId: string;
  /** Only if this delivery still has the message. ListInFlight shows the token. */
  FencingToken?: number;
  /** True: nothing is changed, and the reply says what would happen. */
  DryRun?: boolean;
}

/** The reply of ReleaseMessage. */
export interface ReleaseMessageResult {
  /** The queue of the message. */
  QueueUrl: string;
  /** What the next receive makes of it: it is delivered again, dead-lettered, or its group is held. */
  Outcome: "returned" | "dead-lettered" | "held";
  /** The attempt that has ended. */
  Attempt: number;
  /** How many attempts there are. */
  MaxAttempts?: number;
  /** The dead-letter queue to which it goes. */
  DeadLetterQueueUrl?: string;
  /** The number of the delivery that had it. */
  FencingToken: number;
  /** Who had it. */
  Holder?: Holder;
  /** Of a dry run: messages that would end. */
  Messages?: number;
  /** Of a dry run: how many of these messages are somebody's work now. */
  InFlight?: number;
  /** Of a dry run: messages that would go to the dead-letter queue. */
  DeadLettered?: number;
  /** Of a dry run: units of batches that would end. */
  Units?: number;
  /** Of a dry run: batches that have these units. */
  Batches?: number;
  /** Of a dry run: messages that wait for one of these. */
  Dependents?: number;
  /** Of a dry run: groups that would lose their last message. */
  Groups?: number;
  /** Of a dry run: false if there are more than the 10,000 messages that it looked at. */
  IsComplete?: boolean;
}

/** The request of ReplaceMessage. */
export interface ReplaceMessageRequest {
  /** The URL of the queue, or its bare name. */
  QueueUrl: string;
  /** The id of the message. */
  MessageId: string;
  /** The new body. Left out, it stays. */
  MessageBody?: string;
  /** The new attributes. They take the place of all but those whose names begin with `Tally.`. */
  MessageAttributes?: Record<string, MessageAttributeValue>;
}

/** The reply of ReplaceMessage. */
export interface ReplaceMessageResult {
  /** The id of the copy. */
  MessageId: string;
  /** The queue of the copy. */
  QueueUrl: string;
  /** The MD5 digest of its body. */
  MD5OfMessageBody: string;
  /** The MD5 digest of its attributes. */
  MD5OfMessageAttributes?: string;
  /** Its place in its FIFO queue. */
  SequenceNumber?: string;
}

/** The request of ResolveDoubt. */
export interface ResolveDoubtRequest {
  /** The name of the relay: 1 to 80 letters, digits, hyphens and underscores. */
  RelayName: string;
  /** The id of the row. */
  Id?: number;
  /** The uid of the row. */
  Uid?: string;
  /** `send` delivers the row under its uid, perhaps again. `drop` lets it go. */
  Action: "send" | "drop";
}

/** The request of ResumeGroup. */
export interface ResumeGroupRequest {
  /** The URL of the queue, or its bare name. */
  QueueUrl: string;
  /** The group. */
  MessageGroupId: string;
}

/** The request of ResumeQueue. */
export interface ResumeQueueRequest {
  /** The URL of the queue, or its bare name. */
  QueueUrl: string;
}

/** The request of ResumeRelay. */
export interface ResumeRelayRequest {
  /** The name of the relay: 1 to 80 letters, digits, hyphens and underscores. */
  RelayName: string;
}

/** The reply of ResumeRelay. */
export interface ResumeRelayResult {
  /** The name of the relay. */
  RelayName: string;
  /** Whether the relay is paused. */
  Paused: boolean;
}

/** The request of ResumeSchedule. */
export interface ResumeScheduleRequest {
  /** The name of the schedule: 1 to 80 letters, digits, hyphens, underscores and dots. */
  Name: string;
}

/** The reply of ResumeSchedule. */
export interface ResumeScheduleResult {
  /** The name of the schedule. */
  Name: string;
  /** When the schedule is due next. It is left out while the schedule is paused, or if the expression names no time
   *  within eight years. */
  NextAt?: Date;
  /** Whether the schedule is paused. */
  Paused: boolean;
}

/** A row that was not stored just now. */
export interface RowResult {
  /** The id of the row. */
  Id: number;
  /** `duplicate`: the row is done. `stale`: its handle deletes nothing. `refused`: SendMessage would refuse it.
   *  `blocked`: later it may go through. `held`: it stands behind such a row. `too-old`: nobody knows whether it
   *  was stored. */
  Status: "duplicate" | "stale" | "refused" | "blocked" | "held" | "too-old";
  /** The error code of a row that is refused or blocked. */
  Code?: string;
  /** The error message of such a row. */
  Message?: string;
}

/** A step by which a rule widens. Its bound holds when the ticket's age has reached the duration. */
export interface RuleStep {
  /** The age of the ticket, such as `10s`. */
  after: string;
  /** For `near`: the new bound. */
  max?: number;
  /** For `share`: the new bound. */
  min?: number;
  /** True switches the rule off. Then there is no bound. */
  off?: boolean;
}

/** A schedule without its message. */
export interface Schedule {
  /** The name of the schedule. */
  Name: string;
  /** When the schedule is due next. It is left out while the schedule is paused, or if the expression names no time
   *  within eight years. */
  NextAt?: Date;
  /** Whether the schedule is paused. */
  Paused: boolean;
  /** The cron expression. */
  Cron: string;
  /** The time zone of the expression. */
  TimeZone: string;
  /** The queue to which the schedule sends. */
  QueueUrl: string;
  /** As in PutSchedule. */
  CatchUp: "one" | "none" | "all";
  /** Why the schedule does not fire, such as a time zone that the server can't read. */
  Warning?: string;
  /** When the newest firing was due. */
  LastAt?: Date;
  /** The message of that firing. */
  LastMessageId?: string;
}

/** The request of SealBatch. */
export interface SealBatchRequest {
  /** The id of the batch. */
  BatchId: string;
}

/** The reply of SealBatch. */
export interface SealBatchResult {
  /** The state of the batch. */
  State: "open" | "sealed" | "completed";
  /** Units that have not ended. */
  Remaining: number;
  /** True if this request completed the batch. */
  Completed: boolean;
}

/** The answer to one send, as SendMessage gives it. */
export interface SendResult {
  /** The MD5 digest of the body. */
  MD5OfMessageBody: string;
  /** The MD5 digest of the attributes that the request gave. */
  MD5OfMessageAttributes?: string;
  /** The MD5 digest of the system attributes. */
  MD5OfMessageSystemAttributes?: string;
  /** The id of the message, or of the first one if this is a duplicate. It is left out if nobody remembers that
   *  one. */
  MessageId?: string;
  /** The place of the message in its FIFO queue. */
  SequenceNumber?: string;
  /** True if nothing was sent, because the queue remembers the id or the number. */
  Duplicate?: boolean;
  /** The highest number of this producer in the queue. */
  LastSequence?: string;
  /** True if no message ever had this producer's number. Nothing was sent; go on above LastSequence. */
  PassedOver?: boolean;
}

/** A key of the configuration. */
export interface Setting {
  /** The name of the key. */
  Name: string;
  /** The value in force, without secrets. */
  Value: string;
  /** Whether this is the default. */
  IsDefault: boolean;
}

/** A request that took long. Wait, Decide, Flush and Write are parts of Milliseconds. */
export interface SlowRequest {
  /** When the request was read. */
  At: Date;
  /** The action of the request. */
  Action: string;
  /** The queue that it was about. */
  QueueName?: string;
  /** How long it took. */
  Milliseconds: number;
  /** Until it could begin. */
  Wait: number;
  /** For its parameters, the decision and the reply. */
  Decide: number;
  /** Until its record was durable. */
  Flush: number;
  /** Behind other replies of its connection. */
  Write: number;
  /** The size of the request. */
  RequestBytes: number;
  /** The size of the reply. */
  ReplyBytes: number;
  /** Who asked. */
  AccessKeyId?: string;
  /** The id of the request. */
  RequestId: string;
}

/** The newest snapshot of the namespace. */
export interface SnapshotState {
  /** The time of the state that the snapshot holds. */
  LastAt?: Date;
  /** The size of the snapshot. */
  Bytes?: number;
  /** True if the last attempt at a snapshot failed. */
  IsFailing: boolean;
}

/** The request of StartBackup. */
export interface StartBackupRequest {
}

/** The reply of StartBackup. */
export interface StartBackupResult {
  /** The id of the backup. */
  BackupId: string;
  /** `running`. */
  State: "running" | "finished" | "failed";
  /** When it was begun. */
  StartedAt: Date;
}

/** The request of SummarizeFailures. */
export interface SummarizeFailuresRequest {
  /** The URL of the queue, or its bare name. */
  QueueUrl: string;
}

/** The reply of SummarizeFailures. */
export interface SummarizeFailuresResult {
  /** At most 100 reasons. */
  Reasons: Array<FailureReasonCount>;
  /** At how many messages it looked. */
  Looked: number;
  /** How many of them have a reason. */
  Failed: number;
  /** How many failed and nobody said why. */
  WithoutReason: number;
  /** Whether these were all messages. */
  IsComplete: boolean;
}

/** Where a batch sends a message, and which one. */
export interface Target {
  /** The URL of the queue, or its bare name. */
  QueueUrl: string;
  /** The text of the message. Left out, it is a JSON object with the batch's id, status and counts. */
  MessageBody?: string;
  /** The group of the message. A FIFO queue needs one. */
  MessageGroupId?: string;
  /** Attributes of the message. Names that begin with `Tally.` are refused, because Tally adds its own. Body and
   *  attributes have at most 65,536 bytes together. */
  MessageAttributes?: Record<string, MessageAttributeValue>;
}

/** Where a batch sends a message. The body and the attributes are not shown. */
export interface TargetView {
  /** The URL of the queue, or its bare name. */
  QueueUrl: string;
  /** The group of the message. */
  MessageGroupId?: string;
}

/** A team of a match. */
export interface Team {
  /** The name of the team: 1 to 80 bytes. */
  name: string;
  /** The weight of its tickets. */
  size: number;
}

/** A ticket to offer. */
export interface Ticket {
  /** The id of the ticket: 1 to 128 ASCII letters, digits and punctuation. */
  TicketId: string;
  /** What the ticket says. */
  Attributes?: Record<string, unknown>;
  /** What the ticket asks of the others in its match. */
  Need?: Record<string, NeedClause>;
  /** How much of the Size the ticket takes, like a party of several players. The default is 1. */
  Weight?: number;
  /** From 0 (the default) to 9. Those with 9 are looked after first. */
  Priority?: number;
  /** How long the ticket waits. The default is the pool's; 0 is for ever. */
  TtlSeconds?: number;
  /** Of all tickets that name this set only one may be matched. */
  ExclusiveSet?: string;
  /** Text for the result message. */
  Body?: string;
}

/** Tickets by what became of them. */
export interface TicketCounts {
  /** Tickets offered since the pool was created. */
  Offered: number;
  /** Tickets that wait now. */
  Waiting: number;
  /** Tickets whose match waits to be confirmed. */
  Held: number;
  /** Tickets that were matched. */
  Matched: number;
  /** Tickets that were cancelled. */
  Cancelled: number;
  /** Tickets that expired. */
  Expired: number;
  /** Offers of tickets that were there, since the server started. */
  AlreadyOffered: number;
}

/** Something that happened to a ticket or to the rules. Which members there are depends on Type. */
export interface TicketEvent {
  /** The number of the event. */
  Sequence: number;
  /** `offer`: a ticket waits. `retire`: it waits no more. `widen`: it has a new Level. `rules`: the pool has new
   *  rules. */
  Type: "offer" | "retire" | "widen" | "rules";
  /** The ticket that it is about. */
  TicketId?: string;
  /** Of an offer: the version of the ticket. */
  Version?: number;
  /** Of an offer: the part of the pool. */
  Part?: number;
  /** Of an offer: what the ticket says. Of rules: the types of the pool's attributes. */
  Attributes?: Record<string, unknown>;
  /** Of an offer: what the ticket asks of the others. */
  Need?: Record<string, NeedClause>;
  /** Of an offer: how much of the Size it takes. */
  Weight?: number;
  /** Of an offer: its priority. */
  Priority?: number;
  /** Of an offer: its set. */
  ExclusiveSet?: string;
  /** Of an offer: when it was offered first. */
  OfferedAt?: Date;
  /** Of an offer: when it expires. */
  ExpiresAt?: Date;
  /** Of an offer or a widening: how many steps its age has reached. */
  Level?: number;
  /** Of a ticket that waits no more: why. */
  Reason?: "match" | "cancel" | "ttl" | "hold";
  /** Of a ticket that is matched or held: its match. */
  MatchId?: string;
  /** Of rules: their version. */
  RulesVersion?: number;
  /** Of rules: the rules. */
  Rules?: Array<PoolRule>;
  /** Of rules: the weight of a match. */
  Size?: number;
  /** Of rules: the teams. */
  Teams?: Array<Team>;
  /** Of rules: which candidate is taken. */
  Pick?: string;
}

/** An order between types of messages. */
export interface TypeOrder {
  /** The name of the order. */
  Name: string;
  /** The types, the first one to come first. */
  Types: Array<string>;
  /** As in PutTypeOrder. */
  Require: boolean;
  /** As in PutTypeOrder. It is there if Require is true. */
  RetentionSeconds?: number;
}

/** A row that is stored, and that may still be in its source. */
export interface UnconfirmedRow {
  /** The id of the row. */
  Id: number;
  /** The uid of the row. */
  Uid: string;
}

/** A unit of a batch. */
export interface Unit {
  /** The key of the unit. A message is called by its MessageId, a child batch by its id. */
  Unit: string;
  /** Whether and how the unit has ended. */
  State: "outstanding" | "succeeded" | "failed" | "cancelled";
  /** The message that is the unit. */
  MessageId?: string;
  /** The child batch that is the unit. */
  BatchId?: string;
  /** The note of CompleteUnits. */
  Detail?: string;
}

/** How an external unit ended. */
export interface UnitReport {
  /** The key of the unit. */
  Unit: string;
  /** `succeeded` is the default. */
  Status?: "succeeded" | "failed";
  /** A note, which ListUnits shows. */
  Detail?: string;
}

/** What became of a report. */
export interface UnitResult {
  /** The key of the unit. */
  Unit: string;
  /** False if the unit had ended before. Then nothing has changed. */
  Recorded: boolean;
}

/** The request of UpdatePool. */
export interface UpdatePoolRequest {
  /** The name of the pool: 1 to 80 letters, digits, hyphens, underscores and dots. */
  PoolName: string;
  /** The standard queue that gets a message for each match. */
  ResultQueueUrl?: string;
  /** A standard queue that gets a message for each ticket that expires. Empty text takes it away. */
  OnExpiryQueueUrl?: string;
  /** What tickets say: the names of attributes and their types. UpdatePool can only add some. */
  Attributes?: Record<string, "str" | "num" | "set">;
  /** Rules that each two members of a match must meet. Without rules all tickets fit. */
  Rules?: Array<PoolRule>;
  /** The weight of a whole match. The default is 2. In a pool with the Matcher `external` it may be 0: groups of
   *  any weight. */
  Size?: number;
  /** The teams of a match, instead of Size. */
  Teams?: Array<Team>;
  /** Which candidate is taken: `oldest` (the default), `first`, `nearest:ATTRIBUTE` or `score:EXPRESSION`. */
  Pick?: string;
  /** Who finds matches: Tally (`built-in`, the default), programs that read the feed (`external`), or both. */
  Matcher?: "built-in" | "external" | "both";
  /** What is found within a window is accepted at its end, the best first. The default is 0: at once. */
  WindowMilliseconds?: number;
  /** How long a ticket waits. The default is 0: for ever. */
  TicketTtlSeconds?: number;
  /** How long the members of a match have to confirm it. The default is 0: nobody is asked. */
  ConfirmSeconds?: number;
  /** True: proposals must meet the rules. */
  Verify?: boolean;
  /** No match is made while the result queue holds so many messages. The default is 0: no limit. */
  ResultsMax?: number;
  /** How long ended tickets are remembered. The default is 86,400, a day. */
  RetentionSeconds?: number;
}

/** The reply of UpdatePool. */
export interface UpdatePoolResult {
  /** The name of the pool. */
  PoolName: string;
  /** The version of the rules. It rises with each change of them. */
  RulesVersion: number;
  /** What makes the pool slow. */
  Warnings?: Array<string>;
}

/** The request of UpdateTicket. */
export interface UpdateTicketRequest {
  /** The name of the pool: 1 to 80 letters, digits, hyphens, underscores and dots. */
  PoolName: string;
  /** The id of the ticket: 1 to 128 ASCII letters, digits and punctuation. */
  TicketId: string;
  /** Only if this is the newest version. 0 or absent: any version. */
  Version?: number;
  /** What the ticket says now. */
  Attributes?: Record<string, unknown>;
  /** What it asks now. */
  Need?: Record<string, NeedClause>;
}

/** The reply of UpdateTicket. */
export interface UpdateTicketResult {
  /** The id of the ticket. */
  TicketId: string;
  /** `waiting`: it was changed. `stale`: Version is not the newest. `too-late`: it is matched or held. */
  Status: "waiting" | "stale" | "too-late" | "cancelled" | "expired";
  /** The version of the ticket. */
  Version: number;
  /** The match that has the ticket. */
  MatchId?: string;
}

/** How long matched tickets had waited, in milliseconds. */
export interface WaitQuantiles {
  /** Half of them waited at most so long. */
  P50: number;
  /** Nine tenths of them waited at most so long. */
  P90: number;
  /** 99 of 100 waited at most so long. */
  P99: number;
  /** The longest wait. */
  Max: number;
}

/** One reason why a message is where it is. Which members there are depends on Code. */
export interface Why {
  /** The kind of reason. */
  Code: "InFlight" | "Delayed" | "BackOff" | "Returned" | "GroupHead" | "GroupHeld" | "GroupPaused" |
      "GroupConcurrency" | "GroupRate" | "QueuePaused" | "QueueRate" | "Message" | "Batch" | "AntecedentFailed" |
      "TypeOrder" | "TypeRequired" | "OutOfAttempts" | "FailedForGood" | "OtherQueue" | "Ended" | "Cancelled" |
      "SlowWorkers";
  /** The reason in words. */
  Text: string;
  /** The message that it waits for. */
  MessageId?: string;
  /** The batch that it waits for. */
  BatchId?: string;
  /** The type that comes first. */
  Type?: string;
  /** The queue where the message is now. */
  QueueName?: string;
  /** Why the newest attempt failed, or why the group is held. */
  Reason?: string;
  /** How the message ended, or what it waited for. */
  Outcome?: "succeeded" | "failed" | "cancelled";
  /** When it began. */
  Since?: Date;
  /** When it will be over. */
  Until?: Date;
  /** The fencing token of the delivery that is in flight. */
  Delivery?: number;
  /** Who has the message that is in flight. */
  Holder?: Holder;
  /** Units of the batch that have not ended. */
  Remaining?: number;
  /** How often the message came back, or how many are in flight. */
  Count?: number;
  /** How many attempts or messages are allowed. */
  Limit?: number;
  /** By how many seconds the latest delete came too late. */
  Late?: number;
}

/** The request of XorUnits. */
export interface XorUnitsRequest {
  /** The id of the batch. */
  BatchId: string;
  /** The ids of the units, combined with XOR. */
  Value: string;
  /** Names the request. A repeat with this token changes nothing. */
  RequestToken?: string;
  /** How many units start. */
  Registered?: number;
  /** How many units end. */
  Finished?: number;
}

/** The reply of XorUnits. */
export interface XorUnitsResult {
  /** Whether the value of the batch is zero now. */
  Zero: boolean;
  /** True if this request completed the batch. */
  Completed: boolean;
}
