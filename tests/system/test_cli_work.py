"""`tally work`: a command for each message; heartbeats, failures, stops and kills."""

import contextlib
import json
import os
import re
import shlex
import signal
import stat
import subprocess
import threading
import time

import pytest

from bad_answers import BAD_ANSWERS, undated
from clients import Guarded, hold_until_visible
from conftest import BIN, PATIENCE, Tally, wait_until
from http_proxy import HttpProxy


@pytest.fixture
def queue(tally):
    tally("queue", "create", "work")
    return "work"


@pytest.fixture
def script(tmp_path):
    """Makes a shell script; $OUT in it is a folder of its own."""
    out = tmp_path / "out"
    out.mkdir()

    def make(text):
        path = tmp_path / "script"
        path.write_text(f"#!/bin/sh\nOUT={out}\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IEXEC)
        return path

    make.out = out
    return make


def counts(tally):
    attributes = tally.json("queue", "show", "work")[0]["Attributes"]
    return (
        int(attributes["ApproximateNumberOfMessages"]),
        int(attributes["ApproximateNumberOfMessagesNotVisible"]),
    )


def times(script):
    return [float(word) for word in (script.out / "times").read_text().split()]


def test_each_message_is_run_once_with_its_body_and_deleted(tally, queue, script):
    command = script('cat > "$OUT/$TALLY_MESSAGE_ID"')
    bodies = [f"body {n} äöü\n\n" for n in range(40)]
    ids = [tally("send", queue, "-", stdin=body).out.strip() for body in bodies]
    tally("work", "--queue", queue, "--concurrency", "4", "--until-empty", "--", command)
    assert {path.name: path.read_text() for path in script.out.iterdir()} == dict(zip(ids, bodies))
    assert counts(tally) == (0, 0)


def test_a_body_larger_than_a_pipe_arrives_whole_even_if_it_is_not_read(tally, queue, script):
    tally("send", queue, "-", stdin="x" * 1_000_000)
    tally("work", "--queue", queue, "--until-empty", "--", script('wc -c > "$OUT/size"'))
    assert (script.out / "size").read_text().strip() == "1000000"
    tally("send", queue, "-", stdin="x" * 1_000_000)
    tally("work", "--queue", queue, "--until-empty", "--", "true")
    assert counts(tally) == (0, 0)


def test_the_environment_tells_about_the_message(tally, queue, script, daemon):
    command = script('env | grep "^TALLY_" | sort > "$OUT/env"')
    message_id = (
        tally("send", queue, "x", "--attribute", "colour=sky blue", "--attribute", "a.b-c=1:Number").out.strip())
    tally("work", "--queue", queue, "--until-empty", "--", command)
    variables = dict(line.split("=", 1) for line in (script.out / "env").read_text().splitlines())
    assert variables["TALLY_MESSAGE_ID"] == message_id
    assert variables["TALLY_QUEUE"] == queue
    assert variables["TALLY_ENDPOINT"] == daemon.endpoint
    assert variables["TALLY_RECEIVE_COUNT"] == "1"
    assert abs(int(variables["TALLY_SENT_AT_MS"]) / 1000 - time.time()) < 60 * PATIENCE
    assert variables["TALLY_ATTRIBUTE_colour"] == "sky blue"
    assert variables["TALLY_ATTRIBUTE_a_b_c"] == "1"
    assert variables["TALLY_RECEIPT_HANDLE"]


def test_the_command_is_part_of_its_messages_trace_and_of_no_other(tally, queue, script):
    """What `tally work` itself was started in is another trace."""
    command = script('body=$(cat); env | grep -E "^(TRACEPARENT|TRACESTATE|BAGGAGE)=" | sort > "$OUT/$body"')
    context = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "rojo=1"}
    ten = [f"--attribute=a{n}=x" for n in range(10)]
    tally("send", queue, "traced", *ten, *[f"--attribute={name}={value}" for name, value in context.items()])
    tally("send", queue, "plain")
    assert "not counting traceparent" in tally("send", queue, "x", *ten, "--attribute", "b=x", status=2).err
    others = {"TRACEPARENT": "00-1-2-00", "TRACESTATE": "other=1", "BAGGAGE": "a=b"}
    tally.environment.update(others)
    tally("work", "--queue", queue, "--until-empty", "--", command)
    assert (script.out / "traced").read_text().splitlines() == [
        f"{name.upper()}={value}" for name, value in context.items()]
    assert (script.out / "plain").read_text() == ""


def test_a_command_that_fails_is_tried_again_until_it_succeeds(tally, queue, script):
    command = script('echo x >> "$OUT/tries"; [ "$TALLY_RECEIVE_COUNT" -ge 3 ]')
    tally("send", queue, "x")
    done = tally("work", "--queue", queue, "--until-empty", "--", command)
    assert (script.out / "tries").read_text().split() == ["x"] * 3
    assert done.err.count("exit status 1; attempt ") == 2
    assert counts(tally) == (0, 0)


