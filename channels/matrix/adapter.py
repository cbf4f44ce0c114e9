"""The Matrix channel: joins the wire, the events and the contract."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

from channels.contract import (
    Address,
    Answer,
    Attachment,
    Capabilities,
    ChannelContext,
    ChatId,
    MessageId,
    Options,
    Outbound,
    Part,
    Receipt,
    Repeat,
    TopicId,
)
from channels.errors import Ambiguous, AuthFailed, NotReady, RateLimited, Rejected
from channels.matrix import render
from channels.matrix.client import MatrixClient
from channels.matrix.settings import MatrixSettings
from channels.matrix.sync import POSITION_ONLY, Listening, Rooms

CONNECT_WITHIN = 60.0  # seconds
DEVICE = "OHMO"  # of logins by password
TYPING = timedelta(seconds=30)
# Synapse forgets which transaction made which event after 24 hours.
WINDOW = timedelta(hours=23)
# Synapse lets a person send one event in five seconds (rc_message 0.2/s, burst 10) unless its owner says otherwise.
REVISE = timedelta(seconds=5)
MAX_FILE = 50 * 1024 * 1024  # bytes, when the homeserver does not say


class Matrix:
    """One account on one homeserver."""

    def __init__(self, settings: MatrixSettings, options: Options) -> None:
        self._settings = settings
        self._options = options
        self._account: str | None = None
        self._client: MatrixClient | None = None
        self._rooms: Rooms | None = None
        self._born: str | None = None  # the homeserver's position when we first connected
        self._max_file = MAX_FILE

    @property
    def capabilities(self) -> Capabilities:
        edits = self._options.streaming in {None, "edits"}
        return Capabilities(
            repeat=Repeat.SAFE,
            repeat_window=WINDOW,
            max_text=render.MAX_TEXT,
            revise=REVISE if edits else None,
            topics=True,
            typing=TYPING,
            max_file=self._max_file,
        )

    @property
    def account(self) -> str:
        """The full user id."""
        if self._account is None:
            raise NotReady("matrix: not connected yet, so the account is not known")
        return self._account

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[None]:
        settings = self._settings
        if settings.encryption:
            raise AuthFailed("channels.matrix.encryption: true comes later; set it to false and use rooms without encryption")
        if not settings.access_token and not settings.password:
            raise AuthFailed("channels.matrix.access_token: missing; give an access token or a password")
        async with MatrixClient.open(settings.homeserver, settings.access_token or "") as client:
            try:
                async with asyncio.timeout(CONNECT_WITHIN):
                    await self._prove(client)
            except TimeoutError as error:
                raise NotReady(f"channels.matrix.homeserver: {settings.homeserver} did not answer in {CONNECT_WITHIN:.0f} s") from error
            self._client, self._rooms = client, Rooms(client)
            try:
                yield
            finally:
                self._client = self._rooms = None

    async def _prove(self, client: MatrixClient) -> None:
        settings = self._settings
        try:
            if not settings.access_token:
                await client.login(settings.user, settings.password or "", DEVICE)
            account = await client.whoami()
            if account != settings.user:
                raise AuthFailed(f"channels.matrix.user: the access token belongs to {account}, not to {settings.user}")
            if self._born is None:
                self._born = str((await client.sync(None, POSITION_ONLY, poll=0))["next_batch"])
            self._max_file = await client.largest_upload() or MAX_FILE
        except (Rejected, KeyError) as refused:
            raise NotReady(
                f"channels.matrix.homeserver: {settings.homeserver} does not answer like a Matrix homeserver ({refused})"
            ) from refused
        except RateLimited as limited:
            raise NotReady(f"channels.matrix: the homeserver asks us to wait {limited.retry_after:.0f} s before connecting") from limited
        self._account = account

    async def receive(self, context: ChannelContext) -> None:
        client, rooms = self._connected()
        assert self._born is not None, "connect() knows the position"
        await Listening(client, rooms, self.account, context, self._options.clock).run(self._born)

    def render(self, outbound: Outbound) -> tuple[Part, ...]:
        return render.render(outbound)

    def mark(self, part: Part) -> Part:
        return render.mark(part)

    async def upload(self, part: Part) -> str:
        payload = render.load(part)
        client, rooms = self._connected()
        await self._refuse_encrypted(rooms, payload["room"])
        content = payload["content"]
        mxc, size = await client.upload(Path(payload["path"]), content["filename"], content["info"]["mimetype"])
        return json.dumps({"mxc": mxc, "size": size})

    async def send(self, part: Part, key: str, handle: str | None = None) -> Receipt:
        """The key is the transaction id: the homeserver answers a repeat with the first event. An edit's receipt names what it edits."""
        payload = render.load(part)
        room = str(payload["room"])
        client, rooms = self._connected()
        if part.kind == "delete":
            assert part.target is not None, "a deletion names its message"
            await client.redact(room, part.target, key)
            return Receipt(part.target)
        await self._refuse_encrypted(rooms, room)
        content = payload["content"]
        if part.kind == "file":
            if not handle:
                raise Rejected("matrix: a file is uploaded before it is sent")
            held = json.loads(handle)
            content = render.with_file(content, held["mxc"], held["size"])
        event = await client.send(room, payload["type"], key, content)
        return Receipt(part.target if part.target is not None else MessageId(event))

    async def find(self, address: Address, part: Part, key: str, handle: str | None, since: datetime) -> Receipt | None:  # noqa: ARG002
        """Never needed: equal keys are folded (SAFE)."""
        raise Ambiguous("matrix: sends are not looked up, the homeserver folds equal keys")

    async def revise(self, address: Address, receipt: Receipt | None, text: str) -> None:
        if receipt is None:
            return  # Matrix has no previews
        part = render.revision(address.chat, receipt.message, text)
        await self.send(part, uuid4().hex[:20])

    async def fetch(self, attachment: Attachment, into: Path, limit: int) -> Path:
        client, _ = self._connected()
        name = Path(attachment.name.replace("\\", "/")).name.lstrip(".")[-100:]
        path = into / (name or "file")
        await client.download(attachment.ref, path, limit)
        return path

    async def typing(self, address: Address, on: bool) -> None:
        client, _ = self._connected()
        await client.typing(address.chat, self.account, on, int(TYPING.total_seconds() * 1000))

    async def acknowledge(self, answer: Answer, text: str) -> None:
        """Matrix has no buttons, so nothing waits for this."""

    async def menu(self, commands: Sequence[tuple[str, str]]) -> None:
        """Matrix has no command menu."""

    def parse_address(self, text: str) -> Address:
        """``!room:server`` or, for a thread, ``!room:server/$event``."""
        chat, slash, topic = text.partition("/")
        if not chat.startswith("!") or len(chat) < 2 or (slash and not topic.startswith("$")):
            raise ValueError(f"{text!r}: a Matrix address is !room:server or !room:server/$thread")
        return Address("matrix", self._account or self._settings.user, ChatId(chat), TopicId(topic) if topic else None)

    async def _refuse_encrypted(self, rooms: Rooms, room: str) -> None:
        if await rooms.is_encrypted(room):
            raise Rejected(f"matrix: {room} is encrypted, and nothing is sent there unencrypted; encryption comes later")

    def _connected(self) -> tuple[MatrixClient, Rooms]:
        if self._client is None or self._rooms is None:
            raise NotReady("matrix: not connected")
        return self._client, self._rooms
