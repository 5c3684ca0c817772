"""Namespaces that are owned apart: each by the node that has its own log, while the others go on."""

import contextlib
import json
import signal
import socket
import threading
import time
import uuid

import pytest
from conftest import PATIENCE, wait_until, write_credentials
from logs import CROWD, LEASED, SMALL, TAKEOVER, cached, cluster, flip, server  # noqa: F401 (fixtures)
from nodes import READY, STANDING_BY, Cluster
from postgres import Postgres
from test_auth import ask, call, ok
from test_cluster_nodes import owners, pin
from wire import scaled

NAMES = [str(number) * 12 for number in range(1, 5)]
PAUSE = 0.12  # seconds between two requests of a client: what is tested is the fault
NOBODY = ("UPDATE tally_log.head SET epoch = epoch + 1, owner = %s, node = 'nobody', sealed_at = now() WHERE log = %s")


def key_of(namespace):
    return f"K{namespace}"


def lines_of(namespaces):
    return "".join(f"{key_of(name)}  the-secret  {name}  read,write,admin\n" for name in namespaces)


def node_maker(cluster, tmp_path, monkeypatch):  # noqa: F811
    """Makes nodes of a cluster with credentials of these namespaces."""
    class AnySecret(dict):
        def get(self, *_):
            return "the-secret"

    monkeypatch.setattr("test_auth.SECRETS", AnySecret())
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef0123456789abcdef\n")

    def make(name, namespaces, *options):
        folder = tmp_path / f"credentials of {name}"
        folder.mkdir()
        path = write_credentials(folder, lines_of(namespaces))
        node = cluster.node(name, "--credentials", path, "--cluster-secret", secret, *(options or LEASED))
        node.options += ["--advertise", f"127.0.0.1:{node.port}"]
        node.credentials = path
        return node

    return make


@pytest.fixture
def make_node(cluster, tmp_path, monkeypatch):
    return node_maker(cluster, tmp_path, monkeypatch)


def rename(node, namespaces):
    """Gives the node, which runs, credentials of these."""
    node.credentials.write_text(lines_of(namespaces))
    node.process.send_signal(signal.SIGHUP)


def facts(node):
    return json.loads(node.request("GET", "/health", seconds=5)[2])


def wait_served(node, count, seconds=20):
    """Until a node, which perhaps begins just now, serves so many namespaces."""
    def serves_them():
        with contextlib.suppress(OSError):
            return facts(node)["served"] == count
        return False
    wait_until(serves_them, seconds, f"that node {node.name} serves {count}")


def wait_for_locks(cluster, count, seconds=20):
    """Until so many stand-bys wait for the locks of owners: they have applied what there was."""
    waiting = ("SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE d.datname = "
               "current_database() AND l.locktype = 'advisory' AND NOT l.granted")
    wait_until(lambda: cluster.sql(waiting)[0][0] >= count, seconds, f"{count} stand-bys that wait")


@pytest.fixture
def halves(cluster, make_node):
    """Two nodes: the first has the first two namespaces, the second the others, and each follows those of the other."""
    one, two = (make_node(name, NAMES).start() for name in ("one", "two"))
    wait_until(lambda: len(owners(cluster)) == len(NAMES), what="that each namespace has an owner")
    pin(cluster, "one", *NAMES[:2])
    pin(cluster, "two", *NAMES[2:])
    for node in one, two:
        wait_until(lambda n=node: (facts(n)["served"], facts(n)["followed"]) == (2, 2), what="two each")
    wait_for_locks(cluster, 4)
    for name in NAMES:
        ok(one, key_of(name), "CreateQueue", {"QueueName": "jobs"})
    return one, two


def url(namespace):
    return f"http://any.host/{namespace}/jobs"


