"""What order, dependencies and deduplication cost, and whether the cost grows with what waits: the growth of groups,
blocked groups, fan-in, fan-out and remembered ids. Each part runs alone: bench/run --only
groups,blocked,fanin,fanout,ids."""

import shutil
import statistics
import threading
import time

from harness import measure, report, rounds
from harness.servers import RunFailed, Tallyd

GROWTH = 1.3
FIFO = "bench.fifo"
FIFO_PLAIN = {"FifoQueue": "true", "Tally.DeduplicationWindow": "0"}
LIVES_IDS = 2_000_000_000  # deduplication ids are counted from here, away from those of a fill
FAN_IN_UNITS = 100_000
FAN_OUT = 100_000
FAN_OUT_RATE = 2_000  # sends a second to another queue meanwhile


class Part:
    """One subject: runs its servers, keeps every result, and says its rows."""

    key = ""
    title = ""

    def __init__(self):
        self.results = {}
        self.problem = ""

    def note(self, name, value):
        self.results.setdefault(name, []).append(value)

    def median_of(self, name):
        found = self.results.get(name)
        return statistics.median(found) if found else None

    def run(self, setting, tell):
        raise NotImplementedError

    def rows(self, setting):
        raise NotImplementedError


class Bench:
    """A fresh tallyd with one queue, and loads on it."""

    def __init__(self, setting, queue, attributes=None, options=()):
        self.setting = setting
        self.queue = queue
        self.attributes = attributes or {}
        self.folder = setting.new_folder()
        self.server = Tallyd(self.folder, setting.server_core)
        self.server.options = options

    def __enter__(self):
        self.server.__enter__()
        try:
            self.create(self.queue, self.attributes)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *problem):
        self.server.__exit__(*problem)
        shutil.rmtree(self.folder, ignore_errors=True)

    def create(self, queue, attributes):
        self.server.call("CreateQueue", {"QueueName": queue, "Attributes": attributes})

    def url(self, queue):
        return f"http://127.0.0.1:{self.server.port}/000000000000/{queue}"

    def load(self, mode, *options, queue=None, connections=None):
        return measure.server_load(self.setting, self.server, mode, "--queue", queue or self.queue, "--connections",
                                   connections or self.setting.connections, "--body", self.setting.backlog_body,
                                   *options)

    def fill(self, messages, *options, queue=None):
        """Sends so many messages, in tens."""
        return self.load("http-batch", "--count", max(1, messages // 10), *options, queue=queue)

    def life(self, *options, connections=None):
        """One run of lives."""
        return self.load("http-life", *options, *measure.window_options(self.setting), connections=connections)

    def lives(self, *options, connections=None):
        """As many runs as set, of lives; the runs."""
        return [self.life(*options, connections=connections) for _ in range(self.setting.runs)]


def cost_of(results, name="server_cpu_us"):
    return statistics.median(result[name] for result in measure.undisturbed(results)) if results else None


def is_disturbed(*lists):
    return any((cost_of(results, "others_share") or 0) > measure.DISTURBED for results in lists)


def growth_row(part, name, many, few, which):
    """The CPU time of a message in one situation beside that in another, at most 1.3 times; by rounds, if they took
    turns."""
    return report.row(name, cost_of(many), "us", which, cost_of(few), "us", at_most=GROWTH, problem=part.problem,
                      is_disturbed=is_disturbed(many, few),
                      ratios=rounds.ratios(many or [], few or [], ("server_cpu_us",)))


# --- Groups ---


class Groups(Part):
    """Lives while as many messages wait in 1, 1,000 and very many groups. A FIFO group has one receive at a time, so
    one connection measures its single group, and many the rest; a standard queue's group has no such limit."""

    key = "groups"
    title = "lives with 1, 1,000 and many groups waiting"

    def measure_pair(self, setting, tell, kind, few, connections):
        """Two servers by turns, so that what one has to do with the time of day, the other has as well."""
        many, is_fifo = setting.messages, kind == "FIFO"
        tell(f"{kind}: {many:,} messages waiting in {few:,} and in {many:,} groups, {connections} connections")
        queue, fill_ids, ids = (FIFO, ["--id-first", 1], ["--id-first", LIVES_IDS]) if is_fifo else ("bench", [], [])
        attributes = FIFO_PLAIN if is_fifo else {}
        with Bench(setting, queue, attributes) as small, Bench(setting, queue, attributes) as large:
            for bench, groups in ((small, few), (large, many)):
                bench.fill(many, "--groups", groups, *fill_ids)
                measure.snapshot_wait(bench.server)
            of_small, of_large = measure.take_turns(
                setting, [lambda: small.life("--groups", few, *ids, connections=connections),
                          lambda: large.life("--groups", many, *ids, connections=connections)])
        self.results[f"{kind} {few} {connections}"], self.results[f"{kind} {many} beside {few}"] = of_small, of_large

    @staticmethod
    def pairs(setting):
        """Which few groups are compared with the many; the bar is about 1,000."""
        everyone = setting.connections
        ones = [("FIFO", 1, 1), ("standard", 1, everyone)] if setting.is_all else []
        return ones + [("FIFO", 1000, everyone), ("standard", 1000, everyone)]

    def run(self, setting, tell):
        for kind, few, connections in self.pairs(setting):
            self.measure_pair(setting, tell, kind, few, connections)

    def rows(self, setting):
        many = setting.messages
        made = []
        for kind, few, connections in self.pairs(setting):
            made.append(growth_row(
                self, f"growth: CPU time of a life, {kind}, {many:,} groups",
                self.results.get(f"{kind} {many} beside {few}"), self.results.get(f"{kind} {few} {connections}"),
                f"{few:,} group{'s' if few > 1 else ''}, as many messages; {connections} connection"
                f"{'s' if connections > 1 else ''}"))
        return made


class Blocked(Part):
    """Lives in a thousand free groups, with no others and beside very many whose head is in flight and whose next
    message waits behind it."""

    key = "blocked"
    title = "lives beside blocked groups"
    FREE = 1000

    def run(self, setting, tell):
        blocked = setting.messages - 1
        with Bench(setting, FIFO, FIFO_PLAIN, ("--in-flight-max", str(4 * setting.messages))) as bench:
            free = ["--groups", self.FREE, "--group-first", LIVES_IDS, "--id-first", LIVES_IDS]
            bench.fill(self.FREE, *free)
            tell("lives without blocked groups")
            self.results["none"] = bench.lives(*free)
            bench.load("http-drain")
            tell(f"blocking {blocked:,} groups")
            numbers = ["--groups", blocked, "--id-first", 1]
            bench.fill(blocked + 9, *numbers)
            taken = bench.load("http-take")
            if taken["messages"] < blocked - 9:
                raise RunFailed(f"only {taken['messages']} groups are blocked")
            bench.fill(blocked, *numbers)
            bench.fill(self.FREE, *free)
            tell(f"lives beside {blocked:,} blocked groups")
            self.results["blocked"] = bench.lives(*free)

    def rows(self, setting):
        return [growth_row(self, f"growth: CPU time of a life, {setting.messages - 1:,} groups blocked",
                           self.results.get("blocked"), self.results.get("none"), "no group blocked")]


# --- Fan-in, fan-out ---


class FanIn(Part):
    """The same number of message units, in batches of 1,000, 10,000 and all in one, each with a message that waits for
    it (Tally.After): what a delete costs that ends a unit."""

    key = "fanin"
    title = "fan-in"

    def measure_one(self, setting, tell, units, total):
        tell(f"fan-in: {total // units:,} batches of {units:,} units")
        with Bench(setting, "bench") as bench:
            bench.create("actions", {})
            for at in range(total // units):
                name = f"b{at}"
                bench.server.call_tally("CreateBatch", {"BatchId": name})
                bench.fill(units, "--attribute", f"Tally.Batch={name}")
                bench.server.call_tally("SealBatch", {"BatchId": name})
                attribute = {"Tally.After": {"DataType": "String", "StringValue": f"batch:{name}"}}
                bench.server.call("SendMessage", {"QueueUrl": bench.url("actions"), "MessageBody": name,
                                                  "MessageAttributes": attribute})
            if bench.load("http-take", queue="actions", connections=1)["messages"]:
                raise RunFailed("a message was delivered before the batch that it waits for had ended")
            result = bench.load("http-drain")
            if result["messages"] != total:
                raise RunFailed(f"{result['messages']} units were deleted of {total}")
            begin = time.monotonic()
            acted = bench.load("http-take", queue="actions", connections=1)["messages"]
            result["actions"], result["actions_s"] = acted, time.monotonic() - begin
            if acted != total // units:
                raise RunFailed(f"{acted} actions for {total // units} batches")
            self.results.setdefault(str(units), []).append(result)

    def sizes(self, setting):
        total = min(FAN_IN_UNITS, setting.messages)
        return [size for size in (1000, 10_000, 100_000) if size <= total], total

    def run(self, setting, tell):
        sizes, total = self.sizes(setting)
        for _ in range(setting.runs):
            for units in sizes:
                self.measure_one(setting, tell, units, total)

    def rows(self, setting):
        sizes, _ = self.sizes(setting)
        few = sizes[0]
        return [growth_row(self, f"fan-in: CPU time of a receive and delete, {units:,} into 1",
                           self.results.get(str(units)), self.results.get(str(few)), f"{few:,} into 1")
                for units in sizes[1:]]


class FanOut(Part):
    """Very many messages wait for one (Tally.After); when it is deleted, how long it takes until all are told, and how
    long a send to another queue has to wait meanwhile."""

    key = "fanout"
    title = "fan-out"

    def run(self, setting, tell):
        count = min(FAN_OUT, setting.messages)
        tell(f"fan-out: {count:,} messages wait for one")
        with Bench(setting, "bench") as bench:
            for queue in ("first", "other"):
                bench.create(queue, {})
            sent = bench.server.call("SendMessage", {"QueueUrl": bench.url("first"), "MessageBody": "x"})
            bench.fill(count, "--attribute", f"Tally.After=message:{sent['MessageId']}")
            held = bench.server.call("ReceiveMessage", {"QueueUrl": bench.url("first")})["Messages"][0]
            if self.visible(bench):
                raise RunFailed(f"{self.visible(bench)} messages do not wait")
            ends = {}

            def release():
                time.sleep(setting.seconds / 3)
                bench.server.call("DeleteMessage", {"QueueUrl": bench.url("first"),
                                                    "ReceiptHandle": held["ReceiptHandle"]})
                ends["deleted"] = time.monotonic()
                while self.visible(bench) < count:
                    time.sleep(0.002)
                ends["told"] = time.monotonic()

            thread = threading.Thread(target=release, daemon=True)
            thread.start()
            stalls = bench.load("http-send", "--rate", FAN_OUT_RATE, "--warm-up", 0, "--seconds",
                                max(1.0, setting.seconds), queue="other")
            thread.join(30)
            if "told" not in ends:
                raise RunFailed(f"after 30 s only {self.visible(bench)} of {count} are told")
            self.results = {"count": count, "told_s": ends["told"] - ends["deleted"], "sends": stalls}

    @staticmethod
    def visible(bench):
        name = "ApproximateNumberOfMessages"
        reply = bench.server.call("GetQueueAttributes", {"QueueUrl": bench.url("bench"), "AttributeNames": [name]})
        return int(reply["Attributes"][name])

    def rows(self, setting):
        sends = self.results.get("sends", {"latency_us": {"max": None, "p999": None}, "others_share": 0})
        count, longest = self.results.get("count", FAN_OUT), sends["latency_us"]["max"]
        disturbed = sends["others_share"] > 2 * measure.DISTURBED
        return [
            report.row(f"fan-out of 1 to {count:,}: until all are told", self.results.get("told_s"), "s", "none",
                       problem=self.problem),
            report.row("longest send to another queue meanwhile", None if longest is None else longest / 1000, "ms",
                       "none", at_most=report.PAUSE_MS, bar_on_value=True, problem=self.problem,
                       is_disturbed=disturbed),
        ]


# --- Deduplication ---


class Ids(Part):
    """Sends with deduplication ids to a queue that remembers none, and one that remembers very many."""

    key = "ids"
    title = "sends beside remembered ids"

    def run(self, setting, tell):
        attributes = {"FifoQueue": "true", "Tally.DeduplicationWindow": "86400"}
        numbers = ["--groups", 1000]
        for remembered in (0, setting.messages):
            with Bench(setting, FIFO, attributes) as bench:
                if remembered:
                    tell(f"remembering {remembered:,} ids")
                    bench.fill(remembered, *numbers, "--id-first", 1)
                    bench.server.call("PurgeQueue", {"QueueUrl": bench.url(FIFO)})
                    self.wait_until_purged(bench)
                tell(f"sends with {remembered:,} ids remembered")
                # A fixed number, so that few are remembered at first; the first run warms up.
                sends = min(100_000, setting.messages)
                self.results[str(remembered)] = [
                    bench.fill(sends, *numbers, "--id-first", LIVES_IDS + run * sends)
                    for run in range(setting.runs + 1)][1:]

    @staticmethod
    def wait_until_purged(bench):
        """The messages have gone at once, what remains of them goes in portions: until the daemon has nothing to do."""
        before = -1.0
        while True:
            now = measure.machine.cpu_of_s(bench.server.process.pid)
            if now - before < 0.02:
                return
            before = now
            time.sleep(0.5)

    def rows(self, setting):
        return [growth_row(self, f"growth: CPU time of a send, {setting.messages:,} ids remembered",
                           self.results.get(str(setting.messages)), self.results.get("0"), "none at first")]


PARTS = [Groups, Blocked, FanIn, FanOut, Ids]


def parts_run(parts, setting, tell):
    for part in parts:
        if Tallyd.find() is None:
            part.problem = "tallyd isn't there"
            continue
        try:
            part.run(setting, tell)
        except (RunFailed, OSError, KeyError) as problem:
            part.problem = str(problem)
