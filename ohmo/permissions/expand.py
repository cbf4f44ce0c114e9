"""What a word with wildcards would become on the disk now, looked up within a budget."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Sequence

from ohmo.permissions.patterns import SOME

BUDGET = 20_000  # folder entries looked at for one word
_PIECES = re.compile(r"\\(.)|([*?])|([^*?\\]+)", re.DOTALL)


class TooWide(Exception):
    """More than the budget would have to be looked at."""


def expand(pattern: str) -> list[str]:
    """Existing paths that match an absolute pattern with ``SOME`` in it, dot files included.
    Raises TooWide."""
    parts = [part for part in pattern.split("/") if part]
    forms = [re.compile(_translated(part.split(SOME))) if SOME in part else part for part in parts]
    return _existing("/", forms)


def matching_names(pattern: str, cwd: str, most: int) -> list[str]:
    """The names that bash puts in the place of a word with ``*`` and ``?`` (bash(1), "Pathname
    Expansion"); [] when there are none. A backslash makes the next character plain. Raises TooWide
    for more than ``most``, and for what versions of bash read differently (``.*``, ``a//*``)."""
    parts = pattern.removeprefix("/").split("/")
    if "" in parts[:-1] or any(re.match(r"\.[*?]", part) for part in parts):
        raise TooWide
    top = "/" if pattern.startswith("/") else cwd.rstrip("/") + "/"
    paths = sorted(_existing(top, [_form(part) for part in parts], letters="?" in pattern))
    if len(paths) > most:
        raise TooWide
    return [path if top == pattern[:1] else path.removeprefix(top) for path in paths]


def _form(part: str) -> str | re.Pattern[str]:
    pieces: list[tuple[str, str, str]] = _PIECES.findall(part)
    if not any(wild for _, wild, _ in pieces):
        return "".join(escaped or letters for escaped, _, letters in pieces)
    body = fnmatch.translate(
        "".join(wild or _plain(escaped or plain) for escaped, wild, plain in pieces)
    )
    return re.compile(body if part.startswith(".") else rf"(?!\.){body}")


def _translated(parts: Sequence[str]) -> str:
    """As fnmatch does it: the time for many wildcards stays small."""
    return fnmatch.translate("*".join(map(_plain, parts)))


def _plain(text: str) -> str:
    return re.sub(r"[*?\[]", r"[\g<0>]", text)


def _existing(
    top: str, forms: Sequence[str | re.Pattern[str]], *, letters: bool = False
) -> list[str]:
    """Paths below ``top``, a name or the form of one for each step; an empty name, which stands
    last, means a folder. ``letters``: the form counts them, which bash does in the language of the
    house, or in bytes. Raises TooWide."""
    found = [top]
    left = BUDGET
    for form in forms:
        after: list[str] = []
        for folder in found:
            inside = folder if folder.endswith("/") else f"{folder}/"
            if isinstance(form, str):
                after.append(f"{inside}{form}")
                continue
            names = _names(folder, left)
            left -= len(names) + 1
            if left <= 0 or (letters and not all(map(str.isascii, names))):
                raise TooWide
            after += [f"{inside}{name}" for name in names if form.fullmatch(name)]
        found = after
    return [
        path for path in found if (os.path.isdir if path.endswith("/") else os.path.lexists)(path)
    ]


def _names(folder: str, most: int) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names: list[str] = []
            for entry in entries:
                names.append(entry.name)
                if len(names) > most:
                    raise TooWide
            return names
    except OSError:
        return []
