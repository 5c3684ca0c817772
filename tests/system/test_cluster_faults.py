"""Three nodes behind a front, six namespaces, and what can go wrong between them and PostgreSQL.

Each scenario of docs/internals/invariants-log.md that is about this finds the same cluster, in which all namespaces are
served, and leaves it so. Clients send in order and receive in all namespaces meanwhile, through a front that looks at
no request and at nodes of which most pass on what they are asked. What was acknowledged is held against what came:
nothing lost, nothing twice, order kept."""

import contextlib
import itertools
import pathlib
import shutil
import statistics
import tempfile
import threading
import time

import pytest
from clients import needs
from clock import Clock
from conftest import wait_until
from haproxy import PROGRAM, Haproxy
from logs import CROWD, LEASE, SMALL, TAKEOVER, cached, create_queue, drain, flip, receive, send, spoil
from logs import cluster, server  # noqa: F401 (fixtures)
from machines import NAMES, NODES, Machines, credential, wait_more
from netns import Network
from newer_node import NewerNode
from nodes import STANDING_BY, Cluster, Doors, PatientLine
from postgres import DistantPostgres, hand_over
from small_disk import NoMount, small_disk
from test_cluster_namespaces import wait_for_locks
from test_cluster_nodes import LIMIT, node_of, owners, secret  # noqa: F401 (a fixture)
from test_log_clock import check_times
from test_log_full import REASON, Sender, no_room
from test_log_full import cache_disk  # noqa: F401 (a fixture)
from test_log_trim import Dump, Writer, open_transaction
from test_log_versions import UNKNOWN_EVENT
from wire import Connection, Lost, request_bytes, scaled

KILLS = scaled(4, least=2)


# --- the cluster ----------------------------------------------------------------------------------------------------


class SpreadPostgres(DistantPostgres):
    """Whose databases and write-ahead log stand on disks of their own, if there are any."""

    def __init__(self, folder, host, disks):
        super().__init__(folder, host)
        self.disks = disks
        for disk in disks.values():
            hand_over(disk)
        if disks:
            self.settings.update(max_wal_size="128MB", min_wal_size="32MB")
            self.wal = disks["wal"] / "wal"

    def create_database(self, name):
        if self.disks:
            tables = self.disks["tables"] / "tables"
            tables.mkdir()
            hand_over(tables)
            self.sql(f"CREATE TABLESPACE small LOCATION '{tables}'")
            name += " TABLESPACE small"
        super().create_database(name)


