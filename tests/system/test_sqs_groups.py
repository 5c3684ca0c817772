"""Groups and duplicates of FIFO queues over the wire, in both forms (reference: SQS, 6.2, 6.4 and Q39 to Q45).

The rest of FIFO queues: test_fifo.py."""

import concurrent.futures
import hashlib
import json
import time

import pytest
from conftest import BIN, wait_until
from sqs import Sqs, arn, invalid, is_duplicate
from test_fifo import ID_RULE, NOT_RETRYABLE
from test_sqs_messages import Waiter

IPV = "InvalidParameterValue"
QUEUE = "q.fifo"
# Under a sanitizer, which is slower, one form is enough.
FORMS = ["json"] if {"asan", "tsan"} & set(BIN.parts) else ["json", "query"]


@pytest.fixture(params=FORMS)
def sqs(daemon, request):
    client = Sqs(daemon.port, request.param)
    client.make(QUEUE, VisibilityTimeout="60")
    yield client
    client.close()


def send(sqs, *bodies):
    """Each to the group that its first letter names."""
    for body in bodies:
        sqs.send(QUEUE, body, body[0])


def send_plain(sqs, queue, body, group):
    """Without a deduplication id, so that the queue makes one of the body."""
    return sqs.call("SendMessage", QueueUrl=queue, MessageBody=body, MessageGroupId=group)


def restart(sqs, daemon):
    daemon.kill9()
    daemon.start()
    sqs.close()


def test_Q39_one_receive_takes_whole_runs(sqs):
    send(sqs, "a1", "b1", "a2", "c1", "b2", "a3")
    got = sqs.bodies(QUEUE)
    assert sorted(got) == ["a1", "a2", "a3", "b1", "b2", "c1"]
    assert [body for body in got if body[0] == "a"] == ["a1", "a2", "a3"]
    groups = [body[0] for body in got]
    last = {group: len(groups) - 1 - groups[::-1].index(group) for group in groups}
    assert all(groups.index(group) + groups.count(group) - 1 == last[group] for group in groups), got
    sqs.make("two.fifo")
    for body in ["a1", "b1", "a2", "a3"]:
        sqs.send("two.fifo", body, body[0])
    assert sqs.bodies("two.fifo") == ["a1", "a2", "a3", "b1"]


def test_Q40_only_the_visible_run_from_the_head(sqs):
    send(sqs, "a1", "a2", "a3")
    first, second, third = sqs.receive(QUEUE)
    sqs.change(QUEUE, third, 0)
    assert sqs.bodies(QUEUE) == []  # its head is in flight
    sqs.change(QUEUE, first, 0)
    assert sqs.bodies(QUEUE, VisibilityTimeout=0) == ["a1"]  # the second ends the run
    sqs.change(QUEUE, second, 0)
    assert sqs.bodies(QUEUE, VisibilityTimeout=0) == ["a1", "a2", "a3"]


def test_Q40_the_next_comes_when_the_head_is_deleted(sqs):
    send(sqs, "a1", "a2", "a3")
    first, second, third = sqs.receive(QUEUE)
    sqs.change(QUEUE, second, 0)
    assert sqs.bodies(QUEUE) == []
    sqs.delete(QUEUE, first)
    (second,) = sqs.receive(QUEUE)
    assert second["Body"] == "a2"
    sqs.change(QUEUE, third, 0)
    assert sqs.bodies(QUEUE) == []
    sqs.change(QUEUE, second, 0)
    assert sqs.bodies(QUEUE) == ["a2", "a3"]


