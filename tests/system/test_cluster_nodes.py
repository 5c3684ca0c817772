"""The nodes of a cluster as PostgreSQL has them: who is alive, where namespaces should be, what an operator wants; the
tables, and how they are brought from one version to the next."""

import contextlib
import json
import pathlib
import re
import signal
import subprocess
import threading
import time

import pytest
from campaigns import find_program
from conftest import BIN, PATIENCE, ROOT, WRAPPER, clean_environment, wait_until, write_credentials
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import CROWD, LEASED, SMALL, create_queue, drain, send, texts
from nodes import Cluster, PatientLine
from postgres import Postgres
from wire import Connection, scaled

SECRET = "0123456789abcdef0123456789abcdef"
LIMIT = 5  # seconds without a beat after which a node with a lease of 2.5 s or less is not alive
GUIDE = ROOT / "docs/how-to/run-a-cluster.md"


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    return path


def node_of(cluster, name, secret, *options, lease=LEASED, uri=None):  # noqa: F811
    made = cluster.node(name, "--cluster-secret", secret, *lease, *options, uri=uri)
    made.options += ["--advertise", f"127.0.0.1:{made.port}"]
    return made


def tally(cluster, *words):  # noqa: F811
    """tally cluster WORDS: its status, what it printed, what it said."""
    json_word = [word for word in words if word == "--json"]
    others = [word for word in words if word != "--json"]
    prefix = cluster.host.prefix if cluster.host else []
    command = [*prefix, *WRAPPER, str(BIN / "tally"), *json_word, "cluster", *others, "--log", cluster.uri]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), timeout=60 * PATIENCE,
                          check=False)
    return done.returncode, done.stdout, done.stderr


def status(cluster):  # noqa: F811
    """The nodes and the namespaces by name, as JSON has them."""
    code, printed, said = tally(cluster, "status", "--json")
    assert code == 0, said
    objects = [json.loads(line) for line in printed.splitlines()]
    return ({one["Node"]: one for one in objects if "Namespace" not in one},
            {one["Namespace"]: one for one in objects if "Namespace" in one})


def pin(cluster, node, *names):  # noqa: F811
    """These namespaces belong to the node from now on; without names all that there are."""
    for name in names or owners(cluster):
        wait_until(lambda n=name: tally(cluster, "move", n, node)[0] == 0, what=f"that {name} belongs to {node}")


def owners(cluster):  # noqa: F811
    """Who has, or had last, each log."""
    return dict(cluster.sql("SELECT log, node FROM tally_log.head ORDER BY log"))


def is_alive(cluster, name):  # noqa: F811
    return status(cluster)[0][name]["Alive"]


class Nodes:
    """Nodes that only register (tests/placement/nodes.c): what a node knows of its cluster."""

    def __init__(self, cluster, prefix, count=1, secret=SECRET, lease_ms=1000):  # noqa: F811
        command = [str(find_program("nodes", "placement")), cluster.uri, prefix, str(count), secret, str(lease_ms)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                                        env=clean_environment())
        self.said, self.answers = [], []
        self.came = threading.Condition()
        self.is_ready = False
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.came:
                if line == "ready\n":
                    self.is_ready = True
                elif line.startswith("said "):
                    self.said.append(line.strip())
                else:
                    self.answers.append(line.strip())
                self.came.notify_all()

    def wait_ready(self):
        wait_until(lambda: self.is_ready, 90, f"the nodes; {self.said}")
        return self

    def wait_ended(self):
        """By itself; what it said is all there."""
        self.process.wait(10 * PATIENCE)
        self.reader.join(10)

    def ask(self, *words):
        with self.came:
            self.answers.clear()
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
            assert self.came.wait_for(lambda: self.answers, 20 * PATIENCE), f"no answer to {words}"
            return dict(word.split("=") for word in self.answers[0].split() if "=" in word)

    def alive(self, node=0):
        return set(self.ask("view", node).get("alive", "").split(","))

    def kill9(self):
        self.process.kill()
        self.process.wait()
        self.reader.join(5)

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        """They leave in order."""
        self.process.stdin.close()
        assert self.process.wait(30 * PATIENCE) == 0
        self.reader.join(5)


@pytest.fixture
def register(cluster):  # noqa: F811
    made = []

    def begin(*arguments, **more):
        made.append(Nodes(cluster, *arguments, **more))
        return made[-1].wait_ready()

    yield begin
    for nodes in made:
        if nodes.process.poll() is None:
            nodes.resume()
            nodes.kill9()


