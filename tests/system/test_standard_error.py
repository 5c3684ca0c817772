"""Standard error and standard output that nobody reads, or that nobody has any more: the daemon serves and ends as
ever."""

import contextlib
import fcntl
import os
import re
import select
import signal
import subprocess
import time

import pytest

from conftest import BIN, PATIENCE, WRAPPER, Daemon, clean_environment, wait_until

LONG = "x" * 4000
PIPE = 4096  # bytes: little, because each relay that fills it has threads of its own


class Unread(Daemon):
    """A daemon whose standard error, and standard output if `is_mute`, is a pipe that nobody reads."""

    def __init__(self, folder, options=(), is_mute=False):
        super().__init__(folder, options)
        self.is_mute = is_mute

    def start(self):
        self.reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE)
        self.process = subprocess.Popen(
            [*WRAPPER, str(BIN / "tallyd"), "--data", str(self.data), *map(str, self.options)],
            stdout=writing if self.is_mute else subprocess.DEVNULL, stderr=writing, env=clean_environment(),
        )
        os.close(writing)

        def is_up():
            with contextlib.suppress(OSError):
                return self.request("GET", "/health", seconds=5)[0] == 200

        wait_until(is_up, what="the daemon")
        return self

    def _reap(self, seconds):
        status = self.process.wait(seconds)
        self.process = None
        return status

    def say_much(self, count=200):
        """Has it say so many lines of half a kilobyte."""
        for number in range(count):
            source = {"Type": "sqlite", "Connection": f"/nonexistent/{LONG}"}
            status, answer = self.call("Tally.CreateRelay",
                                       {"RelayName": f"r{number}", "Source": source, "Sink": {"Type": "queue"}})
            assert status == 200, answer

    def read_until(self, words, seconds=20):
        text, deadline = b"", time.monotonic() + seconds * PATIENCE
        while not re.search(words, text):
            assert time.monotonic() < deadline, text[-2000:]
            if select.select([self.reading], [], [], 0.1)[0]:
                text += os.read(self.reading, 65536)
        return text

    def dropped(self, stream="stderr"):
        text = self.request("GET", "/metrics")[2].decode()
        return int(re.search(rf'^tally_lines_dropped_total{{stream="{stream}"}} (\d+)$', text, re.M)[1])


@pytest.fixture
def unread(tmp_path):
    daemon = Unread(tmp_path).start()
    yield daemon
    daemon.kill9()
    os.close(daemon.reading)


def fill(descriptor):
    """Fills a pipe to the brim."""
    os.set_blocking(descriptor, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(descriptor, b"x")
    os.set_blocking(descriptor, True)


def test_standard_error_that_nobody_reads_stops_nothing_and_what_it_missed_is_said_later(unread):
    unread.say_much()
    assert unread.call("AmazonSQS.CreateQueue", {"QueueName": "q"})[0] == 200
    for _ in range(100):
        assert unread.call("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": "a"})[0] == 200
    assert unread.request("GET", "/health")[0] == 200
    wait_until(lambda: unread.dropped() > 0, what="a line that finds no room")
    text = unread.read_until(rb"tallyd: \d+ lines are missing here: standard error was not read").decode()
    assert text.count("relay r0 (namespace 000000000000): failed") == 1


def test_a_clean_stop_does_not_wait_for_who_does_not_read(unread):
    unread.say_much()
    begun = time.monotonic()
    assert unread.stop() == 0
    assert time.monotonic() - begun < 8 * PATIENCE


def test_standard_error_that_was_closed_ends_nobody(unread):
    os.close(unread.reading)
    unread.say_much(20)
    wait_until(lambda: unread.dropped() >= 20, what="lines that nobody takes")
    unread.reading = os.open("/dev/null", os.O_RDONLY)
    assert unread.stop() == 0


def test_standard_output_that_nobody_reads_keeps_no_daemon_from_serving(tmp_path):
    reading, writing = os.pipe()
    fill(writing)
    daemon = Unread(tmp_path)
    daemon.process = subprocess.Popen(
        [*WRAPPER, str(BIN / "tallyd"), "--data", str(daemon.data), *map(str, daemon.options)],
        stdout=writing, stderr=subprocess.DEVNULL, env=clean_environment(),
    )
    os.close(writing)
    try:
        with contextlib.suppress(OSError):
            wait_until(lambda: daemon.process.poll() is None and daemon.data.exists(), what="the folder")

        def is_up():
            with contextlib.suppress(OSError):
                return daemon.request("GET", "/health", seconds=5)[0] == 200

        wait_until(is_up, what="the daemon")
        assert daemon.stop() == 0
    finally:
        daemon.kill9()
        os.close(reading)


def test_a_refusal_to_start_ends_though_nobody_reads_why(tmp_path):
    reading, writing = os.pipe()
    fill(writing)
    begun = time.monotonic()
    ended = subprocess.run([*WRAPPER, str(BIN / "tallyd"), "--data", str(tmp_path / "data"), "--connections-max",
                            "none"],
                           stdout=subprocess.DEVNULL, stderr=writing, env=clean_environment(), timeout=20 * PATIENCE)
    os.close(reading)
    os.close(writing)
    assert ended.returncode == 2
    assert time.monotonic() - begun < 5 * PATIENCE


def test_a_signal_that_has_credentials_read_again_is_heard_though_nobody_reads(tmp_path):
    credentials = tmp_path / "credentials"
    credentials.write_text("KEY secret 000000000000 read,write\n")
    credentials.chmod(0o600)
    daemon = Unread(tmp_path, ("--credentials", credentials)).start()
    try:
        fill_by = 3000  # lines of 30 bytes: more than pipe and queue hold
        for _ in range(fill_by):
            daemon.process.send_signal(signal.SIGHUP)
            time.sleep(0.0005)
        assert daemon.request("GET", "/health")[0] == 200
        assert daemon.stop() == 0
    finally:
        daemon.kill9()
        os.close(daemon.reading)
