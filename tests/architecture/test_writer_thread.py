"""What the store calls back in its writer thread is seen by its type and by its mark, and does
nothing there that a thread may not."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture.house_report import ROOT, parsed

SHAPES = {  # parameter and result of what the store calls back: ohmo/contracts/inwriter.py
    ("Asked", "PostRow"),
    ("OutRow", "PostRow"),
    ("Arrival", "UserStep"),
    ("Sequence[Inbound | Reacted]", "UserStep | None"),
    ("Claim", "bool"),
    ("Arrival", "BegunUnder"),
    ("str", "Remains"),
}


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in sorted((ROOT / "ohmo").rglob("*.py")):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def is_marked(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "in_writer" for one in node.decorator_list)


def shape(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, str] | None:
    taken = [one for one in node.args.args if one.arg != "self"]
    if len(taken) != 1 or taken[0].annotation is None or node.returns is None:
        return None
    return ast.unparse(taken[0].annotation), ast.unparse(node.returns)


def trespasses(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """What it does that only the event loop's own thread may do."""
    if isinstance(node, ast.AsyncFunctionDef):
        yield "is a coroutine"
    for inner in ast.walk(node):
        match inner:
            case ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                yield "awaits"
            case ast.Global() | ast.Nonlocal():
                yield "binds a name of somebody else"
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                yield f"changes {ast.unparse(inner)}"
            case ast.Subscript(value=ast.Attribute(), ctx=ast.Store() | ast.Del()):
                yield f"changes {ast.unparse(inner)}"
            case ast.Name(id="asyncio"):
                yield "touches the loop"
            case _:
                pass


def test_what_the_store_is_handed_to_call_back_has_a_name_that_says_where_it_runs() -> None:
    """``listen`` is the exception: hints are told on the loop."""
    contract = ast.parse((ROOT / "ohmo" / "contracts" / "store.py").read_text(encoding="utf-8"))
    methods = [
        node
        for node in ast.walk(contract)
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef)
    ]
    plain = [
        method.name
        for method in methods
        for arg in [*method.args.args, *method.args.kwonlyargs]
        if "Callable" in ast.unparse(arg)
    ]
    assert plain == ["listen"]


def test_every_function_of_such_a_shape_bears_the_mark() -> None:
    found = [(where, node) for where, node in functions() if shape(node) in SHAPES]
    assert len(found) > len(SHAPES), "the shapes are not recognised any more"
    assert [where for where, node in found if not is_marked(node)] == []


def test_nothing_that_bears_the_mark_awaits_changes_anything_or_touches_the_loop() -> None:
    marked = [(where, node) for where, node in functions() if is_marked(node)]
    assert marked
    assert [f"{where} {what}" for where, node in marked for what in trespasses(node)] == []
