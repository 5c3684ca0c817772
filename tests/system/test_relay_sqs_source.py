"""Relays from a queue behind an SQS endpoint into a queue of this Tally: from another Tally, from fauxqs, and from one
that misbehaves as the test wants. Each message arrives once, whatever is killed or lost."""

import json
import os
import random
import shutil
import sys
import threading
import time

import pytest
from conftest import PATIENCE, ROOT, wait_until, write_credentials
from fake_sqs import HANG_UP, FakeQueue, FakeSqs, Fauxqs, error, failed
from queues import count_messages, count_visible, make_queue
from relay import Relay, check_once, check_order, drain, numbered
from relay_actions import describe, good, wait_for
from wire import Connection, scaled

sys.path.insert(0, str(ROOT / "tests" / "campaign"))

LEASE = 5  # the shortest
MESSAGES = scaled(1000, "CAMPAIGN_ROWS", least=300)
KILLS = scaled(4, "CAMPAIGN_KILLS", least=2)
SEED = os.environ.get("KILL_SEED") or str(random.SystemRandom().randrange(1 << 32))


@pytest.fixture
def other(daemon_factory):
    """Another Tally, with queues to move out of."""
    return daemon_factory().start()


@pytest.fixture
def fake():
    source = FakeQueue()
    yield source
    source.stop()


def url_of(other, queue):
    return f"{other.endpoint}/000000000000/{queue}"


def move(daemon, url, queue="here", name="move", source=None, **sink):
    """A relay of the daemon; the queue is made unless it is there."""
    make_queue(daemon, queue)
    return good(daemon, "CreateRelay", RelayName=name, Sink={"Type": "queue", "QueueUrl": queue, **sink},
                Source={"Type": "sqs", "QueueUrl": url, "LeaseSeconds": LEASE, **(source or {})})


def send(daemon, queue, bodies, **more):
    with Connection(daemon.port) as line:
        for at in range(0, len(bodies), 10):
            entries = [{"Id": str(i), "MessageBody": body, **more} for i, body in enumerate(bodies[at:at + 10])]
            line.ok("AmazonSQS.SendMessageBatch", {"QueueUrl": queue, "Entries": entries})


def wait_until_moved(daemon, count, name="move", seconds=30):
    """Until the relay says that the source is empty; what DescribeRelay then says."""
    wait_until(lambda: describe(daemon, name)["Delivered"] >= count and describe(daemon, name)["Lag"]["Rows"] == 0,
               seconds, f"{count} messages and an empty source")
    return describe(daemon, name)


# --- what a message becomes -----------------------------------------------------------------------------------------


def test_each_message_is_moved_once_with_all_that_it_has(daemon, other, tally):
    make_queue(other, "orders")
    raw = {"text": {"DataType": "String.mine", "StringValue": "ü\"\\"},
           "n": {"DataType": "Number", "StringValue": "4.5"}, "raw": {"DataType": "Binary", "BinaryValue": "AAE="}}
    raw |= {f"a{number}": {"DataType": "String", "StringValue": "x"} for number in range(7)}
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}}
    _, first = other.call("AmazonSQS.SendMessage", {
        "QueueUrl": "orders", "MessageBody": "all", "MessageAttributes": raw, "MessageSystemAttributes": trace,
        "MessageGroupId": "tenant", "MessageDeduplicationId": "own"})
    send(other, "orders", ["x" * 1048576])
    send(other, "orders", ["later"], DelaySeconds=1)
    bodies = numbered("m", 200)
    send(other, "orders", bodies)
    make_queue(daemon, "here", DelaySeconds="900")  # what has waited once does not wait again
    move(daemon, url_of(other, "orders"))
    told = wait_until_moved(daemon, 203)
    assert told["State"] == "active" and told["Duplicates"] == told["Parked"] == 0
    assert "waiting     0" in tally("relay", "show", "move").out
    messages = drain(daemon, "here", 203)
    check_once(messages, ["all", "x" * 1048576, "later", *bodies])
    message, = [message for message in messages if message.body == "all"]
    assert message.uid == first["MessageId"] and message.id != message.uid
    assert message.raw_attributes == raw | {"Tally.OutboxId": {"DataType": "String", "StringValue": message.uid}}
    assert message.system["AWSTraceHeader"] == trace["AWSTraceHeader"]["StringValue"]
    assert message.group == "tenant" and message.system["MessageDeduplicationId"] == "own"
    assert message.system["ApproximateReceiveCount"] == "1"
    assert count_messages(other, "orders") == 0


