"""boto3, unmodified, in both wire forms: the life of messages and of a batch in short.

The boto3 of Debian 12 speaks Query to SQS, as its own model says; with a newer model of the service it speaks AWS JSON
1.0 by the same code. The model is not part of this repository: it is looked for beside the clone, in
../shared/data/sqs-model, or where SQS_MODEL says (a folder with 2012-11-05/service-2.json); a boto3 that brings such a
model needs none, and has no Query. Where a form is not to be had its tests are skipped."""

import hashlib
import json
import os
import pathlib

import pytest
from conftest import ROOT
from wire import Connection

boto3 = pytest.importorskip("boto3")
from botocore.exceptions import ClientError  # noqa: E402
from botocore.session import Session  # noqa: E402

MODEL = pathlib.Path(os.environ.get("SQS_MODEL") or ROOT.parent / "shared" / "data" / "sqs-model")


@pytest.fixture(params=["query", "json"])
def session(request, tmp_path, monkeypatch):
    """A session of boto3 that speaks this form."""
    if request.param == "json" and (MODEL / "2012-11-05" / "service-2.json").exists():
        (tmp_path / "models").mkdir()
        (tmp_path / "models" / "sqs").symlink_to(MODEL)
        monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path / "models"))
    for name in ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"]:
        monkeypatch.setenv(name, str(tmp_path / "none"))
    keys = {"aws_access_key_id": "any", "aws_secret_access_key": "thing"}
    session = boto3.Session(botocore_session=Session(), region_name="us-east-1", **keys)
    spoken = session.client("sqs").meta.service_model.metadata["protocol"]
    if spoken != request.param:
        pytest.skip(
            f"this boto3 speaks {spoken}" + ("" if spoken == "json" else ", and there is no newer model of SQS"))
    return session


@pytest.fixture
def sqs(session, daemon):
    return session.client("sqs", endpoint_url=daemon.endpoint)


def code_of(call, **parameters):
    """The error that a call must raise: (Code, HTTP status)."""
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    answer = caught.value.response
    return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]


def text(value):
    return {"DataType": "String", "StringValue": value}


def receive(sqs, url, **more):
    return sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, **more).get("Messages", [])


def test_queues(sqs):
    url = sqs.create_queue(QueueName="first", Attributes={"VisibilityTimeout": "5"})["QueueUrl"]
    assert sqs.get_queue_url(QueueName="first")["QueueUrl"] == url
    for number in range(5):
        sqs.create_queue(QueueName=f"many-{number}")
    pages = sqs.get_paginator("list_queues").paginate(QueueNamePrefix="many-", PaginationConfig={"PageSize": 2})
    assert [len(page["QueueUrls"]) for page in pages] == [2, 2, 1]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "7"})
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert (attributes["DelaySeconds"], attributes["VisibilityTimeout"]) == ("7", "5")
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix="none")
    sqs.delete_queue(QueueUrl=url)
    assert code_of(sqs.get_queue_url, QueueName="first")[0] == "AWS.SimpleQueueService.NonExistentQueue"


