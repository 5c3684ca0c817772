"""Receipt handles that are not the newest of their message: what Tally.StaleReceipts says, and who is told
(docs/reference/receipt-handles.md)."""

import time

import pytest
from conftest import wait_until
from test_fifo import NOT_AVAILABLE
from test_groups import Groups

REFUSE = {"Tally.StaleReceipts": "refuse"}


@pytest.fixture
def tally(daemon):
    client = Groups(daemon)
    yield client
    client.line.close()


def overtake(tally, queue, group=None, **attributes):
    """A message that somebody was too slow for and that somebody else has now: what was sent, and both."""
    tally.make(queue, **attributes)
    sent = tally.send(queue, "work", group)
    (old,) = tally.receive(queue, VisibilityTimeout=1)
    (new,) = tally.receive(queue, VisibilityTimeout=600, WaitTimeSeconds=10)
    assert new["MessageId"] == old["MessageId"] and new["ReceiptHandle"] != old["ReceiptHandle"]
    return sent, old, new


def count_stale(tally):
    text = tally.daemon.request("GET", "/metrics")[2].decode()
    (line,) = [line for line in text.splitlines() if line.startswith("tally_stale_receipts_total")]
    return int(line.split()[1])


def is_stale(answer):
    told = answer.json()
    assert answer.status in (400, 404) and told["__type"].endswith("#ReceiptHandleIsInvalid"), told
    assert "not the newest" in told["message"] and "Nothing was changed" in told["message"]
    return True


def test_work_that_takes_longer_than_its_visibility_timeout_ends(tally):
    """One message, 1.5 s of work, a visibility timeout of 1 s, several workers: the first that has finished ends it."""
    tally.make("q", VisibilityTimeout="1")
    sent = tally.send("q", "work")
    ends, runs, start = [], 0, time.time()
    while time.time() < start + 12 and (ends or runs == 0):
        for message in tally.receive("q", 1):
            runs += 1
            ends.append((time.time() + 1.5, message))
        while ends and ends[0][0] <= time.time():
            tally.delete("q", ends.pop(0)[1])
        time.sleep(0.02)
    assert runs == 2
    assert tally.attributes("q")["ApproximateNumberOfMessagesNotVisible"] == "0"
    assert count_stale(tally) == 1
    state, why = tally.explain("q", sent)
    slow = why["SlowWorkers"]
    assert state == "ended" and slow["Count"] == 1 and 0.3 < slow["Late"] < 1.4
    late = f"deleted {slow['Late']:.1f} s after its visibility timeout, 1 time in this queue"
    assert slow["Text"].startswith(f"Its workers are too slow: {late}")


def test_an_older_handle_takes_effect(tally):
    _, old, new = overtake(tally, "q")
    tally.change("q", old, 0)
    (newest,) = tally.receive("q", VisibilityTimeout=600)
    entries = [{"Id": "a", "ReceiptHandle": old["ReceiptHandle"], "VisibilityTimeout": 0}]
    assert tally.ok("ChangeMessageVisibilityBatch", QueueUrl="q", Entries=entries) == {"Successful": [{"Id": "a"}]}
    assert tally.attributes("q")["ApproximateNumberOfMessages"] == "1"
    tally.change("q", new, 600)  # it is visible, and any of its handles hides it again
    assert tally.receive("q") == []
    tally.delete("q", new, newest, old)
    assert tally.attributes("q")["ApproximateNumberOfMessagesNotVisible"] == "0"
    assert count_stale(tally) == 4
    gone = {"QueueUrl": "q", "ReceiptHandle": old["ReceiptHandle"], "VisibilityTimeout": 9}
    tally.refused("InvalidParameterValueException", None, "ChangeMessageVisibility", **gone)


@pytest.mark.parametrize("queue", ["q", "q.fifo"])
def test_an_older_handle_is_refused_by_name_and_changes_nothing(tally, queue):
    sent, old, new = overtake(tally, queue, "g", **REFUSE)
    handle = {"QueueUrl": queue, "ReceiptHandle": old["ReceiptHandle"]}
    for _ in range(12):
        assert is_stale(tally.call("DeleteMessage", **handle))
    assert is_stale(tally.call("ChangeMessageVisibility", **handle, VisibilityTimeout=0))
    assert is_stale(tally.call("Tally.FailMessage", **handle, Final=True))
    for action, more in [("DeleteMessageBatch", {}), ("ChangeMessageVisibilityBatch", {"VisibilityTimeout": 0})]:
        answer = tally.ok(action, QueueUrl=queue, Entries=[{"Id": "a", "ReceiptHandle": old["ReceiptHandle"], **more}])
        (failed,) = answer["Failed"]
        assert (failed["Id"], failed["Code"], failed["SenderFault"]) == ("a", "ReceiptHandleIsInvalid", True)
    tally.refused("ReceiptHandleIsInvalid", None, "Tally.Commit", Deletes=[handle])
    assert count_stale(tally) == 17
    assert tally.receive(queue) == []
    state, why = tally.explain(queue, sent)
    assert state == "in-flight" and why["SlowWorkers"]["Count"] == 14
    assert "Its workers are too slow: a delete came up to " in why["SlowWorkers"]["Text"]
    assert " s after its visibility timeout, 14 times in this queue" in why["SlowWorkers"]["Text"]
    tally.delete(queue, new)
    tally.delete(queue, old)  # it has ended
    assert count_stale(tally) == 17


