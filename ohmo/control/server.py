"""The local doors: a unix socket and loopback TCP, open at once, answered as soon as nobody more
urgent waits."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import socket
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from channels.contract import Clock
from channels.record import record
from ohmo.ambient import IdSource, NewId
from ohmo.contracts.agent import Event
from ohmo.contracts.errors import ConfigError
from ohmo.control.authentication import Keys, load_token
from ohmo.control.event_hub import EventHub
from ohmo.control.metrics import Metrics
from ohmo.control.ports import Ports
from ohmo.discovery import load
from ohmo.processes.peer_process import Ancestry

Heard = Callable[[str, Event], None]
Bound = tuple[socket.socket, socket.socket | None]  # the unix socket, and loopback TCP
# with its web server, imported after what hears
_APPLICATION = "ohmo.control.application:answering"


@record
class AppDeps:
    """``metrics`` None: /metrics is switched off. ``cookie``: the name a browser's login has here.
    ``url`` None: no TCP. ``names``: host names of a reverse proxy. ``ancestry``: see ``Peers``."""

    ports: Ports
    metrics: Metrics | None
    live: EventHub
    keys: Keys
    cookie: str
    url: str | None
    names: frozenset[str]
    new_id: NewId
    clock: Clock
    ancestry: Ancestry | None


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
        heard = {"metrics": self._metrics.event} if self._metrics is not None else {}
        heard |= {"log": self._told} if self._told is not None else {}
        live = EventHub(self._ports.watch, heard, self._new_id())
        async with AsyncExitStack() as stack:
            unix = stack.enter_context(unix_socket(self._place.run, self._place.fallback))
            tcp = (
                None
                if self._place.listen is None
                else stack.enter_context(bind_tcp(self._place.listen))
            )
            port = None if tcp is None else tcp.getsockname()[1]
            url = self._url(port)
            behind = AppDeps(
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
        if ":" in host:
            host = f"[{host}]"
        return f"http://{host}:{port}"


async def _answer(
    behind: AppDeps, doors: Bound, calm: Callable[[], Awaitable[None]], answers: asyncio.Event
) -> None:
    await calm()
    found = await asyncio.to_thread(load, _APPLICATION)
    answering = cast("Callable[[AppDeps, Bound], AbstractAsyncContextManager[None]]", found)
    async with answering(behind, doors):
        answers.set()
        await asyncio.Event().wait()


_LONGEST = 107  # bytes of a path in sockaddr_un, unix(7)


@record
class Listen:
    """``host``: an address or name to bind. ``port`` 0: a free one (tests)."""

    host: str
    port: int


def parse_listen(text: str) -> Listen:
    """``127.0.0.1:7717`` or ``[::1]:7717``. Raises ConfigError."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ConfigError(
            f"control.listen: {text!r} is not HOST:PORT, for example 127.0.0.1:7717; null listens"
            " on the unix socket only"
        )
    return Listen(host, int(port))


def bind_tcp(listen: Listen) -> socket.socket:
    """Raises ConfigError when the address is taken or not ours."""
    where = f"control.listen: {listen.host}:{listen.port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(128)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            free = listen.port + 1 if listen.port < 65_535 else 7718
            raise ConfigError(
                f"{where} is taken by another program; stop it, or write another into config.yaml"
                f" or OHMO__CONTROL__LISTEN, such as {listen.host}:{free}"
            ) from error
        raise ConfigError(
            f"{where} cannot be used ({error.strerror or error}); 127.0.0.1:7717 always can"
        ) from error
    bound.setblocking(False)
    return bound


@contextmanager
def unix_socket(run: Path, fallback: Path | None = None) -> Generator[socket.socket]:
    """``run/ohmo.sock``; when that path is too long for a socket, one under ``fallback``
    ($XDG_RUNTIME_DIR) or the folder for temporary files, its path in ``run/ohmo.sock.path``. What
    an earlier life left is removed: the caller holds the lock of the home."""
    note = run / "ohmo.sock.path"
    _forget(note)
    path = run / "ohmo.sock"
    if len(os.fsencode(path)) > _LONGEST:
        path = Path(tempfile.mkdtemp(prefix="ohmo-", dir=fallback)) / "ohmo.sock"
        note.write_text(f"{path}\n", encoding="utf-8")
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # the file is never, not for a moment, open to others
    try:
        bound.bind(str(path))
    except OSError as error:
        bound.close()
        raise ConfigError(f"{path}: cannot listen there ({error.strerror})") from error
    finally:
        os.umask(before)
    bound.listen(128)
    bound.setblocking(False)
    try:
        yield bound
    finally:
        bound.close()
        path.unlink(missing_ok=True)
        _forget(note)


def find_socket(run: Path) -> Path:
    """Where the daemon of this home listens, or would."""
    try:
        return Path((run / "ohmo.sock.path").read_text(encoding="utf-8").strip())
    except FileNotFoundError:
        return run / "ohmo.sock"


def _forget(note: Path) -> None:
    """Removes the folder that a note points to, if it is one of ours."""
    if note.exists():
        folder = find_socket(note.parent).parent
        with suppress(OSError):  # a restart of the machine empties the folder for temporary files
            if folder.name.startswith("ohmo-") and folder.stat().st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)
        note.unlink()
