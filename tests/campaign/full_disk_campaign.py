#!/usr/bin/python3
"""The campaign of the full disk: a daemon on a small file system that becomes full, by Tally itself or by somebody
else, is drained while it stays full, killed in the middle, started again, and goes on by itself when there is room.

What must hold:
  - every message whose send was acknowledged is received, and none is received after its deletion was acknowledged;
  - the daemon never ends by itself, and after a kill starts again on the full disk;
  - every queue is drained to its end while the disk stays full; and when it has room, sends are taken again.

    make campaign-full-disk ROUNDS=20

Standard output: one line of JSON with what was counted. Exit status 0: all of it held."""

import argparse
import json
import multiprocessing
import pathlib
import random
import re
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))

from conftest import Daemon  # noqa: E402
from small_disk import MIB, Hog, NoMount, free_bytes, small_disk  # noqa: E402
from wire import Connection, Lost, request_bytes  # noqa: E402

PROCESSES = 4
LINES = 6  # connections of each
ENTRIES = 10
QUEUE = "full"
UNSENT, SENT, ENDED, LATE = 0, 1, 2, 3  # late: deleted when the lease may have been over, so it may come back once
MESSAGE = re.compile(rb'"ReceiptHandle":"([^"]+)".*?"Body":"(\d+)')


class Lines:
    """Some connections that ask at once. Whatever is lost is asked again, as often as it takes: all that is asked may
    be repeated."""

    def __init__(self, port):
        self.connections = [Connection(port) for _ in range(LINES)]

    def ask(self, requests):
        """The answers, None where the server went away before it came."""
        asked = list(zip(self.connections, requests))
        written = []
        for connection, request in asked:
            try:
                connection.write(request)
                written.append(connection)
            except Lost:
                written.append(None)
        answers = []
        for connection in written:
            try:
                answers.append(connection.answer() if connection is not None else None)
            except Lost:
                answers.append(None)
        if None in answers:
            time.sleep(0.05)
        return answers


def body_of(number, size):
    return f"{number} ".ljust(size, "x")


def send_all(port, url, states, numbers, size, stops_when_full, counts):
    """Sends these numbers; the states say which were acknowledged. A send whose reply was lost is not repeated: nobody
    knows of it."""
    lines = Lines(port)
    todo = list(numbers)
    while todo:
        batches = [todo[at : at + ENTRIES] for at in range(0, min(len(todo), LINES * ENTRIES), ENTRIES)]
        requests = [
            request_bytes("AmazonSQS.SendMessageBatch", {"QueueUrl": url, "Entries": [
                {"Id": str(number), "MessageBody": body_of(number, size)} for number in batch]})
            for batch in batches
        ]
        left = todo[len(batches) * ENTRIES :]
        refused = []
        for batch, answer in zip(batches, lines.ask(requests)):
            if answer is None:
                continue
            if answer.status == 503:
                refused += batch
                continue
            assert answer.status == 200, answer.body
            for number in batch:
                states[number] = SENT
        todo = refused + left
        if refused:
            counts[0] += 1
            if stops_when_full:
                return
            time.sleep(0.05)


def drain(port, url, states, is_over, spared, counts, seed, lag, lease_s):
    """Receives and deletes until is_over. Up to `lag` messages are held, and deleted in no order. One in so many as
    `spared` says is not deleted while it says so: then in every segment something lives."""
    draw = random.Random(seed)
    lines = Lines(port)
    receive = request_bytes("AmazonSQS.ReceiveMessage", {
        "QueueUrl": url, "MaxNumberOfMessages": ENTRIES, "VisibilityTimeout": lease_s})
    held = []
    while True:
        fresh = 0
        over = is_over.value
        lease_ends = time.monotonic() + lease_s
        for answer in lines.ask([receive] * LINES):
            if answer is None or answer.status == 503:
                counts[1] += answer is not None
                continue
            assert answer.status == 200, answer.body
            for handle, number in MESSAGE.findall(answer.body):
                fresh += 1
                number = int(number)
                if states[number] == ENDED:
                    counts[2] += 1
                    print(f"message {number} came back after its deletion", file=sys.stderr)
                if not spared.value or number % spared.value:
                    held.append((handle.decode(), number, lease_ends))
        draw.shuffle(held)
        while len(held) > (lag if fresh and not over else 0):
            held = delete_some(lines, url, states, held, counts)
        if not fresh:
            if over:
                return
            time.sleep(0.02)


