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
import functools
import pathlib
import signal
import subprocess
import threading
import time

from conftest import BIN, PATIENCE, SIGNALS_SENT, WRAPPER, clean_environment, wait_until
from wire import Connection

UID = "Tally.OutboxId"


class Relay:
    def __init__(self, endpoint, source, sink, *options, name="relay", **environment):
        self.name = name
        self.command = [*WRAPPER, str(BIN / "tally"), "relay", "run", "--source", source, "--sink", sink, "--name",
                        name, *map(str, options)]
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

    def wait_for(self, state, seconds=60):
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

    def seconds_until_active(self):
        began = time.monotonic()
        self.wait_for("active")
        return time.monotonic() - began

    def signal(self, number):
        self.process.send_signal(number)

    def freeze(self):
        """Returns when all of its threads stand still: on a busy machine they go on for a while."""
        self.signal(signal.SIGSTOP)
        wait_until(lambda: all(state in "Tt" for state in self._thread_states()), what="that the relay stands still")

    def _thread_states(self):
        states = []
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(OSError):  # the thread has just ended
                states.append((task / "stat").read_text().rsplit(")", 1)[1].split()[0])
        return states

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


@functools.cache
def outbox_schema(kind, *options):
    """As `tally relay schema` prints it; kind: postgres or sqlite."""
    done = subprocess.run([str(BIN / "tally"), "relay", "schema", "--type", kind, *options], capture_output=True,
                          text=True, env=clean_environment())
    assert done.returncode == 0, done.stderr
    return done.stdout


def install_outbox(postgres, schema="tally"):
    """Makes an outbox and an inbox as a user would."""
    postgres.sql(outbox_schema("postgres", "--schema", schema))


def outbox_count(postgres, table="tally.outbox"):
    return postgres.sql(f"SELECT count(*) FROM {table}")[0][0]


def wait_until_empty(postgres, seconds=20):
    """Until the outbox holds no row any more."""
    wait_until(lambda: outbox_count(postgres) == 0, seconds, "an empty outbox")


def numbered(word, count, start=0):
    """Bodies as check_order() wants them."""
    return [f"{word}-{number}" for number in range(start, start + count)]


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
    """Receives and deletes: until `count` messages have come, or none for so long, and then whatever else is there, so
    that a copy is seen; without a count what is there now. In the order of their arrival."""
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
                deadline = time.monotonic() + seconds * PATIENCE
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
