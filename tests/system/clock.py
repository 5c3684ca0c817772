"""A wall clock of a test's own for the programs that it starts.

    clock = Clock()                       # as the machine's, until it is set
    clock.set(-86400)                     # so many seconds from the machine's, at once, in all programs that have it
    with clock.around(): …start()         # programs that start here have it
    relays(…, **clock.environment)        # or those that are given it
"""

import atexit
import contextlib
import mmap
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).with_name("jumping_clock.c")


class Clock:
    def __init__(self):
        # Where also a server of another user can read it.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tally-clock-"))
        self.folder.chmod(0o755)
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        library = self.folder / "jumping_clock.so"
        subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O2", "-o", library, SOURCE], check=True)
        offset = self.folder / "offset"
        offset.write_bytes(bytes(8))
        with open(offset, "r+b") as file:
            self.mapped = mmap.mmap(file.fileno(), 8)
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(offset)}

    def set(self, seconds):
        """So far from the machine's clock."""
        self.seconds = seconds
        self.mapped[:] = struct.pack("=q", int(seconds * 1000))

    @contextlib.contextmanager
    def around(self):
        assert "LD_PRELOAD" not in os.environ
        os.environ.update(self.environment)
        try:
            yield
        finally:
            for name in self.environment:
                del os.environ[name]
