"""What is said aloud when catch-up has an end: how many messages were not read, from when to when,
and why. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import TypeVar

from channels.wall_clock import MINUTES, wall

Row = TypeVar("Row")


def left_out(
    times: Sequence[datetime],
    fence: tuple[timedelta, int],
    *,
    zone: tzinfo,
    where: str,
    key: str,
    more: bool = False,
) -> str:
    """One paragraph. ``times`` of the messages that were counted, oldest first; ``more``: there are
    others nobody counted.

    ``fence``: oldest age and most messages, as configured under ``key``. ``zone``: in which times
    are told. ``where``: "here", or the place's name for the owner."""
    age, most = fence
    count = (
        f"{len(times)} message{'' if len(times) == 1 and not more else 's'}"
        if times
        else "messages"
    )
    between = (
        f" between {times[0].astimezone(zone):{MINUTES}} and {wall(times[-1], zone)}"
        if times
        else ""
    )
    return (
        f"Not read: {count}{' or more' if more and times else ''} said {where}{between} while ohmo"
        f" was away. It looks back {age.total_seconds() / 3600:g} h and takes the newest {most} of"
        f" a conversation ({key}). Please say again what still needs an answer."
    )


def in_place(
    left: Sequence[tuple[str, Row]], said: Sequence[Row], coming: Collection[str]
) -> tuple[list[Row], list[Row]]:
    """What is left out, and what is told, oldest first. ``left``: with their names, all older than
    ``said``; ``coming``: names of what the platform itself brings just now: that is told before
    what was said after it, and was not left out."""
    return [row for name, row in left if name not in coming], [
        *(row for name, row in left if name in coming),
        *said,
    ]
