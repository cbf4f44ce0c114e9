"""Puts a file in the place of another in one step: whole or not at all, also when the power fails."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path


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
    part = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.part")
    file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        with os.fdopen(file, "wb") as writer:
            writer.write(data)
            if known is not None:
                os.fchmod(writer.fileno(), stat.S_IMODE(known.st_mode))
                with suppress(PermissionError):
                    os.fchown(writer.fileno(), known.st_uid, known.st_gid)
            writer.flush()
            os.fsync(writer.fileno())
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
