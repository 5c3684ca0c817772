"""A server that lasts as long as whoever started it: temporary-data and exit-with-stdin."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest
from conftest import BIN, PATIENCE, WRAPPER, clean_environment, wait_until

OLD = time.time() - 3600


def ready_line(process):
    """A start that takes longer than a second says how far it is."""
    return next((line for line in process.stdout if not line.startswith("tallyd recovering ")), "")


class Place:
    """A folder for temporary ones, and servers that have theirs in it."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = []

    def start(self, *options):
        flags = ["--segment-size", "37MiB", "--listen", "127.0.0.1:0", "--temporary-data", "on", "--exit-with-stdin",
                 "on", *options]
        process = subprocess.Popen([*WRAPPER, BIN / "tallyd", *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=clean_environment(TMPDIR=str(self.folder)))
        self.processes.append(process)
        return process

    def serve(self, *options):
        process = self.start(*options)
        ready = re.match(r"tallyd ready on http://127.0.0.1:(\d+) data=(.*) queues=0 messages=0\n", ready_line(process))
        return process, int(ready[1]), pathlib.Path(ready[2])

    def folders(self):
        """Valgrind has its own files there."""
        return sorted(path.name for path in self.folder.iterdir() if not path.name.startswith("vgdb-"))


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "a place"
    folder.mkdir()
    made = Place(folder)
    yield made
    for process in made.processes:
        process.kill()
        process.wait()


def test_the_folder_goes_away_with_the_server(place):
    process, _, folder = place.serve()
    assert folder.parent == place.folder and re.fullmatch(r"tally-data-\w{6}", folder.name)
    assert folder.stat().st_mode & 0o777 == 0o700
    process.send_signal(signal.SIGTERM)
    assert process.wait(30 * PATIENCE) == 0 and place.folders() == []


def test_the_server_ends_when_its_input_does(place):
    process, port, _ = place.serve()
    process.stdin.write("nothing reads this\n")
    process.stdin.flush()
    socket.create_connection(("127.0.0.1", port)).close()
    assert process.poll() is None
    said, _ = process.communicate(timeout=30 * PATIENCE)
    assert process.returncode == 0 and place.folders() == []
    assert said.startswith("tallyd stopping: standard input has ended")


PARENT = """import subprocess, sys, time
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(process.pid, flush=True)
for line in process.stdout:
    print(line.decode(), end="", flush=True)"""


def test_a_killed_parent_takes_the_server_along(place):
    flags = ["--listen", "127.0.0.1:0", "--temporary-data", "on", "--exit-with-stdin", "on"]
    parent = subprocess.Popen([sys.executable, "-c", PARENT, *WRAPPER, BIN / "tallyd", *flags], stdout=subprocess.PIPE,
                              text=True, env=clean_environment(TMPDIR=str(place.folder)))
    pid = int(next(line for line in parent.stdout if line.strip().isdigit()))
    assert ready_line(parent).startswith("tallyd ready ")
    parent.kill()
    parent.wait()
    wait_until(lambda: not pathlib.Path(f"/proc/{pid}/exe").exists(), 30, "that the server has ended")
    assert place.folders() == []


def test_a_server_that_does_not_start_leaves_nothing(place):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = place.start("--listen", f"127.0.0.1:{taken.getsockname()[1]}")
        assert process.wait(30 * PATIENCE) == 1
    assert place.folders() == [] and "address already in use" in process.stderr.read()


def test_what_killed_servers_left_is_removed_and_nothing_else(place):
    first, _, left = place.serve()
    first.kill()
    first.wait()
    _, _, in_use = place.serve()
    young = place.folder / "tally-data-yyyyyy"
    young.mkdir()
    target = place.folder / "somebody's"
    target.mkdir()
    (target / "file").write_text("kept")
    (place.folder / "tally-data-link00").symlink_to(target)
    (place.folder / "tally-data-file00").write_text("kept")
    copy = place.folder / "tally-data-copy00"
    shutil.copytree(left, copy)
    kept = place.folder / "tally-data-orders"  # of a server that keeps it
    server = subprocess.Popen([*WRAPPER, BIN / "tallyd", "--data", kept, "--listen", "127.0.0.1:0", "--segment-size",
                               "37MiB"], stdout=subprocess.PIPE, text=True, env=clean_environment())
    place.processes.append(server)
    assert ready_line(server).startswith("tallyd ready ")
    for path in [left, in_use, target, copy, kept, place.folder / "tally-data-file00"]:
        os.utime(path, (OLD, OLD))
    _, _, newest = place.serve()
    expected = {in_use.name, newest.name, young.name, target.name, copy.name, kept.name, "tally-data-link00",
                "tally-data-file00"}
    assert set(place.folders()) == expected and (target / "file").read_text() == "kept"


@pytest.mark.parametrize("flags, text", [
    (["--temporary-data", "on", "--data", "x"], "temporary-data is on, and data (from --data) names a folder to keep"),
    (["--exit-with-stdin", "on"], "exit-with-stdin is on, and standard input is neither a pipe nor a socket"),
    (["--temporary-data", "maybe"], "temporary-data (from --temporary-data) is \"maybe\""),
])
def test_what_does_not_fit_is_refused(tmp_path, flags, text):
    done = subprocess.run([*WRAPPER, BIN / "tallyd", *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          cwd=tmp_path, env=clean_environment())
    assert (done.returncode, text in done.stderr) == (2, True), done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(WRAPPER != [], reason="valgrind wants the same place")
def test_a_place_that_is_not_there_is_named(tmp_path):
    environment = clean_environment(TMPDIR=str(tmp_path / "none"))
    done = subprocess.run([*WRAPPER, BIN / "tallyd", "--listen", "127.0.0.1:0", "--temporary-data", "on"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)
    assert done.returncode == 1
    assert f"can't make a folder for temporary-data in {tmp_path}/none: No such file or directory." in done.stderr
