"""Builds the whole house around an open store; starts nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from channels.record import record
from ohmo.approvals.answering import Approvals, Granting
from ohmo.approvals.cards import JobPeople, routed
from ohmo.approvals.lapsing import expire
from ohmo.approvals.questions import OpenQuestions
from ohmo.approvals.trust_cards import TrustCards
from ohmo.approvals.trust_orders import TrustOrders
from ohmo.assembly.agent import AgentParts, build_agent
from ohmo.assembly.budgets import asking, limits_of
from ohmo.assembly.checkpoints import build_taking_back
from ohmo.assembly.clockwork import ClockLinks, Clockwork, build_clockwork
from ohmo.assembly.control import build_control, metrics_of
from ohmo.assembly.deps import Deps, Environment, HouseStore
from ohmo.assembly.hooks import build_hook_room
from ohmo.assembly.messages import Wired, build_board, build_intake, build_pool, manifests, roles
from ohmo.assembly.plugins import Brought, build_plugins
from ohmo.assembly.status import build_status
from ohmo.assembly.trust import build_trust
from ohmo.assembly.walls import walls_of
from ohmo.bus import MessageBus
from ohmo.commands.contract import Command, is_order, listed
from ohmo.config.channels import open_channels
from ohmo.config.load import Config
from ohmo.control.ports import StatusReporter
from ohmo.control.server import Control
from ohmo.discovery import scan
from ohmo.gateway.access import Access, Accounts, standing_of
from ohmo.gateway.connections import Connections
from ohmo.gateway.intake import Intake
from ohmo.gateway.memory_orders import MemoryOrders
from ohmo.gateway.notices import DASHBOARD, INDOORS, Notices, owners_of
from ohmo.gateway.orders import CommandQueries
from ohmo.gateway.sending import Sent
from ohmo.gateway.switchboard import Switchboard
from ohmo.permissions.policy import snapshot_of
from ohmo.providers import build
from ohmo.replay import Replaying
from ohmo.sessions.clock import Clockwatch
from ohmo.sessions.planner import Planner, UserSide
from ohmo.sessions.pool import Pool
from ohmo.sessions.user_steps import words_behind
from ohmo.upkeep.watches import FullAuto, MemoryWatch, StoreWatch, memory_share


@record(kw_only=True)
class House:
    """Everything that lives, not yet started: ``ohmo.daemon.startup`` starts it."""

    # what it was built from
    config: Config
    environment: Environment
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
    trust: TrustCards
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
        await expire(self.store, self.approvals.card, self.environment.new_id)


@dataclass(slots=True)
class _Ordered:
    """What of all that is said is for the house. ``brought``: by plugins; known later."""

    known: Mapping[str, Command]
    brought: Brought | None = None

    def are_in(self, text: str) -> bool:
        if self.brought is not None and self.brought.plugins.spelled(words_behind(text)):
            return False  # a message, in the words of a file
        return is_order(text, self.known)


def commands() -> Mapping[str, Command]:
    """Every slash command by name, in the order in which they are listed."""
    return listed(scan("ohmo.commands", "COMMAND"))


async def build_house(
    config: Config,
    environment: Environment,
    store: HouseStore,
    wired: Wired,
    model: build.Model,
    *,
    warnings: tuple[str, ...],
    sent: Sent | None = None,
) -> House:
    """Reads who is known and starts nothing. ``sent``: who is told how each delivery went."""
    job_people = JobPeople()
    questions = OpenQuestions(store)
    orders = _Ordered(commands())
    access = Access(
        wired.policy,
        roles(config),
        is_command=orders.are_in,
        open_question=questions.at,
        may_ask=questions.may_ask,
        aimed=questions.aimed,
        per_person=config.sessions.scope == "per_person",
        asks_for=job_people.of,
    )
    access.learn(await store.people())
    await questions.refresh()
    wired.door.access = access  # the browser's door asks it too
    wired.door.model = model.model
    deps = _deps(config, environment, store, wired, access, job_people)
    links = ClockLinks(
        publish=deps.bus.publish_wake,
        resolve=deps.connections.parse,
        notices=deps.notices,
        reach=deps.connections.address,
        job_people=job_people,
        withdraw=deps.approvals.withdraw,
    )
    clockwork = build_clockwork(config, environment, store, links)
    asked = asking(deps, model, environment.call)
    tell = deps.notices.tell
    known, given = orders.known, environment.commands
    brought = orders.brought = await build_plugins(config, given, store, tell, known)
    agent = build_agent(
        config,
        model,
        asked,
        store,
        environ=environment.commands,
        ambient=environment.ambient,
        background=environment.background,
        cron=clockwork.tools(store.thread),
        largest=deps.connections.largest,
        hooks=partial(build_hook_room, deps, model, asked[1], brought),
        brought=brought,
        walled=deps.walled,
    )
    await agent.policies.projects.refresh()
    return _build(deps, wired, agent, clockwork, questions, warnings, sent)


def _build(
    deps: Deps,
    wired: Wired,
    agent: AgentParts,
    clockwork: Clockwork,
    questions: OpenQuestions,
    warnings: tuple[str, ...],
    sent: Sent | None,
) -> House:
    store = deps.store
    clock = deps.environment.clock
    new_id = deps.environment.new_id
    planner = _planner(deps, agent, clockwork)
    pool = build_pool(deps, agent, planner, clockwork, wired)
    known = commands()
    board = build_board(deps, wired.links, pool, known, clockwork.zone, sent)
    memory_watch = MemoryWatch(pool, deps.notices, memory_share)
    told = (*warnings, *wired.broken, *agent.skipped)
    status = build_status(deps, agent, pool, board, clockwork, told, memory_watch)
    replaying = Replaying(store, planner.of, agent.model, agent.toolbox, agent.gate)
    trust = build_trust(deps, agent)
    desk = _desk(deps, agent, status, pool, questions, clockwork, known, replaying, trust)
    again = asyncio.Event()
    full_auto = FullAuto(store, store, clock, agent.policies.mode)

    async def stopped(thread: str) -> None:
        await pool.stopped(thread)
        if agent.hooks is not None:
            agent.hooks.left(thread)

    intake = build_intake(deps, pool, clockwork, desk, again, questions, full_auto, stopped)
    deps.bus.subscribe(storing=pool.storing, stored=intake.hear)
    marks = deps.environment.marks(deps.config.home.root)
    followed = clockwork.scheduler.look_again
    clockwatch = Clockwatch(clock, store.rebase, followed=followed, marks=marks)
    return House(
        config=deps.config,
        environment=deps.environment,
        store=store,
        wired=wired,
        bus=deps.bus,
        intake=intake,
        pool=pool,
        board=board,
        connections=deps.connections,
        agent=agent,
        access=deps.access,
        questions=questions,
        approvals=deps.approvals,
        clockwork=clockwork,
        notices=deps.notices,
        trust=trust.cards,
        control=build_control(deps, wired, clockwork, status, replaying, agent, trust.cards.desk),
        status=status,
        replaying=replaying,
        clockwatch=clockwatch,
        store_watch=StoreWatch(store, deps.notices, deps.connections.say_now, new_id),
        memory_watch=memory_watch,
        full_auto=full_auto,
        again=again,
    )


def _planner(deps: Deps, agent: AgentParts, clockwork: Clockwork) -> Planner:
    environment = deps.environment
    user_home = Path(environment.environ.get("HOME", "~")).expanduser()
    user = UserSide(user_home, clockwork.zone, agent.workbench.sensitive.hides, agent.skills)
    standing = partial(standing_of, access=deps.access)
    return Planner(
        deps.config, agent.policies, agent.model, agent.toolbox, standing, environment.clock, user
    )


def _desk(
    deps: Deps,
    agent: AgentParts,
    status: StatusReporter,
    pool: Pool,
    questions: OpenQuestions,
    clockwork: Clockwork,
    known: Mapping[str, Command],
    replaying: Replaying,
    trust: TrustOrders,
) -> CommandQueries:
    new_id, store = deps.environment.new_id, deps.store
    remembering = MemoryOrders(agent.tidying, deps.config.workspace, store, store, new_id)
    hides = agent.workbench.sensitive.hides
    return CommandQueries(
        store=deps.store,
        reports=deps.store,
        house=status,
        turn_of=pool.running_turn,
        known=known,
        cards=questions,
        access=deps.access,
        now=deps.environment.clock,
        clock=clockwork.desk,
        configured=agent.model.models,
        zone=clockwork.zone,
        context=replaying.context,
        memory=remembering,
        trust=trust,
        checkpoints=build_taking_back(agent.folders, deps.config, hides, clockwork.zone),
        limits=limits_of(deps.config.budgets),
        exporting=deps.exporting(clockwork.zone),
    )


def _deps(
    config: Config,
    environment: Environment,
    store: HouseStore,
    wired: Wired,
    access: Access,
    job_people: JobPeople,
) -> Deps:
    connections = Connections([link.name for link in wired.links if link.name != "house"])
    metrics = metrics_of(config, environment)
    bus = MessageBus(
        seat=access.seat,
        accept=store.accept,
        failpoint=environment.failpoint,
        bound=config.limits.queue,
        acknowledged=metrics.acknowledged if metrics is not None else None,
    )
    owners = owners_of(config.owner, roles(config).named)
    wired.door.owners = owners
    notices = Notices(
        store,
        owners,
        address_of=connections.address,
        new_id=environment.new_id,
        clock=environment.clock,
        dashboard=INDOORS if wired.browser is None else DASHBOARD,
    )
    cards = routed(notices.owner_place, job_people)
    granting = Granting(store.thread, environment.new_id, environment.clock)
    approvals = Approvals(store, cards, granting, environment.new_id, environment.failpoint)
    walled = walls_of(config, environment.commands, environment.began, notices.tell)
    return Deps(config, environment, store, bus, access, notices, connections, approvals, walled)
