"""bench/run works: every row is there, and every load was checked against what the server then held."""

import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree

import pytest
from conftest import BIN, ROOT, WRAPPER

PROGRAMS = ROOT / "build" / "release" / "bench"
PEERS = {"nginx": "nginx", "redis-server": "redis", "beanstalkd": "beanstalkd"}
QUEUES = {"redis.streams": "redis-server", "nats": "nats-server", "rabbitmq": "rabbitmq-server",
          "rabbitmq.quorum": "rabbitmq-server", "rabbitmq.v2": "rabbitmq-server", "postgresql": None,
          "postgresql.single": None, "postgresql.single.held": None, "life.postgres": None,
          "life.single.postgres": None, "graphile": None, "pgboss": None, "bullmq": "redis-server"}


@pytest.fixture(scope="module")
def results():
    """What a quick run wrote and printed."""
    if WRAPPER:
        pytest.skip("measures nothing under a wrapper")
    if (PROGRAMS.parent / "build.ninja").exists():
        programs = ["bench/load", "bench/echo", "bench/sigv4", "bench/append"]
        subprocess.run(["ninja", "-C", PROGRAMS.parent, "--quiet", *programs], check=False)
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as folder:
        yield run_quick(pathlib.Path(folder))


def run_quick(folder, *options):
    folder.chmod(0o711)  # PostgreSQL, another user, must reach it
    command = [ROOT / "bench" / "run", "--quick", "--folder", folder, "--programs", PROGRAMS, "--tallyd",
               BIN / "tallyd", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=480, check=False)
    assert done.returncode == 0, done.stderr
    assert not list(folder.glob("data-*")), "the data folder is left behind"
    return {**json.loads((folder / "results.json").read_text()), "printed": done.stdout,
            "chart": (folder / "jobs.svg").read_text()}


