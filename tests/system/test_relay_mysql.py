"""An outbox in MySQL, or rather in MariaDB, which Debian has; the application being pymysql: every committed row
arrives once, rows that were rolled back never, and the order of each group is that of the commits, whatever is killed,
stopped, cut or restored. R… and C… stand in docs/internals/invariants-relays.md."""

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time

import pymysql
import pytest

from certificates import Certificate
from conftest import BIN, IS_BARE, PATIENCE, clean_environment, status_bytes, wait_until
from mysql_flood import MysqlFlood
from mysql_server import PASSWORD, PASSWORD_IN_URL, MysqlServer
from outbox_checks import check_an_owner_that_outlived_its_lease, check_what_may_have_arrived_is_listed
from outbox_mysql import MysqlOutbox, run, send
from proxy import Proxy
from queues import count_visible, make_queue
from relay import check_once, check_order, drain, numbered, outbox_schema
from wire import Connection, scaled


def server_with(certificate):
    """That can encrypt, and does where a client asks for it."""
    server = MysqlServer()
    for name, path in (("ssl-cert", certificate.certificate), ("ssl-key", certificate.key)):
        own = server.own / path.name
        own.write_bytes(path.read_bytes())
        own.chmod(0o644)
        server.settings[name] = own
    return server.start()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = server_with(Certificate(tmp_path_factory.mktemp("server")))
    yield server
    server.kill9()


@pytest.fixture
def own_server():
    """For tests that restart it, or set something for all."""
    server = MysqlServer().start()
    yield server
    server.kill9()


@pytest.fixture
def outbox(server, daemon):
    for name in ("orders", "orders.fifo"):
        make_queue(daemon, name)
    return MysqlOutbox(server)


@pytest.fixture
def proxy(server):
    proxy = Proxy(server.port)
    yield proxy
    proxy.close()


def through(proxy, outbox):
    return outbox.server.url(outbox.name, port=proxy.port)


def start(relays, outbox, *options, **more):
    relay = relays(outbox.source, "queue", "--lease", 1, *options, **more)
    relay.wait_for("active")
    return relay


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

    def check(self, daemon):
        """Ends them; all that they committed arrives once and in order."""
        committed = self.end()
        self.outbox.wait_until_empty()
        messages = drain(daemon, "orders.fifo", len(committed), seconds=60)
        check_once(messages, committed)
        check_order(messages)


@pytest.fixture
def writers(outbox):
    started = []

    def start_writers(groups):
        started.append(Writers(outbox, groups))
        return started[-1]

    yield start_writers
    for each in started:
        each.end()


# --- the order of commits --------------------------------------------------------------------------------------------


def test_R01_R02_a_row_that_commits_late_is_late_and_still_before_what_was_written_after_it(daemon, relays, outbox):
    relay = start(relays, outbox)
    with contextlib.closing(outbox.connect(autocommit=False)) as late:
        send(late, ["key-1"], "orders.fifo", "key")  # draws the lower id
        passing = [f"passing-{number}" for number in range(30)]
        for body in passing:
            outbox.send([body])
            time.sleep(0.05)
        check_once(drain(daemon, "orders", len(passing)), passing)
        assert outbox.count() == 0
        late.commit()
    outbox.send(["key-2"], "orders.fifo", "key")
    messages = drain(daemon, "orders.fifo", 2)
    assert [message.body for message in messages] == ["key-1", "key-2"]
    outbox.wait_until_empty()
    assert relay.epoch == 1


def test_R01_a_row_that_appears_among_those_being_published_is_not_deleted_with_them(daemon, relays, outbox):
    relay = start(relays, outbox)
    with contextlib.closing(outbox.connect(autocommit=False)) as late:
        outbox.send(["before"])
        send(late, ["late"])
        os.kill(daemon.pid, signal.SIGSTOP)
        try:
            outbox.send(numbered("behind", 200))
            time.sleep(0.3)  # they are on their way
            late.commit()
        finally:
            os.kill(daemon.pid, signal.SIGCONT)
    outbox.wait_until_empty()
    check_once(drain(daemon, "orders", 202), ["before", "late", *numbered("behind", 200)])
    assert relay.epoch == 1


