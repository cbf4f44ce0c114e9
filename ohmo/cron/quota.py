"""How many jobs there may be, and how often those of somebody who is neither owner nor admin may
run."""

from __future__ import annotations

from collections.abc import Sequence

from ohmo.contracts.cron import BadJob, By, JobRow, JobSpec

MOST = 2_000  # jobs of the house: every look at the clock reads all of them, 0.1 ms each
OF_ONE = 20  # jobs of one person
# seconds between two runs of theirs, at least: every turn they take is taken from somebody else
OFTEN = 60.0


def check_quota(spec: JobSpec, by: By, others: Sequence[JobRow]) -> None:
    """``others``: every other job there is. Raises BadJob: this one would be too much."""
    if len(others) >= MOST:
        raise BadJob(
            f"there are {MOST} jobs already, which is as many as there can be; remove some first:"
            " ohmo cron remove NAME",
            "name",
        )
    if by.everything:
        return
    seconds = spec.schedule.split()[5:] if spec.schedule is not None else []
    by_the_second = any(not part.isdigit() for part in seconds)
    if by_the_second or (spec.every is not None and spec.every < OFTEN):
        raise BadJob(
            "a job of yours may run once a minute at most; ask the owner for one that runs more"
            " often",
            "every",
        )
    theirs = sum(is_of(row, by) for row in others)
    if theirs >= OF_ONE:
        raise BadJob(
            f"you have {theirs} jobs, which is as many as one person may have; remove one first:"
            " /cron remove NAME",
            "name",
        )


def is_of(row: JobRow, by: By) -> bool:
    """Whether somebody sees and touches a job."""
    return by.everything or (row.person, row.body.account) == (by.person, by.account)
