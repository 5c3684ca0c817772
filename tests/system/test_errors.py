"""Every error that the actions of this version can answer, by the AWS JSON form: code in __type, status, the header
x-amzn-query-error with its two parts, and the text; and what replies leave out (reference: SQS, Q2, Q3, Q4, Q5, Q14).

One row, one fault. Rows are asked in order on one connection, which must stay."""

import json

import pytest
from wire import Connection, request_bytes

M = "com.amazonaws.sqs#"
C = "com.amazon.coral.service#"
T = "com.tally#"
SERVICE = "AWS.SimpleQueueService."
NAME_RULE = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
ID_RULE = (
    "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
    "It can be at most 80 letters long."
)
CHARACTERS = (
    "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | "
    "#x10000 to #x10FFFF."
)
AFTER_RULE = "An item must be message:<MessageId>, batch:<BatchId> or dedup:<queue name>/<MessageDeduplicationId>."

# name: (__type, code of the header, status)
KINDS = {
    "QueueDoesNotExist": (M, SERVICE + "NonExistentQueue", 400),
    "QueueNameExists": (M, "QueueAlreadyExists", 400),
    "QueueDeletedRecently": (M, SERVICE + "QueueDeletedRecently", 400),
    "EmptyBatchRequest": (M, SERVICE + "EmptyBatchRequest", 400),
    "TooManyEntriesInBatchRequest": (M, SERVICE + "TooManyEntriesInBatchRequest", 400),
    "BatchEntryIdsNotDistinct": (M, SERVICE + "BatchEntryIdsNotDistinct", 400),
    "InvalidBatchEntryId": (M, SERVICE + "InvalidBatchEntryId", 400),
    "BatchRequestTooLong": (M, SERVICE + "BatchRequestTooLong", 400),
    "UnsupportedOperation": (M, SERVICE + "UnsupportedOperation", 400),
    "PurgeQueueInProgress": (M, SERVICE + "PurgeQueueInProgress", 403),
    "OverLimit": (M, "OverLimit", 403),
    "ReceiptHandleIsInvalid": (M, "ReceiptHandleIsInvalid", 404),
    "InvalidAttributeName": (M, "InvalidAttributeName", 400),
    "InvalidAttributeValue": (M, "InvalidAttributeValue", 400),
    "InvalidMessageContents": (M, "InvalidMessageContents", 400),
    "InvalidParameterValueException": (C, "InvalidParameterValue", 400),
    "MissingRequiredParameterException": (C, "MissingParameter", 400),
    "UnknownOperationException": (C, "InvalidAction", 400),
    "SerializationException": (C, "MalformedInput", 400),
    "RequestTooLarge": (T, "RequestTooLarge", 413),
    "BatchDoesNotExist": (T, "BatchDoesNotExist", 400),
    "BatchAlreadyExists": (T, "BatchAlreadyExists", 400),
    "BatchSealed": (T, "BatchSealed", 400),
    "BatchTotalExceeded": (T, "BatchTotalExceeded", 400),
    "BatchNotCompleted": (T, "BatchNotCompleted", 400),
    "UnitDoesNotExist": (T, "UnitDoesNotExist", 400),
    "QueueInUse": (T, "QueueInUse", 400),
    "GroupNotHeld": (T, "GroupNotHeld", 400),
    "DependencyDoesNotExist": (T, "DependencyDoesNotExist", 400),
    "DependencyCycle": (T, "DependencyCycle", 400),
    "TypeOrderConflict": (T, "TypeOrderConflict", 400),
    "TypeOrderDoesNotExist": (T, "TypeOrderDoesNotExist", 400),
    "ScheduleDoesNotExist": (T, "ScheduleDoesNotExist", 400),
    "PublisherFenced": (T, "PublisherFenced", 400),
    "PublisherBatchOutOfOrder": (T, "PublisherBatchOutOfOrder", 400),
    "PublisherBatchConflict": (T, "PublisherBatchConflict", 400),
    "RelayDoesNotExist": (T, "RelayDoesNotExist", 400),
    "BackupDoesNotExist": (T, "BackupDoesNotExist", 400),
}
IPV, MISSING, SERIAL = "InvalidParameterValueException", "MissingRequiredParameterException", "SerializationException"


def queue(name):
    return f"http://127.0.0.1/000000000000/{name}"


# A publisher of which batch 1, with the row 1, has been published.
PUBLISHER = {"Publisher": "5eed0000-0000-4000-8000-000000000001", "Epoch": 7,
             "Owner": "aaaa0000-0000-4000-8000-000000000001"}
ROW = {"Id": 1, "Uid": "00000000-0000-4000-8000-000000000001", "QueueUrl": "results", "MessageBody": "a"}


def publish(**more):
    return {**PUBLISHER, "Batch": 2, "ConfirmedBatch": 1, "Rows": [ROW], **more}


NOT_A_UUID = "It must be a UUID, such as 01234567-89ab-4def-8123-456789abcdef."
RELAY_ACTIONS = {"CreateRelay", "DescribeRelay", "PauseRelay", "ResumeRelay", "DeleteRelay", "ListDoubts",
                 "ResolveDoubt"}
Q = queue("q")  # MaximumMessageSize 1024


def entries(*items):
    return [{"Id": f"e{i}", "MessageBody": "a", **item} for i, item in enumerate(items)]


def text(value, kind="String"):
    return {"DataType": kind, "StringValue": value}


def send(**more):
    return {"QueueUrl": Q, "MessageBody": "a", **more}


def with_attribute(name, value):
    return send(MessageAttributes={name: value})


def redrive(policy):
    return {"QueueUrl": Q, "Attributes": {"RedrivePolicy": json.dumps(policy) if isinstance(policy, dict) else policy}}


NO_QUEUE = ("QueueDoesNotExist", None)
NOT_A_HANDLE = ("ReceiptHandleIsInvalid", 'The input receipt handle "garbage" is not a valid receipt handle.')
DEAD = "arn:aws:sqs:us-east-1:000000000000:q"


def missing(name):
    return (MISSING, f"The request must contain the parameter {name}.")


def invalid(name, value, reason):
    return (IPV, f"Value {value} for parameter {name} is invalid. Reason: {reason}")


def attribute_type(name):
    return (
        IPV,
        f"The type of message (user) attribute '{name}' is invalid. You must use only the following supported type "
        "prefixes: Binary, Number, String.",
    )


def empty_attribute(name, kind):
    return (IPV, f"Message (user) attribute '{name}' must contain a non-empty value of type '{kind}'.")


