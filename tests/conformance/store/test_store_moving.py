"""A whole store moves to a real PostgreSQL and back, every row counted; a database that holds
something is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ohmo.contracts.errors import StoreError
from ohmo.storefile.inspection import problem
from ohmo.storefile.transfer import transfer
from tests.unit.storefile.homes import furnished, markers


@pytest.mark.needs("postgres")
async def test_a_store_moves_to_postgres_and_back_without_losing_a_row(
    home: Path, clean_postgres: str
) -> None:
    database = furnished(home)
    there = await asyncio.to_thread(transfer, f"sqlite:///{database}", clean_postgres)
    assert there["inbox"] == there["threads"] == 20
    assert there["trusts"] == 1
    with pytest.raises(StoreError, match="holds rows already"):
        await asyncio.to_thread(transfer, f"sqlite:///{database}", clean_postgres)
    back = home / "back.db"
    assert await asyncio.to_thread(transfer, clean_postgres, f"sqlite:///{back}") == there
    assert problem(back) is None
    assert markers(back) == markers(database)


async def test_a_server_that_is_not_there_is_one_line(home: Path) -> None:
    database = furnished(home)
    with pytest.raises(StoreError, match="PostgreSQL: "):
        await asyncio.to_thread(transfer, f"sqlite:///{database}", "postgresql://127.0.0.1:1/none")
