"""What was decided becomes what is seen: for one account, the oldest open row of every thread, in
order, a few at a time."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import structlog

from channels.contract import Channel, Clock, Receipt, Repeat
from channels.errors import AuthFailed, Unavailable
from channels.record import record
from ohmo.contracts.errors import StoreError
from ohmo.contracts.outbox import OutRow
from ohmo.contracts.store import Hint, Store
from ohmo.gateway.sending import Done
from ohmo.lifecycle import backoff, failure_of, outcome_of, within

log = structlog.get_logger("ohmo.delivery")
RISKY_WIDTH = 4  # sends in flight where a kill may repeat every one of them
WIDTH = 16
POISON = 5  # tries of a row on which the channel fails in a way it should not
# What the machine is out of for now says nothing about the row: it is tried until there is some.
MACHINE_IS_SHORT = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.ENOBUFS}
)


@record
class Pauses:
    """Seconds. ``poll``: between looks at rows whose time comes. ``whole``: between looks at all
    threads, because hints may be lost. ``grace``: what a send in flight gets to come to its receipt
    when the connection ends."""

    poll: float = 1.0
    whole: float = 5.0
    grace: float = 2.0


@dataclass(slots=True)
class DeliveryNews:
    """What others want to know. ``dead`` is told of every dead letter; ``shown`` of every row that
    is visible now; ``before`` is awaited before a row is sent."""

    dead: Callable[[OutRow, str], Awaitable[None]]
    shown: Callable[[OutRow, Sequence[Receipt]], None]
    before: Callable[[OutRow], Awaitable[None]]


@dataclass(slots=True)
class _HeldBack:
    """A head that failed in a way the store does not know: not before ``until`` (the loop's
    time)."""

    row: str
    tries: int
    until: float


class Sending(Protocol):
    """What delivery asks of a sender."""

    def wait(self, row: OutRow) -> float: ...
    async def send(self, row: OutRow, tries: int = 0) -> Done: ...


class Delivery:
    """``run`` inside ``channel.connect()``. Raises AuthFailed when the platform refuses our
    credentials; rows stay."""

    def __init__(
        self,
        channel: Channel,
        name: str,
        store: Store,
        sender: Sending,
        *,
        clock: Clock,
        news: DeliveryNews,
        pauses: Pauses | None = None,
    ) -> None:
        self._channel = channel
        self._name = name
        self._store = store
        self._sender = sender
        self._clock = clock
        self._news = news
        self._pauses = pauses or Pauses()
        self._account = channel.account
        self._heads: dict[str, OutRow] = {}
        self._flying: set[str] = set()
        self._passed_over: set[str] = set()  # threads whose head was read while one was flying
        self._reading = False
        self._held_back: dict[str, _HeldBack] = {}
        self._changed: set[str] = set()
        self._everything_at = 0.0  # the loop's time at which all threads are looked at
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
                    # What may go now is sent; ``pause``: seconds until the next one may.
                    pause = self._pauses.poll
                    for thread, row in list(self._heads.items()):
                        if len(self._flying) >= self._width:
                            break
                        wait = max(
                            (row.ready_at - self._clock()).total_seconds(), self._sender.wait(row)
                        )
                        held_back = self._held_back.get(thread)
                        if held_back is not None and held_back.row == row.row.id:
                            wait = max(wait, held_back.until - _now())
                        if wait > 0:
                            pause = min(pause, wait)
                            continue
                        self._flying.add(thread)
                        del self._heads[thread]
                        group.create_task(self._one(row), name=f"send.{row.row.id}")
                    with suppress(TimeoutError):
                        await within(max(0.01, pause), self._bell.wait())
                    self._bell.clear()
        finally:
            stop_hearing()
        raise self._refused

    def _hear(self, hints: Sequence[Hint]) -> None:
        for hint in hints:
            if hint.kind == "any":
                self._ring("")
            elif hint.kind != "post":
                continue
            elif hint.channel in ("", self._name) and hint.account in ("", self._account):
                thread = hint.thread
                # Where as far as is known nothing is open, what comes now is the head. Where that
                # is wrong, for hints may be lost, the store refuses to send it before the others.
                busy = thread in self._heads or thread in self._flying or thread in self._changed
                if hint.row is None or busy or self._reading:
                    self._ring(thread)
                else:
                    self._heads[thread] = hint.row
                    self._bell.set()

    def _ring(self, thread: str) -> None:
        """``thread`` empty: all of them."""
        if thread:
            self._changed.add(thread)
        else:
            self._everything_at = 0.0
        self._bell.set()

    async def _refresh(self) -> None:
        now = _now()
        threads: Collection[str] | None = self._changed  # None: all of them
        if now >= self._everything_at:
            threads = None
            self._everything_at = now + self._pauses.whole
        elif not threads:
            return
        self._changed = set()
        self._reading = True
        try:
            rows = await self._store.outgoing(self._name, self._account, threads)
        except Unavailable as error:
            log.error("store_unavailable", doing="outgoing", channel=self._name, error=str(error))
            self._everything_at = _now() + self._pauses.poll
            return
        finally:
            self._reading = False
        for thread in list(self._heads) if threads is None else threads:
            self._heads.pop(thread, None)
        for row in rows:
            # What changed while the store was reading is older than what happened: it is asked for
            # again.
            if row.thread in self._flying:
                self._passed_over.add(row.thread)
            elif row.thread not in self._changed:
                self._heads[row.thread] = row

    async def _one(self, row: OutRow) -> None:
        """Not cut off in the middle: a send whose answer nobody heard may have to be repeated, and
        marked."""
        sending = asyncio.create_task(self._send(row), name=f"sending.{row.row.id}")
        more = True
        try:
            more = await asyncio.shield(sending)
        except asyncio.CancelledError:
            await asyncio.wait([sending], timeout=self._pauses.grace)
            sending.cancel()
            await asyncio.wait([sending])
            raise
        finally:
            self._flying.discard(row.thread)
            if more or row.thread in self._passed_over:
                self._passed_over.discard(row.thread)
                self._changed.add(row.thread)
            self._bell.set()  # there is room for another one

    async def _send(self, row: OutRow) -> bool:
        """Whether the thread is to be looked at again."""
        await self._news.before(row)
        held_back = self._held_back.pop(row.thread, None)
        tries = held_back.tries if held_back is not None and held_back.row == row.row.id else 0
        done = await outcome_of(self._sender.send(row, tries))
        if isinstance(done, AuthFailed):
            self._refused = done
            return True
        if isinstance(done, Done):
            await self._done(row, done, tries)
            return done.more
        post = row.row.id
        reason = f"{type(done).__name__}: {done}"
        log.error("send_failed", channel=self._name, post=post, error=reason, exc_info=done)
        short = isinstance(done, OSError) and done.errno in MACHINE_IS_SHORT
        if tries + 1 < POISON or short or isinstance(done, Unavailable | StoreError):
            again_at = _now() + backoff(tries, most=30.0)
            self._held_back[row.thread] = _HeldBack(post, tries + 1, again_at)
            return True
        # A row on which the channel breaks each time must not hold up what follows it.
        error = await failure_of(self._store.unsent(post, retry_after=None, error=reason))
        if error is None:
            await self._done(row, Done("dead", reason), 0)
        else:
            log.error("bury_failed", channel=self._name, post=post, error=str(error))
        return True

    async def _done(self, row: OutRow, done: Done, tries: int) -> None:
        match done.state:
            case "sent":
                self._news.shown(row, done.receipts)
            case "unsure":
                log.warning(
                    "send_unsure",
                    channel=self._name,
                    post=row.row.id,
                    error=done.reason,
                    again_in=round(done.retry_after, 1),
                )
                again_at = _now() + done.retry_after
                self._held_back[row.thread] = _HeldBack(row.row.id, tries + 1, again_at)
            case "dead":
                log.error("dead_letter", channel=self._name, post=row.row.id, reason=done.reason)
                await self._news.dead(row, done.reason)
            case "later" | "gone":
                log.info("send_later", channel=self._name, post=row.row.id, reason=done.reason)


def _now() -> float:
    return asyncio.get_running_loop().time()
