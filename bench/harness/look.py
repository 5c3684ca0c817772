"""What it costs to look inside: open dashboards, each call that only reads, a scrape of many queues.
bench/run --only look.pages,look.calls,look.scrape."""

import concurrent.futures
import http.client
import itertools
import json
import math
import os
import random
import re
import shutil
import statistics
import subprocess
import threading
import time

from harness import measure, report
from harness.order import Bench, Part
from harness.servers import RunFailed

UNDISTURBED = 0.97  # of what is done without dashboards
QUEUES = 5_000
QUEUES_SCRAPED = 100_000
GROUPS = 1_000
IN_FLIGHT = 10_000
CONNECTIONS = 8  # that make queues
DASHBOARDS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "dashboards.mjs")


class Caller:
    """One connection that is kept."""

    def __init__(self, server):
        self.link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def ask(self, method, path, body=None, target=None):
        self.link.request(method, path, body, {"X-Amz-Target": target} if target else {})
        reply = self.link.getresponse()
        text = reply.read()
        if reply.status != 200:
            raise RunFailed(f"{target or path} was answered with {reply.status}: {text[:300].decode()}")
        return text

    def call(self, target, members):
        return self.ask("POST", "/", json.dumps(members), target)


def queues_make(server, count):
    def some(first):
        caller = Caller(server)
        for number in range(first, count, CONNECTIONS):
            caller.call("AmazonSQS.CreateQueue", {"QueueName": f"queue-{number:06}"})

    with concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(some, range(CONNECTIONS)))


class Turns:
    """How long the turns of the loop take from now on: the histogram in /metrics has bounds, so this is one of them."""

    def __init__(self, server):
        self.server = server
        self.before = self.counts()

    def counts(self):
        """Bound in seconds -> turns that took no longer."""
        text = Caller(self.server).ask("GET", "/metrics").decode()
        return {float(bound): int(count) for bound, count in
                re.findall(r'^tally_loop_turn_seconds_bucket\{le="([^"]+)"\} (\d+)', text, re.MULTILINE)}

    def longest_ms(self):
        """The bound that no turn since then was above."""
        now = self.counts()
        turns = now[math.inf] - self.before[math.inf]
        return 1000 * min(bound for bound in now if now[bound] - self.before[bound] == turns)


# --- Dashboards ---


