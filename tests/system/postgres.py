"""A PostgreSQL server of the tests' own: in a temporary folder, on a free loopback port, with its own processes.

    postgres = Postgres(folder).start()
    with postgres.connect() as connection: ...     # psycopg2, in autocommit
    postgres.uri                                   # for libpq
    postgres.kill9(), .stop(), .restart(), .sql("SELECT 1")
    postgres.copy().start()                        # what a copy of its folder is: a second server with the same data
"""

import atexit
import contextlib
import functools
import glob
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import psycopg2

from conftest import PATIENCE, free_port, wait_until


def _programs():
    found = shutil.which("initdb")
    if found:
        return pathlib.Path(found).resolve().parent  # a link may lead there, and the other programs stand beside it
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda name: int(name.split("/")[-2]))
    assert folders, "PostgreSQL is missing: ./setup test brings it"
    return pathlib.Path(folders[-1])


def quick_folder():
    """In memory where there is room: only processes are killed here, and what one has written outlives it. On a disk,
    the start after a crash flushes each file of each database, which takes a minute while others write."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage("/dev/shm").free > 4 << 30 and os.access("/dev/shm", os.W_OK):
            return "/dev/shm"
    return None


@functools.cache
def empty_data():
    """A data folder that initdb has made: it takes ten times as long as to copy one."""
    folder = tempfile.mkdtemp(prefix="tally-postgres-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    first = Postgres(folder)
    first.make_data()
    return first.data


def hand_over(path):
    """To the user whom PostgreSQL runs as, where that is another one."""
    if os.geteuid() == 0:
        shutil.chown(path, "postgres", "postgres")


class Postgres:
    wal = None  # the folder of its write-ahead log, where it is not inside the data's

    def __init__(self, folder, is_quick=True, is_alike=False, **settings):
        """`is_alike`: its system identifier may be that of others that are. Where a log may be in it, it must not."""
        self.folder = pathlib.Path(folder)
        self.is_alike = is_alike
        if os.geteuid() == 0:
            # Another user has to get there, and every pytest that starts shuts that one out of the folder that all
            # share.
            place = quick_folder() if is_quick else None
            self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tally-postgres-", dir=place))
            self.folder.chmod(0o711)
            atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.data = self.folder / "data"
        self.port = free_port()
        self.programs = _programs()
        # Small, quick to start, and gone with its folder; what a test is about it sets itself. Only processes are
        # killed and the machine stays, so what one of them has written outlives it without a flush.
        self.settings = {"shared_buffers": "32MB", "max_connections": "200", "max_prepared_transactions": "10",
                         "dynamic_shared_memory_type": "mmap", "fsync": "off", **settings}
        self.uri = f"postgresql://tally@127.0.0.1:{self.port}/postgres"

    def _as_owner(self):
        """PostgreSQL refuses to run as root; there is a user for it then."""
        return ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []

    def _run(self, program, *arguments):
        done = subprocess.run([*self._as_owner(), str(self.programs / program), *arguments], cwd="/",
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0, f"{program}: {done.stdout}\n{self.log_text()}"

    def log_text(self):
        log = self.folder / "log"
        return log.read_text(errors="replace") if log.exists() else ""

    def make_data(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        hand_over(self.folder)
        if self.is_alike:
            subprocess.run(["cp", "-a", str(empty_data()), str(self.data)], check=True)
        else:
            elsewhere = [] if self.wal is None else ["-X", str(self.wal)]
            self._run("initdb", "-D", str(self.data), "-U", "tally", "--auth=trust", "-E", "UTF8", "--locale=C", "-N",
                      *elsewhere)

    def start(self):
        if not self.data.exists():
            self.make_data()
        options = " ".join(f"-c {name}={value}" for name, value in self.settings.items())
        self._run("pg_ctl", "-D", str(self.data), "-l", str(self.folder / "log"), "-w", "-t", str(60 * PATIENCE), "-o",
                  f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories='' {options}", "start")
        return self

    @property
    def pid(self):
        return int((self.data / "postmaster.pid").read_text().splitlines()[0])

    def stop(self, mode="fast"):
        if (self.data / "postmaster.pid").exists():
            self._run("pg_ctl", "-D", str(self.data), "-m", mode, "-w", "stop")

    def kill9(self):
        """As a crash of the machine's PostgreSQL: every process of it at once."""
        pid = self.pid
        children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
        for process in [pid, *map(int, children)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"), what="the end of PostgreSQL")
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def restart(self):
        self.stop()
        return self.start()

    def stand_by(self, host, port):
        """Starts as a replica of the server that is there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        hand_over(self.folder)
        self._run("pg_basebackup", "-D", str(self.data), "-R", "-N", "-c", "fast", "-h", host, "-p", str(port), "-U",
                  "tally")
        return self.start()

    def copy(self):
        """A server with what this one has, down to the system identifier; not started yet. One that runs is copied by
        pg_basebackup, one that does not, as files."""
        twin = Postgres(self.folder.with_name(f"{self.folder.name}-copy"), **self.settings)
        twin.folder.mkdir(parents=True, exist_ok=True)
        hand_over(twin.folder)
        if (self.data / "postmaster.pid").exists():
            self._run("pg_basebackup", "-d", self.uri, "-D", str(twin.data), "-X", "stream", "-c", "fast")
        else:
            subprocess.run(["cp", "-a", str(self.data), str(twin.data)], check=True)
        return twin

    def connect(self, **options):
        connection = psycopg2.connect(self.uri, **options)
        connection.autocommit = True
        return connection

    def is_up(self):
        with contextlib.suppress(psycopg2.Error):
            return self.sql("SELECT 1") == [(1,)]
        return False

    def create_database(self, name):
        self.sql(f"CREATE DATABASE {name}")

    def sql(self, statement, *values):
        """Runs a statement on a connection of its own; the rows, if it has any."""
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else None


class DistantPostgres(Postgres):
    """On a machine of its own (netns.py)."""

    def __init__(self, folder, host):
        super().__init__(folder, fsync="on", listen_addresses=f"127.0.0.1,{host.address}")
        self.host = host
        self.uri = f"postgresql://tally@{host.address}:{self.port}/postgres"

    def _as_owner(self):
        return [*self.host.prefix, *super()._as_owner()]

    def start(self):
        super().start()
        with open(self.data / "pg_hba.conf", "a", encoding="ascii") as rules:
            rules.write("host all all 0.0.0.0/0 trust\nhost replication all 0.0.0.0/0 trust\n")
        self._run("pg_ctl", "-D", str(self.data), "reload")
        return self

    def connect(self, **options):
        with self.host.inside():
            return super().connect(**options)
