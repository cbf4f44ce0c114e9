"""Checkpoints around a turn: made before its first effect in a folder, closed when it ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from ohmo.checkpoints.folders import Folders
from ohmo.checkpoints.git import CannotKeep
from ohmo.checkpoints.snapshots import PLAIN, Kept
from ohmo.contracts.tool import CallContext, Footprint
from ohmo.contracts.turns import Checkpoint
from ohmo.lifecycle import unbroken

log = structlog.get_logger("ohmo.checkpoints")
NOWHERE = Path()  # in the place of a repository that nobody knows
MOST_FOLDERS = 4  # that are kept because of one call


@dataclass(slots=True)
class _Open:
    """Of one turn that runs. ``seen``: folders, and files outside of any. ``begun``: what was kept
    and is not closed yet."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    seen: set[Path] = field(default_factory=set[Path])
    begun: list[tuple[Checkpoint, Kept]] = field(default_factory=list[tuple[Checkpoint, Kept]])


class TurnCheckpoints:
    """``repository_of``: the top of the repository that a path lies in."""

    def __init__(self, folders: Folders, repository_of: Callable[[Path], Path | None]) -> None:
        self._folders = folders
        self._repository_of = repository_of
        self._turns: dict[str, _Open] = {}

    async def before(self, context: CallContext, footprint: Footprint) -> tuple[str, ...]:
        """Awaited before a call that may change something. Keeps each folder once in a turn;
        returns a line about each that cannot be kept."""
        turn = self._turns.setdefault(context.turn, _Open())
        async with turn.lock:
            roots, files = await asyncio.to_thread(self._touched, context.cwd, footprint)
            lines: list[str] = []
            for root in roots:
                if root not in turn.seen:
                    turn.seen.add(root)
                    lines += await self._begin(context, turn, root, ())
            new = sorted(files - turn.seen)
            if new:
                turn.seen.update(new)
                lines += await self._begin(context, turn, PLAIN, new)
            # A turn that was parked in between has said it already: the row knows.
            if not roots and not files and await self._missed(context, NOWHERE):
                lines.append(
                    f"No checkpoint: {context.cwd} lies in no git repository, and neither does what"
                    " this call names: what it changes cannot be undone."
                )
            return tuple(lines)

    async def after(self, turn: str) -> None:
        """It ends, or stays open without running: what it changed is known from now on."""
        opened = self._turns.pop(turn, None)
        if opened is None or not opened.begun:
            return
        for row, before in opened.begun:
            try:
                async with self._folders.alone([Path(row.repo)]):
                    await unbroken(self._folders.end(row, before))
            except CannotKeep as error:
                log.warning("checkpoint_not_closed", repo=row.repo, error=str(error))
        await self._folders.let_go(opened.begun[0][0].thread)

    async def _begin(
        self, context: CallContext, turn: _Open, root: Path, files: tuple[Path, ...] | list[Path]
    ) -> list[str]:
        paths = [str(file.relative_to(PLAIN)) for file in files]
        try:
            async with self._folders.alone([root]):
                keeping = self._folders.keep(context.thread, context.turn, root, paths)
                turn.begun.append(await unbroken(keeping))
        except (CannotKeep, OSError) as error:
            if not await self._missed(context, root) and root != PLAIN:  # there each file counts
                return []
            what = ", ".join(map(str, files)) or str(root)
            return [f"No checkpoint of {what}: {error}. What this changes there cannot be undone."]
        return []

    async def _missed(self, context: CallContext, root: Path) -> bool:
        return await unbroken(self._folders.miss(context.thread, context.turn, root))

    def _touched(self, cwd: Path, footprint: Footprint) -> tuple[list[Path], set[Path]]:
        """Repositories, and single files outside of any, that a call may change."""
        paths = [*footprint.writes, *(footprint.touches or ())]
        if footprint.command is not None or not footprint.writes:
            paths.append(cwd)
        roots: list[Path] = []
        for more in footprint.places or ((),):
            # Words may name what is only read: they count where nothing else says more.
            paths += more
            tops = [self._repository_of(Path(os.path.realpath(cwd / path))) for path in paths]
            roots = roots or [top for top in dict.fromkeys(tops) if top is not None]
        files: set[Path] = set()
        for path in footprint.writes:
            real = Path(os.path.realpath((cwd / path).parent)) / path.name
            a_file = real.is_file() or real.is_symlink() or not real.exists()
            if a_file and self._repository_of(real) is None:
                files.add(real)
        return roots[:MOST_FOLDERS], files
