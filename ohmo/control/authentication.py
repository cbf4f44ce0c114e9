"""Who is calling: over TCP a token for programs, a one-time link and a signed cookie for a browser;
over the unix socket the process at the other end, as the kernel names it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import secrets
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from weakref import WeakKeyDictionary

from aiohttp import web

from channels.durable import write_whole
from ohmo.contracts.errors import ConfigError
from ohmo.control.responses import Refusal
from ohmo.processes.peer_process import Ancestry, Place, place_of

LINK_LIFE = 600.0  # seconds
COOKIE_LIFE = 30 * 86_400  # seconds
_LINKS = 32  # open links at a time; the oldest is forgotten
_TOKEN = re.compile(r"[0-9a-zA-Z_-]{32,128}")
# Routes, as they are added: what says nothing private; what the recipe of the morning brief reads
# with `ohmo … list`; and a webhook, whose signature says whose it is. None changes what one may.
FREE = frozenset(
    {
        "GET /",
        "GET /favicon.svg",
        "GET /static/{version}/{name}",
        "GET /healthz",
        "GET /readyz",
        "GET /api/v1/known",
        "GET /api/v1/status",
        "GET /api/v1/approvals",
        "GET /api/v1/sessions",
        "GET /api/v1/sessions/{thread}",
        "GET /api/v1/inbox",
        "GET /api/v1/cron",
        "GET /api/v1/cron/{name}/history",
        "POST /hooks/{name}",
    }
)
INSIDE = (
    "this was asked by a program that ohmo itself runs, which may look at a few lists and decide "
    "nothing; do it in a terminal of your own, on the page or in a chat"
)
UNCLEAR = (
    "which program asks cannot be told, and one that ohmo itself runs may not do this; "
    "ask again, or use the command ohmo in a terminal of your own"
)
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid; unix(7)
_PEERPIDFD = 77  # SO_PEERPIDFD, Linux 6.5, asm-generic/socket.h
_MAC_LOCAL, _MAC_PEERPID = 0, 2  # SOL_LOCAL, LOCAL_PEERPID: sys/un.h


class Keys:
    """The token lives in one file (0600) and stays over restarts, so that a page that was open
    stays logged in; deleting the file logs everybody out.

    ``now``: wall clock in seconds, ``monotonic``: for the links. ``ended``: the file of cookies
    that were logged out; None: remembered in memory."""

    def __init__(
        self,
        token: str,
        *,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        ended: Path | None = None,
    ) -> None:
        self.token = token
        self._ended_file = ended
        self._ended = _read_ended(ended, now()) if ended is not None else {}
        self._ending = threading.Lock()
        self._now = now
        self._monotonic = monotonic
        self._links: dict[str, float] = {}

    def new_link(self) -> str:
        """A code that opens once, within ten minutes."""
        code = secrets.token_urlsafe(32)
        self._links[_digest(code)] = self._monotonic() + LINK_LIFE
        while len(self._links) > _LINKS:
            del self._links[next(iter(self._links))]
        return code

    def link(self, origin: str) -> str:
        """``http://127.0.0.1:7717/login?code=…``"""
        return f"{origin}/login?code={self.new_link()}"

    def redeem(self, code: str) -> str | None:
        """A cookie for a code that was not used yet; None otherwise."""
        until = self._links.pop(_digest(code), None)
        if until is None or self._monotonic() > until:
            return None
        body = f"{int(self._now()) + COOKIE_LIFE}.{secrets.token_hex(8)}"
        return f"{body}.{self._sign(body)}"

    def is_cookie(self, cookie: str) -> bool:
        body, _, signature = cookie.rpartition(".")
        until = body.partition(".")[0]
        return (
            hmac.compare_digest(_bytes(signature), self._sign(body).encode())
            and until.isascii()
            and until.isdigit()
            and int(until) > self._now()
            and _digest(body) not in self._ended
        )

    def end(self, cookie: str) -> None:
        """Nobody comes in with this cookie any more, also not with a copy of it. From any thread.
        Raises OSError: that could not be written down, so it is still good, and can be ended
        again."""
        body = cookie.rpartition(".")[0]
        with self._ending:
            if not self.is_cookie(cookie):
                return
            ended = {digest: until for digest, until in self._ended.items() if until > self._now()}
            ended[_digest(body)] = int(body.partition(".")[0])
            if self._ended_file is not None:
                write_whole(
                    self._ended_file,
                    "".join(f"{until} {digest}\n" for digest, until in ended.items()),
                )
            self._ended = ended

    def is_token(self, token: str) -> bool:
        return hmac.compare_digest(_bytes(token), self.token.encode())

    def _sign(self, body: str) -> str:
        return hmac.new(self.token.encode(), b"cookie " + _bytes(body), hashlib.sha256).hexdigest()


