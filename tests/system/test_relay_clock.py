"""Wall clocks that jump by days and minutes, of the relays, of their source, of their sink: nothing is lost, nothing
comes twice, groups keep their order, and whoever works goes on working. Duplicates, losses and order are counted in
what arrives.

What decides about the lease is a monotonic clock: that of the relay that waits (section 5 of the reference)."""

import contextlib
import time

import pytest

from clock import Clock
from conftest import PATIENCE, wait_until
from http_proxy import HttpProxy
from outbox import Outbox
from outbox_sqlite import SqliteOutbox
from postgres import Postgres
from queues import make_queue
from relay import Relay, check_once, check_order, drain
from wire import Connection

DAY, MINUTES = 86400, 60
JUMPS = [DAY, -DAY, 10 * MINUTES, -10 * MINUTES]
QUEUE = "orders.fifo"
ROWS = 30  # between two jumps


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One PostgreSQL for the tests of this file, with a clock that they may set."""
    running = Postgres(tmp_path_factory.mktemp("server") / "postgres")
    running.clock = Clock()
    with running.clock.around():
        running.start()
    yield running
    running.stop("immediate")


@pytest.fixture
def outbox(server):
    server.clock.set(0)
    yield Outbox(server)
    server.clock.set(0)


@pytest.fixture
def clock():
    return Clock()


class Flow:
    """Rows that are written before and behind each jump, and what became of them."""

    def __init__(self, outbox):
        self.outbox = outbox
        self.count = 0

    def __call__(self):
        """The next rows, until they have left the outbox."""
        for _ in range(3):
            self.outbox.fill(QUEUE, ROWS // 3, groups=3, first=self.count)
            self.count += ROWS // 3
        self.outbox.wait_until_empty()

    def jump(self, clock):
        """Rows are on their way at each jump."""
        for seconds in JUMPS:
            self.outbox.fill(QUEUE, ROWS, groups=3, first=self.count)
            self.count += ROWS
            clock.set(seconds)
            self()
        clock.set(0)
        self()

    def check(self, daemon):
        arrived = drain(daemon, QUEUE, self.count)
        check_once(arrived, [str(n) for n in range(self.count)])
        check_order(arrived)
        self.check_parked()

    def check_hook(self, receiver):
        wait_until(lambda: len(receiver.hits) >= self.count, what="all deliveries")
        assert sorted(map(int, receiver.bodies())) == list(range(self.count))
        last = {}
        for hit in receiver.hits:
            assert int(hit.body) > last.get(hit.group, -1), hit
            last[hit.group] = int(hit.body)
        self.check_parked()

    def check_parked(self):
        assert self.outbox.one("SELECT count(*) FROM tally.dead") == 0


def wall_clock_of(server):
    return server.sql("SELECT extract(epoch FROM clock_timestamp())::float8")[0][0]


# --- the clock of the sink, and of a relay's host ---------------------------------------------------------------------


def test_when_the_clock_of_tallyd_jumps_each_row_arrives_once(daemon_factory, outbox, clock):
    """As the sink of a relay elsewhere; and as the host of one, killed with its clock wrong and started with another
    one."""
    daemon = daemon_factory()
    with clock.around():
        daemon.start()
    make_queue(daemon, QUEUE)
    relay = Relay(daemon.endpoint, outbox.uri, "queue", "--lease", 1).start()
    relay.wait_for("active")
    flow = Flow(outbox)
    flow.jump(clock)
    relay.stop()
    status, answer = daemon.call("Tally.CreateRelay", {
        "RelayName": "inner", "Source": {"Type": "postgres", "Connection": outbox.uri, "LeaseSeconds": 1},
        "Sink": {"Type": "queue"}})
    assert status == 200, answer
    flow.jump(clock)
    for seconds in (-DAY, DAY, -10 * MINUTES):
        outbox.fill(QUEUE, ROWS, groups=3, first=flow.count)
        flow.count += ROWS
        daemon.kill9()
        clock.set(seconds)
        with clock.around():
            daemon.start()
        flow()
    flow.check(daemon)
    assert daemon.stop() == 0


def test_R17_after_a_week_of_silence_a_producer_sends_and_what_is_known_of_it_is_right(
        daemon_factory, server, outbox, clock):
    """The last it did was to be killed before it heard what became of its rows, and a row that was delivered long ago
    comes back besides."""
    daemon = daemon_factory()
    with clock.around():
        daemon.start()
    with Connection(daemon.port) as connection:
        connection.ok("AmazonSQS.CreateQueue", {
            "QueueName": QUEUE, "Attributes": {"FifoQueue": "true", "MessageRetentionPeriod": "1209600"}})
    proxy = HttpProxy(daemon.port)
    relay = Relay(proxy.endpoint, outbox.uri, "queue", "--lease", 1, **clock.environment).start()
    flow = Flow(outbox)
    uid = outbox.send(QUEUE, "0", "g0")
    flow.count = 1
    flow()
    proxy.lose("Tally.Publish", 1000)
    before = len(proxy.published())
    outbox.fill(QUEUE, 10, groups=3, first=flow.count)
    flow.count += 10
    wait_until(lambda: len(proxy.published()) > before + 1, what="a batch that is stored, and its repeat")
    relay.kill9()
    assert outbox.count() == 10

    assert daemon.stop() == 0
    clock.set(7 * DAY)
    server.clock.set(7 * DAY)
    with clock.around():
        daemon.start()
    proxy.lost = {}
    outbox.sql("INSERT INTO tally.outbox (id, uid, queue, group_id, body) OVERRIDING SYSTEM VALUE VALUES (1, %s, "
               "%s, 'g0', '0')",
               uid, QUEUE)
    relay.start()
    flow()
    relay.stop()
    arrived = drain(daemon, QUEUE, flow.count)
    check_once(arrived, [str(n) for n in range(flow.count)])
    check_order(arrived)
    assert outbox.sql("SELECT uid, is_doubted FROM tally.dead") == [(uid, True)]  # a person may know; nobody guesses
    proxy.close()
    assert daemon.stop() == 0


# --- the clocks of relays ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["queue", "sqs", "http"])
def test_when_an_owners_clock_jumps_it_goes_on_and_is_followed_within_its_lease(
        daemon, relays, outbox, clock, receiver, kind):
    make_queue(daemon, QUEUE)
    sink = {"queue": "queue", "sqs": f"sqs:{daemon.endpoint}", "http": receiver.url}[kind]
    first, second = start_pair(relays, outbox, sink, **clock.environment)
    flow = Flow(outbox)
    flow.jump(clock)
    assert first.lines[-1:] == [f"active, epoch {first.epoch}"] and second.lines == ["standby"]
    assert outbox.lease()[0] == first.epoch  # nobody has taken over, not even for a moment
    # Its clock stays wrong and it hangs: then nothing but its silence tells the other one.
    clock.set(-DAY)
    flow()
    first.freeze()
    assert second.seconds_until_active() < 4 * PATIENCE
    flow()
    first.thaw()
    first.wait_for("standby")
    # And now it is the one that waits, with a clock that jumps: that must not make it impatient, nor too patient.
    for seconds in JUMPS:
        clock.set(seconds)
        flow()
    assert first.state == "standby" and second.state == f"active, epoch {second.epoch}"
    second.freeze()
    assert first.seconds_until_active() < 4 * PATIENCE
    flow()
    second.kill9()
    first.stop()
    flow.check_hook(receiver) if kind == "http" else flow.check(daemon)


def test_a_killed_owner_with_a_wrong_clock_is_followed_at_once(daemon, relays, outbox, clock):
    make_queue(daemon, QUEUE)
    flow = Flow(outbox)
    for number, seconds in enumerate([DAY, -DAY]):
        clock.set(seconds)
        owner = relays(outbox.uri, "queue", "--lease", 30, name=f"owner-{number}", **clock.environment)
        owner.wait_for("active")
        flow()
        other = relays(outbox.uri, "queue", "--lease", 30, name=f"other-{number}")
        other.wait_for("standby")
        owner.kill9()
        assert other.seconds_until_active() < 2 * PATIENCE
        flow()
        other.stop()
    flow.check(daemon)


# --- the clock of the source ------------------------------------------------------------------------------------------


def start_pair(relays, outbox, sink="queue", **environment):
    first = relays(outbox.uri, sink, "--lease", 1, name="first", **environment)
    first.wait_for("active")
    second = relays(outbox.uri, sink, "--lease", 1, name="second")
    second.wait_for("standby")
    return first, second


def test_when_the_clock_of_postgresql_jumps_nobody_takes_over_and_nobody_waits_for_it(daemon, server, relays, outbox):
    make_queue(daemon, QUEUE)
    first, second = start_pair(relays, outbox)
    flow = Flow(outbox)
    flow.jump(server.clock)
    assert first.lines[-1] == f"active, epoch {first.epoch}" and outbox.lease()[0] == first.epoch
    server.clock.set(DAY)
    flow()
    server.clock.set(-DAY)  # what compared times of the database would now wait for two days
    assert wall_clock_of(server) < time.time() - DAY / 2
    first.freeze()
    assert second.seconds_until_active() < 6 * PATIENCE
    flow()
    first.thaw()
    first.wait_for("standby")
    server.clock.set(DAY)
    second.freeze()
    assert first.seconds_until_active() < 6 * PATIENCE
    flow()
    second.kill9()
    flow.check(daemon)


def test_R07_what_was_prepared_before_a_restart_is_published_when_it_commits_an_hour_later(
        daemon, server, relays, outbox):
    make_queue(daemon, QUEUE)
    relay = relays(outbox.uri, "queue", "--lease", 1)
    flow = Flow(outbox)
    flow()
    with contextlib.closing(outbox.connect()) as prepared, prepared.cursor() as cursor:
        cursor.execute(
            f"BEGIN; SELECT tally.send('{QUEUE}', '0', 'prepared'); PREPARE TRANSACTION 'two-phase-{outbox.name}'")
    flow()
    time.sleep(2.5)  # the floor is settled every few seconds
    server.stop()
    server.clock.set(3600)
    with server.clock.around():
        server.start()
    relay.wait_for("active")
    flow()
    time.sleep(2.5)
    flow()
    outbox.sql(f"COMMIT PREPARED 'two-phase-{outbox.name}'")
    outbox.wait_until_empty(10)  # without the scan of all rows that comes once a minute
    arrived = drain(daemon, QUEUE, flow.count + 1)
    late = [message for message in arrived if message.group == "prepared"]
    others = [message for message in arrived if message.group != "prepared"]
    assert len(late) == 1 and late[0].sequence > max(message.sequence for message in others)
    check_once(others, [str(n) for n in range(flow.count)])
    check_order(others)


def test_a_standby_whose_wait_the_server_does_not_end_after_a_jump_waits_anew(daemon, server, relays, outbox):
    """A lock_timeout ends at a time of the server's wall clock. If that is set back by a day while a stand-by waits,
    the server ends that wait a day later; the stand-by itself gives it up after its lease."""
    make_queue(daemon, QUEUE)
    server.clock.set(0)
    first, second = start_pair(relays, outbox)
    flow = Flow(outbox)

    def is_given_up():
        server.clock.set(server.clock.seconds - DAY)
        time.sleep(0.05)
        return any("no answer came in time" in line for line in second.lines)

    wait_until(is_given_up, what="a wait without an end")
    flow()
    assert first.lines[-1] == f"active, epoch {first.epoch}"
    first.freeze()
    assert second.seconds_until_active() < 6 * PATIENCE
    flow()
    first.kill9()
    flow.check(daemon)


def test_of_sqlite_a_jump_changes_as_little(daemon, relays, tmp_path, clock):
    """The clock of an outbox in SQLite is that of whoever writes: here of the owner and of the one that waits, each
    with its own."""
    make_queue(daemon, QUEUE)
    outbox = SqliteOutbox(tmp_path / "app.db")
    first = relays(outbox.source, "queue", "--lease", 1, name="first", **clock.environment)
    first.wait_for("active")
    second = relays(outbox.source, "queue", "--lease", 1, name="second")
    second.wait_for("standby")
    count = 0

    def flow():
        nonlocal count
        outbox.send([f"a-{n}" for n in range(count, count + ROWS)], QUEUE, "g")
        count += ROWS
        outbox.wait_until_empty()

    for seconds in JUMPS:
        clock.set(seconds)
        flow()
    assert first.state == f"active, epoch {first.epoch}" and second.lines == ["standby"]
    clock.set(-DAY)
    outbox.freeze_outside(first)
    assert second.seconds_until_active() < 4 * PATIENCE
    flow()
    first.thaw()
    first.wait_for("standby")
    clock.set(DAY)
    second.kill9()
    assert first.seconds_until_active() < 2 * PATIENCE
    flow()
    arrived = drain(daemon, QUEUE, count)
    check_once(arrived, [f"a-{n}" for n in range(count)])
    check_order(arrived)


# --- doubts: how old is an attempt whose outcome nobody knows? --------------------------------------------------------


def crash_in_doubt(relays, fake, outbox, options=(), **environment):
    """A relay is killed when the endpoint has a row, and has not answered."""
    over = fake.lose_first_answer()
    relay = relays(outbox.uri, f"sqs:{fake.endpoint}", "--lease", 5, *options, name="first", **environment)
    relay.wait_for("active")
    outbox.send("q.fifo", "doubted")
    wait_until(lambda: fake.messages, what="a request")
    relay.kill9()
    over.set()


def let_pass(outbox, minutes, is_other_host=False):
    """As if the attempt had been so long ago, by all clocks; and by a relay on another machine."""
    host = "'01234567-89ab-4def-8123-456789abcdef'" if is_other_host else "split_part(moment, ' ', 1)"
    outbox.sql(f"""UPDATE tally.intent SET started = started - %s * interval '1 minute',
        moment = concat_ws(' ', {host}, split_part(moment, ' ', 2)::bigint - %s,
                           split_part(moment, ' ', 3)::bigint - %s)""",
        minutes, minutes * 60000, minutes * 60000)


DOUBTS = [
    # minutes since the attempt, seconds by which the source's clock was set then, the relay's, another host, the row is
    # marked
    pytest.param(6, -DAY, 0, False, True, id="old_and_the_source_set_back_by_a_day"),
    pytest.param(6, -300, 0, False, True, id="old_and_the_source_set_back_by_less"),
    pytest.param(6, -300, 0, True, True, id="old_elsewhere_and_the_source_set_back"),
    pytest.param(0, -DAY, 0, True, True, id="elsewhere_and_the_source_set_back_so_nobody_knows"),
    pytest.param(0, -DAY, 0, False, False, id="young_here_though_the_source_was_set_back"),
    pytest.param(0, DAY, 0, False, True, id="the_source_set_ahead"),
]


@pytest.mark.parametrize("minutes, source, own, is_other_host, is_marked", DOUBTS)
def test_R31_whichever_clock_was_set_an_old_attempt_is_not_taken_for_a_young_one(
        server, relays, outbox, clock, fake, minutes, source, own, is_other_host, is_marked):
    """P17. What SQS forgets after five minutes is sent again with a mark, and if a clock can't be trusted as well. All
    that clocks can do: tests/unit/relay_machine_time_test.c."""
    crash_in_doubt(relays, fake, outbox, **clock.environment)
    let_pass(outbox, minutes, is_other_host)
    server.clock.set(source)
    clock.set(own)
    relays(outbox.uri, f"sqs:{fake.endpoint}", "--lease", 1, "--doubts", "send", name="second", **clock.environment)
    outbox.wait_until_empty()
    (first,), *repeats = [request.entries for request in fake.requests]
    assert repeats, "the attempt whose answer never came was not repeated"
    for entry, in repeats:
        assert ("maybe-duplicate" in entry["MessageAttributes"]) == is_marked
        assert entry["MessageDeduplicationId"] == first["MessageDeduplicationId"]
    assert fake.bodies("q.fifo") == ["doubted"]


def test_R31_when_the_clock_of_the_source_was_set_back_a_doubt_is_parked_if_that_is_wished(
        server, relays, outbox, fake):
    options = ("--doubts", "park")
    crash_in_doubt(relays, fake, outbox, options)
    let_pass(outbox, 0, is_other_host=True)
    server.clock.set(-DAY)
    relays(outbox.uri, f"sqs:{fake.endpoint}", "--lease", 1, *options, name="second")
    outbox.wait_until_empty()
    assert len(fake.requests) == 1
    (error, is_doubted), = outbox.sql("SELECT error, is_doubted FROM tally.dead")
    assert is_doubted and error.startswith("an attempt made before a clock was set back may have been delivered")


@pytest.mark.parametrize("set_back, is_marked", [(0, False), (DAY, True)])
def test_R31_of_a_message_that_comes_from_later_than_now_nobody_knows_the_age(
        daemon, relays, clock, fake, set_back, is_marked):
    """A queue as the source notes no intents: how old an attempt may be is what the message is, by the clock of the
    relay's machine."""
    make_queue(daemon, QUEUE)
    uri = f"queue:{QUEUE}"
    with Connection(daemon.port) as connection:
        connection.ok("AmazonSQS.SendMessage", {
            "QueueUrl": QUEUE, "MessageBody": "doubted", "MessageGroupId": "g", "MessageDeduplicationId": "1"})
    over = fake.lose_first_answer()
    relay = relays(uri, f"sqs:{fake.endpoint}/000000000000/q.fifo", "--lease", 2, name="first", **clock.environment)
    wait_until(lambda: fake.messages, what="a request")
    relay.kill9()
    over.set()
    clock.set(-set_back)
    relays(uri, f"sqs:{fake.endpoint}/000000000000/q.fifo", "--lease", 2, "--doubts", "send", name="second",
           **clock.environment)
    wait_until(lambda: len(fake.requests) > 1, what="the repeat")
    (entry,) = fake.requests[1].entries
    assert ("maybe-duplicate" in entry["MessageAttributes"]) == is_marked
    assert fake.bodies("q.fifo") == ["doubted"]


@pytest.mark.parametrize("set_back", [DAY, 300])
def test_R31_in_sqlite_an_old_doubt_stays_old_when_the_clock_is_set_back(relays, tmp_path, clock, fake, set_back):
    outbox = SqliteOutbox(tmp_path / "app.db")
    outbox.uri = outbox.source
    outbox.send = lambda queue, body, send=outbox.send: send([body], queue, "g")
    crash_in_doubt(relays, fake, outbox, **clock.environment)
    (moment,), = outbox.ask("SELECT moment FROM tally_intent")
    boot, since, wall = moment.split()
    outbox.ask("UPDATE tally_intent SET started = strftime('%Y-%m-%dT%H:%M:%fZ', started, '-6 minutes'), moment = ?",
               f"{boot} {int(since) - 360000} {int(wall) - 360000}")
    clock.set(-set_back)
    relays(outbox.uri, f"sqs:{fake.endpoint}", "--lease", 1, "--doubts", "send", name="second", **clock.environment)
    outbox.wait_until_empty()
    repeats = [entry for request in fake.requests[1:] for entry in request.entries]
    assert repeats and all("maybe-duplicate" in entry["MessageAttributes"] for entry in repeats)
