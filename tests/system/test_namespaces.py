"""Several namespaces on one daemon: those that the credentials name. What is in one is out of sight in the others."""

import contextlib
import fcntl
import pathlib
import re
import threading
import time

import pytest
from conftest import wait_until
from test_auth import call, denied, hang_up, ok, refused_start

FIRST, SECOND = "000000000000", "111111111111"
CREDENTIALS = f"""
ONE  one-secret  {FIRST}   read,write,admin
TWO  two-secret  {SECOND}  read,write,admin
"""
SECRETS = {"ONE": "one-secret", "TWO": "two-secret", "THREE": "three-secret"}


@pytest.fixture
def credentials(credentials, monkeypatch):
    monkeypatch.setattr("test_auth.SECRETS", SECRETS)
    return credentials


@pytest.fixture
def daemon(daemon_factory, credentials):
    running = daemon_factory("--credentials", str(credentials)).start()
    yield running
    assert running.stop() == 0, running.error_text()


def url(namespace):
    return f"http://any.host/{namespace}/jobs"


def bodies(daemon, key, namespace):
    reply = ok(daemon, key, "ReceiveMessage",
               {"QueueUrl": url(namespace), "MaxNumberOfMessages": 10, "VisibilityTimeout": 0})
    return [message["Body"] for message in reply.get("Messages", [])]


def make(daemon):
    for key, namespace in ("ONE", FIRST), ("TWO", SECOND):
        made = ok(daemon, key, "CreateQueue", {"QueueName": "jobs"})["QueueUrl"]
        assert made == f"http://127.0.0.1:{daemon.port}/{namespace}/jobs"
        ok(daemon, key, "SendMessage", {"QueueUrl": made, "MessageBody": f"of {key}"})


def test_queues_of_one_name_are_two_queues(daemon):
    make(daemon)
    assert bodies(daemon, "ONE", FIRST) == ["of ONE"] and bodies(daemon, "TWO", SECOND) == ["of TWO"]
    assert ok(daemon, "TWO", "ListQueues")["QueueUrls"] == [f"http://127.0.0.1:{daemon.port}/{SECOND}/jobs"]
    arn = ok(daemon, "TWO", "GetQueueAttributes", {"QueueUrl": url(SECOND), "AttributeNames": ["QueueArn"]})
    assert arn["Attributes"]["QueueArn"] == f"arn:aws:sqs:us-east-1:{SECOND}:jobs"
    for key, other in ("ONE", SECOND), ("TWO", FIRST):
        denied(daemon, key, "ReceiveMessage", {"QueueUrl": url(other)})
        denied(daemon, key, "DeleteQueue", {"QueueUrl": url(other)})


def test_batches_belong_to_the_callers_namespace(daemon):
    make(daemon)
    for key in "ONE", "TWO":
        ok(daemon, key, "Tally.CreateBatch", {"BatchId": "b", "OnComplete": {"QueueUrl": "jobs"}})
    ok(daemon, "ONE", "Tally.CancelBatch", {"BatchId": "b"})
    states = {key: ok(daemon, key, "Tally.DescribeBatch", {"BatchId": "b"})["State"] for key in ("ONE", "TWO")}
    assert states["ONE"] != states["TWO"]


def test_a_receipt_handle_is_none_elsewhere(daemon):
    make(daemon)
    handle = ok(daemon, "ONE", "ReceiveMessage", {"QueueUrl": url(FIRST)})["Messages"][0]["ReceiptHandle"]
    status, answer = call(daemon, "TWO", "DeleteMessage", {"QueueUrl": url(SECOND), "ReceiptHandle": handle})
    assert status == 404 and answer["__type"].endswith("#ReceiptHandleIsInvalid")


def test_each_keeps_what_it_has_through_kill_9(daemon):
    make(daemon)
    daemon.kill9()
    daemon.start()
    assert bodies(daemon, "ONE", FIRST) == ["of ONE"] and bodies(daemon, "TWO", SECOND) == ["of TWO"]
    text = daemon.request("GET", "/metrics")[2].decode()
    for namespace in FIRST, SECOND:
        assert f'tally_messages{{namespace="{namespace}"}} 1' in text


