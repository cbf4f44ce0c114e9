"""One honest line where somebody waited: what was said while nobody was there is answered late, and
that is said."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

import structlog

from channels.contract import Clock, Inbound, Outbound
from channels.wall_clock import wall
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.store import Accepted, PostRow, Seat
from ohmo.ids import derived
from ohmo.lifecycle import failure_of

log = structlog.get_logger("ohmo.intake")
LATE = timedelta(minutes=10)  # a platform may take its time; after this somebody wonders
AGAIN = timedelta(hours=1)  # one line for one absence


class Away:
    """``post`` writes rows of the outbox; ``zone``: in which times are told. Told of what was
    accepted; says its line once per thread and absence."""

    def __init__(
        self, post: Callable[[Sequence[PostRow]], Awaitable[None]], clock: Clock, zone: tzinfo = UTC
    ) -> None:
        self._post = post
        self._clock = clock
        self._zone = zone
        self._told: dict[str, datetime] = {}

    def lines(self, told: Sequence[tuple[Accepted, Arrival, Seat]]) -> list[PostRow]:
        """What is to be said about a batch."""
        now = self._clock()
        self._told = {thread: at for thread, at in self._told.items() if now - at < AGAIN}
        late: dict[str, list[tuple[int, Inbound]]] = {}
        for accepted, arrival, seat in told:
            waits = seat.ending is None and seat.kind == "message"
            if (
                waits
                and isinstance(arrival, Inbound)
                and now - arrival.at > LATE
                and accepted.thread not in self._told
            ):
                late.setdefault(accepted.thread, []).append((accepted.seq, arrival))
        self._told |= dict.fromkeys(late, now)
        return [_line(thread, said, now, self._zone) for thread, said in late.items()]

    async def say(self, rows: Sequence[PostRow]) -> None:
        """Best effort: the answers themselves are durable."""
        if (error := await failure_of(self._post(rows))) is not None:
            log.warning("away_unsaid", error=str(error))


def _line(thread: str, said: Sequence[tuple[int, Inbound]], now: datetime, zone: tzinfo) -> PostRow:
    first, place = min(one.at for _, one in said), said[0][1].address
    what = "this" if len(said) == 1 else f"these {len(said)} messages"
    text = (
        f"I was away and read {what} only now: said since {wall(first, zone)}, {_ago(now - first)}"
        " ago."
    )
    return PostRow(derived("away", thread, str(said[0][0])), "notice", Outbound(place, text))


def _ago(age: timedelta) -> str:
    minutes = round(age.total_seconds() / 60)
    if minutes < 120:
        return f"{minutes} minutes"
    return f"{minutes // 60} h" if minutes < 2_880 else f"{minutes // 1_440} days"
