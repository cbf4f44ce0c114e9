"""Who watches what turns do: the log, and traces when an OTLP endpoint is named."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import structlog

import ohmo
from channels.record import record
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.events import (
    Event,
    Failure,
    ModelDone,
    ToolDone,
    ToolRefused,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from ohmo.contracts.store import OutRow
from ohmo.discovery import load
from ohmo.gateway.sending import Done, Sender
from ohmo.tracing import endpoint

log = structlog.get_logger("ohmo.turns")
Sent = Callable[[OutRow, str, float], None]


def spans(environ: Mapping[str, str]) -> Any | None:
    """``ohmo.tracing.spans.Spans``; None when no endpoint is named, and then nothing is imported.
    Raises ConfigError: its package is missing."""
    url = endpoint(environ)
    if url is None:
        return None
    try:
        found = load("ohmo.tracing.spans:Spans")
    except ConfigError as error:
        raise ConfigError(
            f"traces are wanted at {url}, but OpenTelemetry is not installed; pip install"
            " 'ohmo[otel]'"
        ) from error
    return cast("Callable[[str, Mapping[str, str], str], Any]", found)(
        url, environ, ohmo.__version__
    )


@record
class WatchedSender:
    """Tells ``sent`` how each row went and how many seconds it took."""

    sender: Sender
    sent: Sent

    def wait(self, row: OutRow) -> float:
        return self.sender.wait(row)

    async def send(self, row: OutRow, tries: int = 0) -> Done:
        began = time.monotonic()
        done = await self.sender.send(row, tries)
        self.sent(row, done.state, time.monotonic() - began)
        return done


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
