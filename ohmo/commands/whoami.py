"""``/whoami``: who I take you for."""

from __future__ import annotations

from ohmo.commands.contract import Command, Desk, Effect, Order, Reply


async def run(order: Order, desk: Desk) -> Effect:
    del desk
    return Reply(
        f"You are `{order.address.channel}:{order.person}`, role {order.standing}; this place is"
        f" `{order.address.channel}:{order.address.chat}`."
    )


COMMAND = Command("whoami", "who I take you for, and what you may do", run, place=180)
