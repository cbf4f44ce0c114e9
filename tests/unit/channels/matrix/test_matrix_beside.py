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


class Talkative(Homeserver):
    """Each answer brings a newer position; after the last one the homeserver is silent."""

    def __init__(self, answers: int) -> None:
        self._left = answers

    async def sync(self, *_: Any, **__: Any) -> dict[str, Any]:
        if not self._left:
            await asyncio.Event().wait()
        self._left -= 1
        return {"next_batch": f"after {self._left}"}


class Quiet(Broken):
    async def run(self) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize(("every", "saved"), [(3600.0, 1), (0.0, 4)])
async def test_a_position_that_brings_nothing_to_store_is_saved_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: float, saved: int
) -> None:
    monkeypatch.setattr("channels.matrix.sync.SAVED_EVERY", every)
    made: Any = Listening
    context = FakeContext(tmp_path)
    context.cursors["sync"] = '{"since": "before", "order": 1, "invites": []}'
    server = Talkative(4)
    listening = made(
        server, Rooms(), Invitations(), "@ohmo:here", context, Quiet(), lambda: datetime.now(UTC)
    )
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(listening.run({"next_batch": "0"}), 0.5)
    assert len(context.batches) == saved


def test_without_the_extra_for_encryption_the_channel_loads() -> None:
    program = """
import sys
sys.modules["vodozemac"] = sys.modules["Crypto"] = None
import channels.matrix.adapter
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
