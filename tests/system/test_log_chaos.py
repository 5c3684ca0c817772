"""The log in PostgreSQL: everything at random."""

import os
import random
import time

from conftest import wait_until
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import LEASE, LEASED, Traffic, check_batches, create_queue, drain, spoil
from nodes import PatientLine
from wire import Connection, scaled

KILL_SEED = int(os.environ.get("KILL_SEED") or random.SystemRandom().randrange(1 << 32))


class Chaos:
    """Three nodes, one of them behind a line that can be cut; one fault at a time."""

    def __init__(self, cluster, proxy, chance):
        self.cluster, self.proxy, self.chance = cluster, proxy, chance
        self.nodes = [cluster.node("one", *LEASED, uri=proxy.uri(cluster.uri)), cluster.node("two", *LEASED),
                      cluster.node("three", *LEASED)]
        for node in self.nodes:
            node.start()
        wait_until(lambda: any(node.is_ready() for node in self.nodes), what="a node that serves")

    def faults(self):
        return [self.kill, self.pause, self.cut, self.freeze, self.end_backends, self.restart_server, self.kill_server,
                self.lose_cache]

    def kill(self):
        node = self.chance.choice(self.nodes)
        node.kill9()
        time.sleep(self.chance.choice((0, 0.3, 1.5 * LEASE)))
        node.start()

    def lose_cache(self):
        node = self.chance.choice(self.nodes)
        node.kill9()
        spoil(node, self.chance.choice(("flipped", "truncated", "missing")))
        node.start()

    def pause(self):
        node = self.chance.choice(self.nodes)
        node.pause()
        time.sleep(self.chance.choice((0.2, 0.9, 1.2, 2)) * LEASE)
        node.resume()

    def cut(self):
        for _ in range(self.chance.randint(1, 5)):
            self.proxy.cut()
            time.sleep(0.05)

    def freeze(self):
        self.proxy.freeze()
        time.sleep(self.chance.choice((0.2, 0.9, 1.2, 2)) * LEASE)
        self.proxy.thaw()

    def end_backends(self):
        self.cluster.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'tallyd%%'"
                         " AND random() < 0.5")

    def restart_server(self):
        self.cluster.server.stop(self.chance.choice(("fast", "immediate")))
        self.cluster.server.start()

    def kill_server(self):
        self.cluster.server.kill9()
        self.cluster.server.start()


CHAOS = scaled(5, "CHAOS", least=3)


def test_K2_K3_K6_K11_faults_at_random_lose_and_repeat_nothing(cluster, proxy, capsys):
    chance = random.Random(KILL_SEED)
    chaos = Chaos(cluster, proxy, chance)
    traffic = Traffic(cluster)
    big = create_queue(cluster.line(), "big")
    ballast = PatientLine(cluster.nodes)
    told = []
    for number in range(CHAOS):
        for piece in range(10):
            ballast.ok("AmazonSQS.SendMessage", {"QueueUrl": big, "MessageBody": f"{number}-{piece} " + "z" * 60000})
        fault = chance.choice(chaos.faults())
        told.append(fault.__name__)
        fault()
        time.sleep(chance.choice((0, 0.2, 0.5)))
        traffic.check()
    with capsys.disabled():
        print(f"\nchaos: seed {KILL_SEED}: {' '.join(told)}; epoch {cluster.head()[0]}")
    traffic.finish()
    for node in chaos.nodes:
        assert node.process.poll() is None, node.error_text()
        node.kill9()
    fresh = cluster.node("fresh", *LEASED).start().wait_ready()  # from PostgreSQL alone
    check_batches(Connection(fresh.port), traffic.load.record)
    kept = set(drain(Connection(fresh.port), big))
    assert kept == {f"{number}-{piece}" for number in range(CHAOS) for piece in range(10)}
