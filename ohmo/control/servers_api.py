"""MCP servers over the API: for whoever holds the key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from aiohttp import web
from pydantic import Field

from ohmo.contracts.mcp import McpServers
from ohmo.control.responses import Refusal, Wanted, answer, body_of


def counted(servers: McpServers | None) -> Mapping[str, int]:
    """As the status tells of them."""
    rows = servers.report() if servers is not None else []
    states = Counter(row.state for row in rows)
    return {**states, "off": sum(len(row.waiting) for row in rows)} if rows else {}


class Approved(Wanted):
    digest: str = Field(default="", pattern=r"^[0-9a-f]{0,64}$")


class ServerRoutes:
    """``servers``: None: none is configured."""

    def __init__(self, servers: McpServers | None) -> None:
        self._servers = servers

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/v1/mcp", self.list),
            web.post("/api/v1/mcp/{name}/test", self.test),
            web.post("/api/v1/mcp/{name}/approve", self.approve),
        ]

    async def list(self, _: web.Request) -> web.Response:
        servers = self._servers
        if servers is None:
            return answer({"servers": [], "notes": []})
        return answer({"servers": servers.report(), "notes": servers.notes()})

    async def test(self, request: web.Request) -> web.Response:
        servers, name = self._named(request)
        return answer(await servers.test(name))

    async def approve(self, request: web.Request) -> web.Response:
        """``digest``: how it begins, as it was shown; what changed since is not allowed."""
        servers, name = self._named(request)
        digest = (await body_of(request, Approved)).digest
        (report,) = [one for one in servers.report() if one.name == name]
        if not report.digest.startswith(digest):
            raise Refusal(409, f"{name}: it is not what was shown; ohmo mcp list shows what it is")
        try:
            # nothing else has run since the look: what is approved is what was compared
            return answer({"approved": await servers.approve(name)})
        except OSError as error:
            raise Refusal(500, f"it could not be kept: {error.strerror or error}") from error

    def _named(self, request: web.Request) -> tuple[McpServers, str]:
        name = request.match_info["name"]
        if self._servers is None or name not in self._servers.servers:
            raise Refusal(404, f"there is no MCP server {name[:80]!r} in the configuration")
        return self._servers, name
