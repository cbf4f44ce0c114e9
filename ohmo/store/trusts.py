"""What people allowed to take part, by its content: rows that are never rewritten but for when they
were revoked."""

from __future__ import annotations

from ohmo.contracts.trust import Kind, Trust
from ohmo.store.codec import column, from_column
from ohmo.store.statements import Moment, Op, instant

_ALLOW = """INSERT INTO trusts (kind, name, digest, person, at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (kind, name, digest) DO UPDATE
SET person = excluded.person, at = excluded.at, revoked_at = NULL
WHERE trusts.revoked_at IS NOT NULL"""


def trusted(kind: Kind, name: str, digest: str) -> Op[bool]:
    rows = yield (
        """SELECT 1 FROM trusts
        WHERE kind = ? AND name = ? AND digest = ? AND revoked_at IS NULL""",
        (kind, column(name), digest),
    )
    return bool(rows)


def allow(at: Moment, kind: Kind, name: str, digest: str, person: str) -> Op[None]:
    yield _ALLOW, (kind, column(name), digest, column(person), at.now)


def leave_off(at: Moment, kind: Kind, name: str, digest: str, person: str) -> Op[None]:
    yield (
        """INSERT INTO trusts (kind, name, digest, person, at, revoked_at)
        VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (kind, name, digest) DO UPDATE
        SET person = excluded.person, at = excluded.at, revoked_at = excluded.revoked_at
        WHERE trusts.revoked_at IS NOT NULL""",
        (kind, column(name), digest, column(person), at.now, at.now),
    )


def revoke(at: Moment, kind: Kind, name: str) -> Op[int]:
    rows = yield (
        """UPDATE trusts SET revoked_at = ?
        WHERE kind = ? AND name = ? AND revoked_at IS NULL RETURNING digest""",
        (at.now, kind, column(name)),
    )
    return len(rows)


def trusts() -> Op[list[Trust]]:
    rows = yield (
        """SELECT kind, name, digest, person, at, revoked_at FROM trusts
        ORDER BY at DESC, kind, name, digest""",
        (),
    )
    return [
        Trust(
            kind,
            from_column(name),
            digest,
            from_column(person),
            instant(at),
            None if gone is None else instant(gone),
        )
        for kind, name, digest, person, at, gone in rows
    ]
