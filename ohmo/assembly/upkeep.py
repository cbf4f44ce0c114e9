"""Ends overdue questions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime

from ohmo.contracts.store import Store
from ohmo.lifecycle import within


async def expiry(
    store: Store, expire: Callable[[], Awaitable[object]], clock: Callable[[], datetime]
) -> None:
    """Sleeps until the next question is overdue; ``expire`` then ends it."""
    changed = asyncio.Event()
    stop_hearing = store.listen(
        lambda hints: (
            changed.set() if any(hint.kind in ("approval", "any") for hint in hints) else None
        )
    )
    try:
        while True:
            changed.clear()
            deadline = await store.next_deadline()
            wait = 3_600.0 if deadline is None else max(0.0, (deadline - clock()).total_seconds())
            if deadline is not None and wait <= 0:
                await expire()
                continue
            with suppress(TimeoutError):
                await within(min(wait + 0.01, 3_600.0), changed.wait())
    finally:
        stop_hearing()
