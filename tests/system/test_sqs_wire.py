"""The two wire forms of SQS: routing, paths, what replies leave out, and that a request means the same in either
(reference: SQS, 4 and Q1 to Q14)."""

import base64
import hashlib
import json
import urllib.parse
import xml.etree.ElementTree as tree

import pytest
from sqs import Query, Refused, Sqs, arn, form, number, read, string
from wire import Connection

ACCOUNT = "000000000000"


@pytest.fixture(params=["json", "query"])
def sqs(daemon, request):
    client = Sqs(daemon.port, request.param)
    yield client
    client.close()


@pytest.fixture
def query(daemon):
    client = Query(daemon.port)
    yield client
    client.close()


def post(daemon, path, body, **headers):
    status, head, answer = daemon.request("POST", path, body, headers)
    return status, head, answer


JSON_TYPE = {"Content-Type": "application/x-amz-json-1.0"}


# --- JSON: what makes it JSON -----------------------------------------------------------------------------------------


def test_Q1_a_target_makes_it_json_whatever_the_path_and_the_case(daemon):
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
    url = f"{daemon.endpoint}/{ACCOUNT}/q"
    ways = [
        ("/", {"X-Amz-Target": "AmazonSQS.SendMessage", "Content-Type": "application/x-amz-json-1.0"}),
        (f"/{ACCOUNT}/q", {"X-Amz-Target": "AmazonSQS.SendMessage", "Content-Type": "application/x-amz-json-1.0"}),
        (f"/{ACCOUNT}/other", {"x-amz-target": "AmazonSQS.SendMessage", "content-type": "application/x-amz-json-1.0"}),
        ("/some/path?Action=ListQueues", {"X-AMZ-TARGET": "AmazonSQS.SendMessage"}),
        ("/", {"x-amz-target": "AmazonSQS.SendMessage", "Content-Type": "Application/X-Amz-Json-1.0; charset=UTF-8"}),
        ("/", {"x-amz-target": "AmazonSQS.SendMessage", "x-amzn-query-mode": "true"}),
    ]
    for path, headers in ways:
        status, head, answer = daemon.request("POST", path, json.dumps({"QueueUrl": url, "MessageBody": "a"}), headers)
        assert status == 200 and head["Content-Type"] == "application/x-amz-json-1.0", (path, headers, answer)
        assert set(json.loads(answer)) == {"MessageId", "MD5OfMessageBody"}
    assert daemon.call("AmazonSQS.GetQueueAttributes", {"QueueUrl": url, "AttributeNames": ["All"]})[1]["Attributes"][
        "ApproximateNumberOfMessages"
    ] == str(len(ways))


def test_Q3_a_json_client_gets_json_whatever_goes_wrong(daemon_factory):
    daemon = daemon_factory("--body-max", "1MiB", "--in-flight-max", "1").start()
    headers = {**JSON_TYPE, "X-Amz-Target": "AmazonSQS.SendMessage"}
    for method, path, body, more, status, kind in [
        ("POST", "/", b"{", headers, 400, "com.amazon.coral.service#SerializationException"),
        ("POST", "/nowhere/at/all", b"{}", headers, 400, "com.amazonaws.sqs#QueueDoesNotExist"),
        ("POST", "/", b"{}", {**headers, "X-Amz-Target": "AmazonSQS.Nonsense"}, 400,
         "com.amazon.coral.service#UnknownOperationException"),
        ("POST", "/", b"{}", {**headers, "X-Amz-Target": "Nonsense"}, 400,
         "com.amazon.coral.service#UnknownOperationException"),
        ("PUT", "/", b"{}", headers, 404, "com.tally#NotFound"),
        ("POST", "/", b"x" * (2 << 20), headers, 413, "com.tally#RequestTooLarge"),
    ]:
        answer = daemon.request(method, path, body, more)
        assert answer[0] == status and answer[1]["Content-Type"] == "application/x-amz-json-1.0", answer
        told = json.loads(answer[2])
        assert told["__type"] == kind and told["message"]
        assert answer[1]["x-amzn-query-error"].count(";") == 1
        assert answer[1]["x-amzn-RequestId"]
    assert daemon.stop() == 0


