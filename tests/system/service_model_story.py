"""A story that asks a daemon each of Tally's actions through its service model, with each member of each request.

    story = Story(daemon, folder)
    story.run()
    story.client.sent, story.client.seen     # what was asked, and what was answered

The examples of the model (examples-1.json) are a part of it: story.example("CreateBatch") sends the example's request
and holds the reply against the example's. Ids, handles and times differ from run to run. What an example says in their
place stands for what this run has: the first reply that has the text teaches it."""

import base64
import json
import re
import sqlite3
import time

from conftest import wait_until
from relay import outbox_schema
from service_model import ModelClient, read
from webhook import Receiver

PLACE = "http://localhost:9324"
TEXT = {"DataType": "String", "StringValue": "v"}
ATTRIBUTES = {"a": TEXT, "b": {"DataType": "Binary.gif", "BinaryValue": b"abc"}}
TRACE = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}}

# Of these only the shape is held against the example: they tell of the machine, or of the moment.
MOMENTARY = {"BackupId", "Bytes", "Candidates", "Config", "DeletedPerSecond", "Delivery", "Disk", "FailedPerSecond",
             "FencingToken", "Files", "Folder", "Lag", "Memory", "Next", "NextToken", "Number", "OldestMessageAge",
             "Part", "Position", "Probes", "ReceivedPerSecond", "RecoverySeconds", "Retries", "Seeds", "SentPerSecond",
             "SlowRequests", "Snapshot", "Uid", "Version"}
SERIES = {"Sent", "Received", "Deleted", "Failed", "DeadLettered", "Visible", "InFlight", "OldestAge"}
# What is refused here, row by row, takes its number all the same.
STORES = {"Publish"}
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]+")


def number(value):
    return {"DataType": "Number", "StringValue": str(value)}


def numbered(value):
    return {"Tally.Producer": {**TEXT, "StringValue": "q"}, "Tally.Sequence": number(value)}


def uuid(last):
    return f"00000000-0000-4000-8000-{last:012}"


