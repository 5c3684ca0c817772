"""A slice of the campaign of pools: 64 matchers that race for the same tickets, and the daemon killed all the while.

tests/campaign/pool.c does the work and judges it; `make campaign-pool` is the whole of it: a million tickets. Here
1,000,000 tickets are some thousands, and every few hundred of them the daemon is killed. """

import pytest
from campaigns import find_program, run_program
from conftest import PATIENCE
from wire import scaled

TICKETS = scaled(12000, "CAMPAIGN_TICKETS", least=600)
KILLS = 8
FAULTS = ("lost", "twice", "undelivered", "ghosts", "other_members", "wrong_answers", "left_in_queue", "miscounted")


@pytest.fixture(scope="module")
def program():
    return find_program("pool")


def run_campaign(program, tmp_path, *options):
    """Runs it to its end; returns what it counted."""
    status, counted = run_program(
        program, tmp_path, "--lease", 5 * PATIENCE, "--kill-each", TICKETS // (KILLS + 1), "--tickets", TICKETS,
        *options,
        "--", "--segment-size", "37MiB", seconds=110,
    )
    for fault in FAULTS:
        assert counted[fault] == 0, counted
    assert status == 0 and counted["kills"] >= KILLS // 2, counted
    return counted


def test_MR39_each_ticket_is_in_one_match_that_is_delivered_though_64_race_for_it(program, tmp_path):
    counted = run_campaign(program, tmp_path)
    assert counted["matches"] == counted["accepted"] == counted["tickets"] // 2, counted
    assert counted["conflicts"] > 0 and counted["events"] > 0, counted


def test_MR39_and_though_matches_are_put_back(program, tmp_path):
    counted = run_campaign(program, tmp_path, "--put-back", 0.1, "--size", 3)
    assert counted["put_back"] > 0 and counted["matches"] == counted["tickets"] // 3 + counted["put_back"], counted


def test_MR39_and_though_the_daemons_own_matcher_races_with_them(program, tmp_path):
    counted = run_campaign(program, tmp_path, "--put-back", 0.05, "--built-in", "--matchers", 16, "--proposals", 1)
    assert counted["of_the_daemon"] > 0 and counted["accepted"] > 0, counted
