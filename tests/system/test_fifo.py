"""FIFO queues over the wire: what they are created with, the ids of a send, numbered producers, receive attempts,
expired handles (reference: SQS, 6.4 and Q17, Q28, Q31, Q32, Q34, Q35).

Groups and duplicates, Q39 to Q45: test_sqs_groups.py."""

import hashlib
import json
import struct
import threading
import time

import pytest
from conftest import wait_until
from sqs import is_duplicate
from test_errors import IPV, MISSING, check, invalid, missing, text
from wire import Connection

FIFO_NAME_RULE = (
    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
    "must end with .fifo suffix and be 1 to 80 in length."
)
NAME_RULE = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
ID_RULE = "can only include alphanumeric and punctuation characters. 1 to 128 in length."
NO_ID = "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
NOT_FOR_THIS_TYPE = "The request include parameter that is not valid for this queue type."
EXPIRED = "The receipt handle has expired."
NOT_AVAILABLE = "Message does not exist or is not available for visibility timeout change."
NOT_RETRYABLE = "The receiveRequestAttemptId is not valid anymore since the receive call is not retryable."
TYPE_FIXED = "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported."


def only_fifo(name):
    return f"You can specify the {name} only when FifoQueue is set to true."


class Sqs:
    """SQS on one connection, with queues called by their names."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.line = Connection(daemon.port)
        self.number = 0

    def call(self, action, **parameters):
        return self.line.call(action if "." in action else f"AmazonSQS.{action}", parameters)

    def ok(self, action, **parameters):
        return self.line.ok(action if "." in action else f"AmazonSQS.{action}", parameters)

    def refused(self, error, expected, action, **parameters):
        check(self.call(action, **parameters), error, expected, action.startswith("Tally."))

    def make(self, queue, **attributes):
        """A queue; one whose name ends in .fifo takes any body as often as it is sent, unless `attributes` say
        otherwise."""
        if queue.endswith(".fifo"):
            attributes = {"FifoQueue": "true", **attributes}
        self.ok("CreateQueue", QueueName=queue, Attributes=attributes)
        return queue

    def send(self, queue, body, group=None, deduplication=None, **more):
        """Sends, under a new deduplication id where none is given (None; "": without one)."""
        self.number += 1
        if group is not None:
            more["MessageGroupId"] = group
        if deduplication != "" and queue.endswith(".fifo"):
            more["MessageDeduplicationId"] = deduplication or f"own-{self.number}"
        return self.ok("SendMessage", QueueUrl=queue, MessageBody=body, **more)

    def receive(self, queue, count=10, **more):
        return self.ok("ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=count, **more).get("Messages", [])

    def bodies(self, queue, count=10, **more):
        return [message["Body"] for message in self.receive(queue, count, **more)]

    def delete(self, queue, *messages):
        for message in messages:
            self.ok("DeleteMessage", QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])

    def change(self, queue, message, seconds):
        self.ok("ChangeMessageVisibility", QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"],
                VisibilityTimeout=seconds)

    def attributes(self, queue, *names):
        return (
            self.ok("GetQueueAttributes", QueueUrl=queue, AttributeNames=list(names or ["All"])).get("Attributes", {}))


@pytest.fixture
def sqs(daemon):
    client = Sqs(daemon)
    yield client
    client.line.close()


def dead_letters(queue, count):
    return json.dumps({"deadLetterTargetArn": f"arn:aws:sqs:us-east-1:000000000000:{queue}", "maxReceiveCount": count})


# --- queues and their attributes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_fifo", [False, True])
def test_Q17_names_and_types(sqs, is_fifo):
    fifo = {"FifoQueue": "true"} if is_fifo else {}
    good = ["a.fifo", "x" * 75 + ".fifo", "A-b_9.fifo"] if is_fifo else ["a", "x" * 80, "A-b_9", "fifo"]
    bad = ["a", ".fifo", "x" * 76 + ".fifo", "a.b.fifo", "ä.fifo", "a.FIFO"] if is_fifo else ["a.fifo", "x" * 81, "a.b"]
    for name in bad:
        sqs.refused(IPV, FIFO_NAME_RULE if is_fifo else NAME_RULE, "CreateQueue", QueueName=name, Attributes=fifo)
    for name in good:
        sqs.ok("CreateQueue", QueueName=name, Attributes=fifo)
    sqs.refused(IPV, "Value for parameter QueueName is invalid. Reason: Must specify a queue name.", "CreateQueue",
                QueueName="")
    assert len(sqs.ok("ListQueues")["QueueUrls"]) == len(good)


def test_attributes_for_the_wrong_type_of_queue(sqs):
    sqs.make("q")
    sqs.make("q.fifo")
    create = {"action": "CreateQueue", "QueueName": "new"}
    change = {"action": "SetQueueAttributes", "QueueUrl": "q"}
    name, value = "InvalidAttributeName", "InvalidAttributeValue"
    for where in [create, change]:
        for attribute in ["FifoQueue", "ContentBasedDeduplication"]:
            sqs.refused(name, f"Unknown Attribute {attribute}.", **where, Attributes={attribute: "false"})
        for attribute in ["DeduplicationScope", "FifoThroughputLimit", "Tally.StrictOrder", "Tally.OnGroupFailure"]:
            sqs.refused(name, only_fifo(attribute), **where, Attributes={attribute: "x"})
    change["QueueUrl"] = "q.fifo"
    sqs.refused(value, TYPE_FIXED, **change, Attributes={"FifoQueue": "false"})
    sqs.refused(value, TYPE_FIXED, "CreateQueue", QueueName="q.fifo", Attributes={"FifoQueue": "false"})
    sqs.refused(name, None, **change, Attributes={"Tally.GroupConcurrency": "1"})
    sqs.refused(name, "Unknown Attribute Tally.Paused.", **change, Attributes={"Tally.Paused": "true"})
    sqs.ok("SetQueueAttributes", QueueUrl="q.fifo", Attributes={"FifoQueue": "true"})
    rule = "The perMessageGroupId value is allowed only when the value for DeduplicationScope is messageGroup"
    sqs.refused(IPV, rule, **change, Attributes={"FifoThroughputLimit": "perMessageGroupId"})
    sqs.ok("SetQueueAttributes", QueueUrl="q.fifo",
           Attributes={"FifoThroughputLimit": "perMessageGroupId", "DeduplicationScope": "messageGroup"})
    sqs.refused(IPV, rule, **change, Attributes={"DeduplicationScope": "queue"})
    sqs.refused(value, None, **change,
                Attributes={"Tally.DeliveryMode": "at-most-once", "Tally.OnGroupFailure": "hold"})
    for source, target in [("q", "q.fifo"), ("q.fifo", "q")]:
        policy = dead_letters(target, 3)
        sqs.refused(
            *invalid("RedrivePolicy", policy, "Dead-letter queue must be same type of queue as the source."),
            "SetQueueAttributes",
            QueueUrl=source,
            Attributes={"RedrivePolicy": policy},
        )


BAD_VALUES = {
    "ContentBasedDeduplication": ["", "yes", "1", "TRUE"],
    "DeduplicationScope": ["", "Queue", "group"],
    "FifoThroughputLimit": ["", "perqueue"],
    "FifoQueue": ["", "yes"],
    "Tally.StrictOrder": ["", "yes"],
    "Tally.OnGroupFailure": ["", "Hold", "stop"],
    "Tally.DeduplicationWindow": ["", "-2", "315360001", "1.5", "x"],
    "Tally.DeliveryMode": ["", "once"],
    "Tally.StaleReceipts": ["", "accept", "Refuse"],
    "Tally.Backoff": ["x", "[]", "{", '{"min": -1}', '{"max": 43201}', '{"min": 2, "max": 1}', '{"factor": 0.5}',
                      '{"jitter": 2}', '{"Min": 1}', '{"min": "1"}'],
    "Tally.RateLimit": [
        "x",
        "{}",
        '{"queue": {}}',
        '{"queue": {"burst": 1}}',
        '{"queue": {"rate": 0}}',
        '{"queue": {"rate": 1000001}}',
        '{"queue": {"rate": 1, "burst": 0}}',
        '{"queue": {"rate": 1, "burst": 1.5}}',
        '{"queue": 1}',
        '{"tenant": {"rate": 1}}',
        '{"queue": {"rate": 1}, "tenant": {"rate": 1}}',
    ],
}


def test_Q18_values_out_of_range_change_nothing(sqs):
    sqs.make("q.fifo")
    sqs.make("q")
    before = sqs.attributes("q.fifo"), sqs.attributes("q")
    for name, values in BAD_VALUES.items():
        for value in values:
            attributes = {"VisibilityTimeout": "1", name: value}
            answer = sqs.call("SetQueueAttributes", QueueUrl="q.fifo", Attributes=attributes)
            assert answer.status == 400 and answer.json()["__type"].endswith("#InvalidAttributeValue"), (
                name, value, answer.body)
            assert answer.json()["message"].startswith(f"Invalid value for the parameter {name}. Reason: "), answer.body
    for value in ["", "-1", "120001"]:
        check(sqs.call("SetQueueAttributes", QueueUrl="q", Attributes={"Tally.GroupConcurrency": value}),
              "InvalidAttributeValue", None)
    assert (sqs.attributes("q.fifo"), sqs.attributes("q")) == before


def test_attributes_are_shown_canonically_and_kept(sqs):
    sqs.make("plain.fifo")
    assert {name: value for name, value in sqs.attributes("plain.fifo").items()
            if name.startswith(("Fifo", "Content", "Dedup", "Tally"))} == {
                "FifoQueue": "true",
                "ContentBasedDeduplication": "false",
                "DeduplicationScope": "queue",
                "FifoThroughputLimit": "perQueue",
            }
    names = ["Tally.StrictOrder", "Tally.OnGroupFailure", "Tally.DeduplicationWindow", "Tally.DeliveryMode",
             "Tally.Backoff", "Tally.GroupConcurrency"]
    assert sqs.attributes("plain.fifo", *names) == {
        "Tally.StrictOrder": "false",
        "Tally.OnGroupFailure": "skip",
        "Tally.DeduplicationWindow": "300",
        "Tally.DeliveryMode": "at-least-once",
    }
    given = {
        "ContentBasedDeduplication": "True",
        "Tally.OnGroupFailure": "cancel-rest",
        "Tally.DeduplicationWindow": "-1",
        "Tally.Backoff": '{"jitter": 0.125, "min": 0.5}',
        "Tally.RateLimit": '{"group": {"rate": 0.3}, "queue": {"burst": 7, "rate": 2.5}}',
    }
    shown = {
        "ContentBasedDeduplication": "true",
        "Tally.StrictOrder": "true",  # whoever names an attribute of Tally's gets a strict order
        "Tally.OnGroupFailure": "cancel-rest",
        "Tally.DeduplicationWindow": "-1",
        "Tally.Backoff": '{"min":0.5,"max":900,"factor":2,"jitter":0.125}',
        "Tally.RateLimit": '{"queue":{"rate":2.5,"burst":7},"group":{"rate":0.3,"burst":1}}',
    }
    sqs.make("own.fifo", **given)
    assert shown.items() <= sqs.attributes("own.fifo").items()
    sqs.daemon.kill9()
    sqs.daemon.start()
    sqs.line.close()
    assert shown.items() <= sqs.attributes("own.fifo").items()
    # Created again: equal in whatever form, differing, and by the name alone.
    sqs.make("own.fifo", **given)
    sqs.make("own.fifo", **{name: value for name, value in shown.items()})
    sqs.ok("CreateQueue", QueueName="own.fifo")
    for name, value in {"Tally.Backoff": '{"min": 1}', "Tally.StrictOrder": "false",
                        "ContentBasedDeduplication": "false", "Tally.RateLimit": ""}.items():
        answer = sqs.call("CreateQueue", QueueName="own.fifo", Attributes={"FifoQueue": "true", name: value})
        check(answer, "QueueNameExists",
              f"A queue already exists with the same name and a different value for attribute {name}")
    sqs.ok("SetQueueAttributes", QueueUrl="own.fifo",
           Attributes={"Tally.Backoff": "", "Tally.RateLimit": "", "Tally.StrictOrder": "false"})
    assert not {"Tally.Backoff", "Tally.RateLimit"} & set(sqs.attributes("own.fifo"))
    assert sqs.attributes("own.fifo", "Tally.StrictOrder") == {"Tally.StrictOrder": "false"}


# --- sends ------------------------------------------------------------------------------------------------------------


def test_Q28_the_ids_of_a_send(sqs):
    sqs.make("q.fifo")
    sqs.make("q")
    one = {"action": "SendMessage", "QueueUrl": "q.fifo", "MessageBody": "a"}
    sqs.refused(*missing("MessageGroupId"), **one)
    sqs.refused(*missing("MessageGroupId"), **one, MessageDeduplicationId="d")
    sqs.refused(IPV, NO_ID, **one, MessageGroupId="g")
    for bad in ["", "a b", "ä", "x" * 129]:
        sqs.refused(*invalid("MessageGroupId", bad, f"MessageGroupId {ID_RULE}"), **one, MessageGroupId=bad,
                    MessageDeduplicationId="d")
        sqs.refused(*invalid("MessageDeduplicationId", bad, f"MessageDeduplicationId {ID_RULE}"), **one,
                    MessageGroupId="g", MessageDeduplicationId=bad)
    sqs.refused(*invalid("DelaySeconds", 1, NOT_FOR_THIS_TYPE), **one, MessageGroupId="g", MessageDeduplicationId="d",
                DelaySeconds=1)
    sqs.refused(*invalid("DelaySeconds", -1, "DelaySeconds must be >= 0 and <= 900."), **one, MessageGroupId="g",
                MessageDeduplicationId="d", DelaySeconds=-1)
    sqs.refused(IPV, None, "SendMessage", QueueUrl="q", MessageBody="a", MessageDeduplicationId="a b")
    # In a batch one entry without them fails the whole request; one with a bad id fails alone.
    good = {"Id": "a", "MessageBody": "a", "MessageGroupId": "g", "MessageDeduplicationId": "d"}
    batch = {"action": "SendMessageBatch", "QueueUrl": "q.fifo"}
    sqs.refused(IPV, missing("MessageGroupId")[1], **batch,
                Entries=[good, {"Id": "b", "MessageBody": "b", "MessageDeduplicationId": "e"}])
    sqs.refused(IPV, NO_ID, **batch, Entries=[good, {"Id": "b", "MessageBody": "b", "MessageGroupId": "g"}])
    assert sqs.attributes("q.fifo")["ApproximateNumberOfMessages"] == "0"
    answer = sqs.ok("SendMessageBatch", QueueUrl="q.fifo", Entries=[{**good, "Id": "x", "MessageGroupId": ""}, good])
    assert [(entry["Id"], entry["Code"]) for entry in answer["Failed"]] == [("x", "InvalidParameterValue")]
    assert [(entry["Id"], len(entry["SequenceNumber"])) for entry in answer["Successful"]] == [("a", 20)]


def test_Q31_a_group_on_a_standard_queue_is_a_tenant(sqs):
    sqs.make("q")
    for body in "abc":
        answer = sqs.send("q", body, group="t", deduplication="")
        assert "SequenceNumber" not in answer
    messages = sqs.receive("q", AttributeNames=["All"])
    assert sorted(message["Body"] for message in messages) == ["a", "b", "c"]
    for message in messages:
        assert message["Attributes"]["MessageGroupId"] == "t"
        assert not {"SequenceNumber", "MessageDeduplicationId"} & set(message["Attributes"])


def test_Q32_delays(sqs):
    sqs.make("q", DelaySeconds="2")
    sqs.make("q.fifo", DelaySeconds="2")
    sqs.send("q", "at once", DelaySeconds=0)
    sqs.send("q", "late", DelaySeconds=5)
    sqs.send("q", "queue's")
    sqs.send("q.fifo", "queue's", "g", DelaySeconds=0)
    started = time.monotonic()
    assert sqs.bodies("q") == ["at once"] and sqs.bodies("q.fifo") == []
    assert sqs.bodies("q.fifo", WaitTimeSeconds=10) == ["queue's"] and time.monotonic() - started > 1.5
    assert sqs.bodies("q") == ["queue's"]


def test_a_younger_delayed_message_blocks_no_older_one(sqs):
    sqs.make("q.fifo")
    sqs.send("q.fifo", "old", "g")
    assert sqs.bodies("q.fifo", VisibilityTimeout=0) == ["old"]
    sqs.ok("SetQueueAttributes", QueueUrl="q.fifo", Attributes={"DelaySeconds": "900"})
    sqs.send("q.fifo", "young", "g")
    assert sqs.bodies("q.fifo") == ["old"]


def test_another_delay_of_a_fifo_queue_holds_for_what_is_there(sqs):
    sqs.make("q.fifo")
    sqs.send("q.fifo", "a", "g")
    for seconds, bodies in [("900", []), ("0", ["a"])]:
        sqs.ok("SetQueueAttributes", QueueUrl="q.fifo", Attributes={"DelaySeconds": seconds})
        assert sqs.bodies("q.fifo") == bodies


# --- how many, and old handles ----------------------------------------------------------------------------------------


def test_Q34_one_receive_takes_ten_of_one_group(sqs):
    sqs.make("one.fifo")
    for i in range(12):
        sqs.send("one.fifo", str(i), "g")
    assert sqs.bodies("one.fifo") == [str(i) for i in range(10)]
    assert sqs.bodies("one.fifo") == []


def test_Q35_old_handles(sqs):
    for queue in ["q", "q.fifo"]:
        is_fifo = queue == "q.fifo"
        sqs.make(queue)
        sqs.send(queue, "a", "g")
        (old,) = sqs.receive(queue, VisibilityTimeout=1)
        handle = old["ReceiptHandle"]
        wait_until(lambda: sqs.attributes(queue)["ApproximateNumberOfMessages"] == "1", what="the end of the lease")
        if is_fifo:
            sqs.refused(*invalid("ReceiptHandle", handle, EXPIRED), "DeleteMessage", QueueUrl=queue,
                        ReceiptHandle=handle)
            sqs.refused(*invalid("ReceiptHandle", handle, NOT_AVAILABLE), "ChangeMessageVisibility", QueueUrl=queue,
                        ReceiptHandle=handle, VisibilityTimeout=9)
            sqs.refused(*invalid("ReceiptHandle", handle, EXPIRED), "Tally.FailMessage", QueueUrl=queue,
                        ReceiptHandle=handle)
            for action, more in [
                    ("DeleteMessageBatch", {}), ("ChangeMessageVisibilityBatch", {"VisibilityTimeout": 1})]:
                answer = sqs.ok(action, QueueUrl=queue, Entries=[{"Id": "a", "ReceiptHandle": handle, **more}])
                assert [(entry["Id"], entry["Code"], entry["SenderFault"]) for entry in answer["Failed"]] == [
                    ("a", "InvalidParameterValue", True)]
        (new,) = sqs.receive(queue, VisibilityTimeout=60)
        assert sqs.attributes(queue)["ApproximateNumberOfMessages"] == "0"
        sqs.refused("ReceiptHandleIsInvalid", None, "Tally.FailMessage", QueueUrl=queue, ReceiptHandle=handle)
        if is_fifo:
            sqs.refused("ReceiptHandleIsInvalid", None, "DeleteMessage", QueueUrl=queue, ReceiptHandle=handle)
        assert sqs.attributes(queue)["ApproximateNumberOfMessagesNotVisible"] == "1"
        sqs.delete(queue, new)
        sqs.delete(queue, new)  # what has ended is deleted once more without an error
        assert sqs.attributes(queue)["ApproximateNumberOfMessagesNotVisible"] == "0"


# --- numbered producers -----------------------------------------------------------------------------------------------


def test_numbered_producers(sqs):
    sqs.make("q")

    def send(number, producer="p", kind="String"):
        attributes = {"Tally.Producer": text(producer), "Tally.Sequence": text(str(number), kind)}
        return sqs.send("q", "a", MessageAttributes=attributes)

    first = send(7)
    assert is_duplicate(first, send(7)) and is_duplicate(first, send(7, kind="Number"))
    assert is_duplicate(first, send("00000000000000000007")) and is_duplicate(first, send("007", kind="Number"))
    assert not is_duplicate(first, send(9)) and not is_duplicate(first, send(7, producer="other"))
    # Below the newest but never seen: a duplicate of nothing that is known.
    unknown = send(8)
    assert unknown["Duplicate"] and "MessageId" not in unknown and unknown["MD5OfMessageBody"]
    assert is_duplicate(first, send(7))
    assert len(sqs.receive("q")) == 3
    # On a FIFO queue the number stands for the deduplication id.
    sqs.make("q.fifo", FifoQueue="true")
    attributes = {"Tally.Producer": text("p"), "Tally.Sequence": text("1")}
    first = sqs.send("q.fifo", "a", MessageGroupId="g", MessageAttributes=attributes)
    assert is_duplicate(first, sqs.send("q.fifo", "a", MessageGroupId="g", MessageAttributes=attributes))


# --- receives ---------------------------------------------------------------------------------------------------------


def test_a_changed_lease_is_not_repeated(sqs):
    sqs.make("q.fifo", VisibilityTimeout="60")
    sqs.send("q.fifo", "a", "g")
    (message,) = sqs.receive("q.fifo", ReceiveRequestAttemptId="one")
    sqs.change("q.fifo", message, 30)
    sqs.refused(*invalid("ReceiveRequestAttemptId", "one", NOT_RETRYABLE), "ReceiveMessage", QueueUrl="q.fifo",
                ReceiveRequestAttemptId="one")


def test_a_waiting_receive_keeps_its_attempt_id(sqs):
    sqs.make("q.fifo", VisibilityTimeout="60")
    got = []

    def wait():
        with Connection(sqs.daemon.port) as line:
            got.extend(line.ok("AmazonSQS.ReceiveMessage", {
                "QueueUrl": "q.fifo", "WaitTimeSeconds": 20, "ReceiveRequestAttemptId": "one"})["Messages"])

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: b"tally_receives_waiting 1" in sqs.daemon.request("GET", "/metrics")[2],
               what="a receive that waits")
    sqs.send("q.fifo", "a", "g")
    thread.join()
    assert sqs.receive("q.fifo", ReceiveRequestAttemptId="one") == got


def test_system_attributes(sqs):
    sqs.make("dead.fifo")
    sqs.make("q.fifo", RedrivePolicy=dead_letters("dead.fifo", 1), VisibilityTimeout="0")
    sent = sqs.send("q.fifo", "a", "g", "d")
    (message,) = sqs.receive("q.fifo", AttributeNames=["All"])
    assert ({"MessageGroupId": "g", "MessageDeduplicationId": "d", "SequenceNumber": sent["SequenceNumber"]}.items()
            <= message["Attributes"].items())
    assert sqs.receive("q.fifo") == []
    later = sqs.send("dead.fifo", "b", "g")
    (dead, other) = sqs.receive("dead.fifo", MessageSystemAttributeNames=["All"])
    assert dead["MessageId"] == sent["MessageId"] == dead["Attributes"]["MessageDeduplicationId"]
    assert (sent["SequenceNumber"] < dead["Attributes"]["SequenceNumber"] < later["SequenceNumber"]
            == other["Attributes"]["SequenceNumber"])
    assert (dead["Attributes"]["DeadLetterQueueSourceArn"].endswith(":q.fifo")
            and dead["Attributes"]["ApproximateReceiveCount"] == "2")
    sqs.make("content.fifo", ContentBasedDeduplication="true")
    sqs.send("content.fifo", "grüße", "g", "")
    (message,) = sqs.receive("content.fifo", AttributeNames=["MessageDeduplicationId"])
    assert message["Attributes"] == {"MessageDeduplicationId": hashlib.sha256("grüße".encode()).hexdigest()}


def attributes_md5(attributes):
    """As SQS's clients compute it."""
    parts = b""
    for name, value in sorted(attributes.items()):
        kind = value["DataType"]
        for part in [name.encode(), kind.encode()]:
            parts += struct.pack(">I", len(part)) + part
        data = value["StringValue"].encode()
        parts += b"\1" + struct.pack(">I", len(data)) + data
    return hashlib.md5(parts).hexdigest()


