"""One thread's mind: takes its work, runs one turn at a time, and leaves it by one of its exits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Literal

from channels.contract import Outbound
from channels.errors import ChannelError
from channels.record import record
from ohmo.ambient import derived
from ohmo.contracts.agent import Answered, Ended, Failed, Outcome, Parked, TurnStarted
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.inwriter import Remains, in_writer
from ohmo.contracts.messages import ModelStep, Step, Text, ToolCall, UserStep
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.turns import Claim, Work
from ohmo.engine.concurrency import closable
from ohmo.lifecycle import failure_of, unbroken
from ohmo.sessions import admission, user_steps
from ohmo.sessions.admission import DEATHS
from ohmo.sessions.deps import Busy, SessionDeps
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
            self._work, self.turn, self.suspect = work, work.turn, work.starts > 2
        return work

    async def run(self, work: Work, transcript: Transcript) -> Outcome | Unwanted | None:
        """Brings the turn to one of its exits; a failure with ``retry_after`` is left to the pool,
        which knows how often it came. None: a dead letter without running. ``transcript``: the
        cached one of the thread, or a new one. Raises LeaseLost and whatever broke; the pool
        decides."""
        deps = self._deps
        if work.starts > DEATHS or work.attempts >= TRIES:
            await failure_of(
                self._catch_up(work, transcript)
            )  # what breaks the turn may be in there
            what = (
                f"it ended the process {work.starts - 1} times"
                if work.starts > DEATHS
                else f"it failed {work.attempts} times"
            )
            await self.exits.failed(work, transcript, what)
            return None
        try:
            plan = deps.plan(self.claim, work)
        except ConfigError as error:  # a job's secret is gone: to try again brings nothing back
            await self._catch_up(work, transcript)
            await self.exits.failed(work, transcript, str(error))
            return None
        transcript.refit(plan.budget)
        await self._catch_up(work, transcript)
        if plan.until is not None and plan.until <= deps.ambient.clock() and not transcript.begun():
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
        )
        await self._begin_again(run)
        outcome = self._stood(run, await self._before(run) or await self._drive(run, ledger))
        await self._leave(run, ledger, outcome)
        return outcome

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
        work, saying = self._work, self._saying
        if work is None or work.turn != turn:
            return Remains()
        first, answer = work.arrivals[0], reply(work)
        if (
            not saying.text.strip()
            or answer is None
            or (isinstance(first, Wake) and first.terms is not None)
        ):
            return Remains(saying.steps())
        said = replace(answer, text=f"{saying.text.strip()}\n\n_{note}_")
        return Remains(saying.steps(), PostRow(self._deps.ambient.new_id(), "message", said))

    @in_writer
    def _rest(self, turn: str) -> Remains:
        return self.remains(turn, "stopped") if self._saying.text else Remains()

    async def _before(self, run: Run) -> Parked | Unwanted | None:
        """What stands between a message and its turn: a conversation of machines, or an age at
        which nobody may want it any more."""
        deps, transcript = self._deps, run.transcript
        bots = transcript.bots_in_a_row()
        if bots > BOT_TURNS:
            return Unwanted(
                "a conversation with a bot",
                user_steps.BOT_LOOP.format(turns=BOT_TURNS) if bots == BOT_TURNS + 1 else "",
            )
        question = deps.limits.late(run.work)
        if question is None or transcript.answered_once():
            return None
        call = f"{run.turn}.late"
        wanted = UserStep((Text(user_steps.STILL_WANTED),), "house", "notice")
        if transcript.heard_since(wanted):
            return None
        verdict = await deps.store.consume(self.claim, run.turn, call, question.digest)
        if verdict is None or verdict.state == "changed":
            return Parked(((ToolCall(call, admission.LATE_CALL, {}, call), question),))
        if verdict.state == "allowed":
            await self._record(run, [wanted])
            return None
        said = (
            "nobody said in time that it is still wanted"
            if verdict.state == "expired"
            else "not wanted any more"
        )
        return Unwanted(f"too old, and {said}", "")

    async def _begin_again(self, run: Run) -> None:
        """The turn begins with a call that somebody allowed too late for an earlier one, or with
        the one that a job's report is made of: as if the model had made it."""
        again, first, report = allowed_before(run.work), run.work.arrivals[0], self._deps.report
        if run.transcript.begun():
            return
        if again is not None:
            call = ToolCall(again_of(run.turn), again.name, again.arguments, "")
        elif (
            isinstance(first, Wake)
            and report is not None
            and (arguments := report.first(first)) is not None
        ):
            call = ToolCall(f"{run.turn}.first", "Bash", arguments, "")
        else:
            return
        await self._record(run, [ModelStep((call,), run.plan.model, "tools")])

    def _stood(self, run: Run, outcome: Outcome | Unwanted) -> Outcome | Unwanted:
        """A report that needs no word of the model does not wait for it, nor fail with it."""
        first, report = run.work.arrivals[0], self._deps.report
        if not isinstance(outcome, Failed) or not isinstance(first, Wake) or report is None:
            return outcome
        return (
            Answered("", alone=True)
            if report.stands(first, run.transcript.ended_calls())
            else outcome
        )

    async def _catch_up(self, work: Work, transcript: Transcript) -> None:
        """A transcript that is whole and was kept since the last turn lacks only what this one
        began with."""
        if transcript.whole and not work.resumed:
            transcript.add(work.steps)
        else:
            transcript.add(await self._deps.store.steps(self.claim.thread, transcript.last + 1))
            transcript.whole = True

    async def _prepare(self, run: Run) -> None:
        """Calls an earlier turn left open are closed, and files are fetched. Done again after a
        restart, it says nothing twice."""
        if abandoned := closed(run.transcript.abandoned_calls()):
            await self._record(run, abandoned)
        missing = [
            line for arrival in run.work.arrivals for line in await self._deps.input.fetch(arrival)
        ]
        notice = UserStep((Text("\n".join(missing)),), "house", "notice")
        if missing and notice not in run.transcript:
            await self._record(run, [notice])

    async def _drive(self, run: Run, ledger: TurnLedger) -> Outcome:
        deps = self._deps
        outcome: Outcome = Failed("the agent ended without an outcome")
        limit, self._saying = asyncio.timeout_at(run.deadline), PartialAnswer(run.plan.model)
        try:
            async with limit:
                try:
                    await self._prepare(run)
                except ChannelError as error:  # a file cannot be fetched yet
                    return Failed(str(error), retry_after=10.0)
                async with aclosing(closable(deps.agent.run(run.turn, ledger))) as items:
                    async for item in items:
                        if isinstance(item, Ended):
                            outcome = item.outcome
                        else:
                            self._saying = self._saying.after(item, kept=not ledger.unwritten[0])
                            deps.output.emit(self.claim.thread, item)
        except TimeoutError:
            if not limit.expired():
                raise
            return Failed(user_steps.overdue(deps.limits.turn_timeout / 60))
        return outcome

    async def _leave(self, run: Run, ledger: TurnLedger, outcome: Outcome | Unwanted) -> None:
        await self._tell_left_out(run)
        match outcome:
            case Answered(text):
                await self.exits.answered(run, ledger, text)
            case Parked(questions):
                await self.exits.parked(run, ledger, questions)
            case Unwanted(reason, text):
                await self.exits.unwanted(run, reason, text)
            case Failed(reason, None):
                await ledger.flush()
                await self.exits.failed(run.work, run.transcript, reason)
            case Failed():
                await ledger.flush()  # the pool lets it wait and tries again

    async def _tell_left_out(self, run: Run) -> None:
        """Said in the thread once per session, also over restarts."""
        address, transcript = reply_address(run.work), run.transcript
        if not transcript.cut or transcript.told or address is None:
            return
        once = derived("left out", self.claim.thread, str(self.claim.session_seq))
        await self._deps.store.post(
            [PostRow(once, "notice", Outbound(address, user_steps.LEFT_OUT))]
        )
        transcript.told = True

    async def _record(self, run: Run, steps: Sequence[Step]) -> None:
        """What was committed is in the transcript, also when the turn is stopped in between."""
        await unbroken(self._commit(run, steps))

    async def _commit(self, run: Run, steps: Sequence[Step]) -> None:
        numbers = await self._deps.store.record(self.claim, run.turn, steps)
        run.transcript.add(list(zip(numbers, steps, strict=True)))


def _started(work: Work, person: str) -> TurnStarted:
    answer = reply(work)
    if answer is None:
        return TurnStarted(work.turn, person)
    return TurnStarted(work.turn, person, answer.address, answer.reply_to, answer.mentions)
