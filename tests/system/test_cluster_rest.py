"""Namespaces that nobody uses are at rest: no node has them open, and the next request opens one."""

import concurrent.futures
import os
import pathlib
import statistics
import threading
import time
from collections import Counter

import pytest
from conftest import IS_BARE, PATIENCE, status_bytes, wait_until
from logs import CROWD, LEASE, SMALL, cluster, server  # noqa: F401 (fixtures)
from nodes import Cluster
from postgres import Postgres
from test_auth import ask, ok
from test_cluster_namespaces import make_node  # noqa: F401 (fixtures)
from test_cluster_namespaces import Pipe, facts, key_of, node_maker, rename, serves, url, wait_served
from test_cluster_nodes import owners, status, tally
from wire import scaled

NAMES = [f"{number:012}" for number in range(1, 9)]
SOON, LATER = ("--rest-after", "1s" if CROWD < 1.5 else "3s"), ("--rest-after", "5m")
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'tallyd%%'"


@pytest.fixture
def make(cluster, make_node):  # noqa: F811
    """A node where namespaces rest."""
    def made(name, namespaces=NAMES, rest=SOON):
        return make_node(name, namespaces, *SMALL, "--lease", f"{LEASE}s", *rest)
    return made


def create(node, name, queue="jobs", **attributes):
    ok(node, key_of(name), "CreateQueue", {"QueueName": queue, "Attributes": attributes})


def creates(node, name):
    return ask(node, "json", "CreateQueue", {"QueueName": "jobs"}, key_of(name)).status == 200


def connections(cluster):  # noqa: F811
    return cluster.sql(CONNECTIONS)[0][0]


def has_rested(cluster, name):  # noqa: F811
    return owners(cluster).get(name) == ""


def wait_rested(cluster, *names):  # noqa: F811
    wait_until(lambda: all(has_rested(cluster, name) for name in names), what=f"that {names} rest")


def test_a_namespace_is_opened_by_the_first_request_and_left_at_rest_behind_the_last(cluster, make):  # noqa: F811
    node = make("one").start().wait_ready()
    assert facts(node)["served"] == 0 and owners(cluster) == {}
    create(node, NAMES[0])
    assert owners(cluster) == {NAMES[0]: "one"} and facts(node)["served"] == 1
    assert node.metric("tally_namespaces_at_rest") == len(NAMES) - 1
    wait_rested(cluster, NAMES[0])
    wait_until(lambda: facts(node)["served"] == 0 and connections(cluster) <= 3, what="that it is closed")
    assert node.request("GET", "/ready")[0] == 200
    queues = ok(node, key_of(NAMES[0]), "ListQueues", {})["QueueUrls"]
    assert [queue.rsplit("/", 1)[1] for queue in queues] == ["jobs"]
    assert owners(cluster)[NAMES[0]] == "one"


JOBS = url(NAMES[0])
LIVES = {
    "a message": [("SendMessage", {"QueueUrl": JOBS, "MessageBody": "m"})],
    "a delayed message": [("SendMessage", {"QueueUrl": JOBS, "MessageBody": "m", "DelaySeconds": 900})],
    "a message in flight": [("SendMessage", {"QueueUrl": JOBS, "MessageBody": "m"}),
                            ("ReceiveMessage", {"QueueUrl": JOBS, "VisibilityTimeout": 900})],
    "a schedule": [("Tally.PutSchedule", {"QueueUrl": JOBS, "Name": "s", "Cron": "0 0 1 1 *", "MessageBody": "m"})],
    "an open batch": [("Tally.CreateBatch", {"BatchId": "b"})],
    "a relay": [("Tally.CreateRelay", {"RelayName": "r", "Paused": True, "Sink": {"Type": "queue"}, "Source": {
        "Type": "postgres", "Connection": "postgresql://nobody@127.0.0.1:1/none"}})],
    "a ticket": [("Tally.CreatePool", {"PoolName": "p", "Matcher": "external", "ResultQueueUrl": JOBS}),
                 ("Tally.OfferTickets", {"PoolName": "p", "Tickets": [{"TicketId": "t"}]})],
}


@pytest.mark.parametrize("what", [*LIVES, "a long poll"])
def test_where_something_lives_it_stays_open(cluster, make, what):  # noqa: F811
    node = make("one").start().wait_ready()
    name, other = NAMES[:2]
    create(node, name)
    create(node, other)
    for action, parameters in LIVES.get(what, []):
        ok(node, key_of(name), action, parameters)
    if what == "a long poll":
        poll = threading.Thread(target=ask, args=(node, "json", "ReceiveMessage", {
            "QueueUrl": url(name), "WaitTimeSeconds": 8}, key_of(name)))
        poll.start()
    wait_rested(cluster, other)
    time.sleep(2)
    assert owners(cluster)[name] == "one"
    if what == "a long poll":
        poll.join(20 * PATIENCE)
        wait_rested(cluster, name)


