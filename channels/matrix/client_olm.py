"""Olm and Megolm as vodozemac computes them, AES for files, behind typed words: the only file that
knows vodozemac and pycryptodome.

Source: Matrix specification, "End-to-end encryption", "Sending encrypted attachments" (AES-CTR with
a key of their own, which travels in the message; the homeserver holds scrambled bytes); the "Olm"
and "Megolm" documents of libolm."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

import vodozemac
from Crypto.Cipher import AES
from vodozemac import (
    AnyOlmMessage,
    Curve25519PublicKey,
    Ed25519PublicKey,
    Ed25519Signature,
    ExportedSessionKey,
    GroupSession,
    MegolmMessage,
    PreKeyMessage,
    SessionKey,
)

from channels.errors import Rejected
from channels.payloads import Body

OF_LIBOLM = {
    "account": vodozemac.Account,
    "session": vodozemac.Session,
    "hearing": vodozemac.InboundGroupSession,
}


class Undecipherable(Exception):
    """vodozemac refused: wrong key, wrong message, or not one at all. The text is its own."""


class TooEarly(Undecipherable):
    """The session is known from a later message on only."""


@contextmanager
def _refusing() -> Generator[None]:
    """Every error of vodozemac is a ValueError."""
    try:
        yield
    except ValueError as error:
        raise Undecipherable(str(error)) from error


def of_libolm(kind: str, pickle: bytes, key: bytes) -> bytes:
    """What libolm kept of one ``OF_LIBOLM``, as it is kept now. libolm's lock was the key in
    hexadecimal digits. Raises Undecipherable."""
    with _refusing():
        raw = cast("Any", OF_LIBOLM[kind]).from_libolm_pickle(pickle.decode(), key.hex().encode())
        return cast("str", raw.pickle(key)).encode()


def canonical(thing: Body) -> str:
    """What is signed of a JSON object. Source: Matrix specification, "Signing JSON"."""
    bare = {key: value for key, value in thing.items() if key not in {"signatures", "unsigned"}}
    return json.dumps(bare, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def signed_by(thing: Body, user: str, key_id: str, key: str) -> bool:
    """Whether ``thing`` carries a good signature of ``user`` under ``key_id`` ("ed25519:DEVICE")
    made with the public ``key``."""
    try:
        signature = Ed25519Signature.from_base64(thing["signatures"][user][key_id])
        Ed25519PublicKey.from_base64(key).verify_signature(canonical(thing).encode(), signature)
    except (KeyError, AttributeError, TypeError, ValueError):
        return False
    return True


class Account:
    """A device's identity and its one-time keys. ``key``, here and below: the 32 bytes that lock
    what is kept."""

    def __init__(self, raw: vodozemac.Account | None = None) -> None:
        # the stubs of 0.10.0 leave out fallback keys
        self._raw = cast("Any", vodozemac.Account() if raw is None else raw)
        self.curve = cast("str", self._raw.curve25519_key.to_base64())
        self.ed = cast("str", self._raw.ed25519_key.to_base64())

    @classmethod
    def load(cls, pickle: bytes, key: bytes) -> Account:
        """Raises Undecipherable: the key or the pickle is wrong."""
        with _refusing():
            return cls(vodozemac.Account.from_pickle(pickle.decode(), key))

    def dump(self, key: bytes) -> bytes:
        return cast("str", self._raw.pickle(key)).encode()

    def sign(self, thing: Body) -> str:
        return cast("str", self._raw.sign(canonical(thing).encode()).to_base64())

    def spare_keys(self, wanted: int) -> dict[str, str]:
        """Unpublished one-time keys by id, as many as ``wanted``; made when there are fewer."""
        missing = wanted - len(self._raw.one_time_keys)
        if missing > 0:
            self._raw.generate_one_time_keys(missing)
        return _texts(self._raw.one_time_keys)

    def fallback_key(self) -> dict[str, str]:
        """A key for when the one-time keys have run out, by id; one that was never published is
        used before another is made."""
        if not self._raw.fallback_key:
            self._raw.generate_fallback_key()
        return _texts(self._raw.fallback_key)

    def published(self) -> None:
        self._raw.mark_keys_as_published()

    def reaches(self, curve: str, one_time_key: str) -> Session:
        """A session towards a device, begun by us."""
        with _refusing():
            theirs = Curve25519PublicKey.from_base64(curve)
            return Session(
                self._raw.create_outbound_session(
                    theirs, Curve25519PublicKey.from_base64(one_time_key)
                )
            )

    def reached(self, curve: str, body: str) -> tuple[Session, str]:
        """A session begun by the device ``curve`` with this pre-key message, and its text; the
        one-time key it used is spent."""
        with _refusing():
            theirs = Curve25519PublicKey.from_base64(curve)
            raw, plain = self._raw.create_inbound_session(theirs, PreKeyMessage.from_base64(body))
        return Session(raw), _text(plain)


class Session:
    """Olm between two devices. ``decrypt`` and ``encrypt`` move it on: save it afterwards."""

    def __init__(self, raw: vodozemac.Session) -> None:
        self._raw = raw
        self.id = raw.session_id

    @classmethod
    def load(cls, pickle: bytes, key: bytes) -> Session:
        with _refusing():
            return cls(vodozemac.Session.from_pickle(pickle.decode(), key))

    def dump(self, key: bytes) -> bytes:
        return self._raw.pickle(key).encode()

    def began_with(self, body: str) -> bool:
        try:
            return self._raw.session_matches(PreKeyMessage.from_base64(body))
        except ValueError:
            return False

    def decrypt(self, kind: int, body: str) -> str:
        with _refusing():
            raw = base64.b64decode(body + "=" * (-len(body) % 4), validate=True)
            return _text(self._raw.decrypt(AnyOlmMessage.from_parts(kind, raw)))

    def encrypt(self, text: str) -> Body:
        kind, body = self._raw.encrypt(text.encode()).to_parts()
        return {"type": kind, "body": base64.b64encode(body).decode().rstrip("=")}


class OutboundSession:
    """Our Megolm session of a room. ``encrypt`` moves it on: save it before the message goes
    out."""

    def __init__(self, raw: GroupSession | None = None) -> None:
        self._raw = GroupSession() if raw is None else raw
        self.id = self._raw.session_id

    @classmethod
    def load(cls, pickle: bytes, key: bytes) -> OutboundSession:
        with _refusing():
            return cls(GroupSession.from_pickle(pickle.decode(), key))

    def dump(self, key: bytes) -> bytes:
        return self._raw.pickle(key).encode()

    @property
    def key(self) -> str:
        """Reads everything from the next message on."""
        return self._raw.session_key.to_base64()

    def encrypt(self, text: str) -> str:
        return self._raw.encrypt(text.encode()).to_base64()


class InboundSession:
    """Somebody's Megolm session of a room, from some message on."""

    def __init__(self, raw: vodozemac.InboundGroupSession) -> None:
        self._raw = raw
        self.id = raw.session_id
        self.first = raw.first_known_index

    @classmethod
    def shared(cls, session_key: str) -> InboundSession:
        with _refusing():
            return cls(vodozemac.InboundGroupSession(SessionKey(session_key)))

    @classmethod
    def forwarded(cls, export: str) -> InboundSession:
        with _refusing():
            return cls(vodozemac.InboundGroupSession.import_session(ExportedSessionKey(export)))

    @classmethod
    def load(cls, pickle: bytes, key: bytes) -> InboundSession:
        with _refusing():
            return cls(vodozemac.InboundGroupSession.from_pickle(pickle.decode(), key))

    def dump(self, key: bytes) -> bytes:
        return self._raw.pickle(key).encode()

    def decrypt(self, ciphertext: str) -> tuple[str, int]:
        """The text, and its number in the session."""
        with _refusing():
            message = MegolmMessage.from_base64(ciphertext)
            if message.message_index() < self.first:
                raise TooEarly(
                    f"message {message.message_index()}, and the session is known from"
                    f" {self.first} on"
                )
            read = self._raw.decrypt(message)
        return _text(read.plaintext), read.message_index

    def export(self) -> str:
        """Everything this session can read, for another device."""
        exported = self._raw.export_at(self.first)
        assert exported is not None, "it reads from there on"
        return exported.to_base64()


