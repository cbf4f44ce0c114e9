"""Calls that a model wrote as text. They are calls when the whole answer is nothing else, or when
they stand at its end in the markers of a chat template; whatever else looks like one is shown to
the person, never run (docs/decisions/0029)."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from channels.record import record
from ohmo.contracts.messages import Json

_THOUGHT = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_FENCE = re.compile(r"```([\w-]*)[^\S\n]*\n?(.*?)```", re.DOTALL)
# What begins a call in the chat templates of Qwen and Hermes, GLM, Qwen Coder, Mistral, Granite,
# Llama, Phi, DeepSeek, Gemma and of Claude's older models, and what ends it; None: the end of the
# answer.
_MARKERS: tuple[tuple[str, str | None], ...] = (
    (r"<tool_calls?>", r"</tool_calls?>"),
    (r"<function_calls?>", r"</function_calls?>"),
    (r"(?=<function=)", r"(?<=</function>)"),
    (r"(?=<invoke )", r"(?<=</invoke>)"),
    (r"\[TOOL_CALLS\]", r"(?=\[TOOL_CALLS\])|</s>"),
    (r"\[TOOL_CALL\]", r"\[/TOOL_CALL\]"),
    (r"<\|tool_call\|>", r"<\|/tool_call\|>"),
    (r"<\|python_tag\|>", r"<\|eom_id\|>|<\|eot_id\|>"),
    (r"functools(?=\[)", None),
    (r"<｜tool▁calls▁begin｜>", r"<｜tool▁calls▁end｜>"),
    (r"<｜tool▁call▁begin｜>", r"<｜tool▁call▁end｜>"),
    (r"```tool_c(?:all|ode)\s", r"```"),
)
_OPENING = [(re.compile(begins), ends and re.compile(ends)) for begins, ends in _MARKERS]
# before a marker: the start, a line end, or the end of a sentence
_BEFORE = re.compile(r"(?:\A|[\n.!?:。！？：>])[^\S\n]*\Z")
_NAMES = ("name", "tool", "tool_name", "function_name", "function")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "tool_input", "params")
_BESIDE = {"id", "type", "call_id", "index", "thought", "reasoning"}
_WRAPPERS = ("tool_calls", "function_call", "tool_call", "function", "calls")


@record
class WrittenCall:
    """``arguments``: None where they cannot be read; ``alone``: one value without a name."""

    name: str
    arguments: Mapping[str, Json] | None
    alone: tuple[Json, ...] = ()


@record
class Written:
    """``certain``: these are calls, not words about calls. ``broken``: there was a call, and it
    cannot be read."""

    calls: tuple[WrittenCall, ...] = ()
    certain: bool = False
    broken: bool = False


Parse = Callable[[str], Json]  # raises ValueError for what cannot be read without guessing


def written(text: str, knows: Callable[[str], bool], parse: Parse) -> Written:
    """What of an answer is calls. ``knows``: whether a tool can be meant by a name."""
    bare = _THOUGHT.sub("", text, count=1).strip()
    marked = _marked(bare)
    if marked is not None:
        found = [_calls(body, parse, knows) for body in marked]
        calls = [call for each in found for call in each or ()]
        return Written(tuple(calls), certain=True, broken=not all(found))
    fence = _FENCE.fullmatch(bare)
    whole = fence[2].strip() if fence else bare
    calls = _calls(whole, parse, knows)
    if calls:
        return Written(tuple(calls), certain=True)
    if calls is None and _begun(whole, knows):
        return Written(certain=True, broken=True)
    return Written(tuple(_shown(bare, parse, knows)))


def _marked(text: str) -> list[str] | None:
    """What stands between the markers that end the answer; None: it does not end so."""
    starts = [
        (match.start(), match.end(), ends)
        for begins, ends in _OPENING
        if (match := _first(begins, text)) is not None
    ]
    if not starts:
        return None
    bodies: list[str] = []
    at = min(starts)[0]
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        opened = [(match, ends) for begins, ends in _OPENING if (match := begins.match(text, at))]
        if not opened:
            return None  # words behind it
        match, ends = max(opened, key=lambda each: each[0].end())
        closing = ends.search(text, match.end() + 1) if ends is not None else None
        bodies.append(text[match.end() : closing.start() if closing else len(text)].strip())
        at = closing.end() if closing else len(text)
    return bodies


def _first(begins: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Outside of code and of quotes."""
    for match in begins.finditer(text):
        before = text[: match.start()]
        quoted = before.rpartition("\n")[2].lstrip().startswith((">", "|"))
        if before.count("```") % 2 == 0 and not quoted and _BEFORE.search(before):
            return match
    return None


