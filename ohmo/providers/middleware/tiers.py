"""Which of a profile's models is asked: the smallest for summaries and notes, the next larger one
for an answer that one could not give."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import structlog

from ohmo.contracts.errors import Empty, ProviderError
from ohmo.contracts.provider import (
    Call,
    Delta,
    Link,
    ModelEvent,
    ModelRequest,
    Notice,
    Purpose,
    Reply,
    Restarted,
)
from ohmo.providers.middleware.link import LinkManifest
from ohmo.providers.middleware.recovery import Fault
from ohmo.providers.middleware.repair import words
from ohmo.providers.wire_parts import says_something, streaming

log = structlog.get_logger("ohmo.models")
_SMALLEST: tuple[Purpose, ...] = ("compaction", "memory")


def tiers(models: Sequence[str]) -> Link:
    """``models``: small to large; one that is not among them is asked alone.

    An answer that stayed faulty or empty when it was asked for again is thrown away where there is
    a larger model, which is asked the same, for this answer only. Where that fails, what there is
    must do."""

    async def asked(request: ModelRequest, ask: Call) -> AsyncIterator[ModelEvent]:
        listed = request.model in models
        if listed and request.purpose in _SMALLEST:
            request = replace(request, model=models[0])
        choices = models[models.index(request.model) :] if listed else (request.model,)
        kept: Reply | None = None
        for number, model in enumerate(choices, 1):
            said = False
            wanted = request if model == request.model else replace(request, model=model)
            try:
                async with streaming(ask, wanted) as events:
                    async for event in events:
                        if isinstance(event, Reply):
                            kept = event
                        else:
                            yield event
                            goes_on = said and not isinstance(event, Restarted)
                            said = goes_on or says_something(event)
            except ProviderError as error:
                if kept is not None:
                    if said:
                        yield Restarted()
                    yield Delta(words(kept.step))
                    break
                if number == len(choices) or not isinstance(error, Empty):
                    raise
            fault = Fault.EMPTY if kept is None else kept.fault
            if number == len(choices) or not fault:
                break
            if said:
                yield Restarted()
            larger = choices[number]
            turn = request.payer.turn
            log.info("larger_model_asked", model=model, larger=larger, fault=fault, turn=turn)
            yield Notice(f"{model}: {fault}; {larger} is asked for this answer.")
        if kept is not None:
            yield replace(kept, fault="") if kept.fault else kept

    return asked


LINK = LinkManifest("tiers", lambda parts: tiers(parts.endpoint.models), after=("fallback",))