def test_groups_keep_their_order_and_ids_that_came_again_there_are_no_duplicates_here(daemon, other):
    make_queue(other, "orders.fifo", ContentBasedDeduplication="true", **{"Tally.DeduplicationWindow": "0"})
    bodies = []
    with Connection(other.port) as line:
        for number in range(60):
            entries = [{"Id": group, "MessageBody": f"{group}-{number}", "MessageGroupId": group} for group in "abcdef"]
            bodies += [entry["MessageBody"] for entry in entries]
            line.ok("AmazonSQS.SendMessageBatch", {"QueueUrl": "orders.fifo", "Entries": entries})
        for _ in range(3):  # each hour, say: the same words
            line.ok("AmazonSQS.SendMessage", {
                "QueueUrl": "orders.fifo", "MessageBody": "tick-0", "MessageGroupId": "clock",
                "MessageDeduplicationId": "tick"})
    make_queue(daemon, "here.fifo", ContentBasedDeduplication="true")
    move(daemon, url_of(other, "orders.fifo"), "here.fifo")
    messages = drain(daemon, "here.fifo", len(bodies) + 3)
    ticks = [message for message in messages if message.group == "clock"]
    rest = [message for message in messages if message.group != "clock"]
    check_once(rest, bodies)
    check_order(rest)
    assert len(ticks) == 3 and {tick.system["MessageDeduplicationId"] for tick in ticks} == {"tick"}
    assert wait_until_moved(daemon, len(bodies) + 3)["Duplicates"] == 0


def test_a_message_of_an_outbox_keeps_the_uid_by_which_its_consumer_knows_it(daemon, other):
    make_queue(other, "orders")
    uid = "5f8d7a52-0000-4000-8000-000000000001"
    send(other, "orders", ["m"], MessageAttributes={"Tally.OutboxId": {"DataType": "String", "StringValue": uid}})
    move(daemon, url_of(other, "orders"))
    assert drain(daemon, "here", 1)[0].uid == uid


@pytest.mark.skipif(not Fauxqs.is_available(), reason="needs Node.js 20")
def test_from_an_sqs_by_somebody_else(daemon, tmp_path):
    fauxqs = Fauxqs(tmp_path, "localhost")  # of which curl knows that sqs.us-east-1.localhost is this machine
    try:
        for name, attributes in (("q", {}), ("q.fifo", {"FifoQueue": "true"})):
            url = fauxqs.call("CreateQueue", {"QueueName": name, "Attributes": attributes})["QueueUrl"]
            for number in range(50):
                fauxqs.call("SendMessage", {
                    "QueueUrl": url, "MessageBody": f"m-{number}",
                    "MessageAttributes": {"n": {"DataType": "Number", "StringValue": str(number)}},
                    **({"MessageGroupId": "g", "MessageDeduplicationId": f"d{number}"} if attributes else {})})
            move(daemon, url, f"from-{name}", name=name.replace(".", "-"),
                 source={"Credentials": {"AccessKeyId": "a", "SecretAccessKey": "s"}, "Region": "us-east-1"})
            messages = drain(daemon, f"from-{name}", 50)
            check_once(messages, numbered("m", 50))
            assert all(message.attributes["n"] == message.body[2:] for message in messages)
            if attributes:
                check_order(messages)
            wait_until_moved(daemon, 50, name.replace(".", "-"))
    finally:
        fauxqs.stop()


