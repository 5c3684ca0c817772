"""The consumer's side: the effect of a message happens once, whatever is killed, late or asked twice; and what the SQL
of the outbox lets an application do. A real PostgreSQL, a real daemon; C01 to C12 stand in
docs/internals/invariants-relays.md."""

import contextlib
import ctypes
import ctypes.util
import itertools
import pathlib
import subprocess
import sys
import threading
import time

import psycopg2
import psycopg2.errors
import pytest

from conftest import PATIENCE, clean_environment, wait_until
from consumer import Consumer, Positioned, call, message_id
from outbox import Outbox
from queues import count_messages, make_queue
from relay import Relay, outbox_schema

NUMBERS = itertools.count(1)


# --- A database with outbox and inbox ---------------------------------------------------------------------------------


class Database(Outbox):
    """That of a consumer: with an inbox, and with the effects of messages."""

    def __init__(self, server, **more):
        super().__init__(server, **more)
        self.sql(
            "CREATE TABLE effect (message_id text, consumer text, body text, at timestamptz DEFAULT clock_timestamp())")

    def effects(self):
        return [tuple(row) for row in self.sql("SELECT message_id, consumer FROM effect ORDER BY at")]

    def waiters(self):
        """Transactions that wait for another one."""
        return self.one("SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'",
                        self.name)


@pytest.fixture
def database(server):
    return Database(server)


@pytest.fixture(scope="module")
def refusing(server):
    """A database for tests that write nothing, since they are refused: with the roles of the schema's comments and
    their grants, and one role without any."""
    made = Database(server)
    for role in ("app", "cleaner", "relay", "stranger"):
        made.sql(f"CREATE ROLE {role} LOGIN")
    grant(made)
    return made


def grant(database):
    """The grants as they stand in the schema's comments."""
    grants = [line.removeprefix("--   ").split("--")[0] for line in outbox_schema("postgres").splitlines()
              if line.startswith("--   GRANT")]
    assert len(grants) >= 9
    for statement in grants:
        database.sql(statement)


@pytest.fixture
def consume(daemon, database):
    """Makes consumers, and processes of them; ends both."""
    consumers, processes = [], []

    class Consume:
        def __call__(self, queue, **more):
            consumers.append(Consumer(daemon.port, database.uri, queue, **more))
            return consumers[-1]

        def start(self, queue, *options):
            program = pathlib.Path(__file__).with_name("consumer.py")
            command = [sys.executable, "-B", str(program), str(daemon.port), database.uri, queue, *map(str, options)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=clean_environment())
            processes.append(process)
            return process

        def start_and_read(self, queue, *options):
            """A process, and the list of the points that it comes to."""
            process, points = self.start(queue, *options), []
            Call(read_into, process.stdout, points)
            return process, points

        def start_until(self, point, queue, *options):
            """A process that has come to this point, and stays there."""
            process = self.start(queue, "--stop-at", point, *options)
            assert Call(lambda: any(line.strip() == point for line in process.stdout)).answer(), (
                f"it ended before {point}")
            return process

    yield Consume()
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()
    for consumer in consumers:
        consumer.close()


def read_into(stream, points):
    with contextlib.suppress(ValueError):  # it is closed behind the test
        for line in stream:
            points.append(line.strip())


def kill(process):
    process.kill()
    process.wait()


def send(daemon, queue, body="a", **more):
    return call(daemon.port, "SendMessage", QueueUrl=queue, MessageBody=body, **more)["MessageId"]


def step_until_handled(consumer):
    return wait_until(lambda: [is_first] if (is_first := consumer.step(wait=1)) is not None else None,
                      what="a delivery")[0]


class Call(threading.Thread):
    """Something that may block, in a thread of its own: .answer() is what it returned."""

    def __init__(self, function, *arguments):
        super().__init__(daemon=True)
        self.function, self.arguments = function, arguments
        self.result = self.error = None
        self.start()

    def run(self):
        try:
            self.result = self.function(*self.arguments)
        except Exception as error:  # noqa: BLE001 raised by answer()
            self.error = error

    def answer(self):
        self.join(30 * PATIENCE)
        assert not self.is_alive(), "it still blocks"
        if self.error is not None:
            raise self.error
        return self.result


# --- C01 to C12 -------------------------------------------------------------------------------------------------------


def test_C01_a_consumer_that_dies_between_commit_and_delete_has_made_its_effect_and_the_next_only_deletes(
        daemon, database, consume):
    queue = make_queue(daemon, "work")
    sent = send(daemon, queue)
    kill(consume.start_until("committed", queue, "--lease", 1))
    assert database.effects() == [(sent, "")]
    assert step_until_handled(consume(queue)) is False
    assert database.effects() == [(sent, "")]
    assert count_messages(daemon, queue) == 0


def test_C02_a_second_worker_waits_for_the_first_one_and_then_does_nothing(daemon, database, consume):
    queue = make_queue(daemon, "work")
    sent = send(daemon, queue)
    working, may_go_on = threading.Event(), threading.Event()

    def at(point):
        if point == "claimed":
            working.set()
            assert may_go_on.wait(30 * PATIENCE)

    slow = Call(consume(queue, lease=1, at=at).step)
    assert working.wait(30 * PATIENCE)
    second = Call(step_until_handled, consume(queue))  # gets it after a second, when the first one's lease is over
    wait_until(database.waiters, what="the second worker's wait")
    may_go_on.set()
    assert slow.answer() is True
    assert second.answer() is False
    assert database.effects() == [(sent, "")]
    assert count_messages(daemon, queue) == 0


