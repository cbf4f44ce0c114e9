"""Letting in strangers: a code that the stranger is told and the owner types. Codes are stored as
hashes and live for an hour."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import replace
from datetime import datetime, timedelta

from channels.contract import Said
from ohmo.contracts.turns import PersonRow

LIFE = timedelta(hours=1)
_LETTERS = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"  # none that look alike


def new_code() -> str:
    """Eight characters, 39 bits."""
    return "".join(secrets.choice(_LETTERS) for _ in range(8))


def code_hash(code: str) -> str:
    """What is stored of a code; spaces, dashes and case do not count."""
    plain = "".join(char for char in code.upper() if char.isalnum())
    return hashlib.sha256(plain.encode()).hexdigest()


def asking(said: Said, known: PersonRow | None, now: datetime) -> tuple[PersonRow, str] | None:
    """The row of a stranger and the code to tell; None: a code was told and still lives, so nothing
    more is said."""
    if (
        known is not None
        and known.role == "asking"
        and known.expires is not None
        and known.expires > now
    ):
        return None
    code = new_code()
    place = said.address
    return (
        PersonRow(
            place.channel,
            place.account,
            said.person.id,
            said.person.name,
            "asking",
            code_hash(code),
            now + LIFE,
        ),
        code,
    )


def words(said: Said, code: str) -> str:
    """What the stranger is told."""
    return (
        f"I do not know you yet ({said.address.channel}:{said.person.id}). If you belong here, give"
        f" the owner this code within an hour:\n\n`{code}`\n\nThe owner says `ohmo pairing approve"
        f" {code}`; then what you wrote is answered."
    )


MAY = {
    "guest": "A guest may talk and ask; nothing is changed for a guest.",
    "user": "A user may have things done, and allows what their own messages ask for.",
    "admin": (
        "An admin may have things done, allows what anybody's messages ask for, and sees all"
        " channels and jobs."
    ),
}


def welcome(role: str) -> str:
    """What somebody hears who was let in."""
    return f"You are let in as {role}. {MAY[role]} `/help` shows what can be said."


def admitted(
    rows: list[PersonRow], code: str, role: str, by: str, now: datetime
) -> PersonRow | None:
    """The row of whoever was told this code, let in; None: nobody was, or it is too late."""
    wanted = code_hash(code)
    for row in rows:
        if (
            row.role == "asking"
            and row.code_hash is not None
            and secrets.compare_digest(row.code_hash, wanted)
        ):
            if row.expires is None or row.expires <= now:
                return None
            return replace(row, role=role, code_hash=None, expires=None, by=by)  # pyright: ignore[reportArgumentType]
    return None
