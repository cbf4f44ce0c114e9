"""Puts a file in the place of another in one step: whole or not at all, also when the power fails."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from channels.durable import replacing


def replace_file(path: Path, data: bytes) -> None:
    """Writes beside ``path``, syncs, renames. Keeps mode and, where allowed, owner; goes through a symlink to its target. Raises OSError."""
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        known = target.stat()
    except FileNotFoundError:
        known = None
    if known is not None and not stat.S_ISREG(known.st_mode):
        raise IsADirectoryError(21, "not a regular file", str(target))
    if known is not None and not os.access(target, os.W_OK):
        raise PermissionError(13, "the file is read-only", str(target))
    with replacing(target, 0o666) as file:
        file.write(data)
        if known is not None:
            os.fchmod(file.fileno(), stat.S_IMODE(known.st_mode))
            with suppress(PermissionError):
                os.fchown(file.fileno(), known.st_uid, known.st_gid)
