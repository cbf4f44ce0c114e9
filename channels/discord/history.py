"""What was said in a channel while nobody listened (Get Channel Messages, after)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from channels.discord.client import Wire
from channels.discord.failures import Refused
from channels.discord.inbound import moment, snowflake
from channels.discord.memory import newest_in, sorted_by_id
from channels.payloads import Body

PAGE = 100  # rows of one answer, the most there is
PAGES = 5  # of one channel; what lies behind them is counted as cut
ARCHIVED = 50  # threads of a forum that are looked through
OVERLAP = timedelta(
    minutes=10
)  # before the last word we know: what was edited there while we were away


@dataclass(slots=True)
class Missed:
    """Rows oldest first. ``before``: those up to the last word we know; ``left``: what the fence
    leaves out; ``more``: others exist that nobody counted."""

    said: list[Body] = field(default_factory=list[Body])
    before: list[Body] = field(default_factory=list[Body])
    left: list[Body] = field(default_factory=list[Body])
    more: bool = False


async def missed(wire: Wire, channel: str, since: int, fence: int, most: int) -> Missed:
    """What was said after ``since``: the newest ``most`` not older than ``fence`` (ids) to be
    heard, the others to be counted.

    Raises Refused when the channel is not ours to read."""
    start = max(0, snowflake(moment(str(since)) - OVERLAP))
    rows: list[Body] = []
    after, more = start, False
    for _ in range(PAGES):
        page = await wire.history(channel, after=after, limit=PAGE)
        rows += page
        if len(page) < PAGE:
            break
        after = max(after, *(int(str(row.get("id"))) for row in page))
    else:  # too much to read it all: the newest from the other end
        more = True
        before: int | None = None
        for _ in range(-(-most // PAGE)):
            page = await wire.history(channel, before=before, limit=PAGE)
            rows += page
            before = min((int(str(row.get("id"))) for row in page), default=0)
    found = Missed(more=more)
    ordered = sorted_by_id([row | {"channel_id": channel} for row in rows])
    found.before = [row for row in ordered if int(row["id"]) <= since]
    new = [row for row in ordered if int(row["id"]) > since]
    old = sum(int(row["id"]) < fence for row in new)
    first = max(old, len(new) - most)
    found.left, found.said = new[:first], new[first:]
    return found


async def archived(wire: Wire, forum: str, since: int) -> list[Body]:
    """Posts of a forum that somebody wrote in after ``since`` and that fell asleep again (List
    Public Archived Threads)."""
    try:
        found = await wire.read(
            lambda http: http.get_public_archived_threads(int(forum), limit=ARCHIVED)
        )
    except Refused:
        return []
    threads = found.get("threads") or []
    return [dict(thread) for thread in threads if (newest_in(dict(thread)) or 0) > since]
