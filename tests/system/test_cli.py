"""The command line tool: help, exit statuses, and the commands that ask the server one thing."""

import hashlib
import http.server
import json
import os
import pty
import re
import socket
import subprocess
import threading
import time

import pytest

from conftest import BIN, PATIENCE, ROOT, Tally, free_port, wait_until

COMMANDS = [
    "queue create",
    "queue list",
    "queue show",
    "queue set",
    "queue tag",
    "queue untag",
    "queue tags",
    "queue pause",
    "queue resume",
    "queue redrive",
    "queue redrives",
    "queue redrive-stop",
    "queue purge",
    "queue delete",
    "send",
    "receive",
    "delete",
    "delete-messages",
    "commit",
    "messages",
    "peek",
    "find",
    "release",
    "replace",
    "dependents",
    "failures",
    "explain",
    "group list",
    "group release",
    "group pause",
    "group resume",
    "type-order put",
    "type-order list",
    "type-order delete",
    "work",
    "run",
    "batch create",
    "batch add",
    "batch complete",
    "batch seal",
    "batch show",
    "batch list",
    "batch units",
    "batch cancel",
    "batch delete",
    "schedule put",
    "schedule list",
    "schedule show",
    "schedule pause",
    "schedule resume",
    "schedule fire",
    "schedule delete",
    "relay schema",
    "health",
    "status",
    "events",
    "top",
    "ui",
    "completion",
    "export",
    "import",
    "apply",
    "call",
]


@pytest.fixture
def offline():
    """The tool with no server behind it."""
    return Tally(f"http://127.0.0.1:{free_port()}")


# --- Help and exit statuses ------------------------------------------------------------------------------------------


def test_help_lists_every_command_and_the_exit_statuses(offline):
    text = offline("--help").out
    for command in COMMANDS:
        assert f"\n  {command} " in text
    assert "Exit status" in text
    assert offline("help").out == text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_usage_options_and_examples(offline, command):
    text = offline(*command.split(), "--help").out
    assert text.startswith(f"tally {command}: ")
    assert f"usage: tally {command} " in text
    assert "--endpoint URL" in text
    assert f"\nExamples:\n" in text
    assert f"tally {command}" in text.split("Examples:")[1]
    assert offline("help", *command.split()).out == text


def test_the_page_of_all_commands_has_the_options_and_statuses_of_the_help(offline):
    """`make reference` makes the rest of docs/reference/commands from what the help is made of."""
    page = (ROOT / "docs/reference/commands/README.md").read_text()
    rows = re.findall(r"^\| (?:`(--[^`]*)`|(128 \+ N|\d)) \|", page, re.MULTILINE)
    text = offline("health", "--help").out
    common = re.findall(r"^  (--(?:endpoint|ca-file|json|help)\b.*?)  ", text, re.MULTILINE)
    statuses = re.findall(r"^  (\d|128 \+ N)  ", text.split("Exit status:")[1], re.MULTILINE)
    assert [option or status for option, status in rows] == common + statuses
    named = re.findall(r"^\| \[tally ([a-z -]+)\]", page, re.MULTILINE)
    overview = offline("--help").out.split("Commands:\n")[1].split("\n\n")[0]
    assert sorted(named) == sorted(line[2:20].strip() for line in overview.splitlines())


def test_help_fits_a_terminal_of_120_columns(offline):
    for command in COMMANDS:
        for line in offline(*command.split(), "--help").out.splitlines():
            assert len(line) <= 120, (command, line)


def test_each_option_of_the_help_is_known_to_its_command(offline):
    overview = offline("--help").out.split("Commands:\n")[1].split("\n\n")[0]
    names = [line[2:20].split() for line in overview.splitlines()]
    assert len(names) > len(COMMANDS)
    for name in names:
        assert "there is no option --nonsense" in offline(*name, "--nonsense", status=2).err


def test_a_group_explains_its_commands(offline):
    assert "batch seal" in offline("batch", "--help").out
    assert "queue purge" in offline("queue", status=2).err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nonsense"],
        ["send"],
        ["send", "orders"],
        ["send", "orders", "a", "b"],
        ["send", "orders", "a", "--nonsense"],
        ["send", "orders", "a", "--delay", "901"],
        ["send", "orders", "a", "--delay", "-1"],
        ["send", "orders", "a", "--delay"],
        ["send", "orders", "a", "--attribute", "novalue"],
        ["send", "orders", "a", "--lines"],
        ["send", "orders", "-", "--lines", "--deduplication-id", "a"],
        ["send", "orders", "x", "--content-based-deduplication", "--deduplication-id", "a"],
        ["send", "orders", "x", "--content-based-deduplication", "--producer", "p", "--sequence", "1"],
        ["send", "orders", "-", "--lines", "--from-unit"],
        ["send", "orders", "a", "--producer", "p"],
        ["send", "orders", "a", "--sequence", "1"],
        ["send", "orders", "a", "--priority", "10"],
        ["send", "orders", "a", "--after-failure", "run"],
        ["explain", "orders"],
        ["commit", "orders", "a"],
        ["commit", "orders", "a", "--queue", "in"],
        ["commit", "orders", "--queue", "in", "--receipt-handle", "h"],
        ["type-order", "put", "posts", "a"],
        ["group", "release", "orders", "g"],
        ["group", "release", "orders", "g", "--retry", "--skip"],
        ["receive", "orders", "--max", "11"],
        ["queue", "create", "orders", "novalue"],
        ["queue", "create", "orders", "--attribute", "novalue"],
        ["queue", "create", "orders", "--max-attempts", "3"],
        ["queue", "create", "orders", "--dead-letter", "orders"],
        ["queue", "create", "orders", "--dead-letter", "dead.fifo"],
        ["queue", "create", "orders", "--dead-letter", "dead", "--max-attempts", "0"],
        ["queue", "create", "orders", "--dead-letter", "dead", "RedrivePolicy={}"],
        ["queue", "create", "orders", "--backoff", "5"],
        ["queue", "create", "orders", "--backoff", "5..1"],
        ["queue", "create", "orders", "--backoff", "1..43201"],
        ["queue", "create", "orders", "--backoff", "1..900", "Tally.Backoff={}"],
        ["batch", "add", "night"],
        ["batch", "add", "night", "a", "--count", "3"],
        ["work", "--", "cat"],
        ["work", "--queue", "orders"],
        ["work", "--queue", "orders", "--", "/no/such/command"],
        ["run", ".", "--"],
        ["run", ".", "--name", "a b", "--", "cat"],
        ["queue", "list", "--endpoint", "nonsense"],
        ["queue", "list", "--json=yes"],
    ],
)
def test_a_wrong_command_line_ends_with_status_2_and_says_why(offline, words):
    done = offline(*words, status=2)
    assert done.out == ""
    assert done.err


def test_no_server_ends_with_status_3_and_says_where_it_looked(offline):
    done = offline("queue", "list", status=3)
    assert offline.environment["TALLY_ENDPOINT"] in done.err
    assert "tallyd" in done.err


def test_an_error_of_the_server_ends_with_status_1_and_its_code(tally):
    done = tally("queue", "show", "nowhere", status=1)
    assert "QueueDoesNotExist" in done.err
    error = json.loads(tally("queue", "show", "nowhere", "--json", status=1).err)
    assert error["error"] == "QueueDoesNotExist"
    assert error["httpStatus"] == 400
    assert error["outcomeUnknown"] is False


