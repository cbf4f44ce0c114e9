"""Files that stand on the disk whole or not at all, also when the power fails: written beside their
place, synced, renamed, the folder synced."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

# bytes of its name that an unfinished file shows: with more it could be longer than a name may be
_NAME = 100
_UNFINISHED = re.compile(
    r"\..+\.[a-f][0-9a-f]{7}", re.DOTALL
)  # no date, and hardly a word: not what somebody calls a copy of their own


def write_whole(path: Path, text: str, mode: int = 0o600) -> None:
    """UTF-8. Raises OSError and leaves the old file as it was."""
    with replacing(path) as file:
        file.write(text.encode("utf-8"))
        os.fchmod(file.fileno(), mode)  # the umask has no say


@contextmanager
def replacing(path: Path, mode: int = 0o600, folder: int | None = None) -> Generator[BinaryIO]:
    """A new file that takes the place of ``path`` when the block has ended well, and is gone
    otherwise. ``mode``: less the umask, open(2). ``folder``: a descriptor from which ``path``, then
    a bare name, counts (openat(2)).

    A process that is killed leaves a file that ``is_unfinished``; ``ohmo doctor`` finds it in the
    folders of the home and removes it. Raises OSError."""
    shown = os.fsencode(path.name)[:_NAME].decode("utf-8", "ignore")
    fresh = path.with_name(f".{shown}.d{os.urandom(4).hex()[1:]}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(fresh, flags, mode, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            settle(file)
        take_place(fresh, path, folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=folder)
        raise


def is_unfinished(name: str) -> bool:
    """Whether a file of this name is what ``replacing`` writes before it takes its place."""
    return _UNFINISHED.fullmatch(name) is not None


def settle(file: BinaryIO) -> None:
    """What was written is on the disk. Raises OSError."""
    file.flush()
    os.fsync(file.fileno())


def settle_path(path: Path, folder: int | None = None) -> None:
    """What a file holds, or which names a folder has, is on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY, dir_fd=folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def take_place(fresh: Path, path: Path, folder: int | None = None) -> None:
    """A settled file gets the name ``path``, and what had it before is gone. Raises OSError."""
    os.replace(fresh, path, src_dir_fd=folder, dst_dir_fd=folder)
    settle_path(path.parent, folder)
