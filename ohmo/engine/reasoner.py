"""One model call through the chain."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

from ohmo.contracts.agent import Ledger, ModelDone, Status, TextDelta, TextReset
from ohmo.contracts.errors import CutOff, TooLong
from ohmo.contracts.messages import ModelStep, Text
from ohmo.contracts.provider import Delta, ModelEvent, ModelRequest, Notice, Reply, Restarted
from ohmo.engine.stream import closable

Call = Callable[[ModelRequest], AsyncIterator[ModelEvent]]
Thought = TextDelta | TextReset | ModelDone | Status


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
            request = await ledger.request(shrink=attempt > 0)
            try:
                async with aclosing(self._ask(turn, request, ledger)) as thoughts:
                    async for thought in thoughts:
                        yield thought
                return
            except TooLong:
                if attempt == 3:
                    raise
                yield TextReset(turn)

    async def _ask(
        self, turn: str, request: ModelRequest, ledger: Ledger
    ) -> AsyncGenerator[Thought]:
        reply: Reply | None = None
        asked = answered = time.monotonic()
        async with aclosing(closable(self._call(request))) as events:
            async for event in events:
                match event:
                    case Delta(text):
                        self._failpoint("model.chunk")
                        yield TextDelta(turn, text)
                    case Notice(line):
                        yield Status(turn, line)
                    case Restarted():
                        yield TextReset(turn)
                    case Reply():
                        reply = event
                        answered = time.monotonic()
        if reply is None:
            raise CutOff
        await ledger.record(reply.step, usage=reply.usage)
        yield ModelDone(turn, text_of(reply.step), reply.usage, answered - asked)
