"""Relays as the daemon's own: created, shown, paused, resumed and deleted by actions and commands, over restarts,
beside another daemon, with credentials and without, and with something wrong. What arrived is counted by what the
queues give."""

import contextlib
import http.client
import json
import os
import signal
import socket
import stat
import time

import pytest
from certificates import Certificate
from conftest import PATIENCE, Tally, free_port, wait_until
from pools import Pool, ticket
from proxy import Proxy
from queues import make_queue
from relay import check_once, drain, install_outbox, numbered, outbox_count
from relay_actions import create, describe, good, refused, wait_for
from test_auth import ask, denied, hang_up, ok

OURS, OTHER = "000000000000", "111111111111"
IPV = "InvalidParameterValueException"


@pytest.fixture
def postgres(server):
    """The file's server, with an outbox and nothing else."""
    server.sql("DROP SCHEMA IF EXISTS tally CASCADE")
    install_outbox(server)
    return server


def send(postgres, queue, bodies, group=None):
    postgres.sql(
        "SELECT tally.send(%s, body, group_id => %s) FROM unnest(%s) WITH ORDINALITY AS rows (body, i) ORDER BY i",
        queue, group, list(bodies))


# --- its life ---------------------------------------------------------------------------------------------------------


def test_the_life_of_a_relay_by_its_actions(daemon, postgres):
    make_queue(daemon, "orders.fifo")
    assert create(daemon, postgres) == {"RelayName": "orders", "Paused": False}
    wait_for(daemon, "active")
    first = numbered("first", 50)
    send(postgres, "orders.fifo", first, "g")
    assert [message.body for message in drain(daemon, "orders.fifo", len(first))] == first
    wait_until(lambda: describe(daemon)["Delivered"] == len(first), what="the count of rows")
    wait_until(lambda: describe(daemon)["Lag"]["Rows"] == 0, what="the next look at the source")
    seen = wait_for(daemon, "active")
    assert seen["Epoch"] >= 1 and seen["Position"] >= len(first) and seen["Takeovers"] == 1
    assert seen["Lag"] == {"Rows": 0, "Seconds": 0} and seen["Parked"] == seen["InDoubt"] == 0 and not seen["Paused"]
    assert seen["Source"]["Type"] == "postgres" and f"port={postgres.port}" in seen["Source"]["Connection"]
    assert seen["Sink"] == {"Type": "queue"} and seen["Order"] == "group"

    assert good(daemon, "PauseRelay", RelayName="orders") == {"RelayName": "orders", "Paused": True}
    begun = time.monotonic()
    wait_for(daemon, "paused")
    assert time.monotonic() - begun < 1 * PATIENCE
    second = numbered("second", 50)
    send(postgres, "orders.fifo", second, "g")
    time.sleep(0.3)
    assert outbox_count(postgres) == len(second) and drain(daemon, "orders.fifo") == []
    assert good(daemon, "ResumeRelay", RelayName="orders") == {"RelayName": "orders", "Paused": False}
    assert [message.body for message in drain(daemon, "orders.fifo", len(second))] == second

    assert good(daemon, "DeleteRelay", RelayName="orders") == {}
    for action in "DescribeRelay", "PauseRelay", "ResumeRelay", "DeleteRelay", "ListDoubts":
        assert refused(daemon, action, RelayName="orders") == ("RelayDoesNotExist", "There is no relay 'orders'.")
    wait_until(
        lambda: postgres.sql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'tally' AND application_name LIKE "
                             "'tally%%' AND pid <> pg_backend_pid()")[0][0] == 0, what="the end of its connections")
    send(postgres, "orders.fifo", ["third"], "g")
    time.sleep(0.3)
    assert outbox_count(postgres) == 1


def test_show_calls_an_error_that_is_over_the_last_one(daemon, tally, postgres):
    tally("relay", "create", "orders", "--source", postgres.uri, "--sink", "queue", "--lease", "1")
    send(postgres, "orders", ["to a queue that is missing"])
    wait_for(daemon, "blocked")
    shown = tally("relay", "show", "orders").out
    assert "\nerror       " in shown and "\nerror at    " in shown and "last error" not in shown
    tally("queue", "create", "orders")
    wait_for(daemon, "active")
    shown = tally("relay", "show", "orders").out
    assert "\nlast error " in shown and "\nlast error at " in shown and "\nerror " not in shown


def test_the_life_of_a_relay_by_commands(daemon, tally, postgres):
    tally("queue", "create", "orders")
    words = ["relay", "create", "orders", "--source", postgres.uri, "--sink", "queue", "--lease", "1"]
    assert tally(*words).out == "" and tally(*words).out == ""  # the same again changes nothing
    wait_for(daemon, "active")
    send(postgres, "orders", numbered("a", 20))
    check_once(drain(daemon, "orders", 20), numbered("a", 20))
    shown = tally("relay", "show", "orders").out
    assert "state       active" in shown and "source      postgres" in shown and f"port={postgres.port}" in shown
    assert tally.json("relay", "show", "orders")[0]["RelayName"] == "orders"
    assert tally("relay", "list").out.startswith("active     orders postgres to queue, ")
    tally("relay", "pause", "orders")
    assert describe(daemon)["State"] == "paused"  # the command has waited for that
    assert tally("relay", "list").out.startswith("paused ")
    tally("relay", "resume", "orders")
    wait_for(daemon, "active")
    assert "RelayAlreadyExists" in tally(*words, "--order", "strict", status=1).err
    assert tally("relay", "doubts", "orders").out == ""
    assert "DoubtDoesNotExist" in tally("relay", "resolve", "orders", "7", "send", status=1).err
    tally("relay", "delete", "orders")
    assert tally("relay", "list").out == ""
    assert "RelayDoesNotExist" in tally("relay", "show", "orders", status=1).err