def test_R03_ids_that_were_rolled_back_hold_nothing_up(daemon, relays, outbox):
    start(relays, outbox)
    outbox.send(["first"])
    with contextlib.closing(outbox.connect(autocommit=False)) as db:
        for _ in range(50):
            send(db, numbered("never", 20))
            db.rollback()
    outbox.ask("ALTER TABLE tally_outbox AUTO_INCREMENT = 1000000")
    outbox.send(["second"])
    check_once(drain(daemon, "orders", 2), ["first", "second"])
    outbox.wait_until_empty()


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_R04_a_transaction_that_stays_open_holds_up_neither_rows_nor_deletes(daemon, relays, outbox, isolation):
    """It has read, and written to the outbox; at SERIALIZABLE its reads take locks."""
    relay = start(relays, outbox)
    with contextlib.closing(outbox.connect(autocommit=False)) as db:
        run(db, f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
        db.rollback()
        run(db, "SELECT count(*) FROM effect")
        send(db, ["open"])
        bodies = numbered("passing", 5000)
        for at in range(0, 5000, 500):
            outbox.send(bodies[at:at + 500])
        wait_until(lambda: outbox.count() == 0, 20, "that all others are gone")
        db.commit()
    check_once(drain(daemon, "orders", 5001), [*bodies, "open"])
    outbox.wait_until_empty()
    assert relay.epoch == 1


def test_R05_a_slow_trigger_of_the_outbox_loses_nothing(daemon, relays, outbox):
    start(relays, outbox)
    outbox.ask("CREATE TRIGGER slow BEFORE INSERT ON tally_outbox FOR EACH ROW "
               "SET NEW.delay_s = IF(NEW.body = 'slow', SLEEP(1.5), 0)")
    slow = threading.Thread(target=outbox.send, args=(["slow"],))
    slow.start()
    bodies = numbered("quick", 20)
    for body in bodies:
        outbox.send([body])
        time.sleep(0.05)
    slow.join()
    check_once(drain(daemon, "orders", 21), ["slow", *bodies])
    outbox.wait_until_empty()


def test_R06_a_chosen_id_below_all_others_is_not_lost_and_an_application_with_few_rights_can_not_choose_one(
        daemon, relays, outbox):
    outbox.send(numbered("row", 100))
    relay = start(relays, outbox)
    outbox.wait_until_empty()
    outbox.ask("INSERT INTO tally_outbox(id, queue, body) VALUES (7, 'orders', 'chosen')")
    check_once(drain(daemon, "orders", 101), [*numbered("row", 100), "chosen"])
    outbox.wait_until_empty()
    assert relay.epoch == 1
    grant(outbox, "app6", documented_grants(outbox, "app"))
    with contextlib.closing(outbox.connect(user="app6", password="x")) as db:
        send(db, ["as usual"])
        with pytest.raises(pymysql.err.OperationalError, match="denied"):
            run(db, "INSERT INTO tally_outbox(id, queue, body) VALUES (1, 'orders', 'x')")
        with pytest.raises(pymysql.err.OperationalError, match="denied"):
            run(db, "UPDATE tally_outbox SET body = 'y'")
        run(db, "CALL tally_once_or_raise('m', '')")
    check_once(drain(daemon, "orders", 1), ["as usual"])


def test_R06_ids_that_do_not_count_one_by_one_are_refused(daemon, relays, outbox, own_server):
    other = MysqlOutbox(own_server)
    own_server.sql("SET GLOBAL auto_increment_increment = 3")
    relay = relays(other.source, "queue", "--lease", 1)
    relay.wait_for("failed: auto_increment_increment of this server is 3")
    own_server.sql("SET GLOBAL auto_increment_increment = 1")
    relay.wait_for("active")


def test_R07_a_prepared_transaction_is_waited_for_across_a_restart_of_the_server(daemon, relays, own_server):
    make_queue(daemon, "orders")
    outbox = MysqlOutbox(own_server)
    start(relays, outbox)
    with contextlib.closing(outbox.connect()) as db:
        run(db, "XA START 'x'")
        send(db, ["prepared"])
        run(db, "XA END 'x'")
        run(db, "XA PREPARE 'x'")
    outbox.send(["passing"])
    check_once(drain(daemon, "orders", 1), ["passing"])
    own_server.restart()
    outbox.send(["behind"])
    check_once(drain(daemon, "orders", 1), ["behind"])
    outbox.ask("XA COMMIT 'x'")
    check_once(drain(daemon, "orders", 1), ["prepared"])
    outbox.wait_until_empty()


def test_R08_rows_of_many_writers_that_commit_and_roll_back_in_any_order_all_arrive(daemon, relays, outbox, writers):
    start(relays, outbox)
    traffic = writers(8)
    time.sleep(3)
    traffic.check(daemon)
    assert outbox.highest_id() > len(traffic.committed), "some ids were never committed"


def test_R09_rows_of_one_large_transaction_arrive_once_and_in_order_over_crashes(daemon, relays, outbox):
    """R09 has 50,000 rows; 6,000 are six publishes, and the relay is killed in the middle."""
    with outbox.transaction() as db:
        for group in range(3):
            send(db, numbered(f"g{group}", 2000), "orders.fifo", f"g{group}")
    while outbox.count() > 0:
        relay = start(relays, outbox)
        before = outbox.count()
        wait_until(lambda: outbox.count() < before or outbox.count() == 0)
        relay.kill9()
    messages = drain(daemon, "orders.fifo", 6000, seconds=60)
    check_once(messages, [body for group in range(3) for body in numbered(f"g{group}", 2000)])
    check_order(messages)


# --- what is delivered -----------------------------------------------------------------------------------------------


def test_all_that_a_row_says_arrives(daemon, relays, outbox):
    start(relays, outbox)
    ten = {f"a{number}": "x" for number in range(7)} | {name: "x" for name in ["traceparent", "tracestate", "baggage"]}
    uid = "01234567-89ab-4def-8123-456789abcdef"
    attributes = {"colour": "grün", "size": 7, "raw": {"DataType": "Binary", "BinaryValue": "AAE="}, **ten}
    outbox.ask("INSERT INTO tally_outbox(uid, queue, group_id, dedup_id, attributes, body) VALUES (%s, 'orders.fifo', "
               "'g', 'd', %s, %s)", uid, json.dumps(attributes), "Grüße\n\U0001f600\\'\" ")
    [message] = drain(daemon, "orders.fifo", 1)
    assert message.body == "Grüße\n\U0001f600\\'\" "
    assert message.uid == uid and message.group == "g"
    assert message.attributes["colour"] == "grün" and message.attributes["size"] == "7"
    assert message.raw_attributes["size"]["DataType"] == "Number"
    assert message.raw_attributes["raw"]["BinaryValue"] == "AAE="
    assert message.raw_attributes.keys() >= {"colour", "size", "raw", "Tally.OutboxId", *ten}
    assert message.system["MessageDeduplicationId"] == "d"


def test_R43_R18_what_no_sink_takes_is_refused_at_once_and_a_bad_character_is_parked_alone(daemon, relays, outbox):
    columns = ("queue", "body", "group_id", "dedup_id", "attributes", "delay_s", "uid", "kind")
    for wrong in [{"body": ""}, {"body": None}, {"body": "x" * 1048577}, {"body": "é" * 524289}, {"queue": "a b"},
                  {"queue": "x" * 81}, {"queue": ".fifo"}, {"queue": "http://"}, {"queue": "https://ä"},
                  {"group_id": ""}, {"group_id": "g "}, {"group_id": "g" * 129}, {"dedup_id": "é"},
                  {"attributes": "[]"}, {"attributes": "{"}, {"delay_s": 901}, {"delay_s": -1}, {"uid": "x"},
                  {"uid": "A" * 36}, {"kind": 2}, {"kind": 1, "queue": "orders"}]:
        row = {"queue": "orders", "body": "x"} | wrong
        names = [name for name in columns if name in row]
        for mode in ("STRICT_ALL_TABLES", ""):
            with pytest.raises(pymysql.err.Error), outbox.transaction() as db:
                run(db, "SET SESSION sql_mode = %s", mode)
                run(db, "INSERT INTO effect VALUES ('with a bad row')")
                run(db, f"INSERT INTO tally_outbox({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))})",
                    *[row[name] for name in names])
    assert outbox.count("effect") == 0
    outbox.send(["x" * 1048576, "é" * 524288])
    outbox.send(["a-0", "a-\x01", "a-1"], "orders.fifo", "a")
    outbox.send(["b-0"], "orders.fifo", "b")
    start(relays, outbox)
    messages = drain(daemon, "orders.fifo", 3)
    check_once(messages, ["a-0", "a-1", "b-0"])
    check_order(messages)
    outbox.wait_until_empty()
    [(body, error, is_doubted)] = outbox.ask("SELECT body, error, is_doubted FROM tally_dead")
    assert body == "a-\x01" and "haracter" in error and is_doubted == 0


def test_a_few_large_rows_are_not_read_all_at_once(daemon, relays, outbox):
    relay = start(relays, outbox)
    body = "x" * 1_000_000
    relay.freeze()
    for number in range(1, 101):
        outbox.send([f"{body}-{number}"], "orders.fifo", "g")
    relay.thaw()
    outbox.wait_until_empty(60)
    peak = status_bytes(relay, "VmHWM") // 1024
    assert peak < 100_000 or not IS_BARE, f"{peak} KiB for rows of 1 MB"
    messages = drain(daemon, "orders.fifo", 100, 60)
    assert [message.body[1_000_000:] for message in messages] == [f"-{n}" for n in range(1, 101)]


# --- the consumer ----------------------------------------------------------------------------------------------------


def test_C01_effect_and_ack_are_one_transaction(daemon, relays, outbox):
    """A consumer that crashes before the ack gets the message again and finds the effect done; the ack is a row of the
    transaction."""
    start(relays, outbox)
    queue = Connection(daemon.port)
    sent = queue.ok("AmazonSQS.SendMessage", {"QueueUrl": "orders", "MessageBody": "pay"})["MessageId"]

    def receive(visibility):
        return queue.ok("AmazonSQS.ReceiveMessage", {"QueueUrl": "orders", "VisibilityTimeout": visibility,
                                                     "WaitTimeSeconds": 5})["Messages"][0]

    receive(1)
    with outbox.transaction() as db:
        run(db, "CALL tally_once_or_raise(%s, '')", sent)
        run(db, "INSERT INTO effect VALUES ('paid')")
    again = receive(600)  # the consumer crashed before its ack
    with pytest.raises(pymysql.err.OperationalError) as refused, outbox.transaction() as db:
        run(db, "CALL tally_once_or_raise(%s, '')", sent)
    assert refused.value.args == (1644, "already done: ROLLBACK, then delete the message")
    outbox.ask("INSERT INTO tally_outbox(kind, body) VALUES (1, %s)", again["ReceiptHandle"])

    def is_gone():
        counts = (
            queue.ok("AmazonSQS.GetQueueAttributes", {"QueueUrl": "orders", "AttributeNames": ["All"]})["Attributes"])
        return counts["ApproximateNumberOfMessagesNotVisible"] == counts["ApproximateNumberOfMessages"] == "0"

    wait_until(is_gone, what="the delete of the message")
    outbox.wait_until_empty()
    assert outbox.count("effect") == 1
    queue.close()


@pytest.mark.parametrize("found_rows", [0, pymysql.constants.CLIENT.FOUND_ROWS])
def test_once_answers_and_raises_and_is_not_fooled_by_blanks_or_flags_of_the_client(outbox, found_rows):
    def is_first(*words):
        with contextlib.closing(outbox.connect(client_flag=found_rows)) as db:
            run(db, "CALL tally_once(%s, %s, @is_first)", *words)
            return run(db, "SELECT @is_first")[0][0]

    for words in [("m", ""), ("m ", ""), ("M", ""), ("m", "other"), ("m", "other "), ("é", "")]:
        assert is_first(*words) == 1, words
        assert is_first(*words) == 0, words
        with pytest.raises(pymysql.err.OperationalError, match="already done"):
            outbox.ask("CALL tally_once_or_raise(%s, %s)", *words)
    outbox.ask("CALL tally_once_or_raise('new', NULL)")
    assert is_first("new", "") == 0
    for wrong in (None, "", "x" * 501):
        for mode in ("STRICT_ALL_TABLES", ""):
            with contextlib.closing(outbox.connect()) as db, pytest.raises(pymysql.err.Error):
                run(db, "SET SESSION sql_mode = %s", mode)
                run(db, "CALL tally_once_or_raise(%s, '')", wrong)


def test_pasted_sql_stops_at_the_second_message(outbox):
    text = "START TRANSACTION; CALL tally_once_or_raise('m', ''); INSERT INTO effect VALUES ('paid'); COMMIT;"
    assert outbox.server.client(outbox.name, text)[0] == 0
    status, _, errors = outbox.server.client(outbox.name, text)
    assert status != 0 and "(TALLY)" in errors and "ROLLBACK, then delete the message" in errors
    assert outbox.count("effect") == 1


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("commits", [True, False])
def test_C02_C03_C04_a_second_worker_waits_for_the_first_and_acts_if_that_one_rolls_back(outbox, isolation, commits):
    with contextlib.closing(outbox.connect(autocommit=False)) as first:
        run(first, "CALL tally_once_or_raise('m', '')")
        answers = []

        def second():
            with contextlib.closing(outbox.connect(autocommit=False)) as db:
                run(db, f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
                db.rollback()
                run(db, "SELECT count(*) FROM effect")  # its snapshot is older than the commit of the first
                run(db, "CALL tally_once('m', '', @is_first)")
                answers.append(run(db, "SELECT @is_first")[0][0])
                db.commit()

        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.5)
        assert answers == []
        if commits:
            first.commit()
        else:
            first.rollback()
        thread.join()
    assert answers == [0 if commits else 1]


# --- the text of the tables ------------------------------------------------------------------------------------------


def documented_grants(outbox, user):
    """Those of the head of the schema, for a user, with the database's name."""
    text = re.sub(r"  -- .*", "", outbox_schema("mysql"))
    found = re.findall(rf"^--   (GRANT .* TO {user};)$", text, re.M)
    assert found
    return [statement.replace("mydb.", f"{outbox.name}.") for statement in found]


def grant(outbox, user, statements):
    outbox.ask(f"CREATE USER {user} IDENTIFIED BY 'x'")
    for statement in statements:
        outbox.ask(re.sub(r" TO \w+;$", f" TO {user}", statement))


def test_the_statements_of_the_documentation_work_and_the_text_may_be_run_again(outbox):
    documented = re.findall(r"^--   ((?:INSERT|CALL|DELETE) .*;)(?: +--.*)?$", outbox_schema("mysql"), re.M)
    assert len(documented) == 7
    for statement in documented:
        assert outbox.server.client(outbox.name, statement)[0] == 0
    assert outbox.count() == 2 and outbox.count("tally_inbox") == 1
    tables = outbox.ask("SELECT table_name, create_time FROM information_schema.tables WHERE table_schema = %s "
                        "AND table_type = 'BASE TABLE' ORDER BY 1", outbox.name)
    grant(outbox, "app1", documented_grants(outbox, "app"))
    outbox.install()
    assert outbox.count() == 2 and outbox.count("tally_inbox") == 1 and outbox.count("tally_lease") == 1
    assert tables == outbox.ask("SELECT table_name, create_time FROM information_schema.tables WHERE table_schema = %s "
                                "AND table_type = 'BASE TABLE' ORDER BY 1", outbox.name)
    with contextlib.closing(outbox.connect(user="app1", password="x")) as db:
        run(db, "CALL tally_once_or_raise('after the second run', '')")


def test_two_outboxes_of_one_database_have_names_of_their_own(daemon, relays, outbox):
    longest = "abcdefghi_" * 4
    for prefix in ("shop", longest):
        outbox.install("--schema", prefix)
        relays(outbox.source, "queue", "--lease", 1, "--table", prefix, name=prefix).wait_for("active")
        outbox.ask(f"INSERT INTO {prefix}_outbox(queue, body) VALUES ('orders', %s)", prefix)
        check_once(drain(daemon, "orders", 1), [prefix])
        wait_until(lambda: outbox.count(f"{prefix}_outbox") == 0, what="an empty outbox")
        outbox.ask(f"CALL {prefix}_once_or_raise('m', '')")
    assert outbox.ask("SELECT epoch FROM tally_lease") == [(0,)]


# --- crashes and takeovers -------------------------------------------------------------------------------------------


def test_R11_R13_acknowledged_but_not_deleted_is_not_delivered_twice(daemon, relays, outbox):
    """The application has locked the rows while the queue acknowledges, so the relay can't delete; then it is
    killed."""
    relay = start(relays, outbox)
    relay.freeze()
    outbox.send(numbered("row", 50))
    with contextlib.closing(outbox.connect(autocommit=False)) as lock:
        run(lock, "SELECT id FROM tally_outbox FOR UPDATE")
        relay.thaw()
        messages = drain(daemon, "orders", 50)
        relay.kill9()
        assert outbox.count() == 50
        lock.rollback()
    start(relays, outbox, name="second")
    outbox.wait_until_empty()
    check_once(messages + drain(daemon, "orders"), numbered("row", 50))


def test_R13_rows_whose_delete_was_committed_without_an_answer_lose_and_repeat_nothing(daemon, relays, outbox, proxy):
    relays(through(proxy, outbox), "queue", "--lease", 1).wait_for("active")
    for turn in range(5):
        proxy.lose_answer_to(b"COMMIT")
        outbox.send(numbered(f"g{turn}", 200), "orders.fifo", f"g{turn}")
        wait_until(lambda turn=turn: proxy.lost == turn + 1, what="an answer that is lost")
        outbox.wait_until_empty()
    messages = drain(daemon, "orders.fifo", 1000)
    check_once(messages, [body for turn in range(5) for body in numbered(f"g{turn}", 200)])
    check_order(messages)


def test_a_line_that_is_cut_again_and_again_loses_nothing(daemon, relays, outbox, proxy, writers):
    relays(through(proxy, outbox), "queue", "--lease", 2).wait_for("active")
    traffic = writers(3)
    end = time.monotonic() + 4
    while time.monotonic() < end:
        time.sleep(0.1)
        proxy.cut()
    traffic.check(daemon)


def test_R26_a_standby_takes_over_at_once_whenever_the_owner_is_killed(daemon, relays, outbox, writers):
    """With a lease of 30 seconds nobody could wait for it: the server gives the dead owner's lock back. Writers go on
    all the time."""
    active = relays(outbox.source, "queue", "--lease", 30, name="r0")
    active.wait_for("active")
    traffic = writers(4)
    late = []
    for turn in range(1, 9):
        standby = relays(outbox.source, "queue", "--lease", 30, name=f"r{turn}")
        standby.wait_for("standby")
        time.sleep(0.2)
        active.kill9()
        killed = time.monotonic()
        standby.wait_for("active")
        late.append(time.monotonic() - killed)
        active = standby
    traffic.check(daemon)
    assert max(late) < 5 * PATIENCE, late


def test_R21_R46_a_stopped_owner_is_fenced_when_it_goes_on(daemon, relays, outbox, writers):
    """Back, it becomes a stand-by and leaves the epoch as it is."""
    first = start(relays, outbox, name="first")
    second = relays(outbox.source, "queue", "--lease", 1, name="second")
    second.wait_for("standby")
    traffic = writers(3)
    for _ in range(2):
        first.freeze()
        second.wait_for("active")
        epoch = second.epoch
        time.sleep(0.3)
        first.thaw()
        first.wait_for("standby")
        time.sleep(0.3)
        assert first.state == "standby" and second.state == f"active, epoch {epoch}"
        first, second = second, first
    traffic.check(daemon)
    assert outbox.ask("SELECT epoch FROM tally_lease") == [(epoch,)]


def test_R22_an_owner_whose_connection_is_killed_is_followed_and_fenced_at_once(daemon, relays, outbox, writers):
    first = relays(outbox.source, "queue", "--lease", 30, name="first")
    first.wait_for("active")
    second = relays(outbox.source, "queue", "--lease", 30, name="second")
    second.wait_for("standby")
    traffic = writers(3)
    time.sleep(0.5)
    [(connection,)] = outbox.ask("SELECT connection_id FROM tally_lease")
    outbox.ask(f"KILL {connection}")
    second.wait_for("active, epoch 2", 5)
    first.wait_for("standby", 10)
    traffic.check(daemon)
    assert outbox.ask("SELECT epoch FROM tally_lease") == [(2,)]


def test_R24_a_takeover_whose_connection_breaks_does_not_go_on_over_another_one(relays, own_server):
    """There, the row of the lease would not be locked: somebody else may have taken over since it was read."""
    outbox = MysqlOutbox(own_server)
    own_server.sql("SET GLOBAL log_output = 'TABLE', GLOBAL general_log = 1")
    with contextlib.closing(Proxy(own_server.port)) as proxy:
        first = start(relays, outbox, name="first")
        second = relays(through(proxy, outbox), "queue", "--lease", 1, name="second")
        second.wait_for("standby")
        proxy.lose_answer_to(b"RELEASE_LOCK")  # in the middle, behind the look at the row
        first.kill9()
        second.wait_for("active")
        assert proxy.lost == 1
    log = own_server.sql("SELECT thread_id, CONVERT(argument USING utf8mb4) FROM mysql.general_log")
    locking = {thread for thread, text in log if text.endswith("WHERE l.source = 'outbox' FOR UPDATE")}
    taking = {thread for thread, text in log if text.startswith("UPDATE tally_lease SET epoch")}
    assert len(taking) == 2 and taking < locking


def test_R23_an_owner_without_a_network_is_followed_though_its_connection_holds_its_lock(
        daemon, relays, outbox, proxy, writers):
    first = relays(through(proxy, outbox), "queue", "--lease", 1, name="first")
    first.wait_for("active")
    second = relays(outbox.source, "queue", "--lease", 1, name="second")
    second.wait_for("standby")
    traffic = writers(3)
    [(lock,)] = outbox.ask("SELECT CONCAT('tally:', source_id, ':', epoch) FROM tally_lease")
    [(holder,)] = outbox.ask("SELECT IS_USED_LOCK(%s)", lock)
    assert holder is not None
    proxy.freeze()
    assert second.seconds_until_active() < 5 * PATIENCE
    assert outbox.ask("SELECT IS_USED_LOCK(%s)", lock) == [(holder,)]
    wait_until(lambda: not first.state.startswith("active"), what="that the first one knows")
    proxy.thaw()
    first.wait_for("standby")
    traffic.check(daemon)
    assert second.state == "active, epoch 2"


def test_R23_a_transaction_whose_relay_is_gone_without_a_word_holds_nobody_up(daemon, relays, outbox, proxy):
    """It has locked the row of the lease, and the server waits for its next statement."""
    first = relays(through(proxy, outbox), "queue", "--lease", 1, name="first")
    first.wait_for("active")
    second = relays(outbox.source, "queue", "--lease", 1, name="second")
    second.wait_for("standby")
    proxy.strand(b"DELETE o FROM")
    outbox.send(["row"])
    wait_until(lambda: proxy.stranded == 1, what="a transaction without its relay")
    first.kill9()
    assert second.seconds_until_active() < 10 * PATIENCE
    outbox.wait_until_empty()
    check_once(drain(daemon, "orders"), ["row"])


def test_R27_no_relay_keeps_a_transaction_open(daemon, relays, outbox, writers):
    start(relays, outbox)
    relays(outbox.source, "queue", "--lease", 1, name="standby").wait_for("standby")
    traffic = writers(2)
    oldest = 0
    for _ in range(30):
        time.sleep(0.1)
        found = outbox.ask("SELECT TIMESTAMPDIFF(SECOND, t.trx_started, NOW()) FROM information_schema.innodb_trx t "
                           "JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id WHERE p.db = %s",
                           outbox.name)
        oldest = max([oldest, *[age for age, in found]])
    assert oldest <= 1
    traffic.check(daemon)


def test_R47_of_relays_that_start_together_one_works(daemon, relays, outbox):
    outbox.send(numbered("row", 500))
    all_of_them = [relays(outbox.source, "queue", name=f"r{number}") for number in range(6)]
    wait_until(lambda: all(relay.state for relay in all_of_them))
    wait_until(lambda: sorted(relay.state.split(",")[0] for relay in all_of_them) == ["active"] + 5 * ["standby"])
    outbox.wait_until_empty()
    check_once(drain(daemon, "orders", 500), numbered("row", 500))
    assert outbox.ask("SELECT epoch FROM tally_lease") == [(1,)]


def test_R55_an_epoch_of_two_to_the_fortieth_is_taken_over_as_any_other(daemon, relays, outbox):
    outbox.ask("UPDATE tally_lease SET epoch = %s", (1 << 40) - 1)
    first = start(relays, outbox, name="first")
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


def test_a_relay_of_the_daemon_goes_on_after_kill_9_lists_what_it_parked_and_hides_the_password(
        daemon, outbox, writers):
    arguments = {"RelayName": "shop", "Source": {"Type": "mysql", "Connection": outbox.source},
                 "Sink": {"Type": "queue"}}
    assert daemon.call("Tally.CreateRelay", arguments)[0] == 200
    traffic = writers(3)
    for _ in range(3):
        time.sleep(0.4)
        daemon.kill9()
        daemon.start()
    outbox.send(["bad-\x01"], "orders.fifo", "bad")
    traffic.check(daemon)
    [doubt] = wait_until(lambda: daemon.call("Tally.ListDoubts", {"RelayName": "shop"})[1]["Doubts"],
                         what="the parked row")
    assert doubt["IsInDoubt"] is False and doubt["QueueName"] == "orders.fifo"
    outbox.ask("UPDATE tally_dead SET body = 'good-0'")
    assert daemon.call("Tally.ResolveDoubt", {"RelayName": "shop", "Uid": doubt["Uid"], "Action": "send"})[0] == 200
    [message] = drain(daemon, "orders.fifo", 1)
    assert message.body == "good-0" and message.uid == doubt["Uid"]
    wait_until(lambda: outbox.count("tally_dead") == 0, what="the end of the parked row")
    description = daemon.call("Tally.DescribeRelay", {"RelayName": "shop"})[1]
    assert description["State"] == "active"
    assert description["Source"]["Connection"] == f"mysql://tally@127.0.0.1:{outbox.server.port}/{outbox.name}"
    for secret in (PASSWORD, PASSWORD_IN_URL):
        assert secret not in json.dumps(description) + json.dumps(daemon.call("Tally.ListRelays", {})[1])


# --- the server ------------------------------------------------------------------------------------------------------


def test_R49_a_server_that_restarts_or_crashes_is_found_again(daemon, relays, own_server):
    make_queue(daemon, "orders.fifo")
    outbox = MysqlOutbox(own_server)
    relays(outbox.source, "queue", "--lease", 2, name="first").wait_for("active")
    bodies = []
    for turn, end in enumerate([own_server.restart, own_server.kill9, own_server.restart]):
        more = numbered(f"g{turn}", 500)
        outbox.send(more, "orders.fifo", f"g{turn}")
        bodies += more
        end()
        if own_server.process is None:
            own_server.start()
    outbox.wait_until_empty(60)
    messages = drain(daemon, "orders.fifo", len(bodies))
    check_once(messages, bodies)
    check_order(messages)


def test_a_relay_stops_at_once_though_its_server_is_silent(daemon, relays, own_server):
    outbox = MysqlOutbox(own_server)
    relay = relays(outbox.source, "queue", "--lease", 1)
    relay.wait_for("active")
    os.kill(own_server.process.pid, signal.SIGSTOP)
    try:
        time.sleep(0.3)
        relay.stop(8)
    finally:
        os.kill(own_server.process.pid, signal.SIGCONT)


def stop_in_time(relay):
    began = time.monotonic()
    relay.stop(10)
    assert time.monotonic() - began < 3 * PATIENCE


@pytest.mark.parametrize("pause", [0.02, 5])
@pytest.mark.parametrize("tls", ["disabled", "required"])
@pytest.mark.parametrize("moment", ["connecting", "standing by", "at work"])
def test_a_relay_stops_in_time_though_each_byte_of_its_server_is_late(relays, outbox, proxy, moment, tls, pause):
    """Such a server answers within every time-out for a part of an answer."""
    if moment == "standing by":
        start(relays, outbox, name="other")
    if moment == "connecting":
        proxy.trickle(pause)
    relay = relays(outbox.server.url(outbox.name, port=proxy.port, words=f"?ssl-mode={tls}"), "queue", "--lease", 1)
    if moment != "connecting":
        relay.wait_for("standby" if moment == "standing by" else "active")
        outbox.send(numbered("row", 100))
        proxy.trickle(pause)
    time.sleep(1)
    stop_in_time(relay)


def test_a_daemon_stops_in_time_though_its_server_trickles(daemon, outbox, proxy):
    source = {"Type": "mysql", "Connection": through(proxy, outbox)}
    arguments = {"RelayName": "slow", "Source": source, "Sink": {"Type": "queue"}}
    assert daemon.call("Tally.CreateRelay", arguments)[0] == 200
    wait_until(lambda: daemon.call("Tally.DescribeRelay", {"RelayName": "slow"})[1]["State"] == "active")
    proxy.trickle(0.2)
    outbox.send(numbered("row", 100))
    time.sleep(1)
    began = time.monotonic()
    assert daemon.stop() == 0
    assert time.monotonic() - began < 3 * PATIENCE
    daemon.start()


def test_an_answer_without_end_is_given_up_in_time(daemon):
    """Its reader never waits, and would take all memory first."""
    with MysqlFlood() as server:
        arguments = {"RelayName": "full", "Source": {"Type": "mysql", "Connection": server.url},
                     "Sink": {"Type": "queue"}}
        assert daemon.call("Tally.CreateRelay", arguments)[0] == 200
        wait_until(lambda: daemon.call("Tally.DescribeRelay", {"RelayName": "full"})[1]["State"] == "failed", 9,
                   "that the relay gives the answer up")
        wait_until(lambda: len(server.connections) > 1, 20, "that it tries again")
        time.sleep(0.5)
        began = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - began < 3 * PATIENCE


@pytest.mark.parametrize("tls", ["disabled", "required"])
def test_an_answer_that_trickles_is_given_up_and_the_rows_arrive_over_another_connection(
        daemon, relays, outbox, proxy, tls):
    relay = relays(outbox.server.url(outbox.name, port=proxy.port, words=f"?ssl-mode={tls}"), "queue", "--lease", 1)
    relay.wait_for("active")
    proxy.trickle(0.2)
    outbox.send(numbered("row", 100))
    relay.wait_for("failed: the connection to MySQL broke", 20)
    proxy.trickle(0)
    relay.wait_for("active", 30)
    outbox.wait_until_empty()
    check_once(drain(daemon, "orders", 100), numbered("row", 100))


@pytest.mark.parametrize("tls, pause", [("disabled", 0.2), ("required", 0.02)])  # the latter: in the TLS handshake
def test_a_server_that_trickles_while_one_connects_is_given_up_within_ten_seconds(relays, outbox, proxy, tls, pause):
    proxy.trickle(pause)
    relay = relays(outbox.server.url(outbox.name, port=proxy.port, words=f"?ssl-mode={tls}"), "queue", "--lease", 1)
    began = time.monotonic()
    relay.wait_for("failed: ", 20)
    assert 9 < time.monotonic() - began < 13 * PATIENCE
    proxy.trickle(0)
    relay.wait_for("active", 30)


def test_R10_a_replica_is_refused_and_a_primary_that_becomes_one_is_left(daemon, relays, own_server):
    make_queue(daemon, "orders")
    outbox = MysqlOutbox(own_server)
    own_server.sql("SET GLOBAL read_only = 1")
    relay = relays(outbox.source, "queue", "--lease", 1)
    relay.wait_for("failed: a relay works on the primary only")
    own_server.sql("SET GLOBAL read_only = 0")
    relay.wait_for("active")
    own_server.sql("SET GLOBAL read_only = 1")
    outbox.send(["row"])  # this user may, as an administrator may
    wait_until(lambda: "read_only" in relay.state, what="that the relay stops")
    assert outbox.count() == 1
    own_server.sql("SET GLOBAL read_only = 0")
    relay.wait_for("active")
    outbox.wait_until_empty()
    check_once(drain(daemon, "orders", 1), ["row"])


def test_R36_R38_rows_of_a_restored_backup_are_known_and_others_of_their_ids_are_not_lost(daemon, relays, outbox):
    """A backup stands for the failover to a replica that lags: deletes and an epoch are lost, and ids are given to
    other rows."""
    outbox.send(numbered("old", 20))
    backup = {table: outbox.ask(f"SELECT * FROM {table}") for table in ("tally_outbox", "tally_lease", "tally_beat")}
    relay = start(relays, outbox)
    outbox.send(numbered("lost", 20))
    outbox.wait_until_empty()
    messages = drain(daemon, "orders", 40)
    relay.stop()
    for table, rows in backup.items():
        outbox.ask(f"DELETE FROM {table}")
        for row in rows:
            outbox.ask(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(row))})", *row)
    outbox.ask("ALTER TABLE tally_outbox AUTO_INCREMENT = 21")
    outbox.send(numbered("new", 20))  # under the ids of those that the backup does not know
    assert outbox.ask("SELECT min(id), max(id) FROM tally_outbox WHERE body LIKE 'new-%'") == [(21, 40)]
    start(relays, outbox, name="second")
    outbox.wait_until_empty()
    messages += drain(daemon, "orders", 20)
    check_once(messages, numbered("old", 20) + numbered("lost", 20) + numbered("new", 20))


