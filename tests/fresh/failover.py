#!/usr/bin/python3
"""docs/how-to/high-availability.md, typed word for word on machines that have nothing but packages, to a failover
without a lost message. Then docs/how-to/several-postgresql-servers.md and run-a-cluster.md.

    make failover                     # as root; takes about 3 GB and a quarter of an hour

Each block of commands is typed, a line at a time, on the machines that the paragraph before it names: "On **one**".
What stands in other blocks must appear there. Where the page says "Let it run", the next block is typed meanwhile.

Packages come from where this machine's apt has its own, without a proxy. What was fetched stays in build/fresh.

Standard output: the transcript, with the middle of long outputs left out. All that was said is in
build/fresh/failover/debian-12.log. Exit status 0: the page does what it says, and nothing that was acknowledged is lost
or comes twice."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import fresh
import machines
from fresh import ROOT, Failed

PAGES = [ROOT / "docs/how-to" / f"{name}.md"
         for name in ["high-availability", "several-postgresql-servers", "run-a-cluster"]]
FOLDER = fresh.FOLDER / "failover"
TREE = "debian-12"
SHOWN = 5  # lines of a long output: the first ones, and as many of the last ones
MESSAGES = 1000
KILLED_AFTER = 200  # messages
TAKEOVER_SECONDS = 3


# --- The page ---------------------------------------------------------------------------------------------------------


class Block:
    """Indented lines, with the paragraph before them."""

    def __init__(self, words, text):
        self.text = re.sub(r"^ {4}", "", text, flags=re.MULTILINE)
        self.names = re.findall(r"\*\*(\w+)\*\*", words)
        self.is_typed = re.search(r"\bon\s\*\*", words, re.IGNORECASE) is not None
        self.is_left_running = "Let it run" in words
        self.is_unit = "tallyd.service" in words


def blocks_of(page):
    """Those that are typed and those that must appear, with the machines that each is about."""
    names = []
    for words, text in re.findall(r"((?:^(?! {4}).+\n)+)\n((?:^ {4}.*\n|^\n(?= {4}))+)", page, re.MULTILINE):
        block = Block(words, text)
        names = block.names = block.names or names
        yield block


def addresses_of(page, blocks):
    addresses = dict(re.findall(r"\*\*(\w+)\*\*\s\((10[\d.]+)\)", page))
    lost = {name for block in blocks if block.is_typed for name in block.names} - set(addresses)
    require(not lost, f"the page says no address of {', '.join(sorted(lost))}")
    return addresses


def pattern_of(text):
    """What these lines of the page may look like elsewhere: at another time, with other counts, behind a prompt."""
    pattern = re.escape(text.rstrip("\n"))
    for changing in [r"\d+\\-\d+\\-\d+T\d+:\d+:\d+Z", r"(?<=messages=)\d+", r"(?<=epoch\\ )\d+",
                     r"\d+(?=\\ files?)", r"\d+(?=\\ bytes)", r"[\d.\\]+(?=\\ s$)"]:
        pattern = re.sub(changing, r"\\S+?", pattern)
    return r"(?:^|# )" + pattern.replace("\\\n", r"\r?\n") + r"\r?$"


# --- The machines -----------------------------------------------------------------------------------------------------


def make_tree():
    """A minimal tree, kept for the next time, whose machines let each other in by ssh; and a clone."""
    tree = fresh.Tree(TREE, FOLDER)
    if not (tree.root / "made").exists():
        tree.remove()
        tree.build("git,openssh-client,openssh-server")
        join_by_ssh(tree)
        (tree.root / "made").touch()
    write(tree.root / "etc/hosts", "127.0.0.1 localhost\n")
    write(tree.root / "etc/resolv.conf", "")
    address, port = machines.GATE
    way = f'"socks5h://{address}:{port}";\n'
    write(tree.root / "etc/apt/apt.conf.d/99way", f"Acquire::http::Proxy {way}Acquire::https::Proxy {way}")
    shutil.rmtree(tree.root / "root/tally", ignore_errors=True)
    tree.clone("tally")
    return tree


def write(path, text):
    path.unlink(missing_ok=True)
    path.write_text(text)


def join_by_ssh(tree):
    home, key = tree.root / "root/.ssh", "ssh_host_ed25519_key.pub"
    home.mkdir(mode=0o700)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "root", "-f", home / "id_ed25519"], check=True)
    shutil.copy(home / "id_ed25519.pub", home / "authorized_keys")
    write(home / "known_hosts", "* " + (tree.root / "etc/ssh" / key).read_text())


class Typist:
    """Types the page, and says what appeared."""

    def __init__(self, all_machines, log):
        self.shells = {name: machine.shell(log) for name, machine in all_machines.items()}
        self.typed = {}  # the newest line on each

    def show(self):
        for name, shell in self.shells.items():
            shell.read_what_is_there()
            shown = shell.show().strip("\n")
            if shown:
                print(f"\n--- on {name}\n{shortened(shown)}", flush=True)

    def type(self, block):
        for name in block.names:
            shell, lines = self.shells[name], block.text.splitlines()
            for number, line in enumerate(lines, 1):
                self.typed[name] = line
                shell.enter(line)
                if block.is_left_running and number == len(lines):
                    shell.wait_for_words(rf"{re.escape(line)}\r?$", 60)
                    break
                if shell.wait_for_prompt(1800):
                    self.show()
                    raise Failed(f"this failed on {name}: {line}")
            self.show()

    def await_words(self, block):
        """Who asks for the status at once may be too early, and asks again."""
        for name in block.names:
            shell, line = self.shells[name], self.typed.get(name, "")
            for _ in range(20 if line.startswith("tally cluster status") else 0):
                if re.search(pattern_of(block.text), shell.said[shell.start :], re.MULTILINE):
                    break
                time.sleep(0.5)
                shell.type(line, 60)
            shell.wait_for_words(pattern_of(block.text), 60)
        self.show()


def shortened(shown):
    outputs = []
    for line in shown.split("\n"):
        if not outputs or re.match(r"root@\w+:\S+# |> ", line):
            outputs.append([])
        outputs[-1].append(line)
    for output in outputs:
        if len(output) > 2 * SHOWN:
            output[SHOWN:-SHOWN] = [f"        … {len(output) - 2 * SHOWN} lines …"]
    return "\n".join(line for output in outputs for line in output)


# --- The failover -----------------------------------------------------------------------------------------------------


class Drill:
    """What the page does not show: how many were sent when, and how long nobody served."""

    def __init__(self, all_machines):
        self.machines, self.app = all_machines, all_machines["app"]
        self.killed_at = self.seconds = None
        self.sent_before = self.sent_at_takeover = 0

    def lines(self, name):
        return self.app.run(f"cat /root/{name} 2>/dev/null || true").splitlines()

    def wait_until_sent(self, count, what):
        deadline = time.monotonic() + 120
        while (sent := len(self.lines("sent"))) < count:
            if time.monotonic() > deadline:
                raise Failed(f"{sent} messages were sent {what}, not {count}")
            time.sleep(0.05)
        return sent

    def before(self, block):
        if "kill -9" in block.text:
            self.sent_before = self.wait_until_sent(KILLED_AFTER, "before the kill")
            self.killed_at = time.monotonic()

    def after_words(self, block):
        if self.killed_at is not None and self.seconds is None:
            self.seconds = time.monotonic() - self.killed_at
            self.sent_at_takeover = len(self.lines("sent"))
            self.wait_until_sent(self.sent_at_takeover + 50, "after the takeover")

    def judge(self):
        """A line for each promise that was kept."""
        sent, received = self.lines("sent"), self.lines("received")
        expected = sorted(f"job {number}" for number in range(1, MESSAGES + 1))
        lost, more = len(set(expected) - set(received)), len(received) - len(set(received))
        require(self.seconds is not None, "nobody was killed, or nobody took over")
        require(len(sent) == len(set(sent)) == MESSAGES, f"{len(sent)} of {MESSAGES} sends were acknowledged")
        require(self.sent_at_takeover < MESSAGES, "the kill came when all was sent")
        require(sorted(received) == expected, f"{lost} messages were lost, {more} came twice")
        require(self.seconds < TAKEOVER_SECONDS, f"the takeover took {self.seconds:.1f} s")
        states = {name: self.ask(name) for name in ["one", "two"]}
        require(states == {"one": "200", "two": "200"}, f"GET /ready says {states}")
        yield f"{MESSAGES} messages sent, {self.sent_before} of them when the owner was killed"
        yield f"{self.seconds:.2f} s later the other node served"
        yield f"{MESSAGES} messages received: none lost, none twice"
        yield "with certificates either node answers: GET /ready says 200 on both"

    def ask(self, name):
        request = r"GET /ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        script = f'exec 3<>/dev/tcp/{self.machines[name].address}/9324 && printf "{request}" >&3 && head -n 1 <&3'
        return self.app.run(f"bash -c '{script}'").split()[1]


def require(holds, otherwise):
    if not holds:
        raise Failed(otherwise)


def check_unit(block, commands, machine):
    """systemd knows all that stands in the unit, and it starts what the page types."""
    start = re.search(r"^ExecStart=/usr/local/bin/(.*)$", block.text, re.MULTILINE)[1]
    require(f"-- {start} &" in commands, f"the unit starts something else: {start}")
    machine.run("apt-get install -y --no-install-recommends systemd", 600)
    name = "/etc/systemd/system/tallyd.service"
    machine.run(f"cat >{name} <<'END'\n{block.text}END\n")
    said = machine.run(f"systemd-analyze verify {name} 2>&1")
    require("tallyd.service" not in said, said.strip())


def type_page(blocks, all_machines, log):
    typist, drill = Typist(all_machines, log), Drill(all_machines)
    for block in blocks:
        if block.is_typed:
            drill.before(block)
            typist.type(block)
        elif not block.is_unit:
            typist.await_words(block)
            drill.after_words(block)
    print("\n=== What came of it")
    yield from drill.judge()
    commands = "".join(block.text for block in blocks if block.is_typed)
    for block in blocks:
        if block.is_unit:
            check_unit(block, commands, all_machines["two"])
            yield "systemd finds nothing wrong with the unit"


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    if os.geteuid() != 0 or (reason := machines.can_be_made()):
        sys.exit(f"no machines can be made here: {reason if os.geteuid() == 0 else 'that needs root'}")
    page, failed, addresses = "\n".join(path.read_text() for path in PAGES), True, {}
    blocks = list(blocks_of(page))
    try:
        addresses = addresses_of(page, blocks)
        tree = make_tree()
        remove_machines(addresses)
        with machines.Machines(tree.root, addresses, FOLDER) as all_machines:
            for machine in all_machines.values():
                machine.run("mkdir -p /run/sshd && /usr/sbin/sshd")
            for line in type_page(blocks, all_machines, tree.log):
                print(f"ok      {line}", flush=True)
        failed = False
    except (Failed, fresh.Skipped, subprocess.SubprocessError, OSError) as failure:
        print(f"\nFAILED  {failure} (all of it: {os.path.relpath(FOLDER, ROOT)}/{TREE}.log)")
    finally:
        remove_machines(addresses)
    sys.exit(failed)


def remove_machines(names):
    for name in names:
        shutil.rmtree(FOLDER / name, ignore_errors=True)


if __name__ == "__main__":
    main()
