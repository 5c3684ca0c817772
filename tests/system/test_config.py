"""The configuration of tallyd: flags, variables, file, defaults, and what it says when one of them is wrong."""

import os
import pathlib
import re
import signal
import subprocess
import threading

import pytest
from conftest import BIN, PATIENCE, ROOT, SMALL_SEGMENTS, WRAPPER, clean_environment, free_port, wait_until


def run(*arguments, **variables):
    done = subprocess.run(
        [*WRAPPER, BIN / "tallyd", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=20 * PATIENCE,
        env=clean_environment(**variables),
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def in_force(*arguments, **variables):
    """What --print-config says: {key: (value, where it comes from)}."""
    status, out, err = run(*arguments, "--print-config", **variables)
    assert status == 0, err
    rows = [re.fullmatch(r"(\S+)\s+= (.*?)\s+; (.*)", line) for line in out.splitlines()]
    return {row[1]: (row[2], row[3]) for row in rows}


def test_a_flag_beats_a_variable_and_that_the_file_and_that_the_default(tmp_path):
    file = tmp_path / "tally.conf"
    file.write_text("# a comment\nbody-max = 1MiB\nheader-max=2KiB\nidle-timeout = 10s ; ten\n")
    config = in_force("--config", file, "--body-max", "3MiB", TALLY_BODY_MAX="2MiB", TALLY_HEADER_MAX="4KiB")
    assert config["body-max"] == ("3MiB", "from --body-max")
    assert config["header-max"] == ("4KiB", "from TALLY_HEADER_MAX")
    assert config["idle-timeout"] == ("10s", f"from {file}:4")
    assert config["region"] == ("us-east-1", "default")
    assert in_force(TALLY_CONFIG=str(file))["body-max"] == ("1MiB", f"from {file}:2")


def test_what_it_prints_is_a_file_that_it_reads(tmp_path):
    file = tmp_path / "printed.conf"
    file.write_text(run("--region", "eu-west-1", "--purge-interval", "--print-config")[1])
    config = in_force("--config", file)
    assert config["region"][0] == "eu-west-1" and config["purge-interval"][0] == "on"


def test_every_key_is_a_flag_and_a_variable_and_in_the_help():
    keys = in_force()
    status, text, _ = run("--help")
    assert status == 0
    for key, (value, _) in keys.items():
        assert f"  --{key} " in text
        if value:
            assert in_force(f"--{key}={value}")[key] == (value, f"from --{key}")
            variable = "TALLY_" + key.upper().replace("-", "_")
            assert in_force(**{variable: value})[key] == (value, f"from {variable}")


def test_an_empty_variable_is_none():
    assert in_force(TALLY_BODY_MAX="")["body-max"] == ("8MiB", "default")


def test_version_is_one_line():
    status, out, _ = run("--version")
    assert status == 0 and re.fullmatch(r"tallyd \d+\.\d+\.\d+\n", out)


WRONG = [
    (["--body-max", "12x"], ["body-max", "12x", "8MiB"]),
    (["--body-max", "1"], ["body-max", "1", "1KiB", "1GiB"]),
    (["--body-max", "99999999999999999999"], ["body-max"]),
    (["--body-max", "18446744073709551615GiB"], ["body-max"]),
    (["--idle-timeout", "-5"], ["idle-timeout", "-5", "30s"]),
    (["--connections-max", "0"], ["connections-max", "0", "1000000"]),
    (["--memory-max", "101%"], ["memory-max", "101%", "4GiB", "50%", "off"]),
    (["--memory-max", "much"], ["memory-max", "much"]),
    (["--reply-memory-max", "much"], ["reply-memory-max", "much", "256MiB", "auto"]),
    (["--input-memory-max", "1KiB"], ["input-memory-max", "1KiB", "1MiB", "1024GiB"]),
    (["--purge-interval", "perhaps"], ["purge-interval", "perhaps", "on or off"]),
    (["--body-max"], ["--body-max", "value"]),
    (["--no-such-thing", "1"], ["--no-such-thing", "--help"]),
    (["stray"], ["stray", "--help"]),
    (["--listen", "9324"], ["listen", "9324", "127.0.0.1:9324"]),
    (["--listen", "127.0.0.1:99999"], ["listen", "99999", "65535"]),
    (["--listen", "example.com:1"], ["listen", "example.com:1"]),
    (["--listen", "0.0.0.0:9324"], ["listen", "0.0.0.0:9324", "credentials", "127.0.0.1"]),
    (["--listen", "[::]:9324"], ["credentials", "127.0.0.1"]),
    (["--listen", "192.0.2.1:9324"], ["credentials", "127.0.0.1"]),
    (["--init"], ["--init", "--log postgres://"]),
    (["--log", "tape"], ["log", "tape", "file"]),
    (["--public-url", "example.com"], ["public-url", "example.com", "https://"]),
    (["--public-url", "https://example.com/"], ["public-url", "closing slash"]),
    (["--public-url", "https://user@example.com"], ["public-url", "scheme and host"]),
    (["--public-url", "https://b\u00fccher.example"], ["public-url", "scheme and host"]),
    (["--allow-host", "tally:9324"], ["allow-host (from --allow-host)", '"tally:9324"', "without scheme and port"]),
    (["--allow-host", "a,http://tally"], ["allow-host", '"http://tally"', "without scheme and port"]),
    (["--allow-host", "*.example.com"], ["allow-host", '"*.example.com"']),
    (["--allow-host", "[::1]:80"], ["allow-host", '"[::1]:80"']),
    (["--allow-host", ",".join(["a"] * 65)], ["allow-host", "too many names", "64"]),
    (["--region", "Mars 1"], ["region", "Mars 1", "us-east-1"]),
    (["--segment-size", "16MiB"], ["segment-size", "16MiB", "body-max", "8MiB"]),
    (["--config", "/no/such/file"], ["/no/such/file", "No such file"]),
]


@pytest.mark.parametrize("arguments, words", WRONG, ids=lambda value: " ".join(value)[:40])
def test_a_wrong_flag_is_refused_with_what_to_do(arguments, words, tmp_path):
    status, out, err = run(*arguments, "--data", tmp_path / "data")
    assert status == 2
    assert out == ""
    assert err.startswith("tallyd: ") and err.count("\n") == 1
    for word in words:
        assert word in err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "content, words",
    [
        ("region = eu-west-1\nbody-max = huge\n", [":2:", "body-max", "huge"]),
        ("no-such-key = 1\n", [":1:", "no-such-key", "--help"]),
        ("region\n", [":1:", "key = value"]),
        ("[section]\nregion = eu-west-1\n", [":2:", "[section]"]),
        ("region = a\nregion = b\n", [":2:", "region", "twice"]),
        ("region = " + "a" * 3000 + "\n", [":1:", "longer"]),
    ],
)
def test_a_wrong_line_of_the_file_is_named(tmp_path, content, words):
    file = tmp_path / "wrong.conf"
    file.write_text(content)
    status, _, err = run("--config", file)
    assert status == 2
    assert err.startswith(f"tallyd: {file}") and err.count("\n") == 1
    for word in words:
        assert word in err


def test_a_file_that_would_never_end_is_refused_and_what_a_shell_opened_is_read(tmp_path):
    file = tmp_path / "tallyd.conf"
    for put in (os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")):
        put(file)
        for more in ([], ["--check-config"], ["--print-config"]):
            status, out, err = run("--config", file, *more)
            assert status == (1 if more == ["--check-config"] else 2), (status, out, err)
            assert f"the configuration file {file}: it is no ordinary file." in out + err
        file.rename(tmp_path / str(len(list(tmp_path.iterdir()))))
    line = f"exec {BIN / 'tallyd'} --print-config --config "
    for words in (line + "<(echo region = eu-west-1)", f"echo region = eu-west-1 | {line}/dev/stdin"):
        done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, timeout=20 * PATIENCE,
                              env=clean_environment(), check=False)
        assert done.returncode == 0 and "eu-west-1" in done.stdout, done
    assert in_force("--config", "/dev/null")["region"][1] == "default"


# --- What is wrong, all of it -----------------------------------------------------------------------------------------


def check(*arguments, **variables):
    status, out, err = run("--check-config", *arguments, **variables)
    return status, out + err


def test_check_config_says_all_that_is_wrong_with_key_and_line(tmp_path):
    file = tmp_path / "wrong.conf"
    file.write_text("""# a comment
body-max = huge
no-such-key = 1
ui = perhaps
region
credentials = /no/credentials
metrics-access = all
log-format = plain
log-format = json
""")
    status, said = check("--config", file, "--idle-timeout", "soon", "stray", TALLY_HEADER_MAX="1")
    assert status == 1
    for words in [
        ["idle-timeout (from --idle-timeout)", "soon"],
        ['"stray"'],
        ["header-max (from TALLY_HEADER_MAX)", "1KiB"],
        [f"{file}:2: body-max", "huge"],
        [f"{file}:3: ", "no-such-key"],
        [f"ui (from {file}:4)", "perhaps"],
        [f"{file}:5: ", "key = value"],
        [f"credentials (from {file}:6)", "/no/credentials", "No such file"],
        [f"metrics-access (from {file}:7)", "all"],
        [f"{file}:9: log-format is set twice"],
    ]:
        assert any(all(word in line for word in words) for line in said.splitlines()), (words, said)
    assert len(said.splitlines()) == 10 and not (tmp_path / "tally-data").exists()


def test_check_config_reads_what_the_keys_name(tmp_path):
    listed = tmp_path / "credentials"
    listed.write_text("KEY secret\n")
    listed.chmod(0o600)
    status, said = check("--credentials", listed, "--data", tmp_path / "data")
    assert status == 1 and "credentials (from --credentials)" in said and str(listed) in said
    listed.write_text("KEY secret 000000000000 read\n")
    assert check("--credentials", listed, "--data", tmp_path / "data") == (
        0, "tallyd: nothing is wrong with the configuration.\n")
    status, said = check("--tls-listen", "127.0.0.1:0", "--tls-certificate", listed)
    assert status == 1 and "tls-certificate (from --tls-certificate)" in said
    status, said = check("--data", listed)
    assert status == 1 and "data (from --data)" in said
    status, said = check("--cluster-secret", "/dev/zero", "--advertise", "127.0.0.1:1", "--log", "postgres://x@h/d")
    assert status == 1 and "cluster-secret: can't read /dev/zero: it is no ordinary file." in said, said
    assert check("--config", tmp_path / "none")[0] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["credentials"]


# --- SIGHUP -----------------------------------------------------------------------------------------------------------

# Another value than its default for each key that a daemon can be started with and that names no file.
OTHERS = {
    "listen": "127.0.0.1:1",
    "data": "elsewhere",
    "archive": "elsewhere/archive",
    "log-replicas": "1",
    "lease": "4s",
    "rest-after": "1h",
    "insecure-any-address": "on",
    "node": "another",
    "region": "eu-west-1",
    "public-url": "http://queues.example",
    "allow-host": "queues.example",
    "ui": "off",
    "segment-size": "48MiB",
    "snapshot-bytes": "1GiB",
    "snapshot-growth": "3",
    "connections-max": "77",
    "body-max": "1MiB",
    "header-max": "32KiB",
    "idle-timeout": "74s",
    "request-timeout": "31s",
    "reply-timeout": "32s",
    "stop-timeout": "6s",
    "in-flight-max": "7",
    "memory-max": "77MiB",
    "disk-min-free": "off",
    "input-memory-max": "64MiB",
    "reply-memory-max": "64MiB",
    "metrics-queues": "orders*",
    "metrics-access": "loopback",
    "ui-history": "off",
    "slow-request": "123ms",
    "purge-interval": "on",
    "delete-interval": "on",
}
OF_FILES = {"tls-listen", "tls-certificate", "tls-key", "socket", "credentials", "log", "advertise", "cluster-secret",
            "cluster-listen", "cluster-certificate", "cluster-key", "cluster-ca", "cluster-insecure", "log-format",
            "temporary-data", "exit-with-stdin"}


def documented():
    """{key: what makes another value take effect}, as docs/configuration.md says."""
    lines = (ROOT / "docs" / "configuration.md").read_text().splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| `")]
    return {row[0].strip("`"): row[-1] for row in rows}


def test_SIGHUP_takes_the_keys_that_the_documents_say(daemon_factory, tmp_path):
    file = tmp_path / "tallyd.conf"
    file.write_text("")
    daemon = daemon_factory("--config", str(file)).start()
    keys = documented()
    assert set(keys) == set(OTHERS) | OF_FILES
    given = {"listen", "data"}  # by flags, which still count
    file.write_text("".join(f"{key} = {value}\n" for key, value in OTHERS.items()))
    os.kill(daemon.pid, signal.SIGHUP)
    said = wait_until(lambda: "needs a restart" in daemon.error_text() and daemon.error_text(), what="the reload")
    taken, left = (re.search(words + r": (.*)", said)[1].split(", ") for words in ["values are in force", "a restart"])
    assert set(taken) == {key for key in OTHERS if keys[key] == "SIGHUP"}
    assert set(left) == {key for key in OTHERS if keys[key] == "restart"} - given

    # What they mean is in force, and shown.
    assert daemon.request("GET", "/ui/")[0] == 404
    assert "tally_memory_limit_bytes %d" % (77 << 20) in daemon.request("GET", "/metrics")[2].decode()
    settings = daemon.call("Tally.DescribeServer")[1]["Config"]
    values = {row["Name"]: row["Value"] for row in settings}
    assert {key: values[key] for key in taken} == {key: OTHERS[key] for key in taken}
    assert values["region"] == "us-east-1"


def test_a_configuration_that_is_wrong_changes_nothing(daemon_factory, tmp_path):
    file = tmp_path / "tallyd.conf"
    file.write_text("")
    daemon = daemon_factory("--config", str(file), "--slow-request", "1s").start()
    for text in ["ui = off\nmemory-max = much\n", "ui = nothing\n", "connections-max = 1000000\n"]:
        file.write_text(text)
        count = daemon.error_text().count("the configuration in force stays")
        os.kill(daemon.pid, signal.SIGHUP)
        wait_until(lambda: daemon.error_text().count("the configuration in force stays") > count, what="the refusal")
    file.unlink()
    os.mkfifo(file)  # which would never end
    os.kill(daemon.pid, signal.SIGHUP)
    wait_until(lambda: "only a start reads it" in daemon.error_text(), what="the refusal")
    assert daemon.request("GET", "/ui/")[0] == 200


# --- Starting ---------------------------------------------------------------------------------------------------------


def test_the_ready_line_says_where_and_what(daemon):
    assert re.fullmatch(
        rf"tallyd ready on {daemon.endpoint} data={re.escape(str(daemon.data))} queues=0 messages=0\n",
        daemon.ready_line
    )
    url = daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})[1]["QueueUrl"]
    for _ in range(3):
        daemon.call("AmazonSQS.SendMessage", {"QueueUrl": url, "MessageBody": "a"})
    daemon.restart()
    assert daemon.ready_line.endswith("queues=1 messages=3\n")


