"""What strace told: programs that were started, files that were opened, changes."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.differential.box import CHANGES, OPENS

_LINE = re.compile(r"(\d+) +(\w+)\((.*)\) += (\?|-?\w+)(.*)")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"(\.\.\.)?')
_HALF = re.compile(r"(\d+) +(.*) <unfinished \.\.\.>$")
_REST = re.compile(r"(\d+) +<\.\.\. \w+ resumed>(.*)$")
_WRITES = re.compile(r"\bO_(WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)\b")
_CHANGES, _OPENS = frozenset(CHANGES.split()), frozenset(OPENS.split())


@dataclass(frozen=True)
class Started:
    program: str
    argv: tuple[str, ...]


@dataclass
class Trace:
    """Paths are resolved as the kernel resolved them. ``tried``: opened for writing, with or
    without success. ``changes``: other calls that change something, as they stand in the trace."""

    started: list[Started] = field(default_factory=list[Started])
    opened: set[str] = field(default_factory=set[str])
    tried: set[str] = field(default_factory=set[str])
    changes: list[str] = field(default_factory=list[str])


def _lines(text: str) -> Iterator[str]:
    """With calls joined that another process interrupted."""
    halves: dict[str, str] = {}
    for line in text.split("\n"):
        half = _HALF.match(line)
        rest = _REST.match(line)
        if half is not None:
            halves[half[1]] = half[2]
        elif rest is not None:
            yield f"{rest[1]} {halves.pop(rest[1], '')}{rest[2]}"
        else:
            yield line


def _string(escaped: str) -> str:
    return os.fsdecode(codecs.escape_decode(escaped.encode("latin-1"))[0])


def read_trace(text: str) -> Trace:
    trace = Trace()
    for line in _lines(text):
        found = _LINE.match(line)
        if found is None:
            continue
        _, call, arguments, result, more = found.groups()
        if call in ("execve", "execveat"):
            if result == "0":
                trace.started.append(_started(arguments))
        elif call in _OPENS:
            _note_open(trace, arguments, result, more)
        elif call in _CHANGES:
            trace.changes.append(f"{call}({arguments}) = {result}{more}")
    return trace


def _started(arguments: str) -> Started:
    """``"/usr/bin/ls", ["ls", "-l"], ["HOME=/root"]``"""
    program = _STRING.search(arguments)
    assert program is not None
    words: list[str] = []
    at = arguments.index("[", program.end()) + 1
    while (word := _STRING.match(arguments, at)) is not None:
        words.append(_string(word[1]))
        at = word.end() + 2
        if arguments[word.end()] == "]":
            break
    return Started(_string(program[1]), tuple(words))


def _note_open(trace: Trace, arguments: str, result: str, more: str) -> None:
    path = _STRING.search(arguments)
    named = _string(path[1]) if path is not None else ""
    folder = re.match(r"\w+<([^>]*)>", arguments)
    asked = os.path.join(_string(folder[1]) if folder is not None else "", named)
    real = re.match(r"<(.*?)>", more)
    where = _string(real[1]) if real is not None and not result.startswith("-") else asked
    if _WRITES.search(arguments, path.end() if path is not None else 0) is not None:
        trace.tried.add(where)
    elif not result.startswith("-"):
        trace.opened.add(where)
