"""What every builder of the house is handed: the outside world (time, ids, environment, failpoints;
tests bring their own), and what was built first."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from datetime import UTC, datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast
from uuid import uuid4

import ohmo
from channels.record import record
from channels.text import wall
from ohmo.ambient import Ambient, Failpoint, IdSource, NewId, inert
from ohmo.approvals.answering import Approvals
from ohmo.assembly.walls import Walled, redactor
from ohmo.bus import MessageBus
from ohmo.config.load import Config
from ohmo.contracts.agent import Event
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.provider import Call
from ohmo.contracts.reports import Reports
from ohmo.contracts.store import Hint, Store
from ohmo.contracts.trust import Trusts
from ohmo.contracts.turns import CheckpointRows
from ohmo.control.logs import Tracing
from ohmo.control.metrics import Metrics
from ohmo.cron.scheduler import Alarm
from ohmo.database.store_health import Availability
from ohmo.database.tracing import Trace, Traces
from ohmo.discovery import load
from ohmo.gateway.access import Access
from ohmo.gateway.connections import Connections
from ohmo.gateway.notices import Notices
from ohmo.sessions.clock import HeldClock, MarkFile, boot_id
from ohmo.sessions.exporting import Exporting
from ohmo.shell.parsing import DEFAULT_PATH
from ohmo.tools.workbench import BackgroundJobs
from ohmo.tracing import endpoint


@record
class Environment:
    """``call``: a scripted model for journeys, None: what the profile says. ``alarm``: waits for a
    moment of ``clock``, None: by the timers of the loop. ``owner``: what this life calls itself in
    leases; never twice the same, because a process id is (in a container always). ``boot``: names
    this start of the machine. ``metrics``, ``began`` (when the daemon did) and ``background``, what
    runs for tools beside turns, go on when a changed configuration begins another life of the
    house."""

    clock: HeldClock = field(default_factory=HeldClock)
    new_id: NewId = field(default_factory=IdSource)
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    failpoint: Failpoint = inert
    call: Call | None = None
    alarm: Alarm | None = None
    owner: str = field(
        default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
    )
    boot: str = field(default_factory=boot_id)
    metrics: Metrics = field(default_factory=Metrics)
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    background: BackgroundJobs = field(default_factory=lambda: BackgroundJobs(8))

    @property
    def commands(self) -> Mapping[str, str]:
        """What programs are run with."""
        return finding_programs(self.environ)

    @property
    def ambient(self) -> Ambient:
        """What rooms need to know of this process."""
        return Ambient(self.new_id, self.clock, self.failpoint)

    def marks(self, home: Path) -> MarkFile:
        """What is remembered of the clock in this home."""
        return MarkFile(home / "run" / "clock.json", self.boot)

    def recall(self, home: Path) -> None:
        """Before the store is opened: what it writes has to be of the same time as what waits in
        it."""
        mark = self.marks(home).read()
        if mark is not None:
            self.clock.recall(mark)


def spans(environ: Mapping[str, str]) -> Any | None:
    """``ohmo.tracing.spans.Spans``; None when no endpoint is named, and then nothing is imported.
    Raises ConfigError: its package is missing."""
    url = endpoint(environ)
    if url is None:
        return None
    try:
        spans_class = load("ohmo.tracing.spans:Spans")
    except ConfigError as error:
        raise ConfigError(
            f"traces are wanted at {url}, but OpenTelemetry is not installed; pip install"
            " 'ohmo[otel]'"
        ) from error
    make = cast("Callable[[str, Mapping[str, str], str], Any]", spans_class)
    return make(url, environ, ohmo.__version__)


class HouseStore(Store, Reports, CheckpointRows, Trusts, Traces, Protocol):
    """What both drivers are: the durable store and its reports."""

    availability: Availability  # whether it takes what is written
    fatal: asyncio.Future[str]  # resolved with one line when only a restart can help

    async def watch(self, changed: Callable[[str], Awaitable[None]]) -> None: ...


@record
class Deps:
    """Built first; everything else is built from these."""

    config: Config
    environment: Environment
    store: HouseStore
    bus: MessageBus
    access: Access
    notices: Notices
    connections: Connections
    approvals: Approvals
    walled: Walled

    @property
    def trace(self) -> Callable[[str], Awaitable[Trace | None]]:
        """Everything one message caused."""
        return Tracing(self.store, self.config.home.log, redactor(self.config)).trace

    def exporting(self, zone: tzinfo) -> Exporting:
        """``zone``: in which times are told."""
        redact, spill = redactor(self.config), self.config.home.spill
        largest = self.connections.largest
        return Exporting(self.store, spill, redact, partial(wall, zone=zone), largest)


@record
class HouseWatch:
    """Implements control's ``Watch``."""

    bus: MessageBus
    store: Store

    @property
    def dropped(self) -> int:
        return self.bus.outbound.dropped

    def events(self) -> AbstractContextManager[AsyncIterator[tuple[str, Event]]]:
        return self.bus.outbound.listen("streams")

    def listen(self, hear: Callable[[Sequence[Hint]], None]) -> Callable[[], None]:
        return self.store.listen(hear)


def finding_programs(environ: Mapping[str, str]) -> Mapping[str, str]:
    """With a PATH on which nothing counts from the working directory, where a repository could
    place a ``git`` of its own. Commands find ``ohmo`` itself; whatever else has the name comes
    first."""
    path = environ.get("PATH", DEFAULT_PATH)
    absolute = [folder for folder in path.split(":") if folder.startswith("/")]
    path = ":".join(absolute) or DEFAULT_PATH
    own = str(Path(sys.executable).parent)
    there = not Path(own, "ohmo").exists() or own in absolute
    return {**environ, "PATH": path if there else f"{path}:{own}"}
