"""One encrypting device of one account: who it is, what it hears and reads. No network, no waiting.

Each public method is one transaction of the key store, so that a kill leaves the device before or
after it, never between. Source: Matrix specification, "End-to-end encryption" (device keys,
``m.olm.v1``, ``m.megolm.v1``, ``m.room_key``, key requests)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import cast

from channels.errors import AuthFailed
from channels.matrix.client_olm import Account, InboundSession, TooEarly, Undecipherable, signed_by
from channels.matrix.inbound import Event, Object, Unreadable, mapping, object_of, text_of
from channels.matrix.keystore import KeyStore, Peer, SharedSession
from channels.payloads import Body
from channels.record import record

OLM = "m.olm.v1.curve25519-aes-sha2"
MEGOLM = "m.megolm.v1.aes-sha2"
SPARE = 50  # one-time keys that shall lie at the homeserver
WITHHELD = {"m.room_key.withheld", "org.matrix.room_key.withheld"}


@record
class Request:
    """Somebody asks for a session's key."""

    user: str
    device: str
    room: str
    session: str


@record
class News:
    """What to-device messages brought. ``wedged``: devices (user, identity key) whose messages we
    cannot decrypt any more."""

    sessions: set[str] = field(default_factory=set[str])
    wedged: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    requests: list[Request] = field(default_factory=list[Request])


