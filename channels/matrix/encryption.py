"""Encryption between the device and its homeserver: sends what the device wants sent, in the order
that loses no key, and keeps what came before its key. Loaded only when it is on.

Keys are on disk before the sync position that brought them; what we encrypt is on disk before it is
sent."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

from channels.contract import Clock
from channels.errors import AuthFailed, ChannelError, NotReady, RateLimited, Rejected
from channels.matrix.client import MatrixClient
from channels.matrix.client_olm import Opening, Scrambling, Undecipherable
from channels.matrix.device import MEGOLM, SPARE, Device, News, Request
from channels.matrix.inbound import (
    Event,
    Object,
    Unreadable,
    events_of,
    list_of,
    mapping,
    object_of,
)
from channels.matrix.keystore import KeyStore, Peer, Waiting
from channels.matrix.speech import Messages, Speech
from channels.payloads import Body

Result = TypeVar("Result")
log = logging.getLogger("channels.matrix")

# seconds before a device without one-time keys, or one that was wedged, is asked again
AGAIN = 600.0
PATIENCE = timedelta(seconds=60)  # before a person hears that a message cannot be read
KEPT = timedelta(days=7)  # a key that comes later finds nothing any more
AT_ONCE = 50  # devices in one message to devices


class Encryption:
    """One device. Every step of it runs in one thread of its own, one after the other."""

    def __init__(
        self,
        store: KeyStore,
        device: Device,
        client: MatrixClient,
        clock: Clock,
        thread: ThreadPoolExecutor,
    ) -> None:
        self.device = device
        self._speech = Speech(store, device, clock)
        self._client = client
        self._thread = thread
        self.undecrypted = Undecrypted(store, clock)
        self._rooms: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._tried: dict[tuple[str, str], float] = {}  # when a device was last asked in vain
        # one-time keys at the homeserver, and whether the fallback key was used up
        self._stock: tuple[int, bool] | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls, folder: Path, client: MatrixClient, user: str, device: str, clock: Clock
    ) -> AsyncGenerator[Encryption]:
        """The device's keys from ``folder``, known to the homeserver. Raises AuthFailed with what
        is wrong with them."""
        loop = asyncio.get_running_loop()
        thread = ThreadPoolExecutor(1, "matrix-keys")
        try:
            store = await loop.run_in_executor(thread, KeyStore.open, folder, device)
            try:
                made = await loop.run_in_executor(thread, Device, store, user, device)
                encryption = cls(store, made, client, clock, thread)
                await encryption._introduce()
                yield encryption
            finally:
                await loop.run_in_executor(thread, store.close)
        finally:
            thread.shutdown(wait=False)

    async def step(self, work: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
        """One step of the device, to its end even when nobody waits for it any more."""
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._thread, lambda: work(*arguments, **named)
            )
        except Undecipherable as error:
            raise AuthFailed(
                f"the key store of the Matrix device {self.device.id} is damaged ({error}): put it"
                " back from a backup"
            ) from error

    async def _introduce(self) -> None:
        """The homeserver must know exactly this device. Keys that are only there, or differ, mean
        that ours were lost."""
        me = self.device
        published = mapping(
            mapping((await self._client.query_keys([me.user])).get(me.user)).get(me.id)
        )
        if await self.step(me.proves, published):
            return
        log.warning(
            "%s: the device %s is new to the homeserver; its fingerprint is %s",
            me.user,
            me.id,
            me.ed,
        )
        spare = await self.step(me.spare_keys, 0, fallback=True)
        await self._client.upload_keys({"device_keys": me.identity(), **spare})
        await self.step(me.uploaded)

    # in

    async def hear(self, since: str, answer: Object) -> News:
        """The part of a sync that is about keys, on disk when this returns."""
        lists = object_of(answer, "device_lists")
        changed = [
            user
            for kind in ("changed", "left")
            for user in list_of(lists.get(kind))
            if isinstance(user, str)
        ]
        if changed:
            await self.step(self.device.devices_changed, changed)
        counts = answer.get("device_one_time_keys_count")
        unused = answer.get("device_unused_fallback_key_types")
        if isinstance(counts, dict):
            there: object = mapping(cast("object", counts)).get("signed_curve25519", 0)
            used_up = isinstance(unused, list) and "signed_curve25519" not in unused
            self._stock = (there if isinstance(there, int) else 0, used_up)
        events = events_of(answer.get("to_device"))
        if events:
            return await self.step(self.device.hear, since, events)
        return News()

    async def tend(self, news: News) -> None:
        """What has to be sent because of ``news``; whatever fails is tried again when it
        matters."""
        try:
            there, used_up = self._stock or (SPARE, False)
            if there <= SPARE // 2 or used_up:
                content = await self.step(self.device.spare_keys, there, fallback=used_up)
                if content:
                    await self._client.upload_keys(content)
                    await self.step(self.device.uploaded)
                self._stock = None
            for asked in news.requests:
                await self._answer(asked)
            for user, curve in news.wedged:
                await self._mend(user, curve)
        except (NotReady, RateLimited, Rejected) as failed:
            log.warning("%s: a message to other devices waits: %s", self.device.user, failed)

    async def read(self, room: str, event: Event) -> Event | Unreadable:
        """What is inside an encrypted event; asks once for the devices of a sender we do not
        know."""
        result = await self.step(self.device.read, room, event)
        if not isinstance(result, Unreadable) or not result.stranger:
            return result
        sender = str(event.get("sender"))
        if not self._may_try(("devices of", sender)):
            return result
        await self._look_up([sender])
        return await self.step(self.device.read, room, event)

    async def ask_for(self, room: str, session: str, sender: str, curve: str) -> None:
        """Asks every device of the person who said something for its key, once in a while; may fail
        without harm."""
        if not self._may_try(("key of", session)):
            return
        body = {"algorithm": MEGOLM, "room_id": room, "session_id": session, "sender_key": curve}
        content = {
            "action": "request",
            "request_id": uuid.uuid4().hex,
            "requesting_device_id": self.device.id,
            "body": body,
        }
        try:
            await self._client.to_devices(
                "m.room_key_request", uuid.uuid4().hex, {sender: {"*": content}}
            )
        except (NotReady, RateLimited, Rejected) as failed:
            self._tried.pop(("key of", session), None)
            log.warning("%s: a key could not be asked for: %s", self.device.user, failed)

    # out

    async def rules(self, room: str) -> Body | None:
        return await self.step(self.device.rules, room)

    async def learn_rules(self, room: str, rules: Object) -> None:
        await self.step(self.device.learn_rules, room, rules)

    async def encrypt(
        self, room: str, kind: str, content: Body, members: frozenset[str], rules: Body
    ) -> Body:
        """The content to send as ``m.room.encrypted``; every device of ``members`` that can be
        reached has the key by then. Raises ChannelError, nothing is sent then."""
        async with self._rooms[room]:
            await self._look_up(await self.step(self.device.outdated, members))
            missing = await self.step(self._speech.target, room, members, rules)
            if missing:
                await self._reach(missing)
                messages = await self.step(self._speech.share, room, missing)
                flat = [
                    (user, device, content)
                    for user, devices in messages.items()
                    for device, content in devices.items()
                ]
                for start in range(0, len(flat), AT_ONCE):
                    some: Messages = {}
                    for user, device, message in flat[start : start + AT_ONCE]:
                        some.setdefault(user, {})[device] = message
                    await self._client.to_devices("m.room.encrypted", uuid.uuid4().hex, some)
                    await self.step(self._speech.shared, room, some)
            return await self.step(self._speech.encrypt, room, kind, content)

    def scrambling(self) -> Scrambling:
        return Scrambling()

    def opening(self, reference: str) -> Opening:
        return Opening(reference)

    async def position_lost(self) -> None:
        """Changes of devices may have been missed."""
        await self.step(self.device.devices_changed, None)

    async def _look_up(self, users: Sequence[str]) -> None:
        """Homeservers that do not answer keep nobody waiting: their people's devices stay as we
        knew them, and are asked for next time."""
        if users:
            answer = await self._client.query_keys(users)
            for user in users:
                if isinstance(answer.get(user), dict):
                    await self.step(self.device.learn, user, answer[user])

    async def _reach(self, peers: Iterable[Peer]) -> None:
        """Opens Olm sessions where there are none; a device whose one-time keys have run out is
        left for later."""
        unreached = await self.step(self._speech.unreached, peers)
        reachable = [peer for peer in unreached if self._may_try((peer.user, peer.device))]
        if reachable:
            devices: defaultdict[str, list[str]] = defaultdict(list)
            for peer in reachable:
                devices[peer.user].append(peer.device)
            try:
                claimed = await self._client.claim_keys(devices)
            except ChannelError:
                for peer in reachable:
                    self._tried.pop((peer.user, peer.device), None)
                raise
            await self.step(self._speech.reach, reachable, claimed)

    async def _answer(self, asked: Request) -> None:
        if asked.user in await self.step(self.device.outdated, [asked.user]):
            await self._look_up([asked.user])
        peer = await self.step(self.device.peer, asked.user, name=asked.device)
        if peer is None:
            return
        answer = await self.step(self._speech.answer, asked, peer)
        if isinstance(answer, str):
            content = {
                "room_id": asked.room,
                "session_id": asked.session,
                "algorithm": MEGOLM,
                "sender_key": self.device.curve,
                "code": answer,
            }
            await self._client.to_devices(
                "m.room_key.withheld", uuid.uuid4().hex, {peer.user: {peer.device: content}}
            )
            return
        if not answer:  # no Olm session yet
            await self._reach([peer])
            answer = await self.step(self._speech.answer, asked, peer)
        if answer and not isinstance(answer, str):
            await self._client.to_devices("m.room.encrypted", uuid.uuid4().hex, answer)

    async def _mend(self, user: str, curve: str) -> None:
        """A new Olm session for a device whose messages we cannot decrypt any more. Source:
        "Recovering from undecryptable messages"."""
        peer = await self.step(self.device.peer, user, curve=curve)
        if peer is None:
            await self._look_up([user])
            peer = await self.step(self.device.peer, user, curve=curve)
        if peer is None or not self._may_try(("wedged", curve)):
            return
        claimed = await self._client.claim_keys({peer.user: [peer.device]})
        await self.step(self._speech.reach, [peer], claimed)
        messages: Messages = await self.step(self._speech.greet, peer)
        if messages:
            await self._client.to_devices("m.room.encrypted", uuid.uuid4().hex, messages)

    def _may_try(self, what: tuple[str, str]) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._tried.get(what, -AGAIN) < AGAIN:
            return False
        self._tried[what] = now
        return True


class Undecrypted:
    """Encrypted messages whose key has not arrived: kept on disk, read when it comes, and spoken of
    when it does not. Each method is one transaction. ``clock`` gives UTC."""

    def __init__(self, store: KeyStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def keep(self, room: str, event: Event, session: str, place: str) -> None:
        """On disk when this returns, so that the sync's position may be saved. ``place``: the
        number its arrival shall have."""
        waiting = Waiting(
            event=str(event["event_id"]),
            room=room,
            session=session,
            sender=str(event.get("sender")),
            place=place,
            body=json.dumps(dict(event)),
            at=self._now(),
        )
        with self._store.whole():
            self._store.wait_for(waiting)

    def ready(self, sessions: Iterable[str] | None) -> list[Waiting]:
        """What waits for these sessions, in the order it was said; None: everything."""
        with self._store.whole():
            if sessions is None:
                return self._store.waiting()
            return sorted(
                (event for session in sessions for event in self._store.waiting(session)),
                key=lambda event: event.place,
            )

    def overdue(self) -> list[tuple[Waiting, str]]:
        """What nobody has heard of yet and should, each with the reason; what is too old is
        forgotten."""
        now = self._now()
        with self._store.whole():
            waiting = self._store.waiting()
            self._store.no_longer_waiting(
                [
                    event.event
                    for event in waiting
                    if event.told and now - event.at > _milliseconds(KEPT)
                ]
            )
            late = [
                event
                for event in waiting
                if not event.told and now - event.at >= _milliseconds(PATIENCE)
            ]
            for event in late:
                self._store.told(event.event)
            return [(event, self._store.withheld(event.session)) for event in late]

    def done(self, events: Iterable[str]) -> None:
        with self._store.whole():
            self._store.no_longer_waiting(events)

    def _now(self) -> int:
        return int(self._clock().timestamp() * 1000)


def _milliseconds(span: timedelta) -> int:
    return int(span.total_seconds() * 1000)
