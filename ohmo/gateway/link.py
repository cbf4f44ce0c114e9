"""What the house hands to one channel while it listens, and what is known of its health."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

from channels.contract import Address, Arrival, Channel, Clock, Cursor
from channels.record import record
from ohmo.contracts.status import ChannelState, ChannelStatus
from ohmo.contracts.turns import Accepted, CursorSave
from ohmo.gateway.activity import Mode

DEAF = "it can speak, but the platform has not begun to talk to it yet"
PROOF = timedelta(minutes=10)  # for so long an authenticated call stands for the next ones
Publish = Callable[[Sequence[Arrival], CursorSave | None], Awaitable[list[Accepted]]]


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


SetSince = Callable[[datetime], timedelta]


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
        doubt = self._doubt(now, set_since) if self.state == "connected" else ""
        state = "reconnecting" if doubt else self.state
        return ChannelStatus(
            state, self.last_event, self.last_delivery, doubt or self.detail, self.proved
        )

    def _doubt(self, now: datetime, set_since: SetSince) -> str:
        if self.silence is None or self.since is None:
            return ""
        heard = max(self.since, self.last_event or self.since)
        proved = self.proved or self.since
        quiet = now - heard - set_since(heard)
        if quiet > 2 * self.silence:
            return (
                f"nothing was heard for {quiet.total_seconds():.0f} s, not even a heartbeat; it is"
                " connected anew when the platform's own limit is over"
            )
        unproved = now - proved - set_since(proved)
        if unproved > PROOF:
            return (
                f"no call with our credentials succeeded for {unproved.total_seconds() / 60:.0f}"
                " minutes; `ohmo doctor --live` tells why"
            )
        return ""


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
        self._health.useful |= any(not one.duplicate for one in accepted)

    async def cursor(self, name: str) -> str | None:
        return await self._parts.cursor(self._settings.name, self._account, name)

    async def missed(self, text: str, address: Address | None = None) -> None:
        await self._parts.say(text, address)

    def heard(self) -> None:
        self._health.heard(self._parts.clock())
