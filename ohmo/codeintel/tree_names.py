"""What a name means in the languages that have a grammar: by scope, by import and package where the
grammar shows it; members of something else by their name only, and that is said."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import PurePosixPath

from tree_sitter import Node

from ohmo.codeintel.grammars import MEMBERS
from ohmo.codeintel.tree_file import Declared, TreeFile, scoped, text_of, used
from ohmo.codeintel.words import Definition, Symbol

BY_NAME = "by name only: the grammar does not say whose it is"
_ECMA_ENDINGS = ("", ".ts", ".tsx", ".d.ts", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts")
_MEMBER_OF = {  # what is read of something else: type of the node, its fields for both
    "member_expression": ("object", "property"),
    "selector_expression": ("operand", "field"),
    "field_expression": ("value", "field"),
    "field_access": ("object", "field"),
    "method_invocation": ("object", "name"),
    "scoped_identifier": ("path", "name"),
    "scoped_type_identifier": ("path", "name"),
    "nested_type_identifier": ("module", "name"),
    "qualified_type": ("package", "name"),
}
_DEEPEST = 12


class TreeNames:
    """``load``: a file of the workspace, None where it cannot be read. ``named``: symbols of a name
    in all files of a language."""

    def __init__(
        self,
        root: str,
        paths: Collection[str],
        load: Callable[[str], TreeFile | None],
        named: Callable[[str, tuple[str, ...]], Iterable[Symbol]],
    ) -> None:
        self._root = root.rstrip("/")
        self._paths = paths
        self._load = load
        self._named = named

    def definition(self, file: TreeFile, line: int, column: int, word: str) -> Definition | None:
        """Of the word at a place, which counts lines from 1 and characters from 0."""
        leaf = file.leaf(line, column)
        if leaf is None or text_of(leaf).lstrip("#") != word.lstrip("#"):
            return self.in_import_path(file, leaf, word)
        declared = file.names.get(leaf.start_byte)
        if declared is not None and declared.node == leaf:
            return self._said(file, self._followed(file, declared, 0) or (file, declared))
        found = self._read(file, leaf, word)
        if found is not None:
            return self._said(file, found)
        if self._is_member(leaf) or leaf.type.endswith("identifier"):
            return self.by_name(file, word)
        return None

    def in_import_path(self, file: TreeFile, leaf: Node | None, word: str) -> Definition | None:
        """An import of Go is bound by the last part of a string."""
        spec = leaf.parent if leaf is not None else None
        while spec is not None and spec.type != "import_spec":
            spec = spec.parent
        for one in file.names.values():
            if spec is not None and one.whole == spec and one.name == word:
                return self._said(file, (file, one))
        return None

    def _said(self, asking: TreeFile, found: tuple[TreeFile, Declared]) -> Definition:
        file, declared = found
        same = file.scopes[declared.scope].get(declared.name, [declared])
        overloads = [one for one in same if one.kind == declared.kind and declared.kind != "local"]
        shown = overloads or [declared]
        first = shown[0].node
        note = ""
        if declared.kind == "import":
            note = "what it imports is outside of the workspace, or not found in it"
        key = (file.path, first.start_point[0] + 1, first.start_point[1], declared.name)
        return Definition(key, tuple(map(file.symbol, shown)), note if asking is file else "")

    def by_name(self, file: TreeFile, word: str) -> Definition | None:
        symbols = tuple(self._named(word, file.grammar.suffixes))
        if not symbols:
            return None
        return Definition(("by name", file.grammar.name, word), symbols, BY_NAME)

    def _is_member(self, leaf: Node) -> bool:
        parent = leaf.parent
        if parent is None:
            return False
        if parent.type == "literal_element":  # T{field: value} of Go
            above = parent.parent
            return above is not None and above.child_by_field_name("key") == parent
        of, name = _MEMBER_OF.get(parent.type, ("", ""))
        has_owner = bool(of) and parent.child_by_field_name(of) is not None
        named = has_owner and parent.child_by_field_name(name) == leaf
        return named or leaf.type in ("field_identifier", "property_identifier")

    def _read(self, file: TreeFile, leaf: Node, word: str) -> tuple[TreeFile, Declared] | None:
        parent = leaf.parent
        if parent is not None and parent.type == "export_specifier":
            source = self._ecma_source(file, parent)
            if source is not None:
                return self._top(source, word, 0)
        for way in used(used_by(leaf)):
            for index, (_, node) in enumerate(way):
                if node == leaf:
                    return self._rust_way(file, way[: index + 1], 0)
        if parent is not None and self._is_member(leaf):
            of, _ = _MEMBER_OF.get(parent.type, ("", ""))
            owner = parent.child_by_field_name(of) if of else None
            return self._member(file, owner, word) if owner is not None else None
        return self._bare(file, leaf, word)

    def _bare(self, file: TreeFile, leaf: Node, word: str) -> tuple[TreeFile, Declared] | None:
        for scope in file.around(leaf):
            for one in self.visible(file, scope, leaf, word):
                return self._followed(file, one, 0) or (file, one)
        if file.grammar.name in ("Go", "Java"):  # one package, several files
            folder = file.path.rpartition("/")[0]
            return self._in_folder(folder, file.grammar.suffixes, word)
        return None

    def visible(self, file: TreeFile, scope: int, leaf: Node, word: str) -> Iterable[Declared]:
        found = file.scopes[scope].get(word, [])
        if not file.grammar.bare_members:
            found = [one for one in found if one.kind not in MEMBERS]
        found = [one for one in found if one.kind != "constructor"]
        if not file.grammar.ordered:
            return found
        local = [one for one in found if one.kind == "local"]
        before = [one for one in local if ends_before(one, leaf)]
        if file.grammar.name == "Rust":  # the last ``let`` hides those before it
            before = before[-1:]
        return before or [one for one in found if one.kind != "local"]

    def _member(self, file: TreeFile, owner: Node, word: str) -> tuple[TreeFile, Declared] | None:
        name = text_of(owner)
        if name in ("this", "self", "Self"):
            here: Node | None = owner
            while here is not None and here.type not in file.grammar.classes:
                here = here.parent
            inside = [
                one
                for names in file.scopes.values()
                for one in names.get(word, ())
                if here is not None and one.kind in MEMBERS and class_of(file, one) == here
            ]
            return (file, inside[0]) if inside else None
        if file.grammar.name == "Rust" and owner.type in (
            "identifier",
            "scoped_identifier",
            "crate",
        ):
            source = self._rust_module(file, [part for part, _ in scoped(owner)], 0)
            return self._top(source, word, 0) if source is not None else None
        if owner.type not in ("identifier", "package_identifier"):
            return None
        for scope in file.around(owner):
            for one in file.scopes[scope].get(name, ()):
                return self.of_import(file, one, word)
        return None

    def of_import(
        self, file: TreeFile, one: Declared, word: str
    ) -> tuple[TreeFile, Declared] | None:
        """A member of what is imported whole."""
        if one.kind == "import" and one.whole.type == "namespace_import":
            source = self._ecma_source(file, one.whole)
            return self._top(source, word, 0) if source is not None else None
        if one.kind == "import" and one.whole.type == "import_spec":
            path = one.whole.child_by_field_name("path")
            folder = self.go_folder(text_of(path).strip('"`')) if path is not None else None
            return self._in_folder(folder, (".go",), word) if folder is not None else None
        return None

    # imports

    def _followed(
        self, file: TreeFile, one: Declared, depth: int
    ) -> tuple[TreeFile, Declared] | None:
        if one.kind != "import" or depth > _DEEPEST:
            return None
        node = one.whole
        if node.type == "use_declaration":
            for way in used(node.named_children[-1:]):
                if way[-1][1] == one.node:
                    return self._rust_way(file, way, depth)
        if node.type == "import_declaration":
            return self.java_import(node)
        source = self._ecma_source(file, node)
        if source is None:
            return None
        if node.type == "import_specifier":
            name = node.child_by_field_name("name")
            return self._top(source, text_of(name), depth) if name is not None else None
        return self.default_export(source) if node.type == "import_clause" else None

    def _top(self, file: TreeFile, name: str, depth: int) -> tuple[TreeFile, Declared] | None:
        """A name as others see it in a file, through what it hands on."""
        for one in file.scopes[file.root.id].get(name, ()):
            return self._followed(file, one, depth + 1) or (file, one)
        if depth > _DEEPEST:
            return None
        for node in file.root.named_children:
            if node.type != "export_statement" or node.child_by_field_name("source") is None:
                continue
            source = self._ecma_source(file, node)
            clause = next((one for one in node.named_children if one.type == "export_clause"), None)
            if source is None:
                continue
            if clause is None:
                found = self._top(source, name, depth + 1)
                if found is not None:
                    return found
            for each in clause.named_children if clause is not None else ():
                own = each.child_by_field_name("name")
                shown = each.child_by_field_name("alias") or own
                if own is not None and shown is not None and text_of(shown) == name:
                    return self._top(source, text_of(own), depth + 1)
        return None

    def default_export(self, file: TreeFile) -> tuple[TreeFile, Declared] | None:
        for node in file.root.named_children:
            if node.type == "export_statement" and b"default" in [
                one.text for one in node.children
            ]:
                child = node.child_by_field_name("declaration") or node.child_by_field_name("value")
                name = child.child_by_field_name("name") if child is not None else None
                leaf = name or child
                if leaf is not None:
                    return self._top(file, text_of(leaf), 0)
        return None

    def _ecma_source(self, file: TreeFile, node: Node) -> TreeFile | None:
        statement: Node | None = node
        while statement is not None and statement.child_by_field_name("source") is None:
            statement = statement.parent
        source = statement.child_by_field_name("source") if statement is not None else None
        path = text_of(source).strip("'\"`") if source is not None else ""
        if not path.startswith("."):
            return None
        whole = joined(file.path.rpartition("/")[0], path)
        plain = whole.removesuffix(".js").removesuffix(".mjs").removesuffix(".jsx")
        for start in (whole, plain):  # TypeScript imports x.ts as x.js
            for ending in (*_ECMA_ENDINGS, *(f"/index{one}" for one in _ECMA_ENDINGS[1:])):
                if f"{start}{ending}" in self._paths:
                    return self._load(f"{start}{ending}")
        return None

    def java_import(self, node: Node) -> tuple[TreeFile, Declared] | None:
        parts = text_of(node.named_children[-1]).split(".")
        static = any(one.type == "static" for one in node.children)
        owner = parts[:-1] if static else parts
        ending = f"/{'/'.join(owner)}.java"
        for path in sorted(one for one in self._paths if one.endswith(ending)):
            source = self._load(path)
            for names in source.scopes.values() if source is not None else ():
                for one in names.get(parts[-1], ()):
                    if source is not None and one.kind != "constructor":
                        return source, one
        return None

    def go_folder(self, path: str) -> str | None:
        """By the longest end of the import's path that is a folder here (the rest is the name of
        the module, which go.mod says)."""
        folders = {one.rpartition("/")[0] for one in self._paths if one.endswith(".go")}
        parts = path.split("/")
        for index in range(len(parts)):
            whole = "/".join((self._root, *parts[index:]))
            if whole in folders and (index or "." not in parts[0]):
                return whole
        return None

    def _in_folder(
        self, folder: str, suffixes: tuple[str, ...], word: str
    ) -> tuple[TreeFile, Declared] | None:
        for path in sorted(self._paths):
            if path.endswith(suffixes) and path.rpartition("/")[0] == folder:
                source = self._load(path)
                for one in source.scopes[source.root.id].get(word, ()) if source else ():
                    if source is not None and one.kind not in ("import", *MEMBERS):
                        return source, one
        return None

    def _rust_way(
        self, file: TreeFile, way: list[tuple[str, Node]], depth: int
    ) -> tuple[TreeFile, Declared] | None:
        names = [name for name, _ in way]
        alias = way[-1][1].parent
        if alias is not None and alias.type == "use_as_clause" and len(names) > 1:
            names = names[:-1] if alias.child_by_field_name("alias") == way[-1][1] else names
        source = self._rust_module(file, names[:-1], depth)
        return self._top(source, names[-1], depth + 1) if source is not None else None

    def _rust_module(self, file: TreeFile, way: list[str], depth: int) -> TreeFile | None:
        folder, _, name = file.path.rpartition("/")
        own = folder if name in ("mod.rs", "lib.rs", "main.rs") else file.path.removesuffix(".rs")
        parts = list(way)
        if parts and parts[0] == "crate":
            here = folder
            while here.startswith(self._root) and not self.is_crate(here):
                here = here.rpartition("/")[0]
            own = here
            parts.pop(0)
        while parts and parts[0] in ("self", "super"):
            own = own.rpartition("/")[0] if parts.pop(0) == "super" else own
        for part in parts:
            own = f"{own}/{part}"
        names = (f"{own}.rs", f"{own}/mod.rs", f"{own}/lib.rs", f"{own}/main.rs")
        found = next((one for one in names if one in self._paths), None)
        return self._load(found) if found is not None and depth <= _DEEPEST else None

    def is_crate(self, folder: str) -> bool:
        return f"{folder}/lib.rs" in self._paths or f"{folder}/main.rs" in self._paths


def ends_before(one: Declared, leaf: Node) -> bool:
    """``let x = x;``: the second is another one. A loop or a condition binds what comes inside."""
    binds_inside = one.whole.type in (
        "for_expression",
        "let_condition",
        "match_arm",
        "range_clause",
        "enhanced_for_statement",
        "catch_formal_parameter",
    )
    end = one.node.end_byte if binds_inside else one.whole.end_byte
    return end <= leaf.start_byte


def used_by(leaf: Node) -> list[Node]:
    """What the ``use`` of Rust around a node names."""
    here: Node | None = leaf
    while here is not None and here.type != "use_declaration":
        here = here.parent
    return here.named_children[-1:] if here is not None else []


def class_of(file: TreeFile, one: Declared) -> Node | None:
    here = one.whole.parent
    while here is not None and here.type not in file.grammar.classes:
        here = here.parent
    return here


def joined(folder: str, path: str) -> str:
    parts: list[str] = list(PurePosixPath(folder).parts)
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in (".", ""):
            parts.append(part)
    return str(PurePosixPath(*parts))
