"""What a conversation carries over when it is made shorter: a bounded memory of goals, refusals,
files, background work and what was done, made from what people said and results declare. Derived
from the log alone, so that it is the same after a restart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from channels.record import record
from ohmo.config.agent import CarrySizes
from ohmo.context.layers import PlanLayer
from ohmo.context.window import tokens_of
from ohmo.contracts.messages import (
    CallResult,
    CallStarted,
    Layer,
    ModelStep,
    Step,
    Text,
    ToolCall,
    ToolResult,
    UserStep,
)

KEPT = 64  # entries of each kind that are remembered, however few are told
WORDS = 200  # characters of one entry
WHY = 80
PLAN_SHARE = 0.4  # of the room, before the plan is cut to what comes next
_TELLING = ("command", "file_path", "pattern", "url", "query", "description", "path")
_SENTENCE = re.compile(r"[^.!?。！？\n]+(?:[.!?](?=\S)[^.!?。！？\n]*)*[.!?。！？]*")
# What a person forbids: English, Vietnamese, Chinese.
_FORBIDS = re.compile(
    r"(?:^|[,;:]\s*|\b(?:please|you|and|but|so)\s+)(?:do not|don['’]t|stop)\b"
    r"|\bnever\b|\b(?:must|may|shall|should|can) ?(?:not|never)\b|\bmustn['’]t\b"
    r"|\b(?:forbidden|not allowed|under no circumstances|off limits)\b"
    r"|\bI (?:refuse|decline|won['’]t)\b"
    r"|\b(?:đừng|không được|cấm|chớ|không bao giờ|tuyệt đối không)\b"
    r"|不要|别再|不许|不准|禁止|绝不|切勿|不得|请勿|从不|拒绝",
    re.IGNORECASE,
)
_GOAL = re.compile(r"\b(?:goal|objective|aim)s?\b|\bmục (?:tiêu|đích)\b|目标|目的", re.IGNORECASE)


@record
class _Entry:
    seq: int  # of the step it is from
    what: str
    why: str = ""

    @property
    def line(self) -> str:
        return f"- {self.what} ({self.why})" if self.why else f"- {self.what}"


class CarryOver:
    """Fed with every step of a session once, in order."""

    def __init__(self) -> None:
        self._goals: dict[str, _Entry] = {}  # what somebody called a goal
        self._asked: dict[str, _Entry] = {}
        self._refusals: dict[str, _Entry] = {}
        self._reads: dict[str, _Entry] = {}
        self._artifacts: dict[str, _Entry] = {}
        self._tasks: dict[str, _Entry] = {}
        self._work: dict[str, _Entry] = {}
        self._plan = PlanLayer(())
        self._calls: dict[str, ToolCall] = {}  # those without a result
        self._started: set[str] = set()
        self._seq = 0

    def add(self, seq: int, step: Step) -> None:
        self._seq = seq
        match step:
            case UserStep(blocks, person, "message" | "steer" | "wake") if person != "house":
                self._said(" ".join(block.text for block in blocks if isinstance(block, Text)))
            case ModelStep(blocks):
                calls = [block for block in blocks if isinstance(block, ToolCall)]
                if calls:
                    self._calls = {call.id: call for call in calls}
                    self._started = set()
            case CallStarted(call):
                self._started.add(call)
            case CallResult(result) if result.call in self._calls:
                self._ended(self._calls.pop(result.call), result)
            case _:
                pass

    def _said(self, text: str) -> None:
        for match in _SENTENCE.finditer(text):
            sentence = " ".join(match[0].split())
            if _FORBIDS.search(sentence):
                _note(self._refusals, sentence, _Entry(self._seq, sentence[:WORDS]))
            elif _GOAL.search(sentence):
                _note(self._goals, sentence, _Entry(self._seq, sentence[:WORDS]))
        line = " ".join(text.split())[:WORDS]
        if line:
            _note(self._asked, line, _Entry(self._seq, line))

    def _ended(self, call: ToolCall, result: ToolResult) -> None:
        telling = next((str(call.arguments[key]) for key in _TELLING if key in call.arguments), "")
        summary = f"{call.name} {' '.join(telling.split())[:WHY]}".strip()
        asked = next(reversed(self._asked.values()), _Entry(0, "")).what[:WHY]
        why = f"for: {asked}" if asked else ""
        if result.refused is Layer.PERSON:
            _note(self._refusals, summary, _Entry(self._seq, summary, "a person refused this call"))
        if result.refused is not None:
            return
        for place in result.reads:
            _note(self._reads, place, _Entry(self._seq, place, f"{call.name}, {why}"))
        for place in result.writes:
            _note(self._artifacts, place, _Entry(self._seq, place, f"{call.name}, {why}"))
        todos = call.arguments.get("todos")
        if isinstance(todos, list) and not result.error:
            items = [todo for todo in todos if isinstance(todo, dict)]
            steps = tuple((str(todo.get("content")), str(todo.get("status"))) for todo in items)
            self._plan = PlanLayer(steps)
        elif call.arguments.get("run_in_background") is True and not result.error:
            first = result.text.strip().splitlines()[:1]
            _note(
                self._tasks, call.id, _Entry(self._seq, "".join(first)[:WORDS], f"{summary}, {why}")
            )
        elif result.writes or call.id in self._started:
            ended = "failed" if result.error else "done"
            _note(self._work, call.id, _Entry(self._seq, f"{summary}: {ended}", why))

    def text(self, sizes: CarrySizes, room: int, before: int) -> str:
        """As the model is told, in at most ``room`` tokens: of what does not fit the least
        important is left out. What is from steps that are still sent (from ``before`` on) is not
        told twice."""
        goals = _older(self._goals, before, sizes.goals)
        named = {entry.what for entry in goals}
        asked = [
            entry
            for entry in _older(self._asked, before, KEPT)
            if not any(name in entry.what for name in named)
        ]
        goals = [*asked[len(asked) - (sizes.goals - len(goals)) :], *goals]
        parts: list[str] = []
        left = room
        plan = self._plan.shrunk(int(room * PLAN_SHARE))
        for title, lines in (
            (
                "Refused by people; it holds on",
                _lines(_older(self._refusals, before, sizes.refusals)),
            ),
            ("Goals", _lines(goals)),
            ("The plan", plan.text.splitlines() if plan.steps else []),
            ("In the background", _lines(_older(self._tasks, before, sizes.tasks))),
            ("Changed", _lines(_older(self._artifacts, before, sizes.artifacts))),
            ("Read", _lines(_older(self._reads, before, sizes.read_files))),
            ("Done last", _lines(_older(self._work, before, sizes.work_log))),
        ):
            left -= tokens_of(title)
            fitting: list[str] = []
            for line in lines if title == "The plan" else reversed(lines):  # the newest first
                left -= tokens_of(line)
                if left < 0:
                    break
                fitting.append(line)
            if fitting:
                shown = fitting if title == "The plan" else reversed(fitting)
                parts.append("\n".join([f"{title}:", *shown]))
        return "\n\n".join(parts)


def _note(entries: dict[str, _Entry], key: str, entry: _Entry) -> None:
    """The newest last."""
    entries.pop(key, None)
    entries[key] = entry
    if len(entries) > KEPT:
        del entries[next(iter(entries))]


def _older(entries: dict[str, _Entry], before: int, most: int) -> list[_Entry]:
    older = [entry for entry in entries.values() if entry.seq < before]
    return older[-most:] if most else []


def _lines(entries: Iterable[_Entry]) -> Sequence[str]:
    return [entry.line for entry in entries]
