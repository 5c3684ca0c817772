"""What passes between nodes: encrypted, and only between those whom the cluster's own authority knows; and over names
instead of addresses."""

import contextlib
import http.client
import os
import selectors
import shutil
import signal
import socket
import ssl
import threading
import time

import pytest
from certificates import Authority
from conftest import free_port, wait_until
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import LEASED, create_queue, drain, receive, send
from test_cluster_front import Impostor, secret  # noqa: F401 (a fixture)
from test_cluster_nodes import pin
from wire import Connection, Lost, request_bytes, scaled

UNREACHED = "and this node could not reach it for 2 s: "


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def make(cluster, secret, authority):
    """Makes a node with a certificate, that is not started yet."""

    def made(name, issued=None, ca=None, host="127.0.0.1"):
        node = cluster.node(name, "--cluster-secret", secret, *LEASED)
        node.line = free_port()
        node.options += ["--advertise", f"{host}:{node.line}"]
        node.options += (ca or authority).options(node.line, issued or authority.issue(name))
        return node

    return made


@pytest.fixture
def nodes(make, cluster):  # noqa: F811
    """The first one serves."""
    one = make("one").start().wait_ready()
    pin(cluster, "one")
    return [one, make("two").start().wait_standing_by()]


def refusal(node, queue="jobs"):
    answer = Connection(node.port).call("AmazonSQS.SendMessage", {"QueueUrl": queue, "MessageBody": "refused"})
    assert answer.status == 503, answer.body
    return answer.body.decode()


def assert_unreached(node, reason):
    """The client learns which node it is, and standard error why."""
    said = refusal(node)
    assert "Node one (" in said and "this node could not reach it for 2 s. Try again." in said
    node.wait_said(UNREACHED + reason)


# --- certificates -----------------------------------------------------------------------------------------------------


def test_nodes_with_certificates_answer_for_each_other(nodes):
    line = Connection(nodes[1].port)
    queue = create_queue(line)
    send(line, queue, ["a", "b"])
    assert drain(Connection(nodes[0].port), queue) == ["a", "b"]
    assert nodes[1].metric("tally_forward_handshakes_failed_total") == 0
    assert nodes[1].metric("tally_forward_connections_opened_total") == 1, "connections are kept"


def test_what_passes_between_nodes_is_encrypted(nodes, cluster):
    """Somebody in between hears a handshake, and nothing of the request."""
    heard = []

    def listen(line):
        heard.append(line.recv(65536))

    with Impostor(cluster, nodes[0], listen):
        refusal(nodes[1], "a-name-to-look-for")
    assert heard and heard[0][:1] == b"\x16" and b"a-name-to-look-for" not in b"".join(heard)


def test_large_requests_and_answers_go_through(nodes):
    line = Connection(nodes[1].port)
    queue = create_queue(line)
    body = "\n" + "x" * 60000
    for _ in range(scaled(10)):
        send(line, queue, [body])
    messages = receive(line, queue)
    assert messages and all(message["Body"] == body for message in messages)


def test_an_answer_of_20_megabytes_goes_through(make):
    """Ten messages of almost a megabyte, of characters that JSON writes as two."""
    sizes = ["--body-max", "8MiB", "--segment-size", "44MiB"]
    nodes = [make("one"), make("two")]
    for node in nodes:
        node.options += sizes
    nodes[0].start().wait_ready()
    nodes[1].start().wait_standing_by()
    line = Connection(nodes[1].port)
    queue = create_queue(line)
    body = '"' * 1000000
    for _ in range(10):
        send(line, queue, [body])
    answer = line.call("AmazonSQS.ReceiveMessage", {"QueueUrl": queue, "MaxNumberOfMessages": 10})
    assert answer.status == 200 and len(answer.body) > 20_000_000
    assert [message["Body"] == body for message in answer.json()["Messages"]] == [True] * 10
    wait_until(lambda: nodes[1].metric("tally_http_reply_bytes") < 5_000_000, what="that its memory is given back")


def test_long_polls_and_hang_ups_go_through(nodes):
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
    with Connection(nodes[1].port, 0.5) as line, pytest.raises(Lost):
        line.call("AmazonSQS.ReceiveMessage", {"QueueUrl": queue, "WaitTimeSeconds": 20})
    wait_until(lambda: nodes[1].metric("tally_forward_requests") == 0, 5, "that nobody waits for it")
    send(Connection(nodes[0].port), queue, ["kept"])
    assert drain(Connection(nodes[1].port), queue) == ["kept"]


def test_a_takeover_is_waited_for_over_tls(nodes, cluster):
    line = Connection(nodes[1].port)
    queue = create_queue(line)
    cluster.wait_followed()
    nodes[0].kill9()
    send(line, queue, ["after"])
    assert drain(line, queue) == ["after"]


