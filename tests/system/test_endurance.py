"""The HTTP front under crowds that want it no good: memory stays bounded, and whoever else comes is served in time.

Beside each crowd a bystander, in a process of its own, asks and sends all the time; its slowest answers are the
measure. Sizes are those of TALLY_TEST_SCALE=1; the numbers of resident memory count only there, and not under a
sanitizer. """

import http.client
import json
import multiprocessing
import os
import re
import resource
import select
import socket
import time

import pytest
from certificates import Certificate, TrustingContext
from conftest import IS_BARE, PATIENCE, free_port, status_bytes, wait_until
from test_http import Line, get, make_queue, metric, post, send, timeouts
from wire import SCALE, scaled

MIB = 1 << 20

# The slowest of a hundred answers while a crowd is there. Disks of shared machines take tens of milliseconds at times.
P99_S = 0.5 * (1 if IS_BARE else 20)


@pytest.fixture(autouse=True)
def many_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def descriptors():
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 500


def resident(daemon):
    """Bytes of memory that the daemon has."""
    return status_bytes(daemon, "VmRSS")


def delay_of_machine(file):
    """How long the machine makes one wait for a core and for the disk: what a sleep takes too long, and a sync."""
    begun = time.monotonic()
    time.sleep(0.002)
    os.pwrite(file, b"x" * 512, 0)
    os.fdatasync(file)
    return time.monotonic() - begun - 0.002


def stand_by(port, url, folder, has_ended, results):
    """What the bystander does: how long each of its requests took, and how long the machine made it wait behind each,
    or what went wrong."""
    latencies, delays = [], []
    probe = os.open(folder / "probe", os.O_CREAT | os.O_WRONLY)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30 * PATIENCE)
        send_headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "AmazonSQS.SendMessage"}
        body = json.dumps({"QueueUrl": url, "MessageBody": "bystander"})
        while not has_ended.is_set() or len(latencies) < 200:
            for request in (("GET", "/health"), ("POST", "/", body, send_headers)):
                begun = time.monotonic()
                connection.request(*request)
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 200
                latencies.append(time.monotonic() - begun)
            delays.append(delay_of_machine(probe))
        results.put((sorted(latencies), sorted(delays)))
    except Exception as error:
        results.put(repr(error))


