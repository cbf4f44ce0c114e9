"""``provider/model`` for an endpoint that knows the model without what stands before the slash."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from ohmo.contracts.errors import NoSuchModel
from ohmo.contracts.provider import ModelEvent, ModelRequest
from ohmo.providers.cover import Call
from ohmo.providers.streams import streaming


def short_name(model: str) -> str:
    """What stands behind the first slash; empty without one."""
    return model.partition("/")[2]


def unprefixed(call: Call) -> Call:
    """Some gateways name their models ``openai/gpt-5``, most endpoints ``gpt-5``: the name goes out
    as it is written, and an endpoint that has no such model is asked for the short one, from then
    on at once."""
    shortened: set[str] = set()

    async def asked(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        short = short_name(request.model)
        if short and request.model not in shortened:
            try:
                async with streaming(call, request) as events:
                    async for event in events:
                        yield event
                return
            except NoSuchModel as first:
                try:
                    async with streaming(call, replace(request, model=short)) as events:
                        async for event in events:
                            shortened.add(request.model)
                            yield event
                    return
                except NoSuchModel:
                    raise first from None
        wanted = replace(request, model=short) if short else request
        async with streaming(call, wanted) as events:
            async for event in events:
                yield event

    return asked
