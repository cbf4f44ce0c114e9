"""Changes a text file as a whole in one step: its coding, line ends and mode stay, and nothing is
written when something is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ohmo.tools.answers import Trouble
from ohmo.tools.files.opening import Opening
from ohmo.tools.files.replace import replace_file
from ohmo.tools.files.stamps import FileStamps
from ohmo.tools.files.text import decode, encode

MOST = 50 * 1024 * 1024


def rewrite(
    path: Path, opening: Opening, stamps: FileStamps, thread: str, change: Callable[[str], str]
) -> None:
    """``path`` as it was judged. ``change`` gets the text and gives the new one. Raises Trouble,
    OSError, and what ``change`` raises."""
    data, known = opening.content(path, MOST)
    if stamps.changed(thread, path, known):
        raise Trouble(f"{path} changed since you last read it; Read it again first")
    before = decode(data)
    if before is None:
        raise Trouble(f"{path} is binary")
    text, coding = before
    after = change(text)
    try:
        data = encode(after, coding)
    except UnicodeEncodeError as error:
        raise Trouble(
            f"{path} is coded in {coding.name}, which cannot say {after[error.start]!r}; Write the"
            " whole file to change to UTF-8"
        ) from error
    stamps.remember(thread, path, replace_file(opening, path, data, known))
