"""What may stand between a worker and its server and answer in its place, or spoil its answers: for HttpProxy.spoil().
Each makes bytes of the head and the body of the answer that the server gave."""

import gzip
import re
from collections.abc import Callable
from typing import NamedTuple

HTML = b"<html><head><title>Bad Gateway</title></head><body>The shop is closed for a moment.</body></html>"


def page(status, *fields, body=HTML, media="text/html"):
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Type: {media}", f"Content-Length: {len(body)}", *fields]
    return lambda head, answer: "\r\n".join([*lines, "", ""]).encode() + body


def with_length(head, size):
    return re.sub(rb"(?i)(content-length: *)\d+", rb"\g<1>%d" % size, head)


def compressed(head, body):
    data = gzip.compress(body)
    return with_length(head, len(data)).replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n") + data


def shortened(head, body):
    """As if it were whole."""
    half = body[: len(body) // 2]
    return with_length(head, len(half)) + half


def chunked(head, body):
    """Without its end."""
    head = re.sub(rb"(?i)content-length: *\d+", b"Transfer-Encoding: chunked", head)
    half = body[: len(body) // 2]
    return head + b"%x\r\n%s\r\n" % (len(half), half)


def changed(head, body):
    """A letter is another one, so a body does not fit its checksum."""
    return head + body.replace(b'"Body":"m', b'"Body":"n')


def undated(head, body):
    """Whole, and without the time of the server."""
    return re.sub(rb"(?i)\r\ndate: [^\r]*", b"", head) + body


class BadAnswer(NamedTuple):
    make: Callable[[bytes, bytes], bytes]
    words: str = ""  # which a worker says of it
    is_reset: bool = False


def pieces(head, body):
    """Half a body; where there is none, a head without its end."""
    return head + body[: len(body) // 2] if body else head[:-2]


BAD_ANSWERS = {
    "a page": BadAnswer(page(200), "status 200"),
    "a page of 401": BadAnswer(page(401), "status 401"),
    "a page of 403": BadAnswer(page(403), "status 403"),
    "a page of 404": BadAnswer(page(404), "status 404"),
    "a page of 502": BadAnswer(page(502), "status 502"),
    "a page of 503 that says when": BadAnswer(page(503, "Retry-After: 900"), "status 503"),
    "429 as a page": BadAnswer(page(429, "Retry-After: 900"), "status 429"),
    "429 in JSON": BadAnswer(page(429, body=b'{"message":"Too Many Requests"}', media="application/json"),
                             "status 429"),
    "403 of a gateway": BadAnswer(page(403, "x-amzn-RequestId: 1", body=b'{"message":"Forbidden"}',
                                       media="application/json"), "status 403"),
    "429 without a body": BadAnswer(page(429, body=b""), "status 429"),
    "a redirect": BadAnswer(page(302, "Location: https://login.example/"), "status 302"),
    "a redirect without a body": BadAnswer(page(301, "Location: https://login.example/", body=b""), "status 301"),
    "an empty body": BadAnswer(page(200, body=b""), "status 200"),
    "JSON of somebody else": BadAnswer(page(200, body=b'{"status":"ok"}', media="application/json"), "status 200"),
    "no HTTP": BadAnswer(lambda head, body: b"SSH-2.0-OpenSSH_9.2p1\r\n"),
    "nothing": BadAnswer(lambda head, body: b""),
    "a reset": BadAnswer(lambda head, body: b"", is_reset=True),
    "half a head": BadAnswer(lambda head, body: head[:20]),
    "half a body": BadAnswer(pieces),
    "half a body and a reset": BadAnswer(pieces, is_reset=True),
    "half a body that says it is whole": BadAnswer(shortened),
    "a chunk and no end": BadAnswer(chunked),
    "a compressed body": BadAnswer(compressed, "gzip"),
    "a changed body": BadAnswer(changed),
}
