"""Relays and failovers: PostgreSQL with a streaming replica that takes over and has not got everything. What was
delivered is held against what the new primary knows.

The ids are those of the reference's scenarios. Servers that only restart stand in test_relay_postgres.py."""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time

import psycopg2
import pytest

from conftest import PATIENCE, wait_until
from http_proxy import HttpProxy
from outbox import Outbox
from postgres import Postgres
from queues import count_visible
from relay import check_once, check_order, drain
from wire import Connection

AFTER_REPLICAS = "--publish-after-replicas"


class Cluster:
    """A primary, and streaming replicas of it; the last of them is the one that takes over."""

    def __init__(self, folder, **settings):
        self.folder = folder
        self.settings = {"autovacuum": "off", "wal_retrieve_retry_interval": "100", **settings}
        self.primary = Postgres(folder / "first", **self.settings).start()
        self.started = [self.primary]
        self.replica = None

    def add_replica(self):
        made = Postgres(self.folder / f"server{len(self.started)}", **self.settings)
        self.started.append(made)
        self.replica = made.stand_by("127.0.0.1", self.primary.port)
        self.wait_until_streaming()
        return self.replica

    def wait_until_streaming(self):
        wait_until(
            lambda: self.primary.sql("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'")[0][0] > 0,
            what="a replica")

    def uri(self, outbox):
        """Of all servers that there will be, as the application has it."""
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in self.started)
        return f"postgresql://tally@{hosts}/{outbox.name}"

    def wait_until_level(self):
        # Of all that was committed. What a read has written as it tidied up a page may stay in memory until somebody
        # commits.
        position = self.primary.sql("SELECT pg_current_wal_flush_lsn()")[0][0]
        wait_until(lambda: self.replica.sql("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", position)[0][0],
                   what="the replica")

    def promote(self):
        """The primary may go on for those who are connected to it."""
        if not (self.replica.data / "postmaster.pid").exists():
            self.replica.start()
        self.replica.sql("SELECT pg_promote()")
        wait_until(lambda: not self.replica.sql("SELECT pg_is_in_recovery()")[0][0], what="the promotion")

    def fail_over(self):
        self.primary.kill9()
        self.promote()
        self.primary, self.replica = self.replica, None

    def stop(self):
        for server in self.started:
            with contextlib.suppress(AssertionError):
                server.stop("immediate")
            shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture
def clusters(tmp_path):
    made = []

    def make(**settings):
        made.append(Cluster(tmp_path / f"cluster{len(made)}", **settings))
        made[-1].add_replica()
        return made[-1]

    yield make
    for cluster in made:
        cluster.stop()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("cluster"), wal_level="logical")
    made.add_replica()
    yield made
    made.stop()


@pytest.fixture
def cluster(shared):
    """For tests in which nobody takes over: with one replica."""
    for server in shared.started[2:]:
        server.stop("immediate")
    del shared.started[2:]
    shared.replica = shared.started[1]
    if not (shared.replica.data / "postmaster.pid").exists():
        shared.replica.start()
    shared.wait_until_streaming()
    return shared


class Shop(Outbox):
    """An application: each order is a row of its own and a message, in one transaction."""

    def __init__(self, server):
        super().__init__(server)
        self.sql("CREATE TABLE orders (n int PRIMARY KEY, id bigint, uid uuid)")

    def order(self, queue, first, count=1, asynchronous=False):
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"SET synchronous_commit = {'off' if asynchronous else 'on'}")
            for n in range(first, first + count):
                cursor.execute("WITH o AS (INSERT INTO tally.outbox (queue, group_id, body) VALUES (%s, %s, "
                               "%s) RETURNING id, uid) INSERT INTO orders SELECT %s, id, uid FROM o",
                               (queue, f"g{n % 5}", str(n), n))

    def orders(self):
        return [str(n) for n, in self.sql("SELECT n FROM orders ORDER BY n")]

    def on(self, server):
        """The same on another server."""
        other = Outbox.__new__(Shop)
        other.__dict__.update(self.__dict__, server=server,
                              uri=f"postgresql://tally@127.0.0.1:{server.port}/{self.name}")
        return other


# --- published after replicas have it ---------------------------------------------------------------------------------


