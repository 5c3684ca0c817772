"""Which form a request has and which its answer: clients that say two things at once, and Query answered in JSON."""

import json
import urllib.parse

import pytest
from sqs import FORMS, Sqs, form, invalid, string
from wire import Connection

IPV = "InvalidParameterValue"
FORM = "application/x-www-form-urlencoded"
AMZ_JSON = "application/x-amz-json-1.0"
PATH = "/000000000000/q"


@pytest.fixture
def ask(daemon):
    """Posts a body with headers; the status, the Content-Type and the body of the answer."""
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})

    def post(body, path="/", method="POST", **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        status, told, answer = daemon.request(method, path, body, named)
        return status, told["Content-Type"], answer.decode()

    return post


# --- a form is Query, whatever X-Amz-Target says ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", [FORM, FORM + "; charset=utf-8", FORM.upper() + ";charset=UTF-8", FORM + "\t; a=b"])
def test_a_form_is_query_whatever_the_target_says(ask, kind):
    """Amazon::SQS::Simple and some clients in Java and Ballerina send both."""
    for target in ["AmazonSQS.SendMessage", "AmazonSQS.ListQueues", "Tally.ListBatches", "Odd", "AmazonSQS.Odd"]:
        status, told, answer = ask("Action=SendMessage&MessageBody=a", PATH, Content_Type=kind, X_Amz_Target=target)
        assert (status, told) == (200, "text/xml") and "<SendMessageResult><MD5OfMessageBody>" in answer
    delete = "Action=DeleteMessage&ReceiptHandle=odd"
    status, told, answer = ask(delete, PATH, Content_Type=kind, X_Amz_Target="Tally.FailMessage")
    assert (status, told) == (404, "text/xml") and "<Code>ReceiptHandleIsInvalid</Code>" in answer
    status, told, answer = ask("Version=2012-11-05", PATH, Content_Type=kind, X_Amz_Target="AmazonSQS.SendMessage")
    assert (status, told) == (404, "text/xml") and "<UnknownOperationException/>" in answer


@pytest.mark.parametrize("kind", [FORM, AMZ_JSON, "text/plain", FORM + "x", "multipart/form-data"])
def test_json_is_json_whatever_its_content_type_says(ask, kind):
    """curl -d and Python's urllib call any body a form."""
    for body in ['{"QueueUrl":"q"}', ' \r\n\t{"QueueUrl":"q"}', "{}", ""]:
        status, told, answer = ask(body, PATH, Content_Type=kind, X_Amz_Target="AmazonSQS.ReceiveMessage")
        assert (status, told, answer) == (200, AMZ_JSON, "{}"), body
    for body in ["[]", '"a"', "{"]:
        status, told, answer = ask(body, PATH, Content_Type=kind, X_Amz_Target="AmazonSQS.ReceiveMessage")
        assert (status, told) == (400, AMZ_JSON) and "SerializationException" in answer, body


def test_what_is_no_form_and_has_a_target_is_json(ask):
    send = "Action=SendMessage&MessageBody=a"
    status, told, answer = ask(send, PATH, Content_Type=AMZ_JSON, X_Amz_Target="AmazonSQS.SendMessage")
    assert (status, told) == (400, AMZ_JSON) and "SerializationException" in answer


def test_a_form_that_is_too_large_is_refused_as_query(daemon_factory):
    daemon = daemon_factory("--body-max", "65536").start()
    head = {"Content-Type": FORM, "X-Amz-Target": "AmazonSQS.SendMessage"}
    status, told, answer = daemon.request("POST", "/", "Action=SendMessage&MessageBody=" + "x" * 70000, head)
    assert (status, told["Content-Type"]) == (413, "text/xml") and b"<Code>RequestTooLarge</Code>" in answer
    assert daemon.stop() == 0


# --- Accept: application/json -----------------------------------------------------------------------------------------


class QueryJson:
    """Query answered in JSON. Values come back as the other forms give them: null is absent, pairs are maps."""

    form = "query"

    def __init__(self, port):
        self.line = Connection(port)

    def close(self):
        self.line.close()

    def call(self, action, **parameters):
        body = form(action, parameters)
        head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {FORM}\r\nAccept: application/json\r\n"
        self.line.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        answer = self.line.answer()
        assert answer.header("content-type") == "application/json" and answer.status == 200, answer.body
        return answer.json()[f"{action}Response"]


@pytest.fixture
def sqs(daemon):
    made = QueryJson(daemon.port)
    yield made
    made.close()


def test_query_in_json_has_the_shape_that_aws_gives_it(sqs, daemon):
    """Lists of queues and of messages in lower case, maps as lists of pairs, null for what is absent."""
    url = f"http://127.0.0.1:{daemon.port}{PATH}"
    called = sqs.call("CreateQueue", QueueName="q")
    assert called["CreateQueueResult"] == {"QueueUrl": "http://127.0.0.1" + PATH}
    assert set(called) == {"CreateQueueResult", "ResponseMetadata"}
    assert set(called["ResponseMetadata"]) == {"RequestId"} and len(called["ResponseMetadata"]["RequestId"]) == 36
    assert sqs.call("GetQueueUrl", QueueName="q")["GetQueueUrlResult"] == {"QueueUrl": "http://127.0.0.1" + PATH}
    assert sqs.call("ListQueues")["ListQueuesResult"] == {"NextToken": None, "queueUrls": ["http://127.0.0.1" + PATH]}
    assert sqs.call("ListQueues", QueueNamePrefix="z")["ListQueuesResult"] == {"NextToken": None, "queueUrls": None}
    sources = sqs.call("ListDeadLetterSourceQueues", QueueUrl=url)["ListDeadLetterSourceQueuesResult"]
    assert sources == {"NextToken": None, "queueUrls": None}

    shown = sqs.call("GetQueueAttributes", QueueUrl=url, AttributeNames=["DelaySeconds"])["GetQueueAttributesResult"]
    assert shown == {"Attributes": [{"Name": "DelaySeconds", "Value": "0"}]}
    assert sqs.call("GetQueueAttributes", QueueUrl=url)["GetQueueAttributesResult"] == {"Attributes": None}
    assert sqs.call("ListQueueTags", QueueUrl=url)["ListQueueTagsResult"] == {"Tags": None}
    assert set(sqs.call("TagQueue", QueueUrl=url, Tags={"a": "b"})) == {"ResponseMetadata"}
    assert sqs.call("ListQueueTags", QueueUrl=url)["ListQueueTagsResult"] == {"Tags": [{"Key": "a", "Value": "b"}]}

    assert sqs.call("ReceiveMessage", QueueUrl=url)["ReceiveMessageResult"] == {"messages": None}
    body = 'Grüße "<&>"\r\n🎉'
    attributes = {"n": string("v"), "b": {"DataType": "Binary", "BinaryValue": "AQID"}}
    asked = {"QueueUrl": url, "MessageBody": body, "MessageAttributes": attributes}
    sent = sqs.call("SendMessage", **asked)["SendMessageResult"]
    digests = {"MD5OfMessageAttributes", "MD5OfMessageBody", "MD5OfMessageSystemAttributes"}
    assert set(sent) == {*digests, "MessageId", "SequenceNumber"} and sent["SequenceNumber"] is None
    (message,) = sqs.call("ReceiveMessage", QueueUrl=url, VisibilityTimeout=0)["ReceiveMessageResult"]["messages"]
    names = {"Body", "MD5OfBody", "MessageId", "ReceiptHandle"}
    assert set(message) == {*names, "Attributes", "MD5OfMessageAttributes", "MessageAttributes"}
    assert message["Body"] == body and message["MessageId"] == sent["MessageId"]
    assert [message[name] for name in ["Attributes", "MD5OfMessageAttributes", "MessageAttributes"]] == [None] * 3
    asked = {"AttributeNames": ["ApproximateReceiveCount"], "MessageAttributeNames": ["All"]}
    (message,) = sqs.call("ReceiveMessage", QueueUrl=url, **asked)["ReceiveMessageResult"]["messages"]
    assert message["Attributes"] == [{"Name": "ApproximateReceiveCount", "Value": "2"}]
    nothing = dict.fromkeys(["BinaryListValues", "BinaryValue", "DataType", "StringListValues", "StringValue"])
    assert message["MessageAttributes"] == [
        {"Name": "b", "Value": {**nothing, "DataType": "Binary", "BinaryValue": "AQID"}},
        {"Name": "n", "Value": {**nothing, "DataType": "String", "StringValue": "v"}},
    ]
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert set(sqs.call("DeleteMessage", QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])) == {"ResponseMetadata"}

    entries = [{"Id": "good", "MessageBody": "a"}, {"Id": "bad", "MessageBody": "a", "DelaySeconds": 901}]
    result = sqs.call("SendMessageBatch", QueueUrl=url, Entries=entries)["SendMessageBatchResult"]
    assert [(entry["Id"], entry["SequenceNumber"]) for entry in result["Successful"]] == [("good", None)]
    assert [(entry["Id"], entry["SenderFault"]) for entry in result["Failed"]] == [("bad", True)]
    entries = [{"Id": "a", "ReceiptHandle": "odd"}]
    result = sqs.call("DeleteMessageBatch", QueueUrl=url, Entries=entries)["DeleteMessageBatchResult"]
    assert result["Successful"] is None and result["Failed"][0]["Code"] == "ReceiptHandleIsInvalid"


