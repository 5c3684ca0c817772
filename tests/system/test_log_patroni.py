"""The log in a PostgreSQL that Patroni keeps: switchovers, failovers, cuts, two primaries, standbys that leave.

The ids are those of the reference (docs/internals/invariants-log.md). Everything runs on machines of its own, network
namespaces, so that a link is cut without a word to anybody. All tests share one Patroni; each has a database of its
own, and begins with a leader and two standbys that follow it."""

import contextlib
import re
import shutil
import time

import pytest

from clients import needs
from conftest import PATIENCE, wait_until
from haproxy import PROGRAM
from logs import CROWD, LEASE, LEASED, SMALL, Traffic, await_takeover, create_queue, drain, send, serves, texts
from machines import NAMES, Machines, wait_more
from netns import Network
from nodes import AnyNode, Cluster
from patroni import STRICT, Member, Patroni
from wire import Connection, Lost

SECOND = CROWD  # what takes one where nobody else works


@pytest.fixture(scope="module")
def network():
    made = Network()
    yield made
    made.close()


@pytest.fixture(scope="module")
def machines(network):
    """Of nodes that have one for themselves."""
    return [network.host(), network.host(), network.host()]


@pytest.fixture(scope="module")
def shared(network):
    made = Patroni(network)
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture
def patroni(shared, network):
    """Synchronous and strict."""
    network.join()
    for member in shared.members:
        if member.process is None:
            member.start()
    shared.configure(**STRICT)
    shared.wait_healthy()
    return shared


@pytest.fixture
def cluster(patroni, machines, tmp_path):
    made = Cluster(patroni, tmp_path, host=machines[0])
    yield made
    made.stop()


def pair(cluster, machines, *options):
    """One that serves and one that stands by."""
    one = cluster.node("one", *options, host=machines[0]).start().wait_ready()
    two = cluster.node("two", *options, host=machines[1]).start().wait_standing_by()
    return one, two


def acknowledges(cluster, traffic, since, seconds):
    """Until a message is taken, from now on; seconds since then."""
    line = cluster.line(2)
    line.ok_at_last("AmazonSQS.CreateQueue", {"QueueName": "mark"})
    line.ok_at_last("AmazonSQS.SendMessage", {"QueueUrl": "mark", "MessageBody": "after"})
    took = time.monotonic() - since
    said = "\n".join(f"{node.name}: {node.lines[-3:]} {node.error_text()[-2000:]}" for node in cluster.nodes)
    assert took < seconds * PATIENCE, f"it serves {took:.1f} s after PostgreSQL does; {said}"
    traffic.check()
    return took


# --- cuts between nodes and PostgreSQL -------------------------------------------------------------------------------


def test_K3_an_owner_whose_machine_is_cut_off_from_postgresql_is_taken_over_and_stands_by_when_it_is_back(
        cluster, machines):
    """Its backend waits for it, with the lock of the log."""
    owner, other = pair(cluster, machines, *LEASED)
    traffic = Traffic(cluster, has_load=False)
    wait_until(lambda: traffic.fifo.acknowledged > 10, what="some load")
    machines[0].cut()
    await_takeover(other, traffic.jobs, time.monotonic(), LEASE + 1)
    assert not serves(owner, traffic.jobs)
    machines[0].join()
    owner.wait_standing_by()
    traffic.check()
    traffic.finish()
    other.kill9()
    await_takeover(owner, traffic.jobs, time.monotonic())


def test_K5_a_standby_whose_machine_was_cut_off_reads_what_it_missed_before_it_serves(cluster, machines):
    owner, other = pair(cluster, machines, *LEASED)
    traffic = Traffic(cluster, has_load=False)
    machines[1].cut()
    before = traffic.fifo.acknowledged
    time.sleep(2 * LEASE)
    wait_until(lambda: traffic.fifo.acknowledged > before + 10, what="some load")
    owner.kill9()
    machines[1].join()
    await_takeover(other, traffic.jobs, time.monotonic(), 2 * LEASE + 2)
    traffic.finish()


# --- Patroni changes the leader -------------------------------------------------------------------------------------


