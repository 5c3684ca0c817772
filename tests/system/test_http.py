"""The HTTP front of the daemon, byte by byte over raw sockets: order, limits, patience, and what it refuses."""

import hashlib
import json
import os
import re
import signal
import socket
import threading
import time

import pytest
from certificates import SharedTlsSocket
from conftest import PATIENCE, wait_until

NAMESPACE = "000000000000"


class Reply:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        if self.body.startswith(b"<"):
            return re.search(b"<Code>(.*)</Code>", self.body)[1].decode()
        return self.json()["__type"].split("#")[1]


class Line:
    """A raw connection: sends bytes, reads whole replies."""

    def __init__(self, daemon, seconds=20, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(seconds * PATIENCE)
        self.socket.connect(("127.0.0.1", daemon.tls[0] if daemon.tls else daemon.port))
        if daemon.tls:
            self.socket = SharedTlsSocket(self.socket, daemon.tls[1])
        self.rest = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, *pieces):
        self.socket.sendall(b"".join(pieces))

    def more(self):
        piece = self.socket.recv(65536)
        self.rest += piece
        return len(piece) > 0

    def reply(self, has_body=True):
        while b"\r\n\r\n" not in self.rest:
            assert self.more(), f"the connection ended within a reply: {self.rest!r}"
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
        size = int(headers.get("content-length", 0)) if has_body else 0
        while len(self.rest) < size:
            assert self.more(), "the connection ended within a body"
        body, self.rest = self.rest[:size], self.rest[size:]
        return Reply(int(lines[0].split(" ")[1]), headers, body)

    def is_ended(self):
        """Waits until the server has closed its side; nothing more may come before."""
        try:
            return self.rest == b"" and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


def post(target, body, *headers, path="/"):
    body = json.dumps(body).encode() if not isinstance(body, bytes) else body
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/x-amz-json-1.0",
        f"X-Amz-Target: {target}",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def get(path, *headers, version="1.1"):
    return "\r\n".join([f"GET {path} HTTP/{version}", "Host: 127.0.0.1", *headers]).encode() + b"\r\n\r\n"


def make_queue(daemon, name="q", attributes=None):
    status, answer = daemon.call("AmazonSQS.CreateQueue", {"QueueName": name, "Attributes": attributes or {}})
    assert status == 200, answer
    return answer["QueueUrl"]


def send(url, text):
    return post("AmazonSQS.SendMessage", {"QueueUrl": url, "MessageBody": text})


def receive(url, seconds):
    return post("AmazonSQS.ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": seconds})


def md5(text):
    return hashlib.md5(text.encode()).hexdigest()


def message_count(daemon, url):
    _, answer = daemon.call(
        "AmazonSQS.GetQueueAttributes", {"QueueUrl": url, "AttributeNames": ["All"]}
    )
    return int(answer["Attributes"]["ApproximateNumberOfMessages"])


def metric(daemon, name):
    _, _, text = daemon.request("GET", "/metrics")
    for line in text.decode().splitlines():
        if line.startswith(name + " "):
            return float(line.split(" ")[1])
    raise AssertionError(f"no metric {name}")


# --- Ordinary requests ------------------------------------------------------------------------------------------------


