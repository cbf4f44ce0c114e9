"""A dictionary of bounded size: what was set longest ago is forgotten first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(OrderedDict[K, V]):
    """The ``most`` entries that were set last, oldest first. Reading an entry does not make it
    newer; setting it again does."""

    def __init__(self, most: int, entries: Iterable[tuple[K, V]] = ()) -> None:
        super().__init__()
        self.most = most
        self.update(entries)

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > self.most:
            self.popitem(last=False)
