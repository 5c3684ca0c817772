"""clients/python: the module `tally` against a real daemon, with kills. Its README runs word for word."""

import collections
import contextlib
import importlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import zipfile

import botocore.exceptions
import pytest
from bad_answers import undated
from clients import Guarded, hold_until_visible, mysql_server
from conftest import BIN, IS_BARE, ROOT, Daemon, Tally, clean_environment, wait_until
from http_proxy import HttpProxy

HERE = ROOT / "clients" / "python"
MODEL = json.loads((ROOT / "models/tally/2026-11-30/service-2.json").read_text())

pytestmark = pytest.mark.skipif(not IS_BARE, reason="the client is the same, whatever the server runs in")


def environment(endpoint):
    """PYTHONPATH may name another botocore."""
    return clean_environment(TALLY_ENDPOINT=endpoint, PATH=f"{BIN}:{os.environ['PATH']}", PYTHONDONTWRITEBYTECODE="1",
                             PYTHONPATH=f"{HERE}:{os.environ.get('PYTHONPATH', '')}")


@pytest.fixture(scope="module")
def tally():
    sys.path.insert(0, str(HERE))
    yield importlib.import_module("tally")
    sys.path.remove(str(HERE))


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A daemon for the tests that kill none."""
    daemon = Daemon(tmp_path_factory.mktemp("shared")).start()
    yield daemon
    assert daemon.stop() == 0, daemon.error_text()


@pytest.fixture
def client(tally, running):
    return tally.client(running.endpoint)


@pytest.fixture
def queue(client, request):
    """A queue of the test's own, that retries at once and gives up after three attempts."""
    name = re.sub(r"\W", "-", request.node.name)[:70]
    client.sqs.create_queue(QueueName=f"{name}-dead")
    client.sqs.create_queue(QueueName=name, Attributes={"RedrivePolicy": json.dumps(
        {"deadLetterTargetArn": f"arn:aws:sqs:us-east-1:000000000000:{name}-dead", "maxReceiveCount": "3"})})
    return name


def send(client, queue, *bodies, **more):
    return [client.sqs.send_message(QueueUrl=queue, MessageBody=body, **more)["MessageId"] for body in bodies]


def drain(tally, client, queue, handler, **options):
    tally.Worker(queue, handler, client=client, until_empty=True, **options).run()


def in_background(worker):
    """A worker that runs in a thread; stop() and join() end it."""
    thread = threading.Thread(target=worker.run)
    thread.start()
    return thread


def stop(worker, thread):
    worker.stop()
    thread.join(10)
    assert not thread.is_alive()


# --- the package ------------------------------------------------------------------------------------------------------


def test_each_action_is_a_method(client):
    from botocore import xform_name

    stub = (HERE / "tally" / "_actions.pyi").read_text()
    for action in MODEL["operations"]:
        assert callable(getattr(client, xform_name(action)))
        assert f"def {xform_name(action)}(self" in stub
    assert client.describe_server()["Version"]
    assert not hasattr(client, "create_nothing")


def test_the_types_are_made_from_the_model():
    made = subprocess.run([sys.executable, "-B", HERE / "make_actions.py"], check=True, capture_output=True, text=True)
    assert made.stdout == (HERE / "tally" / "_actions.pyi").read_text()


def test_mypy_finds_nothing_here_and_a_misspelled_member(tmp_path):
    mypy = shutil.which("mypy", path="/usr/bin")
    if not mypy:
        pytest.skip("there is no mypy: apt-get install mypy")
    (tmp_path / "wrong.py").write_text("import tally\ntally.client().seal_batch(Batch='a')\ntally.client().seal()\n")
    command = [mypy, "--config-file", HERE / "pyproject.toml", "--cache-dir", tmp_path / "cache", tmp_path / "wrong.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True,
                          env=clean_environment(MYPYPATH=str(HERE)))
    assert 'Unexpected keyword argument "Batch"' in done.stdout and 'has no attribute "seal"' in done.stdout
    assert [line for line in done.stdout.splitlines() if "error:" in line and not line.startswith("wrong.py")] == []


def test_it_can_be_installed_with_its_model(tmp_path, running):
    pytest.importorskip("wheel")
    shutil.copytree(HERE, tmp_path / "python", ignore=shutil.ignore_patterns("__pycache__"))
    program = "from setuptools import build_meta; print(build_meta.build_wheel('.'))"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path / "python", capture_output=True, text=True)
    wheel = tmp_path / "python" / done.stdout.splitlines()[-1]
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    program = "import tally; print(tally.__file__, tally.client().list_batches()['Batches'])"
    done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True,
                          env={**environment(running.endpoint), "PYTHONPATH": str(tmp_path / "site")})
    assert done.stdout.split(" ", 1) == [f"{tmp_path}/site/tally/__init__.py", "[]\n"], done.stderr
    assert (tmp_path / "site" / "tally" / "py.typed").exists()


@pytest.mark.parametrize("folder", ["python", "python-testing"])
def test_its_version_is_that_of_the_server(folder):
    project = (ROOT / "clients" / folder / "pyproject.toml").read_text()
    (server,) = re.findall(r"^  version: '(.*)'", (ROOT / "meson.build").read_text(), re.MULTILINE)
    assert f'version = "{server}"' in project


def test_the_readme_runs_word_for_word(running, tmp_path):
    text = (HERE / "README.md").read_text()
    examples = re.findall(r"```python\n(.*?)```\n```\n(.*?)```", text, re.DOTALL)
    assert len(examples) == text.count("```python") == 10
    for number, (program, output) in enumerate(examples):
        path = tmp_path / f"example{number}.py"
        path.write_text(program.replace("http://127.0.0.1:9324", running.endpoint))
        done = subprocess.run([sys.executable, path], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                              env=environment(running.endpoint))
        assert (done.returncode, done.stdout) == (0, output), done.stderr


def test_every_public_name_is_documented(tally):
    assert set(tally.__all__) == {name for name in dir(tally) if not name.startswith("_") and name != "annotations"}
    for name in tally.__all__:
        thing = getattr(tally, name)
        members = [value for key, value in vars(thing).items() if not key.startswith("_") and callable(value)
                   ] if isinstance(thing, type) else []
        for each in [thing, *members]:
            assert each.__doc__, each


# --- the client -------------------------------------------------------------------------------------------------------


def test_credentials_and_the_worker_name(tally, daemon_factory, tmp_path, monkeypatch):
    (tmp_path / "credentials").write_text("READER secret 000000000000 read,write,admin\n")
    (tmp_path / "credentials").chmod(0o600)
    daemon = daemon_factory("--credentials", tmp_path / "credentials").start()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    unsigned = tally.client(daemon.endpoint)
    with pytest.raises(unsigned.exceptions.ClientError, match="signed|signature|credential|token"):
        unsigned.list_batches()
    signed = tally.client(daemon.endpoint, access_key="READER", secret_key="secret", name="front")
    signed.sqs.create_queue(QueueName="q")
    send(signed, "q", "m")
    signed.sqs.receive_message(QueueUrl="q")
    (message,) = signed.list_in_flight()["Messages"]
    assert message["Holder"]["Worker"] == "front" and message["Holder"]["AccessKeyId"] == "READER"
    import boto3

    session = boto3.Session(aws_access_key_id="READER", aws_secret_access_key="secret")
    assert tally.client(daemon.endpoint, session=session).list_batches()["Batches"] == []


# --- workers ----------------------------------------------------------------------------------------------------------


