"""Relays from PostgreSQL to a Tally queue: what is published once, in which order, and what waits where. The scenarios'
ids are those of docs/internals/invariants-relays.md. Whatever is counted here is counted from what arrived."""

import contextlib
import json
import shutil
import threading
import time

import pytest

from conftest import PATIENCE, wait_until
from outbox import Outbox
from queues import count_messages, make_queue
from relay import check_once, check_order, drain


@pytest.fixture
def other(server):
    return Outbox(server)


def make_queues(daemon, *names):
    for name in names:
        make_queue(daemon, name)


# --- what a row becomes -----------------------------------------------------------------------------------------------


def test_rows_arrive_once_and_leave_the_outbox(daemon, outbox, relays):
    make_queues(daemon, "orders")
    relay = relays(outbox.uri, "queue:orders")
    relay.wait_for("active")
    bodies = outbox.fill("", 5000, groups=0)
    check_once(drain(daemon, "orders", 5000), bodies)
    outbox.wait_until_empty()
    assert outbox.dead() == []
    relay.stop()


def test_a_message_has_all_that_its_row_has(daemon, outbox, relays):
    make_queues(daemon, "plain", "line.fifo")
    relays(outbox.uri, "queue")
    more = {f"a{number}": "x" for number in range(7)} | {name: "x" for name in ["traceparent", "tracestate", "baggage"]}
    uid = outbox.sql("SELECT tally.send('plain', 'b', NULL, NULL, %s, 2)::text", json.dumps(
        {"text": "ü\"\\", "number": 4.5, "raw": {"DataType": "Binary", "BinaryValue": "AAE="}, **more}))[0][0]
    at = time.monotonic()
    outbox.sql("SELECT tally.send('line.fifo', 'first', 'g', 'd'), tally.send('line.fifo', 'copy', 'g', 'd')")
    outbox.sql("SELECT tally.send('line.fifo', 'same'), tally.send('line.fifo', 'same')")
    message, = drain(daemon, "plain", 1)
    assert time.monotonic() - at > 1.5 and message.uid == uid
    assert message.attributes["text"] == "ü\"\\" and more.items() <= message.attributes.items()
    assert message.raw_attributes["number"] == {"DataType": "Number", "StringValue": "4.5"}
    assert message.raw_attributes["raw"] == {"DataType": "Binary", "BinaryValue": "AAE="}
    line = drain(daemon, "line.fifo", 3)
    assert sorted(message.body for message in line) == ["first", "same", "same"]
    first, = [message for message in line if message.body == "first"]
    assert first.group == "g" and first.system["MessageDeduplicationId"] == "d"
    outbox.wait_until_empty()
    assert outbox.dead() == []


def test_a_group_keeps_its_order(daemon, outbox, relays):
    make_queues(daemon, "line.fifo")
    outbox.fill("line.fifo", 1500, groups=7)
    relays(outbox.uri, "queue")
    bodies = outbox.fill("line.fifo", 1500, groups=7, first=1500)
    messages = drain(daemon, "line.fifo", 3000)
    check_order(messages)
    check_once(messages, outbox.bodies(1500) + bodies)


def test_an_ack_deletes_the_message_and_a_stale_one_does_nothing(daemon, outbox, relays):
    make_queues(daemon, "in")
    daemon.call("AmazonSQS.SetQueueAttributes", {"QueueUrl": "in", "Attributes": {"Tally.StaleReceipts": "refuse"}})
    relays(outbox.uri, "queue")
    daemon.call("AmazonSQS.SendMessage", {"QueueUrl": "in", "MessageBody": "x"})
    handles = []
    for _ in range(2):
        reply = daemon.call("AmazonSQS.ReceiveMessage",
                            {"QueueUrl": "in", "VisibilityTimeout": 0, "WaitTimeSeconds": 5})[1]
        handles.append(reply["Messages"][0]["ReceiptHandle"])
    outbox.sql("SELECT tally.ack(%s)", handles[0])
    outbox.wait_until_empty()
    assert count_messages(daemon, "in") == 1
    outbox.sql("SELECT tally.ack(%s)", handles[1])
    outbox.wait_until_empty()
    wait_until(lambda: count_messages(daemon, "in") == 0, what="the end of the message")
    assert outbox.dead() == []