def test_R36_rows_that_come_back_under_a_working_relay_are_found_within_its_next_look_at_everything(
        daemon, relays, outbox):
    """Below thousands of ids that the relay passes over: it looks at everything once a minute."""
    relay = start(relays, outbox)
    with contextlib.closing(outbox.connect(autocommit=False)) as late:
        send(late, ["late"])  # so that there are pieces
        bodies = numbered("row", 5000)
        outbox.send(bodies)
        outbox.wait_until_empty()
        outbox.ask("INSERT INTO tally_outbox(id, queue, body) VALUES (2500, 'orders', 'back')")
        outbox.send(["behind"])
        late.commit()
    wait_until(lambda: outbox.count() == 0, 90, "an empty outbox")
    check_once(drain(daemon, "orders", 5003), [*bodies, "late", "back", "behind"])
    assert relay.epoch == 1


def test_R42_rows_that_can_not_be_removed_do_not_make_the_scan_slower(daemon, relays, own_server):
    """A snapshot keeps InnoDB from removing what the relay deletes."""
    make_queue(daemon, "orders")
    outbox = MysqlOutbox(own_server)
    start(relays, outbox)
    count = scaled(60_000, least=20_000)

    def pages_read():
        return int(own_server.sql("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'")[0][1])

    def pages_in_a_second():
        before, began = pages_read(), time.monotonic()
        time.sleep(1)
        return (pages_read() - before) / (time.monotonic() - began)

    def pages_per_second():
        return min(pages_in_a_second() for _ in range(3))  # once a minute a scan of everything is among them

    with contextlib.closing(outbox.connect(autocommit=False)) as reader:
        run(reader, "SELECT count(*) FROM tally_outbox")
        outbox.send(numbered("few", 1000))
        outbox.wait_until_empty()
        few = pages_per_second()
        bodies = numbered("many", count)
        for at in range(0, count, 5000):
            outbox.send(bodies[at:at + 5000])
        outbox.wait_until_empty(120)
        time.sleep(2)
        many = pages_per_second()
        assert run(reader, "SELECT count(*) FROM tally_outbox") == [(0,)]
    assert many < 3 * few + 5000, f"{many} pages a second, after {few}"
    assert count_visible(daemon, "orders") == count + 1000


