"""Builds the sessions: what a turn needs from every other room."""

from __future__ import annotations

from channels.contract import Address
from ohmo.ambient import Ambient
from ohmo.assembly.agent import AgentParts
from ohmo.assembly.fetching import Fetching
from ohmo.assembly.ground import Ground, Knot
from ohmo.assembly.plans import Plans
from ohmo.assembly.rulebooks import standing_of
from ohmo.contracts.looking import TurnCost
from ohmo.contracts.store import Work
from ohmo.contracts.tool import Question
from ohmo.gateway.activity import footnote
from ohmo.gateway.cards import closing
from ohmo.media import Media
from ohmo.sessions.deps import SessionDeps, TurnInput, TurnLimits, TurnOutput
from ohmo.sessions.pool import Pool
from ohmo.sessions.stale_messages import late
from ohmo.sessions.user_steps import StepWriter


def build_pool(ground: Ground, agent: AgentParts, plans: Plans, knot: Knot) -> Pool:
    """``knot`` leads to the switchboard, which is built after this."""
    config, seams, store, clockwork, redact = (
        ground.config,
        ground.seams,
        ground.store,
        ground.clockwork,
        ground.redact,
    )
    media = Media(config.home.media)
    idle = config.sessions.idle_reset

    def beneath(place: Address, cost: TurnCost) -> str:
        return footnote(ground.wired.activity(place.channel, place.account), cost, redact)

    def overdue(work: Work) -> Question | None:
        return late(
            work,
            seams.clock() - seams.clock.set_since(work.arrivals[0].at),
            config.sessions.ask_after,
        )

    def silence() -> float | None:
        return None if idle is None else (seams.clock() - seams.clock.before(idle)).total_seconds()

    def for_guest(work: Work) -> bool:
        return standing_of(work.arrivals[0], ground.access) == "guest"

    async def dead(place: Address, said_at: Address | None, reason: str) -> None:
        where = f"{place.channel}:{place.chat}"
        text = (
            f"A message in {where} failed for good: {reason.rstrip('.')}. `ohmo inbox list --state"
            " dead` shows it."
        )
        await ground.notices.tell(f"dead turn:{where}", text, heard_at=said_at)

    writer = StepWriter(media, redact)
    deps = SessionDeps(
        store=store,
        agent=agent.engine,
        plan=plans,
        input=TurnInput(step=writer, context=writer.context, fetch=Fetching(media, knot.fetch)),
        output=TurnOutput(
            emit=ground.bus.outbound.emit,
            card=clockwork.cards,
            closing=closing(seams.new_id, "stopped", knot.grown),
            dead=dead,
            grown=knot.grown,
            footnote=beneath,
            guest=for_guest,
        ),
        limits=TurnLimits(
            busy=config.sessions.busy,
            turn_timeout=config.limits.turn_timeout.total_seconds(),
            approval_timeout=config.permissions.approval_timeout.total_seconds(),
            idle=silence,
            late=overdue,
        ),
        ambient=Ambient(seams.new_id, seams.clock, seams.failpoint),
        report=clockwork.reporter,
    )
    return Pool(
        deps,
        owner=seams.owner,
        width=config.limits.concurrent_turns,
        crowded=lambda: ground.bus.crowded,
    )
