"""How an approval times out: its deadline, what happens at it, and what a late answer does.

``permissions.approval_timeout`` of config.yaml says for how long a question stays open; a job's run
asks until its own deadline, and whether an old message is still wanted is asked for a week. The
store notes the deadline when the card is asked and ends what is overdue (``expire``); its card says
so and, where that is possible, has a button for a late answer: a new request, which runs first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from channels.contract import Address, Choice, Clock, Hint, Person, PersonId, Said
from channels.record import record
from channels.text import literal
from ohmo.ambient import NewId, derived
from ohmo.approvals.answering import NOT_YOURS
from ohmo.approvals.cards import closing, elsewhere, is_whole
from ohmo.commands.contract import Standing
from ohmo.contracts.arrivals import Again, Terms, Wake
from ohmo.contracts.inwriter import Card, Closing, in_writer
from ohmo.contracts.outbox import Lapsed, OutRow, PostRow
from ohmo.contracts.reports import ThreadInfo
from ohmo.contracts.store import Hint as StoreHint
from ohmo.contracts.store import Store
from ohmo.contracts.turns import Accepted
from ohmo.lifecycle import within
from ohmo.sessions import admission

_RUN = "run:"  # begins the value of the button for a late answer
_STALE = 7 * 86_400.0  # seconds in which somebody may say that an old message is still wanted
RUN_NOW = (
    "(Nobody allowed this call in time. {name} allows it now, and it runs first. Say what came of"
    " it, and go on with what it was for.)"
)
ANSWER_NOW = (
    "(This message is old, and nobody said in time that it is still wanted. {name} wants it"
    " answered now.)\n\n{detail}"
)

# By a job's thread, person and name; and the account of that person. None: there is no such job any
# more.
JobTerms = Callable[[Address, str, str], Awaitable[tuple[Terms, str] | None]]


@record
class Deadlines:
    """Seconds a question may stay open. ``timeout``: as configured."""

    timeout: float
    clock: Clock

    def __call__(self, tool: str, until: datetime | None) -> float:
        """``until``: a job's run may ask until then."""
        if tool == admission.LATE_CALL:
            return _STALE
        if until is None:
            return self.timeout
        return max(1.0, (until - self.clock()).total_seconds())


@record
class _Lapse:
    """What a card says when nobody answered in time. ``label``: of the button for a late answer,
    ``hint``: how else to give it; none: it is too late for good."""

    note: str
    label: str = ""
    hint: Hint | None = None


_RUN_LATE = _Lapse("No answer in time: not run.", "Run it now", Hint.RUN_LATE)
_RUN_LATE_JOB = replace(_RUN_LATE, hint=Hint.RUN_LATE_JOB)
_GONE = _Lapse("No answer in time: denied")
_LAPSES: Mapping[Hint | None, _Lapse] = {
    Hint.DECIDE: _RUN_LATE,
    Hint.DECIDE_ONCE: _RUN_LATE,
    Hint.DECIDE_JOB: _RUN_LATE_JOB,
    Hint.DECIDE_ONCE_JOB: _RUN_LATE_JOB,
    Hint.REFUSE: _Lapse("No answer in time: not run."),
    Hint.WANTED: _Lapse("No answer in time: left unanswered.", "Answer it now", Hint.ANSWER_LATE),
}


def lapsing(new_id: NewId) -> Closing:
    """Takes the place of a card that nobody answered in time. A permission can still be given, and
    an old message still be wanted, as a new request."""

    @in_writer
    def close(row: OutRow) -> PostRow:
        lapse = _LAPSES.get(row.row.outbound.hint, _GONE)
        close = closing(new_id, lapse.note)
        closed = close(row)
        if lapse.hint is None:
            return closed
        button = Choice(f"{_RUN}{row.row.id}", lapse.label)
        outbound = replace(closed.outbound, choices=(button,), hint=lapse.hint)
        return replace(closed, outbound=outbound)

    return close


def parse_run(choice: str) -> str | None:
    """The id of the question whose late answer a button gives; None: another button."""
    if not choice.startswith(_RUN):
        return None
    return choice.removeprefix(_RUN)


async def expire(store: Store, card: Card, new_id: NewId) -> None:
    """Overdue questions end, and what their thread asks next is asked. Raises Unavailable."""
    await store.expire(card, lapsing(new_id))


