"""What pools come to in the end. bench-M2: how many proposals of matchers that all see the same are accepted, against
the formulas. bench-M6: offer, match, deliver and delete while the server is killed every two seconds. bench-M7: how
good the matches are, against the best that somebody who knows all tickets could make. Each part runs alone: bench/run
--only pool.conflict,pool.life,pool.quality."""

import collections
import http.client
import json
import random
import signal
import statistics
import threading
import time

from harness.pools import UNRULED, PoolBench, PoolPart
from harness.servers import RunFailed

KILL_EVERY_S = 2


class Client:
    """Actions on one connection; what fails with the server is tried again, for it is safe to repeat."""

    def __init__(self, port):
        self.port = port
        self.link = None

    def call(self, target, **body):
        while True:
            try:
                if self.link is None:
                    self.link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
                self.link.request("POST", "/", json.dumps(body).encode(),
                                  {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.0"})
                reply = self.link.getresponse()
                text = reply.read().decode()
            except (OSError, http.client.HTTPException):
                self.link = None
                time.sleep(0.005)
                continue
            if reply.status == 200:
                return json.loads(text or "{}")
            if reply.status < 500:
                raise RunFailed(f"{target} was answered with {reply.status}: {text}")
            time.sleep(0.005)


def in_threads(functions):
    """Runs them at once; the first problem of any."""
    problems = []

    def guarded(function):
        try:
            function()
        except Exception as problem:  # whatever it was, the run has failed
            problems.append(problem)

    threads = [threading.Thread(target=guarded, args=(function,), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0] if isinstance(problems[0], RunFailed) else RunFailed(repr(problems[0]))


# --- bench-M2: conflicts ---


class Conflict(PoolPart):
    """Matchers that all know the same waiting tickets propose at once. Unsplit they take the oldest hundred in the same
    pairs, so one of N is accepted; with the seeds split each seed takes a partner at random, and of m such proposals
    about n tickets 1 / (1 + 2m/n) are."""

    key = "pool.conflict"
    title = "proposals accepted of many matchers"
    MATCHERS = 8
    VIEW = 100

    def run(self, setting, tell):
        self.waiting = min(10_000, setting.messages // 4)
        self.numbers = random.Random(1)
        rounds = max(2, self.waiting // 200)
        for name, propose, count, view in (
                ("unsplit", self.unsplit, rounds, self.VIEW), ("split", self.split, rounds, self.VIEW),
                ("tenth", self.at_random(0.05), 1, None), ("all", self.at_random(0.5), 1, None)):
            tell(f"conflicts of {self.MATCHERS} matchers: {name}")
            with PoolBench(setting, UNRULED) as bench:
                bench.offer("same", self.waiting)
                waiting = [f"t{number:010d}" for number in range(self.waiting // 100 * 100)]
                proposed = accepted = 0
                expected = []
                for number in range(count):
                    seen = waiting[:view]
                    proposals = propose(seen)
                    total = sum(map(len, proposals))
                    matched = self.round(bench, proposals, number)
                    proposed, accepted = proposed + total, accepted + len(matched) // 2
                    expected.append(1 / self.MATCHERS if name == "unsplit" else 1 / (1 + 2 * total / len(seen)))
                    waiting = [ticket for ticket in waiting if ticket not in matched]
                described = bench.describe()
                if described["Matches"] != accepted or described["Tickets"]["Matched"] != 2 * accepted:
                    raise RunFailed(f"{described['Matches']} matches, and {accepted} were answered")
                self.note(name, {"share": accepted / proposed, "expected": statistics.mean(expected),
                                 "proposed": proposed, "others_share": 0.0})

    def unsplit(self, seen):
        pairs = list(zip(seen[::2], seen[1::2]))
        return [pairs] * self.MATCHERS

    def split(self, seen):
        """Each seed of mine that I have not given away takes a partner at random that I have not either."""
        made = []
        for matcher in range(self.MATCHERS):
            free, pairs = list(seen), []
            for seed in seen[matcher :: self.MATCHERS]:
                if seed in free and len(free) > 1:
                    free.remove(seed)
                    pairs.append((seed, free.pop(self.numbers.randrange(len(free)))))
            made.append(pairs)
        return made

    def at_random(self, share):
        """So many proposals, for each ticket, of two at random."""

        def propose(seen):
            pairs = [tuple(self.numbers.sample(seen, 2)) for _ in range(int(len(seen) * share))]
            return [pairs[matcher :: self.MATCHERS] for matcher in range(self.MATCHERS)]

        return propose

    @staticmethod
    def round(bench, proposals, number):
        """All matchers propose at once, in requests of ten; the tickets that were matched."""
        matched = set()

        def matcher(which, pairs):
            client = Client(bench.server.port)
            for at in range(0, len(pairs), 10):
                part = pairs[at : at + 10]
                results = client.call("Tally.ProposeMatches", PoolName="bench", Proposals=[
                    {"ProposalId": f"{number}.{which}.{at + index}",
                     "Members": [{"TicketId": ticket, "Version": 1} for ticket in pair]}
                    for index, pair in enumerate(part)])["Results"]
                for pair, result in zip(part, results):
                    if result["Status"] == "matched":
                        matched.update(pair)
                    elif result["Status"] != "conflict":
                        raise RunFailed(f"a proposal was answered with {result}")

        in_threads([lambda which=which, pairs=pairs: matcher(which, pairs) for which, pairs in enumerate(proposals)])
        return matched

    def rows(self, setting):
        titles = {"unsplit": f"{self.MATCHERS} matchers, all take the oldest",
                  "split": f"{self.MATCHERS} matchers, seeds split, of the oldest 100",
                  "tenth": "one stale view, a proposal for each 20 tickets",
                  "all": "one stale view, a proposal for each 2 tickets"}
        formula = {"unsplit": "1/N"}
        return [self.row(f"pool: share of proposals accepted, {title}", self.median(name, "share"), "",
                         formula.get(name, "1/(1 + 2m/n)"), self.median(name, "expected"), "", of=[])
                for name, title in titles.items()]


# --- bench-M6: end to end, with kills ---


class Life(PoolPart):
    """Pairs are offered, and their matches received and deleted, while the server is killed every two seconds: each
    ticket in one match, with its partner, whatever happened."""

    key = "pool.life"
    title = "offer, match, deliver, delete, under kills"
    BATCH = 100
    PRODUCERS = 2
    CONSUMERS = 4

    def run(self, setting, tell):
        tell("pairs from offer to delete, the server killed every two seconds")
        pool = {"Attributes": {"couple": "num"}, "Rules": [{"type": "near", "attr": "couple", "max": 0}]}
        seconds = 10 if setting.seconds >= 1 else KILL_EVERY_S + 0.5
        with PoolBench(setting, pool) as bench:
            self.server, self.url = bench.server, bench.url("bench")
            self.queue = "bench"
            self.is_over = threading.Event()
            self.offered = [0] * self.PRODUCERS
            self.arrived = collections.defaultdict(set)  # match id -> the couples of its members
            self.seen = collections.defaultdict(set)  # ticket -> match ids
            begin = time.monotonic()
            kills = 0

            def killer():
                nonlocal kills
                while time.monotonic() - begin < seconds:
                    time.sleep(KILL_EVERY_S)
                    self.server.stop(signal.SIGKILL)
                    self.server.start()
                    kills += 1
                self.is_over.set()

            in_threads([killer] + [lambda which=which: self.produce(which) for which in range(self.PRODUCERS)]
                       + [self.consume] * self.CONSUMERS)
            elapsed = time.monotonic() - begin
            self.verify(bench)
            self.note("life", {"matches_per_s": sum(self.offered) / 2 / elapsed, "kills": kills,
                               "matches": sum(self.offered) // 2, "others_share": 0.0})

    def produce(self, which):
        client = Client(self.server.port)
        while not self.is_over.is_set():
            first = self.offered[which]
            results = client.call("Tally.OfferTickets", PoolName="bench", Tickets=[
                {"TicketId": f"{which}-{number}", "Attributes": {"couple": number // 2 * self.PRODUCERS + which}}
                for number in range(first, first + self.BATCH)])["Results"]
            if any(result["Status"] not in ("waiting", "matched") for result in results):
                raise RunFailed(f"offers were answered with {results}")
            self.offered[which] += self.BATCH

    def consume(self):
        client = Client(self.server.port)
        while True:
            messages = client.call("AmazonSQS.ReceiveMessage", QueueUrl=self.url, MaxNumberOfMessages=10,
                                   WaitTimeSeconds=1, VisibilityTimeout=2).get("Messages", [])
            if not messages and self.is_over.is_set() and self.server.held() == 0:
                return  # what a reply held that was lost in a kill comes again
            for message in messages:
                body = json.loads(message["Body"])
                for member in body["members"]:
                    self.seen[member["ticket"]].add(body["match"])
                    self.arrived[body["match"]].add(member["attributes"]["couple"])
            if messages:
                client.call("AmazonSQS.DeleteMessageBatch", QueueUrl=self.url, Entries=[
                    {"Id": str(at), "ReceiptHandle": message["ReceiptHandle"]} for at, message in enumerate(messages)])

    def verify(self, bench):
        bench.link = None  # it ended with the first kill
        tickets = sum(self.offered)
        twice = sum(len(matches) > 1 for matches in self.seen.values())
        apart = sum(len(couples) > 1 for couples in self.arrived.values())
        described = bench.describe()["Tickets"]
        if (twice or apart or len(self.seen) != tickets or described["Matched"] != tickets
            or described["Offered"] != tickets):
            raise RunFailed(f"{tickets} tickets offered, {len(self.seen)} arrived, {twice} twice, "
                            f"{apart} matches of two couples, and the pool says {described}")

    def rows(self, setting):
        kills = self.median("life", "kills")
        return [self.row("pool: offer to delete, killed every 2 s", self.median("life", "matches_per_s"), "/s",
                         f"{kills or 0:g} kills; nothing lost, nothing twice", of=[])]


# --- bench-M7: how good are they? ---


class Quality(PoolPart):
    """Tickets come one after the other, with two values near which a partner must be; each match has a distance. The
    best is what somebody could do who knew all tickets before: as many matches as can be, and of those the nearest."""

    key = "pool.quality"
    title = "matches against the best that could be made"
    RANGE = 1_000
    NEAR = 25
    RATE = 400
    WINDOWS = (0, 200, 1_000)

    def run(self, setting, tell):
        try:
            import networkx
        except ImportError as problem:
            raise RunFailed("python3-networkx isn't there; ./setup bench brings it") from problem
        count = 1_600 if setting.seconds >= 1 else 300
        numbers = random.Random(1)
        points = {
            f"t{number}": (numbers.uniform(0, self.RANGE), numbers.uniform(0, self.RANGE)) for number in range(count)}
        tell(f"the best matches of {count} tickets")
        self.note("best", self.best(networkx, points))
        for window in self.WINDOWS:
            tell(f"matches of {count} tickets, a window of {window} ms")
            self.note(str(window), self.tally_run(setting, points, window))

    @staticmethod
    def distance(a, b):
        return abs(a[0] - b[0])

    def best(self, networkx, points):
        graph = networkx.Graph()
        names = sorted(points)
        for at, one in enumerate(names):
            for other in names[at + 1 :]:
                if all(abs(x - y) <= self.NEAR for x, y in zip(points[one], points[other])):
                    graph.add_edge(one, other, weight=self.NEAR + 1 - self.distance(points[one], points[other]))
        pairs = networkx.max_weight_matching(graph, maxcardinality=True)
        return {**self.quality(points, pairs), "edges": graph.number_of_edges(), "p50": None, "p99": None,
                "others_share": 0.0}

    def quality(self, points, pairs):
        distances = [self.distance(points[one], points[other]) for one, other in pairs]
        return {"share": 2 * len(distances) / len(points), "distance": statistics.mean(distances)}

    def tally_run(self, setting, points, window):
        pool = {"Attributes": {"x": "num", "y": "num"}, "Pick": "nearest:x", "WindowMilliseconds": window,
                "Rules": [{"type": "near", "attr": name, "max": self.NEAR} for name in "xy"]}
        with PoolBench(setting, pool) as bench:
            begin = time.monotonic()
            for number, (name, (x, y)) in enumerate(points.items()):
                time.sleep(max(0.0, begin + number / self.RATE - time.monotonic()))
                bench.call("OfferTickets", Tickets=[{"TicketId": name, "Attributes": {"x": x, "y": y}}])
            time.sleep(window / 1000 + 0.1)
            bench.wait_until_quiet()
            pairs, waited = [], []
            while messages := bench.server.call(
                    "ReceiveMessage", {"QueueUrl": bench.url("bench"), "MaxNumberOfMessages": 10}).get("Messages"):
                for message in messages:
                    members = json.loads(message["Body"])["members"]
                    one, other = (points[member["ticket"]] for member in members)
                    if any(abs(x - y) > self.NEAR for x, y in zip(one, other)):
                        raise RunFailed(f"these don't fit: {message['Body']}")
                    pairs.append(tuple(member["ticket"] for member in members))
                    waited += [member["waitedMs"] for member in members]
            if len(pairs) != bench.describe()["Matches"] or not pairs:
                raise RunFailed(f"{len(pairs)} matches arrived of {bench.describe()['Matches']}")
        waited.sort()
        return {**self.quality(points, pairs), "p50": statistics.median(waited), "p99": waited[int(len(waited) * 0.99)],
                "others_share": 0.0}

    def rows(self, setting):
        made = []
        for window in self.WINDOWS:
            how = "at once" if window == 0 else f"a window of {window} ms"
            name = str(window)
            made += [
                self.row(f"pool: share of tickets matched, {how}", self.median(name, "share"), "",
                         "the best, all known before", self.median("best", "share"), "", of=[]),
                self.row(f"pool: mean distance in a match, {how}", self.median(name, "distance"), "",
                         "the best, all known before", self.median("best", "distance"), "", of=[]),
                self.row(f"pool: wait of the matched, {how}, p50", self.median(name, "p50"), "ms", "p99",
                         self.median(name, "p99"), "ms", of=[]),
            ]
        return made


PARTS = [Conflict, Life, Quality]
