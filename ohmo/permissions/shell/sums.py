"""Where bash computes: a name in a sum may stand for text, and a subscript in that text runs commands. Only numbers are sure."""

from __future__ import annotations

import re
from collections.abc import Callable

from tree_sitter import Node

from ohmo.permissions.patterns import word_set
from ohmo.permissions.shell.scope import Scope

_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*|[A-Z]|FILES?|DIRS?|LINE|NAME|ITEM|COUNT|TOTAL|RESULT|START|END")  # no program asks for these
_NAME = re.compile(r"(?<![\w#])[A-Za-z_]\w*")
_SLICE = re.compile(r"\$\{!?\w+(?:\[[^\]]*\])?:(?![-=?+])(.*)\}", re.DOTALL)
_DEFAULT = re.compile(r"\$\{(\w+)(?:\[[^\]]*\])?:?=")
_INDIRECT = re.compile(r"\$\{!(\w+)(?![\w*@]|\[[@*]\])")
_COMPARISONS = word_set("-eq -ne -lt -le -gt -ge")
_LEAVES = frozenset({"variable_name", "word", "number", "raw_string", "string_content", "special_variable_name", "command_name"})

Outputs = Callable[[Node, Scope], tuple[str, ...]]
"""What a command substitution may print."""


def plain_variable(name: str) -> bool:
    """A variable of the script's own; PATH, IFS, LD_PRELOAD, GIT_* and their like change what programs do."""
    return _PLAIN_NAME.fullmatch(name) is not None


def sure_sum(node: Node, scope: Scope, outputs: Outputs) -> bool:
    """Whether everything a sum is made of is a number. Names it sets become numbers."""
    kind, text = node.type, _text(node)
    if kind == "command_substitution":
        return all(re.fullmatch(r"[-+]?\d*", value) for value in outputs(node, scope))
    if kind in ("simple_expansion", "expansion"):
        return text.startswith("${#") or (re.fullmatch(r"\$\{?\w+\}?|\$[#?$!]", text) is not None and scope.is_number(text.strip("${}")))
    if kind in _LEAVES:
        return all(scope.is_number(name) for name in _NAME.findall(text)) and not re.search(r"[$`\[]", text)
    if kind == "ERROR":
        return False
    children = node.children
    if kind in ("binary_expression", "variable_assignment") and len(children) == 3 and _text(children[1]) == "=":
        name = _text(children[0])
        if plain_variable(name) and sure_sum(children[2], scope, outputs):
            scope.count(name)
            return True
        return False
    return all(sure_sum(child, scope, outputs) for child in node.named_children)


def sure_test(node: Node, scope: Scope, outputs: Outputs) -> bool:
    """``[[ x -eq y ]]`` computes both sides; ``-v`` computes a subscript; ``[`` does only the latter."""
    operator = next((_text(child) for child in node.children if child.type == "test_operator"), "")
    if operator == "-v":
        return all(_NAME.fullmatch(_text(child)) for child in node.named_children if child.type != "test_operator")
    if operator in _COMPARISONS and not _inside_single_brackets(node):
        return all(sure_sum(child, scope, outputs) for child in node.named_children if child.type != "test_operator")
    return all(sure_test(child, scope, outputs) for child in node.named_children if child.type != "command_substitution")


def sure_expansion(node: Node, scope: Scope) -> bool:
    """``${x@P}`` runs what stands in x, ``${!x}`` what stands in its subscript, ``${x:y}`` and ``${a[y]}`` compute y."""
    text = _text(node)
    if re.search(r"@P\}$", text):
        return False
    if (slice_ := _SLICE.fullmatch(text)) is not None:
        names = _NAME.findall(slice_[1])
        if re.search(r"[`\[]|\$\(", slice_[1]) or not all(map(scope.is_number, names)):
            return False
    if (indirect := _INDIRECT.match(text)) is not None and not all(plain_variable(value) for value in scope.value(indirect[1])):
        return False
    if (default := _DEFAULT.match(text)) is not None:
        scope.forget(default[1])
        return plain_variable(default[1])
    return True


def sure_subscript(node: Node, scope: Scope, outputs: Outputs) -> bool:
    """Also of ``a[x]=1``."""
    index = node.child_by_field_name("index")
    return index is None or _text(index) in ("@", "*") or sure_sum(index, scope, outputs)


def _inside_single_brackets(node: Node) -> bool:
    above: Node | None = node
    while above is not None and above.type != "test_command":
        above = above.parent
    return above is not None and _text(above).startswith("[") and not _text(above).startswith("[[")


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
