"""What tests of many rooms begin with: a message of somebody's, the context of a call."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from channels.contract import Address, Inbound, MessageId, Person, PersonId
from ohmo.contracts.tool import CallContext


def inbound(
    address: Address, text: str, key: str, person: str | Person = "ada", **more: Any
) -> Inbound:
    """Said to us in private. ``key`` is its message and order too, where ``more`` has no other."""
    if isinstance(person, str):
        person = Person(PersonId(person), person.title())
    fields: dict[str, Any] = {
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "order": key,
        "message": MessageId(key),
        "private": True,
        "addressed": True,
    }
    return Inbound(**fields | more, key=key, address=address, person=person, text=text)


def call_context(cwd: Path, seconds: float = 100, **more: Any) -> CallContext:
    """Of an owner's call, with so many seconds left."""
    fields: dict[str, Any] = {
        "turn": "turn",
        "call": "turn.1",
        "thread": "thread",
        "person": "ada",
        "deadline": time.monotonic() + seconds,
        "mode": "default",
        "role": "owner",
        "session": "session",
        "progress": lambda _: None,
    }
    return CallContext(cwd=cwd, **fields | more)
