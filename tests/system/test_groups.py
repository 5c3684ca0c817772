"""Groups over the wire: holds and their release, pauses, back-off, rates, limits of tenants, and why a message is not
delivered (reference: batches-order-dependencies, T19, T28, T38, T39, T67; invariants O8, O13)."""

import json
import time

import pytest
from conftest import wait_until
from test_errors import IPV, check, text
from test_fifo import Sqs, dead_letters
from wire import Connection, request_bytes

UNKNOWN_ID = "00000000-0000-8000-8000-000000000000"


class Groups(Sqs):
    """The same, with Tally's own actions."""

    def fail(self, queue, message, **more):
        self.ok("Tally.FailMessage", QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], **more)

    def groups(self, queue, **more):
        return {group["MessageGroupId"]: group
                for group in self.ok("Tally.ListGroups", QueueUrl=queue, **more).get("Groups", [])}

    def explain(self, queue, sent):
        """The state, and the reasons by their codes."""
        identity = sent if isinstance(sent, str) else sent["MessageId"]
        answer = self.ok("Tally.ExplainMessage", QueueUrl=queue, MessageId=identity)
        assert set(answer) == {"State", "Why"} and all(why["Text"] for why in answer["Why"])
        return answer["State"], {why["Code"]: why for why in answer["Why"]}

    def state(self, queue, sent):
        return self.explain(queue, sent)[0]

    def release(self, queue, group, action):
        return self.call("Tally.ReleaseGroup", QueueUrl=queue, MessageGroupId=group, Action=action)


@pytest.fixture
def tally(daemon):
    client = Groups(daemon)
    yield client
    client.line.close()


def make_held(tally, queue="q.fifo"):
    """A group `g` of three whose head failed for good; and a free one."""
    tally.make("dead.fifo")
    tally.make(queue, **{"Tally.OnGroupFailure": "hold", "RedrivePolicy": dead_letters("dead.fifo", 5)})
    sent = [tally.send(queue, body, "g") for body in "abc"]
    (head,) = tally.receive(queue, 1)
    tally.fail(queue, head, Reason="no such post", Final=True)
    return sent


# --- holds ------------------------------------------------------------------------------------------------------------


def test_T39_a_held_group_says_why_and_waits_for_a_person(tally):
    sent = make_held(tally)
    assert tally.receive("q.fifo") == []
    held = tally.groups("q.fifo", State="held")["g"]
    assert abs(held["Since"] - time.time()) < 600
    assert {"State": "held", "Reason": "no such post", "Messages": 3, "InFlight": 0,
            "HeadMessageId": sent[0]["MessageId"]}.items() <= held.items()
    assert tally.groups("q.fifo", State="busy") == tally.groups("q.fifo", State="ready") == {}
    state, why = tally.explain("q.fifo", sent[0])
    assert (state == "held" and why["GroupHeld"]["Reason"] == "no such post"
            and why["GroupHeld"]["Since"] == held["Since"])
    state, why = tally.explain("q.fifo", sent[1])
    assert state == "held" and why["GroupHead"]["MessageId"] == sent[0]["MessageId"] and "GroupHeld" in why
    # Other groups go on; so does this one after a restart and its release.
    tally.send("q.fifo", "free", "h")
    assert tally.bodies("q.fifo") == ["free"]
    tally.daemon.kill9()
    tally.daemon.start()
    tally.line.close()
    assert tally.groups("q.fifo", State="held") == {"g": held}
    assert tally.release("q.fifo", "g", "retry").body == b""
    assert tally.bodies("q.fifo") == ["a", "b", "c"]
    check(tally.release("q.fifo", "g", "retry"), "GroupNotHeld",
          "Group 'g' of queue q.fifo is not held; ListGroups says what keeps it.")
    assert tally.groups("q.fifo", State="held") == {}


