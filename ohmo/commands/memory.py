"""``/memory``: what is remembered for you and in this place."""

from __future__ import annotations

from ohmo.commands.contract import MEMBERS, Command, Desk, Effect, Order, Reply


async def run(order: Order, desk: Desk) -> Effect:
    return Reply(await desk.memory_of(order))


COMMAND = Command(
    "memory",
    "what I remember",
    run,
    MEMBERS,
    usage="[show|search|forget|tidy|accept|reject|undo WHAT]",
    place=105,
)