@pytest.mark.parametrize("names, days, other_ca, reason", [
    ("IP:10.9.9.9,DNS:other.example", 30, False,
     "its certificate (/CN=wrong) does not name 127.0.0.1 in its subjectAltName"),
    ("IP:127.0.0.1", -1, False, "its certificate (/CN=wrong) is not taken: certificate has expired"),
    ("IP:127.0.0.1", 30, True, "its certificate (/CN=wrong) is not taken: unable to get local issuer certificate"),
], ids=["without the name", "expired", "of another authority"])
def test_an_owner_with_a_wrong_certificate_is_not_asked(make, authority, tmp_path, names, days, other_ca, reason):
    issuer = Authority(tmp_path, "other") if other_ca else authority
    owner = make("one", issuer.issue("wrong", names, days)).start().wait_ready()
    front = make("two").start().wait_standing_by()
    assert_unreached(front, reason)
    assert front.metric("tally_forward_handshakes_failed_total") > 0
    owner.wait_said("A connection from 127.0.0.1 to cluster-listen was refused")
    owner.wait_said("other nodes will not take the certificate")  # at its start


@pytest.mark.parametrize("days, other_ca, of_front, of_owner", [
    (-1, False, "certificate expired", "its certificate (/CN=wrong) is not taken: certificate has expired"),
    (30, True, "unknown CA", "its certificate (/CN=wrong) is not taken: unable to get local issuer certificate"),
], ids=["expired", "of another authority"])
def test_a_node_with_a_wrong_certificate_is_not_answered(make, authority, tmp_path, days, other_ca, of_front, of_owner):
    issuer = Authority(tmp_path, "other") if other_ca else authority
    owner = make("one").start().wait_ready()
    front = make("two", issuer.issue("wrong", days=days)).start().wait_standing_by()
    assert_unreached(front, f"it does not take the certificate of this node: {of_front}")
    owner.wait_said(of_owner)
    assert owner.metric("tally_nodes_refused_total") > 0
    assert owner.error_text().count("to cluster-listen was refused") == 1, "once a minute"
    assert front.error_text().count(UNREACHED) == 1, "the same"


def test_a_node_without_certificates_and_one_with_them_do_not_speak(make, cluster, secret):
    """Plain HTTP against TLS, and TLS against plain HTTP."""
    owner = make("one").start().wait_ready()
    plain = cluster.node("two", "--cluster-secret", secret, *LEASED)
    plain.options += ["--advertise", f"127.0.0.1:{plain.port}"]
    plain.start().wait_standing_by()
    assert "could not reach it for 2 s" in refusal(plain)
    owner.wait_said("from 127.0.0.1 to cluster-listen was refused: it does not speak TLS")
    owner.kill9()
    plain.wait_ready()
    owner.start().wait_standing_by()
    answer = Connection(owner.port).call("AmazonSQS.ListQueues", {})
    assert answer.status == 503 and "Node two (" in answer.body.decode()
    owner.wait_said(UNREACHED + "it does not speak TLS")


def test_clients_are_no_nodes(nodes, authority):
    """With no certificate nobody is let in; and through the usual listener nobody passes for a node, whatever he
    says."""
    context = ssl.create_default_context(cafile=authority.certificate)
    stranger = http.client.HTTPSConnection("127.0.0.1", nodes[0].line, context=context, timeout=10)
    with pytest.raises((ssl.SSLError, http.client.RemoteDisconnected, ConnectionError)):
        stranger.request("GET", "/health")
        stranger.getresponse()
    nodes[0].wait_said("it has shown no certificate")
    headers = {"Host": "evil.example", "X-Amz-Target": "AmazonSQS.ListQueues", "Tally-Forwarded-By": "one " + "0" * 64,
               "Content-Type": "application/x-amz-json-1.0"}
    assert nodes[0].request("POST", "/", b"{}", headers)[0] == 403


def test_a_node_serves_nothing_on_its_line_but_what_is_passed_on(nodes, authority):
    """Somebody with a certificate, and without the secret."""
    context = ssl.create_default_context(cafile=authority.certificate)
    context.load_cert_chain(*authority.issue("somebody"))
    for headers in ({}, {"Tally-Forwarded-By": "one " + "0" * 64}):
        line = http.client.HTTPSConnection("127.0.0.1", nodes[0].line, context=context, timeout=10)
        line.request("POST", "/", b"{}", {"X-Amz-Target": "AmazonSQS.ListQueues", **headers})
        answer = line.getresponse()
        assert answer.status == 503 and answer.headers["Tally-Not-Owner"]
        assert b"only nodes of the cluster" in answer.read()
    nodes[0].wait_said("have all nodes the same cluster-secret?")


