"""One row of the outbox becomes visible: rendered once, its parts frozen before the first call,
each settled by what its platform can promise."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import structlog

from channels.contract import Channel, Clock, Part, Receipt, Repeat
from channels.errors import Ambiguous, AuthFailed, NotReady, RateLimited, Rejected, Unavailable
from channels.record import record
from ohmo.ambient import Failpoint, base36
from ohmo.approvals.cards import worded
from ohmo.contracts.errors import Conflict
from ohmo.contracts.outbox import OutRow, PartState
from ohmo.contracts.store import Outbox
from ohmo.lifecycle import backoff, failure_of

T = TypeVar("T")

log = structlog.get_logger("ohmo.delivery")
Sent = Callable[[OutRow, str, float], None]  # a row, how it went, seconds it took
# tries of a part that may already be visible, where every further one may show it once more
RISKY_TRIES = 12
LEAST_WAIT = 0.05  # seconds, whatever a platform asks for


@record
class Done:
    """How a row ended for now. ``later``: the store knows when it goes on. ``unsure``: something
    may be visible; the row stays ``sending`` and is to be sent again after ``retry_after`` seconds.
    ``dead``: ``reason`` goes to the owner. ``gone``: it was taken back meanwhile, or another one
    goes before it. ``more``: others may be open in its thread."""

    state: Literal["sent", "later", "unsure", "dead", "gone"]
    reason: str = ""
    retry_after: float = 0.0
    receipts: tuple[Receipt, ...] = ()
    more: bool = True


@dataclass(slots=True)
class _Work:
    """A row on its way. ``unsure``: the first part without a receipt may be visible already."""

    row: OutRow
    states: list[PartState]
    unsure: bool


class Sender:
    """For one connected channel. ``redact`` takes secrets out of what is about to be said.

    AuthFailed passes through: the account stops, its rows stay. ``sleep`` waits in real seconds."""

    def __init__(
        self,
        channel: Channel,
        outbox: Outbox,
        *,
        clock: Clock,
        pace: Pace,
        failpoint: Failpoint,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._channel = channel
        self._outbox = outbox
        self._clock = clock
        self._pace = pace
        self._failpoint = failpoint
        self._sleep = sleep
        self._redact = redact

    def wait(self, row: OutRow) -> float:
        """Seconds until the row's chat may be spoken to."""
        return self._pace.wait(row.row.outbound.address.chat, _now())

    async def send(self, row: OutRow, tries: int = 0) -> Done:
        """Brings one head as far as it goes. ``tries``: how often it ended ``unsure`` before."""
        unsure = row.state == "sending" and bool(row.parts)
        work = _Work(row, list(row.parts), unsure)
        if row.expires <= self._clock():
            why = "it could not be delivered"
            if work.unsure:
                why = "it could not be found out whether it was delivered"
            return await self._bury(row, f"{why} within its time")
        try:
            return await self._said(work)
        except Rejected as error:
            return await self._bury(row, f"the platform refuses it: {error}")
        except Conflict:
            return Done("gone", "it was taken back meanwhile")
        except RateLimited as error:
            chat = row.row.outbound.address.chat
            until = _now() + error.retry_after
            self._pace.block(chat, until, everywhere=error.everywhere)
            return await self._again(work, str(error), max(LEAST_WAIT, error.retry_after))
        except NotReady as error:
            pause = backoff(max(row.attempts, tries), first=0.5, most=30.0)
            return await self._again(work, str(error), pause)
        except Ambiguous as error:
            if tries + 1 >= RISKY_TRIES and self._repeats(row) is Repeat.RISK:
                return await self._bury(row, f"its delivery cannot be made sure: {error}")
            return Done("unsure", str(error), backoff(tries, first=4.0, most=300.0))
        except AuthFailed as error:
            if not work.unsure:
                # Certainly not said: with new credentials it goes out without a mark.
                await failure_of(self._again(work, str(error), 0.0))
            raise

    async def _said(self, work: _Work) -> Done:
        """As it is meant to look; once more as plain text when the platform refuses that."""
        work.states = work.states or [PartState(part) for part in self._render(work, plain=False)]
        try:
            return await self._parts(work)
        except Rejected as error:
            if work.row.row.outbound.plain:
                raise
            log.warning("plain_fallback", post=work.row.row.id, error=str(error))
            # What is visible already is replaced. The numbers of parts go on, and with them the
            # keys: no platform folds old and new together.
            parts = self._render(work, plain=True)
            visible = [
                state
                for state in work.states
                if state.receipt is not None and state.part.kind != "delete"
            ]
            work.states = [*visible, *(PartState(part) for part in parts)]
            work.unsure = False
            return await self._parts(work)

    def _render(self, work: _Work, *, plain: bool) -> tuple[Part, ...]:
        visible = {receipt.message: receipt for receipt in work.row.replaces}
        for state in work.states:
            if state.receipt is not None:
                visible[state.receipt.message] = state.receipt
        outbound = work.row.row.outbound
        safe = replace(
            outbound,
            text=self._redact(outbound.text),
            choices=tuple(
                replace(choice, label=self._redact(choice.label)) for choice in outbound.choices
            ),
            replaces=tuple(visible.values()),
            plain=plain or outbound.plain,
        )
        buttons = self._channel.capabilities.choices
        return self._channel.render(worded(safe, buttons=buttons))

    async def _parts(self, work: _Work) -> Done:
        row = work.row
        states = work.states
        if not work.unsure:
            await self._outbox.sending(row.row.id, states)
        for number, state in enumerate(states):
            if state.receipt is not None:
                continue
            receipt = await self._one(work, number)
            states[number] = replace(states[number], receipt=receipt)
            if number + 1 < len(states):
                await self._insist(lambda: self._outbox.sending(row.row.id, states))
        last: dict[str, PartState] = {}  # the last word on every message
        for state in states:
            name = state.receipt.message if state.receipt is not None else ""
            last.pop(name, None)
            last[name] = state
        final = tuple(last.values())
        more = await self._insist(lambda: self._outbox.sent(row.row.id, final))
        receipts = tuple(state.receipt for state in final if state.receipt is not None)
        return Done("sent", receipts=receipts, more=more)

    async def _one(self, work: _Work, number: int) -> Receipt:
        """One part until it has a receipt; a second time at once when the first answer was lost."""
        row = work.row
        digits = 1 if number < 36 else 2
        key = f"{row.row.id}.{base36(number, digits)}"
        for attempt in range(2):
            state = work.states[number]
            part = state.part
            if work.unsure:
                visible, part = await self._settle(work, state, key)
                if visible is not None:
                    work.unsure = False
                    return visible
            if part.kind == "file" and state.handle is None:
                state = replace(state, handle=await self._channel.upload(part))
                work.states[number] = state
                await self._outbox.sending(row.row.id, work.states)
            while (wait := self.wait(row)) > 0:
                await self._sleep(wait)
            if part.kind in ("post", "file"):
                self._pace.take(row.row.outbound.address.chat, _now())
            try:
                receipt = await self._channel.send(part, key, state.handle)
            except Ambiguous:
                work.unsure = True
                if attempt:
                    raise
                await self._sleep(backoff(0))
                continue
            self._failpoint("send.accepted")
            work.unsure = False
            return receipt
        raise AssertionError("the second try returns or raises")

    async def _settle(self, work: _Work, state: PartState, key: str) -> tuple[Receipt | None, Part]:
        """What goes before a second identical send: nothing where it shows nothing new, a look
        where that tells, a mark otherwise."""
        row = work.row
        part = state.part
        if part.kind in ("edit", "delete") or (part.kind == "file" and state.handle is None):
            # the same edit twice shows the same; a file is shown after its upload is stored
            work.unsure = False
            return None, part
        match self._repeats(row):
            case Repeat.SAFE:
                return None, part
            case Repeat.LOOK:
                place = row.row.outbound.address
                visible = await self._channel.find(place, part, key, state.handle, row.started)
                work.unsure = visible is not None
                return visible, part
            case Repeat.RISK:
                return None, self._channel.mark(part)

    def _repeats(self, row: OutRow) -> Repeat:
        """What a repeat of this row does by now: what was safe within a window is a risk behind
        it."""
        able = self._channel.capabilities
        safe_no_more = self._clock() - row.started >= able.repeat_window
        return Repeat.RISK if able.repeat is Repeat.SAFE and safe_no_more else able.repeat

    async def _again(self, work: _Work, reason: str, retry_after: float) -> Done:
        """A store that knew it as "not said" would say it twice: what is unsure stays
        ``sending``."""
        if work.unsure:
            return Done("unsure", reason, retry_after)
        await self._outbox.unsent(
            work.row.row.id, retry_after=retry_after, error=reason, parts=work.states
        )
        return Done("later", reason, retry_after)

    async def _bury(self, row: OutRow, reason: str) -> Done:
        await self._outbox.unsent(row.row.id, retry_after=None, error=reason)
        return Done("dead", reason)

    async def _insist(self, write: Callable[[], Awaitable[T]]) -> T:
        """What was said must be known: while the store is away, nobody else may say it again."""
        attempt = 0
        while True:
            try:
                return await write()
            except Unavailable as error:
                log.error("store_unavailable", doing="receipt", error=str(error))
                await self._sleep(backoff(attempt, most=5.0))
                attempt += 1


