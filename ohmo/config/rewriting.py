"""Changes single keys of ``config.yaml`` and leaves every other character as its owner wrote it:
comments, order, quotes, line ends."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# ruamel.yaml leaves its nodes and marks untyped

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from ruamel.yaml import YAML
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from ohmo.config.source import Plain, dotted, parse
from ohmo.contracts.errors import ConfigError

Keys = tuple[str, ...]
_STEP = 2  # columns that a new block is indented by
_PLAIN = re.compile(r"(?:env:)?[A-Za-z_][A-Za-z0-9_]*")
# Not text for every reader of YAML.
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


class CannotRewrite(ConfigError):
    """The file is written in a way that only its owner can change."""


def rewritten(text: str, changes: Mapping[Keys, Plain]) -> str:
    """``text`` with each key of ``changes`` set to its value: the value alone is replaced where the
    key stands, else a line is added behind its neighbours. Every other key has the value it had.
    Raises CannotRewrite: the text is no YAML, or cannot be changed so (an alias, a value where keys
    are expected)."""
    before = parse(text, "config.yaml")
    if before.problems:
        raise CannotRewrite(str(before.problems[0]))
    wanted: dict[str, Plain] = before.data
    result = text
    for keys, value in changes.items():
        wanted = _with(wanted, keys, value)
        result = _changed(result, keys, value)
    after = parse(result, "config.yaml")
    if after.problems or after.data != wanted:
        names = ", ".join(dotted(keys) for keys in changes)
        raise CannotRewrite(
            f"{before.place(next(iter(changes)))}: {names}: written in a way that only you can"
            " change; edit the file"
        )
    return result


def _with(table: Mapping[str, Plain], keys: Keys, value: Plain) -> dict[str, Plain]:
    if len(keys) == 1:
        return {**table, keys[0]: value}
    inner = table.get(keys[0])
    below = _with(inner if isinstance(inner, dict) else {}, keys[1:], value)
    return {**table, keys[0]: below}


def _changed(text: str, keys: Keys, value: Plain) -> str:
    root = cast("Node | None", YAML(typ="safe", pure=True).compose(text))
    if root is None or _is_null(root):
        lead = text if not text or text.endswith("\n") else f"{text}\n"
        return lead + _block(keys, value, 0, text)
    node = root
    for depth, name in enumerate(keys):
        if not isinstance(node, MappingNode):
            raise CannotRewrite(
                f"{dotted(keys[:depth])}: is a value where keys are expected; edit the file"
            )
        pairs = [pair for pair in node.value if pair[0].value == name]
        if not pairs:
            return _added(text, node, keys[depth:], value)
        key, inner = pairs[0]
        rest = keys[depth + 1 :]
        if not rest:
            return _replaced(text, key, inner, value, flow=bool(node.flow_style))
        if _is_null(inner):
            if node.flow_style:
                return _replaced(text, key, inner, _with({}, rest, value), flow=True)
            at = _line_end(text, _pair_end(text, key, inner))
            block = _block(rest, value, key.start_mark.column + _STEP, text)
            return _spliced(text, at, at, _newline(text) + block.rstrip("\r\n"))
        node = inner
    raise AssertionError("keys are never empty")


def _added(text: str, node: MappingNode, keys: Keys, value: Plain) -> str:
    if node.flow_style:
        words = _flow(_with({}, keys, value))[1:-1]  # without its braces
        if not node.value:
            at = node.start_mark.index + 1
            return _spliced(text, at, at, words)
        at = _pair_end(text, *node.value[-1])
        return _spliced(text, at, at, f", {words}")
    end = _pair_end(text, *node.value[-1])
    first_key = node.value[0][0]
    block = _block(keys, value, first_key.start_mark.column, text)
    if text[end - 1] == "\n":  # behind a literal block
        return _spliced(text, end, end, block)
    at = _line_end(text, end)
    return _spliced(text, at, at, _newline(text) + block.rstrip("\r\n"))


def _replaced(text: str, key: Node, node: Node, value: Plain, *, flow: bool) -> str:
    start = node.start_mark.index
    end = _pair_end(text, key, node)
    words = _flow(value)
    if _is_unwritten(node):
        return _spliced(text, _colon(text, key), end, f" {words}")
    if not isinstance(node, CollectionNode) or node.flow_style:
        if text[end - 1] == "\n" and not flow:
            words += "\n"
        return _spliced(text, start, end, words)
    whole = _spliced(text, _colon(text, key), end, f" {words}")
    if not isinstance(node, SequenceNode) or not isinstance(value, list):
        return whole
    items = [str(item.value) for item in node.value if isinstance(item, ScalarNode)]
    remaining = [item for item in items if item in value]
    added = [item for item in value if item not in items]
    if not remaining or len(items) != len(node.value) or [*remaining, *added] != value:
        return whole
    # Items were added or taken away: those that stay keep their lines and remarks.
    first = node.value[0].start_mark.index
    lead = _newline(text) + text[_line_start(text, first) : first]
    at = _line_end(text, end)
    result = _spliced(text, at, at, "".join(lead + _flow(item) for item in added))
    for item in reversed(node.value):
        if item.value not in value:
            start = _line_start(text, item.start_mark.index)
            end = min(_line_end(result, _end(text, item)) + 1, len(result))
            result = _spliced(result, start, end, "")
    return result


def _block(keys: Keys, value: Plain, column: int, text: str) -> str:
    """``keys`` below each other, the value behind the last."""
    newline = _newline(text)
    lines: list[str] = []
    for key in keys:
        lines.append(" " * column + f"{_scalar(key)}:")
        column += _STEP
    return newline.join(lines) + f" {_flow(value)}{newline}"


def _end(text: str, node: Node) -> int:
    """Behind the last character of it: the mark of a block stands behind the remarks that follow
    it."""
    if isinstance(node, CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _pair_end(text, *last) if isinstance(last, tuple) else _end(text, last)
    return cast("int", node.end_mark.index)


def _pair_end(text: str, key: Node, node: Node) -> int:
    return _colon(text, key) if _is_unwritten(node) else _end(text, node)


def _colon(text: str, key: Node) -> int:
    """Behind the colon that follows ``key``."""
    return text.find(":", key.end_mark.index) + 1


def _is_unwritten(node: Node) -> bool:
    """A key with nothing behind its colon: its mark stands at whatever comes next."""
    return isinstance(node, ScalarNode) and node.start_mark.index == node.end_mark.index


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    if end < 0:
        end = len(text)
    if end > at and text[end - 1] == "\r":
        end -= 1
    return end


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and str(node.tag).endswith(":null")


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _spliced(text: str, start: int, end: int, words: str) -> str:
    return text[:start] + words + text[end:]


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        pairs = [f"{_scalar(key)}: {_flow(inner)}" for key, inner in value.items()]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    return _scalar(value) if isinstance(value, str) else json.dumps(value)


def _scalar(value: str) -> str:
    """JSON is YAML; a plain word and a reference such as env:NAME stay readable."""
    plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    return value if plain else json.dumps(value, ensure_ascii=False)
