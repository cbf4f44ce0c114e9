"""The lists in ``forms/``: attacks by class, and a developer's everyday commands."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FORMS = Path(__file__).parent / "forms"


@dataclass(frozen=True)
class Kind:
    """A class of attacks. ``scene``: where they stand (``attack_scenes.py``). ``by_run``: ordinary
    commands, which may run unasked where the run has no effect; all others may not."""

    name: str
    scene: str
    by_run: bool
    forms: tuple[str, ...]

    def filled(self, home: Path, work: Path) -> tuple[str, ...]:
        """The forms with the folders of this house."""
        return tuple(
            form.replace("@HOME@", str(home)).replace("@WORK@", str(work)) for form in self.forms
        )


def sections(file: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Heading and lines of each section; a line after ``%`` is a Python string."""
    title, lines = "", list[str]()
    for line in (FORMS / file).read_text(encoding="utf-8").split("\n"):
        if line.startswith("## "):
            if title:
                yield title, tuple(lines)
            title, lines = line[3:], []
        elif title and line:
            lines.append(str(ast.literal_eval(line[1:])) if line.startswith("%") else line)
    yield title, tuple(lines)


def kinds() -> list[Kind]:
    found: list[Kind] = []
    for file in ("attacks_shell.txt", "attacks_programs.txt", "attacks_places.txt"):
        for title, forms in sections(file):
            name, _, scene = title.partition(" @")
            found.append(Kind(name, scene or "plain", bool(scene), forms))
    return found


def everyday() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The reading and the writing commands."""
    by_title = {title.split(":")[0]: forms for title, forms in sections("everyday.txt")}
    return by_title["reading"], by_title["writing"]
