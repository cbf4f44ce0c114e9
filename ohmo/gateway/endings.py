"""How intake ends an arrival that is handled beside the mailbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from channels.contract import Address, Outbound
from channels.record import record
from ohmo.ambient import NewId
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.turns import Ending, PersonRow, ThreadSettings


async def _nothing() -> None:
    return


@record
class Ended:
    """One transaction; ``then`` is done after its commit."""

    ending: Ending
    reason: str = ""
    posts: tuple[PostRow, ...] = ()
    person: PersonRow | None = None
    settings: ThreadSettings | None = None
    then: Callable[[], Awaitable[None]] = _nothing


def notice(new_id: NewId, address: Address, text: str) -> PostRow:
    """A line of the house's own."""
    return PostRow(new_id(), "notice", Outbound(address, text))
