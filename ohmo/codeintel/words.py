"""What is said about code: a symbol where it is bound, and the one thing several names mean."""

from __future__ import annotations

import re
from collections.abc import Iterator

from channels.record import record

Position = tuple[int, int]  # line from 1, column from 0
WORD = re.compile(r"\w+")


@record
class Symbol:
    """A name where it is bound. Lines and columns count from 1, columns in characters."""

    name: str
    kind: str  # class, function, method, variable, parameter, module, import ...
    path: str
    line: int
    column: int
    end: int  # last line of what is bound
    container: str = ""  # dotted names of what it stands in
    text: str = ""  # its head, on one line
    doc: str = ""  # first paragraph of its documentation

    @property
    def dotted(self) -> str:
        return f"{self.container}.{self.name}" if self.container else self.name


@record
class Definition:
    """What a name means. ``key``: equal for what is the same thing, whatever it is called.
    ``note``: what the reader has to know, empty where the answer is sure."""

    key: tuple[str | int, ...]
    symbols: tuple[Symbol, ...]
    note: str = ""


def occurrences(text: str, name: str) -> Iterator[tuple[int, int]]:
    """Line from 1 and column from 0, in characters, wherever the word stands."""
    expression = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    if expression.search(text) is None:
        return
    for number, line in enumerate(text.split("\n"), 1):
        if name in line:
            for match in expression.finditer(line):
                yield number, match.start()


def on_one_line(text: str, most: int = 160) -> str:
    """White space becomes one space each; what is longer is cut."""
    line = " ".join(text[: 4 * most].split()) if "\n" in text or "  " in text else text.strip()
    return line if len(line) <= most else f"{line[: most - 1]}…"
