"""What is said aloud when catch-up has an end: how many messages were not read, from when to when, and why. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta


def left_out(times: Sequence[datetime], fence: tuple[timedelta, int], *, where: str, key: str, more: bool = False) -> str:
    """One paragraph. ``times`` of the messages that were counted, oldest first; ``more``: there are others nobody counted.

    ``fence``: oldest age and most messages, as configured under ``key``. ``where``: "here", or the place's name for the owner."""
    age, most = fence
    count = f"{len(times)} message{'' if len(times) == 1 and not more else 's'}" if times else "messages"
    between = f" between {times[0]:%Y-%m-%d %H:%M} and {times[-1]:%Y-%m-%d %H:%M} UTC" if times else ""
    return (
        f"Not read: {count}{' or more' if more and times else ''} said {where}{between} while ohmo was away. "
        f"It looks back {age.total_seconds() / 3600:g} h and takes the newest {most} of a conversation ({key}). "
        "Please say again what still needs an answer."
    )
