"""Producers, workers and batches at work while the daemon is killed with SIGKILL at random instants and started again.

The clients keep a record of their own: what was acknowledged, and what may have happened because the reply was lost. At
the end, and all the time where it can be told at once, the record is compared with what the daemon says:
  - a message whose send was acknowledged is delivered, and none whose delete was acknowledged comes back;
  - a lease that was acknowledged is not given to another before its time, whatever is killed;
  - each batch completes; its completion message exists once, by its id, and comes back after a delete as little as
    others;
  - a unit's end is recorded for one of those that report it, and what was answered as completed stays completed.
A small segment and a small snapshot threshold make the log roll over, take snapshots and trim while it is killed.

KILLS  how many (300);  KILL_SEED  the seed of what is random here
"""

import collections
import http.client
import json
import os
import random
import subprocess
import threading
import time

from conftest import BIN, PATIENCE, WRAPPER, clean_environment, wait_until
from wire import Connection, Lost, scaled

KILLS = scaled(300, "KILLS", least=8)
SEED = int(os.environ.get("KILL_SEED") or random.SystemRandom().randrange(1 << 32))
OPTIONS = ["--body-max", "64KiB", "--segment-size", "5MiB", "--snapshot-bytes", "1MiB"]
LEASE = 2  # seconds
GATHERING = 0.3 * PATIENCE  # a lease counts from when its frame was begun, which waits for the flush before it
# kills: each start renews the leases in flight, so only a rest lets those end whose holder got no reply
REST_EVERY = 50
UNITS_EXTERNAL = 12
UNITS_MESSAGES = 12
BACKLOG = 1000  # producers rest above this
# Seconds until a client without an answer asks again. Without a rest they take a core while the daemon is down.
RETRY = 0.02 * PATIENCE


