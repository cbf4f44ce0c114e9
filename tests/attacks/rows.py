"""The list of ``lists/``: what is tried, with which calls, as whom, in which mode, and what must not
happen. One file holds one category; docs/evidence/attacks.md counts them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import yaml

from tests.platforms.model.script import Call

LISTS = Path(__file__).parent / "lists"
Who = Literal["owner", "user", "guest"]
Mode = Literal["default", "plan", "full_auto"]


@dataclass(frozen=True)
class Row:
    """``calls``: what the model calls, one after the other. ``said``: a person's own words instead
    (a slash command). ``expects``: benign rows only, whether it runs ``unasked`` or is ``asked``
    about."""

    category: str
    number: int
    tried: str
    who: Who
    mode: Mode
    calls: tuple[Call, ...]
    said: str = ""
    expects: Literal["", "unasked", "asked"] = ""

    @property
    def name(self) -> str:
        return f"{self.category}-{self.number:03d}"

    @property
    def input(self) -> str:
        return " then ".join(f"{call.name} {call.text}" for call in self.calls) or self.said

    @property
    def shown(self) -> str:
        return f"{self.name} ({self.tried}; {self.who}, {self.mode}): {self.input[:600]}"


def rows(category: str) -> list[Row]:
    """Of one file: every input once in each of its modes."""
    text = (LISTS / f"{category}.yaml").read_text(encoding="utf-8")
    found: list[Row] = []
    for group in yaml.load(text, yaml.CSafeLoader):
        for calls, said in _inputs(group):
            for mode in group.get("modes", ["default"]):
                who, expects = group.get("as", "owner"), group.get("expects", "")
                tried = group["tried"]
                row = Row(category, len(found), tried, who, mode, calls, said, expects)
                found.append(row)
    return found


def _inputs(group: Mapping[str, Any]) -> Iterator[tuple[tuple[Call, ...], str]]:
    """``commands``: a shell command a line (behind ``%`` a Python string); ``calls``: one call each;
    ``chains``: several, one after the other; ``says``: words. ``first``: calls before each."""
    before = tuple(map(_call, group.get("first", ())))
    for line in group.get("commands", "").splitlines():
        if line.strip():
            command = eval_text(line[1:]) if line.startswith("%") else line
            yield (*before, Call("Bash", {"command": command})), ""
    for call in group.get("calls", ()):
        yield (*before, _call(call)), ""
    for chain in group.get("chains", ()):
        yield (*before, *map(_call, chain)), ""
    for words in group.get("says", ()):
        yield (), words


def _call(written: Mapping[str, Any] | str) -> Call:
    if isinstance(written, str):
        return Call("Bash", {"command": written})
    ((name, arguments),) = written.items()
    return Call(name, arguments)


def eval_text(expression: str) -> str:
    """A string, or a string times a number: long inputs are not written out."""
    text, times, count = expression.rpartition(" * ")
    if times and count.isdecimal():
        return str(ast.literal_eval(text.strip())) * int(count)
    return str(ast.literal_eval(expression.strip()))


def filled(call: Call, names: Mapping[str, str]) -> Call:
    """``@HOME@`` and the like, wherever they stand in the arguments."""

    def fill(value: Any) -> Any:
        if isinstance(value, str):
            for name, real in names.items():
                value = value.replace(f"@{name}@", real)
            return value
        if isinstance(value, list):
            return list(map(fill, cast("list[Any]", value)))
        if isinstance(value, dict):
            return {key: fill(one) for key, one in cast("dict[str, Any]", value).items()}
        return value

    assert not isinstance(call.arguments, str)
    return Call(call.name, {key: fill(value) for key, value in call.arguments.items()})
