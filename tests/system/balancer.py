"""A TCP load balancer, as docs/how-to/high-availability.md has it: it asks each node for /ready, and sends
connections to the one that serves. While none does, they go to one that stands by, which refuses requests with a 503.

    balancer = Balancer(cluster.nodes)
    balancer.url
    balancer.close()
"""

import contextlib
import itertools
import socket
import threading

from wire import Connection, Lost

CHECK_EACH = 0.05  # seconds


class Balancer:
    def __init__(self, nodes):
        self.nodes = nodes
        self.ready = None
        self.next = itertools.count()
        self.is_over = threading.Event()
        self.lines = []  # (node, client, server)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        for work in (self._check, self._accept):
            threading.Thread(target=work, daemon=True).start()

    def _check(self):
        while not self.is_over.wait(CHECK_EACH):
            found = next((node for node in self.nodes if self._is_ready(node)), None)
            if found is not None and found is not self.ready:
                self.ready = found
                self._cut_others()

    @staticmethod
    def _is_ready(node):
        with contextlib.suppress(Lost, OSError), Connection(node.port, 2) as line:
            line.write(b"GET /ready HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            return line.answer().status == 200
        return False

    def _cut_others(self):
        for line in self.lines:
            if line[0] is not self.ready:
                self._end(line)

    @staticmethod
    def _end(line):
        for end in line[1:]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                line = self._connect(client)
                if line is None:
                    client.close()
                    continue
                self.lines.append(line)
                for source, target in ((1, 2), (2, 1)):
                    threading.Thread(target=self._forward, args=(line, source, target), daemon=True).start()

    def _connect(self, client):
        """To the node that serves, or to any; None where no node listens."""
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        turn = next(self.next)
        others = [self.nodes[(turn + at) % len(self.nodes)] for at in range(len(self.nodes))]
        for node in [self.ready or others[0], *others]:
            with contextlib.suppress(OSError):
                return node, client, socket.create_connection(("127.0.0.1", node.port), 2)
        return None

    def _forward(self, line, source, target):
        with contextlib.suppress(OSError):
            line[target].settimeout(None)
            while data := line[source].recv(262144):
                line[target].sendall(data)
        self._end(line)
        with contextlib.suppress(ValueError):
            self.lines.remove(line)

    def close(self):
        self.is_over.set()
        self.listener.close()
        for line in list(self.lines):
            self._end(line)
