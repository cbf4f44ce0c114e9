"""Builds the whole house around an open store; starts nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import cast

from channels.contract import Manifest
from channels.record import record
from ohmo.approvals.answering import Approvals, Granting
from ohmo.approvals.cards import JobPeople, routed
from ohmo.approvals.lapsing import LateAnswers, LateDeps, expire
from ohmo.approvals.questions import OpenQuestions
from ohmo.assembly.agent import AgentParts, build_agent, no_such_model
from ohmo.assembly.channels import Wired, manifests, roles
from ohmo.assembly.clockwork import ClockLinks, Clockwork, build_clockwork
from ohmo.assembly.deps import Deps, HouseStore
from ohmo.assembly.desk import HouseDesk
from ohmo.assembly.doors import HouseWatch, publish_wake
from ohmo.assembly.plans import Plans
from ohmo.assembly.seams import Seams
from ohmo.assembly.sessions import build_pool
from ohmo.assembly.switchboard import build_board
from ohmo.assembly.webhooks import build_hooks
from ohmo.bus.bus import MessageBus
from ohmo.commands.contract import Command, is_order, listed
from ohmo.config.channels import open_channels
from ohmo.config.load import Config
from ohmo.contracts.setup import SetUp
from ohmo.contracts.turns import ThreadSettings
from ohmo.control.metrics import Metrics, Settled, StatusReporter
from ohmo.control.ports import Ports
from ohmo.control.server import Control, Place, parse_listen
from ohmo.database.cached_answer import CachedAnswer
from ohmo.discovery import load, scan
from ohmo.gateway.access import Access
from ohmo.gateway.accounts import Accounts
from ohmo.gateway.answering import Answering, AnsweringDeps
from ohmo.gateway.connections import Connections
from ohmo.gateway.intake import Intake, IntakeDeps
from ohmo.gateway.notices import (
    DASHBOARD,
    INDOORS,
    Courtesies,
    EphemeralNotice,
    LateNotice,
    Notices,
    WaitingNotice,
    owners_of,
)
from ohmo.gateway.orders import Orders, OrdersDeps, Turns
from ohmo.gateway.people import PeopleDesk, role_of_next
from ohmo.gateway.sending import Sent
from ohmo.gateway.switchboard import Switchboard
from ohmo.permissions.policy_of import snapshot_of
from ohmo.providers import build
from ohmo.replay import Replaying
from ohmo.sessions.clock import Clockwatch
from ohmo.sessions.pool import Pool
from ohmo.tracing.turn_log import TurnLog
from ohmo.upkeep.full_auto import FullAuto
from ohmo.upkeep.watches import MemoryWatch, StoreWatch, memory_share


@record(kw_only=True)
class House:
    """Everything that lives, not yet started: ``ohmo.daemon.startup`` starts it."""

    # what it was built from
    config: Config
    seams: Seams
    store: HouseStore
    wired: Wired
    # the way of a message, in its order
    bus: MessageBus
    intake: Intake
    pool: Pool
    board: Switchboard
    connections: Connections
    # what the way leans on
    agent: AgentParts
    access: Access
    questions: OpenQuestions
    approvals: Approvals
    clockwork: Clockwork
    # who tells and shows
    notices: Notices
    control: Control
    status: StatusReporter
    replaying: Replaying
    # who watches the clock, the disk and the memory
    clockwatch: Clockwatch
    store_watch: StoreWatch
    memory_watch: MemoryWatch
    full_auto: FullAuto
    again: asyncio.Event  # set: this life shall end, and the next begin

    def adopt(self, config: Config) -> None:
        """``config`` is about to replace this house's: what it forbids is forbidden at once, also
        in turns that run; what it allows is allowed in turns that begin now. Raises ConfigError,
        ValueError."""
        self.agent.policies.adopt(snapshot_of(config))
        coming = Accounts(open_channels(config.channels, manifests()[0]))
        self.access.adopt(coming.policy, roles(config))

    async def expire(self) -> None:
        """Overdue questions become denials."""
        await expire(self.store, self.approvals.card, self.seams.new_id)


def commands() -> Mapping[str, Command]:
    """Every slash command by name, in the order in which they are listed."""
    return listed(scan("ohmo.commands", "COMMAND"))


async def build_house(
    config: Config,
    seams: Seams,
    store: HouseStore,
    wired: Wired,
    model: build.Model,
    *,
    warnings: tuple[str, ...],
    sent: Sent | None = None,
) -> House:
    """Reads who is known; everything else waits for the daemon. ``sent``: who is told how each
    delivery went."""
    job_people = JobPeople()
    known = commands()
    questions = OpenQuestions(store)
    access = await _access(config, store, wired, known, questions, job_people)
    wired.door.model = model.model
    deps = _deps(config, seams, store, wired, access, job_people)
    clockwork = build_clockwork(
        config,
        seams,
        store,
        ClockLinks(
            publish=partial(publish_wake, deps.bus),
            resolve=deps.connections.parse,
            notices=deps.notices,
            reach=deps.connections.address,
            job_people=job_people,
            withdraw=deps.approvals.withdraw,
        ),
    )
    agent = build_agent(
        config,
        model,
        call=seams.call or model.call,
        environ=seams.environ,
        failpoint=seams.failpoint,
        grants=store.grants,
        cron=clockwork.tools(store.thread),
        largest=deps.connections.largest,
    )
    plans = Plans(config, agent, access, seams.clock)
    pool = build_pool(deps, agent, plans, clockwork, wired)
    board = build_board(deps, wired.links, pool, known, clockwork.zone, sent)
    memory_watch = MemoryWatch(pool, deps.notices, memory_share)
    status = _status(
        deps,
        model,
        pool,
        board,
        clockwork,
        lambda: (*warnings, *wired.broken, *memory_watch.warnings),
    )
    desk = HouseDesk(
        store=store,
        reports=store,
        house=status,
        turn_of=pool.running_turn,
        known=known,
        cards=questions,
        access=access,
        now=seams.clock,
        clock=clockwork.desk,
        configured=model.models,
        zone=clockwork.zone,
    )
    again = asyncio.Event()
    full_auto = FullAuto(store, store, seams.clock, config.permissions.mode)
    intake = _intake(deps, pool, clockwork, desk, again, questions, full_auto)
    deps.bus.subscribe(storing=pool.storing, stored=intake.hear)
    replaying = Replaying(
        store, plans.of, agent.model.renderings, agent.model.models, agent.known, agent.gate
    )
    return House(
        config=config,
        seams=seams,
        store=store,
        wired=wired,
        bus=deps.bus,
        intake=intake,
        pool=pool,
        board=board,
        connections=deps.connections,
        agent=agent,
        access=access,
        questions=questions,
        approvals=deps.approvals,
        clockwork=clockwork,
        notices=deps.notices,
        control=_control(deps, wired, clockwork, status, replaying, partial(no_such_model, model)),
        status=status,
        replaying=replaying,
        clockwatch=Clockwatch(
            seams.clock,
            store.rebase,
            followed=clockwork.scheduler.look_again,
            marks=seams.marks(config.home.root),
        ),
        store_watch=StoreWatch(store, deps.notices, deps.connections.say_now, seams.new_id),
        memory_watch=memory_watch,
        full_auto=full_auto,
        again=again,
    )


def _deps(
    config: Config,
    seams: Seams,
    store: HouseStore,
    wired: Wired,
    access: Access,
    job_people: JobPeople,
) -> Deps:
    connections = Connections([link.name for link in wired.links if link.name != "house"])
    metrics = _metrics(config, seams)
    bus = MessageBus(
        seat=access.seat,
        accept=store.accept,
        failpoint=seams.failpoint,
        bound=config.limits.queue,
        acknowledged=metrics.acknowledged if metrics is not None else None,
    )
    owners = owners_of(config.owner, roles(config).named)
    wired.door.owners = owners
    notices = Notices(
        store,
        owners,
        address_of=connections.address,
        new_id=seams.new_id,
        clock=seams.clock,
        dashboard=INDOORS if wired.browser is None else DASHBOARD,
    )
    cards = routed(notices.owner_place, job_people)
    granting = Granting(store.thread, seams.new_id, seams.clock)
    approvals = Approvals(store, cards, granting, seams.new_id, seams.failpoint)
    return Deps(config, seams, store, bus, access, notices, connections, approvals)


def _metrics(config: Config, seams: Seams) -> Metrics | None:
    return seams.metrics if config.control.metrics else None


def _status(
    deps: Deps,
    model: build.Model,
    pool: Pool,
    board: Switchboard,
    clockwork: Clockwork,
    warnings: Callable[[], tuple[str, ...]],
) -> StatusReporter:
    config = deps.config
    store = deps.store
    settled = Settled(
        provider=model.explanation,
        model=model.model,
        models=model.models,
        mode=config.permissions.mode,
        day_limit=config.budgets.day,
        started=deps.seams.clock(),
    )
    return StatusReporter(
        settled=settled,
        reports=store,
        sessions=pool,
        channels=board.report,
        cron=clockwork.scheduler.report,
        away=lambda: store.availability.away,
        warnings=warnings,
        today=CachedAnswer(lambda: store.usage(days=1)),
        people=CachedAnswer(store.people),
        clock=deps.seams.clock,
    )


async def _access(
    config: Config,
    store: HouseStore,
    wired: Wired,
    known: Mapping[str, Command],
    questions: OpenQuestions,
    job_people: JobPeople,
) -> Access:
    """Who may speak, approve and command; the browser's door asks it too."""
    access = Access(
        wired.policy,
        roles(config),
        is_command=lambda text: is_order(text, known),
        open_question=questions.at,
        may_ask=questions.may_ask,
        aimed=questions.aimed,
        per_person=config.sessions.scope == "per_person",
        asks_for=job_people.of,
    )
    access.learn(await store.people())
    await questions.refresh()
    wired.door.access = access
    return access