def _calls(text: str, parse: Parse, knows: Callable[[str], bool]) -> list[WrittenCall] | None:
    """Empty: there is none in it; None: it cannot be read."""
    readable = _tagged(text, parse) or _python(text, knows)
    if readable:
        return readable
    try:
        values = _values(text, parse)
    except ValueError:
        return None
    found = [_of_json(value, knows) for value in values]
    return [call for each in found for call in each] if all(found) else []


def _values(text: str, parse: Parse) -> list[Json]:
    """JSON values one behind the other. Raises ValueError."""
    values: list[Json] = []
    decoder = json.JSONDecoder()
    at = 0
    try:
        while text[at:].strip(" \t\r\n,;"):
            at += len(text[at:]) - len(text[at:].lstrip(" \t\r\n,;"))
            value, at = decoder.raw_decode(text, at)
            values.append(value)
    except (ValueError, RecursionError):
        if text[:1] not in ("{", "["):
            raise ValueError("this is no JSON") from None
        values = [parse(text)]
    if not all(isinstance(value, dict | list) for value in values):
        raise ValueError("neither an object nor a list")
    return values


def _of_json(value: Json, knows: Callable[[str], bool]) -> list[WrittenCall]:
    """The calls an object or a list is; empty: it is something else."""
    if isinstance(value, list):
        inner = [_of_json(each, knows) for each in value]
        return [call for each in inner for call in each] if all(inner) else []
    if not isinstance(value, dict):
        return []
    for wrapper in _WRAPPERS:
        if wrapper in value and value.keys() - {wrapper} <= _BESIDE:
            return _of_json(value[wrapper], knows)
    names = [key for key in _NAMES if isinstance(value.get(key), str)]
    given = [key for key in _ARGUMENTS if key in value]
    if len(names) == 1 and len(given) <= 1 and value.keys() - {*names, *given} <= _BESIDE:
        name = str(value[names[0]])
        arguments = value[given[0]] if given else None
        if isinstance(arguments, str):
            with_text = _loaded(arguments)
            return [WrittenCall(name, with_text)] if with_text is not None else []
        return [WrittenCall(name, arguments)] if isinstance(arguments, dict) else []
    if len(value) == 1:
        (name, arguments), *_ = value.items()
        if knows(name) and isinstance(arguments, dict):
            return [WrittenCall(name, arguments)]
    return []


def _loaded(text: str) -> dict[str, Json] | None:
    try:
        value: object = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Json]", value) if isinstance(value, dict) else None