def test_a_killed_daemon_goes_on_with_its_relays(daemon, postgres):
    make_queue(daemon, "orders")
    create(daemon, postgres)
    good(daemon, "CreateRelay", RelayName="resting", Source={"Type": "queue", "QueueUrl": "orders"},
         Sink={"Type": "queue", "QueueUrl": "none"})
    good(daemon, "PauseRelay", RelayName="resting")
    wait_for(daemon, "active")
    bodies = []
    for round in range(3):
        more = numbered(f"round{round}", 300)
        send(postgres, "orders", more)
        bodies += more
        daemon.kill9()
        daemon.start()
    wait_for(daemon, "active")
    check_once(drain(daemon, "orders", len(bodies)), bodies)
    assert wait_for(daemon, "paused", "resting")["Paused"]
    assert outbox_count(postgres) == 0
    # The same after a clean stop, whose snapshotless log is read again.
    assert daemon.stop() == 0
    daemon.start()
    send(postgres, "orders", ["last"])
    check_once(drain(daemon, "orders", 1), ["last"])


def test_of_two_daemons_one_works_and_the_other_takes_over(daemon_factory, postgres):
    daemons = [daemon_factory().start() for _ in range(2)]
    for daemon in daemons:
        make_queue(daemon, "orders")
        create(daemon, postgres, Source={"LeaseSeconds": 60})  # what is given up need not run out
        wait_until(lambda: describe(daemon)["State"] in ("active", "standby"), what="a place in line")
    states = [describe(daemon)["State"] for daemon in daemons]
    assert sorted(states) == ["active", "standby"]
    active, other = (daemons if states[0] == "active" else reversed(daemons))
    first, second, third = numbered("first", 50), numbered("second", 50), numbered("third", 50)
    send(postgres, "orders", first)
    check_once(drain(active, "orders", len(first)), first)
    good(active, "PauseRelay", RelayName="orders")  # which leaves the source to the other
    wait_for(other, "active")
    send(postgres, "orders", second)
    check_once(drain(other, "orders", len(second)), second)
    good(active, "ResumeRelay", RelayName="orders")
    wait_for(active, "standby")
    assert other.stop() == 0
    wait_for(active, "active", seconds=5)
    send(postgres, "orders", third)
    check_once(drain(active, "orders", len(third)), third)
    other.start()
    wait_for(other, "standby")
    assert drain(other, "orders") == []
    for daemon in daemons:
        assert daemon.stop() == 0, daemon.error_text()


def test_relays_from_one_queue_to_the_next_and_out_of_the_last(daemon, receiver):
    for name in "first", "second.fifo":
        make_queue(daemon, name)
    good(daemon, "CreateRelay", RelayName="on", Source={"Type": "queue", "QueueUrl": "first"},
         Sink={"Type": "queue", "QueueUrl": "second.fifo"})
    good(daemon, "CreateRelay", RelayName="out", Source={"Type": "queue", "QueueUrl": "second.fifo"},
         Sink={"Type": "http", "Url": receiver.url, "Mode": "at-most-once"})
    bodies = numbered("m", 40)
    for body in bodies:
        daemon.call("AmazonSQS.SendMessage", {"QueueUrl": "first", "MessageBody": body})
    wait_until(lambda: len(receiver.bodies()) >= len(bodies), what="all requests")
    assert daemon.stop() == 0
    daemon.start()
    for name in "on", "out":
        wait_for(daemon, "active", name)
    daemon.call("AmazonSQS.SendMessage", {"QueueUrl": "first", "MessageBody": "last"})
    wait_until(lambda: "last" in receiver.bodies(), what="the last request")
    assert sorted(receiver.bodies()) == sorted([*bodies, "last"])


# --- what can be wrong ------------------------------------------------------------------------------------------------


def test_what_the_server_itself_sends_goes_on_to_another_queue(daemon):
    """Results, expiries and completions have attributes that only the server makes; a send takes them from whoever
    passes them on."""
    pool = Pool(daemon, results="made", expired="made", Attributes={"mode": "str"})
    make_queue(daemon, "copies")
    good(daemon, "CreateBatch", BatchId="b", Total=0, OnComplete={"QueueUrl": "made"})
    pool.offer(ticket("late", TtlSeconds=1), "x", "y")
    match = pool.match("p", "x", "y")
    good(daemon, "CreateRelay", RelayName="on", Source={"Type": "queue", "QueueUrl": "made"},
         Sink={"Type": "queue", "QueueUrl": "copies"})
    made = {}
    for message in drain(daemon, "copies", 3):
        made |= {name: value for name, value in message.attributes.items()
                 if name in ("Tally.Ticket", "Tally.Match", "Tally.Batch.Completed")}
    assert made == {"Tally.Ticket": "late", "Tally.Match": match, "Tally.Batch.Completed": "b"}
    assert describe(daemon, "on")["Parked"] == 0


