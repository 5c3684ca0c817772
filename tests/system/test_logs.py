"""The daemon's own lines: their form, slow requests with where their time went, and refusals, of which each kind has a
line a minute."""

import json
import re
import socket
import subprocess
import threading
import time

import pytest
from conftest import BIN, clean_environment, wait_until
from disk import BrokenDisk
from test_auth import OURS, ask

CREDENTIALS = f"""
BOSS    boss-secret    {OURS}   read,write,admin
READER  reader-secret  {OURS}   read   queues=mine-*
"""

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def lines(daemon):
    return daemon.all_error_text().splitlines()


def run_to_ready(daemon_factory, *options):
    """Its first line on standard output, whatever its form; and the daemon."""
    daemon = daemon_factory(*options)
    daemon.errors = open(daemon.folder / "tallyd.err", "ab")
    command = [str(BIN / "tallyd"), "--data", str(daemon.data), *map(str, daemon.options)]
    daemon.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=daemon.errors, env=clean_environment())
    return daemon.process.stdout.readline().decode(), daemon


# --- Their form ---


def test_lines_are_plain_by_default(daemon):
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
    wait_until(lambda: lines(daemon), what="a line")
    assert lines(daemon) == ["tallyd: audit: 127.0.0.1: CreateQueue q: OK"]


def test_lines_with_time_and_level(daemon_factory):
    ready, daemon = run_to_ready(daemon_factory, "--log-format", "text")
    assert re.match(TIME + " info tallyd ready on http", ready)
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
    wait_until(lambda: lines(daemon), what="a line")
    assert re.fullmatch(TIME + " notice audit: 127.0.0.1: CreateQueue q: OK", lines(daemon)[0])
    assert daemon.stop() == 0


def test_lines_of_json(daemon_factory):
    ready, daemon = run_to_ready(daemon_factory, "--log-format", "json")
    assert json.loads(ready)["level"] == "info" and json.loads(ready)["message"].startswith("tallyd ready on")
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": 'a"\n'})
    wait_until(lambda: lines(daemon), what="a line")
    said = json.loads(lines(daemon)[0])
    assert said == {**said, "level": "notice"} and re.fullmatch(TIME, said["time"])
    assert said["message"].startswith("audit: 127.0.0.1: CreateQueue: InvalidParameterValueException: ")
    assert daemon.stop() == 0


def test_an_unknown_form_is_refused():
    done = subprocess.run([BIN / "tallyd", "--log-format", "xml"], capture_output=True, text=True, timeout=60,
                          env=clean_environment(), check=False)
    assert done.returncode == 2
    assert done.stderr == 'tallyd: log-format (from --log-format) is "xml": it must be plain, text or json.\n'


def test_the_error_that_ends_a_start_says_so(tmp_path):
    command = [BIN / "tallyd", "--log-format", "json", "--data", "", "--listen", "127.0.0.1:0"]
    done = subprocess.run(command, cwd=tmp_path,
                          capture_output=True, text=True, timeout=60, env=clean_environment(), check=False)
    assert done.returncode == 2 and json.loads(done.stderr)["level"] == "error"


# --- Slow requests ---


def slow_ones(daemon):
    return daemon.call("Tally.DescribeServer")[1]["SlowRequests"]


def test_a_slow_disk_is_told_with_where_the_time_went(daemon_factory):
    daemon = daemon_factory()
    disk = BrokenDisk(daemon, "pwrite", FAIL_HANGS=1)
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
    assert slow_ones(daemon) == []
    disk.breaks()
    sending = threading.Thread(target=daemon.call,
                               args=("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": "x" * 500}))
    sending.start()
    time.sleep(0.6)
    disk.mends()
    sending.join()
    slow = slow_ones(daemon)[0]
    assert slow["Action"] == "SendMessage" and slow["QueueName"] == "q"
    assert slow["Flush"] >= 400 and slow["Decide"] < 200 and slow["RequestBytes"] > 500 and slow["ReplyBytes"] > 50
    assert slow["Milliseconds"] == slow["Wait"] + slow["Decide"] + slow["Flush"] + slow["Write"]
    sums = dict(re.findall(r'tally_request_duration_seconds_sum{action="AmazonSQS.(\w+)"} (.*)',
                           daemon.request("GET", "/metrics")[2].decode()))
    assert 0 <= float(sums["SendMessage"]) - slow["Milliseconds"] / 1000 < 0.001
    said = wait_until(lambda: [line for line in lines(daemon) if "slow request" in line], what="the line of it")[0]
    assert said.startswith("tallyd: slow request: SendMessage of queue q took ") and slow["RequestId"] in said
    assert daemon.stop() == 0


