"""Ids of the house: 22 characters [0-9a-z], time first, so that they sort by birth and fit every
platform's key (Discord's nonce holds 25)."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable

NewId = Callable[[], str]

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_PAIRS = [a + b for a in _DIGITS for b in _DIGITS]
_TIME, _TAIL = 9, 13
# 64 random bits fit into the first eighth of 36**13 tails: the rest is room for the ids of one
# millisecond


def base36(number: int, width: int) -> str:
    """``number`` in ``width`` digits, zero padded."""
    pairs: list[str] = []
    for _ in range((width + 1) // 2):
        number, rest = divmod(number, 1296)
        pairs.append(_PAIRS[rest])
    return "".join(reversed(pairs))[-width:]


def derived(*names: str) -> str:
    """The id of something there is once: equal names give the equal id, on every instance and after
    a restart."""
    named = "\0".join(names).encode("utf-8", "surrogatepass")
    return base36(
        int.from_bytes(hashlib.sha256(named).digest()[:16]) % 36 ** (_TIME + _TAIL), _TIME + _TAIL
    )


class IdSource:
    """Unique and strictly growing within a process, also when the clock stands still or jumps back.
    Never shared with a forked child."""

    def __init__(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._last_ms = 0
        self._tail = 0
        self._random = memoryview(b"")

    def __call__(self) -> str:
        now = self._now_ms()
        if now > self._last_ms:
            self._last_ms, self._tail = now, self._drawn(8)
        else:
            self._tail += 1 + self._drawn(3)
        return base36(self._last_ms, _TIME) + base36(self._tail, _TAIL)

    def _drawn(self, size: int) -> int:
        """Of random bytes drawn many at a time: one system call for some hundred ids."""
        if len(self._random) < size:
            self._random = memoryview(os.urandom(2_048))
        found, self._random = self._random[:size], self._random[size:]
        return int.from_bytes(found)
