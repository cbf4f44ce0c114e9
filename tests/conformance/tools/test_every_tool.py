"""What holds for every tool that is found, also for those that come later."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from channels.contract import Address, ChatId
from ohmo.ambient import IdSource
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.cron import JobTools
from ohmo.contracts.messages import Image
from ohmo.contracts.provider import Payer
from ohmo.contracts.tool import CallContext, Judged, Tool
from ohmo.contracts.turns import Accepted, Seat
from ohmo.cron.desk import CronDesk, DeskParts
from ohmo.permissions.policy import paths_of
from ohmo.permissions.sensitive_paths import SensitivePaths
from ohmo.skills.shelf import BUNDLED, Place, Skills
from ohmo.tools.catalogue import load_tools, tool_specs
from ohmo.tools.inputs import explain, schema_for_model
from ohmo.tools.systems import ImageService, OtherHouse, SearchService, Systems
from ohmo.tools.tool_search import LISTING
from ohmo.tools.workbench import Workbench
from ohmo_testing.house import ManualClock
from tests.makers import call_context
from tests.store_model.store import MemoryStore
from tests.unit.memory.memories import memory

NINE = {"Read", "Write", "Edit", "Glob", "Grep", "Bash", "TodoWrite", "WebFetch", "AskUser"}
GOOD: dict[str, dict[str, Any]] = {
    "Read": {"file_path": "a.txt"},
    "Write": {"file_path": "a.txt", "content": "x"},
    "Edit": {"file_path": "a.txt", "old_string": "x", "new_string": "y"},
    "MultiEdit": {"file_path": "a.txt", "edits": [{"old_string": "x", "new_string": "y"}]},
    "Glob": {"pattern": "*.txt"},
    "Grep": {"pattern": "x", "-i": True, "-C": 2, "output_mode": "content"},
    "Bash": {"command": "echo x", "timeout": 5, "description": "say x"},
    "BashOutput": {"bash_id": "bash_1"},
    "KillShell": {"shell_id": "bash_1"},
    "TodoWrite": {"todos": [{"content": "a", "status": "pending"}]},
    "WebFetch": {"url": "http://127.0.0.1/", "prompt": "x"},
    "AskUser": {"question": "why?", "choices": ["a", "b"]},
    "ToolSearch": {"query": "select:BashOutput"},
    "Symbols": {"operation": "document", "path": "a.txt"},
    "GitStatus": {"paths": ["a.txt"]},
    "GitDiff": {"revision": "HEAD~1..HEAD", "stat": True},
    "GitLog": {"limit": 5, "full": True},
    "GitCommit": {"message": "why", "paths": ["a.txt"]},
    "ProjectTests": {"tests": ["test_a.py"], "timeout": 5},
    "Brief": {"message": "look", "attachments": ["a.txt"]},
    "CronCreate": {"prompt": "tea!", "every": "1h", "name": "tea"},
    "CronDelete": {"name": "tea"},
    "CronList": {"name": "tea"},
    "MemoryWrite": {"subject": "Tea", "content": "green", "aliases": ["cha"], "about": "workspace"},
    "MemoryRead": {"name": ""},
    "MemorySearch": {"query": "tea"},
    "ArchiveSearch": {"query": "tea"},
    "MemoryForget": {"name": "tea"},
    "CronToggle": {"name": "tea", "enabled": False},
    "NotebookEdit": {"notebook_path": "a.ipynb", "cell_number": 0, "new_source": "x"},
    "WebSearch": {"query": "saola"},
    "RemoteTrigger": {"name": "other", "payload": {"a": 1}},
    "Skill": {"name": "ci-report"},
    "EnterPlanMode": {},
    "ExitPlanMode": {"plan": "1. look"},
    "Sleep": {"seconds": 1, "reason": "a moment"},
    "Config": {"key": "sessions.busy", "value": "queue"},
    "ImageToText": {"path": "a.txt", "question": "what?"},
    "ImageGeneration": {"prompt": "a saola", "path": "a.png", "size": "auto"},
}
SURFACE = {  # what models and people already know these by
    "Read": "file_path offset limit char_offset",
    "Write": "file_path content",
    "Edit": "file_path old_string new_string replace_all",
    "MultiEdit": "file_path edits",
    "Bash": "command timeout run_in_background terminal network hosts description",
    "Glob": "pattern path",
    "Grep": "pattern path glob type output_mode -i -n -A -B -C head_limit multiline",
    "WebFetch": "url prompt",
    "TodoWrite": "todos",
    "AskUser": "question choices",
    "ToolSearch": "query",
    "BashOutput": "bash_id",
    "KillShell": "shell_id",
    "GitStatus": "repository paths",
    "GitDiff": "repository paths revision staged stat",
    "GitLog": "repository paths revision limit full",
    "GitCommit": "message paths",
    "ProjectTests": "path tests timeout",
    "Brief": "message attachments",
    "NotebookEdit": "notebook_path cell_id cell_number new_source cell_type edit_mode",
    "WebSearch": "query",
    "RemoteTrigger": "name payload",
    "EnterPlanMode": "",
    "ExitPlanMode": "plan",
    "Sleep": "seconds reason",
    "ArchiveSearch": "query limit",
    "Config": "key value",
    "ImageToText": "path question",
    "ImageGeneration": "prompt path size",
}


class Paper:
    """A configuration that takes everything."""

    def read(self, key: str) -> str:
        return f"{key}\n"

    def refuse(self, key: str, value: str) -> None:
        pass

    def write(self, key: str, value: str) -> str:
        return f"{key} is {value}"


async def seen(image: Image, question: str, payer: Payer) -> str:
    return "a saola"


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    """Everything a tool may speak to is there, so that every tool is."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)

    async def publish(wake: Wake) -> Accepted:
        return (await store.accept([(wake, Seat("", "wake"))]))[0]

    async def here(thread: str) -> Address:
        return Address("slack", "T1", ChatId(thread))

    async def nothing_asked(_: object) -> None:
        return

    def resolve(text: str) -> Address:
        return Address("slack", "T1", ChatId(text))

    desk = CronDesk(
        DeskParts(
            store,
            publish,
            resolve,
            lambda _: "",
            (tmp_path,),
            "UTC",
            IdSource(),
            clock,
            nothing_asked,
        )
    )
    nowhere = "http://127.0.0.1:9"
    systems = Systems(
        search=SearchService("searxng", nowhere),
        images=ImageService(nowhere, "painter"),
        remotes={"other": OtherHouse(f"{nowhere}/hooks/x", "secret")},
        settings=Paper,
        see=seen,
    )
    return Workbench(
        tmp_path / "spill",
        SensitivePaths(tmp_path / "home"),
        cron=JobTools(desk, here),
        memory=memory(tmp_path),
        skills=Skills([Place("bundled", BUNDLED, owned=True)], store, lambda _: None, {}),
        place=here,
        steps=store.steps,
        systems=systems,
    )