def test_messages(sqs):
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    attributes = {
        "color": text("blue"),
        "count": {"DataType": "Number", "StringValue": "3"},
        "blob": {"DataType": "Binary", "BinaryValue": b"\1\2\3"},
    }
    body = 'Grüße\r\n"🎉"'
    sent = sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes)
    assert sent["MD5OfMessageBody"] == hashlib.md5(body.encode()).hexdigest()
    assert sent["MD5OfMessageAttributes"] == "d838729972a4b70e2d2acd9d59ac847c"
    names = {"MessageAttributeNames": [*attributes], "AttributeNames": ["All"]}
    (message,) = receive(sqs, url, **names, WaitTimeSeconds=5)
    assert message["Body"] == body and message["MessageAttributes"] == attributes
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    handle = {"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"]}
    sqs.change_message_visibility(**handle, VisibilityTimeout=0)
    (message,) = receive(sqs, url, MessageAttributeNames=["All"], VisibilityTimeout=0)
    assert message["MessageAttributes"] == attributes
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    names = {"MessageAttributeNames": ["Tally.*"], "AttributeNames": ["Tally.FencingToken"]}
    (message,) = receive(sqs, url, **names, VisibilityTimeout=0)
    token = message["MessageAttributes"].pop("Tally.FencingToken")
    assert token["DataType"] == "Number" and message["MessageAttributes"] == {}
    assert message["Attributes"] == {"Tally.FencingToken": token["StringValue"]}
    (message,) = receive(sqs, url, MessageAttributeNames=["color"])
    assert message["MD5OfMessageAttributes"] == "da1b33cc3cbfe8b1630921e78e6b9880"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert receive(sqs, url) == []

    answer = sqs.send_message_batch(
        QueueUrl=url, Entries=[{"Id": str(i), "MessageBody": "\1" if i == 1 else f"m{i}"} for i in range(3)])
    assert [entry["Id"] for entry in answer["Successful"]] == ["0", "2"]
    assert [(entry["Id"], entry["Code"]) for entry in answer["Failed"]] == [("1", "InvalidMessageContents")]
    held = receive(sqs, url)
    entries = [{"Id": str(i), "ReceiptHandle": message["ReceiptHandle"]} for i, message in enumerate(held)]
    changed = sqs.change_message_visibility_batch(
        QueueUrl=url, Entries=[{**entry, "VisibilityTimeout": 60} for entry in entries])
    assert len(changed["Successful"]) == 2
    assert len(sqs.delete_message_batch(QueueUrl=url, Entries=entries)["Successful"]) == 2
    sqs.send_message(QueueUrl=url, MessageBody="purged")
    sqs.purge_queue(QueueUrl=url)
    assert receive(sqs, url) == []


def test_resources(session, daemon):
    """boto3.resource: queues and messages as objects."""
    sqs = session.resource("sqs", endpoint_url=daemon.endpoint)
    dead = sqs.create_queue(QueueName="shop-dead")
    policy = json.dumps({"deadLetterTargetArn": dead.attributes["QueueArn"], "maxReceiveCount": 5})
    queue = sqs.create_queue(QueueName="shop-orders", Attributes={"RedrivePolicy": policy}, tags={"team": "shop"})
    sqs.create_queue(QueueName="other")
    assert sqs.get_queue_by_name(QueueName="shop-orders") == queue
    assert [found.url for found in sqs.queues.filter(QueueNamePrefix="shop-").page_size(1)] == [dead.url, queue.url]
    assert list(dead.dead_letter_source_queues.all()) == [queue]

    queue.set_attributes(Attributes={"VisibilityTimeout": "60"})
    queue.reload()
    assert (queue.attributes["VisibilityTimeout"] == "60"
            and json.loads(queue.attributes["RedrivePolicy"])["maxReceiveCount"] == 5)
    queue.add_permission(Label="them", AWSAccountIds=["111122223333"], Actions=["SendMessage", "ReceiveMessage"])
    queue.load()
    assert json.loads(queue.attributes["Policy"])["Statement"][0]["Action"] == ["SQS:SendMessage", "SQS:ReceiveMessage"]
    queue.remove_permission(Label="them")
    queue.load()
    assert "Policy" not in queue.attributes

    queue.send_message(MessageBody="first", MessageAttributes={"color": text("blue")})
    queue.send_messages(Entries=[{"Id": str(n), "MessageBody": f"body {n}"} for n in range(5)])
    taken = queue.receive_messages(
        MaxNumberOfMessages=10, AttributeNames=["All"], MessageAttributeNames=["color"], WaitTimeSeconds=1)
    assert [message.body for message in taken] == ["first", *(f"body {n}" for n in range(5))]
    assert taken[0].message_attributes == {"color": text("blue")} and taken[1].message_attributes is None
    assert taken[0].attributes["ApproximateReceiveCount"] == "1"
    taken[0].change_visibility(VisibilityTimeout=0)
    taken[1].delete()
    entries = [{"Id": message.message_id, "ReceiptHandle": message.receipt_handle} for message in taken[2:4]]
    assert len(queue.delete_messages(Entries=entries)["Successful"]) == 2
    (again,) = queue.receive_messages()
    assert again.message_id == taken[0].message_id and again.md5_of_body == hashlib.md5(b"first").hexdigest()
    queue.purge()
    queue.load()
    assert queue.attributes["ApproximateNumberOfMessagesNotVisible"] == "0"
    queue.delete()
    assert code_of(queue.load) == ("AWS.SimpleQueueService.NonExistentQueue", 400)


