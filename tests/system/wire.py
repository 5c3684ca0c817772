"""A small, fast client of the JSON form: kept connections, raw bytes, many requests at once. And how much a test does.

TALLY_TEST_SCALE  a factor for the rounds of the long tests (default 1; 0.05 under TALLY_WRAPPER)
"""

import json
import os
import socket

from conftest import PATIENCE, WRAPPER
from signing import signed_headers

SCALE = float(os.environ.get("TALLY_TEST_SCALE") or (0.05 if WRAPPER else 1))


def scaled(count, variable=None, least=1):
    """`count` times TALLY_TEST_SCALE; the environment variable, if it is set, says the number itself."""
    given = os.environ.get(variable) if variable else None
    return int(given) if given else max(least, round(count * SCALE))


def some(items):
    """All of a table's rows; where TALLY_TEST_SCALE is small, a few that lie apart."""
    items = list(items)
    count = max(1, min(len(items), round(len(items) * SCALE * 3)))
    return [items[index * len(items) // count] for index in range(count)]


class Lost(Exception):
    """The connection ended before the reply: whether the request took effect is unknown."""


class Answer:
    def __init__(self, status, head, body):
        self.status = status
        self.head = head
        self.body = body

    def json(self):
        return json.loads(self.body) if self.body else {}

    def header(self, name):
        for line in self.head.decode().split("\r\n")[1:]:
            key, value = line.split(":", 1)
            if key.lower() == name.lower():
                return value.strip()
        return None


def request_bytes(target, body, credential=None):
    """A whole request, ready to be written; signed, if there is a credential: (access key, secret)."""
    body = json.dumps(body).encode() if not isinstance(body, bytes) else body
    headers = {"Host": "127.0.0.1", "Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": target}
    if credential is not None:
        headers = signed_headers("/", body.decode(), headers, *credential)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return b"POST / HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s" % (lines.encode(), len(body), body)


def connect_to(port, seconds):
    """A socket that goes to a port of the loopback, or to the Unix socket of that path."""
    if isinstance(port, int):
        made = socket.create_connection(("127.0.0.1", port), seconds)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made
    made = socket.socket(socket.AF_UNIX)
    try:
        made.settimeout(seconds)
        made.connect(port)
    except OSError:
        made.close()
        raise
    return made


class Connection:
    """A kept connection. call() raises Lost where the server went away; the next call connects again."""

    def __init__(self, port, seconds=60, credential=None):
        self.port = port
        self.credential = credential
        self.seconds = seconds * PATIENCE
        self.socket = None
        self.rest = b""

    def open(self):
        if self.socket is None:
            self.rest = b""
            self.socket = connect_to(self.port, self.seconds)
        return self

    def close(self):
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def __enter__(self):
        return self.open()

    def __exit__(self, *_):
        self.close()

    def write(self, data):
        try:
            self.open().socket.sendall(data)
        except OSError as error:
            self.close()
            raise Lost from error

    def answer(self):
        """The next reply."""
        try:
            while b"\r\n\r\n" not in self.rest:
                self._more()
            head, rest = self.rest.split(b"\r\n\r\n", 1)
            at = head.lower().find(b"content-length:")
            size = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            self.rest = rest
            while len(self.rest) < size:
                self._more()
        except OSError as error:
            self.close()
            raise Lost from error
        body, self.rest = self.rest[:size], self.rest[size:]
        if b"\r\nconnection: close" in head.lower():
            self.close()
        return Answer(int(head[9:12]), head, body)

    def _more(self):
        piece = self.socket.recv(262144)
        if not piece:
            raise ConnectionError("the server closed the connection")
        self.rest += piece

    def call(self, target, body):
        """One action: the Answer, whatever its status."""
        self.write(request_bytes(target, body, self.credential))
        return self.answer()

    def ok(self, target, body):
        """One action that must succeed: its JSON."""
        answer = self.call(target, body)
        assert answer.status == 200, f"{target}: {answer.status} {answer.body!r}"
        return answer.json()


class Crowd:
    """Many connections that ask at the same instant: every request is written but for its last byte, then the last
    bytes go out."""

    def __init__(self, port, count):
        self.connections = [Connection(port).open() for _ in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for connection in self.connections:
            connection.close()

    def ask(self, requests):
        """One request for each connection; the answers in the same order."""
        asked = self.connections[: len(requests)]
        for connection, request in zip(asked, requests):
            connection.socket.sendall(request[:-1])
        for connection, request in zip(asked, requests):
            connection.socket.sendall(request[-1:])
        return [connection.answer() for connection in asked]

    def ask_all(self, requests):
        """Any number of requests, as many at a time as there are connections."""
        answers = []
        for at in range(0, len(requests), len(self.connections)):
            answers += self.ask(requests[at : at + len(self.connections)])
        return answers
