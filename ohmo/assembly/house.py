"""Builds the whole house around an open store; starts nothing."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from channels.contract import Address, Attachment, Channel
from channels.record import record
from ohmo.assembly.agent import AgentParts, build_agent, own_home, redactor
from ohmo.assembly.channels import Wired, roles
from ohmo.assembly.clockwork import ClockLinks, Clockwork, build_clockwork
from ohmo.assembly.desk import HouseDesk
from ohmo.assembly.doors import HouseApprovals, HousePeople, HouseWatch, address_parser, publish_wake
from ohmo.assembly.fetching import Fetching
from ohmo.assembly.plans import Plans
from ohmo.assembly.replaying import Replaying
from ohmo.assembly.rulebooks import Elder, Rulebook, Rulebooks, policy_of, rulebook
from ohmo.assembly.seams import Seams
from ohmo.assembly.status import Truth
from ohmo.assembly.storewatch import StoreWatch
from ohmo.assembly.watching import Sent, TurnLog, WatchedSender
from ohmo.assembly.webhooks import build_hooks
from ohmo.bus import MessageBus
from ohmo.bus.bus import Seated
from ohmo.commands.contract import Command, is_order
from ohmo.config.load import Config
from ohmo.contracts.reports import Reports
from ohmo.contracts.store import Accepted, CursorSave, Store
from ohmo.control.metrics import Metrics
from ohmo.control.ports import Ports
from ohmo.control.server import Control, Place
from ohmo.control.sockets import parse_listen
from ohmo.discovery import scan
from ohmo.gateway.access import Access
from ohmo.gateway.activity import footnote
from ohmo.gateway.away import Away
from ohmo.gateway.cards import closing, lapsing
from ohmo.gateway.drafts import Drafts
from ohmo.gateway.errands import Errands
from ohmo.gateway.intake import Intake, IntakeParts, Told
from ohmo.gateway.link import LinkSettings
from ohmo.gateway.notices import DASHBOARD, INDOORS, Notices, owners_of
from ohmo.gateway.pace import Pace, Rate
from ohmo.gateway.questions import Granting, OpenQuestions
from ohmo.gateway.sending import Sender
from ohmo.gateway.switchboard import BoardParts, Switchboard
from ohmo.gateway.whispers import Whispers
from ohmo.media import Media
from ohmo.permissions.paths import SensitivePaths
from ohmo.providers import build
from ohmo.sessions.clockwatch import Clockwatch
from ohmo.sessions.lateness import late
from ohmo.sessions.pool import Pool
from ohmo.sessions.said import Teller
from ohmo.sessions.session import SessionParts
from ohmo.sessions.tally import Tally
from ohmo.store.pulse import Pulse
from ohmo.store.sparing import Sparing

CONNECTIONS = 100  # whose waits are remembered


class HouseStore(Store, Reports, Protocol):
    """What both drivers are: the durable store, its reports, and whether it takes what is written."""

    pulse: Pulse

    async def watch(self, changed: Callable[[str], Awaitable[None]]) -> None: ...


@dataclass(slots=True)
class _Knot:
    """Rooms that need each other through callables: filled before anything runs."""

    intake: Intake | None = None
    board: Switchboard | None = None
    store: HouseStore | None = None
    pool: Pool | None = None

    async def accept(self, items: Sequence[Seated], cursor: CursorSave | None) -> list[Accepted]:
        """The pool asks for what this brings while it is being stored."""
        assert self.store is not None
        if self.pool is not None and any(seat.kind in ("message", "wake") and not seat.hold and seat.ending is None for _, seat in items):
            self.pool.expect()
        return await self.store.accept(items, cursor)

    def tell(self, told: Sequence[Told]) -> None:
        assert self.intake is not None
        self.intake.hear(told)

    def address(self, channel: str, rest: str) -> Address | None:
        return self.board.address(channel, rest) if self.board is not None else None

    def grown(self, draft: str) -> str | None:
        return self.board.drafted(draft) if self.board is not None else None

    def parse(self, text: str) -> Address:
        """``CHANNEL:REST``. Raises ValueError."""
        if self.board is None:
            raise ValueError(f"{text}: its channel is not connected")
        return address_parser(self.board)(text)

    async def fetch(self, place: Address, attachment: Attachment, into: Path) -> Path:
        assert self.board is not None
        return await self.board.fetch(place, attachment, into)


@record
class House:
    """Everything that lives, not yet started."""

    store: HouseStore
    bus: MessageBus
    pool: Pool
    intake: Intake
    questions: OpenQuestions
    board: Switchboard
    notices: Notices
    control: Control
    truth: Truth
    agent: AgentParts
    access: Access
    seams: Seams
    clockwork: Clockwork
    clockwatch: Clockwatch
    books: Rulebooks
    config: Config
    wired: Wired
    storewatch: StoreWatch
    again: asyncio.Event  # set: this life shall end, and the next begin
    replaying: Replaying

    def tighten(self, config: Config) -> None:
        """``config`` is about to replace this house's: what it forbids is forbidden at once, what it allows waits for new turns. Raises ConfigError."""
        policy = policy_of(config, own_home(self.seams), SensitivePaths(own_home(self.seams), config.home.root))
        coming = rulebook(config, policy, self.access.people)
        self.books.coming = coming
        self.access.tighten(coming.access)

    def book(self) -> Rulebook:
        """What it let be done, for turns that outlive it."""
        return rulebook(self.config, self.agent.policy, self.access.people, self.wired.policy)

    async def expire(self) -> None:
        """Overdue questions become denials."""
        await self.store.expire(self.clockwork.cards, lapsing(self.seams.new_id))


