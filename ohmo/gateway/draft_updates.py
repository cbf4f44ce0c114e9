"""The calls that show people a turn that still runs: newer texts of its draft, and that somebody is
typing. One after the other, and none is cut off once it has begun."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import structlog

from channels.contract import Address, Channel, Receipt
from channels.errors import RateLimited
from ohmo.gateway.pace import Pace
from ohmo.lifecycle import failure_of, within

log = structlog.get_logger("ohmo.delivery")
LONGEST = 10.0  # seconds one revision may take; what follows it waits so long
SAID_WITHIN = 0.5  # seconds that what follows waits for a call under way
OFF = 4.0  # seconds for taking it back


class DraftUpdates:
    """Of one channel. ``pace`` is shared with what is sent: a platform that asks to wait is not
    called meanwhile."""

    def __init__(self, channel: Channel, name: str, pace: Pace | None) -> None:
        self._channel = channel
        self._name = name
        self._pace = pace
        self._running: dict[str, asyncio.Task[Exception | None]] = {}  # by what is revised

    def wait(self, chat: str) -> float:
        """Seconds the platform wants to hear nothing for this chat."""
        return self._pace.wait(chat, _loop_time()) if self._pace is not None else 0.0

    async def revise(self, what: str, address: Address, receipt: Receipt | None, text: str) -> None:
        """``what``: the draft's row, or a turn whose drafts have none. ``receipt`` as in
        ``Channel.revise``. A failure costs this text only. Cancelled, the call goes on: the
        platform would still carry it out, perhaps after what follows, which waits for it
        (``settled``)."""
        await self.settled(what)  # a turn that goes on may find the last call of its earlier run
        one = failure_of(within(LONGEST, self._channel.revise(address, receipt, text)))
        task = self._running[what] = asyncio.create_task(one, name=f"revise.{what}")
        task.add_done_callback(lambda done: self._ended(what, address.chat, done))
        await asyncio.shield(task)

    async def settled(self, what: str) -> None:
        """No call is under way that changes it."""
        if (running := self._running.get(what)) is not None:
            await asyncio.wait([running])

    def _ended(self, what: str, chat: str, task: asyncio.Task[Exception | None]) -> None:
        if self._running.get(what) is task:
            del self._running[what]
        if not task.cancelled() and (error := task.result()) is not None:
            if isinstance(error, RateLimited) and self._pace is not None:
                self._pace.block(
                    chat, _loop_time() + error.retry_after, everywhere=error.everywhere
                )
            log.debug("revision_dropped", channel=self._name, error=str(error))


class Typing:
    """For one connected channel. ``sleep`` waits in real seconds."""

    def __init__(
        self, channel: Channel, name: str, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._channel = channel
        self._name = name
        self._sleep = sleep
        self._here: Counter[Address] = Counter()  # turns that run for a place
        self._calls: dict[Address, asyncio.Task[Exception | None]] = {}

    async def show(self, address: Address) -> None:
        """Until cancelled; then it is taken back, unless another turn runs for the same place."""
        lasts = self._channel.capabilities.typing
        if lasts is None:
            return
        self._here[address] += 1
        try:
            while True:
                await asyncio.shield(self._say(address))
                await self._sleep(max(1.0, lasts.total_seconds() * 0.8))
        finally:
            self._here[address] -= 1
            if self._here[address] <= 0:
                del self._here[address]
                await self.settled(address)
                if address not in self._here:
                    await failure_of(within(OFF, self._channel.typing(address, False)))

    async def settled(self, address: Address) -> None:
        """A call that is under way is over, or takes too long: what is sent now does not come
        before it."""
        if (call := self._calls.get(address)) is not None:
            await asyncio.wait([call], timeout=SAID_WITHIN)

    def _say(self, address: Address) -> asyncio.Task[Exception | None]:
        """Once begun it is not cut off: the platform would still carry it out, perhaps after the
        answer."""
        call = self._calls[address] = asyncio.create_task(
            failure_of(self._channel.typing(address, True)), name="typing"
        )
        call.add_done_callback(lambda done: self._said(address, done))
        return call

    def _said(self, address: Address, call: asyncio.Task[Exception | None]) -> None:
        if self._calls.get(address) is call:
            del self._calls[address]
        if not call.cancelled() and (error := call.result()) is not None:
            log.debug("typing_failed", channel=self._name, error=str(error))


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
