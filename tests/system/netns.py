"""Machines that are network namespaces, joined by a switch from which each can be unplugged: without a FIN, a reset or
an error for anybody.

    network = Network()                       # skips the test where there is no right to make one; fails if CI is true
    one, two = network.host(), network.host()
    one.address                               # as the others reach it: 10.77.0.11, the next one .12, and so on
    subprocess.Popen([*one.prefix, "program"])  # runs on that machine
    with one.inside():                        # this thread's new sockets are that machine's
        socket.create_connection((two.address, 80))
    one.cut(), one.join()                     # from all others; what it says to itself still arrives
    one.lose(two), one.find(two)              # these two only: neither reaches the other one
    network.close()

Paths are shared: a Unix socket is reached from everywhere, also where a link is cut. Namespaces have no names and no
processes of their own: they are gone with the last process in them, however a test ends."""

import contextlib
import ctypes
import os
import subprocess
import threading

import pytest

NEW_NETWORK = 0x40000000  # CLONE_NEWNET
NOBODY = "02:00:00:00:00:01"  # the address of no device: what is sent there arrives nowhere, and no error comes back
libc = ctypes.CDLL(None, use_errno=True)


def _enter(descriptor):
    if libc.setns(descriptor, NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _own_namespace():
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _new_namespace():
    """Its descriptor; or the reason why there is none."""
    made = []

    def make():  # in a thread that ends: the others stay where they are
        done = libc.unshare(NEW_NETWORK) == 0
        made.append(_own_namespace() if done else OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno())))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return made[0]


class Namespace:
    def __init__(self):
        self.descriptor = _new_namespace()
        if isinstance(self.descriptor, OSError):
            raise self.descriptor
        self.path = f"/proc/{os.getpid()}/fd/{self.descriptor}"
        self.prefix = ["nsenter", f"--net={self.path}"]
        self.ip("link set lo up")

    def ip(self, words):
        done = subprocess.run([*self.prefix, "ip", *words.split()], capture_output=True, text=True)
        if done.returncode != 0:
            raise OSError(f"ip {words}: {done.stderr.strip()}")

    @contextlib.contextmanager
    def inside(self):
        before = _own_namespace()
        _enter(self.descriptor)
        try:
            yield
        finally:
            _enter(before)
            os.close(before)

    def close(self):
        os.close(self.descriptor)


class Host(Namespace):
    def __init__(self, switch, number):
        super().__init__()
        self.switch, self.port = switch, f"port{number}"
        self.address = f"10.77.0.{number}"
        self.is_cut = False
        self.lost = set()  # other hosts
        switch.ip(f"link add {self.port} type veth peer name eth0 netns {self.path}")
        switch.ip(f"link set {self.port} master switch up")
        self.ip(f"addr add {self.address}/24 dev eth0")
        self.ip("link set eth0 up")

    def cut(self):
        """The line stays up at this end, and nobody is behind it."""
        self.switch.ip(f"link set {self.port} nomaster")
        self.is_cut = True

    def join(self):
        if self.is_cut:
            self.switch.ip(f"link set {self.port} master switch")
        self.is_cut = False

    def lose(self, other):
        """What the two send to each other goes to a machine that is not there."""
        for one, two in ((self, other), (other, self)):
            one.ip(f"neigh replace {two.address} lladdr {NOBODY} dev eth0 nud permanent")
            one.lost.add(two)

    def find(self, other):
        for one, two in ((self, other), (other, self)):
            if two in one.lost:
                one.ip(f"neigh del {two.address} dev eth0")
                one.lost.remove(two)


class Network:
    def __init__(self):
        try:
            self.switch = Namespace()
            self.switch.ip("link add switch type bridge")
            self.switch.ip("link set switch up")
        except OSError as error:
            reason = f"network namespaces can't be made here: {error}"
            if os.environ.get("CI") == "true":
                pytest.fail(reason)
            pytest.skip(reason)
        self.hosts = []

    def host(self):
        self.hosts.append(Host(self.switch, 11 + len(self.hosts)))
        return self.hosts[-1]

    def join(self):
        for host in self.hosts:
            host.join()
            for other in list(host.lost):
                host.find(other)

    def close(self):
        for namespace in [*self.hosts, self.switch]:
            namespace.close()
