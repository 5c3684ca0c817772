"""Relays that stand by, and those that must not: who takes over, who reads the outbox, and what raises an alarm
although somebody owns it. Duplicates, losses and order are counted in what arrives, statements in the server's log. The
ids are those of the reference's scenarios."""

import os
import random
import re
import sys
import time

import pytest

from conftest import PATIENCE, ROOT, wait_until
from outbox import Outbox
from relay import check_once, check_order, drain
from relay_actions import create, describe, good, wait_for
from wire import scaled

sys.path.insert(0, str(ROOT / "tests" / "campaign"))

KILLS = scaled(50, "CAMPAIGN_KILLS", least=3)
SEED = os.environ.get("KILL_SEED") or str(random.SystemRandom().randrange(1 << 32))
TOO_OLD = re.compile(r"the oldest row has waited for (\d+) s, more than 60 s")


@pytest.fixture(scope="module")
def server(server):
    """With a log that says who ran what."""
    server.sql("ALTER SYSTEM SET log_line_prefix = '%c %a|'")
    server.sql("SELECT pg_reload_conf()")
    return server


@pytest.fixture
def other(server):
    return Outbox(server)


def put_old_row(outbox, queue, minutes=10):
    outbox.sql("INSERT INTO tally.outbox (queue, group_id, body, created) VALUES (%s, 'g', 'old', "
               "now() - %s * interval '1 min')",
               queue, minutes)


# --- candidates -------------------------------------------------------------------------------------------------------


def test_R26_of_ten_standbys_one_takes_over_at_each_kill_and_no_other_reads_rows(tmp_path):
    """A slice; `make campaign-takeover` is the whole of it. The lease is 30 s: who had to wait for its end would be
    seen."""
    from takeover_campaign import FAULTS, run_campaign

    counted = run_campaign(tmp_path, KILLS, 10, SEED)
    print(counted, "KILL_SEED", SEED)
    for fault in FAULTS:
        assert counted[fault] == 0, counted
    assert counted["kills"] == KILLS and counted["p99_ms"] < 1000 * PATIENCE and counted["p50_ms"] < 250 * PATIENCE


def test_R48_of_twenty_idle_relays_one_reads_the_outbox_and_the_others_the_lease(relays, outbox, server):
    outbox.sql(f"ALTER DATABASE {outbox.name} SET log_statement = 'all'")
    crowd = [relays(outbox.uri, "queue", "--lease", 10, name=f"relay{n}") for n in range(20)]
    wait_until(lambda: sorted(relay.state for relay in crowd) == ["active, epoch 1", *19 * ["standby"]], 60,
               what="one owner")
    time.sleep(1 * PATIENCE)  # so that all is as it stays
    before, watched = len(server.log_text()), 3
    time.sleep(watched)
    statements = {}  # session -> what it ran
    for line in server.log_text()[before:].splitlines():
        head, _, text = line.partition("|")
        if head.split(" ", 1)[1:] and head.split(" ", 1)[1].startswith("tally relay") and "LOG:  execute" in text:
            statements.setdefault(head, []).append(text)
    lease = {head: texts for head, texts in statements.items() if head.endswith("tally relay, lease")}
    rows = {head: texts for head, texts in statements.items() if head.endswith("tally relay, rows")}
    assert len(lease) == 20 and not any(
        "tally.outbox " in text or "tally.dead" in text for texts in lease.values() for text in texts)
    readers = [texts for texts in rows.values() if any("ROWS BETWEEN UNBOUNDED PRECEDING" in text for text in texts)]
    assert len(readers) == 1 and len(readers[0]) < 60 * watched  # forty looks a second, and the numbers for people
    # The others look each ten seconds how old the oldest row is, for the alarm.
    looks = sum(len(texts) for texts in rows.values()) - len(readers[0])
    assert looks <= 2 * 19 * (watched / 10 + 1), f"{looks} statements of those that stand by"
    assert all(len(texts) < 20 * watched for texts in lease.values()), "a stand-by looks at the lease all the time"


