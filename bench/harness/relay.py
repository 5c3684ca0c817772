"""A relay from an outbox in PostgreSQL to a Tally queue, beside what the database itself gives away: the same rows,
deleted in thousands by one client that does nothing else with them. And how long a message takes from its COMMIT to a
receiver that waits, what the relay asks of the database while there is nothing to do, and what a stand-by costs the
user's table: VACUUM removes only what is older than the oldest snapshot of any connection. Runs alone: bench/run --only
relay."""

import contextlib
import http.client
import json
import os
import random
import shutil
import statistics
import subprocess
import threading
import time

from harness import report
from harness.order import Part
from harness.peers import Postgres
from harness.servers import RunFailed, Tallyd

ROWS_TO_DELETE = 0.5  # of the rate of the reference
DELAY_MS = 20
LIGHT_PER_S = 40
FLOW_ROWS, FLOW_PER_S = 500, 10  # at a time, and so often: a rate that every relay keeps up with
BLOAT_WITH_STANDBY = 1.5
SNAPSHOT_MS = 1000
DELETE = ("DELETE FROM tally.outbox WHERE id IN (SELECT id FROM tally.outbox ORDER BY id LIMIT 1000) "
          "RETURNING id, uid, kind, queue, group_id, dedup_id, attributes, delay_s, body")


@contextlib.contextmanager
def both_cores(setting):
    """Until the end of the block we run on the server's core too, and not on the generator's alone."""
    if setting.load_core is not None:
        os.sched_setaffinity(0, {setting.server_core, setting.load_core})
    try:
        yield
    finally:
        if setting.load_core is not None:
            os.sched_setaffinity(0, {setting.load_core})


def tool_path():
    """The command line tool, which stands beside the daemon."""
    return os.path.join(os.path.dirname(Tallyd.path), "tally")


class RelayProcess:
    """`tally relay run`, until the end of the block. It begins when the relay says that it is `state`."""

    def __init__(self, server, uri, queue, state="active"):
        self.state = state
        self.command = [tool_path(), "relay", "run", "--source", uri, "--sink", f"queue:{queue}", "--endpoint",
                        f"http://127.0.0.1:{server.port}"]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            if self.state in line:
                return self
        raise RunFailed(f"the relay ended before it was {self.state}")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.stdout.close()
        self.process.wait(timeout=30)


class Receiver:
    """Receives and deletes one message after the other, waiting; notes when each arrived, by its body."""

    def __init__(self, server, queue, count):
        self.count = count
        self.link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.queue = queue
        self.arrived = {}
        self.thread = threading.Thread(target=self.run, daemon=True)

    def call(self, action, **body):
        self.link.request("POST", "/", json.dumps({"QueueUrl": self.queue, **body}), {
            "X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": "application/x-amz-json-1.0"})
        return json.loads(self.link.getresponse().read() or "{}")

    def run(self):
        while len(self.arrived) < self.count:
            for message in self.call("ReceiveMessage", WaitTimeSeconds=20).get("Messages", []):
                self.arrived[message["Body"]] = time.monotonic()
                self.call("DeleteMessage", ReceiptHandle=message["ReceiptHandle"])


class Snapshots:
    """Looks at the snapshots of all connections of relays, until the end of the block: .oldest_ms."""

    SQL = ("SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0) FROM pg_stat_activity "
           "WHERE backend_xmin IS NOT NULL AND application_name LIKE 'tally relay%'")

    def __init__(self, connection):
        self.connection = connection
        self.oldest_ms = 0.0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        cursor = self.connection.cursor()
        while not self.is_over.wait(0.01):
            cursor.execute(self.SQL)
            self.oldest_ms = max(self.oldest_ms, 1000 * float(cursor.fetchone()[0]))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()
        self.connection.close()


