"""Bytes of source code become text, and a tree of Python also where the file has errors."""

from __future__ import annotations

import ast
import io
import tokenize
from functools import cached_property

_MOST_REPAIRS = 12


class Unreadable(Exception):
    """In words for the reader."""


class SourceText:
    """``problem``: what of it could not be read, empty: all was. Raises Unreadable."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.text, self.problem = decoded(data)

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    def byte(self, line: int, column: int) -> int:
        """A column in characters as trees count it, in bytes of UTF-8."""
        text = self.lines[line - 1]
        return column if text.isascii() else len(text[:column].encode())

    def character(self, line: int, byte: int) -> int:
        text = self.lines[line - 1]
        return byte if text.isascii() else len(text.encode()[:byte].decode(errors="ignore"))


def decoded(data: bytes) -> tuple[str, str]:
    """The text, and what is odd about it. Raises Unreadable."""
    if b"\0" in data:
        raise Unreadable("is binary")
    try:
        coding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text, problem = data.decode(coding).removeprefix("\ufeff"), ""
    except (SyntaxError, UnicodeDecodeError, LookupError):
        text, problem = data.decode("latin-1"), "is not UTF-8, read as Latin-1"
    return text.replace("\r\n", "\n").replace("\r", "\n"), problem


def parsed(text: str) -> tuple[ast.Module, str]:
    """The tree; where Python cannot read a file, without the statements it stumbles over, and what
    they are. Raises Unreadable."""
    first = ""
    lines: list[str] = []
    blank: dict[int, int] = {}  # how much was cut around a line so far
    for _ in range(_MOST_REPAIRS):
        try:
            return ast.parse(text), first
        except SyntaxError as error:
            line = min(error.lineno or 1, text.count("\n") + 1)
            first = first or f"line {error.lineno}: {error.msg}; what stands there is left out"
            lines = lines or text.split("\n")
            blank[line] = blank.get(line, 0) + 1
            cut(lines, line - 1, blank[line])
            text = "\n".join(lines)
        except (RecursionError, MemoryError, ValueError) as error:
            raise Unreadable("is nested too deep to be read") from error
    raise Unreadable(f"has too many errors to be read ({first.partition(';')[0]})")


def cut(lines: list[str], start: int, level: int) -> None:
    """Leaves out, in place: the line and what is indented below it; with each further level the
    block around that."""
    for _ in range(level - 1):
        most = _indent(lines[start])
        while start > 0 and (not lines[start].strip() or _indent(lines[start]) >= most):
            start -= 1
    indent = _indent(lines[start])
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > indent):
        end += 1
    lines[start:end] = [f"{lines[start][:indent]}pass", *[""] * (end - start - 1)]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def expression_of(text: str) -> ast.expr | None:
    """Of an annotation that is written as a string; None: it is none."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
