"""Feishu has no typing state for bots: the reaction "Typing" on the message that is being answered says it, and is taken back."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import cast

from channels.contract import Address
from channels.errors import AuthFailed, ChannelError, Rejected
from channels.feishu.client import Wire
from channels.feishu.fields import word
from channels.feishu.memory import Own

_log = logging.getLogger(__name__)
EMOJI = "Typing"
_URI = "/open-apis/im/v1/messages/:message_id/reactions"


class Typing:
    """One reaction for each place at most. They are written down, so that those of a life that was killed are taken back by the next."""

    def __init__(self, wire: Wire, own: Own) -> None:
        self._wire, self._own = wire, own
        self._shown: dict[tuple[str, str | None], tuple[str, str]] = {}  # place -> message, reaction
        self._file: Path | None = None
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
            self._write()

    async def off(self, address: Address) -> None:
        shown = self._shown.pop((str(address.chat), address.topic), None)
        if shown is not None:
            await self._take_back(*shown)
            self._write()

    async def tidy(self, folder: Path) -> None:
        """Takes back what an earlier life left, and writes into ``folder`` from now on. Raises AuthFailed."""
        self._file = folder / "typing.json"
        try:
            left = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            left = []
        mine = set(self._shown.values())
        for one in cast("list[object]", left) if isinstance(left, list) else []:
            pair = cast("list[object]", one) if isinstance(one, list) else []
            if len(pair) == 2 and all(isinstance(part, str) for part in pair) and (str(pair[0]), str(pair[1])) not in mine:
                await self._take_back(str(pair[0]), str(pair[1]))
        self._write()

    async def _take_back(self, message: str, reaction: str) -> None:
        try:
            await self._wire.call("DELETE", f"{_URI}/:reaction_id", paths={"message_id": message, "reaction_id": reaction})
        except AuthFailed:
            raise
        except ChannelError as error:
            _log.info("feishu: the typing reaction on %s stays: %s", message, error)

    def _write(self) -> None:
        """A full disk costs a reaction that stays, nothing more."""
        if self._file is None:
            return
        try:
            fresh = self._file.with_suffix(".new")
            with fresh.open("w", encoding="utf-8") as out:
                json.dump(list(self._shown.values()), out)
                out.flush()
                os.fsync(out.fileno())
            fresh.replace(self._file)
        except OSError as error:
            _log.warning("feishu: %s cannot be written: %s", self._file, error.strerror)
