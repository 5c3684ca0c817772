"""Measurements: one server, one load, one result; and the longer ones about a backlog."""

import array
import bisect
import collections
import json
import math
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from harness import machine
from harness.servers import (Beanstalkd, BeanstalkdSync, Echo, EchoSync, Nginx, Redis, RedisMemory, RunFailed, Tallyd,
                             TallydSigned)


@dataclass
class Setting:
    """What bench/run was asked for, and where things are."""

    load: str
    folder: str
    runs: int  # of each load
    turns: int  # runs of what a bar compares
    seconds: float
    warm_up: float
    connections: int
    body: int
    messages: int  # that wait where a part says many
    backlog: int  # that wait in the backlog
    backlog_body: int
    server_core: int | None
    load_core: int | None
    retries: int  # of a run that others disturbed
    is_all: bool  # also what no bar of the design is about
    used_folders: int = 0

    def new_folder(self):
        self.used_folders += 1
        return os.path.join(self.folder, str(self.used_folders))


DISTURBED = 0.15  # share of a core that others may take; threads of the kernel that serve the disk need some
# share of a core that a virtual machine's host may withhold where it is about the longest of a thousand requests
STOLEN = 0.001
PATIENCE_S = 180  # for repeated runs, of all of a kind


def undisturbed(results):
    """The runs that count: those without others on the cores, or all where there is none."""
    return [result for result in results if result["others_share"] <= DISTURBED] or results


@dataclass
class Case:
    """A server under one load, measured `runs` times."""

    key: str
    server: type
    mode: str
    title: str
    connections: int | None = None  # None: as set
    pipeline: int = 1
    options: tuple = ()  # more of them for the load
    run: Callable | None = None  # (setting, server, case): measures it with another client, or in another way
    missing: Callable | None = None  # why it can't be measured, beside what the server says
    is_of_bar: bool = False  # a bar compares it
    is_extra: bool = False  # not measured unless everything is, or it is asked for
    results: list = field(default_factory=list)
    problem: str = ""
    is_wanted: bool = True

    def median(self, *path):
        """The median over the runs of one figure, e.g. median("latency_us", "p50"); None without runs."""
        figures = [figure(result, path) for result in undisturbed(self.results)]
        return statistics.median(figures) if figures and None not in figures else None

    def span(self, *path):
        figures = [figure(result, path) for result in undisturbed(self.results)]
        return (min(figures), max(figures)) if figures else None

    def is_disturbed(self):
        return (self.median("others_share") or 0) > DISTURBED


def figure(result, path):
    """None where there is none: not every client tells latencies."""
    for name in path:
        result = result.get(name)
    return result


CASES = [
    Case("ceiling.send", Echo, "http-send", "bare server, SendMessage"),
    Case("ceiling.batch", Echo, "http-batch", "bare server, SendMessageBatch of 10"),
    Case("ceiling.life", Echo, "http-life", "bare server, send receive delete in tens"),
    Case("nginx", Nginx, "http-static", "nginx return 200, SendMessage", is_of_bar=True),
    Case("barest", EchoSync, "http-send", "bare group commit, SendMessage", is_of_bar=True),
    Case("redis", Redis, "redis-lpush", "Redis always, LPUSH"),
    Case("redis.tens", Redis, "redis-lpush", "Redis always, LPUSH, 10 in a write", pipeline=10),
    Case("beanstalkd", Beanstalkd, "beanstalk-life", "beanstalkd, put reserve delete", is_of_bar=True),
    Case("beanstalkd.tens", Beanstalkd, "beanstalk-life", "beanstalkd, the same, 10 in a write", pipeline=10),
    Case("beanstalkd.sync", BeanstalkdSync, "beanstalk-life", "beanstalkd -f 0, put reserve delete"),
    Case("send", Tallyd, "http-send", "Tally, SendMessage", is_of_bar=True),
    Case("batch", Tallyd, "http-batch", "Tally, SendMessageBatch of 10", is_of_bar=True),
    Case("life", Tallyd, "http-life", "Tally, send receive delete in tens", is_of_bar=True),
    Case("life.single", Tallyd, "http-life-single", "Tally, send receive delete, one in a request"),
    Case("send.signed", TallydSigned, "http-send", "Tally with credentials, SendMessage",
         is_extra=True),
    Case("batch.signed", TallydSigned, "http-batch", "Tally with credentials, SendMessageBatch of 10",
         is_extra=True),
    Case("life.signed", TallydSigned, "http-life", "Tally with credentials, send receive delete in tens",
         is_extra=True),
    Case("one.bare", EchoSync, "http-send", "one connection: bare round trip + fdatasync", connections=1,
         is_of_bar=True),
    Case("one.redis", Redis, "redis-lpush", "one connection: Redis always, LPUSH", connections=1),
    Case("one", Tallyd, "http-send", "one connection: Tally, SendMessage", connections=1, is_of_bar=True),
]


