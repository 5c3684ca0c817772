"""The line between nodes when it is slow, loses packets or is cut, and when very many wait at its end."""

import contextlib
import resource
import selectors
import socket
import time

import pytest
from certificates import Authority
from conftest import IS_BARE, PATIENCE, free_port, status_bytes, wait_until, write_credentials
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import LEASED, FifoCheck, Traffic, create_queue
from netns import Network
from nodes import Cluster, Doors
from postgres import DistantPostgres
from slow_line import SlowLine
from test_cluster_front import node_of, secret  # noqa: F401 (a fixture)
from test_cluster_nodes import pin
from wire import Connection, request_bytes, scaled


class Machines:
    """PostgreSQL and two nodes, each on a machine of its own. Between the nodes there is a slow line; over the switch
    they reach PostgreSQL."""

    def __init__(self, network, folder, secret, has_tls, delay, loss):
        self.hosts = [network.host(), network.host()]
        self.database = DistantPostgres(folder / "postgres", network.host()).start()
        self.cluster = Cluster(self.database, folder, host=self.hosts[1])
        self.slow = SlowLine(*self.hosts, delay=delay, loss=loss)
        authority = Authority(folder)
        credentials = write_credentials(folder, "app SECRET 000000000000 read,write,admin\n")
        self.one, self.two = made = [self.cluster.node(name, *LEASED, "--cluster-secret", secret, host=host)
                                     for name, host in zip(("one", "two"), self.hosts)]
        for node, address in zip(made, self.slow.addresses):
            node.options += ["--advertise", f"{address}:9326"]
            if has_tls:
                node.options += authority.options(9326, authority.issue(node.name, f"IP:{address}"), address)
                node.options += ["--listen", "off"]
            else:
                node.options += ["--cluster-insecure", "--credentials", credentials, "--listen", f"{address}:9326"]
        self.one.start().wait_ready()
        pin(self.cluster, "one")
        self.two.start().wait_standing_by()

    def close(self):
        self.cluster.stop()
        self.slow.close()
        self.database.stop("immediate")


@pytest.fixture
def slow_machines(secret, tmp_path):
    network = Network()
    made = Machines(network, tmp_path, secret, has_tls=True, delay=0.05, loss=0.05)
    yield made
    made.close()
    network.close()


def test_K25_a_line_that_loses_and_delays_packets_gives_no_wrong_answer_and_no_storm(slow_machines):
    """5 % are lost, and each takes 50 ms, in each direction. All clients go through the node at the other end."""
    one, two, line = slow_machines.one, slow_machines.two, slow_machines.slow
    traffic = Traffic(Doors([two]))
    clients = len(traffic.load.makers + traffic.load.takers) + 3
    highest = 0
    least = time.monotonic() + scaled(20, least=5)
    deadline = least + 20 * PATIENCE
    while time.monotonic() < least or two.metric("tally_forwarded_total") <= 200 and time.monotonic() < deadline:
        highest = max(highest, two.metric("tally_forward_connections"))
        traffic.check()
        time.sleep(0.2)
    assert line.lost > 50 and two.metric("tally_forwarded_total") > 200
    assert highest <= 2 * clients, "as many connections as there are requests, and some that end"
    opened = two.metric("tally_forward_connections_opened_total")
    assert opened < two.metric("tally_forwarded_total") / 2 + 2 * clients, "connections are kept"

    line.loss = 1  # nothing arrives any more
    wait_until(lambda: two.metric("tally_forward_pause_milliseconds") >= 160, what="that it backs off")
    before, began = two.metric("tally_forward_connections_opened_total"), time.monotonic()
    time.sleep(3)
    tries = two.metric("tally_forward_connections_opened_total") - before
    assert tries < 10 * (time.monotonic() - began), "a few a second, whoever waits"
    assert slow_machines.cluster.head()[1] == "one", "PostgreSQL hears from the owner: it stays that"
    line.loss = 0.05
    wait_until(lambda: two.metric("tally_forward_pause_milliseconds") == 0, what="that it is reached again")
    line.loss = line.delay = 0  # what is left is not to take minutes
    traffic.finish()
    sent = two.metric("tally_forwarded_total") + two.metric("tally_forwarded_unknown_total")
    assert one.metric("tally_http_requests_total") < sent + two.metric("tally_forwarded_retries_total") + 100, (
        "no request is sent twice")


# --- K4 ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def machines(secret, tmp_path):
    network = Network()
    made = Machines(network, tmp_path, secret, has_tls=True, delay=0, loss=0)
    yield made
    made.close()
    network.close()


