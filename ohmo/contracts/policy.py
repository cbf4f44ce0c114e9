"""What a configuration lets be done, and what of it a turn keeps from its beginning to its end."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from channels.record import record

Mode = Literal["default", "plan", "full_auto"]
Standing = Literal["guest", "user", "admin", "owner"]
_MODES: tuple[Mode, ...] = ("plan", "default", "full_auto")  # strictest first


@record
class PolicySnapshot:
    """Of one configuration."""

    allow: tuple[str, ...]  # rules as they are written, and so in the next two
    ask: tuple[str, ...]
    deny: tuple[str, ...]
    mode: Mode  # where people chose none
    read_outside: Literal["ask", "allow"]  # of the workspace
    workspace: Path
    closed: tuple[str, ...]  # patterns of what belongs to the agent's home and lies elsewhere
    busy: Literal["queue", "steer", "interrupt", "collect"]  # no rule; a turn keeps it too


@record
class BegunUnder:
    """Stored with a turn when it begins, gone when it ends: what a later configuration lets be
    done does not loosen it."""

    policy: PolicySnapshot
    role: Standing  # of the person it acts for


def strictest(modes: Iterable[Mode]) -> Mode:
    return min(modes, key=_MODES.index)
