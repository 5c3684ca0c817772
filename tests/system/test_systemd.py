"""What tallyd tells systemd, which a socket of the test plays; and what docs/how-to/systemd.md writes for systemd."""

import os
import re
import shutil
import signal
import socket
import subprocess

import pytest

from conftest import BIN, PATIENCE, ROOT, clean_environment, wait_until
from pages import blocks_of

WATCHDOG_S = 0.4


class Systemd:
    """The socket of NOTIFY_SOCKET: each message is a dictionary."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("")  # a name that the kernel chooses, in no folder
        self.socket.settimeout(20 * PATIENCE)
        self.name = "@" + self.socket.getsockname()[1:].decode()

    def hear(self):
        return dict(line.split("=", 1) for line in self.socket.recv(65536).decode().splitlines())

    def hear_until(self, key):
        """The message that has the key, and the keys of those before it."""
        before = []
        while key not in (message := self.hear()):
            before += message
        return message, before

    def is_silent_for(self, seconds):
        self.socket.settimeout(seconds)
        try:
            self.socket.recv(65536)
            return False
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(20 * PATIENCE)

    def drain(self):
        while not self.is_silent_for(0.001):
            pass


@pytest.fixture
def systemd():
    heard = Systemd()
    yield heard
    heard.socket.close()


@pytest.fixture
def watched(daemon_factory, systemd):
    daemon = daemon_factory()
    daemon.prefix = ["env", f"NOTIFY_SOCKET={systemd.name}", f"WATCHDOG_USEC={int(WATCHDOG_S * 1e6)}"]
    daemon.start()
    yield daemon
    assert daemon.stop() == 0, daemon.error_text()


def test_it_is_ready_when_it_answers_and_says_when_it_ends(watched, systemd):
    ready, before = systemd.hear_until("READY")
    assert watched.request("GET", "/ready")[0] == 200
    assert set(before) == {"STATUS"}
    assert re.fullmatch(r"serving 0 queues, 0 messages, \d connections", ready["STATUS"])
    watched.call("AmazonSQS.CreateQueue", {"QueueName": "orders"})
    wait_until(lambda: systemd.hear().get("STATUS", "").startswith("serving 1 queues"), what="a new status")
    os.kill(watched.pid, signal.SIGTERM)
    assert systemd.hear_until("STOPPING")[0]["STATUS"] == "stopping"


def test_the_watchdog_hears_of_a_loop_that_turns_and_of_no_other(watched, systemd):
    systemd.hear_until("READY")
    for _ in range(3):
        systemd.hear_until("WATCHDOG")
    os.kill(watched.pid, signal.SIGSTOP)
    systemd.drain()
    assert systemd.is_silent_for(2 * WATCHDOG_S)
    os.kill(watched.pid, signal.SIGCONT)
    systemd.hear_until("WATCHDOG")


def test_a_socket_that_nobody_has_is_told_of_and_it_serves(daemon_factory):
    daemon = daemon_factory()
    daemon.prefix = ["env", "NOTIFY_SOCKET=/nowhere/notify"]
    daemon.start()
    daemon.wait_said("tallyd: systemd could not be told that tallyd is ready: No such file or directory.")
    assert daemon.request("GET", "/ready")[0] == 200
    assert daemon.stop() == 0


def test_a_name_that_cannot_be_one_is_told_of_and_it_serves(daemon_factory):
    daemon = daemon_factory()
    daemon.prefix = ["env", "NOTIFY_SOCKET=vsock:2:1234"]
    daemon.start()
    daemon.wait_said('tallyd: NOTIFY_SOCKET is "vsock:2:1234": it must be the path of a socket, or a name')
    assert daemon.request("GET", "/ready")[0] == 200
    assert daemon.stop() == 0


# --- docs/how-to/systemd.md -------------------------------------------------------------------------------------------

FILES = {kind.removeprefix("ini "): text for kind, text in blocks_of((ROOT / "docs/how-to/systemd.md").read_text())
         if kind.startswith("ini ")}


def test_the_unit_of_the_page_says_nothing_that_the_packaged_one_does_not_say():
    unit = (ROOT / "packaging/debian/tallyd.service").read_text()
    ours = set(FILES["tallyd.service"].replace("/usr/local/bin/", "/usr/bin/").splitlines())
    assert not ours - set(unit.splitlines())
    for key in "Type", "ExecStart", "ExecReload", "User", "StateDirectory", "TimeoutStartSec", "WatchdogSec":
        assert re.search(f"^{key}=", FILES["tallyd.service"], re.MULTILINE), key


def test_systemd_understands_the_unit_and_the_drop_ins_of_the_page(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("this machine has no systemd-analyze; make deb-check asks that of a machine with systemd")
    unit = tmp_path / "tallyd.service"
    unit.write_text(FILES["tallyd.service"].replace("/usr/local/bin", str(BIN.resolve())))
    drop_ins = tmp_path / "tallyd.service.d"
    drop_ins.mkdir()
    for name in FILES.keys() - {"tallyd.service"}:
        assert name.endswith(".conf")
        (drop_ins / name).write_text(FILES[name])

    def verify():
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True,
                              check=False, timeout=60 * PATIENCE, env=clean_environment())
        return "\n".join(line for line in (done.stdout + done.stderr).splitlines() if str(tmp_path) in line)

    assert verify() == ""
    (drop_ins / "wrong.conf").write_text("[Service]\nMemoryMaxi=4G\n")
    assert "MemoryMaxi" in verify()
