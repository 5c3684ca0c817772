"""The AWS SDK for JavaScript v3, unmodified, from npm: one test for each scenario of sdk_life.mjs."""

import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import PATIENCE, clean_environment

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = HERE / "sdk_life.mjs"
SCENARIOS = re.findall(r"^  async (\w+)\(\)", SCRIPT.read_text(), re.MULTILINE)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_sdk_for_javascript(daemon, scenario):
    assert shutil.which("node"), "node is missing: run ./setup test"
    assert (HERE / "node_modules/@aws-sdk/client-sqs").exists(), "the SDK is missing: run ./setup test"
    done = subprocess.run(
        ["node", str(SCRIPT), daemon.endpoint, scenario],
        capture_output=True,
        text=True,
        timeout=120 * PATIENCE,
        env=clean_environment(AWS_EC2_METADATA_DISABLED="true"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
