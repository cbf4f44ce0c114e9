"""One run of one turn in this process: what it took, what it remembers, what was decided for it."""

from __future__ import annotations

from dataclasses import field

from channels.contract import Address, Inbound, Outbound
from channels.record import record
from ohmo.contracts.arrivals import Again, Wake
from ohmo.contracts.store import Claim, Work
from ohmo.sessions.helm import Helm
from ohmo.sessions.plan import TurnPlan
from ohmo.sessions.transcript import Transcript


@record
class Run:
    """``deadline``: seconds of the loop's time."""

    claim: Claim
    work: Work
    transcript: Transcript
    plan: TurnPlan
    deadline: float
    helm: Helm = field(default_factory=Helm)

    @property
    def turn(self) -> str:
        return self.work.turn


def reply_address(work: Work) -> Address | None:
    """Where the answer of a turn goes: to the place of its first arrival, or where a wake says."""
    first = work.arrivals[0]
    return first.deliver if isinstance(first, Wake) else first.address


def reply(work: Work) -> Outbound | None:
    """The answer of a turn, without its words: among several people it belongs to the message it
    answers, and rings whom it speaks to. Another bot is not rung: it would answer."""
    address = reply_address(work)
    if address is None:
        return None
    heard = [
        one
        for one in work.arrivals
        if isinstance(one, Inbound) and one.address == address and not one.private
    ]
    if not heard:
        return Outbound(address, "")
    people = tuple(dict.fromkeys(one.person.id for one in heard))
    return Outbound(
        address,
        "",
        mentions=() if any(one.person.bot for one in heard) else people,
        reply_to=heard[0].message,
    )


def allowed_before(work: Work) -> Again | None:
    """The call a turn begins with: somebody allowed it too late for an earlier one."""
    first = work.arrivals[0]
    return (
        first.again
        if isinstance(first, Wake) and first.again is not None and first.again.name
        else None
    )


def is_scheduled(work: Work) -> bool:
    """A run of a job."""
    first = work.arrivals[0]
    return isinstance(first, Wake) and first.occurrence is not None
