"""The scopes of Python: what is bound in each, and what methods give to ``self``."""

from __future__ import annotations

import ast
import bisect
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from channels.record import record

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
NAMED = (*FUNCTIONS, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BLOCKS = ("finalbody", "orelse", "handlers", "body", "cases")
_WITH_BLOCKS = frozenset(
    (
        *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar),
        *(ast.ExceptHandler, ast.Match, ast.match_case),
    )
)


@record
class Binding:
    """``value`` and ``annotation`` are read in ``scope``."""

    name: str
    kind: str
    node: ast.AST
    scope: Scope
    value: ast.expr | None = None
    annotation: ast.expr | None = None
    statement: ast.Import | ast.ImportFrom | None = None  # of an import


class Scope:
    """A module, class, function, lambda or comprehension, and what is bound directly in it."""

    def __init__(
        self, path: str, node: ast.AST, outer: Scope | None, walruses: Sequence[int]
    ) -> None:
        self.path = path
        self.node = node
        self.outer = outer
        self.is_class = isinstance(node, ast.ClassDef)
        self.bindings: dict[str, list[Binding]] = {}
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.stars: list[ast.ImportFrom] = []
        self._walrus_lines = walruses
        self._inner: dict[int, Scope] = {}
        self._collect()
        for name in self.nonlocals:
            self.bindings.pop(name, None)
        #: What it binds in the module, by ``global``.
        self.given_up = {name: self.bindings.pop(name, []) for name in self.globals}

    def inner(self, node: ast.AST) -> Scope:
        """The scope that a node opens directly in this one."""
        if id(node) not in self._inner:
            self._inner[id(node)] = Scope(self.path, node, self, self._walrus_lines)
        return self._inner[id(node)]

    @property
    def key(self) -> tuple[int, int]:
        return getattr(self.node, "lineno", 0), getattr(self.node, "col_offset", 0)

    def bind(
        self,
        name: str | None,
        kind: str,
        node: ast.AST,
        value: ast.expr | None = None,
        annotation: ast.expr | None = None,
        statement: ast.Import | ast.ImportFrom | None = None,
    ) -> None:
        if name is not None:
            binding = Binding(name, kind, node, self, value, annotation, statement)
            self.bindings.setdefault(name, []).append(binding)

    def _collect(self) -> None:
        node = self.node
        if isinstance(node, COMPREHENSIONS):
            for generator in node.generators:
                self._targets(generator.target)
            return
        if isinstance(node, (*FUNCTIONS, ast.Lambda)):
            args = node.args
            every = [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]
            for arg in filter(None, every):
                starred = arg is args.vararg or arg is args.kwarg
                annotation = None if starred else arg.annotation
                self.bind(arg.arg, "parameter", arg, annotation=annotation)
        if isinstance(node, ast.Lambda):
            self._walruses(node.body)
            return
        assert isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS))
        for statement in statements(node.body):
            self._statement(statement)
            if self._walrus_lines and self.may_hold_walrus(statement):
                self._walruses(statement)

    def _statement(self, node: ast.AST) -> None:
        if isinstance(node, (ast.Expr, ast.AnnAssign, ast.Assign)):
            pass  # most are
        elif isinstance(node, FUNCTIONS):
            self.bind(node.name, "method" if self.is_class else "function", node)
        elif isinstance(node, ast.ClassDef):
            self.bind(node.name, "class", node)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node)
        elif isinstance(node, ast.ExceptHandler):
            self.bind(node.name, "variable", node)
        elif isinstance(node, ast.match_case):
            for each in ast.walk(node.pattern):
                if isinstance(each, (ast.MatchAs, ast.MatchStar)):
                    self.bind(each.name, "variable", each)
                elif isinstance(each, ast.MatchMapping):
                    self.bind(each.rest, "variable", each)
        elif isinstance(node, ast.Global):
            self.globals.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            self.nonlocals.update(node.names)
        for target, value, annotation in assigned(node):
            self._targets(target, value, annotation)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name != "*":
                name = alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name
                self.bind(alias.asname or name, "import", alias, statement=node)
            elif isinstance(node, ast.ImportFrom):
                self.stars.append(node)

    def _targets(
        self, target: ast.expr, value: ast.expr | None = None, annotation: ast.expr | None = None
    ) -> None:
        if isinstance(target, ast.Name):
            self.bind(target.id, "variable", target, value, annotation)
            return
        for name in bound_in(target):
            if isinstance(name, ast.Name):
                self.bind(name.id, "variable", name, None, annotation)

    def may_hold_walrus(self, node: ast.AST) -> bool:
        """Perhaps, in what of it belongs to this scope."""
        first: int = getattr(node, "lineno", 0)
        last: int = getattr(node, "end_lineno", None) or self._walrus_lines[-1]
        if isinstance(node, NAMED):
            last = node.body[0].lineno
            first = node.decorator_list[0].lineno if node.decorator_list else first
        index = bisect.bisect_left(self._walrus_lines, first)
        return index < len(self._walrus_lines) and self._walrus_lines[index] <= last

    def _walruses(self, top: ast.AST) -> None:
        """``:=`` binds beside a comprehension, not in it; in a lambda of its own."""
        open_ = [top]
        while open_:
            node = open_.pop()
            if isinstance(node, ast.NamedExpr):
                self._targets(node.target, node.value)
            below: Iterable[ast.AST] = ast.iter_child_nodes(node)
            if isinstance(node, ast.Lambda):
                below = [node.args]
            inner = (ast.stmt, ast.ExceptHandler, ast.match_case)
            open_.extend(each for each in below if not isinstance(each, inner))

    @cached_property
    def attributes(self) -> dict[str, list[Binding]]:
        """Of a class: what its body binds, and what its methods give to ``self``."""
        found = {name: list(bindings) for name, bindings in self.bindings.items()}
        assert isinstance(self.node, ast.ClassDef)
        for method in statements(self.node.body):
            first = receiver_of(method)
            if not isinstance(method, FUNCTIONS) or first is None:
                continue
            scope = self.inner(method)
            for statement in statements(method.body):
                for target, value, annotation in assigned(statement):
                    for each in bound_in(target):
                        if (
                            isinstance(each, ast.Attribute)
                            and isinstance(each.value, ast.Name)
                            and each.value.id == first
                        ):
                            alone = value if each is target else None
                            binding = Binding(
                                each.attr, "attribute", each, scope, alone, annotation
                            )
                            found.setdefault(each.attr, []).append(binding)
        return found


