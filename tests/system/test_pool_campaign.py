"""A slice of the campaign of pools: 64 matchers that race for the same tickets, and the daemon killed all the while.

tests/campaign/pool.c does the work and judges it; `make campaign-pool` is the whole of it: a million tickets. Here 1,000,000 tickets are some
thousands, and every few hundred of them the daemon is killed.
"""

import json
import subprocess

import pytest
from conftest import BIN, PATIENCE, ROOT, WRAPPER, clean_environment
from wire import scaled

# Beside the daemon under test where its build folder has one, else that of the release build.
PROGRAMS = [BIN.parent / "tests" / "campaign" / "pool", ROOT / "build" / "release" / "tests" / "campaign" / "pool",
            ROOT / "build" / "dev" / "tests" / "campaign" / "pool"]
TICKETS = scaled(12000, "CAMPAIGN_TICKETS", least=600)
KILLS = 8
FAULTS = ("lost", "twice", "undelivered", "ghosts", "other_members", "wrong_answers", "left_in_queue", "miscounted")


@pytest.fixture(scope="module")
def program():
    release = ROOT / "build" / "release"
    if not PROGRAMS[0].exists() and (release / "build.ninja").exists():
        subprocess.run(["ninja", "-C", release, "--quiet", "tests/campaign/pool"], check=False)
    found = [path for path in PROGRAMS if path.exists()]
    assert found, f"{PROGRAMS[1]} isn't built: run make all"
    return found[0]


def run_campaign(program, tmp_path, *options):
    """Runs it to its end; returns what it counted."""
    if WRAPPER:  # it starts the daemon itself, by one path
        wrapped = tmp_path / "wrapped"
        wrapped.write_text(f'#!/bin/sh\nexec {" ".join(WRAPPER)} "{BIN / "tallyd"}" "$@"\n')
        wrapped.chmod(0o755)
    tallyd = tmp_path / "wrapped" if WRAPPER else BIN / "tallyd"
    command = [program, "--tallyd", tallyd, "--folder", tmp_path / "data", "--lease", 5 * PATIENCE, "--kill-each", TICKETS // (KILLS + 1),
               "--tickets", TICKETS, *options, "--", "--segment-size", "37MiB"]
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=110 * PATIENCE, env=clean_environment(), check=False)
    assert done.stdout, done.stderr
    print(done.stdout, done.stderr)
    counted = json.loads(done.stdout)
    for fault in FAULTS:
        assert counted[fault] == 0, counted
    assert done.returncode == 0 and counted["kills"] >= KILLS // 2, counted
    return counted


def test_MR39_each_ticket_is_in_one_match_that_is_delivered_though_64_race_for_it(program, tmp_path):
    counted = run_campaign(program, tmp_path)
    assert counted["matches"] == counted["accepted"] == counted["tickets"] // 2, counted
    assert counted["conflicts"] > 0 and counted["resyncs"] >= counted["views"], counted


def test_MR39_and_though_matches_are_put_back(program, tmp_path):
    counted = run_campaign(program, tmp_path, "--put-back", 0.1, "--size", 3)
    assert counted["put_back"] > 0 and counted["matches"] == counted["tickets"] // 3 + counted["put_back"], counted


def test_MR39_and_though_the_daemons_own_matcher_races_with_them(program, tmp_path):
    counted = run_campaign(program, tmp_path, "--put-back", 0.05, "--built-in", "--matchers", 16, "--proposals", 1)
    assert counted["of_the_daemon"] > 0 and counted["accepted"] > 0, counted
