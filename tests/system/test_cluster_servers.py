"""A cluster whose logs are on several PostgreSQL servers: tally log move brings one from there to there."""

import contextlib
import random
import signal
import subprocess
import time

import pytest
from conftest import BIN, PATIENCE, WRAPPER, clean_environment, wait_until
from logs import CROWD, LEASE, LEASED, cluster, server  # noqa: F401 (fixtures)
from nodes import Cluster
from postgres import Postgres
from test_auth import ask, ok
from test_cluster_namespaces import (NAMES, Pipe, facts, halves, key_of, make_node, url,  # noqa: F401 (fixtures)
                                     wait_served)
from test_cluster_nodes import owners, pin, status, tally
from wire import scaled

MOVED = NAMES[0]


@pytest.fixture(scope="module")
def second_server(tmp_path_factory):
    postgres = Postgres(tmp_path_factory.mktemp("second"), fsync="on").start()  # as a log must have it
    yield postgres
    postgres.stop("immediate")


@pytest.fixture
def other(second_server, tmp_path):
    return Cluster(second_server, tmp_path)  # its tables; no nodes


def place_of(other):  # noqa: F811
    """Without a user: each node takes that from its own --log."""
    return f"postgres://127.0.0.1:{other.server.port}/{other.database}"


def begin_move(cluster, place, name=MOVED):  # noqa: F811
    command = [*WRAPPER, str(BIN / "tally"), "log", "move", name, place, "--log", cluster.uri]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=clean_environment())


def move(cluster, place, name=MOVED):  # noqa: F811
    """Its status, what it printed and what it said."""
    process = begin_move(cluster, place, name)
    printed, said = process.communicate(timeout=120 * PATIENCE)
    return process.returncode, printed, said


def moved(cluster, place, name=MOVED):  # noqa: F811
    code, printed, said = move(cluster, place, name)
    assert code == 0, said
    return printed


def files_at(cluster, name=MOVED):  # noqa: F811
    return cluster.sql("SELECT count(*) FROM tally_log.file f JOIN tally_log.head h ON h.id = f.log WHERE h.log = %s",
                       name)[0][0]


def chunks_at(cluster):  # noqa: F811
    return cluster.sql("SELECT count(*) FROM tally_log.chunk")[0][0]


def answers(node, name=MOVED):
    with contextlib.suppress(OSError):
        return ask(node, "json", "GetQueueUrl", {"QueueName": "jobs"}, key_of(name)).status == 200
    return False


def wait_answered(nodes, name=MOVED, seconds=10):
    for node in nodes:
        wait_until(lambda n=node: answers(n, name), seconds * CROWD, f"that {name} is answered through {node.name}")


def test_a_log_moves_to_another_server_and_back_under_load(cluster, other, halves):  # noqa: F811
    pipes = [Pipe(list(halves), name) for name in NAMES[:3]]
    time.sleep(1)
    there, here = place_of(other), cluster.uri
    for place in there, here, there:
        printed = moved(cluster, place)
        assert f"{MOVED} is at {place} now: " in printed and "nobody had it for" in printed
        wait_answered(halves)
        assert files_at(other if place == there else cluster) > 0
        assert files_at(cluster if place == there else other) == 0
        sent = pipes[0].sent
        wait_until(lambda: pipes[0].sent > sent + 5, what="that it goes on there")
    log = status(cluster)[1][MOVED]
    assert log["Postgres"] == there and log["Connected"] and not log["Moving"] and log["Node"] == "one"
    assert f", at {there}" in tally(cluster, "status")[1]
    wait_until(lambda: owners(cluster)[MOVED] == "one", what="that the cluster's database knows the owner")
    one, two = halves
    one.kill9()  # its stand-by takes over on that server, too
    wait_served(two, len(NAMES))
    one.start()
    wait_served(one, 2)
    for pipe in pipes:
        pipe.finish()
        assert pipe.sent > 20


