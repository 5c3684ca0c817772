"""A disk that fails under a daemon: failing_disk.c, compiled once.

    start_failing(daemon, FAIL_CALL="pwrite", FAIL_SUFFIX=".segment", FAIL_AFTER=5)   # its first line
    broken = BrokenDisk(daemon, "pwrite")       # a daemon that runs; until breaks() all is well
    broken.breaks()                             # from now on each such call fails, and with it the daemon ends
    hanging = BrokenDisk(daemon, "pwrite", FAIL_HANGS=1)    # breaks() and mends(): meanwhile each such call waits
"""

import atexit
import functools
import os
import pathlib
import shutil
import subprocess
import tempfile

from conftest import BIN, WRAPPER, clean_environment, wait_until

SOURCE = pathlib.Path(__file__).with_name("failing_disk.c")


@functools.cache
def library():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tally-disk-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", folder / "failing_disk.so", SOURCE, "-ldl"], check=True)
    return folder / "failing_disk.so"


def start_failing(daemon, **variables):
    """Starts the daemon with the shim under it; its first line that counts."""
    command = [*WRAPPER, str(BIN / "tallyd"), "--data", str(daemon.data), *map(str, daemon.options)]
    daemon.errors = open(daemon.folder / "tallyd.err", "ab")
    variables = {name: str(value) for name, value in variables.items()}
    # The runtime of a sanitizer wants to come first; this shim only wraps what it wraps.
    variables["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    daemon.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=daemon.errors,
                                      env=clean_environment(LD_PRELOAD=str(library()), **variables))
    return daemon._line_that_counts().decode()


class BrokenDisk:
    def __init__(self, daemon, call, **variables):
        self.daemon = daemon
        self.switch = daemon.folder / "broken"
        self.switch.unlink(missing_ok=True)
        ready = start_failing(daemon, FAIL_CALL=call, FAIL_SUFFIX=".segment", FAIL_WHILE=self.switch, **variables)
        assert ready.startswith("tallyd ready"), daemon.error_text()

    def breaks(self):
        self.switch.touch()

    def lets_one_through(self, seconds=30):
        """One call that hangs goes on, with FAIL_HANGS."""
        one = self.switch.with_name(self.switch.name + ".one")
        one.touch()
        wait_until(lambda: not one.exists(), seconds, "a call that goes on")

    def mends(self):
        self.switch.unlink()

    def wait_for_end(self):
        """Until the daemon has ended, because of it: its exit status."""
        status = self.daemon.process.wait(60)
        self.daemon.process.stdout.close()
        self.daemon.errors.close()
        self.daemon.process = None
        return status
