"""Any node answers: one that stands by passes requests on to the one that serves."""

import contextlib
import http.client
import json
import socket
import threading
import time

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from conftest import wait_until, write_credentials
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import CROWD, LEASED, create_queue, drain, send
from netns import Network
from nodes import Cluster
from postgres import DistantPostgres
from test_cluster_nodes import pin
from wire import Connection, Lost, request_bytes, scaled


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text("0123456789abcdef0123456789abcdef\n")
    return path


def node_of(cluster, name, secret, *options):
    made = cluster.node(name, "--cluster-secret", secret, *LEASED, *options)
    made.options += ["--advertise", f"127.0.0.1:{made.port}"]
    return made


@pytest.fixture
def nodes(cluster, secret):
    """The first one serves."""
    first = node_of(cluster, "one", secret).start().wait_ready()
    pin(cluster, "one")
    return [first, *(node_of(cluster, name, secret).start().wait_standing_by() for name in ("two", "three"))]


def test_a_node_that_stands_by_answers_for_the_one_that_serves(nodes):
    line = Connection(nodes[1].port)
    queue = line.ok("AmazonSQS.CreateQueue", {"QueueName": "jobs"})["QueueUrl"]
    assert queue.startswith("http://127.0.0.1/"), "it begins as the client's own Host"
    send(line, queue, ["a", "b"])
    send(Connection(nodes[2].port), queue, ["c"])
    assert sorted(drain(Connection(nodes[0].port), "jobs")) == ["a", "b", "c"]
    answer = line.call("AmazonSQS.GetQueueUrl", {"QueueName": "none"})
    assert answer.status == 400 and "QueueDoesNotExist" in answer.body.decode()
    assert answer.header("x-amzn-query-error") == "AWS.SimpleQueueService.NonExistentQueue;Sender"
    assert nodes[1].metric("tally_forwarded_total") >= 4


def test_each_node_has_the_dashboard_and_shows_what_the_owner_has(nodes):
    create_queue(Connection(nodes[0].port), "jobs")
    for node in nodes:
        status, headers, body = node.request("GET", "/ui/")
        assert status == 200 and body.startswith(b"<!doctype html>") and "Content-Security-Policy" in headers
        assert node.request("GET", "/ui/config")[0] == 200
        assert "jobs" in Connection(node.port).call("Tally.ListQueueStats", {}).body.decode()


def test_a_request_whose_header_is_as_large_as_may_be_passes_through_another_node(nodes):
    """The node that passes it on adds a line."""
    create_queue(Connection(nodes[0].port), "jobs")

    def ask(node, size):
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.ListQueues\r\nContent-Length: 2\r\nX: "
        with socket.create_connection(("127.0.0.1", node.port), 20) as line:
            line.sendall(head.ljust(size - 4, b"x") + b"\r\n\r\n{}")
            return line.recv(100).split(b" ")[1]

    for node in nodes:
        assert ask(node, 16384) == b"200"
        assert ask(node, 16385) == b"413"


def test_a_long_poll_through_a_node_that_stands_by_ends_when_a_message_comes(nodes):
    queue = create_queue(Connection(nodes[0].port))
    found = []

    def poll():
        line = Connection(nodes[1].port)
        found.append(line.ok("AmazonSQS.ReceiveMessage", {"QueueUrl": queue, "WaitTimeSeconds": 20})["Messages"])

    thread = threading.Thread(target=poll)
    thread.start()
    time.sleep(0.5)
    send(Connection(nodes[0].port), queue, ["late"])
    thread.join(5)
    assert found and found[0][0]["Body"] == "late"


def test_a_client_that_hangs_up_is_hung_up_on_at_the_owner(nodes):
    queue = create_queue(Connection(nodes[0].port))
    with Connection(nodes[1].port, 0.5) as line, pytest.raises(Lost):
        line.call("AmazonSQS.ReceiveMessage", {"QueueUrl": queue, "WaitTimeSeconds": 20})
    wait_until(lambda: nodes[1].metric("tally_forward_requests") == 0, 5, "that nobody waits for it")
    send(Connection(nodes[0].port), queue, ["kept"])
    assert drain(Connection(nodes[1].port), queue) == ["kept"]


def test_a_client_that_sends_no_more_gets_its_replies_through_another_node(nodes):
    queue = create_queue(Connection(nodes[0].port))
    with socket.create_connection(("127.0.0.1", nodes[1].port)) as line:
        line.sendall(request_bytes("AmazonSQS.SendMessage", {"QueueUrl": queue, "MessageBody": "m"})
                     + request_bytes("AmazonSQS.ListQueues", {}))
        line.shutdown(socket.SHUT_WR)
        line.settimeout(scaled(10))
        assert line.makefile("rb").read().count(b"HTTP/1.1 200 OK\r\n") == 2