def test_what_a_handler_does_decides(tally, client, queue, caplog):
    ids = dict(zip(["good", "bad", "later", "never", "done", "long", "mute"],
                   send(client, queue, "good", "bad", "later", "never", "done", "long", "mute")))
    seen = collections.defaultdict(list)

    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    def handle(message):
        seen[message.body].append((time.monotonic(), message.receive_count, message.failure_reason))
        if message.body == "bad":
            raise ValueError("not now")
        if message.body == "later" and message.receive_count == 1:
            raise tally.Retry("busy", after=2)
        if message.body == "never":
            raise tally.Reject("no use")
        if message.body == "done":
            raise tally.AlreadyDone
        if message.body == "long":
            raise SystemExit("\0\udc80" + "é" * 2000)
        if message.body == "mute":
            raise Mute

    drain(tally, client, queue, handle, concurrency=3, retry_after=0)
    assert [count for _, count, _ in seen["bad"]] == [1, 2, 3] and seen["bad"][1][2] == "ValueError: not now"
    assert seen["later"][1][0] - seen["later"][0][0] >= 1.9 and seen["later"][1][2] == "busy"
    assert len(seen["good"]) == len(seen["done"]) == len(seen["never"]) == 1
    dead = {message["MessageId"]: message["FailureReason"] for message in client.list_messages(
        QueueUrl=f"{queue}-dead", Body="full")["Messages"]}
    long = dead.pop(ids["long"])
    mute = dead.pop(ids["mute"])
    assert mute.endswith(".Mute") and len(seen["mute"]) == 3
    assert dead == {ids["bad"]: "ValueError: not now", ids["never"]: "no use"}
    assert long.startswith("SystemExit: ??éé") and 1022 < len(long.encode()) <= 1024
    assert "ValueError: not now; attempt 1 of 3, next in 0 s" in caplog.text
    assert "no use; attempt 1 was the last, it is in queue" in caplog.text


@pytest.mark.parametrize("level, tracebacks", [("INFO", 1), ("DEBUG", 3)])
def test_a_failing_attempt_is_one_line_and_the_last_says_where(tally, client, queue, caplog, level, tracebacks):
    def fail(message):
        raise ValueError("not now")

    send(client, queue, "m")
    with caplog.at_level(level, logger="tally.worker"):
        drain(tally, client, queue, fail, retry_after=0)
    assert len(caplog.records) == 3 and caplog.text.count("Traceback") == tracebacks
    assert caplog.records[-1].exc_info and "attempt 3 was the last" in caplog.records[-1].getMessage()


@pytest.mark.parametrize("of_queue, attempts", [(None, 25), (2, 2), (27, 27)])
def test_the_redrive_policy_says_how_often_and_without_one_it_is_25(tally, client, queue, of_queue, attempts):
    policy = {"deadLetterTargetArn": f"arn:aws:sqs:us-east-1:000000000000:{queue}-dead", "maxReceiveCount": of_queue}
    client.sqs.set_queue_attributes(
        QueueUrl=queue, Attributes={"RedrivePolicy": json.dumps(policy) if of_queue else ""})
    tries = []

    def fail(message):
        tries.append(message.receive_count)
        raise ValueError

    send(client, queue, "m")
    drain(tally, client, queue, fail, retry_after=0)
    assert tries == [*range(1, attempts + 1)]


def test_options_say_when_a_message_is_given_up_and_where_it_goes(tally, client, queue):
    client.sqs.create_queue(QueueName=f"{queue}-elsewhere")
    (sent,) = send(client, queue, "m")
    tries = []

    def handle(message):
        tries.append(message.receive_count)
        raise ValueError

    drain(tally, client, queue, handle, retry_after=0, max_attempts=2, dead_letter=f"{queue}-elsewhere")
    assert tries == [1, 2]
    (dead,) = client.list_messages(QueueUrl=f"{queue}-elsewhere")["Messages"]
    assert dead["MessageId"] == sent


def test_a_dead_letter_is_not_given_up(tally, client, queue):
    send(client, queue, "m")
    tries = []

    def fail(message):
        tries.append(message.receive_count)
        if len(tries) < 30:
            raise ValueError

    drain(tally, client, queue, fail, retry_after=0)
    drain(tally, client, f"{queue}-dead", fail, retry_after=0)
    assert len(tries) == 30


def test_a_heartbeat_keeps_a_message_and_its_loss_is_told(tally, client, caplog):
    queue = "kept.fifo"  # there an old handle does nothing
    client.sqs.create_queue(QueueName=queue, Attributes={"FifoQueue": "true"})
    (sent,) = send(client, queue, "m", MessageGroupId="g", MessageDeduplicationId="m")
    told = []

    def handle(message):
        if message.receive_count > 1:
            return
        time.sleep(1.5)
        told.append(message.is_held)
        client.release_message(MessageId=sent)
        wait_until(lambda: message.is_lost, 10)
        message.check()

    drain(tally, client, queue, handle, visibility=1)
    assert told == [True]
    assert caplog.text.count("its lease is lost") == 1
    assert caplog.text.count("the lease is over, so another worker may have it") == 1
    assert client.explain_message(QueueUrl=queue, MessageId=sent)["Why"][0]["Outcome"] == "succeeded"


def test_a_message_that_comes_again_is_lost_to_its_earlier_handler(tally, client, queue):
    (sent,) = send(client, queue, "m")
    told = []

    def handle(message):
        if message.receive_count > 1:
            wait_until(lambda: told, 10)
            return
        client.release_message(MessageId=sent)
        wait_until(lambda: message.is_lost, 10)
        told.append(message.is_held)

    drain(tally, client, queue, handle, visibility=1, concurrency=2)
    assert told == [False]


def test_a_lease_that_was_over_stays_over(tally):
    message = tally.Message("q", {"MessageId": "m"}, 0.001)
    time.sleep(0.01)
    message.renew(time.monotonic(), 30)
    assert not message.is_held


def test_a_group_is_handled_in_order_at_any_concurrency(tally, client):
    client.sqs.create_queue(QueueName="order.fifo", Attributes={"FifoQueue": "true"})
    groups = [f"g{number % 4}" for number in range(40)]
    for number, group in enumerate(groups):
        send(client, "order.fifo", str(number), MessageGroupId=group, MessageDeduplicationId=str(number))
    busy, most, orders = set(), [0], collections.defaultdict(list)

    def handle(message):
        assert message.group_id not in busy
        busy.add(message.group_id)
        most[0] = max(most[0], len(busy))
        time.sleep(0.01)
        busy.remove(message.group_id)
        if message.body == "8" and message.receive_count == 1:
            raise ValueError("its group waits for it")
        orders[message.group_id].append(int(message.body))

    drain(tally, client, "order.fifo", handle, concurrency=8, retry_after=1)
    assert sorted(sum(orders.values(), [])) == list(range(40))
    assert all(numbers == sorted(numbers) for numbers in orders.values()) and most[0] > 1


def test_a_stop_lets_handlers_finish_and_begins_none(tally, client, queue):
    send(client, queue, "first", "second")
    begun, ended = [], []

    def handle(message):
        begun.append(message.body)
        worker.stop()
        time.sleep(0.5)
        ended.append(message.body)

    worker = tally.Worker(queue, handle, client=client)
    worker.run()
    assert begun == ended == ["first"]
    time.sleep(0.2)
    counts = client.list_queue_stats(QueueNamePrefix=queue)["Queues"][0]
    assert (counts["Visible"], counts["InFlight"]) == (1, 0)


