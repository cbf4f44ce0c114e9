"""Reads a file of hooks in any of its three shapes: ours, Claude Code's settings, and lists whose
entries name ``events`` and a ``type`` in capitals."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from ohmo.config.source import Source, parse
from ohmo.contracts.hooks import EVENTS, HookEvent
from ohmo.contracts.sandbox import Terms
from ohmo.hooks import claude_settings
from ohmo.hooks.hook import MOST, SHELL, USUAL, Action, Endpoint, Hook, HookFile, Program, Prompt
from ohmo.hooks.matching import wrong_condition, wrong_names

_KEYS = {
    *("name", "on", "match", "if", "type", "command", "prompt", "url", "headers", "env"),
    *("timeout", "model", "sandbox"),
}
_SEED_KEYS = {
    *("name", "events", "type", "command", "prompt", "url", "headers", "matcher", "tools"),
    *("timeout", "can_block", "enabled", "description", "priority"),
}
_LONGEST_NAME = 80  # characters
_PLACE = re.compile(r"\{([a-z_]+)\}")
_OPERATORS = re.compile(r"[|&;<>`$\n]")
_EVALUATES = {"-c", "-e", "--eval", "eval", "-lc", "-ec", "-ic"}


class _Wrong(Exception):
    """``key``: of the entry."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


def read(text: str, file: str) -> HookFile:
    """``file``: how it is named to people; also the place in a plugin's manifest, which is JSON.
    Never raises: what cannot be read is ``broken``."""
    if file.endswith((".json", " hooks")):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            return HookFile(broken=f"{file}: not valid JSON: {error}")
        if not isinstance(data, dict):
            return HookFile(broken=f"{file}: expected an object")
        return claude_settings.read(cast("dict[str, Any]", data), file)
    source = parse(text, file)
    if source.problems:
        return HookFile(broken=str(source.problems[0]))
    hooks = source.data.get("hooks", [])
    if claude_settings.is_claude(hooks):
        return claude_settings.read(source.data, file)
    if extra := [key for key in source.data if key != "hooks"]:
        problem = source.problem((extra[0],), "unknown key; a file of hooks holds `hooks` only")
        return HookFile(broken=str(problem))
    if "hooks" not in source.data:
        return HookFile(broken=f"{file}: there is no `hooks`; write `hooks: []` for none")
    if not isinstance(hooks, list):
        return HookFile(broken=str(source.problem(("hooks",), "expected a list")))
    return _listed(cast("list[Any]", hooks), source, file)


def _listed(entries: list[Any], source: Source, file: str) -> HookFile:
    """One that is wrong breaks the file: who relies on a hook that refuses must not lose it."""
    made: list[Hook] = []
    findings: list[str] = []
    for number, written in enumerate(entries):
        path = ("hooks", number)
        if not isinstance(written, dict):
            return HookFile(broken=str(source.problem(path, "expected keys and values")))
        entry = cast("dict[str, Any]", written)
        shape: Callable[[Mapping[str, Any], str, int], Hook | None]
        shape = _seed if "events" in entry else _own
        try:
            hook = shape(entry, file, number + 1)
        except _Wrong as wrong:
            return HookFile(broken=str(source.problem((*path, wrong.key), str(wrong))))
        if hook is None:
            findings.append(f"{file}: hooks[{number + 1}] is off (enabled: false)")
            continue
        made.append(hook)
        if "subagent_end" in hook.events:
            findings.append(f"{file}: {hook.name}: subagent_end: there are no subagents yet")
    if double := {hook.name for hook in made if sum(h.name == hook.name for h in made) > 1}:
        return HookFile(broken=f"{file}: two hooks are called {min(double)}; rename one")
    return HookFile(tuple(made), tuple(findings))


def _own(entry: Mapping[str, Any], file: str, number: int) -> Hook:
    _known(entry, _KEYS)
    events = _events(entry, "on", lambda word: word)
    type_ = _text(entry, "type", "command")
    action = _walled(_action(entry, type_), entry)
    tools, condition = _text(entry, "match", "*"), _text(entry, "if", "")
    if tools not in ("", "*") and not {"pre_tool_use", "post_tool_use"} & set(events):
        raise _Wrong("match", "names tools; only pre_tool_use and post_tool_use have one")
    if wrong := wrong_names(tools):
        raise _Wrong("match", wrong)
    if wrong := wrong_condition(condition):
        raise _Wrong("if", wrong)
    return Hook(
        name=_name(entry, number),
        file=file,
        dialect="own",
        events=events,
        action=action,
        tools=tools,
        condition=condition,
        timeout=_seconds(entry, action),
    )


