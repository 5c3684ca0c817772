"""Effects that happen once, while the daemon is killed with SIGKILL: numbered sends repeated until they are answered,
and workers that consume, count and produce in one Commit.

KILLS  how many (20);  KILL_SEED  the seed of what is random here
"""

import collections
import os
import random
import threading
import time

from conftest import PATIENCE, wait_until
from test_errors import text
from wire import Connection, Crowd, Lost, request_bytes, scaled

KILLS = scaled(20, "KILLS", least=4)
SEED = int(os.environ.get("KILL_SEED") or random.SystemRandom().randrange(1 << 32))
JOBS = 400 if KILLS >= 20 else 60
LEASE = 2


def repeat(line, target, body):
    """The answer of an action that is repeated until there is one."""
    while True:
        try:
            return line.call(target, body)
        except Lost:
            time.sleep(0.01)


def numbered(number):
    return {
        "Tally.Producer": {"DataType": "String", "StringValue": "loader"},
        "Tally.Sequence": {"DataType": "Number", "StringValue": str(number)},
    }


class Worker(threading.Thread):
    """Takes a job, sends its result, reports its unit and deletes it, all in one step; or, as it happens, takes it and
    forgets it."""

    def __init__(self, port, number, is_over):
        super().__init__(daemon=True)
        self.line = Connection(port, seconds=30)
        self.random = random.Random(f"{SEED} {number}")
        self.is_over = is_over
        self.stale = 0
        self.error = None

    def run(self):
        try:
            while not self.is_over.is_set():
                try:
                    self.work()
                except Lost:
                    time.sleep(0.01)
        except Exception as error:  # noqa: BLE001 shown by the test
            self.error = error

    def work(self):
        taken = self.line.ok(
            "AmazonSQS.ReceiveMessage",
            {"QueueUrl": "jobs", "MaxNumberOfMessages": 3, "VisibilityTimeout": LEASE, "WaitTimeSeconds": 1},
        )
        for message in taken.get("Messages", []):
            if self.random.random() < 0.1:
                continue
            if self.random.random() < 0.1:
                time.sleep(1.2 * LEASE)  # somebody else may have it by now
            commit = {
                "Deletes": [{"QueueUrl": "jobs", "ReceiptHandle": message["ReceiptHandle"]}],
                "Sends": [{"QueueUrl": "results", "MessageBody": message["Body"]}],
                "Units": [{"BatchId": "all", "Unit": message["Body"]}],
            }
            answer = repeat(self.line, "Tally.Commit", commit)
            if answer.status != 200:
                assert answer.json()["__type"].endswith("#ReceiptHandleIsInvalid"), answer.body
                self.stale += 1
            else:
                assert answer.json()["Units"][0]["Recorded"], answer.body


def load(port, is_done):
    line = Connection(port, seconds=30)
    for number in range(JOBS):
        body = {"QueueUrl": "jobs", "MessageBody": str(number), "MessageAttributes": numbered(number)}
        answer = repeat(line, "AmazonSQS.SendMessage", body)
        assert answer.status == 200, answer.body
        if number % 7 == 0:  # a sender that does not believe it
            again = repeat(line, "AmazonSQS.SendMessage", body).json()
            assert again["Duplicate"] and again["MessageId"] == answer.json()["MessageId"], again
        time.sleep(0.002)
    is_done.set()
    line.close()


def take_all(line, queue):
    bodies = []
    while True:
        taken = line.ok("AmazonSQS.ReceiveMessage",
                        {"QueueUrl": queue, "MaxNumberOfMessages": 10, "VisibilityTimeout": 900})
        if not taken.get("Messages"):
            return bodies
        bodies += [message["Body"] for message in taken["Messages"]]


def test_each_job_has_one_effect_whatever_is_killed(daemon_factory):
    chance = random.Random(SEED)
    daemon = daemon_factory("--body-max", "64KiB", "--segment-size", "5MiB", "--snapshot-bytes", "1MiB").start()
    line = Connection(daemon.port)
    for queue in ("jobs", "results", "done"):
        line.ok("AmazonSQS.CreateQueue", {"QueueName": queue})
    line.ok("Tally.CreateBatch", {"BatchId": "all", "Total": JOBS, "OnComplete": {"QueueUrl": "done"}})
    line.ok("Tally.AddUnits", {"BatchId": "all", "Count": JOBS})
    is_over, is_loaded = threading.Event(), threading.Event()
    workers = [Worker(daemon.port, number, is_over) for number in range(3)]
    loader = threading.Thread(target=load, args=(daemon.port, is_loaded), daemon=True)
    for thread in [*workers, loader]:
        thread.start()
    for _ in range(KILLS):
        time.sleep(0.2 * chance.random() * PATIENCE)
        daemon.kill9()
        daemon.start()

    def is_complete():
        answer = repeat(line, "Tally.DescribeBatch", {"BatchId": "all"})
        return is_loaded.is_set() and answer.json()["State"] == "completed"

    wait_until(is_complete, 120, "the batch")
    is_over.set()
    for worker in workers:
        worker.join(30 * PATIENCE)
        assert worker.error is None, f"seed {SEED}: {worker.error!r}"
    counts = collections.Counter(take_all(line, "results"))
    twice = {body: count for body, count in counts.items() if count > 1}
    assert not twice, f"seed {SEED}: more than one result: {twice}"
    assert sorted(map(int, counts)) == list(range(JOBS)), f"seed {SEED}"
    assert len(take_all(line, "done")) == 1
    assert not take_all(line, "jobs")
    line.close()


