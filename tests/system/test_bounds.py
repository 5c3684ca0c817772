"""What bounds the memory of the daemon: memory-max, as clients, relays and a restart meet it, and that nothing of what
comes and goes stays behind. tests/unit/api_memory_test.c asks the same of each kind of thing by itself, more
exactly."""

import contextlib
import os
import re
import threading
import time

import pytest
from botocore.config import Config
from conftest import IS_BARE, PATIENCE, status_bytes, wait_until
from disk import BrokenDisk
from outbox_sqlite import SqliteOutbox
from pools import Pool, ticket
from queues import count_messages, make_queue
from relay import Relay, check_once, drain
from test_http import metric
from test_sdk_boto3 import code_of, session  # noqa: F401
from wire import Connection, request_bytes

LIMIT = 1 << 20

own_memory_only = pytest.mark.skipif(not IS_BARE, reason="a tool's memory is among it")


@pytest.fixture
def full(daemon_factory):
    """A daemon at its limit, with messages in "q" that come in tens."""
    daemon = daemon_factory("--memory-max", str(LIMIT)).start()
    make_queue(daemon, "q")
    make_queue(daemon, "r")
    fill(daemon)
    yield daemon
    assert daemon.stop() == 0, daemon.error_text()


def ten(body="x"):
    return [{"Id": str(i), "MessageBody": body} for i in range(10)]


def fill(daemon):
    with Connection(daemon.port) as connection:
        while ((answer := connection.call("AmazonSQS.SendMessageBatch", {"QueueUrl": "q", "Entries": ten()})).status
               == 200):
            pass
        assert answer.status == 503
        assert answer.json()["__type"] == "com.tally#MemoryIsFull"
        assert f"memory-max is {LIMIT}" in answer.json()["message"]
        assert answer.header("x-amzn-query-error") == "MemoryIsFull;Receiver"


def work_off(daemon, count, queue="q"):
    """Receives and deletes up to `count` messages, in tens; returns how many."""
    ended = 0
    with Connection(daemon.port) as connection:
        while ended < count:
            taken = connection.call("AmazonSQS.ReceiveMessage", {"QueueUrl": queue, "MaxNumberOfMessages": 10})
            messages = taken.json().get("Messages", [])
            if not messages:
                break
            entries = [{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(messages)]
            gone = connection.call("AmazonSQS.DeleteMessageBatch", {"QueueUrl": queue, "Entries": entries})
            assert gone.status == 200 and len(gone.json()["Successful"]) == len(messages)
            ended += len(messages)
    return ended


def anonymous_bytes(daemon):
    text = (wait_until(lambda: open(f"/proc/{daemon.pid}/smaps_rollup").read())).splitlines()
    return 1024 * int(next(line for line in text if line.startswith("Anonymous:")).split()[1])


# --- at the limit ----------------------------------------------------------------------------------------------------


def test_an_sdk_repeats_a_send_that_was_refused_until_there_is_room(full, session):  # noqa: F811
    assert LIMIT <= metric(full, "tally_memory_bytes") < LIMIT * 1.2
    assert metric(full, "tally_memory_limit_bytes") == LIMIT
    once = session.client("sqs", endpoint_url=full.endpoint, config=Config(retries={"total_max_attempts": 1}))
    patient = session.client(
        "sqs", endpoint_url=full.endpoint, config=Config(retries={"mode": "standard", "total_max_attempts": 6})
    )
    url = once.get_queue_url(QueueName="q")["QueueUrl"]
    assert once.create_queue(QueueName="q")["QueueUrl"] == url
    code, status = code_of(once.send_message, QueueUrl=url, MessageBody="refused")
    assert code.endswith("MemoryIsFull") and status == 503

    refused = 'tally_calls_total{action="AmazonSQS.SendMessage",result="error"}'
    before = metric(full, refused)

    def make_room():
        wait_until(lambda: metric(full, refused) > before)
        work_off(full, 2000)

    worker = threading.Thread(target=make_room)
    worker.start()
    assert patient.send_message(QueueUrl=url, MessageBody="taken after all")["MessageId"]
    worker.join()
    assert metric(full, "tally_memory_bytes") < LIMIT


def test_receives_deletes_and_leases_go_on_at_the_limit(full):
    with Connection(full.port) as connection:
        taken = (
            connection.call("AmazonSQS.ReceiveMessage", {"QueueUrl": "q", "MaxNumberOfMessages": 2}).json()["Messages"])
        handle = {"QueueUrl": "q", "ReceiptHandle": taken[0]["ReceiptHandle"]}
        changed = connection.call("AmazonSQS.ChangeMessageVisibility", {**handle, "VisibilityTimeout": 60})
        assert changed.status == 200
        assert connection.call("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": "x"}).status == 503
        assert connection.call("AmazonSQS.DeleteMessage", handle).status == 200
    waiting = metric(full, "tally_messages")
    assert work_off(full, waiting) == waiting - 1  # one is in hand
    fill(full)