def test_a_queue_that_does_not_exist_is_named_and_the_most_alike_offered(tally):
    for name in ["orders", "Invoices", "line.fifo", "q"]:
        tally("queue", "create", name)
    for wrong, meant in [("ordres", "orders"), ("Order", "orders"), ("INVOICE", "Invoices"), ("line", "line.fifo"),
                         ("lines.fifo", "line.fifo")]:
        for words in [("queue", "show", wrong), ("send", wrong, "a"), ("receive", wrong),
                      ("queue", "purge", wrong, "--yes")]:
            done = tally(*words, status=None)
            if done.returncode == 2:  # this command asks for something else first
                continue
            assert done.returncode == 1 and f"has no queue '{wrong}'. Did you mean '{meant}'?" in done.err, (
                words, done.err)
    assert json.loads(tally("queue", "show", "ordres", "--json", status=1).err)["didYouMean"] == "orders"
    done = tally("work", "--queue", "ordres", "--", "cat", status=1)
    assert "has no queue 'ordres'. Did you mean 'orders'?" in done.err
    for wrong in ["nothing-like-it", "p", "in"]:
        done = tally("queue", "show", wrong, status=1)
        assert f"has no queue '{wrong}'." in done.err and "mean" not in done.err
        assert "didYouMean" not in json.loads(tally("queue", "show", wrong, "--json", status=1).err)


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["queue", "nonsense"],
        ["send", "orders"],
        ["send", "orders", "a", "--nonsense"],
        ["send", "orders", "a", "--delay", "901"],
        ["queue", "list", "--endpoint", "nonsense"],
        ["work", "--queue", "orders", "--", "/no/such/command"],
    ],
)
def test_a_wrong_command_line_is_told_in_json_where_json_is_asked_for(offline, words):
    place = words.index("--") if "--" in words else len(words)
    said = json.loads(offline(*words[:place], "--json", *words[place:], status=2).err)
    assert said["error"] == "Invalid" and said["message"] and (said["httpStatus"], said["outcomeUnknown"]) == (0, False)


def test_what_else_standard_error_says_is_json_too(tally, tmp_path):
    words = ["pool", "create", "p", "--rules", tmp_path / "none", "--result", "q"]
    said = json.loads(tally(*words, "--json", status=None).err)
    assert str(tmp_path / "none") in said["message"]


def test_the_help_says_what_is_so(offline):
    assert "else park to a FIFO queue, send to others" in offline("relay", "create", "--help").out
    assert "10 to 15 seconds later" in offline("match", "--help").out
    for command in ["list", "release", "pause", "resume"]:
        assert f"tally group {command} comments.fifo" in offline("group", command, "--help").out
    assert "tally send comments.fifo" in offline("send", "--help").out
    assert "tally send --from-unit" in offline("work", "--help").out


def test_options_that_all_commands_have_may_stand_first(tally, daemon):
    tally.environment.pop("TALLY_ENDPOINT")
    assert tally("--endpoint", daemon.endpoint, "--json", "queue", "list").out.strip().startswith("{")
    assert tally("queue", "list", f"--endpoint={daemon.endpoint}/").out == ""
    for words, wrong in [(["queue", "stats", "x"], 'no command "queue stats"'), (["stats"], 'no command "stats"'),
                         ([], "the command is missing")]:
        assert wrong in tally("--endpoint", daemon.endpoint, *words, status=2).err


def test_version(offline):
    assert offline("--version").out.startswith("tally ")


# --- Queues ----------------------------------------------------------------------------------------------------------


def test_health_says_whether_it_is_ready(tally):
    assert tally("health").out == "ready\n"
    assert json.loads(tally("health", "--json").out) == {"status": "ready"}


def test_health_knows_what_is_no_tally(offline):
    """Another server may say 200 to whatever it is asked."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        for text in (b"<html>Welcome", b"", b"[]", b'{"state": "ok"}'):
            done = offline("health", "--endpoint", f"http://127.0.0.1:{server.server_address[1]}", status=1)
            assert done.out == "" and "not as a Tally does" in done.err
        text = b'{"status": "\\u001b]0;x\\u0007"}'
        assert "\x1b" not in offline("health", "--endpoint", f"http://127.0.0.1:{server.server_address[1]}").out
        server.shutdown()


def test_health_waits_for_a_server_that_comes(tally, daemon):
    daemon.stop()
    assert "can't reach" in tally("health", status=3).err
    begun = time.monotonic()
    assert tally("health", "--wait", "1", status=3).err and time.monotonic() - begun >= 1
    coming = threading.Timer(1, daemon.start)
    coming.start()
    assert tally("health", "--wait", "60").out == "ready\n"
    coming.join()


def test_health_waits_no_longer_than_it_was_told_to(tally):
    """For a server that takes connections and answers nobody."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        begun = time.monotonic()
        said = tally("health", "--wait", "1", "--endpoint", f"http://127.0.0.1:{deaf.getsockname()[1]}", status=3).err
        assert "did not answer" in said or "imed out" in said or "imeout" in said, said
        assert 1 <= time.monotonic() - begun < 3 * PATIENCE


def test_queue_create_prints_the_url_and_may_be_repeated(tally, daemon):
    url = tally("queue", "create", "orders", "VisibilityTimeout=60").out.strip()
    assert url == f"{daemon.endpoint}/000000000000/orders"
    assert tally("queue", "create", "orders", "VisibilityTimeout=60").out.strip() == url
    assert tally.json("queue", "create", "orders") == [{"QueueUrl": url}]
    assert "QueueNameExists" in tally("queue", "create", "orders", "VisibilityTimeout=61", status=1).err


def test_queue_create_makes_dead_letters_attempts_and_back_off_by_name(tally):
    words = ["queue", "create", "orders", "--dead-letter", "dead", "--max-attempts", "4", "--backoff", "2..60"]
    first = tally(*words)
    assert first.out.endswith("/orders\n") and first.err == "tally: made the queue dead, too\n"
    again = tally(*words)
    assert (again.out, again.err) == (first.out, "")
    attributes = tally.json("queue", "show", "orders")[0]["Attributes"]
    arn = tally.json("queue", "show", "dead")[0]["Attributes"]["QueueArn"]
    assert json.loads(attributes["RedrivePolicy"]) == {"deadLetterTargetArn": arn, "maxReceiveCount": 4}
    assert json.loads(attributes["Tally.Backoff"]) == {"min": 2, "max": 60, "factor": 2, "jitter": 0.2}
    tally("queue", "create", "line.fifo", "--dead-letter", "dead.fifo")
    attributes = tally.json("queue", "show", "line.fifo")[0]["Attributes"]
    assert json.loads(attributes["RedrivePolicy"])["maxReceiveCount"] == 25


def test_queue_list_prints_names_in_order(tally):
    for name in ["b", "a", "c-1", "c-2"]:
        tally("queue", "create", name)
    assert tally("queue", "list").out.split() == ["a", "b", "c-1", "c-2"]
    assert tally("queue", "list", "--prefix", "c-").out.split() == ["c-1", "c-2"]
    assert [url.rsplit("/", 1)[1] for url in tally.json("queue", "list")[0]["QueueUrls"]] == ["a", "b", "c-1", "c-2"]
    assert tally("queue", "list", "--prefix", "c-1", "--urls").out.strip().endswith("/000000000000/c-1")


def test_queue_list_long_says_how_full_the_queues_are_and_how_old_the_oldest_message_is(tally):
    for name in ["empty", "full", "paused"]:
        tally("queue", "create", name)
    tally("queue", "pause", "paused")
    tally("send", "full", "-", "--lines", stdin="1\n2\n3\n")
    sent = time.monotonic()
    tally("send", "full", "later", "--delay", "900")
    tally("receive", "full")
    wait_until(lambda: time.monotonic() > sent + 2, what="two seconds")
    lines = tally("queue", "list", "--long").out.splitlines()
    assert lines[0].split() == ["READY", "IN", "FLIGHT", "DELAYED", "OLDEST", "READY", "FOR", "QUEUE"]
    assert lines[1].split() == ["0", "0", "0", "-", "-", "empty"]
    assert re.fullmatch(r" *2 +1 +1 +([2-9]|\d\d) s +([2-9]|\d\d) s  full", lines[2])
    assert lines[3].split() == ["0", "0", "0", "-", "-", "paused", "(paused)"] and len(lines) == 4
    full = tally.json("queue", "list", "--long", "--prefix", "f")[0]
    assert (full["Queue"], full["Ready"], full["InFlight"], full["Delayed"], full["Paused"]) == ("full", 2, 1, 1, False)
    assert full["OldestSeconds"] >= 2 and full["ReadySeconds"] >= 2 and full["HeldGroups"] == full["Blocked"] == 0
    assert "OldestSeconds" not in tally.json("queue", "list", "--long", "--prefix", "e")[0]
    assert "go together" in tally("queue", "list", "--long", "--urls", status=2).err
    ours, theirs = pty.openpty()
    subprocess.run(tally.command("queue", "list"), stdout=theirs, env=tally.environment, check=True)
    assert b"IN FLIGHT" in os.read(ours, 65536)
    os.close(ours)
    os.close(theirs)


