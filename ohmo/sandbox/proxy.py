"""The only way out of a cage that knows names: an HTTP proxy (CONNECT, RFC 9110 9.3.6, and plain
http by its whole URL, RFC 9112 3.2.2) that listens on the cage's own loopback, looks each name up
once, outside, and connects to the very address that it checked."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import stat
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing, suppress
from dataclasses import replace
from functools import cache, partial
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path

from channels.record import record
from ohmo.contracts.sandbox import Backend, Cage, Launch, Names, Sandbox
from ohmo.shell.hosts import endpoint, is_local, written

Ip = IPv4Address | IPv6Address
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to IP addresses as text. Raises OSError."""

Coming = Callable[[], Awaitable[socket.socket | None]]

#: Where a container finds the socket to which it sends what it listens at.
DOOR = "/run/ohmo/door"
_PYTHON = "/usr/bin/python3"  # of an image: what a PATH names may be the person's and not run there
_HEAD = 8 * 1024  # bytes of a request before its body
_CHUNK = 64 * 1024
_MOST = 64  # connections of one cage at a time
_MOST_TOLD = 64  # refused names of one cage that anybody is told of
_LOOKING = 2  # names at a time: the threads that look are everybody's
_MOST_ADDRESSES = 4  # of one name that are tried
_SECONDS_HEAD, _SECONDS_AWAY = 10.0, 20.0  # to say what is wanted; to be connected
_CONNECT = re.compile(rb"CONNECT ([!-~]{1,300}) HTTP/1\.[01]")
_PLAIN = re.compile(rb"([A-Z]{1,20}) http://([!-.0-~]{1,300})(/[!-~]*)? HTTP/1\.[01]", re.I)
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\0\r\n]*)")
#: Of one connection only, RFC 9110 7.6.1; and the host, which the URL says.
_HOP = frozenset(
    b"host connection keep-alive proxy-connection proxy-authorization proxy-authenticate te upgrade"
    b"".split()
)


