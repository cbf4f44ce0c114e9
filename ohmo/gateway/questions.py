"""Open questions in memory, kept up by the store's hints: pure rooms ask it where a person's plain words belong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from channels.contract import Address, Clock
from channels.record import record
from ohmo.contracts.questions import Scope
from ohmo.contracts.reports import ThreadInfo
from ohmo.contracts.store import Asked, Grant, Hint, Store
from ohmo.gateway.errands import Errands
from ohmo.ids import NewId


class OpenQuestions:
    """Fresh within one read of the store after every commit that concerns approvals."""

    def __init__(self, store: Store, errands: Errands) -> None:
        self._store, self._errands = store, errands
        self._asked: dict[Address, tuple[Asked, ...]] = {}
        self._changed = asyncio.Event()
        self._changed.set()
        self._reading = False

    def at(self, place: Address) -> tuple[Asked, ...]:
        """The questions that wait in a place for an answer: one for each mind there."""
        return self._asked.get(place, ())

    def may_ask(self, place: Address) -> bool:
        """Whether the card of a permission may stand in a chat, whatever its thread; also while nobody knows, because a commit is not read yet."""
        here = (place.channel, place.account, place.chat)
        open_now = (one for asked in self._asked.values() for one in asked if one.ask.question.kind == "permission")
        shown = (self._shown_at(one) for one in open_now)
        return self._reading or self._changed.is_set() or any((where.channel, where.account, where.chat) == here for where in shown)

    def _shown_at(self, asked: Asked) -> Address:
        errand = self._errands.of(asked)
        return asked.address if errand is None else errand.place

    async def run(self) -> None:
        """Until cancelled."""
        stop_hearing = self._store.listen(self._hear)
        self._changed.set()  # what happened while nobody listened
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                self._reading = True
                await self.refresh()
                self._reading = False
        finally:
            stop_hearing()

    def _hear(self, hints: Sequence[Hint]) -> None:
        if any(hint.kind in ("approval", "any") for hint in hints):
            self._changed.set()

    async def refresh(self) -> None:
        rows = await self._store.open_questions()
        found: dict[Address, tuple[Asked, ...]] = {}
        for asked in rows:
            if asked.state == "asked":
                found[asked.address] = (*found.get(asked.address, ()), asked)
        self._asked = found


@record
class Granting:
    """What "for this session" and "always" leave behind. ``thread`` tells which session is the present one."""

    thread: Callable[[str], Awaitable[ThreadInfo | None]]
    new_id: NewId
    clock: Clock

    async def grant(self, asked: Asked | None, scope: Scope) -> Grant | None:
        """None: nothing to remember. Whoever answers, it is given to the person who asked."""
        if asked is None or remembered(asked, scope) == "once":
            return None
        info = await self.thread(asked.thread)
        session = f"{asked.thread}.{info.session_seq if info is not None else 0}"
        question = asked.ask.question
        return Grant(
            self.new_id(),
            "*" if scope == "always" else session,
            question.wider if scope == "workspace" else question.rule,
            f"{asked.address.channel}:{asked.person}",
            self.clock(),
        )


def remembered(asked: Asked, scope: Scope) -> Scope:
    """What an answer can cover: without a rule there is nothing to remember, whatever was asked for."""
    question = asked.ask.question
    return scope if (question.wider if scope == "workspace" else question.rule) else "once"