def test_only_the_namespaces_on_a_server_that_is_gone_stop_and_they_go_on_when_it_is_back(
        cluster, other, halves, second_server):  # noqa: F811
    one, two = halves
    moved(cluster, place_of(other))
    wait_answered(halves)
    ok(one, key_of(MOVED), "SendMessage", {"QueueUrl": url(MOVED), "MessageBody": "kept"})
    second_server.stop("immediate")
    try:
        wait_until(lambda: not answers(two), 10 * CROWD, "that nobody answers for it")
        for name in NAMES[1:]:
            assert answers(one, name) and answers(two, name)
        assert one.request("GET", "/health")[0] == 200
        assert "as its nodes last said" in tally(cluster, "status")[1]
    finally:
        second_server.start()
    wait_answered(halves, seconds=20)
    received = ok(two, key_of(MOVED), "ReceiveMessage", {"QueueUrl": url(MOVED)})
    assert [message["Body"] for message in received["Messages"]] == ["kept"]


def test_a_move_that_is_killed_at_any_moment_loses_nothing_and_is_gone_on_with(cluster, other, halves):  # noqa: F811
    pipe = Pipe(list(halves), MOVED)
    draw = random.Random(26)
    places = [place_of(other), cluster.uri]
    time.sleep(0.5)
    for turn in range(scaled(6, least=3)):
        process = begin_move(cluster, places[turn % 2])
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(draw.uniform(0.02, 2.0))
        process.kill()
        process.communicate()
        moved(cluster, draw.choice(places))
        wait_answered(halves)
    pipe.finish()
    assert pipe.sent > 20


def test_a_move_that_broke_off_is_said_and_can_be_given_up(cluster, other, halves):  # noqa: F811
    cluster.sql("UPDATE tally_log.head SET is_moving = true WHERE log = %s", MOVED)
    one, two = halves
    for node in halves:
        wait_until(lambda n=node: not answers(n), 10 * CROWD, "that nobody may have it")
    answer = ask(two, "json", "GetQueueUrl", {"QueueName": "jobs"}, key_of(MOVED))
    assert answer.status == 503 and "moving to another PostgreSQL" in str(answer.body)
    assert status(cluster)[1][MOVED]["Moving"]
    assert "if no \"tally log move\" is at work, type it again" in tally(cluster, "status")[1]
    assert moved(cluster, cluster.uri) == f"{MOVED} is at {cluster.uri} already\n"
    wait_answered(halves)
    assert files_at(other) == 0


def test_an_owner_that_does_not_leave_is_fenced_off_and_answers_nothing_old(cluster, other, halves):  # noqa: F811
    one, two = halves
    one.pause()
    try:
        began = time.monotonic()
        moved(cluster, place_of(other))
        assert time.monotonic() - began >= 10 + LEASE  # while that lasts it may answer what it knows
        wait_answered([two], seconds=20)
        ok(two, key_of(MOVED), "SendMessage", {"QueueUrl": url(MOVED), "MessageBody": "new"})
    finally:
        one.resume()
    wait_answered([one], seconds=20)
    received = ok(one, key_of(MOVED), "ReceiveMessage", {"QueueUrl": url(MOVED)})
    assert [message["Body"] for message in received["Messages"]] == ["new"]


def put(node, name, body):
    ok(node, key_of(name), "SendMessage", {"QueueUrl": url(name), "MessageBody": body})


def kept(node, name):
    """The bodies of all messages, without a turn among them."""
    bodies = []
    while True:
        answer = ok(node, key_of(name), "ReceiveMessage", {
            "QueueUrl": url(name), "MaxNumberOfMessages": 10, "VisibilityTimeout": 600})
        if not answer.get("Messages"):
            return sorted(bodies)
        bodies += [message["Body"] for message in answer["Messages"]]


def moved_at_once(cluster, place):  # noqa: F811
    for name, process in [(name, begin_move(cluster, place, name)) for name in NAMES]:
        said = process.communicate(timeout=180 * PATIENCE)[1]
        assert process.returncode == 0, (name, said)


def test_many_namespaces_move_at_once_there_and_back(cluster, other, halves):  # noqa: F811
    for name in NAMES:
        put(halves[0], name, name)
    for place in place_of(other), cluster.uri:
        moved_at_once(cluster, place)
        assert all((files_at(cluster, name) > 0) == (place == cluster.uri) for name in NAMES)
        assert all((files_at(other, name) > 0) == (place != cluster.uri) for name in NAMES)
    for name in NAMES:
        wait_answered(halves, name, 20)
        assert kept(halves[1], name) == [name]


