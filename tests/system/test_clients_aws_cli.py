"""The AWS CLI, unmodified, as a shell user would use it. That of Debian 12 (2.9) speaks Query, later ones speak JSON.

AWS_CLI  another aws than the distribution's; of version 2, because version 1 reads binary values differently"""

import atexit
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from clients import KEY, SECRET, SecureDaemon, needs
from conftest import PATIENCE, clean_environment

DISTRIBUTIONS = pathlib.Path("/usr/bin/aws")
PROGRAM = os.environ.get("AWS_CLI") or (str(DISTRIBUTIONS) if DISTRIBUTIONS.exists() else shutil.which("aws"))
HERE = pathlib.Path(__file__).resolve().parent


@functools.cache
def forked():
    """A process that has the distribution's program loaded and forks for each command; None: it is another program."""
    if PROGRAM != str(DISTRIBUTIONS) or b"import awscli.clidriver" not in DISTRIBUTIONS.read_bytes():
        return None
    process = subprocess.Popen([sys.executable, "-B", str(HERE / "aws_fork.py")], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, env=clean_environment())
    atexit.register(process.kill)
    return process


class AwsCli:
    """aws sqs …, pointed at a daemon by --endpoint-url, as every version understands it."""

    def __init__(self, endpoint, folder):
        self.endpoint = endpoint
        self.environment = clean_environment(
            AWS_ACCESS_KEY_ID=KEY,
            AWS_SECRET_ACCESS_KEY=SECRET,
            AWS_DEFAULT_REGION="eu-central-1",
            AWS_PAGER="",
            AWS_EC2_METADATA_DISABLED="true",
            AWS_CONFIG_FILE=str(folder / "none"),
            AWS_SHARED_CREDENTIALS_FILE=str(folder / "none"),
        )

    def run(self, *words):
        command = [PROGRAM, "--endpoint-url", self.endpoint, "sqs", *words]
        if forked() is not None:
            forked().stdin.write(json.dumps([command, self.environment]) + "\n")
            forked().stdin.flush()
            status, out, err = json.loads(forked().stdout.readline())
            return subprocess.CompletedProcess(command, status, out, err)
        timeout = 60 * PATIENCE
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=self.environment)

    def __call__(self, *words):
        """One command that must succeed: its JSON, or its text; nothing printed is {}."""
        done = self.run(*(word if isinstance(word, str) else json.dumps(word) for word in words))
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        assert done.stderr == ""
        return json.loads(done.stdout or "{}") if not done.stdout or done.stdout[0] in '{["' else done.stdout

    def has_move_tasks(self):
        """They came in the summer of 2023, when 2.13 and 1.29 did."""
        done = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, env=self.environment)
        version = tuple(map(int, re.match(r"aws-cli/(\d+)\.(\d+)", done.stdout).groups()))
        return version >= (2, 13) or (1, 29) <= version < (2, 0)

    def error(self, *words):
        """One command that must fail: the code of the error, and what the server said."""
        done = self.run(*words)
        said = re.search(r"An error occurred \((\S+)\) when calling the \w+ operation: (.*)", done.stderr)
        assert done.returncode in (254, 255) and said, f"{words}: {done.returncode} {done.stdout}{done.stderr}"
        return said.groups()


@pytest.fixture
def aws(daemon, tmp_path):
    needs(PROGRAM, "awscli")
    return AwsCli(daemon.endpoint, tmp_path)


def test_queues(aws, daemon):
    url = (
        aws("create-queue", "--queue-name", "orders", "--attributes", "VisibilityTimeout=5,DelaySeconds=0")["QueueUrl"])
    assert url == f"{daemon.endpoint}/000000000000/orders"
    for number in range(5):
        daemon.call("AmazonSQS.CreateQueue", {"QueueName": f"log-{number}"})
    assert len(aws("list-queues")["QueueUrls"]) == 6
    logs = [f"{daemon.endpoint}/000000000000/log-{number}" for number in range(5)]
    listed = aws("list-queues", "--queue-name-prefix", "log-", "--page-size", "2")
    assert listed["QueueUrls"] == logs
    first = aws("list-queues", "--queue-name-prefix", "log-", "--page-size", "2", "--max-items", "3")
    assert first["QueueUrls"] == logs[:3]
    rest = aws("list-queues", "--queue-name-prefix", "log-", "--page-size", "2", "--starting-token", first["NextToken"])
    assert rest == {"QueueUrls": logs[3:]}
    text = aws("list-queues", "--queue-name-prefix", "log-4", "--output", "text", "--query", "QueueUrls[]")
    assert text == logs[4] + "\n"
    assert aws("list-queues", "--queue-name-prefix", "none") == {}

    assert aws("get-queue-url", "--queue-name", "orders") == {"QueueUrl": url}
    aws("set-queue-attributes", "--queue-url", url, "--attributes",
        {"MessageRetentionPeriod": "600", "DelaySeconds": "1"})
    some = aws("get-queue-attributes", "--queue-url", url, "--attribute-names", "MessageRetentionPeriod",
               "VisibilityTimeout")
    assert some["Attributes"] == {"MessageRetentionPeriod": "600", "VisibilityTimeout": "5"}
    every = aws("get-queue-attributes", "--queue-url", url, "--attribute-names", "All")["Attributes"]
    assert every["QueueArn"] == "arn:aws:sqs:us-east-1:000000000000:orders" and every["DelaySeconds"] == "1"
    assert aws("delete-queue", "--queue-url", url) == {}
    code, said = aws.error("get-queue-url", "--queue-name", "orders")
    assert code == "AWS.SimpleQueueService.NonExistentQueue" and said.startswith("The specified queue does not exist")
    code, said = aws.error("create-queue", "--queue-name", "log-1", "--attributes", "VisibilityTimeout=6")
    assert code == "QueueAlreadyExists" and said.endswith("a different value for attribute VisibilityTimeout")


