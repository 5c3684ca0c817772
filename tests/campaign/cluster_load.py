"""The load of the campaign of a cluster, its judges, and what measures who was answered when.

    clock = Clock()                                              # seconds since it was made
    tenant = Tenant(clock, name, front, home, ports, has_batches=True)   # the clients of one namespace
    tenant.complaints()                                          # what is wrong so far
    tenant.end(), tenant.finish()                                # after which all has come: what is wrong with it
    tenant.answered, tenant.answered_by_front                    # the seconds in which a request was answered
    with DatabaseProbe(clock, pair) as database:
        database.seconds_served(begin, end)                      # those in which PostgreSQL took writes all the time
"""

import contextlib
import random
import time

import psycopg2
from background import Background
from logs import FifoCheck, create_queue
from nodes import AnyNode
from test_auth import signed_headers, written
from test_cluster_namespaces import key_of
from test_kill9 import Batcher, Collector, Load, Reporter, Worker, check_batches, check_messages, counts
from wire import Connection, Lost

SEND_EACH = 1.5  # seconds, in the middle
BATCH_EACH = 30
PROBE_EACH = 0.75
WRITE_EACH = 0.1  # the probe of PostgreSQL
GAP = 0.5  # seconds: two writes of that probe which lie further apart show an outage of PostgreSQL
WINDOW = "86400"  # seconds for which a deduplication id is known: no repeat comes later


class Clock:
    def __init__(self):
        self.began_at = time.monotonic()

    def now(self):
        return time.monotonic() - self.began_at