def test_R45_a_backlog_of_large_rows_is_split(daemon_factory, outbox):
    """With quotes, which take two bytes each in the request, and with rows that the server can't take even alone."""
    from relay import Relay

    daemon = daemon_factory("--body-max", "1MiB").start()
    make_queues(daemon, "q")
    outbox.sql(
        "INSERT INTO tally.outbox (queue, body) SELECT 'q', repeat('\"', 100000) || i FROM generate_series(1, 40) i")
    outbox.sql("INSERT INTO tally.outbox (queue, body) VALUES ('q', repeat('\"', 1000000)), ('q', 'small')")
    relay = Relay(daemon.endpoint, outbox.uri, "queue").start()
    messages = drain(daemon, "q", 41)
    check_once(messages, ["\"" * 100000 + str(i) for i in range(1, 41)] + ["small"])
    outbox.wait_until_empty()
    (_, is_doubted, error), = outbox.dead()
    assert "--body-max" in error and not is_doubted
    relay.stop()


# --- answers that are lost --------------------------------------------------------------------------------------------


def test_R11_a_relay_that_dies_before_it_deletes_leaves_no_second_copy(daemon, outbox, relays):
    make_queues(daemon, "q")
    relay = relays(outbox.uri, "queue", "--lease", 1)
    relay.wait_for("active")
    relay.freeze()
    outbox.sql("SELECT tally.send('q', 'seen')")
    with contextlib.closing(outbox.connect()) as blocker, blocker.cursor() as cursor:
        cursor.execute("BEGIN; SELECT * FROM tally.outbox FOR UPDATE")  # it can be read, but not deleted
        relay.thaw()
        wait_until(lambda: count_messages(daemon, "q") == 1, what="the publish")
        relay.kill9()
        outbox.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                   "AND wait_event_type = 'Lock'")  # else it would delete the row though nobody listens
    assert outbox.count() == 1
    relays(outbox.uri, "queue", "--lease", 1, name="second")
    outbox.wait_until_empty()
    check_once(drain(daemon, "q", 1), ["seen"])


def test_R12_a_batch_whose_answer_nobody_heard_is_stored_once(daemon, outbox, relays, http_proxy):
    make_queues(daemon, "q")
    relay = relays(outbox.uri, "queue", "--lease", 1, "--endpoint", http_proxy.endpoint)
    relay.wait_for("active")
    http_proxy.lose("Tally.Publish", 1000)
    bodies = outbox.fill("q", 500, groups=0)
    wait_until(lambda: len(http_proxy.published()) >= 2, what="a repeat")
    assert all(body["Rows"] == http_proxy.published()[0]["Rows"] and body["Batch"] == 1
               for body in http_proxy.published())
    relay.kill9()
    http_proxy.lost = {}
    relays(outbox.uri, "queue", "--lease", 1, "--endpoint", http_proxy.endpoint, name="second")
    outbox.wait_until_empty()
    check_once(drain(daemon, "q", 500), bodies)


def test_R53_a_publish_that_comes_after_the_next_batch_is_refused(daemon, outbox, relays, http_proxy):
    """It is held on its way; the relay gives it up, repeats it on another line and goes on."""
    make_queue(daemon, "line.fifo")
    held, answers, is_over = [], [], threading.Event()

    def hold_the_first(target, body):
        if target != "Tally.Publish" or held:
            return None
        held.append(body)
        is_over.wait(60 * PATIENCE)
        answers.append(daemon.call(target, body))
        return answers[0][0], json.dumps(answers[0][1]).encode()

    http_proxy.answer = hold_the_first
    relay = relays(outbox.uri, "queue", "--lease", 1, "--endpoint", http_proxy.endpoint)
    relay.wait_for("active, epoch 1")
    bodies = outbox.fill("line.fifo", 200, groups=5)
    outbox.wait_until_empty()
    bodies += outbox.fill("line.fifo", 200, groups=5, first=200)
    outbox.wait_until_empty()
    passed = http_proxy.published()
    assert passed[0] == held[0] and held[0]["Batch"] == 1, "the same, once more"
    assert passed[-1]["Batch"] >= 2 and passed[-1]["Epoch"] == held[0]["Epoch"]
    arrived = drain(daemon, "line.fifo", 400)  # consumed: a copy of one would be seen
    is_over.set()
    wait_until(lambda: answers, what="the answer to the one that was held")
    assert answers[0][0] == 400 and "PublisherBatchOutOfOrder" in answers[0][1]["__type"], answers
    bodies += outbox.fill("line.fifo", 100, groups=5, first=400)
    arrived += drain(daemon, "line.fifo", 100)
    check_once(arrived, bodies)
    check_order(arrived)
    assert relay.state == "active, epoch 1" and len(http_proxy.bodies_of("Tally.OpenPublisher")) == 1
    assert http_proxy.published()[-1]["Batch"] == passed[-1]["Batch"] + 1, "nothing was counted for it"