def test_P25_who_may_not_see_what_replicas_have_is_told_which_right_is_missing(daemon, relays, cluster, queue):
    shop = Shop(cluster.primary)
    shop.sql("CREATE ROLE carrier LOGIN")
    for grant in ("USAGE ON SCHEMA tally",
                  "SELECT, INSERT, UPDATE, DELETE ON tally.outbox, tally.dead, tally.lease, tally.beat, tally.intent",
                  "SELECT ON tally.version", "SELECT ON SEQUENCE tally.outbox_id_seq"):
        shop.sql(f"GRANT {grant} TO carrier")
    uri = shop.uri.replace("tally@", "carrier@")
    shop.order(queue, 0)
    relay = relays(uri, "queue", AFTER_REPLICAS, 1)
    wait_until(lambda: "GRANT pg_read_all_stats TO carrier" in relay.state, what="that it says so")
    assert relay.state.startswith("failed: ") and count_visible(daemon, queue) == 0 and shop.count() == 1
    without = relays(uri, "queue", name="without")  # who does not wait needs no right
    without.wait_for("active")
    shop.wait_until_empty(30)
    without.stop()
    shop.sql("GRANT pg_read_all_stats TO carrier")
    relay.wait_for("active")
    shop.order(queue, 1)
    shop.wait_until_empty(30)
    check_once(drain(daemon, queue, 2), ["0", "1"])


def test_P25_rows_wait_for_as_many_replicas_as_were_asked_for_and_go_when_they_are_there(daemon, relays, cluster, fifo):
    shop = Shop(cluster.primary)
    relay = relays(shop.uri, "queue", "--lease", 1, AFTER_REPLICAS, 2)
    relay.wait_for("active")
    epoch = relay.epoch
    second = relays(shop.uri, "queue", "--lease", 1, AFTER_REPLICAS, 2, name="second")
    second.wait_for("standby")
    shop.order(fifo, 0, 50)
    text = relay.wait_for("blocked")
    assert "waits for 2 replicas" in text and "1 of them is there" in text
    end = time.monotonic() + 5 * PATIENCE  # longer than an owner may fail before it gives up its lease
    while time.monotonic() < end:
        oldest, = shop.sql(
            "SELECT max(extract(epoch FROM clock_timestamp() - xact_start)) FROM pg_stat_activity WHERE "
            "application_name LIKE 'tally relay%' AND (backend_xmin IS NOT NULL OR state LIKE 'idle in%')")[0]
        assert oldest is None or oldest < 1 * PATIENCE  # P18
        time.sleep(0.1)
    assert relay.state.startswith("blocked") and second.state == "standby" and second.epoch == 0
    assert count_visible(daemon, fifo) == 0 and shop.count() == 50
    cluster.add_replica()
    relay.wait_for("active")
    assert relay.epoch == epoch
    shop.wait_until_empty(30)
    first, other = cluster.started[1:]
    other.stop()
    shop.order(fifo, 50, 50)
    relay.wait_for("blocked")
    assert count_visible(daemon, fifo) == 50 and shop.count() == 50
    other.start()  # it returns
    relay.wait_for("active")
    shop.wait_until_empty(30)
    assert relay.epoch == epoch and first.sql("SELECT pg_is_in_recovery()")[0][0]
    relay.stop()
    arrived = drain(daemon, fifo, 100)
    check_once(arrived, shop.orders())
    check_order(arrived)


def test_P25_a_relay_that_waits_is_stopped_paused_and_replaced_as_any_other(daemon, relays, cluster, tally, queue):
    shop = Shop(cluster.primary)
    waiting = relays(shop.uri, "queue", "--lease", 1, AFTER_REPLICAS, 1)
    waiting.wait_for("active")
    shop.order(queue, 0, 3)
    shop.wait_until_empty(30)
    cluster.replica.stop()
    shop.order(queue, 3, 3)
    waiting.wait_for("blocked")
    waiting.stop()
    assert count_visible(daemon, queue) == 3 and shop.count() == 3
    tally("relay", "create", "carrier", "--source", shop.uri, "--sink", "queue", "--lease", "1", AFTER_REPLICAS, "1")

    def shown():
        with Connection(daemon.port) as connection:
            return connection.ok("Tally.DescribeRelay", {"RelayName": "carrier"})

    wait_until(lambda: shown()["State"] == "blocked", what="blocked")
    assert shown()["Source"]["PublishAfterReplicas"] == 1 and "waits for 1 replica" in shown()["LastError"]
    wait_until(lambda: shown()["Lag"]["Rows"] == 3, what="its lag")
    tally("relay", "pause", "carrier")
    wait_until(lambda: shown()["State"] == "paused", what="paused")
    daemon.restart()
    assert shown()["Source"]["PublishAfterReplicas"] == 1 and shown()["State"] == "paused"
    tally("relay", "resume", "carrier")
    wait_until(lambda: shown()["State"] == "blocked", what="blocked again")
    assert count_visible(daemon, queue) == 3 and shop.count() == 3
    cluster.replica.start()
    shop.wait_until_empty(30)
    wait_until(lambda: shown()["State"] == "active", what="active")
    check_once(drain(daemon, queue, 6), shop.orders())


