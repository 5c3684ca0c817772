"""What bench/run makes of figures, and bench/count of counts."""

import importlib.machinery
import importlib.util
import http.server
import json
import re
import statistics
import subprocess
import sys
import threading
import time

import pytest
from conftest import ROOT

MEASURING = ROOT / "docs" / "internals" / "measuring.md"

sys.path.append(str(ROOT / "bench"))
from harness import catalog, measure, report, rounds  # noqa: E402


def test_the_page_has_the_instructions_that_are_written_down():
    who, counts = next(iter(json.loads((ROOT / "bench" / "instructions.json").read_text()).items()))
    block = re.search("<!-- counts: .*? -->(.*?)<!-- end -->", MEASURING.read_text(), re.DOTALL).group(1)
    rows = {name: int(count.replace(",", ""))
            for name, count in re.findall(r"^\| (.+) \| ([\d,]+) \|$", block, re.MULTILINE)}
    assert who in block and rows == counts


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
    """Fills the pages from results; returns their text."""
    def fill(measured, rows=()):
        document, measuring = tmp_path / "performance.md", tmp_path / "measuring.md"
        document.write_text((ROOT / "docs" / "performance.md").read_text())
        measuring.write_text(MEASURING.read_text())
        (tmp_path / "results.json").write_text(json.dumps({
            "machine": {"cpu": "a", "cores": 2, "memory_gib": 1, "kernel": "b", "file_system": "c"}, "taken_at": "d",
            "notes": [],
            "disk": {"syncs_per_s": 1, "latency_us": {"p50": 1, "p99": 1}}, "versions": {"commit": "e"},
            "backlog": None, "parts": {},
            "settings": {"connections": 64, "body": 200, "runs": 3, "turns": 5, "seconds": 2.5, "warm_up": 0.8,
                         "backlog_body": 32},
            "measured": measured, "rows": list(rows)}))
        subprocess.run([ROOT / "bench" / "publish", "--results", tmp_path / "results.json", "--document", document,
                        "--measuring", measuring, "--picture", tmp_path / "jobs.svg"], check=True, capture_output=True)
        return document.read_text() + measuring.read_text()
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


class FirstLate(http.server.BaseHTTPRequestHandler):
    """Answers a SendMessage at once, but the first one only when the load's warm-up and window are long over."""
    protocol_version = "HTTP/1.1"
    is_first = True

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if FirstLate.is_first:
            FirstLate.is_first = False
            time.sleep(0.5)
        body = b'{"MessageId":"m"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_a_window_that_begins_late_has_its_length_and_figures_that_are_json():
    """The load once printed nan a second, of none in 0 s, when a server was silent for longer than both."""
    programs = ROOT / "build" / "release" / "bench"
    if (programs.parent / "build.ninja").exists():
        subprocess.run(["ninja", "-C", programs.parent, "--quiet", "bench/load"], check=False)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), FirstLate)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        done = subprocess.run(
            [programs / "load", "http-send", "--port", str(server.server_port), "--connections", "1", "--body", "32",
             "--warm-up", "0.01", "--seconds", "0.05"], capture_output=True, text=True, timeout=60, check=True)
    finally:
        server.shutdown()
        server.server_close()
    result = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert result["seconds"] >= 0.05 and result["requests"] >= 0, result