def test_R14_nothing_is_confirmed_before_it_has_left(daemon, outbox, relays, http_proxy):
    """No batch leaves while the answer to the last one is awaited, and what a batch confirms is not in the outbox any
    more."""
    make_queues(daemon, "q")
    ids_of, faults = {}, []
    connection = outbox.connect()

    def watch(target, body):
        if target != "Tally.Publish":
            return
        if body["Batch"] > 1 and body["Batch"] - 1 not in ids_of:
            faults.append(f"batch {body['Batch']} came too early")
        confirmed = [i for batch, ids in ids_of.items() if batch <= body["ConfirmedBatch"] for i in ids]
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM tally.outbox WHERE id = ANY (%s)", (confirmed,))
            if cursor.fetchone()[0] > 0:
                faults.append(f"batch {body['Batch']} confirms rows that are there")
        if body["Batch"] % 3 == 1 and body["Batch"] not in ids_of:
            http_proxy.lose("Tally.Publish")
        ids_of[body["Batch"]] = [row["Id"] for row in body["Rows"]]

    http_proxy.watch = watch
    bodies = outbox.fill("q", 6000, groups=0)
    relays(outbox.uri, "queue", "--endpoint", http_proxy.endpoint)
    outbox.wait_until_empty()
    bodies += outbox.fill("q", 10, first=6000, groups=0)
    outbox.wait_until_empty()
    connection.close()
    assert not faults, faults[:3]
    assert http_proxy.published()[-1]["ConfirmedBatch"] >= 6
    check_once(drain(daemon, "q", 6010), bodies)


def test_relays_that_are_killed_again_and_again_lose_and_repeat_nothing(daemon, outbox, relays):
    make_queues(daemon, "line.fifo")
    bodies = []
    for round_ in range(4):
        relay = relays(outbox.uri, "queue", "--lease", 1, name=f"r{round_}")
        bodies += outbox.fill("line.fifo", 2000, groups=5, first=len(bodies))
        relay.wait_for("active")
        wait_until(lambda: outbox.count() < 2000, what="some work")
        relay.kill9()
    relays(outbox.uri, "queue", "--lease", 1, name="last")
    outbox.wait_until_empty()
    messages = drain(daemon, "line.fifo", len(bodies))
    check_once(messages, bodies)
    check_order(messages)


# --- outages ----------------------------------------------------------------------------------------------------------


def test_R19_a_sink_that_was_down_gets_everything_and_no_stampede(daemon, outbox, relays, http_proxy):
    make_queues(daemon, "q")
    relay = relays(outbox.uri, "queue", "--lease", 1, "--endpoint", http_proxy.endpoint)
    relay.wait_for("active")
    http_proxy.is_down = True
    bodies = outbox.fill("q", 3000, groups=0)
    relay.wait_for("blocked")
    tries = http_proxy.refusals
    wait_until(lambda: len(tries) >= 7, what="seven tries")
    assert tries[6] - tries[0] > 0.7, "two at once, then after 50, 100, 200, 400 and 800 ms, each less up to a half"
    daemon.kill9()
    daemon.start()
    http_proxy.is_down = False
    relay.wait_for("active")
    check_once(drain(daemon, "q", 3000), bodies)
    outbox.wait_until_empty()
    assert outbox.dead() == []


