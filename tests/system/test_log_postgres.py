"""The log in PostgreSQL: one node, two that take over from each other, and what a PostgreSQL can do to them.

The ids are those of the reference: F01 to F29 of the log, K1 to K26 of the cluster. PostgreSQL is a real one, with
fsync on. What was acknowledged is held against what the nodes say afterwards: nothing lost, nothing twice."""

import collections
import contextlib
import os
import random
import re
import shutil
import signal
import statistics
import threading
import time

import psycopg2
import pytest

from clock import Clock
from conftest import PATIENCE, wait_until
from nodes import Cluster, PatientLine
from postgres import Postgres
from test_kill9 import Load, check_batches, check_messages, counts
from test_relay_failover import Cluster as Replicated
from test_relay_postgres import bouncer  # noqa: F401 (a fixture)
from wire import Connection, Lost, request_bytes, scaled

SMALL = ("--body-max", "64KiB", "--segment-size", "5MiB", "--snapshot-bytes", "1MiB")
# How many want each core: where other suites run beside this one, everything takes so much longer.
CROWD = max(1, os.getloadavg()[0] / os.cpu_count())
TAKEOVER = 2 * CROWD  # seconds that a takeover may take at most
KILLS = scaled(10, "KILLS", least=2)
KILL_SEED = int(os.environ.get("KILL_SEED") or random.SystemRandom().randrange(1 << 32))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One for all tests that leave it as it was. Safe for a log, unlike that of other files."""
    running = Postgres(tmp_path_factory.mktemp("server") / "postgres", fsync="on").start()
    yield running
    running.stop("immediate")
    shutil.rmtree(running.folder, ignore_errors=True)


@pytest.fixture
def cluster(server, tmp_path):
    made = Cluster(server, tmp_path)
    yield made
    made.stop()


def create_queue(line, name="jobs", **attributes):
    if name.endswith(".fifo"):
        attributes["FifoQueue"] = "true"
    while True:
        with contextlib.suppress(Lost):
            return line.ok("AmazonSQS.CreateQueue", {"QueueName": name, "Attributes": attributes})["QueueUrl"]


def send(line, queue, bodies):
    """Each once: every reply must come."""
    for body in bodies:
        line.ok("AmazonSQS.SendMessage", {"QueueUrl": queue, "MessageBody": body})


def receive(line, queue, **more):
    asked = {"QueueUrl": queue, "MaxNumberOfMessages": 10, "VisibilityTimeout": 30, **more}
    return line.ok("AmazonSQS.ReceiveMessage", asked).get("Messages", [])


def delete(line, queue, message):
    line.ok("AmazonSQS.DeleteMessage", {"QueueUrl": queue, "ReceiptHandle": message["ReceiptHandle"]})


def drain(line, queue):
    """Receives and deletes all: the bodies in the order in which they came."""
    bodies = []
    while messages := receive(line, queue):
        for message in messages:
            bodies.append(message["Body"].split(" ")[0])
            delete(line, queue, message)
    return bodies


def texts(beginning, count):
    return [f"{beginning}{number}" for number in range(count)]


# --- one node -------------------------------------------------------------------------------------------------------


def test_F27_K26_messages_outlive_kill_9_of_node_and_server_a_clean_stop_and_an_empty_folder(cluster):
    node = cluster.node("one").start().wait_ready()
    line = cluster.line()
    jobs = create_queue(line)
    send(line, jobs, texts("m", 30))
    (first,) = receive(line, jobs, MaxNumberOfMessages=1)
    delete(line, jobs, first)
    expected = sorted(set(texts("m", 30)) - {first["Body"]})

    node.kill9()
    node.start().wait_ready()
    assert node.stop() == 0
    shutil.rmtree(node.data)
    node.start().wait_ready()
    node.kill9()
    cluster.server.kill9()
    cluster.server.start()
    began_at = time.monotonic()
    node.start().wait_ready()
    assert time.monotonic() - began_at < 5 * PATIENCE
    line = cluster.line()
    assert sorted(drain(line, jobs)) == expected
    assert node.stop() == 0


def test_the_tables_are_made_once_and_a_database_without_them_is_refused(cluster):
    assert "there already" in cluster.init()
    cluster.sql("DROP SCHEMA tally_log CASCADE")
    status, said = cluster.node("one").run_to_end()
    assert status == 1 and "--init" in said
    cluster.init()
    cluster.node("two").start().wait_ready()


# --- two nodes ------------------------------------------------------------------------------------------------------


def serves(node, queue):
    """Does it answer a request about the queue?"""
    with contextlib.suppress(Lost, OSError), Connection(node.port, 2) as line:
        return line.call("AmazonSQS.GetQueueAttributes", {"QueueUrl": queue}).status == 200
    return False


def await_takeover(node, queue, since, seconds=TAKEOVER):
    """Until the node answers; seconds since then."""
    wait_until(lambda: serves(node, queue), max(0.1, since + seconds * PATIENCE - time.monotonic()),
               f"the takeover by {node.name}, which says {node.lines[-2:]} {node.error_text()[-600:]}")
    return time.monotonic() - since


class FifoCheck:
    """A producer and a consumer of FIFO groups on connections of their own: what comes, comes in order and, by their
    deduplication ids, once; and its fencing tokens grow."""

    GROUPS = 3

    def __init__(self, cluster):
        self.queue = create_queue(cluster.line(), "ordered.fifo")
        self.faults, self.arrived, self.acknowledged = [], [], 0
        self.seen, self.deleted, self.tokens = set(), set(), collections.defaultdict(int)
        self.is_ending = self.is_over = False
        self.threads = [threading.Thread(target=self._run, args=(work, cluster.line()), daemon=True)
                        for work in (self._produce, self._consume)]
        for thread in self.threads:
            thread.start()

    def _run(self, work, line):
        try:
            work(line)
        except BaseException as error:  # noqa: BLE001 (reported by the test)
            self.faults.append(repr(error))

    def _produce(self, line):
        while not self.is_ending:
            number = self.acknowledged
            line.ok_at_last("AmazonSQS.SendMessage", {
                "QueueUrl": self.queue, "MessageBody": str(number), "MessageGroupId": f"g{number % self.GROUPS}",
                "MessageDeduplicationId": str(number)})
            self.acknowledged += 1

    def _consume(self, line):
        asked = {"QueueUrl": self.queue, "MaxNumberOfMessages": 10, "VisibilityTimeout": 2,
                 "AttributeNames": ["All"], "MessageAttributeNames": ["Tally.FencingToken"]}
        while not self.is_over:
            messages = line.ok_at_last("AmazonSQS.ReceiveMessage", asked).get("Messages", [])
            for message in messages:
                self._take(line, message)
            self.is_over = self.is_ending and not messages and self._is_empty(line)
            if not messages:
                time.sleep(0.01)

    def _take(self, line, message):
        """Only a delete that was acknowledged ends a message. One whose reply was lost may come again."""
        number, group = int(message["Body"]), message["Attributes"]["MessageGroupId"]
        token = int(message["MessageAttributes"]["Tally.FencingToken"]["StringValue"])
        if token <= self.tokens[group]:
            self.faults.append(f"message {number} has token {token} behind {self.tokens[group]}")
        if number in self.deleted:
            self.faults.append(f"message {number} came back after its delete was acknowledged")
        self.tokens[group] = token
        if number not in self.seen:
            self.arrived.append(number)
        self.seen.add(number)
        with contextlib.suppress(Lost):
            answer = line.call("AmazonSQS.DeleteMessage",
                               {"QueueUrl": self.queue, "ReceiptHandle": message["ReceiptHandle"]})
            if answer.status == 200:
                self.deleted.add(number)
            elif b"expired" not in answer.body:
                self.faults.append(f"the delete of message {number}: {answer.status} {answer.body!r}")

    def _is_empty(self, line):
        return counts(line, self.queue) == [0, 0, 0]

    def finish(self):
        self.is_ending = True
        for thread in self.threads:
            thread.join(60 * PATIENCE)
            assert not thread.is_alive(), "the FIFO queue is not drained"
        assert not self.faults, self.faults[:5]
        for group in range(self.GROUPS):
            came = [number for number in self.arrived if number % self.GROUPS == group]
            wanted = list(range(group, self.acknowledged, self.GROUPS))
            assert came == wanted, f"group {group}: {[pair for pair in zip(came, wanted) if pair[0] != pair[1]][:5]}"


class Traffic:
    """The check of FIFO queues and, where `has_load`, the load of test_kill9.py, on all nodes of a cluster."""

    def __init__(self, cluster, has_load=True):
        self.line = PatientLine(cluster.nodes)
        self.has_load = has_load
        self.jobs, self.results = create_queue(self.line), create_queue(self.line, "results")
        self.load = Load(0, self.jobs, self.results)
        for client in self.load.makers + self.load.takers:
            client.line = cluster.line()
        self.fifo = FifoCheck(cluster)
        if has_load:
            self.load.start()

    def check(self):
        """While it runs."""
        assert not self.load.record.faults, self.load.record.faults[:10]
        assert not self.fifo.faults, self.fifo.faults[:10]

    def finish(self):
        """Everything acknowledged arrives, each batch completes once."""
        self.fifo.finish()
        if not self.has_load:
            return
        load = self.load
        load.finish(lambda: not load.reports and not load.reports_again and
                    counts(self.line, self.jobs) == counts(self.line, self.results) == [0, 0, 0])
        assert not load.record.faults, load.record.faults[:10]
        check_messages(load.record)
        check_batches(self.line, load.record)


def test_K1_ten_kills_of_the_owner_lose_nothing_and_the_other_serves_within_two_seconds(cluster, capsys):
    owner, other = cluster.pair(*SMALL)
    traffic = Traffic(cluster)
    chance, times = random.Random(KILL_SEED), []
    for number in range(KILLS):
        time.sleep(0.2 + 0.3 * chance.random())
        killed_at = time.monotonic()
        owner.kill9()
        times.append(await_takeover(other, traffic.jobs, killed_at))
        traffic.check()
        owner.start().wait_standing_by()
        owner, other = other, owner
    traffic.finish()
    assert cluster.head()[0] == KILLS + 1
    record = traffic.load.record
    with capsys.disabled():
        print(f"\nK1: seed {KILL_SEED}, {KILLS} kills, takeover median {1000 * statistics.median(times):.0f} ms, worst "
              f"{1000 * max(times):.0f} ms; {record.requests} requests, {record.lost} replies lost, {len(record.sent)} "
              f"messages, {len(record.batches)} batches, {traffic.fifo.acknowledged} in groups")


LEASE = 1 if CROWD < 1.5 else 2  # seconds, where a test says --lease
LEASED = (*SMALL, "--lease", f"{LEASE}s")


def asks_of_old_state(queue):
    """Requests that an owner of the past could answer from what it remembers."""
    return [request_bytes("AmazonSQS.GetQueueAttributes", {"QueueUrl": queue, "AttributeNames": ["All"]}),
            request_bytes("AmazonSQS.ReceiveMessage", {"QueueUrl": queue, "MaxNumberOfMessages": 10}),
            request_bytes("AmazonSQS.SendMessage", {"QueueUrl": queue, "MessageBody": "to the old owner"}),
            request_bytes("AmazonSQS.ListQueues", {})]


def answer_of(connection):
    """The status; 0 where the connection ended without an answer."""
    try:
        return connection.answer().status
    except Lost:
        return 0


def test_K2_F17_an_owner_that_was_stopped_answers_nobody_and_stands_by(cluster):
    owner, other = cluster.pair(*LEASED)
    line = cluster.line()
    create_queue(line, "mark")
    traffic = Traffic(cluster)
    time.sleep(0.5)
    asking = [Connection(owner.port).open() for _ in asks_of_old_state("mark")]
    assert asking[-1].call("AmazonSQS.ListQueues", {}).status == 200
    owner.pause()
    stopped_at = time.monotonic()
    for connection, request in zip(asking, asks_of_old_state("mark")):
        connection.write(request)
    took = await_takeover(other, traffic.jobs, stopped_at, LEASE + 1)
    assert took > 0.9 * LEASE, "it was taken over before its lease had ended"
    send(Connection(other.port), "mark", ["new"])
    time.sleep(max(0, stopped_at + 3 * LEASE - time.monotonic()))
    owner.resume()
    statuses = [answer_of(connection) for connection in asking]
    assert set(statuses) <= {0, 503}, statuses
    owner.wait_standing_by()
    assert owner.process.poll() is None
    traffic.check()
    traffic.finish()
    assert cluster.head()[0] == 2, owner.error_text() + other.error_text()
    assert drain(Connection(other.port), "mark") == ["new"]
    killed_at = time.monotonic()
    other.kill9()  # and the old one is a stand-by like any other
    await_takeover(owner, traffic.jobs, killed_at)


def test_F17_an_idle_owner_keeps_its_log_for_many_leases(cluster):
    owner, other = cluster.node("one", "--lease", "500ms"), cluster.node("two", "--lease", "500ms")
    owner.start().wait_ready()
    other.start().wait_standing_by()
    time.sleep(2.5)
    assert owner.is_ready() and other.health() == "standby" and cluster.head() == (1, "one"), owner.error_text()
    assert len([text for text in owner.lines if "ready" in text]) == 1


def test_K3_an_owner_that_is_cut_off_from_postgresql_is_taken_over_and_stands_by_when_it_is_back(cluster, proxy):
    owner = cluster.node("one", *LEASED, uri=proxy.uri(cluster.uri)).start().wait_ready()
    other = cluster.node("two", *LEASED).start().wait_standing_by()
    traffic = Traffic(cluster, has_load=False)
    time.sleep(0.5)
    proxy.freeze()
    cut_at = time.monotonic()
    await_takeover(other, traffic.jobs, cut_at, LEASE + 1)
    assert not serves(owner, traffic.jobs)
    time.sleep(LEASE)
    proxy.thaw()
    owner.wait_standing_by()
    traffic.check()
    traffic.finish()
    killed_at = time.monotonic()
    other.kill9()
    await_takeover(owner, traffic.jobs, killed_at)


def test_K3_an_owner_alone_that_is_cut_off_serves_again_when_it_is_back(cluster, proxy):
    owner = cluster.node("one", *LEASED, uri=proxy.uri(cluster.uri)).start().wait_ready()
    traffic = Traffic(cluster, has_load=False)
    time.sleep(0.3)
    proxy.freeze()
    time.sleep(2 * LEASE)
    assert not serves(owner, traffic.jobs)
    proxy.thaw()
    wait_until(lambda: serves(owner, traffic.jobs), 10, "that it serves again")
    for _ in range(3):
        time.sleep(0.2)
        proxy.cut()
    traffic.check()
    traffic.finish()


def test_K5_a_standby_that_was_cut_off_reads_what_it_missed_before_it_serves(cluster, proxy):
    owner = cluster.node("one", *LEASED).start().wait_ready()
    other = cluster.node("two", *LEASED, uri=proxy.uri(cluster.uri)).start().wait_standing_by()
    traffic = Traffic(cluster, has_load=False)
    time.sleep(0.3)
    proxy.freeze()
    time.sleep(3 * LEASE)
    killed_at = time.monotonic()
    owner.kill9()
    time.sleep(0.2)
    proxy.thaw()
    await_takeover(other, traffic.jobs, killed_at, 2 * LEASE + 2)
    traffic.finish()


# --- what PostgreSQL does to them -----------------------------------------------------------------------------------


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


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_F02_a_commit_that_comes_late_is_found_and_not_repeated(cluster, proxy):
    """The server's process is stopped with the append in its hands, the connection is cut, and the commit follows."""
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
    """Two sessions of SQL: an owner's append, and a seal."""

    def __init__(self, cluster):
        self.uri = cluster.server.uri.rsplit("/", 1)[0] + "/" + cluster.database
        self.id, self.epoch, self.owner = cluster.sql("SELECT id, epoch, owner FROM tally_log.head")[0]
        self.sessions = [psycopg2.connect(self.uri), psycopg2.connect(self.uri)]
        self.appender, self.sealer = [session.cursor() for session in self.sessions]

    def append(self):
        self.appender.execute(
            "WITH fence AS MATERIALIZED (SELECT 1 FROM tally_log.head"
            " WHERE id = %s AND epoch = %s AND owner = %s FOR SHARE) "
            "INSERT INTO tally_log.chunk (file, at, epoch, hash, body) SELECT -1, 0, 1, '', '' FROM fence",
            (self.id, self.epoch, self.owner))
        return self.appender.rowcount

    def seal(self):
        self.sealer.execute("UPDATE tally_log.head SET epoch = epoch + 1, owner = gen_random_uuid() "
                            "WHERE id = %s AND epoch = %s AND owner = %s", (self.id, self.epoch, self.owner))
        return self.sealer.rowcount

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


