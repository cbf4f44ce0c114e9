"""One gateway connection: the SDK says hello, beats and resumes; what would die silently or go
unnoticed in it is ours."""

from __future__ import annotations

import asyncio
import contextlib
import time
import zlib
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import aiohttp
import discord
import yarl
from discord.gateway import DiscordWebSocket, ReconnectWebSocket

from channels.discord.failures import Over, Unreachable, closed
from channels.discord.frames import Frame, Pace
from channels.errors import NotReady

Body = dict[str, Any]

# What the SDK raises for a frame of another shape than it expects.
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
WAITING = (
    2000  # events taken from the socket but not stored yet; then the socket is not read any more
)


def patience(beat: float, most: float) -> float:
    """Seconds without any frame, or without an acknowledged heartbeat, after which a connection
    that beats every ``beat`` seconds is given up: two beats, at least five seconds and at most
    ``most``, but never before an answer to the next beat can be there."""
    return max(5.0, min(most, 2 * beat), 1.25 * beat)


class _Socket(DiscordWebSocket):
    """The SDK's gateway connection (hello, heartbeats, compression, identify, resume); events go to
    a line as they came, not into the SDK's model of guilds and members, which costs memory and
    fails on fields it does not find."""

    line: Line | None = None
    _text: str | bytes = b""

    @classmethod
    async def opened(
        cls, client: discord.Client, line: Line, gateway: str, resume: tuple[str, int] | None
    ) -> _Socket:
        session, number = resume if resume is not None else (None, None)
        socket = await cls.from_client(
            client,
            initial=True,
            gateway=yarl.URL(gateway),
            session=session,
            sequence=number,
            resume=resume is not None,
        )
        socket.line = line
        socket.hand_on(_Parsers(line, socket))
        return socket

    def hand_on(self, parsers: dict[str, Callable[[Any], None]]) -> None:
        self._discord_parsers = parsers

    def mute_after(self, most: float) -> None:
        beat = self._keep_alive.interval if self._keep_alive is not None else None
        self._max_heartbeat_timeout = patience(beat or most, most)

    def _answered_for(self) -> None:
        """Gateway, "Sending heartbeats": a connection that does not acknowledge them is a zombie,
        also when it goes on telling. The SDK counts any frame."""
        if self._keep_alive is None:
            return
        heard = self._keep_alive._last_ack  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        if time.perf_counter() - heard > self._max_heartbeat_timeout:
            raise ReconnectWebSocket(self.shard_id)

    def log_receive(self, data: Any, /) -> None:
        self._text = data

    async def received_message(self, msg: Any, /) -> None:
        if self.line is not None:
            self.line.heard()
        self._text = msg
        try:
            await super().received_message(msg)
            self._answered_for()
        except (
            zlib.error
        ) as error:  # the stream of compressed frames cannot go on without one of its parts
            raise ReconnectWebSocket(self.shard_id) from error
        except _UNREADABLE as error:
            if self.line is None:
                raise NotReady(
                    f"Discord: the gateway's hello cannot be read: {type(error).__name__}"
                ) from error
            self.line.take(Frame(self.session_id or "", self.sequence or 0, "", None, self._text))


class _Parsers(dict[str, Callable[[Any], None]]):
    """In place of the SDK's parsers: hands every event on by its name."""

    def __init__(self, line: Line, socket: _Socket) -> None:
        self._line = line
        self._socket = socket

    def __missing__(self, event: str) -> Callable[[Any], None]:
        return partial(self._hand_on, event)

    def _hand_on(self, event: str, data: Any) -> None:
        session, number = self._socket.session_id or "", self._socket.sequence or 0
        whole = cast("Body", data) if isinstance(data, dict) else None
        self._line.take(
            Frame(
                session, number, event, whole, None if whole is not None else cast("object", data)
            )
        )


class Line:
    """One gateway connection, identified or resumed, from its hello to its end."""

    def __init__(self) -> None:
        self.heard: Callable[[], None] = lambda: None  # at every frame
        self._frames: deque[Frame] = deque()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._socket: _Socket | None = None

    async def open(
        self, client: discord.Client, gateway: str, resume: tuple[str, int] | None, pace: Pace
    ) -> None:
        """Raises NotReady, AuthFailed, Over. A handshake that fails is told here; inside the SDK's
        own loop it would kill the client."""
        try:
            async with asyncio.timeout(pace.hello):
                self._socket = await _Socket.opened(client, self, gateway, resume)
        except TimeoutError:
            raise Unreachable(f"Discord: no gateway hello within {pace.hello:g} s") from None
        except (aiohttp.ClientConnectionError, aiohttp.WSServerHandshakeError) as error:
            raise Unreachable(
                f"Discord: the gateway cannot be reached: {str(error) or type(error).__name__}"
            ) from error
        except (
            ReconnectWebSocket,
            discord.ConnectionClosed,
            aiohttp.ClientError,
            OSError,
        ) as error:
            raise self._why(error, "Discord: the gateway cannot be reached") from error
        self._socket.mute_after(pace.mute)

    @property
    def begun(self) -> bool:
        """Whether Discord said hello: then it was told who we are."""
        return self._socket is not None

    async def ready(self, within: float) -> None:
        """Until Discord took us in: from now on nothing is said that we do not hear. Raises
        NotReady, AuthFailed."""
        try:
            async with asyncio.timeout(within):
                while not any(frame.event == "READY" for frame in self._frames):
                    await self._poll()
        except TimeoutError:
            raise NotReady(f"Discord: no READY within {within:g} s") from None

    async def pump(self) -> None:
        """Reads until the connection is over. Raises Over, AuthFailed."""
        while True:
            await self._poll()
            while len(self._frames) >= WAITING:
                self._room.clear()
                await self._room.wait()

    async def _poll(self) -> None:
        assert self._socket is not None
        try:
            await self._socket.poll_event()
        except (
            ReconnectWebSocket,
            discord.ConnectionClosed,
            aiohttp.ClientError,
            OSError,
        ) as error:
            raise self._why(error, "Discord: the gateway connection was lost") from error

    def take(self, frame: Frame) -> None:
        self._frames.append(frame)
        self._arrived.set()

    async def frames(self, within: float) -> list[Frame]:
        """All that are there, in order, after waiting for the first; none after ``within``
        seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._arrived.wait()
        self._arrived.clear()
        found = list(self._frames)
        self._frames.clear()
        self._room.set()
        return found

    async def close(self) -> None:
        """Codes 1000 and 1001 would end the session, which is meant to be resumed (Gateway,
        "Disconnecting")."""
        if self._socket is not None:
            with contextlib.suppress(aiohttp.ClientError, OSError, RuntimeError):
                await self._socket.close(code=4000)

    def _why(self, error: Exception, text: str) -> Exception:
        code = error.code if isinstance(error, discord.ConnectionClosed) else None
        if code is None and self._socket is not None:
            code = self._socket.socket.close_code
        if isinstance(error, ReconnectWebSocket) and not error.resume:
            return Over("Discord: the gateway session is not valid any more", resume=False)
        reason = (
            f"{text}: {str(error) or type(error).__name__}"
            if isinstance(error, aiohttp.ClientError | OSError)
            else text
        )
        return closed(code, reason)
