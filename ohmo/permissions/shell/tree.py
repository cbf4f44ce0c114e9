"""Syntax trees of shell commands, and what the grammar has to be helped with."""

from __future__ import annotations

import itertools
import re
import time

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

_LANGUAGE = Language(tree_sitter_bash.language())
_SECONDS = 0.5  # of this thread's processor time for parsing: a busy machine changes no verdict
_CHUNK, _SHORT = 1 << 16, 1000  # of source handed over at once, of source that cannot take long
ASSIGNING = frozenset({"read", "mapfile", "readarray", "printf", "getopts", "let", "unset"})
_PIECES = frozenset({"word", "concatenation", "simple_expansion", "expansion", "string", "raw_string", "number", "command_substitution"})
_EXPANSIONS = frozenset({"command_substitution", "arithmetic_expansion", "expansion"})


class TooLong(Exception):
    """The grammar would need too long for this text."""


def parsed(source: str) -> Node:
    """The syntax tree. Raises TooLong: some texts make the parser try again and again."""
    data = source.encode("utf-8", "surrogatepass")
    parser = Parser(_LANGUAGE)
    if len(data) > _SHORT:  # only a source that is read piece by piece can be given up; its nodes are slow to read, so it is parsed again
        deadline = time.thread_time() + _SECONDS
        try:
            parser.parse(lambda at, _: data[at : at + _CHUNK], progress_callback=lambda _at, _error: time.thread_time() > deadline)
        except ValueError as error:
            raise TooLong from error
    return parser.parse(data).root_node


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


_JOIN = re.compile(r"(\\*)\\\n")


def joined_lines(text: str) -> str:
    """Takes continued lines together, as bash does before it reads words; the grammar takes the break for a space."""
    if "\\\n" not in text:
        return text
    root = parsed(text)
    kept = [(node.start_byte, node.end_byte) for node in below(root, frozenset({"comment", "raw_string", "heredoc_body"}))]

    def one(match: re.Match[str]) -> str:
        at = len(text[: match.end() - 2].encode("utf-8", "surrogatepass"))
        escaped = len(match[1]) % 2 == 1
        return match[0] if escaped or any(start <= at < end for start, end in kept) else match[1]

    return _JOIN.sub(one, text)


def overlooked(body: Node, text: str) -> bool:
    """The grammar takes backquotes in a here-document for text, and what stands first in one with indented lines too."""
    inside = [(each.start_byte - body.start_byte, each.end_byte - body.start_byte) for each in below(body, _EXPANSIONS)]
    for match in re.finditer(r"(\\*)(`|\$[({\[])", text):
        at = len(text[: match.start(2)].encode("utf-8", "surrogatepass"))
        if len(match[1]) % 2 == 0 and not any(start <= at < end for start, end in inside):
            return True
    return False


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
