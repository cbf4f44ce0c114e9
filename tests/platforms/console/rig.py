"""The terminal for the conformance suite: two pipes, whatever a person would type and see."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from channels.console import Settings, adapter
from channels.console.adapter import Console, Terminal
from channels.contract import Channel, Options, Part, Receipt
from tests.conformance.rig import Visible


class Watched(Console):
    """Tells the rig the names of what it has sent: a terminal shows none."""

    rig: ConsoleRig

    async def send(self, part: Part, key: str, handle: str | None = None) -> Receipt:
        known = self.rig.names.get(key)
        receipt = await super().send(part, key, handle)
        if known is None:
            self.rig.names[key] = receipt
            self.rig.sent.append((receipt, part))
        return receipt


class ConsoleRig:
    """See tests/conformance/rig.py. There is one person and one chat, and nothing on the way that
    could break."""

    name = "console"

    def __init__(self) -> None:
        self.source, self.keyboard = os.pipe()
        self.screen, self.printer = os.pipe()
        self.sent: list[tuple[Receipt, Part]] = []
        self.names: dict[str, Receipt] = {}
        self.seen = bytearray()
        self.typed = 0
        self.lines = (f"{number:06d}" for number in count(1))

    def settings(self) -> dict[str, Any]:
        return {"enabled": True}

    def channel(self, options: Options | None = None) -> Channel:
        made = Watched(
            Settings(), options or Options(), Terminal(self.source, self.printer), self.lines
        )
        made.rig = self
        return made

    async def says(
        self,
        text: str,
        *,
        chat: str = "dm:ada",
        person: str = "ada",
        topic: str | None = None,
        mention: bool = True,
    ) -> str:
        del mention
        if chat != "dm:ada" or person != "ada" or topic is not None:
            raise NotImplementedError("a terminal has one person and one chat")
        os.write(self.keyboard, f"{text}\n".encode())
        self.typed += 1
        return f"{self.typed:06d}"

    async def edits(self, message: str, text: str, *, chat: str = "dm:ada") -> None:
        raise NotImplementedError("what was typed stays typed")

    async def presses(
        self, message: str, choice: str, *, chat: str = "dm:ada", person: str = "ada"
    ) -> None:
        del chat, person
        part = next(part for receipt, part in reversed(self.sent) if receipt.message == message)
        values = [one.value for one in adapter.read(part).choices]
        os.write(self.keyboard, f"{values.index(choice) + 1}\n".encode())
        self.typed += 1

    async def visible(self, chat: str = "dm:ada") -> Sequence[Visible]:
        del chat
        whole = self.seen[: self.seen.rfind(b"\n\n") + 2].decode() if b"\n\n" in self.seen else ""
        texts = [block for block in re.split(r"(?m)^(?=ohmo)", whole) if block]
        found: list[Visible] = []
        for text, (receipt, part) in zip(texts, self.sent, strict=False):
            body, choices = unprinted(text, len(adapter.read(part).choices))
            file = body.removeprefix("[file] ") if body.startswith("[file] ") else None
            values = tuple(one.value for one in adapter.read(part).choices)[:choices]
            names = (Path(file).name,) if file else ()
            found.append(
                Visible(
                    str(receipt.message),
                    "" if file else body,
                    by_bot=True,
                    choices=values,
                    files=names,
                )
            )
        return found

    def redeliver(self, message: str, *, chat: str = "dm:ada") -> Coroutine[Any, Any, None]:
        raise NotImplementedError("a line is read once")

    def cut(self) -> Coroutine[Any, Any, None]:
        raise NotImplementedError("there is no connection")

    def down(self, away: bool) -> None:
        raise NotImplementedError("there is no connection")

    def lose_next_response(self) -> None:
        raise NotImplementedError("there is no connection")

    def limit_next(self, seconds: float) -> None:
        raise NotImplementedError("a terminal takes everything")

    def reject_next(self) -> None:
        raise NotImplementedError("a terminal takes everything")

    def revoke(self, revoked: bool = True) -> None:
        raise NotImplementedError("there are no credentials")


def unprinted(block: str, most: int) -> tuple[str, int]:
    """The text of a printed block, and how many choices stand under it."""
    lines = block.removesuffix("\n").removesuffix("\n").split("\n")
    choices = 0
    while choices < most and lines[-1].startswith("   ") and ")" in lines[-1]:
        lines.pop()
        choices += 1
    lines[0] = lines[0].removeprefix(adapter.CHANGES).removeprefix(adapter.SAYS)
    return "\n".join([lines[0], *(line[len(adapter.SAYS) :] for line in lines[1:])]), choices


@asynccontextmanager
async def rig() -> AsyncGenerator[ConsoleRig]:
    made, loop = ConsoleRig(), asyncio.get_running_loop()
    loop.add_reader(made.screen, lambda: made.seen.extend(os.read(made.screen, 1 << 16)))
    try:
        yield made
    finally:
        loop.remove_reader(made.screen)
        for file in (made.source, made.keyboard, made.screen, made.printer):
            os.close(file)
