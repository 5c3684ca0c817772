"""Every action of SQS in both forms with every error that it documents: the code, what stands in __type, the header
with its two parts, the status, and the text where AWS's is known (reference: SQS, 5.1, 5.2 and Q2).

One row, one fault. A test proves that no documented error is left out."""

import base64
import json

import pytest
from sqs import ACTIONS, Refused, Sqs, arn, form, invalid, number, read, string

M, C = "com.amazonaws.sqs#", "com.amazon.coral.service#"
SERVICE = "AWS.SimpleQueueService."

# code in Query and in the header: (what __type says, HTTP status)
KINDS = {
    SERVICE + "NonExistentQueue": (M + "QueueDoesNotExist", 400),
    "QueueAlreadyExists": (M + "QueueNameExists", 400),
    **{
        SERVICE + name: (M + name, 400)
        for name in [
            "QueueDeletedRecently",
            "EmptyBatchRequest",
            "TooManyEntriesInBatchRequest",
            "BatchEntryIdsNotDistinct",
            "InvalidBatchEntryId",
            "BatchRequestTooLong",
            "UnsupportedOperation",
        ]
    },
    SERVICE + "PurgeQueueInProgress": (M + "PurgeQueueInProgress", 403),
    "OverLimit": (M + "OverLimit", 403),
    "ReceiptHandleIsInvalid": (M + "ReceiptHandleIsInvalid", 404),
    "ResourceNotFoundException": (M + "ResourceNotFoundException", 404),
    **{name: (M + name, 400) for name in ["InvalidAttributeName", "InvalidAttributeValue", "InvalidMessageContents"]},
    "InvalidParameterValue": (C + "InvalidParameterValueException", 400),
    "MissingParameter": (C + "MissingRequiredParameterException", 400),
    "InvalidAction": (C + "UnknownOperationException", 400),
    "MalformedInput": (C + "SerializationException", 400),
}
IPV, MISSING, MALFORMED = "InvalidParameterValue", "MissingParameter", "MalformedInput"
NO_QUEUE, NO_RESOURCE, BAD_HANDLE = SERVICE + "NonExistentQueue", "ResourceNotFoundException", "ReceiptHandleIsInvalid"
BAD_NAME, BAD_VALUE, BAD_TEXT = "InvalidAttributeName", "InvalidAttributeValue", "InvalidMessageContents"
EMPTY, MANY, REPEATED, BAD_ID = (SERVICE + name for name in [
    "EmptyBatchRequest", "TooManyEntriesInBatchRequest", "BatchEntryIdsNotDistinct", "InvalidBatchEntryId"])

# What the service model says that each action answers, besides what all do. Left out, because Tally never raises them:
# the Kms errors (it encrypts nothing), RequestThrottled, InvalidAddress, InvalidSecurity, InvalidIdFormat (deprecated),
# MessageNotInflight (AWS answers InvalidParameterValue), OverLimit of SetQueueAttributes, and UnsupportedOperation
# where it has no cause.
DOCUMENTED = {
    "AddPermission": ["OverLimit", NO_QUEUE],
    "CancelMessageMoveTask": [NO_RESOURCE],
    "ChangeMessageVisibility": [BAD_HANDLE, NO_QUEUE],
    "ChangeMessageVisibilityBatch": [MANY, EMPTY, REPEATED, BAD_ID, NO_QUEUE],
    "CreateQueue": [SERVICE + "QueueDeletedRecently", "QueueAlreadyExists", BAD_NAME, BAD_VALUE],
    "DeleteMessage": [BAD_HANDLE, NO_QUEUE],
    "DeleteMessageBatch": [MANY, EMPTY, REPEATED, BAD_ID, NO_QUEUE],
    "DeleteQueue": [NO_QUEUE],
    "GetQueueAttributes": [BAD_NAME, NO_QUEUE],
    "GetQueueUrl": [NO_QUEUE],
    "ListDeadLetterSourceQueues": [NO_QUEUE],
    "ListMessageMoveTasks": [NO_RESOURCE],
    "ListQueueTags": [NO_QUEUE],
    "ListQueues": [],
    "PurgeQueue": [NO_QUEUE, SERVICE + "PurgeQueueInProgress"],
    "ReceiveMessage": ["OverLimit", NO_QUEUE],
    "RemovePermission": [NO_QUEUE],
    "SendMessage": [BAD_TEXT, SERVICE + "UnsupportedOperation", NO_QUEUE],
    "SendMessageBatch": [MANY, EMPTY, REPEATED, SERVICE + "BatchRequestTooLong", BAD_ID, NO_QUEUE],
    "SetQueueAttributes": [BAD_NAME, BAD_VALUE, NO_QUEUE],
    "StartMessageMoveTask": [NO_RESOURCE],
    "TagQueue": [NO_QUEUE],
    "UntagQueue": [NO_QUEUE],
}

