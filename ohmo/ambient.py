"""What of the outside world every room is handed: ids, time, and failpoints (places where a test
kills, fails or delays the process)."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Literal, cast

from channels.contract import Clock
from channels.record import record

NewId = Callable[[], str]
Failpoint = Callable[[str], None]
_Action = Literal["kill", "raise", "delay"]
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_PAIRS = [a + b for a in _DIGITS for b in _DIGITS]
_TIME, _TAIL = 9, 13
# 64 random bits fit into the first eighth of 36**13 tails: the rest is room for the ids of one
# millisecond
_RULE = re.compile(
    r"(?P<name>[a-z]+\.[a-z]+)="
    r"(?P<action>kill|raise|delay:(?P<seconds>\d+(?:\.\d+)?)s)"
    r"(?:@(?P<hit>\d+))?"
)


def utc_now() -> datetime:
    return datetime.now(UTC)


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


class FailpointHit(Exception):
    """A failpoint was asked to fail here."""


@record
class _Rule:
    action: _Action
    hit: int
    seconds: float


def inert(name: str) -> None:
    """The product's failpoint when nothing was asked for."""


class Failpoints:
    """Counts hits of every name and acts at the asked one."""

    def __init__(self, rules: Mapping[str, _Rule]) -> None:
        self._rules = rules
        self._hits: Counter[str] = Counter()

    def __call__(self, name: str) -> None:
        self._hits[name] += 1
        rule = self._rules.get(name)
        if rule is None or self._hits[name] != rule.hit:
            return
        match rule.action:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "raise":
                raise FailpointHit(name)
            case "delay":
                time.sleep(rule.seconds)


def from_environment(environ: Mapping[str, str]) -> Failpoint:
    """The failpoint asked for in ``OHMO_FAILPOINTS``; ``inert`` when it is unset. Raises ValueError
    with one line."""
    text = environ.get("OHMO_FAILPOINTS", "").strip()
    if not text:
        return inert
    rules: dict[str, _Rule] = {}
    for item in filter(None, (part.strip() for part in text.split(";"))):
        match = _RULE.fullmatch(item)
        if match is None:
            raise ValueError(f"OHMO_FAILPOINTS: {item!r} is not NAME=kill|raise|delay:SECONDSs[@N]")
        action = cast("_Action", match["action"].split(":")[0])
        seconds = float(match["seconds"] or 0)
        rules[match["name"]] = _Rule(action, int(match["hit"] or 1), seconds)
    return Failpoints(rules)


@record
class Ambient:
    """Tests bring their own."""

    new_id: NewId
    clock: Clock = utc_now
    failpoint: Failpoint = inert
