"""Builds the sessions: what a turn needs from every other room."""

from __future__ import annotations

from channels.contract import Address
from ohmo.assembly.agent import AgentParts
from ohmo.assembly.fetching import Fetching
from ohmo.assembly.ground import Ground, Knot
from ohmo.assembly.plans import Plans
from ohmo.assembly.rulebooks import standing_of
from ohmo.contracts.store import Work
from ohmo.contracts.tool import Question
from ohmo.gateway.activity import footnote
from ohmo.gateway.cards import closing
from ohmo.media import Media
from ohmo.sessions.lateness import late
from ohmo.sessions.parts import SessionParts
from ohmo.sessions.pool import Pool
from ohmo.sessions.said import Teller
from ohmo.sessions.tally import Tally


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
    teller = Teller(media, redact)
    idle = config.sessions.idle_reset

    def beneath(place: Address, tally: Tally) -> str:
        return footnote(ground.wired.activity(place.channel, place.account), tally, redact)

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

    parts = SessionParts(
        store=store,
        agent=agent.engine,
        plan=plans,
        step=teller,
        context=teller.context,
        late=overdue,
        fetch=Fetching(media, knot.fetch),
        emit=ground.bus.outbound.emit,
        dead=dead,
        guest=for_guest,
        card=clockwork.cards,
        footnote=beneath,
        grown=knot.grown,
        closing=closing(seams.new_id, "stopped", knot.grown),
        new_id=seams.new_id,
        failpoint=seams.failpoint,
        approval_timeout=config.permissions.approval_timeout.total_seconds(),
        turn_timeout=config.limits.turn_timeout.total_seconds(),
        busy=config.sessions.busy,
        report=clockwork.reporter,
        clock=seams.clock,
        idle=silence,
    )
    return Pool(
        parts,
        owner=seams.owner,
        width=config.limits.concurrent_turns,
        crowded=lambda: ground.bus.crowded,
    )