def test_identical_sends_at_one_instant_are_one_message(daemon):
    with Connection(daemon.port) as line:
        line.ok("AmazonSQS.CreateQueue", {"QueueName": "q"})
        with Crowd(daemon.port, 10) as crowd:
            body = {"QueueUrl": "q", "MessageBody": "once", "MessageDeduplicationId": "id"}
            answers = crowd.ask([request_bytes("AmazonSQS.SendMessage", body)] * 10)
        replies = [answer.json() for answer in answers]
        assert {answer.status for answer in answers} == {200}
        assert len({reply["MessageId"] for reply in replies}) == 1
        assert sum(reply.get("Duplicate", False) for reply in replies) == 9
        assert take_all(line, "q") == ["once"]


# What is put into a Commit that is otherwise good, and the error that names it.
FAULTS = [
    ("Deletes", {"QueueUrl": "in", "ReceiptHandle": "garbage"}, "ReceiptHandleIsInvalid"),
    ("Deletes", {"QueueUrl": "none", "ReceiptHandle": "garbage"}, "QueueDoesNotExist"),
    ("Deletes", {"QueueUrl": "in"}, "MissingRequiredParameterException"),
    ("Sends", {"QueueUrl": "none", "MessageBody": "x"}, "QueueDoesNotExist"),
    ("Sends", {"QueueUrl": "in"}, "MissingRequiredParameterException"),
    ("Sends", {"QueueUrl": "in", "MessageBody": 5}, "SerializationException"),
    ("Sends", {"QueueUrl": "in", "MessageBody": "\1"}, "InvalidMessageContents"),
    ("Sends", {"QueueUrl": "in", "MessageBody": "x", "DelaySeconds": 901}, "InvalidParameterValueException"),
    ("Sends", {"QueueUrl": "out.fifo", "MessageBody": "x", "MessageDeduplicationId": "2"},
     "MissingRequiredParameterException"),
    ("Sends", {"QueueUrl": "out.fifo", "MessageBody": "x", "MessageGroupId": "g"}, "InvalidParameterValueException"),
    ("Sends", {"QueueUrl": "in", "MessageBody": "x", "MessageAttributes": {"Tally.Batch": text("none")}},
     "BatchDoesNotExist"),
    ("Sends", {"QueueUrl": "in", "MessageBody": "x", "MessageAttributes": {"Tally.Batch": text("sealed")}},
     "BatchSealed"),
    ("Sends", {"QueueUrl": "in", "MessageBody": "x", "MessageAttributes": {"Tally.After": text("batch:none")}},
     "DependencyDoesNotExist"),
    ("Sends", {"QueueUrl": "in", "MessageBody": "x", "MessageAttributes": {"Tally.Producer": text("p")}},
     "InvalidParameterValueException"),
    ("Units", {"BatchId": "open", "Unit": "none"}, "UnitDoesNotExist"),
    ("Units", {"BatchId": "none", "Unit": "u"}, "BatchDoesNotExist"),
    ("Units", {"BatchId": "open", "Unit": "u", "Status": "done"}, "InvalidParameterValueException"),
    ("Units", {"BatchId": "open"}, "MissingRequiredParameterException"),
]