# A good request of each action but for its queue; the queue itself is "q".
GOOD = {
    "AddPermission": {"Label": "l", "AWSAccountIds": ["111111111111"], "Actions": ["SendMessage"]},
    "ChangeMessageVisibility": {"ReceiptHandle": "garbage", "VisibilityTimeout": 0},
    "ChangeMessageVisibilityBatch": {"Entries": [{"Id": "a", "ReceiptHandle": "garbage", "VisibilityTimeout": 0}]},
    "DeleteMessage": {"ReceiptHandle": "garbage"},
    "DeleteMessageBatch": {"Entries": [{"Id": "a", "ReceiptHandle": "garbage"}]},
    "DeleteQueue": {},
    "GetQueueAttributes": {"AttributeNames": ["All"]},
    "ListDeadLetterSourceQueues": {},
    "ListQueueTags": {},
    "PurgeQueue": {},
    "ReceiveMessage": {},
    "RemovePermission": {"Label": "l"},
    "SendMessage": {"MessageBody": "a"},
    "SendMessageBatch": {"Entries": [{"Id": "a", "MessageBody": "b"}]},
    "SetQueueAttributes": {"Attributes": {"DelaySeconds": "0"}},
    "TagQueue": {"Tags": {"a": "b"}},
    "UntagQueue": {"TagKeys": ["a"]},
}
BATCHES = [action for action in GOOD if action.endswith("Batch")]
ID_RULE = ("A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
           "It can be at most 80 letters long.")
NAME_RULE = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
FIFO_NAME_RULE = (
    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
    "must end with .fifo suffix and be 1 to 80 in length."
)
NO_NAME = "Value for parameter QueueName is invalid. Reason: Must specify a queue name."
MAX_RULE = "Value for parameter MaxResults is invalid. Reason: MaxResults must be an integer between 1 and 1000."
NOT_A_HANDLE = 'The input receipt handle "garbage" is not a valid receipt handle.'
TYPE_RULE = ("The type of message (user) attribute 'a' is invalid. You must use only the following supported type "
             "prefixes: Binary, Number, String.")
NO_ID = "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
ID_CHARACTERS = "can only include alphanumeric and punctuation characters. 1 to 128 in length."
LABEL_EXISTS = invalid("Label", "taken", "Already exists.")
EIGHT = ["ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "GetQueueUrl", "ListDeadLetterSourceQueues",
         "PurgeQueue", "ReceiveMessage", "SendMessage"]


def missing(name):
    return (MISSING, f"The request must contain the parameter {name}.")


def has(part):
    return lambda text: part in text


def to(action, queue="q", **more):
    return {"QueueUrl": queue, **{**GOOD[action], **more}}


def send(queue="q", **more):
    return to("SendMessage", queue, **more)


def fifo(**more):
    return {"QueueUrl": "q.fifo", "MessageBody": "a", "MessageGroupId": "g", "MessageDeduplicationId": "d", **more}


def without(parameters, name):
    return {key: value for key, value in parameters.items() if key != name}


def attribute(value, name="a"):
    return send(MessageAttributes={name: value})


def redrive(**policy):
    return json.dumps(policy)


def change(**attributes):
    return {"QueueUrl": "q", "Attributes": attributes}


def absent(name):
    return f"The resource that you specified for the {name} parameter doesn't exist."


def arn_form(name):
    return (f"You must use this format to specify the {name}: "
            "arn:<partition>:<service>:<region>:<account-id>:<resource-id>")


UNKNOWN_TASK = base64.b64encode(
    json.dumps({"taskId": "12345678-1234-4234-8234-123456789abc", "sourceArn": arn("dead")}).encode()).decode()

