#!/usr/bin/python3
"""The campaign of takeovers: relays of one outbox, of which one works and the others stand by, and the one that works
is killed again and again, each time as soon as all the others stand by (scenario R26). Rows are written all the while.

What must hold:
  - of each kill comes one takeover, and at no time do two relays say that they are active;
  - no relay that was never the owner has read rows of the outbox: the server's log says who ran which statement;
  - every row is one message, in the order of its group.
How long a takeover took, from the kill to the line in which the next one says that it is active, is what the
figures are for. The lease is 30 s, so one that had to wait for its end would be seen at once.

    make campaign-takeover CAMPAIGN='--kills 1000 --standbys 10'

Standard output: one line of JSON with the figures. Exit status 0: all of it held."""

import argparse
import collections
import pathlib
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))

from campaign import report, run_to_its_end  # noqa: E402
from conftest import PATIENCE, Daemon, wait_until  # noqa: E402
from postgres import Postgres  # noqa: E402
from relay import Relay, drain, install_outbox, wait_until_empty  # noqa: E402
from wire import Connection  # noqa: E402

QUEUE = "orders.fifo"
GROUPS = 5
LEASE = 30
SCAN = "ROWS BETWEEN UNBOUNDED PRECEDING"  # the statement that reads rows, and no other, has that
FAULTS = ("double_owners", "takeovers_too_many", "scans_of_non_owners", "lost", "twice", "out_of_order")


class Stage:
    """What the relays have said, in one order, and who is alive."""

    def __init__(self):
        self.changed = threading.Condition()
        self.owners = {}  # epoch -> (relay, when it said so)
        self.active = set()
        self.double_owners = 0

    def hear(self, relay, text):
        with self.changed:
            self.active.discard(relay)
            if text.startswith("active, epoch "):
                epoch = int(text.rsplit(" ", 1)[1])
                self.double_owners += bool(self.active) or self.owners.get(epoch, (relay,))[0] is not relay
                self.active.add(relay)
                self.owners.setdefault(epoch, (relay, time.monotonic()))
            self.changed.notify_all()

    def bury(self, relay):
        with self.changed:
            self.active.discard(relay)

    def wait_for(self, claim, what):
        with self.changed:
            assert self.changed.wait_for(claim, (LEASE + 30) * PATIENCE), f"{what} did not happen"


class Watched(Relay):
    """One that tells the stage, and whom the server's log names: each of its lives has a name of its own."""

    def __init__(self, stage, endpoint, uri, name):
        super().__init__(endpoint, uri, "queue", "--lease", LEASE, name=name)
        self.stage, self.uri, self.lives = stage, uri, 0

    @property
    def life(self):
        return f"{self.name}.{self.lives}"

    def start(self):
        self.lives += 1
        self.command[self.command.index("--source") + 1] = f"{self.uri}?application_name={self.life}"
        return super().start()

    def _read(self, stream, lines):
        beginning = f"relay {self.name}: "
        for line in stream:
            lines.append(line.decode().rstrip("\n").removeprefix(beginning))
            self.stage.hear(self, lines[-1])


