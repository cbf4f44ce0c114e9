"""Where a device's keys live: one SQLite file beside the key that locks what is secret in it, both
0600 in the channel's private folder.

Every method runs inside ``whole()``: one transaction for one step of the device, on disk (fsync)
before anything is said to the homeserver."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from channels.errors import AuthFailed, NotReady
from channels.matrix.account import begin_anew, locked, opened
from channels.matrix.client_olm import (
    Account,
    InboundSession,
    OutboundSession,
    Session,
    Undecipherable,
    of_libolm,
)
from channels.payloads import Body
from channels.record import record

log = logging.getLogger("channels.matrix")

CARRIED = (  # what it is, its rows, and how one is changed or left behind
    ("account", "SELECT value, name FROM self", "UPDATE self SET value = ? WHERE name = ?", ""),
    (
        "session",
        "SELECT pickle, id FROM olm",
        "UPDATE olm SET pickle = ? WHERE id = ?",
        "DELETE FROM olm WHERE id = ?",
    ),
    (
        "hearing",
        "SELECT pickle, room, id FROM hearing",
        "UPDATE hearing SET pickle = ? WHERE room = ? AND id = ?",
        "DELETE FROM hearing WHERE room = ? AND id = ?",
    ),
)


@record
class Peer:
    """Somebody's device: its identity key (Curve25519) and its fingerprint key (Ed25519)."""

    user: str
    device: str
    curve: str
    ed: str


@record
class SharedSession:
    """A Megolm session that was shared with us: by which user's device."""

    user: str
    curve: str
    ed: str
    session: InboundSession


@record
class RoomSession:
    """Our session of a room. ``began``: milliseconds; ``members``: for whom it was made."""

    session: OutboundSession
    began: int
    messages: int
    members: frozenset[str]


@record
class Waiting:
    """An event whose key has not arrived. ``place``: its number in the order of arrivals; ``at``:
    when it came, in milliseconds; ``told``: somebody heard of it."""

    event: str
    room: str
    session: str
    sender: str
    place: str
    body: str
    at: int
    told: bool = False


