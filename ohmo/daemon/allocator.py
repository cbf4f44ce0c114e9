"""Memory that was freed goes back to the system; the C library would keep it for a use that may
never come."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Awaitable, Callable

# seconds; giving back takes some milliseconds, and what is needed again is faulted in within one
EVERY = 60.0


def trimming() -> Callable[[], None] | None:
    """``malloc_trim(3)`` of glibc over all its arenas; None where the C library has no such thing
    (musl, macOS)."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int

    def give_back() -> None:
        trim(0)

    return give_back


async def give_back(
    give: Callable[[], None] | None, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """A life of the house: ``give`` is called in a thread, once a minute; it ends at once where
    there is nothing to call."""
    while give is not None:
        await sleep(EVERY)
        await asyncio.to_thread(give)
