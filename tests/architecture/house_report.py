"""Measures the house: ``python -m tests.architecture.house_report`` prints a table per room;
with names of rooms behind it, the modules and helpers that make up their figures.

Definitions: a code line is neither blank nor comment nor docstring; a room is a package of the
second level (``ohmo.store``, ``channels.slack``); structural modules are those that are no
``__init__`` and do not stand on a shelf (one item per file, found by scanning)."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("ohmo", "channels")
# Folders of which every file is one item that a registry finds: a tool, a command, a check.
SHELVES = (
    "ohmo.commands",
    "ohmo.cli.commands",
    "ohmo.doctor.checks",
    "ohmo.providers.middleware",
    "ohmo.tools",
)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(slots=True)
class Module:
    """What was measured of one file."""

    name: str
    tree: ast.Module
    lines: int
    code: int  # lines of code
    nodes: int  # of the syntax tree, without Load, Store and Del
    long: int  # lines beyond 100 columns
    functions: int = 0
    private: list[str] = field(default_factory=list[str])
    imports: set[str] = field(default_factory=set[str])

    @property
    def room(self) -> str:
        """``ohmo.store``; modules directly in a package are a room together."""
        parts = self.name.split(".")
        return ".".join(parts[:2]) if len(parts) > 2 or self.is_package else parts[0]

    @property
    def is_package(self) -> bool:
        return self.name in packages()

    @property
    def structural(self) -> bool:
        on_shelf = any(self.name.startswith(f"{shelf}.") for shelf in SHELVES) and has_item(self)
        return not self.is_package and not on_shelf


def has_item(module: Module) -> bool:
    """Whether the module offers what a registry scans for: ``COMMAND``, ``TOOL``, ``CHECK``…"""
    for node in module.tree.body:
        names: list[str] = []
        if isinstance(node, ast.Assign):
            names = [one.id for one in node.targets if isinstance(one, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        elif isinstance(node, (*_FUNCTION, ast.ClassDef)):
            names = [node.name]
        if any(
            name in ("COMMAND", "TOOL", "TOOLS", "CHECK", "CHECKS", "LINK", "build")
            for name in names
        ):
            return True
    return False


@cache
def packages() -> frozenset[str]:
    found: set[str] = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("__init__.py"):
            found.add(".".join(path.relative_to(ROOT).parent.parts))
    return frozenset(found)


def _documentation(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def _code_lines(text: str, tree: ast.Module) -> int:
    lines: set[int] = set()
    empty = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (*empty, tokenize.ENDMARKER):
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - _documentation(tree))


def _imports(tree: ast.Module, known: frozenset[str]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for one in node.names:
                full = f"{node.module}.{one.name}"
                found.add(full if full in known else node.module)
    return found & known


@cache
def parsed(path: Path) -> ast.Module:
    """Ten rules look through every module: each is parsed once."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def modules() -> dict[str, Module]:
    """Every module of the product by its name."""
    paths: dict[str, Path] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    known = frozenset(paths)
    found: dict[str, Module] = {}
    for name, path in paths.items():
        text = path.read_text(encoding="utf-8")
        tree = parsed(path)
        lines = text.splitlines()
        made = Module(
            name=name,
            tree=tree,
            lines=len(lines),
            code=_code_lines(text, tree),
            nodes=sum(not isinstance(one, ast.expr_context) for one in ast.walk(tree)),
            long=sum(len(line) > 100 for line in lines),
            imports=_imports(tree, known) - {name},
        )
        for node in ast.walk(tree):
            if isinstance(node, _FUNCTION):
                made.functions += 1
                if node.name.startswith("_") and not node.name.startswith("__"):
                    made.private.append(node.name)
        found[name] = made
    return found


@cache
def uses() -> Counter[tuple[str, str]]:
    """How often a name is mentioned in a module, its definition aside."""
    found: Counter[tuple[str, str]] = Counter()
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Name):
                found[module.name, node.id] += 1
            elif isinstance(node, ast.Attribute):
                found[module.name, node.attr] += 1
    return found


def used_once(module: Module) -> list[str]:
    """Private functions of the module that are mentioned at one place only."""
    return [name for name in module.private if uses()[module.name, name] == 1]


@cache
def importers() -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for module in modules().values():
        for name in module.imports:
            found[name].add(module.name)
    return found


def continuations() -> list[str]:
    """Modules that only one other module imports, which stands in the same room."""
    found: list[str] = []
    for name, module in modules().items():
        who = importers().get(name, set())
        if len(who) == 1 and module.structural and modules()[next(iter(who))].room == module.room:
            found.append(name)
    return found


@dataclass(frozen=True, slots=True)
class Figures:
    """Of the whole product, or of one room."""

    modules: int
    structural: int
    lines: int
    long: int
    nodes_per_line: float
    used_once: float  # share of all functions
    continuations: float  # share of all modules


def figures(room: str | None = None) -> Figures:
    """``room``: None for the whole product."""
    some = [module for module in modules().values() if room in (None, module.room)]
    functions = sum(one.functions for one in some)
    alone = set(continuations())
    return Figures(
        modules=len(some),
        structural=sum(one.structural for one in some),
        lines=sum(one.lines for one in some),
        long=sum(one.long for one in some),
        nodes_per_line=sum(one.nodes for one in some) / max(1, sum(one.code for one in some)),
        used_once=sum(len(used_once(one)) for one in some) / max(1, functions),
        continuations=sum(one.name in alone for one in some) / max(1, len(some)),
    )


def _tell_room(room: str) -> None:
    """Each module of the room with its lines, who alone imports it, what it uses once."""
    alone = set(continuations())
    for name, module in modules().items():
        if module.room != room:
            continue
        only = f", imported only by {next(iter(importers()[name]))}" if name in alone else ""
        print(f"{name}: {module.lines} lines{only}")
        once = set(used_once(module))
        for node in ast.walk(module.tree):
            if isinstance(node, _FUNCTION) and node.name in once:
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                print(f"    {node.name} is used once: line {node.lineno}, {length} lines")


def main(rooms: list[str]) -> None:
    """Prints the whole and every room; for named rooms what the figures are made of."""
    for room in rooms:
        _tell_room(room)
    if rooms:
        return
    heads = (
        "room",
        "modules",
        "structural",
        "lines",
        "> 100",
        "nodes/line",
        "once",
        "one importer",
    )
    print("| " + " | ".join(heads) + " |")
    print("|---|" + "--:|" * (len(heads) - 1))
    for room in (None, *sorted({module.room for module in modules().values()})):
        one = figures(room)
        print(
            f"| {room or 'all'} | {one.modules} | {one.structural} | {one.lines} | {one.long}"
            f" | {one.nodes_per_line:.1f} | {one.used_once:.0%} | {one.continuations:.0%} |"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
