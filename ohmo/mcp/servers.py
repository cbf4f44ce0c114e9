"""All servers, side by side: those of the configuration, and those that the workspace's
``.mcp.json`` and plugins bring while their content is trusted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import structlog

from ohmo.contracts.mcp import Calm, ServerReport
from ohmo.contracts.sandbox import Programs
from ohmo.discovery import load
from ohmo.lifecycle import failure_of
from ohmo.mcp.contract import Connect, Endpoint
from ohmo.mcp.pins import Pins
from ohmo.mcp.server import Server, Times, one_line
from ohmo.mcp.tools import Finish, McpTool
from ohmo.mcp.written import Lender, Look

log = structlog.get_logger("ohmo.mcp")
FOLLOWED = 3.0  # seconds between two looks at what is lent
Endpoints = Mapping[str, tuple[str, Callable[[], Endpoint]]]
"""By name, the kind and what reveals it, which raises ConfigError."""


def load_sdk() -> Connect:
    """Takes half a second: not for the event loop. Raises ConfigError."""
    return cast("Connect", load("ohmo.mcp.connection:connect"))


class Servers:
    """Implements ``ohmo.contracts.mcp.McpServers``. ``state``: folder of what was approved.
    ``lenders``: of two with a server of one name the first counts."""

    def __init__(
        self,
        endpoints: Endpoints,
        state: Path,
        finish: Finish,
        *,
        lenders: Sequence[Lender] = (),
        times: Times | None = None,
        sdk: Callable[[], Connect] = load_sdk,
        programs: Programs | None = None,
    ) -> None:
        self._programs = programs
        self.revision = 0
        self._state = state
        self._finish = finish
        self._times = times or Times()
        self._sdk = sdk
        self._wanted = asyncio.Event()  # they may start
        self._loading = asyncio.Lock()
        self._connect: Connect | None = None
        self._own = {name: self._made(name, each) for name, each in sorted(endpoints.items())}
        self._lenders = tuple(lenders)
        self._looks: tuple[Look, ...] = ()
        self._lent: Mapping[str, Server] = {}
        self._lent_as: Mapping[str, tuple[str, str, Endpoint]] = {}  # by whom, which content, what
        self._tools: Mapping[str, McpTool] = {}

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(sorted((*self._own, *self._lent)))

    def tools(self) -> Mapping[str, McpTool]:
        return self._tools

    async def prepare(self) -> None:
        """Before the first session: what was approved earlier."""
        await self._look_at()
        for server in self._own.values():
            await server.prepare()

    async def run(self, calm: Calm) -> None:
        async def begin() -> None:
            await calm()
            self._wanted.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(begin(), name="mcp.begin")
            await self._wanted.wait()
            for name, server in self._own.items():
                group.create_task(server.run(self._loaded), name=f"mcp.{name}")
            if self._lenders:
                group.create_task(self._follow(group), name="mcp.lent")

    def report(self) -> list[ServerReport]:
        return [server.report() for server in (*self._own.values(), *self._lent.values())]

    def notes(self) -> Sequence[str]:
        return [line for look in self._looks for line in look.notes]

    async def test(self, name: str) -> ServerReport:
        self._wanted.set()
        server = self._named(name)
        await server.test()
        return server.report()

    async def approve(self, name: str) -> int:
        return await self._named(name).approve()

    def _named(self, name: str) -> Server:
        return self._own[name] if name in self._own else self._lent[name]

    def _made(
        self, name: str, endpoint: tuple[str, Callable[[], Endpoint]], of: str = ""
    ) -> Server:
        """``of``: of which lender, whose servers are others of the same name."""
        kind, reveal = endpoint
        pins = Pins(self._state / of / f"{name}.json")
        told = (self._has_changed, self._wanted.set)
        more = (self._times, self._programs)
        return Server(name, kind, reveal, pins, self._finish, *told, *more)

    async def _loaded(self) -> Connect:
        """With the first server that is there. Raises ConfigError."""
        async with self._loading:
            if self._connect is None:
                self._connect = await asyncio.to_thread(self._sdk)
        return self._connect

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        """What is lent counts while its content is trusted, also of what changes."""
        running: dict[Server, asyncio.Task[None]] = {}
        while True:
            wanted = {server: name for name, server in self._lent.items()}
            gone = [running.pop(server) for server in [*running] if server not in wanted]
            for task in gone:
                task.cancel()
            if gone:
                await asyncio.wait(gone)
            for server, name in wanted.items():
                if server not in running:
                    work = server.run(self._loaded)
                    running[server] = group.create_task(work, name=f"mcp.{name}")
            await asyncio.sleep(FOLLOWED)
            await self._look_at()

    async def _look_at(self) -> None:
        looks = list(self._looks) or [Look() for _ in self._lenders]

        async def take(number: int, lender: Lender) -> None:
            looks[number] = await lender.look()

        for number, lender in enumerate(self._lenders):
            # one that cannot say it now stands as it did
            await self._guarded(take(number, lender))
        await self._guarded(self._take(tuple(looks)))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        error = await failure_of(work)
        if error is not None:  # whatever is in those folders stops nobody
            log.warning("mcp_project_failed", error=one_line(error))

    async def _take(self, looks: tuple[Look, ...]) -> None:
        if looks == self._looks:
            return
        lent: dict[str, Server] = {}
        lent_as: dict[str, tuple[str, str, Endpoint]] = {}
        for look in looks:
            for each in look.endpoints:
                if each.name in lent:
                    continue
                lent_as[each.name] = as_now = (look.of, look.digest, each)
                server = self._lent.get(each.name)
                if server is None or self._lent_as[each.name] != as_now:  # else it goes on
                    server = self._made(each.name, (each.kind, lambda each=each: each), look.of)
                    await server.prepare()
                lent[each.name] = server
        self._looks, self._lent, self._lent_as = looks, lent, lent_as
        for look in looks:
            for line in look.notes:
                log.warning("mcp_project", note=line)
        self._has_changed()

    def _has_changed(self) -> None:
        every = (*self._lent.values(), *self._own.values())
        self._tools = {name: tool for server in every for name, tool in server.tools.items()}
        self.revision += 1
