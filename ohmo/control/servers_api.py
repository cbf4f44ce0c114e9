"""MCP servers over the API: for whoever holds the key."""

from __future__ import annotations

from aiohttp import web

from ohmo.contracts.mcp import McpServers
from ohmo.control.responses import Refusal, answer


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
        return answer({"servers": servers.report() if servers is not None else []})

    async def test(self, request: web.Request) -> web.Response:
        servers, name = self._named(request)
        return answer(await servers.test(name))

    async def approve(self, request: web.Request) -> web.Response:
        servers, name = self._named(request)
        try:
            return answer({"approved": await servers.approve(name)})
        except OSError as error:
            raise Refusal(500, f"it could not be kept: {error.strerror or error}") from error

    def _named(self, request: web.Request) -> tuple[McpServers, str]:
        name = request.match_info["name"]
        if self._servers is None or name not in self._servers.servers:
            raise Refusal(404, f"there is no MCP server {name[:80]!r} in the configuration")
        return self._servers, name