@pytest.mark.parametrize("action, left", [("skip", ["b", "c"]), ("cancel-rest", [])])
def test_T39_release_wakes_a_waiting_receive(tally, action, left):
    make_held(tally)
    assert tally.release("q.fifo", "g", action).status == 200
    assert tally.bodies("q.fifo", WaitTimeSeconds=1 if left == [] else 10) == left
    (dead,) = tally.receive("dead.fifo", MessageAttributeNames=["Tally.*"])
    assert dead["Body"] == "a" and dead["MessageAttributes"]["Tally.FailureReason"] == text("no such post")
    wait_until(lambda: tally.attributes("q.fifo")["ApproximateNumberOfMessages"] == "0", what="the rest's end")


def test_T39_cancel_rest_as_a_policy(tally):
    tally.make("q.fifo", **{"Tally.OnGroupFailure": "cancel-rest"})
    sent = [tally.send("q.fifo", body, "g") for body in "abc"]
    (head,) = tally.receive("q.fifo", 1)
    tally.fail("q.fifo", head, Final=True)
    tally.send("q.fifo", "new", "g")
    assert tally.bodies("q.fifo", WaitTimeSeconds=10) == ["new"]
    ends = [tally.explain("q.fifo", one) for one in sent]
    assert [state for state, _ in ends] == ["ended"] * 3
    assert [why["Ended"]["Outcome"] for _, why in ends] == ["failed", "cancelled", "cancelled"]


def test_a_purge_lifts_holds_and_keeps_pauses(tally):
    make_held(tally)
    tally.ok("Tally.PauseGroup", QueueUrl="q.fifo", MessageGroupId="g")
    assert tally.groups("q.fifo")["g"]["Paused"] is True
    tally.ok("PurgeQueue", QueueUrl="q.fifo")
    wait_until(lambda: tally.groups("q.fifo").get("g", {}).get("Messages") == 0, what="the purge")
    assert tally.groups("q.fifo")["g"]["State"] == "paused"
    check(tally.release("q.fifo", "g", "skip"), "GroupNotHeld", None)
    tally.send("q.fifo", "new", "g")
    assert tally.receive("q.fifo") == []
    tally.ok("Tally.ResumeGroup", QueueUrl="q.fifo", MessageGroupId="g")
    assert tally.bodies("q.fifo") == ["new"]


def test_a_dead_letter_queue_that_nobody_would_remember_is_refused(tally):
    """With cancel-rest a message behind others in hand is given up later, by its queue's policy: here it would be
    dropped."""
    tally.make("dead.fifo")
    tally.make("q.fifo", **{"Tally.OnGroupFailure": "cancel-rest"})
    for body in "abc":
        tally.send("q.fifo", body, "g")
    first, second = tally.receive("q.fifo", 2)
    fail = {"QueueUrl": "q.fifo", "ReceiptHandle": second["ReceiptHandle"], "Final": True,
            "DeadLetterQueueUrl": "dead.fifo"}
    told = tally.call("Tally.FailMessage", **fail).json()
    assert told["__type"].endswith("#UnsupportedOperation") and "Nothing was changed" in told["message"], told
    tally.delete("q.fifo", first)
    assert tally.ok("Tally.FailMessage", **fail) == {"Outcome": "dead-lettered", "Attempt": 1, "QueueName": "dead.fifo"}
    assert tally.bodies("dead.fifo") == ["b"]
    assert tally.receive("q.fifo") == []


# --- lists ------------------------------------------------------------------------------------------------------------


