"""One Python file: its tree (also of a file with errors in it), its scopes as Python has them, and
which node stands at a place."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from functools import cached_property

from ohmo.codeintel.python_scopes import COMPREHENSIONS, FUNCTIONS, NAMED, Binding, Scope
from ohmo.codeintel.reading import decoded, parsed
from ohmo.codeintel.words import Position, Symbol, on_one_line

Step = tuple[ast.AST, str]  # a node, and the field of the one above in which it stands
_AS = re.compile(r"\bas\s+")
_REST = re.compile(r"\*\*\s*")
_DEFINES = re.compile(r"\b(?:def|class)\s+")
_HEAD = re.compile(r"(?:[^:#]|#[^\n]*\n)*")


class PythonFile:
    """``problem``: what of it could not be read, empty: all was. Raises Unreadable."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.text, self.problem = decoded(data)
        self.tree, wrong = parsed(self.text)
        self.problem = "; ".join(filter(None, (self.problem, wrong)))

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def module(self) -> Scope:
        walruses: list[int] = []
        if ":=" in self.text:
            walruses = [number for number, line in enumerate(self.lines, 1) if ":=" in line]
        scope = Scope(self.path, self.tree, None, walruses)
        if "global " in self.text:  # bound here from inside of functions
            for node in ast.walk(self.tree):
                if isinstance(node, ast.Global):
                    inner = self.innermost(self.chain(_start(node)), scope)
                    for name in node.names:
                        found = inner.given_up.pop(name, [])
                        scope.bindings.setdefault(name, []).extend(found)
        return scope

    def at(self, line: int, column: int) -> Position:
        """A column in characters as trees count it, in bytes of UTF-8."""
        text = self.lines[line - 1]
        return line, column if text.isascii() else len(text[:column].encode())

    def characters(self, line: int, column: int) -> int:
        text = self.lines[line - 1]
        return column if text.isascii() else len(text.encode()[:column].decode(errors="ignore"))

    def chain(self, at: Position, word: str = "") -> list[Step]:
        """From the module down to the smallest node at a place. ``word``: what stands there, for
        strings whose parts Python before 3.12 gives no places of their own."""
        chain: list[Step] = [(self.tree, "")]
        while (below := child_at(chain[-1][0], at)) is not None:
            chain.append(below)
            if isinstance(below[0], ast.JoinedStr):
                chain += inside(below[0], lambda node: _names(node, word, at)) or inside(
                    below[0], lambda node: _names(node, word)
                )
                break
        return chain

    def innermost(self, chain: Sequence[Step], module: Scope | None = None) -> Scope:
        """The scope in which the last node of a chain is read."""
        scope = self.module if module is None else module
        for index, (node, _) in enumerate(chain[:-1]):
            fields = [field for _, field in chain[index + 1 : index + 3]]
            if opens(node, chain[index + 1][0], fields):
                scope = scope.inner(node)
        return scope

    def place(self, binding: Binding) -> Position:
        """Where the name itself stands, in bytes."""
        node = binding.node
        if isinstance(node, ast.Name):
            return node.lineno, node.col_offset
        line: int = getattr(node, "lineno", 1)
        column: int = getattr(node, "col_offset", 0)
        if isinstance(node, (*NAMED, ast.ExceptHandler, ast.MatchMapping)):
            rest = _REST if isinstance(node, ast.MatchMapping) else _DEFINES
            keyword = _AS if isinstance(node, ast.ExceptHandler) else rest
            match = keyword.search(self.lines[line - 1], self.characters(line, column))
            if match is not None:
                line, column = self.at(line, match.end())
            return line, column
        if isinstance(node, (ast.Attribute, ast.MatchAs, ast.MatchStar)):
            end = node.end_col_offset or 0
            return node.end_lineno or line, end - len(binding.name.encode())
        if isinstance(node, ast.alias) and node.asname is not None:
            return node.end_lineno or line, (node.end_col_offset or 0) - len(node.asname.encode())
        return line, column

    def head(self, node: ast.AST) -> str:
        """``def f(a: int) -> str`` or ``class A(B)``; of anything else its first line."""
        line: int = getattr(node, "lineno", 1)
        if not isinstance(node, NAMED):
            return on_one_line(self.lines[line - 1], 120)
        last = last_of_head(node)
        end_line = getattr(last, "end_lineno", line)
        end = getattr(last, "end_col_offset", node.col_offset)
        start = self.characters(line, node.col_offset)
        if end_line == line:
            text = self.lines[line - 1][start : self.characters(line, end)]
        else:
            between = self.lines[line : end_line - 1]
            whole = [self.lines[line - 1][start:], *between]
            whole.append(self.lines[end_line - 1][: self.characters(end_line, end)])
            text = "\n".join(whole)
        rest = "\n".join(self.lines[end_line - 1 : end_line + 20])
        match = _HEAD.match(rest, self.characters(end_line, end))
        text += match[0] if match is not None else ""
        return on_one_line(re.sub(r"\s#[^\n]*", "", text) if "#" in text else text)

    def symbol(self, binding: Binding, container: str = "", *, doc: bool = False) -> Symbol:
        line, column = self.place(binding)
        end: int = getattr(binding.node, "end_lineno", None) or line
        column = self.characters(line, column) + 1
        head = self.head(binding.node)
        words = ""
        if doc and isinstance(binding.node, NAMED):
            words = (ast.get_docstring(binding.node) or "").partition("\n\n")[0]
        return Symbol(
            binding.name, binding.kind, self.path, line, column, end, container, head, words
        )

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """What module and classes bind, in the order of the file."""
        found: list[Symbol] = []
        open_: list[tuple[Scope, str]] = [(self.module, "")]
        while open_:
            scope, container = open_.pop()
            for bindings in scope.bindings.values():
                first = bindings[0]
                shown = bindings if isinstance(first.node, NAMED) else bindings[:1]
                for binding in shown:
                    if binding.kind == "import":
                        continue
                    found.append(self.symbol(binding, container))
                    if isinstance(binding.node, ast.ClassDef):
                        open_.append((scope.inner(binding.node), found[-1].dotted))
        return tuple(sorted(found, key=lambda one: (one.line, one.column)))