def make_logs(cluster, count):  # noqa: F811
    """As if somebody had had so many namespaces: their names."""
    cluster.sql("INSERT INTO tally_log.head (log, owner) SELECT to_char(n, 'FM000000000000'), md5(n::text)::uuid"
                " FROM generate_series(1, %s) n", count)
    return [f"{number:012}" for number in range(1, count + 1)]


def give(cluster, node, *logs):  # noqa: F811
    cluster.sql("UPDATE tally_log.head SET node = %s, epoch = epoch + 1 WHERE log = ANY (%s)", node, list(logs))


# --- who is alive ----------------------------------------------------------------------------------------------------


def test_status_tells_the_nodes_and_where_each_namespace_is_and_should_be(cluster, secret):  # noqa: F811
    one = node_of(cluster, "one", secret).start().wait_ready()
    two = node_of(cluster, "two", secret).start().wait_standing_by()
    nodes, logs = status(cluster)
    assert set(nodes) == {"one", "two"} and all(node["Alive"] for node in nodes.values())
    assert nodes["one"]["Address"] == f"127.0.0.1:{one.port}" and nodes["two"]["Address"] == f"127.0.0.1:{two.port}"
    assert nodes["one"]["Version"] and nodes["one"]["AliveSince"] <= nodes["one"]["LastBeat"]
    assert (nodes["one"]["Owned"], nodes["two"]["Owned"]) == (1, 0)
    assert nodes["one"]["Wanted"] + nodes["two"]["Wanted"] == 1
    log = logs["000000000000"]
    assert log["Node"] == "one" and log["Epoch"] == 1
    assert {log["Wanted"], log["WantedStandBy"]} == {"one", "two"} and log["PinnedTo"] == ""
    words = tally(cluster, "status")[1].splitlines()
    assert re.fullmatch(rf"node one  127\.0\.0\.1:{one.port}, tallyd \S+, alive since 20\S+Z, last beat \d\.\d s ago, "
                        r"owns 1, should own [01]", words[0]), words
    assert words[2].startswith("000000000000  owned by one since 20"), words


def test_metrics_tell_what_a_node_knows_of_the_others(cluster, secret):  # noqa: F811
    one = node_of(cluster, "one", secret).start().wait_ready()
    two = node_of(cluster, "two", secret).start().wait_standing_by()
    for node in (one, two):
        wait_until(lambda n=node: n.metric("tally_cluster_nodes") == 2, what=f"that {node.name} knows of both")
        assert node.metric("tally_cluster_nodes_draining") == 0
        assert 0 < node.metric("tally_cluster_silence_seconds") < 3 * PATIENCE
    assert tally(cluster, "drain", "one")[0] == 0
    wait_until(lambda: two.metric("tally_cluster_nodes_draining") == 1, what="that one drains")
    two.wait_ready()
    wait_until(lambda: two.metric("tally_cluster_namespaces_misplaced") == 0, what="that all is where it should be")
    two.pause()
    wait_until(lambda: one.metric("tally_cluster_nodes") == 1, 4 * LIMIT, "that two is gone")
    two.resume()


def test_each_node_beats_every_second(cluster, register):  # noqa: F811
    register("n", count=2)
    before = dict(cluster.sql("SELECT node, max(number) FROM tally_log.node_beat GROUP BY node"))
    time.sleep(4)
    after = dict(cluster.sql("SELECT node, max(number) FROM tally_log.node_beat GROUP BY node"))
    for node, number in before.items():
        assert 2 <= after[node] - number <= 6
    assert cluster.sql("SELECT max(c) FROM (SELECT count(*) AS c FROM tally_log.node_beat GROUP BY node) s") == [(1,)]


def test_a_node_that_was_killed_is_not_alive_within_its_limit_and_not_before(cluster, secret):  # noqa: F811
    node_of(cluster, "one", secret).start().wait_ready()
    two = node_of(cluster, "two", secret).start().wait_standing_by()
    two.kill9()
    began = time.monotonic()
    assert is_alive(cluster, "two")
    wait_until(lambda: not is_alive(cluster, "two"), LIMIT + 3 * CROWD, "that it is not alive")
    assert LIMIT - 2 < time.monotonic() - began < LIMIT + 2 * CROWD
    nodes, logs = status(cluster)
    assert nodes["two"]["Wanted"] == 0 and logs["000000000000"]["Wanted"] == "one"
    assert "node two" in tally(cluster, "status")[1] and ", not alive: last beat at 20" in tally(cluster, "status")[1]
    two.start().wait_standing_by()
    assert is_alive(cluster, "two")


def test_a_node_that_ends_in_order_is_not_alive_at_once(cluster, secret):  # noqa: F811
    node_of(cluster, "one", secret).start().wait_ready()
    two = node_of(cluster, "two", secret).start().wait_standing_by()
    assert two.stop() == 0
    assert not is_alive(cluster, "two")
    assert ", stopped: last beat at 20" in tally(cluster, "status")[1]


