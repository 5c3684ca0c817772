"""Order per key and fan-in, beside those who have them: named queues of graphile-worker on PostgreSQL, flows of BullMQ
on Redis. Each part runs alone: bench/run --only order,flows. BullMQ's groups are not free, and graphile-worker has no
fan-in."""

import json
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import threading

from harness import machine, report
from harness.order import FIFO, FIFO_PLAIN, Bench, Part, cost_of, is_disturbed
from harness.servers import Redis, RunFailed, Server

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = os.path.join(ROOT, "bench", "peers")
MODULES = os.path.join(ROOT, "build", "peers")  # filled by ./setup bench
KEYS_JOBS = 10  # jobs of a key
FLOWS = (100, 1000, 10_000)
NODE_LIMIT_S = 240


class Postgres(Server):
    """PostgreSQL as its packages set it up, and sized for a queue; it does not run as root."""

    name = "PostgreSQL"
    program = "postgres"
    durability = "synced"
    settings = {"shared_buffers": "512MB", "max_wal_size": "4GB", "fsync": "on", "synchronous_commit": "on"}

    @classmethod
    def find(cls):
        found = shutil.which(cls.program)
        folders = sorted((path for path in machine.folders_of("/usr/lib/postgresql")),
                         key=lambda path: float(re.sub(r"[^0-9.]", "", os.path.basename(path)) or 0))
        return found or next((os.path.join(path, "bin", "postgres") for path in reversed(folders)
                              if os.access(os.path.join(path, "bin", "postgres"), os.X_OK)), None)

    @classmethod
    def version(cls):
        found = re.search(r"(\d[\d.]*)", machine.output_of(cls.find(), "--version"))
        return found.group(1) if found else ""

    @staticmethod
    def as_owner(command):
        """The command as the user postgres where we are root."""
        if os.geteuid() != 0:
            return command
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]

    @property
    def uri(self):
        return f"postgres://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def data(self):
        return os.path.join(self.folder, "postgres")

    def prepare(self):
        os.makedirs(self.data)
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(self.data, owner.pw_uid, owner.pw_gid)
            for folder in (self.folder, os.path.dirname(self.folder)):
                os.chmod(folder, 0o711)
        made = subprocess.run(
            self.as_owner([os.path.join(os.path.dirname(self.find()), "initdb"), "-D", self.data, "-U", "postgres",
                           "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/", check=False)
        if made.returncode != 0:
            raise RunFailed(f"initdb: {made.stdout.strip().splitlines()[-1:]}")

    def command(self):
        self.prepare()
        settings = {**self.settings, "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return self.as_owner([self.find(), "-D", self.data, "-p", str(self.port), *options])

    def is_ready(self):
        return "ready to accept connections" in machine.read(self.log_path)


class RedisFlows(Redis):
    """As Redis, for BullMQ, which wants its keys never to be evicted (the default)."""


def version_of(package):
    try:
        with open(os.path.join(MODULES, "node_modules", package, "package.json"), encoding="utf-8") as file:
            return json.load(file)["version"]
    except OSError:
        return None


def node_run(setting, program, *options, hear=None):
    """One of the programs in bench/peers, on the core of the loads; what it reports, in its last line. What it prints
    before goes to hear(word, its process) at once."""
    if shutil.which("node") is None:
        raise RunFailed("node isn't there")
    command = ["node", os.path.join(PROGRAMS, program), *map(str, options)]
    if setting.load_core is not None:
        command = ["taskset", "-c", str(setting.load_core), *command]
    said = None
    with tempfile.TemporaryFile("w+") as errors, subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=MODULES) as process:
        limit = threading.Timer(NODE_LIMIT_S, process.kill)
        limit.start()
        for line in process.stdout:
            said = line
            if hear is not None and line.startswith('"'):
                hear(json.loads(line), process)
        status = process.wait()
        is_late = not limit.is_alive()
        limit.cancel()
        errors.seek(0)
        if status != 0 or said is None:
            raise RunFailed(f"{program} took more than {NODE_LIMIT_S} s" if is_late
                            else f"{program}: {((said or '') + errors.read()).strip()[-300:]}")
    return json.loads(said)


class Compared(Part):
    """A part whose peers may be missing while Tally is measured all the same."""

    def __init__(self):
        super().__init__()
        self.peer_problem = {}

    def peer_run(self, name, packages, server, run):
        """Runs a peer on a server of its own; a problem is the peer's alone."""
        missing = [package for package in packages if version_of(package) is None]
        if server.find() is None:
            missing.append(server.program)
        if missing:
            self.peer_problem[name] = f"{', '.join(missing)} isn't there; ./setup bench brings it"
            return
        folder = self.setting.new_folder()
        try:
            with server(folder, self.setting.server_core) as running:
                before = machine.tree_cpu_s(running.process.pid)
                result = run(running)
                result["server_cpu_s"] = machine.tree_cpu_s(running.process.pid) - before
            self.results.setdefault(name, []).append(result)
        except (RunFailed, OSError, ValueError) as problem:
            self.peer_problem[name] = str(problem)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def rate(self, name):
        results = self.results.get(name)
        return cost_of([{"others_share": 0, **result} for result in results], "messages_per_s") if results else None


class Order(Compared):
    """Preloaded jobs of many keys, ten of each, every key in its order."""

    key = "order"
    title = "jobs of many keys in order"

    def run(self, setting, tell):
        self.setting = setting
        jobs = min(20_000, setting.messages // 10)
        for run in range(setting.runs):
            tell(f"jobs of many keys in order, run {run + 1} of {setting.runs}")
            self.tally_run(setting)
            for batched, count in (("yes", jobs), ("no", max(100, jobs // 10))):
                self.peer_run(f"graphile {batched}", ["graphile-worker", "pg"], Postgres,
                              lambda server, b=batched, n=count: node_run(
                                  setting, "graphile.mjs", "--connection", server.uri, "--jobs", n, "--keys",
                                  n // KEYS_JOBS, "--warm-up", n // 10, "--batched", b))
        for name in ("graphile yes", "graphile no"):
            wrong = sum(result["out_of_order"] for result in self.results.get(name, []))
            if wrong:
                self.peer_problem[name] = f"{wrong} jobs out of order"

    def tally_run(self, setting):
        keys = max(1, setting.messages // KEYS_JOBS)
        with Bench(setting, FIFO, FIFO_PLAIN) as bench:
            bench.fill(setting.messages, "--groups", keys, "--id-first", 1)
            drained = bench.load("http-drain")
            bench.server.queue = FIFO
            bench.server.check({"sent": setting.messages // 10 * 10, "deleted": drained["messages"]})
            self.results.setdefault("tally", []).append(drained)

    def rows(self, setting):
        disturbed = is_disturbed(self.results.get("tally"))
        return [report.row("jobs of many keys in order, preloaded", self.rate("tally"), "/s", which, self.rate(name),
                           "/s", problem=self.problem or self.peer_problem.get(name, ""), is_disturbed=disturbed)
                for name, which in (
                    ("graphile yes", f"graphile-worker {version_of('graphile-worker')}, named queues, batched"),
                    ("graphile no", "graphile-worker, named queues, defaults, 24 at once"))] + [
            report.row("jobs of many keys in order, preloaded", self.rate("tally"), "/s",
                       "BullMQ groups: not free, n/a", problem=self.problem, is_disturbed=disturbed)]


class Flows(Compared):
    """Fan-in: N units and the one message that waits for them all; a unit counts when its completion is confirmed."""

    key = "flows"
    title = "fan-in beside BullMQ"

    def sizes(self, setting):
        return [size for size in FLOWS if size <= setting.messages // 10]

    def run(self, setting, tell):
        self.setting = setting
        for run in range(setting.runs):
            for units in self.sizes(setting):
                tell(f"fan-in of {units:,}, run {run + 1} of {setting.runs}")
                self.tally_run(setting, units)
                self.peer_run(f"bullmq {units}", ["bullmq", "ioredis"], RedisFlows, lambda server, n=units: node_run(
                    setting, "bullmq.mjs", "--port", server.port, "--children", n))

    def tally_run(self, setting, units):
        with Bench(setting, "bench") as bench:
            bench.create("actions", {})
            target = {"QueueUrl": bench.url("actions")}
            for name, count in (("warmup", 200), ("flow", units)):
                bench.server.call_tally("CreateBatch", {"BatchId": name, "OnComplete": target})
                bench.fill(count, "--attribute", f"Tally.Batch={name}")
                bench.server.call_tally("SealBatch", {"BatchId": name})
                drained = bench.load("http-drain")
                if bench.load("http-take", queue="actions", connections=1)["messages"] != 1:
                    raise RunFailed(f"{units} units have ended, and there is not one completion message")
            if drained["messages"] != units:
                raise RunFailed(f"{drained['messages']} units were deleted of {units}")
            self.results.setdefault(f"tally {units}", []).append(drained)

    def rows(self, setting):
        which = f"BullMQ {version_of('bullmq')} flow, appendfsync always, 100 at once"
        return [report.row(f"fan-in of {units:,}: units completed", self.rate(f"tally {units}"), "/s", which,
                           self.rate(f"bullmq {units}"), "/s",
                           problem=self.problem or self.peer_problem.get(f"bullmq {units}", ""),
                           is_disturbed=is_disturbed(self.results.get(f"tally {units}")))
                for units in self.sizes(setting)]


PARTS = [Order, Flows]


def versions():
    """Versions of what is there, for the head of the report."""
    node = machine.output_of("node", "--version").lstrip("v") if shutil.which("node") else "not installed"
    return {"postgresql": Postgres.version() if Postgres.find() else "not installed", "node": node,
            **{package: version_of(package) or "not installed" for package in ("graphile-worker", "bullmq")}}