def delete_some(lines, url, states, held, counts):
    """Deletes as many as the lines take at once; what is left."""
    batches = [held[at : at + ENTRIES] for at in range(0, min(len(held), LINES * ENTRIES), ENTRIES)]
    requests = [
        request_bytes("AmazonSQS.DeleteMessageBatch", {"QueueUrl": url, "Entries": [
            {"Id": str(place), "ReceiptHandle": handle} for place, (handle, _, _) in enumerate(batch)]})
        for batch in batches
    ]
    left = held[len(batches) * ENTRIES :]
    for batch, answer in zip(batches, lines.ask(requests)):
        if answer is None or answer.status == 503:
            counts[1] += answer is not None
            left += batch
            continue
        assert answer.status == 200, answer.body
        # On a machine that is busy with other work a lease may be over: then a message may be among those held twice.
        now = time.monotonic()
        ended = {batch[int(each["Id"])][1:] for each in answer.json().get("Successful", [])}
        for number, lease_ends in ended:
            if states[number] != ENDED:
                states[number] = ENDED if now < lease_ends else LATE
        counts[3] += len({number for number, _ in ended})
        for each in answer.json().get("Failed", []):
            # On a machine that is busy with other work a lease may be over: then it is somebody else's by now.
            assert each["SenderFault"] and each["Code"] == "InvalidParameterValue", each
    return left