def test_the_fencing_token_grows_with_every_delivery_in_the_namespace(sqs):
    sqs.make("q", VisibilityTimeout="0")
    sqs.make("q.fifo", VisibilityTimeout="0")
    own = {"Zebra": text("z"), "Able": text("1", "Number"), "Tally.FencingToken": text("999999", "Number")}
    sqs.send("q", "a", MessageAttributes=own)
    sqs.send("q.fifo", "a", "g")
    tokens = []
    both = ["All", "Tally.*"]
    for queue, names in [("q", both), ("q.fifo", both), ("q", ["Tally.FencingToken"]),
                         ("q", [".*", "Tally.FencingToken"]), ("q.fifo", ["Tally.*"]),
                         ("q", ["Z*", "Tally.*", "Zebra"])]:
        (message,) = sqs.receive(queue, MessageAttributeNames=names, AttributeNames=["Tally.FencingToken"])
        attributes = message["MessageAttributes"]
        assert message["MD5OfMessageAttributes"] == attributes_md5(attributes)
        token = attributes["Tally.FencingToken"]
        assert token["DataType"] == "Number"
        assert message["Attributes"] == {"Tally.FencingToken": token["StringValue"]}
        tokens.append(int(token["StringValue"]))
        if queue == "q" and names[0] in ["All", ".*"]:
            assert set(attributes) == set(own) and attributes["Zebra"] == own["Zebra"]
    assert tokens == sorted(set(tokens)) and tokens[-1] < 999999
    (message,) = sqs.receive("q", MessageAttributeNames=["Able", "Zebra"])
    assert set(message["MessageAttributes"]) == {"Able", "Zebra"}
    assert message["MD5OfMessageAttributes"] == attributes_md5(message["MessageAttributes"])
    assert "MessageAttributes" not in sqs.receive("q.fifo")[0]


