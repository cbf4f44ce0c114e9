"""Makes a model's answer fit the house: known tool names, an id of its own for every call, never
nothing."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from ohmo.contracts.errors import Empty
from ohmo.contracts.messages import ModelStep, Text, ToolCall
from ohmo.contracts.provider import ModelEvent, ModelRequest, Reply
from ohmo.ids import NewId
from ohmo.providers.cover import Call
from ohmo.providers.streams import streaming

DECLINED = "The model declined to answer this."
LENGTH = "The answer did not fit into the allowed length."


def repair(call: Call, new_id: NewId) -> Call:
    """Every call gets an id of the house, unique for ever (models reuse theirs); the model's stays
    in ``foreign``. An empty answer raises Empty, so that it is asked again; a tool name nobody
    knows stays and ends as an error result."""

    async def repaired(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async with streaming(call, request) as events:
            async for event in events:
                if isinstance(event, Reply):
                    yield replace(
                        event, step=whole(event.step, [tool.name for tool in request.every], new_id)
                    )
                else:
                    yield event

    return repaired


def whole(step: ModelStep, tools: Sequence[str], new_id: NewId) -> ModelStep:
    """The step with names and ids put right. Raises Empty when it says nothing and calls
    nothing."""
    blocks = tuple(
        replace(block, id=new_id(), name=tool_name(block.name, tools))
        if isinstance(block, ToolCall)
        else block
        for block in step.blocks
    )
    if not any(
        isinstance(block, ToolCall) or (isinstance(block, Text) and block.text.strip())
        for block in blocks
    ):
        if step.stop == "end":
            raise Empty(f"{step.model} gave an empty answer.")
        blocks = (*blocks, Text(DECLINED if step.stop == "refusal" else LENGTH))
    return replace(step, blocks=blocks)


def tool_name(name: str, tools: Sequence[str]) -> str:
    """``functions.read_file`` is never guessed to be another tool; ``functions.read`` and ``READ``
    are Read, when there is exactly one."""
    if name in tools:
        return name
    plain = _plain(re.sub(r"^(?:functions?|tools?|default_api)[.:/]", "", name.strip()))
    found = [tool for tool in tools if _plain(tool) == plain]
    return found[0] if len(found) == 1 else name


def _plain(name: str) -> str:
    return re.sub(r"[\s_\-]", "", name).lower()
