"""PostgreSQL kept by Patroni, with its configuration in etcd: each on a machine of its own (netns.py).

    patroni = Patroni(network).start()            # etcd and three members, db1 to db3, synchronous and strict
    patroni.configure(synchronous_mode=False)     # as the members then learn
    patroni.wait_healthy()                        # one leads, all others stream from it
    leader = patroni.leader()                     # a Member
    patroni.switch_over(leader), patroni.wait_leader(), patroni.wait_commits()
    leader.kill9(), leader.kill_postgres(), leader.kill_patroni(), leader.stop(), leader.start()
    leader.sql("SELECT 1"), patroni.sql("SELECT 1")
    patroni.uri, patroni.uri_from(leader)         # for libpq, from any machine of the network: all members
    patroni.stop()

The tests ask a member over its Unix socket, and Patroni on its own machine: both also while its link is cut."""

import contextlib
import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request

import psycopg2

from conftest import PATIENCE, wait_until
from postgres import _programs, quick_folder

# The shortest that Patroni's rule allows (loop_wait + 2 retry_timeout <= ttl). Its newer versions raise ttl to 20 by
# themselves. A PostgreSQL that ends is not started again where another one can lead.
QUICK = {"ttl": 8, "loop_wait": 1, "retry_timeout": 3, "primary_start_timeout": 0, "maximum_lag_on_failover": 100 << 20}
STRICT = {"synchronous_mode": True, "synchronous_mode_strict": True, "failsafe_mode": False}
PORT, REST_PORT, ETCD_PORT = 5432, 8008, 2379
PARAMETERS = {"shared_buffers": "32MB", "max_connections": 100, "autovacuum": "off", "wal_log_hints": "on",
              "dynamic_shared_memory_type": "mmap",
              "wal_keep_size": "64MB", "max_wal_size": "128MB", "wal_retrieve_retry_interval": "100ms",
              "wal_sender_timeout": "3s", "wal_receiver_timeout": "3s"}


def _as_postgres():
    """PostgreSQL refuses to run as root."""
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--"]


class Program:
    """A program on a machine, as PostgreSQL's user, which writes to a file of its own."""

    def __init__(self, host, folder, name):
        self.host, self.folder, self.name = host, folder, name
        self.process = None

    def run(self, *command):
        assert self.process is None
        with open(self.folder / f"{self.name}.log", "ab") as log:
            self.process = subprocess.Popen([*self.host.prefix, *_as_postgres(), *map(str, command)], cwd="/",
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"})

    def end(self, how):
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60 * PATIENCE)
            self.process = None

    def log_text(self):
        path = self.folder / f"{self.name}.log"
        return path.read_text(errors="replace") if path.exists() else ""


