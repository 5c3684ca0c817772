#!/usr/bin/python3
"""The campaign of a cluster: three nodes before a PostgreSQL with a synchronous standby, many namespaces under load,
and one fault a minute, drawn at random.

What must hold:
  - what was acknowledged is received; nothing comes back after its delete was acknowledged; what has an id is there
    once; groups keep their order, and fencing tokens grow; each batch completes once; at the end all queues are empty;
  - each namespace is answered in at least 99 % of the seconds in which PostgreSQL was to be had.

A namespace is answered in a second in which any of its clients got a success: those that work, which know either the
balancer or one node, or one of two probes, of which one knows the balancer and the other one all nodes. PostgreSQL was
to be had in a second of which no part lies between two writes of a client of its own that are more than half a second
apart; that one tries every tenth of a second. How much those got who know nothing but the balancer is told beside it,
and how long one of them waited at most: where a namespace's other clients know one node, that is one probe, which gives
a request up after 2 s, the time for which a node looks for another one.

Each machine is a network namespace (netns.py), so that links are cut without a word to anybody. PostgreSQL fails over
as standby.py has it, and not by Patroni (test_log_patroni.py has that): the campaign itself says when, so it can wait
for less than a lease or for more, and it costs no processor on a machine that has two.

The kinds of faults are drawn from a bag that is filled again when it is empty: of as many faults as there are kinds,
each comes once.

    make campaign-cluster CAMPAIGN='--seconds 3600 --every 60 --namespaces 50'

Standard error, and the file faults.log in the campaign's folder: when each fault began and ended, what nodes said, and
who was not answered. Standard output: one line of JSON with the figures. Exit status 0: all of it held."""

import argparse
import collections
import contextlib
import os
import pathlib
import random
import statistics
import sys
import threading
import time

import psycopg2

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "system"))

from background import Background  # noqa: E402
from campaign import report, run_to_its_end  # noqa: E402
from cluster_load import Clock, DatabaseProbe, Tenant  # noqa: E402
from conftest import PATIENCE, wait_until, write_credentials  # noqa: E402
from haproxy import Haproxy  # noqa: E402
from logs import SMALL  # noqa: E402
from netns import Network  # noqa: E402
from nodes import Cluster  # noqa: E402
from standby import StandbyPair  # noqa: E402
from test_cluster_namespaces import lines_of  # noqa: E402
from test_cluster_nodes import SECRET, owners, status, tally  # noqa: E402
from test_cluster_placement import is_placed  # noqa: E402

PORT = 9324
NODES = ("one", "two", "three")
FAULTS = ("wrong", "below")
LONG = 4  # seconds without an answer by way of the balancer that are told
BATCHES_EACH = 5  # of so many namespaces one has batches
PINNED_EACH = 4  # of so many namespaces one has clients that know one node only


class FaultLog:
    """What happened when: on standard error, and in a file."""

    def __init__(self, clock, path):
        self.clock = clock
        self.file = open(path, "w", encoding="utf-8")
        self.lock = threading.Lock()

    def tell(self, text):
        with self.lock:
            for stream in (self.file, sys.stderr):
                print(f"{self.clock.now():8.2f}  {text}", file=stream, flush=True)

    def close(self):
        self.file.close()


class Listener(Background):
    """Brings what a node says on standard error to the log."""

    def __init__(self, node, log):
        super().__init__()
        self.node, self.log = node, log
        self.at = 0

    def run(self):
        while not self.is_over.wait(0.1):
            self._take()
        self._take()

    def _take(self):
        with open(self.node.folder / "tallyd.err", "rb") as file:
            file.seek(self.at)
            lines = file.read().splitlines(keepends=True)
        for line in lines:
            if line.endswith(b"\n"):
                self.at += len(line)
                self.log.tell(f"    {self.node.name}: {line.decode(errors='replace').rstrip()}")


