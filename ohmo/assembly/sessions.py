"""Builds the sessions: what a turn needs from every other room."""

from __future__ import annotations

from channels.contract import Address
from ohmo.ambient import Ambient
from ohmo.approvals.cards import closing
from ohmo.approvals.lapsing import Deadlines
from ohmo.assembly.agent import AgentParts, redactor
from ohmo.assembly.channels import Wired
from ohmo.assembly.clockwork import Clockwork
from ohmo.assembly.deps import Deps
from ohmo.assembly.plans import Plans
from ohmo.contracts.tool import Question
from ohmo.contracts.turns import TurnCost, Work
from ohmo.gateway.access import standing_of
from ohmo.gateway.connections import AttachmentFetcher
from ohmo.gateway.draft_updates import footnote
from ohmo.media import Media
from ohmo.sessions.deps import SessionDeps, TurnInput, TurnLimits, TurnOutput
from ohmo.sessions.pool import Pool
from ohmo.sessions.stale_messages import late
from ohmo.sessions.user_steps import StepWriter


def build_pool(
    deps: Deps, agent: AgentParts, plans: Plans, clockwork: Clockwork, wired: Wired
) -> Pool:
    config = deps.config
    seams = deps.seams
    connections = deps.connections
    redact = redactor(config)
    media = Media(config.home.media)
    idle = config.sessions.idle_reset

    def beneath(place: Address, cost: TurnCost) -> str:
        return footnote(wired.activity(place.channel, place.account), cost, redact)

    def overdue(work: Work) -> Question | None:
        return late(
            work,
            seams.clock() - seams.clock.set_since(work.arrivals[0].at),
            config.sessions.ask_after,
        )

    def silence() -> float | None:
        return None if idle is None else (seams.clock() - seams.clock.before(idle)).total_seconds()

    def for_guest(work: Work) -> bool:
        return standing_of(work.arrivals[0], deps.access) == "guest"

    async def dead(place: Address, said_at: Address | None, reason: str) -> None:
        where = f"{place.channel}:{place.chat}"
        text = (
            f"A message in {where} failed for good: {reason.rstrip('.')}. `ohmo inbox list --state"
            " dead` shows it."
        )
        await deps.notices.tell(f"dead turn:{where}", text, heard_at=said_at)

    writer = StepWriter(media, redact)
    session_deps = SessionDeps(
        store=deps.store,
        agent=agent.engine,
        plan=plans,
        input=TurnInput(
            step=writer, context=writer.context, fetch=AttachmentFetcher(media, connections.fetch)
        ),
        output=TurnOutput(
            emit=deps.bus.outbound.emit,
            card=deps.approvals.card,
            closing=closing(seams.new_id, "stopped", connections.drafted),
            dead=dead,
            grown=connections.drafted,
            footnote=beneath,
            guest=for_guest,
        ),
        limits=TurnLimits(
            busy=config.sessions.busy,
            turn_timeout=config.limits.turn_timeout.total_seconds(),
            patience=Deadlines(config.permissions.approval_timeout.total_seconds(), seams.clock),
            idle=silence,
            late=overdue,
        ),
        ambient=Ambient(seams.new_id, seams.clock, seams.failpoint),
        report=clockwork.reporter,
        under=plans.under,
    )
    return Pool(
        session_deps,
        owner=seams.owner,
        width=config.limits.concurrent_turns,
        crowded=lambda: deps.bus.crowded,
    )