def test_queue_list_long_shows_any_age_that_a_server_answers(tally, http_proxy):
    answers = {
        "Tally.ListQueueStats": {"Queues": [{"QueueName": "old", "OldestMessageAge": 2**64 - 1}]},
    }
    http_proxy.answer = lambda target, body: (200, json.dumps(answers[target]).encode())
    lines = tally("queue", "list", "--long", "--endpoint", http_proxy.endpoint).out.splitlines()
    assert lines[1].split() == ["0", "0", "0", "213503982334601", "d", "-", "old"]


def test_queue_list_sorts_the_worst_first(tally, http_proxy):
    for name in ["a", "b", "c"]:
        tally("queue", "create", name)
    tally("send", "c", "old")
    sent = time.monotonic()
    wait_until(lambda: time.monotonic() > sent + 1.1, what="a second")
    tally("send", "b", "-", "--lines", stdin="1\n2\n")
    lines = tally("queue", "list", "--sort", "age").out.splitlines()
    assert [line.split()[-1] for line in lines[1:]] == ["c", "b", "a"]
    assert [queue["Queue"] for queue in tally.json("queue", "list", "--sort", "visible")] == ["b", "c", "a"]
    assert "It must be name, age, oldest or visible." in tally("queue", "list", "--sort", "size", status=1).err
    assert "go together" in tally("queue", "list", "--sort", "age", "--urls", status=2).err
    pages = {None: {"Queues": [{"QueueName": "x", "Visible": 1}], "NextToken": "10000"},
             "10000": {"Queues": [{"QueueName": "y", "Visible": 7, "HeldGroups": 2, "OldestDeliverableAge": 9}]}}
    http_proxy.answer = lambda target, body: (200, json.dumps(pages[body.get("NextToken")]).encode())
    lines = tally("queue", "list", "--sort", "visible", "--endpoint", http_proxy.endpoint).out.splitlines()
    assert lines[1].endswith("9 s  y (2 groups are held)") and lines[2].endswith("-  x")


def test_queue_set_and_show(tally):
    tally("queue", "create", "orders")
    tally("queue", "set", "orders", "VisibilityTimeout=77", "DelaySeconds=3")
    text = tally("queue", "show", "orders").out
    assert "VisibilityTimeout" in text and " 77\n" in text
    attributes = tally.json("queue", "show", "orders")[0]["Attributes"]
    assert attributes["VisibilityTimeout"] == "77"
    assert attributes["DelaySeconds"] == "3"
    assert attributes["ApproximateNumberOfMessages"] == "0"
    assert "InvalidAttributeValue" in tally("queue", "set", "orders", "DelaySeconds=901", status=1).err


def test_queue_tags(tally):
    tally("queue", "create", "orders")
    assert tally("queue", "tags", "orders").out == ""
    assert tally("queue", "tag", "orders", "team=billing", "stage=test=1").out == ""
    tally("queue", "tag", "orders", "team=")
    assert tally("queue", "tags", "orders").out == "stage=test=1\nteam=\n"
    tally("queue", "untag", "orders", "stage", "none")
    assert tally.json("queue", "tags", "orders") == [{"Tags": {"team": ""}}]
    assert "QueueDoesNotExist" in tally("queue", "tag", "none", "a=b", status=1).err


def test_queue_redrive(tally):
    for queue in ("dead", "hand"):
        tally("queue", "create", queue)
    policy = '{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead","maxReceiveCount":1}'
    tally("queue", "create", "orders", f"RedrivePolicy={policy}")
    for body in ("one", "two", "three"):
        tally("send", "orders", body)
    tally("receive", "orders", "--max", "10", "--visibility", "0")
    assert tally("receive", "orders", "--max", "10").out == ""  # now they are dead letters
    tally("queue", "redrive", "dead", "--rate", "1", "--to", "hand")
    assert "already a task running" in tally("queue", "redrive", "dead", status=1).err
    assert tally("queue", "redrives", "dead").out.split()[::3] == ["RUNNING", "3"]
    tally("queue", "redrive-stop", "dead")
    assert "no redrive of dead is running" in tally("queue", "redrive-stop", "dead", status=1).err
    assert tally("queue", "redrives", "dead").out.endswith("of 3  to hand\n")
    tally("queue", "redrive", "dead")
    wait_until(lambda: tally("queue", "redrives", "dead").out.startswith("COMPLETED"), what="the redrive")
    moved = tally("receive", "orders", "--max", "10").out + tally("receive", "hand", "--max", "10").out
    assert sorted(moved.split()) == ["one", "three", "two"]
    assert "Dead Letter Queue" in tally("queue", "redrive", "orders", status=1).err
    assert "QueueDoesNotExist" in tally("queue", "redrive", "none", status=1).err


def fail_all(tally, queue, reasons):
    """Sends a message for each reason, which fails for it and is dead-lettered. Their ids."""
    ids = []
    for number, reason in enumerate(reasons):
        ids.append(tally("send", queue, f"{number}").out.strip())
        handle = tally.json("receive", queue)[0]["ReceiptHandle"]
        tally("call", "Tally.FailMessage",
              json.dumps({"QueueUrl": queue, "ReceiptHandle": handle, "Reason": reason, "Final": True}))
    return ids


def test_redriving_and_deleting_some(tally):
    tally("queue", "create", "orders", "--dead-letter", "dead")
    ids = fail_all(tally, "orders", ["timeout: a", "no such customer", "timeout: b", "no such customer"])
    dry = tally("queue", "redrive", "dead", "--reason", "timeout", "--dry-run").out
    assert "messages    2\n" in dry and "2 to orders" in dry and "refused     0" in dry
    assert tally("queue", "redrive", "dead", "--reason", "time-out").out == "0 messages match\n"
    assert tally("delete-messages", "dead", "--reason", "time-out").out == "0 messages match\n"
    assert tally.json("queue", "redrive", "dead", "--reason", "time-out")[0].keys() == {"TaskHandle"}
    tasks = tally("queue", "redrives", "dead").out
    assert tally.json("queue", "redrive", "dead", "--dry-run")[0]["Messages"] == 4
    assert tally("queue", "redrives", "dead").out == tasks  # nothing was begun
    tally("queue", "redrive", "dead", "--reason", "timeout", "--max", "1")
    wait_until(lambda: tally("queue", "redrives", "dead").out.startswith("COMPLETED"), what="the redrive")
    assert tally("receive", "orders", "--delete").out == "0\n"
    held = tally.json("receive", "dead", "--visibility", "300")[0]
    assert held["MessageId"] == ids[1]
    dry = tally("delete-messages", "dead", "--reason", "no such", "--dry-run").out
    assert "messages    1\n" in dry and f"stay        {ids[1]} in-flight\n" in dry
    tally("delete-messages", "dead", "--reason", "no such")
    wait_until(lambda: "COMPLETED" in tally("queue", "redrives", "dead").out.splitlines()[0], what="the deletion")
    shown = tally("queue", "redrives", "dead").out
    assert "1 of 2  deleted  1 stayed" in shown.splitlines()[0] and f"  {ids[1]} in-flight\n" in shown
    tally("delete-messages", "dead", "--id", ids[2])
    wait_until(lambda: tally("receive", "dead").out == "", what="the end of the last one")
    assert "which messages" in tally("delete-messages", "dead", status=1).err
    assert "not the MessageId" in tally("delete-messages", "dead", "--id", "x", status=1).err
    assert "QueueDoesNotExist" in tally("delete-messages", "none", "--reason", "x", status=1).err


