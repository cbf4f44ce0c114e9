"""The store over a driver: every call of the contracts is one operation, run as one transaction."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from types import CoroutineType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from ohmo.ambient import Failpoint, inert
from ohmo.contracts.outbox import OutRow
from ohmo.contracts.reports import Counts
from ohmo.contracts.turns import Claim
from ohmo.database import tracing
from ohmo.database.store_health import Availability, WatchedDriver, watch
from ohmo.store import (
    approvals,
    checkpoints,
    cron_jobs,
    inbox,
    inbox_claim,
    known_people,
    listing,
    maintenance,
    outbox,
    running_turns,
    spending,
    threads,
    trusts,
    usage_totals,
)
from ohmo.store.statements import Driver, Hear, Moment, Op, T

P = ParamSpec("P")
Answer = TypeVar("Answer")
_SHARE = 50  # an answer is as good as new for this many times what it took
_LONGEST = 30.0  # seconds


class _OverDriver:
    """What the methods below run on."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver


# Signatures stand in the contract and at the operation; the type checker holds one to the other.


def writes(
    operation: Callable[Concatenate[Moment, P], Op[T]], *, in_thread: bool = False
) -> Callable[Concatenate[_OverDriver, P], CoroutineType[Any, Any, T]]:
    """A method that runs ``operation`` in a transaction of its own and returns after the commit.

    ``in_thread``: it locks one thread only, which its first argument names or holds."""

    async def method(self: _OverDriver, /, *args: P.args, **kwargs: P.kwargs) -> T:
        lock = ""
        if in_thread:
            match args:
                case (Claim(thread=thread), *_) | (str(thread), *_):
                    lock = thread
                case _:  # not known before
                    pass
        return await self.driver.write(lambda at: operation(at, *args, **kwargs), lock)

    return method


