"""One file of a language that has a grammar: what it declares, in which scope, where its imports
lead, and what stands at a place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from tree_sitter import Node, Parser

from channels.record import record
from ohmo.codeintel.grammars import HOLD_MEMBERS, Grammar
from ohmo.codeintel.reading import SourceText
from ohmo.codeintel.words import Symbol, on_one_line

Way = tuple[str, ...]  # names of modules and what is in the last; or a path and what is in it
_LOCAL = ("parameter", "import", "local", "export")
_SHORTHAND = "shorthand_property_identifier_pattern"
_BIND = ("identifier", "shorthand_field_identifier", _SHORTHAND)
_SKIPPED = ("type", "right", "key", "condition", "value")  # fields of a pattern that bind nothing


@record
class Declared:
    name: str
    kind: str
    node: Node  # the name
    whole: Node  # what is declared
    scope: int  # id of the node it is declared in, 0: what is only handed on


class TreeFile(SourceText):
    """Raises Unreadable."""

    def __init__(self, path: str, data: bytes, grammar: Grammar, parser: Parser) -> None:
        super().__init__(path, data)
        self.grammar = grammar
        self.root = parser.parse(self.text.encode()).root_node
        #: Where a name in an import leads, by its first byte.
        self.ways: dict[int, Way] = {}
        if self.root.has_error:
            wrong = (node for node in walk(self.root) if node.is_error or node.is_missing)
            line = next((node.start_point[0] + 1 for node in wrong), 1)
            self.problem = f"line {line}: not understood; what stands there may be left out"

    @cached_property
    def scopes(self) -> dict[int, dict[str, list[Declared]]]:
        """What is declared in each scope, by the id of its node."""
        found: dict[int, dict[str, list[Declared]]] = {0: {}, self.root.id: {}}
        open_: list[tuple[Node, Node]] = [(self.root, self.root)]
        while open_:
            node, scope = open_.pop()
            every = list(self._declared(node, scope))
            inner = scope
            if node.type in self.grammar.scopes:
                inner = node
                found.setdefault(inner.id, {})
                # What opens a scope binds its own name beside it, its parameters in it.
                for field in ("parameter", "parameters"):
                    lone = node.child_by_field_name(field)
                    if lone is not None and lone.type == "identifier":
                        every.append(Declared(text_of(lone), "parameter", lone, lone, node.id))
            for one in every:
                found[one.scope].setdefault(one.name, []).append(one)
            open_.extend((child, inner) for child in reversed(node.named_children))
        for names in found.values():
            for declarations in names.values():
                declarations.sort(key=lambda one: one.node.start_byte)
        return found

    def _declared(self, node: Node, scope: Node) -> Iterator[Declared]:
        for leaf, way, name in ways(node):
            self.ways[leaf.start_byte] = way
            if name:
                exports = node.type == "export_statement"
                at = 0 if exports else scope.id
                yield Declared(name, "export" if exports else "import", leaf, node, at)
        kind, field = self.grammar.declares.get(node.type, ("", ""))
        if kind in ("function", "local", "variable") and scope.type in HOLD_MEMBERS:
            kind = "member"
        elif kind == "variable" and scope != self.root and self.grammar.name != "Rust":
            kind = "local"
        for pattern in node.named_children if field == "*" else node.children_by_field_name(field):
            for leaf in bound_in(pattern) if kind else ():
                yield Declared(text_of(leaf), kind, leaf, node, scope.id)

    @cached_property
    def names(self) -> dict[int, Declared]:
        """By the first byte of the name."""
        inside = (names for scope, names in self.scopes.items() if scope)
        every = (one for names in inside for found in names.values() for one in found)
        return {one.node.start_byte: one for one in every}

    def leaf(self, line: int, column: int) -> Node | None:
        """The smallest node at a place: line from 1, column in characters from 0."""
        at = line - 1, self.byte(line, column)
        return self.root.named_descendant_for_point_range(at, at)

    def around(self, node: Node) -> Iterator[int]:
        """The scopes a node is read in, from the inside."""
        return (one.id for one in above(node) if one.id in self.scopes)

    def symbol(self, declared: Declared) -> Symbol:
        row, byte = declared.node.start_point
        whole = declared.whole
        body = whole.child_by_field_name("body")
        head = text_of(whole)
        if body is not None:
            head = (whole.text or b"")[: body.start_byte - whole.start_byte].decode()
        elif not head.startswith("@"):
            head = head.partition("\n")[0]
        containers: list[str] = []
        for one in above(whole):
            kind, field = self.grammar.declares.get(one.type, ("", "type"))
            if one.type in self.grammar.classes or kind == "type":
                name = one.child_by_field_name(field)
                containers[:0] = [text_of(name)] if name is not None else []
        column = self.character(row + 1, byte) + 1
        end = whole.end_point[0] + 1
        text = on_one_line(head.strip().removesuffix("{"))
        container = ".".join(containers)
        doc = self.comment_above(whole)
        return Symbol(
            declared.name, declared.kind, self.path, row + 1, column, end, container, text, doc
        )

    def comment_above(self, node: Node) -> str:
        """The comment right above, its first paragraph."""
        rows: list[str] = []
        for line in reversed(self.lines[max(node.start_point[0] - 20, 0) : node.start_point[0]]):
            if not line.strip().startswith(("//", "/*", "*")):
                break
            rows.insert(0, line.strip().strip("/*! \t"))
        return "\n".join(rows).strip().partition("\n\n")[0]

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        shown = (one for one in self.names.values() if one.kind not in _LOCAL)
        return tuple(sorted(map(self.symbol, shown), key=lambda one: (one.line, one.column)))


def bound_in(pattern: Node) -> Iterator[Node]:
    """The names that a name or a pattern binds."""
    if not pattern.named_child_count:
        if pattern.type.endswith("identifier") or pattern.type == _SHORTHAND:
            yield pattern
        return
    tests = pattern.type.startswith(("match_pattern", "tuple_", "struct_"))
    open_ = [pattern]
    while open_:
        node = open_.pop()
        constant = tests and text_of(node)[:1].isupper() and node.type != _SHORTHAND
        if not node.named_child_count and node.type in _BIND and not constant:
            yield node
        for index in reversed(range(node.child_count)):
            field = node.field_name_for_child(index)
            pair = node.type == "pair_pattern" and field == "value"
            if node.children[index].is_named and (pair or field not in _SKIPPED):
                open_.append(node.children[index])


def ways(node: Node) -> Iterator[tuple[Node, Way, str]]:
    """Names in an import or export, where each leads, and which name it binds, empty: none."""
    if node.type == "import_spec":
        yield from go_way(node)
    elif node.type in ("use_declaration", "import_declaration"):
        parts = (leaf for leaf in walk(node) if leaf.type in ("identifier", "self"))
        yield from map(scoped_way, parts)
    elif node.type in ("import_statement", "export_statement"):
        yield from ecma_ways(node)


def go_way(node: Node) -> Iterator[tuple[Node, Way, str]]:
    leaf = node.child_by_field_name("name")
    for path in node.children_by_field_name("path"):
        parts = [part for part in text_of(path).strip('"`').split("/") if part]
        own = parts[:-1] if re.fullmatch(r"v\d+", parts[-1]) and parts[1:] else parts
        yield leaf or path.named_children[0], ("/".join(parts),), text_of(leaf) if leaf else own[-1]


def ecma_ways(node: Node) -> Iterator[tuple[Node, Way, str]]:
    """The first name of a way is the file, empty: this one."""
    source = node.child_by_field_name("source")
    if source is None:
        own = node.child_by_field_name("declaration") or node.child_by_field_name("value")
        leaf = own.child_by_field_name("name") or own if own is not None else None
        if leaf is not None and any(one.type == "default" for one in node.children):
            yield leaf, ("", text_of(leaf)), "default"
        return
    path = text_of(source).strip("'\"`")
    if any(one.type == "*" for one in node.children):
        yield source, (path,), "*"
    for leaf in walk(node):
        over = leaf.parent
        if leaf.type != "identifier" or over is None:
            continue
        if over.type in ("import_specifier", "export_specifier"):
            name = over.child_by_field_name("name") or leaf
            bound = over.child_by_field_name("alias") or name
            yield leaf, (path, text_of(name)), text_of(leaf) if leaf == bound else ""
        elif over.type in ("import_clause", "namespace_import"):
            whole = over.type == "namespace_import"
            yield leaf, (path,) if whole else (path, "default"), text_of(leaf)


def scoped_way(leaf: Node) -> tuple[Node, Way, str]:
    """``use a::{b as c};``: both lead to ``a::b``, and c is bound. The same for Java."""
    way: Way = (text_of(leaf),)
    bound = text_of(leaf)
    below = leaf
    for node in above(leaf):
        path = node.child_by_field_name("path") or node.child_by_field_name("scope")
        if node.type in ("use_declaration", "import_declaration"):
            bound = bound if below == node.named_children[-1] else ""  # a.* binds nothing
            break
        if path == below or node.type == "use_wildcard":
            bound = ""
        elif path is not None:
            names = tuple(re.findall(r"\w+", text_of(path)))
            way = names if node.type == "use_as_clause" else (*names, *way)
        below = node
    if leaf.type == "self" and len(way) > 1:
        way = way[:-1]
        bound = way[-1] if bound else ""
    return leaf, way, bound


def above(node: Node) -> Iterator[Node]:
    here = node.parent
    while here is not None:
        yield here
        here = here.parent


def text_of(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def walk(top: Node) -> Iterator[Node]:
    open_ = [top]
    while open_:
        node = open_.pop()
        yield node
        open_.extend(reversed(node.children))