def test_K7_switchovers_and_failovers_lose_nothing_and_it_serves_two_seconds_after_postgresql(
        patroni, cluster, machines, capsys):
    pair(cluster, machines, "--lease", f"{2 * LEASE}s")
    traffic = Traffic(cluster)
    told = []
    for change in (patroni.switch_over, Member.kill_postgres, Member.kill9):
        leader = patroni.wait_healthy()
        acknowledged = traffic.fifo.acknowledged
        wait_until(lambda: traffic.fifo.acknowledged > acknowledged + 10, what="some load")
        began_at = time.monotonic()
        change(leader)
        patroni.wait_commits(other_than=leader)
        led_at = time.monotonic()
        took = acknowledges(cluster, traffic, led_at, 2 * SECOND)
        told.append(f"{led_at - began_at:.1f} + {took:.2f}")
        if leader.process is None:
            leader.start()
    traffic.finish()
    with capsys.disabled():
        print(f"\nK7: seconds of Patroni + tallyd: switchover {told[0]}, end of PostgreSQL {told[1]}, of its machine "
              f"{told[2]}")


def test_F28_a_cut_between_the_primary_and_the_other_sites_loses_nothing_with_failsafe_mode(
        patroni, cluster, machines, capsys):
    """At one site the primary and the owner; at the others the standbys, etcd and the node that stands by. Clients
    reach both nodes all the time."""
    patroni.configure(failsafe_mode=True)
    leader = patroni.wait_healthy()
    cluster.uri = patroni.uri_from(leader, cluster.database)  # the host that is silent is the first that they try
    one, two = pair(cluster, [leader.host, machines[1]], *LEASED)
    traffic = Traffic(cluster)
    wait_until(lambda: traffic.fifo.acknowledged > 10, what="some load")
    leader.host.cut()
    patroni.wait_commits(other_than=leader)
    took = await_takeover(two, traffic.jobs, time.monotonic(), 2 * SECOND)
    assert not serves(one, traffic.jobs)
    leader.host.join()
    patroni.wait_healthy()
    one.wait_standing_by()
    traffic.finish()
    assert cluster.head()[1] == "two"
    with capsys.disabled():
        print(f"\nF28: {took:.2f} s after PostgreSQL")


def test_F26_a_member_that_is_replaced_a_cut_and_a_kill_at_once_lose_nothing(patroni, cluster, machines):
    leader = patroni.wait_healthy()
    sync, other = sorted(patroni.others(leader), key=lambda member: not member.is_sync())
    pair(cluster, machines, *LEASED)
    traffic = Traffic(cluster)
    wait_until(lambda: traffic.fifo.acknowledged > 10, what="some load")
    other.stop()
    shutil.rmtree(other.data)
    other.start()  # a new member of that name
    patroni.wait_healthy()
    sync.host.cut()
    wait_until(other.is_sync, 60, "that the new member is the synchronous one")
    before = traffic.fifo.acknowledged
    wait_until(lambda: traffic.fifo.acknowledged > before + 10, what="some load")
    leader.kill9()
    sync.host.join()
    assert patroni.wait_commits(other_than=leader) is other
    acknowledges(cluster, traffic, time.monotonic(), 2 * SECOND)
    traffic.finish()


# --- three nodes behind a front ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def fronted(cluster, machines, folder, *options):
    """With namespaces on each of three nodes."""
    needs(PROGRAM, "haproxy")
    made = Machines(cluster, machines, folder, options)
    with made.front:
        made.wait_calm()
        yield made


def test_K7_K9_three_nodes_behind_a_front_lose_nothing_when_the_leader_changes(
        patroni, cluster, machines, tmp_path, capsys):
    """The last leader loses only its Patroni, and stays a primary that takes connections."""
    told = []
    with fronted(cluster, machines, tmp_path, *SMALL, "--lease", f"{2 * LEASE}s") as nodes, \
            nodes.traffic(loaded=NAMES[0]) as traffic:
        for change, more in ((patroni.switch_over, 2), (Member.kill9, 2), (Member.kill_patroni, 4 * LEASE + 1)):
            leader = patroni.wait_healthy()
            wait_more(traffic)
            change(leader)
            patroni.wait_commits(other_than=leader)
            told.append(nodes.wait_served(more * SECOND))
            if leader.process is None:
                assert change is Member.kill9 or leader.is_primary()
                leader.start()
        patroni.wait_healthy()
    with capsys.disabled():
        print(f"\nK7, K9: {', '.join(f'{took:.2f}' for took in told)} s after PostgreSQL")