class Story:
    def __init__(self, daemon, folder):
        self.daemon, self.folder = daemon, folder
        self.client = ModelClient(daemon.endpoint)
        self.tried = set()  # (shape, member) that had values which the model forbids
        self.taken = []  # such values that the daemon took
        self.examples = read("examples-1.json")["examples"]
        self.told = {}  # text of an example: what it is in this run
        self.run_examples = set()

    def call(self, action, **parameters):
        """The reply. Before it, the same request with values that the model forbids, each of which must be refused."""
        plain = json.loads(json.dumps(parameters, default=lambda value: base64.b64encode(value).decode()))
        for at, request in self.client.model.beyond(action, plain, self.tried) if action not in STORES else []:
            status, answer = self.daemon.call(f"Tally.{action}", request)
            is_invalid = [result.get("Status") for result in answer.get("Results", [])] == ["invalid"]
            if status != 400 and not is_invalid:
                self.taken.append((action, *at, str(request)[:200], status))
        return self.client.call(action, **parameters)

    # --- SQS ----------------------------------------------------------------------------------------------------------

    def sqs(self, action, **parameters):
        status, answer = self.daemon.call(f"AmazonSQS.{action}", parameters)
        assert status == 200, f"{action}: {answer}"
        return answer

    def queue(self, name, **attributes):
        self.sqs("CreateQueue", QueueName=name, Attributes={key.replace("_", "."): value
                                                           for key, value in attributes.items()})
        return name

    def arn(self, name):
        return f"arn:aws:sqs:us-east-1:000000000000:{name}"

    def redrive(self, name, count):
        return json.dumps({"deadLetterTargetArn": self.arn(name), "maxReceiveCount": count})

    def send(self, queue, body="m", **more):
        own = {key.replace("_", "."): value if isinstance(value, dict) else {**TEXT, "StringValue": value}
               for key, value in more.items() if key.startswith("Tally_")}
        rest = {key: value for key, value in more.items() if not key.startswith("Tally_")}
        return self.sqs("SendMessage", QueueUrl=queue, MessageBody=body, **({"MessageAttributes": own} if own else {}),
                        **rest)["MessageId"]

    def take(self, queue, **more):
        (message,) = self.sqs("ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=1, **more)["Messages"]
        return message["ReceiptHandle"]

    # --- examples -----------------------------------------------------------------------------------------------------

    def example(self, action, **actual):
        """Runs the example of an action. `actual`: what a member of its request is in this run."""
        (example,) = self.examples[action]
        for member, value in actual.items():
            for said in values_of(example["input"], member):
                self.told[said] = value
        reply = self.call(action, **self.now(example["input"]))
        self.compare(action, example["output"], reply)
        self.run_examples.add(action)
        return reply

    def now(self, value):
        """The same with what it is in this run."""
        if isinstance(value, dict):
            return {key: self.now(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.now(item) for item in value]
        value = self.told.get(value, value)
        return value.replace(PLACE, self.daemon.endpoint) if isinstance(value, str) else value

    def compare(self, action, said, actual):
        shape = self.client.model.side(action, "output")
        if shape is None:
            assert said == {} == actual, action
        else:
            self.compare_value(shape, action, said, actual)

    def compare_value(self, name, path, said, actual):
        shape = self.client.model.shapes[name]
        if shape["type"] == "structure" and not shape.get("document"):
            assert said.keys() == actual.keys(), f"{path}: {said.keys() ^ actual.keys()}"
            for member, ref in shape["members"].items():
                is_momentary = member in MOMENTARY or (path == "GetSeries" and member in SERIES)
                if member in said and not is_momentary:
                    self.compare_value(ref["shape"], f"{path}.{member}", said[member], actual[member])
        elif shape["type"] == "list":
            assert len(said) == len(actual), path
            for index, pair in enumerate(zip(said, actual)):
                self.compare_value(shape["member"]["shape"], f"{path}[{index}]", *pair)
        elif isinstance(said, str) and name in {"Md5", "String"}:
            assert digits_away(said) == digits_away(actual), path
        elif isinstance(said, str) and ID.fullmatch(said):
            assert self.told.setdefault(said, actual) == actual, path
        elif shape["type"] != "timestamp":
            assert self.now(said) == actual, path

    # --- the story ----------------------------------------------------------------------------------------------------

    def run(self):
        for part in [self.batches, self.units, self.messages, self.other_messages, self.searches, self.old_handles,
                     self.crowds, self.groups, self.tasks, self.commits, self.orders, self.schedules, self.publishers,
                     self.hooks, self.relays, self.pools, self.matches, self.rules, self.server, self.backups]:
            part()

    def batches(self):
        self.queue("done")
        self.example("CreateBatch")
        self.example("AddUnits")
        self.example("CompleteUnits")
        self.example("ListUnits")
        self.example("DescribeBatch")
        self.example("ListBatches")
        self.call("CreateBatch", BatchId="import-43")
        self.call("AddUnits", BatchId="import-43", Count=2)
        self.example("SealBatch")
        assert self.call("CancelBatch", BatchId="import-43", DryRun=True)["Units"] == 2
        self.example("CancelBatch")
        self.example("DeleteBatch")
        self.call("CreateBatch", BatchId="crawl", Tracking="xor")
        self.example("XorUnits")
        self.call("XorUnits", BatchId="crawl", Value="8f14e45fceea167a", RequestToken="end-1", Registered=0, Finished=1)

    def units(self):
        self.call("CreateBatch", BatchId="parent", OnComplete={"QueueUrl": "done"})
        self.call("CreateBatch", BatchId="child", Parent="parent", Tracking="exact", Total=3, ExpiresAfterSeconds=5000,
                  RetentionSeconds=1000, OnSuccess={"QueueUrl": "done"}, OnFirstFailure={"QueueUrl": "done"},
                  OnComplete={"QueueUrl": "done", "MessageBody": "b", "MessageGroupId": "g",
                              "MessageAttributes": ATTRIBUTES})
        self.send("done", Tally_Batch="child")
        self.call("AddUnits", BatchId="child", Units=["u", "v"])
        self.call("DescribeBatch", BatchId="child")
        self.call("CompleteUnits", BatchId="child", Units=[{"Unit": "u", "Status": "failed", "Detail": "d"}])
        units = self.call("ListUnits", BatchId="child")["Units"]
        (unit,) = [unit["MessageId"] for unit in units if "MessageId" in unit]
        self.call("GetMessage", MessageId=unit)
        self.call("FindMessage", MessageId=unit)
        page = self.call("ListUnits", BatchId="child", MaxResults=1)
        rest = self.call("ListUnits", BatchId="child", MaxResults=2, NextToken=page["NextToken"])
        assert len(page["Units"] + rest["Units"]) == 3 and "NextToken" not in rest
        self.call("ListUnits", BatchId="parent")
        self.call("CancelBatch", BatchId="child")
        self.call("ListBatches")
        page = self.call("ListBatches", MaxResults=1)
        self.call("ListBatches", MaxResults=1, NextToken=page["NextToken"])
        self.call("SealBatch", BatchId="parent")
        self.call("CreateBatch", BatchId="small", OnComplete={"QueueUrl": "done"}, Total=1)
        self.call("AddUnits", BatchId="small", Count=1)
        assert self.call("CompleteUnits", BatchId="small", Units=[{"Unit": "0"}])["Completed"]
        assert self.call("DescribeBatch", BatchId="small")["Status"] == "succeeded"

    def messages(self):
        self.queue("dead")
        self.queue("orders", VisibilityTimeout="60", RedrivePolicy=self.redrive("dead", 3))
        self.queue("invoices")
        first = self.send("orders", "order 17")
        self.example("ReplaceMessage", MessageId=first)
        self.example("FindMessage")
        handle = self.take("orders")
        self.example("ListInFlight")
        (flying,) = self.call("ListInFlight", QueueUrl="orders")["Messages"]
        self.example("ReleaseMessage", MessageId=flying["MessageId"])
        self.send("invoices", "later", Tally_After=f"message:{flying['MessageId']}")
        self.example("ListDependents", MessageId=flying["MessageId"])
        handle = self.take("orders")
        self.example("FailMessage", ReceiptHandle=handle)
        self.example("GetMessage", MessageId=flying["MessageId"])
        self.example("ExplainMessage", MessageId=flying["MessageId"])
        self.example("SummarizeFailures")
        self.example("ListMessages")
        self.example("DeleteMessages")
        self.example("ListQueueStats")
        self.example("GetSeries")
        self.call("GetSeries", Period=5)
        self.send("orders", "order 18")
        self.example("Commit", ReceiptHandle=self.take("orders"))
        self.example("PauseQueue")
        self.call("ListQueueStats", Having="pause")
        self.example("FeedEvents")
        self.example("ResumeQueue")

    def other_messages(self):
        at = self.queue("whole", RedrivePolicy=self.redrive("dead", 1))
        sent = self.send(at, "body", MessageDeduplicationId="d", MessageGroupId="g", MessageSystemAttributes=TRACE,
                         Tally_OutboxId="o")
        self.call("ReplaceMessage", QueueUrl=at, MessageId=sent, MessageBody="changed", MessageAttributes={"b": TEXT})
        (message,) = self.call("ListMessages", QueueUrl=at, State="ready", MessageGroupId="g", OlderThan=0,
                               Body="full")["Messages"]
        page = self.call("ListMessages", QueueUrl="done", MaxResults=1)
        self.call("ListMessages", QueueUrl="done", MaxResults=1, NextToken=page["NextToken"])
        assert self.call("ListMessages", QueueUrl="done", BatchId="child")["Messages"]
        self.take(at)
        headers = {"X-Amz-Target": "AmazonSQS.ReceiveMessage", "X-Tally-Worker": "mail-1"}
        assert self.daemon.request("POST", "/", json.dumps({"QueueUrl": "invoices"}), headers)[0] == 200
        self.call("ListMessages", QueueUrl=at)
        self.call("FindMessage", MessageId=message["MessageId"])
        page = self.call("ListInFlight", MaxResults=1)
        self.call("ListInFlight", MaxResults=1, NextToken=page["NextToken"])
        assert self.call("ListInFlight", AccessKeyId="none", Worker="none")["Messages"] == []
        self.call("GetMessage", MessageId=message["MessageId"])
        assert "Units" in self.call("ReleaseMessage", QueueUrl=at, MessageId=message["MessageId"], DryRun=True)
        (flying,) = self.call("ListInFlight", QueueUrl=at)["Messages"]
        self.call("ReleaseMessage", MessageId=message["MessageId"], FencingToken=flying["FencingToken"])
        self.sqs("ReceiveMessage", QueueUrl=at)
        self.call("ListMessages", QueueUrl="dead")
        self.call("GetMessage", MessageId=message["MessageId"])
        self.call("ExplainMessage", QueueUrl=at, MessageId=message["MessageId"])
        waits = [self.send("invoices", "w", Tally_After="batch:parent") for _ in range(2)]
        page = self.call("ListDependents", BatchId="parent", MaxResults=1)
        self.call("ListDependents", BatchId="parent", MaxResults=1, NextToken=page["NextToken"])
        self.call("ExplainMessage", MessageId=waits[0])
        self.call("ListQueueStats", SortBy="oldest", Having="dead-letters")
        page = self.call("ListQueueStats", MaxResults=1)
        self.call("ListQueueStats", MaxResults=1, NextToken=page["NextToken"])

    def searches(self):
        at = self.queue("many")
        line = self.queue("numbered.fifo", FifoQueue="true")
        for start in range(0, 110, 10):
            self.sqs("SendMessageBatch", QueueUrl=at, Entries=[
                {"Id": str(start + entry), "MessageBody": "the same"} for entry in range(10)])
        found = self.call("FindMessage", Text="same", QueueUrl=at)
        assert len(self.call("FindMessage", Text="same", QueueUrl=at, NextToken=found["NextToken"])["Messages"]) == 10
        self.send(line, "n", MessageGroupId="g", MessageDeduplicationId="d", Tally_Producer="p",
                  Tally_Sequence=number(5))
        self.call("FindMessage", MessageDeduplicationId="d", MessageGroupId="g", QueueUrl=line, Body="full")
        (message,) = self.call("FindMessage", Producer="p", Sequence=5, QueueUrl=line, Body="none")["Messages"]
        self.call("FindMessage", MessageId=message["MessageId"], Body="preview")
        assert self.call("FindMessage", OutboxId="o", Body="full")["Messages"]

    def old_handles(self):
        """A delete that comes too late; and a message that waits for one that fails, for a reason that is long."""
        at = self.queue("slow", VisibilityTimeout="1", Tally_GroupConcurrency="1")
        first, second = (self.send(at, "s", MessageGroupId="g") for _ in range(2))
        held = self.send("invoices", Tally_After=f"message:{second}", Tally_AfterFailure="hold")
        handle = self.take(at)
        self.call("ExplainMessage", MessageId=second)
        time.sleep(1.1)
        self.sqs("DeleteMessage", QueueUrl=at, ReceiptHandle=handle)
        self.call("ExplainMessage", MessageId=first)
        handle = self.take(at)
        self.call("ExplainMessage", QueueUrl=at, MessageId=second)
        self.call("FailMessage", QueueUrl=at, ReceiptHandle=handle, Reason="x" * 300)
        self.call("SummarizeFailures", QueueUrl=at)
        self.call("FindMessage", MessageId=second)
        self.call("FailMessage", QueueUrl=at, ReceiptHandle=self.take(at), Final=True)
        self.call("ExplainMessage", MessageId=held)
        self.call("GetMessage", MessageId=second)

    def crowds(self):
        """The oldest messages of a queue can't be delivered, because their group has as many in flight as it may."""
        at = self.queue("crowd", Tally_GroupConcurrency="1")
        for _ in range(11):
            self.sqs("SendMessageBatch", QueueUrl=at, Entries=[
                {"Id": str(entry), "MessageBody": "m", "MessageGroupId": "g"} for entry in range(10)])
        self.send(at, MessageGroupId="h")
        self.take(at)
        self.call("ListQueueStats", QueueNamePrefix="crowd")

    def groups(self):
        self.queue("dead.fifo", FifoQueue="true")
        line = self.queue("posts.fifo", FifoQueue="true", Tally_OnGroupFailure="hold", ContentBasedDeduplication="true",
                          RedrivePolicy=self.redrive("dead.fifo", 2))
        ids = [self.send(line, body, MessageGroupId="post-7") for body in ["first", "second"]]
        self.example("PauseGroup")
        self.call("ListGroups", QueueUrl=line, State="paused")
        self.example("ResumeGroup")
        handle = self.take(line)
        self.call("ListGroups", QueueUrl=line, MessageGroupId="post-7")
        self.call("ExplainMessage", MessageId=ids[1])
        failed = self.call("FailMessage", QueueUrl=line, ReceiptHandle=handle, Final=True, Reason="broken")
        assert failed["Outcome"] == "held"
        self.call("ExplainMessage", MessageId=ids[0])
        self.example("ListGroups")
        self.call("ReleaseGroup", QueueUrl=line, MessageGroupId="post-7", Action="skip", DryRun=True)
        self.example("ReleaseGroup")
        self.send(line, "third", MessageGroupId="post-8")
        page = self.call("ListGroups", QueueUrl=line, MaxResults=1)
        self.call("ListGroups", QueueUrl=line, MaxResults=1, NextToken=page["NextToken"])
        self.call("PauseGroup", QueueUrl=line, MessageGroupId="post-8")
        self.call("ReplaceMessage", QueueUrl=line, MessageId=ids[0], MessageBody="mended")
        backoff = {"min": 1, "max": 9, "factor": 2, "jitter": 0.1}
        at = self.queue("attempts")
        self.queue("given-up")
        for number_of_attempts in (2, 1):
            self.send(at)
            done = self.call("FailMessage", QueueUrl=at, ReceiptHandle=self.take(at), Final=False, Backoff=backoff,
                             MaxAttempts=number_of_attempts, DeadLetterQueueUrl="given-up")
        assert done == {"Outcome": "dead-lettered", "Attempt": 1, "MaxAttempts": 1, "QueueName": "given-up"}

    def tasks(self):
        at = self.queue("some")
        ids = [self.send(at, MessageGroupId="g") for _ in range(3)]
        self.take(at)
        assert self.call("DeleteMessages", QueueUrl=at, MessageIds=ids, DryRun=True)["Refused"] == 1
        self.call("DeleteMessages", QueueUrl=at, Reason="none", MessageGroupId="g", SentBefore=4102444800, SentAfter=1,
                  MaxMessages=2, MaxNumberOfMessagesPerSecond=500, DryRun=False)

    def commits(self):
        at, to = self.queue("steps"), self.queue("steps.fifo", FifoQueue="true")
        self.call("CreateBatch", BatchId="outer")
        self.send(at)
        self.send(at)
        deleted, held = self.take(at), self.take(at)
        target = {"QueueUrl": "done", "MessageBody": "b", "MessageGroupId": "g", "MessageAttributes": ATTRIBUTES}
        reply = self.call("Commit", CreateBatches=[
            {"BatchId": "inner", "Parent": "outer", "Tracking": "exact", "Total": 9, "OnComplete": target,
             "OnSuccess": target, "OnFirstFailure": target, "ExpiresAfterSeconds": 60, "RetentionSeconds": 60}],
            AddUnits=[{"BatchId": "inner", "Units": ["u"]}, {"BatchId": "outer", "Count": 2}],
            Sends=[{"QueueUrl": at, "MessageBody": "b", "DelaySeconds": 1, "MessageSystemAttributes": TRACE,
                    "MessageAttributes": {**ATTRIBUTES, "Tally.Batch": {**TEXT, "StringValue": "inner"}}},
                   {"QueueUrl": to, "MessageBody": "b", "MessageGroupId": "g", "MessageDeduplicationId": "d",
                    "Uid": uuid(1)},
                   {"QueueUrl": to, "MessageBody": "b", "MessageGroupId": "g", "MessageAttributes": numbered(7)}],
            Deletes=[{"QueueUrl": at, "ReceiptHandle": deleted}], Holds=[{"QueueUrl": at, "ReceiptHandle": held}])
        assert [len(reply[part]) for part in ["CreateBatches", "AddUnits", "Sends"]] == [1, 2, 3]
        self.call("Commit", Units=[{"BatchId": "outer", "Unit": "0", "Status": "failed", "Detail": "d"}])
        again = {"QueueUrl": to, "MessageBody": "b", "MessageGroupId": "g", "MessageAttributes": numbered(6)}
        (sent,) = self.call("Commit", Sends=[again])["Sends"]
        assert sent["Duplicate"] and sent["PassedOver"] and sent["LastSequence"] == "7"

    def orders(self):
        self.example("PutTypeOrder")
        self.example("ListTypeOrders")
        self.call("PutTypeOrder", Name="strict", Types=["a", "b"], Require=True, RetentionSeconds=1000)
        page = self.call("ListTypeOrders", MaxResults=1)
        self.call("ListTypeOrders", MaxResults=1, NextToken=page["NextToken"])
        self.call("ExplainMessage", MessageId=self.send("invoices", "t", MessageGroupId="x", Tally_Type="b"))
        self.example("DeleteTypeOrder")

    def schedules(self):
        self.example("PutSchedule")
        self.example("DescribeSchedule")
        self.example("ListSchedules")
        self.example("PauseSchedule")
        self.example("ResumeSchedule")
        self.example("FireSchedule")
        self.call("PutSchedule", Name="other", Cron="@daily", QueueUrl="invoices", MessageBody="m", MessageGroupId="g",
                  MessageAttributes=ATTRIBUTES, CatchUp="all")
        self.call("DescribeSchedule", Name="other")
        page = self.call("ListSchedules", MaxResults=1)
        self.call("ListSchedules", MaxResults=1, NextToken=page["NextToken"])
        self.example("DeleteSchedule")

    def publishers(self):
        self.example("OpenPublisher")
        self.example("Publish")
        claim = {key: self.examples["Publish"][0]["input"][key] for key in ["Publisher", "Epoch", "Owner"]}
        assert self.call("OpenPublisher", **claim)["Unconfirmed"]
        self.send("many")
        rows = [{"Id": 3, "Uid": uuid(3), "QueueUrl": "invoices", "MessageBody": "r", "DelaySeconds": 0,
                 "MessageGroupId": "g", "MessageDeduplicationId": "e", "MessageAttributes": ATTRIBUTES,
                 "MessageSystemAttributes": TRACE},
                {"Id": 4, "Uid": uuid(4), "ReceiptHandle": self.take("many")}]
        self.call("Publish", **claim, Batch=2, ConfirmedBatch=1, Order="strict", Refused="block", Rows=rows)
        assert self.call("FindMessage", OutboxId=uuid(4))["IsPublished"]

    def hooks(self):
        """A relay whose receiver refuses two rows."""
        receiver = Receiver().start()
        receiver.answer = lambda hit: 400
        path = self.folder / "outbox.db"
        with sqlite3.connect(path) as db:
            db.executescript(outbox_schema("sqlite"))
            for body in ("a", "b"):
                db.execute("INSERT INTO tally_outbox (queue, body, group_id) VALUES ('invoices', ?, 'g')", [body])
        db.close()
        self.call("CreateRelay", RelayName="outbox", Order="group",
                  Source={"Type": "sqlite", "Connection": str(path), "Table": "tally", "LeaseSeconds": 1},
                  Sink={"Type": "http", "Url": receiver.url, "Secret": "whsec_" + "A" * 32, "Mode": "at-least-once",
                        "TimeoutSeconds": 5, "Refused": "park"})
        self.client.boto.get_waiter("relay_active").wait(RelayName="outbox", WaiterConfig={"Delay": 0.1})
        wait_until(lambda: len(self.call("ListDoubts", RelayName="outbox")["Doubts"]) == 2, what="two parked rows")
        pages = self.client.boto.get_paginator("list_doubts").paginate(
            RelayName="outbox", PaginationConfig={"PageSize": 1})
        assert len(pages.build_full_result()["Doubts"]) == 2
        page = self.call("ListDoubts", RelayName="outbox", MaxResults=1)
        (doubt,) = self.call("ListDoubts", RelayName="outbox", MaxResults=1, NextToken=page["NextToken"])["Doubts"]
        self.call("ResolveDoubt", RelayName="outbox", Uid=doubt["Uid"], Action="drop")
        wait_until(lambda: len(self.call("ListDoubts", RelayName="outbox")["Doubts"]) == 1, what="one parked row")
        wait_until(lambda: "Warning" in self.call("DescribeRelay", RelayName="outbox"), what="the word about its mode")
        self.call("ListRelays")
        self.example("ListDoubts")
        self.example("ResolveDoubt")
        self.call("DescribeRelay", RelayName="outbox")
        self.call("DeleteRelay", RelayName="outbox")
        receiver.stop()

    def relays(self):
        self.queue("shipments")
        self.example("CreateRelay")
        self.example("PauseRelay")
        wait_until(lambda: self.call("DescribeRelay", RelayName="hook")["State"] == "paused", what="the pause")
        self.example("DescribeRelay")
        self.example("ListRelays")
        self.example("ResumeRelay")
        keys = {"AccessKeyId": "a", "SecretAccessKey": "s", "SessionToken": "t"}
        afar = {"Type": "sqs", "QueueUrl": "http://127.0.0.1:9/1/q", "Region": "r", "Credentials": keys}
        self.call("CreateRelay", RelayName="postgres", Sink={**afar, "Doubts": "park", "Refused": "block"}, Source={
            "Type": "postgres", "Connection": "host=/nowhere password=p", "Table": "t", "Pooler": "session",
            "PublishAfterReplicas": 1, "LeaseSeconds": 1.5})
        self.call("CreateRelay", RelayName="move", Source=afar, Sink={"Type": "queue", "QueueUrl": "many"})
        self.call("PauseRelay", RelayName="move")
        wait_until(lambda: "LastError" in self.call("DescribeRelay", RelayName="postgres"), what="an error")
        assert self.call("DescribeRelay", RelayName="postgres")["Source"]["LeaseSeconds"] == 1.5
        page = self.call("ListRelays", MaxResults=1)
        self.call("ListRelays", MaxResults=2, NextToken=page["NextToken"])
        self.example("DeleteRelay")
        for name in "postgres", "move":
            self.call("DeleteRelay", RelayName=name)

    def pools(self):
        self.queue("results")
        self.queue("expired")
        self.example("CreatePool")
        self.example("OfferTickets")
        self.example("GetTicket")
        self.example("UpdateTicket")
        self.example("ListTickets")
        page = self.call("ListTickets", PoolName="duel", MaxResults=1, Parts=2)
        self.call("ListTickets", PoolName="duel", MaxResults=1, Parts=2, NextToken=page["NextToken"])
        self.example("CountTickets")
        self.example("ExplainTicket")
        self.example("CancelTickets")
        self.example("DescribePool")
        self.example("ListPools")
        self.example("UpdatePool")
        ticket = {"TicketId": "dora", "Attributes": {"mode": "go", "mmr": 900.5}, "Weight": 1, "Priority": 9,
                  "TtlSeconds": 60, "ExclusiveSet": "dora", "Body": "b",
                  "Need": {"mode": {"in": ["go"], "not": ["chess"]}, "mmr": {"eq": 900, "min": 1, "max": 1000}}}
        self.call("OfferTickets", PoolName="duel", Tickets=[ticket, {**ticket, "Body": "c"}])
        self.call("GetTicket", PoolName="duel", TicketId="dora")
        self.call("ExplainTicket", PoolName="duel", TicketId="dora")
        self.call("ListTickets", PoolName="duel")
        self.call("UpdateTicket", PoolName="duel", TicketId="dora", Need={"mode": {"eq": "go"}})

        self.lacking()

    def lacking(self):
        """Tickets without an attribute that a rule asks for."""
        rules = [{"type": "equal", "attr": "zone"}, {"type": "expr", "expr": "a.room >= b.size"}]
        self.call("CreatePool", PoolName="vans", ResultQueueUrl="results", Matcher="external", Rules=rules,
                  Attributes={"zone": "str", "room": "num", "size": "num"})
        self.call("OfferTickets", PoolName="vans", Tickets=[
            {"TicketId": "order", "Attributes": {"zone": "a", "size": 1}},
            {"TicketId": "van", "Attributes": {"zone": "a", "room": 1}}, {"TicketId": "nowhere"}])
        (bound, _) = self.call("ExplainTicket", PoolName="vans", TicketId="nowhere")["Rules"]
        assert bound["Lacks"] == ["zone"]
        nowhere, van = self.call("ExplainTicket", PoolName="vans", TicketId="order")["Rejects"]
        assert nowhere["CandidatesLack"] == ["zone"] and (van["Errors"], van["Lacks"]) == (1, ["room"])

    def matches(self):
        self.call("CreatePool", PoolName="teams", ResultQueueUrl="results", Matcher="external",
                  Attributes={"role": "str"}, Teams=[{"name": "red", "size": 1}, {"name": "blue", "size": 1}],
                  ConfirmSeconds=600, Verify=True)
        self.call("OfferTickets", PoolName="teams", Tickets=[{"TicketId": f"red-{i}"} for i in (1, 2, 3)])
        self.example("FeedTickets")
        made = self.example("ProposeMatches")["Results"][0]["MatchId"]
        self.call("GetTicket", PoolName="teams", TicketId="red-1")
        self.call("ExplainTicket", PoolName="teams", TicketId="red-1")
        self.call("FeedTickets", PoolName="teams", From=0)
        self.example("ConfirmMatch", MatchId=made)
        self.example("PutBackMatch", MatchId=made)
        tickets = [{"TicketId": f"red-{i}", "Version": 2} for i in (1, 2)]
        proposals = [{"ProposalId": "p-2", "Members": tickets, "Score": 1.5, "RulesVersion": 1, "Body": "b"},
                     {"ProposalId": "p-3", "Members": [tickets[0], {"TicketId": "red-3", "Version": 1}]},
                     {"ProposalId": "p-4", "Members": [{"TicketId": "red-3", "Version": 9}] * 2}]
        taken, conflict, _ = self.call("ProposeMatches", PoolName="teams", Proposals=proposals)["Results"]
        assert (taken["Status"], conflict["Status"]) == ("matched", "conflict")
        assert self.call("ConfirmMatch", PoolName="teams", MatchId=taken["MatchId"], TicketId="red-1",
                         Accept=False)["Status"] == "refused"
        self.call("CancelTickets", PoolName="teams", TicketIds=["red-1", "red-2"])
        self.call("DescribePool", PoolName="teams")

    def rules(self):
        """A pool with a rule of each type, and what its feed tells."""
        rules = [{"type": "pairs", "attr": "role", "allow": [["a", "b"]], "missing": "any", "scope": "pair"},
                 {"type": "share", "attr": "maps", "min": 1, "expand": [{"after": "5ms", "min": 0}]},
                 {"type": "near", "attr": "mmr", "max": 9, "agree": "either",
                  "expand": [{"after": "1ms", "max": 99}, {"after": "9h", "off": True}]},
                 {"type": "expr", "expr": "a.mmr + b.mmr < 1e9"}]
        names = {"role": "str", "maps": "set", "mmr": "num"}
        self.call("CreatePool", PoolName="all", ResultQueueUrl="results", OnExpiryQueueUrl="expired", Attributes=names,
                  Rules=rules, Size=2, Pick="oldest", Matcher="both", WindowMilliseconds=0, TicketTtlSeconds=600,
                  ConfirmSeconds=0, Verify=False, ResultsMax=99, RetentionSeconds=60)
        self.call("DescribePool", PoolName="all")
        tickets = [{"TicketId": f"t{i}", "Attributes": {"role": role, "maps": ["x"], "mmr": 500 * i},
                    "ExclusiveSet": f"set-{i}", "Need": {"maps": {"any": ["x"], "all": ["x"]}}, "TtlSeconds": 500}
                   for i, role in enumerate("aab")]
        self.call("OfferTickets", PoolName="all", Tickets=tickets)
        self.call("UpdatePool", PoolName="all", ResultQueueUrl="results", OnExpiryQueueUrl="", Rules=rules[2:3], Size=3,
                  Attributes={"more": "num"}, Pick="first", Matcher="external", WindowMilliseconds=1,
                  TicketTtlSeconds=60, ConfirmSeconds=1, Verify=False, ResultsMax=9, RetentionSeconds=61)
        self.call("FeedTickets", PoolName="all", From=0)
        members = [{"TicketId": f"t{i}", "Version": 1} for i in range(3)]
        proposal = {"ProposalId": "p", "Members": members, "RulesVersion": 1}
        (stale,) = self.call("ProposeMatches", PoolName="all", Proposals=[proposal])["Results"]
        assert (stale["Status"], stale["RulesVersion"]) == ("stale", 2)
        self.call("UpdatePool", PoolName="all", Teams=[{"name": "red", "size": 1}, {"name": "blue", "size": 2}])
        self.call("CancelTickets", PoolName="all", TicketIds=["t0"])
        self.call("FeedTickets", PoolName="all", From=0, MaxResults=9, WaitTimeSeconds=1, Part=1, Parts=3)
        told = self.call("FeedTickets", PoolName="all", From=0)
        kinds = {event["Type"] for event in told["Events"]}
        assert kinds == {"offer", "retire", "widen", "rules"}, kinds
        assert self.call("FeedTickets", PoolName="all", From=2**40)["Resync"]
        self.call("CreatePool", PoolName="plain", ResultQueueUrl="results", Rules=[])
        self.call("DescribePool", PoolName="plain")
        self.call("UpdatePool", PoolName="plain", Size=2)
        offered = self.call("OfferTickets", PoolName="plain", Tickets=[{"TicketId": "a"}, {"TicketId": "b"}])["Results"]
        assert offered[0]["Status"] == "matched"
        self.call("CancelTickets", PoolName="plain", TicketIds=["a"])
        self.call("UpdateTicket", PoolName="plain", TicketId="a", Attributes={})
        page = self.call("ListPools", MaxResults=1)
        self.call("ListPools", MaxResults=1, NextToken=page["NextToken"])
        self.example("DeletePool")

    def server(self):
        self.example("DescribeServer")
        assert self.call("FeedEvents", After=2**52, MaxResults=1, WaitTimeSeconds=1)["Missed"]

    def backups(self):
        begun = self.example("StartBackup")["BackupId"]
        self.client.boto.get_waiter("backup_finished").wait(BackupId=begun, WaiterConfig={"Delay": 0.1})
        self.example("DescribeBackup", BackupId=begun)
        self.call("DescribeBackup")
        self.example("DeleteBackup", BackupId=begun)


def values_of(value, member):
    """What a member is, wherever it stands."""
    if isinstance(value, list):
        for item in value:
            yield from values_of(item, member)
    if isinstance(value, dict):
        for key, item in value.items():
            if key == member:
                yield item
            else:
                yield from values_of(item, member)


def digits_away(text):
    return re.sub(r"[0-9a-f]*[0-9][0-9a-f]*", "#", text)
