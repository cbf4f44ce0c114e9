"""Opens what a tool was named, if it is a file: a pipe waits for ever, a device never ends."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from ohmo.tools.answers import Trouble


def opened(path: Path) -> BinaryIO:
    """Looked at after it was opened, so that nobody can put something else in its place. Raises Trouble, OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode):
        return os.fdopen(fd, "rb")
    os.close(fd)
    if stat.S_ISDIR(status.st_mode):
        raise Trouble(f"{path} is a folder; use Glob to list it")
    raise Trouble(f"{path} is a device, pipe or socket; only files can be read")


def content(path: Path, most: int) -> bytes:
    """All of a file of at most ``most`` bytes, whatever size it claims. Raises Trouble, OSError."""
    with opened(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise Trouble(f"{path} is larger than {most} bytes; use Bash")
    return data
