"""A full disk: what grows is refused, what ends goes on, a start is possible, and with room all is as before. On a real
small file system.

tests/campaign/full_disk_campaign.py does and judges most of it; `make campaign-full-disk ROUNDS=20` is the whole of it,
with a million messages that are drained without a free byte.
"""

import json
import os
import random
import re
import sys

import pytest

from conftest import ROOT, Tally, wait_until
from small_disk import Hog, NoMount, free_bytes, small_disk
from wire import Connection, scaled

sys.path.insert(0, str(ROOT / "tests" / "campaign"))

ROUNDS = scaled(6, "FULL_DISK_ROUNDS", least=3)
MESSAGES = scaled(200000, "FULL_DISK_MESSAGES", least=50000)
SEED = int(os.environ.get("KILL_SEED") or random.SystemRandom().randrange(1 << 32))
SQS = "AmazonSQS."


@pytest.fixture
def disk(tmp_path):
    try:
        with small_disk(tmp_path / "disk", 256) as folder:
            yield folder
    except NoMount as error:
        pytest.skip(str(error))


def daemon_on(daemon_factory, folder, *options):
    daemon = daemon_factory(*options)
    daemon.data = folder / "data"
    return daemon


def metric(daemon, name):
    text = daemon.request("GET", "/metrics")[2].decode()
    return int(re.search(rf"^{name}(?:{{[^}}]*}})? (\d+)$", text, re.M)[1])


def test_filled_in_every_way_killed_and_drained_nothing_is_lost_and_nothing_twice(tmp_path):
    from full_disk_campaign import run_campaign

    try:
        counted = run_campaign(
            tmp_path, rounds=ROUNDS, disk=384, messages=scaled(200000, least=20000), million=0, seed=SEED, lease=3
        )
    except NoMount as error:
        pytest.skip(str(error))
    print(counted)
    assert (counted["lost"], counted["twice"], counted["ended_by_itself"]) == (0, 0, 0), counted
    assert counted["rounds"] == ROUNDS and counted["refused_sends"] > 0


def test_a_large_queue_is_drained_while_the_disk_stays_full(tmp_path):
    """A fifth of the campaign's million, on a fifth of its disk, with segments that are as much smaller."""
    from full_disk_campaign import run_campaign

    small = "--segment-size 8MiB --body-max 64KiB"
    try:
        counted = run_campaign(tmp_path, rounds=0, disk=160, messages=0, million=MESSAGES, seed=SEED, daemon=small)
    except NoMount as error:
        pytest.skip(str(error))
    print(counted)
    assert counted["million"] == MESSAGES
    assert (counted["lost"], counted["twice"], counted["ended_by_itself"]) == (0, 0, 0), counted


def test_it_says_that_the_disk_is_full_and_goes_on_by_itself(daemon_factory, disk):
    daemon = daemon_on(daemon_factory, disk).start()
    with Connection(daemon.port) as line:
        url = line.ok(SQS + "CreateQueue", {"QueueName": "q"})["QueueUrl"]
        line.ok(SQS + "SendMessage", {"QueueUrl": url, "MessageBody": "first"})
        assert metric(daemon, "tally_disk_level") == 0 and metric(daemon, "tally_disk_reserve_missing_bytes") == 0
        with Hog(disk) as hog:
            hog.wait_until_full()
            wait_until(lambda: metric(daemon, "tally_disk_level") == 1, what="the daemon looks")
            answer = line.call(SQS + "SendMessage", {"QueueUrl": url, "MessageBody": "second"})
            assert answer.status == 503 and answer.json()["__type"] == "com.tally#DiskIsFull"
            assert re.search(r"has \d+ bytes free, and disk-min-free is \d+", answer.json()["message"])
            assert answer.header("x-amzn-query-error") == "DiskIsFull;Receiver"
            tool = Tally(daemon.endpoint)
            said = tool("send", "q", "third", status=1).err
            assert "disk-min-free is" in said and "Receives and deletes go on" in said, said
            told = json.loads(tool("send", "q", "third", "--json", status=1).err.splitlines()[-1])
            assert "DiskIsFull" in json.dumps(told), told
            handle = line.ok(SQS + "ReceiveMessage", {"QueueUrl": url})["Messages"][0]["ReceiptHandle"]
            line.ok(SQS + "DeleteMessage", {"QueueUrl": url, "ReceiptHandle": handle})
            assert free_bytes(disk) < 1 << 20
        wait_until(lambda: metric(daemon, "tally_disk_level") == 0, what="room is noticed")
        line.ok(SQS + "SendMessage", {"QueueUrl": url, "MessageBody": "third"})
    assert daemon.stop() == 0
    said = re.findall(r"the disk: .* (is short of room|has room again)", daemon.error_text())
    assert said == ["is short of room", "has room again"], daemon.error_text()


def test_a_first_start_on_a_full_disk_says_what_is_missing(daemon_factory, disk):
    daemon = daemon_on(daemon_factory, disk)
    with Hog(disk) as hog:
        hog.wait_until_full()
        with pytest.raises(AssertionError):
            daemon.start()
    assert re.search(r"No space left on device.* make room for \d+ more", daemon.error_text()), daemon.error_text()
    assert "assertion" not in daemon.error_text()
    daemon.start()
    assert daemon.stop() == 0


def test_it_is_started_and_killed_many_times_on_a_full_disk(daemon_factory, disk):
    """Each start writes; none may take what the next one needs."""
    daemon = daemon_on(daemon_factory, disk).start()
    with Connection(daemon.port) as line:
        url = line.ok(SQS + "CreateQueue", {"QueueName": "q"})["QueueUrl"]
        for number in range(100):
            line.ok(SQS + "SendMessage", {"QueueUrl": url, "MessageBody": f"{number} " + "x" * 50000})
    with Hog(disk) as hog:
        hog.wait_until_full()
        for _ in range(scaled(20, least=5)):
            daemon.kill9()
            daemon.start()
        assert metric(daemon, "tally_messages") == 100
        with Connection(daemon.port) as line:
            for _ in range(100):
                handle = line.ok(SQS + "ReceiveMessage", {"QueueUrl": url})["Messages"][0]["ReceiptHandle"]
                line.ok(SQS + "DeleteMessage", {"QueueUrl": url, "ReceiptHandle": handle})
    assert daemon.stop() == 0


def test_an_outsider_who_leaves_too_little_is_seen_with_a_limit_of_its_own(daemon_factory, disk):
    """disk-min-free is a size, off, or auto: a twentieth of a small file system."""
    total = os.statvfs(disk).f_blocks * os.statvfs(disk).f_frsize
    for option, expected in (("auto", total // 20), ("100MiB", 100 << 20), ("off", 0)):
        daemon = daemon_on(daemon_factory, disk, "--disk-min-free", option).start()
        assert metric(daemon, "tally_disk_min_free_bytes") == expected
        assert daemon.stop() == 0
    daemon = daemon_on(daemon_factory, disk, "--disk-min-free", "250MiB").start()
    with Connection(daemon.port) as line:
        answer = line.call(SQS + "CreateQueue", {"QueueName": "q"})
        assert answer.status == 503 and f"disk-min-free is {250 << 20}" in answer.json()["message"]
    assert daemon.stop() == 0
