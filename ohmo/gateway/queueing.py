"""One line where people wait behind a question that somebody else has to answer: nobody sees why
nothing happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

from channels.contract import Address, Clock, Inbound, Outbound
from channels.wall_clock import wall
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.store import Accepted, Asked, PostRow, Seat
from ohmo.ids import derived

AGAIN = timedelta(minutes=10)  # after the first line, for whoever comes then


class Queueing:
    """``asked``: the questions that are open in a place. Its line is said once for a question, and
    once more; ids that follow from the question keep a restart from saying it anew."""

    def __init__(
        self, asked: Callable[[Address], Sequence[Asked]], clock: Clock, zone: tzinfo = UTC
    ) -> None:
        self._asked = asked
        self._clock = clock
        self._zone = zone
        self._told: dict[str, datetime] = {}

    def lines(self, told: Sequence[tuple[Accepted, Arrival, Seat]]) -> list[PostRow]:
        """What is to be said about a batch."""
        rows: dict[str, PostRow] = {}
        for accepted, arrival, seat in told:
            if (
                seat.ending is not None
                or seat.kind != "message"
                or not isinstance(arrival, Inbound)
                or arrival.private
            ):
                continue
            open_here = self._asked(arrival.address)
            question = next((one for one in open_here if one.thread == accepted.thread), None)
            if question is not None and (row := self._line(question, arrival)) is not None:
                rows.setdefault(row.id, row)
        return list(rows.values())

    def _line(self, asked: Asked, said: Inbound) -> PostRow | None:
        """None: it was said just now."""
        now, ask = self._clock(), asked.ask.id
        last = self._told.get(ask)
        if last is not None and now - last < AGAIN:
            return None
        self._told = {one: at for one, at in self._told.items() if now - at < timedelta(days=1)} | {
            ask: now
        }
        until = (
            f" It lapses at {wall(asked.deadline, self._zone, '%H:%M')}."
            if asked.deadline is not None
            else ""
        )
        text = (
            "I am waiting for an answer to a question above. What is said here is kept and comes"
            f" after it.{until}"
        )
        mentions = (said.person.id,) if not said.person.bot else ()
        line = Outbound(said.address, text, reply_to=said.message, mentions=mentions)
        return PostRow(derived("behind", ask, "first" if last is None else "again"), "notice", line)