def test_a_takeover_is_waited_for(nodes, cluster):
    line = Connection(nodes[2].port)
    queue = create_queue(line)
    cluster.wait_followed()
    nodes[0].kill9()
    began = time.monotonic()
    send(line, queue, ["after"])
    assert time.monotonic() - began < 3
    assert drain(line, queue) == ["after"]


def test_who_has_a_message_is_the_client_and_not_the_node_that_passes_its_request_on(nodes, cluster):
    queue = create_queue(Connection(nodes[0].port))
    send(Connection(nodes[0].port), queue, ["a", "b"])
    for node, source, headers in ((nodes[1], "127.0.0.2", {"Tally-Forwarded-For": "9.9.9.9"}),
                                  (nodes[0], "127.0.0.3", {})):
        line = http.client.HTTPConnection("127.0.0.1", node.port, source_address=(source, 0))
        headers |= {"X-Amz-Target": "AmazonSQS.ReceiveMessage", "X-Tally-Worker": f"of {source}"}
        line.request("POST", "/", json.dumps({"QueueUrl": queue}), headers)
        assert line.getresponse().status == 200
        line.close()
    expected = [{"Address": source, "Worker": f"of {source}"} for source in ("127.0.0.2", "127.0.0.3")]
    for node in nodes:
        held = Connection(node.port).ok("Tally.ListInFlight", {})["Messages"]
        assert [message["Holder"] for message in held] == expected
    cluster.wait_followed()
    nodes[0].kill9()  # the next owner can't know
    held = Connection(nodes[2].port).ok("Tally.ListInFlight", {})["Messages"]
    assert len(held) == 2 and not any("Holder" in message for message in held)


def test_nobody_forges_who_passes_a_request_on(nodes):
    """Without credentials a page of another site is refused; a node of the cluster has looked at that before."""
    headers = {"Host": "evil.example", "X-Amz-Target": "AmazonSQS.ListQueues", "Tally-Forwarded-By": "one " + "0" * 64,
               "Content-Type": "application/x-amz-json-1.0"}
    for node in nodes[:2]:
        assert node.request("POST", "/", b"{}", headers)[0] == 403


@pytest.mark.parametrize("options, said", [
    (("--advertise", "127.0.0.1:1"), "cluster-secret is not"),
    (("--cluster-secret", "/dev/null"), "advertise is not: say at which host and port"),
    (("--advertise", "some where:1", "--cluster-secret", "/dev/null"), "it must be an IP address or a host's name"),
    (("--advertise", "somewhere", "--cluster-secret", "/dev/null"), "it must be an IP address or a host's name"),
    (("--advertise", "10.0.0.256:1", "--cluster-secret", "/dev/null"), "it must be an IP address or a host's name"),
    (("--advertise", "0.0.0.0:1", "--cluster-secret", "/dev/null"), "it must be an IP address or a host's name"),
    (("--advertise", "127.0.0.1:1", "--cluster-secret", "/dev/null"), "has 0 bytes"),
    (("--advertise", "127.0.0.1:1", "--cluster-secret", "/dev/null", "--node", "n" * 64), "at most 63 bytes"),
    (("--advertise", "127.0.0.1:1", "--cluster-secret", "/dev/null", "--node", "a b"), "no blanks"),
])
def test_what_is_configured_wrong_is_named(cluster, options, said):
    node = cluster.node("one")
    node.options += options
    status, text = node.run_to_end()
    assert status == 2 and said in text


def test_a_node_that_was_the_owner_and_begins_anew_names_itself_to_nobody(cluster, secret):
    node = node_of(cluster, "one", secret).start().wait_ready()
    queue = create_queue(Connection(node.port))
    node.kill9()
    with contextlib.closing(cluster.server.connect(dbname=cluster.database)) as holder:
        holder.autocommit = False
        holder.cursor().execute("SELECT 1 FROM tally_log.head FOR UPDATE")  # so that it can't be the owner yet
        node.start().wait_standing_by()
        assert node.request("GET", "/ready")[0] == 503
        answer = Connection(node.port).call("AmazonSQS.ListQueues", {})
        assert answer.status == 503 and node.metric("tally_forwarded_retries_total") == 0
    node.wait_ready()
    send(Connection(node.port), queue, ["after"])


