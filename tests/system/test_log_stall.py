"""The log in PostgreSQL: an owner whose PostgreSQL is silent for longer than the lease, and whose log nobody takes
meanwhile. It goes on as it is, instead of reading its log again (docs/internals/decisions/0030)."""

import concurrent.futures
import contextlib
import math
import time

import pytest
from conftest import PATIENCE, wait_until, write_credentials
from logs import (CROWD, LEASE, LEASED, SMALL, TAKEOVER, Traffic, await_takeover, cluster, create_queue,  # noqa: F401
                  delete, drain, receive, send, serves, server)
from test_log_namespaces import owners, secrets  # noqa: F401 (fixture)
from test_log_server import set_standby_names
from test_namespaces import CREDENTIALS, FIRST, SECOND, SECRETS, bodies, make
from wire import Connection, Lost

# When PostgreSQL is back, an owner has half a lease in which no other node takes its log. That has to be long enough
# for a machine that does other work beside it.
PAIR_LEASE = min(8, max(LEASE, math.ceil(CROWD)))
PAIR_LEASED = (*SMALL, "--lease", f"{PAIR_LEASE}s")


@contextlib.contextmanager
def silence(cluster, lease=LEASE):
    """PostgreSQL is down for three leases, and up again."""
    cluster.server.stop("immediate")
    began = time.monotonic()
    try:
        yield
        time.sleep(max(0, began + 3 * lease - time.monotonic()))
    finally:
        cluster.server.start()


def alone(cluster):
    return cluster.node("one", *LEASED).start().wait_ready()


def await_again(node, queue):
    """It serves again: as soon as a stand-by would after the end of the owner."""
    await_takeover(node, queue, time.monotonic(), TAKEOVER)


def answers(node, *requests):
    """Those of requests that are under way at the same time."""
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool, contextlib.ExitStack() as stack:
        lines = [stack.enter_context(Connection(node.port, 20 * PATIENCE)) for _ in requests]
        waits = [pool.submit(line.call, f"AmazonSQS.{action}", body) for line, (action, body) in zip(lines, requests)]
        return [wait.result() for wait in waits]


def test_K6_an_owner_goes_on_as_it_is_when_postgresql_was_away_for_many_leases(cluster):  # noqa: F811
    owner, other = cluster.pair(*PAIR_LEASED)
    traffic = Traffic(cluster)
    queue = create_queue(cluster.line(), "mark")
    for round_number in range(2):
        time.sleep(0.5)
        with silence(cluster, PAIR_LEASE):
            [answer] = answers(owner, ("SendMessage", {"QueueUrl": queue, "MessageBody": f"unknown{round_number}"}))
            assert answer.status == 503 and "does not know whether" in answer.json()["message"]
            wait_until(lambda: owner.health() == "standby", 10 + PAIR_LEASE, "that it serves nothing")
            assert not serves(owner, queue) and not serves(other, queue)
            assert [owner.metric(f"tally_{name}") for name in ("namespaces_stalled", "log_owner")] == [1, 0]
            with contextlib.suppress(Lost), Connection(owner.port, 10) as line:
                assert "waits for its log in PostgreSQL" in line.call("AmazonSQS.ListQueues", {}).json()["message"]
        await_again(owner, queue)
        assert [owner.metric(f"tally_{name}") for name in ("namespaces_stalled", "log_owner")] == [0, 1]
        traffic.check()
    # What was not durable when PostgreSQL went is there: who reads the log again does not find it.
    assert drain(Connection(owner.port), queue) == ["unknown0", "unknown1"]
    assert cluster.head()[1] == "one" and owner.is_ready(), owner.error_text()
    traffic.finish()
    killed_at = time.monotonic()
    owner.kill9()
    await_takeover(other, traffic.jobs, killed_at)


def test_K6_an_owner_finds_the_seal_that_postgresql_made_long_after_it_had_stopped_waiting(cluster):  # noqa: F811
    """PostgreSQL answers, and commits nothing: it waits for a standby that is not there."""
    node = alone(cluster)
    queue = create_queue(cluster.line())
    sent = []
    set_standby_names(cluster.server, "nobody")
    try:
        status = 200  # until PostgreSQL has heard of the setting
        while status == 200:
            sent.append(f"m{len(sent)}")
            status = answers(node, ("SendMessage", {"QueueUrl": queue, "MessageBody": sent[-1]}))[0].status
        assert status == 503
        time.sleep(3 * LEASE)
    finally:
        set_standby_names(cluster.server, "")
    await_again(node, queue)
    assert drain(Connection(node.port), queue) == sent
    assert "owns the log" not in node.error_text() and "PostgreSQL answers again" in node.error_text()


def test_K6_a_relay_goes_on_with_its_namespace(cluster):  # noqa: F811
    node = alone(cluster)
    line = Connection(node.port, 20 * PATIENCE)
    source, sink = create_queue(line, "from"), create_queue(line, "to")
    line.ok("Tally.CreateRelay", {"RelayName": "r", "Source": {"Type": "queue", "QueueUrl": source},
                                  "Sink": {"Type": "queue", "QueueUrl": sink}})
    send(line, source, ["a"])
    wait_until(lambda: drain(line, sink) == ["a"], what="that the relay works")
    with silence(cluster):
        wait_until(lambda: node.health() == "standby", what="that it serves nothing")
    await_again(node, sink)
    send(line, source, ["b"])
    wait_until(lambda: drain(line, sink) == ["b"], what="that the relay works again")


