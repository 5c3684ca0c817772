"""An outbox in SQLite, the application being Python's own sqlite3: every committed row arrives once, rows that were
rolled back never, and the order of each group is that of the commits, whatever is killed, stopped or restored. R… stand
in docs/internals/invariants-relays.md; where SQLite makes one of them look different, the test says what stands for
what."""

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import threading
import time

import pytest

from conftest import PATIENCE, clean_environment, wait_until
from outbox_checks import check_an_owner_that_outlived_its_lease, check_what_may_have_arrived_is_listed
from outbox_sqlite import SqliteOutbox, send
from queues import make_queue
from relay import check_once, check_order, drain, numbered, outbox_schema
from wire import Connection


@pytest.fixture
def outbox(tmp_path, daemon):
    for name in ("orders", "orders.fifo"):
        make_queue(daemon, name)
    return SqliteOutbox(tmp_path / "app.db")


# --- what is delivered -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_R01_what_commits_is_delivered_and_what_rolls_back_never(daemon, relays, outbox, tmp_path, mode):
    """R01 has two open transactions, of which the later one has the higher id and commits first. SQLite has one writer:
    the second waits for the first, so here is shown that it does, and that neither the one that rolls back nor the wait
    is seen."""
    outbox = SqliteOutbox(tmp_path / f"{mode}.db", mode)
    relays(outbox.source, "queue", "--lease", 1).wait_for("active")
    first, second = outbox.connect(), outbox.connect()
    first.execute("BEGIN IMMEDIATE")
    send(first, ["first"])
    later = threading.Thread(target=lambda: send(second, ["second"]))
    later.start()
    with contextlib.closing(outbox.connect()) as third:
        third.execute("PRAGMA busy_timeout = 1")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            send(third, ["never"])
    assert drain(daemon, "orders") == []
    first.execute("COMMIT")
    later.join()
    first.execute("BEGIN IMMEDIATE")
    send(first, ["rolled back"])
    first.execute("ROLLBACK")
    outbox.send(["third"])
    messages = drain(daemon, "orders", 3)
    check_once(messages, ["first", "second", "third"])
    assert [message.body for message in messages] == ["first", "second", "third"]
    first.close()
    second.close()


def test_all_that_a_row_says_arrives(daemon, relays, outbox):
    relays(outbox.source, "queue").wait_for("active")
    ten = {f"a{number}": "x" for number in range(7)} | {name: "x" for name in ["traceparent", "tracestate", "baggage"]}
    with outbox.transaction() as db:
        [(uid,)] = db.execute(
            "INSERT INTO tally_outbox(queue, group_id, dedup_id, attributes, body) VALUES ('orders.fifo', 'g', 'd', ?, "
            "?) RETURNING uid",
            (json.dumps({"colour": "grün", "size": 7, "raw": {"DataType": "Binary", "BinaryValue": "AAE="}, **ten}),
                              "Grüße\n\U0001f600")).fetchall()
    [message] = drain(daemon, "orders.fifo", 1)
    assert message.body == "Grüße\n\U0001f600"
    assert message.uid == uid and message.group == "g"
    assert message.attributes["colour"] == "grün" and message.attributes["size"] == "7"
    assert message.raw_attributes["size"]["DataType"] == "Number"
    assert message.raw_attributes["raw"]["BinaryValue"] == "AAE="
    assert message.raw_attributes.keys() >= {"colour", "size", "raw", "Tally.OutboxId", *ten}
    assert message.system["MessageDeduplicationId"] == "d"


