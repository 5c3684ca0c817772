"""Relays with PostgreSQL as the source. The application writes with psycopg2; what arrives in Tally's queues is counted
here.

The ids are those of docs/internals/invariants-relays.md. Takeovers, time-outs and dead lines stand in
test_relay_takeover.py."""

import contextlib
import io
import os
import pathlib
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import psycopg2.errors
import pytest

from conftest import BIN, IS_BARE, PATIENCE, Daemon, clean_environment, free_port, status_bytes, wait_until
from outbox import Outbox
from postgres import hand_over
from proxy import Proxy
from queues import count_visible, make_queue
from relay import Relay, check_once, check_order, drain
from wire import scaled


@pytest.fixture(scope="module", autouse=True)
def overtaken(server, tmp_path_factory):
    """An outbox with a row whose id is below all that has settled: (daemon, outbox, relay). It is there before the
    first test begins, so that the one at the end, which is about the scan of each minute, need not wait for it."""
    daemon = Daemon(tmp_path_factory.mktemp("overtaken")).start()
    outbox = Outbox(server)
    relay = Relay(daemon.endpoint, outbox.uri, "queue", "--lease", 5).start()
    try:
        make_queue(daemon, "orders")
        relay.wait_for("active")
        outbox.sql("SELECT setval('tally.outbox_id_seq', 100)")
        settle(outbox)
        outbox.wait_until_empty()
        outbox.sql(
            "INSERT INTO tally.outbox (id, queue, body) OVERRIDING SYSTEM VALUE VALUES (7, 'orders', 'overtaken')")
        yield daemon, outbox, relay
    finally:
        relay.kill9()
        daemon.kill9()


def start(relays, outbox, *options, **more):
    relay = relays(outbox.uri, "queue", "--lease", 1, *options, **more)
    relay.wait_for("active")
    return relay


def settle(outbox, seconds=2.5):
    """Traffic for long enough that the floor would have passed what it must not pass."""
    end = time.monotonic() + seconds
    sent = []
    while time.monotonic() < end:
        sent.append(f"passing-{len(sent)}")
        outbox.send("orders", sent[-1])
        time.sleep(0.05)
    return sent


# --- the order of commits ---------------------------------------------------------------------------------------------


def test_R01_R02_a_row_that_commits_late_is_late_and_still_before_what_was_written_after_it(
        daemon, relays, outbox, queue, fifo):
    relay = start(relays, outbox)
    with contextlib.closing(outbox.begin()) as late:
        late.cursor().execute("SELECT tally.send('orders.fifo', 'key-1', 'key')")  # draws the lower id
        passing = settle(outbox)
        arrived = drain(daemon, queue, len(passing))
        check_once(arrived, passing)
        late.commit()
    outbox.send(fifo, "key-2", "key")
    arrived = drain(daemon, fifo, 2)
    assert [message.body for message in arrived] == ["key-1", "key-2"]
    relay.stop()


def test_R01_a_row_that_appears_among_those_being_published_is_not_deleted_with_them(daemon, relays, outbox, queue):
    """They are deleted as a range of ids, and it has come to stand within that range."""
    line = Proxy(daemon.port)
    bodies = [f"early-{number}" for number in range(200)]
    with contextlib.closing(outbox.begin()) as late, contextlib.closing(line):
        relay = start(relays, outbox, "--endpoint", f"http://127.0.0.1:{line.port}")
        line.freeze()  # what is read now is not published before the late one is there
        with contextlib.closing(outbox.begin()) as early:
            for number, body in enumerate(bodies):
                early.cursor().execute("SELECT tally.send('orders', %s)", (body,))
                if number == 100:
                    late.cursor().execute("SELECT tally.send('orders', 'late')")
            early.commit()
        time.sleep(0.3)  # a scan waits 25 ms at most
        late.commit()
        line.thaw()
        check_once(drain(daemon, queue, 201), [*bodies, "late"])
        outbox.wait_until_empty(5)
        relay.stop()