# (action, parameters, error, text; None: not compared)
ROWS = [
    # Every action that names a queue.
    *[
        (action, {"QueueUrl": url, **more}, *NO_QUEUE)
        for action, more in [
            ("SendMessage", {"MessageBody": "a"}),
            ("SendMessageBatch", {"Entries": entries({})}),
            ("ReceiveMessage", {}),
            ("DeleteMessage", {"ReceiptHandle": "garbage"}),
            ("DeleteMessageBatch", {"Entries": [{"Id": "a", "ReceiptHandle": "garbage"}]}),
            ("ChangeMessageVisibility", {"ReceiptHandle": "garbage", "VisibilityTimeout": 0}),
            ("ChangeMessageVisibilityBatch", {"Entries": [{"Id": "a", "ReceiptHandle": "b", "VisibilityTimeout": 0}]}),
            ("DeleteQueue", {}),
            ("PurgeQueue", {}),
            ("GetQueueAttributes", {"AttributeNames": ["All"]}),
            ("SetQueueAttributes", {"Attributes": {"DelaySeconds": "0"}}),
            ("FailMessage", {"ReceiptHandle": "garbage"}),
            ("PauseQueue", {}),
            ("ResumeQueue", {}),
            ("PauseGroup", {"MessageGroupId": "g"}),
            ("ResumeGroup", {"MessageGroupId": "g"}),
            ("ReleaseGroup", {"MessageGroupId": "g", "Action": "retry"}),
            ("ListGroups", {}),
            ("ListMessages", {}),
            ("DeleteMessages", {"Reason": "r"}),
            ("ReplaceMessage", {"MessageId": "a", "MessageBody": "m"}),
        ]
        for url in [queue("none"), "http://nowhere", "", None, "http://127.0.0.1/111111111111/q", "none", "/", "//"]
    ],
    *[
        (action, {"QueueUrl": url, **more}, *NO_QUEUE)
        for action, more in [("ExplainMessage", {"MessageId": "a"}), ("ListInFlight", {})]
        for url in [queue("none"), "http://nowhere", "", "http://127.0.0.1/111111111111/q", "none", "/", "//"]
    ],
    ("GetQueueUrl", {"QueueName": "none"}, *NO_QUEUE),
    ("GetQueueUrl", {"QueueName": "q", "QueueOwnerAWSAccountId": "111111111111"}, *NO_QUEUE),
    ("GetQueueUrl", {}, IPV, "Value for parameter QueueName is invalid. Reason: Must specify a queue name."),
    # Actions and forms.
    (
        "NoSuchAction",
        {},
        "UnknownOperationException",
        "There is no action 'AmazonSQS.NoSuchAction'; X-Amz-Target names the service and the action, "
        "like AmazonSQS.SendMessage or Tally.CreateBatch.",
    ),
    ("SendMessage", b"{", SERIAL, None),
    ("SendMessage", b'{"QueueUrl": "a"} x', SERIAL, None),
    ("SendMessage", b"[]", SERIAL, None),
    ("SendMessage", b'"text"', SERIAL, None),
    ("SendMessage", b"\xff", SERIAL, None),
    ("SendMessage", b'{"QueueUrl": "\\ud800"}', SERIAL, None),
    ("SendMessage", send(MessageBody=7), SERIAL, "The value of MessageBody can not be converted to a String."),
    ("SendMessage", send(DelaySeconds="x"), SERIAL, "The value of DelaySeconds can not be converted to an Integer."),
    ("SendMessage", send(DelaySeconds=1.5), SERIAL, "The value of DelaySeconds can not be converted to an Integer."),
    ("SendMessage", send(MessageAttributes=[]), SERIAL,
     "The value of MessageAttributes can not be converted to a Map."),
    ("SendMessage", send(MessageAttributes={"a": "b"}), SERIAL, None),
    ("SendMessageBatch", {"QueueUrl": Q, "Entries": {}}, SERIAL,
     "The value of Entries can not be converted to a List."),
    ("SendMessageBatch", {"QueueUrl": Q, "Entries": ["a"]}, SERIAL, None),
    ("ReceiveMessage", {"QueueUrl": Q, "AttributeNames": "All"}, SERIAL, None),
    ("ReceiveMessage", {"QueueUrl": Q, "AttributeNames": [7]}, SERIAL, None),
    ("ReceiveMessage", {"QueueUrl": Q, "MessageSystemAttributeNames": [["a", "b", "c"]]}, SERIAL, None),
    ("ReceiveMessage", {"QueueUrl": Q, "MessageAttributeNames": [["a", "b", "c"]]}, SERIAL, None),
    ("GetQueueAttributes", {"QueueUrl": Q, "AttributeNames": [["a", "b", "c"]]}, SERIAL, None),
    ("GetQueueAttributes", {"QueueUrl": Q, "AttributeNames": [{"a": 1, "b": 2, "c": 3}]}, SERIAL, None),
    ("SetQueueAttributes", {"QueueUrl": Q, "Attributes": {"DelaySeconds": []}}, SERIAL, None),
    # CreateQueue, ListQueues, attributes.
    ("CreateQueue", {}, IPV, "Value for parameter QueueName is invalid. Reason: Must specify a queue name."),
    ("CreateQueue", {"QueueName": ""}, IPV,
     "Value for parameter QueueName is invalid. Reason: Must specify a queue name."),
    *[("CreateQueue", {"QueueName": name}, IPV, NAME_RULE) for name in ["a b", "a.b", "ä", "x" * 81, "a.fifo", "a/b"]],
    (
        "CreateQueue",
        {"QueueName": "q", "Attributes": {"DelaySeconds": "1"}},
        "QueueNameExists",
        "A queue already exists with the same name and a different value for attribute DelaySeconds",
    ),
    *[
        (action, {**which, "Attributes": {name: "1"}}, "InvalidAttributeName", f"Unknown Attribute {name}.")
        for action, which in [("CreateQueue", {"QueueName": "new"}), ("SetQueueAttributes", {"QueueUrl": Q})]
        for name in ["Nonsense", "QueueArn", "CreatedTimestamp", "ApproximateNumberOfMessages", "All"]
    ],
    *[
        ("SetQueueAttributes", {"QueueUrl": Q, "Attributes": {name: value}}, "InvalidAttributeValue", None)
        for name, values in {
            "DelaySeconds": ["-1", "901", "", "a", "1.5", " 1", "+1", "99999999999999999999999"],
            "MaximumMessageSize": ["1023", "1048577", "0"],
            "MessageRetentionPeriod": ["59", "1209601"],
            "ReceiveMessageWaitTimeSeconds": ["-1", "21"],
            "VisibilityTimeout": ["-1", "43201"],
        }.items()
        for value in values
    ],
    ("SetQueueAttributes", {"QueueUrl": Q}, *missing("Attribute.Name")),
    ("SetQueueAttributes", {"QueueUrl": Q, "Attributes": {}}, *missing("Attribute.Name")),
    ("GetQueueAttributes", {"QueueUrl": Q, "AttributeNames": ["Nonsense"]}, "InvalidAttributeName",
     "Unknown Attribute Nonsense."),
    *[
        ("SetQueueAttributes", redrive(policy), *invalid("RedrivePolicy", json.dumps(policy), reason))
        for policy, reason in [
            ({}, "Redrive policy does not contain mandatory attribute: maxReceiveCount."),
            ({"maxReceiveCount": 1}, "Redrive policy does not contain mandatory attribute: deadLetterTargetArn."),
            ({"maxReceiveCount": 0, "deadLetterTargetArn": DEAD},
             "Invalid value for maxReceiveCount: 0, valid values are from 1 to 1000 both inclusive."),
            ({"maxReceiveCount": 1001, "deadLetterTargetArn": DEAD},
             "Invalid value for maxReceiveCount: 1001, valid values are from 1 to 1000 both inclusive."),
            ({"maxReceiveCount": "x", "deadLetterTargetArn": DEAD},
             "Invalid value for maxReceiveCount: x, valid values are from 1 to 1000 both inclusive."),
            ({"maxReceiveCount": 1, "deadLetterTargetArn": DEAD + "x"}, "Dead letter target does not exist."),
            ({"maxReceiveCount": 1, "deadLetterTargetArn": "q"}, "Dead letter target does not exist."),
        ]
    ],
    ("SetQueueAttributes", redrive("not json"), IPV, None),
    *[
        ("ListQueues", {"MaxResults": value}, IPV,
         "Value for parameter MaxResults is invalid. Reason: MaxResults must be an integer between 1 and 1000.")
        for value in [0, -1, 1001]
    ],
    ("ListQueues", {"MaxResults": 1, "NextToken": "zz"}, IPV, "Invalid or expired next token."),
    # SendMessage.
    ("SendMessage", {"QueueUrl": Q}, *missing("MessageBody")),
    ("SendMessage", send(MessageBody=""), *missing("MessageBody")),
    ("SendMessage", send(MessageBody="x" * 1025), IPV,
     "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes."),
    ("SendMessage", send(MessageBody="ä" * 513), IPV,
     "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes."),
    (
        "SendMessage",
        send(MessageBody="x" * 1012, MessageAttributes={"abc": text("1234")}),
        IPV,
        "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes.",
    ),
    *[("SendMessage", send(MessageBody=f"a{c}b"), "InvalidMessageContents", CHARACTERS)
      for c in "\0\1\b\v\f\x0e\x1f\ufffe\uffff"],
    *[("SendMessage", send(DelaySeconds=v), *invalid("DelaySeconds", v, "DelaySeconds must be >= 0 and <= 900."))
      for v in [-1, 901, 2**63]][:2],
    ("SendMessage", send(DelaySeconds=2**63), IPV, None),
    ("SendMessage", send(MessageAttributes={f"a{i}": text("b") for i in range(11)}), IPV,
     "Number of message attributes [11] exceeds the allowed maximum [10]."),
    ("SendMessage", with_attribute("a", text("")), *empty_attribute("a", "String")),
    ("SendMessage", with_attribute("a", {"DataType": "Binary", "BinaryValue": ""}), *empty_attribute("a", "Binary")),
    ("SendMessage", with_attribute("a", {"DataType": "Binary", "BinaryValue": "!"}), SERIAL, None),
    ("SendMessage", with_attribute("a", {"DataType": "String"}), *empty_attribute("a", "String")),
    *[
        ("SendMessage", with_attribute("a", text(value, "Number")), IPV,
         "Can't cast the value of message (user) attribute 'a' to a number.")
        for value in ["abc", "1a", "--1", "1e", "0x10", " 1", "1" * 39]
    ],
    *[("SendMessage", with_attribute("a", text("b", kind)), *attribute_type("a"))
      for kind in ["string", "Text", "", "Stringy", "String" + ".x" * 125]],
    ("SendMessage", with_attribute("a", {"StringValue": "b"}), *attribute_type("a")),
    *[("SendMessage", with_attribute(name, text("b")), IPV, None)
      for name in ["", ".a", "a.", "a..b", "a!", "a b", "AWS.a", "aws.a", "Amazon.a", "x" * 257]],
    ("SendMessage", with_attribute("a", text("\1")), IPV, None),
    (
        "SendMessage",
        with_attribute("a", {"DataType": "String", "StringListValues": ["b"]}),
        "UnsupportedOperation",
        "Message attribute list values in SendMessage operation are not supported.",
    ),
    # Tally's own attributes.
    *[("SendMessage", with_attribute("Tally.Priority", text(value)),
       *invalid("Tally.Priority", value, "It must be an integer from 0 to 9."))
      for value in ["10", "-1", "x", "1.0"]],
    ("SendMessage", with_attribute("Tally.Priority", {"DataType": "Binary", "BinaryValue": "MQ=="}), IPV, None),
    *[("SendMessage", with_attribute("Tally.Type", text(value)), IPV, None) for value in ["ä", "x" * 129, "a b"]],
    *[
        ("SendMessage", with_attribute("Tally.After", text(value)), *invalid("Tally.After", item, AFTER_RULE))
        for value, item in [
            ("1", "1"),
            ("batch:", "batch:"),
            ("batch:a b", "batch:a b"),
            ("message:", "message:"),
            ("batch:a,message:x y", "message:x y"),
            ("dedup:q", "dedup:q"),
            ("dedup:/x", "dedup:/x"),
            ("dedup:q/", "dedup:q/"),
            ("dedup:q.x/y", "dedup:q.x/y"),
            (" , ", ","),
        ]
    ],
    ("SendMessage", with_attribute("Tally.AfterFailure", text("x")),
     *invalid("Tally.AfterFailure", "x", "It must be cancel, run or hold.")),
    ("SendMessage", with_attribute("Tally.Producer", text("p")), IPV,
     "Tally.Producer and Tally.Sequence go together: the message has only Tally.Producer."),
    ("SendMessage", with_attribute("Tally.Sequence", text("1")), IPV,
     "Tally.Producer and Tally.Sequence go together: the message has only Tally.Sequence."),
    *[
        ("SendMessage", send(MessageAttributes={"Tally.Producer": text("p"), "Tally.Sequence": text(value)}),
         *invalid("Tally.Sequence", value, "It must be an integer from 0 to 9223372036854775807."))
        for value in ["-1", "x", "9223372036854775808"]
    ],
    *[("SendMessage", send(MessageAttributes={"Tally.Producer": text(value), "Tally.Sequence": text("1")}), IPV, None)
      for value in ["a b", "x" * 129]],
    ("SendMessage", with_attribute("Tally.After", text("message:x")), "DependencyDoesNotExist",
     "Tally.After: message:x is not known in this namespace."),
    ("SendMessage", with_attribute("Tally.Batch", {"DataType": "Binary", "BinaryValue": "MQ=="}), IPV, None),
    ("SendMessage", with_attribute("Tally.Batch", text("none")), "BatchDoesNotExist",
     "Tally.Batch: there is no batch 'none'; create it first."),
    *[
        (
            "SendMessage",
            send(MessageGroupId=value),
            *invalid("MessageGroupId", value,
                     "MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length."),
        )
        for value in ["", "a b", "ä"]
    ],
    ("SendMessage", send(MessageGroupId="x" * 129), IPV, None),
    ("SendMessage", with_attribute("Tally.Afetr", text("message:x")), IPV, None),
    # A value that is cut in the middle of a character must leave the reply valid.
    *[("SendMessage", send(MessageGroupId="x" * shift + "ä" * 200), IPV, None) for shift in range(2)],
    *[("SendMessage", send(MessageGroupId="x" * shift + "🎉" * 200), IPV, None) for shift in range(4)],
    *[("SendMessage", with_attribute("x" * shift + "🎉" * 60, text("1", "Nonsense")), IPV, None) for shift in range(4)],
    *[("GetQueueAttributes", {"QueueUrl": Q, "AttributeNames": ["x" * shift + "🎉" * 60]}, "InvalidAttributeName", None)
      for shift in range(4)],
    *[("DeleteMessage", {"QueueUrl": Q, "ReceiptHandle": "x" * shift + "🎉" * 60}, "ReceiptHandleIsInvalid", None)
      for shift in range(4)],
    *[("SetQueueAttributes", redrive("x" * shift + "🎉" * 200), IPV, None) for shift in range(4)],
    *[("DescribeBatch", {"BatchId": "x" * shift + "🎉" * 60}, "BatchDoesNotExist", None) for shift in range(4)],
    # Batches of SQS: the structure.
    *[
        (action, {"QueueUrl": Q, "Entries": []}, "EmptyBatchRequest",
         f"There should be at least one {action}RequestEntry in the request.")
        for action in ["SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"]
    ],
    ("SendMessageBatch", {"QueueUrl": Q}, "EmptyBatchRequest", None),
    *[
        (
            action,
            {"QueueUrl": Q, "Entries": entries(*[{}] * 11)},
            "TooManyEntriesInBatchRequest",
            "Maximum number of entries per request are 10. You have sent 11.",
        )
        for action in ["SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"]
    ],
    *[
        (action, {"QueueUrl": Q, "Entries": entries({}, {"Id": "b"}, {"Id": "c"}, {"Id": "b"}, {"Id": "c"})},
         "BatchEntryIdsNotDistinct", "Id b repeated.")
        for action in ["SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"]
    ],
    *[("SendMessageBatch", {"QueueUrl": Q, "Entries": entries({"Id": bad})}, "InvalidBatchEntryId", ID_RULE)
      for bad in ["", "a b", "ä", "x" * 81, "a.b"]],
    (
        "SendMessageBatch",
        {"QueueUrl": queue("big"), "Entries": entries({"MessageBody": "x" * 1048576}, {"MessageBody": "x"})},
        "BatchRequestTooLong",
        "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes.",
    ),
    (
        "SendMessageBatch",
        {"QueueUrl": Q, "Entries": entries({"MessageBody": "x" * 1048577})},
        "BatchRequestTooLong",
        "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes.",
    ),
    # Receive.
    *[
        ("ReceiveMessage", {"QueueUrl": Q, name: value}, *invalid(name, value, reason))
        for name, reason, values in [
            ("MaxNumberOfMessages", "Must be between 1 and 10, if provided.", [0, -1, 11]),
            ("WaitTimeSeconds", "Must be >= 0 and <= 20, if provided.", [-1, 21]),
            ("VisibilityTimeout", "Must be >= 0 and <= 43200, if provided.", [-1, 43201]),
        ]
        for value in values
    ],
    # Handles.
    ("DeleteMessage", {"QueueUrl": Q}, *missing("ReceiptHandle")),
    ("DeleteMessage", {"QueueUrl": Q, "ReceiptHandle": "garbage"}, *NOT_A_HANDLE),
    ("ChangeMessageVisibility", {"QueueUrl": Q, "VisibilityTimeout": 0}, *missing("ReceiptHandle")),
    ("ChangeMessageVisibility", {"QueueUrl": Q, "ReceiptHandle": "garbage"}, *missing("VisibilityTimeout")),
    ("ChangeMessageVisibility", {"QueueUrl": Q, "ReceiptHandle": "garbage", "VisibilityTimeout": 0}, *NOT_A_HANDLE),
    *[
        (
            "ChangeMessageVisibility",
            {"QueueUrl": Q, "ReceiptHandle": "garbage", "VisibilityTimeout": value},
            *invalid("VisibilityTimeout", value, "Must be between 0 and 43200."),
        )
        for value in [-1, 43201]
    ],
    # Tally's groups.
    ("FailMessage", {"QueueUrl": Q}, *missing("ReceiptHandle")),
    ("FailMessage", {"QueueUrl": Q, "ReceiptHandle": "garbage"}, *NOT_A_HANDLE),
    ("FailMessage", {"QueueUrl": Q, "ReceiptHandle": "garbage", "Reason": "x" * 1025}, IPV,
     "Reason has 1025 bytes; the limit is 1024."),
    ("FailMessage", {"QueueUrl": Q, "ReceiptHandle": "garbage", "Reason": "\1"}, IPV, None),
    ("FailMessage", {"QueueUrl": Q, "ReceiptHandle": "garbage", "RetryAfterSeconds": 43201}, IPV,
     "Value 43201 for parameter RetryAfterSeconds is invalid. Reason: Must be between 0 and 43200, if provided."),
    ("FailMessage", {"QueueUrl": Q, "ReceiptHandle": "garbage", "MaxAttempts": 0}, IPV,
     "Value 0 for parameter MaxAttempts is invalid. Reason: Must be between 1 and 1000, if provided."),
    ("FailMessage", {"QueueUrl": Q, "ReceiptHandle": "garbage", "Backoff": {"min": 2, "max": 1}}, IPV, None),
    ("FailMessage", {"QueueUrl": Q, "ReceiptHandle": "garbage", "Backoff": {"minimum": 1}}, IPV, None),
    ("FailMessage", {"QueueUrl": Q, "ReceiptHandle": "garbage", "Backoff": "1"}, SERIAL, None),
    ("FailMessage", {"QueueUrl": Q, "ReceiptHandle": "garbage", "DeadLetterQueueUrl": Q}, IPV, None),
    ("FailMessage", {"QueueUrl": Q, "ReceiptHandle": "garbage", "DeadLetterQueueUrl": ""}, IPV,
     "Value  for parameter DeadLetterQueueUrl is invalid. Reason: It names no queue."),
    ("FailMessage", {"QueueUrl": Q, "ReceiptHandle": "garbage", "Final": 1}, SERIAL,
     "The value of Final can not be converted to a Boolean."),
    *[(action, {"QueueUrl": Q}, *missing("MessageGroupId"))
      for action in ["PauseGroup", "ResumeGroup", "ReleaseGroup"]],
    *[(action, {"QueueUrl": Q, "MessageGroupId": bad, "Action": "retry"}, IPV, None)
      for action in ["PauseGroup", "ResumeGroup", "ReleaseGroup"] for bad in ["", "a b", "x" * 129]],
    ("ReleaseGroup", {"QueueUrl": Q, "MessageGroupId": "g"}, *missing("Action")),
    ("ReleaseGroup", {"QueueUrl": Q, "MessageGroupId": "g", "Action": "go"},
     *invalid("Action", "go", "It must be retry, skip or cancel-rest.")),
    ("ReleaseGroup", {"QueueUrl": Q, "MessageGroupId": "g", "Action": "retry"}, "GroupNotHeld",
     "Group 'g' of queue q is not held; ListGroups says what keeps it."),
    ("ListGroups", {"QueueUrl": Q, "State": "free"},
     *invalid("State", "free", "It must be held, busy, ready or paused.")),
    ("ListGroups", {"QueueUrl": Q, "MessageGroupId": "a b"}, IPV, None),
    ("ListGroups", {"QueueUrl": Q, "MaxResults": 0}, IPV, None),
    ("ListGroups", {"QueueUrl": Q, "NextToken": "x"}, IPV, "Invalid or expired next token."),
    ("ExplainMessage", {"QueueUrl": Q}, *missing("MessageId")),
    ("GetMessage", {}, *missing("MessageId")),
    ("GetMessage", {"MessageId": "a", "Body": "half"}, *invalid("Body", "half", "It must be none, preview or full.")),
    ("FindMessage", {}, "MissingRequiredParameterException",
     "The request must contain one of MessageId, MessageDeduplicationId, OutboxId, Producer and Text."),
    ("FindMessage", {"MessageId": "a", "OutboxId": "b"}, IPV,
     "The request has both MessageId and OutboxId; it can have only one."),
    ("FindMessage", {"MessageDeduplicationId": "a b", "QueueUrl": Q},
     *invalid("MessageDeduplicationId", "a b",
              "It can only include ASCII letters, digits and punctuation, 1 to 128 of them.")),
    ("FindMessage", {"OutboxId": ""}, *invalid("OutboxId", "", "It must not be empty.")),
    ("FindMessage", {"Text": ""}, *invalid("Text", "", "It must not be empty.")),
    ("FindMessage", {"Text": "x" * 257}, *invalid("Text", "x" * 257, "It must have at most 256 bytes.")),
    ("FindMessage", {"Text": "x " * 17}, *invalid("Text", "x " * 17, "It must have at most 16 words.")),
    ("FindMessage", {"Text": "  "},
     *invalid("Text", "  ", "It must have a word; white space to be found stands between quotation marks.")),
    ("FindMessage", {"Producer": "p", "QueueUrl": Q}, *missing("Sequence")),
    ("FindMessage", {"Producer": "p", "QueueUrl": Q, "Sequence": -1},
     *invalid("Sequence", "-1", "It must be an integer from 0 to 9223372036854775807.")),
    ("FindMessage", {"Producer": "p", "QueueUrl": Q, "Sequence": "one"}, SERIAL, None),
    ("FindMessage", {"OutboxId": "a", "NextToken": "1.2.3"}, IPV, "Invalid or expired next token."),
    ("FindMessage", {"MessageId": "a", "Body": "half"}, *invalid("Body", "half", "It must be none, preview or full.")),
    ("ListMessages", {"QueueUrl": Q, "State": "free"},
     *invalid("State", "free", "It must be ready, delayed, in-flight, blocked or held.")),
    ("ListMessages", {"QueueUrl": Q, "NextToken": "1.2"}, IPV, "Invalid or expired next token."),
    ("ListMessages", {"QueueUrl": Q, "MaxResults": 0}, IPV, None),
    ("ReleaseMessage", {}, *missing("MessageId")),
    ("ReleaseMessage", {"QueueUrl": queue("none"), "MessageId": "a"}, *NO_QUEUE),
    *[("ReleaseMessage", {**where, "MessageId": bad}, *invalid("MessageId", bad, said))
      for where, said in [({"QueueUrl": Q}, "The queue has no such message."), ({}, "There is no such message.")]
      for bad in ["a", "12345678-1234-4234-8234-123456789abc"]],
    ("ReplaceMessage", {"QueueUrl": Q}, *missing("MessageId")),
    *[("ReplaceMessage", {"QueueUrl": Q, "MessageId": bad, "MessageBody": "m"},
       *invalid("MessageId", bad, "The queue has no such message."))
      for bad in ["a", "12345678-1234-4234-8234-123456789abc"]],
    ("DeleteMessages", {"QueueUrl": Q}, MISSING,
     "The request must say which messages: MessageIds, or one or more of Reason, MessageGroupId, SentBefore and "
     "SentAfter. PurgeQueue deletes all."),
    *[("DeleteMessages", {"QueueUrl": Q, name: ""}, IPV, f"{name} is empty; leave it out to mean every message.")
      for name in ["Reason", "MessageGroupId"]],
    ("DeleteMessages", {"QueueUrl": Q, "MessageIds": []}, IPV,
     "MessageIds is empty; it must name 1 to 1000 messages."),
    ("DeleteMessages", {"QueueUrl": Q, "MessageIds": ["a"] * 1001}, IPV,
     "MessageIds holds 1001 names; at most 1000 are taken."),
    *[("DeleteMessages", {"QueueUrl": Q, "MessageIds": [bad]},
       *invalid("MessageIds", bad, "It is not the MessageId of a message of this namespace."))
      for bad in ["a", "12345678-1234-4234-8234-123456789abc"]],
    ("DeleteMessages", {"QueueUrl": Q, "MessageIds": [1]}, SERIAL, None),
    ("DeleteMessages", {"QueueUrl": Q, "Reason": "x" * 1025}, IPV, "Reason has 1025 bytes; at most 1024 are taken."),
    ("DeleteMessages", {"QueueUrl": Q, "MessageGroupId": "a b"}, IPV, None),
    *[("DeleteMessages", {"QueueUrl": Q, name: bad}, IPV,
       f"Value for parameter {name} is invalid. Reason: It must be a number of seconds since 1970.")
      for name in ["SentBefore", "SentAfter"] for bad in [0, -1, "1", 1e300]],
    *[("DeleteMessages", {"QueueUrl": Q, "Reason": "r", "MaxMessages": bad}, IPV,
       f"Value {bad} for parameter MaxMessages is invalid. Reason: Must be 1 or more.") for bad in [0, -1]],
    ("DeleteMessages", {"QueueUrl": Q, "Reason": "r", "DryRun": 1}, SERIAL,
     "The value of DryRun can not be converted to a Boolean."),
    *[(action, {"QueueUrl": Q, "DryRun": "yes"}, SERIAL, "The value of DryRun can not be converted to a Boolean.")
      for action in ["PurgeQueue", "DeleteQueue"]],
    ("CancelBatch", {"BatchId": "open", "DryRun": "yes"}, SERIAL,
     "The value of DryRun can not be converted to a Boolean."),
    ("GetSeries", {"QueueUrl": Q}, *missing("Period")),
    ("GetSeries", {"Period": 7}, *invalid("Period", "7", "It must be 5 or 60 seconds.")),
    ("GetSeries", {"Period": "5"}, SERIAL, None),
    ("GetSeries", {"Period": 5, "Points": 721}, *invalid("Points", "721", "Must be between 1 and 720, if provided.")),
    ("GetSeries", {"Period": 60, "Points": 0}, *invalid("Points", "0", "Must be between 1 and 1440, if provided.")),
    ("GetSeries", {"QueueUrl": "nowhere", "Period": 5}, "QueueDoesNotExist", None),
    ("ListInFlight", {"MaxResults": 0}, IPV, None),
    ("ListInFlight", {"QueueUrl": Q, "NextToken": "1.2"}, IPV, "Invalid or expired next token."),
    ("ListInFlight", {"Worker": 1}, SERIAL, "The value of Worker can not be converted to a String."),
    ("ListDependents", {}, MISSING, "The request must contain either MessageId or BatchId."),
    ("ListDependents", {"MessageId": "a", "BatchId": "open"}, MISSING,
     "The request must contain either MessageId or BatchId."),
    ("ListDependents", {"BatchId": "none"}, "BatchDoesNotExist", "There is no batch 'none'."),
    ("ListDependents", {"MessageId": "a", "NextToken": "1"}, IPV, "Invalid or expired next token."),
    ("ListQueueStats", {"MaxResults": 0}, IPV, None),
    ("ListQueueStats", {"NextToken": "x"}, IPV, "Invalid or expired next token."),
    ("ListQueueStats", {"Having": "held"}, IPV, "Value held for parameter Having is invalid. Reason: It must be "
                                                "held-groups, pause, nothing-visible or dead-letters."),
    ("ListQueueStats", {"SortBy": "size"}, *invalid("SortBy", "size", "It must be name, age, oldest or visible.")),
    ("ListQueueStats", {"SortBy": "age", "NextToken": "x"}, IPV, "Invalid or expired next token."),
    ("FeedEvents", {"After": -1}, IPV, "After must be 0 or the number of an event."),
    ("FeedEvents", {"MaxResults": 1001}, *invalid("MaxResults", 1001, "It must be from 1 to 1000.")),
    ("FeedEvents", {"WaitTimeSeconds": 21}, *invalid("WaitTimeSeconds", 21, "It must be from 0 to 20.")),
    ("DescribeBackup", {}, "BackupDoesNotExist", "There is no backup."),
    ("DescribeBackup", {"BackupId": "b"}, "BackupDoesNotExist", "There is no backup 'b'."),
    ("DescribeBackup", {"BackupId": 1}, SERIAL, None),
    ("DeleteBackup", {}, *missing("BackupId")),
    ("DeleteBackup", {"BackupId": ""}, *missing("BackupId")),
    ("DeleteBackup", {"BackupId": "x" * 101}, "BackupDoesNotExist", f"There is no backup '{'x' * 100}'."),
    # Tally's type orders, schedules and commits.
    ("PutTypeOrder", {"Types": ["a", "b"]}, *missing("Name")),
    ("PutTypeOrder", {"Name": "o"}, *missing("Types")),
    ("PutTypeOrder", {"Name": "o", "Types": "a"}, SERIAL, "The value of Types can not be converted to a List."),
    ("PutTypeOrder", {"Name": "o", "Types": [1, 2]}, SERIAL,
     "The value of Types can not be converted to a List of Strings."),
    *[("PutTypeOrder", {"Name": "o", "Types": [f"t{i}" for i in range(count)]}, IPV,
       f"Types has {count} names. Reason: It must have 2 to 64, the first to come first.")
      for count in [0, 1, 65]],
    *[("PutTypeOrder", {"Name": "o", "Types": ["a", bad]},
       *invalid("Types", bad, "It must be 1 to 128 letters, digits or punctuation characters."))
      for bad in ["", "a b"]],
    ("PutTypeOrder", {"Name": "o", "Types": ["a", "x" * 129]}, IPV, None),
    ("PutTypeOrder", {"Name": "o", "Types": ["a", "a"]}, *invalid("Types", "a", "It stands in the list twice.")),
    ("DeleteTypeOrder", {"Name": "o"}, "TypeOrderDoesNotExist", "There is no type order 'o'."),
    ("ListTypeOrders", {"MaxResults": 1001}, IPV, None),
    ("PutSchedule", {"Name": "s", "Cron": "61 * * * *", "QueueUrl": Q, "MessageBody": "a"},
     *invalid("Cron", "61 * * * *", "The minute field: '61' is not from 0 to 59.")),
    ("PutSchedule", {"Name": "s", "Cron": "* * * * *", "QueueUrl": Q, "MessageBody": "a", "CatchUp": "some"},
     *invalid("CatchUp", "some", "It must be one, none or all.")),
    ("PutSchedule", {"Name": "s", "Cron": "* * * * *", "QueueUrl": queue("none"), "MessageBody": "a"}, *NO_QUEUE),
    *[(action, {"Name": "s"}, "ScheduleDoesNotExist", "There is no schedule 's'.")
      for action in ["DescribeSchedule", "DeleteSchedule", "PauseSchedule", "ResumeSchedule", "FireSchedule"]],
    # Tally's relays; what a source or sink must have, tests/system/test_relay_actions.py asks.
    *[(action, {}, *missing("RelayName")) for action in RELAY_ACTIONS],
    *[(action, {"RelayName": "r"}, "RelayDoesNotExist", "There is no relay 'r'.")
      for action in RELAY_ACTIONS - {"CreateRelay"}],
    *[(action, {"RelayName": bad},
       *invalid("RelayName", bad, "It must be 1 to 80 letters, digits, hyphens and underscores."))
      for action in RELAY_ACTIONS for bad in ["a.b", "a b", "x" * 81]],
    ("CreateRelay", {"RelayName": "r"}, *missing("Source")),
    ("CreateRelay", {"RelayName": "r", "Source": {}}, *missing("Sink")),
    ("CreateRelay", {"RelayName": "r", "Source": "a"}, SERIAL, "The value of Source can not be converted to a Map."),
    ("CreateRelay", {"RelayName": "r", "Source": {}, "Sink": {}, "Order": "none"},
     *invalid("Order", "none", "It must be group or strict.")),
    ("ListRelays", {"MaxResults": 0}, IPV, None),
    ("ListRelays", {"NextToken": "x"}, IPV, "Invalid or expired next token."),
    # Tally's publishers.
    *[(action, {k: v for k, v in PUBLISHER.items() if k != gone}, *missing(gone))
      for action in ["OpenPublisher", "Publish"] for gone in PUBLISHER],
    *[("OpenPublisher", {**PUBLISHER, name: "x"}, *invalid(name, "x", NOT_A_UUID)) for name in ["Publisher", "Owner"]],
    *[("OpenPublisher", {**PUBLISHER, "Epoch": bad},
       *invalid("Epoch", bad, "It must be an integer from 1 to 9223372036854775807."))
      for bad in [0, -1]],
    *[("Publish", {k: v for k, v in publish().items() if k != gone}, *missing(gone))
      for gone in ["Batch", "ConfirmedBatch"]],
    ("Publish", publish(Batch=0), *invalid("Batch", 0, "It must be an integer from 1 to 9223372036854775807.")),
    ("Publish", publish(ConfirmedBatch=2), IPV, "ConfirmedBatch is 2 and must be below Batch, which is 2."),
    ("Publish", publish(Order="any"), *invalid("Order", "any", "It must be group or strict.")),
    ("Publish", publish(Refused="drop"), *invalid("Refused", "drop", "It must be park or block.")),
    ("Publish", publish(Rows="a"), SERIAL, "The value of Rows can not be converted to a List."),
    ("Publish", publish(Rows=[]), "EmptyBatchRequest", "Rows must hold at least one row."),
    ("Publish", publish(Rows=[ROW] * 1001), "TooManyEntriesInBatchRequest",
     "Rows holds 1001 rows; a Publish takes at most 1000."),
    ("Publish", publish(Rows=[ROW, 1]), SERIAL, "Rows[1]: It is not an object."),
    ("Publish", publish(Rows=[ROW, {**ROW, "Id": 0}]), IPV,
     "Rows[1]: Value 0 for parameter Id is invalid. Reason: It must be an integer from 1 to 9223372036854775807."),
    ("Publish", publish(Rows=[{**ROW, "Uid": "x"}]), IPV,
     f"Rows[0]: Value x for parameter Uid is invalid. Reason: {NOT_A_UUID}"),
    ("Publish", publish(Epoch=6), "PublisherFenced",
     f"The publisher belongs to owner {PUBLISHER['Owner']} with epoch 7; this Publish comes from another one, "
     "with epoch 6."),
    ("Publish", publish(Publisher=PUBLISHER["Owner"]), "PublisherFenced",
     "This publisher was never opened; call OpenPublisher first."),
    ("Publish", publish(Batch=3), "PublisherBatchOutOfOrder",
     "Batch is 3; the last one was 1, so it must be that one again or 2. Nothing was done."),
    ("Publish", publish(Batch=1, ConfirmedBatch=0, Rows=[ROW, ROW]), "PublisherBatchConflict",
     "Batch 1 has been published with other rows. Nothing was done."),
    *[("Commit", empty, "EmptyBatchRequest",
       "A Commit needs at least one entry in Sends, Units, Deletes, AddUnits or CreateBatches.")
      for empty in [{}, {"Sends": []}]],
    # Attributes that are no text.
    ("SetQueueAttributes", {"QueueUrl": Q, "Attributes": {"Tally.Backoff": {"min": 1}}}, SERIAL,
     "The value of attribute Tally.Backoff must be a String."),
    # Tally's batches.
    *[
        (action, {"BatchId": "none", **more}, "BatchDoesNotExist", "There is no batch 'none'.")
        for action, more in [
            ("AddUnits", {"Count": 1}),
            ("CompleteUnits", {"Units": [{"Unit": "a"}]}),
            ("XorUnits", {"Value": "0" * 16, "RequestToken": "t"}),
            ("SealBatch", {}),
            ("CancelBatch", {}),
            ("DescribeBatch", {}),
            ("ListUnits", {}),
            ("DeleteBatch", {}),
        ]
    ],
    *[(action, {}, *missing("BatchId")) for action in ["AddUnits", "CompleteUnits", "XorUnits", "SealBatch",
                                                       "CancelBatch", "DescribeBatch", "ListUnits", "DeleteBatch"]],
    ("CreateBatch", {"BatchId": "open", "Total": 5}, "BatchAlreadyExists",
     "Batch 'open' exists and was created with other arguments."),
    ("CreateBatch", {"BatchId": "a b"}, IPV, None),
    ("CreateBatch", {"BatchId": "x" * 129}, IPV, None),
    ("CreateBatch", {"Tracking": "both"}, *invalid("Tracking", "both", "It must be exact or xor.")),
    ("CreateBatch", {"Total": -1}, IPV, None),
    ("CreateBatch", {"Total": "x"}, SERIAL, None),
    ("CreateBatch", {"ExpiresAfterSeconds": 0}, IPV, None),
    ("CreateBatch", {"OnComplete": "x"}, SERIAL, None),
    ("CreateBatch", {"OnComplete": {}}, *NO_QUEUE),
    ("CreateBatch", {"OnComplete": {"QueueUrl": queue("none")}}, *NO_QUEUE),
    ("CreateBatch", {"OnSuccess": {"QueueUrl": Q, "MessageBody": "x" * 1025}}, IPV, None),
    ("CreateBatch", {"OnComplete": {"QueueUrl": Q, "MessageBody": "\1"}}, "InvalidMessageContents", CHARACTERS),
    ("CreateBatch", {"OnComplete": {"QueueUrl": Q, "MessageGroupId": "a b"}}, IPV, None),
    ("CreateBatch", {"OnComplete": {"QueueUrl": Q, "MessageAttributes": {"Tally.Batch": text("open")}}}, IPV, None),
    ("CreateBatch", {"Parent": "none"}, "BatchDoesNotExist", "Parent: there is no batch 'none'."),
    ("CreateBatch", {"Parent": "sealed"}, "BatchSealed", None),
    ("AddUnits", {"BatchId": "open"}, MISSING, "The request must contain either Units or Count."),
    ("AddUnits", {"BatchId": "open", "Units": ["a"], "Count": 1}, MISSING, None),
    ("AddUnits", {"BatchId": "open", "Units": []}, IPV, None),
    ("AddUnits", {"BatchId": "open", "Units": [""]}, IPV, None),
    ("AddUnits", {"BatchId": "open", "Units": [7]}, SERIAL, None),
    ("AddUnits", {"BatchId": "open", "Units": [["a"]]}, SERIAL, None),
    ("AddUnits", {"BatchId": "open", "Count": -1}, IPV, None),
    ("AddUnits", {"BatchId": "sealed", "Count": 9}, "BatchSealed",
     "Batch 'sealed' is sealed: no more units can join it. Only a unit of it that has not ended can add "
     "some, by a Commit that names it."),
    ("AddUnits", {"BatchId": "total", "Count": 4}, "BatchTotalExceeded",
     "Batch 'total' would have more units than its Total, 3; nothing was added."),
    ("AddUnits", {"BatchId": "xor", "Count": 1}, "UnsupportedOperation", None),
    ("CompleteUnits", {"BatchId": "open"}, *missing("Units")),
    ("CompleteUnits", {"BatchId": "open", "Units": [{"Status": "failed"}]}, *missing("Unit")),
    ("CompleteUnits", {"BatchId": "open", "Units": ["a"]}, SERIAL, None),
    ("CompleteUnits", {"BatchId": "open", "Units": [{"Unit": "0", "Status": "done"}]},
     *invalid("Status", "done", "It must be succeeded or failed.")),
    ("CompleteUnits", {"BatchId": "open", "Units": [{"Unit": "0", "Detail": "x" * 1025}]}, IPV, None),
    ("CompleteUnits", {"BatchId": "open", "Units": [{"Unit": "z"}]}, "UnitDoesNotExist",
     "Batch 'open' has no external unit 'z'; nothing was recorded."),
    ("CompleteUnits", {"BatchId": "xor", "Units": [{"Unit": "z"}]}, "UnsupportedOperation", None),
    ("XorUnits", {"BatchId": "xor", "RequestToken": "t"}, *missing("Value")),
    ("XorUnits", {"BatchId": "xor", "Value": "0" * 16}, *missing("RequestToken")),
    *[("XorUnits", {"BatchId": "xor", "RequestToken": "t", "Value": v},
       *invalid("Value", v, "It must be 16 hexadecimal digits."))
      for v in ["0", "g" * 16, "0" * 17]],
    ("XorUnits", {"BatchId": "xor", "RequestToken": "a b", "Value": "0" * 16}, IPV, None),
    ("XorUnits", {"BatchId": "xor", "RequestToken": "t", "Value": "0" * 16, "Finished": 1}, IPV, None),
    ("XorUnits", {"BatchId": "open", "RequestToken": "t", "Value": "0" * 16}, "UnsupportedOperation", None),
    ("ListUnits", {"BatchId": "open", "State": "done"},
     *invalid("State", "done", "It must be outstanding, succeeded, failed or cancelled.")),
    ("ListUnits", {"BatchId": "xor"}, "UnsupportedOperation", None),
    ("ListUnits", {"BatchId": "open", "MaxResults": 0}, IPV, None),
    ("ListUnits", {"BatchId": "open", "NextToken": "x"}, IPV, "Invalid or expired next token."),
    ("ListBatches", {"State": "done"}, *invalid("State", "done", "It must be open, sealed or completed.")),
    ("ListBatches", {"MaxResults": 1001}, IPV, None),
    ("DeleteBatch", {"BatchId": "open"}, "BatchNotCompleted",
     "Batch 'open' is open; only a completed batch can be deleted. Cancel it first."),
    ("DeleteQueue", {"QueueUrl": queue("results")}, "QueueInUse", None),
]

