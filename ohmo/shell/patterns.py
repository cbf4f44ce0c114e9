"""Path patterns: how they match, with two wildcards of our own, and what they become on the disk.

A word of a shell command and a rule are matched the same way."""

from __future__ import annotations

import fnmatch
import os
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

SOME = "\ue000"  # any characters inside one path component: what * and ? of the shell may become
ANY = "\ue001"  # anything at all, also slashes: what nobody knows before the command runs


def word_set(text: str) -> frozenset[str]:
    """The words of a text: long tables stay readable."""
    return frozenset(text.split())


def folded(path: str) -> str:
    """The letters that some disk takes for the same: case, compatibility forms, and what HFS+
    passes over (Unicode category Cf)."""
    if path.isascii():
        return path.lower()
    plain = unicodedata.normalize("NFKC", path).casefold()
    return "".join(char for char in plain if unicodedata.category(char) != "Cf")


def real(path: str | os.PathLike[str]) -> str:
    """``realpath``, which raises where a link may not be read (``/proc/1/root``): that one stays as
    it is called. Raises ValueError for a name no system takes."""
    try:
        return os.path.realpath(path)
    except OSError:
        return os.path.abspath(path)  # noqa: PTH100 - text


def known(text: str) -> bool:
    return SOME not in text and ANY not in text


@lru_cache(maxsize=4096)
def component_matcher(pattern: str) -> re.Pattern[str]:
    """A component with shell wildcards (``*``, ``?``, ``[abc]``), case folded."""
    return re.compile(component_expression(pattern), re.DOTALL)


def component_expression(pattern: str) -> str:
    """The same as a part of a larger expression."""
    return _translate(pattern.casefold(), "[^/]*")


