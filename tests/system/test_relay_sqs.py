"""Relays to SQS endpoints: another Tally, fauxqs, and one that misbehaves as the test wants. The letters and numbers in
the names of the tests are those of the scenarios for relays. Duplicates and losses are counted by what arrived."""

import contextlib
import itertools
import json
import shutil
import threading
import time

import pytest
from background import Background
from conftest import PATIENCE, wait_until
from fake_sqs import HANG_UP, Fauxqs, error, failed
from http_proxy import HttpProxy
from outbox import Outbox
from outbox_sqlite import SqliteOutbox
from queues import count_messages, make_queue
from relay import Message, Relay, check_once, check_order, drain, numbered

MARK = "maybe-duplicate"
SEND = "AmazonSQS.SendMessageBatch"


@pytest.fixture
def outbox(server):
    return Outbox(server, prefix="box")


@pytest.fixture
def relays(outbox):
    """relays(sink URL, *options, box=…): starts a relay of the outbox, or of another one."""
    started = []

    def start(url, *options, box=outbox, **more):
        lease = () if "--lease" in options else ("--lease", 1)
        more.setdefault("name", f"r{len(started)}")
        started.append(Relay("http://127.0.0.1:9", box.uri, f"sqs:{url}", "--table", box.schema, *lease, *options,
                             **more).start())
        return started[-1]

    yield start
    for relay in started:
        relay.kill9()


def attribute(entry, name):
    return entry["MessageAttributes"].get(name, {}).get("StringValue")


def uids_of(entries):
    return [attribute(entry, "Tally.OutboxId") for entry in entries]


def group_of(body):
    return body.rsplit("-", 1)[0]


# --- the ordinary way -----------------------------------------------------------------------------------------------


def test_rows_arrive_once_and_in_the_order_of_their_groups(daemon, outbox, relays):
    make_queue(daemon, "q.fifo")
    bodies = [f"{group}-{number}" for number in range(40) for group in ("a", "b", "c", "d", "e", "f", "g")]
    uids = outbox.send_all("q.fifo", bodies, group_of, attributes={"color": "red", "size": 3})
    relay = relays(daemon.endpoint)
    messages = drain(daemon, "q.fifo", len(bodies))
    check_once(messages, bodies)
    check_order(messages)
    assert {message.uid for message in messages} == set(uids)
    assert all(message.attributes["color"] == "red" and message.attributes["size"] == "3" for message in messages)
    assert not any(MARK in message.attributes for message in messages)
    outbox.wait_until_empty()
    outbox.wait_for_no_intent()
    relay.stop()


def test_queues_of_both_kinds_and_the_own_queue_of_the_sink(daemon, outbox, relays):
    for name in ("own", "plain", "q.fifo"):
        make_queue(daemon, name)
    outbox.send_all("plain", ["1"])
    outbox.send_all("q.fifo", ["2"])
    outbox.send_all(f"{daemon.endpoint}/000000000000/plain", ["3"])
    outbox.sql("INSERT INTO tally.outbox (queue, body) VALUES ('', '4')")
    relay = relays(f"{daemon.endpoint}/000000000000/own")
    check_once(drain(daemon, "plain", 2), ["1", "3"])
    check_once(drain(daemon, "q.fifo", 1), ["2"])
    check_once(drain(daemon, "own", 1), ["4"])
    outbox.wait_until_empty()
    relay.stop()


def test_strict_order_goes_one_by_one(fake, outbox, relays):
    bodies = numbered("m", 12)
    outbox.send_all("q.fifo", bodies[:6], "g")
    outbox.send_all("other.fifo", bodies[6:8])
    outbox.send_all("q.fifo", bodies[8:])
    fake.rules.append(lambda request: error(500, "InternalFailure") if len(fake.requests) == 3 else None)
    relay = relays(fake.endpoint, "--order", "strict")
    outbox.wait_until_empty()
    assert [entry["MessageBody"] for _, entry in fake.messages] == bodies
    assert all(len(request.entries) == 1 for request in fake.requests)
    assert len({entry["MessageGroupId"] for entry in fake.stored("q.fifo")[6:]}) == 1, (
        "the consumer has no order of them")
    relay.stop()


def test_signed_requests_with_credentials_of_the_environment(daemon_factory, tmp_path, outbox, relays):
    (tmp_path / "credentials").write_text("key secret 000000000000 read,write,admin\n")
    daemon = daemon_factory("--credentials", tmp_path / "credentials").start()
    environment = {"AWS_ACCESS_KEY_ID": "key", "AWS_REGION": "eu-west-1"}
    outbox.send_all("q", ["1", "2"])
    with_a_wrong_one = relays(daemon.endpoint, AWS_SECRET_ACCESS_KEY="wrong", **environment)
    assert ("SignatureDoesNotMatch" in with_a_wrong_one.wait_for("blocked")
            or "InvalidSignature" in with_a_wrong_one.state)
    assert outbox.dead() == [] and outbox.count() == 2
    with_a_wrong_one.stop()
    relay = relays(daemon.endpoint, AWS_SECRET_ACCESS_KEY="secret", **environment)
    assert "QueueDoesNotExist" in relay.wait_for("blocked")
    relay.stop()


def receive_all(fauxqs, name):
    """Receives and deletes what is there."""
    url = fauxqs.call("GetQueueUrl", {"QueueName": name})["QueueUrl"]
    messages = []
    while True:
        came = [Message(reply) for reply in fauxqs.call("ReceiveMessage", {
            "QueueUrl": url, "MaxNumberOfMessages": 10, "MessageSystemAttributeNames": ["All"],
            "MessageAttributeNames": ["All"]}).get("Messages", [])]
        for message in came:
            fauxqs.call("DeleteMessage", {"QueueUrl": url, "ReceiptHandle": message.handle})
        messages += came
        if not came:
            return messages