# (action, parameters, code, text: None: any; a function: true of it)
ROWS = [
    *[(action, to(action, url), NO_QUEUE, None) for action in GOOD
      for url in ["none", "", None, "http://nowhere", "http://127.0.0.1/111111111111/q"]],
    ("GetQueueUrl", {"QueueName": "none"}, NO_QUEUE, None),
    ("GetQueueUrl", {"QueueName": "q", "QueueOwnerAWSAccountId": "111111111111"}, NO_QUEUE, None),
    ("GetQueueUrl", {}, IPV, NO_NAME),
    # --- required parameters
    *[
        (action, without(to(action), name),
         *missing({"Actions": "ActionName", "Attributes": "Attribute.Name"}.get(name, name)))
        for action, names in {
            "AddPermission": ["Label", "AWSAccountIds", "Actions"],
            "ChangeMessageVisibility": ["ReceiptHandle", "VisibilityTimeout"],
            "DeleteMessage": ["ReceiptHandle"],
            "RemovePermission": ["Label"],
            "SendMessage": ["MessageBody"],
            "SetQueueAttributes": ["Attributes"],
            "TagQueue": ["Tags"],
        }.items()
        for name in names
    ],
    ("SendMessage", send(MessageBody=""), *missing("MessageBody")),
    ("StartMessageMoveTask", {}, *missing("SourceArn")),
    ("ListMessageMoveTasks", {}, *missing("SourceArn")),
    ("CancelMessageMoveTask", {}, *missing("TaskHandle")),
    # --- queues
    *[("CreateQueue", {"QueueName": name}, IPV, NO_NAME) for name in ["", None]],
    *[("CreateQueue", {"QueueName": name}, IPV, NAME_RULE) for name in ["a b", "x" * 81, "a.fifo", "ä"]],
    *[("CreateQueue", {"QueueName": name, "Attributes": {"FifoQueue": "true"}}, IPV, FIFO_NAME_RULE)
      for name in ["a", "x" * 76 + ".fifo"]],
    ("CreateQueue", {"QueueName": "q", "Attributes": {"DelaySeconds": "1"}}, "QueueAlreadyExists",
     "A queue already exists with the same name and a different value for attribute DelaySeconds"),
    (
        "CreateQueue",
        {"QueueName": "gone"},
        SERVICE + "QueueDeletedRecently",
        "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
    ),
    *[
        (action, {**which, "Attributes": {name: value}}, code, text)
        for action, which in [("CreateQueue", {"QueueName": "new"}), ("SetQueueAttributes", {"QueueUrl": "q"})]
        for name, value, code, text in [
            ("Nonsense", "1", BAD_NAME, "Unknown Attribute Nonsense."),
            ("QueueArn", "1", BAD_NAME, "Unknown Attribute QueueArn."),
            ("All", "1", BAD_NAME, "Unknown Attribute All."),
            ("FifoQueue", "false", BAD_NAME, "Unknown Attribute FifoQueue."),
            ("ContentBasedDeduplication", "true", BAD_NAME, "Unknown Attribute ContentBasedDeduplication."),
            ("DeduplicationScope", "queue", BAD_NAME,
             "You can specify the DeduplicationScope only when FifoQueue is set to true."),
            ("FifoThroughputLimit", "perQueue", BAD_NAME,
             "You can specify the FifoThroughputLimit only when FifoQueue is set to true."),
            ("DelaySeconds", "901", BAD_VALUE, has("Invalid value for the parameter DelaySeconds.")),
            ("MaximumMessageSize", "1023", BAD_VALUE, has("Invalid value for the parameter MaximumMessageSize.")),
            ("SqsManagedSseEnabled", "maybe", BAD_VALUE, None),
            ("KmsDataKeyReusePeriodSeconds", "59", BAD_VALUE, None),
            ("RedrivePolicy", "{}", IPV,
             invalid("RedrivePolicy", "{}", "Redrive policy does not contain mandatory attribute: maxReceiveCount.")),
            ("RedrivePolicy", redrive(deadLetterTargetArn=arn("none"), maxReceiveCount=1), IPV,
             has("Reason: Dead letter target does not exist.")),
            ("RedrivePolicy", redrive(deadLetterTargetArn=arn("q.fifo"), maxReceiveCount=1), IPV,
             has("Reason: Dead-letter queue must be same type of queue as the source.")),
            (
                "RedrivePolicy",
                redrive(deadLetterTargetArn=arn("dead"), maxReceiveCount=1001),
                IPV,
                has("Reason: Invalid value for maxReceiveCount: 1001, valid values are from 1 to 1000 both inclusive."),
            ),
            ("RedrivePolicy", redrive(deadLetterTargetArn=arn("closed"), maxReceiveCount=1), IPV, None),
            (
                "RedriveAllowPolicy",
                '{"redrivePermission":"byQueue"}',
                IPV,
                has("Amazon SQS can't create the redrive allow policy, as it's in an unsupported format."),
            ),
        ]
    ],
    (
        "SetQueueAttributes",
        change(KmsMasterKeyId="k", SqsManagedSseEnabled="true"),
        BAD_NAME,
        "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE.",
    ),
    (
        "SetQueueAttributes",
        {"QueueUrl": "q.fifo", "Attributes": {"FifoQueue": "false"}},
        BAD_VALUE,
        "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
    ),
    (
        "SetQueueAttributes",
        {"QueueUrl": "q.fifo", "Attributes": {"FifoThroughputLimit": "perMessageGroupId"}},
        IPV,
        "The perMessageGroupId value is allowed only when the value for DeduplicationScope is messageGroup",
    ),
    ("GetQueueAttributes", to("GetQueueAttributes", AttributeNames=["Nonsense"]), BAD_NAME,
     "Unknown Attribute Nonsense."),
    (
        "PurgeQueue",
        {"QueueUrl": "purged"},
        SERVICE + "PurgeQueueInProgress",
        "Only one PurgeQueue operation on purged is allowed every 60 seconds.",
    ),
    # --- lists
    *[(action, {**which, "MaxResults": wrong}, IPV, MAX_RULE)
      for action, which in [("ListQueues", {}), ("ListDeadLetterSourceQueues", {"QueueUrl": "dead"})]
      for wrong in [0, -1, 1001]],
    *[
        (action, {**which, "MaxResults": 1, "NextToken": "zz"}, IPV, "Invalid or expired next token.")
        for action, which in [("ListQueues", {}), ("ListDeadLetterSourceQueues", {"QueueUrl": "dead"})]
    ],
    # --- one message
    ("SendMessage", send(MessageBody="x" * 1025), IPV,
     "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes."),
    ("SendMessage", send(MessageBody="a\1b"), BAD_TEXT,
     has("Invalid characters found. Valid unicode characters are #x9")),
    ("SendMessage", send(DelaySeconds=901), IPV, invalid("DelaySeconds", 901, "DelaySeconds must be >= 0 and <= 900.")),
    ("SendMessage", fifo(DelaySeconds=1), IPV,
     invalid("DelaySeconds", 1, "The request include parameter that is not valid for this queue type.")),
    ("SendMessage", without(fifo(), "MessageGroupId"), *missing("MessageGroupId")),
    ("SendMessage", without(fifo(), "MessageDeduplicationId"), IPV, NO_ID),
    *[
        ("SendMessage", fifo(**{name: value}), IPV, invalid(name, value, f"{name} {ID_CHARACTERS}"))
        for name in ["MessageGroupId", "MessageDeduplicationId"]
        for value in ["", "a b", "ä"]
    ],
    ("SendMessage", send(MessageAttributes={f"a{i}": string("v") for i in range(11)}), IPV,
     "Number of message attributes [11] exceeds the allowed maximum [10]."),
    ("SendMessage", attribute(string("")), IPV,
     "Message (user) attribute 'a' must contain a non-empty value of type 'String'."),
    ("SendMessage", attribute(number("abc")), IPV, "Can't cast the value of message (user) attribute 'a' to a number."),
    ("SendMessage", attribute({"DataType": "Text", "StringValue": "v"}), IPV, TYPE_RULE),
    ("SendMessage", attribute(string("v"), "AWS.a"), IPV, None),
    (
        "SendMessage",
        attribute({"DataType": "String", "StringListValues": ["a"]}),
        SERVICE + "UnsupportedOperation",
        "Message attribute list values in SendMessage operation are not supported.",
    ),
    # --- batches
    *[(action, to(action, Entries=[]), EMPTY, f"There should be at least one {action}RequestEntry in the request.")
      for action in BATCHES],
    *[(action, without(to(action), "Entries"), EMPTY, None) for action in BATCHES],
    *[
        (action, to(action, Entries=[{**GOOD[action]["Entries"][0], "Id": f"e{i}"} for i in range(11)]), MANY,
         "Maximum number of entries per request are 10. You have sent 11.")
        for action in BATCHES
    ],
    *[(action, to(action, Entries=[{**GOOD[action]["Entries"][0], "Id": name} for name in "abcbc"]), REPEATED,
       "Id b repeated.")
      for action in BATCHES],
    *[(action, to(action, Entries=[{**GOOD[action]["Entries"][0], "Id": name}]), BAD_ID, ID_RULE) for action in BATCHES
      for name in ["", "a b", "x" * 81]],
    (
        "SendMessageBatch",
        to("SendMessageBatch", Entries=[{"Id": "a", "MessageBody": "x" * 1048576}, {"Id": "b", "MessageBody": "x"}]),
        SERVICE + "BatchRequestTooLong",
        "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes.",
    ),
    ("SendMessageBatch",
     {"QueueUrl": "q.fifo", "Entries": [{"Id": "a", **without(without(fifo(), "QueueUrl"), "MessageGroupId")}]}, IPV,
     missing("MessageGroupId")[1]),
    ("SendMessageBatch",
     {"QueueUrl": "q.fifo", "Entries": [{"Id": "a", **without(without(fifo(), "QueueUrl"), "MessageDeduplicationId")}]},
     IPV, NO_ID),
    # --- receives and handles
    *[
        ("ReceiveMessage", to("ReceiveMessage", **{name: value}), IPV, invalid(name, value, reason))
        for name, reason, values in [
            ("MaxNumberOfMessages", "Must be between 1 and 10, if provided.", [0, 11]),
            ("WaitTimeSeconds", "Must be >= 0 and <= 20, if provided.", [-1, 21]),
            ("VisibilityTimeout", "Must be >= 0 and <= 43200, if provided.", [-1, 43201]),
        ]
        for value in values
    ],
    ("ReceiveMessage", {"QueueUrl": "q.fifo", "ReceiveRequestAttemptId": "a b"}, IPV, None),
    ("ReceiveMessage", {"QueueUrl": "busy"}, "OverLimit", None),
    ("DeleteMessage", to("DeleteMessage"), BAD_HANDLE, NOT_A_HANDLE),
    ("ChangeMessageVisibility", to("ChangeMessageVisibility"), BAD_HANDLE, NOT_A_HANDLE),
    *[
        ("ChangeMessageVisibility", to("ChangeMessageVisibility", VisibilityTimeout=value), IPV,
         invalid("VisibilityTimeout", value, "Must be between 0 and 43200."))
        for value in [-1, 43201]
    ],
    # --- tags and permissions
    ("TagQueue", to("TagQueue", Tags={}), *missing("Tags")),
    ("TagQueue", to("TagQueue", Tags={f"k{i}": "v" for i in range(51)}), IPV, "Too many tags added for queue q."),
    ("TagQueue", to("TagQueue", Tags={"k" * 129: "v"}), IPV, None),
    ("TagQueue", to("TagQueue", Tags={"k": "v" * 257}), IPV, None),
    ("UntagQueue", to("UntagQueue", TagKeys=[]), IPV, "Tag keys must be between 1 and 128 characters in length."),
    ("AddPermission", to("AddPermission", Label="taken"), IPV, LABEL_EXISTS),
    ("AddPermission", to("AddPermission", Label="a b"), IPV, None),
    ("AddPermission", to("AddPermission", Actions=EIGHT), "OverLimit", "8 Actions were found, maximum allowed is 7."),
    (
        "AddPermission",
        to("AddPermission", Actions=["CreateQueue"]),
        IPV,
        "Value SQS:CreateQueue for parameter ActionName is invalid. Reason: "
        "Only the queue owner is allowed to invoke this action.",
    ),
    ("AddPermission", to("AddPermission", AWSAccountIds=["me"]), IPV,
     "Value [me] for parameter PrincipalId is invalid. Reason: Unable to verify."),
    ("RemovePermission", to("RemovePermission", Label="none"), IPV, has("can't find label")),
    # --- move tasks
    ("StartMessageMoveTask", {"SourceArn": "dead"}, IPV, arn_form("SourceArn")),
    ("StartMessageMoveTask", {"SourceArn": arn("none")}, NO_RESOURCE, absent("SourceArn")),
    ("StartMessageMoveTask", {"SourceArn": arn("q")}, IPV, "Source queue must be configured as a Dead Letter Queue."),
    ("StartMessageMoveTask", {"SourceArn": arn("dead"), "DestinationArn": "q"}, IPV, arn_form("DestinationArn")),
    ("StartMessageMoveTask", {"SourceArn": arn("dead"), "DestinationArn": arn("none")}, NO_RESOURCE,
     absent("DestinationArn")),
    ("StartMessageMoveTask", {"SourceArn": arn("dead"), "DestinationArn": arn("dead")}, IPV,
     "Source queue arn and destination queue arn cannot be the same."),
    ("StartMessageMoveTask", {"SourceArn": arn("dead"), "DestinationArn": arn("q.fifo")}, IPV,
     "The source queue and destination queue must be of the same queue type."),
    *[("StartMessageMoveTask", {"SourceArn": arn("dead"), "MaxNumberOfMessagesPerSecond": wrong}, IPV, None)
      for wrong in [0, 501]],
    ("ListMessageMoveTasks", {"SourceArn": arn("none")}, NO_RESOURCE, absent("SourceArn")),
    *[("ListMessageMoveTasks", {"SourceArn": arn("dead"), "MaxResults": wrong}, IPV, None) for wrong in [0, 11]],
    ("CancelMessageMoveTask", {"TaskHandle": "garbage"}, IPV, "Value for parameter TaskHandle is invalid."),
    ("CancelMessageMoveTask", {"TaskHandle": UNKNOWN_TASK}, NO_RESOURCE, "Task does not exist."),
]