def load_token(path: Path) -> str:
    """The token in ``path``, made when there is none. Raises ConfigError when the file can be read
    by others and cannot be mended."""
    try:
        path.chmod(0o600)
        token = path.read_text(encoding="ascii", errors="replace").strip()
        if _TOKEN.fullmatch(token):
            return token
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror}; remove the file, the next start makes a new one"
        ) from error
    token = f"ohmo_{secrets.token_urlsafe(32)}"  # a shape by which it is known where it leaks
    write_whole(path, token + "\n")
    return token


def _read_ended(path: Path, now: float) -> dict[str, int]:
    """Digest of each cookie that was logged out, and until when it would have been good. A file
    that cannot be read is an empty one."""
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return {}
    found = (line.partition(" ") for line in lines)
    return {
        digest: int(until)
        for until, _, digest in found
        if until.isascii() and until.isdigit() and len(until) < 19 and int(until) > now
    }


def _digest(code: str) -> str:
    return hashlib.sha256(_bytes(code)).hexdigest()


def _bytes(text: str) -> bytes:
    """Headers may hold any bytes; what is no UTF-8 comes as lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


class Peers:
    """``ancestry`` None: everybody is outside (tests whose clients are children of the process
    that serves)."""

    def __init__(self, ancestry: Ancestry | None) -> None:
        self._ancestry = ancestry
        self._known: WeakKeyDictionary[asyncio.BaseTransport, Place] = WeakKeyDictionary()
        self._looking = asyncio.Lock()  # one look through the machine at a time

    async def admit(self, request: web.Request) -> None:
        """Raises Refusal: it comes from below the daemon, or nobody can tell."""
        resource = request.match_info.route.resource
        method = "GET" if request.method == "HEAD" else request.method
        route = "" if resource is None else f"{method} {resource.canonical}"
        if self._ancestry is None or route in FREE:
            return
        place = await self._place(request, self._ancestry)
        if place != "outside":
            raise Refusal(403, INSIDE if place == "inside" else UNCLEAR)

    async def _place(self, request: web.Request, ancestry: Ancestry) -> Place:
        """Looked up once for each connection: whoever made it has it, or gave it away."""
        transport = request.transport
        if transport is None:
            return "unclear"
        if transport not in self._known:
            link = transport.get_extra_info("socket")
            theirs = transport.get_extra_info("peername")
            ours = transport.get_extra_info("sockname")
            if link.family == socket.AF_UNIX:
                place = _behind(link.fileno(), ancestry)
            elif theirs is None:  # hung up before it was taken
                return "unclear"
            else:
                async with self._looking:
                    place = await asyncio.to_thread(place_of, theirs, ours, ancestry)
                if place == "unclear":  # the next look may tell
                    return place
            self._known[transport] = place
        return self._known[transport]


def _behind(descriptor: int, ancestry: Ancestry) -> Place:
    """Who connected to the unix socket. It has to live still: its number could be somebody
    else's by now."""
    with socket.socket(fileno=os.dup(descriptor)) as link:
        if sys.platform == "darwin":
            return ancestry.place(link.getsockopt(_MAC_LOCAL, _MAC_PEERPID))
        size = _CREDENTIALS.size
        credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        pid, _, _ = _CREDENTIALS.unpack(credentials)
        alive: int | None = None
        with suppress(OSError):  # an older kernel, or it is gone: then its line breaks off
            alive = link.getsockopt(socket.SOL_SOCKET, _PEERPIDFD)
        try:
            place = ancestry.place(pid)
            if alive is not None and place == "outside":
                # A pidfd is readable from the end of its process on: pidfd_open(2).
                waiting = select.poll()
                waiting.register(alive, select.POLLIN)
                if waiting.poll(0):
                    return "unclear"
            return place
        finally:
            if alive is not None:
                os.close(alive)
