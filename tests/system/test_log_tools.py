"""The tools around a log in PostgreSQL: tally log copy, tally cluster status."""

import json
import subprocess

from conftest import BIN, PATIENCE, WRAPPER, Daemon, clean_environment, wait_until
from nodes import AnyNode
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import SMALL, create_queue, drain, send, texts
from wire import Connection


def tally(*words, folder):
    done = subprocess.run([*WRAPPER, str(BIN / "tally"), *map(str, words)], capture_output=True, text=True, cwd=folder,
                          env=clean_environment(), timeout=60 * PATIENCE, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_log_moves_into_postgresql_and_back(cluster, tmp_path):  # noqa: F811
    bodies = texts("m", 300)
    daemon = Daemon(tmp_path, SMALL).start()
    line = AnyNode([daemon])
    send(line, create_queue(line), [body + " " + "x" * 30000 for body in bodies])
    wait_until(lambda: list((daemon.data / "000000000000").glob("*.snapshot")), what="a snapshot")

    status, _, said = tally("log", "copy", daemon.data, cluster.uri, folder=tmp_path)
    assert status == 5 and "belongs to another process" in said
    assert daemon.stop() == 0
    status, printed, said = tally("log", "copy", daemon.data, cluster.uri, folder=tmp_path)
    assert status == 0 and printed.startswith("000000000000: "), said
    status, _, said = tally("log", "copy", daemon.data, cluster.uri, folder=tmp_path)
    assert status == 5 and "holds a log already" in said

    node = cluster.node("one", *SMALL).start().wait_ready()
    line = cluster.line()
    more = texts("n", 5)
    send(line, create_queue(line), more)
    status, _, said = tally("log", "copy", cluster.uri, tmp_path / "back", folder=tmp_path)
    assert status == 5 and "node one has it" in said
    assert node.stop() == 0
    status, _, said = tally("log", "copy", cluster.uri, tmp_path / "back", folder=tmp_path)
    assert status == 0, said
    done = subprocess.run([*WRAPPER, str(BIN / "tallyd"), "--verify", tmp_path / "back"], capture_output=True,
                          text=True, timeout=60 * PATIENCE, check=False)
    assert done.returncode == 0 and "clean" in done.stdout, done.stdout + done.stderr

    cluster.node("two", *SMALL).start().wait_ready()
    line = cluster.line()
    line.at = 1
    assert sorted(drain(line, create_queue(line))) == sorted(bodies + more)


def test_a_backup_is_one_of_postgresql(cluster, tmp_path):  # noqa: F811
    """tally backup copies folders; of a log in PostgreSQL it says what to do instead."""
    node = cluster.node("one", *SMALL).start().wait_ready()
    status, _, said = tally("backup", tmp_path / "b", "--endpoint", node.endpoint, folder=tmp_path)
    assert status == 1 and "pg_basebackup" in said and "docs/how-to/run-a-cluster.md" in said
    assert not (tmp_path / "b").exists()


def verify(cluster, folder):  # noqa: F811
    (folder / "room").mkdir(exist_ok=True)
    done = subprocess.run([*WRAPPER, str(BIN / "tallyd"), "--log", cluster.uri, "--verify"], capture_output=True,
                          text=True, cwd=folder, env=clean_environment() | {"TMPDIR": str(folder / "room")},
                          timeout=60 * PATIENCE, check=False)
    assert not any((folder / "room").iterdir()), "it leaves nothing behind"
    return done.returncode, done.stdout, done.stderr


def test_a_log_is_verified_while_its_owner_serves(cluster, tmp_path):  # noqa: F811
    assert verify(cluster, tmp_path)[0] == 2
    cluster.node("one", *SMALL).start().wait_ready()
    line = cluster.line()
    queue = create_queue(line)
    send(line, queue, texts("v", 50))
    epoch = cluster.head()[0]
    status, printed, said = verify(cluster, tmp_path)
    assert status == 0 and printed.startswith("PostgreSQL/000000000000: clean."), printed + said
    assert "messages 50 " in printed
    send(line, queue, texts("w", 5))
    assert cluster.head()[0] == epoch, "nobody took the log from its owner"

    (file, at), = cluster.sql("SELECT c.file, c.at FROM tally_log.chunk c JOIN tally_log.file f ON f.id = c.file"
                              " WHERE f.name LIKE '%.segment' ORDER BY c.at DESC LIMIT 1")
    cluster.sql("UPDATE tally_log.chunk SET body = set_byte(body, 0, get_byte(body, 0) # 8)"
                " WHERE file = %s AND at = %s", file, at)
    status, printed, said = verify(cluster, tmp_path)
    assert status == 1 and f"file {file}" in printed and "was changed" in printed, printed + said
    assert "restore the database" in printed


def test_verify_needs_a_folder_or_postgresql(tmp_path):
    done = subprocess.run([*WRAPPER, str(BIN / "tallyd"), "--verify"], capture_output=True, text=True, cwd=tmp_path,
                          env=clean_environment(), timeout=60 * PATIENCE, check=False)
    assert done.returncode == 2 and "--verify needs a folder" in done.stderr


def test_one_of_the_two_is_postgresql(tmp_path):
    status, _, said = tally("log", "copy", "a", "b", folder=tmp_path)
    assert status == 2 and "one of FROM and TO is a data folder" in said
    status, _, said = tally("log", "copy", tmp_path, "postgres://nobody@127.0.0.1:1/none", folder=tmp_path)
    assert status == 5 and "has no logs" in said


def test_status_says_who_has_the_log(cluster, tmp_path):  # noqa: F811
    assert tally("cluster", "status", cluster.uri, folder=tmp_path)[:2] == (0, "")
    first, second = cluster.pair(*SMALL)
    wait_until(lambda: "1 stand by" in tally("cluster", "status", cluster.uri, folder=tmp_path)[1],
               what="the other node")
    status, printed, said = tally("cluster", "status", cluster.uri, folder=tmp_path)
    assert status == 0 and printed.startswith("000000000000  owned by one since 20"), said
    status, printed, said = tally("--json", "cluster", "status", cluster.uri, folder=tmp_path)
    facts = json.loads(printed)
    assert (facts["Namespace"], facts["Node"]) == ("000000000000", "one")
    assert (facts["Connected"], facts["StandBys"]) == (True, 1)
    assert (first.metric("tally_log_owner"), second.metric("tally_log_owner")) == (1, 0)
    answer = Connection(second.port).call("AmazonSQS.ListQueues", {})
    assert answer.status == 503 and "node one serves. Try again, or ask that one." in answer.json()["message"]
    assert first.metric("tally_log_silence_seconds") < 3 * PATIENCE and second.metric("tally_log_silence_seconds") == 0
    assert second.stop() == 0 and first.stop() == 0
    wait_until(lambda: "last owned by one" in tally("cluster", "status", cluster.uri, folder=tmp_path)[1],
               what="the end of its connection")
    status, _, said = tally("cluster", "status", "postgres://nobody@127.0.0.1:1/none", folder=tmp_path)
    assert status == 3 and "can't be reached" in said


def test_tables_that_are_there_and_can_not_be_used_are_not_made_again(cluster):  # noqa: F811
    cluster.sql("UPDATE tally_log.version SET number = 99")
    done = subprocess.run([*WRAPPER, str(BIN / "tallyd"), "--log", cluster.uri, "--init"], capture_output=True,
                          text=True, env=clean_environment(), timeout=60 * PATIENCE, check=False)
    assert done.returncode == 1 and "have version 99" in done.stderr, done.stderr
