"""A second ohmo on one account (row 51): the keys it posts with, the note that a stop leaves, and
who posts with our token."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from channels.contract import Address, Channel, Outbound
from channels.errors import Ambiguous
from ohmo.ambient import IdSource

new_id = IdSource()


def key() -> str:
    """Of the first part of an answer that is made now."""
    return f"{new_id()}.0"


def key_of(moment: datetime) -> str:
    return f"{IdSource(lambda: round(moment.timestamp() * 1000))()}.0"


def millis(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def note(state: Path) -> Path:
    """Where a channel remembers that it stopped."""
    return state / "conflict.json"


def stopped(state: Path, *, silent: bool = True, ago: float = 600) -> None:
    """As a life that stopped for somebody left it, so many seconds ago. ``silent``: nothing was
    said since."""
    state.mkdir(parents=True, exist_ok=True)
    note(state).write_text(json.dumps({"stopped": time.time() - ago, "silent": silent}))


class Clock:
    """Stands still until it is set."""

    def __init__(self, now: datetime | None = None) -> None:
        self.now = now or datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now


async def answers(channel: Channel, at: Address, key: Callable[[], str] = key) -> None:
    """We do; the platform may tell of it before it answers, and whoever stops because of that does
    not hear the answer any more."""
    (part,) = channel.render(Outbound(at, "our answer"))
    with suppress(Ambiguous):
        await channel.send(part, key())


async def posted(url: str, authorization: str, body: Mapping[str, Any]) -> Any:
    """By somebody with our token; what the platform said."""
    async with (
        aiohttp.ClientSession() as http,
        http.post(url, json=body, headers={"Authorization": authorization}) as response,
    ):
        assert response.status == 200
        return await response.json()
