"""What may take part over the API: trust, and the skills and plugins it is about."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

from aiohttp import web
from pydantic import Field

from ohmo.approvals.trusting import NothingToTrust, TrustDesk
from ohmo.contracts.trust import Kind
from ohmo.control.responses import Refusal, Wanted, answer, body_of

_BY = "owner"  # whoever holds the key


class Named(Wanted):
    kind: Kind
    name: str = Field(min_length=1, max_length=4_096)


class Allowed(Named):
    """``digest``: how it begins, as it was shown: nobody allows what they did not see; ``folder``:
    work in which it is there for."""

    digest: str = Field(pattern=r"^[0-9a-f]{8,64}$")
    folder: str | None = Field(default=None, pattern=r"^/", max_length=4_096)


class TrustRoutes:
    def __init__(self, desk: TrustDesk) -> None:
        self._desk = desk

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/v1/trust", self.list),
            web.post("/api/v1/trust/allow", self.allow),
            web.post("/api/v1/trust/revoke", self.revoke),
            web.get("/api/v1/skills", self.skills),
            web.get("/api/v1/plugins", self.plugins),
        ]

    async def list(self, request: web.Request) -> web.Response:
        """What waits, and what was ever allowed, the newest first."""
        waiting = await self._desk.waiting(_folder(request))
        trusts = [asdict(one) for one in await self._desk.trusts()]
        return answer({"waiting": [asdict(one) for one in waiting], "trusts": trusts})

    async def allow(self, request: web.Request) -> web.Response:
        wanted = await body_of(request, Allowed)
        folder = None if wanted.folder is None else Path(wanted.folder)
        try:
            found = await self._desk.allow(
                wanted.kind, wanted.name, _BY, folder=folder, digest=wanted.digest
            )
        except NothingToTrust as error:
            raise Refusal(404, str(error)) from error
        return answer({"allowed": asdict(found)})

    async def revoke(self, request: web.Request) -> web.Response:
        wanted = await body_of(request, Named)
        count = await self._desk.revoke(wanted.kind, wanted.name)
        if not count:
            line = f"{wanted.kind} {wanted.name}: nobody allowed it; ohmo trust list shows what is"
            raise Refusal(404, line)
        return answer({"revoked": count})

    async def skills(self, request: web.Request) -> web.Response:
        """For work in a folder, in the order in which they count."""
        shelf = await self._desk.shelf(_folder(request))
        rows = [
            {
                "name": entry.name,
                "source": entry.source,
                "state": entry.state,
                "why": entry.why,
                "path": entry.path,
                "description": entry.skill.description if entry.skill is not None else "",
                "version": entry.skill.version if entry.skill is not None else "",
                "tools": entry.skill.tools if entry.skill is not None else (),
                "digest": entry.skill.digest if entry.skill is not None else "",
            }
            for entry in shelf.entries
        ]
        return answer({"skills": rows})

    async def plugins(self, _: web.Request) -> web.Response:
        """By name; also what takes no part, with the reason."""
        rows = [
            {
                "name": entry.name,
                "state": entry.state,
                "why": entry.why,
                "path": entry.where,
                "may": entry.may,
                "runs": entry.judged.whole,
                "notes": (*entry.judged.notes, *entry.idle),
                "version": entry.plugin.version if entry.plugin is not None else "",
                "description": entry.plugin.description if entry.plugin is not None else "",
                "commands": entry.said,
                "digest": entry.plugin.digest if entry.plugin is not None else "",
            }
            for entry in await self._desk.plugins()
        ]
        return answer({"plugins": rows})


def _folder(request: web.Request) -> Path | None:
    """Raises Refusal."""
    named = request.query.get("folder", "")
    if named and not named.startswith("/"):
        raise Refusal(400, "folder: expected an absolute path")
    if named and not os.path.isdir(named):  # noqa: PTH112 - raises nothing
        raise Refusal(404, f"folder: there is no folder {named[:200]}")
    return Path(named) if named else None
