"""The log in PostgreSQL: its disk is full, and has room again."""

import contextlib
import os
import pathlib
import pwd
import shutil
import tempfile
import time

import pytest
from conftest import PATIENCE, wait_until
from logs import LEASE, LEASED, cluster, create_queue, drain, serves, server  # noqa: F401 (fixtures)
from nodes import Cluster, PatientLine
from postgres import Postgres
from small_disk import Hog, NoMount, small_disk
from wire import Lost

MEGABYTES = 320
FULL = 4 * LEASE  # seconds
REASON = "No space left on device"


class SmallPostgres(Postgres):
    """Its data stand on a small disk of their own: all of them, or all but the write-ahead log."""

    def __init__(self, disk, has_wal):
        super().__init__(disk.parent / "server", fsync="on", max_wal_size="96MB", min_wal_size="32MB",
                         checkpoint_timeout="30s")
        self.data = disk / "data"
        self.disk, self.has_wal = disk, has_wal
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(disk, owner.pw_uid, owner.pw_gid)

    def _run(self, program, *arguments):
        if program == "initdb" and not self.has_wal:
            arguments = (*arguments, "-X", str(self.folder / "wal"))
        super()._run(program, *arguments)

    def is_up(self):
        with contextlib.suppress(Exception):
            return self.sql("SELECT 1") == [(1,)]
        return False


@pytest.fixture(params=["tables", "everything"])
def small(request):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tally-small-"))
    folder.chmod(0o711)
    try:
        with small_disk(folder / "disk", MEGABYTES) as disk:
            server = SmallPostgres(disk, request.param == "everything").start()
            yield server
            with contextlib.suppress(AssertionError):
                server.stop("immediate")
    except NoMount as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Sender:
    """Sends numbered messages of some size, and knows which were acknowledged."""

    def __init__(self, cluster, queue):
        self.line, self.queue = cluster.line(), queue
        self.number, self.acknowledged = 0, []

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
    wait_until(lambda: REASON in node.error_text(), 10, "that it gives up, and says why")


def test_F11_K12_a_full_disk_of_postgresql_is_said_loses_nothing_and_all_goes_on_when_it_has_room(small, tmp_path):
    cluster = Cluster(small, tmp_path)
    try:
        owner, other = cluster.pair(*LEASED)
        sender = Sender(cluster, create_queue(cluster.line()))
        for _ in range(20):
            assert sender.send().status == 200
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
        sender.send_until(lambda answer: answer is not None and answer.status == 200, "that sends are taken again")
        assert all(node.process.poll() is None for node in cluster.nodes)
        found = drain(PatientLine(cluster.nodes), sender.queue)
        assert len(found) == len(set(found)) and set(found) >= set(sender.acknowledged)
        assert len(found) <= sender.number
    finally:
        cluster.stop()