@pytest.mark.parametrize("is_from_home", [True, False], ids=["from_home", "to_home"])
def test_a_mover_that_stalls_and_loses_its_lock_changes_nothing_that_came_after(
        cluster, other, halves, is_from_home):  # noqa: F811
    place = place_of(other) if is_from_home else cluster.uri
    if not is_from_home:
        moved(cluster, place_of(other))
        wait_answered(halves)
    one, two = halves
    put(two, MOVED, "before")
    owner = next(node for node in halves if node.name == owners(cluster if is_from_home else other)[MOVED])
    owner.pause()  # so that the mover waits for it
    first = begin_move(cluster, place)
    try:
        wait_until(lambda: status(cluster)[1][MOVED]["Moving"], 10 * CROWD, "the mark")
        first.send_signal(signal.SIGSTOP)
        owner.resume()
        assert "is at work" in move(cluster, place)[2]
        cluster.sql("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
                    " AND classid = (hashtext('tally log move')::bigint & 4294967295)::oid")
        wait_until(lambda: move(cluster, place)[0] == 0, 20 * CROWD, "that a second one moves it")
        wait_answered(halves)
        put(two, MOVED, "behind")
    finally:
        first.send_signal(signal.SIGCONT)
        owner.resume()
    said = first.communicate(timeout=60 * PATIENCE)[1]
    assert first.returncode != 0 and said.endswith("Somebody else has moved it at the same time.\n"), said
    wait_answered(halves, seconds=20)
    assert kept(one, MOVED) == ["before", "behind"]


def test_a_log_does_not_move_over_one_that_did_not_come_from_its_cluster(cluster, other, halves):  # noqa: F811
    put(halves[0], MOVED, "ours")
    alone = other.node("alone", *LEASED).start()
    alone.wait_ready(20 * CROWD)
    assert alone.stop() == 0
    other.sql("UPDATE tally_log.head SET log = %s", MOVED)  # it serves one namespace, under a name of its own
    files = files_at(other)
    code, printed, said = move(cluster, place_of(other))
    assert code != 0 and printed == "" and f"has a log of its own for a namespace {MOVED}" in said
    assert other.sql("SELECT count(*) FROM tally_log.cluster") == [(0,)], "that database is not the cluster's by now"
    wait_answered(halves)
    assert files > 0 and files_at(other) == files and kept(halves[1], MOVED) == ["ours"]


def test_a_namespace_at_rest_moves_and_is_opened_there(cluster, other, make_node):  # noqa: F811
    node = make_node("one", NAMES, *LEASED, "--rest-after", "1s").start()
    wait_until(lambda: made(node), 20 * CROWD, "a queue")
    wait_until(lambda: owners(cluster)[MOVED] == "", 20 * CROWD, "that it rests")
    moved(cluster, place_of(other))
    wait_answered([node])
    assert owners(other)[MOVED] == "one"
    wait_until(lambda: owners(other)[MOVED] == "", 20 * CROWD, "that it rests there")
    wait_until(lambda: owners(cluster)[MOVED] == "", 10 * CROWD, "that the cluster's database knows it")
    wait_answered([node])


def made(node):
    with contextlib.suppress(OSError):
        return ask(node, "json", "CreateQueue", {"QueueName": "jobs"}, key_of(MOVED)).status == 200
    return False


