"""Files only their owner may read."""

from __future__ import annotations

import os
from pathlib import Path

from channels.errors import AuthFailed


def private(path: Path) -> None:
    """Raises AuthFailed when others than the owner may look into a file of secrets, or nobody
    can."""
    try:
        mode = path.stat().st_mode & 0o777
    except OSError as error:
        raise AuthFailed(
            f"{path} cannot be read ({error.strerror}); it holds keys of the Matrix device"
        ) from error
    if mode & 0o077 or not os.access(path, os.R_OK):
        raise AuthFailed(f"{path} has the mode {mode:04o}, it must be 0600: run chmod 600 {path}")
