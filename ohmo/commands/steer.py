"""``/steer``: later messages are read into the running turn. ``/steer WORDS`` is no command: its
words are a message that is read at once."""

from __future__ import annotations

from dataclasses import replace

from ohmo.commands.contract import MEMBERS, Choose, Command, Desk, Effect, Order


async def run(order: Order, desk: Desk) -> Effect:
    del desk
    return Choose(
        "Messages that come while I work are read into the running turn. For one message only:"
        " `/steer` and its words.",
        replace(order.settings, busy="steer"),
    )


COMMAND = Command(
    "steer",
    "later messages are read into the running turn; with words behind it: only these",
    run,
    MEMBERS,
    alone=True,
    usage="[words]",
    place=120,
)
