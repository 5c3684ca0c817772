"""bench-M1, the commit alone: pairs that were found before are proposed, each is a durable match or none. Beside it, in
Redis one script that deletes both keys and adds the result to a stream, and in PostgreSQL one transaction that locks
both rows, deletes them and inserts the result; there the whole way, too, with the search in SQL. Runs alone: bench/run
--only pool.commit."""

import os
import shutil
import statistics
import subprocess
import tempfile

from harness import machine, measure, report
from harness.peers import Postgres
from harness.pools import UNRULED, PoolBench, PoolPart
from harness.servers import Redis, RunFailed

# Clients, pairs in a request, and how many pairs in all; of PostgreSQL a quarter.
SHAPES = [(1, 1, 4_000), (8, 1, 20_000), (64, 1, 60_000), (1, 100, 60_000), (8, 100, 100_000), (64, 100, 200_000)]
SEARCH_WAITING = 100_000
SEARCH_PAIRS = 20_000

SCHEMA = """
CREATE TABLE ticket (id bigint PRIMARY KEY, mode int NOT NULL, mmr bigint NOT NULL);
CREATE INDEX ticket_search ON ticket (mode, mmr);
CREATE TABLE result (id bigserial PRIMARY KEY, a bigint NOT NULL, b bigint NOT NULL);

-- Pairs that were found before: pair n has the tickets 2n and 2n + 1.
CREATE FUNCTION claim(first bigint, pairs int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE claimed int := 0; locked int;
BEGIN
    FOR pair IN first .. first + pairs - 1 LOOP
        PERFORM id FROM ticket WHERE id IN (2 * pair, 2 * pair + 1) ORDER BY id FOR UPDATE SKIP LOCKED;
        GET DIAGNOSTICS locked = ROW_COUNT;
        CONTINUE WHEN locked < 2;
        DELETE FROM ticket WHERE id IN (2 * pair, 2 * pair + 1);
        INSERT INTO result (a, b) VALUES (2 * pair, 2 * pair + 1);
        claimed := claimed + 1;
    END LOOP;
    RETURN claimed;
END $$;

-- Two tickets arrive; the second looks for a partner in its window, and takes it if nobody else has.
CREATE FUNCTION arrive(first bigint, pairs int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE claimed int := 0; partner bigint; at bigint; kind int;
BEGIN
    FOR pair IN first .. first + pairs - 1 LOOP
        at := pair % 100000 * 200 + 100;
        kind := pair % 8;
        INSERT INTO ticket VALUES (2 * pair, kind, at), (2 * pair + 1, kind, at);
        SELECT id INTO partner FROM ticket WHERE mode = kind AND mmr BETWEEN at - 50 AND at + 50 AND id <> 2 * pair + 1
            ORDER BY mmr LIMIT 1 FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN partner IS NULL;
        DELETE FROM ticket WHERE id IN (partner, 2 * pair + 1);
        INSERT INTO result (a, b) VALUES (partner, 2 * pair + 1);
        claimed := claimed + 1;
    END LOOP;
    RETURN claimed;
END $$;
"""
FILL = {
    "claim": "INSERT INTO ticket SELECT id, id % 8, id FROM generate_series({first}::bigint, {last}) id",
    "arrive": "INSERT INTO ticket SELECT -id, id % 8, id * 200 FROM generate_series(1::bigint, {last}) id",
}


