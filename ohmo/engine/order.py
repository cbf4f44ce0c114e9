"""Which calls of one step wait for which: what one of them changes, nobody behind it touches
before."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from ohmo.contracts.tool import Footprint


class Order:
    """Of the calls of one step, by their places in it. A footprint of None: the call will not
    run."""

    def __init__(self, footprints: Sequence[Footprint | None]) -> None:
        reaches = [_Reach(one) if one is not None else None for one in footprints]
        self._before = [
            [
                at
                for at, earlier in enumerate(reaches[:place])
                if later is not None and earlier is not None and later.waits_for(earlier)
            ]
            for place, later in enumerate(reaches)
        ]
        self._over = [asyncio.Event() for _ in footprints]
        self._held: set[int] = set()

    def free(self, place: int) -> bool:
        """All it would have to wait for have their results."""
        before = self._before[place]
        return self._held.isdisjoint(before) and all(self._over[at].is_set() for at in before)

    async def reached(self, place: int) -> bool:
        """Once all it waits for are over. False: one of them waits for a person."""
        for at in self._before[place]:
            await self._over[at].wait()
        return self._held.isdisjoint(self._before[place])

    def left(self, place: int, *, held: bool) -> None:
        """Over for this run of the turn. ``held``: it has no result yet."""
        if held:
            self._held.add(place)
        self._over[place].set()


class _Reach:
    """What a call touches and changes, under true names; None: perhaps everything."""

    __slots__ = ("changes", "touches")

    def __init__(self, footprint: Footprint) -> None:
        more = footprint.touches
        quiet = footprint.effect in ("none", "house")
        self.changes = () if quiet and not footprint.writes else _true(footprint.writes, more)
        self.touches = _true((*footprint.reads, *footprint.writes), more)

    def waits_for(self, earlier: _Reach) -> bool:
        return _meet(self.touches, earlier.changes) or _meet(self.changes, earlier.touches)


def _true(paths: Sequence[Path], more: Sequence[Path] | None) -> tuple[str, ...] | None:
    return None if more is None else tuple({os.path.realpath(path) for path in (*paths, *more)})


def _meet(some: tuple[str, ...] | None, others: tuple[str, ...] | None) -> bool:
    """They share a path, or one lies below the other."""
    if some is None or others is None:
        return some != () and others != ()
    return any(_within(one, other) or _within(other, one) for one in some for other in others)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
