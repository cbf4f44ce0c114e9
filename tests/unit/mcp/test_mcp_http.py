"""Servers over HTTP that send without end, or more than they said: one line, and no more is held than
one message may have."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from test_mcp_servers import QUICK, call, running, state

from ohmo.mcp.contract import Endpoint
from ohmo.mcp.program import MOST_BYTES

PART = b" " * (1 << 20)
TOOL = {"name": "one", "description": "d", "inputSchema": {"type": "object", "properties": {}}}


class Wire:
    """How many bytes of an answer went out before the other side hung up."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.sent = 0

    async def post(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        number = asked.get("id")
        if number is None:
            return web.Response(status=202)
        if asked["method"] == "initialize":
            version = asked["params"]["protocolVersion"]
            hello: dict[str, Any] = {"protocolVersion": version, "capabilities": {"tools": {}}}
            hello["serverInfo"] = {"name": "rude", "version": "1"}
            return self._plain(number, hello)
        if asked["method"] == "tools/list":
            return self._plain(number, {"tools": [TOOL]})
        if asked["method"] == "tools/call":
            return await self._answer(request, number)
        return self._plain(number, {})

    def _plain(self, number: int, result: dict[str, Any]) -> web.Response:
        return web.json_response({"jsonrpc": "2.0", "id": number, "result": result})

    async def _answer(self, request: web.Request, number: int) -> web.StreamResponse:
        if self.way in ("packed", "said"):
            content = [{"type": "text", "text": "x" * MOST_BYTES}]
            whole = {"jsonrpc": "2.0", "id": number, "result": {"content": content}}
            body = json.dumps(whole).encode()
            headers = {"Content-Type": "application/json"}
            if self.way == "packed":
                body = gzip.compress(body)
                headers["Content-Encoding"] = "gzip"
            return web.Response(body=body, headers=headers)
        kind = "text/event-stream" if self.way == "event" else "application/json"
        response = web.StreamResponse(headers={"Content-Type": kind})
        await response.prepare(request)
        if self.way == "event":
            await response.write(b"event: message\ndata: ")
        while self.sent < 8 * MOST_BYTES:
            await response.write(PART)
            self.sent += len(PART)
        return response


@asynccontextmanager
async def wired(way: str) -> AsyncGenerator[tuple[Wire, str]]:
    wire = Wire(way)
    application = web.Application()
    application.router.add_post("/mcp", wire.post)
    async with TestServer(application) as server:
        yield wire, str(server.make_url("/mcp"))


@pytest.mark.parametrize("way", ["endless", "event", "packed", "said"])
async def test_an_answer_without_end_or_packed_is_one_line(tmp_path: Path, way: str) -> None:
    async with wired(way) as (wire, url):
        endpoint = Endpoint("x", "http", tmp_path, url=url)
        async with running(tmp_path, {"x": lambda: endpoint}, QUICK, "http") as house:
            await state(house, "x", "connected")
            async with asyncio.timeout(30):
                result = await call(house, tmp_path, "mcp__x__one")
            assert result.error
            assert len(result.text) < 400
            assert "\n" not in result.text
            await asyncio.sleep(0.1)
            # what the sockets between hold comes on top
            assert wire.sent < 3 * MOST_BYTES
            await state(house, "x", "connected")