def test_a_relay_that_starts_before_its_sink_waits_for_it(daemon, outbox, relays):
    make_queues(daemon, "q")
    daemon.kill9()
    relay = relays(outbox.uri, "queue:q", "--lease", 1)
    assert "can't reach" in relay.wait_for("blocked")
    bodies = outbox.fill("", 10, groups=0)
    daemon.start()
    relay.wait_for("active")
    check_once(drain(daemon, "q", 10), bodies)


def test_R52_a_missing_queue_blocks_what_goes_there_and_nothing_else(daemon, outbox, relays):
    make_queues(daemon, "there", "gone")
    relay = relays(outbox.uri, "queue", "--lease", 1)
    relay.wait_for("active")
    daemon.call("AmazonSQS.DeleteQueue", {"QueueUrl": "gone"})
    waiting = outbox.fill("gone", 1500, prefix="w-", groups=0)
    bodies = outbox.fill("there", 1500, groups=0)
    check_once(drain(daemon, "there", 1500), bodies)
    assert "queue" in relay.wait_for("blocked")
    wait_until(lambda: outbox.count() == 1500, what="only the blocked rows")
    more = outbox.fill("there", 10, first=1500, groups=0)
    check_once(drain(daemon, "there", 10), more)
    assert outbox.dead() == []
    make_queues(daemon, "gone")
    check_once(drain(daemon, "gone", 1500, seconds=60), waiting)  # they may wait for half a minute
    outbox.wait_until_empty()
    relay.wait_for("active", 60)


NO_TALLY = {
    "an empty object": b"{}",
    "no JSON": b"<html>log in first</html>",
    "no list": b'{"Stored": 40, "Results": {}}',
    "too few": b'{"Stored": 39, "Results": []}',
    "nobody's row": b'{"Stored": 39, "Results": [{"Id": 99999999, "Status": "duplicate"}]}',
}


@pytest.mark.parametrize("kind", NO_TALLY)
def test_P5_a_200_from_something_that_is_no_tally_is_no_delivery(daemon, outbox, relays, http_proxy, kind):
    """No row leaves the outbox for it, and when a Tally answers each is there once."""
    make_queues(daemon, "q")
    relay = relays(outbox.uri, "queue", "--lease", 1, "--endpoint", http_proxy.endpoint)
    relay.wait_for("active")
    http_proxy.answer = lambda target, body: (200, NO_TALLY[kind]) if target == "Tally.Publish" else None
    bodies = outbox.fill("q", 40, groups=0)
    wait_until(lambda: len(http_proxy.answered) >= 3, what="some tries")
    assert outbox.count() == 40 and count_messages(daemon, "q") == 0 and outbox.dead() == []
    wait_until(lambda: any(line.startswith("blocked") for line in relay.lines), what="the alarm")
    http_proxy.answer = None
    check_once(drain(daemon, "q", 40), bodies)
    outbox.wait_until_empty()
    assert outbox.dead() == []


def test_P5_who_opens_the_sink_and_is_no_tally_is_not_taken_for_one(daemon, outbox, relays, http_proxy):
    make_queues(daemon, "q")
    http_proxy.answer = lambda target, body: (200, b"{}") if target == "Tally.OpenPublisher" else None
    bodies = outbox.fill("q", 40, groups=0)
    relay = relays(outbox.uri, "queue", "--lease", 1, "--endpoint", http_proxy.endpoint)
    wait_until(lambda: len(http_proxy.answered) >= 2, what="some tries")
    assert outbox.count() == 40 and not http_proxy.published()
    http_proxy.answer = None
    check_once(drain(daemon, "q", 40), bodies)
    relay.wait_for("active")


