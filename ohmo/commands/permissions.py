"""``/permissions [revoke ID]``: what you allowed for longer than once."""

from __future__ import annotations

from ohmo.commands.contract import MEMBERS, Command, Desk, Effect, Order, Reply


async def run(order: Order, desk: Desk) -> Effect:
    return Reply(await desk.permissions_of(order))


COMMAND = Command(
    "permissions",
    "what you allowed for longer than once; revoke one",
    run,
    MEMBERS,
    usage="[revoke ID]",
    place=110,
)