@pytest.mark.skipif(not Fauxqs.is_available(), reason="fauxqs needs Node.js 20")
def test_R32_fauxqs_takes_all_of_them_once(tmp_path, outbox, relays):
    fauxqs = Fauxqs(tmp_path)
    try:
        fauxqs.call("CreateQueue",
                    {"QueueName": "q.fifo", "Attributes": {"FifoQueue": "true", "ContentBasedDeduplication": "true"}})
        fauxqs.call("CreateQueue", {"QueueName": "plain"})
        bodies = [f"{group}-{number}" for number in range(10) for group in "abc"]
        outbox.send_all("q.fifo", bodies, group_of, attributes={"n": 5})
        outbox.send_all("q.fifo", ["same", "same"], "s")
        outbox.send_all("plain", numbered("p", 25))
        relay = relays(fauxqs.endpoint)
        outbox.wait_until_empty()
        messages = receive_all(fauxqs, "q.fifo")
        same = [message for message in messages if message.body == "same"]
        assert len(same) == 2 and same[0].uid != same[1].uid
        others = [message for message in messages if message.body != "same"]
        check_once(others, bodies)
        check_order(others)
        check_once(receive_all(fauxqs, "plain"), numbered("p", 25))
        assert outbox.dead() == []
        relay.stop()
    finally:
        fauxqs.stop()


def test_R32_rows_with_equal_bodies_are_two_messages(daemon, outbox, relays):
    make_queue(daemon, "q.fifo", ContentBasedDeduplication="true")
    outbox.send_all("q.fifo", ["same", "same"], "g")
    relay = relays(daemon.endpoint)
    messages = drain(daemon, "q.fifo", 2)
    assert [message.body for message in messages] == ["same", "same"]
    assert messages[0].uid != messages[1].uid
    relay.stop()


def test_rows_with_a_deduplication_id_of_their_own_are_one_message(daemon, outbox, relays):
    make_queue(daemon, "q.fifo")
    outbox.send_all("q.fifo", ["first", "second"], "g", dedup="invoice 7".replace(" ", "-"))
    relay = relays(daemon.endpoint)
    outbox.wait_until_empty()
    check_once(drain(daemon, "q.fifo", 1), ["first"])
    relay.stop()


# --- batches --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["group", "strict"])
def test_R33_no_request_holds_two_messages_of_one_group(fake, outbox, relays, order):
    """Some entries fail, first ones of their request among them: were two of a group in it, the second would be stored
    before the first."""
    bodies = [f"{group}-{number}" for group in ("a", "b", "c") for number in range(12)]
    outbox.send_all("q.fifo", bodies, group_of)
    refused = {"a-3": 1, "b-0": 2, "c-11": 1}  # so many times

    def fail_some(request):
        fail = {}
        for entry in request.entries:
            if refused.get(entry["MessageBody"], 0) > 0:
                refused[entry["MessageBody"]] -= 1
                fail[entry["Id"]] = failed(entry, "InternalError", False)
        return fake.store(request, fail)

    fake.rules.append(fail_some)
    relay = relays(fake.endpoint, "--order", order)
    outbox.wait_until_empty()
    for request in fake.requests:
        groups = [entry["MessageGroupId"] for entry in request.entries]
        assert len(groups) == len(set(groups)) and (order == "group" or len(groups) == 1), request
    assert not any(refused.values()), "each of them failed as often as it was to"
    check_once_entries(fake.stored("q.fifo"), bodies)
    for group in "abc":
        assert [body for body in fake.bodies("q.fifo") if group_of(body) == group] == numbered(group, 12)
    if order == "strict":
        assert fake.bodies("q.fifo") == bodies
    assert outbox.dead() == []
    relay.stop()


def test_P15_no_group_is_in_two_requests_at_once(fake, outbox, relays):
    bodies = [f"{group:02}-{number}" for number in range(6) for group in range(60)]
    outbox.send_all("q.fifo", bodies, group_of)
    under_way, most, twice = [], [0], []
    lock = threading.Lock()

    def watch(request):
        groups = [entry["MessageGroupId"] for entry in request.entries]
        with lock:
            twice.extend(group for group in groups if group in under_way)
            under_way.extend(groups)
            most[0] = max(most[0], len(under_way))
        time.sleep(0.03)
        answer = fake.store(request)
        with lock:
            for group in groups:
                under_way.remove(group)
        return answer

    fake.rules.append(watch)
    relay = relays(fake.endpoint)
    outbox.wait_until_empty()
    assert not twice and most[0] > 10, "one request at a time"
    check_once_entries(fake.stored("q.fifo"), bodies)
    for group in range(60):
        own = [body for body in fake.bodies("q.fifo") if group_of(body) == f"{group:02}"]
        assert own == numbered(f"{group:02}", 6)
    relay.stop()


def check_once_entries(entries, bodies):
    assert sorted(entry["MessageBody"] for entry in entries) == sorted(bodies)


def size_of(entry):
    """As SQS counts: the body, and of each attribute its name, its type and its value."""
    return len(entry["MessageBody"].encode()) + sum(len(name) + len(value["DataType"]) + len(value["StringValue"])
                                                    for name, value in entry["MessageAttributes"].items())


def test_R45_batches_are_below_ten_entries_and_a_mebibyte(fake, outbox, relays):
    """Attributes count too: of the last kind four bodies fit into a request, but not with what they have besides."""
    small, large = numbered("s", 25), [f"{letter * 400_000}-0" for letter in "abcde"]
    whole, many = ["x" * 1048576], [f"{letter * 250_000}-0" for letter in "abcdefgh"]
    outbox.send_all("small", small)
    outbox.send_all("large", large)
    outbox.send_all("large", whole)
    outbox.send_all("many", many, attributes={"note": "y" * 20_000})
    relay = relays(fake.endpoint)
    outbox.wait_until_empty()
    assert max(len(request.entries) for request in fake.requests) == 10
    assert all(len(request.entries) == 1 or sum(map(size_of, request.entries)) <= 1048576 for request in fake.requests)
    assert sorted(len(request.entries) for request in fake.requests if request.queue == "small") == [5, 10, 10]
    assert max(len(request.entries) for request in fake.requests if request.queue == "many") == 3
    check_once_entries(fake.stored("small"), small)
    check_once_entries(fake.stored("large"), large + whole)
    check_once_entries(fake.stored("many"), many)
    relay.stop()


