"""What the adapter remembers of Discord: guilds' channels and roles, how far each channel was read,
whom it talks to, its session, and the presses that are not answered yet."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from channels.contract import Answer, Arrival, ChannelContext, Clock, Cursor, Inbound
from channels.discord.client import Wire
from channels.discord.client_line import object_of
from channels.discord.inbound import Place, Spot, id_of, order, spot_of
from channels.errors import AuthFailed, ChannelError
from channels.payloads import Body, Malformed
from channels.record import Recent

_log = logging.getLogger(__name__)

KEPT = 500  # interactions that were answered
EPHEMERAL = 1 << 6  # Message flags: only the person sees it
DIRECT = 200  # direct conversations whose names are kept: Discord lists none to a bot
FOLLOWED = 200  # threads that were addressed to us
SAID = 2000  # messages whose author is remembered, for deletions, which do not name one
# Channel types with messages of their own: text, voice, announcement, stage
READABLE = frozenset({0, 2, 5, 13})
THREADS = frozenset({10, 11, 12})
FORUMS = frozenset({15, 16})  # forum and media channels hold threads only


@dataclass(slots=True)
class Session:
    """A gateway session that can be resumed. ``number``: of the last event that was taken from
    it."""

    id: str
    url: str
    number: int

    def written(self, stored: int, at: datetime) -> str:
        """``stored``: the last event whose arrivals are stored, and all before it."""
        session = {"id": self.id, "url": self.url, "number": stored, "at": at.timestamp()}
        return json.dumps(session)


def session_from(value: str | None, at: datetime, most: float) -> Session | None:
    """From a cursor, unless it is older than ``most`` seconds: Discord keeps sessions for minutes
    only."""
    body = _object(value)
    try:
        if not 0 <= at.timestamp() - float(body["at"]) <= most:
            return None
        return Session(str(body["id"]), str(body["url"]), int(body["number"]))
    except (KeyError, TypeError, ValueError):
        return None


@dataclass(slots=True)
class Guilds:
    """Channels, threads and roles as guilds' events tell them."""

    spots: dict[str, Spot] = field(default_factory=dict[str, Spot])
    roles: dict[str, str] = field(default_factory=dict[str, str])
    # guild -> roles of ours
    ours: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])

    def learn(self, guild: Body, account: str) -> None:
        """GUILD_CREATE: channels, active threads, roles, and of the members ourselves."""
        number = _id(guild)
        for channel in [*rows_of(guild, "channels"), *rows_of(guild, "threads")]:
            self.note(channel, number)
        managed: set[str] = set()
        for role in rows_of(guild, "roles"):
            role_id = _id(role)
            self.roles[role_id] = str(role.get("name", ""))
            if object_of(role.get("tags")).get("bot_id") == account:
                managed.add(role_id)
        self.ours[number] = managed
        for member in rows_of(guild, "members"):
            self.member(member, number, account)

    def member(self, member: Body, guild: str, account: str) -> None:
        """Our roles; @everyone, whose id is the guild's, is nobody's."""
        roles: Any = member.get("roles")
        if object_of(member.get("user")).get("id") != account:
            return
        if isinstance(roles, list):
            ids = set(map(id_of, cast("list[object]", roles)))
            ours = self.ours.setdefault(guild, set())
            ours |= ids - {"", guild}

    def note(self, channel: Body, guild: str = "") -> None:
        self.spots[_id(channel)] = spot_of(channel, guild)

    def forget(self, guild: str) -> None:
        for number, spot in list(self.spots.items()):
            if spot.guild == guild:
                del self.spots[number]
        self.ours.pop(guild, None)


@dataclass(slots=True)
class Known:
    """What survives a restart in cursors: where we are spoken to, and how far each channel was
    read."""

    direct: Recent[str, None] = field(default_factory=lambda: Recent(DIRECT))
    # thread -> parent, guild
    threads: Recent[str, tuple[str, str]] = field(default_factory=lambda: Recent(FOLLOWED))
    since: dict[str, int] = field(default_factory=dict[str, int])
    authors: Recent[str, str] = field(default_factory=lambda: Recent(SAID))
    changed: bool = False  # ``direct`` or ``threads`` differ from their cursor

    def load(self, value: str | None) -> None:
        """The cursor of places; one that cannot be read counts as none."""
        body = _object(value)
        direct = body.get("direct")
        if isinstance(direct, list):
            for channel in cast("list[object]", direct):
                self.direct[str(channel)] = None
        for thread, pair in object_of(body.get("threads")).items():
            values = cast("list[object]", pair) if isinstance(pair, list) else []
            if len(values) == 2:
                parent, guild = values
                self.threads[thread] = (str(parent), str(guild))

    def places(self) -> Cursor:
        self.changed = False
        places = {"direct": list(self.direct), "threads": self.threads}
        return Cursor("places", json.dumps(places))

    def meet(self, channel: str) -> None:
        self.changed = self.changed or channel not in self.direct
        self.direct[channel] = None

    def follow(self, thread: str, spot: Spot) -> None:
        self.changed = self.changed or thread not in self.threads
        self.threads[thread] = (spot.parent, spot.guild)

    def cursor(self, channel: str, newest: int) -> Cursor:
        """Everything up to ``newest`` is read; never goes back."""
        self.since[channel] = max(newest, self.since.get(channel, 0))
        return Cursor(channel, str(self.since[channel]))


