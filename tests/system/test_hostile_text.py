"""Texts of others that speak to a terminal, turn the direction of what follows, or look like a line of their own: what
people read of them is harmless, in the log, in FeedEvents and in a terminal."""

import json
import re

import pytest
from conftest import wait_until
from test_cli_run import on_a_terminal

# CSI as one character (U+009B) and as two, a mark that turns the direction of text, and ends of lines.
HOSTILE = "a\u009b31mb\u202ec\u2028d\u0085e\u2066f"
HARMLESS = "a 31mb c d e f"
SPEAKING = HOSTILE + "\x1b[2J\rg"  # not in bodies, where SQS allows no ESC
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture
def told(daemon):
    """Someone has put the text wherever a text may be."""
    for queue in "q", "line.fifo":
        attributes = {"FifoQueue": "true", "Tally.OnGroupFailure": "hold"} if queue == "line.fifo" else {}
        daemon.call("AmazonSQS.CreateQueue", {"QueueName": queue, "Attributes": attributes})
        ids = {"MessageGroupId": "g", "MessageDeduplicationId": "1"} if queue == "line.fifo" else {}
        sent = daemon.call("AmazonSQS.SendMessage", {
            "QueueUrl": queue, "MessageBody": HOSTILE, **ids,
            "MessageAttributes": {"note": {"DataType": "String", "StringValue": HOSTILE}}})[1]
        taken = daemon.call("AmazonSQS.ReceiveMessage", {"QueueUrl": queue})[1]["Messages"][0]
        daemon.call("Tally.FailMessage", {
            "QueueUrl": queue, "ReceiptHandle": taken["ReceiptHandle"], "Reason": HOSTILE, "Final": queue != "q"})
        if queue == "q":
            daemon.message = sent["MessageId"]
    daemon.call("Tally.CreateBatch", {"BatchId": "b"})
    daemon.call("Tally.AddUnits", {"BatchId": "b", "Units": ["u"]})
    daemon.call("Tally.CompleteUnits", {"BatchId": "b", "Units": [
        {"Unit": "u", "Status": "failed", "Detail": HOSTILE}]})
    return daemon


def test_nothing_of_it_reaches_a_terminal(told, tally):
    for words in (["peek", told.message], ["messages", "q", "--body", "full"], ["failures", "q"],
                  ["messages", "line.fifo"], ["explain", "q", told.message], ["batch", "units", "b"],
                  ["group", "list", "line.fifo"]):
        shown = tally(*words).out
        assert HARMLESS in shown and not HARMFUL.search(shown), f"{words}: {shown!r}"
    refused = tally("batch", "show", SPEAKING, status=None)
    assert refused.returncode != 0 and not HARMFUL.search(refused.err), repr(refused.err)


def test_nor_of_a_document_that_is_looked_at_before_it_is_applied(daemon, tally):
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
    document = {"version": 1, "queues": [{"QueueName": HOSTILE}, {"QueueName": "q", "Attributes": {HOSTILE: "1"}}]}
    shown = tally("apply", "-", "--dry-run", stdin=json.dumps(document)).out
    assert shown.count(HARMLESS) == 2 and not HARMFUL.search(shown), repr(shown)


def test_what_programs_get_is_the_text_itself(told, tally):
    assert json.loads(tally("peek", told.message, "--json").out)["Body"] == HOSTILE
    assert tally("receive", "q", "--visibility", "0").out == HOSTILE + "\n"
    shown = on_a_terminal(tally, "receive", "q", "--visibility", "0")
    assert HARMLESS in shown and not HARMFUL.search(shown.replace("\r\n", "\n")), repr(shown)


def test_nothing_of_it_reaches_the_log_or_whoever_reads_events(daemon):
    for text in SPEAKING, "q\ntallyd: audit: 10.0.0.1: DeleteQueue q: OK":
        for action in ({"QueueName": text}, {"QueueName": "q", "Attributes": {text: "1"}},
                       {"QueueName": "q", "Attributes": {"DelaySeconds": text}}):
            assert daemon.call("AmazonSQS.CreateQueue", action)[0] == 400
    events = daemon.call("Tally.FeedEvents", {"After": 0})[1]["Events"]
    assert sum(event.get("Action") == "CreateQueue" for event in events) == 6
    assert not any(HARMFUL.search(str(value)) or "\n" in str(value) for event in events for value in event.values())
    lines = wait_until(lambda: len(daemon.all_error_text().splitlines()) >= 6 and daemon.all_error_text(), what="lines")
    assert all(line.startswith("tallyd: audit: 127.0.0.1: CreateQueue") for line in lines.splitlines())
    assert not HARMFUL.search(lines)