def test_lists_of_groups_page(tally):
    for queue in ["q.fifo", "q"]:
        tally.make(queue)
        for i in range(25):
            tally.send(queue, "a", f"g{i:02}")
        held = tally.receive(queue, 5, VisibilityTimeout=600)
        tally.send(queue, "alone", f"p{queue}")
        tally.ok("Tally.PauseGroup", QueueUrl=queue, MessageGroupId=f"p{queue}")
        names = [f"g{i:02}" for i in range(25)] + [f"p{queue}"]
        for state, count in [(None, 26), ("ready", 20), ("busy", 5), ("paused", 1), ("held", 0)]:
            found, token, pages = [], None, 0
            while pages == 0 or token:
                more = {"State": state} if state else {}
                answer = tally.ok(
                    "Tally.ListGroups", QueueUrl=queue, MaxResults=7, **more, **({"NextToken": token} if token else {}))
                assert len(answer.get("Groups", [])) <= 7
                found += answer.get("Groups", [])
                token, pages = answer.get("NextToken"), pages + 1
            assert len(found) == count and len({group["MessageGroupId"] for group in found}) == count, (queue, state)
            assert {group["MessageGroupId"] for group in found} <= set(names)
            assert all(group["State"] == state for group in found if state)
            if state == "busy":
                assert all(group["InFlight"] == 1 and "in flight" in group["Reason"] for group in found)
                assert {group["HeadMessageId"] for group in found} == {message["MessageId"] for message in held}
            if state == "paused":
                assert found[0]["Messages"] == 1 and found[0]["Paused"] is True
    assert tally.ok("Tally.ListGroups", QueueUrl=tally.make("empty")) == {"Groups": []}


def test_a_group_is_found_by_its_id(tally):
    for queue in ["q.fifo", "q"]:
        tally.make(queue, **({"Tally.OnGroupFailure": "hold"} if queue.endswith(".fifo") else {}))
        for group in ["one", "two"]:
            tally.send(queue, "a", group)
    find = {"QueueUrl": "q.fifo", "MessageGroupId": "two"}
    [group] = tally.ok("Tally.ListGroups", **find)["Groups"]
    assert (group["MessageGroupId"], group["State"], group["Messages"]) == ("two", "ready", 1)
    for message in tally.receive("q.fifo"):
        tally.fail("q.fifo", message, Final=True, Reason="no")
    [group] = tally.ok("Tally.ListGroups", **find, State="held", MaxResults=1)["Groups"]
    assert (group["MessageGroupId"], group["Reason"]) == ("two", "no")
    tally.make("none.fifo")
    for more in [{"State": "ready"}, {"MessageGroupId": "three"}, {"MessageGroupId": "TWO"}, {"QueueUrl": "none.fifo"}]:
        assert tally.ok("Tally.ListGroups", **{**find, **more}) == {"Groups": []}, more
    tally.ok("Tally.PauseGroup", QueueUrl="q", MessageGroupId="empty")
    [group] = tally.ok("Tally.ListGroups", QueueUrl="q", MessageGroupId="empty")["Groups"]
    assert (group["State"], group["Messages"]) == ("paused", 0)


def test_a_page_goes_on_where_the_next_group_was_released(tally):
    tally.make("q.fifo", **{"Tally.OnGroupFailure": "hold"})
    for i in range(6):
        tally.send("q.fifo", "a", f"g{i}")
    for message in tally.receive("q.fifo"):
        tally.fail("q.fifo", message, Final=True)
    answer = tally.ok("Tally.ListGroups", QueueUrl="q.fifo", State="held", MaxResults=2)
    assert [group["MessageGroupId"] for group in answer["Groups"]] == ["g0", "g1"]
    assert tally.release("q.fifo", "g2", "retry").status == 200
    answer = tally.ok("Tally.ListGroups", QueueUrl="q.fifo", State="held", MaxResults=100,
                      NextToken=answer["NextToken"])
    assert {"g3", "g4", "g5"} <= {group["MessageGroupId"] for group in answer["Groups"]} and "NextToken" not in answer
    # A token that nobody gave is refused; one of another list is no more than a bad start.
    check(tally.call("Tally.ListGroups", QueueUrl="q.fifo", NextToken="1"), IPV, "Invalid or expired next token.",
          is_own=True)
    tally.make("p.fifo")
    first = tally.ok("Tally.ListGroups", QueueUrl="q.fifo", MaxResults=1)
    for queue in ["p.fifo", "q.fifo"]:
        for state in [{}, {"State": "held"}, {"State": "ready"}, {"State": "busy"}, {"State": "paused"}]:
            tally.ok("Tally.ListGroups", QueueUrl=queue, NextToken=first["NextToken"], **state)


# --- pauses -----------------------------------------------------------------------------------------------------------


