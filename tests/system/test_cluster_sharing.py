"""Requests that come at once share a connection to the node that serves: each gets its own answer, and nobody waits for
one that does."""

import collections
import contextlib
import hashlib
import os
import random
import re
import signal
import time

from conftest import wait_until
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import CROWD, create_queue, drain
from test_cluster_front import Impostor, nodes, secret  # noqa: F401 (fixtures)
from wire import Connection, Lost, request_bytes, scaled

COUNT = 4


class Together:
    """Clients of a node whose requests it finds in one turn of its loop: it is stopped until they are all there."""

    def __init__(self, node, count):
        self.node, self.lines = node, [Connection(node.port) for _ in range(count)]
        for line in self.lines:
            assert line.call("Tally.Nothing", {}).status == 400  # it is accepted

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for line in self.lines:
            line.close()

    def write(self, requests):
        os.kill(self.node.process.pid, signal.SIGSTOP)
        try:
            for line, (action, fields) in zip(self.lines, requests):
                line.write(request_bytes(action, fields))
        finally:
            os.kill(self.node.process.pid, signal.SIGCONT)

    def ask(self, requests):
        self.write(requests)
        return [line.answer() for line, _ in zip(self.lines, requests)]


def sends(queue, bodies):
    return [("AmazonSQS.SendMessage", {"QueueUrl": queue, "MessageBody": body}) for body in bodies]


def md5(text):
    return hashlib.md5(text.encode()).hexdigest()


def test_each_gets_its_own_answer(nodes):  # noqa: F811
    queue = create_queue(Connection(nodes[0].port))
    sent, count = [], 40
    with Together(nodes[1], count) as clients:
        before = {name: nodes[1].metric(name) for name in ("tally_forwarded_total", "tally_forward_writes_total")}
        for turn in range(scaled(20, least=5)):
            bodies = [f"{turn}-{number}-" + "x" * random.randrange(20) ** 3 for number in range(count)]
            asked = sends(queue, bodies)
            asked[7] = ("AmazonSQS.SendMessage", {"QueueUrl": "none", "MessageBody": "x"})
            asked[11] = ("AmazonSQS.GetQueueUrl", {"QueueName": "jobs"})
            asked[13] = ("AmazonSQS.GetQueueAttributes", {"QueueUrl": queue, "AttributeNames": ["DelaySeconds"]})
            for number, answer in enumerate(clients.ask(asked)):
                if number == 7:
                    assert answer.status == 400 and "QueueDoesNotExist" in answer.body.decode()
                elif number == 11:
                    assert answer.json()["QueueUrl"].endswith("/jobs")
                elif number == 13:
                    assert answer.json() == {"Attributes": {"DelaySeconds": "0"}}
                else:
                    assert answer.json()["MD5OfMessageBody"] == md5(bodies[number])
                    sent.append(bodies[number])
        asked, written = (nodes[1].metric(name) - value for name, value in before.items())
    assert sorted(drain(Connection(nodes[0].port), queue)) == sorted(sent)
    assert written < asked / 4, "they share"


def test_a_long_poll_keeps_nobody_waiting(nodes):  # noqa: F811
    queue, other = (create_queue(Connection(nodes[0].port), name) for name in ("jobs", "empty"))
    poll = ("AmazonSQS.ReceiveMessage", {"QueueUrl": other, "WaitTimeSeconds": 10})
    with Together(nodes[1], COUNT) as clients:
        clients.write([poll, *sends(queue, "abc")])
        began = time.monotonic()
        for line in clients.lines[1:]:
            assert line.answer().status == 200
        assert time.monotonic() - began < 3 * CROWD


# --- a node that fails them -------------------------------------------------------------------------------------------


def read_requests(line, count):
    data, found = b"", []
    while len(found) < count:
        piece = line.recv(65536)
        assert piece, "it was closed"
        data += piece
        while (head := re.search(rb"\r\nContent-Length: (\d+)\r\n\r\n", data)) and \
                len(data) >= head.end() + int(head[1]):
            found.append(data[head.end() : head.end() + int(head[1])])
            data = data[head.end() + int(head[1]) :]
    return found


def answer_of(request):
    """It says which request it belongs to."""
    body = b'{"MD5OfMessageBody":"%s"}' % hashlib.md5(request).hexdigest().encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def first_and_close(line):
    line.sendall(answer_of(read_requests(line, COUNT)[0]))


def first_says_that_it_is_lost(line):
    """One answer for all, as a node gives that has lost its log."""
    read_requests(line, COUNT)
    line.sendall(b"HTTP/1.1 503 Unavailable\r\nConnection: close\r\nContent-Length: 14\r\n\r\n\"nobody knows\"")
    with contextlib.suppress(OSError):
        line.recv(1)


def none(line):
    read_requests(line, COUNT)


def one_too_many(line):
    requests = read_requests(line, COUNT)
    line.sendall(b"".join(map(answer_of, [*requests, requests[0]])))