def test_a_long_poll_is_not_slow(daemon_factory):
    daemon = daemon_factory("--slow-request", "300ms").start()
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
    assert daemon.call("AmazonSQS.ReceiveMessage", {"QueueUrl": "q", "WaitTimeSeconds": 1})[0] == 200
    assert "ReceiveMessage" not in [slow["Action"] for slow in slow_ones(daemon)]
    lines_of = re.findall(r'tally_request_duration_seconds_(?:sum|count){action="AmazonSQS.ReceiveMessage"} (.*)',
                          daemon.request("GET", "/metrics")[2].decode())
    assert float(lines_of[0]) < 0.3 and lines_of[1] == "1"
    assert daemon.stop() == 0


@pytest.mark.parametrize("limit, is_noted", [("1ms", True), ("0s", False)])
def test_the_limit_is_configured(daemon_factory, limit, is_noted):
    daemon = daemon_factory("--slow-request", limit)
    disk = BrokenDisk(daemon, "pwrite", FAIL_HANGS=1)
    disk.breaks()
    making = threading.Thread(target=daemon.call, args=("AmazonSQS.CreateQueue", {"QueueName": "q"}))
    making.start()
    time.sleep(0.3)
    disk.mends()
    making.join()
    assert bool(slow_ones(daemon)) == is_noted
    assert daemon.stop() == 0


def test_a_confined_credential_sees_those_of_its_queues(daemon_factory, credentials):
    daemon = daemon_factory("--credentials", str(credentials), "--slow-request", "1ms")
    disk = BrokenDisk(daemon, "pwrite", FAIL_HANGS=1)

    def make(name):
        disk.breaks()
        making = threading.Thread(target=ask, args=(daemon, "json", "CreateQueue", {"QueueName": name}, "BOSS",
                                                    "boss-secret"))
        making.start()
        time.sleep(0.3)
        disk.mends()
        making.join()
        ask(daemon, "json", "SendMessage", {"QueueUrl": name, "MessageBody": "x"}, "BOSS", "boss-secret")

    make("mine-a")
    make("other")
    answers = [ask(daemon, "json", "Tally.DescribeServer", {}, key, f"{key.lower()}-secret")
               for key in ("BOSS", "READER")]
    whole, confined = (json.loads(answer.body) for answer in answers)
    assert {slow["AccessKeyId"] for slow in whole["SlowRequests"]} <= {"BOSS", "READER"}
    assert {slow.get("QueueName") for slow in confined["SlowRequests"]} <= {"mine-a"}
    assert len(whole["SlowRequests"]) > len(confined["SlowRequests"])
    assert daemon.stop() == 0


# --- Refusals ---


def test_refusals_have_one_line_for_each_kind(guarded):
    for _ in range(20):
        assert ask(guarded, "json", "ListQueues", {}, "BOSS", "wrong").status == 403
        assert ask(guarded, "json", "ListQueues", {}, "NOBODY", "nobody-secret").status == 403
    guarded.wait_said("because their signature is wrong")
    guarded.wait_said("because their access key or token is not known")
    for _ in range(20):
        assert ask(guarded, "json", "ListQueues", {}, "BOSS", "wrong").status == 403
    time.sleep(1.5)
    said = [line for line in lines(guarded) if "refused within" in line]
    assert len(said) == 2, said
    assert all(re.match(r"tallyd: refused within \d s: \d+ requests, because ", line) for line in said)


def test_too_many_connections_are_told(daemon_factory):
    daemon = daemon_factory("--connections-max", "1").start()
    with socket.create_connection(("127.0.0.1", daemon.port)) as first:
        first.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert first.recv(100)
        with socket.create_connection(("127.0.0.1", daemon.port)) as second:
            assert b"503" in second.recv(100)
        daemon.wait_said("connections, because there are too many")
    assert daemon.stop() == 0
