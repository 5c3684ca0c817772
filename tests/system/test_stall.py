"""A disk that stands still for seconds while requests come: what is decided meanwhile counts from when it was asked
for, and a lease from when its reply leaves."""

import threading
import time

from disk import BrokenDisk
from queues import make_queue
from wire import Connection, request_bytes

FLUSH_BEGINS = 0.2  # for the frame in work to reach the disk; what comes later waits in the next
READ_LATE = 0.5  # a busy client may read an answer so long after it left


class Asked:
    """A call on its way, in a thread: when it was asked for, when it was answered, and what."""

    def __init__(self, daemon, action, **body):
        self.asked = time.monotonic()
        self.thread = threading.Thread(target=self.run, args=(daemon, action, body))
        self.thread.start()

    def run(self, daemon, action, body):
        self.status, self.answer = daemon.call("AmazonSQS." + action, body)
        self.answered = time.monotonic()

    def wait(self):
        self.thread.join()
        assert self.status == 200, self.answer
        return self

    def bodies(self):
        return [message["Body"] for message in self.answer.get("Messages", [])]


class Stall:
    """In the block the disk stands still: one frame is with it, and another is open."""

    def __init__(self, daemon, disk):
        self.daemon, self.disk = daemon, disk

    def __enter__(self):
        self.disk.breaks()
        self.sends = []
        for body in ("in work", "in the open frame"):
            self.sends.append(Asked(self.daemon, "SendMessage", QueueUrl="other", MessageBody=body))
            time.sleep(FLUSH_BEGINS)

    def __exit__(self, *_):
        self.disk.mends()
        for send in self.sends:
            send.wait()


def start(daemon_factory, **attributes):
    daemon = daemon_factory()
    disk = BrokenDisk(daemon, "pwrite", FAIL_HANGS=1)
    for name, settings in attributes.items():
        make_queue(daemon, name.replace("_", "."), **settings)
    make_queue(daemon, "other")
    return daemon, Stall(daemon, disk)


def wait_for_body(daemon, queue, body, seconds=30):
    """When it comes."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        request = {"QueueUrl": queue, "MaxNumberOfMessages": 10, "VisibilityTimeout": 600}
        _, answer = daemon.call("AmazonSQS.ReceiveMessage", request)
        if body in [message["Body"] for message in answer.get("Messages", [])]:
            return time.monotonic()
        time.sleep(0.02)
    raise AssertionError(f"{body} did not come")


def test_what_is_asked_for_late_in_a_stall_lasts_as_long_as_it_says(daemon_factory):
    daemon, stall = start(daemon_factory, q={})
    daemon.call("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": "leased"})
    with stall:
        time.sleep(2.5)
        receive = Asked(daemon, "ReceiveMessage", QueueUrl="q", VisibilityTimeout=3)
        send = Asked(daemon, "SendMessage", QueueUrl="other", MessageBody="delayed", DelaySeconds=3)
        time.sleep(0.2)
    assert receive.wait().bodies() == ["leased"]
    send.wait()
    assert wait_for_body(daemon, "other", "delayed") - send.asked >= 3 - 0.005
    # The lease began a little before the answer was read.
    assert wait_for_body(daemon, "q", "leased") - receive.answered >= 0.9 * 3 - READ_LATE
    assert daemon.stop() == 0, daemon.error_text()


def test_a_stall_that_is_longer_than_a_lease_gives_it_to_one_worker(daemon_factory):
    """Two receives and a long poll wait for the same disk; one gets the message, with its whole lease, and the poll is
    next."""
    daemon, stall = start(daemon_factory, f_fifo={"VisibilityTimeout": "2"})
    message = {"QueueUrl": "f.fifo", "MessageBody": "m", "MessageGroupId": "g", "MessageDeduplicationId": "1"}
    daemon.call("AmazonSQS.SendMessage", message)
    with stall:
        first = Asked(daemon, "ReceiveMessage", QueueUrl="f.fifo")
        time.sleep(2.5)
        second = Asked(daemon, "ReceiveMessage", QueueUrl="f.fifo")
        poll = Asked(daemon, "ReceiveMessage", QueueUrl="f.fifo", WaitTimeSeconds=20)
        time.sleep(1.5)
    assert first.wait().bodies() == ["m"] and second.wait().bodies() == []
    assert poll.wait().bodies() == ["m"] and poll.answered - first.answered >= 0.9 * 2 - READ_LATE
    assert daemon.stop() == 0, daemon.error_text()


def test_a_heartbeat_in_a_stall_keeps_the_message_with_its_worker(daemon_factory):
    daemon, stall = start(daemon_factory, q={})
    daemon.call("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": "m"})
    _, answer = daemon.call("AmazonSQS.ReceiveMessage", {"QueueUrl": "q", "VisibilityTimeout": 3})
    with stall:
        heartbeat = Asked(daemon, "ChangeMessageVisibility", QueueUrl="q", VisibilityTimeout=2,
                          ReceiptHandle=answer["Messages"][0]["ReceiptHandle"])
        other = Asked(daemon, "ReceiveMessage", QueueUrl="q", WaitTimeSeconds=20)
        time.sleep(4)
    heartbeat.wait()
    assert other.wait().bodies() == ["m"] and other.answered - heartbeat.answered >= 0.9 * 2 - READ_LATE
    assert daemon.stop() == 0, daemon.error_text()


def test_a_lease_begins_when_its_reply_leaves_also_behind_another_reply_of_its_connection(daemon_factory):
    """Two receives in one write. The first waits once more, because its lease is long; so does the second, behind
    it."""
    daemon, stall = start(daemon_factory, long={}, short={})
    for queue in "long", "short":
        daemon.call("AmazonSQS.SendMessage", {"QueueUrl": queue, "MessageBody": queue})
    timeouts = {"long": 40, "short": 2}
    with Connection(daemon.port) as connection:
        with stall:
            connection.write(b"".join(
                request_bytes("AmazonSQS.ReceiveMessage", {"QueueUrl": queue, "VisibilityTimeout": timeout})
                for queue, timeout in timeouts.items()))
            time.sleep(4.5)
            stall.disk.lets_one_through()
            stall.disk.lets_one_through()
            time.sleep(3)
            other = Asked(daemon, "ReceiveMessage", QueueUrl="short", WaitTimeSeconds=20)
            time.sleep(0.2)
        answers = [connection.answer().json() for _ in timeouts]
        answered = time.monotonic()
    assert [message["Body"] for answer in answers for message in answer["Messages"]] == ["long", "short"]
    assert other.wait().bodies() == ["short"] and other.answered - answered >= 0.9 * 2 - 0.05
    assert daemon.stop() == 0, daemon.error_text()
