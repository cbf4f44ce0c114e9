"""How a request to a webhook of ohmo is signed: by whoever sends it, and by whoever checks it."""

from __future__ import annotations

import hashlib
import hmac

TIMESTAMP, SIGNATURE, KEY = "X-Ohmo-Timestamp", "X-Ohmo-Signature", "Idempotency-Key"


def sign(secret: str, name: str, timestamp: int, body: bytes, key: str = "") -> str:
    """The value of X-Ohmo-Signature for a body sent to the webhook ``name`` at ``timestamp``
    (seconds since 1970, the value of X-Ohmo-Timestamp), under ``key``, its Idempotency-Key."""
    head = f"v2\n{timestamp}\n{name}\n{key}\n".encode("utf-8", "surrogateescape")
    return "v2=" + hmac.new(secret.encode(), head + body, hashlib.sha256).hexdigest()