def test_health_and_metrics_answer(daemon):
    status, headers, body = daemon.request("GET", "/health")
    assert status == 200 and json.loads(body)["status"] == "ok"
    status, headers, body = daemon.request("GET", "/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert metric(daemon, "tally_http_connections") >= 1
    assert metric(daemon, "tally_http_requests_total") >= 2


def test_a_connection_is_kept_also_behind_errors(daemon):
    url = make_queue(daemon)
    ids = set()
    with Line(daemon) as line:
        for request, status in [
            (send(url, "one"), 200),
            (post("AmazonSQS.NoSuchThing", {}), 400),
            (post("AmazonSQS.SendMessage", b"{not json"), 400),
            (post("AmazonSQS.SendMessage", {"QueueUrl": url + "x", "MessageBody": "a"}), 400),
            (send(url, "two"), 200),
        ]:
            line.send(request)
            reply = line.reply()
            assert reply.status == status
            assert reply.headers["content-type"] == "application/x-amz-json-1.0"
            assert "connection" not in reply.headers
            if status != 200:
                code, fault = reply.headers["x-amzn-query-error"].split(";")
                assert code and fault == "Sender"
            ids.add(reply.headers["x-amzn-requestid"])
    assert len(ids) == 5
    assert message_count(daemon, url) == 2


def test_header_names_have_no_case(daemon):
    url = make_queue(daemon)
    body = json.dumps({"QueueUrl": url, "MessageBody": "a"}).encode()
    with Line(daemon) as line:
        line.send(
            b"POST / HTTP/1.1\r\nhOST: localhost\r\nx-AMZ-target: AmazonSQS.SendMessage\r\n"
            b"CONTENT-TYPE: application/x-amz-json-1.0\r\ncontent-LENGTH: %d\r\n\r\n" % len(body),
            body,
        )
        assert line.reply().json()["MD5OfMessageBody"] == md5("a")


def test_http_1_0_closes_unless_asked_to_stay(daemon):
    with Line(daemon) as line:
        line.send(get("/health", version="1.0"))
        assert line.reply().headers["connection"] == "close"
        assert line.is_ended()
    with Line(daemon) as line:
        for _ in range(3):
            line.send(get("/health", "Connection: keep-alive", version="1.0"))
            assert line.reply().headers["connection"] == "keep-alive"


def test_connection_close_is_honoured(daemon):
    url = make_queue(daemon)
    with Line(daemon) as line:
        line.send(post("AmazonSQS.SendMessage", {"QueueUrl": url, "MessageBody": "a"}, "Connection: close"))
        reply = line.reply()
        assert reply.status == 200 and reply.headers["connection"] == "close"
        assert line.is_ended()


def test_a_head_request_gets_no_body(daemon):
    with Line(daemon) as line:
        line.send(b"HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n", get("/health"))
        reply = line.reply(has_body=False)
        assert reply.status == 200 and int(reply.headers["content-length"]) > 0
        assert line.reply().json()["status"] == "ok"


def test_unknown_paths_and_methods_are_refused_in_the_form_of_sqs(daemon):
    with Line(daemon) as line:
        for request in [
            b"PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
            b"OPTIONS / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"DELETE /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ]:
            line.send(request)
            reply = line.reply()
            assert (reply.status, reply.error) == (404, "NotFound")
        line.send(get("/no/such/page"))
        assert line.reply().status in (400, 404)
        line.send(get("/health"))
        assert line.reply().status == 200


# --- Order ------------------------------------------------------------------------------------------------------------


def test_replies_to_pipelined_requests_come_in_order(daemon):
    url = make_queue(daemon)
    texts = [f"message {i}" for i in range(500)]
    with Line(daemon) as line:
        requests = b"".join(
            send(url, text) + (get("/health") if i % 7 == 0 else b"") + (post("X.Y", {}) if i % 11 == 0 else b"")
            for i, text in enumerate(texts)
        )
        sender = threading.Thread(target=line.send, args=(requests,))
        sender.start()
        for i, text in enumerate(texts):
            assert line.reply().json()["MD5OfMessageBody"] == md5(text)
            if i % 7 == 0:
                assert line.reply().json()["status"] == "ok"
            if i % 11 == 0:
                assert line.reply().status == 400
        sender.join()
    assert message_count(daemon, url) == 500


def test_requests_cut_at_any_byte_are_understood(daemon):
    url = make_queue(daemon)
    request = send(url, "cut")
    with Line(daemon) as line:
        line.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for cut in range(1, len(request), 9):
            line.send(request[:cut])
            time.sleep(0.002)
            line.send(request[cut:])
            assert line.reply().json()["MD5OfMessageBody"] == md5("cut")


def test_a_request_behind_a_long_poll_waits_for_it(daemon):
    url = make_queue(daemon)
    with Line(daemon) as line:
        line.send(receive(url, 2), get("/health"))
        assert "Messages" not in line.reply().json()
        assert line.reply().json()["status"] == "ok"


def test_a_long_poll_is_answered_by_a_send_on_another_connection(daemon):
    url = make_queue(daemon)
    with Line(daemon) as waiting, Line(daemon) as other:
        waiting.send(receive(url, 20))
        time.sleep(0.2)
        begun = time.monotonic()
        other.send(send(url, "here"))
        assert other.reply().status == 200
        assert waiting.reply().json()["Messages"][0]["Body"] == "here"
        assert time.monotonic() - begun < 5 * PATIENCE


# --- Bodies -----------------------------------------------------------------------------------------------------------


def test_chunked_bodies_are_accepted(daemon):
    url = make_queue(daemon)
    body = json.dumps({"QueueUrl": url, "MessageBody": "x" * 30000}).encode()
    with Line(daemon) as line:
        for size in (1, 7, 1000, 100000):
            line.send(
                b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.SendMessage\r\n"
                b"Content-Type: application/x-amz-json-1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            line.send(
                *(b"%x\r\n%s\r\n" % (len(body[i : i + size]), body[i : i + size]) for i in range(0, len(body), size)))
            line.send(b"0\r\n\r\n")
            assert line.reply().json()["MD5OfMessageBody"] == md5("x" * 30000)


def test_a_client_that_asks_is_told_to_continue(daemon):
    url = make_queue(daemon)
    body = json.dumps({"QueueUrl": url, "MessageBody": "a"}).encode()
    request = post("AmazonSQS.SendMessage", body, "Expect: 100-continue")
    head = request[: -len(body)]
    with Line(daemon) as line:
        line.send(head)
        interim = line.reply()
        assert interim.status == 100 and interim.headers == {}
        line.send(body)
        assert line.reply().json()["MD5OfMessageBody"] == md5("a")
        line.send(request)  # the body comes unasked: no need to tell
        assert line.reply().status in (100, 200)


def test_large_requests_and_replies_arrive_whole(daemon):
    url = make_queue(daemon)
    text = "".join(chr(97 + i % 26) for i in range(250_000))
    with Line(daemon) as line:
        for _ in range(4):
            line.send(send(url, text))
            assert line.reply().json()["MD5OfMessageBody"] == md5(text)
        line.send(post("AmazonSQS.ReceiveMessage", {"QueueUrl": url, "MaxNumberOfMessages": 10}))
        messages = line.reply().json()["Messages"]
        assert messages and all(message["Body"] == text for message in messages)


# --- Limits -----------------------------------------------------------------------------------------------------------


JSON, XML = "application/x-amz-json-1.0", "text/xml"


def assert_refused(line, status, error, types=(JSON,)):
    reply = line.reply()
    assert (reply.status, reply.error) == (status, error)
    assert reply.headers["connection"] == "close"
    assert reply.headers["content-type"] in types
    assert line.is_ended()


def test_a_body_above_the_limit_is_refused_before_it_is_sent(daemon_factory):
    daemon = daemon_factory("--body-max", "100KiB").start()
    with Line(daemon) as line:
        line.send(post("AmazonSQS.SendMessage", b"", "X: y").replace(b"Content-Length: 0", b"Content-Length: 102401"))
        assert_refused(line, 413, "RequestTooLarge")
    with Line(daemon) as line:
        line.send(
            post("AmazonSQS.SendMessage", b"", "Expect: 100-continue").replace(
                b"Content-Length: 0", b"Content-Length: 99999999"
            )
        )
        assert_refused(line, 413, "RequestTooLarge")
    with Line(daemon) as line:
        line.send(
            b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"3000\r\n" + b"x" * 0x3000 + b"\r\n",
        )
        for _ in range(9):
            line.send(b"3000\r\n" + b"x" * 0x3000 + b"\r\n")
        assert_refused(line, 413, "RequestTooLarge", [XML])  # the head was read, and names no target
    assert daemon.stop() == 0


def test_a_client_that_sends_on_still_reads_why_it_was_refused(daemon_factory):
    daemon = daemon_factory("--body-max", "1KiB").start()
    with Line(daemon) as line:
        line.send(post("AmazonSQS.SendMessage", b"x" * 3_000_000))
        assert_refused(line, 413, "RequestTooLarge")


def test_a_header_above_the_limit_is_refused(daemon):
    with Line(daemon) as line:
        line.send(get("/health", "X: " + "y" * 15000))
        assert line.reply().status == 200
        line.send(get("/health", "X: " + "y" * 17000))
        assert_refused(line, 413, "RequestTooLarge")
    with Line(daemon) as line:
        line.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 5000)
        assert_refused(line, 413, "RequestTooLarge")


