"""Olm and Megolm as libolm computes them, AES for files, behind typed words: the only file that knows python-olm and pycryptodome.

Source: Matrix specification, "End-to-end encryption"; libolm's "Olm" and "Megolm" documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import olm
from Crypto.Cipher import AES

Json = dict[str, Any]
_olm = cast("Any", olm)  # untyped
_FAILURES = (_olm.OlmAccountError, _olm.OlmSessionError, _olm.OlmGroupSessionError, ValueError, TypeError)


class Undecipherable(Exception):
    """libolm refused: wrong key, wrong message, or not one at all. The text is its own code, such as UNKNOWN_MESSAGE_INDEX."""


def canonical(thing: Json) -> str:
    """What is signed of a JSON object. Source: Matrix specification, "Signing JSON"."""
    bare = {key: value for key, value in thing.items() if key not in {"signatures", "unsigned"}}
    return json.dumps(bare, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def signed_by(thing: Json, user: str, key_id: str, key: str) -> bool:
    """Whether ``thing`` carries a good signature of ``user`` under ``key_id`` ("ed25519:DEVICE") made with the public ``key``."""
    try:
        _olm.ed25519_verify(key, canonical(thing), thing["signatures"][user][key_id])
    except (KeyError, AttributeError, _olm.utility.OlmVerifyError, *_FAILURES):
        return False
    return True


class Account:
    """A device's identity and its one-time keys."""

    def __init__(self, raw: Any = None) -> None:
        self._raw = _olm.Account() if raw is None else raw
        keys = cast("dict[str, str]", self._raw.identity_keys)
        self.curve, self.ed = keys["curve25519"], keys["ed25519"]

    @classmethod
    def load(cls, pickle: bytes, key: str) -> Account:
        """Raises Undecipherable: the key or the pickle is wrong."""
        try:
            return cls(_olm.Account.from_pickle(pickle, key))
        except _FAILURES as error:
            raise Undecipherable(str(error)) from error

    def dump(self, key: str) -> bytes:
        return cast("bytes", self._raw.pickle(key))

    def sign(self, thing: Json) -> str:
        return cast("str", self._raw.sign(canonical(thing)))

    def spare_keys(self, wanted: int) -> dict[str, str]:
        """Unpublished one-time keys by id, as many as ``wanted``; made when there are fewer."""
        unpublished = cast("dict[str, str]", self._raw.one_time_keys["curve25519"])
        if wanted > len(unpublished):
            self._raw.generate_one_time_keys(wanted - len(unpublished))
            unpublished = cast("dict[str, str]", self._raw.one_time_keys["curve25519"])
        return unpublished

    def fallback_key(self) -> dict[str, str]:
        """A key for when the one-time keys have run out, by id; one that was never published is used before another is made."""
        if not self._raw.fallback_key["curve25519"]:
            self._raw.generate_fallback_key()
        return cast("dict[str, str]", self._raw.fallback_key["curve25519"])

    def published(self) -> None:
        self._raw.mark_keys_as_published()

    def reaches(self, curve: str, one_time_key: str) -> Session:
        """A session towards a device, begun by us."""
        try:
            return Session(_olm.OutboundSession(self._raw, curve, one_time_key))
        except _FAILURES as error:
            raise Undecipherable(str(error)) from error

    def reached(self, curve: str, body: str) -> Session:
        """A session begun by the device ``curve`` with this pre-key message; the one-time key it used is spent."""
        try:
            raw = _olm.InboundSession(self._raw, _olm.OlmPreKeyMessage(body), curve)
            self._raw.remove_one_time_keys(raw)
        except _FAILURES as error:
            raise Undecipherable(str(error)) from error
        return Session(raw)


class Session:
    """Olm between two devices. ``decrypt`` and ``encrypt`` move it on: save it afterwards."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self.id = cast("str", raw.id)

    @classmethod
    def load(cls, pickle: bytes, key: str) -> Session:
        try:
            return cls(_olm.Session.from_pickle(pickle, key))
        except _FAILURES as error:
            raise Undecipherable(str(error)) from error

    def dump(self, key: str) -> bytes:
        return cast("bytes", self._raw.pickle(key))

    def began_with(self, body: str) -> bool:
        try:
            return bool(self._raw.matches(_olm.OlmPreKeyMessage(body)))
        except _FAILURES:
            return False

    def decrypt(self, kind: int, body: str) -> str:
        try:
            return cast("str", self._raw.decrypt(_olm.OlmPreKeyMessage(body) if kind == 0 else _olm.OlmMessage(body)))
        except _FAILURES as error:
            raise Undecipherable(str(error)) from error

    def encrypt(self, text: str) -> Json:
        message = self._raw.encrypt(text)
        return {"type": 0 if isinstance(message, _olm.OlmPreKeyMessage) else 1, "body": message.ciphertext}


class Speaking:
    """Our Megolm session of a room. ``encrypt`` moves it on: save it before the message goes out."""

    def __init__(self, raw: Any = None) -> None:
        self._raw = _olm.OutboundGroupSession() if raw is None else raw
        self.id = cast("str", self._raw.id)

    @classmethod
    def load(cls, pickle: bytes, key: str) -> Speaking:
        try:
            return cls(_olm.OutboundGroupSession.from_pickle(pickle, key))
        except _FAILURES as error:
            raise Undecipherable(str(error)) from error

    def dump(self, key: str) -> bytes:
        return cast("bytes", self._raw.pickle(key))

    @property
    def key(self) -> str:
        """Reads everything from the next message on."""
        return cast("str", self._raw.session_key)

    def encrypt(self, text: str) -> str:
        return cast("str", self._raw.encrypt(text))


class Hearing:
    """Somebody's Megolm session of a room, from some message on."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self.id = cast("str", raw.id)
        self.first = cast("int", raw.first_known_index)

    @classmethod
    def shared(cls, session_key: str) -> Hearing:
        try:
            return cls(_olm.InboundGroupSession(session_key))
        except _FAILURES as error:
            raise Undecipherable(str(error)) from error

    @classmethod
    def forwarded(cls, export: str) -> Hearing:
        try:
            return cls(_olm.InboundGroupSession.import_session(export))
        except _FAILURES as error:
            raise Undecipherable(str(error)) from error

    @classmethod
    def load(cls, pickle: bytes, key: str) -> Hearing:
        try:
            return cls(_olm.InboundGroupSession.from_pickle(pickle, key))
        except _FAILURES as error:
            raise Undecipherable(str(error)) from error

    def dump(self, key: str) -> bytes:
        return cast("bytes", self._raw.pickle(key))

    def decrypt(self, ciphertext: str) -> tuple[str, int]:
        """The text, and its number in the session."""
        try:
            return cast("tuple[str, int]", self._raw.decrypt(ciphertext))
        except _FAILURES as error:
            raise Undecipherable(str(error)) from error

    def export(self) -> str:
        """Everything this session can read, for another device."""
        return cast("str", self._raw.export_session(self.first))


def cipher(key: bytes, start: bytes) -> Callable[[bytes], bytes]:
    """AES-256-CTR, the same both ways. ``start``: eight random bytes, eight of the counter. Raises ValueError."""
    if len(key) != 32 or len(start) != 16:
        raise ValueError("AES-256-CTR wants 32 bytes of key and 16 of start")
    made = cast("Any", AES).new(key, AES.MODE_CTR, nonce=start[:8], initial_value=int.from_bytes(start[8:]))
    return lambda chunk: cast("bytes", made.encrypt(chunk))
