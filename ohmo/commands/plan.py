"""``/plan``: nothing is changed before a plan was shown and allowed. ``/plan WORDS`` is no command:
its words are a message whose turn only plans."""

from __future__ import annotations

from dataclasses import replace

from ohmo.commands.contract import MEMBERS, Choose, Command, Desk, Effect, Order, Reply


async def run(order: Order, desk: Desk) -> Effect:
    info = await desk.thread(order.thread)
    if info is None:
        return Reply("Say `/plan` with words behind it: what shall be planned?")
    settings = replace(order.settings, planning=info.session_seq)
    return Choose(
        "Plan mode is on: I change nothing, show you a plan, and begin when you allow it."
        " `/mode default` ends it.",
        settings,
    )


COMMAND = Command(
    "plan",
    "nothing is changed before you have allowed a plan; with words: what to plan",
    run,
    MEMBERS,
    alone=True,
    usage="[words]",
    place=115,
)
