"""Nodes of a cluster: daemons whose log is in PostgreSQL, each with a data folder of its own.

    cluster = Cluster(server, tmp_path)       # a database in a Postgres, with the tables of a log
    node = cluster.node("one", "--lease", "1s").start()
    node.wait_ready(), node.wait_standing_by()
    cluster.line()                            # a client of all its nodes, which goes where one answers
    cluster.head(), cluster.sql(…)            # what PostgreSQL has
    cluster.wait_level()                      # until those that stand by have read all that the owner has written
    cluster.stop()

On a machine of its own (netns.py) a node has no port that the tests can reach. They speak to its Unix socket:

    cluster = Cluster(patroni, tmp_path, host=network.host())      # tallyd --init runs there
    node = cluster.node("one", host=network.host()).start()
"""

import contextlib
import http.client
import itertools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from conftest import BIN, PATIENCE, WRAPPER, Daemon, clean_environment, wait_until
from wire import Connection, Lost, connect_to

READY = "tallyd ready on "
STANDING_BY = "tallyd standing by on "


class Node(Daemon):
    """It says of itself when it stands by and when it serves; which of the two was said last is its state."""

    def __init__(self, folder, name, uri, options, host=None):
        super().__init__(folder, options)
        self.name, self.host = name, host
        self.options += ["--log", uri, "--node", name]
        if host is not None:
            self.prefix = host.prefix
            self.port = str(pathlib.Path(tempfile.mkdtemp(prefix="tally-node-")) / "socket")  # its path must be short
            self.options += ["--socket", self.port]
        self.lines = []
        self.environment = {"TALLY_REST_AFTER": "0s"}  # each namespace has an owner, unless a test says --rest-after

    def start(self):
        assert self.process is None
        command = [*self.prefix, *WRAPPER, str(BIN / "tallyd"), "--data", str(self.data), *map(str, self.options)]
        self.lines = []
        self.errors = open(self.folder / "tallyd.err", "ab")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors,
                                        env=clean_environment(**self.environment))
        self.reader = threading.Thread(target=self._read, args=(self.process.stdout, self.lines), daemon=True)
        self.reader.start()
        return self

    @staticmethod
    def _read(stream, lines):
        for line in stream:
            lines.append(line.decode(errors="replace").rstrip("\n"))

    def _reap(self, seconds):
        status = self.process.wait(seconds)
        self.reader.join(5)
        self.process.stdout.close()
        self.errors.close()
        self.process = None
        return status

    @property
    def states(self):
        """Without the lines of a recovery that takes longer than a second."""
        return [line for line in self.lines if line.startswith((READY, STANDING_BY))]

    @property
    def state(self):
        return self.states[-1] if self.states else ""

    def is_ready(self):
        return self.state.startswith(READY)

    def _wait_for(self, beginning, seconds):
        def has_said():
            assert self.process.poll() is None, f"node {self.name} has ended: {self.error_text()}"
            return self.state.startswith(beginning)
        what = f"{beginning!r} of node {self.name}; {self.lines[-3:]} {self.error_text()[-800:]}"
        wait_until(has_said, seconds, what)
        return self

    def wait_ready(self, seconds=20):
        return self._wait_for(READY, seconds)

    def wait_standing_by(self, seconds=20):
        """It serves nothing, and goes on doing so for long enough to have found out that nobody else does."""
        wait_until(lambda: self.process.poll() is None and self.health() == "standby", seconds,
                   f"that node {self.name} stands by; {self.lines[-3:]} {self.error_text()[-800:]}")
        return self

    def request(self, method, path, body=None, headers=None, seconds=60):
        connection = http.client.HTTPConnection("127.0.0.1")
        connection.sock = connect_to(self.port, seconds * PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    def health(self):
        """ok, standby, or nothing."""
        try:
            body = self.request("GET", "/health", seconds=2)[2]
        except OSError:
            return ""
        found = re.search(rb'"status":"(\w+)"', body)
        return found.group(1).decode() if found else ""

    def metric(self, name):
        body = self.request("GET", "/metrics", seconds=5)[2].decode()
        return float(re.search(rf"^{name} (\S+)$", body, re.MULTILINE).group(1))

    def position(self):
        """How far it has the log; None: it does not say."""
        with contextlib.suppress(OSError):
            return self.metric("tally_log_position_bytes")
        return None

    def run_to_end(self, seconds=30):
        """For one that refuses to start: its exit status and what it said."""
        return self.start().wait_ended(seconds)

    def wait_ended(self, seconds=30):
        """For one that ends by itself: the same."""
        status = self._reap(seconds * PATIENCE)
        return status, self.error_text()

    def pause(self):
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self):
        os.kill(self.pid, signal.SIGCONT)


