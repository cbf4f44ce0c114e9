"""One run of one turn in this process, and its ledger: what the engine writes there is committed
before it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field, replace

from channels.contract import Address, Clock, Inbound, Outbound
from channels.record import record
from ohmo.ambient import NewId
from ohmo.contracts.agent import (
    CompactionProgress,
    Event,
    ModelDone,
    OpenCall,
    TextDelta,
    TextReset,
)
from ohmo.contracts.arrivals import Again, Arrival, Wake
from ohmo.contracts.errors import TooLong
from ohmo.contracts.inwriter import ToStep, in_writer
from ohmo.contracts.messages import (
    CallResult,
    Compaction,
    ModelStep,
    Step,
    Text,
    ToolCall,
    Usage,
    UserStep,
)
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.provider import ModelRequest, Payer
from ohmo.contracts.store import Store
from ohmo.contracts.tool import CallContext, ToolOutput, Verdict
from ohmo.contracts.turns import Claim, TurnCost, Work
from ohmo.lifecycle import unbroken
from ohmo.media import media_folder
from ohmo.sessions import user_steps
from ohmo.sessions.compacting import Compacting, Talk
from ohmo.sessions.planner import Busy, TurnPlan
from ohmo.sessions.transcript import Transcript, is_final, text_of


class TurnControl:
    """Of one claim. What was decided before it began stands in the thread's settings."""

    def __init__(self) -> None:
        self.busy: Busy | None = None  # chosen while it ran
        self.plans: bool | None = None  # plan mode, chosen while it ran
        self.waiting = asyncio.Event()  # something came for the thread that no turn has read
        self._called = False

    def call(self) -> None:
        """Words wait that were said to be read now (``/steer WORDS``)."""
        self._called = True

    def called(self) -> bool:
        """Once for each call."""
        called = self._called
        self._called = False
        return called


@record
class Run:
    """``deadline``: seconds of the loop's time."""

    claim: Claim
    work: Work
    transcript: Transcript
    plan: TurnPlan
    deadline: float
    control: TurnControl = field(default_factory=TurnControl)

    @property
    def turn(self) -> str:
        return self.work.turn


def reply_address(work: Work) -> Address | None:
    """Where the answer of a turn goes: to the place of its first arrival, or where a wake says."""
    first = work.arrivals[0]
    return first.deliver if isinstance(first, Wake) else first.address


def reply(work: Work) -> Outbound | None:
    """The answer of a turn, without its words: among several people it belongs to the message it
    answers, and rings whom it speaks to. Another bot is not rung: it would answer."""
    address = reply_address(work)
    if address is None:
        return None
    messages = [
        arrival
        for arrival in work.arrivals
        if isinstance(arrival, Inbound) and arrival.address == address and not arrival.private
    ]
    if not messages:
        return Outbound(address, "")
    mentions = tuple(dict.fromkeys(message.person.id for message in messages))
    if any(message.person.bot for message in messages):
        mentions = ()
    return Outbound(address, "", mentions=mentions, reply_to=messages[0].message)


def allowed_before(work: Work) -> Again | None:
    """The call a turn begins with: somebody allowed it too late for an earlier one."""
    first = work.arrivals[0]
    again = first.again if isinstance(first, Wake) else None
    return again if again is not None and again.name else None


def is_scheduled(work: Work) -> bool:
    """A run of a job."""
    first = work.arrivals[0]
    return isinstance(first, Wake) and first.occurrence is not None


@record
class PartialAnswer:
    """``text``: the newest words, of ``model``. ``kept``: a step has them. ``over``: what comes
    next begins anew."""

    model: str = ""
    text: str = ""
    kept: bool = True
    over: bool = False

    def after(self, event: Event, *, kept: bool) -> PartialAnswer:
        """``kept``: what a model call that ended with this event, or before it, said is
        written."""
        match event:
            case TextDelta(_, text):
                text = text if self.over else self.text + text
                return PartialAnswer(self.model, text, kept=False)
            case ModelDone(_, text):
                return PartialAnswer(self.model, text, kept, over=True)
            case TextReset():
                return PartialAnswer(self.model)
            case _:
                return replace(self, kept=self.kept or (self.over and kept))

    def steps(self) -> tuple[ModelStep | UserStep, ...]:
        """For the next request: what was said and is not written, and that it was stopped."""
        cut_off = UserStep((Text(user_steps.CUT_OFF),), "house", "notice")
        text = self.text.strip()
        if self.kept or not text:
            return (cut_off,)
        return ModelStep((Text(text),), self.model, "end"), cut_off


def again_of(turn: str) -> str:
    """The id of the call a turn begins with that somebody allowed too late for an earlier one."""
    return f"{turn}.again"


