"""Our account: who we are for the homeserver (the token of the configuration, or one device of our
own, made with the password once and kept), the files that make that device, readable by their owner
only, and a second ohmo on the same account.

Source: Matrix Client-Server API, "Login" (``device_id``), "Soft logout", "Client Config" (account
data is seen by the account alone, and a change comes to each of its clients by ``/sync``)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from channels.competing_instance import CompetingInstance
from channels.durable import write_whole
from channels.errors import AuthFailed, ChannelError, NotReady, RateLimited
from channels.matrix import MatrixSettings
from channels.matrix.client import MatrixClient
from channels.matrix.client_wire import SignedOut
from channels.record import record

log = logging.getLogger("channels.matrix")

DEVICE = "OHMO"
TYPE = "ohmo.connected"
RARELY = 60.0  # seconds between two tries at a homeserver that never takes our word, at most
_WHAT = "matrix: another ohmo is connected with this account"
SCHEMA = """
CREATE TABLE self (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE olm (id TEXT PRIMARY KEY, peer TEXT NOT NULL, pickle BLOB NOT NULL,
  used INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX olm_of_peer ON olm (peer, used);
CREATE TABLE hearing (room TEXT, id TEXT, user TEXT NOT NULL, peer TEXT NOT NULL,
  ed TEXT NOT NULL, pickle BLOB NOT NULL,
  PRIMARY KEY (room, id)) WITHOUT ROWID;
CREATE TABLE heard (session TEXT, number INTEGER, event TEXT NOT NULL,
  PRIMARY KEY (session, number)) WITHOUT ROWID;
CREATE TABLE speaking (room TEXT PRIMARY KEY, pickle BLOB NOT NULL, began INTEGER NOT NULL,
  messages INTEGER NOT NULL, members TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE shares (session TEXT, user TEXT, device TEXT,
  PRIMARY KEY (session, user, device)) WITHOUT ROWID;
CREATE TABLE users (user TEXT PRIMARY KEY, outdated INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE devices (user TEXT, device TEXT, curve TEXT NOT NULL, ed TEXT NOT NULL,
  gone INTEGER NOT NULL, PRIMARY KEY (user, device)) WITHOUT ROWID;
CREATE TABLE rooms (room TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE delivered (name TEXT PRIMARY KEY, since TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE waiting (event TEXT PRIMARY KEY, room TEXT NOT NULL, session TEXT NOT NULL,
  sender TEXT NOT NULL, place TEXT NOT NULL, body TEXT NOT NULL, at INTEGER NOT NULL,
  told INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE INDEX waiting_for ON waiting (session);
CREATE TABLE withheld (session TEXT PRIMARY KEY, why TEXT NOT NULL) WITHOUT ROWID;
PRAGMA user_version = 2;
"""
KEY = "pickle.key"
CarryOver = Callable[[sqlite3.Connection, bytes, Path], None]
"""From version 1 of the file to the present one, all of it or nothing."""


@record
class KeptSession:
    """What ``session.json`` holds: the device is written before the first login, so that a crash
    makes no second one."""

    device: str
    token: str = ""

    @classmethod
    def read(cls, path: Path, whose: str) -> KeptSession | None:
        """None: nothing is kept for this account. Raises AuthFailed: others can read the file, or
        nobody can."""
        if not path.exists():
            return None
        private(path)
        try:
            saved = json.loads(path.read_text())
            if saved["whose"] != whose:
                return None
            return cls(str(saved["device"]), str(saved["token"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise AuthFailed(
                f"{path} is damaged: put it back from a backup, or move it away to log in as a new"
                " device"
            ) from error

    def write(self, path: Path, whose: str) -> None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            saved = {"whose": whose, "device": self.device, "token": self.token}
            write_whole(path, json.dumps(saved))
        except OSError as error:
            raise AuthFailed(
                f"{path} cannot be written ({error.strerror}); it holds the device we are logged"
                " in as"
            ) from error


async def sign_in(
    client: MatrixClient, settings: MatrixSettings, folder: Path | None
) -> tuple[str, str]:
    """User and device. Raises ChannelError. ``folder`` None: a new device, which nobody keeps;
    ``logout`` when done with it."""
    if settings.access_token:
        return await client.whoami()
    password = settings.password or ""
    if folder is None:
        await client.login(settings.user, password, f"{DEVICE}{secrets.token_hex(4).upper()}")
        return await client.whoami()
    path = folder / "session.json"
    whose = f"{settings.user} at {settings.homeserver}"
    session = KeptSession.read(path, whose)
    if session is None:
        # A device has one set of keys for ever, so one that encrypts gets a name nobody ever used.
        session = KeptSession(
            f"{DEVICE}{secrets.token_hex(4).upper()}" if settings.encryption else DEVICE
        )
        session.write(path, whose)
    if session.token:
        client.use(session.token)
        try:
            return await client.whoami()
        except SignedOut as out:
            log.warning(
                "%s: the device %s was signed out%s; logging in again",
                settings.user,
                session.device,
                " softly" if out.soft else "",
            )
    await client.login(settings.user, password, session.device)
    identity = await client.whoami()
    KeptSession(session.device, client.token).write(path, whose)
    return identity


class Doubles:
    """Of one connection. A homeserver shows a second ohmo and us everything and tells neither, so
    each leaves word in the account's own data. Whoever comes leaves word; who was here before
    answers in the same place. So word of an older one, written after ours, was written by one that
    lives."""

    def __init__(self, client: MatrixClient, me: str, competing: CompetingInstance) -> None:
        self._client = client
        self._me = me
        self._competing = competing
        self._life = secrets.token_hex(8)
        self._asks = 0.0  # seconds until word is left again
        self._wanted = asyncio.Event()
        self._left = False
        self._failed = 0

    async def leave_word(self) -> None:
        """A homeserver that refuses it only leaves us blind; one that is busy or away is asked
        again. Refused credentials end the sync, too."""
        try:
            await self._client.set_account_data(
                self._me, TYPE, {"life": self._life, "since": self._competing.since}
            )
        except ChannelError as error:
            again: float | None = None  # seconds, more of them each time; None: never
            if isinstance(error, RateLimited):
                again = error.retry_after
            elif isinstance(error, NotReady):
                again = min(self._client.pace.ask * 2.0 ** min(self._failed, 30), RARELY)
            level = logging.INFO if self._failed else logging.WARNING
            when = "" if again is None else f" (again in {again:g} s)"
            log.log(
                level, "%s: word of this connection could not be left: %s%s", self._me, error, when
            )
            self._failed += 1
            if again is not None:
                self._ask(again)
        else:
            self._left = True
            self._failed = 0

    def heard(self, content: Mapping[str, Any]) -> None:
        """Word that was left, ours or another's. Raises InUse at the third answer of an older one,
        after a stop at the first. What stood there before ours may have been left by a home that is
        gone; what was left in the same millisecond was left by an earlier connection of ours."""
        life = content.get("life")
        since = content.get("since")
        if not isinstance(life, str) or not isinstance(since, int):
            return
        if life == self._life or since == self._competing.since:
            return
        if since > self._competing.since:
            self._ask(0.0)
            return
        if not self._left:
            return
        self._competing.conflict(_WHAT)
        self._ask(self._client.pace.ask)

    def _ask(self, seconds: float) -> None:
        self._asks = seconds
        self._wanted.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await asyncio.sleep(self._asks)
            await self.leave_word()


def opened(
    folder: Path, device: str, carry_over: CarryOver
) -> tuple[sqlite3.Connection, bytes, Path]:
    """The keys of ``device``, what unlocks them, and their file. Raises AuthFailed, NotReady."""
    path = folder / f"{device}.db"
    lock = folder / KEY
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not lock.exists():
            if any(folder.glob("*.db")):
                raise AuthFailed(
                    f"{lock} is missing, and without it {path.name} cannot be read: put it back"
                    f" from a backup, or {begin_anew(folder)}"
                )
            write_whole(lock, secrets.token_hex(32))
        private(lock)
        try:
            key = bytes.fromhex(lock.read_text().strip())
        except ValueError:
            key = b""
        if len(key) != 32:
            raise AuthFailed(
                f"{lock} is damaged: put it back from a backup, or {begin_anew(folder)}"
            )
        if not path.exists():
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        private(path)
        return _connect(path, key, carry_over), key, path
    except OSError as error:
        raise AuthFailed(
            f"{error.filename or folder}: {error.strerror}; the keys of the Matrix device live"
            " there"
        ) from error
    except sqlite3.OperationalError as error:
        raise NotReady(f"{path}: {error}; the keys of the Matrix device live there") from error
    except sqlite3.DatabaseError as error:
        raise AuthFailed(
            f"{path} is damaged ({error}): put it back from a backup, or {begin_anew(folder)}"
        ) from error


def private(path: Path) -> None:
    """Raises AuthFailed when others than the owner may look into a file of secrets, or nobody
    can."""
    try:
        mode = path.stat().st_mode & 0o777
    except OSError as error:
        raise AuthFailed(
            f"{path} cannot be read ({error.strerror}); it holds keys of the Matrix device"
        ) from error
    if mode & 0o077 or not os.access(path, os.R_OK):
        raise AuthFailed(f"{path} has the mode {mode:04o}, it must be 0600: run chmod 600 {path}")


def _connect(path: Path, key: bytes, carry_over: CarryOver) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # A ratchet that turns back after a power cut would encrypt twice with one key.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
        (verdict,) = connection.execute("PRAGMA quick_check").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        if version == 0:
            connection.executescript(f"BEGIN; {SCHEMA} COMMIT;")
        elif version == 1:
            carry_over(connection, key, path)
        elif version != 2:
            raise sqlite3.DatabaseError(f"it is of version {version}, written by a newer ohmo")
    except BaseException:
        connection.close()
        raise
    return connection


def locked(path: Path, error: Exception) -> AuthFailed:
    what = f"{KEY} does not open {path.name} ({error})"
    return AuthFailed(
        f"{path.parent}: {what}: put both back from a backup, or {begin_anew(path.parent)}"
    )


def begin_anew(folder: Path) -> str:
    return (
        f"begin anew as another device: sign this one out, move {folder} away, and give a new"
        " access token (or a password)"
    )