def test_tags_and_what_queues_have_besides(sqs):
    assert sqs.waiter_names == []
    tags = {"team": "mail", "Größe:x": ""}
    url = sqs.create_queue(QueueName="q", tags=tags, Attributes={"KmsMasterKeyId": "alias/aws/sqs"})["QueueUrl"]
    sqs.tag_queue(QueueUrl=url, Tags={"team": "shop", "cost": "1"})
    sqs.untag_queue(QueueUrl=url, TagKeys=["cost", "unknown"])
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "shop", "Größe:x": ""}
    sqs.untag_queue(QueueUrl=url, TagKeys=["team", "Größe:x"])
    assert "Tags" not in sqs.list_queue_tags(QueueUrl=url)
    names = ["KmsMasterKeyId", "SqsManagedSseEnabled"]
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    assert shown == {"KmsMasterKeyId": "alias/aws/sqs", "SqsManagedSseEnabled": "false"}
    policy = json.dumps({"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:q", "maxReceiveCount": 1})
    sources = [sqs.create_queue(QueueName=f"s{n}", Attributes={"RedrivePolicy": policy})["QueueUrl"] for n in range(5)]
    pages = list(
        sqs.get_paginator("list_dead_letter_source_queues").paginate(QueueUrl=url, PaginationConfig={"PageSize": 2}))
    assert [page.get("queueUrls") for page in pages] == [sources[:2], sources[2:4], sources[4:]]
    assert sqs.list_dead_letter_source_queues(QueueUrl=sources[0]).get("queueUrls", []) == []


def test_dead_letters(sqs):
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    url = sqs.create_queue(QueueName="q", Attributes={"RedrivePolicy": policy, "VisibilityTimeout": "0"})["QueueUrl"]
    message_id = sqs.send_message(QueueUrl=url, MessageBody="poison")["MessageId"]
    assert len(receive(sqs, url)) == 1 and receive(sqs, url) == []
    (message,) = receive(sqs, dead, AttributeNames=["All"])
    assert message["MessageId"] == message_id
    assert message["Attributes"]["DeadLetterQueueSourceArn"].endswith(":q")


def test_a_fifo_queue(sqs):
    assert code_of(sqs.create_queue, QueueName="orders", Attributes={"FifoQueue": "true"}) == (
        "InvalidParameterValue", 400)
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true", "VisibilityTimeout": "60"}
    url = sqs.create_queue(QueueName="orders.fifo", Attributes=attributes)["QueueUrl"]
    assert attributes.items() <= sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"].items()
    assert code_of(sqs.send_message, QueueUrl=url, MessageBody="a") == ("MissingParameter", 400)

    first = sqs.send_message(QueueUrl=url, MessageBody="a1", MessageGroupId="a")
    again = sqs.send_message(QueueUrl=url, MessageBody="a1", MessageGroupId="a")
    assert (again["MessageId"], again["SequenceNumber"]) == (first["MessageId"], first["SequenceNumber"])
    digest = hashlib.sha256(b"a1").hexdigest()
    again = sqs.send_message(QueueUrl=url, MessageBody="x", MessageGroupId="b", MessageDeduplicationId=digest)
    assert again["MessageId"] == first["MessageId"]
    entries = [{"Id": str(i), "MessageBody": body, "MessageGroupId": body[0]}
               for i, body in enumerate(["b1", "a2", "a1", "b2"])]
    sent = sqs.send_message_batch(QueueUrl=url, Entries=entries)["Successful"]
    assert (sent[2]["MessageId"] == first["MessageId"]
            and first["SequenceNumber"] < sent[0]["SequenceNumber"] < sent[1]["SequenceNumber"])

    # The reply is lost: the same attempt id gives the same messages under the same handles.
    attempt = {"ReceiveRequestAttemptId": "attempt-1", "AttributeNames": ["All"]}

    def take(**more):
        return sqs.receive_message(QueueUrl=url, **{"MaxNumberOfMessages": 3, **more}).get("Messages", [])

    taken = take(**attempt)
    assert [message["Body"] for message in taken] == ["a1", "a2", "b1"]
    assert take(**attempt) == taken and take() == []
    expected = {"MessageGroupId": "a", "MessageDeduplicationId": digest, "SequenceNumber": first["SequenceNumber"]}
    assert expected.items() <= taken[0]["Attributes"].items()
    sqs.delete_message(QueueUrl=url, ReceiptHandle=taken[0]["ReceiptHandle"])
    with pytest.raises(ClientError, match="The receiveRequestAttemptId is not valid anymore"):
        take(**attempt)
    handle = {"QueueUrl": url, "ReceiptHandle": taken[2]["ReceiptHandle"]}
    sqs.change_message_visibility(**handle, VisibilityTimeout=0)
    with pytest.raises(ClientError, match="The receipt handle has expired"):
        sqs.delete_message(**handle)
    assert [message["Body"] for message in take()] == ["b1", "b2"]
    assert sqs.send_message(QueueUrl=url, MessageBody="a1", MessageGroupId="a")["MessageId"] == first["MessageId"]