def test_Q3_a_query_client_gets_xml_whatever_goes_wrong(daemon_factory):
    daemon = daemon_factory("--body-max", "1MiB").start()
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    for method, path, body, status, code in [
        ("POST", "/", b"Action=SendMessage&MessageBody=%", 400, "MalformedInput"),
        ("POST", "/", b"Action=SendMessage&MessageBody=a", 400, "AWS.SimpleQueueService.NonExistentQueue"),
        ("POST", "/nowhere/at/all", b"Action=SendMessage&MessageBody=a", 400,
         "AWS.SimpleQueueService.NonExistentQueue"),
        ("POST", "/", b"Action=Nonsense", 400, "InvalidAction"),
        ("GET", "/?Action=Nonsense", None, 400, "InvalidAction"),
        ("POST", "/", b"Action=SendMessage&MessageBody=" + b"x" * (2 << 20), 413, "RequestTooLarge"),
    ]:
        answer = daemon.request(method, path, body, headers)
        assert answer[0] == status and answer[1]["Content-Type"] == "text/xml", (method, path, answer)
        root = tree.fromstring(answer[2])
        assert root.tag.endswith("}ErrorResponse")
        assert root.findtext(".//{*}Code") == code and root.findtext(".//{*}Message")
        assert root.findtext(".//{*}RequestId") == answer[1]["x-amzn-RequestId"]
    assert daemon.stop() == 0


