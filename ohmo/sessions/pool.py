"""All running turns of this instance: claims ready threads, bounded and fair, keeps their leases,
and gives back what broke."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from channels.errors import Unavailable
from ohmo.contracts.agent import Answered, Failed, Parked
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.errors import Damaged, LeaseLost
from ohmo.contracts.inwriter import Remains, Rest, in_writer
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.store import Hint
from ohmo.contracts.turns import Claim, Seat, ThreadSettings, Work
from ohmo.lifecycle import failure_of
from ohmo.sessions.admission import Outages, PoisonTurns
from ohmo.sessions.planner import SessionDeps
from ohmo.sessions.session import TRIES, Session, Why
from ohmo.sessions.transcript import TranscriptCache

log = structlog.get_logger("ohmo.sessions")
TTL = 30.0  # seconds of a lease, by the wall clock
CACHE_BYTES = 48 << 20  # transcripts kept in memory
HANDOVER = 10.0  # seconds a turn waits for the end of one that lost the same thread
POLL = 1.0  # seconds: hints may be lost, and some times come without a hint
PATIENCE = 1.5  # seconds that turns give way, at most, to messages that come in
BREATH = 0.01  # seconds until they look again
AT_ONCE = 16  # threads begun by one transaction; twice as many after one that took all it could


@dataclass(slots=True)
class _Running:
    """A turn of this instance; ``why`` it was cancelled, None: the pool itself is ending."""

    session: Session
    task: asyncio.Task[None] = field(init=False)
    why: Why | None = None


class Pool:
    """``owner``: the name its leases bear. ``width``: turns at the same time. ``cache``: bytes of
    transcripts. ``suspects``: of this life, None: a life that begins now. ``crowded``: more
    messages come in than are stored: they go first."""

    def __init__(
        self,
        deps: SessionDeps,
        *,
        owner: str,
        width: int,
        cache: int = CACHE_BYTES,
        suspects: PoisonTurns | None = None,
        crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        self._deps = deps
        self._store = deps.store
        self._clock = deps.ambient.clock
        self._owner = owner
        self._width = width
        self._running: dict[str, _Running] = {}
        self._renewed = deps.ambient.clock()  # when all leases were fresh
        self._outages = Outages()
        self._unreadable: dict[str, int] = {}  # threads whose work cannot be read: tries so far
        self._shelf = TranscriptCache(cache)
        self._suspects = suspects or PoisonTurns()
        self._crowded = crowded
        self._pressed: float | None = None  # since when it is crowded
        self._wake = asyncio.Event()
        self._ready = set[str]()  # threads that became ready since the last claim; "": perhaps some
        self._due = 0  # jobs whose slots are about to be stored
        self._draining = False
        self._narrow: int | None = None
        self._at_once = 2
        self._claiming = asyncio.Lock()  # from the claim until its task runs

    @property
    def running(self) -> int:
        """Turns at this moment."""
        return len(self._running)

    def running_turn(self, thread: str) -> str | None:
        """The turn that runs in ``thread`` on this instance."""
        running = self._running.get(thread)
        return running.session.turn if running is not None else None

    def arrived(self, thread: str, now: bool = False) -> None:
        """A message came into ``thread``. ``now``: the turn that runs there shall read it before
        its next call of the model, in whatever mode; otherwise busy mode interrupt ends that
        turn."""
        running = self._running.get(thread)
        if running is None:
            return
        if now:
            running.session.control.call()
        elif running.session.turn is not None and running.session.busy == "interrupt":
            _end(running, "interrupted")

    def chose(self, thread: str, settings: ThreadSettings) -> None:
        """What later messages do, and whether plan mode holds: of the turn that runs there, too."""
        if running := self._running.get(thread):
            running.session.chose(settings)

    async def stopped(self, thread: str) -> None:
        """A command has ended, in the store, what was said before it: a turn here that lost its
        lease by that ends at once. What was said after the command may run already, under a lease
        of its own, and goes on. Raises Unavailable."""
        self._outages.over(thread, answered=False)
        running = self._running.get(thread)
        if running is not None and await self._store.renew([running.session.claim], TTL):
            _end(running, "stopped")

    def rest(self, thread: str, note: str) -> Rest:
        """For a command that ends what is said in ``thread``; ``note``: how it is shown that it
        ended there."""

        @in_writer
        def of(turn: str) -> Remains:
            running = self._running.get(thread)
            return running.session.remains(turn, note) if running is not None else Remains()

        return of

    async def draft(self, thread: str, turn: str, row: PostRow) -> bool:
        """Write a draft for a running turn. False: the turn is not running here any more, or the
        store cannot be reached."""
        running = self._running.get(thread)
        if running is None or running.session.turn != turn:
            return False
        try:
            return await self._store.draft(running.session.claim, turn, row)
        except (LeaseLost, Unavailable):
            return False

    def narrow(self, width: int | None) -> None:
        """From now on at most so many turns begin beside each other, and no transcript is kept that
        can be read again; None: as before."""
        self._narrow = width
        if width is not None:
            self._shelf.clear()
        self._ring()

    async def run(self) -> None:
        """Until cancelled; turns that still run then are given back and continue at the next
        start."""
        stop_hearing = self._store.listen(self._hear)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._renewing(), name="sessions.renew")
                while True:
                    self._wake.clear()
                    due = self._due
                    self._due = 0
                    self._ready.clear()
                    # A burst is acknowledged before it is answered; one that does not end holds
                    # nobody up for longer than ``PATIENCE``.
                    if not self._crowded():
                        self._pressed = None
                    elif self._pressed is None:
                        self._pressed = time.monotonic()
                    if self._pressed is not None and time.monotonic() - self._pressed < PATIENCE:
                        await asyncio.sleep(BREATH)
                        continue
                    async with self._claiming:
                        more = await self._claim(group, due)
                    if more:
                        continue
                    if not self._ready:
                        self._wake.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(POLL):
                            await self._wake.wait()
        finally:
            stop_hearing()
            await self._deps.aclose()

    async def drain(self, seconds: float) -> None:
        """Claim nothing more and let running turns end; after ``seconds`` the rest is given
        back."""
        self._draining = True
        async with self._claiming:  # what was taken already is running now
            pass
        tasks = [running.task for running in self._running.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        rest = list(self._running.values())
        for running in rest:
            _end(running, "shutdown")
        if rest:
            await asyncio.wait([running.task for running in rest], timeout=5)

    def _hear(self, hints: Sequence[Hint]) -> None:
        for hint in hints:
            if hint.kind in ("ready", "any"):
                self._ring(hint.thread)
                if running := self._running.get(hint.thread):
                    running.session.control.waiting.set()

    def _ring(self, thread: str = "") -> None:
        self._ready.add(thread)
        self._wake.set()

    def storing(self, batch: Sequence[tuple[Arrival, Seat]]) -> None:
        """A batch is about to be stored: what is asked now is handed over with it, and one commit
        does for both."""
        begins = any(
            seat.kind in ("message", "wake") and not seat.hold and seat.ending is None
            for _, seat in batch
        )
        if not begins:
            return
        for arrival, _ in batch:
            self._due += isinstance(arrival, Wake) and arrival.occurrence is not None
        self._ring()

    async def _claim(self, group: asyncio.TaskGroup, due: int) -> bool:
        """``due``: so many jobs want to begin now, together: else the last of them would wait for
        the first words of the others. True: there may be more to take at once."""
        places = (self._narrow or self._width) - len(self._running)
        at_once = max(self._at_once, min(AT_ONCE, due))
        limit = min(at_once, places)
        if self._draining or limit <= 0 or self._suspects.alone:
            return False
        try:
            since_renewal = (self._clock() - self._renewed).total_seconds()
            if self._running and since_renewal > TTL / 2:
                # The machine slept, or the clock was set: our own leases look ended, and would be
                # taken away from turns that still run.
                await self._renew()
            sessions, taken = await self._begin(limit)
        except Unavailable as error:
            log.error("store_unavailable", doing="claim", error=str(error))
            return False
        for session in sessions:
            thread = session.claim.thread
            self._ready.discard(thread)
            former = self._running.get(thread)
            if former is not None:  # it lost its lease, or nobody could have claimed the thread
                _end(former, "lost")
            running = _Running(session)
            self._running[thread] = running
            running.task = group.create_task(self._one(running, former), name=f"turn.{thread}")
        self._at_once = min(AT_ONCE, 2 * limit) if taken == limit else 2
        return taken == limit

    async def _begin(self, limit: int) -> tuple[list[Session], int]:
        """Threads with their work, and how many were taken. When the work of one cannot be read,
        claims alone: then each fails for itself."""
        deps = self._deps
        begun: list[tuple[Claim, Work | None]] = []

        if deps.input.context is not None:
            deps.input.context.refresh()

        async def begin() -> None:
            turns = [deps.ambient.new_id() for _ in range(limit)]
            begun.extend(
                await self._store.begin(
                    self._owner,
                    turns,
                    ttl=TTL,
                    collect=self._collects,
                    step=deps.input.step,
                    context=deps.input.context,
                    under=deps.under,
                    idle=deps.limits.idle(),
                )
            )

        error = await failure_of(begin())
        if error is None:
            sessions = [Session(claim, deps, work) for claim, work in begun if work is not None]
            return sessions, len(begun)
        if isinstance(error, Unavailable):
            raise error
        log.error("begin_failed", error=f"{type(error).__name__}: {error}")
        idle = deps.limits.idle()
        claims = await self._store.claim(self._owner, limit=limit, ttl=TTL, idle=idle)
        return [Session(claim, deps) for claim in claims], len(claims)

    @in_writer
    def _collects(self, claim: Claim) -> bool:
        return self._deps.limits.busy_in(claim) == "collect"

    async def _renewing(self) -> None:
        while True:
            await asyncio.sleep(TTL / 3)
            try:
                await self._renew()
            except Unavailable as error:
                log.error("store_unavailable", doing="renew", error=str(error))

    async def _renew(self) -> None:
        asked_at = self._clock()
        turns = list(self._running.values())
        claims = [running.session.claim for running in turns]
        lost = await self._store.renew(claims, TTL) if claims else set[Claim]()
        self._renewed = asked_at
        for running in turns:
            claim = running.session.claim
            if claim in lost and not running.task.done():
                log.warning("lease_lost", thread=claim.thread)
                _end(running, "lost")

    async def _one(self, running: _Running, former: _Running | None) -> None:
        session = running.session
        thread = session.claim.thread
        try:
            if former is not None:
                await asyncio.wait([former.task], timeout=HANDOVER)
            error = await failure_of(self._step(session))
            if error is not None:
                await self._broken(session, error)
        except asyncio.CancelledError:
            left = await failure_of(session.left(running.why or "shutdown"))
            if left is not None and not isinstance(left, LeaseLost):
                log.warning("turn_left_open", thread=thread, turn=session.turn, error=str(left))
            if running.why is None:
                raise
        finally:
            full = len(self._running) >= (self._narrow or self._width)
            if self._running.get(thread) is running:
                del self._running[thread]
            # others may wait for the place; what becomes ready otherwise comes with a hint
            if full or session.suspect:
                self._ring()

    async def _step(self, session: Session) -> None:
        work = await session.take()
        if work is None:
            return
        claim = session.claim
        if session.suspect:
            others = len(self._running) > 1
            pause = self._suspects.turned_away(work.turn, work.starts, others=others)
            if pause is not None:
                await session.exits.stepped_back(work, pause)
                return
        async with self._suspects.among(session.suspect):
            transcript = self._shelf.take(claim)
            outcome = await session.run(work, transcript)
        if self._narrow is None:
            self._shelf.put(claim, transcript)
        if isinstance(outcome, Failed) and outcome.retry_after is not None:
            pause = self._outages.pause(claim.thread, outcome)
            if pause is None:
                reason = f"{outcome.reason.rstrip('.')}, again and again"
                await session.exits.failed(work, transcript, reason)
            else:
                await session.exits.waiting(work, outcome.reason, pause)
        else:
            by_model = isinstance(outcome, Parked)
            if isinstance(outcome, Answered):
                by_model = not outcome.alone
            self._outages.over(claim.thread, answered=by_model)

    @property
    def outage(self) -> str:
        """Why the model could not be reached last; "" once it answered anybody since, or when
        nobody waits for it."""
        return self._outages.why

    async def _broken(self, session: Session, error: Exception) -> None:
        """An exception ended the step: somebody else's turn is let go, what cannot be read is
        buried, everything else is tried again."""
        thread = session.claim.thread
        turn = session.turn
        exits = session.exits
        if isinstance(error, LeaseLost):
            log.warning("lease_lost", thread=thread, turn=turn)
            exits.lost(turn)
            return
        if isinstance(error, Damaged) and turn is None:
            # no turn whose tries could be counted: they are counted here
            tries = self._unreadable.pop(thread, 0) + 1
            if tries < TRIES:
                self._unreadable[thread] = tries
            else:
                left = await failure_of(exits.unreadable(str(error)))
                log.error("unreadable", thread=thread, error=str(error), left=str(left or ""))
                if left is None:
                    return
        reason = f"{type(error).__name__}: {error}"
        log.error("turn_failed", thread=thread, turn=turn, error=reason, exc_info=error)
        left = await failure_of(exits.broken(turn, error))
        if left is not None:
            log.error("turn_left_open", thread=thread, turn=turn, error=str(left))


def _end(running: _Running, why: Why) -> None:
    """The first reason counts."""
    if running.why is None:
        running.why = why
        running.task.cancel()
