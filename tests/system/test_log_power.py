"""The power goes on all machines at once (F08): both servers of PostgreSQL and both nodes, on a disk that loses what
was not synced."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest

from conftest import wait_until
from logs import SMALL, Traffic
from nodes import Cluster
from power import PowerDisk
from small_disk import NoMount
from test_relay_failover import Cluster as Replicated


@pytest.fixture
def disk(monkeypatch):
    """On which the servers are made. Their user has to get there."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tally-power-"))
    folder.chmod(0o711)
    try:
        with PowerDisk(folder / "disk", 768) as made:
            monkeypatch.setattr(tempfile, "tempdir", str(made.folder))
            yield made
    except NoMount as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def replicated(disk):
    made = Replicated(disk.folder / "servers", fsync="on")
    made.add_replica()
    made.primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
    made.primary.sql("SELECT pg_reload_conf()")
    yield made
    made.stop()


def processes_of(server):
    children = subprocess.run(["pgrep", "-P", str(server.pid)], capture_output=True, text=True).stdout.split()
    return [server.pid, *map(int, children)]


def has_ended(pid):
    """Whoever should wait for it may not have done so yet."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return not file.read()
    return True


def test_F08_K26_nothing_acknowledged_is_lost_when_the_power_goes_on_all_machines_at_once(disk, replicated):
    cluster = Cluster(replicated.primary, disk.folder / "nodes")
    (disk.folder / "synced").write_text("kept")
    os.sync()
    try:
        nodes = cluster.pair(*SMALL, "--log-replicas", "1")
        traffic = Traffic(cluster)
        wait_until(lambda: traffic.fifo.acknowledged > 50 and len(traffic.load.record.batches) > 5, 30, "some load")
        (disk.folder / "unsynced").write_text("lost")
        pids = [pid for server in replicated.started for pid in processes_of(server)]
        disk.power_off()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for node in nodes:
            node.kill9()
        wait_until(lambda: all(map(has_ended, pids)), what="the end of PostgreSQL")
        disk.power_on()
        assert (disk.folder / "synced").read_text() == "kept"
        assert not (disk.folder / "unsynced").exists(), "this disk loses nothing"
        for server in replicated.started:
            (server.data / "postmaster.pid").unlink(missing_ok=True)
            server.start()
        for node in nodes:
            node.start()
        traffic.finish()
    finally:
        cluster.stop()
