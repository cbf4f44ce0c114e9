"""The end of a file that grows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path


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
    """New lines; begins again when the file was rotated."""
    while True:
        if path.exists():
            if path.stat().st_size < position:
                position = 0
            with path.open("rb") as file:
                file.seek(position)
                for raw in file:
                    if not raw.endswith(b"\n"):
                        break
                    position += len(raw)
                    yield raw.decode("utf-8", "replace")
        time.sleep(0.3)
