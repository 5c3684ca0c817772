"""What monitoring/ and docs/how-to/monitoring.md say is true of a real /metrics: names, alerts, runbooks, the board."""

import contextlib
import json
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from conftest import BIN, ROOT, Tally, free_port, wait_until, write_credentials

RULES = ROOT / "monitoring" / "tally.rules.yml"
BOARDS = {"tally-overview": ("Tally overview", 25), "tally-queue": ("Tally queue", 13)}
PAGE = (ROOT / "docs" / "how-to" / "monitoring.md").read_text()

# What Prometheus itself adds, or the words of its language.
NOT_OURS = {"up"}
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="./setup test installs prometheus")


def promtool(*words, stdin=None):
    done = subprocess.run(["promtool", *map(str, words)], input=stdin, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"promtool {words}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def read_metrics(daemon, query=""):
    with urllib.request.urlopen(f"{daemon.endpoint}/metrics{query}") as reply:
        assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return reply.read().decode()


def names_of(text):
    """The names of all series that a text of metrics has, or has a HELP of."""
    series = {re.match(r"[a-z_]+", line)[0] for line in text.splitlines() if line and line[0] != "#"}
    return series | set(re.findall(r"^# HELP ([a-z_]+)", text, re.M))


def names_in(expressions):
    return set(re.findall(r"\b(?:tally_[a-z_]+|process_[a-z_]+|up)\b", expressions)) - NOT_OURS


def alerts():
    """name: its expression."""
    text = RULES.read_text()
    found = re.findall(r"- alert: (\w+)\n +expr: (\|\n(?: {10}.*\n)+|.*\n)", text)
    assert len(found) == text.count("- alert:") > 15
    return dict(found)


@pytest.fixture
def busy(daemon, tally, tmp_path):
    """A daemon with all kinds of things that have figures."""
    tally("queue", "create", "orders", "--dead-letter", "dead", "--max-attempts", "1")
    tally("queue", "create", "line.fifo", "Tally.OnGroupFailure=hold")
    for _ in range(3):
        tally("send", "orders", "m")
    tally("receive", "orders", "--delete")
    tally("receive", "orders", "--visibility", "0")
    tally("receive", "dead")
    tally("call", "Tally.CreateRelay", json.dumps({
        "RelayName": "r", "Source": {"Type": "sqlite", "Connection": str(tmp_path / "none.db")},
        "Sink": {"Type": "queue", "QueueUrl": "orders"}}))
    tally("call", "Tally.CreatePool", json.dumps({
        "PoolName": "p", "ResultQueueUrl": "orders", "Attributes": {"a": "str"}, "Size": 2,
        "Rules": [{"type": "equal", "attr": "a"}]}))
    wait_until(lambda: "tally_relay_state{" in read_metrics(daemon), what="the relay's figures")
    return daemon


@needs_promtool
def test_promtool_finds_nothing_wrong_with_the_metrics(busy):
    text = read_metrics(busy)
    assert promtool("check", "metrics", stdin=text) == ""
    assert not [name for name in re.findall(r"^# TYPE (\S+)", text, re.M) if text.count(f"# HELP {name} ") != 1]


@needs_promtool
def test_promtool_finds_nothing_wrong_with_the_rules_and_each_alert_fires_when_it_should(tmp_path):
    promtool("check", "rules", RULES)
    promtool("test", "rules", ROOT / "monitoring" / "tally.test.yml")
    tried = (ROOT / "monitoring" / "tally.test.yml").read_text()
    for alert in alerts():
        checks = re.findall(rf"alertname: {alert}\n( +exp_alerts)?", tried)
        assert "" in checks and len(set(checks)) == 2, f"{alert} is not tried both ways"


def test_each_metric_of_a_rule_is_one_that_the_daemon_has(busy):
    known = names_of(read_metrics(busy))
    for alert, expression in alerts().items():
        assert names_in(expression) or "up{" in expression
        assert names_in(expression) <= known, f"{alert}: {names_in(expression) - known}"


def test_each_alert_has_its_runbook_with_a_command(busy):
    known = names_of(read_metrics(busy))
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", PAGE, re.M | re.S))
    assert set(sections) == set(alerts())
    text = RULES.read_text()
    for alert, section in sections.items():
        assert f"runbook_url: docs/how-to/monitoring.md#{alert.lower()}" in text
        assert re.search(r"^    \S", section, re.M) or re.search(r"As Tally\w+", section), alert
    overview = subprocess.run([BIN / "tally", "--help"], capture_output=True, text=True, check=True).stdout
    for command in re.findall(r"^    tally ((?:queue |group |relay )?[a-z-]+)", PAGE, re.M):
        assert re.search(rf"^  {command} ", overview, re.M), command
    named = {name for name in re.findall(r"tally_[a-z_]+", PAGE) if not name.endswith("_")}
    assert named <= known, named - known


@pytest.mark.parametrize("name", BOARDS)
def test_each_metric_of_a_board_is_one_that_the_daemon_has(busy, name):
    known = names_of(read_metrics(busy))
    board = json.loads((ROOT / "monitoring" / f"{name}.json").read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    expressions += [one["definition"] for one in board["templating"]["list"] if one["type"] == "query"]
    assert (board["title"], len(board["panels"]), board["uid"]) == (*BOARDS[name], name)
    for expression in expressions:
        assert names_in(expression) <= known and (names_in(expression) or "up{" in expression), expression
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_the_figures_of_a_queue_follow_what_happens(busy, tally):
    def value(line):
        found = re.search(rf"^{re.escape(line)} (\S+)$", read_metrics(busy), re.M)
        return float(found[1]) if found else None

    assert value('tally_queue_messages_sent_total{queue="orders"}') == 3
    assert value('tally_queue_messages_deleted_total{queue="orders"}') == 1
    assert value('tally_queue_messages_received_total{queue="orders"}') == 2
    assert value('tally_queue_empty_receives_total{queue="dead"}') == 1
    assert time.time() - 60 < value('tally_queue_last_receive_timestamp_seconds{queue="dead"}') < time.time() + 1
    assert value('tally_queue_wait_seconds_count') == 2 and value('tally_queue_processing_seconds_count') == 1
    assert value('tally_log_flush_seconds_count') > 0 and value('tally_loop_turn_seconds_count') > 0
    wait_until(lambda: value('tally_queue_oldest_message_age_seconds{queue="orders",state="deliverable"}') > 0,
               what="a message that gets older")
    first = tally("send", "line.fifo", "one", "--group", "g", "--deduplication-id", "d").out.strip()
    tally("send", "orders", "blocked", "--after", f"message:{first}")
    tally("send", "orders", "late", "--delay", "900")
    assert value('tally_queue_messages{queue="orders",state="blocked"}') == 1
    assert value('tally_queue_messages{queue="orders",state="delayed"}') == 1
    tally("queue", "pause", "orders")
    assert value('tally_queue_paused{queue="orders"}') == 1
    assert value('tally_queue_oldest_message_age_seconds{queue="orders",state="deliverable"}') == 0
    assert value('tally_queue_oldest_message_age_seconds{queue="orders",state="any"}') > 0


def test_batches_pools_and_the_process_have_figures(busy, tally):
    def value(line):
        found = re.search(rf"^{re.escape(line)} (\S+)$", read_metrics(busy), re.M)
        return float(found[1]) if found else None

    assert value("tally_batch_oldest_age_seconds") == value('tally_pool_oldest_ticket_age_seconds{pool="p"}') == 0
    for batch in "one", "two", "three":
        tally("batch", "create", batch)
    tally("batch", "add", "two", "unit")
    tally("batch", "seal", "two")
    tally("batch", "cancel", "three")
    states = [value(f'tally_batches{{state="{state}"}}') for state in ("open", "sealed", "completed")]
    assert states == [1, 1, 1]
    tally("pool", "offer", "p", stdin='{"TicketId": "t", "Attributes": {"a": "x"}}\n')
    offered = tally.json("pool", "show", "p")[0]["OldestOfferedAt"]
    assert time.time() - 60 < offered <= time.time()
    wait_until(lambda: value("tally_batch_oldest_age_seconds") > 0, what="a batch that gets older")
    wait_until(lambda: value('tally_pool_oldest_ticket_age_seconds{pool="p"}') > 0, what="a ticket that gets older")
    tally("pool", "cancel", "p", "t")
    assert value('tally_pool_oldest_ticket_age_seconds{pool="p"}') == 0
    assert "OldestOfferedAt" not in tally.json("pool", "show", "p")[0]
    assert time.time() - 600 < value("process_start_time_seconds") <= time.time()
    assert value("process_cpu_seconds_total") > 0 and value("process_resident_memory_bytes") > 1 << 20
    assert 0 < value("process_open_fds") <= value("process_max_fds") and value("tally_recovery_seconds") >= 0


def own_address():
    """One of this machine that is not of the loopback interface, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line, contextlib.suppress(OSError):
        line.connect(("192.0.2.1", 9))  # sends nothing
        return line.getsockname()[0]


def test_metrics_may_be_for_this_machine_only(daemon_factory, tmp_path):
    address, port = own_address(), free_port()
    credentials = write_credentials(tmp_path, "AKIAOPS qZ6mVt1HfN2kLr9eYbU4xC0s 000000000000 read,write,admin\n")
    daemon = daemon_factory("--metrics-access", "loopback", "--credentials", credentials, "--listen", f"0.0.0.0:{port}")
    daemon.endpoint = f"http://127.0.0.1:{port}"
    daemon.start()
    assert "tally_queues 0" in read_metrics(daemon)
    if address is not None:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://{address}:{port}/metrics")
        assert refused.value.code == 403 and b"metrics-access = loopback" in refused.value.read()
        assert urllib.request.urlopen(f"http://{address}:{port}/health").status == 200
    assert daemon.stop() == 0
    done = subprocess.run([BIN / "tallyd", "--data", tmp_path / "d", "--metrics-access", "closed"], capture_output=True,
                          text=True, timeout=30)
    assert done.returncode != 0 and 'is "closed": it must be open or loopback' in done.stderr


def test_a_scrape_of_many_queues_is_made_in_portions(daemon_factory):
    daemon = daemon_factory("--metrics-queues", "many-*").start()
    count = 1500
    for i in range(count):
        daemon.call("AmazonSQS.CreateQueue", {"QueueName": f"many-{i:05}"})
    daemon.call("AmazonSQS.CreateQueue", {"QueueName": "other"})
    text = read_metrics(daemon)
    assert text.count("tally_queue_paused{") == count and "\ntally_metrics_queues_left_out 1\n" in text
    assert read_metrics(daemon, "?queue=other").count("tally_queue_paused{") == 1
    with pytest.raises(urllib.error.HTTPError) as refused:
        read_metrics(daemon, "?queue=a%20b")
    assert refused.value.code == 400 and b"patterns" in refused.value.read()
    with socket.create_connection(("127.0.0.1", daemon.port)) as line:  # One that sends no more gets what it asked for.
        line.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        line.shutdown(socket.SHUT_WR)
        line.settimeout(20)
        assert line.makefile("rb").read().count(b"tally_queue_paused{") == count
    # Clients that leave while theirs is made are no trouble.
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", daemon.port)) as line:
            line.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert read_metrics(daemon).count("tally_queue_paused{") == count


@pytest.mark.parametrize("patterns", ["a b", "a,,b", "é", "," * 101])
def test_wrong_patterns_are_refused_at_the_start(patterns, tmp_path):
    done = subprocess.run([BIN / "tallyd", "--data", tmp_path, "--metrics-queues", patterns], capture_output=True,
                          text=True, timeout=30)
    assert done.returncode != 0 and "metrics-queues" in done.stderr and "orders-*,mail" in done.stderr


def test_no_history_is_kept_where_none_is_wanted(daemon_factory):
    on, off = daemon_factory().start(), daemon_factory("--ui-history", "off").start()
    ask = ("call", "Tally.GetSeries", '{"Period": 5, "Points": 2}')
    assert json.loads(Tally(on.endpoint)(*ask).out)["Sent"] == [None, None]
    assert "ui-history = off" in Tally(off.endpoint)(*ask, status=1).err
