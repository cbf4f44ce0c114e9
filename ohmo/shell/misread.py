"""Whether tree-sitter's bash grammar takes for plain text what bash takes for something else,
and which text bash runs as it counts. What the grammar cannot be trusted with is given up."""

from __future__ import annotations

import re

from tree_sitter import Node

_COMMENTED = re.compile(rb"(?:^|[;&|()<>`]|(?<!\\)[ \t\n])$")  # before a comment
_RUNS = re.compile(rb"`|\$\(|\$\[|\$\{|[<>]\(")
_RUNS_QUOTED = re.compile(rb"`|\$\(|\$\[|\$\{")  # in double quotes
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
# Names of elements are evaluated as bash counts, also those in the value of a variable (bash(1),
# "ARITHMETIC EVALUATION"); so are prompts.
_COUNTED = re.compile(rb"\w\[[^\]]*(?:`|\$\(|\$\{|\\[$`xuU0-7])")
_PROMPT = re.compile(rb"@P\}$|^PS[04]\+?=")
_TEXT = frozenset({"raw_string", "ansi_c_string", "comment", "heredoc_body", "heredoc_end"})
_COUNTS = frozenset({"raw_string", "ansi_c_string", "string_content"})


def misread(root: Node) -> bool:
    """Whether a comment of the tree is none, or bash runs what is a mere text there."""
    nodes = [(root, False)]  # and whether it stands in double quotes
    source = root.text or b""
    while nodes:
        node, quoted = nodes.pop()
        kind = node.type
        if kind == "comment":
            before = source[max(0, node.start_byte - 2) : node.start_byte]
            if _COMMENTED.search(before) is None:
                return True
        elif _runs(node, quoted=quoted):
            return True
        if kind in ("string", "translated_string"):
            quoted = True
        elif kind in ("command_substitution", "process_substitution"):
            quoted = False
        nodes += ((child, quoted) for child in node.children)
    return False


def _runs(node: Node, *, quoted: bool) -> bool:
    text = node.text or b""
    if node.type in ("expansion", "variable_assignment") and _PROMPT.search(text) is not None:
        return True
    if node.type in _COUNTS and _COUNTED.search(text) is not None:
        return True
    if node.type == "command_substitution":  # in backquotes a backslash hides others
        return text.startswith(b"`") and b"\\" in text
    if node.children or not node.is_named:
        return False
    if node.type in _TEXT:  # which single quotes are not in "${a:-'...'}"
        return quoted and node.type == "raw_string" and _RUNS_QUOTED.search(text) is not None
    form = _RUNS_QUOTED if quoted or node.type == "heredoc_content" else _RUNS
    return form.search(_ESCAPED.sub(b"", text)) is not None
