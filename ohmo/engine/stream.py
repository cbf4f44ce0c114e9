"""Several pieces of work at once, their events as one stream in the order they happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TypeVar, cast

Item = TypeVar("Item")
Emit = Callable[[Item], None]


async def closable(events: AsyncIterator[Item]) -> AsyncGenerator[Item]:
    """The same events; closing it closes ``events`` at once, if they can be closed."""
    if not hasattr(events, "aclose"):
        async for event in events:
            yield event
        return
    async with aclosing(cast("AsyncGenerator[Item]", events)) as open_events:
        async for event in open_events:
            yield event


async def merged(
    works: Sequence[Callable[[Emit[Item]], Awaitable[None]]], *, width: int
) -> AsyncGenerator[Item]:
    """Runs ``works`` concurrently, at most ``width`` at a time, and yields what they emit.

    The first failure cancels the others and is raised as it is; cancelling the consumer cancels all
    of them.
    """
    queue: asyncio.Queue[Item | None] = asyncio.Queue()
    slots = asyncio.Semaphore(width)

    async def one(work: Callable[[Emit[Item]], Awaitable[None]]) -> None:
        async with slots:
            await work(queue.put_nowait)

    async def everything() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for work in works:
                    group.create_task(one(work))
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            queue.put_nowait(None)

    running = asyncio.create_task(everything(), name="engine.stream")
    try:
        while (item := await queue.get()) is not None:
            yield item
        await running
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait([running])
        if running.done() and not running.cancelled():
            running.exception()  # looked at, also when whoever listened is gone
