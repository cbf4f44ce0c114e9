"""The walks of ``docs/architecture.md`` lead where they say, and stay short."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from tests.architecture.house_report import modules

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
ROOMS = 8
CHANGES = 12


@dataclass(frozen=True)
class Stop:
    """One row of a walk. ``by``: the name it hands on by, "" at the end of a part, "returns" to who
    called."""

    file: str
    function: str
    by: str
    hint: bool

    @property
    def module(self) -> str:
        return self.file.removesuffix(".py").replace("/", ".")

    @property
    def room(self) -> str:
        return ".".join(self.module.split(".")[:2])

    @property
    def name(self) -> str:
        return self.function.rpartition(".")[2]


def walks() -> dict[str, list[Stop]]:
    part = PAGE.read_text(encoding="utf-8").partition("## Three walks")[2].partition("\n## ")[0]
    row = re.compile(r"^\| `([^`]+)` \| `([^`]+)` \| [^|]+ \|([^|]*)\|$", re.MULTILINE)
    found: dict[str, list[Stop]] = {}
    for title, text in re.findall(r"^### (.+?)\n(.*?)(?=^### |\Z)", part, re.MULTILINE | re.DOTALL):
        stops = [
            Stop(file, function, by.replace("hint", "").strip(" `"), "hint" in by)
            for file, function, by in row.findall(text)
        ]
        assert len(stops) == text.count("\n| `"), f"{title}: a row has another form"
        found[title] = stops
    return found


def functions(module: str) -> dict[str, ast.AST]:
    """By ``name`` and ``Class.name``."""
    found: dict[str, ast.AST] = {}
    for node in modules()[module].tree.body:
        for inner in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
                found[prefix + inner.name] = inner
    return found


def mentioned(stop: Stop) -> set[str]:
    """By the function and by what it calls in its own module. Raises KeyError when there is no such
    function."""
    known = functions(stop.module)
    open_, seen, found = [stop.function], set[str](), set[str]()
    while open_:
        name = open_.pop()
        seen.add(name)
        found |= words(known[name])
        open_ += [one for one in known if one not in seen and one.rpartition(".")[2] in found]
    return found


HINTS = {"ready": "ready", "post": "spoke"}  # hint -> the method of Moment that gives it


def gives(stop: Stop) -> set[str]:
    """By the function and whatever it calls in its room, wherever that stands."""
    known: dict[str, list[ast.AST]] = {}
    for module in modules().values():
        if module.room == stop.room:
            for name, node in functions(module.name).items():
                known.setdefault(name.rpartition(".")[2], []).append(node)
    open_, seen, found = [functions(stop.module)[stop.function]], set[str](), set[str]()
    while open_:
        called = words(open_.pop())
        found |= called
        for name in called & known.keys() - seen:
            seen.add(name)
            open_ += known[name]
    return found


def words(tree: ast.AST) -> set[str]:
    """Names and short constants that are mentioned."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.keyword(arg=str(name)):
                found.add(name)
            case ast.Constant(value=str(name)):
                found.add(name)
            case _:
                pass
    return found


def test_there_are_three() -> None:
    assert len(walks()) == 3
    assert all(walks().values())


@pytest.mark.parametrize("title", walks())
def test_every_stop_is_there_and_mentions_what_it_hands_on_by(title: str) -> None:
    for stop in walks()[title]:
        if stop.hint:
            assert HINTS[stop.by] in gives(stop), stop
        else:
            assert stop.by in mentioned(stop) | {"", "returns"}, stop


@pytest.mark.parametrize("title", walks())
def test_what_a_stop_hands_on_by_leads_to_the_next_one(title: str) -> None:
    """It is the next function's name, a hint that function listens to, or a name that the next
    one's room or the assembly ties to the next function's."""
    for here, there in pairwise(walks()[title]):
        if here.by in ("", "returns") or here.module == there.module:
            continue
        if here.hint:
            assert here.by in mentioned(there), f"{there} hears no {here.by}"
            continue
        by = here.by.lstrip("_")
        tying = [
            module for module in modules().values() if module.room in ("ohmo.assembly", there.room)
        ]
        tied = any({by, there.name} <= words(one.tree) for one in tying)
        assert by == there.name.lstrip("_") or tied, f"{here} does not lead to {there}"


@pytest.mark.parametrize("title", walks())
def test_a_walk_stays_within_eight_rooms_and_twelve_changes(title: str) -> None:
    rooms = [stop.room for stop in walks()[title]]
    assert len(set(rooms)) <= ROOMS
    assert sum(here != there for here, there in pairwise(rooms)) <= CHANGES
