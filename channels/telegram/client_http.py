"""The SDK's calls over one aiohttp session: about half the CPU of its own httpx
(docs/channels/telegram.md)."""

from __future__ import annotations

import json
from typing import Any, cast

import aiohttp

from channels.record import record
from channels.sdk_import import PartialImport

# Our transport takes the place of its own; httpx is forty modules.
LEAN = PartialImport("telegram", {"telegram.request._httpxrequest": ("HTTPXRequest",)})
with LEAN:
    from telegram.error import NetworkError, TelegramError
    from telegram.request import BaseRequest, RequestData

Body = dict[str, Any]
_CHAT = ("id", "type")  # what is read of a chat


@record
class Pace:
    """How long the wire waits, in seconds."""

    connect: float = 10.0
    # the answer of one call; the SDK's five seconds take slow successes for failures
    call: float = 30.0
    # one long poll; a dead line is noticed ``connect`` seconds after it, and twice as much later
    # given up
    poll: int = 25
    soon: float = 0.25  # the next try after one poll that failed, at most; doubled after the next
    conflict: float = 1.0  # before asking again after somebody else's poll
    # the same in a connection that has not heard yet: it may be the poll of a life that was killed
    former: float = 3.0
    # a poll that Telegram held for so long and then ended was ended by a newer one
    held: float = 1.0
    upload: float = 300.0  # the bytes of one file, one way


class NotSent(NetworkError):
    """Not one byte of the call has left."""


class Transport(BaseRequest):
    """The SDK's calls over one aiohttp session for life: about half the CPU of its own httpx
    (docs/channels/telegram.md)."""

    __slots__ = ("_pace", "_session")

    def __init__(self, session: aiohttp.ClientSession, pace: Pace) -> None:
        self._session = session
        self._pace = pace

    @property
    def read_timeout(self) -> float:
        return self._pace.call

    async def initialize(self) -> None:
        """The session is opened and closed by Wire.open()."""

    async def shutdown(self) -> None:
        """See initialize()."""

    async def do_request(
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: Any = BaseRequest.DEFAULT_NONE,
        write_timeout: Any = BaseRequest.DEFAULT_NONE,  # noqa: ARG002 - the SDK's signature
        connect_timeout: Any = BaseRequest.DEFAULT_NONE,  # noqa: ARG002
        pool_timeout: Any = BaseRequest.DEFAULT_NONE,  # noqa: ARG002
    ) -> tuple[int, bytes]:
        seconds = float(read_timeout) if isinstance(read_timeout, int | float) else self._pace.call
        timeout = aiohttp.ClientTimeout(
            sock_connect=self._pace.connect, total=seconds + self._pace.connect
        )
        body: Body = {}
        if request_data is not None and request_data.contains_files:
            form = aiohttp.FormData(quote_fields=False)
            for name, value in request_data.json_parameters.items():
                form.add_field(name, value)
            for name, (filename, content, media_type) in request_data.multipart_data.items():
                form.add_field(name, content, filename=filename, content_type=media_type)
            body = {"data": form}
        elif request_data is not None and request_data.parameters:
            body = {
                "data": json.dumps(request_data.parameters).encode(),
                "headers": {"Content-Type": "application/json"},
            }
        try:
            async with self._session.request(method, url, timeout=timeout, **body) as response:
                return response.status, await response.read()
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotSent(f"no connection: {error}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NetworkError(f"no answer: {type(error).__name__}") from error

    @staticmethod
    def parse_json_payload(payload: bytes) -> Body:
        try:
            body = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise TelegramError("no JSON came back") from error
        if not isinstance(body, dict) or (cast("Body", body).get("ok") and "result" not in body):
            raise TelegramError("no answer of the Bot API came back")
        answer = cast("Body", body)
        shown = answer.get("result")
        if not isinstance(shown, dict):
            return answer
        message = cast("Body", shown)
        chat = message.get("chat")
        if "message_id" not in message or not isinstance(chat, dict):
            return answer
        # A message of ours comes back whole, and the SDK would make objects of all of it: only its
        # number, date and chat are read.
        lean = {
            "message_id": message["message_id"],
            "date": message.get("date"),
            "chat": {key: value for key, value in cast("Body", chat).items() if key in _CHAT},
        }
        return {**answer, "result": lean}


class Polling(Transport):
    """Keeps updates as they came: the SDK would refuse a whole batch for one it cannot read."""

    __slots__ = ("garbled", "raw")

    def __init__(self, session: aiohttp.ClientSession, pace: Pace) -> None:
        super().__init__(session, pace)
        self.raw: list[object] = []
        self.garbled = b""  # an answer that cannot be read

    async def do_request(self, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        self.raw, self.garbled = [], b""
        status, payload = await super().do_request(*args, **kwargs)
        if status != 200:
            return status, payload
        self.garbled = payload
        updates = self.parse_json_payload(payload).get("result")
        if not isinstance(updates, list):
            raise TelegramError("getUpdates gave no list")
        self.raw, self.garbled = cast("list[object]", updates), b""
        return status, b'{"ok":true,"result":[]}'
