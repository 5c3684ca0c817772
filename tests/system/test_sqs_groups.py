"""Groups of FIFO queues over the wire, in both forms (reference: SQS, 6.2, 6.4 and Q39 to Q45; test_fifo.py has the rest)."""

import concurrent.futures
import hashlib
import time

import pytest
from conftest import wait_until
from sqs import Sqs, invalid
from test_sqs_messages import Waiter

IPV = "InvalidParameterValue"
QUEUE = "q.fifo"


@pytest.fixture(params=["json", "query"])
def sqs(daemon, request):
    client = Sqs(daemon.port, request.param)
    client.make(QUEUE, VisibilityTimeout="60")
    yield client
    client.close()


def send(sqs, *bodies):
    """Each to the group that its first letter names."""
    for body in bodies:
        sqs.send(QUEUE, body, body[0])


def test_Q39_one_receive_takes_whole_runs(sqs):
    send(sqs, "a1", "b1", "a2", "c1", "b2", "a3")
    got = sqs.bodies(QUEUE)
    assert sorted(got) == ["a1", "a2", "a3", "b1", "b2", "c1"]
    assert [body for body in got if body[0] == "a"] == ["a1", "a2", "a3"]
    groups = [body[0] for body in got]
    assert all(groups.index(group) + groups.count(group) - 1 == len(groups) - 1 - groups[::-1].index(group) for group in groups), got


def test_Q40_only_the_visible_run_from_the_head(sqs):
    send(sqs, "a1", "a2", "a3")
    first, second, third = sqs.receive(QUEUE)
    sqs.change(QUEUE, third, 0)
    assert sqs.bodies(QUEUE) == []  # its head is in flight
    sqs.change(QUEUE, first, 0)
    assert sqs.bodies(QUEUE, VisibilityTimeout=0) == ["a1"]  # the second ends the run
    sqs.change(QUEUE, second, 0)
    assert sqs.bodies(QUEUE, VisibilityTimeout=0) == ["a1", "a2", "a3"]


def test_Q41_the_end_of_the_head_is_heard(sqs, daemon):
    send(sqs, "a1")
    (head,) = sqs.receive(QUEUE)
    send(sqs, "a2", "a3")
    assert sqs.bodies(QUEUE) == []
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        waiters = [Waiter(daemon, sqs.form, pool, QUEUE, already) for already in range(3)]
        time.sleep(0.05)
        assert not any(waiter.done.done() for waiter in waiters)
        sqs.delete(QUEUE, head)
        done, _ = concurrent.futures.wait([waiter.done for waiter in waiters], 5, concurrent.futures.FIRST_COMPLETED)
        messages = [message for future in done for message in future.result()]
        assert [message["Body"] for message in messages] == ["a2", "a3"]
        sqs.call("DeleteQueue", QueueUrl=QUEUE)  # ends the other waits


def test_Q42_an_emptied_group_goes_on(sqs):
    send(sqs, "a1")
    sqs.delete(QUEUE, *sqs.receive(QUEUE))
    send(sqs, "a2")
    assert sqs.bodies(QUEUE) == ["a2"]


def test_Q43_a_run_that_timed_out_comes_back_in_order(sqs):
    send(sqs, "a1", "a2", "a3", "b1", "b2")
    assert len(sqs.receive(QUEUE, VisibilityTimeout=1)) == 5
    wait_until(lambda: sqs.counts(QUEUE) == (5, 0, 0), what="the end of the leases")
    got = sqs.bodies(QUEUE)
    assert [body for body in got if body[0] == "a"] == ["a1", "a2", "a3"]
    assert [body for body in got if body[0] == "b"] == ["b1", "b2"]


def test_Q44_duplicates(sqs):
    sqs.make("content.fifo", ContentBasedDeduplication="true")
    sqs.make("scope.fifo", DeduplicationScope="messageGroup", FifoThroughputLimit="perMessageGroupId")
    for queue, other_is_new in [(QUEUE, False), ("scope.fifo", True)]:
        first = sqs.send(queue, "a", "g", MessageDeduplicationId="id")
        assert len(first["SequenceNumber"]) == 20
        sqs.delete(queue, *sqs.receive(queue))
        again = sqs.send(queue, "b", "g", MessageDeduplicationId="id")
        assert (again["MessageId"], again["SequenceNumber"]) == (first["MessageId"], first["SequenceNumber"])
        other = sqs.send(queue, "c", "h", MessageDeduplicationId="id")
        assert (other["MessageId"] != first["MessageId"]) == other_is_new
        assert sqs.bodies(queue) == (["c"] if other_is_new else [])
    sent = sqs.call("SendMessage", QueueUrl="content.fifo", MessageBody="same", MessageGroupId="g")
    entries = [{"Id": f"e{i}", "MessageBody": body, "MessageGroupId": "g"} for i, body in enumerate(["same", "new"])]
    batch = sqs.call("SendMessageBatch", QueueUrl="content.fifo", Entries=entries)["Successful"]
    assert (batch[0]["MessageId"], batch[0]["SequenceNumber"]) == (sent["MessageId"], sent["SequenceNumber"])
    (first, _) = sqs.receive("content.fifo", AttributeNames=["All"])
    assert first["Attributes"]["MessageDeduplicationId"] == hashlib.sha256(b"same").hexdigest()
    assert first["Attributes"]["SequenceNumber"] == sent["SequenceNumber"] and first["Attributes"]["MessageGroupId"] == "g"


def test_Q45_a_receive_is_repeated_by_its_attempt_id(sqs):
    send(sqs, "a1", "a2")
    attempt = {"ReceiveRequestAttemptId": "attempt-1", "AttributeNames": ["ApproximateReceiveCount"]}
    taken = sqs.receive(QUEUE, **attempt)
    assert [message["Body"] for message in taken] == ["a1", "a2"]
    assert sqs.receive(QUEUE, **attempt) == taken
    assert sqs.receive(QUEUE, ReceiveRequestAttemptId="attempt-2") == sqs.receive(QUEUE) == []
    sqs.delete(QUEUE, taken[0])
    rule = invalid("ReceiveRequestAttemptId", "attempt-1", "The receiveRequestAttemptId is not valid anymore since the receive call is not retryable.")
    sqs.refused(IPV, rule, "ReceiveMessage", QueueUrl=QUEUE, **attempt)
