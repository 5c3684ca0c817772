"""Three nodes behind a front, and clients of six namespaces, each with a check of what came.

    machines = Machines(cluster, hosts, folder)      # each node on a host of netns.py; the front is a HAProxy
    with machines.front:
        machines.heal()                              # all run, all namespaces are served, and followed
        with machines.traffic() as traffic:          # nothing lost, nothing twice, order kept
            owner, others = machines.owner()
            ...
            machines.wait_served(2, others)          # all namespaces, through each of these
            wait_more(traffic)

Clients reach the nodes over Unix sockets: also one whose machine is cut off."""

import contextlib
import itertools
import time

from conftest import wait_until, write_credentials
from haproxy import Haproxy
from logs import CROWD, LEASED, Traffic
from nodes import Doors, PatientLine
from test_cluster_namespaces import facts, key_of, lines_of, wait_for_locks
from test_cluster_nodes import owners
from wire import Connection, Lost

NAMES = [str(number) * 12 for number in range(1, 7)]
NODES = ("one", "two", "three")
PAUSE = 0.3  # seconds between two messages of a namespace
CHECK = 0.5 * CROWD  # seconds after which a request about whether a namespace is served is given up


def credential(name):
    return key_of(name), "the-secret"


class Machines:
    def __init__(self, cluster, hosts, folder, lease=LEASED):
        self.cluster = cluster
        path = folder / "secret"
        path.write_text("0123456789abcdef0123456789abcdef\n")
        options = ("--credentials", write_credentials(folder, lines_of(NAMES)), "--cluster-secret", path,
                   "--cluster-insecure", *lease)
        self.nodes = [self.cluster.node(name, *options, "--advertise", f"{host.address}:9324", "--listen",
                                        f"{host.address}:9324", host=host).start()
                      for name, host in zip(NODES, hosts)]
        self.front = Haproxy(self.nodes, folder)
        self.turn = itertools.count()

    # Who has what.

    def owned(self, node):
        return [name for name, owner in owners(self.cluster).items() if owner == node.name]

    def owner(self):
        """The node that has the most, and the others."""
        first = max(self.nodes, key=lambda node: len(self.owned(node)))
        return first, [node for node in self.nodes if node is not first]

    def is_served(self, door, name):
        """If not: self.refusal says why."""
        self.refusal = "no answer"
        with contextlib.suppress(Lost, OSError), Connection(door.port, CHECK, credential(name)) as line:
            answer = line.call("AmazonSQS.ListQueues", {})
            self.refusal = (answer.status, answer.body)
            return answer.status == 200
        return False

    def wait_served(self, seconds, doors=None, names=NAMES, since=None):
        """Until each of the namespaces is served through each of the doors; seconds since then."""
        since = time.monotonic() if since is None else since
        for door, name in itertools.product(doors or [self.front, *self.nodes], names):
            while not self.is_served(door, name):
                assert time.monotonic() < since + seconds, (
                    f"{name} is not served through {door.name} within {seconds} s: {self.refusal}; "
                    f"{owners(self.cluster)} {[(node.lines[-2:], node.error_text()[-400:]) for node in self.nodes]}")
                time.sleep(0.02)
        return time.monotonic() - since

    def wait_calm(self):
        """Until all namespaces are served, and a node stands by for each."""
        self.wait_served(30)
        wait_for_locks(self.cluster, len(NAMES), 30)

    def heal(self):
        """After a test, however it ended."""
        for node in self.nodes:
            if node.process is not None and node.process.poll() is not None:
                node.kill9()
            if node.process is None:
                node.start()
            node.resume()
        self.wait_calm()
        for name in NAMES:  # or what a test has left would keep segments from being removed
            line = self.line(name)
            for queue in line.ok("AmazonSQS.ListQueues", {}).get("QueueUrls", []):
                with contextlib.suppress(Lost):
                    line.call("AmazonSQS.DeleteQueue", {"QueueUrl": queue})

    def wait_back(self, node):
        """Until a node that was away has some of its namespaces again."""
        def has_some():
            with contextlib.suppress(OSError):
                return facts(node)["served"]
            return 0
        wait_until(has_some, 30, f"that node {node.name} has its own again")

    # Who asks.

    def line(self, name, door=None):
        """To the front, or to this node; for what may be repeated."""
        return Doors([door or self.front], credential(name)).line(kind=PatientLine)

    @contextlib.contextmanager
    def traffic(self, loaded=None):
        """A check for each namespace, and batches in one: another one each time."""
        queue = f"ordered{next(self.turn)}.fifo"
        made = [Traffic(Doors([*self.nodes[at % 3:], self.front, *self.nodes[:at % 3]], credential(name)),
                        has_load=name == loaded, queue=queue, pause=PAUSE) for at, name in enumerate(NAMES)]
        try:
            wait_more(made)
            yield made
            wait_more(made)
            for one in made:
                one.check()
                one.fifo.is_ending = True
            for one in made:
                one.finish()
        finally:
            for one in made:
                one.abandon()


def wait_more(traffic, count=5):
    """Until so many more messages of each namespace are acknowledged, and received."""
    before = [(one.fifo.acknowledged, len(one.fifo.seen)) for one in traffic]

    def are_there():
        return all(one.fifo.faults or one.fifo.acknowledged >= sent + count and len(one.fifo.seen) >= seen + count
                   for one, (sent, seen) in zip(traffic, before))
    wait_until(are_there, 30, f"{count} more messages of each namespace")
    for one in traffic:
        one.check()
