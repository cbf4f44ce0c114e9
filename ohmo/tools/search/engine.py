"""Chooses between ripgrep and searching in process, and keeps either within bounds."""

from __future__ import annotations

import asyncio
import itertools
import stat
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import ExitStack, aclosing, suppress
from pathlib import Path
from typing import TypeVar

from ohmo.permissions.sensitive_paths import SensitivePaths
from ohmo.tools.files.opening import Opening
from ohmo.tools.results import ToolError, in_thread
from ohmo.tools.search import inprocess, ripgrep
from ohmo.tools.search.inprocess import walk
from ohmo.tools.search.request import Hit, Search

Found = TypeVar("Found")
SECONDS = 60.0
_AT_ONCE = 64  # files that one ripgrep is handed


class SearchEngine:
    """``program``: ripgrep, None when it is not there. ``small``: trees with fewer files are
    searched in process, for a pattern that cannot take long; ``seconds``: what one search may
    take."""

    def __init__(
        self, program: Path | None, sensitive: SensitivePaths, small: int, seconds: float = SECONDS
    ) -> None:
        self._program = program
        self._sensitive = sensitive
        self._small = small
        self._seconds = seconds

    async def files(
        self, root: Path, accepts: Callable[[str], bool], most: int, opening: Opening
    ) -> tuple[list[str], bool]:
        """Matching relative paths in path order, at most ``most``; True when there are more. Raises
        ToolError."""
        if self._program is None or await self._is_small(root, opening):
            found = await self._threaded(
                lambda stop: (path for path in walk(root, opening, stop) if accepts(path)), most + 1
            )
        else:
            found: list[str] = []
            async with asyncio.timeout(self._seconds):
                async with aclosing(
                    ripgrep.files(self._program, root, self._sensitive.excluded_globs())
                ) as paths:
                    async for path in paths:
                        if accepts(path) and not _left_out(root, path, opening):
                            found.append(path)
                            if len(found) > most:
                                break
            found = await in_thread(lambda: _still_there(root, found, opening))
        return found[:most], len(found) > most

    async def search(self, request: Search, most: int, opening: Opening) -> tuple[list[Hit], bool]:
        """Files with matches until their rows pass ``most``; True when there are more. Raises
        ToolError, TimeoutError, OSError."""
        root = await in_thread(lambda: opening.status(request.root))
        alone = not stat.S_ISDIR(root.st_mode)
        if alone:  # what cannot be opened is said, here alone
            await in_thread(lambda: opening.file(request.root).close())
        small = root.st_size < 1 << 20 if alone else await self._is_small(request.root, opening)
        long = inprocess.may_take_long(request.pattern)
        if self._program is None and long:
            paths = await self._threaded(
                lambda stop: inprocess.candidates(request, opening, stop), None
            )
            places = tuple(self._sensitive.existing())
            hits = await inprocess.search_isolated(request, paths, places, most, self._seconds)
        elif (small and not long) or self._program is None:
            hits = await self._threaded(
                lambda stop: _enough(inprocess.search(request, opening, stop), most), None
            )
        else:
            hits = await self._by_ripgrep(self._program, request, most, opening, alone=alone)
        return hits, sum(map(_rows, hits)) > most

    async def _by_ripgrep(
        self, program: Path, request: Search, most: int, opening: Opening, *, alone: bool
    ) -> list[Hit]:
        hits, rows = list[Hit](), 0
        async with asyncio.timeout(self._seconds):
            async with aclosing(self._batches(program, request, opening, alone=alone)) as batches:
                async for batch in batches:
                    async with aclosing(_looked(program, request, batch, opening)) as found:
                        async for hit in found:
                            hits.append(hit)
                            rows += _rows(hit)
                            if rows > most:
                                return hits
        return hits

    async def _batches(
        self, program: Path, request: Search, opening: Opening, *, alone: bool
    ) -> AsyncGenerator[list[str], None]:
        if alone:
            yield [""]
            return
        batch = list[str]()
        async with aclosing(
            ripgrep.matching(program, request, self._sensitive.excluded_globs())
        ) as found:
            async for path in found:
                if not _left_out(request.root, path, opening):
                    batch.append(path)
                if len(batch) == _AT_ONCE:
                    yield batch
                    batch = []
        yield batch

    async def _is_small(self, root: Path, opening: Opening) -> bool:
        def count() -> int:
            return sum(1 for _ in itertools.islice(walk(root, opening), self._small))

        return await in_thread(count) < self._small

    async def _threaded(
        self, work: Callable[[Callable[[], bool]], Iterator[Found]], most: int | None
    ) -> list[Found]:
        """Runs an iterator in a thread; cancellation and the time limit make it stop at its next
        step."""
        over = threading.Event()
        timer = asyncio.get_running_loop().call_later(self._seconds, over.set)
        running = asyncio.ensure_future(
            asyncio.to_thread(lambda: list(itertools.islice(work(over.is_set), most)))
        )
        try:
            found = await asyncio.shield(running)
        finally:
            timer.cancel()
            if not running.done():
                over.set()
                await asyncio.wait({running})
        if over.is_set():
            raise ToolError(
                f"the search took longer than {self._seconds:.0f} s; name a narrower `path` or"
                " `glob`"
            )
        return found


async def _looked(
    program: Path, request: Search, paths: Sequence[str], opening: Opening
) -> AsyncGenerator[Hit, None]:
    """What ripgrep finds in files that were opened here; it is handed the descriptors and no
    name."""
    files = dict[int, str]()
    with ExitStack() as stack:

        def opened() -> None:
            for path in paths:
                with suppress(OSError, ToolError):
                    file = stack.enter_context(opening.file(request.root / path))
                    files[file.fileno()] = path or request.root.name

        await in_thread(opened)
        if files:
            async with aclosing(ripgrep.search(program, request, files)) as hits:
                async for hit in hits:
                    yield hit


def _left_out(root: Path, path: str, opening: Opening) -> bool:
    """Whether the walk in process would not come to a file, because no tool may look at it or at a
    folder above it."""
    ends = (at for at, char in enumerate(path + "/") if char == "/")
    return any(opening.hides(f"{str(root).rstrip('/')}/{path[:end]}") for end in ends)


def _still_there(root: Path, paths: Sequence[str], opening: Opening) -> list[str]:
    """ripgrep walks by name, so a name may be one of another folder's; these are files below the
    root."""
    there: list[str] = []
    for path in paths:
        with suppress(OSError, ToolError):
            if stat.S_ISREG(opening.status(root / path).st_mode):
                there.append(path)
    return there


def _rows(hit: Hit) -> int:
    return len(hit.lines) or 1


def _enough(hits: Iterator[Hit], most: int) -> Iterator[Hit]:
    rows = 0
    for hit in hits:
        yield hit
        rows += _rows(hit)
        if rows > most:
            return
