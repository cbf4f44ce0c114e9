"""What a hook answered, read: go on, block, ask a person, other arguments, words for the model; or
nothing that can be understood, which before a tool is a block of its own for the strict."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from channels.record import record
from ohmo.contracts.hooks import HookEvent
from ohmo.contracts.messages import Json
from ohmo.hooks.hook import Hook, Program, Prompt

CONTEXT = 10_000  # characters, as Claude Code documents it
_REASON = 2_000
_FENCE = re.compile(r"^```(?:json)?\s*(.*?)\s*```$", re.DOTALL)
#: Of an answer, ours and those of Claude Code.
_KEYS = frozenset(
    {
        *("decision", "reason", "arguments", "context", "hookSpecificOutput"),
        *("continue", "stopReason", "suppressOutput", "systemMessage"),
    }
)
_GO_ON = ("allow", "approve", "continue", "none")


@record
class Raw:
    """``code``: 0 for whatever has no exit code and ended well. ``problem``: why there is no
    answer."""

    out: str = ""
    err: str = ""
    code: int = 0
    problem: str = ""


@record
class Said:
    """``ends``: it wants the whole turn to end, whatever others say. ``findings``: what it said
    that does not count, a line each."""

    hook: str
    block: str = ""
    ends: bool = False
    ask: str = ""
    arguments: Mapping[str, Json] | None = None
    context: str = ""
    findings: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def short(self) -> str:
        """In one word."""
        if self.block:
            return "block"
        if self.ask:
            return "ask"
        if self.arguments is not None:
            return "rewrite"
        return "tell" if self.context else "go on"


class _Garbage(Exception):
    pass


def read(hook: Hook, event: HookEvent, raw: Raw) -> Said:
    """All of it counts before a tool; after one, and at an answer, what the model is told: also why
    it would block; as a session begins its context alone. What it wants beyond is a finding."""
    counts = hook.waited_for(event)
    before = event == "pre_tool_use" and counts
    said = _plain(hook, event, raw) or _read(hook, raw, strict=before and hook.strict)
    if before:
        return said
    findings = list(said.findings)
    if said.ask or said.arguments is not None:
        findings.append(f"its question or arguments do not count: {event} changes nothing")
    if said.block and (not counts or event == "session_start"):
        findings.append(f"it wants to block ({said.block}); {event} is only observed")
    if said.context and not counts:
        findings.append(f"its context does not count: {event} is only observed")
    told = (said.block, said.context) if event != "session_start" else (said.context,)
    ends = counts and said.ends and event == "turn_end"
    words = "\n".join(filter(None, told if counts and not ends else ()))
    return Said(hook.name, ends=ends, context=words, findings=tuple(findings))


def _plain(hook: Hook, event: HookEvent, raw: Raw) -> Said | None:
    """As a session begins, text on standard output is context too, as Claude Code documents it."""
    text = raw.out.strip()
    spoken = isinstance(hook.action, Program) and hook.dialect == "claude" and raw.code == 0
    if event != "session_start" or not spoken or raw.problem or not text or text.startswith("{"):
        return None
    return Said(hook.name, context=text[:CONTEXT])


def _read(hook: Hook, raw: Raw, *, strict: bool) -> Said:
    if raw.problem:
        return _trouble(hook, raw.problem, strict=strict)
    if raw.code == 2:
        reason = raw.err.strip() or raw.out.strip() or "it gave no reason"
        return Said(hook.name, block=reason[:_REASON])
    if raw.code:
        why = raw.err.strip() or raw.out.strip()
        ended = f"it ended with exit code {raw.code}{f': {why[:300]}' * bool(why)}"
        return _trouble(hook, ended, strict=strict)
    text = raw.out.strip()
    prompt = isinstance(hook.action, Prompt)
    if prompt and (fenced := _FENCE.match(text)):
        text = fenced[1]
    plain = hook.dialect != "own" and not prompt and not text.startswith("{")
    if not text or plain:  # words for whoever reads along there
        if text or not prompt:
            return Said(hook.name)
        return _trouble(hook, "the model said nothing", strict=strict)
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            raise _Garbage("its answer is no JSON object")
        return _understood(hook, cast("dict[str, Any]", found), strict=strict)
    except (ValueError, RecursionError):
        return _trouble(hook, f"its answer is not JSON: {text[:80]!r}", strict=strict)
    except _Garbage as error:
        return _trouble(hook, str(error), strict=strict)


def _trouble(hook: Hook, why: str, *, strict: bool) -> Said:
    if strict:
        return Said(hook.name, block=f"{why}, so the call is not run")
    return Said(hook.name, findings=(f"{why}; it is passed over",))


def _understood(hook: Hook, found: Mapping[str, Any], *, strict: bool) -> Said:
    odd = sorted(found.keys() - _KEYS)
    if strict and odd and not isinstance(hook.action, Prompt):
        raise _Garbage(f"{odd[0][:80]!r} is no key of an answer")
    inner = found.get("hookSpecificOutput", {})
    if not isinstance(inner, dict):
        raise _Garbage("hookSpecificOutput is no object")
    specific = cast("dict[str, Any]", inner)
    reasons = (specific.get("permissionDecisionReason"), found.get("reason"))
    reason = next((str(each) for each in reasons if each), "it gave no reason")[:_REASON]
    decision = specific.get("permissionDecision", found.get("decision"))
    if isinstance(hook.action, Prompt) and decision is None:
        if not isinstance(found.get("ok"), bool):
            raise _Garbage('the model answered neither {"ok": true} nor {"ok": false}')
        decision = "allow" if found["ok"] else "block"
    said = Said(hook.name)
    if found.get("continue") is False:
        return replace(said, block=str(found.get("stopReason") or reason)[:_REASON], ends=True)
    match decision:
        case "block" | "deny":
            return replace(said, block=reason)
        case "ask":
            said = replace(said, ask=reason)
        case "defer":
            text = "it defers: whoever started it there is not here, so a person is asked"
            said = replace(said, ask=f"deferred: {reason}", findings=(text,))
        case None:
            pass
        case word if word in _GO_ON:
            if hook.dialect == "claude":
                said = replace(said, findings=("allow: a hook allows nothing by itself here",))
        case other:
            raise _Garbage(f"decision: {other!r} is none of block, deny, ask, allow")
    arguments = specific.get("updatedInput", found.get("arguments"))
    if arguments is not None and not isinstance(arguments, dict):
        raise _Garbage("its arguments are no object")
    context = specific.get("additionalContext", found.get("context")) or ""
    if not isinstance(context, str):
        raise _Garbage("its context is no text")
    return replace(said, arguments=arguments, context=context[:CONTEXT])
