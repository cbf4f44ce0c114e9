"""What was said while nobody listened: which channels grew, what was said in each of them, and what
the posts of a second ohmo on the same bot tell of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from channels.catch_up import Backlog, CatchUp, Missed
from channels.competing_instance import CompetingInstance
from channels.contract import Address, Arrival, ChannelContext, Cursor
from channels.discord import inbound
from channels.discord.client import Wire
from channels.discord.client_line import Frame, Refused, object_of
from channels.discord.inbound import Spot, chat_of, id_of, moment, snowflake
from channels.discord.memory import (
    FORUMS,
    READABLE,
    THREADS,
    Memory,
    newest_in,
    number_of,
    rows_of,
    sorted_by_id,
)
from channels.payloads import Body, Malformed, Quarantine
from channels.record import Recent

_log = logging.getLogger(__name__)

PAGE = 100  # rows of one answer, the most there is
PAGES = 5  # of one channel; what lies behind them is counted as cut
ARCHIVED = 50  # threads of a forum that are looked through
# Before the last word we know: what was edited there while we were away.
OVERLAP = timedelta(minutes=10)
_THREAD_CREATED = 18  # Message types: the line in a channel that says where a thread began


class MissedChannels:
    """Of one ``receive``, whatever becomes of its connections. Every channel that grew is read
    (channels.catch_up.History) before its live events are delivered."""

    title = "Discord"

    def __init__(
        self,
        wire: Wire,
        context: ChannelContext,
        memory: Memory,
        unreadable: Quarantine,
        doubles: Doubles,
        deliver: Callable[[str, list[Frame]], Awaitable[None]],
        group: asyncio.TaskGroup,
    ) -> None:
        self._wire = wire
        self._context = context
        self._memory = memory
        self._doubles = doubles
        self._group = group
        read = CatchUp(self, context, unreadable).read
        self.backlog = Backlog(deliver, read, group, listed=True)
        self.absent: set[str] = set()  # guilds that did not tell of themselves yet
        self._grown: dict[str, tuple[int | None, int]] = {}  # channel -> newest message, floor
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
        # What was said before we came to it is nothing we missed (Guild Create, joined_at).
        since = data.get("joined_at")
        try:
            joined = snowflake(datetime.fromisoformat(since)) if isinstance(since, str) else 0
        except (ValueError, OverflowError):
            joined = 0
        floor = max(self._first, joined)
        channels = rows_of(data, "channels") + rows_of(data, "threads")
        active = {str(channel.get("id")) for channel in channels}
        for channel in channels:
            name = str(channel.get("id"))
            newest = newest_in(channel)
            if channel.get("type") in READABLE | THREADS:
                self._schedule(name, newest, joined)
                continue
            if channel.get("type") not in FORUMS or newest is None:
                continue
            if newest > floor and str(newest) not in active:
                reading = self._read_forum(name, number, floor)
                self._group.create_task(reading, name="discord forum")
        for thread, (parent, guild) in list(self._memory.known.threads.items()):
            if guild == number and thread not in active:
                # Asleep; somebody may have spoken before it fell asleep.
                self._memory.guilds.spots.setdefault(thread, Spot(guild, "", parent))
                self._schedule(thread, None, joined)

    def _schedule(self, channel: str, newest: int | None, floor: int) -> None:
        if not self.backlog.is_behind(channel):
            self._grown[channel] = (newest, floor)
            self.backlog.catch_up([channel])

    async def _read_forum(self, forum: str, guild: str, since: int) -> None:
        """Posts that somebody wrote in after ``since`` and that fell asleep again (List Public
        Archived Threads)."""
        try:
            page = await self._wire.read(
                lambda http: http.get_public_archived_threads(int(forum), limit=ARCHIVED)
            )
        except Refused:
            return
        for thread in [dict(row) for row in page.get("threads") or []]:
            if (newest_in(thread) or 0) > since:
                self._add_thread(thread, guild)

    def _add_thread(self, thread: Body, guild: str) -> None:
        """One that no event told of."""
        number = str(thread.get("id"))
        if number not in self._memory.guilds.spots:
            self._memory.guilds.note(thread, guild)
            self._schedule(number, newest_in(thread), 0)

    # channels.catch_up.History

    def name(self, chat: str) -> str:
        spot = self._memory.guilds.spots.get(chat)
        return f"#{spot.name}" if spot is not None and spot.name else chat

    async def missed(self, chat: str) -> Missed[Body] | None:
        newest, floor = self._grown.pop(chat)
        age, most = self._context.catch_up
        cursor = number_of(await self._context.cursor(chat))
        since = cursor if cursor is not None else max(self._first, floor)
        self._memory.known.since[chat] = since
        if newest is not None and newest <= since:
            return None
        fence = snowflake(self._memory.clock() - age)
        try:
            rows, more = await self._rows(chat, since, most)
        except Refused as refused:
            if cursor is not None:
                raise
            _log.info("discord: %s: what was missed cannot be read: %s", chat, refused)
            return None
        before = [row for row in rows if int(row["id"]) <= since]
        after = [row for row in rows if int(row["id"]) > since]
        missed = Missed[Body](more=more)
        old = [row for row in after if int(row["id"]) < fence]
        missed.fence(after, len(old), most)
        for row in missed.said:
            self._doubles.missed(row)
        # The messages that wait as live events.
        events = self.backlog.waiting(chat)
        coming: list[int] = []
        for frame in events:
            data = frame.data if frame.event == "MESSAGE_CREATE" else None
            number = number_of(str(data.get("id"))) if data is not None else None
            if number is not None:
                coming.append(number)
        missed.take_back(set(map(str, coming)), lambda row: str(row["id"]))
        # What waits as a live event and was said before the rows of history is told with them.
        first = min(coming, default=since + 1)
        missed.said[:0] = [row for row in before if int(row["id"]) >= first]
        if cursor is not None:
            missed.changed = [row for row in before if int(row["id"]) < first]
        return missed

    async def _rows(self, channel: str, since: int, most: int) -> tuple[list[Body], bool]:
        """Get Channel Messages, from a little before ``since``; the second value says that there
        are others between. Raises Refused when the channel is not ours to read."""
        rows: list[Body] = []
        after = max(0, snowflake(moment(str(since)) - OVERLAP))
        more = False
        for _ in range(PAGES):
            page = await self._wire.history(channel, after=after, limit=PAGE)
            rows += page
            if len(page) < PAGE:
                break
            numbers = [int(str(row.get("id"))) for row in page]
            after = max(after, *numbers)
        else:  # too much to read it all: the newest from the other end
            more = True
            before: int | None = None
            for _ in range(-(-most // PAGE)):
                page = await self._wire.history(channel, before=before, limit=PAGE)
                rows += page
                numbers = [int(str(row.get("id"))) for row in page]
                before = min(numbers, default=0)
        return sorted_by_id([row | {"channel_id": channel} for row in rows]), more

    def arrival(self, chat: str, row: Body, *, changed: bool) -> Arrival | None:
        place = self._memory.place
        try:
            if changed:
                since = moment(str(self._memory.known.since[chat]))
                edited = inbound.edited(row, place)
                is_new = edited is not None and edited.at > since - OVERLAP
                return edited if is_new else None
            message = inbound.message(row, place)
        except (ValueError, OverflowError) as error:
            raise Malformed(str(error)) from error
        if message is not None:
            self._memory.follow(message, chat)
        return message

    def said_at(self, row: Body) -> datetime | None:
        try:
            spoken = inbound.is_spoken(row, self._memory.place)
        except Malformed:
            return None
        return moment(str(row["id"])) if spoken else None

    def notice_to(self, chat: str, missed: Missed[Body]) -> Address | None:
        place = self._memory.place
        spoken = [row for row in missed.left if self.said_at(row) is not None]
        if chat in place.spots and not any(inbound.calls_us(row, place) for row in spoken):
            return None
        return inbound.address_of(chat, place)

    async def store(self, chat: str, missed: Missed[Body], arrivals: Sequence[Arrival]) -> None:
        # Threads that began on a message, or whose beginning a line of the channel tells.
        spots = self._memory.guilds.spots
        spot = spots.get(chat)
        for row in missed.said if spot is not None else []:
            thread = object_of(row.get("thread"))
            reference = object_of(row.get("message_reference"))
            number = str(reference.get("channel_id"))
            is_told = row.get("type") == _THREAD_CREATED and bool(reference)
            try:
                if not thread and is_told and number not in spots:
                    thread = await self._wire.channel(number)
                if thread and spot is not None:
                    self._add_thread(thread, spot.guild)
            except (Refused, Malformed) as error:
                _log.info("discord: a thread of %s cannot be read: %s", chat, error)
        numbers = [int(row["id"]) for row in missed.said + missed.left]
        last = max(numbers, default=0)
        known = self._memory.known
        cursor = known.cursor(chat, last) if last > known.since[chat] else None
        await self._memory.store(self._context, arrivals, cursor)


PLACES = 1_000  # in which somebody spoke last
# Milliseconds, as messages are numbered: so long after one answer the other one's is waited for.
SOON = 30_000 << 22
_WHAT = "Discord: another ohmo answers with this token"


@dataclass(slots=True)
class _Round:
    """What was answered since somebody spoke in a place: the first post of each, 0: none."""

    ours: int = 0
    theirs: int = 0
    row: str = ""  # of the other one

    def waits(self, number: int) -> bool:
        """Whether one has answered a short while before the message of this number, and the other
        one has not yet."""
        if self.ours and self.theirs:
            return False
        answered = self.ours or self.theirs or number
        return 0 < number - answered < SOON


class Doubles:
    """A second ohmo on the same bot: Discord gives every event to both and tells neither, so both
    answer, and each sees what the other one says.

    Source: Gateway, "Sharding" (several sessions of one token are allowed); Create Message,
    ``nonce``: "Value will appear in the Message Create event".

    Of one connection. Where both answered, the one whose answer came second has lost: who lost
    most of three leaves, so of two only one does."""

    def __init__(self, competing: CompetingInstance, account: str) -> None:
        self._competing = competing
        self._account = account
        self._rounds = Recent[str, _Round](PLACES)

    def live(self, data: Body) -> None:
        """MESSAGE_CREATE, in the order of the gateway. Raises InUse."""
        chat = chat_of(data)
        number = number_of(id_of(data.get("id")))
        if not chat or number is None:
            return
        here = self._rounds.get(chat)
        if not self._is_ours(data):
            if here is None or not here.waits(number):
                here = _Round()
            self._rounds[chat] = here
            return
        if here is None and self._competing.rested is not None:
            here = _Round()
        if here is None or (here.ours and here.theirs):
            return
        nonce = data.get("nonce")
        if self._competing.sent(nonce):
            here.ours = here.ours or number
        elif self._competing.said(nonce, moment(str(number))):
            here.theirs = here.theirs or number
            here.row = here.row or str(nonce).partition(".")[0]
            if self._competing.rested is not None:
                self._competing.conflict(_WHAT)
        if here.ours and here.theirs:
            self._competing.conflict(_WHAT, here.row, lost=here.theirs < here.ours)

    def missed(self, row: Body) -> None:
        """A row of history, which has no nonce: after a stop, what our account said while we were
        silent; a script may have. Raises InUse."""
        number = number_of(id_of(row.get("id")))
        if number is None or not self._is_ours(row):
            return
        if self._competing.silent_at(moment(str(number))):
            self._competing.conflict(_WHAT, sure=False)

    def _is_ours(self, row: Body) -> bool:
        return object_of(row.get("author")).get("id") == self._account
