"""What control is handed: the ports of the house for its keyboard, its page and its metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager

from channels.record import record
from ohmo.bus.bus import MessageBus
from ohmo.contracts.agent import Event
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.store import Hint, Store
from ohmo.contracts.turns import Accepted, ThreadSettings


@record
class HouseWatch:
    """Implements control's ``Watch``."""

    bus: MessageBus
    store: Store

    def events(self) -> AbstractContextManager[AsyncIterator[tuple[str, Event]]]:
        return self.bus.outbound.listen()

    def listen(self, hear: Callable[[Sequence[Hint]], None]) -> Callable[[], None]:
        return self.store.listen(hear)


async def publish_wake(bus: MessageBus, wake: Wake, settings: ThreadSettings | None) -> Accepted:
    """Returns after the commit."""
    return (await bus.publish([wake], settings=settings))[0]
