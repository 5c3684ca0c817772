"""Celery with kombu's SQS transport, unmodified: a pool of prefork workers; and kombu's own forms of requests."""

import collections
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import types

import pytest
from clients import KEY, SECRET, SecureDaemon, needs_celery, queue_counts
from conftest import PATIENCE, ROOT, clean_environment, wait_until
from pages import blocks_of
from wire import scaled

HERE = pathlib.Path(__file__).resolve().parent
PROCESSES = 4


@pytest.fixture(autouse=True)
def celery_is_there():
    needs_celery()


class Shop:
    """A Celery project: the tasks of celery_tasks.py, its worker, and those who send tasks."""

    def __init__(self, address, folder, queues=None, **environment):
        self.folder = folder
        self.effects = folder / "effects"
        self.effects.mkdir()
        self.environment = clean_environment(
            BROKER=f"sqs://{KEY}:{SECRET}@{address}//",
            QUEUES=json.dumps(queues or {}),
            EFFECTS=str(self.effects),
            PYTHONDONTWRITEBYTECODE="1",
            AWS_CONFIG_FILE=str(folder / "none"),
            AWS_SHARED_CREDENTIALS_FILE=str(folder / "none"),
            **environment,
        )
        self.processes = []

    def _start(self, name, *words):
        with open(self.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen([sys.executable, *words], cwd=HERE, env=self.environment, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def start_worker(self, queues):
        alone = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        pool = ["--pool", "prefork", "--concurrency", str(PROCESSES)]
        return self._start("worker", "-m", "celery", "-A", "celery_tasks", "worker", *pool, "-Q", queues, *alone)

    def start_sender(self, first, count):
        return self._start(f"sender{first}", "celery_tasks.py", str(first), str(count))

    def ran(self):
        """How often each task took effect."""
        lines = [line for path in self.effects.iterdir() for line in path.read_text().splitlines()]
        return collections.Counter(int(line.split()[1]) for line in lines)

    def said(self):
        """The ends of what they said, for when a test fails."""
        return "\n".join(f"{path.name}: {path.read_text()[-2000:]}" for path in self.folder.glob("*.log"))

    def finish(self, process):
        assert process.wait(60 * PATIENCE) == 0, self.said()

    def stop(self, worker):
        """A pool process waits up to 30 s for its parent to take its last results, which a parent that is told to stop
        may not do."""
        time.sleep(1)
        worker.terminate()
        self.finish(worker)

    def kill_all(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()


@pytest.fixture
def start_shop(tmp_path):
    shops = []

    def start(address, queues=None, **environment):
        shops.append(Shop(address, tmp_path, queues, **environment))
        return shops[-1]

    yield start
    for shop in shops:
        shop.kill_all()


def test_no_task_is_lost_when_the_daemon_is_killed(daemon, start_shop):
    """Two senders and a pool are at work when the daemon is killed; it is away for two seconds, and they notice
    nothing."""
    count = scaled(10_000, least=400)
    shop = start_shop(f"127.0.0.1:{daemon.port}")
    worker = shop.start_worker("early,late")
    senders = [shop.start_sender(first, count // 2) for first in (0, count // 2)]
    wait_until(lambda: len(shop.ran()) > count * 0.3, 120, "a third of the tasks")
    daemon.kill9()
    time.sleep(2)
    daemon.start()
    for sender in senders:
        shop.finish(sender)
    wait_until(lambda: len(shop.ran()) == count or worker.poll() is not None, 180, "the last task")
    assert set(shop.ran()) == set(range(count)), shop.said()
    empty = [(0, 0, 0)] * 2
    wait_until(lambda: [queue_counts(daemon, f"shop-{name}") for name in ("early", "late")] == empty, 40,
               "the last delete")
    # A task runs twice where the reply to its send was lost (botocore sends again) or its delete came after its lease.
    twice = sum(1 for times in shop.ran().values() if times > 1)
    print(f"{count} tasks, {twice} of them ran more than once")
    assert twice <= count // 50
    shop.stop(worker)


def test_predefined_queues(daemon, start_shop):
    """The queues are somebody else's, found by their URLs; one of them is a FIFO queue."""
    queues = {}
    for name, attributes in {"early": {}, "late": {}, "line.fifo": {"FifoQueue": "true"}}.items():
        asked = {"QueueName": name, "Attributes": {"VisibilityTimeout": "60", **attributes}}
        queues[name] = daemon.call("AmazonSQS.CreateQueue", asked)[1]["QueueUrl"]
    shop = start_shop(f"localhost:{daemon.port}", queues)
    worker = shop.start_worker("early,late,line.fifo")
    shop.finish(shop.start_sender(0, 120))
    wait_until(lambda: len(shop.ran()) == 120 or worker.poll() is not None, 60, "the last task")
    assert set(shop.ran().values()) == {1}, shop.said()
    wait_until(lambda: [queue_counts(daemon, name) for name in queues] == [(0, 0, 0)] * 3, what="the last delete")
    shop.stop(worker)
    assert daemon.call("AmazonSQS.ListQueues")[1]["QueueUrls"] == sorted(queues.values())


def test_a_task_forwards_a_message_with_ten_attributes_as_it_came(daemon, start_shop):
    here, there = (daemon.call("AmazonSQS.CreateQueue", {"QueueName": name})[1]["QueueUrl"]
                   for name in ["here", "there"])
    ten = {f"a{n}": {"DataType": "String", "StringValue": str(n)} for n in range(9)}
    ten["blob"] = {"DataType": "Binary", "BinaryValue": "AP8="}
    status, sent = daemon.call(
        "AmazonSQS.SendMessage", {"QueueUrl": here, "MessageBody": "a", "MessageAttributes": ten})
    assert status == 200, sent
    shop = start_shop(f"127.0.0.1:{daemon.port}")
    worker = shop.start_worker("early")
    words = ["-m", "celery", "-A", "celery_tasks", "call", "forward", "--queue", "early", "--args",
             json.dumps([1, here, there])]
    shop.finish(shop._start("sender", *words))
    wait_until(lambda: shop.ran() or worker.poll() is not None, 60, "the task")
    assert shop.ran() == {1: 1}, shop.said()
    shop.stop(worker)
    (message,) = daemon.call("AmazonSQS.ReceiveMessage",
                             {"QueueUrl": there, "MessageAttributeNames": ["All"]})[1]["Messages"]
    assert message["MessageAttributes"] == ten
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert queue_counts(daemon, "here") == (0, 0, 0)


def test_over_https_with_credentials(daemon_factory, start_shop, tmp_path):
    """What boto3 signs for Celery, and the presigned requests of kombu; is_secure means HTTPS."""
    secure = SecureDaemon(daemon_factory, tmp_path)
    shop = start_shop(secure.endpoint.split("//")[1], SECURE="1", **secure.environment)
    worker = shop.start_worker("early,late")
    shop.finish(shop.start_sender(1, 60))
    wait_until(lambda: len(shop.ran()) == 60 or worker.poll() is not None, 60, "the last task")
    assert set(shop.ran().values()) == {1}, shop.said()
    shop.stop(worker)
    assert secure.daemon.stop() == 0


def test_q9_the_forms_of_requests_that_kombu_writes_by_itself(daemon):
    """AttributeName without an index, Attribute.Name without one, presigned GETs on the queue's URL, no
    X-Amz-Target."""
    import boto3
    from kombu.asynchronous import Hub, set_event_loop
    from kombu.asynchronous.aws.sqs.connection import AsyncSQSConnection

    keys = {"aws_access_key_id": "any", "aws_secret_access_key": "thing"}
    sqs = boto3.client("sqs", endpoint_url=daemon.endpoint, region_name="us-east-1", **keys)
    if sqs.meta.service_model.metadata["protocol"] != "query":
        pytest.skip("this boto3 and its kombu speak JSON")
    hub = Hub()
    set_event_loop(hub)
    connection = AsyncSQSConnection(sqs_connection=sqs)

    def call(function, *arguments, **more):
        answers = []
        function(*arguments, callback=answers.append, **more)
        wait_until(lambda: answers or hub.run_once(), what=function.__name__)
        return answers[0]

    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    queue = types.SimpleNamespace(id=url, url=url)
    assert call(connection.get_queue_attributes, queue)["Attributes"]["VisibilityTimeout"] == "30"
    timeout = {"Attribute.Name": "VisibilityTimeout", "Attribute.Value": "7"}
    assert call(connection.get_status, "SetQueueAttributes", timeout, url) == 200
    assert call(connection.get_queue_attributes, queue, "VisibilityTimeout")["Attributes"] == {"VisibilityTimeout": "7"}

    text = "a=b&c <ö>\r\n+%"
    digest = hashlib.md5(text.encode()).hexdigest()
    assert call(connection.send_message, queue, text)["MD5OfMessageBody"] == digest
    sent = call(connection.send_message_batch, queue, [("e1", "one", 0), ("e2", "two", 900)])
    assert [entry["Id"] for entry in sent["Successful"]] == ["e1", "e2"]
    taken = call(connection.receive_message, queue, url, 10, wait_time_seconds=5)["Messages"]
    assert [message["Body"] for message in taken] == [text, "one"]
    assert taken[0]["MD5OfBody"] == digest and taken[0]["Attributes"] == {"ApproximateReceiveCount": "1"}
    assert call(connection.change_message_visibility, queue, taken[0]["ReceiptHandle"], 0) == 200
    assert call(connection.delete_message, url, taken[1]["ReceiptHandle"]) == 200
    (again,) = call(connection.receive_message, queue, url, 10)["Messages"]
    entry = types.SimpleNamespace(id="e", receipt_handle=again["ReceiptHandle"])
    assert call(connection.change_message_visibility_batch, queue, [(entry, 60)])["Successful"] == [{"Id": "e"}]
    assert call(connection.delete_message_batch, queue, [entry])["Successful"] == [{"Id": "e"}]
    assert queue_counts(daemon, "q") == (0, 0, 1)


BATCH_OF_TASKS = """
import sys, time
from celery import Celery
from batches import Unit, send

app = Celery("album", broker="sqs://any:thing@ADDRESS//")
app.conf.broker_transport_options = {"region": "us-east-1", "is_secure": False, "visibility_timeout": 4}
app.conf.worker_enable_remote_control = False


def note(what):
    with open("effects", "a") as effects:
        effects.write(f"{what}\\n")


@app.task(base=Unit, bind=True, default_retry_delay=1)
def resize(self, number):
    if number % 10 == 3 and self.request.retries == 0:
        raise self.retry()
    if number % 10 == 7:
        raise ValueError(number)
    time.sleep(0.02)
    note(number)


@app.task
def publish(album):
    note(album)


if __name__ == "__main__":
    send("album", [resize.s(number) for number in range(int(sys.argv[1]))], publish.s("album"), "celery")
"""


def test_the_task_behind_a_batch_is_sent_once_though_workers_are_killed(daemon, tmp_path):
    """The recipe of docs/how-to/celery-batches.md: some tasks fail, some are tried again, and all processes of the
    worker are killed twice. The batch is also sent again while it runs."""
    count = scaled(400, least=60)
    address = f"127.0.0.1:{daemon.port}"
    recipe = dict(blocks_of((ROOT / "docs/how-to/celery-batches.md").read_text()))["python batches.py"]
    (tmp_path / "batches.py").write_text(recipe.replace("127.0.0.1:9324", address))
    (tmp_path / "album.py").write_text(BATCH_OF_TASKS.replace("ADDRESS", address))
    (tmp_path / "effects").touch()
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "celery", "Attributes": {"VisibilityTimeout": "4"}})
    environment = clean_environment(AWS_CONFIG_FILE="/dev/null", PYTHONDONTWRITEBYTECODE="1")

    def send():
        subprocess.run([sys.executable, "album.py", str(count)], cwd=tmp_path, env=environment, check=True,
                       timeout=60 * PATIENCE)

    def effects():
        return (tmp_path / "effects").read_text().split()

    def is_past(share):
        return lambda: len(set(effects())) >= share * count

    def start_worker():
        command = [sys.executable, "-m", "celery", "-A", "album", "worker", "--concurrency", "4", "--without-gossip",
                   "--without-mingle", "--without-heartbeat"]
        return subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    send()
    for share in (0.2, 0.5, None):
        worker = start_worker()
        try:
            wait_until(is_past(share) if share else lambda: "album" in effects(), 120, f"the tasks up to {share}")
            if share is None:
                wait_until(lambda: queue_counts(daemon, "celery") == (0, 0, 0), 60, "the last delete")
        finally:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
        if share == 0.2:
            send()
    done = collections.Counter(effects())
    assert done["album"] == 1
    assert set(done) == {str(number) for number in range(count) if number % 10 != 7} | {"album"}
    batch = daemon.call("Tally.DescribeBatch", {"BatchId": "album"})[1]
    failed = len(range(7, count, 10))
    assert (batch["Total"], batch["Failed"], batch["Succeeded"]) == (count, failed, count - failed)


TASKS_WITHOUT_A_HOOK = """
import time
from celery import Celery
from batches import Unit, send

app = Celery("limits", broker="sqs://any:thing@ADDRESS//")
app.conf.broker_transport_options = {"region": "us-east-1", "is_secure": False, "visibility_timeout": 30}
app.conf.worker_enable_remote_control = False


@app.task(base=Unit, time_limit=1)
def hangs():
    time.sleep(60)


@app.task(base=Unit, soft_time_limit=1)
def is_asked_to_end():
    time.sleep(60)


if __name__ == "__main__":
    send("limits", [hangs.s(), is_asked_to_end.s()], hangs.s(), "after")
"""


def test_a_task_that_its_time_limit_has_ended_is_a_failed_unit(daemon, tmp_path):
    """Its process is killed, so that no hook of the task is called."""
    address = f"127.0.0.1:{daemon.port}"
    recipe = dict(blocks_of((ROOT / "docs/how-to/celery-batches.md").read_text()))["python batches.py"]
    (tmp_path / "batches.py").write_text(recipe.replace("127.0.0.1:9324", address))
    (tmp_path / "limits.py").write_text(TASKS_WITHOUT_A_HOOK.replace("ADDRESS", address))
    for queue in "celery", "after":
        daemon.call("AmazonSQS.CreateQueue", {"QueueName": queue})
    environment = clean_environment(AWS_CONFIG_FILE="/dev/null", PYTHONDONTWRITEBYTECODE="1")
    subprocess.run([sys.executable, "limits.py"], cwd=tmp_path, env=environment, check=True, timeout=60 * PATIENCE)
    command = [sys.executable, "-m", "celery", "-A", "limits", "worker", "--concurrency", "2", "--without-gossip",
               "--without-mingle", "--without-heartbeat"]
    worker = subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: daemon.call("Tally.DescribeBatch", {"BatchId": "limits"})[1]["Remaining"] == 0, 60,
                   "the end of the batch")
        wait_until(lambda: queue_counts(daemon, "celery") == (0, 0, 0), 60, "the last delete")
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    units = daemon.call("Tally.ListUnits", {"BatchId": "limits"})[1]["Units"]
    assert [(unit["State"], unit["Detail"]) for unit in units] == [
        ("failed", "took longer than 1 s"), ("failed", "SoftTimeLimitExceeded()")]
    assert queue_counts(daemon, "after") == (1, 0, 0)
