"""``/why [number]``: what became of a message."""

from __future__ import annotations

from ohmo.commands.contract import Command, Desk, Effect, Order, Reply


async def run(order: Order, desk: Desk) -> Effect:
    return Reply(await desk.why(order.thread, order.argument))


COMMAND = Command(
    "why", "what became of a message that was said here", run, usage="[number]", place=170
)
