"""Opens what anybody may have put at a path."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


class NotRegular(OSError):
    """A folder, a pipe, a device."""


def open_regular(path: Path, *, follow: bool = False) -> BinaryIO:
    """To be read. ``follow``: also where the last part of the path is a link. Raises OSError; a
    pipe or a device is not waited for (open(2), O_NONBLOCK)."""
    links = 0 if follow else os.O_NOFOLLOW
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | links)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegular(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")