class Campaign:
    def __init__(self, folder, kills, standbys, seed):
        self.kills, self.chance = kills, random.Random(seed)
        self.count = 0
        self.is_ending = threading.Event()
        self.stage = Stage()
        self.relays = []
        self.owners = set()  # the lives that owned the outbox
        self.took = []
        self.postgres = Postgres(folder / "postgres", max_connections=str(50 + 3 * standbys)).start()
        self.daemon = Daemon(folder).start()
        install_outbox(self.postgres)
        for setting in "log_statement = 'all'", "log_line_prefix = '%a|'":
            self.postgres.sql(f"ALTER SYSTEM SET {setting}")
        self.postgres.sql("SELECT pg_reload_conf()")
        with Connection(self.daemon.port) as line:
            line.ok("AmazonSQS.CreateQueue",
                    {"QueueName": QUEUE, "Attributes": {"FifoQueue": "true", "Tally.DeduplicationWindow": "0"}})
        self.relays = [Watched(self.stage, self.daemon.endpoint, self.postgres.uri, f"relay{n}")
                       for n in range(standbys + 1)]

    def write(self):
        with self.postgres.connect() as connection:
            while not self.is_ending.wait(0.05):
                with connection.cursor() as cursor:
                    cursor.execute("INSERT INTO tally.outbox (queue, group_id, body) SELECT %s, 'g' || n %% %s, "
                                   "n::text AS text FROM generate_series(%s::int, %s::int) n ORDER BY n",
                                   (QUEUE, GROUPS, self.count, self.count + 4))
                self.count += 5
        connection.close()

    def kill_the_owner(self, epoch):
        """And wait for the next."""
        stage = self.stage
        owner, _ = stage.owners[epoch]
        self.owners.add(owner.life)
        stage.wait_for(lambda: all(relay is owner or relay.state == "standby" for relay in self.relays),
                       "that all others stand by")
        time.sleep(self.chance.random() * 0.05)
        stage.bury(owner)
        began = time.monotonic()
        owner.process.kill()
        stage.wait_for(lambda: epoch + 1 in stage.owners, f"epoch {epoch + 1}")
        self.took.append(stage.owners[epoch + 1][1] - began)
        owner.kill9()
        owner.start()

    def run(self):
        for relay in self.relays:
            relay.start()
        writer = threading.Thread(target=self.write)
        writer.start()
        try:
            self.stage.wait_for(lambda: 1 in self.stage.owners, "the first epoch")
            for kill in range(self.kills):
                self.kill_the_owner(kill + 1)
        finally:
            self.is_ending.set()
            writer.join()
        self.owners.add(self.stage.owners[self.kills + 1][0].life)
        wait_until_empty(self.postgres, 120)
        return self.judge(drain(self.daemon, QUEUE, self.count, 600))

    def count_scans(self):
        """(all, those of relays that never owned the outbox)"""
        scans = collections.Counter(
            line.split("|", 1)[0] for line in self.postgres.log_text().splitlines() if SCAN in line)
        assert scans, "the server's log has no statement that reads rows: is it another one by now?"
        return sum(scans.values()), sum(count for life, count in scans.items() if life not in self.owners)

    def judge(self, messages):
        took = sorted(self.took)
        scans, scans_of_others = self.count_scans()
        arrived = collections.Counter(int(message.body) for message in messages)
        last, out_of_order = {}, 0
        for message in messages:
            out_of_order += int(message.body) < last.get(message.group, -1)
            last[message.group] = int(message.body)
        return {
            "kills": self.kills, "standbys": len(self.relays) - 1,
            "p50_ms": round(took[len(took) // 2] * 1000, 1), "p99_ms": round(took[len(took) * 99 // 100] * 1000, 1),
            "max_ms": round(took[-1] * 1000, 1),
            "double_owners": self.stage.double_owners,
            "takeovers_too_many": self.postgres.sql("SELECT epoch FROM tally.lease")[0][0] - self.kills - 1,
            "scans": scans, "scans_of_non_owners": scans_of_others,
            "rows": self.count, "lost": sum(n not in arrived for n in range(self.count)),
            "twice": sum(times - 1 for times in arrived.values()), "out_of_order": out_of_order,
        }

    def stop(self):
        for relay in self.relays:
            relay.kill9()
        self.daemon.kill9()
        self.postgres.stop("immediate")


def run_campaign(folder, kills, standbys, seed):
    return run_to_its_end(Campaign(pathlib.Path(folder), kills, standbys, seed))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--standbys", type=int, default=10)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(1 << 32)),
                        help="of the moments of the kills")
    given = parser.parse_args()
    report(lambda folder: run_campaign(folder, given.kills, given.standbys, given.seed), given.seed, FAULTS)


if __name__ == "__main__":
    main()
