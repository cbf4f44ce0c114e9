"""Searches with the ``rg`` program, which ends with the call and with the daemon, or in process,
and keeps either within bounds."""

from __future__ import annotations

import asyncio
import itertools
import re
import shutil
import stat
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, suppress
from pathlib import Path
from typing import TypeVar

from ohmo.permissions.sensitive_paths import SensitivePaths
from ohmo.tools.files import Opening
from ohmo.tools.results import ToolError, in_thread
from ohmo.tools.search import inprocess
from ohmo.tools.search.inprocess import walk
from ohmo.tools.search.request import Hit, Line, Search

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
                    ripgrep_files(self._program, root, self._sensitive.excluded_globs())
                ) as paths:
                    async for path in paths:
                        if accepts(path) and not _left_out(root, path, opening):
                            found.append(path)
                            if len(found) > most:
                                break
            found = await in_thread(lambda: _regular_files(root, found, opening))
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
                    async with aclosing(_hits_in(program, request, batch, opening)) as batch_hits:
                        async for hit in batch_hits:
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
            ripgrep_candidates(program, request, self._sensitive.excluded_globs())
        ) as candidates:
            async for path in candidates:
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
            results = await asyncio.shield(running)
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
        return results


async def _hits_in(
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
            async with aclosing(ripgrep_hits(program, request, files)) as hits:
                async for hit in hits:
                    yield hit


def _left_out(root: Path, path: str, opening: Opening) -> bool:
    """Whether the walk in process would not come to a file, because no tool may look at it or at a
    folder above it."""
    ends = (at for at, char in enumerate(path + "/") if char == "/")
    return any(opening.hides(f"{str(root).rstrip('/')}/{path[:end]}") for end in ends)


def _regular_files(root: Path, paths: Sequence[str], opening: Opening) -> list[str]:
    """ripgrep walks by name, so a name may be one of another folder's; these are files below the
    root."""
    existing: list[str] = []
    for path in paths:
        with suppress(OSError, ToolError):
            if stat.S_ISREG(opening.status(root / path).st_mode):
                existing.append(path)
    return existing


def _rows(hit: Hit) -> int:
    return len(hit.lines) or 1


def _enough(hits: Iterator[Hit], most: int) -> Iterator[Hit]:
    rows = 0
    for hit in hits:
        yield hit
        rows += _rows(hit)
        if rows > most:
            return


_LINE = 16 * 1024 * 1024
_DESCRIPTORS = "/dev/fd/"
_ROW = re.compile(rb"(?P<number>\d+)(?P<mark>[:-])(?P<text>.*)", re.DOTALL)


def find_ripgrep(path: str | None) -> Path | None:
    """``rg`` beside this Python (the wheel puts it there), else on ``path``."""
    beside = Path(sys.executable).with_name("rg")
    if beside.is_file():
        return beside
    program = shutil.which("rg", path=path)
    return Path(program) if program else None


def _pattern(request: Search) -> list[str]:
    words = ["--color=never", "--null", "--no-mmap", "--no-messages", "--no-config"]
    words += ["--ignore-case"] if request.ignore_case else ["--case-sensitive"]
    words += ["--multiline", "--multiline-dotall"] if request.multiline else []
    return [*words, "--regexp", request.pattern]


def _tree(excluded: Iterable[str]) -> list[str]:
    """Hidden files yes, git's ignore rules in repositories, nothing of the person's own ripgrep or
    git settings."""
    words = ["--no-config", "--hidden", "--no-ignore-dot", "--no-ignore-global"]
    words += ["--no-ignore-exclude", "--sort=path", "--no-messages"]
    for pattern in (".git", *excluded):
        words += ["--iglob", f"!{pattern}"]
    return words


async def _output(
    program: Path, words: Sequence[str], cwd: Path, end: bytes, files: Sequence[int] = ()
) -> AsyncGenerator[bytes, None]:
    """Records of rg's output. ``files``: descriptors it inherits. Raises ToolError with rg's own
    words when it refuses."""
    launcher = shutil.which("setpriv")
    prefix = [launcher, "--pdeathsig", "KILL", "--"] if launcher else []
    process = await asyncio.create_subprocess_exec(
        *prefix,
        str(program),
        *words,
        cwd=cwd,
        env={"LANG": "C.UTF-8"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        limit=_LINE,
        pass_fds=files,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        while True:
            try:
                record = await process.stdout.readuntil(end)
            except asyncio.IncompleteReadError as rest:
                if rest.partial:
                    yield rest.partial
                break
            except asyncio.LimitOverrunError as over:
                await process.stdout.readexactly(over.consumed)
                continue
            yield record[: -len(end)]
        problem = (await process.stderr.read(4096)).decode("utf-8", "replace").strip()
        if await process.wait() == 2 and problem:
            raise ToolError(f"ripgrep: {problem.splitlines()[-1]}")
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(process.wait())


async def ripgrep_files(
    program: Path, root: Path, excluded: Sequence[str]
) -> AsyncGenerator[str, None]:
    """Relative paths of all files in path order."""
    async with aclosing(
        _output(program, ["--files", "--null", *_tree(excluded), "--", "./"], root, b"\0")
    ) as records:
        async for record in records:
            yield _relative(record)


async def ripgrep_candidates(
    program: Path, request: Search, excluded: Sequence[str]
) -> AsyncGenerator[str, None]:
    """Relative paths below the root where there may be a match, in path order. ripgrep walks and
    opens by name, and what has a name may be exchanged meanwhile: only ``ripgrep_hits`` says what
    is in a file."""
    words = [*_pattern(request), *_tree(excluded), "--files-with-matches", "--", "./"]
    async with aclosing(_output(program, words, request.root, b"\0")) as records:
        async for record in records:
            if request.accepts(path := _relative(record)):
                yield path


async def ripgrep_hits(
    program: Path, request: Search, files: Mapping[int, str]
) -> AsyncGenerator[Hit, None]:
    """Those of ``files`` with matches, in their order: descriptors of opened files, and how each is
    called."""
    path = ""
    count = 0
    lines: list[Line] = []
    words = [*_pattern(request), "--no-heading", "--with-filename", "--line-number", "--threads=1"]
    if request.mode == "content":
        words += [f"--before-context={request.before}", f"--after-context={request.after}"]
    words += ["--", *(f"{_DESCRIPTORS}{number}" for number in files)]
    async with aclosing(_output(program, words, Path("/"), b"\n", tuple(files))) as records:
        async for record in records:
            name, null, rest = record.partition(b"\0")
            row = _ROW.fullmatch(rest) if null else None
            if row is None:
                continue  # the "--" between groups
            where = files[int(name.removeprefix(_DESCRIPTORS.encode()))]
            if where != path:
                if count:
                    yield Hit(path, count, tuple(lines))
                path = where
                count = 0
                lines = []
            matched = row["mark"] == b":"
            count += matched
            if request.mode == "content":
                text = row["text"].decode("utf-8", "replace")
                lines.append(Line(int(row["number"]), text, matched))
    if count:
        yield Hit(path, count, tuple(lines))


def _relative(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape").removeprefix("./")