@pytest.fixture
def tools(bench: Workbench) -> dict[str, Tool[Any]]:
    return dict(load_tools(bench))


@pytest.fixture
def context(tmp_path: Path) -> CallContext:
    (tmp_path / "a.txt").write_text("x\n")
    return call_context(tmp_path, 60)


def judged(tool: Tool[Any], arguments: BaseModel, context: CallContext) -> CallContext:
    """As if a gate that forbids nothing had just allowed the call."""
    paths = paths_of(tool.footprint(arguments, context.cwd), context.cwd)
    return replace(
        context, judged=Judged(tuple(map(Path, paths.reads)), tuple(map(Path, paths.writes)))
    )


def nodes(schema: object) -> list[dict[str, Any]]:
    if isinstance(schema, dict):
        return [schema, *(node for value in schema.values() for node in nodes(value))]
    return [node for value in schema for node in nodes(value)] if isinstance(schema, list) else []


def test_the_nine_are_there_and_every_tool_is_tried_here(tools: dict[str, Tool[Any]]) -> None:
    assert set(tools) >= NINE
    assert set(tools) == set(GOOD)


def test_arguments_have_the_names_that_are_known(tools: dict[str, Tool[Any]]) -> None:
    shown = {spec.name: spec.schema["properties"] for spec in tool_specs(tools)}
    for name, arguments in SURFACE.items():
        assert isinstance(shown[name], dict)
        assert sorted(shown[name]) == sorted(arguments.split())