# --- what the source says -------------------------------------------------------------------------------------------


def test_refused_credentials_and_a_queue_that_is_not_there_are_said_and_mended(daemon, daemon_factory, tmp_path):
    path = write_credentials(tmp_path, "AKIAMOVER hidden-secret 000000000000 read,write,admin\n")
    guarded = daemon_factory("--credentials", path).start()
    keys = {"AccessKeyId": "AKIAMOVER", "SecretAccessKey": "hidden-secret"}
    move(daemon, url_of(guarded, "orders"), name="wrong",
         source={"Credentials": {**keys, "SecretAccessKey": "hidden-mistake"}})
    move(daemon, url_of(guarded, "orders"), name="right", source={"Credentials": keys})
    wait_for(daemon, "blocked", "wrong", error="InvalidSignature")
    wait_for(daemon, "blocked", "right", error="QueueDoesNotExist")
    with Connection(guarded.port, credential=("AKIAMOVER", "hidden-secret")) as line:
        line.ok("AmazonSQS.CreateQueue", {"QueueName": "orders"})
        line.ok("AmazonSQS.SendMessage", {"QueueUrl": "orders", "MessageBody": "m"})
    assert [message.body for message in drain(daemon, "here", 1)] == ["m"]
    wait_for(daemon, "active", "right")
    told = json.dumps(good(daemon, "ListRelays")) + daemon.error_text()
    assert "AKIAMOVER" in told and "hidden" not in told


GARBAGE = [
    (200, b"<html>welcome</html>", {}),
    (200, b'{"Messages":[{"MessageId":"5f8d7a52-0000-4', {}),
    (200, {"Messages": "none"}, {}),
    (200, [], {}),
    (502, b"bad gateway", {}),
    error(500, "InternalError"),
    error(503, "ServiceUnavailable"),
    error(400, "RequestThrottled"),
    error(400, "OverLimit"),
    HANG_UP,
]


def test_what_is_no_answer_is_said_and_tried_again(daemon, fake):
    bodies = numbered("m", 40)
    for body in bodies:
        fake.put(body)
    answers = {action: list(GARBAGE) for action in ("ReceiveMessage", "DeleteMessageBatch", "GetQueueAttributes")}
    said = set()

    def rule(action, body):
        body["WaitTimeSeconds"] = 0.1
        said.add(describe_quietly(daemon).get("LastError"))
        is_good = fake.actions.count(action) % 2 == 0  # between two others it ends the pauses
        return answers[action].pop(0) if answers.get(action) and not is_good else None

    fake.rules.append(rule)
    move(daemon, fake.url)
    wait_until(lambda: not fake.left(), 60, "an empty source")
    check_once(drain(daemon, "here", 40), bodies)
    wait_until(lambda: not answers["ReceiveMessage"], 30, "that all was answered")
    assert any("no answer of SQS" in text for text in said if text), said
    fake.rules.clear()
    wait_for(daemon, "active", "move")


def describe_quietly(daemon):
    status, answer = daemon.call("Tally.DescribeRelay", {"RelayName": "move"})
    return answer if status == 200 else {}


def test_messages_that_can_not_be_taken_stay_and_the_rest_goes_on(daemon, fake):
    fake.put("no uuid", id="m-17")
    fake.put("torn", MD5OfBody="0" * 32)
    fake.put("bell\a")
    fake.put("no handle", ReceiptHandle="")
    bodies = numbered("m", 30)
    for body in bodies:
        fake.put(body)
    move(daemon, fake.url)
    check_once(drain(daemon, "here", 30), bodies)
    wait_until(lambda: len(fake.left()) == 4, 30, "that the others left")
    wait_until(lambda: "gives a message that can't be taken" in describe(daemon, "move").get("Warning", ""), 30)
    assert fake.left() == ["no uuid", "torn", "bell\a", "no handle"]


def text(value, kind="String"):
    return {"DataType": kind, "StringValue": value}


