"""What the tests of the log in PostgreSQL share: a safe server, clusters in it, clients, and a load with its judges.

    from logs import SMALL, Traffic, await_takeover, cluster, server  # noqa: F401 (fixtures)

PostgreSQL is a real one, with fsync on."""

import atexit
import collections
import contextlib
import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import time

import pytest
from conftest import PATIENCE, ROOT, wait_until
from nodes import Cluster, PatientLine
from postgres import Postgres
from test_kill9 import Load, check_batches, check_messages, counts
from wire import Connection, Lost

SMALL = ("--body-max", "64KiB", "--segment-size", "5MiB", "--snapshot-bytes", "1MiB")
# Where other suites run beside this one everything takes so much longer: as many times as there are programs for each
# core, or suites, and twice that, because more may begin. On a machine of its own the bars are those of the reference.
LOAD = max(os.getloadavg()[0], float(os.environ.get("TALLY_TEST_LANES", 0))) / os.cpu_count()
CROWD = 1 if LOAD < 1 else 2 * LOAD
TAKEOVER = 2 * CROWD  # seconds that a takeover may take at most
LEASE = 1 if CROWD < 1.5 else 2  # seconds, where a test says --lease
LEASED = (*SMALL, "--lease", f"{LEASE}s")
# Seconds behind each piece of work, so that what is tested is the fault and not how much the processors can do.
LOAD_PAUSE = 0.12  # of each of the thirteen clients of a load
CHECK_PAUSE = 0.04
HEADER = ROOT / "src" / "postgres" / "statements.h"


@functools.cache
def statements():
    """The text of each that the program knows, by its name."""
    program = f'#include "{HEADER}"\n#define ROW(NAME, TEXT) @@NAME TEXT\nPG_STATEMENT_LIST(ROW)\n'
    done = subprocess.run(["cc", "-E", "-P", "-x", "c", "-"], input=program, capture_output=True, text=True, check=True)
    found = {}
    for row in done.stdout.split("@@")[1:]:
        texts_of_row = re.findall(r'"((?:[^"\\]|\\.)*)"', row)
        found[row.split(None, 1)[0]] = "".join(texts_of_row).replace('\\"', '"')
    return found


def execute(cursor, name, *values):
    """Runs a statement of the program, as a node does; how many rows it changes."""
    cursor.execute("DEALLOCATE ALL")
    cursor.execute(f"PREPARE s AS {statements()[name]}")
    cursor.execute(f"EXECUTE s({', '.join(['%s'] * len(values))})", values)
    return cursor.rowcount


@functools.cache
def start_server():
    """One for all files, each of which would wait for its own; what a test makes in it is a database of its own."""
    folder = tempfile.mkdtemp(prefix="tally-logs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    running = Postgres(pathlib.Path(folder) / "postgres", fsync="on").start()
    atexit.register(running.stop, "immediate")
    return running


@pytest.fixture(scope="module")
def server():
    """For tests that leave it as it was. Safe for a log, unlike that of other files."""
    return start_server()


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
    BACKLOG = 200  # the producer rests above this
    LEASE, WAIT, REST = 2, 0, 0.03  # seconds: of a receive, how long it waits for a message, behind one without any

    def __init__(self, cluster, queue="ordered.fifo", pause=CHECK_PAUSE, **attributes):
        """`pause`: seconds between two messages."""
        self.queue, self.pause = create_queue(cluster.line(), queue, **attributes), pause
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
            if number - len(self.seen) > self.BACKLOG:
                time.sleep(0.01)
                continue
            line.ok_at_last("AmazonSQS.SendMessage", {
                "QueueUrl": self.queue, "MessageBody": str(number), "MessageGroupId": f"g{number % self.GROUPS}",
                "MessageDeduplicationId": str(number)})
            self.acknowledged += 1
            self._pause()

    def _pause(self):
        """Between two messages."""
        time.sleep(self.pause)

    def _consume(self, line):
        asked = {"QueueUrl": self.queue, "MaxNumberOfMessages": 10, "VisibilityTimeout": self.LEASE,
                 "WaitTimeSeconds": self.WAIT, "AttributeNames": ["All"],
                 "MessageAttributeNames": ["Tally.FencingToken"]}
        while not self.is_over:
            messages = line.ok_at_last("AmazonSQS.ReceiveMessage", asked).get("Messages", [])
            late_at = time.monotonic() + self.LEASE
            for message in messages:
                self._take(line, message, late_at)
            is_producing = self.threads[0].is_alive()
            self.is_over = not is_producing and not messages and self._is_empty(line)
            if not messages:
                time.sleep(max(self.REST, self.pause))

    def _take(self, line, message, late_at):
        """Only a delete that was acknowledged ends a message. One whose reply was lost may come again; and a receive
        whose client is gone may still wait and take it, once its lease is over."""
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
            is_older = time.monotonic() >= late_at and b"ReceiptHandleIsInvalid" in answer.body
            if answer.status == 200:
                self.deleted.add(number)
            elif b"expired" not in answer.body and not is_older:
                self.faults.append(f"the delete of message {number}: {answer.status} {answer.body!r}")

    def _is_empty(self, line):
        with contextlib.suppress(Lost):
            return counts(line, self.queue) == [0, 0, 0]
        return False

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

    def __init__(self, cluster, has_load=True, **more):
        """`more`: of the FifoCheck."""
        self.line = cluster.line(kind=PatientLine)
        self.has_load = has_load
        self.jobs, self.results = create_queue(self.line), create_queue(self.line, "results")
        self.load = Load(0, self.jobs, self.results, LOAD_PAUSE)
        for client in self.load.makers + self.load.takers:
            client.line = cluster.line()
        self.fifo = FifoCheck(cluster, **more)
        if has_load:
            self.load.start()

    def check(self):
        """While it runs."""
        assert not self.load.record.faults, self.load.record.faults[:10]
        assert not self.fifo.faults, self.fifo.faults[:10]

    def abandon(self):
        """Lets everybody end whatever there still is to do."""
        self.load.is_stopped = self.fifo.is_ending = self.fifo.is_over = True

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


def answer_of(connection):
    """The status; 0 where the connection ended without an answer."""
    try:
        return connection.answer().status
    except Lost:
        return 0


def fill(cluster, line, jobs, count=60, size=40000):
    """Some segments and, with SMALL, a snapshot; the keys of what is in the queue then."""
    keys = []
    for number in range(count):
        keys.append(f"k{number}")
        send(line, jobs, [f"k{number} " + "x" * size])
    wait_until(lambda: cluster.sql("SELECT count(*) FROM tally_log.file WHERE name LIKE '%%.snapshot'")[0][0] > 0, 20,
               "a snapshot")
    return sorted(keys)


def cached(node, suffix, namespace=""):
    """The files of its cache, of all namespaces or of one."""
    return sorted(path for path in node.data.rglob(f"*.{suffix}") if namespace in path.parts[-2])


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0x40]))


def spoil(node, how, namespace=""):
    """Damages every file of the cache, or of that of one namespace."""
    for path in cached(node, "segment", namespace) + cached(node, "snapshot", namespace):
        size = path.stat().st_size
        if size == 0:
            continue  # its node was killed before the first byte
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
