"""The wire to Telegram: the Bot API in plain JSON over one aiohttp session; python-telegram-bot is
imported with the first file that is sent (``uploads.py``). Every failure is one of ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import aiohttp

from channels.contract import MessageId, Receipt
from channels.errors import Ambiguous, AuthFailed, NotReady, RateLimited, Rejected
from channels.payloads import Body, Garbled
from channels.platform_calls import copied, proxy_for, save
from channels.record import record
from channels.telegram.updates import Moved, TwoPollers

if TYPE_CHECKING:
    from channels.telegram.uploads import Uploads

if find_spec("telegram") is None:  # said now, not with the first file
    raise ModuleNotFoundError("No module named 'telegram'", name="telegram")

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
        self._session: aiohttp.ClientSession | None = None
        self._uploads: Uploads | None = None

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=32, keepalive_timeout=60),
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=proxy_for(self._api_url),
        ) as session:
            self._session = session
            try:
                yield
            finally:
                self._session = None

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise NotReady("Telegram: not connected")
        return self._session

    async def who(self) -> tuple[int, str]:
        """Number and name of the bot (getMe). Raises AuthFailed, NotReady."""
        me = await self._call("getMe", {})
        with _shaped("getMe"):
            return int(me["id"]), me.get("username") or ""

    async def updates(self, offset: int | None, poll: int) -> list[object]:
        """getUpdates, of at most ``poll`` seconds; ``offset`` confirms everything below it. Updates
        stay as they came. Raises TwoPollers, AuthFailed, NotReady (Garbled), RateLimited."""
        asked = {"limit": 100, "timeout": poll, "allowed_updates": WANTED, "offset": offset}
        status, answer = await self._exchange("getUpdates", _json(asked), seconds=poll)
        try:
            updates = _result("getUpdates", status, answer)
            if not isinstance(updates, list):
                raise NotReady("Telegram: getUpdates gave no list")
        except NotReady as error:
            if status == 200:
                raise Garbled(str(error), answer) from error
            raise
        return cast("list[object]", updates)

    async def post(self, payload: Body) -> Receipt:
        """sendMessage. Of the message that comes back two numbers are read (Message: message_id,
        date). Raises Ambiguous when it may have been carried out."""
        message = await self._call("sendMessage", payload, once=True)
        with _shaped("sendMessage", once=True):
            at = datetime.fromtimestamp(message["date"], UTC)
            return Receipt(MessageId(str(int(message["message_id"]))), at)

    async def edit(self, payload: Body) -> None:
        """editMessageText; the text that stands there already is no failure."""
        await self._call("editMessageText", payload, already="message is not modified")

    async def delete(self, chat: int | str, message: int) -> None:
        """deleteMessage; a message that is gone already is no failure."""
        payload = {"chat_id": chat, "message_id": message}
        await self._call("deleteMessage", payload, already="message to delete not found")

    async def post_file(self, payload: Body) -> Receipt:
        """sendPhoto or sendDocument of ``payload["path"]``, streamed from the disk."""
        return await (await self._sdk()).one(payload)

    async def post_album(self, payload: Body) -> Receipt:
        """sendMediaGroup: photos together, or documents together. One call shows all of them or
        none; what is known of it is its first message."""
        return await (await self._sdk()).album(payload)

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
        shown = [{"command": name, "description": line} for name, line in commands]
        await self._call("setMyCommands", {"commands": shown})

    async def download(self, reference: str, path: Path, limit: int) -> None:
        """getFile, then the bytes into ``path``. Raises Rejected when there are more than
        ``limit``, or 20 MB, Telegram's own bound."""
        answer = await self._call("getFile", {"file_id": reference})
        with _shaped("getFile"):
            stored, size = str(answer.get("file_path") or ""), int(answer.get("file_size") or 0)
        if not stored or size > limit:
            raise Rejected(f"Telegram: the file has {size} bytes, {limit} are allowed")
        if self.own_server and stored.startswith("/"):
            # "Using a Local Bot API Server", --local: getFile names a file on the server's disk.
            if not await asyncio.to_thread(Path(stored).is_file):
                raise Rejected(
                    f"Telegram: the Bot API server keeps the file in {stored}, which is not"
                    " here: mount that folder at the same path"
                )
            return await copied("Telegram", Path(stored), path, limit)
        address = f"{self._api_url}/file/bot{self._token}/{stored}"
        timeout = aiohttp.ClientTimeout(
            sock_connect=self.pace.connect, sock_read=self.pace.call, total=self.pace.upload
        )
        failed = "Telegram: the file could not be fetched"
        try:
            async with self.session.get(address, timeout=timeout) as response:
                if response.status != 200:
                    raise NotReady(f"{failed}: HTTP {response.status}")
                await save("Telegram", response.content.iter_chunked(1 << 16), path, limit)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise NotReady(f"{failed}: {type(error).__name__}") from error

    @property
    def own_server(self) -> bool:
        return urlsplit(self._api_url).hostname != "api.telegram.org"

    async def _call(
        self, method: str, payload: Body, *, once: bool = False, already: str = ""
    ) -> Any:
        """``once``: a repeat would show a second message, so that a lost answer is Ambiguous
        instead of NotReady. ``already``: the refusal that says that it is so already."""
        status, answer = await self._exchange(method, _json(payload), once=once)
        try:
            return _result(method, status, answer, once=once)
        except Rejected as refused:
            if not already or already not in str(refused).lower():
                raise

    async def _exchange(
        self, method: str, body: Body, *, seconds: float | None = None, once: bool = False
    ) -> tuple[int, bytes]:
        """Status and bytes of the answer. ``body``: as aiohttp takes it."""
        total = (self.pace.call if seconds is None else seconds) + self.pace.connect
        timeout = aiohttp.ClientTimeout(sock_connect=self.pace.connect, total=total)
        address = f"{self._api_url}/bot{self._token}/{method}"
        try:
            async with self.session.post(address, timeout=timeout, **body) as response:
                return response.status, await response.read()
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            # not one byte of the call has left
            raise NotReady(f"Telegram: {method}: no connection: {error}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            text = f"Telegram: {method}: no answer: {type(error).__name__}"
            raise (Ambiguous if once else NotReady)(text) from error

    async def _sdk(self) -> Uploads:
        """Imported in a thread, 60 ms and 8 MB that a life without files saves."""
        if self._uploads is None:
            module = await asyncio.to_thread(import_module, "channels.telegram.uploads")
            uploads: type[Uploads] = module.Uploads
            self._uploads = uploads(self._token, f"{self._api_url}/bot", self._sent)
        return self._uploads

    async def _sent(self, method: str, form: aiohttp.FormData) -> bytes:
        """The bytes of an answer that carries a result. Raises ChannelError."""
        upload = self._exchange(method, {"data": form}, seconds=self.pace.upload, once=True)
        status, answer = await upload
        _result(method, status, answer, once=True)
        return answer


def _json(payload: Body) -> Body:
    """As the Bot API's documentation has it. None: not given."""
    given = {name: value for name, value in payload.items() if value is not None}
    return {"data": json.dumps(given).encode(), "headers": {"Content-Type": "application/json"}}


def _result(method: str, status: int, answer: bytes, *, once: bool = False) -> object:
    """``result`` of an answer (Telegram Bot API, "Making requests", ResponseParameters). ``once``:
    as for ``Wire``'s calls. Raises ChannelError."""
    lost = Ambiguous if once else NotReady
    try:
        read: object = json.loads(answer)
    except (ValueError, RecursionError):
        read = None
    body = cast("Body", read) if isinstance(read, dict) else {}
    if 200 <= status <= 299:
        if "result" not in body:
            raise lost(f"Telegram: {method}: no answer of the Bot API came back")
        return body["result"]
    told = str(body.get("description") or f"HTTP {status}")
    text = f"Telegram: {method}: {told}"
    match body.get("parameters"):
        case {"migrate_to_chat_id": int(chat)}:
            raise Moved(chat)
        case {"retry_after": int() | float() as wait}:
            raise RateLimited(float(wait))
        case _:
            pass
    match status:
        case 401 | 404:
            raise AuthFailed(
                "Telegram does not accept the token: ask @BotFather for /token and put it into"
                " channels.telegram.token"
            )
        case 400 | 403:
            raise Rejected(text)
        case 409:
            raise TwoPollers(
                f"Telegram: somebody else polls with this token, or a webhook is set: {told}"
            )
        case _:
            raise lost(text)


@contextmanager
def _shaped(method: str, *, once: bool = False) -> Generator[None]:
    """Around the reading of a result."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError) as error:
        kind = type(error).__name__
        text = f"Telegram: {method}: an answer that cannot be read came back: {kind}"
        raise (Ambiguous if once else NotReady)(text) from error