class Flood:
    """Clients of some namespaces, each of which sends one message after the other to a node and counts what fails."""

    def __init__(self, targets):
        self.failures, self.slowest, self.sent = [], 0, {name: 0 for _, name in targets}
        self.is_over = False
        self.threads = [threading.Thread(target=self._run, args=target, daemon=True) for target in targets]
        for thread in self.threads:
            thread.start()

    def _run(self, node, namespace):
        while not self.is_over:
            began = time.monotonic()
            try:
                answer = ask(node, "json", "SendMessage", {"QueueUrl": url(namespace), "MessageBody": "m"},
                             key_of(namespace))
                if answer.status != 200:
                    self.failures.append((namespace, answer.status, answer.body))
            except OSError as error:
                self.failures.append((namespace, 0, repr(error)))
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.sent[namespace] += 1
            time.sleep(PAUSE)

    def wait_more(self, count=10):
        before = dict(self.sent)
        wait_until(lambda: all(self.sent[name] >= before[name] + count for name in before), what="more requests")

    def end(self):
        self.is_over = True
        for thread in self.threads:
            thread.join(30 * PATIENCE)
            assert not thread.is_alive()


def serves(node, namespace, *statuses):
    """Does it answer about the namespace: 200, or one of these?"""
    with contextlib.suppress(OSError):
        answer = ask(node, "json", "GetQueueUrl", {"QueueName": "jobs"}, key_of(namespace))
        return answer.status in (200, *statuses)
    return False


# --- each by its own ------------------------------------------------------------------------------------------------


def test_two_nodes_own_a_namespace_each_and_either_answers_for_both(cluster, make_node):
    one = make_node("one", NAMES[:1]).start().wait_ready()
    two = make_node("two", NAMES[1:2]).start().wait_ready()
    for node in one, two:
        rename(node, NAMES[:2])
    for node in one, two:
        wait_until(lambda n=node: facts(n)["followed"] == 1, what="that each follows that of the other")
        wait_until(lambda n=node: n.request("GET", "/ready")[0] == 200, what="that it knows both owners")
        assert json.loads(node.request("GET", "/ready")[2])["status"] == "forwards"
        assert node.health() == "ok" and facts(node)["namespaces"] == 2 and facts(node)["served"] == 1
        assert [node.metric(f"tally_namespaces{name}") for name in ("", "_owned", "_followed")] == [2, 1, 1]
        assert node.metric("tally_log_owner") == 1
    assert owners(cluster) == {NAMES[0]: "one", NAMES[1]: "two"}
    for name in NAMES[:2]:
        made = {ok(node, key_of(name), "CreateQueue", {"QueueName": "jobs"})["QueueUrl"].rsplit("/", 2)[1]
                for node in (one, two)}
        assert made == {name}
        ok(one, key_of(name), "SendMessage", {"QueueUrl": url(name), "MessageBody": f"of {name}"})
    for node, name in (one, NAMES[1]), (two, NAMES[0]):
        found = ok(node, key_of(name), "ReceiveMessage", {"QueueUrl": url(name), "WaitTimeSeconds": 1})["Messages"]
        assert [message["Body"] for message in found] == [f"of {name}"]
        assert node.metric("tally_forwarded_total") >= 1
    # A queue of the other node's namespace, asked for by its URL, is looked for there.
    answer = ask(one, "json", "ReceiveMessage", {"QueueUrl": url(NAMES[1])}, key_of(NAMES[0]))
    assert answer.status == 403 and answer.code == "AccessDenied"


def test_a_node_that_passes_nothing_on_names_the_owner_of_the_namespace_that_was_asked_for(cluster, make_node):
    one = make_node("one", NAMES[:1]).start().wait_ready()
    alone = cluster.node("alone", "--credentials", one.credentials, *LEASED).start().wait_standing_by()
    assert ask(alone, "json", "ListQueues", key=key_of(NAMES[0])).status == 503
    wait_until(lambda: "node one serves" in ask(alone, "json", "ListQueues", key=key_of(NAMES[0])).body, 10,
               "that it names the owner")
    assert ask(alone, "json", "ListQueues", key=key_of(NAMES[0]), secret="wrong").status == 403
    assert alone.request("GET", "/ready")[0] == 503


