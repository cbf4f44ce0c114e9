"""One Socket Mode connection to Slack: its frames as they come, and why it was lost."""

# slack_sdk is annotated in part only: its responses, bodies and listeners are untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeArgument=false, reportUnknownParameterType=false

from __future__ import annotations

import asyncio
import json
import logging

import aiohttp
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from channels.errors import NotReady
from channels.payloads import SIZE, Body
from channels.platform_calls import proxy_for
from channels.record import record


@record
class Pace:
    """How long the wire waits, in seconds."""

    call: float = 30.0  # one Web API call as a whole
    connect: float = 10.0  # one TCP connection, and one Socket Mode handshake up to Slack's hello
    ping: float = 5.0  # between pings; a half-open socket is noticed after four
    upload: float = 300.0  # the bytes of one file, one way
    echo: float = 3.0  # a post of ours may come back sooner than the answer that names it
    look: float = 5.0  # between two questions whose post it was


@record
class Frame:
    """One thing a socket said. ``kind`` "": it was no JSON object with a type, ``raw`` its head;
    "over": the socket is at its end."""

    line: Line
    kind: str
    envelope: str = ""
    payload: Body | None = None
    reason: str = ""
    raw: str = ""


class _Socket(SocketModeClient):
    """The SDK's socket without its own reconnecting, which keeps a used ticket for ever and
    swallows every reason."""

    line: Line

    async def enqueue_message(self, message: str) -> None:
        await self.line.hear(message)

    async def connect_to_new_endpoint(self, force: bool = False) -> None:  # noqa: ARG002 - the SDK's signature
        """The SDK asks for this when the socket closed, or went silent for four pings."""
        self.line.end()


class Line:
    """One Socket Mode connection from its hello to its end; frames of all lines go to one queue, in
    order."""

    def __init__(
        self, web: AsyncWebClient, url: str, pace: Pace, frames: asyncio.Queue[Frame]
    ) -> None:
        self._overheard = HandshakeLog()
        self._socket = _Socket(
            "xapp-spent", web_client=web, ping_interval=pace.ping, logger=self._overheard.log
        )
        self._socket.line = self
        self._socket.proxy = proxy_for(url)  # the SDK would send even loopback through HTTPS_PROXY
        self._socket.wss_uri = url
        self._pace = pace
        self._frames = frames
        self._greeted = asyncio.Event()
        self._ended = False
        self._last_pong: float | None = None

    async def open(self) -> None:
        """Raises NotReady. The SDK's connect() never raises and repeats the same spent ticket: it
        gets one deadline, and the line one ticket."""
        try:
            async with asyncio.timeout(self._pace.connect):
                await self._socket.connect()
                await self._greeted.wait()
        except TimeoutError:
            raise NotReady(
                f"Slack: no Socket Mode hello within {self._pace.connect:g} s{self._overheard.why}"
            ) from None

    async def hear(self, message: str) -> None:
        try:
            body = json.loads(message)
        except (ValueError, RecursionError):
            body = None
        kind = body.get("type") if isinstance(body, dict) else None
        if not isinstance(body, dict) or not isinstance(kind, str):
            await self._frames.put(Frame(self, "", raw=message[:SIZE]))
            return
        if kind == "hello":
            self._greeted.set()
        envelope = body.get("envelope_id")
        payload = body.get("payload")
        reason = body.get("reason")
        frame = Frame(
            line=self,
            kind=kind,
            envelope=envelope if isinstance(envelope, str) else "",
            payload=payload if isinstance(payload, dict) else None,
            reason=reason if isinstance(reason, str) else "",
        )
        await self._frames.put(frame)

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._frames.put_nowait(Frame(self, "over"))

    async def alive(self) -> bool:
        """Whether a pong came since the last question; ends the line when its socket is gone."""
        if not await self._socket.is_connected():
            self.end()
        pong, self._last_pong = self._last_pong, self._socket.last_ping_pong_time
        return pong != self._last_pong

    async def acknowledge(self, envelope: str) -> None:
        """Using Socket Mode, "Acknowledge events". A line that is gone makes Slack deliver again:
        nothing to do here."""
        try:
            await self._socket.send_socket_mode_response(SocketModeResponse(envelope_id=envelope))
        except (ConnectionError, aiohttp.ClientError):
            self.end()

    async def close(self) -> None:
        self._ended = True
        await self._socket.close()


class HandshakeLog(logging.Handler):
    """Why a handshake failed: the SDK tells nobody but its log, and there with the ticket, which is
    no word for a log. Of one socket. ``log``: hand it to the SDK; it leads nowhere else. ``why``:
    ": HTTP 403", or "" as long as nothing failed."""

    def __init__(self) -> None:
        super().__init__()
        self.why = ""
        self.log = logging.Logger("channels.slack.socket", logging.ERROR)  # noqa: LOG001 - one for each socket, and outside of the tree
        self.log.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, aiohttp.WSServerHandshakeError):
            self.why = f": HTTP {error.status}"
        elif error is not None:
            self.why = f": {type(error).__name__}"
