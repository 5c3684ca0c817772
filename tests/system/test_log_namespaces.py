"""Several namespaces in one PostgreSQL, and what a client hears whose node loses the log under its request."""

import concurrent.futures
import contextlib
import json
import signal
import time

import pytest
from conftest import PATIENCE, wait_until, write_credentials
from test_auth import ok
from logs import LEASED, SMALL, TAKEOVER, cluster, create_queue, serves, server  # noqa: F401
from nodes import STANDING_BY
from test_log_tools import tally
from test_namespaces import CREDENTIALS, FIRST, SECOND, SECRETS, bodies, make
from wire import Connection


@pytest.fixture
def secrets(monkeypatch):
    monkeypatch.setattr("test_auth.SECRETS", SECRETS)


def owners(cluster):
    return [node for (node,) in cluster.sql("SELECT node FROM tally_log.head ORDER BY log")]


def has_in_cache(node, namespace, text):
    """Has it followed the log of the namespace to where that text was written?"""
    return any(text in path.read_bytes() for path in (node.data / f"{namespace}.cache").iterdir() if path.is_file())


def test_the_metrics_say_how_far_a_standby_is_behind(cluster):
    first, second = cluster.pair(*SMALL)
    jobs = create_queue(cluster.line())
    for number in range(20):
        before = first.metric("tally_log_position_bytes")
        cluster.line().ok("AmazonSQS.SendMessage", {"QueueUrl": jobs, "MessageBody": "m" * 1000 * number + "m"})
        written = first.metric("tally_log_position_bytes")
        assert written > before + 1000 * number
        wait_until(lambda w=written: second.metric("tally_log_position_bytes") == w, what="that it has followed")
    first.kill9()
    second.wait_ready()
    assert second.metric("tally_log_position_bytes") > written


def test_K1_a_standby_follows_every_namespace_and_takes_them_over_together(cluster, tmp_path, secrets):
    options = (*SMALL, "--credentials", write_credentials(tmp_path, CREDENTIALS))
    first, second = cluster.pair(*options)
    make(first)
    for namespace, text in (FIRST, b"of ONE"), (SECOND, b"of TWO"):
        wait_until(lambda n=namespace, t=text: has_in_cache(second, n, t), what=f"that {namespace} is followed")
    for owner, other in (first, second), (second, first):
        killed_at = time.monotonic()
        owner.kill9()
        other.wait_ready()
        assert time.monotonic() - killed_at < TAKEOVER * PATIENCE
        assert owners(cluster) == [other.name] * 2
        assert bodies(other, "ONE", FIRST) == ["of ONE"] and bodies(other, "TWO", SECOND) == ["of TWO"]
        owner.start().wait_standing_by()
    assert owners(cluster) == ["one"] * 2


def test_K26_all_nodes_and_postgresql_are_killed_at_once_and_started_at_once_and_all_namespaces_serve(
        cluster, tmp_path, secrets, capsys):
    nodes = cluster.pair(*SMALL, "--credentials", write_credentials(tmp_path, CREDENTIALS))
    make(nodes[0])
    for node in nodes:
        node.process.kill()
    cluster.server.kill9()
    for node in nodes:
        node.kill9()
    began_at = time.monotonic()
    for node in nodes:
        node.start()
    cluster.server.start()
    wait_until(lambda: any(node.health() == "ok" for node in nodes), 15 * TAKEOVER, "that one serves")
    (owner,) = [node for node in nodes if node.health() == "ok"]
    assert bodies(owner, "ONE", FIRST) == ["of ONE"] and bodies(owner, "TWO", SECOND) == ["of TWO"]
    took = time.monotonic() - began_at
    assert owners(cluster) == [owner.name] * 2
    with capsys.disabled():
        print(f"\nK26: two namespaces on two nodes serve {took:.2f} s after all were started, PostgreSQL too")


def stand_bys(cluster, folder):
    """Of each namespace, in words and as JSON."""
    words = tally("cluster", "status", cluster.uri, folder=folder)[1].splitlines()
    facts = map(json.loads, tally("--json", "cluster", "status", cluster.uri, folder=folder)[1].splitlines())
    return [line.rsplit(", ")[-1] for line in words], {one["Namespace"]: one["StandBys"] for one in facts}


def test_status_counts_those_that_stand_by_for_each_namespace(cluster, tmp_path, secrets):
    options = (*SMALL, "--credentials", write_credentials(tmp_path, CREDENTIALS))
    first, second = cluster.pair(*options)
    both = (["1 stand by"] * 2, {FIRST: 1, SECOND: 1})
    wait_until(lambda: stand_bys(cluster, tmp_path) == both, what="the other node, for both")
    third = cluster.node("three", *options).start().wait_standing_by()
    wait_until(lambda: stand_bys(cluster, tmp_path)[1] == {FIRST: 2, SECOND: 2}, what="a third node, for both")
    assert third.stop() == 0
    first.kill9()  # the owner's connection is then the one on which it has waited
    second.wait_ready()
    none = (["0 stand by"] * 2, {FIRST: 0, SECOND: 0})
    wait_until(lambda: stand_bys(cluster, tmp_path) == none, what="that nobody stands by")
    first.start().wait_standing_by()
    wait_until(lambda: stand_bys(cluster, tmp_path) == both, what="the node that came back, for both")