def test_a_daemon_killed_at_the_limit_starts_again_and_says_that_it_is_above(full):
    count = metric(full, "tally_messages")
    full.kill9()
    full.options[full.options.index(str(LIMIT))] = str(LIMIT // 2)
    full.start()
    assert metric(full, "tally_messages") == count
    line = re.search(r"tallyd: what the log holds takes (\d+) bytes of memory, and memory-max \(.*\) is (\d+)",
                     full.error_text())
    assert line and int(line[1]) > int(line[2]) == LIMIT // 2
    status, error = full.call("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": "x"})
    assert status == 503 and error["__type"] == "com.tally#MemoryIsFull"
    assert work_off(full, count) == count
    assert full.call("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": "x"})[0] == 200


@pytest.mark.parametrize("queue", ["r", ""])
def test_rows_of_an_outbox_wait_in_their_source_and_are_not_parked(full, tmp_path, request, queue):
    outbox = SqliteOutbox(tmp_path / "app.db")
    relay = Relay(full.endpoint, outbox.source, "queue:r", "--lease", 1).start()
    request.addfinalizer(relay.kill9)
    relay.wait_for("active")
    outbox.send(["a", "b", "c"], queue)
    asked = 'tally_calls_total{action="Tally.Publish",result="ok"}'
    wait_until(lambda: metric(full, asked) > 1)
    # What the application has worked off is deleted meanwhile.
    waiting = metric(full, "tally_messages")
    _, taken = full.call("AmazonSQS.ReceiveMessage", {"QueueUrl": "q"})
    outbox.ask("INSERT INTO tally_outbox(kind, body) VALUES (1, ?)", taken["Messages"][0]["ReceiptHandle"])
    wait_until(lambda: metric(full, "tally_messages") == waiting - 1)
    wait_until(lambda: outbox.count() == 3)
    assert outbox.count("tally_dead") == 0
    work_off(full, metric(full, "tally_messages"))
    check_once(drain(full, "r", 3), ["a", "b", "c"])
    outbox.wait_until_empty()
    assert outbox.count("tally_dead") == 0


