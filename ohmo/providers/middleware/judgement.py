"""What an answer of a weak model is: the calls it meant where there is no doubt, else the exact
fault."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from difflib import get_close_matches
from typing import cast

from channels.record import record
from ohmo.ambient import NewId
from ohmo.contracts.messages import (
    UNREADABLE,
    CallResult,
    Compaction,
    Json,
    ModelStep,
    Text,
    ToolCall,
    ToolResult,
    UserStep,
)
from ohmo.contracts.provider import ModelRequest, ToolSpec
from ohmo.providers.middleware.arguments import fitted, nearly_json, plain_name
from ohmo.providers.middleware.call_text import WrittenCall, words_of, written
from ohmo.providers.middleware.recovery import RECOVERY, Fault

SAME = 2  # equal calls with equal results after which the next one is a loop
_SHORT = 600  # characters of an answer that is nothing but a promise
_CUT = "The call was cut off before its end."
_UNREADABLE = "The call cannot be read: it is no valid JSON."
_NOT_RUN = "Not run: another call of this answer was broken. Send all of them again."
# announces what it then does not do; only in English
_PROMISE = re.compile(
    r"\b(?:I(?:['’]ll| will| am going to|['’]m going to| need to)|let me|let['’]s)\b[^.!?\n]*?"
    r"\b(?:us(?:e|ing)|call(?:ing)?|run(?:ning)?|invok(?:e|ing))\b[^!?\n]*",
    re.IGNORECASE,
)
_ACTION = re.compile(r"^Action:\s*(\w+)\s*\nAction Input:", re.MULTILINE)  # as in ReAct


@record
class Judged:
    """``said``: the answer as it came; ``step``: what it was meant to be; ``fault``: None when that
    is beyond doubt; ``faults``: in words, of a call of ``said`` by its id, or under "" of the whole
    answer."""

    said: ModelStep
    step: ModelStep
    fault: Fault | None = None
    faults: Mapping[str, str] = field(default_factory=dict[str, str])


@record
class _Meant:
    """A call with what is wrong with it."""

    name: str
    arguments: Mapping[str, Json]
    fault: Fault | None = None
    wrong: str = ""


def judge(step: ModelStep, request: ModelRequest, new_id: NewId) -> Judged:
    """``step``: with ids of the house."""
    tools = {tool.name: tool for tool in request.every}
    calls = [block for block in step.blocks if isinstance(block, ToolCall)]
    if not calls:
        return _read(step, request, tools, new_id)
    blocks = list(step.blocks)
    faults: dict[str, str] = {}
    first: Fault | None = None
    for at, block in enumerate(blocks):
        if not isinstance(block, ToolCall):
            continue
        meant = _native(block, tools)
        blocks[at] = replace(block, name=meant.name, arguments=meant.arguments)
        wrong = meant.wrong
        fault = meant.fault
        if fault is None and _repeated(meant, request):
            fault = Fault.LOOP
            wrong = f"You have made this call of {meant.name} before, with the same result."
        if fault is not None:
            faults[block.id] = wrong
            first = first or fault
    return Judged(step, replace(step, blocks=tuple(blocks)), first, faults)


def once_more(request: ModelRequest, judged: Judged) -> ModelRequest:
    """The request whose answer is to be without the fault."""
    assert judged.fault is not None
    told = RECOVERY[judged.fault].told
    calls = [block for block in judged.said.blocks if isinstance(block, ToolCall)]
    results = [
        CallResult(
            ToolResult(
                call.id,
                f"{judged.faults[call.id]} {told}" if call.id in judged.faults else _NOT_RUN,
                error=True,
            )
        )
        for call in calls
    ]
    line = Text(f"{judged.faults.get('', '')} {told}")
    after = results or [UserStep((line,), "ohmo", "notice")]
    return replace(request, steps=(*request.steps, judged.said, *after))


def tool_name(name: str, tools: Sequence[str]) -> str:
    """``functions.read_file`` is never guessed to be another tool; ``functions.read`` and ``READ``
    are Read, when there is exactly one."""
    if name in tools:
        return name
    plain = plain_name(re.sub(r"^(?:functions?|tools?|default_api)[.:/]", "", name.strip()))
    found = [tool for tool in tools if plain_name(tool) == plain]
    return found[0] if len(found) == 1 else name


def _read(
    step: ModelStep, request: ModelRequest, tools: Mapping[str, ToolSpec], new_id: NewId
) -> Judged:
    """An answer of words alone."""
    text = "".join(block.text for block in step.blocks if isinstance(block, Text))

    def knows(name: str) -> bool:
        return tool_name(name, list(tools)) in tools

    found = written(text, knows, lambda raw: nearly_json(raw, open_end=step.stop == "end"))
    foreign = list(_foreign(request))
    if step.stop == "refusal" or any(_quoted(words_of(call), foreign) for call in found.calls):
        return Judged(step, step)
    meant = [_mended(call, tools) for call in found.calls]
    if not found.certain:
        shown = [call.name for call in meant if call.fault is None]
        shown += [match[1] for match in _ACTION.finditer(text) if match[1] in tools]
        if len(text) < _SHORT and not shown:
            spoken = re.findall(r"\w+", " ".join(_PROMISE.findall(text)))
            shown = [word for word in spoken if word in tools]
        if shown:
            name = shown[0]
            line = f"The answer speaks of a call of {name}, and calls nothing."
            return Judged(step, step, Fault.PROSE, {"": line})
        return Judged(step, step)
    cut = step.stop == "length"
    if found.broken or cut:
        if _quoted(re.findall(r"\w+", text), foreign):
            return Judged(step, step)
        return Judged(step, step, Fault.MALFORMED, {"": _CUT if cut else _UNREADABLE})
    for call in meant:
        if call.fault is not None:
            return Judged(step, step, call.fault, {"": call.wrong})
    blocks = [block for block in step.blocks if not isinstance(block, Text)]
    blocks += [ToolCall(new_id(), call.name, call.arguments, "") for call in meant]
    meant_step = replace(step, blocks=tuple(blocks), stop="tools")
    if any(_repeated(call, request) for call in meant):
        line = "You have made this same call before, with the same result."
        return Judged(step, meant_step, Fault.LOOP, {"": line})
    return Judged(step, meant_step)


def _native(call: ToolCall, tools: Mapping[str, ToolSpec]) -> _Meant:
    """A call that came as one."""
    arguments: Mapping[str, Json] | None = call.arguments
    if set(call.arguments) == {UNREADABLE}:
        try:
            value = nearly_json(str(call.arguments[UNREADABLE]), open_end=False)
            arguments = value if isinstance(value, dict) else None
        except ValueError:
            arguments = None
    meant = _mended(WrittenCall(call.name, arguments), tools)
    if meant.fault is None:
        return meant
    return replace(meant, name=call.name, arguments=call.arguments)


def _mended(call: WrittenCall, tools: Mapping[str, ToolSpec]) -> _Meant:
    name = tool_name(call.name, list(tools))
    tool = tools.get(name)
    if tool is None:
        near = get_close_matches(name, tools, n=3, cutoff=0.5)
        there = ", ".join(near or list(tools)[:12])
        wrong = f"There is no tool named {name[:60]!r}; there is {there}."
        return _Meant(name, call.arguments or {}, Fault.UNKNOWN_TOOL, wrong)
    if call.arguments is None:
        return _Meant(name, {}, Fault.MALFORMED, f"{name}: the arguments are no valid JSON.")
    given = dict(call.arguments)
    fields = cast("Mapping[str, Json]", tool.schema.get("properties") or {})
    inner = given.get("arguments")
    if isinstance(inner, dict) and given.keys() <= {"name", "arguments"} - fields.keys():
        given = inner  # a call within the arguments of itself
    if call.alone:
        needed = cast("list[str]", tool.schema.get("required") or [])
        if len(call.alone) > 1 or given or len(needed) != 1:
            return _Meant(name, given, Fault.ARGUMENTS, f"{name}: give each argument its name.")
        given = dict(zip(needed, call.alone, strict=True))
    fit = fitted(given, tool.schema)
    if fit.wrong:
        return _Meant(name, fit.arguments, Fault.ARGUMENTS, f"{name}: {fit.wrong}.")
    return _Meant(name, fit.arguments)


def _repeated(call: _Meant, request: ModelRequest) -> bool:
    """Whether it has been made ``SAME`` times since anybody spoke, with one result."""
    made: dict[str, ToolCall] = {}
    results: list[str] = []
    for step in request.steps:
        match step:
            case UserStep(source="message" | "steer" | "wake"):
                results.clear()
            case ModelStep(blocks):
                made |= {block.id: block for block in blocks if isinstance(block, ToolCall)}
            case CallResult(result) if result.call in made:
                before = made[result.call]
                if (before.name, before.arguments) == (call.name, call.arguments):
                    results.append(result.text)
            case _:
                pass
    return len(results) >= SAME and len(set(results[-SAME:])) == 1


def _foreign(request: ModelRequest) -> Iterator[str]:
    """The words of the request that are neither the model's nor of the person who speaks to it: a
    call that stands there is quoted, never meant."""
    for step in request.steps:
        match step:
            case CallResult(result):
                yield result.text
            case UserStep(blocks, _, source, bot) if bot or source in ("context", "memory", "hook"):
                yield from (block.text for block in blocks if isinstance(block, Text))
            case Compaction(summary, carry=carry):
                yield from (summary, carry)
            case _:
                pass


# what forms of calls are made of besides name and arguments
_FRAME = frozenset(
    (
        *("name", "tool", "tool_name", "function", "function_name", "functions", "type", "id"),
        *("function_call", "function_calls", "tool_call", "tool_calls", "invoke", "json"),
        *("arguments", "args", "parameters", "parameter", "params", "input", "tool_input"),
        *("arg_key", "arg_value"),
    )
)


def _quoted(words: Sequence[str], foreign: Sequence[str]) -> bool:
    """Whether the words stand one behind the other in foreign ones, in whatever form of a call."""
    wanted = _plain(" ".join(words))
    return any(f" {wanted} " in f" {_plain(text)} " for text in foreign)


def _plain(text: str) -> str:
    return " ".join(word for word in re.findall(r"\w+", text.casefold()) if word not in _FRAME)