def test_R52_a_sink_that_restarts_without_its_queue_gets_no_row_deleted(daemon, outbox, relays):
    """It comes back with nothing in its folder: neither the queue nor what it knew of the outbox. Rows wait, and the
    state says why."""
    make_queues(daemon, "q.fifo")
    bodies = outbox.fill("q.fifo", 500, groups=5)
    relay = relays(outbox.uri, "queue", "--lease", 1)
    check_once(drain(daemon, "q.fifo", 500), bodies)
    outbox.wait_until_empty()
    daemon.kill9()
    shutil.rmtree(daemon.data)
    daemon.start()
    bodies = outbox.fill("q.fifo", 500, groups=5, first=500)
    wait_until(lambda: "all that goes to queue q.fifo" in relay.state and "NonExistentQueue" in relay.state,
               what="the alarm")
    assert outbox.count() == 500 and outbox.dead() == []
    make_queues(daemon, "q.fifo")
    messages = drain(daemon, "q.fifo", 500)
    check_once(messages, bodies)
    check_order(messages)
    outbox.wait_until_empty()
    relay.wait_for("active")


def test_R54_a_batch_out_of_turn_writes_nothing_of_another_queue_twice(daemon, outbox, relays, http_proxy):
    """Batches of two queues are stored and answered as if they were out of turn, and others are answered so without
    being stored: the relay begins anew, asks what is there, and each row of both queues is there once."""
    make_queues(daemon, "one.fifo", "two.fifo")
    out_of_turn = json.dumps({"__type": "com.tally#PublisherBatchOutOfOrder", "message": "a test wants it so"}).encode()
    count = [0]

    def answer(target, body):
        if target != "Tally.Publish":
            return None
        count[0] += 1
        if count[0] % 3 == 0 and count[0] < 12:
            if count[0] % 2 == 0:
                assert daemon.call(target, body)[0] == 200
            return 400, out_of_turn
        return None

    http_proxy.answer = answer
    relays(outbox.uri, "queue", "--lease", 1, "--endpoint", http_proxy.endpoint).wait_for("active")
    bodies = {"one.fifo": [], "two.fifo": []}

    def send_both():
        for queue in bodies:
            bodies[queue] += outbox.fill(queue, 5, groups=2, first=len(bodies[queue]))
        return count[0] > 12

    wait_until(send_both, 40, "enough batches")
    outbox.wait_until_empty(40)
    assert len(http_proxy.answered) == 3
    for queue, sent in bodies.items():
        messages = drain(daemon, queue, len(sent))
        check_once(messages, sent)
        check_order(messages)
    assert outbox.dead() == []


# --- order when something stays behind --------------------------------------------------------------------------------


def test_R20_what_waits_is_not_overtaken_by_its_group(daemon, outbox, relays):
    """Row 1 of a group can't go, row 2 could: to the same queue, to another one, and of other groups."""
    make_queues(daemon, "a.fifo")
    relays(outbox.uri, "queue", "--lease", 1)
    outbox.sql("SELECT tally.send('gone.fifo', 'k-1', 'k')")
    outbox.sql("SELECT tally.send('a.fifo', 'k-2', 'k'), tally.send('a.fifo', 'other-1', 'o')")
    check_once(drain(daemon, "a.fifo", 1), ["other-1"])
    outbox.sql("SELECT tally.send('a.fifo', 'k-3', 'k'), tally.send('a.fifo', 'other-2', 'o')")
    outbox.sql("SELECT tally.send('gone.fifo', 'l-1', 'l')")
    check_once(drain(daemon, "a.fifo", 1), ["other-2"])
    assert outbox.count() == 4
    make_queues(daemon, "gone.fifo")
    assert [message.body for message in drain(daemon, "a.fifo", 2)] == ["k-2", "k-3"]
    check_once(drain(daemon, "gone.fifo", 2), ["k-1", "l-1"])
    outbox.wait_until_empty()


def test_in_strict_order_nothing_passes_what_waits(daemon, outbox, relays):
    make_queues(daemon, "a")
    relay = relays(outbox.uri, "queue", "--lease", 1, "--order", "strict")
    outbox.fill("a", 50, groups=0)
    outbox.sql("SELECT tally.send('gone', 'x')")
    outbox.fill("a", 50, first=50, groups=0)
    relay.wait_for("blocked")
    check_once(drain(daemon, "a", 50), [str(i) for i in range(50)])
    wait_until(lambda: outbox.count() == 51, what="what went before")
    make_queues(daemon, "gone")
    check_once(drain(daemon, "a", 50), [str(i) for i in range(50, 100)])
    outbox.wait_until_empty()


