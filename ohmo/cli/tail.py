"""The end of a file that grows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


def last_lines(path: Path, lines: int) -> tuple[list[str], int]:
    """The last ``lines`` of the file, and where it ended."""
    if not path.exists():
        return [], 0
    with path.open("rb") as file:
        end = file.seek(0, 2)
        start, found = end, b""
        while start > 0 and found.count(b"\n") <= lines:
            step = min(1 << 16, start)
            start -= step
            file.seek(start)
            found = file.read(step) + found
    return (found.decode("utf-8", "replace").splitlines()[-lines:] if lines else []), end


def growing(path: Path, position: int) -> Iterator[str]:
    """New lines behind ``position``. A file that is turned over is read to its end, then the one
    that came after it."""
    file: BinaryIO | None = None
    try:
        while True:
            if file is None and path.exists():
                file = path.open("rb")
                file.seek(position if position <= os.fstat(file.fileno()).st_size else 0)
            moved = file is not None and not _is(
                path, file
            )  # looked at first: what was written before it moved is then read
            if file is not None:
                yield from _whole_lines(file, torn=moved)
            if file is not None and moved:
                file, missed = None, _between(path, file)
                for older in missed:
                    yield from older.read_text("utf-8", "replace").splitlines(keepends=True)
                position = 0
                continue
            time.sleep(0.3)
    finally:
        if file is not None:
            file.close()


def _is(path: Path, file: BinaryIO) -> bool:
    """Whether it is still the file of that name, as long as it was."""
    try:
        here, there = os.fstat(file.fileno()), path.stat()
    except FileNotFoundError:
        return False
    return (here.st_dev, here.st_ino) == (
        there.st_dev,
        there.st_ino,
    ) and there.st_size >= file.tell()


def _whole_lines(file: BinaryIO, *, torn: bool) -> Iterator[str]:
    """``torn``: also a last line without its end; nothing more will come."""
    while raw := file.readline():
        if not raw.endswith(b"\n") and not torn:
            file.seek(-len(raw), os.SEEK_CUR)
            return
        yield raw.decode("utf-8", "replace")


def _between(path: Path, file: BinaryIO) -> list[Path]:
    """Files that were turned over after this one, oldest first; closes it."""
    with file:
        mine = os.fstat(file.fileno()).st_ino
    found: list[Path] = []
    for number in range(1, 100):
        older = path.with_name(f"{path.name}.{number}")
        if not older.exists():
            return []  # it was deleted, or is compressed by now
        if older.stat().st_ino == mine:
            return found[::-1]
        found.append(older)
    return []
