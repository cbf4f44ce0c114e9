"""``/interrupt``: a later message interrupts the running turn."""

from __future__ import annotations

from dataclasses import replace

from ohmo.commands.contract import MEMBERS, Choose, Command, Desk, Effect, Order


async def run(order: Order, desk: Desk) -> Effect:
    del desk
    return Choose(
        "A message that comes while I work interrupts it.",
        replace(order.settings, busy="interrupt"),
    )


COMMAND = Command(
    "interrupt", "a later message interrupts the running turn", run, MEMBERS, alone=True, place=140
)