@dataclass(slots=True)
class Memory:
    """Of one bot. ``place``: what a pure reader needs of it, as it stands now."""

    account: str
    clock: Clock
    guilds: Guilds = field(default_factory=Guilds)
    known: Known = field(default_factory=Known)

    @property
    def place(self) -> Place:
        return Place(
            account=self.account,
            now=self.clock,
            spots=self.guilds.spots,
            roles=self.guilds.roles,
            ours=set[str]().union(*self.guilds.ours.values()),
            followed=self.known.threads,
            authors=self.known.authors,
        )

    def follow(self, arrival: Arrival, chat: str) -> None:
        """A thread in which we were called stays ours to hear, and a direct conversation findable,
        also after a restart."""
        if isinstance(arrival, Inbound):
            self.known.authors[arrival.message] = arrival.person.id
        if isinstance(arrival, Answer) or (isinstance(arrival, Inbound) and arrival.addressed):
            spot = self.guilds.spots.get(chat)
            if spot is None:
                self.known.meet(chat)
            elif arrival.address.topic is not None:
                self.known.follow(chat, spot)

    async def store(
        self, context: ChannelContext, arrivals: Sequence[Arrival], cursor: Cursor | None
    ) -> None:
        """First where, then what: a death in between costs nothing. Raises Unavailable."""
        if self.known.changed:
            await context.publish([], self.known.places())
        if arrivals or cursor is not None:
            await context.publish(sorted(arrivals, key=lambda arrival: arrival.order), cursor)


def number_of(value: str | None) -> int | None:
    """A cursor's number; None for anything else, which only fetches more than needed."""
    if value is None or len(value) > 20 or not value.isascii() or not value.isdigit():
        return None
    return int(value)


def newest_in(channel: Body) -> int | None:
    """last_message_id; None when it is not told, or null: the channel seems empty, and one look
    makes sure of it."""
    return number_of(str(channel.get("last_message_id")))


def sorted_by_id(rows: list[Body]) -> list[Body]:
    unique = {order(_id(row)): row for row in rows}
    return [unique[name] for name in sorted(unique)]


def _object(value: str | None) -> Mapping[str, Any]:
    try:
        return object_of(json.loads(value or "{}"))
    except ValueError:
        return {}


def rows_of(body: Body, name: str) -> list[Body]:
    """The objects of a list; whatever is no list is an empty one."""
    rows: Any = body.get(name)
    items = cast("list[object]", rows) if isinstance(rows, list) else []
    return [cast("Body", item) for item in items if isinstance(item, dict)]


def _id(body: Body) -> str:
    value: Any = body.get("id")
    if not isinstance(value, str) or number_of(value) is None:
        raise Malformed("id is no id")
    return value


class Presses:
    """Pressed buttons and slash commands are answered within Discord's three seconds, but never
    before they are stored.

    One bot's interactions; each is answered once, whoever asks first."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._answers = Recent[str, asyncio.Task[None]](KEPT)

    def taken(self, interaction: Body) -> None:
        """Interaction Callback: a button's is deferred without a sign, a command's says that it was
        heard."""
        number = str(interaction.get("id"))
        token = interaction.get("token")
        if not isinstance(token, str) or number in self._answers:
            return
        callback: Body = {"type": 6}
        if interaction.get("type") != 3:
            command = interaction.get("data")
            name = cast("Body", command).get("name") if isinstance(command, dict) else ""
            content = f"Heard: `/{name}`"
            quiet: Body = {"parse": []}
            shown: Body = {"content": content, "flags": EPHEMERAL, "allowed_mentions": quiet}
            callback = {"type": 4, "data": shown}
        answering = self._answer(number, token, callback)
        self._answers[number] = asyncio.create_task(answering, name="discord interaction")

    async def settled(self, number: str) -> None:
        """When it was answered, or cannot be any more; at once for one of a former life."""
        answer = self._answers.get(number)
        if answer is not None:
            await asyncio.wait({answer})

    async def close(self) -> None:
        for answer in self._answers.values():
            answer.cancel()
        await asyncio.gather(*self._answers.values(), return_exceptions=True)
        self._answers.clear()

    async def _answer(self, number: str, token: str, callback: Body) -> None:
        try:
            await self._wire.call(
                "POST", "/interactions/{id}/{token}/callback", callback, id=number, token=token
            )
        except AuthFailed as error:
            _log.warning("discord: %s", error)
        except ChannelError as error:  # 10062 after three seconds: it is stored all the same
            _log.info("discord: an interaction could not be answered: %s", error)
