"""Hearing Discord: events become stored arrivals, then the session's number moves on; a channel's
live events wait behind its catch-up."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, cast

from channels.contract import Arrival, ChannelContext, Clock, Cursor
from channels.discord import inbound
from channels.discord.client import Wire
from channels.discord.client_line import Frame, Line, Over, Refused, Unreachable, object_of
from channels.discord.history import Doubles, MissedChannels
from channels.discord.inbound import Spot
from channels.discord.memory import Memory, Presses, Session, number_of, rows_of, session_from
from channels.errors import AuthFailed, NotReady, RateLimited, Unavailable, main_error
from channels.payloads import Body, Malformed, Quarantine

_log = logging.getLogger(__name__)

# seconds between two notes of how far the session was stored: a restart hears so much twice, and
# keys are equal
SAVED_EVERY = 2.0
RESUMABLE = 600.0  # seconds after which Discord is not even asked whether it still has the session
GUILDS_WITHIN = (
    10.0  # seconds for the guilds to tell of themselves; one that is out of order may take hours
)
PATIENCE = 2.0  # seconds for the message that somebody answers to
_REPLY = 19  # Message types
_PLACES = frozenset({"CHANNEL_CREATE", "CHANNEL_UPDATE", "THREAD_CREATE", "THREAD_UPDATE"})


class Listening:
    """One ``receive``: gateway connections one after the other, until one of them cannot be
    followed by the next at once."""

    def __init__(
        self,
        wire: Wire,
        context: ChannelContext,
        account: str,
        presses: Presses,
        clock: Clock,
        doubles: Doubles,
    ) -> None:
        self._wire = wire
        self._context = context
        self._presses = presses
        self._clock = clock
        self._doubles = doubles
        self._memory = Memory(account, clock)
        self._unreadable = Quarantine(context.state / "malformed", "discord")
        self._session: Session | None = None
        # Of a life or connection before: it still holds what was not stored.
        self._former: Session | None = None
        self._fresh: Session | None = None  # kept while the former one is asked
        self._began = 0.0  # when the session began, monotonic
        self._saved = 0.0  # when it was noted how far it is stored, monotonic
        self._noted = ("", 0)  # session, the number that was noted
        self._dirty = False  # more is stored, or will be, than was noted

    async def run(self, gateway: str, line: Line | None) -> None:
        """``line``: a fresh connection, if there is one. Raises ChannelError, or Unavailable from
        ``publish``."""
        self._former = session_from(await self._context.cursor("session"), self._clock(), RESUMABLE)
        self._memory.known.load(await self._context.cursor("places"))
        try:
            async with asyncio.TaskGroup() as group:
                missed = MissedChannels(
                    self._wire,
                    self._context,
                    self._memory,
                    self._unreadable,
                    self._doubles,
                    self._deliver,
                    group,
                )
                while True:
                    began = time.monotonic()
                    line = line or await self._dial(gateway)
                    try:
                        await self._connection(line, missed)
                    except Over as over:
                        if not over.resume:
                            self._session, self._fresh = self._fresh, None
                        planned = isinstance(over, _TurnBack)
                        lasted = time.monotonic() - began
                        if lasted < self._wire.pace.rest and over.resume and not planned:
                            raise  # the house had better wait: longer each time
                        _log.info("discord: %s; connecting again", over)
                    finally:
                        await line.close()
                    line = None
        except BaseExceptionGroup as failed:
            raise main_error(failed, AuthFailed, Unavailable, Over) from None

    async def _dial(self, gateway: str) -> Line:
        """Resumes the session, at its own address and then at everybody's; a new one begins when
        there is none."""
        session = self._session
        if session is None:
            return await self._wire.dial(gateway)
        try:
            return await self._wire.dial(session.url, (session.id, session.number))
        except Unreachable:
            return await self._wire.dial(gateway, (session.id, session.number))

    async def _connection(self, line: Line, missed: MissedChannels) -> None:
        line.heard = self._context.heard
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(line.pump(), name="discord gateway")
                while True:
                    await self._round(line, missed)
        except BaseExceptionGroup as failed:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                # A group that is cancelled while it fails tells of the failure alone.
                raise asyncio.CancelledError from None
            raise main_error(failed, AuthFailed, Unavailable, Over) from None

    async def _round(self, line: Line, missed: MissedChannels) -> None:
        """What came meanwhile is lined up, and it is noted how far the session is stored."""
        backlog = missed.backlog
        frames = await backlog.next(lambda: line.frames(1.0))
        for frame in frames:
            if frame.data is not None and frame.event == "MESSAGE_CREATE":
                self._doubles.live(frame.data)  # before anything of it is stored
        for frame in frames:
            if frame.data is None:
                what = f"a frame {frame.event} that cannot be read"
                self._unreadable.pass_over(what, frame.raw)
                continue
            chat = await self._note(frame, frame.data, missed)
            if chat is None:
                continue
            # Of our own words nothing is stored; only a catch-up wants to know that they came.
            ours = object_of(frame.data.get("author")).get("id") == self._memory.account
            if not ours or backlog.is_behind(chat):
                backlog.line_up(chat, frame)
        session = self._session
        if session is None:
            return
        now = time.monotonic()
        if frames or self._dirty:
            heard = [frame.number for frame in frames if frame.session == session.id]
            session.number = max([session.number, *heard])
        if self._former is None and (frames or self._dirty):
            # Past nothing that is not stored.
            waiting = [
                frame.number for frame in backlog.not_stored() if frame.session == session.id
            ]
            stored = min([session.number, *(number - 1 for number in waiting)])
            self._dirty = True
            noted = (session.id, stored)
            if now - self._saved >= SAVED_EVERY and noted != self._noted:
                self._saved = now
                self._noted = noted
                self._dirty = bool(waiting)
                cursor = Cursor("session", session.written(stored, self._clock()))
                await self._context.publish([], cursor)
        # The session of a former life is resumed once, when the guilds have told of themselves: it
        # knows what no history tells, a first direct message among it, and goes on as ours. When
        # Discord does not have it any more, the new one is resumed instead.
        elif self._former is not None and (not missed.absent or now - self._began > GUILDS_WITHIN):
            self._fresh, self._session, self._former = session, self._former, None
            raise _TurnBack("Discord: the session of the life before goes on", resume=True)

    async def _note(self, frame: Frame, data: Body, missed: MissedChannels) -> str | None:
        """What an event tells of sessions and places is learnt at once; the channel, when it says
        something itself."""
        guilds = self._memory.guilds
        try:
            match frame.event:
                case "READY":
                    # A session of our own begins; what was said before it is fetched.
                    address = str(data.get("resume_gateway_url"))
                    self._session = Session(frame.session, address, frame.number)
                    self._began = time.monotonic()
                    self._saved = 0.0
                    if self._former is None:
                        # Noted before anything is taken from it: a death from now on loses nothing.
                        note = self._session.written(frame.number, self._clock())
                        await self._context.publish([], Cursor("session", note))
                    await missed.begin([str(guild.get("id")) for guild in rows_of(data, "guilds")])
                case "RESUMED":
                    self._fresh = None
                case "GUILD_CREATE" if not data.get("unavailable"):
                    guilds.learn(data, self._memory.account)
                    missed.guild(data)
                case "GUILD_DELETE":
                    if not data.get("unavailable"):
                        guilds.forget(str(data.get("id")))
                        missed.gone(str(data.get("id")))
                case "GUILD_MEMBER_UPDATE":
                    guilds.member(data, str(data.get("guild_id")), self._memory.account)
                case "THREAD_LIST_SYNC":
                    for thread in cast("list[Any]", data.get("threads") or []):
                        guilds.note(thread, str(data.get("guild_id") or ""))
                case event if event in _PLACES and data.get("guild_id"):
                    guilds.note(data)
                case event if event.startswith(("MESSAGE_", "INTERACTION_")):
                    if event == "MESSAGE_CREATE" and not data.get("guild_id"):
                        missed.stranger(inbound.chat_of(data))
                    return await self._speaks(data)
                case _:
                    pass
        except (Malformed, TypeError, AttributeError) as error:
            self._unreadable.pass_over(f"{frame.event}: {error}", data)
        return None

    async def _speaks(self, data: Body) -> str:
        spots = self._memory.guilds.spots
        chat = inbound.chat_of(data)
        guild = str(data.get("guild_id") or "")
        channel = data.get("channel")
        if not chat or not guild or chat in spots:
            return chat
        if isinstance(channel, dict):  # an interaction brings its channel with it
            spots[chat] = inbound.spot_of(cast("Body", channel), guild)
            return chat
        # A channel that no event told of: a thread that wakes up, or any after a resumed session.
        # Unknown for good: a plain channel.
        try:
            spots[chat] = inbound.spot_of(await self._wire.channel(chat), guild)
        except (Refused, Malformed) as error:
            _log.info("discord: channel %s cannot be looked up: %s", chat, error)
            spots[chat] = Spot(guild)
        return chat

    # delivering

    async def _deliver(self, chat: str, frames: list[Frame]) -> None:
        """Store what the events say; only then are pressed buttons and commands answered.
        Unavailable ends the connection before its number moved: Discord tells it again."""
        arrivals: dict[str, Arrival] = {}
        answered: list[Body] = []
        newest = 0
        for frame in frames:
            data = await self._with_quote(frame)
            try:
                for arrival in inbound.read(
                    frame.event, data, self._memory.place, f"{frame.session}:{frame.number}"
                ):
                    arrivals.setdefault(arrival.key, arrival)
                    self._memory.follow(arrival, chat)
            except Malformed as error:
                self._unreadable.pass_over(
                    f"{frame.event}: {error}", data, f"{frame.event}-{data.get('id')}"
                )
                continue
            if frame.event == "MESSAGE_CREATE":
                newest = max(newest, number_of(str(data.get("id"))) or 0)
            elif frame.event == "INTERACTION_CREATE":
                answered.append(data)
        if arrivals:
            await self._memory.store(
                self._context,
                list(arrivals.values()),
                self._memory.known.cursor(chat, newest) if newest else None,
            )
        for data in answered:
            self._presses.taken(data)

    async def _with_quote(self, frame: Frame) -> Body:
        """Message object, referenced_message: an answer without it was not looked up by Discord, so
        it is looked up here; what cannot be had in time is left out."""
        data = frame.data or {}
        is_reply = frame.event == "MESSAGE_CREATE" and data.get("type") == _REPLY
        if not is_reply or "referenced_message" in data:
            return data
        reference = object_of(data.get("message_reference"))
        channel = inbound.id_of(reference.get("channel_id")) or inbound.chat_of(data)
        message = inbound.id_of(reference.get("message_id"))
        if not channel or not message:
            return data
        try:
            async with asyncio.timeout(PATIENCE):
                return data | {"referenced_message": await self._wire.message(channel, message)}
        except (Refused, NotReady, RateLimited, TimeoutError) as error:
            _log.info(
                "discord: what message %s answers to cannot be read: %s", data.get("id"), error
            )
            return data


class _TurnBack(Over):
    """Not an end: the next connection resumes another session."""
