"""Dependencies over the wire: messages that wait for messages, batches and deduplication ids, what they are told, and
what is refused (reference: batches-order-dependencies, T51, T58a, T58b, T58d, T59, T60, T65; invariants D1 to D11)."""

import pytest
from conftest import wait_until
from test_errors import IPV, check, text
from test_groups import Groups

ABSENT = "DependencyDoesNotExist"
CYCLE = "DependencyCycle"


class Dependencies(Groups):
    def put(self, queue, body, *after, batch=None, policy=None, **more):
        attributes = {}
        if after:
            attributes["Tally.After"] = text(", ".join(after))
        if policy:
            attributes["Tally.AfterFailure"] = text(policy)
        if batch:
            attributes["Tally.Batch"] = text(batch)
        return {"QueueUrl": queue, "MessageBody": body, "MessageAttributes": attributes, **more}

    def send_after(self, queue, body, *after, **more):
        return "message:" + self.ok("SendMessage", **self.put(queue, body, *after, **more))["MessageId"]

    def refuse(self, error, expected, *put, **more):
        answer = self.call("SendMessage", **self.put(*put, **more))
        check(answer, error, None)
        assert expected in answer.json()["message"], answer.json()["message"]

    def work(self, queue, *bodies):
        """Takes these one after the other, in this order, as they come."""
        for body in bodies:
            (message,) = self.receive(queue, 1, WaitTimeSeconds=20)
            assert message["Body"] == body
            self.delete(queue, message)


@pytest.fixture
def tally(daemon):
    client = Dependencies(daemon)
    yield client
    client.line.close()


def test_T58d_a_diamond_over_four_queues_runs_in_order_and_outlives_a_kill(daemon, tally):
    for queue in ("a", "b", "c", "d"):
        tally.make(queue)
    a = tally.send_after("a", "a")
    b = tally.send_after("b", "b", a)
    c = tally.send_after("c", "c", a)
    tally.send_after("d", "d", b, c)
    assert tally.state("d", tally.send_after("d", "e", b).removeprefix("message:")) == "blocked"
    assert not any(tally.receive(queue) for queue in "bcd")
    tally.work("a", "a")
    daemon.kill9()
    daemon.start()
    tally = Dependencies(daemon)
    tally.work("b", "b")
    tally.work("d", "e")
    assert not tally.receive("d")
    tally.work("c", "c")
    tally.work("d", "d")


def test_a_dependent_is_there_when_the_end_of_its_antecedent_is_answered(tally):
    tally.make("q")
    for _ in range(200):
        first = tally.send_after("q", "first")
        tally.send_after("q", "second", first)
        for body in ("first", "second"):
            (message,) = tally.receive("q", 10)
            assert message["Body"] == body
            tally.delete("q", message)


def test_T58a_a_receive_that_waits_is_served_when_the_last_antecedent_ends(tally):
    tally.make("first")
    tally.make("then")
    tally.ok("Tally.CreateBatch", BatchId="b")
    tally.ok("Tally.AddUnits", BatchId="b", Units=["u"])
    tally.send_after("first", "a", MessageDeduplicationId="id-1")
    tally.send_after("then", "d", "dedup:first/id-1", "batch:b")
    tally.work("first", "a")
    assert not tally.receive("then")
    tally.ok("Tally.SealBatch", BatchId="b")
    assert tally.ok("Tally.CompleteUnits", BatchId="b", Units=[{"Unit": "u"}])["Completed"]
    tally.work("then", "d")


def test_T58b_policies_and_their_reasons(tally):
    tally.make("first")
    tally.make("then")
    tally.ok("Tally.CreateBatch", BatchId="work")
    bad = tally.send_after("first", "a")
    cancelled = tally.send_after("then", "cancelled", bad, batch="work")
    held = tally.send_after("then", "held", bad, policy="hold")
    tally.send_after("then", "run", bad, policy="run")
    behind = tally.send_after("then", "behind", cancelled)
    tally.ok("Tally.SealBatch", BatchId="work")
    (message,) = tally.receive("first", 1)
    tally.fail("first", message, Reason="no", Final=True)
    tally.work("then", "run")
    wait_until(lambda: tally.ok("Tally.DescribeBatch", BatchId="work")["State"] == "completed")
    assert tally.ok("Tally.DescribeBatch", BatchId="work")["Status"] == "failed"
    state, why = tally.explain("then", held.removeprefix("message:"))
    assert state == "held" and why["AntecedentFailed"]["MessageId"] == bad.removeprefix("message:")
    for gone in (cancelled, behind):
        state, why = tally.explain("then", gone.removeprefix("message:"))
        assert state == "ended" and why["Ended"]["Outcome"] == "failed"
    assert not tally.receive("then")


