# Made by make_actions.py from the service model.
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

class Actions:
    exceptions: Any
    meta: Any
    def get_waiter(self, waiter_name: str) -> Any: ...
    def get_paginator(self, operation_name: str) -> Any: ...
    def add_units(self, *, BatchId: str, Units: Sequence[str] = ..., Count: int = ...) -> dict[str, Any]:
        """Adds external units to an open batch. Adding a key again adds nothing. Give either Units or Count. It
        needs the right write."""
    def cancel_batch(self, *, BatchId: str, DryRun: bool = ...) -> dict[str, Any]:
        """Cancels the units that have not ended. Their messages are never delivered again. The batch completes with
        the status cancelled. It needs the right write."""
    def cancel_tickets(self, *, PoolName: str, TicketIds: Sequence[str]) -> dict[str, Any]:
        """Cancels tickets that wait. It needs the right write."""
    def commit(self, *, CreateBatches: Sequence[Mapping[str, Any]] = ...,
            AddUnits: Sequence[Mapping[str, Any]] = ..., Sends: Sequence[Mapping[str, Any]] = ...,
            Units: Sequence[Mapping[str, Any]] = ..., Deletes: Sequence[Mapping[str, Any]] = ...,
            Holds: Sequence[Mapping[str, Any]] = ...) -> dict[str, Any]:
        """Consumes, counts and produces in one step: all or nothing, in one record. If one receipt handle is stale,
        nothing is done. It does its work in this order: batches, additions, sends, units, deletes. It needs the
        right write for all but Deletes and Holds, which need the right read."""
    def complete_units(self, *, BatchId: str, Units: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Reports how external units ended. If one of them is unknown, nothing is recorded. The reply whose request
        completed the batch says so, and no other. It needs the right write."""
    def confirm_match(self, *, PoolName: str, MatchId: str, TicketId: str, Accept: bool = ...) -> dict[str, Any]:
        """Says that a ticket accepts its match, or refuses it. It is for pools with ConfirmSeconds. It needs the
        right write."""
    def count_tickets(self, *, PoolName: str, Filter: Mapping[str, Mapping[str, Any]] = ...) -> dict[str, Any]:
        """Counts the tickets that wait, or those of them that meet a filter. It needs the right read."""
    def create_batch(self, *, BatchId: str = ..., Total: int = ..., Tracking: Literal["exact", "xor"] = ...,
            OnComplete: Mapping[str, Any] = ..., OnSuccess: Mapping[str, Any] = ...,
            OnFirstFailure: Mapping[str, Any] = ..., Parent: str = ..., ExpiresAfterSeconds: int = ...,
            RetentionSeconds: int = ...) -> dict[str, Any]:
        """Makes a batch. A batch counts units and sends a message when the last one has ended, exactly once. The
        same id with the same arguments answers the same, so a repeat is harmless. It needs the right write."""
    def create_pool(self, *, PoolName: str, ResultQueueUrl: str, OnExpiryQueueUrl: str = ...,
            Attributes: Mapping[str, Literal["str", "num", "set"]] = ..., Rules: Sequence[Mapping[str, Any]] = ...,
            Size: int = ..., Teams: Sequence[Mapping[str, Any]] = ..., Pick: str = ...,
            Matcher: Literal["built-in", "external", "both"] = ..., WindowMilliseconds: int = ...,
            TicketTtlSeconds: int = ..., ConfirmSeconds: int = ..., Verify: bool = ..., ResultsMax: int = ...,
            RetentionSeconds: int = ...) -> dict[str, Any]:
        """Makes a pool, in which tickets wait to be matched with each other. Each match is one message in the
        result queue. The same arguments again change nothing. It needs the right admin."""
    def create_relay(self, *, RelayName: str, Source: Mapping[str, Any], Sink: Mapping[str, Any],
            Order: Literal["group", "strict"] = ...) -> dict[str, Any]:
        """Makes a relay, which carries messages from a source to a sink until it is deleted. The same arguments
        again change nothing. Whether the source can be reached is told by DescribeRelay. It needs the right
        admin."""
    def delete_backup(self, *, BackupId: str) -> dict[str, Any]:
        """Removes a backup, or ends one that is being made. It needs the right admin."""
    def delete_batch(self, *, BatchId: str) -> dict[str, Any]:
        """Deletes a batch that has completed. Its id is free at once. It needs the right write."""
    def delete_messages(self, *, QueueUrl: str, MessageIds: Sequence[str] = ..., Reason: str = ...,
            MessageGroupId: str = ..., SentBefore: datetime | float = ..., SentAfter: datetime | float = ...,
            MaxMessages: int = ..., MaxNumberOfMessagesPerSecond: int = ..., DryRun: bool = ...) -> dict[str, Any]:
        """Deletes the messages of a queue that fit, as a task that runs on. Name them by MessageIds alone, or by
        one or more of the other filters. Messages in flight stay. It needs the right admin."""
    def delete_pool(self, *, PoolName: str) -> dict[str, Any]:
        """Deletes a pool and its tickets. The messages of its matches stay. It needs the right admin."""
    def delete_relay(self, *, RelayName: str) -> dict[str, Any]:
        """Ends a relay. Its rows stay where they are. It needs the right admin."""
    def delete_schedule(self, *, Name: str) -> dict[str, Any]:
        """Deletes a schedule. It needs the right admin."""
    def delete_type_order(self, *, Name: str) -> dict[str, Any]:
        """Deletes a type order. Messages that wait already go on waiting for what they waited for. It needs the
        right admin."""
    def describe_backup(self, *, BackupId: str = ...) -> dict[str, Any]:
        """Says how far a backup is, and where it stands. It needs the right admin."""
    def describe_batch(self, *, BatchId: str) -> dict[str, Any]:
        """Says what a batch is, and how many of its units have ended. It needs any right."""
    def describe_pool(self, *, PoolName: str) -> dict[str, Any]:
        """Says what a pool is, how many tickets wait, how long they waited, and how well it works. It needs any
        right."""
    def describe_relay(self, *, RelayName: str) -> dict[str, Any]:
        """Says how a relay is, how far it is, and what went wrong last. It needs any right."""
    def describe_schedule(self, *, Name: str) -> dict[str, Any]:
        """Says what a schedule is, when it is due next, and what it sends. It needs any right."""
    def describe_server(self) -> dict[str, Any]:
        """Says how the server is: version, memory, disk, slow requests, settings, and who asks. It shows no secret.
        A credential with queues= gets neither Config nor Nodes. It needs any right."""
    def explain_message(self, *, MessageId: str, QueueUrl: str = ...) -> dict[str, Any]:
        """Says where a message is, and why it is not delivered, in words and in fields. It needs any right."""
    def explain_ticket(self, *, PoolName: str, TicketId: str) -> dict[str, Any]:
        """Says why a ticket waits: what each rule asks at its level, and how many candidates each one rejects. It
        needs the right read."""
    def fail_message(self, *, QueueUrl: str, ReceiptHandle: str, Reason: str = ..., Final: bool = ...,
            RetryAfterSeconds: int = ..., Backoff: Mapping[str, Any] = ..., MaxAttempts: int = ...,
            DeadLetterQueueUrl: str = ...) -> dict[str, Any]:
        """Ends this attempt now, with a reason. The message comes again after its back-off. If it is out of
        attempts, it goes to the dead-letter queue, is dropped, or holds its group. It needs the right read."""
    def feed_events(self, *, After: int = ..., MaxResults: int = ..., WaitTimeSeconds: int = ...) -> dict[str, Any]:
        """Tells what administrators and the server did, and what they do next. The newest 10,000 events of a
        namespace are kept in memory. It needs any right."""
    def feed_tickets(self, *, PoolName: str, From: int, MaxResults: int = ..., WaitTimeSeconds: int = ...,
            Part: int = ..., Parts: int = ...) -> dict[str, Any]:
        """Tells everything that happens to the tickets of a pool, numbered without gaps. Give Next as From the next
        time. It needs the right read."""
    def find_message(self, *, MessageId: str = ..., MessageDeduplicationId: str = ..., MessageGroupId: str = ...,
            OutboxId: str = ..., Producer: str = ..., Sequence: int = ..., Text: str = ..., QueueUrl: str = ...,
            Body: Literal["none", "preview", "full"] = ..., NextToken: str = ...) -> dict[str, Any]:
        """Finds messages by what their sender knows, or by a text in them. Give one of MessageId,
        MessageDeduplicationId, OutboxId, Producer and Text. What is not remembered is looked for in 2,000 messages
        a call. It needs the right read."""
    def fire_schedule(self, *, Name: str) -> dict[str, Any]:
        """Sends the message of a schedule now, once, also while the schedule is paused. The next firing stays as it
        is. It needs the right admin."""
    def get_message(self, *, MessageId: str, Body: Literal["none", "preview", "full"] = ...) -> dict[str, Any]:
        """Shows a message wherever it is, without receiving it. One that is gone has only State and Why. It needs
        the right read."""
    def get_series(self, *, Period: int, QueueUrl: str = ..., Points: int = ...) -> dict[str, Any]:
        """Tells what came and went in each period, and what there was at its end. The server keeps a series of 256
        queues in memory. It needs any right."""
    def get_ticket(self, *, PoolName: str, TicketId: str) -> dict[str, Any]:
        """Says what a ticket is. One that is over for good has only TicketId, Status, Version and MatchId. It needs
        the right read."""
    def list_batches(self, *, State: Literal["open", "sealed", "completed"] = ..., Prefix: str = ...,
            MaxResults: int = ..., NextToken: str = ...) -> dict[str, Any]:
        """Lists batches in the order of their creation. With a filter, a page may be short or empty and still have
        a NextToken. It needs any right."""
    def list_dependents(self, *, MessageId: str = ..., BatchId: str = ..., MaxResults: int = ...,
            NextToken: str = ...) -> dict[str, Any]:
        """Lists the messages that wait for a message or for a batch, and those that are held because it did not
        succeed. Give either MessageId or BatchId. It needs any right."""
    def list_doubts(self, *, RelayName: str, MaxResults: int = ..., NextToken: str = ...) -> dict[str, Any]:
        """Lists the parked rows of a relay, the oldest first, at most 100 in all. It needs any right."""
    def list_groups(self, *, QueueUrl: str, State: Literal["held", "paused", "ready", "busy"] = ...,
            MessageGroupId: str = ..., MaxResults: int = ..., NextToken: str = ...) -> dict[str, Any]:
        """Lists the groups of a queue, and says what keeps them. A page may be short or empty and still have a
        NextToken. It needs any right."""
    def list_in_flight(self, *, QueueUrl: str = ..., AccessKeyId: str = ..., Worker: str = ...,
            MaxResults: int = ..., NextToken: str = ...) -> dict[str, Any]:
        """Lists the messages that somebody has, of one queue or of all, and who has them. It needs any right."""
    def list_messages(self, *, QueueUrl: str,
            State: Literal["ready", "delayed", "in-flight", "blocked", "held"] = ..., MessageGroupId: str = ...,
            BatchId: str = ..., Reason: str = ..., OlderThan: int = ...,
            Body: Literal["none", "preview", "full"] = ..., MaxResults: int = ...,
            NextToken: str = ...) -> dict[str, Any]:
        """Shows the messages of a queue, the oldest first, without receiving them. One call looks at 10,000
        messages, so a page may be short or empty and still have a NextToken. It needs the right read."""
    def list_pools(self, *, Prefix: str = ..., MaxResults: int = ..., NextToken: str = ...) -> dict[str, Any]:
        """Lists pools by name. It needs any right."""
    def list_queue_stats(self, *, QueueNamePrefix: str = ...,
            SortBy: Literal["name", "age", "oldest", "visible"] = ...,
            Having: Literal["held-groups", "pause", "nothing-visible", "dead-letters"] = ..., MaxResults: int = ...,
            NextToken: str = ...) -> dict[str, Any]:
        """Lists queues with what is in them and how they work, exactly, in one call. With SortBy or Having, one
        call puts 10,000 queues in order and gives the first of these. It needs any right."""
    def list_relays(self, *, MaxResults: int = ..., NextToken: str = ...) -> dict[str, Any]:
        """Lists relays by name. It needs any right."""
    def list_schedules(self, *, Prefix: str = ..., MaxResults: int = ..., NextToken: str = ...) -> dict[str, Any]:
        """Lists schedules by name, without their messages. It needs any right."""
    def list_tickets(self, *, PoolName: str, Parts: int = ..., MaxResults: int = ...,
            NextToken: str = ...) -> dict[str, Any]:
        """Lists the tickets that wait, in no order. A matcher begins with it, and goes on with FeedTickets behind
        Sequence. It needs the right read."""
    def list_type_orders(self, *, MaxResults: int = ..., NextToken: str = ...) -> dict[str, Any]:
        """Lists the type orders by name. It needs any right."""
    def list_units(self, *, BatchId: str, State: Literal["outstanding", "succeeded", "failed", "cancelled"] = ...,
            MaxResults: int = ..., NextToken: str = ...) -> dict[str, Any]:
        """Lists the units of a batch in the order in which they were added. A batch with the Tracking xor does not
        know its units. It needs any right."""
    def offer_tickets(self, *, PoolName: str, Tickets: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Offers tickets to a pool. The same TicketId again adds nothing, and says what the ticket is now. A fault
        of one ticket is not the others'. It needs the right write."""
    def open_publisher(self, *, Publisher: str, Epoch: int, Owner: str) -> dict[str, Any]:
        """Makes the caller the owner of a publisher, which stands for one outbox. From then on only this owner may
        publish its rows. Relays do this by themselves. It needs the right write."""
    def pause_group(self, *, QueueUrl: str, MessageGroupId: str) -> dict[str, Any]:
        """Stops the deliveries of a group. It can be paused before it has messages. It needs the right admin."""
    def pause_queue(self, *, QueueUrl: str) -> dict[str, Any]:
        """Stops the deliveries of a queue. Sends, deletes and leases go on. It needs the right admin."""
    def pause_relay(self, *, RelayName: str) -> dict[str, Any]:
        """Pauses a relay. It settles what is in flight and gives its source up. It needs the right admin."""
    def pause_schedule(self, *, Name: str) -> dict[str, Any]:
        """Pauses a schedule: it is not due until it is resumed. It needs the right admin."""
    def propose_matches(self, *, PoolName: str, Proposals: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Proposes matches that a program has found. Each is taken whole or not at all. A match is one record: its
        tickets are retired, and one message stands in the result queue. It needs the right write."""
    def publish(self, *, Publisher: str, Epoch: int, Owner: str, Batch: int, ConfirmedBatch: int,
            Rows: Sequence[Mapping[str, Any]], Order: Literal["group", "strict"] = ...,
            Refused: Literal["park", "block"] = ...) -> dict[str, Any]:
        """Stores rows of an outbox, each once, whatever is lost or repeated. A row that is at fault does not touch
        the others. It needs the right write."""
    def put_back_match(self, *, PoolName: str, MatchId: str) -> dict[str, Any]:
        """Undoes a match whose result message has not been deleted. All its tickets wait again, with the age they
        had. It needs the right write."""
    def put_schedule(self, *, Name: str, Cron: str, QueueUrl: str, MessageBody: str, TimeZone: str = ...,
            MessageGroupId: str = ..., MessageAttributes: Mapping[str, Mapping[str, Any]] = ...,
            CatchUp: Literal["one", "none", "all"] = ...) -> dict[str, Any]:
        """Makes or replaces a schedule, which sends a message at each time that a cron expression names. Each
        firing happens once. A schedule that is paused stays so. It needs the right admin."""
    def put_type_order(self, *, Name: str, Types: Sequence[str], Require: bool = ...,
            RetentionSeconds: int = ...) -> dict[str, Any]:
        """Makes or replaces an order between types of messages. A message with Tally.Type waits for earlier
        messages of its group whose type comes first. It needs the right admin."""
    def release_group(self, *, QueueUrl: str, MessageGroupId: str, Action: Literal["retry", "skip", "cancel-rest"],
            DryRun: bool = ...) -> dict[str, Any]:
        """Lets a held group go on. A group is held when its first message failed, if the queue's
        Tally.OnGroupFailure is hold. It needs the right admin."""
    def release_message(self, *, MessageId: str, QueueUrl: str = ..., FencingToken: int = ...,
            DryRun: bool = ...) -> dict[str, Any]:
        """Takes a message in flight away from whoever has it. It is visible at once, and the attempt counts. It
        needs the right admin."""
    def replace_message(self, *, QueueUrl: str, MessageId: str, MessageBody: str = ...,
            MessageAttributes: Mapping[str, Mapping[str, Any]] = ...) -> dict[str, Any]:
        """Puts a changed copy in the place of a message, in one record. A dead letter goes back to the queue where
        it failed. A message in flight can't be replaced. It needs the right admin."""
    def resolve_doubt(self, *, RelayName: str, Action: Literal["send", "drop"], Id: int = ...,
            Uid: str = ...) -> dict[str, Any]:
        """Decides about a parked row. Name the row by either Id or Uid, as ListDoubts shows it. It needs the right
        admin."""
    def resume_group(self, *, QueueUrl: str, MessageGroupId: str) -> dict[str, Any]:
        """Lets a paused group deliver again. It needs the right admin."""
    def resume_queue(self, *, QueueUrl: str) -> dict[str, Any]:
        """Lets a paused queue deliver again. It needs the right admin."""
    def resume_relay(self, *, RelayName: str) -> dict[str, Any]:
        """Lets a paused relay go on. It needs the right admin."""
    def resume_schedule(self, *, Name: str) -> dict[str, Any]:
        """Lets a paused schedule go on. Nothing is made up for. It needs the right admin."""
    def seal_batch(self, *, BatchId: str) -> dict[str, Any]:
        """Seals a batch: no units join it from outside any more. It completes when the last unit has ended. It
        needs the right write."""
    def start_backup(self) -> dict[str, Any]:
        """Begins a backup of all namespaces at one instant, and answers at once. It needs the right admin."""
    def summarize_failures(self, *, QueueUrl: str) -> dict[str, Any]:
        """Counts the messages of a queue by their newest failure reason, the most frequent first. One call looks at
        10,000 messages. It needs the right read."""
    def update_pool(self, *, PoolName: str, ResultQueueUrl: str = ..., OnExpiryQueueUrl: str = ...,
            Attributes: Mapping[str, Literal["str", "num", "set"]] = ..., Rules: Sequence[Mapping[str, Any]] = ...,
            Size: int = ..., Teams: Sequence[Mapping[str, Any]] = ..., Pick: str = ...,
            Matcher: Literal["built-in", "external", "both"] = ..., WindowMilliseconds: int = ...,
            TicketTtlSeconds: int = ..., ConfirmSeconds: int = ..., Verify: bool = ..., ResultsMax: int = ...,
            RetentionSeconds: int = ...) -> dict[str, Any]:
        """Changes those settings of a pool that the request names. After a change of the rules each waiting ticket
        is looked at again. It needs the right admin."""
    def update_ticket(self, *, PoolName: str, TicketId: str, Version: int = ...,
            Attributes: Mapping[str, Any] = ..., Need: Mapping[str, Mapping[str, Any]] = ...) -> dict[str, Any]:
        """Replaces what a waiting ticket says, asks, or both. Its age stays. Give Attributes, Need, or both. It
        needs the right write."""
    def xor_units(self, *, BatchId: str, Value: str, RequestToken: str, Registered: int = ...,
            Finished: int = ...) -> dict[str, Any]:
        """Counts units of a batch with the Tracking xor. XOR in the random id of each unit when it starts, and
        again when it ends. When all have ended, the value is zero. It needs the right write."""
