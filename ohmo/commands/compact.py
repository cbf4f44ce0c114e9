"""``/compact [WORDS]``: no command but a message, whose turn makes the conversation shorter; it
waits for what runs, as every message does."""

from __future__ import annotations

from ohmo.commands.contract import MEMBERS, Command, Desk, Effect, Order, Reply


async def run(order: Order, desk: Desk) -> Effect:
    del order, desk
    return Reply("Say `/compact` by itself, or with the words that shall be kept.")


COMMAND = Command(
    "compact",
    "make this conversation shorter; words say what has to be kept",
    run,
    MEMBERS,
    usage="[words]",
    place=97,
)
