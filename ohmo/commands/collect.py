"""``/collect``: later messages are collected and answered together."""

from __future__ import annotations

from dataclasses import replace

from ohmo.commands.contract import MEMBERS, Choose, Command, Desk, Effect, Order


async def run(order: Order, desk: Desk) -> Effect:
    del desk
    return Choose(
        "Messages that come while I work are answered together.",
        replace(order.settings, busy="collect"),
    )


COMMAND = Command(
    "collect",
    "later messages are collected and answered together",
    run,
    MEMBERS,
    alone=True,
    place=150,
)
