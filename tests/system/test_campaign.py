"""A slice of the campaign of groups: many groups, many workers, failing attempts, and the daemon killed all the while.

tests/campaign does the work and judges it; `make campaign` is the whole of it: a million groups.
"""

import json
import subprocess
import sys

import pytest
from campaigns import find_program, run_program
from clients import needs
from conftest import BIN, PATIENCE, ROOT, WRAPPER, clean_environment
from wire import scaled

GROUPS = scaled(20000, "CAMPAIGN_GROUPS", least=500)
KILLS = 12


@pytest.fixture(scope="module")
def program():
    return find_program("groups")


@pytest.mark.parametrize("sends", [(), ("--numbered",)], ids=["deduplicated", "numbered"])
def test_groups_keep_their_order_and_end_once_under_kills(program, tmp_path, sends):
    """Nothing overtakes, nothing is lost, nothing is accepted or ends twice."""
    status, counted = run_program(
        program, tmp_path, "--groups", GROUPS, "--kill-each", 6 * GROUPS // (KILLS + 1), "--lease", PATIENCE, *sends
    )
    for name in ("order_violations", "lease_violations", "fence_violations", "receive_violations", "lost", "twice",
                 "left_in_queue"):
        assert counted[name] == 0, counted
    assert counted["messages"] == 3 * GROUPS
    assert counted["kills"] >= KILLS // 2  # how many there are depends on how often the workers fail
    assert counted["failed_attempts"] > 0.03 * counted["attempts"]
    assert counted["fence_probes"] > 0 or GROUPS < 5000
    assert status == 0


def test_the_judge_sees_a_broken_order(program, tmp_path):
    """The same on a queue without the strict order: a handle behind one that was given back still works, and is found
    out."""
    status, counted = run_program(
        program, tmp_path, "--groups", max(GROUPS // 4, 500), "--kill-every", 0, "--lease", PATIENCE, "--fail", 0.3,
        "--strict", "false",
    )
    assert counted["fence_violations"] > 0, counted
    assert status == 1


def test_looking_changes_nothing_under_kills(program):
    """Beside the load everything is asked for that only reads; receive counts are those of the deliveries."""
    needs(not WRAPPER, "a daemon that is started by its own path")
    campaign = ROOT / "tests" / "campaign" / "look_campaign.py"
    ended = subprocess.run(
        [sys.executable, "-B", campaign, "--tallyd", BIN / "tallyd", "--tally", BIN / "tally", "--program", program,
         "--groups", str(scaled(3000, "CAMPAIGN_GROUPS", least=500)), "--kill-each", "1500", "--onlookers", "1",
         "--lease", str(PATIENCE), "--no-pages"],
        capture_output=True, text=True, timeout=100 * PATIENCE, env=clean_environment(), check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    counted = json.loads(ended.stdout)
    assert counted["looks"] > 60 and counted["kills"] >= 2, counted
