"""Move tasks over the wire, in both forms (reference: SQS, 6.6 and Q49)."""

import base64
import json
import time

import pytest
from conftest import wait_until
from sqs import Sqs, arn
from test_sqs_redrive import make_pair, redrive, spend

IPV = "InvalidParameterValue"
NOT_FOUND = "ResourceNotFoundException"


@pytest.fixture(params=["json", "query"])
def sqs(daemon, request):
    client = Sqs(daemon.port, request.param)
    yield client
    client.close()


def listed(sqs, source):
    return sqs.call("ListMessageMoveTasks", SourceArn=arn(source), MaxResults=10).get("Results", [])


def ended(sqs, source):
    wait_until(lambda: listed(sqs, source)[0]["Status"] not in ("RUNNING", "CANCELLING"), what="the end of the task")
    return listed(sqs, source)[0]


def test_Q49_dead_letters_go_back_to_where_they_came_from(sqs):
    dead, source = make_pair(sqs)
    sqs.make("second", RedrivePolicy=redrive(dead, 1), VisibilityTimeout="0")
    sent = {}
    for queue in [source, "second"]:
        for i in range(3):
            sent[f"{queue} {i}"] = sqs.send(queue, f"{queue} {i}")["MessageId"]
        spend(sqs, queue, 1)
    assert sqs.counts(dead) == (6, 0, 0)
    began = time.time() * 1000
    handle = sqs.call("StartMessageMoveTask", SourceArn=arn(dead))
    assert set(handle) == {"TaskHandle"}
    inside = json.loads(base64.b64decode(handle["TaskHandle"]))
    assert inside["sourceArn"] == arn(dead) and len(inside["taskId"]) == 36
    task = ended(sqs, dead)
    assert task.pop("StartedTimestamp") >= int(began) - 60000
    assert task == {
        "Status": "COMPLETED",
        "SourceArn": arn(dead),
        "ApproximateNumberOfMessagesMoved": 6,
        "ApproximateNumberOfMessagesToMove": 6,
    }
    assert sqs.counts(dead) == (0, 0, 0)
    for queue in [source, "second"]:
        messages = sqs.receive(queue, VisibilityTimeout=30, AttributeNames=["ApproximateReceiveCount"])
        assert sorted(message["Body"] for message in messages) == [f"{queue} {i}" for i in range(3)]
        assert all(message["MessageId"] != sent[message["Body"]] for message in messages)


def test_Q49_to_a_queue_of_choice_slowly_and_cancelled(sqs):
    dead, source = make_pair(sqs)
    sqs.make("elsewhere")
    for at in range(0, 30, 10):
        sqs.call("SendMessageBatch", QueueUrl=source,
                 Entries=[{"Id": f"e{i}", "MessageBody": str(i)} for i in range(at, at + 10)])
    for _ in range(6):
        sqs.receive(source)
    wait_until(lambda: sqs.counts(dead)[0] == 30 or sqs.receive(source) and False, what="all dead letters")
    start = {"SourceArn": arn(dead), "DestinationArn": arn("elsewhere"), "MaxNumberOfMessagesPerSecond": 5}
    handle = sqs.call("StartMessageMoveTask", **start)["TaskHandle"]
    text = "There is already a task running. Only one active task is allowed for a source queue arn at a given time."
    sqs.refused(IPV, text, "StartMessageMoveTask", **start)
    (task,) = listed(sqs, dead)
    assert (task["Status"], task["TaskHandle"], task["DestinationArn"]) == ("RUNNING", handle, arn("elsewhere"))
    assert task["MaxNumberOfMessagesPerSecond"] == 5
    wait_until(lambda: sqs.counts("elsewhere")[0] >= 3, what="the first moves")
    moved = sqs.call("CancelMessageMoveTask", TaskHandle=handle)
    assert set(moved) == {"ApproximateNumberOfMessagesMoved"} and 3 <= moved["ApproximateNumberOfMessagesMoved"] < 30
    task = ended(sqs, dead)
    assert task["Status"] == "CANCELLED" and "TaskHandle" not in task
    assert (sqs.counts("elsewhere")[0] == task["ApproximateNumberOfMessagesMoved"]
            and sqs.counts(dead)[0] == 30 - sqs.counts("elsewhere")[0])
    sqs.refused(IPV, "Only active tasks can be cancelled.", "CancelMessageMoveTask", TaskHandle=handle)
    # The rest goes fast; the newest task is listed first.
    sqs.call("StartMessageMoveTask", SourceArn=arn(dead), DestinationArn=arn("elsewhere"))
    assert ended(sqs, dead)["Status"] == "COMPLETED"
    assert [task["Status"] for task in listed(sqs, dead)] == ["COMPLETED", "CANCELLED"]
    assert len(sqs.call("ListMessageMoveTasks", SourceArn=arn(dead))["Results"]) == 1
    got = []
    while messages := sqs.receive("elsewhere", VisibilityTimeout=60):
        got += [int(message["Body"]) for message in messages]
    assert sorted(got) == list(range(30))


