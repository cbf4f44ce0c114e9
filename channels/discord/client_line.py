"""One gateway connection: the SDK says hello, beats and resumes; what would die silently or go
unnoticed in it is ours. And what Discord's answers and close codes mean."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar, cast

import aiohttp
import discord
import yarl
from discord.gateway import DiscordWebSocket, ReconnectWebSocket

from channels.errors import Ambiguous, AuthFailed, ChannelError, NotReady, RateLimited, Rejected
from channels.record import record

Body = dict[str, Any]
T = TypeVar("T")

# What the SDK raises for a frame of another shape than it expects.
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
_ENDED = (ReconnectWebSocket, discord.ConnectionClosed, aiohttp.ClientError, OSError)
# Events taken from the socket but not stored yet; then the socket is not read any more.
WAITING = 2000


@record
class Pace:
    """How long the wire waits, in seconds."""

    call: float = 30.0  # one REST call as a whole
    connect: float = 10.0  # one TCP connection
    hello: float = 20.0  # a gateway handshake up to Hello
    mute: float = 55.0  # without a single frame: a socket that is half open
    rest: float = 5.0  # least time between two gateway connections in a row
    identify: float = 5.0  # least time between two new sessions
    upload: float = 300.0  # the bytes of one file, one way


@record
class Frame:
    """One dispatch of a session. ``data`` None: it could not be read, ``raw`` is what came."""

    session: str
    number: int
    event: str
    data: Body | None
    raw: object = None


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

    def log_receive(self, data: Any, /) -> None:
        self._text = data

    async def received_message(self, msg: Any, /) -> None:
        if self.line is not None:
            self.line.heard()
        self._text = msg
        try:
            await super().received_message(msg)
            # Gateway, "Sending heartbeats": a connection that does not acknowledge them is a
            # zombie, also when it goes on telling. The SDK counts any frame.
            if (beats := self._keep_alive) is not None:
                heard = beats._last_ack  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
                if time.perf_counter() - heard > self._max_heartbeat_timeout:
                    raise ReconnectWebSocket(self.shard_id)
        except zlib.error as error:  # a stream of compressed frames cannot go on without a part
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
        session = self._socket.session_id or ""
        number = self._socket.sequence or 0
        if isinstance(data, dict):
            self._line.take(Frame(session, number, event, cast("Body", data)))
        else:
            self._line.take(Frame(session, number, event, None, raw=cast("object", data)))


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
        except _ENDED as error:
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
        except _ENDED as error:
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
        frames = list(self._frames)
        self._frames.clear()
        self._room.set()
        return frames

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
        if isinstance(error, aiohttp.ClientError | OSError):
            text = f"{text}: {str(error) or type(error).__name__}"
        return closed(code, text)


# What Discord's answers and close codes mean

_CONSOLE = "discord.com/developers/applications, your app, Bot"

# Opcodes and status codes, "Gateway close event codes": those with "Reconnect: false", each with
# what to do about it.
_FATAL = {
    4004: (
        f"the bot token is not valid: put the one from {_CONSOLE}, Reset Token, into"
        " channels.discord.token"
    ),
    4010: (
        "the gateway refuses the shard (4010); ohmo asks for none: a proxy in between must not"
        " add one"
    ),
    4011: (
        "the bot is in so many guilds that Discord wants it sharded (4011); ohmo serves bots of"
        " fewer than 2500 guilds"
    ),
    4012: "the gateway does not speak API version 10 (4012): update ohmo",
    4013: "the gateway does not know an intent that ohmo asks for (4013): update ohmo",
    4014: (
        f"an intent is not allowed (4014): switch on Message Content Intent at {_CONSOLE},"
        " Privileged Gateway Intents"
    ),
}
# Not identified, invalid number, session timed out: only IDENTIFY helps.
_NEW_SESSION = frozenset({4003, 4007, 4009})
# JSON error codes that a person can do something about.
_ADVICE = {
    50001: ": the bot may not see this channel: give its role View Channel",
    50007: ": this person takes no direct messages from the bot",
    50013: (
        ": give the bot's role the permissions Send Messages, Send Messages in Threads, Attach"
        " Files and Read Message History"
    ),
    40005: ": the file is larger than this place takes",
}


class Refused(Rejected):
    """Discord said no. ``code``: its JSON error code, 0 without one; ``status``: of HTTP."""

    def __init__(self, text: str, status: int, code: int) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


class Lost(ChannelError):
    """The call was made; nobody knows whether it was carried out."""


class Unreachable(NotReady):
    """A gateway address where nobody answers."""


class Over(NotReady):
    """The gateway connection ended. ``resume``: whether its session may be resumed."""

    def __init__(self, text: str, *, resume: bool) -> None:
        super().__init__(text)
        self.resume = resume


def closed(code: int | None, text: str) -> ChannelError:
    """Why a gateway connection ended: AuthFailed for the codes after which Discord wants no new
    try."""
    if code in _FATAL:
        return AuthFailed(f"Discord: {_FATAL[code]}")
    return Over(f"{text} ({code})" if code else text, resume=code not in _NEW_SESSION)


async def settled(call: Awaitable[T], *, once: bool) -> T:
    """``once``: the call may have shown something, and a second one might show it twice."""
    try:
        return await call
    except Lost as lost:
        raise (Ambiguous if once else NotReady)(str(lost)) from lost


def answered(call: str, status: int, headers: Mapping[str, str], content: bytes) -> Any:
    """The decoded body of a success. Raises AuthFailed, RateLimited, Refused; Lost for a failure of
    Discord's own, and for a success that cannot be read.

    The SDK waits for a 429 only when it carries a ``Via`` header, repeats 500, 502, 504 by itself
    but not 503, and looks into a body only when its type is spelled the usual way; here each answer
    is judged by what it is."""
    try:
        body: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        if 200 <= status < 300 and content.strip():
            raise Lost(f"Discord: {call}: an answer that cannot be read") from error
        body = None
    if 200 <= status < 300:
        return body
    fields = object_of(body)
    if status == 429:
        # Rate limits, "Exceeding a rate limit": retry_after in the body is finer than the header;
        # an answer of Cloudflare has no body of Discord's.
        lowered = {name.lower(): value for name, value in headers.items()}
        rest = seconds(fields, "retry_after")
        for name in ("retry-after", "x-ratelimit-reset-after"):
            rest = rest if rest is not None else seconds(lowered, name)
        raise RateLimited(rest if rest is not None else 60.0)
    if status >= 500:
        raise Lost(f"Discord: {call}: HTTP {status}")
    text = f"Discord: {call}: HTTP {status}: {fields.get('message') or 'no reason given'}"
    code = fields.get("code")
    if isinstance(code, int) and code:
        text += f" ({code})"
    else:
        code = 0
    if status == 401:
        raise AuthFailed(
            f"{text}: put the token from {_CONSOLE}, Reset Token, into channels.discord.token"
        )
    details = "; ".join(_details(fields.get("errors"), ()))
    raise Refused(text + (f": {details}" if details else _ADVICE.get(code, "")), status, code)


def _details(errors: object, path: tuple[str, ...]) -> Iterator[str]:
    """Reference, "Error messages": a tree whose leaves are lists under _errors."""
    if not isinstance(errors, dict) or len(path) > 10:
        return
    for name, below in cast("dict[str, Any]", errors).items():
        if name == "_errors" and isinstance(below, list):
            field = ".".join(path) or "body"
            for error in cast("list[Any]", below)[:5]:
                fields = cast("object", error)
                text = object_of(fields).get("message") if isinstance(error, dict) else error
                yield f"{field}: {text}"
        else:
            yield from _details(below, (*path, name))


def object_of(value: object) -> dict[str, Any]:
    """For answers: whatever is no object is an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def seconds(source: Mapping[str, Any], name: str) -> float | None:
    """A number of seconds in headers or a body."""
    try:
        return max(0.0, float(source[name]))
    except (KeyError, TypeError, ValueError):
        return None