PARKED = {  # attributes that another SQS takes, and Tally does not
    "other names": {"Tally.Nonsense": text("x"), "own": text("kept")}, "priority": {"Tally.Priority": text("99")},
    "type": {"a": text("1", "int")}, "number": {"a": text("abc", "Number")}, "empty": {"a": text("")},
    "control": {"a": text("\x01")}, "long": {"n" * 300: text("x")}, "AWS": {"AWS.a": text("x")},
    "base64": {"a": {"DataType": "Binary", "BinaryValue": "###"}}, "many": {f"a{i}": text("x") for i in range(11)},
}
KEPT = {"group": {"Attributes": {"MessageGroupId": "g" * 200}}, "header": {"Attributes": {"AWSTraceHeader": "\x01"}},
        "large": {"Body": "y" * (2 << 20), "MD5OfBody": None}, "list": {"MessageAttributes": [1]},
        "name": {"MessageAttributes": {"a\0b": text("1"), "a\0c": text("2")}},
        "full": {"Body": "y" * (1 << 20), "MD5OfBody": None, "MessageAttributes": {"Tally.Nonsense": text("x")}}}


def test_a_message_that_can_be_none_here_holds_up_no_other(daemon, fake):
    for body, attributes in PARKED.items():
        fake.put(body, MessageAttributes=attributes)
    for body, more in KEPT.items():
        fake.put(body, **more)
    bodies = numbered("m", 30)
    for body in bodies:
        fake.put(body)
    move(daemon, fake.url)
    check_once(drain(daemon, "here", 30), bodies)
    wait_until(lambda: sorted(fake.left()) == sorted(KEPT), 30, "that the others left")
    wait_until(lambda: "and keeps it" in describe(daemon, "move").get("Warning", ""), 30)
    wait_for(daemon, "active", "move")
    parked = {doubt.body: doubt.attributes for doubt in drain(daemon, "move-parked", len(PARKED))}
    assert set(parked) == set(PARKED)
    assert all(json.loads(had["Relay.Attributes"]) == PARKED[body] for body, had in parked.items())
    assert "Tally.Nonsense" in parked["other names"]["Relay.Error"]


def test_an_answer_without_an_end_is_cut_off(daemon, fake):
    fake.put("m")
    fake.rules.append(lambda action, _: (200, b" " * (65 << 20), {}) if action == "ReceiveMessage" else None)
    move(daemon, fake.url)
    wait_for(daemon, "blocked", "move", error="the answer has more than 67108864 bytes")
    fake.rules.clear()
    check_once(drain(daemon, "here", 1), ["m"])


def test_no_more_messages_are_taken_than_were_asked_for(daemon, fake):
    bodies = numbered("m", 60)
    for body in bodies:
        fake.put(body)
    fake.rules.append(lambda action, body: body.update(MaxNumberOfMessages=25, VisibilityTimeout=0.2)
                      if action == "ReceiveMessage" else None)
    move(daemon, fake.url)
    check_once(drain(daemon, "here", 60), bodies)
    assert "gives more messages than it was asked for" in describe(daemon, "move")["Warning"]


def test_one_message_id_with_two_bodies_loses_neither(daemon, fake):
    same = "5f8d7a52-0000-4000-8000-00000000000a"
    fake.put("first", id=same)
    fake.put("second", id=same, ReceiptHandle=None)
    fake.messages[1]["more"] = {}
    move(daemon, fake.url)
    check_once(drain(daemon, "here", 2), ["first", "second"])
    wait_until(lambda: not fake.left(), 30, "an empty source")
    fake.put("third", id=same)  # long after
    check_once(drain(daemon, "here", 1), ["third"])