BAD = '{"x": {"DataType": "Nonsense", "StringValue": "1"}}'


def test_R18_a_refused_row_is_parked_alone(daemon, outbox, relays):
    make_queues(daemon, "line.fifo")
    outbox.fill("line.fifo", 20, groups=2)
    outbox.sql("SELECT tally.send('line.fifo', 'bad', 'g0', NULL, %s)", BAD)
    outbox.fill("line.fifo", 20, groups=2, first=20)
    relays(outbox.uri, "queue")
    messages = drain(daemon, "line.fifo", 40)
    check_once(messages, [str(i) for i in range(40)])
    check_order(messages)
    outbox.wait_until_empty()
    (body, is_doubted, error), = outbox.dead()
    assert body == "bad" and "attribute 'x' is invalid" in error and not is_doubted


def test_R18_a_refused_row_holds_its_group_if_asked(daemon, outbox, relays):
    make_queues(daemon, "line.fifo")
    outbox.sql("SELECT tally.send('line.fifo', 'bad-0', 'g0', NULL, %s)", BAD)
    outbox.fill("line.fifo", 20, groups=2, first=1)
    relay = relays(outbox.uri, "queue", "--refused", "block", "--lease", 1)
    check_once(drain(daemon, "line.fifo", 10), [str(i) for i in range(1, 21) if i % 2 == 1])
    assert "was refused" in relay.wait_for("blocked")
    assert outbox.count() == 11 and outbox.dead() == []
    outbox.sql("UPDATE tally.outbox SET attributes = NULL WHERE body = 'bad-0'")
    messages = drain(daemon, "line.fifo", 11)
    assert [message.body for message in messages] == ["bad-0"] + [str(i) for i in range(1, 21) if i % 2 == 0]
    outbox.wait_until_empty()
    relay.wait_for("active")


def test_R43_a_character_that_no_message_may_have_is_parked_alone(daemon, outbox, relays):
    make_queues(daemon, "q")
    outbox.fill("q", 10, groups=0)
    outbox.sql("SELECT tally.send('q', 'bad', NULL, NULL, %s)", '{"x": "a\\u0001b"}')
    outbox.fill("q", 10, first=10, groups=0)
    relays(outbox.uri, "queue")
    check_once(drain(daemon, "q", 20), [str(i) for i in range(20)])
    outbox.wait_until_empty()
    assert [row[0] for row in outbox.dead()] == ["bad"]
    for body in ("", None, "a\u0001", "x" * 1048577):
        with pytest.raises(Exception, match="body"):
            outbox.sql("SELECT tally.send('q', %s)", body)


def test_R58_a_parked_row_that_is_sent_again_comes_once_and_last(daemon, outbox, relays):
    make_queues(daemon, "line.fifo")
    relays(outbox.uri, "queue")
    outbox.sql("SELECT tally.send('line.fifo', 'k-9', 'k', NULL, %s)", BAD)
    outbox.sql("SELECT tally.send('line.fifo', 'k-1', 'k'), tally.send('line.fifo', 'k-2', 'k')")
    wait_until(lambda: len(outbox.dead()) == 1, what="the parked row")
    outbox.sql("WITH x AS (DELETE FROM tally.dead RETURNING *) INSERT INTO tally.outbox (uid, queue, group_id, body) "
               "SELECT uid, queue, group_id, body FROM x")
    messages = drain(daemon, "line.fifo", 3)
    assert [message.body for message in messages] == ["k-1", "k-2", "k-9"]
    outbox.wait_until_empty()


# --- other sources and copies -----------------------------------------------------------------------------------------


def test_R28_a_relay_that_loses_its_lease_does_not_stop_another(daemon, outbox, other, relays):
    make_queues(daemon, "q")
    first = relays(outbox.uri, "queue", "--lease", 1, name="first")
    second = relays(other.uri, "queue", "--lease", 10, name="second")
    first.wait_for("active")
    second.wait_for("active")
    outbox.sql("UPDATE tally.lease SET epoch = epoch + 1, owner = gen_random_uuid()")
    # It is told what state the relay is in a few times a second: where the next term begins at once, it hears of that.
    wait_until(lambda: first.lines[-1] != "active, epoch 1", what="the end of the first term")
    bodies = other.fill("q", 100, groups=0)
    check_once(drain(daemon, "q", 100), bodies)
    assert second.state == "active, epoch 1" and second.lines.count("active, epoch 1") == 1
    wait_until(lambda: first.epoch > 1, what="another term")