def test_Q4_what_is_empty_is_absent(sqs):
    url = sqs.make("q")
    assert sqs.call("ReceiveMessage", QueueUrl=url) == {}
    assert sqs.call("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=1) == {}
    assert sqs.call("ListQueues", QueueNamePrefix="none") == {}
    assert sqs.call("GetQueueAttributes", QueueUrl=url) == {}
    assert sqs.call("GetQueueAttributes", QueueUrl=url, AttributeNames=["RedrivePolicy"]) == {}
    assert set(sqs.call("SendMessage", QueueUrl=url, MessageBody="a")) == {"MessageId", "MD5OfMessageBody"}
    sent = sqs.call("SendMessageBatch", QueueUrl=url, Entries=[{"Id": "a", "MessageBody": "b"}])
    assert set(sent) == {"Successful"} and set(sent["Successful"][0]) == {"Id", "MessageId", "MD5OfMessageBody"}
    failed = sqs.call("SendMessageBatch", QueueUrl=url, Entries=[{"Id": "a", "MessageBody": "\1"}])
    assert set(failed) == {"Failed"} and set(failed["Failed"][0]) == {"Id", "SenderFault", "Code", "Message"}
    message = sqs.receive(url, 1)[0]
    assert set(message) == {"MessageId", "ReceiptHandle", "MD5OfBody", "Body"}
    for action, more in [
        ("ChangeMessageVisibility", {"ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 30}),
        ("DeleteMessage", {"ReceiptHandle": message["ReceiptHandle"]}),
        ("SetQueueAttributes", {"Attributes": {"DelaySeconds": "0"}}),
        ("PurgeQueue", {}),
        ("DeleteQueue", {}),
    ]:
        answer = sqs.wire.send(action, {"QueueUrl": url, **more})
        assert answer.status == 200
        if sqs.form == "json":
            assert answer.body == b"" and answer.header("content-length") == "0"
        else:
            assert [part.tag.split("}")[1] for part in tree.fromstring(answer.body)] == ["ResponseMetadata"]


def test_Q5_attributes_come_only_when_there_are_some_and_they_are_asked_for(sqs):
    sqs.make("q")
    sqs.send("q", "plain")
    sqs.send("q", "rich", MessageAttributes={"a": string("b")})
    plain = {"MessageId", "ReceiptHandle", "MD5OfBody", "Body"}
    for message in sqs.receive("q", VisibilityTimeout=0):
        assert set(message) == plain
    for names in [[], ["none"], ["none.*"]]:
        assert ([set(message) for message in sqs.receive("q", VisibilityTimeout=0, MessageAttributeNames=names)]
                == [plain] * 2)
    first, second = sqs.receive("q", VisibilityTimeout=0, MessageAttributeNames=["a"])
    assert set(first) == plain and set(second) == plain | {"MessageAttributes", "MD5OfMessageAttributes"}


# --- digests, and bytes that must come back as they were --------------------------------------------------------------


def md5(body):
    return hashlib.md5(body if isinstance(body, bytes) else body.encode()).hexdigest()


def digest(attributes):
    """MD5OfMessageAttributes, computed anew from the reference."""
    whole = b""
    for name, value in sorted(attributes.items()):
        is_binary = "BinaryValue" in value
        content = base64.b64decode(value["BinaryValue"]) if is_binary else value["StringValue"].encode()
        for part in (name.encode(), value["DataType"].encode()):
            whole += len(part).to_bytes(4, "big") + part
        whole += (b"\2" if is_binary else b"\1") + len(content).to_bytes(4, "big") + content
    return md5(whole)


RICH = {
    "text": string("Grüße\r\n<&>\"' 🎉"),
    "count": {"DataType": "Number.int", "StringValue": "-12.5e3"},
    "blob": {"DataType": "Binary.png", "BinaryValue": base64.b64encode(bytes(range(256))).decode()},
    "o.name-_9": string("x"),
}


def test_Q6_digests_of_bodies_and_attributes(sqs):
    sqs.make("q")
    example = {"blob": {"DataType": "Binary", "BinaryValue": "AQID"}, "color": string("blue"), "count": number("3")}
    assert digest(example) == "d838729972a4b70e2d2acd9d59ac847c"
    for body, attributes in [("hello", example), ("Grüße 🎉", RICH)]:
        sent = sqs.send("q", body, MessageAttributes=attributes)
        assert sent["MD5OfMessageBody"] == md5(body) and sent["MD5OfMessageAttributes"] == digest(attributes)
        entry = {"Id": "e", "MessageBody": body, "MessageAttributes": attributes}
        (batch,) = sqs.call("SendMessageBatch", QueueUrl="q", Entries=[entry])["Successful"]
        assert (batch["MD5OfMessageBody"], batch["MD5OfMessageAttributes"]) == (md5(body), digest(attributes))
        for message in sqs.receive("q", MessageAttributeNames=[*attributes]):
            assert message["Body"] == body and message["MD5OfBody"] == md5(body)
            assert message["MessageAttributes"] == attributes
            assert message["MD5OfMessageAttributes"] == digest(attributes)
            sqs.delete("q", message)
    sqs.send("q", "hello", MessageAttributes=example)
    (message,) = sqs.receive("q", VisibilityTimeout=0, MessageAttributeNames=["col.*", "blob"])
    part = {name: example[name] for name in ["blob", "color"]}
    assert message["MessageAttributes"] == part and message["MD5OfMessageAttributes"] == digest(part)
    (message,) = sqs.receive("q", VisibilityTimeout=0, MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == example and message["MD5OfMessageAttributes"] == digest(example)
    (message,) = sqs.receive("q", VisibilityTimeout=0, MessageAttributeNames=["All", "Tally.*"])
    assert set(message["MessageAttributes"]) == {*example, "Tally.FencingToken"}
    assert message["MD5OfMessageAttributes"] == digest(message["MessageAttributes"])


TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


def test_Q7_the_trace_header_is_a_system_attribute(sqs):
    sqs.make("q")
    system = {"AWSTraceHeader": string(TRACE)}
    sent = sqs.send("q", "a", MessageSystemAttributes=system)
    assert sent["MD5OfMessageSystemAttributes"] == "5ae4d5d7636402d80f4eb6d213245a88"
    assert "MD5OfMessageAttributes" not in sent
    entry = {"Id": "e", "MessageBody": "b", "MessageSystemAttributes": system}
    (batch,) = sqs.call("SendMessageBatch", QueueUrl="q", Entries=[entry])["Successful"]
    assert batch["MD5OfMessageSystemAttributes"] == "5ae4d5d7636402d80f4eb6d213245a88"
    for names in [{"MessageSystemAttributeNames": ["All"]}, {"AttributeNames": ["AWSTraceHeader"]}]:
        for message in sqs.receive("q", VisibilityTimeout=0, MessageAttributeNames=["All"], **names):
            assert message["Attributes"]["AWSTraceHeader"] == TRACE
            assert "MessageAttributes" not in message
    for bad in [{"Other": string("x")}, {"AWSTraceHeader": number("1")}]:
        sqs.refused("InvalidParameterValue", None, "SendMessage", QueueUrl="q", MessageBody="a",
                    MessageSystemAttributes=bad)


def test_Q7_the_trace_header_of_http_counts_where_none_was_sent(daemon):
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
    headers = {"X-Amzn-Trace-Id": TRACE}
    daemon.request("POST", "/", json.dumps({"QueueUrl": "q", "MessageBody": "a"}),
                   {"X-Amz-Target": "AmazonSQS.SendMessage", **headers})
    daemon.request("POST", f"/{ACCOUNT}/q", form("SendMessage", {"MessageBody": "b"}), headers)
    body = {"QueueUrl": "q", "MaxNumberOfMessages": 10, "AttributeNames": ["All"]}
    messages = daemon.call("AmazonSQS.ReceiveMessage", body)[1]["Messages"]
    assert [message["Attributes"]["AWSTraceHeader"] for message in messages] == [TRACE] * 2


BODIES = [
    "\r",
    "\r\n\n\r",
    "\"quoted\" 'single' &quot; &amp; &#13; <![CDATA[x]]> </Body> <!-- -->",
    " leading and trailing \t",
    "+%2B%%20&=;a=b&c",
    "🎉 Grüße \u0085\u2028 \ud7ff\ue000\ufffd\U00010000\U0010ffff",
    "\t\n\r \x7f\x80\x9f",
    "{\"json\": \"\\u0000\"}",
]


def test_Q8_bodies_come_back_byte_for_byte_in_the_other_form(sqs):
    """Sent in one form, received in the other, and in the same."""
    sqs.make("q", VisibilityTimeout="60")
    other = sqs.other()
    bodies = [*BODIES, "x" * 1048576, "ä\r" * 349525, "\r" * 1048576]
    for body in bodies:
        assert sqs.send("q", body)["MD5OfMessageBody"] == md5(body)
        (message,) = sqs.receive("q", VisibilityTimeout=0)
        assert message["Body"] == body and message["MD5OfBody"] == md5(body)
        (message,) = other.receive("q")
        assert message["Body"] == body and message["MD5OfBody"] == md5(body)
        other.delete("q", message)
    values = {f"a{i}": string(body) for i, body in enumerate(BODIES[:5])}
    sqs.send("q", "a", MessageAttributes=values)
    (message,) = other.receive("q", MessageAttributeNames=["a*", "a.*"])
    assert message["MessageAttributes"] == values
    other.close()


# --- Query: fields, methods, paths ------------------------------------------------------------------------------------


# Without credentials nobody checks it, but a GET that does more than read must have one.
SIGNED = (
    "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=any%2F20260101%2Fus-east-1%2Fsqs%2Faws4_request"
    "&X-Amz-Date=20260101T000000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=0"
)


def test_Q9_get_and_post_to_the_root_or_the_queue_mean_the_same(query):
    url = query.call("CreateQueue", QueueName="q")["QueueUrl"]
    path = urllib.parse.urlsplit(url).path
    body = form("SendMessage", {"MessageBody": "a b+c"})
    with_url = form("SendMessage", {"MessageBody": "a b+c", "QueueUrl": url})
    for answer in [
        query.post(body, path),
        query.post(with_url),
        query.post(with_url, "/000000000000/none"),  # the field beats the path
        query.get(f"{body}&{SIGNED}", path),
        query.get(f"{with_url}&{SIGNED}"),
        query.post("MessageBody=a+b%2Bc", f"{path}?Action=SendMessage&Version=2012-11-05"),
        query.post("", f"{path}?{body}"),
        query.post(body, f"/queue/q"),
        query.post(body, f"/queue/eu-west-1/{ACCOUNT}/q"),
    ]:
        assert read("SendMessage", answer)["MD5OfMessageBody"] == md5("a b+c")
    messages = query.call("ReceiveMessage", QueueUrl="q", MaxNumberOfMessages=10)["Messages"]
    assert [message["Body"] for message in messages] == ["a b+c"] * 9
    # Whatever a signed GET has besides is no parameter.
    handle = urllib.parse.quote(messages[0]["ReceiptHandle"])
    answer = query.get(f"Action=DeleteMessage&ReceiptHandle={handle}&{SIGNED}", path)
    assert read("DeleteMessage", answer) == {}


def test_Q9_forms_of_old_clients(query):
    """kombu leaves out the number of a list or map of one; botocore writes an empty list by its member's name."""
    created = read("CreateQueue", query.post(
        "Action=CreateQueue&QueueName=q&DefaultVisibilityTimeout=9&Attribute.Name=DelaySeconds&Attribute.Value=0"))
    assert created["QueueUrl"].endswith("/q")
    path = f"/{ACCOUNT}/q"
    assert read("SetQueueAttributes",
                query.post("Action=SetQueueAttributes&Attribute.Name=VisibilityTimeout&Attribute.Value=7", path)) == {}
    shown = read("GetQueueAttributes", query.post("Action=GetQueueAttributes&AttributeName=VisibilityTimeout", path))
    assert shown == {"Attributes": {"VisibilityTimeout": "7"}}
    assert "QueueArn" in read("GetQueueAttributes",
                              query.get("Action=GetQueueAttributes&AttributeName=All", path))["Attributes"]
    read("SendMessage", query.post("Action=SendMessage&MessageBody=a", path))
    answer = query.get(
        "Action=ReceiveMessage&MaxNumberOfMessages=1&AttributeName=ApproximateReceiveCount&VisibilityTimeout=0&"
        + SIGNED, path)
    assert read("ReceiveMessage", answer)["Messages"][0]["Attributes"] == {"ApproximateReceiveCount": "1"}
    answer = query.post("Action=ReceiveMessage&AttributeName.1=SentTimestamp&AttributeName.2=SenderId"
                        "&MessageAttributeNames=&AttributeNames=", path)
    assert set(read("ReceiveMessage", answer)["Messages"][0]["Attributes"]) == {"SentTimestamp", "SenderId"}
    for action in ["SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"]:
        with pytest.raises(Refused) as caught:
            read(action, query.post(f"Action={action}&Entries=", path))
        assert caught.value.code == "AWS.SimpleQueueService.EmptyBatchRequest"
    assert read("GetQueueAttributes", query.post("Action=GetQueueAttributes&AttributeNames=", path)) == {}


def test_Q9_entries_and_attributes_by_number(query):
    query.call("CreateQueue", QueueName="q")
    name = "SendMessageBatchRequestEntry"
    fields = [f"{name}.{n}.{key}={value}{n}" for n in [10, 2, 1] for key, value in [("MessageBody", "m"), ("Id", "e")]]
    fields += [
        f"{name}.2.MessageAttribute.2.Name=b",
        f"{name}.2.MessageAttribute.2.Value.DataType=Binary",
        f"{name}.2.MessageAttribute.2.Value.BinaryValue=AQID",
        f"{name}.2.MessageAttribute.1.Name=n",
        f"{name}.2.MessageAttribute.1.Value.StringValue=3",
        f"{name}.2.MessageAttribute.1.Value.DataType=Number",
        f"{name}.2.DelaySeconds=0",
    ]
    sent = read("SendMessageBatch", query.post("&".join(["Action=SendMessageBatch", *fields]), f"/{ACCOUNT}/q"))
    assert [entry["Id"] for entry in sent["Successful"]] == ["e1", "e2", "e10"]
    messages = query.call("ReceiveMessage", QueueUrl="q", MaxNumberOfMessages=10,
                          MessageAttributeNames=["b", "n"])["Messages"]
    assert [message["Body"] for message in messages] == ["m1", "m2", "m10"]
    assert messages[1]["MessageAttributes"] == {"b": {"DataType": "Binary", "BinaryValue": "AQID"}, "n": number("3")}


def everything_once(sqs):
    """Each action in one plausible order; what it answered, with ids and times left out."""
    url = sqs.make("everything", VisibilityTimeout="60", DelaySeconds="0")
    dead = sqs.make("everything-dead")
    sqs.call("SetQueueAttributes", QueueUrl=url, Attributes={
        "RedrivePolicy": json.dumps({"deadLetterTargetArn": arn("everything-dead"), "maxReceiveCount": 5})})
    shown = sqs.attributes(url)
    for name in ["CreatedTimestamp", "LastModifiedTimestamp"]:
        assert shown.pop(name).isdigit()
    told = [shown, sqs.call("GetQueueUrl", QueueName="everything")["QueueUrl"] == url]
    told.append(sqs.call("ListQueues", QueueNamePrefix="everything", MaxResults=1)["QueueUrls"] == [url])
    sent = sqs.send(url, "a", MessageAttributes=RICH)
    told.append({name: value for name, value in sent.items() if name != "MessageId"})
    batch = sqs.call("SendMessageBatch", QueueUrl=url,
                     Entries=[{"Id": f"e{i}", "MessageBody": f"b{i}" if i else "\1"} for i in range(3)])
    told.append([(entry["Id"], entry["MD5OfMessageBody"]) for entry in batch["Successful"]])
    told.append(batch["Failed"])
    messages = sqs.receive(url, MessageAttributeNames=["text", "count", "blob"], AttributeNames=["All"])
    for message in messages:
        told.append({name: value for name, value in message.items()
                     if name not in ("MessageId", "ReceiptHandle", "Attributes")})
        told.append(sorted(message.get("Attributes", {})))
    handles = [{"Id": f"h{i}", "ReceiptHandle": message["ReceiptHandle"]} for i, message in enumerate(messages)]
    told.append(sqs.call("ChangeMessageVisibilityBatch", QueueUrl=url,
                         Entries=[{**entry, "VisibilityTimeout": 90} for entry in handles]))
    sqs.change(url, messages[0], 30)
    sqs.delete(url, messages[0])
    told.append(
        sqs.call("DeleteMessageBatch", QueueUrl=url, Entries=[*handles[1:], {"Id": "bad", "ReceiptHandle": "garbage"}]))
    told.append(sqs.counts(url))
    sqs.call("PurgeQueue", QueueUrl=url)
    sqs.call("DeleteQueue", QueueUrl=url)
    sqs.call("DeleteQueue", QueueUrl=dead)
    told.append(sqs.call("ListQueues", QueueNamePrefix="everything"))
    return told


def test_Q9_each_action_has_the_same_effect_in_either_form(daemon):
    clients = [Sqs(daemon.port, form) for form in ["json", "query"]]
    assert everything_once(clients[0]) == everything_once(clients[1])
    for client in clients:
        client.close()


def test_Q10_what_a_path_means_in_query(query):
    for name in ["q", "other"]:
        query.call("CreateQueue", QueueName=name)
    path = f"/{ACCOUNT}/q"
    for action in ["CreateQueue&QueueName=new", "ListQueues", "CreateQueue%00&QueueName=new"]:
        with pytest.raises(Refused) as caught:
            read(action.split("&")[0], query.post(f"Action={action}", path))
        assert (caught.value.code, caught.value.status) == ("InvalidAction", 400)
    assert read("GetQueueUrl", query.post("Action=GetQueueUrl&QueueName=other", path))["QueueUrl"].endswith("/other")
    for method, where in [("get", "/"), ("get", path), ("post", "/"), ("post", path)]:
        answer = query.get("Version=2012-11-05", where) if method == "get" else query.post("Version=2012-11-05", where)
        assert answer.status == 404 and answer.body.startswith(b"<UnknownOperationException/>")
    with pytest.raises(Refused) as caught:
        read("FooBar", query.post("Action=FooBar", "/"))
    assert (caught.value.code, caught.value.message) == (
        "InvalidAction", "The action FooBar is not valid for this endpoint.")
    assert query.call("ListQueues")["QueueUrls"] == [
        "http://127.0.0.1/000000000000/other", "http://127.0.0.1/000000000000/q"]
    for odd in ["", "&&&", "=", "%41ction=ListQueues", "Action=ListQueues&Action=CreateQueue"]:
        answer = query.post(odd)
        assert answer.status == (404 if "ction" not in odd else 200), odd


def test_Q11_a_queue_url_is_one_that_this_client_can_use(daemon_factory):
    daemon = daemon_factory("--allow-host", "queue.example,sqs.eu-west-1.amazonaws.com").start()
    for host in ["127.0.0.1:1234", "queue.example", "sqs.eu-west-1.amazonaws.com"]:
        for path, body, headers in [
            ("/", json.dumps({"QueueName": "q"}), {"X-Amz-Target": "AmazonSQS.CreateQueue"}),
            ("/", json.dumps({"QueueName": "q"}), {"X-Amz-Target": "AmazonSQS.GetQueueUrl"}),
            ("/", form("CreateQueue", {"QueueName": "q"}), {}),
            ("/", form("GetQueueUrl", {"QueueName": "q"}), {}),
            ("/", form("ListQueues", {}), {}),
        ]:
            status, _, answer = daemon.request("POST", path, body, {**headers, "Host": host})
            assert status == 200 and f"http://{host}/{ACCOUNT}/q".encode() in answer, answer
    assert daemon.stop() == 0
    daemon = daemon_factory("--public-url", "https://queues.example:8443").start()
    for form_name in ["json", "query"]:
        client = Sqs(daemon.port, form_name)
        assert client.make("q") == f"https://queues.example:8443/{ACCOUNT}/q"
        assert client.send(client.make("q"), "a")["MessageId"]
        client.close()
    assert daemon.stop() == 0


def test_Q12_queue_urls_are_read_by_their_path(sqs):
    sqs.make("q")
    good = [
        "q",
        f"/{ACCOUNT}/q",
        f"http://127.0.0.1:1/{ACCOUNT}/q",
        f"https://sqs.eu-west-1.amazonaws.com/{ACCOUNT}/q",
        f"https://eu-west-1.queue.amazonaws.com/{ACCOUNT}/q",
        f"ftp://[::1]:99/{ACCOUNT}/q",
        "http://localhost:9324/queue/q",
        f"http://localhost:4566/queue/us-east-1/{ACCOUNT}/q",
        *(url + "/"
          for url in ["q", f"/{ACCOUNT}/q", f"http://127.0.0.1:1/{ACCOUNT}/q", "http://localhost:9324/queue/q"]),
    ]
    for url in good:
        assert sqs.send(url, "a")["MessageId"], url
    assert sqs.counts("q")[0] == len(good)
    text = ("The specified queue does not exist." if sqs.form == "json"
            else "The specified queue does not exist for this wsdl version.")
    missing, neither = ("The request names none: QueueUrl is missing or empty.",
                        f"is neither a queue's name nor its URL, which ends in /{ACCOUNT}/NAME.")
    for url, why in [
        *((url, f"Namespace {ACCOUNT} has no queue '{url}'.") for url in ["none", "Q", "q "]),
        (f"http://h/{ACCOUNT}/qq/", f"Namespace {ACCOUNT} has no queue 'qq'."),
        (f"http://h/{ACCOUNT}/q?x", f"Namespace {ACCOUNT} has no queue 'q?x'."),
        ("ä", f"Namespace {ACCOUNT} has no queue ''."),
        ("", missing),
        (None, missing),
        *((url, f"'{url}' {neither}")
          for url in ["http://nowhere", "http://nowhere/q", "/", "//", f"http://h/{ACCOUNT}/"]),
        ("http://127.0.0.1/111111111111/q",
         f"Its account is '111111111111', and this server has these namespaces: {ACCOUNT}."),
        (f"http://h/{ACCOUNT}/q/x", f"Its account is 'q', and this server has these namespaces: {ACCOUNT}."),
        (f"http://h/{ACCOUNT}/q//", f"Its account is 'q', and this server has these namespaces: {ACCOUNT}."),
    ]:
        refusal = sqs.refused("AWS.SimpleQueueService.NonExistentQueue", f"{text} {why}", "SendMessage", QueueUrl=url,
                              MessageBody="a")
        assert refusal.status == 400
    told = f"{text} Its account is '111111111111', and this server has these namespaces: {ACCOUNT}."
    sqs.refused("AWS.SimpleQueueService.NonExistentQueue", told, "GetQueueUrl", QueueName="q",
                QueueOwnerAWSAccountId="1" * 12)
    told = f"{text} Namespace {ACCOUNT} has no queue 'none'."
    sqs.refused("AWS.SimpleQueueService.NonExistentQueue", told, "GetQueueUrl", QueueName="none")


def test_Q13_what_is_no_request_is_malformed_input(daemon):
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
    with Connection(daemon.port) as line:
        for action in ["SendMessage", "ReceiveMessage", "ListQueues", "DeleteMessageBatch"]:
            for body in [b"{", b"[]", b'"text"', b"7", b"null", b"{} x", b'{"a":}', b"\xff", b'{"QueueUrl":"\\ud800"}',
                         b"Action=ListQueues"]:
                answer = line.call(f"AmazonSQS.{action}", body)
                assert answer.json()["__type"] == "com.amazon.coral.service#SerializationException", (action, body)
                assert answer.status == 400 and answer.header("x-amzn-query-error") == "MalformedInput;Sender"
        for name, value in [("MaxNumberOfMessages", "1"), ("WaitTimeSeconds", "0"), ("VisibilityTimeout", "0"),
                            ("VisibilityTimeout", True), ("QueueUrl", 7)]:
            answer = line.call("AmazonSQS.ReceiveMessage", {"QueueUrl": "q", name: value})
            assert answer.json()["__type"] == "com.amazon.coral.service#SerializationException", (
                name, value, answer.body)
    query = Query(daemon.port)
    for body in ["%", "a=%zz", "MessageBody=%ff", "MessageBody=%ed%a0%80", "MessageBody=%c0%80", "%ff=a",
                 "&".join(f"a{i}=b" for i in range(999))]:
        with pytest.raises(Refused) as caught:
            read("SendMessage", query.post(f"Action=SendMessage&QueueUrl=q&{body}"))
        assert (caught.value.code, caught.value.status) == ("MalformedInput", 400), body
    for name, value in [("MaxNumberOfMessages", "one"), ("WaitTimeSeconds", "1.5"), ("VisibilityTimeout", "")]:
        with pytest.raises(Refused) as caught:
            query.call("ReceiveMessage", QueueUrl="q", **{name: value})
        assert caught.value.code == "MalformedInput"
    query.close()


def test_Q14_errors_between_good_requests_leave_the_connection(sqs):
    sqs.make("q")
    socket_before = sqs.wire.line.socket
    for index in range(200):
        if index % 2:
            sqs.refused("AWS.SimpleQueueService.NonExistentQueue", None, "SendMessage", QueueUrl="none",
                        MessageBody="a")
        elif index % 4:
            sqs.refused("ReceiptHandleIsInvalid", None, "DeleteMessage", QueueUrl="q", ReceiptHandle="x")
        else:
            assert sqs.send("q", "a")["MessageId"]
    assert sqs.wire.line.socket is socket_before and sqs.counts("q")[0] == 50


def test_errors_that_repeat_a_value_stay_readable(sqs):
    """XML has no form for control characters; a client must still be able to read which fault it was."""
    sqs.make("q")
    for value in ["\0", "\1\2", "\x1b[31m", "<b>&amp;\"", "ä" * 300, "🎉" * 100, "\ufffe\uffff", "a\r\nb"]:
        sqs.refused("InvalidAttributeName", None, "GetQueueAttributes", QueueUrl="q", AttributeNames=[value])
        sqs.refused("ReceiptHandleIsInvalid", None, "DeleteMessage", QueueUrl="q", ReceiptHandle=value)
        sqs.refused("InvalidParameterValue", None, "SendMessage", QueueUrl="q", MessageBody="a",
                    MessageGroupId=f"a {value}")
        sqs.refused("InvalidParameterValue", None, "SendMessage", QueueUrl="q", MessageBody="a",
                    MessageAttributes={value: {"DataType": value}})
        entry = {"Id": "a", "MessageBody": "b", "MessageGroupId": f"a {value}"}
        assert (sqs.call("SendMessageBatch", QueueUrl="q", Entries=[entry])["Failed"][0]["Code"]
                == "InvalidParameterValue")
