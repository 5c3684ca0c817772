"""Pools: what a match costs, and whether that grows with what waits. bench-M1 (the rate, and the commit alone beside
Redis and PostgreSQL: pool_peers.py), bench-M3 search, bench-M4 and bench-M5. Each part runs alone: bench/run --only
pool.rate,pool.search,…"""

import http.client
import json
import statistics
import threading
import time

from harness import machine, measure, report
from harness.order import Bench, Part, is_disturbed
from harness.servers import RunFailed

MATCHES = 50_000  # durable ones in a second, 100,000 waiting
GROWTH = 2.0  # of the cost of a ticket, from 1,000 waiting to 1,000,000
PAUSE_MS = 20  # p99 of a send to another queue meanwhile
OTHER_RATE = 2_000
BATCH = 100
FIT_ROUND = 2_000  # tickets of the kind fit: half take away some that wait, half are left in their place
ARRIVALS = 2_000_000_000  # the numbers of tickets that come later begin here
PATIENCE_S = 120

EQUAL = {"type": "equal", "attr": "mode"}
NEAR = {"type": "near", "attr": "mmr", "max": 50}
LADDER = {"Attributes": {"mode": "str", "mmr": "num"}, "Rules": [EQUAL, NEAR]}
MAPS = {"Attributes": {"mode": "str", "mmr": "num", "maps": "set"},
        "Rules": [EQUAL, NEAR, {"type": "share", "attr": "maps", "min": 1}]}
ANYBODY = {"Attributes": {"mode": "str"}, "Rules": [EQUAL]}
UNRULED = {"Attributes": {"mode": "str"}, "Rules": [], "Matcher": "external"}
TEAMS = {
    "Attributes": {"region": "str", "mode": "str", "skill": "num"},
    "Teams": [{"name": "red", "size": 6}, {"name": "blue", "size": 6}],
    "Rules": [{"type": "equal", "attr": "region"}, EQUAL, {"type": "near", "attr": "skill", "max": 0.01}],
}


