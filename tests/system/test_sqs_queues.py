"""Queues over the wire, in both forms: creating, attributes, deleting, purging, lists, tags, permissions (reference:
SQS, 1, 2.1,
6.7 and Q16 to Q25)."""

import json

import pytest
from conftest import wait_until
from sqs import Sqs, arn, invalid, string

NO_QUEUE = "AWS.SimpleQueueService.NonExistentQueue"
IPV = "InvalidParameterValue"


@pytest.fixture(params=["json", "query"])
def sqs(daemon, request):
    client = Sqs(daemon.port, request.param)
    yield client
    client.close()


@pytest.fixture
def strict(daemon_factory):
    """A daemon with AWS's 60-second rules."""
    daemon = daemon_factory("--purge-interval", "--delete-interval").start()
    client = Sqs(daemon.port, "query")
    yield client
    client.close()
    assert daemon.stop() == 0


def redrive(queue, count, **more):
    return json.dumps({"deadLetterTargetArn": arn(queue), "maxReceiveCount": count, **more})


def test_Q16_creating_what_is_there(sqs):
    url = sqs.make("q", VisibilityTimeout="40")
    for attributes in [{}, {"VisibilityTimeout": "40"}, {"DelaySeconds": "0", "VisibilityTimeout": "40"}]:
        assert sqs.make("q", **attributes) == url
    exists = "A queue already exists with the same name and a different value for attribute "
    sqs.refused("QueueAlreadyExists", exists + "VisibilityTimeout", "CreateQueue", QueueName="q",
                Attributes={"VisibilityTimeout": "41"})
    sqs.refused("QueueAlreadyExists", exists + "DelaySeconds", "CreateQueue", QueueName="q",
                Attributes={"DelaySeconds": "1"})
    sqs.call("SetQueueAttributes", QueueUrl=url, Attributes={"VisibilityTimeout": "41"})
    assert sqs.make("q", VisibilityTimeout="41") == url
    sqs.refused("QueueAlreadyExists", exists + "VisibilityTimeout", "CreateQueue", QueueName="q",
                Attributes={"VisibilityTimeout": "40"})
    sqs.refused("InvalidAttributeName", "Unknown Attribute Nonsense.", "CreateQueue", QueueName="q",
                Attributes={"Nonsense": "1"})


def test_Q17_names(sqs):
    rule = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
    fifo_rule = (
        "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
        "must end with .fifo suffix and be 1 to 80 in length."
    )
    for name in ["a", "x" * 80, "A-b_9", "0"]:
        assert sqs.make(name).endswith(f"/{name}")
    assert sqs.make("x" * 75 + ".fifo")
    for name in ["x" * 81, "a b", "a.b", "ä", "a/b", "a.fifo"]:
        sqs.refused(IPV, rule, "CreateQueue", QueueName=name)
    for name in ["a", "x" * 76 + ".fifo", ".fifo", "a.b.fifo"]:
        sqs.refused(IPV, fifo_rule, "CreateQueue", QueueName=name, Attributes={"FifoQueue": "true"})
    for action in ["CreateQueue", "GetQueueUrl"]:
        for name in ["", None]:
            sqs.refused(IPV, "Value for parameter QueueName is invalid. Reason: Must specify a queue name.", action,
                        QueueName=name)
    for attribute in ["ContentBasedDeduplication", "FifoQueue"]:
        sqs.refused("InvalidAttributeName", f"Unknown Attribute {attribute}.", "CreateQueue", QueueName="new",
                    Attributes={attribute: "false"})
    for attribute in ["DeduplicationScope", "FifoThroughputLimit"]:
        only = f"You can specify the {attribute} only when FifoQueue is set to true."
        sqs.refused("InvalidAttributeName", only, "CreateQueue", QueueName="new", Attributes={attribute: "x"})


