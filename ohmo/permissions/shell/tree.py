"""Syntax trees of shell commands, and what the grammar has to be helped with."""

from __future__ import annotations

import bisect
import itertools
import re
import time
from collections.abc import Iterable

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

_LANGUAGE = Language(tree_sitter_bash.language())
_SECONDS = 0.15  # of this thread's processor time for parsing: a busy machine changes no verdict
_CHUNK, _SHORT = 1 << 16, 1000  # of source handed over at once, of source that cannot take long
_EASY = re.compile(r"[\w\s./;:,@%+-]*")  # nothing the parser could try in two ways
ASSIGNING = frozenset({"read", "mapfile", "readarray", "printf", "getopts", "let", "unset"})
_PIECES = frozenset({"word", "concatenation", "simple_expansion", "expansion", "string", "raw_string", "number", "command_substitution"})
_EXPANSIONS = frozenset({"command_substitution", "arithmetic_expansion", "expansion"})


class TooSlow(Exception):
    """The grammar would need too long for this text."""


def parsed(source: str) -> Node:
    """The syntax tree. Raises TooSlow: some texts make the parser try again and again."""
    data = source.encode("utf-8", "surrogatepass")
    parser = Parser(_LANGUAGE)
    if len(data) <= _SHORT or _EASY.fullmatch(source):
        return parser.parse(data).root_node
    deadline = time.thread_time() + _SECONDS  # only a source that is read piece by piece can be given up
    try:
        tree = parser.parse(lambda at, _: data[at : at + _CHUNK], progress_callback=lambda _at, _error: time.thread_time() > deadline)
    except ValueError as error:
        raise TooSlow from error
    return parser.parse(data, tree).root_node  # the same tree, with nodes that are quick to read


def torn(root: Node) -> bool:
    """Whether words that touch each other in the source came back as two arguments."""
    query = [root]
    while query:
        node = query.pop()
        children = node.children
        if node.type == "command":
            for left, right in itertools.pairwise(children):
                if left.end_byte == right.start_byte and right.type not in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                    return True
        elif node.type not in ("concatenation", "string", "heredoc_body"):
            for left, right in itertools.pairwise(children):
                if left.end_byte == right.start_byte and left.type in (*_PIECES, "variable_assignment") and right.type in _PIECES:
                    return True
        query += [child for child in children if child.child_count]
    return False


def below(node: Node, kinds: frozenset[str]) -> list[Node]:
    found: list[Node] = []
    queue = [node]
    while queue:
        each = queue.pop()
        if each.type in kinds:
            found.append(each)
        queue += each.children
    return found


_JOIN = re.compile(rb"(\\*)\\\n")


def joined_lines(text: str) -> str:
    """Takes continued lines together, as bash does before it reads words; the grammar takes the break for a space."""
    if "\\\n" not in text:
        return text
    kept = _Spans((node.start_byte, node.end_byte) for node in below(parsed(text), frozenset({"comment", "raw_string", "heredoc_body"})))

    def one(match: re.Match[bytes]) -> bytes:
        escaped = len(match[1]) % 2 == 1
        return match[0] if escaped or match.end() - 2 in kept else match[1]

    return _JOIN.sub(one, text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")


def overlooked(body: Node, text: str) -> bool:
    """The grammar takes backquotes in a here-document for text, and what stands first in one with indented lines too."""
    inside = _Spans((each.start_byte - body.start_byte, each.end_byte - body.start_byte) for each in below(body, _EXPANSIONS))
    found = re.finditer(rb"(\\*)(`|\$[({\[])", text.encode("utf-8", "surrogatepass"))
    return any(len(match[1]) % 2 == 0 and match.start(2) not in inside for match in found)


class _Spans:
    """Stretches of a text, asked for many places."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(spans):  # one inside another adds nothing
            if not self._ends or end > self._ends[-1]:
                self._starts.append(start)
                self._ends.append(end)

    def __contains__(self, at: int) -> bool:
        index = bisect.bisect_right(self._starts, at) - 1
        return index >= 0 and at < self._ends[index]


def assigned_below(node: Node) -> dict[str, bool]:
    """Names a loop may assign, also through builtins that take names; True: only ever numbers."""
    names: dict[str, bool] = {}
    for each in below(node, frozenset({"variable_assignment", "command"})):
        text = (each.text or b"").decode("utf-8", "replace")
        if each.type == "variable_assignment":
            value = each.child_by_field_name("value")
            number = value is not None and value.type in ("arithmetic_expansion", "number") and "+=" not in text
            for name in re.findall(r"^\w+", text):
                names[name] = number and names.get(name, True)
        elif text.split(maxsplit=1)[:1] and text.split(maxsplit=1)[0] in (*ASSIGNING, "command", "builtin"):
            names.update(dict.fromkeys(re.findall(r"[A-Za-z_]\w*", text), False))
    return names


def changes_folder(node: Node) -> bool:
    return any(re.match(rb"(cd|pushd|popd|chdir)\b", each.text or b"") for each in below(node, frozenset({"command"})))
