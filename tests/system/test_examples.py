"""The examples, as a newcomer runs them: one command each, which checks its own claim and ends with status 0."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

import pytest
from conftest import BIN, PATIENCE, ROOT, WRAPPER, clean_environment, wait_until

EXAMPLES = sorted(path.parent.name for path in ROOT.glob("examples/*/run"))

# What an example needs beyond Node.js, or instead of it.
POSTGRES = {"cluster", "exactly-once", "outbox"}
PYTHON = {"cluster", "crawl", "outbox-sqlite", "pool-dispatch", "pool-letters", "pool-matchers", "pool-teams"}

pytestmark = pytest.mark.skipif(bool(WRAPPER), reason="the examples start their daemon themselves, without a wrapper")


# Smaller than by themselves, yet large enough for what they claim.
ARGUMENTS = {"cluster": ["1", "0.1"], "crawl": ["10000"]}
SECONDS = {"cluster": 400}  # that it may take on a busy machine; else 180


def has_postgres():
    return shutil.which("initdb") or any(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))


def require(is_there, what):
    """Skips the test for want of something that ./setup test brings; in CI that is a failure."""
    if not is_there and os.environ.get("CI"):
        pytest.fail(f"{what} is missing: run ./setup test")
    if not is_there:
        pytest.skip(f"{what} is missing: run ./setup test")


@pytest.fixture
def temporary():
    """A folder for the examples' own ones, where PostgreSQL's user may go. Nothing stays in it, and no process that has
    it in its command line."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tally-examples-"))
    folder.chmod(0o711)
    yield folder
    left = list(folder.iterdir())
    shutil.rmtree(folder)
    assert not left
    assert not commands_with(str(folder))


def commands_with(word):
    commands = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            commands.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [command for command in commands if word in command]


def environment(temporary):
    return clean_environment(TALLY_BIN=str(BIN), AWS_EC2_METADATA_DISABLED="true", TMPDIR=str(temporary))


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_with_one_command_and_finds_what_it_claims(name, tmp_path, temporary):
    if name not in PYTHON:
        require(shutil.which("node"), "Node.js")
        require(shutil.which("npm") or (ROOT / "build/examples/node_modules/.installed-lock").exists(), "npm")
    if name in POSTGRES:
        require(has_postgres(), "PostgreSQL")
    done = subprocess.run(
        [ROOT / "examples" / name / "run", *ARGUMENTS.get(name, [])],
        capture_output=True,
        text=True,
        timeout=SECONDS.get(name, 180) * PATIENCE,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        env=environment(temporary),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "", done.stderr
    if name == "crawl":
        killed = re.search(r"^(\d+) workers were killed", done.stdout, re.MULTILINE)
        assert killed and int(killed[1]) >= 1, done.stdout
        assert "10,000 units, of which 10,000 succeeded" in done.stdout and "Completion messages: 1\n" in done.stdout
    if name == "cluster":
        assert re.search(r"^Sent ([\d,]+), received \1, lost 0, twice 0, out of order 0; longest wait of a client "
                         r"\d+\.\d s\.$", done.stdout, re.MULTILINE), done.stdout
        assert "\n3 batches of 300 units, and 3 completion messages.\n" in done.stdout


@pytest.mark.parametrize("said", ["db1, the primary", "kill -9 of node two"])
def test_Ctrl_C_ends_all_servers_of_the_cluster_and_removes_their_folder(said, tmp_path, temporary):
    """While PostgreSQL is made, and while a node is down."""
    require(has_postgres(), "PostgreSQL")
    with open(tmp_path / "said", "wb") as output:
        process = subprocess.Popen([ROOT / "examples/cluster/run", *ARGUMENTS["cluster"]],
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment(temporary),
                                   start_new_session=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    has_said = lambda: said in (tmp_path / "said").read_text() or process.poll() is not None  # noqa: E731
    wait_until(has_said, 200, said)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60 * PATIENCE) == 130, (tmp_path / "said").read_text()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_has_a_page_that_says_how_to_run_it(name):
    text = (ROOT / "examples" / name / "README.md").read_text()
    assert f"examples/{name}/run" in text
    assert name in (ROOT / "examples" / "README.md").read_text()
