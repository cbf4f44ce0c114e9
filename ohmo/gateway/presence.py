"""That somebody is at work in a chat: said again while a turn runs, taken back when it ends, and
never after the answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import structlog

from channels.contract import Address, Channel
from ohmo.lifecycle import failure_of, within

log = structlog.get_logger("ohmo.delivery")
SAID_WITHIN = 0.5  # seconds that what follows waits for a call under way
OFF = 4.0  # seconds for taking it back


class Presence:
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