def test_what_comes_after_a_stop_is_given_back(tally, client, queue):
    worker = tally.Worker(queue, pytest.fail, client=client)
    thread = in_background(worker)
    wait_until(lambda: client.list_queue_stats(QueueNamePrefix=queue)["Queues"][0]["WaitingReceives"] == 1)
    began = time.monotonic()
    stop(worker, thread)
    assert time.monotonic() - began < 5
    (sent,) = send(client, queue, "m")  # the receive that still waits gets it
    wait_until(lambda: client.get_message(MessageId=sent)["ReceiveCount"] == 1)
    wait_until(lambda: client.get_message(MessageId=sent)["State"] == "ready", 10)


def test_a_grace_that_is_over_leaves_the_message(tally, client, queue, caplog):
    send(client, queue, "m")
    told = []

    def handle(message):
        worker.stop()
        wait_until(lambda: not message.is_held, 10)
        told.append(message.is_lost)

    worker = tally.Worker(queue, handle, client=client, grace=0.2, visibility=20)
    worker.run()
    wait_until(lambda: told == [True], 5)
    assert "its handler did not end in time" in caplog.text


@pytest.mark.parametrize("signals, words", [(1, "begun\nended\n"), (2, "begun\n")])
def test_signals_stop_a_worker(client, queue, running, signals, words):
    program = ("import sys, time, tally\ndef handle(message):\n    print('begun', flush=True)\n    time.sleep(2)\n"
               f"    print('ended', flush=True)\ntally.Worker({queue!r}, handle, visibility=20).run()")
    send(client, queue, "m")
    process = subprocess.Popen([sys.executable, "-c", program], env=environment(running.endpoint), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    first = process.stdout.readline()
    for number in [signal.SIGTERM, signal.SIGINT][:signals]:
        process.send_signal(number)
        time.sleep(0.3)
    out, err = process.communicate(timeout=10)
    assert (process.returncode, first + out) == (0, words), err
    assert ("did not end in time" in err) == (signals == 2)


def test_a_worker_that_stood_still_leaves_the_message_to_who_has_it(tally, client, queue, running):
    (sent,) = send(client, queue, "m")
    program = ("import sys, tally\ndef handle(message):\n    print('begun', flush=True)\n    sys.stdin.readline()\n"
               f"    print(message.is_held, flush=True)\n    raise ValueError\n"
               f"tally.Worker({queue!r}, handle, visibility=1).run()")
    process = subprocess.Popen([sys.executable, "-c", program], env=environment(running.endpoint), text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGSTOP)
    (message,) = client.sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20, VisibilityTimeout=60)["Messages"]
    process.send_signal(signal.SIGCONT)
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "False\n"
    process.send_signal(signal.SIGTERM)
    # A heartbeat that comes too late says so, or the failure of a handler that was quicker.
    assert "its lease is lost, so another worker may have it" in process.communicate(timeout=10)[1]
    lease = client.explain_message(MessageId=sent)["Why"][0]
    assert lease["Code"] == "InFlight" and lease["Until"].timestamp() - lease["Since"].timestamp() > 55
    client.sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])


def test_a_worker_waits_for_a_server_that_is_away(tally, daemon, caplog):
    client = tally.client(daemon.endpoint)
    client.sqs.create_queue(QueueName="q")
    done = []
    worker = tally.Worker("q", lambda message: done.append(message.body), client=client)
    thread = in_background(worker)
    send(client, "q", "1")
    wait_until(lambda: done == ["1"])
    daemon.kill9()
    time.sleep(0.5)
    daemon.start()
    send(client, "q", "2")
    wait_until(lambda: done == ["1", "2"])
    stop(worker, thread)
    assert caplog.text.count("trying again until it works") == caplog.text.count("the server answers again") == 1


def test_a_reply_that_is_torn_is_asked_for_again(tally, daemon, http_proxy, caplog):
    """A server that is killed may tear one. Half an object of JSON must not pass for an empty reply."""
    client, seen = tally.client(daemon.endpoint), []
    client.sqs.create_queue(QueueName="q")
    send(client, "q", "a body that is a secret")
    for action in "GetQueueAttributes", "ReceiveMessage", "ChangeMessageVisibilityBatch", "DeleteMessage":
        http_proxy.tear(f"AmazonSQS.{action}")
    http_proxy.tear("Tally.FailMessage")

    def handle(message):
        seen.append(message.receive_count)
        if len(seen) == 1:
            time.sleep(1.2)
            raise ValueError("not now")

    through = tally.client(http_proxy.endpoint)
    worker = tally.Worker("q", handle, client=through, visibility=3, retry_after=0)
    thread = in_background(worker)
    try:
        wait_until(lambda: len(seen) == 2 and client.list_queue_stats()["Queues"][0]["InFlight"] == 0, 30)
    finally:
        stop(worker, thread)
    assert http_proxy.to_tear == set() and seen == [2, 3]
    assert "trying again until it works" in caplog.text and "secret" not in caplog.text
    assert "ValueError: not now; attempt 2 of 25" in caplog.text


def test_a_heartbeat_without_a_reply_does_not_hold_up_the_end(tally, daemon, http_proxy):
    client, is_over = tally.client(daemon.endpoint), threading.Event()
    client.sqs.create_queue(QueueName="q")
    send(client, "q", "m")
    http_proxy.keep("AmazonSQS.ChangeMessageVisibilityBatch")
    worker = tally.Worker("q", lambda message: is_over.wait(60), client=tally.client(http_proxy.endpoint),
                          visibility=15, grace=0.1)
    thread = in_background(worker)
    wait_until(lambda: http_proxy.kept == 1, 20)
    worker.stop()
    thread.join(2)
    assert not thread.is_alive()
    is_over.set()


@contextlib.contextmanager
def at_work(worker):
    thread = in_background(worker)
    try:
        yield
    finally:
        stop(worker, thread)


@pytest.fixture
def guarded(daemon_factory, tmp_path):
    return Guarded(daemon_factory, tmp_path)


def keyed(tally, guarded, secret="secret"):
    return tally.client(guarded.endpoint, access_key="FRONT", secret_key=secret)


@pytest.mark.parametrize("seconds, way", [(3600, "behind"), (-3600, "ahead of")])
def test_a_clock_that_is_off_is_told_and_ends_no_worker(tally, guarded, caplog, seconds, way):
    client, seen = keyed(tally, guarded), []
    client.sqs.create_queue(QueueName="q")
    guarded.set_clock(seconds)
    worker = tally.Worker("q", lambda message: seen.append(message.body), client=client)
    with at_work(worker):
        wait_until(lambda: "trying again" in caplog.text, 20)
        guarded.set_clock(0)
        send(client, "q", "m")
        wait_until(lambda: seen == ["m"], 20)
    said = f"the clock here is 60 minutes {way} that of the server, which allows 15: set it right"
    assert [record.getMessage() for record in caplog.records] == [
        f"{said}; trying again until it works", "the server answers again"]


def test_a_clock_that_is_off_by_nobody_knows_how_much(tally, guarded, caplog):
    keyed(tally, guarded).sqs.create_queue(QueueName="q")
    guarded.set_clock(3600)
    with contextlib.closing(HttpProxy(guarded.daemon.port)) as proxy:
        proxy.spoil(undated, 1, "AmazonSQS.GetQueueAttributes")
        worker = tally.Worker("q", pytest.fail, client=tally.client(proxy.endpoint, access_key="FRONT",
                                                                    secret_key="secret"))
        with at_work(worker):
            wait_until(lambda: "trying again" in caplog.text, 20)
    assert "the clock here differs from that of the server: Signature expired: 20" in caplog.text


