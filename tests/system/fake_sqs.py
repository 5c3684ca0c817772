"""SQS endpoints to deliver to that are none of ours, or that do not behave.

    fake = FakeSqs()                       # answers as SQS FIFO and standard queues do, and keeps all that arrived
    fake.rules.append(rule)                # rule(request) before each SendMessageBatch; what it returns is the answer
    fake.requests                          # each SendMessageBatch that arrived: .queue .entries .at
    over = fake.lose_first_answer()        # of the next SendMessageBatch: it is stored; over.set() ends its connection
    fake.stored("q.fifo")                  # the entries that are in the queue, without those that an id suppressed
    Fauxqs(folder)                         # fauxqs from npm, an SQS by somebody else

And one queue to take from, which gives out, hides and deletes as SQS does, but for what a rule answers instead:

    fake = FakeQueue()
    fake.put("body", group="a", id="…")    # a message waits; what there may be besides: see FakeQueue.put
    fake.rules.append(rule)                # rule(action, body) before each request; what it returns is the answer
    fake.times["body"], fake.left()        # how often it was received; the bodies that were not deleted
"""

import hashlib
import http.client
import http.server
import json
import pathlib
import shutil
import subprocess
import threading
import time
import uuid

from conftest import clean_environment, free_port, wait_until

HERE = pathlib.Path(__file__).resolve().parent
JSON = "application/x-amz-json-1.0"
HANG_UP = "hang up"  # a rule's answer: the connection is closed instead


def error(status, code, message="a test wants it so", **headers):
    return status, {"__type": f"com.amazonaws.sqs#{code}", "message": message}, headers


def failed(entry, code, sender_fault, message="a test wants it so"):
    return {"Id": entry["Id"], "Code": code, "SenderFault": sender_fault, "Message": message}


class Request:
    def __init__(self, body, headers, length):
        self.body = body
        self.headers = headers
        self.length = length
        self.queue = body["QueueUrl"].rsplit("/", 1)[-1]
        self.entries = body["Entries"]
        self.at = time.monotonic()

    @property
    def bodies(self):
        return [entry["MessageBody"] for entry in self.entries]

    def __repr__(self):
        return f"<to {self.queue}: {[body[:20] for body in self.bodies]}>"


class AnswersAll:
    """An HTTP server on a free loopback port, a thread for each connection."""

    def __init__(self, answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                reply = answer(self.headers, body)
                if reply == HANG_UP:
                    self.close_connection = True
                    return
                status, data, headers = reply
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), str(value))
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # a relay that was killed

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class FakeSqs(AnswersAll):
    def __init__(self, size_max=1048576):
        super().__init__(self._answer)
        self.size_max = size_max
        self.lock = threading.Lock()
        self.rules = []
        self.requests = []
        self.missing = set()  # queues that do not exist
        self.targets = []
        self.messages = []  # (queue, entry) that is stored

    def stored(self, queue):
        with self.lock:
            return [entry for name, entry in self.messages if name == queue]

    def bodies(self, queue):
        return [entry["MessageBody"] for entry in self.stored(queue)]

    def _answer(self, headers, data):
        body = json.loads(data)
        target = headers["X-Amz-Target"].split(".")[-1]
        self.targets.append(target)
        if target == "GetQueueUrl":
            if body["QueueName"] in self.missing:
                return self._write(*error(400, "QueueDoesNotExist", "The specified queue does not exist."))
            return self._write(200, {"QueueUrl": f"{self.endpoint}/000000000000/{body['QueueName']}"}, {})
        assert target == "SendMessageBatch", target
        request = Request(body, headers, len(data))
        with self.lock:
            self.requests.append(request)
        for rule in list(self.rules):
            answer = rule(request)
            if answer == HANG_UP:
                return HANG_UP
            if answer is not None:
                return self._write(*answer)
        return self._write(*self.store(request))

    def lose_first_answer(self):
        """What comes first from now on is stored, and its answer never comes: its connection ends when the event that
        this returns is set."""
        over = threading.Event()
        heard = []

        def rule(request):
            heard.append(request)
            if len(heard) > 1:
                return None
            self.store(request)
            over.wait(60)
            return HANG_UP

        self.rules.append(rule)
        return over

    def _write(self, status, body, headers):
        return status, body if isinstance(body, bytes) else json.dumps(body).encode(), {"Content-Type": JSON, **headers}

    def store(self, request, fail=()):
        """Stores the entries, except for those that fail: {Id: failure}."""
        fail = dict(fail)
        size = sum(len(entry["MessageBody"].encode()) for entry in request.entries)
        if request.queue in self.missing:
            return error(400, "QueueDoesNotExist", "The specified queue does not exist.")
        if size > self.size_max:
            return error(400, "BatchRequestTooLong", f"Batch requests cannot be longer than {self.size_max} bytes.")
        done = []
        with self.lock:
            for entry in request.entries:
                if entry["Id"] in fail:
                    continue
                known = [
                    name == request.queue and other["MessageDeduplicationId"] == entry["MessageDeduplicationId"]
                    for name, other in self.messages
                    if "MessageDeduplicationId" in other
                ] if request.queue.endswith(".fifo") else []
                if not any(known):
                    self.messages.append((request.queue, entry))
                done.append({"Id": entry["Id"], "MessageId": "0", "MD5OfMessageBody": "0"})
        return 200, {"Successful": done, "Failed": list(fail.values())}, {}


