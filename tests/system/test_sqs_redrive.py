"""Dead letters over the wire, in both forms (reference: SQS, 6.6, Q46 to Q48 and Q50)."""

import json

import pytest
from conftest import wait_until
from sqs import Sqs, arn, string

IPV = "InvalidParameterValue"
NOT_FOUND = "ResourceNotFoundException"


@pytest.fixture(params=["json", "query"])
def sqs(daemon, request):
    client = Sqs(daemon.port, request.param)
    yield client
    client.close()


def redrive(queue, count):
    return json.dumps({"deadLetterTargetArn": arn(queue), "maxReceiveCount": count})


def make_pair(sqs, suffix="", count=1, **more):
    """A dead-letter queue, and a source of it."""
    dead, source = f"dead{suffix}", f"source{suffix}"
    sqs.make(dead, **more)
    sqs.make(source, RedrivePolicy=redrive(dead, count), VisibilityTimeout="0", **more)
    return dead, source


def spend(sqs, source, count):
    """Receives until the source gives nothing more."""
    for _ in range(count + 1):
        given = sqs.bodies(source, VisibilityTimeout=0)
    assert given == []


@pytest.mark.parametrize("suffix", ["", ".fifo"])
@pytest.mark.parametrize("count", [1, 3])
def test_Q46_the_receive_beyond_the_count_moves_the_message(sqs, suffix, count):
    dead, source = make_pair(sqs, suffix, count)
    attributes = {"color": string("blue")}
    sent = sqs.send(source, "poison", "g" if suffix else None, MessageAttributes=attributes,
                    MessageSystemAttributes={"AWSTraceHeader": string("Root=1-2-3")})
    for attempt in range(1, count + 1):
        client = sqs.other() if attempt % 2 else sqs  # any client's receive counts
        (message,) = client.receive(source, AttributeNames=["ApproximateReceiveCount", "DeadLetterQueueSourceArn"])
        assert message["Attributes"] == {"ApproximateReceiveCount": str(attempt)}
    assert sqs.bodies(source) == [] and sqs.counts(dead) == (1, 0, 0)
    (message,) = sqs.receive(dead, MessageAttributeNames=["color"], AttributeNames=["All"])
    assert message["MessageId"] == sent["MessageId"] and message["Body"] == "poison"
    assert message["MessageAttributes"] == attributes
    shown = message["Attributes"]
    assert shown["ApproximateReceiveCount"] == str(count + 1)
    assert shown["DeadLetterQueueSourceArn"] == arn(source) and shown["AWSTraceHeader"] == "Root=1-2-3"
    if suffix:
        assert shown["MessageGroupId"] == "g" and shown["MessageDeduplicationId"] == sent["MessageId"]
        assert shown["SequenceNumber"] > sent["SequenceNumber"]


def test_Q47_without_a_target_a_message_stays(sqs):
    dead, source = make_pair(sqs)
    sqs.send(source, "a")
    sqs.call("DeleteQueue", QueueUrl=dead)
    for attempt in range(1, 5):
        (message,) = sqs.receive(source, AttributeNames=["ApproximateReceiveCount"])
        assert message["Attributes"] == {"ApproximateReceiveCount": str(attempt)}
    sqs.make(dead)
    assert sqs.bodies(source) == [] and sqs.bodies(dead) == ["a"]


def test_Q48_what_was_deleted_from_the_dead_letter_queue_stays_away(sqs, daemon):
    dead, source = make_pair(sqs)
    for body in "ab":
        sqs.send(source, body)
    spend(sqs, source, 1)
    (first,) = sqs.receive(dead, 1)
    sqs.delete(dead, first)
    daemon.kill9()
    daemon.start()
    sqs.wire.line.close()
    assert sqs.counts(source) == (0, 0, 0)
    (left,) = wait_until(lambda: sqs.receive(dead, VisibilityTimeout=0), what="the other message")
    assert {first["Body"], left["Body"]} == {"a", "b"}


def test_Q50_who_may_be_a_source(sqs):
    sqs.make("dead")
    sqs.make("late", RedrivePolicy=redrive("dead", 1), VisibilityTimeout="0")
    for name, policy, allowed in [
        ("none", '{"redrivePermission":"denyAll"}', False),
        ("some", json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [arn("late"), arn("new")]}), "new"),
        ("all", '{"redrivePermission":"allowAll"}', True),
        ("absent", "", True),
    ]:
        sqs.call("SetQueueAttributes", QueueUrl="dead", Attributes={"RedriveAllowPolicy": policy})
        for source in ["new", "other"]:
            attributes = {"RedrivePolicy": redrive("dead", 1)}
            if allowed is True or allowed == source:
                sqs.call("CreateQueue", QueueName=source, Attributes=attributes)
                sqs.call("DeleteQueue", QueueUrl=source)
            else:
                sqs.refused(IPV, None, "CreateQueue", QueueName=source, Attributes=attributes)
    # Whoever is a source already stays one.
    sqs.call("SetQueueAttributes", QueueUrl="dead",
             Attributes={"RedriveAllowPolicy": '{"redrivePermission":"denyAll"}'})
    sqs.send("late", "a")
    spend(sqs, "late", 1)
    assert sqs.bodies("dead") == ["a"]
    for wrong in ['{"redrivePermission":"byQueue"}',
                  json.dumps({"redrivePermission": "allowAll", "sourceQueueArns": [arn("late")]}),
                  '{"redrivePermission":"x"}', "text", "{}"]:
        sqs.refused(None, None, "SetQueueAttributes", QueueUrl="dead", Attributes={"RedriveAllowPolicy": wrong})
    assert json.loads(sqs.attributes("dead")["RedriveAllowPolicy"]) == {"redrivePermission": "denyAll"}


def test_sources_of_a_dead_letter_queue_are_listed(sqs):
    sqs.make("dead")
    assert sqs.call("ListDeadLetterSourceQueues", QueueUrl="dead") == {}
    urls = [sqs.make(f"source-{i}", RedrivePolicy=redrive("dead", 1)) for i in range(5)]
    assert sqs.call("ListDeadLetterSourceQueues", QueueUrl="dead") == {"queueUrls": urls}
    found, token = [], None
    while not found or token:
        page = sqs.call("ListDeadLetterSourceQueues", QueueUrl="dead", MaxResults=2, NextToken=token)
        assert len(page["queueUrls"]) <= 2
        found += page["queueUrls"]
        token = page.get("NextToken")
    assert found == urls
    sqs.call("SetQueueAttributes", QueueUrl="source-1", Attributes={"RedrivePolicy": ""})
    assert len(sqs.call("ListDeadLetterSourceQueues", QueueUrl="dead")["queueUrls"]) == 4
