"""Cages of programs that people wrote down: hooks and MCP servers, also of plugins and projects."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from string import Template

import structlog

from ohmo.contracts.sandbox import Backend, Cage, Launch, Terms
from ohmo.contracts.tool import Opened
from ohmo.sandbox.walls import SYSTEM, Walls

log = structlog.get_logger("ohmo.sandbox")
Tell = Callable[[str, str], Awaitable[object]]
"""What it is about, so that it is told once, and the words for the owner."""
SCRIPTS = "programs"  # of ohmo's home: where the owner keeps some
_HOPS = 40  # links on the way to one place, as of the kernel
_LANGUAGES = (".cjs", ".js", ".mjs", ".pl", ".py", ".rb", ".sh", ".ts")
_TOPS = (
    "package.json",
    "node_modules",
    "pyproject.toml",
    ".venv",
)  # of what a script is built from
_ABOVE = 4  # folders above it in which one is looked for
_SHELLS = (("/bin/sh", "-c"), ("/bin/bash", "-c"), ("sh", "-c"), ("bash", "-c"))


class Programs:
    """Implements ``ohmo.contracts.sandbox.Programs``. ``home`` of the person, ``root``: ohmo's.
    ``opens``: whether a place is neither sensitive nor one of everybody, and holds nothing such."""

    def __init__(
        self, walls: Walls, home: Path, root: Path, opens: Callable[[str], bool], tell: Tell
    ) -> None:
        self._walls = walls
        self._home = Path(os.path.realpath(home))
        self._root = Path(os.path.realpath(root))
        self._opens = opens
        self._tell = tell
        self._told = set[str]()

    @property
    def name(self) -> Backend:
        return self._walls.name

    async def cage(self, argv: tuple[str, ...], cwd: Path, terms: Terms) -> Cage | None:
        """Raises OSError."""
        if terms.owners and terms.off:
            return None
        if (await self._walls.standing()).backend == "none":
            await self._bare(terms)
            return None
        return await asyncio.to_thread(self._planned, argv, cwd, terms)

    @asynccontextmanager
    async def launch(self, argv: tuple[str, ...], cwd: Path, cage: Cage) -> AsyncGenerator[Launch]:
        """Raises OSError."""
        async with self._walls.launch(argv, cwd, cage) as launch:
            lasting = next((path for path in cage.write if path.parent == self._lasting), None)
            if lasting is None:
                yield launch
                return
            kept = {"XDG_CACHE_HOME": str(lasting), "npm_config_cache": f"{lasting}/npm"}
            yield replace(launch, env={**launch.env, **kept})

    def refused(self, cwd: Path, terms: Terms) -> str:
        """Why what the owner's keys name cannot be opened, as each start would say; empty: it can.
        Blocks."""
        try:
            self._named((), cwd, terms)
        except OSError as error:
            return str(error)
        return ""

    @property
    def _lasting(self) -> Path:
        return self._root / "cache" / "servers"

    async def _bare(self, terms: Terms) -> None:
        """Never without a word."""
        if terms.what in self._told:
            return
        self._told.add(terms.what)
        log.warning("program_without_walls", program=terms.what)
        if not terms.owners:
            line = f"No sandbox holds here: {terms.what} runs without walls. docs/sandbox.md"
            await self._tell(f"{terms.what} without walls", line)

    def _planned(self, argv: tuple[str, ...], cwd: Path, terms: Terms) -> Cage:
        reads, writes = self._named(argv, cwd, terms) if terms.owners else ((), ())
        own = tuple(Path(each) for each in (terms.plugin,) if each)
        lasting = tuple(self._lasting / each for each in (terms.cache,) if each)
        lasting += tuple(Path(each) for each in (terms.data,) if each)
        for folder in lasting:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = Opened(reads, writes, network=terms.network, offline=not terms.network)
        cage = self._walls.planned(cwd, own, lasting, opened=opened)
        hidden = self._walls.hidden((*reads, *writes)) if reads or writes else ()
        return replace(cage, hide=tuple(dict.fromkeys((*cage.hide, *hidden))))

    def _named(
        self, argv: tuple[str, ...], cwd: Path, terms: Terms
    ) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
        """What the owner opened by its keys, and by what its words name. Raises OSError."""
        keys: dict[str, list[Path]] = {"read": [], "write": []}
        grounds = _widest(self._walls.workspace, os.path.realpath(cwd))
        for key, places in (("read", terms.read), ("write", terms.write)):
            for written in places:
                path = self._absolute(written)
                place = None if path is None else _reached(path, grounds)
                if place is None or not self._may(place):
                    why = "is a sensitive place, or holds one" if place else "is not there"
                    led = path is not None and place is None
                    why = "is led out of the workspace by a link there" if led else why
                    raise OSError(f"{terms.what}: sandbox.{key}: {written} {why}; name another")
                keys[key].append(place)
        for path in filter(None, map(self._absolute, _words(argv))):
            place = _reached(path, grounds)
            if place is None or _of_system(str(place)):
                continue
            if place.is_dir():
                kind = "write" if terms.cache else "read"
                keys[kind] += filter(self._may, [place])
                continue
            beside = _reached(path.parent, grounds)
            for folder in dict.fromkeys(filter(None, (beside, place.parent))):
                keys["read"] += self._around(folder, place, grounds)
        return tuple(dict.fromkeys(keys["read"])), tuple(dict.fromkeys(keys["write"]))

    def _around(self, folder: Path, file: Path, grounds: tuple[str, ...]) -> Iterator[Path]:
        """A program finds its parts where it lies: the widest place that may be opened."""
        above = [folder.parent] if folder.name == "bin" else []
        if file.suffix in _LANGUAGES:
            above = [*_top(folder, grounds), *above]
        for place in (*above, folder, file):
            if self._may(place):
                yield place
                return

    def _may(self, place: Path) -> bool:
        """Of ohmo's home only what the owner keeps there to be run."""
        if place in (self._home, *self._home.parents):
            return False
        if self._root not in (place, *place.parents):
            return self._opens(str(place))
        scripts = self._root / SCRIPTS
        own = scripts in (place, *place.parents)
        return own or (place.parent == self._root and place.suffix in _LANGUAGES)

    def _absolute(self, word: str) -> Path | None:
        """None: it is none, or nothing is there."""
        names = {"HOME": str(self._home), "OHMO_HOME": str(self._root)}
        text = Template(word).safe_substitute(names)
        if text == "~" or text.startswith("~/"):
            text = f"{self._home}{text[1:]}"
        return Path(text) if text.startswith("/") and os.path.exists(text) else None  # noqa: PTH110


