"""The file of a device's keys, beside the key that locks what is secret in it: made, opened,
carried over from its first version; readable by its owner only."""

from __future__ import annotations

import logging
import os
import secrets
import sqlite3
from pathlib import Path

from channels.durable import write_whole
from channels.errors import AuthFailed, NotReady
from channels.matrix.client_olm import Undecipherable, of_libolm

log = logging.getLogger("channels.matrix")

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


def opened(folder: Path, device: str) -> tuple[sqlite3.Connection, bytes, Path]:
    """The keys of ``device``, what unlocks them, and their file. Raises AuthFailed, NotReady."""
    path, lock = folder / f"{device}.db", folder / KEY
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
        key = _bytes(lock.read_text().strip())
        if len(key) != 32:
            raise AuthFailed(
                f"{lock} is damaged: put it back from a backup, or {begin_anew(folder)}"
            )
        if not path.exists():
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        private(path)
        return _connect(path, key), key, path
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


def _connect(path: Path, key: bytes) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(
            "PRAGMA synchronous = FULL"
        )  # a ratchet that turns back after a power cut would encrypt twice with one key
        connection.execute("PRAGMA secure_delete = ON")
        (said,) = connection.execute("PRAGMA quick_check").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if said != "ok":
            raise sqlite3.DatabaseError(said)
        if version == 0:
            connection.executescript(f"BEGIN; {SCHEMA} COMMIT;")
        elif version == 1:
            _carry_over(connection, key, path)
        elif version != 2:
            raise sqlite3.DatabaseError(f"it is of version {version}, written by a newer ohmo")
    except BaseException:
        connection.close()
        raise
    return connection


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


def _bytes(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError:
        return b""


def locked(path: Path, error: Undecipherable) -> AuthFailed:
    what = f"{KEY} does not open {path.name} ({error})"
    return AuthFailed(
        f"{path.parent}: {what}: put both back from a backup, or {begin_anew(path.parent)}"
    )


def begin_anew(folder: Path) -> str:
    return (
        f"begin anew as another device: sign this one out, move {folder} away, and give a new"
        " access token (or a password)"
    )
