#!/usr/bin/python3
"""The campaign of relays: writers fill an outbox, two relays carry it to Tally, a drain takes the messages out, and
relays, the daemon and the database (PostgreSQL, or MariaDB with --type mysql) are killed at random all the while. Some
transactions are rolled back, some stay open for long, some overlap.

What must hold is counted from what arrived and from a ledger that each transaction writes beside its rows:
  - every row that was committed is one message, and no row that was rolled back is one;
  - of one key, the messages stand in the queue in the order in which their rows were committed.
The queues remember no deduplication ids, so that a second message of one row would be seen; one that is delivered
twice has one MessageId.

    make campaign-relay CAMPAIGN='--rows 200000 --kills 500 --keys 1000'
    make campaign-relay CAMPAIGN='--type mysql --rows 50000 --kills 200'

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
import pymysql  # noqa: E402

from campaign import report, run_to_its_end  # noqa: E402
from conftest import PATIENCE, Daemon, wait_until  # noqa: E402
from mysql_server import MysqlServer  # noqa: E402
from outbox_mysql import MysqlOutbox  # noqa: E402
from postgres import Postgres  # noqa: E402
from relay import Relay, install_outbox, outbox_count  # noqa: E402
from wire import Connection, Lost  # noqa: E402

QUEUES = 4
WRITERS = 6
DRAINS = 3


class PostgresDatabase:
    """What the campaign needs of the database that has the outbox."""

    Error = psycopg2.Error

    def __init__(self, folder):
        self.server = Postgres(folder / "postgres", synchronous_commit="on").start()
        self.source = self.server.uri
        install_outbox(self.server)
        self.server.sql("CREATE TABLE ledger (key int, number int)")

    def connect(self):
        return psycopg2.connect(self.server.uri)

    def send(self, cursor, queue, body, group):
        cursor.execute("SELECT tally.send(%s, %s, %s)", (queue, body, group))

    def note(self, cursor, keys, number):
        cursor.execute("INSERT INTO ledger SELECT unnest(%s), %s", (keys, number))

    def ledger(self):
        return self.server.sql("SELECT key, number FROM ledger")

    def count(self):
        return outbox_count(self.server)

    def count_parked(self):
        return self.server.sql("SELECT count(*) FROM tally.dead")[0][0]

    def highest_id(self):
        return self.server.sql("SELECT last_value FROM tally.outbox_id_seq")[0][0]

    def stop(self):
        self.server.stop("immediate")


class MysqlDatabase:
    Error = pymysql.Error

    def __init__(self, _folder):
        self.server = MysqlServer().start()
        self.outbox = MysqlOutbox(self.server)
        self.source = self.outbox.source
        self.outbox.ask("CREATE TABLE ledger (`key` int, number int)")

    def connect(self):
        return self.outbox.connect(autocommit=False)

    def send(self, cursor, queue, body, group):
        cursor.execute("INSERT INTO tally_outbox(queue, body, group_id) VALUES (%s, %s, %s)", (queue, body, group))

    def note(self, cursor, keys, number):
        cursor.executemany("INSERT INTO ledger VALUES (%s, %s)", [(key, number) for key in keys])

    def ledger(self):
        return self.outbox.ask("SELECT `key`, number FROM ledger")

    def count(self):
        return self.outbox.count()

    def count_parked(self):
        return self.outbox.count("tally_dead")

    def highest_id(self):
        return self.outbox.highest_id()

    def stop(self):
        self.server.kill9()


DATABASES = {"postgres": PostgresDatabase, "mysql": MysqlDatabase}


class Campaign:
    def __init__(self, folder, rows, kills, keys, seed, kind="postgres"):
        self.rows, self.kills, self.keys, self.seed = rows, kills, keys, seed
        self.lock = threading.Lock()
        self.written = 0  # rows of transactions that ended
        self.killed = collections.Counter()
        self.messages = {}  # MessageId -> (key, number, SequenceNumber)
        self.errors = []
        self.is_over = threading.Event()  # for the drains
        self.database = DATABASES[kind](folder)
        self.daemon = Daemon(folder).start()
        with Connection(self.daemon.port) as line:
            for queue in range(QUEUES):
                line.ok("AmazonSQS.CreateQueue", {"QueueName": f"rows-{queue}.fifo", "Attributes": {
                    "FifoQueue": "true", "Tally.DeduplicationWindow": "0"}})
        source = self.database.source
        self.relays = [Relay(self.daemon.endpoint, source, "queue", "--lease", 1, name=f"relay-{i}").start()
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
                connection = connection or self.database.connect()
                number += 1
                count = self.write_one(connection, chance, keys, number)
                with self.lock:
                    self.written += count
            except self.database.Error:  # it was killed; whether it was committed, the ledger knows
                connection = None
                time.sleep(0.05)
        if connection:
            connection.close()

    def write_one(self, connection, chance, keys, number):
        chosen = chance.sample(keys, min(len(keys), chance.choice([1, 1, 1, 2, 5, 30])))
        with connection.cursor() as cursor:
            for key in chosen:
                self.database.send(cursor, f"rows-{key % QUEUES}.fifo",
                                   f"{key} {number} {'x' * chance.choice([0, 100, 3000])}", f"key-{key}")
            self.database.note(cursor, chosen, number)
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
            what = chance.choices(["relay", "daemon", "database"], [6, 2, 2])[0]
            if what == "relay":
                relay = self.pick_relay(chance)
                relay.kill9()
                relay.start()
            elif what == "daemon":
                self.daemon.kill9()
                time.sleep(chance.random() * 0.3)
                self.daemon.start()
            else:
                self.database.server.kill9()
                time.sleep(chance.random() * 0.3)
                self.database.server.start()
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
        committed = collections.Counter(self.database.ledger())
        patience = max(120, self.rows / 200)  # seconds: a backlog of most rows on a busy machine
        wait_until(lambda: self.database.count() == 0, patience, "an empty outbox")
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
            "parked": self.database.count_parked(),
            "rolled_back_or_unknown": self.database.highest_id() - len(committed),
        }

    def stop(self):
        self.is_over.set()
        for relay in self.relays:
            relay.kill9()
        self.daemon.kill9()
        self.database.stop()


FAULTS = ("lost", "not_committed", "twice", "out_of_order", "parked")


def run_campaign(folder, rows, kills, keys, seed, kind="postgres"):
    return run_to_its_end(Campaign(pathlib.Path(folder), rows, kills, keys, seed, kind))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--type", choices=list(DATABASES), default="postgres", help="the kind of the database")
    parser.add_argument("--rows", type=int, default=200000)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(1 << 32)), help="of what is random here")
    given = parser.parse_args()
    report(lambda folder: run_campaign(folder, given.rows, given.kills, given.keys, given.seed, given.type),
           given.seed, FAULTS)


if __name__ == "__main__":
    main()
