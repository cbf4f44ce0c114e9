"""How the C library lays out the memory of this process."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_ARENA_MAX = -8  # M_ARENA_MAX of mallopt(3)


def share_one_heap() -> None:
    """All threads take memory from one heap: holes that one leaves are filled by another, and a
    daemon of months needs no more than one of an hour.

    To be called before the first thread begins: a heap that one was given stays, and grows.
    ``mallopt(3)`` of glibc; elsewhere nothing happens."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
