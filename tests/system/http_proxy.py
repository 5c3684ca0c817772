"""An HTTP proxy before a daemon, or another SQS, that can be a bad network: it knows requests by their X-Amz-Target,
and those of older SDKs by their Action, which it calls AmazonSQS.Action.
For lines of other protocols, and for those that are cut or frozen as a whole, there is proxy.py.

    proxy = HttpProxy(daemon.port)           # forwards everything, on a port of its own
    proxy.endpoint
    proxy.requests, proxy.bodies_of(target)  # what passed: (target, body)
    proxy.lose("Tally.Publish", 2)           # the next two are carried out, and their connections end without an answer
    proxy.tear("Tally.Commit")               # the next one is carried out, and half of its answer arrives
    proxy.spoil(make, 2, *targets)           # the next two of each are carried out, and make(head, body) of the answer
    proxy.spoiled                            # arrives; then the connection ends, with is_reset=True by a reset
    proxy.keep("AmazonSQS.SendMessageBatch") # all of these are carried out, and no answer comes back
    proxy.kept, proxy.release()              # how many; until then: their connections end, and the next ones pass
    proxy.refuse[target] = "AccessDenied"    # answered so by the proxy, as the server would, with nothing carried out
    proxy.is_down = True                     # connections are closed as they come
    proxy.refusals                           # when that was
    proxy.watch = lambda target, body: ...   # called with each before it passes
    proxy.answer = lambda target, body: ...  # what it returns, (status, bytes), is the answer of something that is no
    proxy.answered                           # Tally, which then never hears of it; the targets of those
    proxy.close()
"""

import collections
import contextlib
import json
import socket
import struct
import threading
import time
import urllib.parse

RESET = struct.pack("ii", 1, 0)  # on, after 0 seconds


class HttpProxy:
    def __init__(self, port):
        self.port = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.requests, self.refusals, self.lost, self.refuse = [], [], {}, {}
        self.to_tear = set()
        self.spoil_left, self.spoiled = {}, collections.Counter()
        self.is_down = False
        self.watch = None
        self.answer = None
        self.answered = []
        self.target_kept, self.kept = None, 0
        self.is_released = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, target, count=1):
        self.lost[target] = count

    def tear(self, *targets):
        self.to_tear |= set(targets)

    def spoil(self, make, count, *targets, is_reset=False):
        for target in targets:
            self.spoil_left[target] = (make, is_reset, count)

    def keep(self, target):
        self.is_released.clear()
        self.target_kept = target

    def release(self):
        self.target_kept = None
        self.is_released.set()

    def bodies_of(self, wanted):
        return [body for target, body in self.requests if target == wanted]

    def published(self):
        return self.bodies_of("Tally.Publish")

    def close(self):
        self.listener.close()
        self.release()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        server = None
        with client, contextlib.suppress(OSError):  # who asks may go at any time
            while True:
                if self.is_down:
                    self.refusals.append(time.monotonic())
                    break
                request = self._read(client)
                if request is None or self.is_down:
                    break
                head, body = request
                target, parsed = self._target(head, body)
                if self.watch:
                    self.watch(target, parsed)
                own = self.answer(target, parsed) if self.answer else None
                if own is not None:
                    self.answered.append(target)
                    self._write(client, *own)
                    continue
                self.requests.append((target, parsed))
                if target in self.refuse:
                    text = json.dumps({"__type": self.refuse[target], "message": "refused on the way"}).encode()
                    self._write(client, 400, text)
                    continue
                try:
                    server = server or socket.create_connection(("127.0.0.1", self.port))
                    server.sendall(head + body)
                    answer = self._read(server)
                except OSError:
                    answer = None
                if answer is None:
                    break
                if self.lost.get(target, 0) > 0:
                    self.lost[target] -= 1
                    break
                if target == self.target_kept:
                    self.kept += 1
                    self.is_released.wait()
                    break
                if target in self.spoil_left:
                    self._spoil(client, target, *answer)
                    break
                if target in self.to_tear:
                    self.to_tear.remove(target)
                    client.sendall(answer[0] + answer[1][:len(answer[1]) // 2])
                    break
                try:
                    client.sendall(answer[0] + answer[1])
                except OSError:
                    break
        if server:
            server.close()

    def _spoil(self, client, target, head, body):
        make, is_reset, count = self.spoil_left.pop(target)
        if count > 1:
            self.spoil_left[target] = make, is_reset, count - 1
        with contextlib.suppress(OSError):
            client.sendall(make(head, body))
            if is_reset:
                time.sleep(0.02)  # so that what was sent is read
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.spoiled[target] += 1

    @staticmethod
    def _target(head, body):
        """Its name and what it asks for."""
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"x-amz-target:"):
                return line.split(b":", 1)[1].strip().decode(), json.loads(body) if body else {}
        form = dict(urllib.parse.parse_qsl(body.decode())) if body[:1] != b"{" else {}
        return (f"AmazonSQS.{form['Action']}" if "Action" in form else ""), form

    @staticmethod
    def _write(client, status, data):
        head = (f"HTTP/1.1 {status} Whatever\r\nContent-Type: application/json\r\nx-amzn-RequestId: of-the-proxy\r\n"
                f"Content-Length: {len(data)}\r\n\r\n")
        with contextlib.suppress(OSError):
            client.sendall(head.encode() + data)

    @staticmethod
    def _read(stream):
        """(head with its empty line, body), or None when the other side has gone."""
        data = b""
        while b"\r\n\r\n" not in data:
            piece = stream.recv(262144)
            if not piece:
                return None
            data += piece
        head, rest = data.split(b"\r\n\r\n", 1)
        lines = {line.split(b":", 1)[0].lower(): line.split(b":", 1)[1].strip() for line in head.split(b"\r\n")[1:]}
        if lines.get(b"expect") == b"100-continue":
            stream.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            head = b"\r\n".join(line for line in head.split(b"\r\n") if not line.lower().startswith(b"expect:"))
        size = int(lines.get(b"content-length", 0))
        while len(rest) < size:
            piece = stream.recv(262144)
            if not piece:
                return None
            rest += piece
        return head + b"\r\n\r\n", rest
