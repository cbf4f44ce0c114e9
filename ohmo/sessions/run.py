"""One run of one turn in this process: what it took, what it remembers, what was decided for it."""

from __future__ import annotations

from dataclasses import field, replace

from channels.contract import Address, Inbound, Outbound
from channels.record import record
from ohmo.contracts.agent import Event, ModelDone, TextDelta, TextReset
from ohmo.contracts.arrivals import Again, Wake
from ohmo.contracts.messages import ModelStep, Text, UserStep
from ohmo.contracts.turns import Claim, Work
from ohmo.sessions import notice_text
from ohmo.sessions.deps import Busy
from ohmo.sessions.planner import TurnPlan
from ohmo.sessions.transcript import Transcript


class TurnControl:
    """Of one claim. What was decided before it began stands in the thread's settings."""

    def __init__(self) -> None:
        self.busy: Busy | None = None  # chosen while it ran
        self._called = False

    def call(self) -> None:
        """Words wait that were said to be read now (``/steer WORDS``)."""
        self._called = True

    def called(self) -> bool:
        """Once for each call."""
        called, self._called = self._called, False
        return called


@record
class Run:
    """``deadline``: seconds of the loop's time."""

    claim: Claim
    work: Work
    transcript: Transcript
    plan: TurnPlan
    deadline: float
    control: TurnControl = field(default_factory=TurnControl)

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


@record
class PartialAnswer:
    """``text``: the newest words, of ``model``. ``kept``: a step has them. ``over``: what comes
    next begins anew."""

    model: str = ""
    text: str = ""
    kept: bool = True
    over: bool = False

    def after(self, event: Event, *, kept: bool) -> PartialAnswer:
        """``kept``: what a model call that ended with this event said is written."""
        match event:
            case TextDelta(_, text):
                return replace(
                    self, text=text if self.over else self.text + text, kept=False, over=False
                )
            case ModelDone(_, text):
                return replace(self, text=text, kept=kept, over=True)
            case TextReset():
                return replace(self, text="", kept=True, over=False)
            case _:
                return self

    def steps(self) -> tuple[ModelStep | UserStep, ...]:
        """For the next request: what was said and is not written, and that it was stopped."""
        said = (
            ()
            if self.kept or not self.text.strip()
            else (ModelStep((Text(self.text.strip()),), self.model, "end"),)
        )
        return (*said, UserStep((Text(notice_text.CUT_OFF),), "house", "notice"))