def test_a_namespace_whose_log_another_one_has_sealed_goes_alone_and_comes_back(cluster, make_node):
    node = make_node("one", NAMES).start().wait_ready()
    for name in NAMES:
        ok(node, key_of(name), "CreateQueue", {"QueueName": "jobs"})
    lost = NAMES[1]
    ok(node, key_of(lost), "SendMessage", {"QueueUrl": url(lost), "MessageBody": "kept"})
    flood = Flood([(node, name) for name in NAMES if name != lost])
    for _ in range(scaled(3, least=2)):
        flood.wait_more()
        cluster.sql(NOBODY, str(uuid.uuid4()), lost)
        wait_until(lambda: owners(cluster)[lost] == "one", what="that it has the log again")
        wait_until(lambda: serves(node, lost), what="that it serves the namespace again")
    flood.wait_more()
    flood.end()
    assert not flood.failures, flood.failures[:3]
    found = ok(node, key_of(lost), "ReceiveMessage", {"QueueUrl": url(lost)})["Messages"]
    assert [message["Body"] for message in found] == ["kept"]
    said = [line for line in node.lines if line.startswith((READY, STANDING_BY))]
    assert len(said) == 2, "it has never stood by in between"


def test_requests_of_a_namespace_that_is_lost_are_refused_and_those_of_others_on_the_same_connection_are_not(
        cluster, make_node):
    node = make_node("one", NAMES[:2]).start().wait_ready()
    for name in NAMES[:2]:
        ok(node, key_of(name), "CreateQueue", {"QueueName": "jobs"})
    answers = {}

    def poll(name):
        answers[name] = ask(node, "json", "ReceiveMessage", {"QueueUrl": url(name), "WaitTimeSeconds": 6}, key_of(name))

    threads = [threading.Thread(target=poll, args=(name,)) for name in NAMES[:2]]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    cluster.sql(NOBODY, str(uuid.uuid4()), NAMES[1])
    threads[1].join(5 * PATIENCE)
    assert answers[NAMES[1]].status == 503 and "does not know whether" in answers[NAMES[1]].body
    assert NAMES[0] not in answers, "the other one waits on"
    ok(node, key_of(NAMES[0]), "SendMessage", {"QueueUrl": url(NAMES[0]), "MessageBody": "late"})
    threads[0].join(10 * PATIENCE)
    assert answers[NAMES[0]].status == 200 and "late" in answers[NAMES[0]].body


def test_a_connection_that_breaks_for_one_namespace_holds_no_replies_of_others(cluster, halves):
    one, _ = halves
    ends = ("SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN tally_log.head h ON l.classid = 1952541804 + h.id "
            "WHERE l.locktype = 'advisory' AND l.granted AND h.log = %s AND l.database = "
            "(SELECT oid FROM pg_database WHERE datname = current_database())")
    flood = Flood([(one, NAMES[0])] * 2)
    for _ in range(3):
        flood.wait_more()
        cluster.sql(ends, NAMES[1])
        wait_until(lambda: serves(one, NAMES[1]), what="that it is answered, here or there")
    flood.end()
    assert not flood.failures and flood.slowest < 1 * CROWD, (flood.failures[:3], flood.slowest)


# --- nodes that end -------------------------------------------------------------------------------------------------


def test_K1_a_node_with_half_of_the_namespaces_is_killed_and_the_other_half_is_not_disturbed(cluster, halves):
    one, two = halves
    flood = Flood([(two, name) for name in NAMES[2:]])
    flood.wait_more()
    killed_at = time.monotonic()
    one.kill9()
    for name in NAMES[:2]:
        wait_until(lambda n=name: serves(two, n), what=f"that {name} is served")
    assert time.monotonic() - killed_at < TAKEOVER * PATIENCE
    flood.wait_more()
    flood.end()
    assert not flood.failures, flood.failures[:3]
    assert set(owners(cluster).values()) == {"two"}
    assert facts(two)["served"] == 4
    one.start()
    wait_served(one, 2)
    assert {name for name, owner in owners(cluster).items() if owner == "one"} == set(NAMES[:2])