# What fails one entry of a batch: (action, entry without its Id, code, text).
ENTRIES = [
    ("SendMessageBatch", {}, *missing("MessageBody")),
    ("SendMessageBatch", {"MessageBody": "x" * 1025}, IPV,
     "One or more parameters cannot be validated. Reason: Message must be shorter than 1024 bytes."),
    ("SendMessageBatch", {"MessageBody": "\1"}, BAD_TEXT, has("Invalid characters found.")),
    ("SendMessageBatch", {"MessageBody": "a", "DelaySeconds": -1}, IPV,
     invalid("DelaySeconds", -1, "DelaySeconds must be >= 0 and <= 900.")),
    ("SendMessageBatch", {"MessageBody": "a", "MessageAttributes": {"a": string("")}}, IPV,
     has("must contain a non-empty value")),
    (
        "SendMessageBatch",
        {"MessageBody": "a", "MessageAttributes": {"a": {"DataType": "String", "StringListValues": ["a"]}}},
        SERVICE + "UnsupportedOperation",
        None,
    ),
    ("DeleteMessageBatch", {"ReceiptHandle": "garbage"}, BAD_HANDLE, NOT_A_HANDLE),
    ("DeleteMessageBatch", {}, *missing("ReceiptHandle")),
    ("ChangeMessageVisibilityBatch", {"ReceiptHandle": "garbage", "VisibilityTimeout": 1}, BAD_HANDLE, NOT_A_HANDLE),
    ("ChangeMessageVisibilityBatch", {"ReceiptHandle": "garbage", "VisibilityTimeout": 43201}, IPV,
     invalid("VisibilityTimeout", 43201, "Must be between 0 and 43200.")),
    ("ChangeMessageVisibilityBatch", {"ReceiptHandle": "garbage"}, *missing("VisibilityTimeout")),
]


