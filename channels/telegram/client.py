"""The wire to Telegram: the only file that knows python-telegram-bot. It speaks over one aiohttp
session, about half the CPU of the SDK's own httpx (docs/channels/telegram.md), and turns every
failure into one of ours."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import AsyncGenerator, Awaitable
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import aiohttp

from channels.contract import MessageId, Receipt
from channels.errors import Ambiguous, AuthFailed, ChannelError, NotReady, RateLimited, Rejected
from channels.payloads import Body, Garbled
from channels.platform_calls import PartialImport, copied, opened, proxy_for, save
from channels.record import record
from channels.telegram.updates import Moved, TwoPollers

# Our transport takes the place of its own; httpx is forty modules.
with PartialImport("telegram", {"telegram.request._httpxrequest": ("HTTPXRequest",)}):
    from telegram import Bot, InputFile, InputMediaDocument, InputMediaPhoto, Message
    from telegram.error import (
        BadRequest,
        ChatMigrated,
        Conflict,
        Forbidden,
        InvalidToken,
        NetworkError,
        RetryAfter,
        TelegramError,
    )
    from telegram.request import BaseRequest, RequestData
    from telegram.warnings import PTBDeprecationWarning

Result = TypeVar("Result")

# The SDK writes whole bodies, and addresses with the token in them, on its lower levels.
logging.getLogger("telegram").setLevel(logging.ERROR)

# The SDK announces at every rate limit that retry_after will be a timedelta one day; failure()
# reads both.
warnings.filterwarnings(
    "ignore", "(?s).*attribute `retry_after` will be of type", PTBDeprecationWarning
)

# Only these are read, so only these are asked for (Telegram Bot API, getUpdates, allowed_updates).
WANTED = ("message", "edited_message", "callback_query", "message_reaction")


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


class Wire:
    """The calls ohmo makes with one token. Raises ChannelError only; repeats nothing."""

    def __init__(self, token: str, api_url: str, pace: Pace) -> None:
        self.pace = pace
        self._token = token
        self._api_url = api_url
        self._bot: Bot | None = None
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=32, keepalive_timeout=60),
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=proxy_for(self._api_url),
        ) as session:
            self._session = session
            transport = Transport(session, self.pace)
            self._bot = Bot(
                self._token,
                base_url=f"{self._api_url}/bot",
                base_file_url=f"{self._api_url}/file/bot",
                request=transport,
                get_updates_request=transport,
            )
            try:
                yield
            finally:
                self._bot = self._session = None

    @property
    def bot(self) -> Bot:
        if self._bot is None:
            raise NotReady("Telegram: not connected")
        return self._bot

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise NotReady("Telegram: not connected")
        return self._session

    async def who(self) -> tuple[int, str]:
        """Number and name of the bot (getMe). Raises AuthFailed, NotReady."""
        me = await _ask("getMe", self.bot.get_me())
        return me.id, me.username or ""

    async def updates(self, offset: int | None, poll: int) -> list[object]:
        """getUpdates, of at most ``poll`` seconds; ``offset`` confirms everything below it. Raises
        TwoPollers, AuthFailed, NotReady (Garbled), RateLimited."""
        parameters = {"limit": 100, "timeout": poll, "allowed_updates": WANTED}
        confirmed = {} if offset is None else {"offset": offset}
        polling = Poll(self.session, self.pace, parameters | confirmed)
        try:
            await polling.post(self._url("getUpdates"), read_timeout=poll)
        except Conflict as error:
            raise TwoPollers(
                "Telegram: somebody else polls with this token, or a webhook is set:"
                f" {error.message}"
            ) from error
        except TelegramError as error:
            if polling.garbled:
                raise Garbled(f"Telegram: getUpdates: {error.message}", polling.garbled) from error
            raise failure("getUpdates", error, once=False) from error
        return polling.raw

    async def post(self, payload: Body) -> Receipt:
        """sendMessage. Raises Ambiguous when it may have been carried out."""
        return await _ask("sendMessage", self._post(payload), once=True)

    async def _post(self, payload: Body) -> Receipt:
        """Of the message that comes back two numbers are read (Message: message_id, date)."""
        message: Any = await self._plain("sendMessage", payload)
        at = datetime.fromtimestamp(message["date"], UTC)
        return Receipt(MessageId(str(int(message["message_id"]))), at)

    def _plain(self, method: str, payload: Body) -> Awaitable[object]:
        """As the Bot API's documentation has it, without the SDK's objects. None: not given."""
        given = {name: value for name, value in payload.items() if value is not None}
        return Transport(self.session, self.pace, given).post(self._url(method))

    def _url(self, method: str) -> str:
        return f"{self._api_url}/bot{self._token}/{method}"

    async def edit(self, payload: Body) -> None:
        """editMessageText; the text that stands there already is no failure."""
        await self._call("editMessageText", payload, already="message is not modified")

    async def delete(self, chat: int | str, message: int) -> None:
        """deleteMessage; a message that is gone already is no failure."""
        payload = {"chat_id": chat, "message_id": message}
        await self._call("deleteMessage", payload, already="message to delete not found")

    async def _call(self, method: str, payload: Body, *, already: str = "") -> None:
        """``already``: the refusal that says that it is so already."""
        try:
            await _ask(method, self._plain(method, payload))
        except Rejected as refused:
            if not already or already not in str(refused).lower():
                raise

    async def post_file(self, payload: Body) -> Receipt:
        """sendPhoto or sendDocument of ``payload["path"]``, streamed from the disk."""
        rest = dict(payload)
        path = Path(rest.pop("path"))
        chat = rest.pop("chat_id")
        name = rest.pop("name")
        photo = rest.pop("photo")
        method = "sendPhoto" if photo else "sendDocument"
        send = self.bot.send_photo if photo else self.bot.send_document
        with opened("Telegram", path) as content:
            file = InputFile(content, filename=name, read_file_handle=False)
            call = send(chat, file, api_kwargs=rest, read_timeout=self.pace.upload)
            return _receipt(await _ask(method, call, once=True))

    async def post_album(self, payload: Body) -> Receipt:
        """sendMediaGroup: photos together, or documents together. One call shows all of them or
        none; what is known of it is its first message."""
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
            call = self.bot.send_media_group(
                chat, media, api_kwargs=rest, read_timeout=self.pace.upload
            )
            shown = await _ask("sendMediaGroup", call, once=True)
        if not shown:
            raise Ambiguous("Telegram: sendMediaGroup: no message came back")
        return _receipt(shown[0])

    async def draft(self, chat: int, draft: int, text: str, topic: int | None) -> None:
        """sendMessageDraft: shown for 30 seconds in a private chat, then gone by itself."""
        words = {"text": text, "parse_mode": "HTML", "message_thread_id": topic}
        await self._call("sendMessageDraft", {"chat_id": chat, "draft_id": draft, **words})

    async def act(self, chat: int | str, topic: int | None) -> None:
        """sendChatAction "typing", five seconds long."""
        typing = {"chat_id": chat, "action": "typing", "message_thread_id": topic}
        await self._call("sendChatAction", typing)

    async def answer(self, query: str, text: str) -> None:
        payload = {"callback_query_id": query, "text": text or None}
        await self._call("answerCallbackQuery", payload)

    async def menu(self, commands: list[tuple[str, str]]) -> None:
        await _ask("setMyCommands", self.bot.set_my_commands(commands))

    async def download(self, reference: str, path: Path, limit: int) -> None:
        """getFile, then the bytes into ``path``. Raises Rejected when there are more than
        ``limit``, or 20 MB, Telegram's own bound."""
        answer = await _ask("getFile", self.bot.get_file(reference))
        if answer.file_path is None or (answer.file_size or 0) > limit:
            raise Rejected(f"Telegram: the file has {answer.file_size} bytes, {limit} are allowed")
        if self.own_server:
            # "Using a Local Bot API Server", --local: getFile names a file on the server's disk.
            stored = answer.file_path.removeprefix(f"{self._api_url}/file/bot{self._token}/")
            if stored.startswith("/"):
                if stored != answer.file_path:  # else the SDK saw it there
                    raise Rejected(
                        f"Telegram: the Bot API server keeps the file in {stored}, which is not"
                        " here: mount that folder at the same path"
                    )
                return await copied("Telegram", Path(stored), path, limit)
        timeout = aiohttp.ClientTimeout(
            sock_connect=self.pace.connect, sock_read=self.pace.call, total=self.pace.upload
        )
        failed = "Telegram: the file could not be fetched"
        try:
            async with self.session.get(answer.file_path, timeout=timeout) as response:
                if response.status != 200:
                    raise NotReady(f"{failed}: HTTP {response.status}")
                await save("Telegram", response.content.iter_chunked(1 << 16), path, limit)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise NotReady(f"{failed}: {type(error).__name__}") from error

    @property
    def own_server(self) -> bool:
        return urlsplit(self._api_url).hostname != "api.telegram.org"


