"""``/usage``: what was spent today."""

from __future__ import annotations

from ohmo.commands.contract import MEMBERS, Command, Desk, Effect, Order, Reply


async def run(order: Order, desk: Desk) -> Effect:
    del order
    return Reply(await desk.usage_today())


COMMAND = Command("usage", "tokens and cost of today", run, MEMBERS, place=90)