def test_port_0_is_a_free_one_and_the_ready_line_says_which(tmp_path):
    process = subprocess.Popen(
        [*WRAPPER, BIN / "tallyd", "--listen", "[::1]:0", "--data", tmp_path / "data"],
        stdout=subprocess.PIPE,
        env=clean_environment(),
    )
    port = int(re.match(rb"tallyd ready on http://\[::1\]:(\d+) ", process.stdout.readline())[1])
    assert port > 0
    process.send_signal(signal.SIGINT)
    assert process.wait(20 * PATIENCE) == 0
    process.stdout.close()


def test_a_port_that_is_taken_is_named(daemon, tmp_path):
    status, out, err = run("--listen", f"127.0.0.1:{daemon.port}", "--data", tmp_path / "other")
    assert (status, out) == (1, "")
    assert err.count("\n") == 1 and str(daemon.port) in err and "in use" in err


def test_a_folder_that_another_daemon_owns_is_named(daemon):
    status, out, err = run("--listen", "127.0.0.1:0", "--data", daemon.data)
    assert (status, out) == (1, "")
    assert err.startswith("tallyd: ") and err.count("\n") == 1 and str(daemon.data) in err
    assert daemon.call("AmazonSQS.ListQueues")[0] == 200


def test_a_data_folder_that_may_not_be_written_is_said_to_be_just_that(tmp_path):
    """Also where the folder of the namespaces is missing, and not only one in it."""
    tmp_path.chmod(0o555)
    nobody = {"user": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    if nobody and not all(folder.stat().st_mode & 0o001 for folder in BIN.parents):
        pytest.skip("nobody but root can start the daemon here")
    done = subprocess.run(
        [*WRAPPER, BIN / "tallyd", "--listen", "127.0.0.1:0", "--data", "data"],
        capture_output=True,
        text=True,
        timeout=20 * PATIENCE,
        cwd=tmp_path,
        env=clean_environment(),
        check=False,
        **nobody,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "tallyd: creating data for data/000000000000 failed: Permission denied.\n"


def test_a_data_folder_that_can_t_be_made_is_named(tmp_path):
    file = tmp_path / "file"
    file.write_text("in the way")
    status, out, err = run("--listen", "127.0.0.1:0", "--data", file / "data")
    assert (status, out) == (1, "")
    assert err.count("\n") == 1 and str(file / "data") in err


def test_a_damaged_log_is_refused_with_file_offset_and_advice(daemon):
    url = daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})[1]["QueueUrl"]
    for i in range(20):
        daemon.call("AmazonSQS.SendMessage", {"QueueUrl": url, "MessageBody": f"body number {i}"})
    assert daemon.stop() == 0
    damaged = None
    for path in (daemon.data / "000000000000").iterdir():
        content = path.read_bytes() if path.stat().st_size < 1 << 27 else b""
        place = content.find(b"body number 3")
        if place >= 0:
            with open(path, "r+b") as file:
                file.seek(place)
                file.write(b"B")
            damaged = path
    assert damaged is not None
    status, out, err = run("--listen", "127.0.0.1:0", "--data", daemon.data)
    assert (status, out) == (1, "")
    assert err.count("\n") == 1 and damaged.name in err and "offset" in err


