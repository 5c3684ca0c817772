"""The examples, as a newcomer runs them: one command each, which checks its own claim and ends with status 0."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import BIN, PATIENCE, ROOT, WRAPPER, clean_environment

EXAMPLES = sorted(path.parent.name for path in ROOT.glob("examples/*/run"))

# What an example needs beyond Node.js, or instead of it.
POSTGRES = {"exactly-once", "outbox"}
PYTHON = {"crawl", "outbox-sqlite", "pool-dispatch", "pool-letters", "pool-matchers", "pool-teams"}

pytestmark = pytest.mark.skipif(bool(WRAPPER), reason="the examples start their daemon themselves, without a wrapper")


# Smaller than by themselves, yet large enough for what they claim.
ARGUMENTS = {"crawl": ["10000"]}


def has_postgres():
    return shutil.which("initdb") or any(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))


def require(is_there, what):
    """Skips the test for want of something that ./setup test brings; in CI that is a failure."""
    if not is_there and os.environ.get("CI"):
        pytest.fail(f"{what} is missing: run ./setup test")
    if not is_there:
        pytest.skip(f"{what} is missing: run ./setup test")


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_with_one_command_and_finds_what_it_claims(name, tmp_path):
    if name not in PYTHON:
        require(shutil.which("node"), "Node.js")
        require(shutil.which("npm") or (ROOT / "build/examples/node_modules/.installed-lock").exists(), "npm")
    if name in POSTGRES:
        require(has_postgres(), "PostgreSQL")
    done = subprocess.run(
        [ROOT / "examples" / name / "run", *ARGUMENTS.get(name, [])],
        capture_output=True,
        text=True,
        timeout=180 * PATIENCE,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        env=clean_environment(TALLY_BIN=str(BIN), AWS_EC2_METADATA_DISABLED="true"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "", done.stderr
    if name == "crawl":
        killed = re.search(r"^(\d+) workers were killed", done.stdout, re.MULTILINE)
        assert killed and int(killed[1]) >= 1, done.stdout
        assert "10,000 units, of which 10,000 succeeded" in done.stdout and "Completion messages: 1\n" in done.stdout


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_has_a_page_that_says_how_to_run_it(name):
    text = (ROOT / "examples" / name / "README.md").read_text()
    assert f"examples/{name}/run" in text
    assert name in (ROOT / "examples" / "README.md").read_text()
