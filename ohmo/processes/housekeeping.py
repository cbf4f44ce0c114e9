"""What the daemon's own process needs from time to time: whoever lost its parent below it falls to
it (``adopt_orphans``), and is reaped when it has ended; memory that was freed goes back to the
system, the C library would keep it for a use that may never come."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

from ohmo.processes.peer_process import state_of
from ohmo.processes.process_tree import descendants

REAP = 30.0  # seconds; an event loop collects its own within moments: the rest is nobody's
# seconds; giving back takes some milliseconds, and what is needed again is faulted in within one
TRIM = 60.0


async def reap(sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Runs as long as the daemon; it ends at once where nobody is adopted."""
    dead: set[int] = set()
    while sys.platform == "linux":
        await sleep(REAP)
        dead = await asyncio.to_thread(_reap, dead)


def _reap(dead: set[int]) -> set[int]:
    """Takes away who was ``dead`` before; the dead of now."""
    found = _dead()
    for pid in found & dead:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return found - dead


def _dead() -> set[int]:
    """Children of ours that have ended and that nobody waited for."""
    ours = os.getpid()
    found: set[int] = set()
    for pid in descendants(ours):
        with suppress(OSError, IndexError):
            if state_of(pid) == ("Z", ours):
                found.add(pid)
    return found


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