def test_K6_the_messages_of_a_receive_that_was_refused_are_there_at_once(cluster):  # noqa: F811
    node = alone(cluster)
    line = Connection(node.port, 20 * PATIENCE)
    plain, ordered = create_queue(line, "plain"), create_queue(line, "ordered.fifo")
    send(line, plain, ["a"])
    for body in "b", "c":
        line.ok("AmazonSQS.SendMessage", {"QueueUrl": ordered, "MessageBody": body, "MessageGroupId": "g",
                                          "MessageDeduplicationId": body})
    with silence(cluster):
        ask = {"VisibilityTimeout": 600, "AttributeNames": ["ApproximateReceiveCount"]}
        refused = answers(node, ("ReceiveMessage", {"QueueUrl": plain, **ask}),
                          ("ReceiveMessage", {"QueueUrl": ordered, **ask}))
        assert [answer.status for answer in refused] == [503, 503]
    await_again(node, plain)
    for queue, body in (plain, "a"), (ordered, "b"):
        [message] = receive(line, queue, AttributeNames=["ApproximateReceiveCount"], MaxNumberOfMessages=1)
        assert (message["Body"], message["Attributes"]["ApproximateReceiveCount"]) == (body, "2")
        delete(line, queue, message)
    assert drain(line, ordered) == ["c"]


def test_K6_a_receive_that_was_refused_is_repeated_with_its_attempt_id(cluster):  # noqa: F811
    node = alone(cluster)
    line = Connection(node.port, 20 * PATIENCE)
    queue = create_queue(line, "ordered.fifo")
    line.ok("AmazonSQS.SendMessage", {"QueueUrl": queue, "MessageBody": "a", "MessageGroupId": "g",
                                      "MessageDeduplicationId": "a"})
    ask = {"VisibilityTimeout": 600, "ReceiveRequestAttemptId": "attempt"}
    with silence(cluster):
        assert answers(node, ("ReceiveMessage", {"QueueUrl": queue, **ask}))[0].status == 503
    await_again(node, queue)
    assert receive(line, queue) == []
    [message] = receive(line, queue, **ask)
    delete(line, queue, message)


@pytest.mark.parametrize("refuses", [False, True], ids=["no heartbeat", "a heartbeat that was refused"])
def test_K6_a_worker_that_could_send_no_heartbeat_keeps_its_message(cluster, refuses):  # noqa: F811
    node = alone(cluster)
    line = Connection(node.port, 20 * PATIENCE)
    queue = create_queue(line)
    send(line, queue, ["a"])
    [message] = receive(line, queue, VisibilityTimeout=2 * LEASE)
    with silence(cluster):
        if refuses:
            beat = {"QueueUrl": queue, "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 2 * LEASE}
            assert answers(node, ("ChangeMessageVisibility", beat))[0].status == 503
    await_again(node, queue)
    assert receive(line, queue) == []
    line.ok("AmazonSQS.ChangeMessageVisibility",
            {"QueueUrl": queue, "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 60})
    assert receive(line, queue) == []
    delete(line, queue, message)


def test_K6_every_namespace_of_a_node_goes_on_as_it_is(cluster, tmp_path, secrets):  # noqa: F811
    options = (*PAIR_LEASED, "--credentials", write_credentials(tmp_path, CREDENTIALS))
    one, two = cluster.pair(*options)
    make(one)
    with silence(cluster, PAIR_LEASE):
        wait_until(lambda: one.health() == "standby", 10 + PAIR_LEASE, "that it serves nothing")
    one.wait_ready(TAKEOVER)
    assert owners(cluster) == ["one"] * 2
    assert bodies(one, "ONE", FIRST) == ["of ONE"] and bodies(one, "TWO", SECOND) == ["of TWO"]
    assert two.health() == "standby"


def test_K6_of_more_namespaces_than_may_wait_all_are_served_again(
        cluster, tmp_path, secrets, monkeypatch):  # noqa: F811
    """48 go on as they are, among them the first by name, without which no other is served. The others are read
    again."""
    names = [f"{number:012}" for number in range(60)]
    for name in names:
        monkeypatch.setitem(SECRETS, f"K{name}", "one-secret")
    lines = [f"K{name}  one-secret  {name}  read,write,admin\n" for name in names]
    node = cluster.node("one", *LEASED, "--credentials", write_credentials(tmp_path, "".join(lines))).start()
    node.wait_ready(60)
    for _ in range(2):
        with silence(cluster):
            wait_until(lambda: node.metric("tally_namespaces_stalled") in (48, 49), what="that as many wait as may")
        node.wait_ready(60)
        assert node.metric("tally_namespaces_owned") == 60


@pytest.mark.parametrize("is_back", [False, True], ids=["away", "back"])
def test_a_node_that_waits_for_postgresql_stops_when_it_is_told_to(cluster, is_back):  # noqa: F811
    node = alone(cluster)
    queue = create_queue(cluster.line())
    with silence(cluster):
        answers(node, ("SendMessage", {"QueueUrl": queue, "MessageBody": "a"}))
        wait_until(lambda: node.health() == "standby", what="that it serves nothing")
        if not is_back:
            began = time.monotonic()
            assert node.stop() == 0
            assert time.monotonic() - began < (2 * LEASE + 1) * PATIENCE
    if is_back:
        assert node.stop() == 0
    node.start().wait_ready()
    assert drain(Connection(node.port), queue) in ([], ["a"])
