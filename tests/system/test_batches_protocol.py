"""The protocol's section on batches, sentence by sentence, over HTTP. Each test quotes what it holds the daemon to."""

import json
import re
import time

import pytest
from conftest import wait_until
from wire import Connection

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Tally:
    """A connection with the actions as functions, and the queues `jobs` and `results`."""

    def __init__(self, line):
        self.line = line
        self.jobs = self.sqs("CreateQueue", QueueName="jobs")["QueueUrl"]
        self.results = self.sqs("CreateQueue", QueueName="results")["QueueUrl"]

    def sqs(self, action, **body):
        return self.line.ok(f"AmazonSQS.{action}", body)

    def __call__(self, action, **body):
        return self.line.ok(f"Tally.{action}", body)

    def refused(self, action, **body):
        """The code of an action that must fail."""
        answer = self.line.call(f"Tally.{action}", body)
        assert answer.status == 400, answer.body
        name = answer.json()["__type"]
        assert name.startswith(("com.tally#", "com.amazon"))
        return name.split("#")[1]

    def describe(self, batch):
        return self("DescribeBatch", BatchId=batch)

    def state(self, batch):
        described = self.describe(batch)
        return described["State"], described.get("Status")

    def counts(self, batch):
        described = self.describe(batch)
        return [described[name] for name in ["Total", "Succeeded", "Failed", "Cancelled", "Remaining"]]

    def complete(self, batch, *units, status=None):
        entries = [{"Unit": unit, **({"Status": status} if status else {})} for unit in units]
        return self("CompleteUnits", BatchId=batch, Units=entries)

    def send(self, batch, body="unit", queue=None, **more):
        attributes = {"Tally.Batch": {"DataType": "String", "StringValue": batch}}
        url = queue or self.jobs
        return self.sqs("SendMessage", QueueUrl=url, MessageBody=body, MessageAttributes=attributes, **more)

    def receive(self, queue=None, **more):
        url = queue or self.jobs
        answer = self.sqs("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], **more)
        return answer.get("Messages", [])

    def delete(self, message, queue=None):
        self.sqs("DeleteMessage", QueueUrl=queue or self.jobs, ReceiptHandle=message["ReceiptHandle"])

    def finish_one(self, queue=None):
        """Receives one message and deletes it."""
        (message,) = self.sqs("ReceiveMessage", QueueUrl=queue or self.jobs)["Messages"]
        self.delete(message, queue)

    def take_results(self):
        """The messages in `results`, deleted: body and the Tally attributes of each."""
        found = []
        for message in self.receive(self.results):
            self.delete(message, self.results)
            attributes = {name: value["StringValue"] for name, value in message.get("MessageAttributes", {}).items()}
            found.append((message["Body"], attributes, message["MessageId"]))
        return found


@pytest.fixture
def tally(daemon):
    with Connection(daemon.port) as line:
        yield Tally(line)


# --- Creating ---------------------------------------------------------------------------------------------------------


def test_create_is_idempotent_and_other_arguments_are_refused(tally):
    """Idempotent: the same id and the same arguments answer the same; other arguments: BatchAlreadyExists."""
    target = {"QueueUrl": tally.results, "MessageBody": "done",
              "MessageAttributes": {"a": {"DataType": "Number", "StringValue": "1"}}}
    arguments = {"BatchId": "b", "Total": 3, "Tracking": "exact", "OnComplete": target, "ExpiresAfterSeconds": 1000,
                 "RetentionSeconds": 500}
    for _ in range(3):
        assert tally("CreateBatch", **arguments) == {"BatchId": "b", "State": "open"}
    for other in [
        {"Total": 4},
        {"Total": None},
        {"Tracking": "xor"},
        {"OnComplete": None},
        {"OnComplete": {**target, "MessageBody": "other"}},
        {"OnComplete": {**target, "QueueUrl": tally.jobs}},
        {"OnComplete": {**target, "MessageAttributes": {"a": {"DataType": "Number", "StringValue": "2"}}}},
        {"OnSuccess": target},
        {"OnFirstFailure": target},
        {"ExpiresAfterSeconds": 1001},
        {"RetentionSeconds": None},
    ]:
        assert tally.refused("CreateBatch", **{**arguments, **other}) == "BatchAlreadyExists", other
    tally("AddUnits", BatchId="b", Count=3)
    assert tally("CreateBatch", **arguments) == {"BatchId": "b", "State": "sealed"}
    tally.complete("b", "0", "1", "2")
    assert tally("CreateBatch", **arguments) == {"BatchId": "b", "State": "completed"}
    assert len(tally.take_results()) == 1


def test_a_batch_without_an_id_gets_one(tally):
    first, second = tally("CreateBatch")["BatchId"], tally("CreateBatch")["BatchId"]
    assert first != second
    assert tally.state(first) == ("open", None)


def test_total_seals_the_batch_once_that_many_units_were_added(tally):
    """With Total the batch seals itself once that many units were added."""
    tally("CreateBatch", BatchId="b", Total=4)
    assert tally("AddUnits", BatchId="b", Units=["x", "y"]) == {"Added": 2, "Total": 2}
    tally.send("b")
    assert tally.state("b") == ("open", None)
    assert tally.refused("AddUnits", BatchId="b", Units=["z", "zz"]) == "BatchTotalExceeded"
    assert tally.counts("b") == [3, 0, 0, 0, 3]
    tally.send("b")
    described = tally.describe("b")
    assert described["State"] == "sealed" and described["SealedAt"] >= described["CreatedAt"]
    assert tally.refused("AddUnits", BatchId="b", Units=["z"]) == "BatchSealed"
    assert tally.refused("AddUnits", BatchId="b", Units=["x"]) == "BatchSealed"


def test_units_that_end_before_the_total_is_reached_do_not_complete_it(tally):
    tally("CreateBatch", BatchId="b", Total=3, OnComplete={"QueueUrl": tally.results})
    for number in range(3):
        assert tally.state("b") == ("open", None)
        tally("AddUnits", BatchId="b", Units=[f"u{number}"])
        assert tally.complete("b", f"u{number}")["Completed"] == (number == 2)
    assert len(tally.take_results()) == 1


# --- Units ------------------------------------------------------------------------------------------------------------


def test_adding_counts_and_keys(tally):
    """{BatchId, Count: n} (keys "0" to "n-1") -> {Added, Total}. Adding a key again adds nothing."""
    tally("CreateBatch", BatchId="b")
    assert tally("AddUnits", BatchId="b", Count=3) == {"Added": 3, "Total": 3}
    assert tally("AddUnits", BatchId="b", Count=3) == {"Added": 0, "Total": 3}
    assert tally("AddUnits", BatchId="b", Count=5) == {"Added": 2, "Total": 5}
    assert tally("AddUnits", BatchId="b", Count=0) == {"Added": 0, "Total": 5}
    assert tally("AddUnits", BatchId="b", Units=["4", "a", "a", "ä/🎉"]) == {"Added": 2, "Total": 7}
    assert tally("AddUnits", BatchId="b", Units=["07"]) == {"Added": 1, "Total": 8}
    keys = [unit["Unit"] for unit in tally("ListUnits", BatchId="b")["Units"]]
    assert sorted(keys) == sorted(["0", "1", "2", "3", "4", "a", "ä/🎉", "07"])


def test_keys_and_counts_meet(tally):
    """A key "3" that was added by name is the same unit as the "3" of a count."""
    tally("CreateBatch", BatchId="b")
    tally("AddUnits", BatchId="b", Units=["3", "9"])
    assert tally("AddUnits", BatchId="b", Count=5) == {"Added": 4, "Total": 6}
    assert tally.complete("b", "3")["Remaining"] == 5


def test_on_a_sealed_batch_nothing_can_be_added(tally):
    """On a sealed batch: BatchSealed."""
    tally("CreateBatch", BatchId="b")
    tally("AddUnits", BatchId="b", Count=1)
    tally("SealBatch", BatchId="b")
    assert tally.refused("AddUnits", BatchId="b", Units=["x"]) == "BatchSealed"
    answer = tally.line.call(
        "AmazonSQS.SendMessage",
        {"QueueUrl": tally.jobs, "MessageBody": "a",
         "MessageAttributes": {"Tally.Batch": {"DataType": "String", "StringValue": "b"}}},
    )
    assert (answer.status, answer.json()["__type"]) == (400, "com.tally#BatchSealed")
    assert tally.receive() == []


def test_recorded_is_false_where_the_unit_had_ended_before(tally):
    """Recorded is false where that unit had ended before."""
    tally("CreateBatch", BatchId="b")
    tally("AddUnits", BatchId="b", Units=["x", "y", "z"])
    reply = tally.complete("b", "x", "y", "x")
    assert [(one["Unit"], one["Recorded"]) for one in reply["Results"]] == [("x", True), ("y", True), ("x", False)]
    reply = tally.complete("b", "y", "z", status="failed")
    assert [(one["Unit"], one["Recorded"]) for one in reply["Results"]] == [("y", False), ("z", True)]
    assert (reply["Remaining"], reply["Completed"]) == (0, False)
    assert tally.counts("b") == [3, 2, 1, 0, 0]  # the first report counts


def test_an_unknown_unit_records_nothing(tally):
    """Unknown unit: UnitDoesNotExist, nothing recorded."""
    tally("CreateBatch", BatchId="b")
    tally("AddUnits", BatchId="b", Count=2)
    message = tally.send("b")
    for unknown in ["2", "-1", "00", "x", message["MessageId"]]:
        assert (tally.refused("CompleteUnits", BatchId="b", Units=[{"Unit": "0"}, {"Unit": unknown}])
                == "UnitDoesNotExist")
    assert tally.counts("b") == [3, 0, 0, 0, 3]


def test_completed_is_true_in_exactly_one_reply(tally):
    """Completed is true in exactly one reply in the life of the batch: the one whose request completed it."""
    tally("CreateBatch", BatchId="by-units")
    tally("AddUnits", BatchId="by-units", Count=2)
    tally("SealBatch", BatchId="by-units")
    told = [tally.complete("by-units", unit)["Completed"] for unit in "0101"]
    assert told == [False, True, False, False]
    assert tally("SealBatch", BatchId="by-units") == {"State": "completed", "Remaining": 0, "Completed": False}
    tally("CreateBatch", BatchId="by-seal")
    tally("AddUnits", BatchId="by-seal", Count=1)
    assert tally.complete("by-seal", "0")["Completed"] is False
    assert tally("SealBatch", BatchId="by-seal") == {"State": "completed", "Remaining": 0, "Completed": True}
    assert tally("SealBatch", BatchId="by-seal")["Completed"] is False
    tally("CreateBatch", BatchId="empty")
    assert tally("SealBatch", BatchId="empty") == {"State": "completed", "Remaining": 0, "Completed": True}


def test_details_are_kept(tally):
    tally("CreateBatch", BatchId="b")
    tally("AddUnits", BatchId="b", Units=["x", "y"])
    tally("CompleteUnits", BatchId="b", Units=[{"Unit": "y", "Status": "failed", "Detail": "no room\n🎉"}])
    units = tally("ListUnits", BatchId="b")["Units"]
    assert {unit["Unit"]: (unit["State"], unit.get("Detail")) for unit in units} == {
        "x": ("outstanding", None),
        "y": ("failed", "no room\n🎉"),
    }


# --- Messages as units ------------------------------------------------------------------------------------------------


def test_a_deleted_message_is_a_unit_that_succeeded(tally):
    """It ends when the message is deleted = succeeded."""
    tally("CreateBatch", BatchId="b", OnComplete={"QueueUrl": tally.results})
    sent = tally.send("b")
    (unit,) = tally("ListUnits", BatchId="b")["Units"]
    assert (unit["MessageId"], unit["State"]) == (sent["MessageId"], "outstanding")
    assert tally("SealBatch", BatchId="b") == {"State": "sealed", "Remaining": 1, "Completed": False}
    (message,) = tally.receive()
    assert message["MessageAttributes"]["Tally.Batch"]["StringValue"] == "b"  # handed on to the receiver
    tally.delete(message)
    tally.delete(message)
    assert tally.state("b") == ("completed", "succeeded")
    assert len(tally.take_results()) == 1


def test_a_dead_lettered_message_is_a_unit_that_failed(tally):
    """When it goes to a dead-letter queue = failed."""
    dead = tally.sqs("CreateQueue", QueueName="dead")["QueueUrl"]
    policy = {"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead", "maxReceiveCount": 1}
    tally.sqs("SetQueueAttributes", QueueUrl=tally.jobs, Attributes={"RedrivePolicy": json.dumps(policy)})
    tally("CreateBatch", BatchId="b", OnComplete={"QueueUrl": tally.results})
    tally.send("b")
    tally("SealBatch", BatchId="b")
    assert len(tally.receive(VisibilityTimeout=0)) == 1
    assert tally.receive() == []
    assert tally.state("b") == ("completed", "failed")
    assert tally.counts("b") == [1, 0, 1, 0, 0]
    (result,) = tally.take_results()
    assert json.loads(result[0])["status"] == "failed"
    tally.finish_one(dead)  # what becomes of it there is not counted again
    assert tally.counts("b") == [1, 0, 1, 0, 0] and tally.take_results() == []


def test_a_purged_message_is_a_unit_that_failed(tally):
    """Is purged = failed; waiting, delayed and in flight alike, and with its queue."""
    tally("CreateBatch", BatchId="b", OnComplete={"QueueUrl": tally.results})
    for delay in [0, 0, 600]:
        tally.send("b", DelaySeconds=delay)
    tally.sqs("ReceiveMessage", QueueUrl=tally.jobs)
    other = tally.sqs("CreateQueue", QueueName="other")["QueueUrl"]
    tally.send("b", queue=other)
    tally("SealBatch", BatchId="b")
    tally.sqs("PurgeQueue", QueueUrl=tally.jobs)
    wait_until(lambda: tally.counts("b") == [4, 0, 3, 0, 1], what="counting the purged")
    tally.sqs("DeleteQueue", QueueUrl=other)
    wait_until(lambda: tally.state("b") == ("completed", "failed"), what="counting the deleted")
    assert len(tally.take_results()) == 1


# --- The completion message -------------------------------------------------------------------------------------------


def test_the_completion_message_says_what_happened(tally):
    """Body as given, or {"batch", "status", "total", …}; attribute Tally.Batch.Completed = batch id."""
    tally("CreateBatch", BatchId="b", OnComplete={"QueueUrl": tally.results})
    tally("AddUnits", BatchId="b", Count=3)
    tally("SealBatch", BatchId="b")
    tally.complete("b", "0", "1")
    tally.complete("b", "2", status="failed")
    ((body, attributes, message_id),) = tally.take_results()
    told = json.loads(body)
    assert list(told) == ["batch", "status", "total", "succeeded", "failed", "cancelled", "createdAt", "completedAt"]
    assert [told[name] for name in list(told)[:6]] == ["b", "failed", 3, 2, 1, 0]
    assert time.time() - 600 < told["createdAt"] <= told["completedAt"] <= time.time() + 600
    assert attributes["Tally.Batch.Completed"] == "b"
    described = tally.describe("b")
    assert UUID.fullmatch(message_id) and described["CompletionMessageId"] == message_id
    assert abs(described["CompletedAt"] - told["completedAt"]) < 0.01


def test_the_completion_message_as_given(tally):
    target = {
        "QueueUrl": tally.results,
        "MessageBody": "Grüße 🎉",
        "MessageGroupId": "group-1",
        "MessageAttributes": {"kind": {"DataType": "String", "StringValue": "import"},
                              "n": {"DataType": "Number", "StringValue": "7"}},
    }
    tally("CreateBatch", BatchId="b", OnComplete=target)
    tally("SealBatch", BatchId="b")
    (message,) = tally.receive(tally.results, MessageSystemAttributeNames=["All"])
    assert message["Body"] == "Grüße 🎉"
    assert message["Attributes"]["MessageGroupId"] == "group-1"
    assert message["MessageAttributes"]["kind"] == {"DataType": "String", "StringValue": "import"}
    assert message["MessageAttributes"]["n"] == {"DataType": "Number", "StringValue": "7"}
    assert message["MessageAttributes"]["Tally.Batch.Completed"]["StringValue"] == "b"
    assert message["MD5OfMessageAttributes"]


def test_the_id_of_the_completion_message_is_a_function_of_the_batch_id(daemon, tally):
    """Its MessageId and deduplication id are functions of the batch id: the same after a restart, others for others."""
    for name in ["a", "b"]:
        tally("CreateBatch", BatchId=name, OnComplete={"QueueUrl": tally.results})
        tally("SealBatch", BatchId=name)
    ids = {name: tally.describe(name)["CompletionMessageId"] for name in ["a", "b"]}
    assert ids["a"] != ids["b"]
    tally.line.close()
    daemon.kill9()
    daemon.start()
    assert {name: tally.describe(name)["CompletionMessageId"] for name in ["a", "b"]} == ids
    assert sorted(result[2] for result in tally.take_results()) == sorted(ids.values())


def test_on_success_is_sent_only_then(tally):
    """status is succeeded when every unit succeeded, else failed. OnSuccess is sent only then."""
    for name, status in [("good", "succeeded"), ("bad", "failed")]:
        tally("CreateBatch", BatchId=name, OnSuccess={"QueueUrl": tally.results, "MessageBody": f"{name} succeeded"})
        tally("AddUnits", BatchId=name, Count=2)
        tally("SealBatch", BatchId=name)
        tally.complete(name, "0")
        assert tally.take_results() == []
        tally.complete(name, "1", status=status)
        assert tally.state(name) == ("completed", status)
        told = [(body, attributes["Tally.Batch.Completed"]) for body, attributes, _ in tally.take_results()]
        assert told == ([("good succeeded", "good")] if name == "good" else [])


def test_on_first_failure_is_sent_once_at_the_first_failed_unit(tally):
    """OnFirstFailure once, at the first failed unit."""
    targets = {name: {"QueueUrl": tally.results, "MessageBody": name}
               for name in ["OnComplete", "OnSuccess", "OnFirstFailure"]}
    tally("CreateBatch", BatchId="b", **targets)
    tally("AddUnits", BatchId="b", Count=4)
    tally.complete("b", "0")
    assert tally.take_results() == []
    tally.complete("b", "1", status="failed")
    assert [body for body, _, _ in tally.take_results()] == ["OnFirstFailure"]  # although it is open still
    tally.complete("b", "2", status="failed")
    tally("SealBatch", BatchId="b")
    assert tally.take_results() == []
    tally.complete("b", "3", status="failed")
    results = tally.take_results()
    assert [body for body, _, _ in results] == ["OnComplete"]


def test_the_three_messages_have_ids_of_their_own(tally):
    targets = {name: {"QueueUrl": tally.results, "MessageBody": name} for name in ["OnComplete", "OnSuccess"]}
    tally("CreateBatch", BatchId="b", **targets)
    tally("SealBatch", BatchId="b")
    results = tally.take_results()
    assert sorted(body for body, _, _ in results) == ["OnComplete", "OnSuccess"]
    assert len({message_id for _, _, message_id in results}) == 2


# --- xor --------------------------------------------------------------------------------------------------------------


def xor(tally, batch, value, token, **more):
    return tally("XorUnits", BatchId=batch, Value=f"{value:016x}", RequestToken=token, **more)


def test_xor_completes_with_the_seal_and_value_zero(tally):
    """Completion needs the seal, value zero and, where counts were given, equal counts."""
    tally("CreateBatch", BatchId="b", Tracking="xor", OnComplete={"QueueUrl": tally.results})
    a, b = 0x0123456789ABCDEF, 0xFEDCBA9876543210
    assert xor(tally, "b", a, "start-a") == {"Zero": False, "Completed": False}
    assert xor(tally, "b", b, "start-b") == {"Zero": False, "Completed": False}
    assert xor(tally, "b", a, "end-a") == {"Zero": False, "Completed": False}
    assert xor(tally, "b", b, "end-b") == {"Zero": True, "Completed": False}
    assert tally("SealBatch", BatchId="b")["Completed"] is True
    assert len(tally.take_results()) == 1

    tally("CreateBatch", BatchId="c", Tracking="xor", OnComplete={"QueueUrl": tally.results})
    xor(tally, "c", a ^ b, "start")
    assert tally("SealBatch", BatchId="c")["Completed"] is False
    assert xor(tally, "c", a, "end-a") == {"Zero": False, "Completed": False}
    assert xor(tally, "c", b, "end-b") == {"Zero": True, "Completed": True}
    assert xor(tally, "c", b, "end-b")["Zero"] is True  # a repeat after a lost reply
    assert tally.state("c") == ("completed", "succeeded")
    assert len(tally.take_results()) == 1


def test_a_request_token_toggles_once(tally):
    """A RequestToken is remembered for the life of the batch, so that a repeat after a lost reply does not toggle
    twice."""
    tally("CreateBatch", BatchId="b", Tracking="xor")
    for _ in range(4):
        assert xor(tally, "b", 7, "t") == {"Zero": False, "Completed": False}
    answer = tally.line.call("Tally.XorUnits", {"BatchId": "b", "Value": "0" * 15 + "8", "RequestToken": "t"})
    assert answer.status == 400
    assert xor(tally, "b", 7, "u") == {"Zero": True, "Completed": False}


def test_xor_counts_must_be_equal_where_they_are_given(tally):
    tally("CreateBatch", BatchId="b", Tracking="xor")
    xor(tally, "b", 1, "s1", Registered=1)
    xor(tally, "b", 1, "s2", Registered=1)  # the same random id by accident: zero, but two units are under way
    reply = tally("SealBatch", BatchId="b")
    assert (reply["State"], reply["Completed"]) == ("sealed", False)
    assert xor(tally, "b", 1, "e1", Finished=1) == {"Zero": False, "Completed": False}
    assert xor(tally, "b", 1, "e2", Finished=1) == {"Zero": True, "Completed": True}
    described = tally.describe("b")
    assert (described["Total"], described["Remaining"], described["Status"]) == (2, 0, "succeeded")


# --- Sealing, cancelling, describing ----------------------------------------------------------------------------------


def test_cancelled_units_are_never_delivered_again(tally):
    """The units not yet ended are cancelled, their messages never delivered again; completes with status cancelled."""
    tally("CreateBatch", BatchId="b", OnComplete={"QueueUrl": tally.results},
          OnSuccess={"QueueUrl": tally.results, "MessageBody": "no"})
    tally("AddUnits", BatchId="b", Count=2)
    tally.complete("b", "0")
    for delay in [0, 0, 0, 1]:
        tally.send("b", DelaySeconds=delay)
    tally.sqs("SendMessage", QueueUrl=tally.jobs, MessageBody="of no batch")
    held = tally.receive(VisibilityTimeout=1)[:1]
    tally.delete(held[0])
    tally("CancelBatch", BatchId="b")
    assert tally.state("b") == ("completed", "cancelled")
    assert tally.counts("b") == [6, 2, 0, 4, 0]
    ((body, attributes, _),) = tally.take_results()
    assert json.loads(body)["status"] == "cancelled" and json.loads(body)["cancelled"] == 4
    time.sleep(1.2)  # leases and delays run out
    assert [message["Body"] for message in tally.receive(WaitTimeSeconds=1)] == ["of no batch"]
    assert tally("CancelBatch", BatchId="b").get("Completed", False) is False
    reply = tally.complete("b", "1")
    assert [one["Recorded"] for one in reply["Results"]] == [False] and reply["Completed"] is False
    assert tally.counts("b") == [6, 2, 0, 4, 0] and tally.take_results() == []


def test_describe_has_the_fields_of_each_state(tally):
    always = {"BatchId", "State", "Total", "Succeeded", "Failed", "Cancelled", "Remaining", "CreatedAt", "Tracking",
              "OnComplete"}
    tally("CreateBatch", BatchId="b", OnComplete={"QueueUrl": tally.results})
    tally("AddUnits", BatchId="b", Count=1)
    assert set(tally.describe("b")) == always | {"ExpiresAt"}
    tally("SealBatch", BatchId="b")
    assert set(tally.describe("b")) == always | {"SealedAt", "ExpiresAt"}
    tally.complete("b", "0")
    described = tally.describe("b")
    assert set(described) == always | {"SealedAt", "CompletedAt", "Status", "CompletionMessageId"}
    now = time.time()
    assert now - 600 < described["CreatedAt"] <= described["SealedAt"] <= described["CompletedAt"] < now + 600
    tally("CreateBatch", BatchId="silent")
    tally("SealBatch", BatchId="silent")
    assert set(tally.describe("silent")) == always - {"OnComplete"} | {"SealedAt", "CompletedAt", "Status"}


# --- Lists ------------------------------------------------------------------------------------------------------------


def pages(tally, action, key, **body):
    """Every page of a list, as lists; NextToken only where there is more."""
    found = []
    while True:
        reply = tally(action, **body)
        found.append(reply.get(key, []))
        if "NextToken" not in reply:
            return found
        body["NextToken"] = reply["NextToken"]


def test_lists_of_batches_page_and_filter(tally):
    """Lists page with MaxResults (1 to 1,000) and NextToken. ListBatches {State?, Prefix?}."""
    for number in range(25):
        tally("CreateBatch", BatchId=f"{'even' if number % 2 == 0 else 'odd'}-{number:02}")
        if number % 5 == 0:
            tally("SealBatch", BatchId=f"{'even' if number % 2 == 0 else 'odd'}-{number:02}")
    everything = pages(tally, "ListBatches", "Batches", MaxResults=10)
    assert [len(page) for page in everything] == [10, 10, 5]
    names = [batch["BatchId"] for page in everything for batch in page]
    assert len(set(names)) == 25
    one = everything[0][0]
    assert one == tally.describe(one["BatchId"])
    odd = [batch["BatchId"] for page in pages(tally, "ListBatches", "Batches", MaxResults=3, Prefix="odd-")
           for batch in page]
    assert odd == [f"odd-{number:02}" for number in range(1, 25, 2)]
    completed = [batch["BatchId"] for page in pages(tally, "ListBatches", "Batches", MaxResults=2, State="completed")
                 for batch in page]
    assert sorted(completed) == ["even-00", "even-10", "even-20", "odd-05", "odd-15"]
    assert len(tally("ListBatches")["Batches"]) == 25 and "NextToken" not in tally("ListBatches")


def test_lists_of_units_page_and_filter(tally):
    """ListUnits {BatchId, State?: "outstanding"|"succeeded"|"failed"|"cancelled"}."""
    tally("CreateBatch", BatchId="b")
    tally("AddUnits", BatchId="b", Count=20)
    tally("AddUnits", BatchId="b", Units=["x", "y", "z"])
    sent = tally.send("b")["MessageId"]
    tally.complete("b", *map(str, range(0, 20, 2)))
    tally.complete("b", "y", status="failed")
    everything = pages(tally, "ListUnits", "Units", BatchId="b", MaxResults=7)
    assert [len(page) for page in everything] == [7, 7, 7, 3]
    keys = [unit["Unit"] for page in everything for unit in page]
    assert sorted(keys) == sorted([*map(str, range(20)), "x", "y", "z", sent])

    def keys_of(state):
        return sorted(unit["Unit"]
                      for page in pages(tally, "ListUnits", "Units", BatchId="b", MaxResults=4, State=state)
                      for unit in page)

    assert keys_of("succeeded") == sorted(map(str, range(0, 20, 2)))
    assert keys_of("failed") == ["y"]
    assert keys_of("cancelled") == []
    assert keys_of("outstanding") == sorted([*map(str, range(1, 20, 2)), "x", "z", sent])
    tally("CancelBatch", BatchId="b")
    assert keys_of("outstanding") == []
    assert keys_of("cancelled") == sorted([*map(str, range(1, 20, 2)), "x", "z", sent])


def test_only_completed_batches_can_be_deleted(tally):
    """DeleteBatch {BatchId} (completed ones only)."""
    tally("CreateBatch", BatchId="b")
    tally("AddUnits", BatchId="b", Count=1)
    assert tally.refused("DeleteBatch", BatchId="b") == "BatchNotCompleted"
    tally("SealBatch", BatchId="b")
    assert tally.refused("DeleteBatch", BatchId="b") == "BatchNotCompleted"
    tally.complete("b", "0")
    assert tally("DeleteBatch", BatchId="b") == {}
    assert tally.refused("DescribeBatch", BatchId="b") == "BatchDoesNotExist"
    assert tally.refused("DeleteBatch", BatchId="b") == "BatchDoesNotExist"
    assert tally("CreateBatch", BatchId="b", Total=9) == {"BatchId": "b", "State": "open"}


# --- Time -------------------------------------------------------------------------------------------------------------


def test_retention_deletes_a_batch_by_itself_and_never_before_completion(tally):
    """Retention does it by itself, never before completion."""
    tally("CreateBatch", BatchId="b", RetentionSeconds=1)
    tally("AddUnits", BatchId="b", Count=1)
    tally("SealBatch", BatchId="b")
    time.sleep(1.5)
    assert tally.state("b") == ("sealed", None)
    tally.complete("b", "0")
    assert tally.state("b") == ("completed", "succeeded")
    wait_until(lambda: not tally("ListBatches")["Batches"], what="the end of the retention")
    assert tally.refused("DescribeBatch", BatchId="b") == "BatchDoesNotExist"


def test_an_expired_batch_completes_as_expired(tally):
    """A batch never lives for ever: after ExpiresAfterSeconds it completes as expired."""
    tally("CreateBatch", BatchId="open", ExpiresAfterSeconds=1, OnComplete={"QueueUrl": tally.results})
    tally("CreateBatch", BatchId="sealed", ExpiresAfterSeconds=1, OnComplete={"QueueUrl": tally.results})
    for name in ["open", "sealed"]:
        tally("AddUnits", BatchId=name, Count=2)
        tally.complete(name, "0")
    tally("SealBatch", BatchId="sealed")
    results = wait_until(tally.take_results, what="the expiry")
    results += wait_until(tally.take_results, what="the other expiry") if len(results) == 1 else []
    assert sorted((json.loads(body)["batch"], json.loads(body)["status"]) for body, _, _ in results) == [
        ("open", "expired"),
        ("sealed", "expired"),
    ]
    assert tally.state("open") == tally.state("sealed") == ("completed", "expired")
    assert tally.describe("open")["CompletedAt"] - tally.describe("open")["CreatedAt"] >= 1
    assert tally.complete("open", "1")["Completed"] is False
    assert tally.refused("AddUnits", BatchId="open", Units=["x"]) == "BatchSealed"


# --- Parents ----------------------------------------------------------------------------------------------------------


def test_a_parent_counts_each_child_as_one_unit(tally):
    """A parent batch counts each child batch as one unit, which ends when the child's completion message has been
    deleted (or at once where it has none)."""
    tally("CreateBatch", BatchId="parent", OnComplete={"QueueUrl": tally.results, "MessageBody": "all done"})
    tally("CreateBatch", BatchId="silent", Parent="parent")
    tally("CreateBatch", BatchId="loud", Parent="parent",
          OnComplete={"QueueUrl": tally.jobs, "MessageBody": "child done"})
    tally("CreateBatch", BatchId="loud", Parent="parent",
          OnComplete={"QueueUrl": tally.jobs, "MessageBody": "child done"})
    assert tally.counts("parent") == [2, 0, 0, 0, 2]
    units = tally("ListUnits", BatchId="parent")["Units"]
    assert sorted(unit["BatchId"] for unit in units) == ["loud", "silent"]
    tally("SealBatch", BatchId="parent")
    for child in ["silent", "loud"]:
        tally("AddUnits", BatchId=child, Count=1)
        tally("SealBatch", BatchId=child)
    assert tally.complete("silent", "0")["Completed"] is True
    assert tally.counts("parent") == [2, 1, 0, 0, 1]
    assert tally.complete("loud", "0")["Completed"] is True
    assert tally.counts("parent") == [2, 1, 0, 0, 1]  # its message is not deleted yet
    assert tally.take_results() == []
    tally.finish_one()
    assert tally.state("parent") == ("completed", "succeeded")
    assert [body for body, _, _ in tally.take_results()] == ["all done"]


def test_a_failed_child_is_a_failed_unit(tally):
    tally("CreateBatch", BatchId="parent", OnFirstFailure={"QueueUrl": tally.results, "MessageBody": "a child failed"})
    tally("CreateBatch", BatchId="child", Parent="parent")
    tally("AddUnits", BatchId="child", Count=1)
    tally("SealBatch", BatchId="child")
    tally("SealBatch", BatchId="parent")
    tally.complete("child", "0", status="failed")
    assert tally.state("parent") == ("completed", "failed")
    assert [body for body, _, _ in tally.take_results()] == ["a child failed"]


def test_batches_survive_a_kill_in_every_state(daemon, tally):
    tally("CreateBatch", BatchId="open", OnComplete={"QueueUrl": tally.results})
    tally("AddUnits", BatchId="open", Count=2)
    tally("CreateBatch", BatchId="xor", Tracking="xor")
    xor(tally, "xor", 5, "t")
    tally("CreateBatch", BatchId="done", OnComplete={"QueueUrl": tally.results})
    tally("SealBatch", BatchId="done")
    tally("CreateBatch", BatchId="cancelled")
    tally.send("cancelled")
    tally("CancelBatch", BatchId="cancelled")
    before = tally("ListBatches")
    tally.line.close()
    daemon.kill9()
    daemon.start()
    assert tally("ListBatches") == before
    assert tally.receive() == []
    assert xor(tally, "xor", 5, "t") == {"Zero": False, "Completed": False}
    assert xor(tally, "xor", 5, "u") == {"Zero": True, "Completed": False}
    tally.complete("open", "0", "1")
    assert tally("SealBatch", BatchId="open")["Completed"] is True
    assert len(tally.take_results()) == 2
