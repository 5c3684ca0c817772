"""A disk whose power can go: ext4 in a file, which is told to go down.

    with PowerDisk(tmp_path / "disk", 512) as disk:   # raises small_disk.NoMount
        disk.folder                                   # what is mounted
        disk.power_off()                              # nothing more is written, and every sync fails
        disk.power_on()                               # once whoever had files open has ended

What the kernel had not yet given to the disk is gone: contents of files, their names, and the journal's end. So this is
a machine that goes off, with a disk that keeps what it was told to sync. A disk that lies about that is not
simulated."""

import fcntl
import os
import pathlib
import struct
import subprocess

from conftest import wait_until
from small_disk import MIB, NoMount

EXT4_IOC_SHUTDOWN = 0x8004587D  # _IOR('X', 125, u32), linux/ext4.h
WITHOUT_FLUSH = 2  # EXT4_GOING_FLAGS_NOLOGFLUSH


class PowerDisk:
    def __init__(self, folder, megabytes):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.image = self.folder.with_suffix(".img")
        with open(self.image, "wb") as file:
            file.truncate(megabytes * MIB)

    def __enter__(self):
        try:
            subprocess.run(["mkfs.ext4", "-q", "-F", str(self.image)], check=True, capture_output=True)
            self.power_on()
        except (OSError, subprocess.CalledProcessError) as error:
            self.image.unlink()
            raise NoMount(f"no right to mount a file system: {getattr(error, 'stderr', error)}") from error
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "--lazy", str(self.folder)], check=False)
        self.image.unlink()

    def power_off(self):
        descriptor = os.open(self.folder, os.O_RDONLY)
        fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, struct.pack("I", WITHOUT_FLUSH))
        os.close(descriptor)

    def power_on(self):
        if os.path.ismount(self.folder):
            wait_until(lambda: subprocess.run(["umount", str(self.folder)], capture_output=True).returncode == 0,
                       what="that nobody has files open on the disk")
        subprocess.run(["mount", "-o", "loop", str(self.image), str(self.folder)], check=True, capture_output=True)