def test_K8_of_three_nodes_behind_a_front_each_says_what_a_failover_has_lost(patroni, cluster, machines, tmp_path):
    patroni.configure(synchronous_mode=False)
    leader = patroni.wait_healthy()
    with fronted(cluster, machines, tmp_path, *LEASED) as nodes:
        for name in NAMES:
            line = nodes.line(name)
            send(line, create_queue(line), texts("kept", 5))
        patroni.wait_level()
        others = patroni.others(leader)
        for member in others:
            member.host.cut()
        for name in NAMES:
            send(nodes.line(name), "jobs", texts("tail", 5))
        leader.kill9()
        for member in others:
            member.host.join()
        patroni.wait_commits(other_than=leader)
        nodes.wait_served((2 * LEASE + 2) * SECOND)
        said = "".join(node.error_text() for node in nodes.nodes)
        for name in NAMES:
            found = set(drain(nodes.line(name), "jobs"))
            assert found >= set(texts("kept", 5))
            assert found >= set(texts("tail", 5)) or re.search(f"{name}.*lost writes that it had", said), (name, said)


# --- two primaries --------------------------------------------------------------------------------------------------


def test_F14_K9_with_synchronous_standbys_a_primary_of_the_past_acknowledges_nothing(patroni, cluster, machines):
    """Its Patroni has died, and another one leads. It runs on, takes connections, and is the first that nodes try."""
    leader = patroni.wait_healthy()
    cluster.uri = patroni.uri_from(leader, cluster.database)
    pair(cluster, machines, *LEASED)
    traffic = Traffic(cluster)
    wait_until(lambda: traffic.fifo.acknowledged > 10, what="some load")
    leader.kill_patroni()
    patroni.wait_commits(other_than=leader)
    acknowledges(cluster, traffic, time.monotonic(), (2 * LEASE + 1) * SECOND)
    assert leader.is_primary()
    leader.start()
    patroni.wait_healthy()
    traffic.finish()


class Loss:
    """Two logs in a PostgreSQL whose standbys are asynchronous. Of the first one the only owner lives through the
    failover; the nodes of the second one do not keep their log for so long."""

    def __init__(self, patroni, cluster, folder, machines):
        patroni.configure(synchronous_mode=False)
        self.patroni, self.machines = patroni, machines
        self.leader = patroni.wait_healthy()
        self.first, self.second = cluster, Cluster(patroni, folder, host=machines[0])
        for log in (self.first, self.second):
            log.uri = patroni.uri_from(self.leader, log.database)
        self.owner = self.first.node("one", "--lease", "60s", host=machines[0]).start().wait_ready()
        self.pair = pair(self.second, machines, *LEASED)
        for log in (self.first, self.second):
            create_queue(log.line())
            send(log.line(), "jobs", texts("kept", 10))
        patroni.wait_level()

    def send_tail(self):
        """To the owners: all of them are acknowledged."""
        for node in (self.owner, self.pair[0]):
            send(Connection(node.port), "jobs", texts("tail", 20))

    def check(self, served=("after",), may_heal=False):
        """The first log has everything, and the second says what is lost; or, where its owner was quick enough to be
        the next one too, has everything."""
        for log in (self.first, self.second):
            log.line().ok_at_last("AmazonSQS.SendMessage", {"QueueUrl": "jobs", "MessageBody": "after"})
        assert self.owner.is_ready() and len(self.owner.states) == 2
        assert self._read_anew(self.first) == sorted(texts("kept", 10) + texts("tail", 20) + ["after"])
        said = "".join(node.error_text() for node in self.second.nodes)
        found = self._read_anew(self.second)
        if may_heal and found == sorted([*texts("kept", 10), *texts("tail", 20), *served]):
            return
        assert found == sorted([*texts("kept", 10), *served])
        assert "lost writes that it had acknowledged" in said

    def _read_anew(self, log):
        """What a node finds that has nothing but PostgreSQL."""
        for node in log.nodes:
            node.kill9()
        fresh = log.node("fresh", *LEASED, host=self.machines[1]).start().wait_ready()
        return sorted(drain(Connection(fresh.port), "jobs"))

    def stop(self):
        self.second.stop()


@pytest.fixture
def loss(patroni, cluster, tmp_path, machines):
    made = Loss(patroni, cluster, tmp_path, machines)
    yield made
    made.stop()


def test_K8_an_asynchronous_failover_that_loses_a_tail_is_healed_or_reported(loss, patroni):
    others = patroni.others(loss.leader)
    for member in others:
        member.host.cut()
    loss.send_tail()
    loss.leader.kill9()
    for member in others:
        member.host.join()
    patroni.wait_commits(other_than=loss.leader)
    loss.check(may_heal=True)