@pytest.fixture(params=["json", "query"])
def sqs(daemon_factory, request):
    """What the rows are about, on a daemon with AWS's 60-second rules and little room in flight."""
    daemon = daemon_factory("--purge-interval", "--delete-interval", "--in-flight-max", "1").start()
    client = Sqs(daemon.port, request.param)
    for name in ["dead", "busy", "gone", "purged", "q.fifo"]:
        client.make(name)
    client.make("closed", RedriveAllowPolicy='{"redrivePermission":"denyAll"}')
    client.make("source", RedrivePolicy=redrive(deadLetterTargetArn=arn("dead"), maxReceiveCount=1))
    client.make("q", MaximumMessageSize="1024")
    client.call("AddPermission", **to("AddPermission", Label="taken"))
    for body in "ab":
        client.send("busy", body)
    client.receive("busy", 1)
    client.call("DeleteQueue", QueueUrl="gone")
    client.call("PurgeQueue", QueueUrl="purged")
    yield client
    client.close()
    assert daemon.stop() == 0


def world(sqs):
    """Everything that a request could have changed: not ages, which change by themselves."""
    urls = sqs.call("ListQueues")["QueueUrls"]
    attributes = [{name: value for name, value in sqs.attributes(url).items() if name != "Tally.OldestMessageAge"}
                  for url in urls]
    return urls, attributes, [sqs.call("ListQueueTags", QueueUrl=url) for url in urls]