class Faults:
    """Each is over, and what it broke is mended, when its function returns."""

    def __init__(self, campaign):
        self.campaign, self.cluster, self.chance = campaign, campaign.cluster, campaign.chance
        self.nodes, self.hosts, self.pair = campaign.cluster.nodes, campaign.hosts, campaign.pair
        self.bag = []
        self.count = collections.Counter()

    def kinds(self):
        kinds = [self.kill, self.pause, self.stop, self.drain, self.roll, self.cut_from_database, self.cut_from_nodes,
                 self.restart_database, self.crash_database, self.kill_database, self.fail_over, self.end_backends]
        return [kind for kind in kinds if kind.__name__ not in self.campaign.given.without]

    def next(self):
        if not self.bag:
            self.bag = self.kinds()
            self.chance.shuffle(self.bag)
        fault = self.bag.pop()
        self.count[fault.__name__] += 1
        return fault

    def _node(self):
        return self.chance.choice(self.nodes)

    def _tell(self, text):
        self.campaign.log.tell(f"  {text}")

    def _rest(self, least, most):
        seconds = self.chance.uniform(least, most)
        self._tell(f"for {seconds:.1f} s")
        time.sleep(seconds)

    def _start(self, node):
        node.start()
        wait_until(lambda: node.health() != "", 60, f"that node {node.name} is back; {node.error_text()[-800:]}")
        self._tell(f"node {node.name} is back")

    # --- nodes ---

    def kill(self):
        node = self._node()
        self._tell(f"kill -9 of node {node.name}")
        node.kill9()
        self._rest(0.5, 6)
        self._start(node)

    def pause(self):
        node = self._node()
        self._tell(f"SIGSTOP of node {node.name}")
        node.pause()
        self._rest(1, 10)
        node.resume()

    def stop(self):
        node = self._node()
        self._tell(f"SIGTERM of node {node.name}")
        assert node.stop() == 0, node.error_text()[-800:]
        self._rest(0.5, 6)
        self._start(node)

    def drain(self):
        node = self._node()
        self._drain(node)
        self._rest(1, 6)
        self._uncordon(node)

    def roll(self):
        """As an operator replaces the program: each node is drained, restarted, and has its namespaces again."""
        for node in self.nodes:
            self._drain(node)
            assert node.stop() == 0, node.error_text()[-800:]
            self._start(node)
            self._uncordon(node)
            placed_by = time.monotonic() + 30 * PATIENCE
            while not is_placed(self.cluster) and time.monotonic() < placed_by:
                time.sleep(0.2)
            self._tell("all are where they belong" if time.monotonic() < placed_by else "some are not at home yet")

    def _drain(self, node):
        self._tell(f"drain of node {node.name}")
        self._say("drain", node.name)
        wait_until(lambda: node.name not in owners(self.cluster).values(), 60, f"that node {node.name} is drained")
        self._tell(f"node {node.name} is drained")

    def _uncordon(self, node):
        self._say("uncordon", node.name)
        self._tell(f"uncordon of node {node.name}")

    def _say(self, *words):
        code, _, said = tally(self.cluster, *words)
        assert code == 0, said

    # --- links ---

    def cut_from_database(self):
        node, host = self.chance.choice(list(zip(self.nodes, self.hosts)))
        self._cut(node, host, [server.host for server in self.pair.servers], "PostgreSQL")

    def cut_from_nodes(self):
        node, host = self.chance.choice(list(zip(self.nodes, self.hosts)))
        self._cut(node, host, [other for other in self.hosts if other is not host], "the other nodes")

    def _cut(self, node, host, others, what):
        self._tell(f"node {node.name} is cut from {what}")
        for other in others:
            host.lose(other)
        self._rest(1, 10)
        for other in others:
            host.find(other)
        self._tell("the cut is over")

    # --- PostgreSQL ---

    def restart_database(self):
        self._restart_database("fast restart", lambda server: server.stop("fast"))

    def crash_database(self):
        self._restart_database("immediate restart", lambda server: server.stop("immediate"))

    def kill_database(self):
        self._restart_database("kill -9", lambda server: server.kill9())

    def _restart_database(self, what, end):
        self._tell(f"{what} of PostgreSQL")
        end(self.pair.primary)
        self._rest(0, self.chance.choice((0, 1, 6)))
        self.pair.primary.start()
        self.pair.wait_synchronous()
        self._tell("PostgreSQL is back")

    def fail_over(self):
        after = self.chance.choice((0, 1, 6)) * self.chance.random()
        self._tell(f"failover of PostgreSQL: the standby is promoted after {after:.1f} s")
        self.pair.fail_over(after)
        self._tell("the former primary is the standby")

    def end_backends(self):
        node, host = self.chance.choice(list(zip(self.nodes, self.hosts)))
        ended = self.cluster.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE client_addr = %s",
                                 host.address)[0][0]
        self._tell(f"pg_terminate_backend of the {ended} connections of node {node.name}")


