"""People's names by their ids, where a platform tells them only when it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

from channels.errors import AuthFailed, ChannelError, Rejected
from channels.recent import Recent

KEPT = 5_000  # people


class Names:
    """Each person is asked for once. A name that cannot be had in time is the id until it is
    there."""

    def __init__(self, ask: Callable[[str], Awaitable[str]], patience: float) -> None:
        """``ask``: one question to the platform, "" when the answer holds no name; raises
        ChannelError. ``patience``: seconds for which a message waits for the names in it."""
        self._ask = ask
        self._patience = patience
        self._known = Recent[str, str](KEPT)
        self._asking: dict[str, asyncio.Task[None]] = {}

    @property
    def known(self) -> Mapping[str, str]:
        return self._known

    def tell(self, person: str, name: str) -> None:
        """A name that came by itself: some platforms write it beside a mention."""
        if person and name:
            self._known[person] = name

    async def learn(self, people: Collection[str], group: asyncio.TaskGroup) -> None:
        """Waits a moment only; the questions themselves go on in ``group``, which AuthFailed
        ends."""
        for person in people:
            if person and person not in self._known and person not in self._asking:
                self._asking[person] = group.create_task(
                    self._learn(person), name=f"name of {person}"
                )
        asked = [self._asking[person] for person in people if person in self._asking]
        if asked:
            await asyncio.wait(asked, timeout=self._patience)

    async def _learn(self, person: str) -> None:
        try:
            self.tell(person, await self._ask(person) or person)
        except AuthFailed:
            raise
        except Rejected:  # no scope, no such person: asking again changes nothing
            self.tell(person, person)
        except ChannelError:
            return
        finally:
            del self._asking[person]