def test_pauses_stop_deliveries_and_nothing_else(tally):
    for queue in ["q", "q.fifo"]:
        tally.make(queue)
        tally.send(queue, "a", "g")
        (held,) = tally.receive(queue, VisibilityTimeout=600)
        tally.ok("Tally.PauseQueue", QueueUrl=queue)
        tally.ok("Tally.PauseQueue", QueueUrl=queue)
        assert tally.attributes(queue)["Tally.Paused"] == "true"
        sent = tally.send(queue, "b", "h")
        tally.delete(queue, held)
        assert tally.receive(queue) == []
        state, why = tally.explain(queue, sent)
        assert state == "blocked" and list(why) == ["QueuePaused"]
        group = tally.groups(queue)["h"]
        assert (group["State"], group["Reason"]) == ("ready", "the queue is paused")
        tally.daemon.kill9()
        tally.daemon.start()
        tally.line.close()
        assert tally.receive(queue) == []
        tally.ok("Tally.ResumeQueue", QueueUrl=queue)
        assert "Tally.Paused" not in tally.attributes(queue)
        assert tally.bodies(queue) == ["b"]


@pytest.mark.parametrize("what", ["Queue", "Group"])
def test_the_end_of_a_pause_wakes_a_waiting_receive(tally, what):
    tally.make("q.fifo")
    tally.send("q.fifo", "a", "g")
    named = {"QueueUrl": "q.fifo"} if what == "Queue" else {"QueueUrl": "q.fifo", "MessageGroupId": "g"}
    tally.ok(f"Tally.Pause{what}", **named)
    with Connection(tally.daemon.port) as waiting:
        waiting.write(request_bytes("AmazonSQS.ReceiveMessage", {"QueueUrl": "q.fifo", "WaitTimeSeconds": 20}))
        wait_until(lambda: b"tally_receives_waiting 1" in tally.daemon.request("GET", "/metrics")[2],
                   what="a receive that waits")
        resumed_at = time.monotonic()
        tally.ok(f"Tally.Resume{what}", **named)
        assert waiting.answer().json()["Messages"][0]["Body"] == "a" and time.monotonic() - resumed_at < 5


# --- back-off, rates, limits ------------------------------------------------------------------------------------------


def test_T28_T67_back_off(tally):
    tally.make("q.fifo", **{"Tally.Backoff": '{"min": 1, "max": 3, "factor": 2, "jitter": 0}'})
    sent = tally.send("q.fifo", "a", "g")
    behind = tally.send("q.fifo", "b", "g")
    for wait in [1, 2, 3, 3]:
        (message,) = tally.receive("q.fifo", 1, WaitTimeSeconds=10)
        failed_at = time.time()
        tally.fail("q.fifo", message, Reason=f"wait {wait}")
        state, why = tally.explain("q.fifo", sent)
        assert state == "delayed" and why["BackOff"]["Reason"] == f"wait {wait}"
        assert wait - 0.5 < why["BackOff"]["Until"] - failed_at < wait + 2
        state, why = tally.explain("q.fifo", behind)
        assert (state == "blocked" and why["GroupHead"]["MessageId"] == sent["MessageId"]
                and "delayed until" in why["GroupHead"]["Text"])
        assert "wait" in tally.groups("q.fifo", State="busy")["g"]["Reason"]


def test_T19_rates_postpone_and_charge_nothing(tally):
    tally.make("q", **{"Tally.RateLimit": '{"queue": {"rate": 0.5, "burst": 2}}'})
    sent = [tally.send("q", str(i)) for i in range(4)]
    assert tally.bodies("q") == ["0", "1"]
    state, why = tally.explain("q", sent[2])
    assert state == "blocked" and 0 < why["QueueRate"]["Until"] - time.time() < 3
    assert tally.bodies("q", WaitTimeSeconds=10) == ["2"]
    tally.ok("SetQueueAttributes", QueueUrl="q", Attributes={"Tally.RateLimit": '{"group": {"rate": 0.01}}'})
    (message,) = tally.receive("q", AttributeNames=["All"])
    assert (message["Body"], message["Attributes"]["ApproximateReceiveCount"]) == ("3", "1")
    first, second = tally.send("q", "g1", "g"), tally.send("q", "g2", "g")
    tally.send("q", "h1", "h")
    assert sorted(tally.bodies("q")) == ["g1", "h1"]
    assert tally.state("q", first) == "in-flight"
    state, why = tally.explain("q", second)
    assert state == "blocked" and 50 < why["GroupRate"]["Until"] - time.time() < 150
    tally.ok("SetQueueAttributes", QueueUrl="q", Attributes={"Tally.RateLimit": ""})
    assert tally.bodies("q") == ["g2"]


