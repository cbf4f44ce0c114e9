"""The long connection: the SDK's client does the handshake, the frames and the pings; what would
block or die silently is ours."""

# lark_oapi is annotated in part only.
# pyright: reportPrivateUsage=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from websockets.exceptions import WebSocketException

from channels.errors import ChannelError, NotReady, RateLimited
from channels.feishu.client import CREDENTIALS, LEAN, SLOW, Wire, live_here, request_of
from channels.feishu.content import word
from channels.payloads import SIZE, Body, soft
from channels.record import record

with LEAN:
    from lark_oapi.core.enum import LogLevel
    from lark_oapi.ws.client import Client
    from lark_oapi.ws.client import _new_ping_frame as new_ping_frame
    from lark_oapi.ws.const import (
        GEN_ENDPOINT_URI,
        HEADER_BIZ_RT,
        HEADER_MESSAGE_ID,
        HEADER_SEQ,
        HEADER_SUM,
        HEADER_TYPE,
    )
    from lark_oapi.ws.enum import FrameType, MessageType
    from lark_oapi.ws.exception import ClientException, ConnectionClosedException, ServerException
    from lark_oapi.ws.model import ClientConfig, EndpointResp
    from lark_oapi.ws.pb.google.protobuf.message import DecodeError, EncodeError
    from lark_oapi.ws.pb.pbbp2_pb2 import Frame

# Long connection, answers of the endpoint: busy, internal error, too many connections (50 an app).
_ENDPOINT_REFUSES = frozenset({403, 514, 1000040344})
TOO_MANY = 1000040350
HANDSHAKE_REFUSED = 514  # handshake-status
MOST_PARTS = 1000  # of one split message, and split messages that are incomplete at the same time
LARGEST = 16 << 20  # bytes of one frame, and of one joined message
PATIENCE = 30.0  # seconds for the other parts of a split message


@record
class Delivery:
    """One thing the line said. ``frame`` is what the answer is made of; None: it was no frame of
    the protocol (``raw`` its head) or the line's end."""

    line: Line
    kind: str  # "event", "card", "" (unreadable), "over"
    payload: bytes = b""
    frame: Any = None
    at: float = 0.0  # monotonic
    raw: bytes = b""


class _Socket(Client):
    """The SDK's client without its own asking (it blocks the loop, without a time limit) and
    reconnecting (it dies without a word)."""

    def __init__(self, app_id: str, url: str, line: Line) -> None:
        super().__init__(
            app_id, "asked-for-ahead", log_level=LogLevel.CRITICAL, auto_reconnect=False
        )
        self._cache._cron.cancel()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the SDK joins split frames with it; ours has bounds
        self.url = url
        self.line = line
        self.reading: asyncio.Task[None] | None = None

    async def open(self, config: Any) -> None:
        """Raises what the SDK and websockets raise. Once only: a second _connect() would keep the
        SDK's lock for ever."""
        self._configure(config)
        live_here()
        await self._connect()
        conn: Any = self._conn
        # the SDK leaves it at websockets' 1 MiB, and a larger frame would end the connection
        conn.protocol.max_size = LARGEST
        await asyncio.sleep(0)  # the SDK's receiving task begins, so that close() knows it

    async def write(self, data: bytes) -> None:
        await self._write_message(data)

    async def settings(self, frame: Any) -> None:
        await self._handle_control_frame(frame)

    async def ping(self) -> None:
        """Until the pong is there: a websocket's own, which costs Feishu nothing."""
        conn: Any = self._conn
        if conn is None:
            raise ConnectionError("the connection is closed")
        await (await conn.ping())

    async def ping_frame(self) -> None:
        """The protocol's own ping."""
        await self.write(new_ping_frame(int(self._service_id or 0)).SerializeToString())

    @property
    def ping_interval(self) -> float:
        """Seconds between them, as Feishu asked."""
        return self._ping_interval

    async def close(self) -> None:
        if self.reading is not None:
            self.reading.cancel()
            await asyncio.wait([self.reading])
        conn: Any = self._conn
        if conn is None:
            return
        try:
            async with asyncio.timeout(1.0):
                await conn.close()
        except (TimeoutError, WebSocketException, OSError):
            conn.transport.abort()

    def _get_conn_url(self) -> str:
        return self.url

    def _configure(self, conf: Any) -> None:
        """What Feishu asks for, in bounds: zero would ping without a pause."""
        seconds = getattr(conf, "PingInterval", None)
        self._ping_interval = min(300, max(5, seconds)) if isinstance(seconds, int) else 120

    async def _receive_message_loop(self) -> None:
        self.reading = asyncio.current_task()
        with contextlib.suppress(WebSocketException, OSError):
            while self._conn is not None:
                await self.line.hear(await self._conn.recv())
        self.line.end()


