"""Requests of every action, drawn at random over few names, so that they meet: what one asks about, another has just
deleted.

    memory = Memory(namespace)
    action, parameters = draw(chance, memory)      # like "Tally.Commit"
    memory.learn(action, parameters, answer)       # what a reply said: handles, ids, tokens
    Tour(call, memory, "name", hook).run(wait)     # each action once, in an order in which each must succeed
"""

import collections
import json
import uuid

PLAIN = ["a", "b", "c", "jobs", "once", "dead", "results", "expired"]
FIFO = ["a.fifo", "b.fifo", "once.fifo", "dead.fifo"]
GROUPS = ["g1", "g2", "g3", "other-group"]
BATCHES = [f"batch-{i}" for i in range(8)]
TYPES = ["post", "comment", "like", "report"]
REMEMBERED = 40


class Memory:
    """What is known of one namespace. Any thread: a deque's appends and a list of it are whole."""

    def __init__(self, namespace):
        self.namespace = namespace
        self.seen = collections.defaultdict(lambda: collections.deque(maxlen=REMEMBERED))
        self.publishers = {}  # uuid: [epoch, owner, batch]

    def note(self, kind, value):
        self.seen[kind].append(value)

    def some(self, chance, kind, default):
        values = list(self.seen[kind])
        return chance.choice(values) if values else default

    def arn(self, queue):
        return f"arn:aws:sqs:us-east-1:{self.namespace}:{queue}"

    def url(self, queue):
        return f"http://127.0.0.1/{self.namespace}/{queue}"

    def learn(self, action, parameters, answer):
        queue = parameters.get("QueueUrl", "").rsplit("/", 1)[-1]
        for message in answer.get("Messages", []) if action == "AmazonSQS.ReceiveMessage" else []:
            self.note("handle", (queue, message["ReceiptHandle"]))
        for entry in [answer, *answer.get("Successful", []), *answer.get("Sends", [])]:
            if "MessageId" in entry:
                self.note("message", (queue, entry["MessageId"]))
        if "TaskHandle" in answer:
            self.note("task", answer["TaskHandle"])
        if "NextToken" in answer:
            self.note("token", answer["NextToken"])
        for result in answer.get("Results", []) if "PoolName" in parameters else []:
            if "MatchId" in result:
                self.note("match", (parameters["PoolName"], result["MatchId"]))
        for ticket in answer.get("Tickets", []) if isinstance(answer.get("Tickets"), list) else []:
            self.note("version", (parameters["PoolName"], ticket["TicketId"], ticket["Version"]))
        if action == "Tally.OpenPublisher" and answer["Accepted"]:
            self.publishers[parameters["Publisher"]] = [answer["Epoch"], answer["Owner"], answer["LastBatch"]]
        for doubt in answer.get("Doubts", []):
            self.note("doubt", (parameters["RelayName"], doubt["Uid"]))


# --- parts ------------------------------------------------------------------------------------------------------------


def text(value):
    return {"DataType": "String", "StringValue": str(value)}


def a_queue(chance):
    return chance.choice(PLAIN if chance.random() < 0.6 else FIFO)


def a_body(chance):
    kind = chance.random()
    return "x" * chance.randrange(20000, 60000) if kind < 0.08 else "body " * chance.randrange(1, 60)


def an_antecedent(chance, memory):
    queue, message = memory.some(chance, "message", ("a", str(uuid.UUID(int=1))))
    return chance.choice([f"message:{message}", f"batch:{chance.choice(BATCHES)}",
                          f"dedup:{queue}/d{chance.randrange(20)}"])


def own_attributes(chance, memory):
    drawn = {}
    if chance.random() < 0.25:
        drawn["Tally.Batch"] = text(chance.choice(BATCHES))
    if chance.random() < 0.2:
        drawn["Tally.After"] = text(", ".join(an_antecedent(chance, memory) for _ in range(chance.randrange(1, 4))))
        drawn["Tally.AfterFailure"] = text(chance.choice(["cancel", "run", "hold"]))
    if chance.random() < 0.15:
        drawn["Tally.Type"] = text(chance.choice(TYPES))
    if chance.random() < 0.15:
        drawn["Tally.Priority"] = {"DataType": "Number", "StringValue": str(chance.randrange(10))}
    if chance.random() < 0.1:
        drawn["Tally.Producer"] = text(f"p{chance.randrange(3)}")
        drawn["Tally.Sequence"] = {"DataType": "Number", "StringValue": str(chance.randrange(1, 1000))}
    if chance.random() < 0.3:
        drawn["color"] = text("red" * chance.randrange(1, 30))
    return drawn


def a_send(chance, memory, queue=None):
    queue = queue or a_queue(chance)
    send = {"MessageBody": a_body(chance)}
    attributes = own_attributes(chance, memory)
    if attributes:
        send["MessageAttributes"] = attributes
    if queue.endswith(".fifo") or chance.random() < 0.4:
        send["MessageGroupId"] = chance.choice(GROUPS)
    if queue.endswith(".fifo"):
        send["MessageDeduplicationId"] = f"d{chance.randrange(20)}" if chance.random() < 0.3 else str(
            uuid.UUID(int=chance.getrandbits(128)))
    elif chance.random() < 0.2:
        send["DelaySeconds"] = chance.randrange(3)
    if chance.random() < 0.1:
        send["MessageSystemAttributes"] = {"AWSTraceHeader": text("Root=1-2-3")}
    return {"QueueUrl": memory.url(queue), **send}


