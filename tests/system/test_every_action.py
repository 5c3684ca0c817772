"""A slice of the campaign of every action, where the daemon is one with sanitizers.

tests/campaign/asan_campaign.py does the work and judges it; `make campaign-asan SECONDS=3600` is the whole of it."""

import json
import re
import subprocess
import sys

import pytest
from conftest import BIN, ROOT

SECONDS = 20


@pytest.mark.skipif("asan" not in BIN.parts, reason="it looks for what AddressSanitizer reports")
def test_no_action_makes_the_sanitizers_speak_and_each_goes_well(tmp_path):
    program = ROOT / "tests" / "campaign" / "asan_campaign.py"
    ended = subprocess.run(
        [sys.executable, "-B", program, "--seconds", str(SECONDS), "--seed", "22", "--tallyd", BIN / "tallyd"],
        capture_output=True, text=True, timeout=300,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    counted = json.loads(next(line for line in ended.stdout.splitlines() if line.startswith("{")))
    assert counted["faults"] == 0 and counted["kills"] > 0 and counted["tours"] > 0, counted
    good = [int(line.split()[3].replace(",", ""))
            for line in ended.stdout.splitlines() if re.search(" called .* good$", line)]
    assert len(good) > 70 and min(good) > 0, ended.stdout
