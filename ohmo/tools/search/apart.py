"""Looks for a pattern in given files, as a process of its own: backtracking may take for ever.
Order on stdin, hits on stdout, both JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ohmo.permissions.fs_cache import Twins
from ohmo.tools.apart import apart, bounded
from ohmo.tools.files.opening import Opening
from ohmo.tools.search import inprocess
from ohmo.tools.search.request import Hit, Line, Search

_RISKY = frozenset("*+?{|")  # without these nothing is tried twice


def may_take_long(pattern: str) -> bool:
    return not _RISKY.isdisjoint(pattern)


async def search(
    request: Search, paths: Sequence[str], places: Sequence[str], most: int, seconds: float
) -> list[Hit]:
    """Hits in ``paths``, relative to the root, until their rows pass ``most``. ``places``: existing
    sensitive ones, no file of which is opened by another name. Raises TimeoutError, OSError."""
    flags = [
        request.pattern,
        request.mode,
        request.ignore_case,
        request.multiline,
        request.before,
        request.after,
    ]
    order = json.dumps(
        [str(request.root), flags, list(paths), list(places), most, int(seconds) + 1]
    )
    answer = json.loads(await apart(__name__, order.encode("utf-8", "surrogatepass"), seconds))
    return [
        Hit(hit["path"], hit["count"], tuple(Line(**line) for line in hit["lines"]))
        for hit in answer
    ]


def main() -> None:
    root, flags, paths, places, most, seconds = json.loads(
        sys.stdin.buffer.read().decode("utf-8", "surrogatepass")
    )
    bounded(seconds)
    request = Search(Path(root), flags[0], lambda _: True, *flags[1:])
    found: list[Hit] = []
    rows = 0
    opening = Opening(
        lambda _: False, Twins(places)
    )  # the names were looked at before they came here
    for hit in inprocess.look(request, paths, opening):
        found.append(hit)
        rows += len(hit.lines) or 1
        if rows > most:
            break
    sys.stdout.write(json.dumps([asdict(hit) for hit in found]))


if __name__ == "__main__":
    main()
