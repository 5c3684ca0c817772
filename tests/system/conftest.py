"""Fixtures of the system tests: the real daemon, started on a free loopback port with a folder of its own.

TALLY_BIN      folder of tallyd and tally (default: build/bin)
TALLY_WRAPPER  what to put before every program, for example "valgrind --quiet --error-exitcode=99"
"""

import contextlib
import functools
import http.client
import itertools
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("TALLY_BIN", ROOT / "build" / "bin")).resolve()
WRAPPER = shlex.split(os.environ.get("TALLY_WRAPPER", ""))

# Whether the programs run by themselves: sanitizers and valgrind are slow, and have memory of their own.
IS_BARE = not WRAPPER and not {"asan", "tsan"} & set(BIN.parts)

# How much longer than on bare metal things may take.
PATIENCE = 10 if WRAPPER else 1
# ThreadSanitizer puts signals off and, one in some hundreds on a busy machine, never hands them on: there they are
# repeated.
SIGNALS_SENT = 6 if "tsan" in BIN.parts else 1


PORTS_EACH = 200


@functools.cache
def own_ports():
    """Ports that no other process of the tests takes, in a circle; a name that the kernel gives to one socket says so.
    A daemon keeps its port while it is down. All are below those that the kernel gives to connections: one of these
    would take it before a daemon does."""
    end = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    firsts = list(range(end // 3, end - PORTS_EACH, PORTS_EACH))
    random.shuffle(firsts)
    for first in firsts:
        claim = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):
            claim.bind(f"\0tally tests, ports from {first}")
            return claim, itertools.cycle(range(first, first + PORTS_EACH))
    raise AssertionError("other tests have all the ports")


def free_port():
    for port in own_ports()[1]:
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


def clean_environment(**more):
    """The environment without what would change how our programs behave, plus `more`."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("TALLY_", "AWS_"))
    }
    environment.update(more)
    return environment


# The smallest segments that bodies of the usual size allow: hundreds of daemons fill one with zeros when they start.
SMALL_SEGMENTS = ("--segment-size", "37MiB")
SIZING = ("--segment-size", "--body-max", "--config")
AUDIT = "tallyd: audit: "
SLOW = "tallyd: slow request: "


class Daemon:
    """A tallyd and its data folder. The port stays the same over restarts."""

    def __init__(self, folder, options=()):
        self.folder = pathlib.Path(folder)
        self.data = self.folder / "data"
        is_sized = any(str(option).startswith(SIZING) for option in options)
        self.options = [*(() if is_sized else SMALL_SEGMENTS), *options]
        self.port = free_port()
        if "--listen" not in options:
            self.options += ["--listen", f"127.0.0.1:{self.port}"]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.tls = None  # where raw connections go instead: (port, ssl.SSLContext)
        self.prefix = []  # what is to start it: ["sh", "-c", 'ulimit -n 100; exec "$@"', "sh"]
        self.process = None
        self.ready_line = None

    def start(self):
        assert self.process is None
        command = [*self.prefix, *WRAPPER, str(BIN / "tallyd"), "--data", str(self.data)]
        self.errors = open(self.folder / "tallyd.err", "ab")
        self.process = subprocess.Popen(
            command + [str(option) for option in self.options],
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=clean_environment(),
        )
        self.ready_line = self._first_line(60 * PATIENCE)
        if not re.match(r"tallyd ready on (https?://|unix:)", self.ready_line):
            self.kill9()
            raise AssertionError(f"no ready line but {self.ready_line!r}; it said: {self.error_text()}")
        return self

    def _first_line(self, seconds):
        lines = []
        reader = threading.Thread(target=lambda: lines.append(self._line_that_counts()), daemon=True)
        reader.start()
        reader.join(seconds)
        return lines[0].decode() if lines else ""

    def _line_that_counts(self):
        """A recovery that takes longer than a second says how far it is: self.progress."""
        self.progress = []
        line = self.process.stdout.readline()
        while line.startswith(b"tallyd recovering "):
            self.progress.append(line.decode())
            line = self.process.stdout.readline()
        return line

    def all_error_text(self):
        return (self.folder / "tallyd.err").read_text(errors="replace")

    def error_text(self):
        """Without the lines about what administrators did, and about slow requests, which any crowded machine has."""
        lines = self.all_error_text().splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith((AUDIT, SLOW)))

    def audit(self):
        lines = self.all_error_text().splitlines()
        return [line.removeprefix(AUDIT) for line in lines if line.startswith(AUDIT)]

    def wait_said(self, text, seconds=10):
        """Until that is on standard error: what answers a request is not what writes there."""
        wait_until(lambda: text in self.error_text(), seconds, f"that it says {text!r}")

    @property
    def pid(self):
        return self.process.pid

    def stop(self, seconds=30):
        """Ends it cleanly; returns its exit status."""
        if self.process is None:
            return None
        for sent in range(SIGNALS_SENT):
            self.process.send_signal(signal.SIGTERM)
            try:
                return self._reap(seconds * PATIENCE / SIGNALS_SENT)
            except subprocess.TimeoutExpired:
                if sent + 1 == SIGNALS_SENT:
                    self.kill9()
                    raise

    def kill9(self):
        if self.process is not None:
            self.process.kill()
            self._reap(60)

    def _reap(self, seconds):
        status = self.process.wait(seconds)
        self.process.stdout.close()
        self.errors.close()
        self.process = None
        return status

    def restart(self):
        """Stops it if it runs, starts it on the same folder and port."""
        self.stop()
        return self.start()

    def request(self, method, path, body=None, headers=None, seconds=60):
        """One HTTP request on a connection of its own: (status, headers, body)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds * PATIENCE)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def call(self, target, body=None):
        """One action in the JSON form: (HTTP status, JSON). An empty answer is {}."""
        headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": target}
        status, _, answer = self.request("POST", "/", json.dumps(body or {}), headers)
        return status, json.loads(answer) if answer else {}


