"""What the channel conformance suite stands on: rigs found by name, a supervisor like the
gateway's, and a context that remembers."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from channels.contract import Address, Channel, Outbound, Part, Receipt
from channels.errors import NotReady, Unavailable
from ohmo_testing.channels import EVERYTHING, FakeChannel, FakeContext, FakePlatform
from tests.conformance.rig import Rig, RigFactory, Visible
from tests.parts import skip_on, skip_without, there

PLATFORMS = ("telegram", "slack", "discord", "matrix", "feishu", "web", "console")
SDKS = ("slack_sdk", "telegram", "mautrix", "discord", "lark_oapi")
WITHIN = 30.0  # seconds; a bound, not an expectation


class FakeRig(FakePlatform):
    """The shipped fake as a rig: it must keep the rules it helps to test."""

    def settings(self) -> dict[str, Any]:
        return {}

    def channel(self) -> Channel:
        return FakeChannel(self, EVERYTHING)


@asynccontextmanager
async def fake() -> AsyncIterator[Rig]:
    yield FakeRig()


def has_rig(name: str) -> bool:
    return (Path(__file__).parents[2] / "platforms" / name / "rig.py").is_file()


def factory(name: str) -> RigFactory:
    """The rig of a platform; skips with one line when its server is not installed."""
    if name == "fake":
        return fake
    if name == "matrix" and not there("synapse"):
        skip_without("synapse")
    return importlib.import_module(f"tests.platforms.{name}.rig").rig


def platform(rig: Rig) -> str:
    """The name of its folder, by which tests/parts.py knows what it cannot."""
    parts = type(rig).__module__.split(".")
    return parts[2] if parts[:2] == ["tests", "platforms"] else "fake"


def can(rig: Rig, call: Callable[..., Any], *arguments: Any) -> Any:
    """Ask the rig for a fault its platform may not know."""
    try:
        return call(*arguments)
    except NotImplementedError:
        skip_on(platform(rig), call.__name__)


@asynccontextmanager
async def live(channel: Channel, context: FakeContext) -> AsyncIterator[asyncio.Task[None]]:
    """A connected, receiving channel, reconnected as the gateway would. Other failures end the
    task. Entered when it has connected: what was said before an account's very first connection
    need not arrive."""
    connected = asyncio.Event()
    task = asyncio.create_task(
        _supervised(channel, context, connected), name="conformance supervisor"
    )
    try:
        ready = asyncio.create_task(connected.wait())
        await asyncio.wait({ready, task}, return_when=asyncio.FIRST_COMPLETED, timeout=WITHIN)
        ready.cancel()
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _supervised(channel: Channel, context: FakeContext, connected: asyncio.Event) -> None:
    while True:
        try:
            async with channel.connect():
                connected.set()
                await channel.receive(context)
        except (NotReady, Unavailable):
            await asyncio.sleep(0.05)  # the back-off of a reconnect


async def texts(context: FakeContext, count: int, task: asyncio.Task[None]) -> list[str]:
    """Texts of the messages so far, when there are ``count``; a channel that failed meanwhile fails
    the test with its own words."""
    waiting = asyncio.ensure_future(context.texts(count, WITHIN))
    await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
    if task.done() and not waiting.done():
        waiting.cancel()
        task.result()
    return await waiting


async def place(
    rig: Rig, channel: Channel, context: FakeContext, chat: str = "dm:ada", topic: str | None = None
) -> Address:
    """Where to answer a message said in ``chat``."""
    async with live(channel, context) as task:
        before = len(context.messages)
        await rig.says("where am I?", chat=chat, topic=topic)
        await texts(context, before + 1, task)
        return context.messages[-1].address


async def deliver(
    channel: Channel, outbound: Outbound, key: str = "01k9y2p7q3r4s5t6v7w8xy"
) -> list[Receipt]:
    """All parts of a message, as the house sends them: rendered once, stored, uploaded, sent under
    key.n."""
    return [
        await one(channel, stored(part), f"{key}.{number}")
        for number, part in enumerate(channel.render(outbound))
    ]


async def one(channel: Channel, part: Part, key: str) -> Receipt:
    handle = await channel.upload(part) if part.kind == "file" else None
    return await channel.send(part, key, handle or None)


def stored(part: Part) -> Part:
    """As it comes back from the store."""
    return Part(
        str(part.kind),
        str(part.payload),
        None if part.target is None else type(part.target)(str(part.target)),
    )


async def by_bot(rig: Rig, chat: str = "dm:ada") -> list[Visible]:
    return [shown for shown in await rig.visible(chat) if shown.by_bot]


async def shown(
    rig: Rig, condition: Callable[[Sequence[Visible]], bool], chat: str = "dm:ada"
) -> list[Visible]:
    """What the bot said, as soon as it looks right; platforms may show with a delay."""
    return await eventually(lambda: by_bot(rig, chat), condition)


async def eventually(look: Callable[[], Awaitable[Any]], condition: Callable[[Any], bool]) -> Any:
    async with asyncio.timeout(WITHIN):
        while not condition(seen := await look()):
            await asyncio.sleep(0.02)  # between two looks at the platform
    return seen