class AnyNode:
    """As a wire.Connection, to whichever node serves. Where one does not answer, or says that it does not serve, the
    caller gets Lost, and the next request goes to the next node."""

    def __init__(self, nodes, seconds=10, credential=None, at=0):
        self.connections = [Connection(node.port, seconds, credential) for node in nodes]
        self.at = at

    def call(self, target, body):
        connection = self.connections[self.at % len(self.connections)]
        try:
            answer = connection.call(target, body)
        except Lost:
            self._go_on()
            raise
        if answer.status == 503:
            self._go_on()
            raise Lost
        return answer

    def _go_on(self):
        self.at += 1
        if self.at % len(self.connections) == 0:
            time.sleep(0.01)

    def ok(self, target, body):
        answer = self.call(target, body)
        assert answer.status == 200, f"{target}: {answer.status} {answer.body!r}"
        return answer.json()

    def ok_at_last(self, target, body, seconds=60):
        """For requests that may be repeated."""
        deadline = time.monotonic() + seconds * PATIENCE
        while True:
            try:
                return self.ok(target, body)
            except Lost:
                assert time.monotonic() < deadline, f"{target}: no node answers"

    def close(self):
        for connection in self.connections:
            connection.close()


class PatientLine(AnyNode):
    """For those who may repeat everything."""

    def ok(self, target, body):
        while True:
            with contextlib.suppress(Lost):
                return super().ok(target, body)

    ok_at_last = ok


class Doors:
    """A cluster as those clients see it that know these nodes, or fronts before them, and have this credential. Each of
    its lines begins at another one of these, in turn."""

    def __init__(self, nodes, credential=None):
        self.nodes, self.credential = nodes, credential
        self.turn = itertools.count()

    def line(self, seconds=10, kind=AnyNode):
        return kind(self.nodes, seconds, self.credential, next(self.turn))


class Cluster:
    number = 0

    def __init__(self, server, folder, uri=None, host=None):
        Cluster.number += 1
        self.server, self.folder, self.host = server, folder, host
        self.database = f"log{Cluster.number}"
        server.create_database(self.database)
        self.uri = (uri or server.uri).rsplit("/", 1)[0] + "/" + self.database
        self.nodes = []
        self.init()

    def init(self):
        prefix = self.host.prefix if self.host else []
        done = subprocess.run([*prefix, *WRAPPER, str(BIN / "tallyd"), "--log", self.uri, "--init"],
                              capture_output=True, env=clean_environment(), timeout=60 * PATIENCE, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def node(self, name, *options, uri=None, data=None, host=None):
        folder = self.folder / f"{self.database}-{name}-{len(self.nodes)}"
        folder.mkdir(parents=True)
        made = Node(folder, name, uri or self.uri, options, host)
        made.data = data or made.data
        self.nodes.append(made)
        return made

    def pair(self, *options):
        """One that serves and one that stands by."""
        first = self.node("one", *options).start().wait_ready()
        second = self.node("two", *options).start().wait_standing_by()
        return first, second

    def line(self, seconds=10, kind=AnyNode):
        return kind(self.nodes, seconds)

    def sql(self, statement, *values):
        connection = self.server.connect(dbname=self.database)
        with contextlib.closing(connection), connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else None

    def head(self):
        """(epoch, node) of the log."""
        return self.sql("SELECT epoch, node FROM tally_log.head")[0]

    def wait_followed(self, seconds=20):
        """Until a node that stands by has applied what there is: only then does it wait for the lock."""
        count = ("SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE d.datname = "
                 "current_database() AND l.locktype = 'advisory' AND NOT l.granted")
        wait_until(lambda: self.sql(count)[0][0] > 0, seconds, "a stand-by that has applied what there is")

    def wait_level(self, nodes=None, seconds=20):
        """Until all of these nodes, or of all nodes, have the log to the same place."""
        def are_level():
            positions = {node.position() for node in nodes or self.nodes}
            return len(positions) == 1 and None not in positions
        wait_until(are_level, seconds, "that those that stand by have read what there is")

    def stop(self):
        for node in self.nodes:
            if node.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    node.resume()
            node.kill9()
            shutil.rmtree(node.data, ignore_errors=True)
            if node.host is not None:
                shutil.rmtree(pathlib.Path(node.port).parent, ignore_errors=True)
