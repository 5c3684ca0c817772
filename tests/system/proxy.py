"""A line that can be disturbed: a TCP proxy before a server of the tests.

    proxy = Proxy(postgres.port)             # forwards everything, on a port of its own
    proxy.uri(postgres.uri)                  # the same connection string, through it
    proxy.freeze(), proxy.thaw()             # swallows everything and ends no connection; new ones hear nothing
    proxy.trickle(0.2)                       # the server's bytes come one by one, so many seconds apart; 0: no more
    proxy.cut()                              # every connection ends at once
    proxy.lose_answer_to(b"rows_1\\0")        # the next request with these bytes arrives; then its connection ends
    proxy.lost                               # how many answers were lost so
    proxy.hold(b"Tally.Publish")             # the next request with these bytes stays here, and its connection with it,
    proxy.is_held, proxy.release()           # until then, or until the next hold()
    proxy.strand(b"COMMIT\\0")               # the next request with these bytes is lost: its connection ends, and
    proxy.stranded, proxy.release()          # the server learns of it only then; how many there were
    proxy.heard                              # with is_listening: everything that the server has answered
    proxy.close()
"""

import contextlib
import re
import socket
import threading
import time


class Line:
    """One connection through it."""

    def __init__(self, proxy, client):
        self.proxy = proxy
        self.client = client
        self.server = socket.create_connection(("127.0.0.1", proxy.server_port))
        self.is_losing = False
        for end in (self.client, self.server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for source, target in ((self.client, self.server), (self.server, self.client)):
            threading.Thread(target=self._forward, args=(source, target), daemon=True).start()

    def _forward(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(262144):
                self.proxy.is_open.wait()
                if source is self.client:
                    self._look(data)
                    self._hold(data)
                    if self._is_stranded(data):
                        break
                elif self.proxy.is_listening:
                    self.proxy.heard += data
                elif self.is_losing:  # the server has answered: so it has done what it was asked for
                    self.proxy.lost += 1
                    break
                time.sleep(self.proxy.delay)
                if source is self.server:
                    data = self._trickle(data)
                target.sendall(data)
        self.close()

    def _trickle(self, data):
        """What is left when that is over."""
        while self.proxy.pause > 0 and data:
            self.client.sendall(data[:1])
            data = data[1:]
            time.sleep(self.proxy.pause)
        return data

    def _look(self, data):
        pattern = self.proxy.pattern
        if pattern is not None and pattern in data:
            self.proxy.pattern = None
            self.is_losing = True

    def _hold(self, data):
        pattern = self.proxy.pattern_held
        if pattern is not None and pattern in data:
            self.proxy.pattern_held = None
            self.proxy.is_held.set()
            self.proxy.is_released.wait()

    def _is_stranded(self, data):
        pattern = self.proxy.pattern_stranded
        if pattern is None or pattern not in data:
            return False
        self.proxy.pattern_stranded = None
        self.proxy.stranded += 1
        self.client.shutdown(socket.SHUT_RDWR)
        self.proxy.is_released.wait()
        return True

    def close(self):
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Proxy:
    def __init__(self, server_port):
        self.server_port = server_port
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self.listener.getsockname()[1]
        self.is_open = threading.Event()
        self.is_open.set()
        self.pattern = self.pattern_held = self.pattern_stranded = None
        self.lost = self.stranded = 0
        self.is_held, self.is_released = threading.Event(), threading.Event()
        self.is_listening = False
        self.delay = 0  # seconds, each way
        self.pause = 0
        self.heard = b""
        self.lines = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                with contextlib.suppress(OSError):
                    self.lines.append(Line(self, client))

    def uri(self, uri):
        return re.sub(r":\d+/", f":{self.port}/", uri)

    def freeze(self):
        self.is_open.clear()

    def thaw(self):
        self.is_open.set()

    def trickle(self, pause):
        self.pause = pause

    def cut(self):
        lines, self.lines = self.lines, []
        for line in lines:
            line.close()

    def lose_answer_to(self, pattern):
        self.pattern = pattern

    def hold(self, pattern):
        self.is_held.clear()
        self.pattern_held = pattern
        before, self.is_released = self.is_released, threading.Event()
        before.set()

    def strand(self, pattern):
        self.is_released.clear()
        self.pattern_stranded = pattern

    def release(self):
        self.is_released.set()

    def close(self):
        self.listener.close()
        self.thaw()
        self.release()
        self.cut()