def nonsense_behind_two(line):
    requests = read_requests(line, COUNT)
    line.sendall(b"".join(map(answer_of, requests[:2])) + b"SSH-2.0\r\n")
    with contextlib.suppress(OSError):
        line.recv(1)


def byte_by_byte(line):
    for byte in b"".join(map(answer_of, read_requests(line, COUNT))):
        line.sendall(bytes([byte]))


def test_whoever_has_no_answer_is_told_that_nobody_knows(nodes, cluster):  # noqa: F811
    asked = sends("http://x/000000000000/jobs", "abcd")
    bodies = [request_bytes(action, fields).split(b"\r\n\r\n", 1)[1] for action, fields in asked]
    acts = {first_and_close: 1, first_says_that_it_is_lost: 0, none: 0, one_too_many: 3, nonsense_behind_two: 2,
            byte_by_byte: 4}
    turns = iter(acts)
    with Together(nodes[1], COUNT) as clients, Impostor(cluster, nodes[0], lambda line: next(turns)(line)) as impostor:
        for turn, (act, answered) in enumerate(acts.items(), 1):
            answers = clients.ask(asked)
            assert impostor.requests == turn, f"{act}: they came on one connection, and none came again"
            assert [answer.status for answer in answers] == [200] * answered + [503] * (COUNT - answered), act
            for answer, body in zip(answers, bodies):
                if answer.status == 200:
                    assert answer.json()["MD5OfMessageBody"] == hashlib.md5(body).hexdigest()
                else:
                    assert "nobody knows" in answer.body.decode()


def test_whoever_hangs_up_takes_nothing_from_the_others(nodes, cluster):  # noqa: F811
    came, gone = collections.deque(), []

    def act(line):
        requests = read_requests(line, COUNT)
        came.append(requests)
        wait_until(lambda: gone, what="that a client has hung up")
        time.sleep(0.2)
        line.sendall(b"".join(map(answer_of, requests)))
        time.sleep(0.2)

    with Together(nodes[1], COUNT) as clients, Impostor(cluster, nodes[0], act):
        clients.write(sends("jobs", "abcd"))
        wait_until(lambda: came, what="that they are there")
        clients.lines[1].close()
        gone.append(1)
        for number in (0, 2, 3):
            assert clients.lines[number].answer().json()["MD5OfMessageBody"] == hashlib.md5(came[0][number]).hexdigest()


def test_once_all_have_hung_up_the_connection_serves_the_next(nodes, cluster):  # noqa: F811
    """A client that closes may still read, as far as a server can tell: its answer is read, and thrown away."""
    came, gone = [], []

    def act(line):
        came.append(read_requests(line, COUNT))
        wait_until(lambda: gone, what="that all have hung up")
        line.sendall(b"".join(map(answer_of, came[0])))
        came.append(read_requests(line, 1))
        line.sendall(answer_of(*came[1]))

    with Together(nodes[1], COUNT) as clients, Impostor(cluster, nodes[0], act) as impostor:
        clients.write(sends("jobs", "abcd"))
        wait_until(lambda: came, what="that they are there")
        for line in clients.lines:
            line.close()
        gone.append(1)
        with Connection(nodes[1].port) as next_one:
            time.sleep(0.5 * CROWD)  # until the answers are read: what comes before that gets a connection of its own
            answer = next_one.call("AmazonSQS.SendMessage", {"QueueUrl": "jobs", "MessageBody": "e"})
            assert answer.json()["MD5OfMessageBody"] == hashlib.md5(came[1][0]).hexdigest()
        assert impostor.requests == 1


def test_whoever_is_refused_takes_nothing_from_the_others(nodes, cluster):  # noqa: F811
    """The node that serves refuses what is not HTTP for it, and reads no further."""
    came = []

    def act(line):
        requests = read_requests(line, COUNT if not came else 1)
        came.append(requests)
        if len(came) == 1:
            line.sendall(answer_of(requests[0]) + b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\n"
                         b"Content-Length: 2\r\n\r\n{}")
        else:
            line.sendall(answer_of(requests[0]))

    with Together(nodes[1], COUNT) as clients, Impostor(cluster, nodes[0], act) as impostor:
        answers = clients.ask(sends("jobs", "abcd"))
        assert [answer.status for answer in answers] == [200, 413, 200, 200]
        assert [len(requests) for requests in came] == [COUNT, 1, 1] and impostor.requests == 3
        for number, request in ((0, came[0][0]), (2, came[0][2]), (3, came[0][3])):
            assert answers[number].json()["MD5OfMessageBody"] == hashlib.md5(request).hexdigest()


def test_large_requests_share_nothing(nodes, cluster):  # noqa: F811
    with Together(nodes[1], COUNT) as clients, Impostor(cluster, nodes[0], lambda line: line.recv(1)) as impostor:
        clients.write(sends("jobs", [letter * 40_000 for letter in "abcd"]))
        for line in clients.lines:
            with contextlib.suppress(Lost):
                assert line.answer().status == 503
        assert impostor.requests == COUNT
