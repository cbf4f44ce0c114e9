"""One Python file: its tree (also of a file with errors in it), its scopes as Python has them, and
which node stands at a place."""

from __future__ import annotations

import ast
import bisect
import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from ohmo.codeintel.python_scopes import COMPREHENSIONS, NAMED, Binding, Scope, end_of, start_of
from ohmo.codeintel.reading import SourceText, parsed
from ohmo.codeintel.words import Position, Symbol, on_one_line

Step = tuple[ast.AST, str]  # a node, and the field of the one above in which it stands
_BEFORE_NAME = re.compile(r"\b(?:def|class|as)\s+")
_REST = re.compile(r"\*\*\s*")
_FAR = re.compile(r":=|\bglobal\b")  # bind in another scope than they stand in
_COMMENT = re.compile(r"(?:^|\s)#[^\n]*")


class PythonFile(SourceText):
    """Raises Unreadable."""

    def __init__(self, path: str, data: bytes) -> None:
        super().__init__(path, data)
        self.tree, wrong = parsed(self.text)
        self.problem = "; ".join(filter(None, (self.problem, wrong)))

    @cached_property
    def module(self) -> Scope:
        module = Scope(self.path, self.tree, None)
        far = ":=" in self.text or "global " in self.text
        for number, line in enumerate(self.lines, 1) if far else ():
            for match in _FAR.finditer(line) if ":=" in line or "global " in line else ():
                chain = self.chain((number, self.byte(number, match.start())))
                scope = self.innermost(chain, module)  # made now, it binds what is global
                while isinstance(scope.node, COMPREHENSIONS) and scope.outer is not None:
                    scope = scope.outer
                if isinstance(chain[-1][0], ast.NamedExpr):
                    scope.assign(chain[-1][0])
        return module

    def chain(self, at: Position, word: str = "") -> list[Step]:
        """From the module down to the smallest node at a place. ``word``: what stands there, for
        strings whose parts Python before 3.12 gives no places of their own."""
        chain: list[Step] = [(self.tree, "")]
        while (below := child_at(chain[-1][0], at)) is not None:
            chain.append(below)
            if isinstance(below[0], ast.JoinedStr):
                chain += inside(below[0], word, at) or inside(below[0], word, None)
                break
        return chain

    def innermost(self, chain: Sequence[Step], module: Scope | None = None) -> Scope:
        """The scope in which the last node of a chain is read."""
        scope = self.module if module is None else module
        for index, (node, _) in enumerate(chain[:-1]):
            child, field = chain[index + 1]
            enters = field == "body" and isinstance(node, (*NAMED, ast.Lambda))
            if isinstance(node, COMPREHENSIONS):  # its first iterator is read outside of it
                outside = child is node.generators[0] and chain[index + 2 : index + 3]
                enters = not outside or outside[0][1] != "iter"
            if enters:
                scope = scope.inner(node)
        return scope

    def place(self, binding: Binding) -> Position:
        """Where the name itself stands, in bytes."""
        node = binding.node
        line, column = start_of(node)
        if isinstance(node, (*NAMED, ast.ExceptHandler, ast.MatchMapping)):
            before = _REST if isinstance(node, ast.MatchMapping) else _BEFORE_NAME
            match = before.search(self.lines[line - 1], self.character(line, column))
            return line, column if match is None else self.byte(line, match.end())
        asname = getattr(node, "asname", None)
        if asname is not None or isinstance(node, (ast.Attribute, ast.MatchAs, ast.MatchStar)):
            line, column = end_of(node)
            return line, column - len(binding.name.encode())
        return line, column

    def head(self, node: ast.AST) -> str:
        """``def f(a: int) -> str`` or ``class A(B)``; of anything else its first line."""
        line, column = start_of(node)
        start = self.character(line, column)
        if not isinstance(node, NAMED):
            return on_one_line(self.lines[line - 1], 120)
        end, column = _start(node.body[0])
        rows = [*self.lines[line - 1 : end - 1], self.lines[end - 1][: self.character(end, column)]]
        text = "\n".join(rows)[start:]
        text = _COMMENT.sub("", text) if "#" in text else text
        return on_one_line(text.rstrip(" \t\n@:"))  # @: of a decorator behind it

    def symbol(self, binding: Binding, container: str = "", *, doc: bool = False) -> Symbol:
        node = binding.node
        line, byte = self.place(binding)
        column = self.character(line, byte) + 1
        words = (ast.get_docstring(node) or "") if doc and isinstance(node, NAMED) else ""
        text = self.head(node)
        first = words.partition("\n\n")[0]
        end, _ = end_of(node)
        return Symbol(
            binding.name, binding.kind, self.path, line, column, end, container, text, first
        )

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """What module and classes bind, in the order of the file."""
        found: list[Symbol] = []
        open_ = [self.module]
        while open_:
            scope = open_.pop()
            for bindings in scope.bindings.values():
                shown = bindings if isinstance(bindings[0].node, NAMED) else bindings[:1]
                for one in shown:
                    if one.kind != "import":
                        found.append(self.symbol(one, scope.dotted))
                    if isinstance(one.node, ast.ClassDef):
                        open_.append(one.scope.inner(one.node))
        return tuple(sorted(found, key=lambda one: (one.line, one.column)))


def _children(node: ast.AST) -> Iterator[Step]:
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield value, field
        elif isinstance(value, list):
            for each in value:  # pyright: ignore[reportUnknownVariableType] - a list of the tree
                if isinstance(each, ast.AST):
                    yield each, field


def child_at(node: ast.AST, at: Position) -> Step | None:
    body: list[ast.AST] | ast.AST | None = getattr(node, "body", None)
    if isinstance(body, list):  # found by halves: files are long
        index = bisect.bisect_right(body, at, key=_start) - 1
        if index >= 0 and _holds(body[index], at):
            return body[index], "body"
    return next((step for step in _children(node) if _holds(step[0], at)), None)


def _holds(node: ast.AST, at: Position) -> bool:
    if not hasattr(node, "end_lineno"):  # arguments, comprehensions and cases have no place
        return child_at(node, at) is not None
    return _start(node) <= at < end_of(node)


def _start(node: ast.AST) -> Position:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return start_of(decorators[0] if decorators else node)


def inside(node: ast.AST, word: str, at: Position | None) -> list[Step]:
    """The way down to the first node that names a word, there or (None) anywhere."""
    for step in _children(node):
        line, column = end_of(step[0])
        named = word in (getattr(step[0], "id", ""), getattr(step[0], "attr", ""))
        if named and at in (None, (line, column - len(word.encode()))):
            return [step]
        way = inside(step[0], word, at)
        if way:
            return [step, *way]
    return []
