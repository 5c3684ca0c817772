"""A receiver of web hooks that counts what arrives and answers as a test wants.

    receiver = Receiver().start()
    receiver.url
    receiver.answer = lambda hit: 200         # a status; (status, headers, body); "hang"; "close" (after the request)
    receiver.hits                             # every request that arrived whole, in the order of their arrival
    receiver.counts()                         # Counter by Idempotency-Key: the effects of a receiver that knows no keys
    receiver.stop(), receiver.start()         # refuses connections meanwhile; the port stays
    receiver.start(certificate)               # https, with a Certificate of certificates.py
"""

import base64
import collections
import hmac
import http.server
import ssl
import threading
import time

from conftest import free_port


class Hit:
    def __init__(self, handler, body):
        self.headers = handler.headers
        self.path = handler.path
        self.body = body
        self.at = time.monotonic()
        self.key = handler.headers["Idempotency-Key"]
        self.attempt = int(handler.headers["Tally-Attempt"])
        self.group = handler.headers["Tally-Group"]
        self.answered = None  # the status, unless it could not be written

    def __repr__(self):
        return f"<{self.body[:40]!r} of {self.group}, attempt {self.attempt}, answered {self.answered}>"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        receiver = self.server.receiver
        body = self.rfile.read(int(self.headers["Content-Length"]))
        hit = Hit(self, body)
        with receiver.mutex:
            receiver.hits.append(hit)
            nth = sum(other.key == hit.key for other in receiver.hits)
        hit.nth = nth
        answer = receiver.answer(hit)
        if answer == "hang":
            receiver.released.wait(30)
            answer = "close"
        if answer == "close":
            self.close_connection = True
            return
        status, headers, text = answer if isinstance(answer, tuple) else (answer, {}, b"")
        hit.answered = status  # first: a relay that has the answer is done, and then the test looks here
        try:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        except OSError:
            self.close_connection = True
            if status != 200 or not text:
                hit.answered = None

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 100

    def handle_error(self, *_):
        pass  # a relay that was killed in the middle of a request


class Receiver:
    def __init__(self):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/hook"
        self.mutex = threading.Lock()
        self.hits = []
        self.answer = lambda hit: 200
        self.released = threading.Event()
        self.server = None

    def start(self, certificate=None):
        self.server = Server(("127.0.0.1", self.port), Handler)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.certificate, certificate.key)
            # With the handshake in the thread of the connection: the one that accepts must not wait for it.
            self.server.socket = context.wrap_socket(
                self.server.socket, server_side=True, do_handshake_on_connect=False)
            self.url = self.url.replace("http:", "https:")
        self.server.receiver = self
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def stop(self):
        self.released.set()
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def counts(self):
        with self.mutex:
            return collections.Counter(hit.key for hit in self.hits)

    def bodies(self):
        with self.mutex:
            return [hit.body.decode() for hit in self.hits]


def is_genuine(key, headers, body):
    """What a receiver does with a secret, as src/relay/webhook.h says it."""
    signed = b"%s.%s.%s" % (headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body)
    good = "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    return (abs(time.time() - int(headers["webhook-timestamp"])) < 300
            and any(hmac.compare_digest(good, one) for one in headers["webhook-signature"].split()))
