"""``/steer``: later messages are read into the running turn."""

from __future__ import annotations

from dataclasses import replace

from ohmo.commands.contract import MEMBERS, Choose, Command, Desk, Effect, Order


async def _run(order: Order, desk: Desk) -> Effect:
    del desk
    return Choose("Messages that come while I work are read into the running turn.", replace(order.settings, busy="steer"))


COMMAND = Command("steer", "later messages are read into the running turn", _run, MEMBERS, alone=True)
