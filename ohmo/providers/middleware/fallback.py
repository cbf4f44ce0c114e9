"""Another profile is asked when one cannot answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from ohmo.contracts.errors import ProviderError
from ohmo.contracts.provider import Call, Link, ModelEvent, ModelRequest, Notice, Restarted
from ohmo.providers.middleware.link import Alternative, LinkManifest, through
from ohmo.providers.middleware.recovery import RECOVERY, fault_of
from ohmo.providers.wire_parts import says_something, streaming


def fallback(others: Sequence[Alternative]) -> Link:
    """After the one that is asked first the others, in order. A request that is too long or refused
    for what it is would fare no better elsewhere: those errors go through at once."""
    if not others:
        return through

    async def asked(request: ModelRequest, ask: Call) -> AsyncIterator[ModelEvent]:
        choices = (Alternative(ask, ""), *others)
        for number, choice in enumerate(choices):
            said = False
            try:
                wanted = replace(request, model=choice.model) if choice.model else request
                async with streaming(choice.call, wanted) as events:
                    async for event in events:
                        yield event
                        said = said or says_something(event)
                return
            except ProviderError as error:
                if number + 1 == len(choices) or not RECOVERY[fault_of(error)].elsewhere:
                    raise
                if said:
                    yield Restarted()
                yield Notice(f"{error} Asking {choices[number + 1].name} instead.")

    return asked


LINK = LinkManifest("fallback", lambda parts: fallback(parts.others), required=True)