def _intake(
    deps: Deps,
    pool: Pool,
    clockwork: Clockwork,
    desk: HouseDesk,
    again: asyncio.Event,
    questions: OpenQuestions,
    full_auto: FullAuto,
) -> Intake:
    seams = deps.seams
    connections = deps.connections

    def chose(thread: str, settings: ThreadSettings) -> None:
        pool.chose(thread, settings.busy)
        if settings.free_until is not None:
            full_auto.begun()

    turns = Turns(
        stopped=pool.stopped,
        arrived=pool.arrived,
        chose=chose,
        drafted=connections.drafted,
        rest=pool.rest,
    )
    answering = _answering(deps, clockwork, desk, questions)
    orders = Orders(
        OrdersDeps(
            store=deps.store,
            commands=desk.known,
            desk=desk,
            turns=turns,
            answering=answering,
            new_id=seams.new_id,
            clock=seams.clock,
            restart=again.set,
        )
    )
    courtesies = Courtesies(
        post=deps.store.post,
        late=LateNotice(seams.clock, desk.zone),
        waiting=WaitingNotice(questions.at, seams.clock, desk.zone),
        ephemeral=EphemeralNotice(connections.whisper, seams.clock),
    )
    return Intake(
        IntakeDeps(
            store=deps.store,
            access=deps.access,
            orders=orders,
            answering=answering,
            turns=turns,
            courtesies=courtesies,
            new_id=seams.new_id,
            clock=seams.clock,
        )
    )


