"""Slices of the two long runs, bench/large and bench/soak; and the record that judges them sees what it must see.

How fast, how small and how flat the daemon is, a slice on a busy machine can't say: here what was lost or came twice
counts. """

import http.server
import importlib.machinery
import importlib.util
import json
import re
import subprocess
import sys
import threading
import time
import types

import pytest
from conftest import BIN, PATIENCE, ROOT, WRAPPER
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
    command = [ROOT / "bench" / script, "--tallyd", BIN / "tallyd", "--programs", PROGRAMS, "--folder", tmp_path,
               *options]
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
    counted = run("soak", tmp_path, "--minutes", 0.07, "--rate", 2000, "--workers", 3, "--kill-least", 0.2,
                  "--kill-most", 0.4, "--lease", 1, "--leave-out", "memory,disk,trend,queue,files,p99")
    assert counted["sent"] > 4000
    assert counted["kills"] >= 3
    assert counted["server_share"] > 0
    assert counted["ended"] + counted["maybe_ended"] == counted["sent"]
    assert counted["maybe_ended"] <= counted["unanswered"] == counted["end_asked"] - counted["answered"]
    assert counted["unanswered"] <= (counted["kills"] + 3) * 80 + counted["late"]
    assert (counted["checks"][0]["name"].startswith("messages gone whose delete nobody lived to see answered")
            and counted["checks"][0]["decides"])


def test_a_run_that_failed_says_so_where_it_is_published():
    faults = {"lost": "lost", "left": "left in the queue"}
    text, met = "50 messages\nmore", [{**watch.check("disk", 1, 2, "MiB"), "decides": True}]
    assert watch.failures({"lost": 0, "left": 0}, faults, met) == []
    assert watch.published("large", text, []) == f"![50 messages](../pictures/large.svg)\n\n{text}"
    missed = [{**watch.check("disk", 3, 2, "MiB"), "decides": True},
              {**watch.check("memory", 3, 2, "MiB"), "decides": False}]
    failed = watch.failures({"lost": 0, "left": 2000}, faults, missed)
    assert failed == ["2,000 left in the queue", "missed: disk"]
    assert watch.published("large", text, failed).startswith(
        "**FAILED: 2,000 left in the queue; missed: disk.**\n\n![FAILED: 50 messages](")
    assert "| MISSED |" in watch.checks_table(missed) and "| MISSED, left out |" in watch.checks_table(missed)


def test_what_is_published_says_when_it_was_taken_and_of_which_commit(tmp_path):
    (tmp_path / "docs" / "pictures").mkdir(parents=True)
    page = tmp_path / "docs" / "internals" / "measuring.md"
    page.parent.mkdir()
    page.write_text("<!-- soak: bench/soak --publish -->\n<!-- end -->\n")
    watch.publish(str(tmp_path), "soak", "<svg/>", "one line", [])
    assert re.search(r"\nTaken 20\d\d-\d\d-\d\dT[\d:]+Z, commit .+\.\n",
                     page.read_text())


def module_of(script):
    """A program of bench as a module."""
    loader = importlib.machinery.SourceFileLoader(f"bench_{script}", str(ROOT / "bench" / script))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def test_what_kills_can_not_explain_fails_the_soak():
    soak = types.SimpleNamespace(kills=[0.1], given=types.SimpleNamespace(workers=1))
    for maybe_ended, unanswered, is_met in ((7, 7, True), (8, 7, False), (160, 500, True), (161, 500, False)):
        proved = {"maybe_ended": maybe_ended, "unanswered": unanswered, "late": 0}
        assert module_of("soak").Soak.fate_check(soak, proved)["met"] == is_met, proved


def test_what_is_lost_at_the_peak_fails_the_soak():
    right = dict.fromkeys(module_of("soak").FAULTS, 0)
    soak = types.SimpleNamespace(peak_proved={**right, "lost": 3, "left": 1})
    assert module_of("soak").Soak.failures(soak, right, []) == [
        "at the peak: 3 lost", "at the peak: 1 left in the queues"]


def test_the_disk_of_a_soak_may_grow_by_a_segment_and_not_more():
    for last, is_met in ((154, True), (155, False)):
        thirds = [{"disk": 100 << 20}], [], [{"disk": last << 20}]
        assert module_of("soak").Soak.trend_check(None, thirds)["met"] == is_met


class Recorded:
    """Messages in a queue and the record of them."""

    def __init__(self, load, port, tmp_path):
        self.command = [load, "--port", port, "--queue", "q", "--connections", 4, "--record", tmp_path / "record",
                        "--messages", MESSAGES]

    def words(self, mode, *options):
        return [str(word) for word in [*self.command, mode, *options]]

    def load(self, mode, *options):
        done = subprocess.run(self.words(mode, *options), stdout=subprocess.PIPE, check=True, timeout=60)
        return json.loads(done.stdout.splitlines()[-1])