class Line:
    """One long connection from its handshake to its end; what it says goes to a queue, in order."""

    def __init__(self, wire: Wire, heard: asyncio.Queue[Delivery]) -> None:
        self._wire = wire
        self._pace = wire.pace
        self._heard = heard
        self._socket: _Socket | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._parts: dict[str, tuple[float, list[bytes | None]]] = {}
        self._ended = False
        self._frames = 0  # how many came
        self._answers_pings = False
        self.pongs = 0

    async def open(self) -> None:
        """Raises ChannelError."""
        url, config = await endpoint(self._wire)
        self._socket = socket = _Socket(self._wire.app, url, self)
        try:
            async with asyncio.timeout(self._pace.connect):
                await socket.open(config)
        except TimeoutError:
            raise NotReady(
                f"Feishu: long connection: no handshake within {self._pace.connect:g} s"
            ) from None
        # 403, or 514 for too many connections: the SDK's way to say which of the two 514s it was
        except ClientException as refused:
            code = TOO_MANY if refused.code == HANDSHAKE_REFUSED else refused.code
            reason = ""
            if refused.args:
                reason = str(refused.args[0])
            raise no_line(self._wire, code, reason) from refused
        except ServerException as refused:
            raise NotReady(f"Feishu: long connection: {refused}") from refused
        except (WebSocketException, OSError, KeyError, ValueError) as error:
            raise NotReady(f"Feishu: long connection: {type(error).__name__}: {error}") from error
        self._tasks = [
            asyncio.create_task(self._beat(socket), name="feishu heartbeat"),
            asyncio.create_task(self._ping_frames(socket), name="feishu ping frames"),
        ]

    async def hear(self, message: str | bytes) -> None:
        """A frame that cannot be read goes on as such: it is kept aside, and the connection goes
        on."""
        data = message.encode("utf-8", "replace") if isinstance(message, str) else message
        self._frames += 1
        try:
            frame: Any = Frame()
            frame.ParseFromString(data)
            kind = FrameType(frame.method)
            headers = {str(header.key): str(header.value) for header in frame.headers}
        except (
            DecodeError,
            ValueError,
            IndexError,
            KeyError,
            TypeError,
            RuntimeError,
            RecursionError,
        ):
            await self._heard.put(Delivery(self, "", raw=data[:SIZE]))
            return
        if kind == FrameType.CONTROL:
            is_pong = headers.get(HEADER_TYPE) == MessageType.PONG.value
            if is_pong and self._socket is not None:
                self.pongs += 1
                self._answers_pings = True
                with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
                    await self._socket.settings(frame)  # a pong may bring other ones
            return
        payload = self._joined(frame, headers)
        if payload is not None:
            name = headers.get(HEADER_TYPE) or "event"
            await self._heard.put(Delivery(self, name, payload, frame, time.monotonic()))

    def _joined(self, frame: Any, headers: dict[str, str]) -> bytes | None:
        """Long payloads come in parts of one message_id; None while some are missing. Answered
        once, by the frame that completes it."""
        try:
            count = int(headers.get(HEADER_SUM, "1"))
            number = int(headers.get(HEADER_SEQ, "0"))
        except ValueError:
            count = 1
            number = 0
        if count <= 1:
            return bytes(frame.payload)
        now = time.monotonic()
        for message, (began, _) in list(self._parts.items()):
            if now - began >= PATIENCE:
                del self._parts[message]
        message = headers.get(HEADER_MESSAGE_ID, "")
        is_full = message not in self._parts and len(self._parts) >= MOST_PARTS
        if is_full or not 0 <= number < count <= MOST_PARTS:
            return None  # never answered: Feishu delivers it again
        _, parts = self._parts.setdefault(message, (now, [None] * count))
        if number < len(parts):
            parts[number] = bytes(frame.payload)
        there = [part for part in parts if part is not None]
        if len(there) < len(parts) and sum(map(len, there)) <= LARGEST:
            return None
        del self._parts[message]
        return b"".join(there)

    async def answer(self, delivery: Delivery, code: int, result: Body | None = None) -> None:
        """200 after the commit; 500 makes Feishu deliver again. A line that is gone makes it
        deliver again, too: nothing to do here."""
        if delivery.frame is None or self._socket is None or self._ended:
            return
        spent = int((time.monotonic() - delivery.at) * 1000)
        try:
            await self._socket.write(answered(delivery.frame, code, spent, result))
        except (WebSocketException, OSError, EncodeError, ConnectionClosedException):
            self.end()

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._heard.put_nowait(Delivery(self, "over"))

    async def _beat(self, socket: _Socket) -> None:
        """The SDK itself would notice a mute line after forty seconds, and say nothing."""
        try:
            while True:
                await asyncio.sleep(self._pace.ping)
                async with asyncio.timeout(self._pace.ping):
                    await socket.ping()
                self.pongs += 1
        except (TimeoutError, WebSocketException, OSError):
            self.end()

    async def _ping_frames(self, socket: _Socket) -> None:
        """As often as Feishu asked, or oftener: whoever keeps the websocket open may pass nothing
        on any more. Only a line that answered such a ping before can be found mute so; the SDK's
        own loop looks at no answer, and sleeps once more when it is cancelled."""
        silent = 0
        try:
            while silent < 2 or not self._answers_pings:
                before = self._frames
                await socket.ping_frame()
                await asyncio.sleep(min(socket.ping_interval, self._pace.frames))
                silent = silent + 1 if self._frames == before else 0
        except (WebSocketException, OSError, ConnectionClosedException):
            pass
        self.end()

    async def close(self) -> None:
        self._ended = True
        socket, self._socket = self._socket, None
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if socket is not None:
            await socket.close()