def test_C01_effect_and_ack_are_one_transaction(daemon, relays, outbox):
    """A consumer that crashes before the ack gets the message again and finds the effect done; the ack is a row of the
    transaction."""
    relays(outbox.source, "queue").wait_for("active")
    queue = Connection(daemon.port)
    sent = queue.ok("AmazonSQS.SendMessage", {"QueueUrl": "orders", "MessageBody": "pay"})["MessageId"]
    once = "INSERT INTO tally_inbox(message_id) VALUES (?) ON CONFLICT DO NOTHING RETURNING 1"

    def receive(visibility):
        return queue.ok("AmazonSQS.ReceiveMessage", {"QueueUrl": "orders", "VisibilityTimeout": visibility,
                                                     "WaitTimeSeconds": 5})["Messages"][0]

    receive(1)
    with outbox.transaction() as db:
        assert db.execute(once, (sent,)).fetchall() == [(1,)]
        db.execute("INSERT INTO effect VALUES ('paid')")
    again = receive(600)  # the consumer crashed before its ack
    with outbox.transaction() as db:
        assert db.execute(once, (sent,)).fetchall() == []
        db.execute("INSERT INTO tally_outbox(kind, body) VALUES (1, ?)", (again["ReceiptHandle"],))

    def is_gone():
        counts = (
            queue.ok("AmazonSQS.GetQueueAttributes", {"QueueUrl": "orders", "AttributeNames": ["All"]})["Attributes"])
        return counts["ApproximateNumberOfMessagesNotVisible"] == counts["ApproximateNumberOfMessages"] == "0"

    wait_until(is_gone, what="the delete of the message")
    outbox.wait_until_empty()
    assert outbox.count("effect") == 1
    queue.close()


@pytest.mark.parametrize("verb", ["INSERT", "REPLACE", "INSERT OR IGNORE", "INSERT OR REPLACE", "INSERT OR FAIL",
                                  "INSERT OR ABORT", "INSERT OR ROLLBACK"])
def test_what_raises_does_so_whatever_the_insert_says_of_conflicts(outbox, verb):
    once = f"{verb} INTO tally_once_or_raise(message_id, consumer) VALUES (?, ?)"
    done = pytest.raises(sqlite3.IntegrityError, match="^already done: ROLLBACK, then delete the message$")
    for message_id, consumer in [("m", "mail"), ("m", ""), (17, 18)]:
        with outbox.transaction() as db:
            db.execute(once, (message_id, consumer))
        for again in (message_id, str(message_id)):
            with done, outbox.transaction() as db:
                db.execute("INSERT INTO effect VALUES ('by the way')")
                db.execute(once, (again, consumer))
    with done, outbox.transaction() as db:
        db.execute(f"{verb} INTO tally_once_or_raise(message_id) VALUES ('m')")
    for wrong in (None, "", b"", "x" * 501) if verb != "INSERT OR ROLLBACK" else ():
        with pytest.raises(sqlite3.IntegrityError, match="message_id"), outbox.transaction() as db:
            db.execute(once, (wrong, ""))
    assert outbox.count("effect") == 0
    assert outbox.ask("SELECT * FROM tally_once_or_raise ORDER BY 1, 2") == [("17", "18"), ("m", ""), ("m", "mail")]


def test_what_raises_and_what_answers_note_in_the_same_inbox(outbox):
    answers = "INSERT INTO tally_inbox(message_id) VALUES (?) ON CONFLICT DO NOTHING RETURNING 1"
    raises = "INSERT INTO tally_once_or_raise(message_id) VALUES (?)"
    assert outbox.ask(raises, "a") == [] and outbox.ask(answers, "a") == []
    assert outbox.ask(answers, "b") == [(1,)]
    with pytest.raises(sqlite3.IntegrityError, match="already done"):
        outbox.ask(raises, "b")
    with contextlib.closing(outbox.connect()) as db:  # the tables may be made again
        db.executescript(outbox_schema("sqlite"))
    with pytest.raises(sqlite3.IntegrityError, match="already done"):
        outbox.ask(raises, "a")


def test_a_transaction_that_is_run_as_it_stands_stops_at_what_raises(outbox):
    """By the tool sqlite3, if it is told to stop at an error."""
    pasted = """BEGIN IMMEDIATE;
        INSERT INTO tally_once_or_raise(message_id) VALUES ('m');
        INSERT INTO effect VALUES ('done');
        COMMIT;"""
    for status in 0, 1:
        done = subprocess.run(["sqlite3", "-bail", outbox.path], input=pasted, capture_output=True, text=True,
                              timeout=60 * PATIENCE, env=clean_environment(), check=False)
        assert done.returncode == status and ("already done" in done.stderr) == (status == 1), done.stderr
    assert outbox.count("effect") == 1