def a_handle(chance, memory):
    queue, handle = memory.some(chance, "handle", ("a", "AQAAAAEAAAAAAAAAAgAAAAAAAACgbcCdNX-PHQ"))
    return {"QueueUrl": memory.url(queue), "ReceiptHandle": handle}


def entries(chance, memory, make):
    queue, _ = memory.some(chance, "handle", (a_queue(chance), ""))
    made = []
    for number in range(chance.randrange(1, 11)):
        entry = make(chance, memory, queue)
        entry.pop("QueueUrl")
        made.append({"Id": str(number), **entry})
    return {"QueueUrl": memory.url(queue), "Entries": made}


def attributes(chance, memory, queue):
    dead = "dead.fifo" if queue.endswith(".fifo") else "dead"
    rows = [("VisibilityTimeout", chance.choice("0012")),
            ("Tally.DeduplicationWindow", chance.choice(["0", "300", "-1"])),
            ("ReceiveMessageWaitTimeSeconds", "0"), ("MessageRetentionPeriod", chance.choice(["60", "3600"])),
            ("RedrivePolicy", json.dumps({"deadLetterTargetArn": memory.arn(dead),
                                          "maxReceiveCount": chance.randrange(1, 4)})),
            ("Tally.Backoff", '{"min": 0, "max": 1}'),
            ("Tally.RateLimit", chance.choice(["", '{"queue": {"rate": 500, "burst": 50}}']))]
    if queue.endswith(".fifo"):
        rows += [("ContentBasedDeduplication", "true"), ("Tally.StrictOrder", chance.choice(["true", "false"])),
                 ("Tally.OnGroupFailure", chance.choice(["skip", "cancel-rest"] if "once" in queue else ["skip", "hold",
                     "cancel-rest"]))]
    else:
        rows += [("Tally.GroupConcurrency", chance.choice("012")), ("DelaySeconds", chance.choice("01")),
                 ("Tally.StaleReceipts", chance.choice(["accept", "refuse"]))]
    drawn = dict(chance.sample(rows, chance.randrange(1, 5)))
    return drawn


def a_target(chance, memory):
    queue = a_queue(chance)
    target = {"QueueUrl": memory.url(queue)}
    if queue.endswith(".fifo"):
        target["MessageGroupId"] = chance.choice(GROUPS)
    if chance.random() < 0.5:
        target["MessageBody"] = "done"
    return target


def a_ticket(chance):
    number = chance.randrange(60)
    ticket = {"TicketId": f"t{number}", "Attributes": {"mmr": chance.randrange(3), "mode": chance.choice(["x", "y"])}}
    if number % 4 == 0:
        ticket["ExclusiveSet"] = f"s{number % 3}"
    if number % 5 == 0:
        ticket["TtlSeconds"] = 1
    if number % 7 == 0:
        ticket["Body"] = "b" * number
    return ticket


def a_pool(chance):
    return chance.choice(["duel", "team", "outside"])


def pool_arguments(chance, memory, pool):
    made = {"PoolName": pool, "ResultQueueUrl": memory.url("results"), "Attributes": {"mmr": "num", "mode": "str"},
            "Matcher": {"duel": "built-in", "team": "both", "outside": "external"}[pool], "RetentionSeconds": 60,
            "Rules": [{"type": "equal", "attr": "mode"}]}
    if pool == "team":
        made |= {"Size": 4, "WindowMilliseconds": 50, "ConfirmSeconds": 1}
    if pool == "outside":
        made |= {"OnExpiryQueueUrl": memory.url("expired"), "Verify": True, "ResultsMax": 200}
    return made


def a_publisher(chance, memory):
    publisher = str(uuid.UUID(int=chance.randrange(1, 4)))
    return publisher, memory.publishers.setdefault(publisher, [1, str(uuid.UUID(int=77)), 0])


def publish(chance, memory):
    publisher, state = a_publisher(chance, memory)
    epoch, owner, batch = state
    if chance.random() < 0.9:
        batch = state[2] = batch + 1
    rows = []
    for number in range(chance.randrange(1, 12)):
        at = max(1, batch) * 100 + number
        row = {"Id": at, "Uid": str(uuid.UUID(int=(at << 64) + int(publisher[-1], 16)))}
        rows.append({**row, "ReceiptHandle": a_handle(chance, memory)["ReceiptHandle"]} if chance.random() < 0.2
                    else {**row, **a_send(chance, memory)})
    return {"Publisher": publisher, "Epoch": epoch, "Owner": owner, "Batch": max(1, batch),
            "ConfirmedBatch": max(0, batch - 1),
            "Order": chance.choice(["group", "strict"]), "Refused": chance.choice(["park", "block"]), "Rows": rows}


def open_publisher(chance, memory):
    publisher, state = a_publisher(chance, memory)
    if chance.random() < 0.2:
        state[0] += 1
    return {"Publisher": publisher, "Epoch": state[0], "Owner": state[1]}


