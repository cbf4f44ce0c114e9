"""``.mcp.json`` of the workspace, which anybody may have written: it is hashed first and read only
while somebody trusts exactly these bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import Path

from ohmo.content import Unfit, content_of
from ohmo.contracts.mcp import PROJECT_FILE
from ohmo.contracts.trust import Candidate, Trusts
from ohmo.mcp.written import Ground, Look, servers_in


class ProjectFile:
    """``environ``: all that a program of it is given, and all that variables in it may stand for.
    ``taken``: names of the configuration's own servers."""

    def __init__(
        self, folder: Path, trusts: Trusts, environ: Mapping[str, str], taken: Collection[str]
    ) -> None:
        self._folder = folder
        self._trusts = trusts
        self._environ = environ
        self._taken = taken

    async def candidates(self) -> list[Candidate]:
        """What waits to be trusted. Raises StoreError."""
        found = await asyncio.to_thread(self._bytes)
        if not isinstance(found, tuple) or await self._trusted(found[0]):
            return []
        walled = "in the sandbox, with the workspace and the network"
        may = f"starts programs ({walled}) and reaches servers for tools, as it says"
        where = str(self._folder)
        return [Candidate("mcp", where, found[0], f"{where}/{PROJECT_FILE}", may)]

    async def look(self) -> Look:
        """What counts now. Raises StoreError."""
        found = await asyncio.to_thread(self._bytes)
        if found is None:
            return Look()
        if isinstance(found, str):
            return Look(notes=(found,))
        digest, data = found
        if not await self._trusted(digest):
            word = f"ohmo trust allow mcp {self._folder} --digest {digest[:12]}"
            return Look(
                notes=(f"{self._folder / PROJECT_FILE} does not count: read it, then: {word}",)
            )
        return await asyncio.to_thread(self._read, data)

    async def _trusted(self, digest: str) -> bool:
        return await self._trusts.trusted("mcp", str(self._folder), digest)

    def _bytes(self) -> tuple[str, bytes] | str | None:
        """Its digest and itself; a line: it cannot be read; None: there is none."""
        path = self._folder / PROJECT_FILE
        try:
            if not path.exists():
                return None
            content = content_of(path)
        except (Unfit, OSError) as error:
            return f"{path} does not count: {error}"
        if PROJECT_FILE not in content.files:
            return f"{path} does not count: it is a folder"
        return content.digest, content.files[PROJECT_FILE].data

    def _read(self, data: bytes) -> Look:
        place = str(self._folder / PROJECT_FILE)
        ground = Ground(place, self._folder, self._environ, self._taken)
        found, notes = servers_in(data, ground)
        return Look(found, sha256(str(self._folder).encode()).hexdigest()[:16], notes)
