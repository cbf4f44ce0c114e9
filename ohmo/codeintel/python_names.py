"""What a name of Python means: by its scopes, by imports inside the workspace, and as an attribute
where it is sure whose. What is not sure is not answered."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from channels.record import record
from ohmo.codeintel.python_file import PythonFile, Step
from ohmo.codeintel.python_modules import PythonModules
from ohmo.codeintel.python_scopes import (
    FUNCTIONS,
    Binding,
    Scope,
    container_of,
    decorated_with,
    is_bound,
    receiver_of,
)
from ohmo.codeintel.reading import expression_of, is_none, names_of
from ohmo.codeintel.words import Definition, Position, Symbol, on_one_line

_DEEPEST = 120  # names followed for one answer
_FROM = re.compile(r"\s*from\s+(\.*\s*[\w.]*)")


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
        thing = self._at(file, file.at(line, column), word)
        return None if thing is None else self.as_definition(thing, file, line, column)

    def _at(self, file: PythonFile, at: Position, word: str) -> Thing | None:
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
        if isinstance(node, ast.alias):
            return self.imported_as(file, chain, at, word)
        if isinstance(node, ast.ImportFrom):
            return self.module_named_at(file, node, at)
        if isinstance(node, ast.keyword):
            call = chain[-2][0]
            if isinstance(call, ast.Call) and at == (node.lineno, node.col_offset):
                return self._parameter(self._infer(call.func, scope), word)
            return None
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            return self._lookup(scope, word)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            annotates = any(field in ("annotation", "returns") for _, field in chain)
            named = annotates and word in names_of(expression_of(node.value))
            return self._lookup(scope, word) if named else None
        holder = file.module if word in scope.globals else scope
        for binding in holder.bindings.get(word, ()):
            if binding.node is node and file.place(binding) == at:
                return self._lookup(scope, word)
        return None

    def imported_as(
        self, file: PythonFile, chain: Sequence[Step], at: Position, word: str
    ) -> Thing | None:
        alias, statement = chain[-1][0], chain[-2][0]
        assert isinstance(alias, ast.alias)
        if isinstance(statement, ast.ImportFrom):
            return self._imported(file.path, statement, alias)
        line, column = at
        text = file.lines[line - 1].encode()[: column + len(word.encode())].decode()
        start = file.characters(alias.lineno, alias.col_offset)
        if alias.asname is not None and " as " in text[start:]:
            return self._module(alias.name, file.path)
        return self._module(text[start:].strip(), file.path)

    def module_named_at(self, file: PythonFile, node: ast.ImportFrom, at: Position) -> Thing | None:
        line, column = at
        match = _FROM.match(file.lines[line - 1], file.characters(line, node.col_offset))
        if line != node.lineno or match is None:
            return None
        text = file.lines[line - 1]
        here = file.characters(line, column)
        if not match.start(1) <= here < match.end(1):
            return None
        rest = re.compile(r"\w+").match(text, here)
        name = text[match.start(1) : rest.end() if rest is not None else here].replace(" ", "")
        return self._module(name, file.path)

    def _lookup(self, scope: Scope, name: str, use: ast.Name | None = None) -> Thing | None:
        """As Python looks a name up: classes are seen from their own body only, and there not
        before it binds the name."""
        here = scope
        while True:
            if name in here.globals:
                while here.outer is not None:
                    here = here.outer
            own = here.bindings.get(name, ())
            if own and here.is_class:
                own = own if here is scope and (use is None or is_bound(own, use)) else ()
            if own:
                return self._followed(Found(name, here, tuple(own)))
            if here.outer is None:
                return self._from_stars(here, name)
            here = here.outer

    def _from_stars(self, module: Scope, name: str) -> Thing | None:
        if (module.path, name) in self._asked:  # files that take each other's names
            return None
        self._asked.add((module.path, name))
        found: Thing | None = None
        for statement in reversed(module.stars):
            source = self._module(f"{'.' * statement.level}{statement.module or ''}", module.path)
            file = self._file(source)
            if found is None and file is not None and name in self._exported(file, set()):
                found = self._member(source, name)
        self._asked.discard((module.path, name))
        return found

    def _exported(self, file: PythonFile, seen: set[str]) -> set[str]:
        """What ``import *`` takes. ``seen``: files that were asked already, on the way here."""
        seen.add(file.path)
        bindings = file.module.bindings
        listed = [each.value for each in bindings.get("__all__", ())]
        names: set[str] = set()
        if listed and all(isinstance(one, (ast.List, ast.Tuple)) for one in listed):
            for one in listed:
                assert isinstance(one, (ast.List, ast.Tuple))
                values = [each.value for each in one.elts if isinstance(each, ast.Constant)]
                names.update(map(str, values))
            return names
        names = {name for name in bindings if not name.startswith("_")}
        for statement in file.module.stars:
            source = f"{'.' * statement.level}{statement.module or ''}"
            inner = self._file(self._module(source, file.path))
            if inner is not None and inner.path not in seen:
                names |= self._exported(inner, seen)
        return names

    def _followed(self, found: Found) -> Thing:
        """Through imports to what is imported."""
        kinds = {binding.kind for binding in found.bindings}
        if "import" not in kinds or kinds & {"class", "function", "method"}:
            return found
        things: list[Thing] = []
        for binding in found.bindings:
            if isinstance(binding.node, ast.alias) and self._left > 0:
                self._left -= 1
                alias = binding.node
                if isinstance(binding.statement, ast.ImportFrom):
                    thing = self._imported(found.scope.path, binding.statement, alias)
                else:
                    name = alias.name if alias.asname else alias.name.split(".")[0]
                    thing = self._module(name, found.scope.path)
                if thing is not None:
                    things.append(thing)
        inside = [one for one in things if not (isinstance(one, Value) and one.kind == "outside")]
        return next(iter([*inside, *things]), found)

    def _imported(self, path: str, node: ast.ImportFrom, alias: ast.alias) -> Thing | None:
        source = self._module(f"{'.' * node.level}{node.module or ''}", path)
        if source.path == path:  # a package that imports what lies in it
            below = self._modules.below(path, alias.name)
            if below is not None:
                return Value("module", path=below)
        return self._member(source, alias.name)

    def _module(self, dotted: str, path: str) -> Value:
        found = self._modules.find(dotted, path)
        if found is None:
            return Value("outside", dotted=dotted)
        return Value("module", path=found)

    def _file(self, value: Thing | None) -> PythonFile | None:
        if isinstance(value, Value) and value.kind == "module" and value.path:
            return self._load(value.path)
        return None

    def _member(self, value: Value | None, name: str) -> Thing | None:
        if value is None or self._left <= 0:
            return None
        self._left -= 1
        if value.kind == "outside":
            return Value("outside", dotted=f"{value.dotted}.{name}")
        if value.kind == "module":
            file = self._file(value)
            if file is not None:
                bindings = file.module.bindings.get(name)
                if bindings:
                    return self._followed(Found(name, file.module, tuple(bindings)))
                found = self._from_stars(file.module, name)
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

    def classes(self, scope: Scope) -> Iterator[Scope | None]:
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
                assert isinstance(one.node, ast.ClassDef)
                open_.extend(reversed([self._class(base, one.outer) for base in one.node.bases]))
        yield from order

    def _class(self, node: ast.expr, scope: Scope | None) -> Scope | None:
        base = node.value if isinstance(node, ast.Subscript) else node
        value = self._infer(base, scope) if scope is not None else None
        return value.scope if value is not None and value.kind == "class" else None

    def _parameter(self, value: Value | None, name: str) -> Thing | None:
        """Of what is called."""
        if value is None or value.scope is None:
            return None
        if value.kind == "function":
            bindings = value.scope.bindings.get(name, ())
            found = tuple(one for one in bindings if one.kind == "parameter")
            return Found(name, value.scope, tuple(bindings)) if found else None
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
        if self._left <= 0:
            return None
        self._left -= 1
        last = thing.bindings[-1]
        node = last.node
        if isinstance(node, ast.ClassDef):
            return Value("class", scope=thing.scope.inner(node))
        if isinstance(node, FUNCTIONS):
            return Value("function", scope=last.scope.inner(node))
        if last.kind == "parameter" and len(thing.bindings) == 1:
            received = self.received(thing)
            if received is not None:
                return received
        annotated = [one for one in thing.bindings if one.annotation is not None]
        if annotated:
            first = annotated[0]
            outer = first.scope.outer if first.kind == "parameter" else None
            return self._annotated(first.annotation, outer or first.scope)
        if len(thing.bindings) == 1 and last.value is not None:
            return self._infer(last.value, last.scope)
        return None

    def received(self, thing: Found) -> Value | None:
        function = thing.scope.node
        outer = thing.scope.outer
        if outer is None or not outer.is_class or receiver_of(function) != thing.name:
            return None
        by_class = decorated_with(function, ("classmethod",)) or getattr(function, "name", "") in (
            "__new__",
            "__init_subclass__",
            "__class_getitem__",
        )
        return Value("class" if by_class else "instance", scope=outer)

    def _annotated(self, node: ast.expr | None, scope: Scope) -> Value | None:
        """An instance of what an annotation names; ``X | None`` is X."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = expression_of(node.value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            sides = [one for one in (node.left, node.right) if not is_none(one)]
            return self._annotated(sides[0], scope) if len(sides) == 1 else None
        if isinstance(node, ast.Subscript):
            name = node.value
            if isinstance(name, ast.Name) and name.id in ("Optional", "Final", "ClassVar"):
                return self._annotated(node.slice, scope)
            node = node.value
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
            thing = self._member(self._infer(node.value, scope), node.attr)
            value = self._value(thing)
            if isinstance(thing, Found) and value is not None and value.kind == "function":
                read = thing.bindings[-1].node
                if decorated_with(read, ("property", "cached_property")):
                    return self._returned(value)
            return value
        if isinstance(node, ast.Await) and isinstance(node.value, ast.Call):
            return self._called(node.value, scope, awaited=True)
        if isinstance(node, ast.Call):
            return self._called(node, scope, awaited=False)
        return None

    def _called(self, node: ast.Call, scope: Scope, *, awaited: bool) -> Value | None:
        name = node.func
        if isinstance(name, ast.Name) and name.id == "super" and not node.args:
            return self.superclass(scope)
        value = self._infer(name, scope)
        if value is None:
            return None
        if value.kind == "class":
            return Value("instance", scope=value.scope)
        is_async = value.scope is not None and isinstance(value.scope.node, ast.AsyncFunctionDef)
        return self._returned(value) if is_async is awaited else None

    def _returned(self, value: Value) -> Value | None:
        if value.scope is None or not isinstance(value.scope.node, FUNCTIONS):
            return None
        return self._annotated(value.scope.node.returns, value.scope.outer or value.scope)

    def superclass(self, scope: Scope) -> Value | None:
        """The next class, where there is one only."""
        here: Scope | None = scope
        while here is not None and not here.is_class:
            here = here.outer
        if here is None or not isinstance(here.node, ast.ClassDef) or len(here.node.bases) != 1:
            return None
        base = self._class(here.node.bases[0], here.outer)
        return None if base is None else Value("instance", scope=base)

    def as_definition(self, thing: Thing, file: PythonFile, line: int, column: int) -> Definition:
        if isinstance(thing, Found):
            source = self._load(thing.scope.path) or file
            container = container_of(thing.scope)
            symbols = tuple(source.symbol(one, container, doc=True) for one in thing.bindings)
            return Definition((thing.scope.path, *thing.scope.key, thing.name), symbols)
        if thing.kind == "module":
            name = thing.path.rpartition("/")[2]
            module = Symbol(name, "module", thing.path, 1, 1, 1)
            return Definition(("module", thing.path), (module,))
        text = on_one_line(file.lines[line - 1])
        name = thing.dotted.rpartition(".")[2]
        here = Symbol(name, "import", file.path, line, column + 1, line, text=text)
        return Definition(
            ("outside", thing.dotted), (here,), f"{thing.dotted} is outside of the workspace"
        )
