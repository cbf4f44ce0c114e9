"""Hearing a platform that has a history: what was missed in a chat is read first, then its live
events.

``CatchUp`` keeps these promises, whatever fails or is cancelled in between:

- events of one chat are delivered in the order in which they came, and each of them once;
- a chat's live events wait until what was missed in it is stored, and for no other chat;
- ``deliver`` acknowledges after it has stored, so that nothing is acknowledged before;
- a message beyond the limits of catch-up is counted and told, never silently passed over.

What differs from platform to platform is its ``History``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from typing import Generic, Protocol, TypeVar

from channels.contract import Address, Arrival, ChannelContext
from channels.errors import NotReady, Rejected
from channels.payloads import Malformed, Quarantine, cleaned
from channels.record import record
from channels.text import MINUTES, wall

READERS = 4  # chats that are caught up at the same time
# Live events that are not stored yet; then no more are taken from the platform.
MOST_WAITING = 5_000

_log = logging.getLogger(__name__)

Event = TypeVar("Event")
Row = TypeVar("Row")
T = TypeVar("T")


@dataclass(slots=True)
class Missed(Generic[Row]):
    """What a chat's history holds after the last word that was stored; rows oldest first."""

    said: list[Row] = field(default_factory=list[Row])
    changed: list[Row] = field(default_factory=list[Row])  # said before, edited or deleted since
    left: list[Row] = field(default_factory=list[Row])  # left out: too old, or too many
    more: bool = False  # there are older ones that nobody counted

    def fence(self, rows: Sequence[Row], old: int, most: int) -> None:
        """The newest ``most`` rows are said, except the ``old`` first ones; the others are left
        out."""
        first = max(old, len(rows) - most)
        self.left = list(rows[:first])
        self.said = list(rows[first:])

    def take_back(self, coming: Collection[str], name: Callable[[Row], str]) -> None:
        """What was left out but waits as a live event, too, is told before what was said after
        it."""
        self.said = [*(row for row in self.left if name(row) in coming), *self.said]
        self.left = [row for row in self.left if name(row) not in coming]


class History(Protocol[Row]):
    """How one platform is asked for what was missed. ``chat`` is the name under which events are
    lined up."""

    @property
    def title(self) -> str: ...  # "Slack"

    def name(self, chat: str) -> str:
        """As its people know it."""
        ...

    async def missed(self, chat: str) -> Missed[Row] | None:
        """None: there is nothing to tell. Raises Rejected when it cannot be read, and
        ChannelError."""
        ...

    def arrival(self, chat: str, row: Row, *, changed: bool) -> Arrival | None:
        """None: nothing the house wants to hear. Raises Malformed."""
        ...

    def said_at(self, row: Row) -> datetime | None:
        """None: not a person's words, so that nobody waits for an answer."""
        ...

    def notice_to(self, chat: str, missed: Missed[Row]) -> Address | None:
        """Where it is told that messages were left out; None: only to the owner."""
        ...

    async def store(self, chat: str, missed: Missed[Row], arrivals: Sequence[Arrival]) -> None:
        """Publishes the arrivals with the cursor that says how far the chat was read. Raises
        Unavailable."""
        ...


class CatchUp(Generic[Row]):
    """Reads what was missed in one chat after the other."""

    def __init__(
        self, history: History[Row], context: ChannelContext, unreadable: Quarantine
    ) -> None:
        self._history = history
        self._context = context
        self._unreadable = unreadable

    async def read(self, chat: str) -> None:
        """Stores what was missed in a chat. Raises ChannelError, Unavailable."""
        title = self._history.title
        try:
            missed = await self._history.missed(chat)
        except Rejected as refused:
            _log.warning("%s: %s: what was missed cannot be read: %s", title, chat, refused)
            await self._context.missed(
                f"{refused}. What was said on {title} while ohmo was away may be missing."
            )
            return
        if missed is None:
            return
        arrivals: list[Arrival] = []
        for rows, changed in ((missed.said, False), (missed.changed, True)):
            for row in rows:
                try:
                    arrival = self._history.arrival(chat, row, changed=changed)
                except Malformed as error:
                    self._unreadable.pass_over(f"a row of the history of {chat}: {error}", row)
                    continue
                if arrival is not None:
                    arrivals.append(cleaned(arrival))
        # What was left out is told in the chat where somebody may be waiting, else to the owner.
        times = [self._history.said_at(row) for row in missed.left]
        spoken = [at for at in times if at is not None]
        if spoken or missed.more:
            address = self._history.notice_to(chat, missed)
            name = self._history.name(chat)
            notice = left_out(
                spoken,
                self._context.catch_up,
                zone=self._context.zone,
                where="here" if address is not None else f"on {title} in {name}",
                key=f"channels.{title.lower()}.catch_up",
                more=missed.more,
            )
            await self._context.missed(notice, address)
        arrivals.sort(key=lambda arrival: arrival.order)
        await self._history.store(chat, missed, arrivals)


