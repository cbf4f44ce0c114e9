"""Checks every request before a handler sees it: whose key or cookie it bears, that no foreign
page sent it, that no process of the daemon did, and how many connections one caller has."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import socket

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware
from aiohttp.web_protocol import RequestHandler

from channels.errors import Rejected, Unavailable
from ohmo.contracts.errors import OhmoError
from ohmo.control.authentication import Keys, Peers
from ohmo.control.responses import Misses, Refusal, TooManyMisses, answer

_HOST = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::\d*)?"
)  # RFC 9110, 7.2: host and port, nothing else
OPEN = (
    "/",
    "/login",
    "/healthz",
    "/readyz",
    "/favicon.svg",
    "/api/v1/known",
)  # say nothing that is not public
TOO_LARGE = (
    "that is larger than the {most} MiB a request may have; put it into a file of the workspace and"
    " say its name, or attach it"
)
HEADERS = {
    "Server": "ohmo",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:;"
        " connect-src 'self'; manifest-src 'self'; form-action 'none'; base-uri 'none';"
        " frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


class Guard:
    """``names``: host names beside localhost and plain addresses that lead here (a reverse
    proxy's). ``cookie``: the name of ours."""

    def __init__(
        self,
        keys: Keys,
        callers: Callers,
        peers: Peers,
        cookie: str,
        names: frozenset[str] = frozenset(),
        misses: Misses | None = None,
    ) -> None:
        self._keys = keys
        self._callers = callers
        self._peers = peers
        self._cookie = cookie
        self._proxied = names
        self._names = names | {"localhost"}
        self._misses = misses or Misses()

    def middleware(self) -> Middleware:
        @web.middleware
        async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
            self._callers.heard(request)
            try:
                refuse_doubled(request)
                self.check(request)
                await self._peers.admit(request)
                response = await handler(request)
            except Refusal as error:
                # Who showed something wrong may have guessed; who showed nothing did not.
                shows_key = "Authorization" in request.headers or self._cookie in request.cookies
                if error.status == 401 and (shows_key or _is_hook(request)):
                    error = await self._misses.count() or error
                response = answer({"error": str(error)}, status=error.status)
                if isinstance(error, TooManyMisses):
                    response.headers["Retry-After"] = str(error.after)
            except Rejected as error:
                response = answer({"error": str(error)}, status=400)
            except Unavailable as error:
                response = answer(
                    {"error": f"{error or 'not ready'}; send it again in a moment"}, status=503
                )
                response.headers["Retry-After"] = "1"
            except OhmoError as error:
                response = answer({"error": str(error)}, status=500)
            except web.HTTPRequestEntityTooLarge as error:
                response = answer(
                    {"error": TOO_LARGE.format(most=request.client_max_size // 2**20)},
                    status=error.status,
                )
            except web.RequestPayloadError as error:  # cut short or badly chunked
                response = answer(
                    {"error": f"the body cannot be read: {' '.join(str(error).split())[:200]}"},
                    status=400,
                )
            except web.HTTPException as error:
                if error.status < 400:
                    raise
                response = answer(
                    {"error": f"{request.method} {request.path}: {error.reason}"},
                    status=error.status,
                )
                if (allowed := error.headers.get("Allow")) is not None:  # RFC 9110, 15.5.6
                    response.headers["Allow"] = allowed
            if not response.prepared:
                decorate(response)
            return response

        return guarded

    def check(self, request: web.Request) -> None:
        """Raises Refusal: 403 for a foreign page, 421 for a foreign name, 401 for nobody."""
        origin = request.headers.get("Origin")
        if came_by_unix_socket(request):
            if origin is not None:
                raise Refusal(403, "a page cannot speak to the unix socket")
            return
        if not self.is_ours(request.host):
            raise Refusal(
                421,
                f"{request.host[:100]}: this name does not lead here; use localhost, an address, or"
                " name it in control.names",
            )
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise Refusal(
                415,
                "send the body as it is: a packed one (Content-Encoding) is not opened, a small one"
                " may hold gigabytes",
            )
        if origin is not None and not self.is_same_origin(origin, request):
            raise Refusal(403, "pages of another origin may not speak to ohmo")
        opens_page = (
            request.method == "GET"
            and request.path in OPEN
            and request.headers.get("Sec-Fetch-Mode") == "navigate"
        )
        if (
            request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none")
            and not opens_page
        ):
            raise Refusal(403, "pages of another site may not speak to ohmo")
        if _is_hook(request):
            return  # its signature says whose it is; there is nothing else there than POST
        if request.path in OPEN or request.path.startswith("/static/"):
            return
        if self.is_known(request):
            self._callers.know(request)
            return
        raise Refusal(
            401,
            "log in first: `ohmo login` prints a link for the browser; programs send run/token as"
            " Authorization: Bearer",
        )

    def lets_stay(self, request: web.Request) -> bool:
        """Whether who opened a stream would still be let in: a login ends while its streams are
        open."""
        return came_by_unix_socket(request) or self.is_known(request)

    def is_same_origin(self, origin: str, request: web.Request) -> bool:
        """Of a proxy that ends TLS the browser names https, while the request comes to us
        without."""
        if origin == f"{request.scheme}://{request.host}":
            return True
        return _name(request.host) in self._proxied and origin == f"https://{request.host}"

    def is_ours(self, host: str) -> bool:
        """A plain address cannot be rebound; a name must be one of ours. The port is not looked at:
        tunnels change it."""
        name = _name(host)
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def is_known(self, request: web.Request) -> bool:
        """The token, or our cookie; a change by cookie must also name its origin."""
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._keys.is_token(token.strip())
        if not self._keys.is_cookie(request.cookies.get(self._cookie, "")):
            return False
        if (
            request.method not in ("GET", "HEAD")
            and "Origin" not in request.headers
            and "Sec-Fetch-Site" not in request.headers
        ):
            raise Refusal(403, "a change by cookie needs the header Origin")
        return True


def _is_hook(request: web.Request) -> bool:
    return request.path.startswith("/hooks/")


def _name(host: str) -> str:
    """Without port and brackets; "" for what is no host."""
    match = _HOST.fullmatch(host)
    return "" if match is None else (match["six"] or match["name"]).lower().rstrip(".")


def came_by_unix_socket(request: web.Request) -> bool:
    """The socket file is 0600: whoever can open it is the owner."""
    link = None if request.transport is None else request.transport.get_extra_info("socket")
    return link is not None and link.family == socket.AF_UNIX


def decorate(response: web.StreamResponse) -> None:
    """Headers every answer carries; streams call it before they begin."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


# connections; a daemon's files and its platforms' sockets come out of the same 1024 that systemd
# gives
MOST = 256
PATIENCE = 20.0  # seconds for the head of the first request
IDLE = 75.0  # seconds a connection may rest between two requests
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length:"
    b" 0\r\n\r\n"
)


class Callers:
    """``most``: connections at once. ``patience``: seconds until a new one has to have sent the
    head of a request (a slow loris sends it for ever)."""

    def __init__(self, most: int = MOST, patience: float = PATIENCE) -> None:
        self._most = most
        self._patience = patience
        self._here: dict[RequestHandler, bool] = {}  # the oldest first; true: one of ours
        self._silent: dict[RequestHandler, asyncio.TimerHandle] = {}

    def meet(self, server: web.Server) -> asyncio.Protocol:
        """A new connection. When the house is full the stranger who is here longest goes; where all
        are known, the new one does."""
        open_ones = {*server.connections, *self._silent}
        self._here = {one: known for one, known in self._here.items() if one in open_ones}
        if len(self._here) >= self._most:
            stranger = next((one for one, known in self._here.items() if not known), None)
            if stranger is None:
                return _Turned()
            self._see_off(stranger)
        handler = server()
        self._here[handler] = False
        self._silent[handler] = asyncio.get_running_loop().call_later(
            self._patience, self._see_off, handler
        )
        return handler

    def heard(self, request: web.Request) -> None:
        """The head of a request came."""
        waiting = self._silent.pop(request.protocol, None)
        if waiting is not None:
            waiting.cancel()

    def know(self, request: web.Request) -> None:
        """It was somebody of ours."""
        if request.protocol in self._here:
            self._here[request.protocol] = True

    def _see_off(self, handler: RequestHandler) -> None:
        waiting = self._silent.pop(handler, None)
        if waiting is not None:
            waiting.cancel()
        self._here.pop(handler, None)
        transport = handler.transport
        handler.force_close()
        if transport is not None:
            transport.abort()  # close() would wait for a reader who never reads


class _Turned(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(_FULL)
        transport.close()


def is_worth_a_line(line: logging.LogRecord) -> bool:
    """What is no HTTP was answered with 400, and who hung up in the middle wants no answer: whoever
    knocks could fill the owner's log with both."""
    return not (
        line.exc_info and isinstance(line.exc_info[1], HttpProcessingError | ConnectionResetError)
    )


_ONCE = (
    "Host",
    "Authorization",
    "Cookie",
    "Origin",
    "Content-Length",
    "Content-Type",
    "Content-Encoding",
    "Transfer-Encoding",
    "Sec-Fetch-Site",
    "Sec-Fetch-Mode",
    "X-Forwarded-Proto",
    "Last-Event-ID",
    "Idempotency-Key",
    "X-Ohmo-Timestamp",
    "X-Ohmo-Signature",
    "X-Hub-Signature-256",
    "X-GitHub-Delivery",
    "X-Gitlab-Token",
    "X-Gitlab-Event-UUID",
)


def refuse_doubled(request: web.Request) -> None:
    """Raises Refusal (400) naming the header or the query's parameter."""
    for name in _ONCE:
        if len(request.headers.getall(name, ())) > 1:
            raise Refusal(400, f"{name}: this header stands twice in the request; send it once")
    if len(request.query) > len(set(request.query)):
        twice = next(name for name in request.query if len(request.query.getall(name)) > 1)
        raise Refusal(400, f"{twice[:60]!r}: this parameter stands twice; send it once")
