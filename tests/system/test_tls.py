"""The other ways in: HTTPS with real clients, certificates that change, Unix sockets; and over TLS what test_http.py
asks."""

import http.client
import json
import os
import random
import re
import signal
import socket
import ssl
import stat
import subprocess
import time

import pytest
from certificates import Certificate, TrustingContext, secure_socket
from conftest import BIN, PATIENCE, WRAPPER, Tally, clean_environment, free_port, hang_up_until, wait_until

# The same over TLS: collected here, these tests get the daemons of this file.
from test_http import (  # noqa: F401
    Line,
    get,
    impatient,
    make_queue,
    metric,
    post,
    receive,
    send,
    test_a_body_above_the_limit_is_refused_before_it_is_sent,
    test_a_clean_stop_answers_who_waits_and_refuses_nobody_half_way,
    test_a_client_that_asks_is_told_to_continue,
    test_a_client_that_sends_on_still_reads_why_it_was_refused,
    test_a_connection_is_kept_also_behind_errors,
    test_a_header_above_the_limit_is_refused,
    test_a_long_poll_is_answered_by_a_send_on_another_connection,
    test_a_long_poll_is_not_idle,
    test_a_request_behind_a_long_poll_waits_for_it,
    test_a_slow_reader_is_cut_off,
    test_a_slow_sender_is_cut_off_however_steadily_it_sends,
    test_an_idle_connection_is_closed,
    test_chunked_bodies_are_accepted,
    test_clients_that_go_in_the_middle_of_anything_leave_nothing_behind,
    test_connection_close_is_honoured,
    test_connections_above_the_limit_get_503,
    test_large_requests_and_replies_arrive_whole,
    test_replies_to_pipelined_requests_come_in_order,
    test_requests_cut_at_any_byte_are_understood,
    test_what_two_readers_could_read_differently_is_refused,
    timeouts,
)


@pytest.fixture
def certificate(tmp_path):
    return Certificate(tmp_path)


@pytest.fixture
def daemon_factory(daemon_factory, certificate):
    """Daemons that listen for TLS too; raw connections of the tests go there."""

    def make(*options):
        port = free_port()
        daemon = daemon_factory(*certificate.options(port), *options)
        daemon.tls = (port, TrustingContext(certificate))
        return daemon

    return make


@pytest.fixture
def daemon(daemon_factory):
    running = daemon_factory().start()
    yield running
    if running.process is not None:
        assert running.process.poll() is None, f"tallyd ended by itself: {running.error_text()}"
        assert running.stop() == 0, running.error_text()