def test_dry_runs_end_nothing(tally):
    tally("queue", "create", "orders")
    tally("queue", "create", "line.fifo", "Tally.OnGroupFailure=hold")
    tally("batch", "create", "b")
    tally("send", "orders", "one", "--batch", "b")
    tally("send", "orders", "two")
    for command in ("purge", "delete"):
        dry = tally("queue", command, "orders", "--dry-run").out
        assert "messages    2\n" in dry and "units       1\n" in dry and "batches     1\n" in dry
    assert tally.json("batch", "cancel", "b", "--dry-run")[0]["Units"] == 1
    tally("send", "line.fifo", "m", "--group", "g", "--deduplication-id", "m")
    fail = {"QueueUrl": "line.fifo", "ReceiptHandle": tally.json("receive", "line.fifo")[0]["ReceiptHandle"]}
    tally("call", "Tally.FailMessage", json.dumps({**fail, "Final": True}))
    assert "messages    1\n" in tally("group", "release", "line.fifo", "g", "--skip", "--dry-run").out
    assert tally("batch", "show", "b", "--json").out.count('"open"') == 1
    assert tally("group", "list", "line.fifo").out.startswith("held")
    assert tally("receive", "orders", "--max", "10").out.split() == ["one", "two"]


def test_queue_purge_and_delete(tally):
    tally("queue", "create", "orders")
    tally("send", "orders", "one")
    tally("queue", "purge", "orders")
    assert tally("receive", "orders").out == ""
    tally("queue", "delete", "orders")
    assert tally("queue", "list").out == ""
    assert "QueueDoesNotExist" in tally("queue", "delete", "orders", status=1).err


def test_type_orders(tally):
    tally("queue", "create", "posts")
    tally("queue", "create", "comments")
    line = tally("type-order", "put", "posts", "create-post", "create-comment").out
    assert line.split() == ["posts", "create-post", "<", "create-comment"]
    tally("type-order", "put", "strict", "a", "b", "c", "--require", "--retention", "60")
    assert tally("type-order", "list").out == line + f"{'strict':24} a < b < c  (required, for 60 s)\n"
    assert tally.json("type-order", "list")[1]["RetentionSeconds"] == 60
    tally("send", "posts", "a post", "--group", "post-17", "--type", "create-post")
    comment = tally("send", "comments", "first!", "--group", "post-17", "--type", "create-comment").out.strip()
    assert tally("receive", "comments").out == ""
    assert "create-post" in tally("explain", "comments", comment).out
    tally("receive", "posts", "--delete")
    assert tally("receive", "comments").out == "first!\n"
    assert "TypeOrderConflict" in tally("type-order", "put", "turned", "create-comment", "create-post", status=1).err
    assert tally("type-order", "delete", "strict").out == ""
    assert "TypeOrderDoesNotExist" in tally("type-order", "delete", "strict", status=1).err
    assert "--require" in tally("type-order", "put", "x", "a", "b", "--retention", "60", status=2).err


# --- Messages --------------------------------------------------------------------------------------------------------


def test_send_receive_delete(tally):
    tally("queue", "create", "orders")
    message_id = tally("send", "orders", "hello").out.strip()
    message = tally.json("receive", "orders")[0]
    assert message["MessageId"] == message_id
    assert message["Body"] == "hello"
    tally("delete", "orders", message["ReceiptHandle"])
    counts = tally.json("queue", "show", "orders")[0]["Attributes"]
    assert counts["ApproximateNumberOfMessagesNotVisible"] == "0"
    assert "ReceiptHandleIsInvalid" in tally("delete", "orders", "garbage", status=1).err


def test_a_fifo_queue_is_known_by_its_name(tally):
    tally("queue", "create", "line.fifo", "--attribute", "Tally.OnGroupFailure=hold", "ContentBasedDeduplication=true")
    attributes = tally.json("queue", "show", "line.fifo")[0]["Attributes"]
    assert attributes["FifoQueue"] == "true"
    assert attributes["Tally.OnGroupFailure"] == "hold"
    assert attributes["ContentBasedDeduplication"] == "true"
    assert ".fifo" in tally("queue", "create", "line", "FifoQueue=true", status=1).err


def test_a_duplicate_prints_the_first_messages_id_and_says_so(tally):
    tally("queue", "create", "orders")
    words = ["send", "orders", "hello", "--deduplication-id", "order-17"]
    first, second = tally(*words), tally(*words)
    assert second.out == first.out and first.err == ""
    assert f"a duplicate of message {first.out.strip()}" in second.err
    assert tally.json(*words)[0]["Duplicate"] is True
    assert tally("receive", "orders", "--max", "10").out == "hello\n"


def test_content_based_deduplication_makes_the_id_of_the_body(tally):
    tally("queue", "create", "orders")
    words = ["--content-based-deduplication"]
    first = tally("send", "orders", "hello", *words)
    again = tally("send", "orders", "hello", "--deduplication-id", hashlib.sha256(b"hello").hexdigest())
    assert again.out == first.out and "a duplicate" in again.err
    lines = "".join(f"{n}\n" for n in range(15)) + "hello\n"
    ids = tally("send", "orders", "-", "--lines", *words, stdin=lines).out.split()
    assert len(set(ids)) == 16 and ids[15] == first.out.strip()
    assert tally("send", "orders", "-", "--lines", *words, stdin=lines).out.split() == ids
    assert tally.json("queue", "show", "orders")[0]["Attributes"]["ApproximateNumberOfMessages"] == "16"


def test_lines_of_a_numbered_producer_may_be_sent_again(tally):
    tally("queue", "create", "numbers")
    words = ["send", "numbers", "-", "--lines", "--producer", "seq", "--sequence", "100"]
    first = tally(*words, stdin="".join(f"{n}\n" for n in range(25)))
    again = tally(*words, stdin="".join(f"{n}\n" for n in range(30)))  # it goes on where the first one ended
    assert again.out.split()[:25] == first.out.split() and len(set(again.out.split())) == 30
    assert again.err.count("a duplicate") == 25
    counts = tally.json("queue", "show", "numbers")[0]["Attributes"]
    assert counts["ApproximateNumberOfMessages"] == "30"


def test_a_number_that_its_producer_passed_over_is_said_to_be_just_that(tally):
    tally("queue", "create", "numbers")
    for number in ["1", "5"]:
        tally("send", "numbers", "x", "--producer", "seq", "--sequence", number)
    words = ["send", "numbers", "x", "--producer", "seq", "--sequence", "3"]
    assert tally(*words).err == (
        "tally: nothing was sent: producer seq has used 5 in this queue, and passed 3 over. "
        "A number must be above the last one\n"
    )
    assert tally.json(*words) == [{"MessageId": "", "Duplicate": True, "LastSequence": 5, "PassedOver": True}]
    assert "a duplicate of message" in tally(*words[:-1], "1").err


def test_send_hands_over_groups_priorities_types_and_dependencies(tally):
    tally("queue", "create", "reports")
    tally("batch", "create", "night")
    message_id = tally("send", "reports", "all", "--after", "batch:night", "--group", "g", "--type", "report",
                       "--priority", "7", "--after-failure", "run").out.strip()  # fmt: skip
    explained = tally("explain", "reports", message_id).out
    assert "blocked" in explained and "night" in explained
    assert tally("receive", "reports").out == ""
    tally("batch", "cancel", "night")
    message = tally.json("receive", "reports", "--wait", "5")[0]
    attributes = {name: value["StringValue"] for name, value in message["MessageAttributes"].items()}
    assert attributes["Tally.After"] == "batch:night" and attributes["Tally.AfterFailure"] == "run"
    assert attributes["Tally.Type"] == "report" and attributes["Tally.Priority"] == "7"
    assert message["Attributes"]["MessageGroupId"] == "g"
    assert "in-flight" in tally("explain", "reports", message_id).out
    assert "DependencyDoesNotExist" in tally("send", "reports", "x", "--after", "batch:nowhere", status=1).err


