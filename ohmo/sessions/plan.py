"""What is decided once for a turn, before it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime
from pathlib import Path
from typing import Literal

from channels.record import record
from ohmo.contracts.provider import Section, ToolSpec
from ohmo.contracts.tool import Mode, PolicySnapshot, Standing


@record
class TurnPlan:
    """``tools``: all that the turn may use. ``budget``: tokens for the conversation. ``effort``:
    how hard the model shall think, None: its own default."""

    model: str
    system: tuple[Section, ...]
    tools: tuple[ToolSpec, ...]
    budget: int
    max_output: int
    effort: Literal["low", "medium", "high"] | None
    cwd: Path
    mode: Mode
    role: Standing
    person: str
    busy: Literal["queue", "steer", "interrupt", "collect"]
    rules: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    until: datetime | None = None  # it may start and ask until then; None: as every turn
    free_until: datetime | None = (
        None  # when ``full_auto`` ends and ``mode_after`` holds, also within the turn
    )
    mode_after: Mode = "default"
    policy: PolicySnapshot | None = None  # the one the turn began under, None: not known
    # what the configuration that holds at a call leaves of mode and role
    capped: Callable[[Mode, Standing], tuple[Mode, Standing]] = lambda mode, role: (mode, role)

    def mode_at(self, now: datetime) -> Mode:
        """What holds for a call that is made now."""
        return self.mode if self.free_until is None or now < self.free_until else self.mode_after

    @property
    def core(self) -> tuple[ToolSpec, ...]:
        """Tools the model is always shown."""
        return tuple(tool for tool in self.tools if not tool.deferred)

    @property
    def deferred(self) -> tuple[ToolSpec, ...]:
        """Tools the model has to look for."""
        return tuple(tool for tool in self.tools if tool.deferred)
