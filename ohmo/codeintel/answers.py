"""Questions about a workspace and their answers as a model reads them: few words, places as
``path:line``, and what is not sure is marked."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Literal

from channels.record import record
from ohmo.codeintel.reading import Unreadable
from ohmo.codeintel.words import Definition, Symbol, occurrences, on_one_line
from ohmo.codeintel.workspace import Use, Workspace, is_called

_MOST = 100
_MOST_OUTLINE = 400
_MOST_PLACES = 6
_DEEPEST = 8  # containers that an outline shows by indentation


@record
class Asked:
    """``path``: absolute and resolved; lines and columns count from 1."""

    operation: Literal["document", "workspace", "definition", "references", "hover"]
    path: str | None = None
    line: int | None = None
    column: int | None = None
    name: str = ""
    query: str = ""


class Unanswerable(Exception):
    """In words for the model."""


class Answers:
    """``root``: what paths are shown below."""

    def __init__(self, workspace: Workspace, root: str) -> None:
        self._workspace = workspace
        self._root = f"{root.rstrip('/')}/"

    def answer(self, asked: Asked) -> str:
        """Raises Unanswerable."""
        path = asked.path or ""
        try:
            if asked.operation == "document":
                rows = self.outline(path)
            elif asked.operation == "workspace":
                found = self._workspace.search(asked.query)
                rows = [self._row(one) for one in found[:_MOST]]
                if len(found) > _MOST:
                    rows.append(f"[{len(found) - _MOST} more: ask for a longer name]")
                rows = rows or [f"no symbol has {asked.query!r} in its name"]
            elif asked.operation == "references":
                rows = self.references(self.defined(asked))
            else:
                rows = self.told(self.defined(asked), hover=asked.operation == "hover")
        except (OSError, Unreadable) as error:
            reason = getattr(error, "strerror", None) or error
            raise Unanswerable(f"{self._shown(path)}: {reason}") from error
        return "\n".join([*rows, *self.remarks()])

    def outline(self, path: str) -> list[str]:
        symbols = self._workspace.document(path)
        rows = [f"{self._shown(path)}: {len(symbols)} symbols"]
        for one in symbols[:_MOST_OUTLINE]:
            depth = min(one.container.count(".") + bool(one.container), _DEEPEST)
            rows.append(f"{_lines(one)} {'  ' * depth}{one.text or f'{one.kind} {one.name}'}")
        if len(symbols) > _MOST_OUTLINE:
            rows.append(f"[{len(symbols) - _MOST_OUTLINE} more; ask for one by name]")
        return rows

    def defined(self, asked: Asked) -> Definition:
        path, line, column, word = self._place(asked)
        definition = self._workspace.definition(path, line, column, word)
        if definition is None:
            raise Unanswerable(
                f"{word!r} at {self._shown(path)}:{line} is not resolved: it is built in, made at"
                " run time, or of something whose type is not written down. Grep finds the word"
            )
        return definition

    def _place(self, asked: Asked) -> tuple[str, int, int, str]:
        """The place that is asked about. Raises Unanswerable."""
        if asked.path is not None and asked.line is not None:
            found = self._workspace.word_at(asked.path, asked.line, asked.column, asked.name)
            if found is None:
                what = repr(asked.name) if asked.name else "no name"
                where = f"{self._shown(asked.path)}:{asked.line}"
                raise Unanswerable(f"{what} is not at {where}; give the line and a name on it")
            return asked.path, asked.line, found[1], found[0]
        if asked.path is None:
            symbols = self._workspace.named(asked.name)
        else:
            every = self._workspace.document(asked.path)
            symbols = [one for one in every if is_called(one, asked.name)]
        things = list({(one.path, one.dotted): one for one in reversed(symbols)}.values())[::-1]
        if len(things) > 1:
            rows = [self._row(one) for one in things[:_MOST_PLACES]]
            rows.append(f"[{len(things)} are called so: ask again with path and line of one]")
            raise Unanswerable("\n".join(rows))
        for one in things:
            return one.path, one.line, one.column - 1, one.name
        if asked.path is not None:
            last = asked.name.rpartition(".")[2]
            for line, column in occurrences(self._workspace.file(asked.path).text, last):
                return asked.path, line, column, last
        raise Unanswerable(f"nothing is called {asked.name!r} in {self._shown(self._root)}")

    def told(self, definition: Definition, *, hover: bool) -> list[str]:
        rows: list[str] = []
        for one in definition.symbols[:_MOST_PLACES]:
            rows.append(self._row(one))
            if hover and one.doc:
                rows.append(f"  {on_one_line(one.doc, 600)}")
        if len(definition.symbols) > _MOST_PLACES:
            rows.append(f"[bound at {len(definition.symbols) - _MOST_PLACES} more places]")
        return [*rows, f"[{definition.note}]"] if definition.note else rows

    def references(self, definition: Definition) -> list[str]:
        uses = list(self._workspace.references(definition))
        sure = [one for one in uses if not one.note]
        unsure = uses[len(sure) :]
        first = definition.symbols[0]
        where = f"{self._shown(first.path)}:{first.line}"
        rows = [f"{len(sure)} references to {first.dotted} ({where})"]
        rows += [f"[{definition.note}]"] if definition.note else []
        rows += self._uses(sure[:_MOST])
        if unsure:
            rows.append(f"[{len(unsure)} more {unsure[0].note}:]")
            rows += self._uses(unsure[: max(10, _MOST - len(sure))])
        if len(sure) > _MOST:
            counts = Counter(self._shown(one.path) for one in sure[_MOST:]).most_common(20)
            more = ", ".join(f"{path} {count}" for path, count in counts)
            rows.append(f"[{len(sure) - _MOST} more: {more}]")
        return rows

    def _uses(self, uses: list[Use]) -> list[str]:
        rows: list[str] = []
        for path, group in groupby(uses, key=lambda one: one.path):
            rows.append(self._shown(path))
            rows += dict.fromkeys(f"  {one.line}: {on_one_line(one.text, 120)}" for one in group)
        return rows

    def remarks(self) -> list[str]:
        reasons: dict[str, list[str]] = {}
        for path, reason in self._workspace.unread.items():
            reasons.setdefault(reason, []).append(self._shown(path))
        rows = [
            f"[{paths[0]}{f' and {len(paths) - 1} more' if paths[1:] else ''}: {reason}]"
            for reason, paths in list(reasons.items())[:_MOST_PLACES]
        ]
        return [*rows, f"[{self._workspace.late}]"] if self._workspace.late else rows

    def _row(self, one: Symbol) -> str:
        of = f" (in {one.container})" if one.container else ""
        return f"{self._shown(one.path)}:{_lines(one)} {one.text or f'{one.kind} {one.name}'}{of}"

    def _shown(self, path: str) -> str:
        return path.removeprefix(self._root) or path


def _lines(one: Symbol) -> str:
    return f"{one.line}-{one.end}" if one.end > one.line else str(one.line)