BOUNDS = {
    "DelaySeconds": (0, 900),
    "MaximumMessageSize": (1024, 1048576),
    "MessageRetentionPeriod": (60, 1209600),
    "ReceiveMessageWaitTimeSeconds": (0, 20),
    "VisibilityTimeout": (0, 43200),
}
DEFAULTS = {
    "DelaySeconds": "0",
    "MaximumMessageSize": "1048576",
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    "VisibilityTimeout": "30",
    "SqsManagedSseEnabled": "true",
    "ApproximateNumberOfMessages": "0",
    "ApproximateNumberOfMessagesDelayed": "0",
    "ApproximateNumberOfMessagesNotVisible": "0",
}
FIFO_DEFAULTS = {
    "FifoQueue": "true",
    "ContentBasedDeduplication": "false",
    "DeduplicationScope": "queue",
    "FifoThroughputLimit": "perQueue",
}


def test_Q18_all_attributes_are_shown_and_no_others(sqs):
    for name, expected in [("q", DEFAULTS), ("q.fifo", {**DEFAULTS, **FIFO_DEFAULTS})]:
        sqs.make(name)
        shown = sqs.attributes(name)
        assert shown.pop("QueueArn") == arn(name)
        for time_of in ["CreatedTimestamp", "LastModifiedTimestamp"]:
            assert 1_600_000_000 < int(shown.pop(time_of)) < 10_000_000_000
        assert shown == expected
        for attribute, value in expected.items():
            assert sqs.attributes(name, attribute) == {attribute: value}
    assert sqs.attributes("q", "FifoQueue", "Policy", "RedrivePolicy", "KmsMasterKeyId", "VisibilityTimeout") == {
        "VisibilityTimeout": "30"}


def test_Q18_each_bound_is_accepted_and_beyond_it_refused(sqs):
    sqs.make("q")
    for name, (least, most) in BOUNDS.items():
        for value in [least, most]:
            sqs.call("SetQueueAttributes", QueueUrl="q", Attributes={name: str(value)})
            assert sqs.attributes("q", name) == {name: str(value)}
            created = f"{name}-{value}"
            sqs.make(created, **{name: str(value)})
            assert sqs.attributes(created, name) == {name: str(value)}
        before = sqs.attributes("q")
        for value in [str(least - 1), str(most + 1), "", "x", "1.5", " 1", "+1", "0x1", "1" * 30]:
            if value == "":
                continue  # a Query client can't say it otherwise than by leaving the value out
            wrong = {"VisibilityTimeout": "31", name: value} if name != "VisibilityTimeout" else {
                "DelaySeconds": "1", name: value}
            begins = f"Invalid value for the parameter {name}."
            sqs.refused("InvalidAttributeValue", lambda text: text.startswith(begins), "SetQueueAttributes",
                        QueueUrl="q", Attributes=wrong)
            sqs.refused("InvalidAttributeValue", None, "CreateQueue", QueueName="never", Attributes=wrong)
        assert sqs.attributes("q") == before
    sqs.refused(NO_QUEUE, None, "GetQueueUrl", QueueName="never")


def test_Q18_settings_are_in_force(sqs):
    """The attributes of a queue are what a call gets that says nothing itself."""
    sqs.make("q", VisibilityTimeout="0", MaximumMessageSize="1024", ReceiveMessageWaitTimeSeconds="1")
    sqs.send("q", "a")
    for _ in range(2):
        assert sqs.bodies("q") == ["a"]
    sqs.call("SetQueueAttributes", QueueUrl="q", Attributes={"VisibilityTimeout": "100"})
    assert sqs.bodies("q") == ["a"] and sqs.bodies("q", WaitTimeSeconds=0) == []
    sqs.refused(IPV, None, "SendMessage", QueueUrl="q", MessageBody="x" * 1025)
    sqs.call("SetQueueAttributes", QueueUrl="q", Attributes={"MaximumMessageSize": "1025", "DelaySeconds": "600"})
    sqs.send("q", "x" * 1025)
    assert sqs.counts("q") == (0, 1, 1)