def test_a_longer_lease_has_a_longer_limit(cluster, register):  # noqa: F811
    slow, quick = register("slow", lease_ms=5000), register("quick")
    slow.pause()
    quick.pause()
    wait_until(lambda: not is_alive(cluster, "quick0"), LIMIT + 3 * CROWD, "that the quick one is not alive")
    assert is_alive(cluster, "slow0")
    wait_until(lambda: not is_alive(cluster, "slow0"), LIMIT + 3 * CROWD, "that the slow one is not alive")


def test_nodes_know_each_other_and_who_went(cluster, register):  # noqa: F811
    first = register("a")
    assert first.ask("view", 0)["settled"] == "0"
    others = register("b", count=2)
    wait_until(lambda: first.alive() == {"a0", "b0", "b1"}, 5 * CROWD, "that the first one knows the others")
    assert others.alive(1) == {"a0", "b0", "b1"}
    wait_until(lambda: first.ask("view", 0)["settled"] == "1", 6 * CROWD, "that it is settled")
    others.kill9()
    wait_until(lambda: first.alive() == {"a0"}, LIMIT + 4 * CROWD, "that they are gone")
    late = register("c")
    wait_until(lambda: first.alive() == {"a0", "c0"}, 5 * CROWD, "a node that came later")
    late.stop()
    wait_until(lambda: first.alive() == {"a0"}, 3 * CROWD, "that it left")


def test_nobody_is_taken_for_dead_because_postgresql_was_away(tmp_path):
    """For longer than a node's limit. A node that died meanwhile is found out."""
    own = Postgres(tmp_path / "postgres", fsync="on").start()
    made = Cluster(own, tmp_path)
    a, b, c = (Nodes(made, name).wait_ready() for name in "abc")
    try:
        wait_until(lambda: a.alive() == {"a0", "b0", "c0"}, 5 * CROWD, "that the first one knows the others")
        own.stop("immediate")
        c.kill9()
        time.sleep(LIMIT + 3)
        assert a.alive() == {"a0", "b0", "c0"}, "what it knew last"
        assert any("can't say in PostgreSQL that it is alive" in line for line in a.said), a.said
        own.start()
        until = time.monotonic() + LIMIT + 6
        while time.monotonic() < until and a.alive() != {"a0", "b0"}:
            assert {"a0", "b0"} <= a.alive() and {"a0", "b0"} <= b.alive()
            time.sleep(0.05)
        assert a.alive() == {"a0", "b0"}
        assert any("again that it is alive" in line for line in a.said), a.said
    finally:
        for nodes in (a, b):
            nodes.kill9()
        own.stop("immediate")


def test_nobody_is_taken_for_dead_because_the_clock_of_postgresql_jumps(cluster, register):  # noqa: F811
    """It does by the hour for what was written before, until the next beat."""
    nodes = register("n", count=3)
    wait_until(lambda: nodes.alive() == {"n0", "n1", "n2"}, 5 * CROWD, "that all know each other")
    for number in range(40):
        cluster.sql("UPDATE tally_log.node_beat SET at = at + %s * interval '1 hour'", -1 if number % 2 else 1)
        assert nodes.alive() == {"n0", "n1", "n2"}
        time.sleep(0.1)


def test_a_connection_that_is_ended_is_made_anew_and_nobody_notices(cluster, register):  # noqa: F811
    nodes = register("n", count=3)
    wait_until(lambda: nodes.alive() == {"n0", "n1", "n2"}, 5 * CROWD, "that all know each other")
    began_at = cluster.sql("SELECT name, began_at FROM tally_log.node ORDER BY name")
    for _ in range(4):
        cluster.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE"
                    " 'tallyd, registration%%' AND datname = current_database()")
        time.sleep(1)
        assert nodes.alive() == {"n0", "n1", "n2"}
    assert cluster.sql("SELECT name, began_at FROM tally_log.node ORDER BY name") == began_at
    assert nodes.said == []


def test_K10_of_two_nodes_with_one_name_the_later_counts_and_the_other_says_so(cluster, secret):  # noqa: F811
    first = node_of(cluster, "twin", secret).start().wait_ready()
    queue = create_queue(Connection(first.port))
    send(Connection(first.port), queue, ["kept"])
    second = node_of(cluster, "twin", secret).start().wait_standing_by()
    first.wait_said("two nodes with one name?")
    assert f"at 127.0.0.1:{second.port}" in first.error_text() and "--node" in first.error_text()
    assert status(cluster)[0]["twin"]["Address"] == f"127.0.0.1:{second.port}"
    assert drain(Connection(first.port), queue) == ["kept"], "it serves all the same"
    second.kill9()
    wait_until(lambda: "its name for itself again" in first.error_text(), LIMIT + 5 * CROWD, "its name")
    assert status(cluster)[0]["twin"]["Address"] == f"127.0.0.1:{first.port}" and is_alive(cluster, "twin")


