"""Connections to platforms: which are open, what one of them is handed while it listens, what is
known of its health, and the files that are fetched through it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from uuid import uuid4

from channels.contract import (
    Address,
    Answer,
    Attachment,
    Channel,
    Clock,
    Cursor,
    Outbound,
    PersonId,
    Whispering,
)
from channels.errors import ChannelError, NotReady, RateLimited, Rejected
from channels.record import record
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.errors import NotConnected, NotEnabled
from ohmo.contracts.inwriter import in_writer
from ohmo.contracts.reports import ChannelState, ChannelStatus
from ohmo.contracts.turns import Accepted, CursorSave
from ohmo.gateway.draft_updates import Mode
from ohmo.gateway.drafts import Drafts
from ohmo.lifecycle import failure_of, within
from ohmo.media import Media
from ohmo.sessions.user_steps import attachments

# bytes of one file of a person; platforms have smaller bounds (``max_file`` is for what we send)
LARGEST_FETCHED = 100 << 20
SAY_LIMIT = 10.0  # seconds a word that nobody keeps may take
DEAF = "it can speak, but the platform has not begun to talk to it yet"
PROOF = timedelta(minutes=10)  # for so long an authenticated call stands for the next ones
Publish = Callable[[Sequence[Arrival], CursorSave | None], Awaitable[list[Accepted]]]
SetSince = Callable[[datetime], timedelta]
FETCH_PATIENCE = 30.0  # seconds
FETCH_PAUSE = 0.5  # seconds
FetchOne = Callable[[Address, Attachment, Path], Awaitable[Path]]


class Connections:
    """The switchboard writes it, everybody else reads it. ``enabled``: names of the channels of the
    configuration, connected or not."""

    def __init__(self, enabled: Sequence[str]) -> None:
        self.enabled = sorted(set(enabled))
        self._channels: dict[tuple[str, str], Channel] = {}
        self._drafts: dict[tuple[str, str], Drafts] = {}

    def opened(self, name: str, channel: Channel, drafts: Drafts) -> bool:
        """False: another connection speaks for this account."""
        key = (name, channel.account)
        if key in self._channels:
            return False
        self._channels[key] = channel
        self._drafts[key] = drafts
        return True

    def closed(self, name: str, account: str) -> None:
        """The connection has ended."""
        del self._channels[name, account]
        del self._drafts[name, account]

    def address(self, channel: str, rest: str) -> Address | None:
        """``rest`` read by a connected channel of this name. Raises ValueError with one line; None:
        not connected."""
        for (name, _), connected in self._channels.items():
            if name == channel:
                return connected.parse_address(rest)
        return None

    def parse(self, text: str) -> Address:
        """Reads ``CHANNEL:REST`` with the channel's own grammar. Raises ValueError with one line;
        NotConnected and NotEnabled when nobody here knows that grammar now."""
        channel, colon, rest = text.partition(":")
        if not colon or not rest:
            raise ValueError(f"{text}: an address is CHANNEL:REST, for example slack:C123/1700.1")
        address = self.address(channel, rest)
        if address is not None:
            return address
        if channel in self.enabled:
            raise NotConnected(f"{text}: the channel {channel} is not connected")
        raise NotEnabled(
            f"{text}: the channel {channel} is not enabled, only {', '.join(self.enabled)};"
            " config.yaml enables it"
        )

    def largest(self, place: Address) -> int | None:
        """Bytes of one file its channel takes; None: not connected, so nobody knows."""
        channel = self._at(place)
        return channel.capabilities.max_file if channel is not None else None

    async def fetch(self, place: Address, attachment: Attachment, into: Path) -> Path:
        """The file, inside ``into``. Raises ChannelError; NotReady when the channel is not
        connected."""
        channel = self._at(place)
        if channel is None:
            raise NotReady(f"{place.channel} is not connected")
        return await channel.fetch(attachment, into, LARGEST_FETCHED)

    @in_writer
    def drafted(self, row: str) -> str | None:
        """The newest text of a draft that still grows; None: nothing of it is known here."""
        for drafts in list(self._drafts.values()):
            if (text := drafts.newest(row)) is not None:
                return text
        return None

    async def acknowledge(self, answer: Answer, text: str) -> None:
        """The platform's own reply to a pressed button; may fail without harm."""
        channel = self._at(answer.address)
        if channel is not None:
            await channel.acknowledge(answer, text)

    async def whisper(self, place: Address, person: PersonId, text: str) -> None:
        """Said to one person in a shared place, where the platform has that; may fail without
        harm."""
        channel = self._at(place)
        if isinstance(channel, Whispering):
            await channel.whisper(place, person, text)

    async def say_now(self, outbound: Outbound, key: str) -> bool:
        """Said at once and kept nowhere, while the store is away. False: its channel is not
        connected, or would not."""
        channel = self._at(outbound.address)
        if channel is None:
            return False

        async def say() -> None:
            for number, part in enumerate(channel.render(outbound)):
                await channel.send(part, f"{key}.{number}", None)

        return await failure_of(within(SAY_LIMIT, say())) is None

    def _at(self, place: Address) -> Channel | None:
        return self._channels.get((place.channel, place.account))


