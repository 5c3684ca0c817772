"""The log in PostgreSQL, on one node.

The ids in the names of these tests and of their neighbours are those of the reference: F01 to F29 of the log, K1 to K26
of the cluster. PostgreSQL is a real one, with fsync on. What was acknowledged is held against what the nodes say
afterwards: nothing lost, nothing twice."""

import shutil
import time

from conftest import PATIENCE
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import create_queue, delete, drain, receive, send, texts


def test_F27_messages_outlive_kill_9_of_node_and_server_a_clean_stop_and_an_empty_folder(cluster):
    node = cluster.node("one").start().wait_ready()
    line = cluster.line()
    jobs = create_queue(line)
    send(line, jobs, texts("m", 30))
    (first,) = receive(line, jobs, MaxNumberOfMessages=1)
    delete(line, jobs, first)
    expected = sorted(set(texts("m", 30)) - {first["Body"]})

    node.kill9()
    node.start().wait_ready()
    assert node.stop() == 0
    shutil.rmtree(node.data)
    node.start().wait_ready()
    node.kill9()
    cluster.server.kill9()
    cluster.server.start()
    began_at = time.monotonic()
    node.start().wait_ready()
    assert time.monotonic() - began_at < 5 * PATIENCE
    line = cluster.line()
    assert sorted(drain(line, jobs)) == expected
    assert node.stop() == 0


def test_the_tables_are_made_once_and_a_database_without_them_is_refused(cluster):
    assert "there already" in cluster.init()
    cluster.sql("DROP SCHEMA tally_log CASCADE")
    status, said = cluster.node("one").run_to_end()
    assert status == 1 and "--init" in said
    cluster.init()
    cluster.node("two").start().wait_ready()
