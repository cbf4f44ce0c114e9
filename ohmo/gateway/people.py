"""Who is let in, as what, and what they hear of it. A stranger is told a code that the owner types;
codes are stored as hashes and live for an hour."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

from channels.contract import Inbound, Outbound, Said
from channels.record import record
from ohmo.ambient import derived
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.reports import ArrivalInfo, Reports
from ohmo.contracts.store import Store
from ohmo.contracts.turns import PersonRow
from ohmo.gateway.access import Access

Role = Literal["guest", "user", "admin"]
CODE_LIFE = timedelta(hours=1)
_LETTERS = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"  # none that look alike
MAY = {
    "guest": "A guest may talk and ask; nothing is changed for a guest.",
    "user": "A user may have things done, and allows what their own messages ask for.",
    "admin": (
        "An admin may have things done, allows what anybody's messages ask for, and sees all"
        " channels and jobs."
    ),
}
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
        people = await self.store.people()
        row = admitted(people, code, role or self.role(people), "owner", self.clock())
        if row is None:
            return None
        # Before the row forgets since when they ask: what they said in private while their code
        # lived, oldest first.
        since = self.clock() - CODE_LIFE
        refused = await self.reports.inbox(state="refused", limit=LATEST)
        messages: list[Inbound] = []
        for info in sorted(refused, key=_by_time):
            message = info.arrival
            if not isinstance(message, Inbound) or not message.private:
                continue
            place = message.address
            sender = (place.channel, place.account, message.person.id)
            if sender != (row.channel, row.account, row.person):
                continue
            stored, _ = _by_time(info)
            if stored >= since:
                messages.append(message)
        await self._save(row)
        if messages:
            first = messages[0]
            notice = PostRow(
                derived("let in", first.key, row.role),
                "notice",
                Outbound(first.address, welcome(row.role)),
            )
            await self.store.post([notice])
            await self.publish(
                [replace(message, key=f"let in:{message.key}", aliases=()) for message in messages]
            )
        return row

    async def revoke(self, channel: str, account: str, person: str) -> bool:
        for row in await self.store.people():
            if (row.channel, row.account, row.person) == (channel, account, person):
                break
        else:
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

    def role(people: Sequence[PersonRow]) -> Role:
        first = not owner_named and all(row.role in ("asking", "revoked") for row in people)
        return default if chosen or first else "guest"

    return role


def _by_time(info: ArrivalInfo) -> tuple[datetime, int]:
    return info.stored or info.said_at, info.seq


def new_code() -> str:
    """Eight characters, 39 bits."""
    return "".join(secrets.choice(_LETTERS) for _ in range(8))


def code_hash(code: str) -> str:
    """What is stored of a code; spaces, dashes and case do not count."""
    plain = "".join(char for char in code.upper() if char.isalnum())
    return hashlib.sha256(plain.encode()).hexdigest()


def pairing_request(
    said: Said, known: PersonRow | None, now: datetime
) -> tuple[PersonRow, str] | None:
    """The row of a stranger and the code to tell; None: a code was told and still lives, so nothing
    more is said."""
    if known is not None and known.role == "asking":
        alive = known.expires is not None and known.expires > now
        if alive:
            return None
    code = new_code()
    place = said.address
    row = PersonRow(
        place.channel,
        place.account,
        said.person.id,
        said.person.name,
        "asking",
        code_hash(code),
        now + CODE_LIFE,
    )
    return row, code


def pairing_text(said: Said, code: str) -> str:
    """What the stranger is told."""
    return (
        f"I do not know you yet ({said.address.channel}:{said.person.id}). If you belong here, give"
        f" the owner this code within an hour:\n\n`{code}`\n\nThe owner says `ohmo pairing approve"
        f" {code}`; then what you wrote is answered."
    )


def welcome(role: str) -> str:
    """What somebody hears who was let in."""
    return f"You are let in as {role}. {MAY[role]} `/help` shows what can be said."


def admitted(
    rows: list[PersonRow], code: str, role: str, by: str, now: datetime
) -> PersonRow | None:
    """The row of whoever was told this code, let in; None: nobody was, or it is too late."""
    hashed = code_hash(code)
    for row in rows:
        if row.role != "asking" or row.code_hash is None:
            continue
        if secrets.compare_digest(row.code_hash, hashed):
            if row.expires is None or row.expires <= now:
                return None
            return replace(row, role=role, code_hash=None, expires=None, by=by)  # pyright: ignore[reportArgumentType]
    return None
