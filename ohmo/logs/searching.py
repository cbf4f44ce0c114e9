"""Slow patterns are tried only where they can begin: a search for letters that stand for themselves
passes over text a hundred times faster than one that may begin with anything."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

# All that ``re.IGNORECASE`` takes for a letter of a to z besides these and their capitals
_ALIKE = {"\u017f": "s", "\u212a": "k", "\u0131": "i", "\u0130": "i"}


def folded(text: str) -> str:
    """In small letters, each where it stood."""
    if not text.isascii():
        for letter, alike in _ALIKE.items():
            text = text.replace(letter, alike)
    return text.lower()


class Hinted:
    """Finds what ``pattern`` finds. ``hints``: what stands where a match begins; each begins with
    letters of its own, and is written in small ones where ``pattern`` regards no case. ``inner``:
    what stands in a match instead, and between how many characters and how many behind its
    beginning."""

    def __init__(
        self,
        pattern: re.Pattern[str],
        hints: Sequence[str],
        inner: Sequence[tuple[str, int, int]] = (),
    ) -> None:
        self.pattern = pattern
        self._folds = bool(pattern.flags & re.IGNORECASE)
        every = [*((hint, 0, 0) for hint in hints), *inner]
        self._hints = [(re.compile(hint), least, most) for hint, least, most in every]

    def starts(self, text: str) -> list[int]:
        """Where a match may begin, in order."""
        there = folded(text) if self._folds else text
        found: set[int] = set()
        for hint, least, most in self._hints:
            for each in hint.finditer(there):
                at = each.start()
                found.update(range(max(0, at - most), at - least + 1))
        return sorted(found)

    def found(self, text: str) -> Iterator[re.Match[str]]:
        at = 0
        for start in self.starts(text):
            if start >= at and (match := self.pattern.match(text, start)) is not None:
                yield match
                at = match.end()

    def sub(self, new: Callable[[re.Match[str]], str], text: str) -> str:
        parts: list[str] = []
        at = 0
        for match in self.found(text):
            parts += (text[at : match.start()], new(match))
            at = match.end()
        return "".join((*parts, text[at:])) if parts else text
