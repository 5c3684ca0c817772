"""The log in PostgreSQL: nodes of an older version beside a newer one."""

import contextlib
import struct

import pytest
from conftest import wait_until
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import SMALL, create_queue, drain, send, serves, texts
from newer_node import NewerNode
from nodes import AnyNode, PatientLine
from wire import Connection, Lost

PATIENT = (*SMALL, "--lease", "20s")  # the newer node gives no sign of life
UNKNOWN_EVENT = struct.pack("<BI", 250, 3) + b"new"
WRITES = {
    "an event": lambda newer: newer.append_frame(payload=UNKNOWN_EVENT),
    "a frame": lambda newer: newer.append_frame(version=2, payload=UNKNOWN_EVENT),
    "a segment": lambda newer: newer.begin_segment(version=2),
}


def ended(node):
    return node.process.poll() is not None


def refuses(node, word):
    """It says why it does not go on."""
    node.wait_said(word, 20)
    assert "newer" in node.error_text(), node.error_text()


def ends(node, word):
    refuses(node, word)
    wait_until(lambda: ended(node), what=f"that node {node.name} ends")
    assert node._reap(1) == 1


@pytest.mark.parametrize("what", WRITES)
def test_F13_K23_a_node_stops_at_what_a_newer_version_wrote_and_says_so(cluster, what):
    owner, other = cluster.pair(*PATIENT)
    jobs = create_queue(Connection(owner.port))
    send(Connection(owner.port), jobs, texts("m", 10))
    cluster.wait_followed()
    with contextlib.closing(NewerNode(cluster)) as newer:
        with pytest.raises(Lost):
            send(AnyNode([owner]), jobs, ["to nobody"])
        owner.wait_standing_by()  # a rolling upgrade: the older ones follow the newer one, as long as they can
        assert not ended(owner) and not ended(other) and not other.is_ready()
        WRITES[what](newer)
        refuses(owner, ".segment")  # it has served, so it tries again from time to time
        ends(other, ".segment")
        late = cluster.node("late", *PATIENT).start()
        ends(late, ".segment")
        assert not ended(owner) and not serves(owner, jobs)
        assert not any(node.is_ready() for node in cluster.nodes)
        newer.take_back()
    other.start()
    wait_until(lambda: serves(owner, jobs) or serves(other, jobs), what="that one of them serves")
    assert sorted(drain(PatientLine(cluster.nodes[:2]), jobs)) == sorted(texts("m", 10))


def test_K23_tables_of_a_newer_version_are_refused_by_all_that_connect_anew(cluster):
    owner, other = cluster.pair(*SMALL)
    jobs = create_queue(Connection(owner.port))
    send(Connection(owner.port), jobs, texts("m", 10))
    cluster.wait_followed()
    cluster.sql("UPDATE tally_log.version SET number = number + 1")
    cluster.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'tallyd%%' "
                "AND datname = current_database()")
    said = "tables of the log have version 5"
    refuses(owner, said)
    for node in (other, cluster.node("late").start()):
        ends(node, said)
    assert not ended(owner) and not serves(owner, jobs)
    cluster.sql("UPDATE tally_log.version SET number = number - 1")
    wait_until(lambda: serves(owner, jobs), what="that the owner serves again")
    assert sorted(drain(Connection(owner.port), jobs)) == sorted(texts("m", 10))


def test_tables_of_the_first_version_are_made_new_by_init(cluster):
    cluster.sql("DROP TABLE tally_log.node, tally_log.node_beat, tally_log.pin, tally_log.wish, tally_log.cluster")
    cluster.sql("ALTER TABLE tally_log.head DROP COLUMN moved_to, DROP COLUMN is_moving")
    cluster.sql("UPDATE tally_log.version SET number = 1")
    status, said = cluster.node("one", *SMALL).run_to_end()
    assert status == 1 and "run tallyd --init" in said
    cluster.init()
    assert "there already" in cluster.init()
    cluster.node("two", *SMALL).start().wait_ready()
