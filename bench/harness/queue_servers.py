"""Queue servers beside Tally that need more than a command line: RabbitMQ, NATS JetStream, a table in PostgreSQL."""

import json
import math
import os
import re
import signal
import socket
import subprocess
import time

from harness import machine
from harness.peers import Postgres
from harness.pool_peers import PostgresTickets
from harness.servers import Redis, RunFailed, Server, free_port


class Nats(Server):
    """One stream on files and one durable pull consumer. Before 2.10 a server can't sync each message, later ones don't
    by default: what is confirmed has been written, and is lost if the machine fails before the next sync."""

    name = "NATS JetStream"
    program = "nats-server"
    durability = "page cache"
    sync_interval = None

    @classmethod
    def version(cls):
        return machine.output_of(cls.find(), "--version").rpartition("v")[2]

    def command(self):
        configuration = os.path.join(self.folder, "nats.conf")
        sync = f", sync_interval: {self.sync_interval}" if self.sync_interval else ""
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(f"listen: 127.0.0.1:{self.port}\n"
                       f'jetstream {{ store_dir: "{self.folder}", max_file_store: 20GB{sync} }}\n')
        return [self.find(), "-c", configuration]

    def start(self):
        seconds = super().start()
        self.request("STREAM.CREATE.bench", {"name": "bench", "subjects": ["bench"], "retention": "workqueue",
                                             "storage": "file", "num_replicas": 1})
        self.request("CONSUMER.DURABLE.CREATE.bench.work", {"stream_name": "bench", "config": {
            "durable_name": "work", "ack_policy": "explicit", "deliver_policy": "all", "replay_policy": "instant",
            "ack_wait": 600 * 10**9, "max_ack_pending": -1, "max_waiting": 4096}})
        return seconds

    def request(self, subject, body):
        """Asks JetStream's API."""
        text = json.dumps(body).encode()
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as link:
            lines = link.makefile("rb")
            lines.readline()
            link.sendall(b'CONNECT {"verbose":false}\r\nSUB _R 1\r\nPUB $JS.API.%s _R %d\r\n%s\r\n' %
                         (subject.encode(), len(text), text))
            for line in lines:
                if line.startswith(b"MSG "):
                    answer = json.loads(lines.read(int(line.split()[-1])))
                    break
        if "error" in answer:
            raise RunFailed(f"NATS, {subject}: {answer['error']}")
        return answer

    def check(self, total):
        held, expected = self.request("STREAM.INFO.bench", {})["state"]["messages"], total["sent"] - total["deleted"]
        if held != expected:
            raise RunFailed(f"NATS holds {held} messages, expected {expected}")


class NatsSync(Nats):
    name = "NATS JetStream, sync_interval always"
    durability = "synced"
    sync_interval = "always"

    @classmethod
    def missing(cls):
        said = super().missing()
        numbers = [int(number) for number in re.findall(r"\d+", cls.version() if not said else "")[:2]]
        return said or ("" if numbers >= [2, 10] else f"nats-server {cls.version()} can't sync each message, 2.10 can")