def test_T58a_what_is_not_known_is_refused_and_nothing_is_sent(tally):
    tally.make("q")
    tally.make("grouped.fifo", DeduplicationScope="messageGroup", FifoThroughputLimit="perMessageGroupId")
    tally.send("grouped.fifo", "a", "g", "id")
    known = tally.send_after("q", "a")
    forged = known[:-1] + ("0" if known[-1] != "0" else "1")
    for name in (
        "message:00000000-0000-8000-8000-000000000000",
        "message:none",
        forged,
        "batch:none",
        "dedup:none/id",
        "dedup:q/none",
        "dedup:grouped.fifo/id",
    ):
        tally.refuse(ABSENT, f"Tally.After: {name} is not known", "q", "x", known, name)
    for wrong in ("nonsense", "message:", "batch:", "dedup:q", "queue:q"):
        tally.refuse(IPV, "Tally.After", "q", "x", wrong)
    assert tally.attributes("q")["ApproximateNumberOfMessages"] == "1"


def test_a_send_batch_says_for_each_entry(tally):
    tally.make("q")
    known = tally.send_after("q", "a")
    entries = [
        {"Id": "good", "MessageBody": "b", "MessageAttributes": {"Tally.After": text(known)}},
        {"Id": "bad", "MessageBody": "c", "MessageAttributes": {"Tally.After": text("batch:none")}},
    ]
    answer = tally.ok("SendMessageBatch", QueueUrl="q", Entries=entries)
    assert [entry["Id"] for entry in answer["Successful"]] == ["good"]
    (failed,) = answer["Failed"]
    assert failed["Id"] == "bad" and failed["Code"] == "DependencyDoesNotExist" and failed["SenderFault"] is True


def test_T51_T60_rings_are_refused_and_the_way_is_named(tally):
    tally.make("line.fifo")
    tally.ok("Tally.CreateBatch", BatchId="b")
    waiting = tally.send_after("line.fifo", "n", "batch:b", MessageGroupId="g", MessageDeduplicationId="1")
    tally.refuse(
        CYCLE,
        f"The message would wait for itself: this message stands behind {waiting.replace(':', ' ')}, "
        "which waits for batch b, which waits for its unit this message",
        "line.fifo",
        "m",
        batch="b",
        MessageGroupId="g",
        MessageDeduplicationId="2",
    )
    assert tally.ok("Tally.DescribeBatch", BatchId="b")["Total"] == 0
    tally.ok("Tally.CreateBatch", BatchId="parent")
    target = {"QueueUrl": "line.fifo", "MessageGroupId": "done"}
    tally.ok("Tally.CreateBatch", BatchId="child", Parent="parent", OnComplete=target)
    tally.refuse(
        CYCLE,
        "batch parent, which waits for a completion message that will stand behind this message",
        "line.fifo",
        "m",
        "batch:parent",
        MessageGroupId="done",
        MessageDeduplicationId="3",
    )
    tally.send_after("line.fifo", "m", "batch:parent", MessageGroupId="h", MessageDeduplicationId="3")
    answer = tally.call("Tally.CreateBatch", BatchId="two", Parent="parent",
                        OnComplete={**target, "MessageGroupId": "h"})
    check(answer, CYCLE, None)
    assert "Parent: batch 'parent' would wait for itself" in answer.json()["message"]


def test_T59_T65_a_type_order_holds_over_queues_and_a_kill(daemon, tally):
    for queue in ("posts", "comments.fifo", "mails"):
        tally.make(queue)
    order = {"Name": "blog", "Types": ["post", "comment", "mail"]}
    told = tally.ok("Tally.PutTypeOrder", **order)
    assert told == tally.ok("Tally.PutTypeOrder", **order) == {**order, "Require": False}
    answer = tally.call("Tally.PutTypeOrder", Name="other", Types=["mail", "post"])
    check(answer, "TypeOrderConflict", None)
    assert '"post" before "mail" (order "blog")' in answer.json()["message"]
    assert tally.ok("Tally.ListTypeOrders") == {"TypeOrders": [told]}

    def send(queue, kind, group):
        return tally.send(queue, kind, group, MessageAttributes={"Tally.Type": text(kind)})

    send("mails", "comment", "p")  # before its post: it waits for nothing
    post = send("posts", "post", "p")
    comment, mail = send("comments.fifo", "comment", "p"), send("mails", "mail", "p")
    send("comments.fifo", "comment", "q")
    (early,) = tally.receive("mails")
    assert early["Body"] == "comment" and tally.state("mails", mail) == "blocked"
    (other,) = tally.receive("comments.fifo", AttributeNames=["MessageGroupId"])
    assert other["Attributes"]["MessageGroupId"] == "q"
    daemon.kill9()
    daemon.start()
    tally = Dependencies(daemon)
    _, why = tally.explain("comments.fifo", comment)
    assert (why["TypeOrder"]["Type"], why["TypeOrder"]["MessageId"]) == ("post", post["MessageId"])
    (message,) = tally.receive("posts")
    assert not tally.receive("comments.fifo")  # in flight is not finished
    tally.fail("posts", message)
    assert not tally.receive("comments.fifo")  # nor is a failed attempt
    tally.work("posts", "post")
    tally.work("comments.fifo", "comment")
    assert not tally.receive("mails")
    tally.delete("mails", early)
    tally.work("mails", "mail")
    check(tally.call("Tally.DeleteTypeOrder", Name="none"), "TypeOrderDoesNotExist", "There is no type order 'none'.")
    tally.ok("Tally.DeleteTypeOrder", Name="blog")
    assert tally.ok("Tally.ListTypeOrders") == {"TypeOrders": []}
