"""What handling an arrival needs, and how one ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from channels.contract import Address, Answer, Clock, Outbound
from channels.record import record
from ohmo.approvals.cards import card
from ohmo.approvals.questions import Shown
from ohmo.commands.contract import Command, Desk
from ohmo.contracts.arrivals import Terms, Wake
from ohmo.contracts.inwriter import Rest, no_rest
from ohmo.contracts.store import Accepted, Card, Ending, PostRow, Store, ThreadSettings
from ohmo.failpoints import Failpoint
from ohmo.gateway.access import Access
from ohmo.gateway.away import Away
from ohmo.gateway.queueing import Queueing
from ohmo.gateway.whispers import Whispers
from ohmo.ids import NewId

# By a job's thread, person and name; and the account of that person. None: there is no such job any
# more.
JobTerms = Callable[[Address, str, str], Awaitable[tuple[Terms, str] | None]]


async def _no_cards() -> Sequence[Shown]:
    return ()


@record
class IntakeParts:
    """``stopped`` is told that what was said in a thread has been ended; ``arrived`` that a running
    thread got a message, and whether its turn shall read it now; ``chose`` what holds there from
    now on; ``acknowledge`` answers the platform's button press; ``drafted`` knows how far a draft
    has grown, so that stopping it takes nothing away that was read; ``rest`` knows what a turn in a
    thread was saying, which is shown with that note; ``publish`` takes new requests of the house's
    own, None: there are none; ``cards``: questions of jobs and webhooks, with their cards."""

    store: Store
    access: Access
    commands: Mapping[str, Command]
    desk: Desk
    stopped: Callable[[str], Awaitable[None]]
    arrived: Callable[[str, bool], None]
    acknowledge: Callable[[Answer, str], Awaitable[None]]
    new_id: NewId
    clock: Clock
    failpoint: Failpoint
    drafted: Callable[[str], str | None] = lambda _: None
    card: Card = card
    away: Away | None = None
    queueing: Queueing | None = None
    whispers: Whispers | None = None
    publish: Callable[[Wake], Awaitable[Accepted]] | None = None
    restart: Callable[[], None] = lambda: None
    rest: Callable[[str, str], Rest] = lambda _, __: no_rest
    chose: Callable[[str, ThreadSettings], None] = lambda _, __: None
    terms: JobTerms | None = None
    cards: Callable[[], Awaitable[Sequence[Shown]]] = _no_cards

    def notice(self, address: Address, text: str) -> PostRow:
        return PostRow(self.new_id(), "notice", Outbound(address, text))

    async def end(
        self, accepted: Accepted, ending: Ending, reason: str = "", posts: Sequence[PostRow] = ()
    ) -> None:
        """One transaction with what is said about it."""
        await self.store.end_arrival(accepted.thread, accepted.seq, ending, reason, posts)
