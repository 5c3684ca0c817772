"""A line between two machines of netns.py that delays and loses packets, in both directions.

    line = SlowLine(one, two, delay=0.05, loss=0.05)   # a second line, beside the switch
    line.addresses                                     # of the two on it: 10.78.0.1 and 10.78.0.2
    line.loss = 1                                      # from now on nothing arrives
    line.passed, line.lost                             # packets
    line.close()

`tc qdisc … netem` does the same where the kernel has it; many don't. Here a thread carries each packet from one TAP
device to the other, so TCP in the kernel sees the delays and repeats what was lost, as on a real line."""

import fcntl
import heapq
import os
import random
import select
import struct
import threading
import time

import pytest

SET_INTERFACE = 0x400454CA  # TUNSETIFF
TAP_WITHOUT_HEAD = 0x0002 | 0x1000  # IFF_TAP | IFF_NO_PI
FRAME_SIZE = 65536


def _open_tap(host, address):
    """Its descriptor; the device lives as long as that is open."""
    with host.inside():
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        fcntl.ioctl(descriptor, SET_INTERFACE, struct.pack("16sH22x", b"slow0", TAP_WITHOUT_HEAD))
    host.ip(f"addr add {address}/24 dev slow0")
    host.ip("link set slow0 up")
    return descriptor


class SlowLine:
    def __init__(self, one, two, delay, loss, seed=1):
        self.addresses = ("10.78.0.1", "10.78.0.2")
        self.delay, self.loss = delay, loss
        self.passed = self.lost = 0
        self.random = random.Random(seed)
        try:
            self.ends = [_open_tap(host, address) for host, address in zip((one, two), self.addresses)]
        except OSError as error:
            reason = f"a TAP device can't be made here: {error}"
            if os.environ.get("CI") == "true":
                pytest.fail(reason)
            pytest.skip(reason)
        self.is_over = False
        self.on_the_way = []  # (when it arrives, number, where, packet)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.is_over:
            wait = min(0.1, max(0, self.on_the_way[0][0] - time.monotonic())) if self.on_the_way else 0.1
            for end in select.select(self.ends, [], [], wait)[0]:
                self._take(end, self.ends[1 - self.ends.index(end)])
            self._deliver()

    def _take(self, source, target):
        while True:
            try:
                packet = os.read(source, FRAME_SIZE)
            except OSError:  # none is left, or the device is down
                return
            if self.random.random() < self.loss:
                self.lost += 1
                continue
            self.passed += 1
            heapq.heappush(self.on_the_way, (time.monotonic() + self.delay, self.passed, target, packet))

    def _deliver(self):
        while self.on_the_way and self.on_the_way[0][0] <= time.monotonic():
            _, _, target, packet = heapq.heappop(self.on_the_way)
            try:
                os.write(target, packet)
            except OSError:
                self.lost += 1

    def close(self):
        self.is_over = True
        self.thread.join(5)
        for end in self.ends:
            os.close(end)