def test_K4_an_owner_that_only_postgresql_reaches_stays_the_owner_and_clients_of_others_are_refused(machines):
    """Who owns a log is what PostgreSQL says. Requests that were under way when the line was cut may have happened."""
    one, two = machines.one, machines.two
    check = FifoCheck(Doors([two]))
    wait_until(lambda: check.acknowledged > 20, what="some messages")
    epoch = machines.cluster.head()[0]
    machines.slow.loss = 1
    began = time.monotonic()
    wait_until(lambda: two.metric("tally_forwarded_refused_total") > 0, what="a refusal")
    assert time.monotonic() - began < 10 * PATIENCE, "nobody waits longer than a silence and two seconds"
    before = check.acknowledged
    time.sleep(4)  # longer than a lease
    assert check.acknowledged <= before + 1
    assert machines.cluster.head() == (epoch, "one"), "no takeover by accident"
    assert one.health() == "ok", "it serves those that reach it"
    said = Connection(two.port).call("AmazonSQS.ListQueues", {})
    assert said.status == 503 and "Node one (" in said.body.decode()
    machines.slow.loss = 0
    wait_until(lambda: check.acknowledged > before + 20, what="that it goes on by itself")
    check.finish()
    assert machines.cluster.head() == (epoch, "one")


# --- K21 --------------------------------------------------------------------------------------------------------------

FILES_MAX = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
# A connection that is passed on takes two open files, and some are the log's.
ROOM = 10000 if FILES_MAX == resource.RLIM_INFINITY else max(200, min(10000, FILES_MAX // 2 - 1000))
POLLS = min(ROOM, scaled(10000, least=200)) if IS_BARE else 400
PORTION, OPENING = 16, 7  # as many as there may be handshakes at a time


def open_polls(node, queue, count):
    """So many connections, on each of which a long poll waits; on a busy machine as many as come in OPENING seconds,
    because the first ones end after 20. In portions: a request waits 2 s at most for a connection to the owner, and
    on a busy machine more handshakes may take longer."""
    request = request_bytes("AmazonSQS.ReceiveMessage", {"QueueUrl": queue, "WaitTimeSeconds": 20})
    lines, deadline = [], time.monotonic() + OPENING
    while len(lines) < count and time.monotonic() < deadline:
        for _ in range(PORTION):
            line = socket.create_connection(("127.0.0.1", node.port), 20 * PATIENCE)
            line.sendall(request)
            lines.append(line)
        wait_until(lambda: node.metric("tally_forward_connections") >= node.metric("tally_forward_requests"), 15,
                   "that each has a connection, or is refused")
    assert node.metric("tally_forward_requests") > 0.5 * len(lines), "most wait: a busy machine refuses some"
    return lines


def statuses(lines, seconds):
    """Of the answers that come until then; 0 where a connection ends without one."""
    found = []
    with selectors.DefaultSelector() as selector:
        for line in lines:
            line.setblocking(False)
            selector.register(line, selectors.EVENT_READ)
        deadline = time.monotonic() + seconds
        while len(found) < len(lines) and time.monotonic() < deadline:
            for key, _ in selector.select(0.5):
                with contextlib.suppress(BlockingIOError):
                    head = key.fileobj.recv(65536)
                    found.append(int(head.split()[1]) if head else 0)
                    selector.unregister(key.fileobj)
    for line in lines:
        line.close()
    return found


@pytest.fixture
def wide(cluster, secret, tmp_path):
    """Three nodes with room for so many connections; the first one serves."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    authority = Authority(tmp_path)
    made = []
    for name in ("one", "two", "three"):
        node = node_of(cluster, name, secret, "--connections-max", POLLS + 100)
        at = node.options.index("--advertise") + 1
        port = free_port()
        node.options[at] = f"127.0.0.1:{port}"
        node.options += authority.options(port, authority.issue(name))
        made.append(node)
    made[0].start().wait_ready()
    pin(cluster, "one")
    for node in made[1:]:
        node.start().wait_standing_by()
    yield made
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def owner_of(nodes):
    return next(node for node in nodes if node.process is not None and node.health() == "ok")


def test_K21_10000_long_polls_through_nodes_whose_owner_dies_end_and_give_their_memory_back(wide, cluster):
    """Half of them through each of two nodes; fewer where not so many files may be open (ulimit -Hn 30000), or where
    they are not made in time. The second time takes no more memory than the first."""
    queue = create_queue(Connection(wide[0].port))
    taken, opened = {}, []
    for turn in range(2):
        owner = owner_of(wide)
        fronts = [node for node in wide if node is not owner]
        lines = [line for node in fronts for line in open_polls(node, queue, POLLS // 2)]
        opened.append(len(lines))
        owner.kill9()
        began = time.monotonic()
        found = statuses(lines, 25 * PATIENCE)
        assert len(found) == len(lines), f"{len(lines) - len(found)} have no answer"
        assert set(found) <= {200, 503}, set(found)
        assert time.monotonic() - began < 22 * PATIENCE
        for node in fronts:
            wait_until(lambda node=node: node.metric("tally_forward_requests") == 0, what="that nobody waits")
            wait_until(lambda node=node: node.metric("tally_forward_connections") <= 2, 30, "that no line stays")
            assert node.metric("tally_http_reply_bytes") < 1_000_000
            taken.setdefault(node.name, []).append(status_bytes(node.process, "VmRSS"))
        owner.start()
        wait_until(lambda owner=owner: owner.health() == "ok", what="that it has its own again")
    again = [sizes for sizes in taken.values() if len(sizes) == 2]
    more = 1.25 * max(1, opened[1] / opened[0])
    assert again and all(second < more * first + 8_000_000 for first, second in again), (taken, opened)
