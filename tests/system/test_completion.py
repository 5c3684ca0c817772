"""Completion of the tool's command lines in bash, zsh and fish: each script in its own shell, and what it asks for."""

import os
import pty
import re
import select
import shutil
import socket
import subprocess
import time

import pytest

from conftest import BIN, PATIENCE, Tally, clean_environment, free_port

BEGIN = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source <(tally completion bash)"),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -u -D; source <(tally completion zsh)"),
    "fish": (["fish", "--no-config", "--interactive"], "tally completion fish | source"),
}


@pytest.fixture
def named(daemon):
    """The tool, and a daemon that has a queue, a pool and batches."""
    tally = Tally(daemon.endpoint)
    for queue in ["orders", "orders-dead", "mails"]:
        tally("queue", "create", queue)
    for batch in ["night:42", "$(touch", "-rf"]:
        tally("call", "Tally.CreateBatch", '{"BatchId": "%s"}' % batch)
    tally("pool", "create", "duel", "--result", "mails", "--rules", "-", stdin='{"attrs": {"a": "str"}, "rules": []}')
    return tally


def words(tally, *line, status=0):
    """What fits at the last word."""
    return [row.split("\t")[0] for row in tally("__complete", *line, status=status).out.splitlines()]


def test_names_are_the_servers(named):
    assert words(named, "queue", "show", "") == ["mails", "orders", "orders-dead"]
    assert words(named, "send", "ord") == ["orders", "orders-dead"]
    assert words(named, "export", "mails", "ord") == ["orders", "orders-dead"]
    assert words(named, "work", "--queue=ord") == ["--queue=orders", "--queue=orders-dead"]
    assert words(named, "pool", "show", "d") == ["duel"]
    assert words(named, "pool", "show", "x") == []


def test_a_name_that_a_shell_would_read_otherwise_is_left_out(named):
    assert words(named, "batch", "show", "") == ["night:42"]


def test_where_files_fit_the_exit_status_says_so(named):
    assert words(named, "pool", "create", "x", "--rules", "", status=1) == []
    assert words(named, "import", "", status=1) == words(named, "apply", "", status=1) == []


def test_nobody_who_answers_is_no_error():
    done = Tally(f"http://127.0.0.1:{free_port()}")("__complete", "queue", "show", "")
    assert (done.out, done.err) == ("", "")
    assert Tally("nonsense://")("__complete", "queue", "show", "").err == ""


def test_a_server_that_says_nothing_is_given_300_ms():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        tally = Tally(f"http://127.0.0.1:{silent.getsockname()[1]}")
        begun = time.monotonic()
        done = tally("__complete", "queue", "show", "")
        assert (done.out, done.err) == ("", "")
        assert 0.2 < time.monotonic() - begun < 1 * PATIENCE


def test_another_shell_is_refused(named):
    assert 'not for "tcsh"' in named("completion", "tcsh", status=2).err


@pytest.mark.parametrize("shell", BEGIN)
def test_a_script_is_one_to_its_shell(shell, named, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    script = tmp_path / "script"
    script.write_text(named("completion", shell).out)
    check = {"fish": "--no-execute"}.get(shell, "-n")
    subprocess.run([shell, check, script], check=True, capture_output=True, timeout=20 * PATIENCE)


class Terminal:
    """A shell in which somebody types."""

    def __init__(self, command, environment, folder):
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, environment)
        self.shown = ""

    def type(self, text, wanted):
        """Types, and waits until it shows what is wanted."""
        self.shown = ""
        os.write(self.descriptor, text.encode())
        deadline = time.monotonic() + 20 * PATIENCE
        while not re.search(wanted, self.shown):
            assert time.monotonic() < deadline, f"{wanted!r} was not shown: {self.shown!r}"
            if select.select([self.descriptor], [], [], 0.1)[0]:
                self.shown += os.read(self.descriptor, 65536).decode(errors="replace")

    def close(self):
        os.close(self.descriptor)
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


@pytest.mark.parametrize("shell", BEGIN)
def test_a_shell_completes_commands_names_and_files(shell, named, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    command, begin = BEGIN[shell]
    (tmp_path / "rules-of-a-pool.json").write_text("{}")
    environment = {
        **clean_environment(**named.environment),
        "PATH": f"{BIN.resolve()}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TERM": "xterm",
        "PS1": "$ ",
    }
    terminal = Terminal(command, environment, tmp_path)
    try:
        terminal.type(f"{begin}; echo rea''dy\r", "ready")
        terminal.type("tally queue sho\t", "show")
        terminal.type("mai\t", "ls")
        terminal.type("\r", "VisibilityTimeout")
        terminal.type("tally batch show nig\t\r", "exact")
        terminal.type("tally pool create x --rules rules-of\t\r", "rules-of-a-pool.json|Invalid")
    finally:
        terminal.close()