@record
class LinkSettings:
    """One account of one platform. ``build`` makes a fresh adapter (imports its SDK; in a thread
    when ``heavy``)."""

    name: str
    label: str  # name, or name/account when there are several
    build: Callable[[], Channel]
    state: Path
    catch_up: tuple[timedelta, int]
    streaming: str | None = None
    heavy: bool = True
    activity: Mode = "live"
    met: Callable[[str], None] = lambda _: (
        None
    )  # told the platform's id of this account as soon as it is known


def never_set(at: datetime) -> timedelta:
    """Of a clock that nobody sets."""
    del at
    return timedelta()


@dataclass(slots=True)
class Health:
    """What ``/readyz`` and ``ohmo status`` say of a channel. ``proved``: when the platform last
    took our credentials. ``probed``: it is asked on purpose; else whatever is heard proves them,
    because it is the answer to a call. ``wary``: it stopped for somebody else and has not listened
    for them since. Of the connection that is or was last: ``alive``: it was heard at all;
    ``useful``: it brought something new, or took something we said."""

    state: ChannelState = "starting"
    detail: str = ""
    last_event: datetime | None = None
    last_delivery: datetime | None = None
    account: str = ""
    proved: datetime | None = None
    probed: bool = False
    silence: timedelta | None = None
    since: datetime | None = None
    wary: bool = False
    alive: bool = False
    useful: bool = False

    def connected(
        self,
        now: datetime,
        *,
        account: str,
        silence: timedelta | None,
        probed: bool,
        greets: bool = False,
    ) -> None:
        """The platform let us in just now. ``greets``: it says so itself once it talks to us; until
        then we can only speak."""
        if greets:
            self.state = "starting" if self.state == "starting" else "reconnecting"
            self.detail = DEAF
        else:
            self.state = "connected"
            self.detail = ""
        self.account = account
        self.silence = silence
        self.probed = probed
        self.since = now
        self.proved = now
        self.alive = self.useful = False

    def heard(self, now: datetime) -> None:
        self.last_event = now
        self.alive = True
        if not self.probed:
            self.proved = now
        if self.state != "connected":
            self.state = "connected"
            self.detail = ""

    def delivered(self, now: datetime) -> None:
        self.last_delivery = self.proved = now
        self.alive = self.useful = True

    def report(self, now: datetime, set_since: SetSince = never_set) -> ChannelStatus:
        """A connection that is open and worth nothing is not called connected. ``set_since``: by
        how much the clock was set forward after a moment; of one that was set back, what happened
        before did not happen later than ``now``."""
        self.last_event, self.last_delivery, self.proved, self.since = (
            None if at is None else min(at, now)
            for at in (self.last_event, self.last_delivery, self.proved, self.since)
        )
        state = self.state
        detail = self.detail
        if state == "connected" and self.silence is not None and self.since is not None:
            heard = max(self.since, self.last_event or self.since)
            quiet = now - heard - set_since(heard)
            proved = self.proved or self.since
            unproved = now - proved - set_since(proved)
            if quiet > 2 * self.silence:
                state = "reconnecting"
                detail = (
                    f"nothing was heard for {quiet.total_seconds():.0f} s, not even a heartbeat;"
                    " it is connected anew when the platform's own limit is over"
                )
            elif unproved > PROOF:
                state = "reconnecting"
                detail = (
                    "no call with our credentials succeeded for"
                    f" {unproved.total_seconds() / 60:.0f} minutes; `ohmo doctor --live` tells why"
                )
        return ChannelStatus(state, self.last_event, self.last_delivery, detail, self.proved)


