"""The part of the API that changes nothing."""

from __future__ import annotations

from aiohttp import web

from ohmo.control.answers import Refusal, answer, number
from ohmo.control.ports import Ports

_MOST = 2**62
_LIMIT = 1000


class Reading:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._reports = ports.reports

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/v1/status", self.status),
            web.get("/api/v1/sessions", self.sessions),
            web.get("/api/v1/sessions/{thread}", self.session),
            web.get("/api/v1/inbox", self.inbox),
            web.get("/api/v1/inbox/audit", self.audit),
            web.get("/api/v1/inbox/{thread}/{seq:[0-9]{1,18}}", self.why),
            web.get("/api/v1/outbox", self.outbox),
            web.get("/api/v1/approvals", self.approvals),
            web.get("/api/v1/pairing", self.pairing),
            web.get("/api/v1/usage", self.usage),
        ]

    async def status(self, _: web.Request) -> web.Response:
        return answer(await self._ports.status())

    async def sessions(self, request: web.Request) -> web.Response:
        limit = number(request, "limit", 100, _LIMIT)
        return answer({"sessions": await self._reports.threads(limit=limit, channel=request.query.get("channel"))})

    async def session(self, request: web.Request) -> web.Response:
        """One session with its history after ``since``; ``next`` is the ``since`` of the following page, null at the end."""
        thread = request.match_info["thread"]
        limit = number(request, "limit", 500, _LIMIT)
        info = await self._reports.thread(thread)
        if info is None:
            raise Refusal(404, f"{thread[:60]}: there is no such session; `ohmo sessions list` shows them")
        items = await self._reports.history(thread, since=number(request, "since", 0, _MOST), limit=limit)
        following = items[-1].seq if items and len(items) == limit else None
        return answer({"session": info, "history": items, "next": following})

    async def inbox(self, request: web.Request) -> web.Response:
        limit = number(request, "limit", 100, _LIMIT)
        return answer({"inbox": await self._reports.inbox(state=request.query.get("state"), limit=limit)})

    async def audit(self, _: web.Request) -> web.Response:
        return answer(await self._reports.audit_report())

    async def why(self, request: web.Request) -> web.Response:
        thread, seq = request.match_info["thread"], int(request.match_info["seq"])
        info = await self._reports.arrival(thread, seq)
        if info is None:
            raise Refusal(404, f"{thread[:60]}/{seq}: nothing arrived under this number; `ohmo inbox list` shows what did")
        return answer(info)

    async def outbox(self, request: web.Request) -> web.Response:
        limit = number(request, "limit", 100, _LIMIT)
        return answer({"outbox": await self._reports.outbox(state=request.query.get("state"), limit=limit)})

    async def approvals(self, request: web.Request) -> web.Response:
        return answer({"approvals": await self._ports.approvals.open_questions(request.query.get("thread"))})

    async def pairing(self, _: web.Request) -> web.Response:
        """Everybody who was ever let in or asks to be; a code itself is known to the asking person only."""
        return answer({"people": await self._ports.people.people()})

    async def usage(self, request: web.Request) -> web.Response:
        return answer({"usage": await self._reports.usage(days=number(request, "days", 30, 3660))})
