"""A folder as it stood: a tree in a git directory of our own beside its repository."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Collection, Generator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from channels.durable import write_whole
from channels.record import record
from ohmo.checkpoints.git import ATTRIBUTES, SETTINGS, CannotKeep, Git, lines_of, names, run
from ohmo.checkpoints.theirs import MOST_INDEX, Theirs, content_of

_LOOSE = 2_000  # objects, after which they are packed
PLAIN = Path("/")  # single files outside of a repository count from here
Look = Future[bytes]


@record
class Bounds:
    """``size``: bytes of what is new in one checkpoint; ``seconds``: that it may take."""

    size: int
    seconds: float


@record
class Kept:
    """What one snapshot holds. ``modes``: permissions that git does not keep; ``paths``: which
    files it is about, None: all of the folder."""

    tree: str
    modes: Mapping[str, int]
    paths: tuple[str, ...] | None = None


class Snapshots:
    """Of one folder. Blocks: everything here is for a thread beside the event loop."""

    def __init__(self, store: Path, root: Path, environ: Mapping[str, str], apart: Path) -> None:
        """``store``: folder of all of them. ``environ``: of the user, for what they ignore
        everywhere. ``apart``: the agent's home, which is in no snapshot. Raises CannotKeep."""
        self.root = root
        self.folder = store / sha256(os.fsencode(root)).hexdigest()[:24]
        names_of_user = ("PATH", "HOME", "XDG_CONFIG_HOME")
        user = {name: environ[name] for name in names_of_user if name in environ}
        self._path = user.get("PATH", os.defpath)
        self._apart = apart
        self._theirs = None if root == PLAIN else Theirs(root, user)
        self.format = "sha1"

    @contextmanager
    def opened(self, bounds: Bounds) -> Generator[Git]:
        """One at a time, also over processes. Raises CannotKeep, also for whatever the disk
        refuses meanwhile."""
        until = time.monotonic() + bounds.seconds
        try:
            for name in ("objects", "refs/kept", "info", "kept"):
                (self.folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            with os.fdopen(os.open(self.folder / "lock", flags, 0o600)) as lock:
                while True:
                    try:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:
                        if time.monotonic() > until:
                            raise CannotKeep("another checkpoint of it takes too long") from None
                        time.sleep(0.02)
                for kind in ("*.lock", "sharedindex_*"):
                    for left in self.folder.glob(kind):  # of a process that was killed
                        left.unlink()
                objects = None if self._theirs is None else self._theirs.objects
                git = Git(self.folder, self.root, self._path, until, objects)
                self._furnish(git)
                yield git
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise CannotKeep("the disk is full" if full else str(error)) from error

    def _furnish(self, git: Git) -> None:
        """Its settings, and what is ignored, as theirs says now."""
        patterns: list[bytes] = []
        if self._theirs is not None:
            wanted = self._theirs.settings(git).get("extensions.objectformat")
            self.format = "sha256" if wanted == "sha256" else "sha1"
            patterns += self._theirs.ignored(git)
        if self._apart.is_relative_to(self.root) and self._apart != self.root:
            own = os.fsencode(self._apart.relative_to(self.root))
            patterns.append(b"/" + re.sub(rb"([\\*?\[])", rb"\\\1", own) + b"/")
        for name, text in (
            ("root", os.fsencode(self.root)),
            ("HEAD", b"ref: refs/heads/none\n"),
            ("config", SETTINGS.format(format=self.format).encode()),
            ("info/attributes", ATTRIBUTES.encode()),
            ("info/exclude", b"\n".join(patterns) + b"\n"),
        ):
            path = self.folder / name
            if content_of(path, len(text) + 1) != text:
                path.write_bytes(text)

    # making one

    def of_folder(self, git: Git, bounds: Bounds) -> Kept:
        """All that git would not ignore. Raises CannotKeep."""
        first = not (self.folder / "index").exists()
        try:
            return self._of_folder(git, bounds, first=first)
        except CannotKeep:
            if first:
                raise
            (self.folder / "index").unlink()  # it may be damaged
            return self._of_folder(git, bounds, first=True)

    def _of_folder(self, git: Git, bounds: Bounds, *, first: bool) -> Kept:
        assert self._theirs is not None
        kept = json.loads(content_of(self.folder / "modes.json", MOST_INDEX) or b"{}")
        left = set[str]()
        with ThreadPoolExecutor(2) as beside:
            if first:
                modes, looks = self._seed(git, self._theirs, beside)
            else:
                modes, looks = dict(kept), _looks(git, beside)
                left = self._follow(git, self._theirs)
            listed = [path for look in looks for path in names(look.result())]
        # What ends with a slash is a repository inside, with checkpoints of its own.
        changed = {path for path in listed if not path.endswith("/")} - left
        present = self._present(changed, modes, bounds)
        if gone := changed - present:
            _update_index(git, "--force-remove", gone)
        if present:
            _update_index(git, "--add", present)
        if modes != kept:
            write_whole(self.folder / "modes.json", json.dumps(modes))
        # Blobs that a partial clone has not fetched are missing.
        tree = git("write-tree", "--missing-ok").decode().strip()
        return Kept(tree, modes)

    def of_files(self, git: Git, bounds: Bounds, paths: Collection[str]) -> Kept:
        """Only these, relative to the folder. Raises CannotKeep."""
        modes: dict[str, int] = {}
        present = self._present(paths, modes, bounds)
        (self.folder / "files").unlink(missing_ok=True)
        if present:
            told = lines_of(present)
            git("update-index", "--add", "-z", "--stdin", told=told, index="files")
        tree = git("write-tree", index="files").decode().strip()
        return Kept(tree, modes, tuple(sorted(paths)))

    def _present(self, paths: Collection[str], modes: dict[str, int], bounds: Bounds) -> set[str]:
        """Those that are there now; their permissions go into ``modes``. Raises CannotKeep: one
        cannot be read, or they are too many bytes."""
        present: set[str] = set()
        room = bounds.size
        for path in paths:
            status = status_of(self.root, path)
            if status is None:
                modes.pop(path, None)
                continue
            kind = stat.S_IFMT(status.st_mode)
            full = self.root / path
            if kind == stat.S_IFREG and not os.access(full, os.R_OK):
                raise CannotKeep(f"{full} cannot be read")
            if kind not in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR):
                raise CannotKeep(f"{full} is no file")
            if kind == stat.S_IFDIR and not (full / ".git").exists():
                continue
            present.add(path)
            _note(modes, path, status)
            room -= status.st_size if kind == stat.S_IFREG else 0
        if room < 0:
            raise CannotKeep(f"what is new in it has more than {bounds.size >> 20} MiB")
        return present

    def _seed(
        self, git: Git, theirs: Theirs, beside: Executor
    ) -> tuple[dict[str, int], Sequence[Look]]:
        """Begins with their index, which knows what has not changed. Returns the permissions of
        what it has, and what looks for changes."""
        self._copy_index(theirs)
        copy = self.folder / "theirs"
        if not copy.exists():
            return {}, _looks(git, beside)
        looks = _looks(git, beside, "theirs")
        lines = git("ls-files", "-v", "-z", index="theirs")
        tracked = [line[2:] for line in names(lines)]
        usual = (b"\0" + lines).count(b"\0H ") == len(tracked)
        if usual and not theirs.converts(git, lines):
            shutil.copy2(copy, self.folder / "seeding")
            (self.folder / "seeding").replace(self.folder / "index")
            return _permissions(self.root, tracked), looks
        staged = git("ls-files", "-s", "-z", index="theirs")
        (self.folder / "seeding").unlink(missing_ok=True)
        git("update-index", "-z", "--index-info", told=staged, index="seeding")
        # Reads every file; fails, and says which ones need an update.
        refresh = ["git", "update-index", "-q", "--refresh", "--unmerged"]
        run(refresh, self.root, git.environment("seeding"), until=git.until)
        (self.folder / "seeding").replace(self.folder / "index")
        looks = _looks(git, beside)  # what theirs says is not what lies there
        return _permissions(self.root, tracked), looks

    def _follow(self, git: Git, theirs: Theirs) -> set[str]:
        """Keeps of what is ignored exactly what their index has: that is tracked all the same.
        Returns what is not kept any more."""
        asked = ("ls-files", "-c", "-i", "-z", "--exclude-standard")
        ours = set(names(git(*asked)))
        if not self._copy_index(theirs) and not ours:
            return set()
        copied = (self.folder / "theirs").exists()
        wanted = set(names(git(*asked, index="theirs"))) if copied else set[str]()
        if gone := ours - wanted:
            _update_index(git, "--force-remove", gone)
        more = {path for path in wanted - ours if status_of(self.root, path) is not None}
        if more:
            _update_index(git, "--add", more)
        return gone

    def _copy_index(self, theirs: Theirs) -> bool:
        """Whether theirs is another one than before."""
        status = status_of(theirs.folder, "index")
        content = theirs.index()
        copy = self.folder / "theirs"
        if content == content_of(copy, MOST_INDEX):
            return False
        for shared in theirs.folder.glob("sharedindex.*"):  # git-update-index(1), split index
            (self.folder / shared.name).write_bytes(content_of(shared, MOST_INDEX))
        if content and status is not None:
            copy.write_bytes(content)
            # of files that are as young as their index git reads what they hold
            os.utime(copy, ns=(status.st_mtime_ns, status.st_mtime_ns))
        else:
            copy.unlink(missing_ok=True)
        return True

    # what is kept

    def write(self, name: str, before: Kept, after: Kept | None) -> None:
        """Under ``name`` from now on; so its objects stay."""
        for part, kept in (("before", before), ("after", after)):
            ref = self.folder / "refs" / "kept" / f"{name}-{part}"
            if kept is not None and not ref.exists():  # its time says when it was made
                write_whole(ref, f"{kept.tree}\n")
        body = [None if kept is None else _body(kept) for kept in (before, after)]
        write_whole(self.folder / "kept" / name, json.dumps(body))

    def read(self, name: str) -> tuple[Kept, Kept | None]:
        """Raises CannotKeep: it is not here any more."""
        try:
            before, after = json.loads((self.folder / "kept" / name).read_bytes())
            return _kept(before), None if after is None else _kept(after)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise CannotKeep("what was kept is not there any more") from error

    def began(self, name: str) -> float | None:
        """Seconds since 1970, by the clock of the disk."""
        try:
            return (self.folder / "refs" / "kept" / f"{name}-before").stat().st_mtime
        except OSError:
            return None

    def ended(self, name: str) -> datetime | None:
        """When it was closed."""
        try:
            status = (self.folder / "refs" / "kept" / f"{name}-after").stat()
        except OSError:
            return None
        return datetime.fromtimestamp(status.st_mtime, UTC)

    def known(self) -> list[tuple[str, float]]:
        """Names of all that is kept, each with its time in seconds since 1970."""
        return [(each.name, each.stat().st_mtime) for each in (self.folder / "kept").iterdir()]

    def forget(self, gone: Collection[str]) -> None:
        """Their objects go with the next ``collect``."""
        for name in gone:
            for part in ("before", "after"):
                (self.folder / "refs" / "kept" / f"{name}-{part}").unlink(missing_ok=True)
            (self.folder / "kept" / name).unlink(missing_ok=True)

    def collect(self, git: Git) -> None:
        """Objects that nothing kept needs any more go; many small ones become one pack."""
        with suppress(CannotKeep):  # theirs may have lost objects that ours name
            git("prune", "--expire=now")
            if sum(len(list(each.iterdir())) for each in self._loose()) > _LOOSE:
                git("repack", "-a", "-d", "-l", "-q")

    def size(self) -> int:
        """Bytes of the objects on the disk."""
        total = 0
        for folder in (*self._loose(), self.folder / "objects" / "pack"):
            with suppress(OSError), os.scandir(folder) as entries:
                total += sum(entry.stat().st_blocks * 512 for entry in entries)
        return total

    def _loose(self) -> list[Path]:
        return [each for each in (self.folder / "objects").glob("??") if each.is_dir()]


