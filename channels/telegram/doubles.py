"""A second program on the same bot: whoever polls ends the poll of the other one, and Telegram says so (409).

Source: Telegram Bot API, "Getting updates"; getUpdates, ``offset``: what no later poll confirmed stays, for whoever asks. After a kill the platform may hold
our former life's poll for a moment, so one 409 is no second ohmo yet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from channels.rivals import CONFLICTS, Rivals
from channels.telegram.client import Pace
from channels.telegram.inbound import number

AGAIN = 2  # conflicts that end a try: the other one, which saw as many, stays


class Doubles:
    """Of one connection."""

    def __init__(self, rivals: Rivals, pace: Pace) -> None:
        self._rivals, self._pace = rivals, pace
        self._heard = False

    def heard(self) -> None:
        """A poll came to its end."""
        self._heard = True
        self._rivals.calm()

    async def conflict(self, what: str) -> None:
        """Waits until it may be asked again. Raises InUse."""
        self._rivals.conflict(what, again=CONFLICTS if self._heard else AGAIN)
        await asyncio.sleep(self._pace.conflict if self._heard else self._pace.former)

    async def alone(self, poll: Callable[[int], Awaitable[list[object]]]) -> None:
        """After a stop, until it is clear whether the other one is gone. ``poll``, for so many seconds, takes nothing: what is there stays for the
        other one, and what it took meanwhile shows that it is there. Raises InUse, and what ``poll`` raises."""
        if self._rivals.rested is None or not (there := await poll(self._pace.poll)):
            return
        await asyncio.sleep(self._pace.former)
        if number(there[0]) not in {number(one) for one in await poll(0)}:
            self._rivals.conflict("Telegram: somebody else takes what is said to this bot")
