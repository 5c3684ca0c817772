"""bench/run works: every row is there, and every load was checked against what the server then held."""

import importlib.machinery
import importlib.util
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import pytest
from conftest import BIN, ROOT, WRAPPER

sys.path.append(str(ROOT / "bench"))
from harness import catalog, measure, report, rounds  # noqa: E402

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


def test_the_page_has_the_instructions_that_are_written_down():
    who, counts = next(iter(json.loads((ROOT / "bench" / "instructions.json").read_text()).items()))
    block = re.search("<!-- counts: .*? -->(.*?)<!-- end -->", (ROOT / "docs" / "performance.md").read_text(),
                      re.DOTALL).group(1)
    rows = {name: int(count.replace(",", ""))
            for name, count in re.findall(r"^\| (.+) \| ([\d,]+) \|$", block, re.MULTILINE)}
    assert who in block and rows == counts


def test_publish_fills_the_page_about_performance(results, tmp_path):
    document, picture = tmp_path / "performance.md", tmp_path / "jobs.svg"
    before = (ROOT / "docs" / "performance.md").read_text()
    document.write_text(before)
    (tmp_path / "results.json").write_text(json.dumps(results))
    subprocess.run([ROOT / "bench" / "publish", "--results", tmp_path / "results.json", "--document", document,
                    "--picture", picture, "--provisional", "It is a test."],
                   check=True, capture_output=True)
    text = document.read_text()
    assert "It is a test." in text and f"| {results['measured']['life']['messages_per_s']:,.0f} |" in text
    assert re.findall("<!-- .* -->", text) == re.findall("<!-- .* -->", before)
    assert ("index memory of a waiting message" in text
            and picture.read_text().replace(" (provisional)", "") == results["chart"])


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


def test_two_nodes_stand_beside_one_with_the_cores_of_the_machine(results):
    row = next(row for row in results["rows"] if row["name"] == "sends to 8 namespaces on two nodes")
    assert row["problem"] or (row["value"] and row["reference_value"] and "cores: " in row["reference"]), row


def test_the_generator_states_its_ceiling(results):
    assert "The load generator's own ceiling, at least: " in results["printed"]


# --- Without a run: what is made of figures ---


def rates(*figures, disturbed=()):
    """Runs of one load, a round each."""
    return [{"round": at, "messages_per_s": figure, "others_share": 0.5 if at in disturbed else 0.0}
            for at, figure in enumerate(figures)]


def test_a_ratio_is_the_median_of_the_rounds_ratios():
    """Those of a real run: the two medians, of different rounds, would give 0.88."""
    ratios = rounds.ratios(rates(80391, 59514, 73858), rates(99514, 77463, 83804), ("messages_per_s",))
    row = report.row("SendMessage", 73858, "/s", "nginx", 83804, "/s", at_least=0.85, ratios=ratios)
    assert report.ratio_text(row) == "0.81 x (0.77 to 0.88)" and row["met"] is False


def test_a_send_is_judged_beside_the_barest_server_of_the_same_promise():
    cases = {case.key: case for case in measure.CASES}
    judged = {(name, key): (reference, bar) for name, key, reference, _, bar in report.COMPARISONS
              if name.startswith("SendMessage") and "Batch" not in name and bar}
    assert judged == {("SendMessage", "send"): ("barest", {"at_least": 0.9}),
                      ("SendMessage, signed", "send.signed"): ("barest", {"at_least": 0.9})}
    assert cases["barest"].server.durability == cases["send"].server.durability == "synced"
    assert ("SendMessage", "send", "nginx") in {row[:3] for row in report.COMPARISONS}


def test_what_a_bar_compares_takes_part_in_every_round():
    cases = {case.key: case for case in catalog.CASES}
    for _, key, reference, _, bar in report.COMPARISONS:
        if bar and not cases[key].is_extra:
            assert cases[key].is_of_bar and cases[reference].is_of_bar, (key, reference)


def test_a_round_counts_where_both_of_its_runs_do():
    path = ("messages_per_s",)
    assert rounds.ratios(rates(10, 20, 30, disturbed=(0,)), rates(10, 10, 10, disturbed=(2,)), path) == [2]
    repeated = rates(10, 20, disturbed=(1,)) + [{"round": 1, "messages_per_s": 40, "others_share": 0.0}]
    assert rounds.ratios(repeated, rates(10, 10), path) == [1, 4]


def test_runs_without_rounds_have_the_ratio_of_their_medians():
    unnumbered = [{"messages_per_s": 10, "others_share": 0.0}] * 3
    assert rounds.ratios(unnumbered, rates(10, 10, 10), ("messages_per_s",)) == []
    assert report.ratio_text(report.row("x", 30, "/s", "y", 20, "/s")) == "1.50 x"


