"""What a daemon without credentials answers: requests for names of its own, that no page of another site sent; and with
GET what reads.

The same with a real browser: test_browser.py."""

import re
import socket

from conftest import ROOT
from test_auth import unsigned, written

NAMESPACE = "000000000000"


def in_each_way(daemon, headers, port=None):
    """Statuses and codes of every kind of request with these headers: pages of the server, both forms, a method that
    nothing answers."""
    target = {"X-Amz-Target": "AmazonSQS.ListQueues"}
    ways = [
        ("GET", "/health", None, {}), ("HEAD", "/health", None, {}), ("GET", "/metrics", None, {}),
        ("GET", "/", None, {}),
        ("GET", "/?Action=ListQueues", None, {}), ("POST", "/", "Action=ListQueues", {}), ("POST", "/", "{}", target),
        ("GET", "/", "{}", target), ("POST", f"/{NAMESPACE}/q?Action=PurgeQueue", "", {}), ("OPTIONS", "/", None, {}),
        ("PUT", "/", "{}", target), ("POST", "/", "{}", {"X-Amz-Target": "Tally.ListBatches"}),
        ("POST", "/", "{", target),
    ]
    return {daemon.request(method, path, body, {**headers, **more})[0] for method, path, body, more in ways}


def test_without_credentials_no_page_of_another_site_is_obeyed(daemon):
    """A browser sends forms and loads images wherever a page says, without asking the server first."""
    create = written("query", "CreateQueue", {"QueueName": "q"})
    assert daemon.request("POST", "/", *create)[0] == 200
    for headers in (
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": f"http://127.0.0.1:{daemon.port}", "Sec-Fetch-Site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ):
        assert in_each_way(daemon, headers) == {403}, headers
        answer = unsigned(daemon, "query", "CreateQueue", {"QueueName": "other"}, headers)
        assert answer.code == "AccessDenied" and "--allow-host" in answer.text
    for headers in (
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "same-origin", "Origin": f"http://localhost:{daemon.port}"},
        {"Origin": "http://tally.localhost"},
    ):
        assert 403 not in in_each_way(daemon, headers), headers
    assert b"other" not in daemon.request("POST", "/", *written("query", "ListQueues", {}))[2]


def test_without_credentials_only_names_of_the_daemon_are_answered(daemon_factory):
    """DNS rebinding: a page asks its own origin, which now is at 127.0.0.1. Nothing but its Host tells it from another
    program."""
    daemon = daemon_factory("--allow-host", "tally, queues.example ,[fd00::5]", "--public-url",
                            "https://public.example:8443/x").start()
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
    port = daemon.port
    own = [
        f"127.0.0.1:{port}", "127.0.0.1", f"localhost:{port}", "LOCALHOST.", "tally.localhost", "[::1]",
        f"[::ffff:127.0.0.1]:{port}",
        "tally", f"Tally:{port}", "queues.example", "public.example", "public.example:8443", "[fd00:0::5]:1",
    ]
    foreign = [
        "evil.example", f"evil.example:{port}", "127.0.0.1.evil.com", "localhost.evil.com", "evillocalhost", "127.1",
        "0x7f.1",
        "2130706433", "0.0.0.0", "[::]", "[::2]", "sub.queues.example", "tally.evil.com", "10.0.0.1",
        "host.docker.internal",
    ]
    malformed = ["", "a b", "a,b", "a/b", "a@b", "\xe9", "\xff\xfe", "a:b", "a:99999", "[::1", "..", "a..b"]
    for status, hosts in (403, foreign), (400, malformed):
        for host in hosts:
            assert in_each_way(daemon, {"Host": host.encode("latin-1")}) == {status}, host
    for host in own:
        assert 403 not in in_each_way(daemon, {"Host": host}), host
    refused = unsigned(daemon, "json", "ListQueues", {}, {"Host": f"evil.example:{port}"})
    assert refused.code == "AccessDenied" and f"Host 'evil.example:{port}'" in refused.text
    assert "--allow-host evil.example," in refused.text
    assert "where that lacks the port or is wrong, --public-url says how they begin." in refused.text
    assert daemon.stop() == 0