def test_a_failure_is_told_with_the_last_line_of_the_commands_standard_error(tally, queue, script):
    command = script(
        '[ "$TALLY_RECEIVE_COUNT" -ge 2 ] || { echo first; printf "no such\\001 thing \\n\\n"; exit 3; } >&2')
    tally("send", queue, "x")
    done = tally("work", "--queue", queue, "--until-empty", "--", command)
    assert f"{command}: exit status 3: no such? thing; attempt 1 of 25, next in 1 s\n" in done.err
    assert done.err.startswith("first\nno such\x01 thing \n")  # handed on as it came


def test_the_reason_of_a_failure_stands_with_the_message(tally, queue, script):
    command = script('echo "$TALLY_ATTRIBUTE_Tally_FailureReason" >> "$OUT/told"; [ "$TALLY_RECEIVE_COUNT" -ge 2 ] || '
                     '{ echo "no such page" >&2; exit 65; }')  # fmt: skip
    tally("send", queue, "x")
    tally("work", "--queue", queue, "--until-empty", "--", command)
    assert (script.out / "told").read_text() == "\nexit status 65: no such page\n"


def test_a_failed_message_comes_back_when_the_queues_back_off_is_over(tally, queue, script):
    tally("queue", "set", queue, 'Tally.Backoff={"min": 2, "jitter": 0}')
    command = script('date +%s.%N >> "$OUT/times"; [ "$TALLY_RECEIVE_COUNT" -ge 2 ]')
    tally("send", queue, "x")
    process = tally.start("work", "--queue", queue, "--", command)
    wait_until((script.out / "times").exists, what="the first try")
    wait_until(lambda: len((script.out / "times").read_text().split()) == 2, what="the second try")
    process.stop()
    first, second = map(float, (script.out / "times").read_text().split())
    assert 1.9 <= second - first < 2.9 * PATIENCE


def test_groups_are_worked_off_in_order_and_the_command_is_told_its_place(tally, script):
    tally("queue", "create", "line.fifo", "ContentBasedDeduplication=true")
    for number in range(10):
        for group in ["a", "b", "c"]:
            tally("send", "line.fifo", f"{group}{number}", "--group", group)
    command = script(
        'read body; [ "$TALLY_RECEIVE_COUNT" -ge 2 ] || [ "$body" != b4 ] || exit 1\n'
        'echo "$body $TALLY_SEQUENCE_NUMBER $TALLY_FENCING_TOKEN" >> "$OUT/$TALLY_GROUP_ID"'
    )
    tally("work", "--queue", "line.fifo", "--concurrency", "4", "--until-empty", "--", command)
    for group in ["a", "b", "c"]:
        lines = [line.split() for line in (script.out / group).read_text().splitlines()]
        assert [body for body, _, _ in lines] == [f"{group}{number}" for number in range(10)]
        assert [number for _, number, _ in lines] == sorted(number for _, number, _ in lines)
        assert [int(token) for _, _, token in lines] == sorted(int(token) for _, _, token in lines)


def test_a_message_of_an_at_most_once_queue_is_run_once_and_nothing_is_said_of_its_lease(tally, script):
    tally("queue", "create", "once", "Tally.DeliveryMode=at-most-once")
    tally("send", "once", "x")
    tally("send", "once", "y")
    command = script('cat >> "$OUT/runs"; sleep 2; [ "$TALLY_FENCING_TOKEN" = 1 ]')
    done = tally("work", "--queue", "once", "--until-empty", "--visibility", "1", "--", command)
    assert (script.out / "runs").read_text() == "xy"
    assert len(done.err.splitlines()) == 1 and "exit status 1; its queue delivers at most once" in done.err


def test_what_a_command_leaves_running_may_go_on_writing_to_standard_error(tally, queue, script):
    command = script('{ sleep 1; echo late >&2; echo x > "$OUT/late"; } & echo now >&2')
    tally("send", queue, "x")
    process = tally.start("work", "--queue", queue, "--", command)
    wait_until(lambda: counts(tally) == (0, 0), what="the end of the command")
    wait_until(lambda: (script.out / "late").exists(), what="its child's end")
    assert process.stop().err == "now\nlate\n"


def start_with_errors(tally, errors, *words):
    process = subprocess.Popen(tally.command("work", *words), stderr=errors, env=tally.environment)
    tally.started.append(process)
    process.kill9 = process.kill
    return process


def test_what_a_command_leaves_running_and_always_writes_holds_no_worker_up(tally, queue, script):
    command = script('yes >&2 & echo "$TALLY_RECEIVE_COUNT" >> "$OUT/runs"; sleep 0.5; exit 1')
    tally("send", queue, "x")
    words = ["--queue", queue, "--until-empty", "--max-attempts", "2", "--retry-after", "0", "--", command]
    reading, writing = os.pipe()

    def read_slowly():
        while os.read(reading, 4096):
            time.sleep(0.005)
        os.close(reading)

    process = start_with_errors(tally, writing, *words)
    os.close(writing)
    threading.Thread(target=read_slowly, daemon=True).start()
    assert process.wait(20 * PATIENCE) == 0
    assert (script.out / "runs").read_text().split() == ["1", "2"]


