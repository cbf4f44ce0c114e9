"""Names of models as gateways write them and as other endpoints do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from ohmo.contracts.errors import NoSuchModel
from ohmo.contracts.provider import Call, Link, ModelEvent, ModelRequest
from ohmo.providers.middleware.link import LinkManifest
from ohmo.providers.wire_parts import streaming


def short_name(model: str) -> str:
    """What stands behind the first slash; empty without one."""
    return model.partition("/")[2]


def unprefixed() -> Link:
    """Some gateways name their models ``openai/gpt-5``, most endpoints ``gpt-5``: the name goes out
    as it is written, and an endpoint that has no such model is asked for the short one, from then
    on at once."""
    shortened: set[str] = set()

    async def tried(
        request: ModelRequest, shorter: ModelRequest, ask: Call
    ) -> AsyncIterator[ModelEvent]:
        try:
            async with streaming(ask, request) as events:
                async for event in events:
                    yield event
        except NoSuchModel as first:
            try:
                async with streaming(ask, shorter) as events:
                    async for event in events:
                        yield event
                shortened.add(request.model)
            except NoSuchModel:
                raise first from None

    def asked(request: ModelRequest, ask: Call) -> AsyncIterator[ModelEvent]:
        short = short_name(request.model)
        if not short:
            return ask(request)
        shorter = replace(request, model=short)
        if request.model in shortened:
            return ask(shorter)
        return tried(request, shorter, ask)

    return asked


LINK = LinkManifest("unprefixed", lambda parts: unprefixed(), after=("fallback", "priced"))  # noqa: ARG005