OWN_ACTIONS = {"CreateBatch", "AddUnits", "CompleteUnits", "XorUnits", "SealBatch", "CancelBatch", "DescribeBatch",
               "ListUnits", "ListBatches", "DeleteBatch"}
OWN_ACTIONS |= {"FailMessage", "PauseQueue", "ResumeQueue", "PauseGroup", "ResumeGroup", "ReleaseGroup", "ListGroups",
                "ReleaseMessage", "ExplainMessage", "ListMessages", "GetMessage", "FindMessage", "SummarizeFailures",
                "ListInFlight", "ListDependents", "GetSeries", "ListQueueStats", "DeleteMessages", "ReplaceMessage",
                "FeedEvents", "DescribeServer", "StartBackup", "DescribeBackup", "DeleteBackup"}
OWN_ACTIONS |= {"PutTypeOrder", "DeleteTypeOrder", "ListTypeOrders", "PutSchedule", "DescribeSchedule",
                "DeleteSchedule", "PauseSchedule", "ResumeSchedule", "FireSchedule", "Commit"}
OWN_ACTIONS |= RELAY_ACTIONS | {"ListRelays", "OpenPublisher", "Publish"}


def target(action):
    return ("Tally." if action in OWN_ACTIONS else "AmazonSQS.") + action