class FakeQueue(AnswersAll):
    def __init__(self):
        super().__init__(self._answer)
        self.url = f"{self.endpoint}/000000000000/source"  # behind any other name it is the same
        self.lock = threading.Lock()
        self.rules = []
        self.messages = []
        self.actions = []
        self.times = {}
        self.deleted = []

    def put(self, body, id=None, group=None, **more):
        """`more`: members of the message that differ from what SQS says, such as MD5OfBody."""
        with self.lock:
            self.messages.append({"id": id or str(uuid.uuid4()), "body": body, "group": group, "more": more,
                                  "visible_at": 0, "count": 0, "handle": None})

    def left(self):
        with self.lock:
            return [message["body"] for message in self.messages]

    def _answer(self, headers, data):
        body = json.loads(data)
        action = headers["X-Amz-Target"].split(".")[-1]
        self.actions.append(action)
        for rule in list(self.rules):
            answer = rule(action, body)
            if answer == HANG_UP:
                return HANG_UP
            if answer is not None:
                return self._write(*answer)
        return self._write(200, self.perform(action, body), {})

    def _write(self, status, body, headers):
        return status, body if isinstance(body, bytes) else json.dumps(body).encode(), {"Content-Type": JSON, **headers}

    def perform(self, action, body):
        if action == "ReceiveMessage":
            return self._receive(body)
        with self.lock:
            if action == "GetQueueAttributes":
                hidden = sum(message["visible_at"] > time.monotonic() for message in self.messages)
                return {"Attributes": {"ApproximateNumberOfMessages": str(len(self.messages) - hidden),
                                       "ApproximateNumberOfMessagesNotVisible": str(hidden),
                                       "ApproximateNumberOfMessagesDelayed": "0"}}
            for entry in body["Entries"]:
                for message in [held for held in self.messages if held["handle"] == entry["ReceiptHandle"]]:
                    if action == "DeleteMessageBatch":
                        self.messages.remove(message)
                        self.deleted.append(message["body"])
                    else:
                        message["visible_at"] = time.monotonic() + entry["VisibilityTimeout"]
            return {"Successful": [{"Id": entry["Id"]} for entry in body["Entries"]], "Failed": []}

    def _receive(self, body):
        deadline = time.monotonic() + body["WaitTimeSeconds"]
        while True:
            with self.lock:
                given = self._take(body)
            if given or time.monotonic() >= deadline:
                return {"Messages": given} if given else {}
            time.sleep(0.02)

    def _take(self, body):
        given, now = [], time.monotonic()
        locked = {message["group"] for message in self.messages if message["group"] and message["visible_at"] > now}
        for message in self.messages:
            if message["visible_at"] > now or message["group"] in locked or len(given) == body["MaxNumberOfMessages"]:
                continue
            message["visible_at"] = now + body["VisibilityTimeout"]
            message["count"] += 1
            message["handle"] = f"{message['id']}#{message['count']}"
            self.times[message["body"]] = self.times.get(message["body"], 0) + 1
            system = {"SentTimestamp": str(int(time.time() * 1000)), "ApproximateReceiveCount": str(message["count"])}
            system |= {"MessageGroupId": message["group"]} if message["group"] else {}
            given.append({"MessageId": message["id"], "ReceiptHandle": message["handle"], "Body": message["body"],
                          "MD5OfBody": hashlib.md5(message["body"].encode()).hexdigest(), "Attributes": system,
                          **message["more"]})
        return given


class Fauxqs:
    """See https://www.npmjs.com/package/fauxqs. It needs Node.js 20."""

    def __init__(self, folder, host="127.0.0.1"):
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.log = open(folder / "fauxqs.log", "wb")
        self.process = subprocess.Popen(
            ["node", str(HERE / "node_modules" / "fauxqs" / "dist" / "cli.js")], stdout=self.log, stderr=self.log,
            env=clean_environment(FAUXQS_PORT=str(self.port), FAUXQS_HOST=host, FAUXQS_LOGGER="false"))
        wait_until(self._is_there, 60, "fauxqs")

    @staticmethod
    def is_available():
        node = shutil.which("node")
        version = subprocess.run([node, "--version"], capture_output=True, text=True).stdout if node else ""
        return version.startswith("v") and int(version[1:].split(".")[0]) >= 20

    def _is_there(self):
        assert self.process.poll() is None, pathlib.Path(self.log.name).read_text()
        try:
            return self.call("ListQueues", {}) is not None
        except OSError:
            return False

    def call(self, action, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", "/", json.dumps(body), {
                "Content-Type": JSON, "X-Amz-Target": f"AmazonSQS.{action}",
                "Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/sqs/aws4_request, "
                "SignedHeaders=host, Signature=0"})
            answer = connection.getresponse()
            data = answer.read()
            assert answer.status == 200, data
            return json.loads(data) if data else {}
        finally:
            connection.close()

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
