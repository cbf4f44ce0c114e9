"""The calls of one step side by side: which waits for which, and their events as one stream in the
order they happen."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from ohmo.contracts.tool import Footprint

Item = TypeVar("Item")
Emit = Callable[[Item], None]
Work = Callable[[Emit[Item]], Awaitable[None]]


def merged(works: Sequence[Work[Item]], *, width: int) -> AsyncGenerator[Item]:
    """Runs ``works`` concurrently, at most ``width`` at a time, and yields what they emit.

    The first failure cancels the others and is raised as it is; cancelling the consumer cancels all
    of them.
    """
    slots = asyncio.Semaphore(width)

    async def everything(emit: Emit[Item]) -> None:
        async def one(work: Work[Item]) -> None:
            async with slots:
                await work(emit)

        try:
            async with asyncio.TaskGroup() as group:
                for work in works:
                    group.create_task(one(work))
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None

    return emitted(everything)


async def emitted(work: Work[Item]) -> AsyncGenerator[Item]:
    """What ``work`` emits, while it runs. Cancelling the consumer cancels it."""
    queue: asyncio.Queue[Item | None] = asyncio.Queue()

    async def whole() -> None:
        try:
            await work(queue.put_nowait)
        finally:
            queue.put_nowait(None)

    running = asyncio.create_task(whole(), name="engine.stream")
    try:
        while True:
            item = await queue.get()
            if item is None:
                break
            yield item
        await running
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait([running])
        if running.done() and not running.cancelled():
            running.exception()  # looked at, also when whoever listened is gone


class Order:
    """The calls of one step, by their places in it. A footprint of None: the call will not
    run."""

    def __init__(self, footprints: Sequence[Footprint | None]) -> None:
        reaches = [_Reach(footprint) if footprint is not None else None for footprint in footprints]
        self._before: list[list[int]] = []  # by call: those that it waits for
        for place, later in enumerate(reaches):
            before: list[int] = []
            for at, earlier in enumerate(reaches[:place]):
                if later is not None and earlier is not None and later.waits_for(earlier):
                    before.append(at)
            self._before.append(before)
        self._over = [asyncio.Event() for _ in footprints]
        self._held: set[int] = set()

    def free(self, place: int) -> bool:
        """All it would have to wait for have their results."""
        before = self._before[place]
        all_over = all(self._over[at].is_set() for at in before)
        return all_over and self._held.isdisjoint(before)

    async def reached(self, place: int) -> bool:
        """Once all it waits for are over. False: one of them waits for a person."""
        for at in self._before[place]:
            await self._over[at].wait()
        return self._held.isdisjoint(self._before[place])

    def left(self, place: int, *, held: bool) -> None:
        """Over for this run of the turn. ``held``: it has no result yet."""
        if held:
            self._held.add(place)
        self._over[place].set()


class _Reach:
    """What a call touches and changes, under true names; None: perhaps everything."""

    __slots__ = ("changes", "touches")

    def __init__(self, footprint: Footprint) -> None:
        more = footprint.touches
        self.touches = _true((*footprint.reads, *footprint.writes), more)
        self.changes = _true(footprint.writes, more)
        if footprint.effect in ("none", "house") and not footprint.writes:
            self.changes = ()

    def waits_for(self, earlier: _Reach) -> bool:
        return _meet(self.touches, earlier.changes) or _meet(self.changes, earlier.touches)


def _true(paths: Sequence[Path], more: Sequence[Path] | None) -> tuple[str, ...] | None:
    if more is None:
        return None
    return tuple({os.path.realpath(path) for path in (*paths, *more)})


def _meet(some: tuple[str, ...] | None, others: tuple[str, ...] | None) -> bool:
    """They share a path, or one lies below the other."""
    if some is None or others is None:
        return some != () and others != ()
    for path in some:
        for other in others:
            if _within(path, other) or _within(other, path):
                return True
    return False


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
