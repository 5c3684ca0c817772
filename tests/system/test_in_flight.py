"""Who has a message: ListInFlight, Holder, and what of a client makes it, over real connections."""

import http.client
import json
import socket
import threading
import time

import pytest

from conftest import PATIENCE, free_port, wait_until
from signing import signed_headers

CREDENTIALS = """\
BOSS secret-of-boss 000000000000 read,write,admin
MAIL secret-of-mail 000000000000 read,write queues=mail*
"""


def ask(port, target, body, headers=(), source="127.0.0.1", key=None):
    """One request from that address of the loopback; `headers` is a list, so that a name may stand twice."""
    body = json.dumps(body)
    own = {"Host": f"127.0.0.1:{port}", "Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": target}
    if key is not None:
        own = signed_headers("/", body, own, key, f"secret-of-{key.lower()}")
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60 * PATIENCE, source_address=(source, 0))
    try:
        line.putrequest("POST", "/", skip_host=True, skip_accept_encoding=True)
        for name, value in [*own.items(), *headers, ("Content-Length", str(len(body)))]:
            line.putheader(name, value)
        line.endheaders(body.encode())
        answer = line.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        return json.loads(text) if text else {}
    finally:
        line.close()


def receive(daemon, queue="q", worker=None, headers=(), **more):
    named = [*headers, *([("X-Tally-Worker", worker)] if worker is not None else [])]
    return ask(daemon.port, "AmazonSQS.ReceiveMessage", {"QueueUrl": queue}, named, **more).get("Messages", [])


def in_flight(daemon, **filters):
    status, answer = daemon.call("Tally.ListInFlight", filters)
    assert status == 200 and "NextToken" not in answer, answer
    return answer["Messages"]


@pytest.fixture
def queue(daemon):
    """A queue with some messages, and no other."""
    assert daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})[0] == 200
    for number in range(12):
        assert daemon.call("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": str(number)})[0] == 200
    return "q"


def test_the_holder_is_whoever_received(daemon, queue):
    taken = receive(daemon, queue, "mail-1/77", source="127.0.0.2")[0]
    held, = in_flight(daemon)
    assert held["Holder"] == {"Address": "127.0.0.2", "Worker": "mail-1/77"}
    assert held["MessageId"] == taken["MessageId"] and held["QueueUrl"].endswith("/000000000000/q")
    assert held["ReceiveCount"] == 1 and held["FencingToken"] == 1
    assert 29 < held["VisibleAt"] - held["ReceivedAt"] <= 31 and abs(time.time() - held["ReceivedAt"]) < 60
    assert daemon.call("Tally.GetMessage", {"MessageId": taken["MessageId"]})[1]["Holder"] == held["Holder"]
    why, = daemon.call("Tally.ExplainMessage", {"MessageId": taken["MessageId"]})[1]["Why"]
    assert why["Holder"] == held["Holder"] and why["Text"].endswith(", held by mail-1/77 (127.0.0.2).")
    listed = daemon.call("Tally.ListMessages", {"QueueUrl": queue, "State": "in-flight"})[1]["Messages"]
    assert [message["Holder"] for message in listed] == [held["Holder"]]
    assert in_flight(daemon, Worker="mail-1/77") == [held] and in_flight(daemon, Worker="mail-1") == []
    daemon.call("AmazonSQS.DeleteMessage", {"QueueUrl": queue, "ReceiptHandle": taken["ReceiptHandle"]})
    assert in_flight(daemon) == []


def test_a_restart_forgets_who_has_what(daemon, queue):
    receive(daemon, queue, "one")
    held, = in_flight(daemon)
    daemon.restart()
    left, = in_flight(daemon)
    assert held.pop("Holder") and "Holder" not in left and left["FencingToken"] == held["FencingToken"]


def test_one_who_waited_is_the_holder(daemon):
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})
    waiting = threading.Thread(target=lambda: ask(
        daemon.port, "AmazonSQS.ReceiveMessage", {"QueueUrl": "q", "WaitTimeSeconds": 20},
        [("X-Tally-Worker", "patient")], "127.0.0.3"))
    waiting.start()
    wait_until(lambda: daemon.call("Tally.ListQueueStats")[1]["Queues"][0]["WaitingReceives"] == 1, 10)
    daemon.call("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": "m"})
    waiting.join()
    assert [held["Holder"] for held in in_flight(daemon)] == [{"Address": "127.0.0.3", "Worker": "patient"}]