class Bystander:
    """Asks as long as the block lasts; at its end every answer must have come, and nearly all of them soon."""

    def __init__(self, daemon, p99_s=P99_S):
        self.p99_s = p99_s
        context = multiprocessing.get_context("fork")
        url = make_queue(daemon, "bystander")
        self.has_ended, self.results = context.Event(), context.Queue()
        self.process = context.Process(
            target=stand_by, args=(daemon.port, url, daemon.folder, self.has_ended, self.results), daemon=True)
        self.process.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.has_ended.set()
        latencies = self.results.get(timeout=60 * PATIENCE)
        self.process.join()
        if kind is None:
            assert isinstance(latencies, tuple), latencies
            latencies, delays = latencies
            p99 = latencies[len(latencies) * 99 // 100]
            # Where more want a core than there are, all takes longer; and a request makes several wait in turn.
            crowd = max(1, os.getloadavg()[0] / os.cpu_count())
            allowed = self.p99_s * crowd + 8 * delays[len(delays) * 99 // 100]
            print(f"bystander: {len(latencies)} requests, p50 {latencies[len(latencies) // 2] * 1000:.1f} ms, "
                  f"p99 {p99 * 1000:.1f} ms")
            assert p99 < allowed, f"p99 {p99:.3f} s of {len(latencies)} requests, allowed {allowed:.3f} s"


def connect(port, count):
    lines = []
    for _ in range(count):
        line = socket.create_connection(("127.0.0.1", port), 20 * PATIENCE)
        lines.append(line)
    return lines


def close(lines):
    for line in lines:
        line.close()


def select_readable(lines):
    """Those that have something to read; any number of them."""
    poll = select.poll()
    by_number = {line.fileno(): line for line in lines}
    for number in by_number:
        poll.register(number, select.POLLIN)
    return [by_number[number] for number, _ in poll.poll(0)]


def assert_bounded(daemon, before, limit, what):
    grown = resident(daemon) - before
    print(f"{what}: resident memory grew by {grown / MIB:.1f} MiB")
    if IS_BARE:
        assert grown < limit, f"{what}: {grown / MIB:.1f} MiB more than before"


# --- Idle connections -------------------------------------------------------------------------------------------------


def test_ten_thousand_idle_connections_disturb_nobody(daemon_factory):
    count = min(scaled(10_000), descriptors())
    daemon = daemon_factory("--connections-max", count + 100).start()
    before = resident(daemon)
    with Bystander(daemon):
        lines = connect(daemon.port, count)
        for line in lines[::2]:  # half of them have been served, half never said a word
            line.sendall(get("/health"))
        for line in lines[::2]:
            assert line.recv(4096).startswith(b"HTTP/1.1 200 OK")
        assert metric(daemon, "tally_http_connections") >= count
        assert_bounded(daemon, before, 24 * MIB, f"{count} idle connections")
        time.sleep(2 * SCALE)
    for line in lines[:: max(1, count // 100)]:
        line.sendall(get("/health"))
        assert line.recv(4096).startswith(b"HTTP/1.1 200 OK")
    close(lines)
    wait_until(lambda: metric(daemon, "tally_http_connections") == 1, what="the end of the connections")
    assert daemon.stop() == 0


def test_a_thousand_idle_tls_connections_disturb_nobody(daemon_factory, tmp_path):
    count = min(scaled(1000), descriptors())
    certificate = Certificate(tmp_path)
    daemon = daemon_factory(*certificate.options(free_port())).start()
    port = int(daemon.ready_line.split("https://127.0.0.1:")[1].split(" ")[0])
    context = TrustingContext(certificate)
    before = resident(daemon)
    with Bystander(daemon):
        lines = [context.wrap_socket(line) for line in connect(port, count)]
        for line in lines:
            line.sendall(get("/health"))
            assert line.recv(4096).startswith(b"HTTP/1.1 200 OK")
        assert_bounded(daemon, before, 100 * MIB, f"{count} idle TLS connections")
        time.sleep(1 * SCALE)
    close(lines)
    wait_until(lambda: metric(daemon, "tally_http_connections") == 1, what="the end of the connections")
    assert metric(daemon, "tally_tls_handshakes_failed_total") == 0
    assert daemon.stop() == 0


def test_thousands_of_handshakes_that_never_end_disturb_nobody(daemon_factory, tmp_path):
    count = min(scaled(2000), descriptors())
    certificate = Certificate(tmp_path)
    daemon = daemon_factory("--request-timeout", "3s", *certificate.options(free_port())).start()
    port = int(daemon.ready_line.split("https://127.0.0.1:")[1].split(" ")[0])
    before = resident(daemon)
    with Bystander(daemon):
        lines = connect(port, count)
        for line in lines[::2]:
            line.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        assert_bounded(daemon, before, 150 * MIB, f"{count} half handshakes")
        wait_until(lambda: metric(daemon, "tally_tls_handshakes_failed_total") == count,
                   what="the end of the handshakes")
        wait_until(lambda: metric(daemon, "tally_http_connections") <= 2, what="the end of the connections")
    assert timeouts(daemon, "request") == count
    close(lines)
    assert daemon.stop() == 0


# --- Slow senders, slow readers ---------------------------------------------------------------------------------------


def test_thousands_of_senders_of_one_byte_at_a_time_are_all_served(daemon_factory):
    count = min(scaled(2000), descriptors())
    daemon = daemon_factory("--request-timeout", "300s").start()
    url = make_queue(daemon)
    request = send(url, "slow")
    before = resident(daemon)
    with Bystander(daemon):
        lines = connect(daemon.port, count)
        for line in lines:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        steps = [request[i : i + 1] for i in range(40)] + [request[40:-20]] + [
            request[i : i + 1] for i in range(-20, -1)]
        for number, piece in enumerate([*steps, request[-1:]]):
            for line in lines:
                line.send(piece)
            if number == 30:
                assert_bounded(daemon, before, count * 20 * 1024 + 16 * MIB, f"{count} slow senders")
        for line in lines:
            assert line.recv(4096).startswith(b"HTTP/1.1 200 OK")
    close(lines)
    assert daemon.stop() == 0


def test_slow_senders_without_end_are_cut_off_one_by_one(daemon_factory):
    """Each sends steadily, but a byte at a time, so that no request is ever whole."""
    count = min(scaled(2000), descriptors())
    daemon = daemon_factory("--request-timeout", "3s").start()
    with Bystander(daemon):
        lines = connect(daemon.port, count)
        deadline = time.monotonic() + 30 * PATIENCE
        while lines and time.monotonic() < deadline:
            left = []
            for line in lines:
                try:
                    line.send(b"P")
                    left.append(line)
                except OSError:
                    line.close()
            lines = left
            time.sleep(0.2)
        assert not lines
    assert timeouts(daemon, "request") + metric(daemon, "tally_http_requests_refused_total") == count
    assert daemon.stop() == 0


def test_bodies_that_stop_half_way_cost_what_has_come(daemon_factory):
    count = scaled(300)
    daemon = daemon_factory("--request-timeout", "60s").start()
    before = resident(daemon)
    head = post("AmazonSQS.SendMessage", b"").replace(b"Content-Length: 0", b"Content-Length: 8000000")
    with Bystander(daemon):
        lines = connect(daemon.port, count)
        for line in lines:
            line.sendall(head + b"x" * 500_000)
        wait_until(lambda: metric(daemon, "tally_http_received_bytes_total") >= count * 500_000, what="the bytes")
        assert_bounded(daemon, before, count * 1_300_000 + 32 * MIB, f"{count} half bodies")
    close(lines)
    wait_until(lambda: metric(daemon, "tally_http_input_bytes") < MIB, what="the end of the bodies")
    assert daemon.stop() == 0


def test_requests_that_never_come_whole_have_a_budget_of_memory(daemon_factory):
    """A large body reserves 1 MiB when it begins; when the budget is reserved, the next ones are refused."""
    count = 200
    daemon = daemon_factory("--request-timeout", "60s", "--input-memory-max", "128MiB").start()
    head = post("AmazonSQS.SendMessage", b"").replace(b"Content-Length: 0", b"Content-Length: 8000000")
    with Bystander(daemon):
        lines = connect(daemon.port, count)
        for line in lines:
            line.sendall(head + b"x" * 20_000)
        wait_until(lambda: metric(daemon, "tally_http_received_bytes_total") >= count * 20_000, what="the bytes")
        assert metric(daemon, "tally_http_input_bytes") <= 130 * MIB
        answered = select_readable(lines)
        assert len(answered) >= count - 132
        for line in answered:
            assert line.recv(4096).startswith(b"HTTP/1.1 503 ")
        received = metric(daemon, "tally_http_received_bytes_total")
        for line in answered:
            line.sendall(b"x" * 20_000)  # what comes after the answer is thrown away
        wait_until(lambda: metric(daemon, "tally_http_received_bytes_total") >= received + len(answered) * 20_000,
                   what="the rest")
        assert metric(daemon, "tally_http_input_bytes") <= 130 * MIB
    close(lines)
    assert daemon.stop() == 0


def test_what_comes_behind_a_request_has_its_time_when_the_reply_is_taken(daemon_factory):
    """A client that took three seconds for its reply is not cut off for the next request, of which the first bytes came
    before."""
    daemon = daemon_factory("--request-timeout", "2s").start()
    request = receive_ten(queue_of_megabytes(daemon, count=4))  # small enough that the next one is read
    with Line(daemon, receive_buffer=4096) as line:
        line.send(request + request[:100])
        time.sleep(3)
        assert min(receive_everything([line])) > 4_000_000
        time.sleep(1.2)  # so that those whose time is over have been looked for
        line.send(request[100:])
        assert min(receive_everything([line])) > 4_000_000
    assert timeouts(daemon, "request") == 0
    assert daemon.stop() == 0


def test_readers_of_large_replies_who_do_not_read_are_cut_off(daemon_factory):
    count = scaled(100, least=4)
    daemon = daemon_factory("--reply-timeout", "5s").start()
    url = make_queue(daemon)
    for _ in range(10):
        assert daemon.call("AmazonSQS.SendMessage", {"QueueUrl": url, "MessageBody": "x" * 100_000})[0] == 200
    request = post("AmazonSQS.ReceiveMessage", {"QueueUrl": url, "MaxNumberOfMessages": 10, "VisibilityTimeout": 0})
    before = resident(daemon)
    with Bystander(daemon):
        lines = [Line(daemon, receive_buffer=4096) for _ in range(count)]
        for line in lines:
            line.send(request * 20)
        wait_until(lambda: metric(daemon, "tally_http_requests_total") >= count, what="the requests")
        time.sleep(1)
        assert_bounded(daemon, before, count * 7 * MIB + 32 * MIB, f"{count} readers that do not read")
        wait_until(lambda: timeouts(daemon, "reply") == count, seconds=40, what="the cuts")
    for line in lines:
        line.socket.close()
    assert daemon.stop() == 0


def receive_everything(lines, seconds=60):
    """The bodies' sizes of one reply for each of them, all read as they come."""
    poll = select.poll()
    lines = {line.socket.fileno(): line.socket for line in lines}
    for number, line in lines.items():
        line.setblocking(False)
        poll.register(number, select.POLLIN)
    heads = dict.fromkeys(lines, b"")
    sizes, missing, deadline = {}, dict.fromkeys(lines), time.monotonic() + seconds * PATIENCE
    while missing:
        assert time.monotonic() < deadline, f"{len(missing)} of {len(lines)} wait for their replies"
        for number, _ in poll.poll(100):
            piece = lines[number].recv(1 << 20)
            assert piece, "cut off"
            if number not in sizes:
                heads[number] += piece
                head, end, piece = heads[number].partition(b"\r\n\r\n")
                if not end:
                    continue
                assert head.startswith(b"HTTP/1.1 200 "), head
                sizes[number] = missing[number] = int(re.search(rb"Content-Length: (\d+)", head)[1])
            missing[number] -= len(piece)
            if missing[number] == 0:
                del missing[number]
    return list(sizes.values())


def forget_peak(daemon):
    """What assert_peak_bounded() looks at is what the daemon takes from now on."""
    with open(f"/proc/{daemon.pid}/clear_refs", "w") as file:
        file.write("5")


def assert_peak_bounded(daemon, before, limit, what):
    peak = status_bytes(daemon, "VmHWM")
    print(f"{what}: resident memory grew by at most {(peak - before) / MIB:.1f} MiB")
    if IS_BARE:
        assert peak - before < limit, f"{what}: {(peak - before) / MIB:.1f} MiB more than before"


def replies_max(budget):
    """What the daemon may take for replies: the budget; one reply that was begun before it was spent (10 MB, in a
    buffer of 16 MiB) and its copy for the socket; a quarter for the gaps that the allocator leaves between megabytes;
    and what the rest of the daemon does."""
    return budget + (16 + 10) * MIB + budget // 4 + 8 * MIB


def queue_of_megabytes(daemon, count=10):
    url = make_queue(daemon)
    for _ in range(count):
        assert daemon.call("AmazonSQS.SendMessage", {"QueueUrl": url, "MessageBody": "x" * 1_000_000})[0] == 200
    return url


def receive_ten(url, **more):
    return post("AmazonSQS.ReceiveMessage",
                {"QueueUrl": url, "MaxNumberOfMessages": 10, "VisibilityTimeout": 0, **more})


def test_replies_asked_for_at_once_wait_for_each_other(daemon_factory):
    """All together are many times the budget; each comes whole, and nobody is refused."""
    count = scaled(60, least=20)
    daemon = daemon_factory("--reply-memory-max", "32MiB").start()
    request = receive_ten(queue_of_megabytes(daemon))
    with Line(daemon) as line:
        line.send(request)
        receive_everything([line])
    before = resident(daemon)
    forget_peak(daemon)
    lines = [Line(daemon) for _ in range(count)]
    for line in lines:
        line.send(request)
    sizes = receive_everything(lines)
    assert min(sizes) > 10_000_000
    assert_peak_bounded(daemon, before, replies_max(32 * MIB), f"{count} receives of 10 MB")
    wait_until(lambda: metric(daemon, "tally_http_reply_bytes") < MIB, what="the end of the replies")
    for line in lines:
        line.socket.close()
    assert daemon.stop() == 0


def test_receives_that_wait_are_answered_as_their_replies_have_room(daemon_factory):
    """One message of a megabyte after another, shown again at once, answers all who wait for it: not all of them in one
    moment."""
    count = scaled(200, least=60)
    daemon = daemon_factory("--reply-memory-max", "32MiB").start()
    url = make_queue(daemon)
    lines = [Line(daemon) for _ in range(count)]
    for line in lines:
        line.send(receive_ten(url, WaitTimeSeconds=20))
    wait_until(lambda: metric(daemon, "tally_http_requests_total") > count, what="the requests")
    before = resident(daemon)
    forget_peak(daemon)
    assert daemon.call("AmazonSQS.SendMessage", {"QueueUrl": url, "MessageBody": "x" * 1_000_000})[0] == 200
    assert min(receive_everything(lines)) > 1_000_000
    assert_peak_bounded(daemon, before, replies_max(32 * MIB), f"{count} waiting receives of 1 MB")
    for line in lines:
        line.socket.close()
    assert daemon.stop() == 0


def test_a_reply_larger_than_the_budget_is_given_to_whoever_is_alone(daemon_factory):
    daemon = daemon_factory("--reply-memory-max", "1MiB", "--input-memory-max", "1MiB").start()
    url = make_queue(daemon)
    for _ in range(10):
        body = {"QueueUrl": url, "MessageBody": "x" * 1_000_000, "Ignored": "y" * 6_000_000}
        assert daemon.call("AmazonSQS.SendMessage", body)[0] == 200
    with Line(daemon, receive_buffer=4096) as line:
        line.send(receive_ten(url))
        time.sleep(2.5)  # longer than those are given whom others wait for
        assert min(receive_everything([line])) > 10_000_000
    assert timeouts(daemon, "reply") == 0
    assert daemon.stop() == 0


def test_clients_that_go_while_they_wait_for_memory_leave_nothing_behind(daemon_factory):
    daemon = daemon_factory("--reply-memory-max", "1MiB", "--reply-timeout", "300s", "--stop-timeout", "1s").start()
    request = receive_ten(queue_of_megabytes(daemon))

    def crowd():
        lines = [Line(daemon, receive_buffer=4096) for _ in range(20)]
        for line in lines:
            line.send(request * 3)  # the first is answered, the others wait for who doesn't read
        wait_until(lambda: metric(daemon, "tally_http_reply_bytes") > MIB, what="a reply that is not taken")
        return lines

    for line in crowd():
        line.socket.close()
    wait_until(lambda: metric(daemon, "tally_http_connections") == 1, what="the end of the connections")
    assert metric(daemon, "tally_http_reply_bytes") < MIB
    crowd()
    assert daemon.stop() == 0


@pytest.mark.parametrize("more", [0, 40_000], ids=["short", "as large as its buffer"])
def test_a_client_that_goes_while_it_waits_for_memory_is_given_no_messages(daemon_factory, more):
    """Else they would be in the hands of nobody until their visibility timeout, and a FIFO queue's group would stand
    still."""
    daemon = daemon_factory("--reply-memory-max", "1MiB", "--reply-timeout", "300s").start()
    large, url = queue_of_megabytes(daemon), make_queue(daemon, "waited-for")
    slow = Line(daemon, receive_buffer=4096)
    slow.send(receive_ten(large))
    wait_until(lambda: metric(daemon, "tally_http_reply_bytes") > MIB, what="a reply that is not taken")
    assert daemon.call("AmazonSQS.SendMessage", {"QueueUrl": url, "MessageBody": "x"})[0] == 200
    gone = Line(daemon)
    gone.send(receive_ten(url, VisibilityTimeout=300, Ignored="y" * more))
    wait_until(lambda: metric(daemon, "tally_http_connections") == 3, what="the request")
    gone.socket.close()
    wait_until(lambda: metric(daemon, "tally_http_connections") == 2, what="the end of the connection")
    slow.socket.close()
    wait_until(lambda: metric(daemon, "tally_http_reply_bytes") < MIB, what="room")
    status, answer = daemon.call("AmazonSQS.ReceiveMessage", {"QueueUrl": url})
    assert (status, [message["Body"] for message in answer["Messages"]]) == (200, ["x"])


BODY_MAX = 8 * MIB


def filled(begin, piece, end):
    """As large as a body may be."""
    return begin + piece * ((BODY_MAX - len(begin) - len(end)) // len(piece)) + end


@pytest.mark.parametrize(
    "headers, body",
    [
        ({"X-Amz-Target": "AmazonSQS.SendMessage"}, lambda: filled(b'{"a":[', b"1,", b"1]}")),
        ({"X-Amz-Target": "AmazonSQS.SendMessage"}, lambda: filled(b'{"a":', b"[", b"")),
        ({"Content-Type": "application/x-www-form-urlencoded"},
         lambda: filled(b"Action=SendMessage&MessageBody=", b"\x01", b"")),
    ],
    ids=["numbers", "brackets", "form"],
)
def test_a_request_takes_no_more_than_twenty_times_its_size_while_it_is_parsed(daemon, headers, body):
    before = resident(daemon)
    forget_peak(daemon)
    assert daemon.request("POST", "/", body(), headers)[0] == 400
    assert_peak_bounded(daemon, before, 20 * BODY_MAX, "a request of 8 MiB that is nothing but structure")
    if IS_BARE:
        assert resident(daemon) - before < 8 * MIB


def test_a_receive_that_waits_may_have_64_kib(daemon):
    """Whatever stands in it: it keeps its names only (test_limits.py)."""
    url = make_queue(daemon)
    ask = {"QueueUrl": url, "WaitTimeSeconds": 1}
    assert daemon.call("AmazonSQS.ReceiveMessage", {**ask, "MessageAttributeNames": ["x" * 60] * 990})[0] == 200
    body = json.dumps({**ask, "Ignored": [1] * 32000}, separators=(",", ":"))
    assert daemon.request("POST", "/", body, {"X-Amz-Target": "AmazonSQS.ReceiveMessage"})[0] == 200
    body = body.replace("[1,", "[1000,1000,1000,1000,1000,")
    status, _, answer = daemon.request("POST", "/", body + " " * 2000, {"X-Amz-Target": "AmazonSQS.ReceiveMessage"})
    assert (status, b"the limit is 65536" in answer) == (413, True)


@pytest.mark.skipif(not IS_BARE or SCALE < 0.5, reason="moves a gigabyte")
def test_replies_that_nobody_takes_have_a_budget_of_memory(daemon_factory):
    """The slow readers go long before their time is over, when others wait for the memory of their replies. Sends do
    not wait."""
    daemon = daemon_factory("--reply-timeout", "300s", "--reply-memory-max", "256MiB").start()
    request = receive_ten(queue_of_megabytes(daemon))
    before = resident(daemon)
    forget_peak(daemon)
    # A gigabyte of fresh memory is written meanwhile. There are machines that take a second for it.
    with Bystander(daemon, 3 * P99_S):
        lines = []
        for _ in range(100):  # 10 MB each
            line = Line(daemon, receive_buffer=4096)
            line.send(request)
            lines.append(line)
        wait_until(lambda: timeouts(daemon, "reply") >= 50, what="the cuts")
        wait_until(lambda: metric(daemon, "tally_http_reply_bytes") <= 256 * MIB, what="an end of the shortage")
    assert_peak_bounded(daemon, before, replies_max(256 * MIB), "1 GB of replies that nobody takes")
    for line in lines:
        line.socket.close()
    assert daemon.stop() == 0


# --- Floods -----------------------------------------------------------------------------------------------------------


def test_a_pipelined_flood_waits_for_its_reader(daemon_factory):
    """Nobody reads the replies, so the server stops reading the requests; then all are answered, in order."""
    count = scaled(200_000, least=2000)
    daemon = daemon_factory("--reply-timeout", "300s").start()
    before = resident(daemon)
    flood = get("/health") * 100
    with Bystander(daemon):
        line = socket.create_connection(("127.0.0.1", daemon.port), 60 * PATIENCE)
        line.setblocking(False)
        sent, quiet_since = 0, time.monotonic()
        total, replies = len(get("/health")) * count, 0
        while sent < total and time.monotonic() - quiet_since < 1:
            try:
                sent += line.send(flood[sent % len(get("/health")) :][: total - sent])
                quiet_since = time.monotonic()
            except BlockingIOError:
                time.sleep(0.01)
        assert_bounded(daemon, before, 16 * MIB, f"a flood of {sent} bytes")
        rest = b""
        while replies < count:
            wants_to_send = [line] if sent < total else []
            readable, writable, _ = select.select([line], wants_to_send, [], 30 * PATIENCE)
            assert readable or writable
            if writable:
                sent += line.send(flood[sent % len(get("/health")) :][: total - sent])
            if readable:
                data = line.recv(1 << 20)
                assert data
                replies += (rest + data).count(b"HTTP/1.1 200")
                rest = data[-11:]
        line.close()
    assert daemon.stop() == 0


def test_floods_of_sends_on_many_connections_are_all_answered(daemon_factory):
    connections, each = scaled(100, least=4), scaled(200, least=20)
    daemon = daemon_factory().start()
    url = make_queue(daemon)
    before = resident(daemon)
    with Bystander(daemon):
        lines = [Line(daemon, seconds=60) for _ in range(connections)]
        for line in lines:
            line.send(send(url, "flood") * each)
        for line in lines:
            for _ in range(each):
                assert line.reply().status == 200
            line.socket.close()
        assert_bounded(daemon, before, 64 * MIB, f"{connections * each} pipelined sends")
    assert daemon.stop() == 0


def test_a_flood_of_refused_requests_disturbs_nobody(daemon_factory):
    """Each costs a connection: half of them too large, half of them to be read in two ways."""
    daemon = daemon_factory().start()
    before = resident(daemon)
    smuggled = (
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG")
    too_large = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 5000
    with Bystander(daemon):
        for i in range(scaled(2000)):
            with Line(daemon) as line:
                line.send(smuggled if i % 2 == 0 else too_large)
                assert line.reply().status == (400 if i % 2 == 0 else 413)
        assert_bounded(daemon, before, 32 * MIB, "refused requests")
    wait_until(lambda: metric(daemon, "tally_http_connections") <= 1, what="the end of the connections")
    assert daemon.stop() == 0


# --- Bodies in pieces -------------------------------------------------------------------------------------------------


def test_clients_that_ask_to_continue_and_never_do_are_cut_off(daemon_factory):
    count = min(scaled(1000), descriptors())
    daemon = daemon_factory("--request-timeout", "3s").start()
    before = resident(daemon)
    head = post("AmazonSQS.SendMessage", b"", "Expect: 100-continue").replace(
        b"Content-Length: 0", b"Content-Length: 100000")
    with Bystander(daemon):
        lines = connect(daemon.port, count)
        for line in lines:
            line.sendall(head)
        for line in lines:
            assert line.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert_bounded(daemon, before, count * 120_000 + 16 * MIB, f"{count} clients that were told to continue")
        wait_until(lambda: timeouts(daemon, "request") == count, what="the cuts")
    close(lines)
    assert daemon.stop() == 0


def test_chunks_of_one_byte_cost_no_more_than_their_body(daemon_factory):
    count = scaled(100)
    daemon = daemon_factory().start()
    url = make_queue(daemon)
    body = json.dumps({"QueueUrl": url, "MessageBody": "x" * 20_000}).encode()
    head = (
        b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.SendMessage\r\n"
        b"Content-Type: application/x-amz-json-1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    before = resident(daemon)
    with Bystander(daemon):
        lines = [Line(daemon) for _ in range(count)]
        for line in lines:
            line.send(head + chunks)
        wait_until(lambda: metric(daemon, "tally_http_received_bytes_total") >= count * len(chunks), what="the chunks")
        assert_bounded(daemon, before, count * 64 * 1024 + 32 * MIB, f"{count} bodies in chunks of one byte")
        for line in lines:
            line.send(b"0\r\n\r\n")
            assert line.reply().status == 200
            line.socket.close()
    assert daemon.stop() == 0
