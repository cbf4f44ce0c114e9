"""The wire to Telegram: the only file that knows python-telegram-bot, and the one that turns its
failures into ours."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import AsyncGenerator, Awaitable
from contextlib import ExitStack, asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any, TypeVar, cast
from urllib.parse import urlsplit

import aiohttp

from channels.errors import Ambiguous, AuthFailed, ChannelError, NotReady, RateLimited, Rejected
from channels.payloads import Garbled
from channels.platform_calls import proxy_for, save
from channels.record import record
from channels.telegram.client_http import LEAN, NotSent, Pace, Polling, Transport

with LEAN:
    from telegram import Bot, InputFile, InputMediaDocument, InputMediaPhoto, Message
    from telegram.error import (
        BadRequest,
        ChatMigrated,
        Conflict,
        Forbidden,
        InvalidToken,
        RetryAfter,
        TelegramError,
    )
    from telegram.warnings import PTBDeprecationWarning

Body = dict[str, Any]
Result = TypeVar("Result")

# The SDK writes whole bodies, and addresses with the token in them, on its lower levels.
logging.getLogger("telegram").setLevel(logging.ERROR)

# The SDK announces at every rate limit that retry_after will be a timedelta one day; failure()
# reads both.
warnings.filterwarnings(
    "ignore",
    message="(?s).*attribute `retry_after` will be of type",
    category=PTBDeprecationWarning,
)

# Only these are read, so only these are asked for (Telegram Bot API, getUpdates, allowed_updates).
WANTED = ("message", "edited_message", "callback_query", "message_reaction")


class TwoPollers(NotReady):
    """Somebody else polls with the same token (409)."""


class Moved(ChannelError):
    """The group became a supergroup (ResponseParameters, migrate_to_chat_id)."""

    def __init__(self, chat: int) -> None:
        super().__init__(f"Telegram: the group is now the supergroup {chat}")
        self.chat = chat


@record
class Sent:
    message: int
    at: datetime | None


class Wire:
    """The calls ohmo makes with one token. Every failure is a ChannelError; nothing is repeated
    here."""

    def __init__(self, token: str, api_url: str, pace: Pace) -> None:
        self.pace = pace
        self._token = token
        self._api_url = api_url
        self._bot: Bot | None = None
        self._polling: Polling | None = None
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        connector = aiohttp.TCPConnector(limit=32, keepalive_timeout=60)
        jar = aiohttp.DummyCookieJar()
        proxy = proxy_for(self._api_url)
        async with aiohttp.ClientSession(
            connector=connector, cookie_jar=jar, proxy=proxy
        ) as session:
            self._session = session
            self._polling = Polling(session, self.pace)
            self._bot = Bot(
                self._token,
                base_url=f"{self._api_url}/bot",
                base_file_url=f"{self._api_url}/file/bot",
                request=Transport(session, self.pace),
                get_updates_request=self._polling,
            )
            try:
                yield
            finally:
                self._bot = self._polling = self._session = None

    @property
    def bot(self) -> Bot:
        if self._bot is None:
            raise NotReady("Telegram: not connected")
        return self._bot

    async def who(self) -> tuple[int, str]:
        """Number and name of the bot (getMe). Raises AuthFailed, NotReady."""
        me = await self._asked("getMe", self.bot.get_me())
        return me.id, me.username or ""

    async def updates(self, offset: int | None, poll: int) -> list[object]:
        """One poll of at most ``poll`` seconds; ``offset`` confirms everything below it
        (getUpdates).

        Raises TwoPollers, AuthFailed, NotReady (Garbled), RateLimited."""
        bot, polling = self.bot, self._polling
        assert polling is not None
        try:
            await bot.get_updates(
                offset=offset, limit=100, timeout=poll, allowed_updates=WANTED, read_timeout=0
            )
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

    async def post(self, payload: Body) -> Sent:
        """sendMessage. Raises Ambiguous when it may have been carried out."""
        rest = dict(payload)
        call = self.bot.send_message(rest.pop("chat_id"), rest.pop("text"), api_kwargs=rest)
        return _sent(await self._told("sendMessage", call))

    async def edit(self, payload: Body) -> None:
        """editMessageText; the text that stands there already is no failure."""
        rest = dict(payload)
        call = self.bot.edit_message_text(
            rest.pop("text"), rest.pop("chat_id"), rest.pop("message_id"), api_kwargs=rest
        )
        try:
            await self._asked("editMessageText", call)
        except Rejected as refused:
            if "message is not modified" not in str(refused).lower():
                raise

    async def delete(self, chat: int | str, message: int) -> None:
        """deleteMessage; a message that is gone already is no failure."""
        try:
            await self._asked("deleteMessage", self.bot.delete_message(chat, message))
        except Rejected as refused:
            if "message to delete not found" not in str(refused).lower():
                raise

    async def post_file(self, payload: Body) -> Sent:
        """sendPhoto or sendDocument of ``payload["path"]``, streamed from the disk."""
        rest = dict(payload)
        path = Path(rest.pop("path"))
        chat = rest.pop("chat_id")
        name = rest.pop("name")
        photo = rest.pop("photo")
        with _content(path) as content:
            file = InputFile(content, filename=name, read_file_handle=False)
            send = self.bot.send_photo if photo else self.bot.send_document
            call = send(chat, file, api_kwargs=rest, read_timeout=self.pace.upload)
            return _sent(await self._told("sendPhoto" if photo else "sendDocument", call))

    async def post_album(self, payload: Body) -> Sent:
        """sendMediaGroup: photos together, or documents together. One call shows all of them or
        none; what is known of it is its first message."""
        rest = dict(payload)
        chat = rest.pop("chat_id")
        photo = rest.pop("photo")
        caption = rest.pop("caption", None)
        mode = rest.pop("parse_mode", None)
        with ExitStack() as stack:
            media: list[InputMediaPhoto | InputMediaDocument] = []
            kind = InputMediaPhoto if photo else InputMediaDocument
            for member in cast("list[Body]", rest.pop("album")):
                content = stack.enter_context(_content(Path(member["path"])))
                file = InputFile(
                    content, filename=member["name"], attach=True, read_file_handle=False
                )
                if caption and not media:
                    media.append(kind(file, caption=caption, parse_mode=mode))
                else:
                    media.append(kind(file))
            call = self.bot.send_media_group(
                chat, media, api_kwargs=rest, read_timeout=self.pace.upload
            )
            shown = await self._told("sendMediaGroup", call)
        if not shown:
            raise Ambiguous("Telegram: sendMediaGroup: no message came back")
        return _sent(shown[0])

    async def draft(self, chat: int, draft: int, text: str, topic: int | None) -> None:
        """sendMessageDraft: shown for 30 seconds in a private chat, then gone by itself."""
        await self._asked(
            "sendMessageDraft",
            self.bot.send_message_draft(chat, draft, text, topic, parse_mode="HTML"),
        )

    async def act(self, chat: int | str, topic: int | None) -> None:
        """sendChatAction "typing", five seconds long."""
        await self._asked(
            "sendChatAction", self.bot.send_chat_action(chat, "typing", message_thread_id=topic)
        )

    async def answer(self, query: str, text: str) -> None:
        await self._asked(
            "answerCallbackQuery", self.bot.answer_callback_query(query, text or None)
        )

    async def menu(self, commands: list[tuple[str, str]]) -> None:
        await self._asked("setMyCommands", self.bot.set_my_commands(commands))

    async def download(self, file: str, path: Path, limit: int) -> None:
        """getFile, then the bytes into ``path``. Raises Rejected when there are more than
        ``limit``, or 20 MB, Telegram's own bound."""
        answer = await self._asked("getFile", self.bot.get_file(file))
        if answer.file_path is None or (answer.file_size or 0) > limit:
            raise Rejected(f"Telegram: the file has {answer.file_size} bytes, {limit} are allowed")
        assert self._session is not None
        if self.own_server:
            # Using a Local Bot API Server, ``--local``: getFile names the file on the server's own
            # disk.
            root = f"{self._api_url}/file/bot{self._token}/"
            stored = answer.file_path.removeprefix(root)
            if stored.startswith("/") and stored != answer.file_path:
                raise Rejected(
                    f"Telegram: the Bot API server keeps the file in {stored}, which is not here:"
                    " mount that folder at the same path"
                )
            if stored.startswith("/"):  # the SDK saw it there
                await asyncio.to_thread(_copy, Path(stored), path, limit)
                return
        timeout = aiohttp.ClientTimeout(
            sock_connect=self.pace.connect, sock_read=self.pace.call, total=self.pace.upload
        )
        try:
            async with self._session.get(answer.file_path, timeout=timeout) as response:
                if response.status != 200:
                    raise NotReady(
                        f"Telegram: the file could not be fetched: HTTP {response.status}"
                    )
                await save("Telegram", response.content.iter_chunked(1 << 16), path, limit)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise NotReady(
                f"Telegram: the file could not be fetched: {type(error).__name__}"
            ) from error

    @property
    def own_server(self) -> bool:
        return urlsplit(self._api_url).hostname != "api.telegram.org"

    async def _asked(self, method: str, call: Awaitable[Result]) -> Result:
        """A call whose repeat is harmless."""
        return await _translated(method, call, once=False)

    async def _told(self, method: str, call: Awaitable[Result]) -> Result:
        """A call whose repeat would show a second message."""
        return await _translated(method, call, once=True)


async def _translated(method: str, call: Awaitable[Result], *, once: bool) -> Result:
    try:
        return await call
    except TelegramError as error:
        raise failure(method, error, once=once) from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        # The SDK met an answer of another shape.
        kind = type(error).__name__
        text = f"Telegram: {method}: an answer that cannot be read came back: {kind}"
        raise (Ambiguous if once else NotReady)(text) from error


def _content(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise Rejected(f"Telegram: {path} cannot be read: {error.strerror}") from error


def _copy(stored: Path, path: Path, limit: int) -> None:
    """Raises Rejected for more than ``limit`` bytes and for what cannot be read."""
    with _content(stored) as source, path.open("wb") as out:
        taken = 0
        while chunk := source.read(1 << 16):
            taken += len(chunk)
            if taken > limit:
                raise Rejected(f"Telegram: the file has more than {limit} bytes")
            out.write(chunk)


def _sent(message: Message) -> Sent:
    return Sent(message.message_id, message.date)


def failure(method: str, error: TelegramError, *, once: bool) -> ChannelError:
    """What an error of the SDK means for whoever called (Telegram Bot API, "Making requests" and
    ResponseParameters).

    ``once``: the call must not be carried out twice, so that a lost answer is Ambiguous instead of
    NotReady."""
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
