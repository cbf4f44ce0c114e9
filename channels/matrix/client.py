"""What ohmo asks of a homeserver.

Source: Matrix Client-Server API, "API Standards" (transaction identifiers), "Syncing", "Content
repository", "End-to-end encryption"."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO, cast

from aiohttp import ClientError, ClientSession, ClientTimeout
from mautrix.api import Method, PathBuilder
from mautrix.api import Path as ClientPath

from channels.errors import Ambiguous, AuthFailed, NotReady, Rejected
from channels.matrix.client_wire import Missing, Troubled, Wire, answered_by, failure
from channels.no_retry import NoRetry
from channels.payloads import Body, soft
from channels.platform_calls import proxy_for
from channels.record import record

TRANSFER = 300.0  # seconds for the bytes of one file
CHUNK = 256 * 1024
Through = Callable[[bytes], bytes]
_MEDIA = PathBuilder("_matrix/media")


@record
class Pace:
    """How long the wire waits, in seconds. A homeserver that went mute in the middle of a sync is
    given up after ``poll`` and twice ``slack``."""

    poll: float = 25.0  # the homeserver may hold a sync open for so long
    slack: float = 15.0  # the answer of a sync may come so much later
    # the first one, whose homeserver has to gather what was said in all rooms meanwhile, may take
    # so long
    catch_up: float = 60.0
    ask: float = 5.0  # between two questions whether another ohmo is there
    soon: float = 0.25  # the next try after one sync that failed, at most; doubled after the next


def _as_it_is(chunk: bytes) -> bytes:
    return chunk


class MatrixClient:
    """Raises ChannelError only. ``send`` and ``redact`` raise Ambiguous where the others raise
    NotReady."""

    def __init__(self, wire: Wire, pace: Pace) -> None:
        self._wire = wire
        self.pace = pace

    @classmethod
    @asynccontextmanager
    async def open(cls, homeserver: str, token: str, pace: Pace) -> AsyncGenerator[MatrixClient]:
        timeout = ClientTimeout(total=None, sock_connect=10)  # each call carries its own limit
        once, proxy = NoRetry(never={"PUT"}), proxy_for(homeserver)
        async with ClientSession(
            timeout=timeout, headers={"User-Agent": "ohmo"}, middlewares=(once,), proxy=proxy
        ) as session:
            yield cls(Wire(homeserver, token, client_session=session, default_retry_count=0), pace)

    @property
    def token(self) -> str:
        return self._wire.token

    def use(self, token: str) -> None:
        self._wire.token = token

    async def login(self, user: str, password: str, device: str) -> None:
        """One device for ever: its transaction ids stay known to the homeserver across logins, and
        so do its keys."""
        content = {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": user},
            "password": password,
            "device_id": device,
            "initial_device_display_name": "ohmo",
        }
        self._wire.token = ""
        try:
            answer = await self._wire.call(Method.POST, ClientPath.v3.login, content)
        except Rejected as refused:
            raise AuthFailed(str(refused)) from refused
        self._wire.token = str(answer.get("access_token", ""))

    async def logout(self) -> None:
        await self._wire.call(Method.POST, ClientPath.v3.logout, {})

    async def whoami(self) -> tuple[str, str]:
        """User and device of the token."""
        answer = await self._wire.call(Method.GET, ClientPath.v3.account.whoami)
        return str(answer.get("user_id", "")), str(answer.get("device_id", ""))

    async def sync(
        self, since: str | None, filters: str, *, poll: float, patience: float | None = None
    ) -> Body:
        """``poll``: seconds the homeserver may wait for news; ``patience``: how much later its
        answer may come, ``slack`` unless said otherwise."""
        query = {"filter": filters, "timeout": str(int(poll * 1000))}
        if since:
            query["since"] = since
        within = poll + (patience or self.pace.slack)
        return await self._wire.call(Method.GET, ClientPath.v3.sync, query=query, within=within)

    async def messages(self, room: str, start: str, end: str, filters: str) -> Body:
        """One page backwards from ``start``, not beyond ``end``."""
        query = {"dir": "b", "from": start, "to": end, "limit": "100", "filter": filters}
        return await self._wire.call(Method.GET, ClientPath.v3.rooms[room].messages, query=query)

    async def event(self, room: str, event: str) -> Body | None:
        """None: it is not there for us, or the homeserver cannot serve it."""
        try:
            return await self._wire.call(Method.GET, ClientPath.v3.rooms[room].event[event])
        except (Rejected, Troubled):
            return None

    async def joined_members(self, room: str) -> Body:
        answer = await self._wire.call(Method.GET, ClientPath.v3.rooms[room].joined_members)
        return soft(answer, "joined")

    async def members(self, room: str) -> list[Body]:
        """The member events of those who are in the room or on their way."""
        answer = await self._wire.call(
            Method.GET, ClientPath.v3.rooms[room].members, query={"not_membership": "leave"}
        )
        chunk: object = answer.get("chunk")
        events = cast("list[object]", chunk) if isinstance(chunk, list) else []
        return [cast("Body", event) for event in events if isinstance(event, dict)]

    async def state(self, room: str, kind: str) -> Body | None:
        """The content of a state event without a key; None: the room has none."""
        try:
            return await self._wire.call(Method.GET, ClientPath.v3.rooms[room].state[kind])
        except Missing:
            return None

    async def account_data(self, user: str, kind: str) -> Body:
        try:
            return await self._wire.call(Method.GET, ClientPath.v3.user[user].account_data[kind])
        except Missing:
            return {}

    async def set_account_data(self, user: str, kind: str, content: Body) -> None:
        await self._wire.call(Method.PUT, ClientPath.v3.user[user].account_data[kind], content)

    async def join(self, room: str, through: str = "") -> None:
        """``through``: a homeserver that knows the room."""
        query = {"server_name": through} if through else None
        await self._wire.call(Method.POST, ClientPath.v3.join[room], {}, query=query)

    async def leave(self, room: str, reason: str) -> None:
        await self._wire.call(Method.POST, ClientPath.v3.rooms[room].leave, {"reason": reason})

    async def send(self, room: str, kind: str, transaction: str, content: Body) -> str:
        path = ClientPath.v3.rooms[room].send[kind][transaction]
        return _event_id(await self._wire.call(Method.PUT, path, content, shows=True))

    async def redact(self, room: str, event: str, transaction: str) -> str:
        path = ClientPath.v3.rooms[room].redact[event][transaction]
        return _event_id(await self._wire.call(Method.PUT, path, {}, shows=True))

    async def has_read(self, room: str, event: str) -> None:
        """Moves the read marker and the receipt others see."""
        content = {"m.fully_read": event, "m.read": event}
        await self._wire.call(Method.POST, ClientPath.v3.rooms[room].read_markers, content)

    async def typing(self, room: str, user: str, on: bool, milliseconds: int) -> None:
        content = {"typing": True, "timeout": milliseconds} if on else {"typing": False}
        await self._wire.call(Method.PUT, ClientPath.v3.rooms[room].typing[user], content)

    async def upload_keys(self, content: Body) -> None:
        await self._wire.call(Method.POST, ClientPath.v3.keys.upload, content)

    async def query_keys(self, users: Sequence[str]) -> Body:
        """Devices by user, those of homeservers that did not answer left out."""
        content: Body = {"device_keys": {user: [] for user in users}}
        answer = await self._wire.call(Method.POST, ClientPath.v3.keys.query, content)
        return soft(answer, "device_keys")

    async def claim_keys(self, devices: Mapping[str, Sequence[str]]) -> Body:
        """A one-time key of each device, by user and device."""
        keys = {user: dict.fromkeys(names, "signed_curve25519") for user, names in devices.items()}
        content = {"one_time_keys": keys}
        answer = await self._wire.call(Method.POST, ClientPath.v3.keys.claim, content)
        return soft(answer, "one_time_keys")

    async def to_devices(
        self, kind: str, transaction: str, messages: Mapping[str, Mapping[str, Body]]
    ) -> None:
        path = ClientPath.v3.sendToDevice[kind][transaction]
        await self._wire.call(Method.PUT, path, {"messages": messages})

    async def largest_upload(self) -> int | None:
        """Bytes; None: the homeserver does not say."""
        for path in (ClientPath.v1.media.config, _MEDIA.v3.config):
            try:
                size = (await self._wire.call(Method.GET, path)).get("m.upload.size")
            except Rejected:
                continue
            if isinstance(size, int):
                return size
            return None
        return None

    async def upload(
        self, path: Path, name: str | None, media_type: str, through: Through = _as_it_is
    ) -> tuple[str, int]:
        """The mxc address and the size in bytes. ``through`` changes the bytes, not their number;
        ``name`` None: the homeserver is told none."""
        try:
            file = await asyncio.to_thread(path.open, "rb")
        except OSError as error:
            raise Rejected(f"{path}: {error.strerror}; the file cannot be sent") from error
        try:
            size = await asyncio.to_thread(file.seek, 0, 2)
            await asyncio.to_thread(file.seek, 0)
            headers = {"Content-Type": media_type, "Content-Length": str(size)}
            answer = await self._wire.call(
                Method.POST,
                _MEDIA.v3.upload,
                _read(file, through),
                query={"filename": name} if name else None,
                headers=headers,
                within=TRANSFER,
            )
        finally:
            file.close()
        return str(answer.get("content_uri", "")), size

    async def download(
        self, mxc: str, into: Path, limit: int, through: Through = _as_it_is
    ) -> None:
        """Authenticated media first; homeservers before Matrix 1.11 know only the open path."""
        for authenticated in (True, False):
            try:
                url = self._wire.get_download_url(mxc, authenticated=authenticated)
            except ValueError as error:
                raise Rejected(f"{mxc} is not an mxc:// address") from error
            headers = {"Authorization": f"Bearer {self._wire.token}"}
            get = self._wire.session.get(url, headers=headers)
            try:
                async with asyncio.timeout(TRANSFER), get as response:
                    if response.status != 200:
                        raise failure(await answered_by(response), shows=False)
                    size = 0
                    file = await asyncio.to_thread(into.open, "wb")
                    try:
                        async for chunk in response.content.iter_chunked(CHUNK):
                            size += len(chunk)
                            if size > limit:
                                raise Rejected(f"{into.name} is larger than {limit} bytes")
                            content = await asyncio.to_thread(through, chunk)
                            await asyncio.to_thread(file.write, content)
                    finally:
                        file.close()
                return
            except Missing:
                if not authenticated:
                    raise
            except (ClientError, TimeoutError, OSError) as error:
                raise NotReady(f"the homeserver did not send the file: {error!r}") from error


def _event_id(answer: Body) -> str:
    event = answer.get("event_id")
    if not isinstance(event, str):
        raise Ambiguous("the homeserver answered a send without an event id")
    return event


async def _read(file: BinaryIO, through: Through) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(lambda: through(file.read(CHUNK))):
        yield chunk
