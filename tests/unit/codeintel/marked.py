"""Sources with marks: ``<!a:name>`` binds what ``<a:name>`` means, ``<?:name>`` is not to be resolved,
``<~:name>`` is known by its name only, ``<^:name>`` is outside of the workspace, ``<@a/b.py:name>`` is a module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ohmo.codeintel.workspace import Reading, Sources, Workspace

_MARK = re.compile(r"<(!?)(@[\w./]+|\w+|[?~^]):([^<>\s]+)>")


@dataclass
class Mark:
    path: str
    line: int
    column: int  # from 0
    name: str
    key: str
    binds: bool


@dataclass
class Marked:
    root: Path
    files: Mapping[str, str]
    marks: list[Mark] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name, text in self.files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._plain(str(path), text), encoding="utf-8")
        self.sources = Sources(Reading(_stamp, lambda path: Path(path).read_bytes()))

    def _plain(self, path: str, text: str) -> str:
        rows = []
        for number, written in enumerate(text.split("\n"), 1):
            row = written
            while (match := _MARK.search(row)) is not None:
                self.marks.append(
                    Mark(path, number, match.start(), match[3], match[2], bool(match[1]))
                )
                row = row[: match.start()] + match[3] + row[match.end() :]
            rows.append(row)
        return "\n".join(rows)

    def workspace(self) -> Workspace:
        return Workspace(
            str(self.root), sorted(str(self.root / name) for name in self.files), self.sources
        )

    def wrong(self) -> list[str]:
        """Marks that mean something else than is marked."""
        workspace = self.workspace()
        bound: dict[str, set[tuple[str, int]]] = {}
        for mark in self.marks:
            if mark.binds:
                bound.setdefault(mark.key, set()).add((mark.path, mark.line))
        wrong = []
        for mark in self.marks:
            found = workspace.definition(mark.path, mark.line, mark.column, mark.name)
            where = f"{mark.path}:{mark.line}:{mark.column} {mark.name}"
            if mark.key == "?":
                ok = found is None
            elif mark.key == "^":
                ok = found is not None and "outside" in found.note
            elif mark.key == "~":
                ok = found is None or "by name only" in found.note
            else:
                places = (
                    {(one.path, one.line) for one in found.symbols} if found is not None else set()
                )
                module = {(str(self.root / mark.key[1:]), 1)}
                ok = (
                    found is not None
                    and not found.note
                    and places == (module if mark.key.startswith("@") else bound[mark.key])
                )
            if not ok:
                wrong.append(f"{where} <{mark.key}>: {found}")
        return wrong

    def uses(self, key: str) -> set[tuple[str, int]]:
        return {(mark.path, mark.line) for mark in self.marks if mark.key == key}

    def found_uses(self, key: str) -> set[tuple[str, int]]:
        """References to what a mark binds, as they are found."""
        mark = next(one for one in self.marks if one.key == key and one.binds)
        workspace = self.workspace()
        definition = workspace.definition(mark.path, mark.line, mark.column, mark.name)
        assert definition is not None
        return {(one.path, one.line) for one in workspace.references(definition) if not one.note}


def _stamp(path: str) -> tuple[int, int]:
    status = Path(path).stat()
    return status.st_mtime_ns, status.st_size