def test_a_node_with_another_secret_is_refused_and_a_request_does_not_go_to_and_fro(nodes, cluster, tmp_path):
    (tmp_path / "other").write_text("fedcba9876543210fedcba9876543210\n")
    cluster.sql("DELETE FROM tally_log.cluster")  # otherwise it is refused at its start (test_cluster_nodes.py)
    stranger = node_of(cluster, "stranger", tmp_path / "other").start().wait_standing_by()
    with Impostor(cluster, nodes[0], lambda line: pytest.fail("nobody comes here")) as impostor:
        cluster.sql("UPDATE tally_log.node SET address = %s WHERE name = %s", f"127.0.0.1:{nodes[1].port}", "one")
        time.sleep(0.3)
        answer = Connection(stranger.port).call("AmazonSQS.ListQueues", {})
        assert answer.status == 503 and "node one serves" in answer.body.decode(), answer.body
        assert impostor.requests == 0
    nodes[1].wait_said("the same cluster-secret?")
    assert nodes[1].metric("tally_forwarded_retries_total") == 0


def test_K22_an_sdk_that_knows_one_node_sends_each_message_once_and_in_order_over_takeovers(nodes):
    sdk = boto3.client("sqs", endpoint_url=f"http://127.0.0.1:{nodes[2].port}", region_name="us-east-1",
                       aws_access_key_id="any", aws_secret_access_key="any",
                       config=Config(retries={"max_attempts": 30, "mode": "standard"}, read_timeout=10))
    queue = sdk.create_queue(QueueName="jobs.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    sent = []

    def send_all():
        while not is_over.is_set():
            number = str(len(sent))
            sdk.send_message(QueueUrl=queue, MessageBody=number, MessageGroupId="one", MessageDeduplicationId=number)
            sent.append(number)

    is_over = threading.Event()
    sender = threading.Thread(target=send_all)
    sender.start()
    for _ in range(scaled(6, least=2)):
        time.sleep(0.5)
        owner = next(node for node in nodes if node.health() == "ok")
        if owner is nodes[2]:
            break  # its clients know no other one
        owner.kill9()
        wait_until(lambda: any(node.process and node.health() == "ok" for node in nodes), what="a takeover")
        owner.start()
        wait_until(lambda o=owner: o.health() != "", what="that it is back")
    count = len(sent)
    wait_until(lambda: len(sent) > count + 10, what="that it sends on")
    is_over.set()
    sender.join(30)
    found = []
    while len(found) < len(sent):
        answer = sdk.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=1)
        for message in answer["Messages"]:
            found.append(message["Body"])
            sdk.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    assert found == sent
    assert "Messages" not in sdk.receive_message(QueueUrl=queue)


def test_K21_long_polls_through_a_node_end_when_the_owner_dies_and_leave_nothing_behind(nodes):
    queue = create_queue(Connection(nodes[0].port))
    lines = [Connection(nodes[1].port) for _ in range(scaled(200, least=20))]
    for line in lines:
        line.write(request_bytes("AmazonSQS.ReceiveMessage", {"QueueUrl": queue, "WaitTimeSeconds": 20}))
    wait_until(lambda: nodes[1].metric("tally_forward_requests") == len(lines), what="that all wait")
    wait_until(lambda: nodes[0].metric("tally_http_connections") >= len(lines), what="that the owner has them")
    time.sleep(0.2)
    nodes[0].kill9()
    began = time.monotonic()
    assert {line.answer().status for line in lines} <= {200, 503}
    assert time.monotonic() - began < 10, "they have not waited for their time to be over"
    assert nodes[1].metric("tally_forward_requests") == 0


# --- an owner that is none ------------------------------------------------------------------------------------------


class Impostor:
    """Stands at the address of the node that serves, and does with each connection what a test says."""

    def __init__(self, cluster, owner, act):
        self.cluster, self.owner, self.act = cluster, owner, act
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.requests = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        with contextlib.suppress(OSError):
            while True:
                line, _ = self.listener.accept()
                self.requests += 1
                with line, contextlib.suppress(OSError):
                    self.act(line)

    def _set_address(self, port):
        self.cluster.sql("UPDATE tally_log.node SET address = %s WHERE name = %s", f"127.0.0.1:{port}", self.owner.name)
        time.sleep(0.3 * CROWD)  # until the nodes that stand by have read it

    def __enter__(self):
        self._set_address(self.listener.getsockname()[1])
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)  # close() alone would let the accept() under way take one more
        self.listener.close()
        self._set_address(self.owner.port)


def read_head(line):
    data = b""
    while b"\r\n\r\n" not in data:
        data += line.recv(65536)
    return data


def close(line):
    read_head(line)


def say(answer):
    def act(line):
        read_head(line)
        line.sendall(answer)
    return act


