"""One row of the outbox becomes visible: rendered once, its parts frozen before the first call, each settled by what its platform can promise."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from channels.contract import Channel, Clock, Receipt, Repeat
from channels.errors import Ambiguous, NotReady, RateLimited, Rejected
from ohmo.contracts.errors import Conflict
from ohmo.contracts.store import Outbox, OutRow, PartState
from ohmo.failpoints import Failpoint
from ohmo.gateway.pace import Pace
from ohmo.lifecycle import backoff

UNSURE = 4  # tries to settle a part whose delivery is unknown
MOST_TRIES = 500  # of one row, before it is a dead letter although its time is not over


@dataclass(frozen=True, slots=True)
class Done:
    """How a row ended for now. ``later``: it goes on after ``retry_after`` seconds. ``dead``: ``reason`` goes to the owner.
    ``gone``: a draft that was dropped meanwhile."""

    state: Literal["sent", "later", "dead", "gone"]
    reason: str = ""
    retry_after: float = 0.0
    receipts: tuple[Receipt, ...] = ()


@dataclass(slots=True)
class _Doubt:
    """Whether a part may have been said already, and whether its repeat carries the mark."""

    unsure: bool
    marked: bool = False


class Sender:
    """For one connected channel. AuthFailed passes through: the account stops, its rows stay. ``sleep`` waits in real seconds."""

    def __init__(
        self, channel: Channel, outbox: Outbox, *, clock: Clock, pace: Pace, failpoint: Failpoint,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:  # fmt: skip
        self._channel, self._outbox, self._clock, self._pace, self._failpoint, self._sleep = channel, outbox, clock, pace, failpoint, sleep

    async def send(self, row: OutRow) -> Done:
        """Brings one head as far as it goes."""
        if row.expires <= self._clock():
            return await self._bury(row, "it could not be delivered within its time")
        unsure = row.state == "sending" and bool(row.parts)
        try:
            parts = list(row.parts) or self._render(row)
            if not unsure:
                await self._outbox.sending(row.row.id, parts)
            return await self._formed(row, parts, unsure=unsure)
        except Conflict:
            return Done("gone", "it was taken back meanwhile")

    async def _formed(self, row: OutRow, states: list[PartState], *, unsure: bool) -> Done:
        """When the platform refuses the form: once more as plain text, which takes the place of what is shown already; then a dead letter."""
        try:
            return await self._parts(row, states, unsure=unsure)
        except Rejected as first:
            refusal = first
        if row.row.outbound.plain:
            return await self._bury(row, f"the platform refuses it: {refusal}")
        shown = [state.receipt for state in states if state.receipt is not None and state.part.kind == "post"]
        plain = self._render(row, plain=True, shown=shown)
        await self._outbox.sending(row.row.id, plain)
        try:
            return await self._parts(row, plain, unsure=False)
        except Rejected as error:
            return await self._bury(row, f"the platform refuses it: {error}")

    def _render(self, row: OutRow, *, plain: bool = False, shown: Sequence[Receipt] = ()) -> list[PartState]:
        outbound = replace(row.row.outbound, replaces=(*row.replaces, *shown), plain=plain or row.row.outbound.plain)
        return [PartState(part) for part in self._channel.render(outbound)]

    async def _parts(self, row: OutRow, states: list[PartState], *, unsure: bool) -> Done:
        """``states`` is brought forward in place. ``unsure``: the first part without a receipt may have been said in an earlier life."""
        for number, state in enumerate(states):
            if state.receipt is not None:
                continue
            doubt = _Doubt(unsure)
            try:
                states[number] = await self._one(row, states, number, doubt)
            except RateLimited as error:
                self._pace.block(row.row.outbound.address.chat, self._now() + error.retry_after)
                return await self._later(row, states, str(error), error.retry_after, unsure=doubt.unsure)
            except NotReady as error:
                return await self._later(row, states, str(error), backoff(row.attempts, first=0.5, most=30.0), unsure=doubt.unsure)
            except Ambiguous as error:
                return await self._bury(row, f"its delivery cannot be made sure: {error}")
            unsure = False
            if number + 1 < len(states):
                await self._outbox.sending(row.row.id, states)
        await self._outbox.sent(row.row.id, states)
        return Done("sent", receipts=tuple(state.receipt for state in states if state.receipt is not None))

    async def _one(self, row: OutRow, states: list[PartState], number: int, doubt: _Doubt) -> PartState:
        """One part until it has a receipt. Ambiguous only when nothing more can be tried."""
        state, key = states[number], f"{row.row.id}.{number}"
        for attempt in range(UNSURE):
            if doubt.unsure:
                found, state = await self._settle(row, state, key, doubt)
                if found is not None:
                    return replace(state, receipt=found)
            if state.part.kind == "file" and state.handle is None:
                state = replace(state, handle=await self._channel.upload(state.part))
                states[number] = state
                await self._outbox.sending(row.row.id, states)
            await self._paced(row)
            try:
                receipt = await self._channel.send(state.part, key, state.handle)
            except Ambiguous:
                doubt.unsure = True
                if attempt == UNSURE - 1:
                    raise
                await self._sleep(backoff(attempt, first=0.5, most=8.0))
                continue
            self._failpoint("send.accepted")
            return replace(state, receipt=receipt)
        raise Ambiguous("too many tries")

    async def _settle(self, row: OutRow, state: PartState, key: str, doubt: _Doubt) -> tuple[Receipt | None, PartState]:
        """What may be done before a second identical send: nothing where the platform folds it, look where it can be found, mark otherwise."""
        able = self._channel.capabilities
        if state.part.kind in ("edit", "delete"):
            return None, state  # the same edit twice shows the same
        if able.repeat is Repeat.SAFE and self._clock() - row.started < able.repeat_window:
            return None, state
        if able.repeat is Repeat.LOOK:
            return await self._channel.find(row.row.outbound.address, state.part, key, state.handle, row.started), state
        if doubt.marked:
            return None, state
        doubt.marked = True
        return None, replace(state, part=self._channel.mark(state.part))

    async def _paced(self, row: OutRow) -> None:
        chat = row.row.outbound.address.chat
        while (wait := self._pace.wait(chat, self._now())) > 0:
            await self._sleep(wait)
        self._pace.take(chat, self._now())

    async def _later(self, row: OutRow, states: Sequence[PartState], reason: str, retry_after: float, *, unsure: bool) -> Done:
        """``unsure``: the row stays ``sending``, so that whoever takes it up settles the doubt first; only delivery's memory holds it back."""
        if row.attempts >= MOST_TRIES:
            return await self._bury(row, f"{MOST_TRIES} tries failed; the last: {reason}")
        if not unsure:
            await self._outbox.unsent(row.row.id, retry_after=retry_after, error=reason, parts=states)
        return Done("later", reason, retry_after)

    async def _bury(self, row: OutRow, reason: str) -> Done:
        await self._outbox.unsent(row.row.id, retry_after=None, error=reason)
        return Done("dead", reason)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
