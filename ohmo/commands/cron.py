"""``/cron [history|pause|resume|remove NAME]``: your jobs that run by the clock."""

from __future__ import annotations

from ohmo.commands.contract import MEMBERS, Command, Desk, Effect, Order, Reply


async def run(order: Order, desk: Desk) -> Effect:
    return Reply(await desk.jobs_of(order))


COMMAND = Command(
    "cron",
    "your scheduled jobs; history, pause, resume or remove one",
    run,
    MEMBERS,
    usage="[history|pause|resume|remove NAME]",
    place=100,
)
