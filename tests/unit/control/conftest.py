"""Control's small house, its doors open, and a session over its unix socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from ohmo.control.server import Doors
from tests.unit.control.small_house import SmallHouse


@pytest.fixture
def house() -> SmallHouse:
    return SmallHouse()


@pytest.fixture
async def doors(house: SmallHouse, tmp_path: Path) -> AsyncIterator[Doors]:
    async with house.open(tmp_path / "run") as doors:
        yield doors


@pytest.fixture
async def session(doors: Doors) -> AsyncIterator[aiohttp.ClientSession]:
    """As the command line speaks to it."""
    async with aiohttp.ClientSession(
        "http://localhost", connector=aiohttp.UnixConnector(str(doors.socket))
    ) as session:
        yield session