class Device:
    """``new``: nobody has seen it yet."""

    def __init__(self, store: KeyStore, user: str, device: str) -> None:
        self._store = store
        self.user = user
        self.id = device
        with store.whole():
            stored = store.account()
            self.account = stored or Account()
            self.new = stored is None
            if stored is None:
                store.put_account(self.account)
        self.curve = self.account.curve
        self.ed = self.account.ed

    # what the homeserver keeps of us

    def identity(self) -> Body:
        keys: Body = {
            "user_id": self.user,
            "device_id": self.id,
            "algorithms": [OLM, MEGOLM],
            "keys": {f"curve25519:{self.id}": self.curve, f"ed25519:{self.id}": self.ed},
        }
        return self._signed(keys)

    def spare_keys(self, there: int, *, fallback: bool) -> Body:
        """The body of an upload that brings the homeserver's stock of one-time keys back to
        ``SPARE``; {} when nothing is missing. They are on disk before anybody can use one."""
        content: Body = {}
        with self._store.whole():
            if there < SPARE // 2 + 1:
                spare = self.account.spare_keys(SPARE - there)
                content["one_time_keys"] = {
                    f"signed_curve25519:{name}": self._signed({"key": key})
                    for name, key in spare.items()
                }
            if fallback:
                keys = self.account.fallback_key()
                content["fallback_keys"] = {
                    f"signed_curve25519:{name}": self._signed({"key": key, "fallback": True})
                    for name, key in keys.items()
                }
            if content:
                self._store.put_account(self.account)
        return content

    def uploaded(self) -> None:
        with self._store.whole():
            self.account.published()
            self._store.put_account(self.account)

    def _signed(self, thing: Body) -> Body:
        return {
            **thing,
            "signatures": {self.user: {f"ed25519:{self.id}": self.account.sign(thing)}},
        }

    # what other devices tell us

    def hear(self, since: str, events: Sequence[Event]) -> News:
        """To-device messages of one sync. Everything they bring is on disk before the sync's
        position may be saved; after a crash between the two they come once more, and are known by
        their bytes."""
        news = News()
        with self._store.whole():
            for event in events:
                written = json.dumps(event, sort_keys=True).encode()
                if not self._store.first_time(since, hashlib.sha256(written).hexdigest()):
                    continue
                content = object_of(event, "content")
                sender = text_of(event, "sender")
                match text_of(event, "type"):
                    case "m.room.encrypted":
                        self._unwrap(sender, content, news)
                    case "m.room_key_request" if content.get("action") == "request":
                        body = object_of(content, "body")
                        request = Request(
                            user=sender,
                            device=text_of(content, "requesting_device_id"),
                            room=text_of(body, "room_id"),
                            session=text_of(body, "session_id"),
                        )
                        ours = (sender, request.device) == (self.user, self.id)
                        if request.device and not ours:
                            news.requests.append(request)
                    case kind if kind in WITHHELD:
                        reason = text_of(content, "reason") or text_of(content, "code")
                        reason = reason or "no reason given"
                        self._store.put_withheld(text_of(content, "session_id"), reason[:200])
                    case _:
                        continue
        return news

    def _unwrap(self, sender: str, content: Object, news: News) -> None:
        """An Olm message. One that cannot be decrypted wedges the channel between the two
        devices."""
        curve = text_of(content, "sender_key")
        message = object_of(object_of(content, "ciphertext"), self.curve)
        kind = message.get("type")
        body = text_of(message, "body")
        # A tuple: what a stranger wrote there need not be hashable.
        if content.get("algorithm") != OLM or not curve or not body or kind not in (0, 1):
            return
        try:
            plain = self._decrypt(curve, cast("int", kind), body)
        except Undecipherable:
            news.wedged.add((sender, curve))
            return
        payload = _parsed(plain)
        named = payload.get("sender") == sender and payload.get("recipient") == self.user
        ed = text_of(object_of(payload, "keys"), "ed25519")
        if not named or object_of(payload, "recipient_keys").get("ed25519") != self.ed or not ed:
            return  # wrapped for somebody else, or by somebody who claims to be another
        key = object_of(payload, "content")
        if payload.get("type") == "m.room_key":
            self._room_key(Peer(user=sender, device="", curve=curve, ed=ed), key, news)
        elif payload.get("type") == "m.forwarded_room_key":
            self._forwarded(sender, key, news)

    def _decrypt(self, curve: str, kind: int, body: str) -> str:
        for session in self._store.sessions(curve):
            if kind == 0 and not session.began_with(body):
                continue
            try:
                plain = session.decrypt(kind, body)
            except Undecipherable:
                if kind == 0:
                    raise
                continue
            self._store.put_session(curve, session, received=True)
            return plain
        if kind != 0:
            raise Undecipherable("no session of this device reads it")
        session, plain = self.account.reached(curve, body)
        self._store.put_account(self.account)
        self._store.put_session(curve, session, received=True)
        return plain

    def _room_key(self, sender: Peer, key: Object, news: News) -> None:
        room = text_of(key, "room_id")
        name = text_of(key, "session_id")
        if key.get("algorithm") != MEGOLM or not room:
            return
        try:
            session = InboundSession.shared(text_of(key, "session_key"))
        except Undecipherable:
            return
        if session.id != name:
            return
        stored = self._store.shared_session(room, name)
        if stored is not None and stored.curve != sender.curve:
            return  # whoever knows a session's key could claim it
        if stored is not None and stored.session.first <= session.first:
            return  # a later start of the same session would read less
        self._store.put_shared_session(
            room, SharedSession(user=sender.user, curve=sender.curve, ed=sender.ed, session=session)
        )
        news.sessions.add(name)

    def _forwarded(self, sender: str, key: Object, news: News) -> None:
        """Only what we asked for, and only from devices of the person who said it: nobody else may
        put words into a mouth."""
        room = text_of(key, "room_id")
        name = text_of(key, "session_id")
        curve = text_of(key, "sender_key")
        ed = text_of(key, "sender_claimed_ed25519_key")
        if key.get("algorithm") != MEGOLM or not curve or not ed:
            return
        if sender not in {event.sender for event in self._store.waiting(name)}:
            return
        try:
            session = InboundSession.forwarded(text_of(key, "session_key"))
        except Undecipherable:
            return
        stored = self._store.shared_session(room, name)
        if session.id != name or (stored is not None and stored.session.first <= session.first):
            return
        self._store.put_shared_session(
            room, SharedSession(user=sender, curve=curve, ed=ed, session=session)
        )
        news.sessions.add(name)

    # devices of other people

    def outdated(self, users: Iterable[str]) -> list[str]:
        with self._store.whole():
            return self._store.outdated(users)

    def devices_changed(self, users: Iterable[str] | None) -> None:
        with self._store.whole():
            self._store.devices_changed(users)

    def learn(self, user: str, answer: Object) -> None:
        """What the homeserver says of somebody's devices. A device counts when its own key signed
        it, and for ever with the keys it had first."""
        with self._store.whole():
            devices: list[Peer] = []
            for name in answer:
                peer = self._checked(user, name, object_of(answer, name))
                if peer is not None:
                    devices.append(peer)
            self._store.put_devices(user, devices)

    def _checked(self, user: str, name: str, keys: Object) -> Peer | None:
        public = object_of(keys, "keys")
        curve = text_of(public, f"curve25519:{name}")
        ed = text_of(public, f"ed25519:{name}")
        if keys.get("user_id") != user or keys.get("device_id") != name or not curve or not ed:
            return None
        stored = self._store.device(user, name=name)
        if stored is not None and (stored.curve, stored.ed) != (curve, ed):
            return None
        if not signed_by(dict(keys), user, f"ed25519:{name}", ed):
            return None
        return Peer(user=user, device=name, curve=curve, ed=ed)

    # reading

    def read(self, room: str, event: Event) -> Event | Unreadable:
        """The event inside of an ``m.room.encrypted``."""
        content = object_of(event, "content")
        identity = text_of(event, "event_id")
        sender = text_of(event, "sender")
        name = text_of(content, "session_id")
        if content.get("algorithm") != MEGOLM or not name:
            return Unreadable(
                f"its encryption ({str(content.get('algorithm'))[:60]}) is not known to me"
            )
        with self._store.whole():
            inbound = self._store.shared_session(room, name)
            if inbound is None:
                why = self._store.withheld(name)
                return Unreadable(
                    f"its key was withheld: {why}" if why else "its key has not reached me", name
                )
            if inbound.user != sender:
                return Unreadable("its key belongs to somebody else")
            peer = (
                Peer(user=self.user, device=self.id, curve=self.curve, ed=self.ed)
                if sender == self.user
                else self._store.device(sender, curve=inbound.curve)
            )
            if peer is None:
                return Unreadable(
                    "the device that said it is not known to the homeserver", stranger=True
                )
            if (peer.curve, peer.ed) != (inbound.curve, inbound.ed):
                return Unreadable("the key of the device that said it has changed")
            try:
                plain, number = inbound.session.decrypt(text_of(content, "ciphertext"))
            except TooEarly:
                return Unreadable("its key reads later messages only", name)
            except Undecipherable as error:
                return Unreadable(f"it is damaged ({error})")
            if self._store.used_by(name, number, identity) != identity:
                return Unreadable("it repeats an earlier message")
        payload = _parsed(plain)
        if payload.get("room_id") != room:
            return Unreadable("it was said in another room")
        inner = dict(object_of(payload, "content"))
        if "m.relates_to" in content:
            inner.setdefault("m.relates_to", content["m.relates_to"])
        return {**event, "type": text_of(payload, "type"), "content": inner}

    def peer(self, user: str, *, name: str = "", curve: str = "") -> Peer | None:
        with self._store.whole():
            return self._store.device(user, name=name, curve=curve)

    # rooms

    def rules(self, room: str) -> Body | None:
        """The room's encryption; None: not known to have any. Once known it stays: nobody can take
        it back."""
        with self._store.whole():
            return self._store.encryption(room)

    def learn_rules(self, room: str, rules: Object) -> None:
        stored = self.rules(room)
        if stored is None or stored.get("algorithm") == rules.get("algorithm"):
            names = ("algorithm", "rotation_period_ms", "rotation_period_msgs")
            with self._store.whole():
                self._store.put_encryption(room, json.dumps({key: rules.get(key) for key in names}))

    def proves(self, answer: Object) -> bool:
        """Whether the homeserver has our identity. Raises AuthFailed when this device is known
        there with other keys."""
        keys = object_of(answer, "keys")
        if not keys:
            return False
        curve = keys.get(f"curve25519:{self.id}")
        ed = keys.get(f"ed25519:{self.id}")
        if (curve, ed) != (self.curve, self.ed):
            raise AuthFailed(
                f"the homeserver knows the device {self.id} with other keys than"
                f" {self._store.path}: put the file back from a backup, or sign the device out,"
                f" move {self._store.path.parent} away and give a new access token (or a password)"
            )
        return True


def _parsed(text: str) -> Object:
    try:
        return mapping(json.loads(text))
    except (ValueError, RecursionError):
        return {}
