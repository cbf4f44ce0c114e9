"""Answers of weak models through the real client: what a person would have taken for a call ends in
that call, and nothing else runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from ohmo.contracts.messages import Json, ModelStep, Text, ToolCall
from ohmo.contracts.provider import Delta, Reply, Restarted, ToolSpec
from ohmo.discovery import load, scan
from ohmo.providers.build import manifests, model
from ohmo.providers.middleware.link import Patience
from ohmo.providers.models import Endpoint
from tests.conformance.providers.rigs import Conversation
from tests.platforms.model.script import Call, Turn
from tests.platforms.model.server import ModelServer, serving

OUTPUTS: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "data" / "broken_outputs.yaml").read_text(encoding="utf-8")
)
LEAST = 60


def spec(name: str, required: dict[str, str], **optional: str) -> ToolSpec:
    properties: dict[str, Json] = {
        key: {"type": kind} for key, kind in {**required, **optional}.items()
    }
    schema: dict[str, Json] = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolSpec(name, f"{name}s.", schema)


TOOLS = (
    spec("Read", {"file_path": "string"}, offset="integer", limit="integer"),
    spec("Write", {"file_path": "string", "content": "string"}),
    spec("Bash", {"command": "string"}, timeout="number"),
    spec("Grep", {"pattern": "string"}, path="string", ignore_case="boolean"),
    spec("Glob", {"pattern": "string"}, path="string"),
    spec("WebFetch", {"url": "string"}),
)


LIMIT = {"openai": "length", "anthropic": "max_tokens"}


def turn(wire: str, answer: dict[str, Any]) -> Turn:
    calls = tuple(Call(each["name"], each["arguments"]) for each in answer.get("calls", ()))
    stop = LIMIT[wire] if answer.get("stop") == "length" else None
    return Turn(text=answer.get("said"), calls=calls, stop=stop)


async def answered(wire: str, output: dict[str, Any]) -> tuple[ModelStep, int, str]:
    """The step, how often the model was asked, and what the person sees."""
    turns = [turn(wire, output), *([turn(wire, output["then"])] if "then" in output else [])]
    async with serving(ModelServer(turns)) as server:
        wanted = [Endpoint(wire, ("small-7b",), server.url, "key", hints=True)]
        made = await model(wanted, manifests(scan), load, {}, patience=Patience(first=0.001))
        try:
            talk = Conversation("small-7b", tools=TOOLS)
            request = talk.says("go on")
            if "read" in output:
                step = ModelStep((ToolCall("t.1", "Read", {"file_path": "n"}, "f1"),), "m", "tools")
                (call,) = talk.takes(step)
                request = talk.result(call, output["read"])
            shown = ""
            reply: Reply | None = None
            async for event in made.call(request):
                match event:
                    case Delta(text):
                        shown += text
                    case Restarted():
                        shown = ""
                    case Reply():
                        reply = event
                    case _:
                        pass
            assert reply is not None
            return reply.step, server.count, shown
        finally:
            await made.aclose()


def calls(step: ModelStep) -> list[dict[str, Any]]:
    return [
        {block.name: dict(block.arguments)} for block in step.blocks if isinstance(block, ToolCall)
    ]


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_broken_outputs_end_in_the_right_call_and_never_in_another(
    wire: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ends: Counter[str] = Counter()
    wrong: list[str] = []
    for output in OUTPUTS:
        step, asked, shown = await answered(wire, output)
        right = [] if output["right"] == "none" else output["right"]
        made = calls(step)
        assert shown == "".join(block.text for block in step.blocks if isinstance(block, Text))
        if made != right:
            kind = "wrong" if made else "missed"
            ends[kind] += 1
            wrong.append(f"{output['name']}: {kind}: {made or step.blocks}")
        else:
            ends[f"right in {asked} call{'s' if asked > 1 else ''}"] += 1
            assert asked <= 2, output["name"]
            if "then" not in output:
                assert asked == 1, output["name"]
    with capsys.disabled():
        print(f"\n{wire}: {len(OUTPUTS)} outputs: {dict(sorted(ends.items()))} {wrong}")
    assert len(OUTPUTS) >= LEAST
    assert ends["wrong"] == 0, wrong
    assert ends["missed"] <= len(OUTPUTS) * 0.05, wrong
