"""Who lost its parent below this process falls to it (``family.adopt_orphans``), and is buried
here when it has ended."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

from ohmo.processes.ancestry import state_of
from ohmo.processes.family import descendants

_EVERY = 30.0  # seconds; an event loop collects its own within moments: the rest is nobody's


async def bury(sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """A life of the house; it ends at once where nobody is adopted."""
    dead: set[int] = set()
    while sys.platform == "linux":
        await sleep(_EVERY)
        dead = await asyncio.to_thread(_bury, dead)


def _bury(dead: set[int]) -> set[int]:
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