class Dashboards:
    """Ten of them, which ask nothing while they are closed. What they ask is recorded first, from the pages' own code
    in Node.js, and then asked again and again: browsers run on machines of their own, and Node.js takes more of the
    load's core than its requests take of the server's."""

    RECORDED_S = 20

    def __init__(self, server, queue):
        done = subprocess.run([shutil.which("node"), DASHBOARDS, str(server.port), queue, str(self.RECORDED_S)],
                              stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise RunFailed("the dashboards don't open")
        self.requests = json.loads(done.stdout)
        self.caller = Caller(server)
        self.next = 0
        self.is_open = threading.Event()
        self.failure = None
        threading.Thread(target=self.ask, daemon=True).start()

    def per_second(self):
        return len(self.requests) / self.RECORDED_S

    def ask(self):
        """Each as long after the one before as it was recorded, in time that stands still while they are closed."""
        try:
            for before, (at_ms, target, body) in zip(itertools.cycle([[0], *self.requests[:-1]]),
                                                     itertools.cycle(self.requests)):
                time.sleep((at_ms - before[0]) / 1000)
                self.is_open.wait()
                self.caller.ask("POST", "/", body, target)
        except (OSError, RunFailed, http.client.HTTPException) as problem:
            self.failure = problem


class Pages(Part):
    """Sends and lives beside ten open dashboards, and without them: one load, whose seconds are by turns with them and
    without, because what a flush takes changes from one second to the next."""

    key = "look.pages"
    title = "sends and lives beside ten dashboards"
    KINDS = {"SendMessage": "http-send", "send, receive, delete in tens": "http-life"}
    PAIRS = 20  # of such seconds in a run

    def run(self, setting, tell):
        if shutil.which("node") is None:
            raise RunFailed("node isn't there")
        with Bench(setting, "bench") as bench:
            tell(f"{setting.messages:,} messages, {QUEUES:,} queues")
            queues_make(bench.server, min(QUEUES, setting.messages))
            bench.fill(setting.messages, "--groups", GROUPS)
            measure.snapshot_wait(bench.server)
            tell("what ten dashboards ask")
            dashboards = Dashboards(bench.server, "bench")
            self.note("requests a second", dashboards.per_second())
            for turn in range(setting.turns):
                for name, mode in self.KINDS.items():
                    tell(f"{name} beside ten dashboards, and without, run {turn + 1} of {setting.turns}")
                    self.note(name, self.seconds(setting, bench, mode, dashboards))
            if dashboards.failure:
                raise dashboards.failure

    def seconds(self, setting, bench, mode, dashboards):
        """Requests a second and CPU time of one, in us, with dashboards and without."""
        window_s, pairs = min(1.0, setting.seconds), max(1, round(self.PAIRS * min(1.0, setting.seconds)))
        path = os.path.join(setting.folder, "latencies")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            seconds = setting.warm_up + 2 * pairs * window_s + 1
            load = pool.submit(bench.load, mode, "--warm-up", 0, "--seconds", seconds, "--latencies", path)
            time.sleep(setting.warm_up)
            windows = []
            for kind in itertools.chain.from_iterable(random.sample(("with", "without"), 2) for _ in range(pairs)):
                (dashboards.is_open.set if kind == "with" else dashboards.is_open.clear)()
                begin_s, used_s = time.monotonic(), bench.server.cpu_s()
                time.sleep(window_s)
                windows.append((kind, begin_s, time.monotonic(), bench.server.cpu_s() - used_s))
            dashboards.is_open.clear()
            load.result()
        ended = measure.ended_during(path, [(begin_s, end_s) for _, begin_s, end_s, _ in windows])
        os.remove(path)
        found = {}
        for kind in ("with", "without"):
            count, seconds, used_s = (sum(one) for one in zip(*(
                (count, end_s - begin_s, used_s) for count, (which, begin_s, end_s, used_s) in zip(ended, windows)
                if which == kind)))
            found[kind] = {"per_s": count / seconds, "cpu_us": 1e6 * used_s / max(1, count)}
        return found

    def rows(self, setting):
        found = []
        asked = self.median_of("requests a second")
        for name in self.KINDS:
            runs = self.results.get(name, [])
            for figure, unit, what, bar in (("per_s", "/s", "requests of", {"at_least": UNDISTURBED}),
                                            ("cpu_us", "us", "CPU time of a request of", {})):
                beside, alone = ([run[kind][figure] for run in runs] for kind in ("with", "without"))
                found.append(report.row(
                    f"beside ten dashboards: {what} {name}", statistics.median(beside) if beside else None, unit,
                    f"without; with them, {report.number(asked)} requests/s more",
                    statistics.median(alone) if alone else None, unit,
                    ratios=[one / other for one, other in zip(beside, alone)], problem=self.problem, **bar))
        return found


# --- Calls ---


class Calls(Part):
    """Each call that looks into queues, on a server that does nothing else, with the arguments that cost it most."""

    key = "look.calls"
    title = "what each look takes"
    TIMES = 50

    def run(self, setting, tell):
        with Bench(setting, "bench", options=("--in-flight-max", str(2 * IN_FLIGHT))) as bench:
            tell(f"{setting.messages:,} messages, {QUEUES:,} queues")
            queues_make(bench.server, min(QUEUES, setting.messages))
            bench.fill(setting.messages, "--groups", GROUPS)
            self.take(bench, min(IN_FLIGHT, setting.messages // 10))
            measure.snapshot_wait(bench.server)
            caller, turns = Caller(bench.server), Turns(bench.server)
            for name, target, members in self.calls(bench, caller):
                tell(name)
                self.results[name] = [self.time(caller, target, members) for _ in range(self.TIMES)]
            self.note("turn", turns.longest_ms())

    @staticmethod
    def take(bench, count):
        caller = Caller(bench.server)
        for _ in range(count // 10):
            caller.call("AmazonSQS.ReceiveMessage", {"QueueUrl": bench.url("bench"), "MaxNumberOfMessages": 10,
                                                     "VisibilityTimeout": 43200})

    @staticmethod
    def time(caller, target, members):
        """Milliseconds."""
        begin_s = time.monotonic()
        if target:
            caller.call(target, members)
        else:
            caller.ask("GET", members)
        return 1000 * (time.monotonic() - begin_s)

    @staticmethod
    def calls(bench, caller):
        url = bench.url("bench")
        queue = {"QueueUrl": url}
        listed = json.loads(caller.call("Tally.ListMessages", {**queue, "MaxResults": 1}))["Messages"][0]
        message = {"MessageId": listed["MessageId"]}
        return [
            ("ListMessages, a page of 50", "Tally.ListMessages", {**queue, "MaxResults": 50}),
            ("ListMessages, 1,000 with previews", "Tally.ListMessages", {**queue, "Body": "preview"}),
            ("ListMessages, State that none has", "Tally.ListMessages", {**queue, "State": "delayed"}),
            ("ListMessages, Reason that none has", "Tally.ListMessages", {**queue, "Reason": "no"}),
            ("ListMessages, a group", "Tally.ListMessages", {**queue, "MessageGroupId": "g999"}),
            ("GetMessage with its body", "Tally.GetMessage", {**message, "Body": "full"}),
            ("ExplainMessage", "Tally.ExplainMessage", message),
            ("FindMessage by MessageId", "Tally.FindMessage", message),
            ("FindMessage by MessageDeduplicationId", "Tally.FindMessage", {**queue, "MessageDeduplicationId": "no"}),
            ("FindMessage by OutboxId, in all queues", "Tally.FindMessage", {"OutboxId": "no"}),
            ("FindMessage by Text, in all queues", "Tally.FindMessage", {"Text": "nobody wrote this"}),
            ("SummarizeFailures", "Tally.SummarizeFailures", queue),
            ("ListInFlight, 1,000 of all queues", "Tally.ListInFlight", {}),
            ("ListInFlight, a worker that has none", "Tally.ListInFlight", {"Worker": "no"}),
            ("ListDependents", "Tally.ListDependents", message),
            ("ListQueueStats, 1,000 by age", "Tally.ListQueueStats", {"SortBy": "age", "MaxResults": 1000}),
            ("ListQueueStats, 100 by name", "Tally.ListQueueStats", {"MaxResults": 100}),
            ("ListGroups", "Tally.ListGroups", {**queue, "MaxResults": 1000}),
            ("ListGroups, held", "Tally.ListGroups", {**queue, "State": "held"}),
            ("GetQueueAttributes", "AmazonSQS.GetQueueAttributes", {**queue, "AttributeNames": ["All"]}),
            ("GetSeries, an hour in 5 s", "Tally.GetSeries", {**queue, "Period": 5, "Points": 720}),
            ("DescribeServer", "Tally.DescribeServer", {}),
            ("FeedEvents", "Tally.FeedEvents", {}),
            ("PurgeQueue, DryRun", "AmazonSQS.PurgeQueue", {**queue, "DryRun": True}),
            ("DeleteMessages by Reason, DryRun", "Tally.DeleteMessages", {**queue, "Reason": "no", "DryRun": True}),
            ("/metrics", None, "/metrics"),
        ]

    def rows(self, setting):
        calls = {name: took for name, took in self.results.items() if name != "turn"}
        found = [report.row(f"{name}: p50", statistics.median(took), "ms", f"the longest of {len(took)}", max(took),
                            "ms", problem=self.problem) for name, took in calls.items()]
        longest = max(map(max, calls.values()), default=None)
        return [*found, report.row("no turn of the loop in all of these calls was above", self.median_of("turn"), "ms",
                                   "the longest call", longest, "ms", at_most=report.PAUSE_MS, bar_on_value=True,
                                   problem=self.problem)]


# --- A scrape ---


class Scrape(Part):
    """A scrape of very many queues beside a load: how long it takes, and how long it keeps the loop."""

    key = "look.scrape"
    title = "a scrape of many queues"
    RATE = 2_000  # sends a second meanwhile
    KINDS = {"/metrics": "/metrics", "10,000 with figures of their own": "/metrics?queue=queue-00*"}

    def run(self, setting, tell):
        with Bench(setting, "bench") as bench:
            count = min(QUEUES_SCRAPED, setting.messages)
            tell(f"making {count:,} queues")
            queues_make(bench.server, count)
            measure.snapshot_wait(bench.server)
            turns = Turns(bench.server)
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                for kind in ("without a scrape", *self.KINDS):
                    tell(kind)
                    seconds = max(1.0, 2 * setting.seconds)
                    scraping = pool.submit(self.scrape, bench.server, kind, seconds)
                    made = bench.load("http-send", "--rate", self.RATE, "--warm-up", 0, "--seconds", seconds)
                    self.note(f"sends, {kind}", made)
                    scraping.result()
                self.note("turn", turns.longest_ms())

    def scrape(self, server, kind, seconds):
        """One after the other, for so long."""
        caller, begin_s = Caller(server), time.monotonic()
        while kind in self.KINDS and time.monotonic() - begin_s < seconds:
            asked_s = time.monotonic()
            text = caller.ask("GET", self.KINDS[kind])
            self.note(kind, 1000 * (time.monotonic() - asked_s))
            self.results[f"bytes, {kind}"] = [len(text)]

    def rows(self, setting):
        found = []
        for kind in self.KINDS:
            sends, alone = (self.results.get(f"sends, {one}", [{}])[0].get("latency_us", {}).get("max")
                            for one in (kind, "without a scrape"))
            found.append(report.row(f"a scrape of {QUEUES_SCRAPED:,} queues, {kind}: p50", self.median_of(kind), "ms",
                                    "its size", self.median_of(f"bytes, {kind}"), "bytes", problem=self.problem))
            found.append(report.row(f"the longest of {self.RATE:,} sends a second meanwhile, {kind}",
                                    sends and sends / 1000, "ms", "without a scrape", alone and alone / 1000, "ms",
                                    problem=self.problem))
        return [*found, report.row("no turn of the loop in these scrapes was above", self.median_of("turn"), "ms",
                                   at_most=report.PAUSE_MS, bar_on_value=True, problem=self.problem)]


PARTS = [Pages, Calls, Scrape]