def test_what_a_message_was_sent_with_is_all_that_All_gives(sqs):
    """So it can be sent on as it came, with ten attributes too, even where one of them bears the name of what a receive
    adds."""
    sqs.make("q", VisibilityTimeout="0")
    own = {f"a{n}": text(str(n)) for n in range(9)} | {"Tally.FencingToken": text("7", "Number")}
    sent = sqs.send("q", "a", MessageAttributes=own)
    sqs.ok("Tally.FailMessage", QueueUrl="q", ReceiptHandle=sqs.receive("q", VisibilityTimeout=60)[0]["ReceiptHandle"],
           Reason="no")
    for name in ["All", ".*", "*"]:
        (message,) = sqs.receive("q", MessageAttributeNames=[name], AttributeNames=["All"])
        assert message["MessageAttributes"] == own and "Tally.FencingToken" not in message["Attributes"]
        assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"] == attributes_md5(own)
    (message,) = sqs.receive("q", MessageAttributeNames=["Tally.FailureReason"])
    assert message["MessageAttributes"] == {"Tally.FailureReason": text("no")}
    (message,) = sqs.receive("q", MessageAttributeNames=["Tally.*"])
    assert set(message["MessageAttributes"]) == {"Tally.FailureReason", "Tally.FencingToken"}
    assert message["MessageAttributes"]["Tally.FencingToken"] != own["Tally.FencingToken"]


