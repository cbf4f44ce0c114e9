"""Searches with the ``rg`` program; it ends with the call, and with the daemon."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path

from ohmo.tools.results import ToolError
from ohmo.tools.search.request import Hit, Line, Search

_LINE = 16 * 1024 * 1024
_DESCRIPTORS = "/dev/fd/"
_ROW = re.compile(rb"(?P<number>\d+)(?P<mark>[:-])(?P<text>.*)", re.DOTALL)


def find_ripgrep(path: str | None) -> Path | None:
    """``rg`` beside this Python (the wheel puts it there), else on ``path``."""
    beside = Path(sys.executable).with_name("rg")
    if beside.is_file():
        return beside
    found = shutil.which("rg", path=path)
    return Path(found) if found else None


def _pattern(request: Search) -> list[str]:
    words = ["--color=never", "--null", "--no-mmap", "--no-messages", "--no-config"]
    words += ["--ignore-case"] if request.ignore_case else ["--case-sensitive"]
    words += ["--multiline", "--multiline-dotall"] if request.multiline else []
    return [*words, "--regexp", request.pattern]


def _tree(excluded: Iterable[str]) -> list[str]:
    """Hidden files yes, git's ignore rules in repositories, nothing of the person's own ripgrep or
    git settings."""
    words = [
        "--no-config",
        "--hidden",
        "--no-ignore-dot",
        "--no-ignore-global",
        "--no-ignore-exclude",
        "--sort=path",
        "--no-messages",
    ]
    return [
        *words,
        *(
            word
            for pattern in ("!.git", *(f"!{each}" for each in excluded))
            for word in ("--iglob", pattern)
        ),
    ]


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


async def files(program: Path, root: Path, excluded: Sequence[str]) -> AsyncGenerator[str, None]:
    """Relative paths of all files in path order."""
    async with aclosing(
        _output(program, ["--files", "--null", *_tree(excluded), "--", "./"], root, b"\0")
    ) as records:
        async for record in records:
            yield _relative(record)


async def matching(
    program: Path, request: Search, excluded: Sequence[str]
) -> AsyncGenerator[str, None]:
    """Relative paths below the root where there may be a match, in path order. ripgrep walks and
    opens by name, and what has a name may be exchanged meanwhile: only ``search`` says what is in a
    file."""
    words = [*_pattern(request), *_tree(excluded), "--files-with-matches", "--", "./"]
    async with aclosing(_output(program, words, request.root, b"\0")) as records:
        async for record in records:
            if request.accepts(path := _relative(record)):
                yield path


async def search(
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
