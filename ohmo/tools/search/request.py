"""What Grep and Glob ask an engine, and what comes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from channels.record import record


@record
class Search:
    """``accepts``: which relative paths count. ``before``/``after``: context lines."""

    root: Path
    pattern: str
    accepts: Callable[[str], bool]
    mode: Literal["content", "files_with_matches", "count"]
    ignore_case: bool = False
    multiline: bool = False
    before: int = 0
    after: int = 0


@record
class Line:
    """A line of a file. ``match`` False: context."""

    number: int
    text: str
    match: bool


@record
class Hit:
    """A file with matches: ``count`` lines, and in content mode its ``lines``."""

    path: str
    count: int
    lines: tuple[Line, ...] = ()