def test_the_lag_is_shown(daemon, outbox):
    """Ids that were rolled back count as rows where there are more than a thousand: it is an estimate then."""
    with contextlib.closing(outbox.connect(autocommit=False)) as db:
        send(db, numbered("never", 500))
        db.rollback()
    outbox.send(numbered("row", 3000), "missing")
    source = {"Type": "mysql", "Connection": outbox.source}
    assert daemon.call("Tally.CreateRelay", {"RelayName": "lag", "Source": source, "Sink": {"Type": "queue"}})[0] == 200

    def shown():
        return daemon.call("Tally.DescribeRelay", {"RelayName": "lag"})[1]

    wait_until(lambda: shown()["Lag"]["Rows"] >= 3000, what="the lag")
    assert shown()["Lag"]["Rows"] <= 3500
    outbox.ask("DELETE FROM tally_outbox WHERE id > 1200")
    wait_until(lambda: shown()["Lag"]["Rows"] == outbox.count(), what="an exact lag")


# --- what does not fit -----------------------------------------------------------------------------------------------


def test_R51_who_lacks_rights_or_tables_says_what_to_do_and_works_as_soon_as_it_is_done(daemon, relays, server, outbox):
    server.sql("CREATE DATABASE fresh")
    server.sql("CREATE USER relay51 IDENTIFIED BY 'wrong'")
    relay = relays(server.url("fresh", "relay51", "x"), "queue", "--lease", 1)
    said = relay.wait_for("failed: MySQL does not let this user in")
    assert "Check the user, its password and its way to log in" in said
    server.sql("ALTER USER relay51 IDENTIFIED BY 'x'")
    assert "tally relay schema --type mysql prints" in relay.wait_for("failed: the relay's user lacks a right")
    server.sql("GRANT CREATE ON fresh.* TO relay51")
    server.sql("GRANT SELECT ON fresh.* TO relay51")
    assert "tally relay schema --type mysql | mariadb fresh" in relay.wait_for(
        "failed: the outbox is missing or of another shape")
    server.sql("REVOKE ALL ON fresh.* FROM relay51")
    assert server.client("fresh", outbox_schema("mysql"))[0] == 0
    relay.wait_for("failed: the relay's user lacks a right")
    outbox.name = "fresh"
    for statement in documented_grants(outbox, "relay"):
        server.sql(re.sub(r" TO \w+;$", " TO relay51", statement))
    relay.wait_for("active")
    outbox.send(numbered("row", 10))
    check_once(drain(daemon, "orders", 10), numbered("row", 10))
    outbox.wait_until_empty()


