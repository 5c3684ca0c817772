"""The log in PostgreSQL: a database that was copied or restored, beside the one that it comes from.

A copy of a server's folder has its system identifier, a restored dump has that of the server it went to. A connection
string that leads to another server than before is a proxy here, which is turned round."""

import contextlib
import subprocess

import pytest
from conftest import PATIENCE
from logs import SMALL, create_queue, drain, send, serves, texts
from newer_node import NewerNode
from nodes import Cluster, PatientLine
from postgres import Postgres
from proxy import Proxy
from wire import Connection


class Pair:
    """A cluster in a server, and what is a copy of that."""

    def __init__(self, folder):
        self.folder = folder
        self.origin = Postgres(folder / "origin", fsync="on").start()
        self.proxy = Proxy(self.origin.port)
        self.cluster = Cluster(self.origin, folder)
        self.twin = None

    def make_twin(self, is_running=True):
        if not is_running:
            self.origin.stop()
        self.twin = self.origin.copy().start()
        if not is_running:
            self.origin.start()
        assert self.sql_of_twin("SELECT system_identifier FROM pg_control_system()") == self.cluster.sql(
            "SELECT system_identifier FROM pg_control_system()")

    def twin_uri(self):
        return self.twin.uri.rsplit("/", 1)[0] + "/" + self.cluster.database

    @contextlib.contextmanager
    def on_twin(self):
        """The cluster's questions go to the copy meanwhile."""
        self.cluster.server = self.twin
        try:
            yield self.cluster
        finally:
            self.cluster.server = self.origin

    def sql_of_twin(self, statement):
        with self.on_twin() as cluster:
            return cluster.sql(statement)

    def turn_round(self):
        """From now on the nodes that go through the proxy are led to the copy."""
        self.proxy.server_port = self.twin.port
        self.proxy.cut()

    def read_twin(self, queue):
        """What a node finds in the copy that has nothing else."""
        for node in self.cluster.nodes:
            node.kill9()
        fresh = self.cluster.node("fresh", *SMALL, uri=self.twin_uri()).start().wait_ready()
        return sorted(drain(Connection(fresh.port), queue))

    def stop(self):
        self.cluster.stop()
        self.proxy.close()
        for server in (self.origin, self.twin):
            if server is not None:
                server.stop("immediate")


@pytest.fixture
def pair(tmp_path):
    made = Pair(tmp_path)
    yield made
    made.stop()


def test_F18_F29_two_owners_of_one_epoch_on_two_copies_and_the_one_that_is_led_to_the_other_follows(pair):
    cluster = pair.cluster
    one = cluster.node("one", *SMALL, uri=pair.proxy.uri(cluster.uri)).start().wait_ready()
    jobs = create_queue(Connection(one.port))
    send(Connection(one.port), jobs, texts("m", 10))
    one.kill9()
    pair.make_twin(is_running=False)
    one.start().wait_ready()
    two = cluster.node("two", *SMALL, uri=pair.twin_uri()).start().wait_ready()
    assert cluster.sql("SELECT epoch FROM tally_log.head") == pair.sql_of_twin("SELECT epoch FROM tally_log.head")
    send(Connection(one.port), jobs, texts("a", 10))
    send(Connection(two.port), jobs, texts("b", 5))
    pair.turn_round()
    one.wait_said("of node two, and this node had sealed", 20)
    one.wait_standing_by()
    assert serves(two, jobs) and not serves(one, jobs)
    send(Connection(two.port), jobs, ["after"])
    two.kill9()
    one.wait_ready()  # its cache has what it wrote to the other copy
    send(Connection(one.port), jobs, ["last"])
    expected = sorted([*texts("m", 10), *texts("b", 5), "after", "last"])
    assert sorted(message["Body"] for message in peek(Connection(one.port), jobs)) == expected
    assert pair.read_twin(jobs) == expected


