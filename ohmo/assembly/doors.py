"""What control is handed: the ports of the house for its keyboard, its page and its metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Literal

from channels.record import record
from ohmo.approvals.cards import card, closing
from ohmo.approvals.questions import Granting, remembered
from ohmo.bus import MessageBus
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.events import Event
from ohmo.contracts.questions import Remembered, Scope
from ohmo.contracts.store import Accepted, Asked, Card, Hint, Ruling, Store, ThreadSettings
from ohmo.failpoints import Failpoint
from ohmo.ids import NewId
from ohmo.permissions.wording import in_words


@record
class HouseWatch:
    """Implements control's ``Watch``."""

    bus: MessageBus
    store: Store

    def events(self) -> AbstractContextManager[AsyncIterator[tuple[str, Event]]]:
        return self.bus.outbound.listen()

    def listen(self, hear: Callable[[Sequence[Hint]], None]) -> Callable[[], None]:
        return self.store.listen(hear)


@record
class HouseApprovals:
    """Implements control's ``Approvals``: whoever is at the owner's keyboard may answer
    everything."""

    store: Store
    granting: Granting
    new_id: NewId
    failpoint: Failpoint
    cards: Card = card

    async def open_questions(self, thread: str | None = None) -> list[Asked]:
        return await self.store.open_questions(thread)

    async def remembered(self) -> list[Remembered]:
        return await remembered_by(self.store)

    async def revoke_grant(self, id: str) -> bool:
        return await self.store.revoke_grant(id)

    async def answer(
        self,
        approval: str,
        verdict: Literal["allowed", "denied"],
        scope: Scope,
        word: str,
        person: str,
    ) -> Literal["ok", "late", "unknown"]:
        asked = await self.store.question(approval)
        scope = remembered(asked, scope) if asked is not None else scope
        note = "Denied" if verdict == "denied" else f"Allowed ({scope})" if not word else word[:200]
        grant = await self.granting.grant(asked, scope) if verdict == "allowed" else None
        ruling = Ruling(approval, verdict, person, word, scope, grant)
        found = await self.store.answer(ruling, card=self.cards, closing=closing(self.new_id, note))
        self.failpoint("approval.granted")
        return found


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


async def publish_wake(bus: MessageBus, wake: Wake, settings: ThreadSettings | None) -> Accepted:
    """Returns after the commit."""
    return (await bus.publish([wake], settings=settings))[0]
