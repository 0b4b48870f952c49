"""Signs what is sent to a callback_url, so that its receiver knows who sent it, and when.

    Shardwheel-Signature: t=1795003200,v1=5257a869e7…

v1 is HMAC-SHA256, in hexadecimal, of the time (seconds since 1970, in decimal), a dot, and the body as it was
sent, by the cluster's `callback_secret`. A receiver computes it anew and refuses an old time, so that nobody
can send it again later. Further `v…` may be added: look for the one you know.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Final

HEADER: Final = "Shardwheel-Signature"
TOLERANCE_S: Final = 300


def sign(secret: str, body: bytes, at_s: int) -> str:
    """The header's value."""
    return f"t={at_s},v1={_digest(secret, body, str(at_s))}"


def is_signed(
    secret: str, body: bytes, header: str, *, now_s: float, tolerance_s: float = TOLERANCE_S
) -> bool:
    """For receivers: whether this body was signed with this secret, within `tolerance_s` of now."""
    parts = dict(part.strip().partition("=")[::2] for part in header.split(","))
    at = parts.get("t", "")
    if not (at.isascii() and at.isdigit() and len(at) < 19) or abs(now_s - int(at)) > tolerance_s:
        return False
    return hmac.compare_digest(parts.get("v1", "").encode(), _digest(secret, body, at).encode())


def _digest(secret: str, body: bytes, at: str) -> str:
    return hmac.new(secret.encode(), at.encode() + b"." + body, sha256).hexdigest()
