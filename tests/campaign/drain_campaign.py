#!/usr/bin/python3
"""The campaign of moving in: a second daemon holds messages, a relay of the first one drains it, and both daemons, the
relay with its own, are killed at random all the while.

What must hold is counted from what stands in the queue at the end:
  - every message of the source is one message here, with its own MessageId as Tally.OutboxId;
  - of one group, the messages stand in the order in which they were sent there;
  - the source is empty.

    make campaign-drain CAMPAIGN='--messages 100000 --kills 100 --fifo'

Standard output: one line of JSON with what was counted. Exit status 0: all of it held."""

import argparse
import collections
import contextlib
import pathlib
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))

from campaign import report, run_to_its_end  # noqa: E402
from conftest import Daemon, wait_until  # noqa: E402
from wire import Connection, Lost  # noqa: E402

LEASE = 5  # seconds: as long as what a killed relay had is waited for


class Campaign:
    def __init__(self, folder, messages, kills, groups, is_fifo, seed):
        self.messages, self.kills, self.groups, self.is_fifo, self.seed = messages, kills, groups, is_fifo, seed
        self.queue = "moved.fifo" if is_fifo else "moved"
        self.killed = collections.Counter()
        self.uids = {}  # (group, number) -> MessageId at the source
        self.daemons = {}
        for name in ("source", "sink"):
            (folder / name).mkdir()
            self.daemons[name] = Daemon(folder / name).start()
            with Connection(self.daemons[name].port) as line:
                line.ok("AmazonSQS.CreateQueue", {
                    "QueueName": self.queue, "Attributes": {"FifoQueue": "true"} if is_fifo else {}})

    # --- the work -----------------------------------------------------------------------------------------------------

    def fill(self):
        with Connection(self.daemons["source"].port) as line:
            for first in range(0, self.messages, 10):
                count = min(10, self.messages - first)
                entries = [self.entry(number, i) for i, number in enumerate(range(first, first + count))]
                answer = line.ok("AmazonSQS.SendMessageBatch", {"QueueUrl": self.queue, "Entries": entries})
                for sent in answer["Successful"]:
                    self.uids[first + int(sent["Id"])] = sent["MessageId"]

    def entry(self, number, i):
        group = f"group-{number % self.groups}"
        more = {"MessageGroupId": group, "MessageDeduplicationId": str(number)} if self.is_fifo else {}
        return {"Id": str(i), "MessageBody": f"{group} {number}", **more}

    def begin(self):
        with Connection(self.daemons["sink"].port) as line:
            line.ok("Tally.CreateRelay", {
                "RelayName": "move", "Sink": {"Type": "queue", "QueueUrl": self.queue},
                "Source": {"Type": "sqs", "LeaseSeconds": LEASE,
                           "QueueUrl": f"{self.daemons['source'].endpoint}/000000000000/{self.queue}"}})

    def count(self, name):
        """Messages of the queue there; None: it does not answer just now."""
        with contextlib.suppress(Lost, OSError), Connection(self.daemons[name].port, seconds=10) as line:
            attributes = line.ok(
                "AmazonSQS.GetQueueAttributes", {"QueueUrl": self.queue, "AttributeNames": ["All"]})["Attributes"]
            return sum(int(value) for key, value in attributes.items() if key.startswith("ApproximateNumberOfMessages"))
        return None

    def kill_all_the_while(self):
        """Kills and messages go along together, so that there is something in flight at each kill."""
        chance = random.Random(f"{self.seed} kills")
        while sum(self.killed.values()) < self.kills:
            if (self.count("sink") or 0) * self.kills < sum(self.killed.values()) * self.messages:
                time.sleep(0.01)
                continue
            time.sleep(chance.random() * 0.1)
            name = chance.choice(list(self.daemons))
            self.daemons[name].kill9()
            time.sleep(chance.random() * 0.1)
            self.daemons[name].start()
            self.killed[name] += 1

    # --- the judgement ------------------------------------------------------------------------------------------------

    def take_all(self):
        """Everything in the queue: (number, group, uid), in the order in which it is given out."""
        taken = []
        with Connection(self.daemons["sink"].port, seconds=60) as line:
            while True:
                answer = line.ok("AmazonSQS.ReceiveMessage", {
                    "QueueUrl": self.queue, "MaxNumberOfMessages": 10, "VisibilityTimeout": 3600,
                    "MessageAttributeNames": ["All"]})
                messages = answer.get("Messages", [])
                if not messages:
                    return taken
                for message in messages:
                    group, number = message["Body"].split(" ")
                    taken.append((int(number), group, message["MessageAttributes"]["Tally.OutboxId"]["StringValue"]))
                line.ok("AmazonSQS.DeleteMessageBatch", {"QueueUrl": self.queue, "Entries": [
                    {"Id": str(i), "ReceiptHandle": message["ReceiptHandle"]} for i, message in enumerate(messages)]})

    def judge(self, seconds):
        taken = self.take_all()
        arrived = collections.Counter(number for number, _, _ in taken)
        out_of_order, last = 0, {}
        for number, group, _ in taken:
            out_of_order += self.is_fifo and number < last.get(group, -1)
            last[group] = number
        return {
            "messages": len(taken), "kills": dict(self.killed), "lost": len(self.uids.keys() - arrived.keys()),
            "twice": sum(times - 1 for times in arrived.values()), "out_of_order": out_of_order,
            "of_another_uid": sum(self.uids.get(number) != uid for number, _, uid in taken),
            "left": self.count("source"), "drain_seconds": round(seconds, 1), "per_second": round(len(taken) / seconds),
        }

    def run(self):
        self.fill()
        began = time.monotonic()
        self.begin()
        killer = threading.Thread(target=self.kill_all_the_while, daemon=True)
        killer.start()
        patience = max(120, self.messages / 200 + self.kills * LEASE)
        wait_until(lambda: self.count("source") == 0, patience, "an empty source")
        seconds = time.monotonic() - began
        killer.join(patience)
        killed = sum(self.killed.values())
        assert killed == self.kills, f"{killed} of {self.kills} kills: the killer has failed, or is late"
        return self.judge(seconds)

    def stop(self):
        for daemon in self.daemons.values():
            daemon.kill9()


FAULTS = ("lost", "twice", "out_of_order", "of_another_uid", "left")


def run_campaign(folder, messages, kills, groups, is_fifo, seed):
    return run_to_its_end(Campaign(pathlib.Path(folder), messages, kills, groups, is_fifo, seed))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=100000)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--fifo", action="store_true", help="from a FIFO queue into one")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(1 << 32)), help="of what is random here")
    given = parser.parse_args()
    report(lambda folder: run_campaign(folder, given.messages, given.kills, given.groups, given.fifo, given.seed),
           given.seed, FAULTS)


if __name__ == "__main__":
    main()
