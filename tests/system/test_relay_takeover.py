"""Relays with PostgreSQL as the source that take over from each other. Duplicates, losses and order are counted in what
arrives.

The ids are those of docs/internals/invariants-relays.md."""

import contextlib
import threading
import time

import pytest

from conftest import PATIENCE, wait_until
from http_proxy import HttpProxy
from proxy import Proxy
from queues import make_queue
from relay import check_once, check_order, drain
from relay_actions import create, wait_for
from wire import scaled


class Traffic:
    """Rows that are written all the time, in a few groups."""

    def __init__(self, outbox, queue):
        self.outbox, self.queue = outbox, queue
        self.count = 0
        self.is_ending = False
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while not self.is_ending:
            self.outbox.fill(self.queue, 10, groups=5, first=self.count)
            self.count += 10
            time.sleep(0.02)

    def end(self):
        self.is_ending = True
        self.thread.join()

    def check(self, daemon):
        """Everything has arrived, once and in order."""
        self.end()
        self.outbox.wait_until_empty(30)
        arrived = drain(daemon, self.queue, self.count, 60)
        check_once(arrived, self.outbox.bodies(self.count))
        check_order(arrived)


@pytest.fixture
def traffic(outbox, fifo):
    made = Traffic(outbox, fifo)
    yield made
    made.end()


def start_pair(relays, outbox, lease=1, first_uri=None):
    first = relays(first_uri or outbox.uri, "queue", "--lease", lease, name="first")
    first.wait_for("active")
    second = relays(outbox.uri, "queue", "--lease", lease, name="second")
    second.wait_for("standby")
    return first, second


def test_a_killed_owner_is_followed_at_once(daemon, relays, outbox, traffic):
    first, second = start_pair(relays, outbox, lease=30)  # nobody waits for its end
    first.kill9()
    assert second.seconds_until_active() < 1 * PATIENCE
    traffic.check(daemon)


def test_a_relay_of_a_killed_tallyd_is_followed_at_once(daemon, daemon_factory, relays, outbox, traffic):
    """In the middle of traffic. Where both deliver stands in a third place, a FIFO queue of a Tally that lives, so that
    what either of them has sent is seen together."""
    host = daemon_factory().start()
    create(host, outbox, Source={"LeaseSeconds": 30}, Sink={"Type": "sqs", "QueueUrl": f"{daemon.endpoint}/"})
    wait_for(host, "active")
    second = relays(outbox.uri, f"sqs:{daemon.endpoint}/", "--lease", 30)
    second.wait_for("standby")
    wait_until(lambda: traffic.count - outbox.count() > 100, what="some rows that the first has delivered")
    host.kill9()
    assert second.seconds_until_active() < 1 * PATIENCE
    assert second.epoch == 2
    traffic.check(daemon)


def test_rows_behind_the_kill_of_a_tallyd_go_to_the_queue_of_the_next(daemon, daemon_factory, relays, outbox, fifo):
    """Each relay delivers to its own Tally. What the killed one has acknowledged it has when it is back, and there is
    no copy of it."""
    host = daemon_factory().start()
    make_queue(host, fifo)
    create(host, outbox, Source={"LeaseSeconds": 30})
    wait_for(host, "active")
    second = relays(outbox.uri, "queue", "--lease", 30)
    second.wait_for("standby")
    outbox.fill(fifo, 500, groups=5)
    outbox.wait_until_empty()
    host.kill9()
    outbox.fill(fifo, 500, groups=5, first=500)
    assert second.seconds_until_active() < 1 * PATIENCE
    outbox.wait_until_empty()
    host.start()
    wait_for(host, "standby")
    arrived = drain(host, fifo, 500) + drain(daemon, fifo, 500)
    check_once(arrived, outbox.bodies(1000))
    check_order(arrived)
    assert outbox.lease()[0] == second.epoch == 2


def test_an_owner_that_ends_is_followed_at_once(daemon, relays, outbox, traffic):
    first, second = start_pair(relays, outbox, lease=30)
    first.stop()
    assert second.seconds_until_active() < 1 * PATIENCE
    traffic.check(daemon)


