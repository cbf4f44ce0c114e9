"""Reads the end of a log file, and goes on as it grows and is rotated."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_INTERVAL = 0.3  # seconds between two looks


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
            if file is None:
                time.sleep(_INTERVAL)
                continue
            # looked at first: what was written before it moved is then read
            moved = not _is_at(path, file)
            while raw := file.readline():
                if not raw.endswith(b"\n") and not moved:  # the rest of this line is still written
                    file.seek(-len(raw), os.SEEK_CUR)
                    break
                yield raw.decode("utf-8", "replace")
            if not moved:
                time.sleep(_INTERVAL)
                continue
            later = _files_after(path, file)
            file = None
            for older in later:
                yield from older.read_text("utf-8", "replace").splitlines(keepends=True)
            position = 0
    finally:
        if file is not None:
            file.close()


def _is_at(path: Path, file: BinaryIO) -> bool:
    """Whether it is still the file of that name, as long as it was."""
    try:
        opened, named = os.fstat(file.fileno()), path.stat()
    except FileNotFoundError:
        return False
    same = (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino)
    return same and named.st_size >= file.tell()


def _files_after(path: Path, file: BinaryIO) -> list[Path]:
    """Files that were turned over after this one, oldest first; closes it."""
    with file:
        inode = os.fstat(file.fileno()).st_ino
    files: list[Path] = []
    for number in range(1, 100):
        older = path.with_name(f"{path.name}.{number}")
        if not older.exists():
            return []  # it was deleted, or is compressed by now
        if older.stat().st_ino == inode:
            return files[::-1]
        files.append(older)
    return []
