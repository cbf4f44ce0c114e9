"""The browser chat as a channel: a second send under the same key is the same message, for ever."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

from channels.contract import (
    Address,
    Answer,
    Attachment,
    Capabilities,
    ChannelContext,
    MessageId,
    Options,
    Outbound,
    Part,
    Receipt,
    Repeat,
)
from channels.errors import RateLimited, Rejected, Unavailable
from channels.web import WebSettings, render
from channels.web.client import ACCOUNT, CHAT, Browser, Shelf, place, plain_name

_HEARTBEAT = 10.0  # seconds
_REVISE = timedelta(milliseconds=50)


class Web:
    """``browser`` is what control speaks into; assembly hands ``Web.browser`` to it. Only a test
    brings its own."""

    def __init__(
        self, settings: WebSettings, options: Options, browser: Browser | None = None
    ) -> None:
        self._settings = settings
        self._clock = options.clock
        self._previews = options.streaming in (None, "preview", "native")
        self.browser = browser or Browser(options.clock, max_file=settings.max_file)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            repeat=Repeat.SAFE,
            # A message is named by its key, so there is no window that could close.
            repeat_window=timedelta(days=3650),
            max_text=render.MAX_TEXT,
            revise=_REVISE,
            preview=self._previews,
            choices=True,
            typing=timedelta(seconds=30),
            max_file=self._settings.max_file,
        )

    @property
    def account(self) -> str:
        return ACCOUNT

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[None]:
        yield

    async def receive(self, context: ChannelContext) -> None:
        """There is nothing to catch up with: what was not stored is still in the page's own outbox
        and comes again."""
        with self.browser.receiving(context):
            while True:
                context.heard()
                await asyncio.sleep(_HEARTBEAT)

    def render(self, outbound: Outbound) -> tuple[Part, ...]:
        return render.render(outbound)

    async def upload(self, part: Part) -> str:
        shown = render.read(part)
        if shown.source is None:
            raise Rejected("a file part without a file")
        return await self._shelf().keep(shown.source, self._settings.max_file)

    async def send(self, part: Part, key: str, handle: str | None = None) -> Receipt:
        del handle  # the page finds the file by its row
        message = MessageId(key) if part.target is None else part.target
        self.browser.show(message, render.read(part))
        return Receipt(message, self._clock())

    def mark(self, part: Part) -> Part:
        return render.mark(part)

    async def find(
        self, address: Address, part: Part, key: str, handle: str | None, since: datetime
    ) -> Receipt | None:
        del address, part, key, handle, since
        return None  # never asked: Repeat.SAFE

    async def revise(self, address: Address, receipt: Receipt | None, text: str) -> None:
        if receipt is None:
            self.browser.preview(address.chat, text)
        else:
            self.browser.revise(address.chat, receipt.message, text)

    async def fetch(self, attachment: Attachment, into: Path, limit: int) -> Path:
        target = into / plain_name(attachment.name)
        await self._shelf().copy_out(attachment.ref, target, limit)
        return target

    def _shelf(self) -> Shelf:
        try:
            return self.browser.shelf()
        except Unavailable as error:
            # Connected, but receive() has not begun: the folder comes in a moment.
            raise RateLimited(0.5) from error

    async def typing(self, address: Address, on: bool) -> None:
        if not on:  # a turn that was stopped or parked leaves no half answer on the page
            self.browser.preview(address.chat, "")
        self.browser.typing(address.chat, on)

    async def acknowledge(self, answer: Answer, text: str) -> None:
        self.browser.notice(answer.address.chat, text)

    async def menu(self, commands: Sequence[tuple[str, str]]) -> None:
        self.browser.commands = tuple(commands)

    def parse_address(self, text: str) -> Address:
        """``web:CHAT``. Raises ValueError."""
        if not re.fullmatch(CHAT, text):
            raise ValueError(
                f"web:{text}: a chat of the browser is 1 to 64 characters of A-Z a-z 0-9 : _ -"
            )
        return place(text)