def test_a_long_poll_is_answered_in_the_form_of_its_request(sqs, daemon):
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
    assert sqs.call("ReceiveMessage", QueueUrl="q", WaitTimeSeconds=1)["ReceiveMessageResult"] == {"messages": None}


def test_errors_of_query_in_json(ask):
    def told(body, path="/", method="POST"):
        status, kind, answer = ask(body, path, method, Accept="application/json", Content_Type=FORM)
        assert kind == "application/json"
        return status, json.loads(answer)

    status, answer = told("Action=ReceiveMessage&MaxNumberOfMessages=11", PATH)
    text = "Value 11 for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided."
    assert status == 400 and answer["Error"] == {"Code": "InvalidParameterValue", "Message": text, "Type": "Sender"}
    assert set(answer) == {"Error", "RequestId"} and len(answer["RequestId"]) == 36
    status, answer = told("Action=ReceiveMessage&QueueUrl=none")
    assert status == 400 and answer["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"
    text = "The specified queue does not exist for this wsdl version. Namespace 000000000000 has no queue 'none'."
    assert answer["Error"]["Message"] == text
    status, answer = told("Action=Odd")
    assert status == 400 and answer["Error"]["Code"] == "InvalidAction"
    status, answer = told("", PATH, "GET")
    assert status == 404 and answer["Error"]["Code"] == "NotFound"


@pytest.mark.parametrize(
    "accept, kind",
    [
        ("application/json", "application/json"),
        ("Application/JSON; charset=utf-8", "application/json"),
        ("application/json, text/plain, */*", "application/json"),
        ("text/html, application/json;q=0.9, text/xml", "application/json"),
        ("text/xml, application/json", "text/xml"),
        ("application/xml;q=0.9,application/json", "text/xml"),
        ("application/json;q=0", "text/xml"),
        ("application/jsonp", "text/xml"),
        ("*/*", "text/xml"),
        ("", "text/xml"),
        (",,", "text/xml"),
    ],
)
def test_the_first_of_json_and_xml_in_accept_counts(ask, accept, kind):
    assert ask("Action=ListQueues", Content_Type=FORM, Accept=accept)[:2] == (200, kind)
    query = urllib.parse.urlencode({"Action": "GetQueueAttributes", "AttributeName.1": "QueueArn"})
    assert ask(None, f"{PATH}?{query}", "GET", Accept=accept)[:2] == (200, kind)
    status, told, answer = ask('{"QueueUrl":"q"}', X_Amz_Target="AmazonSQS.ReceiveMessage", Accept=accept)
    assert (status, told, answer) == (200, AMZ_JSON, "{}")


def test_accept_may_stand_twice(daemon):
    with Connection(daemon.port) as line:
        head = b"GET /?Action=ListQueues HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        line.write(head + b"Accept: application/json\r\nAccept: text/xml\r\n\r\n")
        answer = line.answer()
        assert (answer.status, answer.header("content-type")) == (200, "application/json")


# --- nothing to tell ------------------------------------------------------------------------------------------------


def test_a_result_without_fields_is_an_empty_element(ask):
    status, _, answer = ask("Action=ListQueues&QueueNamePrefix=z", Content_Type=FORM)
    assert status == 200 and "<ListQueuesResult/><ResponseMetadata>" in answer
    for action in ["ReceiveMessage", "ListQueueTags", "GetQueueAttributes", "ListDeadLetterSourceQueues"]:
        status, _, answer = ask(f"Action={action}", PATH, Content_Type=FORM)
        assert status == 200 and f"<{action}Result/><ResponseMetadata>" in answer


# --- which queue ----------------------------------------------------------------------------------------------------


def test_without_a_queue_url_the_path_names_the_queue(daemon):
    for name in ["q", "other"]:
        daemon.call("AmazonSQS.CreateQueue", {"QueueName": name})
    count = 0
    for path in [PATH, PATH + "/", "/queue/q", "/queue/us-east-1/000000000000/q"]:
        head = {"Content-Type": AMZ_JSON, "X-Amz-Target": "AmazonSQS.SendMessage"}
        for body in ['{"MessageBody":"a"}', '{"QueueUrl":null,"MessageBody":"a"}']:
            status, _, answer = daemon.request("POST", path, body, head)
            assert status == 200 and json.loads(answer)["MessageId"], (path, answer)
        status, _, answer = daemon.request("POST", path, "Action=SendMessage&MessageBody=a", {"Content-Type": FORM})
        assert status == 200 and b"<MessageId>" in answer, (path, answer)
        count += 3
        status, _, answer = daemon.request("POST", path, '{"QueueUrl":"other","MessageBody":"a"}', head)
        assert status == 200
    for name, expected in [("q", count), ("other", 4)]:
        asked = {"QueueUrl": name, "AttributeNames": ["ApproximateNumberOfMessages"]}
        shown = daemon.call("AmazonSQS.GetQueueAttributes", asked)[1]["Attributes"]
        assert shown == {"ApproximateNumberOfMessages": str(expected)}
    status, _, answer = daemon.request("POST", "/000000000000/none", "{}", {"X-Amz-Target": "AmazonSQS.PurgeQueue"})
    assert status == 400 and b"Namespace 000000000000 has no queue 'none'." in answer
    status, _, answer = daemon.request("POST", PATH, "{}", {"X-Amz-Target": "Tally.ListGroups"})
    assert (status, json.loads(answer)) == (200, {"Groups": []})
    status, _, answer = daemon.request("POST", PATH, "{}", {"X-Amz-Target": "AmazonSQS.ListQueues"})
    assert status == 200 and len(json.loads(answer)["QueueUrls"]) == 2


# --- values that are too long -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", FORMS)
def test_ids_that_are_too_long_are_repeated_whole(daemon, wire):
    sqs = Sqs(daemon.port, wire)
    sqs.make("q.fifo")
    send = {"action": "SendMessage", "QueueUrl": "q.fifo", "MessageBody": "a"}
    for name, other in [("MessageGroupId", "MessageDeduplicationId"), ("MessageDeduplicationId", "MessageGroupId")]:
        for size in [129, 300, 1500]:
            value = ("0123456789" * 150)[:size]
            rule = f"{name} can only include alphanumeric and punctuation characters. 1 to 128 in length."
            sqs.refused(IPV, invalid(name, value, rule), **send, **{name: value, other: "x"})
        cut = f"{'x' * 1500}... (100000 bytes)"
        sqs.refused(IPV, invalid(name, cut, rule), **send, **{name: "x" * 100000, other: "x"})
    entry = {"Id": "e", "MessageBody": "a", "MessageGroupId": "x" * 200, "MessageDeduplicationId": "x"}
    (failed,) = sqs.call("SendMessageBatch", QueueUrl="q.fifo", Entries=[entry])["Failed"]
    assert f"Value {'x' * 200} for parameter MessageGroupId" in failed["Message"]
    sqs.close()
