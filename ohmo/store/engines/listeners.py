"""Who wants to hear that something was committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ohmo.contracts.store import Hint

Hear = Callable[[Sequence[Hint]], None]


class Listeners:
    """Called on the event loop, once per group of commits."""

    def __init__(self) -> None:
        self._hear: dict[int, Hear] = {}
        self._next = 0

    def listen(self, hear: Hear) -> Callable[[], None]:
        key, self._next = self._next, self._next + 1
        self._hear[key] = hear
        return lambda: self._hear.pop(key, None) and None

    def tell(self, hints: Sequence[Hint]) -> None:
        if hints:
            distinct = list(dict.fromkeys(hints))
            for hear in list(self._hear.values()):
                hear(distinct)