def test_the_statements_of_the_documentation_work(outbox):
    documented = re.findall(r"^--   (INSERT .*;)$", outbox_schema("sqlite"), re.M)
    assert len(documented) == 4
    with outbox.transaction() as db:
        for at, statement in enumerate(documented):  # each with values of its own
            db.execute(statement, {name: f"{name} {at}" for name in re.findall(r":(\w+)", statement)}).fetchall()
        [statement] = re.findall(r"^-- (UPDATE tally_lease .*?;)$", outbox_schema("sqlite"), re.M | re.S)
        before = db.execute("SELECT source_id FROM tally_lease").fetchone()
        db.execute(statement.replace("\n--", " "))
        after = db.execute("SELECT source_id FROM tally_lease").fetchone()
    assert outbox.count() == 2 and outbox.count("tally_inbox") == 2
    assert before != after and re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}", after[0])


def test_R43_R18_what_no_sink_takes_is_refused_at_once_and_a_bad_character_is_parked_alone(daemon, relays, outbox):
    for body, attributes in [(None, None), ("", None), ("x" * 1048577, None), (b"bytes", None), ("a\0b", None),
                             ("x", "[]"), ("x", '{"a": ""}'),
                             ("x", json.dumps({f"a{number}": number for number in range(11)}))]:
        with pytest.raises(sqlite3.IntegrityError), outbox.transaction() as db:
            db.execute("INSERT INTO effect VALUES ('with a bad row')")
            db.execute("INSERT INTO tally_outbox(queue, attributes, body) VALUES ('orders', ?, ?)", (attributes, body))
    assert outbox.count("effect") == 0
    outbox.send(["a-0", "a-\x01", "a-1"], "orders.fifo", "a")
    outbox.send(["b-0"], "orders.fifo", "b")
    relays(outbox.source, "queue").wait_for("active")
    messages = drain(daemon, "orders.fifo", 3)
    check_once(messages, ["a-0", "a-1", "b-0"])
    check_order(messages)
    outbox.wait_until_empty()
    [(body, error, is_doubted)] = outbox.ask("SELECT body, error, is_doubted FROM tally_dead")
    assert body == "a-\x01" and "haracter" in error and is_doubted == 0


# --- crashes ---------------------------------------------------------------------------------------------------------


def test_R11_acknowledged_but_not_deleted_is_not_delivered_twice(daemon, relays, outbox):
    """The application holds the only write lock while the queue acknowledges, so the relay can't delete; then it is
    killed. The queue stands still until the lock is held."""
    relay = relays(outbox.source, "queue", "--lease", 1)
    relay.wait_for("active")
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        outbox.send(numbered("row", 50))
        lock = outbox.connect()
        lock.execute("BEGIN IMMEDIATE")  # the writer that keeps all others out
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    messages = drain(daemon, "orders", 50)
    relay.kill9()
    assert outbox.count() == 50
    lock.execute("ROLLBACK")
    lock.close()
    relays(outbox.source, "queue", "--lease", 1).wait_for("active")
    outbox.wait_until_empty()
    check_once(messages + drain(daemon, "orders"), numbered("row", 50))


def test_R09_rows_of_one_large_transaction_arrive_once_and_in_order_over_crashes(daemon, relays, outbox):
    """R09 has 50,000 rows; 6,000 are six publishes, and the relay is killed in the middle."""
    with outbox.transaction() as db:
        for group in range(3):
            send(db, numbered(f"g{group}", 2000), "orders.fifo", f"g{group}")
    while outbox.count() > 0:
        relay = relays(outbox.source, "queue", "--lease", 1)
        relay.wait_for("active")
        before = outbox.count()
        wait_until(lambda: outbox.count() < before or outbox.count() == 0)
        relay.kill9()
    messages = drain(daemon, "orders.fifo", 6000, seconds=60)
    check_once(messages, [body for group in range(3) for body in numbered(f"g{group}", 2000)])
    check_order(messages)