_NAMED = tuple(
    map(ip_network, ("127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
)


class _Refused(Exception):
    """``status``: as in RFC 9110 15."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@record
class Way:
    """Where a request leads. ``head``: what the other side is sent first."""

    host: str
    port: int
    head: bytes = b""
    tunnel: bool = False


def permitted(host: str, port: int, names: Names) -> str:
    """Why a host, ``spelled``, is not open to a cage; "" when it is."""
    if any(_within(host, each) for each in names.barred):
        return "a deny rule closes it"
    for name in names.opened:
        if name.startswith(".") and _within(host, name) and not is_local(host):
            return ""
        if name in (written(host, port), host) and (name != host or not is_local(host)):
            return ""
    return "nobody opened it to this command"


def _within(host: str, domain: str) -> bool:
    return domain == "." or host == domain.removeprefix(".") or host.endswith(domain)


class Named:
    """A backend, and where a cage knows names the way to them. ``proxy``: None: there is none."""

    def __init__(self, sandbox: Sandbox, proxy: Proxy | None) -> None:
        self._sandbox = sandbox
        self._proxy = proxy

    @property
    def name(self) -> Backend:
        return self._sandbox.name

    @asynccontextmanager
    async def launch(self, argv: tuple[str, ...], cwd: Path, cage: Cage) -> AsyncGenerator[Launch]:
        """Raises OSError."""
        async with AsyncExitStack() as held:
            proxy = self._proxy if cage.network == "names" else None
            fds: tuple[int, ...] = ()
            if proxy is not None and self.name == "docker":
                argv = (*_entry(DOOR, cage.names), *argv)
            elif proxy is not None:
                fds = (await held.enter_async_context(proxy.door(cage.names)),)
                argv = (*_entry(str(fds[0]), cage.names), *argv)
            launch = await held.enter_async_context(self._sandbox.launch(argv, cwd, cage))
            if proxy is not None and launch.door is not None:
                await held.enter_async_context(proxy.door_in(launch.door, cage.names))
            yield replace(launch, fds=(*launch.fds, *fds))


@cache
def _text() -> str:
    return Path(__file__).with_name("entry.py").read_text(encoding="utf-8")


def _entry(door: str, names: Names) -> tuple[str, ...]:
    """What runs before the command, and becomes it."""
    named = [found[0] for name in names.opened if (found := endpoint(name)) is not None]
    outward = "outside" if any(map(is_local, named)) else "inside"
    python = _PYTHON if door == DOOR else os.path.realpath(sys.executable)
    return (python, "-I", "-S", "-c", _text(), door, outward)


class Proxy:
    """``reachable``: whether an address is public and not this machine's."""

    def __init__(self, resolver: Resolver, reachable: Callable[[Ip], bool]) -> None:
        self._resolver = resolver
        self._reachable = reachable
        self._looking = asyncio.Semaphore(_LOOKING)

    @asynccontextmanager
    async def door(self, names: Names) -> AsyncGenerator[int]:
        """The end of a pair of sockets over which the cage sends what it listens at, before
        anything of the command runs; open until it is left."""
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with here, there:
            here.setblocking(False)
            async with self._serving(partial(_received, here), names):
                yield there.fileno()

    @asynccontextmanager
    async def door_in(self, folder: Path, names: Names) -> AsyncGenerator[None]:
        """The same, where no descriptor gets into the cage: a socket in a folder that nobody else
        sees. Who comes first is whom the cage begins with; nobody comes after. Raises OSError."""
        with ExitStack() as held:
            here, gone = _bound(folder, held)
            async with self._serving(partial(_first, here, gone), names):
                yield

    @asynccontextmanager
    async def _serving(self, coming: Coming, names: Names) -> AsyncGenerator[None]:
        names = replace(names, refused=_told_once(names.refused))
        serving = asyncio.create_task(self._serve(coming, names), name="sandbox-proxy")
        try:
            yield
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    async def _serve(self, coming: Coming, names: Names) -> None:
        listener = await coming()
        if listener is None:
            return
        running: set[asyncio.Task[None]] = set()
        try:
            while True:
                # Who has all its connections waits for one of them to end.
                while len(running) >= _MOST:
                    await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                try:
                    client, _ = await asyncio.get_running_loop().sock_accept(listener)
                except OSError:  # of files there are too many just now
                    await asyncio.sleep(0.1)
                    continue
                task = asyncio.create_task(self._client(client, names))
                running.add(task)
                task.add_done_callback(running.discard)
        finally:
            listener.close()
            for task in (left := list(running)):
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _client(self, client: socket.socket, names: Names) -> None:
        reader, writer = await asyncio.open_connection(sock=client, limit=_HEAD)
        ends = [writer]
        try:
            await self._served(reader, ends, names)
            for each in ends:
                each.close()
            await asyncio.gather(*(each.wait_closed() for each in ends), return_exceptions=True)
        finally:  # what is not sent by the end of the command never is
            for each in ends:
                each.transport.abort()

    async def _served(
        self, reader: asyncio.StreamReader, ends: list[asyncio.StreamWriter], names: Names
    ) -> None:
        """``ends``: the side of the cage; the other is added."""
        writer = ends[0]
        try:
            try:
                async with asyncio.timeout(_SECONDS_HEAD):
                    way = _way(await reader.readuntil(b"\r\n\r\n"))
                async with asyncio.timeout(_SECONDS_AWAY):
                    coming, far = await self._connected(way, names)
                ends.append(far)
            except asyncio.LimitOverrunError:
                raise _Refused(431, f"the head of a request has at most {_HEAD} bytes") from None
            except TimeoutError:
                raise _Refused(504, "it took too long") from None
            if way.tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            far.write(way.head)
            await _both(reader, writer, coming, far)
        except _Refused as error:
            writer.write(_answer(error))
        except (OSError, EOFError):
            pass  # somebody went away

    async def _connected(
        self, way: Way, names: Names
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        name = written(way.host, way.port)
        if why := permitted(way.host, way.port, names):
            names.refused(name)
            raise _Refused(403, f"{name}: {why}")
        try:
            async with self._looking:
                found = await self._resolver(way.host, way.port)
            addresses = [ip_address(each) for each in dict.fromkeys(found)]
        except (OSError, ValueError) as error:
            raise _Refused(502, f"{name} has no address ({error})") from None
        local = is_local(way.host)
        closed = [ip for ip in addresses if not (_may_be_named if local else self._reachable)(ip)]
        if closed:
            where = "this machine or its network" if local else "the public internet"
            raise _Refused(403, f"{name} leads to {closed[0]}, which is not on {where}")
        if local and await asyncio.to_thread(_listens_here, way.port):
            raise _Refused(403, f"{name} is ohmo itself")
        problem: object = "no address"
        for ip in addresses[:_MOST_ADDRESSES]:
            try:
                return await asyncio.open_connection(str(ip), way.port, limit=_CHUNK)
            except OSError as error:
                problem = error.strerror or error
        raise _Refused(502, f"{name}: {problem}")


def _told_once(tell: Callable[[str], None]) -> Callable[[str], None]:
    """A command may ask for the same name, or for ever more of them, as fast as it can."""
    told: set[str] = set()

    def once(name: str) -> None:
        if name not in told and len(told) < _MOST_TOLD:
            told.add(name)
            tell(name)

    return once


def _may_be_named(ip: Ip) -> bool:
    """What is meant by who names it literally: this machine, its network (RFC 1918). Services of
    clouds have other addresses (link-local, IPv6, public ones)."""
    return any(ip in network for network in _NAMED)


def _listens_here(port: int) -> bool:
    """Whether this very process listens at a port: its doors are no service for commands."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with suppress(OSError):
            fd = os.dup(int(name))
            if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.close(fd)
                continue
            with closing(socket.socket(fileno=fd)) as sock:
                inet = sock.family in (socket.AF_INET, socket.AF_INET6)
                if inet and _listens(sock) and sock.getsockname()[1] == port:
                    return True
    return False


def _listens(sock: socket.socket) -> bool:
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1


def _bound(folder: Path, held: ExitStack) -> tuple[socket.socket, Callable[[], None]]:
    """A socket that listens in there, and what takes its name away. Raises OSError."""
    # A path of a socket has at most 107 bytes, unix(7).
    at = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    held.callback(os.close, at)
    here = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    here.setblocking(False)
    path = Path(f"/proc/self/fd/{at}", Path(DOOR).name)
    gone = partial(path.unlink, missing_ok=True)
    here.bind(str(path))
    held.callback(gone)
    path.chmod(0o666)  # whoever a container runs as
    here.listen(1)
    return here, gone


async def _first(here: socket.socket, gone: Callable[[], None]) -> socket.socket | None:
    """What the first who comes sends; then it is there no longer."""
    way, _ = await asyncio.get_running_loop().sock_accept(here)
    here.close()
    gone()
    with way:
        return await _received(way)


async def _received(here: socket.socket) -> socket.socket | None:
    """The listener of the cage; None: it is none, or the cage ended before it had one."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(here, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(here)
    _, fds, _, _ = socket.recv_fds(here, 1, 4)
    for fd in fds:
        try:
            sock = socket.socket(fileno=fd)
        except OSError:  # no socket
            os.close(fd)
            continue
        if len(fds) == 1 and sock.family == socket.AF_INET and _listens(sock):
            sock.setblocking(False)
            return sock
        sock.close()
    return None


def _way(head: bytes) -> Way:
    """Raises _Refused."""
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    fields = [_FIELD.fullmatch(line) for line in lines]
    if (found := _CONNECT.fullmatch(first)) is not None:
        way = endpoint(found[1].decode("ascii"))
        if way is not None and way[1] is not None:
            return Way(way[0], way[1], tunnel=True)
    elif (found := _PLAIN.fullmatch(first)) is not None and None not in fields:
        way = endpoint(found[2].decode("ascii"), 80)
        if way is not None and way[1] is not None:
            kept = [each[0] for each in fields if each and each[1].lower() not in _HOP]
            start = b"%s %s HTTP/1.1" % (found[1], found[3] or b"/")
            more = [start, b"Host: " + found[2], *kept, b"Connection: close", b"", b""]
            return Way(way[0], way[1], b"\r\n".join(more))
    raise _Refused(400, "it is neither CONNECT host:port nor METHOD http://host/path")


def _answer(error: _Refused) -> bytes:
    text = re.sub(r"[^ -~]", "?", str(error))
    return (
        f"HTTP/1.1 {error.status} {text}\r\nContent-Type: text/plain\r\nConnection: close\r\n"
        f"Content-Length: {len(text) + 7}\r\n\r\nohmo: {text}\n"
    ).encode()


async def _both(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    coming: asyncio.StreamReader,
    far: asyncio.StreamWriter,
) -> None:
    """Until both sides have ended, or one broke."""
    ways = (asyncio.create_task(_pour(reader, far)), asyncio.create_task(_pour(coming, writer)))
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for each in ways:
            each.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _pour(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while True:
        data = await source.read(_CHUNK)
        target.write(data)
        await target.drain()
        if not data:
            with suppress(OSError):
                target.write_eof()
            return