def a_relay(chance, memory):
    kind = chance.randrange(3)
    source = {"Type": "queue", "QueueUrl": memory.url(chance.choice(["a", "b"])), "LeaseSeconds": 2}
    sink = [{"Type": "queue", "QueueUrl": memory.url("jobs")},
            {"Type": "http", "Url": "http://127.0.0.1:9/nobody", "Mode": "at-most-once", "TimeoutSeconds": 1},
            {"Type": "http", "Url": "http://127.0.0.1:9/nobody"}][kind]
    return {"RelayName": f"r{kind}", "Source": source, "Sink": sink}


def page(chance, memory):
    drawn = {"MaxResults": chance.randrange(1, 20)} if chance.random() < 0.5 else {}
    if chance.random() < 0.2:
        drawn["NextToken"] = memory.some(chance, "token", "1")
    return drawn


def receive(chance, memory):
    drawn = {"QueueUrl": memory.url(a_queue(chance)), "MaxNumberOfMessages": chance.randrange(1, 11)}
    if chance.random() < 0.5:
        drawn |= {"AttributeNames": ["All"], "MessageAttributeNames": ["All"]}
    if chance.random() < 0.3:
        drawn["VisibilityTimeout"] = chance.randrange(3)
    if chance.random() < 0.1:
        drawn["WaitTimeSeconds"] = 1
    if chance.random() < 0.2:
        drawn["ReceiveRequestAttemptId"] = f"attempt-{chance.randrange(5)}"
    return drawn


def commit(chance, memory):
    sends = [a_send(chance, memory) for _ in range(chance.randrange(4))]
    deletes = []
    if memory.seen["handle"] and chance.random() < 0.7:
        queue, handle = memory.seen["handle"][-1]
        deletes.append({"QueueUrl": memory.url(queue), "ReceiptHandle": handle})
    units = [{"BatchId": chance.choice(BATCHES), "Unit": str(chance.randrange(4))}] if chance.random() < 0.2 else []
    return {"Sends": sends, "Units": units, "Deletes": deletes}


def batch(chance, memory):
    name = chance.choice(BATCHES)
    made = {"BatchId": name, "RetentionSeconds": chance.choice([0, 5, 3600])}
    for event in "OnComplete", "OnSuccess", "OnFirstFailure":
        if chance.random() < 0.5:
            made[event] = a_target(chance, memory)
    if chance.random() < 0.3:
        made["Total"] = chance.randrange(12)
    if chance.random() < 0.2:
        made["Tracking"] = "xor"
    if chance.random() < 0.3:
        made["Parent"] = chance.choice(BATCHES)
    if chance.random() < 0.3:
        made["ExpiresAfterSeconds"] = chance.choice([1, 60, 86400])
    return made


def create_queue(chance, memory):
    queue = a_queue(chance)
    made = attributes(chance, memory, queue) if chance.random() < 0.7 else {}
    if queue.endswith(".fifo"):
        made["FifoQueue"] = "true"
    if "once" in queue:
        made["Tally.DeliveryMode"] = "at-most-once"
    return {"QueueName": queue, "Attributes": made, **({"tags": {"t": "v"}} if chance.random() < 0.3 else {})}


def proposals(chance, memory):
    pool = chance.choice(["team", "outside"])
    versions = [(ticket, version) for name, ticket, version in list(memory.seen["version"]) if name == pool] or [("t1",
        1), ("t2", 1)]
    made = []
    for _ in range(chance.randrange(1, 6)):
        members = chance.sample(versions, min(len(versions), 2 if pool == "outside" else 4))
        made.append({"ProposalId": f"p{chance.randrange(50)}",
                     "Members": [{"TicketId": name, "Version": version} for name, version in members]})
    return {"PoolName": pool, "Proposals": made}


def a_match(chance, memory):
    pool, match = memory.some(chance, "match", ("team", str(uuid.UUID(int=5))))
    return {"PoolName": pool, "MatchId": match}


def schedule(chance, memory):
    queue = a_queue(chance)
    made = {"Name": f"s{chance.randrange(5)}",
            "Cron": chance.choice(["* * * * *", "*/7 * * * *", "30 2 * * *", "0 0 30 2 *"]),
            "TimeZone": chance.choice(["UTC", "Europe/Berlin"]), "QueueUrl": memory.url(queue), "MessageBody": "tick",
            "CatchUp": chance.choice(["one", "none", "all"])}
    return {**made, "MessageGroupId": "clock"} if queue.endswith(".fifo") else made


def of_queue(make=lambda chance, memory: {}):
    return lambda chance, memory: {"QueueUrl": memory.url(a_queue(chance)), **make(chance, memory)}


def of_group(make=lambda chance, memory: {}):
    return of_queue(lambda chance, memory: {"MessageGroupId": chance.choice(GROUPS), **make(chance, memory)})


def of_batch(make=lambda chance, memory: {}):
    return lambda chance, memory: {"BatchId": chance.choice(BATCHES), **make(chance, memory)}


def of_pool(make=lambda chance, memory: {}):
    return lambda chance, memory: {"PoolName": a_pool(chance), **make(chance, memory)}


def of_name(member, names):
    return lambda chance, memory: {member: chance.choice(names)}


def a_doubt(chance, memory):
    relay, uid = memory.some(chance, "doubt", ("r1", str(uuid.UUID(int=9))))
    return {"RelayName": relay, "Uid": uid, "Action": chance.choice(["send", "drop"])}