def test_leases_outlast_a_recovery_that_takes_longer_than_they(daemon):
    """What keeps the start waiting is the lock of the second folder, as a child that a killed owner left keeps it."""
    make(daemon)
    for key, namespace in ("ONE", FIRST), ("TWO", SECOND):
        assert ok(daemon, key, "ReceiveMessage", {"QueueUrl": url(namespace), "VisibilityTimeout": 3})["Messages"]
    daemon.kill9()
    with open(daemon.data / SECOND / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        release = threading.Timer(3.5, fcntl.flock, (lock, fcntl.LOCK_UN))
        release.start()
        daemon.start()
        release.join()
    assert bodies(daemon, "ONE", FIRST) == [] and bodies(daemon, "TWO", SECOND) == []


def waits_for(daemon, lock):
    """Has the daemon opened that file?"""
    with contextlib.suppress(OSError):  # it opens and closes files
        return daemon.process and any(fd.samefile(lock) for fd in pathlib.Path(f"/proc/{daemon.pid}/fd").iterdir())


def test_a_recovery_that_takes_more_than_a_second_says_how_far_it_is(daemon):
    """What makes it take so long is the lock: when it comes to the log, the second is over."""
    make(daemon)
    for i in range(3):
        ok(daemon, "ONE", "SendMessage", {"QueueUrl": url(FIRST), "MessageBody": "b" * 1000000})
    daemon.kill9()
    locked = daemon.data / FIRST / "lock"
    with open(locked) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        starter = threading.Thread(target=daemon.start)
        starter.start()
        wait_until(lambda: waits_for(daemon, locked), what="the wait")
        time.sleep(1.1)
        fcntl.flock(lock, fcntl.LOCK_UN)
        starter.join()
    form = (rf"tallyd recovering {re.escape(str(daemon.data))}/{FIRST}: snapshot of 0 MiB read, "
            rf"log 0 of at most (\d+) MiB\n")
    told = re.fullmatch(form, "".join(daemon.progress[:1]))
    assert told and int(told[1]) >= 2
    assert daemon.ready_line.startswith("tallyd ready on ")


def test_a_new_namespace_wants_a_restart(daemon, credentials):
    third = f"{CREDENTIALS}\nTHREE three-secret 222222222222 admin\n"
    credentials.write_text(third)
    hang_up(daemon, "namespace 222222222222 is new")
    status, answer = call(daemon, "THREE", "ListQueues")
    assert status == 403 and answer["__type"].endswith("#UnrecognizedClientException")
    assert daemon.stop() == 0
    daemon.start()
    ok(daemon, "THREE", "CreateQueue", {"QueueName": "q"})


def test_there_are_64_at_most(daemon_factory, credentials, tmp_path, monkeypatch):
    def write(count):
        credentials.write_text("".join(f"KEY{i} secret-{i} {i:012} read,write,admin\n" for i in range(count)))

    small = ("--body-max", "64KiB", "--segment-size", "5MiB", "--credentials", str(credentials))
    refusal = f"{credentials} has credentials of more than 64 namespaces"
    write(65)
    assert refusal in refused_start("--data", tmp_path / "data", "--listen", "127.0.0.1:0", *small)
    assert not (tmp_path / "data").exists()
    write(64)
    running = daemon_factory(*small).start()
    monkeypatch.setattr("test_auth.SECRETS", {f"KEY{i}": f"secret-{i}" for i in range(65)})
    for i in 0, 63:
        ok(running, f"KEY{i}", "CreateQueue", {"QueueName": "jobs"})
    write(65)
    hang_up(running, refusal)
    assert call(running, "KEY64", "ListQueues")[0] == 403
    assert [len(ok(running, f"KEY{i}", "ListQueues").get("QueueUrls", [])) for i in (0, 1, 63)] == [1, 0, 1]
    assert running.stop() == 0, running.error_text()
