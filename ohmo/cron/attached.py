"""The file that goes with a report: what ``ohmo triage`` wrote beside it, and nothing else."""

from __future__ import annotations

import re
import stat
from pathlib import Path

MOST = 2 * 2**20  # bytes
_LINE = re.compile(
    r"\s*^\s*`?\[file:"
    r" (?P<folder>ci-triage)/(?P<name>[a-z0-9][a-z0-9._-]{0,79}-[0-9a-f]{16}\.md)\]`?\s*\Z",
    re.MULTILINE,
)


def attached(text: str, workspace: Path) -> tuple[str, tuple[Path, ...]]:
    """The text without its last line when that names such a file, and the file. A model could be
    talked into naming others: those stay words."""
    found = _LINE.search(text)
    if found is None:
        return text, ()
    folder = workspace / found["folder"]
    path = folder / found["name"]
    try:
        if (
            not stat.S_ISDIR(folder.lstat().st_mode)
            or not stat.S_ISREG((status := path.lstat()).st_mode)
            or status.st_size > MOST
        ):
            return text, ()
    except OSError:
        return text, ()
    return text[: found.start()], (path,)