@record
class _Ground:
    """What every room of the house stands on."""

    config: Config
    seams: Seams
    store: HouseStore
    bus: MessageBus
    access: Access
    notices: Notices
    wired: Wired
    clockwork: Clockwork
    redact: Callable[[str], str]


def commands() -> Mapping[str, Command]:
    """Every slash command, by name."""
    return {name: found for name, found in scan("ohmo.commands", "COMMAND").items() if isinstance(found, Command)}


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
    """Reads who is known; everything else waits for the daemon. ``elders``: earlier configurations of this process."""
    errands = Errands()
    known, questions = commands(), OpenQuestions(store, errands)
    named = roles(config)
    access = Access(
        wired.policy, named, is_command=lambda text: is_order(text, known),
        open_question=questions.at, in_chat=questions.in_chat, per_person=config.sessions.scope == "per_person", errand=errands.of,
    )  # fmt: skip
    access.learn(await store.people())
    wired.door.access = access
    await questions.refresh()
    knot = _Knot(store=store)
    metrics = Metrics() if config.control.metrics else None
    bus = MessageBus(
        seat=access.seat, accept=knot.accept, tell=knot.tell, failpoint=seams.failpoint, bound=config.limits.queue,
        acknowledged=metrics.acknowledged if metrics is not None else None,
    )  # fmt: skip
    owners = owners_of(config.owner, named.named)
    wired.door.owners, wired.door.model = owners, model.model
    dashboard = INDOORS if wired.browser is None else DASHBOARD
    notices = Notices(store, owners, address_of=knot.address, new_id=seams.new_id, clock=seams.clock, dashboard=dashboard)
    clockwork = build_clockwork(config, seams, store, ClockLinks(partial(publish_wake, bus), knot.parse, notices, knot.address, errands))
    ground = _Ground(config, seams, store, bus, access, notices, wired, clockwork, redactor(config))
    books = Rulebooks(elders)
    agent = build_agent(config, seams, model, store.grants, clockwork.tools(store.thread), books.others)
    plans = Plans(config, agent, access, books, seams.clock.set_since)
    knot.pool = pool = _pool(ground, agent, plans, knot)
    knot.board = board = Switchboard(wired.links, _board_parts(ground, pool, known, sent))
    truth = Truth(
        store, pool, board, model.explanation, model.model, seams.clock(), lambda: (*warnings, *wired.broken), clockwork.scheduler.report,
        config.budgets.day,
        lambda: store.pulse.away, Sparing(lambda: store.usage(days=1)),
    )  # fmt: skip
    desk = HouseDesk(store, store, truth, pool.running_turn, known, clockwork.desk, model.models)
    knot.intake = intake = Intake(
        IntakeParts(
            store=store, access=access, commands=known, desk=desk, stopped=pool.stopped, arrived=pool.arrived,
            acknowledge=board.acknowledge, drafted=board.drafted, away=Away(store.post, seams.clock), new_id=seams.new_id, clock=seams.clock,
            failpoint=seams.failpoint, card=clockwork.cards, whispers=Whispers(board.whisper, seams.clock), restart=(again := asyncio.Event()).set,
            publish=lambda wake: publish_wake(bus, wake, None), terms=clockwork.desk.terms_at,
        )
    )  # fmt: skip
    control = _control(ground, board, truth, desk, metrics, replaying := Replaying(store, plans.of, agent))
    watch = Clockwatch(seams.clock, store.rebase, followed=clockwork.scheduler.look_again)
    return House(
        store, bus, pool, intake, questions, board, notices, control, truth, agent, access, seams, clockwork, watch, books, config, wired,
        StoreWatch(store, notices, board, seams), again, replaying,
    )  # fmt: skip


