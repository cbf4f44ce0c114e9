"""The memory over the API: for whoever holds the key, who sees all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from aiohttp import web
from pydantic import Field

from ohmo.contracts.provider import Payer
from ohmo.control.responses import Refusal, Wanted, answer, body_of, number, words_in
from ohmo.memory.desk import Found, Said
from ohmo.memory.notes import NotRemembered
from ohmo.memory.proposals import Proposal
from ohmo.memory.tidying import Tidying

_BY = "owner"
T = TypeVar("T")


class Forgotten(Wanted):
    name: str = Field(min_length=1, max_length=400)


class Tidied(Wanted):
    """``scope``: as names of notes begin."""

    scope: str = Field(default="owner", max_length=200)


class MemoryRoutes:
    def __init__(self, tidying: Tidying) -> None:
        self._memory = tidying.memory
        self._tidying = tidying

    def routes(self) -> list[web.RouteDef]:
        proposal = "/api/v1/memory/proposals/{number:[0-9]{1,9}}"
        return [
            web.get("/api/v1/memory", self.list),
            web.get("/api/v1/memory/note", self.note),
            web.post("/api/v1/memory/forget", self.forget),
            web.get("/api/v1/memory/proposals", self.proposals),
            web.post(f"{proposal}/accept", self.accept),
            web.post(f"{proposal}/reject", self.reject),
            web.post(f"{proposal}/undo", self.undo),
            web.post("/api/v1/memory/tidy", self.tidy),
        ]

    async def list(self, request: web.Request) -> web.Response:
        """The newest first, with ``text`` those that fit best; and what of the files cannot be
        read."""
        words = words_in(request)
        limit = number(request, "limit", 5 if words else 200, 1_000)
        memory = self._memory

        def looked() -> dict[str, object]:
            scopes = memory.everything()
            found = memory.search(scopes, words, limit) if words else memory.newest(scopes, limit)
            notes = [_view(each) for each in found]
            problems = memory.problems(scopes)
            return {"path": memory.root, "notes": notes, "problems": problems}

        return answer(await _done(looked))

    async def note(self, request: web.Request) -> web.Response:
        name = request.query.get("name", "")[:400]
        found = await _done(lambda: self._memory.read(self._memory.everything(), name))
        return answer({**_view(found), "text": found.note.text})

    async def forget(self, request: web.Request) -> web.Response:
        wanted = await body_of(request, Forgotten)
        memory = self._memory
        await _done(lambda: memory.forget(memory.everything(), wanted.name, Said(_BY, "")))
        return answer({"ok": True})

    async def proposals(self, _: web.Request) -> web.Response:
        """Each with what it would change, line by line."""
        memory = self._memory

        def looked() -> list[dict[str, object]]:
            waiting = memory.proposals(memory.everything())
            return [_proposed(one, memory.diff(one)) for one in waiting]

        return answer({"proposals": await _done(looked)})

    async def accept(self, request: web.Request) -> web.Response:
        wanted = int(request.match_info["number"])
        memory = self._memory
        return answer(
            _proposed(await _done(lambda: memory.accept(memory.everything(), wanted, _BY)))
        )

    async def reject(self, request: web.Request) -> web.Response:
        wanted = int(request.match_info["number"])
        memory = self._memory
        return answer(_proposed(await _done(lambda: memory.reject(memory.everything(), wanted))))

    async def undo(self, request: web.Request) -> web.Response:
        wanted = int(request.match_info["number"])
        memory = self._memory
        return answer(_proposed(await _done(lambda: memory.undo(memory.everything(), wanted))))

    async def tidy(self, request: web.Request) -> web.Response:
        """Asks a model; what it proposes, None: nothing."""
        wanted = await body_of(request, Tidied)
        memory = self._memory
        scopes = await _done(memory.everything)
        scope = next((one for one in scopes if one.label == wanted.scope), None)
        if scope is None:
            labels = ", ".join(one.label for one in scopes)
            raise Refusal(404, f"no notes are called {wanted.scope}/...; there are {labels}")
        try:
            proposal = await self._tidying(scope, _BY, Payer(person=f"house:{_BY}"))
        except NotRemembered as error:
            raise Refusal(409, str(error)) from error
        if proposal is None:
            return answer({"proposal": None})
        diff = await _done(lambda: memory.diff(proposal))
        return answer({"proposal": _proposed(proposal, diff)})


async def _done(work: Callable[[], T]) -> T:
    """Beside the event loop. Raises Refusal."""
    doing: Awaitable[T] = asyncio.to_thread(work)
    try:
        return await doing
    except NotRemembered as error:
        raise Refusal(404, str(error)) from error


def _view(found: Found) -> dict[str, object]:
    note = found.note
    return {
        "name": found.called,
        "title": note.title,
        "description": note.description,
        "aliases": note.aliases,
        "said_by": note.said_by,
        "where": note.where,
        "at": note.at,
        "source": note.source,
    }


def _proposed(proposal: Proposal, diff: str | None = None) -> dict[str, object]:
    origin = proposal.origin
    return {
        "number": proposal.number,
        "scope": proposal.scope.label,
        "title": origin.title,
        "by": origin.by,
        "at": origin.at,
        "why": origin.why,
        **({} if diff is None else {"diff": diff}),
    }
