"""The wire: every call to the homeserver, with our own time limits and our own words for its failures.

Source: Matrix Client-Server API, "API Standards" (errors, transaction identifiers), "Syncing", "Content repository"."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientHandlerType,
    ClientOSError,
    ClientRequest,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    ConnectionTimeoutError,
    ServerDisconnectedError,
)
from mautrix.api import HTTPAPI, Method, PathBuilder
from mautrix.api import Path as ClientPath
from mautrix.errors import MatrixConnectionError
from yarl import URL

from channels.errors import Ambiguous, AuthFailed, ChannelError, NotReady, RateLimited, Rejected
from channels.quarantine import Garbled

Json = dict[str, Any]

WITHIN = 30.0  # seconds for an ordinary call
POLL = 30.0  # seconds the homeserver may hold a sync open
TRANSFER = 300.0  # seconds for the bytes of one file
CHUNK = 256 * 1024
DEFAULT_WAIT = 5.0  # seconds after a 429 that names none
SIGNED_OUT = {"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED", "M_USER_LOCKED", "M_USER_SUSPENDED"}
_MEDIA = PathBuilder("_matrix/media")


class Missing(Rejected):
    """The homeserver knows no such thing (404)."""


class Troubled(NotReady):
    """The homeserver answered, with an error of its own (5xx)."""


class _Answered(Exception):
    """The homeserver answered with an error."""

    def __init__(self, status: int, code: str, message: str, retry_after: float) -> None:
        super().__init__(f"HTTP {status} {code}: {message}"[:300])
        self.status = status
        self.code = code
        self.retry_after = retry_after


class _Unreadable(Exception):
    """The homeserver answered something that is not JSON."""

    def __init__(self, body: bytes) -> None:
        super().__init__("not JSON")
        self.body = body


class _Dropped(ClientError):
    """The connection broke after a request that changes something may have been sent."""


async def _only_once(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """aiohttp repeats a PUT over a dropped connection by itself; whether to repeat is for the house to say."""
    try:
        return await handler(request)
    except ClientConnectorError:
        raise
    except (ClientOSError, ServerDisconnectedError) as error:
        if request.method == "PUT":
            raise _Dropped(str(error)) from error
        raise


class _Wire(HTTPAPI):
    """mautrix's HTTP layer, but a 429 keeps its waiting time and nothing that people write is logged."""

    async def _send(
        self, method: Method, url: URL, content: Any, query_params: dict[str, str], headers: dict[str, str]
    ) -> tuple[Any, ClientResponse]:
        request = self.session.request(str(method), url, data=content, params=query_params, headers=headers)
        async with request as response:
            if 200 <= response.status < 300:
                body = await response.read()
                try:
                    return json.loads(body), response
                except (ValueError, RecursionError) as error:
                    raise _Unreadable(body) from error
            raise await _answered(response)

    def _log_request(self, *_: Any, **__: Any) -> None:
        """Nothing."""

    def _log_request_done(self, *_: Any, **__: Any) -> None:
        """Nothing."""

    async def ask(
        self, method: Method, path: PathBuilder, content: Any, headers: dict[str, str] | None, query: dict[str, str] | None
    ) -> object:
        """``request``, whose answer has no type."""
        return await self.request(method, path, content, headers, query)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


async def _answered(response: ClientResponse) -> _Answered:
    try:
        said = json.loads(await response.read())
    except (ValueError, RecursionError):
        said = None
    body = cast("Json", said) if isinstance(said, dict) else {}
    return _Answered(response.status, str(body.get("errcode", "")), str(body.get("error", "")), _wait(body, response))


def _wait(body: Json, response: ClientResponse) -> float:
    """Seconds; the body's ``retry_after_ms`` is deprecated for the Retry-After header, homeservers send either."""
    milliseconds, header = body.get("retry_after_ms"), response.headers.get("Retry-After", "")
    if isinstance(milliseconds, int | float) and milliseconds > 0:
        return milliseconds / 1000
    return float(header) if header.isdigit() and int(header) > 0 else DEFAULT_WAIT


