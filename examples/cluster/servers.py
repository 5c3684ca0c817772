"""The servers: three PostgreSQL, a primary and two synchronous standbys, and three nodes of Tally, which keep their log
there."""

import contextlib
import json
import os
import pathlib
import random
import secrets
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

# Where clients of PostgreSQL look for a password: standbys, nodes and `tally cluster` are such clients.
os.environ["PGPASSWORD"] = secrets.token_hex(16)
# PostgreSQL does not run as root.
AS_POSTGRES = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}


def wait_until(claim, what, seconds=90):
    deadline = time.monotonic() + seconds
    while not claim():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(0.05)


def free_port():
    """Below those that connections get: one of them could take it while its server is away."""
    end = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(end // 3, end)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


def children(pid):
    """From /proc/PID/stat: "PID (NAME) STATE PARENT …"."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if int(path.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(path.parent.name))
    return found


@contextlib.contextmanager
def put_off(number):
    """The signal comes afterwards: a process that begins is not forgotten."""
    came = []
    before = signal.signal(number, lambda *_: came.append(number))
    yield
    signal.signal(number, before)
    if came:
        signal.raise_signal(number)


def run(*command, timeout=None, **options):
    """Its standard output. What fails says why, and what is interrupted ends with its children."""
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True, **options)
    try:
        printed, said = process.communicate(timeout=timeout)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    if process.returncode != 0:
        raise RuntimeError(f"{command[0]}: {said}")
    return printed


class Server:
    """A process with a folder and a port of its own, which it keeps when it is started again."""

    def __init__(self, name, folder):
        self.name, self.folder, self.port = name, folder / name, free_port()
        self.data = self.folder / "data"
        self.folder.mkdir()
        self.process = None

    def begin(self, *command, **options):
        with open(self.folder / "log", "ab") as log, put_off(signal.SIGTERM):
            self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, start_new_session=True, **options)
        wait_until(self.is_ready, f"the start of {self.name}")

    def is_ready(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} has ended: {(self.folder / 'log').read_text()}")
        return self.answers()

    def is_running(self):
        return self.process is not None and self.process.poll() is None


class Postgres(Server):
    def __init__(self, name, folder, programs):
        super().__init__(name, folder)
        self.programs = programs
        self.here = "-h", "127.0.0.1", "-p", self.port, "-U", "tally"
        if AS_POSTGRES:
            shutil.chown(self.folder, "postgres", "postgres")

    def call(self, program, *words):
        return run(self.programs / program, *words, cwd="/", **AS_POSTGRES)

    def create(self):
        password = self.folder / "password"
        password.write_text(os.environ["PGPASSWORD"])
        self.call("initdb", "-D", self.data, "-U", "tally", "--auth=scram-sha-256", f"--pwfile={password}", "-E",
                  "UTF8", "--locale=C")

    def copy(self, uri):
        """Becomes a standby of whichever server is the primary, whatever it was before."""
        shutil.rmtree(self.data, ignore_errors=True)
        self.call("pg_basebackup", "-D", self.data, "-d", uri, "--checkpoint=fast", "--write-recovery-conf")

    def start(self):
        """A commit waits until one of the others has it on its disk. They know each other by cluster_name."""
        settings = {"cluster_name": self.name, "synchronous_standby_names": "ANY 1 (db1, db2, db3)",
                    "wal_retrieve_retry_interval": "200ms",  # how soon a standby looks for another primary
                    "listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": "",
                    "shared_buffers": "32MB", "dynamic_shared_memory_type": "mmap"}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self.begin(self.programs / "postgres", "-D", self.data, *options, cwd="/", **AS_POSTGRES)

    def answers(self):
        with contextlib.suppress(RuntimeError):
            self.call("pg_isready", *self.here)
            return True
        return False

    def received(self):
        return int(self.call("psql", *self.here, "-Atc", "SELECT pg_last_wal_receive_lsn() - '0/0'", "postgres"))

    def promote(self):
        self.call("pg_ctl", "promote", "-D", self.data)

    def kill(self):
        """All of its processes at once, as if its machine had lost its power."""
        if not self.is_running():
            return
        memory = (self.data / "postmaster.pid").read_text().split()[-2]
        for pid in [self.process.pid, *children(self.process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        run("ipcrm", "-m", memory)  # PostgreSQL would do it at its next start, but not for another folder


class Node(Server):
    def __init__(self, name, folder, program, configuration):
        super().__init__(name, folder)
        self.program, self.configuration = program, configuration
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self):
        address = f"127.0.0.1:{self.port}"
        self.begin(self.program, "--config", self.configuration, "--node", self.name, "--data", self.data,
                   "--listen", address, "--advertise", address)

    def answers(self):
        """Does it serve, or know who does?"""
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"{self.url}/ready", timeout=1).status == 200
        return False

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def end(self):
        self.process.terminate()
        self.process.wait()

    def kill(self):
        if self.is_running():
            self.process.kill()
            self.process.wait()


class Cluster:
    def __init__(self, binaries, programs, folder):
        self.binaries, self.folder = binaries, folder
        self.configuration = folder / "tallyd.conf"
        self.servers = [Postgres(name, folder, programs) for name in ("db1", "db2", "db3")]
        self.primary = self.servers[0]
        self.nodes = {name: Node(name, folder, binaries / "tallyd", self.configuration)
                      for name in ("one", "two", "three")}
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in self.servers)
        self.log = f"postgres://tally@{hosts}/tally?target_session_attrs=read-write"

    def standbys(self):
        return [server for server in self.servers if server is not self.primary]

    def start_postgres(self):
        self.primary.create()
        self.primary.start()
        for standby in self.standbys():
            standby.copy(self.log)
            standby.start()
        self.primary.call("createdb", *self.primary.here, "tally")

    def start_nodes(self, credentials):
        os.umask(0o077)
        (self.folder / "secret").write_text(secrets.token_hex(32))
        (self.folder / "credentials").write_text(credentials)
        self.configuration.write_text(f"log = {self.log}\n"
                                      "log-replicas = 1\n"
                                      f"credentials = {self.folder}/credentials\n"
                                      f"cluster-secret = {self.folder}/secret\n")
        run(self.binaries / "tallyd", "--log", self.log, "--init")
        for node in self.nodes.values():
            node.start()

    def stop(self):
        for server in [*self.nodes.values(), *self.servers]:
            server.kill()

    def command(self, *words):
        """tally cluster WORDS."""
        return run(self.binaries / "tally", "cluster", *words, "--log", self.log, timeout=10)

    def status(self):
        """Each namespace: which node has it, and which should. Empty: PostgreSQL has no answer."""
        try:
            lines = [json.loads(line) for line in self.command("status", "--json").splitlines()]
        except (RuntimeError, subprocess.TimeoutExpired):
            return {}
        return {line["Namespace"]: line for line in lines if "Namespace" in line}

    def is_placed(self):
        status = self.status().values()
        return len(status) > 0 and all(one["Connected"] and one["Node"] == one["Wanted"] for one in status)

    def has_nothing(self, node):
        status = self.status().values()
        return len(status) > 0 and all(one["Node"] != node for one in status)
