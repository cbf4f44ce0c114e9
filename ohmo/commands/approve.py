"""``/approve [session|always|workspace]``: allows what is asked in this thread or on a card that
stands here, or runs what nobody allowed in time."""

from __future__ import annotations

from ohmo.commands.contract import (
    MEMBERS,
    Command,
    Decide,
    Desk,
    Effect,
    Order,
    Reply,
    RunNow,
    several,
)
from ohmo.contracts.outbox import Scope

_SCOPES: dict[str, Scope] = {
    "": "once",
    "once": "once",
    "session": "session",
    "always": "always",
    "workspace": "workspace",
}


async def run(order: Order, desk: Desk) -> Effect:
    scope = _SCOPES.get(order.argument.lower())
    if scope is None:
        return Reply(
            f"`/approve {order.argument}`: say `/approve`, `/approve session`, `/approve always` or"
            " `/approve workspace`."
        )
    questions = await desk.meant(order)
    if len(questions) > 1:
        return several(questions)
    if not questions:
        lapsed = await desk.lapsed(order.thread) if order.argument == "" else None
        return RunNow(lapsed) if lapsed is not None else Reply("Nothing is asked here.")
    if questions[0].ask.question.kind == "question":
        return Reply("This question wants an answer in words, or `/deny`.")
    return Decide(questions[0].ask.id, "allowed", scope)


COMMAND = Command(
    "approve",
    "allow it: once, for the session, always, or all edits in this workspace",
    run,
    MEMBERS,
    usage="[session|always|workspace]",
    place=70,
)