def curl(*arguments):
    return subprocess.run(
        ["curl", "--silent", "--show-error", "--max-time", str(20 * PATIENCE), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=clean_environment(),
    )


def curl_call(target, body, *arguments):
    done = curl("-H", f"X-Amz-Target: {target}", "-H", "Content-Type: application/x-amz-json-1.0", "-d",
                json.dumps(body), *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# --- Real clients -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_curl_speaks_either_version_and_gets_queue_urls_of_its_scheme(daemon, certificate, version):
    url = f"https://localhost:{daemon.tls[0]}"
    trust = ["--cacert", certificate.certificate, f"--tlsv{version}", "--tls-max", version]
    assert curl_call("AmazonSQS.CreateQueue", {"QueueName": "q"}, *trust, url) == {"QueueUrl": f"{url}/000000000000/q"}
    done = curl(*trust, "--verbose", f"{url}/health")
    assert json.loads(done.stdout)["status"] == "ok"
    assert f"SSL connection using TLSv{version}" in done.stderr and "HTTP/1.1 200" in done.stderr
    plain = f"http://127.0.0.1:{daemon.port}"
    assert curl_call("AmazonSQS.GetQueueUrl", {"QueueName": "q"}, plain) == {"QueueUrl": f"{plain}/000000000000/q"}


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_older_versions_are_refused(daemon, certificate):
    legacy = certificate.context()
    legacy.set_ciphers("ALL:@SECLEVEL=0")
    legacy.minimum_version = legacy.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", daemon.tls[0])) as plain, pytest.raises(ssl.SSLError):
        legacy.wrap_socket(plain, server_hostname="localhost")
    assert metric(daemon, "tally_tls_handshakes_failed_total") == 1


def test_http_client_keeps_its_connection_over_tls(daemon, certificate):
    connection = http.client.HTTPSConnection(
        "localhost", daemon.tls[0], context=certificate.context(), timeout=20 * PATIENCE)
    headers = {"Content-Type": "application/x-amz-json-1.0"}
    url = make_queue(daemon)
    sockets = set()
    for size in (1, 1000, 16384, 16385, 250_000):
        for target, body in [
            ("AmazonSQS.SendMessage", {"QueueUrl": url, "MessageBody": "x" * size}),
            ("AmazonSQS.ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": 1}),
        ]:
            connection.request("POST", "/", json.dumps(body), {"X-Amz-Target": target, **headers})
            sockets.add(connection.sock)
            answer = connection.getresponse()
            assert answer.status == 200
            text = json.loads(answer.read())
        assert text["Messages"][0]["Body"] == "x" * size
    assert len(sockets) == 1
    connection.close()


def test_boto3_over_tls(daemon, certificate):
    boto3 = pytest.importorskip("boto3")
    client = boto3.client(
        "sqs",
        endpoint_url=f"https://localhost:{daemon.tls[0]}",
        verify=str(certificate.certificate),
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
    )
    url = client.create_queue(QueueName="q")["QueueUrl"]
    assert url.startswith("https://localhost:")
    client.send_message(QueueUrl=url, MessageBody="over TLS")
    (message,) = client.receive_message(QueueUrl=url, WaitTimeSeconds=2)["Messages"]
    assert message["Body"] == "over TLS"
    client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def test_the_tool_over_tls(daemon, certificate):
    tool = Tally(f"https://localhost:{daemon.tls[0]}")
    done = tool("queue", "create", "q", status=3)
    assert "certificate" in done.err
    tool("--ca-file", certificate.certificate, "queue", "create", "q")
    tool.environment["TALLY_CA_FILE"] = str(certificate.certificate)
    tool("send", "q", "hello")
    assert tool("receive", "q", "--delete").out == "hello\n"


def test_what_a_worker_runs_trusts_whom_the_worker_trusts(daemon, certificate):
    """The command reaches the server under the endpoint that it finds in its environment."""
    tool = Tally(f"https://localhost:{daemon.tls[0]}")
    trusting = ("--ca-file", certificate.certificate)
    tool(*trusting, "queue", "create", "q")
    tool(*trusting, "send", "q", "hello")
    tool(*trusting, "work", "--queue", "q", "--until-empty", "--", BIN / "tally", "queue", "create", "from-the-worker")
    assert "from-the-worker" in tool(*trusting, "queue", "list").out


def test_a_client_that_does_not_trust_us_costs_one_connection(daemon, tmp_path):
    other = Certificate(tmp_path, "other")
    done = curl("--cacert", other.certificate, f"https://localhost:{daemon.tls[0]}/health")
    assert done.returncode == 60
    wait_until(lambda: metric(daemon, "tally_tls_handshakes_failed_total") == 1, what="the counter")
    assert metric(daemon, "tally_http_connections") == 1


# --- Handshakes -------------------------------------------------------------------------------------------------------


def test_who_speaks_no_tls_is_cut_off_and_others_are_served(daemon):
    texts = [
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\xff\xff" + b"\0" * 100,  # longer than any record
        b"\x17\x11\x01\x40\x00" + b"\0" * 100,  # of no version
        random.Random(1).randbytes(3000),  # the same each time: few of all such texts look like the start of a record
    ]
    for text in texts:
        with socket.create_connection(("127.0.0.1", daemon.tls[0]), 20 * PATIENCE) as plain:
            plain.sendall(text)
            try:
                while plain.recv(4096):
                    continue
            except ConnectionResetError:
                pass
    assert metric(daemon, "tally_tls_handshakes_failed_total") == len(texts)
    with Line(daemon) as line:
        line.send(get("/health"))
        assert line.reply().status == 200


def test_each_scheme_on_the_others_port_is_answered_at_once_and_named(daemon, certificate, tmp_path):
    begun = time.monotonic()
    plain = f"http://localhost:{daemon.tls[0]}"
    large = tmp_path / "large"
    large.write_bytes(b"x" * 500_000)  # the rest of it is still on its way when the beginning is seen
    said = json.loads(curl(f"{plain}/health").stdout)
    assert said["__type"].endswith("#MalformedRequest") and "port speaks HTTPS" in said["message"]
    for arguments in [[], ["-H", "Expect:"]]:
        done = curl("-w", "%{http_code}", "-o", "/dev/null", "--data-binary", f"@{large}", *arguments, f"{plain}/")
        assert (done.returncode, done.stdout) == (0, "400"), done.stderr
    assert "port speaks HTTPS" in Tally(plain)("queue", "list", status=1).err

    secure = f"https://localhost:{daemon.port}"
    done = curl("--cacert", certificate.certificate, f"{secure}/health")
    assert done.returncode == 35 and "wrong version number" in done.stderr
    advice = f"It seems to speak plain HTTP: try http://localhost:{daemon.port}"
    assert advice in Tally(secure)("queue", "list", status=3).err
    with socket.create_connection(("127.0.0.1", daemon.port), 20 * PATIENCE) as line:
        line.sendall(client_hello())
        assert b"This is TLS, but this port speaks plain HTTP" in line.recv(65536)
    with socket.create_connection(("127.0.0.1", daemon.port), 20 * PATIENCE) as line:
        line.sendall(b"*1\r\n$4\r\nPING\r\n")
        assert line.recv(65536).startswith(b"HTTP/1.1 400 ")
    assert time.monotonic() - begun < 8 * PATIENCE
    assert metric(daemon, "tally_tls_handshakes_failed_total") == 4


def test_a_handshake_must_be_over_in_the_time_of_a_request(impatient):  # noqa: F811
    daemon = impatient("--request-timeout", "2s")
    hello = client_hello()
    lines = [socket.create_connection(("127.0.0.1", daemon.tls[0]), 20 * PATIENCE) for _ in range(3)]
    begun = time.monotonic()
    lines[1].sendall(hello[: len(hello) // 2])
    lines[2].sendall(hello)
    for line in lines:
        while line.recv(4096):
            continue
        line.close()
    assert 1.5 < time.monotonic() - begun < 6 * PATIENCE
    assert timeouts(daemon, "request") == 3
    assert metric(daemon, "tally_tls_handshakes_failed_total") == 3


def client_hello():
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_a_stop_ends_tls_with_a_close_notify(daemon, certificate):
    with secure_socket(certificate, daemon.tls[0]) as line:
        line.suppress_ragged_eofs = False
        line.sendall(get("/health"))
        assert b"200 OK" in line.recv(4096)
        assert daemon.stop() == 0
        assert line.recv(100) == b""  # a bare end of the connection would raise SSLEOFError


def test_requests_that_came_in_one_record_are_all_answered(daemon):
    """They wait in the session, not in the socket, while the first long poll holds them up."""
    url = make_queue(daemon)
    with Line(daemon) as line:
        line.send(receive(url, 1), *(get("/health") for _ in range(150)), receive(url, 1), get("/health"))
        for _ in range(153):
            assert line.reply().status == 200


@pytest.mark.parametrize("way", ["close", "unwrap", "reset"])
def test_a_receiver_that_has_gone_takes_no_message_over_tls(daemon, way):
    url = make_queue(daemon)
    line = Line(daemon)
    line.send(receive(url, 20))
    time.sleep(0.3)
    if way == "unwrap":  # a close_notify, and ours in answer
        line.socket.unwrap()
    if way == "reset":
        line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    line.socket.close()
    wait_until(lambda: metric(daemon, "tally_http_connections") == 1, what="the end of the connection")
    assert daemon.call("AmazonSQS.SendMessage", {"QueueUrl": url, "MessageBody": "a"})[0] == 200
    body = {"QueueUrl": url, "AttributeNames": ["ApproximateReceiveCount"]}
    (message,) = daemon.call("AmazonSQS.ReceiveMessage", body)[1]["Messages"]
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"


# --- Certificates -----------------------------------------------------------------------------------------------------


def name_of(port):
    """The subject of the certificate that the server shows."""
    text = ssl.get_server_certificate(("127.0.0.1", port))
    done = subprocess.run(["openssl", "x509", "-noout", "-subject"], input=text, capture_output=True, text=True,
                          check=True)
    return re.search(r"CN ?= ?(\S+)", done.stdout)[1]


def test_a_new_certificate_is_taken_on_a_signal_and_connections_go_on(daemon, certificate, tmp_path):
    port = daemon.tls[0]
    assert name_of(port) == "tally"
    with Line(daemon) as line:
        second = Certificate(tmp_path, "second")
        second.certificate.replace(certificate.certificate)
        second.key.replace(certificate.key)
        assert name_of(port) == "tally"  # not before it is told
        hang_up_until(daemon, lambda: name_of(port) == "second", "the new certificate")
        line.send(get("/health"))
        assert line.reply().status == 200
    assert daemon.error_text() == ""


def test_a_broken_certificate_is_reported_and_the_old_one_stays(daemon, certificate, tmp_path):
    second = Certificate(tmp_path, "second")
    certificate.certificate.write_text("not a certificate")
    hang_up_until(daemon, lambda: "the certificate in force stays" in daemon.error_text(), "the report")
    assert str(certificate.certificate) in daemon.error_text()
    assert name_of(daemon.tls[0]) == "tally"
    second.certificate.replace(certificate.certificate)  # its key is not the one that is there
    hang_up_until(daemon, lambda: "mismatch" in daemon.error_text(), "the report")
    second.key.replace(certificate.key)
    hang_up_until(daemon, lambda: name_of(daemon.tls[0]) == "second", "the new certificate")


# --- Which ways in there are ------------------------------------------------------------------------------------------


def test_tls_can_be_the_only_way_in(daemon_factory, certificate):
    daemon = daemon_factory("--listen", "off").start()
    port = daemon.tls[0]
    assert daemon.ready_line.startswith(f"tallyd ready on https://127.0.0.1:{port} data=")
    with secure_socket(certificate, port) as line:
        line.sendall(get("/health"))
        assert b"200 OK" in line.recv(4096)
    assert daemon.stop() == 0


def test_the_ready_line_names_every_way_in(daemon_factory, tmp_path):
    daemon = daemon_factory("--socket", tmp_path / "s").start()
    ways = f"http://127.0.0.1:{daemon.port} https://127.0.0.1:{daemon.tls[0]} unix:{tmp_path}/s data="
    assert daemon.ready_line.startswith("tallyd ready on " + ways)
    assert daemon.stop() == 0


def test_a_certificate_and_its_key_may_stand_in_one_file(daemon_factory, certificate):
    with open(certificate.certificate, "a") as file:
        file.write(certificate.key.read_text())
    daemon = daemon_factory("--tls-key", "").start()
    assert name_of(daemon.tls[0]) == "tally"
    assert daemon.stop() == 0


def tallyd(*options):
    done = subprocess.run(
        [*WRAPPER, BIN / "tallyd", *map(str, options)],
        capture_output=True,
        text=True,
        timeout=20 * PATIENCE,
        env=clean_environment(),
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if not line.startswith("tallyd recovering ")]  # on a slow machine
    assert said == [] and done.stderr.count("\n") == 1
    return done.returncode, done.stderr


WRONG = [
    (["--tls-listen", "127.0.0.1:0"], ["tls-certificate", "PEM"]),
    (["--tls-certificate", "x.pem"], ["tls-certificate", "tls-listen"]),
    (["--tls-key", "x.pem"], ["tls-key", "tls-listen"]),
    (["--tls-listen", "0.0.0.0:0", "--tls-certificate", "x.pem"], ["tls-listen", "0.0.0.0:0", "credentials"]),
    (["--tls-listen", "nowhere", "--tls-certificate", "x.pem"], ["tls-listen", "nowhere", "off"]),
    (["--socket", "s" * 200], ["socket", "107 bytes"]),
    (["--listen", "off"], ["listen", "tls-listen", "socket"]),
]


@pytest.mark.parametrize("options, words", WRONG, ids=lambda value: " ".join(value)[:30])
def test_a_wrong_way_in_is_refused_with_what_to_do(options, words, tmp_path):
    status, text = tallyd(*options, "--data", tmp_path / "data")
    assert status == 2
    for word in words:
        assert word in text
    assert not (tmp_path / "data").exists()


def test_a_certificate_that_is_not_there_is_named(tmp_path):
    missing = tmp_path / "missing.pem"
    status, text = tallyd("--tls-listen", "127.0.0.1:0", "--tls-certificate", missing, "--data", tmp_path / "data")
    assert status == 1 and str(missing) in text and "No such file" in text
    os.mkfifo(missing)  # OpenSSL would wait for it
    status, text = tallyd("--tls-listen", "127.0.0.1:0", "--tls-certificate", missing, "--data", tmp_path / "data")
    assert status == 1 and f"can't read {missing}: it is no ordinary file." in text


# --- Unix sockets -----------------------------------------------------------------------------------------------------


@pytest.fixture
def socket_daemon(daemon_factory, tmp_path):
    daemon = daemon_factory("--socket", tmp_path / "tally.sock", "--listen", "off", "--tls-listen", "",
                            "--tls-certificate", "", "--tls-key", "")
    daemon.socket = tmp_path / "tally.sock"
    return daemon.start()


def answers(path):
    done = curl("--unix-socket", path, "http://localhost/health")
    return done.returncode == 0 and json.loads(done.stdout)["status"] == "ok"


def test_a_unix_socket_serves_and_goes_with_its_daemon(socket_daemon):
    path = socket_daemon.socket
    assert socket_daemon.ready_line.startswith(f"tallyd ready on unix:{path} data=")
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    trust = ["--unix-socket", path, "http://localhost"]
    url = curl_call("AmazonSQS.CreateQueue", {"QueueName": "q"}, *trust)["QueueUrl"]
    assert url == "http://localhost/000000000000/q"
    body = {"QueueUrl": url, "MessageBody": "x" * 100_000}
    assert "MessageId" in curl_call("AmazonSQS.SendMessage", body, *trust)
    assert len(curl_call("AmazonSQS.ReceiveMessage", {"QueueUrl": url}, *trust)["Messages"]) == 1
    assert socket_daemon.stop() == 0
    assert not path.exists()


def test_the_tool_over_a_unix_socket(socket_daemon):
    tool = Tally(f"unix:{socket_daemon.socket}")
    tool("queue", "create", "q")
    tool("send", "q", "hello")
    assert tool("receive", "q", "--delete").out == "hello\n"
    assert socket_daemon.stop() == 0
    assert str(socket_daemon.socket) in tool("queue", "list", status=3).err
    assert "unix:" in Tally("unix:relative")("queue", "list", status=2).err


def test_a_socket_left_behind_by_a_crash_is_taken_over(socket_daemon):
    socket_daemon.kill9()
    assert socket_daemon.socket.exists()
    socket_daemon.start()
    assert answers(socket_daemon.socket)


def test_a_socket_where_somebody_listens_is_left_alone(socket_daemon, tmp_path):
    status, text = tallyd("--listen", "off", "--socket", socket_daemon.socket, "--data", tmp_path / "other")
    assert status == 1 and str(socket_daemon.socket) in text and "another program listens" in text
    assert answers(socket_daemon.socket)


def test_a_file_that_is_no_socket_is_left_alone(tmp_path):
    file = tmp_path / "precious"
    file.write_text("text")
    status, text = tallyd("--listen", "off", "--socket", file, "--data", tmp_path / "data")
    assert status == 1 and str(file) in text and "no socket" in text
    assert file.read_text() == "text"


def test_a_stop_takes_away_no_other_daemon_s_socket(socket_daemon):
    socket_daemon.socket.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(socket_daemon.socket))
        other.listen()
        assert socket_daemon.stop() == 0
        assert socket_daemon.socket.exists()


def test_a_hang_up_without_tls_changes_nothing(socket_daemon):
    os.kill(socket_daemon.pid, signal.SIGHUP)
    assert answers(socket_daemon.socket)
    assert socket_daemon.error_text() == ""
