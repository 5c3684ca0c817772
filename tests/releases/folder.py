#!/usr/bin/python3
"""A data folder with everything in it that a tallyd keeps, and what it says of it: made by each release, read by all
that come after.

    tests/releases/folder.py VERSION TALLYD     makes VERSION.tar.xz and VERSION.json beside this file

VERSION.json has the time at which the folder was made, and answers of that tallyd: a later one, which has that time,
must give them too, and may say more."""

import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
LONG = "43200"
PUBLISHER, OWNER = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000077"
# What depends on the moment, the port, or chance.
CHANGING = ("Age", "At", "Since", "Timestamp", "Seconds", "Handle", "Until", "Time", "Epoch", "Lag")


def text(value, kind="String"):
    return {"DataType": kind, "StringValue": str(value)}


def url(queue):
    return f"http://127.0.0.1/000000000000/{queue}"


def arn(queue):
    return f"arn:aws:sqs:us-east-1:000000000000:{queue}"


def fill(call):
    """What every release keeps. Returns what only its maker knows: handles."""
    def create(name, **attributes):
        fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        call("AmazonSQS.CreateQueue", {"QueueName": name, "Attributes": {**fifo, **attributes}})

    def send(queue, body, **more):
        return call("AmazonSQS.SendMessage", {"QueueUrl": url(queue), "MessageBody": body, **more})

    def receive(queue, **more):
        asked = {"QueueUrl": url(queue), "VisibilityTimeout": int(LONG), "MaxNumberOfMessages": 1, **more}
        return call("AmazonSQS.ReceiveMessage", asked)["Messages"][0]

    kept = {"MessageRetentionPeriod": "1209600"}
    create("dead", **kept)
    create("plain", **kept, **{"VisibilityTimeout": "45", "Tally.Backoff": '{"min": 1, "max": 60}',
                               "RedrivePolicy": json.dumps({"deadLetterTargetArn": arn("dead"), "maxReceiveCount": 1})})
    create("paused", **kept)
    create("done", **kept)
    create("filler", **kept)
    create("orders.fifo", **kept, **{"ContentBasedDeduplication": "true", "Tally.OnGroupFailure": "hold",
                                     "Tally.DeduplicationWindow": "-1"})
    call("AmazonSQS.TagQueue", {"QueueUrl": url("plain"), "Tags": {"team": "billing", "tier": "1"}})

    send("plain", "first dies")
    failed = receive("plain")
    call("Tally.FailMessage", {"QueueUrl": url("plain"), "ReceiptHandle": failed["ReceiptHandle"], "Final": True,
                               "Reason": "no such customer"})
    send("plain", "is in flight", MessageAttributes={"color": text("red"), "size": text(7, "Number")})
    held = receive("plain")
    send("plain", "ünïcode ☃ \n second line", MessageSystemAttributes={"AWSTraceHeader": text("Root=1-2-3")})
    send("plain", "comes late", DelaySeconds=900)
    send("plain", "first of a pair")
    after = send("plain", "x" * 3000)
    send("plain", "waits for the large one", MessageAttributes={"Tally.After": text(f"message:{after['MessageId']}")})
    send("plain", "numbered", MessageAttributes={"Tally.Producer": text("p"), "Tally.Sequence": text(41, "Number")})
    send("paused", "waits for the pause to end")
    call("Tally.PauseQueue", {"QueueUrl": url("paused")})

    for group in ("a", "b", "c"):
        for number in range(3):
            send("orders.fifo", f"{group}{number}", MessageGroupId=group, MessageDeduplicationId=f"{group}{number}")
    first = receive("orders.fifo")
    call("Tally.FailMessage", {"QueueUrl": url("orders.fifo"), "ReceiptHandle": first["ReceiptHandle"], "Final": True,
                               "Reason": "card refused"})
    call("Tally.PauseGroup", {"QueueUrl": url("orders.fifo"), "MessageGroupId": "b"})

    call("Tally.CreateBatch", {"BatchId": "import-7", "OnComplete": {"QueueUrl": url("done"), "MessageBody": "all"},
                               "ExpiresAfterSeconds": 31536000})
    for unit in range(3):
        send("plain", f"unit {unit}", MessageAttributes={"Tally.Batch": text("import-7")})
    call("Tally.SealBatch", {"BatchId": "import-7"})

    call("Tally.PutTypeOrder", {"Name": "posts", "Types": ["post", "comment", "like"]})
    send("plain", "a post", MessageGroupId="wall", MessageAttributes={"Tally.Type": text("post")})
    send("plain", "a comment", MessageGroupId="wall", MessageAttributes={"Tally.Type": text("comment")})
    call("Tally.PutSchedule", {"Name": "nightly", "QueueUrl": url("done"), "Cron": "0 3 1 1 *",
                               "TimeZone": "Europe/Berlin", "MessageBody": "close the year"})
    call("Tally.CreateRelay", {"RelayName": "out", "Source": {"Type": "queue", "QueueUrl": url("done")},
                            "Sink": {"Type": "http", "Url": "http://127.0.0.1:9/nobody"}})
    call("Tally.PauseRelay", {"RelayName": "out"})
    call("Tally.OpenPublisher", {"Publisher": PUBLISHER, "Epoch": 1, "Owner": OWNER})
    row = {"Id": 1, "Uid": "00000000-0000-0000-0000-0000000000aa", "QueueUrl": url("done"), "MessageBody": "from a row"}
    call("Tally.Publish", {"Publisher": PUBLISHER, "Epoch": 1, "Owner": OWNER, "Batch": 1, "ConfirmedBatch": 0,
                           "Rows": [row]})
    call("Tally.CreatePool", {"PoolName": "duel", "Size": 2, "Attributes": {"mode": "str"},
                              "ResultQueueUrl": url("done"), "Rules": [{"type": "equal", "attr": "mode"}]})
    call("Tally.OfferTickets", {"PoolName": "duel", "Tickets": [
        {"TicketId": "t1", "Attributes": {"mode": "x"}, "Body": "alone"},
        {"TicketId": "t2", "Attributes": {"mode": "y"}}, {"TicketId": "t3", "Attributes": {"mode": "y"}}]})
    return {"in flight": held["ReceiptHandle"], "large": after["MessageId"]}