def test_certificates_are_read_again_on_sighup(make, authority):
    """The owner's has expired. With a new one it is reached, without a restart and within a second."""
    certificate, key = authority.issue("one", days=-1)
    owner = make("one", (certificate, key)).start().wait_ready()
    front = make("two").start().wait_standing_by()
    assert_unreached(front, "its certificate (/CN=one) is not taken: certificate has expired")
    authority.issue("one")
    os.kill(owner.pid, signal.SIGHUP)
    line = Connection(front.port)
    wait_until(lambda: line.call("AmazonSQS.ListQueues", {}).status == 200, what="that the new one is in force")
    shutil.copy(authority.key, key)  # of another certificate
    os.kill(owner.pid, signal.SIGHUP)
    owner.wait_said("the certificate in force stays")
    assert line.call("AmazonSQS.ListQueues", {}).status == 200


def test_a_kept_connection_ends_when_its_certificate_is_replaced(nodes, authority):
    line = Connection(nodes[1].port)
    for _ in range(3):
        line.ok("AmazonSQS.ListQueues", {})
    assert nodes[1].metric("tally_forward_connections_opened_total") == 1
    authority.issue("two")
    os.kill(nodes[1].pid, signal.SIGHUP)

    def is_another():
        line.ok("AmazonSQS.ListQueues", {})
        return nodes[1].metric("tally_forward_connections_opened_total") == 2
    wait_until(is_another, what="a connection with the new certificate")


class BusyLine:
    """In front of a node whose processor has `cost_s` of work for each handshake, and goes round among those that have
    begun: of many at a time, each takes as long as all together. What comes later on a connection passes at once."""

    def __init__(self, port, cost_s, rounds=4):
        self.port, self.pause_s, self.rounds = port, cost_s / rounds, rounds
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.own_port = self.listener.getsockname()[1]
        self.waiting, self.most = [], 0
        for work in self._accept, self._go_round:
            threading.Thread(target=work, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                self.waiting.append((self.listener.accept()[0], self.rounds))
                self.most = max(self.most, len(self.waiting))

    def _go_round(self):
        while self.listener.fileno() >= 0:
            time.sleep(self.pause_s)
            if not self.waiting:
                continue
            client, rounds = self.waiting.pop(0)
            if rounds > 1:
                self.waiting.append((client, rounds - 1))
            else:
                threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client):
        with contextlib.suppress(OSError), client, socket.create_connection(("127.0.0.1", self.port)) as server, \
                selectors.DefaultSelector() as selector:
            for end, other in (client, server), (server, client):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(end, selectors.EVENT_READ, other)
            while True:
                for key, _ in selector.select():
                    data = key.fileobj.recv(65536)
                    if not data:
                        return
                    key.data.sendall(data)

    def close(self):
        self.listener.close()


def test_many_requests_at_once_reach_an_owner_that_is_slow_with_handshakes(make, cluster):
    """64 of them are about two seconds of work, and no handshake may take that long. So a few are begun at a time, and
    the requests that wait go on the first connections that are made."""
    owner = make("one")
    line = BusyLine(owner.line, 0.03)
    at = owner.options.index("--advertise") + 1
    owner.options[at] = f"127.0.0.1:{line.own_port}"
    owner.start().wait_ready()
    pin(cluster, "one")
    front = make("two").start().wait_standing_by()
    clients = [Connection(front.port) for _ in range(64)]
    for client in clients:
        client.write(request_bytes("AmazonSQS.ListQueues", {}))
    answers = [client.answer().status for client in clients]
    line.close()
    assert answers == 64 * [200], answers
    assert front.metric("tally_forward_connects_failed_total") == 0
    assert 1 < line.most < 32, line.most
    assert front.metric("tally_forward_connections_opened_total") < 64, "those that are made are used again"


LOG = ("--cluster-secret", "/dev/null")


@pytest.mark.parametrize("options, said", [
    (("--advertise", "10.0.0.1:9326"), "there is no cluster-certificate"),
    (("--advertise", "one.example:9326"), "--cluster-insecure does without them"),
    (("--advertise", "127.0.0.1:1", "--cluster-certificate", "x"), "cluster-ca is not"),
    (("--advertise", "127.0.0.1:1", "--cluster-certificate", "x", "--cluster-ca", "x"), "cluster-listen is \"\""),
    (("--advertise", "127.0.0.1:1", "--cluster-certificate", "x", "--cluster-ca", "x", "--cluster-listen", "here:1"),
     "a port of its own"),
    (("--advertise", "127.0.0.1:1", "--cluster-ca", "x"), "cluster-ca (from --cluster-ca) is set, and"),
    (("--advertise", "127.0.0.1:1", "--cluster-listen", "127.0.0.1:1"), "cluster-certificate is not"),
    (("--advertise", "127.0.0.1:1", "--cluster-certificate", "x", "--cluster-insecure"), "leave one of the two out"),
    (("--cluster-certificate", "x"), "advertise is not"),
])
def test_a_node_does_not_start_where_its_line_would_be_open_or_unclear(cluster, options, said):
    node = cluster.node("one", *LOG, *options)
    status, text = node.run_to_end()
    assert status == 2 and said in text, text


