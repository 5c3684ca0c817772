"""Machines with nothing but packages: each has a root of its own over one minimal tree, a network namespace, processes
of its own and a host name. A switch joins them.

    with Machines(tree, {"one": "10.0.0.1", "two": "10.0.0.2"}) as machines:
        shell = machines["one"].shell()            # bash on a terminal, as root
        shell.type("hostname", seconds=10)         # waits for the next prompt: (exit status, what was said)
        machines["one"].run("hostname")            # without a terminal: what it said

Nothing of this machine's network is in them. Packages come through a small SOCKS server on the switch, at 10.0.0.254.
As root only. All of it ends with this program, however it ends."""

import concurrent.futures
import contextlib
import ctypes
import fcntl
import os
import pathlib
import re
import select
import socket
import struct
import subprocess
import termios
import threading

from fresh import Failed, Terminal

GATE = ("10.0.0.254", 1080)
ENVIRONMENT = {
    "HOME": "/root",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}

# With the name, the tree and the machine's folder. The process that it becomes has number 1. Children that nobody waits
# for are gone at once, because it ignores their ends.
BOOT = r"""
set -e
name=$1 tree=$2 folder=$3 root=$3/root
mkdir -p "$folder/upper" "$folder/work" "$root" "$folder/../packages"
mount -t overlay overlay -o "lowerdir=$tree,upperdir=$folder/upper,workdir=$folder/work" "$root"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount --bind "$folder/../packages" "$root/var/cache/apt/archives"
hostname "$name"
echo "$name" >"$root/etc/hostname"
ip link set lo up
trap '' CHLD
exec chroot "$root" sh -c 'echo up && exec sleep infinity'
"""

# Each prompt says invisibly that it is one, and how the command before it ended.
PROMPT = re.compile(r"\x1b\]p(\d+)\x07")
CONTINUED = re.compile(r"\x1b\]c\x07")


