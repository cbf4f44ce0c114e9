"""A turn that has ended the process before runs alone, so that it cannot take innocent turns with
it again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

TRUSTED = 3  # starts up to which a suspect need not let others go first
QUIET = {
    5: 3.0,
    6: 6.0,
    7: 12.0,
}  # seconds a life has to last without a turn of so many deaths before it is tried again
DEATHS = max(QUIET) + 1  # process deaths that end a turn in a dead letter


class PoisonTurns:
    """Ordinary turns share; a suspect waits at most ``patience`` seconds for the running ones and
    holds new ones back meanwhile.

    Whoever holds its thread when the process dies is charged with that death. So a suspect that has
    to wait for another one is turned away instead: a machine that is killed again and again from
    outside must not make dead letters of messages that never ran.

    From the fifth death on a turn is tried in a house that has lived without it for a while
    (``QUIET``): a process that is killed from outside does not come that far and charges nobody,
    one that lives until the turn begins and dies again was ended by the turn. ``patience`` in
    seconds; ``now``: seconds of a clock that never goes back."""

    def __init__(
        self, patience: float = 60.0, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._patience = patience
        self._now = now
        self._born = now()
        self._running = 0
        self._alone = False
        self._changed = asyncio.Condition()
        self._stepped_back: set[str] = set()

    @property
    def alone(self) -> bool:
        """A suspect runs, or waits for the running ones to end: nothing else can begin."""
        return self._alone

    def turned_away(self, turn: str, starts: int, *, others: bool) -> float | None:
        """Seconds after which a suspect shall come again, without its lease meanwhile; None: it may
        go on to ``among``. Where ``others`` are to run too, those with fewer deaths go first in
        each life of the process: deaths spread over all of them instead of meeting the oldest each
        time."""
        if self._alone:
            return 0.0
        if turn in self._stepped_back:
            return None
        fair = float(starts - TRUSTED) if others or self._stepped_back else 0.0
        pause = max(fair, QUIET.get(starts - 1, 0.0) - (self._now() - self._born))
        if pause <= 0:
            return None
        self._stepped_back.add(turn)
        return pause

    @asynccontextmanager
    async def among(self, suspect: bool) -> AsyncGenerator[None]:
        """Inside it the turn may run."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._alone)
            self._alone = suspect
        try:
            if suspect:
                await self._others_end()
            self._running += 1
            try:
                yield
            finally:
                self._running -= 1
        finally:
            if suspect:
                self._alone = False  # before anything that can be cancelled
            async with self._changed:
                self._changed.notify_all()

    async def _others_end(self) -> None:
        try:
            async with asyncio.timeout(self._patience), self._changed:
                await self._changed.wait_for(lambda: self._running == 0)
        except TimeoutError:
            return
