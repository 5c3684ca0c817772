"""The data folder under a running daemon: its lock file, its files or the folder itself are removed, renamed,
replaced."""

import contextlib
import http.client
import json
import shutil
import subprocess
import time

import pytest

from conftest import BIN, PATIENCE, WRAPPER, clean_environment, free_port, wait_until

LOOK_S = 0.02  # a look behind a frame may be 5 ms old, and the clock's tick
NOTICED_S = 8  # it looks once a second; the rest is for a machine that is busy


def send(daemon, body):
    """The status of a SendMessage; None: no answer came."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        return daemon.call("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": body})[0]
    return None


def bodies(daemon):
    found = []
    while messages := daemon.call("AmazonSQS.ReceiveMessage",
                                  {"QueueUrl": "q", "MaxNumberOfMessages": 10})[1].get("Messages"):
        found += [message["Body"] for message in messages]
    return sorted(found)


@pytest.fixture
def served(daemon_factory):
    daemon = daemon_factory().start()
    assert daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})[0] == 200
    assert send(daemon, "kept") == 200
    return daemon


def folder_of(daemon):
    return daemon.data / "000000000000"


def assert_ends(daemon, words):
    """It ends by itself, and says why."""
    assert daemon.process.wait(NOTICED_S * PATIENCE + 5) == 1
    text = daemon.error_text()
    daemon.kill9()
    assert words in text and str(folder_of(daemon)) in text, text


def remove_lock(daemon):
    (folder_of(daemon) / "lock").unlink()


def remove(daemon):
    shutil.rmtree(folder_of(daemon))


def rename(daemon):
    folder_of(daemon).rename(daemon.folder / "elsewhere")


def rename_data(daemon):
    daemon.data.rename(daemon.folder / "elsewhere")


def replace(daemon):
    rename(daemon)
    shutil.copytree(daemon.folder / "elsewhere", folder_of(daemon))


SPOILS = [(remove_lock, "lock was removed or replaced"), (remove, "was removed or renamed"),
          (rename, "was removed or renamed"),
          (rename_data, "was removed or renamed"), (replace, "was removed or renamed")]


@pytest.mark.parametrize("spoil, words", SPOILS)
def test_nothing_is_acknowledged_once_the_folder_is_not_the_daemons_any_more(served, spoil, words):
    spoil(served)
    time.sleep(LOOK_S)
    assert send(served, "lost") != 200
    assert_ends(served, words)


@pytest.mark.parametrize("spoil, words", SPOILS)
def test_a_daemon_that_nobody_asks_notices_it_too(served, spoil, words):
    begun = time.monotonic()
    spoil(served)
    assert_ends(served, words)
    assert time.monotonic() - begun < NOTICED_S * PATIENCE


def test_a_folder_that_was_renamed_and_is_put_back_has_what_was_acknowledged(served):
    rename(served)
    time.sleep(LOOK_S)
    assert send(served, "refused") != 200
    assert_ends(served, "was removed or renamed")
    (served.folder / "elsewhere").rename(folder_of(served))
    served.start()
    assert "kept" in bodies(served)
    assert served.stop() == 0


def test_a_second_daemon_is_kept_out_though_the_lock_file_was_removed(served):
    """The first one notices the removal. Until it has ended the second is refused, and never are there two that
    acknowledge."""
    served.call("AmazonSQS.PurgeQueue", {"QueueUrl": "q"})
    port = free_port()
    remove_lock(served)
    second = subprocess.Popen([*WRAPPER, str(BIN / "tallyd"), "--data", str(served.data), "--listen",
                               f"127.0.0.1:{port}"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
    try:
        line = second.stdout.readline()  # empty: refused
        assert send(served, "by the first") != 200
        if line == b"":
            assert second.wait(20 * PATIENCE) == 1
            assert b"belongs to another process" in second.stderr.read()
        else:
            assert served.process.wait(20) == 1
    finally:
        second.kill()
        second.communicate()
        served.kill9()


def test_the_log_goes_on_where_all_is_well(daemon_factory):
    """Snapshots and segments come and go: none of that is taken for a removal."""
    daemon = daemon_factory("--body-max", "64KiB", "--segment-size", "5MiB", "--snapshot-bytes", "1MiB").start()
    assert daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})[0] == 200
    assert send(daemon, "first") == 200
    first = min(folder_of(daemon).glob("*.segment"))
    entries = [{"Id": str(i), "MessageBody": "x" * 6000} for i in range(10)]
    for number in range(3):
        for _ in range(100):
            status, answer = daemon.call("AmazonSQS.SendMessageBatch", {"QueueUrl": "q", "Entries": entries})
            assert status == 200, json.dumps(answer)[:500]
        assert daemon.call("AmazonSQS.PurgeQueue", {"QueueUrl": "q"})[0] == 200, number
    wait_until(lambda: not first.exists(), what="the trimming of the first segment")
    assert daemon.stop() == 0
    assert "removed" not in daemon.error_text()
