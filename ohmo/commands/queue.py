"""``/queue``: later messages wait for their turn."""

from __future__ import annotations

from dataclasses import replace

from ohmo.commands.contract import MEMBERS, Choose, Command, Desk, Effect, Order


async def run(order: Order, desk: Desk) -> Effect:
    del desk
    return Choose(
        "Messages that come while I work wait for their turn.",
        replace(order.settings, busy="queue"),
    )


COMMAND = Command(
    "queue", "later messages wait for their turn", run, MEMBERS, alone=True, place=130
)