@pytest.fixture
def unread():
    """A pipe that is full and that nobody reads: (its ends to read and to write)."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, b"." * 4096)
    os.set_blocking(writing, True)
    os.set_blocking(reading, False)
    yield reading, writing
    os.close(reading)
    os.close(writing)


def test_a_standard_error_that_nobody_reads_keeps_no_worker_from_its_work_and_its_stop(tally, queue, script, unread):
    """The first try fails, with a line of the command's and one of ours. The second one is in the midst of writing."""
    command = script(
        'echo "$TALLY_RECEIVE_COUNT $TALLY_ATTRIBUTE_Tally_FailureReason" >> "$OUT/runs"\n'
        'echo broken >&2; [ "$TALLY_RECEIVE_COUNT" = 1 ] || exec yes >&2; exit 1'
    )
    tally("send", queue, "x")
    process = start_with_errors(tally, unread[1], "--queue", queue, "--retry-after", "0", "--grace", "0", "--", command)
    runs = script.out / "runs"
    wait_until(lambda: runs.exists() and runs.read_text() == "1 \n2 exit status 1: broken\n", what="the second try")
    process.send_signal(signal.SIGTERM)
    assert process.wait(15 * PATIENCE) == 0


def test_what_standard_error_did_not_take_is_counted_there_when_it_is_read_again(tally, queue, script, unread):
    command = script('echo x >> "$OUT/runs"; seq 1000 >&2; exit 1')
    tally("send", queue, "x")
    process = start_with_errors(tally, unread[1], "--queue", queue, "--retry-after", "1", "--", command)
    runs = script.out / "runs"
    wait_until(lambda: runs.exists() and runs.read_text() == "x\nx\n", what="two tries")
    text = b""

    def has_been_told():
        nonlocal text
        with contextlib.suppress(BlockingIOError):
            text += os.read(unread[0], 65536)
        return re.search(rb"\ntally: (\d+) lines are missing here, because standard error was not read\n", text)

    assert int(wait_until(has_been_told, what="the line about them")[1]) >= 1000
    process.send_signal(signal.SIGTERM)
    assert process.wait(15 * PATIENCE) == 0


def test_retry_after_keeps_a_failed_message_back(tally, queue, script):
    command = script('date +%s.%N >> "$OUT/times"; [ "$TALLY_RECEIVE_COUNT" -ge 2 ]')
    tally("send", queue, "x")
    process = tally.start("work", "--queue", queue, "--retry-after", "2", "--", command)
    wait_until(lambda: (script.out / "times").exists() and len(times(script)) == 2, what="the second try")
    process.stop()
    first, second = times(script)
    assert 1.9 <= second - first < 2.9 * PATIENCE


def test_a_message_that_always_fails_goes_to_the_dead_letter_queue(tally, queue):
    tally("queue", "create", "dead")
    arn = tally.json("queue", "show", "dead")[0]["Attributes"]["QueueArn"]
    tally("queue", "set", queue, "RedrivePolicy=" + json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2}))
    tally("send", queue, "poison")
    tally("work", "--queue", queue, "--until-empty", "--", "false")
    assert tally("receive", "dead").out == "poison\n"


def test_a_message_that_always_fails_is_tried_later_each_time_and_then_given_up(tally, queue, script):
    """The queue says nothing of back-off, attempts or dead letters; the batch ends all the same."""
    tally("queue", "create", "done")
    tally("batch", "create", "night", "--on-complete", "done")
    tally("send", queue, "good", "--batch", "night")
    message_id = tally("send", queue, "bad", "--batch", "night").out.strip()
    tally("batch", "seal", "night")
    command = script('read body; [ "$body" = good ] || { date +%s.%N >> "$OUT/times"; echo broken >&2; exit 3; }')
    words = ["work", "--queue", queue, "--concurrency", "3", "--until-empty", "--max-attempts", "4", "--", command]
    done = tally(*words)
    waits = [later - earlier for earlier, later in zip(times(script), times(script)[1:])]
    assert len(waits) == 3, waits
    assert all(limit / 2 <= wait < 1.5 * limit + 5 * PATIENCE for wait, limit in zip(waits, [1, 2, 4])), waits
    told = [line for line in done.err.splitlines() if line.startswith("tally: ")]
    start = f"tally: message {message_id}: {command}: exit status 3: broken; attempt"
    for n, line in enumerate(told[:3], start=1):  # less or more by a fifth, and rounded
        found = re.fullmatch(re.escape(start) + rf" {n} of 4, next in (\d) s", line)
        assert found and abs(int(found[1]) - 2 ** (n - 1)) <= 2 ** (n - 1) / 5 + 0.5, line
    assert told[3:] == [f"{start} 4 was the last, it is dropped: its queue has no dead-letter queue"]
    completion = json.loads(tally("receive", "done").out)
    assert (completion["status"], completion["succeeded"], completion["failed"]) == ("failed", 1, 1)
    assert counts(tally) == (0, 0)
    explained = tally("explain", queue, message_id).out  # the reason was on standard error, and went with the message
    assert explained.startswith("state       ended\nwhy         It failed at ")
    reason = "Its reason is not kept: only a message that is still there, as in a dead-letter queue, has one."
    assert reason in explained
    (unit,) = tally.json("batch", "units", "night", "--state", "failed")
    assert (unit["MessageId"], unit["State"]) == (message_id, "failed") and "Detail" not in unit


