"""GET and POST /_aws/sqs/messages, as users of LocalStack ask for what is in a queue: nothing is received."""

import json
import urllib.parse
import xml.etree.ElementTree as tree

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

PATH = "/_aws/sqs/messages"
JSON = {"Accept": "application/json"}
NO_QUEUE = "AWS.SimpleQueueService.NonExistentQueue"


class Endpoint:
    def __init__(self, daemon, key="test", secret="test"):
        self.daemon, self.key, self.secret = daemon, key, secret
        self.sqs = self.client(daemon.endpoint)

    def client(self, endpoint):
        return boto3.client("sqs", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id=self.key,
                            aws_secret_access_key=self.secret)

    def queue(self, name, *bodies, group=None, **attributes):
        url = self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        for body in bodies:
            self.sqs.send_message(QueueUrl=url, MessageBody=body, **({"MessageGroupId": group} if group else {}))
        return url

    def get(self, path=PATH, headers=None, signed=False, **params):
        query = f"{path}?{urllib.parse.urlencode(params)}" if params else path
        headers = dict(JSON if headers is None else headers)
        if signed:
            request = AWSRequest("GET", self.daemon.endpoint + query, headers=headers)
            SigV4Auth(Credentials(self.key, self.secret), "sqs", "us-east-1").add_auth(request)
            headers = dict(request.headers.items())
        status, _, body = self.daemon.request("GET", query, headers=headers)
        return status, body.decode()

    def messages(self, **params):
        """As LocalStack's users read it: a list, one message, or nothing."""
        status, body = self.get(**params)
        assert status == 200, body
        result = json.loads(body)["ReceiveMessageResponse"]["ReceiveMessageResult"]
        found = (result or {}).get("Message", [])
        return found if isinstance(found, list) else [found]

    def refused(self, **params):
        status, body = self.get(**params)
        error = json.loads(body)["ErrorResponse"]["Error"]
        return status, error["Code"], error["Message"]


def bodies(messages):
    return [message["Body"] for message in messages]


def attributes(message):
    return {row["Name"]: row["Value"] for row in message["Attribute"]}


@pytest.fixture
def endpoint(daemon):
    return Endpoint(daemon)


def test_messages_are_seen_and_stay_as_they_are(endpoint):
    url = endpoint.queue("q", "message-1", "message-2")
    for _ in range(5):
        first, second = endpoint.messages(QueueUrl=url)
        assert (first["Body"], first["MD5OfBody"]) == ("message-1", "3d6b824fd8c1520e9a047d21fee6fb1f")
        known = attributes(first)
        assert (known["SenderId"], known["ApproximateReceiveCount"]) == ("000000000000", "0")
        assert known["ApproximateFirstReceiveTimestamp"] == "0" and int(known["SentTimestamp"]) > 1.7e12
    (received,) = endpoint.sqs.receive_message(QueueUrl=url, AttributeNames=["All"])["Messages"]
    assert (received["Body"], received["Attributes"]["ApproximateReceiveCount"]) == ("message-1", "1")
    with pytest.raises(ClientError, match="ReceiptHandleIsInvalid"):
        endpoint.sqs.delete_message(QueueUrl=url, ReceiptHandle=second["ReceiptHandle"])
    endpoint.sqs.purge_queue(QueueUrl=url)
    assert json.loads(endpoint.get(QueueUrl=url)[1])["ReceiveMessageResponse"]["ReceiveMessageResult"] is None


def test_messages_in_flight_and_delayed_ones_are_seen_where_they_are_asked_for(endpoint):
    url = endpoint.queue("q", "taken", "ready")
    endpoint.sqs.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=600)
    endpoint.sqs.receive_message(QueueUrl=url)
    assert bodies(endpoint.messages(QueueUrl=url)) == ["ready"]
    assert bodies(endpoint.messages(QueueUrl=url, ShowInvisible=False, ShowDelayed="0")) == ["ready"]
    seen = {row["Body"]: attributes(row) for row in endpoint.messages(QueueUrl=url, ShowInvisible=True)}
    assert {body: row["IsVisible"] for body, row in seen.items()} == {"taken": "false", "ready": "true"}
    assert "IsDelayed" not in seen["ready"]
    seen = {row["Body"]: attributes(row)["IsDelayed"] for row in endpoint.messages(QueueUrl=url, ShowDelayed=1)}
    assert seen == {"ready": "false", "later": "true"}
    assert len(endpoint.messages(QueueUrl=url, ShowDelayed="TRUE", ShowInvisible="True")) == 3


