"""The log in PostgreSQL: a server that restarts, connections that break, commits of which nobody knows."""

import contextlib
import os
import signal
import threading
import time
import uuid

import psycopg2
from conftest import PATIENCE, wait_until
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import CROWD, SMALL, Traffic, create_queue, drain, execute, send, texts
from nodes import PatientLine
from wire import Connection, request_bytes


def test_K6_the_nodes_go_on_by_themselves_when_postgresql_restarts(cluster):
    cluster.pair(*SMALL)
    traffic = Traffic(cluster)
    line = PatientLine(cluster.nodes)
    for how in ("fast", "immediate", "kill -9"):
        time.sleep(0.3)
        if how == "kill -9":
            cluster.server.kill9()
        else:
            cluster.server.stop(how)
        cluster.server.start()
        began_at = time.monotonic()
        key = how.replace(" ", "")
        traffic.load.record.sent[key] = "acknowledged"
        line.ok("AmazonSQS.SendMessage", {"QueueUrl": traffic.jobs, "MessageBody": f"{key} is over"})
        assert time.monotonic() - began_at < 5 * PATIENCE, how
        with traffic.load.record.lock:
            traffic.load.record.waiting |= {key} - traffic.load.record.delivered
        traffic.check()
    traffic.finish()


def owner_backend(cluster):
    """That of the connection by which the owner writes: it has the lock of the newest epoch."""
    return cluster.sql("SELECT l.pid FROM pg_locks l JOIN tally_log.head h ON l.classid = 1952541804 + h.id AND "
                       "l.objid = h.epoch WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2")[0][0]


def set_standby_names(server, names):
    server.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
    server.sql("SELECT pg_reload_conf()")


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_F15_an_append_that_comes_behind_the_seal_is_made_again_once(cluster, proxy):
    """The server's process is stopped before the append comes, and goes on when the log was sealed anew."""
    node = cluster.node("one", uri=proxy.uri(cluster.uri)).start().wait_ready()
    line = cluster.line()
    jobs = create_queue(line)
    for number in range(3):
        send(line, jobs, [f"before{number}"])
        pid = owner_backend(cluster)
        asking = Connection(node.port).open()
        with stopped(pid):
            asking.write(request_bytes("AmazonSQS.SendMessage", {"QueueUrl": jobs, "MessageBody": f"late{number}"}))
            time.sleep(0.1)
            proxy.cut()
            time.sleep(0.5)
        assert asking.answer().status == 200
    line = cluster.line()
    assert sorted(drain(line, jobs)) == sorted(texts("before", 3) + texts("late", 3))
    assert cluster.head()[1] == "one" and cluster.head()[0] >= 4


def test_F02_an_append_that_is_committed_late_is_waited_for_and_found(cluster, proxy):
    """The server's process has executed it, waits for a replica, and is stopped; the connection is cut. The row that it
    has locked keeps the seal waiting, until it goes on and commits."""
    node = cluster.node("one", "--lease", "30s", uri=proxy.uri(cluster.uri)).start().wait_ready()
    jobs = create_queue(cluster.line())
    epoch, _ = cluster.head()
    pid = owner_backend(cluster)
    asking = Connection(node.port).open()
    answers = []
    thread = threading.Thread(target=lambda: answers.append(asking.answer().status))
    try:
        set_standby_names(cluster.server, "nobody")
        time.sleep(0.5 * CROWD)  # until the owner's process has read it
        asking.write(request_bytes("AmazonSQS.SendMessage", {"QueueUrl": jobs, "MessageBody": "committed-late"}))
        wait_until(lambda: cluster.sql("SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = 'SyncRep' AND "
                                       "query LIKE '%%INSERT INTO tally_log.chunk%%'", pid), 10, "a commit that waits")
        with stopped(pid):
            thread.start()
            proxy.cut()
            set_standby_names(cluster.server, "")
            wait_until(lambda: cluster.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND "
                                           "query LIKE 'UPDATE tally_log.head%%'"), 10, "a seal that waits")
            time.sleep(1)
            assert answers == []
        thread.join(10 * PATIENCE)
    finally:
        set_standby_names(cluster.server, "")
    assert answers == [200]
    assert cluster.sql("SELECT epoch FROM tally_log.chunk WHERE position('committed-late' in body) > 0") == [(epoch,)]
    assert cluster.head()[0] > epoch and drain(cluster.line(), jobs) == ["committed-late"]


def test_F02_an_answer_that_is_lost_is_found_out(cluster, proxy):
    """Again and again, the server has committed and its answer does not come."""
    node = cluster.node("one", uri=proxy.uri(cluster.uri)).start().wait_ready()
    line = cluster.line()
    jobs = create_queue(line)
    for number in range(10):
        proxy.lose_answer_to(f"body{number}x".encode())
        send(line, jobs, [f"body{number}x"])
    assert proxy.lost == 10
    assert sorted(drain(line, jobs)) == sorted(f"body{number}x" for number in range(10))
    assert node.is_ready() and node.error_text() == ""


class Fence:
    """Two sessions of SQL: an owner's append, and a seal, each in the program's own words."""

    def __init__(self, cluster):
        self.uri = cluster.server.uri.rsplit("/", 1)[0] + "/" + cluster.database
        self.fence = cluster.sql("SELECT id, epoch, owner FROM tally_log.head")[0]
        self.sessions = [psycopg2.connect(self.uri), psycopg2.connect(self.uri)]
        self.appender, self.sealer = [session.cursor() for session in self.sessions]

    def append(self):
        return execute(self.appender, "APPEND", *self.fence, -1, 0, b"h" * 16, [b"x"], self.fence[1])

    def seal(self):
        return execute(self.sealer, "SEAL", *self.fence, str(uuid.uuid4()), "other")

    def in_background(self, work):
        result = []
        thread = threading.Thread(target=lambda: result.append(work()))
        thread.start()
        time.sleep(0.2)
        assert not result, "it did not wait"
        return lambda: (thread.join(10), result[0])[1]

    def close(self):
        for session in self.sessions:
            session.close()


def test_F01_F15_a_seal_waits_for_an_append_and_an_append_behind_a_seal_does_nothing(cluster):
    cluster.node("one").start().wait_ready().stop()
    fence = Fence(cluster)
    appender, sealer = fence.sessions
    assert fence.append() == 1  # F01: the seal waits, and the append is there
    sealed = fence.in_background(fence.seal)
    appender.commit()
    assert sealed() == 1
    assert cluster.sql("SELECT count(*) FROM tally_log.chunk WHERE file = -1") == [(1,)]
    sealer.rollback()
    cluster.sql("DELETE FROM tally_log.chunk WHERE file = -1")

    assert fence.seal() == 1  # F15, rolled back
    appended = fence.in_background(fence.append)
    sealer.rollback()
    assert appended() == 1
    appender.rollback()

    assert fence.seal() == 1  # F15, committed
    appended = fence.in_background(fence.append)
    sealer.commit()
    assert appended() == 0
    appender.rollback()
    assert fence.append() == 0 and fence.seal() == 0
    fence.close()
