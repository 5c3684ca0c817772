#!/usr/bin/python3
"""The drill of the backup: producers and workers are at work, `tally backup` takes a copy, in every third round the
daemon is killed meanwhile, and each backup is verified, restored and served.

What must hold for each backup:
  - `tallyd --verify` finds it clean, `tallyd --restore` makes a folder of it, and a daemon serves that;
  - every message whose send was acknowledged before the instant is there, unless its delete had begun;
  - no message is there whose send began after the instant, and none whose delete was acknowledged before it;
  - no number comes twice: fencing tokens, SequenceNumbers, MessageIds and positions of feeds of the restored server are
    all above those that the first one gave out, which served on;
  - a backup that did not come to its end leaves nothing behind, in DIR or in the data folder.
And how long the longest send took while a backup was made, beside the longest while none was.

    make campaign-backup ROUNDS=50

Standard output: one line of JSON with what was counted. Exit status 0: all of it held."""

import argparse
import json
import multiprocessing
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))

from conftest import BIN, PATIENCE, WRAPPER, Daemon, Tally, clean_environment, wait_until  # noqa: E402
from wire import Connection, Lost, request_bytes  # noqa: E402

QUEUES = ("plain", "ordered.fifo")
BACKLOG = "backlog"
POOL = "pool"
TOLERANCE = 0.05  # seconds between the server's clock and this one's
SMALL = ["--body-max", "64KiB", "--segment-size", "5MiB", "--snapshot-bytes", "1MiB"]


class Record:
    """What the clients know. Times are of time.time()."""

    def __init__(self):
        self.lock = threading.Lock()
        self.send_begun, self.send_acknowledged = {}, {}
        self.delete_begun, self.delete_acknowledged = {}, {}
        self.ids = set()
        self.newest_sequence = self.newest_token = self.newest_feed = 0
        self.is_over = False


def until_done(record, line, target, body):
    """Asks until there is an answer. None: the server refused it."""
    while not record.is_over:
        try:
            answer = line.call(target, body)
            return answer.json() if answer.status == 200 else None
        except Lost:
            time.sleep(0.02)


class Producer(threading.Thread):
    """Each message has a body that is sent once: a send whose answer was lost is not repeated."""

    def __init__(self, record, port, number):
        super().__init__(daemon=True)
        self.record, self.line, self.number = record, Connection(port), number

    def run(self):
        record, count = self.record, 0
        while not record.is_over:
            count += 1
            queue, body = QUEUES[count % 2], f"{self.number}-{count}"
            request = {"QueueUrl": queue, "MessageBody": body + " " + "x" * random.randrange(2000)}
            if queue.endswith(".fifo"):
                request |= {"MessageGroupId": body, "MessageDeduplicationId": body}
            record.send_begun[body] = time.time()
            try:
                answer = self.line.ok("AmazonSQS.SendMessage", request)
            except Lost:
                time.sleep(0.02)
                continue
            with record.lock:
                record.send_acknowledged[body] = time.time()
                record.ids.add(answer["MessageId"])
                record.newest_sequence = max(record.newest_sequence, int(answer.get("SequenceNumber", 0)))
            time.sleep(0.002)


class Worker(threading.Thread):
    """Deletes two of three messages that it receives."""

    def __init__(self, record, port, queue):
        super().__init__(daemon=True)
        self.record, self.line, self.queue = record, Connection(port), queue

    def run(self):
        record = self.record
        while not record.is_over:
            answer = until_done(record, self.line, "AmazonSQS.ReceiveMessage",
                                {"QueueUrl": self.queue, "MaxNumberOfMessages": 10, "VisibilityTimeout": 2,
                                 "WaitTimeSeconds": 1, "MessageAttributeNames": ["Tally.*"]})
            for message in (answer or {}).get("Messages", []):
                token = int(message["MessageAttributes"]["Tally.FencingToken"]["StringValue"])
                body = message["Body"].split()[0]
                with record.lock:
                    record.newest_token = max(record.newest_token, token)
                if hash(body) % 3 == 0:
                    continue
                record.delete_begun.setdefault(body, time.time())
                done = until_done(record, self.line, "AmazonSQS.DeleteMessage",
                                  {"QueueUrl": self.queue, "ReceiptHandle": message["ReceiptHandle"]})
                if done is not None:
                    record.delete_acknowledged.setdefault(body, time.time())


