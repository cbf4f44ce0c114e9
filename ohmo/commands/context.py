"""``/context``: what the next request to the model is made of."""

from __future__ import annotations

from ohmo.commands.contract import MEMBERS, Command, Desk, Effect, Order, Reply


async def run(order: Order, desk: Desk) -> Effect:
    return Reply(await desk.context_of(order.thread))


COMMAND = Command(
    "context", "what the model is sent, and how much of it", run, MEMBERS, alone=True, place=95
)
