"""What the owner hears of jobs: one notice when a job begins to fail, one when it is well again,
one for runs that were missed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from ohmo.contracts.causes import BY_A_PERSON
from ohmo.contracts.cron import JobRow, Jobs, OccurrenceRow, Passed
from ohmo.cron.spec import when_words
from ohmo.ids import derived

_LOOKED = 50  # runs back
_FIRST, _MOST = 60.0, 3_600.0  # seconds until a failed run is tried again: doubling


class Incidents:
    """``tell`` posts a notice to the owner under an id, once: the same id again is nothing new,
    also after a restart and on another instance; it raises Unavailable when it could not be stored,
    and is called again then. ``again`` brings a failed run's wake back."""

    def __init__(
        self,
        jobs: Jobs,
        tell: Callable[[str, str], Awaitable[object]],
        again: Callable[[str, int], Awaitable[bool]],
    ) -> None:
        self._jobs = jobs
        self._tell = tell
        self._again = again
        self._retries: dict[tuple[str, datetime], tuple[datetime, OccurrenceRow]] = {}

    async def review(self, row: JobRow) -> None:
        """Look at how the latest runs ended."""
        ended = [
            one for one in await self._jobs.occurrences(row.job, limit=_LOOKED) if _counts(one)
        ]
        if not ended:
            return
        last = ended[0]
        if last.state == "done":
            if len(ended) > 1 and ended[1].state == "failed":
                await self._tell(
                    derived("cron well", row.job, last.due.isoformat()),
                    f"The job {row.name} is well again: {_when(row, last)}.",
                )
            return
        if (
            last.attempts <= row.body.spec.retry
            and last.ended is not None
            and last.thread is not None
        ):
            pause = min(_FIRST * 2 ** (last.attempts - 1), _MOST)
            self._retries[last.job, last.due] = (last.ended + timedelta(seconds=pause), last)
            return
        first = last
        for one in ended:
            if one.state != "failed":
                break
            first = one
        text = (
            f"The job {row.name} failed: {_when(row, last)}:"
            f" {(last.reason or 'no reason was given').rstrip('.')}. You hear again when it is"
            f" well; `ohmo cron history {row.name}` shows every run."
        )
        await self._tell(derived("cron failed", row.job, first.due.isoformat()), text)

    async def paused(self, row: JobRow, why: str) -> None:
        """A job whose times cannot be read any more."""
        text = (
            f"The job {row.name} was paused, because it cannot be read any more: {why}. Mend it"
            f" with `ohmo cron edit {row.name}`, then `ohmo cron resume {row.name}`."
        )
        await self._tell(derived("cron paused", row.job, str(row.revision)), text)

    @property
    def next_try(self) -> datetime | None:
        """When a run that failed is tried again; None: none is."""
        return min((at for at, _ in self._retries.values()), default=None)

    async def retry(self, now: datetime) -> list[tuple[str, datetime]]:
        """Tries again what failed and may be; job and slot of each run that begins again."""
        begun: list[tuple[str, datetime]] = []
        for key, (at, one) in list(self._retries.items()):
            if at <= now:
                del self._retries[key]
                if (
                    one.thread is not None
                    and one.seq is not None
                    and await self._again(one.thread, one.seq)
                ):
                    begun.append(key)
        return begun

    async def missed(self, found: Sequence[tuple[JobRow, Sequence[Passed]]]) -> None:
        """All of one look in one notice, but for jobs that ask for no catching up. Told before it
        is recorded: who dies in between tells it again."""
        gone = [
            (row, [one for one in passed if one.state == "missed"])
            for row, passed in found
            if row.body.spec.catch_up != "none"
        ]
        lines = [
            f"- {row.name}: {len(missed)} (the last was due"
            f" {when_words(missed[-1].due, row.body.spec.tz)}): {missed[-1].reason}"
            for row, missed in gone
            if missed
        ]
        if lines:
            once = derived(
                "cron missed",
                *(f"{row.job} {missed[0].due.isoformat()}" for row, missed in gone if missed),
            )
            await self._tell(
                once, "Scheduled runs were missed and are not caught up:\n\n" + "\n".join(lines)
            )


def _counts(one: OccurrenceRow) -> bool:
    """Where a person ended it nothing is broken."""
    return one.state in ("done", "failed") and one.cause not in BY_A_PERSON


def _when(row: JobRow, one: OccurrenceRow) -> str:
    return f"the run of {when_words(one.due, row.body.spec.tz)}"
