"""Pages of lists: ``?limit=&after=`` in, ``next`` out; a mark is opaque to whoever carries it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from aiohttp import web

from channels.record import record
from ohmo.contracts.reports import ArrivalInfo, Spot, ThreadInfo, spot_of
from ohmo.contracts.store import OutRow
from ohmo.control.answers import Refusal, number

MOST = 1000  # items of one page
_LONGEST = 200  # characters of a search
_MARK = re.compile(r"([0-9]{1,2})\.([0-9]{1,15})\.([0-9]{1,18})\.([0-9A-Za-z_:.-]{1,200})")


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
    found = _MARK.fullmatch(text)
    if found is None:
        raise Refusal(400, "after: send back the `next` of the page before, as it was")
    group, at, seq, name = found.groups()
    return Wish(number(request, "limit", limit, MOST), Spot(int(group), int(at), name, int(seq)))


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
