"""The clients: for each tenant one that sends and two that receive, with the unmodified AWS SDK. What they were told
stands in a SQLite database, which is all that is counted in the end."""

import collections
import os
import secrets
import sqlite3
import subprocess
import threading
import time
import uuid

import boto3
from botocore import exceptions
from botocore.config import Config

GROUPS = 3  # of each queue
UNITS = 300  # of each batch

SESSION = boto3.Session(region_name="us-east-1")
# The SDK repeats by itself what got no answer or a 503: once here. Then the client asks the next node.
SDK = Config(retries={"mode": "standard", "total_max_attempts": 2}, connect_timeout=1, read_timeout=3)
NO_ANSWER = exceptions.ConnectionError, exceptions.HTTPClientError

SCHEMA = """
    CREATE TABLE sent (tenant TEXT, number INTEGER);
    CREATE TABLE received (id INTEGER PRIMARY KEY, tenant TEXT, number INTEGER);
    CREATE TABLE completed (message_id TEXT PRIMARY KEY, tenant TEXT, report TEXT);"""

LOST = "SELECT count(*) FROM (SELECT tenant, number FROM sent EXCEPT SELECT tenant, number FROM received)"
TWICE = "SELECT (SELECT count(*) FROM received) - count(*) FROM (SELECT DISTINCT tenant, number FROM received)"
LATE = f"""SELECT count(*) FROM (SELECT number < lag(number) OVER (PARTITION BY tenant, number % {GROUPS} ORDER BY id)
           AS is_late FROM received) WHERE is_late"""


class Database:
    """A connection; each thread needs its own."""

    def __init__(self, path):
        self.connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = OFF")

    def insert(self, table, *values):
        self.connection.execute(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(values))})", values)

    def one(self, statement):
        return self.column(statement)[0]

    def column(self, statement):
        return [row[0] for row in self.connection.execute(statement)]


class Tenant:
    """One of those who share the cluster, each with a namespace of its own."""

    def __init__(self, name, namespace):
        self.name, self.namespace, self.secret = name, namespace, secrets.token_hex(16)
        self.credential = f"{name} {self.secret} {namespace} read,write,admin\n"

    def tally(self, program, url, *words):
        environment = {**os.environ, "AWS_ACCESS_KEY_ID": self.name, "AWS_SECRET_ACCESS_KEY": self.secret}
        subprocess.run([program, *words, "--endpoint", url], env=environment, stdout=subprocess.DEVNULL, check=True)

    def prepare(self, program, url):
        """Two queues, and a batch of units: the last one that ends puts a message into `reports`."""
        self.tally(program, url, "queue", "create", "jobs.fifo", "VisibilityTimeout=120")
        self.tally(program, url, "queue", "create", "reports", "VisibilityTimeout=10")
        self.tally(program, url, "batch", "create", "night", "--total", str(UNITS), "--on-complete", "reports")

    def clients(self, urls, path, pause):
        """`pause`: seconds between two sends."""
        return [Sender(self, urls, path, pause), Receiver(self, urls, path), ReportReceiver(self, urls, path)]


class Client(threading.Thread):
    """Knows all nodes, and asks one of them: any node answers."""

    def __init__(self, tenant, urls, path):
        super().__init__(daemon=True)
        self.tenant, self.database = tenant.name, Database(path)
        self.nodes = collections.deque(
            SESSION.client("sqs", endpoint_url=url, aws_access_key_id=tenant.name, aws_secret_access_key=tenant.secret,
                           config=SDK)
            for url in urls)
        for node in self.nodes:
            node.meta.events.register("before-send.sqs", self.count)
        self.is_ending = False
        self.due = None  # when the answer to the request under way should have been there
        self.attempts = self.repeated = 0
        self.slowest = 0

    def count(self, **_):
        self.attempts += 1
        self.repeated += self.attempts > 1

    def call(self, action, **request):
        self.attempts, self.due = 0, time.monotonic() + request.get("WaitTimeSeconds", 0)
        while True:
            try:
                answer = getattr(self.nodes[0], action)(**request)
                break
            except NO_ANSWER:
                self.nodes.rotate(-1)
            except exceptions.ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] < 500:
                    raise
                self.nodes.rotate(-1)
        self.slowest, self.due = self.wait(), None
        return answer

    def wait(self):
        """The longest since somebody took it, in seconds; the request under way counts, too."""
        due = self.due
        return max(self.slowest, time.monotonic() - due if due else 0)

    def take_wait(self):
        wait, self.slowest = self.wait(), 0
        return wait

    def queue(self, name):
        return self.call("get_queue_url", QueueName=name)["QueueUrl"]

    def receive(self, queue):
        """An id for each receive: if its answer is lost, the same one brings the same messages."""
        return self.call("receive_message", QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=1,
                         ReceiveRequestAttemptId=str(uuid.uuid4())).get("Messages", [])


class Sender(Client):
    """An id for each message: however often it is sent, it is there once."""

    def __init__(self, tenant, urls, path, pause):
        super().__init__(tenant, urls, path)
        self.pause = pause

    def run(self):
        queue, number = self.queue("jobs.fifo"), 0
        while not self.is_ending or number < UNITS:
            unit = {"Tally.Batch": {"DataType": "String", "StringValue": "night"}} if number < UNITS else {}
            self.call("send_message", QueueUrl=queue, MessageBody=str(number), MessageDeduplicationId=str(number),
                      MessageGroupId=f"group-{number % GROUPS}", MessageAttributes=unit)
            self.database.insert("sent", self.tenant, number)
            number += 1
            time.sleep(self.pause)


class Receiver(Client):
    def run(self):
        queue = self.queue("jobs.fifo")
        while not self.is_ending:
            for message in self.receive(queue):
                self.database.insert("received", None, self.tenant, int(message["Body"]))
                self.call("delete_message", QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])


class ReportReceiver(Client):
    """A completion message is there once, and like any other it may be delivered again: its id tells."""

    def run(self):
        queue = self.queue("reports")
        while not self.is_ending:
            for message in self.receive(queue):
                self.database.insert("completed", message["MessageId"], self.tenant, message["Body"])
                self.call("delete_message", QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
