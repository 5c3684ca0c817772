"""What docs/reference/memory-and-disk.md says that connections, requests and replies take, held against the resident
memory of a real daemon under the loads that reach it. The numbers of a connection are read from that page, so that a
row that is not true fails here."""

import contextlib
import re
import socket
import ssl
import time
import urllib.parse

import pytest
from certificates import Certificate, TrustingContext
from conftest import ROOT, WRAPPER, free_port, wait_until
from disk import BrokenDisk
from pools import Pool
from test_endurance import IS_BARE, MIB, close, connect, many_descriptors, resident  # noqa: F401
from test_http import get, make_queue, metric, post
from wire import Connection, scaled

KIB = 1024
NUMBER = r"([0-9.]+) (KiB|MiB)"
UNITS = {"KiB": KIB, "MiB": MIB}

# What the process keeps ready for the next requests, and what lies between allocations.
SLACK = 4 * MIB

pytestmark = pytest.mark.skipif(bool(WRAPPER), reason="hundreds of connections at once take valgrind minutes")


def stated(row):
    """Bytes that the table of connections in docs/reference/memory-and-disk.md says for the row that begins so."""
    text = (ROOT / "docs" / "reference" / "memory-and-disk.md").read_text()
    found = re.search(rf"^\| {re.escape(row)}[^|]*\| {NUMBER}", text, re.MULTILINE)
    assert found, f"docs/reference/memory-and-disk.md has no row for {row!r}"
    return int(float(found[1]) * UNITS[found[2]])


@contextlib.contextmanager
def bounded(daemon, what):
    """The block yields a list of what may come on top; behind it, the process must not have grown by more."""
    for _ in range(3):  # what any request needs is there from now on
        daemon.request("GET", "/metrics")
    before = resident(daemon)
    allowed = []
    yield allowed
    grown = resident(daemon) - before
    print(f"{what}: resident memory grew by {grown / MIB:.1f} MiB; the bound is {sum(allowed) / MIB:.1f} MiB and "
          f"{SLACK // MIB} MiB")
    if IS_BARE:  # a sanitizer has memory of its own
        assert grown <= sum(allowed) + SLACK, f"{what}: {grown / MIB:.1f} MiB"


def form(**fields):
    body = urllib.parse.urlencode(fields).encode()
    head = ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            "Content-Length: %d\r\n\r\n")
    return (head % len(body)).encode() + body


def waiting_json(**more):
    """A receive that waits, most of which is a list that means nothing to it."""
    return post("AmazonSQS.ReceiveMessage", {"QueueUrl": "q", "WaitTimeSeconds": 20, "Ignored": [1] * 5000, **more})


def waiting_form():
    ignored = {f"Ignored.{i}": "1" for i in range(900)}
    return form(Action="ReceiveMessage", QueueUrl="q", WaitTimeSeconds=20, **ignored)


def wait_until_all_wait(daemon, count):
    wait_until(lambda: metric(daemon, "tally_http_requests_total") > count, what=f"{count} requests")
    time.sleep(0.2)


def check_waiting(daemon, count):
    """Behind the look at the memory, which is the point."""
    assert metric(daemon, "tally_http_waiting_bytes") >= count * KIB


# --- requests that wait -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_of", [waiting_json, waiting_form], ids=["json", "form"])
def test_receives_that_wait_take_what_is_stated_whatever_they_were_asked(daemon, request_of):
    """15 KB each, of which nothing matters."""
    count = scaled(1500, least=500)
    make_queue(daemon, "q")
    request = request_of()
    with bounded(daemon, f"{count} waiting receives of {len(request)} bytes") as allowed:
        lines = connect(daemon.port, count)
        for line in lines:
            line.sendall(request)
        wait_until_all_wait(daemon, count)
        allowed += [count * stated("at rest"), count * stated("that waits")]
    check_waiting(daemon, count)
    close(lines)
    wait_until(lambda: metric(daemon, "tally_http_waiting_bytes") == 0, what="the end of the waits")


