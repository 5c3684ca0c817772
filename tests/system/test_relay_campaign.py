"""A slice of the campaign of relays: an outbox, two relays, writers, and everything killed all the while.

tests/campaign/relay_campaign.py does the work and judges it; `make campaign-relay` is the whole of it: 200,000 rows and
500 kills. """

import os
import random
import sys

import pytest

from conftest import ROOT
from wire import scaled

sys.path.insert(0, str(ROOT / "tests" / "campaign"))

ROWS = scaled(5000, "CAMPAIGN_ROWS", least=300)
KILLS = scaled(10, "CAMPAIGN_KILLS", least=2)
SEED = os.environ.get("KILL_SEED") or str(random.SystemRandom().randrange(1 << 32))


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
def test_every_committed_row_is_one_message_in_its_order_whatever_is_killed(tmp_path, kind):
    from relay_campaign import FAULTS, run_campaign

    counted = run_campaign(tmp_path, ROWS, KILLS, 100, SEED, kind)
    print(counted, "KILL_SEED", SEED)
    for fault in FAULTS:
        assert counted[fault] == 0, counted
    assert counted["rows"] >= ROWS * 0.9
    assert sum(counted["kills"].values()) == KILLS
    assert counted["rolled_back_or_unknown"] > 0