def _answering(
    deps: Deps, clockwork: Clockwork, desk: HouseDesk, questions: OpenQuestions
) -> Answering:
    late = LateAnswers(
        LateDeps(
            store=deps.store,
            publish=lambda wake: publish_wake(deps.bus, wake, None),
            standing_of=deps.access.standing_of,
            terms=clockwork.desk.terms_at,
            thread=deps.store.thread,
            clock=deps.seams.clock,
        )
    )
    return Answering(
        AnsweringDeps(
            store=deps.store,
            access=deps.access,
            desk=desk,
            approvals=deps.approvals,
            late=late,
            cards=questions.shown,
            acknowledge=deps.connections.acknowledge,
            new_id=deps.seams.new_id,
        )
    )


def _people(deps: Deps) -> PeopleDesk:
    config = deps.config
    chosen, named = (
        "default_role" in config.access.model_fields_set,
        "owner" in roles(config).named.values(),
    )
    role = role_of_next(config.access.default_role, chosen=chosen, owner_named=named)
    return PeopleDesk(deps.store, deps.store, deps.access, deps.seams.clock, role, deps.bus.publish)


def _setup(config: Config) -> SetUp:
    """Imported late: few houses are set up twice. ``os.environ`` is what the process was given,
    without what .env adds."""
    make = cast(
        "Callable[[Config, Mapping[str, str], Mapping[str, Manifest]], SetUp]",
        load("ohmo.setup.config_editor:ConfigEditor"),
    )
    return make(config, os.environ, manifests()[0])


def _control(
    deps: Deps,
    wired: Wired,
    clockwork: Clockwork,
    status: StatusReporter,
    replaying: Replaying,
    no_such: Callable[[str], Awaitable[str]],
) -> Control:
    config = deps.config
    seams = deps.seams
    store = deps.store
    publish = partial(publish_wake, deps.bus)
    parse = deps.connections.parse
    ports = Ports(
        reports=store,
        status=status,
        watch=HouseWatch(deps.bus, store),
        publish_wake=publish,
        approvals=deps.approvals,
        people=_people(deps),
        repair=store,
        keeping=store,
        parse_address=parse,
        browser=wired.browser,
        log=config.home.log,
        cron=clockwork.desk,
        hooks=build_hooks(config, seams, store, publish, parse),
        replay=replaying,
        no_such_model=no_such,
        setup=partial(_setup, config),
    )
    listen = parse_listen(config.control.listen) if config.control.listen is not None else None
    runtime = seams.environ.get("XDG_RUNTIME_DIR")
    place = Place(
        config.home.root / "run",
        listen,
        frozenset(config.control.names),
        Path(runtime) if runtime else None,
    )
    return Control(
        ports,
        place,
        _metrics(config, seams),
        new_id=seams.new_id,
        clock=seams.clock,
        told=TurnLog().event,
    )
