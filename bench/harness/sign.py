"""AWS signatures, version 4, for the few calls that the harness makes by itself."""

import hashlib
import hmac
import time

ACCESS_KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"  # as bench/signer.h


def signed(headers, body, access_key=ACCESS_KEY):
    """The headers of a POST to / with those that a signature adds."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    scope = f"{stamp[:8]}/us-east-1/sqs/aws4_request"
    headers = {**headers, "X-Amz-Date": stamp}
    lower = {name.lower(): value for name, value in headers.items()}
    names = ";".join(sorted(lower))
    lines = "".join(f"{name}:{lower[name]}\n" for name in sorted(lower))
    canonical = "\n".join(["POST", "/", "", lines, names, hashlib.sha256(body).hexdigest()])
    to_sign = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + SECRET).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    return {**headers, "Authorization": f"AWS4-HMAC-SHA256 Credential={access_key}/{scope}, SignedHeaders={names}, "
                                        f"Signature={signature}"}