def test_a_source_that_does_not_fit_says_so_and_mends_itself(daemon, server):
    """On a busy machine a try may fail for another reason first, since it has a second for each answer: what is waited
    for is the reason."""
    make_queue(daemon, "orders")
    server.sql("DROP SCHEMA IF EXISTS tally CASCADE")
    begun = time.monotonic()
    create(daemon, server)
    wait_for(daemon, "failed", error="tally relay schema")
    install_outbox(server)
    wait_for(daemon, "active")

    def said():
        return [line.split("): ")[1] for line in daemon.error_text().splitlines()
                if line.startswith("tallyd: relay orders (namespace 0")]

    wait_until(lambda: len(said()) >= 2, what="a line about the trouble, and one about its end")
    good(daemon, "DeleteRelay", RelayName="orders")

    server.sql("DROP ROLE IF EXISTS weak")
    server.sql("CREATE ROLE weak LOGIN")
    create(daemon, server, "weak", Source={"Connection": server.uri.replace("tally@", "weak@")})
    wait_for(daemon, "failed", "weak", error="GRANT USAGE ON SCHEMA tally TO weak; ")
    server.sql("ALTER ROLE weak SUPERUSER")
    wait_for(daemon, "active", "weak", seconds=40)
    good(daemon, "DeleteRelay", RelayName="weak")

    port = free_port()
    create(daemon, server, "lost", Source={"Connection": f"host=127.0.0.1 port={port} dbname=x connect_timeout=2"})
    seen = wait_for(daemon, "failed", "lost", error=str(port))
    assert seen["LastErrorAt"] <= time.time() + 1
    # It failed many times over; of trouble a line is written every ten seconds at most.
    troubles, ends = said()[::2], said()[1::2]
    assert all(line.startswith("failed: ") for line in troubles[:1]) and all(
        line in ("standby.", "active.") for line in ends)
    assert len(troubles) <= 1 + (time.monotonic() - begun) // 10
    wait_until(lambda: f"tallyd: relay lost (namespace {OURS}): failed: " in daemon.error_text(),
               what="a line about it")


def test_a_database_that_goes_away_and_comes_back(daemon, postgres):
    make_queue(daemon, "orders")
    create(daemon, postgres)
    wait_for(daemon, "active")
    postgres.stop("immediate")
    wait_until(lambda: describe(daemon)["State"] in ("failed", "blocked"), what="that it is missed")
    assert describe(daemon)["LastError"]
    postgres.start()
    send(postgres, "orders", numbered("after", 50))
    check_once(drain(daemon, "orders", 50), numbered("after", 50))
    wait_for(daemon, "active")


def test_a_queue_that_does_not_move_says_for_how_long(daemon):
    """Whether a relay tries in vain or is paused: nothing else tells how old the oldest message of a queue is."""
    make_queue(daemon, "hooks")
    sink = {"Type": "http", "Url": f"http://127.0.0.1:{free_port()}/"}
    good(daemon, "CreateRelay", RelayName="orders", Source={"Type": "queue", "QueueUrl": "hooks"}, Sink=sink)
    daemon.call("AmazonSQS.SendMessage", {"QueueUrl": "hooks", "MessageBody": "waits"})
    wait_until(lambda: describe(daemon)["Lag"]["Seconds"] >= 2, 30, "a lag in seconds")
    good(daemon, "PauseRelay", RelayName="orders")
    wait_for(daemon, "paused")
    paused_at = describe(daemon)["Lag"]["Seconds"]
    wait_until(lambda: describe(daemon)["Lag"]["Seconds"] >= paused_at + 5, 40, "a lag that grows while it is paused")
    assert describe(daemon)["Lag"]["Rows"] == 1


def test_a_secret_that_is_too_short_is_refused_at_once(daemon):
    name, text = refused(daemon, "CreateRelay", RelayName="orders", Source={"Type": "queue", "QueueUrl": "hooks"},
                         Sink={"Type": "http", "Url": "http://127.0.0.1:1/", "Secret": "short"})
    assert name == "InvalidParameterValueException" and "5 bytes" in text and "at least" in text and "short" not in text