def an_explained(chance, memory):
    queue, message = memory.some(chance, "message", ("a", str(uuid.UUID(int=1))))
    return {"QueueUrl": memory.url(queue), "MessageId": message}


def a_search(chance, memory):
    explained = an_explained(chance, memory)
    at = {"QueueUrl": explained["QueueUrl"]}
    return chance.choice([{"MessageId": explained["MessageId"]}, {"OutboxId": str(uuid.UUID(int=5))},
                          {"MessageDeduplicationId": "d", **at}, {"Producer": "p", "Sequence": 1, **at}])


def a_page_of_messages(chance, memory):
    some = {"Body": chance.choice(["none", "preview", "full"])} if chance.random() < 0.7 else {}
    if chance.random() < 0.5:
        some["State"] = chance.choice(["ready", "delayed", "in-flight", "blocked", "held"])
    return {**some, **page(chance, memory)}


def some_messages(chance, memory):
    """Nothing that says which, or one way to say it; sometimes only what it would do."""
    choice = chance.choice([{}, {"Reason": "no"}, {"MessageGroupId": f"g{chance.randrange(3)}"}, {"SentAfter": 1}])
    return {**choice, **({"MaxMessages": 2} if chance.random() < 0.3 else {}), "DryRun": chance.random() < 0.3}


RELAYS, SCHEDULES = ["r0", "r1", "r2"], [f"s{i}" for i in range(5)]
UNITS = of_batch(lambda chance, memory: {"Count": 4} if chance.random() < 0.5
                 else {"Units": [str(chance.randrange(10)) for _ in range(5)]})

