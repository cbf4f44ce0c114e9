"""A second program on the same bot: whoever polls ends the poll of the other one, and Telegram says
so (409).

Source: Telegram Bot API, "Getting updates"; getUpdates, ``offset``: what no later poll confirmed
stays, for whoever asks. After a kill the platform may refuse a poll because it holds our former
life's for a moment; a poll that it took and then ended was ended by somebody who lives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from channels.competing_instance import CONFLICTS, CompetingInstance
from channels.telegram.client import Pace
from channels.telegram.inbound import number

CERTAIN = 2  # conflicts that make whoever came later leave: the other one, which saw as many, stays


class Doubles:
    """Of one connection."""

    def __init__(self, competing: CompetingInstance, pace: Pace) -> None:
        self._competing = competing
        self._pace = pace
        self._heard = False

    def heard(self) -> None:
        """A poll came to its end."""
        self._heard = True
        self._competing.calm()

    async def conflict(self, what: str, lasted: float) -> None:
        """After ``lasted`` seconds of a poll. Waits until it may be asked again. Raises InUse."""
        if self._heard:
            self._competing.conflict(what, again=CONFLICTS)
            await asyncio.sleep(self._pace.conflict)
        else:
            self._competing.conflict(
                what, enough=CERTAIN if lasted >= self._pace.held else CONFLICTS, again=CERTAIN
            )
            await asyncio.sleep(self._pace.former)

    async def alone(self, poll: Callable[[int], Awaitable[list[object]]]) -> None:
        """After a stop, until it is clear whether the other one is gone. ``poll``, for so many
        seconds, takes nothing: what is there stays for the other one, and what it took meanwhile
        shows that it is there. Raises InUse, and what ``poll`` raises."""
        if self._competing.rested is None or not (there := await poll(self._pace.poll)):
            return
        await asyncio.sleep(self._pace.former)
        if number(there[0]) not in {number(one) for one in await poll(0)}:
            self._competing.conflict("Telegram: somebody else takes what is said to this bot")