def test_explain_says_how_often_a_message_came_back_why_and_when_it_is_tried_again(tally, queue, script):
    message_id = tally("send", queue, "x").out.strip()
    process = tally.start("work", "--queue", queue, "--", script("exit 7"))

    def explained():
        return tally("explain", queue, message_id).out

    words = "It was returned 3 times, last failure: exit status 7, next attempt in 4 s."
    wait_until(lambda: words in explained(), what="the third failure")
    process.stop()
    (why,) = tally.json("explain", queue, message_id)[0]["Why"]
    assert (why["Code"], why["Count"], why["Reason"]) == ("BackOff", 3, "exit status 7")
    wait_until(lambda: explained().startswith("state       ready"), what="the end of the back-off")
    assert "why         It was returned 3 times, last failure: exit status 7.\n" in explained()
    assert tally("receive", queue).out == "x\n"
    assert "It was returned 3 times, last failure: exit status 7.\n" in explained()  # and who has it now


def test_what_is_given_up_goes_where_dead_letter_says_and_back_again(tally, queue):
    tally("queue", "create", "dead")
    message_id = tally("send", queue, "poison").out.strip()
    words = ["--max-attempts", "2", "--dead-letter", "dead", "--", "false"]
    done = tally("work", "--queue", queue, "--until-empty", *words)
    assert done.err.endswith("attempt 2 was the last, it is in queue dead now\n")
    told = tally("explain", queue, message_id).out
    assert (
        "It was returned 2 times, last failure: exit status 1; it was dead-lettered and is in queue dead now." in told)
    tally("queue", "redrive", "dead")  # though no RedrivePolicy names it
    wait_until(lambda: counts(tally) == (1, 0), what="the redrive")
    refused = tally("work", "--queue", queue, "--dead-letter", "nowhere", "--", "false", status=1)
    assert "QueueDoesNotExist" in refused.err


def test_a_dead_letter_queue_that_can_not_be_one_is_refused_at_once(tally, queue):
    tally("queue", "create", "dead.fifo")
    tally("send", queue, "x")
    url = f"http://localhost/000000000000/{queue}/"
    for dead, words in ((queue, "another queue"), (url, "another queue"), ("dead.fifo", "one type")):
        refused = tally("work", "--queue", queue, "--dead-letter", dead, "--max-attempts", "1", "--until-empty", "--",
                        "false", status=2)
        assert words in refused.err
    assert counts(tally) == (1, 0)


def test_until_empty_waits_for_a_failed_message_that_could_not_be_given_up(tally, queue, script):
    """Its dead-letter queue has gone meanwhile: it comes again when its visibility timeout is over."""
    tally("queue", "create", "dead")
    command = script(f'[ "$TALLY_RECEIVE_COUNT" -ge 2 ] || {{ {BIN}/tally queue delete dead; exit 1; }}')
    tally("send", queue, "x")
    done = tally("work", "--queue", queue, "--visibility", "2", "--dead-letter", "dead", "--max-attempts", "1",
                 "--until-empty", "--", command)  # fmt: skip
    assert "did not take this failure" in done.err
    assert counts(tally) == (0, 0)


def test_a_dead_letter_is_not_given_up_for_the_attempts_it_had_elsewhere(tally, queue):
    tally("queue", "create", "dead")
    tally("send", queue, "poison")
    words = ["--until-empty", "--retry-after", "0", "--dead-letter", "dead", "--", "false"]
    done = tally("work", "--queue", queue, *words)  # of 25 attempts none is left
    assert done.err.endswith("attempt 25 was the last, it is in queue dead now\n")
    process = tally.start("work", "--queue", "dead", "--", "false")
    shown = lambda: tally.json("queue", "show", "dead")[0]["Attributes"]["ApproximateNumberOfMessagesDelayed"]
    wait_until(lambda: shown() == "1", what="its back-off")
    assert "attempt 26, next in " in process.stop().err


