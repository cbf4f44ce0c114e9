"""One turn: close what is open, ask the model, run what it wants, repeat; and one call of the
model."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from ohmo.contracts.agent import (
    Answered,
    CompactionProgress,
    Ended,
    Event,
    Failed,
    Failure,
    Ledger,
    ModelDone,
    Parked,
    Status,
    TextDelta,
    TextReset,
)
from ohmo.contracts.errors import (
    CutOff,
    Empty,
    OverBudget,
    Overloaded,
    ProviderError,
    TimedOut,
    TooLong,
)
from ohmo.contracts.hooks import Hooks
from ohmo.contracts.messages import ModelStep, Text
from ohmo.contracts.provider import (
    Began,
    Billed,
    Call,
    Delta,
    ModelRequest,
    Notice,
    Queued,
    Reply,
    Restarted,
)
from ohmo.engine.concurrency import Emit, emitted
from ohmo.engine.executor import Executor, LoopGuard
from ohmo.engine.hooked import answers_sent_back, begin_session, sent_back
from ohmo.lifecycle import closing

SENT_BACK = "a hook wanted more than this answer"
NOT_CONTENT = "A hook wanted more than this answer, which could not be done"
Thought = TextDelta | TextReset | ModelDone | Status | CompactionProgress


async def nothing_after(turn: str) -> None:
    """Nothing has to happen after it."""
    del turn


class Engine:
    """The built-in agent. ``max_steps``: model calls of a turn, over restarts and questions.
    ``hooks``: heard as a session begins and before an answer ends its turn. ``after``: told when a
    turn runs no more, however it ended."""

    def __init__(
        self,
        reasoner: Reasoner,
        executor: Executor,
        *,
        max_steps: int,
        hooks: Hooks | None = None,
        after: Callable[[str], Awaitable[None]] = nothing_after,
    ) -> None:
        self._reasoner = reasoner
        self._executor = executor
        self._max_steps = max_steps
        self._hooks = hooks
        self._after = after

    async def run(self, turn: str, ledger: Ledger) -> AsyncGenerator[Event | Ended]:
        """New turn, resumed turn and answered question are the same loop."""
        try:
            guard = LoopGuard()
            for _ in range(self._max_steps - ledger.model_calls()):
                calls = ledger.open_calls()
                if calls:
                    async with aclosing(
                        self._executor.execute(turn, calls, ledger, guard)
                    ) as events:
                        async for event in events:  # each result is recorded before its ToolDone
                            if isinstance(event, Parked):
                                yield Ended(event)
                                return
                            yield event
                    if guard.stuck is not None:
                        why = f"the same call of {guard.stuck} was made again and again"
                        for last in _failed(turn, f"{why} with the same result", ledger):
                            yield last
                        return
                # Said is said: what came meanwhile gets a turn of its own.
                if ledger.last_was_final():
                    if not await sent_back(self._hooks, turn, ledger):
                        yield Ended(Answered(ledger.final_text()))
                        return
                    yield Status(turn, SENT_BACK)  # whoever listens knows that it is written now
                await begin_session(self._hooks, turn, ledger)
                await ledger.steered()
                try:
                    async with aclosing(self._reasoner.decide(turn, ledger)) as thoughts:
                        async for thought in thoughts:  # records the model step, then ModelDone
                            yield thought
                except ProviderError as error:
                    for last in _failed(turn, str(error), ledger, _retry_after(error), error):
                        yield last
                    return
            if ledger.last_was_final():
                yield Ended(Answered(ledger.final_text()))
            else:
                why = f"the limit of {self._max_steps} model calls for one turn was reached"
                for last in _failed(turn, why, ledger):
                    yield last
        finally:
            await self._after(turn)


def _failed(
    turn: str,
    why: str,
    ledger: Ledger,
    retry_after: float | None = None,
    error: ProviderError | None = None,
) -> tuple[Event | Ended, ...]:
    """``retry_after``: seconds until the same request may succeed; None: it will not, and what
    hooks sent back is the answer. ``error``: of the model, where it was that."""
    if retry_after is None and (answer := kept_back(ledger, why)) is not None:
        return (Ended(answer),)
    served = isinstance(error, Overloaded) and error.served
    budget = isinstance(error, OverBudget)
    failed = Failed(why, retry_after, served, budget)
    return Failure(turn, why, fatal=retry_after is None), Ended(failed)


def kept_back(ledger: Ledger, why: str) -> Answered | None:
    """What is sent of a turn that cannot go on: the last answer that hooks sent back, with the
    reason, or still look at. None: there is none."""
    if ledger.last_was_final():
        return Answered(ledger.final_text())
    back = answers_sent_back(ledger)
    return Answered(f"{text_of(back[0])}\n\n_{NOT_CONTENT}: {why}._") if back else None


def _retry_after(error: ProviderError) -> float | None:
    """Seconds until the same request may succeed; None: it will not by itself."""
    if isinstance(error, Empty):
        return None
    if isinstance(error, Overloaded):
        return error.retry_after or 0.0
    return 0.0 if isinstance(error, TimedOut | CutOff) else None


def text_of(step: ModelStep) -> str:
    """What the model said in words."""
    return "".join(block.text for block in step.blocks if isinstance(block, Text)).strip()


class Reasoner:
    """Asks the model once and records its step. ``failpoint`` ``model.chunk`` is hit at every piece
    of text."""

    def __init__(self, call: Call, *, failpoint: Callable[[str], None]) -> None:
        self._call = call
        self._failpoint = failpoint

    async def decide(self, turn: str, ledger: Ledger) -> AsyncGenerator[Thought]:
        """Raises ProviderError when the chain has given up. A prompt that is too long is made
        shorter and asked again, three times."""
        for attempt in range(4):
            request: ModelRequest | None = None
            async with aclosing(_prepared(ledger, shrink=attempt > 0)) as phases:
                async for phase in phases:
                    if isinstance(phase, CompactionProgress):
                        yield phase
                    else:
                        request = phase
            if request is None:
                raise CutOff
            reply: Reply | None = None
            asked_at = answered_at = time.monotonic()
            try:
                async with closing(self._call(request)) as events:
                    async for event in events:
                        match event:
                            case Delta(text):
                                self._failpoint("model.chunk")
                                yield TextDelta(turn, text)
                            case Notice(line):
                                yield Status(turn, line)
                            case Restarted():
                                yield TextReset(turn)
                            case Began() | Billed() | Queued():
                                pass
                            case Reply():
                                reply = event
                                answered_at = time.monotonic()
            except TooLong:
                if attempt == 3:
                    raise
                yield TextReset(turn)
                continue
            if reply is None:
                raise CutOff
            await ledger.record(reply.step, usage=reply.usage)
            seconds = answered_at - asked_at
            yield ModelDone(turn, text_of(reply.step), reply.usage, seconds)
            return


async def _prepared(
    ledger: Ledger, *, shrink: bool
) -> AsyncGenerator[CompactionProgress | ModelRequest]:
    """The request, after what is told while the conversation is made shorter for it."""
    if not shrink and not ledger.crowded():
        yield await ledger.request()
        return

    async def prepare(emit: Emit[CompactionProgress | ModelRequest]) -> None:
        emit(await ledger.request(shrink=shrink, tell=emit))

    async with aclosing(emitted(prepare)) as items:
        async for item in items:
            yield item
