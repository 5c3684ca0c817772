"""A file system of a few hundred MiB, and somebody who takes all of its room.

    with small_disk(tmp_path / "disk", 384) as folder:      # ext4 in a file, or a tmpfs where that can't be mounted;
    else skipped
        with Hog(folder) as hog:        # from now on every byte that comes free is taken
            hog.wait_until_full()
"""

import contextlib
import errno
import os
import pathlib
import subprocess
import threading
import time

MIB = 1 << 20


class NoMount(Exception):
    """Nothing can be mounted here."""


def _mount(folder, megabytes):
    image = folder.with_suffix(".img")
    with open(image, "wb") as file:
        file.truncate(megabytes * MIB)
    commands = [
        ["mkfs.ext4", "-q", "-F", "-m", "0", str(image)],
        ["mount", "-o", "loop", str(image), str(folder)],
    ]
    if os.environ.get("TALLY_TEST_DISK") != "tmpfs":
        with contextlib.suppress(OSError):
            if all(subprocess.run(command, capture_output=True).returncode == 0 for command in commands):
                return image
    image.unlink()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        raise NoMount("no right to mount a file system")
    return None


@contextlib.contextmanager
def small_disk(folder, megabytes):
    """The folder on which it is mounted. Raises NoMount."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    image = _mount(folder, megabytes)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        if image is not None:
            image.unlink()


def free_bytes(folder):
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


class Hog:
    """Takes all the room there is, and whatever comes free, until it ends: then it gives all of it back."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.path = self.folder / "hog"
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self.size = 0
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()
        os.close(self.file)
        self.path.unlink()

    def _take(self, size):
        try:
            os.posix_fallocate(self.file, self.size, size)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return False
        self.size += size
        return True

    def _run(self):
        while not self.is_over.is_set():
            size = 64 * MIB
            while size >= 4096:
                if not self._take(size):
                    size //= 2
            time.sleep(0.01)

    def wait_until_full(self, seconds=30):
        deadline = time.monotonic() + seconds
        while free_bytes(self.folder) >= 64 * 1024:
            assert time.monotonic() < deadline, f"{free_bytes(self.folder)} bytes are still free"
            time.sleep(0.01)
