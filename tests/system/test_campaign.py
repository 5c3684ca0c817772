"""A slice of the campaign of groups: many groups, many workers, failing attempts, and the daemon killed all the while.

tests/campaign does the work and judges it; `make campaign` is the whole of it: a million groups.
"""

import json
import subprocess

import pytest
from conftest import BIN, PATIENCE, ROOT, WRAPPER, clean_environment
from wire import scaled

# Beside the daemon under test where its build folder has one, else that of the release build.
PROGRAMS = [BIN.parent / "tests" / "campaign" / "groups", ROOT / "build" / "release" / "tests" / "campaign" / "groups"]
GROUPS = scaled(20000, "CAMPAIGN_GROUPS", least=500)
KILLS = 12


@pytest.fixture(scope="module")
def program():
    release = ROOT / "build" / "release"
    if not PROGRAMS[0].exists() and (release / "build.ninja").exists():
        subprocess.run(["ninja", "-C", release, "--quiet", "tests/campaign/groups"], check=False)
    found = [path for path in PROGRAMS if path.exists()]
    assert found, f"{PROGRAMS[-1]} isn't built: run make all"
    return found[0]


def run_campaign(program, tmp_path, *options):
    """Runs it to its end; returns its exit status and what it counted."""
    if WRAPPER:  # it starts the daemon itself, by one path
        wrapped = tmp_path / "wrapped"
        wrapped.write_text(f'#!/bin/sh\nexec {" ".join(WRAPPER)} "{BIN / "tallyd"}" "$@"\n')
        wrapped.chmod(0o755)
    tallyd = tmp_path / "wrapped" if WRAPPER else BIN / "tallyd"
    command = [program, "--tallyd", tallyd, "--folder", tmp_path / "data", *map(str, options)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=100 * PATIENCE, env=clean_environment(), check=False
    )
    assert done.stdout, done.stderr
    print(done.stdout, done.stderr)
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("sends", [(), ("--numbered",)], ids=["deduplicated", "numbered"])
def test_groups_keep_their_order_and_end_once_under_kills(program, tmp_path, sends):
    """Nothing overtakes, nothing is lost, nothing is accepted or ends twice."""
    status, counted = run_campaign(
        program, tmp_path, "--groups", GROUPS, "--kill-each", 6 * GROUPS // (KILLS + 1), "--lease", PATIENCE, *sends
    )
    for name in ("order_violations", "lease_violations", "fence_violations", "lost", "twice", "left_in_queue"):
        assert counted[name] == 0, counted
    assert counted["messages"] == 3 * GROUPS
    assert counted["kills"] >= KILLS // 2  # how many there are depends on how often the workers fail
    assert counted["failed_attempts"] > 0.03 * counted["attempts"]
    assert counted["fence_probes"] > 0 or GROUPS < 5000
    assert status == 0


def test_the_judge_sees_a_broken_order(program, tmp_path):
    """The same on a queue without the strict order: a handle behind one that was given back still works, and is found out."""
    status, counted = run_campaign(
        program, tmp_path, "--groups", max(GROUPS // 4, 500), "--kill-every", 0, "--lease", PATIENCE, "--fail", 0.3,
        "--strict", "false",
    )
    assert counted["fence_violations"] > 0, counted
    assert status == 1