def test_C03_if_the_first_worker_dies_in_its_transaction_the_one_that_waits_does_the_work(daemon, database, consume):
    queue = make_queue(daemon, "work")
    sent = send(daemon, queue)
    first = consume.start_until("worked", queue, "--lease", 1)
    second = Call(step_until_handled, consume(queue))
    wait_until(database.waiters, what="the second worker's wait")
    assert database.effects() == []
    kill(first)
    assert second.answer() is True
    assert database.effects() == [(sent, "")]
    assert count_messages(daemon, queue) == 0


def test_C04_in_repeatable_read_the_loser_is_told_to_try_again_and_its_message_is_no_dead_letter(
        daemon, database, consume):
    dead = make_queue(daemon, "dead")
    arn = call(daemon.port, "GetQueueAttributes", QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    queue = make_queue(daemon, "work", RedrivePolicy=f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": 2}}')
    sent = send(daemon, queue)
    first = consume.start_until("worked", queue, "--lease", 1)
    second = consume(queue, isolation="REPEATABLE READ")
    message = wait_until(lambda: second.receive(1), what="the second delivery")
    with second.cursor() as cursor:
        cursor.execute("SELECT 1")  # its snapshot is from before the first one's commit
    waiting = Call(second.handle, message)
    wait_until(database.waiters, what="the second worker's wait")
    with contextlib.closing(psycopg2.connect(database.uri)) as third:
        third.set_session(isolation_level="REPEATABLE READ")
        with third.cursor() as cursor:
            cursor.execute("SELECT 1")
            kill(first)  # rolls back: the second one goes on in its old snapshot, and commits
            assert waiting.answer() is True and second.retries == 0
            with pytest.raises(psycopg2.errors.SerializationFailure):  # 40001: a row that its snapshot does not show
                cursor.execute("SELECT tally.once(%s)", (sent,))
            third.rollback()
            cursor.execute("SELECT tally.once(%s)", (sent,))
            assert cursor.fetchone()[0] is False
    assert database.effects() == [(sent, "")]
    assert count_messages(daemon, queue) == count_messages(daemon, dead) == 0


def test_C04_a_consumer_in_repeatable_read_tries_again_within_the_same_delivery(daemon, database, consume):
    queue = make_queue(daemon, "work")
    sent = send(daemon, queue)
    second = consume(queue, isolation="REPEATABLE READ")
    with contextlib.closing(psycopg2.connect(database.uri)) as first, first.cursor() as cursor:
        cursor.execute("SELECT tally.once(%s)", (sent,))
        waiting = Call(second.step)
        wait_until(database.waiters, what="the second worker's wait")
        first.commit()
    assert waiting.answer() is False
    assert second.retries == 1
    assert database.effects() == []  # the first one's work is not the consumer's here
    assert count_messages(daemon, queue) == 0


def redriven(daemon, database, consume, relays, name="", **attributes):
    """A message of the outbox whose effect is committed and which was never deleted, on its way through a dead-letter
    queue: its uid, the queue that it comes back to, the dead-letter queue's ARN."""
    dead = make_queue(daemon, f"dead{name}", **attributes)
    arn = call(daemon.port, "GetQueueAttributes", QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": 1}}'
    queue = make_queue(daemon, f"work{name}", RedrivePolicy=policy, **attributes)
    relays()
    uid = database.one("SELECT tally.send(%s, 'a', %s)", queue, "g" if name else None)
    kill(consume.start_until("committed", queue, "--lease", 1))
    assert database.effects() == [(uid, "")]

    def is_dead():
        call(daemon.port, "ReceiveMessage", QueueUrl=queue)  # finds its attempts used up
        return count_messages(daemon, dead) == 1

    wait_until(is_dead, what="a dead letter")
    return uid, queue, arn


def move_back(daemon, queue, arn):
    call(daemon.port, "StartMessageMoveTask", SourceArn=arn)
    wait_until(lambda: count_messages(daemon, queue) == 1, what="the redrive")


def test_C05_what_may_come_again_is_not_forgotten_and_a_redriven_message_is_known(daemon, database, consume, relays):
    uid, queue, arn = redriven(daemon, database, consume, relays)
    database.sql("UPDATE tally.inbox SET at = at - interval '27 days'")  # as long as two queues can keep it
    assert database.one("SELECT tally.forget()") == 0
    with pytest.raises(psycopg2.errors.InvalidParameterValue) as refused:
        database.sql("SELECT tally.forget('8 days')")
    text = "older_than is 8 days, which is less than the 28 days after which a message can still come"
    assert text in str(refused.value)
    move_back(daemon, queue, arn)
    worker, points = consume.start_and_read(queue)
    wait_until(lambda: points == ["received", "known", "worked", "committed", "deleted"], what="the redelivery")
    assert database.effects() == [(uid, "")]
    assert count_messages(daemon, queue) == 0
    kill(worker)
    # Whoever knows that nothing comes that late says so, and is taken at their word: what comes all the same is new.
    database.sql("UPDATE tally.inbox SET at = at - interval '4 days'")
    assert database.one("SELECT tally.forget('8 days', horizon => '8 days')") == 1
    send(daemon, queue, MessageAttributes={"Tally.OutboxId": {"DataType": "String", "StringValue": uid}})
    assert step_until_handled(consume(queue)) is True


def test_C05_an_entry_expires_only_when_no_queue_can_have_its_message_any_more(database):
    """Both queues may keep a message for 14 days: at 28 it can still come, at 30 not."""
    database.sql("INSERT INTO tally.inbox (consumer, message_id, at) SELECT '', d, clock_timestamp() - d * interval '1 "
                 "day' - interval '1 hour' FROM unnest(ARRAY[14, 27, 28, 29, 30]) d")
    assert database.one("SELECT tally.forget()") == 1
    assert ([name for name, in database.sql("SELECT message_id FROM tally.inbox ORDER BY message_id")]
            == ["14", "27", "28", "29"])
    for name in ("14", "27", "28", "29"):
        assert database.one("SELECT tally.once(%s)", name) is False
    assert database.one("SELECT tally.forget('28 days')") == 2
    with pytest.raises(psycopg2.errors.InvalidParameterValue):
        database.sql("SELECT tally.forget('27 days 23 hours')")


def test_C11_a_uid_is_known_behind_a_fifo_dead_letter_queue(daemon, database, consume, relays):
    uid, queue, arn = redriven(daemon, database, consume, relays, ".fifo")
    move_back(daemon, queue, arn)
    consumer = consume(queue)
    message = wait_until(lambda: consumer.receive(1), what="the delivery")
    assert message_id(message) == uid  # whatever became of its MessageId and its deduplication id
    assert message["Attributes"]["MessageGroupId"] == "g"
    assert consumer.handle(message) is False
    # And a second time around, for a worker that is another process.
    send(daemon, queue, MessageGroupId="g", MessageDeduplicationId="again",
         MessageAttributes=message["MessageAttributes"])
    worker, points = consume.start_and_read(queue)
    wait_until(lambda: points == ["received", "known", "worked", "committed", "deleted"], what="the copy")
    assert database.effects() == [(uid, "")]
    assert count_messages(daemon, queue) == 0


def test_forget_is_bounded_and_takes_the_oldest_first(database):
    database.sql("INSERT INTO tally.inbox (consumer, message_id, at) "
                 "SELECT '', g, clock_timestamp() - (g + 0.5) * interval '1 day' FROM generate_series(1, 100) g")
    assert database.one("SELECT tally.forget('30 days', 50)") == 50
    assert database.one("SELECT max(message_id::int) FROM tally.inbox") == 50
    assert database.one("SELECT tally.forget()") == 21
    assert database.one("SELECT tally.forget()") == 0


@pytest.mark.parametrize("is_behind", [True, False], ids=["lost_behind_the_commit", "lost_before_the_commit"])
def test_C06_if_the_outcome_of_commit_is_unknown_the_inbox_decides(daemon, database, consume, proxy, is_behind):
    queue = make_queue(daemon, "work")
    sent = send(daemon, queue)
    (proxy.lose_answer_to if is_behind else proxy.strand)(b"COMMIT\0")
    consumer = consume(queue)
    consumer.uri = proxy.uri(database.uri)
    step = Call(consumer.step)
    wait_until(lambda: proxy.lost + proxy.stranded == 1, what="the cut")
    if not is_behind:
        wait_until(database.waiters, what="the second transaction's wait for the first")  # which is still open
        assert database.effects() == []
    proxy.release()
    assert step.answer() is (not is_behind)  # it was done, or was not and is done now
    assert database.effects() == [(sent, "")]
    assert count_messages(daemon, queue) == 0


def test_C07_each_consumer_makes_its_own_effect(daemon, database, consume):
    """One message of an outbox in the queues of two consumers, which share a database. Each makes its effect, though it
    is killed before the delete, and none makes it again because of the other."""
    uid = "01234567-89ab-4def-8123-456789abcdef"
    names = ("mail", "ledger")
    for name in names:
        send(daemon, make_queue(daemon, name),
             MessageAttributes={"Tally.OutboxId": {"DataType": "String", "StringValue": uid}})
    for name in names:
        kill(consume.start_until("committed", name, "--name", name, "--lease", 1))
    assert sorted(database.effects()) == [(uid, "ledger"), (uid, "mail")]
    read = [consume.start_and_read(name, "--name", name)[1] for name in names]
    wait_until(lambda: all(points[-1:] == ["deleted"] for points in read), what="both redeliveries")
    assert all(points == ["received", "known", "worked", "committed", "deleted"] for points in read)
    assert sorted(database.effects()) == [(uid, "ledger"), (uid, "mail")]
    assert all(count_messages(daemon, name) == 0 for name in names)


def test_C08_a_pipelined_transaction_makes_its_effect_only_if_the_claim_was_the_first(database):
    """Everything in one round trip, also the COMMIT: so the effect has to come out of the claim."""
    pipelined = """BEGIN;
        INSERT INTO effect (message_id, consumer, body) SELECT 'm', '', 'x' WHERE tally.once('m');
        COMMIT"""
    calls = [Call(database.sql, pipelined) for _ in range(8)]
    for one in calls:
        one.answer()
    assert database.effects() == [("m", "")]


def test_C08_a_transaction_that_is_run_as_it_stands_stops_at_what_raises(database):
    """psql goes on behind an error, and nothing behind it takes effect; a transaction in one go likewise."""
    pasted = """BEGIN;
        SELECT tally.once_or_raise('m', 'ledger');
        INSERT INTO effect (message_id, consumer, body) VALUES ('m', 'ledger', 'x');
        COMMIT"""
    psql = ["psql", "-X", "-q", "-v", "VERBOSITY=verbose", "-d", database.uri]
    for expected in "", "TALLY: already done: the effect of message m is committed":
        done = subprocess.run(psql, input=f"{pasted};", capture_output=True, text=True, env=clean_environment(),
                              timeout=60 * PATIENCE, check=True)
        assert expected in done.stderr and bool(done.stderr) == bool(expected)
    assert "HINT:  ROLLBACK, then delete the message." in done.stderr
    with pytest.raises(psycopg2.DatabaseError) as raised:
        database.sql(pasted)
    assert raised.value.pgcode == "TALLY" and raised.value.diag.message_hint == "ROLLBACK, then delete the message."
    assert database.effects() == [("m", "ledger")]


def test_what_raises_and_what_answers_note_in_the_same_inbox(database):
    done = pytest.raises(psycopg2.DatabaseError, match="already done")
    assert database.one("SELECT tally.once_or_raise('m')") == ""
    assert database.one("SELECT tally.once('m')") is False
    assert database.one("SELECT tally.once('n', 'mail')") is True
    with done:
        database.sql("SELECT tally.once_or_raise('n', 'mail')")
    database.sql("SELECT tally.once_or_raise('n', NULL)")
    with done:
        database.sql("SELECT tally.once_or_raise('n')")
    for wrong in "''", "NULL", "repeat('x', 501)":
        with pytest.raises(psycopg2.IntegrityError):
            database.sql(f"SELECT tally.once_or_raise({wrong})")
    with contextlib.closing(database.begin()) as first, first.cursor() as cursor:
        cursor.execute("SELECT tally.once_or_raise('waits')")
        second = Call(database.sql, "SELECT tally.once_or_raise('waits')")
        wait_until(database.waiters, what="the second one's wait for the first")
        first.rollback()
        second.answer()


class Pipeline:
    """A connection on which all statements leave before any answer is read, as a consumer's author does it with libpq's
    pipeline mode."""

    def __init__(self, uri):
        self.libpq = ctypes.CDLL(ctypes.util.find_library("pq"))
        for name in ("PQconnectdb", "PQgetResult"):
            getattr(self.libpq, name).restype = ctypes.c_void_p
        self.libpq.PQerrorMessage.restype = ctypes.c_char_p
        self.connection = ctypes.c_void_p(self.libpq.PQconnectdb(uri.encode()))
        assert self.libpq.PQstatus(self.connection) == 0, self.libpq.PQerrorMessage(self.connection)
        assert self.libpq.PQenterPipelineMode(self.connection) == 1

    def run(self, statements):
        """Statements with their values, then one Sync. The state of each answer; 1: a command, 2: rows."""
        for statement, *values in statements:
            texts = (ctypes.c_char_p * len(values))(*(value.encode() for value in values))
            assert self.libpq.PQsendQueryParams(
                self.connection, statement.encode(), len(values), None, texts, None, None, 0) == 1
        assert self.libpq.PQpipelineSync(self.connection) == 1
        states = []
        while True:
            result = self.libpq.PQgetResult(self.connection)
            if result is None:
                continue  # the end of what one statement answers
            state = self.libpq.PQresultStatus(ctypes.c_void_p(result))
            self.libpq.PQclear(ctypes.c_void_p(result))
            if state == 10:  # PGRES_PIPELINE_SYNC
                return states
            states.append(state)

    def close(self):
        self.libpq.PQfinish(self.connection)


def test_C08_a_pipelined_consumer_makes_the_effect_of_a_message_that_comes_twice_once(daemon, database, consume):
    """Two workers have the same message, since its visibility was over for the first. Beside the effect that comes out
    of the claim stands one that does not, which happens twice: nothing else here would have kept the first from it."""
    queue = make_queue(daemon, "work")
    send(daemon, queue, "x")
    first = consume(queue, lease=0).receive(5)
    again = consume(queue).receive(5)
    assert first["MessageId"] == again["MessageId"] and first["ReceiptHandle"] != again["ReceiptHandle"]

    def work(pipeline, message):
        name, body = message_id(message), message["Body"]
        return pipeline.run([
            ("BEGIN",),
            ("INSERT INTO effect (message_id, consumer, body) SELECT $1, '', $2 WHERE tally.once($1)", name, body),
            ("INSERT INTO effect (message_id, consumer, body) VALUES ($1, 'without a claim', $2)", name, body),
            ("COMMIT",)])

    pipelines = [Pipeline(database.uri) for _ in range(2)]
    try:
        calls = [Call(work, pipeline, message) for pipeline, message in zip(pipelines, (first, again))]
        assert [one.answer() for one in calls] == [[1, 1, 1, 1]] * 2
        call(daemon.port, "DeleteMessage", QueueUrl=queue, ReceiptHandle=again["ReceiptHandle"])
        assert work(pipelines[0], first) == [1, 1, 1, 1]  # and who did not hear of the delete does it again
    finally:
        for pipeline in pipelines:
            pipeline.close()
    assert sorted(database.effects()) == [(first["MessageId"], ""), *3 * [(first["MessageId"], "without a claim")]]
    assert count_messages(daemon, queue) == 0


def test_C09_a_row_for_each_group_knows_redeliveries_and_the_uid_knows_copies(daemon, database):
    once = "SELECT tally.once_in_group('work.fifo', 'g', %s)"
    assert [database.one(once, number) for number in (10, 9, 10, 11)] == [True, False, False, True]
    assert database.one("SELECT count(*) FROM tally.inbox_group") == 1
    # A copy by the producer has a new number, which passes; its uid is what stops it.
    assert database.one("SELECT tally.once('uid')") is True
    assert database.one(once, 12) is True and database.one("SELECT tally.once('uid')") is False
    # The numbers of a real queue, as the SDKs show them: digits in a string.
    queue = make_queue(daemon, "work.fifo", ContentBasedDeduplication="true")
    for body in "ab":
        send(daemon, queue, body, MessageGroupId="g2")
    answer = call(daemon.port, "ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=10, AttributeNames=["All"])
    first, second = (message["Attributes"]["SequenceNumber"] for message in answer["Messages"])
    numbers = (first, first, second, first, second)
    assert [database.one("SELECT tally.once_in_group('work.fifo', 'g2', %s)", number) for number in numbers] == [
        True, False, True, False, False]
    assert database.one("SELECT tally.once_in_group('work.fifo', 'g2', %s, 'another')", first) is True


def test_C09_a_worker_skips_what_is_below_its_position_and_the_uid_stops_a_copy_above(daemon, database, consume):
    """Numbers 9 and 10 of a group have had their effects when their worker dies; both are delivered again. Then the
    producer, which never heard an answer, sends what had number 10 again under another deduplication id: that is number
    11."""
    queue = make_queue(daemon, "work.fifo")
    uids = [f"01234567-89ab-4def-8123-0000000000{number:02}" for number in (9, 10)]

    def send_row(uid, deduplication_id):
        send(daemon, queue, MessageGroupId="g", MessageDeduplicationId=deduplication_id,
             MessageAttributes={"Tally.OutboxId": {"DataType": "String", "StringValue": uid}})

    for uid in uids:
        send_row(uid, uid)
    first = Positioned(daemon.port, database.uri, queue, lease=2)
    with contextlib.closing(first):
        answer = call(daemon.port, "ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=2, VisibilityTimeout=2,
                      MessageAttributeNames=["All"], AttributeNames=["All"])
        nine, ten = answer["Messages"]
        assert first.transact(nine) is True and first.transact(ten) is True  # and here it dies: nothing is deleted
        assert first.transact(nine) is False
    position = "SELECT sequence_number FROM tally.inbox_group WHERE queue = %s AND group_id = 'g'"
    assert database.one(position, queue) == int(ten["Attributes"]["SequenceNumber"])
    worker, points = consume.start_and_read(queue, "--positions", "--lease", 30)
    wait_until(lambda: points.count("deleted") == 2, what="both redeliveries")
    assert points.count("skipped") == 2
    send_row(uids[1], "another")
    wait_until(lambda: points.count("deleted") == 3, what="the copy")
    assert points.count("skipped") == 2 and points.count("claimed") == 0  # its number passed
    assert database.one(position, queue) > int(ten["Attributes"]["SequenceNumber"])
    assert database.effects() == [(uid, "") for uid in uids]
    assert count_messages(daemon, queue) == 0


@pytest.mark.parametrize("name", ["work", "careful", "work.fifo"])
def test_C10_a_receipt_that_is_too_old_makes_no_second_effect(daemon, database, consume, name):
    fifo = {"ContentBasedDeduplication": "true"} if name.endswith(".fifo") else {}
    queue = make_queue(daemon, name, **fifo, **({"Tally.StaleReceipts": "refuse"} if name == "careful" else {}))
    sent = send(daemon, queue, **({"MessageGroupId": "g"} if fifo else {}))
    late = consume(queue, lease=1)
    message = late.receive(1)
    assert late.transact(message) is True
    second = consume(queue)
    again = wait_until(lambda: second.receive(1), what="the second delivery")
    late.transact = lambda message: True  # that was before; now comes its delete
    late.handle(message)
    assert count_messages(daemon, queue) == (0 if name == "work" else 1)  # where it is refused, the second worker's
    assert second.handle(again) is False
    assert count_messages(daemon, queue) == 0
    assert database.effects() == [(sent, "")]


def test_C12_an_effect_outside_the_database_does_not_run_side_by_side(daemon, database, consume, tmp_path):
    """Eight workers get the same message at once: the claim comes first, so one works and the others wait for it."""
    queue = make_queue(daemon, "work")
    send(daemon, queue)
    message = consume(queue).receive(1)
    running, most, runs, lock = 0, 0, 0, threading.Lock()

    def work_outside(cursor, message):
        nonlocal running, most, runs
        with lock:
            running, runs = running + 1, runs + 1
            most = max(most, running)
            this = runs
        if this == 1:
            wait_until(lambda: database.waiters() == 7, what="seven workers that wait")
        with lock:
            running -= 1
        if this < 3:
            raise ConnectionAbortedError("this worker dies in the middle")

    def work_once():
        consumer = consume(queue)
        consumer.work = work_outside
        try:
            return consumer.transact(message)
        except ConnectionAbortedError:
            consumer.close()
            return None

    answers = [one.answer() for one in [Call(work_once) for _ in range(8)]]
    assert most == 1
    assert runs == 3  # two died; what they did outside no database can take back
    assert (answers.count(True), answers.count(False), answers.count(None)) == (1, 5, 2)


def test_C12_worker_processes_work_outside_the_database_one_after_the_other(daemon, database, consume, tmp_path):
    """The visibility of worker 1 ends while it works: worker 2 gets a copy, and waits with its claim until 1 is done.
    It is the same when 1 is killed in the middle, but that then 2 works."""
    queue = make_queue(daemon, "work")
    for is_killed in (False, True):
        folder = tmp_path / f"killed-{is_killed}"
        folder.mkdir()
        sent = send(daemon, queue)
        effects = lambda: [line.split() for line in (folder / "effects").read_text().splitlines()]
        first, points = consume.start_and_read(queue, "--outside", folder, "--lease", 1)
        wait_until((folder / "effects").exists, what="the first worker's work")
        second, others = consume.start_and_read(queue, "--outside", folder, "--lease", 60)
        wait_until(lambda: others == ["received"] and database.waiters(), what="the second worker's wait")
        time.sleep(0.2)
        assert effects() == [[str(first.pid), "begins"]] and others == ["received"]
        if is_killed:
            kill(first)
            wait_until(lambda: len(effects()) == 2, what="the second worker's work")
            assert effects()[1] == [str(second.pid), "begins"]
        (folder / "go").touch()
        wait_until(lambda: others[-1:] == ["deleted"], what="the end")
        assert others == ["received", "claimed" if is_killed else "known", "worked", "committed", "deleted"]
        worker = second if is_killed else first
        assert effects()[-2:] == [[str(worker.pid), "begins"], [str(worker.pid), "ends"]]
        assert len(effects()) == 2 + is_killed
        assert database.effects()[-1] == (sent, "")
        kill(first)
        kill(second)
    assert len(database.effects()) == 2 and count_messages(daemon, queue) == 0


# --- Many messages, workers killed ------------------------------------------------------------------------------------


def test_every_effect_happens_once_while_consumers_and_the_daemon_are_killed(daemon, database, consume):
    queue = make_queue(daemon, "work")
    sent, is_over = set(), threading.Event()

    def keep_sending():
        while not is_over.is_set():
            with contextlib.suppress(OSError):  # the daemon is away; what is not acknowledged may be there or not
                sent.add(send(daemon, queue))
            time.sleep(0.01)

    sender = Call(keep_sending)
    helper = consume.start(queue, "--lease", 2)
    for number, point in enumerate(["received", "claimed", "worked", "committed"] * 2):
        kill(consume.start_until(point, queue, "--lease", 2))
        if number % 4 == 3:
            daemon.kill9()
            daemon.start()
    is_over.set()
    sender.answer()
    helpers = [helper] + [consume.start(queue, "--lease", 2) for _ in range(2)]
    wait_until(lambda: count_messages(daemon, queue) == 0, 60, "the last message")
    for process in helpers:
        kill(process)
    effects = [message for message, _ in database.effects()]
    assert len(effects) == len(set(effects))
    assert sent <= set(effects)


# --- Effect and ack in one transaction --------------------------------------------------------------------------------


@pytest.fixture
def relays(daemon, database):
    """Starts relays of the database's outbox; they end behind the test."""
    started = []

    def start(name="relay"):
        started.append(Relay(daemon.endpoint, database.uri, "queue", "--lease", 1, name=name).start())
        return started[-1]

    yield start
    for relay in started:
        relay.kill9()


def test_an_ack_deletes_the_message_if_and_only_if_its_transaction_commits(daemon, database, consume, relays):
    relays().wait_for("active")
    queue = make_queue(daemon, "work")
    sent = send(daemon, queue)
    consumer = consume(queue, acks=True, lease=600)
    message = consumer.receive(1)
    with contextlib.closing(psycopg2.connect(database.uri)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT tally.once(%s), tally.ack(%s)", (sent, message["ReceiptHandle"]))
        connection.rollback()
    database.sql("SELECT tally.send(%s, 'marker')", queue)
    wait_until(lambda: database.count() == 0 and count_messages(daemon, queue) == 2,
               what="the marker, which came behind the ack")
    assert consumer.handle(message) is True
    wait_until(lambda: count_messages(daemon, queue) == 1, what="the delete")
    assert consume(queue).receive()["Body"] == "marker"
    assert database.effects() == [(sent, "")]
    assert database.count() == 0 and database.one("SELECT count(*) FROM tally.dead") == 0


def test_C01_an_ack_survives_the_consumer_the_relay_and_the_daemon(daemon, database, consume, relays):
    """All of them are killed between the commit and the delete. What was committed is deleted, once there is a relay
    again."""
    queue = make_queue(daemon, "work")
    sent = send(daemon, queue)
    relay = relays()
    relay.wait_for("active")
    relay.freeze()  # so that the ack stays in the outbox
    kill(consume.start_until("committed", queue, "--ack", "--lease", 600))
    assert database.effects() == [(sent, "")] and not database.count() == 0
    relay.kill9()
    daemon.kill9()
    daemon.start()
    assert count_messages(daemon, queue) == 1
    relays("second")
    wait_until(lambda: count_messages(daemon, queue) == 0, what="the delete")
    database.wait_until_empty()


@pytest.mark.parametrize("rule", ["accept", "refuse"])
def test_C10_an_ack_with_a_receipt_that_is_too_old_is_no_error(daemon, database, consume, relays, rule):
    queue = make_queue(daemon, "work", **{"Tally.StaleReceipts": rule})
    sent = send(daemon, queue)
    late = consume(queue, lease=1, acks=True)
    message = late.receive(1)
    second = consume(queue, acks=True)
    again = wait_until(lambda: second.receive(1), what="the second delivery")
    assert late.handle(message) is True  # its effect is made; its handle is not the newest any more
    relays()
    database.wait_until_empty()
    left = 0 if rule == "accept" else 1
    assert count_messages(daemon, queue) == left and database.one("SELECT count(*) FROM tally.dead") == 0
    assert second.handle(again) is False
    wait_until(lambda: count_messages(daemon, queue) == 0, what="the delete")
    assert database.effects() == [(sent, "")]


def test_a_step_of_a_chain_is_one_transaction_whatever_is_killed(daemon, database, consume, relays):
    """Each message is received, has its effect, sends the next one and is acked in one transaction, while relays and
    workers are killed: every chain comes to its end, and no step happens twice."""
    queue = make_queue(daemon, "chain")
    chains, steps = 5, 6

    class Chain(Consumer):
        def work(self, cursor, message):
            super().work(cursor, message)
            chain, at = map(int, message["Body"].split())
            if at < steps:
                cursor.execute("SELECT tally.send(%s, %s)", (self.queue, f"{chain} {at + 1}"))

    is_over = threading.Event()

    def keep_working():
        worker = Chain(daemon.port, database.uri, queue, lease=2, acks=True)
        while not is_over.is_set():
            worker.step(wait=1)
        worker.close()

    running = [relays(f"relay-{i}") for i in range(2)]
    for chain in range(chains):
        database.sql("SELECT tally.send(%s, %s)", queue, f"{chain} 1")
    workers = [Call(keep_working) for _ in range(3)]
    for _ in range(4):
        # takes a message, if it comes to it, and dies
        process = consume.start(queue, "--stop-at", "received", "--lease", 1)
        victim = wait_until(lambda: next((relay for relay in running if relay.state.startswith("active")), None))
        victim.kill9()
        victim.start()
        kill(process)
    wait_until(lambda: database.one("SELECT count(*) FROM effect") >= chains * steps, 40, "the end of all chains")
    wait_until(lambda: database.count() == 0 and count_messages(daemon, queue) == 0, 40, "rest")
    is_over.set()
    for worker in workers:
        worker.answer()
    bodies = sorted(body for body, in database.sql("SELECT body FROM effect"))
    assert bodies == sorted(f"{chain} {at + 1}" for chain in range(chains) for at in range(steps))


# --- The schema -------------------------------------------------------------------------------------------------------


def test_the_schema_is_printed_as_it_stands_and_takes_another_name(database):
    text = outbox_schema("postgres")
    assert (pathlib.Path(__file__).parents[2] / "src/relay/schema/postgres.sql").read_text() == text
    other = outbox_schema("postgres", "--schema", "out_1")
    assert "tally." not in other and "tally relay schema" in other
    database.sql(other)
    assert database.one("SELECT out_1.once('m')") is True
    with pytest.raises(psycopg2.DatabaseError, match="already done"):
        database.sql("SELECT out_1.once_or_raise('m')")
    assert database.one("SELECT count(*) FROM out_1.lease") == 1
    with contextlib.suppress(AssertionError):
        outbox_schema("postgres", "--schema", "Out")
        pytest.fail("a name that needs quotes was taken")


def test_the_schema_may_be_run_again_and_a_newer_one_is_left_alone(database):
    database.sql("SELECT tally.send('q', 'a')")
    before = database.sql("SELECT * FROM tally.lease"), database.sql("SELECT * FROM tally.outbox")
    database.sql(outbox_schema("postgres"))
    assert (database.sql("SELECT * FROM tally.lease"), database.sql("SELECT * FROM tally.outbox")) == before
    database.sql("UPDATE tally.version SET number = 2")
    with pytest.raises(psycopg2.errors.RaiseException) as refused:
        database.sql(outbox_schema("postgres"))
    assert "the schema tally has version 2, and this text knows versions up to 1" in str(refused.value)


def test_a_copy_gets_an_identity_of_its_own_and_a_successor_keeps_it(database):
    database.sql("UPDATE tally.lease SET system_id = 1")
    before = database.one("SELECT source_id FROM tally.lease")
    assert database.one("SELECT tally.rekey(is_copy => false)") == before
    assert database.one("SELECT system_id FROM tally.lease") is None
    renewed = database.one("SELECT tally.rekey()")
    assert renewed != before and database.one("SELECT source_id FROM tally.lease") == renewed


def test_a_relay_refuses_an_outbox_from_another_cluster_until_it_is_told_what_it_is(database, relays):
    database.sql("UPDATE tally.lease SET system_id = 1")  # as pg_dump brings it
    relay = relays()
    assert "this outbox was copied here, or restored from a backup" in relay.wait_for("failed")
    assert "SELECT tally.rekey()" in relay.state and "is_copy => false" in relay.state
    database.sql("SELECT tally.rekey()")
    relay.wait_for("active")


POISON = [
    ("('q', '')", "body: 1 to 1,048,576 bytes"),
    ("('q', repeat('a', 1048577))", "body: 1 to 1,048,576 bytes"),
    ("('q', repeat('ä', 524289))", "body: 1 to 1,048,576 bytes"),
    (r"('q', E'a\u0001')", "body: no control characters except tab and line ends"),
    (r"('q', E'a\uFFFE')", "body: no control characters except tab and line ends"),
    ("('a b', 'a')", "queue: a name of 1 to 80 letters, digits, - and _, or a URL"),
    ("(repeat('q', 81), 'a')", "queue: a name of 1 to 80 letters, digits, - and _, or a URL"),
    ("('q', 'a', '')", "group_id: 1 to 128 printable ASCII characters, no space"),
    ("('q', 'a', repeat('g', 129))", "group_id: 1 to 128 printable ASCII characters, no space"),
    ("('q', 'a', 'ä')", "group_id: 1 to 128 printable ASCII characters, no space"),
    ("('q', 'a', 'g', 'a b')", "dedup_id: 1 to 128 printable ASCII characters, no space"),
    ("('q', 'a', 'g', 'd', '[]')", "attributes: up to 10, of strings, numbers or DataType objects"),
    ("""('q', 'a', attributes => '{"a": null}')""", "attributes: up to 10, of strings, numbers or DataType objects"),
    ("""('q', 'a', attributes => '{"Tally.OutboxId": "x"}')""",
     "attributes: up to 10, of strings, numbers or DataType objects"),
    ("('q', 'a', attributes => (SELECT jsonb_object_agg(g, 'x') FROM generate_series(1, 11) g))",
     "attributes: up to 10, of strings, numbers or DataType objects"),
    ("('q', 'a', delay_seconds => 901)", "delay_s: 0 to 900 seconds"),
]


@pytest.mark.parametrize("arguments, name", POISON, ids=[arguments[:30] for arguments, _ in POISON])
def test_R43_what_no_sink_takes_is_refused_in_the_transaction_that_writes_it(refusing, arguments, name):
    with pytest.raises(psycopg2.errors.CheckViolation) as refused:
        refusing.sql(f"SELECT tally.send{arguments}")
    assert refused.value.diag.constraint_name == name


@pytest.mark.parametrize(
    "encoding, bad, good",
    [("SQL_ASCII", r"E'\xff'", r"E'\xc3\xa4'"), ("WIN1252", "chr(129)", "chr(228)"), ("LATIN1", None, "chr(228)")],
)
def test_R43_what_is_no_text_in_utf8_is_refused_too_where_the_database_has_another_encoding(
        server, encoding, bad, good):
    """A relay could not even read such a row, and would stand before it for ever."""
    database = Database(server, encoding=encoding)
    for text in ("{}", "repeat('a', 1048576 - 2) || {}"):
        database.sql(f"SELECT tally.send('q', {text.format(good)})")
        if bad:
            with pytest.raises(psycopg2.DataError):
                database.sql(f"SELECT tally.send('q', {text.format(bad)})")
    database.sql(f"SELECT tally.send('q', 'a', attributes => jsonb_build_object('a', {good}))")
    if bad:
        with pytest.raises(psycopg2.DataError):
            database.sql(f"SELECT tally.send('q', 'a', attributes => jsonb_build_object('a', {bad}))")
    with pytest.raises(psycopg2.errors.CheckViolation):
        # two bytes in UTF-8, however many here
        database.sql(f"SELECT tally.send('q', repeat('a', 1048576 - 1) || {good})")
    with contextlib.closing(database.connect()) as connection, connection.cursor() as cursor:
        connection.set_client_encoding("UTF8")
        cursor.execute("SELECT right(body, 4), attributes FROM tally.outbox ORDER BY id")
        assert len(cursor.fetchall()) == 3


def test_what_sinks_take_is_taken(database):
    uid = database.one(r"""SELECT tally.send('orders.fifo', E'\t\r\n \u007F\uD7FF\uE000\uFFFD\U0001F600', '!~', 'd',
        '{"a": 1, "b": "x", "c": {"DataType": "Binary", "BinaryValue": "AA=="}}', 900)""")
    database.sql(
        "SELECT tally.send('', repeat('a', 1048576)), tally.send('https://sqs.eu-west-1.amazonaws.com/1/q', 'a', NULL)")
    rows = database.sql(
        "SELECT uid, kind, queue, group_id, dedup_id, attributes, delay_s FROM tally.outbox ORDER BY id")
    assert rows[0] == (uid, 0, "orders.fifo", "!~", "d",
                       {"a": 1, "b": "x", "c": {"DataType": "Binary", "BinaryValue": "AA=="}}, 900)
    assert [row[2:] for row in rows[1:]] == [
        ("", None, None, None, 0), ("https://sqs.eu-west-1.amazonaws.com/1/q", None, None, None, 0)]


def test_what_is_rolled_back_was_never_sent(database):
    with contextlib.closing(psycopg2.connect(database.uri)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT tally.send('q', 'a'), tally.ack('handle'), tally.once('m')")
        connection.rollback()
    assert database.one("SELECT count(*) FROM tally.outbox") == database.one("SELECT count(*) FROM tally.inbox") == 0


# --- Rights -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def roles(refusing, database):
    """The roles that were made for `refusing` may do the same here."""
    grant(database)


def test_an_application_may_send_ack_and_claim_and_nothing_else(database, roles):
    assert database.one("SELECT tally.send('q', 'a')", role="app")
    database.sql("SELECT tally.ack('handle')", role="app")
    assert database.one("SELECT tally.once('m')", role="app") is True
    database.sql("SELECT tally.once_or_raise('n')", role="app")
    assert database.one("SELECT tally.once_in_group('q', 'g', 1)", role="app") is True
    database.sql("INSERT INTO tally.outbox (queue, body) SELECT 'q', g FROM generate_series(1, 3) g", role="app")
    assert database.one("SELECT count(*) FROM tally.outbox") == 5


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO tally.outbox (id, queue, body) OVERRIDING SYSTEM VALUE VALUES (1, 'q', 'a')",
        "INSERT INTO tally.outbox (uid, queue, body) VALUES (gen_random_uuid(), 'q', 'a')",
        "INSERT INTO tally.outbox (kind, queue, body) VALUES (1, '', 'handle')",
        "SELECT nextval('tally.outbox_id_seq')",
        "SELECT * FROM tally.outbox",
        "UPDATE tally.outbox SET body = 'b'",
        "DELETE FROM tally.outbox",
        "TRUNCATE tally.outbox",
        "INSERT INTO tally.inbox (consumer, message_id) VALUES ('', 'm')",
        "DELETE FROM tally.inbox",
        "SELECT * FROM tally.dead",
        "UPDATE tally.lease SET epoch = 9",
        "UPDATE tally.version SET number = 9",
        "SELECT tally.forget()",
        "SELECT tally.rekey()",
    ],
)
def test_R06_an_application_can_neither_choose_ids_nor_read_or_change_what_is_there(refusing, statement):
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        refusing.sql(statement, role="app")


def test_who_was_granted_nothing_can_do_nothing(refusing):
    for function in ("send('q', 'a')", "ack('h')", "once('m')", "once_or_raise('m')", "once_in_group('q', 'g', 1)",
                     "forget()"):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            refusing.sql(f"SELECT tally.{function}", role="stranger")
    assert refusing.one("SELECT tally.forget()", role="cleaner") == 0
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        refusing.sql("SELECT tally.send('q', 'a')", role="cleaner")


def test_a_caller_can_not_put_its_own_functions_in_the_way(database, roles):
    """The functions act with the owner's rights: what they call must not be found in a schema of the caller's."""
    database.sql("GRANT CREATE ON DATABASE " + database.name + " TO app")
    with contextlib.closing(database.connect("app")) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA mine; SET search_path = mine, pg_catalog, tally")
        for name, result in (("octet_length(text)", "int AS 'SELECT 1'"),
                             ("clock_timestamp()", "timestamptz AS 'SELECT NULL::timestamptz'")):
            cursor.execute(f"CREATE FUNCTION mine.{name} RETURNS {result} LANGUAGE sql")
        cursor.execute("CREATE TEMP TABLE outbox (queue text, body text)")
        cursor.execute("SELECT tally.send('q', 'a')")
        with pytest.raises(psycopg2.errors.CheckViolation):
            cursor.execute("SELECT tally.send('q', '')")
    assert database.one("SELECT count(*) FROM tally.outbox WHERE created IS NOT NULL") == 1
