"""``/inbox``: what waits in this thread."""

from __future__ import annotations

from ohmo.commands.contract import Command, Desk, Effect, Order, Reply


async def run(order: Order, desk: Desk) -> Effect:
    return Reply(await desk.inbox_of(order.thread))


COMMAND = Command("inbox", "what waits here", run, place=160)
