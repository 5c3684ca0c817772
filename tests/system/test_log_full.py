"""The log in PostgreSQL: its disk or that of a node's cache is full, and has room again."""

import contextlib
import os
import pathlib
import shutil
import tempfile
import time

import pytest
from conftest import PATIENCE, wait_until
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import LEASE, LEASED, TAKEOVER, await_takeover, create_queue, drain, serves
from nodes import Cluster, PatientLine
from postgres import Postgres, hand_over
from small_disk import Hog, NoMount, small_disk
from wire import Lost

MEGABYTES = 320  # of the disk of PostgreSQL
CACHE_MEGABYTES = 96
FULL = 4 * LEASE  # seconds
REASON = "No space left on device"


class SmallPostgres(Postgres):
    """Its data stand on a small disk of their own: all of them, or all but the write-ahead log."""

    def __init__(self, disk, has_wal):
        super().__init__(disk.parent / "server", fsync="on", max_wal_size="96MB", min_wal_size="32MB",
                         checkpoint_timeout="30s")
        self.disk, self.data = disk, disk / "data"
        if not has_wal:
            self.wal = self.folder / "wal"
        hand_over(disk)


@contextlib.contextmanager
def wanted_disk(folder, megabytes):
    """Where there is no right to mount one the test is skipped; it fails if CI is true."""
    try:
        with small_disk(folder, megabytes) as disk:
            yield disk
    except NoMount as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture(params=["tables", "everything"])
def small(request):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tally-small-"))
    folder.chmod(0o711)
    try:
        with wanted_disk(folder / "disk", MEGABYTES) as disk:
            server = SmallPostgres(disk, request.param == "everything").start()
            yield server
            with contextlib.suppress(AssertionError):
                server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def cache_disk(tmp_path):
    """For the data folder of a node."""
    with wanted_disk(tmp_path / "cache", CACHE_MEGABYTES) as disk:
        yield disk


class Sender:
    """Sends numbered messages of some size, and knows which were acknowledged."""

    def __init__(self, cluster, queue):
        self.cluster, self.line, self.queue = cluster, cluster.line(), queue
        self.number, self.acknowledged = 0, []
        for _ in range(20):
            self.send_until_taken()

    def send(self):
        """The answer; None: none came."""
        key = f"m{self.number}"
        self.number += 1
        try:
            line = self.line.connections[self.line.at % len(self.line.connections)]
            answer = line.call("AmazonSQS.SendMessage",
                               {"QueueUrl": self.queue, "MessageBody": key + " " + os.urandom(25000).hex()})
        except Lost:
            answer = None
        if answer is not None and answer.status == 200:
            self.acknowledged.append(key)
        else:
            self.line._go_on()
        return answer

    def listen(self, seconds):
        """Sends for so long; what the refusals say."""
        said, ends_at = set(), time.monotonic() + seconds
        while time.monotonic() < ends_at:
            answer = self.send()
            if answer is not None and answer.status != 200:
                assert answer.status == 503, answer.body
                said.add(answer.body)
            time.sleep(0.02)
        return said

    def send_until(self, claim, what, seconds=60):
        deadline = time.monotonic() + seconds * PATIENCE
        while not claim(answer := self.send()):
            assert time.monotonic() < deadline, f"{what}: {answer and (answer.status, answer.body)}"

    def send_until_taken(self):
        self.send_until(lambda answer: answer is not None and answer.status == 200, "that sends are taken again")

    def check(self, line):
        """What was acknowledged is there, and nothing twice. What was refused may be there."""
        found = drain(line, self.queue)
        assert len(found) == len(set(found)) <= self.number and set(found) >= set(self.acknowledged)


REFUSER = """
CREATE FUNCTION tally_log.refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100'; END$$"""
REFUSED = "CREATE TRIGGER refused BEFORE UPDATE ON tally_log.beat FOR EACH ROW EXECUTE FUNCTION tally_log.refuse()"