@pytest.mark.parametrize("headers, worker", [
    ([("X-Tally-Worker", "w" * 128)], "w" * 128),
    ([("X-Tally-Worker", "w" * 129)], None),
    ([("X-Tally-Worker", "")], None),
    ([("X-Tally-Worker", "naïve".encode("utf-8"))], None),
    ([("X-Tally-Worker", "a\tb")], None),
    ([("x-tally-WORKER", " in the middle ")], "in the middle"),
    ([("X-Tally-Worker", "first"), ("X-Tally-Worker", "second")], "first"),
    # Only another node is to be believed here.
    ([("X-Tally-Worker", "w"), ("Tally-Forwarded-For", "9.9.9.9")], "w"),
])
def test_a_name_that_is_none_is_left_out(daemon, queue, headers, worker):
    receive(daemon, queue, headers=headers)
    named = {"Worker": worker} if worker is not None else {}
    assert [held["Holder"] for held in in_flight(daemon)] == [{"Address": "127.0.0.1", **named}]


def test_each_request_of_a_connection_has_its_own_name(daemon, queue):
    """The connection remembers whom it was last."""
    line = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60 * PATIENCE)
    names = ["one", "one", "two", "one", None, "two"]
    for name in names:
        headers = {"X-Amz-Target": "AmazonSQS.ReceiveMessage", **({"X-Tally-Worker": name} if name else {})}
        line.request("POST", "/", json.dumps({"QueueUrl": queue}), headers)
        line.getresponse().read()
    line.close()
    assert [held["Holder"].get("Worker") for held in in_flight(daemon)] == names


def test_over_a_unix_socket_there_is_no_address(daemon_factory, tmp_path):
    path = tmp_path / "socket"
    daemon = daemon_factory("--socket", path).start()
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(path))

        def call(target, body):
            body = json.dumps(body).encode()
            line.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nX-Tally-Worker: near\r\nX-Amz-Target: %s\r\n"
                         b"Content-Length: %d\r\n\r\n%s" % (target.encode(), len(body), body))
            return line.recv(65536)

        call("AmazonSQS.CreateQueue", {"QueueName": "q"})
        call("AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": "m"})
        call("AmazonSQS.ReceiveMessage", {"QueueUrl": "q"})
        assert b'"Holder":{"Worker":"near"}' in call("Tally.ListInFlight", {})
    assert daemon.stop() == 0


def test_a_signed_request_says_its_key_and_a_confined_one_sees_its_own_queues(guarded):
    for queue in "mail", "orders":
        ask(guarded.port, "AmazonSQS.CreateQueue", {"QueueName": queue}, key="BOSS")
        for _ in range(2):
            ask(guarded.port, "AmazonSQS.SendMessage", {"QueueUrl": queue, "MessageBody": "m"}, key="BOSS")
        receive(guarded, queue, "ops", key="BOSS")
    receive(guarded, "mail", key="MAIL")

    def listed(key, **filters):
        return [(held["QueueUrl"].rsplit("/")[-1], held["Holder"]["AccessKeyId"])
                for held in ask(guarded.port, "Tally.ListInFlight", filters, key=key)["Messages"]]

    assert listed("BOSS") == [("mail", "BOSS"), ("mail", "MAIL"), ("orders", "BOSS")]
    assert listed("MAIL") == [("mail", "BOSS"), ("mail", "MAIL")]
    assert listed("BOSS", AccessKeyId="BOSS", Worker="ops") == [("mail", "BOSS"), ("orders", "BOSS")]
    assert listed("MAIL", AccessKeyId="MAIL") == [("mail", "MAIL")]


def test_a_client_of_ipv4_is_called_so_at_a_listener_of_ipv6(daemon_factory, credentials):
    port = free_port()
    try:
        socket.socket(socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    daemon = daemon_factory("--credentials", credentials, "--listen", f"[::]:{port}").start()
    ask(port, "AmazonSQS.CreateQueue", {"QueueName": "q"}, key="BOSS")
    ask(port, "AmazonSQS.SendMessage", {"QueueUrl": "q", "MessageBody": "m"}, key="BOSS")
    ask(port, "AmazonSQS.ReceiveMessage", {"QueueUrl": "q"}, key="BOSS")
    held, = ask(port, "Tally.ListInFlight", {}, key="BOSS")["Messages"]
    assert held["Holder"] == {"AccessKeyId": "BOSS", "Address": "127.0.0.1"}
    assert daemon.stop() == 0


def test_many_names_take_little_memory_and_give_it_back(daemon, queue):
    """Each of them has the message for no time."""
    names = 5000
    before = daemon.request("GET", "/metrics")[2]
    line = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60 * PATIENCE)
    for number in range(names):
        line.request("POST", "/", json.dumps({"QueueUrl": queue, "VisibilityTimeout": 0}),
                     {"X-Amz-Target": "AmazonSQS.ReceiveMessage", "X-Tally-Worker": f"{number:0128d}"})
        line.getresponse().read()
    line.close()
    after = daemon.request("GET", "/metrics")[2]

    def memory(text):
        lines = text.decode().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("tally_memory_bytes "))

    assert memory(after) - memory(before) < 256 * 512