def test_R45_an_older_endpoint_with_a_smaller_limit_is_understood(fake, outbox, relays):
    fake.size_max = 262144
    bodies = [f"{letter * 100_000}-0" for letter in "abcdefg"]
    outbox.send_all("q", bodies)
    outbox.send_all("q", ["y" * 300_000])
    relay = relays(fake.endpoint)
    outbox.wait_until_empty()
    check_once_entries(fake.stored("q"), bodies)
    (body, is_doubted, text), = outbox.dead()
    assert len(body) == 300_000 and not is_doubted and "BatchRequestTooLong" in text
    relay.stop()


def test_one_refused_row_is_parked_alone(daemon, outbox, relays):
    make_queue(daemon, "q.fifo")
    outbox.send_all("q.fifo", ["before-1"], "g")
    outbox.send_all("q.fifo", ["bad"], "g", attributes={"Tally.Batch": "no such batch"})
    outbox.send_all("q.fifo", ["behind-2"], "g")
    relay = relays(daemon.endpoint)
    check_once(drain(daemon, "q.fifo", 2), ["before-1", "behind-2"])
    outbox.wait_until_empty()
    (body, is_doubted, text), = outbox.dead()
    assert body == "bad" and not is_doubted and "atch" in text
    relay.stop()


def test_a_refused_row_can_hold_its_group_instead(fake, outbox, relays):
    outbox.send_all("q.fifo", ["g-1", "g-2", "h-1"], group_of)

    def refuse(request):
        return fake.store(request, {entry["Id"]: failed(entry, "InvalidMessageContents", True)
                                    for entry in request.entries if entry["MessageBody"] == "g-1"})

    fake.rules.append(refuse)
    relay = relays(fake.endpoint, "--refused", "block")
    assert "InvalidMessageContents" in relay.wait_for("blocked")
    wait_until(lambda: outbox.count() == 2, what="the other group")
    assert fake.bodies("q.fifo") == ["h-1"] and outbox.dead() == []
    relay.stop()


def test_R52_a_missing_queue_holds_back_only_its_own_rows(daemon, outbox, relays):
    make_queue(daemon, "there")
    outbox.sql("INSERT INTO tally.outbox (queue, body) SELECT 'never', 'n-' || i FROM generate_series(1, 5000) i")
    for number in range(30):
        outbox.send_all("missing.fifo", [f"m-{number}"], "g")
        outbox.send_all("there", [f"t-{number}"])
    relay = relays(daemon.endpoint)
    check_once(drain(daemon, "there", 30), numbered("t", 30))
    for queue in ("missing.fifo", "never"):
        alarm = f"queue {queue}: QueueDoesNotExist"
        wait_until(lambda: any(alarm in line for line in relay.lines), what=alarm)
    assert outbox.count() == 5030 and outbox.dead() == []
    outbox.send_all("there", ["t-30"])
    check_once(drain(daemon, "there", 1), ["t-30"])
    make_queue(daemon, "missing.fifo")
    messages = drain(daemon, "missing.fifo", 30, seconds=40)
    check_once(messages, numbered("m", 30))
    check_order(messages)
    make_queue(daemon, "never")
    check_once(drain(daemon, "never", 5000, seconds=40), numbered("n", 5000, 1))
    relay.wait_for("active")
    outbox.wait_until_empty()
    relay.stop()


# What an endpoint may say of a row that it refuses: characters that no database and no message can keep, and one that
# is cut in its middle.
STRANGE = {
    "controls": json.dumps("a\u0000b\u0001c\u001b[31md\u007f\u0085\ufffe\u00fc").encode(),
    "cut": json.dumps("x" + "\u20ac" * 300, ensure_ascii=False).encode(),
    "no line": json.dumps("a\nb\u0001c\u001b[31md\u007f\u0085\ufffe\u00fc\U0001f600").encode(),
    "broken": b'"\xff\xfe\xc3"',
}


def refuse_in_these_words(fake, words):
    """A rule: rows whose bodies begin with "bad" are refused, the others taken."""

    def rule(request):
        if not any(body.startswith("bad") for body in request.bodies):
            return None
        if b"\xff" in words:  # such an answer has no meaning but that of its header
            return 400, b'{"__type": "InvalidMessageContents", "message": ' + words + b"}", {
                "x-amzn-query-error": "InvalidMessageContents;Sender"}
        _, body, headers = fake.store(request, {
            entry["Id"]: failed(entry, "InvalidMessageContents", True, json.loads(words))
            for entry in request.entries if entry["MessageBody"].startswith("bad")})
        return 200, body, headers

    fake.rules.append(rule)


def source_of(kind, daemon, outbox, tmp_path):
    """The spec of a source with the bodies bad-1, ok-2 and bad-3, and two functions: how many rows it has, and one
    more."""
    if kind == "postgres":
        spec = {"Type": "postgres", "Connection": outbox.uri, "Table": outbox.schema}
        count, send = outbox.count, lambda body: outbox.send_all("q", [body])
    elif kind == "queue":
        make_queue(daemon, "from")
        spec = {"Type": "queue", "QueueUrl": "from", "LeaseSeconds": 1}
        count = lambda: count_messages(daemon, "from")
        send = lambda body: daemon.call("AmazonSQS.SendMessage", {"QueueUrl": "from", "MessageBody": body})
    else:
        database = SqliteOutbox(tmp_path / "app.db")
        spec = {"Type": "sqlite", "Connection": str(database.path)}
        count, send = database.count, lambda body: database.send([body], "q")
    for body in ("bad-1", "ok-2", "bad-3"):
        send(body)
    return spec, count, send