def test_receives_that_wait_for_many_names_have_a_budget_and_the_others_find_nothing(daemon_factory):
    """Each keeps 24 KB of names. Above the budget it is answered at once, as if its time were over."""
    count = scaled(1500, least=500)
    daemon = daemon_factory("--input-memory-max", "16MiB").start()
    make_queue(daemon, "q")
    request = waiting_json(Ignored=0, MessageAttributeNames=[f"a-name-{i:03}" for i in range(900)])
    with bounded(daemon, f"{count} waiting receives of 900 names") as allowed:
        lines = connect(daemon.port, count)
        for line in lines:
            line.sendall(request)
        wait_until_all_wait(daemon, count)
        allowed += [count * stated("at rest"), 4 * MIB]
    limit = metric(daemon, "tally_http_waiting_limit_bytes")
    assert limit == 4 * MIB and limit - 32 * KIB < metric(daemon, "tally_http_waiting_bytes") <= limit
    lines[-1].settimeout(10)
    assert lines[-1].recv(4096).endswith(b"{}")
    with Connection(daemon.port) as ordinary:  # what nearly everybody asks for still waits
        ordinary.write(post("AmazonSQS.ReceiveMessage", {"QueueUrl": "q", "WaitTimeSeconds": 1}))
        began = time.monotonic()
        assert ordinary.answer().status == 200 and time.monotonic() - began > 0.9
    close(lines)


def test_feeds_that_wait_take_what_is_stated_whatever_they_were_asked(daemon):
    count = scaled(1000, least=300)
    pool = Pool(daemon, Attributes={"x": "num"}, Rules=[{"type": "near", "attr": "x", "max": 1}])
    body = {"PoolName": pool.name, "From": 1, "WaitTimeSeconds": 20, "Ignored": [1] * 20000}
    request = post("Tally.FeedTickets", body)
    with bounded(daemon, f"{count} waiting feeds of {len(request)} bytes") as allowed:
        lines = connect(daemon.port, count)
        for line in lines:
            line.sendall(request)
        wait_until_all_wait(daemon, count)
        allowed += [count * stated("at rest"), count * stated("that waits")]
    check_waiting(daemon, count)
    close(lines)


def test_a_request_behind_one_that_waits_takes_its_bytes(daemon):
    count = scaled(1000, least=300)
    make_queue(daemon, "q")
    behind = post("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": "x" * 5000})
    with bounded(daemon, f"{count} waiting receives and as many requests behind them") as allowed:
        lines = connect(daemon.port, count)
        for line in lines:
            line.sendall(waiting_json() + behind)
        wait_until_all_wait(daemon, count)
        allowed += [count * stated("at rest"), count * stated("that waits"), count * (len(behind) + 512)]
    check_waiting(daemon, count)
    close(lines)


def wait_until_quiet(daemon):
    """Until no more requests are begun, but for this question."""
    seen = 0

    def is_quiet():
        nonlocal seen
        before, seen = seen, metric(daemon, "tally_http_requests_total")
        time.sleep(0.3)
        return seen <= before + 1

    wait_until(is_quiet, what="an end of what is begun")


# --- replies ----------------------------------------------------------------------------------------------------------


def reply_max(budget):
    """Short ones go on up to an eighth and 16 MiB above it."""
    return budget + budget // 8 + 16 * MIB