def check(answer, error, expected, is_own=False):
    prefix, code, status = KINDS[error]
    told = answer.json()
    assert told["__type"] == (T if is_own else prefix) + error, told
    assert answer.status == (400 if is_own and (status == 404 or error == "OverLimit") else status)
    assert answer.header("x-amzn-query-error") == f"{code};Sender"
    assert answer.header("content-type") == "application/x-amz-json-1.0"
    assert set(told) == {"__type", "message"} and told["message"]
    if expected is not None:
        assert told["message"] == expected


def make_world(line):
    line.ok("AmazonSQS.CreateQueue", {"QueueName": "q", "Attributes": {"MaximumMessageSize": "1024"}})
    for name in ["big", "results"]:
        line.ok("AmazonSQS.CreateQueue", {"QueueName": name})
    line.ok("Tally.CreateBatch", {"BatchId": "open", "OnComplete": {"QueueUrl": queue("results")}})
    line.ok("Tally.AddUnits", {"BatchId": "open", "Count": 2})
    line.ok("Tally.CreateBatch", {"BatchId": "sealed"})
    line.ok("Tally.AddUnits", {"BatchId": "sealed", "Count": 2})
    line.ok("Tally.SealBatch", {"BatchId": "sealed"})
    line.ok("Tally.CreateBatch", {"BatchId": "total", "Total": 3})
    line.ok("Tally.CreateBatch", {"BatchId": "xor", "Tracking": "xor"})
    line.ok("Tally.OpenPublisher", PUBLISHER)
    line.ok("Tally.Publish", publish(Batch=1, ConfirmedBatch=0))


