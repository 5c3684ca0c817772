"""An SDK that repeats by itself what got a 503 or no answer, on a FIFO queue, with ids for all that it repeats: each
message then comes once, and in the order of its group (scenario K22).

    check = SdkCheck(balancer.url)    # two threads, each with a boto3 of its own
    check.faults
    check.finish()                    # after which all has come
"""

import collections
import os
import threading
import time
import uuid

from conftest import PATIENCE

GROUPS = 3
REPEATS = 15
BACKLOG = 50  # the producer rests above this
SILENCE = 60  # seconds in which something must come, as long as not all has


def make_client(url, statuses):
    """A client whose replies are counted by their status."""
    import boto3
    from botocore.config import Config
    from botocore.session import Session

    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        os.environ.setdefault(name, os.devnull)
    config = Config(retries={"mode": "standard", "total_max_attempts": REPEATS}, read_timeout=20 * PATIENCE)
    session = boto3.Session(botocore_session=Session(), region_name="us-east-1", aws_access_key_id="any",
                            aws_secret_access_key="thing")
    client = session.client("sqs", endpoint_url=url, config=config)

    def count(parsed_response=None, exception=None, **_):
        is_answered = parsed_response is not None and exception is None
        statuses[parsed_response["ResponseMetadata"]["HTTPStatusCode"] if is_answered else 0] += 1

    client.meta.events.register("response-received.sqs", count)
    return client


class SdkCheck:
    def __init__(self, url, queue="sdk.fifo"):
        self.statuses = collections.Counter()  # of all answers; 0: none came
        self.faults = []
        self.sent = self.taken = 0
        self.next = list(range(GROUPS))  # of each group, the message that must come next
        self.is_ending = False
        self.queue = make_client(url, self.statuses).create_queue(
            QueueName=queue, Attributes={"FifoQueue": "true", "VisibilityTimeout": "120"})["QueueUrl"]
        self.threads = [threading.Thread(target=self._run, args=(work, make_client(url, self.statuses)), daemon=True)
                        for work in (self._produce, self._consume)]
        for thread in self.threads:
            thread.start()

    def _run(self, work, client):
        try:
            work(client)
        except BaseException as error:  # noqa: BLE001 (reported by the test)
            self.faults.append(repr(error))

    def _produce(self, client):
        while not self.is_ending and not self.faults:
            if self.sent - self.taken > BACKLOG:
                time.sleep(0.02)
                continue
            client.send_message(QueueUrl=self.queue, MessageBody=str(self.sent), MessageDeduplicationId=str(self.sent),
                                MessageGroupId=f"g{self.sent % GROUPS}")
            self.sent += 1

    def _consume(self, client):
        while not self.faults:
            is_last = self.is_ending and not self.threads[0].is_alive()
            messages = client.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10, WaitTimeSeconds=1,
                                              ReceiveRequestAttemptId=str(uuid.uuid4())).get("Messages", [])
            for message in messages:
                self._take(int(message["Body"]))
                client.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
            if is_last and not messages:
                return

    def _take(self, number):
        group = number % GROUPS
        if number != self.next[group]:
            self.faults.append(f"message {number} came, and message {self.next[group]} of its group was due")
        self.next[group] = number + GROUPS
        self.taken += 1

    def finish(self):
        self.is_ending = True
        taken, silent_since = self.taken, time.monotonic()
        while any(thread.is_alive() for thread in self.threads):
            if taken != self.taken:
                taken, silent_since = self.taken, time.monotonic()
            assert time.monotonic() - silent_since < SILENCE * PATIENCE, f"{self.next} of {self.sent} do not come"
            time.sleep(0.05)
        assert not self.faults, self.faults[:5]
        assert sum(self.next) == sum(range(self.sent, self.sent + GROUPS)), f"{self.next} of {self.sent} are due"