@pytest.mark.parametrize("words", STRANGE)
@pytest.mark.parametrize("kind", ["postgres", "sqlite", "queue"])
def test_R43_what_an_endpoint_says_never_stops_an_outbox(daemon, fake, outbox, tmp_path, kind, words):
    """The row is parked whatever the endpoint's reason is made of, the rows behind it go on, and what is shown of it is
    text."""
    source, count, send = source_of(kind, daemon, outbox, tmp_path)
    refuse_in_these_words(fake, STRANGE[words])
    status, answer = daemon.call("Tally.CreateRelay", {"RelayName": "out", "Source": source, "Sink": {
        "Type": "sqs", "QueueUrl": f"{fake.endpoint}/000000000000/q", "Region": "eu-west-1"}})
    assert status == 200, answer
    wait_until(lambda: count() == 0, what="an outbox that is empty")
    assert fake.bodies("q") == ["ok-2"]
    wait_until(lambda: len(daemon.call("Tally.ListDoubts", {"RelayName": "out"})[1]["Doubts"]) == 2,
               what="both that were refused")
    assert all("InvalidMessageContents" in doubt["Error"] for doubt in plain(daemon, "ListDoubts")["Doubts"])
    assert all(line.isprintable() for line in daemon.error_text().splitlines())
    answer = b'{"__type": "QueueDoesNotExist", "message": ' + STRANGE[words] + b"}"
    fake.rules.insert(0, lambda _: (400, answer, {"x-amzn-query-error": "QueueDoesNotExist;"}))
    send("later")
    wait_until(lambda: "QueueDoesNotExist" in plain(daemon, "DescribeRelay").get("LastError", ""), what="the alarm")
    assert all(line.isprintable() for line in daemon.error_text().splitlines())


def plain(daemon, action):
    """What an action says of the relay, which must be text and no more."""
    status, _, answer = daemon.request("POST", "/", json.dumps({"RelayName": "out"}), {
        "X-Amz-Target": f"Tally.{action}", "Content-Type": "application/x-amz-json-1.0"})
    assert status == 200, answer
    said = json.loads(answer.decode())
    assert json.dumps(said, ensure_ascii=False).isprintable(), answer
    return said


def test_R52_a_sink_that_restarts_without_its_queue_gets_no_row_deleted(daemon_factory, outbox, relays):
    """The relay has delivered there; then the sink comes back with nothing in its folder. Rows wait, and the state says
    why."""
    other = daemon_factory().start()
    make_queue(other, "q.fifo")
    outbox.send_all("q.fifo", numbered("a", 20), "a")
    relay = relays(other.endpoint)
    check_once(drain(other, "q.fifo", 20), numbered("a", 20))
    outbox.wait_until_empty()
    other.kill9()
    shutil.rmtree(other.data)
    other.start()
    outbox.send_all("q.fifo", numbered("b", 20), "b")
    assert "QueueDoesNotExist" in relay.wait_for("blocked")
    time.sleep(0.5 * PATIENCE)
    assert outbox.count() == 20 and outbox.dead() == []
    make_queue(other, "q.fifo")
    messages = drain(other, "q.fifo", 20)
    check_once(messages, numbered("b", 20))
    check_order(messages)
    outbox.wait_until_empty()
    relay.wait_for("active")
    relay.stop()


# --- an endpoint in trouble -----------------------------------------------------------------------------------------


def misbehave(*answers):
    """A rule that gives these answers one after the other, and then none."""
    left = list(answers)

    def rule(_):
        if not left:
            return None
        answer = left.pop(0)
        return answer() if callable(answer) else answer

    rule.left = left
    return rule


TROUBLE = {
    "throttled": [error(400, "ThrottlingException"), error(403, "RequestThrottled"),
                  error(429, "TooManyRequestsException")],
    "retry-after": [error(503, "ServiceUnavailable", Retry_After=1)],
    "failing": [error(500, "InternalFailure")] * 5,
    "not SQS": [(502, ["a gateway"], {}), (200, ["no object"], {})],
    "closing": [HANG_UP] * 3,
}


@pytest.mark.parametrize("kind", TROUBLE)
def test_R44_trouble_at_the_sink_is_waited_for(fake, outbox, relays, kind):
    bodies = [f"{group}-{number}" for number in range(8) for group in "abcd"]
    outbox.send_all("q.fifo", bodies, group_of)
    rule = misbehave(*TROUBLE[kind])
    fake.rules.append(rule)
    relay = relays(fake.endpoint)
    outbox.wait_until_empty()
    assert rule.left == [] and outbox.dead() == []
    check_once_entries(fake.stored("q.fifo"), bodies)
    for group in "abcd":
        assert [body for body in fake.bodies("q.fifo") if group_of(body) == group] == numbered(group, 8)
    assert not any(attribute(entry, MARK) for request in fake.requests for entry in request.entries)
    if kind == "retry-after":
        assert fake.requests[1].at - fake.requests[0].at >= 1
    if kind == "throttled":  # each is told of the whole endpoint: pauses of 50, 100 and 200 ms, each less up to a half
        waited = [later.at - earlier.at for earlier, later in itertools.pairwise(fake.requests[:4])]
        assert all(wait >= least for wait, least in zip(waited, (0.025, 0.05, 0.1))), waited
    relay.stop()