def test_R21_what_an_owner_published_before_it_was_stopped_for_ten_leases_is_fenced(daemon, relays, outbox, fifo):
    """Its publish stands in the line: it left after the scan, and arrives when the next owner has worked for ten
    leases."""
    line = Proxy(daemon.port)
    first = relays(outbox.uri, "queue", "--lease", 1, "--endpoint", f"http://127.0.0.1:{line.port}", name="first")
    first.wait_for("active, epoch 1")
    second = relays(outbox.uri, "queue", "--lease", 1, name="second")
    second.wait_for("standby")
    line.hold(b"Tally.Publish")
    outbox.fill(fifo, 100, groups=5)
    assert line.is_held.wait(20 * PATIENCE), "no publish"
    first.freeze()
    stopped = time.monotonic()
    second.wait_for("active, epoch 2")
    count = 100
    while time.monotonic() < stopped + 10:  # ten leases
        outbox.fill(fifo, 10, groups=5, first=count)
        count += 10
        time.sleep(0.1)
    outbox.wait_until_empty()
    assert first.lines[-1] == "active, epoch 1", "it has noticed nothing yet"
    line.is_listening = True
    line.release()
    wait_until(lambda: b"PublisherFenced" in line.heard, what="the queue's answer to the old publish")
    first.thaw()
    first.wait_for("standby")
    outbox.fill(fifo, 50, groups=5, first=count)
    count += 50
    arrived = drain(daemon, fifo, count)
    check_once(arrived, outbox.bodies(count))
    check_order(arrived)
    time.sleep(1.5 * PATIENCE)  # more than a lease: it takes nothing back
    assert first.state == "standby" and second.lines[-1] == "active, epoch 2" and outbox.lease()[0] == 2
    line.close()


def test_R22_an_owner_whose_lock_is_taken_away_is_followed_and_fenced_at_once(daemon, relays, outbox, traffic):
    """By what the queue says to its next publish, long before its next beat, which comes after 7.5 s at the latest."""
    first, second = start_pair(relays, outbox, lease=30)
    taken = time.monotonic()
    outbox.sql("SELECT pg_terminate_backend(pid) FROM tally.lease")
    second.wait_for("active, epoch 2", 5)
    first.wait_for("standby", 5)
    assert time.monotonic() - taken < 5 * PATIENCE
    traffic.check(daemon)
    assert outbox.lease()[0] == 2 and second.lines.count("active, epoch 2") == 1 and first.lines[-2:] == [
        "active, epoch 1", "standby"]


def test_R23_an_owner_without_a_network_is_followed_though_its_connections_hold_its_lock(
        daemon, relays, outbox, proxy, traffic):
    first, second = start_pair(relays, outbox, first_uri=proxy.uri(outbox.uri))
    held = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"
    holder = outbox.lease()[1]
    wait_until(lambda: (holder,) in outbox.sql(held), what="the lock")
    proxy.freeze()
    assert second.seconds_until_active() < 4 * PATIENCE
    assert (holder,) in outbox.sql(held), "its connection is there, and the lock with it"
    wait_until(lambda: not first.state.startswith("active"), what="that the first one knows")
    proxy.thaw()
    first.wait_for("standby")
    traffic.check(daemon)
    assert second.state == "active, epoch 2"


def test_R24_a_standby_without_a_network_keeps_the_lock_from_nobody_for_long(daemon, relays, outbox, proxy, traffic):
    first, second = start_pair(relays, outbox)
    cut_off = relays(proxy.uri(outbox.uri), "queue", "--lease", 1, name="cut-off")
    cut_off.wait_for("standby")
    second.kill9()
    time.sleep(0.6)  # within its wait for the lock
    proxy.freeze()
    first.kill9()  # and now the lock goes to a connection that nobody hears of
    third = relays(outbox.uri, "queue", "--lease", 1, name="third")
    assert third.seconds_until_active() < 5 * PATIENCE
    proxy.thaw()
    cut_off.wait_for("standby")
    wait_until(lambda: outbox.one("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted") == 1,
               what="one lock")
    assert third.state.startswith("active")
    traffic.check(daemon)


def test_R27_no_connection_of_a_relay_holds_back_vacuum(relays, outbox, fifo):
    start_pair(relays, outbox)
    outbox.fill(fifo, 100)
    with contextlib.closing(outbox.connect()) as connection, connection.cursor() as cursor:
        end = time.monotonic() + 3
        while time.monotonic() < end:
            cursor.execute("SELECT application_name, state, query FROM pg_stat_activity WHERE application_name LIKE "
                           "'tally relay%%' AND (backend_xmin IS NOT NULL OR xact_start IS NOT NULL) AND "
                           "clock_timestamp() - xact_start > interval '1 s'")
            assert cursor.fetchall() == []
            time.sleep(0.02)


def test_R29_a_relay_that_can_not_work_gives_the_lease_up(daemon, relays, outbox, traffic):
    wrong = relays(outbox.uri, "queue", "--lease", 1, "--endpoint", "http://127.0.0.1:9", name="wrong")
    wait_until(lambda: outbox.lease()[0] == 1, what="the takeover of one that can't work")
    right = relays(outbox.uri, "queue", "--lease", 1, name="right")
    right.wait_for("active", 15)
    traffic.check(daemon)
    assert right.state.startswith("active")


