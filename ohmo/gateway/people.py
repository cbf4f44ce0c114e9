"""Who is let in, as what, and what they hear of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal

from channels.contract import Inbound, Outbound
from channels.record import record
from ohmo.ambient import derived
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.reports import ArrivalInfo, Reports
from ohmo.contracts.store import Store
from ohmo.contracts.turns import PersonRow
from ohmo.gateway import pairing
from ohmo.gateway.access import Access

Role = Literal["guest", "user", "admin"]
LATEST = 1_000  # refused messages that are looked through for those of one person


@record
class PeopleDesk:
    """Implements control's ``People``. ``role``: of somebody for whom none is said, by all who are
    known then. ``publish`` stores what a person had said before they were let in, as if it was said
    now."""

    store: Store
    reports: Reports
    access: Access
    clock: Callable[[], datetime]
    role: Callable[[Sequence[PersonRow]], Role]
    publish: Callable[[Sequence[Arrival]], Awaitable[object]]

    async def people(self) -> list[PersonRow]:
        return await self.store.people()

    async def pair(self, code: str, role: Role | None = None) -> PersonRow | None:
        known = await self.store.people()
        row = pairing.admitted(known, code, role or self.role(known), "owner", self.clock())
        if row is None:
            return None
        said = await self._said(row)  # before the row forgets since when they ask
        await self._save(row)
        if said:
            place = said[0].address
            told = PostRow(
                derived("let in", said[0].key, row.role),
                "notice",
                Outbound(place, pairing.welcome(row.role)),
            )
            await self.store.post([told])
            await self.publish([replace(one, key=f"let in:{one.key}", aliases=()) for one in said])
        return row

    async def _said(self, row: PersonRow) -> list[Inbound]:
        """What they said in private while their code lived, oldest first."""
        since = self.clock() - pairing.LIFE
        refused = await self.reports.inbox(state="refused", limit=LATEST)
        return [
            one
            for info in sorted(refused, key=_by_time)
            if (one := _by(info, row, since)) is not None
        ]

    async def revoke(self, channel: str, account: str, person: str) -> bool:
        known = {(row.channel, row.account, row.person): row for row in await self.store.people()}
        row = known.get((channel, account, person))
        if row is None:
            return False
        await self._save(PersonRow(channel, account, person, row.name, "revoked", by="owner"))
        return True

    async def _save(self, row: PersonRow) -> None:
        await self.store.save_person(row)
        self.access.learn([row])


def role_of_next(
    default: Role, *, chosen: bool, owner_named: bool
) -> Callable[[Sequence[PersonRow]], Role]:
    """As what somebody is let in for whom no role is said: ``default`` where that was ``chosen`` in
    the configuration, and for the first person of a house whose owner is not named, who will be the
    owner; anybody else as a guest."""

    def role(known: Sequence[PersonRow]) -> Role:
        first = not owner_named and not any(row.role not in ("asking", "revoked") for row in known)
        return default if chosen or first else "guest"

    return role


def _by_time(info: ArrivalInfo) -> tuple[datetime, int]:
    return info.stored or info.said_at, info.seq


def _by(info: ArrivalInfo, row: PersonRow, since: datetime) -> Inbound | None:
    said = info.arrival
    if not isinstance(said, Inbound) or not said.private or _by_time(info)[0] < since:
        return None
    place = said.address
    return (
        said
        if (place.channel, place.account, said.person.id) == (row.channel, row.account, row.person)
        else None
    )
