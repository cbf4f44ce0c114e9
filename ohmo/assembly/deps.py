"""What every builder of the house is handed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from channels.record import record
from ohmo.approvals.answering import Approvals
from ohmo.assembly.environment import Environment
from ohmo.bus import MessageBus
from ohmo.config.load import Config
from ohmo.contracts.reports import Reports
from ohmo.contracts.store import Store
from ohmo.database.store_health import Availability
from ohmo.gateway.access import Access
from ohmo.gateway.connections import Connections
from ohmo.gateway.notices import Notices


class HouseStore(Store, Reports, Protocol):
    """What both drivers are: the durable store and its reports."""

    availability: Availability  # whether it takes what is written
    fatal: asyncio.Future[str]  # resolved with one line when only a restart can help

    async def watch(self, changed: Callable[[str], Awaitable[None]]) -> None: ...


@record
class Deps:
    """Built first; everything else is built from these."""

    config: Config
    environment: Environment
    store: HouseStore
    bus: MessageBus
    access: Access
    notices: Notices
    connections: Connections
    approvals: Approvals