class Relay(Part):
    key = "relay"
    title = "rows of an outbox to a queue"

    def run(self, setting, tell):
        try:
            import psycopg2
        except ImportError as problem:
            raise RunFailed("psycopg2 isn't there; ./setup test brings it") from problem
        if Postgres.find() is None or not os.access(tool_path(), os.X_OK):
            raise RunFailed("PostgreSQL or the tool tally isn't there")
        self.setting = setting
        self.idle_s, self.light_count, self.flow_s = (5, 200, 8) if setting.seconds >= 1 else (1, 30, 1)
        count = min(setting.messages, 200_000)
        folders = setting.new_folder(), setting.new_folder()
        try:
            # Three processes share two cores, in the reference as in the relay; what is started here inherits what we
            # may use.
            with both_cores(setting), Postgres(folders[0], None) as source, Tallyd(folders[1], None) as sink:
                connection = psycopg2.connect(source.uri)
                connection.autocommit = True
                cursor = connection.cursor()
                schema = subprocess.run(
                    [tool_path(), "relay", "schema", "--type", "postgres"], capture_output=True, text=True, check=True)
                cursor.execute(schema.stdout)
                for run in range(setting.runs):
                    tell(f"rows of an outbox, run {run + 1} of {setting.runs}")
                    self.note("deletes_per_s", self.delete_rate(cursor, count))
                with RelayProcess(sink, source.uri, sink.queue):
                    for run in range(setting.runs):
                        tell(f"rows of an outbox to a queue, run {run + 1} of {setting.runs}")
                        self.note("rows_per_s", self.relay_rate(cursor, count, sink))
                    self.note("idle_per_s", self.idle_rate(cursor))
                    self.light_load(cursor, sink)
                    tell("what is left for VACUUM, without a stand-by and with one")
                    self.note("alone_kib", self.flow(cursor, sink))
                    watcher = psycopg2.connect(source.uri)
                    watcher.autocommit = True
                    with RelayProcess(sink, source.uri, sink.queue, "standby"), Snapshots(watcher) as snapshots:
                        self.note("standby_kib", self.flow(cursor, sink))
                        time.sleep(self.flow_s / 2)  # and while nothing flows
                    self.note("snapshot_ms", snapshots.oldest_ms)
                connection.close()
        finally:
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)

    def fill(self, cursor, count):
        """From the start of each: no dead rows, nothing to write back."""
        cursor.execute("VACUUM ANALYZE tally.outbox")
        cursor.execute("CHECKPOINT")
        cursor.execute("INSERT INTO tally.outbox (queue, body) SELECT '', repeat('x', %s) FROM generate_series(1, %s)",
                       (self.setting.body, count))

    def delete_rate(self, cursor, count):
        self.fill(cursor, count)
        begin, taken = time.monotonic(), 0
        while taken < count:
            cursor.execute(DELETE)
            taken += cursor.rowcount
        return count / (time.monotonic() - begin)

    def relay_rate(self, cursor, count, sink):
        """From the COMMIT that shows the rows until the queue holds each and none is left. It is the queue that is
        looked at: past what was deleted the database would have to look for the first row that is left."""
        before = sink.held()
        self.fill(cursor, count)
        begin = time.monotonic()
        while sink.held() - before < count:
            time.sleep(0.01)
        cursor.execute("SELECT 1 FROM tally.outbox LIMIT 1")
        while cursor.rowcount:
            time.sleep(0.002)
            cursor.execute("SELECT 1 FROM tally.outbox LIMIT 1")
        seconds = time.monotonic() - begin
        if sink.held() - before != count:
            raise RunFailed(f"{count} rows became {sink.held() - before} messages")
        return count / seconds

    def idle_rate(self, cursor):
        """Transactions of the whole database in a second; ours is the counting alone."""
        time.sleep(2)  # what was flowing is over, and counted
        counts = []
        for pause in (self.idle_s, 0):
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(
                "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()")
            counts.append(cursor.fetchone()[0])
            time.sleep(pause)
        return (counts[1] - counts[0]) / self.idle_s

    def light_load(self, cursor, sink):
        sink.call("PurgeQueue", {"QueueUrl": sink.queue})
        sink.call("CreateQueue", {"QueueName": "light"})
        receiver = Receiver(sink, "light", self.light_count)
        receiver.thread.start()
        committed, numbers = {}, random.Random(1)
        for number in range(self.light_count):
            time.sleep(numbers.expovariate(LIGHT_PER_S))
            cursor.execute("SELECT tally.send('light', %s)", (str(number),))
            committed[str(number)] = time.monotonic()
        receiver.thread.join(timeout=30)
        if len(receiver.arrived) != self.light_count:
            raise RunFailed(f"{len(receiver.arrived)} messages of {self.light_count} arrived")
        delays = [1000 * (receiver.arrived[body] - at) for body, at in committed.items()]
        self.note("delay_p50_ms", statistics.median(delays))
        self.note("delay_max_ms", max(delays))

    def flow(self, cursor, sink):
        """KiB of the table and its index after some seconds of rows, with VACUUM twice a second as autovacuum would
        come to a busier table."""
        cursor.execute("VACUUM FULL tally.outbox")
        count = sink.held()
        for number in range(self.flow_s * FLOW_PER_S):
            cursor.execute(
                "INSERT INTO tally.outbox (queue, body) SELECT '', repeat('x', %s) FROM generate_series(1, %s)",
                (self.setting.body, FLOW_ROWS))
            count += FLOW_ROWS
            time.sleep(1 / FLOW_PER_S)
            if number % (FLOW_PER_S // 2) == 0:
                cursor.execute("VACUUM (TRUNCATE false) tally.outbox")
        while sink.held() < count:
            time.sleep(0.01)
        cursor.execute("SELECT pg_total_relation_size('tally.outbox') / 1024")
        return int(cursor.fetchone()[0])

    def rows(self, setting):
        rate, reference = (self.median_of(name) for name in ("rows_per_s", "deletes_per_s"))
        return [
            report.row("relay: rows of an outbox into a queue", rate, "/s",
                       "DELETE … RETURNING of the same, one client", reference, "/s", at_least=ROWS_TO_DELETE,
                       problem=self.problem),
            report.row("relay: COMMIT to a waiting receiver, p50", self.median_of("delay_p50_ms"), "ms",
                       f"the longest; {LIGHT_PER_S} a second", self.median_of("delay_max_ms"), "ms", at_most=DELAY_MS,
                       bar_on_value=True, problem=self.problem),
            report.row("relay: statements while idle", self.median_of("idle_per_s"), "/s", problem=self.problem),
            report.row("relay: KiB of the table after rows flowed past a stand-by", self.median_of("standby_kib"),
                       "KiB", "without a stand-by", self.median_of("alone_kib"), "KiB", at_most=BLOAT_WITH_STANDBY,
                       problem=self.problem),
            report.row("relay: oldest snapshot of any relay", self.median_of("snapshot_ms"), "ms", at_most=SNAPSHOT_MS,
                       bar_on_value=True, problem=self.problem),
        ]


PARTS = [Relay]
