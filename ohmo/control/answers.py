"""What a handler says: JSON that is read once, or one line that tells what is wrong and what to
do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError

from ohmo.contracts.keys_once import DoubledKey, refuse_doubled_keys
from ohmo.control.encode import dumps

_DIGITS = 19  # of the largest number a store knows
Body = TypeVar("Body", bound=BaseModel)


class Wanted(BaseModel):
    """A request's body; an unknown key is an error, because a misspelt one would be ignored in
    silence."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Refusal(Exception):
    """The request cannot be done; becomes ``{"error": line}``."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


def answer(value: object, *, status: int = 200) -> web.Response:
    """Any contract value as JSON that nobody keeps."""
    return web.Response(
        text=dumps(value),
        status=status,
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )


async def body_of(request: web.Request, wanted: type[Body]) -> Body:
    """The body as ``wanted``. Raises Refusal naming the field. A page of another origin cannot send
    JSON without asking first, so nothing else is read."""
    if request.content_type != "application/json":
        raise Refusal(415, "send JSON: the header Content-Type must be application/json")
    raw = await request.read()
    try:
        refuse_doubled_keys(raw)
        return wanted.model_validate_json(raw)
    except DoubledKey as error:
        raise Refusal(400, str(error)) from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "body"
        raise Refusal(400, f"{where}: {first['msg']}") from error


def one_of(request: web.Request, name: str, known: Sequence[str]) -> str | None:
    """A query word that has to be one of ``known``; None: not asked for. Raises Refusal."""
    word = request.query.get(name) or None
    if word is not None and word not in known:
        raise Refusal(400, f"{name}: expected one of {', '.join(known)}, not {word[:60]!r}")
    return word


def number(request: web.Request, name: str, default: int, most: int) -> int:
    """A query number between 0 and ``most``. Raises Refusal."""
    text = request.query.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS or int(text) > most:
        raise Refusal(400, f"{name}: a number from 0 to {most} is wanted")
    return int(text)