def test_a_node_that_lost_its_name_takes_nothing(cluster, register):  # noqa: F811
    (log,) = make_logs(cluster, 1)
    give(cluster, "gone", log)
    first = register("n")
    wait_until(lambda: first.ask("ask", 0, log)["take"] == "1", 6 * CROWD, "that it may take the log")
    second = register("n")
    wait_until(lambda: first.ask("view", 0)["own"] == "-", 4 * CROWD, "that it knows")
    assert first.ask("ask", 0, log)["take"] == "0"
    second.stop()
    wait_until(lambda: first.ask("view", 0)["own"] == "n0", 4 * CROWD, "that it has its name again")


# --- where namespaces should be --------------------------------------------------------------------------------------


def test_nodes_with_the_same_rows_agree_and_follow_what_changes(cluster, register):  # noqa: F811
    logs = make_logs(cluster, 200)
    nodes = register("n", count=4)
    wait_until(lambda: all(len(nodes.alive(node)) == 4 for node in range(4)), 5 * CROWD, "that all know each other")

    def wanted(node, log):
        return nodes.ask("ask", node, log)["wanted"]

    for log in logs[::7]:
        assert len({wanted(node, log) for node in range(4)}) == 1
    shown = status(cluster)[1]
    assert all(shown[log]["Wanted"] == wanted(0, log) for log in logs[::7])
    give(cluster, "n2", logs[5])
    wait_until(lambda: nodes.ask("ask", 0, logs[5])["owner"] == "n2", 3 * CROWD, "the new owner")
    cluster.sql("INSERT INTO tally_log.head (log, owner) VALUES ('000000999999', md5('x')::uuid)")
    wait_until(lambda: nodes.ask("ask", 1, "000000999999")["wanted"] != "-", 3 * CROWD, "a namespace that is new")


def test_what_a_node_is_ready_for_is_told_to_its_owner(cluster, register):  # noqa: F811
    logs = make_logs(cluster, 30)
    nodes = register("n", count=2)
    wait_until(lambda: len(nodes.alive(0)) == 2 and len(nodes.alive(1)) == 2, 5 * CROWD, "that both know each other")
    log = next(name for name in logs if nodes.ask("ask", 0, name)["wanted"] == "n1")
    give(cluster, "n0", log)
    wait_until(lambda: nodes.ask("ask", 1, log)["get-ready"] == "1", 3 * CROWD, "that the second one is to get ready")
    assert nodes.ask("ask", 0, log)["give-up"] == "0"
    nodes.ask("set", 1, log, 1)
    wait_until(lambda: nodes.ask("ask", 0, log)["give-up"] == "1", 4 * CROWD, "that the first one is to give it up")
    nodes.ask("set", 1, log, 0)
    wait_until(lambda: nodes.ask("ask", 0, log)["give-up"] == "0", 4 * CROWD, "that it is not any more")
    nodes.ask("set", 1, log, 1)
    wait_until(lambda: nodes.ask("ask", 0, log)["give-up"] == "1", 4 * CROWD, "that it is again")
    cluster.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE"
                " 'tallyd, registration%%' AND datname = current_database()")
    time.sleep(2.5)
    wait_until(lambda: nodes.ask("ask", 0, log)["give-up"] == "1", 4 * CROWD, "that it is on new connections, too")


def test_drain_and_uncordon_say_who_should_have_what(cluster, register):  # noqa: F811
    logs = make_logs(cluster, 20)
    nodes = register("n", count=2)
    wait_until(lambda: len(nodes.alive()) == 2, 5 * CROWD, "that both know each other")
    assert tally(cluster, "drain", "n0") == (0, "n0\n", "")
    wait_until(lambda: {nodes.ask("ask", 1, log)["wanted"] for log in logs} == {"n1"}, 3 * CROWD, "all at the other")
    shown = status(cluster)[0]
    assert shown["n0"]["Draining"] and (shown["n0"]["Wanted"], shown["n1"]["Wanted"]) == (0, 20)
    assert ", draining, owns 0, should own 0" in tally(cluster, "status")[1]
    code, printed, said = tally(cluster, "drain", "n1")
    assert code == 1 and printed == "" and "No other node that is alive takes namespaces" in said
    code, printed, _ = tally(cluster, "uncordon", "n0", "--json")
    assert code == 0 and json.loads(printed) == {"Uncordoned": "n0"}
    wait_until(lambda: {nodes.ask("ask", 1, log)["wanted"] for log in logs} == {"n0", "n1"}, 3 * CROWD, "some at each")