def test_a_message_with_ten_attributes_is_forwarded_as_it_came(sqs):
    here, there = (sqs.create_queue(QueueName=name)["QueueUrl"] for name in ["here", "there"])
    ten = {f"a{n}": text(str(n)) for n in range(9)} | {"blob": {"DataType": "Binary", "BinaryValue": b"\0\xff"}}
    sent = sqs.send_message(QueueUrl=here, MessageBody="a", MessageAttributes=ten)
    (message,) = receive(sqs, here, MessageAttributeNames=["All"])
    on = sqs.send_message(QueueUrl=there, MessageBody=message["Body"], MessageAttributes=message["MessageAttributes"])
    (message,) = receive(sqs, there, MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == ten
    assert message["MD5OfMessageAttributes"] == on["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]


TRACE = {"traceparent": text("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
         "tracestate": text("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"), "baggage": text("user=17,region=eu")}


def test_ten_attributes_and_a_trace_are_sent_and_sent_on(sqs):
    """As the instrumentation of an SDK adds it; SQS would refuse the message."""
    here, there = (sqs.create_queue(QueueName=name)["QueueUrl"] for name in ["here", "there"])
    all_of_them = {f"a{n}": text(str(n)) for n in range(10)} | TRACE
    sent = sqs.send_message(QueueUrl=here, MessageBody="a", MessageAttributes=all_of_them)
    (message,) = receive(sqs, here, MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == all_of_them
    entry = {"Id": "1", "MessageBody": message["Body"], "MessageAttributes": message["MessageAttributes"]}
    (on,) = sqs.send_message_batch(QueueUrl=there, Entries=[entry])["Successful"]
    (message,) = receive(sqs, there, MessageAttributeNames=["traceparent", "a9"], VisibilityTimeout=0)
    assert message["MessageAttributes"] == {name: all_of_them[name] for name in ["traceparent", "a9"]}
    (message,) = receive(sqs, there, MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == all_of_them
    assert message["MD5OfMessageAttributes"] == on["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    eleven = {**all_of_them, "a10": text("10")}
    code, _ = code_of(sqs.send_message, QueueUrl=here, MessageBody="a", MessageAttributes=eleven)
    assert code.startswith("InvalidParameterValue")


def test_a_trace_in_the_headers_of_http_becomes_attributes(sqs):
    """As a tool adds them that knows HTTP and not SQS: behind the SDK, which then compares digests."""
    def add(request, **_):
        for name in ["traceparent", "tracestate"]:
            request.headers[name] = TRACE[name]["StringValue"]

    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    sqs.meta.events.register("before-send.sqs.SendMessage", add)
    sqs.meta.events.register("before-send.sqs.SendMessageBatch", add)
    sqs.send_message(QueueUrl=url, MessageBody="bare")
    sqs.send_message(QueueUrl=url, MessageBody="own", MessageAttributes={"traceparent": text("own")})
    sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "1", "MessageBody": "entry"}])
    shown = {message["Body"]: message.get("MessageAttributes")
             for message in receive(sqs, url, MessageAttributeNames=["All"])}
    two = {name: TRACE[name] for name in ["traceparent", "tracestate"]}
    assert shown == {"bare": two, "own": {"traceparent": text("own")}, "entry": two}


def test_attributes_of_tally_through_the_sdk(sqs):
    attributes = {"Tally.Backoff": '{"min":60,"max":900,"factor":2,"jitter":0}', "Tally.DeduplicationWindow": "-1"}
    url = sqs.create_queue(QueueName="q", Attributes=attributes)["QueueUrl"]
    assert attributes.items() <= sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"].items()
    numbered = {"Tally.Producer": text("p"), "Tally.Sequence": {"DataType": "Number", "StringValue": "1"}}
    first = sqs.send_message(QueueUrl=url, MessageBody="a", MessageAttributes=numbered)
    assert (sqs.send_message(QueueUrl=url, MessageBody="a", MessageAttributes=numbered)["MessageId"]
            == first["MessageId"])
    after = {"Tally.After": text(f"message:{first['MessageId']}")}
    sqs.send_message(QueueUrl=url, MessageBody="b", MessageAttributes=after)
    (message,) = receive(sqs, url, MessageAttributeNames=["Tally.FencingToken"])
    assert message["Body"] == "a" and int(message["MessageAttributes"]["Tally.FencingToken"]["StringValue"]) > 0
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    (message,) = receive(sqs, url, WaitTimeSeconds=5)
    assert message["Body"] == "b"
    unknown = {"Tally.After": text("batch:none")}
    assert code_of(sqs.send_message, QueueUrl=url, MessageBody="c", MessageAttributes=unknown) == (
        "DependencyDoesNotExist", 400)


def test_a_batch(sqs, daemon):
    jobs = sqs.create_queue(QueueName="jobs")["QueueUrl"]
    results = sqs.create_queue(QueueName="results")["QueueUrl"]
    with Connection(daemon.port) as tally:
        tally.ok("Tally.CreateBatch", {"BatchId": "b", "Total": 5, "OnComplete": {"QueueUrl": results}})
        entries = [{"Id": str(i), "MessageBody": "unit", "MessageAttributes": {"Tally.Batch": text("b")}}
                   for i in range(5)]
        sqs.send_message_batch(QueueUrl=jobs, Entries=entries)
        for message in receive(sqs, jobs):
            sqs.delete_message(QueueUrl=jobs, ReceiptHandle=message["ReceiptHandle"])
        (completed,) = receive(sqs, results, MessageAttributeNames=["All"], WaitTimeSeconds=5)
        assert completed["MessageAttributes"]["Tally.Batch.Completed"] == text("b")
        assert json.loads(completed["Body"])["succeeded"] == 5
        assert tally.ok("Tally.DescribeBatch", {"BatchId": "b"})["CompletionMessageId"] == completed["MessageId"]


def test_errors_have_names(sqs):
    url = sqs.create_queue(QueueName="q", Attributes={"MaximumMessageSize": "1024"})["QueueUrl"]
    names = {
        "AWS.SimpleQueueService.NonExistentQueue": (sqs.send_message, {"QueueUrl": url + "x", "MessageBody": "a"}, 400),
        "QueueAlreadyExists": (sqs.create_queue, {"QueueName": "q", "Attributes": {"DelaySeconds": "1"}}, 400),
        "InvalidAttributeName": (sqs.get_queue_attributes, {"QueueUrl": url, "AttributeNames": ["Nonsense"]}, 400),
        "InvalidAttributeValue": (
            sqs.set_queue_attributes, {"QueueUrl": url, "Attributes": {"DelaySeconds": "901"}}, 400),
        "InvalidMessageContents": (sqs.send_message, {"QueueUrl": url, "MessageBody": "\1"}, 400),
        "InvalidParameterValue": (sqs.send_message, {"QueueUrl": url, "MessageBody": "x" * 1025}, 400),
        "AWS.SimpleQueueService.EmptyBatchRequest": (sqs.send_message_batch, {"QueueUrl": url, "Entries": []}, 400),
        "ReceiptHandleIsInvalid": (sqs.delete_message, {"QueueUrl": url, "ReceiptHandle": "garbage"}, 404),
        "RequestTooLarge": (sqs.send_message, {"QueueUrl": url, "MessageBody": "x" * (9 << 20)}, 413),
    }
    for name, (call, parameters, status) in names.items():
        assert code_of(call, **parameters) == (name, status)
    with pytest.raises(sqs.exceptions.ReceiptHandleIsInvalid):
        sqs.delete_message(QueueUrl=url, ReceiptHandle="garbage")