def _top(folder: Path, grounds: tuple[str, ...]) -> Iterator[Path]:
    """The nearest that holds what a script is built from; none out of a folder where commands may
    write, for they could take away the nearer one."""
    for place in (folder, *folder.parents[:_ABOVE]):
        if str(place) in grounds:
            return
        if any(os.path.lexists(place / name) for name in _TOPS):
            yield place
            return


def _of_system(path: str) -> bool:
    """It can be read in every cage; and of containers the system is the image's."""
    return any(path == each or path.startswith(f"{each}/") for each in SYSTEM)


def _widest(*folders: str) -> tuple[str, ...]:
    """Without those that lie below another."""
    return tuple(
        each
        for each in dict.fromkeys(folders)
        if not any(each.startswith(f"{other}/") for other in folders)
    )


def _reached(path: Path, grounds: tuple[str, ...]) -> Path | None:
    """Where it leads; None: out of a folder where commands may write, by a link there, which one of
    them may have put there. One walk, since two could see different links. ``grounds``: such
    folders, without links."""
    at, hops, passed = "/", 0, set[str]()
    left = str(path).split("/")[::-1]
    while left:
        name = left.pop()
        step = os.path.normpath(f"{at}/{name}")
        try:
            target = os.readlink(step)  # noqa: PTH115
        except OSError:
            at = step
            continue
        if (hops := hops + 1) > _HOPS:
            return None
        passed |= {each for each in grounds if step.startswith(f"{each}/")}
        at = "/" if target.startswith("/") else at
        left += target.split("/")[::-1]
    led = any(at != each and not at.startswith(f"{each}/") for each in passed)
    return None if led else Path(at)


def _words(argv: tuple[str, ...]) -> Iterator[str]:
    """Also those of a line for a shell, and what follows ``=``."""
    words = list(argv)
    if argv[:2] in _SHELLS:
        line = " ".join(argv[2:])
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        try:
            words = list(lexer)
        except ValueError:
            words = line.split()
    for word in words:
        yield word
        if word.startswith("-") and "=" in word:
            yield word.partition("=")[2]