def test_Commit_refuses_it_and_FailMessage_too_where_a_delete_takes_effect(tally):
    _, old, _ = overtake(tally, "q")
    handle = {"QueueUrl": "q", "ReceiptHandle": old["ReceiptHandle"]}
    tally.refused("ReceiptHandleIsInvalid", None, "Tally.Commit", Deletes=[handle])
    assert is_stale(tally.call("Tally.FailMessage", **handle))
    assert tally.receive("q") == []
    tally.delete("q", old)
    assert count_stale(tally) == 3


def test_a_heartbeat_that_comes_late_does_not_touch_a_back_off(tally):
    tally.make("q", **{"Tally.Backoff": '{"min": 600}'})
    tally.send("q", "work")
    (message,) = tally.receive("q")
    tally.fail("q", message)
    tally.fail("q", message)  # asked for once more: it was done
    handle = {"QueueUrl": "q", "ReceiptHandle": message["ReceiptHandle"]}
    for seconds in [0, 30]:
        answer = tally.call("ChangeMessageVisibility", **handle, VisibilityTimeout=seconds)
        assert answer.status == 400 and answer.json()["message"].endswith(NOT_AVAILABLE)
    assert is_stale(tally.call("Tally.FailMessage", **handle, Final=True))
    assert tally.attributes("q")["ApproximateNumberOfMessagesDelayed"] == "1"


def test_a_worker_that_is_late_and_not_overtaken_shows_too(tally):
    tally.make("q")
    sent = tally.send("q", "work")
    (message,) = tally.receive("q", VisibilityTimeout=1)
    assert "SlowWorkers" not in tally.explain("q", sent)[1]
    wait_until(lambda: tally.attributes("q")["ApproximateNumberOfMessages"] == "1", what="the end of the lease")
    tally.delete("q", message)
    assert count_stale(tally) == 0  # it is the newest handle
    assert tally.explain("q", sent)[1]["SlowWorkers"]["Count"] == 1


def test_a_Commit_that_comes_late_shows_like_a_delete_and_a_hold_does_not(tally):
    tally.make("q")
    sent = tally.send("q", "work")
    (message,) = tally.receive("q", VisibilityTimeout=1)
    handle = {"QueueUrl": "q", "ReceiptHandle": message["ReceiptHandle"]}
    wait_until(lambda: tally.attributes("q")["ApproximateNumberOfMessages"] == "1", what="the end of the lease")
    sends = [{"QueueUrl": "q", "MessageBody": "more"}]
    tally.refused("ReceiptHandleIsInvalid", None, "Tally.Commit", Holds=[handle], Sends=sends)
    assert "SlowWorkers" not in tally.explain("q", sent)[1]
    tally.ok("Tally.Commit", Deletes=[handle])
    assert tally.explain("q", sent)[1]["SlowWorkers"]["Count"] == 1
    assert count_stale(tally) == 0


def test_whoever_gives_back_and_then_deletes_is_not_slow(tally):
    tally.make("q")
    sent = tally.send("q", "work")
    (message,) = tally.receive("q")
    tally.change("q", message, 0)
    tally.delete("q", message)
    assert "SlowWorkers" not in tally.explain("q", sent)[1]


def test_the_attribute(tally):
    name = "Tally.StaleReceipts"
    shown = lambda queue, *names: tally.attributes(queue, *names).get(name)
    tally.make("q")
    assert (shown("q"), shown("q", name)) == (None, "accept")
    tally.ok("SetQueueAttributes", QueueUrl="q", Attributes=REFUSE)
    assert shown("q") == shown("q", name) == "refuse"
    tally.make("q", **REFUSE)
    tally.refused("QueueNameExists", None, "CreateQueue", QueueName="q", Attributes={name: "accept"})
    tally.daemon.kill9()
    tally.daemon.start()
    tally.line.close()
    assert shown("q") == "refuse"
    tally.ok("SetQueueAttributes", QueueUrl="q", Attributes={name: "accept"})
    assert (shown("q"), shown("q", name)) == (None, "accept")
    tally.make("q.fifo", **REFUSE)
    assert (shown("q.fifo"), shown("q.fifo", name)) == (None, "refuse")
    fifo = "A FIFO queue refuses receipt handles that are not the newest; must be refuse."
    for queue in ["q", "q.fifo"]:
        for wrong in ["", "Accept", "ignore", "accept"]:
            if (queue, wrong) == ("q", "accept"):
                continue
            rule = fifo if wrong == "accept" else "Must be accept or refuse."
            text = f"Invalid value for the parameter {name}. Reason: {rule}"
            more = {"QueueUrl": queue, "Attributes": {name: wrong}}
            tally.refused("InvalidAttributeValue", text, "SetQueueAttributes", **more)