def test_a_tenant_runs_at_most_so_many_at_once(tally):
    tally.make("q", **{"Tally.GroupConcurrency": "2"})
    sent = [tally.send("q", str(i), "g") for i in range(3)]
    tally.send("q", "other", "h")
    held = tally.receive("q")
    assert sorted(message["Body"] for message in held) == ["0", "1", "other"]
    (waiting,) = [one for one in sent if one["MessageId"] not in {message["MessageId"] for message in held}]
    state, why = tally.explain("q", waiting)
    assert state == "blocked" and (why["GroupConcurrency"]["Count"], why["GroupConcurrency"]["Limit"]) == (2, 2)
    tally.delete("q", *held)
    assert tally.bodies("q") == ["2"]


def test_priorities_choose_between_groups(tally):
    tally.make("q")
    for body, priority in [("low", "0"), ("plain", None), ("high", "9")]:
        tally.send("q", body, f"g-{body}",
                   MessageAttributes={"Tally.Priority": text(priority, "Number")} if priority else {})
    assert tally.bodies("q", 2) == ["high", "plain"]


# --- explanations -----------------------------------------------------------------------------------------------------


def test_a_message_behind_one_in_flight(tally):
    tally.make("q.fifo")
    first, second = tally.send("q.fifo", "a", "g"), tally.send("q.fifo", "b", "g")
    assert tally.explain("q.fifo", first) == ("ready", {})
    assert tally.state("q.fifo", second) == "blocked"
    (message,) = tally.receive("q.fifo", 1, MessageAttributeNames=["Tally.FencingToken"], VisibilityTimeout=60)
    token = int(message["MessageAttributes"]["Tally.FencingToken"]["StringValue"])
    state, why = tally.explain("q.fifo", first)
    lease = why["InFlight"]
    assert state == "in-flight" and lease["Delivery"] == token and 59 < lease["Until"] - lease["Since"] < 61
    state, why = tally.explain("q.fifo", second)
    head = why["GroupHead"]
    assert state == "blocked" and head["MessageId"] == first["MessageId"]
    assert (head["Since"], head["Until"], head["Delivery"]) == (lease["Since"], lease["Until"], token)
    assert head["Text"].startswith(
        f"It waits behind message {first['MessageId']}, the head of its group, which is in flight since ")
    tally.delete("q.fifo", message)
    assert tally.explain("q.fifo", second) == ("ready", {})
    state, why = tally.explain("q.fifo", first)
    assert state == "ended" and why["Ended"]["Outcome"] == "succeeded"


def test_delays_dead_letters_and_ids_of_nobody(tally):
    tally.make("dead")
    tally.make("q", RedrivePolicy=dead_letters("dead", 1), VisibilityTimeout="0")
    late = tally.send("q", "late", DelaySeconds=600)
    state, why = tally.explain("q", late)
    assert state == "delayed" and 590 < why["Delayed"]["Until"] - time.time() < 610
    assert 599 < why["Delayed"]["Until"] - why["Delayed"]["Since"] < 601
    sent = tally.send("q", "poison")
    assert tally.bodies("q") == ["poison"]
    state, why = tally.explain("q", sent)
    assert state == "ready" and (why["OutOfAttempts"]["Count"], why["OutOfAttempts"]["Limit"]) == (1, 1)
    assert tally.receive("q") == []
    state, why = tally.explain("q", sent)
    assert state == "ended" and why["OtherQueue"]["QueueName"] == "dead"
    state, why = tally.explain("dead", sent)
    assert state == "ready" and list(why) == ["Returned"] and why["Returned"]["Count"] == 1
    for nobody in [UNKNOWN_ID, "x", "0" * 36, "ffffffff-ffff-8fff-bfff-ffffffffffff"]:
        assert tally.explain("q", nobody) == ("unknown", {})
    other = tally.send("dead", "other")
    assert tally.explain("q", other) == ("unknown", {})
    tally.ok("PurgeQueue", QueueUrl="q")
    assert tally.state("q", late) == "ended"


