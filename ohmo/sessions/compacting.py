"""Makes conversations shorter before a model is asked, on a person's word, or while nobody waits:
results to a line, then a summary, then the cut of the oldest exchanges. What it decides is recorded
before it counts, so that a restart and a replay send the same bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Literal

import structlog

from channels.errors import Unavailable
from channels.record import Recent, record
from ohmo.ambient import Failpoint
from ohmo.config.agent import Context
from ohmo.context.compaction import (
    CUT_TO,
    LEAST_GAIN,
    SUMMARY_TOKENS,
    Sent,
    clearing,
    cutting,
    gain,
    summary_request,
    summing,
)
from ohmo.context.layers import tokens_in
from ohmo.contracts.agent import CompactionProgress
from ohmo.contracts.errors import OhmoError, ProviderError
from ohmo.contracts.messages import Compaction
from ohmo.contracts.provider import AskOnce, Payer
from ohmo.lifecycle import within
from ohmo.sessions.transcript import Transcript

log = structlog.get_logger("ohmo.sessions")
SHARE = 0.2  # of the model's window that stays whole
CARRY_SHARE = 0.25  # of the room that may be carried over
WORTH = 0.25  # of the tokens that a summary takes away which nobody waits for
SECONDS = 90.0  # a summary may take
AT_ONCE = 4  # summaries that nobody waits for
PREPARED = 256  # of which is known what they become
TIERS = 3  # that one request may need


@record
class Talk:
    """A conversation that is about to be sent. ``room``: tokens there are for it; ``window``: of
    its model."""

    transcript: Transcript
    room: int
    window: int
    payer: Payer
    patient: bool = False  # no turn waits for what becomes of it

    def carry(self, settings: Context, before: int) -> str:
        """What is carried over of all below ``before``."""
        room = int(self.room * CARRY_SHARE)
        return self.transcript.carry.text(settings.carry, room, before)


@record
class _Prepared:
    """``session``, ``first``, ``count``: by which a transcript is known to be still the one it was
    made for."""

    step: Compaction
    session: int
    first: int
    count: int


Tell = Callable[[CompactionProgress], None]
Write = Callable[[Compaction], Awaitable[None]]
Phase = Literal[
    "hooks_start",
    "context_collapse_start",
    "context_collapse_end",
    "session_memory_start",
    "session_memory_end",
    "compact_start",
    "compact_retry",
    "compact_end",
    "compact_failed",
]


def _nobody(_: CompactionProgress) -> None:
    return


class Compacting:
    """``ask``: for summaries, None: there are none; ``model``: who is asked, the smallest there is;
    ``window``: tokens a model takes. ``failpoint`` ``compact.start`` is hit before a model is asked
    and before what came of it is recorded."""

    def __init__(
        self,
        ask: AskOnce | None,
        model: str,
        window: Callable[[str], int],
        settings: Context,
        failpoint: Failpoint,
    ) -> None:
        self._ask = ask
        self._model = model
        self.window = window
        self._settings = settings
        self._failpoint = failpoint
        self._prepared = Recent[str, _Prepared](PREPARED)
        self._running: dict[str, asyncio.Task[None]] = {}

    def due(self, talk: Talk) -> bool:
        """Whether ``fit`` may do anything, but when it is forced."""
        return talk.payer.thread in self._prepared or talk.transcript.tokens > talk.room

    async def fit(self, talk: Talk, write: Write, tell: Tell, *, force: bool = False) -> bool:
        """Brings it below its room, as far as that goes. ``force``: the provider finds it too long,
        whatever we think. False: it is as it was."""
        transcript = talk.transcript
        shrunk = await self._apply(talk, write, tell)
        target = transcript.tokens // 2 if force else talk.room
        for _ in range(TIERS):
            if transcript.tokens <= target:
                break
            step = await self._next(talk, target, tell, force=force)
            if step is None:
                break
            await write(step)
            shrunk = True
        return shrunk

    async def shorten(self, talk: Talk, write: Write, tell: Tell, words: str) -> bool:
        """On a person's word: a summary that keeps ``words``, else shorter results. Never cuts."""
        sent = talk.transcript.sent()
        if not sent.rows:
            return False
        self._prepared.pop(talk.payer.thread, None)
        keep = self._kept(sent, talk, force=True)
        carry = talk.carry(self._settings, keep)
        step = await self._summed(talk, sent, keep, carry, tell, words=words)
        step = step or clearing(sent, keep, talk.room)
        if step is not None:
            await write(step)
        return step is not None

    def later(self, talk: Talk) -> None:
        """After an answer: what the next request would need soon is made ready now."""
        transcript = talk.transcript
        talk = replace(talk, patient=True)
        thread = talk.payer.thread
        full = transcript.tokens > talk.room * self._settings.compact_at
        if not full or not transcript.fresh or thread in self._running or thread in self._prepared:
            return
        if len(self._running) >= AT_ONCE:
            return
        task = asyncio.create_task(self._prepare(talk, transcript.sent()), name="compact.later")
        self._running[thread] = task
        task.add_done_callback(lambda _: self._running.pop(thread, None))

    async def settled(self) -> None:
        """Once nothing is made ready any more."""
        while self._running:
            await asyncio.wait(list(self._running.values()))

    async def aclose(self) -> None:
        """What is not ready is lost; nothing depends on it."""
        for task in list(self._running.values()):
            task.cancel()
        await self.settled()

    async def _prepare(self, talk: Talk, sent: Sent) -> None:
        target = int(talk.room * self._settings.compact_at)
        count = len(talk.transcript.compactions)
        session = talk.transcript.session_seq
        keep = self._kept(sent, talk, force=False)
        step = clearing(sent, keep, target)
        gone = tokens_in([row for row in sent.rows if row[0] < keep])
        if step is None and gone >= WORTH * sent.tokens:
            carry = talk.carry(self._settings, keep)
            try:
                step = await self._summed(talk, sent, keep, carry, _nobody)
            except (OhmoError, Unavailable) as error:  # nobody waits for it, and nothing is lost
                log.warning("compact_later_failed", error=f"{type(error).__name__}: {error}")
        if step is not None:
            first = sent.rows[0][0]
            self._prepared[talk.payer.thread] = _Prepared(step, session, first, count)

    async def _apply(self, talk: Talk, write: Write, tell: Tell) -> bool:
        """Records what was made ready, if the conversation is still what it was made of."""
        ready = self._prepared.pop(talk.payer.thread, None)
        if ready is None:
            return False
        transcript = talk.transcript
        sent = transcript.sent()
        if not sent.rows:
            return False
        now = (transcript.session_seq, sent.rows[0][0], len(transcript.compactions))
        if now != (ready.session, ready.first, ready.count):
            return False
        step = ready.step
        carry = talk.carry(self._settings, step.keeps_from) if step.summary else ""
        step = Compaction(step.summary, step.keeps_from, step.clears_before, carry)
        step = sent.measured(step)
        if gain(step) < LEAST_GAIN:
            return False
        self._say(talk, tell, "compact_start")
        self._failpoint("compact.start")
        await write(step)
        self._say(talk, tell, "compact_end")
        return True

    async def _next(self, talk: Talk, target: int, tell: Tell, *, force: bool) -> Compaction | None:
        """The mildest step that helps. After one that nothing has followed: the cut."""
        transcript = talk.transcript
        sent = transcript.sent()
        if not sent.rows:
            return None
        self._say(talk, tell, "hooks_start")
        keep = self._kept(sent, talk, force=force)
        step = None
        if transcript.fresh or not transcript.compactions:
            self._say(talk, tell, "context_collapse_start")
            step = clearing(sent, keep, target)
            self._say(talk, tell, "context_collapse_end")
        if step is not None:
            self._failpoint("compact.start")
            return step
        self._say(talk, tell, "session_memory_start")
        carry = talk.carry(self._settings, keep)
        self._say(talk, tell, "session_memory_end")
        if transcript.fresh or not transcript.compactions:
            step = await self._summed(talk, sent, keep, carry, tell)
        if step is not None:
            return step
        self._failpoint("compact.start")
        carry = talk.carry(self._settings, transcript.last)
        return cutting(sent, carry, int(CUT_TO * target), 0.0 if force else LEAST_GAIN)

    async def _summed(
        self, talk: Talk, sent: Sent, keep: int, carry: str, tell: Tell, *, words: str = ""
    ) -> Compaction | None:
        """What a model makes of all before ``keep``, asked twice at most."""
        gone = tokens_in([row for row in sent.rows if row[0] < keep])
        if self._ask is None or gone - min(SUMMARY_TOKENS, gone // 3) < LEAST_GAIN * sent.tokens:
            return None
        room = int(self.window(self._model) * CUT_TO)
        request = summary_request(sent, keep, carry, words, self._model, room, talk.payer)
        request = replace(request, patient=talk.patient)
        self._say(talk, tell, "compact_start")
        self._failpoint("compact.start")
        for last in (False, True):
            try:
                reply = await within(SECONDS, self._ask(request))
            except (ProviderError, TimeoutError) as error:
                log.warning("summary_failed", thread=talk.payer.thread, error=str(error))
                break
            step = summing(sent, keep, carry, reply.step)
            if step is not None:
                self._failpoint("compact.start")
                self._say(talk, tell, "compact_end")
                return step
            if not last:
                self._say(talk, tell, "compact_retry")
        self._say(talk, tell, "compact_failed")
        return None

    def _kept(self, sent: Sent, talk: Talk, *, force: bool) -> int:
        keep = sent.protected(self._settings.keep_exchanges, int(talk.window * SHARE))
        return sent.half() if force and keep == sent.rows[0][0] else keep

    def _say(self, talk: Talk, tell: Tell, phase: Phase) -> None:
        tell(CompactionProgress(talk.payer.turn, phase))