def test_the_limit_of_open_files_is_raised(daemon_factory):
    hard = subprocess.run(["sh", "-c", "ulimit -Hn"], capture_output=True, text=True, check=True).stdout.strip()
    if hard != "unlimited" and int(hard) < 4096:
        pytest.skip("the limit of this machine is too low; test_descriptors.py has what happens then")
    daemon = daemon_factory("--connections-max", "2000")
    daemon.prefix = ["sh", "-c", 'ulimit -S -n 256; exec "$@"', "sh"]
    daemon.start()
    with open(f"/proc/{daemon.pid}/limits") as limits:
        line = next(line for line in limits if line.startswith("Max open files"))
    assert int(line.split()[3]) >= 4096
    assert daemon.error_text() == ""
    assert daemon.stop() == 0


def test_two_signals_end_it_at_once(daemon):
    os.kill(daemon.pid, signal.SIGTERM)
    os.kill(daemon.pid, signal.SIGINT)
    wait_until(lambda: daemon.process.poll() is not None, what="the end")
    assert daemon.process.poll() == 0
    daemon.kill9()


def test_it_says_that_it_stops_and_what_it_waits_for(daemon_factory):
    daemon = daemon_factory().start()
    url = daemon.call("AmazonSQS.CreateQueue", {"QueueName": "q"})[1]["QueueUrl"]
    receive = ("AmazonSQS.ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": 20})
    waiting = threading.Thread(target=daemon.call, args=receive)
    waiting.start()
    wait_until(lambda: b"\ntally_http_connections 2\n" in daemon.request("GET", "/metrics")[2], what="the receive")
    os.kill(daemon.pid, signal.SIGTERM)
    said = daemon.process.stdout.readline().decode()
    assert re.fullmatch(
        r"tallyd stopping: SIGTERM; waits for .* on (1 connection|2 connections) and in 0 relays.*\n", said)
    waiting.join()
    assert daemon.process.wait(20 * PATIENCE) == 0
    assert daemon.process.stdout.read() == b""
    daemon.kill9()


def test_a_folder_too_small_for_the_body_limit_is_refused(daemon_factory):
    """A folder keeps the segment size it was made with: a larger body-max would not fit its frames."""
    small = daemon_factory("--segment-size", "8M", "--body-max", "64K")
    small.start()
    small.stop()
    status, _, errors = run("--listen", "127.0.0.1:0", "--data", small.data)
    assert status == 1
    assert "lower body-max" in errors and str(small.data) in errors


def test_a_daemon_without_standard_streams_opens_nothing_in_their_place(tmp_path):
    """A file of the log that became standard output would get the ready line."""
    port = free_port()
    command = [*WRAPPER, BIN / "tallyd", "--listen", f"127.0.0.1:{port}", "--data", tmp_path / "data", *SMALL_SEGMENTS]
    process = subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command], env=clean_environment())
    try:
        wait_until(lambda: b":%04X " % port in pathlib.Path("/proc/net/tcp").read_bytes(), what="the listener")
        if not WRAPPER:
            assert {os.readlink(f"/proc/{process.pid}/fd/{number}") for number in range(3)} == {"/dev/null"}
    finally:
        process.terminate()
        assert process.wait(20 * PATIENCE) == 0
