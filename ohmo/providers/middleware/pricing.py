"""What an answer cost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

from ohmo.contracts.messages import Usage
from ohmo.contracts.provider import ModelEvent, ModelRequest, Reply
from ohmo.providers.cover import Call
from ohmo.providers.models import Price, known, plain_name
from ohmo.providers.streams import streaming


def priced(call: Call, pricing: Mapping[str, Price]) -> Call:
    """``pricing``: by the model's name as a profile writes it, with or without its maker; else the
    table's price. A usage that came with its cost keeps it."""

    async def asked(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async with streaming(call, request) as events:
            async for event in events:
                if isinstance(event, Reply) and event.usage.micro_usd is None:
                    yield replace(
                        event, usage=_with_cost(event.usage, price_of(request.model, pricing))
                    )
                else:
                    yield event

    return asked


def price_of(model: str, pricing: Mapping[str, Price]) -> Price | None:
    """None: nobody knows it."""
    found = pricing.get(model) or pricing.get(plain_name(model))
    return found or known(model).price


def _with_cost(usage: Usage, price: Price | None) -> Usage:
    if price is None:
        return usage
    cost = price.micro_usd(usage.input, usage.cached, usage.written, usage.output)
    return replace(usage, micro_usd=cost)
