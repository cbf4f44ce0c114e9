"""What the status of the house is put together from."""

from __future__ import annotations

from ohmo.assembly.clockwork import Clockwork
from ohmo.assembly.deps import Deps
from ohmo.control.ports import Settled, StatusReporter
from ohmo.database.sql_store import CachedAnswer
from ohmo.gateway.switchboard import Switchboard
from ohmo.providers import build
from ohmo.sandbox.walls import Walls
from ohmo.sessions.pool import Pool
from ohmo.upkeep.watches import MemoryWatch


def build_status(
    deps: Deps,
    model: build.Model,
    walls: Walls | None,
    pool: Pool,
    board: Switchboard,
    clockwork: Clockwork,
    warnings: tuple[str, ...],
    memory_watch: MemoryWatch,
) -> StatusReporter:
    """``warnings``: those of the start, which stay."""
    return StatusReporter(
        settled=Settled(
            provider=model.explanation,
            model=model.model,
            models=model.models,
            mode=deps.config.permissions.mode,
            day_limit=deps.config.budgets.day,
            started=deps.environment.began,
        ),
        reports=deps.store,
        sessions=pool,
        channels=board.report,
        cron=clockwork.scheduler.report,
        away=lambda: deps.store.availability.away,
        warnings=lambda: (*warnings, *memory_watch.warnings),
        today=CachedAnswer(lambda: deps.store.usage(days=1)),
        people=CachedAnswer(deps.store.people),
        clock=deps.environment.clock,
        sandbox=(lambda: ("", "")) if walls is None else walls.told,
    )
