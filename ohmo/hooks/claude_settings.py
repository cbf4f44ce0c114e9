"""Hooks as Claude Code's settings hold them (code.claude.com/docs/en/hooks): read as documented
there; what has no counterpart here is a finding, never silently something else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from channels.record import record
from ohmo.contracts.hooks import HookEvent
from ohmo.hooks.hook import MOST, SHELL, Action, Endpoint, Hook, HookFile, Program, Prompt, bounded
from ohmo.hooks.matching import wrong_condition, wrong_names

NAMES: Mapping[str, HookEvent] = {
    "PreToolUse": "pre_tool_use",
    "PostToolUse": "post_tool_use",
    "PostToolUseFailure": "post_tool_use",
    "SessionStart": "session_start",
    "SessionEnd": "session_end",
    "PreCompact": "pre_compact",
    "PostCompact": "post_compact",
    "Stop": "turn_end",
    "SubagentStop": "subagent_end",
}
_SECONDS = {"command": MOST, "http": MOST, "prompt": 30.0, "agent": MOST}  # where none are written


@record
class _Entry:
    """One handler, and where it stands."""

    written: Mapping[str, Any]
    event: str
    matcher: str
    where: str


def is_claude(hooks: object) -> bool:
    """Whether this is what stands under ``hooks`` in such settings."""
    return isinstance(hooks, dict)


def read(data: Mapping[str, Any], file: str) -> HookFile:
    """Of the settings' other keys only ``disableAllHooks`` counts here."""
    if data.get("disableAllHooks") is True:
        return HookFile(findings=(f"{file}: disableAllHooks: its hooks are off",))
    hooks: list[Hook] = []
    findings: list[str] = []
    for entry in _entries(data.get("hooks", {}), file, findings):
        made = _hook(entry, file)
        if isinstance(made, Hook):
            hooks.append(made)
            findings += _remarks(entry)
        else:
            findings.append(f"{entry.where}: {made}")
    return HookFile(tuple(hooks), tuple(findings))


def _entries(hooks: object, file: str, findings: list[str]) -> Iterator[_Entry]:
    if not isinstance(hooks, dict):
        findings.append(f"{file}: hooks: expected an object of events")
        return
    for event, groups in cast("dict[str, object]", hooks).items():
        where = f"{file}: hooks.{event}"
        if event not in NAMES:
            findings.append(f"{where}: nothing here corresponds to this event; its hooks never run")
            continue
        if not isinstance(groups, list):
            findings.append(f"{where}: expected a list")
            continue
        for number, group in enumerate(cast("list[Any]", groups), 1):
            keys = cast("dict[str, Any]", group) if isinstance(group, dict) else {}
            matcher, handlers = keys.get("matcher", ""), keys.get("hooks")
            if not isinstance(handlers, list):
                findings.append(f"{where}[{number}]: expected `matcher` and a list `hooks`")
                continue
            for place, written in enumerate(cast("list[Any]", handlers), 1):
                at = f"{where}[{number}].{place}"
                if isinstance(written, dict) and isinstance(matcher, str):
                    yield _Entry(cast("dict[str, Any]", written), event, matcher, at)
                else:
                    findings.append(f"{at}: expected an object, and `matcher` as text")


def _hook(entry: _Entry, file: str) -> Hook | str:
    """Or why there is none."""
    written, event = entry.written, NAMES[entry.event]
    action = _action(written)
    if isinstance(action, str):
        return action
    about_tools = event in ("pre_tool_use", "post_tool_use")
    condition = str(written.get("if", ""))
    wrong = wrong_names(entry.matcher) if event not in ("turn_end", "subagent_end") else ""
    if wrong := wrong or wrong_condition(condition):
        return wrong
    seconds = written.get("timeout", _SECONDS[str(written["type"])])
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        return f"timeout: expected seconds above 0, not {seconds!r}"
    return Hook(
        name=entry.where.rpartition("hooks.")[2],
        file=file,
        dialect="claude",
        events=(event,),
        action=action,
        tools=entry.matcher,
        condition=condition if about_tools else "",
        timeout=bounded(float(seconds)),
        may_block=written.get("async") is not True,
        spelled=entry.event,
    )


def _action(written: Mapping[str, Any]) -> Action | str:
    match written.get("type"):
        case "command":
            command, words = written.get("command"), written.get("args")
            if not isinstance(command, str) or not command.strip():
                return "command: expected text"
            if isinstance(words, list):
                return Program((command, *map(str, cast("list[Any]", words))))
            return Program((*SHELL, command))
        case "http":
            url = written.get("url")
            if not isinstance(url, str) or not url.startswith(("http://", "https://")):
                return "url: expected http:// or https://"
            headers: Any = written.get("headers") or {}
            variables: Any = written.get("allowedEnvVars") or []
            if not isinstance(headers, dict) or not isinstance(variables, list):
                return "expected headers as names and texts, allowedEnvVars as a list"
            table = cast("dict[str, Any]", headers)
            texts = {str(key): str(value) for key, value in table.items()}
            return Endpoint(url, texts, tuple(map(str, cast("list[Any]", variables))))
        case "prompt" | "agent" as type_:
            text, model = written.get("prompt"), written.get("model", "")
            if not isinstance(text, str) or not text or not isinstance(model, str):
                return "prompt: expected text, and `model` as text"
            return Prompt(text, model, agent=type_ == "agent")
        case other:
            return f"type: {other!r} has no counterpart here; the hook is left out"


def _remarks(entry: _Entry) -> Iterator[str]:
    """What is read and does not work as there."""
    written = entry.written
    seconds = written.get("timeout", 0)
    if isinstance(seconds, int | float) and seconds > MOST:
        yield f"{entry.where}: timeout: {seconds} s; here at most {MOST:.0f}"
    if entry.event == "SubagentStop":
        yield f"{entry.where}: there are no subagents yet; the hook never runs"
    if written.get("model"):
        yield f"{entry.where}: model: one that the profile has not becomes its smallest"
    for key in ("once", "asyncRewake", "shell"):
        if written.get(key):
            yield f"{entry.where}: {key}: has no counterpart here"
    if entry.matcher not in ("", "*") and NAMES[entry.event] not in (
        "pre_tool_use",
        "post_tool_use",
        "session_start",
        "session_end",
        "pre_compact",
        "post_compact",
    ):
        yield f"{entry.where}: matcher: this event has none; the hook always runs"