def without_age(reply):
    reply["Attributes"].pop("Tally.OldestMessageAge", None)
    return reply


def world(line):
    """Everything that could have changed."""
    return [
        line.ok("AmazonSQS.ListQueues", {}),
        [without_age(line.ok("AmazonSQS.GetQueueAttributes", {"QueueUrl": queue(q), "AttributeNames": ["All"]}))
         for q in ["q", "big", "results"]],
        line.ok("Tally.ListBatches", {}),
        line.ok("Tally.OpenPublisher", PUBLISHER),
    ]


@pytest.fixture
def line(daemon):
    with Connection(daemon.port) as line:
        yield line


def test_each_fault_has_its_code_status_header_and_text_and_changes_nothing(line):
    make_world(line)
    before = world(line)
    socket = line.socket
    faults = []
    for action, body, error, expected in ROWS:
        answer = line.call(target(action), body)
        try:
            check(answer, error, expected, action in OWN_ACTIONS)
        except (AssertionError, ValueError, KeyError) as fault:
            faults.append(f"{action} {str(body)[:200]}: wanted {error}, got {answer.status} {answer.body[:300]!r}: "
                          f"{str(fault)[:500]}")
    assert not faults, f"{len(faults)} of {len(ROWS)}:\n" + "\n".join(faults)
    assert line.socket is socket, "the connection was closed in between"
    assert world(line) == before


