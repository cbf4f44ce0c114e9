"""What an answer cost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

from ohmo.contracts.provider import Billed, Call, Link, ModelEvent, ModelRequest, Reply
from ohmo.providers.middleware.link import LinkManifest
from ohmo.providers.models import Price, known, plain_name
from ohmo.providers.wire_parts import streaming


def priced(pricing: Mapping[str, Price]) -> Link:
    """``pricing``: by the model's name as a profile writes it, with or without its maker; else the
    table's price. A usage that came with its cost keeps it."""

    async def asked(request: ModelRequest, ask: Call) -> AsyncIterator[ModelEvent]:
        price = price_of(request.model, pricing)
        async with streaming(ask, request) as events:
            async for event in events:
                if not isinstance(event, Billed | Reply) or price is None:
                    yield event
                    continue
                usage = event.usage
                if usage.micro_usd is None:
                    cost = price.micro_usd(usage.input, usage.cached, usage.written, usage.output)
                    usage = replace(usage, micro_usd=cost)
                billed = isinstance(event, Billed)
                yield Billed(usage) if billed else Reply(event.step, usage, event.fault)

    return asked


def price_of(model: str, pricing: Mapping[str, Price]) -> Price | None:
    """None: nobody knows it."""
    found = pricing.get(model) or pricing.get(plain_name(model))
    return found or known(model).price


LINK = LinkManifest(
    "priced", lambda parts: priced(parts.pricing), after=("fallback", "budget"), required=True
)
