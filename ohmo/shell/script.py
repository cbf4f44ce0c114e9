"""What a shell command comes down to: simple commands with evaluated words, redirections, what
could not be known, and what a command that only reads opens."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from channels.record import record
from ohmo.shell.patterns import as_written, known

_MOST_WORDS = 50  # of a command, that are looked at as paths
_MOST_LETTERS = 1_000


@record
class Redirect:
    """A file that a redirection opens."""

    kind: Literal["read", "write"]
    target: str


@record
class Handed:
    """Words of a command that are only known when it runs: paths that another program tells. In
    their place stands a file or folder that each of them is, or lies below."""

    at: frozenset[int] = frozenset()  # their positions
    bare: bool = False  # told without the folder before them: they begin as the names in it do
    split: bool = False  # taken apart at blanks and quotes
    files: bool = False  # neither links nor folders
    only: tuple[str, ...] = ()  # what the last part of each looks like, by each of these patterns


@record
class Simple:
    """One simple command."""

    words: tuple[str, ...]  # may hold the wildcards of ``patterns``
    cwds: tuple[str, ...]  # where it may run (a failed ``cd`` is possible), the likeliest last
    assigned: tuple[str, ...] = ()  # variables set for it alone
    redirects: tuple[Redirect, ...] = ()
    stdin: Literal["", "pipe", "text"] = ""  # text: a here-document, judged on its own
    opaque: str = ""  # why nobody can say what it runs
    found: frozenset[int] = frozenset()  # positions of words that wildcards became
    listed: tuple[str, ...] = ()  # folders in which bash looks for these names
    handed: Handed | None = None  # of one that another program runs, or a loop over what one tells
    runs: tuple[Simple, ...] = ()  # commands that it runs, which stand behind it in a plain line

    @property
    def name(self) -> str:
        """The program without its folder."""
        return self.words[0].rpartition("/")[2] if self.words else ""

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @property
    def shown(self) -> str:
        """``text`` for people and the model, who know nothing of our wildcards."""
        return as_written(self.text)


@record
class Script:
    """A command line, read."""

    commands: tuple[Simple, ...]  # all that are found, also inside others (``sudo``, ``sh -c``)
    #: The line's own commands when it lies in the plain language, else ``()``.
    plain: tuple[Simple, ...] = ()
    beyond: str = ""  # what of it does not lie in the plain language
    unclear: str = ""  # why the grammar could not read a line that is not plain

    @property
    def reads(self) -> tuple[Path, ...]:
        """Files that redirections read, as far as they are known before it runs."""
        return _targets(self.commands, "read")

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where its commands run, as far as that is known before."""
        return tuple(dict.fromkeys(Path(cwd) for each in self.commands for cwd in _folders(each)))

    @property
    def named(self) -> tuple[Path, ...]:
        """What their words would be as paths, as far as they are known."""
        return tuple(
            dict.fromkeys(
                Path(cwd) / word
                for each in self.commands
                for word in each.words[:_MOST_WORDS]
                if known(word) and not word.startswith("-") and len(word) < _MOST_LETTERS
                for cwd in _folders(each)
            )
        )

    @property
    def writes(self) -> tuple[Path, ...]:
        """Files that redirections write."""
        return _targets(self.commands, "write")


def _folders(command: Simple) -> list[str]:
    return [cwd for cwd in command.cwds if known(cwd)]


def _targets(commands: tuple[Simple, ...], kind: Literal["read", "write"]) -> tuple[Path, ...]:
    return tuple(
        Path(command.cwds[-1]) / redirect.target
        for command in commands
        for redirect in command.redirects
        if redirect.kind == kind and known(redirect.target) and known(command.cwds[-1])
    )


@record
class Reading:
    """What a command that only reads opens."""

    #: ``files``: the content of each, ``names``: folders are listed and files looked at,
    #: ``trees``: the content of everything below.
    kind: Literal["files", "names", "trees"]
    paths: tuple[str, ...] = ()  # as the command names them
    #: The folder, as the command names it, in which git would look for a repository; None: it is
    #: not git.
    repository: str | None = None
    handed: Handed | None = None  # how it comes to what lies below the paths, links followed
