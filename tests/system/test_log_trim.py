"""The log in PostgreSQL: what it costs, and how it is cleaned, beside others who use the database."""

import contextlib
import statistics
import subprocess
import time

import pytest
from conftest import PATIENCE, wait_until
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import SMALL, create_queue, drain, receive, send, texts
from wire import Connection

SENDS = 80
BODY = 12000  # bytes: with fewer it takes thousands of sends until a segment ends
SEGMENT = 5 << 20  # of SMALL
SLOWER = 1.3  # as much slower a send may be beside the others
TRIES = 4  # on a machine that others use, too: what is slower by itself is so each time


class Writer:
    """A client that sends and receives, so that the log grows and is trimmed."""

    def __init__(self, cluster, line, log="000000000000"):
        self.cluster, self.line, self.log = cluster, line, log
        self.kept = create_queue(self.line, "kept")
        self.jobs = create_queue(self.line)

    def files(self, what, ending):
        """Of its log."""
        return self.cluster.sql(f"SELECT {what} FROM tally_log.file f JOIN tally_log.head h ON h.id = f.log"
                                " WHERE h.log = %s AND f.name LIKE %s", self.log, ending)[0][0]

    def pace(self):
        """Seconds that a send takes: of the quicker half, so that a moment in which others had the processor does not
        count."""
        took = []
        for number in range(SENDS):
            began_at = time.monotonic()
            send(self.line, self.jobs, [f"m{number} " + "x" * BODY])
            took.append(time.monotonic() - began_at)
            if number % 10 == 9:
                drain(self.line, self.jobs)
        return statistics.median(sorted(took)[: SENDS // 2])

    def last_segment(self):
        return int(self.files("max(f.name)", "%.segment")[:16], 16)

    def pace_over(self, segments):
        """The same, from after so many segments on."""
        until = self.last_segment() + segments * SEGMENT
        while self.last_segment() < until:
            self.pace()
        return self.pace()

    def wait_trimmed(self):
        wait_until(lambda: self.files("count(*)", "%.segment%") <= 3, 30, "the trimming")

    def check_pace_beside(self, company):
        """`company()` is a context of somebody who uses the database."""
        ratios = []
        while len(ratios) < TRIES and min(ratios, default=9) > SLOWER:
            before = self.pace()
            with company():
                during = self.pace_over(2)
                self.wait_trimmed()
            ratios.append(during / max(before, self.pace()))
        assert min(ratios) <= SLOWER, f"so much slower is a send: {ratios}"


@pytest.fixture
def node(cluster):
    made = cluster.node("one", *SMALL).start().wait_ready()
    yield made
    assert made.is_ready()


@pytest.fixture
def writer(cluster, node):
    return Writer(cluster, Connection(node.port))


def held_connection(cluster):
    """Whose transaction lasts until it is closed."""
    made = cluster.server.connect(dbname=cluster.database)
    made.autocommit = False
    return contextlib.closing(made)


@contextlib.contextmanager
def open_transaction(cluster):
    with held_connection(cluster) as held:
        held.set_session(isolation_level="REPEATABLE READ")
        held.cursor().execute("SELECT count(*) FROM tally_log.chunk")
        yield


def test_F12_K18_appends_and_trimming_go_on_beside_a_transaction_that_stays_open(cluster, node, writer):
    writer.check_pace_beside(lambda: open_transaction(cluster))
    assert node.error_text() == ""


class Dump:
    """pg_dump of the whole database, that comes to no end while nobody reads what it prints."""

    def __init__(self, cluster):
        self.cluster, self.text = cluster, b""

    @contextlib.contextmanager
    def run(self):
        locks = ("SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE a.application_name = "
                 "'pg_dump' AND a.datname = current_database() AND l.relation = 'tally_log.chunk'::regclass")
        prefix = self.cluster.host.prefix if self.cluster.host else []
        process = subprocess.Popen([*prefix, self.cluster.server.programs / "pg_dump", self.cluster.uri],
                                   stdout=subprocess.PIPE)
        try:
            wait_until(lambda: self.cluster.sql(locks)[0][0] > 0, what="that the dump has begun")
            yield
            assert process.poll() is None and self.cluster.sql(locks)[0][0] > 0, "the dump has ended"
            self.text = process.communicate(timeout=60 * PATIENCE)[0]
            assert process.returncode == 0
        finally:
            process.kill()
            process.communicate()


def test_F10_K18_appends_and_trimming_go_on_beside_a_dump_and_the_dump_is_whole(cluster, node, writer):
    send(writer.line, writer.kept, [f"{body} " + "k" * 50000 for body in texts("k", 20)])
    writer.pace_over(1)
    dump = Dump(cluster)
    writer.check_pace_beside(dump.run)
    assert node.error_text() == ""
    assert len(dump.text) > 500000
    restored = f"{cluster.database}_restored"
    cluster.server.sql(f"CREATE DATABASE {restored}")
    uri = cluster.uri.rsplit("/", 1)[0] + "/" + restored
    subprocess.run([cluster.server.programs / "psql", "-q", "-v", "ON_ERROR_STOP=1", uri], input=dump.text, check=True,
                   stdout=subprocess.DEVNULL, timeout=60 * PATIENCE)
    restored = cluster.node("restored", *SMALL, uri=uri).start().wait_ready()
    found = receive_all(Connection(restored.port), "kept")
    assert sorted(message["Body"].split(" ")[0] for message in found) == sorted(texts("k", 20))
    assert all(len(message["Body"]) > 50000 for message in found)


ORPHANS = "SELECT count(*) FROM tally_log.chunk WHERE file NOT IN (SELECT id FROM tally_log.file)"
RESTS = "SELECT count(*) FROM tally_log.file WHERE name LIKE '%%.gone'"
CHILD = ("SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
         " AND application_name LIKE 'tallyd, snapshot of %%' AND query LIKE '%%DELETE FROM tally_log.chunk%%'")


@contextlib.contextmanager
def chunk_held(cluster):
    """A chunk of the oldest segment, so that whoever removes it must wait."""
    with held_connection(cluster) as held:
        held.cursor().execute(
            "SELECT 1 FROM tally_log.chunk WHERE file = (SELECT id FROM tally_log.file WHERE name LIKE '%.segment'"
            " ORDER BY name LIMIT 1) LIMIT 1 FOR UPDATE")
        yield


def churn_until(writer, is_over, what):
    """A megabyte is sent and received again and again."""
    for _ in range(int(60 * PATIENCE)):
        send(writer.line, writer.jobs, [f"{body} " + "x" * 50000 for body in texts("c", 20)])
        drain(writer.line, writer.jobs)
        if is_over():
            return
    raise AssertionError(f"{what} is never seen")


def test_what_a_child_had_begun_to_remove_when_its_connection_broke_is_removed_by_a_later_one(cluster, node, writer):
    with chunk_held(cluster):
        churn_until(writer, lambda: cluster.sql(CHILD), "a child that removes a segment")
        (child, ), = cluster.sql(CHILD)
        assert cluster.sql(RESTS)[0][0] > 0
        cluster.sql("SELECT pg_terminate_backend(%s)", child)
        wait_until(lambda: (child, ) not in cluster.sql(CHILD), what="the end of its connection")
    churn_until(writer, lambda: cluster.sql(RESTS)[0][0] == 0, "the removal of what is left")
    assert cluster.sql(ORPHANS)[0][0] == 0
    assert "segments that nothing needs could not be removed: log 000000000000 in PostgreSQL: remove: The connection " \
        "to PostgreSQL broke" in node.error_text()
    assert cluster.head() == (1, "one"), "no other owner has removed it"


def receive_all(line, queue):
    found = []
    while more := receive(line, queue, VisibilityTimeout=600):
        found += more
    return found
