"""How the other rooms reach the owner: one message per incident."""

from __future__ import annotations

from typing import Protocol

from channels.contract import Address


class OwnerNotices(Protocol):
    """``ohmo.gateway.notices`` carries it out."""

    async def tell(self, incident: str, text: str) -> bool:
        """``incident`` names it, so that it is told once. False: told before, or nobody can be
        told."""
        ...

    def over(self, incident: str) -> None:
        """The incident has ended; the next one of this name is told at once."""
        ...

    def owner_place(self) -> Address:
        """Where the owner reads now."""
        ...
