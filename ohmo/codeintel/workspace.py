"""Files of a workspace, read once for as long as they stay as they are, and what can be asked about
them."""

from __future__ import annotations

import importlib
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

from tree_sitter import Language, Parser

from channels.record import record
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


@record
class Reading:
    """``stamp`` and ``read`` of a path; both raise OSError, ``read`` also Unreadable."""

    stamp: Callable[[str], Stamp]
    read: Callable[[str], bytes]


@record
class Sizes:
    """``kept``: characters of source whose trees stay in memory; ``outlines``: files of which only
    what they declare does."""

    kept: int = 4 << 20
    outlines: int = 5_000


@record
class Outline:
    """What a file declares, and what of it could not be read."""

    symbols: tuple[Symbol, ...]
    problem: str


class Sources:
    """What was read of files, for all workspaces."""

    def __init__(self, reading: Reading, sizes: Sizes = Sizes()) -> None:  # noqa: B008 - frozen
        self._reading = reading
        self._sizes = sizes
        self._trees: OrderedDict[str, tuple[Stamp, SourceFile]] = OrderedDict()
        self._kept = 0
        self._outlines: OrderedDict[str, tuple[Stamp, Outline]] = OrderedDict()

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
        if known is not None:
            if known[0] == stamp:
                self._trees.move_to_end(path)
                return known[1]
            del self._trees[path]
            self._kept -= len(known[1].text)
        data = self._reading.read(path)
        file = PythonFile(path, data) if path.endswith(PYTHON) else _tree_file(path, data)
        self._trees[path] = stamp, file
        self._kept += len(file.text)
        while self._kept > self._sizes.kept and len(self._trees) > 1:
            _, (_, gone) = self._trees.popitem(last=False)
            self._kept -= len(gone.text)
        return file

    def outline(self, path: str) -> Outline:
        """Raises OSError, Unreadable."""
        stamp = self._reading.stamp(path)
        known = self._outlines.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        file = self.file(path)
        outline = Outline(file.symbols, file.problem)
        self._outlines[path] = stamp, outline
        if len(self._outlines) > self._sizes.outlines:
            self._outlines.popitem(last=False)
        return outline


