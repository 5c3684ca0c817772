"""Slices of the two long runs, bench/large and bench/soak; and the record that judges them sees what it must see.

How fast, how small and how flat the daemon is, a slice on a busy machine can't say: here what was lost or came twice counts.
"""

import json
import subprocess
import sys

import pytest
from conftest import BIN, ROOT, WRAPPER
from wire import Connection, scaled

sys.path.append(str(ROOT / "bench"))
from harness import watch  # noqa: E402

PROGRAMS = ROOT / "build" / "release" / "bench"
MESSAGES = 1000


@pytest.fixture(scope="module", autouse=True)
def load():
    """The program of the load."""
    if WRAPPER:
        pytest.skip("measures nothing under a wrapper")
    if (PROGRAMS.parent / "build.ninja").exists():
        subprocess.run(["ninja", "-C", PROGRAMS.parent, "--quiet", "bench/load"], check=False)
    return PROGRAMS / "load"


def run(script, tmp_path, *options):
    """What a slice counted, and what it drew."""
    command = [ROOT / "bench" / script, "--tallyd", BIN / "tallyd", "--programs", PROGRAMS, "--folder", tmp_path, *options]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / f"{script}.svg").read_text().startswith("<svg")
    assert len(list(tmp_path.iterdir())) == 2, "the data folder is left behind"
    for sample in json.loads((tmp_path / f"{script}.json").read_text()):
        assert sample["memory_with_child"] >= sample["memory"], sample
    return json.loads(done.stdout)


def test_a_slice_of_the_large_run_loses_nothing_and_gets_nothing_twice(tmp_path):
    count = scaled(40_000, "LARGE_MESSAGES", least=10_000) // 20 * 20
    counted = run("large", tmp_path, "--messages", count, "--hand", count // 10, "--leave-out", "memory,restart")
    assert counted["sent"] == counted["ended"] == count
    assert counted["given_back"] == counted["kept"] == count // 2
    assert counted["deliveries"] == count + count // 2
    assert {one["name"].split(",")[0].split(" ")[0] for one in counted["checks"]} == {"memory", "disk", "restart"}


def test_a_slice_of_the_soak_outlives_its_workers(tmp_path):
    counted = run("soak", tmp_path, "--minutes", 0.07, "--rate", 2000, "--workers", 3, "--kill-least", 0.2, "--kill-most", 0.4, "--lease", 1,
                  "--leave-out", "memory,disk,trend,queue,files,p99")
    assert counted["sent"] > 4000
    assert counted["kills"] >= 3
    assert counted["ended"] + counted["maybe_ended"] == counted["sent"]


def test_a_run_that_failed_says_so_where_it_is_published():
    faults = {"lost": "lost", "left": "left in the queue"}
    text, met = "50 messages\nmore", [{**watch.check("disk", 1, 2, "MiB"), "decides": True}]
    assert watch.failures({"lost": 0, "left": 0}, faults, met) == []
    assert watch.published("large", text, []) == f"![50 messages](pictures/large.svg)\n\n{text}"
    missed = [{**watch.check("disk", 3, 2, "MiB"), "decides": True}, {**watch.check("memory", 3, 2, "MiB"), "decides": False}]
    failed = watch.failures({"lost": 0, "left": 2000}, faults, missed)
    assert failed == ["2,000 left in the queue", "missed: disk"]
    assert watch.published("large", text, failed).startswith("**FAILED: 2,000 left in the queue; missed: disk.**\n\n![FAILED: 50 messages](")
    assert "| MISSED |" in watch.checks_table(missed) and "| MISSED, left out |" in watch.checks_table(missed)


class Recorded:
    """Messages in a queue and the record of them."""

    def __init__(self, load, daemon, tmp_path):
        self.command = [load, "--port", daemon.port, "--queue", "q", "--connections", 4, "--record", tmp_path / "record", "--messages", MESSAGES]

    def load(self, mode, *options):
        done = subprocess.run([str(word) for word in [*self.command, mode, *options]], stdout=subprocess.PIPE, check=True, timeout=60)
        return json.loads(done.stdout.splitlines()[-1])


def test_the_record_sees_what_is_lost_and_what_comes_twice(load, daemon_factory, tmp_path):
    daemon = daemon_factory("--in-flight-max", "10000").start()
    recorded = Recorded(load, daemon, tmp_path)
    with Connection(daemon.port) as line:
        line.ok("AmazonSQS.CreateQueue", {"QueueName": "q"})
        recorded.load("long-send", "--count", MESSAGES // 10)
        stolen = [take(line) for _ in range(3)]
        recorded.load("long-scatter", "--keep", MESSAGES // 2, "--hand", 100)
        recorded.load("long-drain")
        counted = recorded.load("record")
        assert (counted["lost"], counted["never_seen"], counted["ended"]) == (3, 3, MESSAGES - 3)
        assert (counted["twice"], counted["held_twice"], counted["wrong"]) == (0, 0, 0)
        for body in (stolen[0], stolen[0], stolen[1].replace("dog", "cat"), stolen[1][:-1], stolen[1][:40], stolen[1] + " "):
            line.ok("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": body})
        recorded.load("long-drain", "--connections", 1)
    counted = recorded.load("record")
    assert (counted["lost"], counted["held_twice"], counted["wrong"]) == (2, 1, 4)


def take(line):
    """Receives a message behind the record's back, and deletes it; its body."""
    message = line.ok("AmazonSQS.ReceiveMessage", {"QueueUrl": "q"})["Messages"][0]
    line.ok("AmazonSQS.DeleteMessage", {"QueueUrl": "q", "ReceiptHandle": message["ReceiptHandle"]})
    return message["Body"]