@record
class LateDeps:
    """What a late answer needs of the house."""

    store: Store
    publish: Callable[[Wake], Awaitable[Accepted]]
    standing_of: Callable[[Said], Standing | None]  # what somebody may do; None: a stranger
    terms: JobTerms
    thread: Callable[[str], Awaitable[ThreadInfo | None]]
    clock: Clock


class LateAnswers:
    """A call that nobody allowed in time, or an old message nobody said was still wanted, and that
    somebody wants all the same: by a press of "Run it now" or "Answer it now", or by the command
    that says so."""

    def __init__(self, deps: LateDeps) -> None:
        self._deps = deps

    async def run(self, said: Said, lapsed: Lapsed, *, may: bool) -> tuple[bool, str]:
        """Whether it is a new request, and what is said about it, CommonMark. ``may``: this person
        could have answered the question. Done twice it is the same: its key is the question's.
        Raises Unavailable."""
        asked = lapsed.asked
        old_message = lapsed.call is None
        if not may:
            return False, NOT_YOURS.text
        if not is_whole(asked, said.address):
            return False, elsewhere(asked)
        if old_message and asked.ask.question.digest != admission.LATE_DIGEST:
            return False, "What this was about is not kept any more."
        wake = await self._again(said, lapsed)
        if wake is None:
            return False, "This question is closed."
        published = await self._deps.publish(wake)
        name = said.person.name or said.person.id
        card = await self._deps.store.post_row(asked.ask.id)
        if card is not None:
            note = f"Run now: allowed by {name}"
            if old_message:
                note = f"Answered now: {name} wants it"
            close = closing(lambda: derived("again", asked.ask.id), note)
            await self._deps.store.post([close(card)])
        if published.duplicate:
            return False, "It was answered already." if old_message else "It was run already."
        if old_message:
            return True, "It is answered now."
        return True, f"It runs now: {literal(asked.ask.question.title)}"

    async def _again(self, said: Said, lapsed: Lapsed) -> Wake | None:
        """None: nobody may have this run any more."""
        asked = lapsed.asked
        call = lapsed.call
        name = " ".join((said.person.name or said.person.id).split())[:100]
        words = RUN_NOW if call is not None else ANSWER_NOW
        wake = Wake(
            key=f"again:{asked.ask.id}",
            origin="again",
            place=asked.address,
            deliver=None,
            person=asked.person,
            prompt=words.format(name=name, detail=asked.ask.question.detail),
            at=self._deps.clock(),
        )
        # Else somebody sits there, at the keyboard.
        of_job = asked.address.chat.startswith(("cron:", "hook:"))
        if asked.address.channel != "house" or not of_job or call is None:
            return await self._of_person(wake, said, lapsed)
        # It runs under the job's terms, and what comes of it goes where its reports go.
        job = await self._deps.terms(asked.address, asked.person, lapsed.job)
        if job is None:
            return None
        terms, account = job
        digest = asked.ask.question.digest
        # As whom a job acts is looked up when it runs.
        again = Again(call.name, call.arguments, digest, said.person.id, "guest")
        return replace(wake, terms=terms, account=account, again=again)

    async def _of_person(self, wake: Wake, said: Said, lapsed: Lapsed) -> Wake | None:
        asked = lapsed.asked
        call = lapsed.call
        place = asked.address
        person = Person(PersonId(asked.person), "")
        standing = self._deps.standing_of(replace(said, address=place, person=person))
        if standing is None:
            return None
        digest = asked.ask.question.digest
        again = Again("", {}, digest, said.person.id, standing)
        if call is not None:
            again = replace(again, name=call.name, arguments=call.arguments)
        info = await self._deps.thread(asked.thread)
        return replace(
            wake,
            deliver=None if place.channel == "house" else place,
            account=place.account,
            mind=info.person_scope if info is not None else "",
            again=again,
        )


async def expiry(
    store: Store, expire: Callable[[], Awaitable[object]], clock: Callable[[], datetime]
) -> None:
    """Sleeps until the next question is overdue; ``expire`` then ends it."""
    changed = asyncio.Event()

    def hear(hints: Sequence[StoreHint]) -> None:
        if any(hint.kind in ("approval", "any") for hint in hints):
            changed.set()

    stop_hearing = store.listen(hear)
    try:
        while True:
            changed.clear()
            deadline = await store.next_deadline()
            wait = 3_600.0 if deadline is None else max(0.0, (deadline - clock()).total_seconds())
            if deadline is not None and wait <= 0:
                await expire()
                continue
            with suppress(TimeoutError):
                await within(min(wait + 0.01, 3_600.0), changed.wait())
    finally:
        stop_hearing()