def test_a_queues_own_back_off_and_attempts_hold_where_they_are_stricter(tally):
    tally("queue", "create", "own", "--dead-letter", "dead", "--max-attempts", "2", "--backoff", "3..3")
    tally("send", "own", "x")
    done = tally("work", "--queue", "own", "--until-empty", "--", "false")
    assert "attempt 1 of 2, next in 3 s\n" in done.err
    assert done.err.endswith("attempt 2 was the last, it is in queue dead now\n")


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_a_failure_whose_lease_was_over_is_one_line(tally, quiet):
    """The command loses its message to another receive, and then fails: the server refuses the older handle."""
    tally("queue", "create", "line.fifo")
    message_id = tally("send", "line.fifo", "x", "--group", "g", "--deduplication-id", "1").out.strip()
    lose = shlex.join(tally.command("call", "ChangeMessageVisibility", "-"))
    request = '{"QueueUrl": "line.fifo", "ReceiptHandle": "%s", "VisibilityTimeout": 0}'
    take = shlex.join(tally.command("receive", "line.fifo"))
    command = (
        f"printf '{request}' \"$TALLY_RECEIPT_HANDLE\" | {lose} >/dev/null || exit 9; "
        f'[ "$({take})" = x ] || exit 8; echo broken >&2; exit 3'
    )
    done = tally("work", "--queue", "line.fifo", "--until-empty", *quiet, "--", "sh", "-c", command)
    told = [line for line in done.err.splitlines() if message_id in line]
    assert len(told) == 1, done.err
    start = f"tally: message {message_id}: sh: exit status 3: broken; it comes back in at most 30 s, "
    assert told[0].startswith(start + "because the server did not take this failure: The input receipt handle "), told


def test_heartbeats_keep_a_long_run_from_being_delivered_again(tally, queue, script):
    """Visibility 2 s, the command takes 5 s: without heartbeats it would come back twice (T45)."""
    command = script('echo "$TALLY_RECEIVE_COUNT" >> "$OUT/runs"; sleep 5; echo end >> "$OUT/runs"')
    tally("send", queue, "x")
    process = tally.start("work", "--queue", queue, "--concurrency", "2", "--visibility", "2", "--", command)
    wait_until(lambda: (script.out / "runs").exists(), what="the start")
    start = time.monotonic()
    while time.monotonic() < start + 4:
        assert tally("receive", queue).out == ""
        time.sleep(0.3)
    wait_until(lambda: counts(tally) == (0, 0), what="the end")
    process.stop()
    assert (script.out / "runs").read_text().split() == ["1", "end"]


def test_a_worker_that_was_stopped_for_longer_than_its_lease_leaves_what_others_have_since(
        daemon, tally, queue, script):
    """Its handle is an older one then: neither heartbeats nor its end touch the lease of whoever has the message
    since."""
    command = script('echo x > "$OUT/runs"; exec sleep 600')
    tally("send", queue, "x")
    process = tally.start("work", "--queue", queue, "--visibility", "2", "--grace", "0", "--", command)
    wait_until((script.out / "runs").exists, what="the command's start")
    process.send_signal(signal.SIGSTOP)
    tally("receive", queue, "--wait", "20", "--visibility", "600")
    process.send_signal(signal.SIGCONT)
    time.sleep(1)  # a heartbeat is due
    done = process.stop()
    assert counts(tally) == (0, 1)
    assert "its heartbeat failed, so another worker may get it too: it came too late" in done.err
    assert "was ended, because we stop; the message is left alone, because our lease was over" in done.err
    assert "given back" not in done.err
    assert b"tally_stale_receipts_total 0" in daemon.request("GET", "/metrics")[2]


def test_a_time_limit_ends_a_command_that_hangs(tally, queue, script):
    command = script('echo x >> "$OUT/tries"; [ "$TALLY_RECEIVE_COUNT" -ge 2 ] || exec sleep 1000')
    tally("send", queue, "x")
    done = tally("work", "--queue", queue, "--until-empty", "--time-limit", "1", "--", command)
    assert "ran longer than 1 s" in done.err
    assert (script.out / "tries").read_text().split() == ["x"] * 2


def test_sigterm_lets_a_running_command_finish(tally, queue, script):
    command = script('echo begin > "$OUT/log"; sleep 2; echo end >> "$OUT/log"')
    tally("send", queue, "x")
    tally("send", queue, "y", "--delay", "1")
    process = tally.start("work", "--queue", queue, "--", command)
    wait_until(lambda: (script.out / "log").exists(), what="the start")
    assert process.stop().err.splitlines() == [
        "tally: stopping: 1 command still runs and may finish within 20 s (--grace); a second signal ends it"
    ]
    assert (script.out / "log").read_text().split() == ["begin", "end"]
    wait_until(lambda: counts(tally) == (1, 0), what="the other message, not taken")


