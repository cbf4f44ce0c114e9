"""The store over a driver: every call of the contracts becomes one operation."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import Literal

from ohmo.contracts.inwriter import Rest, no_rest
from ohmo.contracts.looking import TurnCost
from ohmo.contracts.messages import Step, Usage, UserStep
from ohmo.contracts.store import (
    Accepted,
    Ask,
    Asked,
    Card,
    Claim,
    Closing,
    Collects,
    CursorSave,
    End,
    Ending,
    Grant,
    Lapsed,
    OutRow,
    PartState,
    Pending,
    PersonRow,
    PostRow,
    Ruling,
    ThreadSettings,
    ToContext,
    ToStep,
    Work,
)
from ohmo.contracts.tool import Verdict
from ohmo.failpoints import Failpoint, inert
from ohmo.store import (
    approvals,
    clock,
    inbox,
    inbox_claim,
    known_people,
    maintenance,
    outbox,
    running_turns,
    steps,
    threads,
)
from ohmo.store.engines.sql_jobs import SqlJobs
from ohmo.store.engines.sql_reports import SqlReports
from ohmo.store.engines.store_health import Felt, Pulse, watch
from ohmo.store.inbox import Item
from ohmo.store.statements import Driver, instant, milliseconds


class SqlStore(SqlReports, SqlJobs):
    """Implements ``Store`` and ``Reports``. ``writer``: the name of this instance's audit chain.
    ``pulse``: whether it takes what is written."""

    def __init__(
        self,
        driver: Driver,
        *,
        new_id: Callable[[], str],
        writer: str,
        monotonic: Callable[[], float] = time.monotonic,
        failpoint: Failpoint = inert,
    ) -> None:
        self.pulse = Pulse()
        driver = Felt(driver, self.pulse)
        SqlReports.__init__(self, driver)
        SqlJobs.__init__(self, driver)
        self._driver = driver
        self._new_id = new_id
        self._writer = writer
        self._monotonic = monotonic
        self._failpoint = failpoint

    async def watch(self, changed: Callable[[str], Awaitable[None]]) -> None:
        """Until cancelled. ``changed`` is told why nothing can be written, and an empty word when
        it can again."""
        await watch(self._driver, self.pulse, changed)

    # arrivals
    async def accept(
        self, items: Sequence[Item], cursor: CursorSave | None = None
    ) -> list[Accepted]:
        return await self._driver.write(lambda at: inbox.accept(at, items, cursor))

    async def cursor(self, channel: str, account: str, name: str) -> str | None:
        return await self._driver.read(lambda _: inbox.cursor(channel, account, name))

    async def unhandled(self) -> list[Pending]:
        return await self._driver.read(lambda _: inbox.unhandled())

    async def end_arrival(
        self,
        thread: str,
        seq: int,
        ending: Ending,
        reason: str = "",
        posts: Sequence[PostRow] = (),
        *,
        person: PersonRow | None = None,
        settings: ThreadSettings | None = None,
    ) -> bool:
        return await self._driver.write(
            lambda at: inbox.end_arrival(
                at, (thread, seq), (ending, reason), posts, person, settings
            ),
            thread,
        )

    async def stop(
        self,
        thread: str,
        seq: int,
        *,
        person: str,
        fresh: bool,
        posts: Sequence[PostRow],
        closing: Closing,
        rest: Rest = no_rest,
    ) -> int:
        cut = running_turns.Cut(closing, rest)
        return await self._driver.write(
            lambda at: running_turns.stop(at, (thread, seq), person, fresh, posts, cut), thread
        )

    # owning a thread
    async def claim(
        self, owner: str, *, limit: int, ttl: float, idle: float | None = None
    ) -> list[Claim]:
        until = (
            self._monotonic() + ttl - 1.0
        )  # taken before the call: never later than what the store says
        return await self._driver.write(
            lambda at: threads.claim(at, owner, limit, ttl, until, idle)
        )

    async def begin(
        self,
        owner: str,
        turns: Sequence[str],
        *,
        ttl: float,
        collect: Collects,
        step: ToStep,
        context: ToContext | None = None,
        idle: float | None = None,
    ) -> list[tuple[Claim, Work | None]]:
        holder = (owner, ttl, self._monotonic() + ttl - 1.0)
        return await self._driver.write(
            lambda at: inbox_claim.begin(at, holder, turns, collect, (step, context), idle)
        )

    async def renew(self, claims: Sequence[Claim], ttl: float) -> set[Claim]:
        if not claims:
            return set()
        return await self._driver.write(lambda at: threads.renew(at, claims, ttl))

    async def work(
        self,
        claim: Claim,
        turn: str,
        *,
        collect: bool,
        step: ToStep,
        context: ToContext | None = None,
    ) -> Work | None:
        return await self._driver.write(
            lambda at: inbox_claim.work(at, claim, turn, collect, (step, context)), claim.thread
        )

    async def steer(
        self, claim: Claim, turn: str, step: ToStep
    ) -> tuple[tuple[int, UserStep], ...]:
        return await self._driver.write(
            lambda at: inbox_claim.steer(at, claim, turn, step), claim.thread
        )

    async def record(
        self,
        claim: Claim,
        turn: str,
        steps: Sequence[Step],
        *,
        posts: Sequence[PostRow] = (),
        usage: Usage | None = None,
    ) -> tuple[int, ...]:
        spent = None if usage is None else (self._new_id(), usage)
        return await self._driver.write(
            lambda at: running_turns.record(at, claim, turn, steps, posts, spent), claim.thread
        )

    async def park(
        self,
        claim: Claim,
        turn: str,
        asks: Sequence[Ask],
        *,
        timeout: float,
        card: Card,
        closing: Closing,
    ) -> None:
        await self._driver.write(
            lambda at: approvals.park(at, claim, turn, asks, timeout, card, closing), claim.thread
        )

    async def finish(
        self,
        claim: Claim,
        turn: str,
        steps: Sequence[Step],
        posts: Sequence[PostRow],
        end: End,
        *,
        usage: Usage | None = None,
    ) -> tuple[int, ...]:
        spent = None if usage is None else (self._new_id(), usage)
        return await self._driver.write(
            lambda at: running_turns.finish(at, claim, turn, steps, posts, end, spent), claim.thread
        )

    async def interrupt(
        self, claim: Claim, turn: str, closing: Closing, rest: Rest = no_rest
    ) -> None:
        await self._driver.write(
            lambda at: running_turns.interrupt(at, claim, turn, running_turns.Cut(closing, rest)),
            claim.thread,
        )

    async def bury(self, claim: Claim, reason: str, posts: Sequence[PostRow]) -> bool:
        return await self._driver.write(
            lambda at: running_turns.bury(at, claim, reason, posts), claim.thread
        )

    async def release(
        self,
        claim: Claim,
        turn: str | None = None,
        *,
        retry_after: float = 0.0,
        error: str | None = None,
    ) -> None:
        await self._driver.write(
            lambda at: threads.release(at, claim, turn, retry_after, error), claim.thread
        )

    async def reclaim(self, owner: str) -> int:
        return await self._driver.write(lambda _: threads.reclaim(owner))

    async def choose(self, thread: str, settings: ThreadSettings) -> bool:
        return await self._driver.write(lambda at: threads.choose(at, thread, settings), thread)

    async def end_free(self, thread: str, until: datetime) -> bool:
        return await self._driver.write(lambda at: threads.end_free(at, thread, until), thread)

    async def forget(self, thread: str) -> bool:
        return await self._driver.write(lambda at: threads.forget(at, thread), thread)

    async def steps(self, thread: str, since: int) -> list[tuple[int, Step]]:
        """Steps from number ``since`` on."""
        return await self._driver.read(lambda _: steps.steps(thread, since))

    async def turn_cost(self, thread: str, turn: str) -> TurnCost:
        return await self._driver.read(lambda at: steps.turn_cost(at, thread, turn))

    async def drafted(self, turn: str) -> OutRow | None:
        return await self._driver.read(lambda _: outbox.drafted(turn))

    async def post_row(self, id: str) -> OutRow | None:
        return await self._driver.read(lambda _: outbox.post_row(id))

    async def draft(self, claim: Claim, turn: str, row: PostRow) -> bool:
        return await self._driver.write(
            lambda at: running_turns.draft(at, claim, turn, row), claim.thread
        )

    # people and questions
    async def answer(
        self,
        ruling: Ruling,
        *,
        posts: Sequence[PostRow] = (),
        late: Sequence[PostRow] = (),
        card: Card,
        closing: Closing,
    ) -> Literal["ok", "late", "unknown"]:
        return await self._driver.write(
            lambda at: approvals.answer(at, ruling, posts, late, card, closing)
        )

    async def consume(self, claim: Claim, turn: str, call: str, digest: str) -> Verdict | None:
        return await self._driver.write(
            lambda at: approvals.consume(at, claim, turn, call, digest), claim.thread
        )

    async def expire(self, card: Card, closing: Closing) -> int:
        return await self._driver.write(lambda at: approvals.expire(at, card, closing))

    async def next_deadline(self) -> datetime | None:
        deadline = await self._driver.read(lambda _: approvals.next_deadline())
        return None if deadline is None else instant(deadline)

    async def open_questions(self, thread: str | None = None) -> list[Asked]:
        return await self._driver.read(lambda _: approvals.open_questions(thread))

    async def lapsed(self, name: str) -> Lapsed | None:
        return await self._driver.read(lambda _: approvals.lapsed(name))

    async def grants(self) -> list[Grant]:
        return await self._driver.read(lambda _: known_people.grants())

    async def revoke_grant(self, id: str) -> bool:
        return await self._driver.write(lambda at: known_people.revoke_grant(at, id))

    async def people(self) -> list[PersonRow]:
        return await self._driver.read(lambda _: known_people.people())

    async def save_person(self, row: PersonRow) -> None:
        await self._driver.write(lambda at: known_people.save_person(at, row))

    # speaking
    async def post(self, rows: Sequence[PostRow]) -> None:
        if rows:
            await self._driver.write(lambda at: outbox.post(at, rows))

    async def outgoing(
        self, channel: str, account: str, threads: Collection[str] | None = None
    ) -> list[OutRow]:
        return await self._driver.read(
            lambda _: outbox.outgoing(channel, account, threads), hot=threads is not None
        )

    async def sending(self, id: str, parts: Sequence[PartState]) -> None:
        """Raises Conflict when the row is not open any more (a draft that was dropped meanwhile):
        it must not be said then."""
        await self._driver.write(lambda _: outbox.sending(id, parts))

    async def sent(self, id: str, parts: Sequence[PartState]) -> None:
        await self._driver.write(lambda at: outbox.sent(at, id, parts))

    async def unsent(
        self,
        id: str,
        *,
        retry_after: float | None,
        error: str,
        parts: Sequence[PartState] | None = None,
    ) -> None:
        """For what was certainly not said: the row is ``ready`` again. What may have been said
        stays ``sending``: do not call this for it."""
        await self._driver.write(lambda at: outbox.unsent(at, id, retry_after, error, parts))

    async def retry_post(self, id: str) -> bool:
        return await self._driver.write(lambda at: outbox.retry_post(at, id))

    async def drop_post(self, id: str) -> bool:
        return await self._driver.write(lambda at: outbox.drop_post(at, id))

    # the rest
    async def lease(self, name: str, owner: str, ttl: float) -> int | None:
        return await self._driver.write(lambda at: known_people.lease(at, name, owner, ttl))

    async def rebase(self, seconds: float | None) -> float:
        delta = None if seconds is None else round(seconds * 1000)
        return await self._driver.write(lambda at: clock.rebase(at, delta)) / 1000

    async def unlease(self, name: str, owner: str) -> None:
        await self._driver.write(lambda _: known_people.unlease(name, owner))

    async def audit(self, kind: str, body: str) -> None:
        await self._driver.write(lambda at: known_people.audit(at, self._writer, kind, body))

    async def retry_arrival(self, thread: str, seq: int) -> bool:
        return await self._driver.write(lambda at: inbox.retry_arrival(at, thread, seq), thread)

    async def prune(self, before: datetime, *, transcripts: datetime | None = None) -> int:
        """Returns how many rows went or were ended."""
        limit = milliseconds(before)
        logs = limit if transcripts is None else min(limit, milliseconds(transcripts))
        return await maintenance.prune(self._driver, limit, logs, self._failpoint)