class SignedConnection(Connection):
    def __init__(self, port, namespace, note, seconds):
        """`note` is told of each request what went wrong with it: "" if nothing did."""
        super().__init__(port, seconds)
        self.namespace, self.note = namespace, note

    def call(self, target, body):
        try:
            answer = self._ask(target, body)
        except Lost as lost:
            self.note(repr(lost.__cause__))
            raise
        self.note("" if answer.status == 200 else f"{answer.status} {answer.body.decode()}")
        return answer

    def _ask(self, target, body):
        text, headers = written("json", target, body)
        headers = signed_headers("/", text, {**headers, "Host": "127.0.0.1"}, key_of(self.namespace), "the-secret")
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        data = text.encode()
        self.write(f"POST / HTTP/1.1\r\n{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        return self.answer()


class TenantLine(AnyNode):
    """A client of a namespace which knows these ports. What gets a 503, or no answer, it repeats a moment later on a
    new connection, to the next of them."""

    def __init__(self, namespace, ports, note, seconds):
        self.connections = [SignedConnection(port, namespace, note, seconds) for port in ports]
        self.at = 0

    def _go_on(self):
        self.connections[self.at % len(self.connections)].close()
        self.at += 1
        time.sleep(random.uniform(0.05, 0.2))


class Stream(FifoCheck):
    """A FIFO queue whose producer takes its time."""

    LEASE, WAIT, REST = 5, 2, 0.1

    def _pause(self):
        deadline = time.monotonic() + SEND_EACH * random.uniform(0.5, 1.5)
        while time.monotonic() < deadline and not self.is_ending:
            time.sleep(min(0.5, max(0, deadline - time.monotonic())))


class SlowBatcher(Batcher):
    next_at = 0

    def work(self):
        if time.monotonic() < self.next_at:
            time.sleep(0.5)
            return
        super().work()
        self.next_at = time.monotonic() + BATCH_EACH * random.uniform(0.5, 1.5)


class SlowReporter(Reporter):
    def work(self):
        time.sleep(0.1)
        super().work()


class Batches(Load):
    """Batches of messages and external units, each of which must complete once: the judges of test_kill9.py."""

    def __init__(self, cluster):
        line = cluster.line()
        super().__init__(0, create_queue(line, "jobs"), create_queue(line, "results"))
        self.makers = [SlowBatcher(self, 0)]
        self.takers = [Worker(self, 0), SlowReporter(self, 0), SlowReporter(self, 1), Collector(self, 0)]
        for client in self.makers + self.takers:
            client.line = cluster.line()
        self.start()


class Probe(Background):
    """Asks on and on for a queue's attributes. That is refused for a moment only, by a node that says so with 503."""

    def __init__(self, line, queue):
        super().__init__()
        self.thread.daemon = True
        self.line, self.queue = line, queue
        self.faults = []
        self.thread.start()

    def run(self):
        asked = {"QueueUrl": self.queue, "AttributeNames": ["All"]}
        while not self.is_over.wait(PROBE_EACH):
            with contextlib.suppress(Lost):
                answer = self.line.call("AmazonSQS.GetQueueAttributes", asked)
                if answer.status != 200:
                    self.faults.append(f"a probe got {answer.status} {answer.body!r}")


class Tenant:
    """The clients of a namespace. Those that work know either the balancer or one node; of two probes one knows the
    balancer and the other one all nodes."""

    def __init__(self, clock, name, front, home, ports, has_batches):
        self.clock, self.name, self.front, self.home = clock, name, front, home
        self.answered, self.answered_by_front = set(), set()
        self.failed_by_front = []  # (when, what): requests by way of the balancer that got no success
        self.stream = Stream(self, **{"Tally.DeduplicationWindow": WINDOW})
        self.batches = Batches(self) if has_batches else None
        self.probes = [Probe(self._line(known, 2), self.stream.queue) for known in ([front], ports)]

    def _line(self, ports, seconds):
        def note(failure):
            now = self.clock.now()
            if not failure:
                self.answered.add(int(now))
            if ports != [self.front]:
                return
            if failure:
                self.failed_by_front.append((now, failure))
            else:
                self.answered_by_front.add(int(now))
        return TenantLine(self.name, ports, note, seconds)

    def line(self, seconds=10):
        return self._line([self.home], seconds)

    def complaints(self):
        faults = self.stream.faults + (self.batches.record.faults if self.batches else [])
        faults += [fault for probe in self.probes for fault in probe.faults]
        return [f"{self.name}: {fault}" for fault in faults]

    def end(self):
        self.stream.is_ending = True
        if self.batches is not None:
            self.batches.is_draining = True
        for probe in self.probes:
            probe.is_over.set()

    def finish(self):
        found = []
        for judge in (self.stream.finish, self._finish_batches):
            try:
                judge()
            except AssertionError as error:
                found.append(f"{self.name}: {error}")
        return found

    def _finish_batches(self):
        if self.batches is None:
            return
        load, line = self.batches, PatientTenantLine(self.line())
        load.finish(lambda: not load.reports and not load.reports_again and
                    counts(line, load.jobs) == counts(line, load.results) == [0, 0, 0])
        assert not load.record.faults, load.record.faults[:5]
        check_messages(load.record)
        check_batches(line, load.record)

    def abandon(self):
        self.end()
        self.stream.is_over = True
        if self.batches is not None:
            self.batches.is_stopped = True


class PatientTenantLine:
    def __init__(self, line):
        self.ok = line.ok_at_last


class DatabaseProbe(Background):
    """Writes a row on and on, as a client of PostgreSQL alone."""

    def __init__(self, clock, pair):
        super().__init__()
        self.clock, self.pair = clock, pair
        self.written = []  # when each write was acknowledged
        pair.sql("CREATE TABLE alive (n int)")
        pair.sql("INSERT INTO alive VALUES (0)")

    def run(self):
        while not self.is_over.is_set():
            with contextlib.suppress(psycopg2.Error), contextlib.closing(self.pair.try_to_connect()) as connection:
                self._write(connection.cursor())
            time.sleep(0.02)

    def _write(self, cursor):
        while not self.is_over.wait(WRITE_EACH):
            cursor.execute("UPDATE alive SET n = n + 1")
            self.written.append(self.clock.now())

    def seconds_served(self, begin, end):
        """The seconds of [begin, end) of which no part lies between two writes that are more than GAP apart."""
        found = set(range(begin, end))
        for before, after in zip([0, *self.written], [*self.written, end]):
            if after - before > GAP:
                found -= set(range(int(before), int(after) + 1))
        return found