class MatrixClient:
    """Raises ChannelError only. ``send`` and ``redact`` raise Ambiguous where the others raise NotReady."""

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire

    @classmethod
    @asynccontextmanager
    async def open(cls, homeserver: str, token: str) -> AsyncGenerator[MatrixClient]:
        timeout = ClientTimeout(total=None, sock_connect=10)  # each call carries its own limit
        async with ClientSession(timeout=timeout, headers={"User-Agent": "ohmo"}, middlewares=(_only_once,)) as session:
            yield cls(_Wire(homeserver, token, client_session=session, default_retry_count=0))

    async def login(self, user: str, password: str, device: str) -> None:
        """One device for ever: its transaction ids stay known to the homeserver across logins."""
        content = {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": user},
            "password": password,
            "device_id": device,
            "initial_device_display_name": "ohmo",
        }
        try:
            answer = await self._call(Method.POST, ClientPath.v3.login, content)
        except Rejected as refused:
            raise AuthFailed(str(refused)) from refused
        self._wire.token = str(answer.get("access_token", ""))

    async def whoami(self) -> str:
        return str((await self._call(Method.GET, ClientPath.v3.account.whoami)).get("user_id", ""))

    async def sync(self, since: str | None, filters: str, *, poll: float = POLL) -> Json:
        query = {"filter": filters, "timeout": str(int(poll * 1000)), **({"since": since} if since else {})}
        return await self._call(Method.GET, ClientPath.v3.sync, query=query, within=poll + WITHIN)

    async def messages(self, room: str, start: str, end: str, filters: str) -> Json:
        """One page backwards from ``start``, not beyond ``end``."""
        query = {"dir": "b", "from": start, "to": end, "limit": "100", "filter": filters}
        return await self._call(Method.GET, ClientPath.v3.rooms[room].messages, query=query)

    async def event(self, room: str, event: str) -> Json | None:
        """None: it is not there for us, or the homeserver cannot serve it."""
        try:
            return await self._call(Method.GET, ClientPath.v3.rooms[room].event[event])
        except (Rejected, Troubled):
            return None

    async def joined_members(self, room: str) -> dict[str, Any]:
        answer = await self._call(Method.GET, ClientPath.v3.rooms[room].joined_members)
        joined = answer.get("joined")
        return cast("dict[str, Any]", joined) if isinstance(joined, dict) else {}

    async def is_encrypted(self, room: str) -> bool:
        try:
            await self._call(Method.GET, ClientPath.v3.rooms[room].state["m.room.encryption"])
        except Missing:
            return False
        return True

    async def account_data(self, user: str, kind: str) -> Json:
        try:
            return await self._call(Method.GET, ClientPath.v3.user[user].account_data[kind])
        except Missing:
            return {}

    async def join(self, room: str) -> None:
        await self._call(Method.POST, ClientPath.v3.join[room], {})

    async def leave(self, room: str, reason: str) -> None:
        await self._call(Method.POST, ClientPath.v3.rooms[room].leave, {"reason": reason})

    async def send(self, room: str, kind: str, transaction: str, content: Json) -> str:
        path = ClientPath.v3.rooms[room].send[kind][transaction]
        return _event_id(await self._call(Method.PUT, path, content, shows=True))

    async def redact(self, room: str, event: str, transaction: str) -> str:
        path = ClientPath.v3.rooms[room].redact[event][transaction]
        return _event_id(await self._call(Method.PUT, path, {}, shows=True))

    async def typing(self, room: str, user: str, on: bool, milliseconds: int) -> None:
        content = {"typing": True, "timeout": milliseconds} if on else {"typing": False}
        await self._call(Method.PUT, ClientPath.v3.rooms[room].typing[user], content)

    async def largest_upload(self) -> int | None:
        """Bytes; None: the homeserver does not say."""
        for path in (ClientPath.v1.media.config, _MEDIA.v3.config):
            try:
                size = (await self._call(Method.GET, path)).get("m.upload.size")
            except Rejected:
                continue
            return size if isinstance(size, int) else None
        return None

    async def upload(self, path: Path, name: str, media_type: str) -> tuple[str, int]:
        """The mxc address and the size in bytes."""
        try:
            file = await asyncio.to_thread(path.open, "rb")
        except OSError as error:
            raise Rejected(f"{path}: {error.strerror}; the file cannot be sent") from error
        try:
            size = await asyncio.to_thread(file.seek, 0, 2)
            await asyncio.to_thread(file.seek, 0)
            headers = {"Content-Type": media_type, "Content-Length": str(size)}
            answer = await self._call(
                Method.POST, _MEDIA.v3.upload, _read(file), query={"filename": name}, headers=headers, within=TRANSFER
            )
        finally:
            file.close()
        return str(answer.get("content_uri", "")), size

    async def download(self, mxc: str, into: Path, limit: int) -> None:
        """Authenticated media first; homeservers before Matrix 1.11 know only the open path."""
        for authenticated in (True, False):
            try:
                url = self._wire.get_download_url(mxc, authenticated=authenticated)
            except ValueError as error:
                raise Rejected(f"{mxc} is not an mxc:// address") from error
            try:
                return await self._download(url, into, limit)
            except Missing:
                if not authenticated:
                    raise
        return None

    async def _download(self, url: URL, into: Path, limit: int) -> None:
        headers = {"Authorization": f"Bearer {self._wire.token}"}
        try:
            async with asyncio.timeout(TRANSFER), self._wire.session.get(url, headers=headers) as response:
                if response.status != 200:
                    raise _failure(await _answered(response), shows=False)
                await _write(response, into, limit)
        except (ClientError, TimeoutError, OSError) as error:
            raise NotReady(f"the homeserver did not send the file: {error!r}") from error

    async def _call(
        self,
        method: Method,
        path: PathBuilder,
        content: Any = None,
        *,
        query: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        within: float = WITHIN,
        shows: bool = False,  # other people see what this call does: an unknown end is Ambiguous
    ) -> Json:
        unknown = Ambiguous if shows else NotReady
        try:
            async with asyncio.timeout(within):
                answer = await self._wire.ask(method, path, content, headers, query)
        except _Answered as answered:
            raise _failure(answered, shows) from answered
        except MatrixConnectionError as error:
            if isinstance(error.__cause__, ClientConnectorError | ConnectionTimeoutError):
                raise NotReady(f"the homeserver {self._wire.base_url} cannot be reached: {error}") from error
            raise unknown(f"the connection to {self._wire.base_url} broke: {error}") from error
        except TimeoutError as error:
            raise unknown(f"the homeserver {self._wire.base_url} did not answer within {within:.0f} s") from error
        except _Unreadable as error:
            text = f"the homeserver {self._wire.base_url} answered something that is not JSON"
            raise (Ambiguous(text) if shows else Garbled(text, error.body)) from error
        if not isinstance(answer, dict):
            text = f"the homeserver {self._wire.base_url} answered something unexpected"
            raise Ambiguous(text) if shows else Garbled(text, answer)
        return cast("Json", answer)