def test_a_row_says_whether_tally_is_behind():
    assert report.is_behind(report.row("rate", 10, "/s", "other", 20, "/s"))
    assert report.is_behind(report.row("memory", 102, "bytes", "other", 35, "bytes"))
    assert not report.is_behind(report.row("time", 10, "us", "other", 20, "us"))
    assert not report.is_behind(report.row("rate", 10, "/s", "not there"))


def entry(title, server, *runs, problem=""):
    return {"title": title, "server": server, "durability": "synced", "problem": problem, "runs": list(runs),
            "messages_per_s": statistics.median(run["messages_per_s"] for run in runs) if runs else None,
            "range_messages_per_s": [1, 2]}


@pytest.fixture(name="page")
def page_fixture(tmp_path):
    """Fills the page from results; returns its text."""
    def fill(measured, rows=()):
        document = tmp_path / "performance.md"
        document.write_text((ROOT / "docs" / "performance.md").read_text())
        (tmp_path / "results.json").write_text(json.dumps({
            "machine": {"cpu": "a", "cores": 2, "memory_gib": 1, "kernel": "b", "file_system": "c"}, "taken_at": "d",
            "notes": [],
            "disk": {"syncs_per_s": 1, "latency_us": {"p50": 1, "p99": 1}}, "versions": {"commit": "e"},
            "backlog": None, "parts": {},
            "settings": {"connections": 64, "body": 200, "runs": 3, "turns": 5, "seconds": 2.5, "warm_up": 0.8,
                         "backlog_body": 32},
            "measured": measured, "rows": list(rows)}))
        subprocess.run([ROOT / "bench" / "publish", "--results", tmp_path / "results.json", "--document", document,
                        "--picture", tmp_path / "jobs.svg"], check=True, capture_output=True)
        return document.read_text()
    return fill


def run_of(rate, p99=1.0, others=0.0, seconds=2.5):
    return {"messages_per_s": rate, "requests_per_s": rate, "latency_us": {"p99": p99}, "server_cpu_us": p99,
            "generator_share": p99 / 1000, "others_share": others, "seconds": seconds}


def test_the_page_shows_every_row_also_where_tally_is_behind(page):
    sends = report.row("SendMessage", 90.0, "/s", "bare group commit", 100.0, "/s",
                       ratios=rounds.ratios(rates(80, 90, 100), rates(100, 100, 100), ("messages_per_s",)))
    memory = report.row("index memory of a waiting message", 102.0, "bytes", "Redis, body included", 35.0, "bytes")
    text = page({"send": entry("Tally, SendMessage", "Tally", run_of(80), run_of(90), run_of(100))}, [sends, memory])
    assert "| SendMessage | 90.00/s | bare group commit: 100.0/s | 0.90 x (0.80 to 1.00) | **behind** |" in text
    assert ("| index memory of a waiting message | 102.0 bytes | Redis, body included: "
            "35.00 bytes | 2.91 x | **behind** |" in text)


def test_a_disturbed_run_counts_for_no_figure_of_the_jobs(page):
    text = page(
        {"life": entry("lives", "Tally", run_of(100, p99=2), run_of(120, p99=4), run_of(110, p99=900, others=0.5))})
    assert "| **Tally, 10 in a request** | synced | 110.0 | 100.0 to 120.0 | 3.00 | 3.00 | 0 % |" in text


@pytest.fixture(name="count", scope="module")
def count_fixture():
    """bench/count as a module."""
    loader = importlib.machinery.SourceFileLoader("bench_count", str(ROOT / "bench" / "count"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_count", loader))
    loader.exec_module(module)
    return module


def test_counts_are_compared_across_corrections_of_the_compiler_and_of_libraries(count):
    said = {"compiler": "gcc 12.2.0", "libc": "2.36", "openssl": "3.0.19"}
    assert count.maker(said) == count.maker({**said, "openssl": "3.0.20-rc1"})
    assert count.maker(said) != count.maker({**said, "openssl": "3.1.0"})
    assert count.maker(said).startswith("gcc 12.2, libc 2.36, OpenSSL 3.0, ")


def test_a_count_fails_that_is_higher_or_has_other_names_and_is_skipped_without_a_book(count, capsys):
    book = {"us": {"send": 100, "receive": 100}}
    assert count.judge({"send": 104, "receive": 90}, book, "us") == 0
    assert count.judge({"send": 106, "receive": 100}, book, "us") == 1
    for other in ({"send": 100}, {"send": 100, "receive": 100, "delete": 100}, {"send": 100, "take": 100}):
        capsys.readouterr()
        assert count.judge(other, book, "us") == 1 and "--update" in capsys.readouterr().out, other
    assert count.judge({"send": 100}, book, "them") == count.NOT_COMPARED
    assert count.judge({"send": 100}, None, "us") == 1


def test_the_page_names_whose_window_was_another(page):
    text = page(
        {"life": entry("lives", "Tally", run_of(100)), "bullmq": entry("BullMQ", "Redis", run_of(50, seconds=0.88))})
    assert "2.5 s after 0.8 s (other windows: BullMQ on Redis 0.9 s). What" in text