class Record:
    """What the clients know. One lock for all of it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.faults = []
        self.sent = {}  # key of a message -> "acknowledged" | "maybe"
        self.delivered = set()
        self.waiting = set()  # acknowledged and not delivered yet
        self.deleted = {}  # key -> when the reply to its delete had come
        self.lease_ends = {}  # key -> when its newest acknowledged lease ends at the earliest
        self.answered = {}  # key -> when its newest delivery was answered
        self.completions = collections.defaultdict(set)  # batch -> ids of its completion messages
        self.batches = set()  # sealed, acknowledged
        self.recorded = collections.Counter()  # (batch, unit) -> acknowledged "Recorded": true
        self.completed = collections.Counter()  # batch -> acknowledged "Completed": true
        self.lost = 0
        self.requests = 0

    def fault(self, text):
        with self.lock:
            self.faults.append(text)

    def is_ahead(self):
        """Have the producers done enough for now?"""
        return len(self.waiting) > BACKLOG


class Client(threading.Thread):
    """A loop of work on a connection of its own that takes lost replies as they come."""

    def __init__(self, load, number):
        super().__init__(daemon=True)
        self.load = load
        self.record = load.record
        self.number = number
        self.random = random.Random(f"{SEED} {type(self).__name__} {number}")
        self.line = Connection(load.port, seconds=30)
        self.error = None

    def run(self):
        try:
            while not self.load.is_over(self):
                try:
                    self.work()
                    if not self.load.is_draining:
                        time.sleep(self.load.pause)
                except Lost:
                    self.record.lost += 1
                    time.sleep(RETRY)
        except BaseException as error:  # noqa: BLE001 (reported by the test)
            self.error = error
            self.record.fault(f"{type(self).__name__} {self.number}: {error!r}")
        self.line.close()

    def ask(self, target, body):
        """The JSON of a reply that must be 200."""
        self.record.requests += 1
        return self.line.ok(target, body)

    def ask_until_answered(self, target, body):
        """For requests that may be repeated."""
        while True:
            try:
                return self.ask(target, body)
            except Lost:
                self.record.lost += 1
                time.sleep(RETRY)

    def send(self, queue, keys, attributes=None):
        """Sends messages that bear these keys; where the reply is lost, the record says maybe."""
        with self.record.lock:
            self.record.sent.update((key, "maybe") for key in keys)
        entries = []
        for index, key in enumerate(keys):
            body = key + " " + "x" * self.random.choice([0, 100, 1000, 3000])
            entries.append(
                {"Id": str(index), "MessageBody": body, **({"MessageAttributes": attributes} if attributes else {})})
        answer = self.ask("AmazonSQS.SendMessageBatch", {"QueueUrl": queue, "Entries": entries})
        assert len(answer["Successful"]) == len(keys), answer
        with self.record.lock:
            self.record.sent.update((key, "acknowledged") for key in keys)
            self.record.waiting.update(key for key in keys if key not in self.record.delivered)


class Producer(Client):
    counter = 0

    def work(self):
        if self.record.is_ahead():
            time.sleep(0.01)
            return
        keys = [f"p{self.number}-{self.counter + i}" for i in range(self.random.randint(1, 10))]
        self.counter += len(keys)
        self.send(self.load.jobs, keys)


class Worker(Client):
    """Receives and deletes; sometimes it lets the lease go by, or gives the message back."""

    def work(self):
        asked_at = time.monotonic()
        answer = self.ask(
            "AmazonSQS.ReceiveMessage",
            {"QueueUrl": self.load.jobs, "MaxNumberOfMessages": 10, "WaitTimeSeconds": 1, "VisibilityTimeout": LEASE},
        )
        answered_at = time.monotonic()
        held = []
        for message in answer.get("Messages", []):
            key = message["Body"].split(" ")[0]
            self.note_delivery(key, asked_at, answered_at)
            held.append((key, message["ReceiptHandle"]))
        lease_end = asked_at + LEASE
        if not self.load.is_draining and self.random.random() < 0.02:
            return  # a worker that dies
        if not self.load.is_draining and held and self.random.random() < 0.05:
            key, handle = held.pop()
            with self.record.lock:
                self.record.lease_ends.pop(key, None)
            self.ask("AmazonSQS.ChangeMessageVisibility",
                     {"QueueUrl": self.load.jobs, "ReceiptHandle": handle, "VisibilityTimeout": 0})
        self.delete(held, lease_end)

    def note_delivery(self, key, asked_at, answered_at):
        with self.record.lock:
            if key not in self.record.sent:
                self.record.faults.append(f"{key} was delivered, but never sent")
            deleted_at = self.record.deleted.get(key)
            if deleted_at is not None and asked_at > deleted_at:
                self.record.faults.append(f"{key} came back after its delete was acknowledged")
            # Of a reply that took longer than a lease, and of one that is noted late, nobody knows which was first.
            lease_end = self.record.lease_ends.get(key)
            was_first = answered_at - asked_at > LEASE or answered_at < self.record.answered.get(key, 0)
            if lease_end is not None and not was_first and answered_at < lease_end - GATHERING:
                self.record.faults.append(f"{key} was delivered {lease_end - answered_at:.3f} s before its lease ended")
            self.record.lease_ends[key] = asked_at + LEASE
            self.record.answered[key] = answered_at
            self.record.delivered.add(key)
            self.record.waiting.discard(key)

    def delete(self, held, lease_end):
        if not held:
            return
        keys = [key for key, _ in held]
        entries = [{"Id": str(index), "ReceiptHandle": handle} for index, (_, handle) in enumerate(held)]
        if len(held) == 1:
            self.ask("AmazonSQS.DeleteMessage", {"QueueUrl": self.load.jobs, "ReceiptHandle": held[0][1]})
        else:
            answer = self.ask("AmazonSQS.DeleteMessageBatch", {"QueueUrl": self.load.jobs, "Entries": entries})
            assert len(answer["Successful"]) == len(held), answer
        answered_at = time.monotonic()
        with self.record.lock:
            for key in keys:
                if answered_at < lease_end:  # a delete behind the lease's end succeeds, but need not delete
                    self.record.deleted[key] = answered_at


class Batcher(Client):
    """Makes batches of messages and external units; hands the latter to two reporters that both report each of them."""

    counter = 0

    def work(self):
        if self.record.is_ahead() or len(self.load.reports) > 50:
            time.sleep(0.01)
            return
        name = f"b{self.number}-{self.counter}"
        self.counter += 1
        self.ask_until_answered("Tally.CreateBatch", {"BatchId": name, "OnComplete": {"QueueUrl": self.load.results}})
        self.ask_until_answered("Tally.AddUnits", {"BatchId": name, "Count": UNITS_EXTERNAL})
        attributes = {"Tally.Batch": {"DataType": "String", "StringValue": name}}
        sent = 0
        attempt = 0
        while sent < UNITS_MESSAGES:
            keys = [f"{name}-{attempt}-{i}" for i in range(UNITS_MESSAGES // 2)]
            attempt += 1
            try:
                self.send(self.load.jobs, keys, attributes)
                sent += len(keys)
            except Lost:
                self.record.lost += 1
                time.sleep(RETRY)
        self.ask_until_answered("Tally.SealBatch", {"BatchId": name})
        with self.record.lock:
            self.record.batches.add(name)
        for unit in range(UNITS_EXTERNAL):
            self.load.reports.append((name, str(unit)))
            self.load.reports_again.append((name, str(unit)))


class Reporter(Client):
    """Ends external units, each reported by two of these at about the same time, and again where the reply was lost."""

    def work(self):
        reports = self.load.reports if self.number % 2 else self.load.reports_again
        try:
            name, unit = reports.popleft()
        except IndexError:
            time.sleep(0.005)
            return
        answer = self.ask_until_answered("Tally.CompleteUnits", {"BatchId": name, "Units": [{"Unit": unit}]})
        with self.record.lock:
            self.record.recorded[name, unit] += answer["Results"][0]["Recorded"]
            self.record.completed[name] += answer["Completed"]
        if answer["Completed"]:
            described = self.ask_until_answered("Tally.DescribeBatch", {"BatchId": name})
            if described["State"] != "completed":
                self.record.fault(f"{name} was answered as completed and is {described['State']}")


class Collector(Client):
    """Takes the completion messages."""

    def work(self):
        asked_at = time.monotonic()
        answer = self.ask(
            "AmazonSQS.ReceiveMessage",
            {
                "QueueUrl": self.load.results,
                "MaxNumberOfMessages": 10,
                "WaitTimeSeconds": 1,
                "VisibilityTimeout": LEASE,
                "MessageAttributeNames": ["Tally.*"],
            },
        )
        messages = answer.get("Messages", [])
        with self.record.lock:
            for message in messages:
                name = message["MessageAttributes"]["Tally.Batch.Completed"]["StringValue"]
                key = "completion " + name
                assert json.loads(message["Body"])["status"] == "succeeded"
                self.record.completions[name].add(message["MessageId"])
                if asked_at > self.record.deleted.get(key, asked_at):
                    self.record.faults.append(f"{key} came back after its delete was acknowledged")
        for message in messages:
            handle = message["ReceiptHandle"]
            self.ask("AmazonSQS.DeleteMessage", {"QueueUrl": self.load.results, "ReceiptHandle": handle})
            key = "completion " + message["MessageAttributes"]["Tally.Batch.Completed"]["StringValue"]
            if time.monotonic() < asked_at + LEASE:
                with self.record.lock:
                    self.record.deleted[key] = time.monotonic()


class Load:
    def __init__(self, port, jobs, results, pause=0):
        """`pause`: seconds, of each client behind each piece of its work."""
        self.port, self.jobs, self.results, self.pause = port, jobs, results, pause
        self.record = Record()
        self.reports = collections.deque()
        self.reports_again = collections.deque()
        self.is_draining = False
        self.is_stopped = False
        self.makers = [Producer(self, 0), Producer(self, 1), Batcher(self, 0), Batcher(self, 1)]
        self.takers = [Worker(self, number) for number in range(4)]
        self.takers += [Reporter(self, number) for number in range(4)] + [Collector(self, 0)]

    def is_over(self, client):
        return self.is_stopped or bool(self.record.faults) or (self.is_draining and client in self.makers)

    def start(self):
        for client in self.makers + self.takers:
            client.start()

    def finish(self, is_drained):
        """Lets the makers end, waits until the takers have found everything, and ends them."""
        self.is_draining = True
        for client in self.makers:
            client.join(60 * PATIENCE)
            assert not client.is_alive(), f"{client} hangs"
        try:
            wait_until(lambda: self.record.faults or is_drained(), 60, "draining the queues")
        finally:
            self.is_stopped = True
        for client in self.takers:
            client.join(60 * PATIENCE)
            assert not client.is_alive(), f"{client} hangs"


def kill_within_start(daemon, seconds):
    """Starts the daemon and kills it before it may be ready, in the middle of its recovery."""
    command = [*WRAPPER, str(BIN / "tallyd"), "--listen", f"127.0.0.1:{daemon.port}", "--data", str(daemon.data)]
    process = subprocess.Popen([*command, *daemon.options], stdout=subprocess.DEVNULL, env=clean_environment())
    time.sleep(seconds)
    process.kill()
    process.wait()


def counts(line, url):
    answer = line.ok("AmazonSQS.GetQueueAttributes", {"QueueUrl": url, "AttributeNames": ["All"]})["Attributes"]
    names = ["", "NotVisible", "Delayed"]
    return [int(answer[f"ApproximateNumberOfMessages{name}"]) for name in names]


def check_batches(line, record):
    assert set(record.completions) >= record.batches, f"without completion: {record.batches - set(record.completions)}"
    for name in record.batches:
        described = line.ok("Tally.DescribeBatch", {"BatchId": name})
        assert (described["State"], described["Status"]) == ("completed", "succeeded")
        assert record.completions[name] == {described["CompletionMessageId"]}
        assert described["Remaining"] == 0 and described["Total"] == described["Succeeded"]
        assert described["Total"] >= UNITS_EXTERNAL + UNITS_MESSAGES
        assert record.completed[name] <= 1
    assert all(count <= 1 for count in record.recorded.values())


def check_messages(record):
    assert not record.waiting, f"acknowledged but never delivered: {sorted(record.waiting)[:10]}"


def test_nothing_acknowledged_is_lost_or_doubled_by_kill_9(daemon_factory, capsys):
    chance = random.Random(SEED)
    daemon = daemon_factory(*OPTIONS).start()
    line = Connection(daemon.port)
    jobs = line.ok("AmazonSQS.CreateQueue", {"QueueName": "jobs"})["QueueUrl"]
    results = line.ok("AmazonSQS.CreateQueue", {"QueueName": "results"})["QueueUrl"]
    load = Load(daemon.port, jobs, results, 0.1 if WRAPPER else 0)
    load.start()
    began_at = time.monotonic()
    down = 0.0
    seen = collections.defaultdict(set)  # kind of file: names
    for number in range(KILLS):
        if number % REST_EVERY == REST_EVERY - 1:
            time.sleep(1.2 * LEASE)
        time.sleep(chance.choice([0.02, 0.1, 0.3, 0.5]) * chance.random() * PATIENCE)
        killed_at = time.monotonic()
        daemon.kill9()
        for path in daemon.data.glob("*/*"):
            seen[path.suffix].add(path.name)
        if chance.random() < 0.1:
            kill_within_start(daemon, chance.random() * 0.05 * PATIENCE)
        daemon.start()
        down += time.monotonic() - killed_at
        assert not load.record.faults, f"seed {SEED}, kill {number}: {load.record.faults[:10]}"
    line.close()

    def is_drained():
        return not load.reports and not load.reports_again and counts(line, jobs) == counts(line, results) == [0, 0, 0]

    load.finish(is_drained)
    record = load.record
    assert not record.faults, f"seed {SEED}: {record.faults[:10]}"
    check_messages(record)
    check_batches(line, record)
    line.close()
    left = {path.name for path in daemon.data.glob("*/*.segment")}
    with capsys.disabled():
        print(
            f"\nkill -9: seed {SEED}, {KILLS} kills in {time.monotonic() - began_at:.0f} s ({1000 * down / KILLS:.0f} "
            f"ms each to be back), {record.requests} requests, {record.lost} replies lost, "
            f"{len(record.sent)} messages, {len(record.batches)} batches, {len(seen['.segment'])} segments of which "
            f"{len(left)} are left, {len(seen['.snapshot'])} snapshots and {len(seen['.tmp'])} unfinished ones seen"
        )
    if KILLS >= 100:
        assert len(seen[".segment"] - left) >= 3, "hardly anything was trimmed"
        assert len(seen[".snapshot"]) >= 3, seen[".snapshot"]
    assert daemon.stop() == 0
    daemon.start()  # and after a clean stop it is as before
    check_batches(line, record)
    assert counts(line, jobs) == counts(line, results) == [0, 0, 0]
    line.close()
    assert daemon.stop() == 0


REPLACED = 20  # messages
REPLACE_KILLS = scaled(8, "REPLACE_KILLS", least=3)


def versions_of(daemon, queue):
    """{name: (version, MessageId)}: each of the messages must be there once."""
    status, told = daemon.call("Tally.ListMessages", {"QueueUrl": queue, "Body": "full"})
    assert status == 200, told
    found = {}
    for message in told["Messages"]:
        name, version = message["Body"].split(".")
        assert name not in found, f"message {name} is there as version {version} and {found[name]}"
        found[name] = int(version), message["MessageId"]
    assert len(found) == REPLACED, sorted(found)
    return found


def replace_until_killed(daemon, queue, found, chance):
    """Each replace that was answered has raised a version; at most one more was asked for: its name."""
    killer = threading.Timer(chance.uniform(0, 0.2 * PATIENCE), daemon.process.kill)
    killer.start()
    asked = None
    try:
        while True:
            asked = chance.choice(sorted(found))
            version, message = found[asked]
            status, told = daemon.call("Tally.ReplaceMessage", {"QueueUrl": queue, "MessageId": message,
                                                                "MessageBody": f"{asked}.{version + 1}"})
            assert status == 200, told
            found[asked] = version + 1, told["MessageId"]
    except (OSError, http.client.HTTPException):
        killer.join()
        return asked


def test_a_replaced_message_is_there_once_whatever_is_killed(daemon_factory):
    """The old one or the new one, never both, and never none."""
    daemon, chance = daemon_factory().start(), random.Random(SEED)
    for queue, attributes in ("q", {}), ("q.fifo", {"FifoQueue": "true"}):
        daemon.call("AmazonSQS.CreateQueue", {"QueueName": queue, "Attributes": attributes})
        more = {"MessageGroupId": "g"} if attributes else {}
        for name in range(REPLACED):
            ids = {"MessageDeduplicationId": str(name)} if attributes else {}
            status, told = daemon.call("AmazonSQS.SendMessage",
                                       {"QueueUrl": queue, "MessageBody": f"{name}.0", **more, **ids})
            assert status == 200, told
    for kill in range(REPLACE_KILLS):
        queue = "q.fifo" if kill % 2 else "q"
        known = versions_of(daemon, queue)
        asked = replace_until_killed(daemon, queue, known, chance)
        daemon.kill9()
        daemon.start()
        for name, (version, message) in versions_of(daemon, queue).items():
            is_known = (version, message) == known[name]
            is_one_more = name == asked and version == known[name][0] + 1
            assert is_known or is_one_more, (SEED, name, version, message, known[name])
    assert daemon.stop() == 0
