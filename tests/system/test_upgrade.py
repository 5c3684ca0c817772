"""Folders of earlier releases: this tallyd reads them, keeps what they were, and says what it does not know.

docs/how-to/upgrading.md; tests/releases/folder.py makes the folders."""

import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import time

import pytest
from clock import Clock
from conftest import BIN, PATIENCE, clean_environment, wait_until
from test_backup import NAMESPACE, tallyd

RELEASES = pathlib.Path(__file__).resolve().parents[1] / "releases"
sys.path.insert(0, str(RELEASES))
import folder  # noqa: E402

DAY = 86400
OPTIONS = ("--segment-size", "6MiB", "--body-max", "256KiB")


def releases():
    return sorted(path.name.removesuffix(".tar.xz") for path in RELEASES.glob("*.tar.xz"))


@pytest.fixture
def unpacked(daemon_factory):
    """A daemon, not started, on the folder of a release, and what that release said of it."""

    def unpack(release, *options):
        daemon = daemon_factory(*OPTIONS, *options)
        with tarfile.open(RELEASES / f"{release}.tar.xz") as tar:
            tar.extractall(daemon.folder)
        return daemon, json.loads((RELEASES / f"{release}.json").read_text(encoding="utf-8"))

    return unpack


def files_of(data):
    """What a tallyd would read: names and contents of segments and snapshots."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (data / NAMESPACE).iterdir()
            if path.suffix in (".segment", ".snapshot")}


@pytest.mark.parametrize("release", releases())
def test_what_a_release_wrote_is_there_as_it_was(unpacked, release):
    daemon, told = unpacked(release)
    clock = Clock()
    clock.set(told["made_at"] - time.time())
    with clock.around():
        daemon.start()
    for target, members, of_old in told["answers"]:
        status, answer = daemon.call(target, members)
        assert status == 200, (target, members, answer)
        assert folder.has_all(folder.steady(answer), of_old), (target, members, of_old, answer)
    assert daemon.stop() == 0


def test_the_first_start_keeps_a_way_back_and_signs_the_folder(unpacked):
    daemon, _ = unpacked("0.1.0")
    before = files_of(daemon.data)
    daemon.start()
    assert "kept in" in daemon.error_text() and "before-0.1.0 for 7 days" in daemon.error_text()
    for number in range(3):
        assert daemon.call("AmazonSQS.SendMessage", {
            "QueueUrl": folder.url("filler"), "MessageBody": str(number) * 200_000})[0] == 200
    assert daemon.stop() == 0
    kept = daemon.data / "before-0.1.0"
    assert files_of(kept) == before
    ended = sorted(name for name in before if name.endswith(".segment"))[:-2]
    assert ended and all((kept / NAMESPACE / name).stat().st_nlink == 2 for name in ended)
    assert (kept / "version").read_text() == "tallyd 0.1.0\nformat 1\n"
    version = (daemon.data / "version").read_text().split()
    assert version[0] == "tallyd" and version[2] == "format" and int(version[3]) > 1
    daemon.start()
    assert daemon.error_text().count("kept in") == 1  # of the first start
    assert daemon.stop() == 0
    # What is kept is a data folder of its own.
    tallyd("--verify", kept)
    assert files_of(kept) == before


def test_what_is_kept_goes_after_a_week_and_nothing_of_others(unpacked):
    daemon, _ = unpacked("0.1.0")
    daemon.start()
    assert daemon.stop() == 0
    kept, older, others = (daemon.data / name for name in ("before-0.1.0", "before-0.0.9", "before-cleaning"))
    shutil.copytree(kept, older)
    (older / "version").write_text("tallyd 0.0.9\nformat 1\n")
    shutil.copytree(kept, others)  # somebody's own copy
    os.utime(kept, (time.time() - 6 * DAY,) * 2)
    for folder in (older, others):
        os.utime(folder, (time.time() - 8 * DAY,) * 2)
    daemon.start()
    wait_until(lambda: not older.exists(), 60, "that an old one is forgotten")
    assert daemon.stop() == 0  # it waits for the thread that removes
    assert kept.exists() and (others / NAMESPACE).exists()
    os.utime(kept, (time.time() - 8 * DAY,) * 2)
    daemon.start()
    begun = daemon.call("Tally.StartBackup")[1]["BackupId"]  # what was removed meanwhile is not all that ever is
    wait_until(lambda: daemon.call("Tally.DescribeBackup")[1]["State"] == "finished")
    assert daemon.call("Tally.DeleteBackup", {"BackupId": begun})[0] == 200
    wait_until(lambda: not kept.exists(), 60, "that the old format is forgotten")
    assert daemon.stop() == 0 and (others / NAMESPACE).exists()


def test_a_start_that_was_killed_keeps_it_anew(unpacked):
    daemon, _ = unpacked("0.1.0")
    before = files_of(daemon.data)
    half = daemon.data / "before-0.1.0.unfinished" / NAMESPACE
    half.mkdir(parents=True)
    (half / "0000000000000000.segment").write_bytes(b"half of it")
    daemon.start()
    assert daemon.stop() == 0
    assert files_of(daemon.data / "before-0.1.0") == before
    assert not half.parent.exists()


def test_without_room_for_a_way_back_it_says_so_and_starts(unpacked):
    daemon, _ = unpacked("0.1.0")
    (daemon.data / "before-0.1.0.unfinished").write_text("a file is in the way")
    daemon.start()
    assert "There is no way back" in daemon.error_text()
    assert daemon.stop() == 0


def test_a_way_back_takes_no_room_that_must_stay_free(unpacked):
    daemon, _ = unpacked("0.1.0")
    status = os.statvfs(daemon.data)
    enough = status.f_bavail * status.f_frsize + (1 << 30)
    daemon.options += ["--disk-min-free", str(enough)]
    daemon.start()
    assert "There is no way back" in daemon.error_text() and f"disk-min-free is {enough}." in daemon.error_text()
    assert daemon.stop() == 0
    assert not list(daemon.data.glob("before-*"))


def test_while_the_older_one_serves_nothing_is_kept_or_signed(unpacked):
    daemon, _ = unpacked("0.1.0")
    before = files_of(daemon.data)
    with open(daemon.data / NAMESPACE / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(AssertionError):
            daemon.start()
    assert "belongs to another process" in daemon.all_error_text()
    assert not list(daemon.data.glob("before-*")) and not (daemon.data / "version").exists()
    daemon.start()
    assert daemon.stop() == 0
    assert files_of(daemon.data / "before-0.1.0") == before


def test_of_two_that_upgrade_at_once_one_ends(unpacked):
    daemon, _ = unpacked("0.1.0")
    before = files_of(daemon.data)
    folder_of_data = os.open(daemon.data, os.O_RDONLY)
    fcntl.flock(folder_of_data, fcntl.LOCK_EX)
    with pytest.raises(AssertionError):
        daemon.start()
    os.close(folder_of_data)
    assert "Another tallyd begins on" in daemon.all_error_text()
    assert not list(daemon.data.glob("before-*")) and not (daemon.data / "version").exists()
    daemon.start()
    assert daemon.stop() == 0
    assert files_of(daemon.data / "before-0.1.0") == before


def test_a_disk_too_full_for_a_signature_keeps_nobody_from_starting(unpacked):
    daemon, _ = unpacked("0.1.0")
    (daemon.data / "version.unfinished").mkdir()  # no file can be made there, as on a full disk
    daemon.start()
    assert "version.unfinished" in daemon.error_text()
    assert daemon.stop() == 0
    assert not (daemon.data / "version").exists()
    # The next start takes the folder for the old one, which it is no more: what was kept stays.
    kept = files_of(daemon.data / "before-0.1.0")
    (daemon.data / "version.unfinished").rmdir()
    daemon.start()
    assert "is there already, and stays the way back to tallyd 0.1.0" in daemon.error_text()
    assert daemon.stop() == 0
    assert files_of(daemon.data / "before-0.1.0") == kept and (daemon.data / "version").exists()


def test_a_later_format_is_refused_by_its_name_and_nothing_is_changed(daemon_factory):
    daemon = daemon_factory().start()
    assert daemon.stop() == 0
    (daemon.data / "version").write_text("tallyd 7.1.0\nformat 99\n")
    before = files_of(daemon.data)
    with pytest.raises(AssertionError):
        daemon.start()
    assert "tallyd 7.1.0, in format 99" in daemon.all_error_text()
    assert files_of(daemon.data) == before
    assert "which does not read it" in tallyd("--verify", daemon.data, status=2)
    assert "tallyd 7.1.0" in tallyd("--salvage", daemon.data, "--to", daemon.folder / "new", status=2)


@pytest.mark.parametrize("text", ["", "tallyd", "tallyd 0.1.0", "tallyd 0.1.0\nformat x\n", "tallyd a/b\nformat 1\n",
                                  "tallyd \x1b[31m\nformat 9\n", "tallyd 0.1.0\nformat 0\n",
                                  "tallyd " + "9" * 500 + "\nformat 1\n"])
def test_a_version_that_says_nothing_is_refused(daemon_factory, text):
    daemon = daemon_factory().start()
    assert daemon.stop() == 0
    (daemon.data / "version").write_text(text)
    with pytest.raises(AssertionError):
        daemon.start()
    assert "does not say which tallyd wrote the folder" in daemon.all_error_text()


@pytest.mark.parametrize("put", [os.mkfifo, os.mkdir])
@pytest.mark.parametrize("name", ["version", "000000000000/lock"])
def test_what_is_no_file_is_not_waited_for(daemon_factory, name, put):
    daemon = daemon_factory().start()
    assert daemon.stop() == 0
    place = daemon.data / name
    place.unlink()
    put(place)
    if name == "version":
        assert "version failed: it is no ordinary file." in tallyd("--verify", daemon.data, status=2)
        assert "version failed: it is no ordinary file." in tallyd(
            "--data", daemon.data, "--listen", "127.0.0.1:0", status=1)
    else:
        assert "clean. queues 0" in tallyd("--verify", daemon.data)  # it only asks who has the folder


def test_what_the_page_says_can_be_typed(unpacked):
    """docs/how-to/upgrading.md, but for what systemd and apt do: `make deb-check` types that."""
    page = (RELEASES.parents[1] / "docs" / "how-to" / "upgrading.md").read_text(encoding="utf-8")
    typed = [line.split("  #")[0].strip() for line in page.splitlines() if line.startswith("    ")]
    typed += re.findall(r"`(tallyd --config [^`]+|tallyd --version)`", page)
    daemon, _ = unpacked("0.1.0")
    daemon.start()
    paths = {"/var/lib/tally-old": daemon.folder / "old", "/var/lib/tally": daemon.data,
             "/etc/tally/tallyd.conf": daemon.folder / "tallyd.conf"}
    (daemon.folder / "tallyd.conf").write_text("purge-interval = off\n")
    environment = clean_environment(TALLY_ENDPOINT=daemon.endpoint, PATH=f"{BIN}:/usr/bin:/bin")
    done = []
    for line in typed:
        for path, ours in paths.items():
            line = re.sub(rf"{path}(?![-\w])", str(ours), line)
        if line.startswith(("systemctl ", "apt ")):
            continue
        if line.startswith("tallyd --data "):
            daemon.stop()
            daemon.data = pathlib.Path(line.split()[2])
            daemon.start()
        else:
            ended = subprocess.run(["sh", "-ec", line], env=environment, cwd=daemon.folder, check=False,
                                   timeout=60 * PATIENCE)
            # `tally status` has something to say of this folder, and says so with 1.
            assert ended.returncode == (1 if line == "tally status" else 0), line
        done.append(" ".join(line.split()[:2]))
    assert {"tally health", "tally status", "cp -a", "tallyd --data", "tallyd --config"} <= set(done), done
    assert daemon.call("AmazonSQS.ListQueues")[1]["QueueUrls"]
    assert daemon.stop() == 0


def test_a_new_folder_is_signed_and_says_so(daemon_factory):
    daemon = daemon_factory().start()
    assert daemon.stop() == 0
    assert not list(daemon.data.glob("before-*"))
    assert "and newer read it." in tallyd("--verify", daemon.data)