class KeyStore:
    """Not for two threads at once. Raises AuthFailed when the files are missing, damaged or open to
    others; NotReady when the disk fails."""

    def __init__(self, connection: sqlite3.Connection, key: bytes, path: Path) -> None:
        self._db = connection
        self._key = key
        self.path = path

    @classmethod
    def open(cls, folder: Path, device: str) -> KeyStore:
        """The keys of ``device`` in ``folder``; a new, empty store when there is neither file of
        them."""
        return cls(*opened(folder, device, _carry_over))

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def whole(self) -> Generator[None]:
        """One transaction: all of it is on disk afterwards, or nothing."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.OperationalError as error:
            raise NotReady(
                f"{self.path}: {error}; nothing is encrypted or read before it can be written"
            ) from error
        except sqlite3.DatabaseError as error:
            raise AuthFailed(
                f"{self.path} is damaged ({error}): put it back from a backup, or"
                f" {begin_anew(self.path.parent)}"
            ) from error

    # the device itself

    def account(self) -> Account | None:
        row = self._one("SELECT value FROM self WHERE name = 'account'")
        try:
            if row is None:
                return None
            return Account.load(row[0], self._key)
        except Undecipherable as error:
            raise locked(self.path, error) from error

    def put_account(self, account: Account) -> None:
        self._do("INSERT OR REPLACE INTO self VALUES ('account', ?)", account.dump(self._key))

    def first_time(self, since: str, name: str) -> bool:
        """Whether a to-device event is not one we handled before a crash kept its sync position
        from being saved."""
        self._do("DELETE FROM delivered WHERE since <> ?", since)
        return self._do("INSERT OR IGNORE INTO delivered VALUES (?, ?)", name, since) == 1

    # Olm

    def sessions(self, peer: str) -> list[Session]:
        """The one that heard something last comes first."""
        rows = self._all("SELECT pickle FROM olm WHERE peer = ? ORDER BY used DESC LIMIT 5", peer)
        return [Session.load(row[0], self._key) for row in rows]

    def put_session(self, peer: str, session: Session, *, received: bool) -> None:
        used = self._one("SELECT coalesce(max(used), 0) + 1 FROM olm WHERE peer = ?", peer)
        fresh = self._do(
            "INSERT OR IGNORE INTO olm VALUES (?, ?, ?, ?)",
            session.id,
            peer,
            session.dump(self._key),
            used[0] if used else 1,
        )
        if not fresh:
            self._do("UPDATE olm SET pickle = ? WHERE id = ?", session.dump(self._key), session.id)
        if received and not fresh and used:
            self._do("UPDATE olm SET used = ? WHERE id = ?", used[0], session.id)

    # Megolm

    def shared_session(self, room: str, session: str) -> SharedSession | None:
        row = self._one(
            "SELECT user, peer, ed, pickle FROM hearing WHERE room = ? AND id = ?", room, session
        )
        if row is None:
            return None
        return SharedSession(
            user=row[0], curve=row[1], ed=row[2], session=InboundSession.load(row[3], self._key)
        )

    def put_shared_session(self, room: str, inbound: SharedSession) -> None:
        values = (
            room,
            inbound.session.id,
            inbound.user,
            inbound.curve,
            inbound.ed,
            inbound.session.dump(self._key),
        )
        self._do("INSERT OR REPLACE INTO hearing VALUES (?, ?, ?, ?, ?, ?)", *values)

    def used_by(self, session: str, number: int, event: str) -> str:
        """The first event that was read with this number of a session; another one is a replay."""
        self._do("INSERT OR IGNORE INTO heard VALUES (?, ?, ?)", session, number, event)
        row = self._one("SELECT event FROM heard WHERE session = ? AND number = ?", session, number)
        if row is None:
            return event
        return str(row[0])

    def room_session(self, room: str) -> RoomSession | None:
        row = self._one(
            "SELECT pickle, began, messages, members FROM speaking WHERE room = ?", room
        )
        if row is None:
            return None
        members = frozenset[str](json.loads(row[3]))
        return RoomSession(
            session=OutboundSession.load(row[0], self._key),
            began=row[1],
            messages=row[2],
            members=members,
        )

    def put_room_session(self, room: str, outbound: RoomSession) -> None:
        values = (
            room,
            outbound.session.dump(self._key),
            outbound.began,
            outbound.messages,
            json.dumps(sorted(outbound.members)),
        )
        self._do("INSERT OR REPLACE INTO speaking VALUES (?, ?, ?, ?, ?)", *values)

    def shared_with(self, session: str) -> set[tuple[str, str]]:
        return {
            (row[0], row[1])
            for row in self._all("SELECT user, device FROM shares WHERE session = ?", session)
        }

    def put_shares(self, session: str, devices: Iterable[tuple[str, str]]) -> None:
        self._db.executemany(
            "INSERT OR IGNORE INTO shares VALUES (?, ?, ?)",
            [(session, *device) for device in devices],
        )

    # people and rooms

    def outdated(self, users: Iterable[str]) -> list[str]:
        """Whose devices have to be asked for: never seen, or changed since."""
        current = {row[0] for row in self._all("SELECT user FROM users WHERE outdated = 0")}
        return sorted(set(users) - current)

    def devices_changed(self, users: Iterable[str] | None) -> None:
        """None: anybody's may have."""
        if users is None:
            self._do("UPDATE users SET outdated = 1")
        else:
            self._db.executemany(
                "UPDATE users SET outdated = 1 WHERE user = ?", [(user,) for user in users]
            )

    def put_devices(self, user: str, devices: Sequence[Peer]) -> None:
        """All devices somebody has now. Those that are gone are still known: what they said before
        may be read later."""
        self._do("INSERT OR REPLACE INTO users VALUES (?, 0)", user)
        self._do("UPDATE devices SET gone = 1 WHERE user = ?", user)
        for peer in devices:
            self._do(
                "INSERT OR REPLACE INTO devices VALUES (?, ?, ?, ?, 0)",
                user,
                peer.device,
                peer.curve,
                peer.ed,
            )

    def devices(self, user: str) -> list[Peer]:
        rows = self._all(
            "SELECT device, curve, ed FROM devices WHERE user = ? AND gone = 0 ORDER BY device",
            user,
        )
        return [Peer(user, *row) for row in rows]

    def device(self, user: str, *, name: str = "", curve: str = "") -> Peer | None:
        """By its name or its identity key; also one that is gone."""
        row = self._one(
            "SELECT device, curve, ed FROM devices WHERE user = ? AND (device = ? OR curve = ?)",
            user,
            name,
            curve,
        )
        if row is None:
            return None
        return Peer(user, *row)

    def encryption(self, room: str) -> Body | None:
        """The content of the room's m.room.encryption; None: not known to be encrypted."""
        row = self._one("SELECT body FROM rooms WHERE room = ?", room)
        if row is None:
            return None
        return json.loads(row[0])

    def put_encryption(self, room: str, body: str) -> None:
        self._do("INSERT OR REPLACE INTO rooms VALUES (?, ?)", room, body)

    # what cannot be read yet

    def wait_for(self, event: Waiting) -> None:
        values = (
            event.event,
            event.room,
            event.session,
            event.sender,
            event.place,
            event.body,
            event.at,
        )
        self._do("INSERT OR IGNORE INTO waiting VALUES (?, ?, ?, ?, ?, ?, ?, 0)", *values)

    def waiting(self, session: str | None = None) -> list[Waiting]:
        """For one session, or all; in the order they came."""
        rows = self._all(
            "SELECT event, room, session, sender, place, body, at, told FROM waiting WHERE ?1 IS"
            " NULL OR session = ?1 ORDER BY place",
            session,
        )
        return [Waiting(*row[:7], told=bool(row[7])) for row in rows]

    def told(self, event: str) -> None:
        self._do("UPDATE waiting SET told = 1 WHERE event = ?", event)

    def no_longer_waiting(self, events: Iterable[str]) -> None:
        self._db.executemany("DELETE FROM waiting WHERE event = ?", [(event,) for event in events])

    def withheld(self, session: str) -> str:
        row = self._one("SELECT why FROM withheld WHERE session = ?", session)
        if row is None:
            return ""
        return str(row[0])

    def put_withheld(self, session: str, why: str) -> None:
        self._do("INSERT OR REPLACE INTO withheld VALUES (?, ?)", session, why)

    def _do(self, statement: str, *values: object) -> int:
        return self._db.execute(statement, values).rowcount

    def _one(self, statement: str, *values: object) -> tuple[Any, ...] | None:
        return self._db.execute(statement, values).fetchone()

    def _all(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return self._db.execute(statement, values).fetchall()


def _carry_over(connection: sqlite3.Connection, key: bytes, path: Path) -> None:
    """From version 1, where libolm kept its pickles: the device and every session as they were, all
    of it or nothing.

    Our own sessions of rooms cannot be carried over and need not be: the next message in a room
    begins a new one, and what was said with the old one stays readable. A session that is damaged
    is left behind, as it was of no use before."""
    connection.execute("BEGIN IMMEDIATE")
    for kind, rows, update, delete in CARRIED:
        for pickle, *row in connection.execute(rows).fetchall():
            try:
                connection.execute(update, (of_libolm(kind, pickle, key), *row))
            except Undecipherable as error:
                if kind == "account":
                    raise locked(path, error) from error
                log.warning(
                    "%s: the session %s is damaged (%s) and left behind", path, row[-1], error
                )
                connection.execute(delete, row)
    connection.execute("DELETE FROM speaking")
    connection.execute("PRAGMA user_version = 2")
    connection.execute("COMMIT")