def test_a_fifo_source_that_gives_a_group_to_all_who_ask_at_once_is_asked_by_one(daemon, fake):
    """As emulators do."""
    bodies = numbered("a", 60)
    for body in bodies:
        fake.put(body, Attributes={"SentTimestamp": "1000", "ApproximateReceiveCount": "1", "MessageGroupId": "a"})

    def rule(action, body):
        if action != "ReceiveMessage":
            return None
        answer = fake.perform(action, body)
        if any(message["Body"] == "a-15" for message in answer.get("Messages", [])):
            time.sleep(0.5)  # what comes behind it would overtake it
        return 200, answer, {}

    fake.rules.append(rule)
    move(daemon, fake.url + ".fifo", "here.fifo")
    messages = drain(daemon, "here.fifo", 60)
    check_once(messages, bodies)
    check_order(messages)


# --- what fails -----------------------------------------------------------------------------------------------------


def shorten(action, body):
    """What is given out comes back after a second."""
    if action == "ReceiveMessage":
        body["VisibilityTimeout"] = 1


def test_messages_whose_delete_fails_come_again_and_arrive_once(daemon, fake):
    bodies = numbered("m", 30)
    for body in bodies:
        fake.put(body)
    failures = {body: 2 for body in bodies[:5]}

    def rule(action, body):
        shorten(action, body)
        if action != "DeleteMessageBatch":
            return None
        answer = {"Successful": [], "Failed": []}
        for entry in body["Entries"]:
            message, = [held for held in fake.messages if held["handle"] == entry["ReceiptHandle"]]
            if failures.get(message["body"], 0) > 0:
                failures[message["body"]] -= 1
                answer["Failed"].append(failed(entry, "InternalError", False))
            else:
                answer["Successful"].append(fake.perform(action, {"Entries": [entry]})["Successful"][0])
        return 200, answer, {}

    fake.rules.append(rule)
    move(daemon, fake.url)
    messages = drain(daemon, "here", 30)
    wait_until(lambda: "did not delete a message" in describe(daemon, "move").get("Warning", ""), 30)
    wait_until(lambda: not fake.left(), 30, "an empty source")
    check_once(messages + drain(daemon, "here"), bodies)
    assert fake.times[bodies[0]] >= 3 and describe(daemon, "move")["Duplicates"] >= 10


def test_what_is_in_hand_is_kept_from_others_while_the_sink_hangs(daemon, fake, daemon_factory):
    sink = daemon_factory().start()
    make_queue(sink, "here")
    bodies = numbered("m", 50)
    for body in bodies:  # years old, of which nobody is to be warned
        fake.put(body, Attributes={"SentTimestamp": "1000", "ApproximateReceiveCount": "7"})
    fake.rules.append(lambda action, body: body.update(VisibilityTimeout=3 * LEASE / 4)
                      if action == "ReceiveMessage" else None)
    relay = Relay(sink.endpoint, f"sqs:{fake.url}", "queue:here", "--lease", LEASE)
    sink.process.send_signal(19)
    try:
        relay.start()
        wait_until(lambda: fake.times.get(bodies[-1]), 30, "that all are in hand")
        time.sleep(LEASE)  # longer than what nobody puts off
        asked = {"MaxNumberOfMessages": 10, "WaitTimeSeconds": 0, "VisibilityTimeout": 0}
        assert fake.perform("ReceiveMessage", asked) == {} and set(fake.times.values()) == {1}
    finally:
        sink.process.send_signal(18)
    check_once(drain(sink, "here", 50), bodies)
    wait_until(lambda: not fake.left(), 30, "an empty source")
    relay.stop()


def test_a_lease_that_the_queue_does_not_renew_is_left_to_others(daemon, fake):
    """An old handle must not put off, nor end, the timeout of whoever has the message now."""
    asked = []

    def rule(action, body):
        if action != "ChangeMessageVisibilityBatch":
            return None
        asked.append(time.monotonic())
        return 200, {"Failed": [failed(one, "ReceiptHandleIsInvalid", True) for one in body["Entries"]]}, {}

    fake.rules.append(rule)
    fake.put("m")
    relay = Relay(daemon.endpoint, f"sqs:{fake.url}", "queue:here", "--lease", LEASE)
    relay.start()  # the queue is missing: it is in hand
    try:
        wait_until(lambda: asked, 30, "a first renewal")
        fake.messages[0]["visible_at"] = time.monotonic() + 3600  # somebody else has it
        time.sleep(LEASE)
        count = len(asked)
        time.sleep(LEASE / 2)
        assert len(asked) == count, asked
    finally:
        relay.stop()
    assert len(asked) == count, "nor does it give it back"


