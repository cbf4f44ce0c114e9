"""What people allowed for longer than once: the list, and the way to take it back."""

from __future__ import annotations

from aiohttp import web

from ohmo.control.answers import Refusal, answer
from ohmo.control.ports import Approvals


class GrantRoutes:
    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/v1/permissions", self.list),
            web.post("/api/v1/permissions/{id}/revoke", self.revoke),
        ]

    async def list(self, _: web.Request) -> web.Response:
        """Oldest first."""
        return answer({"permissions": await self._approvals.remembered()})

    async def revoke(self, request: web.Request) -> web.Response:
        """The next call that it would have covered asks again."""
        if not await self._approvals.revoke_grant(request.match_info["id"]):
            raise Refusal(404, "there is no such permission; `ohmo permissions list` shows them")
        return answer({"ok": True})