def test_the_model_sees_flat_and_short_schemas(tools: dict[str, Tool[Any]]) -> None:
    for spec in tool_specs(tools):
        for node in nodes(dict(spec.schema)):
            assert not {"$ref", "$defs", "anyOf", "allOf", "title"} & {
                key
                for key in node
                if not isinstance(node.get("properties"), dict) or key != "properties"
            }
        assert spec.schema["type"] == "object"
        assert "$" not in spec.description
        # ToolSearch names all that is kept back, within a bound of its own.
        assert len(spec.description) < (500 + LISTING if spec.name == "ToolSearch" else 500)


def test_the_tools_of_a_first_request_cost_few_tokens(tools: dict[str, Tool[Any]]) -> None:
    first = [spec for spec in tool_specs(tools) if not spec.deferred]
    text = json.dumps(
        [
            {"name": spec.name, "description": spec.description, "parameters": spec.schema}
            for spec in first
        ]
    )
    # a rough count, above what o200k_base makes of JSON
    pieces = re.findall(r"[A-Za-z]+|\d|[^\w\s]+", text)
    assert len(pieces) < 1900
    assert len(text) < 6500


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_footprint_is_declared_without_touching_anything(
    tools: dict[str, Tool[Any]], name: str, tmp_path: Path
) -> None:
    tool = tools[name]
    before = sorted(tmp_path.rglob("*"))
    footprint = tool.footprint(tool.input.model_validate(GOOD[name]), tmp_path)
    assert all(path.is_absolute() for path in (*footprint.reads, *footprint.writes))
    assert not (footprint.writes and footprint.effect in ("none", "house"))
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", sorted(GOOD))
async def test_a_call_ends_in_exactly_one_result_of_its_own(
    tools: dict[str, Tool[Any]], context: CallContext, name: str
) -> None:
    tool = tools[name]
    given = tool.input.model_validate(GOOD[name])
    output = await tool.run(given, judged(tool, given, context))
    assert output.result.call == context.call
    assert output.result.text


@pytest.mark.parametrize("name", sorted(GOOD))
async def test_a_call_may_be_cancelled_at_once(
    tools: dict[str, Tool[Any]], context: CallContext, name: str
) -> None:
    tool = tools[name]
    given = tool.input.model_validate(GOOD[name])
    running = asyncio.create_task(tool.run(given, judged(tool, given, context)))
    await asyncio.sleep(0)
    running.cancel()
    done, _ = await asyncio.wait({running}, timeout=30)
    assert done == {running}
    # or it was done before it could be cancelled
    assert running.cancelled() or running.result().result.text
    assert not [path.name for path in context.cwd.rglob(".*.????????")]


@pytest.mark.parametrize("name", sorted(GOOD))
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"nonsense": 1},
        {"file_path": 5, "pattern": [], "command": None, "todos": "x", "url": {}},
    ],
)
def test_arguments_that_do_not_fit_name_the_field(
    tools: dict[str, Tool[Any]], name: str, arguments: dict[str, Any]
) -> None:
    if not arguments and "required" not in schema_for_model(tools[name].input):
        return
    with pytest.raises(ValidationError) as wrong:
        tools[name].input.model_validate(arguments)
    text = explain(wrong.value)
    assert text.startswith(f"{name}: the arguments do not fit; nothing was run.")
    assert all(re.match(r"- `[\w.-]+`|\.\.\. and", line) for line in text.splitlines()[1:])
    assert "pydantic" not in text


class Nested(BaseModel):
    inner: int = Field(default=1, description="a number")


class Complicated(BaseModel):
    many: list[Nested]
    maybe: Nested | None = None
    name: str | None = Field(default=None, description="who")
    title: str = "x"
    table: dict[str, int] = {}


def test_a_complicated_model_comes_out_flat() -> None:
    schema = schema_for_model(Complicated)
    assert schema == {
        "type": "object",
        "properties": {
            "many": {
                "items": {
                    "properties": {"inner": {"description": "a number", "type": "integer"}},
                    "type": "object",
                },
                "type": "array",
            },
            "maybe": {
                "properties": {"inner": {"description": "a number", "type": "integer"}},
                "type": "object",
            },
            "name": {"type": "string", "description": "who"},
            "title": {"type": "string"},
            "table": {"type": "object"},
        },
        "required": ["many"],
    }
