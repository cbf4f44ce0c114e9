"""What a name means in the languages that have a grammar: by scope, by import and package where the
grammar shows it; members of something else by their name only, and that is said."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable

from tree_sitter import Node

from ohmo.codeintel.grammars import types
from ohmo.codeintel.tree_file import Declared, TreeFile, Way, above, text_of
from ohmo.codeintel.words import Definition, Symbol

BY_NAME = "by name only: the grammar does not say whose it is"
_ECMA_ENDINGS = ("", ".ts", ".tsx", ".d.ts", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts")
_MEMBERS_OF = types(  # nodes that begin with what a name is read of
    "member_expression selector_expression field_expression field_access method_invocation"
    " scoped_identifier scoped_type_identifier nested_type_identifier qualified_type"
)
#: They bind what comes inside of them; others (``let x = x;``) what comes behind.
_BIND_INSIDE = types(
    "for_expression let_condition match_arm range_clause enhanced_for_statement"
    " catch_formal_parameter"
)
_DEEPEST = 12
Place = tuple[TreeFile, Declared]


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
        if leaf is None:
            return None
        declared = file.names.get(leaf.start_byte)
        binds = declared is not None and declared.node == leaf
        here = declared.name if declared is not None and binds else text_of(leaf)
        if here.lstrip("#") != word.lstrip("#"):
            return None
        owner, is_member = owner_of(leaf)
        imports = leaf.start_byte in file.ways
        found = self._lead(file, file.ways[leaf.start_byte], 0) if imports else None
        if declared is not None and binds:
            found = found or (file, declared)
        elif owner is not None and not imports:
            found = self._member(file, owner, word)
        elif found is None and (imports or not is_member):
            found = self._bare(file, leaf, word)
        if found is not None:
            return self._said(file, found)
        symbols: tuple[Symbol, ...] = ()
        if is_member or leaf.type.endswith("identifier"):
            symbols = tuple(self._named(word, file.grammar.suffixes))
        key = ("by name", file.grammar.name, word)
        return Definition(key, symbols, BY_NAME) if symbols else None

    def _said(self, asking: TreeFile, found: Place) -> Definition:
        file, declared = found
        same = file.scopes[declared.scope].get(declared.name, [declared])
        overloads = [one for one in same if one.kind == declared.kind and declared.kind != "local"]
        shown = overloads or [declared]
        first = shown[0].node
        note = ""
        if asking is file and declared.kind in ("import", "export"):
            note = "what it imports is outside of the workspace, or not found in it"
        key = (file.path, first.start_point[0] + 1, first.start_point[1], declared.name)
        return Definition(key, tuple(map(file.symbol, shown)), note)

    def _bare(self, file: TreeFile, leaf: Node, word: str) -> Place | None:
        for scope in file.around(leaf):
            for one in self.visible(file, scope, leaf, word):
                return self._followed(file, one, 0)
        if file.grammar.name in ("Go", "Java"):  # one package, several files
            return self._in_folder(file.path.rpartition("/")[0], file.grammar.suffixes, word)
        return None

    def visible(self, file: TreeFile, scope: int, leaf: Node, word: str) -> Iterable[Declared]:
        hidden = "constructor", "" if file.grammar.name == "Java" else "member"
        found = [one for one in file.scopes[scope].get(word, ()) if one.kind not in hidden]
        if not file.grammar.ordered:
            return found
        before = [one for one in found if one.kind == "local" and ends_before(one, leaf)]
        if file.grammar.name == "Rust":  # the last ``let`` hides those before it
            before = before[-1:]
        return before or [one for one in found if one.kind != "local"]

    def _member(self, file: TreeFile, owner: Node, word: str) -> Place | None:
        name = text_of(owner)
        if name in ("this", "self", "Self"):
            here = class_of(file, owner)
            inside = (
                (file, one)
                for names in file.scopes.values()
                for one in names.get(word, ())
                if one.kind == "member" and here is not None and class_of(file, one.whole) == here
            )
            return next(inside, None)
        if file.grammar.name == "Rust":
            return self._lead(file, (*name.split("::"), word), 0)
        for scope in file.around(owner) if owner.type.endswith("identifier") else ():
            for one in file.scopes[scope].get(name, ()):
                way = file.ways.get(one.node.start_byte, ())
                return self._lead(file, (*way, word), 0) if len(way) == 1 else None
        return None

    def _followed(self, file: TreeFile, one: Declared, depth: int) -> Place:
        """Through imports to what is imported."""
        follows = one.kind in ("import", "export")
        way = file.ways[one.node.start_byte] if follows else ()
        return self._lead(file, way, depth) or (file, one)

    def _lead(self, file: TreeFile, way: Way, depth: int) -> Place | None:
        """To what a way from a file leads."""
        if len(way) < 2 or depth > _DEEPEST:
            return None
        language = file.grammar.name
        if language == "Go":
            folder = self.go_folder(way[0])
            return self._in_folder(folder, (".go",), way[1]) if folder is not None else None
        if language == "Java":  # a class, or what is static in one
            whole = [one for one in self._paths if one.endswith(f"/{'/'.join(way)}.java")]
            owner = [one for one in self._paths if one.endswith(f"/{'/'.join(way[:-1])}.java")]
            return self._among(whole, way[-1], "") or self._among(owner, way[-1], "member")
        source = self._rust_module(file, way) if language == "Rust" else self._ecma(file, way[0])
        return self._top(source, way[-1], depth) if source is not None else None

    def _top(self, file: TreeFile, name: str, depth: int) -> Place | None:
        """A name as others see it in a file, through what it hands on."""
        for one in (*file.scopes[0].get(name, ()), *file.scopes[file.root.id].get(name, ())):
            return self._followed(file, one, depth + 1)
        for one in file.scopes[0].get("*", ()):
            found = self._lead(file, (*file.ways[one.node.start_byte], name), depth + 1)
            if found is not None:
                return found
        return None

    def _ecma(self, file: TreeFile, path: str) -> TreeFile | None:
        if not path:
            return file
        whole = posixpath.normpath(posixpath.join(file.path, "..", path))
        plain = whole.removesuffix(".js").removesuffix(".mjs").removesuffix(".jsx")
        for start in (whole, plain) if path.startswith(".") else ():  # x.ts is imported as x.js
            for ending in (*_ECMA_ENDINGS, *(f"/index{one}" for one in _ECMA_ENDINGS[1:])):
                if f"{start}{ending}" in self._paths:
                    return self._load(f"{start}{ending}")
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

    def _in_folder(self, folder: str, suffixes: tuple[str, ...], word: str) -> Place | None:
        paths = (one for one in self._paths if one.rpartition("/")[0] == folder)
        return self._among([one for one in paths if one.endswith(suffixes)], word, "")

    def _among(self, paths: list[str], word: str, kind: str) -> Place | None:
        """The first in these files: at their top, or of a kind."""
        for source in filter(None, map(self._load, sorted(paths))):
            for scope in source.scopes if kind else (source.root.id,):
                for one in source.scopes[scope].get(word, ()):
                    if one.kind == kind or (not kind and one.kind not in ("import", "member")):
                        return source, one
        return None

    def _rust_module(self, file: TreeFile, way: Way) -> TreeFile | None:
        folder, _, name = file.path.rpartition("/")
        own = folder if name in ("mod.rs", "lib.rs", "main.rs") else file.path.removesuffix(".rs")
        for part in way[:-1]:
            if part == "crate":
                own = folder
                while own.startswith(self._root) and not (
                    f"{own}/lib.rs" in self._paths or f"{own}/main.rs" in self._paths
                ):
                    own = own.rpartition("/")[0]
            elif part == "super":
                own = own.rpartition("/")[0]
            elif part != "self":
                own = f"{own}/{part}"
        names = (f"{own}.rs", f"{own}/mod.rs", f"{own}/lib.rs", f"{own}/main.rs")
        return next((self._load(one) for one in names if one in self._paths), None)


def owner_of(leaf: Node) -> tuple[Node | None, bool]:
    """What a name is read of where that is shown, and whether it is a member of something."""
    parent = leaf.parent
    if parent is None:
        return None, False
    if parent.type == "literal_element":  # T{field: value} of Go
        return None, parent.parent is not None and parent.parent.child_by_field_name(
            "key"
        ) == parent
    owner = parent.named_children[0]
    names = [parent.child_by_field_name(field) for field in ("property", "field", "name")]
    if parent.type in _MEMBERS_OF and leaf in names and owner != leaf:
        return owner, True
    return None, leaf.type in ("field_identifier", "property_identifier")


def ends_before(one: Declared, leaf: Node) -> bool:
    node = one.node if one.whole.type in _BIND_INSIDE else one.whole
    return node.end_byte <= leaf.start_byte


def class_of(file: TreeFile, node: Node) -> Node | None:
    return next((one for one in above(node) if one.type in file.grammar.classes), None)
