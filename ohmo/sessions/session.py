"""One thread's mind: takes its work, runs one turn at a time, brings it to an end, a park or a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

from channels.contract import Address, Clock, Outbound
from channels.errors import ChannelError
from channels.record import record
from ohmo.contracts.agent import Agent, Answered, Ended, Failed, OpenCall, Outcome, Parked
from ohmo.contracts.arrivals import Again, Arrival, Wake
from ohmo.contracts.cron import Report
from ohmo.contracts.events import Event, TurnEnded, TurnStarted
from ohmo.contracts.messages import CallResult, ModelStep, Step, Text, ToolCall, ToolResult, UserStep
from ohmo.contracts.store import Ask, Card, Claim, Closing, OutRow, PostRow, Store, ToContext, ToStep, Work
from ohmo.contracts.tool import Question
from ohmo.engine.executor import summary
from ohmo.engine.stream import closable
from ohmo.failpoints import Failpoint
from ohmo.ids import NewId, derived
from ohmo.lifecycle import failure_of, unbroken
from ohmo.sessions import lateness, words
from ohmo.sessions.ledger import TurnLedger, again_of
from ohmo.sessions.plan import TurnPlan
from ohmo.sessions.suspects import DEATHS
from ohmo.sessions.tally import Tally
from ohmo.sessions.transcript import Transcript

Why = Literal["stopped", "interrupted", "shutdown", "lost"]
Busy = Literal["queue", "steer", "interrupt", "collect"]
Reporting = Callable[[Wake, str, Sequence[str]], Awaitable[tuple[Outbound | None, Report]]]
TRIES = 3  # exceptions that end a turn in a dead letter
BOT_TURNS = 10  # in a row that another bot gets before the conversation pauses


@record
class SessionParts:
    """What every session is built from. ``plan`` decides model, prompt and permissions of a turn; ``fetch`` brings attachments of an arrival to
    their paths and says what could not be had; ``dead`` is told where a turn ended in a dead letter, where that was said, and why;
    ``context`` tells what was overheard; ``late`` asks whether an old message is still wanted; ``grown`` knows how far a draft has grown since it was stored;
    ``footnote`` says what stands beneath an answer in a place, "" for nothing; ``approval_timeout`` and ``turn_timeout`` in seconds."""

    store: Store
    agent: Agent
    plan: Callable[[Claim, Work], TurnPlan]
    step: ToStep
    fetch: Callable[[Arrival], Awaitable[Sequence[str]]]
    emit: Callable[[str, Event], None]
    dead: Callable[[Address, Address | None, str], Awaitable[None]]
    card: Card
    closing: Closing
    new_id: NewId
    failpoint: Failpoint
    approval_timeout: float
    turn_timeout: float
    busy: Busy  # of threads whose people chose nothing
    report: Reporting | None = None  # for turns that nobody sits in front of
    idle: float | None = None  # seconds of silence after which a thread begins a new session
    clock: Clock = lambda: datetime.now(UTC)
    footnote: Callable[[Address, Tally], str] = lambda _, __: ""
    context: ToContext | None = None
    late: Callable[[Work], Question | None] = lambda _: None
    grown: Callable[[str], str | None] = lambda _: None


@record
class Stopped:
    """A turn that ends before the model is asked. ``text``: what is said about it, "" for nothing."""

    reason: str
    text: str


class Session:
    """Owned by the pool for one claim. ``work``: what was taken with the claim. ``transcript`` is the pool's cached one or a new one."""

    def __init__(self, claim: Claim, parts: SessionParts, work: Work | None = None) -> None:
        self.claim = claim
        self._work = work
        self.turn: str | None = None
        self.suspect = False
        self._parts = parts

    @property
    def busy(self) -> Busy:
        """What a message that comes while this works does."""
        return busy_of(self.claim, self._parts)

    async def take(self) -> Work | None:
        """The head of the mailbox, or the open turn. None: nothing to do, the lease is given back."""
        parts = self._parts
        parts.failpoint("turn.claim")
        work = self._work
        if work is None:
            work = await parts.store.work(
                self.claim, parts.new_id(), collect=self.busy == "collect", step=parts.step, context=parts.context
            )
        if work is not None:
            self.turn, self.suspect = work.turn, work.starts > 2
        return work

    async def run(self, work: Work, transcript: Transcript) -> Outcome | Stopped | None:
        """Brings the turn to an end; a failure with ``retry_after`` is left to ``give_back``. None: a dead letter without running.
        Raises LeaseLost and whatever broke; the pool decides."""
        if work.starts > DEATHS or work.attempts >= TRIES:
            await failure_of(self._catch_up(work, transcript))  # what breaks the turn may be in there
            what = f"it ended the process {work.starts - 1} times" if work.starts > DEATHS else f"it failed {work.attempts} times"
            await self._end_dead(work, transcript, what)
            return None
        plan = self._parts.plan(self.claim, work)
        transcript.refit(plan.budget)
        await self._catch_up(work, transcript)
        if plan.until is not None and plan.until <= self._parts.clock() and not transcript.begun():
            await self._end_dead(work, transcript, words.TOO_LATE)
            return None
        self._parts.emit(self.claim.thread, TurnStarted(work.turn, plan.person, reply_address(work)))
        ledger = self._ledger(work, transcript, plan)
        await self._begin_again(work, transcript, plan)
        if (early := await self._before(work, transcript)) is not None:
            await self._conclude(work, transcript, early, ledger)
            return early
        outcome = await self._drive(work, transcript, ledger)
        await self._conclude(work, transcript, outcome, ledger)
        return outcome

    async def _before(self, work: Work, transcript: Transcript) -> Parked | Stopped | None:
        """What stands between a message and its turn: a conversation of machines, or an age at which nobody may want it any more."""
        parts = self._parts
        bots = transcript.bots_in_a_row()
        if bots > BOT_TURNS:
            return Stopped("a conversation with a bot", words.BOT_LOOP.format(turns=BOT_TURNS) if bots == BOT_TURNS + 1 else "")
        question = parts.late(work)
        if question is None or transcript.answered_once():
            return None
        call = f"{work.turn}.late"
        wanted = UserStep((Text(words.STILL_WANTED),), "house", "notice")
        if transcript.heard_since(wanted):
            return None
        verdict = await parts.store.consume(self.claim, work.turn, call, question.digest)
        if verdict is None:
            return Parked(((ToolCall(call, lateness.CALL, {}, call), question),))
        if verdict.state == "allowed":
            await unbroken(self._record(work.turn, transcript, [wanted]))
            return None
        return Stopped("too old, and not wanted any more", "")

    async def _begin_again(self, work: Work, transcript: Transcript, plan: TurnPlan) -> None:
        """The turn begins with a call that somebody allowed too late for an earlier one: as if the model had made it again."""
        again = _again(work)
        if again is not None and not transcript.begun():
            call = ToolCall(again_of(work.turn), again.name, again.arguments, "")
            await unbroken(self._record(work.turn, transcript, [ModelStep((call,), plan.model, "tools")]))

    async def _catch_up(self, work: Work, transcript: Transcript) -> None:
        """A transcript that is whole and was kept since the last turn lacks only what this one began with."""
        if transcript.whole and not work.resumed:
            transcript.add(work.steps)
        else:
            transcript.add(await self._parts.store.steps(self.claim.thread, transcript.last + 1))
            transcript.whole = True

    async def _prepare(self, work: Work, transcript: Transcript) -> None:
        """Calls an earlier turn left open are closed, and files are fetched. Done again after a restart, it says nothing twice."""
        if abandoned := _closed(transcript.abandoned_calls()):
            await unbroken(self._record(work.turn, transcript, abandoned))
        missing = [line for arrival in work.arrivals for line in await self._parts.fetch(arrival)]
        notice = UserStep((Text("\n".join(missing)),), "house", "notice")
        if missing and notice not in transcript:
            await unbroken(self._record(work.turn, transcript, [notice]))

    def _ledger(self, work: Work, transcript: Transcript, plan: TurnPlan) -> TurnLedger:
        parts = self._parts
        deadline = asyncio.get_running_loop().time() + parts.turn_timeout
        return TurnLedger(
            parts.store,
            self.claim,
            work.turn,
            transcript,
            plan,
            step=parts.step,
            new_id=parts.new_id,
            deadline=deadline,
            again=_again(work),
        )

    async def _drive(self, work: Work, transcript: Transcript, ledger: TurnLedger) -> Outcome:
        parts = self._parts
        outcome: Outcome = Failed("the agent ended without an outcome")
        limit = asyncio.timeout_at(ledger.deadline)
        try:
            async with limit:
                try:
                    await self._prepare(work, transcript)
                except ChannelError as error:  # a file cannot be fetched yet
                    return Failed(str(error), retry_after=10.0)
                async with aclosing(closable(parts.agent.run(work.turn, ledger))) as items:
                    async for item in items:
                        if isinstance(item, Ended):
                            outcome = item.outcome
                        else:
                            parts.emit(self.claim.thread, item)
        except TimeoutError:
            if not limit.expired():
                raise
            return Failed(words.overdue(parts.turn_timeout / 60))
        return outcome

    async def _conclude(self, work: Work, transcript: Transcript, outcome: Outcome | Stopped, ledger: TurnLedger) -> None:
        parts, claim, thread = self._parts, self.claim, self.claim.thread
        await self._tell_left_out(work, transcript)
        match outcome:
            case Answered(text):
                posts, report = await self._said(work, transcript, ledger, text or words.NO_ANSWER)
                parts.failpoint("outbox.before")
                steps, spent = ledger.unwritten
                ledger.written(await parts.store.finish(claim, work.turn, steps, posts, state="done", usage=spent, report=report))
                parts.failpoint("outbox.committed")
                parts.emit(thread, TurnEnded(work.turn, "answered", text))
            case Parked(questions):
                await ledger.flush()
                plan = parts.plan(claim, work)
                cwd, timeout = str(plan.cwd), self._patience(plan)
                asks = [Ask(parts.new_id(), call.id, question, cwd) for call, question in questions]
                standing = _standing(parts.closing, transcript.final_text())
                patience = lateness.PATIENCE if questions[0][0].name == lateness.CALL else timeout
                await parts.store.park(claim, work.turn, asks, timeout=patience, card=parts.card, closing=standing)
                parts.failpoint("approval.stored")
                parts.emit(thread, TurnEnded(work.turn, "parked", questions[0][1].title))
            case Stopped(reason, text):
                posts = self._posts(work, text) if text else []
                await parts.store.finish(claim, work.turn, (), posts, state="stopped", reason=reason)
                parts.emit(thread, TurnEnded(work.turn, "stopped", reason))
            case Failed(reason, None):
                await ledger.flush()
                await self._end_dead(work, transcript, reason)
            case Failed():
                await ledger.flush()  # the pool gives it back and tries again

    async def _end_dead(self, work: Work, transcript: Transcript, reason: str) -> None:
        parts = self._parts
        steps = _closed(transcript.open_calls())
        partial = await self._readable(work.turn)
        posts = self._posts(work, f"{partial}\n\n_{words.failed(reason)}_" if partial else words.failed(reason))
        scheduled = _is_scheduled(work)
        report = Report(reason, failed=True) if scheduled else None
        numbers = await parts.store.finish(self.claim, work.turn, steps, posts, state="failed", reason=reason, report=report)
        if transcript.whole:
            transcript.add(list(zip(numbers, steps, strict=True)))
        parts.emit(self.claim.thread, TurnEnded(work.turn, "failed", reason))
        if not scheduled:  # of a job the owner hears by its incident
            await parts.dead(self.claim.address, reply_address(work), reason)

    async def _readable(self, turn: str) -> str:
        """What a person could read so far of an answer that will not be finished: it is not taken away from them."""
        draft = await self._parts.store.drafted(turn)
        if draft is None or (draft.state == "ready" and not draft.parts):
            return ""
        return self._parts.grown(draft.row.id) or draft.row.outbound.text

    async def ended_early(self, why: Why) -> None:
        """The pool cancelled the run: leave the turn as ``why`` says. ``stopped`` and ``lost``: others have written already."""
        parts, turn = self._parts, self.turn
        try:
            if why == "interrupted" and turn is not None:
                await parts.store.interrupt(self.claim, turn, parts.closing)
            elif why == "shutdown":
                await parts.store.release(self.claim, turn)
        finally:  # whatever the store says of it: nothing runs here any more
            if turn is not None:
                parts.emit(self.claim.thread, TurnEnded(turn, "released" if why in ("shutdown", "lost") else "stopped", ""))

    async def bury(self, reason: str) -> None:
        """What cannot be read, again and again, ends visibly; what was said after it goes on."""
        parts, place = self._parts, self.claim.address
        posts = [PostRow(parts.new_id(), "notice", Outbound(place, words.unreadable(reason)))]
        if await parts.store.bury(self.claim, reason, posts):
            await parts.dead(place, place, reason)

    async def give_back(self, work: Work, reason: str, *, retry_after: float) -> None:
        """The model cannot be reached: the turn stays open, and its person hears it once, also over restarts."""
        parts, address = self._parts, reply_address(work)
        if address is not None:
            text = words.WAITING.format(reason=reason.rstrip("."))
            await parts.store.post([PostRow(derived("waiting", work.turn), "notice", Outbound(address, text))])
        await parts.store.release(self.claim, work.turn, retry_after=retry_after)
        parts.emit(self.claim.thread, TurnEnded(work.turn, "released", reason))

    async def _tell_left_out(self, work: Work, transcript: Transcript) -> None:
        """Said in the thread once per session, also over restarts."""
        address = reply_address(work)
        if not transcript.cut or transcript.told or address is None:
            return
        once = derived("left out", self.claim.thread, str(self.claim.session_seq))
        await self._parts.store.post([PostRow(once, "notice", Outbound(address, words.LEFT_OUT))])
        transcript.told = True

    async def _record(self, turn: str, transcript: Transcript, steps: Sequence[Step]) -> None:
        numbers = await self._parts.store.record(self.claim, turn, steps)
        transcript.add(list(zip(numbers, steps, strict=True)))

    async def _footnote(self, work: Work, ledger: TurnLedger) -> str:
        """Over restarts and questions too: what earlier runs of the turn cost is in the store."""
        address, tally = reply_address(work), ledger.tally
        if address is None or (not tally.calls and not work.resumed):
            return ""
        if work.resumed:
            past = await self._parts.store.turn_cost(self.claim.thread, work.turn)
            steps, spent = ledger.unwritten
            tally = Tally(past.steps, past.input, past.output, past.seconds).and_then(steps, spent)
        else:
            tally = replace(tally, seconds=asyncio.get_running_loop().time() - ledger.deadline + self._parts.turn_timeout)
        return self._parts.footnote(address, tally)

    async def _said(self, work: Work, transcript: Transcript, ledger: TurnLedger, text: str) -> tuple[list[PostRow], Report | None]:
        """The answer's posts; of a turn that nobody sits in front of as its terms want it, with what its history keeps."""
        parts, first = self._parts, work.arrivals[0]
        if not isinstance(first, Wake) or first.terms is None or parts.report is None:
            return self._posts(work, text, await self._footnote(work, ledger)), None
        refused = [f"{call.name}: {summary(call)}" for call in transcript.refused()]
        outbound, report = await parts.report(first, text, refused)
        if _is_scheduled(work):
            parts.failpoint("cron.ran")
        return ([PostRow(parts.new_id(), "message", outbound)] if outbound is not None else []), report

    def _patience(self, plan: TurnPlan) -> float:
        """Seconds a question of this turn may stay open."""
        if plan.until is None:
            return self._parts.approval_timeout
        return max(1.0, (plan.until - self._parts.clock()).total_seconds())

    def _posts(self, work: Work, text: str, footnote: str = "") -> list[PostRow]:
        address = reply_address(work)
        said = f"{text}\n\n{footnote}" if footnote else text
        return [PostRow(self._parts.new_id(), "message", Outbound(address, said))] if address is not None else []


def busy_of(claim: Claim, parts: SessionParts) -> Busy:
    """What its people chose, else the configuration."""
    return claim.settings.busy or parts.busy


def _again(work: Work) -> Again | None:
    first = work.arrivals[0]
    return first.again if isinstance(first, Wake) else None


def _is_scheduled(work: Work) -> bool:
    first = work.arrivals[0]
    return isinstance(first, Wake) and first.occurrence is not None


def _standing(closing: Closing, words: str) -> Closing:
    """A parked turn is not over: its draft stands with the words of the step that asks, or what it said first."""

    def close(row: OutRow) -> PostRow:
        made = closing(row)
        return replace(made, outbound=replace(made.outbound, text=words or row.row.outbound.text))

    return close


def reply_address(work: Work) -> Address | None:
    """Where the answer of a turn goes: to the place of its first arrival, or where a wake says."""
    first = work.arrivals[0]
    return first.deliver if isinstance(first, Wake) else first.address


def _closed(calls: Sequence[OpenCall]) -> list[Step]:
    """Results for calls that will not run any more."""
    return [CallResult(ToolResult(one.call.id, words.STOPPED_TOOL if one.started else words.NOT_RUN, error=True)) for one in calls]
