"""Feishu has no typing state for bots: the reaction "Typing" on the message that is being answered
says it, and is taken back."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from channels.contract import Address
from channels.errors import AuthFailed, ChannelError, Rejected
from channels.feishu.client import Wire
from channels.feishu.fields import rows_of, word
from channels.feishu.memory import Own
from channels.payloads import soft
from channels.stale_typing import OpenIndicators

_log = logging.getLogger(__name__)
EMOJI = "Typing"
_URI = "/open-apis/im/v1/messages/:message_id/reactions"


@dataclass(slots=True, eq=False)
class _Shown:
    message: str
    reaction: str = ""  # what became of it is not known


class Typing:
    """One reaction for each place at most; as an indicator it is called as its message."""

    def __init__(self, wire: Wire, own: Own, indicators: OpenIndicators) -> None:
        self._wire = wire
        self._own = own
        self._indicators = indicators
        self._shown: dict[tuple[str, str | None], _Shown] = {}  # by place
        self._allowed = True

    async def on(self, address: Address) -> None:
        place = (str(address.chat), address.topic)
        message = self._own.newest_in(*place)
        before = self._shown.get(place)
        if (
            message is None
            or not self._allowed
            or (before is not None and before.message == message and before.reaction)
        ):
            return
        await self.off(address)
        self._shown[place] = shown = _Shown(message)
        await self._indicators.on(message)
        try:
            body = {"reaction_type": {"emoji_type": EMOJI}}
            made = await self._wire.call("POST", _URI, paths={"message_id": message}, body=body)
        except Rejected as refused:
            self._allowed = False
            self._shown.pop(place, None)
            await self._indicators.off(message)
            _log.info("feishu: no typing reactions: %s", refused)
            return
        shown.reaction = word(made, "reaction_id")
        if self._shown.get(place) is not shown:  # taken back before it was there
            await self._take_back(shown)

    async def off(self, address: Address) -> None:
        shown = self._shown.pop((str(address.chat), address.topic), None)
        if shown is not None:
            await self._take_back(shown)
            await self._indicators.off(shown.message)

    async def tidy(self) -> None:
        """Takes back what an earlier life left. Raises AuthFailed."""
        for message in self._indicators.left():
            await self._take_back(_Shown(message))
        await self._indicators.forget()

    async def _take_back(self, shown: _Shown) -> None:
        try:
            for one in [shown.reaction] if shown.reaction else await self._ours(shown.message):
                await self._wire.call(
                    "DELETE",
                    f"{_URI}/:reaction_id",
                    paths={"message_id": shown.message, "reaction_id": one},
                )
        except AuthFailed:
            raise
        except ChannelError as error:
            _log.info("feishu: the typing reaction on %s stays: %s", shown.message, error)

    async def _ours(self, message: str) -> list[str]:
        """Reactions of ours whose making was not heard of, because the line was lost or we died
        (List message reactions)."""
        query = {"reaction_type": EMOJI, "page_size": 50}
        found = rows_of(
            await self._wire.call("GET", _URI, paths={"message_id": message}, query=query), "items"
        )
        return [
            word(row, "reaction_id")
            for row in found
            if word(soft(row, "operator"), "operator_id") == self._wire.app
        ]
