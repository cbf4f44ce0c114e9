"""What a network and a tired platform do to calls: one seeded fault door and one stop-watch for
every loopback server."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web

KINDS = ("status", "limit", "reset", "lose", "delay", "cut")
BEFORE_A_SOCKET = ("status", "reset", "delay")
Answering = Callable[[], Awaitable[web.StreamResponse]]


@dataclass
class Weather:
    """``share`` of all calls meet one of ``kinds``, each as often as the next, as ``chance`` has
    it.

    status: 500, 502 or 503 with a page of HTML, nothing done. limit: the platform's own 429,
    Retry-After one second. reset: the connection is reset before anything is done; lose: after it
    was done. delay: up to ``slowest`` seconds before the answer. cut: every connection of the
    platform is reset, sockets too, before anything is done."""

    chance: random.Random
    share: float = 0.05
    kinds: tuple[str, ...] = KINDS
    slowest: float = 1.0
    calls: int = 0
    met: Counter[str] = field(default_factory=Counter)

    def next(self, *, socket: bool) -> str:
        """What this call meets; "" for nothing."""
        self.calls += 1
        kinds = [kind for kind in self.kinds if not socket or kind in BEFORE_A_SOCKET]
        if not kinds or self.chance.random() >= self.share:
            return ""
        kind = self.chance.choice(kinds)
        self.met[kind] += 1
        return kind

    async def meet(
        self,
        request: web.BaseRequest,
        answer: Answering,
        limited: Callable[[float], web.Response],
        cut: Callable[[], None],
    ) -> web.StreamResponse:
        kind = self.next(socket="upgrade" in request.headers.get("Connection", "").lower())
        match kind:
            case "status":
                return web.Response(
                    status=self.chance.choice((500, 502, 503)),
                    text="<html>upstream</html>",
                    content_type="text/html",
                )
            case "limit":
                return limited(1.0)
            case "reset" | "cut":
                _reset(request) if kind == "reset" else cut()
                return web.Response(status=500)
            case "delay":
                await asyncio.sleep(self.chance.uniform(0, self.slowest))
        answered = await answer()
        if kind == "lose":
            _reset(request)
        return answered


def _reset(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


@dataclass
class Acks:
    """How long an app takes to acknowledge what it was handed: seconds in ``took``, one for each
    message."""

    took: list[float] = field(default_factory=list)
    _waiting: dict[object, tuple[float, int]] = field(default_factory=dict)

    def handed(self, key: object, messages: int = 1) -> None:
        """The platform sends it, or sends it again: the clock starts anew."""
        self._waiting[key] = (time.monotonic(), messages)

    @property
    def waiting(self) -> int:
        """Keys that were handed over and not acknowledged yet."""
        return len(self._waiting)

    def settled(self, key: object) -> None:
        if (found := self._waiting.pop(key, None)) is not None:
            self.took += [time.monotonic() - found[0]] * found[1]

    def settled_below(self, number: int) -> None:
        """Keys that are numbers, as Telegram confirms them."""
        for key in [key for key in self._waiting if isinstance(key, int) and key < number]:
            self.settled(key)

    def lost(self, *keys: object) -> None:
        """Its connection broke before anybody could answer; without keys: all of them."""
        for key in keys or tuple(self._waiting):
            self._waiting.pop(key, None)

    @property
    def open(self) -> tuple[object, ...]:
        """What was handed over and is not settled."""
        return tuple(self._waiting)