@pytest.mark.parametrize("act", [
    close,
    say(b"HTTP/1.1 200 OK\r\nContent-Length: nonsense\r\n\r\n"),
    say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n"),
    say(b"HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n"),
    say(b"HTTP/1.1 100 Continue\r\n\r\n"),
], ids=["closes", "nonsense", "more behind it", "status 099", "100 Continue"])
def test_a_request_that_was_sent_and_not_answered_is_never_sent_again(nodes, cluster, act):
    queue = create_queue(Connection(nodes[0].port))
    line = Connection(nodes[1].port)
    with Impostor(cluster, nodes[0], act) as impostor:
        answer = line.call("AmazonSQS.SendMessage", {"QueueUrl": queue, "MessageBody": "once"})
        assert answer.status == 503 and "nobody knows" in answer.body.decode()
        assert impostor.requests == 1
    send(line, queue, ["after"])
    assert drain(line, queue) == ["after"]


def test_an_answer_that_comes_before_all_of_the_request_was_sent_is_passed_on(nodes, cluster):
    def refuse(line):
        read_head(line)
        line.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\n{}")
        time.sleep(0.5)

    line = Connection(nodes[1].port)
    with Impostor(cluster, nodes[0], refuse):
        body = {"QueueUrl": "jobs", "MessageBody": "x" * 60000, "Padding": "x" * 2000000}
        assert line.call("AmazonSQS.SendMessage", body).status == 413
    assert line.ok("AmazonSQS.ListQueues", {}) == {}


class Machines:
    """PostgreSQL and two nodes, each on a machine of its own; the first one serves."""

    def __init__(self, network, folder, secret):
        self.hosts = [network.host(), network.host()]
        self.database = DistantPostgres(folder / "postgres", network.host()).start()
        self.cluster = Cluster(self.database, folder, host=self.hosts[1])
        options = ("--cluster-secret", secret, "--cluster-insecure", *LEASED, "--credentials",
                   write_credentials(folder, "app SECRET 000000000000 read,write,admin\n"))
        one, self.two = (self.cluster.node(name, *options, "--advertise", f"{host.address}:9324", "--listen",
                                           f"{host.address}:9324", host=host)
                         for name, host in zip(("one", "two"), self.hosts))
        one.start().wait_ready()
        pin(self.cluster, "one")
        self.two.start().wait_standing_by()
        self.sdk = boto3.client("sqs", endpoint_url=f"http://{self.hosts[1].address}:9324", region_name="us-east-1",
                                aws_access_key_id="app", aws_secret_access_key="SECRET",
                                config=Config(retries={"total_max_attempts": 1}))

    def ask(self, name, **arguments):
        """The second node."""
        with self.hosts[1].inside():
            return getattr(self.sdk, name)(**arguments)

    def refusal(self, name, **arguments):
        began = time.monotonic()
        with pytest.raises(ClientError) as error:
            self.ask(name, **arguments)
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        assert time.monotonic() - began < 8 * CROWD
        return error.value.response["Error"]["Message"]

    def close(self):
        self.cluster.stop()
        self.database.stop("immediate")


@pytest.fixture
def machines(secret, tmp_path):
    network = Network()
    made = Machines(network, tmp_path, secret)
    yield made
    made.close()
    network.close()


def test_an_owner_that_this_node_does_not_reach_is_waited_for_no_longer_than_a_silence(machines):
    """Only the line between the two nodes is cut: PostgreSQL goes on naming the owner."""
    one, two = machines.hosts
    queue = machines.ask("create_queue", QueueName="jobs")["QueueUrl"]
    two.lose(one)
    assert "nobody knows" in machines.refusal("send_message", QueueUrl=queue, MessageBody="cut")
    said = machines.refusal("send_message", QueueUrl=queue, MessageBody="cut")
    assert f"Node one ({one.address}:9324) serves, and this node could not reach it" in said
    machines.two.wait_said("could not reach it")
    two.find(one)
    machines.ask("send_message", QueueUrl=queue, MessageBody="after")


def test_a_node_that_says_that_it_is_not_the_owner_is_asked_again_until_it_is(nodes, cluster):
    send_away = say(b"HTTP/1.1 503 Service Unavailable\r\nTally-Not-Owner: true\r\nContent-Length: 0\r\n"
                    b"Connection: close\r\n\r\n")
    line = Connection(nodes[1].port)
    with Impostor(cluster, nodes[0], send_away) as impostor:
        began = time.monotonic()
        assert line.call("AmazonSQS.ListQueues", {}).status == 503
        assert 1.5 < time.monotonic() - began < 5 and impostor.requests > 3
    assert line.ok("AmazonSQS.ListQueues", {}) == {}