def test_a_drain_outlives_a_restart_of_the_node(cluster, register):  # noqa: F811
    register("other")
    first = register("n")
    assert tally(cluster, "drain", "n0")[0] == 0
    first.stop()
    register("n")
    assert status(cluster)[0]["n0"]["Draining"]


def test_move_pins_a_namespace_and_anywhere_ends_that(cluster, register):  # noqa: F811
    logs = make_logs(cluster, 12)
    nodes = register("n", count=3)
    wait_until(lambda: len(nodes.alive()) == 3, 5 * CROWD, "that all know each other")
    before = nodes.ask("ask", 0, logs[4])["wanted"]
    target = next(f"n{number}" for number in range(3) if f"n{number}" != before)
    code, printed, _ = tally(cluster, "move", logs[4], target, "--json")
    assert code == 0 and json.loads(printed) == {"PinnedTo": target}
    wait_until(lambda: nodes.ask("ask", 0, logs[4])["wanted"] == target, 3 * CROWD, "that it should be there")
    assert status(cluster)[1][logs[4]]["PinnedTo"] == target
    assert f", should be on {target}, pinned to {target}" in tally(cluster, "status")[1]
    assert tally(cluster, "move", logs[4], "--anywhere") == (0, "anywhere\n", "")
    wait_until(lambda: nodes.ask("ask", 0, logs[4])["wanted"] == before, 3 * CROWD, "that the cluster chooses again")
    assert tally(cluster, "move", logs[4], "--anywhere")[0] == 0, "once more does no harm"


def test_a_dead_node_is_forgotten_and_one_that_is_alive_is_not(cluster, register):  # noqa: F811
    (log,) = make_logs(cluster, 1)
    register("other")
    nodes = register("n")
    assert tally(cluster, "move", log, "n0")[0] == 0
    code, _, said = tally(cluster, "forget", "n0")
    assert code == 1 and "Node n0 is alive. Stop it first" in said
    nodes.stop()
    assert tally(cluster, "forget", "n0") == (0, "n0\n", "")
    nodes, logs = status(cluster)
    assert set(nodes) == {"other0"} and logs[log]["PinnedTo"] == ""
    register("n")
    assert set(status(cluster)[0]) == {"n0", "other0"}


def test_what_an_operator_says_wrong_is_named(cluster, register):  # noqa: F811
    (log,) = make_logs(cluster, 1)
    code, _, said = tally(cluster, "drain", "one")
    assert code == 1 and "There is no node one: no node has registered yet." in said
    register("n", count=2)
    for words, wanted in ((("drain", "one"), "There is no node one. There are: "),
                          (("uncordon", "one"), "There is no node one. There are: "),
                          (("forget", "one"), "There is no node one. There are: "),
                          (("move", log, "one"), "There is no node one. There are: "),
                          (("move", "000000000009", "n0"), "There is no namespace 000000000009")):
        code, printed, said = tally(cluster, *words)
        assert code == 1 and printed == "" and wanted in said, (words, said)
    assert tally(cluster, "move", log)[0] == 2 and tally(cluster, "move", log, "n0", "--anywhere")[0] == 2
    for word in ("drain", "uncordon", "forget", "status"):
        command = [str(BIN / "tally"), "cluster", word, *([] if word == "status" else ["n0"])]
        done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=False)
        assert done.returncode == 2 and "--log postgres://" in done.stderr
    gone = [str(BIN / "tally"), "cluster", "drain", "n0", "--log", "postgres://nobody@127.0.0.1:1/none"]
    done = subprocess.run(gone, capture_output=True, text=True, env=clean_environment(), check=False)
    assert done.returncode == 3 and "can't be reached" in done.stderr


def test_namespaces_are_spread_within_the_bound_and_few_move():
    """The figures of docs/internals/scaling.md in short: tests/placement/placement.c."""
    done = subprocess.run([str(find_program("placement", "placement")), "--short"], capture_output=True, text=True,
                          timeout=120 * PATIENCE, check=False)
    assert done.returncode == 0 and "bound" in done.stdout, done.stdout + done.stderr


# --- another cluster's database --------------------------------------------------------------------------------------