def load_run(setting, mode, *options):
    """Runs the load generator on its core; returns what it reports."""
    command = [setting.load, mode, *map(str, options)]
    if setting.load_core is not None:
        command += ["--core", str(setting.load_core)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RunFailed(done.stderr.strip().replace("\n", " ")[:300] or f"load ended with status {done.returncode}")
    return json.loads(done.stdout)


def disk_measure(setting):
    return load_run(setting, "disk-sync", "--file", os.path.join(setting.folder, "sync"), "--seconds", setting.seconds)


@dataclass
class Clocks:
    """What has been used up so far: time, the two cores, the server and the generator."""

    now_s: float
    server_core_s: float
    server_s: float
    load_core_s: float
    load_s: float
    stolen_s: tuple  # from either core

    @classmethod
    def read(cls, setting, server):
        loads = resource.getrusage(resource.RUSAGE_CHILDREN)  # servers that have ended count too, but not during a load
        return cls(time.monotonic(), machine.busy_s(setting.server_core), server.cpu_s(),
                   machine.busy_s(setting.load_core), loads.ru_utime + loads.ru_stime + time.process_time(),
                   tuple(machine.stolen_s(core) for core in (setting.server_core, setting.load_core)))

    def others_since(self, before):
        at_server = self.server_core_s - before.server_core_s - (self.server_s - before.server_s)
        at_load = self.load_core_s - before.load_core_s - (self.load_s - before.load_s)
        return max(0.0, at_server, at_load) / (self.now_s - before.now_s)

    def stolen_since(self, before):
        return max(now - then for now, then in zip(self.stolen_s, before.stolen_s)) / (self.now_s - before.now_s)


def server_load(setting, server, mode, *options):
    """A load on a running server, with the larger of the shares of the two cores that went to anybody else."""
    before = Clocks.read(setting, server)
    signing = ["--sign"] if server.is_signed else []
    result = load_run(setting, mode, "--port", server.port, "--cpu-of", server.process.pid, *signing, *options)
    if server.process.poll() is not None:
        raise RunFailed(f"{server.name} ended during the run: {server.log_tail()}")
    after = Clocks.read(setting, server)
    result["others_share"], result["stolen_share"] = after.others_since(before), after.stolen_since(before)
    result["generator_share"] = result["generator_cpu_s"] / result["seconds"]
    messages = result["messages"]
    result["server_cpu_us"] = result["server_cpu_s"] / messages * 1e6 if messages > 0 else 0.0
    return result


def window_options(setting):
    return ["--seconds", setting.seconds, "--warm-up", setting.warm_up]


def load_case(setting, server, case):
    connections = case.connections or setting.connections
    return server_load(setting, server, case.mode, "--connections", connections, "--pipeline", case.pipeline, "--body",
                       setting.body, *case.options, *window_options(setting))


def case_run(setting, case):
    folder = setting.new_folder()
    try:
        with case.server(folder, setting.server_core) as server:
            result = (case.run or load_case)(setting, server, case)
            server.check(result["total"])
            case.results.append(result)
    except (RunFailed, OSError) as problem:
        case.problem = str(problem)
        case.results.clear()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def cases_run(setting, cases, tell):
    """Measures all cases in turn, `runs` times, and those of bars `turns` times, each time in another order."""
    cases = [case for case in cases if case.is_wanted]
    for case in cases:
        case.problem = case.server.missing() or (case.missing() if case.missing else "")
    order, patience_s = random.Random(1), PATIENCE_S
    for run in range(setting.turns):
        left = [case for case in cases if not case.problem and (case.is_of_bar or run < setting.runs)]
        order.shuffle(left)
        for case in left:
            for retry in range(1 + setting.retries):
                tell(f"run {run + 1} of {setting.turns if case.is_of_bar else setting.runs}: {case.title}")
                begin_s = time.monotonic()
                case_run(setting, case)
                patience_s -= time.monotonic() - begin_s if retry > 0 else 0
                for result in case.results[-1:]:
                    result["round"] = run
                if case.problem or case.results[-1]["others_share"] <= DISTURBED or patience_s < 0:
                    break


# --- A backlog ---

# sends a second: a seventh of what one core can do, so that only its pauses show, not a core that is full
PAUSE_RATE = 10_000
# measured windows. In the longer a snapshot of ten million messages begins and ends; of the shorter a tick is less than
# STOLEN
PAUSE_WINDOWS = {"calm": 4, "pauses": 8}
FORK_S = 0.05  # a child is seen once its fork has returned, which pauses its parent before
SNAPSHOT_OFTEN = ("--snapshot-bytes", "1MiB", "--snapshot-growth", "0")
SNAPSHOT_NEVER = ("--snapshot-bytes", "0")
PEER_MESSAGES_MAX = 1_000_000  # in servers that keep bodies in memory

PEERS_OF_MEMORY = [(RedisMemory, "redis-lpush"), (Beanstalkd, "beanstalk-put")]


def memory_of_peer(setting, server_class, mode):
    """Bytes of memory for a waiting message in a server that keeps bodies in memory."""
    folder = setting.new_folder()
    try:
        with server_class(folder, setting.server_core) as server:
            options = ["--body", setting.backlog_body, "--pipeline", 10, "--connections", 8]
            first = server_load(setting, server, mode, *options, "--count", 100)
            before = machine.anonymous_memory_of(server.process.pid)
            filled = server_load(setting, server, mode, *options, "--count",
                                 max(1, min(setting.backlog, PEER_MESSAGES_MAX) // 10))
            grown = machine.anonymous_memory_of(server.process.pid) - before
            server.check({"sent": first["messages"] + filled["messages"], "deleted": 0})
            return grown / filled["messages"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Backlog:
    """What many waiting messages cost."""

    body: int  # bytes of the messages that wait, and of the lives beside them
    sent_body: int  # of the sends at a rate
    messages: int = 0
    fill: dict = field(default_factory=dict)
    index_bytes: float | None = None
    peers: dict = field(default_factory=dict)  # name -> bytes a message, body included
    few: list = field(default_factory=list)  # lives with 1,000 waiting
    many: list = field(default_factory=list)  # lives with all waiting
    calm: list = field(default_factory=list)  # sends at a rate while no snapshot is taken
    # and with one after the other: what was due while one was taken is in "during"
    pauses: list = field(default_factory=list)
    restart_warm_s: float | None = None
    restart_cold_s: float | None = None
    problem: str = ""


def take_turns(setting, loads):
    """Runs loads that are to be compared one after the other, in another order each round. Each is called without
    arguments; returns for each of them its results, which say their rounds."""
    results = [[] for _ in loads]
    for at in range(setting.turns):
        for which in random.sample(range(len(loads)), len(loads)):
            results[which].append({**loads[which](), "round": at})
    return results


def snapshot_wait(server):
    """Returns when it takes none: what another server does on the same core is in the time of this one."""
    deadline_s = time.monotonic() + PATIENCE_S
    while server.snapshot_child() is not None and time.monotonic() < deadline_s:
        time.sleep(0.1)


def lives_load(setting, server):
    return server_load(setting, server, "http-life", "--connections", setting.connections, "--body",
                       setting.backlog_body, *window_options(setting))


def left_over(results):
    """Messages that were sent and not deleted."""
    return sum(result["total"]["sent"] - result["total"]["deleted"] for result in results)


class SnapshotWatch:
    """Looks a hundred times a second whether a snapshot is being taken: from the fork of its process until that has
    ended, which is when it has given back what the snapshot made superfluous."""

    def __init__(self, server):
        self.server = server
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.is_over = False
        self.spans = []  # (begin, end), in seconds of the monotonic clock
        self.took_s = []  # from its fork until it had its name, of each of which both were seen

    def look(self):
        child, begun_s = self.server.snapshot_child(), time.monotonic()
        is_named, was_written = True, False  # of one that is there already the fork was not seen
        while not self.is_over:
            time.sleep(0.01)
            found, now_s = self.server.snapshot_child(), time.monotonic()
            if found != child:
                self.note(child, begun_s, now_s)
                child, begun_s, is_named = found, now_s - FORK_S, found is None
                was_written = False
            if is_named:
                continue
            is_written = self.server.is_writing_snapshot()
            if was_written and not is_written:
                self.took_s.append(now_s - begun_s)
                is_named = True
            was_written = is_written
        self.note(child, begun_s, time.monotonic())

    def note(self, child, begun_s, end_s):
        if child is not None:
            self.spans.append((begun_s, end_s))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.thread.join()


def percentiles_us(latencies_ns):
    """The smallest value that so many are not above; None of nothing."""
    ranked = sorted(latencies_ns)
    if not ranked:
        return {"count": 0, "p50": None, "p99": None, "p999": None, "max": None}
    at = {name: ranked[math.ceil(share * len(ranked)) - 1] / 1e3
          for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1))}
    return {"count": len(ranked), **at}


def latencies_during(path, spans):
    """Of the sends that fell due in one of the spans."""
    spans_ns = [(begin_s * 1e9, end_s * 1e9) for begin_s, end_s in spans]
    return [latency for due, latency in latencies_read(path) if any(begin <= due < end for begin, end in spans_ns)]


def latencies_read(path):
    """When each write was asked, or due, and how long it took, both in ns: what load's --latencies wrote."""
    numbers = array.array("Q")
    with open(path, "rb") as file:
        numbers.frombytes(file.read())
    return zip(numbers[::2], numbers[1::2])


def ended_during(path, spans):
    """How many of the writes were answered in each of the spans, which follow each other."""
    edges_ns = [edge_s * 1e9 for span in spans for edge_s in span]
    counts = collections.Counter(bisect.bisect_right(edges_ns, asked + took) for asked, took in latencies_read(path))
    return [counts[2 * number + 1] for number in range(len(spans))]


def sends_at_a_rate(setting, server, kind, options):
    """After a restart with these options."""
    server.stop()
    server.options = options
    server.start()
    path, seconds = os.path.join(setting.folder, "latencies"), PAUSE_WINDOWS[kind] * setting.seconds
    with SnapshotWatch(server) as watch:
        result = server_load(setting, server, "http-send", "--connections", setting.connections, "--body", setting.body,
                             "--rate", PAUSE_RATE, "--warm-up", setting.warm_up, "--seconds", seconds,
                             "--latencies", path)
    during = latencies_during(path, watch.spans)
    os.remove(path)
    return {**result, "during": percentiles_us(during), "snapshot_share": len(during) / (PAUSE_RATE * seconds),
            "snapshots_s": watch.took_s}


def pauses_measure(setting, server, backlog):
    """Sends at a steady rate without a snapshot and with one after the other, in turn, and again where the host
    withheld some of the processor. Returns how many messages were sent."""
    deadline_s = time.monotonic() + PATIENCE_S
    for run in range(setting.turns * (1 + setting.retries)):
        is_enough = all(sum(one["stolen_share"] <= STOLEN for one in results) >= setting.runs
                        for results in (backlog.calm, backlog.pauses))
        if run >= setting.turns and (is_enough or time.monotonic() > deadline_s):
            break
        for kind, options in random.sample([("calm", SNAPSHOT_NEVER), ("pauses", SNAPSHOT_OFTEN)], 2):
            getattr(backlog, kind).append(sends_at_a_rate(setting, server, kind, options))
    return sum(one["total"]["sent"] for one in backlog.calm + backlog.pauses)


def restart_measure(server, expected):
    server.stop(signal.SIGKILL)
    seconds = server.start()
    held = server.held()
    if held != expected:
        raise RunFailed(f"after the restart Tally holds {held} messages, expected {expected}")
    return seconds


def growth_of_lives(setting, server, backlog, tell):
    """Lives beside all that wait, and in another server beside 1,000, by turns: what one has to do with the time of
    day, the other has as well. Returns how many messages are more in the first."""
    folder = setting.new_folder()
    try:
        with Tallyd(folder, setting.server_core) as small:
            held = server_load(setting, small, "http-batch", "--connections", setting.connections, "--body",
                               setting.backlog_body, "--count", 100)["messages"]
            snapshot_wait(server)
            tell(f"send, receive, delete with 1,000 and with {backlog.messages:,} messages waiting")
            backlog.few, backlog.many = take_turns(
                setting, [lambda: lives_load(setting, small), lambda: lives_load(setting, server)])
            small.check({"sent": held + left_over(backlog.few), "deleted": 0})
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return left_over(backlog.many)


def backlog_of_tally(setting, backlog, tell):
    folder = setting.new_folder()
    fill = ["--connections", setting.connections, "--body", setting.backlog_body]
    try:
        with Tallyd(folder, setting.server_core) as server:
            tell("warming up")
            held = server_load(setting, server, "http-batch", *fill, "--count", 100)["messages"]
            held += left_over([lives_load(setting, server)])
            before, memory_before = held, machine.anonymous_memory_of(server.process.pid)
            tell(f"sending {setting.backlog:,} messages")
            requests = max(1, (setting.backlog - held) // 10)
            backlog.fill = server_load(setting, server, "http-batch", *fill, "--count", requests)
            held += backlog.fill["messages"]
            grown = machine.anonymous_memory_of(server.process.pid) - memory_before
            backlog.index_bytes = grown / (held - before)
            backlog.messages = held
            server.check({"sent": held, "deleted": 0})
            held += growth_of_lives(setting, server, backlog, tell)
            tell(f"kill -9 and restart with {held:,} messages")
            backlog.restart_warm_s = restart_measure(server, held)
            server.stop(signal.SIGKILL)
            server.pages_drop()
            backlog.restart_cold_s = server.start()
            tell(f"snapshots of {held:,} messages under steady sends")
            held += pauses_measure(setting, server, backlog)
            server.check({"sent": held, "deleted": 0})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def backlog_run(setting, tell):
    backlog = Backlog(setting.backlog_body, setting.body)
    for server_class, mode in PEERS_OF_MEMORY:
        if server_class.find() is None:
            continue
        tell(f"memory of a waiting message: {server_class.name}")
        try:
            backlog.peers[server_class.name] = memory_of_peer(setting, server_class, mode)
        except (RunFailed, OSError) as problem:
            tell(f"{server_class.name}: {problem}")
    if Tallyd.find() is None:
        backlog.problem = "tallyd isn't there"
        return backlog
    try:
        backlog_of_tally(setting, backlog, tell)
    except (RunFailed, OSError) as problem:
        backlog.problem = str(problem)
    return backlog
