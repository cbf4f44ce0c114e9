"""What a handler answers: JSON that is written once, pages of lists, or a refusal in one line;
wrong keys, links and signatures some at once, then slowly."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError

from channels.contract import Outbound
from channels.record import record
from ohmo.approvals.cards import worded
from ohmo.contracts.messages import Json
from ohmo.contracts.outbox import OutRow
from ohmo.contracts.reports import ArrivalInfo, Spent, Spot, ThreadInfo, known_cost, spot_of

_DIGITS = 19  # of the largest number a store knows
Body = TypeVar("Body", bound=BaseModel)
_LONE = re.compile("[\ud800-\udfff]")
# A hash that opens a pairing; thinking that only its provider can read; what is shown as ``title``
# and ``who``.
_HIDDEN = {"code_hash", "opaque", "beginning"}
MOST = 1000  # items of one page
_LONGEST = 200  # characters of a search
_FORM = "string_pattern_mismatch"
_FORMS = {"digest": "expected how the content begins, in 0-9 and a-f, as lists show it"}
_MARK = re.compile(r"([0-9]{1,2})\.([0-9]{1,15})\.([0-9]{1,18})\.([0-9A-Za-z_:.-]{1,200})")
AT_ONCE = 20  # misses that are answered without a pause
PER_SECOND = 0.5  # by how many of them it grows again
_PAUSE = 2.0  # seconds
_WAITING = 64  # of 256 connections; whoever comes after them is told at once


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
        why = (
            _FORMS.get(where, "not as docs/api.md says") if first["type"] == _FORM else first["msg"]
        )
        raise Refusal(400, f"{where}: {why}") from error


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


def encode(value: object) -> Json:
    """Times are ISO 8601 in UTC, spans are seconds, paths and enums are their text. Raises
    TypeError for anything that is no contract."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case timedelta():
            return value.total_seconds()
        case Path():
            return str(value)
        case Enum():
            return encode(value.value)
        case Mapping():
            return {
                str(key): encode(item)
                for key, item in cast("Mapping[object, object]", value).items()
            }
        case list() | tuple() | set() | frozenset():
            return [encode(item) for item in cast("list[object]", value)]
        case Spent():
            return {
                **_fields(value),
                "micro_usd": known_cost([value])[0],
            }  # 0 would say that it was free
        case Outbound():
            return _fields(worded(value, buttons=True))
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return _fields(cast("object", value))
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON form here")


def _fields(value: object) -> dict[str, Json]:
    names = (
        field.name for field in dataclasses.fields(cast("Any", value)) if field.name not in _HIDDEN
    )
    return {
        "type": type_name(type(value)),
        **{name: encode(getattr(value, name)) for name in names},
    }


def dumps(value: object) -> str:
    """One line of JSON, also valid inside one server-sent event. A lone surrogate, which a model
    may say, stays an escape: UTF-8 has none."""
    line = json.dumps(encode(value), ensure_ascii=False, separators=(",", ":"))
    return _LONE.sub(lambda found: f"\\u{ord(found.group()):04x}", line)


@cache
def type_name(of: type[Any]) -> str:
    """``TextDelta`` → ``text_delta``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", of.__name__).lower()


@record
class Wish:
    """What page is wanted."""

    limit: int
    after: Spot | None


def wish(request: web.Request, limit: int = 100) -> Wish:
    """Raises Refusal."""
    text = request.query.get("after")
    if not text:
        return Wish(number(request, "limit", limit, MOST), None)
    match = _MARK.fullmatch(text)
    if match is None:
        raise Refusal(400, "after: send back the `next` of the page before, as it was")
    group, at, seq, name = match.groups()
    after = Spot(int(group), int(at), name, int(seq))
    return Wish(number(request, "limit", limit, MOST), after)


def words_in(request: web.Request) -> str:
    """What ``?text=`` looks for; empty: everything. Raises Refusal."""
    text = request.query.get("text", "").strip()
    if len(text) > _LONGEST:
        raise Refusal(400, f"text: at most {_LONGEST} characters can be looked for")
    return text


def following(items: Sequence[ThreadInfo | ArrivalInfo | OutRow], wanted: Wish) -> str | None:
    """The mark of the next page; None: this was the last one."""
    if not items or len(items) < wanted.limit:
        return None
    return mark_of(spot_of(items[-1]))


def mark_of(spot: Spot) -> str:
    return f"{spot.group}.{spot.at}.{spot.seq}.{spot.id}"


class DoubledKey(Exception):
    """``str()`` is one line that names the key."""


def refuse_doubled_keys(raw: bytes) -> None:
    """Raises DoubledKey. What is no JSON is for another to refuse."""
    try:
        json.loads(raw, object_pairs_hook=_refuse_doubled)
    except (ValueError, RecursionError):
        return


def _refuse_doubled(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise DoubledKey(f"{key[:60]!r}: this key stands twice in the body; send it once")
        seen.add(key)


class TooManyMisses(Refusal):
    """429, RFC 6585; ``after``: seconds for Retry-After."""

    def __init__(self, after: int) -> None:
        super().__init__(429, f"too many wrong keys or signatures; wait {after} s, send it again")
        self.after = after


class Misses:
    """All who guess are counted together, so that many addresses help nobody and there is nothing
    to remember of each. A right key is looked at first and never waits, whoever guesses meanwhile.
    ``monotonic`` and ``sleep`` in seconds."""

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._monotonic = monotonic
        self._sleep = sleep
        self._left = float(AT_ONCE)
        self._looked = monotonic()
        self._waiting = 0

    async def count(self) -> TooManyMisses | None:
        """One more. None: say what was wrong; else this is the answer, after the pause."""
        now = self._monotonic()
        self._left = min(AT_ONCE, self._left + (now - self._looked) * PER_SECOND)
        self._looked = now
        if self._left >= 1:
            self._left -= 1
            return None
        if self._waiting < _WAITING:
            self._waiting += 1
            try:
                await self._sleep(_PAUSE)
            finally:
                self._waiting -= 1
        return TooManyMisses(int((1 - self._left) / PER_SECOND) + 1)