def test_a_certificate_that_can_not_be_read_is_named_at_the_start(make, tmp_path):
    (tmp_path / "empty").touch()
    status, text = make("one", (tmp_path / "empty", tmp_path / "empty")).run_to_end()
    assert status == 1 and "can't read a certificate in PEM form from" in text and "empty" in text


# --- names ------------------------------------------------------------------------------------------------------------


class Hosts:
    """An /etc/hosts of a node's own; nothing else is asked for names."""

    def __init__(self, folder):
        self.hosts, self.switch = folder / "hosts", folder / "nsswitch.conf"
        self.switch.write_text("hosts: files\npasswd: files\ngroup: files\n")
        self.write("")
        self.prefix = ["unshare", "--mount", "sh", "-c",
                       f"mount --bind {self.hosts} /etc/hosts && mount --bind {self.switch} /etc/nsswitch.conf && "
                       'exec "$@"', "sh"]

    def write(self, text):
        """In place: the file is mounted."""
        with open(self.hosts, "w", encoding="ascii") as file:
            file.write("127.0.0.1 localhost\n" + text)


@pytest.fixture
def hosts(tmp_path):
    return Hosts(tmp_path)


@pytest.fixture
def named(make, authority, hosts):
    """Nodes that are reached by name; the first one serves."""
    made = [make(name, authority.issue(name, f"DNS:{name}.example"), host=f"{name}.example") for name in ("one", "two")]
    for node in made:
        node.prefix = hosts.prefix
    made[0].start().wait_ready()
    made[1].start().wait_standing_by()
    return made


def test_a_node_is_found_by_its_name(named, hosts, cluster):
    hosts.write("127.0.0.1 one.example two.example\n")
    line = Connection(named[1].port)
    assert line.ok("AmazonSQS.ListQueues", {}) == {}
    stored = cluster.sql("SELECT address FROM tally_log.node WHERE name = 'one'")[0][0]
    assert stored == f"one.example:{named[0].line}", "PostgreSQL has the text as it was given"


def test_a_name_that_is_not_found_is_told_with_its_node(named, hosts):
    assert_unreached(named[1], "the name one.example was not found: ")
    assert named[1].metric("tally_forward_lookups_failed_total") > 0
    hosts.write("127.0.0.1 one.example\n")
    wait_until(lambda: Connection(named[1].port).call("AmazonSQS.ListQueues", {}).status == 200, 10,
               "that it is found once it is there")


def test_the_addresses_of_a_name_are_tried_in_order(named, hosts):
    hosts.write("127.0.0.9 one.example\n127.0.0.1 one.example\n")
    began = time.monotonic()
    assert Connection(named[1].port).ok("AmazonSQS.ListQueues", {}) == {}
    assert time.monotonic() - began < 1.5


def test_a_name_that_leads_elsewhere_is_followed(named, hosts):
    hosts.write("127.0.0.9 one.example\n")
    refusal(named[1])
    hosts.write("127.0.0.1 one.example\n")
    wait_until(lambda: Connection(named[1].port).call("AmazonSQS.ListQueues", {}).status == 200, 10,
               "that the new address is asked")


def test_requests_at_the_same_time_share_a_look_up(named, hosts):
    hosts.write("127.0.0.1 one.example\n")
    lines = [Connection(named[1].port) for _ in range(50)]
    threads = [threading.Thread(target=line.ok, args=("AmazonSQS.ListQueues", {})) for line in lines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert named[1].metric("tally_forward_lookups_total") <= 2
    assert named[1].metric("tally_forwarded_total") == 50


def test_a_name_in_the_certificate_must_be_that_in_advertise(make, authority, hosts):
    """Here it is that of another node of the same cluster."""
    owner = make("one", authority.issue("one", "DNS:two.example"), host="one.example")
    front = make("two", authority.issue("two", "DNS:two.example"), host="two.example")
    hosts.write("127.0.0.1 one.example two.example\n")
    owner.prefix = front.prefix = hosts.prefix
    owner.start().wait_ready()
    front.start().wait_standing_by()
    assert_unreached(front, "its certificate (/CN=one) does not name one.example in its subjectAltName")
