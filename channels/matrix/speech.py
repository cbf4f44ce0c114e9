"""What a device says: the Megolm session of each room, who holds its key, and the messages inside.
No network: it hands back what has to be sent.

Source: Matrix specification, "End-to-end encryption" (``m.room.encryption``, ``m.room_key``,
``m.forwarded_room_key``, ``m.room_key_request``)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from channels.contract import Clock
from channels.errors import Rejected
from channels.matrix.client_olm import InboundSession, OutboundSession, Undecipherable, signed_by
from channels.matrix.device import MEGOLM, OLM, Device, Request
from channels.matrix.inbound import Object, object_of, text_of
from channels.matrix.keystore import KeyStore, Peer, RoomSession, SharedSession
from channels.payloads import Body

Messages = dict[str, dict[str, Body]]  # to-device contents by user and device

LATEST = 100  # messages of one session unless the room says otherwise
OLDEST = timedelta(days=7)


class Speech:
    """``clock`` gives UTC. Each method is one transaction of the key store."""

    def __init__(self, store: KeyStore, me: Device, clock: Clock) -> None:
        self._store = store
        self._me = me
        self._clock = clock

    def target(self, room: str, members: frozenset[str], rules: Object) -> list[Peer]:
        """Makes sure that the room has a session of our own for exactly these members, and names
        the devices that still need its key.

        A new session begins when somebody came or went, when a device is gone, and after the age
        and number of messages the room asks for."""
        if rules.get("algorithm") != MEGOLM:
            raise Rejected(
                f"matrix: {room} is encrypted by {str(rules.get('algorithm'))[:60]}, which is not"
                " known here; nothing is sent there"
            )
        now = int(self._clock().timestamp() * 1000)
        # Source: Matrix specification, "m.room.encryption".
        age: object = rules.get("rotation_period_ms")
        most: object = rules.get("rotation_period_msgs")
        oldest = age if isinstance(age, int) and age > 0 else OLDEST.total_seconds() * 1000
        latest = most if isinstance(most, int) and most > 0 else LATEST
        with self._store.whole():
            peers = {
                (peer.user, peer.device): peer
                for user in members
                for peer in self._store.devices(user)
                if (peer.user, peer.device) != (self._me.user, self._me.id)
            }
            outbound = self._store.room_session(room)
            shared: set[tuple[str, str]] = set()
            usable = False
            if outbound is not None:
                shared = self._store.shared_with(outbound.session.id)
                fresh = outbound.messages < latest and 0 <= now - outbound.began < oldest
                usable = fresh and outbound.members == members and shared <= set(peers)
            if not usable:
                shared = set()
                session = OutboundSession()
                self._store.put_room_session(
                    room, RoomSession(session=session, began=now, messages=0, members=members)
                )
                ours = InboundSession.shared(session.key)
                inbound = SharedSession(
                    user=self._me.user, curve=self._me.curve, ed=self._me.ed, session=ours
                )
                self._store.put_shared_session(room, inbound)
            return [peers[name] for name in sorted(set(peers) - shared)]

    def unreached(self, peers: Sequence[Peer]) -> list[Peer]:
        """Those we share no Olm session with yet."""
        with self._store.whole():
            return [peer for peer in peers if not self._store.sessions(peer.curve)]

    def reach(self, peers: Sequence[Peer], claimed: Object) -> None:
        """Sessions from the one-time keys the homeserver handed out; a key its device did not sign
        is none."""
        with self._store.whole():
            for peer in peers:
                signer = f"ed25519:{peer.device}"
                keys = object_of(object_of(claimed, peer.user), peer.device)
                for name in keys:
                    key = object_of(keys, name)
                    if not name.startswith("signed_curve25519:"):
                        continue
                    if not signed_by(dict(key), peer.user, signer, peer.ed):
                        continue
                    try:
                        session = self._me.account.reaches(peer.curve, text_of(key, "key"))
                    except Undecipherable:
                        continue
                    self._store.put_session(peer.curve, session, received=True)

    def share(self, room: str, peers: Sequence[Peer]) -> Messages:
        """The key of our session of the room, wrapped for each device we can reach."""
        with self._store.whole():
            outbound = self._store.room_session(room)
            assert outbound is not None, "target() made it"
            session = outbound.session
            key = {
                "algorithm": MEGOLM,
                "room_id": room,
                "session_id": session.id,
                "session_key": session.key,
            }
            return self._wrapped(peers, "m.room_key", key)

    def shared(self, room: str, messages: Messages) -> None:
        with self._store.whole():
            outbound = self._store.room_session(room)
            assert outbound is not None, "target() made it"
            self._store.put_shares(
                outbound.session.id,
                [(user, name) for user, devices in messages.items() for name in devices],
            )

    def encrypt(self, room: str, kind: str, content: Body) -> Body:
        """The content of an ``m.room.encrypted``; relations stay outside, where homeservers read
        them."""
        with self._store.whole():
            outbound = self._store.room_session(room)
            assert outbound is not None, "target() made it"
            text = json.dumps(
                {"room_id": room, "type": kind, "content": content},
                ensure_ascii=False,
                separators=(",", ":"),
            )
            ciphertext = outbound.session.encrypt(text)
            self._store.put_room_session(room, replace(outbound, messages=outbound.messages + 1))
        outside: Body = {}
        if "m.relates_to" in content:
            outside = {"m.relates_to": content["m.relates_to"]}
        return {
            "algorithm": MEGOLM,
            "sender_key": self._me.curve,
            "device_id": self._me.id,
            "session_id": outbound.session.id,
            "ciphertext": ciphertext,
            **outside,
        }

    def answer(self, request: Request, peer: Peer) -> Messages | str:
        """The key somebody asked for, or why they do not get it: only our own sessions, and only
        for people we shared them with."""
        with self._store.whole():
            inbound = self._store.shared_session(request.room, request.session)
            if inbound is None:
                return "m.unavailable"
            entitled = {user for user, _ in self._store.shared_with(request.session)}
            if inbound.user != self._me.user or request.user not in entitled:
                return "m.unauthorised"
            key: Body = {
                "algorithm": MEGOLM,
                "room_id": request.room,
                "session_id": request.session,
                "session_key": inbound.session.export(),
                "sender_key": inbound.curve,
                "sender_claimed_ed25519_key": inbound.ed,
                "forwarding_curve25519_key_chain": [],
            }
            return self._wrapped([peer], "m.forwarded_room_key", key)

    def greet(self, peer: Peer) -> Messages:
        """A word that only carries a new Olm session to a device that was wedged."""
        with self._store.whole():
            return self._wrapped([peer], "m.dummy", {})

    def _wrapped(self, peers: Sequence[Peer], kind: str, content: Body) -> Messages:
        messages: Messages = {}
        for peer in peers:
            sessions = self._store.sessions(peer.curve)
            if not sessions:
                continue
            payload = {
                "type": kind,
                "content": content,
                "sender": self._me.user,
                "sender_device": self._me.id,
                "keys": {"ed25519": self._me.ed},
                "recipient": peer.user,
                "recipient_keys": {"ed25519": peer.ed},
            }
            ciphertext = sessions[0].encrypt(json.dumps(payload, ensure_ascii=False))
            self._store.put_session(peer.curve, sessions[0], received=False)
            messages.setdefault(peer.user, {})[peer.device] = {
                "algorithm": OLM,
                "sender_key": self._me.curve,
                "ciphertext": {peer.curve: ciphertext},
            }
        return messages
