"""The API of the conversations in the browser: their list, their names and places, their words."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal
from urllib.parse import quote

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError
from pydantic import Field

from channels.contract import Attachment, Clock, Inbound
from channels.web.client import Browser, place, plain_name
from ohmo.contracts.outbox import OutRow
from ohmo.contracts.reports import ArrivalInfo, Reports, Spent, ThreadInfo, known_cost
from ohmo.contracts.turns import ThreadSettings
from ohmo.control.ports import NOTICES, Keeping, Ports, title_of
from ohmo.control.read_api import Search, first_day
from ohmo.control.responses import (
    Refusal,
    Wanted,
    answer,
    body_of,
    following,
    one_of,
    wish,
    words_in,
)
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
    def __init__(self, ports: Ports, clock: Clock) -> None:
        self._ports = ports
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
        page = wish(request)
        archived = one_of(request, "shelf", ("open", "archived")) == "archived"
        reports = self._ports.reports
        infos: list[ThreadInfo] = []
        mark = None
        text = words_in(request)
        if text:
            matches = await Search(reports, text).threads(page.limit, "web")
            infos = [info for info in matches if info.settings.shelf != "deleted"]
        else:
            if not archived and page.after is None:
                infos = await reports.threads(limit=_PINNED, channel="web", shelf="pinned")
            newest = await reports.threads(
                limit=page.limit,
                channel="web",
                after=page.after,
                shelf="archived" if archived else "open",
            )
            infos += newest
            mark = following(newest, page)
        chats: list[Mapping[str, object]] = [
            {
                "chat": info.address.chat,
                "thread": info.thread,
                "title": title_of(info),
                "last_at": info.last_at,
                "state": info.state,
                "shelf": info.settings.shelf or "open",
                "notices": info.address.chat == NOTICES,
            }
            for info in infos
        ]
        return answer(
            {
                "chats": chats,
                "next": mark,
                "commands": browser.commands,
                "max_file": browser.max_file,
                "max_text": LONGEST,
            }
        )

    async def terms(self, request: web.Request) -> web.Response:
        """What holds in it: model and mode, chosen or not, what it cost (``micro_usd`` and
        ``unpriced`` calls, ``tokens``), and which messages still ``wait``."""
        reports = self._ports.reports
        status = await self._ports.status()
        thread = await reports.find_thread(place(request.match_info["chat"]))
        info = None if thread is None else await reports.thread(thread)
        settings = ThreadSettings()
        spent: Sequence[Spent] = ()
        waiting: Sequence[ArrivalInfo] = ()
        if info is not None:
            settings = info.settings.at(self._clock())
            first = await reports.history(info.thread, limit=1)
            if first:
                spent = await reports.thread_usage(info.thread, since=first_day(first))
            waiting = await reports.inbox(state="waiting", limit=_WAITING)
        micro_usd, unpriced = known_cost(spent)
        return answer(
            {
                "model": settings.model or status.model,
                "mode": settings.mode or status.mode,
                "models": status.models,
                "micro_usd": micro_usd,
                "unpriced": unpriced,
                "tokens": sum(row.tokens for row in spent),
                "wait": [
                    row.arrival.message
                    for row in waiting
                    if row.thread == thread and isinstance(row.arrival, Inbound)
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
        settings = ThreadSettings(title=title, shelf=wanted.shelf)
        thread = await self._thread(request)
        if not await self._ports.keeping.choose(thread, settings):
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
        return answer({"ok": True})

    async def _thread(self, request: web.Request) -> str:
        thread = await self._ports.reports.find_thread(place(request.match_info["chat"]))
        if thread is None:
            raise Refusal(404, _NOWHERE)
        return thread


_NOWHERE = "there is no such conversation"


_INLINE: Mapping[str, str] = MappingProxyType(
    {
        ".png": "image/png",
        ".jpg": "image/jpeg",
        ".jpeg": "image/jpeg",
        ".gif": "image/gif",
        ".webp": "image/webp",
    }
)
_BLOCK = 64 * 1024


class Attached(Wanted):
    ref: str
    name: str = Field(max_length=300)
    media_type: str = Field(max_length=100, pattern=r"^[\w.+-]+/[\w.+-]+$")
    size: int | None = Field(default=None, ge=0)


class Saying(Wanted):
    """``key`` names the message for ever: sent again, it is the same one."""

    text: str = Field(max_length=1_000_000)
    key: str
    attachments: tuple[Attached, ...] = Field(default=(), max_length=20)


class Pressing(Wanted):
    """``message``: the row's id with ``.0``, which is the message its choices hang on."""

    message: str = Field(max_length=64)
    choice: str = Field(max_length=64)
    key: str