def daemon_is_built():
    return (BIN / "tallyd").exists()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Notes on a test whether it failed."""
    report = (yield).get_result()
    item.has_failed = getattr(item, "has_failed", False) or report.failed


@pytest.fixture
def daemon_factory(tmp_path, request):
    """Makes daemons with options of their own: daemon_factory("--region", "eu-west-1"); not yet started.

    The data of a test that failed stays, that of others goes: together it would be many gigabytes."""
    daemons = []

    def make(*options):
        assert daemon_is_built(), f"{BIN}/tallyd is missing: run make build, or set TALLY_BIN"
        folder = tmp_path / f"daemon{len(daemons)}"
        folder.mkdir()
        daemons.append(Daemon(folder, options))
        return daemons[-1]

    yield make
    for daemon in daemons:
        daemon.kill9()
        if not request.node.has_failed:
            shutil.rmtree(daemon.data, ignore_errors=True)


@pytest.fixture
def daemon(daemon_factory):
    """A running daemon: .endpoint .port .pid .data .call() .request() .stop() .kill9() .restart()

    At the end of the test it must stop cleanly: a crash or a finding of the wrapper fails the test that caused it."""
    running = daemon_factory().start()
    yield running
    if running.process is not None:
        assert running.process.poll() is None, f"tallyd ended by itself: {running.error_text()}"
        assert running.stop() == 0, running.error_text()


def write_credentials(folder, text):
    path = folder / "credentials"
    path.write_text(text)
    path.chmod(0o600)
    return path


@pytest.fixture
def credentials(tmp_path, request):
    """The file of credentials with what the file of the test calls CREDENTIALS."""
    return write_credentials(tmp_path, request.module.CREDENTIALS)


@pytest.fixture
def guarded(daemon_factory, credentials):
    """A running daemon that knows CREDENTIALS."""
    running = daemon_factory("--credentials", str(credentials)).start()
    yield running
    if running.process is not None:
        assert running.stop() == 0, running.error_text()


def status_bytes(process, name):
    """VmRSS, VmHWM, …: what /proc says of a process' memory."""
    with open(f"/proc/{process.pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(f"{name}:"))


def hang_up_until(daemon, claim, what):
    """Sends SIGHUP, and waits until claim() is true."""
    for left in reversed(range(SIGNALS_SENT)):
        os.kill(daemon.pid, signal.SIGHUP)
        try:
            return wait_until(claim, 20 / SIGNALS_SENT, what)
        except AssertionError:
            if left == 0:
                raise


def wait_until(claim, seconds=60, what="it"):
    """Waits until claim() is true, and returns what it returned. A claim that takes long is asked less often: some
    start a program or connect to PostgreSQL, and waiting would be half of a test's work. A claim that looks at files
    may find one gone that was listed: it is asked again."""
    deadline = time.monotonic() + seconds * PATIENCE
    while True:
        asked_at, gone = time.monotonic(), None
        try:
            value = claim()
        except FileNotFoundError as error:
            value, gone = None, error
        if value:
            return value
        answered_at = time.monotonic()
        if answered_at >= deadline:
            raise AssertionError(f"{what} did not happen within {seconds * PATIENCE} s") from gone
        time.sleep(min(max(0.02, 4 * (answered_at - asked_at)), 0.2))


class Tally:
    """The command line tool, pointed at a daemon."""

    def __init__(self, endpoint):
        self.environment = clean_environment(TALLY_ENDPOINT=endpoint)
        self.started = []

    def command(self, *words):
        return [*WRAPPER, str(BIN / "tally"), *(word if isinstance(word, bytes) else str(word) for word in words)]

    def __call__(self, *words, stdin=b"", status=0, seconds=60, **more):
        """Runs it to its end; checks the exit status (None: any). The result has .out and .err as text."""
        done = subprocess.run(
            self.command(*words),
            input=stdin if isinstance(stdin, bytes) else stdin.encode(),
            capture_output=True,
            timeout=seconds * PATIENCE,
            env=self.environment,
            **more,
        )
        done.out = done.stdout.decode(errors="surrogateescape")
        done.err = done.stderr.decode(errors="surrogateescape")
        if status is not None:
            assert done.returncode == status, (
                f"tally {' '.join(map(str, words))}: {done.returncode}\n{done.out}{done.err}")
        return done

    def json(self, *words, **more):
        """The lines of JSON that it prints."""
        return [json.loads(line) for line in self(*words, "--json", **more).out.splitlines()]

    def start(self, *words, stdin=""):
        """Starts it and lets it run. The process's finish() waits for its end like a call."""
        with tempfile.TemporaryFile() as text:
            text.write(stdin.encode())
            text.seek(0)
            process = Running(
                self.command(*words), stdin=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment
            )
        self.started.append(process)
        return process

    def kill_started(self):
        """Leaves nothing running behind a test that failed."""
        for process in self.started:
            if process.poll() is None:
                process.kill9()


class Running(subprocess.Popen):
    """A tool that runs. What it prints must be less than a pipe holds, until finish()."""

    def finish(self, status=0, seconds=60):
        out, err = self.communicate(timeout=seconds * PATIENCE)
        self.out, self.err = out.decode(errors="surrogateescape"), err.decode(errors="surrogateescape")
        assert self.returncode == status, f"{self.args}: {self.returncode}\n{self.out}{self.err}"
        return self

    def stop(self, status=0, seconds=20):
        """Ends it with SIGTERM, once it is there to hear that: a program that has only begun would die of it."""
        deadline = time.monotonic() + 2 * PATIENCE
        while self.poll() is None and not self.hears(signal.SIGTERM) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.send_signal(signal.SIGTERM)
        return self.finish(status, seconds)

    def hears(self, number):
        """Has it a handler for that signal, or does a thread keep it back, for another one to ask for it? (That one
        seems to let it through.)"""
        masks = []
        for status in pathlib.Path(f"/proc/{self.pid}/task").glob("*/status"):
            with contextlib.suppress(OSError):  # the thread has just ended
                lines = status.read_text(encoding="utf-8").splitlines()
                masks += [line.split()[1] for line in lines if line.startswith(("SigCgt:", "SigBlk:"))]
        return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)

    def kill9(self):
        self.kill()
        self.communicate()


