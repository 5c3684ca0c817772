"""What it costs to look inside: open dashboards, each call that only reads, a scrape of many queues.
bench/run --only look.pages,look.calls,look.scrape."""

import concurrent.futures
import http.client
import json
import math
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
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
    """Ten of them, which ask nothing while they are paused."""

    def __init__(self, server, queue):
        node = shutil.which("node")
        self.process = subprocess.Popen([node, DASHBOARDS, str(server.port), queue], stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "open\n":
            raise RunFailed("the dashboards don't open")

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def close(self):
        """Returns how many requests they sent."""
        if self.process.poll() is not None:
            raise RunFailed("the dashboards have ended")
        self.go_on()
        self.process.terminate()
        return int(self.process.communicate(timeout=30)[0])


class Pages(Part):
    """Sends and lives beside ten open dashboards, and without them, by turns: short slices, two of a kind one after the
    other, because what a flush takes changes from one second to the next. The dashboards are Node.js on the load's
    core, and run the pages' own code for what to ask."""

    key = "look.pages"
    title = "sends and lives beside ten dashboards"
    KINDS = {"SendMessage": "http-send", "send, receive, delete in tens": "http-life"}
    SLICES = 4
    OPENING_S = 10  # until each has asked for what it asks for more rarely

    def run(self, setting, tell):
        if shutil.which("node") is None:
            raise RunFailed("node isn't there")
        with Bench(setting, "bench") as bench:
            tell(f"{setting.messages:,} messages, {QUEUES:,} queues")
            queues_make(bench.server, min(QUEUES, setting.messages))
            bench.fill(setting.messages, "--groups", GROUPS)
            measure.snapshot_wait(bench.server)
            dashboards = Dashboards(bench.server, "bench")
            try:
                time.sleep(min(self.OPENING_S, 4 * setting.seconds))
                open_s = 0.0
                for turn in range(setting.turns * self.SLICES):
                    tell(f"beside ten dashboards, and without, slice {turn + 1} of {setting.turns * self.SLICES}")
                    open_s += self.slices(setting, bench, dashboards)
            finally:
                requests = dashboards.close()
            self.note("requests a second", requests / (open_s + self.OPENING_S))

    def slices(self, setting, bench, dashboards):
        """Returns how long the dashboards were open."""
        open_s = 0.0
        for name, mode in self.KINDS.items():
            for kind in random.sample(("with", "without"), 2):
                (dashboards.go_on if kind == "with" else dashboards.pause)()
                begin_s = time.monotonic()
                made = bench.load(mode, *measure.window_options(setting))
                open_s += time.monotonic() - begin_s if kind == "with" else 0
                self.note(f"{name} {kind}", made)
        return open_s

    def rows(self, setting):
        found = []
        asked = f"without; with them, {report.number(self.median_of('requests a second'))} requests/s more"
        for name in self.KINDS:
            beside, alone = (self.results.get(f"{name} {kind}", []) for kind in ("with", "without"))
            for figure, unit, bar in (("messages_per_s", "/s", {"at_least": UNDISTURBED}), ("server_cpu_us", "us", {})):
                what = "" if unit == "/s" else ", CPU time of a message"
                with_them, without = ([one[figure] for one in runs] for runs in (beside, alone))
                found.append(report.row(
                    f"beside ten dashboards: {name}{what}", statistics.median(with_them) if with_them else None, unit,
                    asked, statistics.median(without) if without else None, unit,
                    ratios=[one / other for one, other in zip(with_them, without)], problem=self.problem, **bar))
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
