"""The log in PostgreSQL: what an owner answers, and who takes over, when connections break or go silent."""

import contextlib
import threading
import time

import pytest
from conftest import PATIENCE, wait_until
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import SMALL, TAKEOVER, await_takeover, create_queue, drain, send, serves
from netns import Network
from nodes import Cluster
from postgres import DistantPostgres, Postgres
from proxy import Proxy
from wire import Connection, Lost

LEASE = 10  # seconds: much longer than the system takes to give a silent connection up by itself
LEASED = (*SMALL, "--lease", f"{LEASE}s")
BACKENDS = ("SELECT pg_terminate_backend(pid) FROM (SELECT DISTINCT pid FROM pg_locks WHERE locktype = 'advisory' AND "
            "{}granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS found")
OWNERS, WAITERS = BACKENDS.format(""), BACKENDS.format("NOT ")


class Reader:
    """Reads from one node, over and over: when each read began that was answered."""

    def __init__(self, node, queue):
        self.node, self.queue = node, queue
        self.answered = []
        self.is_over = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.is_over:
            began = time.monotonic()
            with contextlib.suppress(Lost, OSError), Connection(self.node.port, 3 * LEASE * PATIENCE) as line:
                if line.call("AmazonSQS.GetQueueAttributes", {"QueueUrl": self.queue}).status == 200:
                    self.answered.append(began)
            time.sleep(0.002)

    def check_silent_since(self, when):
        self.is_over = True
        late = [began - when for began in self.answered if began > when]
        assert not late, f"{len(late)} reads, the last one {late[-1]:.3f} s behind another owner's write"
        assert self.answered, "it has read nothing at all"


@pytest.fixture
def network():
    made = Network()
    yield made
    made.close()


@pytest.fixture
def distant(network, tmp_path):
    running = DistantPostgres(tmp_path / "postgres", network.host()).start()
    yield running
    running.stop("immediate")


def test_K3_an_owner_that_is_cut_off_without_a_word_has_fallen_silent_when_the_next_one_writes(network, distant,
                                                                                               tmp_path):
    one, two = network.host(), network.host()
    cluster = Cluster(distant, tmp_path, host=two)
    try:
        owner = cluster.node("one", *LEASED, host=one).start().wait_ready()
        other = cluster.node("two", *LEASED, host=two).start().wait_standing_by()
        jobs = create_queue(Connection(owner.port))
        reader = Reader(owner, jobs)
        cluster.wait_followed()
        one.cut()
        took = await_takeover(other, jobs, time.monotonic(), 3 * LEASE)
        assert took > 0.7 * LEASE, "it was taken over before its lease had ended"
        send(Connection(other.port), jobs, ["new"])
        written_at = time.monotonic()
        time.sleep(1)
        one.join()
        owner.wait_standing_by(3 * LEASE)
        reader.check_silent_since(written_at)
        assert drain(Connection(other.port), jobs) == ["new"]
    finally:
        cluster.stop()


def test_K2_an_owner_whose_connection_was_ended_answers_no_read_behind_the_next_owners_write(cluster):
    """Its process lives, and can't connect any more; its lease goes on for long."""
    role = f"owner_of_{cluster.database}"
    cluster.sql(f"CREATE ROLE {role} SUPERUSER LOGIN")
    owner = cluster.node("one", *LEASED, uri=cluster.uri.replace("tally@", f"{role}@")).start().wait_ready()
    other = cluster.node("two", *LEASED).start().wait_standing_by()
    jobs = create_queue(Connection(owner.port))
    reader = Reader(owner, jobs)
    cluster.wait_followed()
    cluster.sql(f"ALTER ROLE {role} NOLOGIN")
    assert cluster.sql(OWNERS) == [(True,)]
    await_takeover(other, jobs, time.monotonic(), TAKEOVER + 1)
    send(Connection(other.port), jobs, ["new"])
    written_at = time.monotonic()
    time.sleep(0.5 * LEASE)
    cluster.sql(f"ALTER ROLE {role} LOGIN")
    owner.wait_standing_by(3 * LEASE)
    reader.check_silent_since(written_at)


def test_an_owner_whose_connection_was_ended_while_it_was_idle_keeps_its_log(cluster):
    owner = cluster.node("one", *LEASED).start().wait_ready()
    jobs = create_queue(Connection(owner.port))
    for epoch in range(2, 5):
        assert cluster.sql(OWNERS) == [(True,)]
        wait_until(lambda e=epoch: cluster.head() == (e, "one"), 1.5, "that it has noticed")
        assert serves(owner, jobs)
    assert len([text for text in owner.lines if "ready" in text]) == 1


def test_a_standby_whose_wait_was_ended_goes_on_following_and_takes_over(cluster):
    owner, other = cluster.pair(*LEASED)
    jobs = create_queue(Connection(owner.port))
    cluster.wait_followed()
    said = other.error_text()
    for number in range(3):
        assert cluster.sql(WAITERS) == [(True,)]
        send(Connection(owner.port), jobs, [f"m{number}"])
        cluster.wait_followed()
    assert other.error_text() == said, "it has begun again"
    killed_at = time.monotonic()
    owner.kill9()
    await_takeover(other, jobs, killed_at)
    assert sorted(drain(Connection(other.port), jobs)) == ["m0", "m1", "m2"]


def test_a_node_whose_lease_is_shorter_than_the_silence_of_the_first_hosts_finds_the_one_that_answers(
        network, distant, tmp_path):
    """It begins anew after each try, and must not begin with the same host each time. Some hosts fail before anything
    is sent to them."""
    gone = [network.host(), network.host()]
    for host in gone:
        host.cut()
    machine = network.host()
    cluster = Cluster(distant, tmp_path, host=machine)
    try:
        hosts = ["nosuch.invalid", "%2Fnonexistent", *(host.address for host in [*gone, distant.host])]
        where = ",".join(f"{host}:{distant.port}" for host in hosts)
        node = cluster.node("one", *SMALL, "--lease", "500ms", uri=f"postgresql://tally@{where}/{cluster.database}",
                            host=machine).start().wait_ready(10)
        jobs = create_queue(Connection(node.port))
        send(Connection(node.port), jobs, ["new"])
        assert drain(Connection(node.port), jobs) == ["new"]
    finally:
        cluster.stop()


def test_F14_a_primary_that_acknowledges_nothing_is_left_for_one_that_is_far_away(server, tmp_path):
    """It is near, takes connections, and would be there first each time."""
    past = Postgres(tmp_path / "past", fsync="on").start()
    try:
        cluster = Cluster(past, tmp_path / "past")
        far = Cluster(server, tmp_path / "far")
        past.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        past.sql("SELECT pg_reload_conf()")
        server.sql(f"ALTER DATABASE {far.database} RENAME TO {cluster.database}_far")
        server.sql(f"CREATE DATABASE {cluster.database} TEMPLATE {cluster.database}_far")
        proxy = Proxy(server.port)
        proxy.delay = 0.04
        hosts = f"127.0.0.1:{past.port},127.0.0.1:{proxy.port}"
        node = cluster.node("one", *SMALL, "--lease", "4s", uri=f"postgresql://tally@{hosts}/{cluster.database}")
        try:
            node.start().wait_ready(30)
            jobs = create_queue(Connection(node.port))
            send(Connection(node.port), jobs, ["new"])
            assert drain(Connection(node.port), jobs) == ["new"]
        finally:
            cluster.stop()
            proxy.close()
    finally:
        past.stop("immediate")