def test_R44_one_entry_that_fails_holds_nothing_but_its_group(fake, outbox, relays):
    outbox.send_all("q.fifo", ["a-1", "b-1", "a-2", "b-2", "c-1"], group_of)
    stuck = [True]

    def fail_one(request):
        return fake.store(request, {entry["Id"]: failed(entry, "InternalError", False)
                                    for entry in request.entries if entry["MessageBody"] == "a-1" and stuck[0]})

    fake.rules.append(fail_one)
    relay = relays(fake.endpoint)
    wait_until(lambda: outbox.count() == 2, what="the other groups")
    outbox.send_all("q.fifo", ["b-3", "a-3"], group_of)
    wait_until(lambda: "b-3" in fake.bodies("q.fifo"), what="a row behind")
    assert sorted(fake.bodies("q.fifo")) == ["b-1", "b-2", "b-3", "c-1"]
    stuck[0] = False
    outbox.wait_until_empty(40)
    assert [body for body in fake.bodies("q.fifo") if body[0] == "a"] == ["a-1", "a-2", "a-3"]
    assert outbox.dead() == []
    relay.stop()


def test_R44_a_request_that_hangs_is_given_up_within_the_lease(fake, outbox, relays):
    release = threading.Event()
    outbox.send_all("q.fifo", ["a-1", "a-2"], group_of)

    def hang(request):
        if len(fake.requests) == 1:
            fake.store(request)
            release.wait(60)
            return HANG_UP
        return None

    fake.rules.append(hang)
    relay = relays(fake.endpoint)
    outbox.wait_until_empty()
    release.set()
    assert fake.requests[1].at - fake.requests[0].at < 5 * PATIENCE
    assert fake.bodies("q.fifo") == ["a-1", "a-2"]
    assert (fake.requests[1].entries[0]["MessageDeduplicationId"]
            == fake.requests[0].entries[0]["MessageDeduplicationId"])
    relay.stop()


def test_R44_what_a_standard_queue_may_have_is_marked(fake, outbox, relays):
    def lose(request):
        if len(fake.requests) > 1:
            return None
        fake.store(request)
        return HANG_UP

    fake.rules.append(lose)
    uids = outbox.send_all("plain", ["1", "2"])
    relay = relays(fake.endpoint)
    outbox.wait_until_empty()
    entries = fake.stored("plain")
    assert len(entries) == 4 and sorted(uids_of(entries)) == sorted(uids * 2)
    assert [attribute(entry, MARK) for entry in entries] == [None, None, "1", "1"]
    relay.stop()


def test_R19_a_sink_that_is_down_costs_no_row_anything(daemon, outbox, relays):
    make_queue(daemon, "q")
    daemon.stop()
    bodies = numbered("m", 500)
    outbox.send_all("q", bodies)
    relay = relays(daemon.endpoint)
    relay.wait_for("blocked")
    assert outbox.dead() == [] and outbox.count() == 500
    daemon.start()
    check_once(drain(daemon, "q", 500), bodies)
    outbox.wait_until_empty()
    assert outbox.dead() == []
    relay.stop()


# --- crashes --------------------------------------------------------------------------------------------------------


def crash_with_an_open_intent(relay, http_proxy, outbox, count):
    """Kills the relay when the endpoint has taken what it sent, and it has not heard of that."""
    wait_until(lambda: http_proxy.kept > 0, what="a request")
    relay.kill9()
    http_proxy.release()
    wait_until(lambda: outbox.intents(), what="an intent")
    assert outbox.count() == count


def ids_sent(http_proxy, first=0):
    """Of each entry in the requests that passed, from that one on."""
    return [(entry["MessageDeduplicationId"], entry["MessageGroupId"], entry["MessageBody"])
            for body in http_proxy.bodies_of(SEND)[first:] for entry in body["Entries"]]


@pytest.mark.parametrize("are_consumed", [False, True])
@pytest.mark.parametrize("scope", ["queue", "messageGroup"])
def test_R35_R34_a_row_in_doubt_is_sent_again_under_the_same_ids(
        daemon, http_proxy, outbox, relays, are_consumed, scope):
    """The answers are lost, the relay is killed, and the next one sends again what the queue has, or had: consumed and
    deleted, it is known all the same. That it was sent again is seen on the way."""
    make_queue(daemon, "q.fifo", DeduplicationScope=scope)  # of a group: with another group it would be another message
    bodies = [f"{group}-{number}" for number in range(4) for group in "abcde"]
    outbox.send_all("q.fifo", bodies, group_of)
    http_proxy.keep(SEND)
    crash_with_an_open_intent(relays(http_proxy.endpoint), http_proxy, outbox, len(bodies))
    lost = sorted(ids_sent(http_proxy))
    assert lost
    messages = drain(daemon, "q.fifo", len(lost) if are_consumed else 1)
    seen = len(http_proxy.bodies_of(SEND))
    relay = relays(http_proxy.endpoint)
    outbox.wait_until_empty()
    again = ids_sent(http_proxy, seen)
    assert set(lost) <= set(again), "the same ids, groups and bodies"
    messages += drain(daemon, "q.fifo", len(bodies) - len(messages))
    check_once(messages, bodies)
    check_order(messages)
    assert not any(MARK in message.attributes for message in messages)
    assert outbox.dead() == []
    relay.stop()


