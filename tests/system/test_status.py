"""`tally top` and `tally status`: which queue needs somebody, and what is wrong, at a glance."""

import json
import os
import pty
import re
import subprocess
import time

from conftest import wait_until


def redrive_to(name, attempts=1):
    arn = f"arn:aws:sqs:us-east-1:000000000000:{name}"
    return "RedrivePolicy=" + json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": attempts})


def let_a_message_be_old(tally, queue, seconds=1):
    tally("send", queue, "m")
    sent = time.monotonic()
    wait_until(lambda: time.monotonic() > sent + seconds + 0.1, what=f"{seconds} seconds")


# --- top -------------------------------------------------------------------------------------------------------------


def names_of(tally, *words):
    return [line["Queue"] for line in tally.json("top", *words)]


def test_top_shows_the_oldest_queue_first_with_what_comes_and_goes(tally):
    for name in ["new", "old", "empty", "paused"]:
        tally("queue", "create", name)
    let_a_message_be_old(tally, "old")
    tally("send", "new", "-", "--lines", stdin="1\n2\n3\n")
    tally("receive", "new", "--delete")
    tally("queue", "pause", "paused")
    lines = tally("top", "--once").out.splitlines()
    assert re.fullmatch(r"4 queues, 3 ready, 0 in flight, [\d.]+/s sent, [\d.]+/s done, \d\d:\d\d:\d\d UTC", lines[0])
    assert lines[1].split() == ["OLDEST", "READY", "FLIGHT", "DELAYED", "SENT/s", "OUT/s", "DONE/s", "FAIL/s", "POLLS",
                                "QUEUE"]
    assert [line.split()[-1] for line in lines[2:]] == ["old", "new", "empty", "(paused)"]
    assert re.fullmatch(r" *\d+ s +1 +0 +0 +[\d.]+ +0\.0 +0\.0 +0\.0 +0  old", lines[2])
    assert tally("top").out.splitlines()[1:] == lines[1:] or len(tally("top").out.splitlines()) == 6  # no terminal
    assert names_of(tally, "--sort", "ready") == ["new", "old", "empty", "paused"]
    assert names_of(tally, "--sort", "name", "--lines", "2") == ["empty", "new"]
    assert names_of(tally, "--prefix", "o") == ["old"]
    new = tally.json("top", "--prefix", "new")[0]
    assert new["SentPerSecond"] > new["DeletedPerSecond"] > 0 and new["FailedPerSecond"] == 0
    assert time.time() - 60 < new["LastReceiveAt"] <= time.time() + 1 and new["WaitingReceives"] == 0
    assert "LastReceiveAt" not in tally.json("top", "--prefix", "old")[0]
    assert "--sort" in tally("top", "--sort", "colour", status=2).err


def test_top_counts_failures_and_who_waits(tally):
    for name in ["bad", "good"]:
        tally("queue", "create", name)
    tally("send", "bad", "m")
    handle = tally.json("receive", "bad")[0]["ReceiptHandle"]
    tally("call", "Tally.FailMessage", json.dumps({"QueueUrl": "bad", "ReceiptHandle": handle}))
    waiting = tally.start("call", "ReceiveMessage", '{"QueueUrl": "good", "WaitTimeSeconds": 20}')
    wait_until(lambda: tally.json("top", "--prefix", "good")[0]["WaitingReceives"] == 1, what="a receive that waits")
    assert names_of(tally, "--sort", "failed") == ["bad", "good"]
    assert tally.json("top", "--prefix", "bad")[0]["FailedPerSecond"] > 0
    waiting.kill()


def test_top_on_a_terminal_goes_on(tally):
    tally("queue", "create", "orders")
    ours, theirs = pty.openpty()
    running = subprocess.Popen(tally.command("top"), stdout=theirs, env=tally.environment)
    os.close(theirs)
    seen = b""
    begun = time.monotonic()
    while seen.count(b"OLDEST") < 3 and time.monotonic() < begun + 30:
        seen += os.read(ours, 65536)
    running.terminate()
    running.wait()
    os.close(ours)
    assert seen.count(b"OLDEST") >= 3 and seen.count(b"orders") >= 2 and time.monotonic() > begun + 3
    assert seen.startswith(b"\x1b[2J") and b"\x1b[H" in seen


def test_top_without_a_server_ends_with_status_3(tally):
    assert "127.0.0.1:1" in tally("top", "--endpoint", "http://127.0.0.1:1", status=3).err


# --- status ----------------------------------------------------------------------------------------------------------


def test_a_calm_server_has_status_0(tally):
    assert tally("status").out == "All is calm: 0 queues, 0 messages; 0.0 a second come, and 0.0 go.\n"
    tally("queue", "create", "orders")
    tally("send", "orders", "m")
    assert tally("status").out.startswith("All is calm: 1 queue, 1 message; ")
    assert tally.json("status") == [{"IsCalm": True, "Findings": [], "NotSeen": []}]


