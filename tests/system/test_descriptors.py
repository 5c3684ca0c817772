"""File descriptors: the log has its own whatever relays and connections do; what is above the rest is refused by
name."""

import contextlib
import json
import os
import re
import socket
import threading
import time

import pytest

from conftest import PATIENCE, WRAPPER, wait_until
from outbox_sqlite import SqliteOutbox
from relay_actions import describe, good
from wire import Connection

pytestmark = pytest.mark.skipif(bool(WRAPPER), reason="the wrapper has descriptors of its own")

SMALL = ("--segment-size", "8MiB", "--body-max", "64KiB", "--snapshot-bytes", "2MiB", "--snapshot-growth", "1")


def limited(daemon_factory, limit, *options):
    daemon = daemon_factory(*options)
    daemon.prefix = ["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh"]
    return daemon


def metric(daemon, name):
    text = daemon.request("GET", "/metrics")[2].decode()
    return int(re.search(rf"^{name} (\d+)$", text, re.M)[1])


def refusal(daemon):
    """Why it does not start."""
    with pytest.raises(AssertionError, match="no ready line"):
        daemon.start()
    return daemon.error_text()


@contextlib.contextmanager
def hung_hook():
    """A receiver that takes every connection and never answers: its URL, and the connections."""
    held = []
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as listener:

        def take():
            with contextlib.suppress(OSError):
                while True:
                    held.append(listener.accept()[0])

        threading.Thread(target=take, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/", held
        listener.shutdown(socket.SHUT_RDWR)
    for connection in held:
        connection.close()


def create(daemon, name, url, source=None):
    """(status, answer)"""
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": name})
    return daemon.call("Tally.CreateRelay", {
        "RelayName": name, "Source": source or {"Type": "queue", "QueueUrl": name},
        "Sink": {"Type": "http", "Url": url, "TimeoutSeconds": 60}})


# --- the start --------------------------------------------------------------------------------------------------------


def test_a_limit_too_low_for_the_connections_that_were_asked_for_is_refused(daemon_factory):
    text = refusal(limited(daemon_factory, 300, "--connections-max", "2000"))
    assert "connections-max (from --connections-max) is 2000, and the limit of open files (ulimit -n) is 300" in text
    needed = int(re.search(r"at least (\d+)", text)[1])
    assert 2000 < needed < 2200
    assert f"ulimit -n {needed}" in text and f"LimitNOFILE={needed}" in text and "lower connections-max" in text
    assert limited(daemon_factory, needed, "--connections-max", "2000").start().stop() == 0
    assert "at least" in refusal(limited(daemon_factory, needed - 1, "--connections-max", "2000"))


def test_a_limit_too_low_to_serve_anybody_is_refused(daemon_factory):
    text = refusal(limited(daemon_factory, 40))
    needed = int(re.search(r"at least (\d+)", text)[1])
    assert "is 40" in text and 40 < needed < 100
    assert limited(daemon_factory, needed).start().stop() == 0


def test_connections_max_that_was_not_set_follows_the_limit_and_says_so(daemon_factory):
    daemon = limited(daemon_factory, 200).start()
    served = metric(daemon, "tally_http_connections_limit")
    assert 100 < served < 200
    assert (f"connections-max is 10000, but the limit of open files (ulimit -n) is 200: at most {served} connections"
            in daemon.error_text())
    assert metric(daemon, "tally_descriptors_limit") == 200
    with Connection(daemon.port) as client:
        wait_until(lambda: metric_of(client, "tally_descriptors_open") == len(os.listdir(f"/proc/{daemon.pid}/fd")),
                   what="the end of the connections before")
    assert daemon.stop() == 0


def test_the_soft_limit_is_raised_to_the_hard_one(daemon_factory):
    daemon = daemon_factory("--connections-max", "100")
    daemon.prefix = ["sh", "-c", 'ulimit -S -n 64; exec "$@"', "sh"]
    assert metric(daemon.start(), "tally_descriptors_limit") > 200
    assert daemon.stop() == 0


# --- everything at once -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [100, 128, 200, 1024])
def test_the_log_goes_on_whatever_relays_and_connections_take(daemon_factory, limit):
    """60 relays with hooks that hang, 300 connections that idle, and a log that goes from segment to segment and takes
    snapshots."""
    daemon = limited(daemon_factory, limit, *SMALL).start()
    idle, refused = [], []
    with hung_hook() as (url, held), Connection(daemon.port) as client:
        client.ok("AmazonSQS.CreateQueue", {"QueueName": "q"})
        for number in range(60):
            status, answer = create(daemon, f"r{number}", url)
            if status != 200:
                refused.append((status, answer))
        for number in range(60 - len(refused)):
            for _ in range(4):
                client.ok("AmazonSQS.SendMessageBatch", {"QueueUrl": f"r{number}", "Entries": [
                    {"Id": str(i), "MessageBody": "x"} for i in range(10)]})
        for _ in range(300):
            idle.append(socket.create_connection(("127.0.0.1", daemon.port)))
        count, end = 0, time.monotonic() + 20 * PATIENCE
        segments = metric_of(client, "tally_log_segments")

        def is_seen():
            """Has the log gone on and on, while the relays had all that they take?"""
            return count >= 5000 and metric_of(client, "tally_log_segments") > segments + 2 and (
                len(held) >= 16 or len(refused) == 60)

        while not is_seen() and time.monotonic() < end:
            client.ok("AmazonSQS.SendMessageBatch", {"QueueUrl": "q", "Entries": [
                {"Id": str(i), "MessageBody": "x" * 5000} for i in range(10)]})
            count += 10
        assert metric_of(client, "tally_log_segments") > segments + 2
        assert metric_of(client, "tally_descriptors_open") <= limit
        hooks = len(held)
    for connection in idle:
        connection.close()
    assert all(status == 400 and answer["__type"].endswith("OverLimit") for status, answer in refused), refused[:1]
    assert all(f"of the {limit} that the process may open (ulimit -n)" in answer["message"] for _, answer in refused)
    assert refused, "60 relays do not fit"
    assert hooks >= 16 or len(refused) == 60
    text = daemon.error_text()
    assert "Too many open files" not in text and "no snapshot" not in text, text[-2000:]
    daemon.restart()
    attributes = {"QueueUrl": "q", "AttributeNames": ["ApproximateNumberOfMessages"]}
    assert int(daemon.call("AmazonSQS.GetQueueAttributes",
                           attributes)[1]["Attributes"]["ApproximateNumberOfMessages"]) == count
    assert daemon.stop() == 0


def metric_of(client, name):
    client.write(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    return int(re.search(rf"^{name}(?:{{[^}}]*}})? (\d+)$", client.answer().body.decode(), re.M)[1])


# --- relays -----------------------------------------------------------------------------------------------------------


def test_a_relay_that_does_not_fit_any_more_waits_for_descriptors_and_says_so(daemon_factory):
    daemon = limited(daemon_factory, 1024).start()
    with hung_hook() as (url, _):
        assert create(daemon, "first", url)[0] == 200
        assert create(daemon, "second", url)[0] == 200
        assert daemon.stop() == 0
        daemon.prefix[2] = daemon.prefix[2].replace("1024", "190")  # room for one
        daemon.start()
        states = {name: describe(daemon, name) for name in ("first", "second")}
        [waiting] = [name for name, state in states.items() if "waiting for descriptors" in state.get("LastError", "")]
        [running] = set(states) - {waiting}
        assert states[waiting]["State"] == "failed" and states[running]["State"] != "failed"
        assert "ulimit -n" in states[waiting]["LastError"] and "LimitNOFILE" in states[waiting]["LastError"]
        assert f"relay {waiting} (namespace 000000000000): waiting for descriptors" in daemon.error_text()
        good(daemon, "PauseRelay", RelayName=waiting)
        status, answer = daemon.call("Tally.ResumeRelay", {"RelayName": waiting})
        assert status == 400 and "ulimit -n" in answer["message"], answer
        # A third one is refused, the one that runs is none the worse, and its end lets the other one begin.
        status, answer = create(daemon, "third", url)
        assert status == 400 and answer["__type"].endswith("OverLimit") and "LimitNOFILE" in answer["message"], answer
        assert describe(daemon, running)["State"] != "failed"
        good(daemon, "DeleteRelay", RelayName=running)
        wait_until(lambda: describe(daemon, waiting)["State"] == "paused", what="the relay that waited")
        good(daemon, "ResumeRelay", RelayName=waiting)
        wait_until(lambda: describe(daemon, waiting)["State"] == "active", what="the relay that waited")
    assert daemon.stop() == 0


def test_the_relays_own_connections_are_not_counted_among_the_clients(daemon_factory):
    daemon = daemon_factory("--connections-max", "4").start()
    with hung_hook() as (url, held):
        for number in range(6):
            assert create(daemon, f"r{number}", url)[0] == 200
            assert daemon.call("AmazonSQS.SendMessage", {"QueueUrl": f"r{number}", "MessageBody": "x"})[0] == 200
        wait_until(lambda: len(held) == 6, what="a request of each")
        assert daemon.request("GET", "/health")[0] == 200
    assert daemon.stop() == 0


def most_descriptors(daemon, is_at_work):
    """The most that the process has open, until it is at work and for half a second has not opened more."""
    most, grew, deadline = 0, None, time.monotonic() + 20 * PATIENCE
    while grew is None or time.monotonic() < grew + 0.5 * PATIENCE:
        is_first = grew is None and is_at_work()
        count = len(os.listdir(f"/proc/{daemon.pid}/fd"))
        if is_first or (grew is not None and count > most):
            grew = time.monotonic()
        most = max(most, count)
        assert time.monotonic() < deadline, "the relay does not begin"
        time.sleep(0.002)
    return most


def test_a_relay_opens_no_more_than_is_kept_for_it(daemon_factory, tmp_path, postgres_or_none):
    """Each kind, at rest and with as much to do as it takes on at once."""
    daemon = daemon_factory("--region", "us-east-1").start()
    outbox = SqliteOutbox(tmp_path / "app.db")
    for name in ("from", "to"):
        assert daemon.call("AmazonSQS.CreateQueue", {"QueueName": name})[0] == 200
    with hung_hook() as (url, held), Connection(daemon.port) as line:

        def arrived():
            """How much the relay has begun to hand over: messages in the queue, connections to the hook."""
            wanted = {"QueueUrl": "to", "AttributeNames": ["ApproximateNumberOfMessages"]}
            messages = line.ok("AmazonSQS.GetQueueAttributes", wanted)["Attributes"]
            return int(messages["ApproximateNumberOfMessages"]) + len(held)

        sinks = [{"Type": "http", "Url": url, "TimeoutSeconds": 60},
                 {"Type": "http", "Url": url.replace("127.0.0.1", "localhost")},
                 {"Type": "sqs", "QueueUrl": url + "000000000000/other"}, {"Type": "queue", "QueueUrl": "to"}]
        sources = [{"Type": "queue", "QueueUrl": "from"}, {"Type": "sqlite", "Connection": str(outbox.path)}]
        if postgres_or_none is not None:
            sources.append({"Type": "postgres", "Connection": postgres_or_none.uri})
        for source in sources:
            for sink in sinks:
                before, arrived_before = len(os.listdir(f"/proc/{daemon.pid}/fd")), arrived()
                good(daemon, "CreateRelay", RelayName="r", Source=source, Sink=sink)
                wait_until(lambda: metric(daemon, "tally_descriptors_of_relays") > 0, what="the relay")
                kept = metric(daemon, "tally_descriptors_of_relays")
                entries = [{"Id": str(i), "MessageBody": "x"} for i in range(10)]
                for _ in range(5):
                    assert daemon.call("AmazonSQS.SendMessageBatch", {"QueueUrl": "from", "Entries": entries})[0] == 200
                outbox.send(["x"] * 40, "to")
                if source["Type"] == "postgres":
                    postgres_or_none.send_all("to", ["x"] * 40)
                most = most_descriptors(daemon, lambda: arrived() > arrived_before) - before
                assert most <= kept, (source["Type"], sink["Type"])
                good(daemon, "DeleteRelay", RelayName="r")
                wait_until(lambda: metric(daemon, "tally_descriptors_of_relays") == 0, seconds=90,
                           what="the end of the relay")
                outbox.ask("DELETE FROM tally_outbox")
    assert daemon.stop(90) == 0


@pytest.fixture
def postgres_or_none(request):
    """An outbox in PostgreSQL, where this machine has that."""
    from outbox import Outbox

    try:
        return Outbox(request.getfixturevalue("postgres"))
    except (OSError, AssertionError, StopIteration, IndexError):
        return None
