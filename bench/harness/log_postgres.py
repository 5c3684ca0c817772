"""Tally with its log in PostgreSQL: completed jobs beside a table of jobs in the same PostgreSQL on the same cores,
what a log costs there, and how fast another node takes over."""

import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

from harness import machine, measure, report, sign, watch
from harness.measure import Case
from harness.order import Part
from harness.queue_peers import postgres_run
from harness.queue_servers import PostgresQueue
from harness.servers import RunFailed, Tallyd, TallydSigned, free_port

BYTES_TO_BARE = 0.7
ONE_TO_BARE = 1.5
WAL_TO_FRAMES = 3
FAILOVER_S = 1
BEHIND_MS = 100
BEHIND_LOAD = 0.7  # of what the owner can do
GROWN = 1.25  # "flat"
LARGE_BODY = 20_000
FORWARD_ADDS_US = 150
FORWARD_RATE = 0.5
FIRST_REQUEST_MS = 100
SHAPE_KEPT = 64_000_000


def tallyd(*words):
    """What it prints."""
    done = subprocess.run([Tallyd.path, *words], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise RunFailed(f"tallyd {words[-1]}: {done.stderr.strip()[:300]}")
    return done.stdout


class TallydOnPostgres(Tallyd):
    """tallyd and its PostgreSQL on one core: what others have for PostgreSQL alone. Processor time is that of both."""

    name = "Tally on PostgreSQL"
    postgres_kind = PostgresQueue
    postgres = None
    is_guest = False  # its PostgreSQL is another node's, which ends it
    may_stand_by = False  # it is ready when it follows

    @classmethod
    def missing(cls):
        return super().missing() or PostgresQueue.missing()

    def start(self):
        if self.postgres is None:
            self.postgres = self.postgres_kind(self.folder + "-postgres", self.core)
            self.postgres.start()
            tallyd("--log", self.postgres.uri, "--init")
        return super().start()

    def command(self):
        return [*super().command(), "--log", self.postgres.uri]

    def is_ready(self):
        if not self.may_stand_by:
            return super().is_ready()
        with contextlib.suppress(OSError):
            return self.metric("tally_log_position_bytes") is not None
        return False

    def start_again(self):
        """Another node serves; the queue is there."""
        self.may_stand_by = True
        return super(Tallyd, self).start()

    def cpu_s(self):
        return super().cpu_s() + self.postgres.cpu_s()

    def __exit__(self, *of_error):
        super().__exit__(*of_error)
        if not self.is_guest and self.postgres is not None:
            self.postgres.stop(signal.SIGINT)  # its default waits for the connections
            shutil.rmtree(self.postgres.folder, ignore_errors=True)

    def metric(self, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as reply:
            found = re.search(rf"^{name} (\S+)$", reply.read().decode(), re.MULTILINE)
        return float(found.group(1)) if found else None


class StandBy(TallydOnPostgres):
    """A second node on the PostgreSQL of the first."""

    name = "the node that stands by"
    is_guest = True

    def __init__(self, folder, core, owner):
        super().__init__(folder, core)
        self.postgres = owner.postgres

    def start(self):
        return self.start_again()


class Line:
    """What nodes know each other by: a secret and, over TLS, certificates."""

    def __init__(self, folder, has_tls):
        self.folder, self.has_tls = folder, has_tls
        with open(self.path("secret"), "w", encoding="ascii") as file:
            file.write("0123456789abcdef0123456789abcdef\n")
        if has_tls:  # one certificate for both nodes, which has signed itself
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                            "-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.path("key"),
                            "-out", self.path("crt")], check=True, capture_output=True, timeout=60)

    def path(self, name):
        return os.path.join(self.folder, name)

    def options(self, node):
        options = ["--node", node.node, "--cluster-secret", self.path("secret")]
        if not self.has_tls:
            return [*options, "--advertise", f"127.0.0.1:{node.port}"]
        port = free_port()
        return [*options, "--advertise", f"127.0.0.1:{port}", "--cluster-listen", f"127.0.0.1:{port}",
                "--cluster-certificate", self.path("crt"), "--cluster-key", self.path("key"), "--cluster-ca",
                self.path("crt")]


class Owner(TallydOnPostgres):
    """The node that serves, of a cluster."""

    node = "one"

    def __init__(self, folder, core, line):
        super().__init__(folder, core)
        self.options = line.options(self)