def test_in_a_fifo_queue_what_stands_behind_a_message_in_flight_is_invisible_too(endpoint):
    url = endpoint.queue("q.fifo", "a1", "a2", group="a", FifoQueue="true", ContentBasedDeduplication="true")
    endpoint.queue("q.fifo", "b1", "b2", group="b", FifoQueue="true", ContentBasedDeduplication="true")
    assert bodies(endpoint.messages(QueueUrl=url)) == ["a1", "a2", "b1", "b2"]
    endpoint.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=1)
    behind = endpoint.messages(QueueUrl=url)
    assert bodies(behind) == ["b1", "b2"] and attributes(behind[0])["MessageGroupId"] == "b"
    assert len(attributes(behind[0])["SequenceNumber"]) == 20 and "MessageDeduplicationId" in attributes(behind[0])
    assert bodies(endpoint.messages(QueueUrl=url, ShowInvisible=True)) == ["a1", "a2", "b1", "b2"]


def test_every_way_to_ask_finds_the_queue(endpoint):
    url = endpoint.queue("q", "one")
    assert bodies(endpoint.messages(path=f"{PATH}/us-east-1/000000000000/q")) == ["one"]
    assert bodies(endpoint.messages(QueueUrl=url, Action="ReceiveMessage")) == ["one"]
    form = {**JSON, "Content-Type": "application/x-www-form-urlencoded"}
    status, _, body = endpoint.daemon.request("POST", PATH, urllib.parse.urlencode({"QueueUrl": url}), form)
    assert status == 200 and b'"Body":"one"' in body
    looking = endpoint.client(endpoint.daemon.endpoint + PATH)
    for _ in range(2):
        (message,) = looking.receive_message(QueueUrl=url, MaxNumberOfMessages=1)["Messages"]
        assert (message["Body"], message["Attributes"]["ApproximateReceiveCount"]) == ("one", "0")
    with pytest.raises(ClientError, match="it takes no other action than ReceiveMessage") as failure:
        looking.send_message(QueueUrl=url, MessageBody="two")
    assert failure.value.response["Error"]["Code"] == "InvalidAction"
    assert bodies(endpoint.messages(QueueUrl=url)) == ["one"]


def test_xml_is_what_receive_message_answers(endpoint):
    hostile = "<Message>&amp;]]>\r\n\ufffd\U0001f600\"'"
    url = endpoint.queue("q")
    endpoint.sqs.send_message(QueueUrl=url, MessageBody=hostile, MessageAttributes={
        "n": {"DataType": "Number", "StringValue": "1"}, "b": {"DataType": "Binary", "BinaryValue": b"\0<"}})
    status, text = endpoint.get(headers={}, QueueUrl=url)
    root = tree.fromstring(text)
    space = "{http://queue.amazonaws.com/doc/2012-11-05/}"
    assert status == 200 and root.tag == f"{space}ReceiveMessageResponse"
    (message,) = root.iter(f"{space}Message")
    assert message.find(f"{space}Body").text == hostile
    names = [row.find(f"{space}Name").text for row in message.findall(f"{space}MessageAttribute")]
    assert sorted(names) == ["b", "n"]
    (seen,) = endpoint.messages(QueueUrl=url)
    assert seen["Body"] == hostile and [row["Name"] for row in seen["MessageAttribute"]] == ["b", "n"]