@record
class LinkParts:
    """Where a connection turns to with what it hears. ``cursor`` of a channel, an account and a
    name; ``say`` tells about a place, None: the whole of it."""

    publish: Publish
    cursor: Callable[[str, str, str], Awaitable[str | None]]
    say: Callable[[str, Address | None], Awaitable[None]]
    clock: Clock
    zone: tzinfo


class LinkContext:
    """``ChannelContext`` for one connection; its cursor saves carry the generation of the
    connection's lease."""

    def __init__(
        self,
        settings: LinkSettings,
        account: str,
        generation: int,
        health: Health,
        parts: LinkParts,
    ) -> None:
        self._settings = settings
        self._account = account
        self._generation = generation
        self._health = health
        self._parts = parts

    @property
    def state(self) -> Path:
        return self._settings.state

    @property
    def catch_up(self) -> tuple[timedelta, int]:
        return self._settings.catch_up

    @property
    def zone(self) -> tzinfo:
        return self._parts.zone

    async def publish(self, arrivals: Sequence[Arrival], cursor: Cursor | None = None) -> None:
        saved = None
        if cursor is not None:
            saved = CursorSave(
                self._settings.name, self._account, cursor.name, cursor.value, self._generation
            )
        accepted = await self._parts.publish(arrivals, saved)
        self.heard()
        self._health.useful |= any(not row.duplicate for row in accepted)

    async def cursor(self, name: str) -> str | None:
        return await self._parts.cursor(self._settings.name, self._account, name)

    async def missed(self, text: str, address: Address | None = None) -> None:
        await self._parts.say(text, address)

    def heard(self) -> None:
        self._health.heard(self._parts.clock())


class AttachmentFetcher:
    """``fetch`` asks the connected channel; it may name the file as it likes inside the folder it
    is given. ``sleep`` waits in seconds."""

    def __init__(
        self,
        media: Media,
        fetch: FetchOne,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._media = media
        self._fetch = fetch
        self._sleep = sleep

    async def __call__(self, arrival: Arrival) -> list[str]:
        """One line for each file that could not be had."""
        if isinstance(arrival, Wake):
            return []
        missing: list[str] = []
        for attachment in attachments(arrival):
            target = self._media.path(arrival.address, attachment)
            if target.exists():
                continue
            try:
                await self._patiently(arrival.address, attachment, target)
            except (Rejected, OSError) as error:
                missing.append(f"(The file {attachment.name} could not be fetched: {error})")
        return missing

    async def _patiently(self, address: Address, attachment: Attachment, target: Path) -> None:
        """At a start the channel is often not connected yet. Raises NotReady after
        ``FETCH_PATIENCE``: the turn is given back, its file is not lost."""
        waited = 0.0
        while True:
            # Into a folder of its own, then renamed: a half-fetched file is never taken for a
            # whole one.
            folder = self._media.root / f".{uuid4().hex}"
            folder.mkdir(parents=True, mode=0o700)
            try:
                file = await self._fetch(address, attachment, folder)
                target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                file.replace(target)
                return
            except Rejected:
                raise
            except ChannelError as error:
                if waited >= FETCH_PATIENCE:
                    raise NotReady(
                        f"the file {attachment.name} cannot be fetched yet: {error}"
                    ) from error
                pause = error.retry_after if isinstance(error, RateLimited) else FETCH_PAUSE
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            await self._sleep(pause)
            waited += max(pause, FETCH_PAUSE)