class Front(StandBy):
    """One that stands by, and passes requests on."""

    node = "two"

    def __init__(self, folder, core, owner, line):
        super().__init__(folder, core, owner)
        self.options = line.options(self)


class Many(TallydOnPostgres, TallydSigned):
    """A node of a cluster with credentials of many namespaces, of which it serves one."""

    node = "one"

    def __init__(self, folder, core, line, namespaces):
        super().__init__(folder, core)
        self.options = line.options(self)
        self.namespaces = namespaces

    def credentials(self):
        return super().credentials() + "".join(f"{self.key(number)} {sign.SECRET} {number:012} read,write,admin\n"
                                               for number in range(1, self.namespaces))

    @staticmethod
    def key(number):
        return f"AKIAIOSFODNN7{number:07}"

    def first_request_ms(self, number):
        body = json.dumps({"QueueName": self.queue}).encode()
        headers = {"X-Amz-Target": "AmazonSQS.CreateQueue", "Content-Type": "application/x-amz-json-1.0",
                   "Host": f"127.0.0.1:{self.port}"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/", body,
                                         sign.signed(headers, body, self.key(number)))
        began = time.monotonic()
        with urllib.request.urlopen(request, timeout=60) as reply:
            reply.read()
        return 1000 * (time.monotonic() - began)


class Second(Many):
    """Another node of that cluster, with the same credentials."""

    name = "the second node"
    node = "two"
    is_guest = True

    def __init__(self, folder, core, line, namespaces, first):
        super().__init__(folder, core, line, namespaces)
        self.postgres = first.postgres

    def start(self):
        return self.start_again()


class PostgresHeld(PostgresQueue):
    """A worker's transaction stays open while it works, and a job that it did not finish is there again: what Tally
    promises, too."""

    name = "PostgreSQL, SKIP LOCKED, held"

    def script(self, batch, body):
        path = super().script(batch, body)
        with open(path, encoding="utf-8") as file:
            insert, delete = file.read().splitlines()
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{insert}\nBEGIN;\n{delete}\nCOMMIT;\n")
        return path


CASES = [
    Case("life.postgres", TallydOnPostgres, "http-life", "Tally on PostgreSQL, send receive delete in tens",
         is_of_bar=True),
    Case("life.single.postgres", TallydOnPostgres, "http-life-single",
         "Tally on PostgreSQL, send receive delete, one in a request", is_of_bar=True),
    Case("postgresql.single", PostgresQueue, "pgbench", "PostgreSQL SKIP LOCKED, one in a statement",
         run=postgres_run, is_of_bar=True),
    Case("postgresql.single.held", PostgresHeld, "pgbench", "PostgreSQL SKIP LOCKED, one, held while it is worked on",
         run=postgres_run),
]


def first_number(server, sql):
    return float(server.sql(sql).split("|")[0] or 0)


