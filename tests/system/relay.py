"""A relay in the foreground (`tally relay run`), an outbox to feed it, and what tests count afterwards.

    install_outbox(postgres)                                  # the schema, as `tally relay schema` prints it
    relay = relays(postgres.uri, "queue", "--lease", 1)       # fixture: starts one, and ends it behind the test
    relay.wait_for("active")                                  # until its newest line says so; the line
    relay.lines, relay.state                                  # what it has printed; the newest without "relay NAME: "
    relay.stop(), relay.kill9(), relay.freeze(), relay.thaw()
    messages = drain(daemon, "orders", 100)                   # receives and deletes: see Message
"""

import collections
import contextlib
import json
import signal
import socket
import subprocess
import threading
import time

from conftest import BIN, PATIENCE, SIGNALS_SENT, WRAPPER, clean_environment, wait_until
from wire import Connection

UID = "Tally.OutboxId"


class Relay:
    def __init__(self, endpoint, source, sink, *options, name="relay", **environment):
        self.name = name
        self.command = [*WRAPPER, str(BIN / "tally"), "relay", "run", "--source", source, "--sink", sink, "--name", name,
                        *map(str, options)]
        self.environment = clean_environment(TALLY_ENDPOINT=endpoint, **environment)
        self.process = None
        self.lines = []

    def start(self):
        assert self.process is None
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=self.environment)
        self.lines = []
        self.reader = threading.Thread(target=self._read, args=(self.process.stdout, self.lines), daemon=True)
        self.reader.start()
        return self

    def _read(self, stream, lines):
        beginning = f"relay {self.name}: "
        for line in stream:
            text = line.decode(errors="replace").rstrip("\n")
            assert text.startswith(beginning), text
            lines.append(text[len(beginning):])

    @property
    def pid(self):
        return self.process.pid

    @property
    def state(self):
        return self.lines[-1] if self.lines else ""

    @property
    def epoch(self):
        """That of the newest time it was active; 0: never."""
        epochs = [int(line.split("epoch ")[1]) for line in self.lines if line.startswith("active, epoch ")]
        return epochs[-1] if epochs else 0

    def wait_for(self, state, seconds=20):
        """Until the newest line begins so."""

        def claim():
            if self.process.poll() is not None:
                self.reader.join()
                assert self.state.startswith(state), f"the relay ended: {self.lines} {self.process.stderr.read()}"
            return self.state.startswith(state)

        try:
            wait_until(claim, seconds, f"{self.name} {state}")
        except AssertionError as late:
            raise AssertionError(f"{late}; it said {self.lines}") from None
        return self.state

    def signal(self, number):
        self.process.send_signal(number)

    def freeze(self):
        self.signal(signal.SIGSTOP)

    def thaw(self):
        self.signal(signal.SIGCONT)

    def kill9(self):
        if self.process is not None:
            self.process.kill()
            self._reap(60)

    def stop(self, seconds=20):
        """Ends it cleanly; it must say nothing on standard error."""
        if self.process is None:
            return
        for sent in range(SIGNALS_SENT):
            self.signal(signal.SIGTERM)
            try:
                status, errors = self._reap(seconds * PATIENCE / SIGNALS_SENT)
                break
            except subprocess.TimeoutExpired:
                if sent + 1 == SIGNALS_SENT:
                    self.kill9()
                    raise
        assert status == 0 and errors == "", f"{status}: {errors}"

    def _reap(self, seconds):
        process = self.process
        status = process.wait(seconds)
        self.reader.join()
        errors = process.stderr.read().decode(errors="replace")
        process.stdout.close()
        process.stderr.close()
        self.process = None
        return status, errors


def install_outbox(postgres, schema="tally"):
    """Makes an outbox and an inbox as a user would."""
    sql = subprocess.run([str(BIN / "tally"), "relay", "schema", "--type", "postgres", "--schema", schema],
                         capture_output=True, text=True, check=True, env=clean_environment())
    postgres.sql(sql.stdout)


def outbox_count(postgres, table="tally.outbox"):
    return postgres.sql(f"SELECT count(*) FROM {table}")[0][0]


def wait_until_empty(postgres, seconds=20):
    """Until the outbox holds no row any more."""
    wait_until(lambda: outbox_count(postgres) == 0, seconds, "an empty outbox")


class Message:
    """A message that arrived."""

    def __init__(self, reply):
        self.id = reply["MessageId"]
        self.body = reply["Body"]
        self.handle = reply["ReceiptHandle"]
        self.system = reply.get("Attributes", {})
        self.attributes = {name: value.get("StringValue") for name, value in reply.get("MessageAttributes", {}).items()}
        self.raw_attributes = reply.get("MessageAttributes", {})
        self.uid = self.attributes.get(UID)
        self.group = self.system.get("MessageGroupId")
        self.sequence = int(self.system.get("SequenceNumber", 0))

    def __repr__(self):
        return f"<{self.body[:40]!r} of {self.group}, {self.uid}>"