def test_Q49_a_task_survives_a_kill(sqs, daemon):
    dead, source = make_pair(sqs)
    sqs.call("SendMessageBatch", QueueUrl=source, Entries=[{"Id": f"e{i}", "MessageBody": str(i)} for i in range(10)])
    spend(sqs, source, 1)
    sqs.make("elsewhere")
    sqs.call("StartMessageMoveTask", SourceArn=arn(dead), DestinationArn=arn("elsewhere"),
             MaxNumberOfMessagesPerSecond=8)
    wait_until(lambda: sqs.counts("elsewhere")[0] >= 1, what="the first move")
    daemon.kill9()
    daemon.start()
    sqs.wire.line.close()
    assert ended(sqs, dead)["Status"] == "COMPLETED"
    assert sorted(sqs.bodies("elsewhere")) == sorted(str(i) for i in range(10)) and sqs.counts(dead) == (0, 0, 0)


def test_Q49_a_destination_that_is_deleted_fails_the_task(sqs):
    dead, source = make_pair(sqs)
    sqs.call("SendMessageBatch", QueueUrl=source, Entries=[{"Id": f"e{i}", "MessageBody": str(i)} for i in range(10)])
    spend(sqs, source, 1)
    sqs.make("elsewhere")
    sqs.call("StartMessageMoveTask", SourceArn=arn(dead), DestinationArn=arn("elsewhere"),
             MaxNumberOfMessagesPerSecond=2)
    wait_until(lambda: sqs.counts("elsewhere")[0] >= 1, what="the first move")
    sqs.call("DeleteQueue", QueueUrl="elsewhere")
    task = ended(sqs, dead)
    assert (task["Status"], task["FailureReason"]) == ("FAILED", "AWS.SimpleQueueService.NonExistentQueue")
    assert 0 < sqs.counts(dead)[0] < 10


def test_Q49_tasks_that_are_refused(sqs):
    dead, source = make_pair(sqs)
    sqs.make("plain")
    sqs.make("line.fifo")
    form = lambda name: (f"You must use this format to specify the {name}: "
                         "arn:<partition>:<service>:<region>:<account-id>:<resource-id>")
    absent = lambda name: f"The resource that you specified for the {name} parameter doesn't exist."
    for code, text, parameters in [
        ("MissingParameter", "The request must contain the parameter SourceArn.", {}),
        (IPV, form("SourceArn"), {"SourceArn": "dead"}),
        (NOT_FOUND, absent("SourceArn"), {"SourceArn": arn("none")}),
        (IPV, "Source queue must be configured as a Dead Letter Queue.", {"SourceArn": arn("plain")}),
        (NOT_FOUND, absent("DestinationArn"), {"SourceArn": arn(dead), "DestinationArn": arn("none")}),
        (IPV, form("DestinationArn"), {"SourceArn": arn(dead), "DestinationArn": "plain"}),
        (IPV, "Source queue arn and destination queue arn cannot be the same.",
         {"SourceArn": arn(dead), "DestinationArn": arn(dead)}),
        (IPV, "The source queue and destination queue must be of the same queue type.",
         {"SourceArn": arn(dead), "DestinationArn": arn("line.fifo")}),
        (IPV, None, {"SourceArn": arn(dead), "MaxNumberOfMessagesPerSecond": 0}),
        (IPV, None, {"SourceArn": arn(dead), "MaxNumberOfMessagesPerSecond": 501}),
    ]:
        refusal = sqs.refused(code, text, "StartMessageMoveTask", **parameters)
        assert refusal.status == (404 if code == NOT_FOUND else 400)
    assert listed(sqs, dead) == []
    sqs.refused("MissingParameter", "The request must contain the parameter TaskHandle.", "CancelMessageMoveTask")
    for wrong in ["garbage", base64.b64encode(b"{}").decode()]:
        sqs.refused(IPV, "Value for parameter TaskHandle is invalid.", "CancelMessageMoveTask", TaskHandle=wrong)
    for source, text in [(arn(dead), "Task does not exist."), (arn("none"), absent("SourceArn")),
                         (arn(dead).replace("0" * 12, "1" * 12), absent("SourceArn"))]:
        unknown = base64.b64encode(
            json.dumps({"taskId": "12345678-1234-4234-8234-123456789abc", "sourceArn": source}).encode()).decode()
        assert sqs.refused(NOT_FOUND, text, "CancelMessageMoveTask", TaskHandle=unknown).status == 404
    sqs.refused(NOT_FOUND, absent("SourceArn"), "ListMessageMoveTasks", SourceArn=arn("none"))
    sqs.refused("MissingParameter", "The request must contain the parameter SourceArn.", "ListMessageMoveTasks")
    for wrong in [0, 11]:
        sqs.refused(IPV, None, "ListMessageMoveTasks", SourceArn=arn(dead), MaxResults=wrong)


