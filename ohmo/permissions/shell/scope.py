"""What is known about variables and folders at one place of a shell script."""

from __future__ import annotations

from dataclasses import dataclass, field

from ohmo.permissions.patterns import ANY, word_set

MOST = 64  # alternatives of one word; more are "anything"
_NUMBERS = word_set(
    "? # $ ! RANDOM SECONDS UID EUID PPID LINENO BASHPID EPOCHSECONDS SHLVL COLUMNS LINES"
)


@dataclass(slots=True)
class Scope:
    """``variables``: possible values; absent: nobody knows."""

    home: str
    cwds: tuple[str, ...]
    variables: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def copy(self) -> Scope:
        return Scope(self.home, self.cwds, dict(self.variables))

    def unknown(self) -> Scope:
        """For what runs later: whatever was known here may have changed by then."""
        return Scope(self.home, (ANY,), dict.fromkeys(self.variables, (ANY,)))

    def assign(self, name: str, values: tuple[str, ...]) -> None:
        """A value may or may not have been replaced (branches, failed commands), so the old ones
        stay possible."""
        both = tuple(dict.fromkeys((*self.variables.get(name, ()), *values)))
        self.variables[name] = both if len(both) <= MOST else (ANY,)

    def forget(self, name: str) -> None:
        """It may have any value."""
        self.variables[name] = (ANY,)

    def value(self, name: str) -> tuple[str, ...]:
        if name in self.variables:
            return self.variables[name]
        if name in _NUMBERS:
            return ("0",)
        own = {"HOME": (self.home,), "PWD": self.cwds, "IFS": (" ",), "TMPDIR": ("/tmp",)}  # noqa: S108
        return own.get(name, (ANY,))
