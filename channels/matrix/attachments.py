"""Files of encrypted rooms: AES-CTR with a key of their own, which travels in the message; the
homeserver holds scrambled bytes.

Source: Matrix specification, "Sending encrypted attachments"."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from typing import Any, cast

from channels.errors import Rejected
from channels.matrix.client_olm import cipher

Json = dict[str, Any]


class Scrambling:
    """One file on its way out: ``through`` chunk by chunk, then ``file`` for the message."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._iv = secrets.token_bytes(8) + bytes(8)
        self._cipher = cipher(self._key, self._iv)
        self._hash = hashlib.sha256()

    def through(self, chunk: bytes) -> bytes:
        scrambled = self._cipher(chunk)
        self._hash.update(scrambled)
        return scrambled

    def file(self, mxc: str) -> Json:
        """An ``EncryptedFile``."""
        key = {
            "kty": "oct",
            "alg": "A256CTR",
            "ext": True,
            "key_ops": ["encrypt", "decrypt"],
            "k": _safe(self._key),
        }
        return {
            "url": mxc,
            "v": "v2",
            "key": key,
            "iv": _bare(self._iv),
            "hashes": {"sha256": _bare(self._hash.digest())},
        }


class Opening:
    """One file on its way in: ``through`` chunk by chunk, then ``check`` before anybody looks at
    it."""

    def __init__(self, reference: str) -> None:
        """Raises Rejected: the reference is none of ``inbound.reference``."""
        try:
            parts = cast("dict[str, str]", json.loads(reference))
            self.mxc = parts["url"]
            self._wanted = _bytes(parts["sha256"])
            self._cipher = cipher(_bytes(parts["k"]), _bytes(parts["iv"]))
            self._hash = hashlib.sha256()
        except (ValueError, KeyError, TypeError) as error:
            raise Rejected("the file's key cannot be read") from error

    def through(self, chunk: bytes) -> bytes:
        self._hash.update(chunk)
        return self._cipher(chunk)

    def check(self) -> None:
        """Raises Rejected: these are not the bytes that were sent."""
        if self._hash.digest() != self._wanted:
            raise Rejected(
                "the homeserver delivered other bytes than were sent; the file is not opened"
            )


def _bare(raw: bytes) -> str:
    return base64.b64encode(raw).decode().rstrip("=")


def _safe(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(
        text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True
    )