def test_a_handler_outlives_a_clock_that_is_off(tally, guarded, caplog):
    """Its message stays in its hands, as long as the lease lasts, and is deleted when the clock is right again."""
    client, seen = keyed(tally, guarded), []
    client.sqs.create_queue(QueueName="q")
    send(client, "q", "m")

    def handle(message):
        guarded.set_clock(3600)
        wait_until(lambda: "60 minutes behind" in caplog.text, 20)
        seen.append(message.is_held)

    with at_work(tally.Worker("q", handle, client=client, visibility=6)):
        wait_until(lambda: seen == [True], 20)
        time.sleep(0.5)
        guarded.set_clock(0)
        wait_until(lambda: client.list_queue_stats()["Queues"][0]["InFlight"] == 0, 20)
    assert "the server answers again" in caplog.text and "comes back" not in caplog.text


@pytest.mark.parametrize("seconds", [0, 600])
def test_a_wrong_secret_ends_a_worker(tally, guarded, seconds):
    keyed(tally, guarded).sqs.create_queue(QueueName="q")
    guarded.set_clock(seconds)
    with pytest.raises(botocore.exceptions.ClientError, match="SignatureDoesNotMatch"):
        tally.Worker("q", pytest.fail, client=keyed(tally, guarded, "guess")).run()


def test_until_empty_waits_for_a_message_whose_receive_got_no_answer(tally, daemon, http_proxy):
    client, through, seen = tally.client(daemon.endpoint), tally.client(http_proxy.endpoint), []
    client.sqs.create_queue(QueueName="q")
    send(client, "q", "m")
    http_proxy.lose("AmazonSQS.ReceiveMessage")
    drain(tally, through, "q", lambda message: seen.append(message.receive_count), visibility=3)
    assert seen == [2]
    http_proxy.lose("AmazonSQS.ReceiveMessage")
    began = time.monotonic()
    drain(tally, through, "q", pytest.fail, visibility=60)
    assert time.monotonic() - began < 20  # nothing is in flight
    send(client, "q", "m")
    client.sqs.receive_message(QueueUrl="q", VisibilityTimeout=60)
    drain(tally, through, "q", pytest.fail, visibility=60)
    http_proxy.lose("AmazonSQS.ReceiveMessage")
    began = time.monotonic()
    drain(tally, through, "q", pytest.fail, visibility=3)  # what another one has
    assert 3 < time.monotonic() - began < 20


def test_until_empty_takes_a_lost_message_whose_lease_has_just_ended(tally, daemon, http_proxy):
    client, seen = tally.client(daemon.endpoint), []
    client.sqs.create_queue(QueueName="q")
    send(client, "q", "m")
    http_proxy.lose("AmazonSQS.ReceiveMessage")
    http_proxy.watch = hold_until_visible(daemon, "q")
    drain(tally, tally.client(http_proxy.endpoint), "q", lambda message: seen.append(message.body), visibility=3)
    assert seen == ["m"]


def test_until_empty_waits_for_a_message_that_the_worker_let_go(tally, daemon, http_proxy):
    """The server prolonged the lease, and the answer got lost."""
    client, seen = tally.client(daemon.endpoint), []
    client.sqs.create_queue(QueueName="q")
    send(client, "q", "m", "n")

    def handle(message):
        seen.append((message.body, message.receive_count))
        if message.receive_count > 1:
            return
        http_proxy.lose("AmazonSQS.ChangeMessageVisibilityBatch", 100)
        wait_until(lambda: not message.is_held, 20)
        if message.body == "m":
            message.check()
        message.is_lost = True
        raise ValueError

    drain(tally, tally.client(http_proxy.endpoint), "q", handle, visibility=3)
    assert sorted(seen) == [("m", 1), ("m", 2), ("n", 1), ("n", 2)]


@pytest.mark.parametrize("queue", ["q", "q.fifo"])
def test_until_empty_waits_for_a_failed_message_whose_failure_got_no_answer(tally, daemon, http_proxy, queue):
    client, seen = tally.client(daemon.endpoint), []
    is_fifo = queue.endswith(".fifo")
    client.sqs.create_queue(QueueName=queue, Attributes={"FifoQueue": "true"} if is_fifo else {})
    send(client, queue, "m", **(dict(MessageGroupId="g", MessageDeduplicationId="m") if is_fifo else {}))
    http_proxy.lose("Tally.FailMessage")

    def handle(message):
        seen.append(message.receive_count)
        if message.receive_count == 1:
            raise tally.Retry("busy", after=3)

    drain(tally, tally.client(http_proxy.endpoint), queue, handle, visibility=1)
    assert seen == [1, 2] and http_proxy.lost == {"Tally.FailMessage": 0}


def test_until_empty_does_not_wait_for_a_failed_message_that_another_worker_has(tally, client, queue):
    send(client, queue, "m")

    def handle(message):
        client.sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=message.receipt_handle, VisibilityTimeout=0)
        assert client.sqs.receive_message(QueueUrl=queue, VisibilityTimeout=300)["Messages"]
        raise ValueError

    began = time.monotonic()
    drain(tally, client, queue, handle)
    assert time.monotonic() - began < 20


def test_a_queue_that_delivers_at_most_once(tally, client, queue, caplog):
    client.sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Tally.DeliveryMode": "at-most-once"})
    send(client, queue, "m")

    def handle(message):
        raise ValueError("lost")

    drain(tally, client, queue, handle, visibility=1)
    assert "ValueError: lost; its queue delivers at most once" in caplog.text
    assert client.list_queue_stats(QueueNamePrefix=f"{queue}-dead")["Queues"][0]["Visible"] == 0


def test_a_worker_says_what_is_wrong(tally, client):
    for options, words in [({"concurrency": 0}, "concurrency must be 1 to 1000, not 0"),
                           ({"visibility": 43201}, "visibility must be 1 to 43200, not 43201"),
                           ({"retry_after": -1}, "retry_after must be 0 to 43200, not -1"),
                           ({"max_attempts": -1}, "max_attempts must be 0 to 1000, not -1"),
                           ({"dead_letter": ""}, "dead_letter must name a queue")]:
        with pytest.raises(ValueError, match=words):
            tally.Worker("q", print, client=client, **options)
    with pytest.raises(TypeError, match="handler must be a function, not NoneType"):
        tally.Worker("q", None, client=client)
    with pytest.raises(ValueError, match="after must be 0 to 43200, not -1"):
        tally.Retry(after=-1)
    assert tally.Retry(after=0.2).after == 1
    worker = tally.Worker("nowhere", print, client=client)
    with pytest.raises(client.exceptions.ClientError, match="nowhere"):
        worker.run()
    with pytest.raises(RuntimeError, match="make another Worker"):
        worker.run()


def test_a_handler_that_did_not_run_does_not_pass_for_done(tally, client, queue):
    """An async function that is called does nothing yet, nor does one with `yield`."""
    async def handle(message):
        pass

    def lazily(message):
        yield

    async def both(message):
        yield

    for handler in handle, lazily, both:
        with pytest.raises(TypeError, match="an ordinary function"):
            tally.Worker(queue, handler, client=client)
        (sent,) = send(client, queue, "m")
        drain(tally, client, queue, lambda message: handler(message), max_attempts=1)
        dead = client.get_message(MessageId=sent)
        assert dead["DeadLetterQueueSource"].endswith(queue) and "which did not run" in dead["FailureReason"]


# --- batches ----------------------------------------------------------------------------------------------------------