def test_lists_of_tallys_own_are_there_when_they_are_empty(line):
    line.ok("AmazonSQS.CreateQueue", {"QueueName": "q.fifo", "Attributes": {"FifoQueue": "true"}})
    line.ok("Tally.CreateBatch", {"BatchId": "b"})
    for action, body, name in [
        ("ListBatches", {"Prefix": "none"}, "Batches"),
        ("ListUnits", {"BatchId": "b"}, "Units"),
        ("ListGroups", {"QueueUrl": "q.fifo"}, "Groups"),
        ("ListSchedules", {}, "Schedules"),
        ("ListTypeOrders", {}, "TypeOrders"),
        ("ListPools", {}, "Pools"),
        ("ListRelays", {}, "Relays"),
    ]:
        assert line.ok(f"Tally.{action}", body) == {name: []}


def test_faults_of_one_entry_fail_that_entry(line):
    make_world(line)
    answer = line.ok(
        "AmazonSQS.SendMessageBatch",
        {
            "QueueUrl": Q,
            "Entries": entries(
                {},
                {"MessageBody": "x" * 1025},
                {"MessageBody": "\1"},
                {"MessageBody": ""},
                {"MessageAttributes": {"a": text("")}},
                {"DelaySeconds": 901},
                {"MessageGroupId": "a b"},
                {"MessageBody": 7},
                {"MessageAttributes": {"Tally.Batch": text("none")}},
                {},
            ),
        },
    )
    assert [entry["Id"] for entry in answer["Successful"]] == ["e0", "e9"]
    assert [(entry["Id"], entry["Code"], entry["SenderFault"]) for entry in answer["Failed"]] == [
        ("e1", "InvalidParameterValue", True),
        ("e2", "InvalidMessageContents", True),
        ("e3", "MissingParameter", True),
        ("e4", "InvalidParameterValue", True),
        ("e5", "InvalidParameterValue", True),
        ("e6", "InvalidParameterValue", True),
        ("e7", "MalformedInput", True),
        ("e8", "BatchDoesNotExist", True),
    ]
    assert answer["Failed"][0]["Message"] == (
        "One or more parameters cannot be validated. Reason: Message must be shorter than 1024 bytes."
    )
    for action, more in [("DeleteMessageBatch", {}), ("ChangeMessageVisibilityBatch", {"VisibilityTimeout": 1})]:
        answer = line.ok(f"AmazonSQS.{action}", {
            "QueueUrl": Q, "Entries": [{"Id": "a", "ReceiptHandle": "garbage", **more}, {"Id": "b", **more}]})
        assert "Successful" not in answer
        assert [(entry["Id"], entry["Code"]) for entry in answer["Failed"]] == [
            ("a", "ReceiptHandleIsInvalid"), ("b", "MissingParameter")]


