"""What "for this session" and "always" leave behind, and how people read it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from channels.contract import Clock
from channels.record import record
from ohmo.ambient import NewId
from ohmo.contracts.outbox import Asked, Grant, Remembered, Scope
from ohmo.contracts.reports import ThreadInfo
from ohmo.contracts.store import Store
from ohmo.permissions.wording import in_words


@record
class Granting:
    """Makes the permission that an answer leaves behind."""

    thread: Callable[[str], Awaitable[ThreadInfo | None]]  # with its present session
    new_id: NewId
    clock: Clock

    async def grant(self, asked: Asked | None, scope: Scope) -> Grant | None:
        """None: nothing to remember. Whoever answers, it is given to the person who asked."""
        if asked is None or remembered(asked, scope) == "once":
            return None
        info = await self.thread(asked.thread)
        session = f"{asked.thread}.{info.session_seq if info is not None else 0}"
        question = asked.ask.question
        channel = asked.address.channel
        # A job's person has the name of their platform already.
        theirs = channel == "house" and ":" in asked.person
        return Grant(
            self.new_id(),
            "*" if scope == "always" else session,
            question.wider if scope == "workspace" else question.rule,
            asked.person if theirs else f"{channel}:{asked.person}",
            self.clock(),
        )


def remembered(asked: Asked, scope: Scope) -> Scope:
    """What an answer can cover: without a rule there is nothing to remember, whatever was asked
    for."""
    question = asked.ask.question
    return scope if (question.wider if scope == "workspace" else question.rule) else "once"


async def remembered_by(store: Store, person: str = "") -> list[Remembered]:
    """What was allowed for longer than once, oldest first; of everybody, or of
    ``CHANNEL:PERSON``."""
    return [
        Remembered(
            one.id,
            one.rule,
            in_words(one.rule),
            "always" if one.scope == "*" else "session",
            one.person,
            one.at,
        )
        for one in await store.grants()
        if person in ("", one.person)
    ]