def fill_snapshot(call):
    """What makes a snapshot due."""
    call("AmazonSQS.SendMessage", {"QueueUrl": url("filler"), "MessageBody": "f" * 250_000})
    time.sleep(0.02)


def fill_again(call):
    """Stands in the log behind the snapshot."""
    call("AmazonSQS.PurgeQueue", {"QueueUrl": url("filler")})
    call("AmazonSQS.SendMessage", {"QueueUrl": url("plain"), "MessageBody": "behind the snapshot"})


def questions(known):
    """What is asked before and after, in an order in which nothing that is asked changes an answer."""
    for queue in ("plain", "paused", "done", "dead", "orders.fifo"):
        yield "AmazonSQS.GetQueueAttributes", {"QueueUrl": url(queue), "AttributeNames": ["All"]}
        yield "AmazonSQS.ListQueueTags", {"QueueUrl": url(queue)}
    yield "AmazonSQS.ListQueues", {}
    yield "AmazonSQS.ListDeadLetterSourceQueues", {"QueueUrl": url("dead")}
    yield "Tally.DescribeBatch", {"BatchId": "import-7"}
    yield "Tally.ExplainMessage", {"QueueUrl": url("plain"), "MessageId": known["large"]}
    yield "Tally.ListGroups", {"QueueUrl": url("orders.fifo")}
    yield "Tally.ListTypeOrders", {}
    yield "Tally.ListSchedules", {}
    yield "Tally.ListRelays", {}
    yield "Tally.DescribePool", {"PoolName": "duel"}
    for ticket in ("t1", "t2", "t3"):
        yield "Tally.GetTicket", {"PoolName": "duel", "TicketId": ticket}