def probe(port, longest, is_over):
    """Sends one message after the other; `longest` is the longest that one took, in seconds, until somebody sets it to
    0. A process of its own, so that nothing but the server lets it wait."""
    line = Connection(port)
    request = request_bytes("AmazonSQS.SendMessage", {"QueueUrl": "probe", "MessageBody": "p" * 200})
    while not is_over.value:
        begun = time.monotonic()
        try:
            line.write(request)
            line.answer()
        except Lost:
            time.sleep(0.02)
            continue
        longest.value = max(longest.value, time.monotonic() - begun)
        time.sleep(0.003)


def tallyd(*words):
    command = [*WRAPPER, str(BIN / "tallyd"), *(str(word) for word in words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600 * PATIENCE, env=clean_environment(),
                          check=False)


def fill(port, count):
    """The messages that only wait: they make state, snapshot and log large."""
    line = Connection(port)
    for start in range(0, count, 10):
        entries = [{"Id": str(n), "MessageBody": f"{start + n} ".ljust(200, "b")}
                   for n in range(min(10, count - start))]
        line.write(request_bytes("AmazonSQS.SendMessageBatch", {"QueueUrl": BACKLOG, "Entries": entries}))
        assert line.answer().status == 200


def bodies_in(port, queue):
    """All that is in a queue, without touching it."""
    line, found, token = Connection(port), [], {}
    while True:
        page = line.ok("Tally.ListMessages", {"QueueUrl": queue, "Body": "preview", "MaxResults": 1000, **token})
        found += [message["Body"].split()[0] for message in page["Messages"]]
        if "NextToken" not in page:
            return found
        token = {"NextToken": page["NextToken"]}


class Drill:
    def __init__(self, options, folder):
        self.options, self.folder, self.record = options, folder, Record()
        self.daemon = Daemon(folder / "first" if (folder / "first").mkdir() is None else None, SMALL)
        self.tally = Tally(self.daemon.endpoint)
        self.counted = {"rounds": 0, "killed": 0, "failed": 0, "judged": 0, "contents": 0}
        self.longest_during, self.longest_between, self.seconds = [], [], []
        self.longest, self.is_over = multiprocessing.Value("d", 0), multiprocessing.Value("b", 0)

    def run(self):
        self.daemon.start()
        line = Connection(self.daemon.port)
        for name in (*QUEUES, BACKLOG, "probe"):
            fifo = {"Attributes": {"FifoQueue": "true"}} if name.endswith(".fifo") else {}
            line.ok("AmazonSQS.CreateQueue", {"QueueName": name, **fifo})
        line.ok("Tally.CreatePool", {"PoolName": POOL, "ResultQueueUrl": "probe", "Size": 2, "Matcher": "external"})
        fill(self.daemon.port, self.options.messages)
        record, port = self.record, self.daemon.port
        threads = [Producer(record, port, number) for number in range(3)] + [Worker(record, port, q) for q in QUEUES]
        prober = multiprocessing.Process(target=probe, args=(port, self.longest, self.is_over), daemon=True)
        prober.start()
        for thread in threads:
            thread.start()
        try:
            for number in range(self.options.rounds):
                self.round(number)
        finally:
            record.is_over, self.is_over.value = True, 1
            for thread in threads:
                thread.join(60)
            prober.join(60)
            self.daemon.kill9()

    def take_longest(self):
        longest, self.longest.value = self.longest.value, 0
        return longest * 1000

    def offer_ticket(self, number):
        """Something that the pool's feed tells."""
        line = Connection(self.daemon.port)
        until_done(self.record, line, "Tally.OfferTickets", {"PoolName": POOL, "Tickets": [{"TicketId": f"t{number}"}]})
        feed = until_done(self.record, line, "Tally.FeedTickets", {"PoolName": POOL, "From": 0})
        self.record.newest_feed = max(self.record.newest_feed, int(feed["Next"]))

    def round(self, number):
        is_to_be_killed = number % 3 == 2
        to = self.folder / f"backup{number}"
        time.sleep(random.uniform(0.2, 0.5))
        self.offer_ticket(number)
        self.counted["rounds"] += 1
        between = self.take_longest()
        asked = time.time()
        running = self.tally.start("backup", to, "--json")
        if is_to_be_killed:
            time.sleep(random.uniform(0, 0.6 * max(self.seconds, default=0.2)))
            self.daemon.kill9()
            self.daemon.start()
            self.counted["killed"] += 1
        out, complaint = running.communicate(timeout=600 * PATIENCE)
        ended = time.time()
        if not is_to_be_killed:
            self.longest_between.append(between)
            self.longest_during.append(self.take_longest())
            self.seconds.append(ended - asked)
            assert running.returncode == 0, complaint
        if running.returncode == 0:
            self.judge(to, json.loads(out), asked, ended)
        else:
            self.counted["failed"] += 1
            assert not to.exists(), "a backup that failed is there"
        self.wait_empty()

    def wait_empty(self):
        folder = self.daemon.data / "backups"
        wait_until(lambda: not folder.exists() or not any(folder.glob("*.unfinished")), 60,
                   "that nothing is left behind")

    def judge(self, to, said, asked, ended):
        verified = tallyd("--verify", to)
        assert verified.returncode == 0, verified.stdout + verified.stderr
        new = self.folder / "restored"
        restored = tallyd("--restore", to, "--to", new / "data")
        assert restored.returncode != 0 and "can't be made" in restored.stderr  # its parent is not there
        new.mkdir()
        restored = tallyd("--restore", to, "--to", new / "data")
        assert restored.returncode == 0, restored.stdout + restored.stderr
        second = Daemon(new, SMALL).start()
        try:
            self.judge_contents(second, said["Instant"], asked, ended)
            self.judge_numbers(second)
        finally:
            assert second.stop() == 0
        shutil.rmtree(new)
        shutil.rmtree(to)
        self.counted["judged"] += 1

    def judge_contents(self, second, instant, asked, ended):
        record = self.record
        assert asked - TOLERANCE <= instant <= ended + TOLERANCE, (asked, instant, ended)
        here = [body for queue in QUEUES for body in bodies_in(second.port, queue)]
        found = set(here)
        assert len(found) == len(here), "a message is there twice"
        with record.lock:
            sent, begun = dict(record.send_acknowledged), dict(record.send_begun)
            deleting, deleted = dict(record.delete_begun), dict(record.delete_acknowledged)
        before, after = instant - TOLERANCE, instant + TOLERANCE
        lost = [body for body, at in sent.items()
                if at < before and deleting.get(body, after + 1) > after and body not in found]
        late = [body for body in found if begun[body] > after]
        back = [body for body in found if deleted.get(body, after) < before]
        assert not lost, f"{len(lost)} messages that were acknowledged before the instant are lost: {lost[:5]}"
        assert not late, f"{len(late)} messages that were sent after the instant are there: {late[:5]}"
        assert not back, f"{len(back)} messages that were deleted before the instant are back: {back[:5]}"
        count = Connection(second.port).ok("AmazonSQS.GetQueueAttributes", {
            "QueueUrl": BACKLOG, "AttributeNames": ["ApproximateNumberOfMessages"]})["Attributes"]
        assert int(count["ApproximateNumberOfMessages"]) == self.options.messages, count
        self.counted["contents"] += len(found)

    def judge_numbers(self, second):
        """The first server has gone on meanwhile."""
        record, line = self.record, Connection(second.port)
        with record.lock:
            ids, sequence = set(record.ids), record.newest_sequence
            token, feed = record.newest_token, record.newest_feed
        sent = line.ok("AmazonSQS.SendMessage", {"QueueUrl": QUEUES[1], "MessageBody": "new", "MessageGroupId": "new",
                                                 "MessageDeduplicationId": "new"})
        assert int(sent["SequenceNumber"]) > sequence and sent["MessageId"] not in ids
        received = line.ok("AmazonSQS.ReceiveMessage", {
            "QueueUrl": QUEUES[1], "MaxNumberOfMessages": 10, "WaitTimeSeconds": 5,
            "MessageAttributeNames": ["Tally.*"]})
        tokens = [int(message["MessageAttributes"]["Tally.FencingToken"]["StringValue"])
                  for message in received["Messages"]]
        assert min(tokens) > token, (tokens, token)
        line.ok("Tally.OfferTickets", {"PoolName": POOL, "Tickets": [{"TicketId": "new"}]})
        told = line.ok("Tally.FeedTickets", {"PoolName": POOL, "From": feed})
        assert told.get("Resync") and int(told["Next"]) > feed, (told, feed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--messages", type=int, default=1000000, help="that wait all the time")
    parser.add_argument("--folder", type=pathlib.Path, help="for all that it writes; it is emptied")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    random.seed(options.seed)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="backup-", dir=options.folder))
    drill = Drill(options, folder)
    drill.run()
    shutil.rmtree(folder, ignore_errors=True)  # after a failure it stays, to be looked at
    counted = {**drill.counted, "seed": options.seed, "messages": options.messages,
               "backup_seconds_max": round(max(drill.seconds, default=0), 2),
               "longest_send_ms_during": [round(ms, 1) for ms in drill.longest_during],
               "longest_send_ms_between": [round(ms, 1) for ms in drill.longest_between]}
    print(json.dumps(counted))


if __name__ == "__main__":
    main()