def left_out(
    times: Sequence[datetime],
    limits: tuple[timedelta, int],
    *,
    zone: tzinfo,
    where: str,
    key: str,
    more: bool = False,
) -> str:
    """One paragraph: how many messages were not read, from when to when, and why.

    ``times`` of the messages that were counted, oldest first; ``more``: there are others.
    ``limits``: oldest age and most messages, as configured under ``key``. ``zone``: in which
    times are told. ``where``: "here", or the place's name for the owner."""
    age, most = limits
    count = "messages"
    between = ""
    if times:
        plural = "" if len(times) == 1 and not more else "s"
        count = f"{len(times)} message{plural}{' or more' if more else ''}"
        first = times[0].astimezone(zone)
        between = f" between {first:{MINUTES}} and {wall(times[-1], zone)}"
    return (
        f"Not read: {count} said {where}{between} while ohmo was away. "
        f"It looks back {age.total_seconds() / 3600:g} h and takes the newest {most} "
        f"of a conversation ({key}). Please say again what still needs an answer."
    )


class Backlog(Generic[Event]):
    """Live events by chat, in their order; those of a chat that is being caught up wait.

    ``deliver`` stores a chat's events and then acknowledges them; ``read`` stores what was missed
    in a chat. Both run in ``group``, which the first failure of either ends."""

    def __init__(
        self,
        deliver: Callable[[str, list[Event]], Awaitable[None]],
        read: Callable[[str], Awaitable[None]],
        group: asyncio.TaskGroup,
        *,
        listed: bool = False,
    ) -> None:
        """``listed``: False when every chat has to wait until ``catch_up`` named those that were
        missed in; else only the named ones wait."""
        self._deliver = deliver
        self._read = read
        self._group = group
        self._listed = listed
        self._behind: set[str] = set()  # chats whose catch-up is not done
        self._to_read: dict[str, None] = {}  # those no reader has begun with, in order
        self._readers = 0
        self._lines: dict[_Line, list[Event]] = {}  # events that are not stored
        self._delivering: set[_Line] = set()
        self._taken = asyncio.Event()  # something was stored, or a line is empty

    def line_up(self, chat: str, event: Event, *, waits: bool = True) -> None:
        """``chat``: "" for an event of none. ``waits`` False: not even for the catch-up of its
        chat, because no history holds it and somebody sees a failure after seconds."""
        line = _Line(chat, urgent=not waits and self.is_behind(chat))
        self._lines.setdefault(line, []).append(event)
        self._begin(line)

    def catch_up(self, chats: Iterable[str]) -> None:
        """These are read before their live events are delivered; all others wait no longer."""
        for chat in chats:
            if chat not in self._behind:
                self._behind.add(chat)
                self._to_read[chat] = None
        while self._readers < min(READERS, len(self._to_read)):
            self._readers += 1
            self._group.create_task(self._read_chats(), name="catch-up")
        self._listed = True
        for line in list(self._lines):
            self._begin(line)

    def waiting(self, chat: str) -> Sequence[Event]:
        """What of this chat waits for its catch-up."""
        return self._lines.get(_Line(chat, urgent=False), ())

    def not_stored(self) -> Iterator[Event]:
        for events in self._lines.values():
            yield from events

    async def next(self, take: Callable[[], Awaitable[T]]) -> T:
        """What the platform says next. Before a connection is given up for lost, what it still
        said is stored. Raises what ``take`` raises."""
        await self.room()
        try:
            return await take()
        except NotReady:
            await self.settled()
            raise

    async def room(self) -> None:
        """Until less than MOST_WAITING events are not stored: before more are taken."""
        while sum(map(len, self._lines.values())) >= MOST_WAITING:
            self._taken.clear()
            await self._taken.wait()

    async def settled(self) -> None:
        """Until nothing is being stored any more, but for what waits for its catch-up."""
        while self._delivering:
            self._taken.clear()
            await self._taken.wait()

    def is_behind(self, chat: str) -> bool:
        """Whether its live events wait."""
        return chat != "" and (not self._listed or chat in self._behind)

    def _is_held(self, line: _Line) -> bool:
        return not line.urgent and self.is_behind(line.chat)

    def _begin(self, line: _Line) -> None:
        if line not in self._delivering and not self._is_held(line):
            self._delivering.add(line)
            self._group.create_task(self._work_off(line), name=f"chat {line.chat}")

    async def _work_off(self, line: _Line) -> None:
        while (events := list(self._lines[line])) and not self._is_held(line):
            await self._deliver(line.chat, events)
            del self._lines[line][: len(events)]
            self._taken.set()
        # Nothing was awaited since the line was looked at: no event can slip between.
        if not events:
            del self._lines[line]
        self._delivering.discard(line)
        self._taken.set()

    async def _read_chats(self) -> None:
        """One of the readers. Chats in which somebody is speaking now come first."""
        while self._to_read:
            chat = next((chat for chat in self._to_read if self.waiting(chat)), None)
            chat = chat or next(iter(self._to_read))
            del self._to_read[chat]
            await self._read(chat)
            self._behind.discard(chat)
            line = _Line(chat, urgent=False)
            if line in self._lines:
                self._begin(line)
        self._readers -= 1


@record
class _Line:
    chat: str
    urgent: bool  # delivered although the chat is being caught up