def child_at(node: ast.AST, at: Position) -> Step | None:
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            if _holds(value, at):
                return value, field
        elif isinstance(value, list):
            for each in value:  # pyright: ignore[reportUnknownVariableType] - a list of the tree
                if isinstance(each, ast.AST) and _holds(each, at):
                    return each, field
    return None


def _holds(node: ast.AST, at: Position) -> bool:
    end: int | None = getattr(node, "end_lineno", None)
    if end is None:  # arguments, comprehensions and cases have no place of their own
        return child_at(node, at) is not None
    if at >= (end, getattr(node, "end_col_offset", 0)):
        return False
    start = _start(node)
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return at >= (min(start, _start(decorators[0])) if decorators else start)


def _start(node: ast.AST) -> Position:
    return getattr(node, "lineno", 1), getattr(node, "col_offset", 0)


def last_of_head(node: ast.AST) -> ast.AST:
    """What stands last before the colon of a class or function."""
    if isinstance(node, ast.ClassDef):
        parts: list[ast.AST | None] = [*node.bases, *node.keywords]
    else:
        assert isinstance(node, FUNCTIONS)
        args = node.args
        parts = [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]
        parts += [*args.defaults, *args.kw_defaults, node.returns]
    ends = [(_end(part), index) for index, part in enumerate(parts) if part is not None]
    last = parts[max(ends)[1]] if ends else None
    return last or ast.Pass(
        lineno=node.lineno, end_lineno=node.lineno, end_col_offset=node.col_offset
    )


def _end(node: ast.AST) -> Position:
    return getattr(node, "end_lineno", 1), getattr(node, "end_col_offset", 0)


def inside(node: ast.AST, wanted: Callable[[ast.AST], bool]) -> list[Step]:
    """The way down to the first node that is wanted, empty: there is none."""
    for field, value in ast.iter_fields(node):
        for each in ast.iter_child_nodes(node):
            if each is value or (isinstance(value, list) and each in value):
                if wanted(each):
                    return [(each, field)]
                way = inside(each, wanted)
                if way:
                    return [(each, field), *way]
    return []


def _names(node: ast.AST, word: str, at: Position | None = None) -> bool:
    if isinstance(node, ast.Name):
        return node.id == word and at in (None, _start(node))
    if isinstance(node, ast.Attribute):
        line, column = _end(node)
        return node.attr == word and at in (None, (line, column - len(word.encode())))
    return False


def opens(node: ast.AST, child: ast.AST, fields: Sequence[str]) -> bool:
    """Whether what stands below in ``fields`` is read in the scope of ``node``."""
    if isinstance(node, (*NAMED, ast.Lambda)):
        return fields[0] == "body"
    if isinstance(node, COMPREHENSIONS):  # its first iterator is read outside of it
        first = child is node.generators[0]
        return not (first and len(fields) > 1 and fields[1] == "iter")
    return False