def test_a_node_that_is_stopped_hands_its_namespaces_over_and_no_request_fails(cluster, halves):
    one, two = halves
    flood = Flood([(two, name) for name in NAMES])
    flood.wait_more()
    began_at = time.monotonic()
    one.process.send_signal(signal.SIGTERM)
    wait_until(lambda: set(owners(cluster).values()) == {"two"}, what="that the other one has all")
    took = time.monotonic() - began_at
    assert one._reap(20 * PATIENCE) == 0
    flood.wait_more()
    flood.end()
    assert not flood.failures, flood.failures[:3]
    assert took < 1 * CROWD and flood.slowest < 2 * CROWD, (took, flood.slowest)


def test_clients_of_the_node_that_is_stopped_are_answered_until_it_ends(halves):
    """It passes on what it has given up already."""
    one, two = halves
    flood = Flood([(one, name) for name in NAMES])
    flood.wait_more()
    one.process.send_signal(signal.SIGTERM)
    assert one._reap(20 * PATIENCE) == 0
    flood.end()
    answered = [failure for failure in flood.failures if failure[1] != 0]
    assert not answered, answered[:3]
    assert facts(two)["served"] == 4


def test_more_namespaces_than_a_node_follows_are_taken_over_when_their_owner_is_killed(cluster, make_node):
    """32 logs of others are followed. What is beyond these is opened when nobody has it."""
    names = [f"{number:012}" for number in range(40)]
    one = make_node("one", names).start().wait_ready(60)
    wait_served(one, 40, 60)
    pin(cluster, "one")
    two = make_node("two", names).start()
    two.wait_standing_by()
    wait_until(lambda: facts(two)["followed"] == 32, 60, "that it follows as many as it can")
    wait_until(lambda: two.request("GET", "/ready")[0] == 200, what="that it knows all owners")
    wait_for_locks(cluster, 32)
    assert set(owners(cluster).values()) == {"one"}
    one.kill9()
    wait_served(two, 40, 60)
    for name in names:
        assert ok(two, key_of(name), "ListQueues") is not None


# --- one of them ----------------------------------------------------------------------------------------------------


def test_K11_a_damaged_cache_of_one_namespace_is_fetched_again_while_the_others_go_on(cluster, make_node):
    node = make_node("one", NAMES[:2], *SMALL).start().wait_ready()
    for name in NAMES[:2]:
        ok(node, key_of(name), "CreateQueue", {"QueueName": "jobs"})
    keys = [f"k{number}" for number in range(30)]
    for key in keys:
        ok(node, key_of(NAMES[0]), "SendMessage", {"QueueUrl": url(NAMES[0]), "MessageBody": f"{key} " + "x" * 40000})
    for path in cached(node, "segment", NAMES[0]):
        for at in range(10000, path.stat().st_size, 10000):
            flip(path, at)
    flood = Flood([(node, NAMES[1])] * 2)
    bodies = {}
    while len(bodies) < len(keys):
        answer = ask(node, "json", "ReceiveMessage", {"QueueUrl": url(NAMES[0]), "MaxNumberOfMessages": 10,
                                                      "VisibilityTimeout": 5}, key_of(NAMES[0]))
        for message in json.loads(answer.body).get("Messages", []) if answer.status == 200 else []:
            bodies[message["Body"].split(" ")[0]] = message["Body"]
    flood.end()
    assert sorted(bodies) == sorted(keys)
    assert all(body == f"{key} " + "x" * 40000 for key, body in bodies.items())
    assert not flood.failures, flood.failures[:3]
    assert node.error_text().count("could not be read from the copy") == 1


