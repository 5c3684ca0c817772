#!/usr/bin/python3
"""The campaign of kills of the owner of a log in PostgreSQL. Of two nodes one serves and the other one stands by. The
one that serves is killed again and again, at random moments, under load, while a queue holds many messages (scenarios
K1 and K22).

What must hold, whatever is killed:
  - what was acknowledged is there; nothing comes back after its delete was acknowledged, or within a lease;
  - each batch completes once; groups keep their order; what has an id is there once; fencing tokens grow;
  - an SDK that repeats what got a 503 or no answer, with ids, sees each message once and in order;
  - of each kill comes one takeover, and not one more;
  - each of the messages that waited all the while comes once at the end.
And from a kill to the first write that the next node acknowledges it takes a second in the middle and two at worst,
where the stand-by had applied what there was. Some kills do not wait for that; their times are told apart.

    make campaign-kills CAMPAIGN='--kills 100 --messages 1000000'

Standard output: one line of JSON with the figures. Exit status 0: all of it held."""

import argparse
import os
import pathlib
import random
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "system"))

from balancer import Balancer  # noqa: E402
from campaign import report, run_to_its_end  # noqa: E402
from conftest import PATIENCE, clean_environment  # noqa: E402
from logs import Traffic, create_queue  # noqa: E402
from nodes import Cluster  # noqa: E402
from postgres import Postgres  # noqa: E402
from sdk_repeats import SdkCheck  # noqa: E402
from test_kill9 import counts  # noqa: E402
from wire import Connection, Crowd, request_bytes  # noqa: E402

ENTRIES = 10
LINES = 8
REST_EACH = 20  # kills: each takeover renews the leases in hand, so only a rest lets them end
LEASE = 2  # seconds, of the load's receives
FAULTS = ("takeovers_too_many", "lost", "twice", "late")


class Waiting:
    """A queue whose messages wait all the while."""

    def __init__(self, count):
        self.count = count
        self.twice = 0

    def fill(self, port):
        with Connection(port) as line:
            self.queue = create_queue(line, "waiting")
        with Crowd(port, LINES) as crowd:
            for first in range(0, self.count, 1000 * ENTRIES):
                last = min(self.count, first + 1000 * ENTRIES)
                answers = crowd.ask_all([self._send(range(at, min(at + ENTRIES, last)))
                                         for at in range(first, last, ENTRIES)])
                assert all(answer.status == 200 and b'"Failed":[{' not in answer.body for answer in answers)

    def _send(self, numbers):
        entries = [{"Id": str(number), "MessageBody": f"{number} ".ljust(200, "w")} for number in numbers]
        return request_bytes("AmazonSQS.SendMessageBatch", {"QueueUrl": self.queue, "Entries": entries})

    def drain(self, port):
        """Receives and deletes all. How many were lost."""
        seen = bytearray(self.count)
        asked = {"QueueUrl": self.queue, "MaxNumberOfMessages": ENTRIES, "VisibilityTimeout": 600}
        receive = request_bytes("AmazonSQS.ReceiveMessage", asked)
        with Crowd(port, LINES) as crowd:
            while True:
                received = [answer.json()["Messages"] for answer in crowd.ask([receive] * LINES)
                            if b"ReceiptHandle" in answer.body]
                if not received:
                    break
                for message in (message for messages in received for message in messages):
                    number = int(message["Body"].split(" ")[0])
                    self.twice += seen[number]
                    seen[number] = 1
                for answer in crowd.ask([self._delete(messages) for messages in received]):
                    assert answer.status == 200 and b"ReceiptHandleIsInvalid" not in answer.body, answer.body
        with Connection(port) as line:
            assert counts(line, self.queue) == [0, 0, 0]
        return self.count - sum(seen)

    def _delete(self, messages):
        entries = [{"Id": str(at), "ReceiptHandle": message["ReceiptHandle"]} for at, message in enumerate(messages)]
        return request_bytes("AmazonSQS.DeleteMessageBatch", {"QueueUrl": self.queue, "Entries": entries})


class Probe:
    """See probe.py."""

    def __init__(self, queue):
        self.process = subprocess.Popen([sys.executable, "-B", str(HERE / "probe.py"), queue], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=clean_environment())

    def begin(self, port):
        self.process.stdin.write(f"{port}\n")
        self.process.stdin.flush()

    def answered_at(self):
        line = self.process.stdout.readline()
        assert line, "the probe has given up"
        return float(line)

    def close(self):
        self.process.kill()
        self.process.communicate()


def quantile(times, share):
    return round(1000 * sorted(times)[min(len(times) - 1, int(share * len(times)))]) if times else None