# --- the cache ------------------------------------------------------------------------------------------------------


def fill(cluster, line, jobs, count=60, size=40000):
    """Some segments and, with SMALL, a snapshot; the keys of what is in the queue then."""
    keys = []
    for number in range(count):
        keys.append(f"k{number}")
        send(line, jobs, [f"k{number} " + "x" * size])
    wait_until(lambda: cluster.sql("SELECT count(*) FROM tally_log.file WHERE name LIKE '%%.snapshot'")[0][0] > 0, 20,
               "a snapshot")
    return sorted(keys)


def cached(node, suffix):
    return sorted(path for path in node.data.rglob(f"*.{suffix}"))


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0x40]))


def spoil(node, how):
    """Damages every file of the cache."""
    for path in cached(node, "segment") + cached(node, "snapshot"):
        size = path.stat().st_size
        if how == "flipped":
            for at in (5, 200, 700, 3000, size // 2, size - 1):
                flip(path, min(at, size - 1))
        elif how == "truncated":
            os.truncate(path, size // 3)
        elif how == "grown":
            os.truncate(path, size + 8192)
        elif how == "missing":
            path.unlink()
        elif how == "zeros":
            path.write_bytes(bytes(size))
        elif how == "swapped":
            shutil.copyfile(cached(node, "segment")[0], path.with_suffix(".new"))
            path.with_suffix(".new").replace(path)


def test_K11_a_damaged_cache_is_fetched_again_and_never_served(cluster):
    node = cluster.node("one", *SMALL).start().wait_ready()
    line = cluster.line()
    jobs = create_queue(line)
    keys = fill(cluster, line, jobs)
    for how in ("flipped", "truncated", "grown", "missing", "zeros", "swapped"):
        node.kill9()
        assert cached(node, "segment") and cached(node, "snapshot")
        spoil(node, how)
        node.start().wait_ready()
        line = cluster.line()
        messages = []
        while more := receive(line, jobs, VisibilityTimeout=60):
            messages += more
        assert sorted(message["Body"].split(" ")[0] for message in messages) == keys, how
        assert all(len(message["Body"]) == len(message["Body"].split(" ")[0]) + 1 + 40000 for message in messages)
        for message in messages:
            line.ok("AmazonSQS.ChangeMessageVisibility", {
                "QueueUrl": jobs, "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0})
    assert "changed" not in node.error_text()


def test_K11_the_cache_of_another_log_is_not_believed(server, tmp_path):
    one, other = Cluster(server, tmp_path), Cluster(server, tmp_path)
    try:
        nodes = [cluster.node("one", *SMALL).start().wait_ready() for cluster in (one, other)]
        for cluster in (one, other):
            jobs = create_queue(cluster.line())
            send(cluster.line(), jobs, texts(cluster.database + "-", 20))
        for node in nodes:
            node.stop()
        nodes[0].data.rename(nodes[0].folder / "mine")
        shutil.copytree(nodes[1].data, nodes[0].data)
        nodes[0].start().wait_ready()
        assert sorted(drain(one.line(), "jobs")) == sorted(texts(one.database + "-", 20))
    finally:
        one.stop()
        other.stop()


def test_K10_two_daemons_on_one_folder_a_copied_folder_and_two_nodes_of_one_name_do_no_harm(cluster, tmp_path):
    node = cluster.node("one", *LEASED).start().wait_ready()
    line = cluster.line()
    jobs = create_queue(line)
    send(line, jobs, texts("m", 10))
    second = cluster.node("one", *LEASED, data=node.data).start()
    wait_until(lambda: "another process" in second.error_text() or "lock" in second.error_text(), 10, "that it says so")
    assert serves(node, jobs) and not serves(second, jobs)
    second.stop()
    shutil.copytree(node.data, tmp_path / "copy")
    third = cluster.node("one", *LEASED, data=tmp_path / "copy").start().wait_standing_by()
    send(Connection(node.port), jobs, texts("n", 10))
    node.kill9()
    await_takeover(third, jobs, time.monotonic())
    assert sorted(drain(Connection(third.port), jobs)) == sorted(texts("m", 10) + texts("n", 10))


def test_F07_a_row_that_was_changed_is_never_served_and_is_named(cluster):
    node = cluster.node("one", *SMALL).start().wait_ready()
    line = cluster.line()
    jobs = create_queue(line)
    keys = fill(cluster, line, jobs)
    assert node.stop() == 0
    for suffix in ("segment", "snapshot"):
        (file, at), = cluster.sql("SELECT c.file, c.at FROM tally_log.chunk c"
                                  " JOIN tally_log.file f ON f.id = c.file WHERE f.name LIKE %s"
                                  " ORDER BY f.name DESC, c.at DESC LIMIT 1", "%." + suffix)
        change = ("UPDATE tally_log.chunk SET body = set_byte(body, 0, get_byte(body, 0) # 8)"
                  " WHERE file = %s AND at = %s")
        cluster.sql(change, file, at)
        shutil.rmtree(node.data)
        status, said = node.run_to_end()
        assert status == 1 and "tally_log.chunk" in said and f"file {file}" in said and "was changed" in said, said
        cluster.sql(change, file, at)
        (node.folder / "tallyd.err").write_text("")
    node.start().wait_ready()
    assert sorted(drain(cluster.line(), jobs)) == keys


# --- following ------------------------------------------------------------------------------------------------------


def test_F16_of_several_standbys_one_takes_over_at_each_kill(cluster):
    options = ("--lease", "1s", "--body-max", "64KiB", "--segment-size", "5MiB")
    nodes = [cluster.node(f"n{number}", *options).start() for number in range(5)]
    wait_until(lambda: sum(node.is_ready() for node in nodes) == 1, 20, "one that serves")
    line = PatientLine(nodes)
    jobs = create_queue(line)
    for number in range(3):
        line.ok("AmazonSQS.SendMessage", {"QueueUrl": jobs, "MessageBody": f"m{number}"})
        (owner,) = [node for node in nodes if node.is_ready()]
        epoch = cluster.head()[0]
        if number == 1:
            owner.pause()  # here their leases end at the same time, and nobody is given the lock
        else:
            owner.kill9()
        nodes.remove(owner)
        wait_until(lambda: [node for node in nodes if node.is_ready()], 10, "another one")
        time.sleep(0.3)
        assert cluster.head()[0] == epoch + 1, "more than one has sealed the log"
        assert len([node for node in nodes if node.is_ready()]) == 1
        line = PatientLine(nodes)
    assert sorted(drain(line, jobs)) == texts("m", 3)


def test_F09_K20_a_standby_follows_through_snapshots_and_trimming_and_one_that_slept_begins_again(cluster):
    owner, other = cluster.pair(*SMALL)
    third = cluster.node("three", *SMALL).start().wait_standing_by()
    traffic = Traffic(cluster, has_load=False)
    big = create_queue(cluster.line(), "big")
    line = Connection(owner.port)

    def churn(count):
        for number in range(count):
            send(line, big, [f"c{number} " + "y" * 60000])
        line.ok("AmazonSQS.PurgeQueue", {"QueueUrl": big})

    def first_segment():
        return cluster.sql("SELECT min(name) FROM tally_log.file WHERE name LIKE '%%.segment'")[0][0]

    churn(60)
    third.pause()
    before = first_segment()
    for _ in range(20):
        churn(50)
        if first_segment() > before:
            break
    churn(100)
    assert first_segment() > before, "nothing was trimmed"
    third.resume()
    send(line, big, ["last"])
    killed_at = time.monotonic()
    owner.kill9()
    await_takeover(other, big, killed_at)
    traffic.check()
    owner.start().wait_standing_by()
    time.sleep(0.5)
    other.kill9()
    wait_until(lambda: serves(owner, big) or serves(third, big), TAKEOVER + 2, "the second takeover")
    traffic.check()
    traffic.finish()
    assert drain(PatientLine(cluster.nodes), big) == ["last"]
    for node in cluster.nodes:
        assert node is other or node.process.poll() is None, node.error_text()


def last_segment_at(cluster):
    return cluster.sql("SELECT max(name) FROM tally_log.file WHERE name LIKE '%%.segment'")[0][0]


# --- what a PostgreSQL must be set to -------------------------------------------------------------------------------


@contextlib.contextmanager
def altered(server, name, value):
    server.sql(f"ALTER SYSTEM SET {name} = '{value}'")
    server.sql("SELECT pg_reload_conf()")
    wait_until(lambda: server.sql(f"SHOW {name}")[0][0] == value, what=name)
    try:
        yield
    finally:
        server.sql(f"ALTER SYSTEM RESET {name}")
        server.sql("SELECT pg_reload_conf()")


def test_K19_unsafe_settings_are_refused_by_name(cluster):
    with altered(cluster.server, "full_page_writes", "off"):
        status, said = cluster.node("one").run_to_end()
    assert status == 1 and "full_page_writes is off" in said and "full_page_writes = on" in said
    status, said = cluster.node("two", "--log-replicas", "1").run_to_end()
    assert status == 1 and "synchronous_standby_names is empty" in said
    cluster.node("three").start().wait_ready()


def test_a_server_without_fsync_is_refused(tmp_path):
    server = Postgres(tmp_path / "unsafe").start()
    try:
        status, said = Cluster(server, tmp_path).node("one").run_to_end()
        assert status == 1 and "fsync is off" in said and "fsync = on" in said
    finally:
        server.stop("immediate")
        shutil.rmtree(server.folder, ignore_errors=True)


def test_F20_F21_K19_what_a_role_has_set_for_itself_is_overridden(cluster):
    role = f"role_of_{cluster.database}"
    cluster.sql(f"CREATE ROLE {role} LOGIN")
    for setting in ("client_min_messages = error", "default_transaction_isolation = 'repeatable read'",
                    "synchronous_commit = off", "statement_timeout = 500", "lock_timeout = 500",
                    "default_transaction_deferrable = on", "search_path = nowhere", "bytea_output = 'escape'"):
        cluster.sql(f"ALTER ROLE {role} SET {setting}")
    cluster.sql("DROP SCHEMA tally_log CASCADE")
    cluster.sql(f"ALTER DATABASE {cluster.database} OWNER TO {role}")
    cluster.uri = cluster.uri.replace("tally@", f"{role}@")
    cluster.init()
    owner, other = cluster.pair()
    line = cluster.line()
    jobs = create_queue(line)
    send(line, jobs, texts("m", 20))
    killed_at = time.monotonic()
    owner.kill9()
    await_takeover(other, jobs, killed_at)
    assert sorted(drain(Connection(other.port), jobs)) == sorted(texts("m", 20))
    kept = cluster.sql("SELECT count(*) FROM pg_stat_activity WHERE usename = %s", role)[0][0]
    assert kept >= 1


def test_F18_F29_another_owner_of_the_same_epoch_and_another_server_are_refused(cluster):
    node = cluster.node("one").start().wait_ready()
    line = cluster.line()
    jobs = create_queue(line)
    send(line, jobs, ["first"])
    cluster.sql("UPDATE tally_log.head SET owner = gen_random_uuid(), node = 'restored'")
    with pytest.raises(Lost):
        line.ok("AmazonSQS.SendMessage", {"QueueUrl": jobs, "MessageBody": "to nobody"})
    assert "restored owns the log" in wait_until(node.error_text, 10, "that it says so")
    wait_until(lambda: serves(node, jobs), 10, "that it takes the log again")
    send(Connection(node.port), jobs, ["second"])
    assert sorted(drain(Connection(node.port), jobs)) == ["first", "second"]
    node.stop()
    cluster.sql("UPDATE tally_log.head SET system_id = 7")
    (node.folder / "tallyd.err").write_text("")
    status, said = node.run_to_end()
    assert status == 1 and "system identifier 7" in said and "system_id = NULL" in said
    (advice,) = re.findall(r"UPDATE tally_log\.head SET system_id = NULL WHERE log = '\w+';", said)
    cluster.sql(advice)
    node.start().wait_ready()


def test_K19_a_pooler_is_refused(cluster, bouncer):
    for mode in ("transaction", "session"):
        uri = cluster.uri.replace(f":{cluster.server.port}/", f":{bouncer(mode)}/")
        status, said = cluster.node(mode, uri=uri).run_to_end()
        assert status == 1 and "pooler" in said, said


def test_F12_K18_appends_and_trimming_go_on_beside_a_transaction_that_stays_open(cluster):
    node = cluster.node("one", *SMALL).start().wait_ready()
    line = Connection(node.port)
    jobs = create_queue(line)

    def rate(count=300):
        began_at = time.monotonic()
        for number in range(count):
            send(line, jobs, [f"m{number} " + "x" * 4000])
            if number % 10 == 9:
                drain(line, jobs)
        return (time.monotonic() - began_at) / count

    before = rate()
    held = psycopg2.connect(cluster.server.uri.rsplit("/", 1)[0] + "/" + cluster.database)
    held.set_session(isolation_level="REPEATABLE READ")
    held.cursor().execute("SELECT count(*) FROM tally_log.chunk")
    newest = last_segment_at(cluster)
    while last_segment_at(cluster) < f"{int(newest[:16], 16) + 2 * 5242880:016x}":
        during = rate()
    assert during < 3 * before, f"{1000 * before:.1f} ms an append, and {1000 * during:.1f} ms beside the transaction"
    wait_until(lambda: cluster.sql("SELECT count(*) FROM tally_log.file WHERE name LIKE '%%.segment'")[0][0] <= 3, 20,
               "the trimming")
    held.close()
    assert node.is_ready() and node.error_text() == ""


# --- clocks ---------------------------------------------------------------------------------------------------------


def test_K17_wall_clocks_an_hour_apart_neither_expire_nor_prolong(cluster):
    clocks = [Clock(), Clock()]
    nodes = [cluster.node("fast"), cluster.node("slow")]
    for node, clock, seconds in zip(nodes, clocks, (3600, -3600)):
        clock.set(seconds)
        node.environment = clock.environment
        node.start()
        node.wait_ready() if node is nodes[0] else node.wait_standing_by()
    jobs = create_queue(cluster.line())
    line = Connection(nodes[0].port)
    line.ok("AmazonSQS.SendMessage", {"QueueUrl": jobs, "MessageBody": "held"})
    (held,) = receive(line, jobs, VisibilityTimeout=3, AttributeNames=["SentTimestamp"])
    assert abs(int(held["Attributes"]["SentTimestamp"]) / 1000 - time.time()) < 5 * PATIENCE
    began_at = time.monotonic()
    line.ok("AmazonSQS.SendMessage", {"QueueUrl": jobs, "MessageBody": "delayed", "DelaySeconds": 3})
    clocks[0].set(-7200)  # a jump
    assert not receive(line, jobs)
    nodes[0].kill9()
    await_takeover(nodes[1], jobs, time.monotonic())
    line = Connection(nodes[1].port)
    came = {}
    while len(came) < 2:
        for message in receive(line, jobs, WaitTimeSeconds=1):
            came[message["Body"]] = time.monotonic() - began_at
        assert time.monotonic() - began_at < 20 * PATIENCE, came
    assert 2.9 <= came["delayed"] <= 3 + TAKEOVER * PATIENCE, came
    assert 2.9 <= came["held"] <= 3 + 3 + TAKEOVER * PATIENCE, came  # a restart gives a lease in hand its time again


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

    wait_until(lambda: end_waits("cancel"), 10, "an append that waits for the replica")
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
    """A log whose server fails over to a replica that lacks the last twenty messages."""

    def __init__(self, replicated, folder):
        self.replicated = replicated
        self.cluster = Cluster(replicated.primary, folder)
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in replicated.started)
        self.cluster.uri = f"postgresql://tally@{hosts}/{self.cluster.database}"

    def run(self, node, before_promotion):
        line = Connection(node.port)
        self.jobs = create_queue(line)
        send(line, self.jobs, texts("kept", 10))
        self.replicated.wait_until_level()
        self.replicated.replica.stop("immediate")
        send(line, self.jobs, texts("tail", 20))
        time.sleep(0.5)  # a stand-by has read them
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
    assert made.read_anew() == sorted(texts("kept", 10) + texts("tail", 20) + ["after"])


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
    assert len(found) == 31 or "lost" in other.error_text(), other.error_text()


# --- everything at random -------------------------------------------------------------------------------------------


class Chaos:
    """Three nodes, one of them behind a line that can be cut; one fault at a time."""

    def __init__(self, cluster, proxy, chance):
        self.cluster, self.proxy, self.chance = cluster, proxy, chance
        self.nodes = [cluster.node("one", *LEASED, uri=proxy.uri(cluster.uri)), cluster.node("two", *LEASED),
                      cluster.node("three", *LEASED)]
        for node in self.nodes:
            node.start()
        wait_until(lambda: any(node.is_ready() for node in self.nodes), 20, "a node that serves")

    def faults(self):
        return [self.kill, self.pause, self.cut, self.freeze, self.end_backends, self.restart_server, self.kill_server,
                self.lose_cache]

    def kill(self):
        node = self.chance.choice(self.nodes)
        node.kill9()
        time.sleep(self.chance.choice((0, 0.3, 1.5 * LEASE)))
        node.start()

    def lose_cache(self):
        node = self.chance.choice(self.nodes)
        node.kill9()
        spoil(node, self.chance.choice(("flipped", "truncated", "missing")))
        node.start()

    def pause(self):
        node = self.chance.choice(self.nodes)
        node.pause()
        time.sleep(self.chance.choice((0.2, 0.9, 1.2, 2)) * LEASE)
        node.resume()

    def cut(self):
        for _ in range(self.chance.randint(1, 5)):
            self.proxy.cut()
            time.sleep(0.05)

    def freeze(self):
        self.proxy.freeze()
        time.sleep(self.chance.choice((0.2, 0.9, 1.2, 2)) * LEASE)
        self.proxy.thaw()

    def end_backends(self):
        self.cluster.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'tallyd%%'"
                         " AND random() < 0.5")

    def restart_server(self):
        self.cluster.server.stop(self.chance.choice(("fast", "immediate")))
        self.cluster.server.start()

    def kill_server(self):
        self.cluster.server.kill9()
        self.cluster.server.start()


CHAOS = scaled(5, "CHAOS", least=3)


def test_K2_K3_K6_K11_faults_at_random_lose_and_repeat_nothing(cluster, proxy, capsys):
    chance = random.Random(KILL_SEED)
    chaos = Chaos(cluster, proxy, chance)
    traffic = Traffic(cluster)
    big = create_queue(cluster.line(), "big")
    ballast = PatientLine(cluster.nodes)
    told = []
    for number in range(CHAOS):
        for piece in range(10):
            ballast.ok("AmazonSQS.SendMessage", {"QueueUrl": big, "MessageBody": f"{number}-{piece} " + "z" * 60000})
        fault = chance.choice(chaos.faults())
        told.append(fault.__name__)
        fault()
        time.sleep(chance.choice((0, 0.2, 0.5)))
        traffic.check()
    with capsys.disabled():
        print(f"\nchaos: seed {KILL_SEED}: {' '.join(told)}; epoch {cluster.head()[0]}")
    traffic.finish()
    for node in chaos.nodes:
        assert node.process.poll() is None, node.error_text()
        node.kill9()
    fresh = cluster.node("fresh", *LEASED).start().wait_ready()  # from PostgreSQL alone
    check_batches(Connection(fresh.port), traffic.load.record)
    kept = set(drain(Connection(fresh.port), big))
    assert kept == {f"{number}-{piece}" for number in range(CHAOS) for piece in range(10)}
