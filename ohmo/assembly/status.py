"""What the status of the house is put together from."""

from __future__ import annotations

from functools import partial

from ohmo.assembly.agent import AgentParts
from ohmo.assembly.clockwork import Clockwork
from ohmo.assembly.deps import Deps
from ohmo.control.ports import Settled, StatusReporter
from ohmo.control.servers_api import counted
from ohmo.database.sql_store import CachedAnswer
from ohmo.gateway.switchboard import Switchboard
from ohmo.sessions.pool import Pool
from ohmo.upkeep.watches import MemoryWatch


def build_status(
    deps: Deps,
    agent: AgentParts,
    pool: Pool,
    board: Switchboard,
    clockwork: Clockwork,
    warnings: tuple[str, ...],
    memory_watch: MemoryWatch,
) -> StatusReporter:
    """``warnings``: those of the start, which stay."""
    walls = agent.workbench.walls
    wanted = deps.config.permissions.caged
    return StatusReporter(
        settled=Settled(
            provider=agent.model.explanation,
            model=agent.model.model,
            models=agent.model.models,
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
        mcp=lambda: counted(agent.servers),
        clock=deps.environment.clock,
        mode=agent.policies.mode,
        sandbox=(lambda: ("", "", "")) if walls is None else partial(walls.told, wanted=wanted),
    )
