"""A line of the log for each tool that ended, each failure, and the end of each turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from ohmo.contracts.agent import (
    Event,
    Failure,
    ModelDone,
    ToolDone,
    ToolRefused,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)

log = structlog.get_logger("ohmo.turns")


@dataclass(slots=True)
class _Run:
    """What is known of a turn that runs. ``tools``: by call, its name and when it began."""

    channel: str
    began: float
    calls: int = 0
    tokens: int = 0
    tools: dict[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])


class TurnLog:
    """A line for each tool that ended, each failure, and the end of each turn, with thread, turn
    and channel: `ohmo logs --thread` tells what happened. What people, models and tools said never
    stands there; why a turn failed does. ``monotonic``: seconds."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._runs: dict[str, _Run] = {}

    def event(self, thread: str, event: Event) -> None:
        """Never fails and never waits. A turn whose start was not heard is passed over."""
        now = self._monotonic()
        if isinstance(event, TurnStarted):
            self._runs[event.turn] = _Run(
                event.address.channel if event.address is not None else "", now
            )
            return
        if (run := self._runs.get(event.turn)) is None:
            return
        place = {"turn": event.turn, "thread": thread, "channel": run.channel}
        match event:
            case ModelDone():
                run.calls += 1
                run.tokens += event.usage.tokens
            case ToolStarted(_, call, name) | ToolRefused(_, call, name):
                run.tools[call] = (name, now)
            case ToolDone() if (ran := run.tools.pop(event.call, None)) is not None:
                log.info(
                    "tool_ended",
                    **place,
                    tool=ran[0],
                    ok=not event.result.error,
                    seconds=round(now - ran[1], 3),
                )
            case Failure():
                log.warning("turn_failure", **place, error=event.text, fatal=event.fatal)
            case TurnEnded():
                del self._runs[event.turn]
                log.info(
                    "turn_ended",
                    **place,
                    outcome=event.outcome,
                    seconds=round(now - run.began, 3),
                    model_calls=run.calls,
                    tokens=run.tokens,
                )
            case _:
                pass
