"""A turn's durable memory: what the engine writes here is committed before it goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from channels.contract import Clock, Outbound
from ohmo.ambient import NewId
from ohmo.contracts.agent import OpenCall
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.errors import TooLong
from ohmo.contracts.inwriter import ToStep, in_writer
from ohmo.contracts.messages import CallResult, ModelStep, Step, ToolCall, Usage, UserStep
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.provider import ModelRequest, ToolSpec
from ohmo.contracts.store import Store
from ohmo.contracts.tool import CallContext, ToolOutput, Verdict
from ohmo.contracts.turns import TurnCost
from ohmo.lifecycle import unbroken
from ohmo.sessions.run import Run, allowed_before
from ohmo.sessions.transcript import is_final, text_of


def again_of(turn: str) -> str:
    """The id of the call a turn begins with that somebody allowed too late for an earlier one."""
    return f"{turn}.again"


class TurnLedger:
    """Implements ``ohmo.contracts.agent.Ledger`` for one run of one turn. ``step``: what the model
    is told of a message that comes meanwhile.

    A final answer is not written by itself: ``unwritten`` goes into the transaction that ends the
    turn, with its post."""

    def __init__(
        self, store: Store, run: Run, *, step: ToStep, new_id: NewId, clock: Clock
    ) -> None:
        self._store = store
        self._run = run
        self._step = step
        self._new_id = new_id
        self._clock = clock
        self._claim = run.claim
        self._turn = run.turn
        self._transcript = run.transcript
        self._plan = run.plan
        self._again = allowed_before(run.work)
        self._final: ModelStep | None = None
        self._spent: Usage | None = None
        self._cost = TurnCost()  # of this run of the turn
        self._interrupted = frozenset(
            one.call.id for one in run.transcript.open_calls()
        )  # of an earlier run of this turn

    @property
    def unwritten(self) -> tuple[tuple[Step, ...], Usage | None]:
        """What the end of the turn has to write; then ``written`` is told the numbers."""
        return (self._final,) if self._final is not None else (), self._spent

    @property
    def cost(self) -> TurnCost:
        """What this run of the turn has cost, with what is still unwritten."""
        return self._cost.and_then(*self.unwritten)

    def written(self, numbers: Sequence[int]) -> None:
        steps, _ = self.unwritten
        self._cost = self.cost
        self._final = self._spent = None
        self._transcript.add(list(zip(numbers, steps, strict=True)))

    async def flush(self) -> None:
        """The turn goes on, or stays open, after what looked like its end."""
        if self._final is not None:
            step, spent = self._final, self._spent
            self._final = self._spent = None
            await self._append((step,), (), spent)

    async def request(self, *, shrink: bool = False) -> ModelRequest:
        await self.flush()
        if shrink and not self._transcript.shrink():
            raise TooLong(
                "the last exchange alone is longer than the model's window; say it shorter or begin"
                " anew with /new"
            )
        plan = self._plan
        return ModelRequest(
            model=plan.model,
            system=plan.system,
            tools=self._shown(),
            steps=self._transcript.visible(),
            max_output=plan.max_output,
            effort=plan.effort,
            purpose="turn",
            deferred=plan.deferred,
        )

    def _shown(self) -> tuple[ToolSpec, ...]:
        """The core, then what was found, last found last: what was sent before stays where it
        was."""
        plan = self._plan
        if not plan.deferred:
            return plan.tools
        kept_back = {tool.name: tool for tool in plan.deferred}
        return (
            *plan.core,
            *(kept_back[name] for name in self._transcript.found if name in kept_back),
        )

    def open_calls(self) -> tuple[OpenCall, ...]:
        return tuple(
            OpenCall(one.call, one.started, interrupted=one.call.id in self._interrupted)
            for one in self._transcript.open_calls()
        )

    async def record(self, *steps: Step, usage: Usage | None = None) -> None:
        await self.flush()
        last = steps[-1]
        if (
            len(steps) == 1
            and isinstance(last, ModelStep)
            and is_final(last)
            and self._plan.busy != "steer"
        ):
            self._final, self._spent = last, usage
            return
        await self._append(steps, (), usage)

    async def result(self, output: ToolOutput) -> None:
        await self._append((CallResult(output.result),), output.posts, None)

    async def answered(self, call: str, digest: str) -> Verdict | None:
        again = self._again
        if again is not None and (call, digest) == (again_of(self._turn), again.digest):
            return Verdict("allowed", "once", "", again.by)
        if call not in self._interrupted:  # a question ends the run: nobody was asked about it yet
            return None
        return await self._store.consume(self._claim, self._turn, call, digest)

    async def steered(self) -> bool:
        control = self._run.control
        if (control.busy or self._plan.busy) != "steer" and not control.called():
            return False
        return await unbroken(self._steer())

    async def _steer(self) -> bool:
        await self.flush()
        taken = await self._store.steer(self._claim, self._turn, self._steering)
        self._transcript.add(taken)
        return bool(taken)

    @in_writer
    def _steering(self, arrival: Arrival) -> UserStep:
        return replace(self._step(arrival), source="steer")

    def last_was_final(self) -> bool:
        return self._final is not None or self._transcript.last_was_final()

    def final_text(self) -> str:
        return self._transcript.final_text() if self._final is None else text_of(self._final)

    def model_calls(self) -> int:
        return self._transcript.model_calls() + (self._final is not None)

    def call_context(self, call: ToolCall, progress: Callable[[str], None]) -> CallContext:
        plan, claim = self._plan, self._claim
        mode, role = plan.capped(plan.mode_at(self._clock()), plan.role)
        return CallContext(
            turn=self._turn,
            call=call.id,
            thread=claim.thread,
            person=plan.person,
            cwd=plan.cwd,
            deadline=self._run.deadline,
            mode=mode,
            role=role,
            policy=plan.policy,
            session=f"{claim.thread}.{claim.session_seq}",
            progress=progress,
            rules=plan.rules,
            secrets=plan.secrets,
            tools=plan.tools,
            hidden=frozenset(
                tool.name for tool in plan.deferred if tool.name not in self._transcript.found
            ),
        )

    async def _append(
        self, steps: tuple[Step, ...], posts: tuple[Outbound, ...], usage: Usage | None
    ) -> None:
        """What was committed is in the transcript, also when the turn is stopped in between."""
        await unbroken(self._commit(steps, posts, usage))

    async def _commit(
        self, steps: tuple[Step, ...], posts: tuple[Outbound, ...], usage: Usage | None
    ) -> None:
        rows = [PostRow(self._new_id(), "message", post) for post in posts]
        numbers = await self._store.record(self._claim, self._turn, steps, posts=rows, usage=usage)
        self._transcript.add(list(zip(numbers, steps, strict=True)))
        self._cost = self._cost.and_then(steps, usage)
