"""Named places where a test may kill, fail or slow the process; inert unless asked.

``OHMO_FAILPOINTS="inbound.stored=kill@3;send.accepted=raise@1;model.chunk=delay:2s@5"``: at the
n-th hit of a name SIGKILL the process, raise ``FailpointHit``, or block for a time. ``@n`` missing
means the first hit. Unknown actions stop the start with one line.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Literal

from channels.record import record

Failpoint = Callable[[str], None]

_RULE = re.compile(
    r"(?P<name>[a-z]+\.[a-z]+)=(?P<action>kill|raise|delay:(?P<seconds>\d+(?:\.\d+)?)s)(?:@(?P<hit>\d+))?"
)


class FailpointHit(Exception):
    """A failpoint was asked to fail here."""


@record
class _Rule:
    action: Literal["kill", "raise", "delay"]
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
        action = match["action"].split(":")[0]
        rules[match["name"]] = _Rule(action, int(match["hit"] or 1), float(match["seconds"] or 0))  # pyright: ignore[reportArgumentType]
    return Failpoints(rules)
