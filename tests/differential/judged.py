"""The one place where the differential tests ask the product what it has judged."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ohmo.shell.patterns import ANY, SOME, known, real
from ohmo.shell.script import Simple
from tests.unit.permissions.attack_scenes import Scene

# Programs that read the folder in which they stand when no other is named.
IN_FOLDER = frozenset(
    ("ls", "dir", "vdir", "find", "rg", "tree", "du", "git", "grep", "egrep", "fgrep")
)

# They tell their words, whatever these are.
_TELLING = frozenset(("echo", "printf", "basename", "dirname", "true"))


@dataclass(frozen=True)
class Judged:
    """``argv``: the words of each simple command, the product's wildcards where it judged all that
    a word may become. ``files``: what the operands and redirections name, resolved. ``folder``:
    where it runs, resolved. ``redirected``: from or to a file, which may not be there. ``handed``:
    commands that other programs run, with names that nobody knows before."""

    argv: tuple[tuple[str, ...], ...]
    files: frozenset[str]
    folder: str
    redirected: bool = False
    handed: tuple[Simple, ...] = ()

    @property
    def programs(self) -> frozenset[str]:
        words = (*self.argv, *(each.words for each in self.handed))
        return frozenset(os.path.basename(each[0]) for each in words if each)

    @property
    def hands_on(self) -> bool:
        """Whether a program is handed paths, below folders that are known."""
        return any(
            each.handed and each.handed.at and all(map(known, each.words)) for each in self.handed
        )

    @property
    def folders(self) -> frozenset[str]:
        """Those in which the files lie: bash opens them for a wildcard."""
        return frozenset(str(folder) for file in self.files for folder in Path(file).parents)

    def knows(self, argv: Sequence[str]) -> bool:
        """Whether these words of a started program were judged."""
        return any(_same(words, argv) for words in self.argv) or any(
            _handed(each, argv) for each in self.handed
        )

    def covers(self, path: str) -> bool:
        """Whether an opened file is, or lies in, what was judged."""
        within = [*self.files, *([self.folder] if self.programs & IN_FOLDER else [])]
        return any(path == one or path.startswith(one.rstrip("/") + "/") for one in within)


def judged(command: str, scene: Scene) -> Judged:
    commands = _commands(command, scene)
    folder = commands[-1].cwds[-1] if commands else str(scene.work)
    files = {
        path
        for simple in commands
        for cwd in simple.cwds
        for word in (
            *simple.words[1:],
            *(redirect.target for redirect in simple.redirects),
            *(f"{each}/one" for each in simple.listed),
        )
        for path in _files(word, cwd)
    }
    redirected = any(
        redirect.target != "/dev/null" for simple in commands for redirect in simple.redirects
    )
    argv = tuple(simple.words for simple in commands if simple.handed is None)
    handed = tuple(simple for simple in commands if simple.handed is not None)
    found = Judged(argv, frozenset(files), real(folder), redirected, handed)
    # git works in the whole repository, wherever in it it stands
    return replace(found, folder=str(scene.work)) if "git" in found.programs else found


def _commands(command: str, scene: Scene) -> tuple[Simple, ...]:
    script = scene.house.shell.parse(command, scene.work)
    return script.plain or script.commands


def _same(words: Sequence[str], argv: Sequence[str]) -> bool:
    if all(known(word) for word in words):
        return tuple(words) == tuple(argv)
    form = re.escape("\0".join(words)).replace(SOME, "[^/]*").replace(ANY, ".*")
    return re.fullmatch(form, "\0".join(argv), re.DOTALL) is not None


def _handed(simple: Simple, argv: Sequence[str]) -> bool:
    """Whether the words are those of the command with names of its folders in their places."""
    assert simple.handed is not None
    if simple.words[0] in _TELLING:
        return argv[:1] == simple.words[:1]
    name = r"(?![-/])[^\0]*" if simple.handed.bare else ""
    roots = {word for at, word in enumerate(simple.words) if at in simple.handed.at}
    below = "|".join(
        rf"{re.escape(root)}(?:(?<=/)|/|(?=\0))[^\0]*" for root in roots if known(root)
    )
    pieces: list[str] = []
    for at, word in enumerate(simple.words):
        if at not in simple.handed.at:
            pieces.append(re.escape(word))
        elif at - 1 in simple.handed.at:
            continue  # as many as there are
        elif not known(word):
            pieces.append(re.escape(word.partition(ANY)[0]) + ".*")
        else:
            pieces.append(rf"(?:{name or below})(?:\0(?:{name or below}))*")
    return re.fullmatch("\0".join(pieces) + "\0", "\0".join((*argv, "")), re.DOTALL) is not None


def _files(word: str, cwd: str) -> Iterator[str]:
    """What a word would name as an operand, ``--option=word`` too."""
    named = word.partition("=")[2] if word.startswith("-") and "=" in word else word
    if known(named):
        yield real(os.path.join(cwd, named))
        return
    for found in glob.glob(os.path.join(cwd, named.replace(SOME, "*").replace(ANY, "*"))):
        yield real(found)