@pytest.mark.parametrize("is_stored", [False, True])
def test_R14_a_later_request_that_is_answered_first_settles_none_but_its_own_rows(fake, outbox, relays, is_stored):
    """Eight at once, of which the first gets no answer, whether its rows are stored or not; the relay is killed
    meanwhile."""
    held, is_over = [], threading.Event()

    def hold_the_first(request):
        with fake.lock:
            held.extend(request.bodies if not held else [])
        if not set(held) & set(request.bodies):
            wait_until(lambda: len(fake.requests) >= 8, what="eight requests at once")
            return None
        if is_stored:
            fake.store(request)
        is_over.wait(60 * PATIENCE)
        return HANG_UP

    fake.rules.append(hold_the_first)
    bodies = [f"g{n}-{n}" for n in range(80)]
    outbox.send_all("q.fifo", bodies, group_of)
    relay = relays(fake.endpoint, "--lease", 2)
    wait_until(lambda: outbox.count() == 10, what="that the others have left the outbox")
    relay.kill9()
    kept = [body for body, in outbox.sql("SELECT body FROM tally.outbox ORDER BY id")]
    noted = [body for body, in outbox.sql(
        "SELECT o.body FROM tally.intent i, unnest(i.uids) u(uid) JOIN tally.outbox o USING (uid)")]
    assert sorted(kept) == sorted(noted) == sorted(held) and outbox.dead() == []
    fake.rules.clear()
    is_over.set()
    relays(fake.endpoint)
    outbox.wait_until_empty()
    check_once_entries(fake.stored("q.fifo"), bodies)
    outbox.wait_for_no_intent()


def test_an_intent_that_is_noted_without_an_answer_is_not_delivered_twice(daemon, proxy, outbox):
    """The line to PostgreSQL ends behind the statement that lets the last rows go and notes the next ones: the relay
    must find out what became of it."""
    make_queue(daemon, "q.fifo")
    relay = Relay("http://127.0.0.1:9", proxy.uri(outbox.uri), f"sqs:{daemon.endpoint}", "--table", outbox.schema,
                  "--lease", 5).start()
    try:
        relay.wait_for("active")
        bodies = []
        for times in range(1, 6):
            proxy.lose_answer_to(b"rows_3\0")  # that statement
            bodies += outbox.fill("q.fifo", 300, groups=40, first=len(bodies))
            wait_until(lambda: proxy.lost == times, what="an answer that is lost")
            relay.wait_for("active")
        outbox.wait_until_empty()
        messages = drain(daemon, "q.fifo", len(bodies))
        check_once(messages, bodies)
        check_order(messages)
        assert outbox.dead() == [] and not any(MARK in message.attributes for message in messages)
        assert relay.epoch == 1 and not any(line.startswith("failed") for line in relay.lines), relay.lines
        outbox.wait_for_no_intent()
    finally:
        relay.kill9()


@pytest.mark.skipif(not Fauxqs.is_available(), reason="fauxqs needs Node.js 20")
def test_R35_fauxqs_suppresses_what_is_sent_again(tmp_path, outbox, relays):
    """An SQS by somebody else, which remembers ids beyond the end of their messages: what it took is consumed and
    deleted before it comes again."""
    fauxqs = Fauxqs(tmp_path)
    http_proxy = HttpProxy(fauxqs.port)
    try:
        fauxqs.call("CreateQueue", {"QueueName": "q.fifo", "Attributes": {"FifoQueue": "true"}})
        bodies = [f"{group}-{number}" for number in range(4) for group in "abcde"]
        outbox.send_all("q.fifo", bodies, group_of)
        http_proxy.keep(SEND)
        crash_with_an_open_intent(relays(http_proxy.endpoint), http_proxy, outbox, len(bodies))
        lost, seen = ids_sent(http_proxy), len(http_proxy.bodies_of(SEND))
        messages = receive_all(fauxqs, "q.fifo")
        assert sorted(message.body for message in messages) == sorted(body for _, _, body in lost)
        relay = relays(http_proxy.endpoint)
        outbox.wait_until_empty()
        assert set(lost) <= set(ids_sent(http_proxy, seen))
        messages += receive_all(fauxqs, "q.fifo")
        check_once(messages, bodies)
        check_order(messages)
        assert outbox.dead() == []
        relay.stop()
    finally:
        http_proxy.close()
        fauxqs.stop()


def crash_at_fake(relays, fake, outbox, send, *options):
    """A relay is killed when the endpoint has what send() wrote, and no answer of it came."""
    relay = relays(fake.endpoint, "--lease", 5, *options)
    relay.wait_for("active")
    stored = len(fake.messages)
    over = fake.lose_first_answer()
    sent = send()
    wait_until(lambda: len(fake.messages) > stored, what="a request")
    relay.kill9()
    over.set()
    assert len(outbox.intents()) == 1
    return sent


@pytest.mark.parametrize("queue, options",
                         [("q.fifo", ("--doubts", "send")), ("plain", ()), ("plain", ("--doubts", "send"))])
def test_R31_an_old_doubt_is_sent_again_with_a_mark(fake, outbox, relays, queue, options):
    uids = crash_at_fake(relays, fake, outbox, lambda: outbox.send_all(queue, ["1", "2"]), *options)
    outbox.age_intents(6)
    fresh = outbox.send_all(queue, ["3"])
    relay = relays(fake.endpoint, *options)
    outbox.wait_until_empty()
    marks = {}
    for request in fake.requests[1:]:
        for entry in request.entries:
            marks[attribute(entry, "Tally.OutboxId")] = attribute(entry, MARK)
    assert marks == {uids[0]: "1", uids[1]: "1", fresh[0]: None}
    assert outbox.dead() == []
    outbox.wait_for_no_intent()
    if queue.endswith(".fifo"):  # P16: what is tried again has the ids of the first attempt
        ids = [{(entry["MessageDeduplicationId"], entry["MessageGroupId"]) for entry in request.entries}
               for request in fake.requests]
        assert ids[0] <= set().union(*ids[1:])
    relay.stop()


@pytest.mark.parametrize("options", [(), ("--doubts", "park")])
def test_R31_an_old_doubt_of_a_fifo_queue_is_parked(fake, outbox, relays, options):
    crash_at_fake(relays, fake, outbox, lambda: outbox.send_all("q.fifo", ["1", "2"]), *options)
    outbox.age_intents(6)
    outbox.send_all("q.fifo", ["3"])
    relay = relays(fake.endpoint, *options)
    outbox.wait_until_empty()
    assert fake.bodies("q.fifo") == ["1", "2", "3"]
    assert [(body, is_doubted) for body, is_doubted, _ in outbox.dead()] == [("1", True), ("2", True)]
    outbox.wait_for_no_intent()
    relay.stop()