def drain(daemon, queue, count=None, seconds=20):
    """Receives and deletes: until `count` messages have come, and then whatever else is there, so that a copy is seen; without a
    count what is there now. In the order of their arrival."""
    connection = Connection(daemon.port)
    deadline = time.monotonic() + seconds * PATIENCE
    messages = []
    try:
        while True:
            wait = 1 if count is not None and len(messages) < count and time.monotonic() < deadline else 0
            answer = connection.ok("AmazonSQS.ReceiveMessage", {
                "QueueUrl": queue, "MaxNumberOfMessages": 10, "WaitTimeSeconds": wait, "VisibilityTimeout": 600,
                "AttributeNames": ["All"], "MessageAttributeNames": ["All"]})
            came = [Message(reply) for reply in answer.get("Messages", [])]
            messages += came
            if came:
                entries = [{"Id": str(i), "ReceiptHandle": message.handle} for i, message in enumerate(came)]
                connection.ok("AmazonSQS.DeleteMessageBatch", {"QueueUrl": queue, "Entries": entries})
            elif wait == 0:
                return messages
    finally:
        connection.close()


def check_once(messages, bodies):
    """Each of these bodies arrived, and arrived once."""
    arrived = collections.Counter(message.body for message in messages)
    missing = [body for body in bodies if body not in arrived]
    twice = {body: times for body, times in arrived.items() if times > 1}
    assert not missing, f"{len(missing)} did not arrive: {missing[:5]}"
    assert not twice, f"arrived more than once: {dict(list(twice.items())[:5])}"
    assert len(arrived) == len(set(bodies)), f"nobody sent {set(arrived) - set(bodies)}"


def check_order(messages, group_of=lambda message: message.group):
    """The bodies end in a number that rises within each group."""
    last = {}
    for message in messages:
        number = int(message.body.rsplit("-", 1)[-1])
        group = group_of(message)
        assert number > last.get(group, -1), f"{message} came behind number {last[group]} of its group"
        last[group] = number


class Proxy:
    """Stands before a daemon and can be a bad network: an answer that never comes, a port where nobody talks.

    .endpoint; .lose(target, count): the next so many are carried out and not answered; .is_down: connections are closed as they come;
    .refuse[target] = error: answered so by itself, with nothing carried out;
    .requests: what passed, (target, body); .refusals: when connections were closed; .watch: called with each before it passes; .answer: called
    with each, and what it returns, (status, bytes), is the answer of something that is no Tally, which then never hears of it."""

    def __init__(self, port):
        self.port = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.requests, self.refusals, self.lost, self.refuse = [], [], {}, {}
        self.is_down = False
        self.watch = None
        self.answer = None
        self.answered = []  # the targets of those
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, target, count=1):
        self.lost[target] = count

    def published(self):
        """The bodies of all Publishes that passed."""
        return [body for target, body in self.requests if target == "Tally.Publish"]

    def close(self):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        server = None
        with client:
            while True:
                if self.is_down:
                    self.refusals.append(time.monotonic())
                    break
                request = self._read(client)
                if request is None or self.is_down:
                    break
                head, body = request
                target = next((line.split(b":", 1)[1].strip().decode() for line in head.split(b"\r\n")
                               if line.lower().startswith(b"x-amz-target:")), "")
                parsed = json.loads(body) if body else {}
                if self.watch:
                    self.watch(target, parsed)
                own = self.answer(target, parsed) if self.answer else None
                if own is not None:
                    self.answered.append(target)
                    self._write(client, *own)
                    continue
                self.requests.append((target, parsed))
                if target in self.refuse:
                    text = json.dumps({"__type": self.refuse[target], "message": "refused on the way"}).encode()
                    self._write(client, 400, text)
                    continue
                try:
                    server = server or socket.create_connection(("127.0.0.1", self.port))
                    server.sendall(head + body)
                    answer = self._read(server)
                except OSError:
                    answer = None
                if answer is None:
                    break
                if self.lost.get(target, 0) > 0:
                    self.lost[target] -= 1
                    break
                try:
                    client.sendall(answer[0] + answer[1])
                except OSError:
                    break
        if server:
            server.close()

    @staticmethod
    def _write(client, status, data):
        head = f"HTTP/1.1 {status} Whatever\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        with contextlib.suppress(OSError):
            client.sendall(head.encode() + data)

    @staticmethod
    def _read(stream):
        """(head with its empty line, body), or None when the other side has gone."""
        data = b""
        while b"\r\n\r\n" not in data:
            piece = stream.recv(262144)
            if not piece:
                return None
            data += piece
        head, rest = data.split(b"\r\n\r\n", 1)
        lines = {line.split(b":", 1)[0].lower(): line.split(b":", 1)[1].strip() for line in head.split(b"\r\n")[1:]}
        if lines.get(b"expect") == b"100-continue":
            stream.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            head = b"\r\n".join(line for line in head.split(b"\r\n") if not line.lower().startswith(b"expect:"))
        size = int(lines.get(b"content-length", 0))
        while len(rest) < size:
            piece = stream.recv(262144)
            if not piece:
                return None
            rest += piece
        return head + b"\r\n\r\n", rest