def test_namespaces_that_come_into_the_credentials_are_served_and_those_that_leave_are_not(cluster, make_node):
    node = make_node("one", NAMES[:2]).start().wait_ready()
    rename(node, NAMES[1:3])
    wait_until(lambda: owners(cluster).get(NAMES[2]) == "one" and facts(node)["namespaces"] == 2, what="the new one")
    wait_until(lambda: facts(node)["served"] == 2, what="that it is served")
    ok(node, key_of(NAMES[2]), "CreateQueue", {"QueueName": "jobs"})
    assert ask(node, "json", "ListQueues", key=key_of(NAMES[0])).status == 403
    other = make_node("two", NAMES[:1]).start().wait_ready()
    assert owners(cluster)[NAMES[0]] == "two", "its log was free"
    assert other.stop() == 0
    rename(node, NAMES)
    wait_until(lambda: facts(node)["served"] == 4, what="that it serves all")
    assert set(owners(cluster).values()) == {"one"}


# --- without an address ---------------------------------------------------------------------------------------------


def test_without_an_address_a_node_has_all_namespaces_or_none(cluster, make_node, tmp_path):
    """A client has to find all of them at one node: the first by name decides."""
    path = write_credentials(tmp_path, lines_of(NAMES))
    one = cluster.node("one", "--credentials", path, *LEASED).start().wait_ready()
    two = cluster.node("two", "--credentials", path, *LEASED).start().wait_standing_by()
    wait_until(lambda: facts(two)["followed"] == 4, what="that all are followed")
    flood = Flood([(one, NAMES[0])])
    with contextlib.suppress(AssertionError):
        ok(one, key_of(NAMES[0]), "CreateQueue", {"QueueName": "jobs"})
    flood.failures.clear()
    cluster.sql(NOBODY, str(uuid.uuid4()), NAMES[2])
    wait_until(lambda: owners(cluster)[NAMES[2]] == "one", what="that it has the one again that it lost")
    flood.wait_more()
    flood.end()
    assert all("does not exist" in failure[2] for failure in flood.failures), flood.failures[:3]
    assert set(owners(cluster).values()) == {"one"} and two.health() == "standby"
    cluster.sql(NOBODY, str(uuid.uuid4()), NAMES[0])
    wait_until(lambda: len(set(owners(cluster).values()) - {"nobody"}) == 1 and
               sorted(node.health() for node in (one, two)) == ["ok", "standby"] and
               max(facts(node)["served"] for node in (one, two)) == 4, 20, "that one of them has all")


# --- all at once ----------------------------------------------------------------------------------------------------


