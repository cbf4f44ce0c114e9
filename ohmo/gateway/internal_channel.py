"""The channel of threads without a platform: prompts from the API and jobs without a place. What is
said there is read in the history."""

from __future__ import annotations

import asyncio
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
    ChatId,
    MessageId,
    Outbound,
    Part,
    Receipt,
    Repeat,
)
from channels.errors import Rejected

NAME = "house"
ACCOUNT = "local"


class InternalChannel:
    """Every send succeeds: the row itself is what is seen."""

    capabilities = Capabilities(
        repeat=Repeat.SAFE,
        repeat_window=timedelta(days=3650),
        max_text=1 << 20,
        revise=None,
        choices=True,
    )
    account = ACCOUNT

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[None]:
        yield

    async def receive(self, context: ChannelContext) -> None:
        context.heard()
        await asyncio.Event().wait()

    def render(self, outbound: Outbound) -> tuple[Part, ...]:
        return (
            (Part("post", "{}"),)
            if not outbound.replaces
            else (Part("edit", "{}", outbound.replaces[0].message),)
        )

    async def upload(self, part: Part) -> str:
        del part
        raise Rejected("nobody is there to be shown a file")

    async def send(self, part: Part, key: str, handle: str | None = None) -> Receipt:
        del handle
        return Receipt(part.target or MessageId(key))

    def mark(self, part: Part) -> Part:
        return part

    async def find(
        self, address: Address, part: Part, key: str, handle: str | None, since: datetime
    ) -> Receipt | None:
        del address, part, key, handle, since
        return None

    async def revise(self, address: Address, receipt: Receipt | None, text: str) -> None:
        del address, receipt, text

    async def fetch(self, attachment: Attachment, into: Path, limit: int) -> Path:
        del into, limit
        raise Rejected(f"{attachment.name}: there are no files here")

    async def typing(self, address: Address, on: bool) -> None:
        del address, on

    async def acknowledge(self, answer: Answer, text: str) -> None:
        del answer, text

    async def menu(self, commands: Sequence[tuple[str, str]]) -> None:
        del commands

    def parse_address(self, text: str) -> Address:
        return Address(NAME, ACCOUNT, ChatId(text))