def test_connections_above_the_limit_get_503(daemon_factory):
    daemon = daemon_factory("--connections-max", "10").start()
    lines = [Line(daemon) for _ in range(10)]
    for line in lines:
        line.send(get("/health"))
        assert line.reply().status == 200
    with Line(daemon) as line:
        assert_refused(line, 503, "ServiceUnavailable")
    lines.pop().socket.close()

    def is_served():
        with Line(daemon) as line:
            line.send(get("/health"))
            return line.reply().status == 200

    wait_until(is_served, what="a connection instead of the closed one")
    for line in lines:
        line.send(get("/health"))
        assert line.reply().status == 200
        line.socket.close()


# --- Patience ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def impatient(daemon_factory):
    """Starts a daemon with one short limit. The others stay as they are: what a test does beside may take its time."""
    started = []

    def start(option, value):
        started.append(daemon_factory(option, value).start())
        return started[-1]

    yield start
    for daemon in started:
        assert daemon.stop() == 0


def test_an_idle_connection_is_closed(impatient):
    daemon = impatient("--idle-timeout", "1s")
    with Line(daemon) as line:
        line.send(get("/health"))
        assert line.reply().status == 200
        begun = time.monotonic()
        assert line.is_ended()
        assert 0.5 < time.monotonic() - begun < 3 * PATIENCE
    with Line(daemon) as line:
        assert line.is_ended()


