"""`tally run`: a command for each file or line as one batch; killed anywhere and run again."""

import contextlib
import hashlib
import json
import os
import pty
import random
import re
import signal
import stat
import subprocess
import time

import pytest

from conftest import PATIENCE, wait_until


@pytest.fixture
def folder(tmp_path):
    """40 files in two folders; names with blanks, percent signs and more."""
    folder = tmp_path / "photos"
    (folder / "sub folder").mkdir(parents=True)
    for n in range(30):
        (folder / f"{n:02}.txt").write_text(f"content {n}")
    for name in ["a b", "100%", "%41", "ä", '"quoted"', "back\\slash", "new\nline", "{}", "-dash", "*"]:
        (folder / "sub folder" / name).write_text(name)
    return folder


@pytest.fixture
def script(tmp_path):
    """Makes a shell script; $LOG in it is a file."""

    def make(text):
        path = tmp_path / "script"
        path.write_text(f"#!/bin/sh\nLOG={tmp_path}/log\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IEXEC)
        return path

    make.log = tmp_path / "log"
    return make


def files_of(folder):
    return [os.path.join(path, name) for path, _, names in os.walk(folder) for name in names]


def last_json(done):
    return json.loads(done.out.splitlines()[-1])


def test_every_file_is_one_unit_and_the_completion_comes_last(tally, folder):
    done = tally("run", folder, "--workers", "4", "--", "sha256sum", "-z", "--", "{}")
    *sums, completion = done.out.replace("\0", "\n\0").rsplit("\0", 1)
    completion = json.loads(completion)
    found = dict(reversed(entry.strip("\0\n").split("  ", 1)) for entry in sums[0].split("\n\0"))
    expected = {path: hashlib.sha256(open(path, "rb").read()).hexdigest() for path in files_of(folder)}
    assert {path: found.get(path.strip("\n")) for path in expected} == expected
    assert completion["status"] == "succeeded"
    assert (completion["total"], completion["succeeded"], completion["failed"]) == (40, 40, 0)
    assert completion["completedAt"] >= completion["createdAt"]
    assert "40 of 40" in done.err
    shown = tally.json("batch", "show", completion["batch"])[0]
    assert shown["Succeeded"] == 40
    assert shown["CompletionMessageId"] in done.err
    assert tally("queue", "list").out == ""  # it cleans up after itself


def test_the_same_command_again_runs_nothing_and_prints_the_same_result(tally, folder, script):
    command = script('echo "$1" >> "$LOG"')
    first = tally("run", folder, "--", command)
    assert len(script.log.read_text().splitlines()) >= 40
    script.log.unlink()
    second = tally("run", folder, "--", command)
    assert not script.log.exists()
    assert last_json(second) == last_json(first)
    assert "complete before" in second.err
    again = tally("run", folder, "--again", "--", command)
    assert script.log.exists()
    assert last_json(again)["completedAt"] > last_json(first)["completedAt"]


def test_another_command_or_name_is_another_run(tally, folder):
    batches = {
        last_json(tally("run", folder, "--", "true"))["batch"],
        last_json(tally("run", folder, "--", "true", "x"))["batch"],
        last_json(tally("run", folder, "--name", "mine", "--", "true"))["batch"],
        last_json(tally("run", f"{folder}/../photos/", "--", "true"))["batch"],
    }
    assert len(batches) == 3
    assert "run-mine" in batches
    assert any(batch.startswith("run-photos-") for batch in batches)


def test_lines_of_standard_input_are_units_and_repeated_ones_too(tally):
    lines = ["one", "two words", "", "one", "one", " leading", "tab\there", "ümlaut", "one%*2"]
    done = tally("run", "-", "--workers", "3", "--", "printf", "<%s>\\n", stdin="\n".join(lines))
    *printed, completion = done.out.splitlines()
    assert sorted(printed) == sorted(f"<{line}>" for line in lines if line)
    assert json.loads(completion)["total"] == 8


def test_names_that_are_no_utf8_and_very_long_ones_arrive_unchanged(tally, tmp_path):
    folder = os.fsencode(tmp_path / "odd")
    deep = folder + b"/" + b"/".join([b"x" * 200] * 3)
    os.makedirs(deep)
    names = [folder + b"/\xff\xfe\x01", deep + b"/" + b"a" * 200, deep + b"/" + b"b" * 200]
    for name in names:
        open(name, "w").close()
    done = tally("run", tmp_path / "odd", "--", "printf", "%s\\0")
    *printed, completion = done.stdout.split(b"\0")
    assert sorted(printed) == sorted(names)
    assert json.loads(completion)["succeeded"] == 3


def test_braces_are_replaced_wherever_they_stand_and_appended_where_there_are_none(tally):
    assert tally("run", "-", "--", "echo", "a{}b{}", "-{}-", stdin="X").out.splitlines()[0] == "aXbX -X-"
    assert tally("run", "-", "--", "echo", "a", stdin="X").out.splitlines()[0] == "a X"


def test_an_empty_folder_completes_at_once(tally, tmp_path):
    (tmp_path / "empty").mkdir()
    assert last_json(tally("run", tmp_path / "empty", "--", "false"))["total"] == 0


def test_a_folder_that_is_none_is_refused(tally, tmp_path):
    assert "no-such" in tally("run", tmp_path / "no-such", "--", "true", status=5).err


def test_a_unit_that_fails_is_tried_again_and_then_failed_with_its_reason(tally, script):
    command = script('echo "$1" >> "$LOG"; echo "output of $1"; echo "error of $1" >&2; [ "$1" != bad ] || exit 7')
    done = tally("run", "-", "--name", "some", "--attempts", "2", "--retry-after", "0", "--", command,
                 stdin="good\nbad\n", status=4)  # fmt: skip
    assert sorted(script.log.read_text().split()) == ["bad", "bad", "good"]
    *output, completion = done.out.splitlines()
    assert output == ["output of good"]
    assert done.err.count("error of bad") == 2
    completion = json.loads(completion)
    assert (completion["status"], completion["succeeded"], completion["failed"]) == ("failed", 1, 1)
    failed = tally.json("batch", "units", "run-some", "--state", "failed")
    assert failed == [{"Unit": "bad", "State": "failed", "Detail": "exit status 7"}]
    again = tally("run", "-", "--name", "some", "--", command, stdin="good\nbad\n", status=4)
    assert last_json(again) == completion


def test_result_to_keeps_standard_output_for_the_commands(tally, tmp_path):
    done = tally("run", "-", "--result-to", tmp_path / "result", "--", "echo", stdin="x")
    assert done.out == "x\n"
    assert json.loads((tmp_path / "result").read_text())["status"] == "succeeded"


def test_quiet_and_json_say_nothing_on_standard_error(tally):
    assert tally("run", "-", "--quiet", "--name", "a", "--", "true", stdin="x").err == ""
    assert tally("run", "-", "--json", "--name", "b", "--", "true", stdin="x").err == ""


def test_output_of_a_command_is_not_mixed_with_that_of_others(tally, script):
    command = script('for i in 1 2 3 4 5 6 7 8 9; do echo "$1 $i"; sleep 0.01; done')
    done = tally("run", "-", "--workers", "8", "--", command, stdin="".join(f"{n}\n" for n in range(16)))
    lines = [line.split() for line in done.out.splitlines()[:-1]]
    for start in range(0, len(lines), 9):
        assert [number for _, number in lines[start : start + 9]] == list("123456789")
        assert len({unit for unit, _ in lines[start : start + 9]}) == 1


def on_a_terminal(tally, *words, stdin=b"", is_output_there=True):
    """Runs it with standard error, and perhaps its output, on a terminal; all that was written there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        tally.command(*words),
        stdin=subprocess.PIPE,
        stdout=theirs if is_output_there else subprocess.DEVNULL,
        stderr=theirs,
        env=tally.environment,
    )
    os.close(theirs)
    process.stdin.write(stdin)
    process.stdin.close()
    written = b""
    with contextlib.suppress(OSError):  # how Linux tells that nobody has the other end any more
        while some := os.read(ours, 65536):
            written += some
    os.close(ours)
    assert process.wait(60 * PATIENCE) == 0
    return written.decode()


BAR = "\r\x1b[K["


def test_the_bar_shows_while_commands_print(tally, script):
    command = script('sleep 0.03; echo "line $1"')
    lines = "".join(f"{n}\n" for n in range(60)).encode()
    written = on_a_terminal(tally, "run", "-", "--workers", "2", "--", command, stdin=lines)
    shown = written[written.index(BAR) :]
    assert shown.count("line ") > 40
    assert shown.count("line ") == len(re.findall(r"line \d+\r\n" + re.escape(BAR), shown))


def test_the_bar_stays_while_output_goes_elsewhere_and_takes_no_text_away(tally, script):
    lines = "".join(f"{n}\n" for n in range(60)).encode()
    command = script('sleep 0.03; echo "line $1"')
    written = on_a_terminal(tally, "run", "-", "--name", "a", "--", command, stdin=lines, is_output_there=False)
    shown = written[written.index(BAR) : written.rindex(BAR)]
    assert shown.count("\r\x1b[K") == shown.count(BAR)  # it is never only hidden
    command = script('sleep 0.03; printf "part $1" >&2')
    written = on_a_terminal(tally, "run", "-", "--name", "b", "--", command, stdin=lines)
    shown = written[written.index(BAR) :]
    assert shown.count("part ") == len(re.findall(r"part \d+\r\n" + re.escape(BAR), shown)) > 30


def test_sigterm_stops_with_status_143_and_the_same_command_goes_on(tally, script):
    command = script('echo "$1" >> "$LOG"; sleep 0.2')
    lines = [str(n) for n in range(30)]
    words = ["run", "-", "--workers", "2", "--", command]
    process = tally.start(*words, stdin="\n".join(lines))
    wait_until(lambda: script.log.exists() and len(script.log.read_text().split()) > 5, what="the first units")
    assert "goes on" in process.stop(128 + signal.SIGTERM).err
    done = tally(*words, stdin="\n".join(lines))
    assert last_json(done)["succeeded"] == 30
    assert "going on" in done.err
    # Stopped politely, nothing is run twice.
    assert sorted(script.log.read_text().split(), key=int) == lines


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_time_and_run_again_every_unit_runs_and_counts_once(tally, folder, script, seed):
    chance = random.Random(seed)
    command = script('echo "$1" >> "$LOG"; sleep 0.05')
    words = ["run", folder, "--workers", "4", "--visibility", "1", "--", command]
    kills = 0
    while kills < 8:
        process = tally.start(*words)
        try:
            process.communicate(timeout=chance.uniform(0.01, 0.4) * PATIENCE)
            break  # it got to its end
        except subprocess.TimeoutExpired:
            process.kill9()
            kills += 1
    done = tally(*words)
    completion = last_json(done)
    assert (completion["status"], completion["total"], completion["succeeded"]) == ("succeeded", 40, 40)
    ran = script.log.read_text()
    for path in files_of(folder):
        assert f"{path}\n" in ran
    assert last_json(tally(*words)) == completion
    assert tally("queue", "list").out == ""
    assert kills > 0


def test_killed_after_the_completion_message_was_sent_the_next_run_prints_it(tally, daemon):
    """The batch completes while nobody waits for it: the message is still there."""
    tally("queue", "create", "tally-run-late", "MessageRetentionPeriod=1209600")
    tally("queue", "create", "tally-run-late-done", "MessageRetentionPeriod=1209600")
    tally("batch", "create", "run-late", "--on-complete", "tally-run-late-done")
    tally("batch", "add", "run-late", "x")
    tally("batch", "seal", "run-late")
    tally("batch", "complete", "run-late", "x")
    done = tally("run", "-", "--name", "late", "--", "false", stdin="x")
    assert last_json(done)["batch"] == "run-late"
    assert tally("queue", "list").out == ""
    assert last_json(tally("run", "-", "--name", "late", "--", "false", stdin="x")) == last_json(done)


def test_messages_that_somebody_purged_are_sent_again(tally, script):
    """The ledger knows the units; a queue without their messages must not stop the run for ever."""
    tally("queue", "create", "tally-run-lost", "MessageRetentionPeriod=1209600")
    tally("queue", "create", "tally-run-lost-done", "MessageRetentionPeriod=1209600")
    tally("batch", "create", "run-lost", "--on-complete", "tally-run-lost-done")
    tally("batch", "add", "run-lost", "a", "b", "c")
    tally("batch", "seal", "run-lost")
    done = tally("run", "-", "--name", "lost", "--", "echo", stdin="a\nb\nc\n")
    assert sorted(done.out.splitlines()[:-1]) == ["a", "b", "c"]
    assert "sent again" in done.err
    assert last_json(done)["succeeded"] == 3


def test_a_work_queue_that_somebody_deleted_is_made_again(tally, script):
    command = script('echo "$1" >> "$LOG"; sleep 0.2')
    process = tally.start("run", "-", "--name", "gone", "--workers", "1", "--", command, stdin="a\nb\nc\nd\n")
    wait_until(lambda: script.log.exists(), what="the first unit")
    tally("queue", "delete", "tally-run-gone")
    done = process.finish()
    assert last_json(done)["succeeded"] == 4
    assert tally("queue", "list").out == ""


def test_units_that_are_new_since_the_seal_are_left_out_and_said_so(tally, tmp_path):
    folder = tmp_path / "growing"
    folder.mkdir()
    (folder / "a").touch()
    process = tally.start("run", folder, "--visibility", "1", "--grace", "0", "--", "sleep", "1000")
    batch = wait_until(lambda: tally.json("batch", "list", "--state", "sealed"), what="the seal")[0]["BatchId"]
    process.kill9()
    (folder / "b").touch()
    process = tally.start("run", folder, "--visibility", "1", "--grace", "0", "--", "sleep", "1000")
    assert b"1 units are new" in process.stderr.readline()
    process.kill9()
    assert tally.json("batch", "show", batch)[0]["Total"] == 1
    done = tally("run", folder, "--again", "--attempts", "1", "--time-limit", "1", "--", "sleep", "1000", status=4)
    assert last_json(done)["total"] == 2


def test_two_processes_share_one_run(tally, script):
    command = script('echo "$1" >> "$LOG"; sleep 0.05')
    lines = "".join(f"{n}\n" for n in range(60))
    words = ["run", "-", "--name", "shared", "--workers", "2", "--", command]
    processes = [tally.start(*words, stdin=lines) for _ in range(2)]
    results = [last_json(process.finish()) for process in processes]
    assert results[0] == results[1]
    assert results[0]["succeeded"] == 60
    assert set(script.log.read_text().split()) == {str(n) for n in range(60)}


def test_the_server_killed_and_restarted_in_the_middle_loses_and_doubles_nothing(tally, daemon, script):
    command = script('echo "$1" >> "$LOG"; sleep 0.1')
    lines = "".join(f"{n}\n" for n in range(80))
    process = tally.start("run", "-", "--workers", "4", "--", command, stdin=lines)
    for _ in range(3):
        before = len(script.log.read_text().split()) if script.log.exists() else 0
        wait_until(lambda: script.log.exists() and len(script.log.read_text().split()) > before + 5, what="progress")
        daemon.kill9()
        time.sleep(0.3)
        daemon.start()
    completion = last_json(process.finish())
    assert (completion["total"], completion["succeeded"]) == (80, 80)
    assert set(script.log.read_text().split()) == {str(n) for n in range(80)}


def test_output_that_nobody_reads_stops_the_run_and_counts_nothing_that_was_not_shown(tally):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            tally.command("run", "-", "--name", "full", "--", "echo"), input=b"a\nb\n", stdout=full,
            stderr=subprocess.PIPE, env=tally.environment, timeout=60 * PATIENCE,
        )  # fmt: skip
    assert done.returncode == 5
    assert b"standard output" in done.stderr
    assert tally.json("batch", "show", "run-full")[0]["Remaining"] == 2


@pytest.mark.parametrize("body", ["a\nb", "a\n" + "b" * 298])
def test_a_message_that_no_run_sent_is_deleted_and_does_no_harm(tally, body):
    tally("queue", "create", "tally-run-guests", "MessageRetentionPeriod=1209600")
    tally("send", "tally-run-guests", "-", stdin=body)
    done = tally("run", "-", "--name", "guests", "--workers", "1", "--", "echo", stdin="one\n")
    assert last_json(done)["total"] == last_json(done)["succeeded"] == 1
    assert done.out.splitlines()[0] == "one"
    assert "was not sent by a run" in done.err


def test_a_run_inside_of_a_run_tells_its_command_about_itself(tally):
    tally.environment |= {"TALLY_BATCH": "run-outer", "TALLY_UNIT": "outer"}
    done = tally("run", "-", "--name", "inner", "--", "cat", stdin="/proc/self/environ\n")
    variables = [variable for variable in done.out.split("\0") if variable.startswith(("TALLY_BATCH", "TALLY_UNIT"))]
    assert variables == ["TALLY_BATCH=run-inner", "TALLY_UNIT=/proc/self/environ"]
