"""``/trust [allow|leave|revoke NAME]``: what plugins, projects and servers bring takes part once
you trust its very content."""

from __future__ import annotations

from ohmo.commands.contract import TRUSTING, Command, Desk, Effect, Order, Reply


async def run(order: Order, desk: Desk) -> Effect:
    return Reply(await desk.trust_of(order))


COMMAND = Command(
    "trust",
    "what waits for your trust, and what has it",
    run,
    TRUSTING,
    usage="[allow|leave|revoke NAME]",
    place=115,
)