def test_P27_a_relay_that_its_sink_never_agrees_with_gives_the_lease_up(daemon, relays, outbox, fifo):
    line = HttpProxy(daemon.port)
    wrong = relays(outbox.uri, "queue", "--lease", 1, "--endpoint", line.endpoint, name="wrong")
    wrong.wait_for("active, epoch 1")
    right = relays(outbox.uri, "queue", "--lease", 1, name="right")
    right.wait_for("standby")
    seen = len(wrong.lines)
    line.refuse["Tally.Publish"] = "PublisherBatchConflict"  # each time it begins anew, and each time in vain
    outbox.fill(fifo, 100, groups=5)
    right.wait_for("active", 15)
    check_once(drain(daemon, fifo, 100), outbox.bodies(100))
    wait_until(lambda: wrong.state == "standby", what="that it stands by")
    assert len([request for request in line.requests if request[0] == "Tally.OpenPublisher"]) > 3
    assert wrong.lines[seen].startswith("blocked: PublisherBatchConflict"), wrong.lines
    assert not any(line.startswith("active") for line in wrong.lines[seen:]), wrong.lines  # it does not flicker
    assert right.epoch == outbox.lease()[0]
    line.close()


def test_R46_what_an_owner_sends_that_is_one_no_more_changes_nothing(daemon, relays, outbox, proxy, traffic):
    """Its requests stand in the line while another one takes over, and arrive then."""
    first, second = start_pair(relays, outbox, first_uri=proxy.uri(outbox.uri))
    for _ in range(2):
        proxy.freeze()
        second.wait_for("active")
        time.sleep(0.5)
        proxy.thaw()
        first.wait_for("standby")
        second.stop()
        first.wait_for("active")
        second.start().wait_for("standby")
    traffic.check(daemon)
    assert outbox.one("SELECT count(*) FROM tally.dead") == outbox.one("SELECT count(*) FROM tally.intent") == 0


def test_R47_of_relays_that_start_together_one_works(daemon, relays, outbox, fifo):
    outbox.fill(fifo, 1000, groups=5)
    crowd = [relays(outbox.uri, "queue", "--lease", 1, name=f"relay{n}") for n in range(5)]
    outbox.wait_until_empty()
    wait_until(lambda: sorted(relay.state for relay in crowd) == ["active, epoch 1", *4 * ["standby"]],
               what="one owner")
    arrived = drain(daemon, fifo, 1000)
    check_once(arrived, outbox.bodies(1000))
    check_order(arrived)


def test_R50_one_that_is_killed_while_it_takes_over_is_followed(daemon, relays, outbox, proxy, traffic):
    first, second = start_pair(relays, outbox, first_uri=outbox.uri)
    between = relays(proxy.uri(outbox.uri), "queue", "--lease", 1, name="between")
    between.wait_for("standby")
    second.stop()
    proxy.lose_answer_to(b"lease_6\0")  # the statement that takes over
    first.kill9()
    wait_until(lambda: proxy.lost == 1, what="a takeover without an answer")
    between.kill9()
    second.start()
    assert second.seconds_until_active() < 4 * PATIENCE
    traffic.check(daemon)
    assert outbox.lease()[0] == 3


def test_R55_an_epoch_of_two_to_the_fortieth_is_taken_over_as_any_other(daemon, relays, outbox, traffic):
    outbox.sql("UPDATE tally.lease SET epoch = 2::bigint ^ 40 - 1")
    first, second = start_pair(relays, outbox)
    assert first.epoch == 1 << 40
    first.kill9()
    second.wait_for(f"active, epoch {(1 << 40) + 1}")
    first.start().wait_for("standby")
    second.stop()
    first.wait_for(f"active, epoch {(1 << 40) + 2}")
    traffic.check(daemon)
    assert outbox.lease()[0] == (1 << 40) + 2


def test_takeovers_under_load_lose_and_repeat_nothing(daemon, relays, outbox, fifo):
    count = scaled(20_000, least=1000)
    crowd = [relays(outbox.uri, "queue", "--lease", 1, name=f"relay{n}") for n in range(3)]
    outbox.fill(fifo, count, groups=50)
    kills = 0
    while outbox.count() > 0:
        owner = next((relay for relay in crowd if relay.state.startswith("active")), None)
        if owner is not None and kills < 10:
            owner.kill9()
            owner.start()
            kills += 1
        time.sleep(0.05)
    arrived = drain(daemon, fifo, count, 60)
    check_once(arrived, outbox.bodies(count))
    check_order(arrived)
