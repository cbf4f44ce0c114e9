"""JSON in which a key stands twice: readers differ in which of both they take (RFC 8259, 4)."""

from __future__ import annotations

import json
from typing import Any


class DoubledKey(Exception):
    """``str()`` is one line that names the key."""


def refuse_doubled_keys(raw: bytes) -> None:
    """Raises DoubledKey. What is no JSON is for another to refuse."""
    try:
        json.loads(raw, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return


def _once(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise DoubledKey(f"{key[:60]!r}: this key stands twice in the body; send it once")
        seen.add(key)