class Pipe:
    """A FIFO queue of a namespace: what is sent, by nodes in turn, is received by nodes in turn; once, and in order."""

    def __init__(self, nodes, namespace):
        self.nodes, self.namespace = nodes, namespace
        self.sent, self.found, self.deleted, self.faults = 0, [], set(), []
        self.is_sending, self.is_over = True, False
        self.threads = [threading.Thread(target=self._guard, args=(work,), daemon=True)
                        for work in (self._send, self._receive)]
        self._ask(0, "CreateQueue", {"QueueName": "pipe.fifo", "Attributes": {"FifoQueue": "true"}})
        for thread in self.threads:
            thread.start()

    def _guard(self, work):
        try:
            work()
        except BaseException as error:  # noqa: BLE001 (reported by the test)
            self.faults.append(repr(error))

    def _ask(self, turn, action, parameters):
        """By one node after the other, until one answers: for what may be repeated."""
        deadline = time.monotonic() + 60 * PATIENCE
        while time.monotonic() < deadline:
            node = self.nodes[turn % len(self.nodes)]
            turn += 1
            try:
                answer = ask(node, "json", action, parameters, key_of(self.namespace))
            except OSError:
                time.sleep(0.02)
                continue
            if answer.status == 200:
                return json.loads(answer.body) if answer.body else {}
            if answer.status != 503:
                return answer
        raise AssertionError(f"{action} of {self.namespace}: no node answers")

    def _queue(self):
        return f"http://any.host/{self.namespace}/pipe.fifo"

    def _send(self):
        while self.is_sending:
            number = str(self.sent)
            self._ask(self.sent, "SendMessage", {"QueueUrl": self._queue(), "MessageBody": number,
                                                 "MessageGroupId": "g", "MessageDeduplicationId": number})
            self.sent += 1
            self._pause()

    def _pause(self):
        """Between two messages."""
        time.sleep(PAUSE)

    def _has_more(self):
        """May another one have come?"""
        return True

    def _receive(self):
        turn = 0
        while self.threads[0].is_alive() or len(self.found) < self.sent:
            turn += 1
            if not self._has_more():
                time.sleep(0.02)
                continue
            reply = self._ask(turn, "ReceiveMessage", {"QueueUrl": self._queue(), "MaxNumberOfMessages": 10,
                                                       "VisibilityTimeout": 2})
            for message in reply.get("Messages", []):
                self._take(turn, message)
            if not reply.get("Messages"):
                time.sleep(PAUSE)

    def _take(self, turn, message):
        number = int(message["Body"])
        if number in self.deleted:
            self.faults.append(f"{number} came back after its delete was acknowledged")
        if number == len(self.found):
            self.found.append(number)
        elif number > len(self.found):
            self.faults.append(f"{number} came before {len(self.found)}")
        answer = self._ask(turn, "DeleteMessage", {"QueueUrl": self._queue(),
                                                   "ReceiptHandle": message["ReceiptHandle"]})
        if isinstance(answer, dict):  # another one: the handle has expired
            self.deleted.add(number)

    def finish(self):
        self.is_sending = False
        for thread in self.threads:
            thread.join(90 * PATIENCE)
            assert not thread.is_alive(), f"{len(self.found)} of {self.sent} have come"
        assert not self.faults, self.faults[:3]
        assert self.found == list(range(self.sent))


def test_K22_namespaces_change_hands_under_load_and_nothing_is_lost_and_nothing_comes_twice(cluster, halves):
    nodes = list(halves)
    pipes = [Pipe(nodes, name) for name in NAMES]
    for turn in range(scaled(4, least=3)):
        time.sleep(0.5)
        cluster.sql(NOBODY, str(uuid.uuid4()), NAMES[turn % len(NAMES)])
        time.sleep(0.5)
        node = nodes[turn % 2]
        if turn % 2 == 0:
            assert node.stop() == 0
        else:
            node.kill9()
        wait_served(nodes[(turn + 1) % 2], 4)
        node.start()
        wait_served(node, 2)
    for pipe in pipes:
        pipe.finish()
        assert pipe.sent > 20


def answers(node, name, action, parameters):
    with contextlib.suppress(OSError):
        return call(node, key_of(name), action, parameters)[0] == 200


def test_a_server_that_is_gone_is_tried_seldom_however_many_logs_wait_for_it(tmp_path, monkeypatch):
    names = [f"{number:012}" for number in range(20)]
    own = Postgres(tmp_path / "postgres", fsync="on").start()
    with contextlib.ExitStack() as stack:
        stack.callback(own.stop, "immediate")
        made = Cluster(own, tmp_path)
        stack.callback(made.stop)
        make = node_maker(made, tmp_path, monkeypatch)
        first, second = (make(name, names).start() for name in ("one", "two"))
        for name in names:
            wait_until(lambda name=name: answers(second, name, "CreateQueue", {"QueueName": "jobs"}), 30, "a queue")
        own.stop("immediate")
        tries, end = 0, time.monotonic() + 3
        with socket.create_server(("127.0.0.1", own.port)) as listener:
            while (left := end - time.monotonic()) > 0:
                listener.settimeout(left)
                with contextlib.suppress(TimeoutError):
                    listener.accept()[0].close()
                    tries += 1
        own.start()
        for name in names:
            wait_until(lambda name=name: answers(first, name, "ListQueues", {}), 30, "that it is served again")
    assert tries < 100, "each log would make twenty a second"