def test_Q19_attributes_are_removed_by_an_empty_text(sqs):
    sqs.make("q")
    sqs.make("dead")
    policy = {"Version": "2012-10-17", "Statement": [
        {"Sid": "s", "Effect": "Allow", "Principal": "*", "Action": "SQS:SendMessage", "Resource": arn("q")}]}
    for name, value, shown in [
        ("RedrivePolicy", f' {{ "maxReceiveCount" : "7", "deadLetterTargetArn":"{arn("dead")}" }} ',
         f'{{"deadLetterTargetArn":"{arn("dead")}","maxReceiveCount":7}}'),
        ("Policy", json.dumps(policy), None),
        ("RedriveAllowPolicy", '{"redrivePermission":"denyAll"}', '{"redrivePermission":"denyAll"}'),
        ("KmsMasterKeyId", "alias/some-key", "alias/some-key"),
    ]:
        sqs.call("SetQueueAttributes", QueueUrl="q", Attributes={name: value})
        now = sqs.attributes("q", name)[name]
        assert now == shown if shown else json.loads(now) == json.loads(value)
        assert sqs.attributes("q")[name] == now
        sqs.call("SetQueueAttributes", QueueUrl="q", Attributes={name: ""})
        assert sqs.attributes("q", name) == {} and name not in sqs.attributes("q")
    assert sqs.attributes("q")["SqsManagedSseEnabled"] == "false"  # a key turned it off, and it stays so


def test_Q20_redrive_policies_that_are_refused(sqs):
    sqs.make("q")
    sqs.make("dead")
    sqs.make("dead.fifo")
    sqs.make("closed", RedriveAllowPolicy='{"redrivePermission":"denyAll"}')
    before = sqs.attributes("q")
    count_rule = "Invalid value for maxReceiveCount: {}, valid values are from 1 to 1000 both inclusive."
    for policy, reason in [
        ("{}", "Redrive policy does not contain mandatory attribute: maxReceiveCount."),
        ('{"maxReceiveCount":1}', "Redrive policy does not contain mandatory attribute: deadLetterTargetArn."),
        (redrive("dead", 0), count_rule.format(0)),
        (redrive("dead", 1001), count_rule.format(1001)),
        (redrive("none", 1), "Dead letter target does not exist."),
        (redrive("dead.fifo", 1), "Dead-letter queue must be same type of queue as the source."),
        (redrive("closed", 1), None),
        ("text", None),
    ]:
        expected = invalid("RedrivePolicy", policy, reason) if reason else None
        for action, which in [("SetQueueAttributes", {"QueueUrl": "q"}), ("CreateQueue", {"QueueName": "never"})]:
            sqs.refused(IPV, expected, action, **which, Attributes={"RedrivePolicy": policy})
    assert sqs.attributes("q") == before
    for count in [1, "1000"]:
        sqs.call("SetQueueAttributes", QueueUrl="q", Attributes={"RedrivePolicy": redrive("dead", count)})
        assert json.loads(sqs.attributes("q")["RedrivePolicy"]) == {
            "deadLetterTargetArn": arn("dead"), "maxReceiveCount": int(count)}


def test_Q21_a_queue_created_again_is_a_new_one(sqs):
    sqs.make("q", VisibilityTimeout="77")
    sqs.send("q", "a")
    sqs.send("q", "b", DelaySeconds=600)
    (held,) = sqs.receive("q")
    sqs.call("DeleteQueue", QueueUrl="q")
    for action, more in [("DeleteQueue", {}), ("ReceiveMessage", {}),
                         ("DeleteMessage", {"ReceiptHandle": held["ReceiptHandle"]})]:
        sqs.refused(NO_QUEUE, None, action, QueueUrl="q", **more)
    sqs.make("q")
    assert sqs.counts("q") == (0, 0, 0) and sqs.attributes("q")["VisibilityTimeout"] == "30"
    sqs.refused("ReceiptHandleIsInvalid", None, "DeleteMessage", QueueUrl="q", ReceiptHandle=held["ReceiptHandle"])


def test_Q21_Q22_the_60_second_rules(strict):
    strict.make("q")
    strict.call("PurgeQueue", QueueUrl="q")
    refusal = strict.refused(
        "AWS.SimpleQueueService.PurgeQueueInProgress",
        "Only one PurgeQueue operation on q is allowed every 60 seconds.", "PurgeQueue", QueueUrl="q"
    )
    assert refusal.status == 403
    strict.make("other")
    strict.call("PurgeQueue", QueueUrl="other")
    strict.call("DeleteQueue", QueueUrl="q")
    rule = "You must wait 60 seconds after deleting a queue before you can create another with the same name."
    strict.refused("AWS.SimpleQueueService.QueueDeletedRecently", rule, "CreateQueue", QueueName="q")