def test_K24_a_node_with_another_cluster_secret_is_refused_by_name(cluster, secret, tmp_path):  # noqa: F811
    one = node_of(cluster, "one", secret).start().wait_ready()
    queue = create_queue(Connection(one.port))
    other = tmp_path / "other"
    other.write_text("fedcba9876543210fedcba9876543210\n")
    stranger = node_of(cluster, "stranger", other)
    code, said = stranger.run_to_end()
    assert code == 1, said
    assert f"another secret: node one (127.0.0.1:{one.port}) began it on 20" in said, said
    assert "copy the file that cluster-secret names" in said and "a database of its own" in said
    assert "fedcba98" not in said and SECRET not in said
    assert "stranger" not in status(cluster)[0]
    send(Connection(one.port), queue, ["undisturbed"])
    other.write_text(SECRET)
    stranger.start().wait_standing_by()


def test_K24_a_node_that_finds_out_late_that_the_database_is_of_another_cluster_ends_as_one_that_failed(
        cluster, secret, proxy, tmp_path):  # noqa: F811
    node_of(cluster, "one", secret).start().wait_ready()
    other = tmp_path / "other"
    other.write_text("fedcba9876543210fedcba9876543210\n")
    proxy.freeze()
    stranger = node_of(cluster, "stranger", other, uri=proxy.uri(cluster.uri)).start().wait_standing_by()
    proxy.thaw()
    code, said = stranger.wait_ended()
    assert code == 1 and "another secret" in said, (code, said)


def test_K24_the_row_of_the_cluster_has_neither_the_secret_nor_a_quick_hash_of_it(cluster, secret):  # noqa: F811
    node_of(cluster, "one", secret).start().wait_ready()
    ((salt, cost, fingerprint),) = cluster.sql("SELECT salt, cost, fingerprint FROM tally_log.cluster")
    import hashlib
    assert len(bytes(salt)) == 16 and cost >= 14
    wanted = hashlib.scrypt(SECRET.encode(), salt=bytes(salt), n=2**cost, r=8, p=1, maxmem=2**27, dklen=32)
    assert bytes(fingerprint) == wanted


def test_of_two_nodes_that_begin_a_cluster_at_once_with_different_secrets_one_is_refused(cluster):  # noqa: F811
    both = [Nodes(cluster, name, secret=text * 8) for name, text in (("a", "abcd"), ("b", "efgh"))]
    wait_until(lambda: any(one.is_ready for one in both) and any(one.process.poll() is not None for one in both), 20,
               "that one of them is there, and one is not")
    time.sleep(0.5)
    assert sum(one.is_ready for one in both) == 1
    for one in both:
        if one.process.poll() is None:
            one.kill9()


def test_a_row_of_the_cluster_that_was_changed_is_named(cluster, register):  # noqa: F811
    register("n").stop()
    cluster.sql("UPDATE tally_log.cluster SET cost = 99")
    nodes = Nodes(cluster, "m")
    nodes.wait_ended()
    assert any("DELETE FROM tally_log.cluster" in line for line in nodes.said), nodes.said
    cluster.sql("DELETE FROM tally_log.cluster")
    register("m")


# --- the tables, from one version to the next ------------------------------------------------------------------------

VERSION_2 = """
    CREATE SCHEMA tally_log;
    CREATE TABLE tally_log.version (number int NOT NULL);
    INSERT INTO tally_log.version VALUES (2);
    CREATE TABLE tally_log.node (name text PRIMARY KEY, address text NOT NULL, version text NOT NULL,
     began_at timestamptz NOT NULL DEFAULT clock_timestamp());
    CREATE TABLE tally_log.head (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, log text NOT NULL UNIQUE,
     epoch bigint NOT NULL DEFAULT 0, owner uuid NOT NULL, node text NOT NULL DEFAULT '', sealed_at timestamptz,
     timeline text, system_id bigint) WITH (fillfactor = 50);
    CREATE TABLE tally_log.beat (log int PRIMARY KEY REFERENCES tally_log.head, number bigint NOT NULL DEFAULT 0)
     WITH (fillfactor = 50);
    CREATE TABLE tally_log.file (id bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
     log int NOT NULL REFERENCES tally_log.head, name text COLLATE "C" NOT NULL, size bigint NOT NULL DEFAULT 0,
     PRIMARY KEY (log, name));
    CREATE TABLE tally_log.chunk (file bigint NOT NULL, at bigint NOT NULL, epoch bigint NOT NULL, hash bytea,
     body bytea NOT NULL CHECK (octet_length(body) <= 8000), PRIMARY KEY (file, at))
     WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
           autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 2147483647);
    ALTER TABLE tally_log.chunk ALTER hash SET STORAGE PLAIN, ALTER body SET STORAGE PLAIN"""