def test_what_does_not_fit_is_said_and_mended_while_it_runs(daemon, relays, server, outbox):
    relay = relays(server.url("nowhere"), "queue", name="nowhere")
    relay.wait_for("failed: there is no such database")
    outbox.ask("ALTER TABLE tally_outbox ENGINE = MyISAM")
    relay = relays(outbox.source, "queue", "--lease", 1)
    assert "ALTER TABLE tally_outbox ENGINE = InnoDB" in relay.wait_for("failed: table tally_outbox has the engine")
    outbox.ask("ALTER TABLE tally_outbox ENGINE = InnoDB")
    relay.wait_for("active")
    relay.stop()
    outbox.ask("DELETE FROM tally_lease")
    relay = relays(outbox.source, "queue", "--lease", 1, name="second")
    relay.wait_for("failed: table tally_lease has no row for the outbox")
    outbox.install()
    relay.wait_for("active")
    relay.stop()
    outbox.ask("CREATE OR REPLACE VIEW tally_version AS SELECT 2 AS version")
    relay = relays(outbox.source, "queue", "--lease", 1, name="third")
    relay.wait_for("failed: the tables tally_* have version 2")
    outbox.install()
    relay.wait_for("active")
    relay.stop()
    outbox.ask("ALTER TABLE tally_outbox MODIFY id BIGINT UNSIGNED NOT NULL")
    relay = relays(outbox.source, "queue", "--lease", 1, name="fourth")
    relay.wait_for("failed: column id of tally_outbox must be AUTO_INCREMENT")