def _action(entry: Mapping[str, Any], type_: str) -> Action:
    match type_:
        case "command":
            command = entry.get("command")
            if isinstance(command, list) and command:
                return Program(tuple(map(str, cast("list[Any]", command))))
            if isinstance(command, str) and command.strip():
                return Program((*SHELL, command))
            raise _Wrong("command", "expected a program with its arguments, as a list or a line")
        case "http":
            url = _text(entry, "url", "")
            if not url.startswith(("http://", "https://")):
                raise _Wrong("url", "expected http:// or https://")
            headers: Any = entry.get("headers") or {}
            variables: Any = entry.get("env") or []
            if not isinstance(headers, dict) or not isinstance(variables, list):
                raise _Wrong("headers", "expected keys and values, and `env` as a list of names")
            texts = cast("dict[str, Any]", headers)
            pairs = {str(key): str(value) for key, value in texts.items()}
            return Endpoint(url, pairs, tuple(map(str, cast("list[Any]", variables))))
        case "prompt" | "agent":
            text = _text(entry, "prompt", "")
            if not text.strip():
                raise _Wrong("prompt", "expected the words a model is asked")
            return Prompt(text, _text(entry, "model", ""), agent=type_ == "agent")
        case other:
            raise _Wrong("type", f"{other!r} is none of command, http, prompt, agent")


def _walled(action: Action, entry: Mapping[str, Any]) -> Action:
    """``sandbox``: off, or what it may read and write beyond."""
    if "sandbox" not in entry:
        return action
    written: Any = entry["sandbox"]
    if not isinstance(action, Program):
        raise _Wrong("sandbox", "is for type: command; nothing else is run")
    if written == "off":
        return replace(action, terms=Terms(off=True))
    places: dict[str, tuple[str, ...]] = {}
    for key, row in cast(
        "dict[str, Any]", written if isinstance(written, dict) else {"": 0}
    ).items():
        if key not in ("read", "write") or not isinstance(row, list):
            raise _Wrong("sandbox", "expected off, or read and write with lists of places")
        places[key] = tuple(map(str, cast("list[Any]", row)))
    return replace(action, terms=Terms(read=places.get("read", ()), write=places.get("write", ())))


def _seed(entry: Mapping[str, Any], file: str, number: int) -> Hook | None:
    _known(entry, _SEED_KEYS)
    if entry.get("enabled") is False:
        return None
    events = _events(entry, "events", str.lower)
    type_ = _text(entry, "type", "COMMAND").lower()
    if type_ == "command":
        action: Action = _placed(entry)
    else:
        action = _action(entry, type_)
    tools = entry.get("tools", entry.get("matcher", "*"))
    tools = "|".join(map(str, cast("list[Any]", tools))) if isinstance(tools, list) else str(tools)
    if wrong := wrong_names(tools):
        raise _Wrong("matcher", wrong)
    can_block = entry.get("can_block", True)
    if not isinstance(can_block, bool):
        raise _Wrong("can_block", "expected true or false")
    return Hook(
        name=_name(entry, number),
        file=file,
        dialect="seed",
        events=events,
        action=action,
        tools=tools,
        timeout=_seconds(entry, action),
        may_block=can_block,
    )


def _placed(entry: Mapping[str, Any]) -> Program:
    """A line with placeholders becomes words first and is filled then: a file's name is one word,
    whatever stands in it, and no shell reads it."""
    line = _text(entry, "command", "")
    try:
        argv = tuple(shlex.split(line))
    except ValueError as error:
        raise _Wrong("command", f"cannot be read as words: {error}") from error
    if not argv:
        raise _Wrong("command", "expected a program with its arguments")
    places = set(_PLACE.findall(line))
    if not places:
        return Program((*SHELL, line))
    if other := places - {"file"}:
        text = f"{{{min(other)}}} fills prompts only; a program reads the event on standard input"
        raise _Wrong("command", text)
    if _EVALUATES & set(argv) or _OPERATORS.search(line):
        text = "{file} is never pasted into a shell; read it from the JSON on standard input"
        raise _Wrong("command", text)
    return Program(argv, placed=True)


def _known(entry: Mapping[str, Any], keys: set[str]) -> None:
    for key in entry:
        if key not in keys:
            raise _Wrong(key, f"unknown key; a hook has {', '.join(sorted(keys))}")


def _events(
    entry: Mapping[str, Any], key: str, spelled: Callable[[str], str]
) -> tuple[HookEvent, ...]:
    written = entry.get(key)
    words = cast("list[Any]", written) if isinstance(written, list) else [written]
    events = tuple(spelled(str(word)) for word in words)
    for event in events:
        if event not in EVENTS:
            raise _Wrong(key, f"{event} is no event; there are {', '.join(EVENTS)}")
    return cast("tuple[HookEvent, ...]", events)


def _text(entry: Mapping[str, Any], key: str, default: str) -> str:
    value = entry.get(key, default)
    if not isinstance(value, str):
        raise _Wrong(key, "expected text")
    return value


def _name(entry: Mapping[str, Any], number: int) -> str:
    """One short line: it stands before what the hook says, where no more may pass for the
    house's."""
    return " ".join(_text(entry, "name", "").split())[:_LONGEST_NAME] or f"hook {number}"


def _seconds(entry: Mapping[str, Any], action: Action) -> float:
    agent = isinstance(action, Prompt) and action.agent
    value = entry.get("timeout", MOST if agent else USUAL)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST:
        raise _Wrong("timeout", f"expected seconds, above 0 and at most {MOST:.0f}")
    return float(value)
