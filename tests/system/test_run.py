"""./run, the first command of everybody: as it ends by itself, and as Ctrl-C ends it at any time."""

import os
import pty
import re
import select
import signal
import time
import urllib.request

import pytest

from conftest import BIN, ROOT, clean_environment

pytestmark = pytest.mark.skipif(BIN != ROOT / "build" / "bin", reason="./run starts what is in build/bin")


class Terminal:
    """./run on a terminal of its own."""

    def __init__(self, **environment):
        self.said = ""
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            for number in [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE]:
                signal.signal(number, signal.SIG_DFL)  # the lanes of ./test ignore some, and hand that on
            os.execve(ROOT / "run", ["run"], clean_environment(**environment))

    def read_until(self, pattern, seconds=120):
        deadline = time.monotonic() + seconds
        while (found := re.search(pattern, self.said)) is None:
            if not select.select([self.descriptor], [], [], max(0, deadline - time.monotonic()))[0]:
                os.kill(self.pid, signal.SIGTERM)
                raise AssertionError(f"no {pattern!r} in {self.said!r}")
            try:
                text = os.read(self.descriptor, 65536).decode(errors="replace")
            except OSError:  # nobody has the terminal open any more
                text = ""
            if not text:
                return None
            self.said += text
        return found

    def press_ctrl_c(self):
        os.write(self.descriptor, b"\x03")

    def end(self):
        """Its exit status; after it nobody is there who would hold the terminal."""
        self.read_until(r"(?!)")
        os.close(self.descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def endpoint_of(terminal):
    return terminal.read_until(r"tallyd ready on (http://127\.0\.0\.1:\d+)")[1]


def is_served(endpoint):
    try:
        with urllib.request.urlopen(f"{endpoint}/health", timeout=5):
            return True
    except OSError:
        return False


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    for n in range(1500):
        (folder / f"{n:04}").write_text(str(n))
    return folder


def test_ctrl_c_ends_the_job_and_then_its_daemon_and_the_next_run_goes_on(folder, tmp_path):
    environment = {"FOLDER": str(folder), "TALLY_DATA": str(tmp_path / "data")}
    first = Terminal(**environment)
    endpoint = endpoint_of(first)
    first.read_until(r"1500 units, 4 workers\r\n")
    time.sleep(0.3)  # in the middle of the job
    before = len(first.said)
    first.press_ctrl_c()
    assert first.end() == 130
    assert not is_served(endpoint)
    said = re.sub(r"\x1b\[\S*|\^C", "", first.said[before:])
    lines = [line for line in re.split(r"[\r\n]+", said) if line.strip()]
    assert re.search(r"stopped with \d+ of 1500 units ended; the same command goes on from here$", lines[-1]), lines
    assert not re.search(r"refused|unreachable|trying|error|no answer|can't", said, re.IGNORECASE), lines

    again = Terminal(**environment)
    endpoint = endpoint_of(again)
    again.read_until("going on where an earlier run stopped")
    again.read_until(r"Ctrl-C ends it\.\S*\r\n")
    assert '"total":1500,"succeeded":1500' in again.said.replace(" ", ""), again.said
    assert is_served(endpoint)
    before = len(again.said)
    again.press_ctrl_c()
    assert again.end() == 0
    assert again.said[before:].replace("^C", "").strip() == ""
    assert not is_served(endpoint)


def test_what_it_says_about_sdks_is_true():
    names, page = re.search(r"^ +(.*): (docs/\S*\.md)\.", (ROOT / "run").read_text(), re.MULTILINE).groups()
    headings = re.findall(r"^## (.*)$", (ROOT / page).read_text(), re.MULTILINE)
    headings = {name for heading in headings for name in heading.split(", ")}
    assert set(names.split(", ")) <= headings