def test_the_limit_is_half_of_the_memory_there_is_unless_something_else_is_said(daemon_factory):
    machine = 1024 * int(re.search(r"MemTotal:\s+(\d+) kB", open("/proc/meminfo").read())[1])
    for options, low, high in [
        ((), 1 << 20, machine // 2),  # less in a container
        (("--memory-max", "1%"), 1 << 16, machine // 100),
        (("--memory-max", "3GiB"), 3 << 30, 3 << 30),
        (("--memory-max", "off"), 0, 0),
    ]:
        daemon = daemon_factory(*options).start()
        assert low <= metric(daemon, "tally_memory_limit_bytes") <= high
        assert daemon.stop() == 0


def test_requests_and_replies_may_take_an_eighth_of_the_memory_there_is_but_a_gibibyte_at_most(daemon_factory):
    daemon = daemon_factory("--memory-max", "100%").start()
    share = min(1 << 30, metric(daemon, "tally_memory_limit_bytes") // 8)
    for kind in ("input", "reply"):
        assert 0.999 * share < metric(daemon, f"tally_http_{kind}_limit_bytes") <= 1.001 * share
    assert daemon.stop() == 0
    daemon = daemon_factory("--input-memory-max", "3MiB", "--reply-memory-max", "2GiB").start()
    assert metric(daemon, "tally_http_input_limit_bytes") == 3 << 20
    assert metric(daemon, "tally_http_reply_limit_bytes") == 2 << 30
    assert daemon.stop() == 0


def test_bodies_do_not_count(daemon_factory):
    """A backlog of a hundred times the limit is taken, outlives a kill, and is served from the disk."""
    daemon = daemon_factory("--memory-max", "256KiB").start()
    make_queue(daemon, "q")
    body = "b" * 100 * 1024
    with Connection(daemon.port) as connection:
        for i in range(256):
            sent = connection.call("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": f"{i} {body}"})
            assert sent.status == 200, sent.json()
    assert metric(daemon, "tally_memory_bytes") < 256 * 1024
    daemon.kill9()
    daemon.start()
    seen = []
    with Connection(daemon.port) as connection:
        while taken := connection.call(
            "AmazonSQS.ReceiveMessage", {"QueueUrl": "q", "MaxNumberOfMessages": 10}
        ).json().get("Messages"):
            assert all(message["Body"].endswith(body) for message in taken)
            seen += [int(message["Body"].split()[0]) for message in taken]
    assert sorted(seen) == list(range(256))
    assert daemon.stop() == 0


def drop_from_cache(daemon):
    """What nobody has touched since the daemon mapped it has to be read from the disk again."""
    for path in daemon.data.rglob("*.segment"):
        with open(path, "rb") as segment:
            os.fdatasync(segment.fileno())
            os.posix_fadvise(segment.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@own_memory_only
def test_bodies_take_no_memory_of_the_process(daemon_factory):
    """A hundred times a megabyte, sent, and read back from the disk: it never has more than a few of them."""
    daemon = daemon_factory("--memory-max", "256KiB").start()
    make_queue(daemon, "q")

    def body(number):
        return f"{number} " + chr(ord("a") + number % 26) * 1000000

    def send(connection, number):
        assert connection.call("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": body(number)}).status == 200

    def receive(connection, _):
        seen.append(connection.call("AmazonSQS.ReceiveMessage", {"QueueUrl": "q"}).json()["Messages"][0]["Body"])

    def growth(act):
        """What the process has more, at most, while it is done to a hundred messages, than behind the first of them."""
        sizes = []
        with Connection(daemon.port) as connection:
            for number in range(100):
                act(connection, number)
                sizes.append(status_bytes(daemon, "RssAnon"))
        return max(sizes) - sizes[0]

    assert growth(send) < 16 << 20
    daemon.kill9()
    daemon.start()
    drop_from_cache(daemon)
    seen = []
    assert growth(receive) < 16 << 20
    assert sorted(seen) == sorted(body(number) for number in range(100))
    assert daemon.stop() == 0


def test_a_disk_that_stands_still_makes_requests_wait_and_not_the_memory_grow(daemon_factory):
    """240 MB are sent while nothing can be written; 64 MiB of it are taken, and when the disk goes on, the rest."""
    mebibyte, clients, each = 1 << 20, 8, 30
    daemon = daemon_factory()
    disk = BrokenDisk(daemon, "pwrite", FAIL_HANGS=1)
    make_queue(daemon, "q")
    before = anonymous_bytes(daemon)
    request = request_bytes("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": "x" * (1000 * 1000)})
    statuses = []

    def send():
        with Connection(daemon.port) as line:
            writer = threading.Thread(target=lambda: [line.write(request) for _ in range(each)])
            writer.start()
            statuses.extend(line.answer().status for _ in range(each))
            writer.join()

    disk.breaks()
    senders = [threading.Thread(target=send) for _ in range(clients)]
    for sender in senders:
        sender.start()
    wait_until(lambda: metric(daemon, "tally_log_waiting_bytes") >= 64 * mebibyte, what="as many frames as may wait")
    time.sleep(1)
    assert metric(daemon, "tally_log_waiting_bytes") < 72 * mebibyte  # and a frame
    if IS_BARE:
        assert anonymous_bytes(daemon) - before < 160 * mebibyte  # with what has been read of the next requests
    assert daemon.request("GET", "/health")[0] == 200 and not statuses
    disk.mends()
    for sender in senders:
        sender.join()
    assert statuses == [200] * (clients * each) and count_messages(daemon, "q") == clients * each
    wait_until(lambda: metric(daemon, "tally_log_waiting_bytes") == 0, what="the memory of the last frame")
    assert daemon.stop() == 0, daemon.error_text()


def test_what_is_due_is_done_though_clients_keep_a_slow_disk_busy(daemon_factory):
    """90 of them, each with a send of 1 MB under way, are more than may wait for the disk; a receive's time ends all
    the same."""
    daemon = daemon_factory()
    disk = BrokenDisk(daemon, "pwrite", FAIL_SLOW_MS=4)
    make_queue(daemon, "q")
    make_queue(daemon, "empty")
    request = request_bytes("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": "x" * (1000 * 1000)})
    is_over = threading.Event()
    statuses = set()

    def send():
        with Connection(daemon.port) as line:
            while not is_over.is_set():
                line.write(request)
                statuses.add(line.answer().status)

    disk.breaks()
    senders = [threading.Thread(target=send) for _ in range(90)]
    for sender in senders:
        sender.start()
    wait_until(lambda: metric(daemon, "tally_log_waiting_bytes") >= 60 << 20, what="a disk that is behind")
    began = time.monotonic()
    for _ in range(2):  # a reply waits for what was written before it, some seconds
        assert daemon.call("AmazonSQS.ReceiveMessage", {"QueueUrl": "empty", "WaitTimeSeconds": 1}) == (200, {})
    took = time.monotonic() - began
    is_over.set()
    disk.mends()
    for sender in senders:
        sender.join()
    assert statuses == {200} and took < 30 * PATIENCE
    assert daemon.stop() == 0, daemon.error_text()