def reads(
    operation: Callable[P, Op[T]], *, slow: bool = False
) -> Callable[Concatenate[_OverDriver, P], CoroutineType[Any, Any, T]]:
    """A method that runs ``operation`` on one snapshot. ``slow``: a report, kept away from what
    must be quick."""

    async def method(self: _OverDriver, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.driver.read(lambda _: operation(*args, **kwargs), slow=slow)

    return method


def reads_now(
    operation: Callable[Concatenate[Moment, P], Op[T]], *, slow: bool = False
) -> Callable[Concatenate[_OverDriver, P], CoroutineType[Any, Any, T]]:
    """``reads`` for an operation that asks what time it is."""

    async def method(self: _OverDriver, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.driver.read(lambda at: operation(at, *args, **kwargs), slow=slow)

    return method


class CachedAnswer(Generic[Answer]):
    """A costly question that is asked all the time and may be answered with what was true a moment
    ago. Asks anew when the last answer is older than fifty times what it took, so that the asking
    takes a fiftieth of a core, and after half a minute in any case. Who comes while it is being
    asked gets that answer. ``monotonic``: seconds."""

    def __init__(
        self,
        ask: Callable[[], Awaitable[Answer]],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._coming: asyncio.Future[Answer] | None = None
        self._good_until = 0.0

    async def __call__(self) -> Answer:
        coming = self._coming
        if coming is not None and coming.done():
            failed = coming.cancelled() or coming.exception() is not None
            if failed or self._monotonic() >= self._good_until:
                coming = None
        if coming is None:
            coming = self._coming = asyncio.ensure_future(self._asked())
        # one that does not wait any longer does not take it from the others
        return await asyncio.shield(coming)

    async def _asked(self) -> Answer:
        began = self._monotonic()
        try:
            return await self._ask()
        finally:
            ended = self._monotonic()
            self._good_until = ended + min(_SHARE * (ended - began), _LONGEST)


class SqlStore(_OverDriver):
    """Implements ``Store`` and ``Reports``. ``availability``: whether it takes what is written."""

    def __init__(self, driver: Driver, *, failpoint: Failpoint = inert) -> None:
        self.availability = Availability()
        super().__init__(WatchedDriver(driver, self.availability))
        self._failpoint = failpoint
        self._ended = CachedAnswer(self._count_ended)

    async def watch(self, changed: Callable[[str], Awaitable[None]]) -> None:
        """Until cancelled. ``changed`` is told why nothing can be written, and an empty word when
        it can again."""
        await watch(self.driver, self.availability, changed)

    def listen(self, hear: Hear) -> Callable[[], None]:
        return self.driver.listeners.listen(hear)

    # arrivals
    accept = writes(inbox.accept)
    cursor = reads(inbox.cursor)
    unhandled = reads(inbox.unhandled)
    end_arrival = writes(inbox.end_arrival, in_thread=True)
    retry_arrival = writes(inbox.retry_arrival, in_thread=True)

    # owning a thread, and its turn
    claim = writes(threads.claim)
    renew = writes(threads.renew)
    release = writes(threads.release, in_thread=True)
    reclaim = writes(threads.reclaim)
    choose = writes(threads.choose, in_thread=True)
    end_free = writes(threads.end_free, in_thread=True)
    forget = writes(threads.forget, in_thread=True)
    begin = writes(inbox_claim.begin)
    work = writes(inbox_claim.work, in_thread=True)
    steer = writes(inbox_claim.steer, in_thread=True)
    record = writes(running_turns.record, in_thread=True)
    draft = writes(running_turns.draft, in_thread=True)
    finish = writes(running_turns.finish, in_thread=True)
    interrupt = writes(running_turns.interrupt, in_thread=True)
    bury = writes(running_turns.bury, in_thread=True)
    stop = writes(running_turns.stop, in_thread=True)
    turn_cost = reads_now(running_turns.turn_cost)
    steps = reads(running_turns.steps)
    spend = writes(spending.spend)
    spent = reads_now(spending.spent)

    # questions and people
    park = writes(approvals.park, in_thread=True)
    answer = writes(approvals.answer)
    consume = writes(approvals.consume, in_thread=True)
    expire = writes(approvals.expire)
    next_deadline = reads(approvals.next_deadline)
    open_questions = reads(approvals.open_questions)
    question = reads(approvals.question)
    lapsed = reads(approvals.lapsed)
    grants = reads(approvals.grants)
    revoke_grant = writes(approvals.revoke_grant)
    people = reads(known_people.people)
    save_person = writes(known_people.save_person)
    lease = writes(maintenance.lease)
    unlease = writes(maintenance.unlease)
    audit_report = reads(maintenance.audit_report, slow=True)
    audit = writes(maintenance.audit)

    # speaking
    post = writes(outbox.post)
    drafted = reads(outbox.drafted)
    post_row = reads(outbox.post_row)
    sending = writes(outbox.sending)
    sent = writes(outbox.sent)
    unsent = writes(outbox.unsent)
    retry_post = writes(outbox.retry_post)
    drop_post = writes(outbox.drop_post)

    async def outgoing(
        self, channel: str, account: str, threads: Collection[str] | None = None
    ) -> list[OutRow]:
        """Of given threads: of what was written this moment, so the writer has it at hand."""
        return await self.driver.read(
            lambda _: outbox.outgoing(channel, account, threads), hot=threads is not None
        )

    # jobs
    jobs = reads(cron_jobs.jobs)
    save_job = writes(cron_jobs.save_job)
    remove_job = writes(cron_jobs.remove_job)
    pass_over = writes(cron_jobs.pass_over)
    rebase_job = writes(cron_jobs.rebase_job)
    occurrences = reads(cron_jobs.occurrences, slow=True)
    claimed = reads(cron_jobs.claimed)

    # what was kept of folders
    keep_checkpoint = writes(checkpoints.keep_checkpoint)
    drop_checkpoints = writes(checkpoints.drop_checkpoints)
    session_turns = reads(checkpoints.session_turns)
    checkpoints = reads(checkpoints.checkpoints)

    # what may take part
    trusted = reads(trusts.trusted)
    allow = writes(trusts.allow)
    leave_off = writes(trusts.leave_off)
    revoke = writes(trusts.revoke)
    trusts = reads(trusts.trusts)

    # time
    rebase = writes(maintenance.rebase)

    async def prune(self, before: datetime, *, transcripts: datetime | None = None) -> int:
        """Returns how many rows went or were ended."""
        return await maintenance.prune(self.driver, before, transcripts, self._failpoint)

    # reports
    async def counts(self, *, spare: bool = False) -> Counts:
        ended = await (self._ended() if spare else self._count_ended())
        return await self.driver.read(lambda _: listing.counts(ended), slow=True)

    async def _count_ended(self) -> listing.Depths:
        return await self.driver.read(lambda _: listing.counts_of_ended(), slow=True)

    thread = reads_now(listing.thread)
    threads = reads_now(listing.threads, slow=True)
    threads_of = reads_now(listing.threads_of)
    free_threads = reads_now(listing.free_threads, slow=True)
    find_thread = reads(listing.find_thread)
    history = reads(listing.history, slow=True)
    sessions = reads(listing.sessions, slow=True)
    arrival = reads(listing.arrival)
    trace = reads_now(tracing.trace, slow=True)
    inbox = reads(listing.inbox, slow=True)
    outbox = reads(listing.outbox, slow=True)
    posts = reads(listing.posts)
    last_delivery = reads(listing.last_delivery, slow=True)
    usage = reads_now(usage_totals.usage, slow=True)
    usage_by = reads_now(usage_totals.usage_by, slow=True)
    names = reads(known_people.names, slow=True)
    thread_totals = reads_now(usage_totals.thread_totals, slow=True)
    thread_usage = reads(usage_totals.thread_usage, slow=True)
