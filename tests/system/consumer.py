"""A consumer as its author would write it: effect and inbox in one transaction, then the delete. In a thread of a test,
or as a process of its own that can be killed at any point:

python3 consumer.py PORT URI QUEUE [--name NAME] [--lease SECONDS] [--stop-at POINT] [--ack] [--outside FOLDER]
[--positions]

It prints each point that it comes to: received, claimed (or known: the effect had happened), worked, committed,
deleted. At the point
--stop-at it stays until it is killed. With --outside it has an effect besides that no database takes back: lines in
FOLDER/effects where it begins and, when there is a file FOLDER/go, where it ends. With --positions it claims in the row
of the message's group, then by its name."""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import time

import psycopg2
import psycopg2.errors


class Refused(Exception):
    """The server answered with an error."""


def call(port, action, **parameters):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    target = action if "." in action else f"AmazonSQS.{action}"
    headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": target}
    with contextlib.closing(connection):
        connection.request("POST", "/", json.dumps(parameters), headers)
        answer = connection.getresponse()
        text = answer.read()
    if answer.status != 200:
        raise Refused(text.decode())
    return json.loads(text) if text else {}


def message_id(message):
    """What names the message for ever: the row's own id, if it comes from an outbox."""
    attribute = message.get("MessageAttributes", {}).get("Tally.OutboxId")
    return attribute["StringValue"] if attribute else message["MessageId"]


class Consumer:
    def __init__(self, port, uri, queue, name="", lease=30, isolation="READ COMMITTED", acks=False,
                 at=lambda point: None):
        self.port, self.uri, self.queue, self.name, self.lease, self.acks, self.at = (
            port, uri, queue, name, lease, acks, at)
        self.isolation = isolation
        self.connection = None
        self.retries = 0

    def cursor(self):
        if self.connection is None or self.connection.closed:
            self.connection = psycopg2.connect(self.uri)
            self.connection.set_session(isolation_level=self.isolation)
        return self.connection.cursor()

    def receive(self, wait=0):
        answer = call(self.port, "ReceiveMessage", QueueUrl=self.queue, MaxNumberOfMessages=1, WaitTimeSeconds=wait,
                      VisibilityTimeout=self.lease, MessageAttributeNames=["All"], AttributeNames=["All"])
        return answer.get("Messages", [None])[0]

    def work(self, cursor, message):
        """The effect; the table has no unique key on purpose, so that a second one would be seen."""
        cursor.execute("INSERT INTO effect (message_id, consumer, body) VALUES (%s, %s, %s)",
                       (message_id(message), self.name, message["Body"]))

    def claim(self, cursor, message):
        cursor.execute("SELECT tally.once(%s, %s)", (message_id(message), self.name))
        return cursor.fetchone()[0]

    def transact(self, message):
        """True if this was the one that made the effect."""
        cursor = self.cursor()
        is_first = self.claim(cursor, message)
        self.at("claimed" if is_first else "known")
        if is_first:
            self.work(cursor, message)
        if self.acks:
            cursor.execute("SELECT tally.ack(%s)", (message["ReceiptHandle"],))
        self.at("worked")
        self.connection.commit()
        self.at("committed")
        return is_first

    def handle(self, message):
        while True:
            try:
                is_first = self.transact(message)
                break
            except psycopg2.errors.SerializationFailure:
                self.connection.rollback()
                self.retries += 1  # no failure of the message: the same transaction again
            except (psycopg2.OperationalError, psycopg2.InterfaceError):
                self.connection.close()  # whether it was committed, the inbox knows
                time.sleep(0.02)
        if not self.acks:
            with contextlib.suppress(Refused):  # the handle is too old: who has the message now finds it in the inbox
                call(self.port, "DeleteMessage", QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
            self.at("deleted")
        return is_first

    def step(self, wait=0):
        """Handles one message: whether its effect was made, or None if there was no message."""
        message = self.receive(wait)
        if message is None:
            return None
        self.at("received")
        return self.handle(message)

    def close(self):
        if self.connection is not None:
            self.connection.close()


class Positioned(Consumer):
    """Of a FIFO queue: what is delivered again is known by its number; a copy, which has a new one, by its name."""

    def claim(self, cursor, message):
        system = message["Attributes"]
        cursor.execute("SELECT tally.once_in_group(%s, %s, %s, %s)",
                       (self.queue, system["MessageGroupId"], system["SequenceNumber"], self.name))
        if not cursor.fetchone()[0]:
            self.at("skipped")
            return False
        return super().claim(cursor, message)


class Outside(Consumer):
    folder = None

    def work(self, cursor, message):
        super().work(cursor, message)
        self.note("begins")
        while not (self.folder / "go").exists():
            time.sleep(0.02)
        self.note("ends")

    def note(self, what):
        with open(self.folder / "effects", "a") as file:
            file.write(f"{os.getpid()} {what}\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("uri")
    parser.add_argument("queue")
    parser.add_argument("--name", default="")
    parser.add_argument("--lease", type=int, default=30)
    parser.add_argument("--stop-at")
    parser.add_argument("--ack", action="store_true")
    parser.add_argument("--outside", type=pathlib.Path)
    parser.add_argument("--positions", action="store_true")
    given = parser.parse_args()

    def at(point):
        print(point, flush=True)
        while point == given.stop_at:
            time.sleep(60)

    Outside.folder = given.outside
    kind = Outside if given.outside else Positioned if given.positions else Consumer
    consumer = kind(given.port, given.uri, given.queue, given.name, given.lease, acks=given.ack, at=at)
    while True:
        try:
            consumer.step(wait=1)
        except OSError:
            time.sleep(0.05)  # the daemon is away


if __name__ == "__main__":
    main()
