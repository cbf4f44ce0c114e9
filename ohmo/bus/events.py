"""What running turns say, fanned out to whoever watches. Ephemeral: a slow watcher loses events,
never delays a turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager

from ohmo.contracts.agent import Event

Heard = tuple[str, Event]


class _Listener:
    """One watcher's bounded queue; when it is full the oldest event goes."""

    def __init__(self, bound: int) -> None:
        self._events: deque[Heard] = deque(maxlen=bound)
        self._ready = asyncio.Event()
        self.dropped = 0

    def hear(self, heard: Heard) -> None:
        if len(self._events) == self._events.maxlen:
            self.dropped += 1
        self._events.append(heard)
        self._ready.set()

    async def __aiter__(self) -> AsyncIterator[Heard]:
        while True:
            while self._events:
                yield self._events.popleft()
            self._ready.clear()
            await self._ready.wait()


class EventStream:
    """``bound``: events a watcher may lag behind. ``dropped`` counts what slow watchers lost."""

    def __init__(self, bound: int = 1024) -> None:
        self._bound = bound
        self._listeners: list[_Listener] = []
        self._gone = 0

    @property
    def dropped(self) -> int:
        return self._gone + sum(listener.dropped for listener in self._listeners)

    def emit(self, thread: str, event: Event) -> None:
        """From a turn; never waits."""
        for listener in self._listeners:
            listener.hear((thread, event))

    @contextmanager
    def listen(self) -> Generator[AsyncIterator[Heard]]:
        """Thread and event of every running turn from now on."""
        listener = _Listener(self._bound)
        self._listeners.append(listener)
        try:
            yield aiter(listener)
        finally:
            self._listeners.remove(listener)
            self._gone += listener.dropped