def _tagged(text: str, parse: Parse) -> list[WrittenCall]:
    """``<function=Read><parameter=…>`` (Qwen Coder), ``<invoke name="Read">`` (Claude),
    ``Read<arg_key>`` (GLM), ``Read{…}`` and ``Read[ARGS]{…}`` (Mistral), and DeepSeek's."""
    found: list[WrittenCall] = []
    rest = text
    for outer, inner in (
        (r"<function=\"?([^>\s\"]+)\"?>(.*?)</function>", r"<parameter=([^>]+)>(.*?)</parameter>"),
        (
            r"<invoke name=\"([^\"]+)\">(.*?)</invoke>",
            r"<parameter name=\"([^\"]+)\"[^>]*>(.*?)</parameter>",
        ),
        (
            r"\A\s*([\w.-]+)\s*((?:<arg_key>.*?</arg_value>\s*)+)\Z",
            r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>",
        ),
    ):
        for match in re.finditer(outer, text, re.DOTALL):
            given = re.findall(inner, match[2], re.DOTALL)
            if re.sub(inner, "", match[2], flags=re.DOTALL).strip():
                return []
            values: dict[str, Json] = {key.strip(): _plain(value) for key, value in given}
            found.append(WrittenCall(match[1], values))
            rest = rest.replace(match[0], "", 1)
    if found:
        return [] if rest.strip() else found
    named = re.fullmatch(
        r"(?:<｜tool▁call▁begin｜>)?(?:function)?(?:<｜tool▁sep｜>)?\s*([A-Za-z][\w.-]*)\s*"
        r"(?:\[ARGS\]|\n```json\n)?\s*(\{.*\})\s*(?:```)?\s*(?:<｜tool▁call▁end｜>)?",
        text,
        re.DOTALL,
    )
    if named is None:
        return []
    try:
        value = parse(named[2])
    except ValueError:
        return []
    return [WrittenCall(named[1], value)] if isinstance(value, dict) else []


def _plain(value: str) -> str:
    """Text between two tags: one line end at each side belongs to them."""
    return value.removeprefix("\n").removesuffix("\n")


def _python(text: str, knows: Callable[[str], bool]) -> list[WrittenCall]:
    """``Read(file_path="a")``, several, or a list of them."""
    try:
        tree = ast.parse(text.strip())
        nodes: list[ast.expr] = []
        for statement in tree.body:
            if not isinstance(statement, ast.Expr):
                return []
            value = statement.value
            nodes += value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
        return [_python_call(node, knows) for node in nodes]
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return []


def _python_call(node: ast.expr, knows: Callable[[str], bool]) -> WrittenCall:
    """Raises ValueError for anything but a call of a known name with values."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
        (node,) = node.args  # as Gemma writes it
    if not isinstance(node, ast.Call) or not knows(ast.unparse(node.func)):
        raise ValueError("no call of a tool")
    named: dict[str, Json] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError("** in a call")
        named[keyword.arg] = ast.literal_eval(keyword.value)
    json.dumps(named)  # bytes, sets and complex numbers are no arguments
    alone = tuple(cast("Json", ast.literal_eval(each)) for each in node.args)
    return WrittenCall(ast.unparse(node.func), named, alone)


def _begun(text: str, knows: Callable[[str], bool]) -> bool:
    """Whether a text that cannot be read was to be a call of a tool there is."""
    if text[:1] in ("{", "["):
        name = re.search(r"[\"'](?:name|tool|tool_name|function)[\"']\s*:\s*[\"']([^\"']+)", text)
    else:
        name = re.match(r"([A-Za-z_][\w.]*)\(", text)
    return name is not None and knows(name[1])


def _shown(text: str, parse: Parse, knows: Callable[[str], bool]) -> list[WrittenCall]:
    """Calls within words: to be asked about, not to be run."""
    outside = _FENCE.sub("", text)
    candidates = [fence[2].strip() for fence in _FENCE.finditer(text)]
    candidates += re.findall(r"<tool_call>\s*(\{.*?\})\s*(?:</tool_call>|\Z)", outside, re.DOTALL)
    candidates += [line.strip().strip("`") for line in outside.splitlines() if "{" in line]
    found = [call for each in candidates for call in _calls(each, parse, knows) or ()]
    for match in re.finditer(r"\b[A-Z]\w*\([^()\n]*\)", outside):
        found += _python(match[0], knows)
    return [call for call in found if knows(call.name)]


def words_of(call: WrittenCall) -> Sequence[str]:
    """Name and arguments of a call as the words they are made of, whatever form it was written
    in."""
    return [call.name, *_leaves(dict(call.arguments or {})), *map(str, call.alone)]


def _leaves(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value if isinstance(value, str) else json.dumps(value)
