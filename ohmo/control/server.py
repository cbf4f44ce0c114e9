"""Control: one HTTP application behind two doors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

from channels.contract import Clock
from channels.record import record
from ohmo.control.acting import Acting
from ohmo.control.chat import Chat
from ohmo.control.cron import CronRoutes
from ohmo.control.guard import Guard
from ohmo.control.health import Health
from ohmo.control.hooks import HookRoutes
from ohmo.control.keys import Keys, load_token
from ohmo.control.live import Live
from ohmo.control.logs import Logs
from ohmo.control.metrics import Metrics
from ohmo.control.page import Page
from ohmo.control.ports import Ports
from ohmo.control.reading import Reading
from ohmo.control.sockets import Listen, bind_tcp, unix_socket
from ohmo.control.stream import Streams
from ohmo.control.titles import Titles
from ohmo.ids import IdSource, NewId

_BODY = 8 * 1024 * 1024  # bytes of a JSON body; files have their own limit
_GRACE = 2.0  # seconds an open request may take to end


@record
class Doors:
    """Where control can be reached. ``url`` None: no TCP."""

    socket: Path
    url: str | None
    _page: Page

    def login_link(self) -> str | None:
        """A new link that logs one browser in, once, within ten minutes."""
        return None if self.url is None else self._page.new_link()


@record
class Place:
    """``run``: the folder (0700) for socket and token. ``listen`` None: unix socket only. ``names``: host names of a reverse proxy.
    ``fallback``: $XDG_RUNTIME_DIR, for a socket whose path would be too long."""

    run: Path
    listen: Listen | None
    names: frozenset[str] = field(default=frozenset())
    fallback: Path | None = None


def _now() -> datetime:
    return datetime.now(UTC)


class Control:
    """``metrics`` None: /metrics is switched off. Assembly may share it with whoever measures."""

    def __init__(self, ports: Ports, place: Place, metrics: Metrics | None, *, new_id: NewId | None = None, clock: Clock = _now) -> None:
        self._ports = ports
        self._place = place
        self._metrics = metrics
        self._new_id = new_id or IdSource()
        self._clock = clock

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[Doors]:
        """Answers inside. Raises ConfigError: an address is taken or the token file is not ours."""
        self._place.run.mkdir(mode=0o700, parents=True, exist_ok=True)
        keys = Keys(load_token(self._place.run / "token"), now=lambda: self._clock().timestamp())
        ignored = Metrics() if self._metrics is None else self._metrics
        live = Live(self._ports.watch, ignored.event, self._new_id())
        async with AsyncExitStack() as stack:
            unix = stack.enter_context(unix_socket(self._place.run, self._place.fallback))
            tcp = None if self._place.listen is None else stack.enter_context(bind_tcp(self._place.listen))
            port = None if tcp is None else tcp.getsockname()[1]
            url = self._url(port)
            cookie = f"ohmo-{port or 0}"
            page = Page(keys, cookie, url)
            runner = web.AppRunner(
                self._application(live, page, Guard(keys, cookie, self._place.names)),
                handle_signals=False,
                shutdown_timeout=_GRACE,
                access_log=None,
            )
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            for door in (unix, tcp):
                if door is not None:
                    await web.SockSite(runner, door).start()
            ear = await stack.enter_async_context(asyncio.TaskGroup())
            listening = ear.create_task(live.run(), name="control.live")
            stack.callback(listening.cancel)
            yield Doors(Path(unix.getsockname()), url, page)

    def _application(self, live: Live, page: Page, guard: Guard) -> web.Application:
        ports = self._ports
        application = web.Application(middlewares=[guard.middleware()], client_max_size=_BODY)
        application.add_routes(Health(ports, self._metrics).routes())
        application.add_routes([web.get("/api/v1/events", Streams(ports.reports, live, ports.browser).handle)])
        titles = Titles(ports.reports)
        application.add_routes(Reading(ports, titles).routes())
        application.add_routes(Logs(ports.log, lambda: live.closing).routes())
        application.add_routes(Acting(ports, self._new_id, self._clock).routes())
        application.add_routes(HookRoutes(ports.hooks).routes() if ports.hooks is not None else [])
        application.add_routes(CronRoutes(ports.cron).routes() if ports.cron is not None else [])
        application.add_routes(Chat(ports.reports, ports.browser, titles).routes())
        application.add_routes(page.routes())

        async def close(_: web.Application) -> None:
            live.close()

        application.on_shutdown.append(close)
        return application

    def _url(self, port: int | None) -> str | None:
        if self._place.listen is None or port is None:
            return None
        host = self._place.listen.host
        if host in ("0.0.0.0", "::", "*"):  # noqa: S104 # compared, not bound
            host = "127.0.0.1"
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
