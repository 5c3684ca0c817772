"""A slice of the campaign of kills of the owner of a log in PostgreSQL, and an SDK that repeats over takeovers.

tests/campaign/kills_campaign.py does the work and judges it; `make campaign-kills` is the whole of it: a million
messages that wait, and 100 kills."""

import contextlib
import os
import random
import sys
import time

import psycopg2
from balancer import Balancer
from conftest import ROOT, wait_until
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import SMALL, TAKEOVER, serves
from sdk_repeats import SdkCheck
from wire import scaled

sys.path.insert(0, str(ROOT / "tests" / "campaign"))

KILLS = scaled(5, "KILLS", least=2)
MESSAGES = scaled(3000, "CAMPAIGN_MESSAGES", least=300)
SEED = os.environ.get("KILL_SEED") or str(random.SystemRandom().randrange(1 << 32))
TAKEOVERS = scaled(5, "TAKEOVERS", least=2)
REFUSED = 1.2  # seconds for which nobody can take over: an SDK repeats within one


def test_K1_K22_kills_of_the_owner_lose_nothing_and_the_other_serves_within_two_seconds(tmp_path, capsys):
    from kills_campaign import FAULTS, parse, run_campaign

    words = ("--kills", KILLS, "--messages", MESSAGES, "--pause", 0.5, "--early", 0.2, "--seed", SEED,
             "--median", TAKEOVER / 2, "--worst", TAKEOVER)
    counted = run_campaign(tmp_path, parse([str(word) for word in words]), SMALL)
    with capsys.disabled():
        print(f"\nK1: seed {SEED}, {counted}")
    for fault in FAULTS:
        assert counted[fault] == 0, counted
    assert counted["waiting"] == MESSAGES and counted["messages"] > 0 and counted["batches"] > 0
    assert counted["in_groups"] > 0 and counted["by_sdk"] > 0 and counted["lost_replies"] > 0


@contextlib.contextmanager
def takeovers_delayed(cluster, seconds):
    """A transaction has the fence as a write does, so that a seal waits for its end."""
    connection = psycopg2.connect(cluster.server.uri.rsplit("/", 1)[0] + "/" + cluster.database)
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM tally_log.head FOR SHARE")
        yield
        time.sleep(seconds)
        connection.rollback()


def test_K22_an_sdk_that_repeats_after_a_503_sees_each_message_once_and_in_order(cluster, capsys):
    owner, other = cluster.pair(*SMALL)
    balancer = Balancer(cluster.nodes)
    check = SdkCheck(balancer.url)
    try:
        for _ in range(TAKEOVERS):
            cluster.wait_followed()
            sent = check.sent
            wait_until(lambda: check.faults or check.sent > sent + 10, 30, "messages")
            with takeovers_delayed(cluster, REFUSED):
                owner.kill9()
            wait_until(lambda: serves(other, "sdk.fifo"), TAKEOVER, f"the takeover by {other.name}")
            assert not check.faults, check.faults
            owner.start().wait_standing_by()
            owner, other = other, owner
        check.finish()
    finally:
        check.is_ending = True
        balancer.close()
    with capsys.disabled():
        print(f"\nK22: {check.sent} messages, answers by status {dict(check.statuses)}")
    assert check.statuses[503] >= TAKEOVERS, "nothing was repeated after a 503"
    assert cluster.head()[0] == TAKEOVERS + 1
