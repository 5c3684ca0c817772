"""A MariaDB server of the tests' own: in a temporary folder, on a free loopback port, with its own process.

    server = MysqlServer(folder).start()
    server.sql("SELECT 1"), server.sql("…", database="shop")
    with contextlib.closing(server.connect("shop")) as db: ...     # pymysql, in autocommit
    server.url("shop"), server.port, server.socket
    server.client("shop", text)                                    # what the program mariadb makes of a text
    server.environment()                                           # with which mariadb needs no options
    server.kill9(), .stop(), .restart(), .is_up()
"""

import atexit
import contextlib
import functools
import os
import pathlib
import shutil
import subprocess
import tempfile

import pymysql

from conftest import PATIENCE, free_port, wait_until
from postgres import quick_folder

USER = "tally"
PASSWORD = "p@ss:/w%rd"
PASSWORD_IN_URL = "p%40ss%3A%2Fw%25rd"


def _program(name):
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin")
    assert found, f"{name} is missing: ./setup test brings it"
    return found


def _as_owner():
    """MariaDB refuses to run as root; there is a user for it then."""
    return {"user": "mysql", "group": "mysql", "extra_groups": []} if os.geteuid() == 0 else {}


def _hand_over(path):
    path.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        shutil.chown(path, "mysql", "mysql")


@functools.cache
def empty_data():
    """A data folder that mariadb-install-db has made: it takes ten times as long as to copy one."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tally-mysql-", dir=quick_folder()))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o711)
    data = folder / "data"
    _hand_over(data)
    done = subprocess.run([_program("mariadb-install-db"), "--no-defaults", f"--datadir={data}", "--skip-test-db",
                           "--auth-root-authentication-method=normal", "--innodb-log-file-size=16M"],
                          cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, **_as_owner())
    assert done.returncode == 0, done.stdout + done.stderr
    return data


class MysqlServer:
    def __init__(self, folder=None, **settings):
        # Short, because a socket's path must be; and another user has to get there.
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="tally-mysql-", dir=quick_folder()))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(0o711)
        self.own = self.folder / "server"
        _hand_over(self.own)
        self.data = self.own / "data"
        self.socket = self.own / "socket"
        self.log = self.own / "log"
        self.port = free_port()
        self.process = None
        # Only processes are killed and the machine stays, so what one of them has written outlives it without a flush.
        self.settings = {"innodb-flush-log-at-trx-commit": 2, "innodb-log-file-size": "16M", "max-connections": 300,
                         "innodb-buffer-pool-size": "64M", **settings}

    def start(self):
        if not self.data.exists():
            subprocess.run(["cp", "-a", str(empty_data()), str(self.data)], check=True)
        first = self.own / "first.sql"
        first.write_text(f"CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';\n"
                         f"GRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION;\n", encoding="ascii")
        first.chmod(0o644)
        options = [f"--{name}={value}" for name, value in self.settings.items()]
        self.process = subprocess.Popen(
            [_program("mariadbd"), "--no-defaults", f"--datadir={self.data}", f"--socket={self.socket}",
             f"--port={self.port}", "--bind-address=127.0.0.1", f"--log-error={self.log}",
             f"--pid-file={self.own / 'pid'}", "--skip-name-resolve", f"--init-file={first}", *options],
            cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **_as_owner())
        wait_until(self._has_started, what="MariaDB")
        return self

    def _has_started(self):
        assert self.process.poll() is None, self.log.read_text(errors="replace")
        return self.is_up()

    def is_up(self):
        with contextlib.suppress(pymysql.Error):
            return self.sql("SELECT 1") == [(1,)]
        return False

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            self._reap()

    def kill9(self):
        if self.process is not None:
            self.process.kill()
            self._reap()

    def _reap(self):
        self.process.wait(60 * PATIENCE)
        self.process = None

    def restart(self):
        self.stop()
        return self.start()

    def url(self, database="", user=USER, password=PASSWORD_IN_URL, port=None, words=""):
        return f"mysql://{user}:{password}@127.0.0.1:{port or self.port}/{database}{words}"

    def connect(self, database=None, user=USER, password=PASSWORD, **options):
        options = {"autocommit": True, "charset": "utf8mb4", "connect_timeout": 10, **options}
        return pymysql.connect(host="127.0.0.1", port=self.port, user=user, password=password, database=database,
                               **options)

    def sql(self, statement, *values, database=None, **options):
        """Runs a statement on a connection of its own; its rows."""
        with contextlib.closing(self.connect(database, **options)) as db, db.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

    def environment(self):
        """For mariadb, which is its administrator, and for the library of the relay."""
        options = self.folder / "my.cnf"
        options.write_text(f"[client]\nsocket={self.socket}\nuser=root\n", encoding="ascii")
        return {"MYSQL_HOME": str(self.folder), "MYSQL_UNIX_PORT": str(self.socket)}

    def client(self, database, text):
        """(exit status, standard output, standard error) of the program that people use."""
        done = subprocess.run([_program("mariadb"), "--no-defaults", f"--socket={self.socket}", "--user=root",
                               "--batch", "--skip-column-names", database], input=text, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr
