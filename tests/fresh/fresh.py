#!/usr/bin/python3
"""The first hour of a newcomer on a machine that has nothing: for each distribution a minimal tree, in it a clone of
this repository, as it is committed, and the README's commands in the orders in which people type them.

    make fresh                        # as root; takes about 5 GB and half an hour for each tree
    make fresh FRESH=debian-12

In the first clone ./run comes first, then ./test; in the second ./test, then ./run, then `make install` and the
README's first block. Packages come from where this machine's apt has its own, with the same settings. A distribution
whose packages or keys can't be had is skipped by name.

Standard output: a line for each step. All that was said is in build/fresh/NAME.log. Exit status 0: nothing failed."""

import argparse
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "fresh"
SUITES = ["unit", "house"]  # of ./test: the first ones

# name: whose archive, which release of it, its components, the keys that vouch for it
TREES = {
    "debian-12": ("Debian", "bookworm", "main", "debian-archive-keyring"),
    "debian-13": ("Debian", "trixie", "main", "debian-archive-keyring"),
    "ubuntu-24.04": ("Ubuntu", "noble", "main,universe", "ubuntu-archive-keyring"),
}

# With the tree, then the command: mounts that end with it, and a daemon that was left behind is a failure.
ENTER = r"""
tree=$1; shift
mount --rbind /dev "$tree/dev" && mount --rbind /sys "$tree/sys" && mount -t proc proc "$tree/proc" || exit 98
trap : INT
chroot "$tree" "$@"
status=$?
if grep -lx tallyd "$tree"/proc/[0-9]*/comm 2>/dev/null; then echo "a daemon was left behind"; status=97; fi
exit $status
"""

CERTIFICATES = ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"]

README_BLOCK = """set -e
rm -rf /root/work && mkdir /root/work && cd /root/work
tallyd --listen 127.0.0.1:{port} --data ./data >tallyd.log 2>&1 &
daemon=$!
trap 'kill $daemon; wait $daemon' EXIT
export TALLY_ENDPOINT=http://127.0.0.1:{port}
for _ in $(seq 300); do grep -q '^tallyd ready' tallyd.log && break; sleep 0.1; done
libraries=$(pkg-config --cflags --libs libtally)
gcc /root/second/tests/fresh/json_owned.c -o json_owned $libraries
./json_owned
{block}"""


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


# --- Where packages come from -----------------------------------------------------------------------------------------


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def archive_of(distribution):
    """The address of its packages, as this machine's apt knows it; of another distribution the folder beside."""
    rows = output_of("apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)", "Created-By: Packages")
    own = {row[0]: row[2] for row in map(str.split, rows.splitlines()) if len(row) == 3 and row[0] == row[1]}
    if distribution in own:
        return own[distribution]
    for origin, address in own.items():
        beside = re.sub(rf"/{origin.lower()}/?$", f"/{distribution.lower()}/", address)
        if beside != address:
            return beside
    raise Skipped(f"this machine's apt has no source for {distribution}")


def apt_settings():
    """How this machine's apt fetches: proxies, time limits and the like; not what else it would fetch."""
    settings = output_of("apt-config", "dump", "--no-empty").splitlines()
    return "\n".join(line for line in settings if re.match(r"Acquire::(?!IndexTargets|Changelogs|cdrom)", line)) + "\n"


# --- A tree -----------------------------------------------------------------------------------------------------------


class Tree:
    def __init__(self, name, folder=FOLDER):
        self.name, self.folder = name, folder
        folder.mkdir(parents=True, exist_ok=True)
        self.root = folder / name
        self.log = open(folder / f"{name}.log", "w")
        self.environment = {
            "HOME": "/root",
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
        }
        self.environment |= {key: value for key, value in os.environ.items() if key.lower().endswith("_proxy")}

    def build(self, packages="git"):
        distribution, release, components, keys = TREES[self.name]
        keyring = pathlib.Path(f"/usr/share/keyrings/{keys}.gpg")
        if not keyring.exists():
            raise Skipped(f"this machine has no keys to check {distribution}'s packages with: {keyring}")
        address = archive_of(distribution)
        settings = self.folder / f"{self.name}.apt"
        settings.write_text(apt_settings())
        options = [f"--components={components}", f"--keyring={keyring}", f"--aptopt={settings}"]
        command = ["mmdebstrap", "--variant=minbase", f"--include={packages}", *options, release, self.root, address]
        status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT).returncode
        if status != 0:
            said = pathlib.Path(self.log.name).read_text()
            if "E: apt-get update" in said or "Failed to fetch" in said or "Unable to fetch" in said:
                raise Skipped(f"the packages of {release} can't be reached")
            raise Failed(f"mmdebstrap ended with status {status}")
        return f"{release}, {output_of('du', '-shx', self.root).split()[0]}"

    def carry_network(self):
        """What this machine needs to reach others: names, certificates, npm's registry."""
        for name in ["hosts", "resolv.conf"]:
            shutil.copy(f"/etc/{name}", self.root / "etc" / name)
        own = pathlib.Path("/usr/local/share/ca-certificates")
        if own.is_dir():
            shutil.copytree(own, self.root / own.relative_to("/"), dirs_exist_ok=True)
        for variable in CERTIFICATES:
            if variable in os.environ:
                shutil.copy(os.environ[variable], self.root / "etc" / "certificates-of-the-host.pem")
                self.environment[variable] = "/etc/certificates-of-the-host.pem"
        if shutil.which("npm"):
            self.environment["npm_config_registry"] = output_of("npm", "config", "get", "registry").strip()

    def clone(self, name):
        clone = self.root / "root" / name
        command = ["git", "clone", "-q", "--no-hardlinks", ROOT, clone]
        subprocess.run(command, stdout=self.log, stderr=subprocess.STDOUT, check=True)
        return output_of("git", "-C", clone, "log", "-1", "--format=%h %s")[:70].strip()

    def command(self, text):
        unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        return [*unshare, "sh", "-c", ENTER, "sh", str(self.root), "/bin/sh", "-c", text]

    def run(self, text, seconds):
        """What the command said; anything but status 0 is a failure."""
        print(f"\n=== {text}", file=self.log, flush=True)
        process = subprocess.Popen(
            self.command(text),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
            print(said, file=self.log, flush=True)
            raise Failed(f"not done after {seconds} s") from None
        print(said, file=self.log, flush=True)
        if process.returncode != 0:
            raise Failed(f"status {process.returncode}; {last_line(said)}")
        return said

    def remove(self):
        subprocess.run(["rm", "-rf", "--one-file-system", self.root], check=True)


def last_line(said):
    lines = said.strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing"


# --- The steps --------------------------------------------------------------------------------------------------------


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, command, environment, log):
        self.log = log
        self.said = ""
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            for number in [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE]:
                signal.signal(number, signal.SIG_DFL)  # what runs in the background ignores some, and hands that on
            os.execvpe(command[0], command, environment)

    def read_until(self, pattern, seconds, start=0):
        """The match of a pattern in what was said so far, or None at its end."""
        deadline = time.monotonic() + seconds
        while (found := re.compile(pattern, re.MULTILINE).search(self.said, start)) is None:
            if not select.select([self.descriptor], [], [], max(0, deadline - time.monotonic()))[0]:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise Failed(f"not done after {seconds} s; {last_line(self.said)}")
            try:
                text = os.read(self.descriptor, 65536).decode(errors="replace")
            except OSError:  # how Linux says that nobody has the terminal open any more
                text = ""
            if not text:
                return None
            self.said += text
            self.log.write(text)
            self.log.flush()
        return found

    def press_ctrl_c(self):
        os.write(self.descriptor, b"\x03")

    def end(self):
        self.read_until(r"(?!)", 60)
        os.close(self.descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def run_on_a_terminal(tree, clone):
    """./run, a request to what it serves, Ctrl-C."""
    text = f"cd /root/{clone} && exec ./run"
    print(f"\n=== {text} (on a terminal)", file=tree.log, flush=True)
    terminal = Terminal(tree.command(text), tree.environment, tree.log)
    found = terminal.read_until(r"Serving on (http://\S+), data in .* Ctrl-C ends it\.\S*\r\n", 1800)
    if found is None:
        raise Failed(f"it ended with status {terminal.end()}; {last_line(terminal.said)}")
    headers = {"X-Amz-Target": "AmazonSQS.CreateQueue", "Content-Type": "application/x-amz-json-1.0"}
    request = urllib.request.Request(found[1], data=b'{"QueueName": "orders"}', headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        url = json.load(answer)["QueueUrl"]
    before = len(terminal.said)
    terminal.press_ctrl_c()
    status = terminal.end()
    rest = terminal.said[before:].replace("^C", "").strip()
    if status != 0 or rest:
        raise Failed(f"Ctrl-C: status {status}, and it said {rest!r}")
    return f"served {url}; Ctrl-C ended it"


def run_without_a_terminal(tree, clone):
    said = tree.run(f"cd /root/{clone} && ./run", 1800)
    if '"status"' not in said or "Serving on" in said:
        raise Failed(f"no completion message, or it went on serving; {last_line(said)}")
    return "ended by itself"


def test(tree, clone):
    said = tree.run(f"cd /root/{clone} && ./test {' '.join(SUITES)}", 5400)
    for suite in SUITES:
        if not re.search(rf"^ok +{suite} +[1-9]\d* passed", said, re.MULTILINE):
            raise Failed(f"nothing passed in {suite}; {last_line(said)}")
    return last_line(said)


def install(tree, clone):
    """A line each: where it goes by itself, elsewhere, and into an image of the root."""
    commands = ["make install", "make install PREFIX=~/tally", "make install PREFIX= DESTDIR=image"]
    said = tree.run(f"cd /root/{clone} && {' && '.join(commands)}", 600).strip().splitlines()
    folders = [re.fullmatch(r"tallyd and tally are in (\S+), libtally beside them", line) for line in said]
    if [found and found[1] for found in folders] != ["/usr/local/bin", "/root/tally/bin", f"/root/{clone}/image/bin"]:
        raise Failed(f"it said {said}")
    return said[0]


def readme(tree, clone):
    page = (tree.root / "root" / clone / "README.md").read_text()
    block = "\n".join(re.findall(r"^\$ (.*)", re.search(r"```console\n(.*?)```", page, re.DOTALL)[1], re.MULTILINE))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    said = tree.run(README_BLOCK.format(port=port, block=block), 120)
    completions = re.findall(r'^\{"batch": ?"night-42", ?"status": ?"succeeded".*', said, re.MULTILINE)
    if len(completions) != 1:
        raise Failed(f"{len(completions)} completion messages, and at last: {last_line(said)}")
    return completions[0][:100]


STEPS = [
    ("a clone", lambda tree: tree.clone("first")),
    ("./run", lambda tree: run_on_a_terminal(tree, "first")),
    (f"./test {' '.join(SUITES)}", lambda tree: test(tree, "first")),
    ("a second clone", lambda tree: tree.clone("second")),
    (f"./test {' '.join(SUITES)}", lambda tree: test(tree, "second")),
    ("./run", lambda tree: run_without_a_terminal(tree, "second")),
    ("make install, with PREFIX=", lambda tree: install(tree, "second")),
    ("the README's first block", lambda tree: readme(tree, "second")),
]


def take(tree, what, action):
    """One step and its line; False if it failed."""
    began = time.monotonic()
    try:
        verdict, detail = "ok", action()
    except Failed as failure:
        verdict, detail = "FAILED", f"{failure} (all of it: {os.path.relpath(tree.log.name, ROOT)})"
    except (OSError, subprocess.CalledProcessError) as failure:
        verdict, detail = "FAILED", failure
    print(f"{tree.name:<13} {verdict:<7} {what:<26} {time.monotonic() - began:5.0f} s  {detail}", flush=True)
    return verdict == "ok"


def make_tree(tree):
    made = tree.build()
    tree.carry_network()
    return made


def try_tree(name):
    """How many of its steps failed; None: the tree was skipped."""
    tree = Tree(name)
    tree.remove()
    try:
        if not take(tree, "a minimal tree", lambda: make_tree(tree)):
            return 1
        return sum(not take(tree, what, lambda: action(tree)) for what, action in STEPS)
    except Skipped as reason:
        print(f"{name:<13} skipped: {reason}", flush=True)
        return None
    finally:
        tree.remove()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*", metavar="TREE", help=f"of {', '.join(TREES)}; else all")
    trees = parser.parse_args().trees or list(TREES)
    if unknown := [name for name in trees if name not in TREES]:
        parser.error(f"there is no tree {unknown[0]}; there are {', '.join(TREES)}")
    if os.geteuid() != 0:
        parser.error("making trees and entering them needs root")
    results = [try_tree(name) for name in trees]
    failed = sum(filter(None, results))
    good, skipped = results.count(0), results.count(None)
    print(f"{good} of {len(trees)} trees are good; skipped: {skipped}, failed steps: {failed}")
    sys.exit(failed > 0 or all(result is None for result in results))


if __name__ == "__main__":
    main()
