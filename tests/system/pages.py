"""Pages whose commands are typed as they stand, and whose output is compared.

What stands behind the three backticks says what a block is:

    console          typed into one terminal from the top of a page to its end: "$ " begins a command, "> " goes on with
                     it, any other line is what the command prints. "…" is any text of a line, and alone any lines. An
                     id is any id, a time any time. A command that fails is followed by "$ echo $?".
    console go       the same, where the test says that `go` is there; else it is passed over
    console server   in a terminal of its own: it has printed what is shown, and goes on until the page ends
    python work.py   a file of that name, in any language, written before the next block
    sh               commands that are not typed here; `elsewhere` names the test that does
    text, json, csharp, java, sql   to be read
"""

import contextlib
import os
import re
import selectors
import signal
import subprocess
import time

from conftest import BIN, PATIENCE, clean_environment, free_port, wait_until

END = "@@ status "
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
TIME = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d"
PUBLIC = "127.0.0.1:9324"
PUBLIC_OTHER = ":9325"
PUBLIC_RECEIVER = "127.0.0.1:8080"
TO_READ = ("text", "json", "csharp", "java", "sql")


def blocks_of(text):
    """(what stands behind the backticks, content) of each block of a page."""
    return re.findall(r"^```(.*)\n((?:.*\n)*?)```$", text, re.MULTILINE)


def commands_of(block):
    """(command, what it prints) of a block of a console."""
    commands = []
    for line in block.splitlines():
        if line.startswith("$ "):
            commands.append([line[2:], []])
        elif line.startswith("> ") and not commands[-1][1]:
            commands[-1][0] += "\n" + line[2:]
        else:
            commands[-1][1].append(line)
    return [(command, "\n".join(lines)) for command, lines in commands]


def is_shown(shown, printed):
    """Does the page show what was printed?"""
    stands_for = [(r"\n…(?![^\n])", r"(?:\n.*)*?"), ("…", ".*"), (UUID, UUID), (TIME, TIME)]
    parts = re.split("(" + "|".join(written for written, _ in stands_for) + ")", "\n" + shown)
    for at, part in enumerate(parts):
        parts[at] = re.escape(part) if at % 2 == 0 else next(
            meant for written, meant in stands_for if re.fullmatch(written, part))
    return re.fullmatch("".join(parts), "\n" + printed.rstrip("\n")) is not None


class Terminal:
    """A shell in which commands are typed one after the other."""

    LOOP = f"""while IFS= read -r -d '' typed <&3; do
        eval "(exit ${{status:-0}})
        $typed" </dev/null
        status=$?
        printf '\\n{END}%d\\n' $status
    done"""

    def __init__(self, folder, environment):
        reads, self.writes = os.pipe()
        self.process = subprocess.Popen(["bash", "-c", f"exec 3<&{reads}\n{self.LOOP}"], cwd=folder, env=environment,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        pass_fds=[reads], start_new_session=True)
        os.close(reads)

    def type(self, command, seconds=60):
        """What it printed, and its exit status."""
        os.write(self.writes, command.encode() + b"\0")
        said, deadline = b"", time.monotonic() + seconds * PATIENCE
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not (end := re.search(rf"\n{END}(\d+)\n".encode(), said)):
                assert selector.select(deadline - time.monotonic()), f"{command}: no end, only {said.decode()}"
                more = os.read(self.process.stdout.fileno(), 65536)
                assert more, f"{command}: the shell ended: {said.decode()}"
                said += more
        return said[: end.start()].decode(), int(end[1])

    def close(self):
        os.close(self.writes)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


class Page:
    """Types a page in a folder of its own. Where the page says 127.0.0.1:9324, it is `address`; without one, the page
    starts tallyd itself, and the address is in a file of the page or not said at all. The ports 9325, which pages have
    for HTTPS or a second server, and 8080, for one of their own, are free ones."""

    def __init__(self, path, folder, address=None, **environment):
        self.path = path
        self.folder = folder
        self.address = address or f"127.0.0.1:{free_port()}"
        if address is None and "--config" not in path.read_text():
            environment |= {"TALLY_LISTEN": self.address, "TALLY_SEGMENT_SIZE": "37MiB"}
        self.environment = clean_environment(
            TALLY_ENDPOINT=f"http://{self.address}", PATH=f"{BIN}:/usr/bin:{os.environ['PATH']}",
            PYTHONDONTWRITEBYTECODE="1", AWS_CONFIG_FILE="/dev/null", **environment)
        self.places = [(PUBLIC, self.address), (PUBLIC_OTHER, f":{free_port()}"),
                       (PUBLIC_RECEIVER, f"127.0.0.1:{free_port()}")]
        self.servers = []

    def here(self, text):
        """What the page says, with the addresses of this test."""
        for public, mine in self.places:
            text = text.replace(public, mine)
        return text

    def public(self, text):
        for public, mine in self.places:
            text = text.replace(mine, public)
        return text

    def __enter__(self):
        self.terminal = Terminal(self.folder, self.environment)
        return self

    def __exit__(self, *_):
        self.terminal.close()
        for server in self.servers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()

    def type_all(self, elsewhere=(), toolchains=()):
        """`elsewhere`: commands of blocks of sh that another test runs. `toolchains`: which are there, such as go."""
        for kind, content in blocks_of(self.path.read_text()):
            language, _, name = kind.partition(" ")
            if kind == "console":
                self.type_block(content)
            elif kind == "console server":
                self.start(content)
            elif language == "console":
                if name in toolchains:
                    self.type_block(content)
            elif name:
                (self.folder / name).write_text(self.here(content))
            elif language == "sh":
                for command in content.splitlines():
                    assert command.split("  #")[0].strip() in elsewhere, f"{self.path.name}: no test types {command}"
            else:
                assert language in TO_READ, f"{self.path.name}: no test runs this block of {language}"

    def type_block(self, content):
        commands = commands_of(content)
        for at, (command, shown) in enumerate(commands):
            printed, status = self.terminal.type(self.here(command))
            printed = self.public(printed)
            assert is_shown(shown, printed), (
                f"{self.path.name}: $ {command}\n--- shown\n{shown}\n--- printed\n{printed}")
            is_to_fail = at + 1 < len(commands) and commands[at + 1][0] == "echo $?"
            assert is_to_fail or status == 0, f"{self.path.name}: $ {command}: status {status}\n{printed}"

    def start(self, content):
        ((command, shown),) = commands_of(content)
        log = self.folder / f"server{len(self.servers)}.log"
        with open(log, "wb") as said:
            self.servers.append(subprocess.Popen(["bash", "-c", self.here(command)], stdout=said, stderr=said,
                                                 cwd=self.folder, stdin=subprocess.DEVNULL, env=self.environment,
                                                 start_new_session=True))
        printed = lambda: self.public(log.read_text())  # noqa: E731
        try:
            wait_until(lambda: is_shown(shown, printed()), 60, f"$ {command}\n{shown}\n")
        except AssertionError as error:
            raise AssertionError(f"{self.path.name}: {error}\n--- printed\n{printed()}") from None
