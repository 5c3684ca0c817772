"""SQS in its two forms behind one call: AWS JSON 1.0, and AWS Query, which sends form fields and answers XML.

client.call("SendMessage", QueueUrl="q", MessageBody="a") gives the same Python values whichever form it speaks. What a
parameter or a reply field is in Query stands in the two tables below. Source: SQS API reference, and the last service
model with the protocol "query"."""

import urllib.parse
import xml.etree.ElementTree as tree

from conftest import IS_BARE
from wire import Connection

# How much longer than on bare metal an answer may take, where a test is about that.
SLOWNESS = 1 if IS_BARE else 10

ACTIONS = """AddPermission CancelMessageMoveTask ChangeMessageVisibility ChangeMessageVisibilityBatch CreateQueue
    DeleteMessage DeleteMessageBatch DeleteQueue GetQueueAttributes GetQueueUrl ListDeadLetterSourceQueues
    ListMessageMoveTasks ListQueueTags ListQueues PurgeQueue ReceiveMessage RemovePermission SendMessage
    SendMessageBatch SetQueueAttributes StartMessageMoveTask TagQueue UntagQueue""".split()

NAMESPACE = "{http://queue.amazonaws.com/doc/2012-11-05/}"

# parameter: the name of its fields
LISTS = {
    "AttributeNames": "AttributeName",
    "MessageAttributeNames": "MessageAttributeName",
    "MessageSystemAttributeNames": "MessageSystemAttributeName",
    "TagKeys": "TagKey",
    "AWSAccountIds": "AWSAccountId",
    "Actions": "ActionName",
    "StringListValues": "StringListValue",
    "BinaryListValues": "BinaryListValue",
}
MAPS = {
    "Attributes": ("Attribute", "Name"),
    "MessageAttributes": ("MessageAttribute", "Name"),
    "MessageSystemAttributes": ("MessageSystemAttribute", "Name"),
    "Tags": ("Tag", "Key"),
    "tags": ("Tag", "Key"),
}


def text(value):
    return value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def fields(action, parameters, prefix=""):
    """The form fields of a request, as the SDKs name them."""
    for name, value in parameters.items():
        if value is None:
            continue
        if name == "Entries":
            if not value:
                yield prefix + name, ""
            for number, entry in enumerate(value, 1):
                yield from fields(action, entry, f"{prefix}{action}RequestEntry.{number}.")
        elif name in LISTS and isinstance(value, list):
            if not value:
                yield prefix + name, ""
            for number, item in enumerate(value, 1):
                yield f"{prefix}{LISTS[name]}.{number}", text(item)
        elif name in MAPS and isinstance(value, dict):
            field, key = MAPS[name]
            for number, (item, content) in enumerate(value.items(), 1):
                at = f"{prefix}{field}.{number}."
                yield at + key, item
                if isinstance(content, dict):
                    yield from fields(action, content, at + "Value.")
                else:
                    yield at + "Value", text(content)
        else:
            yield prefix + name, text(value)


def form(action, parameters):
    pairs = [("Action", action), ("Version", "2012-11-05"), *fields(action, parameters)]
    return urllib.parse.urlencode(pairs, errors="surrogatepass")


# --- replies ----------------------------------------------------------------------------------------------------------

# element of a reply: (member, how to read it)
NUMBERS = {"ApproximateNumberOfMessagesMoved", "ApproximateNumberOfMessagesToMove", "MaxNumberOfMessagesPerSecond",
           "StartedTimestamp"}
REPLY_LISTS = {
    "QueueUrl": {"ListQueues": "QueueUrls", "ListDeadLetterSourceQueues": "queueUrls"},
    "Message": "Messages",
    "BatchResultErrorEntry": "Failed",
    "SendMessageBatchResultEntry": "Successful",
    "DeleteMessageBatchResultEntry": "Successful",
    "ChangeMessageVisibilityBatchResultEntry": "Successful",
    "ListMessageMoveTasksResultEntry": "Results",
    "Refusal": "Refusals",
    "Queue": "Queues",
}
REPLY_MAPS = {"Attribute": ("Attributes", "Name"), "MessageAttribute": ("MessageAttributes", "Name"),
              "Tag": ("Tags", "Key")}


def strip(element):
    assert element.tag.startswith(NAMESPACE), element.tag
    return element.tag[len(NAMESPACE) :]


def value_of(element, action):
    """A scalar, or the members of an object."""
    name = strip(element)
    if len(element):
        return members(element, action)
    content = element.text or ""
    if name in NUMBERS:
        return int(content)
    return {"true": True, "false": False}[content] if name in ("SenderFault", "Duplicate") else content


def members(parent, action):
    found = {}
    for element in parent:
        name = strip(element)
        if name in REPLY_MAPS and len(element):
            member, key = REPLY_MAPS[name]
            pair = {strip(part): part for part in element}
            assert set(pair) == {key, "Value"}, pair
            found.setdefault(member, {})[pair[key].text or ""] = value_of(pair["Value"], action)
            continue
        member = REPLY_LISTS.get(name)
        member = member.get(action) if isinstance(member, dict) else member
        # An element that is the last of its name is text, but Message of an error entry is text too.
        if member and (name != "Message" or len(element)):
            found.setdefault(member, []).append(value_of(element, action))
            continue
        assert name not in found, f"{name} twice"
        found[name] = value_of(element, action)
    return found


class Refused(Exception):
    """An error: .code as Query has it (and the JSON form in its header), .status, .message."""

    def __init__(self, action, answer, code, message, name=None):
        super().__init__(f"{action}: {answer.status} {code}: {message}")
        self.answer = answer
        self.status = answer.status
        self.code = code
        self.message = message
        self.name = name  # behind __type; None in Query


