"""An answer to a question, the same however it is given: in a chat, on the page, at the keyboard,
or by the house itself when a job is removed; and the grant that "for this session" and "always"
leave behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from typing import Literal

from channels.contract import Address, Clock
from channels.record import record
from channels.text import literal
from ohmo.ambient import Failpoint, NewId
from ohmo.approvals.cards import closing, elsewhere, is_whole, shown_after
from ohmo.commands.contract import Decide
from ohmo.contracts.inwriter import Card
from ohmo.contracts.outbox import Asked, Grant, PostRow, Remembered, Ruling, Scope
from ohmo.contracts.reports import ThreadInfo
from ohmo.contracts.store import Store
from ohmo.permissions.wording import in_words

_ALLOWED: dict[Scope, str] = {
    "once": "Allowed once by {}",
    "rule": "Allowed by a rule of {}",
    "session": "Allowed for this session by {}",
    "always": "Always allowed by {}",
    "workspace": "All edits in this workspace allowed for this session by {}",
}


def anybodys(asked: Asked) -> bool:  # noqa: ARG001
    """Whoever is at the owner's keyboard may answer everything."""
    return True


@record
class Answerer:
    """Who answers, and how."""

    person: str
    name: str  # as the closed card says it
    may: Callable[[Asked], bool] = anybodys
    place: Address | None = None  # None: where everything is shown whole
    said_at: datetime | None = None  # of words that name no question; None: it names one
    arrival: tuple[str, int] | None = None  # what was said or pressed: it ends with the answer
    late: tuple[PostRow, ...] = ()  # said when the answer comes too late
    note: str = ""  # on the closed card; "": what was decided, and by whom


@record
class Refused:
    """An answer that does not count. ``reason``: for the inbox; ``text``: for who gave it,
    CommonMark."""

    reason: str
    text: str


NOT_YOURS = Refused("not yours to answer", "This question is not yours to answer.")
Outcome = Literal["ok", "late", "unknown"] | Refused


class Approvals:
    """Each answer is one transaction: its effect on the question, what is said of it, and the
    ending of the arrival that brought it. ``card`` makes the next question's card."""

    def __init__(
        self, store: Store, card: Card, granting: Granting, new_id: NewId, failpoint: Failpoint
    ) -> None:
        self._store = store
        self.card = card
        self._granting = granting
        self._new_id = new_id
        self._failpoint = failpoint

    async def open_questions(self, thread: str | None = None) -> list[Asked]:
        """The one that waits longest first."""
        return await self._store.open_questions(thread)

    async def remembered(self) -> list[Remembered]:
        """What was allowed for longer than once."""
        return await remembered_by(self._store)

    async def revoke_grant(self, id: str) -> bool:
        """False: there is no such permission."""
        return await self._store.revoke_grant(id)

    async def answer(self, decision: Decide, by: Answerer) -> Outcome:
        """Refused: nothing was written. Late, unknown: only ``by.late``; the arrival ended as
        refused. Raises Unavailable."""
        asked = await self._store.question(decision.approval)
        scope = decision.scope
        grant = None
        if asked is not None:
            refused = await self._refused(asked, decision, by)
            if refused is not None:
                return refused
            scope = remembered(asked, scope)
            if decision.verdict == "allowed":
                grant = await self._granting.grant(asked, scope)
        ruling = Ruling(
            decision.approval, decision.verdict, by.person, decision.word, scope, grant, by.arrival
        )
        if by.note:
            note = by.note
        elif decision.verdict == "denied":
            note = f"Denied by {by.name}"
        elif decision.word:
            note = f"{by.name}: {decision.word[:200]}"
        else:
            note = _ALLOWED[scope].format(by.name)
        outcome = await self._store.answer(
            ruling, late=by.late, card=self.card, closing=closing(self._new_id, note)
        )
        self._failpoint("approval.granted")
        return outcome

    async def withdraw(self, turns: Collection[str]) -> None:
        """What these turns ask is denied: their job was removed. Raises Unavailable."""
        house = Answerer("owner", "owner", note="Withdrawn: the job was removed")
        ended = True
        while ended:  # the next question of a turn is asked when this one has ended
            ended = False
            for asked in await self._store.open_questions():
                if asked.turn in turns and asked.state == "asked":
                    denied = Decide(asked.ask.id, "denied", word="the job was removed")
                    if await self.answer(denied, house) == "ok":
                        ended = True

    async def _refused(self, asked: Asked, decision: Decide, by: Answerer) -> Refused | None:
        if not by.may(asked):
            return NOT_YOURS
        if decision.verdict != "allowed":
            return None
        if by.said_at is not None and await self._came_later(asked, by.said_at):
            title = literal(asked.ask.question.title)
            text = f"This was asked after you said that: {title}. If you mean it, say it again."
            return Refused("the question came after the words", text)
        if by.place is not None and not is_whole(asked, by.place):
            return Refused("too long to be allowed in a chat", elsewhere(asked))
        return None

    async def _came_later(self, asked: Asked, said_at: datetime) -> bool:
        """Words name no question: they mean the one their person saw."""
        if asked.ask.question.kind != "permission":
            return False
        row = await self._store.post_row(asked.ask.id)
        return row is not None and shown_after(row, said_at)


@record
class Granting:
    """Makes the permission that an answer leaves behind."""

    thread: Callable[[str], Awaitable[ThreadInfo | None]]  # with its present session
    new_id: NewId
    clock: Clock

    async def grant(self, asked: Asked | None, scope: Scope) -> Grant | None:
        """None: nothing to remember. Whoever answers, it is given to the person who asked."""
        if asked is None or remembered(asked, scope) in ("once", "rule"):
            return None
        grant_scope = "*"
        if scope != "always":
            info = await self.thread(asked.thread)
            session_seq = info.session_seq if info is not None else 0
            grant_scope = f"{asked.thread}.{session_seq}"
        question = asked.ask.question
        rule = question.wider if scope == "workspace" else question.rule
        channel = asked.address.channel
        person = asked.person
        if channel != "house" or ":" not in person:
            person = f"{channel}:{person}"  # a job's has the name of their platform already
        return Grant(self.new_id(), grant_scope, rule, person, self.clock())


def remembered(asked: Asked, scope: Scope) -> Scope:
    """What an answer can cover: without a rule there is nothing to remember, whatever was asked
    for."""
    if scope == "rule":
        return scope
    question = asked.ask.question
    rule = question.wider if scope == "workspace" else question.rule
    return scope if rule else "once"


async def remembered_by(store: Store, person: str = "") -> list[Remembered]:
    """What was allowed for longer than once, oldest first; of everybody, or of
    ``CHANNEL:PERSON``."""
    return [
        Remembered(
            grant.id,
            grant.rule,
            in_words(grant.rule),
            "always" if grant.scope == "*" else "session",
            grant.person,
            grant.at,
        )
        for grant in await store.grants()
        if person in ("", grant.person)
    ]