# --- some messages only -----------------------------------------------------------------------------------------------


def ok(daemon, target, **parameters):
    status, answer = daemon.call(target, parameters)
    assert status == 200, answer
    return answer


def make_failures(daemon, count):
    """Dead letters "0", "1" … of source: the odd ones failed for "timeout", the others for "no such customer". Ids."""
    ids = []
    for number in range(count):
        ids.append(ok(daemon, "AmazonSQS.SendMessage", QueueUrl="source", MessageBody=str(number))["MessageId"])
        (message,) = ok(daemon, "AmazonSQS.ReceiveMessage", QueueUrl="source", VisibilityTimeout=60)["Messages"]
        ok(daemon, "Tally.FailMessage", QueueUrl="source", ReceiptHandle=message["ReceiptHandle"], Final=True,
           Reason=f"timeout: {number}" if number % 2 else "no such customer")
    return ids


@pytest.mark.parametrize("act", ["move", "delete"])
def test_a_task_for_some_messages_survives_a_kill(sqs, daemon, act):
    dead, source = make_pair(sqs, count=5)
    ids = make_failures(daemon, 12)
    held = sqs.receive(dead, 2, VisibilityTimeout=300)
    assert [message["MessageId"] for message in held] == ids[:2]
    which = {"Reason": "timeout", "MaxNumberOfMessagesPerSecond": 4}
    if act == "move":
        sqs.make("elsewhere")
        ok(daemon, "AmazonSQS.StartMessageMoveTask", SourceArn=arn(dead), DestinationArn=arn("elsewhere"), **which)
    else:
        ok(daemon, "Tally.DeleteMessages", QueueUrl=dead, **which)
    for _ in range(3):
        wait_until(lambda: sqs.counts(dead)[0] < 10, what="the first one")
        daemon.kill9()
        daemon.start()
        sqs.wire.line.close()
    wait_until(lambda: ok(daemon, "AmazonSQS.ListMessageMoveTasks", SourceArn=arn(dead))["Results"][0]["Status"] !=
               "RUNNING", what="the end of the task")
    (task,) = ok(daemon, "AmazonSQS.ListMessageMoveTasks", SourceArn=arn(dead))["Results"]
    assert (task["Status"], task["Kind"], task["Reason"], task["Refused"]) == ("COMPLETED", act, "timeout", 1)
    assert task["Refusals"] == [{"MessageId": ids[1], "Reason": "in-flight"}]
    assert task["ApproximateNumberOfMessagesMoved"] == 5
    assert sqs.counts(dead) == (5, 2, 0)  # what was not meant, and what was in flight
    if act == "move":
        assert sorted(sqs.bodies("elsewhere")) == sorted(["3", "5", "7", "9", "11"])
    assert sorted(sqs.bodies(dead)) == sorted(["2", "4", "6", "8", "10"])


def test_a_task_for_some_messages_in_both_forms(sqs, daemon):
    dead, source = make_pair(sqs, count=5)
    ids = make_failures(daemon, 4)
    start = {"SourceArn": arn(dead), "DryRun": True}
    if sqs.form == "json":
        dry = sqs.call("StartMessageMoveTask", **start, Reason="timeout")
        assert dry == {"Messages": 2, "Queues": [{"QueueUrl": dry["Queues"][0]["QueueUrl"], "Messages": 2}],
                       "Batches": 0, "Dependents": 0, "HeldGroups": 0, "Refused": 0, "Refusals": [],
                       "IsComplete": True}
        assert sqs.call("PurgeQueue", QueueUrl=dead, DryRun=True)["Messages"] == 4
    else:
        status, _, body = daemon.request(
            "POST", "/", f"Action=StartMessageMoveTask&SourceArn={arn(dead)}&DryRun=true&MessageId.1={ids[1]}"
            f"&MessageId.2={ids[2]}&MaxMessages=9", {"Content-Type": "application/x-www-form-urlencoded"})
        assert status == 200 and b"<Messages>2</Messages>" in body and b"<Queue><QueueUrl>" in body, body
        status, _, body = daemon.request("POST", "/", f"Action=PurgeQueue&QueueUrl={dead}&DryRun=true",
                                         {"Content-Type": "application/x-www-form-urlencoded"})
        assert status == 200 and b"<PurgeQueueResult><Messages>4</Messages>" in body, body
    assert sqs.counts(dead) == (4, 0, 0) and listed(sqs, dead) == []
    assert sqs.call("StartMessageMoveTask", SourceArn=arn(dead), MaxMessages=1).keys() == {"TaskHandle"}
    assert ended(sqs, dead)["ApproximateNumberOfMessagesMoved"] == 1 and sqs.counts(dead) == (3, 0, 0)
