"""``/new``: stops and begins a new session."""

from __future__ import annotations

from ohmo.commands.contract import MEMBERS, Command, Desk, Effect, Order, Stop


async def run(order: Order, desk: Desk) -> Effect:
    del order, desk
    return Stop("A new conversation begins here.", fresh=True)


COMMAND = Command("new", "begin a new conversation here", run, MEMBERS, alone=True, place=10)