class PoolBench(Bench):
    """A fresh tallyd with a queue `bench` and a pool `bench` whose results go there."""

    def __init__(self, setting, pool, options=()):
        super().__init__(setting, "bench", options=options)
        self.pool = pool
        self.link = None

    def __enter__(self):
        super().__enter__()
        try:
            self.call("CreatePool", **{"ResultQueueUrl": self.url("bench"), **self.pool})
        except BaseException:
            self.__exit__()
            raise
        return self

    def call(self, action, **body):
        """An action about the pool, on a connection that stays."""
        if self.link is None:
            self.link = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        headers = {"X-Amz-Target": f"Tally.{action}", "Content-Type": "application/x-amz-json-1.0"}
        self.link.request("POST", "/", json.dumps({"PoolName": "bench", **body}).encode(), headers)
        reply = self.link.getresponse()
        text = reply.read().decode()
        if reply.status != 200:
            raise RunFailed(f"{action} was answered with {reply.status}: {text}")
        return json.loads(text or "{}")

    def describe(self):
        return self.call("DescribePool")

    def offer(self, kind, tickets, first=0, connections=8):
        """Offers so many tickets of a kind, in hundreds or a little fewer; what the generator says of it."""
        batch = next(size for size in range(min(BATCH, tickets), 0, -1) if tickets % size == 0)
        return measure.server_load(self.setting, self.server, "pool-offer", "--tickets", kind, "--connections",
                                   min(connections, tickets // batch), "--batch", batch, "--count", tickets // batch,
                                   "--id-first", first)

    def wait(self, claim, what):
        """Until claim(description) is true; the description."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            described = self.describe()
            if claim(described):
                return described
            if time.monotonic() > deadline:
                raise RunFailed(
                    f"after {PATIENCE_S} s not yet: {what}; {described['Tickets']}, {described['Matches']} matches")
            time.sleep(0.002)

    def wait_until_quiet(self):
        return self.wait(lambda described: described["Seeds"] == 0, "no ticket is left to be looked at")

    def fill(self, kind, tickets):
        """Tickets that wait; bytes of memory that each costs."""
        before = machine.anonymous_memory_of(self.server.process.pid)
        filled = self.offer(kind, tickets)["messages"]
        described = self.wait_until_quiet()
        if described["Tickets"]["Waiting"] != filled:
            raise RunFailed(f"{described['Tickets']['Waiting']} tickets wait of {filled}")
        return (machine.anonymous_memory_of(self.server.process.pid) - before) / filled

    def results_purge(self):
        self.server.call("PurgeQueue", {"QueueUrl": self.url("bench")})


class PoolPart(Part):
    def all(self, name, figure):
        return [entry[figure] for entry in measure.undisturbed(self.results.get(name, []))]

    def median(self, name, figure):
        found = self.all(name, figure)
        return statistics.median(found) if found else None

    def row(self, name, value, unit, *rest, of=(), **more):
        """A row whose figure comes from these results."""
        disturbed = is_disturbed(*(self.results.get(one) for one in of))
        return report.row(name, value, unit, *rest, problem=self.problem, is_disturbed=disturbed, **more)


def share_of_others(setting, server, before):
    return measure.Clocks.read(setting, server).others_since(before)


# --- bench-M1: the rate ---


class Rate(PoolPart):
    """Pairs arrive as fast as they are taken while others wait whom nobody fits: durable matches in a second, from the
    first offer until the last result stands in its queue, and the CPU time of a ticket. With the most waiting, sends to
    another queue meanwhile."""

    key = "pool.rate"
    title = "durable matches of the built-in matcher"

    def sizes(self, setting):
        """The bar is about 100,000."""
        sizes = (1_000, 100_000, 1_000_000) if setting.is_all else (100_000,)
        return [size for size in sizes if size <= setting.messages]

    def run(self, setting, tell):
        for size in self.sizes(setting):
            tell(f"pool with {size:,} waiting: filling")
            with PoolBench(setting, LADDER) as bench:
                ticket_bytes = bench.fill("alone", size)
                first = ARRIVALS
                tickets = max(FIT_ROUND, min(300_000, setting.messages // 2) // FIT_ROUND * FIT_ROUND)
                for run in range(setting.runs):
                    for kind, name in (("pair", str(size)), ("fit", f"fit {size}")):
                        for _ in range(1 + setting.retries):
                            tell(f"pool with {size:,} waiting: matches ({kind}), run {run + 1} of {setting.runs}")
                            result = self.matches(setting, bench, kind, first, tickets)
                            first += tickets
                            if result["others_share"] <= measure.DISTURBED:
                                break
                        self.note(name, {**result, "ticket_bytes": ticket_bytes})
                if setting.is_all and size == self.sizes(setting)[-1]:
                    tell(f"pool with {size:,} waiting: sends to another queue, alone and meanwhile")
                    bench.create("other", {})
                    self.note("sends alone", self.sends(setting, bench))
                    self.note("sends", self.sends_meanwhile(setting, bench, first))

    def matches(self, setting, bench, kind, first, tickets):
        before_matches = bench.describe()["Matches"]
        clocks, begin = measure.Clocks.read(setting, bench.server), time.monotonic()
        offered = bench.offer(kind, tickets, first=first, connections=setting.connections)
        bench.wait(lambda described: described["Matches"] - before_matches >= tickets // 2, "every pair is a match")
        seconds = time.monotonic() - begin
        server_s = machine.cpu_of_s(bench.server.process.pid) - clocks.server_s
        share = share_of_others(setting, bench.server, clocks)
        bench.server.check({"sent": tickets // 2, "deleted": 0})
        bench.results_purge()
        return {"matches_per_s": tickets / 2 / seconds, "ticket_us": server_s / tickets * 1e6, "others_share": share,
                "offer_latency_us": offered["latency_us"], "generator_share": offered["generator_share"]}

    @staticmethod
    def sends(setting, bench):
        """Their latency, counted from when each was due."""
        return bench.load("http-send", "--rate", OTHER_RATE, "--warm-up", 0.5, "--seconds", max(1.0, setting.seconds),
                          queue="other")

    def sends_meanwhile(self, setting, bench, first):
        """While pairs come as fast as they are taken."""
        problems = []

        def arrivals():
            try:
                measure.load_run(
                    setting, "pool-offer", "--port", bench.server.port, "--tickets", "pair", "--connections", 4,
                    "--batch", BATCH, "--id-first", first, "--warm-up", 0, "--seconds", max(1.0, setting.seconds) + 1)
            except RunFailed as problem:
                problems.append(problem)

        matches = bench.describe()["Matches"]
        thread = threading.Thread(target=arrivals, daemon=True)
        thread.start()
        begin = time.monotonic()
        result = self.sends(setting, bench)
        result["matches_per_s"] = (bench.describe()["Matches"] - matches) / (time.monotonic() - begin)
        thread.join(60)
        if problems:
            raise problems[0]
        return result

    def rows(self, setting):
        sizes = self.sizes(setting)
        made = []
        for size in sizes:
            is_bar = size == 100_000 or size == sizes[-1] < 100_000
            made.append(self.row(f"pool: durable matches, {size:,} waiting", self.median(str(size), "matches_per_s"),
                                 "/s", "built-in matcher: equal, near", of=[str(size)],
                                 at_least=MATCHES if is_bar else None, bar_on_value=True))
            made.append(self.row(f"pool: durable matches with one of the {size:,} that wait",
                                 self.median(f"fit {size}", "matches_per_s"), "/s", "both of a pair are newcomers",
                                 self.median(str(size), "matches_per_s"), "/s", of=[f"fit {size}"]))
        if not setting.is_all:
            return made
        most = sizes[-1]
        made.append(self.row(f"pool: CPU time of a ticket, {most:,} waiting", self.median(str(most), "ticket_us"), "us",
                             f"{sizes[0]:,} waiting", self.median(str(sizes[0]), "ticket_us"), "us",
                             of=[str(most), str(sizes[0])], at_most=GROWTH))
        p99, alone = (self.results[name][0]["latency_us"]["p99"] / 1000 if name in self.results else None
                      for name in ("sends", "sends alone"))
        made.append(
            self.row(f"pool: p99 of a send to another queue, {most:,} waiting", p99, "ms", "while nothing is matched",
                     alone, "ms", of=["sends"], at_most=PAUSE_MS, bar_on_value=True))
        return made


# --- bench-M3: search ---


class Search(PoolPart):
    """Very many wait of whom hundreds are near each newcomer and none shares a map with it. A pair is offered and its
    match received, by one client, again and again: arrival to match in hand, candidates of a look, and the memory of a
    ticket."""

    key = "pool.search"
    title = "arrival to match beside many that don't fit"

    def sizes(self, setting):
        return [size for size in (1_000, 10_000, 100_000, 1_000_000) if size <= setting.messages]

    def run(self, setting, tell):
        for size in self.sizes(setting):
            tell(f"search: {size:,} waiting")
            with PoolBench(setting, MAPS) as bench:
                ticket_bytes = bench.fill("alone-maps", size)
                before = bench.describe()
                result = measure.server_load(
                    setting, bench.server, "pool-duel", "--tickets", "pair-maps", "--connections", 1, "--batch", 2,
                    "--id-first", ARRIVALS, *measure.window_options(setting))
                after = bench.describe()
                result["ticket_bytes"] = ticket_bytes
                result["candidates"] = (after["Candidates"] - before["Candidates"]) / max(
                    1, after["Probes"] - before["Probes"])
                self.note(str(size), result)

    def rows(self, setting):
        sizes = self.sizes(setting)
        few = str(sizes[0])
        made = []
        for size in sizes:
            result = (self.results.get(str(size)) or [None])[0]
            p50, p99 = ((result["latency_us"][which] if result else None) for which in ("p50", "p99"))
            made.append(self.row(f"pool: offer of a pair to its match in hand, {size:,} waiting, p50", p50, "us",
                                 "p99 of the same", p99, "us", of=[str(size)]))
            made.append(self.row(f"pool: candidates of a look, {size:,} waiting", result and result["candidates"], "",
                                 "equal, near, share", of=[]))
        most = str(sizes[-1])
        made.append(
            self.row("pool: memory of a waiting ticket with its attributes", self.median(most, "ticket_bytes"), "bytes",
                     f"at {sizes[-1]:,}; at {sizes[0]:,}", self.median(few, "ticket_bytes"), "bytes", of=[]))
        return made


# --- bench-M4: everything matches, or nothing ---


class Pass(PoolPart):
    """The shape of Nakama's own benchmarks: N tickets wait, then one pass begins; until the result of the last is in
    its queue. N that fit all, N of which none fits another."""

    key = "pool.pass"
    title = "one pass over all tickets"
    ALL = (100, 500, 1_000, 10_000, 100_000, 1_000_000)
    NONE = (50, 100, 250, 5_000, 10_000)

    def run(self, setting, tell):
        for count in self.sizes(setting):
            tell(f"one pass over {count:,} tickets that fit each other")
            self.note(f"all {count}",
                      self.measure_one(setting, {**ANYBODY, "Matcher": "external"}, "same", count, count // 2))
        for count in self.NONE:
            tell(f"one pass over {count:,} tickets that fit nobody")
            self.note(f"none {count}", self.measure_one(setting, {**LADDER, "Matcher": "external"}, "alone", count, 0))

    def sizes(self, setting):
        return [count for count in self.ALL if count <= setting.messages]

    def measure_one(self, setting, pool, kind, count, matches):
        """New rules with the built-in matcher: every waiting ticket is looked at once."""
        with PoolBench(setting, pool) as bench:
            bench.offer(kind, count)
            clocks, begin = measure.Clocks.read(setting, bench.server), time.monotonic()
            bench.call("UpdatePool", Matcher="built-in", Rules=pool["Rules"],
                       Pick="first")
            probes = 0 if matches else count  # nobody was looked for before
            bench.wait(lambda described: described["Matches"] >= matches and described["Probes"] >= probes
                       and described["Seeds"] == 0, f"{matches} matches, {probes} looks")
            seconds = time.monotonic() - begin
            bench.server.check({"sent": matches, "deleted": 0})
            return {"seconds": seconds, "tickets_per_s": count / seconds,
                    "others_share": share_of_others(setting, bench.server, clocks)}

    def rows(self, setting):
        made = []
        for count in self.sizes(setting):
            name, of = f"pool: one pass, {count:,} tickets that all fit", [f"all {count}"]
            made.append(self.row(f"{name}: until all are matched", self.median(of[0], "seconds"), "s", of=of))
            made.append(self.row(f"{name}: tickets in a second", self.median(of[0], "tickets_per_s"), "/s", of=of))
        return made + [self.row(f"pool: one pass, {count:,} tickets that fit nobody",
                                self.median(f"none {count}", "seconds"), "s", of=[f"none {count}"])
                       for count in self.NONE]


# --- bench-M5: teams ---


class Team(PoolPart):
    """Open Match's `teamshooter`: two teams of six, two regions, two modes 100 to 25, skill N(0, 1) cut at 3, and
    nobody further from another than
    0.01."""

    key = "pool.team"
    title = "twelve players in two teams"

    def run(self, setting, tell):
        count = min(100_000, setting.messages)
        for run in range(setting.runs):
            tell(f"teams of {count:,} players, run {run + 1} of {setting.runs}")
            with PoolBench(setting, TEAMS) as bench:
                clocks, begin = measure.Clocks.read(setting, bench.server), time.monotonic()
                bench.offer("player", count)
                described = bench.wait_until_quiet()
                seconds = time.monotonic() - begin
                share = share_of_others(setting, bench.server, clocks)
                matches = described["Matches"]
                if not matches:
                    raise RunFailed("no twelve players were matched")
                self.note("teams", {**self.spread(bench, matches), "matches_per_s": matches / seconds,
                                    "others_share": share, "matched_share": 12 * matches / count})

    @staticmethod
    def spread(bench, matches):
        """Of the skills in a match, and between the means of its teams; of up to 1,000 matches."""
        spreads, apart = [], []
        for _ in range(min(matches, 1_000) // 10):
            for message in bench.server.call(
                    "ReceiveMessage", {"QueueUrl": bench.url("bench"), "MaxNumberOfMessages": 10}).get("Messages", []):
                members = json.loads(message["Body"])["members"]
                teams = {}
                for member in members:
                    teams.setdefault(member["team"], []).append(member["attributes"]["skill"])
                if sorted(map(len, teams.values())) != [6, 6]:
                    raise RunFailed(f"these are not two teams of six: {message['Body']}")
                skills = [skill for team in teams.values() for skill in team]
                spreads.append(max(skills) - min(skills))
                first, second = (statistics.mean(team) for team in teams.values())
                apart.append(abs(first - second))
        return {"spread": statistics.mean(spreads) if spreads else None,
                "apart": statistics.mean(apart) if apart else None}

    def rows(self, setting):
        share = 100 * (self.median("teams", "matched_share") or 0)
        return [
            self.row("pool: matches of two teams of six", self.median("teams", "matches_per_s"), "/s",
                     f"none; {share:.0f} % of the players", of=["teams"]),
            self.row("pool: mean spread of skill in a match", self.median("teams", "spread"), "",
                     "between the teams' means", self.median("teams", "apart"), "", of=[]),
        ]


PARTS = [Rate, Search, Pass, Team]
