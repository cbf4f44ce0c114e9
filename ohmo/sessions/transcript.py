"""A session's steps in memory: appended as they are committed, read by every request."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from ohmo.context.carryover import CarryOver
from ohmo.context.compaction import Sent
from ohmo.context.window import step_tokens
from ohmo.contracts.agent import OpenCall
from ohmo.contracts.messages import (
    CallResult,
    CallStarted,
    Compaction,
    ModelStep,
    Step,
    Text,
    ToolCall,
    ToolResult,
    UserStep,
)
from ohmo.contracts.turns import Claim


def is_final(step: ModelStep) -> bool:
    """It calls no tool."""
    return not any(isinstance(block, ToolCall) for block in step.blocks)


def is_note(step: Step) -> TypeGuard[UserStep]:
    """It tells what is remembered."""
    return isinstance(step, UserStep) and step.source == "memory"


def texts(step: ModelStep | UserStep) -> list[str]:
    return [block.text for block in step.blocks if isinstance(block, Text)]


def text_of(step: ModelStep) -> str:
    """Its words."""
    return "".join(texts(step)).strip()


class Transcript:
    """``last``: number of the newest step; ``generation``: of the claim that wrote it, to notice
    that another instance had the thread in between. ``whole``: every step of the session was read
    once. Holds only what the model still sees: memory does not grow with the age of a session.

    Of the whole session, also of what is left out by now: ``found``, names of the tools that
    results brought, in order; ``taint``, where foreign words came from; ``carry``, what is carried
    over."""

    def __init__(self, session_seq: int) -> None:
        self.session_seq = session_seq
        self.last = session_seq - 1
        self.generation = 0
        self.whole = False
        self.weight = 0  # rough bytes
        self.tokens = 0  # estimated, of what is sent
        self.told = False  # the person was told that it is sent no longer as a whole
        self.found: tuple[str, ...] = ()
        self.taint: frozenset[str] = frozenset()
        self.carry = CarryOver()
        self.compactions: list[Compaction] = []  # the newest few
        self.fresh = False  # a message or result came since the last of them
        self._seqs: list[int] = []
        self._steps: list[Step] = []
        self._front: Compaction | None = None  # stands for what is left out
        self._cleared = 0
        self._notes: list[UserStep] = []  # of ``_steps``: those from memory

    def add(self, numbered: Sequence[tuple[int, Step]]) -> None:
        """Steps with their numbers, in order; known ones are passed over."""
        for seq, step in numbered:
            if seq <= self.last:
                continue
            self.last = seq
            if isinstance(step, Compaction):
                self._compact(step)
                continue
            self._seqs.append(seq)
            self._steps.append(step)
            if is_note(step):
                self._notes.append(step)
            self.tokens += step_tokens(step)
            self.weight += _weight(step)
            self.carry.add(seq, step)
            self.fresh = self.fresh or not isinstance(step, ModelStep | CallStarted)
            if isinstance(step, UserStep):
                self.taint = self.taint.union(step.taint)
            if isinstance(step, CallResult):
                self.taint = self.taint.union(step.result.taint)
                if step.result.tools:
                    self.found += tuple(
                        name for name in dict.fromkeys(step.result.tools) if name not in self.found
                    )

    @property
    def cut(self) -> bool:
        """The oldest exchanges are not sent any more."""
        return self._front is not None

    @property
    def archived(self) -> int:
        """Steps with a lower number are not sent any more, or not whole."""
        first = self._seqs[0] if self._front is not None and self._seqs else self.session_seq
        return max(first, self._cleared)

    def sent(self) -> Sent:
        """What the next request sends, with its numbers."""
        rows = tuple(zip(self._seqs, self._steps, strict=True))
        return Sent(rows, self._front, self._cleared)

    def visible(self) -> tuple[Step, ...]:
        """What the next request sends."""
        return (self._front, *self._steps) if self._front is not None else tuple(self._steps)

    def __contains__(self, step: Step) -> bool:
        return step in self._steps

    def _compact(self, step: Compaction) -> None:
        sent = self.sent().after(step)
        self._front, self._cleared = sent.front, sent.cleared
        self._seqs = [seq for seq, _ in sent.rows]
        self._steps = [step for _, step in sent.rows]
        self._notes = [step for step in self._steps if is_note(step)]
        self.tokens = sent.tokens
        self.weight = sum(map(_weight, self.visible()))
        self.compactions = [*self.compactions[-20:], step]
        self.fresh = False

    def open_calls(self) -> tuple[OpenCall, ...]:
        """Calls of the last model step that have no result."""
        started: set[str] = set()
        ended: set[str] = set()
        for step in reversed(self._steps):
            match step:
                case CallResult(result):
                    ended.add(result.call)
                case CallStarted(call, _):
                    started.add(call)
                case ModelStep(blocks, _, _):
                    calls = (block for block in blocks if isinstance(block, ToolCall))
                    return tuple(
                        OpenCall(call, call.id in started) for call in calls if call.id not in ended
                    )
                case _:
                    continue
        return ()

    def abandoned_calls(self) -> tuple[OpenCall, ...]:
        """Open calls of a turn that is over: somebody has spoken since."""
        for step in reversed(self._steps):
            if isinstance(step, UserStep):
                return self.open_calls()
            if isinstance(step, ModelStep):
                return ()
        return ()

    def last_was_final(self) -> bool:
        """The last step is a model step without calls."""
        last = self._steps[-1] if self._steps else None
        return isinstance(last, ModelStep) and is_final(last)

    def model_calls(self) -> int:
        """Model steps since somebody's words, or a wake, began the present turn."""
        count = 0
        for step in reversed(self._steps):
            if isinstance(step, UserStep) and step.source in ("message", "wake"):
                break
            count += isinstance(step, ModelStep)
        return count

    def begun(self) -> bool:
        """The model has answered to the last words of a person."""
        for step in reversed(self._steps):
            if not (isinstance(step, UserStep) and step.source == "hook"):
                return not isinstance(step, UserStep)
        return False

    def ended_calls(self) -> list[tuple[ToolCall, ToolResult]]:
        """Calls since the last words of a person, or of what woke the turn, with what came of
        them."""
        calls: dict[str, ToolCall] = {}
        ended: list[tuple[ToolCall, ToolResult]] = []
        for step in self._steps:
            match step:
                case UserStep(source="message" | "wake"):
                    calls = {}
                    ended = []
                case ModelStep(blocks, _, _):
                    calls |= {block.id: block for block in blocks if isinstance(block, ToolCall)}
                case CallResult(result) if result.call in calls:
                    call = calls[result.call]
                    ended.append((call, result))
                case _:
                    continue
        return ended

    def refused(self) -> list[ToolCall]:
        """Those of them that were not allowed."""
        return [
            call
            for call, result in self.ended_calls()
            if result.refused is not None and result.refused.forbids
        ]

    def bots_in_a_row(self) -> int:
        """Messages of other bots since a person last spoke."""
        count = 0
        for step in reversed(self._steps):
            if isinstance(step, UserStep) and step.source in ("message", "steer", "wake"):
                if not step.bot:
                    return count
                count += 1
        return count

    def heard_since(self, notice: UserStep) -> bool:
        """The house noted this since somebody last spoke."""
        for step in reversed(self._steps):
            if step == notice:
                return True
            if isinstance(step, UserStep) and step.source in ("message", "steer", "wake"):
                return False
        return False

    def recalled(self) -> list[str] | None:
        """Notes from memory that are still sent; None: those for what was said last are told
        already, or not wanted any more, because the model has begun to answer."""
        if self.begun():
            return None
        for step in reversed(self._steps):
            if isinstance(step, UserStep):
                if step.source == "memory":
                    return None
                if step.source in ("message", "wake"):
                    break
        return [text for step in self._notes for text in texts(step)]

    def answered_once(self) -> bool:
        """The model was asked since somebody last spoke."""
        for step in reversed(self._steps):
            if isinstance(step, ModelStep):
                return True
            if isinstance(step, UserStep) and step.source not in ("notice", "hook"):
                return False
        return False

    def final_text(self) -> str:
        """Words of the last model step."""
        for step in reversed(self._steps):
            if isinstance(step, ModelStep):
                return text_of(step)
        return ""


