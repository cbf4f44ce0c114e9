"""The process: supervision of tasks, back-off, signals, and what a service manager is told."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Generic, TypeVar

import structlog

log = structlog.get_logger("ohmo.lifecycle")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
Events = TypeVar("Events", bound=AsyncIterator[Any])


def backoff(
    attempt: int,
    *,
    first: float = 1.0,
    most: float = 60.0,
    draw: Callable[[], float] = random.random,
) -> float:
    """Seconds before try ``attempt`` (0, 1, …): doubling from ``first`` to ``most``, full jitter,
    never below a tenth of the step."""
    step = min(most, first * 2.0 ** min(attempt, 30))
    return step * max(0.1, draw())


class closing(Generic[Events]):  # noqa: N801 - named as those of contextlib
    """Like ``contextlib.aclosing``, also of what cannot be closed: an iterator left early is
    closed at once, not when the collector comes by."""

    __slots__ = ("_events",)

    def __init__(self, events: Events) -> None:
        self._events = events

    async def __aenter__(self) -> Events:
        return self._events

    async def __aexit__(self, *_: object) -> None:
        close = getattr(self._events, "aclose", None)
        if close is not None:
            await close()


async def failure_of(work: Awaitable[object]) -> Exception | None:
    """A supervision boundary: what ``work`` failed with, None when it ended. Cancellation passes
    through."""
    try:
        await work
    except Exception as error:  # noqa: BLE001 - boundary of supervision: the caller decides
        return error
    return None


async def outcome_of(work: Awaitable[T]) -> T | Exception:
    """As ``failure_of``, with what ``work`` returned when it ended."""
    try:
        return await work
    except Exception as error:  # noqa: BLE001 - boundary of supervision: the caller decides
        return error


async def unbroken(work: Coroutine[Any, Any, T]) -> T:
    """``work`` to its end, also when whoever waits is cancelled meanwhile: for a commit, whose
    outcome has to be known. The cancellation follows."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # looked at: nobody else will
        raise


async def within(seconds: float, work: Awaitable[T]) -> T:
    """What ``work`` returns. Raises TimeoutError. Unlike ``asyncio.wait_for`` of Python 3.11 it
    never swallows a cancellation that comes while the work ends (gh-86296), so that whoever cancels
    does not wait for ever."""
    async with asyncio.timeout(seconds):
        return await work


async def supervised(
    name: str,
    work: Callable[[], Awaitable[object]],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Runs ``work`` until it ends by itself; a failure is logged and it is started again after a
    back-off that forgets after ten quiet minutes."""
    attempt, loop = 0, asyncio.get_running_loop()
    while True:
        began = loop.time()
        error = await failure_of(work())
        if error is None:
            return
        attempt = 0 if loop.time() - began > 600 else attempt + 1
        pause = backoff(attempt)
        log.error(
            "task_failed",
            task=name,
            error=f"{type(error).__name__}: {error}",
            again_in=round(pause, 1),
            exc_info=error,
        )
        await sleep(pause)


def harmless(who: str, hear: Callable[[A, B], object]) -> Callable[[A, B], None]:
    """``hear`` for whoever must not end of it: what it raises is logged, the first time."""
    failed = False

    def told(one: A, other: B) -> None:
        nonlocal failed
        try:
            hear(one, other)
        except Exception as error:
            if not failed:
                failed = True
                words = f"{type(error).__name__}: {error}"
                log.error("watcher_failed", watcher=who, error=words, exc_info=error)

    return told


async def follow(
    who: str,
    listen: Callable[[], AbstractContextManager[AsyncIterator[tuple[A, B]]]],
    hear: Callable[[A, B], object],
) -> None:
    """Until cancelled: all that is heard to ``hear``, in this task; also what comes after it
    failed."""
    told = harmless(who, hear)
    with listen() as events:
        async for one, other in events:
            told(one, other)


def outcome(work: Callable[[], T]) -> T | Exception:
    """A supervision boundary, of a whole process or of what others wrote: what ``work`` returned,
    or what it failed with."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - boundary of supervision: the caller decides
        return error


@contextmanager
def signals(
    stop: Callable[[], None], *, abort: Callable[[], None], reload: Callable[[], None] | None = None
) -> Generator[None]:
    """SIGTERM and SIGINT: the first calls ``stop``, the second ``abort``; SIGHUP calls
    ``reload``."""
    loop = asyncio.get_running_loop()
    heard = 0

    def hear() -> None:
        nonlocal heard
        heard += 1
        (stop if heard == 1 else abort)()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, hear)
    if reload is not None:
        loop.add_signal_handler(signal.SIGHUP, reload)
    try:
        yield
    finally:
        if reload is not None:
            loop.remove_signal_handler(signal.SIGHUP)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def notify(environ: Mapping[str, str], state: str) -> bool:
    """sd_notify(3): one datagram such as ``READY=1`` to ``$NOTIFY_SOCKET``. False when nobody
    listens."""
    address = environ.get("NOTIFY_SOCKET")
    if not address:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as wire:
        try:
            wire.connect("\0" + address[1:] if address.startswith("@") else os.fspath(address))
            wire.sendall(state.encode())
        except OSError:
            return False
    return True
