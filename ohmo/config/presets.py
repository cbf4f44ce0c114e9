"""What ``permissions.preset`` fills in. Explicit keys win: a written mode, and a rule of the owner
for the same tool."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from channels.record import record
from ohmo.config.models import Mode, PermissionSettings

_NETWORK = ("WebFetch", "WebSearch")


@record
class Permissions:
    """What the gate starts from. deny beats ask beats allow."""

    mode: Mode
    preset: Literal["safe", "balanced", "full"]
    allow: tuple[str, ...]
    ask: tuple[str, ...]
    deny: tuple[str, ...]
    read_outside: Literal["ask", "allow"]
    approval_timeout: timedelta


def fill(written: PermissionSettings) -> Permissions:
    """The owner's rules first, then the preset's. ``balanced`` adds none: the gate lets commands
    pass that only read, by their grammar."""
    mode, allow, ask = written.mode, written.allow, written.ask
    if written.preset == "safe":
        named = {_tool(rule) for rule in allow}
        ask = (*ask, *(tool for tool in _NETWORK if tool not in named and tool not in ask))
    return Permissions(
        mode,
        written.preset,
        allow,
        ask,
        written.deny,
        written.read_outside,
        written.approval_timeout,
    )


def _tool(rule: str) -> str:
    return rule.partition("(")[0]
