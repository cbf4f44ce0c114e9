"""The calls that change what people see of a turn that still runs: one after the other, and none is
cut off once it has begun."""

from __future__ import annotations

import asyncio

import structlog

from channels.contract import Address, Channel, Receipt
from channels.errors import RateLimited
from ohmo.gateway.pace import Pace
from ohmo.lifecycle import failure_of, within

log = structlog.get_logger("ohmo.delivery")
LONGEST = 10.0  # seconds one revision may take; what follows it waits so long


class Revisions:
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


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
