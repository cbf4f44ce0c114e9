"""Somebody with an encrypting client of their own: mautrix's OlmMachine on libolm, another machine
on another library than ohmo's, moved on one sync at a time. Imported where libolm is:
tests/parts.py."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from mautrix.api import HTTPAPI, Method
from mautrix.api import Path as ClientPath
from mautrix.client import Client
from mautrix.client.state_store import MemoryStateStore
from mautrix.crypto import OlmMachine
from mautrix.crypto.account import OlmAccount
from mautrix.crypto.attachments import decrypt_attachment, encrypt_attachment
from mautrix.crypto.sessions import Session
from mautrix.crypto.store import MemoryCryptoStore, StateStore
from mautrix.errors import DecryptionError
from mautrix.types import EncryptedEvent, EventType, TrustState

from tests.platforms.matrix.synapse import Account


class Rooms(MemoryStateStore, StateStore):
    async def find_shared_rooms(self, user_id: str) -> list[str]:
        return [
            room
            for room, members in self.members.items()
            if user_id in members and self.encryption.get(room)
        ]


class Person:
    """``open`` before anything else. Nothing moves by itself: ``sync`` brings keys, rooms and
    devices."""

    def __init__(self, url: str, account: Account) -> None:
        self.account = account
        self.api = HTTPAPI(url, account.token, default_retry_count=0)
        self.rooms = Rooms()
        self.client = Client(account.user, account.device, api=self.api, state_store=self.rooms)
        self.keys = MemoryCryptoStore(account.user, "pickle")
        self.machine = OlmMachine(self.client, self.keys, self.rooms)
        self.client.crypto = self.machine
        self.generous = False  # hands out its keys to whoever asks
        self._numbers = itertools.count()
        self._since: str | None = None

    async def was(self, account: str, session: str, key: str, curve: str) -> None:
        """Before ``open``: libolm's pickles of the device, and of its session with the device
        ``curve``."""
        began = datetime.now(UTC).replace(tzinfo=None)  # as mautrix writes it
        await self.keys.put_account(OlmAccount.from_pickle(account.encode(), key, shared=False))
        await self.keys.add_session(curve, Session.from_pickle(session.encode(), key, began))

    async def open(self) -> None:
        async def allow(device: Any, request: Any) -> bool:
            return self.generous

        self.machine.allow_key_share = allow
        self.machine.share_keys_min_trust = TrustState.UNVERIFIED
        await self.machine.load()
        await self.machine.share_keys(0)
        await self.sync()

    async def close(self) -> None:
        await self.api.session.close()

    async def sync(self) -> None:
        """One sync, and everything it sets in motion."""
        answer = await self.client.sync(since=self._since, timeout=0)
        before = asyncio.all_tasks()
        await asyncio.gather(*self.client.handle_sync(answer))
        while tasks := [
            one
            for one in asyncio.all_tasks() - before
            if one is not asyncio.current_task() and _of_mautrix(one)
        ]:
            await asyncio.wait(tasks)
        self._since = answer["next_batch"]

    async def until(self, look: Callable[[], Awaitable[Any]]) -> Any:
        """Syncs until ``look`` gives something."""
        async with asyncio.timeout(30):
            while not (found := await look()):
                await self.sync()
        return found

    async def says(self, room: str, content: dict[str, Any], kind: str = "m.room.message") -> str:
        """Encrypted, whatever the room is."""
        await self.sync()
        sealed = (
            await self.client.encrypt(room, EventType.find(kind, EventType.Class.MESSAGE), content)
        ).serialize()
        return await self.puts(room, "m.room.encrypted", sealed)

    async def puts(self, room: str, kind: str, content: dict[str, Any]) -> str:
        path = ClientPath.v3.rooms[room].send[kind][f"{secrets.token_hex(4)}{next(self._numbers)}"]
        return (await self.api.request(Method.PUT, path, content))["event_id"]

    async def reads(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """The event inside of an encrypted one; None: its key is not there (yet)."""
        try:
            return (
                await self.machine.decrypt_megolm_event(EncryptedEvent.deserialize(event))
            ).serialize()
        except DecryptionError:
            return None

    async def hears(self, room: str, event: str) -> dict[str, Any]:
        """What an event says, as soon as its key is there."""
        raw = await self.api.request(Method.GET, ClientPath.v3.rooms[room].event[event])
        assert raw["type"] == "m.room.encrypted", f"it was sent in plain: {raw}"
        return await self.until(lambda: self.reads(raw))

    async def forgets_olm(self) -> None:
        """Loses every one-to-one session: what comes next cannot be decrypted."""
        self.keys._olm_sessions.clear()  # the store of the machine we play, not ours

    @staticmethod
    def scrambled(content: bytes) -> tuple[bytes, dict[str, Any]]:
        scrambled, info = encrypt_attachment(content)
        return scrambled, info.serialize()

    @staticmethod
    def opened(scrambled: bytes, file: dict[str, Any]) -> bytes:
        return decrypt_attachment(scrambled, file["key"]["k"], file["hashes"]["sha256"], file["iv"])


def _of_mautrix(task: asyncio.Task[Any]) -> bool:
    return (
        "mautrix"
        in (getattr(task.get_coro(), "cr_code", None) or task.get_coro().gi_code).co_filename
    )
