"""Builds the way of a message: intake, sessions, and how connected channels are spoken through."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo

from channels.contract import Address, Channel
from channels.record import Recent
from ohmo.ambient import Ambient
from ohmo.approvals.cards import closing
from ohmo.approvals.lapsing import Deadlines, LateAnswers, LateDeps
from ohmo.approvals.questions import OpenQuestions
from ohmo.assembly.agent import AgentParts, redactor
from ohmo.assembly.channels import Wired
from ohmo.assembly.clockwork import Clockwork
from ohmo.assembly.deps import Deps
from ohmo.commands.contract import Command
from ohmo.contracts.tool import Question
from ohmo.contracts.turns import ThreadSettings, TurnCost, Work
from ohmo.gateway.access import standing_of
from ohmo.gateway.answering import Answering, AnsweringDeps
from ohmo.gateway.connections import AttachmentFetcher, LinkSettings
from ohmo.gateway.delivery import Sending
from ohmo.gateway.draft_updates import footnote
from ohmo.gateway.drafts import DraftRows, Drafts, Look, way_of
from ohmo.gateway.intake import Intake, IntakeDeps
from ohmo.gateway.notices import Courtesies, EphemeralNotice, LateNotice, WaitingNotice
from ohmo.gateway.orders import CommandQueries, Orders, OrdersDeps, Turns
from ohmo.gateway.sending import Pace, Rate, Sender, Sent, TimedSender
from ohmo.gateway.switchboard import BoardParts, Switchboard
from ohmo.media import Media
from ohmo.sessions.admission import late
from ohmo.sessions.deps import SessionDeps, TurnInput, TurnLimits, TurnOutput
from ohmo.sessions.planner import Planner
from ohmo.sessions.pool import Pool
from ohmo.sessions.user_steps import StepWriter
from ohmo.upkeep.full_auto import FullAuto


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
    writer = StepWriter(media, redact)
    fetch = AttachmentFetcher(media, deps.connections.fetch)
    session_deps = SessionDeps(
        store=deps.store,
        agent=agent.engine,
        plan=planner,
        input=TurnInput(step=writer, context=writer.context, fetch=fetch),
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
    )
    return Pool(
        session_deps,
        owner=environment.owner,
        width=config.limits.concurrent_turns,
        crowded=lambda: deps.bus.crowded,
    )


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


CONNECTIONS = 100  # whose waits are remembered


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
        """One for all that is said through a connection. What the platform asks for is obeyed;
        nothing is guessed."""
        pace = paces.setdefault(id(channel), Pace(chat=Rate(0.0), account=Rate(0.0)))
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
        return Drafts(
            channel, link.name, deps.bus.outbound.listen, rows, look, pace=pace_of(channel)
        )

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
) -> Intake:
    environment = deps.environment
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
            new_id=environment.new_id,
            clock=environment.clock,
            restart=again.set,
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
        )
    )
