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
from ohmo.contracts.inwriter import Closing, Rest, in_writer
from ohmo.contracts.messages import CallResult, Layer, Step, ToolCall, ToolResult
from ohmo.contracts.outbox import Ask, OutRow, PostRow
from ohmo.contracts.tool import Question
from ohmo.contracts.turns import Claim, End, Work
from ohmo.engine.executor import summary
from ohmo.lifecycle import backoff
from ohmo.sessions import user_steps
from ohmo.sessions.deps import SessionDeps
from ohmo.sessions.ledger import Run, TurnLedger, is_scheduled, reply, reply_address
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
        ledger.written(
            await deps.store.finish(
                self._claim, run.turn, steps, posts, End("done", report=report), usage=spent
            )
        )
        deps.ambient.failpoint("outbox.committed")
        self._over(run.turn, "answered", text)

    async def failed(self, work: Work, transcript: Transcript, reason: str) -> None:
        """A dead letter. Stored: turn failed, its messages dead, open calls closed. Seen: why (not
        by a guest), after what could be read of the answer, with a button to try again; the owner
        is told. Restart: nothing; the button, ``/retry`` or ``ohmo inbox retry`` brings the
        messages back."""
        steps = closed(transcript.open_calls())
        scheduled, partial = is_scheduled(work), await self._readable(work.turn)
        said = user_steps.failed(reason, guest=self._deps.output.guest(work))
        posts: list[PostRow] = []
        for post in self._posts(work, f"{partial}\n\n_{said}_" if partial else said):
            failure = post.outbound
            if not scheduled:
                button = user_steps.again(work.turn)
                failure = replace(failure, choices=(button,), hint=Hint.RETRY)
            posts.append(replace(post, id=derived("failed", work.turn), outbound=failure))
        report = Report(reason, failed=True) if scheduled else None
        numbers = await self._deps.store.finish(
            self._claim, work.turn, steps, posts, End("failed", reason, report)
        )
        if transcript.whole:
            transcript.add(list(zip(numbers, steps, strict=True)))
        self._over(work.turn, "failed", reason)
        if not scheduled:  # of a job the owner hears by its incident
            await self._deps.output.dead(self._claim.address, reply_address(work), reason)

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
        deps, place = self._deps, self._claim.address
        posts = [
            PostRow(deps.ambient.new_id(), "notice", Outbound(place, user_steps.unreadable(reason)))
        ]
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
        timeout = self._deps.limits.patience(questions[0][0].name, run.plan.until)
        standing = _standing(deps.output.closing, quote_thinking(run.transcript.final_text()))
        await deps.store.park(
            self._claim, run.turn, asks, timeout=timeout, card=deps.output.card, closing=standing
        )
        deps.ambient.failpoint("approval.stored")
        self._over(run.turn, "parked", questions[0][1].title)

    async def waiting(self, work: Work, reason: str, retry_after: float) -> None:
        """The model, or a file, cannot be had now. Stored: a notice, once per turn; the thread is
        ready again after ``retry_after`` seconds. Seen: that the message is kept. Restart: it goes
        on when its time comes; no failure is counted."""
        address = reply_address(work)
        if address is not None:
            text = user_steps.waiting(reason, guest=self._deps.output.guest(work))
            await self._deps.store.post(
                [PostRow(derived("waiting", work.turn), "notice", Outbound(address, text))]
            )
        await self._deps.store.release(self._claim, work.turn, retry_after=retry_after)
        self._over(work.turn, "released", reason)

    async def broken(self, turn: str | None, error: Exception) -> None:
        """An exception. Stored: one more failed try (``TRIES`` of them end the turn as ``failed``),
        none when the store was away, which is nobody's fault. Seen: nothing yet. Restart: it goes
        on after a moment, its open calls closed first."""
        text = None if isinstance(error, Unavailable) else f"{type(error).__name__}: {error}"
        try:
            await self._deps.store.release(
                self._claim, turn, retry_after=backoff(1, first=1.0, most=5.0), error=text
            )
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
        deps, first = self._deps, run.work.arrivals[0]
        if not isinstance(first, Wake) or first.terms is None or deps.report is None:
            return self._posts(
                run.work,
                quote_thinking(text) or user_steps.NO_ANSWER,
                await self._footnote(run, ledger),
            ), None
        refused = [f"{call.name}: {summary(call)}" for call in run.transcript.refused()]
        calls = run.transcript.ended_calls()
        said = without_thinking(text) or (
            "" if deps.report.stands(first, calls) else user_steps.NO_ANSWER
        )
        outbound, report = await deps.report(first, said, refused, calls)
        if is_scheduled(run.work):
            deps.ambient.failpoint("cron.ran")
        return (
            [PostRow(deps.ambient.new_id(), "message", outbound)] if outbound is not None else []
        ), report

    async def _footnote(self, run: Run, ledger: TurnLedger) -> str:
        """Over restarts and questions too: what earlier runs of the turn cost is in the store."""
        address = reply_address(run.work)
        cost = ledger.cost
        if address is None or (not cost.tool_calls and not run.work.resumed):
            return ""
        if run.work.resumed:
            past = await self._deps.store.turn_cost(self._claim.thread, run.turn)
            cost = past.and_then(*ledger.unwritten)
        else:
            cost = replace(
                cost,
                seconds=asyncio.get_running_loop().time()
                - run.deadline
                + self._deps.limits.turn_timeout,
            )
        return self._deps.output.footnote(address, cost)

    async def _readable(self, turn: str) -> str:
        """What a person could read so far of an answer that will not be finished: it is not taken
        away from them."""
        draft = await self._deps.store.drafted(turn)
        if draft is None or (draft.state == "ready" and not draft.parts):
            return ""
        return self._deps.output.grown(draft.row.id) or draft.row.outbound.text

    def _posts(self, work: Work, text: str, footnote: str = "") -> list[PostRow]:
        answer = reply(work)
        said = f"{text}\n\n{footnote}" if footnote else text
        return (
            [PostRow(self._deps.ambient.new_id(), "message", replace(answer, text=said))]
            if answer is not None
            else []
        )


def closed(calls: Sequence[OpenCall]) -> list[Step]:
    """Results for calls that will not run any more."""
    steps: list[Step] = []
    for one in calls:
        text = user_steps.STOPPED_TOOL if one.started else user_steps.NOT_RUN
        layer = Layer.UNKNOWN if one.started else Layer.STOPPED
        steps.append(CallResult(ToolResult(one.call.id, text, error=True, refused=layer)))
    return steps


def _standing(closing: Closing, said: str) -> Closing:
    """A parked turn is not over: its draft stands with the words of the step that asks, or what it
    said first."""

    @in_writer
    def close(row: OutRow) -> PostRow:
        made = closing(row)
        return replace(made, outbound=replace(made.outbound, text=said or row.row.outbound.text))

    return close
