"""A turn's durable memory: what the engine writes here is committed before it goes on."""

from __future__ import annotations

from collections.abc import Callable

from channels.contract import Outbound
from ohmo.contracts.agent import OpenCall
from ohmo.contracts.errors import TooLong
from ohmo.contracts.messages import CallResult, Step, ToolCall, Usage
from ohmo.contracts.provider import ModelRequest
from ohmo.contracts.store import Claim, PostRow, Store, ToStep
from ohmo.contracts.tool import CallContext, ToolOutput, Verdict
from ohmo.ids import NewId
from ohmo.sessions.plan import TurnPlan
from ohmo.sessions.transcript import Transcript


class TurnLedger:
    """Implements ``ohmo.contracts.agent.Ledger`` for one run of one turn. ``deadline``: monotonic seconds."""

    def __init__(
        self, store: Store, claim: Claim, turn: str, transcript: Transcript, plan: TurnPlan, *, step: ToStep, new_id: NewId, deadline: float
    ) -> None:
        self._store, self._claim, self._turn = store, claim, turn
        self._transcript, self._plan, self._step, self._new_id, self._deadline = transcript, plan, step, new_id, deadline
        self._interrupted = frozenset(one.call.id for one in transcript.open_calls())

    async def request(self, *, shrink: bool = False) -> ModelRequest:
        if shrink and not self._transcript.shrink():
            raise TooLong("the last exchange alone is longer than the model's window; say it shorter or begin anew with /new")
        plan = self._plan
        return ModelRequest(
            model=plan.model, system=plan.system, tools=plan.tools, steps=self._transcript.visible(), max_output=plan.max_output,
            effort=plan.effort, purpose="turn",
        )  # fmt: skip

    def open_calls(self) -> tuple[OpenCall, ...]:
        return tuple(OpenCall(one.call, one.started, interrupted=one.call.id in self._interrupted) for one in self._transcript.open_calls())

    async def record(self, *steps: Step, usage: Usage | None = None) -> None:
        await self._append(steps, (), usage)

    async def result(self, output: ToolOutput) -> None:
        await self._append((CallResult(output.result),), output.posts, None)

    async def answered(self, call: str, digest: str) -> Verdict | None:
        return await self._store.consume(self._claim, self._turn, call, digest)

    async def steered(self) -> bool:
        if self._plan.busy != "steer":
            return False
        taken = await self._store.steer(self._claim, self._turn, self._step)
        self._transcript.add(taken)
        return bool(taken)

    def last_was_final(self) -> bool:
        return self._transcript.last_was_final()

    def final_text(self) -> str:
        return self._transcript.final_text()

    def call_context(self, call: ToolCall, progress: Callable[[str], None]) -> CallContext:
        plan, claim = self._plan, self._claim
        return CallContext(
            turn=self._turn, call=call.id, thread=claim.thread, person=plan.person, cwd=plan.cwd, deadline=self._deadline, mode=plan.mode,
            role=plan.role, session=f"{claim.thread}.{claim.session_seq}", progress=progress,
        )  # fmt: skip

    async def _append(self, steps: tuple[Step, ...], posts: tuple[Outbound, ...], usage: Usage | None) -> None:
        rows = [PostRow(self._new_id(), "message", post) for post in posts]
        numbers = await self._store.record(self._claim, self._turn, steps, posts=rows, usage=usage)
        self._transcript.add(list(zip(numbers, steps, strict=True)))
