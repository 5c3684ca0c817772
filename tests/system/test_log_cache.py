"""The log in PostgreSQL: a cache that is damaged, lost or another log's is fetched again, and never served."""

import re
import shutil
import time

import pytest
from conftest import wait_until
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import LEASED, SMALL, await_takeover, cached, create_queue, drain, fill, flip, receive, send, serves
from logs import spoil, texts
from nodes import Cluster
from wire import Connection, Lost


def kill_with_cache(node):
    """Again where that came between an older snapshot and the next one, which has not got its name yet."""
    while True:
        wait_until(lambda: cached(node, "snapshot"), what="that a snapshot is cached")
        node.kill9()
        if cached(node, "segment") and cached(node, "snapshot"):
            return
        node.start().wait_ready()


def test_K11_a_damaged_cache_is_fetched_again_and_never_served(cluster):
    node = cluster.node("one", *SMALL).start().wait_ready()
    line = cluster.line()
    jobs = create_queue(line)
    keys = fill(cluster, line, jobs)
    for how in ("flipped", "truncated", "grown", "missing", "zeros", "swapped"):
        kill_with_cache(node)
        spoil(node, how)
        node.start().wait_ready()
        line = cluster.line()
        messages = []
        while more := receive(line, jobs, VisibilityTimeout=60):
            messages += more
        assert sorted(message["Body"].split(" ")[0] for message in messages) == keys, how
        assert all(len(message["Body"]) == len(message["Body"].split(" ")[0]) + 1 + 40000 for message in messages)
        for message in messages:
            line.ok("AmazonSQS.ChangeMessageVisibility", {
                "QueueUrl": jobs, "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0})
    assert "changed" not in node.error_text()


def test_K11_a_cache_that_is_damaged_while_its_node_serves_is_fetched_again(cluster):
    node = cluster.node("one", *SMALL).start().wait_ready()
    line = cluster.line()
    jobs = create_queue(line)
    keys = fill(cluster, line, jobs)
    for path in cached(node, "segment"):
        for at in range(10000, path.stat().st_size, 10000):
            flip(path, at)
    line, bodies = Connection(node.port), {}
    while len(bodies) < len(keys):
        try:
            answer = line.call("AmazonSQS.ReceiveMessage", {"QueueUrl": jobs, "MaxNumberOfMessages": 10,
                                                            "VisibilityTimeout": 5})
        except (Lost, OSError):
            line = Connection(node.port)
            continue
        for message in answer.json().get("Messages", []) if answer.status == 200 else []:
            bodies[message["Body"].split(" ")[0]] = message["Body"]
    assert sorted(bodies) == keys
    assert all(body == f"{key} " + "x" * 40000 for key, body in bodies.items())
    assert node.error_text().count("could not be read from the copy") == 1


def test_K11_the_cache_of_another_log_is_not_believed(server, tmp_path):
    one, other = Cluster(server, tmp_path), Cluster(server, tmp_path)
    try:
        nodes = [cluster.node("one", *SMALL).start().wait_ready() for cluster in (one, other)]
        for cluster in (one, other):
            jobs = create_queue(cluster.line())
            send(cluster.line(), jobs, texts(cluster.database + "-", 20))
        for node in nodes:
            node.stop()
        nodes[0].data.rename(nodes[0].folder / "mine")
        shutil.copytree(nodes[1].data, nodes[0].data)
        nodes[0].start().wait_ready()
        assert sorted(drain(one.line(), "jobs")) == sorted(texts(one.database + "-", 20))
    finally:
        one.stop()
        other.stop()


def test_K10_two_daemons_on_one_folder_a_copied_folder_and_two_nodes_of_one_name_do_no_harm(cluster, tmp_path):
    node = cluster.node("one", *LEASED).start().wait_ready()
    line = cluster.line()
    jobs = create_queue(line)
    send(line, jobs, texts("m", 10))
    second = cluster.node("one", *LEASED, data=node.data).start()
    wait_until(lambda: re.search("another process|lock", second.error_text()), what="that it says so")
    assert serves(node, jobs) and not serves(second, jobs)
    second.stop()
    shutil.copytree(node.data, tmp_path / "copy")
    third = cluster.node("one", *LEASED, data=tmp_path / "copy").start().wait_standing_by()
    send(Connection(node.port), jobs, texts("n", 10))
    node.kill9()
    await_takeover(third, jobs, time.monotonic())
    assert sorted(drain(Connection(third.port), jobs)) == sorted(texts("m", 10) + texts("n", 10))


def test_F07_a_row_that_was_changed_is_never_served_and_is_named(cluster):
    node = cluster.node("one", *SMALL).start().wait_ready()
    line = cluster.line()
    jobs = create_queue(line)
    keys = fill(cluster, line, jobs)
    assert node.stop() == 0
    for suffix in ("segment", "snapshot"):
        (file, at), = cluster.sql("SELECT c.file, c.at FROM tally_log.chunk c"
                                  " JOIN tally_log.file f ON f.id = c.file WHERE f.name LIKE %s"
                                  " ORDER BY f.name DESC, c.at DESC LIMIT 1", "%." + suffix)
        change = ("UPDATE tally_log.chunk SET body = set_byte(body, 0, get_byte(body, 0) # 8)"
                  " WHERE file = %s AND at = %s")
        cluster.sql(change, file, at)
        shutil.rmtree(node.data)
        status, said = node.run_to_end()
        assert status == 1 and "tally_log.chunk" in said and f"file {file}" in said and "was changed" in said, said
        cluster.sql(change, file, at)
        (node.folder / "tallyd.err").write_text("")
    node.start().wait_ready()
    assert sorted(drain(cluster.line(), jobs)) == keys


def test_K11_a_log_in_files_is_neither_taken_for_a_cache_nor_served_from_one(cluster, daemon_factory):
    files = daemon_factory(*SMALL)
    files.start()
    jobs = create_queue(Connection(files.port))
    send(Connection(files.port), jobs, ["in-files"])
    assert files.stop() == 0
    node = cluster.node("one", *SMALL, data=files.data).start().wait_ready()
    node.wait_said("has no queues, and there is one in")
    send(cluster.line(), create_queue(cluster.line()), ["in-postgresql"])
    assert node.stop() == 0
    assert files.start().stop() == 0 and "forgotten" not in files.error_text()
    (files.data / "000000000000").rename(files.folder / "kept")
    files.start()
    files.wait_said("Was --log forgotten?")
    files.stop()
    shutil.rmtree(files.data / "000000000000")
    (files.folder / "kept").rename(files.data / "000000000000")
    files.start()
    assert drain(Connection(files.port), jobs) == ["in-files"]
    assert files.stop() == 0
    node.start().wait_ready()
    assert drain(cluster.line(), "jobs") == ["in-postgresql"]


@pytest.mark.parametrize("what", ["the frames of the newest segment", "everything"])
def test_K8_a_loss_that_begins_with_a_file_is_told_by_the_node_that_had_read_it(cluster, what):
    """As a failover to an asynchronous replica leaves it."""
    node = cluster.node("one", *SMALL, "--snapshot-bytes", "0").start().wait_ready()
    line = cluster.line()
    jobs = create_queue(line)
    for number in range(100):
        send(line, jobs, [f"m{number} " + "x" * 60000])
    node.stop()
    (newest,) = cluster.sql("SELECT max(f.name) FROM tally_log.file f JOIN tally_log.chunk c ON c.file = f.id"
                            " WHERE f.name LIKE '%%segment' AND c.at > 512")[0]
    assert newest > f"{0:016x}.segment"
    lost = "SELECT id FROM tally_log.file WHERE name >= %s"
    first, at = ("0", 0) if what == "everything" else (newest, 512)
    cluster.sql(f"DELETE FROM tally_log.chunk WHERE at >= {at} AND file IN ({lost})", first)
    if at == 0:
        cluster.sql("DELETE FROM tally_log.file WHERE name >= %s", first)
    node.start().wait_ready()
    assert node.error_text().count("has lost writes that it had acknowledged") == 1
    assert serves(node, jobs) == (what != "everything")
    node.stop()
    node.start().wait_ready()
    assert node.error_text().count("has lost writes that it had acknowledged") == 1