@contextlib.contextmanager
def nothing_can_be_noted(outbox):
    """While it lasts intents can be read and no more."""
    with contextlib.closing(outbox.connect()) as blocker, blocker.cursor() as cursor:
        cursor.execute(f"BEGIN; LOCK TABLE {outbox.schema}.intent IN SHARE MODE")
        yield
        cursor.execute("COMMIT")


def waits_for_its_intent(outbox):
    return outbox.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database() "
                      "AND query LIKE %s",
                      f"%{outbox.schema}%intent%")


def test_P17_R31_a_doubt_that_grows_old_while_the_next_intent_is_noted_is_not_sent_as_a_young_one(
        server, fake, outbox, relays):
    """It was young enough when it was chosen; the database then holds up the intent of the row that is to go with it,
    which failed for certain the last time and is noted anew. Of one outbox such rows are to be sent, with the mark, and
    of another to be parked."""
    other = Outbox(server, prefix="box")
    uid, = crash_at_fake(relays, fake, outbox, lambda: outbox.send_all("q.fifo", ["sent"]))
    crash_at_fake(lambda *options: relays(*options, box=other), fake, other,
                  lambda: other.send_all("q.fifo", ["parked"]))
    seen = len(fake.requests)
    for box in (outbox, other):
        box.send_all("q.fifo", ["behind"])
        box.age_intents((270 - 6 * PATIENCE) / 60)  # seconds before the limit
    began = time.monotonic()
    is_well = threading.Event()
    fake.rules.insert(0, lambda _: None if is_well.is_set() else error(400, "ThrottlingException"))
    running = [relays(fake.endpoint, "--lease", 20, "--doubts", "send"),
               relays(fake.endpoint, "--lease", 20, box=other)]
    for relay in running:
        relay.wait_for("blocked")  # it has chosen them once, and its statements are prepared
    with nothing_can_be_noted(outbox), nothing_can_be_noted(other):
        wait_until(lambda: waits_for_its_intent(outbox) and waits_for_its_intent(other),
                   what="intents that can't be noted")
        assert time.monotonic() - began < 6 * PATIENCE, "they were chosen too late: slower than the test allows for"
        seen = len(fake.requests)
        is_well.set()
        time.sleep(7 * PATIENCE)
    for box in (outbox, other):
        box.wait_until_empty()
    later = [entry for request in fake.requests[seen:] for entry in request.entries]
    assert sorted((entry["MessageBody"], attribute(entry, MARK)) for entry in later
                  if entry["MessageBody"] != "behind") == [("sent", "1")]
    assert [entry["MessageBody"] for entry in later].count("behind") == 2
    assert outbox.dead() == [] and [(body, is_doubted) for body, is_doubted, _ in other.dead()] == [("parked", True)]
    for relay in running:
        relay.stop()


def test_R34_a_young_doubt_keeps_group_and_deduplication_id_and_has_no_mark(fake, outbox, relays):
    crash_at_fake(relays, fake, outbox,
                  lambda: outbox.send_all("q.fifo", ["g-1", "-2"], lambda body: body[:-2] or None))
    outbox.age_intents(4)
    relay = relays(fake.endpoint)
    outbox.wait_until_empty()
    first, again = fake.requests
    keys = ("MessageDeduplicationId", "MessageGroupId", "MessageBody", "MessageAttributes")
    assert [[entry[key] for key in keys] for entry in first.entries] == [
        [entry[key] for key in keys] for entry in again.entries]
    assert len(fake.stored("q.fifo")) == 2
    relay.stop()


def test_a_standard_queue_gets_nothing_twice_if_doubts_are_parked(fake, outbox, relays):
    crash_at_fake(relays, fake, outbox, lambda: outbox.send_all("plain", ["1", "2"]), "--doubts", "park")
    fake.rules.append(misbehave(HANG_UP))
    outbox.send_all("plain", ["3"])
    relay = relays(fake.endpoint, "--doubts", "park")
    outbox.wait_until_empty()
    outbox.send_all("plain", ["4"])
    wait_until(lambda: "4" in fake.bodies("plain"), what="a row behind the doubt")
    assert sorted(fake.bodies("plain")) == ["1", "2", "4"]
    assert [(body, is_doubted) for body, is_doubted, _ in outbox.dead()] == [("1", True), ("2", True), ("3", True)]
    relay.stop()


def test_a_frozen_owner_sends_nothing_after_its_lease(daemon, http_proxy, outbox, relays):
    """R21, as far as SQS allows: it has no fence, so what counts is that nothing leaves late, and nothing is
    overwritten."""
    make_queue(daemon, "q.fifo")
    first = relays(http_proxy.endpoint)
    first.wait_for("active")
    bodies = numbered("g", 60)
    http_proxy.keep(SEND)
    outbox.send_all("q.fifo", bodies, "g")
    wait_until(lambda: http_proxy.kept > 0, what="a request")
    first.freeze()
    http_proxy.release()
    second = relays(http_proxy.endpoint)
    second.wait_for("active")
    outbox.wait_until_empty()
    sent = len(http_proxy.bodies_of(SEND))
    first.thaw()
    first.wait_for("standby")
    messages = drain(daemon, "q.fifo", 60)
    check_once(messages, bodies)
    check_order(messages)
    assert len(http_proxy.bodies_of(SEND)) == sent
    first.stop()
    second.stop()