def test_a_batch_counts_what_is_sent_and_ends_with_its_last(tally, client, queue):
    success = {"QueueUrl": f"{queue}-dead", "MessageBody": "all"}
    with tally.batch(client, on_complete=f"{queue}-dead", on_success=success, expires_after=60) as batch:
        first = batch.send(queue, "one", attributes={"size": 7, "raw": b"\0", "name": "a"})
        sent = batch.send_all(queue, [*map(str, range(11)), "x" * 600_000, "y" * 600_000])
        assert batch.add("external") == 1
        assert client.describe_batch(BatchId=batch.id)["State"] == "open"
    assert len({first, *sent}) == 14
    client.complete_units(BatchId=batch.id, Units=[{"Unit": "external"}])
    seen, busy, most = {}, [], []

    def handle(message):
        busy.append(message)
        time.sleep(0.05)
        most.append(len(busy))
        busy.remove(message)
        seen[message.id] = message

    drain(tally, client, queue, handle, concurrency=4)
    assert 1 < max(most) <= 4
    assert list(seen[first].attributes.items() & {("size", "7"), ("raw", b"\0"), ("name", "a")}) and len(seen) == 14
    assert [len(seen[name].body) for name in sent[:1] + sent[-2:]] == [1, 600_000, 600_000]
    bodies = []
    drain(tally, client, f"{queue}-dead", lambda message: bodies.append(message.body))
    assert "all" in bodies and len(bodies) == 2
    told = json.loads(next(body for body in bodies if body != "all"))
    assert (told["status"], told["total"]) == ("succeeded", 15)


def test_an_exception_cancels_a_batch(tally, client, queue):
    with pytest.raises(KeyError), tally.batch(client, on_complete=queue) as batch:
        batch.send(queue, "never delivered")
        raise KeyError
    assert client.describe_batch(BatchId=batch.id)["Status"] == "cancelled"
    seen = []
    drain(tally, client, queue, lambda message: seen.append(json.loads(message.body)["status"]))
    assert seen == ["cancelled"]


def test_a_batch_with_an_id_can_be_sent_again(tally, client, queue):
    """The program was killed, or runs twice. What the first run sent is not harmed, and is there once."""
    def order(*pages, dedup="{}".format):
        with tally.batch(client, queue, on_complete=f"{queue}-dead") as batch:
            return batch.send_all(queue, pages, dedup=dedup)

    def unreadable():
        yield from ["1", "2"]
        raise OSError("no page 3")

    with pytest.raises(OSError) as caught:
        with tally.batch(client, queue, on_complete=f"{queue}-dead") as batch:
            for page in unreadable():
                batch.send(queue, page, dedup=page)
    assert f"The batch {queue} is left as it is." in caught.value.__notes__[0]
    assert client.describe_batch(BatchId=queue)["State"] == "open"
    assert order("1", "2", "3") == order("1", "2", "3")
    with pytest.raises(client.exceptions.BatchSealed):
        order("1", "2", "3", dedup=None)
    with pytest.raises(client.exceptions.BatchSealed), tally.batch(client, queue, on_complete=f"{queue}-dead") as batch:
        batch.send(queue, "4")
    told = client.describe_batch(BatchId=queue)
    assert (told["State"], told["Total"], told["Remaining"]) == ("sealed", 3, 3)
    seen = []
    drain(tally, client, queue, lambda message: seen.append(message.body))
    assert sorted(seen) == ["1", "2", "3"] and order("1", "2", "3")
    assert client.describe_batch(BatchId=queue)["Status"] == "succeeded"


def test_external_units_can_be_added_again_when_an_earlier_run_has_sealed_the_batch(tally, client, queue):
    def order(*keys, **more):
        with tally.batch(client, f"{queue}-{len(more)}", **more) as batch:
            batch.send(queue, "m", dedup=batch.id)
            with tally.batch(client, f"{queue}-child-{len(more)}", parent=batch.id):
                return [batch.add(), batch.add(*keys), *map(batch.add, keys)]

    many = [f"page-{number}" for number in range(1500)]  # more than one page of ListUnits
    for more in {}, {"total": 1502}:
        batch_id = f"{queue}-{len(more)}"
        with pytest.raises(KeyError), tally.batch(client, batch_id, **more) as batch:
            batch.add(*many[:700])
            raise KeyError  # a run that was killed
        assert order(*many, **more)[:2] == [0, 800]
        assert order(*many, **more) == [0] * 1502
        sent = [unit["Unit"] for unit in client.list_units(BatchId=batch_id)["Units"] if "MessageId" in unit]
        for unknown in "page-1500", f"{queue}-child-{len(more)}", *sent:
            with pytest.raises(client.exceptions.BatchSealed) as caught:
                order("page-0", unknown, **more)
            (note,) = caught.value.__notes__
            assert note.startswith(f"Not in the batch {batch_id}: 1 of these units, the first is '{unknown}'.")
        assert client.describe_batch(BatchId=batch_id)["Total"] == 1502


def test_an_answer_that_is_lost_with_the_last_units_is_no_error(tally, daemon, http_proxy):
    client = tally.client(http_proxy.endpoint)
    http_proxy.lose("Tally.AddUnits")  # botocore repeats it
    with tally.batch(client, "b", total=2) as batch:
        assert batch.add("a", "b") == 0
    assert client.describe_batch(BatchId="b")["State"] == "sealed"


def test_a_missing_id_does_not_pass_for_one_that_was_left_out(tally, client, queue):
    with tally.batch(client, queue) as batch:
        for made in None, "", 0:
            with pytest.raises(ValueError, match=f"returned {made!r} for the body 'page 1': it must return a text"):
                batch.send_all(queue, ["page 1"], dedup=lambda page: made)
        with pytest.raises(ValueError, match="dedup must not be empty"):
            batch.send(queue, "page 1", dedup="")
    assert client.describe_batch(BatchId=queue)["Total"] == 0
    with pytest.raises(botocore.exceptions.ParamValidationError, match="BatchId"), tally.batch(client, ""):
        pass


def test_a_batch_that_is_forgotten_before_its_block_ends_is_no_error_if_it_sealed_itself(tally, client, queue):
    def is_forgotten():
        try:
            return not client.describe_batch(BatchId=queue)
        except client.exceptions.BatchDoesNotExist:
            return True

    for total in 1, None:
        with contextlib.ExitStack() as stack:
            if total is None:
                stack.enter_context(pytest.raises(client.exceptions.BatchDoesNotExist))
            with tally.batch(client, queue, total=total, retention=0) as batch:
                batch.add("a")
                client.complete_units(BatchId=queue, Units=[{"Unit": "a"}])
                if total is None:
                    client.cancel_batch(BatchId=queue)
                wait_until(is_forgotten)


def test_a_batch_that_could_not_be_sealed_is_named(tally, daemon, http_proxy):
    client = tally.client(http_proxy.endpoint)
    http_proxy.refuse["Tally.SealBatch"] = "AccessDenied"
    with pytest.raises(client.exceptions.ClientError, match="AccessDenied") as caught, tally.batch(client) as batch:
        batch.add("a")
    assert f"tally batch seal {batch.id}" in caught.value.__notes__[0]


