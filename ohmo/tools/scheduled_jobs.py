"""What the four tools for scheduled jobs share: who asks, and how a job is told."""

from __future__ import annotations

from channels.contract import Address
from ohmo.contracts.cron import By, JobRow, JobTools
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.tool import CallContext
from ohmo.cron.spec import rhythm, when_words
from ohmo.tools.workbench import Workbench


def has_scheduler(workbench: Workbench) -> bool:
    """Whether there is a clock to make jobs for."""
    return workbench.cron is not None


def scheduler_of(workbench: Workbench) -> JobTools:
    """Raises ConfigError: ``has_scheduler`` was not asked."""
    if workbench.cron is None:
        raise ConfigError("tools: there is no clock to make jobs for")
    return workbench.cron


async def caller(door: JobTools, context: CallContext) -> tuple[By, Address | None]:
    """On whose behalf the turn acts, and where it is."""
    place = await door.place(context.thread)
    if context.role in ("owner", "admin"):
        return By(
            context.person if context.role == "admin" else "owner",
            place.account if place is not None else "",
            everything=True,
        ), place
    return By(context.person, place.account if place is not None else "", everything=False), place


def job_line(row: JobRow) -> str:
    """One job in one line."""
    spec = row.body.spec
    due = when_words(row.next_at, spec.tz) if row.enabled else "paused"
    return f"{row.name}: {rhythm(spec)} ({spec.tz}); next {due}; {spec.prompt[:80]}"
