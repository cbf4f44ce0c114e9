"""Files of a workspace, read once for as long as they stay as they are, and what can be asked about
them."""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tree_sitter import Language, Parser

from channels.record import Recent, record
from ohmo.codeintel.grammars import BY_SUFFIX, INSTALL, PYTHON, SUFFIXES
from ohmo.codeintel.python_file import PythonFile
from ohmo.codeintel.python_modules import PythonModules
from ohmo.codeintel.python_names import PythonNames
from ohmo.codeintel.reading import Unreadable, decoded
from ohmo.codeintel.tree_file import TreeFile
from ohmo.codeintel.tree_names import TreeNames
from ohmo.codeintel.words import WORD, Definition, Symbol, occurrences

Stamp = tuple[int, int]  # st_mtime_ns, st_size
SourceFile = PythonFile | TreeFile
Outline = tuple[tuple[Symbol, ...], str]  # and what could not be read
T = TypeVar("T")
_KEPT = 4 << 20  # characters of source whose trees stay in memory
_OUTLINES = 5_000  # files of which only what they declare does


@record
class Reading:
    """``stamp`` and ``read`` of a path; both raise OSError, ``read`` also Unreadable."""

    stamp: Callable[[str], Stamp]
    read: Callable[[str], bytes]


class Sources:
    """What was read of files, for all workspaces."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._trees: Recent[str, tuple[Stamp, SourceFile]] = Recent(_OUTLINES)
        self._outlines: Recent[str, tuple[Stamp, Outline]] = Recent(_OUTLINES)

    def text(self, path: str) -> str:
        """Raises OSError, Unreadable."""
        known = self._trees.get(path)
        if known is not None and known[0] == self._reading.stamp(path):
            return known[1].text
        return decoded(self._reading.read(path))[0]

    def file(self, path: str) -> SourceFile:
        """Raises OSError, Unreadable."""
        if not path.endswith(SUFFIXES):
            raise Unreadable("is no source code of a known language; Grep finds lines in it")
        stamp = self._reading.stamp(path)
        known = self._trees.get(path)
        if known is None or known[0] != stamp:
            data = self._reading.read(path)
            python = path.endswith(PYTHON)
            known = stamp, PythonFile(path, data) if python else _tree_file(path, data)
            self._trees[path] = known
            while len(self._trees) > 1 and sum(map(_size, self._trees.values())) > _KEPT:
                self._trees.popitem(last=False)
        self._trees[path] = known
        return known[1]

    def outline(self, path: str) -> Outline:
        """Raises OSError, Unreadable."""
        stamp = self._reading.stamp(path)
        known = self._outlines.get(path)
        if known is None or known[0] != stamp:
            file = self.file(path)
            known = self._outlines[path] = stamp, (file.symbols, file.problem)
        return known[1]


def _size(kept: tuple[Stamp, SourceFile]) -> int:
    return len(kept[1].text)


def _tree_file(path: str, data: bytes) -> TreeFile:
    grammar = BY_SUFFIX[path[path.rindex(".") :]]
    try:
        package = importlib.import_module(f"tree_sitter_{grammar.name.lower()}")
    except ImportError as error:
        raise Unreadable(f"is {grammar.name}, whose grammar is not there: {INSTALL}") from error
    function = "language"
    if grammar.name == "TypeScript":
        function = "language_tsx" if path.endswith(".tsx") else "language_typescript"
    capsule: object = getattr(package, function)()
    return TreeFile(path, data, grammar, Parser(Language(capsule)))


@record
class Use:
    """A place where a name is used."""

    path: str
    line: int
    text: str
    note: str = ""


class Workspace:
    """``paths``: the files that may be read, absolute and resolved. ``seconds``: what one question
    may take. ``unread`` collects what could not be read, ``late`` says when time ran out."""

    def __init__(
        self, root: str, paths: Iterable[str], sources: Sources, seconds: float = 20.0
    ) -> None:
        self.paths = dict.fromkeys(path for path in paths if path.endswith(SUFFIXES))
        self._sources = sources
        self._deadline = time.monotonic() + seconds
        self.unread: dict[str, str] = {}
        self.late = ""
        modules = PythonModules(root, self.paths.keys())
        self._python = PythonNames(modules, lambda path: self._load(PythonFile, path))
        self._trees = TreeNames(
            root, self.paths.keys(), lambda path: self._load(TreeFile, path), self.named
        )

    def file(self, path: str) -> SourceFile:
        """Raises OSError, Unreadable."""
        file = self._sources.file(path)
        if file.problem:
            self.unread[path] = file.problem
        return file

    def document(self, path: str) -> tuple[Symbol, ...]:
        """Raises OSError, Unreadable."""
        symbols, problem = self._sources.outline(path)
        if problem:
            self.unread[path] = problem
        return symbols

    def _tried(self, read: Callable[[str], T], path: str) -> T | None:
        """None where it cannot be read, which is noted."""
        try:
            return read(path)
        except (OSError, Unreadable) as error:
            self.unread[path] = getattr(error, "strerror", None) or str(error)
            return None

    def _load(self, kind: type[T], path: str) -> T | None:
        file = self._tried(self.file, path) if path in self.paths else None
        return file if isinstance(file, kind) else None

    def _each(self, suffixes: tuple[str, ...], words: set[str]) -> Iterator[tuple[str, str]]:
        """Paths and texts of the files that hold one of the words, as long as there is time."""
        for index, path in enumerate(self.paths):
            if time.monotonic() > self._deadline:
                self.late = f"looked at {index} of {len(self.paths)} files, there was no more time"
                return
            if path.endswith(suffixes):
                text = self._tried(self._sources.text, path) or "" if words else ""
                if not words or any(word in text for word in words):
                    yield path, text

    def search(self, query: str) -> list[Symbol]:
        """Those whose dotted name holds the words, the likeliest first."""
        wanted = query.casefold()
        last = wanted.rpartition(".")[2]

        def rank(one: Symbol) -> tuple[bool, bool, bool, str, int]:
            name = one.name.casefold()
            first = one.name != query, name != last, not name.startswith(last)
            return *first, one.path, one.line

        found: list[Symbol] = []
        for path, _ in self._each(SUFFIXES, set()):
            every = self._tried(self.document, path) or ()
            found += [one for one in every if last in one.name.casefold()]
        return sorted((one for one in found if wanted in one.dotted.casefold()), key=rank)

    def named(self, name: str, suffixes: tuple[str, ...] = SUFFIXES) -> list[Symbol]:
        """Exactly so; ``A.b`` is b in A."""
        return [
            one
            for path, _ in self._each(suffixes, {name.rpartition(".")[2]})
            for one in self._tried(self.document, path) or ()
            if is_called(one, name)
        ]

    def word_at(
        self, path: str, line: int, column: int | None, name: str
    ) -> tuple[str, int] | None:
        """The word and its column, in characters from 0. Raises OSError, Unreadable."""
        lines = self.file(path).lines
        last = name.rpartition(".")[2]
        for match in WORD.finditer(lines[line - 1] if line <= len(lines) else ""):
            here = column is None or match.start() <= column - 1 <= match.end()
            if here and match[0] == (last or match[0]):
                return match[0], match.start()
        return None

    def definition(self, path: str, line: int, column: int, word: str) -> Definition | None:
        """Raises OSError, Unreadable."""
        file = self.file(path)
        try:
            if isinstance(file, PythonFile):
                return self._python.definition(file, line, column, word)
            return self._trees.definition(file, line, column, word)
        except RecursionError:
            self.unread[path] = "is nested too deep to be read"
            return None

    def references(self, wanted: Definition) -> Iterator[Use]:
        """Where the same thing is meant, whatever it is called there; last, marked, where only the
        name is the same."""
        names = {one.name for one in wanted.symbols}
        suffixes = suffixes_of(wanted.symbols[0].path)
        ored = "|".join(map(re.escape, names))
        renamed = re.compile(rf"\b(?:{ored})\s+as\s+(\w+)")
        for _, text in self._each(suffixes, set(names)):
            names.update(renamed.findall(text))
        unsure: list[Use] = []
        bound = {(one.path, one.line) for one in wanted.symbols}
        for path, text in self._each(suffixes, names):
            file = self._tried(self.file, path)
            for name in names if file is not None else ():
                for line, column in occurrences(text, name):
                    found = self.definition(path, line, column, name)
                    if found is None or file is None:
                        continue
                    use = Use(path, line, file.lines[line - 1], found.note)
                    if found.key == wanted.key:
                        yield Use(path, line, use.text)
                    elif found.key[0] == "by name":
                        places = {(one.path, one.line) for one in found.symbols}
                        unsure += [use] if bound & places else []
        yield from unsure


def suffixes_of(path: str) -> tuple[str, ...]:
    """Of the files that may use what a file binds."""
    if path.endswith(PYTHON):
        return PYTHON
    name = BY_SUFFIX[path[path.rindex(".") :]].name
    alike = ("JavaScript", "TypeScript") if name.endswith("Script") else (name,)
    return tuple(suffix for suffix, grammar in BY_SUFFIX.items() if grammar.name in alike)


def is_called(symbol: Symbol, name: str) -> bool:
    return f".{symbol.dotted}".endswith(f".{name}")
