"""Search services on a loopback port, each in the form and with the rules its documentation states:
"Web search" of Brave's API reference, "Tavily Search" and "Errors Code" of Tavily, "Search API" of
SearXNG."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from aiohttp import web

KEY = "key-1"
# As they were recorded, shortened: what is marked, what has no address, fields nobody asked for.
BRAVE: dict[str, Any] = {
    "type": "search",
    "query": {"original": "saola", "more_results_available": True},
    "web": {
        "type": "search",
        "results": [
            {
                "title": "Saola - Wikipedia",
                "url": "https://en.wikipedia.org/wiki/Saola",
                "description": "The <strong>saola</strong> is a forest-dwelling bovine &amp; rare.",
                "page_age": "2026-01-02T00:00:00",
                "profile": {"name": "Wikipedia"},
            },
            {"title": "No address", "description": "left out"},
        ],
    },
}
TAVILY: dict[str, Any] = {
    "query": "saola",
    "follow_up_questions": None,
    "answer": None,
    "images": [],
    "results": [
        {
            "title": "Saola - Wikipedia",
            "url": "https://en.wikipedia.org/wiki/Saola",
            "content": "The saola is a forest-dwelling bovine & rare.",
            "score": 0.98,
            "raw_content": None,
        }
    ],
    "response_time": 0.9,
}
SEARXNG: dict[str, Any] = {
    "query": "saola",
    "number_of_results": 0,
    "results": [
        {
            "url": "https://en.wikipedia.org/wiki/Saola",
            "title": "Saola - Wikipedia",
            "content": "The saola is a forest-dwelling bovine & rare.",
            "engine": "duckduckgo",
            "score": 4.0,
        }
    ],
    "answers": [],
    "unresponsive_engines": [],
}


@dataclass
class Rules:
    """Which rules are kept; a test that still passes with its rule off proves nothing."""

    brave_token: bool = True  # 422 SUBSCRIPTION_TOKEN_INVALID without a key that is known
    brave_words: bool = True  # 422: a query has 1 to 400 characters and at most 50 words
    brave_count: bool = True  # 422: count is 1 to 20
    tavily_bearer: bool = True  # 401 without "Authorization: Bearer KEY"
    tavily_json: bool = True  # 422: the body is JSON, and says so
    tavily_query: bool = True  # 400 without a query
    tavily_max: bool = True  # 400: max_results is 0 to 20
    searxng_query: bool = True  # 400 without q
    searxng_formats: bool = True  # 403 for a format that settings.yml does not name


RULES = [each.name for each in fields(Rules)]


@dataclass
class SearchServer:
    rules: Rules = field(default_factory=Rules)
    formats: tuple[str, ...] = ("html", "json")
    answer: web.Response | None = None  # instead of the next one
    asked: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/res/v1/web/search", self._brave)
        app.router.add_post("/search", self._tavily)
        app.router.add_get("/search", self._searxng)
        return app

    def _met(self, request: web.Request, **more: Any) -> web.Response | None:
        self.asked.append({"query": dict(request.query), "headers": dict(request.headers), **more})
        answer, self.answer = self.answer, None
        return answer

    async def _brave(self, request: web.Request) -> web.Response:
        if (answer := self._met(request)) is not None:
            return answer
        if self.rules.brave_token and request.headers.get("X-Subscription-Token") != KEY:
            return _brave_error("SUBSCRIPTION_TOKEN_INVALID")
        query, count = request.query.get("q", ""), request.query.get("count", "20")
        if self.rules.brave_words and not (query and len(query) <= 400 and _words(query) <= 50):
            return _brave_error("VALIDATION")
        if self.rules.brave_count and not (count.isdigit() and 1 <= int(count) <= 20):
            return _brave_error("VALIDATION")
        return web.json_response(BRAVE)

    async def _tavily(self, request: web.Request) -> web.Response:
        raw = await request.text()
        if (answer := self._met(request, body=raw)) is not None:
            return answer
        if self.rules.tavily_bearer and request.headers.get("Authorization") != f"Bearer {KEY}":
            return _tavily_error(401, "Unauthorized: missing or invalid API key.")
        if self.rules.tavily_json and request.content_type != "application/json":
            return _tavily_error(422, "the body is not JSON")
        body = await request.json()
        if self.rules.tavily_query and not body.get("query"):
            return _tavily_error(400, "Query is missing.")
        if self.rules.tavily_max and not 0 <= body.get("max_results", 5) <= 20:
            return _tavily_error(400, "max_results must be between 0 and 20.")
        return web.json_response(TAVILY)

    async def _searxng(self, request: web.Request) -> web.Response:
        if (answer := self._met(request)) is not None:
            return answer
        if self.rules.searxng_query and not request.query.get("q"):
            return web.Response(status=400, text="<html>No query</html>")
        wanted = request.query.get("format", "html")
        if self.rules.searxng_formats and wanted not in self.formats:
            return web.Response(status=403, text="<html>Forbidden</html>")
        if wanted != "json":
            return web.Response(text="<html>results</html>", content_type="text/html")
        return web.json_response(SEARXNG)


def _words(query: str) -> int:
    return len(query.split())


def _brave_error(code: str) -> web.Response:
    error = {"id": "x", "status": 422, "code": code, "detail": "…"}
    return web.json_response({"type": "ErrorResponse", "error": error}, status=422)


def _tavily_error(status: int, text: str) -> web.Response:
    return web.json_response({"detail": {"error": text}}, status=status)


@asynccontextmanager
async def searching(server: SearchServer) -> AsyncIterator[SearchServer]:
    runner = web.AppRunner(server.application())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()