def answered(frame: Any, code: int, spent: int, result: Body | None = None) -> bytes:
    """The frame that answers ``frame``, byte for byte as the SDK's own client writes it. ``spent``:
    milliseconds; ``result``: of a callback."""
    if code == HTTPStatus.OK:
        header = frame.headers.add()
        header.key = HEADER_BIZ_RT
        header.value = str(spent)
    response: Body = {"code": code}
    if result is not None:
        data = json.dumps(result, ensure_ascii=False).encode()
        response["data"] = base64.b64encode(data).decode()
    frame.payload = json.dumps(response).encode()
    return frame.SerializePartialToString()


async def endpoint(wire: Wire) -> tuple[str, ClientConfig | None]:
    """Where the long connection is opened, and how Feishu wants it kept; each address serves
    once.

    The SDK asks by a blocking call without a time limit; this one is neither. Raises
    AuthFailed, NotReady, RateLimited."""
    request = request_of("POST", GEN_ENDPOINT_URI)
    request.body = {"AppID": wire.config.app_id, "AppSecret": wire.config.app_secret}
    request.headers["locale"] = "zh"
    answer = await wire.send("long connection", request, None, once=False)
    code = answer.get("code")
    if code != 0:
        raise no_line(wire, code if isinstance(code, int) else -1, word(answer, "msg"))
    endpoint = EndpointResp({"code": 0, "data": soft(answer, "data")}).data
    url = None if endpoint is None else endpoint.URL
    if endpoint is None or not isinstance(url, str) or not url.startswith(("wss://", "ws://")):
        raise NotReady("Feishu: long connection: answered without an address")
    config = endpoint.ClientConfig
    return url, config if isinstance(config, ClientConfig) else None


def no_line(wire: Wire, code: int, reason: str) -> ChannelError:
    """Why there is no address, or a handshake was refused (the SDK's ClientException and
    ServerException)."""
    if code in CREDENTIALS | _ENDPOINT_REFUSES:
        return wire.no_credentials("long connection", code, reason)
    if code in SLOW:
        return RateLimited(5.0)
    more = ""
    if code == TOO_MANY:
        more = ": the app has more than 50 connections: is another process using the same app?"
    return NotReady(f"Feishu: long connection: {code} {reason}{more}")


class Feed:
    """The live side: one line, and whether it lives."""

    def __init__(self, wire: Wire) -> None:
        # Unbounded, for Feishu itself holds back: what is not answered comes again much later.
        self._heard: asyncio.Queue[Delivery] = asyncio.Queue()
        self.line = Line(wire, self._heard)
        self.heard = False  # whether the last take() brought any sign of life
        self._pongs = 0

    @asynccontextmanager
    async def lent(self) -> AsyncGenerator[Feed]:
        """To one who uses it up."""
        try:
            yield self
        finally:
            await self.line.close()

    async def take(self) -> list[Delivery]:
        """All that is there, in order, waiting a second for the first. Raises NotReady when the
        line is gone."""
        deliveries: list[Delivery] = []
        try:
            async with asyncio.timeout(1.0):
                deliveries.append(await self._heard.get())
        except TimeoutError:
            self.heard = self.line.pongs != self._pongs
            self._pongs = self.line.pongs
            return []
        self.heard = True
        while not self._heard.empty():
            deliveries.append(self._heard.get_nowait())
        over = [delivery for delivery in deliveries if delivery.kind == "over"]
        if over and len(deliveries) == len(over):
            raise NotReady("Feishu: the long connection was lost")
        for delivery in over:  # first what it still said; then its end once more
            self._heard.put_nowait(delivery)
        return [delivery for delivery in deliveries if delivery.kind != "over"]


@asynccontextmanager
async def feed(wire: Wire) -> AsyncGenerator[Feed]:
    """Raises ChannelError when the line cannot be opened."""
    live = Feed(wire)
    try:
        await live.line.open()
        yield live
    finally:
        await live.line.close()