def test_replies_that_a_disk_which_stands_still_holds_back_take_no_more_than_their_budget(daemon_factory):
    """64 short sends on each connection. What the budget has no room for stays unread."""
    count, budget = scaled(800, least=500), 4 * MIB
    daemon = daemon_factory("--reply-memory-max", str(budget))
    disk = BrokenDisk(daemon, "pwrite", FAIL_HANGS=1)
    make_queue(daemon, "q")
    sends = post("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": "x"}) * 64
    with bounded(daemon, f"{64 * count} sends before a disk that stands still") as allowed:
        disk.breaks()
        lines = connect(daemon.port, count)
        for line in lines:
            line.sendall(sends)
        wait_until_quiet(daemon)
        frames = int(metric(daemon, "tally_log_waiting_bytes")) + 8 * MIB  # and the one that is open
        allowed += [count * (stated("at rest") + stated("with an unfinished")), reply_max(budget), frames]
    held = metric(daemon, "tally_http_reply_bytes")
    assert reply_max(budget) - MIB < held < reply_max(budget) + MIB  # it is spent
    disk.mends()
    for line in lines:
        line.settimeout(30)
        rest, replies = b"", 0
        while replies < 64:
            piece = line.recv(1 << 16)
            assert piece
            rest += piece
            replies = rest.count(b"HTTP/1.1 200 OK")
    close(lines)
    wait_until(lambda: metric(daemon, "tally_http_reply_bytes") < 64 * KIB, what="the end of the replies")
    assert daemon.stop() == 0, daemon.error_text()


def test_metrics_that_nobody_reads_take_no_more_than_the_budget(daemon_factory):
    """Each reply has some 20 KB, and they are asked for in sixties."""
    count, budget = scaled(400, least=200), 4 * MIB
    daemon = daemon_factory("--reply-memory-max", str(budget), "--reply-timeout", "300s").start()
    lines = []
    with bounded(daemon, f"{60 * count} replies of /metrics that nobody reads") as allowed:
        for _ in range(count):
            line = socket.socket()
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.connect(("127.0.0.1", daemon.port))
            line.sendall(get("/metrics") * 60)
            lines.append(line)
        time.sleep(2)
        allowed += [count * (stated("at rest") + stated("with an unfinished")), reply_max(budget), 8 * MIB]
    close(lines)
    wait_until(lambda: metric(daemon, "tally_http_connections") == 1, what="the end of the connections")


# --- connections ------------------------------------------------------------------------------------------------------


def test_connections_at_rest_take_what_is_stated(daemon):
    count = scaled(4000, least=1000)
    with bounded(daemon, f"{count} connections at rest") as allowed:
        lines = connect(daemon.port, count)
        for line in lines:
            line.sendall(get("/health"))
        for line in lines:
            line.settimeout(30)
            assert line.recv(4096).startswith(b"HTTP/1.1 200 OK")
        allowed.append(count * stated("at rest"))
    before = resident(daemon)
    close(lines)
    wait_until(lambda: metric(daemon, "tally_http_connections") == 1, what="the end of the connections")
    if IS_BARE:
        assert resident(daemon) - before < 2 * MIB  # also if all close at once


def test_the_beginning_of_a_request_takes_its_bytes(daemon):
    count = scaled(4000, least=1000)
    begun = post("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": "x" * 3000})[:-2000]
    with bounded(daemon, f"{count} requests that have begun") as allowed:
        lines = connect(daemon.port, count)
        for line in lines:
            line.sendall(begun)
        wait_until(lambda: metric(daemon, "tally_http_received_bytes_total") > count * len(begun), what="the bytes")
        allowed += [count * stated("at rest"), count * (len(begun) + 512)]
    close(lines)


@pytest.fixture
def secure(daemon_factory, tmp_path):
    certificate = Certificate(tmp_path)
    daemon = daemon_factory("--input-memory-max", "16MiB", *certificate.options(free_port())).start()
    daemon.secure_port = int(daemon.ready_line.split("https://127.0.0.1:")[1].split(" ")[0])
    daemon.context = TrustingContext(certificate)
    return daemon


