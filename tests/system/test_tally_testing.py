"""clients/python-testing: a server for tests in Python, and its fixtures of pytest; the rest of
docs/how-to/testing-with-tally.md."""

import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time

import boto3
import pytest
from conftest import BIN, IS_BARE, PATIENCE, ROOT, clean_environment, wait_until

HERE = ROOT / "clients" / "python-testing"
PAGE = (ROOT / "docs" / "how-to" / "testing-with-tally.md").read_text()
TALLYD = str(BIN / "tallyd")

pytestmark = pytest.mark.skipif(not IS_BARE, reason="only what is released is handed on")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where temporary folders go, with a module of the client that knows it."""
    folder = tmp_path / "a place"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("TALLY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.syspath_prepend(str(HERE))
    return folder


def run_pytest(folder, *words, **more):
    environment = {**clean_environment(**more), "PYTHONPATH": str(HERE)}
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120 * PATIENCE)


def test_a_server_has_queues_and_leaves_nothing(place):
    from tally_testing import start_tally

    began = time.monotonic()
    with start_tally(queues=["orders", "mails.fifo"], tallyd=TALLYD) as tally:
        assert time.monotonic() - began < 30 * PATIENCE  # a second on a machine that does nothing else
        sqs = boto3.client("sqs", **tally.client_options)
        sqs.send_message(QueueUrl=tally.queue_url("orders"), MessageBody="order 17")
        assert sqs.receive_message(QueueUrl=tally.queue_url("orders"))["Messages"][0]["Body"] == "order 17"
        sqs.create_queue(QueueName="another")
        tally.reset()
        names = [url.rsplit("/", 1)[1] for url in sqs.list_queues()["QueueUrls"]]
        assert names == ["mails.fifo", "orders"] and len(list(place.iterdir())) == 1
        assert tally.endpoint_url == f"http://127.0.0.1:{tally.port}"
        tally.stop()
        tally.stop()
    assert list(place.iterdir()) == [] and tally.process.returncode == 0


def test_a_forked_child_keeps_no_server(place):
    """It has the other end of the pipe, too."""
    from tally_testing import start_tally

    with start_tally(tallyd=TALLYD) as tally:
        child = os.fork()
        if child == 0:
            signal.pause()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert tally.process.returncode == 0 and list(place.iterdir()) == []


def test_a_process_with_many_files_starts_one(place):
    from tally_testing import start_tally

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1024)]
    try:
        start_tally(tallyd=TALLYD).stop()
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_what_is_wrong_is_said(place, monkeypatch):
    from tally_testing import TallyError, start_tally

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(TallyError, match="address already in use"):
        start_tally(tallyd=TALLYD, port=taken.getsockname()[1])
    with pytest.raises(TallyError, match="--no-such-flag"):
        start_tally("--no-such-flag", tallyd=TALLYD)
    with pytest.raises(TallyError, match="CreateQueue met 400"):
        start_tally(tallyd=TALLYD, queues=["not a name"])
    with pytest.raises(TallyError, match="/nowhere can't be started: No such file"):
        start_tally(tallyd="/nowhere")
    monkeypatch.setenv("PATH", str(place))
    with pytest.raises(TallyError, match="name it with --tallyd"):
        start_tally()
    monkeypatch.setenv("TALLYD", TALLYD)
    start_tally().stop()
    wait_until(lambda: list(place.iterdir()) == [], 30, "that nothing is left")


def test_the_server_ends_with_tests_that_are_killed(place):
    program = ("import time\nfrom tally_testing import start_tally\n"
               "print(start_tally().process.pid, flush=True)\ntime.sleep(600)")
    tests = subprocess.Popen([sys.executable, "-B", "-c", program], stdout=subprocess.PIPE, text=True,
                             env={**clean_environment(TALLYD=TALLYD, TMPDIR=str(place)), "PYTHONPATH": str(HERE)})
    server = pathlib.Path(f"/proc/{int(tests.stdout.readline())}/exe")
    tests.send_signal(signal.SIGKILL)
    tests.communicate()
    wait_until(lambda: not server.exists() and list(place.iterdir()) == [], 30, "that server and folder are gone")


def test_the_fixtures_on_the_page_work(tmp_path, place):
    for name, text in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / name).write_text(text)
    assert (tmp_path / "conftest.py").exists()
    with open(tmp_path / "test_orders.py", "a") as file:
        file.write("\n\ndef test_each_test_begins_without_queues(tally, tally_server):\n"
                   "    assert tally is tally_server and tally.call('ListQueues') == {}\n")
    (command,) = re.findall(r"^pytest (.*)$", PAGE, re.MULTILINE)
    (tmp_path / "tally").symlink_to(BIN.parent)
    done = run_pytest(tmp_path, *command.split(), TMPDIR=str(place))
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr
    assert list(place.iterdir()) == []
    done = run_pytest(tmp_path, "test_orders.py", PATH="/nowhere")
    assert done.returncode == 1 and "There is no tallyd: name it with --tallyd" in done.stdout


def test_its_version_is_that_of_the_server():
    (own,) = re.findall(r'^version = "(.*)"', (HERE / "pyproject.toml").read_text(), re.MULTILINE)
    (server,) = re.findall(r"^  version: '(.*)'", (ROOT / "meson.build").read_text(), re.MULTILINE)
    assert own == server


def test_it_can_be_installed(tmp_path):
    pytest.importorskip("wheel")
    shutil.copytree(HERE, tmp_path / "python", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-build-isolation", "--no-deps",
               "--target", tmp_path / "site", tmp_path / "python"]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(HOME=str(tmp_path)))
    if "No module named pip" in done.stderr:
        pytest.skip("there is no pip")
    assert done.returncode == 0, done.stderr
    (tmp_path / "test_installed.py").write_text("def test_it(tally):\n    assert tally.call('ListQueues') == {}\n")
    environment = {**clean_environment(TALLYD=TALLYD), "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_installed.py"],
                          cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_what_the_page_says_about_any_language_runs(tmp_path):
    """With an archive of this build's program instead of `make dist`."""
    tree = tmp_path / "tally-0-linux-x64"
    (tree / "bin").mkdir(parents=True)
    shutil.copy(BIN / "tallyd", tree / "bin")
    with tarfile.open(tmp_path / "tally-0-linux-x64.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(tree, tree.name)
    libraries = ":".join(map(str, (ROOT / "build" / "deps" / "usr" / "lib").glob("*-linux-gnu*")))
    part = PAGE[PAGE.index("## Any language") : PAGE.index("## What is in a queue")]
    commands = "\n".join(re.findall(r"```sh\n(.*?)```", part, re.DOTALL))
    done = subprocess.run(["sh", "-ec", commands + "\nwait"], cwd=tmp_path, capture_output=True, text=True,
                          env=clean_environment(LD_LIBRARY_PATH=libraries, TMPDIR=str(tmp_path)))
    assert done.returncode == 0, done.stderr
    version, ready = done.stdout.splitlines()
    assert version.startswith("tallyd ")
    assert re.match(r"tallyd ready on http://127.0.0.1:\d+ data=/.*/tally-data-", ready)
    assert not list(tmp_path.glob("tally-data-*"))


def test_the_request_on_the_page_finds_the_message(place, tmp_path):
    requests = pytest.importorskip("requests")
    from tally_testing import start_tally

    (line,) = re.findall(r"```python\n(requests\.get.*)\n```", PAGE)
    with start_tally(queues=["q"], tallyd=TALLYD) as tally:
        url = tally.queue_url("q")
        tally.call("SendMessage", QueueUrl=url, MessageBody="seen")
        answer = eval(line, {"requests": requests, "endpoint": tally.endpoint_url, "url": url})
        assert answer.json()["ReceiveMessageResponse"]["ReceiveMessageResult"]["Message"]["Body"] == "seen"