def _now() -> float:
    return asyncio.get_running_loop().time()


@record
class TimedSender:
    """Tells ``sent`` how each row went and how many seconds it took."""

    sender: Sender
    sent: Sent

    def wait(self, row: OutRow) -> float:
        return self.sender.wait(row)

    async def send(self, row: OutRow, tries: int = 0) -> Done:
        began = time.monotonic()
        done = await self.sender.send(row, tries)
        self.sent(row, done.state, time.monotonic() - began)
        return done


@record
class Rate:
    """``burst`` at once, then one every ``interval`` seconds. ``interval`` 0: no limit."""

    interval: float
    burst: int = 1


class Pace:
    """When the next call to a chat may go out, in the caller's seconds."""

    def __init__(self, chat: Rate, account: Rate) -> None:
        self._chat_rate = chat
        self._account_rate = account
        self._chats: dict[str, float] = {}
        self._account = 0.0
        self._blocked: dict[str, float] = {}
        self._all_blocked = 0.0

    def wait(self, chat: str, now: float) -> float:
        """Seconds until a call to ``chat`` may go out."""
        ready = max(
            _ready(self._chats.get(chat, 0.0), self._chat_rate),
            _ready(self._account, self._account_rate),
            self._blocked.get(chat, 0.0),
            self._all_blocked,
        )
        return max(0.0, ready - now)

    def take(self, chat: str, now: float) -> None:
        """A call goes out."""
        due = max(now, self._chats.get(chat, 0.0))
        self._chats[chat] = due + self._chat_rate.interval
        self._account = max(now, self._account) + self._account_rate.interval
        if len(self._chats) > 10_000:
            self._chats = {name: due for name, due in self._chats.items() if due > now}

    def block(self, chat: str, until: float, *, everywhere: bool = False) -> None:
        """The platform asked to wait for this chat, or for all of them."""
        if everywhere:
            self._all_blocked = max(self._all_blocked, until)
            return
        self._blocked = {name: due for name, due in self._blocked.items() if due > until - 3_600}
        self._blocked[chat] = until
        if self._chat_rate.interval:  # no burst is left then
            self._chats[chat] = until + self._chat_rate.interval * (self._chat_rate.burst - 1)


def _ready(due: float, rate: Rate) -> float:
    return due - rate.interval * (rate.burst - 1) if rate.interval else 0.0
