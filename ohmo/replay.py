"""Makes the present session of a thread again from its log and finds the first thing that comes out
otherwise. Runs nothing, asks nobody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from typing import Protocol

from channels.record import record
from channels.text import some
from ohmo.context.usage import ContextPart, ContextUsage
from ohmo.context.window import spec_tokens, step_tokens, tokens_of
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.errors import OhmoError
from ohmo.contracts.inwriter import in_writer
from ohmo.contracts.messages import (
    CallResult,
    Compaction,
    ModelStep,
    Step,
    ToolCall,
    ToolResult,
    UserStep,
)
from ohmo.contracts.reports import ArrivalInfo, Replay, Reports, StepInfo, ThreadInfo
from ohmo.contracts.store import Store
from ohmo.contracts.tool import Allow, Decision, Deny, Gate, Toolbox
from ohmo.contracts.turns import Claim, ThreadSettings, Work
from ohmo.engine.executor import summary
from ohmo.providers.build import Model
from ohmo.providers.middleware.unprefixed import short_name
from ohmo.providers.request_bytes import Rendering, differing
from ohmo.sessions.ledger import Run, TurnLedger
from ohmo.sessions.planner import TurnPlan
from ohmo.sessions.transcript import Transcript

PAGE = 1_000
_KINDS: Mapping[type[Step], str] = {
    ModelStep: "answers",
    CallResult: "results",
    Compaction: "summary",
}
_MODES = ("default", "plan", "full_auto")
_EFFORTS = (None, "low", "medium", "high")
_WHY = {
    "parameters": "the model or its limits (another profile, or what the endpoint had taught)",
    "tools": "the tools (another version of ohmo, or other tools connected)",
    "system": "the system prompt (SOUL.md, USER.md, AGENTS.md, skills or the workspace changed)",
    "conversation": "the conversation",
}


class Kept(Store, Reports, Protocol):
    """What is looked at; nothing is written."""


@record
class _Past:
    """``begun``: with what each turn began, as far as it is still kept."""

    info: ThreadInfo
    begun: Mapping[str, Arrival]
    steps: tuple[StepInfo, ...]

    def claim(self, settings: ThreadSettings) -> Claim:
        return Claim(
            self.info.thread, 0, 0.0, "replay", self.info.address, self.info.session_seq, settings
        )

    def work(self, turn: str) -> Work:
        nobody = Wake("replay", "owner", self.info.address, None, "owner", "", datetime.now(UTC))
        return Work(turn, 1, 0, (self.begun.get(turn, nobody),), resumed=True)


class Replaying:
    """``plan`` as for a turn, without beginning one; ``model``, ``toolbox`` and ``gate``: of the
    present agent."""

    def __init__(
        self,
        store: Kept,
        plan: Callable[[Claim, Work], Awaitable[TurnPlan]],
        model: Model,
        toolbox: Toolbox,
        gate: Gate,
    ) -> None:
        self._store = store
        self._plan = plan
        self._model = model
        self._toolbox = toolbox
        self._gate = gate

    async def __call__(self, info: ThreadInfo) -> Replay:
        past = await self._past(info)
        again = _Again(self._model.renderings())
        found = Replay(info.thread, 0, 0, 0, 0)
        asked: dict[str, tuple[str, ToolCall]] = {}
        same_until = info.session_seq
        for row in past.steps:
            match row.step:
                case ModelStep(blocks, _, _, request):
                    asked |= {
                        block.id: (row.turn, block)
                        for block in blocks
                        if isinstance(block, ToolCall)
                    }
                    found = replace(found, calls=found.calls + 1)
                    if not request:
                        found = replace(found, unrecorded=found.unrecorded + 1)
                    elif wrong := await self._request(past, row.turn, request, again):
                        where = (
                            f", in steps {same_until} to {row.seq - 1}"
                            if wrong == ["conversation"]
                            else ""
                        )
                        words = (
                            f"model call {found.calls}: {', '.join(_WHY[part] for part in wrong)}"
                            f" would be sent otherwise today{where}"
                        )
                        return replace(found, difference=words, seq=row.seq)
                    else:
                        found = replace(found, same=found.same + 1)
                        same_until = row.seq
                case CallResult(result) if result.call in asked and (
                    # whoever interrupted it judged nothing
                    result.refused is None or not result.refused.interrupts
                ):
                    turn, call = asked[result.call]
                    judged, words = await self._decision(past, turn, call, result)
                    if words:
                        return replace(
                            found, difference=f"{call.name} {summary(call)}: {words}", seq=row.seq
                        )
                    found = replace(found, judged=found.judged + judged)
                case _:
                    pass
            again.steps.append((row.seq, row.step))
        return found

    async def context(self, info: ThreadInfo) -> ContextUsage:
        """What the next request of the thread would be made of."""
        past = await self._past(info)
        claim = past.claim(info.settings)
        plan = await self._plan(claim, past.work(""))
        transcript = Transcript(info.session_seq)
        transcript.add([(row.seq, row.step) for row in past.steps])
        parts = [
            ContextPart("section", section.name, tokens_of(section.text), section.source)
            for section in plan.system
        ]
        found = [spec for spec in plan.deferred if spec.name in transcript.found]
        for name, specs in (("always sent", plan.core), ("found in this session", found)):
            tokens = sum(spec_tokens(spec) for spec in specs)
            if specs:
                parts.append(ContextPart("tools", name, tokens, f"{len(specs)} tools"))
        sizes: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        for step in transcript.visible():
            kind = step.source if isinstance(step, UserStep) else _KINDS.get(type(step), "")
            sizes[kind] += step_tokens(step)
            counts[kind] += 1
        parts += [
            ContextPart("conversation", kind, tokens, some(counts[kind], "step"))
            for kind, tokens in sizes.items()
            if tokens
        ]
        left_out = len(past.steps) - len(transcript.visible())
        window = self._model.window(plan.model)
        shortened = [row.step.tokens for row in past.steps if isinstance(row.step, Compaction)]
        return ContextUsage(
            info.thread,
            plan.model,
            window,
            plan.budget,
            tuple(parts),
            left_out,
            tuple(tokens for tokens in shortened if tokens),
            plan.too_big,
        )

    async def _past(self, info: ThreadInfo) -> _Past:
        earlier = await self._store.history(info.thread, before=info.session_seq, limit=PAGE)
        items = list(earlier)
        since = max(0, info.session_seq - 1)
        while page := await self._store.history(info.thread, since=since, limit=PAGE):
            items += page
            since = page[-1].seq
        begun: dict[str, Arrival] = {}
        for item in items:
            if isinstance(item, ArrivalInfo) and item.turn is not None:
                begun.setdefault(item.turn, item.arrival)
        holds = info.settings.holds
        steps = tuple(
            item
            for item in items
            if isinstance(item, StepInfo) and holds(info.session_seq, item.seq)
        )
        return _Past(info, begun, steps)

    async def _request(self, past: _Past, turn: str, recorded: str, again: _Again) -> list[str]:
        """What of the request differs; looks for what a person chose then (model, mode, effort)."""
        best: list[str] = []
        for settings in self._settings(past.info.settings):
            plan = await self._plan(past.claim(settings), past.work(turn))
            wrong = await again.differs(self._ledger(past, turn, plan, again), recorded)
            if not wrong:
                return []
            if not best or len(wrong) < len(best):
                best = wrong
            if not {"parameters", "system"} & set(best):
                break
        return best

    def _settings(self, now: ThreadSettings) -> Iterator[ThreadSettings]:
        yield now
        configured = self._model.models
        models = (*configured, *filter(None, map(short_name, configured)))
        for model, mode, effort in product(models, _MODES, _EFFORTS):
            yield replace(now, model=model, mode=mode, effort=effort)

    def _ledger(self, past: _Past, turn: str, plan: TurnPlan, again: _Again) -> TurnLedger:
        transcript = again.transcript(past.info.session_seq)
        run = Run(past.claim(past.info.settings), past.work(turn), transcript, plan, deadline=0.0)
        return TurnLedger(
            self._store, run, step=_never, new_id=lambda: "replay", clock=lambda: datetime.now(UTC)
        )

    async def _decision(
        self, past: _Past, turn: str, call: ToolCall, result: ToolResult
    ) -> tuple[bool, str]:
        """Whether there was something to judge, and what is otherwise now. What a person was asked
        about may have ended either way."""
        tool = self._toolbox.tools().get(call.name)
        if tool is None or turn not in past.begun:
            return False, ""
        plan = await self._plan(past.claim(past.info.settings), past.work(turn))
        context = self._ledger(past, turn, plan, _Again(())).call_context(call, lambda _: None)
        try:
            footprint = tool.footprint(tool.parse(call.arguments), plan.cwd)
        except (OSError, OhmoError, ValueError):
            return False, ""
        decision = await self._gate.judge(call, footprint, context, _unanswered)
        return True, _otherwise(decision, result)


class _Again:
    """The log so far, and the wires it is turned into bytes with."""

    def __init__(self, renderings: Sequence[Rendering]) -> None:
        self.steps: list[tuple[int, Step]] = []
        self._renderings = renderings
        self._transcript = Transcript(0)

    def transcript(self, session_seq: int) -> Transcript:
        """As the turn had it."""
        if self._transcript.session_seq != session_seq:
            self._transcript = Transcript(session_seq)
        self._transcript.add(self.steps)
        return self._transcript

    async def differs(self, ledger: TurnLedger, recorded: str) -> list[str]:
        found = [rendering for rendering in self._renderings if rendering.letter == recorded[:1]]
        if not found:
            return differing("", recorded)
        rendering = found[0]
        request = await ledger.request()
        wrong = differing((await rendering(request)).digest, recorded)
        if wrong == ["conversation"]:  # its earlier thinking may have been refused then
            rendering.conversations.without_thinking(request.steps)
            wrong = differing((await rendering(request)).digest, recorded)
        if wrong == ["conversation"] and rendering.conversations.without_pictures(request.steps):
            wrong = differing((await rendering(request)).digest, recorded)
        return wrong


def _otherwise(decision: Decision, result: ToolResult) -> str:
    """What would become of the call today; "" for the same, or what only a person decided."""
    forbidden = result.refused is not None and result.refused.forbids
    if isinstance(decision, Deny):
        why = f"{decision.source}: {decision.reason}"
        return "" if forbidden else f"ran then, would not be allowed today ({why})"
    if not forbidden or (result.refused is not None and result.refused.asked):
        return ""
    then = result.text.splitlines()[0][:200] if result.text else ""
    today = "would run" if isinstance(decision, Allow) else "a person would be asked"
    return f"was refused then ({then}), {today} today"


async def _unanswered(digest: str) -> None:  # noqa: ARG001
    """Nobody is asked again."""
    return


@in_writer
def _never(arrival: Arrival) -> UserStep:
    raise AssertionError(f"a replay takes nothing from a mailbox: {arrival!r:.60}")
