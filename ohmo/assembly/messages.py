"""Builds the way of a message: the channels of the configuration, intake, sessions, and how
connected channels are spoken through."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from functools import partial
from typing import Any, cast

from channels.contract import About, Address, Channel, Manifest, Options, Person, PersonId
from channels.record import Recent, record
from channels.registry import discover, load
from channels.web.client import Browser
from ohmo.ambient import Ambient
from ohmo.approvals.cards import closing
from ohmo.approvals.lapsing import Deadlines, LateAnswers, LateDeps
from ohmo.approvals.questions import OpenQuestions
from ohmo.assembly.agent import AgentParts
from ohmo.assembly.clockwork import Clockwork
from ohmo.assembly.deps import Deps
from ohmo.assembly.plugins import refusing
from ohmo.assembly.walls import redactor
from ohmo.commands.aliases import INSTEAD, SAME
from ohmo.commands.contract import Command
from ohmo.config.channels import Opened, open_channels
from ohmo.config.load import Config
from ohmo.config.models import ChannelPolicy
from ohmo.context.recall import Recall
from ohmo.contracts.tool import Question
from ohmo.contracts.turns import ThreadSettings, TurnCost, Work
from ohmo.gateway.access import Access, Accounts, Policy, Roles, Standing, activity_of, standing_of
from ohmo.gateway.answering import Answering, AnsweringDeps
from ohmo.gateway.connections import AttachmentFetcher, LinkSettings
from ohmo.gateway.delivery import Sending
from ohmo.gateway.draft_updates import Mode, footnote
from ohmo.gateway.drafts import DraftRows, Drafts, Look, way_of
from ohmo.gateway.intake import Intake, IntakeDeps
from ohmo.gateway.internal_channel import InternalChannel
from ohmo.gateway.notices import Courtesies, EphemeralNotice, LateNotice, WaitingNotice
from ohmo.gateway.orders import CommandQueries, Orders, OrdersDeps, Turns
from ohmo.gateway.sending import Pace, Rate, Sender, Sent, TimedSender
from ohmo.gateway.switchboard import BoardParts, Switchboard
from ohmo.media import Media
from ohmo.sessions.admission import late
from ohmo.sessions.compacting import Compacting
from ohmo.sessions.planner import Planner, SessionDeps, TurnInput, TurnLimits, TurnOutput
from ohmo.sessions.pool import Pool
from ohmo.sessions.user_steps import StepWriter, TurnContext, nothing_spelled
from ohmo.upkeep.watches import FullAuto

ELSEWHERE = frozenset((*SAME, *INSTEAD))
CONNECTIONS = 100  # whose waits are remembered
INDOORS = ("web", "console")  # platforms that live in this very process, without an SDK


@dataclass(slots=True)
class Door:
    """Asked by channels whether somebody may bring the bot into a place (nobody may before the
    house knows its people), and what they may tell about the house. ``owners``: as
    ``channel:person``."""

    access: Access | None = None
    owners: tuple[str, ...] = ()
    model: str = ""

    def invited(self, place: Address, person: Person, private: bool) -> bool:
        return self.access is not None and self.access.may_invite(place, person.id, private=private)

    def about(self, channel: str) -> About:
        owners: list[PersonId] = []
        for owner in self.owners:
            platform, _, person = owner.partition(":")
            if platform == channel:
                owners.append(PersonId(person))
        return About(tuple(owners), self.model)


@record
class Wired:
    """``policy`` and ``activity`` of a channel and account; ``browser``: how control speaks into
    the web channel; ``broken``: packages that were skipped; ``door``: waits for the house's
    ``Access``."""

    links: tuple[LinkSettings, ...]
    policy: Callable[[str, str], Policy]
    browser: Browser | None
    broken: tuple[str, ...]
    activity: Callable[[str, str], Mode] = lambda _, __: "off"
    door: Door = field(default_factory=Door)


def manifests() -> tuple[Mapping[str, Manifest], tuple[str, ...]]:
    """Every channel that is installed, and what was wrong with those that were skipped."""
    discovered = discover()
    return discovered.manifests, discovered.broken


def wire(config: Config, clock: Callable[[], Any], began: datetime | None = None) -> Wired:
    """``began``: the daemon, which may live longer than this configuration. Raises ConfigError with
    every problem of every channel."""
    installed, broken = manifests()
    opened = open_channels(config.channels, installed)
    accounts = Accounts(opened)
    browser: Browser | None = None
    state = config.home.state("house")
    catch_up = _catch_up(ChannelPolicy())
    links = [LinkSettings("house", "house", InternalChannel, state, catch_up, heavy=False)]
    door = Door()
    for entry in opened:
        name = entry.manifest.name
        twins = [other for other in opened if other.manifest.name == name]
        label = name
        if len(twins) > 1:
            label = f"{name}/{entry.policy.account or opened.index(entry)}"
        state = config.home.state(label.replace("/", "-"))
        about = partial(door.about, name)
        streaming = entry.policy.streaming
        options = Options(streaming, clock, state, door.invited, about, began, ELSEWHERE)
        build = partial(_adapter, entry, options)
        if name in INDOORS:  # one for the life of the process: it holds what people said there
            adapter = _adapter(entry, options)
            browser = cast("Any", adapter).browser if name == "web" else browser
            build = partial(_itself, adapter)
        links.append(
            LinkSettings(
                name,
                label,
                build,
                state,
                _catch_up(entry.policy),
                streaming,
                name not in INDOORS,
                activity_of(entry),
                accounts.meet(entry),
            )
        )
    return Wired(tuple(links), accounts.policy, browser, broken, accounts.activity, door)


def _adapter(entry: Opened, options: Options) -> Channel:
    make = cast("Callable[[Any, Options], Channel]", load(entry.manifest.adapter))
    return make(entry.settings, options)


def _itself(adapter: Channel) -> Channel:
    return adapter


def _catch_up(policy: ChannelPolicy) -> tuple[Any, int]:
    return policy.catch_up.max_age, policy.catch_up.max_messages


def roles(config: Config) -> Roles:
    """The owner's list counts as ``access.roles.owner``; a person named twice has the higher
    role."""
    named: dict[str, Standing] = {}
    for standing in ("guest", "user", "admin", "owner"):
        named.update(dict.fromkeys(getattr(config.access.roles, standing), standing))
    named.update(dict.fromkeys(config.owner, "owner"))
    return Roles(named, config.access.default_role)


def build_pool(
    deps: Deps, agent: AgentParts, planner: Planner, clockwork: Clockwork, wired: Wired
) -> Pool:
    config = deps.config
    environment = deps.environment
    clock = environment.clock
    redact = redactor(config)

    def overdue(work: Work) -> Question | None:
        now = clock() - clock.set_since(work.arrivals[0].at)
        return late(work, now, config.sessions.ask_after)

    def silence() -> float | None:
        idle = config.sessions.idle_reset
        return None if idle is None else (clock() - clock.before(idle)).total_seconds()

    media = Media(config.home.media)
    spelled = nothing_spelled if agent.plugins is None else agent.plugins.spelled
    writer = StepWriter(media, redact, spelled)
    fetch = AttachmentFetcher(media, deps.connections.fetch)
    context = TurnContext(writer, planner.surroundings, config.workspace)
    session_deps = SessionDeps(
        store=deps.store,
        agents=lambda _: agent.engine,
        plan=refusing(planner, spelled),
        input=TurnInput(step=writer, context=context, fetch=fetch, recall=_recall(config, agent)),
        output=_output(deps, wired, redact),
        limits=TurnLimits(
            busy=config.sessions.busy,
            turn_timeout=config.limits.turn_timeout.total_seconds(),
            patience=Deadlines(config.permissions.approval_timeout.total_seconds(), clock),
            idle=silence,
            late=overdue,
        ),
        ambient=Ambient(environment.new_id, clock, environment.failpoint),
        report=clockwork.reporter,
        under=planner.under,
        compacting=Compacting(
            agent.ask,
            agent.model.models[0],
            agent.model.window,
            config.context,
            environment.failpoint,
        ),
    )
    return Pool(
        session_deps,
        owner=environment.owner,
        width=config.limits.concurrent_turns,
        crowded=lambda: deps.bus.crowded,
    )


def _recall(config: Config, agent: AgentParts) -> Recall | None:
    memory = agent.workbench.memory
    if memory is None or "memories" not in config.prompt.changing:
        return None
    return Recall(memory, config.prompt.budgets.memories)


def _output(deps: Deps, wired: Wired, redact: Callable[[str], str]) -> TurnOutput:
    connections = deps.connections

    def beneath(place: Address, cost: TurnCost) -> str:
        return footnote(wired.activity(place.channel, place.account), cost, redact)

    def for_guest(work: Work) -> bool:
        return standing_of(work.arrivals[0], deps.access) == "guest"

    async def dead(place: Address, said_at: Address | None, reason: str) -> None:
        where = f"{place.channel}:{place.chat}"
        text = (
            f"A message in {where} failed for good: {reason.rstrip('.')}. `ohmo inbox list --state"
            " dead` shows it."
        )
        await deps.notices.tell(f"dead turn:{where}", text, heard_at=said_at)

    return TurnOutput(
        emit=deps.bus.outbound.emit,
        card=deps.approvals.card,
        closing=closing(deps.environment.new_id, "stopped", connections.drafted),
        dead=dead,
        grown=connections.drafted,
        footnote=beneath,
        guest=for_guest,
    )


def build_board(
    deps: Deps,
    links: Sequence[LinkSettings],
    pool: Pool,
    known: Mapping[str, Command],
    zone: tzinfo,
    sent: Sent | None,
) -> Switchboard:
    """``known``: the commands a platform's own menu shows. ``zone``: in which times are told.
    ``sent``: who is told how each delivery went, None: nobody."""
    environment = deps.environment
    store = deps.store
    redact = redactor(deps.config)
    paces = Recent[int, Pace](CONNECTIONS)
    rows = DraftRows(pool.draft, environment.new_id, store.drafted)

    def pace_of(channel: Channel) -> Pace:
        """One for all that is said through a connection. What the platform documents and what it
        asks for is obeyed; nothing is guessed."""
        able = channel.capabilities
        chat = Rate(able.post_every.total_seconds(), able.post_burst)
        pace = paces.setdefault(id(channel), Pace(chat=chat, account=Rate(0.0)))
        paces.move_to_end(id(channel))
        return pace

    def sender(channel: Channel) -> Sending:
        plain = Sender(
            channel,
            store,
            clock=environment.clock,
            pace=pace_of(channel),
            failpoint=environment.failpoint,
            redact=redact,
        )
        return plain if sent is None else TimedSender(plain, sent)

    def drafts(channel: Channel, link: LinkSettings) -> Drafts:
        look = Look(way_of(link.streaming), tools=link.activity != "off", redact=redact)
        listen = partial(deps.bus.outbound.listen, f"drafts of {link.label}")
        return Drafts(channel, link.name, listen, rows, look, pace=pace_of(channel))

    parts = BoardParts(
        store=store,
        publish=deps.bus.publish,
        notices=deps.notices,
        sender=sender,
        drafts=drafts,
        commands=[
            (command.name, f"{command.usage} {command.summary}".strip())
            for command in known.values()
        ],
        set_since=deps.environment.clock.set_since,
        clock=environment.clock,
        owner=environment.owner,
        storing=store.availability.here,
        spoke=store.last_delivery,
        zone=zone,
    )
    return Switchboard(links, parts, deps.connections)


def build_intake(
    deps: Deps,
    pool: Pool,
    clockwork: Clockwork,
    desk: CommandQueries,
    again: asyncio.Event,
    questions: OpenQuestions,
    full_auto: FullAuto,
    stopped: Callable[[str], Awaitable[None]],
) -> Intake:
    environment = deps.environment
    connections = deps.connections

    def chose(thread: str, settings: ThreadSettings) -> None:
        pool.chose(thread, settings)
        if settings.free_until is not None:
            full_auto.begun()

    turns = Turns(
        stopped=stopped,
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
            new_id=environment.new_id,
            clock=environment.clock,
            restart=again.set,
            checkpoints=desk.checkpoints,
        )
    )
    courtesies = Courtesies(
        post=deps.store.post,
        late=LateNotice(environment.clock, desk.zone),
        waiting=WaitingNotice(questions.at, environment.clock, desk.zone),
        ephemeral=EphemeralNotice(connections.whisper, environment.clock),
    )
    return Intake(
        IntakeDeps(
            store=deps.store,
            access=deps.access,
            orders=orders,
            answering=answering,
            turns=turns,
            courtesies=courtesies,
            new_id=environment.new_id,
            clock=environment.clock,
        )
    )


def _answering(
    deps: Deps, clockwork: Clockwork, desk: CommandQueries, questions: OpenQuestions
) -> Answering:
    late = LateAnswers(
        LateDeps(
            store=deps.store,
            publish=deps.bus.publish_wake,
            standing_of=deps.access.standing_of,
            terms=clockwork.desk.terms_at,
            thread=deps.store.thread,
            clock=deps.environment.clock,
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
            new_id=deps.environment.new_id,
            trust=None if desk.trust is None else desk.trust.cards,
        )
    )