def test_a_unix_socket_asks_for_no_name(daemon_factory, tmp_path):
    """No browser reaches it, and its clients call it what they like."""
    path = tmp_path / "socket"
    daemon = daemon_factory("--socket", path).start()
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(path))
        for headers in ("Host: evil.example", "Host: a\r\nOrigin: http://evil.example",
                        "Host: a\r\nSec-Fetch-Site: cross-site"):
            line.sendall(f"GET /?Action=ListQueues HTTP/1.1\r\n{headers}\r\n\r\n".encode())
            assert line.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert daemon.stop() == 0


def test_http_1_0_without_host_is_answered(daemon):
    """Old probes and scripts leave it out; no browser does."""
    with socket.create_connection(("127.0.0.1", daemon.port)) as line:
        line.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert line.recv(65536).startswith(b"HTTP/1.1 200 ")
    with socket.create_connection(("127.0.0.1", daemon.port)) as line:
        line.sendall(b"GET http://evil.example/health HTTP/1.0\r\n\r\n")
        assert line.recv(65536).startswith(b"HTTP/1.1 403 ")


def test_http_1_0_without_host_gets_queue_urls_that_work(daemon_factory, tmp_path):
    path = tmp_path / "socket"
    daemon = daemon_factory("--socket", path).start()
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
    for family, address, host in [
        (socket.AF_INET, ("127.0.0.1", daemon.port), f"127.0.0.1:{daemon.port}"),
        (socket.AF_UNIX, str(path), "localhost"),
    ]:
        with socket.socket(family) as line:
            line.connect(address)
            line.sendall(b"GET /?Action=GetQueueUrl&QueueName=q HTTP/1.0\r\n\r\n")
            assert f"<QueueUrl>http://{host}/{NAMESPACE}/q</QueueUrl>".encode() in line.recv(65536)
    assert daemon.stop() == 0


ONLY_READS = {
    "GetQueueUrl", "ListQueues", "ListQueueStats", "GetQueueAttributes", "ListQueueTags", "ListDeadLetterSourceQueues",
    "GetSeries",
    "ListMessageMoveTasks",
    "DescribeBatch", "ListBatches", "ListUnits", "ListTypeOrders", "DescribeSchedule", "ListSchedules", "DescribeRelay",
    "ListRelays",
    "ListDoubts", "ListGroups", "ExplainMessage", "ListMessages", "GetMessage", "FindMessage", "SummarizeFailures",
    "ListInFlight", "ListDependents", "FeedEvents", "DescribeServer", "DescribeBackup",
    "DescribePool", "ListPools",
    "GetTicket", "ListTickets", "CountTickets", "ExplainTicket",
}


def all_actions(daemon):
    text = (ROOT / "src/api/actions.c").read_text()
    return re.findall(r'"((?:AmazonSQS|Tally)\.\w+)"', text)


def test_without_credentials_a_get_only_reads(daemon):
    """An old browser does not say which page had it send one; in an image's address there may be any action, but no
    header."""
    targets = all_actions(daemon)
    assert len(targets) > 70
    browsers = {"Accept-Language": "en"}, {"Referer": "https://evil.example/"}
    for target in targets:
        name = target.split(".")[1]
        status, _, body = daemon.request("GET", "/", "{}", {"X-Amz-Target": target})
        is_refused = status == 403 and b"Use POST." in body and name.encode() in body
        assert is_refused != (name in ONLY_READS), (target, status, body)
        if target.startswith("AmazonSQS."):
            for query, headers in [("", {}), ("&X-Amz-Signature=0", browsers[0]), ("&X-Amz-Signature=0", browsers[1])]:
                status, _, body = daemon.request("GET", f"/{NAMESPACE}/q?Action={name}{query}", None, headers)
                # CreateQueue and ListQueues are unknown on a queue's path.
                assert (status == 403) != (name in ONLY_READS | {"CreateQueue", "ListQueues"}), (name, body)
    assert daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})[0] == 200
    send = f"/{NAMESPACE}/q?Action=SendMessage&MessageBody=a"
    assert daemon.request("GET", send)[0] == 403
    assert daemon.request("GET", f"{send}&X-Amz-Signature=0")[0] == 200
    assert daemon.request("GET", send, None, {"Authorization": "AWS4-HMAC-SHA256 any"})[0] == 200
    assert daemon.request("POST", send, "")[0] == 200