class Member(Program):
    """A PostgreSQL with the Patroni that keeps it."""

    def __init__(self, patroni, name):
        super().__init__(patroni.network.host(), patroni.folder, name)
        self.data = self.folder / name
        self.socket_folder = self.folder / f"{name}.run"
        self.socket_folder.mkdir()
        os.chown(self.socket_folder, patroni.user.pw_uid, patroni.user.pw_gid)
        self.configuration = self.folder / f"{name}.json"
        self.configuration.write_text(json.dumps(self._configuration(patroni)))

    def _configuration(self, patroni):
        """YAML is a superset of JSON."""
        address = self.host.address
        return {
            "scope": "tally", "name": self.name,
            "restapi": {"listen": f"0.0.0.0:{REST_PORT}", "connect_address": f"{address}:{REST_PORT}"},
            "etcd3": {"host": f"{patroni.etcd.host.address}:{ETCD_PORT}"},
            "bootstrap": {
                "dcs": {**QUICK, **STRICT, "postgresql": {"use_pg_rewind": True, "parameters": PARAMETERS}},
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, {"auth": "trust"}, {"wal-segsize": "4"}, "no-sync"],
            },
            "postgresql": {
                "listen": f"0.0.0.0:{PORT}", "connect_address": f"{address}:{PORT}", "data_dir": str(self.data),
                "bin_dir": str(_programs()), "pgpass": str(self.socket_folder / "pgpass"),
                "basebackup": [{"checkpoint": "fast"}],
                "parameters": {"unix_socket_directories": str(self.socket_folder)},
                "pg_hba": ["local all all trust", "host all all 0.0.0.0/0 trust",
                           "host replication all 0.0.0.0/0 trust"],
                "authentication": {"superuser": {"username": "tally"}, "replication": {"username": "copier"},
                                   "rewind": {"username": "tally"}},
            },
            "watchdog": {"mode": "off"},
        }

    def start(self):
        self.host.join()
        self.run("patroni", self.configuration)
        return self

    def stop(self):
        """For maintenance: PostgreSQL stops with it."""
        self.end(signal.SIGTERM)

    def begin_to_stop(self):
        self.process.send_signal(signal.SIGTERM)

    def kill_patroni(self):
        """PostgreSQL goes on, and nobody watches over it."""
        self.end(signal.SIGKILL)

    def kill_postgres(self):
        pid = self._postmaster()
        if pid is None:
            return
        children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
        for process in [pid, *map(int, children)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        wait_until(lambda: self._postmaster() is None, what=f"the end of {self.name}")

    def kill9(self):
        """As a machine that goes off: cut from all others, or the kernel would still send what its processes wrote."""
        self.host.cut()
        self.kill_patroni()
        self.kill_postgres()

    def _postmaster(self):
        """Its id; None where it has ended."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int((self.data / "postmaster.pid").read_text().splitlines()[0])
            if str(self.data) in pathlib.Path(f"/proc/{pid}/cmdline").read_text():
                return pid
        return None

    def connect(self, **options):
        connection = psycopg2.connect(**{"host": str(self.socket_folder), "port": PORT, "user": "tally",
                                         "dbname": "postgres", **options})
        connection.autocommit = True
        return connection

    def sql(self, statement, *values):
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else None

    def is_primary(self):
        with contextlib.suppress(psycopg2.Error):
            return not self.sql("SELECT pg_is_in_recovery()")[0][0]
        return False

    def is_sync(self):
        """Does Patroni say that it has everything which was acknowledged?"""
        return self.rest("/sync")[0] == 200

    def rest(self, path, body=None, method=None, seconds=5):
        """Status and text; 0 where there is no answer."""
        request = urllib.request.Request(f"http://{self.host.address}:{REST_PORT}{path}", method=method,
                                         data=None if body is None else json.dumps(body).encode())
        with self.host.inside(), contextlib.suppress(OSError):
            try:
                with urllib.request.urlopen(request, timeout=seconds * PATIENCE) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()
        return 0, ""


class Patroni:
    def __init__(self, network):
        self.network = network
        self.is_synchronous = True
        self.user = pwd.getpwnam("postgres")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tally-patroni-", dir=quick_folder()))  # short, for sockets
        os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        self.folder.chmod(0o755)
        self.etcd = Program(network.host(), self.folder, "etcd")
        self.members = [Member(self, name) for name in ("db1", "db2", "db3")]
        self.uri = self.uri_from(self.members[0])

    def uri_from(self, first, database="postgres"):
        """That one stands before the others."""
        members = sorted(self.members, key=lambda member: member is not first)
        return f"postgresql://tally@{','.join(f'{member.host.address}:{PORT}' for member in members)}/{database}"

    def start(self):
        mine = f"http://{self.etcd.host.address}:{ETCD_PORT}"
        self.etcd.run("etcd", "--name", "one", "--data-dir", self.folder / "etcd", "--listen-client-urls",
                      f"http://0.0.0.0:{ETCD_PORT}", "--advertise-client-urls", mine, "--log-level", "warn")
        for member in self.members:
            member.start()
        self.wait_healthy(90).sql("CREATE TABLE probe (n int)")
        return self

    def leaders(self):
        return [member for member in self.members if member.is_primary()]

    def leader(self):
        """The one that leads by Patroni's word, and takes writes."""
        found = [member for member in self.leaders() if member.rest("/leader")[0] == 200]
        return found[0] if len(found) == 1 else None

    def wait_leader(self, seconds=60, other_than=None):
        def find():
            leader = self.leader()
            return leader if leader is not other_than else None
        return self._wait(find, seconds, "a leader")

    def wait_commits(self, other_than=None, seconds=60):
        """Until a leader is there and a commit of a plain client comes back, from as many standbys as Patroni wants."""
        def commits():
            leader = self.leader()
            if leader is None or leader is other_than:
                return None
            with contextlib.suppress(psycopg2.Error):
                leader.sql("INSERT INTO probe VALUES (1)")
                return leader
            return None
        return self._wait(commits, seconds, "a leader that takes writes")

    def others(self, leader):
        return [member for member in self.members if member is not leader]

    def others_sync_last(self, leader):
        """In the order in which they must leave. Where the synchronous one goes first, Patroni 3.0 may choose the other
        one after it has gone as well, and its name stays in synchronous_standby_names."""
        return sorted(self.others(leader), key=Member.is_sync)

    def wait_gone(self, leader, member):
        """Until nothing is sent to it any more."""
        asked = "SELECT count(*) FROM pg_stat_replication WHERE application_name = %s"
        wait_until(lambda: leader.sql(asked, member.name) == [(0,)], what=f"that nothing is sent to {member.name}")

    def is_healthy(self):
        leader = self.leader()
        status, text = leader.rest("/cluster") if leader else (0, "")
        roles = [member["role"] for member in json.loads(text)["members"]] if status == 200 else []
        if len(roles) < len(self.members) or ("sync_standby" in roles) != self.is_synchronous:
            return False
        with contextlib.suppress(psycopg2.Error):
            names = [member.name for member in self.others(leader)]
            streaming = leader.sql("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' "
                                   "AND application_name = ANY(%s)", names)
            return streaming == [(len(names),)]
        return False

    def wait_healthy(self, seconds=60):
        return self._wait(lambda: self.is_healthy() and self.leader(), seconds, "a leader that all others follow")

    def configure(self, **changes):
        """As patronictl edit-config does."""
        status, text = self.wait_leader().rest("/config", changes, "PATCH")
        assert status == 200, text
        self.is_synchronous = changes.get("synchronous_mode", self.is_synchronous)
        return self

    def switch_over(self, leader):
        status, text = leader.rest("/switchover", {"leader": leader.name}, seconds=60)
        assert status == 200 or "status unknown" in text, text  # on a busy machine Patroni does not wait for its end

    def sql(self, statement, *values):
        return self.wait_leader().sql(statement, *values)

    def connect(self, **options):
        return self.wait_leader().connect(**options)

    def wait_level(self):
        """Until all others have what the leader has."""
        leader = self.wait_leader()
        position = leader.sql("SELECT pg_current_wal_flush_lsn()")[0][0]
        for member in self.others(leader):
            wait_until(lambda: member.sql("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", position)[0][0],
                       what=f"{member.name} at {position}")

    def create_database(self, name):
        """On all members: libpq goes no further where one says that there is no such database."""
        self.sql(f"CREATE DATABASE {name}")
        self.wait_level()

    def _wait(self, claim, seconds, what):
        try:
            return wait_until(claim, seconds, what)
        except AssertionError as error:
            said = [f"{program.name}: {program.log_text()[-1500:]}" for program in [*self.members, self.etcd]]
            raise AssertionError("\n".join([str(error), *said])) from None

    def stop(self):
        for member in self.members:
            member.kill9()
        self.etcd.end(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)
