"""What a shell command comes down to: simple commands with evaluated words, redirections, what
could not be known, and what a command that only reads opens."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from channels.record import record
from ohmo.permissions.patterns import as_written, known


@record
class Redirect:
    kind: Literal["read", "write"]
    target: str


@record
class Simple:
    """One simple command. ``words`` may hold the wildcards of ``patterns``. ``cwds``: where it may
    run (a failed ``cd`` is possible), the likeliest last. ``assigned``: variables set for it alone.
    ``stdin``: "text" when a here-document that is judged on its own, "pipe", or "" for none.
    ``opaque``: why nobody can say what it runs. ``found``: positions of words that wildcards
    became; ``listed``: folders in which bash looks for these names."""

    words: tuple[str, ...]
    cwds: tuple[str, ...]
    assigned: tuple[str, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    stdin: Literal["", "pipe", "text"] = ""
    opaque: str = ""
    found: frozenset[int] = frozenset()
    listed: tuple[str, ...] = ()

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
    """``plain``: the line's own commands when it lies in the plain language, else ``()`` and in
    ``beyond`` what does not. ``commands``: all that are found, also inside others (``sudo``,
    ``sh -c``). ``unclear``: why the grammar could not read a line that is not plain."""

    commands: tuple[Simple, ...]
    plain: tuple[Simple, ...] = ()
    beyond: str = ""
    unclear: str = ""

    @property
    def reads(self) -> tuple[Path, ...]:
        """Files that redirections read, as far as they are known before it runs."""
        return _targets(self.commands, "read")

    @property
    def writes(self) -> tuple[Path, ...]:
        """Files that redirections write."""
        return _targets(self.commands, "write")


def _targets(commands: tuple[Simple, ...], kind: Literal["read", "write"]) -> tuple[Path, ...]:
    return tuple(
        Path(command.cwds[-1]) / redirect.target
        for command in commands
        for redirect in command.redirects
        if redirect.kind == kind and known(redirect.target) and known(command.cwds[-1])
    )


@record
class Reading:
    """``paths``: as the command names them. ``kind``: ``files``: the content of each, ``names``:
    folders are listed and files looked at, ``trees``: the content of everything below.
    ``repository``: the folder, as the command names it, in which git would look for a repository;
    None: it is not git."""

    kind: Literal["files", "names", "trees"]
    paths: tuple[str, ...] = ()
    repository: str | None = None