def test_the_record_sees_what_is_lost_and_what_comes_twice(load, daemon_factory, tmp_path):
    daemon = daemon_factory("--in-flight-max", "10000").start()
    recorded = Recorded(load, daemon.port, tmp_path)
    with Connection(daemon.port) as line:
        line.ok("AmazonSQS.CreateQueue", {"QueueName": "q"})
        recorded.load("long-send", "--count", MESSAGES // 10)
        stolen = [take(line) for _ in range(3)]
        recorded.load("long-scatter", "--keep", MESSAGES // 2, "--hand", 100)
        recorded.load("long-drain")
        counted = recorded.load("record")
        assert (counted["lost"], counted["never_seen"], counted["ended"]) == (3, 3, MESSAGES - 3)
        assert (counted["twice"], counted["held_twice"], counted["wrong"]) == (0, 0, 0)
        for body in (stolen[0], stolen[0], stolen[1].replace("dog", "cat"), stolen[1][:-1], stolen[1][:40],
                     stolen[1] + " "):
            line.ok("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": body})
        recorded.load("long-drain", "--connections", 1)
    counted = recorded.load("record")
    assert (counted["lost"], counted["held_twice"], counted["wrong"]) == (2, 1, 4)


def take(line):
    """Receives a message behind the record's back, and deletes it; its body."""
    message = line.ok("AmazonSQS.ReceiveMessage", {"QueueUrl": "q"})["Messages"][0]
    line.ok("AmazonSQS.DeleteMessage", {"QueueUrl": "q", "ReceiptHandle": message["ReceiptHandle"]})
    return message["Body"]


class Forgetful(http.server.ThreadingHTTPServer):
    """A queue that refuses the delete of message 0 and has forgotten it all the same; does those of 1 and 2 and never
    says so, but 2 comes back when it is released; and forgets what is given back while it is told to."""

    HELD_S, REFUSED, SILENT, RETURNING = 2 * PATIENCE, 0, (1, 2), 2
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), ForgetfulRequest)
        self.port = self.server_address[1]
        self.lock = threading.Lock()
        self.visible_at_s = {}  # of each body
        self.forgets_what_is_given_back = False
        self.is_over = threading.Event()

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.01,)).start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        """The worker is killed under its connections."""

    def numbers(self):
        with self.lock:
            return {int(body[:10]) for body in self.visible_at_s}

    def release(self):
        with self.lock:
            self.visible_at_s = dict.fromkeys(self.visible_at_s, 0)

    def SendMessageBatch(self, entries):
        self.visible_at_s.update((entry["MessageBody"], 0) for entry in entries)
        return {"Successful": [{"Id": entry["Id"]} for entry in entries]}

    def ReceiveMessage(self, _):
        for body, visible_at_s in self.visible_at_s.items():
            if visible_at_s < time.monotonic():
                self.visible_at_s[body] = time.monotonic() + self.HELD_S
                return {"Messages": [{"ReceiptHandle": str(int(body[:10])), "Body": body}]}
        return {}

    def entry_of_one(self, entries):
        number = int(entries[0]["ReceiptHandle"])
        return number, next(body for body in self.visible_at_s if int(body[:10]) == number)

    def DeleteMessageBatch(self, entries):
        number, body = self.entry_of_one(entries)
        if number == self.RETURNING:
            self.visible_at_s[body] = float("inf")
        else:
            del self.visible_at_s[body]
        return None if number in self.SILENT else {"Failed" if number == self.REFUSED else "Successful": [{"Id": "0"}]}

    def ChangeMessageVisibilityBatch(self, entries):
        _, body = self.entry_of_one(entries)
        self.visible_at_s[body] = 0
        if self.forgets_what_is_given_back:
            del self.visible_at_s[body]
        return {"Successful": [{"Id": "0"}]}


class ForgetfulRequest(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            answer = getattr(self.server, self.headers["X-Amz-Target"].partition(".")[2])(asked.get("Entries"))
        if answer is None:
            self.server.is_over.wait()
            return
        body = json.dumps(answer, separators=(",", ":")).encode()
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    def log_message(self, *_):
        """Says nothing."""


def test_a_message_that_a_server_forgets_is_lost_unless_its_delete_was_never_answered(load, tmp_path):
    with Forgetful() as server:
        recorded = Recorded(load, server.port, tmp_path)
        recorded.load("long-send", "--connections", 1, "--count", 1)
        counted = recorded.load("record")
        with subprocess.Popen(recorded.words("soak-work", "--lease", 60, "--seconds", 60),
                              stdout=subprocess.DEVNULL) as worker:
            deadline_s = time.monotonic() + 30 * PATIENCE
            while time.monotonic() < deadline_s:
                counted = recorded.load("record")
                if (counted["answered"], counted["unanswered"]) == (8, 2) and server.numbers() == {server.RETURNING}:
                    break
                time.sleep(0.01)
            worker.kill()
        assert [counted[key] for key in ("ended", "refused", "lost", "maybe_ended", "unanswered")] == [7, 1, 1, 2, 2]
        server.forgets_what_is_given_back = True
        # a last receive of the killed worker may take it first
        while server.numbers() and time.monotonic() < deadline_s:
            server.release()
            recorded.load("long-scatter", "--connections", 1, "--keep", 10, "--hand", 10)
    counted = recorded.load("record")
    assert [counted[key] for key in ("ended", "lost", "maybe_ended", "unanswered")] == [7, 2, 1, 2], (
        "it came back, and then was lost")
