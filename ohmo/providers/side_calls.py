"""Models asked for anything but the next step of a turn."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from ohmo.contracts.errors import CutOff
from ohmo.contracts.messages import Usage
from ohmo.contracts.provider import Call, ModelRequest, Payer, Reply
from ohmo.lifecycle import unbroken
from ohmo.providers.wire_parts import streaming


class SideCalls:
    """Implements ``ohmo.contracts.provider.AskOnce``. ``call``: the chain. ``spend``: counts what
    it took."""

    def __init__(
        self, call: Call, spend: Callable[[Payer, Usage], Coroutine[Any, Any, None]]
    ) -> None:
        self._call = call
        self._spend = spend

    async def __call__(self, request: ModelRequest) -> Reply:
        reply: Reply | None = None
        async with streaming(self._call, request) as events:
            async for event in events:
                if isinstance(event, Reply):
                    reply = event
        if reply is None:
            raise CutOff
        await unbroken(self._spend(request.payer, reply.usage))
        return reply