def test_what_can_not_be_the_place_of_a_log_is_refused_and_changes_nothing(cluster, other, halves, tmp_path,
                                                                           second_server):  # noqa: F811
    there = place_of(other)
    second_server.sql("CREATE DATABASE empty_one")
    refused = {
        there.replace("//", "//tally:secret@"): "it has a password",
        "postgres:///tally": "it names no host",
        f"postgres://127.0.0.1:{second_server.port}": "it names no database",
        there.replace(other.database, "empty_one"): "has no tables for a log",
        "postgres://": "it names no host",
        "nonsense": "it can't be read",
    }
    for place, reason in refused.items():
        code, printed, said = move(cluster, place)
        assert code != 0 and reason in said and printed == "", (place, said)
    code, _, said = move(cluster, there, "no-such-name")
    assert code != 0 and "There is no namespace no-such-name" in said
    other.sql("INSERT INTO tally_log.cluster (salt, cost, fingerprint, node, address)"
              " VALUES ('\\x01', 1, '\\x02', 'stranger', 'far:1')")
    code, _, said = move(cluster, there)
    assert code != 0 and "belongs to another cluster: its first node was stranger, at far:1" in said
    other.sql("DELETE FROM tally_log.cluster")
    code, _, said = move(other, cluster.uri)
    assert code != 0 and "There is no namespace" in said
    with contextlib.closing(cluster.server.connect(dbname=cluster.database)) as connection:
        connection.cursor().execute("SELECT pg_advisory_lock(hashtext('tally log move'), id) FROM tally_log.head"
                                    " WHERE log = %s", (MOVED,))
        code, _, said = move(cluster, there)
        assert code != 0 and "Another \"tally log move\" is at work" in said
    wait_answered(halves)
    assert not status(cluster)[1][MOVED]["Moving"] and files_at(other) == 0


def test_a_copy_that_fails_leaves_the_namespace_where_it_was(cluster, other, halves):  # noqa: F811
    other.sql("ALTER TABLE tally_log.chunk ADD CONSTRAINT full_up CHECK (octet_length(body) = 0) NOT VALID")
    code, printed, said = move(cluster, place_of(other))
    assert code != 0 and printed == "" and "full_up" in said and said.endswith("It stays where it was.\n"), said
    wait_answered(halves)
    assert not status(cluster)[1][MOVED]["Moving"] and files_at(other) == 0
    other.sql("ALTER TABLE tally_log.chunk DROP CONSTRAINT full_up")
    moved(cluster, place_of(other))
    there = place_of(other).replace("127.0.0.1", "localhost")
    assert moved(cluster, there) == f"{MOVED} is at {there} already\n"  # in another way of writing it
    wait_answered(halves)
    other.sql("ALTER TABLE tally_log.head ADD CONSTRAINT stays CHECK (moved_to IS NULL) NOT VALID")
    code, _, said = move(cluster, cluster.uri)  # to seal it fails
    assert code != 0 and "stays" in said and said.endswith("It stays where it was.\n"), said
    wait_answered(halves)
    other.sql("ALTER TABLE tally_log.head DROP CONSTRAINT stays")
    cluster.sql("ALTER TABLE tally_log.chunk ADD CONSTRAINT full_up CHECK (octet_length(body) = 0) NOT VALID")
    code, _, said = move(cluster, cluster.uri)  # the copy fails, with the row of the log locked
    assert code != 0 and "full_up" in said and said.endswith("It stays where it was.\n"), said
    wait_answered(halves)


def test_a_log_is_not_moved_to_a_copy_of_its_own_server(cluster, halves):  # noqa: F811
    twin = cluster.server.copy().start()
    try:
        code, printed, said = move(cluster, f"postgres://127.0.0.1:{twin.port}/{cluster.database}")
        assert code != 0 and "One of the two servers is a copy of the other" in said and printed == ""
    finally:
        twin.stop("immediate")
    wait_answered(halves)


def test_a_node_alone_neither_serves_nor_checks_what_has_moved(cluster, other, halves):  # noqa: F811
    there = place_of(other)
    moved(cluster, there)
    for node in halves:
        assert node.stop() == 0
    alone = cluster.node("alone", *LEASED)
    cluster.sql("DELETE FROM tally_log.head WHERE log = %s", "000000000000")
    cluster.sql("INSERT INTO tally_log.head (log, owner, moved_to)"
                " VALUES ('000000000000', gen_random_uuid(), %s)", there)
    ended, said = alone.run_to_end()
    assert ended == 1 and "has moved to another PostgreSQL" in said
    done = subprocess.run([*WRAPPER, str(BIN / "tallyd"), "--log", cluster.uri, "--verify"], capture_output=True,
                          text=True, env=clean_environment(), timeout=60 * PATIENCE, check=False)
    assert done.returncode == 0 and f"PostgreSQL/{MOVED}: is at {there}; it is checked there" in done.stdout
