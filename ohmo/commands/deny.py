"""``/deny [why]``: refuses what is asked in this thread."""

from __future__ import annotations

from ohmo.commands.contract import MEMBERS, Command, Decide, Desk, Effect, Order, Reply


async def _run(order: Order, desk: Desk) -> Effect:
    questions = [asked for asked in await desk.open_questions(order.thread) if asked.state == "asked"]
    return Decide(questions[0].ask.id, "denied", word=order.argument) if questions else Reply("Nothing is asked here.")


COMMAND = Command("deny", "refuse what is asked here, with a reason if you like", _run, MEMBERS, usage="[why]")
