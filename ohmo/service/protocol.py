"""What a service manager is to ohmo: somebody who starts it, keeps it, and can be asked how it
is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal, Protocol

from channels.record import record
from ohmo.config.home import Home
from ohmo.contracts.errors import OhmoError

READY_WITHIN = 90.0  # seconds a start may take before we stop waiting for it
STOP_WITHIN = 30.0  # seconds from SIGTERM to SIGKILL: 10 s of drain and what each part may take
# exit codes after which another start would end the same way; 75: another instance, 78:
# configuration
NEVER_AGAIN = (1, 2, 3, 75, 78)
# seconds without a sign of life from the event loop after which the daemon is ended with its stack
# in the log
WATCHDOG = 20


class ServiceFailed(OhmoError):
    """The service manager could not do it."""


@record
class Ran:
    """A command that ended: exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        """The last line it said, which names the reason."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {self.code}"


Run = Callable[
    [Sequence[str], float], Ran
]  # a command and the seconds it may take; TimeoutError when it takes longer


@record
class Plan:
    """What is to be run, and as whom. ``python``: the interpreter of the environment ohmo is
    installed in."""

    python: Path
    home: Home
    user_home: Path
    search_path: str

    @property
    def command(self) -> tuple[str, ...]:
        """``-P``: the working directory is not searched for modules."""
        return (str(self.python), "-P", "-m", "ohmo", "run")


def search_path(python: Path, user_home: Path, *, darwin: bool = False) -> str:
    """A short PATH: where ohmo lies, where a person's own programs lie, and the system's."""
    brew = ["/opt/homebrew/bin"] if darwin else []
    return ":".join(
        [
            str(python.parent),
            str(user_home / ".local" / "bin"),
            *brew,
            "/usr/local/bin",
            "/usr/bin",
            "/bin",
        ]
    )


State = Literal["running", "starting", "restarting", "stopped", "failed", "not installed"]


@record
class Standing:
    """How the service is. ``detail``: one line, why it is so. ``alone``: whoever should start it
    again was killed."""

    state: State
    pid: int | None = None
    restarts: int = 0
    detail: str = ""
    alone: bool = False


@record
class Log:
    """Where the log is: a file to read, or a command that shows it."""

    file: Path | None = None
    command: tuple[str, ...] = field(default=())


class Manager(Protocol):
    """All raise ServiceFailed with one line that says what to do."""

    @property
    def name(self) -> str:
        """As a person calls it."""
        ...

    def installed(self) -> bool:
        """Whether ``install`` was done here."""
        ...

    def stale(self) -> bool:
        """What is installed is not what ``install`` would write now."""
        ...

    def install(self) -> list[str]:
        """Idempotent; starts nothing. Returns lines for the person."""
        ...

    def uninstall(self) -> list[str]:
        """Stops it first. What belongs to the person (the home) stays."""
        ...

    def start(self) -> None:
        """Waits until the daemon is ready."""
        ...

    def stop(self) -> None:
        """Waits until it has ended in good order."""
        ...

    def restart(self) -> None:
        """Stops it when it runs, and waits until it is ready again."""
        ...

    def reload(self) -> None:
        """The daemon reads its configuration again."""
        ...

    def standing(self) -> Standing:
        """How it is now."""
        ...

    def log(self, lines: int, follow: bool) -> Log:
        """Where its last ``lines`` are read; ``follow``: and what comes."""
        ...


def reason_in(lines: Sequence[str]) -> str:
    """The line with which the daemon said last why it does not start; empty when there is none."""
    said = [
        line
        for line in lines
        if line.startswith("ohmo: ") or ".yaml:" in line[:200] or ".env:" in line[:200]
    ]
    return said[-1].removeprefix("ohmo: ") if said else ""
