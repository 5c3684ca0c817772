"""A wall clock of a test's own for the programs that it starts.

    clock = Clock()                       # as the machine's, until it is set
    clock.set(-86400)                     # so many seconds from the machine's, at once, in all programs that have it
    clock.spend(5)                        # five seconds are over, by all clocks
    with clock.around(): …start()         # programs that start here have it
    relays(…, **clock.environment)        # or those that are given it
"""

import atexit
import contextlib
import functools
import mmap
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).with_name("jumping_clock.c")


def _folder():
    """Where also a server of another user can read."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tally-clock-"))
    folder.chmod(0o755)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.cache
def _library():
    library = _folder() / "jumping_clock.so"
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O2", "-o", library, SOURCE], check=True)
    return str(library)


class Clock:
    def __init__(self):
        self.seconds = 0
        self.spent = 0
        offset = _folder() / "offset"
        offset.write_bytes(bytes(16))
        with open(offset, "r+b") as file:
            self.mapped = mmap.mmap(file.fileno(), 16)
        # The runtime of a sanitizer wants to come first; this shim only wraps what it wraps.
        sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        self.environment = {"LD_PRELOAD": _library(), "CLOCK_OFFSET": str(offset), "ASAN_OPTIONS": sanitizer}

    def set(self, seconds):
        """So far from the machine's clock."""
        self.seconds = seconds
        self.mapped[:] = struct.pack("=qq", int(self.seconds * 1000), int(self.spent * 1000))

    def spend(self, seconds):
        """So much later, also for those who only measure how long something takes."""
        self.spent += seconds
        self.set(self.seconds + seconds)

    @contextlib.contextmanager
    def around(self):
        assert "LD_PRELOAD" not in os.environ
        before = dict(os.environ)
        os.environ.update(self.environment)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)
