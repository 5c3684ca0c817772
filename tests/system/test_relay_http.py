"""Relays to web hooks, and from queues: what the receiver counts through every kind of answer and through kills."""

import base64
import collections
import contextlib
import email.utils
import json
import os
import random
import re
import signal
import threading
import time

import psycopg2
import pytest

from background import Background
from certificates import Certificate
from conftest import PATIENCE, wait_until
from queues import count_messages, count_visible, make_queue
from relay import check_once, check_order, drain
from webhook import Receiver, is_genuine
from wire import Connection, Lost, scaled


def send(daemon, queue, body, **members):
    status, answer = daemon.call("AmazonSQS.SendMessage", {"QueueUrl": queue, "MessageBody": body, **members})
    assert status == 200, answer
    return answer["MessageId"]


def wait_until_drained(daemon, queue, seconds=20):
    wait_until(lambda: count_messages(daemon, queue) == 0, seconds, f"an empty {queue}")


def text(value):
    return {"DataType": "String", "StringValue": value}


TRACE = {"traceparent": text("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), "tracestate": text("rojo=1"),
         "baggage": text("user=17")}


def test_a_message_is_posted_as_it_is_with_what_belongs_to_it(daemon, relays, receiver, tmp_path):
    """The body byte for byte, a key that is the MessageId or the uid, attributes as headers, and a signature that the
    receiver verifies."""
    key = random.randbytes(32)
    secret = tmp_path / "secret"
    secret.write_text("whsec_" + base64.b64encode(key).decode() + "\nan older secret as it is\n")
    make_queue(daemon, "hooks")
    uid = "0f0e0d0c-0b0a-4908-8706-050403020100"
    plain = send(daemon, "hooks", "Grüße,\nno JSON",
                 MessageAttributes={"kind": text("greeting"), "evil": text("a\r\nb: c"), **TRACE})
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
    assert {name: first.headers[name] for name in TRACE} == {name: TRACE[name]["StringValue"] for name in TRACE}
    assert first.body.decode() == "Grüße,\nno JSON" and first.attempt == 1
    assert second.key == uid and second.group == "g7" and second.headers["Content-Type"] == "application/json"
    assert third.body.decode() == large and third.headers["Content-Type"] == "text/x-large"
    for hit in receiver.hits:
        assert hit.headers["webhook-id"] == hit.key
        assert is_genuine(key, hit.headers, hit.body) and is_genuine(b"an older secret as it is", hit.headers, hit.body)
        assert not is_genuine(key, hit.headers, hit.body + b" ") and not is_genuine(b"another", hit.headers, hit.body)


def test_R44_what_passes_is_tried_again_under_the_same_key(daemon, relays, receiver):
    """500s, a busy receiver that says how long, a connection that is closed, a receiver that is not there: one message
    each, in the end."""
    def answer(hit):
        body = hit.body.decode()
        if hit.nth > 2 or body == "ok":
            return 200, {}, b"y" * 300_000  # more than anybody reads of an answer
        date = email.utils.formatdate(time.time() + 2, usegmt=True)  # in whole seconds
        return {"500": 500, "409": 409, "close": "close", "hang": "hang", "429": (429, {"Retry-After": "1"}, b""),
                "503": (503, {"Retry-After": date}, b"")}[body]

    receiver.answer = answer
    make_queue(daemon, "hooks")
    bodies = ["500", "409", "close", "hang", "429", "503", "ok"]
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
        if body in ("429", "503"):
            assert all(later.at - earlier.at > 0.95 for earlier, later in zip(hits, hits[1:]))
        if body not in ("429", "ok"):
            assert hits[1].headers["Tally-Maybe-Duplicate"] == "1"


@pytest.mark.parametrize("mode", ["at-least-once", "at-most-once"])
def test_a_receiver_that_nobody_vouches_for_gets_nothing(daemon, relays, receiver, tmp_path, mode):
    """A certificate of no authority that the system trusts: no byte of a message leaves, the relay says why, and
    nothing is lost."""
    receiver.stop()
    receiver.start(Certificate(tmp_path))
    make_queue(daemon, "hooks")
    send(daemon, "hooks", "secret")
    relay = relays("queue:hooks", receiver.url, "--mode", mode)
    assert "certificate" in relay.wait_for("blocked: can't reach the receiver")
    relay.stop()
    assert receiver.hits == [] and count_messages(daemon, "hooks") == 1 and count_messages(daemon, "relay-parked") == 0


def parked(daemon, name="relay-parked"):
    if count_messages(daemon, name) == 0:
        return []
    wait_until(lambda: count_visible(daemon, name) == count_messages(daemon, name),
               what="an end of every look at what is parked")
    return drain(daemon, name)


def test_R18_what_the_receiver_refuses_is_parked_alone(daemon, relays, receiver):
    """An answer that speaks of this message: parked with the reason, attributes kept; the others of the group go on."""
    statuses = {"bad-2": 400, "bad-4": 413, "bad-6": 415, "bad-8": 422, "bad-10": 431}

    def answer(hit):
        status = statuses.get(hit.body.decode())
        return 200 if status is None else (status, {}, b"this is \x1b[1mbad\n" + b"z" * 500)

    receiver.answer = answer
    make_queue(daemon, "hooks.fifo", ContentBasedDeduplication="true")
    bodies = [f"bad-{i}" if f"bad-{i}" in statuses else f"ok-{i}" for i in range(12)]
    attributes = {body: {f"a{i}": text(str(i)) for i in range(7 if body == "bad-4" else 8)} | TRACE for body in bodies}
    for body in bodies:
        send(daemon, "hooks.fifo", body, MessageGroupId="g", MessageAttributes=attributes[body])
    relay = relays("queue:hooks.fifo", receiver.url)
    wait_until_drained(daemon, "hooks.fifo")
    assert receiver.bodies() == bodies
    relay.stop()
    found = {message.body: message for message in parked(daemon)}
    assert sorted(found) == sorted(statuses)
    for body, message in found.items():
        assert message.attributes["Relay.Error"].startswith(
            f"the receiver answered {statuses[body]}: this is  [1mbad zzz")
        assert "Relay.Doubt" not in message.attributes and message.group == "g"
        assert message.attributes["Relay.Source"] == "hooks.fifo"
        packed = message.attributes.get("Relay.Attributes")
        assert (packed is None) == (body == "bad-4")  # its seven have room beside those of the relay
        assert attributes[body].items() <= (json.loads(packed) if packed else message.raw_attributes).items()
        assert message.uid in receiver.counts()


# What speaks of the address or of a right, and what the relay advises. The unit test of webhook_answer.c has all of
# them.
WRONG_ADDRESS = {
    "at-least-once": {404: "is the address of the sink right?", 301: "redirects are not followed"},
    "at-most-once": {410: "it wants no more", 401: "address or the secret"},
}


@pytest.mark.parametrize("mode", WRONG_ADDRESS)
def test_P14_a_wrong_address_parks_nothing_and_is_asked_by_one_request(daemon, relays, receiver, mode):
    """It blocks the sink and says why. No row pays for it, however many there are and however often it is tried; when
    the address is right each has one effect."""
    status = next(iter(WRONG_ADDRESS[mode]))
    receiver.answer = lambda hit: (status, {"Location": receiver.url + "/elsewhere"}, b"not here") if status else 200
    make_queue(daemon, "hooks.fifo", ContentBasedDeduplication="true")
    bodies = [f"{group}-{i}" for i in range(5) for group in "abcdefghijkl"]
    ids = {body: send(daemon, "hooks.fifo", body, MessageGroupId=body[0]) for body in bodies}
    relay = relays("queue:hooks.fifo", receiver.url, "--mode", mode)
    for status, advice in WRONG_ADDRESS[mode].items():
        line = relay.wait_for(f"blocked: the receiver answered {status}")
        assert advice in line and "not here" in line
    assert count_messages(daemon, "hooks.fifo") == len(bodies) and count_messages(daemon, "relay-parked") == 0
    wrong = list(receiver.hits)
    assert all(hit.path == "/hook" for hit in wrong)
    assert len(wrong) < 16 + 20, "one request at a time, but for those that were under way when it was found out"
    assert all(hit.headers["Tally-Maybe-Duplicate"] is None for hit in wrong), "nothing was done"
    status = None
    wait_until_drained(daemon, "hooks.fifo")
    relay.wait_for("active")
    done = [hit for hit in receiver.hits if hit.answered == 200]
    assert collections.Counter(hit.key for hit in done) == {key: 1 for key in ids.values()}
    for group in "abcdefghijkl":
        assert [hit.body.decode() for hit in done if hit.group == group] == [f"{group}-{i}" for i in range(5)]
    assert count_messages(daemon, "relay-parked") == 0


def test_P14_a_wrong_address_parks_no_row_of_a_database(outbox, relays, receiver):
    """At most once, where rows are noted before they are sent: an answer that turns a row away leaves no doubt. And a
    second relay, whose address is right, gets its turn."""
    bodies = [f"m-{i}" for i in range(40)]
    outbox.sql("SELECT tally.send('q', b) FROM unnest(%s) b", bodies)
    wrong = relays(outbox.uri, receiver.url, "--lease", 1, "--mode", "at-most-once", name="wrong")
    receiver.answer = lambda hit: 404
    wrong.wait_for("blocked: the receiver answered 404")
    assert outbox.count() == 40
    other = Receiver().start()
    with contextlib.ExitStack() as ends:
        ends.callback(other.stop)
        relays(outbox.uri, other.url, "--lease", 1, "--mode", "at-most-once", name="right")
        outbox.wait_until_empty(40)
        assert sorted(other.bodies()) == sorted(bodies)
    assert outbox.sql("SELECT * FROM tally.dead") == []


def test_P14_at_most_once_an_outage_costs_a_few_rows_and_not_all(daemon, relays, receiver):
    """A row that was answered with 500 is not sent again, for it may have been done. But the relay pauses, longer each
    time: while the receiver is in trouble a few rows are put aside, and the rest arrives when it is well."""
    is_well = False
    receiver.answer = lambda hit: 200 if is_well else 503
    make_queue(daemon, "hooks")
    ids = [send(daemon, "hooks", f"m-{i}") for i in range(200)]
    relay = relays("queue:hooks", receiver.url, "--mode", "at-most-once")
    relay.wait_for("blocked: the receiver answered 503")
    time.sleep(2 * PATIENCE)
    is_well = True
    wait_until_drained(daemon, "hooks", 40)
    relay.stop()
    found = {message.uid for message in parked(daemon)}
    assert 0 < len(found) < 40
    assert set(receiver.counts().values()) == {1} and set(receiver.counts()) == set(ids)
    assert found == {hit.key for hit in receiver.hits if hit.answered == 503}


def test_R20_a_slow_group_keeps_its_order_and_no_other_waiting(daemon, relays, receiver):
    """One group's receiver fails, another's hangs: their later messages do not pass, and all other groups go on
    meanwhile."""
    slow_is_over = threading.Event()

    def answer(hit):
        if hit.body == b"slow-0" and not slow_is_over.is_set():
            slow_is_over.wait(20)
        return 500 if hit.body == b"failing-0" and not slow_is_over.is_set() else 200

    receiver.answer = answer
    make_queue(daemon, "hooks.fifo", ContentBasedDeduplication="true")
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


def test_R20_a_slow_receiver_gets_each_of_many_rows_once(daemon, relays, receiver):
    """Each answer takes longer than the relay waits for it, and more rows wait than go out at once: no answer is lost
    or waited for in vain."""
    running, most = set(), 0

    def answer(hit):
        nonlocal most
        with receiver.mutex:
            running.add(hit)
            most = max(most, len(running))
        time.sleep(0.15)
        with receiver.mutex:
            running.remove(hit)
        return 200

    receiver.answer = answer
    make_queue(daemon, "hooks")
    ids = [send(daemon, "hooks", f"m-{i}") for i in range(100)]
    relays("queue:hooks", receiver.url)
    wait_until_drained(daemon, "hooks", 10)
    assert receiver.counts() == {key: 1 for key in ids}
    assert all(hit.attempt == 1 and hit.headers["Tally-Maybe-Duplicate"] is None for hit in receiver.hits)
    assert most <= 16
    took = receiver.hits[-1].at - receiver.hits[0].at
    print(f"{len(ids)} rows in {took:.2f} s, {most} at once")
    assert took < 4 * PATIENCE  # seven rounds of 16 take 1.05 s, and one after the other 15 s


def test_R14_later_answers_settle_none_but_their_own_rows(outbox, relays, receiver):
    """Sixteen requests at once, of which the first three get no answer while all others do; then the relay is
    killed."""
    held = set()

    def answer(hit):
        with receiver.mutex:
            if len(held) < 3:
                held.add(hit.key)
        if hit.key in held:
            return "hang"
        wait_until(lambda: len(receiver.hits) >= 16, what="sixteen requests at once")
        return 200

    receiver.answer = answer
    uids = [str(uid) for uid in outbox.send_all("hook", [f"m-{i}" for i in range(60)])]
    relay = relays(outbox.uri, receiver.url, "--lease", 1, "--timeout", 30)
    wait_until(lambda: outbox.count() == 3, what="that the others have left the outbox")
    relay.kill9()
    kept = {uid for uid, in outbox.sql("SELECT uid::text FROM tally.outbox")}
    noted = {uid for uid, in outbox.sql("SELECT unnest(uids)::text FROM tally.intent")}
    assert kept == held <= noted and outbox.dead() == []
    assert receiver.counts() == {uid: 1 for uid in uids}
    receiver.answer = lambda hit: 200
    relays(outbox.uri, receiver.url, "--lease", 1)
    outbox.wait_until_empty()
    assert receiver.counts() == {uid: 2 if uid in held else 1 for uid in uids}
    assert {hit.key for hit in receiver.hits if hit.headers["Tally-Maybe-Duplicate"] == "1"} == held


@pytest.mark.parametrize("kind", ["nobody listens", "503"])
def test_R19_behind_an_outage_one_request_asks_before_the_others_come(outbox, relays, receiver, kind):
    """And of a backlog of 2,000 rows there are never more than 16 requests open."""
    is_out, under_way, most, beside_first = True, set(), 0, None

    def answer(hit):
        nonlocal most, beside_first
        with receiver.mutex:
            was_out, is_first = is_out, not is_out and beside_first is None
            if is_first:
                beside_first, before = -1, len(receiver.hits)
            under_way.add(hit)
            most = max(most, len(under_way))
        # the first: longer than the relay waits before it looks for other rows
        time.sleep(0.5 * PATIENCE if is_first else 0.02)
        if is_first:
            beside_first = len(receiver.hits) - before
        with receiver.mutex:
            under_way.remove(hit)
        return 503 if was_out else 200

    receiver.answer = answer
    if kind == "nobody listens":
        receiver.stop()
    outbox.fill("hook", 2000, groups=0)
    relay = relays(outbox.uri, receiver.url, "--lease", 30)  # so long that nobody takes over, who would send again
    relay.wait_for("blocked")
    time.sleep(2 * PATIENCE)
    assert outbox.count() == 2000 and outbox.dead() == []
    assert len(receiver.hits) < 16 + 20, (
        "one request at a time, but for those that were under way when it was found out")
    is_out = False
    if kind == "nobody listens":
        receiver.start()
    outbox.wait_until_empty(40)
    assert beside_first == 0 and 8 < most <= 16
    done = collections.Counter(hit.body.decode() for hit in receiver.hits if hit.answered == 200)
    assert done == {body: 1 for body in outbox.bodies(2000)}
    assert outbox.dead() == []
    relay.wait_for("active, epoch 1")
    relay.stop()


# --- at most once -----------------------------------------------------------------------------------------------------


def test_R44_at_most_once_what_was_never_sent_is_tried_again(daemon, relays, receiver):
    """While nobody listens no request leaves, so nothing is in doubt: each message arrives once when the receiver is
    there."""
    receiver.stop()
    make_queue(daemon, "hooks")
    ids = [send(daemon, "hooks", f"m-{i}") for i in range(5)]
    relay = relays("queue:hooks", receiver.url, "--mode", "at-most-once")
    relay.wait_for("blocked: can't reach the receiver")
    receiver.start()
    wait_until_drained(daemon, "hooks")
    assert receiver.counts() == {key: 1 for key in ids}
    assert count_messages(daemon, "relay-parked") == 0


def test_R12_at_most_once_a_lost_answer_is_listed_and_never_repeated(daemon, relays, receiver):
    """One request for each message that may have been done: no answer puts it aside as in doubt, a 500 as refused. What
    was turned away with 429 was not done, and comes again."""
    def answer(hit):
        if hit.body == b"429-0" and hit.nth == 1:
            return 429, {"Retry-After": "1"}, b""
        return {b"hang-0": "hang", b"close-0": "close", b"500-0": 500}.get(hit.body, 200)

    receiver.answer = answer
    make_queue(daemon, "hooks.fifo", ContentBasedDeduplication="true")
    kinds = ("hang", "close", "500", "429", "ok")
    for number in range(2):
        for kind in kinds:
            send(daemon, "hooks.fifo", f"{kind}-{number}", MessageGroupId=kind)
    relay = relays("queue:hooks.fifo", receiver.url, "--mode", "at-most-once", "--timeout", 1)
    wait_until_drained(daemon, "hooks.fifo")
    assert collections.Counter(receiver.bodies()) == {
        f"{kind}-{number}": 2 if (kind, number) == ("429", 0) else 1 for number in range(2) for kind in kinds}
    assert [hit.body for hit in receiver.hits if hit.group == "429"] == [b"429-0", b"429-0", b"429-1"]
    relay.stop()
    found = {message.body: message.attributes for message in parked(daemon)}
    assert {body: "Relay.Doubt" in attributes for body, attributes in found.items()} == {
        "hang-0": True, "close-0": True, "500-0": False}
    assert "no answer came" in found["hang-0"]["Relay.Error"]


# --- problem 1: many finish a batch in the same millisecond, and one effect comes of it -------------------------------

UNITS = 100
FINISHERS = 20


class Chaos(Background):
    """Kills, one after the other and at random, relays and the daemon, and starts them again; until the end of the
    block."""

    def __init__(self, daemon, relays, seconds=(0.05, 0.4)):
        super().__init__()
        self.daemon = daemon
        self.relays = relays
        self.seconds = seconds
        self.random = random.Random(7)
        self.kills = collections.Counter()

    def run(self):
        while not self.is_over.wait(self.random.uniform(*self.seconds) * PATIENCE):
            if self.random.random() < 0.25:
                self.daemon.kill9()
                self.daemon.start()
                self.kills["daemon"] += 1
            else:
                victim = self.random.choice(self.relays)
                victim.kill9()
                victim.start()
                self.kills["relay"] += 1

    def count(self):
        return sum(self.kills.values())


def insist(connection, target, body):
    """An action that may be repeated, until it is answered."""
    deadline = time.monotonic() + 30 * PATIENCE
    while True:
        try:
            return connection.ok(target, body)
        except Lost:
            assert time.monotonic() < deadline, f"no answer to {target}"
            time.sleep(0.02)


def finish_batches(daemon, names):
    """Each batch of UNITS units is finished by FINISHERS threads at the same moment; returns its completion message's
    id for each."""
    barrier = threading.Barrier(FINISHERS)
    failures = []

    def finish(part):
        with contextlib.closing(Connection(daemon.port)) as connection:
            try:
                for name in names:
                    units = [{"Unit": str(i)} for i in range(part, UNITS, FINISHERS)]
                    barrier.wait(60 * PATIENCE)
                    insist(connection, "Tally.CompleteUnits", {"BatchId": name, "Units": units})
            except Exception as error:  # the others must not wait for ever
                failures.append(error)
                barrier.abort()

    with contextlib.closing(Connection(daemon.port)) as connection:
        for name in names:
            insist(connection, "Tally.CreateBatch", {"BatchId": name, "OnComplete": {"QueueUrl": "done"}})
            insist(connection, "Tally.AddUnits", {"BatchId": name, "Count": UNITS})
            insist(connection, "Tally.SealBatch", {"BatchId": name})
        threads = [threading.Thread(target=finish, args=(part,)) for part in range(FINISHERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures
        return {
            name: insist(connection, "Tally.DescribeBatch", {"BatchId": name})["CompletionMessageId"] for name in names}


def finish_batches_until(daemon, is_enough):
    """A few batches at a time, until it is enough."""
    ids = {}
    while not is_enough():
        ids |= finish_batches(daemon, [f"batch-{len(ids) + i}" for i in range(4)])
    return ids


def unreliable(seed):
    """A receiver that now and then fails, is slow, or never answers what it took; the third time it does as it
    should."""
    chance = random.Random(seed)

    def answer(hit):
        draw = chance.random()
        if hit.nth > 2:
            return 200
        if draw < 0.1:
            return 500
        if draw < 0.25:
            return "close"
        time.sleep(0.1 if draw < 0.4 else 0)
        return 200

    return answer


def test_a_batch_finished_by_many_at_once_has_one_effect_outside(daemon, relays, receiver):
    """100 units end in the same moment, relays and daemon are killed meanwhile: a receiver that knows keys has one
    effect for each batch."""
    make_queue(daemon, "done")
    receiver.answer = unreliable(1)
    running = [relays("queue:done", receiver.url, "--lease", 2, name=f"r{i}") for i in range(2)]
    with Chaos(daemon, running) as chaos:
        ids = finish_batches_until(daemon, lambda: chaos.count() >= scaled(8))
    wait_until_drained(daemon, "done", 30)
    effects = {hit.key: json.loads(hit.body) for hit in receiver.hits}  # what a receiver that knows keys does once
    assert {key: body["batch"] for key, body in effects.items()} == {key: name for name, key in ids.items()}
    assert all(body["succeeded"] == UNITS for body in effects.values())
    assert all(any(hit.answered == 200 for hit in receiver.hits if hit.key == key) for key in effects)
    print(f"{len(receiver.hits)} requests for {len(ids)} batches, kills: {dict(chaos.kills)}")


def test_a_batch_finished_by_many_at_once_is_told_at_most_once(daemon, relays, receiver):
    """The same, and a receiver that knows no keys: never two requests, and each batch is either answered for or
    listed."""
    make_queue(daemon, "done")
    receiver.answer = unreliable(2)
    running = [relays("queue:done", receiver.url, "--lease", 2, "--mode", "at-most-once", name="once")
               for i in range(2)]
    with Chaos(daemon, running) as chaos:
        ids = finish_batches_until(daemon, lambda: chaos.count() >= scaled(8))
    wait_until_drained(daemon, "done", 30)
    for relay in running:
        relay.stop()
    counts = receiver.counts()
    assert set(counts.values()) <= {1}, counts
    listed = {message.uid: message for message in parked(daemon, "once-parked")}
    answered = {hit.key: hit.answered for hit in receiver.hits}
    for name, key in ids.items():
        if answered.get(key) != 200:
            assert key in listed, f"{name}: {answered.get(key)}, and nobody says so"
        if key in listed and answered.get(key) is None:
            assert "Relay.Doubt" in listed[key].attributes, name
    assert set(listed) <= set(ids.values())
    print(f"{len(receiver.hits)} requests for {len(ids)} batches, {len(listed)} listed, kills: {dict(chaos.kills)}")


# --- from queue to queue ----------------------------------------------------------------------------------------------


def test_R12_a_queue_is_forwarded_exactly_once_and_in_order(daemon, relays):
    """Two relays at once move the messages of 10 groups to another queue, through kills of both and of the daemon."""
    make_queue(daemon, "from.fifo", ContentBasedDeduplication="true")
    make_queue(daemon, "to.fifo")
    full = {f"a{i}": text(str(i)) for i in range(9)} | TRACE
    ids = {}
    running = [relays("queue:from.fifo", "queue:to.fifo", "--lease", 2, name=f"r{i}") for i in range(2)]
    with Chaos(daemon, running, (0.1, 0.5)) as chaos, contextlib.closing(Connection(daemon.port)) as connection:
        while chaos.count() < scaled(6):
            body = f"{len(ids) % 10}-{len(ids)}"
            ids[body] = insist(connection, "AmazonSQS.SendMessage", {
                "QueueUrl": "from.fifo", "MessageBody": body, "MessageGroupId": body[0], "MessageDeduplicationId": body,
                "MessageAttributes": {"n": text(body), **full}})["MessageId"]
    print(f"{len(ids)} messages, kills: {dict(chaos.kills)}")
    wait_until_drained(daemon, "from.fifo", 30)
    messages = drain(daemon, "to.fifo", len(ids))
    check_once(messages, ids)
    check_order(messages)
    assert {message.body: message.uid for message in messages} == ids
    assert all(message.attributes["n"] == message.body for message in messages)
    assert all(full.items() <= message.raw_attributes.items() for message in messages)


def test_a_message_that_came_again_is_forwarded_all_the_same(daemon, relays):
    """The daemon hangs for longer than the relay's visibility timeout, so that handles in hand are too old when it goes
    on: their Commits are refused, and the messages come again."""
    make_queue(daemon, "from.fifo", ContentBasedDeduplication="true")
    make_queue(daemon, "to.fifo")
    ids = {}
    with contextlib.closing(Connection(daemon.port)) as connection:
        for i in range(1200):
            body = f"{i % 10}-{i}"
            ids[body] = insist(connection, "AmazonSQS.SendMessage", {
                "QueueUrl": "from.fifo", "MessageBody": body, "MessageGroupId": body[0],
                "MessageDeduplicationId": body})["MessageId"]
    relays("queue:from.fifo", "queue:to.fifo", "--lease", 1)
    for least in (1, 300, 600):
        wait_until(lambda: count_messages(daemon, "to.fifo") >= least, what="some of the messages")
        os.kill(daemon.pid, signal.SIGSTOP)
        time.sleep(2.2)
        os.kill(daemon.pid, signal.SIGCONT)
    wait_until_drained(daemon, "from.fifo", 30)
    messages = drain(daemon, "to.fifo", len(ids))
    check_once(messages, ids)
    check_order(messages)


def test_a_relay_that_was_stopped_for_longer_than_its_lease_leaves_what_others_have_since(daemon, relays, receiver):
    """Its handles are older ones then: neither its heartbeats nor what it gives back at its end touch the lease of the
    newest."""
    receiver.answer = lambda hit: 503
    make_queue(daemon, "hooks")
    send(daemon, "hooks", "x")
    relay = relays("queue:hooks", receiver.url, "--lease", 2)
    wait_until(lambda: receiver.hits, what="the first attempt")
    relay.freeze()
    taken = {"QueueUrl": "hooks", "VisibilityTimeout": 600, "WaitTimeSeconds": 20}
    (message,) = daemon.call("AmazonSQS.ReceiveMessage", taken)[1]["Messages"]
    relay.thaw()
    time.sleep(1.5)  # several heartbeats
    relay.stop()
    time.sleep(2.5)
    assert count_visible(daemon, "hooks") == 0
    assert b"tally_stale_receipts_total 0" in daemon.request("GET", "/metrics")[2]
    daemon.call("AmazonSQS.DeleteMessage", {"QueueUrl": "hooks", "ReceiptHandle": message["ReceiptHandle"]})
    assert count_messages(daemon, "hooks") == 0


def test_P14_from_queue_to_queue_only_the_fault_of_a_message_parks_it(daemon, relays):
    """Too large for the sink's queue: parked alone, and its group goes on. The queue is missing: all wait, none is
    parked."""
    make_queue(daemon, "from.fifo", ContentBasedDeduplication="true")
    make_queue(daemon, "to.fifo", MaximumMessageSize="2000")
    bodies = [f"g-{i}" if i % 4 != 1 else "x" * 3000 + f"-{i}" for i in range(12)]
    for body in bodies:
        send(daemon, "from.fifo", body, MessageGroupId="g")
    relay = relays("queue:from.fifo", "queue:to.fifo")
    wait_until_drained(daemon, "from.fifo")
    messages = drain(daemon, "to.fifo", 9)
    check_once(messages, [body for body in bodies if body[0] == "g"])
    check_order(messages)
    daemon.call("AmazonSQS.DeleteQueue", {"QueueUrl": "to.fifo"})
    waiting = [f"later-{i}" for i in range(30)]
    for body in waiting:
        send(daemon, "from.fifo", body, MessageGroupId="h")
    assert "QueueDoesNotExist" in relay.wait_for("blocked")
    make_queue(daemon, "to.fifo")
    check_once(drain(daemon, "to.fifo", 30), waiting)
    relay.wait_for("active")
    relay.stop()
    found = {message.body[-2:].strip("-"): message.attributes["Relay.Error"] for message in parked(daemon)}
    assert sorted(found) == ["1", "5",
                             "9"] and all("InvalidParameterValue" in reason for reason in found.values()), found


# Answers that speak of rights, of the way to the server, or of nothing that anybody knows.
NOT_OF_THE_ROW = {
    "no right": (403, b'{"__type": "com.amazon.coral.service#AccessDeniedException", "message": "Access is denied."}'),
    "a wrong key": (
        403, b'{"__type": "com.amazon.coral.service#InvalidSignatureException", "message": "The signature is wrong."}'),
    "an older server": (
        400,
        b'{"__type": "com.amazon.coral.service#UnknownOperationException", "message": "The action is not known."}'),
    "too busy": (400, b'{"__type": "com.amazonaws.sqs#OverLimit", "message": "Too much."}'),
    "a proxy": (404, b"<html>there is nothing here</html>"),
    "200 that is none": (200, b"{}"),
    "200 that is no JSON": (200, b"<html>log in first</html>"),
}


@pytest.mark.parametrize("kind", NOT_OF_THE_ROW)
def test_P14_what_is_not_of_a_message_blocks_the_queue_and_parks_none(daemon, relays, http_proxy, kind):
    """Nor does a 200 count as delivered that is no answer of a Tally."""
    make_queue(daemon, "from")
    make_queue(daemon, "to")
    bodies = [f"m-{i}" for i in range(30)]
    for body in bodies:
        send(daemon, "from", body)
    http_proxy.answer = lambda target, body: NOT_OF_THE_ROW[kind] if target == "Tally.Commit" else None
    relay = relays("queue:from", "queue:to", "--endpoint", http_proxy.endpoint)
    relay.wait_for("blocked")
    wait_until(lambda: len(http_proxy.answered) >= 4, what="some tries")
    assert (count_messages(daemon, "from") == 30 and count_messages(daemon, "to") == 0
            and count_messages(daemon, "relay-parked") == 0)
    http_proxy.answer = None
    check_once(drain(daemon, "to", 30), bodies)
    wait_until_drained(daemon, "from")
    relay.wait_for("active")
    assert count_messages(daemon, "relay-parked") == 0


def test_R12_a_queue_reaches_an_sqs_endpoint(daemon, relays):
    """A FIFO queue behind an SQS endpoint knows the ids of five minutes: what is sent again behind a kill is not there
    twice."""
    make_queue(daemon, "from.fifo", ContentBasedDeduplication="true")
    make_queue(daemon, "to.fifo")
    ids = {}
    for i in range(scaled(200, least=40)):
        ids[f"{i % 4}-{i}"] = send(
            daemon, "from.fifo", f"{i % 4}-{i}", MessageGroupId=str(i % 4), MessageDeduplicationId=str(i))
    relay = relays("queue:from.fifo", f"sqs:{daemon.endpoint}/000000000000/to.fifo", "--lease", 2,
                   AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b", AWS_REGION="us-east-1")
    wait_until(lambda: count_messages(daemon, "to.fifo") >= len(ids) // 4, what="some that arrived")
    relay.kill9()
    relay.start()
    wait_until_drained(daemon, "from.fifo", 30)
    messages = drain(daemon, "to.fifo", len(ids))
    check_once(messages, ids)
    check_order(messages)
    assert {message.body: message.uid for message in messages} == ids


# --- what is parked, and somebody who decides -------------------------------------------------------------------------


def test_R58_what_was_parked_is_sent_again_under_its_key_or_dropped(daemon, receiver):
    """A relay of the daemon's own lists what was refused; `send` delivers it under the same key behind the others,
    `drop` lets it go."""
    is_mended = threading.Event()
    receiver.answer = lambda hit: 200 if is_mended.is_set() or hit.body.startswith(b"ok") else 422
    make_queue(daemon, "hooks.fifo", ContentBasedDeduplication="true")
    ids = {body: send(daemon, "hooks.fifo", body, MessageGroupId="g") for body in ("bad-1", "bad-2", "ok-3")}
    status, answer = daemon.call("Tally.CreateRelay", {
        "RelayName": "hook", "Source": {"Type": "queue", "QueueUrl": "hooks.fifo", "LeaseSeconds": 1},
        "Sink": {"Type": "http", "Url": receiver.url, "TimeoutSeconds": 2}})
    assert status == 200, answer

    def doubts():
        status, answer = daemon.call("Tally.ListDoubts", {"RelayName": "hook"})
        assert status == 200, answer
        return {doubt["Uid"]: doubt for doubt in answer["Doubts"]}

    wait_until(lambda: set(doubts()) == {ids["bad-1"], ids["bad-2"]}, what="two that are listed")
    doubt = doubts()[ids["bad-1"]]
    assert doubt["MessageGroupId"] == "g" and "answered 422" in doubt["Error"] and not doubt["IsInDoubt"]
    is_mended.set()
    for body, action in (("bad-1", "send"), ("bad-2", "drop")):
        status, answer = daemon.call("Tally.ResolveDoubt", {"RelayName": "hook", "Uid": ids[body], "Action": action})
        assert status == 200, answer
    wait_until(lambda: len(receiver.hits) == 4 and not doubts(), what="an end of both")
    wait_until_drained(daemon, "hooks.fifo")
    assert receiver.counts() == {ids["bad-1"]: 2, ids["bad-2"]: 1, ids["ok-3"]: 1}
    assert receiver.bodies()[-1] == "bad-1" and count_messages(daemon, "hook-parked") == 0


# --- rows of a database -----------------------------------------------------------------------------------------------


class Writer(Background):
    """An application that sends within its transactions, some of which it rolls back, until the end of the block."""

    def __init__(self, outbox, groups=24):
        super().__init__()
        self.outbox = outbox
        self.groups = groups
        outbox.sql("CREATE TABLE truth (uid uuid, grp text, n int)")

    def run(self):
        number = 0
        while not self.is_over.is_set():
            with contextlib.suppress(psycopg2.Error), contextlib.closing(self.outbox.connect()) as connection:
                connection.autocommit = False
                while not self.is_over.wait(0.01):
                    self.write(connection, number)
                    number += 1
            time.sleep(0.02)

    def write(self, connection, number):
        group = f"g{number % self.groups}"
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO truth SELECT tally.send('hook', %s, %s), %s, %s",
                           (f"{group}-{number}", group, group, number))
        if number % 7 == 0:
            connection.rollback()
        else:
            connection.commit()

    def uids(self):
        return {str(uid): (group, n) for uid, group, n in self.outbox.sql("SELECT * FROM truth")}


def run_application(outbox, relays, receiver, *options):
    """Rows are written and carried by two relays, of which the one that works is killed; returns the uids that were
    committed."""
    running = [relays(outbox.uri, receiver.url, "--lease", 1, *options, name=f"r{i}") for i in range(2)]
    chance = random.Random(5)
    with Writer(outbox) as writer:
        for _ in range(scaled(3, least=2)):
            active = wait_until(lambda: next((relay for relay in running if relay.state.startswith("active")), None))
            time.sleep(chance.uniform(0.05, 0.4) * PATIENCE)
            active.kill9()
            active.start()
    outbox.wait_until_empty(40)
    print(f"{len(writer.uids())} rows, {len(receiver.hits)} requests")
    return writer.uids()


def test_a_row_in_doubt_outlives_a_relay_that_was_stopped_for_longer_than_its_lease(outbox, relays, receiver):
    """Alone, it goes on as the owner of the source; what it notes then must not be taken for what it noted before."""
    is_well = False
    receiver.answer = lambda hit: 200 if is_well or hit.group != "doubt" else "close"
    relay = relays(outbox.uri, receiver.url, "--lease", 1)
    outbox.sql("SELECT tally.send('q', 'in doubt', group_id => 'doubt')")
    wait_until(lambda: receiver.hits, what="the first attempt")
    for _ in range(2):
        relay.freeze()
        time.sleep(1.5)
        relay.thaw()
        for i in range(12):  # each an intent of its own
            seen = len(receiver.hits)
            outbox.sql("SELECT tally.send('q', %s, group_id => %s)", f"later {i}", f"g{i}")
            wait_until(lambda: len(receiver.hits) > seen, what="a later row")
    is_well = True
    outbox.wait_until_empty(60)
    assert any(hit.group == "doubt" and hit.answered == 200 for hit in receiver.hits)
    assert outbox.sql("SELECT count(*) FROM tally.dead") == [(0,)]


def test_R11_rows_reach_a_web_hook_that_knows_keys_once_and_in_order(outbox, relays, receiver):
    """PostgreSQL to a web hook that fails and is silent at times, through kills of the relay that works."""
    receiver.answer = unreliable(3)
    uids = run_application(outbox, relays, receiver)
    assert set(receiver.counts()) == set(uids)
    last, seen = collections.Counter(), set()
    for hit in receiver.hits:
        group, number = uids[hit.key]
        if hit.key not in seen:
            assert number >= last[group], f"{hit} came behind number {last[group]}"
            last[group] = number
        seen.add(hit.key)
    assert all(any(hit.answered == 200 for hit in receiver.hits if hit.key == key) for key in uids)
    assert outbox.sql("SELECT count(*) FROM tally.dead")[0][0] == 0


def test_R12_a_doubt_says_when_the_attempt_was_as_of_its_parking(outbox, relays, receiver):
    """It is read much later."""
    receiver.answer = lambda hit: "hang"
    words = ["--lease", 1, "--mode", "at-most-once"]
    relay = relays(outbox.uri, receiver.url, *words, name="first")
    relay.wait_for("active")
    outbox.send("q", "doubted")
    wait_until(lambda: receiver.hits, what="a request")
    relay.kill9()
    relays(outbox.uri, receiver.url, *words, name="second")
    outbox.wait_until_empty()
    (error, is_doubted), = outbox.sql("SELECT error, is_doubted FROM tally.dead")
    assert is_doubted and re.match(r"an attempt (right|\d+ s) before it was parked may have been delivered: ", error)


def test_R12_rows_reach_a_web_hook_at_most_once_or_are_listed(outbox, relays, receiver):
    """The same at most once: never two requests for a row, and what was not answered for is parked, as in doubt if
    nothing is known."""
    receiver.answer = unreliable(4)
    uids = run_application(outbox, relays, receiver, "--mode", "at-most-once")
    counts = receiver.counts()
    assert set(counts.values()) == {1}, {key: number for key, number in counts.items() if number > 1}
    dead = dict(outbox.sql("SELECT uid::text, is_doubted FROM tally.dead"))
    answered = {hit.key: hit.answered for hit in receiver.hits}
    assert set(counts) | set(dead) == set(uids)
    for key in uids:
        if answered.get(key) != 200:
            assert key in dead, f"{uids[key]}: {answered.get(key)}, and nobody says so"
        if key in dead and answered.get(key) is None:
            assert dead[key], uids[key]
    print(f"{len(dead)} listed, {sum(dead.values())} of them in doubt")