def test_R51_who_must_not_relay_is_no_candidate(daemon, daemon_factory, relays, outbox, fifo):
    leader = relays(outbox.uri, "queue", "--lease", 1, name="leader")
    leader.wait_for("active, epoch 1")
    bystander = daemon_factory().start()  # a daemon with no relay
    create(daemon, outbox, "paused")
    wait_for(daemon, "standby", "paused")
    good(daemon, "PauseRelay", RelayName="paused")
    wait_for(daemon, "paused", "paused")
    leader.kill9()
    outbox.fill(fifo, 10)
    time.sleep(3 * PATIENCE)  # three leases
    assert outbox.lease()[0] == 1 and outbox.count() == 10 and describe(daemon, "paused")["State"] == "paused"
    assert good(bystander, "ListRelays") == {"Relays": []} and list(bystander.data.glob("*.sock")) == []
    good(daemon, "ResumeRelay", RelayName="paused")
    wait_for(daemon, "active", "paused")
    check_once(drain(daemon, fifo, 10), outbox.bodies(10))
    assert outbox.lease()[0] == 2


# --- one process, two sources -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["its lock is taken away", "its line is cut"])
def test_R28_a_process_that_loses_the_lease_of_one_source_goes_on_with_the_other(
        daemon, relays, outbox, other, proxy, fifo, way):
    create(daemon, outbox, "a", Source={"Connection": proxy.uri(outbox.uri)})
    create(daemon, other, "b")
    for name in "a", "b":
        wait_for(daemon, "active", name)
    begun = describe(daemon, "b")
    second = relays(outbox.uri, "queue", "--lease", 1, name="second")
    second.wait_for("standby")
    if way == "its line is cut":
        proxy.freeze()
    else:
        outbox.sql("SELECT pg_terminate_backend(pid) FROM tally.lease")
    second.wait_for("active, epoch 2")
    other.fill(fifo, 100, groups=5)
    arrived = drain(daemon, fifo, 100)
    check_once(arrived, other.bodies(100))
    check_order(arrived)
    wait_until(lambda: describe(daemon, "a")["State"] in ("standby", "failed"), what="that a knows")
    outbox.fill(fifo, 100, groups=5, first=100)
    check_once(drain(daemon, fifo, 100), [str(n) for n in range(100, 200)])
    proxy.thaw()
    wait_for(daemon, "standby", "a")
    seen = describe(daemon, "b")
    assert (seen["State"], seen["Since"], seen["Epoch"], seen["Takeovers"]) == ("active", begun["Since"], 1, 1)
    assert outbox.lease()[0] == 2


# --- alarms -----------------------------------------------------------------------------------------------------------


def test_P27_rows_that_wait_too_long_raise_an_alarm_whoever_owns_the_outbox(daemon, relays, outbox, fifo):
    """The owner can't deliver them, one stands by, one is paused: all of them say so."""
    put_old_row(outbox, "no-such-queue.fifo")
    owner = relays(outbox.uri, "queue", "--lease", 1, name="owner")
    owner.wait_for("blocked")
    create(daemon, outbox, "idle")
    create(daemon, outbox, "paused")
    good(daemon, "PauseRelay", RelayName="paused")
    for name, wanted in ("idle", "standby"), ("paused", "paused"):
        wait_until(lambda name=name: TOO_OLD.search(describe(daemon, name).get("Warning", "")),
                   what=f"a warning by {name}")
        seen = describe(daemon, name)
        assert seen["State"] == wanted and seen["Lag"]["Rows"] == 1 and 600 <= seen["Lag"]["Seconds"] < 700
        wait_until(lambda name=name, wanted=wanted: f"relay {name} (namespace 000000000000), {wanted}: "
                   "the oldest row has waited for 6" in daemon.error_text(), what=f"a line about {name}")
    metrics = daemon.request("GET", "/metrics")[2].decode()
    lags = re.findall(r'tally_relay_lag_seconds\{[^}]*relay="(\w+)"\} (\d+)', metrics)
    assert sorted(name for name, _ in lags) == ["idle", "paused"] and all(int(seconds) >= 600 for _, seconds in lags)

    assert daemon.error_text().count("relay idle (namespace 000000000000), standby: the oldest row") == 1
    owner.signal(15)
    status, errors = owner._reap(20 * PATIENCE)
    assert status == 0 and re.fullmatch(
        r"relay owner, (active|blocked): the oldest row has waited for 6\d\d s, more than 60 s\n", errors), errors


def test_P27_an_owner_that_can_not_reach_its_sink_raises_the_alarm_too(relays, outbox, fifo):
    put_old_row(outbox, fifo)
    lone = relays(outbox.uri, "queue", "--lease", 1, "--endpoint", "http://127.0.0.1:9", name="lone")
    lone.wait_for("blocked")
    time.sleep(1.5 * PATIENCE)
    lone.signal(15)
    status, errors = lone._reap(20 * PATIENCE)
    assert status == 0 and TOO_OLD.search(errors), errors
