"""What people allowed to take part by its content: code that nobody approved by its hash does not
run."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Protocol

from channels.record import record

SETTINGS = ".ohmo/settings.yaml"  # of a project; trusted by this path below its folder
Kind = Literal["project", "plugin", "skill", "hook", "mcp", "package", "agent"]


@record
class Trust:
    """One approval, of exactly this content. ``digest``: SHA-256 in hex over every byte that may
    run or instruct, with the paths they stand under. ``person``: who allowed it."""

    kind: Kind
    name: str
    digest: str
    person: str
    at: datetime
    revoked_at: datetime | None = None


class Trusts(Protocol):
    """Kept in the store. All raise StoreError."""

    async def trusted(self, kind: Kind, name: str, digest: str) -> bool:
        """Somebody allowed exactly this content, and nobody revoked it since."""
        ...

    async def allow(self, kind: Kind, name: str, digest: str, person: str) -> None:
        """Also again, after it was revoked."""
        ...

    async def leave_off(self, kind: Kind, name: str, digest: str, person: str) -> None:
        """Somebody looked at exactly this content and does not allow it: a row that is revoked as
        it is written. What is allowed already stays so."""
        ...

    async def revoke(self, kind: Kind, name: str) -> int:
        """All contents of that name; how many were allowed until now."""
        ...

    async def trusts(self) -> list[Trust]:
        """All there ever were, the newest first."""
        ...


@record
class Candidate:
    """Something that is there and takes no part until somebody allows exactly this content.
    ``may``: what it could do then, one line. ``broken``: why nobody can allow it, one line."""

    kind: Kind
    name: str
    digest: str
    where: str
    may: str
    broken: str = ""