def test_Q41_the_end_of_the_head_is_heard(sqs, daemon):
    send(sqs, "a1")
    (head,) = sqs.receive(QUEUE)
    send(sqs, "a2")
    assert sqs.bodies(QUEUE) == []
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        waiters = [Waiter(daemon, sqs.form, pool, QUEUE, already) for already in range(4)]
        send(sqs, "a3")  # while they wait
        time.sleep(0.05)
        left = {waiter.done for waiter in waiters}
        assert not any(done.done() for done in left)

        def take():
            done, waiting = concurrent.futures.wait(left, 5, concurrent.futures.FIRST_COMPLETED)
            left.intersection_update(waiting)
            return [[message["Body"] for message in future.result()] for future in done]

        deleted_at = time.monotonic()
        sqs.delete(QUEUE, head)
        assert take() == [["a2", "a3"]]
        assert min(waiter.end for waiter in waiters if waiter.done.done()) - deleted_at < 2
        for body in ["b1", "c1"]:
            send(sqs, body)
            assert take() == [[body]]
        sqs.call("DeleteQueue", QueueUrl=QUEUE)  # ends the other wait


def test_Q42_a_group_that_was_emptied_or_lost_its_head_goes_on(sqs):
    sqs.make("dead.fifo")
    policy = json.dumps({"deadLetterTargetArn": arn("dead.fifo"), "maxReceiveCount": 1})
    sqs.call("SetQueueAttributes", QueueUrl=QUEUE, Attributes={"RedrivePolicy": policy, "VisibilityTimeout": "0"})
    send(sqs, "a1")
    sqs.delete(QUEUE, *sqs.receive(QUEUE, VisibilityTimeout=30))
    send(sqs, "a2")
    assert sqs.bodies(QUEUE) == ["a2"]
    send(sqs, "a3")
    assert sqs.bodies(QUEUE, VisibilityTimeout=30) == ["a3"]
    assert sqs.bodies("dead.fifo") == ["a2"]


def test_Q43_a_run_that_timed_out_comes_back_in_order(sqs):
    send(sqs, "a1", "a2", "a3", "b1", "b2")
    assert len(sqs.receive(QUEUE, VisibilityTimeout=1)) == 5
    wait_until(lambda: sqs.counts(QUEUE) == (5, 0, 0), what="the end of the leases")
    got = sqs.bodies(QUEUE)
    assert [body for body in got if body[0] == "a"] == ["a1", "a2", "a3"]
    assert [body for body in got if body[0] == "b"] == ["b1", "b2"]
    # The queue's own timeout, and a receive that waits for its end.
    sqs.make("wait.fifo", VisibilityTimeout="1")
    for body in "01234":
        sqs.send("wait.fifo", body, "g")
    assert sqs.bodies("wait.fifo") == list("01234")
    assert sqs.bodies("wait.fifo", WaitTimeSeconds=10) == list("01234")


def test_Q44_a_duplicate_answers_as_the_first_did(sqs, daemon):
    sqs.make("content.fifo", ContentBasedDeduplication="true")
    first = send_plain(sqs, "content.fifo", "a", "g")
    assert first["SequenceNumber"].isdigit() and len(first["SequenceNumber"]) == 20 and "Duplicate" not in first
    digest = hashlib.sha256(b"a").hexdigest()
    assert is_duplicate(first, send_plain(sqs, "content.fifo", "a", "g"))
    assert is_duplicate(first, send_plain(sqs, "content.fifo", "a", "other"))
    assert is_duplicate(first, sqs.send("content.fifo", "x", "g", MessageDeduplicationId=digest))
    assert not is_duplicate(first, sqs.send("content.fifo", "a", "g", MessageDeduplicationId="explicit"))
    messages = sqs.receive("content.fifo", AttributeNames=["All"])
    shown = messages[0]["Attributes"]
    assert shown["MessageDeduplicationId"] == digest and shown["MessageGroupId"] == "g"
    assert shown["SequenceNumber"] == first["SequenceNumber"]
    sqs.delete("content.fifo", *messages)
    assert is_duplicate(first, send_plain(sqs, "content.fifo", "a", "g"))
    restart(sqs, daemon)
    assert is_duplicate(first, send_plain(sqs, "content.fifo", "a", "g"))
    entries = [{"Id": str(i), "MessageBody": body, "MessageGroupId": "g"} for i, body in enumerate("aab")]
    batch = sqs.call("SendMessageBatch", QueueUrl="content.fifo", Entries=entries)["Successful"]
    assert [is_duplicate(first, entry) for entry in batch] == [True, True, False]
    # A purge forgets the ids of a queue that never set its window.
    sqs.call("PurgeQueue", QueueUrl="content.fifo")
    again = send_plain(sqs, "content.fifo", "a", "g")
    assert not is_duplicate(first, again) and again["SequenceNumber"] > first["SequenceNumber"]