def test_more_namespaces_than_are_followed_at_a_time_are_all_taken_over(cluster, tmp_path, secrets):
    """32 logs are followed, each on a connection; this one has 40."""
    names = [f"{number:012}" for number in range(40)]
    lines = [f"K{name}  one-secret  {name}  read,write,admin" for name in names]
    SECRETS.update({f"K{name}": "one-secret" for name in names})
    first, second = cluster.pair(*SMALL, "--credentials", write_credentials(tmp_path, "\n".join(lines) + "\n"))
    for name in names[::13]:
        ok(first, f"K{name}", "CreateQueue", {"QueueName": "jobs"})
    first.kill9()
    second.wait_ready(60)
    assert owners(cluster) == ["two"] * 40
    for name in names[::13]:
        assert ok(second, f"K{name}", "ListQueues")["QueueUrls"]


def test_K3_requests_under_way_when_the_log_is_lost_are_refused_with_a_503(cluster, proxy):
    node = cluster.node("one", *LEASED, uri=proxy.uri(cluster.uri)).start().wait_ready()
    jobs = create_queue(cluster.line())
    with concurrent.futures.ThreadPoolExecutor() as pool, contextlib.ExitStack() as stack:
        lines = [stack.enter_context(Connection(node.port, 20 * PATIENCE)) for _ in range(4)]
        waits = [pool.submit(lines[0].call, "AmazonSQS.ReceiveMessage", {"QueueUrl": jobs, "WaitTimeSeconds": 20})]
        time.sleep(0.2)
        proxy.freeze()
        for line in lines[1:]:
            waits.append(pool.submit(line.call, "AmazonSQS.SendMessage", {"QueueUrl": jobs, "MessageBody": "m"}))
        replies = [wait.result() for wait in waits]
    for reply in replies:
        assert reply.status == 503 and "ServiceUnavailable" in reply.json()["__type"], reply
        assert "does not know whether the request took effect" in reply.json()["message"]
    proxy.thaw()
    wait_until(lambda: serves(node, jobs), what="that it serves again")


def stood_by(node):
    """How often it has begun to."""
    return sum(line.startswith(STANDING_BY) for line in node.lines)


def owner_of(cluster, namespace):
    return cluster.sql("SELECT node FROM tally_log.head WHERE log = %s", namespace)[0][0]


def apart(cluster, tmp_path, uri=None):
    """Two nodes with a namespace each; the first then waits for that of the second as well."""
    both = [line for line in CREDENTIALS.splitlines() if FIRST in line or SECOND in line]
    files = [tmp_path / "first", tmp_path / "second"]
    for path, namespace in zip(files, (FIRST, SECOND)):
        path.mkdir()
        write_credentials(path, "\n".join(line for line in both if namespace in line) + "\n")
    one = cluster.node("one", *LEASED, "--credentials", files[0] / "credentials", uri=uri).start().wait_ready()
    other = cluster.node("two", *LEASED, "--credentials", files[1] / "credentials").start().wait_ready()
    assert (owner_of(cluster, FIRST), owner_of(cluster, SECOND)) == ("one", "two")
    write_credentials(files[0], CREDENTIALS)
    one.process.send_signal(signal.SIGHUP)
    waits = ("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
             f" AND application_name LIKE 'tallyd, %{SECOND}'")
    wait_until(lambda: cluster.sql(waits)[0][0] >= 2, what="that node one follows the namespace of node two")
    return one, other


def test_K2_a_node_that_waits_for_a_namespace_of_another_one_stops_when_it_is_told_to(cluster, tmp_path, secrets):
    one, other = apart(cluster, tmp_path)
    assert one.stop() == 0
    assert owner_of(cluster, SECOND) == "two" and other.process.poll() is None


def test_K3_a_node_that_waits_for_a_namespace_of_another_one_stands_by_when_it_loses_its_own(
        cluster, proxy, tmp_path, secrets):
    one, _ = apart(cluster, tmp_path, proxy.uri(cluster.uri))
    proxy.freeze()
    wait_until(lambda: stood_by(one) == 2, what="that it begins again")
    proxy.thaw()


def test_a_node_that_begins_again_reads_its_credentials_again(cluster, proxy, tmp_path, secrets, monkeypatch):
    path = write_credentials(tmp_path, CREDENTIALS)
    node = cluster.node("one", *LEASED, "--credentials", path, uri=proxy.uri(cluster.uri)).start().wait_ready()
    make(node)
    write_credentials(tmp_path, CREDENTIALS.replace(SECRETS["ONE"], "another-secret"))
    proxy.freeze()
    wait_until(lambda: stood_by(node) == 2, what="that it begins again")
    proxy.thaw()
    node.wait_ready()
    monkeypatch.setitem(SECRETS, "ONE", "another-secret")
    assert bodies(node, "ONE", FIRST) == ["of ONE"]