@pytest.fixture
def tally(daemon):
    tool = Tally(daemon.endpoint)
    yield tool
    tool.kill_started()


@pytest.fixture
def postgres(tmp_path):
    """A running PostgreSQL of the test's own: see postgres.py."""
    from postgres import Postgres

    server = Postgres(tmp_path / "postgres", is_alike=True).start()
    yield server
    server.stop("immediate")
    shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One PostgreSQL for the tests of a file, each of which makes databases of its own in it."""
    from postgres import Postgres

    running = Postgres(tmp_path_factory.mktemp("server") / "postgres", is_alike=True).start()
    yield running
    running.stop("immediate")
    shutil.rmtree(running.folder, ignore_errors=True)


@pytest.fixture
def outbox(server):
    """In a database of the file's PostgreSQL: see outbox.py."""
    from outbox import Outbox

    return Outbox(server)


@pytest.fixture
def proxy(server):
    """Before the file's PostgreSQL: see proxy.py."""
    from proxy import Proxy

    made = Proxy(server.port)
    yield made
    made.close()


@pytest.fixture
def http_proxy(daemon):
    """Before the daemon: see http_proxy.py."""
    from http_proxy import HttpProxy

    made = HttpProxy(daemon.port)
    yield made
    made.close()


@pytest.fixture
def receiver():
    """Of web hooks: see webhook.py."""
    from webhook import Receiver

    running = Receiver().start()
    yield running
    running.stop()


@pytest.fixture
def fake():
    """An SQS that does as the test wants: see fake_sqs.py."""
    from fake_sqs import FakeSqs

    endpoint = FakeSqs()
    yield endpoint
    endpoint.stop()


@pytest.fixture
def queue(daemon):
    """For rows without a group."""
    from queues import make_queue

    return make_queue(daemon, "orders")


@pytest.fixture
def fifo(daemon):
    """For rows with one: their order is seen."""
    from queues import make_queue

    return make_queue(daemon, "orders.fifo")


@pytest.fixture
def relays(daemon):
    """Starts relays whose queues are the daemon's: relays(source, sink, *options, name=…); see relay.py."""
    from relay import Relay

    started = []

    def start(source, sink, *options, **more):
        started.append(Relay(daemon.endpoint, source, sink, *options, **more).start())
        return started[-1]

    yield start
    for relay in started:
        relay.kill9()
