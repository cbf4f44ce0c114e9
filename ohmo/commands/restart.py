"""``/restart``: the house ends gracefully and begins anew; turns that run go on afterwards."""

from __future__ import annotations

from ohmo.commands.contract import Command, Desk, Effect, Order, Restart


async def run(order: Order, desk: Desk) -> Effect:
    del order, desk
    return Restart("Restarting. What runs or waits goes on in a moment.")


COMMAND = Command(
    "restart",
    "restart ohmo; what it was doing goes on afterwards",
    run,
    frozenset({"owner"}),
    alone=True,
    place=190,
)