def test_F14_K9_without_synchronous_standbys_what_a_primary_of_the_past_took_is_written_again_or_reported(
        loss, patroni, machines):
    """Of the second log each primary has an owner for a while."""
    loss.leader.kill_patroni()
    leader = patroni.wait_commits(other_than=loss.leader)
    uri = patroni.uri_from(leader, loss.second.database)
    third = loss.second.node("three", *LEASED, uri=uri, host=machines[1]).start().wait_ready()
    loss.send_tail()
    send(Connection(third.port), "jobs", ["new"])
    assert loss.leader.is_primary() and loss.pair[0].is_ready()
    loss.leader.start()
    patroni.wait_healthy()
    loss.pair[0].wait_standing_by()
    loss.pair[0].wait_said("lost")  # what the owner of the past knows
    loss.check(served=["new", "after"])


# --- standbys that leave --------------------------------------------------------------------------------------------


def test_F24_K7_while_the_only_standby_is_stopped_for_maintenance_nothing_is_acknowledged_in_strict_mode(
        patroni, cluster, machines):
    leader = patroni.wait_healthy()
    pair(cluster, machines, *LEASED)
    traffic = Traffic(cluster, has_load=False)
    wait_until(lambda: traffic.fifo.acknowledged > 10, what="some load")
    asynchronous, only = patroni.others_sync_last(leader)
    asynchronous.stop()
    only.begin_to_stop()
    patroni.wait_gone(leader, only)
    time.sleep(0.3)  # for replies that are on their way
    before = traffic.fifo.acknowledged
    only.stop()
    wait_until(lambda: leader.sql("SHOW synchronous_standby_names") == [("*",)], what="that Patroni knows it")
    time.sleep(2 * LEASE)
    assert traffic.fifo.acknowledged == before, "a message was acknowledged that is on one machine only"
    assert not [node for node in cluster.nodes if serves(node, traffic.jobs)]
    for member in patroni.others(leader):
        member.start()
    patroni.wait_commits()
    acknowledges(cluster, traffic, time.monotonic(), 2 * SECOND)
    traffic.finish()


def bytes_on(member, database):
    """All that it has of the log."""
    with contextlib.closing(member.connect(dbname=database)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT body FROM tally_log.chunk")
        return b"".join(bytes(body) for body, in cursor.fetchall())


def send_until(reason, node, queue):
    """Messages one after the other until one is refused with a 503 that says so: the bodies of those acknowledged."""
    acknowledged, number, said = [], 0, ""
    ends_at = time.monotonic() + 30 * PATIENCE
    while reason not in said:
        assert time.monotonic() < ends_at, f"it said {said!r}; {node.lines} {node.error_text()}"
        number += 1
        with contextlib.suppress(Lost, OSError), Connection(node.port, 20) as line:
            answer = line.call("AmazonSQS.SendMessage", {"QueueUrl": queue, "MessageBody": f"numbered{number}x"})
            if answer.status == 200:
                acknowledged.append(f"numbered{number}x")
            else:
                assert answer.status == 503, answer.body
                said = answer.body.decode()
                time.sleep(0.01)
    return acknowledged


def test_F24_F25_where_standbys_may_be_given_up_log_replicas_acknowledges_only_what_one_has(
        patroni, cluster, machines):
    """Patroni's plain synchronous mode takes the last standby off the list, and PostgreSQL lets the commits go that
    wait for it. The lease is so long that one of the owner's is among them."""
    patroni.configure(synchronous_mode_strict=False)
    leader = patroni.wait_healthy()
    options = ("--lease", "20s", "--log-replicas", "1")
    one, two = pair(cluster, machines, *options)
    jobs = create_queue(cluster.line())
    asynchronous, only = patroni.others_sync_last(leader)
    asynchronous.host.cut()
    patroni.wait_gone(leader, asynchronous)
    only.host.cut()  # what it has can still be seen
    acknowledged = send_until("synchronous_standby_names is empty", one, jobs)
    assert leader.sql("SHOW synchronous_standby_names") == [("",)]
    kept = b"".join(bytes_on(member, cluster.database) for member in (asynchronous, only))
    assert [body for body in acknowledged if body.encode() not in kept] == []
    one.wait_said("synchronous_standby_names is empty")
    status, said = cluster.node("three", *options, host=machines[0]).run_to_end()
    assert status == 1 and "synchronous_standby_names is empty" in said
    leader.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'tallyd%%'")
    for node in (one, two):
        assert send_until("synchronous_standby_names is empty", node, jobs) == []
        assert node.process.poll() is None, node.error_text()
    patroni.network.join()
    line = AnyNode([one, two])
    line.ok_at_last("AmazonSQS.SendMessage", {"QueueUrl": jobs, "MessageBody": "after"})
    found = drain(line, jobs)
    assert set(acknowledged) | {"after"} <= set(found) and len(found) == len(set(found))