@pytest.mark.parametrize("waits", [False, True], ids=["at rest", "waiting"])
def test_connections_over_tls_take_what_is_stated(secure, waits):
    count = scaled(1000, least=300)
    make_queue(secure, "q")
    with bounded(secure, f"{count} connections over TLS") as allowed:
        lines = [secure.context.wrap_socket(line) for line in connect(secure.secure_port, count)]
        for line in lines:
            line.sendall(get("/health"))
            assert line.recv(4096).startswith(b"HTTP/1.1 200 OK")
            if waits:
                line.sendall(waiting_json())
        allowed.append(count * stated("over TLS, at rest"))
        if waits:
            wait_until_all_wait(secure, count)
            allowed.append(count * stated("that waits"))
    close(lines)


def silent_hello(secure, line):
    """Says hello, and nothing more."""
    session = secure.context.context.wrap_bio(ssl.MemoryBIO(), records := ssl.MemoryBIO(), server_hostname="127.0.0.1")
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    with contextlib.suppress(OSError):  # refused
        line.sendall(records.read())


def test_handshakes_that_never_end_count_as_requests_and_give_way(secure):
    """OpenSSL takes 30 KB for each. Where the budget of requests is spent new ones are refused, until those that take
    long are cut off."""
    count = scaled(1500, least=600)
    with bounded(secure, f"{count} handshakes that never end") as allowed:
        lines = connect(secure.secure_port, count)
        for line in lines:
            silent_hello(secure, line)
        wait_until(lambda: metric(secure, "tally_http_connections_refused_total") > 0, what="a budget that is spent")
        allowed += [count * stated("over TLS, at rest"), 16 * MIB]
    assert metric(secure, "tally_http_input_bytes") <= 16 * MIB + 48 * KIB  # and one
    wait_until(lambda: metric(secure, "tally_http_input_bytes") <= 8 * MIB, what="the cuts")
    with secure.context.wrap_socket(connect(secure.secure_port, 1)[0]) as newcomer:
        newcomer.sendall(get("/health"))
        assert newcomer.recv(4096).startswith(b"HTTP/1.1 200 OK")
    close(lines)
    wait_until(lambda: metric(secure, "tally_http_input_bytes") == 0, what="the end of the handshakes")


@pytest.mark.parametrize("begun", [b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b""],
                         ids=["a byte", "half a hello", "nothing"])
def test_handshakes_that_have_not_begun_take_no_more_than_connections_at_rest(secure, begun):
    count = scaled(2000, least=600)
    with bounded(secure, f"{count} handshakes that have not begun") as allowed:
        lines = connect(secure.secure_port, count)
        for line in lines:
            line.sendall(begun)
        wait_until(lambda: metric(secure, "tally_http_connections") > count, what="the connections")
        time.sleep(0.3)
        allowed.append(count * stated("over TLS, at rest") * 0.6)
    close(lines)
    wait_until(lambda: metric(secure, "tally_http_connections") == 1, what="the end of the connections")


def test_records_behind_a_request_that_waits_count_as_requests(secure):
    """64 KB on each connection, of which the socket keeps a part. Above the budget the connection ends."""
    count = scaled(800, least=500)
    make_queue(secure, "q")
    with bounded(secure, f"{count} connections over TLS with records behind a request that waits") as allowed:
        lines = [secure.context.wrap_socket(line) for line in connect(secure.secure_port, count)]
        for line in lines:
            line.sendall(waiting_json())
        wait_until_all_wait(secure, count)
        for line in lines:
            line.settimeout(0.02)
            with contextlib.suppress(OSError):  # nobody reads on, or the connection has ended
                for _ in range(4):
                    line.sendall(post("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": "x" * 16000}))
        wait_until(lambda: metric(secure, "tally_http_input_bytes") > 8 * MIB, what="bytes that count")
        time.sleep(0.3)
        each = ("over TLS, at rest", "that waits", "with an unfinished")
        allowed += [count * stated(row) for row in each] + [16 * MIB]
    # How much of the 64 KB the server reads depends on how fast they come: the budget may be spent or not.
    assert metric(secure, "tally_http_input_bytes") < 16 * MIB + 64 * KIB
    close(lines)
    wait_until(lambda: metric(secure, "tally_http_input_bytes") == 0, what="the end of the connections")
