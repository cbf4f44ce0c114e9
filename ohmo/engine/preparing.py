"""Finds the tool of a call and reads its arguments: what it would touch, or why it cannot be
run."""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import Any

from channels.record import record
from ohmo.contracts.errors import BadArguments
from ohmo.contracts.mcp import words_of
from ohmo.contracts.messages import UNREADABLE, Layer, ToolCall
from ohmo.contracts.tool import CallContext, Footprint, Tool, Toolbox

FEW_TOOLS = 30  # so many are all named to a model that asks for one that is not there


@record
class Prepared:
    call: ToolCall
    tool: Tool[Any]
    arguments: Any
    footprint: Footprint


@record
class Refusal:
    """Why a call is not run, and which layer says so. ``taint``: whose words that brings in, as
    ``ToolResult.taint``."""

    layer: Layer
    why: str
    taint: tuple[str, ...] = ()


def prepare(toolbox: Toolbox, call: ToolCall, context: CallContext) -> Prepared | Refusal:
    tools = toolbox.tools()
    tool = tools.get(call.name)
    allowed = {spec.name: spec for spec in context.tools}
    if tool is None or (allowed and call.name not in allowed):
        names = sorted(allowed or tools)
        why = f"There is no tool named {call.name}. Tools: {', '.join(names)}."
        if len(names) > FEW_TOOLS:
            near = get_close_matches(call.name, names, n=5, cutoff=0.5)
            nearest = f" Nearest: {', '.join(near)}." if near else ""
            why = f"There is no tool named {call.name}.{nearest} ToolSearch finds others."
        return Refusal(Layer.NO_TOOL, why, words_of(name for name in names if name in why))
    schema = ""
    if call.name in context.hidden:
        # A tool may be called before ToolSearch brought it; whoever guessed its arguments wrong is
        # told what they are.
        fields = dict(allowed[call.name].schema)
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
        schema = f"\nIts arguments: {text}"
    if set(call.arguments) == {UNREADABLE}:
        written = str(call.arguments[UNREADABLE])[:500]
        why = f"{call.name}: arguments are not valid JSON: {written}{schema}"
        return Refusal(Layer.ARGUMENTS, why, words_of((call.name,)))
    try:
        arguments = tool.parse(call.arguments)
    except BadArguments as error:
        return Refusal(Layer.ARGUMENTS, f"{error}{schema}", words_of((call.name,)))
    return Prepared(call, tool, arguments, tool.footprint(arguments, context.cwd))
