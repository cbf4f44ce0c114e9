"""``/undo``: files as they were before the last turn that changed some; the model is told."""

from __future__ import annotations

from ohmo.commands.contract import (
    MEMBERS,
    Command,
    Desk,
    Effect,
    Order,
    Reply,
    TakeBack,
    forced,
    taking_back,
)


async def run(order: Order, desk: Desk) -> Effect:
    words, force = forced(order.argument)
    if words:
        return Reply("`/undo` takes back the last turn; `/rollback N` goes further back.")
    return await taking_back(order, desk, TakeBack("undo", 1, force))


COMMAND = Command(
    "undo",
    "take back what the last turn changed in files",
    run,
    MEMBERS,
    usage="[--force]",
    place=92,
)