def make_commit(line):
    """Queues and batches, and a Commit that would take what is in `in`."""
    line.ok("AmazonSQS.CreateQueue", {"QueueName": "in"})
    line.ok("AmazonSQS.CreateQueue", {"QueueName": "out.fifo", "Attributes": {"FifoQueue": "true"}})
    for batch in ("open", "sealed"):
        line.ok("Tally.CreateBatch", {"BatchId": batch})
    line.ok("Tally.AddUnits", {"BatchId": "open", "Units": ["u"]})
    line.ok("Tally.SealBatch", {"BatchId": "sealed"})
    line.ok("AmazonSQS.SendMessage", {"QueueUrl": "in", "MessageBody": "job"})
    (message,) = line.ok("AmazonSQS.ReceiveMessage", {"QueueUrl": "in", "VisibilityTimeout": 900})["Messages"]
    return {
        "Deletes": [{"QueueUrl": "in", "ReceiptHandle": message["ReceiptHandle"]}],
        "Sends": [
            {"QueueUrl": "out.fifo", "MessageBody": "made", "MessageGroupId": "g", "MessageDeduplicationId": "1"}],
        "Units": [{"BatchId": "open", "Unit": "u"}],
    }


def test_a_commit_with_one_fault_does_nothing_and_names_the_entry(daemon):
    with Connection(daemon.port) as line:
        good = make_commit(line)
        for part, entry, error in FAULTS:
            answer = line.call("Tally.Commit", {**good, part: [*good[part], entry]})
            told = answer.json()
            assert told["__type"].endswith(f"#{error}") and f"{part}[1]: " in told["message"], (entry, told)
        twice = line.call("Tally.Commit", {**good, "Deletes": good["Deletes"] * 2}).json()
        assert "Deletes[1]: " in twice["message"] and "is among the Deletes or Holds already" in twice["message"]
        for part, count in [("Deletes", 11), ("Sends", 11), ("Units", 101)]:
            many = line.call("Tally.Commit", {**good, part: good[part] * count}).json()
            assert (many["__type"].endswith("#TooManyEntriesInBatchRequest")
                    and f"{part} holds {count} entries" in many["message"])
        assert not take_all(line, "in") and not take_all(line, "out.fifo")
        assert line.ok("Tally.DescribeBatch", {"BatchId": "open"})["Remaining"] == 1
        done = line.ok("Tally.Commit", good)  # and no id was taken by what was refused
        assert "Duplicate" not in done["Sends"][0]
        assert done["Units"] == [{"BatchId": "open", "Unit": "u", "Recorded": True, "Completed": False}]
        assert take_all(line, "out.fifo") == ["made"]


def test_a_commit_under_a_lease_that_is_over(daemon):
    """The newest handle of a standard queue's message still holds it, that of a FIFO queue's does not, and the error
    says so."""
    for queue, group, status in [
            ("q", {}, 200), ("q.fifo", {"MessageGroupId": "g", "MessageDeduplicationId": "1"}, 400)]:
        with Connection(daemon.port) as line:
            fifo = {"FifoQueue": "true"} if group else {}
            line.ok("AmazonSQS.CreateQueue", {"QueueName": queue, "Attributes": fifo})
            line.ok("AmazonSQS.SendMessage", {"QueueUrl": queue, "MessageBody": "x", **group})
            (message,) = line.ok("AmazonSQS.ReceiveMessage", {"QueueUrl": queue, "VisibilityTimeout": 0})["Messages"]
            answer = line.call(
                "Tally.Commit", {"Deletes": [{"QueueUrl": queue, "ReceiptHandle": message["ReceiptHandle"]}]})
            assert answer.status == status
            assert status == 200 or "its visibility timeout is over" in answer.json()["message"]
            assert take_all(line, queue) == ([] if status == 200 else ["x"])


def test_of_50_equal_commits_at_one_instant_one_is_done(daemon):
    with Connection(daemon.port) as line, Crowd(daemon.port, 50) as crowd:
        commit = make_commit(line)
        commit["Sends"] = [{"QueueUrl": "in", "MessageBody": "made"}]
        answers = crowd.ask([request_bytes("Tally.Commit", commit)] * 50)
        assert sorted(answer.status for answer in answers) == [200] + [400] * 49
        daemon.kill9()
        daemon.start()
        line.close()
        assert take_all(line, "in") == ["made"]


def test_a_producer_repeats_old_numbers_after_a_kill_and_a_purge(daemon):
    with Connection(daemon.port) as line:
        line.ok("AmazonSQS.CreateQueue", {"QueueName": "q", "Attributes": {"Tally.DeduplicationWindow": "0"}})

        def put(number):
            return line.ok("AmazonSQS.SendMessage",
                           {"QueueUrl": "q", "MessageBody": "x", "MessageAttributes": numbered(number)})

        first = {number: put(number)["MessageId"] for number in (1, 5)}
        daemon.kill9()
        daemon.start()
        line.close()
        line.ok("AmazonSQS.PurgeQueue", {"QueueUrl": "q"})
        for number in (5, 1):
            again = put(number)
            assert again["Duplicate"] is True and again["MessageId"] == first[number]
        assert not take_all(line, "q")
        assert "Duplicate" not in put(6)