def test_what_is_wrong_is_said(endpoint):
    url = endpoint.queue("q")
    assert endpoint.refused()[:2] == (400, NO_QUEUE)
    assert "QueueUrl is missing or empty" in endpoint.refused()[2]
    assert endpoint.refused(QueueUrl="")[:2] == (400, NO_QUEUE)
    assert endpoint.refused(QueueUrl="http://localhost:4566/nonsense")[:2] == (400, NO_QUEUE)
    assert "has no queue 'none'" in endpoint.refused(QueueUrl="http://h/000000000000/none")[2]
    for path in ["/", "//", "/us-east-1", "/us-east-1/000000000000/none", "/us-east-1/111111111111/q", "/%00", "s"]:
        status, body = endpoint.get(PATH + path)
        assert status in (400, 404) and ("ErrorResponse" in body or path == "s"), (path, body)
    for name in ["ShowInvisible", "ShowDelayed"]:
        status, code, text = endpoint.refused(QueueUrl=url, **{name: "perhaps"})
        assert (status, code) == (400, "InvalidParameterValue") and "It must be true or false." in text
    assert endpoint.refused(QueueUrl=url, MaxResults=0)[1] == "InvalidParameterValue"
    assert endpoint.refused(QueueUrl=url, NextToken="1.2")[1] == "InvalidParameterValue"
    assert endpoint.refused(QueueUrl=url, Action="DeleteQueue")[1] == "InvalidAction"
    status, body = endpoint.get(headers={}, QueueUrl=url, Action="DeleteQueue")
    assert status == 400 and "<Code>InvalidAction</Code>" in body
    for target in ["AmazonSQS.DeleteQueue", "Tally.ListMessages", "ReceiveMessage"]:
        status, _, body = endpoint.daemon.request("POST", PATH, json.dumps({"QueueUrl": url}), {"X-Amz-Target": target})
        assert status == 400 and b"UnknownOperationException" in body
    status, body = endpoint.get(f"{PATH}?QueueUrl=%ff%fe")
    assert status == 400
    assert endpoint.get(headers={**JSON, "Origin": "https://evil.example"}, QueueUrl=url)[0] == 403
    assert endpoint.get(headers={**JSON, "Host": "evil.example"}, QueueUrl=url)[0] == 403


def test_a_page_is_bounded_and_the_next_one_follows(endpoint):
    url = endpoint.queue("q")
    for begin in range(0, 50, 10):
        entries = [{"Id": str(i), "MessageBody": str(begin + i)} for i in range(10)]
        endpoint.sqs.send_message_batch(QueueUrl=url, Entries=entries)
    first = json.loads(endpoint.get(QueueUrl=url, MaxResults=30)[1])
    first = first["ReceiveMessageResponse"]["ReceiveMessageResult"]
    second = json.loads(endpoint.get(QueueUrl=url, NextToken=first["NextToken"])[1])
    second = second["ReceiveMessageResponse"]["ReceiveMessageResult"]
    assert len(first["Message"]) == 30 and "NextToken" not in second
    assert bodies([*first["Message"], *second["Message"]]) == [str(i) for i in range(50)]
    large = endpoint.queue("large", *["x" * 700_000] * 3)
    (row,) = endpoint.messages(QueueUrl=large)
    assert len(row["Body"]) == 700_000


CREDENTIALS = """
BOSS    boss-secret    000000000000  read,write,admin
READER  reader-secret  000000000000  read
WRITER  writer-secret  000000000000  write,admin
SHOP    shop-secret    000000000000  read,write,admin  queues=shop-*
GUEST   guest-secret   111111111111  read,write,admin
"""


def test_where_there_are_credentials_a_reader_must_sign(daemon_factory, tmp_path):
    file = tmp_path / "credentials"
    file.write_text(CREDENTIALS)
    daemon = daemon_factory("--credentials", file).start()
    boss, reader, writer, shop, guest = (
        Endpoint(daemon, key, f"{key.lower()}-secret") for key in ["BOSS", "READER", "WRITER", "SHOP", "GUEST"])
    url = boss.queue("q", "secret body")
    status, code, _ = boss.refused(QueueUrl=url)
    assert status in (400, 403), code
    assert bodies(reader.messages(QueueUrl=url, signed=True)) == ["secret body"]
    for other in [writer, shop, guest, Endpoint(daemon, "READER", "wrong")]:
        status, body = other.get(QueueUrl=url, signed=True)
        assert status in (400, 403) and "secret body" not in body, body
    looking = reader.client(daemon.endpoint + PATH)
    assert bodies(looking.receive_message(QueueUrl=url)["Messages"]) == ["secret body"]
    with pytest.raises(ClientError, match="AccessDenied"):
        writer.client(daemon.endpoint + PATH).receive_message(QueueUrl=url)
    # A dead letter does not tell where it failed to whom that queue is out of reach.
    dead = boss.queue("shop-dead")
    policy = json.dumps({"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:shop-dead", "maxReceiveCount": 1})
    failing = boss.queue("failing", "letter", RedrivePolicy=policy, VisibilityTimeout="0")
    for _ in range(2):
        boss.sqs.receive_message(QueueUrl=failing)
    assert "DeadLetterQueueSourceArn" in attributes(boss.messages(QueueUrl=dead, signed=True)[0])
    assert "DeadLetterQueueSourceArn" not in attributes(shop.messages(QueueUrl=dead, signed=True)[0])
