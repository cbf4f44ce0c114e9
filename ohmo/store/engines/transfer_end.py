"""What a side of a move offers, whichever store it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from ohmo.contracts.errors import StoreError

BATCH = 500  # rows that are in memory at once


class MoveError(StoreError):
    """The store could not be moved."""


Row = tuple[Any, ...]


class End(Protocol):
    """One side of a move. ``insert`` is part of one transaction that ``finish`` commits."""

    def columns(self, table: str) -> tuple[str, ...]: ...
    def rows(self, table: str, columns: Sequence[str]) -> Iterator[list[Row]]: ...
    def count(self, table: str) -> int: ...
    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None: ...
    def finish(self) -> None: ...
    def close(self) -> None: ...