class Writers:
    """Threads that write all the time, rows of a group each, in transactions of which some are long and some roll
    back."""

    def __init__(self, outbox, groups):
        self.outbox = outbox
        self.committed = []
        self.is_ended = threading.Event()
        self.threads = [threading.Thread(target=self._write, args=(f"g{group}",)) for group in range(groups)]
        for thread in self.threads:
            thread.start()

    def _write(self, group):
        numbers = itertools.count()
        for turn in itertools.count():
            if self.is_ended.wait(0.005):
                return
            bodies = [f"{group}-{next(numbers)}" for _ in range(turn % 7 + 1)]
            with contextlib.suppress(ZeroDivisionError), self.outbox.transaction() as db:
                send(db, bodies, "orders.fifo", group)
                if turn % 20 == 0:
                    time.sleep(0.1)
                if turn % 5 == 0:
                    raise ZeroDivisionError
                self.committed += bodies

    def end(self):
        self.is_ended.set()
        for thread in self.threads:
            thread.join()
        return self.committed


def test_R26_a_standby_takes_over_at_once_whenever_the_owner_is_killed(daemon, relays, outbox):
    """With a lease of 30 seconds nobody could wait for it: the kernel gives the dead owner's lock back. Writers go on
    all the time."""
    active = relays(outbox.source, "queue", "--lease", 30, name="r0")
    active.wait_for("active")
    writers = Writers(outbox, 4)
    late = []
    try:
        for turn in range(1, 9):
            standby = relays(outbox.source, "queue", "--lease", 30, name=f"r{turn}")
            standby.wait_for("standby")
            time.sleep(0.1)
            active.kill9()
            killed = time.monotonic()
            standby.wait_for("active")
            late.append(time.monotonic() - killed)
            active = standby
    finally:
        committed = writers.end()
    outbox.wait_until_empty()
    assert max(late) < 5 * PATIENCE, late
    messages = drain(daemon, "orders.fifo", len(committed), seconds=60)
    check_once(messages, committed)
    check_order(messages)


def test_R21_a_stopped_owner_is_fenced_when_it_goes_on(daemon, relays, outbox):
    """Stopped, it keeps its lock; the beat gives it away. Back, it becomes a stand-by and leaves the epoch as it is."""
    first = relays(outbox.source, "queue", "--lease", 1, name="first")
    first.wait_for("active")
    second = relays(outbox.source, "queue", "--lease", 1, name="second")
    second.wait_for("standby")
    writers = Writers(outbox, 3)
    try:
        for _ in range(2):
            outbox.freeze_outside(first)
            second.wait_for("active")
            epoch = second.epoch
            first.thaw()
            first.wait_for("standby")
            time.sleep(0.3)
            assert first.state == "standby" and second.state == f"active, epoch {epoch}"
            first, second = second, first
    finally:
        committed = writers.end()
    outbox.wait_until_empty()
    assert outbox.ask("SELECT epoch FROM tally_lease") == [(epoch,)]
    messages = drain(daemon, "orders.fifo", len(committed), seconds=60)
    check_once(messages, committed)
    check_order(messages)


def test_R47_of_relays_that_start_together_one_works(daemon, relays, outbox):
    outbox.send(numbered("row", 500))
    all_of_them = [relays(outbox.source, "queue", name=f"r{number}") for number in range(4)]
    wait_until(lambda: all(relay.state for relay in all_of_them))
    wait_until(lambda: sorted(relay.state.split(",")[0] for relay in all_of_them) == ["active"] + 3 * ["standby"])
    outbox.wait_until_empty()
    check_once(drain(daemon, "orders", 500), numbered("row", 500))
    assert outbox.ask("SELECT epoch FROM tally_lease") == [(1,)]


def test_R55_an_epoch_of_two_to_the_fortieth_is_taken_over_as_any_other(daemon, relays, outbox):
    outbox.ask("UPDATE tally_lease SET epoch = ?", (1 << 40) - 1)
    first = relays(outbox.source, "queue", "--lease", 1, name="first")
    first.wait_for(f"active, epoch {1 << 40}")
    second = relays(outbox.source, "queue", "--lease", 1, name="second")
    second.wait_for("standby")
    bodies = numbered("m", 400)
    outbox.send(bodies[:200])
    first.kill9()
    outbox.send(bodies[200:])
    second.wait_for(f"active, epoch {(1 << 40) + 1}")
    outbox.wait_until_empty()
    check_once(drain(daemon, "orders", 400), bodies)
    assert outbox.ask("SELECT epoch FROM tally_lease") == [((1 << 40) + 1,)]