@pytest.fixture(scope="module")
def disks():
    """For PostgreSQL; none where none can be mounted."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tally-faults-"))
    folder.chmod(0o711)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            made = {name: stack.enter_context(small_disk(folder / name, 640)) for name in ("tables", "wal")}
        except NoMount:
            made = {}
        yield made


@pytest.fixture(scope="module")
def whole(tmp_path_factory, disks):
    needs(PROGRAM, "haproxy")
    network, folder = Network(), tmp_path_factory.mktemp("faults")
    database = SpreadPostgres(folder / "postgres", network.host(), disks).start()
    hosts = [network.host() for _ in NODES]
    made = Machines(Cluster(database, folder, host=hosts[0]), hosts, folder)
    with made.front:
        yield made, network
    made.cluster.stop()
    database.stop("immediate")
    network.close()


@pytest.fixture
def machines(whole):
    made, network = whole
    network.join()
    if not made.cluster.server.is_up():
        made.cluster.server.start()
    made.heal()
    return made


@pytest.fixture
def database(machines):
    return machines.cluster.server


# --- nodes that end, are stopped or are cut off ---------------------------------------------------------------------


def test_K1_owners_are_killed_and_all_they_had_is_served_within_two_seconds(machines, capsys):
    took = []
    with machines.traffic(loaded=NAMES[0]) as traffic:
        for _ in range(KILLS):
            owner, others = machines.owner()
            lost = machines.owned(owner)
            killed_at = time.monotonic()
            owner.kill9()
            took.append(machines.wait_served(TAKEOVER, [machines.front, *others], lost, killed_at))
            wait_more(traffic)
            owner.start()
            machines.wait_calm()
    with capsys.disabled():
        print(f"\nK1: served again after {', '.join(f'{seconds:.2f}' for seconds in took)} s")
    assert statistics.median(took) < TAKEOVER / 2


class Mark:
    """A queue of a namespace, about which an owner of the past would answer what is true no more."""

    def __init__(self, machines, name):
        self.machines, self.name = machines, name
        self.queue = f"mark{next(machines.turn)}"
        line = machines.line(name)
        line.ok_at_last("AmazonSQS.CreateQueue", {"QueueName": self.queue, "Attributes": {"VisibilityTimeout": "30"}})
        line.ok_at_last("AmazonSQS.SendMessage", {"QueueUrl": self.queue, "MessageBody": "past"})
        self.lines = []

    def open(self, node):
        """Lines to a node, on each of which one question is asked."""
        self.lines = [Connection(node.port, 20, credential(self.name)).open() for _ in self._questions()]
        return self

    def _questions(self):
        return [("GetQueueAttributes", {"QueueUrl": self.queue, "AttributeNames": ["VisibilityTimeout"]}),
                ("ReceiveMessage", {"QueueUrl": self.queue, "VisibilityTimeout": 0}),
                ("ListQueues", {"QueueNamePrefix": self.queue}),
                ("SendMessage", {"QueueUrl": self.queue, "MessageBody": "sent"})]

    def ask(self):
        for line, (action, parameters) in zip(self.lines, self._questions()):
            line.write(request_bytes(f"AmazonSQS.{action}", parameters, line.credential))
        return self

    def change(self, node):
        """Through that one."""
        line = self.machines.line(self.name, node)
        asked = {"QueueUrl": self.queue, "Attributes": {"VisibilityTimeout": "77"}}
        line.ok_at_last("AmazonSQS.SetQueueAttributes", asked)
        line.ok_at_last("AmazonSQS.CreateQueue", {"QueueName": f"{self.queue}-later"})
        assert "past" in drain(line, self.queue)
        send(line, self.queue, ["now"])

    def answers(self):
        """Of each line: the status and the text; 0 where it ended without an answer."""
        found = []
        for line in self.lines:
            try:
                answer = line.answer()
                found.append((answer.status, answer.body.decode()))
            except Lost:
                found.append((0, ""))
        return found

    def judge(self):
        """Of answers that came after the change, none may be from before it."""
        answers = self.answers()
        assert {status for status, _ in answers} <= {0, 200, 503}, answers
        wanted = ("77", "now", f"{self.queue}-later", "MessageId")
        for word, (status, text) in zip(wanted, answers):
            assert status != 200 or word in text, (word, text)
        left = drain(self.machines.line(self.name), self.queue)
        assert set(left) <= {"now", "sent"} and left.count("sent") == (answers[-1][0] == 200), (left, answers)


def check_replaced(machines, owner, others, cut, join):
    """While the owner is away others have what it had; when it is back it answers nobody from what it remembers."""
    lost = machines.owned(owner)
    assert lost

    def stands_by():
        """How often it has said that it has lost all that it had."""
        return sum(line.startswith(STANDING_BY) for line in owner.lines)

    before = stands_by()
    marks = [Mark(machines, name).open(owner) for name in lost]
    passed_on = [Mark(machines, name).open(others[0]) for name in lost]
    cut()
    cut_at = time.monotonic()
    for mark in passed_on:
        mark.ask()
    machines.wait_served(LEASE + CROWD, others, lost, cut_at)
    # The front asks a node that is gone until that has said for two leases that it is not ready.
    took = machines.wait_served(2 * LEASE + CROWD, [machines.front], lost, cut_at)
    assert took > 0.9 * LEASE, "it was taken over before its lease had ended"
    for mark in marks:
        mark.change(others[1])
        mark.ask()
    for mark in passed_on:
        assert {status for status, _ in mark.answers()} <= {200, 503}, "all are answered before it is back"
    time.sleep(max(0, cut_at + 10 * LEASE - time.monotonic()))
    join()
    for mark in marks:
        mark.judge()
    wait_until(lambda: stands_by() > before, what=f"that it stands by; {owner.lines[-3:]}")
    assert owner.process.poll() is None
    return took


def test_K2_an_owner_that_was_stopped_answers_nobody_from_its_old_state(machines, capsys):
    with machines.traffic(loaded=NAMES[1]):
        owner, others = machines.owner()
        took = check_replaced(machines, owner, others, owner.pause, owner.resume)
    with capsys.disabled():
        print(f"\nK2: taken over after {took:.2f} s")


def test_K3_an_owner_that_only_postgresql_does_not_reach_answers_nobody_from_its_old_state(machines, database, capsys):
    """Clients and other nodes reach it all the time."""
    with machines.traffic(loaded=NAMES[2]):
        owner, others = machines.owner()
        took = check_replaced(machines, owner, others, lambda: owner.host.lose(database.host),
                              lambda: owner.host.find(database.host))
    with capsys.disabled():
        print(f"\nK3: taken over after {took:.2f} s")


def test_K5_a_node_that_was_cut_off_reads_what_it_missed_before_it_serves(machines, capsys):
    with machines.traffic() as traffic:
        _, others = machines.owner()
        late = others[0]
        late.host.cut()
        rest = [node for node in machines.nodes if node is not late]
        machines.wait_served(LIMIT + TAKEOVER + LEASE, rest)
        wait_more(traffic, 20)
        for node in rest:
            node.kill9()
        late.host.join()
        took = machines.wait_served(LIMIT + TAKEOVER + 2 * LEASE, [machines.front, late])
        wait_more(traffic)
        for node in rest:
            node.start()
    with capsys.disabled():
        print(f"\nK5: all served by the one that was cut off after {took:.2f} s")


def test_K26_all_nodes_and_postgresql_are_killed_and_started_at_once(machines, database, capsys):
    with machines.traffic(loaded=NAMES[3]):
        for node in machines.nodes:
            node.kill9()
        database.kill9()
        began = time.monotonic()
        for node in machines.nodes:
            node.start()
        database.start()
        took = machines.wait_served(10 * CROWD, since=began)
    with capsys.disabled():
        print(f"\nK26: {len(NAMES)} namespaces served through each of three nodes after {took:.2f} s")


# --- PostgreSQL -----------------------------------------------------------------------------------------------------


def test_K6_postgresql_is_restarted_and_killed_and_all_goes_on_by_itself(machines, database, capsys):
    took = []
    with machines.traffic(loaded=NAMES[4]) as traffic:
        for end in (lambda: database.stop("fast"), lambda: database.stop("immediate"), database.kill9):
            end()
            database.start()
            took.append(machines.wait_served(LEASE + TAKEOVER))
            wait_more(traffic)
    assert all(node.process.poll() is None for node in machines.nodes)
    with capsys.disabled():
        print(f"\nK6: served {', '.join(f'{seconds:.2f}' for seconds in took)} s after PostgreSQL")


@contextlib.contextmanager
def kept_wal(database):
    """Each checkpoint would make room in the write-ahead log, and then nobody is refused."""
    database.sql("SELECT pg_create_physical_replication_slot('kept', true)")
    try:
        yield
    finally:
        if database.is_up():
            database.sql("SELECT pg_drop_replication_slot('kept')")


@pytest.mark.parametrize("of", ["tables", "wal"])
def test_K12_a_full_disk_of_postgresql_is_said_and_all_goes_on_when_it_has_room(machines, database, of):
    """What clients of each namespace are told, through the front. Without room for its write-ahead log PostgreSQL ends,
    and then nobody can say why."""
    if not database.disks:
        pytest.skip("no disk can be mounted here")
    with machines.traffic() as traffic, kept_wal(database) if of == "wal" else contextlib.nullcontext():
        senders = [Sender(Doors([machines.front], credential(name)), create_queue(machines.line(name), "big"))
                   for name in NAMES]
        with no_room(database.disks[of]):
            heard = {}

            def listen(sender):
                ends_at = time.monotonic() + 60 * CROWD
                heard[sender] = sender.listen(4 * LEASE)
                while not heard[sender] and time.monotonic() < ends_at:
                    heard[sender] = sender.listen(LEASE)

            threads = [threading.Thread(target=listen, args=(sender,)) for sender in senders]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert of == "wal" or any(REASON.encode() in body for said in heard.values() for body in said), heard
        assert all(heard[sender] for sender in senders), "one was not refused at all"
        if not database.is_up():  # what runs it starts it again
            database.stop("immediate")
            database.start()
        for sender in senders:
            sender.send_until_taken()
        wait_more(traffic)
        assert all(node.process.poll() is None for node in machines.nodes)
        for sender in senders:
            sender.check(sender.cluster.line(kind=PatientLine))


def test_K18_a_transaction_that_stays_open_and_a_dump_slow_nobody_down(machines):
    with machines.traffic() as traffic:
        name = NAMES[0]
        writer = Writer(machines.cluster, machines.line(name), name)
        dump = Dump(machines.cluster)

        @contextlib.contextmanager
        def both():
            with open_transaction(machines.cluster), dump.run():
                yield

        writer.check_pace_beside(both)
        wait_more(traffic)
    assert len(dump.text) > 100000


# --- copies of the logs ---------------------------------------------------------------------------------------------


BODY = " " + "x" * 40000
WAYS = ("flipped", "truncated", "missing", "swapped")


def send_bodies(machines, name, count=30):
    line = machines.line(name)
    queue = create_queue(line, f"bodies{next(machines.turn)}")
    keys = [f"k{number}" for number in range(count)]
    send(line, queue, [key + BODY for key in keys])
    return queue, keys


def check_bodies(machines, name, queue, keys):
    """All of them come, through the front."""
    line, came = machines.line(name), {}
    deadline = time.monotonic() + 30 * CROWD
    while len(came) < len(keys):
        assert time.monotonic() < deadline, f"{len(came)} of {len(keys)} have come"
        for message in receive(line, queue, VisibilityTimeout=5):
            came[message["Body"].split(" ")[0]] = message["Body"]
    assert came == {key: key + BODY for key in keys}


def test_K11_what_an_owner_has_copied_is_damaged_while_it_serves_and_while_it_is_down_and_is_never_served(machines):
    with machines.traffic():
        owner, others = machines.owner()
        names = machines.owned(owner)
        made = {name: send_bodies(machines, name) for name in names}
        for path in cached(owner, "segment", names[0]):
            for at in range(10000, path.stat().st_size, 10000):
                flip(path, at)
        check_bodies(machines, names[0], *made[names[0]])
        assert owner.error_text().count("could not be read from the copy") == 1
        owner.kill9()
        machines.wait_served(TAKEOVER, [machines.front, *others])
        for name, how in zip(NAMES, itertools.cycle(WAYS)):
            spoil(owner, how, name)
        owner.start()
        machines.wait_back(owner)
        for name in names[1:]:
            check_bodies(machines, name, *made[name])
        assert "changed" not in owner.error_text()


class Churn:
    """Fills a queue of a namespace and empties it, again and again, so that segments end and are removed."""

    def __init__(self, machines, name):
        self.machines, self.name = machines, name
        self.is_over, self.fault = False, None
        self.before = self._first()
        self.thread = threading.Thread(target=self._guard, daemon=True)
        self.thread.start()

    def _guard(self):
        try:
            self._run(Doors([self.machines.front, *self.machines.nodes], credential(self.name)).line(4))
        except BaseException as error:  # noqa: BLE001 (reported by the test)
            self.fault = repr(error)

    def _run(self, line):
        line.ok_at_last("AmazonSQS.CreateQueue", {"QueueName": "churn"})
        for number in itertools.count():
            if self.is_over:
                return
            with contextlib.suppress(Lost):
                line.ok("AmazonSQS.SendMessage", {"QueueUrl": "churn", "MessageBody": "x" * 60000})
                if number % 30 == 0:
                    line.call("AmazonSQS.PurgeQueue", {"QueueUrl": "churn"})

    def _first(self):
        return self.machines.cluster.sql("SELECT min(f.name) FROM tally_log.file f JOIN tally_log.head h"
                                         " ON h.id = f.log WHERE h.log = %s AND f.name LIKE '%%.segment'",
                                         self.name)[0][0]

    def wait_trimmed(self):
        """Until a segment is removed that is there now."""
        self.before = self._first()
        wait_until(lambda: self.fault or self._first() > self.before, 60, f"that a segment of {self.name} is removed; "
                   f"{owners(self.machines.cluster)}")
        assert self.fault is None, self.fault

    def end(self):
        self.is_over = True
        self.thread.join()
        assert self.fault is None, self.fault


def test_K20_an_owner_dies_while_snapshots_are_made_and_segments_removed(machines):
    """One node sleeps meanwhile, and finds that what it was reading is gone."""
    with machines.traffic() as traffic:
        owner, others = machines.owner()
        sleeper = min(others, key=lambda node: len(machines.owned(node)))
        churns = [Churn(machines, name) for name in machines.owned(owner)[:2]]
        sleeper.pause()
        for churn in churns:
            churn.wait_trimmed()
        owner.kill9()
        sleeper.resume()
        machines.wait_served(2 * TAKEOVER + LEASE, [machines.front, *others])
        owner.start()
        for churn in churns:
            churn.wait_trimmed()
            churn.end()
        wait_more(traffic)
    assert all(node.process.poll() is None for node in machines.nodes)


# --- versions and clocks --------------------------------------------------------------------------------------------


def test_K23_what_a_newer_node_wrote_in_one_namespace_is_refused_by_all_and_the_others_go_on(machines):
    lost = NAMES[5]
    with machines.traffic() as traffic:
        rest = traffic[:-1]
        line = machines.line(lost)
        queue = create_queue(line, "kept")
        send(line, queue, ["kept"])
        with contextlib.closing(NewerNode(machines.cluster, name=lost)) as newer:
            newer.append_frame(payload=UNKNOWN_EVENT)
            wait_until(lambda: any("newer" in node.error_text() for node in machines.nodes), what="that it is said")
            time.sleep(3 * LEASE)
            assert not any(machines.is_served(node, lost) for node in machines.nodes)
            late = next(node for node in machines.nodes if set(machines.owned(node)) - {lost})
            late.kill9()
            late.start()
            machines.wait_back(late)
            machines.wait_served(TAKEOVER, names=NAMES[:-1])
            wait_more(rest)
            newer.take_back()
        machines.wait_served(10 * LEASE)
        assert set(drain(line, queue)) == {"kept"}


def test_K17_wall_clocks_an_hour_apart_and_a_jump_neither_expire_nor_prolong(cluster, secret, tmp_path):  # noqa: F811
    """One namespace: a signature is not believed where the clock is a quarter of an hour away from the client's."""
    clocks = {name: Clock() for name in NODES}
    nodes = {name: node_of(cluster, name, secret, lease=SMALL) for name in NODES}
    for (name, node), hours in zip(nodes.items(), (1, -1, 0)):
        clocks[name].set(3600 * hours)
        node.environment |= clocks[name].environment
        node.start()
    wait_until(lambda: owners(cluster), what="an owner")
    with Haproxy(nodes.values(), tmp_path) as front:
        jobs = create_queue(Doors([front]).line())
        wait_for_locks(cluster, 1)
        owner, = owners(cluster).values()
        other = next(node for name, node in nodes.items() if name != owner)

        def take_over():
            clocks[owner].set(-7200)
            assert not receive(Doors([other]).line(), jobs)
            nodes[owner].kill9()

        check_times(Doors([front]).line(), jobs, take_over, Doors([other]).line(kind=PatientLine))


# --- the last: nodes hold on to what came back to them, for minutes ---------------------------------------------------


def test_K11_an_owner_without_room_for_its_copies_leaves_its_namespaces_to_those_that_have_room(
        machines, cache_disk):  # noqa: F811
    """And takes some again when it has room."""
    owner, others = machines.owner()
    home = owner.data
    owner.kill9()
    owner.data = cache_disk / "data"
    owner.start()
    try:
        machines.wait_back(owner)
        machines.wait_calm()
        with machines.traffic() as traffic:
            with no_room(cache_disk):
                wait_until(lambda: not machines.owned(owner), 30, "that it gives all of them up")
                machines.wait_served(TAKEOVER + LEASE, [machines.front, *others])
                wait_more(traffic, 20)
                assert REASON in owner.error_text() and owner.process.poll() is None
            machines.wait_back(owner)
    finally:
        owner.kill9()
        owner.data = home
        owner.start()
