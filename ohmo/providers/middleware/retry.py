"""What may pass is tried again."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ohmo.contracts.errors import Overloaded, ProviderError
from ohmo.contracts.provider import Began, Call, Link, ModelEvent, ModelRequest, Notice, Restarted
from ohmo.providers.middleware.link import LinkManifest, Patience
from ohmo.providers.middleware.recovery import RECOVERY, fault_of
from ohmo.providers.wire_parts import says_something, streaming


def retry(rule: Patience) -> Link:
    """After a try that had already said something the next one begins with ``Restarted``. What a
    first try waits for its turn is no time in which anything was tried."""

    async def retried(request: ModelRequest, ask: Call) -> AsyncIterator[ModelEvent]:
        started: float | None = None
        for number in range(1, rule.tries + 1):
            said = False
            try:
                async with streaming(ask, request) as events:
                    async for event in events:
                        if isinstance(event, Began):
                            started = rule.clock() if started is None else started
                            continue
                        yield event
                        said = said or says_something(event)
                return
            except ProviderError as error:
                if not RECOVERY[fault_of(error)].waits:
                    raise
                now = rule.clock()
                started = now if started is None else started
                wait = rule.first * 2 ** (number - 1) * (0.5 + 0.5 * rule.jitter())
                if isinstance(error, Overloaded) and error.retry_after is not None:
                    wait = error.retry_after
                if number == rule.tries or now + wait - started > rule.deadline:
                    raise
                if said:
                    yield Restarted()
                if wait >= rule.tell_from or number == 2:
                    again = f"Trying again in {wait:.0f} s ({number + 1} of {rule.tries})."
                    yield Notice(f"{error} {again}")
            await rule.sleep(wait)

    return retried


LINK = LinkManifest("retry", lambda parts: retry(parts.patience), after=("fallback", "tiers"))