def _failure(answered: _Answered, shows: bool) -> ChannelError:
    """What the homeserver's answer means. Source: Client-Server API, "Standard error response"."""
    if answered.status == 429 or answered.code == "M_LIMIT_EXCEEDED":
        return RateLimited(answered.retry_after)
    if answered.status == 401 or answered.code in SIGNED_OUT:
        return AuthFailed(f"the homeserver does not accept the credentials ({answered})")
    if answered.status >= 500:
        return Ambiguous(str(answered)) if shows else Troubled(str(answered))
    if answered.code == "M_RESOURCE_LIMIT_EXCEEDED":
        return NotReady(str(answered))
    return Missing(str(answered)) if answered.status == 404 else Rejected(str(answered))


def _event_id(answer: Json) -> str:
    event = answer.get("event_id")
    if not isinstance(event, str):
        raise Ambiguous("the homeserver answered a send without an event id")
    return event


async def _read(file: BinaryIO) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(file.read, CHUNK):
        yield chunk


async def _write(response: ClientResponse, into: Path, limit: int) -> None:
    """A file that is too large, or cut off, leaves nothing behind."""
    size = 0
    whole = False
    file = await asyncio.to_thread(into.open, "wb")
    try:
        async for chunk in response.content.iter_chunked(CHUNK):
            size += len(chunk)
            if size > limit:
                raise Rejected(f"{into.name} is larger than {limit} bytes")
            await asyncio.to_thread(file.write, chunk)
        whole = True
    finally:
        file.close()
        if not whole:
            into.unlink(missing_ok=True)  # noqa: ASYNC240 - must also happen when cancelled
