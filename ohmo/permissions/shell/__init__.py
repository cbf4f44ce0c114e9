"""Shell commands, judged by their parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from ohmo.permissions.patterns import word_set
from ohmo.permissions.shell.git import QUIET
from ohmo.permissions.shell.grammar import Reader
from ohmo.permissions.shell.plain import NotPlain, read_plain
from ohmo.permissions.shell.reading import reading
from ohmo.permissions.shell.script import Redirect, Script, Simple

_SHORT = 4000  # characters
_NAMED = word_set("cp mv rm rmdir mkdir touch ln chmod chown tee truncate install")
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
__all__ = ["DEFAULT_PATH", "Redirect", "Script", "Shell", "Simple", "only_git_that_reads"]


class Shell:
    """``home``: what ``~`` and ``$HOME`` mean to the commands. ``path``: where they find
    programs."""

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
            read = _read if len(command) <= _SHORT else _read_long
            commands, unclear = read(command, self.home, str(cwd))
            return Script(commands, beyond=str(why), unclear=unclear)
        reader = Reader(self.home, str(cwd))
        for each in plain:
            reader.add(each)
        return Script(tuple(reader.commands), plain, unclear=reader.unclear)

    def reads_only(self, script: Script) -> bool:
        """Whether it changes nothing and runs nothing but programs that only read."""
        return bool(script.plain) and all(reading(each) for each in script.plain)

    def touched(self, script: Script) -> tuple[Path, ...] | None:
        """Every path that the words of a plain line name to programs that touch nothing else; None:
        what it touches is only known when it runs."""
        found: list[Path] = []
        for each in script.plain:
            read = reading(each)
            words = read.paths if read is not None and read.repository is None else _named(each)
            if words is None:
                return None
            found += [Path(cwd) / word for cwd in each.cwds for word in words]
        return tuple(found) if script.plain else None

    def environment(self, command: str, cwd: Path) -> Mapping[str, str]:
        """What a command is given beside the usual: git that only reads runs no program of
        anybody's settings."""
        plain = self.parse(command, cwd).plain
        return QUIET if only_git_that_reads(plain) else {}


def only_git_that_reads(plain: Sequence[Simple]) -> bool:
    """Whether git looks at a repository in a plain line and does nothing else in it. ``git config``
    alone shows the person's own settings, too."""
    gits = [reading(each) for each in plain if each.words[0] == "git"]
    return None not in gits and any(each and each.repository is not None for each in gits)


def _named(command: Simple) -> tuple[str, ...] | None:
    """Of programs that change what they name and nothing else; an option may name a folder, too."""
    words = command.words[1:]
    told = any(word.startswith("-") and ("t" in word or "=" in word) for word in words)
    return None if told or command.words[0] not in _NAMED else words


def _explained(command: str, home: str, cwd: str) -> tuple[tuple[Simple, ...], str]:
    reader = Reader(home, cwd)
    reader.read(command)
    return tuple(reader.commands), reader.unclear


_read = lru_cache(maxsize=256)(_explained)
_read_long = lru_cache(maxsize=4)(_explained)  # one may come to many megabytes
