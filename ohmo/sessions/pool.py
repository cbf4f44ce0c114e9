"""All running turns of this instance: claims ready threads, bounded and fair, keeps their leases, and gives back what broke."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from channels.errors import Unavailable
from ohmo.contracts.agent import Failed
from ohmo.contracts.errors import LeaseLost
from ohmo.contracts.store import Claim, Hint, PostRow, Store, Work
from ohmo.lifecycle import backoff, failure_of
from ohmo.sessions.session import Session, SessionParts, Why
from ohmo.sessions.suspects import Suspects
from ohmo.sessions.transcript import Transcript

log = structlog.get_logger("ohmo.sessions")
CACHE_BYTES = 48 << 20  # transcripts kept in memory
POLL = 1.0  # seconds: hints may be lost, and some times come without a hint


@dataclass(slots=True)
class _Running:
    """A turn of this instance; ``why`` it was cancelled, None: the pool itself is ending."""

    session: Session
    task: asyncio.Task[None]
    why: Why | None = None


@dataclass(slots=True)
class _Outage:
    """A thread whose model cannot be reached: tries so far, and whether its person was told."""

    tries: int = 0
    told: bool = False


@dataclass(slots=True)
class _Shelf:
    """Transcripts of threads that do not run, the longest unused first to go."""

    transcripts: OrderedDict[str, Transcript] = field(default_factory=OrderedDict[str, Transcript])
    weight: int = 0

    def take(self, claim: Claim, budget: int) -> Transcript:
        """The cached one, when nobody else had the thread in between and the session is the same; else an empty one."""
        known = self.transcripts.pop(claim.thread, None)
        if known is not None:
            self.weight -= known.weight
            if known.session_seq == claim.session_seq and known.generation == claim.generation - 1:
                return known
        return Transcript(claim.session_seq, budget)

    def put(self, claim: Claim, transcript: Transcript) -> None:
        transcript.generation = claim.generation
        self.transcripts[claim.thread] = transcript
        self.weight += transcript.weight
        while self.weight > CACHE_BYTES and len(self.transcripts) > 1:
            _, oldest = self.transcripts.popitem(last=False)
            self.weight -= oldest.weight


class Pool:
    """``width``: turns at the same time. ``budget``: tokens of a conversation before a turn's plan says more. ``ttl``: seconds of a lease."""

    def __init__(self, store: Store, parts: SessionParts, *, owner: str, width: int, budget: int, ttl: float = 30.0) -> None:
        self._store, self._parts, self._owner, self._width, self._budget, self._ttl = store, parts, owner, width, budget, ttl
        self._running: dict[str, _Running] = {}
        self._outages: dict[str, _Outage] = {}
        self._shelf = _Shelf()
        self._suspects = Suspects()
        self._wake = asyncio.Event()
        self._draining = False

    @property
    def running(self) -> int:
        """Turns at this moment."""
        return len(self._running)

    def running_turn(self, thread: str) -> str | None:
        """The turn that runs in ``thread`` on this instance."""
        running = self._running.get(thread)
        return running.session.turn if running is not None else None

    def arrived(self, thread: str) -> None:
        """A message came into ``thread``: in busy mode interrupt it ends the turn that runs there."""
        running = self._running.get(thread)
        if running is not None and running.session.turn is not None and running.session.busy == "interrupt":
            self.cancel(thread, "interrupted")

    def cancel(self, thread: str, why: Why) -> bool:
        """Ends a running turn of this instance. For ``stopped`` the caller has written what there was to write."""
        running = self._running.get(thread)
        if running is None or running.why is not None:
            return False
        running.why = why
        running.task.cancel()
        return True

    async def draft(self, thread: str, turn: str, row: PostRow) -> bool:
        """Write a draft for a running turn. False: the turn is not running here any more, or the store cannot be reached."""
        running = self._running.get(thread)
        if running is None or running.session.turn != turn:
            return False
        try:
            return await self._store.draft(running.session.claim, turn, row)
        except (LeaseLost, Unavailable):
            return False

    async def run(self) -> None:
        """Until cancelled; turns that still run then are given back and continue at the next start."""
        stop_hearing = self._store.listen(self._hear)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._renew(), name="sessions.renew")
                while True:
                    self._wake.clear()
                    if not await self._claim(group):
                        await self._nap()
        finally:
            stop_hearing()

    async def drain(self, seconds: float) -> None:
        """Claim nothing more and let running turns end; after ``seconds`` the rest is given back."""
        self._draining = True
        if tasks := [running.task for running in self._running.values()]:
            await asyncio.wait(tasks, timeout=seconds)
        rest = [(thread, running.task) for thread, running in self._running.items()]
        for thread, _ in rest:
            self.cancel(thread, "shutdown")
        if rest:
            await asyncio.wait([task for _, task in rest], timeout=5)

    def _hear(self, hints: Sequence[Hint]) -> None:
        if any(hint.kind in ("ready", "any") for hint in hints):
            self._wake.set()

    async def _nap(self) -> None:
        try:
            await asyncio.wait_for(self._wake.wait(), POLL)
        except TimeoutError:
            return

    async def _claim(self, group: asyncio.TaskGroup) -> bool:
        free = self._width - len(self._running)
        if self._draining or free <= 0:
            return False
        try:
            claims = await self._store.claim(self._owner, limit=free, ttl=self._ttl)
        except Unavailable as error:
            log.error("store_unavailable", doing="claim", error=str(error))
            return False
        for claim in claims:
            session = Session(claim, self._parts)
            task = group.create_task(self._one(session), name=f"turn.{claim.thread}")
            self._running[claim.thread] = _Running(session, task)
        return bool(claims)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._ttl / 3)
            claims = {running.session.claim for running in self._running.values()}
            if not claims:
                continue
            try:
                lost = await self._store.renew(list(claims), self._ttl)
            except Unavailable as error:
                log.error("store_unavailable", doing="renew", error=str(error))
                continue
            for claim in lost & {running.session.claim for running in self._running.values()}:
                log.warning("lease_lost", thread=claim.thread)
                self.cancel(claim.thread, "lost")

    async def _one(self, session: Session) -> None:
        running = self._running[session.claim.thread]
        try:
            error = await failure_of(self._step(session))
            if error is not None:
                await self._broken(session, error)
        except asyncio.CancelledError:
            left = await failure_of(session.ended_early(running.why or "shutdown"))
            if left is not None and not isinstance(left, LeaseLost):
                log.warning("turn_left_open", thread=session.claim.thread, turn=session.turn, error=str(left))
            if running.why is None:
                raise
        finally:
            del self._running[session.claim.thread]
            self._wake.set()

    async def _step(self, session: Session) -> None:
        work = await session.take()
        if work is None:
            return
        claim = session.claim
        async with self._suspects.among(session.suspect):
            transcript = self._shelf.take(claim, self._budget)
            outcome = await session.run(work, transcript)
        self._shelf.put(claim, transcript)
        if isinstance(outcome, Failed) and outcome.retry_after is not None:
            await self._outage(session, work, outcome, outcome.retry_after)
        else:
            self._outages.pop(claim.thread, None)

    async def _outage(self, session: Session, work: Work, outcome: Failed, retry_after: float) -> None:
        outage = self._outages.setdefault(session.claim.thread, _Outage())
        pause = max(retry_after, backoff(outage.tries, first=5.0, most=300.0))
        await session.give_back(work, outcome.reason, retry_after=pause, say=not outage.told)
        outage.tries, outage.told = outage.tries + 1, True

    async def _broken(self, session: Session, error: Exception) -> None:
        """An exception ended the step: the turn is given back with a back-off; its third one ends it (``Session.run``)."""
        claim = session.claim
        if isinstance(error, LeaseLost):
            log.warning("lease_lost", thread=claim.thread, turn=session.turn)
            await session.ended_early("lost")
            return
        log.error("turn_failed", thread=claim.thread, turn=session.turn, error=f"{type(error).__name__}: {error}", exc_info=error)
        text = f"{type(error).__name__}: {error}"
        left = await failure_of(self._store.release(claim, session.turn, retry_after=backoff(1, first=1.0, most=5.0), error=text))
        if left is not None:
            log.error("turn_left_open", thread=claim.thread, turn=session.turn, error=str(left))
