"""The list of the browser's conversations: what they are called, and where the owner put them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from aiohttp import web
from pydantic import Field

from channels.contract import Clock, Inbound
from channels.web.client import place
from ohmo.contracts.reports import ThreadInfo, known_cost
from ohmo.contracts.turns import ThreadSettings
from ohmo.control.answers import Refusal, Wanted, answer, body_of, one_of
from ohmo.control.finding import Finding
from ohmo.control.paging import following, wish, words_in
from ohmo.control.ports import Ports
from ohmo.control.reading import first_day
from ohmo.control.titles import NOTICES, Titles
from ohmo.sessions.user_steps import LONGEST

_WAITING = 200  # of the whole house
_PINNED = 200  # conversations that can stand above the others


class Placing(Wanted):
    """What is left out stays as it is. An empty title: called by its first words again."""

    title: str | None = Field(default=None, max_length=200)
    shelf: Literal["open", "pinned", "archived"] | None = None


class Editing(Wanted):
    message: str = Field(max_length=64)
    text: str | None = Field(default=None, max_length=LONGEST)
    key: str


class Chats:
    def __init__(self, ports: Ports, titles: Titles, clock: Clock) -> None:
        self._ports = ports
        self._titles = titles
        self._clock = clock

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/v1/web/chats", self.chats),
            web.get("/api/v1/web/chats/{chat}", self.terms),
            web.post("/api/v1/web/chats/{chat}", self.put),
            web.post("/api/v1/web/chats/{chat}/edits", self.edit),
            web.post("/api/v1/web/chats/{chat}/delete", self.delete),
        ]

    async def chats(self, request: web.Request) -> web.Response:
        """Newest first, the pinned ones above them on the first page, or the archived ones
        (``shelf``); with ``text`` those in which these words were said. ``next`` as everywhere;
        beside them what a page must know to write."""
        browser = self._ports.browser
        if browser is None:
            raise Refusal(404, "the browser chat is switched off (channels.web.enabled)")
        wanted, shelf = wish(request), one_of(request, "shelf", ("open", "archived"))
        reports, above, mark = self._ports.reports, list[ThreadInfo](), None
        if text := words_in(request):
            infos = [
                info
                for info in await Finding(reports, text).threads(wanted.limit, "web")
                if info.settings.shelf != "deleted"
            ]
        elif shelf == "archived":
            infos = await reports.threads(
                limit=wanted.limit, channel="web", after=wanted.after, shelf="archived"
            )
            mark = following(infos, wanted)
        else:
            if wanted.after is None:
                above = await reports.threads(limit=_PINNED, channel="web", shelf="pinned")
            infos = await reports.threads(
                limit=wanted.limit, channel="web", after=wanted.after, shelf="open"
            )
            mark = following(infos, wanted)
        chats = [await self._shown(info) for info in (*above, *infos)]
        return answer(
            {
                "chats": chats,
                "next": mark,
                "commands": browser.commands,
                "max_file": browser.max_file,
                "max_text": LONGEST,
            }
        )

    async def _shown(self, info: ThreadInfo) -> Mapping[str, object]:
        title = await self._titles.of(info)
        shelf = info.settings.shelf or "open"
        return {
            "chat": info.address.chat,
            "thread": info.thread,
            "title": title,
            "last_at": info.last_at,
            "state": info.state,
            "shelf": shelf,
            "notices": info.address.chat == NOTICES,
        }

    async def terms(self, request: web.Request) -> web.Response:
        """What holds in it: model and mode, chosen or not, what it cost (``micro_usd`` and
        ``unpriced`` calls, ``tokens``), and which messages still ``wait``."""
        reports, status = self._ports.reports, await self._ports.status()
        thread = await reports.find_thread(place(request.match_info["chat"]))
        info = None if thread is None else await reports.thread(thread)
        settings = ThreadSettings() if info is None else info.settings.at(self._clock())
        began = [] if info is None else await reports.history(info.thread, limit=1)
        spent = (
            []
            if info is None or not began
            else await reports.thread_usage(info.thread, since=first_day(began))
        )
        micro_usd, unpriced = known_cost(spent)
        waiting = [] if info is None else await reports.inbox(state="waiting", limit=_WAITING)
        return answer(
            {
                "model": settings.model or status.model,
                "mode": settings.mode or status.mode,
                "models": status.models,
                "micro_usd": micro_usd,
                "unpriced": unpriced,
                "tokens": sum(one.tokens for one in spent),
                "wait": [
                    one.arrival.message
                    for one in waiting
                    if one.thread == thread and isinstance(one.arrival, Inbound)
                ],
            }
        )

    async def edit(self, request: web.Request) -> web.Response:
        """What the person said says something else now (null: nothing, it is taken back), as long
        as it waits."""
        wanted, browser = await body_of(request, Editing), self._ports.browser
        if browser is None:
            raise Refusal(404, "the browser chat is switched off (channels.web.enabled)")
        await browser.edit(request.match_info["chat"], wanted.message, wanted.text, wanted.key)
        return answer({"key": wanted.key}, status=202)

    async def put(self, request: web.Request) -> web.Response:
        """Renames it, pins it, archives it, or takes it back among the others."""
        wanted = await body_of(request, Placing)
        title = None if wanted.title is None else " ".join(wanted.title.split())
        if not await self._ports.keeping.choose(
            await self._thread(request), ThreadSettings(title=title, shelf=wanted.shelf)
        ):
            raise Refusal(404, _NOWHERE)
        return answer({"ok": True})

    async def delete(self, request: web.Request) -> web.Response:
        """Everything said in it goes for good; what it cost stays in the books."""
        thread = await self._thread(request)
        if not await self._ports.keeping.forget(thread):
            raise Refusal(
                409,
                "something still runs or waits in this conversation; stop it first, then delete it",
            )
        self._titles.forget(thread)
        return answer({"ok": True})

    async def _thread(self, request: web.Request) -> str:
        thread = await self._ports.reports.find_thread(place(request.match_info["chat"]))
        if thread is None:
            raise Refusal(404, _NOWHERE)
        return thread


_NOWHERE = "there is no such conversation"
