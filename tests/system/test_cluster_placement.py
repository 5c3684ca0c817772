"""Namespaces go where they belong: to nodes that join, away from nodes that drain, and to where an operator wants them,
while clients ask on."""

import contextlib
import time

import pytest
from conftest import wait_until
from logs import CROWD, LEASE, cluster, server  # noqa: F401 (fixtures)
from test_auth import ok
from test_cluster_namespaces import make_node  # noqa: F401 (fixtures)
from test_cluster_namespaces import Flood, Pipe, facts, key_of, rename, serves, wait_served
from test_cluster_nodes import owners, pin, status, tally

NAMES = [f"{number:012}" for number in range(1, 13)]
MOVED = 10 * CROWD  # seconds that all of them may take to move
WAITED = 2 * CROWD  # seconds that a request may wait for a namespace that moves


def owned_by(cluster, node):  # noqa: F811
    return {log for log, owner in owners(cluster).items() if owner == node}


def is_placed(cluster):  # noqa: F811
    """Is each namespace where it belongs?"""
    return all(one["Node"] == one["Wanted"] for one in status(cluster)[1].values())


def wait_placed(cluster, seconds=MOVED):  # noqa: F811
    wait_until(lambda: is_placed(cluster), seconds, "that each namespace is where it belongs")


def make_queues(node, names):
    wait_until(lambda: all(serves(node, name, 400) for name in names), what="that it answers")
    for name in names:
        ok(node, key_of(name), "CreateQueue", {"QueueName": "jobs"})


@contextlib.contextmanager
def undisturbed(targets):
    """Clients of these nodes and namespaces, of which none is refused or waits for long."""
    flood = Flood(targets)
    try:
        flood.wait_more()
        yield flood
        flood.wait_more()
    finally:
        flood.end()
    assert not flood.failures, flood.failures[:3]
    assert flood.slowest < WAITED


def test_K14_a_node_that_joins_gets_its_share_and_one_that_leaves_gives_it_back(cluster, make_node):  # noqa: F811
    one = make_node("one", NAMES).start().wait_ready()
    wait_served(one, len(NAMES))
    make_queues(one, NAMES)
    two = make_node("two", NAMES)
    with undisturbed([(one, name) for name in NAMES]) as flood:
        began = time.monotonic()
        two.start()
        wait_until(lambda: owned_by(cluster, "two"), what="that the new node has some")
        wait_placed(cluster)
        assert time.monotonic() - began < MOVED + 5 * CROWD
        assert 4 <= len(owned_by(cluster, "two")) <= 8  # 5/4 of the mean
        kept = owned_by(cluster, "one")
        assert kept | owned_by(cluster, "two") == set(NAMES)
        flood.wait_more()
        assert two.stop() == 0
        wait_until(lambda: owned_by(cluster, "one") == set(NAMES), MOVED, "that the node that stays has all again")
        flood.wait_more()
    epochs = dict(cluster.sql("SELECT log, epoch FROM tally_log.head"))
    assert {name for name in NAMES if epochs[name] == 1} == kept, "who could stay has been moved"


def test_K13_three_nodes_are_drained_and_restarted_one_after_the_other_under_load(cluster, make_node):  # noqa: F811
    names = NAMES[:6]
    nodes = [make_node(name, names) for name in ("one", "two", "three")]
    for node in nodes:
        node.start()
    wait_until(lambda: len(status(cluster)[0]) == 3 and len(owners(cluster)) == len(names), what="nodes and owners")
    wait_placed(cluster, 20 * CROWD)
    make_queues(nodes[0], names)
    pipes = [Pipe(nodes, name) for name in names[:3]]
    for node in nodes:
        others = [other for other in nodes if other is not node]
        with undisturbed([(others[n % 2], name) for n, name in enumerate(names[3:])]):
            assert tally(cluster, "drain", node.name)[0] == 0
            wait_until(lambda n=node: not owned_by(cluster, n.name), MOVED, f"that node {node.name} has nothing")
            assert node.stop() == 0
            node.start()
            wait_until(lambda n=node: n.health() != "", what="that it is back")
            assert tally(cluster, "uncordon", node.name)[0] == 0
            wait_until(lambda n=node: owned_by(cluster, n.name), MOVED + 5, f"that node {node.name} has some again")
            wait_placed(cluster)
    for pipe in pipes:
        pipe.finish()
        assert pipe.sent > 20


def test_a_namespace_goes_where_an_operator_wants_it_and_back(cluster, make_node):  # noqa: F811
    nodes = [make_node(name, NAMES[:1]).start() for name in ("one", "two")]
    wait_until(lambda: len(status(cluster)[0]) == 2 and owners(cluster), what="two nodes, and an owner")
    wait_placed(cluster, 20 * CROWD)
    home = owners(cluster)[NAMES[0]]
    away = "two" if home == "one" else "one"
    make_queues(nodes[0], NAMES[:1])
    with undisturbed([(node, NAMES[0]) for node in nodes]):
        for words, goal in ((away,), away), (("--anywhere",), home):
            code, _, said = tally(cluster, "move", NAMES[0], *words)
            assert code == 0, said
            wait_until(lambda g=goal: owners(cluster)[NAMES[0]] == g, MOVED, f"that node {goal} has it")