class Campaign:
    def __init__(self, folder, given, options=()):
        self.given, self.chance = given, random.Random(given.seed)
        self.times, self.early = [], []
        self.folder, self.options = folder, options
        self.cluster = self.probe = self.balancer = self.traffic = None
        self.waiting = Waiting(given.messages)
        self.server = Postgres(folder / "postgres", is_quick=False, fsync="on", shared_buffers="128MB",
                               max_wal_size="1GB")

    def begin(self):
        self.load_before = os.getloadavg()[0]
        self.server.start()
        self.cluster = Cluster(self.server, self.folder)
        self.owner, self.other = (self.cluster.node(name, *self.options) for name in ("one", "two"))
        self.owner.start().wait_ready()
        began_at = time.monotonic()
        self.waiting.fill(self.owner.port)
        self.fill_seconds = time.monotonic() - began_at
        self.other.start()
        self.cluster.wait_followed(600)
        with Connection(self.owner.port) as line:
            self.probe = Probe(create_queue(line, "probe"))
        self.balancer = Balancer(self.cluster.nodes)
        self.sdk = SdkCheck(self.balancer.url)
        self.traffic = Traffic(self.cluster)

    def kill(self, number):
        is_early = self.chance.random() < self.given.early
        self.other.wait_standing_by(60)
        if not is_early:
            self.cluster.wait_followed(120)
        if number % REST_EACH == REST_EACH - 1:
            time.sleep(1.2 * LEASE)
        time.sleep(self.given.pause * self.chance.random())
        self.probe.begin(self.other.port)
        time.sleep(0.02)
        killed_at = time.monotonic()
        self.owner.kill9()
        (self.early if is_early else self.times).append(self.probe.answered_at() - killed_at)
        self.traffic.check()
        assert not self.sdk.faults, self.sdk.faults[:5]
        self.owner, self.other = self.other, self.owner
        self.other.start()

    def run(self):
        self.begin()
        for number in range(self.given.kills):
            self.kill(number)
            self.tell(number + 1)
        load_after = os.getloadavg()[0]
        self.sdk.finish()
        self.traffic.finish()
        lost = self.waiting.drain(self.owner.port)
        record = self.traffic.load.record
        return {
            "waiting": self.waiting.count, "kills": self.given.kills,
            "median_ms": quantile(self.times, 0.5), "p90_ms": quantile(self.times, 0.9),
            "worst_ms": quantile(self.times, 1), "early": len(self.early), "early_median_ms": quantile(self.early, 0.5),
            "early_worst_ms": quantile(self.early, 1),
            "late": self.count_late(), "takeovers_too_many": self.cluster.head()[0] - self.given.kills - 1,
            "lost": lost, "twice": self.waiting.twice,
            "requests": record.requests, "lost_replies": record.lost, "messages": len(record.sent),
            "batches": len(record.batches), "in_groups": self.traffic.fifo.acknowledged, "by_sdk": self.sdk.sent,
            "sdk_503": self.sdk.statuses[503], "sdk_unanswered": self.sdk.statuses[0],
            "fill_s": round(self.fill_seconds), "load": [round(self.load_before, 1), round(load_after, 1)],
        }

    def count_late(self):
        """How many takeovers the bar does not allow."""
        is_slow = bool(self.times) and quantile(self.times, 0.5) > 1000 * self.given.median
        return is_slow + sum(took > self.given.worst for took in self.times)

    def tell(self, kills):
        if sys.stderr.isatty() or kills % 10 == 0:
            print(f"{kills} kills, median {quantile(self.times, 0.5)} ms, worst {quantile(self.times, 1)} ms, load "
                  f"{os.getloadavg()[0]:.1f}", file=sys.stderr)

    def stop(self):
        if self.traffic is not None:
            self.traffic.abandon()
        if self.balancer is not None:
            self.balancer.close()
        if self.probe is not None:
            self.probe.close()
        if self.cluster is not None:
            self.cluster.stop()
        self.server.stop("immediate")


def run_campaign(folder, given, options=()):
    return run_to_its_end(Campaign(pathlib.Path(folder), given, options))


def parse(words=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--messages", type=int, default=1000000, help="that wait all the while")
    parser.add_argument("--pause", type=float, default=2, help="seconds, at most, before a kill")
    parser.add_argument("--early", type=float, default=0.1, help="share of the kills that wait for no stand-by")
    parser.add_argument("--median", type=float, default=1 * PATIENCE, help="seconds of a takeover that are allowed")
    parser.add_argument("--worst", type=float, default=2 * PATIENCE, help="seconds of the longest takeover")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(1 << 32)), help="of the moments")
    return parser.parse_args(words)


def main():
    given = parse()
    report(lambda folder: run_campaign(folder, given), given.seed, FAULTS)


if __name__ == "__main__":
    main()
