"""One turn: close what is open, ask the model, run what it wants, repeat."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from ohmo.contracts.agent import Answered, Ended, Failed, Ledger, Parked
from ohmo.contracts.errors import CutOff, Overloaded, ProviderError, TimedOut
from ohmo.contracts.events import Event
from ohmo.engine.executor import Executor
from ohmo.engine.guard import LoopGuard
from ohmo.engine.reasoner import Reasoner


class Engine:
    """The built-in agent. ``max_steps``: model calls per run of a turn."""

    def __init__(self, reasoner: Reasoner, executor: Executor, *, max_steps: int) -> None:
        self._reasoner, self._executor, self._max_steps = reasoner, executor, max_steps

    async def run(self, turn: str, ledger: Ledger) -> AsyncGenerator[Event | Ended]:
        """New turn, resumed turn and answered question are the same loop."""
        guard = LoopGuard()
        for _ in range(self._max_steps):
            if calls := ledger.open_calls():
                async with aclosing(self._executor.execute(turn, calls, ledger, guard)) as events:
                    async for event in events:  # each result is recorded before its ToolDone
                        if isinstance(event, Parked):
                            yield Ended(event)
                            return
                        yield event
                if guard.stuck is not None:
                    yield Ended(Failed(f"the same call of {guard.stuck} was made again and again with the same result"))
                    return
            if ledger.last_was_final():  # said is said: what came meanwhile gets a turn of its own
                yield Ended(Answered(ledger.final_text()))
                return
            await ledger.steered()
            try:
                async with aclosing(self._reasoner.decide(turn, ledger)) as thoughts:
                    async for thought in thoughts:  # records the model step, then ModelDone
                        yield thought
            except ProviderError as error:
                yield Ended(Failed(str(error), retry_after=_retry_after(error)))
                return
        if ledger.last_was_final():
            yield Ended(Answered(ledger.final_text()))
        else:
            yield Ended(Failed(f"the limit of {self._max_steps} model calls for one turn was reached"))


def _retry_after(error: ProviderError) -> float | None:
    """Seconds until the same request may succeed; None: it will not by itself."""
    if isinstance(error, Overloaded):
        return error.retry_after or 0.0
    return 0.0 if isinstance(error, TimedOut | CutOff) else None
