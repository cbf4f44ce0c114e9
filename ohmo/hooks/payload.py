"""What a hook is told: the event as JSON, in our words or in Claude Code's; and prompts with their
places filled."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ohmo.contracts.hooks import About, Hooked
from ohmo.hooks.hook import Hook, Program
from ohmo.hooks.matching import names

_MODES = {"default": "default", "plan": "plan", "full_auto": "bypassPermissions"}
_FILES = ("file_path", "notebook_path", "path")
_PLACES = re.compile(r"\{(tool_name|args|result)\}|\$ARGUMENTS")
_LONG = 20_000  # characters of one place of a prompt


def concerns(hook: Hook, what: Hooked, about: About) -> bool:
    """Whether the hook wants to hear of it; ``about`` is asked for its ``if``."""
    if what.event not in hook.events:
        return False
    if what.call is None:
        if what.event in ("turn_end", "subagent_end"):
            return hook.dialect != "claude" or what.detail == "answered"
        return names(hook.tools, what.detail)
    if not names(hook.tools, what.call.name):
        return False
    if hook.condition and not about(hook.condition, what.call, what.cwd):
        return False
    if isinstance(hook.action, Program) and hook.action.placed and not file_of(what):
        return False
    if hook.spelled.startswith("PostToolUse") and what.result is not None:
        return what.result.error == (hook.spelled == "PostToolUseFailure")
    return True


def file_of(what: Hooked) -> str:
    """The file a call is about, as an absolute path; empty: about none."""
    arguments: Mapping[str, Any] = what.call.arguments if what.call is not None else {}
    for key in _FILES:
        value = arguments.get(key)
        if isinstance(value, str) and value and "\0" not in value:
            return _absolute(what, value)
    return ""


def _absolute(what: Hooked, path: str) -> str:
    """As the file tools read it; as it is: where nobody's home is meant."""
    try:
        return str(what.cwd / Path(path).expanduser())
    except RuntimeError:
        return path


def told(hook: Hook, what: Hooked) -> dict[str, Any]:
    """The whole event, for standard input or a request's body."""
    return _documented(hook, what) if hook.dialect == "claude" else _ours(what)


def _ours(what: Hooked) -> dict[str, Any]:
    body: dict[str, Any] = {
        "event": what.event,
        "turn": what.turn,
        "thread": what.thread,
        "session": what.session,
        "person": what.person,
        "cwd": str(what.cwd),
        "mode": what.mode,
    }
    if what.call is not None:
        body["tool_name"] = what.call.name
        body["call"] = what.call.id
        body["arguments"] = dict(what.call.arguments)
        body["approved"] = what.approved
    if what.result is not None:
        body["result"] = {"text": what.result.text, "error": what.result.error}
        body["duration"] = round(what.seconds, 3)
    if what.call is None:
        body["detail"] = what.detail
    if what.event == "turn_end":
        body["text"] = what.text
    return body


def _documented(hook: Hook, what: Hooked) -> dict[str, Any]:
    """The fields of code.claude.com/docs/en/hooks; there is no transcript in a file here."""
    body: dict[str, Any] = {
        "session_id": what.session,
        "transcript_path": "",
        "cwd": str(what.cwd),
        "permission_mode": _MODES.get(what.mode, "default"),
        "hook_event_name": hook.spelled,
    }
    if what.call is not None:
        body["tool_name"] = what.call.name
        body["tool_input"] = arguments = dict(what.call.arguments)
        for key in () if what.call.name.startswith("mcp__") else _FILES[:2]:
            if isinstance(path := arguments.get(key), str) and path:
                arguments[key] = _absolute(what, path)
        body["tool_use_id"] = what.call.id
    if what.result is not None:
        failed = hook.spelled == "PostToolUseFailure"
        body["duration_ms"] = round(what.seconds * 1000)
        if failed:
            body["error"] = what.result.text
            body["is_interrupt"] = False
        else:
            body["tool_response"] = {"content": what.result.text, "is_error": what.result.error}
    match what.event:
        case "turn_end" | "subagent_end":
            body["stop_hook_active"] = what.again
            body["last_assistant_message"] = what.text
        case "session_start":
            body["source"] = what.detail
        case "session_end":
            body["reason"] = what.detail
        case "pre_compact" | "post_compact":
            body["trigger"] = what.detail
            body["custom_instructions"] = ""
        case _:
            pass
    return body


def overlong(what: Hooked) -> bool:
    """Whether a prompt would show only a part of the call."""
    return what.call is not None and len(json.dumps(dict(what.call.arguments))) > _LONG


def _cut(text: str) -> str:
    more = len(text) - _LONG
    return f"{text[:_LONG]}… (cut: {more} characters more)" if more > 0 else text


def filled(text: str, hook: Hook, what: Hooked) -> str:
    """A prompt with its places filled, once: what stands in a value fills nothing again."""

    def value(place: re.Match[str]) -> str:
        match place[1]:
            case "tool_name":
                return what.call.name if what.call is not None else ""
            case "args":
                found: Any = dict(what.call.arguments) if what.call is not None else {}
                return _cut(json.dumps(found, ensure_ascii=False))
            case "result":
                return _cut(what.result.text) if what.result is not None else ""
            case _:
                return _cut(json.dumps(told(hook, what), ensure_ascii=False))

    return _PLACES.sub(value, text)