def test_R47_two_relays_at_once_and_one_killed_on_the_way(daemon, outbox, relays):
    make_queue(daemon, "q.fifo")
    pair = [relays(daemon.endpoint), relays(daemon.endpoint)]
    bodies = [f"{group}-{number}" for number in range(60) for group in "abcde"]
    for start in range(0, len(bodies), 50):
        outbox.send_all("q.fifo", bodies[start:start + 50], group_of)
        if start == 100:
            owner = wait_until(lambda: next((relay for relay in pair if relay.state.startswith("active")), None))
            owner.kill9()
    messages = drain(daemon, "q.fifo", len(bodies))
    check_once(messages, bodies)
    check_order(messages)
    outbox.wait_until_empty()


def test_R12_relays_killed_again_and_again(daemon, outbox, relays):
    """Whatever moment it hits, between the intent, the requests and the next intent: a FIFO queue has each row once,
    and in order."""
    make_queue(daemon, "q.fifo")
    bodies = [f"{group}-{number}" for number in range(60) for group in "abcdefghijkl"]
    outbox.send_all("q.fifo", bodies, group_of)
    left = len(bodies)
    for moment in range(3):
        relay = relays(daemon.endpoint)
        wait_until(lambda: outbox.count() < left or outbox.count() == 0, what="progress")
        time.sleep(0.013 * moment)
        relay.kill9()
        left = outbox.count()
    relay = relays(daemon.endpoint)
    messages = drain(daemon, "q.fifo", len(bodies))
    check_once(messages, bodies)
    check_order(messages)
    outbox.wait_until_empty()
    outbox.wait_for_no_intent()
    assert outbox.dead() == []
    relay.stop()


class Flow(Background):
    """An application that sends row after row, in groups, until the end of the block: .bodies is what it has
    committed."""

    def __init__(self, send):
        super().__init__()
        self.send = send
        self.bodies = []

    def run(self):
        for number in itertools.count():
            some = [f"{group}-{number}" for group in "abcdef"]
            self.send(some)
            self.bodies += some
            if self.is_over.wait(0.01):
                return


def kill_in_flight(daemon, relay, count_of_kills, moments):
    """Kills the sink's tallyd again and again, each time when it has taken something since it began; and now and then
    the relay."""
    for kill in range(count_of_kills):
        wait_until(lambda: any(queue_is_moving(daemon)), what="rows that arrive")
        time.sleep(next(moments))
        daemon.kill9()
        if kill % 3 == 2:
            relay.kill9()
        time.sleep(0.05)
        daemon.start()
        if kill % 3 == 2:
            relay.start()


def queue_is_moving(daemon):
    """Does one of its queues have more than a moment ago?"""
    for name in ("q.fifo", "plain"):
        if daemon.call("AmazonSQS.GetQueueUrl", {"QueueName": name})[0] == 200:
            before = count_messages(daemon, name)
            time.sleep(0.03)
            yield count_messages(daemon, name) > before


def check_what_arrived(daemon, queue, bodies):
    """FIFO: each once, in the order of its group. Standard: each; a copy only of what may have been taken without an
    answer, and marked."""
    messages = drain(daemon, queue, len(bodies))
    if queue.endswith(".fifo"):
        check_once(messages, bodies)
        check_order(messages)
        return
    assert {message.body for message in messages} == set(bodies)
    for body, copies in itertools.groupby(
            sorted(messages, key=lambda message: message.body), lambda message: message.body):
        copies = list(copies)
        assert len({message.uid for message in copies}) == 1
        assert sum(MARK not in message.attributes for message in copies) <= 1, f"{body} came twice without a mark"
    print(f"{len(messages) - len(bodies)} copies of {len(bodies)}")


@pytest.mark.parametrize("queue", ["q.fifo", "plain"])
def test_R12_the_sinks_tallyd_is_killed_in_flight_again_and_again(daemon_factory, outbox, relays, queue):
    """From PostgreSQL; the tallyd behind the SQS sink starts again on its folder, so it has what it had acknowledged,
    and the ids of five minutes. A FIFO queue has each row once and in the order of its group, a standard queue has
    each."""
    other = daemon_factory().start()
    make_queue(other, queue)
    relay = relays(other.endpoint)
    with Flow(lambda some: outbox.send_all(queue, some, group_of if queue.endswith(".fifo") else None)) as flow:
        kill_in_flight(other, relay, 6, itertools.cycle([0.0, 0.013, 0.037, 0.06]))
    outbox.wait_until_empty(40)
    assert outbox.dead() == []
    check_what_arrived(other, queue, flow.bodies)


@pytest.mark.parametrize("queue", ["q.fifo", "plain"])
def test_R12_from_sqlite_the_same(daemon_factory, tmp_path, queue):
    other = daemon_factory().start()
    make_queue(other, queue)
    outbox = SqliteOutbox(tmp_path / "app.db")
    relay = Relay("http://127.0.0.1:9", outbox.source, f"sqs:{other.endpoint}", "--lease", 1).start()
    try:
        with Flow(lambda some: outbox.send(some, queue, group_of if queue.endswith(".fifo") else None)) as flow:
            kill_in_flight(other, relay, 6, itertools.cycle([0.0, 0.013, 0.037, 0.06]))
        outbox.wait_until_empty(40)
        assert outbox.count("tally_dead") == 0
        check_what_arrived(other, queue, flow.bodies)
        relay.stop()
    finally:
        relay.kill9()


def test_R49_the_source_crashes_and_comes_back(daemon, server, outbox, relays):
    make_queue(daemon, "q.fifo")
    bodies = [f"{group}-{number}" for number in range(120) for group in "abcdefghijkl"]
    outbox.send_all("q.fifo", bodies, group_of)
    relay = relays(daemon.endpoint)
    wait_until(lambda: outbox.count() < len(bodies), what="progress")  # on a busy machine it may be done by then
    server.kill9()
    server.start()
    messages = drain(daemon, "q.fifo", len(bodies), seconds=40)
    check_once(messages, bodies)
    check_order(messages)
    outbox.wait_until_empty()
    relay.wait_for("active")
    relay.stop()