def test_a_row_whose_name_is_none_is_told_and_mended(daemon, relays, outbox):
    with outbox.transaction() as db:
        run(db, "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
        run(db, "INSERT INTO tally_outbox(id, queue, body) VALUES (0, 'orders', 'x')")
    relay = relays(outbox.source, "queue", "--lease", 1)
    wait_until(lambda: "names no message" in relay.state, what="the complaint")
    outbox.ask("DELETE FROM tally_outbox WHERE id = 0")
    outbox.send(["row"])
    check_once(drain(daemon, "orders", 1), ["row"])


def test_R30_a_copy_is_refused_until_it_has_an_identity_of_its_own(daemon, relays, outbox):
    original = start(relays, outbox, name="original")
    outbox.send(["both"])
    assert len(drain(daemon, "orders", 1)) == 1
    outbox.wait_until_empty()
    copy = MysqlOutbox(outbox.server)
    copy.ask("DELETE FROM tally_lease")
    copy.ask(f"INSERT INTO tally_lease SELECT * FROM {outbox.name}.tally_lease")
    relay = relays(copy.source, "queue", "--lease", 1, name="copy")
    said = relay.wait_for("failed: this outbox was copied here")
    assert outbox.name in said and "CALL tally_rekey(TRUE)" in said
    before = copy.ask("SELECT source_id FROM tally_lease")
    copy.ask("CALL tally_rekey(FALSE)")
    assert copy.ask("SELECT source_id, place FROM tally_lease") == [(before[0][0], None)]
    copy.ask("CALL tally_rekey(TRUE)")
    assert copy.ask("SELECT source_id FROM tally_lease") != before
    relay.wait_for("active")
    outbox.send(["of the original"])
    copy.send(["of the copy"])
    check_once(drain(daemon, "orders", 2), ["of the original", "of the copy"])
    assert original.epoch == 1


# --- the line --------------------------------------------------------------------------------------------------------


def test_a_socket_will_do_and_a_connection_is_checked_when_it_is_given(daemon, relays, outbox):
    outbox.ask(f"CREATE USER IF NOT EXISTS tally@localhost IDENTIFIED BY '{PASSWORD}'")
    outbox.ask("GRANT ALL ON *.* TO tally@localhost")
    source = f"mysql://tally:{PASSWORD_IN_URL}@localhost/{outbox.name}?socket={outbox.server.socket}"
    relays(source, "queue", "--lease", 1).wait_for("active")
    outbox.send(["row"])
    check_once(drain(daemon, "orders", 1), ["row"])
    for wrong in ["mysql://tally:s3cr@t@127.0.0.1/x", "mysql://tally:s3cret@127.0.0.1", "postgres://a:s3cret@b/c",
                  "mysql://a:s3cret@b:port/c", "mysql://a:s3cret%4@b/c", "mysql://a:s3cret@b/c?tls=1",
                  "mysql://a:s3cret@b/c?ssl-mode=verify"]:
        status, answer = daemon.call("Tally.CreateRelay", {
            "RelayName": "wrong", "Source": {"Type": "mysql", "Connection": wrong}, "Sink": {"Type": "queue"}})
        assert status == 400 and "s3cr" not in json.dumps(answer), answer
        assert "Source.Connection" in answer["message"] and "mysql://USER:PASSWORD@HOST" in answer["message"]


def test_the_line_is_encrypted_where_that_is_asked_for(daemon, relays, tmp_path):
    certificate, other = Certificate(tmp_path), Certificate(tmp_path, "other")
    server = server_with(certificate)
    try:
        make_queue(daemon, "orders")
        outbox = MysqlOutbox(server)
        server.sql("CREATE USER encrypted IDENTIFIED BY 'x' REQUIRE SSL")
        server.sql("GRANT ALL ON *.* TO encrypted")
        plain, required, genuine, foreign = [
            relays(server.url(outbox.name, "encrypted", "x", words=words), "queue", "--lease", 1, name=name)
            for name, words in [("plain", ""), ("required", "?ssl-mode=required"),
                                ("genuine", f"?ssl-ca={certificate.certificate}"),
                                ("foreign", f"?ssl-ca={other.certificate}")]]
        plain.wait_for("failed: MySQL does not let this user in")
        wait_until(lambda: sorted(relay.state.split(",")[0] for relay in (required, genuine)) == ["active", "standby"])
        outbox.send(["row"])
        check_once(drain(daemon, "orders", 1), ["row"])
        assert not foreign.state.startswith(("active", "standby"))
    finally:
        server.kill9()


def test_ways_to_log_in_are_those_of_the_library_or_beside_the_program(relays, outbox, tmp_path):
    """As in an archive of packaging/dist, where they stand in libexec; there, a folder without any."""
    outbox.ask("INSTALL SONAME 'auth_ed25519'")
    outbox.ask("CREATE USER modern IDENTIFIED VIA ed25519 USING PASSWORD('x')")
    outbox.ask("GRANT ALL ON *.* TO modern")
    source = outbox.server.url(outbox.name, "modern", "x")
    relays(source, "queue", "--lease", 1).wait_for("active")
    (tmp_path / "bin").mkdir()
    shutil.copy(BIN / "tally", tmp_path / "bin")
    (tmp_path / "deps").symlink_to(BIN.parent / "deps")
    (tmp_path / "libexec/tally/mariadb").mkdir(parents=True)
    done = subprocess.Popen([tmp_path / "bin/tally", "relay", "run", "--source", source, "--sink", "queue"],
                            stdout=subprocess.PIPE, text=True, env=clean_environment())
    try:
        line = done.stdout.readline()
        assert line.startswith("relay relay: failed: MySQL does not let this user in: Plugin client_ed25519 could not")
        assert f"{tmp_path}/bin/../libexec/tally/mariadb/client_ed25519.so" in line and "its way to log in" in line
    finally:
        done.kill()
        done.communicate()


# --- a sink that remembers nothing -----------------------------------------------------------------------------------


def test_at_most_once_lists_what_may_have_arrived_when_its_owner_was_killed(relays, outbox, receiver):
    check_what_may_have_arrived_is_listed(relays, outbox, receiver)


@pytest.mark.parametrize("answer", [200, 422])
def test_R46_an_owner_that_outlived_its_lease_deletes_parks_and_notes_nothing(relays, outbox, receiver, answer):
    check_an_owner_that_outlived_its_lease(relays, outbox, receiver, answer)
