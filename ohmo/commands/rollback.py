"""``/rollback [N]``: files are as they were before the last N changes; an undo is one of them."""

from __future__ import annotations

from ohmo.commands.contract import (
    MEMBERS,
    Command,
    Desk,
    Effect,
    Order,
    Reply,
    TakeBack,
    changes_ago,
    forced,
    taking_back,
)


async def run(order: Order, desk: Desk) -> Effect:
    words, force = forced(order.argument)
    back = changes_ago(words)
    if back is None:
        return Reply("Say `/rollback`, or `/rollback N`: how many changes to go back.")
    return await taking_back(order, desk, TakeBack("rollback", back, force))


COMMAND = Command(
    "rollback",
    "files as they were N changes ago; also takes back an undo",
    run,
    MEMBERS,
    usage="[N] [--force]",
    place=93,
)