def test_the_units_that_failed_are_listed_with_their_reasons(tally, client, queue):
    with tally.batch(client, on_complete=f"{queue}-dead") as batch:
        ids = [batch.send(queue, body, attributes={"page": n}) for n, body in enumerate(["good", "bad", "worse"])]
        batch.add("scan", "ink")
        child = tally.batch(client, f"{queue}-child", parent=batch.id)
        with child as parts:
            parts.add("part")
    client.complete_units(BatchId=batch.id, Units=[{"Unit": "scan", "Status": "failed", "Detail": "no paper"},
                                                   {"Unit": "ink", "Status": "failed"}])
    client.complete_units(BatchId=f"{queue}-child", Units=[{"Unit": "part", "Status": "failed"}])

    def handle(message):
        if message.body != "good":
            raise tally.Reject(f"{message.body} file")

    drain(tally, client, queue, handle)
    client.delete_messages(QueueUrl=f"{queue}-dead", MessageIds=[ids[2]])
    wait_until(lambda: client.get_message(MessageId=ids[2])["State"] in ("ended", "unknown"), 10)
    found = list(tally.failed_units(client, batch.id))
    assert [(unit.key, unit.message_id, unit.body, unit.reason) for unit in found] == [
        (ids[1], ids[1], "bad", "bad file"), (ids[2], ids[2], None, None),
        ("scan", None, None, "no paper"), ("ink", None, None, None), (f"{queue}-child", None, None, None)]
    assert found[0].attributes["page"] == "1"
    with pytest.raises(client.exceptions.BatchDoesNotExist):
        next(tally.failed_units(client, "nothing"))


def test_the_last_attempt_of_a_killed_worker_ends_its_unit_with_the_next_receive(tally, client, queue):
    with tally.batch(client) as batch:
        batch.send(queue, "a good page")
    for _ in range(3):  # workers that say nothing any more
        wait_until(lambda: client.sqs.receive_message(QueueUrl=queue, VisibilityTimeout=1).get("Messages"), 10)
    time.sleep(1.2)
    assert client.describe_batch(BatchId=batch.id)["State"] == "sealed"
    assert "Messages" not in client.sqs.receive_message(QueueUrl=queue)
    assert client.describe_batch(BatchId=batch.id)["Status"] == "failed"
    assert [unit.reason for unit in tally.failed_units(client, batch.id)] == [None]


def test_the_reason_of_a_failed_unit_is_that_of_the_newest_attempt_that_gave_one(tally, client, queue):
    with tally.batch(client) as batch:
        batch.send(queue, "a page")
    for reason in ["no paper", "no ink", None]:  # None: it is killed
        taken = []
        wait_until(lambda: taken.extend(client.sqs.receive_message(
            QueueUrl=queue, VisibilityTimeout=1 if reason is None else 60).get("Messages", [])) or taken, 10)
        if reason:
            client.fail_message(QueueUrl=queue, ReceiptHandle=taken[0]["ReceiptHandle"], Reason=reason,
                                RetryAfterSeconds=0)
    time.sleep(1.2)
    client.sqs.receive_message(QueueUrl=queue)
    assert [unit.reason for unit in tally.failed_units(client, batch.id)] == ["no ink"]


def test_a_refused_message_of_a_batch_is_told(tally, client):
    client.sqs.create_queue(QueueName="small", Attributes={"MaximumMessageSize": "1024"})
    with pytest.raises(client.exceptions.ClientError, match="shorter than 1024 bytes"), tally.batch(client) as batch:
        batch.send_all("small", ["a", "x" * 2000])
    with pytest.raises(client.exceptions.BatchAlreadyExists), tally.batch(client, batch.id, total=3):
        pass


def test_an_answer_that_is_lost_adds_one_unit(tally, client, queue):
    """botocore repeats a request that got no answer."""
    lost = []

    def lose(request_dict, response, **_):
        if response and not lost:
            lost.append(response[0].status_code)
            return 0  # again, at once

    client.sqs.meta.events.register_first("needs-retry.sqs", lose)
    with tally.batch(client) as batch:
        batch.send(queue, "m")
    assert lost == [200] and client.describe_batch(BatchId=batch.id)["Total"] == 1


# --- once -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def schemas(running):
    tool = Tally(running.endpoint)
    return {kind: tool("relay", "schema", "--type", kind).out for kind in ["sqlite", "postgres"]}


@pytest.fixture(scope="module")
def mysql_effects():
    """The same in MariaDB."""
    with mysql_server() as server:
        from outbox_mysql import MysqlOutbox

        outbox = MysqlOutbox(server)
        outbox.ask("DROP TABLE effect")
        outbox.ask("CREATE TABLE effect (n int)")
        yield outbox


@pytest.fixture(scope="module")
def effects(server):
    """A database of PostgreSQL with the inbox and a table `effect`."""
    from outbox import Outbox

    outbox = Outbox(server)
    outbox.sql("CREATE TABLE effect (n int)")
    return outbox


OF_MYSQL = ("pymysql", "MySQLdb")


def connect_to_mysql(driver, outbox):
    from mysql_server import PASSWORD, USER

    return driver.connect(host="127.0.0.1", port=outbox.server.port, user=USER, password=PASSWORD,
                          database=outbox.name, charset="utf8mb4")


@pytest.fixture(params=["sqlite3", "psycopg2", "psycopg", *OF_MYSQL])
def connect(request, schemas, tmp_path):
    """Makes connections to a database with an empty inbox and an empty table `effect`."""
    driver = pytest.importorskip(request.param)
    if driver is sqlite3:
        with sqlite3.connect(tmp_path / "shop.db") as db:
            db.executescript(schemas["sqlite"] + "CREATE TABLE effect (n int)")
        return lambda: sqlite3.connect(tmp_path / "shop.db", timeout=20, check_same_thread=False)
    connections = []
    is_mysql = request.param in OF_MYSQL
    effects = request.getfixturevalue("mysql_effects" if is_mysql else "effects")
    if is_mysql:
        effects.ask("TRUNCATE tally_inbox")
        effects.ask("TRUNCATE effect")
    else:
        effects.sql("TRUNCATE tally.inbox, effect")

    def make():
        connections.append(connect_to_mysql(driver, effects) if is_mysql else driver.connect(effects.uri))
        return connections[-1]

    request.addfinalizer(lambda: [connection.close() for connection in connections])
    return make


@contextlib.contextmanager
def transaction(connection):
    """As `with connection`, which closes it in psycopg 3."""
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


def affect(connection, tally, message, **more):
    with transaction(connection):
        tally.once(connection, message, **more)
        connection.cursor().execute("INSERT INTO effect VALUES (1)")


def count(connection):
    cursor = connection.cursor()
    cursor.execute("SELECT count(*) FROM effect")
    return cursor.fetchone()[0]


def test_an_effect_happens_once(tally, connect):
    connection = connect()
    plain = {"MessageId": "m-2"}
    relayed = {"MessageId": "m-3", "MessageAttributes": {"Tally.OutboxId": {"StringValue": "uid"}}}
    for message in "m-1", plain, relayed, tally.Message("q", {"MessageId": "m-4"}):
        affect(connection, tally, message)
        with pytest.raises(tally.AlreadyDone, match="is committed"):
            affect(connection, tally, message)
    with pytest.raises(tally.AlreadyDone):
        affect(connection, tally, "uid")
    affect(connection, tally, "m-1", consumer="another")
    with pytest.raises(ZeroDivisionError), transaction(connection):
        tally.once(connection, "m-5")
        raise ZeroDivisionError
    affect(connection, tally, "m-5")
    assert count(connection) == 6


def test_a_delivery_that_is_tried_again_without_a_rollback_is_not_done(tally, connect):
    """A worker would delete its message for an AlreadyDone, and the connection's end would undo the effect."""
    connection = connect()
    for message in "m-1", {"MessageId": "m-2", "ReceiptHandle": "r-2"}:
        tally.once(connection, message)
        connection.cursor().execute("INSERT INTO effect VALUES (1)")
        for _ in range(2):
            with pytest.raises(RuntimeError, match="Roll back before you try again"):
                tally.once(connection, message)
        connection.rollback()
        affect(connection, tally, message)
        with pytest.raises(tally.AlreadyDone):
            affect(connection, tally, message)
    assert count(connection) == 2
    connection.rollback()
    one, other = ({"MessageId": name, "MessageAttributes": {"Tally.OutboxId": {"StringValue": "uid"}}} for name in "ab")
    tally.once(connection, one)
    with pytest.raises(tally.AlreadyDone):
        tally.once(connection, other)
    connection.rollback()