def last_questions(known):
    """These change something: each is the last of its kind."""
    yield "AmazonSQS.SendMessage", {"QueueUrl": url("orders.fifo"), "MessageBody": "again", "MessageGroupId": "a",
                                    "MessageDeduplicationId": "a0"}
    yield "AmazonSQS.SendMessage", {"QueueUrl": url("plain"), "MessageBody": "numbered", "MessageAttributes": {
        "Tally.Producer": text("p"), "Tally.Sequence": text(41, "Number")}}
    row = {"Id": 1, "Uid": "00000000-0000-0000-0000-0000000000aa", "QueueUrl": url("done"), "MessageBody": "from a row"}
    yield "Tally.Publish", {"Publisher": PUBLISHER, "Epoch": 1, "Owner": OWNER, "Batch": 2, "ConfirmedBatch": 1,
                            "Rows": [row]}
    yield "AmazonSQS.DeleteMessage", {"QueueUrl": url("plain"), "ReceiptHandle": known["in flight"]}
    for queue in ("dead", "orders.fifo", "plain", "done", "paused"):
        for _ in range(3):
            yield "AmazonSQS.ReceiveMessage", {
                "QueueUrl": url(queue), "MaxNumberOfMessages": 10, "VisibilityTimeout": int(LONG),
                "AttributeNames": ["MessageGroupId", "SequenceNumber", "ApproximateReceiveCount", "AWSTraceHeader"],
                "MessageAttributeNames": ["All"]}


def steady(answer):
    """Without what changes."""
    if isinstance(answer, dict):
        return {name: steady(value) for name, value in answer.items() if not name.endswith(CHANGING)}
    if isinstance(answer, list):
        return [steady(value) for value in answer]
    return re.sub(r"^http://127.0.0.1:\d+", "", answer) if isinstance(answer, str) else answer


def has_all(told, of_old):
    """Is everything in it that was told of old?"""
    if isinstance(of_old, dict):
        return isinstance(told, dict) and all(name in told and has_all(told[name], value)
                                              for name, value in of_old.items())
    if isinstance(of_old, list):
        return isinstance(told, list) and len(told) == len(of_old) and all(map(has_all, told, of_old))
    return told == of_old


# --- making one -------------------------------------------------------------------------------------------------------


class Server:
    """A tallyd on a folder."""

    def __init__(self, tallyd, data):
        command = [tallyd, "--data", data, "--listen", "127.0.0.1:0", "--segment-size", "6MiB", "--body-max", "256KiB",
                   "--snapshot-bytes", "1MiB"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().split("ready on ")[1].split()[0]

    def call(self, target, members):
        request = urllib.request.Request(self.address, json.dumps(members).encode(), {"X-Amz-Target": target})
        try:
            with urllib.request.urlopen(request) as reply:
                return json.loads(reply.read() or "{}")
        except urllib.error.HTTPError as refused:
            raise SystemExit(f"{target} {members}: {refused.read().decode()}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(60) == 0


def pack(data, path):
    """The same bytes for the same folder, but for times."""
    with tarfile.open(path, "w:xz", preset=9) as tar:
        for file in sorted(data.rglob("*")):
            tar.add(file, file.relative_to(data.parent), recursive=False)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    version, tallyd = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        data, packed = pathlib.Path(folder) / "data", pathlib.Path(folder) / "packed"
        with Server(tallyd, data) as server:
            known = fill(server.call)
            while not list(data.rglob("*.snapshot")) or len(list(data.rglob("*.segment"))) < 4:
                fill_snapshot(server.call)
            fill_again(server.call)
            made_at = time.time()
        pack(data, packed)
        with Server(tallyd, data) as server:
            answers = [(target, members, steady(server.call(target, members)))
                       for ask in (questions, last_questions) for target, members in ask(known)]
        shutil.copyfile(packed, HERE / f"{version}.tar.xz")
    rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in answers)
    with io.open(HERE / f"{version}.json", "w", encoding="utf-8") as file:
        file.write(f'{{"made_at": {made_at}, "known": {json.dumps(known)}, "answers": [\n{rows}\n]}}\n')


if __name__ == "__main__":
    main()
