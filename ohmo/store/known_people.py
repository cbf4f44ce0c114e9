"""Who is who, what was remembered, who is connected, and the chain of audit."""

from __future__ import annotations

from ohmo.contracts.outbox import Grant
from ohmo.contracts.turns import PersonRow
from ohmo.store.codec import column, from_column
from ohmo.store.statements import Moment, Op, instant, milliseconds


def save_person(at: Moment, row: PersonRow) -> Op[None]:
    yield (
        """INSERT INTO people (channel, account, person, name, role, code_hash, expires, by, at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (channel, account, person) DO UPDATE
        SET name = excluded.name, role = excluded.role, code_hash = excluded.code_hash,
          expires = excluded.expires, by = excluded.by, at = excluded.at""",
        (
            *(
                row.channel,
                row.account,
                column(row.person),
                column(row.name),
                row.role,
                row.code_hash,
            ),
            *(
                None if row.expires is None else milliseconds(row.expires),
                None if row.by is None else column(row.by),
                at.now,
            ),
        ),
    )


def people() -> Op[list[PersonRow]]:
    rows = yield (
        """SELECT channel, account, person, name, role, code_hash, expires, by FROM people
        ORDER BY channel, account, person""",
        (),
    )
    return [
        PersonRow(
            channel,
            account,
            from_column(person),
            from_column(name),
            role,
            code_hash,
            None if expires is None else instant(expires),
            None if by is None else from_column(by),
        )
        for channel, account, person, name, role, code_hash, expires, by in rows
    ]


def save_grant(grant: Grant) -> Op[None]:
    yield (
        "INSERT INTO grants (id, scope, rule, person, at) VALUES (?, ?, ?, ?, ?)",
        (
            grant.id,
            column(grant.scope),
            column(grant.rule),
            column(grant.person),
            milliseconds(grant.at),
        ),
    )


def grants() -> Op[list[Grant]]:
    rows = yield (
        "SELECT id, scope, rule, person, at FROM grants WHERE revoked_at IS NULL ORDER BY at, id",
        (),
    )
    return [
        Grant(number, from_column(scope), from_column(rule), from_column(person), instant(at))
        for number, scope, rule, person, at in rows
    ]


def revoke_grant(at: Moment, id: str) -> Op[bool]:
    rows = yield (
        "UPDATE grants SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL RETURNING id",
        (at.now, id),
    )
    return bool(rows)


def lease(at: Moment, name: str, owner: str, ttl: float) -> Op[int | None]:
    """Renewing one's own keeps the generation, also when it ran out and nobody took it."""
    rows = yield (
        """INSERT INTO leases (name, owner, until, generation) VALUES (?, ?, ?, 1)
    ON CONFLICT (name) DO UPDATE SET
          owner = excluded.owner, until = excluded.until,
          generation = CASE WHEN leases.owner = excluded.owner THEN leases.generation
          ELSE leases.generation + 1 END
        WHERE leases.owner = excluded.owner OR leases.until <= ? RETURNING generation""",
        (name, owner, at.later(ttl), at.now),
    )
    return rows[0][0] if rows else None


def unlease(_: Moment, name: str, owner: str) -> Op[None]:
    yield "UPDATE leases SET owner = '', until = 0 WHERE name = ? AND owner = ?", (name, owner)