def receive_one(line, url=Q, **more):
    return line.ok("AmazonSQS.ReceiveMessage", {"QueueUrl": url, **more})["Messages"][0]


def test_handles_of_other_queues_and_of_messages_that_are_gone(line):
    make_world(line)
    line.ok("AmazonSQS.SendMessage", send())
    handle = receive_one(line)["ReceiptHandle"]
    for action, more in [("DeleteMessage", {}), ("ChangeMessageVisibility", {"VisibilityTimeout": 1})]:
        answer = line.call(f"AmazonSQS.{action}", {"QueueUrl": queue("big"), "ReceiptHandle": handle, **more})
        check(answer, "ReceiptHandleIsInvalid",
              f'The input receipt handle "{handle[:100]}" is not a valid receipt handle.')
    answer = line.call("AmazonSQS.ChangeMessageVisibility",
                       {"QueueUrl": Q, "ReceiptHandle": handle, "VisibilityTimeout": 43200})
    check(answer, *invalid("VisibilityTimeout", 43200,
                           "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]"))
    for _ in range(2):
        assert line.call("AmazonSQS.DeleteMessage", {"QueueUrl": Q, "ReceiptHandle": handle}).status == 200
    answer = line.call("AmazonSQS.ChangeMessageVisibility",
                       {"QueueUrl": Q, "ReceiptHandle": handle, "VisibilityTimeout": 1})
    check(answer, IPV, None)
    assert answer.json()["message"].endswith(
        "Reason: Message does not exist or is not available for visibility timeout change.")


