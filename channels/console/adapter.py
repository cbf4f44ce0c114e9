"""The terminal as a channel: what is typed is heard once, what is said under one key is printed
once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path

from channels.console import Settings, render
from channels.console.client import Terminal
from channels.console.inbound import ACCOUNT, PLACE, heard
from channels.contract import (
    Address,
    Answer,
    Attachment,
    Capabilities,
    ChannelContext,
    Inbound,
    MessageId,
    Options,
    Outbound,
    Part,
    Receipt,
    Repeat,
)
from channels.errors import Rejected
from channels.record import Recent

_REMEMBERED = 10_000  # keys


class Console:
    """One for the life of a process: it remembers what it has printed, and a line that could not be
    stored yet. Only a test brings a terminal and ``names``, which name the lines and sort like
    them."""

    def __init__(
        self,
        settings: Settings,
        options: Options,
        terminal: Terminal | None = None,
        names: Iterator[str] | None = None,
    ) -> None:
        del settings
        self._clock = options.clock
        self._terminal = terminal or Terminal()
        self._born = self._clock()
        self._names = names or _names(self._born)
        self._printed = Recent[str, Receipt](_REMEMBERED)
        self._asked: dict[MessageId, tuple[str, ...]] = {}
        self._unstored: Inbound | Answer | None = None

    @property
    def capabilities(self) -> Capabilities:
        """Equal keys are folded as far back as this process remembers; what an earlier one may have
        printed, nobody can tell."""
        return Capabilities(
            repeat=Repeat.SAFE,
            repeat_window=max(self._clock() - self._born, timedelta(microseconds=1)),
            max_text=render.MAX_TEXT,
            revise=None,
            choices=True,
            max_file=1 << 40,  # only the path is shown
        )

    @property
    def account(self) -> str:
        return ACCOUNT

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[None]:
        yield

    async def receive(self, context: ChannelContext) -> None:
        """The pipe keeps what was not read; a line that was read and not stored is published again
        under the same name."""
        context.heard()
        while True:
            if self._unstored is None:
                self._unstored = await self._next()
            await context.publish([self._unstored])
            self._unstored = None

    async def _next(self) -> Inbound | Answer:
        while (line := await self._terminal.line()) is not None:
            newest = next(reversed(self._asked.items()), None)
            if (arrival := heard(line, self._clock(), next(self._names), newest)) is not None:
                return arrival
        await (
            asyncio.Event().wait()
        )  # nobody will type any more; there may still be something to say
        raise AssertionError

    def render(self, outbound: Outbound) -> tuple[Part, ...]:
        return render.render(outbound)

    async def upload(self, part: Part) -> str:
        if not render.exists(part):
            raise Rejected(f"{render.read(part).file} is not a file")
        return ""

    async def send(self, part: Part, key: str, handle: str | None = None) -> Receipt:
        del handle
        if (known := self._printed.get(key)) is not None:
            return known
        await self._terminal.show(render.lines(part))
        receipt = Receipt(part.target or MessageId(key), self._clock())
        self._printed[key] = receipt
        self._asked.pop(receipt.message, None)
        if choices := render.read(part).choices:
            self._asked[receipt.message] = tuple(choice.value for choice in choices)
        return receipt

    def mark(self, part: Part) -> Part:
        return render.mark(part)

    async def find(
        self, address: Address, part: Part, key: str, handle: str | None, since: datetime
    ) -> Receipt | None:
        del address, part, key, handle, since
        return None  # never asked: Repeat.SAFE

    async def revise(self, address: Address, receipt: Receipt | None, text: str) -> None:
        del address, receipt, text  # what is printed stays

    async def fetch(self, attachment: Attachment, into: Path, limit: int) -> Path:
        del into, limit
        raise Rejected(f"{attachment.name}: a terminal holds no files; name its path in a message")

    async def typing(self, address: Address, on: bool) -> None:
        del address, on

    async def acknowledge(self, answer: Answer, text: str) -> None:
        del answer
        await self._terminal.show(f"({render.printable(text)})\n")

    async def menu(self, commands: Sequence[tuple[str, str]]) -> None:
        del commands  # /help prints them

    def parse_address(self, text: str) -> Address:
        """``console:terminal``. Raises ValueError."""
        if text != PLACE.chat:
            raise ValueError(f"console:{text}: the only place is console:{PLACE.chat}")
        return PLACE


def _names(born: datetime) -> Iterator[str]:
    """A terminal names nothing: a line is the n-th of the process that was born then."""
    return (f"{int(born.timestamp() * 1000):014d}.{number:09d}" for number in count())
