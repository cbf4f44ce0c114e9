"""``/deny [why]``: refuses what is asked in this thread or on a card that stands here."""

from __future__ import annotations

from ohmo.commands.contract import MEMBERS, Command, Decide, Desk, Effect, Order, Reply, several


async def run(order: Order, desk: Desk) -> Effect:
    questions = await desk.meant(order)
    if len(questions) > 1:
        return several(questions)
    return (
        Decide(questions[0].ask.id, "denied", word=order.argument)
        if questions
        else Reply("Nothing is asked here.")
    )


COMMAND = Command(
    "deny",
    "refuse what is asked here, with a reason if you like",
    run,
    MEMBERS,
    usage="[why]",
    place=80,
)
