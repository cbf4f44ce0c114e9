"""What the house hands to one channel while it listens, and what is known of its health."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from channels.contract import Address, Arrival, Channel, Clock, Cursor
from ohmo.contracts.status import ChannelState, ChannelStatus
from ohmo.contracts.store import Accepted, CursorSave
from ohmo.gateway.activity import Mode

Publish = Callable[[Sequence[Arrival], CursorSave | None], Awaitable[list[Accepted]]]


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """One account of one platform. ``build`` makes a fresh adapter (imports its SDK; in a thread when ``heavy``)."""

    name: str
    label: str  # name, or name/account when there are several
    build: Callable[[], Channel]
    state: Path
    catch_up: tuple[timedelta, int]
    streaming: str | None = None
    heavy: bool = True
    activity: Mode = "live"
    met: Callable[[str], None] = lambda _: None  # told the platform's id of this account as soon as it is known


@dataclass(slots=True)
class Health:
    """What ``/readyz`` and ``ohmo status`` say of a channel."""

    state: ChannelState = "starting"
    detail: str = ""
    last_event: datetime | None = None
    last_delivery: datetime | None = None
    account: str = ""

    def report(self) -> ChannelStatus:
        return ChannelStatus(self.state, self.last_event, self.last_delivery, self.detail)


class LinkContext:
    """``ChannelContext`` for one connection; its cursor saves carry the generation of the connection's lease."""

    def __init__(
        self, settings: LinkSettings, account: str, generation: int, health: Health, *, publish: Publish,
        cursor: Callable[[str, str, str], Awaitable[str | None]], say: Callable[[str, Address | None], Awaitable[None]], clock: Clock,
    ) -> None:  # fmt: skip
        self._settings, self._account, self._generation, self._health = settings, account, generation, health
        self._publish, self._cursor, self._say, self._clock = publish, cursor, say, clock

    @property
    def state(self) -> Path:
        return self._settings.state

    @property
    def catch_up(self) -> tuple[timedelta, int]:
        return self._settings.catch_up

    async def publish(self, arrivals: Sequence[Arrival], cursor: Cursor | None = None) -> None:
        saved = None
        if cursor is not None:
            saved = CursorSave(self._settings.name, self._account, cursor.name, cursor.value, self._generation)
        await self._publish(arrivals, saved)
        self.heard()

    async def cursor(self, name: str) -> str | None:
        return await self._cursor(self._settings.name, self._account, name)

    async def missed(self, text: str, address: Address | None = None) -> None:
        await self._say(text, address)

    def heard(self) -> None:
        self._health.last_event = self._clock()
        if self._health.state != "connected":
            self._health.state, self._health.detail = "connected", ""
