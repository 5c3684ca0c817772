"""What relays with PostgreSQL as the source leave to VACUUM, and what they say of those that leave it nothing: how long
their connections hold a snapshot, the lag, the warning."""

import contextlib
import re
import threading
import time

from conftest import PATIENCE, wait_until
from queues import count_visible, make_queue
from relay_actions import describe, good
from webhook import Receiver


class Snapshots:
    """Looks at the snapshots of relays all the time: .oldest, in seconds, and .holders, what these connections were
    doing."""

    SQL = """SELECT application_name || ': ' || coalesce(wait_event, ''),
                    extract(epoch FROM clock_timestamp() - xact_start)
               FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND application_name LIKE 'tally relay%'"""

    def __init__(self, outbox):
        self.oldest, self.holders, self.count = 0, set(), 0
        self.connection = outbox.connect()
        self.is_over = False
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        with contextlib.closing(self.connection), self.connection.cursor() as cursor:
            while not self.is_over:
                cursor.execute(self.SQL)
                for holder, seconds in cursor.fetchall():
                    self.holders.add(holder)
                    self.oldest = max(self.oldest, float(seconds or 0))
                self.count += 1
                time.sleep(0.01)

    def stop(self):
        self.is_over = True
        self.thread.join()


def vacuum(outbox):
    """How many dead rows VACUUM had to leave."""
    with contextlib.closing(outbox.connect()) as connection:
        connection.cursor().execute("VACUUM (VERBOSE, TRUNCATE false) tally.outbox")
        said = " ".join(connection.notices)
    found = re.search(r"(\d+) are dead but not yet removable|(\d+) dead row versions cannot be removed yet", said)
    assert found, said
    return int(found[1] or found[2])


def test_R27_no_relay_holds_a_snapshot_for_a_second_and_vacuum_removes_what_was_delivered(daemon, relays, outbox):
    make_queue(daemon, "orders")
    relays(outbox.uri, "queue", "--lease", 2, name="first").wait_for("active")
    relays(outbox.uri, "queue", "--lease", 2, name="second").wait_for("standby")
    snapshots = Snapshots(outbox)
    count, end = 0, time.monotonic() + 3
    while time.monotonic() < end:
        outbox.fill("orders", 200, first=count)
        count += 200
        time.sleep(0.02)
    wait_until(lambda: count_visible(daemon, "orders") == count, what="all rows")
    time.sleep(1.1 * PATIENCE)  # what stood in a snapshot then does so no more
    assert vacuum(outbox) == 0
    time.sleep(4)  # idle
    snapshots.stop()
    assert snapshots.oldest < 1 * PATIENCE, snapshots.holders
    assert snapshots.count > 100 and any("advisory" in holder for holder in snapshots.holders), (
        "the stand-by wasn't seen to wait")
    assert outbox.one("SELECT pg_relation_size('tally.outbox')") < 8192 * (1 + count // 20)


def test_the_lag_and_a_snapshot_that_holds_back_vacuum_are_shown_for_as_long_as_they_are_there(daemon, outbox):
    hook = Receiver()
    with contextlib.closing(outbox.begin()) as reader:
        reader.set_session(isolation_level="REPEATABLE READ")
        reader.cursor().execute("SELECT count(*) FROM tally.outbox")
        # The warning goes by 100,000 transactions or five minutes, and the former can be had here.
        with contextlib.closing(outbox.connect(options="-c synchronous_commit=off")) as writer:
            writer.cursor().execute(
                "DO $$ BEGIN FOR i IN 1..100100 LOOP PERFORM txid_current(); COMMIT; END LOOP; END $$")
        good(daemon, "CreateRelay", RelayName="orders",
             Source={"Type": "postgres", "Connection": outbox.uri, "LeaseSeconds": 1},
             Sink={"Type": "http", "Url": hook.url})

        def metric(name):
            lines = daemon.request("GET", "/metrics")[2].decode().splitlines()
            return [int(line.split()[1]) for line in lines
                    if line.startswith(f'tally_relay_{name}{{relay="orders"}} ')][0]

        for number in range(5):
            outbox.send("orders", f"row-{number}")
        wait_until(lambda: describe(daemon)["Lag"]["Rows"] == 5 and describe(daemon)["Lag"]["Seconds"] >= 1,
                   what="the lag")
        assert metric("lag_rows") == 5 and metric("lag_seconds") >= 1
        warning = wait_until(lambda: describe(daemon).get("Warning"), what="the warning")
        assert f"process {reader.info.backend_pid} of" in warning and "VACUUM can't remove delivered rows" in warning
        hook.start()
        wait_until(lambda: sorted(hook.bodies()) == [f"row-{number}" for number in range(5)], what="the calls")
        wait_until(lambda: describe(daemon)["Lag"] == {"Rows": 0, "Seconds": 0}, what="that nothing lags")
        assert metric("lag_rows") == 0 and metric("lag_seconds") == 0
    wait_until(lambda: not describe(daemon).get("Warning"), 30, "the end of the warning")
    hook.stop()
