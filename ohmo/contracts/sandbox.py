"""What a command may reach (``Cage``), and how a backend starts it there (``Launch``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from pathlib import Path
from typing import Literal, Protocol

from channels.record import record
from ohmo.contracts.messages import Json

Backend = Literal["bubblewrap", "landlock", "docker", "sandbox-exec", "none"]


def _untold(_: str) -> None:
    return


@record
class Names:
    """What of the network a proxy outside connects a cage to: ``host``, ``host:port`` or
    ``.domain`` (and all below). ``barred``: domains it never does. ``refused`` is told each
    ``host:port`` that was wanted beside."""

    opened: tuple[str, ...] = ()
    barred: tuple[str, ...] = ()
    refused: Callable[[str], None] = field(default=_untold, compare=False, repr=False)


@record
class Cage:
    """Absolute paths without links. Of a path the nearest one named above it decides; what is
    below none of them is not there. ``read`` and ``write``: with all that is below; a ``read``
    below a ``write`` is read-only where the backend can (Landlock cannot). ``hide`` goes before
    both. ``named``: of ``read`` and ``write``, what a command itself names: where something else
    lies there by the time it starts, it does not start. ``doors``: unix sockets that it can see may
    be opened also beside the network. ``memory`` in bytes, of all its processes; ``pids``: how many
    there may be."""

    read: tuple[Path, ...]
    write: tuple[Path, ...]
    hide: tuple[Path, ...] = ()
    named: tuple[Path, ...] = ()
    network: Literal["off", "names", "on"] = "off"
    names: Names = Names()
    doors: bool = False
    memory: int = 2 << 30
    cpus: float = 1.0
    pids: int = 256


@record
class Launch:
    """``fds``: open in the program that is started, under these numbers. ``rules``: what the keeper
    applies between fork and exec (``ohmo.processes.confinement``), and what it watches. ``env``:
    on top of the command's own. ``within``: where ``argv`` begins with a program that makes the
    cage, the descriptor by which the command's environment gets in; no variable of it may reach
    what runs outside, which some tell what to load (``LD_PRELOAD``, ``BASH_ENV``). ``door``:
    an empty folder that is seen by nobody but us and, as the one of ``ohmo.sandbox.proxy.DOOR``, by
    whoever is in the cage."""

    argv: tuple[str, ...]
    fds: tuple[int, ...] = ()
    rules: Mapping[str, Json] = field(default_factory=dict[str, Json])
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    within: int | None = None
    door: Path | None = None


@record
class Terms:
    """Under which a program runs that somebody wrote down: a hook, an MCP server. ``owners``: the
    owner did, so its words open what they name; else ``read``, ``write`` and ``off`` (no walls)
    mean nothing. ``plugin``: the folder of the one that brings it; ``data``: where that one
    keeps things. ``cache``: of a server, how the folder is called that lasts for it."""

    what: str = ""
    owners: bool = False
    network: bool = False
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    off: bool = False
    plugin: str = ""
    data: str = ""
    cache: str = ""


class Sandbox(Protocol):
    @property
    def name(self) -> Backend: ...

    def launch(
        self, argv: tuple[str, ...], cwd: Path, cage: Cage
    ) -> AbstractAsyncContextManager[Launch]:
        """Held until the command has ended. Raises OSError with one line."""
        ...


class Programs(Sandbox, Protocol):
    """Also around what people wrote down."""

    async def cage(self, argv: tuple[str, ...], cwd: Path, terms: Terms) -> Cage | None:
        """None: it runs without walls. Raises OSError with one line."""
        ...