@own_memory_only
def test_the_count_is_what_the_process_grows_by(daemon):
    """Within 15 %: 20,000 messages, each with a group and an id of its own, and 20,000 tickets."""
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
    pool = {"PoolName": "p", "ResultQueueUrl": "q", "Matcher": "external", "Attributes": {"mode": "str", "mmr": "num"}}
    assert daemon.call("Tally.CreatePool", {**pool, "Rules": [{"type": "near", "attr": "mmr", "max": 0}]})[0] == 200

    def add(first, count):
        with Connection(daemon.port) as connection:
            for i in range(first, first + count, 10):
                entries = [
                    {**entry, "MessageGroupId": f"group-{i + k}", "MessageDeduplicationId": f"id-{i + k}"}
                    for k, entry in enumerate(ten())
                ]
                sent = connection.call("AmazonSQS.SendMessageBatch", {"QueueUrl": "q", "Entries": entries})
                assert sent.status == 200
            for i in range(first, first + count, 100):
                tickets = [{"TicketId": f"t{k}", "Attributes": {"mode": "x", "mmr": k}} for k in range(i, i + 100)]
                assert connection.call("Tally.OfferTickets", {"PoolName": "p", "Tickets": tickets}).status == 200

    add(0, 1000)  # what requests need in passing is there from now on
    before, counted = anonymous_bytes(daemon), metric(daemon, "tally_memory_bytes")
    add(1000, 20000)
    grown, counted = anonymous_bytes(daemon) - before, metric(daemon, "tally_memory_bytes") - counted
    assert 0.85 < counted / grown < 1.15, (counted, grown)


@own_memory_only
def test_a_restart_needs_no_memory_for_its_snapshot_beside_what_it_makes_of_it(daemon_factory):
    """What the daemon has read of the snapshot goes back to the system; tickets, because they have their bodies in
    it."""
    daemon = daemon_factory("--snapshot-bytes", "4MiB", "--snapshot-growth", "0").start()
    pool = Pool(daemon)
    for first in range(0, 600, 100):
        pool.offer(*(ticket(f"t{i}", Body="b" * 60000) for i in range(first, first + 100)))

    def snapshot_size():
        return max((path.stat().st_size for path in daemon.data.rglob("*.snapshot")), default=0)

    wait_until(lambda: snapshot_size() > 24 << 20)
    daemon.kill9()
    daemon.start()
    assert metric(daemon, "tally_memory_bytes") > 34 << 20
    assert status_bytes(daemon, "VmHWM") < status_bytes(daemon, "VmRSS") + (8 << 20)
    assert daemon.stop() == 0


# --- what comes and goes ---------------------------------------------------------------------------------------------


@own_memory_only
def test_connections_leave_nothing_behind(daemon):
    make_queue(daemon, "q")

    def come_and_go(count):
        with contextlib.ExitStack() as open_ones:
            connections = [open_ones.enter_context(Connection(daemon.port)) for _ in range(count)]
            for connection in connections:
                assert connection.call("AmazonSQS.GetQueueUrl", {"QueueName": "q"}).status == 200

    come_and_go(300)
    before, kept = anonymous_bytes(daemon), metric(daemon, "tally_memory_bytes")
    for _ in range(4):
        come_and_go(300)
    assert anonymous_bytes(daemon) < before + (2 << 20)
    assert metric(daemon, "tally_memory_bytes") == kept


def test_messages_groups_ids_and_batches_leave_nothing_behind(daemon):
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q", "Attributes": {"Tally.DeduplicationWindow": "1"}})

    def come_and_go(turn):
        with Connection(daemon.port) as connection:
            for i in range(40):
                entries = [
                    {**entry, "MessageGroupId": f"{turn}-{i}-{k}", "MessageDeduplicationId": f"{turn}-{i}-{k}"}
                    for k, entry in enumerate(ten())
                ]
                connection.call("AmazonSQS.SendMessageBatch", {"QueueUrl": "q", "Entries": entries})
                connection.call("Tally.CreateBatch", {"BatchId": f"{turn}-{i}", "RetentionSeconds": 0})
                connection.call("Tally.SealBatch", {"BatchId": f"{turn}-{i}"})
        full = metric(daemon, "tally_memory_bytes")
        assert work_off(daemon, 400) == 400
        wait_until(lambda: metric(daemon, "tally_deduplication_ids") == 0 and
                   metric(daemon, 'tally_batches{state="completed"}') == 0)
        return full

    full = come_and_go(0)
    after_first = metric(daemon, "tally_memory_bytes")
    assert full > after_first + 400 * 300
    come_and_go(1)
    # How a batch ended is known for 14 days, for those that wait for it.
    assert metric(daemon, "tally_memory_bytes") < after_first + 40 * 200 + 4096