def test_sigterm_gives_back_what_does_not_finish_within_the_grace(tally, queue, script):
    command = script('echo $$ > "$OUT/pid"; exec sleep 1000')
    tally("send", queue, "x")
    process = tally.start("work", "--queue", queue, "--visibility", "600", "--grace", "0", "--", command)
    wait_until(lambda: (script.out / "pid").exists() and (script.out / "pid").read_text(), what="the start")
    assert process.stop().err.endswith(" was ended, because we stop; the message is given back\n")
    assert tally("receive", queue).out == "x\n"  # at once, not after 600 s
    assert not os.path.exists(f"/proc/{(script.out / 'pid').read_text().strip()}")


@pytest.fixture
def hang(daemon):
    """Lets the server hang: connections stay open, and nothing is answered."""
    yield lambda: os.kill(daemon.pid, signal.SIGSTOP)
    os.kill(daemon.pid, signal.SIGCONT)


def is_running(script):
    return os.path.exists(f"/proc/{(script.out / 'pid').read_text().strip()}")


def test_a_server_that_hangs_keeps_no_worker_from_its_stop(tally, queue, script, hang):
    """Not when a heartbeat waits for its reply, and not when what is to be given back does."""
    command = script('echo $$ > "$OUT/$TALLY_QUEUE"; exec sleep 1000')
    tally("queue", "create", "calm")
    workers = []
    for name, visibility in [(queue, "2"), ("calm", "600")]:
        tally("send", name, "x")
        workers.append(
            tally.start("work", "--queue", name, "--visibility", visibility, "--grace", "1", "--", command)
        )
        wait_until(lambda path=script.out / name: path.exists() and path.read_text(), what="the command's start")
    hang()
    time.sleep(1)  # a heartbeat is due
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    for worker in workers:
        worker.finish(seconds=20)
    told = "it could not be given back, so it comes back in at most 600 s: the server did not answer in time"
    assert told in workers[1].err
    for path in script.out.iterdir():
        assert not os.path.exists(f"/proc/{path.read_text().strip()}")


def test_a_server_that_hangs_keeps_no_command_from_its_time_limit(tally, queue, script, hang):
    command = script('echo $$ > "$OUT/pid"; exec sleep 1000')
    tally("send", queue, "x")
    tally.start("work", "--queue", queue, "--visibility", "2", "--time-limit", "3", "--", command)
    wait_until(lambda: (script.out / "pid").exists() and (script.out / "pid").read_text(), what="the start")
    hang()
    wait_until(lambda: not is_running(script), what="the command's end")


def test_a_heartbeat_without_a_reply_is_given_up_while_another_one_may_help(tally, queue, script, http_proxy):
    """The next one has a connection of its own: what hangs may be the old one alone."""
    tally("send", queue, "x")
    http_proxy.keep("AmazonSQS.ChangeMessageVisibility")
    worker = ["work", "--endpoint", http_proxy.endpoint, "--queue", queue, "--visibility", "6"]
    done = tally(*worker, "--until-empty", "--", script("exec sleep 9"))
    assert len(http_proxy.bodies_of("AmazonSQS.ChangeMessageVisibility")) >= 2
    assert done.err.count("its heartbeat failed") == 1 and "the server did not answer in time" in done.err
    assert counts(tally) == (0, 0)


def test_until_empty_waits_for_a_message_whose_receive_had_no_answer(tally, queue, script, http_proxy):
    """Only while something is in flight: an empty queue ends the worker although an answer was lost."""
    worker = ["work", "--endpoint", http_proxy.endpoint, "--queue", queue, "--visibility", "4", "--until-empty", "--",
              script('cat >> "$OUT/done"')]
    tally("send", queue, "x")
    http_proxy.lost["AmazonSQS.ReceiveMessage"] = 1
    tally(*worker)
    assert (script.out / "done").read_text() == "x" and counts(tally) == (0, 0)
    http_proxy.lost["AmazonSQS.ReceiveMessage"] = 1
    began = time.monotonic()
    tally(*worker)
    assert time.monotonic() - began < 3.5 * PATIENCE


@pytest.mark.parametrize("action, name, said", [
    ("ReceiveMessage", "an empty body", "HTTP 200, and not as a queue server does: no text"),
    ("ReceiveMessage", "JSON of somebody else", 'HTTP 200, and not as a queue server does: {"status":"ok"}'),
    ("ReceiveMessage", "a page", "HTTP 200, and not as a queue server does: <html><head><title>Bad Gateway</title>"),
    ("ReceiveMessage", "a page of 404", "HTTP 404, and not as a queue server does: <html><head><title>Bad Gateway"),
    ("ReceiveMessage", "half a body that says it is whole", "something that is no JSON object"),
    ("DeleteMessage", "an empty body", "HTTP 200, and not as a queue server does: no text"),
])
def test_an_answer_of_somebody_else_is_a_server_that_is_away(tally, queue, http_proxy, action, name, said):
    """It neither empties the queue nor deletes the message that the server gave out meanwhile."""
    tally("send", queue, "m")
    http_proxy.spoil(BAD_ANSWERS[name].make, 1, f"AmazonSQS.{action}")
    done = tally("work", "--endpoint", http_proxy.endpoint, "--queue", queue, "--visibility", "3", "--until-empty",
                 "--", "cat")
    assert done.out == "m" and counts(tally) == (0, 0)
    assert f"{http_proxy.endpoint} answered AmazonSQS.{action} with {said}" in done.err
    assert "trying again until it works\n" in done.err and "the server answers again" in done.err