class TurnLedger:
    """Implements ``ohmo.contracts.agent.Ledger`` for one run of one turn. ``step``: what the model
    is told of a message that comes meanwhile.

    A final answer is not written by itself: ``unwritten`` goes into the transaction that ends the
    turn, with its post."""

    def __init__(
        self,
        store: Store,
        run: Run,
        *,
        step: ToStep,
        new_id: NewId,
        clock: Clock,
        compacting: Compacting | None = None,
    ) -> None:
        self._store = store
        self._run = run
        self._step = step
        self._new_id = new_id
        self._clock = clock
        self._compacting = compacting
        self._claim = run.claim
        self._turn = run.turn
        self._transcript = run.transcript
        self._plan = run.plan
        self._again = allowed_before(run.work)
        self._final: ModelStep | None = None
        self._spent: Usage | None = None
        self._cost = TurnCost()  # of this run of the turn
        first = run.work.arrivals[0]
        occurrence = first.occurrence if isinstance(first, Wake) else None
        job = occurrence.job if occurrence is not None else ""
        who = Payer(run.turn, run.claim.thread, run.plan.person, job)
        self.payer = replace(who, session=run.claim.session)
        open_calls = run.transcript.open_calls()
        # of an earlier run of this turn
        self._interrupted = frozenset(open_call.call.id for open_call in open_calls)

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
            step = self._final
            spent = self._spent
            self._final = self._spent = None
            await self._append((step,), (), spent)

    async def request(
        self, *, shrink: bool = False, tell: Callable[[CompactionProgress], None] = lambda _: None
    ) -> ModelRequest:
        await self.flush()
        compacting = self._compacting
        shorter = compacting is not None and await compacting.fit(
            self.talk(compacting), self._compact, tell, force=shrink
        )
        if shrink and not shorter:
            raise TooLong(
                "the last exchange alone is longer than the model's window; say it shorter or begin"
                " anew with /new"
            )
        plan = self._plan
        # The core, then what was found, last found last: what was sent before stays where it was.
        tools = plan.tools
        if plan.deferred:
            deferred = {tool.name: tool for tool in plan.deferred}
            names = [name for name in self._transcript.found if name in deferred]
            tools = (*plan.core, *(deferred[name] for name in names))
        return ModelRequest(
            model=plan.model,
            system=plan.system,
            tools=tools,
            steps=self._transcript.visible(),
            max_output=plan.max_output,
            effort=plan.effort,
            purpose="turn",
            deferred=plan.deferred,
            payer=self.payer,
        )

    def crowded(self) -> bool:
        return self._compacting is not None and self._compacting.due(self.talk(self._compacting))

    def talk(self, compacting: Compacting) -> Talk:
        """The conversation as it stands."""
        window = compacting.window(self._plan.model)
        return Talk(self._transcript, self._plan.budget, window, self.payer)

    async def _compact(self, step: Compaction) -> None:
        await self._append((step,), (), None)

    async def compact(self, words: str, tell: Callable[[CompactionProgress], None]) -> None:
        """On a person's word; ``words``: what the summary shall keep."""
        if self._compacting is not None:
            talk = self.talk(self._compacting)
            await self._compacting.shorten(talk, self._compact, tell, words)

    def open_calls(self) -> tuple[OpenCall, ...]:
        return tuple(
            replace(open_call, interrupted=open_call.call.id in self._interrupted)
            for open_call in self._transcript.open_calls()
        )

    async def record(self, *steps: Step, usage: Usage | None = None) -> None:
        await self.flush()
        last = steps[-1]
        alone = len(steps) == 1 and self._plan.busy != "steer"
        if alone and isinstance(last, ModelStep) and is_final(last):
            self._final = last
            self._spent = usage
            return
        await self._append(steps, (), usage)

    async def result(self, output: ToolOutput) -> None:
        step = CallResult(output.result)
        await unbroken(self._commit((step,), output.posts, output.usage, plans=output.plans))
        if output.plans is not None:
            self._run.control.plans = output.plans

    async def answered(self, call: str, digest: str) -> Verdict | None:
        again = self._again
        first_call = again_of(self._turn)
        if again is not None and call == first_call and digest == again.digest:
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
        self._run.control.waiting.clear()
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

    def visible(self) -> tuple[Step, ...]:
        return self._transcript.visible()

    def model_calls(self) -> int:
        return self._transcript.model_calls() + (self._final is not None)

    def call_context(self, call: ToolCall, progress: Callable[[str], None]) -> CallContext:
        plan = self._plan
        claim = self._claim
        found = self._transcript.found
        control = self._run.control
        mode = plan.mode_at(self._clock())
        if mode == "plan" and control.plans is False:  # left while it ran
            mode = plan.mode_after
        mode, role = plan.capped(mode, plan.role)
        if plan.planning if control.plans is None else control.plans:
            mode = "plan"
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
            session=claim.session,
            progress=progress,
            rules=plan.rules,
            secrets=plan.secrets,
            tools=plan.tools,
            hidden=frozenset(tool.name for tool in plan.deferred if tool.name not in found),
            private=plan.private,
            message=control.waiting.wait,
            taint=self._transcript.taint,
            archived=self._transcript.archived,
            media=media_folder(claim.address),
        )

    async def _append(
        self, steps: tuple[Step, ...], posts: tuple[Outbound, ...], usage: Usage | None
    ) -> None:
        """What was committed is in the transcript, also when the turn is stopped in between."""
        await unbroken(self._commit(steps, posts, usage))

    async def _commit(
        self,
        steps: tuple[Step, ...],
        posts: tuple[Outbound, ...],
        usage: Usage | None,
        *,
        plans: bool | None = None,
    ) -> None:
        rows = [PostRow(self._new_id(), "message", post) for post in posts]
        numbers = await self._store.record(
            self._claim, self._turn, steps, posts=rows, usage=usage, payer=self.payer, plans=plans
        )
        self._transcript.add(list(zip(numbers, steps, strict=True)))
        self._cost = self._cost.and_then(steps, usage)
