"""Pressed buttons and slash commands are answered within Discord's three seconds, but never before
they are stored."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from channels.discord.client import Wire
from channels.errors import AuthFailed, ChannelError
from channels.payloads import Body
from channels.record import Recent

_log = logging.getLogger(__name__)
KEPT = 500
EPHEMERAL = 1 << 6  # Message flags: only the person sees it


class Presses:
    """One bot's interactions; each is answered once, whoever asks first."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._answers = Recent[str, asyncio.Task[None]](KEPT)

    def taken(self, interaction: Body) -> None:
        """Interaction Callback: a button's is deferred without a sign, a command's says that it was
        heard."""
        number, token, kind = (
            str(interaction.get("id")),
            interaction.get("token"),
            interaction.get("type"),
        )
        if not isinstance(token, str) or number in self._answers:
            return
        callback: Body = {"type": 6}
        if kind != 3:
            said: Any = interaction.get("data")
            name = said.get("name") if isinstance(said, dict) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            callback = {
                "type": 4,
                "data": {
                    "content": f"Heard: `/{name}`",
                    "flags": EPHEMERAL,
                    "allowed_mentions": {"parse": []},
                },
            }
        self._answers[number] = asyncio.create_task(
            self._answer(number, token, callback), name="discord interaction"
        )

    async def settled(self, number: str) -> None:
        """When it was answered, or cannot be any more; at once for one of a former life."""
        if (answer := self._answers.get(number)) is not None:
            await asyncio.wait({answer})

    async def close(self) -> None:
        for answer in self._answers.values():
            answer.cancel()
        await asyncio.gather(*self._answers.values(), return_exceptions=True)
        self._answers.clear()

    async def _answer(self, number: str, token: str, callback: Body) -> None:
        try:
            await self._wire.call(
                "POST", "/interactions/{id}/{token}/callback", callback, id=number, token=token
            )
        except AuthFailed as error:
            _log.warning("discord: %s", error)
        except ChannelError as error:  # 10062 after three seconds: it is stored all the same
            _log.info("discord: an interaction could not be answered: %s", error)