def test_once_takes_a_connection_whose_rows_are_dicts(tally, connect):
    connection = connect()
    driver = type(connection).__module__.split(".")[0]
    if driver == "psycopg2":
        connection.cursor_factory = importlib.import_module("psycopg2.extras").RealDictCursor
    elif driver in OF_MYSQL:
        connection.cursorclass = importlib.import_module(f"{driver}.cursors").SSDictCursor  # and they come one by one
    else:
        is_lite = isinstance(connection, sqlite3.Connection)
        connection.row_factory = sqlite3.Row if is_lite else importlib.import_module("psycopg.rows").dict_row
    affect(connection, tally, "m")
    with pytest.raises(tally.AlreadyDone):
        affect(connection, tally, "m")


def test_two_who_act_at_once_act_once(tally, connect):
    one, outcomes = connect(), []

    def act():
        other = connect()
        try:
            outcomes.append(affect(other, tally, "m"))
        except tally.AlreadyDone:
            outcomes.append("done")

    thread = threading.Thread(target=act)
    with transaction(one):
        tally.once(one, "m")
        one.cursor().execute("INSERT INTO effect VALUES (1)")
        thread.start()
        time.sleep(0.3)
        assert outcomes == []
    thread.join(20)
    assert outcomes == ["done"] and count(one) == 1


def test_once_asks_for_a_transaction(tally, connect):
    connection = connect()
    if isinstance(connection, sqlite3.Connection):
        connection.isolation_level = None
    elif type(connection).__module__.startswith(OF_MYSQL):
        connection.autocommit(True)
    else:
        connection.autocommit = True
    with pytest.raises(ValueError, match="needs a transaction"):
        tally.once(connection, "m")
    connection.cursor().execute("BEGIN")
    tally.once(connection, "m")
    connection.cursor().execute("ROLLBACK")
    for wrong, error in [({"schema": "a; b"}, ValueError), ({"schema": ""}, ValueError)]:
        with pytest.raises(error, match="schema must be a name"):
            tally.once(connection, "m", **wrong)
    with pytest.raises(TypeError, match="not object"):
        tally.once(object(), "m")


def skip_without_marks(connection):
    if type(connection).__module__.split(".")[0] in OF_MYSQL:
        pytest.skip("in MySQL two threads in one transaction are not found out")


def in_thread(act, *arguments):
    """Begins act(*arguments). Gives the thread and a list: what it raised, or None, once it has ended."""
    ended = []

    def run():
        try:
            act(*arguments)
            ended.append(None)
        except Exception as error:  # noqa: BLE001
            ended.append(error)

    thread = threading.Thread(target=run, name="another")
    thread.start()
    return thread, ended


@pytest.mark.parametrize("is_done_before", [False, True])
def test_two_threads_in_one_transaction_are_told_and_do_no_harm(tally, connect, is_done_before):
    skip_without_marks(connect())
    shared, expected = connect(), 2
    if is_done_before:
        affect(shared, tally, "m-1")
        expected = 1
    try:
        tally.once(shared, "m-1")
        shared.cursor().execute("INSERT INTO effect VALUES (1)")
    except tally.AlreadyDone:
        assert is_done_before
    thread, ended = in_thread(affect, shared, tally, "m-2")
    time.sleep(0.3)
    assert ended == []  # its rollback would undo what stands in the middle of ours
    if is_done_before:
        shared.rollback()
    else:
        shared.cursor().execute("INSERT INTO effect VALUES (2)")
        shared.commit()
    thread.join(20)
    assert isinstance(ended[0], RuntimeError)
    assert "'MainThread' was in the transaction of message m-1 when 'another' called once()" in str(ended[0])
    with pytest.raises(RuntimeError, match="two threads use this connection"):
        affect(shared, tally, "m-3")
    own = connect()
    assert count(own) == expected
    own.rollback()
    for message in "m-2", "m-3":
        affect(own, tally, message)
    with pytest.raises(tally.AlreadyDone):
        affect(own, tally, "m-1")


def test_a_second_message_of_the_transaction_does_not_wait_for_who_waits(tally, connect):
    skip_without_marks(connect())
    shared = connect()
    tally.once(shared, "m-1")
    thread, ended = in_thread(affect, shared, tally, "m-2")
    time.sleep(0.3)
    with pytest.raises(RuntimeError, match="two threads"), transaction(shared):
        tally.once(shared, "m-3")
    thread.join(20)
    assert isinstance(ended[0], RuntimeError) and count(connect()) == 0


def test_threads_may_use_a_connection_one_after_the_other(tally, connect):
    shared = connect()

    def act(message):
        """A transaction that begins before once()."""
        shared.cursor().execute("INSERT INTO effect VALUES (0)")
        affect(shared, tally, message)

    act("m-0")
    for number in range(1, 5):
        thread, ended = in_thread(act, f"m-{number}")
        thread.join(20)
        assert ended == [None]
        act(f"again-{number}")
    assert count(connect()) == 18


def test_a_transaction_that_its_thread_left_open_is_told(tally, connect):
    skip_without_marks(connect())
    shared = connect()
    thread, ended = in_thread(tally.once, shared, "m-1")
    thread.join(20)
    assert ended == [None]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="still in the transaction of message m-1, whose thread has ended"):
            tally.once(shared, "m-2")
    shared.rollback()
    for message in "m-2", "m-1":
        affect(shared, tally, message)
    assert count(connect()) == 2


def test_what_once_knows_of_connections_is_bounded(tally, connect, monkeypatch):
    inbox = importlib.import_module("tally._inbox")
    monkeypatch.setattr(inbox, "USES_MAX", 3)
    monkeypatch.setattr(inbox, "_uses", {})
    connections = [connect() for _ in range(5)]
    for number, connection in enumerate(connections):
        affect(connection, tally, f"m-{number}")
    assert list(inbox._uses) == [id(connection) for connection in connections[2:]]


def test_once_refuses_an_async_connection(tally):
    psycopg = pytest.importorskip("psycopg")
    with pytest.raises(TypeError, match="not AsyncConnection"):
        tally.once(object.__new__(psycopg.AsyncConnection), "m")


# --- matchers ---------------------------------------------------------------------------------------------------------


def make_pool(client, name, **more):
    client.sqs.create_queue(QueueName=name)
    client.create_pool(PoolName=name, ResultQueueUrl=name, Attributes={"n": "num"}, Matcher="external", **more)


def offer(client, pool, numbers):
    client.offer_tickets(PoolName=pool, Tickets=[
        {"TicketId": f"t{number}", "Attributes": {"n": number}} for number in numbers])


def pairs(tickets):
    tickets = list(tickets)
    while len(tickets) > 1:
        yield tickets.pop(0), tickets.pop(0)


def test_a_matcher_proposes_what_is_found(tally, client):
    make_pool(client, "found")
    matcher = tally.Matcher("found", pairs, client=client)
    offer(client, "found", range(301))
    assert matcher.match(0) == 150
    assert client.describe_pool(PoolName="found")["Tickets"]["Waiting"] == 1
    assert matcher.match(0) == 0
    offer(client, "found", [301])
    assert tally.Matcher("found", lambda tickets: [[], *pairs(tickets)], client=client).match(0) == 1


