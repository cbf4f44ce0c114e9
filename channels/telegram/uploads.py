"""Files on their way to Telegram: the only file that knows python-telegram-bot, whose ``Bot`` puts
the forms together. Imported with the first file (``client.py``)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar, cast

import aiohttp

from channels.contract import MessageId, Receipt
from channels.errors import Ambiguous, ChannelError
from channels.payloads import Body
from channels.platform_calls import PartialImport, opened

# Our transport takes the place of its own; httpx is forty modules.
with PartialImport("telegram", {"telegram.request._httpxrequest": ("HTTPXRequest",)}):
    from telegram import Bot, InputFile, InputMediaDocument, InputMediaPhoto, Message
    from telegram.error import TelegramError
    from telegram.request import BaseRequest, RequestData

# The SDK writes whole bodies, and addresses with the token in them, on its lower levels.
logging.getLogger("telegram").setLevel(logging.ERROR)

Result = TypeVar("Result")
Send = Callable[[str, aiohttp.FormData], Awaitable[bytes]]


class Uploads:
    """Calls that carry files. ``send``: one of them, by its name: the bytes of a good answer, or
    ChannelError."""

    def __init__(self, token: str, base_url: str, send: Send) -> None:
        transport = _Transport(send)
        self._bot = Bot(token, base_url, request=transport, get_updates_request=transport)

    async def one(self, payload: Body) -> Receipt:
        """sendPhoto or sendDocument of ``payload["path"]``, streamed from the disk. Raises
        ChannelError."""
        rest = dict(payload)
        path = Path(rest.pop("path"))
        chat = rest.pop("chat_id")
        name = rest.pop("name")
        photo = rest.pop("photo")
        method = "sendPhoto" if photo else "sendDocument"
        send = self._bot.send_photo if photo else self._bot.send_document
        with opened("Telegram", path) as content:
            file = InputFile(content, filename=name, read_file_handle=False)
            return _receipt(await _asked(method, send(chat, file, api_kwargs=rest)))

    async def album(self, payload: Body) -> Receipt:
        """sendMediaGroup of ``payload["album"]``. Raises ChannelError."""
        rest = dict(payload)
        chat = rest.pop("chat_id")
        photo = rest.pop("photo")
        words = {name: rest.pop(name) for name in ("caption", "parse_mode") if name in rest}
        with ExitStack() as stack:
            media: list[InputMediaPhoto | InputMediaDocument] = []
            kind = InputMediaPhoto if photo else InputMediaDocument
            for member in cast("list[Body]", rest.pop("album")):
                content = stack.enter_context(opened("Telegram", Path(member["path"])))
                file = InputFile(content, member["name"], attach=True, read_file_handle=False)
                media.append(kind(file, **words))
                words = {}  # they stand under the first
            call = self._bot.send_media_group(chat, media, api_kwargs=rest)
            shown = await _asked("sendMediaGroup", call)
        if not shown:
            raise Ambiguous("Telegram: sendMediaGroup: no message came back")
        return _receipt(shown[0])


async def _asked(method: str, call: Awaitable[Result]) -> Result:
    """Raises ChannelError."""
    try:
        return await call
    except _Failed as failed:
        raise failed.why from failed
    except (TelegramError, KeyError, TypeError, ValueError, AttributeError) as error:
        # The SDK met an answer of another shape.
        kind = type(error).__name__
        text = f"Telegram: {method}: an answer that cannot be read came back: {kind}"
        raise Ambiguous(text) from error


def _receipt(message: Message) -> Receipt:
    return Receipt(MessageId(str(message.message_id)), message.date)


class _Failed(TelegramError):
    """Carries a failure of ours through the SDK, which hands on its own errors only."""

    def __init__(self, why: ChannelError) -> None:
        super().__init__(str(why))
        self.why = why


class _Transport(BaseRequest):
    """The SDK's calls over the session that everything else uses."""

    def __init__(self, send: Send) -> None:
        self._send = send

    @property
    def read_timeout(self) -> None:
        """``send`` knows how long."""

    async def initialize(self) -> None:
        """The session is opened and closed by Wire.open()."""

    async def shutdown(self) -> None:
        """See initialize()."""

    async def do_request(
        self,
        url: str,
        method: str,  # noqa: ARG002 - the SDK's signature
        request_data: RequestData | None = None,
        *timeouts: Any,  # noqa: ARG002
        **more: Any,  # noqa: ARG002
    ) -> tuple[int, bytes]:
        assert request_data is not None
        form = aiohttp.FormData(quote_fields=False)
        for name, value in request_data.json_parameters.items():
            form.add_field(name, value)
        for name, (filename, content, media_type) in request_data.multipart_data.items():
            form.add_field(name, content, filename=filename, content_type=media_type)
        try:
            return 200, await self._send(url.rpartition("/")[2], form)
        except ChannelError as why:
            raise _Failed(why) from why