def test_Q44_scopes(sqs):
    sqs.make("scope.fifo", DeduplicationScope="messageGroup", FifoThroughputLimit="perMessageGroupId")
    sqs.make("scope-only.fifo", DeduplicationScope="messageGroup")
    for queue, other_is_new in [(QUEUE, False), ("scope.fifo", True), ("scope-only.fifo", True)]:
        first = sqs.send(queue, "a", "g", MessageDeduplicationId="id")
        assert len(first["SequenceNumber"]) == 20
        assert is_duplicate(first, sqs.send(queue, "b", "g", MessageDeduplicationId="id"))
        sqs.delete(queue, *sqs.receive(queue))
        assert is_duplicate(first, sqs.send(queue, "b", "g", MessageDeduplicationId="id"))
        other = sqs.send(queue, "c", "h", MessageDeduplicationId="id")
        assert is_duplicate(first, other) == (not other_is_new)
        assert (other["MessageId"] != first["MessageId"]) == other_is_new
        assert sqs.bodies(queue) == (["c"] if other_is_new else [])


def test_Q44_windows(sqs):
    for window, is_remembered in [("0", False), ("1", True), ("-1", True)]:
        for queue in [f"window{window}.fifo", f"window{window}"]:
            sqs.make(queue, **{"Tally.DeduplicationWindow": window})

            def again(queue=queue):
                return sqs.send(queue, "a", "g", MessageDeduplicationId="d")

            first = again()
            assert is_duplicate(first, again()) == is_remembered
            if window == "1":
                wait_until(lambda: not is_duplicate(first, again()), what="the end of the window")
    sqs.call("PurgeQueue", QueueUrl="window-1")
    assert sqs.send("window-1", "a", MessageDeduplicationId="d")["Duplicate"]


def test_Q45_a_receive_is_repeated_by_its_attempt_id(sqs, daemon):
    send(sqs, "a1", "a2", "a3")
    attempt = {"ReceiveRequestAttemptId": "one", "AttributeNames": ["ApproximateReceiveCount"]}
    taken = sqs.receive(QUEUE, 2, **attempt)
    assert [message["Body"] for message in taken] == ["a1", "a2"]
    assert sqs.receive(QUEUE, 2, **attempt) == taken
    assert sqs.receive(QUEUE, 2, ReceiveRequestAttemptId="two") == sqs.receive(QUEUE) == []
    restart(sqs, daemon)
    assert sqs.receive(QUEUE, 2, **attempt) == taken
    # A repeat goes before those that wait, and is not a delivery.
    again = sqs.receive(QUEUE, 2, ReceiveRequestAttemptId="one", WaitTimeSeconds=20, AttributeNames=["All"])
    assert [message["Attributes"]["ApproximateReceiveCount"] for message in again] == ["1", "1"]
    sqs.delete(QUEUE, taken[0])
    refused_attempt(sqs, "one", NOT_RETRYABLE)
    for bad in ["", "a b", "ä"]:
        refused_attempt(sqs, bad, f"ReceiveRequestAttemptId {ID_RULE}")
    # A standard queue takes no notice of it.
    sqs.make("q")
    sqs.send("q", "a")
    sqs.send("q", "b")
    assert [sqs.bodies("q", 1, ReceiveRequestAttemptId="a b") for _ in range(2)] == [["a"], ["b"]]


def refused_attempt(sqs, attempt, reason):
    told = invalid("ReceiveRequestAttemptId", attempt, reason)
    refusal = sqs.refused(IPV, told, "ReceiveMessage", QueueUrl=QUEUE, ReceiveRequestAttemptId=attempt)
    assert refusal.status == 400
    assert refusal.name in (None, "com.amazon.coral.service#InvalidParameterValueException")  # None: Query has no such
