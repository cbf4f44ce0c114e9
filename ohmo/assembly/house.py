"""Builds the whole house around an open store; starts nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast

from channels.contract import Manifest
from channels.record import record
from ohmo.assembly.agent import (
    AgentParts,
    build_agent,
    environ_of,
    no_such_model,
    own_home,
    redactor,
)
from ohmo.assembly.channels import Wired, manifests, roles
from ohmo.assembly.clockwork import ClockLinks, Clockwork, build_clockwork
from ohmo.assembly.desk import HouseDesk
from ohmo.assembly.doors import HouseApprovals, HouseWatch, address_parser, publish_wake
from ohmo.assembly.ground import Ground, HouseStore, Knot
from ohmo.assembly.people import HousePeople, role_of_next
from ohmo.assembly.plans import Plans
from ohmo.assembly.replaying import Replaying
from ohmo.assembly.rulebooks import Elder, Rulebook, Rulebooks, policy_of, rulebook, sensitive_of
from ohmo.assembly.seams import Seams
from ohmo.assembly.speaking import build_board
from ohmo.assembly.status import Truth
from ohmo.assembly.thinking import build_pool
from ohmo.assembly.watching import Sent, TurnLog
from ohmo.assembly.webhooks import build_hooks
from ohmo.bus import MessageBus
from ohmo.commands.contract import ORDER, Command, is_order
from ohmo.config.load import Config
from ohmo.contracts.setup import SetUp
from ohmo.contracts.turns import ThreadSettings
from ohmo.control.metrics import Metrics
from ohmo.control.ports import Ports
from ohmo.control.server import Control, Place
from ohmo.control.sockets import parse_listen
from ohmo.discovery import load, scan
from ohmo.gateway.access import Access
from ohmo.gateway.away import Away
from ohmo.gateway.cards import lapsing
from ohmo.gateway.errands import Errands
from ohmo.gateway.intake import Intake
from ohmo.gateway.intake_parts import IntakeParts
from ohmo.gateway.notices import DASHBOARD, INDOORS, Notices, owners_of
from ohmo.gateway.questions import Granting, OpenQuestions
from ohmo.gateway.queueing import Queueing
from ohmo.gateway.switchboard import Switchboard
from ohmo.gateway.whispers import Whispers
from ohmo.providers import build
from ohmo.sessions.clock import Clockwatch
from ohmo.sessions.pool import Pool
from ohmo.store.engines.cached_answer import Sparing
from ohmo.upkeep.cgroup import memory_share
from ohmo.upkeep.full_auto import FullAuto
from ohmo.upkeep.memory_watch import MemoryWatch
from ohmo.upkeep.store_watch import StoreWatch


@record(kw_only=True)
class House:
    """Everything that lives, not yet started: ``ohmo.daemon.life`` starts it."""

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
    # what the way leans on
    agent: AgentParts
    access: Access
    books: Rulebooks
    questions: OpenQuestions
    clockwork: Clockwork
    # who tells and shows
    notices: Notices
    control: Control
    truth: Truth
    replaying: Replaying
    # who watches the clock, the disk and the memory
    clockwatch: Clockwatch
    storewatch: StoreWatch
    memorywatch: MemoryWatch
    full_auto: FullAuto
    again: asyncio.Event  # set: this life shall end, and the next begin

    def tighten(self, config: Config) -> None:
        """``config`` is about to replace this house's: what it forbids is forbidden at once, what
        it allows waits for new turns. Raises ConfigError."""
        home = own_home(self.seams)
        policy = policy_of(config, home, sensitive_of(config, home), environ_of(self.seams)["PATH"])
        coming = rulebook(config, policy, self.access.people)
        self.books.coming = coming
        self.access.tighten(coming.access)

    def book(self) -> Rulebook:
        """What it let be done, for turns that outlive it."""
        return rulebook(self.config, self.agent.policy, self.access.people, self.wired.policy)

    async def expire(self) -> None:
        """Overdue questions become denials."""
        await self.store.expire(self.clockwork.cards, lapsing(self.seams.new_id))


def commands() -> Mapping[str, Command]:
    """Every slash command by name, in the order in which they are listed."""
    found = {
        name: one
        for name, one in scan("ohmo.commands", "COMMAND").items()
        if isinstance(one, Command)
    }
    return dict(
        sorted(
            found.items(), key=lambda item: ORDER.index(item[0]) if item[0] in ORDER else len(ORDER)
        )
    )


async def build_house(
    config: Config,
    seams: Seams,
    store: HouseStore,
    wired: Wired,
    model: build.Model,
    *,
    warnings: tuple[str, ...],
    sent: Sent | None = None,
    elders: Sequence[Elder] = (),
) -> House:
    """Reads who is known; everything else waits for the daemon. ``sent``: who is told how each
    delivery went. ``elders``: earlier configurations of this process."""
    errands, known = Errands(), commands()
    questions = OpenQuestions(store)
    access = await _access(config, store, wired, known, questions, errands)

    knot = Knot(store)
    metrics = seams.metrics if config.control.metrics else None
    bus = MessageBus(
        seat=access.seat,
        accept=knot.accept,
        tell=knot.tell,
        failpoint=seams.failpoint,
        bound=config.limits.queue,
        acknowledged=metrics.acknowledged if metrics is not None else None,
    )
    owners = owners_of(config.owner, roles(config).named)
    wired.door.owners, wired.door.model = owners, model.model
    dashboard = INDOORS if wired.browser is None else DASHBOARD
    notices = Notices(
        store,
        owners,
        address_of=knot.address,
        new_id=seams.new_id,
        clock=seams.clock,
        dashboard=dashboard,
    )
    links = ClockLinks(
        publish=partial(publish_wake, bus),
        resolve=knot.parse,
        notices=notices,
        reach=knot.address,
        errands=errands,
    )
    clockwork = build_clockwork(config, seams, store, links)
    ground = Ground(config, seams, store, bus, access, notices, wired, clockwork, redactor(config))

    books = Rulebooks(elders)
    agent = build_agent(
        config,
        seams,
        model,
        store.grants,
        clockwork.tools(store.thread),
        books.others,
        knot.largest,
    )
    plans = Plans(config, agent, access, books, seams.clock)
    knot.pool = pool = build_pool(ground, agent, plans, knot)
    knot.board = board = build_board(ground, pool, known, sent)

    memorywatch = MemoryWatch(pool, notices, memory_share)
    truth = Truth(
        reports=store,
        pool=pool,
        board=board,
        provider=model.explanation,
        model=model.model,
        started=seams.clock(),
        warnings=lambda: (*warnings, *wired.broken, *memorywatch.warnings),
        cron=clockwork.scheduler.report,
        limit=config.budgets.day,
        away=lambda: store.pulse.away,
        today=Sparing(lambda: store.usage(days=1)),
        people=Sparing(store.people),
        clock=seams.clock,
        mode=config.permissions.mode,
        models=model.models,
    )
    desk = HouseDesk(
        store=store,
        reports=store,
        house=truth,
        turn_of=pool.running_turn,
        known=known,
        cards=questions,
        access=access,
        now=seams.clock,
        clock=clockwork.desk,
        configured=model.models,
        zone=clockwork.zone,
    )
    again, full_auto = asyncio.Event(), FullAuto(store, store, seams.clock, config.permissions.mode)
    knot.intake = intake = _intake(ground, pool, board, desk, again, questions, full_auto)
    replaying = Replaying(store, plans.of, agent)
    return House(
        config=config,
        seams=seams,
        store=store,
        wired=wired,
        bus=bus,
        intake=intake,
        pool=pool,
        board=board,
        agent=agent,
        access=access,
        books=books,
        questions=questions,
        clockwork=clockwork,
        notices=notices,
        control=_control(
            ground, board, truth, desk, metrics, replaying, partial(no_such_model, model)
        ),
        truth=truth,
        replaying=replaying,
        clockwatch=Clockwatch(
            seams.clock,
            store.rebase,
            followed=clockwork.scheduler.look_again,
            marks=seams.marks(config.home.root),
        ),
        storewatch=StoreWatch(store, notices, board.say_now, seams.new_id),
        memorywatch=memorywatch,
        full_auto=full_auto,
        again=again,
    )


async def _access(
    config: Config,
    store: HouseStore,
    wired: Wired,
    known: Mapping[str, Command],
    questions: OpenQuestions,
    errands: Errands,
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
        errand=errands.of,
    )
    access.learn(await store.people())
    await questions.refresh()
    wired.door.access = access
    return access


def _intake(
    ground: Ground,
    pool: Pool,
    board: Switchboard,
    desk: HouseDesk,
    again: asyncio.Event,
    questions: OpenQuestions,
    full_auto: FullAuto,
) -> Intake:
    seams, store, bus, clockwork = ground.seams, ground.store, ground.bus, ground.clockwork

    def chose(thread: str, settings: ThreadSettings) -> None:
        pool.chose(thread, settings.busy)
        if settings.free_until is not None:
            full_auto.begun()

    return Intake(
        IntakeParts(
            store=store,
            access=ground.access,
            commands=desk.known,
            desk=desk,
            stopped=pool.stopped,
            rest=pool.rest,
            arrived=pool.arrived,
            chose=chose,
            acknowledge=board.acknowledge,
            drafted=board.drafted,
            away=Away(store.post, seams.clock, desk.zone),
            queueing=Queueing(questions.at, seams.clock, desk.zone),
            cards=questions.shown,
            new_id=seams.new_id,
            clock=seams.clock,
            failpoint=seams.failpoint,
            card=clockwork.cards,
            whispers=Whispers(board.whisper, seams.clock),
            restart=again.set,
            publish=lambda wake: publish_wake(bus, wake, None),
            terms=clockwork.desk.terms_at,
        )
    )


def _people(ground: Ground) -> HousePeople:
    config = ground.config
    chosen, named = (
        "default_role" in config.access.model_fields_set,
        "owner" in roles(config).named.values(),
    )
    role = role_of_next(config.access.default_role, chosen=chosen, owner_named=named)
    return HousePeople(
        ground.store, ground.store, ground.access, ground.seams.clock, role, ground.bus.publish
    )


def _setup(config: Config) -> SetUp:
    """Imported late: few houses are set up twice. ``os.environ`` is what the process was given,
    without what .env adds."""
    make = cast(
        "Callable[[Config, Mapping[str, str], Mapping[str, Manifest]], SetUp]",
        load("ohmo.setup.desk:SetupDesk"),
    )
    return make(config, os.environ, manifests()[0])


def _control(
    ground: Ground,
    board: Switchboard,
    truth: Truth,
    desk: HouseDesk,
    metrics: Metrics | None,
    replaying: Replaying,
    no_such: Callable[[str], Awaitable[str]],
) -> Control:
    config, seams, store, bus, clockwork = (
        ground.config,
        ground.seams,
        ground.store,
        ground.bus,
        ground.clockwork,
    )
    publish, parse = partial(publish_wake, bus), address_parser(board)
    granting = Granting(desk.thread, seams.new_id, seams.clock)
    ports = Ports(
        reports=store,
        status=truth,
        watch=HouseWatch(bus, store),
        publish_wake=publish,
        approvals=HouseApprovals(store, granting, seams.new_id, seams.failpoint, clockwork.cards),
        people=_people(ground),
        repair=store,
        keeping=store,
        parse_address=parse,
        browser=ground.wired.browser,
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
        ports, place, metrics, new_id=seams.new_id, clock=seams.clock, told=TurnLog().event
    )
