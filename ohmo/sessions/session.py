"""One thread's mind: takes its work, runs one turn at a time, and leaves it by one of its exits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from channels.contract import Outbound
from channels.errors import ChannelError
from channels.record import record
from ohmo.ambient import derived
from ohmo.context.rules import introduced
from ohmo.contracts.agent import Answered, Ended, Failed, Outcome, Parked, TurnStarted
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.inwriter import Remains, in_writer
from ohmo.contracts.messages import ModelStep, Step, Text, ToolCall, UserStep
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.turns import PRESENT, Claim, ThreadSettings, Work
from ohmo.engine.loop import kept_back
from ohmo.lifecycle import closing, failure_of, unbroken
from ohmo.memory.scopes import Viewer
from ohmo.sessions import admission, user_steps
from ohmo.sessions.admission import DEATHS
from ohmo.sessions.exits import Exits, closed
from ohmo.sessions.ledger import (
    PartialAnswer,
    Run,
    TurnControl,
    TurnLedger,
    again_of,
    allowed_before,
    reply,
    reply_address,
)
from ohmo.sessions.planner import Busy, SessionDeps
from ohmo.sessions.transcript import Transcript

Why = Literal["stopped", "interrupted", "shutdown", "lost"]
TRIES = 3  # exceptions that end a turn in a dead letter
BOT_TURNS = 10  # in a row that another bot gets before the conversation pauses


@record
class Unwanted:
    """A turn that ends before the model is asked. ``text``: what is said about it, "" for
    nothing."""

    reason: str
    text: str


class Session:
    """Owned by the pool for one claim. ``work``: what was taken with the claim."""

    def __init__(self, claim: Claim, deps: SessionDeps, work: Work | None = None) -> None:
        self.claim = claim
        self.exits = Exits(deps, claim)
        self.control = TurnControl()
        self.turn: str | None = None
        self.suspect = False
        self._work = work
        self._deps = deps
        self._saying = PartialAnswer()

    @property
    def busy(self) -> Busy:
        """What a message that comes while this works does."""
        return self.control.busy or self._deps.limits.busy_in(self.claim)

    def chose(self, settings: ThreadSettings) -> None:
        """By a person, while it works."""
        self.control.busy = settings.busy or self._deps.limits.busy
        beside = settings.planning in (PRESENT, self.claim.session_seq)
        self.control.plans = beside or settings.mode == "plan"

    async def take(self) -> Work | None:
        """The head of the mailbox, or the open turn. None: nothing to do, the lease is given
        back."""
        deps = self._deps
        deps.ambient.failpoint("turn.claim")
        work = self._work
        if work is None:
            work = await deps.store.work(
                self.claim,
                deps.ambient.new_id(),
                collect=self.busy == "collect",
                step=deps.input.step,
                context=deps.input.context,
                under=deps.under,
            )
        if work is not None:
            if deps.input.context is not None and not work.resumed:
                deps.input.context.told(self.claim, work)
            self._work = work
            self.turn = work.turn
            self.suspect = work.starts > 2
        return work

    async def run(self, work: Work, transcript: Transcript) -> Outcome | Unwanted | None:
        """Brings the turn to one of its exits; a failure with ``retry_after`` is left to the pool,
        which knows how often it came. None: a dead letter without running. ``transcript``: the
        cached one of the thread, or a new one. Raises LeaseLost and whatever broke; the pool
        decides."""
        deps = self._deps
        if work.starts > DEATHS or work.attempts >= TRIES:
            # What breaks the turn may be in there.
            await failure_of(self._catch_up(work, transcript))
            reason = f"it failed {work.attempts} times"
            if work.starts > DEATHS:
                reason = f"it ended the process {work.starts - 1} times"
            await self.exits.failed(work, transcript, reason)
            return None
        try:
            plan = await deps.plan(self.claim, work)
        except ConfigError as error:  # a job's secret is gone: to try again brings nothing back
            await self._catch_up(work, transcript)
            await self.exits.failed(work, transcript, str(error))
            return None
        await self._catch_up(work, transcript)
        too_late = plan.until is not None and plan.until <= deps.ambient.clock()
        if too_late and not transcript.begun():
            await self.exits.failed(work, transcript, user_steps.TOO_LATE)
            return None
        deps.output.emit(self.claim.thread, _started(work, plan.person))
        run = Run(
            self.claim,
            work,
            transcript,
            plan,
            deadline=asyncio.get_running_loop().time() + deps.limits.turn_timeout,
            control=self.control,
        )
        ledger = TurnLedger(
            deps.store,
            run,
            step=deps.input.step,
            new_id=deps.ambient.new_id,
            clock=deps.ambient.clock,
            compacting=deps.compacting,
        )
        asked = user_steps.asks_to_compact(work.arrivals)
        if asked and plan.role != "guest":
            text = await self._compact(run, ledger, " ".join(asked))
            if len(asked) == len(work.arrivals):
                await ledger.record(ModelStep((Text(text),), plan.model, "end"))  # the log has it
                await self.exits.answered(run, ledger, text)
                return Answered(text, alone=True)
        await self._begin_again(run)
        outcome = await self._before(run)
        if outcome is None:
            outcome = await self._drive(run, ledger)
        await self._leave(run, ledger, outcome)
        return outcome

    async def _compact(self, run: Run, ledger: TurnLedger, words: str) -> str:
        """Done again after a restart, it shortens nothing twice."""
        if run.plan.too_big:
            return f"Nothing can be made shorter here: {run.plan.too_big}."
        transcript = run.transcript
        count = len(transcript.compactions)
        if transcript.fresh or not run.work.resumed:
            tell = partial(self._deps.output.emit, self.claim.thread)
            await ledger.compact(words, tell)
            if len(transcript.compactions) == count:
                return user_steps.compacted((), transcript.tokens)
        return user_steps.compacted(transcript.compactions[-1].tokens, transcript.tokens)

    async def left(self, why: Why) -> None:
        """The pool cancelled the run."""
        match why:
            case "interrupted":
                await self.exits.interrupted(self.turn, self._rest)
            case "shutdown":
                await self.exits.shut_down(self.turn)
            case "stopped":
                self.exits.stopped(self.turn)
            case "lost":
                self.exits.lost(self.turn)

    @in_writer
    def remains(self, turn: str, note: str) -> Remains:
        """What is kept of the turn when a person stops it now; ``note`` says so to who reads it."""
        work = self._work
        if work is None or work.turn != turn:
            return Remains()
        saying = self._saying
        text = saying.text.strip()
        first = work.arrivals[0]
        answer = reply(work)
        under_terms = isinstance(first, Wake) and first.terms is not None
        if not text or answer is None or under_terms:
            return Remains(saying.steps())
        outbound = replace(answer, text=f"{text}\n\n_{note}_")
        return Remains(saying.steps(), PostRow(self._deps.ambient.new_id(), "message", outbound))

    @in_writer
    def _rest(self, turn: str) -> Remains:
        if not self._saying.text:
            return Remains()
        return self.remains(turn, "stopped")

    async def _before(self, run: Run) -> Failed | Parked | Unwanted | None:
        """What stands between a message and its turn: a conversation of machines, or an age at
        which nobody may want it any more."""
        if run.plan.too_big:
            return Failed(run.plan.too_big)
        deps = self._deps
        transcript = run.transcript
        bots = transcript.bots_in_a_row()
        if bots > BOT_TURNS:
            text = user_steps.BOT_LOOP.format(turns=BOT_TURNS) if bots == BOT_TURNS + 1 else ""
            return Unwanted("a conversation with a bot", text)
        question = deps.limits.late(run.work)
        if question is None or transcript.answered_once():
            return None
        call = f"{run.turn}.late"
        still_wanted = UserStep((Text(user_steps.STILL_WANTED),), "house", "notice")
        if transcript.heard_since(still_wanted):
            return None
        verdict = await deps.store.consume(self.claim, run.turn, call, question.digest)
        if verdict is None or verdict.state == "changed":
            return Parked(((ToolCall(call, admission.LATE_CALL, {}, call), question),))
        if verdict.state == "allowed":
            await self._record(run, [still_wanted])
            return None
        if verdict.state == "expired":
            return Unwanted("too old, and nobody said in time that it is still wanted", "")
        return Unwanted("too old, and not wanted any more", "")

    async def _begin_again(self, run: Run) -> None:
        """The turn begins with a call that somebody allowed too late for an earlier one, or with
        the one that a job's report is made of: as if the model had made it."""
        if run.plan.too_big or run.transcript.begun():
            return
        again = allowed_before(run.work)
        first = run.work.arrivals[0]
        report = self._deps.report
        if again is not None:
            call = ToolCall(again_of(run.turn), again.name, again.arguments, "")
        elif isinstance(first, Wake) and report is not None:
            arguments = report.first(first)
            if arguments is None:
                return
            call = ToolCall(f"{run.turn}.first", "Bash", arguments, "")
        else:
            return
        await self._record(run, [ModelStep((call,), run.plan.model, "tools")])

    async def _catch_up(self, work: Work, transcript: Transcript) -> None:
        """A transcript that is whole and was kept since the last turn lacks only what this one
        began with."""
        if transcript.whole and not work.resumed:
            transcript.add(work.steps)
        else:
            claim = self.claim
            steps = await self._deps.store.steps(claim.thread, transcript.last + 1)
            holds = claim.settings.holds
            transcript.add([row for row in steps if holds(claim.session_seq, row[0])])
            transcript.whole = True

    async def _prepare(self, run: Run) -> None:
        """Calls an earlier turn left open are closed, and files are fetched. Done again after a
        restart, it says nothing twice."""
        abandoned = closed(run.transcript.abandoned_calls())
        if abandoned:
            await self._record(run, abandoned)
        missing: list[str] = []
        for arrival in run.work.arrivals:
            missing += await self._deps.input.fetch(arrival)
        notice = UserStep((Text("\n".join(missing)),), "house", "notice")
        if missing and notice not in run.transcript:
            await self._record(run, [notice])
        await self._recall(run)
        rules = run.plan.new_rules
        first = run.work.arrivals[0]
        address, whose = reply_address(run.work), ""
        if address is None and isinstance(first, Wake) and first.origin in ("api", "owner"):
            address, whose = first.place, run.claim.thread  # a keyboard shows its own thread only
        if rules is None or address is None:
            return
        sent = "".join(part.text for part in run.plan.system if part.name == "project_rules")
        if words := introduced(rules, sent):
            # once for each state of these files, as long as the post is kept
            once = derived("rules", rules.digest, words, whose)
            row = PostRow(once, "notice", Outbound(address, words))
            await self._deps.store.post([row])

    async def _recall(self, run: Run) -> None:
        """What is remembered is told once for each words that begin a turn."""
        recall = self._deps.input.recall
        told = run.transcript.recalled()
        if recall is None or told is None:
            return
        plan = run.plan
        words = "\n".join(map(user_steps.words_of, run.work.arrivals))
        place = self.claim.address
        viewer = Viewer(plan.person, plan.role, plan.private, place, plan.cwd)
        if text := await recall(viewer, words, told):
            await self._record(run, [UserStep((Text(text),), "house", "memory")])

    async def _drive(self, run: Run, ledger: TurnLedger) -> Outcome:
        deps = self._deps
        outcome: Outcome = Failed("the agent ended without an outcome")
        limit = asyncio.timeout_at(run.deadline)
        self._saying = PartialAnswer(run.plan.model)
        try:
            async with limit:
                try:
                    await self._prepare(run)
                except ChannelError as error:  # a file cannot be fetched yet
                    outcome = Failed(str(error), retry_after=10.0)
                else:
                    agent = deps.agents(run.plan)
                    async with closing(agent.run(run.turn, ledger)) as events:
                        async for event in events:
                            if isinstance(event, Ended):
                                outcome = event.outcome
                                continue
                            unwritten, _ = ledger.unwritten
                            self._saying = self._saying.after(event, kept=not unwritten)
                            deps.output.emit(self.claim.thread, event)
        except TimeoutError:
            if not limit.expired():
                raise
            why = user_steps.overdue(deps.limits.turn_timeout / 60)
            outcome = kept_back(ledger, why) or Failed(why)
        # A report that needs no word of the model does not wait for it, nor fail with it.
        first = run.work.arrivals[0]
        report = deps.report
        if not isinstance(outcome, Failed) or not isinstance(first, Wake) or report is None:
            return outcome
        stands = report.stands(first, run.transcript.ended_calls())
        return Answered("", alone=True) if stands else outcome

    async def _leave(self, run: Run, ledger: TurnLedger, outcome: Outcome | Unwanted) -> None:
        # Said in the thread once per session, also over restarts.
        address = reply_address(run.work)
        transcript = run.transcript
        if transcript.cut and not transcript.told and address is not None:
            once = derived("left out", self.claim.thread, str(self.claim.session_seq))
            row = PostRow(once, "notice", Outbound(address, user_steps.LEFT_OUT))
            await self._deps.store.post([row])
            transcript.told = True
        match outcome:
            case Answered(text):
                await self.exits.answered(run, ledger, text)
                if self._deps.compacting is not None:
                    self._deps.compacting.later(ledger.talk(self._deps.compacting))
            case Parked(questions):
                await self.exits.parked(run, ledger, questions)
            case Unwanted(reason, text):
                await self.exits.unwanted(run, reason, text)
            case Failed(reason, None):
                await ledger.flush()
                await self.exits.failed(run.work, run.transcript, reason, budget=outcome.budget)
            case Failed():
                await ledger.flush()  # the pool lets it wait and tries again

    async def _record(self, run: Run, steps: Sequence[Step]) -> None:
        """What was committed is in the transcript, also when the turn is stopped in between."""
        await unbroken(self._commit(run, steps))

    async def _commit(self, run: Run, steps: Sequence[Step]) -> None:
        numbers = await self._deps.store.record(self.claim, run.turn, steps)
        run.transcript.add(list(zip(numbers, steps, strict=True)))


def _started(work: Work, person: str) -> TurnStarted:
    """With the place of the answer, where there is one."""
    answer = reply(work)
    if answer is None:
        return TurnStarted(work.turn, person)
    to = answer.reply_to
    return TurnStarted(work.turn, person, answer.address, reply_to=to, mentions=answer.mentions)