def is_installed(program):
    return shutil.which(program, path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin") is not None


def peer_of(results, key):
    """A peer's figures. It is another project's server on a busy machine: one that fails is measured once more,
    alone."""
    load = results["measured"][key]
    if not load["problem"] or "isn't there" in load["problem"]:
        return load
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as folder:
        return run_quick(pathlib.Path(folder), "--only", key)["measured"][key]


def test_every_load_of_tally_has_a_figure(results):
    for key in ("ceiling.send", "ceiling.batch", "ceiling.life", "barest", "one.bare", "send", "batch", "life", "one"):
        load = results["measured"][key]
        assert load["problem"] == "", f"{key}: {load['problem']}"
        assert load["messages_per_s"] > 0, key
        assert load["runs"][0]["latency_us"]["p50"] > 0, key


def test_a_peer_has_a_figure_or_is_named_as_missing(results):
    for program, key in PEERS.items():
        for name in results["measured"]:
            if name.split(".")[0] == key:
                load = peer_of(results, name)
                assert load["messages_per_s"] if is_installed(program) else program in load["problem"], name


def test_a_queue_beside_tally_has_a_figure_or_says_what_is_missing(results):
    """RabbitMQ, NATS, PostgreSQL and the libraries come with ./setup bench; where one is there, its run must be
    right."""
    for key, program in QUEUES.items():
        load = peer_of(results, key)
        if load["problem"]:
            assert "isn't there" in load["problem"] and (
                program is None or program in load["problem"] or key == "bullmq"), f"{key}: {load['problem']}"
        else:
            assert load["messages_per_s"] > 0, key
        assert load["durability"] in ("synced", "page cache"), key


def test_the_chart_shows_every_queue_that_was_measured(results):
    root = xml.etree.ElementTree.fromstring(results["chart"])
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert words[0].startswith("Completed jobs per second")
    assert "Tally, 10 in a request" in words and f"{results['measured']['life']['messages_per_s']:,.0f}" in words
    for key, label in (("nats", "NATS JetStream"), ("rabbitmq", "RabbitMQ, classic queue"),
                       ("bullmq", "BullMQ on Redis")):
        assert (label in words) == bool(results["measured"][key]["messages_per_s"]), label


def test_publish_fills_the_pages_about_performance(results, tmp_path):
    document, measuring, picture = tmp_path / "performance.md", tmp_path / "measuring.md", tmp_path / "jobs.svg"
    before = (ROOT / "docs" / "performance.md").read_text()
    document.write_text(before)
    measuring.write_text("<!-- comparisons: bench/publish -->\n<!-- end -->\n")
    (tmp_path / "results.json").write_text(json.dumps(results))
    subprocess.run([ROOT / "bench" / "publish", "--results", tmp_path / "results.json", "--document", document,
                    "--measuring", measuring, "--picture", picture, "--provisional", "It is a test."],
                   check=True, capture_output=True)
    text = document.read_text()
    assert "It is a test." in text and f"| {results['measured']['life']['messages_per_s']:,.0f} |" in text
    assert re.findall("<!-- .* -->", text) == re.findall("<!-- .* -->", before)
    assert "index memory of a waiting message" in text and "bare group commit, SendMessage" in text
    assert "bare server, SendMessage" in measuring.read_text()
    assert picture.read_text().replace(" (provisional)", "") == results["chart"]


def test_every_bar_of_the_design_has_a_row(results):
    bars = {row["name"] for row in results["rows"] if row["bar"] is not None}
    assert bars == {
        "SendMessage",
        "SendMessageBatch of 10",
        "send, receive, delete in tens",
        "one connection, one message, p50",
        "index memory of a waiting message",
        "restart after kill -9",
        "p99.9 of a send during a snapshot",
        "growth: CPU time of a life",
        "growth: CPU time of a life, FIFO, 10,000 groups",
        "growth: CPU time of a life, standard, 10,000 groups",
        "growth: CPU time of a life, 9,999 groups blocked",
        "fan-in: CPU time of a receive and delete, 10,000 into 1",
        "longest send to another queue meanwhile",
        "growth: CPU time of a send, 10,000 ids remembered",
        "SendMessage, signed",
        "SendMessageBatch of 10, signed",
        "send, receive, delete in tens, signed",
        "verification of a signature",
        "relay: rows of an outbox into a queue",
        "relay: COMMIT to a waiting receiver, p50",
        "relay: KiB of the table after rows flowed past a stand-by",
        "relay: oldest snapshot of any relay",
        "pool: durable matches, 1,000 waiting",
        "pool: CPU time of a ticket, 1,000 waiting",
        "pool: p99 of a send to another queue, 1,000 waiting",
        "on PostgreSQL: send, receive, delete in tens",
        "on PostgreSQL: send, receive, delete, single",
        "log in PostgreSQL: bytes of messages a second",
        "log in PostgreSQL: WAL bytes of a message's life",
        "log in PostgreSQL: one connection, one message, p50",
        "kill -9 of the owner until the next answer, 10,000 messages wait",
        "log in PostgreSQL: a stand-by behind the owner, p99",
        "log in PostgreSQL: the most bytes of the second half",
        "log in PostgreSQL: the most rows of the second half",
        "beside a transaction that stays open: an append, the last tenth",
        "requests passed on over plain HTTP, 64 connections",
        "a request passed on over plain HTTP: what it adds, p50",
        "requests passed on over TLS, 64 connections",
        "a request passed on over TLS: what it adds, p50",
        "the first request of a namespace at rest, p50",
        "beside ten dashboards: requests of SendMessage",
        "beside ten dashboards: requests of send, receive, delete in tens",
        "no turn of the loop in all of these calls was above",
        "no turn of the loop in these scrapes was above",
        "sends while backups are made: p99.9, worst of 1 runs",
        "no turn of the loop was above",
    }
    for row in results["rows"]:
        assert row["name"] in results["printed"]
        if not row["problem"]:
            assert row["value"] is not None, row["name"]


def test_the_backlog_is_counted_and_survives_kill_9(results):
    backlog = results["backlog"]
    assert backlog["problem"] == ""
    assert backlog["messages"] >= 10_000
    assert backlog["index_bytes"] is not None
    assert backlog["restart_warm_s"] > 0 and backlog["restart_cold_s"] > 0
    row = next(row for row in results["rows"] if row["name"] == "restart after kill -9")
    assert (row["value"], row["reference_value"]) == (backlog["restart_warm_s"], backlog["restart_cold_s"])
    assert (row["reference"].startswith("files not in the page cache")
            and row["reference"].endswith("bodies of 32 bytes"))


def test_order_and_dependencies_are_measured_and_counted(results):
    for key in ("groups", "blocked", "fanin", "fanout", "ids", "order", "flows"):
        part = results["parts"][key]
        assert part["problem"] == "" and part["results"], f"{key}: {part['problem']}"


def test_a_peer_of_order_has_a_figure_or_says_why_not(results):
    for row in results["rows"]:
        if row["name"].startswith(("jobs of many keys", "fan-in of")):
            assert row["reference_value"] or row["problem"] or "n/a" in row["reference"], row


def test_pools_are_measured_and_counted(results):
    """bench-M1 to bench-M7."""
    for key in ("rate", "commit", "conflict", "search", "pass", "team", "life", "quality"):
        part = results["parts"][f"pool.{key}"]
        if key == "quality" and importlib.util.find_spec("networkx") is None:
            assert "python3-networkx" in part["problem"]
        else:
            assert part["problem"] == "" and part["results"], f"{key}: {part['problem']}"


def test_looking_is_measured(results):
    for key in ("pages", "calls", "scrape"):
        part = results["parts"][f"look.{key}"]
        assert part["problem"] == "" and part["results"], f"{key}: {part['problem']}"


def test_two_nodes_stand_beside_one_with_the_cores_of_the_machine(results):
    row = next(row for row in results["rows"] if row["name"] == "sends to 8 namespaces on two nodes")
    assert row["problem"] or (row["value"] and row["reference_value"] and "cores: " in row["reference"]), row


def test_the_generator_states_its_ceiling(results):
    assert "The load generator's own ceiling, at least: " in results["printed"]