# action: (how often, what it asks)
DRAWS = {
    "AmazonSQS.SendMessage": (14, lambda chance, memory: a_send(chance, memory)),
    "AmazonSQS.SendMessageBatch": (8, lambda chance, memory: entries(chance, memory, a_send)),
    "AmazonSQS.ReceiveMessage": (22, receive),
    "AmazonSQS.DeleteMessage": (8, a_handle),
    "AmazonSQS.DeleteMessageBatch": (5, lambda chance, memory: entries(chance, memory, lambda c, m, q: a_handle(c, m))),
    "AmazonSQS.ChangeMessageVisibility": (4,
        lambda chance, memory: {**a_handle(chance, memory), "VisibilityTimeout": chance.randrange(3)}),
    "AmazonSQS.ChangeMessageVisibilityBatch": (3, lambda chance, memory: entries(
        chance, memory, lambda c, m, q: {**a_handle(c, m), "VisibilityTimeout": c.randrange(3)})),
    "AmazonSQS.CreateQueue": (8, create_queue),
    "AmazonSQS.GetQueueUrl": (1, lambda chance, memory: {"QueueName": a_queue(chance)}),
    "AmazonSQS.ListQueues": (1, lambda chance, memory: {"QueueNamePrefix": chance.choice(["", "a", "dead"]),
        **page(chance, memory)}),
    "AmazonSQS.DeleteQueue": (2, of_queue()),
    "AmazonSQS.PurgeQueue": (1, of_queue()),
    "AmazonSQS.GetQueueAttributes": (2, of_queue(lambda chance, memory: {"AttributeNames": ["All"]})),
    "AmazonSQS.SetQueueAttributes": (3, lambda chance, memory: (lambda queue: {
        "QueueUrl": memory.url(queue), "Attributes": attributes(chance, memory, queue)})(a_queue(chance))),
    "AmazonSQS.TagQueue": (1, of_queue(lambda chance, memory: {"Tags": {f"k{chance.randrange(5)}": "v"}})),
    "AmazonSQS.UntagQueue": (1, of_queue(lambda chance, memory: {"TagKeys": [f"k{chance.randrange(5)}"]})),
    "AmazonSQS.ListQueueTags": (1, of_queue()),
    "AmazonSQS.AddPermission": (1, of_queue(lambda chance, memory: {
        "Label": f"l{chance.randrange(4)}", "AWSAccountIds": ["111111111111"], "Actions": ["SendMessage"]})),
    "AmazonSQS.RemovePermission": (1, of_queue(lambda chance, memory: {"Label": f"l{chance.randrange(4)}"})),
    "AmazonSQS.ListDeadLetterSourceQueues": (1, of_queue()),
    "AmazonSQS.StartMessageMoveTask": (2, lambda chance, memory: {
        "SourceArn": memory.arn(chance.choice(["dead", "dead.fifo"])),
        **({"MaxNumberOfMessagesPerSecond": 5} if chance.random() < 0.5 else {}), **some_messages(chance, memory)}),
    "Tally.DeleteMessages": (1, of_queue(lambda chance, memory: {"SentBefore": 9e9, **some_messages(chance, memory)})),
    "AmazonSQS.CancelMessageMoveTask": (1, lambda chance, memory: {"TaskHandle": memory.some(chance, "task", "x")}),
    "AmazonSQS.ListMessageMoveTasks": (1,
        lambda chance, memory: {"SourceArn": memory.arn(chance.choice(["dead", "dead.fifo"])), "MaxResults": 10}),
    "Tally.CreateBatch": (4, batch),
    "Tally.AddUnits": (3, UNITS),
    "Tally.CompleteUnits": (4, of_batch(lambda chance, memory: {"Units": [
        {"Unit": str(chance.randrange(4)), "Status": chance.choice(["succeeded", "failed"]), "Detail": "why" * 9}
        for _ in range(2)]})),
    "Tally.XorUnits": (2, of_batch(lambda chance, memory: {
        "Value": f"{chance.getrandbits(64):016x}", "RequestToken": f"t{chance.randrange(30)}",
        "Registered": chance.randrange(3), "Finished": 0})),
    "Tally.SealBatch": (2, of_batch()),
    "Tally.CancelBatch": (1, of_batch()),
    "Tally.DescribeBatch": (2, of_batch()),
    "Tally.ListBatches": (1, page),
    "Tally.ListUnits": (1, of_batch(page)),
    "Tally.DeleteBatch": (2, of_batch()),
    "Tally.Commit": (5, commit),
    "Tally.OpenPublisher": (1, open_publisher),
    "Tally.Publish": (4, publish),
    "Tally.PutTypeOrder": (1, lambda chance, memory: {"Name": f"o{chance.randrange(3)}",
        "Types": chance.sample(TYPES, 2)}),
    "Tally.ListTypeOrders": (1, page),
    "Tally.DeleteTypeOrder": (1, lambda chance, memory: {"Name": f"o{chance.randrange(3)}"}),
    "Tally.PutSchedule": (2, schedule),
    "Tally.DescribeSchedule": (1, of_name("Name", SCHEDULES)),
    "Tally.ListSchedules": (1, page),
    "Tally.PauseSchedule": (1, of_name("Name", SCHEDULES)),
    "Tally.ResumeSchedule": (1, of_name("Name", SCHEDULES)),
    "Tally.FireSchedule": (1, of_name("Name", SCHEDULES)),
    "Tally.DeleteSchedule": (1, of_name("Name", SCHEDULES)),
    "Tally.CreateRelay": (1, a_relay),
    "Tally.DescribeRelay": (1, of_name("RelayName", RELAYS)),
    "Tally.ListRelays": (1, page),
    "Tally.PauseRelay": (1, of_name("RelayName", RELAYS)),
    "Tally.ResumeRelay": (1, of_name("RelayName", RELAYS)),
    "Tally.DeleteRelay": (1, of_name("RelayName", RELAYS)),
    "Tally.ListDoubts": (1, of_name("RelayName", RELAYS)),
    "Tally.ResolveDoubt": (1, a_doubt),
    "Tally.FailMessage": (6, lambda chance, memory: {
        **a_handle(chance, memory), "Reason": "no " * chance.randrange(100), "Final": chance.random() < 0.3}),
    "Tally.PauseQueue": (1, of_queue()),
    "Tally.ResumeQueue": (3, of_queue()),
    "Tally.PauseGroup": (1, of_group()),
    "Tally.ResumeGroup": (3, of_group()),
    "Tally.ReleaseGroup": (3, of_group(lambda chance, memory: {"Action": chance.choice(["retry", "skip",
        "cancel-rest"])})),
    "Tally.ListGroups": (2, of_queue(lambda chance, memory: {
        **({"State": chance.choice(["held", "paused", "ready", "busy"])} if chance.random() < 0.7 else {}),
        **page(chance, memory)})),
    "Tally.ExplainMessage": (2, an_explained),
    "Tally.ListMessages": (2, of_queue(a_page_of_messages)),
    "Tally.GetSeries": (2, of_queue(lambda chance, memory: {"Period": chance.choice([5, 60]), "Points": 9})),
    "Tally.ListInFlight": (2, lambda chance, memory: {
        **(of_queue()(chance, memory) if chance.random() < 0.5 else {}), **page(chance, memory)}),
    "Tally.ListDependents": (2, lambda chance, memory: {
        **({"MessageId": an_explained(chance, memory)["MessageId"]} if chance.random() < 0.5
           else {"BatchId": chance.choice(BATCHES)}),
        **page(chance, memory)}),
    "Tally.ListQueueStats": (2, page),
    "Tally.GetMessage": (2, lambda chance, memory: {"MessageId": an_explained(chance, memory)["MessageId"]}),
    "Tally.ReleaseMessage": (2, an_explained),
    "Tally.ReplaceMessage": (1, lambda chance, memory: {**an_explained(chance, memory), "MessageBody": "changed"}),
    "Tally.FindMessage": (2, a_search),
    "Tally.SummarizeFailures": (2, of_queue()),
    "Tally.DescribeServer": (1, lambda chance, memory: {}),
    "Tally.StartBackup": (1, lambda chance, memory: {}),
    "Tally.DescribeBackup": (1, lambda chance, memory: {}),
    "Tally.DeleteBackup": (1, lambda chance, memory: {
        "BackupId": chance.choice(["none", "20261130T031000Z-00000000"])}),
    "Tally.FeedEvents": (2, lambda chance, memory: {
        "After": chance.choice([0, 0, 1, 2**53]), "MaxResults": 20, "WaitTimeSeconds": chance.choice([0, 0, 0, 1])}),
    "Tally.CreatePool": (2, lambda chance, memory: pool_arguments(chance, memory, a_pool(chance))),
    "Tally.UpdatePool": (1, of_pool(lambda chance, memory: {"Rules": [
        {"type": "equal", "attr": "mode"},
        {"type": "near", "attr": "mmr", "max": chance.randrange(1, 4), "expand": [{"after": "1s", "max": 9}]}]})),
    "Tally.DescribePool": (1, of_pool()),
    "Tally.ListPools": (1, page),
    "Tally.DeletePool": (1, of_pool()),
    "Tally.OfferTickets": (6, of_pool(lambda chance, memory: {"Tickets": [a_ticket(chance)
        for _ in range(chance.randrange(1, 15))]})),
    "Tally.UpdateTicket": (2, of_pool(lambda chance, memory: {"TicketId": f"t{chance.randrange(60)}",
        "Attributes": {"mmr": 2, "mode": "x"}})),
    "Tally.CancelTickets": (2, of_pool(lambda chance, memory: {"TicketIds": [f"t{chance.randrange(60)}"
        for _ in range(4)]})),
    "Tally.GetTicket": (1, of_pool(lambda chance, memory: {"TicketId": f"t{chance.randrange(60)}"})),
    "Tally.ListTickets": (2, of_pool(page)),
    "Tally.CountTickets": (1, of_pool()),
    "Tally.FeedTickets": (3, of_pool(lambda chance, memory: {
        "From": chance.randrange(30), "MaxResults": 20, "WaitTimeSeconds": chance.choice([0, 0, 0, 1])})),
    "Tally.ProposeMatches": (4, proposals),
    "Tally.PutBackMatch": (1, a_match),
    "Tally.ConfirmMatch": (3, lambda chance, memory: {
        **a_match(chance, memory), "TicketId": f"t{chance.randrange(60)}", "Accept": chance.random() < 0.8}),
    "Tally.ExplainTicket": (1, of_pool(lambda chance, memory: {"TicketId": f"t{chance.randrange(60)}"})),
}