def test_P25_a_sink_that_does_not_remember_waits_as_well_and_nothing_is_noted_before(daemon, relays, cluster, fifo):
    shop = Shop(cluster.primary)
    relay = relays(shop.uri, f"sqs:{daemon.endpoint}/000000000000/{fifo}", AFTER_REPLICAS, 1, AWS_ACCESS_KEY_ID="key",
                   AWS_SECRET_ACCESS_KEY="secret")
    relay.wait_for("active")
    shop.order(fifo, 0, 20)
    shop.wait_until_empty(30)
    receiver, = cluster.replica.sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walreceiver'")[0]
    os.kill(receiver, signal.SIGSTOP)
    try:
        shop.order(fifo, 20, 20)
        assert "1 of them is there, and 0 have" in relay.wait_for("blocked")
        time.sleep(1.5 * PATIENCE)  # longer than rows that were read are good for otherwise
        assert shop.count() == 20 and shop.one("SELECT count(*) FROM tally.intent WHERE cardinality(ids) > 0") == 0
        assert count_visible(daemon, fifo) == 20
    finally:
        os.kill(receiver, signal.SIGCONT)
    relay.wait_for("active")
    shop.wait_until_empty(30)
    arrived = drain(daemon, fifo, 40)
    check_once(arrived, shop.orders())
    check_order(arrived)


def test_P25_who_decodes_the_log_is_no_replica(daemon, relays, cluster, queue):
    cluster.replica.stop()
    shop = Shop(cluster.primary)
    shop.sql("SELECT pg_create_logical_replication_slot('decoder', 'test_decoding')")
    decoder = subprocess.Popen([*cluster.primary._as_owner(), str(cluster.primary.programs / "pg_recvlogical"), "-d",
                                shop.uri, "--slot", "decoder", "--start", "-f", "-", "-s", "1", "-F", "1"],
                               cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: shop.one("SELECT count(*) FROM pg_stat_replication") == 1, what="the decoder")
        relay = relays(shop.uri, "queue", AFTER_REPLICAS, 1)
        shop.order(queue, 0)
        assert "0 of them are there" in relay.wait_for("blocked")
        position = shop.one("SELECT pg_current_wal_flush_lsn()")
        wait_until(lambda: shop.one("SELECT flush_lsn >= %s::pg_lsn FROM pg_stat_replication", position),
                   what="that it has the row")
        assert relay.state.startswith("blocked") and count_visible(daemon, queue) == 0
        cluster.replica.start()
        shop.wait_until_empty(30)
        check_once(drain(daemon, queue, 1), ["0"])
    finally:
        decoder.terminate()
        decoder.wait(20)
        wait_until(lambda: not shop.one("SELECT active FROM pg_replication_slots"), what="that the slot is free")
        shop.sql("SELECT pg_drop_replication_slot('decoder')")


def test_R37_a_failover_that_loses_rows_leaves_ghosts_unless_replicas_have_what_is_published(
        daemon, relays, clusters, queue, fifo):
    cluster = clusters()
    hasty, careful = Shop(cluster.primary), Shop(cluster.primary)
    cluster.wait_until_level()
    relays(cluster.uri(hasty), "queue", "--lease", 1, name="hasty").wait_for("active")
    relay = relays(cluster.uri(careful), "queue", "--lease", 1, AFTER_REPLICAS, 1)
    relay.wait_for("active")
    hasty.order(queue, 0, 50)
    careful.order(fifo, 0, 50)
    hasty.wait_until_empty(30)
    careful.wait_until_empty(30)
    cluster.wait_until_level()
    cluster.replica.stop()
    hasty.order(queue, 50, 50)  # these never happened
    careful.order(fifo, 50, 50)
    hasty.wait_until_empty(30)
    assert "0 of them are there" in relay.wait_for("blocked")
    assert careful.count() == 50
    cluster.fail_over()

    hasty, careful = hasty.on(cluster.primary), careful.on(cluster.primary)
    assert len(hasty.orders()) == len(careful.orders()) == 50
    hasty.order(queue, 100, 50)
    careful.order(fifo, 100, 50)
    hasty.wait_until_empty(30)
    relay.wait_for("blocked")  # nobody stands behind the new one yet
    assert count_visible(daemon, fifo) == 50 and careful.count() == 50
    cluster.add_replica()
    relay.wait_for("active")
    careful.wait_until_empty(30)
    arrived = drain(daemon, fifo, 100)
    check_once(arrived, careful.orders())
    check_order(arrived)
    check_once(drain(daemon, queue, 150), hasty.orders() + [str(n) for n in range(50, 100)])


