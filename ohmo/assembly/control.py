"""Builds what people see from outside: status, page, API and metrics."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import cast

from channels.contract import Manifest
from channels.record import record
from ohmo.assembly.channels import Wired, manifests, roles
from ohmo.assembly.clockwork import Clockwork, build_hooks
from ohmo.assembly.deps import Deps, Environment
from ohmo.bus import MessageBus
from ohmo.config.load import Config
from ohmo.contracts.agent import Event
from ohmo.contracts.setup import SetUp
from ohmo.contracts.store import Hint, Store
from ohmo.control.metrics import Metrics, Settled, StatusReporter
from ohmo.control.ports import Ports
from ohmo.control.server import Control, Place, parse_listen
from ohmo.database.cached_answer import CachedAnswer
from ohmo.discovery import load
from ohmo.gateway.people import PeopleDesk, role_of_next
from ohmo.gateway.switchboard import Switchboard
from ohmo.providers import build
from ohmo.replay import Replaying
from ohmo.sessions.pool import Pool
from ohmo.tracing.turn_log import TurnLog
from ohmo.upkeep.watches import MemoryWatch


@record
class HouseWatch:
    """Implements control's ``Watch``."""

    bus: MessageBus
    store: Store

    def events(self) -> AbstractContextManager[AsyncIterator[tuple[str, Event]]]:
        return self.bus.outbound.listen()

    def listen(self, hear: Callable[[Sequence[Hint]], None]) -> Callable[[], None]:
        return self.store.listen(hear)


def build_status(
    deps: Deps,
    model: build.Model,
    pool: Pool,
    board: Switchboard,
    clockwork: Clockwork,
    warnings: tuple[str, ...],
    memory_watch: MemoryWatch,
) -> StatusReporter:
    """``warnings``: those of the start, which stay."""
    config = deps.config
    store = deps.store
    settled = Settled(
        provider=model.explanation,
        model=model.model,
        models=model.models,
        mode=config.permissions.mode,
        day_limit=config.budgets.day,
        started=deps.environment.clock(),
    )
    return StatusReporter(
        settled=settled,
        reports=store,
        sessions=pool,
        channels=board.report,
        cron=clockwork.scheduler.report,
        away=lambda: store.availability.away,
        warnings=lambda: (*warnings, *memory_watch.warnings),
        today=CachedAnswer(lambda: store.usage(days=1)),
        people=CachedAnswer(store.people),
        clock=deps.environment.clock,
    )


def _setup(config: Config) -> SetUp:
    """Imported late: few houses are set up twice. ``os.environ`` is what the process was given,
    without what .env adds."""
    make = cast(
        "Callable[[Config, Mapping[str, str], Mapping[str, Manifest]], SetUp]",
        load("ohmo.setup.config_editor:ConfigEditor"),
    )
    return make(config, os.environ, manifests()[0])


def build_control(
    deps: Deps,
    wired: Wired,
    clockwork: Clockwork,
    status: StatusReporter,
    replaying: Replaying,
    no_such: Callable[[str], Awaitable[str]],
) -> Control:
    config = deps.config
    environment = deps.environment
    store = deps.store
    publish = deps.bus.publish_wake
    parse = deps.connections.parse
    chosen = "default_role" in config.access.model_fields_set
    owner_named = "owner" in roles(config).named.values()
    role = role_of_next(config.access.default_role, chosen=chosen, owner_named=owner_named)
    ports = Ports(
        reports=store,
        status=status,
        watch=HouseWatch(deps.bus, store),
        publish_wake=publish,
        approvals=deps.approvals,
        people=PeopleDesk(store, store, deps.access, environment.clock, role, deps.bus.publish),
        repair=store,
        keeping=store,
        parse_address=parse,
        browser=wired.browser,
        log=config.home.log,
        cron=clockwork.desk,
        hooks=build_hooks(config, environment, store, publish, parse),
        replay=replaying,
        no_such_model=no_such,
        setup=partial(_setup, config),
    )
    listen = parse_listen(config.control.listen) if config.control.listen is not None else None
    runtime = environment.environ.get("XDG_RUNTIME_DIR")
    place = Place(
        config.home.root / "run",
        listen,
        frozenset(config.control.names),
        Path(runtime) if runtime else None,
    )
    return Control(
        ports,
        place,
        metrics_of(config, environment),
        new_id=environment.new_id,
        clock=environment.clock,
        told=TurnLog().event,
    )


def metrics_of(config: Config, environment: Environment) -> Metrics | None:
    return environment.metrics if config.control.metrics else None