class Chat:
    def __init__(self, reports: Reports, browser: Browser | None, keeping: Keeping) -> None:
        self._reports = reports
        self._browser = browser
        self._keeping = keeping

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/api/v1/web/chats/{chat}/messages", self.say),
            web.post("/api/v1/web/chats/{chat}/answers", self.press),
            web.post("/api/v1/web/files", self.upload),
            web.get(
                "/api/v1/web/files/{thread}/{seq:[0-9]{1,18}}/{index:[0-9]{1,3}}", self.download
            ),
        ]

    async def say(self, request: web.Request) -> web.Response:
        wanted = await body_of(request, Saying)
        attachments = tuple(
            Attachment(a.ref, plain_name(a.name), a.media_type, a.size) for a in wanted.attachments
        )
        if not wanted.text.strip() and not attachments:
            raise Refusal(400, "text: say something, or attach a file")
        if len(wanted.text) > LONGEST:
            raise Refusal(
                400,
                f"text: a message holds {LONGEST} characters, this has {len(wanted.text)}; attach"
                " it as a file",
            )
        chat = request.match_info["chat"]
        # Where somebody speaks nothing is put away.
        thread = await self._reports.find_thread(place(chat))
        info = None if thread is None else await self._reports.thread(thread)
        if info is not None and info.settings.shelf in ("archived", "deleted"):
            await self._keeping.choose(info.thread, ThreadSettings(shelf="open"))
        await self._need().say(chat, wanted.text, wanted.key, attachments=attachments)
        return answer({"key": wanted.key}, status=202)

    async def press(self, request: web.Request) -> web.Response:
        wanted = await body_of(request, Pressing)
        await self._need().answer(
            request.match_info["chat"], wanted.message, wanted.choice, wanted.key
        )
        return answer({"key": wanted.key}, status=202)

    async def upload(self, request: web.Request) -> web.Response:
        """One file as multipart/form-data; its name and type come with the part."""
        if not request.content_type.startswith("multipart/"):
            raise Refusal(415, "send the file as multipart/form-data")
        try:
            part = await (await request.multipart()).next()
        except (ValueError, HttpProcessingError) as error:
            raise Refusal(
                400, f"this is no multipart/form-data: {' '.join(str(error).split())[:200]}"
            ) from error
        if not isinstance(part, BodyPartReader) or not part.filename:
            raise Refusal(400, "the first part must be a file")
        written = part.headers.get("Content-Type", "application/octet-stream")
        media_type = written.partition(";")[0].strip()
        file = await self._need().upload(part.filename, media_type, _blocks(part))
        return answer(file, status=201)

    async def download(self, request: web.Request) -> web.StreamResponse:
        """File ``index`` of the item ``seq`` of a thread: what the person attached, or what the
        agent sent."""
        thread = request.match_info["thread"]
        seq = int(request.match_info["seq"])
        items = await self._reports.history(thread, since=seq - 1, limit=1)
        item = items[0] if items and items[0].seq == seq else None
        name, ref = _file(item, int(request.match_info["index"]))
        path = self._need().file(ref)
        if path is None:
            raise Refusal(404, f"{name} is not here any more")
        # Pictures open in the page; everything else is only ever saved, so that nothing of it runs
        # here.
        media_type = _INLINE.get(Path(name).suffix.lower())
        how = "inline" if media_type else "attachment"
        headers = {
            "Content-Type": media_type or "application/octet-stream",
            "Content-Disposition": f"{how}; filename*=UTF-8''{quote(name, safe='')}",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "Cache-Control": "private, max-age=86400, immutable",
        }
        return web.FileResponse(path, headers=headers)

    def _need(self) -> Browser:
        if self._browser is None:
            raise Refusal(404, "the browser chat is switched off (channels.web.enabled)")
        return self._browser


def _file(item: object, index: int) -> tuple[str, str]:
    """Name and reference. Raises Refusal."""
    match item:
        case ArrivalInfo(arrival=Inbound(attachments=attachments)) if index < len(attachments):
            return attachments[index].name, attachments[index].ref
        case OutRow(row=row, parts=parts) if index < len(row.outbound.files):
            sent = [part.handle for part in parts if part.part.kind == "file"]
            handle = sent[index] if index < len(sent) else None
            if handle is None:
                raise Refusal(425, "this file is on its way; ask again in a moment")
            return row.outbound.files[index].name, handle
        case _:
            raise Refusal(404, "there is no such file in this conversation")


async def _blocks(part: BodyPartReader) -> AsyncIterator[bytes]:
    try:
        while block := await part.read_chunk(_BLOCK):
            yield block
    except (ValueError, HttpProcessingError) as error:
        raise Refusal(
            400, f"the file ends in the middle: {' '.join(str(error).split())[:200]}"
        ) from error