def test_R03_ids_that_were_rolled_back_hold_nothing_up(daemon, relays, outbox, queue):
    start(relays, outbox)
    outbox.send(queue, "before")
    with contextlib.closing(outbox.begin()) as gone:
        gone.cursor().execute("SELECT tally.send('orders', 'never') FROM generate_series(1, 100)")
        gone.cursor().execute("SELECT count(nextval('tally.outbox_id_seq')) FROM generate_series(1, 1000000)")
        gone.rollback()
    check_once(drain(daemon, queue, 1), ["before"])
    before = reads(outbox)
    began = time.monotonic()
    outbox.send(queue, "after")
    check_once(drain(daemon, queue, 1), ["after"])
    assert time.monotonic() - began < 5 * PATIENCE
    outbox.fill(queue, 1000)  # and the floor goes up behind them
    wait_until(lambda: count_visible(daemon, queue) == 1000, what="the rows behind the ids that are missing")
    assert reads(outbox)[0] - before[0] < 100_000
    assert outbox.one("SELECT last_value FROM tally.outbox_id_seq") > 1_001_000


def reads(outbox):
    """What was read of the outbox so far: entries of its index, scans of that, blocks of both, and scans of the whole
    table."""
    time.sleep(1.3 * PATIENCE)  # statistics come about a second late
    return outbox.sql(
        "SELECT s.idx_tup_read, s.idx_scan, b.idx_blks_hit + b.idx_blks_read + b.heap_blks_hit + b.heap_blks_read, "
        "t.seq_scan  FROM pg_stat_user_indexes s JOIN pg_stat_user_tables t USING (relid) JOIN pg_statio_user_tables b "
        "USING (relid) WHERE s.indexrelname = 'outbox_pkey'")[0]


def test_R04_a_transaction_that_stays_open_holds_up_neither_rows_nor_memory(daemon, relays, outbox, queue, fifo):
    """What is compared is not time but how much of the index is read for each row, which a busy machine doesn't change.
    And its row comes from between all that is passed over, before the one of its group that was written behind it."""
    relay = start(relays, outbox)
    count = scaled(200_000, least=20_000) // 4

    def memory():
        return int(pathlib.Path(f"/proc/{relay.pid}/statm").read_text().split()[1]) * 4096

    done = [reads(outbox)[0]]

    def entries_per_row(part):
        outbox.fill(queue, count, first=part * count)
        wait_until(lambda: count_visible(daemon, queue) >= (part + 1) * count, 60, "the rows of a part")
        done.append(reads(outbox)[0])
        return (done[-1] - done[-2]) / count

    alone = entries_per_row(0)
    with contextlib.closing(outbox.begin()) as late:
        late.cursor().execute("SELECT tally.send('orders.fifo', 'key-0', 'key')")
        first, size = entries_per_row(1), memory()
        entries_per_row(2)
        last = entries_per_row(3)
        # Once a minute everything is read, which is a few more for each row; without what is gone it were more than a
        # hundred.
        assert last < 2 * max(alone, first) + 10, (
            f"{alone} entries for a row, beside an open transaction {first} and then {last}")
        assert memory() < size + 16 * 1024 * 1024 or not IS_BARE
        late.commit()
    outbox.send(fifo, "key-1", "key")
    assert [message.body for message in drain(daemon, fifo, 2)] == ["key-0", "key-1"]
    outbox.wait_until_empty(5)
    assert count_visible(daemon, queue) == 4 * count


def test_R05_a_slow_trigger_between_the_id_and_the_row_loses_nothing(daemon, relays, outbox, queue):
    outbox.sql("""CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS
                  $$ BEGIN IF NEW.body = 'slow' THEN PERFORM pg_sleep(2); END IF; RETURN NEW; END $$;
                  CREATE TRIGGER slow BEFORE INSERT ON tally.outbox FOR EACH ROW EXECUTE FUNCTION public.slow()""")
    start(relays, outbox)
    slow = threading.Thread(target=outbox.send, args=(queue, "slow"))
    slow.start()
    wait_until(lambda: outbox.one("SELECT is_called FROM tally.outbox_id_seq"), what="the id of the slow row")
    passing = settle(outbox, 1.2)
    slow.join()
    check_once(drain(daemon, queue, len(passing) + 1), [*passing, "slow"])