def peek(line, queue):
    """All messages, which stay there."""
    found = []
    asked = {"QueueUrl": queue, "MaxNumberOfMessages": 10, "VisibilityTimeout": 60}
    while more := line.ok("AmazonSQS.ReceiveMessage", asked).get("Messages", []):
        found += more
    for message in found:
        line.ok("AmazonSQS.ChangeMessageVisibility", {
            "QueueUrl": queue, "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0})
    return found


def test_F29_an_owner_that_is_led_to_an_older_copy_writes_again_what_that_lacks(pair):
    cluster = pair.cluster
    one = cluster.node("one", *SMALL, "--lease", "30s", uri=pair.proxy.uri(cluster.uri)).start().wait_ready()
    jobs = create_queue(Connection(one.port))
    send(Connection(one.port), jobs, texts("m", 10))
    pair.make_twin()
    send(Connection(one.port), jobs, texts("a", 10))
    pair.turn_round()
    line = PatientLine([one])
    line.ok("AmazonSQS.SendMessage", {"QueueUrl": jobs, "MessageBody": "after"})
    assert one.is_ready() and len(one.lines) == 2 and one.error_text() == ""
    assert pair.read_twin(jobs) == sorted([*texts("m", 10), *texts("a", 10), "after"])


def test_F18_F29_an_owner_that_is_led_to_a_copy_with_another_history_says_what_is_lost_and_serves_that(pair):
    """In the copy somebody has gone on with the same epoch and owner: only the hash tells the two apart."""
    cluster = pair.cluster
    one = cluster.node("one", *SMALL, "--lease", "30s", uri=pair.proxy.uri(cluster.uri)).start().wait_ready()
    jobs = create_queue(Connection(one.port))
    send(Connection(one.port), jobs, texts("m", 10))
    pair.make_twin()
    with pair.on_twin(), contextlib.closing(NewerNode(cluster, seals=False)) as other:
        other.append_frame()
    send(Connection(one.port), jobs, texts("a", 10))
    pair.turn_round()
    line = PatientLine([one])
    line.ok("AmazonSQS.SendMessage", {"QueueUrl": jobs, "MessageBody": "after"})
    said = one.error_text()
    assert "lost writes that it had acknowledged" in said and "Nothing that was acknowledged" not in said, said
    served = sorted(message["Body"] for message in peek(line, jobs))
    assert [body for body in served if body[0] != "a" or body == "after"] == sorted([*texts("m", 10), "after"])
    assert pair.read_twin(jobs) == served, "what the node served is not what PostgreSQL has"


def test_F29_a_dump_that_was_restored_on_another_server_is_refused_by_name_until_it_is_let(pair):
    cluster = pair.cluster
    one = cluster.node("one", *SMALL).start().wait_ready()
    jobs = create_queue(Connection(one.port))
    send(Connection(one.port), jobs, texts("m", 10))
    other = pair.twin = Postgres(pair.folder / "other", fsync="on").start()
    other.sql(f"CREATE DATABASE {cluster.database}")
    dump = subprocess.run([pair.origin.programs / "pg_dump", cluster.uri], stdout=subprocess.PIPE, check=True,
                          timeout=60 * PATIENCE)
    subprocess.run([pair.origin.programs / "psql", "-q", "-v", "ON_ERROR_STOP=1", pair.twin_uri()], input=dump.stdout,
                   stdout=subprocess.DEVNULL, check=True, timeout=60 * PATIENCE)
    two = cluster.node("two", *SMALL, uri=pair.twin_uri())
    status, said = two.run_to_end()
    assert status == 1 and "written on another PostgreSQL (system identifier" in said, said
    advice = said[said.index("UPDATE tally_log.head SET system_id = NULL") :].splitlines()[0]
    pair.sql_of_twin(advice)
    two.start().wait_ready()
    send(Connection(two.port), jobs, ["there"])
    send(Connection(one.port), jobs, ["here"])
    assert sorted(drain(Connection(two.port), jobs)) == sorted([*texts("m", 10), "there"])
    assert sorted(drain(Connection(one.port), jobs)) == sorted([*texts("m", 10), "here"])