def test_until_empty_takes_a_lost_message_whose_lease_has_just_ended(tally, daemon, queue, http_proxy):
    tally("send", queue, "m")
    http_proxy.lose("AmazonSQS.ReceiveMessage")
    http_proxy.watch = hold_until_visible(daemon, queue)
    done = tally("work", "--endpoint", http_proxy.endpoint, "--queue", queue, "--visibility", "3", "--until-empty",
                 "--", "cat")
    assert done.out == "m" and counts(tally) == (0, 0)


@pytest.mark.parametrize("words", [[], ["--retry-after", "3"]])
def test_until_empty_waits_for_a_failed_message_whose_failure_got_no_answer(tally, http_proxy, words):
    """A FIFO queue refuses the repeat, because it has taken the failure."""
    tally("queue", "create", "work.fifo", 'Tally.Backoff={"min": 3, "max": 3}')
    tally("send", "work.fifo", "m", "--group", "g", "--deduplication-id", "m")
    http_proxy.lose("Tally.FailMessage")
    done = tally("work", "--endpoint", http_proxy.endpoint, "--queue", "work.fifo", "--visibility", "1",
                 "--until-empty", *words, "--", "sh", "-c", 'cat; [ "$TALLY_RECEIVE_COUNT" = 2 ]')
    assert done.out == "mm" and http_proxy.lost == {"Tally.FailMessage": 0}


@pytest.fixture
def guarded(daemon_factory, tmp_path):
    return Guarded(daemon_factory, tmp_path)


def keyed(guarded, secret="secret"):
    tool = Tally(guarded.endpoint)
    tool.environment |= {"AWS_ACCESS_KEY_ID": "FRONT", "AWS_SECRET_ACCESS_KEY": secret}
    return tool


@pytest.mark.parametrize("seconds, way", [(3600, "behind"), (-3600, "ahead of")])
def test_a_clock_that_is_off_is_told_and_ends_no_worker(guarded, seconds, way):
    tool = keyed(guarded)
    tool("queue", "create", "work")
    tool("send", "work", "m")
    guarded.set_clock(seconds)
    said = f"the clock here is 60 minutes {way} that of the server, which allows 15: set it right"
    assert tool("send", "work", "n", status=1).err == f"tally: InvalidSignatureException: {said}\n"
    worker = tool.start("work", "--queue", "work", "--until-empty", "--", "cat")
    assert worker.stderr.readline().decode() == f"tally: {said}; trying again until it works\n"
    guarded.set_clock(0)
    worker.finish()
    assert (worker.out, worker.err) == ("m", "tally: the server answers again\n")


def test_a_clock_that_is_off_by_nobody_knows_how_much(guarded):
    tool = keyed(guarded)
    tool("queue", "create", "work")
    guarded.set_clock(3600)
    with contextlib.closing(HttpProxy(guarded.daemon.port)) as proxy:
        proxy.spoil(undated, 1, "AmazonSQS.ReceiveMessage")
        worker = tool.start("work", "--endpoint", proxy.endpoint, "--queue", "work", "--", "cat")
        said = worker.stderr.readline().decode()
        assert re.fullmatch("tally: Signature expired: 20.*; trying again until it works\n", said)
        assert worker.stop().err == ""


def test_a_command_outlives_a_clock_that_is_off(guarded, script):
    tool = keyed(guarded)
    tool("queue", "create", "work")
    tool("send", "work", "m")
    worker = tool.start("work", "--queue", "work", "--until-empty", "--", script('touch "$OUT/a"; read -r x <"$OUT/b"'))
    os.mkfifo(script.out / "b")
    wait_until(lambda: (script.out / "a").exists(), what="the start")
    guarded.set_clock(3600)
    (script.out / "b").write_text("go on\n")
    assert "60 minutes behind" in worker.stderr.readline().decode()
    guarded.set_clock(0)
    assert worker.finish().err == "tally: the server answers again\n"
    assert counts(tool) == (0, 0)


@pytest.mark.parametrize("seconds", [0, 600])
def test_a_wrong_secret_ends_a_worker(guarded, seconds):
    keyed(guarded)("queue", "create", "work")
    guarded.set_clock(seconds)
    assert "InvalidSignature" in keyed(guarded, "guess")("work", "--queue", "work", "--", "cat", status=1).err


def test_an_idle_worker_stops_at_once(tally, queue):
    process = tally.start("work", "--queue", queue, "--concurrency", "8", "--", "cat")
    time.sleep(0.5 * PATIENCE)
    start = time.monotonic()
    assert process.stop().err == ""
    assert time.monotonic() - start < 2 * PATIENCE