def test_a_slow_sender_is_cut_off_however_steadily_it_sends(impatient):
    daemon = impatient("--request-timeout", "2s")
    request = post("AmazonSQS.ListQueues", b"{}" + b" " * 5000)
    with Line(daemon) as line:
        begun = time.monotonic()
        with pytest.raises(OSError):
            for i in range(len(request)):
                line.send(request[i : i + 1])
                time.sleep(0.05)
        assert 1.5 < time.monotonic() - begun < 6 * PATIENCE
    assert daemon.request("GET", "/health")[0] == 200


def test_a_slow_reader_is_cut_off(impatient):
    daemon = impatient("--reply-timeout", "2s")
    url = make_queue(daemon)
    for _ in range(10):
        assert daemon.call("AmazonSQS.SendMessage", {"QueueUrl": url, "MessageBody": "x" * 250_000})[0] == 200
    request = post(
        "AmazonSQS.ReceiveMessage", {"QueueUrl": url, "MaxNumberOfMessages": 10, "VisibilityTimeout": 0}
    )
    with Line(daemon, receive_buffer=4096) as line:
        line.send(request * 20)
        wait_until(lambda: timeouts(daemon, "reply") == 1, what="the cut")
    assert daemon.request("GET", "/health")[0] == 200


def timeouts(daemon, kind):
    return metric(daemon, f'tally_http_timeouts_total{{kind="{kind}"}}')


def test_a_long_poll_is_not_idle(impatient):
    daemon = impatient("--idle-timeout", "1s")
    url = make_queue(daemon)
    with Line(daemon) as line:
        line.send(receive(url, 4))
        begun = time.monotonic()
        assert line.reply().status == 200
        assert time.monotonic() - begun > 3.5


# --- Clients that go --------------------------------------------------------------------------------------------------


def test_a_half_closed_connection_gets_what_it_asked_for(daemon):
    url = make_queue(daemon)
    with Line(daemon) as line:
        line.send(*(send(url, str(i)) for i in range(100)))
        line.socket.shutdown(socket.SHUT_WR)
        for i in range(100):
            assert line.reply().json()["MD5OfMessageBody"] == md5(str(i))
        assert line.is_ended()


def test_sends_go_between_many_walks_and_half_closed_clients_get_theirs(daemon):
    """All requests are there before the daemon reads any, the send as the last. Walks that begin behind it list what it
    sent; without turns all would begin before it."""
    url, count = make_queue(daemon), 60
    entries = [{"Id": str(i), "MessageBody": "m", "DelaySeconds": 900} for i in range(10)]
    batch = post("AmazonSQS.SendMessageBatch", {"QueueUrl": url, "Entries": entries})
    walk = post("Tally.ListMessages", {"QueueUrl": url, "State": "ready"})
    lines = [Line(daemon) for _ in range(count + 1)]
    for _ in range(10):
        lines[0].send(batch * 50)
        assert all(lines[0].reply().status == 200 for _ in range(50))
    # The first asks once more, because the daemon looks first at the connection that it answered last.
    for line in [*lines, lines[0]]:
        line.send(get("/live"))
        assert line.reply().status == 200
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        for line in lines[:-1]:
            line.send(walk)
            line.socket.shutdown(socket.SHUT_WR)
        lines[-1].send(send(url, "between"))
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    listed = [len(line.reply().json()["Messages"]) for line in lines[:-1]]
    assert all(line.is_ended() for line in lines[:-1])
    assert lines[-1].reply().status == 200
    assert listed == sorted(listed) and listed[0] == 0 and listed[-1] == 1, listed
    for line in lines:
        line.socket.close()


