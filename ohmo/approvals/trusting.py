"""What may take part: who allowed which content, and what waits for that; the same from the
keyboard and over the API."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from ohmo.content import some
from ohmo.contracts.errors import OhmoError
from ohmo.contracts.mcp import McpServers
from ohmo.contracts.trust import SETTINGS, Candidate, Kind, Trust, Trusts
from ohmo.plugins.shelf import Entry, Plugins
from ohmo.skills.shelf import Shelf, Skills

_CUT = 300  # characters of what a changed tool says
_FOLDERS: tuple[Kind, ...] = ("project", "hook")  # whose names are folders
Candidates = Callable[[Path], Awaitable[Sequence[Candidate]]]
"""What of one kind waits, for work in a folder."""


class NothingToTrust(OhmoError):
    """Nothing of that name waits, or more than one thing does; one line."""


class TrustDesk:
    def __init__(
        self,
        trusts: Trusts,
        skills: Skills,
        workspace: Path,
        more: Sequence[Candidates] = (),
        plugins: Plugins | None = None,
        settled: Callable[[], Awaitable[None]] | None = None,
        servers: McpServers | None = None,
    ) -> None:
        """``workspace``: the folder that is meant where none is named. ``more``: where else
        something waits. ``settled``: takes up what was allowed or revoked. ``servers``: whose tools
        may change."""
        self._servers = servers
        self._plugins = plugins
        self._trusts = trusts
        self._skills = skills
        self._candidates = (skills.candidates, *more)
        self._workspace = workspace
        self._settled = settled

    async def shelf(self, folder: Path | None = None) -> Shelf:
        """Which skills there are."""
        return await self._skills.look(folder or self._workspace)

    async def plugins(self) -> Sequence[Entry]:
        """Which there are, as of this moment; none in safe mode."""
        if self._plugins is None:
            return ()
        await self._plugins.refresh()
        return self._plugins.entries

    async def trusts(self) -> list[Trust]:
        """The newest first, also what was revoked."""
        return await self._trusts.trusts()

    async def waiting(self, folder: Path | None = None) -> list[Candidate]:
        """What is there and takes no part."""
        found: list[Candidate] = []
        for each in self._candidates:
            found += await each(folder or self._workspace)
        return [*found, *self._changed_tools()]

    def around(self) -> object:
        """Cheap: another one when plugins, or tools of servers, may be others than before."""
        entries = () if self._plugins is None else self._plugins.entries
        return [(one.name, one.state, one.plugin and one.plugin.digest) for one in entries], [
            one.digest for one in self._changed_tools()
        ]

    def _changed_tools(self) -> list[Candidate]:
        servers = () if self._servers is None else self._servers.report()
        found: list[Candidate] = []
        for one in servers:
            if told := "; ".join(some(one.waiting, _CUT)):
                told += f" (ohmo mcp test {one.name} shows all)"
                may = f"offers tools that are not as they were approved: {told}"
                found.append(Candidate("mcp", one.name, one.digest, f"server {one.name}", may))
        return found

    async def allow(
        self, kind: Kind, name: str, person: str, *, folder: Path | None = None, digest: str = ""
    ) -> Candidate:
        """Exactly the content that is there now. ``digest``: how it begins, as it was shown; what
        changed since is not allowed. Raises NothingToTrust, StoreError."""
        name = _spelled(kind, name)
        if kind in _FOLDERS and folder is None and name.startswith("/"):
            folder = Path(name.removesuffix(f"/{SETTINGS}"))
        there = [one for one in await self.waiting(folder) if (one.kind, one.name) == (kind, name)]
        fitting = {one.digest: one for one in there if one.digest.startswith(digest)}
        if not fitting:
            why = "it is not the content that was shown; look again" if there else "nothing waits"
            raise NothingToTrust(f"{kind} {name}: {why}; ohmo trust list shows what does")
        if len(fitting) > 1:
            begins = ", ".join(f"{one.digest[:12]} ({one.where})" for one in fitting.values())
            raise NothingToTrust(
                f"{kind} {name}: there are several, name one by --digest: {begins}"
            )
        (found,) = fitting.values()
        if found.broken:
            raise NothingToTrust(f"{kind} {name}: {found.broken}")
        if kind == "mcp" and not name.startswith("/"):
            await self._approve(name)
            return found
        # only the version that was allowed last holds
        if kind == "plugin" or name.endswith(f"/{SETTINGS}"):
            await self._trusts.revoke(kind, name)
        await self._trusts.allow(kind, name, found.digest, person)
        await self._settle()
        return found

    async def leave_off(self, kind: Kind, name: str, digest: str, person: str) -> None:
        """It was shown, and is not allowed. Raises StoreError."""
        await self._trusts.leave_off(kind, name, digest, person)

    async def _approve(self, server: str) -> None:
        """Its tools as it offers them at this moment."""
        assert self._servers is not None
        try:
            await self._servers.approve(server)
        except (KeyError, OSError) as error:
            raise NothingToTrust(f"mcp {server}: its tools cannot be approved: {error}") from error

    async def revoke(self, kind: Kind, name: str) -> int:
        """All contents of that name; how many were allowed. Raises StoreError."""
        count = await self._trusts.revoke(kind, _spelled(kind, name))
        await self._settle()
        return count

    async def _settle(self) -> None:
        if self._plugins is not None:
            await self._plugins.refresh()
        await self._skills.refresh()
        if self._settled is not None:
            await self._settled()


def _spelled(kind: Kind, name: str) -> str:
    """A folder may be named with a slash behind it."""
    return os.path.normpath(name) if kind in _FOLDERS else name