def test_Q22_a_purge_takes_all_there_is(sqs):
    for queue in ["q", "q.fifo"]:
        group = "g" if queue.endswith(".fifo") else None
        unique = (lambda key: {"MessageDeduplicationId": key}) if group else lambda key: {}
        sqs.make(queue, VisibilityTimeout="100")
        sent = [sqs.send(queue, "in flight", group, **unique("1"))]
        (held,) = sqs.receive(queue, 1)
        sqs.send(queue, "waiting", group, **unique("2"))
        if not group:
            sqs.send(queue, "delayed", DelaySeconds=900)
        for _ in range(2):
            sqs.call("PurgeQueue", QueueUrl=queue)
        assert sqs.counts(queue) == (0, 0, 0) and sqs.bodies(queue) == []
        sqs.delete(queue, held)  # it is gone: that is no error
        sent.append(sqs.send(queue, "again", group, **unique("1")))
        assert sent[0]["MessageId"] != sent[1]["MessageId"]
        assert sqs.bodies(queue) == ["again"]
        assert sqs.attributes(queue)["VisibilityTimeout"] == "100"


def test_Q22_units_that_are_purged_have_failed(daemon):
    sqs = Sqs(daemon.port)
    sqs.make("q")
    assert daemon.call("Tally.CreateBatch", {"BatchId": "b", "Total": 3})[0] == 200
    for body in "abc":
        sqs.send("q", body, MessageAttributes={"Tally.Batch": string("b")})
    sqs.receive("q", 1)
    sqs.call("PurgeQueue", QueueUrl="q")
    state = wait_until(lambda: (batch := daemon.call("Tally.DescribeBatch", {"BatchId": "b"})[1]).get("Status")
                       and batch)
    assert (state["Status"], state["Failed"]) == ("failed", 3)
    sqs.close()


