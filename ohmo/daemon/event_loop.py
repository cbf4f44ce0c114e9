"""The event loop: which one, what is told when several parts of it fail, and its sign of life for
the watchdog of the service manager: a loop that hangs is restarted, its stack is in the log."""

from __future__ import annotations

import asyncio
import faulthandler
import importlib.util
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import structlog

from channels.errors import main_error
from ohmo.contracts.errors import OhmoError
from ohmo.discovery import load
from ohmo.lifecycle import notify

log = structlog.get_logger("ohmo.heartbeat")
# by number: faulthandler flushes a file object first, and a pipe that nobody reads would stop the
# loop there
STDERR = 2
BEAT = 5.0  # seconds between two signs of life, less when the manager wants it
SILENT = 15.0  # seconds without one after which every thread's stack is written to standard error
# seconds after which a container without a watchdog of its own is ended, so that its engine starts
# it again
DEADLY = 30.0


def run(life: Coroutine[Any, Any, int]) -> int:
    """On uvloop where it imports, on plain asyncio otherwise."""
    if os.environ.get("OHMO_LOOP") == "asyncio" or importlib.util.find_spec("uvloop") is None:
        runner = asyncio.run
    else:
        runner = cast("Callable[[Coroutine[Any, Any, int]], int]", load("uvloop:run"))
    try:
        return runner(life)
    except BaseExceptionGroup as group:
        raise main_error(group, OhmoError) from group  # one of our own says most


def period(environ: Mapping[str, str]) -> float:
    """Seconds between two beats: sd_watchdog_enabled(3) recommends at least two within
    ``$WATCHDOG_USEC``."""
    asked = environ.get("WATCHDOG_USEC", "")
    return min(BEAT, int(asked) / 3_000_000) if asked.isdigit() and int(asked) > 0 else BEAT


def ends_itself(environ: Mapping[str, str]) -> bool:
    """Whether nobody else watches: run by a container engine, which restarts what ends but not what
    hangs."""
    return environ.get("OHMO_SERVICE") == "container" and not environ.get("WATCHDOG_USEC")


@asynccontextmanager
async def heartbeat(
    environ: Mapping[str, str],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    tell: Callable[[Mapping[str, str], str], bool] = notify,
) -> AsyncGenerator[None]:
    """Beats inside. Every beat winds up an alarm that needs neither the loop nor the interpreter's
    lock (faulthandler's own thread)."""
    alive = asyncio.create_task(_beat(environ, sleep, tell), name="heartbeat")
    try:
        yield
    finally:
        alive.cancel()
        await asyncio.wait([alive])
        faulthandler.cancel_dump_traceback_later()


async def _beat(
    environ: Mapping[str, str],
    sleep: Callable[[float], Awaitable[None]],
    tell: Callable[[Mapping[str, str], str], bool],
) -> None:
    every, now = period(environ), asyncio.get_running_loop().time
    deadly = ends_itself(environ)
    while True:
        faulthandler.dump_traceback_later(DEADLY if deadly else SILENT, exit=deadly, file=STDERR)
        tell(environ, "WATCHDOG=1")
        before = now()
        await sleep(every)
        if (late := now() - before - every) > BEAT:
            log.warning("event_loop_blocked", seconds=round(late, 1))