def test_what_it_remembers_is_there_again(cluster, make):  # noqa: F811
    """Deduplication ids, and the outcome of a batch."""
    node = make("one").start().wait_ready()
    name = NAMES[0]
    create(node, name, "line.fifo", FifoQueue="true")
    queue = f"http://any.host/{name}/line.fifo"
    sent = {"QueueUrl": queue, "MessageBody": "m", "MessageGroupId": "g", "MessageDeduplicationId": "d"}
    first = ok(node, key_of(name), "SendMessage", sent)["MessageId"]
    message, = ok(node, key_of(name), "ReceiveMessage", {"QueueUrl": queue})["Messages"]
    ok(node, key_of(name), "DeleteMessage", {"QueueUrl": queue, "ReceiptHandle": message["ReceiptHandle"]})
    wait_rested(cluster, name)
    assert ok(node, key_of(name), "SendMessage", sent)["MessageId"] == first
    assert ok(node, key_of(name), "ReceiveMessage", {"QueueUrl": queue}).get("Messages", []) == []


def test_any_node_is_asked_and_the_one_where_it_belongs_opens_it(cluster, make):  # noqa: F811
    nodes = [make(name).start() for name in ("one", "two", "three")]
    wait_until(lambda: len(status(cluster)[0]) == 3, what="three nodes")
    for node in nodes:
        node.wait_ready()
    homes = {}
    for number, name in enumerate(NAMES):
        create(nodes[number % 3], name)
        homes[name] = owners(cluster)[name]
    assert len(set(homes.values()) - {""}) > 1
    wait_rested(cluster, *NAMES)
    logs = status(cluster)[1]
    assert all(log["Node"] == "" and log["Wanted"] for log in logs.values())
    assert "at rest" in tally(cluster, "status")[1]
    for number, name in enumerate(NAMES):
        assert serves(nodes[(number + 1) % 3], name)
        assert owners(cluster)[name] in (logs[name]["Wanted"], "")


def test_a_node_that_is_drained_opens_nothing(cluster, make):  # noqa: F811
    one, two = (make(name, rest=LATER).start() for name in ("one", "two"))
    wait_until(lambda: len(status(cluster)[0]) == 2, what="two nodes")
    assert tally(cluster, "drain", "one")[0] == 0
    time.sleep(2)  # until both have read it
    for name in NAMES:
        create(one, name)
    assert set(owners(cluster).values()) == {"two"}
    assert two.metric("tally_namespaces_owned") == len(NAMES)


def test_where_the_node_does_not_know_it_another_one_opens_it(cluster, make):  # noqa: F811
    """The credentials of one node are older."""
    one, two = (make(name, ["888888888888"], rest=LATER).start().wait_ready() for name in ("one", "two"))
    wait_until(lambda: len(status(cluster)[0]) == 2, what="two nodes")
    names = [f"7{number:011}" for number in range(6)]
    rename(two, ["888888888888", *names])
    assert any(in_turn(lambda name: ask(two, "json", "ListQueues", {}, key_of(name)).status == 503, names))
    in_turn(lambda name: wait_until(lambda: serves(two, name, 400), 20 * LEASE, f"that {name} is served"), names)
    assert {owners(cluster)[name] for name in names} == {"two"}
    assert one.metric("tally_namespaces_owned") == 0


def test_the_node_that_had_it_dies_before_it_is_left_at_rest(cluster, make):  # noqa: F811
    one, two = (make(name).start() for name in ("one", "two"))
    wait_until(lambda: len(status(cluster)[0]) == 2, what="two nodes")
    for name in NAMES:
        create(one, name)
    one.kill9()
    wait_until(lambda: all(serves(two, name) for name in NAMES), 10 * CROWD + LEASE, "that the other one serves all")


def test_clients_that_come_just_when_it_rests_are_answered_once_and_in_order(cluster, make):  # noqa: F811
    """Each pause of theirs is about as long as it takes to rest."""
    nodes = [make(name, rest=("--rest-after", "300ms")).start() for name in ("one", "two", "three")]
    wait_until(lambda: len(status(cluster)[0]) == 3, what="three nodes")
    for node in nodes:
        node.wait_ready()
    pipes = [SlowPipe(nodes, name) for name in NAMES]
    time.sleep(scaled(15, least=5))
    for pipe in pipes:
        pipe.finish()
    assert sum(pipe.sent for pipe in pipes) > 40
    epochs = cluster.sql("SELECT sum(epoch) FROM tally_log.head")[0][0]
    assert epochs > 2 * len(NAMES), "they have rested in between"


class SlowPipe(Pipe):
    """It sends, receives and deletes one message, and rests for a while."""

    def __init__(self, nodes, namespace):
        self.pauses = int(namespace)
        super().__init__(nodes, namespace)

    def _pause(self):
        while self.is_sending and self._has_more():
            time.sleep(0.02)
        self.pauses += 1
        time.sleep(0.25 + self.pauses % 8 * 0.025)

    def _has_more(self):
        return len(self.deleted) < self.sent