@pytest.mark.parametrize("is_known", [True, False])
def test_a_namespace_whose_node_can_not_have_it_is_taken_by_another_one(cluster, make_node, is_known):  # noqa: F811
    """The node where it belongs has no credentials of it."""
    one = make_node("one", NAMES).start().wait_ready()
    make_node("two", ["888888888888"]).start()
    wait_until(lambda: status(cluster)[0].get("two", {}).get("Alive"), what="two nodes")
    strange = NAMES[0] if is_known else "999999999999"
    if is_known:
        assert tally(cluster, "move", strange, "two")[0] == 0
        assert one.stop() == 0
        one.start()
    else:
        rename(one, [*NAMES, strange])
    wait_until(lambda: serves(one, strange, 400), 40 * LEASE * CROWD, "that the node which knows it has it")
    assert owners(cluster)[strange] == "one"


def test_a_namespace_that_is_written_to_all_the_time_is_followed_by_one_node_only(cluster, make_node):  # noqa: F811
    """Its owner shows no other sign of life, and is not taken for gone."""
    names = NAMES[:6]
    nodes = [make_node(name, names).start() for name in ("one", "two", "three")]
    wait_until(lambda: len(status(cluster)[0]) == 3 and len(owners(cluster)) == len(names), what="nodes and owners")
    wait_placed(cluster, 20 * CROWD)
    make_queues(nodes[0], names)
    before = cluster.sql("SELECT log, epoch FROM tally_log.head ORDER BY log")
    with undisturbed([(nodes[0], name) for name in names]):
        time.sleep(5 * LEASE)
        assert sum(facts(node)["followed"] for node in nodes) <= len(names)
    assert cluster.sql("SELECT log, epoch FROM tally_log.head ORDER BY log") == before


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "stopped by a signal"])
def test_where_it_belongs_to_a_node_that_can_not_have_it_another_one_takes_over(
        cluster, make_node, is_killed):  # noqa: F811
    name = NAMES[0]
    one, two = nodes = [make_node(node, [name]).start() for node in ("one", "two")]
    make_node("three", ["888888888888"]).start()
    wait_until(lambda: len(status(cluster)[0]) == 3 and name in owners(cluster), what="three nodes, and an owner")
    pin(cluster, "three", name)
    make_queues(one, [name])
    owner = owners(cluster)[name]
    other = two if owner == "one" else one
    time.sleep(3)  # until each is settled
    lost = nodes[other is one]
    if is_killed:
        lost.kill9()
    else:
        lost.pause()
    wait_until(lambda: serves(other, name), what="that the other one serves it")


def test_a_node_that_can_not_keep_what_it_gets_does_not_get_it_again_at_once(cluster, make_node):  # noqa: F811
    name = NAMES[0]
    one = make_node("one", [name]).start().wait_ready()
    two = make_node("two", [name]).start()
    wait_until(lambda: len(status(cluster)[0]) == 2, what="two nodes")
    pin(cluster, "two", name)
    make_queues(one, [name])
    wait_until(lambda: owners(cluster)[name] == "two", what="that it goes where it belongs")
    two.kill9()
    wait_served(one, 1)
    back_at = time.monotonic()
    two.start()
    while time.monotonic() < back_at + 8:
        assert owners(cluster)[name] == "one"
        time.sleep(0.2)
    wait_until(lambda: owners(cluster)[name] == "two", what="that it is tried again")


def test_a_namespace_away_from_home_goes_on_when_the_node_that_has_it_is_stopped(cluster, make_node):  # noqa: F811
    """The node where it belongs has no credentials of it; two others have."""
    name = NAMES[0]
    nodes = {node: make_node(node, [name]).start() for node in ("one", "two")}
    three = make_node("three", ["888888888888"]).start()
    wait_until(lambda: len(status(cluster)[0]) == 3 and name in owners(cluster), what="three nodes, and an owner")
    pin(cluster, "three", name)
    make_queues(nodes["one"], [name])
    time.sleep(3)  # until each is settled
    for _ in range(2):
        owner = nodes[owners(cluster)[name]]
        other = nodes["two" if owner.name == "one" else "one"]
        with undisturbed([(other, name)]):
            assert owner.stop() == 0
            wait_until(lambda o=other: owners(cluster)[name] == o.name, MOVED, "that the other one has it")
        owner.start()
        wait_until(lambda o=owner: status(cluster)[0][o.name]["Alive"], what="that it is back")
        time.sleep(3)
    assert three.process.poll() is None