NAMES = list(DRAWS)
WEIGHTS = [weight for weight, _ in DRAWS.values()]


def bulk(chance, memory):
    """A request of what fills segments with messages of which nearly all end soon, and a few stay: the cleaner has to
    move these."""
    at, kept = {"QueueUrl": memory.url("bulk")}, {"QueueUrl": memory.url("kept")}
    queue = chance.choice(["bulk", "kept"])
    if not memory.seen["bulk"] or chance.random() < 0.02:
        memory.note("bulk", True)
        return "AmazonSQS.CreateQueue", {"QueueName": queue, "Attributes": {"MessageRetentionPeriod": "1209600"}}
    kind = chance.randrange(10)
    if kind < 5:
        entries = [{"Id": str(i), "MessageBody": "x" * 50000} for i in range(4)]
        return "AmazonSQS.SendMessageBatch", {**at, "Entries": entries}
    if kind < 6:
        return "AmazonSQS.SendMessage", {**kept, "MessageBody": "kept"}
    return "AmazonSQS.PurgeQueue", at


def draw(chance, memory):
    (action,) = chance.choices(NAMES, WEIGHTS)
    return action, DRAWS[action][1](chance, memory)


# --- a tour -----------------------------------------------------------------------------------------------------------


class Tour:
    """Each action once and with success, under names of its own. call(action, parameters) gives the answer of one that
    must go well; what it raises ends the tour. `hook`: where an HTTP server closes each connection without an
    answer."""

    def __init__(self, call, memory, name, hook):
        self.call, self.memory, self.name, self.hook = call, memory, name, hook

    def queue(self, name, **more):
        queue = f"{self.name}-{name}"
        self.call("AmazonSQS.CreateQueue", {"QueueName": queue, "Attributes": more})
        return {"QueueUrl": self.memory.url(queue)}

    def run(self, wait):
        self.messages()
        self.queues()
        self.groups()
        self.dead_letters()
        self.batches()
        self.orders_and_schedules()
        self.pools()
        self.publishers()
        self.relays(wait)

    def take(self, at, **more):
        return self.call("AmazonSQS.ReceiveMessage", {**at, "MaxNumberOfMessages": 1, **more})["Messages"][0]

    def messages(self):
        at = self.queue("plain")
        entries = [{"Id": str(i), "MessageBody": "b"} for i in range(6)]
        sent = self.call("AmazonSQS.SendMessage", {**at, "MessageBody": "a"})
        self.call("AmazonSQS.SendMessageBatch", {**at, "Entries": entries})
        self.call("Tally.ExplainMessage", {**at, "MessageId": sent["MessageId"]})
        self.call("Tally.GetMessage", {"MessageId": sent["MessageId"]})
        self.call("Tally.GetSeries", {**at, "Period": 5})
        self.call("Tally.FindMessage", {"MessageId": sent["MessageId"]})
        self.call("Tally.SummarizeFailures", at)
        self.call("Tally.ListInFlight", {})
        self.call("Tally.ListDependents", {"MessageId": sent["MessageId"]})
        self.call("Tally.ListQueueStats", {})
        self.call("Tally.FeedEvents", {})
        self.call("Tally.DescribeServer", {})
        begun = self.call("Tally.StartBackup", {})
        self.call("Tally.DescribeBackup", begun)
        self.call("Tally.DeleteBackup", {"BackupId": begun["BackupId"]})
        self.call("Tally.ListMessages", {**at, "Body": "full"})
        self.call("Tally.ReplaceMessage", {**at, "MessageId": sent["MessageId"], "MessageBody": "changed"})
        self.call("Tally.ReleaseMessage", {"MessageId": self.take(at)["MessageId"]})
        self.call("AmazonSQS.DeleteMessage", {**at, "ReceiptHandle": self.take(at)["ReceiptHandle"]})
        held = [{"Id": str(i), "ReceiptHandle": self.take(at)["ReceiptHandle"]} for i in range(2)]
        self.call("AmazonSQS.ChangeMessageVisibilityBatch",
                  {**at, "Entries": [{**entry, "VisibilityTimeout": 9} for entry in held]})
        self.call("AmazonSQS.DeleteMessageBatch", {**at, "Entries": held})
        handle = self.take(at)["ReceiptHandle"]
        self.call("AmazonSQS.ChangeMessageVisibility", {**at, "ReceiptHandle": handle, "VisibilityTimeout": 9})
        self.call("Tally.FailMessage", {**at, "ReceiptHandle": handle, "Reason": "of the tour"})
        self.call("Tally.Commit", {"Sends": [{**at, "MessageBody": "c"}],
                                   "Deletes": [{**at, "ReceiptHandle": self.take(at)["ReceiptHandle"]}]})

    def queues(self):
        at = self.queue("managed")
        name = at["QueueUrl"].rsplit("/", 1)[-1]
        self.call("AmazonSQS.GetQueueUrl", {"QueueName": name})
        self.call("AmazonSQS.ListQueues", {"QueueNamePrefix": name})
        self.call("AmazonSQS.SetQueueAttributes", {**at, "Attributes": {"VisibilityTimeout": "7"}})
        self.call("AmazonSQS.GetQueueAttributes", {**at, "AttributeNames": ["All"]})
        self.call("AmazonSQS.TagQueue", {**at, "Tags": {"a": "b"}})
        self.call("AmazonSQS.ListQueueTags", at)
        self.call("AmazonSQS.UntagQueue", {**at, "TagKeys": ["a"]})
        self.call("AmazonSQS.AddPermission",
                  {**at, "Label": "l", "AWSAccountIds": ["111111111111"], "Actions": ["SendMessage"]})
        self.call("AmazonSQS.RemovePermission", {**at, "Label": "l"})
        self.call("AmazonSQS.PurgeQueue", {**at, "DryRun": True})
        self.call("AmazonSQS.PurgeQueue", at)
        self.call("Tally.PauseQueue", at)
        self.call("Tally.ResumeQueue", at)
        self.call("AmazonSQS.DeleteQueue", at)

    def groups(self):
        at = self.queue("line.fifo", FifoQueue="true", **{"Tally.OnGroupFailure": "hold"})
        for number in range(2):
            self.call("AmazonSQS.SendMessage",
                      {**at, "MessageBody": "m", "MessageGroupId": "g", "MessageDeduplicationId": str(number)})
        self.call("Tally.PauseGroup", {**at, "MessageGroupId": "g"})
        self.call("Tally.ListGroups", at)
        self.call("Tally.ResumeGroup", {**at, "MessageGroupId": "g"})
        self.call("Tally.FailMessage", {**at, "ReceiptHandle": self.take(at)["ReceiptHandle"], "Final": True})
        self.call("Tally.ReleaseGroup", {**at, "MessageGroupId": "g", "Action": "skip"})

    def dead_letters(self):
        """The last dead letter of a deleted queue, out of an at-most-once queue; and two move tasks."""
        dead, once = self.queue("dead"), self.queue("once", **{"Tally.DeliveryMode": "at-most-once"})
        for target in dead, once:
            name = target["QueueUrl"].rsplit("/", 1)[-1]
            policy = json.dumps({"deadLetterTargetArn": self.memory.arn(name), "maxReceiveCount": 1})
            source = self.queue(f"source-of-{name}", RedrivePolicy=policy)
            for _ in range(3):
                self.call("AmazonSQS.SendMessage", {**source, "MessageBody": "m"})
                self.call("Tally.FailMessage", {**source, "ReceiptHandle": self.take(source)["ReceiptHandle"],
                                                "Reason": "broken"})
            if target is once:
                self.call("AmazonSQS.DeleteQueue", source)
        for _ in range(3):
            self.take(once, AttributeNames=["All"], MessageAttributeNames=["All"])
        name = dead["QueueUrl"].rsplit("/", 1)[-1]
        self.call("AmazonSQS.ListDeadLetterSourceQueues", dead)
        task = self.call("AmazonSQS.StartMessageMoveTask",
                         {"SourceArn": self.memory.arn(name), "MaxNumberOfMessagesPerSecond": 1})
        self.call("AmazonSQS.ListMessageMoveTasks", {"SourceArn": self.memory.arn(name)})
        self.call("AmazonSQS.CancelMessageMoveTask", {"TaskHandle": task["TaskHandle"]})
        self.call("AmazonSQS.StartMessageMoveTask",
                  {"SourceArn": self.memory.arn(name), "Reason": "bro", "MaxMessages": 1, "DryRun": True})
        self.call("Tally.DeleteMessages", {**dead, "Reason": "bro", "MaxMessages": 1})

    def batches(self):
        at, name = self.queue("done"), {"BatchId": f"{self.name}-batch"}
        self.call("Tally.CreateBatch", {**name, "OnComplete": at, "OnFirstFailure": at})
        self.call("Tally.AddUnits", {**name, "Units": ["x", "y"]})
        self.call("Tally.CompleteUnits", {**name, "Units": [{"Unit": "x", "Status": "failed", "Detail": "d"}]})
        self.call("Tally.Commit", {"Units": [{**name, "Unit": "y"}]})
        self.call("Tally.SealBatch", name)
        self.call("Tally.DescribeBatch", name)
        self.call("Tally.ListBatches", {"Prefix": self.name})
        self.call("Tally.ListUnits", name)
        self.call("Tally.DeleteBatch", name)
        self.call("AmazonSQS.DeleteMessage", {**at, "ReceiptHandle": self.take(at)["ReceiptHandle"]})
        xor = {"BatchId": f"{self.name}-xor"}
        self.call("Tally.CreateBatch", {**xor, "Tracking": "xor"})
        self.call("Tally.XorUnits", {**xor, "Value": "0123456789abcdef", "RequestToken": "t", "Registered": 1})
        self.call("Tally.CancelBatch", xor)

    def orders_and_schedules(self):
        self.call("Tally.PutTypeOrder", {"Name": self.name, "Types": [f"{self.name}-1", f"{self.name}-2"]})
        self.call("Tally.ListTypeOrders", {})
        self.call("Tally.DeleteTypeOrder", {"Name": self.name})
        at, name = self.queue("ticks"), {"Name": self.name}
        self.call("Tally.PutSchedule", {**name, **at, "Cron": "* * * * *", "MessageBody": "tick"})
        for action in "DescribeSchedule", "PauseSchedule", "FireSchedule", "ResumeSchedule":
            self.call(f"Tally.{action}", name)
        self.call("Tally.ListSchedules", {})
        self.call("Tally.DeleteSchedule", name)

    def pools(self):
        at, pool = self.queue("results"), {"PoolName": f"{self.name}-pool"}
        self.call("Tally.CreatePool", {
            **pool, "ResultQueueUrl": at["QueueUrl"], "Attributes": {"mmr": "num"}, "Matcher": "external",
            "ConfirmSeconds": 60})
        tickets = [{"TicketId": f"t{i}", "Attributes": {"mmr": i}} for i in range(6)]
        self.call("Tally.OfferTickets", {**pool, "Tickets": tickets})
        self.call("Tally.UpdateTicket", {**pool, "TicketId": "t5", "Attributes": {"mmr": 9}})
        for action in "GetTicket", "ExplainTicket":
            self.call(f"Tally.{action}", {**pool, "TicketId": "t5"})
        for action in "DescribePool", "ListTickets", "CountTickets":
            self.call(f"Tally.{action}", pool)
        self.call("Tally.ListPools", {"Prefix": self.name})
        self.call("Tally.FeedTickets", {**pool, "From": 0})
        self.call("Tally.CancelTickets", {**pool, "TicketIds": ["t4"]})
        proposal = {"ProposalId": "p", "Members": [{"TicketId": name, "Version": 1} for name in ("t0", "t1")]}
        (match,) = self.call("Tally.ProposeMatches", {**pool, "Proposals": [proposal]})["Results"]
        for ticket in "t0", "t1":
            self.call("Tally.ConfirmMatch", {**pool, "MatchId": match["MatchId"], "TicketId": ticket})
        self.call("Tally.PutBackMatch", {**pool, "MatchId": match["MatchId"]})
        self.call("Tally.UpdatePool", {**pool, "Rules": [{"type": "near", "attr": "mmr", "max": 1}]})
        self.call("Tally.DeletePool", pool)

    def publishers(self):
        at = self.queue("rows")
        who = {"Publisher": str(uuid.uuid5(uuid.NAMESPACE_DNS, self.name)), "Epoch": 1, "Owner": str(uuid.UUID(int=3))}
        self.call("Tally.OpenPublisher", who)
        row = {"Id": 1, "Uid": str(uuid.UUID(int=4)), **at, "MessageBody": "row"}
        self.call("Tally.Publish", {**who, "Batch": 1, "ConfirmedBatch": 0, "Rows": [row]})

    def relays(self, wait):
        """A call that is never answered is in doubt: it is parked, and dropped."""
        at, relay = self.queue("calls"), {"RelayName": f"{self.name}-relay"}
        self.call("Tally.CreateRelay", {**relay, "Source": {"Type": "queue", **at}, "Sink": {
            "Type": "http", "Url": self.hook, "Mode": "at-most-once", "TimeoutSeconds": 1}})
        self.call("AmazonSQS.SendMessage", {**at, "MessageBody": "call"})
        self.call("Tally.DescribeRelay", relay)
        self.call("Tally.ListRelays", {})
        doubts = wait(lambda: self.call("Tally.ListDoubts", relay)["Doubts"])
        self.call("Tally.ResolveDoubt", {**relay, "Uid": doubts[0]["Uid"], "Action": "drop"})
        for action in "PauseRelay", "ResumeRelay", "DeleteRelay":
            self.call(f"Tally.{action}", relay)
