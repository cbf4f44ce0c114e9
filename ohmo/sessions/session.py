"""One thread's mind: takes its work, runs one turn at a time, brings it to an end, a park or a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal

from channels.contract import Address, Outbound
from ohmo.contracts.agent import Agent, Answered, Ended, Failed, Outcome, Parked
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.events import Event, Status, TurnEnded, TurnStarted
from ohmo.contracts.messages import CallResult, Step, Text, ToolResult, UserStep
from ohmo.contracts.store import Ask, Card, Claim, Closing, PostRow, Store, ToStep, Work
from ohmo.failpoints import Failpoint
from ohmo.ids import NewId
from ohmo.sessions import words
from ohmo.sessions.ledger import TurnLedger
from ohmo.sessions.plan import TurnPlan
from ohmo.sessions.transcript import Transcript

Why = Literal["stopped", "interrupted", "shutdown", "lost"]
Busy = Literal["queue", "steer", "interrupt", "collect"]
TRIES = 3  # exceptions that end a turn in a dead letter
DEATHS = 5  # process deaths that do


@dataclass(frozen=True, slots=True)
class SessionParts:
    """What every session is built from. ``plan`` decides model, prompt and permissions of a turn; ``fetch`` brings attachments of an arrival to
    their paths and says what could not be had; ``approval_timeout`` and ``turn_timeout`` in seconds."""

    store: Store
    agent: Agent
    plan: Callable[[Claim, Work], TurnPlan]
    step: ToStep
    fetch: Callable[[Arrival], Awaitable[Sequence[str]]]
    emit: Callable[[str, Event], None]
    card: Card
    closing: Closing
    new_id: NewId
    failpoint: Failpoint
    approval_timeout: float
    turn_timeout: float
    busy: Busy  # of threads whose people chose nothing


class Session:
    """Owned by the pool for one claim. ``transcript`` is the pool's cached one or a new one."""

    def __init__(self, claim: Claim, parts: SessionParts) -> None:
        self.claim = claim
        self.turn: str | None = None
        self.suspect = False
        self._parts = parts

    @property
    def busy(self) -> Busy:
        """What a message that comes while this works does."""
        return self.claim.settings.busy or self._parts.busy

    async def take(self) -> Work | None:
        """The head of the mailbox, or the open turn. None: nothing to do, the lease is given back."""
        parts = self._parts
        parts.failpoint("turn.claim")
        work = await parts.store.work(self.claim, parts.new_id(), collect=self.busy == "collect", step=parts.step)
        if work is not None:
            self.turn, self.suspect = work.turn, work.starts > 2
        return work

    async def run(self, work: Work, transcript: Transcript) -> Outcome | None:
        """Brings the turn to an end; a failure with ``retry_after`` is left to ``give_back``. None: a dead letter without running.
        Raises LeaseLost and whatever broke; the pool decides."""
        if work.starts > DEATHS or work.attempts >= TRIES:
            what = f"it ended the process {work.starts - 1} times" if work.starts > DEATHS else f"it failed {work.attempts} times"
            await self._end_dead(work, transcript, what)
            return None
        plan = self._parts.plan(self.claim, work)
        transcript.refit(plan.budget)
        transcript.add(await self._parts.store.steps(self.claim.thread, transcript.last + 1))
        self._parts.emit(self.claim.thread, TurnStarted(work.turn, plan.person, reply_address(work)))
        await self._prepare(work, transcript)
        outcome = await self._drive(work, transcript, plan)
        await self._conclude(work, transcript, outcome)
        return outcome

    async def _prepare(self, work: Work, transcript: Transcript) -> None:
        """Files are fetched, and calls an earlier turn left open are closed."""
        steps: list[Step] = []
        if not work.resumed:
            steps += [CallResult(ToolResult(one.call.id, words.STOPPED_TOOL, error=True)) for one in transcript.open_calls()]
        missing = [line for arrival in work.arrivals for line in await self._parts.fetch(arrival)]
        if missing and not work.resumed:
            steps.append(UserStep((Text("\n".join(missing)),), "house", "notice"))
        if steps:
            await self._record(work.turn, transcript, steps)

    async def _drive(self, work: Work, transcript: Transcript, plan: TurnPlan) -> Outcome:
        parts, loop = self._parts, asyncio.get_running_loop()
        deadline = loop.time() + parts.turn_timeout
        ledger = TurnLedger(parts.store, self.claim, work.turn, transcript, plan, step=parts.step, new_id=parts.new_id, deadline=deadline)
        if transcript.newly_left_out():
            parts.emit(self.claim.thread, Status(work.turn, words.LEFT_OUT))
        outcome: Outcome = Failed("the agent ended without an outcome")
        try:
            async with asyncio.timeout_at(deadline), aclosing(_closable(parts.agent, work.turn, ledger)) as items:
                async for item in items:
                    if isinstance(item, Ended):
                        outcome = item.outcome
                    else:
                        parts.emit(self.claim.thread, item)
        except TimeoutError:
            return Failed(words.overdue(parts.turn_timeout / 60))
        return outcome

    async def _conclude(self, work: Work, transcript: Transcript, outcome: Outcome) -> None:
        parts, claim, thread = self._parts, self.claim, self.claim.thread
        match outcome:
            case Answered(text):
                parts.failpoint("outbox.before")
                posts = self._posts(work, text or words.NO_ANSWER)
                await parts.store.finish(claim, work.turn, (), posts, state="done")
                parts.failpoint("outbox.committed")
                parts.emit(thread, TurnEnded(work.turn, "answered", text))
            case Parked(questions):
                cwd = str(parts.plan(claim, work).cwd)
                asks = [Ask(parts.new_id(), call.id, question, cwd) for call, question in questions]
                await parts.store.park(claim, work.turn, asks, timeout=parts.approval_timeout, card=parts.card, closing=parts.closing)
                parts.failpoint("approval.stored")
                parts.emit(thread, TurnEnded(work.turn, "parked", questions[0][1].title))
            case Failed(reason, None):
                await self._end_dead(work, transcript, reason)
            case Failed():
                return  # the pool gives it back and tries again

    async def _end_dead(self, work: Work, transcript: Transcript, reason: str) -> None:
        parts = self._parts
        steps = [CallResult(ToolResult(one.call.id, words.STOPPED_TOOL, error=True)) for one in transcript.open_calls()]
        posts = self._posts(work, words.failed(reason))
        await parts.store.finish(self.claim, work.turn, steps, posts, state="failed", reason=reason)
        parts.emit(self.claim.thread, TurnEnded(work.turn, "failed", reason))

    async def ended_early(self, why: Why) -> None:
        """The pool cancelled the run: leave the turn as ``why`` says. ``stopped`` and ``lost``: others have written already."""
        parts, turn = self._parts, self.turn
        if why == "interrupted" and turn is not None:
            await parts.store.interrupt(self.claim, turn, parts.closing)
        elif why == "shutdown":
            await parts.store.release(self.claim, turn)
        if turn is not None:
            parts.emit(self.claim.thread, TurnEnded(turn, "released" if why in ("shutdown", "lost") else "stopped", ""))

    async def give_back(self, work: Work, reason: str, *, retry_after: float, say: bool) -> None:
        """The model cannot be reached: the turn stays open, and its person hears it once (``say``)."""
        parts, address = self._parts, reply_address(work)
        if say and address is not None:
            await parts.store.post([PostRow(parts.new_id(), "notice", Outbound(address, words.WAITING.format(reason=reason)))])
        await parts.store.release(self.claim, work.turn, retry_after=retry_after)
        parts.emit(self.claim.thread, TurnEnded(work.turn, "released", reason))

    async def _record(self, turn: str, transcript: Transcript, steps: Sequence[Step]) -> None:
        numbers = await self._parts.store.record(self.claim, turn, steps)
        transcript.add(list(zip(numbers, steps, strict=True)))

    def _posts(self, work: Work, text: str) -> list[PostRow]:
        address = reply_address(work)
        return [PostRow(self._parts.new_id(), "message", Outbound(address, text))] if address is not None else []


def reply_address(work: Work) -> Address | None:
    """Where the answer of a turn goes: to the place of its first arrival, or where a wake says."""
    first = work.arrivals[0]
    return first.deliver if isinstance(first, Wake) else first.address


async def _closable(agent: Agent, turn: str, ledger: TurnLedger) -> AsyncGenerator[Event | Ended]:
    async for item in agent.run(turn, ledger):
        yield item
