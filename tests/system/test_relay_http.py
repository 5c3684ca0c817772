"""Relays to web hooks, and from queues: what the receiver counts through every kind of answer and through kills."""

import base64
import collections
import contextlib
import json
import random
import threading
import time

import pytest

from conftest import PATIENCE, wait_until
from relay import drain, install_outbox, wait_until_empty
from webhook import Receiver, is_genuine
from wire import scaled


@pytest.fixture
def receiver():
    running = Receiver().start()
    yield running
    running.stop()


def make_queue(daemon, name, **attributes):
    if name.endswith(".fifo"):
        attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true", **attributes}
    status, answer = daemon.call("AmazonSQS.CreateQueue", {"QueueName": name, "Attributes": attributes})
    assert status == 200, answer


def send(daemon, queue, body, **members):
    status, answer = daemon.call("AmazonSQS.SendMessage", {"QueueUrl": queue, "MessageBody": body, **members})
    assert status == 200, answer
    return answer["MessageId"]


def count(daemon, queue):
    """Messages of a queue, whatever they are at; 0 where there is none."""
    status, answer = daemon.call("AmazonSQS.GetQueueAttributes", {"QueueUrl": queue, "AttributeNames": ["All"]})
    if status != 200:
        assert "QueueDoesNotExist" in answer["__type"], answer
        return 0
    names = ("", "NotVisible", "Delayed")
    return sum(int(answer["Attributes"]["ApproximateNumberOfMessages" + name]) for name in names)


def wait_until_drained(daemon, queue, seconds=20):
    wait_until(lambda: count(daemon, queue) == 0, seconds, f"an empty {queue}")


def text(value):
    return {"DataType": "String", "StringValue": value}


def test_R43_a_row_is_posted_as_it_is_with_what_belongs_to_it(daemon, relays, receiver, tmp_path):
    """The body byte for byte, a key that is the MessageId or the uid, attributes as headers, and a signature that the receiver verifies."""
    key = random.randbytes(32)
    secret = tmp_path / "secret"
    secret.write_text("whsec_" + base64.b64encode(key).decode() + "\nan older secret as it is\n")
    make_queue(daemon, "hooks")
    uid = "0f0e0d0c-0b0a-4908-8706-050403020100"
    plain = send(daemon, "hooks", "Grüße,\nno JSON", MessageAttributes={"kind": text("greeting"), "evil": text("a\r\nb: c")})
    send(daemon, "hooks", '{"a": 1}', MessageGroupId="g7", MessageAttributes={"Tally.OutboxId": text(uid)})
    large = "x" * 1_000_000
    send(daemon, "hooks", large, MessageAttributes={"Content-Type": text("text/x-large")})
    relays("queue:hooks", receiver.url, "--secret-file", secret)
    wait_until_drained(daemon, "hooks")
    assert len(receiver.hits) == 3
    hits = {hit.body.decode()[:10]: hit for hit in receiver.hits}
    first, second, third = hits["Grüße,\nno "], hits['{"a": 1}'], hits["x" * 10]
    assert first.key == plain and first.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert first.headers["Tally-Attribute-kind"] == "greeting" and first.headers["Tally-Attribute-evil"] is None
    assert first.body.decode() == "Grüße,\nno JSON" and first.attempt == 1
    assert second.key == uid and second.group == "g7" and second.headers["Content-Type"] == "application/json"
    assert third.body.decode() == large and third.headers["Content-Type"] == "text/x-large"
    for hit in receiver.hits:
        assert hit.headers["webhook-id"] == hit.key
        assert is_genuine(key, hit.headers, hit.body) and is_genuine(b"an older secret as it is", hit.headers, hit.body)
        assert not is_genuine(key, hit.headers, hit.body + b" ") and not is_genuine(b"another", hit.headers, hit.body)


