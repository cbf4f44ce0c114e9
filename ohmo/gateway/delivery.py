"""What was decided becomes what is seen: for one account, the oldest open row of every thread, in order, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from channels.contract import Channel, Clock, Receipt, Repeat
from channels.errors import AuthFailed, Unavailable
from ohmo.contracts.store import Hint, OutRow, Store
from ohmo.gateway.sending import Done, Sender
from ohmo.lifecycle import failure_of

log = structlog.get_logger("ohmo.delivery")
RISKY_WIDTH = 4  # sends in flight where a kill may repeat every one of them
WIDTH = 16
POLL = 1.0  # seconds between looks at rows whose time comes without a hint


@dataclass(slots=True)
class DeliveryNews:
    """What others want to know. ``dead`` is told of every dead letter; ``shown`` of every row that is visible now."""

    dead: Callable[[OutRow, str], Awaitable[None]]
    shown: Callable[[OutRow, Sequence[Receipt]], None]


class Delivery:
    """``run`` inside ``channel.connect()``. Raises AuthFailed when the platform refuses our credentials; rows stay."""

    def __init__(self, channel: Channel, name: str, store: Store, sender: Sender, *, clock: Clock, news: DeliveryNews) -> None:
        self._channel, self._name, self._store, self._sender, self._clock, self._news = channel, name, store, sender, clock, news
        self._account = channel.account
        self._heads: dict[str, OutRow] = {}
        self._flying: set[str] = set()
        self._held: dict[str, float] = {}  # threads whose head waits, until (loop time)
        self._changed: set[str] = set()
        self._everything = True
        self._bell = asyncio.Event()
        self._refused: AuthFailed | None = None
        self._width = RISKY_WIDTH if channel.capabilities.repeat is Repeat.RISK else WIDTH

    async def run(self) -> None:
        """Until cancelled or refused."""
        stop_hearing = self._store.listen(self._hear)
        try:
            async with asyncio.TaskGroup() as group:
                while self._refused is None:
                    await self._refresh()
                    pause = self._start(group)
                    await self._nap(pause)
        finally:
            stop_hearing()
        raise self._refused

    def _hear(self, hints: Sequence[Hint]) -> None:
        for hint in hints:
            if hint.kind == "post" and hint.channel in ("", self._name) and hint.account in ("", self._account):
                self._changed.add(hint.thread)
                self._everything = self._everything or not hint.thread
            elif hint.kind == "any":
                self._everything = True
        if self._changed or self._everything:
            self._bell.set()

    async def _refresh(self) -> None:
        wanted: Collection[str] | None = None if self._everything else self._changed
        if wanted is not None and not wanted:
            return
        self._everything, self._changed = False, set()
        try:
            rows = await self._store.outgoing(self._name, self._account, wanted)
        except Unavailable as error:
            log.error("store_unavailable", doing="outgoing", channel=self._name, error=str(error))
            self._everything = True
            return
        gone = list(self._heads) if wanted is None else wanted
        for thread in gone:
            self._heads.pop(thread, None)
        self._heads.update({row.thread: row for row in rows})

    def _start(self, group: asyncio.TaskGroup) -> float:
        """Sends what may go now; seconds until the next one may."""
        now, moment = self._clock(), asyncio.get_running_loop().time()
        soonest = POLL
        for thread, row in list(self._heads.items()):
            if thread in self._flying or thread in self._changed or self._everything:
                continue  # what was read of it may be older than its last send; it is read again first
            wait = max((row.ready_at - now).total_seconds(), self._held.get(thread, moment) - moment)
            if wait > 0:
                soonest = min(soonest, wait)
            elif len(self._flying) < self._width:
                self._flying.add(thread)
                self._held.pop(thread, None)
                del self._heads[thread]
                group.create_task(self._one(row), name=f"send.{row.row.id}")
        return soonest

    async def _one(self, row: OutRow) -> None:
        try:
            await self._send(row)
        finally:
            self._flying.discard(row.thread)
            self._changed.add(row.thread)
            self._bell.set()

    async def _send(self, row: OutRow) -> None:
        done: list[Done] = []

        async def send() -> None:
            done.append(await self._sender.send(row))

        error = await failure_of(send())
        if isinstance(error, AuthFailed):
            self._refused = error
        elif error is not None:
            log.error("send_failed", channel=self._name, post=row.row.id, error=f"{type(error).__name__}: {error}", exc_info=error)
            await asyncio.sleep(POLL)
        elif done[0].state == "sent":
            self._news.shown(row, done[0].receipts)
        elif done[0].state == "later":
            self._held[row.thread] = asyncio.get_running_loop().time() + done[0].retry_after
        elif done[0].state == "dead":
            log.error("dead_letter", channel=self._name, post=row.row.id, reason=done[0].reason)
            await self._news.dead(row, done[0].reason)

    async def _nap(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._bell.wait(), max(0.01, seconds))
        self._bell.clear()
