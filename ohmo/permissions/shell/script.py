"""What a shell command comes down to: simple commands with evaluated words, redirections, and what could not be known."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from channels.record import record
from ohmo.permissions.patterns import known


@record
class Redirect:
    kind: Literal["read", "write"]
    target: str


@record
class Simple:
    """One simple command. ``words`` may hold the wildcards of ``patterns``. ``cwds``: where it may run (a failed ``cd`` is possible).
    ``assigned``: variables set for it alone. ``stdin``: "text" when a here-document that is judged on its own, "pipe", or "" for none.
    ``opaque``: why nobody can say what it runs. ``wrapped``: found inside another command (``sudo``, ``xargs``, ``sh -c``)."""

    words: tuple[str, ...]
    cwds: tuple[str, ...]
    assigned: tuple[str, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    stdin: Literal["", "pipe", "text"] = ""
    opaque: str = ""
    wrapped: bool = False

    @property
    def name(self) -> str:
        """The program without its folder."""
        return self.words[0].rpartition("/")[2] if self.words else ""

    @property
    def text(self) -> str:
        return " ".join(self.words)


@record
class Script:
    """``unclear``: why the grammar could not read it; "" when it could."""

    commands: tuple[Simple, ...]
    unclear: str
    free: tuple[bool, ...]  # which of the commands change nothing
    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()

    @property
    def read_only(self) -> bool:
        return not self.unclear and bool(self.free) and all(self.free)


def plain_paths(commands: tuple[Simple, ...], kind: Literal["read", "write"]) -> tuple[Path, ...]:
    """Targets of redirections that are known before it runs."""
    return tuple(
        Path(command.cwds[0]) / redirect.target
        for command in commands
        for redirect in command.redirects
        if redirect.kind == kind and known(redirect.target) and known(command.cwds[0])
    )
