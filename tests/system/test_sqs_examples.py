"""The examples of the API reference: for each action a request as its page gives one, and a reply that has the same
fields, no more and no less, with the same values where they do not depend on the moment or the account. In both forms.

Source: Amazon SQS API Reference, "Examples" of each action. Where its examples show empty lists (Failed), AWS itself
leaves the field out, and so does Tally (reference: SQS, 4.1); its digests of message attributes are not those of the
attributes beside them, so here they are computed."""

import base64
import hashlib
import json
import re

import pytest
from sqs import ACTIONS, Sqs, arn, string

ACCOUNT = "111111111111"


def like(pattern):
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value)


UUID = like(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
HANDLE = like(r"[A-Za-z0-9+/=_-]{20,1024}")
SECONDS = like(r"1[0-9]{9}")
MILLISECONDS = like(r"1[0-9]{12}")
COUNT = like(r"[0-9]+")
NAME = like(r".+")


def url(name):
    return like(rf"http://[^/]+/[0-9]{{12}}/{re.escape(name)}")


def is_number(value):
    return isinstance(value, int) and value >= 0


def is_task(value):
    return set(json.loads(base64.b64decode(value))) == {"taskId", "sourceArn"}


def as_json(**expected):
    return lambda value: json.loads(value) == expected


def digest(**texts):
    """The digest of attributes of type String."""
    whole = b""
    for name, value in sorted(texts.items()):
        for part in (name, "String"):
            whole += len(part).to_bytes(4, "big") + part.encode()
        whole += b"\1" + len(value).to_bytes(4, "big") + value.encode()
    return hashlib.md5(whole).hexdigest()


def differences(actual, expected, where=""):
    """Where a reply is not like its example."""
    if callable(expected):
        return [] if expected(actual) else [f"{where}: {actual!r}"]
    if isinstance(expected, dict) and isinstance(actual, dict):
        if actual.keys() != expected.keys():
            return [f"{where}: {sorted(actual.keys() ^ expected.keys())} on one side only"]
        return [found for key in expected for found in differences(actual[key], expected[key], f"{where}.{key}")]
    if isinstance(expected, list) and isinstance(actual, list) and len(actual) == len(expected):
        return [found for index in range(len(expected))
                for found in differences(actual[index], expected[index], f"{where}[{index}]")]
    return [] if actual == expected else [f"{where}: {actual!r}, not {expected!r}"]


def redrive(count=10):
    return json.dumps({"deadLetterTargetArn": arn("MyDeadLetterQueue"), "maxReceiveCount": count})


def batch_of(sqs, count):
    """Receipt handles of that many new messages."""
    for i in range(count):
        sqs.send("MyQueue", f"batch {i}")
    return [message["ReceiptHandle"] for message in sqs.receive("MyQueue")]


def dead_letter(sqs, count):
    for i in range(count):
        sqs.send("MySource", f"dead {i}")
    while sqs.receive("MySource", VisibilityTimeout=0):
        pass


TEXTS = {"my_attribute_name_1": "my_attribute_value_1", "my_attribute_name_2": "my_attribute_value_2"}
BODY, BODY_MD5 = "This is a test message", "fafb00f5732ab283681e124bf8747ed1"


def example_of(sqs):
    """action: (request, reply), in an order in which each finds what it needs; an entry may be a function of the
    client."""
    queue = {"QueueUrl": "MyQueue"}
    yield "CreateQueue", {"QueueName": "MyQueue", "Attributes": {"VisibilityTimeout": "40"},
                          "tags": {"QueueType": "Production"}}, {"QueueUrl": url("MyQueue")}
    yield "GetQueueUrl", {"QueueName": "MyQueue"}, {"QueueUrl": url("MyQueue")}
    sqs.make("MyDeadLetterQueue")
    sqs.make("MySource", RedrivePolicy=redrive(1))
    yield "ListQueues", {"QueueNamePrefix": "My"}, {
        "QueueUrls": [url("MyDeadLetterQueue"), url("MyQueue"), url("MySource")]}
    yield "ListDeadLetterSourceQueues", {"QueueUrl": "MyDeadLetterQueue"}, {"queueUrls": [url("MySource")]}
    yield "SetQueueAttributes", {**queue, "Attributes": {
        "DelaySeconds": "10", "MaximumMessageSize": "131072", "MessageRetentionPeriod": "259200",
        "ReceiveMessageWaitTimeSeconds": "20", "RedrivePolicy": redrive(), "VisibilityTimeout": "60"}}, {}
    sqs.call("SetQueueAttributes", **queue, Attributes={"DelaySeconds": "0", "ReceiveMessageWaitTimeSeconds": "0"})
    yield "AddPermission", {**queue, "Label": "MyLabel", "AWSAccountIds": ["177715257436", ACCOUNT],
                            "Actions": ["SendMessage", "ReceiveMessage"]}, {}
    sqs.call("SetQueueAttributes", **queue, Attributes={"RedriveAllowPolicy": '{"redrivePermission":"denyAll"}'})
    yield "GetQueueAttributes", {**queue, "AttributeNames": ["All"]}, {
        "Attributes": {
            "QueueArn": arn("MyQueue"),
            "ApproximateNumberOfMessages": "0",
            "ApproximateNumberOfMessagesNotVisible": "0",
            "ApproximateNumberOfMessagesDelayed": "0",
            "CreatedTimestamp": SECONDS,
            "LastModifiedTimestamp": SECONDS,
            "VisibilityTimeout": "60",
            "MaximumMessageSize": "131072",
            "MessageRetentionPeriod": "259200",
            "DelaySeconds": "0",
            "Policy": lambda text: json.loads(text)["Statement"][0]["Sid"] == "MyLabel",
            "RedrivePolicy": as_json(deadLetterTargetArn=arn("MyDeadLetterQueue"), maxReceiveCount=10),
            "RedriveAllowPolicy": as_json(redrivePermission="denyAll"),
            "ReceiveMessageWaitTimeSeconds": "0",
            "SqsManagedSseEnabled": "true",
        }
    }
    yield "RemovePermission", {**queue, "Label": "MyLabel"}, {}
    yield "TagQueue", {**queue, "Tags": {"QueueType": "Production", "Owner": "Developer123"}}, {}
    yield "ListQueueTags", queue, {"Tags": {"QueueType": "Production", "Owner": "Developer123"}}
    yield "UntagQueue", {**queue, "TagKeys": ["QueueType", "Owner"]}, {}
    yield "SendMessage", {**queue, "MessageBody": BODY,
                          "MessageAttributes": {name: string(value) for name, value in TEXTS.items()}}, {
                              "MessageId": UUID,
                              "MD5OfMessageBody": BODY_MD5,
                              "MD5OfMessageAttributes": digest(**TEXTS),
                          }
    receive = {**queue, "MaxNumberOfMessages": 5, "VisibilityTimeout": 15, "AttributeNames": ["All"],
               "MessageAttributeNames": [*TEXTS]}
    yield "ReceiveMessage", receive, {
        "Messages": [
            {
                "MessageId": UUID,
                "ReceiptHandle": HANDLE,
                "MD5OfBody": BODY_MD5,
                "Body": BODY,
                "Attributes": {
                    "SenderId": NAME,
                    "SentTimestamp": MILLISECONDS,
                    "ApproximateReceiveCount": "1",
                    "ApproximateFirstReceiveTimestamp": MILLISECONDS,
                },
                "MD5OfMessageAttributes": digest(**TEXTS),
                "MessageAttributes": {name: string(value) for name, value in TEXTS.items()},
            }
        ]
    }
    entries = [
        {"Id": "test_msg_001", "MessageBody": "test message body 1"},
        {"Id": "test_msg_002", "MessageBody": "test message body 2", "DelaySeconds": 60,
         "MessageAttributes": {"test_attribute_name_1": string("test_attribute_value_1")}},
    ]
    yield "SendMessageBatch", {**queue, "Entries": entries}, {
        "Successful": [
            {"Id": "test_msg_001", "MessageId": UUID, "MD5OfMessageBody": "0e024d309850c78cba5eabbeff7cae71"},
            {
                "Id": "test_msg_002",
                "MessageId": UUID,
                "MD5OfMessageBody": "7fb8146a82f95e0af155278f406862c2",
                "MD5OfMessageAttributes": digest(test_attribute_name_1="test_attribute_value_1"),
            },
        ]
    }
    first, second, *_ = batch_of(sqs, 2)
    yield "ChangeMessageVisibility", {**queue, "ReceiptHandle": first, "VisibilityTimeout": 600}, {}
    entries = [{"Id": "change_visibility_msg_2", "ReceiptHandle": first, "VisibilityTimeout": 45},
               {"Id": "change_visibility_msg_3", "ReceiptHandle": second, "VisibilityTimeout": 45}]
    yield "ChangeMessageVisibilityBatch", {**queue, "Entries": entries}, {
        "Successful": [{"Id": "change_visibility_msg_2"}, {"Id": "change_visibility_msg_3"}]}
    yield "DeleteMessageBatch", {
        **queue, "Entries": [{"Id": "msg1", "ReceiptHandle": first}, {"Id": "msg2", "ReceiptHandle": "wrong"}]}, {
            "Successful": [{"Id": "msg1"}],
            "Failed": [{"Id": "msg2", "SenderFault": True, "Code": "ReceiptHandleIsInvalid", "Message": NAME}],
        }
    yield "DeleteMessage", {**queue, "ReceiptHandle": second}, {}
    yield "PurgeQueue", queue, {}
    dead_letter(sqs, 9)
    source = {"SourceArn": arn("MyDeadLetterQueue")}
    yield "StartMessageMoveTask", {**source, "DestinationArn": arn("MyQueue"), "MaxNumberOfMessagesPerSecond": 1}, {
        "TaskHandle": is_task}
    running = {"Status": "RUNNING", "TaskHandle": is_task, "StartedTimestamp": is_number,
               "MaxNumberOfMessagesPerSecond": 1, "SourceArn": source["SourceArn"], "DestinationArn": arn("MyQueue"),
               "ApproximateNumberOfMessagesMoved": is_number, "ApproximateNumberOfMessagesToMove": 9}
    yield "ListMessageMoveTasks", {**source, "MaxResults": 1}, {"Results": [running]}
    handle = sqs.call("ListMessageMoveTasks", **source)["Results"][0]["TaskHandle"]
    yield "CancelMessageMoveTask", {"TaskHandle": handle}, {"ApproximateNumberOfMessagesMoved": is_number}
    yield "DeleteQueue", queue, {}


@pytest.mark.parametrize("form", ["json", "query"])
def test_each_action_answers_as_its_example_does(daemon, form):
    sqs = Sqs(daemon.port, form)
    seen, found = [], []
    for action, request, reply in example_of(sqs):
        seen.append(action)
        found += [f"{action}{difference}" for difference in differences(sqs.call(action, **request), reply)]
    assert not found, "\n".join(found)
    assert sorted(seen) == sorted(ACTIONS)
    sqs.close()


# The order of elements that the reference's XML has, where parsers of the first hour relied on it.
def test_a_message_in_xml_begins_as_the_example_does(daemon):
    sqs = Sqs(daemon.port, "query")
    sqs.make("MyQueue")
    sqs.send("MyQueue", BODY)
    body = sqs.wire.send("ReceiveMessage", {"QueueUrl": "MyQueue", "AttributeNames": ["All"]}).body.decode()
    assert re.findall(r"<([A-Za-z0-9]+)[ >]", body)[:9] == [
        "ReceiveMessageResponse",
        "ReceiveMessageResult",
        "Message",
        "MessageId",
        "ReceiptHandle",
        "MD5OfBody",
        "Body",
        "Attribute",
        "Name",
    ]
    assert 'xmlns="http://queue.amazonaws.com/doc/2012-11-05/"' in body
    sqs.close()
