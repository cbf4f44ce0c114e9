"""Short words for what the gateway tests say again and again: a fake platform, a store in memory, a
clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from channels.contract import Address, Capabilities, ChatId, Choice, Outbound, Part, Repeat, TopicId
from ohmo.contracts.outbox import OutRow, PostRow
from ohmo.gateway.delivery import Delivery, DeliveryNews, Pauses
from ohmo.gateway.sending import Pace, Rate, Sender
from ohmo_testing.channels import EVERYTHING, FakeChannel, FakePlatform
from tests.store_model.store import MemoryStore

BIRTH = datetime(2026, 1, 1, tzinfo=UTC)
WITHIN = 30.0  # seconds; a bound, not an expectation
SAFE = replace(EVERYTHING, revise=None)
LOOK = replace(SAFE, repeat=Repeat.LOOK, repeat_window=timedelta(0))
RISK = replace(SAFE, repeat=Repeat.RISK, repeat_window=timedelta(0))


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = BIRTH

    def __call__(self) -> datetime:
        return self.now

    def tick(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass(slots=True)
class Sleeps:
    """Sleeping takes no time; how long it would have taken is remembered."""

    asked: list[float] = field(default_factory=list[float])

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        await asyncio.sleep(0)


def place(chat: str = "dm:ada", topic: str | None = None, *, channel: str = "fake") -> Address:
    return Address(channel, "bot", ChatId(chat), TopicId(topic) if topic is not None else None)


def ident(name: str) -> str:
    """22 characters, as the house makes them."""
    return name.ljust(22, "0")


def post(
    name: str,
    text: str = "",
    *,
    at: Address | None = None,
    files: Sequence[Path] = (),
    kind: Any = "message",
    **fields: Any,
) -> PostRow:
    return PostRow(
        ident(name), kind, Outbound(at or place(), text or name, files=tuple(files)), **fields
    )


def choices(*labels: str) -> tuple[Choice, ...]:
    return tuple(Choice(label, label) for label in labels)


class Odd(FakeChannel):
    """A channel with room for a test's own behaviour."""

    def __init__(self, platform: FakePlatform, capabilities: Capabilities = SAFE) -> None:
        super().__init__(platform, capabilities)
        self.rendered: list[Outbound] = []
        self.nonsense: Exception | None = None
        self.types = asyncio.Event()  # clear: the platform takes its time with "is typing"
        self.types.set()

    def render(self, outbound: Outbound) -> tuple[Part, ...]:
        self.rendered.append(outbound)
        if self.nonsense is not None:
            raise self.nonsense
        return super().render(outbound)

    async def typing(self, address: Address, on: bool) -> None:
        await self.types.wait()
        await super().typing(address, on)


@dataclass(slots=True)
class Stage:
    """One connected channel over one store."""

    clock: Clock
    store: MemoryStore
    platform: FakePlatform
    channel: Odd
    sleeps: Sleeps = field(default_factory=Sleeps)
    dead: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    shown: list[str] = field(default_factory=list[str])
    pace: Pace = field(default_factory=lambda: Pace(chat=Rate(0.0), account=Rate(0.0)))
    hits: list[str] = field(default_factory=list[str])

    def sender(self) -> Sender:
        return Sender(
            self.channel,
            self.store,
            clock=self.clock,
            pace=self.pace,
            failpoint=self.hits.append,
            sleep=self.sleeps,
        )

    def delivery(self, store: Any = None, *, pauses: Pauses | None = None) -> Delivery:
        async def dead(row: OutRow, reason: str) -> None:
            self.dead.append((row.row.id.rstrip("0"), reason))

        async def before(row: OutRow) -> None:
            del row

        news = DeliveryNews(dead, lambda row, _: self.shown.append(row.row.id.rstrip("0")), before)
        quick = pauses or Pauses(poll=0.02, whole=0.1, grace=0.2)
        return Delivery(
            self.channel,
            "fake",
            store or self.store,
            self.sender(),
            clock=self.clock,
            news=news,
            pauses=quick,
        )

    async def head(self, chat: str = "dm:ada") -> OutRow:
        return next(
            row
            for row in await self.store.outgoing("fake", "bot")
            if row.row.outbound.address.chat == chat
        )

    async def row(self, name: str) -> OutRow:
        return next(row for row in await self.store.outbox() if row.row.id == ident(name))

    def texts(self, chat: str = "dm:ada") -> list[str]:
        return [shown.text for shown in self.platform.chats.get(chat, ()) if shown.by_bot]

    def keys(self) -> list[str]:
        return [call.key for call in self.platform.calls if call.method == "send"]


async def until(condition: Callable[[], bool]) -> None:
    """Wait, bounded, for something other tasks bring about."""
    async with asyncio.timeout(WITHIN):
        while not condition():
            await asyncio.sleep(0.005)  # between two looks


async def ended(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