class PostgresTickets(Postgres):
    """A table of tickets, and pgbench as its client, on the core of the loads."""

    @classmethod
    def find(cls):
        return super().find() if cls.tool("pgbench") and cls.tool("psql") else None

    @classmethod
    def tool(cls, name):
        server = super().find()
        beside = os.path.join(os.path.dirname(server), name) if server else ""
        return beside if os.access(beside, os.X_OK) else shutil.which(name)

    def sql(self, text):
        done = subprocess.run([self.tool("psql"), "-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", self.uri],
                              input=text, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise RunFailed(f"psql: {done.stderr.strip()[:300]}")
        return done.stdout.strip()

    def pairs_run(self, function, clients, batch, pairs, first):
        """So many pairs by one of the functions above; rate and latency of a transaction. Each client has pairs of its
        own."""
        transactions = max(1, pairs // (clients * batch))
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "script.sql")
            with open(script, "w", encoding="utf-8") as file:
                file.write(f"\\set i :i + 1\n\\set pair {first} + (:client_id * {transactions} + :i) * {batch}\n"
                           f"SELECT {function}(:pair, {batch});\n")
            begin_s, before = machine.tree_cpu_s(self.process.pid), int(self.sql("SELECT count(*) FROM result"))
            syncs = int(self.sql("SELECT wal_sync FROM pg_stat_wal"))
            done = subprocess.run(
                [self.tool("pgbench"), "-n", "-M", "prepared", "-c", str(clients), "-j", "1", "-t", str(transactions),
                 "-D", "i=-1", "-l", "--log-prefix", os.path.join(folder, "log"), "-f", script, self.uri],
                capture_output=True, text=True, timeout=300, check=False)
            if done.returncode != 0:
                raise RunFailed(f"pgbench: {done.stderr.strip()[-300:]}")
            entries = [line.split() for name in os.listdir(folder) if name.startswith("log")
                       for line in machine.read(os.path.join(folder, name)).splitlines()]
        self.sql("SELECT pg_stat_clear_snapshot()")
        made = int(self.sql("SELECT count(*) FROM result")) - before
        if made != transactions * clients * batch:
            raise RunFailed(f"{made} results for {transactions * clients * batch} pairs")
        ends = [float(entry[4]) + float(entry[5]) / 1e6 for entry in entries]
        latencies = sorted(float(entry[2]) for entry in entries)
        seconds = max(ends) - min(
            end - latency / 1e6 for end, latency in zip(ends, (float(entry[2]) for entry in entries)))
        return {"messages_per_s": made / seconds, "latency_us": {"p50": statistics.median(latencies),
                                                                "p99": latencies[int(len(latencies) * 0.99)]},
                "server_cpu_us": (machine.tree_cpu_s(self.process.pid) - begin_s) / made * 1e6,
                "syncs_per_s": (int(self.sql("SELECT wal_sync FROM pg_stat_wal")) - syncs) / seconds,
                "others_share": 0.0}


class RedisTickets(Redis):
    """Keys for tickets."""

    def fill(self, first, count):
        for at in range(first, first + count, 10_000):
            last = min(at + 10_000, first + count) - 1
            answer = self.converse(
                f"EVAL \"for i=ARGV[1],ARGV[2] do redis.call('SET',string.format('t%010d',i),'1') end\" 0 {at} {last}")
            if not answer.startswith("$-1"):
                raise RunFailed(f"Redis: {answer.strip()[:200]}")

    def results(self):
        return int(self.converse("XLEN bench").strip().lstrip(":"))


class RedisTicketsSecond(RedisTickets):
    name = "Redis, appendfsync everysec"
    durability = "a second later"
    options = ["--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0"]


class Commit(PoolPart):
    key = "pool.commit"
    title = "pairs proposed, claimed by a script, claimed by a transaction"
    PEERS = {"always": RedisTickets, "everysec": RedisTicketsSecond}

    def __init__(self):
        super().__init__()
        self.peer_problem = {}

    def run(self, setting, tell):
        self.setting = setting
        for name, server in self.PEERS.items():
            self.peer_run(name, server, lambda running, name=name: self.redis_run(setting, running, name, tell))
        self.peer_run("postgres", PostgresTickets, lambda running: self.postgres_run(setting, running, tell))
        tell("commit of pairs: Tally")
        with PoolBench(setting, UNRULED) as bench:
            first = 0
            for clients, batch, pairs in self.shapes(setting):
                bench.offer("same", 2 * pairs, first=2 * first)
                frames = self.frames(bench)
                result = measure.server_load(
                    setting, bench.server, "pool-propose", *self.options(clients, batch, pairs, first))
                result["syncs_per_s"] = (self.frames(bench) - frames) / result["seconds"]
                bench.server.check({"sent": pairs, "deleted": 0})
                bench.results_purge()
                self.note(f"tally {clients} {batch}", result)
                first += pairs

    @staticmethod
    def options(clients, batch, pairs, first):
        return ["--connections", clients, "--batch", batch, "--count", pairs // batch, "--id-first", first]

    @staticmethod
    def shapes(setting):
        """Whole requests for each client, as many pairs as the size of the run allows."""
        return [(clients, batch,
                 max(1, min(pairs, pairs * setting.messages // 1_000_000) // (clients * batch)) * clients * batch)
                for clients, batch, pairs in SHAPES]

    @staticmethod
    def frames(bench):
        """Records that are durable: the other half of what a flush is about."""
        import http.client
        link = http.client.HTTPConnection("127.0.0.1", bench.server.port, timeout=60)
        link.request("GET", "/metrics")
        lines = link.getresponse().read().decode().splitlines()
        link.close()
        return sum(float(line.split()[1]) for line in lines if line.startswith("tally_frames_durable_total"))

    def peer_run(self, name, server, run):
        if server.find() is None:
            self.peer_problem[name] = f"{server.program} isn't there; ./setup bench brings it"
            return
        folder = self.setting.new_folder()
        try:
            with server(folder, self.setting.server_core) as running:
                run(running)
        except (RunFailed, OSError, ValueError, subprocess.TimeoutExpired) as problem:
            self.peer_problem[name] = str(problem)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def redis_run(self, setting, server, name, tell):
        first = 0
        for clients, batch, pairs in self.shapes(setting):
            tell(f"commit of pairs: {server.name}, {clients} clients, {batch} in a request")
            server.fill(2 * first, 2 * pairs)
            before = server.results()
            result = measure.server_load(setting, server, "redis-claim", *self.options(clients, batch, pairs, first))
            if server.results() - before != pairs:
                raise RunFailed(f"{server.results() - before} results for {pairs} pairs")
            self.note(f"{name} {clients} {batch}", result)
            first += pairs

    def postgres_run(self, setting, server, tell):
        server.sql(SCHEMA)
        first = 1
        for clients, batch, pairs in self.shapes(setting):
            pairs = max(1, pairs // (4 * clients * batch)) * clients * batch
            tell(f"commit of pairs: PostgreSQL, {clients} clients, {batch} in a transaction")
            server.sql(FILL["claim"].format(first=2 * first, last=2 * (first + pairs) - 1)
                       + "; VACUUM ANALYZE ticket; CHECKPOINT")
            self.note(f"postgres {clients} {batch}", server.pairs_run("claim", clients, batch, pairs, first))
            first += pairs
        waiting = min(SEARCH_WAITING, setting.messages)
        server.sql("TRUNCATE ticket;" + FILL["arrive"].format(last=waiting) + "; VACUUM ANALYZE ticket; CHECKPOINT")
        first = max(first, SEARCH_WAITING) * 10
        for clients, batch in ((64, 1), (8, 50)):
            tell(f"offer and match: PostgreSQL, {clients} clients, {batch} pairs in a transaction")
            pairs = max(1, min(SEARCH_PAIRS, setting.messages // 20) // (clients * batch)) * clients * batch
            self.note(f"arrive {batch}", server.pairs_run("arrive", clients, batch, pairs, first))
            first += pairs

    def rows(self, setting):
        made = []
        for clients, batch, _ in SHAPES:
            of = f"{clients} client{'s' if clients > 1 else ''}, {batch} in a request"
            mine = f"tally {clients} {batch}"
            for name, which in (("always", "Redis script, appendfsync always"), ("everysec", "Redis script, everysec"),
                                ("postgres", "PostgreSQL, both rows locked and deleted")):
                reference = f"{name} {clients} {batch}"
                made.append(report.row(f"pool: proposals matched, {of}", self.median(mine, "messages_per_s"), "/s",
                                       which, self.median(reference, "messages_per_s"), "/s",
                                       problem=self.problem or self.peer_problem.get(name, "")))
            p99 = [self.results[name][0]["latency_us"]["p99"] if name in self.results else None
                   for name in (mine, f"always {clients} {batch}")]
            made.append(report.row(f"pool: p99 of such a request, {of}", p99[0], "us",
                                   "Redis script, appendfsync always", p99[1], "us", problem=self.problem))
        for clients, batch in ((64, 1), (8, 50)):
            made.append(report.row(
                f"pool: PostgreSQL offers and matches by itself, {clients} clients, {batch} pairs in a transaction",
                self.median(f"arrive {batch}", "messages_per_s"), "/s", "matches; pool: durable matches is Tally's",
                problem=self.problem or self.peer_problem.get("postgres", "")))
        return made


PARTS = [Commit]