def _pool(ground: _Ground, agent: AgentParts, plans: Plans, knot: _Knot) -> Pool:
    config, seams, store, clockwork, redact = ground.config, ground.seams, ground.store, ground.clockwork, ground.redact
    media = Media(config.home.media)
    teller = Teller(media, redact)

    def beneath(place: Address, tally: Tally) -> str:
        return footnote(ground.wired.activity(place.channel, place.account), tally, redact)

    async def dead(place: Address, said_at: Address | None, reason: str) -> None:
        where = f"{place.channel}:{place.chat}"
        text = f"A message in {where} ended as a dead letter: {reason.rstrip('.')}. `ohmo inbox list` shows it."
        await ground.notices.tell(f"dead turn:{where}", text, heard_at=said_at)

    parts = SessionParts(
        store=store, agent=agent.engine, plan=plans, step=teller, context=teller.context,
        late=lambda work: late(work, seams.clock() - seams.clock.set_since(work.arrivals[0].at), config.sessions.ask_after), fetch=Fetching(media, knot.fetch),
        emit=ground.bus.outbound.emit, dead=dead, card=clockwork.cards,
        footnote=beneath, grown=knot.grown,
        closing=closing(seams.new_id, "stopped", knot.grown), new_id=seams.new_id, failpoint=seams.failpoint,
        approval_timeout=config.permissions.approval_timeout.total_seconds(), turn_timeout=config.limits.turn_timeout.total_seconds(), busy=config.sessions.busy,
        report=clockwork.reporter, clock=seams.clock, idle=config.sessions.idle_reset.total_seconds() if config.sessions.idle_reset is not None else None,
    )  # fmt: skip
    return Pool(
        store, parts, owner=seams.owner, width=config.limits.concurrent_turns, clock=seams.clock, crowded=lambda: ground.bus.crowded
    )


def _board_parts(ground: _Ground, pool: Pool, known: Mapping[str, Command], sent: Sent | None) -> BoardParts:
    seams, store, bus, redact = ground.seams, ground.store, ground.bus, ground.redact
    paces: OrderedDict[int, Pace] = OrderedDict()

    def pace_of(channel: Channel) -> Pace:
        """One for all that is said through a connection. What the platform asks for is obeyed; nothing is guessed."""
        pace = paces.setdefault(id(channel), Pace(chat=Rate(0.0), account=Rate(0.0)))
        paces.move_to_end(id(channel))
        while len(paces) > CONNECTIONS:
            paces.popitem(last=False)
        return pace

    def sender(channel: Channel) -> Sender:
        if sent is not None:
            return WatchedSender(channel, sent, store, clock=seams.clock, pace=pace_of(channel), failpoint=seams.failpoint, redact=redact)
        return Sender(channel, store, clock=seams.clock, pace=pace_of(channel), failpoint=seams.failpoint, redact=redact)

    def drafts(channel: Channel, link: LinkSettings) -> Drafts:
        way = {"off": "off", "edits": "edits", "preview": "preview"}.get(link.streaming or "")
        return Drafts(
            channel, link.name, events=bus.outbound.listen, open_draft=pool.draft, new_id=seams.new_id, standing=store.drafted,
            way=way, pace=pace_of(channel), activity=link.activity != "off", redact=redact,  # pyright: ignore[reportArgumentType]
        )  # fmt: skip

    menu = [(command.name, command.summary) for command in known.values()]
    return BoardParts(
        store, bus.publish, ground.notices, sender, drafts, menu, seams.clock, seams.owner, store.pulse.here, store.last_delivery
    )


def _control(
    ground: _Ground, board: Switchboard, truth: Truth, desk: HouseDesk, metrics: Metrics | None, replaying: Replaying
) -> Control:  # fmt: skip
    config, seams, store, bus, clockwork = ground.config, ground.seams, ground.store, ground.bus, ground.clockwork
    publish, parse = partial(publish_wake, bus), address_parser(board)
    granting = Granting(desk.thread, seams.new_id, seams.clock)
    ports = Ports(
        reports=store, status=truth, watch=HouseWatch(bus, store), publish_wake=publish,
        approvals=HouseApprovals(store, granting, seams.new_id, seams.failpoint, clockwork.cards),
        people=HousePeople(store, ground.access, seams.clock, config.access.default_role), repair=store, parse_address=parse,
        browser=ground.wired.browser, log=config.home.log, cron=clockwork.desk, hooks=build_hooks(config, seams, store, publish, parse),
        replay=replaying,
    )  # fmt: skip
    listen = parse_listen(config.control.listen) if config.control.listen is not None else None
    runtime = seams.environ.get("XDG_RUNTIME_DIR")
    place = Place(config.home.root / "run", listen, frozenset(config.control.names), Path(runtime) if runtime else None)
    return Control(ports, place, metrics, new_id=seams.new_id, clock=seams.clock, told=TurnLog().event)