def test_dependencies_are_named(tally):
    tally.make("q")
    tally.ok("Tally.CreateBatch", BatchId="b,c")
    tally.ok("Tally.AddUnits", BatchId="b,c", Count=3)
    first = tally.send("q", "first", DelaySeconds=900)
    after = {"Tally.After": text(f"batch:b,c,message:{first['MessageId']}"), "Tally.AfterFailure": text("hold")}
    waiting = tally.send("q", "waiting", MessageAttributes=after)
    state, why = tally.explain("q", waiting)
    assert state == "blocked" and why["Message"]["MessageId"] == first["MessageId"]
    since = why["Message"]["Since"]
    assert why["Batch"]["Since"] == since and abs(since - time.time()) < 600
    assert ((why["Batch"]["BatchId"], why["Batch"]["Remaining"]) == ("b,c", 3)
            and "(3 units outstanding)" in why["Batch"]["Text"])
    tally.ok("Tally.CompleteUnits", BatchId="b,c", Units=[{"Unit": str(i), "Status": "failed"} for i in range(3)])
    tally.ok("Tally.SealBatch", BatchId="b,c")
    wait_until(lambda: tally.state("q", waiting) == "held", what="the hold")
    _, why = tally.explain("q", waiting)
    assert why["AntecedentFailed"]["Outcome"] == "failed" and "batch 'b,c' failed" in why["AntecedentFailed"]["Text"]
    assert why["AntecedentFailed"]["Since"] >= since == why["Message"]["Since"]
    check(
        tally.call("SendMessage", QueueUrl="q", MessageBody="x", MessageAttributes={"Tally.After": text("batch:none")}),
        "DependencyDoesNotExist",
        None,
    )
    tally.refused(IPV, None, "SendMessage", QueueUrl="q", MessageBody="x",
                  MessageAttributes={"Tally.After": text("batch:none, x")})


def test_type_orders_are_named(tally):
    tally.make("posts")
    tally.make("comments")
    tally.ok("Tally.PutTypeOrder", Name="forum", Types=["create-post", "create-comment"])
    post = tally.send("posts", "post", "p1", MessageAttributes={"Tally.Type": text("create-post")})
    comment = tally.send("comments", "comment", "p1", MessageAttributes={"Tally.Type": text("create-comment")})
    state, why = tally.explain("comments", comment)
    assert state == "blocked" and (why["TypeOrder"]["Type"], why["TypeOrder"]["MessageId"]) == (
        "create-post", post["MessageId"])
    assert abs(why["TypeOrder"]["Since"] - time.time()) < 600
    assert tally.receive("comments") == []
    tally.delete("posts", *tally.receive("posts"))
    assert tally.bodies("comments", WaitTimeSeconds=5) == ["comment"]


def test_a_reason_may_hold_anything_that_a_message_may(tally):
    tally.make("q.fifo", **{"Tally.OnGroupFailure": "hold"})
    tally.send("q.fifo", "a", 'g"\\')
    (message,) = tally.receive("q.fifo")
    reason = 'line 1\nline "2"\\ 🎉' + "x" * 900
    tally.fail("q.fifo", message, Reason=reason, Final=True)
    ((name, group),) = tally.groups("q.fifo").items()
    assert name == 'g"\\' and group["Reason"] == reason
    assert json.dumps(tally.explain("q.fifo", message)[1]["GroupHeld"]["Reason"]) == json.dumps(reason)
