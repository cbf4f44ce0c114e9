"""From two snapshots to what differs, in words and in files; and files as they were, written so
that no link leads out of the folder and a kill leaves each of them whole."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from channels.durable import replacing
from channels.record import record
from ohmo.ambient import Failpoint, inert
from ohmo.checkpoints.git import CannotKeep, Git, lines_of, names, run
from ohmo.checkpoints.snapshots import PLAIN, Kept, Snapshots, status_of

_PIECE = 1 << 20
_LINK = "120000"
MODULE = "160000"


@record
class Entry:
    """A file: its mode as in a tree, with all of its permissions, and the name of its content."""

    mode: str
    blob: str


@record
class Change:
    """None: no such file."""

    before: Entry | None
    after: Entry | None


def changes(git: Git, before: Kept, after: Kept) -> dict[str, Change]:
    """By path, also where only permissions differ. Raises CannotKeep."""
    told = git("diff-tree", "-r", "-z", "--raw", "--no-renames", before.tree, after.tree)
    answer = names(told)
    found: dict[str, Change] = {}
    for head, path in zip(answer[::2], answer[1::2], strict=True):
        old_mode, mode, old_blob, blob, _ = head[1:].split(" ")
        old = _entry(before, path, old_mode, old_blob)
        found[path] = Change(old, _entry(after, path, mode, blob))
    both = before.modes.keys() | after.modes.keys()
    moved = {path for path in both if before.modes.get(path) != after.modes.get(path)} - set(found)
    for line in names(git("ls-tree", "-r", "-z", before.tree)) if moved else ():
        head, _, path = line.partition("\t")
        mode, _, blob = head.split(" ")
        if path in moved:
            old = _entry(before, path, mode, blob)
            found[path] = Change(old, _entry(after, path, mode, blob))
    return found


def _entry(kept: Kept, path: str, mode: str, blob: str) -> Entry | None:
    if mode == "000000":
        return None
    permissions = kept.modes.get(path)
    return Entry(mode if permissions is None else f"10{permissions:04o}", blob)


def not_new(
    snapshots: Snapshots, git: Git, name: str, before: Kept, found: Mapping[str, Change]
) -> set[str]:
    """Of the files that seem to be new those that were there already, ignored: by the patterns that
    stood before, or older than the snapshot. Raises CannotKeep."""
    new = {path for path, change in found.items() if change.before is None}
    if not new or snapshots.root == PLAIN:
        return set()
    rules = {
        path: change.before.blob
        for path, change in found.items()
        if change.before is not None and path.rpartition("/")[2] == ".gitignore"
    }
    old: set[str] = set()
    if rules:
        # The patterns as they were, in a folder with nothing else in it.
        held = snapshots.folder / "rules"
        shutil.rmtree(held, ignore_errors=True)
        for line in names(git("ls-tree", "-r", "-z", before.tree)):
            head, _, path = line.partition("\t")
            if path.rpartition("/")[2] == ".gitignore":
                (held / path).parent.mkdir(parents=True, exist_ok=True)
                (held / path).write_bytes(git("cat-file", "blob", head.split(" ")[2]))
        there = replace(git, root=held)
        asked = ("check-ignore", "--no-index", "--stdin", "-z")
        ended = run(["git", *asked], held, there.environment(), until=git.until, told=lines_of(new))
        old |= set(names(ended.stdout))
    began = snapshots.began(name)
    for path in new - old:
        status = status_of(snapshots.root, path)
        if status is not None and began is not None and status.st_ctime < began:
            old.add(path)
    return old


def patch(git: Git, before: Kept, after: Kept, hidden: Sequence[str]) -> str:
    """A unified diff, without the content of ``hidden``. Raises CannotKeep."""
    options = ("-p", "-M", "--no-ext-diff", "--no-textconv", "--no-color")
    left_out = [f":(exclude,literal,top){path}" for path in hidden]
    told = git("diff-tree", *options, before.tree, after.tree, "--", *left_out)
    return told.decode("utf-8", "replace")


def now(snapshots: Snapshots, path: str) -> Entry | None:
    """A file as it stands; empty for a pipe and the like. Raises CannotKeep, OSError."""
    status = status_of(snapshots.root, path)
    where = snapshots.root / path
    if status is None:
        return None
    if stat.S_ISLNK(status.st_mode):
        target = os.fsencode(where.readlink())
        return Entry(_LINK, _blob(snapshots.format, len(target), [target]))
    if stat.S_ISDIR(status.st_mode):
        return None  # it is in the way only when something is left in it
    if not stat.S_ISREG(status.st_mode):
        return Entry("", "")
    with where.open("rb") as file:
        pieces = iter(lambda: file.read(_PIECE), b"")
        blob = _blob(snapshots.format, status.st_size, pieces)
    return Entry(f"10{stat.S_IMODE(status.st_mode):04o}", blob)


def _blob(form: str, size: int, pieces: Iterable[bytes]) -> str:
    digest = hashlib.new(form, usedforsecurity=False)
    digest.update(b"blob %d\0" % size)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def restore(
    git: Git, wanted: Mapping[str, Entry | None], failpoint: Failpoint = inert
) -> list[str]:
    """Files become what is wanted; None: they go, and folders that become empty by that. Returns
    what could not be done, a line each. Done again after a kill, it ends the same. Raises
    CannotKeep before anything is changed: a content is not there any more. ``failpoint`` is hit as
    checkpoint.file after each."""
    contents = {path: entry for path, entry in wanted.items() if entry is not None}
    missing = _missing(git, {entry.blob for entry in contents.values()})
    for path, entry in contents.items():
        if entry.blob in missing:
            raise CannotKeep(f"the content of {path} is not there any more")
    failed: list[str] = []
    root = os.open(git.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path in sorted(wanted.keys() - contents.keys(), reverse=True):
            try:
                _remove(root, path)
                failpoint("checkpoint.file")
            except OSError as error:
                failed.append(f"{path}: {(error.strerror or str(error)).lower()}")
        with TemporaryFile() as asked:
            order = sorted(contents)
            asked.write(b"".join(contents[path].blob.encode() + b"\n" for path in order))
            asked.seek(0)
            for path, content in _contents(git, asked, order):
                try:
                    _write(root, path, contents[path], content)
                    failpoint("checkpoint.file")
                except OSError as error:
                    failed.append(f"{path}: {(error.strerror or str(error)).lower()}")
    finally:
        os.close(root)
    return failed


def _missing(git: Git, blobs: Collection[str]) -> set[str]:
    told = "".join(f"{blob}\n" for blob in blobs).encode()
    lines = git("cat-file", "--batch-check", told=told).decode().splitlines()
    return {line.split(" ")[0] for line in lines if line.endswith(" missing")}


def _contents(git: Git, asked: IO[bytes], paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """``asked``: names of the contents of ``paths``, a line each."""
    with subprocess.Popen(
        ["git", "cat-file", "--batch"],  # noqa: S607 - of the PATH it is handed
        cwd=git.root,
        env=git.environment(),
        stdin=asked,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        for path in paths:
            if time.monotonic() > git.until:
                process.kill()
                raise CannotKeep("it took too long (checkpoints.timeout); say it again to go on")
            size = int(process.stdout.readline().split(b" ")[2])
            content = process.stdout.read(size)
            process.stdout.read(1)
            yield path, content


def _folder(root: int, path: str, *, make: bool) -> int:
    """A descriptor of the folder of a file; no link is followed on the way."""
    descriptor = os.dup(root)
    try:
        for part in path.split("/")[:-1]:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=descriptor)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            inner = os.open(part, flags, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _remove(root: int, path: str) -> None:
    try:
        folder = _folder(root, path, make=False)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        with suppress(FileNotFoundError):
            os.unlink(path.rpartition("/")[2], dir_fd=folder)
    finally:
        os.close(folder)
    with suppress(OSError):  # it is not empty
        while path := path.rpartition("/")[0]:
            os.rmdir(path, dir_fd=root)


def _write(root: int, path: str, entry: Entry, content: bytes) -> None:
    name = path.rpartition("/")[2]
    folder = _folder(root, path, make=True)
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            os.rmdir(name, dir_fd=folder)  # a folder that is empty by now
        if entry.mode != _LINK:
            with replacing(Path(name), folder=folder) as file:
                file.write(content)
                os.fchmod(file.fileno(), int(entry.mode, 8) & 0o7777)
            return
        fresh = f".{name[:100]}.ohmo"
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=folder)
        os.symlink(content, os.fsencode(fresh), dir_fd=folder)
        os.replace(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)
