"""The Matrix channel: joins the wire, the events and the contract."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast
from uuid import uuid4

from channels.competing_instance import CompetingInstance
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
from channels.errors import Ambiguous, AuthFailed, ChannelError, NotReady, RateLimited, Rejected
from channels.matrix import MatrixSettings, render
from channels.matrix.account import Doubles, sign_in
from channels.matrix.client import MatrixClient, Pace
from channels.matrix.client_wire import Forbidden, SignedOut
from channels.matrix.rooms import Invitations, Rooms
from channels.matrix.sync import POSITION_ONLY, Listening
from channels.payloads import Body
from channels.platform_calls import downloaded, plain_name
from channels.registry import load
from channels.stale_typing import OpenIndicators

if TYPE_CHECKING:  # at run time only where encryption is on
    from channels.matrix.encryption import Encryption

CONNECT_WITHIN = 60.0  # seconds
TYPING = timedelta(seconds=30)
# Synapse forgets which transaction made which event after 24 hours.
WINDOW = timedelta(hours=23)
# Synapse lets a person send one event in five seconds (rc_message 0.2/s, burst 10) unless its owner
# says otherwise.
REVISE = timedelta(seconds=5)
SILENCE = timedelta(seconds=60)  # each sync is answered within half of it
MAX_FILE = 50 * 1024 * 1024  # bytes, when the homeserver does not say


class Matrix:
    """One account on one homeserver."""

    def __init__(
        self, settings: MatrixSettings, options: Options, pace: Pace | None = None
    ) -> None:
        self._settings = settings
        self._pace = pace or Pace()
        self._options = options
        self._account: str | None = None
        self._client: MatrixClient | None = None
        self._rooms: Rooms | None = None
        self._device = ""
        self._born: Body | None = (
            None  # the homeserver's answer, with its position, when we first connected
        )
        self._max_file = MAX_FILE
        self._competing = CompetingInstance(options.state, options.clock, options.since)
        self._indicators = OpenIndicators(options.state)

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
            silence=SILENCE,
        )

    @property
    def account(self) -> str:
        """The full user id."""
        if self._account is None:
            raise NotReady("matrix: not connected yet, so the account is not known")
        return self._account

    @property
    def wary(self) -> bool:
        return self._competing.rested is not None

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[None]:
        settings = self._settings
        if not settings.access_token and not settings.password:
            raise AuthFailed(
                "channels.matrix.access_token: missing; give an access token or a password"
            )
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                MatrixClient.open(settings.homeserver, settings.access_token or "", self._pace)
            )
            if self._options.state is None and not settings.access_token:
                stack.push_async_callback(_leave, client)  # a device nobody remembers
            try:
                async with asyncio.timeout(CONNECT_WITHIN):
                    await self._prove(client)
                    encryption = await self._unlock(client, stack)
            except TimeoutError as error:
                raise NotReady(
                    f"channels.matrix.homeserver: {settings.homeserver} did not answer in"
                    f" {CONNECT_WITHIN:.0f} s"
                ) from error
            self._client, self._rooms = client, Rooms(client, encryption)
            try:
                yield
            finally:
                self._client = self._rooms = None

    async def _prove(self, client: MatrixClient) -> None:
        settings = self._settings
        try:
            account, self._device = await sign_in(client, settings, self._options.state)
            if account != settings.user:
                raise AuthFailed(
                    f"channels.matrix.user: the access token belongs to {account}, not to"
                    f" {settings.user}"
                )
            if self._born is None:
                self._born = await client.sync(None, POSITION_ONLY, poll=0)
                self._born["next_batch"] = str(self._born["next_batch"])
            self._max_file = await client.largest_upload() or MAX_FILE
        except (Rejected, KeyError) as refused:
            raise NotReady(
                f"channels.matrix.homeserver: {settings.homeserver} does not answer like a Matrix"
                f" homeserver ({refused})"
            ) from refused
        self._account = account

    async def _unlock(self, client: MatrixClient, stack: AsyncExitStack) -> Encryption | None:
        """The device's keys. Without a folder to keep them in, encrypted rooms stay closed."""
        if not self._settings.encryption or self._options.state is None:
            return None
        try:
            made = cast(
                "type[Encryption]",
                await asyncio.to_thread(load, "channels.matrix.encryption:Encryption"),
            )
        except ImportError as error:
            raise AuthFailed(
                f"channels.matrix.encryption: {error}; install the extra: pip install 'ohmo[e2ee]',"
                " or set it to false"
            ) from error
        keys = self._options.state / "keys"
        try:
            return await stack.enter_async_context(
                made.open(keys, client, self.account, self._device, self._options.clock)
            )
        except Rejected as refused:
            raise NotReady(
                f"channels.matrix: the homeserver does not take the keys of {self._device}:"
                f" {refused}"
            ) from refused

    async def receive(self, context: ChannelContext) -> None:
        client, rooms = self._connected()
        assert self._born is not None, "connect() knows the position"
        for indicator in self._indicators.left():  # a killed life types on for half a minute
            room = indicator.partition(" ")[0]
            if not self._indicators.any(f"{room} "):
                with suppress(
                    Rejected, RateLimited
                ):  # we are no member any more, or the homeserver ends it by itself before we may
                    await client.typing(room, self.account, False, 0)
        await self._indicators.forget()
        invitations = Invitations(client, rooms, self.account, self._options.invited)
        doubles = Doubles(client, self.account, self._competing)
        try:
            await Listening(
                client, rooms, invitations, self.account, context, doubles, self._options.clock
            ).run(self._born)
        except SignedOut as out:
            if out.soft and not self._settings.access_token:
                raise NotReady(f"the homeserver asks for a new login ({out})") from out
            raise

    def render(self, outbound: Outbound) -> tuple[Part, ...]:
        return render.render(outbound)

    def mark(self, part: Part) -> Part:
        return render.mark(part)

    async def upload(self, part: Part) -> str:
        """In an encrypted room the homeserver gets scrambled bytes without a name; their key is in
        the handle."""
        payload = render.load(part)
        client, rooms = self._connected()
        content, path = payload["content"], Path(payload["path"])
        lock = await rooms.lock(payload["room"])
        if lock is None:
            mxc, size = await client.upload(path, content["filename"], content["info"]["mimetype"])
            return json.dumps({"mxc": mxc, "size": size})
        scrambling = lock.scrambling()
        mxc, size = await client.upload(path, None, "application/octet-stream", scrambling.through)
        return json.dumps({"size": size, "file": scrambling.file(mxc)})

    async def send(self, part: Part, key: str, handle: str | None = None) -> Receipt:
        """The key is the transaction id: the homeserver answers a repeat with the first event,
        however it was encrypted. An edit's receipt names what it edits. The payload stays as it was
        written; it is encrypted on its way."""
        payload = render.load(part)
        room = str(payload["room"])
        client, rooms = self._connected()
        self._competing.send(key)
        try:
            if part.kind == "delete":
                assert part.target is not None, "a deletion names its message"
                await client.redact(room, part.target, key)
                return Receipt(part.target)
            kind, content = await rooms.seal(
                room, payload["type"], await self._with_file(rooms, part, payload, handle)
            )
            event = await client.send(room, kind, key, content)
        except Forbidden:
            new = await rooms.successor(room)
            if new is None or part.kind != "post":
                raise
            return await self.send(render.moved(part, new), key)
        return Receipt(part.target if part.target is not None else MessageId(event))

    async def _with_file(self, rooms: Rooms, part: Part, payload: Body, handle: str | None) -> Body:
        if part.kind != "file":
            return payload["content"]
        if not handle:
            raise Rejected("matrix: a file is uploaded before it is sent")
        uploaded = json.loads(handle)
        if "file" not in uploaded and await rooms.lock(payload["room"]) is not None:
            raise Rejected(
                f"matrix: {payload['room']} became encrypted after the file was uploaded in plain;"
                " send it again"
            )
        return render.with_file(payload["content"], uploaded)

    async def find(
        self, address: Address, part: Part, key: str, handle: str | None, since: datetime
    ) -> Receipt | None:
        """Never needed: equal keys are folded (SAFE)."""
        raise Ambiguous("matrix: sends are not looked up, the homeserver folds equal keys")

    async def revise(self, address: Address, receipt: Receipt | None, text: str) -> None:
        if receipt is None:
            return  # Matrix has no previews
        part = render.revision(address.chat, receipt.message, text)
        await self.send(part, uuid4().hex[:20])

    async def fetch(self, attachment: Attachment, into: Path, limit: int) -> Path:
        client, rooms = self._connected()
        if not attachment.ref.startswith("{"):
            path = into / plain_name(attachment)
            return await downloaded(
                "Matrix",
                attachment,
                path,
                limit,
                lambda path, most: client.download(attachment.ref, path, most),
            )
        if rooms.encryption is None:
            raise Rejected("matrix: the file is encrypted; set channels.matrix.encryption: true")
        opening = rooms.encryption.opening(attachment.ref)

        async def download(path: Path, most: int) -> None:
            await client.download(opening.mxc, path, most, opening.through)
            opening.check()

        unchecked = await downloaded(
            "Matrix", attachment, into / f".{uuid4().hex}.part", limit, download
        )
        return unchecked.rename(into / plain_name(attachment))

    async def typing(self, address: Address, on: bool) -> None:
        """Matrix knows of a room whether we type in it, not of a thread: it ends with the last
        one."""
        client, _ = self._connected()
        indicator = f"{address.chat} {address.topic or ''}"
        if on:
            await self._indicators.on(indicator)
        else:
            await self._indicators.off(indicator)
        if on or not self._indicators.any(f"{address.chat} "):
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
        return Address(
            "matrix",
            self._account or self._settings.user,
            ChatId(chat),
            TopicId(topic) if topic else None,
        )

    def _connected(self) -> tuple[MatrixClient, Rooms]:
        if self._client is None or self._rooms is None:
            raise NotReady("matrix: not connected")
        return self._client, self._rooms


async def _leave(client: MatrixClient) -> None:
    with suppress(ChannelError):
        await client.logout()
