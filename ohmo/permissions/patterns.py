"""Path patterns with two wildcards of our own, so that a word of a shell command and a rule are
matched the same way."""

from __future__ import annotations

import re
import unicodedata
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
            out.append("[" + ("^" + body[1:] if body[0] in "!^" else body) + "]")
            at = end
        else:
            out.append(re.escape(char))
        at += 1
    return "".join(out)


@lru_cache(maxsize=4096)
def path_matcher(pattern: str) -> re.Pattern[str]:
    """A whole path: ``**`` passes slashes, ``*`` does not; ``/**`` at the end means the folder
    itself too. Case matters."""
    tail = ""
    if pattern.endswith("/**"):
        pattern, tail = pattern[:-3], "(?:/.*)?"
    parts = re.split(r"(\*\*/?)", pattern)
    out = "".join(
        ("(?:.*/)?" if part.endswith("/") else ".*")
        if part.startswith("**")
        else _translate(part, "[^/]*")
        for part in parts
    )
    return re.compile(out + tail, re.DOTALL)


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
    return _meet(left, right)


def _meet(left: str, right: str) -> bool:
    """Intersection of two patterns whose only wildcard is SOME, by rows of reachable positions."""
    row = {0}
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
