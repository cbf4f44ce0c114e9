"""Reads a shell command: as the plain language where it lies in it, else with tree-sitter's bash
grammar (``grammar.py``). What only the grammar finds may forbid or ask; it frees nothing."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from ohmo.shell.grammar import Reader
from ohmo.shell.plain import read_plain
from ohmo.shell.plain_words import NotPlain
from ohmo.shell.scope import Names
from ohmo.shell.script import Script, Simple

_MOST_ROUNDS = 6
_SHORT = 4000  # characters
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


class Shell:
    """``home``: of ``~`` and ``$HOME`` in commands. ``path``: where they find programs."""

    def __init__(self, home: Path, path: str = DEFAULT_PATH) -> None:
        self.home = str(home)
        self.path = path

    def parse(self, command: str, cwd: Path) -> Script:
        """The plain reading looks at the disk, so it is made anew each time; the grammar's is
        remembered for a while: footprint, gate and tool ask for the same one."""
        if "\0" in command:
            return Script((), unclear="it holds a null byte, which no program can be given")
        try:
            plain = read_plain(command, self.home, str(cwd))
        except NotPlain as why:
            read = _by_grammar if len(command) <= _SHORT else _long_by_grammar
            commands, unclear = read(command, self.home, str(cwd))
            return Script(commands, beyond=str(why), unclear=unclear)
        reader = Reader(self.home, str(cwd))
        for each in plain:
            reader.add(each)
        return Script(tuple(reader.commands), plain, unclear=reader.unclear)


def _read(command: str, home: str, cwd: str) -> tuple[tuple[Simple, ...], str]:
    """Read again while a variable turns out to be another one earlier in the text."""
    names = Names()
    reader = Reader(home, cwd, names)
    for _ in range(_MOST_ROUNDS):
        before = len(names.loose), names.every
        reader = Reader(home, cwd, names)
        reader.read(command)
        if (len(names.loose), names.every) == before:
            return tuple(reader.commands), reader.unclear
    return tuple(reader.commands), reader.unclear or "its variables change too often"


_by_grammar = lru_cache(maxsize=256)(_read)
_long_by_grammar = lru_cache(maxsize=4)(_read)  # one may come to many megabytes