def _looks(git: Git, beside: Executor, index: str = "index") -> Sequence[Look]:
    """Begin to look for files that are not as an index says, new ones beside the others: git with
    many threads for one of the two would take the core of the other."""
    new = ("ls-files", "-o", "-z", "--exclude-standard")
    others = ("ls-files", "-m", "-d", "-z")
    return [beside.submit(git, *look, index=index) for look in (new, others)]


def _update_index(git: Git, how: str, paths: Collection[str]) -> None:
    """Writes a small index beside one that many share (git-update-index(1), "Split index"): that of
    a large tree takes as long to write as to find what has changed."""
    split = ("-c", "core.splitIndex=true")
    git(*split, "update-index", how, "--replace", "-z", "--stdin", told=lines_of(paths))


def status_of(root: Path, path: str) -> os.stat_result | None:
    """None: there is none, also where a link leads to another one. Raises CannotKeep: nobody can
    say."""
    try:
        for above in Path(path).parents:
            if (root / above).is_symlink() and above != Path():
                return None
        return (root / path).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CannotKeep(f"{root / path}: {(error.strerror or str(error)).lower()}") from error


_USUAL = frozenset({stat.S_IFREG | 0o644, stat.S_IFREG | 0o755})


def _permissions(root: Path, paths: Sequence[str]) -> dict[str, int]:
    """Of many files, those beyond whether it may be run."""
    modes: dict[str, int] = {}
    above = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path in paths:
            try:
                mode = os.stat(path, dir_fd=above, follow_symlinks=False).st_mode
            except OSError:
                continue
            if mode not in _USUAL and stat.S_ISREG(mode):
                modes[path] = stat.S_IMODE(mode)
    finally:
        os.close(above)
    return modes


def _note(modes: dict[str, int], path: str, status: os.stat_result) -> None:
    """Permissions beyond whether it may be run."""
    modes.pop(path, None)
    if stat.S_ISREG(status.st_mode) and status.st_mode not in _USUAL:
        modes[path] = stat.S_IMODE(status.st_mode)


def _body(kept: Kept) -> dict[str, Any]:
    return {"tree": kept.tree, "modes": dict(kept.modes), "paths": kept.paths}


def _kept(body: dict[str, Any]) -> Kept:
    paths = body["paths"]
    return Kept(body["tree"], body["modes"], None if paths is None else tuple(paths))