def _translate(pattern: str, star: str) -> str:
    out: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "*":
            out.append(star)
        elif char == "?":
            out.append("[^/]")
        elif char == "[" and (end := pattern.find("]", at + 2)) > 0:
            body = pattern[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            if body[0] in "!^":
                body = f"^{body[1:]}"
            out.append(f"[{body}]")
            at = end
        else:
            out.append(re.escape(char))
        at += 1
    return "".join(out)


@lru_cache(maxsize=4096)
def path_matcher(pattern: str) -> re.Pattern[str]:
    """A whole path: ``**`` passes slashes, ``*`` does not; ``/**`` at the end means the folder
    itself too. Case matters."""
    out: list[str] = []
    for part in re.split(r"(\*\*/?)", pattern.removesuffix("/**")):
        if part == "**/":
            out.append("(?:.*/)?")
        elif part == "**":
            out.append(".*")
        else:
            out.append(_translate(part, "[^/]*"))
    if pattern.endswith("/**"):
        out.append("(?:/.*)?")
    return re.compile("".join(out), re.DOTALL)


def as_written(text: str) -> str:
    """What only the judge knows as wildcards, as people write them."""
    return text.replace(SOME, "*").replace(ANY, "…")


def overlap(left: str, right: str) -> bool:
    """Whether one component can be both: ``left`` with our wildcards, ``right`` with the shell's.
    Errs on the side of yes."""
    if known(left):
        return component_matcher(right).fullmatch(left.casefold()) is not None
    left = left.casefold().replace(ANY, SOME)
    right = re.sub(r"\[[^\]]*\]|\?", "*", right.casefold()).replace("*", SOME)
    if len(left) * len(right) > 4096:
        return True
    row = {0}  # positions of the left that can be reached; SOME is the only wildcard now
    for at in range(len(right)):
        row = _spread(row, left)
        after: set[int] = set()
        for position in row:
            if right[at] == SOME:
                after.update(range(position, len(left) + 1))
            elif position < len(left):
                if left[position] == SOME:
                    after.add(position)
                elif left[position] == right[at]:
                    after.add(position + 1)
        row = after
    return len(left) in _spread(row, left)


def _spread(row: set[int], left: str) -> set[int]:
    """A wildcard on the left may also stand for nothing."""
    out = set(row)
    for position in row:
        at = position
        while at < len(left) and left[at] == SOME:
            at += 1
            out.add(at)
    return out


OPTION_LIKE = re.compile(r"[\x00-\x7f](?<![A-Za-z0-9_./])")  # how a name must not begin
BUDGET = 20_000  # folder entries looked at for one word
_PIECES = re.compile(r"\\(.)|([*?])|([^*?\\]+)", re.DOTALL)


class TooWide(Exception):
    """More than the budget would have to be looked at."""


def expand(pattern: str) -> list[str]:
    """Existing paths that match an absolute pattern with ``SOME`` in it, dot files included.
    Raises TooWide."""
    forms: list[str | re.Pattern[str]] = []
    for part in filter(None, pattern.split("/")):
        if SOME in part:
            # As fnmatch does it: the time for many wildcards stays small.
            form = fnmatch.translate("*".join(map(_plain, part.split(SOME))))
            forms.append(re.compile(form))
        else:
            forms.append(part)
    return _existing("/", forms)


def matching_names(pattern: str, cwd: str, most: int) -> list[str]:
    """The names that bash puts in the place of a word with ``*`` and ``?`` (bash(1), "Pathname
    Expansion"); [] when there are none. A backslash makes the next character plain. Raises TooWide
    for more than ``most``, and for what versions of bash read differently (``.*``, ``a//*``)."""
    parts = pattern.removeprefix("/").split("/")
    if "" in parts[:-1] or any(re.match(r"\.[*?]", part) for part in parts):
        raise TooWide
    forms: list[str | re.Pattern[str]] = []  # the name of each step, or what such names look like
    for part in parts:
        pieces: list[tuple[str, str, str]] = _PIECES.findall(part)
        if any(wild for _, wild, _ in pieces):
            shapes = (wild or _plain(escaped or letters) for escaped, wild, letters in pieces)
            body = fnmatch.translate("".join(shapes))
            forms.append(re.compile(body if part.startswith(".") else rf"(?!\.){body}"))
        else:
            forms.append("".join(escaped or letters for escaped, _, letters in pieces))
    top = "/" if pattern.startswith("/") else cwd.rstrip("/") + "/"
    paths = sorted(_existing(top, forms, letters="?" in pattern))
    if len(paths) > most:
        raise TooWide
    if top == pattern[:1]:
        return paths
    return [path.removeprefix(top) for path in paths]


def names_of(pattern: str, cwd: str, most: int) -> list[str]:
    """The same for a word of a line that runs unasked. Raises TooWide also where the names may be
    others by then, or look like options."""
    if pattern.startswith(("/proc", "/dev", "/sys")):
        raise TooWide("wildcards in a folder that changes by itself")
    try:
        names = matching_names(pattern, cwd, most)
    except TooWide:
        raise TooWide("wildcards that match more than can be looked at") from None
    for name in names:
        if OPTION_LIKE.match(name):
            raise TooWide(f"a wildcard that becomes {name[:80]!r}")
    return names


def _plain(text: str) -> str:
    return re.sub(r"[*?\[]", r"[\g<0>]", text)


def _existing(
    top: str, forms: Sequence[str | re.Pattern[str]], *, letters: bool = False
) -> list[str]:
    """Paths below ``top``, a name or the form of one for each step; an empty name, which stands
    last, means a folder. ``letters``: the form counts them, which bash does in the language of the
    house, or in bytes. Raises TooWide."""
    paths = [top]
    left = BUDGET
    for form in forms:
        after: list[str] = []
        for folder in paths:
            inside = folder if folder.endswith("/") else f"{folder}/"
            if isinstance(form, str):
                after.append(f"{inside}{form}")
                continue
            names: list[str] = []
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        names.append(entry.name)
                        if len(names) > left:
                            raise TooWide
            except OSError:
                names = []
            left -= len(names) + 1
            if left <= 0 or (letters and not all(map(str.isascii, names))):
                raise TooWide
            after += [f"{inside}{name}" for name in names if form.fullmatch(name)]
        paths = after
    existing: list[str] = []
    for path in paths:
        exists = os.path.isdir if path.endswith("/") else os.path.lexists
        if exists(path):
            existing.append(path)
    return existing
