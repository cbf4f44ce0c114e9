"""What is shown of a turn that still runs: newer texts of its draft, that somebody is typing, and
which tools are at work. Calls to the platform come one after the other, and none is cut off once it
has begun."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

import structlog

from channels.contract import Address, Channel, Receipt
from channels.errors import RateLimited
from channels.payloads import clean
from channels.text import code_span, some
from ohmo.contracts.messages import CallResult, ModelStep, ToolCall, ToolResult, Usage
from ohmo.contracts.turns import TurnCost
from ohmo.engine.executor import summary
from ohmo.gateway.sending import Pace
from ohmo.lifecycle import failure_of, within

log = structlog.get_logger("ohmo.delivery")
UPDATE_LIMIT = 10.0  # seconds one revision may take; what follows it waits so long
SAID_WITHIN = 0.5  # seconds that what follows waits for a call under way
OFF = 4.0  # seconds for taking it back
Mode = Literal["live", "keep", "off"]
ACTIVITY_LINES = 20  # lines; what is over is counted
ARGUMENT_WIDTH = 120  # characters of an argument
_ICONS = {
    "Read": "📖",
    "Write": "✏️",
    "Edit": "✏️",
    "MultiEdit": "✏️",
    "NotebookEdit": "✏️",
    "Bash": "💻",
    "BashOutput": "💻",
    "KillShell": "💻",
    "ProjectTests": "🧪",
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
    ("Git", "🌿"),
    ("Memory", "🧠"),
    ("Task", "🤖"),
    ("Team", "🤖"),
    ("Image", "🖼️"),
)


class DraftUpdates:
    """Of one channel. ``pace`` is shared with what is sent: a platform that asks to wait is not
    called meanwhile."""

    def __init__(self, channel: Channel, name: str, pace: Pace | None) -> None:
        self._channel = channel
        self._name = name
        self._pace = pace
        self._running: dict[str, asyncio.Task[Exception | None]] = {}  # by what is revised

    def wait(self, chat: str) -> float:
        """Seconds the platform wants to hear nothing for this chat."""
        if self._pace is None:
            return 0.0
        return self._pace.wait(chat, _loop_time())

    async def revise(self, what: str, address: Address, receipt: Receipt | None, text: str) -> None:
        """``what``: the draft's row, or a turn whose drafts have none. ``receipt`` as in
        ``Channel.revise``. A failure costs this text only. Cancelled, the call goes on: the
        platform would still carry it out, perhaps after what follows, which waits for it
        (``settled``)."""
        await self.settled(what)  # a turn that goes on may find the last call of its earlier run
        call = failure_of(within(UPDATE_LIMIT, self._channel.revise(address, receipt, text)))
        task = asyncio.create_task(call, name=f"revise.{what}")
        self._running[what] = task
        task.add_done_callback(lambda done: self._ended(what, address.chat, done))
        await asyncio.shield(task)

    async def settled(self, what: str) -> None:
        """No call is under way that changes it."""
        running = self._running.get(what)
        if running is not None:
            await asyncio.wait([running])

    def _ended(self, what: str, chat: str, task: asyncio.Task[Exception | None]) -> None:
        if self._running.get(what) is task:
            del self._running[what]
        error = None if task.cancelled() else task.result()
        if isinstance(error, RateLimited) and self._pace is not None:
            until = _loop_time() + error.retry_after
            self._pace.block(chat, until, everywhere=error.everywhere)
        if error is not None:
            log.debug("revision_dropped", channel=self._name, error=str(error))


class Typing:
    """For one connected channel. ``sleep`` waits in real seconds."""

    def __init__(
        self, channel: Channel, name: str, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._channel = channel
        self._name = name
        self._sleep = sleep
        self._here: Counter[Address] = Counter()  # turns that run for a place
        self._calls: dict[Address, asyncio.Task[Exception | None]] = {}

    async def show(self, address: Address) -> None:
        """Until cancelled; then it is taken back, unless another turn runs for the same place."""
        lasts = self._channel.capabilities.typing
        if lasts is None:
            return
        self._here[address] += 1
        try:
            while True:
                # Once begun it is not cut off: the platform would still carry it out, perhaps
                # after the answer.
                showing = failure_of(self._channel.typing(address, True))
                call = asyncio.create_task(showing, name="typing")
                self._calls[address] = call
                call.add_done_callback(lambda call: self._called(address, call))
                await asyncio.shield(call)
                await self._sleep(max(1.0, lasts.total_seconds() * 0.8))
        finally:
            self._here[address] -= 1
            if self._here[address] <= 0:
                del self._here[address]
                await self.settled(address)
                if address not in self._here:
                    await failure_of(within(OFF, self._channel.typing(address, False)))

    async def settled(self, address: Address) -> None:
        """A call that is under way is over, or takes too long: what is sent now does not come
        before it."""
        call = self._calls.get(address)
        if call is not None:
            await asyncio.wait([call], timeout=SAID_WITHIN)

    def _called(self, address: Address, call: asyncio.Task[Exception | None]) -> None:
        if self._calls.get(address) is call:
            del self._calls[address]
        error = None if call.cancelled() else call.result()
        if error is not None:
            log.debug("typing_failed", channel=self._name, error=str(error))


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


def icon(tool: str) -> str:
    """One for each kind of tool."""
    if tool in _ICONS:
        return _ICONS[tool]
    for family, sign in _FAMILIES:
        if tool.startswith(family):
            return sign
    return "🔧"


@dataclass(slots=True)
class _Line:
    tool: str
    argument: str
    outcome: str = ""

    def __str__(self) -> str:
        parts = (icon(self.tool), self.tool, code_span(self.argument), self.outcome)
        return " ".join(part for part in parts if part)


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
        line = self._lines.get(call)
        if line is not None:
            line.outcome = outcome(result)

    def asked(self, usage: Usage) -> None:
        """The model was."""
        self._models += 1
        self._input += usage.sent
        self._output += usage.output

    def shown(self, seconds: float, *, tools: bool = True) -> str:
        """CommonMark; without ``tools`` only what is said besides."""
        besides = f"_{self.line}_" if self.line else ""
        if not self._lines or not tools:
            return besides
        lines = _cut([str(line) for line in self._lines.values()])
        if besides:
            lines.append(besides)
        lines.append(footer(self._input, self._output, seconds, self._models, len(self._lines)))
        return "\n".join(lines)


def outcome(result: ToolResult) -> str:
    """How a call ended, its result told in lines."""
    count = len(result.text.splitlines())
    lines = some(count, "line")
    if not result.text.strip():
        lines = "no output"
    return f"✗ {lines}" if result.error else f"→ {lines}"


def footer(tokens_in: int, tokens_out: int, seconds: float, turns: int, calls: int) -> str:
    """In and out tokens · seconds · turns of the model · calls of tools."""
    tokens = f"{_short(tokens_in)} in / {_short(tokens_out)} out"
    counts = f"{some(turns, 'turn')} · {some(calls, 'call')}"
    return f"_{tokens} · {max(0, round(seconds))} s · {counts}_"


def footnote(mode: Mode, cost: TurnCost, redact: Callable[[str], str] = str) -> str:
    """What stands beneath an answer: nothing when no tool was used. ``keep``: the lines too."""
    if mode == "off" or not cost.tool_calls:
        return ""
    foot = footer(cost.input, cost.output, cost.seconds, cost.model_calls, cost.tool_calls)
    if mode != "keep":
        return foot
    lines: list[_Line] = []
    by_call: dict[str, _Line] = {}
    for step in cost.steps:
        match step:
            case ModelStep(blocks):
                for block in blocks:
                    if isinstance(block, ToolCall):
                        argument = _one_line(summary(block, redact))
                        by_call[block.id] = _Line(_name(block.name), argument)
                        lines.append(by_call[block.id])
            case CallResult(result) if result.call in by_call:
                by_call[result.call].outcome = outcome(result)
            case _:
                pass
    return "\n".join([*_cut([str(line) for line in lines]), foot])


def _cut(lines: list[str]) -> list[str]:
    if len(lines) <= ACTIVITY_LINES:
        return lines
    return [*lines[:ACTIVITY_LINES], f"+{len(lines) - ACTIVITY_LINES} more"]


def _one_line(text: str) -> str:
    line = " ↵ ".join(clean(text).splitlines())
    if len(line) <= ARGUMENT_WIDTH:
        return line
    return line[: ARGUMENT_WIDTH - 1] + "…"


def _name(tool: str) -> str:
    """The model may call what does not exist, under any name; letters of markup are not part of
    one."""
    return re.sub(r"[^\w.:-]", "", tool)[:80] or "?"


def _short(number: int) -> str:
    if number < 1_000:
        return str(number)
    if number < 999_950:
        return f"{number / 1_000:.1f}k"
    return f"{number / 1_000_000:.1f}M"