def _weight(step: Step) -> int:
    """Rough bytes in memory: of the objects, of their text as it is counted in tokens, and of what
    the model never sees."""
    digest = step.digest if isinstance(step, CallStarted) else ""
    return 400 + 8 * step_tokens(step) + len(digest)


@dataclass(slots=True)
class TranscriptCache:
    """At most ``limit`` bytes of them, the longest unused first to go."""

    limit: int
    transcripts: OrderedDict[str, Transcript] = field(default_factory=OrderedDict[str, Transcript])
    weight: int = 0

    def take(self, claim: Claim) -> Transcript:
        """The cached one, when nobody else had the thread in between and the session is the same;
        else an empty one."""
        cached = self.transcripts.pop(claim.thread, None)
        if cached is not None:
            self.weight -= cached.weight
            nobody_since = cached.generation == claim.generation - 1
            if nobody_since and cached.session_seq == claim.session_seq:
                return cached
        return Transcript(claim.session_seq)

    def clear(self) -> None:
        self.transcripts.clear()
        self.weight = 0

    def put(self, claim: Claim, transcript: Transcript) -> None:
        transcript.generation = claim.generation
        self.transcripts[claim.thread] = transcript
        self.weight += transcript.weight
        while self.weight > self.limit and len(self.transcripts) > 1:
            _, oldest = self.transcripts.popitem(last=False)
            self.weight -= oldest.weight
