"""A workbench with its own folders, and one way to call a tool as the engine does."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tool_calls import Call, judged

from ohmo.contracts.messages import ToolResult
from ohmo.contracts.tool import CallContext
from ohmo.permissions.sensitive_paths import SensitivePaths
from ohmo.tools.catalogue import load_tools
from ohmo.tools.search.engine import find_ripgrep
from ohmo.tools.workbench import Workbench
from tests.makers import call_context


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    home = tmp_path / "home"
    home.mkdir()
    environ = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "SLACK_BOT_TOKEN": "xoxb-secret",
        "LANG": "C.UTF-8",
    }
    return Workbench(
        tmp_path / "spill",
        SensitivePaths(home, home / ".ohmo"),
        environ=environ,
        ripgrep=find_ripgrep(None),
    )


@pytest.fixture
def context(work: Path) -> CallContext:
    return call_context(work, 300)


@pytest.fixture
def call(bench: Workbench, context: CallContext) -> Call:
    tools = load_tools(bench)

    async def run(name: str, /, *, context: CallContext = context, **arguments: Any) -> ToolResult:
        tool = tools[name]
        given = tool.input.model_validate(arguments)
        ready = replace(judged(tool, given, context), deadline=time.monotonic() + 300)
        output = await tool.run(given, ready)
        assert output.result.call == context.call
        return output.result

    return run
