"""Control's HTTP application: every route behind its guard, the page and its set-up. Imported late,
with its web server."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from socket import socket
from typing import Annotated, Literal, TypeVar

from aiohttp import web
from pydantic import Field

from ohmo.contracts.errors import ConfigError
from ohmo.contracts.setup import ModelWish, PeopleSetup, Preset, Role, RulesSetup, SetUp, Stale
from ohmo.control.authentication import COOKIE_LIFE, Keys, Peers
from ohmo.control.event_stream import Streams
from ohmo.control.guard import HEADERS, IDLE, Callers, Guard, is_worth_a_line
from ohmo.control.logs import Logs
from ohmo.control.memory_api import MemoryRoutes
from ohmo.control.metrics import Health
from ohmo.control.read_api import ReadRoutes
from ohmo.control.responses import Misses, Refusal, Wanted, answer, body_of
from ohmo.control.server import AppDeps
from ohmo.control.servers_api import ServerRoutes
from ohmo.control.trust_api import TrustRoutes
from ohmo.control.web_chats import Chat, Chats
from ohmo.control.webhooks import WebhookRoutes
from ohmo.control.write_api import CronRoutes, GrantRoutes, WriteRoutes

_BODY = 8 * 1024 * 1024  # bytes of a JSON body; files have their own limit
_GRACE = 2.0  # seconds an open request may take to end
_FOLDER = Path(__file__).parent / "assets"
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
    ".png": "image/png",
}
_SHEET = re.compile(r'<link rel="stylesheet" href="/static/\w+/([\w.-]+)">')
_FOR_EVER = "public, max-age=31536000, immutable"
T = TypeVar("T")
Line = Annotated[str, Field(max_length=4_000, pattern=r"^[^\r\n\x00]*$")]
Lines = Annotated[tuple[Line, ...], Field(max_length=1_000)]
Version = Annotated[str, Field(max_length=100)]


@asynccontextmanager
async def answering(behind: AppDeps, doors: tuple[socket, socket | None]) -> AsyncGenerator[None]:
    """Answers at ``doors`` (the unix socket; TCP) inside. Both are bound and listen already."""
    callers = Callers()
    logger = logging.getLogger("aiohttp.server")
    logger.addFilter(is_worth_a_line)
    application = _application(behind, callers)
    runner = web.AppRunner(
        application,
        handle_signals=False,
        shutdown_timeout=_GRACE,
        access_log=None,
        keepalive_timeout=IDLE,
        auto_decompress=False,
        logger=logger,
    )
    await runner.setup()
    unix, tcp = doors
    server = runner.server
    assert server is not None  # after setup()
    listening: asyncio.AbstractServer | None = None
    try:
        await web.SockSite(runner, unix).start()
        if tcp is not None:
            listening = await asyncio.get_running_loop().create_server(
                lambda: callers.meet(server), sock=tcp, backlog=128
            )
        yield
    finally:
        if listening is not None:
            listening.close()
        await runner.cleanup()


def _application(behind: AppDeps, callers: Callers) -> web.Application:
    ports = behind.ports
    live = behind.live
    misses = Misses()
    page = Page(behind.keys, behind.cookie, behind.url, misses)
    peers = Peers(behind.ancestry)
    guard = Guard(behind.keys, callers, peers, behind.cookie, behind.names, misses)
    streams = Streams(ports.reports, live, ports.browser, guard.lets_stay)
    routes = [
        *Health(ports, behind.metrics).routes(),
        web.get("/api/v1/events", streams.handle),
        *ReadRoutes(ports).routes(),
        *Logs(ports.log, lambda: live.closing, guard.lets_stay).routes(),
        *WriteRoutes(ports, behind.new_id, behind.clock).routes(),
        *GrantRoutes(ports.approvals, ports.trial).routes(),
        *Chat(ports.reports, ports.browser, ports.keeping).routes(),
        *Chats(ports, behind.clock).routes(),
        *page.routes(),
    ]
    if ports.setup is not None:
        routes += SetupRoutes(ports.setup).routes()
    if ports.hooks is not None:
        routes += WebhookRoutes(ports.hooks).routes()
    if ports.cron is not None:
        routes += CronRoutes(ports.cron).routes()
    routes += ServerRoutes(ports.servers).routes()
    if ports.tidying is not None:
        routes += MemoryRoutes(ports.tidying).routes()
    if ports.trusting is not None:
        routes += TrustRoutes(ports.trusting).routes()
    application = web.Application(middlewares=[guard.middleware()], client_max_size=_BODY)
    application.add_routes(routes)

    async def close(_: web.Application) -> None:
        live.close()

    application.on_shutdown.append(close)
    return application


class Page:
    """Without a cookie the page shows how to log in; it holds nothing private itself."""

    def __init__(self, keys: Keys, cookie: str, origin: str | None, misses: Misses) -> None:
        self._keys = keys
        self._cookie = cookie
        self._origin = origin
        self._misses = misses
        self._files = {
            path.name: path.read_bytes()
            for path in sorted(_FOLDER.iterdir())
            if path.suffix in _TYPES
        }
        digest = hashlib.sha256(
            b"\0".join(name.encode() + b"\0" + body for name, body in self._files.items())
        ).hexdigest()[:16]
        self._version = digest
        index, self._policy = self._whole(
            (_FOLDER / "index.html").read_text(encoding="utf-8").replace("VERSION", digest)
        )
        self._index = index.encode()
        self._tag = f'"{hashlib.sha256(self._index).hexdigest()[:16]}"'

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self.index),
            web.get(
                "/login", self.login, allow_head=False
            ),  # who only looks at a link does not use it up
            web.get("/favicon.svg", self.icon),
            web.get("/static/{version}/{name}", self.static),
            web.get("/api/v1/known", self.known),
            web.post("/api/v1/login", self.link),
            web.post("/api/v1/logout", self.logout),
        ]

    async def index(self, request: web.Request) -> web.Response:
        headers = {
            "Cache-Control": "no-cache",
            "ETag": self._tag,
            "Content-Security-Policy": self._policy,
        }
        if request.headers.get("If-None-Match") == self._tag:
            return web.Response(status=304, headers=headers)
        return web.Response(
            body=self._index, content_type="text/html", charset="utf-8", headers=headers
        )

    def _whole(self, index: str) -> tuple[str, str]:
        """The style sheets, for which the first paint waits, stand in the page itself; the policy
        lets exactly these be (W3C "Content Security Policy Level 3", 6.7.3.3, hashes)."""
        hashes = "'self'"

        def whole(found: re.Match[str]) -> str:
            nonlocal hashes
            text = self._files[found[1]].decode()
            hashes += (
                f" 'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
            )
            return f"<style>{text}</style>"

        page = _SHEET.sub(whole, index)
        return page, HEADERS["Content-Security-Policy"].replace(
            "style-src 'self'", f"style-src {hashes}"
        )

    async def static(self, request: web.Request) -> web.Response:
        return self._file(
            request.match_info["name"],
            _FOR_EVER if request.match_info["version"] == self._version else "no-store",
        )

    async def icon(self, _: web.Request) -> web.Response:
        return self._file("icon.svg", "public, max-age=86400")

    def _file(self, name: str, caching: str) -> web.Response:
        body = self._files.get(name)
        if body is None:
            raise Refusal(404, "there is no such file")
        kind = _TYPES[Path(name).suffix]
        charset = None if kind == "image/png" else "utf-8"
        return web.Response(
            body=body, content_type=kind, charset=charset, headers={"Cache-Control": caching}
        )

    async def login(self, request: web.Request) -> web.Response:
        """Opens once; then the browser carries a cookie that no script can read and no other site
        can make it send."""
        cookie = self._keys.redeem(request.query.get("code", ""))
        if cookie is None and (refusal := await self._misses.count()) is not None:
            raise refusal
        response = web.Response(
            status=303,
            headers={"Location": "/" if cookie else "/#login-failed", "Cache-Control": "no-store"},
        )
        if cookie is not None:
            # A proxy that ends TLS says so; a lie costs only the liar.
            secure = request.headers.get("X-Forwarded-Proto", request.scheme) == "https"
            response.set_cookie(
                self._cookie,
                cookie,
                max_age=COOKIE_LIFE,
                httponly=True,
                samesite="Strict",
                path="/",
                secure=secure,
            )
        return response

    async def known(self, request: web.Request) -> web.Response:
        """Is this browser logged in? Asked by the page before anything that would be refused."""
        return answer({"known": self._keys.is_cookie(request.cookies.get(self._cookie, ""))})

    async def link(self, _: web.Request) -> web.Response:
        if self._origin is None:
            raise Refusal(409, "control.listen is null, so there is no page to log in to")
        return answer({"url": self._keys.link(self._origin)})

    async def logout(self, request: web.Request) -> web.Response:
        """This browser, and every copy of its cookie."""
        try:
            await asyncio.to_thread(self._keys.end, request.cookies.get(self._cookie, ""))
        except OSError as error:
            raise Refusal(
                503,
                f"still logged in: that you log out cannot be written down ({error.strerror}); try"
                " it again",
            ) from error
        response = answer({"ok": True})
        response.del_cookie(self._cookie, path="/")
        return response


class Model(Wanted):
    provider: Literal["auto", "anthropic", "openai", "offline"]
    base_url: Line = ""
    model: Line = ""
    key: Line = ""

    def wish(self) -> ModelWish:
        return ModelWish(self.provider, self.base_url.strip(), self.model.strip(), self.key.strip())


class ChosenModel(Model):
    version: Version


class ChannelKeys(Wanted):
    keys: Mapping[Annotated[str, Field(max_length=100)], Line]


class ChosenChannel(ChannelKeys):
    version: Version
    enabled: bool


class ChosenPeople(Wanted):
    version: Version
    owner: Lines
    admin: Lines
    user: Lines
    guest: Lines
    default_role: Role


class ChosenRules(Wanted):
    version: Version
    preset: Preset
    allow: Lines
    ask: Lines
    deny: Lines


class SetupRoutes:
    """``desk`` makes what answers, when it is first needed."""

    def __init__(self, desk: Callable[[], SetUp]) -> None:
        self._make = desk
        self._made: SetUp | None = None

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/v1/setup", self.state),
            web.post("/api/v1/setup/model/test", self.try_model),
            web.post("/api/v1/setup/model", self.choose_model),
            web.post("/api/v1/setup/channels/{name}/test", self.try_channel),
            web.post("/api/v1/setup/channels/{name}", self.set_channel),
            web.post("/api/v1/setup/people", self.set_people),
            web.post("/api/v1/setup/rules", self.set_rules),
        ]

    @property
    def _desk(self) -> SetUp:
        self._made = self._made or self._make()
        return self._made

    async def state(self, _: web.Request) -> web.Response:
        return answer(await _said(self._desk.state()))

    async def try_model(self, request: web.Request) -> web.Response:
        """Asks the endpoint for its models, and one of them for a word; writes nothing."""
        wanted = await body_of(request, Model)
        return answer(await _said(self._desk.try_model(wanted.wish())))

    async def choose_model(self, request: web.Request) -> web.Response:
        wanted = await body_of(request, ChosenModel)
        return _written(await _said(self._desk.choose_model(wanted.version, wanted.wish())))

    async def try_channel(self, request: web.Request) -> web.Response:
        """Connects once; reads, sends and writes nothing."""
        wanted = await body_of(request, ChannelKeys)
        return answer(await _said(self._desk.try_channel(request.match_info["name"], wanted.keys)))

    async def set_channel(self, request: web.Request) -> web.Response:
        wanted = await body_of(request, ChosenChannel)
        name = request.match_info["name"]
        return _written(
            await _said(
                self._desk.set_channel(
                    wanted.version, name, enabled=wanted.enabled, keys=wanted.keys
                )
            )
        )

    async def set_people(self, request: web.Request) -> web.Response:
        wanted = await body_of(request, ChosenPeople)
        people = PeopleSetup(
            wanted.owner, wanted.admin, wanted.user, wanted.guest, wanted.default_role
        )
        return _written(await _said(self._desk.set_people(wanted.version, people)))

    async def set_rules(self, request: web.Request) -> web.Response:
        wanted = await body_of(request, ChosenRules)
        rules = RulesSetup(wanted.preset, "", wanted.allow, wanted.ask, wanted.deny)
        return _written(await _said(self._desk.set_rules(wanted.version, rules)))


def _written(version: str) -> web.Response:
    """202: it stands in the file; ``taken`` of the next reading says when the house runs with
    it."""
    return answer({"version": version}, status=202)


async def _said(work: Awaitable[T]) -> T:
    try:
        return await work
    except Stale as error:
        raise Refusal(409, str(error)) from error
    except ConfigError as error:
        raise Refusal(400, str(error)) from error
