"""What people see of the house from outside: page, API and metrics."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import cast

from channels.contract import Manifest
from ohmo.approvals.trusting import TrustDesk
from ohmo.assembly.agent import AgentParts, no_such_model
from ohmo.assembly.budgets import limits_of
from ohmo.assembly.clockwork import Clockwork, build_hooks
from ohmo.assembly.deps import Deps, Environment, HouseWatch
from ohmo.assembly.messages import Wired, manifests, roles
from ohmo.config.load import Config
from ohmo.contracts.setup import SetUp
from ohmo.control.metrics import Metrics
from ohmo.control.ports import Ports, StatusReporter
from ohmo.control.server import Control, Place, parse_listen
from ohmo.discovery import load
from ohmo.gateway.people import PeopleDesk, role_of_next
from ohmo.replay import Replaying
from ohmo.tracing.turn_log import TurnLog


def _setup(config: Config) -> SetUp:
    """Imported late. ``os.environ``: what the process was given, without what .env adds."""
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
    agent: AgentParts,
    trusting: TrustDesk,
) -> Control:
    config = deps.config
    environment = deps.environment
    store = deps.store
    parse = deps.connections.parse
    chosen = "default_role" in config.access.model_fields_set
    owner_named = "owner" in roles(config).named.values()
    role = role_of_next(config.access.default_role, chosen=chosen, owner_named=owner_named)
    ports = Ports(
        reports=store,
        status=status,
        watch=HouseWatch(deps.bus, store),
        publish_wake=deps.bus.publish_wake,
        approvals=deps.approvals,
        people=PeopleDesk(store, store, deps.access, environment.clock, role, deps.bus.publish),
        repair=store,
        keeping=store,
        parse_address=parse,
        browser=wired.browser,
        log=config.home.log,
        cron=clockwork.desk,
        hooks=build_hooks(config, environment, store, deps.bus.publish_wake, parse),
        replay=replaying,
        context=replaying.context,
        limits=limits_of(config.budgets),
        no_such_model=partial(no_such_model, agent.model),
        trace=deps.trace,
        setup=partial(_setup, config),
        tidying=agent.tidying,
        trial=agent.trial(config.workspace),
        trusting=trusting,
        servers=agent.servers,
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