def test_queues_and_groups_pause_and_resume(tally):
    tally("queue", "create", "orders")
    message_id = tally("send", "orders", "one", "--group", "a").out.strip()
    tally("send", "orders", "two", "--group", "b")
    for words in [["queue", "pause", "orders"], ["group", "pause", "orders", "a"]]:
        assert tally(*words).out == tally(*words).out == ""
    assert tally("receive", "orders", "--max", "10").out == ""
    assert "paused" in tally("explain", "orders", message_id).out
    assert tally.json("queue", "resume", "orders") == [{}]
    assert tally("receive", "orders", "--max", "10").out == "two\n"
    assert "paused" in tally("explain", "orders", message_id).out
    tally("group", "resume", "orders", "a")
    assert tally("receive", "orders", "--max", "10").out == "one\n"
    assert "QueueDoesNotExist" in tally("queue", "pause", "nowhere", status=1).err


def test_a_held_group_is_listed_with_its_reason_and_released(tally):
    tally("queue", "create", "line.fifo", "Tally.OnGroupFailure=hold")
    ids = [
        tally("send", "line.fifo", body, "--group", "post-17", "--deduplication-id", body).out.strip()
        for body in ["one", "two", "three"]
    ]
    handle = tally.json("receive", "line.fifo")[0]["ReceiptHandle"]
    failure = {"QueueUrl": "line.fifo", "ReceiptHandle": handle, "Reason": "no such page\u009b2J\r\n!", "Final": True}
    tally("call", "Tally.FailMessage", json.dumps(failure))
    line = tally("group", "list", "line.fifo", "--state", "held").out
    for shown in [line, tally("explain", "line.fifo", ids[0]).out, tally("peek", ids[0]).out]:
        assert "no such page 2J  !" in shown and not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown)
    assert line.split()[:2] == ["held", "3"] and "post-17" in line and "no such page" in line
    assert tally("group", "list", "line.fifo", "--group", "post-1").out == ""
    group = tally.json("group", "list", "line.fifo", "--group", "post-17")[0]
    assert (group["State"], group["MessageGroupId"], group["HeadMessageId"]) == ("held", "post-17", ids[0])
    explained = tally("explain", "line.fifo", ids[1]).out
    assert "held" in explained and "no such page" in explained and ids[0] in explained
    tally("group", "release", "line.fifo", "post-17", "--retry")
    assert "GroupNotHeld" in tally("group", "release", "line.fifo", "post-17", "--retry", status=1).err
    assert tally("group", "list", "line.fifo", "--state", "held").out == ""
    assert tally("receive", "line.fifo", "--delete").out == "one\n"
    assert tally("receive", "line.fifo").out == "two\n"


def test_explain_follows_a_message_to_its_end(tally):
    tally("queue", "create", "orders")
    message_id = tally("send", "orders", "hello", "--delay", "1").out.strip()
    assert tally("explain", "orders", message_id).out.startswith("state       delayed\nwhy         ")
    assert tally("receive", "orders", "--wait", "5", "--delete").out == "hello\n"
    assert tally("explain", "orders", message_id).out.startswith("state       ended\n")
    assert tally.json("explain", "orders", "nonsense")[0]["State"] == "unknown"


def test_messages_and_peek_show_what_is_there_and_receive_nothing(tally):
    tally("queue", "create", "orders", "--dead-letter", "dead", "--max-attempts", "1")
    ids = [tally("send", "orders", f"one\ntwo {n}").out.strip() for n in range(3)]
    late = tally("send", "orders", "late", "--delay", "900").out.strip()
    lines = tally("messages", "orders").out.splitlines()
    assert [line.split()[0] for line in lines] == ["ready"] * 3 + ["delayed"]
    assert [line.split()[3] for line in lines] == [*ids, late]
    assert "It is delayed until" in lines[3]
    assert "  one two 0\n" in tally("messages", "orders", "--body", "preview").out
    some = tally("messages", "orders", "--limit", "2", "--json")
    assert [json.loads(line)["MessageId"] for line in some.out.splitlines()] == ids[:2]
    assert "these are the first 2, and there may be more; --limit 0 lists all" in some.err
    assert tally("messages", "orders", "--limit", "4").err == ""
    assert tally("messages", "orders", "--state", "delayed").out.split()[3] == late
    assert "It must be ready, delayed" in tally("messages", "orders", "--state", "free", status=1).err
    shown = tally("peek", ids[1]).out
    assert "state       ready\n" in shown and "body        one\ntwo 1\n" in shown
    assert tally.json("peek", ids[1])[0]["ReceiveCount"] == 0
    tally("receive", "orders", "--visibility", "0")
    assert tally("receive", "orders").out == "one\ntwo 1\n"  # which gives the first one up
    assert tally("messages", "dead").out.split()[3] == ids[0]
    assert "came from   orders\n" in tally("peek", ids[0]).out
    assert tally("peek", "nonsense").out == "state       unknown\n"


def test_find_finds_a_message_by_the_ids_of_its_sender(tally):
    tally("queue", "create", "orders", "--dead-letter", "dead", "--max-attempts", "1")
    sent = tally("send", "orders", "one", "--deduplication-id", "order-17").out.strip()
    outbox = tally("send", "orders", "two", "--attribute", "Tally.OutboxId=row-17").out.strip()
    numbered = tally("send", "orders", "three", "--producer", "shop", "--sequence", "17").out.strip()
    assert sent in tally("find", sent).out
    found = tally("find", "--queue", "orders", "--dedup", "order-17").out
    assert found.startswith("orders  ready ") and sent in found
    ages = re.compile(r"\d+ s")
    assert ages.sub("", tally("find", "--dedup", "order-17").out) == ages.sub("", found)
    assert tally.json("find", "--outbox", "row-17")[0]["MessageId"] == outbox
    assert tally.json("find", "--queue", "orders", "--producer", "shop", "--sequence", "17")[0]["MessageId"] == numbered
    nothing = tally("find", "--queue", "orders", "--dedup", "order-18")
    assert nothing.out == "" and "no message has that id" in nothing.err
    ended = tally.json("receive", "orders", "--delete")[0]["MessageId"]
    assert re.match(f"ended +-  {ended}", tally("find", ended).out)
    for arguments in [[], [sent, "--outbox", "x"], ["--text", "x", "--outbox", "x"],
                      ["--producer", "p", "--queue", "orders"], ["--producer", "p", "--sequence", "1"]]:
        tally("find", *arguments, status=2)


def test_find_finds_messages_by_a_text_in_them(tally):
    tally("queue", "create", "orders")
    tally("queue", "create", "mails")
    order = tally("send", "orders", '{"order": 17}').out.strip()
    mail = tally("send", "mails", "Hello", "--attribute", 'about={"order": 17}').out.strip()
    tally("send", "mails", '{"order": 18}')
    assert {one["MessageId"] for one in tally.json("find", "--text", '"order": 17')} == {order, mail}
    assert [one["MessageId"] for one in tally.json("find", "--text", '"order": 17', "--queue", "mails")] == [mail]
    assert {one["MessageId"] for one in tally.json("find", "--text", "order 17")} == {order, mail}
    nothing = tally("find", "--text", '"order 17"')
    assert nothing.out == "" and "no message has that text: all of its words in the body" in nothing.err