def test_what_is_secret_is_never_shown(daemon_factory, server):
    secrets = [f"hunter{number}" * 2 + "hunter" for number in range(2, 7)]
    password, key, token, signing, web = secrets
    daemon = daemon_factory().start()
    for name in "calls", "copies":
        make_queue(daemon, name)
        daemon.call("AmazonSQS.SendMessage", {"QueueUrl": name, "MessageBody": "to where nobody listens"})
    uri = f"postgresql://tally:{password}@127.0.0.1:{server.port}/postgres"
    create(daemon, server, "a", Source={"Connection": uri})
    create(daemon, server, "b",
           Source={"Connection": f"host=127.0.0.1 port={free_port()} user=tally password='{password}'"})
    good(daemon, "CreateRelay", RelayName="c", Source={"Type": "queue", "QueueUrl": "copies"},
         Sink={"Type": "sqs", "QueueUrl": f"http://user:{web}@127.0.0.1:{free_port()}/1/q", "Region": "eu-west-1",
               "Credentials": {"AccessKeyId": "AKIASHOWN", "SecretAccessKey": key, "SessionToken": token}})
    good(daemon, "CreateRelay", RelayName="d", Source={"Type": "queue", "QueueUrl": "calls"},
         Sink={"Type": "http", "Url": f"http://user:{web}@127.0.0.1:{free_port()}/hook?key={web}", "Secret": signing})
    create(daemon, server, "e",
           Source={"Connection": f"postgresql://tally:{password}@127.0.0.1:{free_port()}/x?nonsense={password}"})
    for name in "bcde":
        wait_until(lambda: "LastError" in describe(daemon, name), what=f"an error of {name}")
    again = dict(RelayName="a", Source={"Type": "postgres", "Connection": uri + "x"}, Sink={"Type": "queue"})
    told = [refused(daemon, "CreateRelay", **again), [describe(daemon, name) for name in "abcde"],
            good(daemon, "ListRelays"),
            [good(daemon, "ListDoubts", RelayName=name) for name in "abcde"],
            daemon.request("GET", "/metrics")[2].decode()]
    tool = Tally(daemon.endpoint)
    told += [tool("relay", "list").out, *[tool("relay", "show", name).out for name in "abcde"]]
    assert daemon.stop() == 0
    told.append(daemon.error_text())
    for words in (["--source", f"host=127.0.0.1 password={password}", "--sink", "queue"],
                  ["--source", "queue:a", "--sink", f"ftp://user:{password}@127.0.0.1/"]):
        told += [tool("relay", "create", "f", *words, status=2).err, tool("relay", "run", *words, status=2).err]
    for secret in secrets:
        assert secret not in json.dumps(told)
    shown = {relay["RelayName"]: relay for relay in told[2]["Relays"]}
    assert (shown["c"]["Sink"]["Credentials"] == {"AccessKeyId": "AKIASHOWN"}
            and shown["c"]["Sink"]["Region"] == "eu-west-1")
    assert shown["d"]["Sink"]["Url"].endswith("/hook?…") and shown["d"]["Source"] == {
        "Type": "queue", "QueueUrl": "calls"}


POSTGRES = {"Type": "postgres", "Connection": "postgresql:///x"}
QUEUE = {"Type": "queue"}
BAD_SPECS = [
    ({}, QUEUE, "Source.Type must be "),
    ({"Type": "oracle"}, QUEUE, "Source.Type must be "),
    ({"Type": "mysql"}, QUEUE, "Source of type mysql needs the member Connection"),
    ({"Type": "mysql", "Connection": "host=a"}, QUEUE, "Source.Connection is no URL that begins with mysql://"),
    ({"Type": 7}, QUEUE, "Source.Type must be "),
    ({"Type": "postgres"}, QUEUE, "Source of type postgres needs the member Connection"),
    ({"Type": "postgres", "Connection": ""}, QUEUE, "Source.Connection must be a text"),
    ({"Type": "postgres", "Connection": ["a"]}, QUEUE, "Source.Connection must be a text"),
    ({"Type": "postgres", "Connection": "a\0b"}, QUEUE, "Source.Connection must be a text"),
    ({"Type": "postgres", "Connection": "x" * 4097}, QUEUE, "Source.Connection must be a text"),
    ({**POSTGRES, "Tabel": "x"}, QUEUE,
     "Source of type postgres has no member Tabel; it may have Type, Connection, Table"),
    ({**POSTGRES, "Table": "a.b"}, QUEUE, "Source.Table must be "),
    ({**POSTGRES, "Pooler": "statement"}, QUEUE, 'Source.Pooler must be "session" or "transaction"'),
    *[({**POSTGRES, "LeaseSeconds": seconds}, QUEUE, "Source.LeaseSeconds must be a number of seconds from 1 to 60")
      for seconds in (0, 61, "3")],
    ({"Type": "sqlite", "Connection": "a.db", "Pooler": "session"}, QUEUE,
     "Source of type sqlite has no member Pooler"),
    ({"Type": "queue"}, QUEUE, "Source of type queue needs the member QueueUrl"),
    (POSTGRES, {}, "Sink.Type must be "),
    (POSTGRES, {"Type": "sqs"}, "Sink of type sqs needs the member QueueUrl"),
    (POSTGRES, {"Type": "sqs", "QueueUrl": "orders"}, "Sink.QueueUrl must be the whole URL"),
    (POSTGRES, {"Type": "sqs", "QueueUrl": "http://a/1/q", "Credentials": "x"}, "Sink.Credentials must be an object"),
    (POSTGRES, {"Type": "sqs", "QueueUrl": "http://a/1/q", "Credentials": {"AccessKeyId": "a"}},
     "Sink.Credentials needs the member SecretAccessKey"),
    (POSTGRES, {"Type": "http"}, "Sink of type http needs the member Url"),
    (POSTGRES, {"Type": "http", "Url": "ftp://a/"}, "Sink.Url must be an address that begins with http:// or https://"),
    (POSTGRES, {"Type": "http", "Url": "http://a/", "Mode": "once"},
     'Sink.Mode must be "at-least-once" or "at-most-once"'),
    (POSTGRES, {**QUEUE, "Mode": "at-most-once"}, "Sink of type queue has no member Mode"),
]


