"""What every room of the house stands on, and the knot of rooms that need each other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from channels.contract import Address, Attachment
from channels.record import record
from ohmo.assembly.channels import Wired
from ohmo.assembly.clockwork import Clockwork
from ohmo.assembly.doors import address_parser
from ohmo.assembly.seams import Seams
from ohmo.bus import MessageBus
from ohmo.bus.bus import Seated
from ohmo.config.load import Config
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.errors import NotConnected
from ohmo.contracts.inwriter import in_writer
from ohmo.contracts.reports import Reports
from ohmo.contracts.store import Accepted, CursorSave, Store
from ohmo.gateway.access import Access
from ohmo.gateway.intake import Intake, Told
from ohmo.gateway.notices import Notices
from ohmo.gateway.switchboard import Switchboard
from ohmo.sessions.pool import Pool
from ohmo.store.engines.store_health import Pulse


class HouseStore(Store, Reports, Protocol):
    """What both drivers are: the durable store, its reports, whether it takes what is written
    (``pulse``), and ``fatal``: resolved with one line when only a restart can help."""

    pulse: Pulse
    fatal: asyncio.Future[str]

    async def watch(self, changed: Callable[[str], Awaitable[None]]) -> None: ...


@dataclass(slots=True)
class Knot:
    """The bus tells the intake, whose commands stop turns of the pool, which asks the switchboard
    how far a draft has grown, which publishes to the bus: whoever is built first is handed a method
    of this, and the room behind it is filled in before anything runs."""

    store: HouseStore
    intake: Intake | None = None
    board: Switchboard | None = None
    pool: Pool | None = None

    async def accept(self, items: Sequence[Seated], cursor: CursorSave | None) -> list[Accepted]:
        """The pool asks for what this brings while it is being stored."""
        if self.pool is not None and any(
            seat.kind in ("message", "wake") and not seat.hold and seat.ending is None
            for _, seat in items
        ):
            self.pool.expect(
                sum(isinstance(one, Wake) and one.occurrence is not None for one, _ in items)
            )
        return await self.store.accept(items, cursor)

    def tell(self, told: Sequence[Told]) -> None:
        assert self.intake is not None
        self.intake.hear(told)

    def address(self, channel: str, rest: str) -> Address | None:
        return self.board.address(channel, rest) if self.board is not None else None

    @in_writer
    def grown(self, draft: str) -> str | None:
        return self.board.drafted(draft) if self.board is not None else None

    def largest(self, place: Address) -> int | None:
        return self.board.largest(place) if self.board is not None else None

    def parse(self, text: str) -> Address:
        """``CHANNEL:REST``. Raises ValueError, NotConnected above all."""
        if self.board is None:
            raise NotConnected(f"{text}: its channel is not connected")
        return address_parser(self.board)(text)

    async def fetch(self, place: Address, attachment: Attachment, into: Path) -> Path:
        assert self.board is not None
        return await self.board.fetch(place, attachment, into)


@record
class Ground:
    """What every room is handed a part of. ``redact`` takes the secrets of this house out of
    words."""

    config: Config
    seams: Seams
    store: HouseStore
    bus: MessageBus
    access: Access
    notices: Notices
    wired: Wired
    clockwork: Clockwork
    redact: Callable[[str], str]
