"""How the C library lays out the memory of this process. Imports nothing of the house, because
``ohmo run`` calls it before anything else."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Awaitable, Callable
from contextlib import suppress

_ARENA_MAX = -8  # M_ARENA_MAX of mallopt(3)
# Seconds; giving back takes some milliseconds, and what is needed again is faulted in within one.
TRIM = 60.0


def share_one_heap() -> None:
    """All threads take memory from one heap: holes that one leaves are filled by another, and a
    daemon of months needs no more than one of an hour.

    To be called before the first thread begins: a heap that one was given stays, and grows.
    ``mallopt(3)`` of glibc; elsewhere nothing happens."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


def trimming() -> Callable[[], None] | None:
    """``malloc_trim(3)`` of glibc over all its arenas; None where the C library has no such thing
    (musl, macOS)."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None
    trim.argtypes = [ctypes.c_size_t]
    trim.restype = ctypes.c_int

    def give_back() -> None:
        trim(0)

    return give_back


async def give_back(
    give: Callable[[], None] | None, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Runs as long as the daemon: ``give`` is called in a thread, once a minute; it ends at once
    where there is nothing to call."""
    while give is not None:
        await sleep(TRIM)
        await asyncio.to_thread(give)
