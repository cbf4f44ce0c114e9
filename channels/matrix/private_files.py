"""Files only their owner may read."""

from __future__ import annotations

import os
from pathlib import Path

from channels.errors import AuthFailed


def private(path: Path) -> None:
    """Raises AuthFailed when others than the owner may look into a file of secrets, or nobody can."""
    try:
        mode = path.stat().st_mode & 0o777
    except OSError as error:
        raise AuthFailed(f"{path} cannot be read ({error.strerror}); it holds keys of the Matrix device") from error
    if mode & 0o077 or not os.access(path, os.R_OK):
        raise AuthFailed(f"{path} has the mode {mode:04o}, it must be 0600: run chmod 600 {path}")


def write_private(path: Path, text: str) -> None:
    """0600, whole or not at all, on disk before it returns."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
