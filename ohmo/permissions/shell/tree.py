"""Syntax trees of shell commands."""

from __future__ import annotations

import re
import time

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

_LANGUAGE = Language(tree_sitter_bash.language())
_SECONDS = 0.15  # of this thread's processor time for parsing: a busy machine changes no verdict
_CHUNK, _SHORT = 1 << 16, 1000  # of source handed over at once, of source that cannot take long
_EASY = re.compile(r"[\w\s./;:,@%+-]*")  # nothing the parser could try in two ways
ASSIGNING = frozenset({"read", "mapfile", "readarray", "printf", "getopts", "let", "unset"})


class TooSlow(Exception):
    """The grammar would need too long for this text."""


def parsed(source: str) -> Node:
    """The syntax tree. Raises TooSlow: some texts make the parser try again and again."""
    data = source.encode("utf-8", "surrogatepass")
    parser = Parser(_LANGUAGE)
    if len(data) <= _SHORT or _EASY.fullmatch(source):
        return parser.parse(data).root_node
    deadline = (
        time.thread_time() + _SECONDS
    )  # only a source that is read piece by piece can be given up
    try:
        tree = parser.parse(
            lambda at, _: data[at : at + _CHUNK],
            progress_callback=lambda _at, _error: time.thread_time() > deadline,
        )
    except ValueError as error:
        raise TooSlow from error
    return parser.parse(data, tree).root_node  # the same tree, with nodes that are quick to read


def below(node: Node, kinds: frozenset[str]) -> list[Node]:
    found: list[Node] = []
    queue = [node]
    while queue:
        each = queue.pop()
        if each.type in kinds:
            found.append(each)
        queue += each.children
    return found


def assigned_below(node: Node) -> set[str]:
    """Names a loop may assign, also through builtins that take names."""
    names: set[str] = set()
    for each in below(node, frozenset({"variable_assignment", "command"})):
        text = (each.text or b"").decode("utf-8", "replace")
        if each.type == "variable_assignment":
            names.update(re.findall(r"^\w+", text))
        elif (text.split(maxsplit=1) or [""])[0] in (*ASSIGNING, "command", "builtin"):
            names.update(re.findall(r"[A-Za-z_]\w*", text))
    return names


def changes_folder(node: Node) -> bool:
    return any(
        re.match(rb"(cd|pushd|popd|chdir)\b", each.text or b"")
        for each in below(node, frozenset({"command"}))
    )