def test_find_goes_on_until_it_has_looked_everywhere(tally, http_proxy):
    pages = {None: {"Messages": [], "IsComplete": False, "NextToken": "1.1.1.1.1"},
             "1.1.1.1.1": {"Messages": [], "IsComplete": True, "IsPublished": True}}
    http_proxy.answer = lambda target, body: (200, json.dumps(pages[body.get("NextToken")]).encode())
    some = {None: {"Messages": [{"MessageId": "first"}], "IsComplete": False, "NextToken": "1.1.1.1.1"},
            "1.1.1.1.1": {"Messages": [{"MessageId": "second"}], "IsComplete": True}}
    assert "a publisher remembers the row" in tally("find", "--outbox", "x", "--endpoint", http_proxy.endpoint).err
    pages = some
    assert len(tally.json("find", "--text", "x", "--endpoint", http_proxy.endpoint)) == 2
    assert len(tally.json("find", "--outbox", "x", "--endpoint", http_proxy.endpoint)) == 1


def test_failures_says_why_messages_failed(tally):
    tally("queue", "create", "jobs", "--dead-letter", "dead", "--max-attempts", "1")
    assert tally("failures", "dead").out.splitlines() == [
        "   COUNT   NEWEST  ONE OF THEM                           REASON"]
    tally("send", "jobs", "-", "--lines", stdin="1\n2\n3\n")
    for reason in ["no luck", "no luck", "no\nmoney"]:
        handle = tally.json("receive", "jobs")[0]["ReceiptHandle"]
        tally("call", "Tally.FailMessage", json.dumps({"QueueUrl": "jobs", "ReceiptHandle": handle, "Reason": reason}))
    lines = tally("failures", "dead").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["2", "1"]
    assert lines[1].endswith("  no luck") and lines[2].endswith("  no money")
    answer = tally.json("failures", "dead")[0]
    assert answer["Failed"] == 3 and len(answer["Reasons"][0]["MessageIds"]) == 2


def test_send_takes_standard_input_byte_for_byte(tally):
    tally("queue", "create", "orders")
    body = "zwölf\tBoxkämpfer\r\n\n \U0001f980 \"quoted\" \\ end\n"
    tally("send", "orders", "-", stdin=body)
    assert tally.json("receive", "orders", "--delete")[0]["Body"] == body
    tally("send", "orders", "-", stdin="x" * 1048576)
    assert len(tally.json("receive", "orders", "--delete")[0]["Body"]) == 1048576
    assert "1048576" in tally("send", "orders", "-", stdin="x" * 1048577, status=1).err
    tally("send", "orders", "-", stdin=b"a\0b", status=5)
    assert "UTF-8" in tally("send", "orders", "-", stdin=b"a\xffb", status=2).err


def test_send_lines_makes_each_line_a_message_in_order(tally):
    tally("queue", "create", "numbers")
    sent = tally("send", "numbers", "-", "--lines", stdin="".join(f"{n}\n\n" for n in range(25))).out.split()
    assert len(set(sent)) == 25
    received = []
    while True:
        bodies = tally("receive", "numbers", "--max", "10", "--delete").out.split()
        if not bodies:
            break
        received += bodies
    assert received == [str(n) for n in range(25)]


def test_send_lines_splits_what_is_too_long_for_one_request(tally):
    tally("queue", "create", "long")
    lines = [letter * 400_000 for letter in "abcdef"]
    assert len(tally("send", "long", "-", "--lines", stdin="\n".join(lines)).out.split()) == 6
    received = [tally("receive", "long", "--delete").out.strip() for _ in lines]
    assert sorted(received) == lines


def test_send_with_attributes_and_delay(tally):
    tally("queue", "create", "orders")
    tally(
        "send", "orders", "x", "--delay=1", "--attribute", "link=http://a:80/b", "--attribute", "n=3:Number",
        "--attribute", "raw=AQID:Binary", "--attribute", "odd=x:String",
    )  # fmt: skip
    assert tally.json("receive", "orders") == []
    message = tally.json("receive", "orders", "--wait", "10", "--max", "10")[0]
    assert message["MessageAttributes"].pop("Tally.FencingToken")
    assert message["MessageAttributes"] == {
        "link": {"DataType": "String", "StringValue": "http://a:80/b"},
        "n": {"DataType": "Number", "StringValue": "3"},
        "raw": {"DataType": "Binary", "BinaryValue": "AQID"},
        "odd": {"DataType": "String", "StringValue": "x"},
    }


def test_receive_hides_for_the_visibility_asked(tally):
    tally("queue", "create", "orders")
    tally("send", "orders", "x")
    assert tally("receive", "orders", "--visibility", "1").out == "x\n"
    assert tally("receive", "orders").out == ""
    assert tally("receive", "orders", "--wait", "10").out == "x\n"


def test_receive_deletes_nothing_that_it_could_not_print(tally):
    tally("queue", "create", "orders")
    tally("send", "orders", "x")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            tally.command("receive", "orders", "--delete", "--visibility", "0"),
            stdout=full, stderr=subprocess.PIPE, env=tally.environment,
        )  # fmt: skip
    assert done.returncode == 5
    assert tally("receive", "orders").out == "x\n"


def test_receive_deletes_nothing_where_standard_output_is_closed(tally):
    """A socket of ours that took its place would take the message without a word."""
    tally("queue", "create", "orders")
    tally("send", "orders", "x")
    command = tally.command("receive", "orders", "--delete", "--visibility", "0")
    done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&-', "sh", *command], env=tally.environment)
    assert done.returncode == 5
    assert tally("receive", "orders").out == "x\n"


# --- Batches ---------------------------------------------------------------------------------------------------------


def test_a_batch_of_external_units_from_create_to_completion(tally):
    tally("queue", "create", "results")
    assert tally("batch", "create", "night", "--on-complete", "results").out == "night\n"
    assert tally("batch", "create", "night", "--on-complete", "results").out == "night\n"
    assert "BatchAlreadyExists" in tally("batch", "create", "night", status=1).err
    assert tally("batch", "add", "night", "a", "b").out == "added 2, total 2\n"
    assert tally("batch", "add", "night", "-", stdin="b\nc\n").out == "added 1, total 3\n"
    assert tally("batch", "seal", "night").out == "remaining 3\n"
    assert "BatchSealed" in tally("batch", "add", "night", "d", status=1).err
    assert tally("batch", "complete", "night", "a").out == "recorded 1, remaining 2\n"
    assert "a had ended before" in tally("batch", "complete", "night", "a").out
    assert "UnitDoesNotExist" in tally("batch", "complete", "night", "nope", status=1).err
    tally("batch", "complete", "night", "b", "--failed", "--detail", "printer on fire")
    assert tally("batch", "units", "night", "--state", "outstanding").out.split() == ["outstanding", "c"]
    assert tally.json("batch", "units", "night", "--state", "failed") == [
        {"Unit": "b", "State": "failed", "Detail": "printer on fire"}
    ]
    answer = tally.json("batch", "complete", "night", "c")[0]
    assert answer == {"Results": [{"Unit": "c", "Recorded": True}], "Remaining": 0, "Completed": True}
    shown = tally.json("batch", "show", "night")[0]
    assert (shown["State"], shown["Status"], shown["Total"], shown["Failed"]) == ("completed", "failed", 3, 1)
    assert "status      failed" in tally("batch", "show", "night").out
    (line,) = tally("batch", "list", "--state", "completed", "--prefix", "ni").out.splitlines()
    assert line.split(maxsplit=3) == ["night", "completed", "failed", "3 of 3 ended, 1 failed"]
    message = tally.json("receive", "results", "--delete")[0]
    assert message["MessageId"] == shown["CompletionMessageId"]
    assert json.loads(message["Body"])["status"] == "failed"
    assert tally("receive", "results").out == ""
    tally("batch", "delete", "night")
    assert "BatchDoesNotExist" in tally("batch", "show", "night", status=1).err