def test_too_many_messages_in_flight(daemon_factory):
    daemon = daemon_factory("--in-flight-max", "3").start()
    with Connection(daemon.port) as line:
        make_world(line)
        line.ok("AmazonSQS.SendMessageBatch", {"QueueUrl": Q, "Entries": entries(*[{}] * 5)})
        assert len(line.ok("AmazonSQS.ReceiveMessage", {"QueueUrl": Q, "MaxNumberOfMessages": 10})["Messages"]) == 3
        check(line.call("AmazonSQS.ReceiveMessage", {"QueueUrl": Q}), "OverLimit", None)
    assert daemon.stop() == 0


def test_the_60_second_rules_are_off_and_can_be_switched_on(daemon_factory):
    for is_on in [False, True]:
        daemon = daemon_factory(*(["--purge-interval", "--delete-interval"] if is_on else [])).start()
        with Connection(daemon.port) as line:
            make_world(line)
            line.ok("AmazonSQS.PurgeQueue", {"QueueUrl": Q})
            again = line.call("AmazonSQS.PurgeQueue", {"QueueUrl": Q})
            line.ok("AmazonSQS.DeleteQueue", {"QueueUrl": Q})
            created = line.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
            if is_on:
                check(again, "PurgeQueueInProgress", "Only one PurgeQueue operation on q is allowed every 60 seconds.")
                check(
                    created,
                    "QueueDeletedRecently",
                    "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
                )
            else:
                assert again.status == created.status == 200
        assert daemon.stop() == 0


def test_bodies_above_the_limit_of_http_are_refused_in_the_json_form(daemon, line):
    make_world(line)
    line.write(request_bytes("AmazonSQS.SendMessage", send(MessageBody="x" * (9 << 20)))[: 1 << 16])
    check(line.answer(), "RequestTooLarge", None)
    line.close()
    line.ok("AmazonSQS.SendMessage", send())


def test_a_receive_request_is_small(line):
    """It may wait, so what it holds meanwhile is bounded."""
    line.call("AmazonSQS.CreateQueue", {"QueueName": "small"})
    answer = line.call("AmazonSQS.ReceiveMessage", {"QueueUrl": "small", "MessageAttributeNames": ["x" * 65536]})
    assert answer.status == 413 and answer.json()["__type"] == "com.tally#RequestTooLarge"
    assert "the limit is 65536" in answer.json()["message"]


def test_silent_actions_answer_with_an_empty_body_and_empty_collections_of_sqs_are_absent(line):
    make_world(line)
    silent = [
        ("AmazonSQS.SetQueueAttributes", {"QueueUrl": Q, "Attributes": {"DelaySeconds": "0"}}),
        ("AmazonSQS.PurgeQueue", {"QueueUrl": Q}),
    ]
    line.ok("AmazonSQS.SendMessage", send())
    handle = receive_one(line)["ReceiptHandle"]
    silent += [
        ("AmazonSQS.ChangeMessageVisibility", {"QueueUrl": Q, "ReceiptHandle": handle, "VisibilityTimeout": 30}),
        ("AmazonSQS.DeleteMessage", {"QueueUrl": Q, "ReceiptHandle": handle}),
    ][::1]
    for action, body in silent[2:] + silent[:2] + [("AmazonSQS.DeleteQueue", {"QueueUrl": queue("big")})]:
        answer = line.call(action, body)
        assert (answer.status, answer.body) == (200, b""), action
        assert answer.header("content-length") == "0"
    line.ok("Tally.CancelBatch", {"BatchId": "xor"})
    answer = line.call("Tally.DeleteBatch", {"BatchId": "xor"})
    assert (answer.status, answer.body) == (200, b"")

    for action, body in [
        ("AmazonSQS.ReceiveMessage", {"QueueUrl": Q}),
        ("AmazonSQS.ReceiveMessage", {"QueueUrl": Q, "WaitTimeSeconds": 1}),
        ("AmazonSQS.ListQueues", {"QueueNamePrefix": "none"}),
        ("AmazonSQS.GetQueueAttributes", {"QueueUrl": Q}),
        ("AmazonSQS.GetQueueAttributes", {"QueueUrl": Q, "AttributeNames": []}),
        ("AmazonSQS.GetQueueAttributes", {"QueueUrl": Q, "AttributeNames": ["RedrivePolicy"]}),
    ]:
        answer = line.call(action, body)
        assert (answer.status, answer.body) == (200, b"{}"), (action, body)
    assert set(line.ok("AmazonSQS.SendMessage", send())) == {"MessageId", "MD5OfMessageBody"}
    plain = {"MessageId", "ReceiptHandle", "MD5OfBody", "Body"}
    assert set(receive_one(line, VisibilityTimeout=0)) == plain
    assert set(receive_one(line, VisibilityTimeout=0, MessageAttributeNames=["none", "a.*"])) == plain
    assert set(receive_one(line, VisibilityTimeout=0, MessageAttributeNames=["All"])) == plain
    assert set(line.ok("AmazonSQS.SendMessageBatch", {"QueueUrl": Q, "Entries": entries({})})) == {"Successful"}
    # An empty body counts as {}; null as absent.
    assert line.ok("AmazonSQS.ListQueues", b"")["QueueUrls"]
    assert line.ok("AmazonSQS.ListQueues", {"QueueNamePrefix": None, "Unknown": [1]})["QueueUrls"]


def test_limits_are_accepted_to_the_byte(line):
    make_world(line)
    big = queue("big")
    for body in ["x" * 1048576, "ä" * 524288, "🎉" * 262144, "\t\n\r \ud7ff\ue000\ufffd\U00010000\U0010ffff"]:
        line.ok("AmazonSQS.SendMessage", {"QueueUrl": big, "MessageBody": body})
        message = receive_one(line, big)
        assert message["Body"] == body
        line.ok("AmazonSQS.DeleteMessage", {"QueueUrl": big, "ReceiptHandle": message["ReceiptHandle"]})
    assert line.call("AmazonSQS.SendMessage", {"QueueUrl": big, "MessageBody": "x" * 1048577}).status == 400
    # "abc" + "String" + "1234" are 13 bytes.
    line.ok("AmazonSQS.SendMessage", send(MessageBody="x" * 1011, MessageAttributes={"abc": text("1234")}))
    ten = {"x" * 255: text("v"), **{f"a{i}": text("-12.5e-3", "Number.label") for i in range(9)}}
    line.ok("AmazonSQS.SendMessage", {"QueueUrl": big, "MessageBody": "a", "MessageAttributes": ten})
    assert receive_one(line, big, MessageAttributeNames=["All"])["MessageAttributes"] == ten
    line.ok("AmazonSQS.CreateQueue", {"QueueName": "x" * 80})
    line.ok("AmazonSQS.SendMessage", send(MessageGroupId="!" * 128, DelaySeconds=900))
    line.ok(
        "AmazonSQS.SendMessageBatch",
        {"QueueUrl": big,
         "Entries": entries({"MessageBody": "x" * 524288, "Id": "x" * 80}, {"MessageBody": "x" * 524288})},
    )
