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
        try:
            text = self._answer(asked)
        except (OSError, Unreadable) as error:
            path = self._shown(asked.path or "")
            raise Unanswerable(f"{path}: {getattr(error, 'strerror', None) or error}") from error
        return "\n".join([text, *self.remarks()])

    def _answer(self, asked: Asked) -> str:
        if asked.operation == "document":
            return self.outline(asked.path or "")
        if asked.operation == "workspace":
            found = self._workspace.search(asked.query)
            if not found:
                return f"no symbol has {asked.query!r} in its name"
            rows = [self._row(one) for one in found[:_MOST]]
            if len(found) > _MOST:
                rows.append(f"[{len(found) - _MOST} more: ask for a longer name]")
            return "\n".join(rows)
        definition = self.defined(asked)
        if asked.operation == "references":
            return self.references(definition)
        return self.told(definition, hover=asked.operation == "hover")

    def outline(self, path: str) -> str:
        symbols = self._workspace.document(path)
        rows = [f"{self._shown(path)}: {len(symbols)} symbols"]
        for one in symbols[:_MOST_OUTLINE]:
            depth = min(one.container.count(".") + bool(one.container), _DEEPEST)
            rows.append(f"{_lines(one)} {'  ' * depth}{one.text or f'{one.kind} {one.name}'}")
        if len(symbols) > _MOST_OUTLINE:
            rows.append(f"[{len(symbols) - _MOST_OUTLINE} more; ask for one by name]")
        return "\n".join(rows)

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
            word, column = found
            return asked.path, asked.line, column, word
        if asked.path is not None:
            symbols = [
                one for one in self._workspace.document(asked.path) if is_called(one, asked.name)
            ]
            if not symbols:
                last = asked.name.rpartition(".")[2]
                text = self._workspace.file(asked.path).text
                for line, column in occurrences(text, last):
                    return asked.path, line, column, last
        else:
            symbols = self._workspace.named(asked.name)
        things = {(one.path, one.dotted): one for one in reversed(symbols)}
        if len(things) > 1:
            rows = [self._row(one) for one in list(reversed(things.values()))[:_MOST_PLACES]]
            rows.append(f"[{len(things)} are called so: ask again with path and line of one]")
            raise Unanswerable("\n".join(rows))
        if not things:
            raise Unanswerable(f"nothing is called {asked.name!r} in {self._shown(self._root)}")
        one = next(iter(things.values()))
        return one.path, one.line, one.column - 1, one.name

    def told(self, definition: Definition, *, hover: bool) -> str:
        rows: list[str] = []
        for one in definition.symbols[:_MOST_PLACES]:
            rows.append(self._row(one))
            if hover and one.doc:
                rows.append(f"  {on_one_line(one.doc, 600)}")
        if len(definition.symbols) > _MOST_PLACES:
            rows.append(f"[bound at {len(definition.symbols) - _MOST_PLACES} more places]")
        if definition.note:
            rows.append(f"[{definition.note}]")
        return "\n".join(rows)

    def references(self, definition: Definition) -> str:
        uses = list(self._workspace.references(definition))
        sure = [one for one in uses if not one.note]
        unsure = uses[len(sure) :]
        first = definition.symbols[0]
        rows = [
            f"{len(sure)} references to {first.dotted} ({self._shown(first.path)}:{first.line})"
        ]
        if definition.note:
            rows.append(f"[{definition.note}]")
        rows += self._uses(sure[:_MOST])
        if unsure:
            rows.append(f"[{len(unsure)} more {unsure[0].note}:]")
            rows += self._uses(unsure[: max(10, _MOST - len(sure))])
        if len(sure) > _MOST:
            counts = Counter(one.path for one in sure[_MOST:])
            more = ", ".join(
                f"{self._shown(path)} {count}" for path, count in counts.most_common(20)
            )
            rows.append(f"[{len(sure) - _MOST} more: {more}]")
        return "\n".join(rows)

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
        where = f"{self._shown(one.path)}:{_lines(one)}"
        of = f" (in {one.container})" if one.container else ""
        return f"{where} {one.text or f'{one.kind} {one.name}'}{of}"

    def _shown(self, path: str) -> str:
        return path.removeprefix(self._root) or path


def _lines(one: Symbol) -> str:
    return f"{one.line}-{one.end}" if one.end > one.line else str(one.line)
