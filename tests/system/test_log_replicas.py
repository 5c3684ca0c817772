"""The log in PostgreSQL: a server with a replica, synchronous or not, and failovers to it."""

import random
import threading
import time

import pytest
from conftest import wait_until
from logs import answer_of, counts, create_queue, drain, send, serves, texts
from nodes import Cluster, PatientLine
from test_relay_failover import Cluster as Replicated
from wire import Connection, request_bytes


# --- a synchronous replica ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def replicated(tmp_path_factory):
    made = Replicated(tmp_path_factory.mktemp("replicated"), fsync="on")
    made.add_replica()
    made.primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
    made.primary.sql("SELECT pg_reload_conf()")
    yield made
    made.stop()


@pytest.fixture
def safe_cluster(replicated, tmp_path):
    made = Cluster(replicated.primary, tmp_path)
    yield made
    made.stop()


def test_F19_a_replica_is_refused(safe_cluster, replicated):
    replicated.wait_until_level()
    uri = f"postgresql://tally@127.0.0.1:{replicated.replica.port}/{safe_cluster.database}?target_session_attrs=any"
    status, said = safe_cluster.node("one", uri=uri).run_to_end()
    assert status == 1 and "the server is a replica" in said


def test_F03_F04_without_the_synchronous_replica_nobody_is_answered_even_if_the_wait_is_cancelled(
        safe_cluster, replicated):
    owner, other = safe_cluster.pair("--log-replicas", "1", "--lease", "1s")
    line = Connection(owner.port)
    jobs = create_queue(line)
    send(line, jobs, texts("m", 10))
    replicated.replica.stop("immediate")
    asking = Connection(owner.port, 60).open()
    asking.write(request_bytes("AmazonSQS.SendMessage", {"QueueUrl": jobs, "MessageBody": "unreplicated"}))
    answers = []
    thread = threading.Thread(target=lambda: answers.append(answer_of(asking)))
    thread.start()

    def end_waits(how):
        return safe_cluster.sql(f"SELECT pg_{how}_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' "
                                "AND application_name LIKE 'tallyd%%'")

    wait_until(lambda: end_waits("cancel"), what="an append that waits for the replica")
    ends_at = time.monotonic() + 3
    while time.monotonic() < ends_at:
        time.sleep(0.02)
        end_waits(random.choice(("cancel", "terminate")))
        assert not serves(other, jobs), "the other node serves from what is not replicated"
        assert 200 not in answers, "a message was acknowledged that is not replicated"
    replicated.replica.start()
    thread.join(30)
    assert answers and answers[0] in (0, 200, 503)
    line = PatientLine(safe_cluster.nodes)
    found = sorted(drain(line, jobs))
    assert found[:10] == sorted(texts("m", 10))
    assert found[10:] in ([], ["unreplicated"]) and (answers[0] != 200 or len(found) == 11)


# --- an asynchronous replica that has not got everything ------------------------------------------------------------


class Lossy:
    """A log whose server fails over to a replica that lacks the last messages, each of which is a frame."""

    TAIL = texts("tail", 100)

    def __init__(self, replicated, folder):
        self.replicated = replicated
        self.cluster = Cluster(replicated.primary, folder)
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in replicated.started)
        self.cluster.uri = f"postgresql://tally@{hosts}/{self.cluster.database}"

    def run(self, node, before_promotion):
        self.begin(node)
        send(Connection(node.port), self.jobs, self.TAIL)
        time.sleep(0.5)  # a stand-by has read them
        self.fail_over(before_promotion)

    def begin(self, node):
        """What comes from here on the replica has not."""
        line = Connection(node.port)
        self.jobs = create_queue(line)
        send(line, self.jobs, texts("kept", 10))
        self.replicated.wait_until_level()
        self.replicated.replica.stop("immediate")

    def fail_over(self, before_promotion=lambda: None):
        self.replicated.primary.kill9()
        before_promotion()
        self.replicated.promote()
        self.replicated.primary = self.replicated.replica
        self.cluster.server = self.replicated.primary

    def read_anew(self):
        """What a node finds that has nothing but PostgreSQL."""
        for node in self.cluster.nodes:
            node.kill9()
        node = self.cluster.node("fresh").start().wait_ready()
        return sorted(drain(Connection(node.port), self.jobs))


@pytest.fixture
def lossy(tmp_path):
    replicated = Replicated(tmp_path / "lossy", fsync="on")
    replicated.add_replica()
    made = Lossy(replicated, tmp_path)
    yield made
    made.cluster.stop()
    replicated.stop()


def test_K8_F05_an_owner_that_lives_writes_again_what_a_failover_has_lost(lossy):
    made = lossy
    node = made.cluster.node("one", "--lease", "30s").start().wait_ready()
    made.run(node, lambda: None)
    line = PatientLine(made.cluster.nodes)
    line.ok("AmazonSQS.SendMessage", {"QueueUrl": made.jobs, "MessageBody": "after"})
    assert node.is_ready() and len(node.lines) == 2
    assert made.read_anew() == sorted(texts("kept", 10) + made.TAIL + ["after"])


@pytest.mark.parametrize("which", ["a stand-by that has read them", "the owner, too late"])
def test_K8_F06_a_node_that_knows_more_than_a_failover_left_says_so_and_serves_what_is_there(lossy, which):
    made = lossy
    if which == "the owner, too late":
        owner = other = made.cluster.node("one", "--lease", "500ms").start().wait_ready()
        made.run(owner, lambda: time.sleep(1))
    else:
        owner, other = made.cluster.pair("--lease", "3s")
        made.run(owner, owner.kill9)
    line = PatientLine(made.cluster.nodes)
    line.ok("AmazonSQS.SendMessage", {"QueueUrl": made.jobs, "MessageBody": "after"})
    visible = counts(line, made.jobs)[0]
    found = made.read_anew()
    assert len(found) == visible, "what the node served is not what PostgreSQL has"
    assert [body for body in found if "tail" not in body] == sorted(texts("kept", 10) + ["after"])
    assert len(found) == 11 + len(made.TAIL) or "lost" in other.error_text(), other.error_text()


def test_F06_a_failover_that_drops_a_takeover_ends_the_owner_which_says_so(lossy):
    made = lossy
    owner, other = made.cluster.pair("--lease", "10s")
    made.begin(owner)
    owner.kill9()
    other.wait_ready()
    assert made.cluster.head() == (2, "two")
    send(Connection(other.port), made.jobs, made.TAIL)
    made.fail_over()
    line = PatientLine(made.cluster.nodes)
    line.ok("AmazonSQS.SendMessage", {"QueueUrl": made.jobs, "MessageBody": "after"})
    said = other.error_text()
    assert "has lost writes that it had acknowledged" in said and "had sealed epoch 2 before" in said, said
    assert made.cluster.head() == (2, "two"), "it has sealed the epoch that it found, and no other"
    assert counts(line, made.jobs)[0] == 11
    assert made.read_anew() == sorted([*texts("kept", 10), "after"])