def test_specs_that_are_none_are_refused_and_nothing_is_kept(daemon):
    for source, sink, text in BAD_SPECS:
        kind, message = refused(daemon, "CreateRelay", RelayName="r", Source=source, Sink=sink)
        assert (kind, message[-1]) == (IPV, ".") and message.startswith(text), f"{source} {sink}: {kind} {message}"
    deep = {"a": 1}
    for _ in range(100):
        deep = {"a": deep}
    for bad in deep, {f"m{i}": "x" * 100 for i in range(300)}:
        assert refused(daemon, "CreateRelay", RelayName="r", Source={**POSTGRES, **bad}, Sink=QUEUE)[0] == IPV
    assert good(daemon, "ListRelays") == {"Relays": []}


def test_the_words_of_relay_create(daemon, tally, tmp_path):
    key, secret, empty = tmp_path / "key", tmp_path / "secret", tmp_path / "empty"
    key.write_text("AKIASHOWN hidden-secret\nhidden-token\n")
    secret.write_text("hidden-signing-key\n")
    empty.write_text("\n")
    sqs = ["--sink", "sqs:http://127.0.0.1:1/000000000000/q.fifo", "--region", "eu-west-1", "--credentials-file", key,
           "--doubts", "park"]
    tally("relay", "create", "aws", "--source", f"sqlite:{tmp_path}/none.db", "--table", "box", *sqs, "--order",
          "strict")
    tally("relay", "create", "hook", "--source", "queue:done", "--sink", "https://127.0.0.1:1/hook", "--mode",
          "at-most-once", "--secret-file", secret, "--refused", "park")
    tally("relay", "create", "words", "--source", "postgres:host=127.0.0.1 port=1", "--sink", "queue:orders",
          "--pooler", "transaction", "--lease", "9")
    shown = {relay["RelayName"]: relay for relay in good(daemon, "ListRelays")["Relays"]}
    assert shown["aws"]["Source"] == {"Type": "sqlite", "Connection": f"{tmp_path}/none.db", "Table": "box"}
    assert shown["aws"]["Sink"] == {
        "Type": "sqs", "QueueUrl": "http://127.0.0.1:1/000000000000/q.fifo", "Region": "eu-west-1",
        "Credentials": {"AccessKeyId": "AKIASHOWN"}, "Doubts": "park"} and shown["aws"]["Order"] == "strict"
    assert shown["hook"]["Source"] == {"Type": "queue", "QueueUrl": "done"} and shown["hook"]["Order"] == "group"
    assert shown["hook"]["Sink"] == {
        "Type": "http", "Url": "https://127.0.0.1:1/hook", "Mode": "at-most-once", "Refused": "park"}
    assert shown["words"]["Source"] == {
        "Type": "postgres", "Connection": "host=127.0.0.1 port=1", "Pooler": "transaction", "LeaseSeconds": 9}
    assert shown["words"]["Sink"] == {"Type": "queue", "QueueUrl": "orders"}
    for words, text in [
        (["--sink", "queue"], "a relay needs --source and --sink"),
        (["--source", "mysql:x", "--sink", "queue"],
         "--source takes postgres://…, sqlite:PATH, mysql://…, queue:NAME or sqs:URL, not"),
        (["--source", "queue:a", "--sink", "file:x"], "--sink takes queue, queue:NAME, sqs:URL"),
        (["--source", "queue:a", "--sink", "http://a/", "--secret-file", tmp_path / "none"], "can't read"),
        (["--source", "queue:a", "--sink", "http://a/", "--secret-file", empty], "must hold a secret"),
        (["--source", "queue:a", "--sink", "sqs:http://a/1/q", "--credentials-file", secret],
         "must hold two words, or three"),
        (["--source", "queue:a", "--sink", "queue:b", "--lease", "61"], "--lease"),
    ]:
        assert text in tally("relay", "create", "r", *words, status=2).err
    assert "has no member Mode" in tally(
        "relay", "create", "r", "--source", "queue:a", "--sink", "queue:b", "--mode", "at-most-once", status=1).err
    tally("relay", "create", "here", "--source", "sqlite:none.db", "--sink", "queue", cwd=tmp_path)
    assert describe(daemon, "here")["Source"]["Connection"] == f"{tmp_path}/none.db"
    said = json.dumps(good(daemon, "ListRelays")) + tally("relay", "list").out + daemon.error_text()
    assert "hidden" not in said and "none.db" in wait_for(daemon, "failed", "aws")["LastError"]


def test_names_and_limits(daemon):
    source = {"Type": "queue", "QueueUrl": "none"}
    sink = {"Type": "http", "Url": f"http://127.0.0.1:{free_port()}/"}
    names = ["x" * 80, "A-b_9", "-", *[f"relay{i:03}" for i in range(5)]]
    for name in names:
        good(daemon, "CreateRelay", RelayName=name, Source=source, Sink=sink)
        # The same in another order of its members, and with what is meant anyway.
        good(daemon, "CreateRelay", RelayName=name, Order="group", Sink=dict(reversed(sink.items())), Source=source)
        assert (refused(daemon, "CreateRelay", RelayName=name, Source={**source, "QueueUrl": "other"}, Sink=sink)[0]
                == "RelayAlreadyExists")
        assert (refused(daemon, "CreateRelay", RelayName=name, Source=source, Sink={**sink, "Secret": "s" * 16})[0]
                == "RelayAlreadyExists")
    assert [relay["RelayName"] for relay in good(daemon, "ListRelays")["Relays"]] == sorted(names)
    listed, token = [], {}
    while True:
        page = good(daemon, "ListRelays", MaxResults=3, **token)
        assert len(page["Relays"]) <= 3
        listed += [relay["RelayName"] for relay in page["Relays"]]
        if "NextToken" not in page:
            break
        token = {"NextToken": page["NextToken"]}
    assert listed == sorted(names)
    for name in names[3:]:
        good(daemon, "DeleteRelay", RelayName=name)
        # the name is free at once
        good(daemon, "CreateRelay", RelayName=name, Source=source, Sink={**sink, "Secret": "s" * 16})


