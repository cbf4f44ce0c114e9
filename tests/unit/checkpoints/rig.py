"""A repository in a folder of its own, and checkpoints of it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ohmo.ambient import Ambient, Failpoint, IdSource, inert, utc_now
from ohmo.checkpoints.folders import Folders, Limits
from ohmo.checkpoints.snapshots import Bounds, Snapshots
from ohmo.checkpoints.taking_back import Showing, TakenBack, TakingBack
from ohmo.checkpoints.turns import TurnCheckpoints
from ohmo.context.rules import repository_of
from ohmo.contracts.tool import Footprint
from ohmo_testing.house import ManualClock
from tests.makers import call_context
from tests.programs import run_process
from tests.store_model.store import MemoryStore

BOUNDS = Bounds(64 << 20, 60.0)
Files = dict[str, tuple[int, bytes]]


def git(folder: Path, *arguments: str) -> str:
    person = ("-c", "user.name=me", "-c", "user.email=me@example.org")
    return run_process("git", *person, *arguments, cwd=folder, code=0).stdout


def repository(folder: Path, files: Mapping[str, str], *, commit: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "trunk")
    for name, text in files.items():
        write(folder / name, text)
    if commit:
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "first")
    return folder


def write(path: Path, text: str | bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)


def files_of(folder: Path, *, but: str = ".git") -> Files:
    """Every file and link, with its permissions and what it holds."""
    found: Files = {}
    for top, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not (top == str(folder) and name == but)]
        for name in [*names, *(each for each in folders if Path(top, each).is_symlink())]:
            path = Path(top, name)
            status = path.lstat()
            link = stat.S_ISLNK(status.st_mode)
            content = os.fsencode(path.readlink()) if link else path.read_bytes()
            mode = 0 if link else stat.S_IMODE(status.st_mode)
            found[str(path.relative_to(folder))] = (mode, content)
    return found


def state_of(folder: Path) -> dict[str, tuple[int, str]]:
    """Everything of git's own: size and digest of each file."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_size,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in sorted((folder / ".git").rglob("*"))
        if path.is_file()
    }


class Rows(MemoryStore):
    """``earlier``: turns of another session; every other one belongs to the present one."""

    def __init__(self) -> None:
        super().__init__(clock=ManualClock())
        self.earlier: set[str] = set()

    async def session_turns(self, thread: str) -> set[str]:
        return {row.turn for row in await self.checkpoints(thread)} - self.earlier


@dataclass
class Rig:
    """``thread`` is one conversation whose turns change files."""

    home: Path
    failpoint: Failpoint = inert
    limits: Limits = field(default_factory=lambda: Limits(20, 1 << 30, 60.0))
    store: MemoryStore = field(default_factory=Rows)
    environ: Mapping[str, str] = field(
        default_factory=lambda: {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    )
    orders: int = 0

    def __post_init__(self) -> None:
        ambient = Ambient(IdSource(), utc_now, self.failpoint)
        self.folders = Folders(self.home, self.environ, self.store, self.limits, ambient)
        self.turns = TurnCheckpoints(self.folders, lambda path: repository_of(path, Path("/")))
        self.back = TakingBack(
            self.folders, Showing(self.home, lambda _: False, str, lambda at: f"{at:%H:%M}")
        )

    async def begins(
        self, turn: str, cwd: Path, footprint: Footprint | None = None, thread: str = "one"
    ) -> tuple[str, ...]:
        context = call_context(cwd, 60, turn=turn, thread=thread)
        footprint = footprint or Footprint(command="x", effect="once")
        return await self.turns.before(context, footprint)

    async def undo(self, *, force: bool = False, order: int | None = None) -> TakenBack:
        return await self._take_back("undo", 1, force, order)

    async def rollback(
        self, back: int = 1, *, force: bool = False, order: int | None = None
    ) -> TakenBack:
        return await self._take_back("rollback", back, force, order)

    async def _take_back(self, kind: str, back: int, force: bool, order: int | None) -> TakenBack:
        self.orders += 1
        number = self.orders if order is None else order
        return await self.back.take_back("one", number, kind, back, force=force)  # type: ignore[arg-type]

    def snapshots(self, root: Path) -> Snapshots:
        return Snapshots(self.folders.store, root, self.environ, self.home)


def nothing_kept(store: MemoryStore) -> TakingBack:
    """For a house in which no turn has changed a file."""
    rig = Rig(Path("/nonexistent"), store=store)
    return rig.back
