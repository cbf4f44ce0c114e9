"""Chooses between ripgrep and searching in process, and keeps either within bounds."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import TypeVar

from ohmo.permissions.paths import SensitivePaths, Touch
from ohmo.tools.answers import Trouble, in_thread
from ohmo.tools.search import apart, inprocess, ripgrep
from ohmo.tools.search.request import Hit, Search
from ohmo.tools.search.walk import walk

Found = TypeVar("Found")
SECONDS = 60.0


class SearchEngine:
    """``program``: ripgrep, None when it is not there. ``small``: trees with fewer files are searched in process, for a pattern that
    cannot take long; ``seconds``: what one search may take."""

    def __init__(self, program: Path | None, sensitive: SensitivePaths, small: int, seconds: float = SECONDS) -> None:
        self._program, self._sensitive, self._small, self._seconds = program, sensitive, small, seconds

    async def files(self, root: Path, accepts: Callable[[str], bool], most: int) -> tuple[list[str], bool]:
        """Matching relative paths in path order, at most ``most``; True when there are more. Raises Trouble."""
        if await self._is_small(root) or self._program is None:
            found = await self._threaded(lambda stop: (path for path in walk(root, self._hides, stop) if accepts(path)), most + 1)
        else:
            found = list[str]()
            async with asyncio.timeout(self._seconds):
                async with aclosing(ripgrep.files(self._program, root, self._sensitive.excluded_globs())) as paths:
                    async for path in paths:
                        if accepts(path) and not self._hides(f"{root}/{path}"):
                            found.append(path)
                            if len(found) > most:
                                break
        return found[:most], len(found) > most

    async def search(self, request: Search, most: int) -> tuple[list[Hit], bool]:
        """Files with matches until their rows pass ``most``; True when there are more. Raises Trouble, TimeoutError."""
        small = await self._is_small(request.root) if request.root.is_dir() else request.root.stat().st_size < 1 << 20
        long = apart.may_take_long(request.pattern)
        if self._program is None and long:
            paths = await self._threaded(lambda stop: inprocess.candidates(request, self._hides, stop), None)
            hits = await apart.search(request, paths, most, self._seconds)
        elif (small and not long) or self._program is None:
            hits = await self._threaded(lambda stop: _enough(inprocess.search(request, self._hides, stop), most), None)
        else:
            hits = list[Hit]()
            rows = 0
            async with asyncio.timeout(self._seconds):
                async with aclosing(ripgrep.search(self._program, request, self._sensitive.excluded_globs())) as found:
                    async for hit in found:
                        if self._hides(f"{request.root}/{hit.path}"):
                            continue
                        hits.append(hit)
                        rows += _rows(hit)
                        if rows > most:
                            break
        more = sum(map(_rows, hits)) > most
        return await in_thread(lambda: [hit for hit in hits if not self._linked(request.root / hit.path)]), more

    async def _is_small(self, root: Path) -> bool:
        def count() -> int:
            return sum(1 for _ in itertools.islice(walk(root, self._hides), self._small))

        return await in_thread(count) < self._small

    def _hides(self, path: str) -> bool:
        return self._sensitive.hides(path)

    def _linked(self, path: Path) -> bool:
        """A closed file under the name of another."""
        return self._sensitive.at(str(path)) is Touch.INSIDE

    async def _threaded(self, work: Callable[[Callable[[], bool]], Iterator[Found]], most: int | None) -> list[Found]:
        """Runs an iterator in a thread; cancellation and the time limit make it stop at its next step."""
        over = threading.Event()
        timer = asyncio.get_running_loop().call_later(self._seconds, over.set)
        running = asyncio.ensure_future(asyncio.to_thread(lambda: list(itertools.islice(work(over.is_set), most))))
        try:
            found = await asyncio.shield(running)
        finally:
            timer.cancel()
            if not running.done():
                over.set()
                await asyncio.wait({running})
        if over.is_set():
            raise Trouble(f"the search took longer than {self._seconds:.0f} s; name a narrower `path` or `glob`")
        return found


def _rows(hit: Hit) -> int:
    return len(hit.lines) or 1


def _enough(hits: Iterator[Hit], most: int) -> Iterator[Hit]:
    rows = 0
    for hit in hits:
        yield hit
        rows += _rows(hit)
        if rows > most:
            return
