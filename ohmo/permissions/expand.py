"""What a word with wildcards would become on the disk now, looked up within a budget."""

from __future__ import annotations

import os
import re

from ohmo.permissions.patterns import SOME

BUDGET = 20_000  # folder entries looked at for one word


class TooWide(Exception):
    """More than the budget would have to be looked at."""


def expand(pattern: str) -> list[str]:
    """Existing paths that match an absolute pattern with ``SOME`` in it, dot files included. Raises TooWide."""
    found = ["/"]
    left = BUDGET
    for part in [part for part in pattern.split("/") if part]:
        if SOME not in part:
            found = [f"{folder.rstrip('/')}/{part}" for folder in found]
            continue
        expression = re.compile(".*".join(re.escape(piece) for piece in part.split(SOME)), re.DOTALL)
        after: list[str] = []
        for folder in found:
            names = _names(folder, left)
            left -= len(names) + 1
            if left <= 0:
                raise TooWide
            after += [f"{folder.rstrip('/')}/{name}" for name in names if expression.fullmatch(name)]
        found = after
    return [path for path in found if os.path.lexists(path)]


def _names(folder: str, most: int) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names: list[str] = []
            for entry in entries:
                names.append(entry.name)
                if len(names) > most:
                    raise TooWide
            return names
    except OSError:
        return []
