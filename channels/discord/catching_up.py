"""After a new session: every channel that grew meanwhile is read, its live events wait behind it,
and what the fence leaves out is said aloud."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, cast

from channels.cleaning import cleaned
from channels.contract import Address, Arrival, ChannelContext, ChatId, Cursor
from channels.discord import history, inbound
from channels.discord.client import Wire
from channels.discord.doubles import Doubles
from channels.discord.failures import Refused
from channels.discord.frames import Frame
from channels.discord.history import OVERLAP, Missed
from channels.discord.inbound import Spot, snowflake
from channels.discord.memory import FORUMS, READABLE, THREADS, Memory, newest_in, number_of, rows_of
from channels.gaps import in_place, left_out
from channels.payloads import Body, Malformed, Quarantine

_log = logging.getLogger(__name__)
READERS = 4  # channels that are read at the same time
_THREAD_CREATED = 18  # Message types: the line in a channel that says where a thread began

Deliver = Callable[[str, list[Frame]], Awaitable[None]]


class CatchUp:
    """Of one ``receive``, whatever becomes of its connections. ``waiting``: live events of channels
    that are still being read; ``absent``: guilds that did not tell of themselves yet."""

    def __init__(
        self,
        wire: Wire,
        context: ChannelContext,
        memory: Memory,
        looks: tuple[Quarantine, Doubles],
        deliver: Deliver,
        group: asyncio.TaskGroup,
    ) -> None:
        """``looks``: at rows nobody can read, and at those that a second ohmo may have said."""
        self._wire = wire
        self._context = context
        self._memory = memory
        self._deliver = deliver
        self._group = group
        self._aside, self._doubles = looks
        self.absent: set[str] = set()
        self.waiting: dict[str, list[Frame]] = {}
        self._slots = asyncio.Semaphore(READERS)
        self._first = 0  # everything before it was said before we ever came
        self._back = False  # we were here before, and away

    async def begin(self, guilds: Sequence[str]) -> None:
        """At READY: direct conversations we know of. The guilds tell of themselves after it."""
        self.absent.update(guilds)
        first = number_of(await self._context.cursor("since"))
        self._back = first is not None
        if first is None:
            first = snowflake(self._memory.clock())
            await self._context.publish([], Cursor("since", str(first)))
        self._first = first
        for channel in reversed(self._memory.known.direct):
            self._schedule(channel, None, 0)

    def stranger(self, channel: str) -> None:
        """Somebody speaks in a direct conversation. No list shows those nobody knows of: what was
        said there while we were away comes first."""
        known = self._memory.known
        if self._back and channel not in known.direct and channel not in known.since:
            self._schedule(channel, None, 0)

    def gone(self, guild: str) -> None:
        self.absent.discard(guild)

    def guild(self, data: Body) -> None:
        """At GUILD_CREATE, also of a guild that comes back: whatever grew since we last read it."""
        number = str(data.get("id"))
        self.absent.discard(number)
        joined = _joined(data)
        channels = rows_of(data, "channels") + rows_of(data, "threads")
        there = {str(one.get("id")) for one in channels}
        for channel in channels:
            if channel.get("type") in READABLE | THREADS:
                self._schedule(str(channel.get("id")), newest_in(channel), joined)
            elif channel.get("type") in FORUMS:
                newest = newest_in(channel)
                if (
                    newest is not None
                    and newest > max(self._first, joined)
                    and str(newest) not in there
                ):
                    self._group.create_task(
                        self._forum(str(channel.get("id")), number, max(self._first, joined)),
                        name="discord forum",
                    )
        for thread, (parent, guild) in list(self._memory.known.threads.items()):
            if (
                guild == number and thread not in there
            ):  # asleep; somebody may have spoken before it fell asleep
                self._memory.guilds.spots.setdefault(thread, Spot(guild, "", parent))
                self._schedule(thread, None, joined)

    def _schedule(self, channel: str, newest: int | None, floor: int) -> None:
        if channel not in self.waiting:
            self.waiting[channel] = []
            self._group.create_task(
                self._read(channel, newest, floor), name=f"discord catch-up {channel}"
            )

    async def _forum(self, forum: str, guild: str, since: int) -> None:
        for thread in await history.archived(self._wire, forum, since):
            self._thread(thread, guild)

    def _thread(self, thread: Body, guild: str) -> None:
        """One that no event told of."""
        number = str(thread.get("id"))
        if number not in self._memory.guilds.spots:
            self._memory.guilds.note(thread, guild)
            self._schedule(number, newest_in(thread), 0)

    async def _read(self, channel: str, newest: int | None, floor: int) -> None:
        async with self._slots:
            await self._read_one(channel, newest, floor)
        while frames := list(self.waiting[channel]):
            await self._deliver(channel, frames)
            del self.waiting[channel][: len(frames)]
        del self.waiting[
            channel
        ]  # nothing was awaited since none was waiting: no event can slip between

    async def _read_one(self, channel: str, newest: int | None, floor: int) -> None:
        age, most = self._context.catch_up
        known = number_of(await self._context.cursor(channel))
        since = known if known is not None else max(self._first, floor)
        self._memory.known.since[channel] = since
        if newest is not None and newest <= since:
            return
        fence = snowflake(self._memory.clock() - age)
        try:
            missed = await history.missed(self._wire, channel, since, fence, most)
        except Refused as refused:
            _log.info("discord: %s: what was missed cannot be read: %s", channel, refused)
            if known is not None:
                await self._context.missed(
                    f"{refused}. What was said on Discord while ohmo was away may be missing."
                )
            return
        for row in missed.said:
            self._doubles.missed(row)
        self._order(channel, missed)
        arrivals = self._arrivals(channel, missed, edits=known is not None)
        await self._confess(channel, missed)
        for row in missed.said:
            await self._branch(row, channel)
        last = max((int(row["id"]) for row in [*missed.said, *missed.left]), default=0)
        await self._memory.store(
            self._context,
            arrivals,
            self._memory.known.cursor(channel, last) if last > since else None,
        )

    def _order(self, channel: str, missed: Missed) -> None:
        """What waits as a live event and was said before the rows of history is told with them, in
        its place."""
        heard = [
            frame.data or {} for frame in self.waiting[channel] if frame.event == "MESSAGE_CREATE"
        ]
        coming = {str(data.get("id")) for data in heard}
        missed.left, missed.said = in_place(
            [(str(row["id"]), row) for row in missed.left], missed.said, coming
        )
        first = min(
            (number for data in heard if (number := number_of(str(data.get("id")))) is not None),
            default=None,
        )
        if first is not None:
            missed.said[:0] = [row for row in missed.before if int(row["id"]) >= first]
            missed.before = [row for row in missed.before if int(row["id"]) < first]

    def _arrivals(self, channel: str, missed: Missed, *, edits: bool) -> list[Arrival]:
        found: list[Arrival] = []
        since = inbound.moment(str(self._memory.known.since[channel]))
        for row in [*(missed.before if edits else ()), *missed.said]:
            try:
                place = self._memory.place
                if row in missed.before:
                    changed = inbound.edited(row, place)
                    said: Arrival | None = (
                        changed if changed is not None and changed.at > since - OVERLAP else None
                    )
                else:
                    said = inbound.message(row, place)
            except (Malformed, ValueError, OverflowError) as error:
                self._aside.pass_over(
                    f"a row of the history of {channel}: {error}", row, f"{channel}-{row['id']}"
                )
                continue
            if said is not None:
                said = cleaned(said)
                found.append(said)
                self._memory.follow(said, channel)
        return found

    async def _branch(self, row: Body, channel: str) -> None:
        """A thread that began on a message, or whose beginning a line of the channel tells."""
        spot = self._memory.guilds.spots.get(channel)
        if spot is None:
            return
        thread: Any = row.get("thread")
        reference: Any = row.get("message_reference")
        try:
            if isinstance(thread, dict):
                self._thread(cast("Body", thread), spot.guild)
            elif row.get("type") == _THREAD_CREATED and isinstance(reference, dict):
                number = str(cast("Body", reference).get("channel_id"))
                if number not in self._memory.guilds.spots:
                    self._thread(
                        cast("Body", await self._wire.read(lambda http: http.get_channel(number))),
                        spot.guild,
                    )
        except (Refused, Malformed) as error:
            _log.info("discord: a thread of %s cannot be read: %s", channel, error)

    async def _confess(self, channel: str, missed: Missed) -> None:
        """The fence is never silent: said where somebody may be waiting, else to the owner."""
        place = self._memory.place
        left = [row for row in missed.left if _spoken(row, place)]
        if not left and not missed.more:
            return
        private = channel not in place.spots
        called = private or any(inbound.calls_us(row, place) for row in left)
        address: Address | None = inbound.address_of(channel, place) if called else None
        text = left_out(
            [inbound.moment(str(row["id"])) for row in left],
            self._context.catch_up,
            zone=self._context.zone,
            where="here"
            if address is not None
            else f"on Discord in {_name(place.spots.get(channel), channel)}",
            key="channels.discord.catch_up",
            more=missed.more,
        )
        await self._context.missed(text, address)


def _spoken(row: Body, place: inbound.Place) -> bool:
    try:
        return inbound.is_spoken(row, place)
    except Malformed:
        return False


def _name(spot: Spot | None, channel: str) -> str:
    return f"#{spot.name}" if spot is not None and spot.name else ChatId(channel)


def _joined(guild: Body) -> int:
    """What was said in a guild before we came to it is nothing we missed (Guild Create,
    joined_at)."""
    value = guild.get("joined_at")
    try:
        return snowflake(datetime.fromisoformat(value)) if isinstance(value, str) else 0
    except (ValueError, OverflowError):
        return 0
