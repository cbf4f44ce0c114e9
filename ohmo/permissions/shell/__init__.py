"""Shell commands, judged by their parts."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from ohmo.permissions.shell.grammar import Reader
from ohmo.permissions.shell.readonly import reads_only
from ohmo.permissions.shell.script import Redirect, Script, Simple, plain_paths

_SHORT = 4000  # characters
__all__ = ["Redirect", "Script", "Shell", "Simple"]


class Shell:
    """``home``: what ``~`` and ``$HOME`` mean to the commands. Results are remembered for a while: footprint, gate and tool ask for the same one."""

    def __init__(self, home: Path) -> None:
        self.home = str(home)

    def parse(self, command: str, cwd: Path) -> Script:
        return (_parse if len(command) <= _SHORT else _parse_long)(command, self.home, str(cwd))


def _read(command: str, home: str, cwd: str) -> Script:
    reader = Reader(home, cwd)
    reader.read(command)
    commands = tuple(reader.commands)
    return Script(commands, reader.unclear, tuple(map(reads_only, commands)), plain_paths(commands, "read"), plain_paths(commands, "write"))


_parse, _parse_long = lru_cache(maxsize=256)(_read), lru_cache(maxsize=4)(_read)  # a long one may come to many megabytes
