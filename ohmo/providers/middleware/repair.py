"""Calls as models write them, put right where there is no doubt."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from ohmo.ambient import NewId
from ohmo.contracts.errors import Empty
from ohmo.contracts.messages import ModelStep, Text, ToolCall
from ohmo.contracts.provider import Call, Link, ModelEvent, ModelRequest, Reply
from ohmo.providers.middleware.link import LinkManifest
from ohmo.providers.wire_parts import streaming

DECLINED = "The model declined to answer this."
LENGTH = "The answer did not fit into the allowed length."


def repair(new_id: NewId) -> Link:
    """Every call gets an id of the house, unique for ever (models reuse theirs); the model's stays
    in ``foreign``. An empty answer raises Empty, so that it is asked again; a tool name nobody
    knows stays and ends as an error result."""

    async def repaired(request: ModelRequest, ask: Call) -> AsyncIterator[ModelEvent]:
        async with streaming(ask, request) as events:
            async for event in events:
                if isinstance(event, Reply):
                    names = [tool.name for tool in request.every]
                    yield replace(event, step=whole(event.step, names, new_id))
                else:
                    yield event

    return repaired


def whole(step: ModelStep, tools: Sequence[str], new_id: NewId) -> ModelStep:
    """The step with names and ids put right. Raises Empty when it says nothing and calls
    nothing."""
    blocks = list(step.blocks)
    says_nothing = True
    for at, block in enumerate(blocks):
        if isinstance(block, ToolCall):
            blocks[at] = replace(block, id=new_id(), name=tool_name(block.name, tools))
            says_nothing = False
        elif isinstance(block, Text) and block.text.strip():
            says_nothing = False
    if says_nothing:
        if step.stop == "end":
            raise Empty(f"{step.model} gave an empty answer.")
        blocks.append(Text(DECLINED if step.stop == "refusal" else LENGTH))
    return replace(step, blocks=tuple(blocks))


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


LINK = LinkManifest(
    "repair", lambda parts: repair(parts.new_id), after=("fallback", "retry"), required=True
)
