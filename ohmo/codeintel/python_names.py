"""What a name of Python means: by its scopes, by imports inside the workspace, and as an attribute
where it is sure whose. What is not sure is not answered."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Literal

from channels.record import record
from ohmo.codeintel.python_file import PythonFile, Step
from ohmo.codeintel.python_modules import PythonModules
from ohmo.codeintel.python_scopes import (
    FUNCTIONS,
    Binding,
    Scope,
    decorated_with,
    is_bound,
    receiver_of,
    start_of,
)
from ohmo.codeintel.reading import expression_of
from ohmo.codeintel.words import Definition, Symbol, on_one_line

_DEEPEST = 120  # names followed for one answer
_FROM = re.compile(r"from\s+([.\w]+)$")


@record
class Found:
    """A name in the scope that binds it."""

    name: str
    scope: Scope
    bindings: tuple[Binding, ...]


@record
class Value:
    """What an expression is. ``scope``: of a class or a function its own."""

    kind: Literal["module", "class", "instance", "function", "outside"]
    path: str = ""  # of a module
    dotted: str = ""  # outside of the workspace: what it is imported as
    scope: Scope | None = None


Thing = Found | Value


class PythonNames:
    """``load``: a file of the workspace, None where it cannot be read."""

    def __init__(self, modules: PythonModules, load: Callable[[str], PythonFile | None]) -> None:
        self._modules = modules
        self._load = load
        self._left = _DEEPEST
        self._asked: set[tuple[str, str]] = set()  # files and names, on the way

    def definition(self, file: PythonFile, line: int, column: int, word: str) -> Definition | None:
        """Of the word at a place, which counts lines from 1 and characters from 0."""
        self._left = _DEEPEST
        thing = self._at(file, line, column, word)
        if thing is None:
            return None
        if isinstance(thing, Found):
            source = self._load(thing.scope.path) or file
            container = thing.scope.dotted
            symbols = tuple(source.symbol(one, container, doc=True) for one in thing.bindings)
            return Definition((thing.scope.path, *start_of(thing.scope.node), thing.name), symbols)
        if thing.kind == "module":
            module = Symbol(thing.path.rpartition("/")[2], "module", thing.path, 1, 1, 1)
            return Definition(("module", thing.path), (module,))
        text = on_one_line(file.lines[line - 1])
        name = thing.dotted.rpartition(".")[2]
        here = Symbol(name, "import", file.path, line, column + 1, line, text=text)
        return Definition(
            ("outside", thing.dotted), (here,), f"{thing.dotted} is outside of the workspace"
        )

    def _at(self, file: PythonFile, line: int, column: int, word: str) -> Thing | None:
        at = line, file.byte(line, column)
        chain = file.chain(at, word)
        node, _ = chain[-1]
        scope = file.innermost(chain)
        if isinstance(node, ast.Name):
            return self._lookup(scope, node.id, node) if node.id == word else None
        if isinstance(node, ast.Attribute):
            return self._member(self._infer(node.value, scope), word)
        if isinstance(node, ast.arg):
            outer = next((one for one, _ in chain[-3::-1] if hasattr(one, "args")), None)
            return None if outer is None else self._lookup(scope.inner(outer), word)
        if isinstance(node, (ast.alias, ast.ImportFrom)):
            return self.imported_at(file, chain, file.lines[line - 1][: column + len(word)])
        if isinstance(node, ast.keyword):
            call = chain[-2][0]
            if isinstance(call, ast.Call) and at == start_of(node):
                return self._parameter(self._infer(call.func, scope), word)
            return None
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            return self._lookup(scope, word)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            written = expression_of(node.value)
            if written is None or not any(each in ("annotation", "returns") for _, each in chain):
                return None
            named = {one.id for one in ast.walk(written) if isinstance(one, ast.Name)}
            return self._lookup(scope, word) if word in named else None
        holder = scope.module if word in scope.globals else scope
        for binding in holder.bindings.get(word, ()):
            if binding.node is node and file.place(binding) == at:
                return self._lookup(scope, word)
        return None

    def imported_at(self, file: PythonFile, chain: Sequence[Step], text: str) -> Thing | None:
        """``text``: the line up to the end of what is asked about."""
        statement, node = chain[-2][0], chain[-1][0]
        own = text[file.character(*start_of(node)) :]
        if isinstance(node, ast.ImportFrom):
            match = _FROM.match(own)
            return None if match is None else self._module(match[1], file.path)
        assert isinstance(node, ast.alias)
        if isinstance(statement, ast.ImportFrom):
            return self._imported(file.path, statement, node)
        return self._module(node.name if " as " in own else own, file.path)

    def _lookup(self, scope: Scope, name: str, use: ast.Name | None = None) -> Thing | None:
        """As Python looks a name up: classes are seen from their own body only, and there not
        before it binds the name."""
        here: Scope | None = scope.module if name in scope.globals else scope
        while here is not None:
            own = here.bindings.get(name, ())
            seen = not here.is_class or (here is scope and (use is None or is_bound(own, use)))
            if own and seen:
                return self._followed(Found(name, here, tuple(own)))
            here = scope.module if here.outer and name in here.outer.globals else here.outer
        return self._from_stars(scope.module, name)

    def _from_stars(self, module: Scope, name: str) -> Thing | None:
        if (module.path, name) in self._asked:  # files that take each other's names
            return None
        self._asked.add((module.path, name))
        found: Thing | None = None
        for statement in reversed(module.stars):
            file = self._load(self._source(statement, module.path).path)
            if found is None and file is not None and is_exported(file.module, name):
                found = self._lookup(file.module, name)
        self._asked.discard((module.path, name))
        return found

    def _followed(self, found: Found) -> Thing:
        """Through imports to what is imported."""
        kinds = {binding.kind for binding in found.bindings}
        if "import" not in kinds or kinds & {"class", "function", "method"}:
            return found
        things: list[Thing | None] = [
            self._imported(found.scope.path, one.statement, one.node)
            for one in found.bindings
            if isinstance(one.node, ast.alias)
        ]
        known = sorted(filter(None, things), key=is_outside)
        return known[0] if known else found

    def _imported(self, path: str, node: ast.stmt | None, alias: ast.alias) -> Thing | None:
        if not isinstance(node, ast.ImportFrom):
            return self._module(alias.name if alias.asname else alias.name.partition(".")[0], path)
        source = self._source(node, path)
        if source.path == path:  # a package that imports what lies in it
            below = self._modules.below(path, alias.name)
            if below is not None:
                return Value("module", path=below)
        return self._member(source, alias.name)

    def _source(self, node: ast.ImportFrom, path: str) -> Value:
        return self._module(f"{'.' * node.level}{node.module or ''}", path)

    def _module(self, dotted: str, path: str) -> Value:
        found = self._modules.find(dotted, path)
        if found is None:
            return Value("outside", dotted=dotted)
        return Value("module", path=found)

    def _member(self, value: Value | None, name: str) -> Thing | None:
        if value is None or self._left <= 0:
            return None
        self._left -= 1
        if value.kind == "outside":
            return Value("outside", dotted=f"{value.dotted}.{name}")
        if value.kind == "module":
            file = self._load(value.path)
            found = self._lookup(file.module, name) if file is not None else None
            if found is not None:
                return found
            below = self._modules.below(value.path, name)
            return None if below is None else Value("module", path=below)
        if value.kind == "function" or value.scope is None:
            return None
        private = name.startswith("__") and not name.endswith("__")
        for scope in self.classes(value.scope):
            if scope is None or (private and scope is not value.scope):
                return None
            bindings = scope.attributes.get(name)
            if bindings:
                return self._followed(Found(name, scope, tuple(bindings)))
        return None

    def classes(self, scope: Scope) -> list[Scope | None]:
        """A class and those it comes from, in the order in which Python asks them; None: one that
        is not known, so that nothing behind it is sure."""
        order: list[Scope | None] = []
        open_: list[Scope | None] = [scope]
        while open_ and len(order) < _DEEPEST:
            one = open_.pop()
            if one in order and one is not None:
                order.remove(one)  # a shared one comes after all that come from it
            order.append(one)
            if one is not None:
                open_.extend([self._class(base, one) for base in one.bases][::-1])
        return order

    def _class(self, base: ast.expr, scope: Scope) -> Scope | None:
        """One that a class comes from."""
        node = base.value if isinstance(base, ast.Subscript) else base
        value = self._infer(node, scope.outer or scope)
        return value.scope if value is not None and value.kind == "class" else None

    def _parameter(self, value: Value | None, name: str) -> Thing | None:
        """Of what is called."""
        if value is None or value.scope is None:
            return None
        if value.kind == "function":
            own = value.scope.bindings.get(name, ())
            takes = any(one.kind == "parameter" for one in own)
            return Found(name, value.scope, tuple(own)) if takes else None
        if value.kind != "class":
            return None
        made = self._value(self._member(Value("instance", scope=value.scope), "__init__"))
        if made is not None:
            return self._parameter(made, name)
        field = self._member(value, name)  # of a data class
        annotated = isinstance(field, Found) and any(one.annotation for one in field.bindings)
        return field if annotated else None

    def _value(self, thing: Thing | None) -> Value | None:
        """What is sure about a name: also its bindings must agree."""
        if thing is None or isinstance(thing, Value):
            return thing
        last = thing.bindings[-1]
        if isinstance(last.node, ast.ClassDef):
            return Value("class", scope=thing.scope.inner(last.node))
        if isinstance(last.node, FUNCTIONS):
            function = last.scope.inner(last.node)
            read = decorated_with(last.node, ("property", "cached_property"))
            return self._returned(function) if read else Value("function", scope=function)
        alone = len(thing.bindings) == 1
        outer = thing.scope.outer
        method = thing.scope.node
        if alone and outer is not None and outer.is_class and receiver_of(method) == thing.name:
            by_class = decorated_with(method, ("classmethod",))
            return Value("class" if by_class else "instance", scope=outer)
        for one in thing.bindings:
            if one.annotation is not None:
                above = one.scope.outer if one.kind == "parameter" else None
                return self._annotated(one.annotation, above or one.scope)
        return self._infer(last.value, last.scope) if alone and last.value is not None else None

    def _annotated(self, node: ast.expr | None, scope: Scope) -> Value | None:
        """An instance of what an annotation names; ``X | None`` is X."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = expression_of(node.value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            sides = [one for one in (node.left, node.right) if ast.unparse(one) != "None"]
            return self._annotated(sides[0], scope) if len(sides) == 1 else None
        if isinstance(node, ast.Subscript):
            wraps = ast.unparse(node.value) in ("Optional", "Final", "ClassVar")
            return self._annotated(node.slice if wraps else node.value, scope)
        if isinstance(node, (ast.Name, ast.Attribute)):
            value = self._infer(node, scope)
            if value is not None and value.kind == "class":
                return Value("instance", scope=value.scope)
        return None

    def _infer(self, node: ast.expr, scope: Scope) -> Value | None:
        if self._left <= 0:
            return None
        self._left -= 1
        if isinstance(node, ast.Name):
            return self._value(self._lookup(scope, node.id))
        if isinstance(node, ast.Attribute):
            return self._value(self._member(self._infer(node.value, scope), node.attr))
        awaited = isinstance(node, ast.Await)
        call = node.value if isinstance(node, ast.Await) else node
        if not isinstance(call, ast.Call):
            return None
        if isinstance(call.func, ast.Name) and call.func.id == "super" and not call.args:
            return self.superclass(scope)
        value = self._infer(call.func, scope)
        if value is None or value.scope is None:
            return None
        if value.kind == "class":
            return Value("instance", scope=value.scope)
        is_async = isinstance(value.scope.node, ast.AsyncFunctionDef)
        return self._returned(value.scope) if is_async is awaited else None

    def _returned(self, function: Scope) -> Value | None:
        returns: ast.expr | None = getattr(function.node, "returns", None)
        return self._annotated(returns, function.outer or function)

    def superclass(self, scope: Scope) -> Value | None:
        """The next class, where there is one only."""
        here: Scope | None = scope
        while here is not None and not here.is_class:
            here = here.outer
        base = self._class(here.bases[0], here) if here and len(here.bases) == 1 else None
        return None if base is None else Value("instance", scope=base)


def is_outside(thing: Thing) -> bool:
    return isinstance(thing, Value) and thing.kind == "outside"


def is_exported(module: Scope, name: str) -> bool:
    """By ``import *``: what ``__all__`` lists; without such a list, what has no underscore."""
    listed = [each.value for each in module.bindings.get("__all__", ())]
    if not listed or not all(isinstance(one, (ast.List, ast.Tuple)) for one in listed):
        return not name.startswith("_")
    entries = (each for one in listed if one is not None for each in ast.iter_child_nodes(one))
    return any(isinstance(each, ast.Constant) and each.value == name for each in entries)
