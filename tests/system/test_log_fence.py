"""The log in PostgreSQL: what its tables refuse, whoever asks.

The statements are those of src/postgres/statements.h."""

import contextlib
import uuid

import psycopg2
import pytest
from conftest import wait_until
from logs import cluster, server  # noqa: F401 (fixtures)
from logs import LEASED, SMALL, create_queue, drain, execute, fill, send, serves, statements, texts
from newer_node import NewerNode
from nodes import AnyNode
from wire import Connection, Lost


class Session:
    """Runs the statements as a node does, each in a transaction that is rolled back unless it is kept."""

    def __init__(self, cluster):
        self.connection = psycopg2.connect(cluster.server.uri.rsplit("/", 1)[0] + "/" + cluster.database)

    def run(self, name, *values):
        """How many rows it changes."""
        with self.connection.cursor() as cursor:
            try:
                return execute(cursor, name, *values)
            finally:
                self.connection.rollback()

    def close(self):
        self.connection.close()


class Stage:
    """A log that nobody owns at the moment, and what is needed to write to it."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.node = cluster.node("one", *SMALL).start().wait_ready()
        line = Connection(self.node.port)
        self.jobs = create_queue(line)
        self.keys = fill(cluster, line, self.jobs)
        self.node.kill9()
        self.log, self.epoch, self.owner = cluster.sql("SELECT id, epoch, owner FROM tally_log.head")[0]
        self.name, self.file, self.end = cluster.sql(
            "SELECT f.name, f.id, max(c.at) + 8000 FROM tally_log.file f JOIN tally_log.chunk c ON c.file = f.id"
            " WHERE f.name LIKE '%%.segment' GROUP BY 1, 2 ORDER BY 1 LIMIT 1")[0]
        self.session = Session(cluster)

    def changes(self):
        """Each statement that changes something, with what follows the fence."""
        return {
            "CREATE": ("new.segment",), "RENAME": (self.name, "other"), "RESIZE": (self.file, 7),
            "REMOVE": (self.file,), "REMOVE_CHUNKS": (self.file, 500),
            "APPEND": (self.file, self.end, b"h" * 16, [b"x"], self.epoch), "BEAT": (),
        }

    def content(self):
        """A digest of all rows."""
        return self.cluster.sql(
            "SELECT (SELECT md5(string_agg(f::text, ',' ORDER BY f.id)) FROM tally_log.file f),"
            " (SELECT md5(string_agg(c::text, ',' ORDER BY c.file, c.at)) FROM tally_log.chunk c),"
            " (SELECT md5(string_agg(b::text, ',')) FROM tally_log.beat b),"
            " (SELECT md5(string_agg(h::text, ',')) FROM tally_log.head h)")


@pytest.fixture
def stage(cluster):
    made = Stage(cluster)
    yield made
    made.session.close()


def test_F23_whoever_is_not_the_owner_changes_and_removes_nothing(stage):
    fenced = {name for name, text in statements().items() if "tally_log.head WHERE id = $1::int AND epoch" in text}
    assert fenced == set(stage.changes())
    before = stage.content()
    strangers = [(stage.log, stage.epoch - 1, stage.owner), (stage.log, stage.epoch + 1, stage.owner),
                 (stage.log, stage.epoch, str(uuid.uuid4())), (stage.log + 1, stage.epoch, stage.owner)]
    for name, values in stage.changes().items():
        for stranger in strangers:
            assert stage.session.run(name, *stranger, *values) == 0, (name, stranger)
        assert stage.session.run(name, stage.log, stage.epoch, stage.owner, *values) > 0, f"{name} of the owner itself"
    assert stage.content() == before
    stage.node.start().wait_ready()
    assert sorted(drain(Connection(stage.node.port), stage.jobs)) == stage.keys


def test_F22_a_write_at_a_place_that_is_taken_or_of_too_large_a_chunk_is_refused(stage):
    owner = (stage.log, stage.epoch, stage.owner)
    taken = stage.cluster.sql("SELECT at FROM tally_log.chunk WHERE file = %s ORDER BY at", stage.file)
    for (at,) in (taken[0], taken[-1]):
        with pytest.raises(psycopg2.errors.UniqueViolation):
            stage.session.run("APPEND", *owner, stage.file, at, b"h" * 16, [b"x"], stage.epoch)
    whole, larger = b"x" * 8000, b"x" * 8001
    assert stage.session.run("APPEND", *owner, stage.file, stage.end, b"h" * 16, [whole, whole], stage.epoch) == 2
    for chunks in ([larger], [whole, larger]):
        with pytest.raises(psycopg2.errors.CheckViolation):
            stage.session.run("APPEND", *owner, stage.file, stage.end, b"h" * 16, chunks, stage.epoch)
    with pytest.raises(psycopg2.errors.UniqueViolation):
        stage.session.run("CREATE", *owner, stage.name)


def test_F22_an_owner_whose_place_is_taken_acknowledges_nothing_and_gives_the_log_up(cluster):
    """Somebody else writes with its epoch and owner: a bug of ours, or a person."""
    node = cluster.node("one", *LEASED).start().wait_ready()
    jobs = create_queue(Connection(node.port))
    send(Connection(node.port), jobs, texts("m", 10))
    with contextlib.closing(NewerNode(cluster, seals=False)) as other:
        other.append_frame()
    with pytest.raises(Lost):
        send(AnyNode([node]), jobs, ["to nobody"])
    node.wait_said("lost writes", 20)
    wait_until(lambda: serves(node, jobs), what="that it takes the log again")
    assert sorted(drain(Connection(node.port), jobs)) == sorted(texts("m", 10))


def test_F23_without_a_snapshot_nothing_is_removed(cluster):
    options = ("--body-max", "64KiB", "--segment-size", "5MiB", "--snapshot-bytes")
    node = cluster.node("one", *options, "0").start().wait_ready()
    line = Connection(node.port)
    jobs = create_queue(line)

    def names(ending):
        return [name for (name,) in cluster.sql("SELECT name FROM tally_log.file WHERE name LIKE %s ORDER BY name",
                                                f"%{ending}")]

    while len(names(".segment")) < 4:
        send(line, jobs, [f"m{number} " + "x" * 60000 for number in range(20)])
        line.ok("AmazonSQS.PurgeQueue", {"QueueUrl": jobs})
    send(line, jobs, ["last"])
    assert names(".snapshot") == [] and names(".gone") == []
    assert names(".segment")[:3] == [f"{number * (5 << 20):016x}.segment" for number in range(3)]
    node.kill9()
    node.options[node.options.index("0")] = "1MiB"  # with one, what is not needed goes
    node.start().wait_ready()
    send(Connection(node.port), jobs, ["m " + "x" * 60000 for _ in range(40)])
    wait_until(lambda: names(".segment")[0] > f"{0:016x}.segment", what="the trimming")
    assert len(names(".snapshot")) >= 1 and "last" in drain(Connection(node.port), jobs)