def test_messages_that_went_to_others_meanwhile_arrive_once(daemon, fake):
    """Visibility timeouts can't be put off, and sends take long: each is received by two relays, and again."""
    bodies = numbered("m", 60)
    for body in bodies:
        fake.put(body)
    fake.rules.append(lambda action, _: error(500, "InternalError") if action.startswith("Change") else None)
    fake.rules.append(lambda action, body: body.update(VisibilityTimeout=0.05) if "VisibilityTimeout" in body else None)
    make_queue(daemon, "here")
    move(daemon, fake.url, name="one")
    move(daemon, fake.url, name="two")
    wait_until(lambda: not fake.left(), 60, "an empty source")
    check_once(drain(daemon, "here", 60), bodies)


def test_a_relay_that_stops_gives_back_and_a_paused_one_goes_on_where_it_was(daemon, other):
    make_queue(other, "orders")
    send(other, "orders", numbered("a", 100))
    good(daemon, "CreateRelay", RelayName="move", Sink={"Type": "queue", "QueueUrl": "here"},
         Source={"Type": "sqs", "QueueUrl": url_of(other, "orders")})  # the queue is missing: all are in hand
    wait_for(daemon, "blocked", "move", error="QueueDoesNotExist")
    assert count_visible(other, "orders") < 100
    good(daemon, "PauseRelay", RelayName="move")
    wait_for(daemon, "paused", "move")
    make_queue(daemon, "here")
    send(other, "orders", numbered("b", 100))
    good(daemon, "ResumeRelay", RelayName="move")
    check_once(drain(daemon, "here", 200), numbered("a", 100) + numbered("b", 100))
    wait_until_moved(daemon, 200)
    good(daemon, "PauseRelay", RelayName="move")
    wait_for(daemon, "paused", "move")
    send(other, "orders", ["late"])
    good(daemon, "DeleteRelay", RelayName="move")
    wait_until(lambda: count_visible(other, "orders") == 1, 30, "that nobody holds it")


def test_a_message_that_the_queue_refuses_is_parked_and_resolved(daemon, other):
    make_queue(other, "orders")
    send(other, "orders", ["x" * 2000])
    send(other, "orders", numbered("m", 20))
    make_queue(daemon, "here", MaximumMessageSize="1024")
    move(daemon, url_of(other, "orders").replace("http://", "http://me:hidden@"))
    check_once(drain(daemon, "here", 20), numbered("m", 20))
    wait_until(lambda: describe(daemon, "move")["Parked"] == 1 and count_messages(other, "orders") == 0, 30)
    parked, = wait_until(lambda: good(daemon, "ListDoubts", RelayName="move")["Doubts"], 30)
    assert "must be shorter than 1024 bytes" in json.dumps(parked) and count_messages(daemon, "move-parked") == 1
    assert "hidden" not in json.dumps(parked) + json.dumps(describe(daemon, "move"))
    daemon.call("AmazonSQS.SetQueueAttributes", {"QueueUrl": "here", "Attributes": {"MaximumMessageSize": "4096"}})
    good(daemon, "ResolveDoubt", RelayName="move", Uid=parked["Uid"], Action="send")
    assert [message.body for message in drain(daemon, "here", 1)] == ["x" * 2000]
    wait_until(lambda: count_messages(daemon, "move-parked") == 0, 30)