class Json:
    """The JSON form."""

    form = "json"

    def __init__(self, port):
        self.line = Connection(port)

    def close(self):
        self.line.close()

    def send(self, action, parameters):
        return self.line.call(f"AmazonSQS.{action}",
                              {name: value for name, value in parameters.items() if value is not None})

    def call(self, action, **parameters):
        answer = self.send(action, parameters)
        assert answer.header("x-amzn-requestid"), answer.head
        assert answer.header("content-type") == "application/x-amz-json-1.0", answer.head
        if answer.status == 200:
            return answer.json()
        told = answer.json()
        assert set(told) == {"__type", "message"}, told
        code, fault = answer.header("x-amzn-query-error").split(";")
        assert fault == ("Sender" if answer.status < 500 else "Receiver")
        raise Refused(action, answer, code, told["message"], told["__type"])


class Query:
    """The Query form."""

    form = "query"

    def __init__(self, port):
        self.line = Connection(port)

    def close(self):
        self.line.close()

    def send(self, action, parameters, path="/"):
        return self.post(form(action, parameters), path)

    def post(self, body, path="/"):
        body = body if isinstance(body, bytes) else body.encode()
        head = (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded; "
                "charset=utf-8\r\n")
        self.line.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        return self.line.answer()

    def get(self, query, path="/"):
        self.line.write(f"GET {path}?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        return self.line.answer()

    def call(self, action, **parameters):
        return read(action, self.send(action, parameters))


def read(action, answer):
    """The reply of a Query request; raises Refused."""
    assert answer.header("x-amzn-requestid"), answer.head
    assert answer.header("content-type") == "text/xml", answer.head
    assert answer.body.startswith(b'<?xml version="1.0"?>')
    root = tree.fromstring(answer.body)
    if answer.status != 200:
        assert strip(root) == "ErrorResponse"
        error, request_id = root
        assert [strip(part) for part in error] == ["Type", "Code", "Message", "Detail"]
        assert request_id.text == answer.header("x-amzn-requestid")
        kind, code, message, _ = (part.text for part in error)
        assert kind == ("Sender" if answer.status < 500 else "Receiver")
        assert answer.header("x-amzn-query-error") == f"{code};{kind}"
        raise Refused(action, answer, code, message)
    assert strip(root) == f"{action}Response"
    *result, metadata = root
    assert strip(metadata) == "ResponseMetadata"
    assert metadata.find(f"{NAMESPACE}RequestId").text == answer.header("x-amzn-requestid")
    assert [strip(part) for part in result] in ([], [f"{action}Result"])
    return members(result[0], action) if result else {}


FORMS = {"json": Json, "query": Query}


# --- a client for tests -----------------------------------------------------------------------------------------------


class Sqs:
    """SQS in one form, with queues called by their names."""

    def __init__(self, port, form="json"):
        self.port = port
        self.wire = FORMS[form](port)
        self.form = form
        self.number = 0

    def close(self):
        self.wire.close()

    def other(self):
        """A client of the other form on the same server."""
        return Sqs(self.port, "query" if self.form == "json" else "json")

    def call(self, action, **parameters):
        return self.wire.call(action, **parameters)

    def refused(self, code, message, action, **parameters):
        """The call must fail so; code None: anyhow; message None: any, a function: which must be true of it."""
        try:
            answer = self.call(action, **parameters)
        except Refused as refusal:
            assert code is None or refusal.code == code, refusal
            assert refusal.message, refusal
            assert message is None or (
                message(refusal.message) if callable(message) else refusal.message == message), refusal
            return refusal
        raise AssertionError(f"{action} {parameters} was not refused: {answer}")

    def make(self, queue, **attributes):
        if queue.endswith(".fifo"):
            attributes = {"FifoQueue": "true", **attributes}
        return self.call("CreateQueue", QueueName=queue, Attributes=attributes)["QueueUrl"]

    def send(self, queue, body, group=None, **more):
        """Sends; to a FIFO queue under a new deduplication id unless one is given."""
        self.number += 1
        if group is not None:
            more["MessageGroupId"] = group
        if queue.endswith(".fifo"):
            more.setdefault("MessageDeduplicationId", f"own-{id(self)}-{self.number}")
        return self.call("SendMessage", QueueUrl=queue, MessageBody=body, **more)

    def receive(self, queue, count=10, **more):
        return self.call("ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=count, **more).get("Messages", [])

    def bodies(self, queue, count=10, **more):
        return [message["Body"] for message in self.receive(queue, count, **more)]

    def delete(self, queue, *messages):
        for message in messages:
            self.call("DeleteMessage", QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])

    def change(self, queue, message, seconds):
        self.call("ChangeMessageVisibility", QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"],
                  VisibilityTimeout=seconds)

    def attributes(self, queue, *names):
        return self.call("GetQueueAttributes", QueueUrl=queue,
                         AttributeNames=list(names or ["All"])).get("Attributes", {})

    def counts(self, queue):
        """(visible, in flight, delayed)."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible",
                 "ApproximateNumberOfMessagesDelayed"]
        shown = self.attributes(queue, *names)
        return tuple(int(shown[name]) for name in names)


def is_duplicate(first, again):
    """The second answer to a send is that of the first, and says so; else they name two messages."""
    same = (again.get("MessageId"), again.get("SequenceNumber")) == (first["MessageId"], first.get("SequenceNumber"))
    assert same == again.get("Duplicate", False), (first, again)
    return same


def arn(queue):
    return f"arn:aws:sqs:us-east-1:000000000000:{queue}"


def string(value):
    return {"DataType": "String", "StringValue": value}


def number(value):
    return {"DataType": "Number", "StringValue": value}


def invalid(parameter, value, reason):
    """The message of InvalidParameterValue."""
    return f"Value {value} for parameter {parameter} is invalid. Reason: {reason}"
