"""Changes a text file as a whole in one step: its coding, line ends and mode stay, and nothing is written when something is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ohmo.tools.answers import Trouble
from ohmo.tools.files.opening import content
from ohmo.tools.files.replace import replace_file
from ohmo.tools.files.stamps import FileStamps
from ohmo.tools.files.text import decode, encode

MOST = 50 * 1024 * 1024


def rewrite(path: Path, stamps: FileStamps, thread: str, change: Callable[[str], str]) -> None:
    """``change`` gets the text and gives the new one. Raises Trouble, OSError, and what ``change`` raises."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise Trouble(f"{path} is a folder")
    if stamps.changed(thread, target):
        raise Trouble(f"{path} changed since you last read it; Read it again first")
    before = decode(content(target, MOST))
    if before is None:
        raise Trouble(f"{path} is binary")
    text, coding = before
    after = change(text)
    try:
        data = encode(after, coding)
    except UnicodeEncodeError as error:
        raise Trouble(
            f"{path} is coded in {coding.name}, which cannot say {after[error.start]!r}; Write the whole file to change to UTF-8"
        ) from error
    replace_file(target, data)
    stamps.remember(thread, target)
