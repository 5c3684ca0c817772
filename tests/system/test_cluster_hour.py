"""A slice of the campaign of a cluster under faults: three nodes, some namespaces, and faults drawn at random.

tests/campaign/cluster_campaign.py does the work and judges it; `make campaign-cluster` is the whole of it: an hour, 50
namespaces, and one fault a minute."""

import os
import random
import sys

from clients import needs
from conftest import ROOT
from haproxy import PROGRAM
from wire import scaled

sys.path.insert(0, str(ROOT / "tests" / "campaign"))

FAULTS = scaled(4, "FAULTS", least=2)
EVERY = 5  # seconds
SEED = os.environ.get("KILL_SEED") or str(random.SystemRandom().randrange(1 << 32))


def test_K1_K2_K3_K4_K6_K13_faults_at_random_lose_and_repeat_nothing_in_many_namespaces(tmp_path, capsys):
    needs(PROGRAM, "haproxy")
    from cluster_campaign import FAULTS as BAD, parse, run_campaign

    # A fault each five seconds leaves no 99 %: how much of the time each was answered, only the hour says.
    words = ("--seconds", FAULTS * EVERY, "--every", EVERY, "--namespaces", 8, "--least", 10, "--seed", SEED,
             "--without", "roll")
    counted = run_campaign(tmp_path, parse([str(word) for word in words]))
    with capsys.disabled():
        print(f"\nfaults: seed {SEED}, {counted}")
    for bad in BAD:
        assert counted[bad] == 0, counted
    assert counted["faults"] == FAULTS and counted["messages"] > 0 and counted["batches"] > 0
