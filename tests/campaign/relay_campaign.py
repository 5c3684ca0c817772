#!/usr/bin/python3
"""The campaign of relays: writers fill an outbox, two relays carry it to Tally, a drain takes the messages out, and
relays, the daemon and PostgreSQL are killed at random all the while. Some transactions are rolled back, some stay open
for long, some overlap.

What must hold is counted from what arrived and from a ledger that each transaction writes beside its rows:
  - every row that was committed is one message, and no row that was rolled back is one;
  - of one key, the messages stand in the queue in the order in which their rows were committed.
The queues remember no deduplication ids, so that a second message of one row would be seen; one that is delivered
twice has one MessageId.

    make campaign-relay CAMPAIGN='--rows 200000 --kills 500 --keys 1000'

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

import psycopg2  # noqa: E402

from campaign import report, run_to_its_end  # noqa: E402
from conftest import PATIENCE, Daemon, wait_until  # noqa: E402
from postgres import Postgres  # noqa: E402
from relay import Relay, install_outbox, outbox_count  # noqa: E402
from wire import Connection, Lost  # noqa: E402

QUEUES = 4
WRITERS = 6
DRAINS = 3


class Campaign:
    def __init__(self, folder, rows, kills, keys, seed):
        self.rows, self.kills, self.keys, self.seed = rows, kills, keys, seed
        self.lock = threading.Lock()
        self.written = 0  # rows of transactions that ended
        self.killed = collections.Counter()
        self.messages = {}  # MessageId -> (key, number, SequenceNumber)
        self.errors = []
        self.is_over = threading.Event()  # for the drains
        self.postgres = Postgres(folder / "postgres", synchronous_commit="on").start()
        self.daemon = Daemon(folder).start()
        install_outbox(self.postgres)
        self.postgres.sql("CREATE TABLE ledger (key int, number int)")
        with Connection(self.daemon.port) as line:
            for queue in range(QUEUES):
                line.ok("AmazonSQS.CreateQueue", {"QueueName": f"rows-{queue}.fifo", "Attributes": {
                    "FifoQueue": "true", "Tally.DeduplicationWindow": "0"}})
        self.relays = [Relay(self.daemon.endpoint, self.postgres.uri, "queue", "--lease", 1, name=f"relay-{i}").start()
                       for i in range(2)]

    # --- writers ------------------------------------------------------------------------------------------------------

    def is_ahead(self):
        """Rows and kills go along together, so that there is something in flight at each kill."""
        return self.written * self.kills > self.rows * (sum(self.killed.values()) + 1)

    def write(self, writer):
        """Transactions one after the other; the keys are this writer's own, so their numbers rise in the order of the
        commits."""
        chance = random.Random(f"{self.seed} {writer}")
        keys = range(writer, self.keys, WRITERS)
        number = 0
        connection = None
        while self.written < self.rows:
            if self.is_ahead():
                time.sleep(0.01)
                continue
            try:
                connection = connection or psycopg2.connect(self.postgres.uri)
                number += 1
                count = self.write_one(connection, chance, keys, number)
                with self.lock:
                    self.written += count
            except psycopg2.Error:  # PostgreSQL was killed; whether it was committed, the ledger knows
                connection = None
                time.sleep(0.05)
        if connection:
            connection.close()

    def write_one(self, connection, chance, keys, number):
        chosen = chance.sample(keys, min(len(keys), chance.choice([1, 1, 1, 2, 5, 30])))
        with connection.cursor() as cursor:
            for key in chosen:
                cursor.execute("SELECT tally.send(%s, %s, %s)",
                               (f"rows-{key % QUEUES}.fifo", f"{key} {number} {'x' * chance.choice([0, 100, 3000])}",
                                f"key-{key}"))
            cursor.execute("INSERT INTO ledger SELECT unnest(%s), %s", (chosen, number))
            if chance.random() < 0.02:
                time.sleep(chance.random() * 2)  # an old transaction, whose rows come late
        if chance.random() < 0.1:
            connection.rollback()
            return 0
        connection.commit()
        return len(chosen)

    # --- the drain ----------------------------------------------------------------------------------------------------

    def drain(self, number):
        line = Connection(self.daemon.port, seconds=30)
        while not self.is_over.is_set():
            for queue in range(QUEUES):
                with contextlib.suppress(Lost):
                    self.drain_some(line, f"rows-{(queue + number) % QUEUES}.fifo")
            time.sleep(0.01)
        line.close()

    def drain_some(self, line, queue):
        answer = line.ok("AmazonSQS.ReceiveMessage", {
            "QueueUrl": queue, "MaxNumberOfMessages": 10, "VisibilityTimeout": 5, "AttributeNames": ["All"]})
        messages = answer.get("Messages", [])
        for message in messages:
            key, number, _ = message["Body"].split(" ", 2)
            assert message["Attributes"]["MessageGroupId"] == f"key-{key}"
            with self.lock:
                self.messages[message["MessageId"]] = (
                    int(key), int(number), int(message["Attributes"]["SequenceNumber"]))
        if messages:
            line.ok("AmazonSQS.DeleteMessageBatch", {"QueueUrl": queue, "Entries": [
                {"Id": str(i), "ReceiptHandle": message["ReceiptHandle"]} for i, message in enumerate(messages)]})

    # --- kills --------------------------------------------------------------------------------------------------------

    def kill_all_the_while(self):
        chance = random.Random(f"{self.seed} kills")
        while sum(self.killed.values()) < self.kills and not self.errors:
            if sum(self.killed.values()) * self.rows > self.written * self.kills:
                time.sleep(0.01)
                continue
            time.sleep(chance.random() * 0.3)
            what = chance.choices(["relay", "daemon", "postgres"], [6, 2, 2])[0]
            if what == "relay":
                relay = self.pick_relay(chance)
                relay.kill9()
                relay.start()
            elif what == "daemon":
                self.daemon.kill9()
                time.sleep(chance.random() * 0.3)
                self.daemon.start()
            else:
                self.postgres.kill9()
                time.sleep(chance.random() * 0.3)
                self.postgres.start()
            self.killed[what] += 1

    def pick_relay(self, chance):
        """Mostly the one that works; for that it must be there, but not always."""
        if chance.random() < 0.8:
            deadline = time.monotonic() + 5 * PATIENCE
            while time.monotonic() < deadline:
                active = [relay for relay in self.relays if relay.state.startswith("active")]
                if active:
                    return active[0]
                time.sleep(0.01)
        return chance.choice(self.relays)

    # --- the whole of it ----------------------------------------------------------------------------------------------

    def guard(self, function, *arguments):
        """A thread whose error ends the campaign."""

        def run():
            try:
                function(*arguments)
            except Exception as error:  # noqa: BLE001 shown at the end
                self.errors.append(repr(error))
                raise

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def run(self):
        drains = [self.guard(self.drain, number) for number in range(DRAINS)]
        threads = [self.guard(self.write, writer) for writer in range(WRITERS)] + [self.guard(self.kill_all_the_while)]
        for thread in threads:
            while thread.is_alive() and not self.errors:
                thread.join(0.2)
        assert not self.errors, self.errors
        committed = collections.Counter(self.postgres.sql("SELECT key, number FROM ledger"))
        patience = max(120, self.rows / 200)  # seconds: a backlog of most rows on a busy machine
        wait_until(lambda: outbox_count(self.postgres) == 0, patience, "an empty outbox")
        wait_until(lambda: len(self.messages) >= len(committed) and self.count_left() == 0, patience, "an empty queue")
        self.is_over.set()
        for thread in drains:
            thread.join()
        return self.judge(committed)

    def count_left(self):
        with Connection(self.daemon.port) as line:
            left = 0
            for queue in range(QUEUES):
                attributes = line.ok(
                    "AmazonSQS.GetQueueAttributes", {"QueueUrl": f"rows-{queue}.fifo", "AttributeNames": ["All"]})
                left += sum(int(value) for name, value in attributes["Attributes"].items()
                            if name.startswith("ApproximateNumberOfMessages"))
            return left

    def judge(self, committed):
        arrived = collections.Counter((key, number) for key, number, _ in self.messages.values())
        out_of_order, last = 0, {}
        for key, number, _ in sorted(self.messages.values(), key=lambda message: message[2]):
            out_of_order += number < last.get(key, 0)
            last[key] = number
        return {
            "rows": len(committed), "messages": len(self.messages), "keys": len(last), "kills": dict(self.killed),
            "lost": len(committed.keys() - arrived.keys()), "not_committed": len(arrived.keys() - committed.keys()),
            "twice": sum(times - 1 for times in arrived.values()), "out_of_order": out_of_order,
            "parked": self.postgres.sql("SELECT count(*) FROM tally.dead")[0][0],
            "rolled_back_or_unknown": self.postgres.sql("SELECT last_value FROM tally.outbox_id_seq")[0][0]
            - len(committed),
        }

    def stop(self):
        self.is_over.set()
        for relay in self.relays:
            relay.kill9()
        self.daemon.kill9()
        self.postgres.stop("immediate")


FAULTS = ("lost", "not_committed", "twice", "out_of_order", "parked")


def run_campaign(folder, rows, kills, keys, seed):
    return run_to_its_end(Campaign(pathlib.Path(folder), rows, kills, keys, seed))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200000)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(1 << 32)), help="of what is random here")
    given = parser.parse_args()
    report(lambda folder: run_campaign(folder, given.rows, given.kills, given.keys, given.seed), given.seed, FAULTS)


if __name__ == "__main__":
    main()