# --- doubts -----------------------------------------------------------------------------------------------------------


def test_parked_rows_are_listed_sent_and_dropped(daemon, tally, postgres):
    make_queue(daemon, "small", MaximumMessageSize="1024")
    create(daemon, postgres)
    send(postgres, "small", ["x" * 2000, "fits", "y" * 2000])
    check_once(drain(daemon, "small", 1), ["fits"])
    doubts = wait_until(lambda: (lambda found: found if len(found) == 2 else None)(
        good(daemon, "ListDoubts", RelayName="orders")["Doubts"]), what="two parked rows")
    uids = dict(postgres.sql("SELECT left(body, 1), uid::text FROM tally.dead"))
    assert {doubt["Uid"] for doubt in doubts} == set(uids.values())
    for doubt in doubts:
        assert (doubt["QueueName"] == "small" and "1024" in doubt["Error"] and doubt["IsInDoubt"] is False
                and doubt["Id"] > 0)
        assert abs(doubt["Since"] - time.time()) < 30
    seen = describe(daemon)
    assert (seen["Parked"], seen["InDoubt"], seen["State"]) == (2, 0, "active")
    assert uids["x"] in tally("relay", "doubts", "orders").out
    first = good(daemon, "ListDoubts", RelayName="orders", MaxResults=1)
    second = good(daemon, "ListDoubts", RelayName="orders", MaxResults=1, NextToken=first["NextToken"])
    assert ([doubt["Uid"] for doubt in first["Doubts"] + second["Doubts"]] == [doubt["Uid"] for doubt in doubts]
            and "NextToken" not in second)

    by_body = {name: next(doubt for doubt in doubts if doubt["Uid"] == uid) for name, uid in uids.items()}
    for wrong in {"Id": 999999}, {"Uid": OTHER}, {"Uid": "00000000-0000-4000-8000-000000000000"}:
        assert refused(daemon, "ResolveDoubt", RelayName="orders", Action="send", **wrong)[0] == "DoubtDoesNotExist"
    assert refused(daemon, "ResolveDoubt", RelayName="orders", Action="keep", Id=1)[0] == IPV
    assert refused(daemon, "ResolveDoubt", RelayName="orders", Action="send")[0] == IPV
    assert refused(daemon, "ResolveDoubt", RelayName="orders", Action="send", Id=1, Uid=uids["x"])[0] == IPV
    assert good(daemon, "ResolveDoubt", RelayName="orders", Id=by_body["x"]["Id"], Action="drop") == {}
    wait_until(lambda: len(good(daemon, "ListDoubts", RelayName="orders")["Doubts"]) == 1, what="one parked row")

    daemon.call("AmazonSQS.SetQueueAttributes", {"QueueUrl": "small", "Attributes": {"MaximumMessageSize": "4096"}})
    tally("relay", "resolve", "orders", uids["y"], "send")
    arrived = drain(daemon, "small", 1)
    assert [(message.body[0], message.uid) for message in arrived] == [("y", uids["y"])]
    wait_until(lambda: describe(daemon)["Parked"] == 0, what="that nothing is parked")
    assert good(daemon, "ListDoubts", RelayName="orders") == {"Doubts": []}
    assert postgres.sql("SELECT count(*) FROM tally.dead")[0][0] == 0 and outbox_count(postgres) == 0


def test_calls_in_doubt_are_listed_sent_and_dropped(daemon, receiver):
    make_queue(daemon, "calls")
    good(daemon, "CreateRelay", RelayName="out", Source={"Type": "queue", "QueueUrl": "calls"},
         Sink={"Type": "http", "Url": receiver.url, "Mode": "at-most-once"})
    receiver.answer = lambda hit: "close" if hit.body in (b"a", b"b") and hit.nth == 1 else 204
    for body in "abc":
        daemon.call("AmazonSQS.SendMessage", {"QueueUrl": "calls", "MessageBody": body})

    def doubts(count):
        found = good(daemon, "ListDoubts", RelayName="out")["Doubts"]
        return found if len(found) == count else None

    found = wait_until(lambda: doubts(2), what="two doubts")
    wait_until(lambda: len(receiver.bodies()) == 3, what="the call that was answered")
    assert sorted(receiver.bodies()) == ["a", "b", "c"] and all(
        doubt["IsInDoubt"] and doubt["Error"] for doubt in found)
    assert describe(daemon, "out")["InDoubt"] == 2
    assert 'tally_relay_in_doubt{relay="out"} 2' in daemon.request("GET", "/metrics")[2].decode()
    good(daemon, "ResolveDoubt", RelayName="out", Uid=found[0]["Uid"], Action="send")
    wait_until(lambda: len(receiver.bodies()) == 4, what="the call that was resolved")
    good(daemon, "ResolveDoubt", RelayName="out", Uid=found[1]["Uid"], Action="drop")
    wait_until(lambda: doubts(0) == [], what="no more doubts")
    assert sorted(receiver.bodies()) in (["a", "a", "b", "c"], ["a", "b", "b", "c"])