class Campaign:
    def __init__(self, folder, options):
        self.folder = folder
        self.options = options
        self.draw = random.Random(options.seed)
        home = folder / "home"
        home.mkdir()
        more = [word for word in (options.daemon or "").split() if word]
        self.daemon = Daemon(home, more or ("--segment-size", "44MiB"))
        self.daemon.data = folder / "disk" / "data"
        self.counts = multiprocessing.Array("q", 4)  # refused sends, refused others, twice, deleted
        self.states = None
        self.lost = self.sent = self.kills = 0
        self.longest_down = 0.0
        self.unasked_ends = 0

    def start(self):
        begun = time.monotonic()
        self.daemon.start()
        return time.monotonic() - begun

    def kill(self):
        if self.daemon.process.poll() is not None:
            self.unasked_ends += 1
            print(self.daemon.error_text()[-2000:], file=sys.stderr)
        self.daemon.kill9()
        self.kills += 1

    def kill_and_start(self):
        self.kill()
        self.longest_down = max(self.longest_down, self.start())

    def run_all(self, work, arguments):
        processes = [multiprocessing.Process(target=work, args=each, daemon=True) for each in arguments]
        for process in processes:
            process.start()
        return processes

    def join(self, processes, seconds):
        deadline = time.monotonic() + seconds
        while any(process.is_alive() for process in processes):
            assert time.monotonic() < deadline, f"not done after {seconds} s: {self.say()}"
            if self.daemon.process.poll() is not None:
                self.unasked_ends += 1
                print(self.daemon.error_text()[-2000:], file=sys.stderr)
                self.daemon.kill9()
                self.start()
            time.sleep(0.05)
        for process in processes:
            assert process.exitcode == 0, "a client failed"

    def say(self):
        metrics = {}
        try:
            text = self.daemon.request("GET", "/metrics")[2].decode()
            metrics = dict(re.findall(r"^(tally_disk_[a-z_]+|tally_messages|tally_log_segments)[^ ]* (\S+)$", text,
                                      re.M))
        except OSError as error:
            metrics = {"error": str(error)}
        return {**metrics, "free": free_bytes(self.folder / "disk")}

    # --- a round ------------------------------------------------------------------------------------------------------

    def url(self):
        with Connection(self.daemon.port) as line:
            return line.ok("AmazonSQS.CreateQueue", {"QueueName": QUEUE})["QueueUrl"]

    def fill(self, limit, size, stops_when_full):
        ranges = [range(at, limit, PROCESSES) for at in range(PROCESSES)]
        return self.run_all(send_all, [
            (self.daemon.port, self.url_text, self.states, each, size, stops_when_full, self.counts)
            for each in ranges])

    def check_refused(self):
        """What grows is refused, as soon as the daemon has looked."""
        with Connection(self.daemon.port) as line:
            deadline = time.monotonic() + 10
            while True:
                answer = line.call("AmazonSQS.CreateQueue", {"QueueName": "one-more"})
                if answer.status == 503 and b"DiskIsFull" in answer.body:
                    return
                assert time.monotonic() < deadline, f"something new is taken on a full disk: {answer.body} {self.say()}"
                if answer.status == 200:
                    line.call("AmazonSQS.DeleteQueue", {"QueueUrl": answer.json()["QueueUrl"]})
                time.sleep(0.05)

    def check_taken_again(self):
        with Connection(self.daemon.port) as line:
            deadline = time.monotonic() + 20
            while True:
                answer = line.call("AmazonSQS.SendMessage", {"QueueUrl": self.url_text, "MessageBody": "again"})
                if answer.status == 200:
                    break
                assert time.monotonic() < deadline, f"sends are still refused: {answer.body} {self.say()}"
                time.sleep(0.05)
            while answer.status != 200 or b"Messages" not in answer.body:
                answer = line.call("AmazonSQS.ReceiveMessage", {"QueueUrl": self.url_text, "WaitTimeSeconds": 5})
            handle = answer.json()["Messages"][0]["ReceiptHandle"]
            line.ok("AmazonSQS.DeleteMessage", {"QueueUrl": self.url_text, "ReceiptHandle": handle})

    def drain_all(self, lag, kills, seconds):
        """To the end, with so many kills in between; how long it took."""
        is_over = multiprocessing.Value("b", 0)
        spared = multiprocessing.Value("i", self.draw.choice((0, 50, 400)))
        begun = time.monotonic()
        processes = self.run_all(drain, [
            (self.daemon.port, self.url_text, self.states, is_over, spared, self.counts, self.draw.random(), lag,
             self.options.lease)
            for _ in range(PROCESSES)])
        todo = sum(1 for state in self.states if state == SENT)
        base = self.counts[3]
        for number in range(kills):
            while self.counts[3] - base < todo * (number + 1) // (kills + 1) and time.monotonic() < begun + seconds:
                time.sleep(0.01)
            self.kill_and_start()
        if spared.value:
            kept = sum(1 for state in self.states[:: spared.value] if state == SENT)
            while sum(1 for state in self.states if state == SENT) > kept and time.monotonic() < begun + seconds:
                assert all(process.is_alive() for process in processes), "a client failed"
                time.sleep(0.2)
            spared.value = 0
        while self.waiting() and time.monotonic() < begun + seconds:
            assert all(process.is_alive() for process in processes), "a client failed"
            time.sleep(0.1)
        took = time.monotonic() - begun
        assert not self.waiting(), f"not drained after {seconds} s: {self.say()}"
        is_over.value = 1
        self.join(processes, 60)
        return took

    def waiting(self):
        """Are there messages in the queue?"""
        try:
            with Connection(self.daemon.port) as line:
                answer = line.call("AmazonSQS.GetQueueAttributes",
                                   {"QueueUrl": self.url_text, "AttributeNames": ["All"]})
                attributes = answer.json()["Attributes"]
        except Lost:
            if self.daemon.process.poll() is not None:
                self.unasked_ends += 1
                print(self.daemon.error_text()[-2000:], file=sys.stderr)
                self.daemon.kill9()
                self.start()
            return True
        names = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible",
                 "ApproximateNumberOfMessagesDelayed")
        return any(int(attributes[name]) for name in names)

    def settle(self):
        """What the round's numbers came to."""
        lost = [number for number, state in enumerate(self.states) if state == SENT]
        self.lost += len(lost)
        self.sent += sum(1 for state in self.states if state in (ENDED, LATE))
        if lost:
            print(f"lost: {lost[:20]}", file=sys.stderr)

    def round(self, number):
        way = ("itself", "others", "down")[number % 3]
        limit = self.options.messages
        size = self.draw.choice((100, 400, 2000))
        if way == "itself":
            size = max(size, self.options.disk * MIB * 5 // 4 // limit)  # so much that it is full before the end
        self.states = multiprocessing.Array("b", limit, lock=False)
        if self.daemon.process is None:
            self.start()
        self.url_text = self.url()
        hog = Hog(self.folder / "disk")
        begun = time.monotonic()
        if way == "itself":
            self.join(self.fill(limit, size, True), 300)
            if number % 2:
                hog.__enter__()
        else:
            senders = self.fill(limit // 2, size, True)
            time.sleep(self.draw.uniform(1, 6))
            if way == "down":
                self.kill()
            hog.__enter__()
            if way == "down":
                hog.wait_until_full()
                self.longest_down = max(self.longest_down, self.start())
            self.join(senders, 300)
        if hog.thread.is_alive():
            hog.wait_until_full()
            self.check_refused()
        counted = sum(1 for state in self.states if state == SENT)
        filled = time.monotonic() - begun
        took = self.drain_all(self.draw.choice((0, 300)) * self.options.lease, self.draw.choice((0, 1, 3)), 600)
        if hog.thread.is_alive():
            hog.__exit__()
        self.check_taken_again()
        self.settle()
        print(f"round {number + 1}: full by {way}, {counted} messages of {size} bytes in {filled:.0f} s, "
              f"drained in {took:.0f} s; {self.kills} kills, {self.unasked_ends} ends by itself, {self.lost} lost, "
              f"{self.counts[2]} twice",
              file=sys.stderr)
        if self.draw.random() < 0.5:
            self.kill_and_start()

    def million(self):
        """So many messages, drained while somebody else keeps the disk at 0 free bytes."""
        self.states = multiprocessing.Array("b", self.options.million, lock=False)
        if self.daemon.process is None:
            self.start()
        self.url_text = self.url()
        self.join(self.fill(self.options.million, 100, True), 600)
        counted = sum(1 for state in self.states if state == SENT)
        with Hog(self.folder / "disk") as hog:
            hog.wait_until_full()
            self.check_refused()
            took = self.drain_all(0, 0, 1200)
        self.check_taken_again()
        self.settle()
        return {"million": counted, "million_seconds": round(took, 1)}

    def run(self):
        for number in range(self.options.rounds):
            self.round(number)
        counted = self.million() if self.options.million else {}
        if self.daemon.process is not None:
            status = self.daemon.stop()
            assert status == 0, status
        return {
            "rounds": self.options.rounds, "messages": self.sent, **counted, "kills": self.kills, "lost": self.lost,
            "twice": self.counts[2], "ended_by_itself": self.unasked_ends,
            "longest_down_seconds": round(self.longest_down, 2),
            "refused_sends": self.counts[0], "refused_others": self.counts[1], "seed": self.options.seed,
        }


def run_campaign(folder, rounds, disk, messages, million, seed, daemon=None, lease=10):
    """What it counted. Raises NoMount."""
    options = argparse.Namespace(
        rounds=rounds, disk=disk, messages=messages, million=million, seed=seed, daemon=daemon, lease=lease
    )
    return run(pathlib.Path(folder), options)


def run(folder, options):
    with small_disk(folder / "disk", options.disk):
        campaign = Campaign(folder, options)
        try:
            return campaign.run()
        finally:
            if campaign.daemon.process is not None:
                campaign.daemon.kill9()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--disk", type=int, default=640, help="MiB of the file system")
    parser.add_argument("--messages", type=int, default=400000, help="at most, in a round")
    parser.add_argument("--million", type=int, default=1000000,
                        help="messages of the last round, on a disk that stays full; 0: none")
    parser.add_argument("--lease", type=int, default=10, help="seconds that a killed client's messages are held")
    parser.add_argument("--daemon", help="options of the daemon, in one word")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tally-full-disk-"))
    begun = time.monotonic()
    try:
        counted = run(folder, options)
    except NoMount as error:
        print(f"skipped: {error}")
        return
    print(json.dumps({**counted, "seconds": round(time.monotonic() - begun)}))
    if counted["lost"] or counted["twice"] or counted["ended_by_itself"]:
        sys.exit(f"{folder} is left as it is")
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