class Campaign:
    def __init__(self, folder, given):
        self.folder, self.given = folder, given
        self.chance = random.Random(given.seed)
        self.clock = Clock()
        self.log = FaultLog(self.clock, folder / "faults.log")
        self.names = [f"{number:012}" for number in range(1, given.namespaces + 1)]
        self.tenants, self.wrong, self.caused = [], [], []
        self.running = contextlib.ExitStack()  # what has to be ended, the last one first
        self.running.callback(self.log.close)
        network = Network()
        self.running.callback(network.close)
        self.hosts = [network.host() for _ in NODES]
        self.pair = StandbyPair(folder, [network.host(), network.host()], client=network.host(),
                                max_connections=given.namespaces + 150 * len(NODES), max_wal_size="1GB")
        self.running.callback(self.pair.stop)

    # --- the beginning ---

    def begin(self):
        self.load_before = os.getloadavg()[0]
        self.pair.start()
        self.cluster = Cluster(self.pair, self.folder, host=self.pair.client)
        self.running.callback(self.cluster.stop)
        self._start_nodes()
        self.front = self.running.enter_context(Haproxy(self.cluster.nodes, self.folder))
        self.database = self.running.enter_context(DatabaseProbe(self.clock, self.pair))
        ports = [node.port for node in self.cluster.nodes]
        for number, name in enumerate(self.names):
            is_pinned = number % PINNED_EACH == PINNED_EACH - 1
            home = ports[number // PINNED_EACH % len(ports)] if is_pinned else self.front.port
            self.tenants.append(Tenant(self.clock, name, self.front.port, home, ports, number % BATCHES_EACH == 0))
            self.running.callback(self.tenants[-1].abandon)

    def _start_nodes(self):
        secret = self.folder / "secret"
        secret.write_text(SECRET + "\n")
        credentials = write_credentials(self.folder, lines_of(self.names))
        for name, host in zip(NODES, self.hosts):
            at = f"{host.address}:{PORT}"
            node = self.cluster.node(name, "--credentials", credentials, "--cluster-secret", secret, "--advertise", at,
                                     "--cluster-insecure", "--listen", at, *SMALL, host=host)
            node.start()
            self.running.enter_context(Listener(node, self.log))
        wait_until(self._is_settled, 120, "that each namespace is where it belongs")

    def _is_settled(self):
        return len(owners(self.cluster)) == len(self.names) and len(status(self.cluster)[0]) == len(NODES) and \
            is_placed(self.cluster)

    # --- the hour ---

    def run(self):
        self.begin()
        begin = int(self.clock.now()) + 3
        end = begin + self.given.seconds
        self.log.tell(f"begin: seed {self.given.seed}, {len(self.names)} namespaces")
        faults = Faults(self)
        for turn in range(self.given.seconds // self.given.every):
            at = begin + self.given.every * (turn + self.chance.uniform(0, 0.5))
            self._wait(at)
            if self.wrong:
                break
            self._cause(faults.next(), turn)
        self._wait(end)
        end = min(end, int(self.clock.now()))
        self.log.tell("the end of the load")
        self._finish()
        return self._count(begin, end, faults)

    def _wait(self, at):
        while self.clock.now() < at and not self.wrong:
            time.sleep(min(0.5, max(0, at - self.clock.now())))
            self._look()

    def _look(self):
        for tenant in self.tenants:
            self.wrong += tenant.complaints()
        for node in self.cluster.nodes:
            if node.process is None or node.process.poll() is not None:
                self.wrong.append(f"node {node.name} has ended by itself: {node.error_text()[-800:]}")

    def _cause(self, fault, turn):
        began = self.clock.now()
        self.caused.append((fault.__name__, began))
        self.log.tell(f"fault {turn + 1}: {fault.__name__}")
        try:
            fault()
        except (AssertionError, OSError, psycopg2.Error) as error:
            self.wrong.append(f"{fault.__name__}: {error!r}")
        self.log.tell(f"fault {turn + 1} is over after {self.clock.now() - began:.1f} s")

    def _finish(self):
        for tenant in self.tenants:
            tenant.end()
        for tenant in self.tenants:
            self.wrong += tenant.finish()
        for complaint in self.wrong:
            self.log.tell(f"wrong: {complaint}")
        self.log.tell("all queues are empty" if not self.wrong else f"{len(self.wrong)} things are wrong")

    # --- the figures ---

    def _count(self, begin, end, faults):
        seconds = self.database.seconds_served(begin, end)
        served = [100 * len(tenant.answered & seconds) / len(seconds) for tenant in self.tenants]
        by_front = [100 * len(tenant.answered_by_front & seconds) / len(seconds) for tenant in self.tenants]
        self._tell_unanswered(seconds, begin, end)
        waits = [(tenant, first, last) for tenant in self.tenants
                 for first, last in spans(seconds - tenant.answered_by_front)]
        self._tell_unanswered_by_front(waits)
        loads = [tenant.batches.record for tenant in self.tenants if tenant.batches]
        return {
            "namespaces": len(self.names), "faults": sum(faults.count.values()), "kinds": dict(faults.count),
            "wrong": len(self.wrong), "below": sum(share < self.given.least for share in served),
            "postgres_s": len(seconds), "of_s": end - begin,
            "available_min": round(min(served), 3), "available_median": round(statistics.median(served), 3),
            "available_mean": round(statistics.mean(served), 3),
            "by_front_min": round(min(by_front), 3), "by_front_median": round(statistics.median(by_front), 3),
            "by_front_longest_s": max((last - first + 1 for _, first, last in waits), default=0),
            "cost_s": self._cost(seconds, end), "messages": sum(tenant.stream.acknowledged for tenant in self.tenants),
            "batches": sum(len(record.batches) for record in loads),
            "batch_messages": sum(len(record.sent) for record in loads),
            "takeovers": int(self.cluster.sql("SELECT sum(epoch - 1) FROM tally_log.head")[0][0]),
            "load": [round(self.load_before, 1), round(os.getloadavg()[0], 1)],
        }

    def _cost(self, seconds, end):
        """Of each kind of fault: for how many of the seconds in which PostgreSQL was to be had, until the next fault,
        a namespace was not answered, in the mean."""
        costs = collections.defaultdict(list)
        for (kind, began), (_, until) in zip(self.caused, [*self.caused[1:], ("", end)]):
            after = seconds & set(range(int(began), int(until)))
            costs[kind].append(statistics.mean(len(after - tenant.answered) for tenant in self.tenants))
        return {kind: round(statistics.mean(cost), 2) for kind, cost in sorted(costs.items())}

    def _tell_unanswered(self, seconds, begin, end):
        for second in range(begin, end):
            missing = [tenant.name.lstrip("0") for tenant in self.tenants if second not in tenant.answered]
            if missing:
                had = "was to be had" if second in seconds else "was not to be had"
                self.log.tell(f"second {second}: PostgreSQL {had}, unanswered: {' '.join(missing)}")

    def _tell_unanswered_by_front(self, waits):
        """Those who know nothing but the balancer, where they waited for long though PostgreSQL was to be had."""
        for tenant, first, last in waits:
            if last - first + 1 >= LONG:
                failed = [f"{when:.2f} {what}" for when, what in tenant.failed_by_front if first <= when < last + 2]
                self.log.tell(f"seconds {first} to {last}: {tenant.name.lstrip('0')} got nothing by way of the "
                              f"balancer: {'; '.join(failed[:20]) or 'no request ended'}")

    def stop(self):
        self.running.close()


def spans(seconds):
    """The first and last of each run of seconds one behind the other."""
    found = []
    for second in sorted(seconds):
        if found and found[-1][1] == second - 1:
            found[-1][1] = second
        else:
            found.append([second, second])
    return found


def run_campaign(folder, given):
    return run_to_its_end(Campaign(pathlib.Path(folder), given))


def parse(words=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--every", type=int, default=60, help="seconds between two faults")
    parser.add_argument("--namespaces", type=int, default=50)
    parser.add_argument("--least", type=float, default=99, help="percent of the seconds in which each is answered")
    parser.add_argument("--without", nargs="*", default=[], help="kinds of faults that do not come")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(1 << 32)), help="of the faults")
    return parser.parse_args(words)


def main():
    given = parse()
    report(lambda folder: run_campaign(folder, given), given.seed, FAULTS)


if __name__ == "__main__":
    main()
