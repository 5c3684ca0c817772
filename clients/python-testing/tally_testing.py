"""A Tally server for a test. It takes a free port, has a folder of its own, and goes away with the test.

    with start_tally(queues=["orders"]) as tally:
        sqs = boto3.client("sqs", **tally.client_options)
        sqs.send_message(QueueUrl=tally.queue_url("orders"), MessageBody="hello")

With pytest there are two fixtures: `tally_server` lasts as long as the tests do, and `tally` is the same server without
any queue. tallyd is what --tallyd says, or else the variable TALLYD, or else on PATH."""

import json
import os
import re
import select
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

NAMESPACE = "000000000000"
STOP_SECONDS = 10


class TallyError(Exception):
    """tallyd is not there, does not start, or refused something. The message has what it said."""


def find_tallyd(tallyd=None):
    found = tallyd or os.environ.get("TALLYD") or shutil.which("tallyd")
    if not found:
        raise TallyError("There is no tallyd: name it with --tallyd or the variable TALLYD, or put it on PATH.")
    return str(found)


def _environment():
    """Without what the user has set for another tallyd."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("TALLY_")}
    return {**own, "TMPDIR": tempfile.gettempdir()}


class Tally:
    """A running server: .endpoint_url .port .region .client_options .queue_url() .reset() .stop()"""

    def __init__(self, process, errors, endpoint_url, region, queues):
        self.process, self._errors, self._queues = process, errors, queues
        self.endpoint_url, self.region = endpoint_url, region
        self.port = int(endpoint_url.rsplit(":", 1)[1])

    @property
    def client_options(self):
        """For boto3.client("sqs", **tally.client_options). The server takes any credentials; SDKs want some."""
        return {
            "endpoint_url": self.endpoint_url,
            "region_name": self.region,
            "aws_access_key_id": "tally",
            "aws_secret_access_key": "tally",
        }

    def queue_url(self, name):
        return f"{self.endpoint_url}/{NAMESPACE}/{name}"

    def call(self, action, **members):
        """An action of SQS; its reply."""
        headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"AmazonSQS.{action}"}
        request = urllib.request.Request(self.endpoint_url, json.dumps(members).encode(), headers)
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(request, timeout=30) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            raise TallyError(f"{action} met {error.code}: {error.read().decode()}") from None

    def create_queue(self, name, **attributes):
        fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        return self.call("CreateQueue", QueueName=name, Attributes={**fifo, **attributes})["QueueUrl"]

    def reset(self):
        """Deletes every queue with its messages, and makes those of `queues` again."""
        while urls := self.call("ListQueues", MaxResults=1000).get("QueueUrls"):
            for url in urls:
                self.call("DeleteQueue", QueueUrl=url)
        for name in self._queues:
            self.create_queue(name)

    def stop(self):
        """Ends the server, which removes its folder. It may be called again."""
        self.process.stdin.close()
        self.process.terminate()  # a child that this process has forked may have the pipe, too
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self._errors.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def _endpoint(process, seconds):
    """What its standard output says when it serves; None: it did not within that time."""
    said, deadline, poll = b"", time.monotonic() + seconds, select.poll()
    poll.register(process.stdout, select.POLLIN)
    while (ready := re.search(rb"tallyd ready on (\S+) .*\n", said)) is None:
        if not poll.poll(max(0, deadline - time.monotonic()) * 1000):
            return None
        more = os.read(process.stdout.fileno(), 4096)
        if not more:
            return None
        said += more
    return ready[1].decode()


def start_tally(*options, queues=(), tallyd=None, port=0, region="us-east-1", timeout=30):
    """Starts a server. `options` are more flags of tallyd, `queues` names of queues that are there at once."""
    # Its standard input is a pipe of which this process has the other end: the server ends when that is closed,
    # however this process ends. A session of its own keeps Ctrl-C from it, so that it ends behind the tests.
    command = [find_tallyd(tallyd), "--listen", f"127.0.0.1:{port}", "--region", region, "--exit-with-stdin", "on",
               "--temporary-data", "on", *map(str, options)]
    errors = tempfile.TemporaryFile()
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0,
                                   env=_environment(), start_new_session=True)
    except OSError as error:
        raise TallyError(f"{command[0]} can't be started: {error.strerror}") from None
    endpoint_url = _endpoint(process, timeout)
    if endpoint_url is None:
        process.kill()
        process.wait()
        errors.seek(0)
        raise TallyError(f"tallyd does not serve. It said:\n{errors.read().decode(errors='replace')}")
    tally = Tally(process, errors, endpoint_url, region, queues)
    try:
        for name in queues:
            tally.create_queue(name)
    except BaseException:
        tally.stop()
        raise
    return tally


try:
    import pytest
except ImportError:
    pytest = None  # start_tally() serves other test runners, too

if pytest:

    def pytest_addoption(parser):
        parser.addoption("--tallyd", help="the tallyd of the fixtures tally_server and tally")

    @pytest.fixture(scope="session")
    def tally_server(request):
        """A server for all tests, with whatever they leave in it."""
        with start_tally(tallyd=request.config.getoption("--tallyd")) as tally:
            yield tally

    @pytest.fixture
    def tally(tally_server):
        """The server of all tests, without any queue."""
        tally_server.reset()
        return tally_server