def can_be_made():
    """None, or why there can be no machines here."""
    command = ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "true"]
    done = subprocess.run(command, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip()


def start_in_namespaces(kinds, command):
    """The process that keeps them and the number of the one inside, once that has said "up"."""
    options = [f"--{kind}" for kind in kinds]
    unshare = ["setpriv", "--pdeathsig", "KILL", "unshare", *options, "--fork", "--kill-child"]
    keeper = subprocess.Popen([*unshare, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    if keeper.stdout.readline() != "up\n":
        raise Failed(f"no namespaces: {keeper.stderr.read().strip()}")
    children = pathlib.Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children").read_text().split()
    return keeper, int(children[0])


def ip(pid, words):
    subprocess.run(["nsenter", f"--target={pid}", "--net", "ip", *words.split()], check=True)


# --- The way to packages ----------------------------------------------------------------------------------------------


def listen_in(pid, address):
    """A socket that belongs to the network of that process. Its connections are accepted from here."""

    def listen():  # in a thread that ends, so that nobody else is moved into that network
        with open(f"/proc/{pid}/ns/net") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        return socket.create_server(address)

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(listen).result()


def read_exactly(connection, size):
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise OSError("closed")
        data += piece
    return data


def connect_as_asked(client):
    """SOCKS 5, as apt speaks it: no authentication, CONNECT to a name."""
    version, methods = read_exactly(client, 2)
    read_exactly(client, methods)
    client.sendall(bytes([version, 0]))
    _, command, _, kind, size = read_exactly(client, 5)
    if (version, command, kind) != (5, 1, 3):
        raise OSError("not what apt asks for")
    host = read_exactly(client, size).decode()
    (port,) = struct.unpack(">H", read_exactly(client, 2))
    try:
        server = socket.create_connection((host, port), 60)
    except OSError:
        client.sendall(bytes([5, 4, 0, 1, 0, 0, 0, 0, 0, 0]))
        raise
    client.sendall(bytes([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]))
    server.settimeout(None)
    return server


def carry(client):
    with client, contextlib.suppress(OSError), connect_as_asked(client) as server:
        other = {client: server, server: client}
        while True:
            for source in select.select(list(other), [], [])[0]:
                data = source.recv(65536)
                if not data:
                    return
                other[source].sendall(data)


def serve_gate(listener):
    while True:
        client, _ = listener.accept()
        threading.Thread(target=carry, args=(client,), daemon=True).start()


# --- Machines ---------------------------------------------------------------------------------------------------------


class Shell(Terminal):
    """bash on a terminal of a machine."""

    def __init__(self, machine, log):
        self.machine = machine
        prompts = {"PS1": r"\e]p$?\aroot@\h:\w# ", "PS2": r"\e]c\a> "}
        bash = "cd && exec setsid --ctty --wait bash --noprofile --norc --noediting -i"
        super().__init__(machine.command(["sh", "-c", bash]), ENVIRONMENT | prompts, log)
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.start = self.shown = 0  # of the newest command; of what nobody has been shown
        self.wait_for_prompt(60)

    def enter(self, line):
        """A line of a command. What it says is read later. Where something has come behind the prompt, Enter brings
        another one, as people do."""
        self.wait_for_prompt(600)
        self.read_what_is_there()
        prompt = self.said.rfind("\x07")
        if "\n" in self.said[prompt:]:
            self.start = len(self.said)
            os.write(self.descriptor, b"\n")
            self.wait_for_prompt(60)
        self.start = len(self.said)
        os.write(self.descriptor, line.encode() + b"\n")

    def wait_for_prompt(self, seconds):
        """The exit status, or None where bash wants to read more of the command."""
        found = self.read_until(f"{PROMPT.pattern}|{CONTINUED.pattern}", seconds, self.start)
        if found is None:
            raise Failed(f"the shell of {self.machine.name} has ended")
        return None if found[1] is None else int(found[1])

    def type(self, line, seconds):
        self.enter(line)
        return self.wait_for_prompt(seconds), self.words()

    def words(self):
        """What the newest command has said."""
        return as_seen(self.said[self.start :])

    def wait_for_words(self, pattern, seconds):
        if self.read_until(pattern, seconds, self.start) is None:
            raise Failed(f"the shell of {self.machine.name} has ended")

    def read_what_is_there(self):
        while select.select([self.descriptor], [], [], 0)[0]:
            before = len(self.said)
            self.said += os.read(self.descriptor, 65536).decode(errors="replace")
            self.log.write(self.said[before:])
        self.log.flush()

    def show(self):
        """Whole lines that nobody has been shown; a prompt at the end waits for what is typed behind it."""
        end = self.said.rfind("\n") + 1
        shown = as_seen(self.said[self.shown : end]) if end > self.shown else ""
        self.shown = max(self.shown, end)
        return shown


def as_seen(said):
    """What a terminal shows: no marks, and of what is written over itself the newest."""
    said = CONTINUED.sub("", PROMPT.sub("", said)).replace("\r\n", "\n")
    lines = []
    for line in said.split("\n"):
        seen = ""
        for piece in line.split("\r"):
            seen = piece + seen[len(piece) :]
        lines.append(seen.rstrip())
    return "\n".join(lines)


class Machine:
    def __init__(self, name, address, tree, folder):
        self.name, self.address = name, address
        kinds = ["net", "mount", "uts", "ipc", "pid"]
        boot = ["sh", "-c", BOOT, "sh", name, str(tree), str(folder)]
        self.keeper, self.pid = start_in_namespaces(kinds, boot)

    def command(self, words):
        kinds = ["--net", "--mount", "--uts", "--ipc", "--pid", "--root", "--wd"]
        return ["nsenter", f"--target={self.pid}", *kinds, "--", *words]

    def run(self, text, seconds=300):
        done = subprocess.run(self.command(["sh", "-c", text]), env=ENVIRONMENT, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds)
        if done.returncode != 0:
            raise Failed(f"{text} on {self.name}: status {done.returncode}; {done.stdout.strip()}")
        return done.stdout

    def shell(self, log):
        return Shell(self, log)


class Machines(dict):
    def __init__(self, tree, addresses, folder):
        super().__init__()
        self.tree, self.addresses, self.folder = tree, addresses, folder
        self.keepers = []

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        keeper, switch = start_in_namespaces(["net"], ["sh", "-c", "echo up && exec sleep infinity"])
        self.keepers.append(keeper)
        for words in ["link set lo up", "link add switch type bridge", f"addr add {GATE[0]}/24 dev switch",
                      "link set switch up"]:
            ip(switch, words)
        threading.Thread(target=serve_gate, args=(listen_in(switch, GATE),), daemon=True).start()
        for name, address in self.addresses.items():
            machine = self[name] = Machine(name, address, self.tree, self.folder / name)
            self.keepers.append(machine.keeper)
            ip(switch, f"link add {name} type veth peer name eth0 netns {machine.pid}")
            ip(switch, f"link set {name} master switch up")
            ip(machine.pid, f"addr add {address}/24 dev eth0")
            ip(machine.pid, "link set eth0 up")

    def __exit__(self, *_):
        for keeper in self.keepers:
            keeper.kill()
            keeper.wait()