def test_a_killed_worker_takes_its_command_with_it_and_its_message_comes_back(tally, queue, script):
    """T42: free within the visibility timeout + 1 s."""
    command = script('echo $$ > "$OUT/pid"; exec sleep 1000')
    tally("send", queue, "x")
    process = tally.start("work", "--queue", queue, "--visibility", "3", "--", command)
    wait_until(lambda: (script.out / "pid").exists() and (script.out / "pid").read_text(), what="the start")
    pid = int((script.out / "pid").read_text())
    process.kill9()
    killed = time.monotonic()
    assert tally("receive", queue, "--wait", "10").out == "x\n"
    assert time.monotonic() - killed < 4 * PATIENCE
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), what="the end of the command")


def test_an_unknown_queue_ends_with_status_1(tally):
    assert "QueueDoesNotExist" in tally("work", "--queue", "nowhere", "--", "cat", status=1).err


def test_a_worker_outlives_a_restart_of_the_server(tally, queue, daemon, script):
    command = script('sleep 2; echo x >> "$OUT/runs"')
    tally("send", queue, "x")
    process = tally.start("work", "--queue", queue, "--", command)
    wait_until(lambda: counts(tally) == (0, 1), what="the receive")
    daemon.kill9()
    time.sleep(3)
    daemon.start()
    wait_until(lambda: counts(tally) == (0, 0), seconds=40, what="the delete")
    tally("send", queue, "y")
    wait_until(lambda: (script.out / "runs").read_text().split() == ["x", "x"], what="the next message")
    process.stop()


def test_many_workers_share_a_queue_without_running_anything_twice(tally, queue, script):
    tally("send", queue, "-", "--lines", stdin="".join(f"{n}\n" for n in range(200)))
    command = script('read number; echo "$number" >> "$OUT/$PPID"')
    words = ["work", "--queue", queue, "--concurrency", "3", "--until-empty", "--", command]
    for process in [tally.start(*words) for _ in range(3)]:
        process.finish()
    lines = [line for path in script.out.iterdir() for line in path.read_text().split()]
    assert sorted(lines, key=int) == [str(n) for n in range(200)]


def test_a_worker_inside_of_another_tells_its_command_of_its_own_message_only(tally, queue, daemon):
    message_id = tally("send", queue, "x", "--attribute", "size=3").out.strip()
    tally.environment |= {
        "TALLY_ENDPOINT": "http://127.0.0.1:1",
        "TALLY_MESSAGE_ID": "outer",
        "TALLY_ATTRIBUTE_colour": "outer",
    }
    command = ["work", "--endpoint", daemon.endpoint, "--queue", queue, "--until-empty", "--", "cat",
               "/proc/self/environ"]
    told = [variable for variable in tally(*command).out.split("\0") if variable.startswith("TALLY_")]
    assert f"TALLY_MESSAGE_ID={message_id}" in told and f"TALLY_ENDPOINT={daemon.endpoint}" in told
    assert "TALLY_ATTRIBUTE_size=3" in told
    assert len({variable.split("=")[0] for variable in told}) == len(told)
    assert not [variable for variable in told if "outer" in variable]


HARD_BODIES = ['say "hi"', "back\\slash", "line\nline", "$HOME `id` 'quote'", "{}", "tab\tand ä ☃", "-"]


def test_commit_deletes_and_sends_in_one_step_whatever_the_body_is(tally, queue, script):
    tally("queue", "create", "out")
    for body in HARD_BODIES:
        tally("send", "--", queue, body) if body != "-" else tally("send", queue, "-", stdin="-")
    script.out.mkdir(exist_ok=True)
    done = tally("work", "--queue", queue, "--until-empty", "--", *commit_command(), seconds=60)
    assert len(done.out.split()) == len(HARD_BODIES) and done.err == ""
    assert counts(tally) == (0, 0)
    assert sorted(message["Body"] for message in tally.json("receive", "out", "--max", "10")) == sorted(
        "paid: " + body for body in HARD_BODIES
    )


def commit_command():
    return ["sh", "-c", f'"{BIN}/tally" commit out "paid: $(cat)"']


def test_a_commit_that_comes_too_late_does_nothing(tally, queue):
    tally("queue", "create", "out")
    tally("send", queue, "x")
    old = tally.json("receive", queue, "--visibility", "0")[0]["ReceiptHandle"]
    new = tally.json("receive", queue)[0]["ReceiptHandle"]
    words = ["commit", "--queue", queue, "--receipt-handle"]
    assert "ReceiptHandleIsInvalid" in tally(*words, old, "out", "a", status=1).err
    assert tally("receive", "out").out == ""
    sent = tally.json(*words, new, "out", "a", "out", "-", stdin="from standard input")
    assert len(sent) == 2
    assert tally("receive", "out", "--max", "10").out == "a\nfrom standard input\n"
    assert counts(tally) == (0, 0)
