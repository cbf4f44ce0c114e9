"""Control's HTTP application, behind its doors; imported late, with its web server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from socket import socket

from aiohttp import web

from ohmo.control.authentication import Peers
from ohmo.control.event_stream import Streams
from ohmo.control.guard import IDLE, Callers, Guard, is_worth_a_line
from ohmo.control.logs import Logs
from ohmo.control.metrics import Health
from ohmo.control.page import Page, SetupRoutes
from ohmo.control.read_api import Reading
from ohmo.control.responses import Misses
from ohmo.control.server import AppDeps
from ohmo.control.web_chats import Chat, Chats
from ohmo.control.webhooks import WebhookRoutes
from ohmo.control.write_api import Acting, CronRoutes, GrantRoutes

_BODY = 8 * 1024 * 1024  # bytes of a JSON body; files have their own limit
_GRACE = 2.0  # seconds an open request may take to end


@asynccontextmanager
async def answering(behind: AppDeps, doors: tuple[socket, socket | None]) -> AsyncGenerator[None]:
    """Answers at ``doors`` (the unix socket; TCP) inside. Both are bound and listen already."""
    callers, logger = Callers(), logging.getLogger("aiohttp.server")
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
    ports, live = behind.ports, behind.live
    misses = Misses()
    page = Page(behind.keys, behind.cookie, behind.url, misses)
    peers = Peers(behind.ancestry)
    guard = Guard(behind.keys, callers, peers, behind.cookie, behind.names, misses)
    application = web.Application(middlewares=[guard.middleware()], client_max_size=_BODY)
    application.add_routes(Health(ports, behind.metrics).routes())
    application.add_routes(
        [
            web.get(
                "/api/v1/events",
                Streams(ports.reports, live, ports.browser, guard.lets_stay).handle,
            )
        ]
    )
    application.add_routes(Reading(ports).routes())
    application.add_routes(Logs(ports.log, lambda: live.closing, guard.lets_stay).routes())
    application.add_routes(Acting(ports, behind.new_id, behind.clock).routes())
    application.add_routes(GrantRoutes(ports.approvals).routes())
    application.add_routes(SetupRoutes(ports.setup).routes() if ports.setup is not None else [])
    application.add_routes(WebhookRoutes(ports.hooks).routes() if ports.hooks is not None else [])
    application.add_routes(CronRoutes(ports.cron).routes() if ports.cron is not None else [])
    application.add_routes(Chat(ports.reports, ports.browser, ports.keeping).routes())
    application.add_routes(Chats(ports, behind.clock).routes())
    application.add_routes(page.routes())

    async def close(_: web.Application) -> None:
        live.close()

    application.on_shutdown.append(close)
    return application
