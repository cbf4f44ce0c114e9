"""Every way a turn can leave this process, one method each: what is stored, what its person sees,
what happens at a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from channels.contract import Hint, Outbound
from channels.errors import Unavailable
from channels.text import quote_thinking, without_thinking
from ohmo.ambient import derived
from ohmo.contracts.agent import OpenCall, RunEnding, TurnEnded
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.cron import Report
from ohmo.contracts.inwriter import Rest, in_writer
from ohmo.contracts.messages import CallResult, Layer, Step, ToolCall, ToolResult
from ohmo.contracts.outbox import Ask, OutRow, PostRow
from ohmo.contracts.tool import Question
from ohmo.contracts.turns import Claim, End, Work
from ohmo.engine.executor import summary
from ohmo.lifecycle import backoff
from ohmo.sessions import user_steps
from ohmo.sessions.ledger import Run, TurnLedger, is_scheduled, reply, reply_address
from ohmo.sessions.planner import SessionDeps
from ohmo.sessions.transcript import Transcript


class Exits:
    """Of the turn that runs under one claim. Each writes its end in one transaction and tells
    whoever watches; a process that is killed takes none of them, and the store counts that death at
    the next start. ``docs/architecture.md`` has the same table for readers.

    Every method raises Unavailable (the store is away: the turn stays open, the lease ends by
    itself) and LeaseLost (somebody else ended the turn or goes on with it: nothing was written)."""

    def __init__(self, deps: SessionDeps, claim: Claim) -> None:
        self._deps = deps
        self._claim = claim

    # the turn is over

    async def answered(self, run: Run, ledger: TurnLedger, text: str) -> None:
        """Stored: turn done, first message answered, the others merged, with the answer's post.
        Seen: the answer. Restart: nothing."""
        deps = self._deps
        posts, report = await self._answer(run, ledger, text)
        deps.ambient.failpoint("outbox.before")
        steps, spent = ledger.unwritten
        end = End("done", report=report)
        numbers = await deps.store.finish(
            self._claim, run.turn, steps, posts, end, usage=spent, payer=ledger.payer
        )
        ledger.written(numbers)
        deps.ambient.failpoint("outbox.committed")
        self._over(run.turn, "answered", text)

    async def failed(
        self, work: Work, transcript: Transcript, reason: str, *, budget: bool = False
    ) -> None:
        """A dead letter. Stored: turn failed, its messages dead, open calls closed. Seen: why (not
        by a guest), after what could be read of the answer, with a button to try again; the owner
        is told, of a ``budget`` that is used up once by whoever keeps it. Restart: nothing; the
        button, ``/retry`` or ``ohmo inbox retry`` brings the messages back."""
        steps = closed(transcript.open_calls())
        scheduled = is_scheduled(work)
        output = self._deps.output
        text = user_steps.failed(reason, guest=output.guest(work), budget=budget)
        # What a person could read so far is not taken away from them.
        draft = await self._deps.store.drafted(work.turn)
        if draft is not None and (draft.state != "ready" or draft.parts):
            partial = output.grown(draft.row.id) or draft.row.outbound.text
            if partial:
                text = f"{partial}\n\n_{text}_"
        posts: list[PostRow] = []
        for post in self._posts(work, text):
            failure = post.outbound
            if not scheduled:
                button = user_steps.again(work.turn)
                failure = replace(failure, choices=(button,), hint=Hint.RETRY)
            posts.append(replace(post, id=derived("failed", work.turn), outbound=failure))
        report = Report(reason, failed=True) if scheduled else None
        end = End("failed", reason, report)
        numbers = await self._deps.store.finish(self._claim, work.turn, steps, posts, end)
        if transcript.whole:
            transcript.add(list(zip(numbers, steps, strict=True)))
        self._over(work.turn, "failed", reason)
        if not scheduled and not budget:  # of a job the owner hears by its incident
            await output.dead(self._claim.address, reply_address(work), reason)

    async def unwanted(self, run: Run, reason: str, text: str) -> None:
        """Before the model was asked: bots among themselves, or a message too old. Stored: turn and
        messages stopped. Seen: ``text``, if any. Restart: nothing."""
        posts = self._posts(run.work, text) if text else []
        await self._deps.store.finish(self._claim, run.turn, (), posts, End("stopped", reason))
        self._over(run.turn, "stopped", reason)

    async def interrupted(self, turn: str | None, rest: Rest) -> None:
        """By a newer message (busy mode ``interrupt``). Stored: turn stopped, its messages merged,
        the draft closed, what was said until then. Seen: that, marked as stopped; then the answer
        to the newer message. Restart: nothing."""
        try:
            if turn is not None:
                await self._deps.store.interrupt(self._claim, turn, self._deps.output.closing, rest)
        finally:  # whatever the store says of it: nothing runs here any more
            self._over(turn, "stopped")

    def stopped(self, turn: str | None) -> None:
        """By /stop or /new. Stored, by the command's own transaction before this: turn and messages
        stopped, questions void, the generation raised, what was said until then. Seen: that, marked
        as stopped, and the command's reply. Restart: nothing."""
        self._over(turn, "stopped")

    async def unreadable(self, reason: str) -> None:
        """The store cannot read what the turn took. Stored: it ends as dead, unread. Seen: a notice
        that asks to say it again; the owner is told. Restart: nothing; what was said after it goes
        on."""
        deps = self._deps
        place = self._claim.address
        notice = Outbound(place, user_steps.unreadable(reason))
        posts = [PostRow(deps.ambient.new_id(), "notice", notice)]
        if await deps.store.bury(self._claim, reason, posts):
            await deps.output.dead(place, place, reason)

    # the turn stays open

    async def parked(
        self, run: Run, ledger: TurnLedger, questions: Sequence[tuple[ToolCall, Question]]
    ) -> None:
        """A person is asked. Stored: turn parked, its questions, the first one's card; lease and
        slot are free. Seen: the draft as it stands, the card. Restart: it stays parked; the answer,
        or the deadline, makes it go on."""
        deps = self._deps
        await ledger.flush()
        asks = [
            Ask(deps.ambient.new_id(), call.id, question, str(run.plan.cwd))
            for call, question in questions
        ]
        first_call, first_question = questions[0]
        timeout = deps.limits.patience(first_call.name, run.plan.until)
        text = quote_thinking(run.transcript.final_text())

        @in_writer
        def standing(row: OutRow) -> PostRow:
            """The turn is not over: its draft stands with the words of the step that asks, or what
            it said first."""
            closed_draft = deps.output.closing(row)
            shown = text or row.row.outbound.text
            return replace(closed_draft, outbound=replace(closed_draft.outbound, text=shown))

        await deps.store.park(
            self._claim, run.turn, asks, timeout=timeout, card=deps.output.card, closing=standing
        )
        deps.ambient.failpoint("approval.stored")
        self._over(run.turn, "parked", first_question.title)

    async def waiting(self, work: Work, reason: str, retry_after: float) -> None:
        """The model, or a file, cannot be had now. Stored: a notice, once per turn; the thread is
        ready again after ``retry_after`` seconds. Seen: that the message is kept. Restart: it goes
        on when its time comes; no failure is counted."""
        address = reply_address(work)
        if address is not None:
            text = user_steps.waiting(reason, guest=self._deps.output.guest(work))
            notice = Outbound(address, text)
            row = PostRow(derived("waiting", work.turn), "notice", notice)
            await self._deps.store.post([row])
        await self._deps.store.release(self._claim, work.turn, retry_after=retry_after)
        self._over(work.turn, "released", reason)

    async def broken(self, turn: str | None, error: Exception) -> None:
        """An exception. Stored: one more failed try (``TRIES`` of them end the turn as ``failed``),
        none when the store was away, which is nobody's fault. Seen: nothing yet. Restart: it goes
        on after a moment, its open calls closed first."""
        text = None if isinstance(error, Unavailable) else f"{type(error).__name__}: {error}"
        try:
            pause = backoff(1, first=1.0, most=5.0)
            await self._deps.store.release(self._claim, turn, retry_after=pause, error=text)
        finally:
            self._over(turn, "released")

    async def stepped_back(self, work: Work, pause: float) -> None:
        """A suspect lets others go first, before it begins. Stored: the thread is ready again after
        ``pause`` seconds. Seen: nothing. Restart: it comes again; no death is counted for
        waiting."""
        await self._deps.store.release(self._claim, work.turn, retry_after=pause)

    async def shut_down(self, turn: str | None) -> None:
        """The daemon stops and the turn did not end in time. Stored: the lease is given back. Seen:
        nothing. Restart: it goes on at once; no death is counted."""
        try:
            await self._deps.store.release(self._claim, turn)
        finally:
            self._over(turn, "released")

    def lost(self, turn: str | None) -> None:
        """Somebody else has the thread (a lease that ran out, another instance). Stored: nothing,
        every write is refused. Seen: what the other says. Restart: the other's affair."""
        self._over(turn, "released")

    # what they say

    def _over(self, turn: str | None, outcome: RunEnding, text: str = "") -> None:
        if turn is not None:
            self._deps.output.emit(self._claim.thread, TurnEnded(turn, outcome, text))

    async def _answer(
        self, run: Run, ledger: TurnLedger, text: str
    ) -> tuple[list[PostRow], Report | None]:
        """The answer's posts; of a turn that nobody sits in front of as its terms want it, with
        what its history keeps."""
        deps = self._deps
        first = run.work.arrivals[0]
        if not isinstance(first, Wake) or first.terms is None or deps.report is None:
            answer = quote_thinking(text) or user_steps.NO_ANSWER
            # Over restarts and questions too: what earlier runs of the turn cost is in the store.
            address = reply_address(run.work)
            cost = ledger.cost
            footnote = ""
            if address is not None and run.work.resumed:
                past = await deps.store.turn_cost(self._claim.thread, run.turn)
                footnote = deps.output.footnote(address, past.and_then(*ledger.unwritten))
            elif address is not None and cost.tool_calls:
                began = run.deadline - deps.limits.turn_timeout
                cost = replace(cost, seconds=asyncio.get_running_loop().time() - began)
                footnote = deps.output.footnote(address, cost)
            if footnote:
                answer = f"{answer}\n\n{footnote}"
            return self._posts(run.work, answer), None
        refused = [f"{call.name}: {summary(call)}" for call in run.transcript.refused()]
        calls = run.transcript.ended_calls()
        answer = without_thinking(text)
        if not answer and not deps.report.stands(first, calls):
            answer = user_steps.NO_ANSWER
        outbound, report = await deps.report(first, answer, refused, calls)
        if is_scheduled(run.work):
            deps.ambient.failpoint("cron.ran")
        if outbound is None:
            return [], report
        return [PostRow(deps.ambient.new_id(), "message", outbound)], report

    def _posts(self, work: Work, text: str) -> list[PostRow]:
        answer = reply(work)
        if answer is None:
            return []
        return [PostRow(self._deps.ambient.new_id(), "message", replace(answer, text=text))]


def closed(calls: Sequence[OpenCall]) -> list[Step]:
    """Results for calls that will not run any more."""
    steps: list[Step] = []
    for open_call in calls:
        text = user_steps.STOPPED_TOOL if open_call.started else user_steps.NOT_RUN
        layer = Layer.UNKNOWN if open_call.started else Layer.STOPPED
        result = ToolResult(open_call.call.id, text, error=True, refused=layer)
        steps.append(CallResult(result))
    return steps
