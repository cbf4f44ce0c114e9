"""Who asks: nothing that the daemon runs may decide in its owner's place, whatever it is called
and whatever it has read.

A command of the agent, a hook, a coding CLI: all descend from the daemon and run as its user, so
the socket's mode and the token keep none of them out."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import struct
import sys
from contextlib import suppress
from weakref import WeakKeyDictionary

from aiohttp import web

from ohmo.control.responses import Refusal
from ohmo.processes.peer_process import Ancestry, Place, place_of

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
        told = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        pid, _, _ = _CREDENTIALS.unpack(told)
        alive: int | None = None
        with suppress(OSError):  # an older kernel, or it is gone: then its line breaks off
            alive = link.getsockopt(socket.SOL_SOCKET, _PEERPIDFD)
        try:
            place = ancestry.place(pid)
            if alive is not None and place == "outside" and _has_ended(alive):
                return "unclear"
            return place
        finally:
            if alive is not None:
                os.close(alive)


def _has_ended(process: int) -> bool:
    """A pidfd is readable from the end of its process on: pidfd_open(2)."""
    waiting = select.poll()
    waiting.register(process, select.POLLIN)
    return bool(waiting.poll(0))