def test_a_relay_that_is_stopped_is_followed_at_once(daemon, relays, outbox):
    first = relays(outbox.source, "queue", "--lease", 30, name="first")
    first.wait_for("active")
    second = relays(outbox.source, "queue", "--lease", 30, name="second")
    second.wait_for("standby")
    outbox.send(numbered("row", 100))
    first.stop()
    second.wait_for("active", seconds=10)
    outbox.wait_until_empty()
    check_once(drain(daemon, "orders", 100), numbered("row", 100))


def test_a_relay_of_the_daemon_goes_on_after_kill_9_and_lists_what_it_parked(daemon, outbox):
    """Daemon, queues, relay and the end of the world in one process: its connections to SQLite and its locks end with
    it."""
    arguments = {"RelayName": "shop", "Source": {"Type": "sqlite", "Connection": str(outbox.path)},
                 "Sink": {"Type": "queue"}}
    assert daemon.call("Tally.CreateRelay", arguments)[0] == 200
    writers = Writers(outbox, 3)
    for _ in range(3):
        before = outbox.ask("SELECT seq FROM sqlite_sequence WHERE name = 'tally_outbox'")
        wait_until(lambda: outbox.ask("SELECT seq FROM sqlite_sequence WHERE name = 'tally_outbox'") > before)
        time.sleep(0.2)
        daemon.kill9()
        daemon.start()
    committed = writers.end()
    outbox.send(["bad-\x01"], "orders.fifo", "bad")
    outbox.wait_until_empty()
    messages = drain(daemon, "orders.fifo", len(committed), seconds=60)
    check_once(messages, committed)
    check_order(messages)
    [doubt] = wait_until(lambda: daemon.call("Tally.ListDoubts", {"RelayName": "shop"})[1]["Doubts"],
                         what="the parked row")
    assert doubt["IsInDoubt"] is False and doubt["QueueName"] == "orders.fifo"
    assert daemon.call("Tally.ResolveDoubt", {"RelayName": "shop", "Uid": doubt["Uid"], "Action": "drop"})[0] == 200
    wait_until(lambda: outbox.count("tally_dead") == 0, what="the end of the parked row")
    assert daemon.call("Tally.DescribeRelay", {"RelayName": "shop"})[1]["State"] == "active"


# --- the database ----------------------------------------------------------------------------------------------------


def test_R04_a_long_transaction_deposes_nobody_and_holds_up_only_writes(daemon, relays, outbox):
    """R04 has a transaction that stays open while others write; in SQLite nobody else can, so the relay must bear that
    it can't delete."""
    relay = relays(outbox.source, "queue", "--lease", 1)
    relay.wait_for("active")
    relays(outbox.source, "queue", "--lease", 1, name="standby").wait_for("standby")
    outbox.send(["before"])
    with outbox.transaction() as db:
        messages = drain(daemon, "orders", 1)
        send(db, ["within"])
        time.sleep(3)
    messages += drain(daemon, "orders", 1)
    outbox.wait_until_empty()
    check_once(messages + drain(daemon, "orders"), ["before", "within"])
    assert relay.epoch == 1 and outbox.ask("SELECT epoch FROM tally_lease") == [(1,)]


def test_R48_who_has_nothing_to_do_writes_nothing(daemon, relays, outbox):
    active = relays(outbox.source, "queue", "--lease", 1)
    active.wait_for("active")
    for number in range(3):
        relays(outbox.source, "queue", "--lease", 1, name=f"standby{number}").wait_for("standby")
    outbox.send(["row"])
    assert len(drain(daemon, "orders", 1)) == 1
    outbox.wait_until_empty()
    with contextlib.closing(outbox.connect()) as db:
        [(before,)] = db.execute("PRAGMA data_version").fetchall()
        time.sleep(1.5)
        assert db.execute("PRAGMA data_version").fetchall() == [(before,)]
    assert active.state == "active, epoch 1"