def test_q5_q6_messages(aws, tmp_path):
    url = aws("create-queue", "--queue-name", "orders")["QueueUrl"]
    queue = ["--queue-url", url]
    body = tmp_path / "body"
    body.write_text('Grüße <&> "🎉"\n', newline="")
    attributes = {
        "color": {"DataType": "String", "StringValue": "blue"},
        "count": {"DataType": "Number.int", "StringValue": "3"},
        "blob": {"DataType": "Binary", "BinaryValue": "AQID"},
    }
    sent = aws("send-message", *queue, "--message-body", f"file://{body}", "--message-attributes", attributes)
    assert sent["MD5OfMessageBody"] == hashlib.md5(body.read_bytes()).hexdigest()
    entries = [{"Id": f"e{n}", "MessageBody": f"number {n}", "DelaySeconds": 1 if n == 3 else 0} for n in range(4)]
    entries[1]["MessageAttributes"] = {"color": attributes["color"]}
    answer = aws("send-message-batch", *queue, "--entries", entries)
    assert [entry["Id"] for entry in answer["Successful"]] == ["e0", "e1", "e2", "e3"]
    assert "MD5OfMessageAttributes" in answer["Successful"][1] and "Failed" not in answer

    # Nothing asked: no attributes, and no digest of them.
    (plain,) = aws("receive-message", *queue)["Messages"]
    assert set(plain) == {"MessageId", "ReceiptHandle", "MD5OfBody", "Body"} and plain["Body"] == body.read_text()
    handle = ["--receipt-handle", plain["ReceiptHandle"]]
    assert aws("change-message-visibility", *queue, *handle, "--visibility-timeout", "0") == {}
    everything = ["--max-number-of-messages", "10", "--attribute-names", "All", "--message-attribute-names", "All"]
    taken = aws("receive-message", *queue, *everything, "--wait-time-seconds", "5")["Messages"]
    again = next(message for message in taken if message["MessageId"] == sent["MessageId"])
    assert again["MessageAttributes"] == attributes and again["Attributes"]["ApproximateReceiveCount"] == "2"
    if len(taken) < 5:
        taken += aws("receive-message", *queue, *everything, "--wait-time-seconds", "20")["Messages"]
    assert sorted(message["Body"] for message in taken[1:]) == [f"number {n}" for n in range(4)]

    handles = [{"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]} for n, message in enumerate(taken)]
    longer = [{**entry, "VisibilityTimeout": 600} for entry in handles]
    assert len(aws("change-message-visibility-batch", *queue, "--entries", longer)["Successful"]) == 5
    assert aws("delete-message", *queue, "--receipt-handle", handles[0]["ReceiptHandle"]) == {}
    deleted = aws("delete-message-batch", *queue, "--entries",
                  [*handles[1:], {"Id": "bad", "ReceiptHandle": "garbage"}])
    assert len(deleted["Successful"]) == 4
    assert [(entry["Id"], entry["Code"]) for entry in deleted["Failed"]] == [("bad", "ReceiptHandleIsInvalid")]
    assert aws("receive-message", *queue, "--wait-time-seconds", "1") == {}
    aws("send-message", *queue, "--message-body", "to be purged")
    assert aws("purge-queue", *queue) == {}
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    assert set(aws("get-queue-attributes", *queue, "--attribute-names", *names)["Attributes"].values()) == {"0"}


def test_dead_letters(aws):
    """A redrive policy as its text in JSON, two failures, and back by a move task where this CLI has such a thing."""
    dead = aws("create-queue", "--queue-name", "dead")["QueueUrl"]
    names = ["--attribute-names", "QueueArn"]
    arn = aws("get-queue-attributes", "--queue-url", dead, *names)["Attributes"]["QueueArn"]
    url = aws("create-queue", "--queue-name", "jobs", "--attributes", {"VisibilityTimeout": "0"})["QueueUrl"]
    policy = {"deadLetterTargetArn": arn, "maxReceiveCount": "1"}
    aws("set-queue-attributes", "--queue-url", url, "--attributes", {"RedrivePolicy": json.dumps(policy)})
    sent = aws("send-message", "--queue-url", url, "--message-body", "poison")
    assert len(aws("receive-message", "--queue-url", url)["Messages"]) == 1
    assert aws("receive-message", "--queue-url", url) == {}
    names = ["--attribute-names", "DeadLetterQueueSourceArn", "--visibility-timeout", "0"]
    (message,) = aws("receive-message", "--queue-url", dead, *names)["Messages"]
    assert message["MessageId"] == sent["MessageId"]
    assert message["Attributes"] == {"DeadLetterQueueSourceArn": arn.replace("dead", "jobs")}
    assert aws("list-dead-letter-source-queues", "--queue-url", dead) == {"queueUrls": [url]}
    if aws.has_move_tasks():
        assert "TaskHandle" in aws("start-message-move-task", "--source-arn", arn)
        (task,) = aws("list-message-move-tasks", "--source-arn", arn)["Results"]
        assert task["SourceArn"] == arn and task["Status"] in ("RUNNING", "COMPLETED")
        (message,) = aws("receive-message", "--queue-url", url, "--wait-time-seconds", "20")["Messages"]
        assert message["Body"] == "poison"


def test_tags_and_permissions(aws):
    url = aws("create-queue", "--queue-name", "shared", "--tags", "team=shop,cost=")["QueueUrl"]
    queue = ["--queue-url", url]
    assert aws("tag-queue", *queue, "--tags", "team=mail,stage=test") == {}
    assert aws("untag-queue", *queue, "--tag-keys", "cost", "unknown") == {}
    assert aws("list-queue-tags", *queue) == {"Tags": {"team": "mail", "stage": "test"}}
    rights = ["--aws-account-ids", "111122223333", "444455556666", "--actions", "SendMessage", "GetQueueUrl"]
    assert aws("add-permission", *queue, "--label", "partners", *rights) == {}
    policy = json.loads(aws("get-queue-attributes", *queue, "--attribute-names", "Policy")["Attributes"]["Policy"])
    (statement,) = policy["Statement"]
    assert statement["Sid"] == "partners" and statement["Action"] == ["SQS:SendMessage", "SQS:GetQueueUrl"]
    assert statement["Principal"]["AWS"] == [
        f"arn:aws:iam::{account}:root" for account in ("111122223333", "444455556666")]
    assert aws("remove-permission", *queue, "--label", "partners") == {}
    assert aws("get-queue-attributes", *queue, "--attribute-names", "Policy") == {}


def test_a_fifo_queue(aws):
    attributes = "FifoQueue=true,ContentBasedDeduplication=true"
    url = aws("create-queue", "--queue-name", "line.fifo", "--attributes", attributes)["QueueUrl"]
    group = ["--message-group-id", "g"]
    first = aws("send-message", "--queue-url", url, "--message-body", "one", *group)
    assert aws("send-message", "--queue-url", url, "--message-body", "one", *group) == first
    aws("send-message", "--queue-url", url, "--message-body", "two", *group, "--message-deduplication-id", "2")
    attempt = ["--receive-request-attempt-id", "a", "--attribute-names", "All", "--max-number-of-messages", "10"]
    taken = aws("receive-message", "--queue-url", url, *attempt)["Messages"]
    assert [message["Body"] for message in taken] == ["one", "two"]
    assert aws("receive-message", "--queue-url", url, *attempt)["Messages"] == taken
    assert taken[0]["Attributes"]["SequenceNumber"] == first["SequenceNumber"]
    assert aws.error("send-message", "--queue-url", url, "--message-body", "x")[0] == "MissingParameter"


def test_over_https_with_credentials(daemon_factory, tmp_path):
    needs(PROGRAM, "awscli")
    secure = SecureDaemon(daemon_factory, tmp_path)
    aws = AwsCli(secure.endpoint, tmp_path)
    aws.environment.update(secure.environment)
    url = aws("create-queue", "--queue-name", "q")["QueueUrl"]
    assert url == f"{secure.endpoint}/000000000000/q"
    aws("send-message", "--queue-url", url, "--message-body", "a=b&c d")
    assert aws("receive-message", "--queue-url", url)["Messages"][0]["Body"] == "a=b&c d"
    aws.environment["AWS_SECRET_ACCESS_KEY"] = "guessed"
    assert aws.error("list-queues")[0] == "SignatureDoesNotMatch"
    aws.environment["AWS_ACCESS_KEY_ID"] = "nobody"
    assert aws.error("list-queues")[0] == "InvalidClientTokenId"
    assert secure.daemon.stop() == 0
