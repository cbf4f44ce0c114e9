"""The tool Symbols: what it answers through the process that reads code, and what it never shows."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tool_calls import Call, judged

from ohmo.contracts.errors import BadArguments
from ohmo.contracts.messages import ToolResult
from ohmo.contracts.tool import CallContext
from ohmo.tools.code import worker
from ohmo.tools.symbols import Symbols
from ohmo.tools.workbench import Workbench


@pytest.fixture(autouse=True)
async def ended(bench: Workbench) -> AsyncIterator[None]:
    yield
    await bench.close()


@pytest.fixture
def project(work: Path) -> Path:
    (work / ".git").mkdir()
    (work / "pkg").mkdir()
    (work / "pkg" / "__init__.py").write_text("from .core import run\n")
    (work / "pkg" / "core.py").write_text(
        'def run(times: int) -> str:\n    """Runs it.\n\n    More."""\n    return "x" * times\n'
    )
    (work / "main.py").write_text("import pkg\n\npkg.run(2)  # run\n")
    (work / "a.ts").write_text("export class Thing { go(): void {} }\n")
    return work


async def test_each_operation_answers_in_a_few_words(call: Call, project: Path) -> None:
    outline = await call("Symbols", operation="document", path="pkg/core.py")
    assert outline.text == "pkg/core.py: 1 symbols\n1-5 def run(times: int) -> str"
    found = await call("Symbols", operation="workspace", query="thi")
    assert found.text == "a.ts:1 class Thing"
    definition = await call("Symbols", operation="definition", path="main.py", line=3, name="run")
    assert definition.text == "pkg/core.py:1-5 def run(times: int) -> str"
    by_column = await call("Symbols", operation="definition", path="main.py", line=3, column=6)
    assert by_column.text == definition.text
    hover = await call("Symbols", operation="hover", name="run")
    assert hover.text == "pkg/core.py:1-5 def run(times: int) -> str\n  Runs it."
    uses = await call("Symbols", operation="references", name="run")
    assert uses.text == (
        "3 references to run (pkg/core.py:1)\nmain.py\n  3: pkg.run(2) # run\npkg/__init__.py\n"
        "  1: from .core import run\npkg/core.py\n  1: def run(times: int) -> str:"
    )


async def test_what_changed_is_read_again(call: Call, project: Path) -> None:
    await call("Symbols", operation="references", name="run")
    (project / "main.py").write_text("from pkg import run as walk\nwalk(1)\n")
    uses = await call("Symbols", operation="references", name="run")
    assert "  2: walk(1)" in uses.text
    assert "pkg.run" not in uses.text


async def test_what_may_not_be_read_is_not_shown(
    call: Call, project: Path, tmp_path: Path, context: CallContext, bench: Workbench
) -> None:
    (project / ".gitignore").write_text("ignored/\n")
    (project / "ignored").mkdir()
    (project / "ignored" / "x.py").write_text("def run_ignored(): pass\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.py").write_text("def run_outside(): pass\n")
    (project / "link").symlink_to(outside)
    (project / "link.py").symlink_to(outside / "x.py")
    (project / ".ssh").mkdir()
    (project / ".ssh" / "x.py").write_text("def run_secret(): pass\n")
    (project / "denied.py").write_text("def run_denied(): pass\n")
    tool = Symbols(bench)
    given = tool.input.model_validate({"operation": "workspace", "query": "run"})
    ready = judged(tool, given, replace(context, deadline=time.monotonic() + 60))
    forbidden = replace(ready.judged, forbidden=lambda path: path.endswith("denied.py"))
    found = (await tool.run(given, replace(ready, judged=forbidden))).result.text
    assert found == "pkg/core.py:1-5 def run(times: int) -> str"
    by_name = await call("Symbols", operation="document", path=".ssh/x.py")
    assert by_name.error
    assert "run_secret" not in by_name.text


async def test_files_that_cannot_be_read_are_one_line_each(call: Call, project: Path) -> None:
    (project / "large.py").write_text("x = 1\n" * 2_000_000)
    (project / "odd.py").write_bytes(b"caf\xe9 = 1\ndef run_odd(): pass\n")
    (project / "bad.py").write_text("def run_ok(): pass\n\ndef run_bad(:\n    pass\n")
    (project / "deep.py").write_text(f"run_deep = {'(' * 3000}{')' * 3000}\n")
    (project / "pipe.py").unlink(missing_ok=True)
    os.mkfifo(project / "pipe.py")
    found = await call("Symbols", operation="workspace", query="run_")
    assert "run_odd" in found.text
    assert "run_ok" in found.text
    assert "[large.py: is 11 MiB, more than 2; Grep finds lines in it]" in found.text
    assert "[odd.py: is not UTF-8, read as Latin-1]" in found.text
    assert "[bad.py: line 3: invalid syntax" in found.text
    assert "deep.py" in found.text
    large = await call("Symbols", operation="document", path="large.py")
    assert (large.error, large.text) == (
        True,
        "large.py: is 11 MiB, more than 2; Grep finds lines in it",
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"operation": "definition", "name": "nothing"}, "nothing is called 'nothing'"),
        (
            {"operation": "definition", "path": "main.py", "line": 3, "name": "absent"},
            "'absent' is not at main.py:3",
        ),
        (
            {"operation": "hover", "path": "main.py", "line": 99, "column": 1},
            "no name is not at main.py:99",
        ),
        ({"operation": "document", "path": "absent.py"}, "no such file"),
        ({"operation": "document", "path": "pkg"}, "folder"),
        ({"operation": "document", "path": "notes.txt"}, "notes.txt: is no source code"),
        ({"operation": "workspace", "query": "zzz"}, "no symbol has 'zzz' in its name"),
    ],
)
async def test_what_is_not_there_is_said_in_one_line(
    call: Call, project: Path, arguments: dict[str, object], words: str
) -> None:
    (project / "notes.txt").write_text("x")
    result = await call("Symbols", **arguments)
    assert words in result.text
    assert "\n" not in result.text


@pytest.mark.parametrize(
    "arguments",
    [
        {"operation": "document"},
        {"operation": "workspace"},
        {"operation": "hover", "line": 3, "name": "x"},
        {"operation": "references", "path": "x", "line": 1},
    ],
)
def test_too_little_is_refused_before_anything_is_read(
    bench: Workbench, arguments: dict[str, object]
) -> None:
    with pytest.raises(BadArguments, match="needs"):
        Symbols(bench).parse(arguments)


async def test_two_of_one_name_are_listed_to_choose_from(call: Call, project: Path) -> None:
    (project / "other.py").write_text("class Other:\n    def run(self): pass\n")
    result = await call("Symbols", operation="definition", name="run")
    assert result.error
    assert result.text.split("\n") == [
        "other.py:2 def run(self) (in Other)",
        "pkg/core.py:1-5 def run(times: int) -> str",
        "[2 are called so: ask again with path and line of one]",
    ]
    assert (
        await call("Symbols", operation="definition", name="Other.run")
    ).text == "other.py:2 def run(self) (in Other)"


async def test_without_a_grammar_the_answer_names_what_to_install(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "tree_sitter_typescript", None)
    order = {
        "root": str(project),
        "paths": [str(project / "a.ts")],
        "places": [],
        "asked": ["document", str(project / "a.ts")],
    }
    assert worker.Reader().answer(order) == (
        False,
        "a.ts: is TypeScript, whose grammar is not there: pip install 'ohmo[code]'",
    )


async def test_the_loop_goes_on_while_a_long_file_is_parsed(call: Call, project: Path) -> None:
    body = "".join(
        f"def f{number}(a, b=[1, 2, {{'x': number}}]):\n    return a.b.c(number + {number})\n"
        for number in range(20_000)
    )
    (project / "long.py").write_text(body)
    asked = asyncio.ensure_future(call("Symbols", operation="document", path="long.py"))
    waits: list[float] = []
    start = time.perf_counter()
    while not asked.done():
        before = time.perf_counter()
        await asyncio.sleep(0.002)
        waits.append(time.perf_counter() - before)
    whole = time.perf_counter() - start
    assert (await asked).text.startswith("long.py: 20000 symbols")
    assert max(waits) < max(0.1, whole / 3), (max(waits), whole)


async def test_a_cancelled_question_leaves_no_process_and_the_next_is_answered(
    call: Call, bench: Workbench, project: Path
) -> None:
    await call("Symbols", operation="document", path="main.py")
    process = bench.code._process
    assert process is not None
    (project / "long.py").write_text("def f(a): return a\n" * 60_000)
    asked = asyncio.ensure_future(call("Symbols", operation="document", path="long.py"))
    await asyncio.sleep(0.1)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert process.returncode is not None
    answer: ToolResult = await call("Symbols", operation="document", path="pkg/core.py")
    assert answer.text.startswith("pkg/core.py: 1 symbols")


async def test_a_reader_that_was_killed_is_begun_again(
    call: Call, bench: Workbench, project: Path
) -> None:
    await call("Symbols", operation="document", path="main.py")
    process = bench.code._process
    assert process is not None
    process.kill()
    assert (await call("Symbols", operation="document", path="pkg/core.py")).text.startswith(
        "pkg/core.py: 1"
    )