def test_R44_what_passes_is_tried_again_under_the_same_key(daemon, relays, receiver):
    """500s, a busy receiver that says how long, a connection that is closed, a receiver that is not there: one message each, in the end."""
    def answer(hit):
        body = hit.body.decode()
        if hit.nth > 2 or body == "ok":
            return 200, {}, b"y" * 300_000  # more than anybody reads of an answer
        return {"500": 500, "409": 409, "close": "close", "hang": "hang", "429": (429, {"Retry-After": "1"}, b"")}[body]

    receiver.answer = answer
    make_queue(daemon, "hooks")
    bodies = ["500", "409", "close", "hang", "429", "ok"]
    ids = {send(daemon, "hooks", body): body for body in bodies}
    receiver.stop()
    receiver.released.clear()
    relay = relays("queue:hooks", receiver.url, "--timeout", 1)
    relay.wait_for("blocked: can't reach the receiver")
    receiver.start()
    wait_until_drained(daemon, "hooks")
    assert receiver.counts() == {key: 1 if body == "ok" else 3 for key, body in ids.items()}
    for key, body in ids.items():
        hits = [hit for hit in receiver.hits if hit.key == key]
        assert [hit.attempt for hit in hits] == sorted({hit.attempt for hit in hits}), hits
        assert hits[0].headers["Tally-Maybe-Duplicate"] is None
        if body == "429":
            assert all(later.at - earlier.at > 0.95 for earlier, later in zip(hits, hits[1:]))
        elif body != "ok":
            assert hits[1].headers["Tally-Maybe-Duplicate"] == "1"


def parked(daemon, name="relay-parked"):
    if count(daemon, name) == 0:
        return []
    wait_until(lambda: visible(daemon, name) == count(daemon, name), what="an end of every look at what is parked")
    return drain(daemon, name)


def visible(daemon, queue):
    _, answer = daemon.call("AmazonSQS.GetQueueAttributes", {"QueueUrl": queue, "AttributeNames": ["All"]})
    return int(answer["Attributes"]["ApproximateNumberOfMessages"])


def test_R18_what_the_receiver_refuses_is_parked_alone(daemon, relays, receiver):
    """4xx and redirects, which are not followed: parked with the reason, attributes kept; the others of the group go on."""
    def answer(hit):
        body = hit.body.decode()
        if body.startswith("bad"):
            return 400, {}, b"this is \x1b[1mbad\n" + b"z" * 500
        return (302, {"Location": receiver.url + "/elsewhere"}, b"") if body.startswith("moved") else 200

    receiver.answer = answer
    make_queue(daemon, "hooks.fifo")
    bodies = ["ok-1", "bad-2", "ok-3", "moved-4", "ok-5"]
    attributes = {f"a{i}": text(str(i)) for i in range(8)}
    for body in bodies:
        send(daemon, "hooks.fifo", body, MessageGroupId="g", MessageAttributes=attributes)
    relay = relays("queue:hooks.fifo", receiver.url)
    wait_until_drained(daemon, "hooks.fifo")
    assert receiver.bodies() == bodies
    assert all(hit.path == "/hook" for hit in receiver.hits)
    relay.stop()
    found = {message.body: message for message in parked(daemon)}
    assert sorted(found) == ["bad-2", "moved-4"]
    assert found["bad-2"].attributes["Relay.Error"].startswith("the receiver answered 400: this is  [1mbad zzz")
    assert "redirects are not followed" in found["moved-4"].attributes["Relay.Error"]
    for message in found.values():
        assert "Relay.Doubt" not in message.attributes and message.group == "g"
        assert json.loads(message.attributes["Relay.Attributes"]) == attributes
        assert message.uid in receiver.counts()


def test_R20_a_slow_group_keeps_its_order_and_no_other_waiting(daemon, relays, receiver):
    """One group's receiver fails, another's hangs: their later messages do not pass, and all other groups go on meanwhile."""
    slow_is_over = threading.Event()

    def answer(hit):
        if hit.body == b"slow-0" and not slow_is_over.is_set():
            slow_is_over.wait(20)
        return 500 if hit.body == b"failing-0" and not slow_is_over.is_set() else 200

    receiver.answer = answer
    make_queue(daemon, "hooks.fifo")
    for i in range(4):
        for group in ("slow", "failing", *(f"g{n}" for n in range(20))):
            send(daemon, "hooks.fifo", f"{group}-{i}", MessageGroupId=group)
    relays("queue:hooks.fifo", receiver.url)
    others = {f"g{n}-{i}" for n in range(20) for i in range(4)}
    wait_until(lambda: others <= set(receiver.bodies()), what="the end of the others")
    assert not {"slow-1", "failing-1"} & set(receiver.bodies())
    slow_is_over.set()
    wait_until_drained(daemon, "hooks.fifo")
    seen = collections.defaultdict(list)
    for hit in receiver.hits:
        if hit.answered == 200:
            seen[hit.group].append(int(hit.body.decode().split("-")[1]))
    assert len(seen) == 22 and all(numbers == [0, 1, 2, 3] for numbers in seen.values()), seen
    assert sum(body == "slow-0" for body in receiver.bodies()) == 1
