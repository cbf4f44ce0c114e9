"""What an agent does, for people to look at: one line per tool call with an icon, and a footer with
what it cost. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from channels.payloads import clean
from channels.text import code_span
from ohmo.contracts.messages import CallResult, ModelStep, Step, ToolCall, ToolResult, Usage
from ohmo.contracts.turns import TurnCost
from ohmo.engine.executor import summary

Mode = Literal["live", "keep", "off"]
MOST = 20  # lines; what is over is counted
LONGEST = 120  # characters of an argument
_ICONS = {
    "Read": "📖",
    "Write": "✏️",
    "Edit": "✏️",
    "MultiEdit": "✏️",
    "NotebookEdit": "✏️",
    "Bash": "💻",
    "BashOutput": "💻",
    "KillShell": "💻",
    "Glob": "🔍",
    "Grep": "🔍",
    "Symbols": "🔍",
    "ToolSearch": "🔍",
    "WebFetch": "🌐",
    "WebSearch": "🌐",
    "RemoteTrigger": "🌐",
    "TodoWrite": "📋",
    "AskUser": "❓",
    "Brief": "📎",
    "Agent": "🤖",
    "SendMessage": "✉️",
    "Skill": "📚",
    "Sleep": "💤",
}
_FAMILIES = (
    ("mcp__", "🔌"),
    ("Cron", "⏰"),
    ("Memory", "🧠"),
    ("Task", "🤖"),
    ("Team", "🤖"),
    ("Image", "🖼️"),
)


def icon(tool: str) -> str:
    """One for each kind of tool."""
    found = _ICONS.get(tool)
    return found or next((sign for family, sign in _FAMILIES if tool.startswith(family)), "🔧")


@dataclass(slots=True)
class _Line:
    tool: str
    argument: str
    outcome: str = ""

    def __str__(self) -> str:
        return " ".join(
            part
            for part in (icon(self.tool), self.tool, code_span(self.argument), self.outcome)
            if part
        )


@dataclass(slots=True)
class Activity:
    """Of one run of a turn, fed with what happens. ``line``: what is said about it besides (the
    model is waited for)."""

    line: str = ""
    _lines: dict[str, _Line] = field(default_factory=dict[str, _Line])
    _input: int = 0
    _output: int = 0
    _models: int = 0

    def started(self, call: str, tool: str, argument: str) -> None:
        self._lines[call] = _Line(_name(tool), _one_line(argument))

    def ended(self, call: str, result: ToolResult) -> None:
        if (line := self._lines.get(call)) is not None:
            line.outcome = outcome(result)

    def asked(self, usage: Usage) -> None:
        """The model was."""
        self._models += 1
        self._input += usage.sent
        self._output += usage.output

    def shown(self, seconds: float, *, tools: bool = True) -> str:
        """CommonMark; without ``tools`` only what is said besides."""
        said = [f"_{self.line}_"] if self.line else []
        if not self._lines or not tools:
            return "".join(said)
        foot = footer(self._input, self._output, seconds, self._models, len(self._lines))
        return "\n".join([*_cut([str(line) for line in self._lines.values()]), *said, foot])


def outcome(result: ToolResult) -> str:
    """How a call ended, its result told in lines."""
    count = len(result.text.splitlines())
    lines = "1 line" if count == 1 else f"{count} lines"
    if not result.text.strip():
        lines = "no output"
    return f"✗ {lines}" if result.error else f"→ {lines}"


def footer(tokens_in: int, tokens_out: int, seconds: float, turns: int, calls: int) -> str:
    """In and out tokens · seconds · turns of the model · calls of tools."""
    return (
        f"_{_short(tokens_in)} in / {_short(tokens_out)} out · {max(0, round(seconds))} s"
        f" · {turns} turn{'' if turns == 1 else 's'} · {calls} call{'' if calls == 1 else 's'}_"
    )


def footnote(mode: Mode, cost: TurnCost, redact: Callable[[str], str] = str) -> str:
    """What stands beneath an answer: nothing when no tool was used. ``keep``: the lines too."""
    if mode == "off" or not cost.tool_calls:
        return ""
    foot = footer(cost.input, cost.output, cost.seconds, cost.model_calls, cost.tool_calls)
    return "\n".join([*(_cut(_lines_of(cost.steps, redact)) if mode == "keep" else []), foot])


def _lines_of(steps: Sequence[Step], redact: Callable[[str], str]) -> list[str]:
    ended = {
        step.result.call: outcome(step.result) for step in steps if isinstance(step, CallResult)
    }
    calls = [
        block
        for step in steps
        if isinstance(step, ModelStep)
        for block in step.blocks
        if isinstance(block, ToolCall)
    ]
    return [
        str(_Line(_name(call.name), _one_line(summary(call, redact)), ended.get(call.id, "")))
        for call in calls
    ]


def _cut(lines: list[str]) -> list[str]:
    return lines if len(lines) <= MOST else [*lines[:MOST], f"+{len(lines) - MOST} more"]


def _one_line(text: str) -> str:
    line = " ↵ ".join(clean(text).splitlines())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def _name(tool: str) -> str:
    """The model may call what does not exist, under any name; letters of markup are not part of
    one."""
    return re.sub(r"[^\w.:-]", "", tool)[:80] or "?"


def _short(number: int) -> str:
    if number < 1_000:
        return str(number)
    return f"{number / 1_000:.1f}k" if number < 999_950 else f"{number / 1_000_000:.1f}M"