CATALOG = """
    SELECT c.relname, c.relkind::text, coalesce(c.reloptions::text, ''), a.attname, a.atttypid::regtype::text,
     a.attnotnull, a.attstorage::text, a.attidentity::text, coalesce(pg_get_expr(d.adbin, d.adrelid), '')
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relnamespace = 'tally_log'::regnamespace
    UNION ALL SELECT conrelid::regclass::text, 'constraint', conname, pg_get_constraintdef(oid), '', true, '', '', ''
    FROM pg_constraint WHERE connamespace = 'tally_log'::regnamespace
    UNION ALL SELECT 'version', number::text, '', '', '', true, '', '', '' FROM tally_log.version
    ORDER BY 1, 2, 3, 4"""


def way_back():
    """What docs/how-to/run-a-cluster.md says for going back to the version before."""
    block = re.search(r"^```sql\n(BEGIN;\n.*?COMMIT;\n)```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert block, "the guide has no way back"
    return block.group(1)


def older_while_nodes_run():
    """The way back is for stopped nodes: it takes columns away which those of this version read. Here nodes of this
    version stand for older ones, which do not read them. The locks are taken in the order in which nodes take them."""
    columns = "ALTER TABLE tally_log.head DROP COLUMN moved_to, DROP COLUMN is_moving;\n"
    assert columns in way_back()
    return way_back().replace(columns, "").replace("BEGIN;", "BEGIN; LOCK TABLE tally_log.head, tally_log.node;")


def run_init(cluster):  # noqa: F811
    done = subprocess.run([*WRAPPER, str(BIN / "tallyd"), "--log", cluster.uri, "--init"], capture_output=True,
                          text=True, env=clean_environment(), timeout=60 * PATIENCE, check=False)
    return done.returncode, done.stdout + done.stderr


def test_tables_of_the_version_before_become_the_same_as_new_ones_and_back(cluster, server):  # noqa: F811
    new = cluster.sql(CATALOG)
    cluster.sql(way_back())
    back = cluster.sql(CATALOG)
    cluster.sql("DROP SCHEMA tally_log CASCADE")
    cluster.sql(VERSION_2)
    assert back == cluster.sql(CATALOG)
    assert run_init(cluster)[0] == 0
    assert cluster.sql(CATALOG) == new


def test_an_upgrade_and_the_way_back_keep_everything_and_disturb_no_node_that_serves(cluster):  # noqa: F811
    """A node that is connected goes on, so nodes can be restarted one after the other."""
    one, two = cluster.pair(*SMALL)
    queue = create_queue(Connection(one.port))
    line, sent, is_over = Connection(one.port), [], threading.Event()

    def send_on():
        while not is_over.is_set():
            send(line, queue, [f"m{len(sent)}"])
            sent.append(f"m{len(sent)}")

    sender = threading.Thread(target=send_on)
    sender.start()
    cluster.wait_followed()
    for number in (2, 4, 2, 4):
        if number == 2:
            cluster.sql(older_while_nodes_run())
        else:
            assert run_init(cluster)[0] == 0
        assert cluster.sql("SELECT number FROM tally_log.version") == [(number,)]
        count = len(sent)
        wait_until(lambda: len(sent) > count + 20, what="that it serves on")
    assert two.stop() == 0  # one after the other: first the one that stands by
    two.start().wait_standing_by()
    cluster.wait_followed()
    is_over.set()
    sender.join(30)
    assert one.stop() == 0
    two.wait_ready()
    one.start().wait_standing_by()
    assert sorted(drain(Connection(two.port), queue)) == sorted(sent)


def test_a_daemon_says_what_to_do_with_older_tables(cluster, secret):  # noqa: F811
    cluster.sql(way_back())
    for node in (cluster.node("plain", *SMALL), node_of(cluster, "one", secret)):
        code, said = node.run_to_end()
        assert code == 1 and "have version 2, and this tallyd knows 4: run tallyd --init" in said, said
        assert "while other nodes serve" in said
    assert run_init(cluster)[0] == 0
    node_of(cluster, "two", secret).start().wait_ready()


def test_an_upgrade_that_would_have_to_wait_changes_nothing_and_holds_nobody_up(cluster):  # noqa: F811
    one, _ = cluster.pair(*SMALL)
    queue = create_queue(Connection(one.port))
    cluster.wait_followed()
    cluster.sql(older_while_nodes_run())
    before = cluster.sql(CATALOG)
    with contextlib.closing(cluster.server.connect(dbname=cluster.database)) as dump:
        dump.autocommit = False
        dump.cursor().execute("SELECT * FROM tally_log.node")
        began = time.monotonic()
        code, said = run_init(cluster)
        assert code == 1 and "an open transaction (a dump, a forgotten psql)" in said, said
        assert "Try again when it has ended" in said and time.monotonic() - began < 8 * CROWD
        send(Connection(one.port), queue, texts("m", 5))
    assert cluster.sql(CATALOG) == before
    assert run_init(cluster)[0] == 0
    assert sorted(drain(Connection(one.port), queue)) == texts("m", 5)


@pytest.mark.parametrize("tables", [("head", "node"), ("node", "head")])
def test_an_upgrade_never_makes_a_node_wait_in_a_circle(cluster, tables):  # noqa: F811
    """Nodes read several tables in one statement, and have the first locked while they wait for the next."""
    cluster.sql(way_back())
    results = []
    with contextlib.closing(cluster.server.connect(dbname=cluster.database)) as node:
        node.autocommit = False
        cursor = node.cursor()
        cursor.execute(f"SELECT count(*) FROM tally_log.{tables[0]}")
        upgrade = threading.Thread(target=lambda: results.append(run_init(cluster)))
        upgrade.start()
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
        wait_until(lambda: cluster.sql(waits) == [(1,)], what="that the upgrade waits for the node")
        began = time.monotonic()
        cursor.execute(f"SELECT count(*) FROM tally_log.{tables[1]}")
        assert time.monotonic() - began < 0.5 * CROWD
        node.rollback()
    upgrade.join(60)
    assert results[0][0] == 0, results


def test_an_upgrade_that_breaks_off_leaves_the_tables_as_they_were(cluster):  # noqa: F811
    cluster.sql(way_back())
    before = cluster.sql(CATALOG)
    cluster.sql("CREATE TABLE tally_log.wish (taken int)")  # so that the last but one step fails
    code, said = run_init(cluster)
    assert code == 1 and "The tables stay as they were" in said and "wish" in said, said
    cluster.sql("DROP TABLE tally_log.wish")
    assert cluster.sql(CATALOG) == before


def test_two_upgrades_at_once_are_one(cluster):  # noqa: F811
    cluster.sql(way_back())
    codes = []
    both = [threading.Thread(target=lambda: codes.append(run_init(cluster))) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(60)
    assert [code for code, _ in codes] == [0, 0], codes
    assert cluster.sql("SELECT number FROM tally_log.version") == [(4,)]


# --- many ------------------------------------------------------------------------------------------------------------


def test_beats_cost_the_same_beside_a_transaction_that_stays_open(cluster, register):  # noqa: F811
    """Beats of an hour in a few seconds: the old versions of them all are kept."""
    register("n", count=3)
    reading = ("EXPLAIN (ANALYZE, FORMAT JSON, BUFFERS) SELECT n.id, b.at FROM tally_log.node n LEFT JOIN LATERAL"
               " (SELECT at, number FROM tally_log.node_beat WHERE node = n.id ORDER BY number DESC LIMIT 1) b ON true")

    def pages():
        return cluster.sql(reading)[0][0][0]["Plan"]["Shared Hit Blocks"]

    with contextlib.closing(cluster.server.connect(dbname=cluster.database)) as holder:
        holder.autocommit = False
        holder.cursor().execute("SELECT count(*) FROM tally_log.node_beat")
        cluster.sql("SET enable_seqscan = off")
        before = pages()
        with contextlib.closing(cluster.server.connect(dbname=cluster.database)) as writer:
            cursor = writer.cursor()
            cursor.execute("INSERT INTO tally_log.node (name, address, version) VALUES ('busy', '', '') RETURNING id")
            (busy,) = cursor.fetchone()
            for number in range(1, 3601):
                cursor.execute("DELETE FROM tally_log.node_beat WHERE node = %s AND number = %s", (busy, number - 1))
                cursor.execute("INSERT INTO tally_log.node_beat (node, number) VALUES (%s, %s)", (busy, number))
        assert pages() < before + 100


def test_twenty_nodes_and_ten_thousand_namespaces_agree(cluster, register, capsys):  # noqa: F811
    count = scaled(20, least=5)
    logs = make_logs(cluster, 10000)
    nodes = register("n", count=count)
    wait_until(lambda: len(nodes.alive(count - 1)) == count, 30, "that the last one knows all")
    wait_until(lambda: len(nodes.alive(0)) == count, 30, "that the first one knows all")
    answers = [nodes.ask("ask", node, logs[4321]) for node in (0, count // 2, count - 1)]
    assert len({answer["wanted"] for answer in answers}) == 1 and answers[0]["wanted"] != "-"
    began = time.monotonic()
    give(cluster, "n3", *logs[:500])
    wait_until(lambda: nodes.ask("ask", count - 1, logs[499])["owner"] == "n3", 10 * CROWD, "500 takeovers")
    with capsys.disabled():
        print(f"\n500 takeovers are known to the last of {count} nodes {time.monotonic() - began:.2f} s later")