def test_a_receiver_that_has_gone_takes_no_message(daemon):
    url = make_queue(daemon)
    for way in ("close", "shutdown", "reset"):
        line = Line(daemon)
        line.send(receive(url, 20))
        time.sleep(0.2)
        if way == "shutdown":
            line.socket.shutdown(socket.SHUT_WR)
            assert line.is_ended()
        if way == "reset":
            line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        line.socket.close()
    time.sleep(0.2)
    assert daemon.call("AmazonSQS.SendMessage", {"QueueUrl": url, "MessageBody": "a"})[0] == 200
    time.sleep(0.2)
    assert message_count(daemon, url) == 1


def test_clients_that_go_in_the_middle_of_anything_leave_nothing_behind(daemon):
    url = make_queue(daemon)
    request = send(url, "gone")
    for i in range(300):
        line = Line(daemon)
        kind = i % 5
        if kind == 0:
            line.send(request[: i % len(request)])
        elif kind == 1:
            line.send(request * (1 + i % 20))
        elif kind == 2:
            line.send(request, receive(url, 20))
        elif kind == 3:
            line.send(b"\0" * i)
        if i % 2 == 0:
            line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        line.socket.close()
    wait_until(lambda: metric(daemon, "tally_http_connections") <= 2, what="the end of the connections")
    wait_until(lambda: metric(daemon, "tally_http_replies_held") == 0, what="the end of the held replies")
    assert daemon.call("AmazonSQS.ListQueues")[0] == 200


# --- Smuggling --------------------------------------------------------------------------------------------------------

CHUNKED = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"