def test_a_schedule_is_put_shown_paused_listed_and_deleted(tally):
    tally("queue", "create", "jobs")
    out = tally(
        *["schedule", "put", "nightly", "30 2 * * *", "jobs", "clean up"],
        *["--time-zone", "Europe/Berlin", "--catch-up", "none", "--attribute", "size=3:Number"],
    ).out
    assert re.fullmatch(r"next +20\d\d-\d\d-\d\d 0[01]:30:00 UTC\n", out)
    shown = tally.json("schedule", "show", "nightly")[0]
    assert (shown["Cron"], shown["TimeZone"], shown["CatchUp"]) == ("30 2 * * *", "Europe/Berlin", "none")
    assert shown["MessageAttributes"]["size"] == {"DataType": "Number", "StringValue": "3"}
    assert shown["MessageAttributes"]["Tally.Schedule"]["StringValue"] == "nightly"
    assert "body        clean up" in tally("schedule", "show", "nightly").out
    assert "QueueInUse" in tally("queue", "delete", "jobs", status=1).err
    tally("schedule", "put", "never", "0 0 30 2 *", "jobs", "x")
    tally("schedule", "pause", "nightly")
    lines = tally("schedule", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["never", "paused"]
    assert "nightly 30 2 * * * Europe/Berlin" in lines[1]
    assert tally("schedule", "resume", "nightly").out == out
    error = tally("schedule", "put", "bad", "61 * * * *", "jobs", "x", status=1).err
    assert "The minute field: '61' is not from 0 to 59." in error
    tally("schedule", "delete", "nightly")
    assert "ScheduleDoesNotExist" in tally("schedule", "show", "nightly", status=1).err


def test_a_schedule_fires_now_also_while_it_is_paused(tally):
    tally("queue", "create", "jobs")
    tally("schedule", "put", "nightly", "30 2 * * *", "jobs", "clean up")
    tally("schedule", "pause", "nightly")
    sent = tally("schedule", "fire", "nightly").out.strip()
    (fired,) = tally.json("receive", "jobs", "--delete")
    assert (fired["MessageId"], fired["Body"]) == (sent, "clean up")
    assert fired["MessageAttributes"]["Tally.Schedule"]["StringValue"] == "nightly"
    assert "paused" in tally("schedule", "show", "nightly").out
    tally("queue", "create", "line.fifo")
    tally("schedule", "put", "orderly", "@daily", "line.fifo", "x", "--group", "g")
    sent = [tally("schedule", "fire", "orderly").out.strip() for _ in range(2)]  # none is taken for the other
    lined = tally.json("receive", "line.fifo", "--max", "2", "--delete")
    assert [message["MessageId"] for message in lined] == sent
    assert [message["Attributes"]["MessageDeduplicationId"] for message in lined] == sent
    assert "There is no schedule 'weekly'" in tally("schedule", "fire", "weekly", status=1).err


def body_of(tally, message):
    return tally.json("peek", message)[0]["Body"]


def test_a_message_is_replaced_by_a_body_from_anywhere(tally, tmp_path):
    tally("queue", "create", "orders")
    message = tally("send", "orders", "one", "--attribute", "size=1:Number").out.strip()
    for body, words, stdin in (("two", ["two"], ""), ("three\n", ["-"], "three\n"),
                               ("four", ["--file", tmp_path / "four"], "")):
        (tmp_path / "four").write_text("four")
        message = tally("replace", "orders", message, *words, stdin=stdin).out.strip()
        assert body_of(tally, message) == body
    copy = tally.json("replace", "orders", message, "--attribute", "colour=blue")[0]["MessageId"]
    shown = tally.json("peek", copy)[0]
    assert (shown["Body"], list(shown["MessageAttributes"])) == ("four", ["colour"])
    error = tally("replace", "orders", message, "again", status=1).err
    assert "InvalidParameterValue" in error and "no such message" in error
    for words in (["x", "--file", tmp_path / "four"], ["x", "--attribute", "nothing"]):
        tally("replace", "orders", copy, *words, status=2)
    tally("replace", "orders", copy, "--file", tmp_path / "none", status=5)
    assert body_of(tally, copy) == "four"


def test_a_message_is_replaced_in_an_editor(tally, tmp_path):
    """Which may be any command of a shell. What was written is there after a refusal."""
    drafts = tmp_path / "drafts"
    drafts.mkdir()

    def by(editor, status=0):
        tally.environment.update(EDITOR=editor, TMPDIR=str(drafts))
        return tally("replace", "orders", message, status=status)

    tally("queue", "create", "orders")
    message = tally("send", "orders", "a 'body'").out.strip()
    assert "nothing was replaced" in by("true").err and "nothing was replaced" in by("echo >>").err
    message = by("sed -i s/body/text/").out.strip()
    assert body_of(tally, message) == "a 'text'"
    message = by("echo more >>").out.strip()
    assert body_of(tally, message) == "a 'text'more", "the editor's line end is none of the body's"
    assert "editor failed" in by("false", 5).err
    assert list(drafts.iterdir()) == []
    refused = by("truncate -s 0", 1).err
    assert "MessageBody is empty" in refused
    (kept,) = drafts.iterdir()
    assert f"what you wrote is in {kept}" in refused and kept.stat().st_mode & 0o777 == 0o600
    assert "no terminal for an editor" in by("", 2).err
    tally("receive", "orders", "--delete")
    assert f"no message {message} to edit: its state is " in by("true", 1).err


def test_dependents_are_what_waits_for_a_message_or_a_batch(tally):
    tally("queue", "create", "orders")
    tally("batch", "create", "night")
    tally("batch", "add", "night", "unit")
    first = tally("send", "orders", "one").out.strip()
    second = tally("send", "orders", "two", "--after", f"message:{first}").out.strip()
    third = tally("send", "orders", "three", "--after", "batch:night").out.strip()
    assert tally("dependents", first).out == f"blocked    {second}  orders\n"
    assert tally("dependents", "--batch", "night").out == f"blocked    {third}  orders\n"
    assert tally.json("dependents", second) == []
    for words in ([], [first, "--batch", "night"]):
        assert "either a MessageId or --batch" in tally("dependents", *words, status=2).err
    assert "BatchDoesNotExist" in tally("dependents", "--batch", "none", status=1).err


def test_events_say_what_was_done_and_go_on(tally):
    tally("queue", "create", "orders")
    tally("queue", "pause", "orders")
    assert re.search(r"^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d  audit   PauseQueue orders: OK  \(127.0.0.1\)$",
                     tally("events").out, re.M)
    assert [event["Action"] for event in tally.json("events", "--limit", "1")] == ["PauseQueue"]
    follows = tally.start("events", "--limit", "1", "--follow", "--json")
    assert json.loads(follows.stdout.readline())["Action"] == "PauseQueue"
    tally("queue", "resume", "orders")
    assert json.loads(follows.stdout.readline())["Action"] == "ResumeQueue"
    follows.terminate()
    follows.communicate()


def test_a_batch_of_messages_completes_when_they_are_deleted(tally):
    tally("queue", "create", "work")
    tally("queue", "create", "results")
    batch = tally("batch", "create", "--on-success", "results", "--body", "all done", "--total", "3").out.strip()
    tally("send", "work", "-", "--lines", "--batch", batch, stdin="1\n2\n3\n")
    assert tally.json("batch", "show", batch)[0]["State"] == "sealed"
    assert len(tally("receive", "work", "--max", "10", "--delete").out.split()) == 3
    assert tally("receive", "results", "--delete").out == "all done\n"
    assert tally.json("batch", "show", batch)[0]["Status"] == "succeeded"


def test_many_units_by_count_are_listed_in_pages(tally):
    tally("batch", "create", "many")
    assert tally("batch", "add", "many", "--count", "2500").out == "added 2500, total 2500\n"
    keys = [unit["Unit"] for unit in tally.json("batch", "units", "many")]
    assert sorted(keys, key=int) == [str(n) for n in range(2500)]
    done = tally("batch", "complete", "many", "-", stdin="\n".join(keys[:2400]))
    assert done.out == "recorded 2400, remaining 100\n"


def test_batch_cancel(tally):
    tally("batch", "create", "night")
    tally("batch", "add", "night", "a", "b")
    tally("batch", "complete", "night", "a")
    assert "BatchNotCompleted" in tally("batch", "delete", "night", status=1).err
    tally("batch", "cancel", "night")
    shown = tally.json("batch", "show", "night")[0]
    assert (shown["Status"], shown["Succeeded"], shown["Cancelled"]) == ("cancelled", 1, 1)


# --- Call ------------------------------------------------------------------------------------------------------------


def test_call_reaches_any_action(tally):
    assert "QueueUrl" in tally("call", "CreateQueue", '{"QueueName": "orders"}').out
    sent = json.loads(
        tally("call", "AmazonSQS.SendMessage", "-", stdin='{"QueueUrl": "orders", "MessageBody": "x"}').out)
    assert sent["MD5OfMessageBody"] == hashlib.md5(b"x").hexdigest()
    for name in ("Tally.DescribeBatch", "DescribeBatch"):
        assert "BatchDoesNotExist" in tally("call", name, '{"BatchId": "nope"}', status=1).err
    assert "no action 'Tally.DescribeNothing'" in tally("call", "DescribeNothing", status=1).err
    assert "no action 'AmazonSQS.DescribeBatch'" in tally("call", "AmazonSQS.DescribeBatch", status=1).err
    assert tally("call", "PurgeQueue", '{"QueueUrl": "orders"}').out == "{}\n"


# --- The library under it: signatures, lost answers ------------------------------------------------------------------


class Recorder(http.server.BaseHTTPRequestHandler):
    """Answers everything with {} and keeps the requests."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.headers, body))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


@pytest.fixture
def recorder():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    server.requests = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


class Matchable(Recorder):
    """A pool of any name, as far as `tally match` asks."""

    answers = {
        "Tally.DescribePool": {"Rules": [], "Attributes": {"x": "num"}, "Size": 2, "Matcher": "external"},
        "Tally.FeedTickets": {"Events": [], "Next": 1},
    }

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.headers, body))
        answer = json.dumps(self.answers.get(self.headers["X-Amz-Target"], {})).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


def test_the_name_of_a_pool_is_no_part_of_the_json_around_it(recorder):
    recorder.RequestHandlerClass = Matchable
    name = 'a","From":7,"x":"' + "b" * 500
    tool = Tally(f"http://127.0.0.1:{recorder.server_port}")
    tool("match", "--pool", name, "--part", "1/2", "--once")
    asked = [json.loads(body) for headers, body in recorder.requests if headers["X-Amz-Target"] == "Tally.FeedTickets"]
    assert asked and all(request["PoolName"] == name and request["From"] != 7 for request in asked)
    assert all((request["Part"], request["Parts"]) == (0, 2) for request in asked)
    assert "UTF-8" in tool("match", "--pool", b"\xff", "--once", status=2).err


def test_requests_are_signed_when_keys_are_given(recorder):
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    port = recorder.server_address[1]
    tool = Tally(f"http://127.0.0.1:{port}")
    tool("call", "ListQueues", "{}")
    assert recorder.requests[0][0]["Authorization"] is None

    tool.environment.update(AWS_ACCESS_KEY_ID="AKIDEXAMPLE", AWS_SECRET_ACCESS_KEY="wJalr/secret+",
                            AWS_REGION="eu-west-1")
    tool("call", "ListQueues", '{"MaxResults": 3}')
    headers, body = recorder.requests[1]
    scope, signed, signature = re.findall(r"=([^,\s]+)", headers["Authorization"])
    assert scope.split("/")[0] == "AKIDEXAMPLE"
    assert scope.split("/")[2:] == ["eu-west-1", "sqs", "aws4_request"]
    assert {"host", "x-amz-date", "x-amz-target"} <= set(signed.split(";"))

    # The same signature as botocore computes over the same headers.
    request = AWSRequest("POST", f"http://127.0.0.1:{port}/", data=body)
    request.context["timestamp"] = headers["X-Amz-Date"]
    for name in signed.split(";"):
        request.headers[name] = headers[name]
    signer = SigV4Auth(Credentials("AKIDEXAMPLE", "wJalr/secret+"), "sqs", "eu-west-1")
    expected = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    assert signature == expected


def test_one_key_alone_is_refused(offline):
    offline.environment["AWS_ACCESS_KEY_ID"] = "AKIDEXAMPLE"
    assert "AWS_SECRET_ACCESS_KEY" in offline("queue", "list", status=2).err


class Dropper:
    """A server that answers the first `good` requests on a connection with `answer`, then closes it without an
    answer."""

    def __init__(self, good, answer):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.good = good
        self.answer = answer.encode()
        self.count = 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.serve_one, args=[connection], daemon=True).start()

    def serve_one(self, connection):
        with connection, connection.makefile("rb") as lines:
            for number in range(self.good + 1):
                length = 0
                while (line := lines.readline()) not in (b"\r\n", b""):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                if not line:
                    return
                lines.read(length)
                self.count += 1
                if number < self.good:
                    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(self.answer)}\r\n\r\n"
                    connection.sendall(head.encode() + self.answer)


@pytest.mark.parametrize("good", [0, 1])
def test_a_send_whose_answer_is_lost_is_not_sent_twice(good):
    """On a fresh connection and on one that was used before, which HTTP clients like to try again by themselves."""
    sent = {"Successful": [{"Id": str(n), "MessageId": "m"} for n in range(10)]}
    server = Dropper(good, json.dumps(sent))
    done = Tally(server.endpoint)("send", "q", "-", "--lines", stdin="x\n" * 20, status=3)
    assert "may have been carried out" in done.err
    assert f"messages {10 * good + 1} to {10 * good + 10} may be in the queue or not" in done.err
    assert server.count == good + 1


@pytest.mark.parametrize(
    "words",
    [
        ["x", "--deduplication-id", "a"],
        ["x", "--content-based-deduplication"],
        ["-", "--lines", "--content-based-deduplication"],
        ["x", "--producer", "p", "--sequence", "1"],
        ["-", "--lines", "--producer", "p", "--sequence", "1"],
    ],
)
def test_a_send_that_the_server_recognises_is_asked_for_again_when_its_answer_is_lost(words):
    server = Dropper(0, "")
    done = Tally(server.endpoint)("send", "q", *words, stdin="x\ny\n", status=3)
    assert "may have been carried out" in done.err
    assert server.count > 1


def test_what_may_be_repeated_is_repeated_when_its_answer_is_lost():
    server = Dropper(0, "")
    Tally(server.endpoint)("queue", "list", status=3)
    assert server.count > 1


def test_a_server_that_is_none_is_told_from_a_queue_server(recorder):
    done = Tally(f"http://127.0.0.1:{recorder.server_address[1]}")("send", "q", "x", status=3)
    assert "lacks" in done.err


def test_a_queue_server_may_give_its_answers_no_id(recorder):
    """ElasticMQ is one."""
    assert Tally(f"http://127.0.0.1:{recorder.server_address[1]}")("receive", "q").out == ""


@pytest.mark.parametrize("answer, said", [
    ("", "no text"), ("\n", "no text"), ("[]", "[]"), ('{"a": 1}', '{"a": 1}'),
    ("<p>\n\n\x1b]0;x\x07\n", "<p> ]0;x"), ("ä" * 90, "ä" * 60),
])
def test_an_answer_of_something_else_is_told_in_one_line(answer, said):
    server = Dropper(1, answer)
    done = Tally(server.endpoint)("receive", "q", status=3)
    assert done.err == (f"tally: {server.endpoint} answered AmazonSQS.ReceiveMessage with HTTP 200, and not as a "
                        f"queue server does: {said}\n")


def test_the_tool_is_where_the_build_puts_it():
    assert (BIN / "tally").exists()
