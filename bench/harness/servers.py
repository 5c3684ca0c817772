"""The servers that are measured: each is started alone, in a fresh folder, on a free loopback port, on one core."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

from harness import machine, sign

READY_TIMEOUT_S = 120


class RunFailed(Exception):
    """A run whose server or check failed: it has no figure."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One process. A subclass says how it is started, when it is ready and whether it holds what it confirmed."""

    name = ""
    program = ""
    is_signed = False  # does it want its requests signed?
    durability = ""  # what an answer promises: nothing, memory, or synced to the disk before the reply

    def __init__(self, folder, core):
        self.folder = folder
        self.core = core
        self.port = free_port()
        self.log_path = os.path.join(folder, "log")
        self.process = None
        os.makedirs(folder, exist_ok=True)

    @classmethod
    def find(cls):
        """The program's path, or None where it isn't installed."""
        return shutil.which(cls.program, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")

    @classmethod
    def missing(cls):
        """Why it can't be measured; empty if it can."""
        return f"{cls.program} isn't there" if cls.find() is None else ""

    @classmethod
    def version(cls):
        return ""

    def command(self):
        raise NotImplementedError

    def environment(self):
        """Of the process; None: ours."""

    def cpu_s(self):
        """Processor time it has used so far, with the processes that it has started."""
        return machine.tree_cpu_s(self.process.pid)

    def is_ready(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def check(self, total):
        """Raises RunFailed unless the server holds what `total` says was confirmed."""

    def start(self):
        """Starts the process; returns the seconds until it was ready."""
        command = list(self.command())
        if self.core is not None:
            command = ["taskset", "-c", str(self.core)] + command
        begin = time.monotonic()
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                                            env=self.environment())
        while not self.is_ready():
            if self.process.poll() is not None:
                raise RunFailed(f"{self.name} ended at once: {self.log_tail()}")
            if time.monotonic() - begin > READY_TIMEOUT_S:
                raise RunFailed(f"{self.name} isn't ready after {READY_TIMEOUT_S} s: {self.log_tail()}")
            time.sleep(0.001)
        return time.monotonic() - begin

    def log_tail(self):
        return " / ".join(machine.read(self.log_path).strip().splitlines()[-3:]) or "it printed nothing"

    def stop(self, how=signal.SIGTERM):
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop(signal.SIGKILL)
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def converse(self, *lines):
        """Sends lines to a server with a text protocol; returns all that it answers within a moment."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as link:
            link.sendall("".join(line + "\r\n" for line in lines).encode())
            answer = link.recv(65536)
            return answer.decode(errors="replace")


class Echo(Server):
    name = "bare server"
    program = "echo"
    durability = "none"
    path = None  # set by bench/run

    @classmethod
    def find(cls):
        return cls.path

    def command(self):
        return [self.path, "--listen", f"127.0.0.1:{self.port}"]


class EchoSync(Echo):
    name = "bare server + fdatasync"
    durability = "synced"

    def command(self):
        return super().command() + ["--fdatasync", os.path.join(self.folder, "records")]


SEND_REPLY = json.dumps({"MD5OfMessageBody": 32 * "0", "MessageId": "00000000-0000-4000-8000-000000000000"})
NGINX_CONFIGURATION = """
daemon off; master_process off; worker_processes 1; pid nginx.pid; error_log stderr;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000000; keepalive_timeout 600s; tcp_nodelay on;
    client_header_buffer_size 8k; # head and body in one read
    client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp; scgi_temp_path tmp;
    server {
        listen 127.0.0.1:%d;
        default_type application/x-amz-json-1.0;
        return 200 '%s';
    }
}
"""


class Nginx(Server):
    name = "nginx `return 200`"
    program = "nginx"
    durability = "none"

    @classmethod
    def version(cls):
        return machine.output_of(cls.find(), "-v").rpartition("/")[2]

    def command(self):
        configuration = os.path.join(self.folder, "nginx.conf")
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(NGINX_CONFIGURATION % (self.port, SEND_REPLY))
        return [self.find(), "-p", self.folder, "-c", configuration]


class Redis(Server):
    name = "Redis, appendfsync always"
    program = "redis-server"
    durability = "synced"
    options = ["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]

    @classmethod
    def version(cls):
        found = re.search(r"v=(\S+)", machine.output_of(cls.find(), "--version"))
        return found.group(1) if found else ""

    def command(self):
        address = ["--bind", "127.0.0.1", "--port", str(self.port)]
        return [self.find(), *address, "--dir", self.folder, "--save", "", *self.options]

    def is_ready(self):
        return super().is_ready() and self.converse("PING").startswith("+PONG")

    def check(self, total):
        held = int(self.converse("LLEN bench").strip().lstrip(":"))
        if held != total["sent"]:
            raise RunFailed(f"Redis holds {held} values of {total['sent']} confirmed")


class RedisMemory(Redis):
    name = "Redis, appendonly no"
    durability = "memory"
    options = ["--appendonly", "no"]


class Beanstalkd(Server):
    name = "beanstalkd"
    program = "beanstalkd"
    durability = "memory"

    @classmethod
    def version(cls):
        return machine.output_of(cls.find(), "-v").rpartition(" ")[2]

    def command(self):
        return [self.find(), "-l", "127.0.0.1", "-p", str(self.port)]

    def check(self, total):
        statistics = dict(re.findall(r"^([a-z-]+): (\d+)", self.converse("stats").replace("\r", ""), re.MULTILINE))
        held = sum(int(statistics[f"current-jobs-{state}"]) for state in ("ready", "reserved", "delayed", "buried"))
        expected = total["sent"] - total["deleted"]
        if held != expected:
            raise RunFailed(f"beanstalkd holds {held} jobs, expected {expected}")
        complaint = machine.read(self.log_path).strip()
        if complaint:  # after a failed write it goes on without its log
            raise RunFailed(f"beanstalkd complained: {complaint.splitlines()[0]}")


class BeanstalkdSync(Beanstalkd):
    name = "beanstalkd -b DIR -f 0"
    durability = "synced"

    def command(self):
        binlog = os.path.join(self.folder, "binlog")
        os.makedirs(binlog, exist_ok=True)
        return super().command() + ["-b", binlog, "-f", "0"]


class Tallyd(Server):
    name = "Tally"
    program = "tallyd"
    durability = "synced"
    path = None  # set by bench/run
    queue = "bench"
    options = ()  # beyond the defaults

    @classmethod
    def find(cls):
        return cls.path if cls.path and os.access(cls.path, os.X_OK) else None

    @classmethod
    def version(cls):
        return machine.output_of(cls.find(), "--version").rpartition(" ")[2]

    @property
    def data(self):
        return os.path.join(self.folder, "data")

    def command(self):
        return [self.path, "--listen", f"127.0.0.1:{self.port}", "--data", self.data, *self.options]

    def is_ready(self):
        return f"tallyd ready on http://127.0.0.1:{self.port}" in machine.read(self.log_path)

    def start(self):
        seconds = super().start()
        self.call("CreateQueue", {"QueueName": self.queue})
        return seconds

    def call_tally(self, action, body):
        return self.call(action, body, "Tally")

    def call(self, action, body, prefix="AmazonSQS"):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"X-Amz-Target": f"{prefix}.{action}", "Content-Type": "application/x-amz-json-1.0"}
        body = json.dumps(body).encode()
        if self.is_signed:
            headers = sign.signed({**headers, "Host": f"127.0.0.1:{self.port}"}, body)
        link.request("POST", "/", body, headers)
        reply = link.getresponse()
        text = reply.read().decode()
        link.close()
        if reply.status != 200:
            raise RunFailed(f"{action} was answered with {reply.status}: {text}")
        return json.loads(text or "{}")

    def held(self):
        """Messages in the queue: waiting, in flight and delayed."""
        names = [f"ApproximateNumberOfMessages{state}" for state in ("", "NotVisible", "Delayed")]
        url = f"http://127.0.0.1:{self.port}/000000000000/{self.queue}"
        reply = self.call("GetQueueAttributes", {"QueueUrl": url, "AttributeNames": names})
        return sum(int(reply["Attributes"][name]) for name in names)

    def check(self, total):
        held, expected = self.held(), total["sent"] - total["deleted"]
        if held != expected:
            raise RunFailed(f"Tally holds {held} messages, expected {expected}")

    def snapshot_child(self):
        """The process that writes one, or removes what it made superfluous, or None. Tally starts no other."""
        return next(iter(machine.children_of(self.process.pid)), None)

    def is_writing_snapshot(self):
        return any(name.endswith(".snapshot.tmp") for _, _, names in os.walk(self.data) for name in names)

    def pages_drop(self):
        """Drops the data folder from the page cache, for a restart that must read it; the process must be gone."""
        for folder, _, names in os.walk(self.data):
            for name in names:
                fd = os.open(os.path.join(folder, name), os.O_RDONLY)
                os.fdatasync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)


class TallydSigned(Tallyd):
    """With credentials: every request is verified."""

    name = "Tally, signed"
    is_signed = True

    def credentials(self):
        return f"{sign.ACCESS_KEY} {sign.SECRET} 000000000000 read,write,admin\n"

    def command(self):
        path = os.path.join(self.folder, "credentials")
        with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(self.credentials())
        return super().command() + ["--credentials", path]
