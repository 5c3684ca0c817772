"""AWS Signature, version 4, by ourselves: of a POST, with its signature in a header.

    signed_headers("/", body, {"Host": "127.0.0.1:9324"}, "KEY", "the-secret")   # these headers, and what it adds
"""

import hashlib
import hmac
import time


def hashed(text):
    return hashlib.sha256(text.encode()).hexdigest()


def signature(secret, scope, stamp, canonical):
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    to_sign = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashed(canonical)])
    return hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()


def signed_headers(path, body, headers, key, secret, at=None, service="sqs", payload=None):
    """The headers of a POST with what a signature adds."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    scope = f"{stamp[:8]}/eu-north-1/{service}/aws4_request"
    headers = {**headers, "X-Amz-Date": stamp}
    lower = {name.lower(): value for name, value in headers.items()}
    names = ";".join(sorted(lower))
    lines = "".join(f"{name}:{lower[name]}\n" for name in sorted(lower))
    canonical = "\n".join(["POST", path, "", lines, names, payload or hashed(body)])
    given = signature(secret, scope, stamp, canonical)
    headers["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={names}, Signature={given}"
    )
    return headers
