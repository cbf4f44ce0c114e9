"""Which hooks count now: the owner's own file, and what plugins and a project bring while somebody
trusts exactly this content."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import structlog

from channels.record import record
from ohmo.content import some
from ohmo.contracts.hooks import OWN_FILE
from ohmo.contracts.trust import Candidate, Trusts
from ohmo.hooks.hook import Hook, HookFile, Program
from ohmo.hooks.packages import Packaged
from ohmo.hooks.project import Project, Projects, read_file

log = structlog.get_logger("ohmo.hooks")
SETTLED = 0.2  # seconds in which a written file must not change any more
_LOOKS = 10
_LONG, _CUT = 250, 120  # characters of what a hook may do, and of the name of a file
Tell = Callable[[str, str], Awaitable[object]]
"""What it is about, so that it is told once, and the words for the owner."""
Brought = Callable[[], Awaitable[tuple[Hook, ...]]]
"""Those of trusted plugins. Raises StoreError."""


async def no_plugins() -> tuple[Hook, ...]:
    return ()


@record
class Standing:
    """The hooks that count now, in their order. ``broken``: why no tool may run."""

    hooks: tuple[Hook, ...] = ()
    broken: str = ""


class HookFiles:
    """``tell``: what the owner should know. ``begins``: what stands in the owner's file counts at
    once, also when it cannot be read; else it is one that is being written. ``packaged`` and then
    ``brought`` are asked after the owner's and before a project's."""

    def __init__(
        self,
        home: Path,
        trusts: Trusts,
        tell: Tell,
        *,
        begins: bool = True,
        brought: Brought = no_plugins,
        packaged: Packaged | None = None,
    ) -> None:
        self.packaged = packaged or Packaged()
        self._brought = brought
        self.path = home / OWN_FILE
        self._trusts = trusts
        self._tell = tell
        self._told = ""
        self._left_out: dict[Path, str] = {}  # by its root, the digest that was told of
        self._projects = Projects()
        self._looking = asyncio.Lock()
        self._stamp = self._look() if begins else None
        self.own = self._read() if begins else HookFile()

    def _look(self) -> tuple[int, int, int] | None:
        for look in (self.path.stat, self.path.lstat):  # also a link that leads nowhere now
            with suppress(OSError):
                found = look()
                return found.st_ino, found.st_size, found.st_mtime_ns
        return None

    def _read(self) -> HookFile:
        found = read_file(self.path, OWN_FILE) or HookFile()
        for line in found.findings:
            log.warning("hook_finding", finding=line)
        return found

    async def _refresh(self) -> None:
        """Takes the file as it is now, once it is still; until then what counted before does."""
        async with self._looking:
            now = self._look()
            for _ in range(_LOOKS):
                if now == self._stamp:
                    return
                await asyncio.sleep(SETTLED)
                before, now = now, self._look()
                if now == before:
                    self._stamp = now
                    self._reload()
                    return

    def _reload(self) -> None:
        """What cannot be read leaves what counted before, and is said once."""
        found = self._read()
        if found.broken and not self.own.broken:
            if found.broken != self._told:
                log.warning("hooks_kept", problem=found.broken, hooks=len(self.own.hooks))
            self._told = found.broken
            return
        self._told = ""
        if found != self.own:
            log.info("hooks_loaded", hooks=len(found.hooks), problem=found.broken)
        self.own = found

    async def of(self, cwd: Path) -> Standing:
        """In this folder. Raises StoreError."""
        await self._refresh()
        own = self.own
        if own.broken:
            return Standing(broken=own.broken)
        hooks = (*own.hooks, *self.packaged.hooks, *await self._brought())
        found = await asyncio.to_thread(self._projects.read, cwd)
        if found is None:
            return Standing(hooks)
        if await self._allowed(found):
            self._left_out.pop(found.root, None)
            return Standing((*hooks, *found.file.hooks))
        await self._leave_out(found)
        return Standing(hooks)

    async def candidates(self, folder: Path) -> list[Candidate]:
        """What its hooks would do, while nobody allowed exactly them. Raises StoreError."""
        found = await asyncio.to_thread(self._projects.read, folder)
        if found is None or not found.digest or await self._allowed(found):
            return []
        return [Candidate("hook", str(folder), found.digest, str(folder), _may(found))]

    async def _allowed(self, found: Project) -> bool:
        kept = found.digest
        return bool(kept) and await self._trusts.trusted("hook", str(found.root), kept)

    async def _leave_out(self, found: Project) -> None:
        if self._left_out.get(found.root) == found.digest:
            return
        self._left_out[found.root] = found.digest
        notes = found.file.findings
        log.warning("hooks_not_trusted", project=str(found.root), findings=notes)
        if not found.digest:  # else a card asks
            await self._tell(f"hooks of {found.root}", notes[-1])


def _may(found: Project) -> str:
    """What they would do, and which files are part of it."""
    hooks = found.file.hooks
    runs = any(isinstance(hook.action, Program) for hook in hooks)
    does = some([hook.may for hook in hooks], _LONG, ", which ohmo hooks list --json shows")
    named = ", ".join(some(found.named, _CUT)) or "no file"
    walled = "; programs in the sandbox, with the workspace and without network" if runs else ""
    return f"{'; '.join(does)} (with {named} of the project as it is now{walled})"
