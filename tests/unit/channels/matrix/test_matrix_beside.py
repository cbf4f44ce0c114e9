"""What runs beside the sync loop does not end unheard; what stands beside the channel may be absent."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from channels.matrix.client import Pace
from channels.matrix.sync import Listening
from ohmo_testing.channels import FakeContext


class Homeserver:
    """Has nothing to say."""

    pace = Pace()

    async def account_data(self, user: str, kind: str) -> dict[str, Any]:
        del user, kind
        return {}

    async def sync(self, *_: Any, **__: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"next_batch": "1"}


class Rooms:
    encryption = None
    live = False
    direct: frozenset[str] = frozenset()


class Invitations:
    async def wanted(self, answer: Any) -> tuple[str, ...]:
        del answer
        return ()

    async def accept(self, invites: Any) -> tuple[str, ...]:
        del invites
        return ()


class Broken:
    """Of our doubles."""

    async def leave_word(self) -> None: ...

    async def run(self) -> None:
        raise ZeroDivisionError("a fault of ours")


async def test_a_fault_beside_the_sync_ends_the_connection(tmp_path: Path) -> None:
    made: Any = Listening
    listening = made(
        Homeserver(),
        Rooms(),
        Invitations(),
        "@ohmo:here",
        FakeContext(tmp_path),
        Broken(),
        lambda: datetime.now(UTC),
    )
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(listening.run({"next_batch": "0"}), 20)


def test_without_the_extra_for_encryption_the_channel_loads() -> None:
    program = """
import sys
sys.modules["vodozemac"] = sys.modules["Crypto"] = None
import channels.matrix.adapter
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