def _tree_file(path: str, data: bytes) -> TreeFile:
    grammar = BY_SUFFIX[path[path.rindex(".") :]]
    try:
        package = importlib.import_module(grammar.package)
    except ImportError as error:
        raise Unreadable(f"is {grammar.name}, whose grammar is not there: {INSTALL}") from error
    text, _ = decoded(data)
    capsule: object = getattr(package, grammar.function)()
    return TreeFile(path, text, grammar, Parser(Language(capsule)))


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
        self._python = PythonNames(modules, self._load_python)
        self._trees = TreeNames(root, self.paths.keys(), self._load_tree, self.named)

    def file(self, path: str) -> SourceFile:
        """Raises OSError, Unreadable."""
        try:
            file = self._sources.file(path)
        except (OSError, Unreadable) as error:
            self._note(path, error)
            raise
        if file.problem:
            self.unread[path] = file.problem
        return file

    def _load_python(self, path: str) -> PythonFile | None:
        file = self._load(path)
        return file if isinstance(file, PythonFile) else None

    def _load_tree(self, path: str) -> TreeFile | None:
        file = self._load(path)
        return file if isinstance(file, TreeFile) else None

    def _load(self, path: str) -> SourceFile | None:
        if path not in self.paths:
            return None
        try:
            return self.file(path)
        except (OSError, Unreadable):
            return None

    def document(self, path: str) -> tuple[Symbol, ...]:
        """Raises OSError, Unreadable."""
        outline = self._sources.outline(path)
        if outline.problem:
            self.unread[path] = outline.problem
        return outline.symbols

    def _each(self, may: Callable[[str], bool] = lambda _: True) -> Iterator[str]:
        """The paths, as long as there is time."""
        for index, path in enumerate(self.paths):
            if time.monotonic() > self._deadline:
                self.late = f"looked at {index} of {len(self.paths)} files, there was no more time"
                return
            if may(path):
                yield path

    def _text(self, path: str) -> str:
        """Empty when it cannot be read, which is noted."""
        try:
            return self._sources.text(path)
        except (OSError, Unreadable) as error:
            self._note(path, error)
            return ""

    def _note(self, path: str, error: OSError | Unreadable) -> None:
        self.unread[path] = getattr(error, "strerror", None) or str(error)

    def symbols(self, may: Callable[[str], bool] = lambda _: True) -> Iterator[Symbol]:
        """Of every file that can be read."""
        for path in self._each(may):
            try:
                yield from self.document(path)
            except (OSError, Unreadable) as error:
                self._note(path, error)

    def search(self, query: str) -> list[Symbol]:
        """Those whose dotted name holds the words, the likeliest first."""
        wanted = query.casefold()
        last = wanted.rpartition(".")[2]
        found: list[tuple[int, str, int, Symbol]] = []
        for one in self.symbols():
            name = one.name.casefold()
            if last in name and wanted in one.dotted.casefold():
                rank = 0 if one.name == query else 1 if name == last else 2
                rank = rank if rank < 2 or name.startswith(last) else 3
                found.append((rank, one.path, one.line, one))
        return [one for *_, one in sorted(found, key=lambda each: each[:3])]

    def named(self, name: str, suffixes: tuple[str, ...] = SUFFIXES) -> list[Symbol]:
        """Exactly so; ``A.b`` is b in A."""
        last = name.rpartition(".")[2]
        symbols = self.symbols(lambda path: path.endswith(suffixes) and last in self._text(path))
        return [one for one in symbols if is_called(one, name)]

    def word_at(
        self, path: str, line: int, column: int | None, name: str
    ) -> tuple[str, int] | None:
        """The word and its column, in characters from 0. Raises OSError, Unreadable."""
        lines = self.file(path).text.split("\n")
        text = lines[line - 1] if 0 < line <= len(lines) else ""
        last = name.rpartition(".")[2]
        for match in WORD.finditer(text):
            if column is not None and match.start() <= column - 1 <= match.end():
                if not last or match[0] == last:
                    return match[0], match.start()
            elif column is None and match[0] == last:
                return last, match.start()
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
        names |= self.other_names(names)
        unsure: list[Use] = []
        languages = {_language(one.path) for one in wanted.symbols}
        for path in self._each(lambda path: _language(path) in languages):
            text = self._text(path)
            for name in names:
                if name not in text:
                    continue
                for line, column in occurrences(text, name):
                    use = self._use(wanted, path, line, column, name)
                    if use is not None and use.note:
                        unsure.append(use)
                    elif use is not None:
                        yield use
        yield from unsure

    def _use(self, wanted: Definition, path: str, line: int, column: int, name: str) -> Use | None:
        try:
            found = self.definition(path, line, column, name)
        except (OSError, Unreadable):
            return None
        if found is None:
            return None
        text = self.file(path).text.split("\n")[line - 1]
        if found.key == wanted.key:
            return Use(path, line, text)
        by_name = found.key[0] == "by name" and any(
            one.path == each.path and one.line == each.line
            for one in found.symbols
            for each in wanted.symbols
        )
        return Use(path, line, text, found.note) if by_name else None

    def other_names(self, names: set[str]) -> set[str]:
        """What ``import x as y`` calls them elsewhere."""
        ored = "|".join(map(re.escape, names))
        expression = re.compile(rf"\b(?:{ored})\s+as\s+(\w+)")
        found: set[str] = set()
        for path in self._each():
            found.update(expression.findall(self._text(path)))
        return found


def _language(path: str) -> str:
    if path.endswith(PYTHON):
        return "Python"
    name = BY_SUFFIX[path[path.rindex(".") :]].name
    return "JavaScript" if name == "TypeScript" else name


def is_called(symbol: Symbol, name: str) -> bool:
    return f".{symbol.dotted}".endswith(f".{name}")
