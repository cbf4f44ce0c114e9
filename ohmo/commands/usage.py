"""``/usage``: what was spent here and today, and how much may be."""

from __future__ import annotations

from ohmo.commands.contract import MEMBERS, Command, Desk, Effect, Order, Reply


async def run(order: Order, desk: Desk) -> Effect:
    return Reply(await desk.usage_of(order))


COMMAND = Command("usage", "tokens, cost and budgets: here and today", run, MEMBERS, place=90)
