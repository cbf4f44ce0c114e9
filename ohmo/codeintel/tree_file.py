"""One file of a language that has a grammar: what it declares, in which scope, and what stands at a
place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from tree_sitter import Node, Parser

from channels.record import record
from ohmo.codeintel.grammars import Grammar
from ohmo.codeintel.words import Symbol, on_one_line

_LOCAL = ("parameter", "import", "local")
_SHORTHAND = "shorthand_property_identifier_pattern"
_RUST_PATTERNS = ("match_pattern", "tuple_struct_pattern", "struct_pattern", "tuple_pattern")
_SKIPPED = ("type", "right", "key", "condition", "value")  # fields of a pattern that bind nothing


@record
class Declared:
    name: str
    kind: str
    node: Node  # the name
    whole: Node  # what is declared
    scope: int  # id of the node it is declared in


class TreeFile:
    """``problem``: what of it could not be read, empty: all was."""

    def __init__(self, path: str, text: str, grammar: Grammar, parser: Parser) -> None:
        self.path = path
        self.text = text
        self.grammar = grammar
        self.data = text.encode("utf-8", "surrogatepass")
        self.tree = parser.parse(self.data)
        self.root = self.tree.root_node
        self.problem = ""
        if self.root.has_error:
            line = next((node.start_point[0] + 1 for node in walk(self.root) if is_error(node)), 1)
            self.problem = f"line {line}: not understood; what stands there may be left out"

    @cached_property
    def lines(self) -> list[bytes]:
        return self.data.split(b"\n")

    @cached_property
    def scopes(self) -> dict[int, dict[str, list[Declared]]]:
        """What is declared in each scope, by the id of its node."""
        found: dict[int, dict[str, list[Declared]]] = {self.root.id: {}}
        open_: list[tuple[Node, int]] = [(self.root, self.root.id)]
        while open_:
            node, scope = open_.pop()
            for declared in self._declared(node, scope):
                found[scope].setdefault(declared.name, []).append(declared)
            inner = scope
            if node.type in self.grammar.scopes:
                inner = node.id
                found.setdefault(inner, {})
                # What opens a scope binds its own name beside it, its parameters in it.
                for declared in self.lone_parameter(node):
                    found[inner].setdefault(declared.name, []).append(declared)
            open_.extend((child, inner) for child in reversed(node.named_children))
        for names in found.values():
            for declarations in names.values():
                declarations.sort(key=lambda one: one.node.start_byte)
        return found

    def _declared(self, node: Node, scope: int) -> Iterator[Declared]:
        for name, child in imported(node, self.grammar.name):
            yield Declared(name, "import", child, node, scope)
        kind, field = self.grammar.declares.get(node.type, ("", ""))
        if not kind:
            return
        parent = node.parent
        if parent is not None:
            kind = self.grammar.inside.get((parent.type, kind), kind)
            above = parent.parent
            if above is not None:
                kind = self.grammar.inside.get((f"{above.type}/{parent.type}", kind), kind)
        if kind == "variable" and scope != self.root.id:
            kind = "local"
        patterns = node.children_by_field_name(field) if field else node.named_children
        for pattern in patterns:
            for name in names_in(pattern):
                yield Declared(name.text_, kind, name.node, node, scope)

    def lone_parameter(self, node: Node) -> Iterator[Declared]:
        for field in ("parameter", "parameters"):
            child = node.child_by_field_name(field)
            if child is not None and child.type == "identifier":
                yield Declared(text_of(child), "parameter", child, child, node.id)

    @cached_property
    def names(self) -> dict[int, Declared]:
        """By the first byte of the name."""
        every = (one for names in self.scopes.values() for found in names.values() for one in found)
        return {one.node.start_byte: one for one in every}

    def leaf(self, line: int, column: int) -> Node | None:
        """The smallest node at a place: line from 1, column in characters from 0."""
        text = self.lines[line - 1]
        at = len(text.decode(errors="replace")[:column].encode())
        return self.root.named_descendant_for_point_range((line - 1, at), (line - 1, at))

    def around(self, node: Node) -> Iterator[int]:
        """The scopes a node is read in, from the inside."""
        here = node.parent
        while here is not None:
            if here.id in self.scopes:
                yield here.id
            here = here.parent

    def symbol(self, declared: Declared) -> Symbol:
        row, byte = declared.node.start_point
        column = len(self.lines[row][:byte].decode(errors="replace")) + 1
        whole = declared.whole
        head = self.data[whole.start_byte : whole.end_byte].decode(errors="replace")
        body = whole.child_by_field_name("body")
        if body is not None:
            head = self.data[whole.start_byte : body.start_byte].decode(errors="replace")
        elif "\n" in head and not head.startswith("@"):
            head = head.partition("\n")[0]
        containers: list[str] = []
        here = whole.parent
        while here is not None:
            kind, field = self.grammar.declares.get(here.type, ("", ""))
            if here.type in self.grammar.classes or kind in ("class", "module", "interface"):
                name = here.child_by_field_name(field or "type")
                containers += [text_of(name)] if name is not None else []
            here = here.parent
        return Symbol(
            declared.name,
            declared.kind,
            self.path,
            row + 1,
            column,
            whole.end_point[0] + 1,
            ".".join(reversed(containers)),
            on_one_line(head).rstrip(" {"),
            self.comment_above(whole),
        )

    def comment_above(self, node: Node) -> str:
        """The comment right above, its first paragraph."""
        rows: list[str] = []
        row = node.start_point[0] - 1
        while row >= 0 and len(rows) < 20:
            line = self.lines[row].decode(errors="replace").strip()
            if not line.startswith(("//", "/*", "*")):
                break
            rows.append(line.strip("/*! \t"))
            row -= 1
        return "\n".join(reversed(rows)).strip().partition("\n\n")[0]

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        shown = (one for one in self.names.values() if one.kind not in _LOCAL)
        return tuple(sorted(map(self.symbol, shown), key=lambda one: (one.line, one.column)))


@record
class Name:
    text_: str
    node: Node


def names_in(pattern: Node) -> Iterator[Name]:
    """What a name or a pattern binds."""
    if not pattern.named_child_count:
        if (
            pattern.type.endswith("identifier")
            or pattern.type == "shorthand_property_identifier_pattern"
        ):
            yield Name(text_of(pattern), pattern)
        return
    open_ = [pattern]
    while open_:
        node = open_.pop()
        if not node.named_child_count:
            text = text_of(node)
            plain = node.type in ("identifier", "shorthand_field_identifier")
            constant = text[:1].isupper() and pattern.type.startswith(
                ("match_pattern", "tuple_", "struct_")
            )
            if (plain and not constant) or node.type == "shorthand_property_identifier_pattern":
                yield Name(text, node)
            continue
        pair = node.type == "pair_pattern"
        for index in range(node.child_count - 1, -1, -1):
            child = node.children[index]
            field = node.field_name_for_child(index)
            if child.is_named and (field not in _SKIPPED or (pair and field == "value")):
                open_.append(child)


def imported(node: Node, language: str) -> Iterator[tuple[str, Node]]:
    """What a node binds by an import."""
    if node.type == "import_specifier":
        name = node.child_by_field_name("alias") or node.child_by_field_name("name")
        if name is not None:
            yield text_of(name), name
    elif node.type in ("namespace_import", "import_clause"):
        yield from ((text_of(one), one) for one in node.named_children if one.type == "identifier")
    elif node.type == "import_spec":
        name = node.child_by_field_name("name")
        path = node.child_by_field_name("path")
        if name is not None:
            yield text_of(name), name
        elif path is not None:
            parts = [part for part in text_of(path).strip('"`').split("/") if part]
            version = len(parts) > 1 and parts[-1][:1] == "v" and parts[-1][1:].isdigit()
            yield parts[-2 if version else -1] if parts else "", path
    elif node.type == "use_declaration":
        for path in used(node.named_children[-1:]):
            yield path[-1][0], path[-1][1]
    elif node.type == "import_declaration" and language == "Java":
        last = node.named_children[-1]
        name = last.child_by_field_name("name")
        if name is not None:
            yield text_of(name), name


Path = list[tuple[str, Node]]  # names of a way, each with where it stands


def used(nodes: Sequence[Node], before: Path | None = None) -> Iterator[Path]:
    """The ways a ``use`` of Rust names, each with the name it binds last: an alias replaces none,
    it comes after what it stands for."""
    before = before or []
    for node in nodes:
        if node.type == "use_list":
            yield from used(node.named_children, before)
        elif node.type == "scoped_use_list":
            path = node.child_by_field_name("path")
            inner = node.child_by_field_name("list")
            way = [*before, *scoped(path)] if path is not None else before
            yield from used(inner.named_children if inner is not None else [], way)
        elif node.type == "use_as_clause":
            path, alias = node.child_by_field_name("path"), node.child_by_field_name("alias")
            if path is not None and alias is not None:
                yield [*before, *scoped(path), (text_of(alias), alias)]
        elif node.type == "self" and before:
            yield before
        elif node.type != "use_wildcard":
            yield [*before, *scoped(node)]


def scoped(node: Node) -> Path:
    """``a::b::c`` as a list."""
    if node.type == "scoped_identifier":
        path, name = node.child_by_field_name("path"), node.child_by_field_name("name")
        way = scoped(path) if path is not None else []
        return [*way, (text_of(name), name)] if name is not None else way
    return [(text_of(node), node)]


def text_of(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def walk(top: Node) -> Iterator[Node]:
    open_ = [top]
    while open_:
        node = open_.pop()
        yield node
        open_.extend(reversed(node.children))


def is_error(node: Node) -> bool:
    return node.type == "ERROR" or node.is_missing