class LogPart(Part):
    """A part with servers of its own, each in a fresh folder."""

    @contextlib.contextmanager
    def server(self, setting, kind=TallydOnPostgres, *more, core=None):
        folder = setting.new_folder()
        try:
            with kind(folder, core or setting.server_core, *more) as running:
                yield running
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def check(self):
        if TallydOnPostgres.missing():
            raise RunFailed(TallydOnPostgres.missing())

    def append(self, setting, server, *options):
        """What bench/append says, on the core of the loads, against a database of its own."""
        server.sql("DROP DATABASE IF EXISTS bare")
        server.sql("CREATE DATABASE bare")
        uri = server.uri.rsplit("/", 1)[0] + "/bare"
        tallyd("--log", uri, "--init")
        command = [os.path.join(os.path.dirname(setting.load), "append"), "--uri", uri, "--seconds",
                   str(max(1.0, 2 * setting.seconds)), *map(str, options)]
        if setting.load_core is not None:
            command = ["taskset", "-c", str(setting.load_core), *command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode != 0:
            raise RunFailed(f"append: {done.stderr.strip()[:300]}")
        return json.loads(done.stdout)


class Bytes(LogPart):
    """Large messages, and the statement that stores their frames, run in a loop with frames as large."""

    key = "log.bytes"
    title = "bytes of frames into PostgreSQL"

    def run(self, setting, tell):
        self.check()
        for turn in range(setting.turns):
            tell(f"bytes of frames into PostgreSQL, run {turn + 1} of {setting.turns}")
            with self.server(setting) as server:
                position, commits = server.metric("tally_log_position_bytes"), self.commits(server)
                made = measure.server_load(setting, server, "http-batch", "--connections", 16, "--body", LARGE_BODY,
                                           *measure.window_options(setting))
                server.check(made["total"])
                bytes_a_frame = ((server.metric("tally_log_position_bytes") - position) /
                                 (self.commits(server) - commits))
                bare = self.append(setting, server.postgres, "--bytes", int(bytes_a_frame))
            self.note("bytes_per_s", made["messages_per_s"] * LARGE_BODY)
            self.note("bare_per_s", bare["bytes_per_s"])
            self.note("frame_bytes", bytes_a_frame)

    @staticmethod
    def commits(server):
        """Some of them are not frames."""
        return first_number(server.postgres,
                            "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")

    def rows(self, setting):
        value, bare = self.median_of("bytes_per_s"), self.median_of("bare_per_s")
        size = self.median_of("frame_bytes")
        return [report.row("log in PostgreSQL: bytes of messages a second", value, "/s",
                           f"the same statement in a bare loop, {report.number(size)} bytes each" if size else "",
                           bare, "/s", at_least=BYTES_TO_BARE, problem=self.problem)]


class Wal(LogPart):
    """Of whole lives in tens, under full load."""

    key = "log.wal"
    title = "WAL of PostgreSQL"
    WAL = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"

    def run(self, setting, tell):
        self.check()
        for turn in range(setting.runs):
            tell(f"WAL bytes of a message's life, run {turn + 1} of {setting.runs}")
            with self.server(setting) as server:
                wal, position = first_number(server.postgres, self.WAL), server.metric("tally_log_position_bytes")
                made = self.load(setting, server)
                self.note("wal", (first_number(server.postgres, self.WAL) - wal) / made)
                self.note("frames", (server.metric("tally_log_position_bytes") - position) / made)
            with self.server(setting, PostgresQueue) as table:
                wal = first_number(table, self.WAL)
                script = table.script(10, setting.body)
                made = 10 * table.lives(script, setting.connections, setting.seconds)["transactions"]
                self.note("table", (first_number(table, self.WAL) - wal) / made)

    @staticmethod
    def load(setting, server):
        return measure.server_load(setting, server, "http-life", "--connections", setting.connections, "--body",
                                   setting.body, "--warm-up", 0, "--seconds",
                                   setting.seconds)["total"]["deleted"]

    def rows(self, setting):
        return [report.row("log in PostgreSQL: WAL bytes of a message's life", self.median_of("wal"), "bytes",
                           "its bytes in frames", self.median_of("frames"), "bytes", at_most=WAL_TO_FRAMES,
                           problem=self.problem),
                report.row("log in PostgreSQL: WAL bytes of a message's life", self.median_of("wal"), "bytes",
                           "a SKIP LOCKED table, tens in a statement", self.median_of("table"), "bytes",
                           problem=self.problem)]


class One(LogPart):
    """A client alone: what its request takes, beside a bare round trip and a committed INSERT of 1 KiB."""

    key = "log.one"
    title = "one client, log in PostgreSQL"

    def run(self, setting, tell):
        self.check()
        from harness.servers import Echo

        for turn in range(setting.turns):
            tell(f"one client of a log in PostgreSQL, run {turn + 1} of {setting.turns}")
            with self.server(setting) as server:
                self.note("one", self.p50(setting, server))
                table = server.postgres
                script = os.path.join(table.folder, "one.sql")
                with open(script, "w", encoding="utf-8") as file:
                    file.write(f"INSERT INTO job (body) VALUES ('{'x' * 1024}');\n")
                self.note("insert", table.lives(script, 1, setting.seconds)["mean_us"])
            with self.server(setting, Echo) as echo:
                self.note("echo", self.p50(setting, echo))

    @staticmethod
    def p50(setting, server):
        return measure.server_load(setting, server, "http-send", "--connections", 1, "--body", setting.body,
                                   *measure.window_options(setting))["latency_us"]["p50"]

    def rows(self, setting):
        echo, insert = self.median_of("echo"), self.median_of("insert")
        bare = echo + insert if echo is not None and insert is not None else None
        return [report.row("log in PostgreSQL: one connection, one message, p50", self.median_of("one"), "us",
                           "bare round trip + a committed INSERT of 1 KiB (mean)", bare, "us", at_most=ONE_TO_BARE,
                           problem=self.problem)]


class Failover(LogPart):
    """kill -9 of the owner while messages wait, until the other node has answered a request."""

    key = "log.failover"
    title = "failover"
    KILLS = 5

    def run(self, setting, tell):
        self.check()
        with self.server(setting) as first:
            tell(f"{setting.messages:,} messages before the failovers")
            made = measure.server_load(setting, first, "http-batch", "--connections", setting.connections, "--body",
                                       setting.body, "--count", max(1, setting.messages // 10))["messages"]
            with self.server(setting, StandBy, first) as second:
                nodes = [first, second]
                for number in range(self.KILLS if setting.seconds >= 1 else 1):
                    tell(f"failover {number + 1} of {self.KILLS}")
                    nodes = self.fail_over(*nodes, made)

    def fail_over(self, owner, other, expected):
        """The other node, and then the one that was killed."""
        deadline = time.monotonic() + 120
        while other.metric("tally_log_position_bytes") != owner.metric("tally_log_position_bytes"):
            if time.monotonic() > deadline:
                raise RunFailed("the stand-by does not catch up")
            time.sleep(0.1)
        begin = time.monotonic()
        owner.process.kill()
        while True:
            try:
                held = other.held()
                break
            except (RunFailed, OSError, ValueError):
                if time.monotonic() - begin > 60:
                    raise RunFailed("nobody serves") from None
                time.sleep(0.002)
        self.note("seconds", time.monotonic() - begin)
        if held != expected:
            raise RunFailed(f"{held} messages are left of {expected}")
        owner.stop()
        owner.start_again()
        return other, owner

    def rows(self, setting):
        taken = self.results.get("seconds", [])
        return [report.row(f"kill -9 of the owner until the next answer, {setting.messages:,} messages wait",
                           self.median_of("seconds"), "s", f"the longest of {len(taken)}",
                           max(taken, default=None), "s", at_most=FAILOVER_S, bar_on_value=True, problem=self.problem)]


class Positions:
    """When a node was where, looked at all the time."""

    def __init__(self, node):
        self.node, self.seen, self.is_over = node, [], False
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.is_over:
            asked = time.monotonic()
            position = self.node.metric("tally_log_position_bytes")
            self.seen.append((asked, time.monotonic(), position))
            time.sleep(0.005)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.thread.join()


class Behind(LogPart):
    """Sends at a steady rate; how long until the node that stands by has applied what the owner had."""

    key = "log.behind"
    title = "a stand-by's delay"

    def run(self, setting, tell):
        self.check()
        with self.server(setting) as owner, self.server(setting, StandBy, owner) as other:
            tell("what an owner with a stand-by can do")
            full = self.load(setting, owner)["messages_per_s"]
            tell("a stand-by's delay")
            with Positions(owner) as written, Positions(other) as followed:
                made = self.load(setting, owner, "--rate", int(BEHIND_LOAD * full))
                time.sleep(1)
            self.note("rate", made["messages_per_s"])
            for delay in self.delays_ms(written.seen, followed.seen):
                self.note("delay_ms", delay)

    @staticmethod
    def load(setting, server, *options):
        return measure.server_load(setting, server, "http-send", "--connections", setting.connections, "--body",
                                   setting.body, *options, *measure.window_options(setting))

    @staticmethod
    def delays_ms(written, followed):
        """From the end of an answer of the owner to the end of the first one of the other that is as far. Both were
        looked at until a second after the last send."""
        if followed[-1][2] < written[-1][2]:
            raise RunFailed("a second after the last send, the stand-by is still behind")
        delays, at = [], 0
        for (_, answered, position) in written:
            while followed[at][2] < position and at < len(followed) - 1:
                at += 1
            delays.append(max(0.0, 1000 * (followed[at][1] - answered)))
        return delays

    def rows(self, setting):
        delays = sorted(self.results.get("delay_ms", []))
        p99 = delays[int(0.99 * (len(delays) - 1))] if delays else None
        return [report.row("log in PostgreSQL: a stand-by behind the owner, p99", p99, "ms",
                           f"p50; at {report.number(self.median_of('rate'))} sends a second" if delays else "",
                           self.median_of("delay_ms"), "ms", at_most=BEHIND_MS, bar_on_value=True,
                           problem=self.problem)]


class Flat(LogPart):
    """Lives at a steady rate; what PostgreSQL has for it, in the second half beside the first."""

    key = "log.flat"
    title = "rows and bytes over time"
    RATE = 2000  # lives a second
    SECONDS = 3600

    def run(self, setting, tell):
        self.check()
        seconds = float(os.environ.get("FLAT_SECONDS") or (self.SECONDS if setting.seconds >= 1 else 10))
        with self.server(setting) as server:
            server.options = ("--snapshot-bytes", "8MiB")
            server.stop()
            server.start()
            end, held = time.monotonic() + seconds, 0
            while time.monotonic() < end:
                tell(f"rows and bytes over time, {end - time.monotonic():.0f} s to go")
                made = measure.server_load(setting, server, "http-life", "--connections", 8, "--body", setting.body,
                                           "--rate", self.RATE, "--warm-up", 0, "--seconds",
                                           min(10, seconds / 10))
                held += made["total"]["sent"] - made["total"]["deleted"]
                server.check({"sent": held, "deleted": 0})
                self.note("bytes", first_number(server.postgres, "SELECT pg_database_size(current_database())"))
                self.note("rows", first_number(server.postgres, "SELECT count(*) FROM tally_log.chunk"))

    def rows(self, setting):
        found = []
        for name, unit in ("bytes", "bytes"), ("rows", "rows"):
            seen = self.results.get(name, [])
            half = len(seen) // 2
            first, second = (max(part, default=None) for part in (seen[half // 4:half], seen[half:]))
            found.append(report.row(f"log in PostgreSQL: the most {name} of the second half", second, unit,
                                    f"the most of the first half; {len(seen)} looks at a drained queue", first, unit,
                                    at_most=GROWN, problem=self.problem))
        return found


class PostgresWatched(PostgresQueue):
    """Counts what each statement costs."""

    settings = {**PostgresQueue.settings, "shared_preload_libraries": "pg_stat_statements"}

    def start(self):
        seconds = super().start()
        self.sql("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        return seconds

    def cost_of(self, text):
        """Of all statements with that text so far: calls, milliseconds, pages looked at."""
        row = self.sql("SELECT coalesce(sum(calls), 0), coalesce(sum(total_exec_time), 0),"
                       " coalesce(sum(shared_blks_hit + shared_blks_read), 0) FROM pg_stat_statements"
                       f" WHERE query LIKE '%{text}%' AND query NOT LIKE '%pg_stat_statements%'")
        return [float(number) for number in row.split("|")]


class TallydWatched(TallydOnPostgres):
    postgres_kind = PostgresWatched


class Idle(TallydOnPostgres):
    """A node that nobody asks anything, on a second database of the same PostgreSQL."""

    name = "an idle node"
    is_guest = True
    DATABASE = "idle"

    def __init__(self, folder, core, owner):
        super().__init__(folder, core)
        self.postgres = owner.postgres
        self.uri = self.postgres.uri.rsplit("/", 1)[0] + "/" + self.DATABASE

    def command(self):
        return [*super(TallydOnPostgres, self).command(), "--log", self.uri]


class Pinned(LogPart):
    """Lives at a steady rate, and an idle log, beside transactions that stay open: what a statement costs PostgreSQL
    at the end, beside what it cost at the beginning."""

    key = "log.pinned"
    title = "the log beside a transaction that stays open"
    RATE = 1000  # lives a second
    SECONDS = 7200
    PARTS = 10
    SLOWER = 1.3
    STATEMENTS = {"an append": "INSERT INTO tally_log.chunk",
                  "a beat of an idle log": "UPDATE tally_log.beat",
                  "a portion of a file that is removed": "DELETE FROM tally_log.chunk"}

    def run(self, setting, tell):
        self.check()
        seconds = float(os.environ.get("PINNED_SECONDS") or (self.SECONDS if setting.seconds >= 1 else 20))
        with self.server(setting, TallydWatched) as server:
            postgres = server.postgres
            postgres.sql(f"CREATE DATABASE {Idle.DATABASE}")
            tallyd("--log", postgres.uri.rsplit("/", 1)[0] + "/" + Idle.DATABASE, "--init")
            server.options = ("--snapshot-bytes", "8MiB")
            server.stop()
            server.start()
            with self.server(setting, Idle, server) as idle, self.pinned(postgres.uri), self.pinned(idle.uri):
                self.note_costs(postgres)
                for part in range(self.PARTS):
                    tell(f"beside an open transaction, {part + 1} of {self.PARTS}")
                    made = measure.server_load(setting, server, "http-life", "--connections", 8, "--body",
                                               setting.body, "--rate", self.RATE, "--warm-up", 0, "--seconds",
                                               seconds / self.PARTS)
                    self.note("p99_us", made["latency_us"]["p99"])
                    self.note_costs(postgres)
                self.note("bytes", first_number(postgres, "SELECT pg_database_size(current_database())"))
                self.note("rows", first_number(postgres, "SELECT count(*) FROM tally_log.chunk"))

    @contextlib.contextmanager
    def pinned(self, uri):
        """A transaction that has read, and stays open."""
        held = subprocess.Popen([PostgresQueue.tool("psql"), "-qAt", uri], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)
        try:
            held.stdin.write("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM tally_log.head;\n")
            held.stdin.flush()
            if not held.stdout.readline():
                raise RunFailed("psql opens no transaction")
            yield
            if held.poll() is not None:
                raise RunFailed("the open transaction has ended")
        finally:
            held.kill()
            held.communicate()

    def note_costs(self, postgres):
        for name, text in self.STATEMENTS.items():
            self.note(name, postgres.cost_of(text))

    def costs(self, name, what):
        """Of one call, in the second part, when files are removed already, and in the last."""
        seen = self.results.get(name, [])
        if len(seen) <= self.PARTS:
            return None, None
        return [(later[what] - sooner[what]) / max(1, later[0] - sooner[0])
                for sooner, later in (seen[1:3], seen[-2:])]

    def rows(self, setting):
        found = []
        for name in self.STATEMENTS:
            for what, unit in (1, "ms"), (2, "pages"):
                first, last = self.costs(name, what)
                found.append(report.row(f"beside a transaction that stays open: {name}, the last tenth", last, unit,
                                        "the second tenth", first, unit,
                                        at_most=self.SLOWER if name == "an append" else None, problem=self.problem))
        found.append(report.row("beside a transaction that stays open: the database at the end",
                                self.median_of("bytes"), "bytes",
                                f"with {report.number(self.median_of('rows'))} rows of the log", problem=self.problem))
        return found


class Shapes(LogPart):
    """What was not chosen: one TOAST value a frame, and a ring of tables that are emptied."""

    key = "log.shapes"
    title = "shapes of the log in PostgreSQL"
    SIZES = (16 * 1024, 64 * 1024, 256 * 1024, 1024 * 1024)

    def run(self, setting, tell):
        self.check()
        for size in self.sizes(setting):
            for shape in "chunks", "toast":
                tell(f"{shape}, frames of {size} bytes")
                with self.server(setting, PostgresQueue) as server:
                    self.note(f"{shape} {size}", self.append(setting, server, "--shape", shape, "--bytes", size))
        for shape in "chunks", "ring":
            for pin in (), ("--pin",):
                tell(f"{shape}{' beside an open transaction' if pin else ''}")
                with self.server(setting, PostgresQueue) as server:
                    self.note(f"{shape} kept{' pinned' if pin else ''}",
                              self.append(setting, server, "--shape", shape, "--bytes", 64 * 1024, "--keep",
                                          SHAPE_KEPT, *pin))

    def sizes(self, setting):
        return self.SIZES if setting.seconds >= 1 else self.SIZES[-2:-1]

    def figure(self, name, what):
        found = self.results.get(name)
        return statistics.median(one[what] for one in found) if found else None

    def rows(self, setting):
        rows = []
        for size in self.sizes(setting):
            for what, unit in ("bytes_per_s", "/s"), ("wal_factor", "x"):
                rows.append(report.row(f"chunks of 8,000 bytes, frames of {size >> 10} KiB: {what}",
                                       self.figure(f"chunks {size}", what), unit, "one TOAST value",
                                       self.figure(f"toast {size}", what), unit, problem=self.problem))
        for pin in "", " pinned":
            for what, unit in ("bytes_per_s", "/s"), ("stored_bytes", "bytes"), ("last_per_s", "/s"):
                rows.append(report.row(f"DELETE, {'beside an open transaction' if pin else 'nothing else'}: {what}",
                                       self.figure(f"chunks kept{pin}", what), unit, "a ring and TRUNCATE",
                                       self.figure(f"ring kept{pin}", what), unit, problem=self.problem))
        return rows


class Forward(LogPart):
    """Sends through a node that stands by, beside sends to the owner, by turns; nodes speak plain HTTP, or TLS.

    What passing on adds is small beside what a flush takes, and that changes from one second to the next: so it is the
    median of the differences of short slices, of which two at a time follow each other. With one connection the load
    waits while the nodes work, so the front has the load's core, as two nodes have a machine each. For the rate all
    servers share one core."""

    key = "log.forward"
    title = "requests that a node passes on"
    KINDS = {"plain HTTP": False, "TLS": True}
    SLICES = 10

    def run(self, setting, tell):
        self.check()
        for kind, has_tls in self.KINDS.items():
            with tempfile.TemporaryDirectory() as folder:
                line = Line(folder, has_tls)
                for what, measured, core in (("what it adds", self.measure_added, setting.load_core),
                                             ("the rate", self.measure_rate, setting.server_core)):
                    with self.server(setting, Owner, line) as owner, \
                            self.server(setting, Front, owner, line, core=core) as front:
                        for turn in range(setting.turns):
                            tell(f"requests passed on over {kind}, {what}, run {turn + 1} of {setting.turns}")
                            measured(setting, owner, front, kind)

    def measure_added(self, setting, owner, front, kind):
        for _ in range(self.SLICES):
            direct, forwarded = (self.load(setting, node, 1, self.SLICES)["latency_us"]["p50"]
                                 for node in (owner, front))
            self.note(f"p50 {kind} direct", direct)
            self.note(f"added {kind}", forwarded - direct)

    def measure_rate(self, setting, owner, front, kind):
        for way, node in ("direct", owner), ("forwarded", front):
            self.note(f"rate {kind} {way}", self.load(setting, node, setting.connections, 1)["messages_per_s"])

    @staticmethod
    def load(setting, node, connections, slices):
        """Its warm-up also makes the connections to the owner, which are kept."""
        return measure.server_load(setting, node, "http-send", "--connections", connections, "--body", setting.body,
                                   "--seconds", setting.seconds / slices, "--warm-up", setting.warm_up / slices)

    def rows(self, setting):
        found = []
        for kind in self.KINDS:
            found.append(report.row(f"a request passed on over {kind}: what it adds, p50",
                                    self.median_of(f"added {kind}"), "us", "the same request to the owner",
                                    self.median_of(f"p50 {kind} direct"), "us", at_most=FORWARD_ADDS_US,
                                    bar_on_value=True, problem=self.problem))
            found.append(report.row(f"requests passed on over {kind}, {setting.connections} connections",
                                    self.median_of(f"rate {kind} forwarded"), "/s", "the same to the owner",
                                    self.median_of(f"rate {kind} direct"), "/s", at_least=FORWARD_RATE,
                                    problem=self.problem))
        return found


class Resting(LogPart):
    """What a node takes for namespaces that nobody uses, and how long the first request of one takes."""

    key = "log.rest"
    title = "namespaces at rest"
    NAMESPACES = 10_000
    ASKED = 20

    def run(self, setting, tell):
        self.check()
        for turn in range(setting.turns):
            for namespaces in self.NAMESPACES, 1:
                tell(f"{namespaces} namespaces at rest, run {turn + 1} of {setting.turns}")
                with tempfile.TemporaryDirectory() as folder, \
                        self.server(setting, Many, Line(folder, has_tls=False), namespaces) as node:
                    self.measure(node)

    def measure(self, node):
        time.sleep(2)  # until it has read all that there is
        self.note(f"memory of {node.namespaces}", watch.anonymous_of(node.process.pid))
        self.note(f"threads of {node.namespaces}", len(os.listdir(f"/proc/{node.process.pid}/task")))
        step = max(1, node.namespaces // self.ASKED)
        for number in range(step, node.namespaces, step):
            self.note("first", node.first_request_ms(number))

    def rows(self, setting):
        many, one = (f"of {namespaces}" for namespaces in (self.NAMESPACES, 1))
        each = "a node with one namespace"
        return [report.row(f"a node with {self.NAMESPACES:,} namespaces at rest: memory",
                           self.median_of(f"memory {many}"), "bytes", each, self.median_of(f"memory {one}"), "bytes",
                           problem=self.problem),
                report.row(f"a node with {self.NAMESPACES:,} namespaces at rest: threads",
                           self.median_of(f"threads {many}"), "", each, self.median_of(f"threads {one}"), "",
                           problem=self.problem),
                report.row("the first request of a namespace at rest, p50", self.median_of("first"), "ms",
                           at_most=FIRST_REQUEST_MS, bar_on_value=True, problem=self.problem)]


class Spread(LogPart):
    """Sends to namespaces of which two nodes have about half each, beside the same sends where one node has them all.
    Each is sent to where it is. Nodes and PostgreSQL have half of the cores, the loads the others."""

    key = "log.nodes"
    title = "two nodes beside one"
    NAMESPACES = 8
    STEADY_S = 4  # a node that has begun asks for nothing sooner

    def run(self, setting, tell):
        self.check()
        cores, self.load_cores = machine.halves()
        for turn in range(setting.turns):
            for count in 1, 2:
                tell(f"namespaces on {count} of 2 nodes, run {turn + 1} of {setting.turns}")
                with contextlib.ExitStack() as stack:
                    line = Line(stack.enter_context(tempfile.TemporaryDirectory()), has_tls=False)
                    more = line, self.NAMESPACES + 1
                    nodes = [stack.enter_context(self.server(setting, Many, *more, core=cores))]
                    if count == 2:
                        nodes.append(stack.enter_context(self.server(setting, Second, *more, nodes[0], core=cores)))
                        time.sleep(self.STEADY_S)
                    self.measure(setting, nodes)

    def measure(self, setting, nodes):
        for number in range(1, self.NAMESPACES + 1):
            self.open(nodes[0], number)
        owners = dict(line.split("|") for line in
                      nodes[0].postgres.sql("SELECT log, node FROM tally_log.head").splitlines())
        by_name = {node.node: node for node in nodes}
        having = [by_name.get(owners.get(f"{number:012}")) for number in range(1, self.NAMESPACES + 1)]
        if set(having) != set(nodes):
            raise RunFailed(f"the first node has {having.count(nodes[0])} of {len(having)} namespaces")
        with concurrent.futures.ThreadPoolExecutor(self.NAMESPACES) as pool:
            made = list(pool.map(lambda at: self.load(setting, having[at], 1 + at), range(self.NAMESPACES)))
        self.note(f"rate of {len(nodes)}", sum(one["messages_per_s"] for one in made))
        self.note(f"namespaces of the first of {len(nodes)}", having.count(nodes[0]))

    @staticmethod
    def open(node, number):
        """On a busy machine it takes longer than a request waits."""
        deadline = time.monotonic() + 20
        while True:
            try:
                return node.first_request_ms(number)
            except urllib.error.HTTPError as refusal:
                if refusal.code != 503 or time.monotonic() > deadline:
                    raise
            time.sleep(0.2)

    def load(self, setting, node, number):
        command = [setting.load, "http-send", "--port", node.port, "--sign", "--access-key", node.key(number),
                   "--account", f"{number:012}", "--connections", max(1, setting.connections // self.NAMESPACES),
                   "--body", setting.body, *measure.window_options(setting)]
        if self.load_cores is not None:
            command = ["taskset", "-c", self.load_cores, *command]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RunFailed(done.stderr.strip()[:300])
        return json.loads(done.stdout)

    def rows(self, setting):
        cores, two, one = len(machine.ALL_CORES), self.results.get("rate of 2", []), self.results.get("rate of 1", [])
        shape = "shape, not scale" if cores < 8 else "half of them for nodes and PostgreSQL"
        return [report.row(f"sends to {self.NAMESPACES} namespaces on two nodes", self.median_of("rate of 2"), "/s",
                           f"all of them on one node; {cores} cores: {shape}", self.median_of("rate of 1"), "/s",
                           ratios=[more / less for more, less in zip(two, one)], problem=self.problem)]


PARTS = [Bytes, Wal, One, Failover, Behind, Forward, Resting, Spread, Flat, Pinned, Shapes]
