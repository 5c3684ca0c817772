"""Unmodified SDKs before a cluster of three nodes: with the endpoint of one node, and through a balancer that knows
nothing of requests. The owner is killed again and again."""

import contextlib
import json
import pathlib
import shutil
import subprocess
import time

import pytest
from clients import needs
from conftest import PATIENCE, clean_environment, wait_until
from haproxy import PROGRAM, Haproxy
from logs import CROWD, LEASED, cluster, server  # noqa: F401 (fixtures)
from sdk_repeats import SdkCheck
from test_cluster_nodes import node_of, owners, secret, tally  # noqa: F401 (fixtures)
from wire import scaled

HERE = pathlib.Path(__file__).resolve().parent
TAKEOVERS = scaled(4, "TAKEOVERS", least=2)


class NodeCheck:
    """sdk_repeats.mjs."""

    def __init__(self, url, queue):
        assert shutil.which("node"), "node is missing: run ./setup test"
        assert (HERE / "node_modules" / "@aws-sdk" / "client-sqs").exists(), "the SDK is missing: run ./setup test"
        self.process = subprocess.Popen(["node", str(HERE / "sdk_repeats.mjs"), url, queue], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=clean_environment())
        assert self.process.stdout.readline() == "begun\n"

    def finish(self):
        self.process.stdin.close()
        line = self.process.stdout.readline()
        self.process.wait(60 * PATIENCE)
        said = json.loads(line)
        assert said["faults"] == [] and said["taken"] == said["sent"] > 0, said
        return said["sent"]


@pytest.fixture
def nodes(cluster, secret):  # noqa: F811
    made = [node_of(cluster, name, secret) for name in ("one", "two", "three")]
    for node in made:
        node.start()
    wait_until(lambda: len(owners(cluster)) == 1, what="an owner")
    for node in made:
        wait_until(lambda n=node: is_ready(n), what=f"that node {node.name} is ready")
    return made


def is_ready(node):
    with contextlib.suppress(OSError):
        return node.request("GET", "/ready")[0] == 200
    return False


def owner_of(cluster, nodes):  # noqa: F811
    name, = owners(cluster).values()
    return next(node for node in nodes if node.name == name)


def take_over(cluster, nodes):  # noqa: F811
    owner = owner_of(cluster, nodes)
    owner.kill9()
    wait_until(lambda: owner_of(cluster, nodes) is not owner, 20 * CROWD, "a takeover")
    owner.start()
    wait_until(lambda: owner.health() != "", what="that it is back")


def test_K22_SDKs_at_one_node_and_behind_a_balancer_get_each_message_once_and_in_order(
        cluster, nodes, tmp_path, capsys):  # noqa: F811
    needs(PROGRAM, "haproxy")
    assert tally(cluster, "drain", "three")[0] == 0  # the one node that some clients know owns nothing, and lives
    wait_until(lambda: owner_of(cluster, nodes) is not nodes[2], 20 * CROWD, "that another node has it")
    with Haproxy(nodes, tmp_path) as front, contextlib.ExitStack() as checks:
        direct = f"http://127.0.0.1:{nodes[2].port}"
        running = [SdkCheck(direct, "python-one.fifo"), SdkCheck(front.url, "python-front.fifo"),
                   NodeCheck(direct, "node-one.fifo"), NodeCheck(front.url, "node-front.fifo")]
        checks.callback(lambda: [check.process.kill() for check in running[2:]])
        for _ in range(TAKEOVERS):
            time.sleep(0.5)
            take_over(cluster, nodes)
        for check in running[:2]:
            check.finish()
        sent = [check.sent for check in running[:2]] + [check.finish() for check in running[2:]]
    epoch = cluster.head()[0]
    with capsys.disabled():
        print(f"\nK22: {TAKEOVERS} takeovers, epoch {epoch}; messages of each client: {sent}")
    assert min(sent) > TAKEOVERS and epoch > TAKEOVERS