class RabbitMQ(Server):
    """A node of its own name, with a port mapper of its own, that leaves nothing running. The queue is durable,
    messages are persistent; a confirm means that the message is on the disk, or was already acknowledged. The broker
    confirms no acknowledgement."""

    name = "RabbitMQ"
    program = "rabbitmq-server"
    durability = "synced"
    FOLDER = "/usr/lib/rabbitmq/bin"  # the wrappers on PATH change the user

    def __init__(self, folder, core):
        super().__init__(folder, core)
        self.mapper_port, self.node_port = free_port(), free_port()
        self.mapper = None

    @classmethod
    def find(cls):
        path = os.path.join(cls.FOLDER, cls.program)
        return path if os.access(path, os.X_OK) and super().find() else None

    @classmethod
    def version(cls):
        found = machine.output_of("dpkg-query", "-W", "-f", "${Version}", "rabbitmq-server")
        return re.sub(r"-.*", "", found)

    @property
    def node(self):
        return f"tally-bench-{self.port}@localhost"

    def environment(self):
        """Nothing of the machine's own configuration, and nothing outside the folder."""
        named = {"NODENAME": self.node, "DIST_PORT": self.node_port, "MNESIA_BASE": f"{self.folder}/data",
                 "LOG_BASE": f"{self.folder}/logs", "CONFIG_FILE": f"{self.folder}/rabbitmq",
                 "ENABLED_PLUGINS_FILE": f"{self.folder}/plugins", "CONF_ENV_FILE": "/dev/null",
                 "SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}"}
        return {**os.environ, "HOME": self.folder, "ERL_EPMD_PORT": str(self.mapper_port),
                "ERL_EPMD_ADDRESS": "127.0.0.1",
                "RUNNING_UNDER_SYSTEMD": "true",  # one process, without a shell around it
                **{f"RABBITMQ_{name}": str(value) for name, value in named.items()}}

    def command(self):
        with open(os.path.join(self.folder, "rabbitmq.conf"), "w", encoding="utf-8") as file:
            file.write(f"listeners.tcp.local = 127.0.0.1:{self.port}\n")
        return [self.find()]

    def start(self):
        with open(os.path.join(self.folder, "mapper.log"), "wb") as log:
            self.mapper = subprocess.Popen(["epmd", "-port", str(self.mapper_port), "-address", "127.0.0.1"],
                                           stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        seconds = super().start()
        self.ask("await_startup", "--timeout", "60")  # it accepts connections before its application counts as running
        return seconds

    def stop(self, how=signal.SIGKILL):
        """What it holds isn't needed any more: its clean stop takes seconds."""
        super().stop(how)
        if self.mapper is not None:
            self.mapper.terminate()
            self.mapper.wait()
            self.mapper = None

    def ask(self, *words):
        """What rabbitmqctl answers."""
        done = subprocess.run([os.path.join(self.FOLDER, "rabbitmqctl"), "-n", self.node, "-q", *words],
                              env=self.environment(), capture_output=True, text=True, timeout=90, check=False)
        if done.returncode != 0:
            raise RunFailed(f"rabbitmqctl {words[0]}: {(done.stderr + done.stdout).strip()[:300]}")
        return done.stdout

    def held(self):
        return sum(map(int, self.ask("--no-table-headers", "list_queues", "messages").split()))

    def check(self, total):
        """Acknowledgements are on their way when the load ends; the last of them count a moment later."""
        expected, held = total["sent"] - total["deleted"], None
        for _ in range(20):
            held = self.held()
            if held == expected:
                return
            time.sleep(0.2)
        raise RunFailed(f"RabbitMQ holds {held} messages, expected {expected}")


class RabbitQuorum(RabbitMQ):
    name = "RabbitMQ, quorum queue of one"


class PostgresQueue(PostgresTickets):
    """A table of jobs as people build it: many are added by one statement, and many taken by one that deletes them with
    SKIP LOCKED. Its autovacuum is told that the table is a queue."""

    name = "PostgreSQL, SKIP LOCKED"
    settings = {**Postgres.settings, "autovacuum_naptime": "1s", "wal_compression": "on"}
    SCHEMA = """
        CREATE TABLE job (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL)
            WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
                  autovacuum_vacuum_cost_delay = 0);"""

    def start(self):
        seconds = super().start()
        self.sql(self.SCHEMA)
        return seconds

    def cpu_s(self):
        return machine.tree_cpu_s(self.process.pid)

    def held(self):
        return int(self.sql("SELECT count(*) FROM job"))

    def script(self, batch, body):
        """Each statement is a transaction of its own."""
        path = os.path.join(self.folder, "life.sql")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"INSERT INTO job (body) SELECT '{'x' * body}' FROM generate_series(1, {batch});\n"
                       "DELETE FROM job WHERE id = ANY(ARRAY(SELECT id FROM job ORDER BY id LIMIT "
                       f"{batch} FOR UPDATE SKIP LOCKED)) RETURNING id, body;\n")
        return path

    def lives(self, script, clients, seconds):
        """What pgbench says of at least so many seconds: transactions, and those in a second once all were connected.
        Its seconds are whole, and connecting is a part of them: where that took them all, it gets more."""
        for limit in (1 + math.ceil(seconds) << doublings for doublings in range(5)):
            done = subprocess.run([self.tool("pgbench"), "-n", "-M", "prepared", "-c", str(clients), "-j", "1",
                                   "-T", str(limit), "-f", script, self.uri],
                                  capture_output=True, text=True, timeout=300, check=False)
            if done.returncode != 0 or "actually processed: 0\n" not in done.stdout:
                break
        found = re.search(r"actually processed: (\d+).*?latency average = ([\d.]+) ms.*?tps = ([\d.]+)", done.stdout,
                          re.DOTALL)
        if done.returncode != 0 or found is None:
            raise RunFailed(f"pgbench: {' '.join((done.stdout + done.stderr).split())[-300:]}")
        return {"transactions": int(found.group(1)), "mean_us": float(found.group(2)) * 1000,
                "per_s": float(found.group(3))}


class PostgresJobs(Postgres):
    """For libraries that make their own tables."""

    name = "PostgreSQL"

    def cpu_s(self):
        return machine.tree_cpu_s(self.process.pid)


class RedisStreams(Redis):
    """A stream with one group of consumers."""

    def start(self):
        seconds = super().start()
        answer = self.converse("XGROUP CREATE bench work 0 MKSTREAM")
        if not answer.startswith("+OK"):
            raise RunFailed(f"Redis: {answer.strip()}")
        return seconds

    def check(self, total):
        held, expected = int(self.converse("XLEN bench").strip().lstrip(":")), total["sent"] - total["deleted"]
        if held != expected:
            raise RunFailed(f"the stream holds {held} entries, expected {expected}")


class RedisJobs(Redis):
    """For BullMQ."""
