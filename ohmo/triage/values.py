"""Fields of somebody else's JSON, taken out without believing in their types."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import cast

from ohmo.triage.results import MOST_BYTES, BadResults

_LINK = re.compile(r"https?://[^\s()<>\[\]|\"'`\\]{3,400}")


def parsed(data: bytes, what: str) -> object:
    """Raises BadResults."""
    if len(data) > MOST_BYTES:
        raise BadResults(f"{what}: {len(data)} bytes; at most {MOST_BYTES} are read")
    try:
        found = cast("object", json.loads(data))
    except (ValueError, RecursionError) as error:
        raise BadResults(f"{what}: it is not JSON ({str(error)[:100]})") from error
    refuse(found, what)
    return found


def refuse(found: object, what: str) -> None:
    """Raises BadResults: instead of results somebody says why there are none, as GitHub and GitLab
    do (a limit, no access, no such project)."""
    said = (
        text(cast("Mapping[str, object]", found), "message", "error")
        if isinstance(found, dict) and "jobs" not in found
        else ""
    )
    if said:
        raise BadResults(f"{what}: it answered: {said}")


def objects(value: object) -> list[Mapping[str, object]]:
    """Those of a list that are objects."""
    if not isinstance(value, list):
        return []
    return [
        cast("Mapping[str, object]", one)
        for one in cast("Sequence[object]", value)
        if isinstance(one, dict)
    ]


def text(found: Mapping[str, object], *names: str) -> str:
    """The first of these fields that is text or a number, in at most 300 characters; a dot goes one
    object down."""
    for name in names:
        value: object = found
        for part in name.split("."):
            value = (
                cast("Mapping[str, object]", value).get(part) if isinstance(value, dict) else None
            )
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return str(value)[:300]
    return ""


def link(found: Mapping[str, object], *names: str) -> str:
    """The same for an address of the web; empty when it is none that can stand in a message."""
    given = text(found, *names)
    return given if _LINK.fullmatch(given) else ""