def cipher(key: bytes, start: bytes) -> Callable[[bytes], bytes]:
    """AES-256-CTR, the same both ways. ``start``: eight random bytes, eight of the counter. Raises
    ValueError."""
    if len(key) != 32 or len(start) != 16:
        raise ValueError("AES-256-CTR wants 32 bytes of key and 16 of start")
    made = cast("Any", AES).new(
        key, AES.MODE_CTR, nonce=start[:8], initial_value=int.from_bytes(start[8:])
    )
    return lambda chunk: cast("bytes", made.encrypt(chunk))


def _text(plain: bytes) -> str:
    return plain.decode(errors="replace")


def _texts(keys: dict[str, Curve25519PublicKey]) -> dict[str, str]:
    return {name: key.to_base64() for name, key in keys.items()}


class Scrambling:
    """One file on its way out: ``through`` chunk by chunk, then ``file`` for the message."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._iv = secrets.token_bytes(8) + bytes(8)
        self._cipher = cipher(self._key, self._iv)
        self._hash = hashlib.sha256()

    def through(self, chunk: bytes) -> bytes:
        scrambled = self._cipher(chunk)
        self._hash.update(scrambled)
        return scrambled

    def file(self, mxc: str) -> Body:
        """An ``EncryptedFile``."""
        key = {
            "kty": "oct",
            "alg": "A256CTR",
            "ext": True,
            "key_ops": ["encrypt", "decrypt"],
            "k": base64.urlsafe_b64encode(self._key).decode().rstrip("="),
        }
        return {
            "url": mxc,
            "v": "v2",
            "key": key,
            "iv": _bare(self._iv),
            "hashes": {"sha256": _bare(self._hash.digest())},
        }


class Opening:
    """One file on its way in: ``through`` chunk by chunk, then ``check`` before anybody looks at
    it."""

    def __init__(self, reference: str) -> None:
        """Raises Rejected: the reference is none of ``inbound.reference``."""
        try:
            parts = cast("dict[str, str]", json.loads(reference))
            self.mxc = parts["url"]
            self._wanted = _decoded(parts["sha256"])
            self._cipher = cipher(_decoded(parts["k"]), _decoded(parts["iv"]))
            self._hash = hashlib.sha256()
        except (ValueError, KeyError, TypeError) as error:
            raise Rejected("the file's key cannot be read") from error

    def through(self, chunk: bytes) -> bytes:
        self._hash.update(chunk)
        return self._cipher(chunk)

    def check(self) -> None:
        """Raises Rejected: these are not the bytes that were sent."""
        if self._hash.digest() != self._wanted:
            raise Rejected(
                "the homeserver delivered other bytes than were sent; the file is not opened"
            )


def _bare(raw: bytes) -> str:
    return base64.b64encode(raw).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return base64.b64decode(
        text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True
    )
