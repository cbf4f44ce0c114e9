"""Control's two doors: open at once, answered as soon as nobody more urgent waits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from socket import socket
from typing import cast

from channels.contract import Clock
from channels.record import record
from ohmo.contracts.events import Event
from ohmo.control.behind import Behind
from ohmo.control.keys import Keys, load_token
from ohmo.control.live import Live
from ohmo.control.metrics import Metrics
from ohmo.control.ports import Ports
from ohmo.control.sockets import Listen, bind_tcp, unix_socket
from ohmo.discovery import load
from ohmo.ids import IdSource, NewId
from ohmo.processes.ancestry import Ancestry

Heard = Callable[[str, Event], None]
_APPLICATION = (
    "ohmo.control.application:answering"  # with its web server, imported after what hears
)


@record
class Doors:
    """Where control can be reached. ``url`` None: no TCP. ``answering`` is set when the first
    request is answered at once, no longer queued."""

    socket: Path
    url: str | None
    answering: asyncio.Event
    _keys: Keys

    def login_link(self) -> str | None:
        """A new link that logs one browser in, once, within ten minutes."""
        return None if self.url is None else self._keys.link(self.url)


@record
class Place:
    """``run``: the folder (0700) for socket and token. ``listen`` None: unix socket only.
    ``names``: host names of a reverse proxy. ``fallback``: $XDG_RUNTIME_DIR, for a socket whose
    path would be too long. ``ancestry``: whose descendants may decide nothing here, see
    ``Peers``."""

    run: Path
    listen: Listen | None
    names: frozenset[str] = field(default=frozenset())
    fallback: Path | None = None
    ancestry: Ancestry | None = field(default_factory=lambda: Ancestry(os.getpid()))


def _now() -> datetime:
    return datetime.now(UTC)


async def _at_once() -> None:
    return


class Control:
    """``metrics`` None: /metrics is switched off. Assembly may share it with whoever measures.
    ``told`` hears every event of every turn, too."""

    def __init__(
        self,
        ports: Ports,
        place: Place,
        metrics: Metrics | None,
        *,
        new_id: NewId | None = None,
        clock: Clock = _now,
        told: Heard | None = None,
    ) -> None:
        self._ports = ports
        self._place = place
        self._metrics = metrics
        self._told = told
        self._new_id = new_id or IdSource()
        self._clock = clock

    @asynccontextmanager
    async def serving(
        self, calm: Callable[[], Awaitable[None]] = _at_once
    ) -> AsyncGenerator[Doors]:
        """Listens inside, and answers once ``calm`` returned: who asks earlier waits in the
        socket's queue. Raises ConfigError: an address is taken or the token file is not ours."""
        self._place.run.mkdir(mode=0o700, parents=True, exist_ok=True)
        run = self._place.run
        keys = Keys(
            load_token(run / "token"),
            now=lambda: self._clock().timestamp(),
            ended=run / "logged-out",
        )
        heard = [self._metrics.event] if self._metrics is not None else []
        heard += [self._told] if self._told is not None else []
        live = Live(self._ports.watch, heard, self._new_id())
        async with AsyncExitStack() as stack:
            unix = stack.enter_context(unix_socket(self._place.run, self._place.fallback))
            tcp = (
                None
                if self._place.listen is None
                else stack.enter_context(bind_tcp(self._place.listen))
            )
            port = None if tcp is None else tcp.getsockname()[1]
            url = self._url(port)
            behind = Behind(
                self._ports,
                self._metrics,
                live,
                keys,
                f"ohmo-{port or 0}",
                url,
                self._place.names,
                self._new_id,
                self._clock,
                self._place.ancestry,
            )
            answering = asyncio.Event()
            work = await stack.enter_async_context(asyncio.TaskGroup())
            for name, task in (
                ("control.live", live.run()),
                ("control.answers", _answer(behind, (unix, tcp), calm, answering)),
            ):
                stack.callback(work.create_task(task, name=name).cancel)
            yield Doors(Path(unix.getsockname()), url, answering, keys)

    def _url(self, port: int | None) -> str | None:
        if self._place.listen is None or port is None:
            return None
        host = self._place.listen.host
        if host in ("0.0.0.0", "::", "*"):  # noqa: S104 # compared, not bound
            host = "127.0.0.1"
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _answer(
    behind: Behind,
    doors: tuple[socket, socket | None],
    calm: Callable[[], Awaitable[None]],
    answers: asyncio.Event,
) -> None:
    await calm()
    found = await asyncio.to_thread(load, _APPLICATION)
    answering = cast(
        "Callable[[Behind, tuple[socket, socket | None]], AbstractAsyncContextManager[None]]", found
    )
    async with answering(behind, doors):
        answers.set()
        await asyncio.Event().wait()