def test_R06_ids_that_carry_no_order_are_refused_and_a_chosen_one_is_not_lost(daemon, relays, outbox, queue):
    outbox.sql("ALTER TABLE tally.outbox ALTER id SET CACHE 10")
    relay = relays(outbox.uri, "queue", "--lease", 1)
    assert "CACHE 10" in relay.wait_for("failed")
    outbox.sql(
        "ALTER TABLE tally.outbox ALTER id SET CACHE 1; ALTER TABLE tally.outbox ALTER id SET GENERATED BY DEFAULT")
    wait_until(lambda: "GENERATED ALWAYS" in relay.state, what="the next reason")
    outbox.sql("ALTER TABLE tally.outbox ALTER id SET GENERATED ALWAYS")
    relay.wait_for("active")

    outbox.sql("SELECT setval('tally.outbox_id_seq', 100)")
    passing = settle(outbox)  # the floor is above the id that is chosen now
    outbox.sql("INSERT INTO tally.outbox (id, queue, body) OVERRIDING SYSTEM VALUE VALUES (7, 'orders', 'chosen')")
    outbox.send(queue, "last")
    check_once(drain(daemon, queue, len(passing) + 1), [*passing, "last"])
    relay.stop()  # the next one begins without a floor, as every one does each minute
    start(relays, outbox)
    check_once(drain(daemon, queue, 1), ["chosen"])


def test_R06_the_table_refuses_an_id_that_somebody_chose(outbox, queue):
    for statement in (
            "INSERT INTO tally.outbox (id, queue, body) VALUES (7, 'orders', 'chosen')",
            "INSERT INTO tally.outbox (id, queue, body) VALUES (nextval('tally.outbox_id_seq'), 'orders', 'drawn')",
            "UPDATE tally.outbox SET id = 7"):
        with pytest.raises(psycopg2.errors.GeneratedAlways):
            outbox.sql(statement)
    assert outbox.count() == 0


@pytest.mark.parametrize("wrong, right", [("INCREMENT BY 2", "INCREMENT BY 1"), ("INCREMENT BY -1", "INCREMENT BY 1"),
                                          ("CYCLE", "NO CYCLE")])
def test_R06_a_sequence_that_does_not_count_one_by_one_is_refused_at_the_start(
        daemon, relays, outbox, queue, wrong, right):
    outbox.sql(f"ALTER TABLE tally.outbox ALTER id SET {wrong}")
    outbox.send(queue, "waits")
    relay = relays(outbox.uri, "queue", "--lease", 1)
    said = relay.wait_for("failed")
    assert f" {wrong}" in said.split(":")[1] and f"SET {right}" in said
    assert outbox.lease()[0] == 0 and count_visible(daemon, queue) == 0  # it was never a candidate
    outbox.sql(f"ALTER TABLE tally.outbox ALTER id SET {right}")
    relay.wait_for("active")
    check_once(drain(daemon, queue, 1), ["waits"])


def test_R07_a_prepared_transaction_is_waited_for_across_a_restart_of_the_server(daemon, relays, postgres, queue):
    outbox = Outbox(postgres)
    relay = start(relays, outbox)
    prepared = outbox.connect()
    prepared.cursor().execute("BEGIN; SELECT tally.send('orders', 'prepared'); PREPARE TRANSACTION 'two-phase'")
    prepared.close()
    passing = settle(outbox)
    postgres.restart()
    relay.wait_for("active")
    passing += [f"again-{body}" for body in settle_again(outbox)]
    outbox.sql("COMMIT PREPARED 'two-phase'")
    check_once(drain(daemon, queue, len(passing) + 1), [*passing, "prepared"])


def settle_again(outbox):
    sent = []
    end = time.monotonic() + 2
    while time.monotonic() < end:
        sent.append(f"passing-{len(sent)}")
        outbox.send("orders", f"again-{sent[-1]}")
        time.sleep(0.05)
    return sent