def test_a_parked_message_keeps_the_uid_by_which_its_consumer_knows_it(daemon, other):
    make_queue(other, "orders")
    own = "5f8d7a52-0000-4000-8000-000000000001"
    send(other, "orders", ["x" * 2000], MessageAttributes={"Tally.OutboxId": text(own), "n": text("4", "Number")})
    make_queue(daemon, "here", MaximumMessageSize="1024")
    move(daemon, url_of(other, "orders"))
    parked, = wait_until(lambda: good(daemon, "ListDoubts", RelayName="move")["Doubts"], 30)
    daemon.call("AmazonSQS.SetQueueAttributes", {"QueueUrl": "here", "Attributes": {"MaximumMessageSize": "4096"}})
    good(daemon, "ResolveDoubt", RelayName="move", Uid=parked["Uid"], Action="send")
    message, = drain(daemon, "here", 1)
    assert message.raw_attributes == {"Tally.OutboxId": text(own), "n": text("4", "Number")}


def test_a_source_that_says_nothing_any_more_holds_up_no_stop(daemon, fake):
    bodies = numbered("m", 60)
    for body in bodies:
        fake.put(body)
    spoken = threading.Event()
    fake.rules.append(lambda action, _: spoken.wait(60) and None if action == "DeleteMessageBatch" else None)
    move(daemon, fake.url, source={"LeaseSeconds": 60})  # each request may take 15 s
    wait_until(lambda: fake.actions.count("DeleteMessageBatch") > 0, 30, "that messages have arrived and wait there")
    fake.rules.append(lambda *_: spoken.wait(60) and None)
    begun = time.monotonic()
    assert daemon.stop() == 0
    assert time.monotonic() - begun < 8 * PATIENCE
    fake.rules.clear()
    spoken.set()
    for message in fake.messages:
        message["visible_at"] = 0  # as after its timeout
    daemon.start()
    wait_until(lambda: not fake.left(), 30, "an empty source")
    check_once(drain(daemon, "here", 60), bodies)


def test_a_sink_that_says_nothing_any_more_holds_up_no_stop(daemon, daemon_factory):
    sink = FakeSqs()
    make_queue(daemon, "orders")
    send(daemon, "orders", numbered("m", 3))
    spoken = threading.Event()
    sink.rules.append(lambda request: spoken.wait(60) and None)
    good(daemon, "CreateRelay", RelayName="out", Source={"Type": "queue", "QueueUrl": "orders", "LeaseSeconds": 60},
         Sink={"Type": "sqs", "QueueUrl": f"{sink.endpoint}/000000000000/there"})
    try:
        wait_until(lambda: sink.requests, 30, "that it was asked")
        begun = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - begun < 8 * PATIENCE
        sink.rules.clear()
        spoken.set()
        daemon.start()
        wait_until(lambda: count_messages(daemon, "orders") == 0, 60)
        assert set(sink.bodies("there")) == set(numbered("m", 3))  # at least once: it remembers nothing
    finally:
        spoken.set()
        sink.stop()


def test_it_opens_no_more_files_and_sockets_than_are_kept_for_it(daemon, fake):
    for number in range(400):
        fake.put(f"m-{number}")
    make_queue(daemon, "here")
    before, most = len(os.listdir(f"/proc/{daemon.pid}/fd")), 0
    move(daemon, fake.url)
    while fake.left():
        most = max(most, len(os.listdir(f"/proc/{daemon.pid}/fd")))
        time.sleep(0.002)
    page = daemon.request("GET", "/metrics")[2].decode()
    kept, = [line.split()[1] for line in page.splitlines() if line.startswith("tally_descriptors_of_relays ")]
    assert 8 < most - before <= int(kept), (most, before, kept)


@pytest.mark.parametrize("is_fifo", [False, True], ids=["standard", "fifo"])
def test_everything_killed_at_random(tmp_path, is_fifo):
    from drain_campaign import FAULTS, run_campaign

    counted = run_campaign(tmp_path, MESSAGES, KILLS, 40, is_fifo, SEED)
    print(counted, "KILL_SEED", SEED)
    for fault in FAULTS:
        assert counted[fault] == 0, counted
    assert counted["messages"] == MESSAGES and sum(counted["kills"].values()) == KILLS