def fault(sqs, action, parameters, code, text):
    """What is wrong with how the request is refused; None: nothing."""
    if code == NO_QUEUE:
        start = f"The specified queue does not exist{'' if sqs.form == 'json' else ' for this wsdl version'}. "
        text = lambda said: said.startswith(start)  # noqa: E731
    kind, status = KINDS[code]
    try:
        return f"answered {sqs.call(action, **parameters)}"
    except Refused as refusal:
        fits = text is None or (text(refusal.message) if callable(text) else text == refusal.message)
        is_right = (refusal.code, refusal.status, refusal.name or kind) == (code, status, kind) and fits
        return None if is_right else f"{refusal} ({refusal.name})"


def test_Q2_each_fault_has_its_code_type_header_status_and_text(sqs):
    before = world(sqs)
    faults = []
    for action, parameters, code, text in ROWS:
        found = fault(sqs, action, parameters, code, text)
        if found:
            faults.append(f"{action} {str(parameters)[:150]}: wanted {code} {text}, got {found[:300]}")
    assert not faults, f"{len(faults)} of {len(ROWS)}:\n" + "\n".join(faults)
    assert world(sqs) == before


def test_Q2_each_fault_of_an_entry_fails_that_entry_with_its_code(sqs):
    for action, entry, code, text in ENTRIES:
        answer = sqs.call(action, QueueUrl="q", Entries=[{"Id": "only", **entry}])
        assert set(answer) == {"Failed"}, (action, entry)
        (failed,) = answer["Failed"]
        assert (failed["Id"], failed["Code"], failed["SenderFault"]) == ("only", code, True), (entry, failed)
        assert failed["Message"] and (
            text is None or (text(failed["Message"]) if callable(text) else failed["Message"] == text)), (entry, failed)


