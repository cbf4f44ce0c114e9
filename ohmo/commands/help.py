"""``/help``: what can be said."""

from __future__ import annotations

from ohmo.commands.contract import Command, Desk, Effect, Order, Reply


async def run(order: Order, desk: Desk) -> Effect:
    commands = [command for command in desk.commands() if order.standing in command.standings]
    lines = [f"- `/{f'{one.name} {one.usage}'.strip()}` {one.summary}" for one in commands]
    return Reply("Say anything, or one of these:\n\n" + "\n".join(lines))


COMMAND = Command("help", "what can be said", run, place=200)