def statements(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Those of one scope, in their order; what opens a scope is not entered."""
    open_ = list(reversed(body))
    while open_:
        node = open_.pop()
        yield node
        if type(node) in _WITH_BLOCKS:
            for block in _BLOCKS:
                inner: Sequence[ast.AST] = getattr(node, block, ())
                open_.extend(reversed(inner))


def bound_in(target: ast.expr) -> Iterator[ast.expr]:
    """Names and attributes an assignment binds."""
    if isinstance(target, (ast.Name, ast.Attribute)):
        yield target
        return
    open_ = [target]
    while open_:
        node = open_.pop()
        if isinstance(node, (ast.Tuple, ast.List)):
            open_.extend(reversed(node.elts))
        elif isinstance(node, ast.Starred):
            open_.append(node.value)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            yield node


def assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None, ast.expr | None]]:
    """Targets of a statement, each with its value and annotation."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield target, node.value, None
    elif isinstance(node, ast.AnnAssign):
        yield node.target, node.value, node.annotation
    elif isinstance(node, (ast.AugAssign, ast.For, ast.AsyncFor)):
        yield node.target, None, None
    elif isinstance(node, ast.Delete):
        yield from ((target, None, None) for target in node.targets)
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        for item in node.items:
            if item.optional_vars is not None:
                yield item.optional_vars, None, None


def decorated_with(node: ast.AST, names: Iterable[str]) -> bool:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return any(isinstance(one, ast.Name) and one.id in names for one in decorators)


def receiver_of(method: ast.AST) -> str | None:
    """The name of ``self`` or ``cls``, None where there is none."""
    if not isinstance(method, FUNCTIONS) or decorated_with(method, ("staticmethod",)):
        return None
    every = [*method.args.posonlyargs, *method.args.args]
    return every[0].arg if every else None


def container_of(scope: Scope) -> str:
    names: list[str] = []
    here: Scope | None = scope
    while here is not None:
        name = getattr(here.node, "name", None)
        names += [name] if name is not None else []
        here = here.outer
    return ".".join(reversed(names))


def is_bound(bindings: Sequence[Binding], use: ast.Name) -> bool:
    """Whether one of them comes before a place in the same body."""
    if not isinstance(use.ctx, ast.Load):
        return True
    at = use.lineno, use.col_offset
    for one in bindings:
        after = one.value or one.node  # what is assigned is read first
        place = (getattr(one.node, "lineno", 0), getattr(one.node, "col_offset", 0))
        ends = getattr(after, "end_lineno", 0), getattr(after, "end_col_offset", 0)
        if at >= (ends if one.value is not None else place):
            return True
    return False
