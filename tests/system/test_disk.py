"""The disk stays within its bound, whatever lives next to what has ended, and cleaning loses nothing, not even when it
is killed.

Small segments and snapshots, so that a few seconds fill many: the bound is then 2.5 x live + 24 MiB
(docs/explanation/guarantees.md). """

import itertools
import json
import pathlib
import threading

import pytest
from queues import make_queue
from wire import Connection, Lost, scaled

OPTIONS = ["--body-max", "64KiB", "--segment-size", "5MiB", "--snapshot-bytes", "2MiB"]
BODY = 7500
ROUNDS = scaled(2000, least=40)
# what so many send is far above the bound; ./test runs so many, and fewer only under sanitizers and valgrind
ROUNDS_THAT_TELL = 1000
CLEANED_WITHIN = 3000  # rounds: so much lives beside what has ended by then that something is moved


def url(queue):
    return f"http://127.0.0.1/000000000000/{queue}"


def body_of(key):
    return f"{key}:".ljust(BODY, "abcdefghij"[key % 10])


def disk_bytes(daemon):
    """What the folder takes up. A file may go while it is looked at."""
    total = 0
    for path in pathlib.Path(daemon.data).rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            pass
    return total


def metrics(daemon):
    """Those of the disk, the log and its cleaning."""
    lines = daemon.request("GET", "/metrics")[2].decode().splitlines()
    names = ("tally_disk_", "tally_log_", "tally_cleaning_")
    return {line.split()[0]: float(line.split()[1]) for line in lines if line.startswith(names)}


class Load:
    """Sends in tens: the first to "old", where they stay, one to "poison", where nobody can work it off, the rest to
    "young"."""

    def __init__(self, daemon):
        self.line = Connection(daemon.port)
        self.next_key = 0
        self.kept = set()  # acknowledged
        self.maybe = set()  # sent, the reply was lost

    def send(self, queue, count, is_kept):
        keys = range(self.next_key, self.next_key + count)
        self.next_key += count
        if is_kept:
            self.maybe.update(keys)
        entries = [{"Id": str(key), "MessageBody": body_of(key)} for key in keys]
        answer = self.line.ok("AmazonSQS.SendMessageBatch", {"QueueUrl": url(queue), "Entries": entries})
        assert len(answer["Successful"]) == count
        if is_kept:
            self.kept.update(keys)
            self.maybe.difference_update(keys)

    def receive(self, queue, **more):
        return self.line.ok("AmazonSQS.ReceiveMessage",
                            {"QueueUrl": url(queue), "MaxNumberOfMessages": 10, **more}).get(
                                "Messages", []
                            )

    def delete(self, queue, messages):
        entries = [{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(messages)]
        if entries:
            self.line.ok("AmazonSQS.DeleteMessageBatch", {"QueueUrl": url(queue), "Entries": entries})

    def round(self, number):
        self.send("young", 8, False)
        if number % 2 == 0:
            self.send("old", 1, True)
        if number % 20 == 0:
            self.send("poison", 1, True)
        self.receive("poison", VisibilityTimeout=0)
        self.delete("young", self.receive("young"))

    def take_all(self, *queues):
        """The keys of all that is there, each with its body as it was sent."""
        found = []
        for queue in queues:
            while messages := self.receive(queue, VisibilityTimeout=3600):
                for message in messages:
                    key = int(message["Body"].split(":")[0])
                    assert message["Body"] == body_of(key)
                    found.append(key)
        return found


def start(daemon_factory):
    daemon = daemon_factory(*OPTIONS).start()
    make_queue(daemon, "dead")
    make_queue(daemon, "old", MessageRetentionPeriod="1209600")
    make_queue(daemon, "young")
    arn = "arn:aws:sqs:us-east-1:000000000000:dead"
    make_queue(
        daemon, "poison", RedrivePolicy=json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 3}),
        VisibilityTimeout="0"
    )
    return daemon


def expect_all(load):
    found = load.take_all("old", "poison", "dead")
    assert len(found) == len(set(found)), "a message came twice"
    assert load.kept <= set(found), "a message was lost"
    assert set(found) <= load.kept | load.maybe


def test_the_disk_stays_within_its_bound_while_old_messages_lie_between_young_ones(daemon_factory):
    daemon = start(daemon_factory)
    load = Load(daemon)
    load.send("old", 1, True)  # the one that is kept for 14 days
    worst = 0
    now = metrics(daemon)
    for number in range(ROUNDS):
        load.round(number)
        if number % 10 == 0:
            used = disk_bytes(daemon)
            before, now = now, metrics(daemon)
            worst = max(worst, used / now["tally_disk_bound_bytes"])
            assert used <= now["tally_disk_bound_bytes"], f"after {number} rounds: {used} bytes, {now}"
            counted = max(before["tally_disk_bytes"], now["tally_disk_bytes"])  # segments may have gone in between
            assert used <= counted * 1.1 + (4 << 20), f"the daemon counts less than there is: {used}, {before}, {now}"
    now = metrics(daemon)
    sent = load.next_key * BODY
    print(f"sent {sent >> 20} MiB, {len(load.kept)} kept; at most {worst:.2f} of the bound; {now}")
    if ROUNDS >= ROUNDS_THAT_TELL:
        assert now["tally_cleaning_moved_bytes_total"] > 0
        assert sent > 1.3 * now["tally_disk_bound_bytes"]
    daemon.kill9()
    daemon.start()
    load.line.close()
    expect_all(load)


@pytest.mark.parametrize("seed", range(scaled(2)))
def test_a_kill_while_the_log_is_cleaned_loses_nothing(daemon_factory, seed):
    """Each kill comes some milliseconds after the cleaner has begun to move."""
    daemon = start(daemon_factory)
    load = Load(daemon)
    for kill in range(scaled(4)):
        for number in range(CLEANED_WITHIN):
            load.round(number)
            if number % 5 == 0 and metrics(daemon)["tally_cleaning_moved_bytes_total"] > 0:
                break
        else:
            pytest.fail(f"nothing was moved in {CLEANED_WITHIN} rounds")
        killer = threading.Timer(0.01 * ((kill + seed) % 4), daemon.process.kill)
        killer.start()
        try:
            for number in itertools.count():
                load.round(number)
        except (Lost, OSError):
            pass
        killer.join()
        daemon.kill9()
        daemon.start()
        load.line.close()
    expect_all(load)
