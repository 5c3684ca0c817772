"""The log in PostgreSQL: nodes whose clocks differ."""

import time

from clock import Clock
from conftest import PATIENCE
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import TAKEOVER, await_takeover, create_queue, receive
from wire import Connection


def test_K17_wall_clocks_an_hour_apart_neither_expire_nor_prolong(cluster):
    clocks = [Clock(), Clock()]
    nodes = [cluster.node("fast"), cluster.node("slow")]
    for node, clock, seconds in zip(nodes, clocks, (3600, -3600)):
        clock.set(seconds)
        node.environment = clock.environment
        node.start()
        node.wait_ready() if node is nodes[0] else node.wait_standing_by()
    jobs = create_queue(cluster.line())

    def take_over():
        clocks[0].set(-7200)  # a jump
        assert not receive(Connection(nodes[0].port), jobs)
        nodes[0].kill9()
        await_takeover(nodes[1], jobs, time.monotonic())

    check_times(Connection(nodes[0].port), jobs, take_over, Connection(nodes[1].port))


def check_times(line, jobs, take_over, other):
    """A lease and a delay of 3 s each, from before a takeover, end when they are due. The first client sends, the other
    one receives."""
    line.ok("AmazonSQS.SendMessage", {"QueueUrl": jobs, "MessageBody": "held"})
    (held,) = receive(line, jobs, VisibilityTimeout=3, AttributeNames=["SentTimestamp"])
    assert abs(int(held["Attributes"]["SentTimestamp"]) / 1000 - time.time()) < 5 * PATIENCE
    began_at = time.monotonic()
    line.ok("AmazonSQS.SendMessage", {"QueueUrl": jobs, "MessageBody": "delayed", "DelaySeconds": 3})
    take_over()
    came = {}
    while len(came) < 2:
        for message in receive(other, jobs, WaitTimeSeconds=1):
            came[message["Body"]] = time.monotonic() - began_at
        assert time.monotonic() - began_at < 20 * PATIENCE, came
    assert 2.9 <= came["delayed"] <= 3 + TAKEOVER * PATIENCE, came
    assert 2.9 <= came["held"] <= 3 + 3 + TAKEOVER * PATIENCE, came  # a restart gives a lease in hand its time again
