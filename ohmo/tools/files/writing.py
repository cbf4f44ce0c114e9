"""Writes a file in one step, whole or not at all, also when the power fails: its coding, line ends
and mode stay, and nothing is written when something is wrong or when it changed since it was
read."""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock

from channels.durable import replacing
from ohmo.tools.files.opening import Opening
from ohmo.tools.files.text import decode, encode
from ohmo.tools.results import ToolError

Stamp = tuple[int, int, int]
_MOST_STAMPS = 10_000


def stamp_of(status: os.stat_result) -> Stamp:
    return (status.st_mtime_ns, status.st_size, status.st_ino)


class FileStamps:
    """Bounded; what is forgotten counts as never read. Used from threads."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], Stamp] = OrderedDict()
        self._lock = Lock()

    def remember(self, thread: str, path: Path, status: os.stat_result) -> None:
        with self._lock:
            self._seen[(thread, str(path))] = stamp_of(status)
            self._seen.move_to_end((thread, str(path)))
            if len(self._seen) > _MOST_STAMPS:
                self._seen.popitem(last=False)

    def changed(self, thread: str, path: Path, status: os.stat_result | None) -> bool:
        """Whether the thread knows the file and it looks different now. ``status``: None: it is
        gone."""
        with self._lock:
            seen = self._seen.get((thread, str(path)))
        return seen is not None and (status is None or stamp_of(status) != seen)


def replace_file(
    opening: Opening, path: Path, data: bytes, known: os.stat_result | None
) -> os.stat_result:
    """Writes beside ``path``, syncs, renames, all from the folder that was opened as judged;
    missing folders are made. ``known``: the file as it was opened, whose mode and, where allowed,
    owner are kept; None: there is none. How the new one looks. Raises ToolError, OSError."""
    if not path.name:
        raise ToolError(f"{path} is a folder")
    with opening.folder(path.parent, make=True) as folder:
        if opening.hides(f"{opening.still(folder, path.parent)}/{path.name}"):
            raise ToolError(f"{path} is what no tool may write; a person does it by hand")
        if known is not None and not os.access(path.name, os.W_OK, dir_fd=folder):
            raise PermissionError(13, "the file is read-only", str(path))
        with replacing(Path(path.name), 0o666, folder) as file:
            file.write(data)
            file.flush()
            if known is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(known.st_mode))
                with suppress(PermissionError):
                    os.fchown(file.fileno(), known.st_uid, known.st_gid)
            opening.still(folder, path.parent)
            return os.fstat(file.fileno())


MOST = 50 * 1024 * 1024


def rewrite(
    path: Path, opening: Opening, stamps: FileStamps, thread: str, change: Callable[[str], str]
) -> None:
    """``path`` as it was judged. ``change`` gets the text and gives the new one. Raises ToolError,
    OSError, and what ``change`` raises."""
    data, known = opening.content(path, MOST)
    if stamps.changed(thread, path, known):
        raise ToolError(f"{path} changed since you last read it; Read it again first")
    before = decode(data)
    if before is None:
        raise ToolError(f"{path} is binary")
    text, coding = before
    after = change(text)
    try:
        data = encode(after, coding)
    except UnicodeEncodeError as error:
        raise ToolError(
            f"{path} is coded in {coding.name}, which cannot say {after[error.start]!r}; Write the"
            " whole file to change to UTF-8"
        ) from error
    stamps.remember(thread, path, replace_file(opening, path, data, known))
