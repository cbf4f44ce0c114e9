"""What Feishu writes in its own way: times, orders, lists that hold anything."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

from channels.payloads import Body, Malformed

MOST_MS = 253_402_300_799_999  # the end of the year 9999


def rows_of(body: Body, name: str) -> list[Body]:
    """The objects of a list; anything else in it, or instead of it, is passed over."""
    value = body.get(name)
    return (
        [cast("Body", row) for row in cast("list[object]", value) if isinstance(row, dict)]
        if isinstance(value, list)
        else []
    )


def word(body: Body, name: str) -> str:
    """A text that may be missing or of another type: then it is empty."""
    value = body.get(name)
    return value if isinstance(value, str) else ""


def milliseconds(body: Body, name: str) -> int:
    """Times are texts of milliseconds since 1970 in messages, and of microseconds in the headers of
    some events."""
    value = body.get(name)
    if not (isinstance(value, str) and value.isascii() and value.isdigit()) and not (
        isinstance(value, int) and not isinstance(value, bool)
    ):
        raise Malformed(f"{name} is no time: {str(value)[:40]!r}")
    number = int(value)
    while number > MOST_MS:
        number //= 1000
    if number < 0:
        raise Malformed(f"{name} is no time: {number}")
    return number


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def order(ms: int) -> str:
    """Sorts like the numbers do, for ever; messages of one millisecond stay in the order in which
    they arrived."""
    return f"{ms:015d}"