SMUGGLED = {
    "both lengths": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n"
    b"\r\n0\r\n\r\nG",
    "both lengths, turned": b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 6\r\n"
    b"\r\n0\r\n\r\nG",
    "two lengths": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nGET /",
    "blank before the colon": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length : 5\r\n\r\nGET /",
    "bare CR": b"POST / HTTP/1.1\r\nHost: localhost\r\nX: y\rContent-Length: 5\r\n\r\nGET /",
    "bare LF": b"POST / HTTP/1.1\r\nHost: localhost\nContent-Length: 5\r\n\r\nGET /",
    "folded": b"POST / HTTP/1.1\r\nHost: localhost\r\nX: y\r\n Content-Length: 5\r\n\r\nGET /",
    "other coding": b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "two codings": b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "negative length": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "chunk without end": CHUNKED + b"3\r\nabcXX0\r\n\r\n",
    "chunk extension": CHUNKED + b"3;a\nb\r\nabc\r\n0\r\n\r\n",
    "trailer": CHUNKED + b"0\r\nContent-Length: 5\r\n\r\nGET /",
    "two hosts": b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: b\r\n\r\n",
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "the same coding twice": b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
    b"chunked\r\n\r\n0\r\n\r\n",
    "coding hidden by a tab": b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    "coding in quotes": b'POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n',
    "empty coding": b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n",
    "folded coding": b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "coding and blank before the colon": b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding : chunked\r\n"
    b"\r\n0\r\n\r\n",
    "tab before the colon": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length\t: 5\r\n\r\nGET /",
    "blank before the first field": b"POST / HTTP/1.1\r\n Host: localhost\r\nContent-Length: 5\r\n\r\nGET /",
    "the same length twice": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: "
    b"5\r\n\r\nGET /",
    "list of lengths": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5, 5\r\n\r\nGET /",
    "length with a sign": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: +5\r\n\r\nGET /",
    "length in hexadecimal": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x5\r\n\r\nGET /",
    "empty length": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length:\r\n\r\nGET /",
    "length of two numbers": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5 6\r\n\r\nGET /",
    "length beyond 64 bits": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18446744073709551621\r\n\r\nGET /",
    "NUL in a value": b"POST / HTTP/1.1\r\nHost: localhost\r\nX: y\0z\r\nContent-Length: 0\r\n\r\n",
    "NUL in a name": b"POST / HTTP/1.1\r\nHost: localhost\r\nX\0: y\r\nContent-Length: 0\r\n\r\n",
    "field without a colon": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length\r\n\r\n",
    "field without a name": b"POST / HTTP/1.1\r\nHost: localhost\r\n: 5\r\n\r\n",
    "bare CR at the end of a line": b"POST / HTTP/1.1\r\nHost: localhost\rContent-Length: 5\r\n\r\nGET /",
    "bare LF before the end": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\n\r\nGET /",
    "CR CR LF": b"POST / HTTP/1.1\r\nHost: localhost\r\r\nContent-Length: 5\r\n\r\nGET /",
    "chunk size beyond 64 bits": CHUNKED + b"10000000000000003\r\nabc\r\n0\r\n\r\n",
    "chunk size with a sign": CHUNKED + b"+3\r\nabc\r\n0\r\n\r\n",
    "chunk size with 0x": CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n",
    "no chunk size": CHUNKED + b"\r\nabc\r\n0\r\n\r\n",
    "blank before a chunk size": CHUNKED + b" 3\r\nabc\r\n0\r\n\r\n",
    "bare LF behind a chunk size": CHUNKED + b"3\nabc\r\n0\r\n\r\n",
    "bare LF behind a chunk": CHUNKED + b"3\r\nabc\n0\r\n\r\n",
    "bare CR behind a chunk size": CHUNKED + b"3\rabc\r\n0\r\n\r\n",
    "bare LF behind the last size": CHUNKED + b"0\n\r\n",
    "bare LF behind the last chunk": CHUNKED + b"3\r\nabc\r\n0\r\n\n",
    "bare LF behind a body without chunks": CHUNKED + b"0\r\n\n",
    "bare CR behind the last chunk": CHUNKED + b"0\r\n\r",
    "CR CR LF behind the last chunk": CHUNKED + b"0\r\n\r\r\n",
    "blank in the target": b"POST /a b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
    "version 1.10": b"POST / HTTP/1.10\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
    "coding in HTTP/1.0": b"POST / HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nTransfer-Encoding: "
    b"chunked\r\n\r\n0\r\n\r\n",
    "not HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


def is_refused(daemon, request):
    """It is answered with 400, what stands before it as ever, and what stands behind it not at all."""
    with Line(daemon) as line:
        line.send(get("/health"), request, get("/health"))
        assert line.reply().status == 200
        reply = line.reply()
        is_last = reply.headers.get("connection") == "close" and line.is_ended()
        return (reply.status, is_last) == (400, True) and reply.error == "MalformedRequest"


def test_what_two_readers_could_read_differently_is_refused(daemon):
    assert [name for name, request in SMUGGLED.items() if not is_refused(daemon, request)] == []


# --- The end ----------------------------------------------------------------------------------------------------------


def test_a_clean_stop_answers_who_waits_and_refuses_nobody_half_way(daemon):
    url = make_queue(daemon)
    lines = [Line(daemon) for _ in range(20)]
    idle = Line(daemon)
    for line in lines:
        line.send(receive(url, 20))
    wait_until(lambda: metric(daemon, "tally_http_connections") >= 21, what="the connections")
    time.sleep(0.2)
    begun = time.monotonic()
    assert daemon.stop() == 0
    assert time.monotonic() - begun < 4 * PATIENCE
    for line in lines:
        reply = line.reply()
        assert reply.status == 200 and "Messages" not in (reply.json() if reply.body else {})
        assert reply.headers["connection"] == "close"
        assert line.is_ended()
    assert idle.is_ended()


def test_what_was_acknowledged_before_a_stop_is_there_after_it(daemon):
    url = make_queue(daemon)
    acknowledged = [0]

    def hammer():
        try:
            with Line(daemon) as line:
                while True:
                    line.send(send(url, "a"))
                    if line.reply().status != 200:
                        return
                    acknowledged[0] += 1
        except (AssertionError, OSError):
            return

    threads = [threading.Thread(target=hammer) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    assert daemon.stop() == 0
    for thread in threads:
        thread.join()
    daemon.start()
    assert acknowledged[0] > 0
    # A request whose reply was under way when the stop came may have been done too.
    assert acknowledged[0] <= message_count(daemon, url) <= acknowledged[0] + 4
