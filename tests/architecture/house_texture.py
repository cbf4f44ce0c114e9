"""Measures the whole product's shape and texture: ``python -m tests.architecture.house_texture``
prints one figure a line, by the definitions under which other projects were measured beside it."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from statistics import quantiles

from tests.architecture.house_report import ROOT, continuations, modules, used_once

_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def functions() -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, _FUNCTION):
                yield node


def spread(numbers: Iterable[int]) -> str:
    """Median / 90th percentile / most."""
    some = sorted(numbers)
    tenths = quantiles(some, n=10, method="inclusive")
    return f"{tenths[4]:.0f} / {tenths[8]:.0f} / {some[-1]}"


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return sum(one.arg not in ("self", "cls") for one in given)


def comments() -> int:
    count = 0
    for path in (
        path for package in ("ohmo", "channels") for path in (ROOT / package).rglob("*.py")
    ):
        text = path.read_text(encoding="utf-8")
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        count += sum(token.type == tokenize.COMMENT for token in tokens)
    return count


def broad(node: ast.AST) -> bool:
    if not isinstance(node, ast.ExceptHandler):
        return False
    names = {"Exception", "BaseException"}
    caught = (
        [one.id for one in ast.walk(node.type) if isinstance(one, ast.Name)] if node.type else []
    )
    return node.type is None or bool(names & set(caught))


def main() -> None:
    everything = list(modules().values())
    nodes = [node for module in everything for node in ast.walk(module.tree)]
    lines = sum(module.lines for module in everything)
    code = sum(module.code for module in everything)
    all_functions = list(functions())
    lengths = [(node.end_lineno or node.lineno) - node.lineno + 1 for node in all_functions]
    widths = [parameters(node) for node in all_functions if node.name == "__init__"]
    texts = [
        line for path in (ROOT / "tests").rglob("*.py") for line in path.open(encoding="utf-8")
    ]
    long = {
        bound: sum(
            len(line.rstrip("\n")) > bound
            for package in ("ohmo", "channels")
            for path in (ROOT / package).rglob("*.py")
            for line in path.open(encoding="utf-8")
        )
        for bound in (100, 120, 140)
    }
    inside = sum(
        isinstance(inner, ast.Import | ast.ImportFrom)
        for node in all_functions
        for inner in ast.walk(node)
    )
    imports = sum(isinstance(node, ast.Import | ast.ImportFrom) for node in nodes)
    tuples = sum(
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
        for node in nodes
    )
    comprehensions = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    once = sum(len(used_once(module)) for module in everything)
    figures = {
        "modules": len(everything),
        "lines": lines,
        "module median / p90 / max": spread(module.lines for module in everything),
        "modules over 400 lines": sum(module.lines > 400 for module in everything),
        "function median / p90 / max": spread(lengths),
        "functions over 60 lines": f"{sum(one > 60 for one in lengths) / len(lengths):.1%}",
        "in-function imports": f"{inside} ({inside / imports:.1%})",
        "broad except": sum(broad(node) for node in nodes),
        "tests : source": f"{len(texts) / lines:.2f}",
        "__init__ width median / p90 / max": spread(widths),
        "functions with more than 6 parameters": f"{sum(parameters(node) > 6 for node in all_functions) / len(all_functions):.1%}",
        "one-importer modules": f"{len(continuations()) / len(everything):.0%}",
        "edges per module": f"{sum(len(module.imports) for module in everything) / len(everything):.1f}",
        "nodes per code line": f"{sum(module.nodes for module in everything) / code:.1f}",
        "columns over 100 / 120 / 140": " / ".join(
            f"{count / lines:.2%}" for count in long.values()
        ),
        "comment share": f"{comments() / lines:.1%}",
        "functions per 1000 lines": f"{1000 * len(all_functions) / lines:.0f}",
        "private, used once": f"{once / len(all_functions):.0%}",
        "ternaries / comprehensions / tuple assignments per 1000 code lines": " / ".join(
            f"{1000 * count / code:.1f}"
            for count in (
                sum(isinstance(node, ast.IfExp) for node in nodes),
                sum(isinstance(node, comprehensions) for node in nodes),
                tuples,
            )
        ),
    }
    for name, figure in figures.items():
        print(f"{name}: {figure}")


if __name__ == "__main__":
    main()
