"""Tables of programs and their options: what is not listed is not known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal

from channels.record import record

Kind = Literal["", ":", "?"]
"""A flag; an option with a value; with one that is attached or missing."""


@record
class Options:
    """The options of one program."""

    kinds: Mapping[str, Kind]
    number: bool = False  # ``-5`` is an option, too


@record
class Given:
    """What a command line comes to."""

    options: tuple[tuple[str, str], ...]  # with their values, "" for a flag
    operands: tuple[int, ...]  # by their positions
    #: Positions of options, and of their values, behind the first operand: operands to a program
    #: that reads options only before those (awk, all of BSD and musl).
    late: tuple[int, ...] = ()

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)

    def values(self, *names: str) -> list[str]:
        return [value for name, value in self.options if name in names]


@cache
def rows_of(table: str) -> Mapping[str, Sequence[str]]:
    """The columns of each row ``name | column | ...``. A line that begins with ``|`` goes on with
    the row above, column by column; one without ``|`` with the line above."""
    rows: dict[str, list[str]] = {}
    name = ""
    for line in re.split(r"\n(?=[^|\n]*\|)", table.strip()):
        first, *columns = line.split("|")
        name = first.strip() or name
        row = rows.setdefault(name, [""] * len(columns))
        for at, column in enumerate(columns):
            row[at] = f"{row[at]} {column}".strip()
    return rows


@cache
def options_of(text: str) -> Options:
    """Reads a row: ``-abc`` three flags, ``-n:`` with a value, ``-u?`` perhaps with one attached,
    ``-vn:`` a flag and an option with a value, ``-#`` a number."""
    kinds: dict[str, Kind] = {}
    for token in text.split():
        name = token.rstrip(":?")
        kind: Kind = token[len(name) :]  # pyright: ignore[reportAssignmentType]
        if name.startswith("--"):
            kinds[name] = kind
        else:
            for letter in name[1:]:
                kinds[f"-{letter}"] = ""
            kinds[f"-{name[-1]}"] = kind
    return Options(kinds, "-#" in kinds)


def given(
    options: Options, words: Sequence[str], start: int = 1, *, getopt: bool = True
) -> Given | None:
    """Reads ``words`` from ``start`` as getopt_long(3) does; None for an option that is not listed,
    also for one that is cut short. ``getopt`` False: programs that may read an option's value as
    the next option (or as a file of options) where nothing is attached to it; such a value is
    None."""
    parsed: list[tuple[str, str]] = []
    operands: list[int] = []
    late: list[int] = []
    at = start
    while at < len(words):
        began = at
        word = words[at]
        at += 1
        if word == "--":
            operands += range(at, len(words))
            break
        if word == "-" or not word.startswith("-"):
            operands.append(at - 1)
        elif options.number and re.fullmatch(r"-[0-9]+", word):
            parsed.append(("-#", word[1:]))
        else:
            for name, attached in _split(options, word):
                kind = options.kinds.get(name)
                if kind is None or (kind == "" and attached is not None):
                    return None
                value = attached or ""
                if kind == ":" and attached is None:
                    if at == len(words):
                        return None
                    value = words[at]
                    at += 1
                    if re.match(r"-(?!\d*$)", value):
                        return None
                    if not getopt and value.startswith(("-", "@")):
                        return None
                parsed.append((name, value))
        if operands and operands[-1] < began:
            late += range(began, at)
    return Given(tuple(parsed), tuple(operands), tuple(late))


def _split(options: Options, word: str) -> list[tuple[str, str | None]]:
    """The options in one word, the last perhaps with what is attached to it."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return [(name, value if equals else None)]
    parsed: list[tuple[str, str | None]] = []
    for at, letter in enumerate(word[1:], 2):
        name = f"-{letter}"
        if options.kinds.get(name):  # it takes a value: the rest of the word is that
            return [*parsed, (name, word[at:] or None)]
        parsed.append((name, None))
    return parsed