async def _ask(method: str, call: Awaitable[Result], *, once: bool = False) -> Result:
    """Raises ChannelError. ``once``: as for ``failure``."""
    try:
        return await call
    except TelegramError as error:
        raise failure(method, error, once=once) from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        # The SDK met an answer of another shape.
        kind = type(error).__name__
        text = f"Telegram: {method}: an answer that cannot be read came back: {kind}"
        raise (Ambiguous if once else NotReady)(text) from error


def _receipt(message: Message) -> Receipt:
    return Receipt(MessageId(str(message.message_id)), message.date)


def failure(method: str, error: TelegramError, *, once: bool) -> ChannelError:
    """What an error of the SDK means for whoever called (Telegram Bot API, "Making requests",
    ResponseParameters). ``once``: a repeat would show a second message, so that a lost answer is
    Ambiguous instead of NotReady."""
    text = f"Telegram: {method}: {error.message}"
    match error:
        case RetryAfter():
            wait = error.retry_after
            return RateLimited(wait.total_seconds() if isinstance(wait, timedelta) else float(wait))
        case InvalidToken():
            return AuthFailed(
                "Telegram does not accept the token: ask @BotFather for /token and put it into"
                " channels.telegram.token"
            )
        case ChatMigrated():
            return Moved(error.new_chat_id)
        case BadRequest() | Forbidden():
            return Rejected(text)
        case Conflict() | NotSent():
            return NotReady(text)
        case _:
            return (Ambiguous if once else NotReady)(text)


class NotSent(NetworkError):
    """Not one byte of the call has left."""


class Transport(BaseRequest):
    """The SDK's calls over one aiohttp session for life. ``parameters``: of the one call it is
    made for, as JSON carries them; None: the SDK brings those of each call."""

    def __init__(
        self, session: aiohttp.ClientSession, pace: Pace, parameters: Body | None = None
    ) -> None:
        self._session = session
        self._pace = pace
        self._parameters = parameters

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
        parameters = self._parameters or (request_data and request_data.parameters)
        if request_data is not None and request_data.contains_files:
            form = aiohttp.FormData(quote_fields=False)
            for name, value in request_data.json_parameters.items():
                form.add_field(name, value)
            for name, (filename, content, media_type) in request_data.multipart_data.items():
                form.add_field(name, content, filename=filename, content_type=media_type)
            body = {"data": form}
        elif parameters:
            body = {
                "data": json.dumps(parameters).encode(),
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
        return cast("Body", body)


class Poll(Transport):
    """One getUpdates. Keeps updates as they came: the SDK would refuse a whole batch for one it
    cannot read."""

    def __init__(self, session: aiohttp.ClientSession, pace: Pace, parameters: Body) -> None:
        super().__init__(session, pace, parameters)
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
