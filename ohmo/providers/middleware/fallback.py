"""Asks the next profile's model when this one cannot answer at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from channels.record import record
from ohmo.contracts.errors import ProviderError, Refused, TooLong
from ohmo.contracts.provider import ModelEvent, ModelRequest, Notice, Reply, Restarted
from ohmo.providers.cover import Call
from ohmo.providers.streams import streaming


@record
class Alternative:
    """``model`` None: the model the request names."""

    call: Call
    name: str
    model: str | None = None


def fallback(choices: Sequence[Alternative]) -> Call:
    """In order. A request that is too long or refused for what it is would fare no better
    elsewhere: those errors go through at once."""

    async def asked(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for number, choice in enumerate(choices):
            said = False
            try:
                async with streaming(
                    choice.call, replace(request, model=choice.model) if choice.model else request
                ) as events:
                    async for event in events:
                        yield event
                        said = said or bool(event.text if not isinstance(event, Reply) else False)
                return
            except (TooLong, Refused):
                raise
            except ProviderError as error:
                if number + 1 == len(choices):
                    raise
                if said:
                    yield Restarted()
                yield Notice(line=f"{error} Asking {choices[number + 1].name} instead.")

    return asked