def test_each_thing_that_needs_a_person_is_a_sentence_with_a_command(tally):
    tally("queue", "create", "dead")
    for name in ["still", "behind", "paused"]:
        tally("queue", "create", name)
    tally("queue", "create", "failing", redrive_to("dead"))
    tally("queue", "create", "line.fifo", "Tally.OnGroupFailure=hold")
    tally("send", "failing", "m")
    tally("receive", "failing", "--visibility", "0")
    assert tally("receive", "failing").out == ""  # now it is a dead letter
    tally("send", "line.fifo", "m", "--group", "g", "--deduplication-id", "1")
    handle = tally.json("receive", "line.fifo")[0]["ReceiptHandle"]
    tally("call", "Tally.FailMessage", json.dumps({"QueueUrl": "line.fifo", "ReceiptHandle": handle, "Final": True}))
    tally("queue", "pause", "paused")
    tally("send", "paused", "m")
    tally("send", "behind", "m")
    tally("receive", "behind", "--visibility", "0")
    tally("queue", "create", "stuck")
    tally("send", "stuck", "in hand")
    tally("receive", "stuck", "--visibility", "3600")
    tally("send", "stuck", "m", "--delay", "600")
    let_a_message_be_old(tally, "still")
    text = tally("status", "--older-than", "1", status=1).out
    assert re.search(r"^stuck: its oldest message is \d+ s old and can't be received: 1 is in flight, 1 is delayed\.\n"
                     r"    tally messages stuck --older-than 1$", text, re.M)
    assert re.search(r"^still stands still: its oldest message is \d+ s old, and nobody has asked for messages since "
                     r"the server was started\.\n    tally work --queue still -- COMMAND$", text, re.M)
    assert re.search(r"^paused is paused, and 1 message waits in it\.\n    tally queue resume paused$", text, re.M)
    assert re.search(r"^dead has 1 dead letter, of failing\.\n    tally messages dead; tally queue redrive dead$", text,
                     re.M)
    assert re.search(r"^line\.fifo: 1 group is held because a message of it failed\.\n    tally group list line\.fifo "
                     r"--state held", text, re.M)
    assert re.search(r"^behind is behind: its oldest message is \d+ s old; [\d.]+ a second come, and 0\.0 go\.\n", text,
                     re.M)
    found = tally.json("status", "--older-than", "1", status=1)[0]
    kinds = [finding["Severity"] for finding in found["Findings"]]
    order = ["refusing", "stuck", "failing", "late"]
    assert kinds == sorted(kinds, key=order.index) and not found["IsCalm"]
    one = tally("status", "--older-than", "1", "--limit", "1", status=1).out
    assert one.splitlines()[-1] == f"And {len(kinds) - 1} more: tally status --limit {len(kinds)}"
    # Many queues that stand still hide nothing else.
    for number in range(20):
        tally("queue", "create", f"many-{number}")
        tally("send", f"many-{number}", "m")
    everything = ["status", "--older-than", "1", "--limit", "100"]
    wait_until(lambda: tally(*everything, status=1).out.count(" stands still") == 21)
    text = tally("status", "--older-than", "1", status=1).out
    assert "line.fifo: 1 group is held" in text and "dead has 1 dead letter" in text and "many-0 stands" in text
    for number in range(20):
        tally("queue", "delete", f"many-{number}")
    # What is wrong, is no longer.
    tally("queue", "resume", "paused")
    tally("group", "release", "line.fifo", "g", "--skip")
    for name in ["still", "behind", "paused", "dead", "stuck"]:
        tally("queue", "purge", name)
    tally("queue", "delete", "line.fifo")  # half of its attempts have failed
    assert tally("status", "--older-than", "1").out.startswith("All is calm")


def test_relays_and_the_server_are_looked_at_too(tally, http_proxy):
    server = {
        "Memory": {"Used": 90, "Max": 100}, "Disk": {"Used": 1, "Max": 100}, "Snapshot": {"IsFailing": True},
        "Certificate": {"ExpiresAt": time.time() + 86400},
    }
    answers = {
        "Tally.ListQueueStats": {"Queues": [{"QueueName": "q", "OldestMessageAge": 5}]},
        "Tally.DescribeServer": server,
        "Tally.ListRelays": {"Relays": [
            {"RelayName": "r", "State": "blocked", "LastError": "no\x1b[2J disk", "Parked": 3, "InDoubt": 1}]},
    }
    http_proxy.answer = lambda target, body: (200, json.dumps(answers[target]).encode())
    lines = tally("status", "--endpoint", http_proxy.endpoint, status=1).out.splitlines()
    assert lines[0] == "The server's memory is 90 % of what it may be: sends are refused at 100 %."
    assert "The server's certificate expires within two weeks." in lines
    assert "The server's snapshots fail, so no room comes free on its disk." in lines
    assert "The relay r is blocked: no [2J disk" in lines  # nothing of it reaches the terminal
    assert "The relay r has put 3 rows aside, 1 of them in doubt." in lines
    assert not any("disk is" in line for line in lines)


def test_what_the_caller_may_not_see_is_said_and_is_no_fault(tally, http_proxy):
    http_proxy.answer = lambda target, body: (
        (200, b'{"Queues": []}') if target == "Tally.ListQueueStats" else
        (403, b'{"__type": "com.amazonaws.sqs#AccessDeniedException", "message": "Access is denied."}')
        if target == "Tally.ListRelays" else
        (400, b'{"__type": "com.amazonaws.sqs#UnknownOperationException", "message": "What?"}'))
    text = tally("status", "--endpoint", http_proxy.endpoint).out
    assert text.startswith("All is calm: 0 queues")
    assert "Not seen: relays: Access is denied." in text and "What?" not in text