def test_R37_a_primary_that_dies_while_rows_flow_leaves_no_ghost(daemon, relays, clusters, fifo):
    cluster = clusters()
    shop = Shop(cluster.primary)
    cluster.wait_until_level()
    relay = relays(cluster.uri(shop), "queue", "--lease", 1, AFTER_REPLICAS, 1)
    relay.wait_for("active")
    written, is_dead = [], threading.Event()

    def write():
        with contextlib.suppress(psycopg2.Error), contextlib.closing(
                shop.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SET synchronous_commit = off")
            while not is_dead.is_set():
                n = len(written)
                cursor.execute("WITH o AS (INSERT INTO tally.outbox (queue, group_id, body) VALUES (%s, %s, "
                               "%s) RETURNING id, uid) INSERT INTO orders SELECT %s, id, uid FROM o",
                               (fifo, f"g{n % 5}", str(n), n))
                written.append(n)

    writer = threading.Thread(target=write)
    writer.start()
    wait_until(lambda: count_visible(daemon, fifo) > 1000, what="that rows flow")
    cluster.fail_over()
    is_dead.set()
    writer.join()
    after = shop.on(cluster.primary)
    kept = len(after.orders())
    assert after.orders() == [str(n) for n in range(kept)]
    cluster.add_replica()
    after.order(fifo, len(written) + 1, 50)
    relay.wait_for("active")
    after.wait_until_empty(30)
    arrived = drain(daemon, fifo, kept + 50)
    check_once(arrived, after.orders())
    check_order(arrived)


@pytest.mark.parametrize("replicas", [0, 1])
def test_R41_a_crash_forgets_what_was_committed_asynchronously_and_it_was_not_published(
        daemon, relays, cluster, queue, replicas):
    shop = Shop(cluster.primary)
    relay = relays(shop.uri, "queue", "--lease", 60, AFTER_REPLICAS, replicas)
    relay.wait_for("active")
    shop.order(queue, 0, 10)
    shop.wait_until_empty(30)
    # No process brings the log to the disk or to the replica any more, nor do a relay's beats and deletes. A lock that
    # is asked for while the order is open comes before whatever is asked for behind it.
    for pid, in shop.sql("SELECT pid FROM pg_stat_activity WHERE backend_type IN ('walwriter', 'checkpointer', "
                         "'background writer', 'walsender')"):
        os.kill(pid, signal.SIGSTOP)
    with contextlib.closing(shop.begin()) as lock, contextlib.closing(shop.begin()) as late:
        lock.cursor().execute("LOCK TABLE tally.lease, tally.beat IN SHARE MODE")
        cursor = late.cursor()
        cursor.execute("SET LOCAL synchronous_commit = off")
        cursor.execute("WITH o AS (INSERT INTO tally.outbox (queue, body) VALUES (%s, '10') RETURNING id, uid)"
                       " INSERT INTO orders SELECT 10, id, uid FROM o", (queue,))
        waits = threading.Thread(target=lambda: lock.cursor().execute("LOCK TABLE tally.outbox IN SHARE MODE"))
        waits.start()
        wait_until(lambda: shop.one("SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'ShareLock'") == 1,
                   what="the lock")
        late.commit()
        waits.join()
        if replicas:
            relay.wait_for("blocked")
            assert count_visible(daemon, queue) == 10 and shop.count() == 1
        else:
            wait_until(lambda: count_visible(daemon, queue) == 11, what="the ghost")
            assert shop.one("SELECT pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn()")
        cluster.primary.kill9()
        for connection in lock, late:
            with contextlib.suppress(psycopg2.Error):
                connection.close()
    cluster.primary.start()
    if replicas == 0:
        assert len(shop.orders()) == 10 and shop.count() == 0
    shop.order(queue, 11, 10)
    relay.wait_for("active", 30)
    shop.wait_until_empty(30)
    check_once(drain(daemon, queue, 20), shop.orders() + ([] if replicas else ["10"]))


# --- a failover -------------------------------------------------------------------------------------------------------


def test_R10_a_replica_is_refused_and_takes_no_step_of_a_relay_by_itself(daemon, relays, cluster, queue):
    shop = Shop(cluster.primary)
    shop.order(queue, 0)
    cluster.wait_until_level()
    replica = shop.on(cluster.replica)
    assert replica.count() == 1
    for name, more in ("plain", ()), ("pooled", ("--pooler", "transaction")), ("careful", (AFTER_REPLICAS, 1)):
        refused = relays(replica.uri, "queue", *more, name=name)
        wait_until(lambda: "is a replica" in refused.state, what="that it says so")
        assert refused.state.startswith("failed: ") and refused.epoch == 0
    for step in (
        "UPDATE tally.lease SET epoch = epoch + 1 WHERE source = 'outbox'",
        "WITH f AS MATERIALIZED (SELECT 1 FROM tally.lease FOR SHARE), "
        "d AS (DELETE FROM tally.outbox o USING f RETURNING 1) SELECT count(*) FROM d",
        "SELECT 1 FROM tally.lease WHERE source = 'outbox' FOR SHARE",
    ):
        with pytest.raises(psycopg2.errors.ReadOnlySqlTransaction):
            replica.sql(step)
    assert count_visible(daemon, queue) == 0 and shop.count() == 1 and shop.lease()[0] == 0
    both = ",".join(f"127.0.0.1:{server.port}" for server in (cluster.replica, cluster.primary))
    relays(f"postgresql://tally@{both}/{shop.name}", "queue", "--lease", 1).wait_for("active")
    shop.wait_until_empty(30)
    check_once(drain(daemon, queue, 1), ["0"])


def test_R36_R38_R49_rows_that_come_back_are_known_and_others_of_lost_ids_are_not_taken_for_them(
        daemon, relays, clusters, fifo):
    cluster = clusters()
    shop = Shop(cluster.primary)
    cluster.wait_until_level()
    proxy = HttpProxy(daemon.port)
    relay = relays(cluster.uri(shop), "queue", "--lease", 1, "--endpoint", proxy.endpoint)
    relay.wait_for("active")
    shop.order(fifo, 0, 100)
    shop.wait_until_empty(30)
    relay.freeze()
    shop.order(fifo, 100, 100)
    cluster.wait_until_level()
    cluster.replica.stop()  # it will not know that these were deleted, nor of those that follow
    relay.thaw()
    shop.wait_until_empty(30)
    shop.order(fifo, 200, 100)
    shop.wait_until_empty(30)
    time.sleep(2.5 * PATIENCE)  # the floor goes above them
    lost = {id: uid for id, uid in shop.sql("SELECT id, uid FROM orders WHERE n >= 200")}
    epoch = relay.epoch
    relay.freeze()
    cluster.fail_over()

    after = shop.on(cluster.primary)
    assert (after.one("SELECT count(*) FROM tally.outbox o JOIN orders USING (id, uid) WHERE n >= 100")
            == after.count() == 100)
    assert after.one("SELECT max(id) FROM tally.outbox") < min(lost)
    back = {uid for uid, in after.sql("SELECT uid FROM tally.outbox")}
    relay.thaw()
    after.order(fifo, 300, 100)
    taken = {id: uid for id, uid in after.sql("SELECT id, uid FROM orders WHERE n >= 300")}
    assert lost.keys() & taken.keys()  # the same ids
    assert all(lost[id] != taken[id] for id in lost.keys() & taken.keys())
    relay.wait_for("active")
    assert relay.epoch > epoch
    after.wait_until_empty(30)
    relay.stop()
    sent = [row["Uid"] for body in proxy.published() for row in body["Rows"]]
    assert all(sent.count(uid) >= 2 for uid in back)  # found again, and found to be known
    arrived = drain(daemon, fifo, 400)
    check_once(arrived, [*after.orders(), *map(str, range(200, 300))])
    check_order(arrived)
    assert {message.uid for message in arrived} >= back | set(taken.values()) | set(lost.values())
    proxy.close()


def test_R39_of_two_relays_that_hold_one_epoch_after_a_failover_one_is_heard(daemon, relays, clusters, queue):
    cluster = clusters()
    shop = Shop(cluster.primary)
    shop.sql("UPDATE tally.lease SET epoch = 7")
    shop.order(queue, 0, 10)
    cluster.wait_until_level()
    cluster.replica.stop()
    shop.order(queue, 10, 50)  # nobody but the first relay will know of these

    first_line, second_line = HttpProxy(daemon.port), HttpProxy(daemon.port)
    is_held, may_pass = threading.Event(), threading.Event()

    def hold(target, body):
        if target == "Tally.Publish":
            is_held.set()
            may_pass.wait(60 * PATIENCE)

    first_line.watch = hold
    first = relays(shop.uri, "queue", "--lease", 1, "--endpoint", first_line.endpoint, name="first")
    assert is_held.wait(20 * PATIENCE)
    assert first.epoch == shop.lease()[0] == 8
    cluster.fail_over()
    after = shop.on(cluster.primary)
    assert after.lease()[0] == 7
    after.order(queue, 60, 50)
    second = relays(after.uri, "queue", "--lease", 1, "--endpoint", second_line.endpoint, name="second")
    second.wait_for("active")
    after.wait_until_empty(30)
    may_pass.set()  # epoch 8, from one who was its owner
    wait_until(lambda: first_line.published(), what="the late publish")
    first.stop()
    assert {"0", "10", "59"} <= {row["MessageBody"] for body in first_line.published() for row in body["Rows"]}
    opened = [[(body["Epoch"], body["Owner"]) for target, body in line.requests if target == "Tally.OpenPublisher"]
              for line in (first_line, second_line)]
    assert opened[0][0][0] == opened[1][0][0] == 8 and opened[0][0][1] != opened[1][0][1]
    assert second.epoch > 8
    after.order(queue, 110, 10)
    after.wait_until_empty(30)
    check_once(drain(daemon, queue, len(after.orders())), after.orders())
    first_line.close()
    second_line.close()


def test_R40_no_slot_holds_the_log_back_and_after_a_failover_the_whole_table_is_read(daemon, relays, clusters, queue):
    cluster = clusters()
    shop = Shop(cluster.primary)
    cluster.wait_until_level()
    relay = relays(cluster.uri(shop), "queue", "--lease", 1)
    relay.wait_for("active")
    shop.order(queue, 0, 20)
    shop.wait_until_empty(30)
    assert shop.one("SELECT count(*) FROM pg_replication_slots") == 0

    # While the relay reads nothing, the server throws its log away.
    relay.freeze()
    segment = shop.one("SELECT pg_walfile_name(pg_current_wal_lsn())")
    shop.order(queue, 20)
    for _ in range(4):
        shop.sql("SELECT pg_switch_wal()")
        shop.sql("UPDATE orders SET n = n WHERE n = 0")
        cluster.wait_until_level()
        shop.sql("CHECKPOINT")
    assert shop.one("SELECT min(name) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$'") > segment

    # Somebody deletes a row that was not delivered, and the failover brings it back, below all that was delivered
    # since.
    shop.order(queue, 21)
    cluster.wait_until_level()
    cluster.replica.stop()
    shop.sql("DELETE FROM tally.outbox WHERE body = '21'")
    relay.thaw()
    end = time.monotonic() + 2.5 * PATIENCE
    last = 22
    while time.monotonic() < end:
        shop.order(queue, last)
        last += 1
        time.sleep(0.05)
    shop.wait_until_empty(30)
    highest = shop.one("SELECT max(id) FROM orders")
    epoch, seen = relay.epoch, len(relay.lines)
    relay.freeze()
    cluster.fail_over()

    after = shop.on(cluster.primary)
    assert after.one("SELECT id FROM tally.outbox WHERE body = '21'") < highest
    relay.thaw()
    after.wait_until_empty(30)
    relay.wait_for("active")
    assert relay.epoch > epoch
    assert any(line.startswith(("blocked", "failed", "standby")) for line in relay.lines[seen:])  # not in silence
    assert after.one("SELECT count(*) FROM pg_replication_slots") == 0
    check_once(drain(daemon, queue, last), [str(n) for n in range(last)])
