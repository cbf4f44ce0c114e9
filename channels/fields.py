"""Reading what a platform sent: a field that is not what its documentation says is named, not
guessed."""

from __future__ import annotations

from typing import Any, cast

Body = dict[str, Any]


class Malformed(Exception):
    """A payload is not what the platform's documentation says; the text names the field."""


def text_of(body: Body, name: str, default: str | None = None) -> str:
    """``default``: for a field that is missing or null; None: it must be there. Raises
    Malformed."""
    value = body.get(name, default)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise Malformed(f"{name} is {type(value).__name__}, not a text")
    return value


def body_of(body: Body, name: str, default: Body | None = None) -> Body:
    """The object in a field. ``default``: for one that is missing or null; None: it must be there.
    Raises Malformed."""
    value = body.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, dict):
        raise Malformed(f"{name} is {type(value).__name__}, not an object")
    return cast("Body", value)


def soft(body: Body, name: str) -> Body:
    """For questions asked before a payload is judged: whatever is not an object is an empty one."""
    value = body.get(name)
    return cast("Body", value) if isinstance(value, dict) else {}


def bodies_of(body: Body, name: str) -> list[Body]:
    """The objects of a list; what else is in it is passed over, and no list is an empty one. Raises
    Malformed: it is something else."""
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise Malformed(f"{name} is {type(value).__name__}, not a list")
    return [cast("Body", item) for item in cast("list[object]", value) if isinstance(item, dict)]