def test_R08_rows_of_many_writers_that_commit_and_roll_back_in_any_order_all_arrive(daemon, relays, outbox, fifo):
    start(relays, outbox)
    committed, lock, end = [], threading.Lock(), time.monotonic() + 4

    def write(writer):
        chance = random.Random(writer)
        number = 0
        with contextlib.closing(outbox.begin()) as connection:
            while time.monotonic() < end:
                bodies = [f"writer{writer}-{number + i}" for i in range(chance.randrange(1, 5))]
                for body in bodies:
                    connection.cursor().execute("SELECT tally.send('orders.fifo', %s, %s)", (body, f"writer{writer}"))
                    time.sleep(chance.random() * 0.01)
                if chance.random() < 0.2:
                    connection.rollback()
                    continue
                connection.commit()
                number += len(bodies)
                with lock:
                    committed.extend(bodies)

    writers = [threading.Thread(target=write, args=(n,)) for n in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    arrived = drain(daemon, fifo, len(committed))
    check_once(arrived, committed)
    check_order(arrived)


# How the relay's statements are called on the wire: the highest id, who writes, the lowest row, the scan.
HIGH, WRITERS, LOWEST, SCAN = b"rows_7\0", b"rows_8\0", b"rows_9\0", b"rows_0\0"


def test_R08_a_row_that_commits_between_two_looks_of_the_relay_keeps_its_place(
        daemon, relays, outbox, queue, fifo, proxy):
    """A's id is drawn before a look or during it, a higher id becomes visible, and A commits during it or after."""
    relays(proxy.uri(outbox.uri), "queue", "--lease", 5).wait_for("active")
    cases = [(look, begins_before, ends_within)
             for look, begins_before in ((HIGH, False), (WRITERS, True), (LOWEST, False), (SCAN, True))
             for ends_within in (True, False)]
    for number, (look, begins_before, ends_within) in enumerate(cases):
        with contextlib.closing(outbox.begin()) as late:
            def draw():
                late.cursor().execute("SELECT tally.send('orders.fifo', %s, 'key')", (f"key-{2 * number}",))

            if begins_before:
                draw()
            proxy.hold(look)
            assert proxy.is_held.wait(20 * PATIENCE), look
            if not begins_before:
                draw()
            outbox.send(queue, f"passing-{number}")
            if not ends_within:
                proxy.release()
                wait_until(lambda: count_visible(daemon, queue) == number + 1, what="the higher id")
            late.commit()
            outbox.send(fifo, f"key-{2 * number + 1}", "key")
            proxy.release()
        wait_until(lambda: count_visible(daemon, fifo) == 2 * number + 2, what=f"both rows behind {look}")
    arrived = drain(daemon, fifo, 2 * len(cases))
    assert [message.body for message in arrived] == [f"key-{n}" for n in range(2 * len(cases))]
    check_once(drain(daemon, queue, len(cases)), [f"passing-{n}" for n in range(len(cases))])


def test_R09_a_large_transaction_arrives_once_and_in_order_over_crashes(daemon, relays, outbox, fifo):
    count = scaled(50_000, least=2000)
    relay = start(relays, outbox)
    with contextlib.closing(outbox.begin()) as copy:
        lines = "".join(f"orders.fifo\tg{n % 20}\t{n}\n" for n in range(count))
        copy.cursor().copy_expert("COPY tally.outbox (queue, group_id, body) FROM STDIN", io.StringIO(lines))
        assert count_visible(daemon, fifo) == 0
        copy.commit()
    crashes = 0
    while crashes < 3:
        seen = count_visible(daemon, fifo)
        wait_until(lambda: count_visible(daemon, fifo) > seen, what="some rows")
        relay.kill9()
        crashes += 1
        if count_visible(daemon, fifo) == count:
            break  # on a small scale all are there at once
        relay = start(relays, outbox)
    assert crashes > 1 or count < 50_000
    if relay.process is None:
        start(relays, outbox)
    outbox.wait_until_empty(60)
    arrived = drain(daemon, fifo, count, seconds=60)
    check_once(arrived, outbox.bodies(count))
    check_order(arrived)


# --- answers that are lost --------------------------------------------------------------------------------------------


def test_R13_rows_whose_delete_was_committed_without_an_answer_are_deleted_once_more(
        daemon, relays, outbox, fifo, proxy):
    relays(proxy.uri(outbox.uri), "queue", "--lease", 1).wait_for("active")
    for round in range(5):
        proxy.lose_answer_to(b"rows_1\0")  # the statement that deletes
        outbox.fill(fifo, 200, groups=5, first=200 * round)
        wait_until(lambda: proxy.lost == round + 1, what="an answer that is lost")
        outbox.wait_until_empty()
    arrived = drain(daemon, fifo, 1000)
    check_once(arrived, outbox.bodies(1000))
    check_order(arrived)


def test_a_line_that_is_cut_again_and_again_loses_nothing(daemon, relays, outbox, fifo, proxy):
    relays(proxy.uri(outbox.uri), "queue", "--lease", 2).wait_for("active")
    count = 0
    end = time.monotonic() + 4
    while time.monotonic() < end:
        outbox.fill(fifo, 100, groups=5, first=count)
        count += 100
        time.sleep(0.1)
        proxy.cut()
    outbox.wait_until_empty()
    arrived = drain(daemon, fifo, count)
    check_once(arrived, outbox.bodies(count))
    check_order(arrived)


# --- a server that restarts -------------------------------------------------------------------------------------------


def test_R49_a_server_that_restarts_or_crashes_is_found_again(daemon, relays, postgres, fifo):
    outbox = Outbox(postgres)
    first, second = start(relays, outbox, name="first"), relays(outbox.uri, "queue", "--lease", 1, name="second")
    second.wait_for("standby")
    outbox.fill(fifo, 100)
    postgres.restart()
    wait_until(lambda: sorted(relay.state.split(",")[0] for relay in (first, second)) == ["active", "standby"],
               what="one that works and one that stands by")
    outbox.fill(fifo, 100, first=100)
    outbox.wait_until_empty()
    postgres.kill9()
    wait_until(lambda: all(relay.state.startswith("failed") for relay in (first, second)), what="that both say so")
    postgres.start()
    outbox.fill(fifo, 100, first=200)
    outbox.wait_until_empty()
    arrived = drain(daemon, fifo, 300)
    check_once(arrived, outbox.bodies(300))
    check_order(arrived)


# --- poolers ----------------------------------------------------------------------------------------------------------


def is_open(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True


@pytest.fixture
def bouncer(server):
    """Starts PgBouncers before the server: bouncer("transaction") is the port."""
    program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
    assert pathlib.Path(program).exists(), "PgBouncer is missing: ./setup test brings it"
    started, folders = [], []

    def make(mode):
        port = free_port()
        folder = pathlib.Path(tempfile.mkdtemp(prefix="tally-pgbouncer-"))  # where another user gets to
        folders.append(folder)
        (folder / "users").write_text('"tally" ""\n')
        (folder / "ini").write_text(
            f"[databases]\n* = host=127.0.0.1 port={server.port}\n[pgbouncer]\nlisten_addr=127.0.0.1\n"
            f"listen_port={port}\n"
            f"unix_socket_dir=\nauth_type=trust\nauth_file={folder}/users\npool_mode={mode}\nlogfile={folder}/log\n"
            f"ignore_startup_parameters=extra_float_digits\nmax_client_conn=100\ndefault_pool_size=20\n")
        command = [program, str(folder / "ini")]
        for path in (folder, *folder.iterdir()):
            hand_over(path)
        if os.geteuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        started.append(
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        wait_until(lambda: is_open(port), what="PgBouncer")
        return port

    yield make
    for process in started:
        process.terminate()
        process.wait(20)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def through(outbox, port):
    return outbox.uri.replace(f":{outbox.server.port}/", f":{port}/")


def advisory_locks(outbox, more=""):
    return outbox.one("SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database"
                      f" WHERE locktype = 'advisory' AND datname = current_database() {more}")


def test_R25_a_pooler_in_transaction_mode_is_refused_unless_it_was_announced(daemon, relays, outbox, fifo, bouncer):
    uri = through(outbox, bouncer("transaction"))
    refused = relays(uri, "queue", "--lease", 1, name="refused")
    assert "pooler" in refused.wait_for("failed")
    refused.stop()
    first = relays(uri, "queue", "--lease", 1, "--pooler", "transaction", name="first")
    first.wait_for("active")
    second = relays(uri, "queue", "--lease", 1, "--pooler", "transaction", name="second")
    second.wait_for("standby")
    outbox.fill(fifo, 500, groups=5)
    outbox.wait_until_empty()
    assert advisory_locks(outbox) == 0
    first.kill9()
    outbox.fill(fifo, 500, groups=5, first=500)
    second.wait_for("active")
    outbox.wait_until_empty()
    second.stop()
    arrived = drain(daemon, fifo, 1000)
    check_once(arrived, outbox.bodies(1000))
    check_order(arrived)


def test_R25_a_pooler_in_session_mode_is_as_none(daemon, relays, outbox, queue, bouncer):
    uri = through(outbox, bouncer("session"))
    first = relays(uri, "queue", "--lease", 5, name="first")
    first.wait_for("active")
    second = relays(uri, "queue", "--lease", 5, name="second")
    second.wait_for("standby")
    wait_until(lambda: advisory_locks(outbox, "AND granted"), what="the lock")
    outbox.fill(queue, 100)
    outbox.wait_until_empty()
    first.kill9()
    second.wait_for("active", 4)  # woken, since the lease is not over
    outbox.fill(queue, 100, first=100)
    outbox.wait_until_empty()
    check_once(drain(daemon, queue, 200), outbox.bodies(200))


# --- what it costs, and what it refuses -------------------------------------------------------------------------------


def test_R42_dead_rows_that_can_not_be_removed_do_not_make_the_scan_slower(daemon, relays, outbox, queue):
    start(relays, outbox)
    count = scaled(60_000, least=20_000)

    def blocks_per_scan():
        """While there is nothing to do but to look."""
        before, after = reads(outbox), reads(outbox)
        return (after[2] - before[2]) / (after[1] - before[1])

    with contextlib.closing(outbox.begin()) as reader:
        reader.set_session(isolation_level="REPEATABLE READ")
        reader.cursor().execute("SELECT count(*) FROM tally.outbox")  # pins the horizon
        outbox.fill(queue, 1000)
        wait_until(lambda: count_visible(daemon, queue) == 1000, what="the first rows")
        few = blocks_per_scan()
        outbox.fill(queue, count, first=1000)
        wait_until(lambda: count_visible(daemon, queue) == count + 1000, 60, "all rows")
        outbox.wait_until_empty(60)
        # The dead rows alone stand in some 164 blocks of the index and many more of the table. What was read to delete
        # the last rows may still be counted in the first of these.
        wait_until(lambda: blocks_per_scan() < few + 20, what=f"scans of hardly more than {few} blocks")
        before = reads(outbox)
        outbox.fill(queue, 1000, first=count + 1000)
        wait_until(lambda: count_visible(daemon, queue) == count + 2000, what="the rows behind them")
        after = reads(outbox)
        assert outbox.one("SELECT count(*) FROM pg_stat_activity"
                          " WHERE backend_xmin IS NOT NULL AND state = 'idle in transaction'") == 1
    assert after[1] > before[1] and after[3] == before[3], "the whole table was read, to scan it or to delete from it"


def test_a_few_large_rows_are_not_read_all_at_once(daemon, relays, outbox, fifo):
    relay = start(relays, outbox)
    body = "x" * 1_000_000
    relay.freeze()
    outbox.sql("INSERT INTO tally.outbox (queue, group_id, body) SELECT 'orders.fifo', 'g', "
               "%s || '-' || n FROM generate_series(1, 150) n", body)
    relay.thaw()
    outbox.wait_until_empty(60)
    peak = status_bytes(relay, "VmHWM") // 1024
    assert peak < 100_000 or not IS_BARE, f"{peak} KiB for rows of 1 MB"
    assert [message.body[1_000_000:] for message in drain(daemon, fifo, 150, 60)] == [f"-{n}" for n in range(1, 151)]


def test_R51_who_lacks_rights_or_tables_says_what_to_do_and_works_as_soon_as_it_is_done(
        daemon, relays, outbox, queue, server):
    role = f"role_{outbox.name}"
    outbox.sql(f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA tally TO {role}; "
               f"GRANT EXECUTE ON FUNCTION tally.send TO {role}")
    candidate = relays(outbox.uri.replace("tally@", f"{role}@"), "queue", "--lease", 1, name="web")
    assert (f"lacks rights. As the owner of the schema: GRANT SELECT ON tally.version TO {role}; GRANT SELECT, INSERT, "
            "DELETE ON tally.outbox" in candidate.wait_for("failed"))
    outbox.send(queue, "waits")
    outbox.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON tally.outbox, tally.dead, tally.lease, tally.beat, "
               f"tally.intent TO {role};GRANT SELECT ON tally.version TO {role}")
    wait_until(lambda: candidate.state.endswith(f": GRANT SELECT ON SEQUENCE tally.outbox_id_seq TO {role}"),
               what="the right that is left")
    outbox.sql(f"GRANT SELECT ON SEQUENCE tally.outbox_id_seq TO {role}")
    candidate.wait_for("active")
    check_once(drain(daemon, queue, 1), ["waits"])

    empty = relays(server.uri, "queue", "--lease", 1, name="empty")
    assert "tally relay schema --type postgres" in empty.wait_for("failed")
    outbox.sql("UPDATE tally.version SET number = 99")
    newer = relays(outbox.uri, "queue", "--lease", 1, name="newer")
    assert "version 99" in newer.wait_for("failed")


def test_an_outbox_that_was_copied_waits_for_a_word(relays, outbox):
    outbox.sql("UPDATE tally.lease SET system_id = 1")
    relay = relays(outbox.uri, "queue", "--lease", 1)
    assert "tally.rekey()" in relay.wait_for("failed")
    outbox.sql("SELECT tally.rekey()")
    relay.wait_for("active")


def test_the_server_keeps_no_complaints_of_relays_that_wait(relays, outbox, server):
    start(relays, outbox, name="first")
    relays(outbox.uri, "queue", "--lease", 1, name="second").wait_for("standby")
    size = len(server.log_text())
    time.sleep(1.5)
    assert server.log_text()[size:] == ""


def test_R46_the_source_at_its_own_border(server, outbox):
    """Requests of an earlier owner, repeats, bounds of a scan, intents and parked rows:
    tests/unit/relay_source_postgres_test.c, which needs a server."""
    builds = (BIN.parent, BIN.parent / "release")  # that of a sanitizer, or of what is installed in build/bin
    found = [build / "tests" / "unit" / "relay_source_postgres_test" for build in builds]
    program = next((path for path in found if path.exists()), None)
    if program is None:
        pytest.skip(f"{found[-1]} is not built")
    done = subprocess.run([program], capture_output=True, text=True, timeout=60 * PATIENCE,
                          env=clean_environment(TALLY_TEST_POSTGRES=outbox.uri))
    assert done.returncode == 0 and "SKIPPED" not in done.stdout + done.stderr, done.stdout + done.stderr


def test_R36_the_scan_of_each_minute_finds_what_is_below_the_floor(overtaken):
    """By the same relay in the same term."""
    daemon, outbox, relay = overtaken
    outbox.wait_until_empty(90)
    arrived = drain(daemon, "orders")
    assert [message.body for message in arrived if not message.body.startswith("passing-")] == ["overtaken"]
    check_once(arrived, [f"passing-{n}" for n in range(len(arrived) - 1)] + ["overtaken"])
    assert relay.lines == ["active, epoch 1"] or relay.lines == ["standby", "active, epoch 1"]
    relay.stop()
