"""``/stop``: ends everything said before it in this thread."""

from __future__ import annotations

from ohmo.commands.contract import Command, Desk, Effect, Order, Stop


async def run(order: Order, desk: Desk) -> Effect:
    running = desk.running_turn(order.thread) is not None
    return Stop("Stopped." if running else "Stopped. Nothing was running here.")


COMMAND = Command("stop", "stop what runs and what waits here", run, alone=True, place=20)
