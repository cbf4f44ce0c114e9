"""``.mcp.json`` of the workspace, which anybody may have written: nothing of it counts before
somebody trusts exactly these bytes, and those of the project's own files that its servers are
started with."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from channels.record import record
from ohmo.content import Unfit, content_of, digest_of, some
from ohmo.content import shown as name_shown
from ohmo.contracts.mcp import PROJECT_FILE
from ohmo.contracts.trust import Candidate, Trusts
from ohmo.mcp.contract import Endpoint
from ohmo.mcp.written import Ground, Look, read_servers, shown
from ohmo.regular_file import open_regular

_BETWEEN = re.compile(r"[\s=:;,|&<>()'\"]+")  # of names in a word
_CUT = 300  # characters of what a server starts
_LARGEST = 1 << 20  # bytes of the file itself, which is looked through again and again
_MOST = 64 << 20  # bytes of all files of the project that are hashed
_MOST_WORDS = 2_000  # of all commands, each of which may name a file
_PIECE = 1 << 20


@record
class _Found:
    """``files``: of the project, which its servers are started with; part of the digest."""

    digest: str
    endpoints: tuple[Endpoint, ...]
    notes: tuple[str, ...]
    files: tuple[str, ...] = ()


class ProjectFile:
    """``environ``: all that a program of it is given, and all that variables in it may stand for.
    ``taken``: names of the configuration's own servers. ``redact``: takes secrets out of what is
    said of it."""

    def __init__(
        self,
        folder: Path,
        trusts: Trusts,
        environ: Mapping[str, str],
        taken: Collection[str],
        redact: Callable[[str], str],
    ) -> None:
        self._folder = folder
        self._trusts = trusts
        self._environ = environ
        self._taken = taken
        self._redact = redact

    async def candidates(self) -> list[Candidate]:
        """What waits to be trusted. Raises StoreError."""
        found = await asyncio.to_thread(self._bytes)
        where = str(self._folder)
        place = f"{where}/{PROJECT_FILE}"
        if isinstance(found, str):
            return [Candidate("mcp", where, "", place, "", found)]
        if found is None or await self._trusted(found.digest):
            return []
        return [Candidate("mcp", where, found.digest, place, self._may(found))]

    def _may(self, found: _Found) -> str:
        """What it would start and ask, and which of that lies in the project."""
        runs = [f"{one.name}: {shown(one, self._environ, self._redact)}" for one in found.endpoints]
        starts = some(runs, _CUT, ", which the file names") or ["none that works here"]
        names = ", ".join(some([*map(name_shown, found.files)], _CUT))
        theirs = f"{names} of the project are" if names else "no file of the project is"
        lines = (*starts, f"{theirs} part of this content", *some(found.notes, _CUT))
        walled = "in the sandbox, with the workspace and the network"
        return f"starts programs ({walled}) and reaches servers for tools: {'; '.join(lines)}"

    async def look(self) -> Look:
        """What counts now. Raises StoreError."""
        found = await asyncio.to_thread(self._bytes)
        if found is None:
            return Look()
        if isinstance(found, str):
            return Look(notes=(f"{self._folder / PROJECT_FILE} does not count: {found}",))
        if not await self._trusted(found.digest):
            word = f"ohmo trust allow mcp {self._folder} --digest {found.digest[:12]}"
            return Look(
                notes=(f"{self._folder / PROJECT_FILE} does not count: read it, then: {word}",)
            )
        lent = sha256(str(self._folder).encode()).hexdigest()[:16]
        return Look(found.endpoints, lent, found.notes, found.digest)

    async def _trusted(self, digest: str) -> bool:
        return await self._trusts.trusted("mcp", str(self._folder), digest)

    def _bytes(self) -> _Found | str | None:
        """A line: it cannot be read; None: there is none."""
        path = self._folder / PROJECT_FILE
        try:
            if not path.exists():
                return None
            content = content_of(path, most_bytes=_LARGEST)
            if PROJECT_FILE not in content.files:
                return "it is a folder"
            ground = Ground(str(path), self._folder, self._environ, self._taken)
            endpoints, notes = read_servers(content.files[PROJECT_FILE].data, ground)
            if sum(len(one.argv) for one in endpoints) > _MOST_WORDS:
                return f"its commands have more than {_MOST_WORDS} words"
            files = sorted({name for one in endpoints for name in self._theirs(one)})
            if not files:
                return _Found(content.digest, endpoints, notes)
            parts, left = {"": content.digest}, _MOST
            for name in files:
                size, parts[name] = self._digest(self._folder / name, left)
                left -= size
            digest = digest_of(parts)
            return _Found(digest, endpoints, notes, tuple(files))
        except (Unfit, OSError) as error:
            return str(error)

    def _theirs(self, endpoint: Endpoint) -> Iterator[str]:
        """Files of the project that its command or a variable names, by their place below the
        folder."""
        for word in (*endpoint.argv, *(endpoint.env or {}).values()):
            parts = [*_BETWEEN.split(word), *_BETWEEN.split(word[2:] if word[:1] == "-" else "")]
            for piece in dict.fromkeys((word, *parts)):
                path = os.path.normpath(self._folder / piece)
                if piece and path.startswith(f"{self._folder}{os.sep}") and os.path.isfile(path):  # noqa: PTH113 - raises nothing
                    yield os.path.relpath(path, self._folder)

    def _digest(self, path: Path, left: int) -> tuple[int, str]:
        """And its size. Read at every look: what is written by a mapping, mmap(2), changes no
        stamp. Raises Unfit, OSError."""
        with open_regular(path, follow=True) as file:
            digest, size = sha256(), os.fstat(file.fileno()).st_size
            while size <= left and (piece := file.read(_PIECE)):
                digest.update(piece)
                size = max(size, file.tell())  # it may grow while it is read
            if size > left:
                most = f"{_MOST >> 20} MiB"
                raise Unfit(f"the files that its commands name are larger than {most} together")
        return size, digest.hexdigest()
