"""Feishu has no typing state for bots: the reaction "Typing" on the message that is being answered says it, and is taken back."""

from __future__ import annotations

import logging

from channels.contract import Address
from channels.errors import AuthFailed, ChannelError, Rejected
from channels.feishu.client import Wire
from channels.feishu.fields import word
from channels.feishu.memory import Own
from channels.lights import Lights

_log = logging.getLogger(__name__)
EMOJI = "Typing"
_URI = "/open-apis/im/v1/messages/:message_id/reactions"


class Typing:
    """One reaction for each place at most; as a light it is called ``MESSAGE REACTION``."""

    def __init__(self, wire: Wire, own: Own, lights: Lights) -> None:
        self._wire, self._own, self._lights = wire, own, lights
        self._shown: dict[tuple[str, str | None], tuple[str, str]] = {}  # place -> message, reaction
        self._allowed = True

    async def on(self, address: Address) -> None:
        place = (str(address.chat), address.topic)
        message = self._own.newest_in(*place)
        if message is None or not self._allowed or self._shown.get(place, ("", ""))[0] == message:
            return
        await self.off(address)
        try:
            body = {"reaction_type": {"emoji_type": EMOJI}}
            made = await self._wire.call("POST", _URI, paths={"message_id": message}, body=body)
        except Rejected as refused:
            self._allowed = False
            _log.info("feishu: no typing reactions: %s", refused)
            return
        if reaction := word(made, "reaction_id"):
            self._shown[place] = (message, reaction)
            await self._lights.on(f"{message} {reaction}")

    async def off(self, address: Address) -> None:
        shown = self._shown.pop((str(address.chat), address.topic), None)
        if shown is not None:
            await self._take_back(*shown)
            await self._lights.off(" ".join(shown))

    async def tidy(self) -> None:
        """Takes back what an earlier life left. Raises AuthFailed."""
        for light in self._lights.left():
            message, _, reaction = light.partition(" ")
            await self._take_back(message, reaction)
        await self._lights.forget()

    async def _take_back(self, message: str, reaction: str) -> None:
        try:
            await self._wire.call("DELETE", f"{_URI}/:reaction_id", paths={"message_id": message, "reaction_id": reaction})
        except AuthFailed:
            raise
        except ChannelError as error:
            _log.info("feishu: the typing reaction on %s stays: %s", message, error)