def test_R49_a_database_that_goes_and_comes_back_is_found_again(daemon, relays, outbox, tmp_path):
    """R49 is a restart of PostgreSQL; here the file is moved away and back."""
    relay = relays(outbox.source, "queue", "--lease", 1)
    relay.wait_for("active")
    with contextlib.closing(outbox.connect()) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    aside = tmp_path / "aside"
    aside.mkdir()
    parts = [path for path in tmp_path.glob("app.db*")]
    for path in parts:
        path.rename(aside / path.name)
    relay.wait_for("failed: there is no SQLite database")
    for path in parts:
        (aside / path.name).rename(path)
    relay.wait_for("active")
    outbox.send(numbered("row", 10))
    check_once(drain(daemon, "orders", 10), numbered("row", 10))


def test_R36_R38_rows_of_a_restored_backup_are_known_and_others_of_their_ids_are_not_lost(
        daemon, relays, outbox, tmp_path):
    """A backup stands for the failover to a replica that lags: deletes and an epoch are lost, and ids are given to
    other rows."""
    outbox.send(numbered("old", 20))
    backup = tmp_path / "backup.db"
    with contextlib.closing(outbox.connect()) as db, contextlib.closing(sqlite3.connect(backup)) as copy:
        db.backup(copy)
    relay = relays(outbox.source, "queue", "--lease", 1)
    outbox.send(numbered("lost", 20))
    outbox.wait_until_empty()
    messages = drain(daemon, "orders", 40)
    relay.stop()
    for path in tmp_path.glob("app.db*"):
        path.unlink()
    shutil.move(backup, outbox.path)
    outbox.send(numbered("new", 20))  # under the ids of those that the backup does not know
    relays(outbox.source, "queue", "--lease", 1).wait_for("active")
    outbox.wait_until_empty()
    messages += drain(daemon, "orders", 20)
    check_once(messages, numbered("old", 20) + numbered("lost", 20) + numbered("new", 20))


def test_R30_a_copy_beside_its_original_is_refused_until_it_has_an_identity_of_its_own(
        daemon, relays, outbox, tmp_path):
    original = relays(outbox.source, "queue", "--lease", 1, name="original")
    original.wait_for("active")
    outbox.send(["both"])
    assert len(drain(daemon, "orders", 1)) == 1
    outbox.wait_until_empty()
    path = tmp_path / "copy.db"
    with contextlib.closing(outbox.connect()) as db, contextlib.closing(sqlite3.connect(path)) as copy:
        db.backup(copy)
        relay = relays(f"sqlite:{path}", "queue", "--lease", 1, name="copy")
        relay.wait_for(f"failed: SQLite database {path} is a copy of {outbox.path}")
        copy.execute("UPDATE tally_lease SET path = NULL, source_id = '00112233-4455-4677-8899-aabbccddeeff'")
        copy.commit()
    relay.wait_for("active")
    outbox.send(["of the original"])
    assert [message.body for message in drain(daemon, "orders", 1)] == ["of the original"]
    assert original.epoch == 1


def test_what_does_not_fit_is_said_and_mended_while_it_runs(daemon, relays, outbox, tmp_path):
    path = tmp_path / "fresh.db"
    relay = relays(f"sqlite:{path}", "queue")
    assert "tally relay schema --type sqlite" in relay.wait_for("failed: there is no SQLite database")
    sqlite3.connect(path).close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE mine (a)")
        db.commit()
        assert "tally relay schema --type sqlite" in relay.wait_for(f"failed: SQLite database {path} has no outbox")
        db.executescript(outbox_schema("sqlite"))
    relay.wait_for("active")


# --- a sink that remembers nothing -----------------------------------------------------------------------------------


def test_at_most_once_lists_what_may_have_arrived_when_its_owner_was_killed(relays, outbox, receiver):
    check_what_may_have_arrived_is_listed(relays, outbox, receiver)


@pytest.mark.parametrize("answer", [200, 422])
def test_R46_an_owner_that_outlived_its_lease_deletes_parks_and_notes_nothing(relays, outbox, receiver, answer):
    check_an_owner_that_outlived_its_lease(relays, outbox, receiver, answer)