def test_Q2_what_is_no_request_is_malformed_for_every_action(sqs):
    for action in ACTIONS:
        if sqs.form == "json":
            answers = [sqs.wire.line.call(f"AmazonSQS.{action}", body) for body in [b"{", b"[]", b'"a"', b"\xff"]]
            told = [(answer.json()["__type"], answer.header("x-amzn-query-error"), answer.status) for answer in answers]
            assert told == [(C + "SerializationException", "MalformedInput;Sender", 400)] * 4, action
        else:
            for body in ["a=%", "a=%zz", "%ff=a", "a=%ff"]:
                with pytest.raises(Refused) as caught:
                    read(action, sqs.wire.post(f"Action={action}&{body}"))
                assert (caught.value.code, caught.value.status) == (MALFORMED, 400), (action, body)


def test_Q2_unknown_actions(sqs):
    text = "The action FooBar is not valid for this endpoint." if sqs.form == "query" else None
    for name in ["FooBar", "sendmessage", "SendMessage2", "Tally.CreateBatch"] if sqs.form == "query" else [
            "FooBar", "sendmessage", "SendMessage2"]:
        assert not fault(sqs, name, {}, "InvalidAction", text if name == "FooBar" else None)


def test_no_documented_error_is_left_out():
    assert sorted(DOCUMENTED) == sorted(ACTIONS) and len(ACTIONS) == 23
    tested = {(action, code) for action, _, code, _ in ROWS}
    assert [(action, code) for action, codes in DOCUMENTED.items() for code in codes
            if (action, code) not in tested] == []
    assert {code for _, _, code, _ in ROWS} == set(KINDS) - {"InvalidAction", MALFORMED}
    # What all actions share: a required parameter, or a bad one.
    of_parameters = {action for action, code in tested if code in (IPV, MISSING)}
    assert of_parameters >= set(ACTIONS) - {"DeleteQueue", "PurgeQueue", "ListQueueTags", "GetQueueAttributes",
                                            "DeleteMessageBatch", "ChangeMessageVisibilityBatch"}


def test_the_23_actions_are_there_in_both_forms(daemon):
    """Each is known: whatever it says of a request without parameters, it is not that there is no such action."""
    absent_ones = []
    for form_name in ["json", "query"]:
        sqs = Sqs(daemon.port, form_name)
        for action in ACTIONS:
            try:
                sqs.call(action)
            except Refused as refusal:
                if refusal.code == "InvalidAction":
                    absent_ones.append((form_name, action))
        sqs.close()
    assert absent_ones == []