def test_R30_of_a_database_and_its_copy_the_queue_hears_one_at_a_time(daemon, outbox, other, relays):
    """A copy brings rows along that are still in the original: they are delivered once, and leave both. What is written
    in the one or the other later is lost in neither, and whom the queue does not hear says so."""
    make_queues(daemon, "q")
    bodies = outbox.fill("q", 50, prefix="both-", groups=0)
    rows = outbox.sql("SELECT id, uid, queue, body FROM tally.outbox")
    identity, = outbox.sql("SELECT source_id FROM tally.lease")[0]
    other.sql("UPDATE tally.lease SET source_id = %s", identity)
    for row in rows:
        other.sql(
            "INSERT INTO tally.outbox (id, uid, queue, body) OVERRIDING SYSTEM VALUE VALUES (%s, %s, %s, %s)", *row)
    other.sql("SELECT setval('tally.outbox_id_seq', 50)")  # so that both give the same ids from now on
    first = relays(outbox.uri, "queue", "--lease", 1, name="first")
    first.wait_for("active")
    second = relays(other.uri, "queue", "--lease", 1, name="second")
    second.wait_for("active")
    bodies += outbox.fill("q", 50, prefix="a-", groups=0) + other.fill("q", 50, prefix="b-", groups=0)
    alarm = "failed: fenced: the queue hears another owner of this outbox, of which this database knows nothing"
    for n in range(20):  # each has something to say, again and again
        bodies += outbox.fill("q", 1, prefix="more-a-", first=n, groups=0) + other.fill(
            "q", 1, prefix="more-b-", first=n, groups=0)
        if any(line.startswith(alarm) for line in first.lines + second.lines):
            break
        time.sleep(0.2)
    wait_until(lambda: any(line.startswith(alarm) for line in first.lines + second.lines), what="the alarm")
    assert all("tally.rekey()" in line for line in first.lines + second.lines if line.startswith("failed"))
    check_once(drain(daemon, "q", len(bodies), seconds=40), bodies)
    outbox.wait_until_empty(40)
    other.wait_until_empty(40)
    assert outbox.dead() == other.dead() == []


def test_R36_a_row_that_a_failover_brings_back_is_known(daemon, outbox, relays):
    make_queues(daemon, "q")
    relay = relays(outbox.uri, "queue")
    relay.wait_for("active")
    uid = outbox.sql("SELECT tally.send('q', 'once')::text")[0][0]
    outbox.wait_until_empty()
    outbox.fill("q", 5, groups=0)
    outbox.wait_until_empty()
    outbox.sql(
        "INSERT INTO tally.outbox (id, uid, queue, body) OVERRIDING SYSTEM VALUE VALUES (1, %s, 'q', 'once')", uid)
    # Below the settled floor. With the failover every connection ends, and behind that all rows are read.
    outbox.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> "
               "pg_backend_pid()")
    outbox.wait_until_empty()
    check_once(drain(daemon, "q", 6), ["once"] + [str(i) for i in range(5)])


def test_R37_R38_after_a_failover_that_lost_rows_ids_name_other_rows(daemon, outbox, relays):
    make_queues(daemon, "q")
    relay = relays(outbox.uri, "queue", "--lease", 1)
    bodies = outbox.fill("q", 10, prefix="lost-", groups=0)
    outbox.wait_until_empty()
    relay.stop()  # as after a failover, which ends every connection
    outbox.sql("ALTER TABLE tally.outbox ALTER id RESTART")
    bodies += outbox.fill("q", 10, prefix="new-", groups=0)
    relays(outbox.uri, "queue", "--lease", 1, name="second")
    outbox.wait_until_empty()
    check_once(drain(daemon, "q", 20), bodies)