def test_Q23_pages_of_1001_queues(daemon):
    clients = [Sqs(daemon.port, form) for form in ["json", "query"]]
    names = sorted(f"many-{i:04}" for i in range(1001))
    for name in names:
        clients[0].make(name)
    clients[0].make("zzz")
    for sqs in clients:
        without = sqs.call("ListQueues", QueueNamePrefix="many-")
        assert len(without["QueueUrls"]) == 1000 and "NextToken" not in without
        for size in [2, 333, 1000] if sqs.form == "json" else [1000]:
            found, token, pages = [], None, 0
            while pages == 0 or token:
                page = sqs.call("ListQueues", QueueNamePrefix="many-", MaxResults=size, NextToken=token)
                found += [url.rsplit("/", 1)[1] for url in page["QueueUrls"]]
                token, pages = page.get("NextToken"), pages + 1
            assert found == names and pages == -(-1001 // size)
        exact = sqs.call("ListQueues", QueueNamePrefix="many-100", MaxResults=1)
        assert len(exact["QueueUrls"]) == 1 and "NextToken" not in exact
        assert len(sqs.call("ListQueues", QueueNamePrefix="many-000", MaxResults=10)["QueueUrls"]) == 10
        assert sqs.call("ListQueues", QueueNamePrefix="many-1001") == {}
        rule = "Value for parameter MaxResults is invalid. Reason: MaxResults must be an integer between 1 and 1000."
        for wrong in [0, -1, 1001]:
            sqs.refused(IPV, rule, "ListQueues", MaxResults=wrong)
        sqs.refused(IPV, "Invalid or expired next token.", "ListQueues", MaxResults=1, NextToken="zz")
        sqs.close()


def test_Q24_tags(sqs):
    sqs.call("CreateQueue", QueueName="q", tags={"team": "a", "Team": "b", "empty": ""})
    assert sqs.call("ListQueueTags", QueueUrl="q")["Tags"] == {"team": "a", "Team": "b", "empty": ""}
    assert sqs.call("TagQueue", QueueUrl="q",
                    Tags={"team": "c", "ключ": "знач", "a b_.:/=+-@": "x" * 256, "k" * 128: ""}) == {}
    expected = {"team": "c", "Team": "b", "empty": "", "ключ": "знач", "a b_.:/=+-@": "x" * 256, "k" * 128: ""}
    assert sqs.call("ListQueueTags", QueueUrl="q")["Tags"] == expected
    assert sqs.call("UntagQueue", QueueUrl="q", TagKeys=["Team", "unknown", "k" * 128, "a b_.:/=+-@"]) == {}
    assert sqs.call("ListQueueTags", QueueUrl="q")["Tags"] == {"team": "c", "empty": "", "ключ": "знач"}
    sqs.call("UntagQueue", QueueUrl="q", TagKeys=["team", "empty", "ключ"])
    assert sqs.call("ListQueueTags", QueueUrl="q") == {}
    sqs.refused("MissingParameter", "The request must contain the parameter Tags.", "TagQueue", QueueUrl="q", Tags={})
    sqs.refused(IPV, "Tag keys must be between 1 and 128 characters in length.", "UntagQueue", QueueUrl="q", TagKeys=[])
    sqs.call("TagQueue", QueueUrl="q", Tags={f"k{i}": "v" for i in range(50)})
    sqs.refused(IPV, "Too many tags added for queue q.", "TagQueue", QueueUrl="q", Tags={"k50": "v"})
    assert len(sqs.call("ListQueueTags", QueueUrl="q")["Tags"]) == 50


def test_Q25_permissions(sqs):
    sqs.make("q")
    assert sqs.call("AddPermission", QueueUrl="q", Label="one", AWSAccountIds=["111111111111"],
                    Actions=["SendMessage"]) == {}
    policy = json.loads(sqs.attributes("q")["Policy"])
    assert policy["Version"] == "2008-10-17" and policy["Id"].startswith(arn("q") + "/")
    (statement,) = policy["Statement"]
    assert statement == {
        "Sid": "one",
        "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam::111111111111:root"},
        "Action": "SQS:SendMessage",
        "Resource": arn("q"),
    }
    sqs.call("AddPermission", QueueUrl="q", Label="two", AWSAccountIds=["111111111111", "222222222222"],
             Actions=["ReceiveMessage", "DeleteMessage"])
    statement = json.loads(sqs.attributes("q")["Policy"])["Statement"][1]
    assert statement["Principal"] == {"AWS": ["arn:aws:iam::111111111111:root", "arn:aws:iam::222222222222:root"]}
    assert statement["Action"] == ["SQS:ReceiveMessage", "SQS:DeleteMessage"]
    before = sqs.attributes("q")["Policy"]
    who = {"AWSAccountIds": ["111111111111"]}
    sqs.refused(IPV, invalid("Label", "one", "Already exists."), "AddPermission", QueueUrl="q", Label="one",
                Actions=["*"], **who)
    eight = ["ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "GetQueueUrl",
             "ListDeadLetterSourceQueues", "PurgeQueue", "ReceiveMessage", "SendMessage"]
    refusal = sqs.refused("OverLimit", "8 Actions were found, maximum allowed is 7.", "AddPermission", QueueUrl="q",
                          Label="x", Actions=eight, **who)
    assert refusal.status == 403
    rule = ("Value SQS:CreateQueue for parameter ActionName is invalid. Reason: "
            "Only the queue owner is allowed to invoke this action.")
    sqs.refused(IPV, rule, "AddPermission", QueueUrl="q", Label="x", Actions=["CreateQueue"], **who)
    rule = "Value [me] for parameter PrincipalId is invalid. Reason: Unable to verify."
    sqs.refused(IPV, rule, "AddPermission", QueueUrl="q", Label="x", Actions=["SendMessage"], AWSAccountIds=["me"])
    sqs.refused(IPV, lambda text: "can't find label" in text, "RemovePermission", QueueUrl="q", Label="none")
    for required in ["Label", "AWSAccountIds", "Actions"]:
        given = {"Label": "x", "AWSAccountIds": ["111111111111"], "Actions": ["SendMessage"]}
        del given[required]
        sqs.refused("MissingParameter", None, "AddPermission", QueueUrl="q", **given)
    assert sqs.attributes("q")["Policy"] == before
    sqs.call("RemovePermission", QueueUrl="q", Label="one")
    assert [statement["Sid"] for statement in json.loads(sqs.attributes("q")["Policy"])["Statement"]] == ["two"]
    assert sqs.call("RemovePermission", QueueUrl="q", Label="two") == {}
    assert "Policy" not in sqs.attributes("q")
