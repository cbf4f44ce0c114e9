"""Everything that is kept in a home: its folders, each used by one at a time, its rows, and what of
it goes when its time is over."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakValueDictionary

import structlog

from channels.record import record
from ohmo.ambient import Ambient
from ohmo.checkpoints.git import CannotKeep, Git
from ohmo.checkpoints.history import deeds
from ohmo.checkpoints.snapshots import PLAIN, Bounds, Kept, Snapshots
from ohmo.contracts.turns import Checkpoint, CheckpointRows
from ohmo.lifecycle import unbroken

log = structlog.get_logger("ohmo.checkpoints")
_YOUNG = 3_600.0  # seconds that files without a row are left alone: their row may be on its way
P = ParamSpec("P")
T = TypeVar("T")


@record
class Limits:
    """``size``: bytes in a home, of which one checkpoint may take a quarter. ``seconds``: that one
    may take."""

    per_thread: int
    size: int
    seconds: float


class Folders:
    """``failpoint`` is hit as checkpoint.kept, between files and row. ``home``: of the agent, in no
    checkpoint; ``environ``: of the user."""

    def __init__(
        self,
        home: Path,
        environ: Mapping[str, str],
        rows: CheckpointRows,
        limits: Limits,
        ambient: Ambient,
    ) -> None:
        self.rows = rows
        self.ambient = ambient
        self.store = home / "cache" / "checkpoints"
        self._home = Path(os.path.realpath(home))
        self._environ = environ
        self._limits = limits
        self._bounds = Bounds(limits.size // 4, limits.seconds)
        self._locks = WeakValueDictionary[Path, asyncio.Lock]()

    @asynccontextmanager
    async def alone(self, roots: Collection[Path]) -> AsyncGenerator[None]:
        """Nobody else in this process keeps or restores them meanwhile."""
        async with AsyncExitStack() as stack:
            for root in sorted(set(roots)):
                await stack.enter_async_context(self._locks.setdefault(root, asyncio.Lock()))
            yield

    async def within(
        self,
        root: Path,
        work: Callable[Concatenate[Snapshots, Git, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """``work`` in a thread, to its end. Raises CannotKeep."""

        def run() -> T:
            snapshots = Snapshots(self.store, root, self._environ, self._home)
            with snapshots.opened(self._bounds) as git:
                return work(snapshots, git, *args, **kwargs)

        return await unbroken(asyncio.to_thread(run))

    def now(self, snapshots: Snapshots, git: Git, paths: Collection[str]) -> Kept:
        """As it stands; ``paths``: which files outside of repositories. Raises CannotKeep."""
        if snapshots.root == PLAIN:
            return snapshots.of_files(git, self._bounds, paths)
        return snapshots.of_folder(git, self._bounds)

    async def keep(
        self, thread: str, turn: str, root: Path, paths: Collection[str]
    ) -> tuple[Checkpoint, Kept]:
        """Files first, then the row: a row without its files would be a promise. Its folder is held
        by the caller. Raises CannotKeep."""
        name = self.ambient.new_id()

        def write(snapshots: Snapshots, git: Git) -> tuple[Kept, int]:
            size = snapshots.size()
            kept = self.now(snapshots, git, paths)
            snapshots.write(name, kept, None)
            return kept, max(0, snapshots.size() - size)

        kept, size = await self.within(root, write)
        self.ambient.failpoint("checkpoint.kept")
        row = Checkpoint(name, thread, turn, str(root), kept.tree, size, self.ambient.clock())
        await self.rows.keep_checkpoint(row)
        return row, kept

    async def end(self, row: Checkpoint, before: Kept) -> None:
        """What it is followed by is known from now on. Raises CannotKeep."""

        def write(snapshots: Snapshots, git: Git) -> None:
            snapshots.write(row.id, before, self.now(snapshots, git, before.paths or ()))

        await self.within(Path(row.repo), write)

    async def miss(self, thread: str, turn: str, root: Path) -> bool:
        """The turn works there although nothing is kept; False: that was known already."""
        rows = await self.rows.checkpoints(thread)
        if any((row.turn, row.repo, row.tree) == (turn, str(root), "") for row in rows):
            return False
        name = self.ambient.new_id()
        row = Checkpoint(name, thread, turn, str(root), "", 0, self.ambient.clock())
        await self.rows.keep_checkpoint(row)
        await self.let_go(thread)
        return True

    # letting go

    async def let_go(self, thread: str) -> None:
        """The oldest changes of a conversation that has too many; those of which nothing is kept
        take no room of the others."""
        done = deeds(await self.rows.checkpoints(thread))
        for kept in (True, False):
            gone = [each for each in done if bool(each.kept) == kept][: -self._limits.per_thread]
            await self._drop([row for deed in gone for row in deed.rows])

    async def tidy(self) -> None:
        """What no row names goes, then the oldest, until the home has no more than it may."""
        rows = await self.rows.checkpoints()
        while await self._collected(rows) > self._limits.size and rows:
            gone = rows[: 1 + len(rows) // 10]
            await self._drop(gone)
            log.info("checkpoints_let_go", rows=len(gone))
            rows = rows[len(gone) :]

    async def _collected(self, rows: Sequence[Checkpoint]) -> int:
        """Bytes that are left."""
        total = 0
        for folder in [each for each in self.store.glob("*") if each.is_dir()]:
            root = await asyncio.to_thread(_root_of, folder)
            own = {row.id for row in rows if row.repo == str(root)}
            if root is None or not own:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
                continue
            with suppress(CannotKeep):
                async with self.alone([root]):
                    total += await self.within(root, _collect, own)
        return total

    async def _drop(self, rows: Sequence[Checkpoint]) -> None:
        if not rows:
            return
        await self.rows.drop_checkpoints([row.id for row in rows])
        for root in {Path(row.repo) for row in rows if row.tree}:
            names = [row.id for row in rows if row.repo == str(root)]
            with suppress(CannotKeep):
                async with self.alone([root]):
                    await self.within(root, _forget, names)


def _root_of(folder: Path) -> Path | None:
    try:
        return Path(os.fsdecode((folder / "root").read_bytes()))
    except OSError:
        return None


def _forget(snapshots: Snapshots, _: Git, names: Collection[str]) -> None:
    snapshots.forget(names)


def _collect(snapshots: Snapshots, git: Git, own: Collection[str]) -> int:
    """Bytes that are left."""
    old = time.time() - _YOUNG
    left = {name for name, at in snapshots.known() if name not in own and at < old}
    snapshots.forget(left)
    snapshots.collect(git)
    return snapshots.size()