def test_metrics_for_each_relay(daemon, postgres):
    make_queue(daemon, "orders")
    create(daemon, postgres)
    wait_for(daemon, "active")
    send(postgres, "orders", numbered("a", 30))
    drain(daemon, "orders", 30)

    def read():
        lines = daemon.request("GET", "/metrics")[2].decode().splitlines()
        return dict(line.rsplit(" ", 1) for line in lines if line.startswith("tally_relay_"))

    wait_until(lambda: read()['tally_relay_delivered_total{relay="orders"}'] == "30", what="the count of rows")
    found = read()
    assert (found['tally_relay_state{relay="orders",state="active"}'] == "1"
            and len([name for name in found if "_state" in name]) == 1)
    assert found['tally_relay_takeovers_total{relay="orders"}'] == "1"
    wait_until(lambda: read()['tally_relay_lag_rows{relay="orders"}'] == "0", what="the next look at the source")
    found = read()
    for name in "lag_rows", "lag_seconds", "parked", "in_doubt", "duplicates_total", "retries_total", "parked_total":
        assert found[f'tally_relay_{name}{{relay="orders"}}'] == "0", name


# --- its way in -------------------------------------------------------------------------------------------------------

CREDENTIALS = f"""
BOSS    boss-secret    {OURS}   read,write,admin
READER  reader-secret  {OURS}   read
SHOP    shop-secret    {OURS}   read,write,admin  queues=shop-*
GUEST   guest-secret   {OTHER}  read,write,admin
"""