# --- signs of life ----------------------------------------------------------------------------------------------------


@pytest.fixture
def idle(cluster, make):  # noqa: F811
    """A node with open namespaces that nobody uses."""
    node = make("one", rest=("--rest-after", "0s")).start()
    wait_served(node, len(NAMES))
    return node


def life_of(cluster):  # noqa: F811
    return dict(cluster.sql("SELECT log, number FROM tally_log.beat"))


def test_idle_logs_get_their_signs_of_life_in_one_statement(cluster, idle):  # noqa: F811
    del idle
    time.sleep(LEASE)
    before, began = life_of(cluster), time.monotonic()
    time.sleep(2 * LEASE)
    leases = (time.monotonic() - began) / LEASE
    after = life_of(cluster)
    assert all(2 * leases <= after[log] - before[log] <= 6 * leases for log in before), (before, after)
    assert len({after[log] - before[log] for log in before}) <= 2, "each by itself would not keep step"
    assert cluster.sql("SELECT max(epoch) FROM tally_log.head") == [(1,)]


def test_logs_give_their_own_signs_of_life_where_the_statement_for_all_fails(cluster, idle):  # noqa: F811
    cut = ("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() "
           "AND application_name = 'tallyd, pulse of all'")
    wait_until(lambda: cluster.sql(cut)[0][0] == 1, what="that it is there")
    before, began = life_of(cluster), time.monotonic()
    while time.monotonic() < began + 3 * LEASE:
        cluster.sql(cut)
        time.sleep(0.01)
    after = life_of(cluster)
    assert all(after[log] - before[log] >= 3 for log in before), (before, after)
    assert facts(idle)["served"] == len(NAMES)
    assert cluster.sql("SELECT max(epoch) FROM tally_log.head") == [(1,)]


# --- many -------------------------------------------------------------------------------------------------------------


CONNECTIONS_MAX = 1441  # of K15: one for each namespace, two for each of 72 that a node follows, three for each node
MEMORY_MAX = 100 << 20  # of K16; each connection, thread and open namespace would add to it


@pytest.fixture
def large_cluster(tmp_path):
    database = Postgres(tmp_path / "postgres", fsync="on", max_connections=str(CONNECTIONS_MAX + 20)).start()
    made = Cluster(database, tmp_path)
    yield made
    made.stop()
    database.stop("immediate")


@pytest.fixture
def make_large(large_cluster, tmp_path, monkeypatch):
    return node_maker(large_cluster, tmp_path, monkeypatch)


def names_of(count):
    return [f"{number:012}" for number in range(1, count + 1)]


def in_turn(work, names, threads=8):
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, names))


def test_K15_of_1000_namespaces_on_three_nodes_all_serve_ten_seconds_after_one_was_killed(
        large_cluster, make_large):
    names = names_of(scaled(300, "NAMESPACES", least=100))  # NAMESPACES=1000: all of them
    nodes = [make_large(name, names, *SMALL, *LATER).start() for name in ("one", "two", "three")]
    wait_until(lambda: len(status(large_cluster)[0]) == 3, what="three nodes")
    for node in nodes:
        node.wait_ready()
    in_turn(lambda name: wait_until(lambda: creates(nodes[int(name) % 3], name), 60, f"that {name} opens"), names)
    assert sorted(owners(large_cluster)) == names
    had = Counter(owners(large_cluster).values())
    assert set(had) == {"one", "two", "three"} and max(had.values()) <= len(names) * 5 // 12 + 1
    left = nodes[1:]
    began = time.monotonic()
    nodes[0].kill9()

    def answers(name):
        wait_until(lambda: serves(left[int(name) % 2], name), 30 * CROWD, f"that {name} is served")
        return time.monotonic() - began

    slowest = max(in_turn(answers, names, threads=16))
    assert slowest < 10 * crowd()
    assert connections(large_cluster) < CONNECTIONS_MAX
    assert "one" not in owners(large_cluster).values()


def crowd():
    """As CROWD, by what runs now: other suites may have begun since."""
    return max(CROWD, 2 * os.getloadavg()[0] / os.cpu_count())


def test_K16_of_10000_idle_namespaces_on_a_node_each_answers_its_first_request_soon(cluster, make):  # noqa: F811
    names = names_of(10000)
    began = time.monotonic()
    node = make("one", names, rest=LATER).start().wait_ready()
    assert time.monotonic() - began < 5 * CROWD
    took = []
    for name in names[::500]:
        began = time.monotonic()
        create(node, name)
        took.append(time.monotonic() - began)
    assert statistics.median(took) < 0.1 * crowd() and max(took) < 0.5 * crowd(), took
    threads = len(list((pathlib.Path("/proc") / str(node.pid) / "task").iterdir()))
    assert threads < 20 and connections(cluster) <= len(took) + 3
    assert not IS_BARE or status_bytes(node, "VmRSS") < MEMORY_MAX
