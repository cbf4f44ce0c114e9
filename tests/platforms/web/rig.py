"""The browser chat as a platform: pages in memory that say, press and see what real pages would.

What a network can do to a platform cannot happen between two objects of one process, so those
faults raise NotImplementedError; what can happen between a real page and the house is tested in
``tests/browser``."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

from channels.contract import Channel, Options, Person, PersonId
from channels.errors import Unavailable
from channels.web import WebSettings
from channels.web.adapter import Web
from channels.web.client import OWNER, Browser, Feed, Posted, Revised
from tests.conformance.rig import Rig, Visible

CHATS = ("dm:ada", "dm:bob")
_NEVER = "the browser chat lives in this process; no network is between"


class _Page:
    """One open chat: what it shows, folded by message as the page does."""

    def __init__(self, browser: Browser, chat: str) -> None:
        self._browser = browser
        self._chat = chat
        self._line = ExitStack()
        self.feed = self._open()
        self.shown: dict[str, Visible] = {}

    def _open(self) -> Feed:
        return self._line.enter_context(self._browser.watch(self._chat, asyncio.Event()))

    def reopen(self) -> None:
        """The stream broke off and came again; what is durable was replayed."""
        self.look()
        self._line.close()
        self.feed = self._open()

    def close(self) -> None:
        self._line.close()

    def look(self) -> list[Visible]:
        for item in self.feed.take():
            match item:
                case Posted(message, shown) if shown is not None:
                    self._post(
                        message,
                        shown.text,
                        tuple(choice.value for choice in shown.choices),
                        (shown.file,) if shown.file else (),
                    )
                case Revised(message, text) if message in self.shown:
                    self.shown[message] = replace(self.shown[message], text=text)
                case _:
                    pass
        return list(self.shown.values())

    def _post(
        self, message: str, text: str | None, choices: tuple[str, ...], files: tuple[str, ...]
    ) -> None:
        if text is None:
            self.shown.pop(message, None)
            return
        before = self.shown.get(message)
        edits = before.edits + 1 if before is not None and before.text != text else 0
        self.shown[message] = Visible(message, text, True, None, edits, choices, files)


class WebRig:
    """Ada is whoever is logged in; Bob is another person for the sake of the suite."""

    name = "web"

    def __init__(self) -> None:
        self.browser = Browser(Options().clock, max_file=WebSettings().max_file)
        self._pages = {chat: _Page(self.browser, chat) for chat in CHATS}
        self._outbox: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._said: dict[str, Callable[[], Awaitable[None]]] = {}

    def settings(self) -> dict[str, Any]:
        return {}

    def channel(self) -> Channel:
        return Web(WebSettings(), Options(), self.browser)

    async def flush(self) -> None:
        """As a page's outbox: one after the other, again and again until it is stored."""
        while True:
            send = await self._outbox.get()
            stored = False
            while not stored:
                try:
                    await send()
                    stored = True
                except Unavailable:
                    await asyncio.sleep(0.01)

    async def says(
        self,
        text: str,
        *,
        chat: str = "dm:ada",
        person: str = "ada",
        topic: str | None = None,
        mention: bool = True,
    ) -> str:
        if chat not in self._pages or topic is not None:
            raise NotImplementedError("a browser has no groups and no topics")
        message = secrets.token_hex(10)
        self._pages[chat].look()
        self._pages[chat].shown[message] = Visible(message, text, False)
        self._said[message] = lambda: self.browser.say(chat, text, message, person=_person(person))
        self._outbox.put_nowait(self._said[message])
        return message

    async def edits(self, message: str, text: str, *, chat: str = "dm:ada") -> None:
        key = secrets.token_hex(10)
        page = self._pages[chat]
        page.shown[message] = replace(
            page.shown[message], text=text, edits=page.shown[message].edits + 1
        )
        self._outbox.put_nowait(lambda: self.browser.edit(chat, message, text, key))

    async def presses(
        self, message: str, choice: str, *, chat: str = "dm:ada", person: str = "ada"
    ) -> None:
        key = secrets.token_hex(10)
        self._outbox.put_nowait(
            lambda: self.browser.answer(chat, message, choice, key, person=_person(person))
        )

    async def visible(self, chat: str = "dm:ada") -> Sequence[Visible]:
        return self._pages[chat].look() if chat in self._pages else ()

    async def redeliver(self, message: str, *, chat: str = "dm:ada") -> None:
        """The page never heard the answer and sends its message again."""
        self._outbox.put_nowait(self._said[message])

    async def cut(self) -> None:
        for page in self._pages.values():
            page.reopen()

    def close(self) -> None:
        for page in self._pages.values():
            page.close()

    def down(self, away: bool) -> None:
        raise NotImplementedError(_NEVER)

    def lose_next_response(self) -> None:
        raise NotImplementedError(_NEVER)

    def limit_next(self, seconds: float) -> None:
        raise NotImplementedError(_NEVER)

    def reject_next(self) -> None:
        raise NotImplementedError(_NEVER)

    def revoke(self, revoked: bool = True) -> None:
        raise NotImplementedError(
            "the browser chat has no credentials of its own; control asks for them"
        )


def _person(name: str) -> Person:
    return OWNER if name == "ada" else Person(PersonId(name), name.title())


@asynccontextmanager
async def rig() -> AsyncIterator[Rig]:
    made = WebRig()
    flushing = asyncio.create_task(made.flush())
    try:
        yield made
    finally:
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)
        made.close()
