"""What is known about variables and folders at one place of a shell script."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ohmo.permissions.patterns import ANY, word_set

MOST = 64  # alternatives of one word; more are "anything"
_NUMBERS = word_set("? # $ ! RANDOM SECONDS UID EUID PPID LINENO BASHPID EPOCHSECONDS SHLVL COLUMNS LINES")


@dataclass(slots=True)
class Scope:
    """``variables``: possible values; absent: nobody knows. ``numbers``: names that stand for nothing but numbers.
    ``late``: runs after anything else, so what is absent may have been set."""

    home: str
    cwds: tuple[str, ...]
    variables: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    numbers: set[str] = field(default_factory=set[str])
    late: bool = False

    def copy(self) -> Scope:
        return Scope(self.home, self.cwds, dict(self.variables), set(self.numbers), self.late)

    def unknown(self) -> Scope:
        """For what runs later: whatever was known here may have changed by then."""
        return Scope(self.home, (ANY,), dict.fromkeys(self.variables, (ANY,)), late=True)

    def assign(self, name: str, values: tuple[str, ...], *, number: bool = False) -> None:
        """A value may or may not have been replaced (branches, failed commands), so the old ones stay possible."""
        number = (number or _digits(values)) and self.is_number(name)
        both = tuple(dict.fromkeys((*self.variables.get(name, ()), *values)))
        self.variables[name] = both if len(both) <= MOST else (ANY,)
        self.numbers.add(name) if number else self.numbers.discard(name)

    def count(self, name: str) -> None:
        """A sum has set it."""
        self.assign(name, (ANY,), number=True)

    def forget(self, name: str, *, number: bool = False) -> None:
        """It may have any value; ``number``: any number."""
        number = number and self.is_number(name)
        self.variables[name] = (ANY,)
        self.numbers.add(name) if number else self.numbers.discard(name)

    def is_number(self, name: str) -> bool:
        """Also a name of the script's own that nobody has set: it counts as 0."""
        if name in self.variables:
            return name in self.numbers or _digits(self.variables[name])
        return name in _NUMBERS or (not self.late and re.fullmatch(r"[a-z_]\w*", name) is not None)

    def value(self, name: str) -> tuple[str, ...]:
        if name in self.variables:
            return self.variables[name]
        if name in _NUMBERS:
            return ("0",)
        return {"HOME": (self.home,), "PWD": self.cwds, "IFS": (" ",), "TMPDIR": ("/tmp",)}.get(name, (ANY,))  # noqa: S108


def _digits(values: tuple[str, ...]) -> bool:
    return all(re.fullmatch(r"[-+]?\d*", value) for value in values)
