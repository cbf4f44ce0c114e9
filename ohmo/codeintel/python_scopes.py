"""The scopes of Python: what is bound in each, and what methods give to ``self``."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from channels.record import record
from ohmo.codeintel.words import Position

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
NAMED = (*FUNCTIONS, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BLOCKS = ("finalbody", "orelse", "handlers", "body", "cases")
_WITH_TARGET = (ast.NamedExpr, ast.AugAssign, ast.For, ast.AsyncFor, ast.comprehension)
Assigned = tuple[ast.Name | ast.Attribute, ast.expr | None, ast.expr | None]


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
    """A module, class, function, lambda or comprehension, and what is bound directly in it.
    ``:=`` is bound by the file, which knows where it stands."""

    def __init__(self, path: str, node: ast.AST, outer: Scope | None) -> None:
        self.path = path
        self.node = node
        self.outer = outer
        self.module: Scope = self if outer is None else outer.module
        self.is_class = isinstance(node, ast.ClassDef)
        self.bases: list[ast.expr] = getattr(node, "bases", [])
        names = (outer.dotted if outer is not None else "", getattr(node, "name", ""))
        self.dotted = ".".join(filter(None, names))
        self.bindings: dict[str, list[Binding]] = {}
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.stars: list[ast.ImportFrom] = []
        self._inner: dict[ast.AST, Scope] = {}
        if isinstance(node, COMPREHENSIONS):
            for generator in node.generators:
                self.assign(generator)
        if isinstance(node, (*FUNCTIONS, ast.Lambda)):
            args = node.args
            every = [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]
            for arg in filter(None, every):
                starred = arg is args.vararg or arg is args.kwarg
                annotation = None if starred else arg.annotation
                self.bind(Binding(arg.arg, "parameter", arg, self, None, annotation))
        if isinstance(node, (ast.Module, *NAMED)):
            for statement in statements(node.body):
                self._statement(statement)

    def inner(self, node: ast.AST) -> Scope:
        """The scope that a node opens directly in this one."""
        if node not in self._inner:
            self._inner[node] = Scope(self.path, node, self)
        return self._inner[node]

    def bind(self, binding: Binding) -> None:
        name = binding.name
        if name not in self.nonlocals:
            holder = self.module if name in self.globals else self
            every = holder.bindings.setdefault(name, [])
            every.append(binding)
            if len(every) > 1 and _rank(binding) < _rank(every[-2]):
                every.sort(key=_rank)

    def assign(self, node: ast.AST) -> None:
        for target, value, annotation in assigned(node):
            if isinstance(target, ast.Name):
                self.bind(Binding(target.id, "variable", target, self, value, annotation))

    def _statement(self, node: ast.AST) -> None:
        if isinstance(node, (ast.AnnAssign, ast.Assign)):  # most are
            self.assign(node)
        elif isinstance(node, FUNCTIONS):
            kind = "method" if self.is_class else "function"
            self.bind(Binding(node.name, kind, node, self))
        elif isinstance(node, ast.ClassDef):
            self.bind(Binding(node.name, "class", node, self))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                if isinstance(node, ast.ImportFrom) and alias.name == "*":
                    self.stars.append(node)
                else:
                    name = alias.asname or alias.name.partition(".")[0]
                    self.bind(Binding(name, "import", alias, self, statement=node))
        elif isinstance(node, ast.ExceptHandler) and node.name is not None:
            self.bind(Binding(node.name, "variable", node, self))
        elif isinstance(node, ast.match_case):
            for each in ast.walk(node.pattern):
                name = getattr(each, "rest" if isinstance(each, ast.MatchMapping) else "name", None)
                if name is not None:
                    self.bind(Binding(name, "variable", each, self))
        elif isinstance(node, ast.Global):
            self.globals.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            self.nonlocals.update(node.names)
        else:
            self.assign(node)

    @cached_property
    def attributes(self) -> dict[str, list[Binding]]:
        """Of a class: what its body binds, and what its methods give to ``self``."""
        found = {name: list(bindings) for name, bindings in self.bindings.items()}
        assert isinstance(self.node, ast.ClassDef)
        for method in statements(self.node.body):
            first = receiver_of(method)
            if not isinstance(method, FUNCTIONS) or first is None:
                continue
            for statement in statements(method.body):
                for to, value, annotation in assigned(statement):
                    of = to.value if isinstance(to, ast.Attribute) else None
                    if (
                        isinstance(to, ast.Attribute)
                        and isinstance(of, ast.Name)
                        and of.id == first
                    ):
                        scope = self.inner(method)
                        binding = Binding(to.attr, "attribute", to, scope, value, annotation)
                        found.setdefault(to.attr, []).append(binding)
        return found


def statements(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Those of one scope, in their order; what opens a scope is not entered."""
    open_ = list(reversed(body))
    while open_:
        node = open_.pop()
        yield node
        if not isinstance(node, NAMED) and (hasattr(node, "body") or isinstance(node, ast.Match)):
            for block in _BLOCKS:
                open_.extend(reversed(getattr(node, block, ())))


def assigned(node: ast.AST) -> Iterator[Assigned]:
    """Names and attributes that a node binds, each with its own value and its annotation."""
    value: ast.expr | None = None
    annotation: ast.expr | None = None
    targets: Sequence[ast.expr]
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
        value = node.value
        annotation = node.annotation
    elif isinstance(node, (ast.Assign, ast.Delete)):
        targets = node.targets
        value = getattr(node, "value", None)
    elif isinstance(node, _WITH_TARGET):
        targets = [node.target]
        value = node.value if isinstance(node, ast.NamedExpr) else None
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
    else:
        return
    open_ = list(reversed(targets))
    while open_:
        target = open_.pop()
        if isinstance(target, (ast.Name, ast.Attribute)):
            yield target, value if target in targets else None, annotation
        elif isinstance(target, (ast.Tuple, ast.List)):
            open_.extend(reversed(target.elts))
        elif isinstance(target, ast.Starred):
            open_.append(target.value)


def decorated_with(node: ast.AST, names: Iterable[str]) -> bool:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return any(isinstance(one, ast.Name) and one.id in names for one in decorators)


def receiver_of(method: ast.AST) -> str | None:
    """The name of ``self`` or ``cls``, None where there is none."""
    if not isinstance(method, FUNCTIONS) or decorated_with(method, ("staticmethod",)):
        return None
    every = [*method.args.posonlyargs, *method.args.args]
    return every[0].arg if every else None


def is_bound(bindings: Sequence[Binding], use: ast.Name) -> bool:
    """Whether one of them comes before a place in the same body; what is assigned is read first."""
    return not isinstance(use.ctx, ast.Load) or any(
        start_of(use) >= (start_of(one.node) if one.value is None else end_of(one.value))
        for one in bindings
    )


def start_of(node: ast.AST) -> Position:
    """Its line, and its column in bytes."""
    return getattr(node, "lineno", 1), getattr(node, "col_offset", 0)


def end_of(node: ast.AST) -> Position:
    return getattr(node, "end_lineno", 1), getattr(node, "end_col_offset", 0)


def _rank(binding: Binding) -> tuple[bool, Position]:
    """What a module binds itself comes before what functions bind in it."""
    return binding.scope.outer is not None, start_of(binding.node)