def test_a_matcher_that_is_behind_looks_again(tally, client):
    make_pool(client, "behind")
    offer(client, "behind", range(4))
    is_first = [True]

    def find(tickets):
        if is_first.pop() if is_first else False:
            client.cancel_tickets(PoolName="behind", TicketIds=["t1"])
            client.update_ticket(PoolName="behind", TicketId="t2", Attributes={"n": 7})
        return pairs(tickets)

    matcher = tally.Matcher("behind", find, client=client)
    assert matcher.match(0) == 1
    assert client.get_ticket(PoolName="behind", TicketId="t0")["Status"] == "matched"
    pool = client.describe_pool(PoolName="behind")
    assert (pool["Tickets"]["Waiting"], pool["Conflicts"] + pool["Stale"] > 0) == (1, True)


def test_a_proposal_that_breaks_the_rules_is_made_once(tally, client, caplog):
    make_pool(client, "rules", Verify=True, Rules=[{"type": "equal", "attr": "n"}])
    offer(client, "rules", range(2))
    matcher = tally.Matcher("rules", pairs, client=client)
    assert matcher.match(0) == matcher.match(0) == 0
    assert caplog.text.count("a proposal is invalid") == 1
    client.offer_tickets(PoolName="rules", Tickets=[{"TicketId": "same", "Attributes": {"n": 0}}])
    assert tally.Matcher("rules", lambda tickets: [[tickets[0], tickets[2]]] if len(tickets) > 2 else [],
                         client=client).match(0) == 1


def test_a_full_result_queue_is_tried_again_later(tally, client):
    make_pool(client, "full", ResultsMax=1)
    offer(client, "full", range(4))
    matcher = tally.Matcher("full", pairs, client=client)
    assert (matcher.match(0), matcher.match(0)) == (1, 0)
    drain(tally, client, "full", lambda message: None)
    assert matcher.match(0) == 1


def test_matchers_say_what_is_wrong(tally, client):
    for part, parts in [(1, 1), (-1, 2), (0, 65)]:
        with pytest.raises(ValueError, match="part must be 0 to parts - 1"):
            tally.Matcher("p", pairs, client=client, part=part, parts=parts)
    with pytest.raises(client.exceptions.PoolDoesNotExist):
        tally.Matcher("nowhere", pairs, client=client).run()


# --- kills ------------------------------------------------------------------------------------------------------------


class Programs:
    """Some processes of an example, which are killed and started again."""

    def __init__(self, daemon, *command):
        self.command, self.environment, self.processes = command, environment(daemon.endpoint), []

    def start(self, *words):
        command = [sys.executable, "-B", HERE / "examples" / self.command[0], *self.command[1:], *words]
        self.processes.append(subprocess.Popen(command, env=self.environment, stderr=subprocess.DEVNULL))

    def kill9(self):
        process = self.processes.pop(0)
        process.kill()
        process.wait()

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        return [process.wait(30) for process in self.processes]


def test_each_payment_is_booked_once_though_worker_and_daemon_are_killed(tally, daemon, schemas, tmp_path):
    database = tmp_path / "shop.db"
    with sqlite3.connect(database) as db:
        db.executescript(schemas["sqlite"] + "CREATE TABLE payment (account TEXT, amount INTEGER)")
        db.execute("PRAGMA journal_mode = WAL")

    def booked():
        return sqlite3.connect(database).execute("SELECT count(*), count(DISTINCT account) FROM payment").fetchone()

    book_while_killing(tally, daemon, booked, Programs(daemon, "worker.py", "payments", database))


@pytest.mark.parametrize("driver", OF_MYSQL)
def test_each_payment_is_booked_once_in_mysql_though_its_server_is_killed_besides(tally, daemon, tmp_path, driver):
    from mysql_server import PASSWORD, USER

    pytest.importorskip(driver)
    (tmp_path / "worker.py").write_text(f"""
import {driver}, sys, tally

def book(message):
    if len(message.body.split()) != 2:
        raise tally.Reject("no payment")  # but the end of the batch
    db = {driver}.connect(host="127.0.0.1", port=int(sys.argv[1]), user={USER!r}, password={PASSWORD!r},
                          database=sys.argv[2])
    try:
        tally.once(db, message)
        db.cursor().execute("INSERT INTO payment VALUES (%s, %s)", message.body.split())
        db.commit()
    finally:
        db.close()

tally.Worker("payments", book, concurrency=4, visibility=5).run()
""")
    with mysql_server() as server:
        from outbox_mysql import MysqlOutbox

        outbox = MysqlOutbox(server)
        outbox.ask("CREATE TABLE payment (account TEXT, amount INT)")

        def kill_server():
            server.kill9()
            server.start()

        def booked():
            return outbox.ask("SELECT count(*), count(DISTINCT account) FROM payment")[0]

        workers = Programs(daemon, tmp_path / "worker.py", str(server.port), outbox.name)
        book_while_killing(tally, daemon, booked, workers, kill_server)


def book_while_killing(tally, daemon, booked, workers, kill_more=lambda: None):
    """`booked` says how many payments there are, and of how many accounts."""
    client = tally.client(daemon.endpoint)
    client.sqs.create_queue(QueueName="payments")
    for _ in range(2):
        workers.start()
    chance, total = random.Random(29), 200
    with tally.batch(client, on_complete="payments") as batch:
        for number in range(0, total, 50):
            batch.send_all("payments", [f"account-{each} {each}" for each in range(number, number + 50)])
            wait_until(lambda: booked()[0] > number // 2)
            (workers if number % 100 else daemon).kill9()
            time.sleep(chance.random() / 5)
            workers.start() if number % 100 else daemon.start()
            kill_more()
    wait_until(lambda: client.describe_batch(BatchId=batch.id).get("Status"), 60)
    assert booked() == (total, total)
    assert client.describe_batch(BatchId=batch.id)["Succeeded"] == total
    assert workers.stop() == [0, 0]
    assert client.list_in_flight()["Messages"] == []


def test_each_ticket_is_matched_once_though_matcher_and_daemon_are_killed(tally, daemon):
    client = tally.client(daemon.endpoint)
    client.sqs.create_queue(QueueName="games")
    client.create_pool(PoolName="games", ResultQueueUrl="games", Attributes={"rating": "num"}, Matcher="external")
    matchers = Programs(daemon, "matcher.py", "games")
    for part in "0", "1":
        matchers.start(part, "2")
    for round in range(2):
        client.offer_tickets(PoolName="games", Tickets=[
            {"TicketId": f"{round}-{number}", "Attributes": {"rating": number}} for number in range(100)])
        wait_until(lambda: client.describe_pool(PoolName="games")["Tickets"]["Matched"] > 100 * round)
        (matchers if round % 2 else daemon).kill9()
        matchers.start("0", "2") if round % 2 else daemon.start()
    wait_until(lambda: client.describe_pool(PoolName="games")["Tickets"]["Waiting"] == 0, 60)
    matched = []
    drain(tally, client, "games", lambda message: matched.extend(
        member["ticket"] for member in json.loads(message.body)["members"]), concurrency=4)
    assert len(matched) == len(set(matched)) == 200
    assert matchers.stop() == [-signal.SIGTERM] * 2


def test_the_example_of_a_batch_reports_once(running):
    done = subprocess.run([sys.executable, "-B", HERE / "examples" / "batch.py", "40"], capture_output=True, text=True,
                          env=environment(running.endpoint), timeout=60)
    assert done.stdout == "succeeded: 40 of 40, the sum of their squares is 20540\n", done.stderr