def test_F11_an_idle_owner_bears_a_full_disk_for_half_a_lease_and_then_says_so(cluster):
    node = cluster.node("one", "--lease", "6s").start().wait_ready()
    jobs = create_queue(cluster.line())
    cluster.sql(REFUSER)
    cluster.sql(REFUSED)
    time.sleep(2.5)  # a beat is due each 1.5 s
    cluster.sql("DROP TRIGGER refused ON tally_log.beat")
    time.sleep(2)
    assert cluster.head() == (1, "one") and serves(node, jobs) and node.error_text() == ""
    cluster.sql(REFUSED)
    node.wait_said(REASON)  # it gives up


def test_F11_K12_a_full_disk_of_postgresql_is_said_loses_nothing_and_all_goes_on_when_it_has_room(small, tmp_path):
    cluster = Cluster(small, tmp_path)
    try:
        owner, other = cluster.pair(*LEASED)
        sender = Sender(cluster, create_queue(cluster.line()))
        with Hog(small.disk) as hog:
            hog.wait_until_full()
            epoch = cluster.head()[0]
            said = sender.listen(FULL)
            handed_on = cluster.head()[0] - epoch
        assert any(REASON.encode() in body for body in said), said
        assert any(REASON in node.error_text() for node in cluster.nodes)
        assert handed_on <= FULL / (LEASE / 2) + 1, "the log went to and fro"
        assert all(node.process.poll() is None for node in cluster.nodes)
        if not small.is_up():  # what runs it starts it again
            small.stop("immediate")
            small.start()
        sender.send_until_taken()
        assert all(node.process.poll() is None for node in cluster.nodes)
        sender.check(PatientLine(cluster.nodes))
    finally:
        cluster.stop()


@contextlib.contextmanager
def no_room(disk):
    with Hog(disk) as hog:
        hog.wait_until_full()
        yield


def test_K11_a_node_alone_without_room_for_its_cache_says_so_and_serves_again_when_there_is_room(cluster, cache_disk):
    node = cluster.node("one", *LEASED, data=cache_disk / "data").start().wait_ready()
    sender = Sender(cluster, create_queue(cluster.line()))
    for is_killed in (False, True):
        with no_room(cache_disk):
            if is_killed:  # so that it starts on a full disk
                node.kill9()
                node.start()
            said = sender.listen(FULL)
            assert is_killed or any(REASON.encode() in body and str(cache_disk).encode() in body for body in said), said
            assert not serves(node, sender.queue) and node.process.poll() is None
            wait_until(lambda: REASON in node.error_text().splitlines()[-1], what=f"{REASON} in {node.error_text()}")
        sender.send_until_taken()
    assert cluster.head()[0] <= 5, "it has taken its own log again and again while there was no room"
    sender.check(PatientLine([node]))
    assert node.process.poll() is None


def test_K11_a_node_without_room_for_its_cache_leaves_its_log_to_one_that_has_room(cluster, cache_disk):
    """And stands by when it has room again."""
    owner = cluster.node("one", *LEASED, data=cache_disk / "data").start().wait_ready()
    other = cluster.node("two", *LEASED).start().wait_standing_by()
    sender = Sender(cluster, create_queue(cluster.line()))
    cluster.wait_followed()
    with no_room(cache_disk):
        began_at = time.monotonic()
        sender.send_until(lambda answer: answer is not None and answer.status == 503, "that the owner gives up")
        await_takeover(other, sender.queue, began_at, TAKEOVER + LEASE)
        acknowledged = len(sender.acknowledged)
        sender.listen(FULL)
        assert len(sender.acknowledged) > acknowledged, "the other one has served nothing"
        assert cluster.head() == (2, "two"), "the log went to and fro"
    cluster.wait_level()
    cluster.wait_followed()
    killed_at = time.monotonic()
    other.kill9()
    await_takeover(owner, sender.queue, killed_at)
    sender.check(PatientLine([owner]))