def test_what_Tally_itself_sent_a_message_with_is_among_All(sqs):
    sqs.make("q")
    sqs.ok("Tally.CreateBatch", BatchId="b", Total=0, OnComplete={"QueueUrl": "q"})
    (message,) = sqs.receive("q", MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == {"Tally.Batch.Completed": text("b"), "Tally.Batch.Event": text("complete")}
    assert message["MD5OfMessageAttributes"] == attributes_md5(message["MessageAttributes"])


def test_at_most_once(sqs):
    for queue in [sqs.make("q", **{"Tally.DeliveryMode": "at-most-once"}),
                  sqs.make("q.fifo", **{"Tally.DeliveryMode": "at-most-once"})]:
        sqs.send(queue, "a", "g")
        sqs.send(queue, "b", "g")
        assert sqs.bodies(queue, VisibilityTimeout=0) == ["a", "b"]
        sqs.daemon.kill9()
        sqs.daemon.start()
        sqs.line.close()
        assert sqs.bodies(queue) == []


def test_a_message_that_failed_is_tried_again_with_its_reason(sqs):
    sqs.make("q.fifo")
    sqs.send("q.fifo", "a", "g")
    (message,) = sqs.receive("q.fifo")
    for more, error in [({"Reason": "x" * 1025}, IPV), ({"Reason": "\1"}, IPV),
                        ({"Reason": 7}, "SerializationException"), ({"Final": "perhaps"}, "SerializationException")]:
        sqs.refused(error, None, "Tally.FailMessage", QueueUrl="q.fifo", ReceiptHandle=message["ReceiptHandle"], **more)
    sqs.refused(MISSING, "The request must contain the parameter ReceiptHandle.", "Tally.FailMessage",
                QueueUrl="q.fifo")
    sqs.refused("ReceiptHandleIsInvalid", None, "Tally.FailMessage", QueueUrl="q.fifo", ReceiptHandle="garbage")
    sqs.ok("Tally.FailMessage", QueueUrl="q.fifo", ReceiptHandle=message["ReceiptHandle"], Reason='no "such" post 🎉')
    (message,) = sqs.receive("q.fifo", MessageAttributeNames=["Tally.*"], AttributeNames=["All"])
    assert message["Attributes"]["ApproximateReceiveCount"] == "2"
    assert message["MessageAttributes"]["Tally.FailureReason"] == text('no "such" post 🎉')
    assert message["MD5OfMessageAttributes"] == attributes_md5(message["MessageAttributes"])
    sqs.ok("Tally.FailMessage", QueueUrl="q.fifo", ReceiptHandle=message["ReceiptHandle"], Final=True)
    assert sqs.attributes("q.fifo")["ApproximateNumberOfMessages"] == "0"


def test_a_batch_sends_to_a_fifo_queue_only_with_a_group(sqs):
    sqs.make("q.fifo")
    target = {"QueueUrl": "q.fifo"}
    sqs.refused(MISSING, "OnComplete: The request must contain the parameter MessageGroupId.", "Tally.CreateBatch",
                BatchId="b", OnComplete=target)
    sqs.ok("Tally.CreateBatch", BatchId="b", Total=0, OnComplete={**target, "MessageGroupId": "g"})
    (message,) = sqs.receive("q.fifo", AttributeNames=["All"], WaitTimeSeconds=5)
    assert (message["Attributes"]["MessageDeduplicationId"] == message["MessageId"]
            and message["Attributes"]["MessageGroupId"] == "g")