def ask_socket(path, target, body="{}", headers=()):
    """An unsigned request over a Unix socket: (status, body)."""
    connection = http.client.HTTPConnection("localhost", timeout=20 * PATIENCE)
    connection.sock = socket.socket(socket.AF_UNIX)
    folder = os.open(path.parent, os.O_PATH)  # a socket's path has 107 bytes at most
    connection.sock.connect(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)
    connection.request("POST", "/", body,
                       {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.0", **dict(headers)})
    answer = connection.getresponse()
    try:
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_relays_of_two_namespaces_with_credentials(daemon_factory, credentials, postgres):
    daemon = daemon_factory("--credentials", credentials).start()
    postgres.sql('DROP SCHEMA IF EXISTS guests CASCADE')
    install_outbox(postgres, "guests")
    for key, schema in ("BOSS", "tally"), ("GUEST", "guests"):
        ok(daemon, key, "CreateQueue", {"QueueName": "orders"})
        ok(daemon, key, "Tally.CreateRelay", {"RelayName": "orders", "Sink": {"Type": "queue"}, "Source": {
            "Type": "postgres", "Connection": postgres.uri, "Table": schema, "LeaseSeconds": 1}})
        postgres.sql(f"SELECT {schema}.send('orders', %s)", f"of {key}")
    for key, namespace in ("BOSS", OURS), ("GUEST", OTHER):
        reply = ok(daemon, key, "ReceiveMessage",
                   {"QueueUrl": "orders", "WaitTimeSeconds": 20, "AttributeNames": ["All"]})
        assert [(message["Body"], message["Attributes"]["SenderId"]) for message in reply["Messages"]] == [
            (f"of {key}", f"tally-relays-{namespace}")]
    metrics = daemon.request("GET", "/metrics")[2].decode()
    assert f'tally_relay_state{{namespace="{OTHER}",relay="orders",state="active"}} 1' in metrics

    # Who may not use every queue may not use relays; and nobody else comes in where they do.
    for action in "CreateRelay", "DescribeRelay", "ListRelays", "ListDoubts", "DeleteRelay":
        assert "covers some queues only" in denied(daemon, "SHOP", f"Tally.{action}", {"RelayName": "orders"})
    assert ok(daemon, "READER", "Tally.DescribeRelay", {"RelayName": "orders"})["State"] == "active"
    door = daemon.data / f"relays.{OURS}.sock"
    assert stat.S_IMODE(os.stat(door).st_mode) == 0o600
    status, text = ask_socket(door, "AmazonSQS.ListQueues")
    assert status == 403 and "AccessDenied" in text
    stranger = ask(daemon, "json", "ListQueues", key=f"tally-relays-{OURS}", secret="guess")
    assert stranger.code == "SignatureDoesNotMatch"

    # That name is nobody else's, at a start and after it.
    credentials.write_text(CREDENTIALS + f"tally-relays-{OURS} x {OURS} read\n")
    hang_up(daemon, f"tally-relays-{OURS}: that is what relays")
    assert daemon.stop() == 0
    assert not door.exists()


def test_a_relay_from_a_queue_parks_with_credentials_too(daemon_factory, credentials, receiver):
    """The queue for what it parks is one that the relay makes itself."""
    daemon = daemon_factory("--credentials", credentials).start()
    ok(daemon, "BOSS", "CreateQueue", {"QueueName": "calls"})
    receiver.answer = lambda hit: "close"
    ok(daemon, "BOSS", "Tally.CreateRelay",
       {"RelayName": "out", "Source": {"Type": "queue", "QueueUrl": "calls"}, "Sink": {
        "Type": "http", "Url": receiver.url, "Mode": "at-most-once"}})
    ok(daemon, "BOSS", "SendMessage", {"QueueUrl": "calls", "MessageBody": "a"})
    (doubt,) = wait_until(lambda: ok(daemon, "BOSS", "Tally.ListDoubts", {"RelayName": "out"})["Doubts"],
                          what="a doubt")
    assert doubt["IsInDoubt"] and len(receiver.hits) == 1
    names = [url.rsplit("/", 1)[-1] for url in ok(daemon, "BOSS", "ListQueues")["QueueUrls"]]
    assert names == ["calls", "out-parked"]


@pytest.mark.parametrize("way", ["tls", "socket"])
def test_relays_need_no_plain_listener(daemon_factory, tmp_path, postgres, way):
    certificate, port, path = Certificate(tmp_path), free_port(), tmp_path / "s"
    daemon = (
        daemon_factory("--listen", "off", *(certificate.options(port) if way == "tls" else ["--socket", path])).start())
    tool = Tally(f"https://127.0.0.1:{port}" if way == "tls" else f"unix:{path}")
    more = ["--ca-file", certificate.certificate] if way == "tls" else []
    tool("queue", "create", "orders", *more)
    tool("relay", "create", "orders", "--source", postgres.uri, "--sink", "queue", *more)
    send(postgres, "orders", ["over the way in of its own"])
    assert "over the way in of its own" in tool("receive", "orders", "--wait", "20", *more).out
    assert daemon.stop() == 0, daemon.error_text()


def test_a_long_folder_and_a_daemon_without_relays(daemon_factory, postgres):
    daemon = daemon_factory().start()
    assert list(daemon.data.glob("*.sock")) == []  # who has no relay has no way in for one
    assert daemon.stop() == 0
    long = daemon.folder / ("long" * 30)
    long.mkdir()
    daemon.data = long / "data"
    daemon.start()
    make_queue(daemon, "orders")
    create(daemon, postgres)
    send(postgres, "orders", ["here"])
    check_once(drain(daemon, "orders", 1), ["here"])
    assert [path.name for path in daemon.data.glob("*.sock")] == [f"relays.{OURS}.sock"]
    daemon.kill9()
    daemon.start()  # and takes away what it left behind
    send(postgres, "orders", ["there"])
    check_once(drain(daemon, "orders", 1), ["there"])
    assert daemon.stop() == 0
    assert list(daemon.data.glob("*.sock")) == []


def test_a_pause_that_takes_long_says_so(daemon, tally, receiver):
    make_queue(daemon, "orders")
    good(daemon, "CreateRelay", RelayName="hook", Source={"Type": "queue", "QueueUrl": "orders"},
         Sink={"Type": "http", "Url": receiver.url, "Mode": "at-most-once", "TimeoutSeconds": 60})
    receiver.answer = lambda hit: "hang"
    assert daemon.call("AmazonSQS.SendMessage", {"QueueUrl": "orders", "MessageBody": "one"})[0] == 200
    wait_until(lambda: receiver.hits, 30)
    said = tally("relay", "pause", "hook")
    assert said.out == "" and "hook will pause, and still settles what is on its way" in said.err
    assert describe(daemon, "hook")["Paused"] is True
    receiver.released.set()
    wait_for(daemon, "paused", "hook")


def test_a_database_that_stops_to_answer_holds_up_no_stop(daemon, postgres):
    with contextlib.closing(Proxy(postgres.port)) as proxy:
        make_queue(daemon, "orders")
        good(daemon, "CreateRelay", RelayName="orders", Sink={"Type": "queue"},
             Source={"Type": "postgres", "Connection": proxy.uri(postgres.uri), "LeaseSeconds": 60})
        wait_for(daemon, "active")
        proxy.freeze()
        send(postgres, "orders", numbered("a", 20))
        time.sleep(0.5)  # it has asked
        begun = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - begun < 8 * PATIENCE
        proxy.thaw()
        proxy.cut()
        daemon.start()
        wait_for(daemon, "active", seconds=90)
        check_once(drain(daemon, "orders", 20), numbered("a", 20))


def test_a_database_that_says_nothing_holds_up_nobody(daemon):
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        for name in "a", "b", "c", "d", "e", "f":
            good(daemon, "CreateRelay", RelayName=name, Sink={"Type": "queue"},
                 Source={"Type": "postgres", "Connection": f"host=127.0.0.1 port={deaf.getsockname()[1]} dbname=x"})
        begun = time.monotonic()
        for _ in range(20):
            good(daemon, "DescribeRelay", RelayName="a")
        assert time.monotonic() - begun < 2 * PATIENCE
        good(daemon, "DeleteRelay", RelayName="f")
        begun = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - begun < 10 * PATIENCE
        daemon.start()
        daemon.process.send_signal(signal.SIGTERM)
        daemon.process.send_signal(signal.SIGTERM)  # who asks again still gets an end that is clean
        assert daemon.stop() == 0
    daemon.start()