def test_tally_work_says_its_name(tally, daemon):
    tally("queue", "create", "work")
    ids = [tally("send", "work", "m").out.strip() for _ in range(2)]
    named = tally.start("work", "--queue", "work", "--name", "mail one", "--", "sleep", "60")
    wait_until(lambda: in_flight(daemon), what="that one has a message")
    other = tally.start("work", "--queue", "work", "--", "sleep", "60")
    wait_until(lambda: len(in_flight(daemon)) == 2, what="that the other one has one, too")
    assert tally("inflight", "work", "--worker", "mail one").out.count("\n") == 2
    first, second = tally.json("inflight")
    assert {first["MessageId"], second["MessageId"]} == set(ids)
    assert first["Holder"] == {"Address": "127.0.0.1", "Worker": "mail one"}
    assert second["Holder"]["Worker"] == f"{socket.gethostname()}/{other.pid}"
    head, *lines = tally("inflight").out.splitlines()
    assert head.split()[:4] == ["HELD", "LEFT", "RECEIVED", "MESSAGE"]
    assert lines[0].endswith("  work  mail one (127.0.0.1)") and first["MessageId"] in lines[0]
    assert tally("inflight", "work", "--limit", "1").err.startswith("tally: these are the first 1, and there may be")
    assert "held by     mail one (127.0.0.1)\n" in tally("peek", first["MessageId"]).out
    assert "held by mail one (127.0.0.1)." in tally("explain", "work", first["MessageId"]).out
    for worker in named, other:
        worker.send_signal(15)
        worker.send_signal(15)
        worker.finish()
    assert tally("inflight").out.count("\n") == 1


def test_a_message_that_a_hung_worker_has_is_released_to_who_waits(tally, daemon):
    tally("queue", "create", "work", "Tally.StaleReceipts=refuse")
    sent = tally("send", "work", "m").out.strip()
    (held,) = receive(daemon, "work", worker="hung/1")
    (shown,) = in_flight(daemon)
    foreseen = tally("release", sent, "--dry-run").out
    assert "held by     hung/1 (127.0.0.1)\n" in foreseen and "messages    0\n" in foreseen
    assert in_flight(daemon) == [shown]
    got = []
    waiter = threading.Thread(target=lambda: got.extend(ask(
        daemon.port, "AmazonSQS.ReceiveMessage", {"QueueUrl": "work", "WaitTimeSeconds": 20},
        [("X-Tally-Worker", "well/1")]).get("Messages", [])))
    waiter.start()
    wait_until(lambda: daemon.call("Tally.ListQueueStats", {})[1]["Queues"][0]["WaitingReceives"] == 1, what="a waiter")
    assert tally("release", sent).out.splitlines() == [
        "queue       work", "held by     hung/1 (127.0.0.1)", "attempt     1", "next        delivers it again"]
    waiter.join(20 * PATIENCE)
    assert [message["MessageId"] for message in got] == [sent]
    status, answer = daemon.call("AmazonSQS.DeleteMessage",
                                 {"QueueUrl": "work", "ReceiptHandle": held["ReceiptHandle"]})
    assert status != 200 and "ReceiptHandleIsInvalid" in answer["__type"]
    assert in_flight(daemon)[0]["Holder"]["Worker"] == "well/1"
    status, answer = daemon.call("Tally.ReleaseMessage", {"MessageId": sent, "FencingToken": shown["FencingToken"]})
    assert status == 400 and "not by delivery" in answer["message"]
    wait_until(lambda: len(daemon.audit()) == 3, what="three lines")
    assert daemon.audit()[1] == f"127.0.0.1: ReleaseMessage {sent} of queue work: OK"
    assert tally("release", sent, "--json").out.startswith('{"QueueUrl"')
    assert "its state is ready" in tally("release", sent, status=1).err


@pytest.mark.parametrize("name", ["", "w" * 129, "tab\there", "naïve"])
def test_tally_work_refuses_a_name_that_can_not_be_sent(tally, name):
    done = tally("work", "--queue", "work", "--name", name, "--", "true", status=2)
    assert "--name" in done.err


def test_looking_at_who_has_what_changes_nothing(daemon, queue):
    taken = receive(daemon, queue, "one")[0]
    for _ in range(50):
        in_flight(daemon)
    message = daemon.call("Tally.GetMessage", {"MessageId": taken["MessageId"]})[1]
    assert message["ReceiveCount"] == 1 and message["State"] == "in-flight"
