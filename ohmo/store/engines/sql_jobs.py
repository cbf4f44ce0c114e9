"""The store's calls about jobs, over a driver."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ohmo.contracts.cron import JobRow, OccurrenceRow, Passed
from ohmo.store import cron_jobs
from ohmo.store.statements import Driver, milliseconds


class SqlJobs:
    """Implements ``Jobs``."""

    def __init__(self, driver: Driver) -> None:
        self._ledger = driver

    async def jobs(self) -> list[JobRow]:
        return await self._ledger.read(lambda _: cron_jobs.jobs())

    async def save_job(self, row: JobRow, *, over: int | None = None) -> bool:
        return await self._ledger.write(lambda at: cron_jobs.save_job(at, row, over))

    async def remove_job(self, job: str) -> bool:
        return await self._ledger.write(lambda at: cron_jobs.remove_job(at, job))

    async def pass_over(
        self, row: JobRow, passed: Sequence[Passed], next_at: datetime | None
    ) -> bool:
        following = None if next_at is None else milliseconds(next_at)
        return await self._ledger.write(lambda at: cron_jobs.pass_over(at, row, passed, following))

    async def rebase_job(self, row: JobRow, next_at: datetime | None) -> bool:
        following = None if next_at is None else milliseconds(next_at)
        return await self._ledger.write(lambda at: cron_jobs.rebase_job(at, row, following))

    async def occurrences(self, job: str, *, limit: int = 50) -> list[OccurrenceRow]:
        return await self._ledger.read(lambda _: cron_jobs.occurrences(job, limit), slow=True)

    async def claimed(self) -> list[OccurrenceRow]:
        return await self._ledger.read(lambda _: cron_jobs.claimed())
