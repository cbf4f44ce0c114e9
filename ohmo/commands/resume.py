"""``/resume [N|WORDS]``: goes on with an earlier conversation of this place; the present one
is kept as the others are."""

from __future__ import annotations

from channels.text import literal
from ohmo.commands.contract import MEMBERS, Command, Desk, Effect, Order, Reply, Stop, changes_ago
from ohmo.contracts.reports import SessionInfo
from ohmo.contracts.turns import STRETCHES

LISTED = 10  # conversations
SHOWN = 60  # characters of how one began


async def run(order: Order, desk: Desk) -> Effect:
    earlier = list(enumerate(await desk.sessions_of(order.thread), 1))
    if not earlier:
        return Reply(
            "There is no earlier conversation here. `/new` begins another one; this one can be gone"
            " on with then."
        )
    number = changes_ago(order.argument) if order.argument else None
    if number is not None:
        if number > len(earlier):
            return Reply(f"There is no number {number}: `/resume` lists {len(earlier)} here.")
        return _resumed(order, earlier[number - 1][1], desk)
    found = earlier
    if order.argument:
        holding = await desk.holding(order.thread, order.argument)
        found = [(at, one) for at, one in earlier if one.session in holding]
        if len(found) == 1:
            return _resumed(order, found[0][1], desk)
        if not found:
            return Reply(
                "In no earlier conversation here all of these words were said. `/resume` lists"
                " them all."
            )
    lines = [f"- {at}: {_named(one, desk)}" for at, one in found[:LISTED]]
    older = f", and {len(found) - LISTED} older ones" if len(found) > LISTED else ""
    return Reply(
        f"Earlier conversations here, newest first{older}:\n\n"
        + "\n".join(lines)
        + "\n\nSay `/resume` with a number, or with words that were said in it."
    )


def _resumed(order: Order, one: SessionInfo, desk: Desk) -> Effect:
    if len(order.settings.stretches) >= STRETCHES:
        return Reply(
            f"Nothing was changed: this chat went from one conversation to another {STRETCHES}"
            " times, and more cannot be kept apart. Go on with this one, or begin one with `/new`."
        )
    text = (
        f"This goes on: {_named(one, desk)}. What was here until now is kept: `/resume` lists it."
    )
    return Stop(text, fresh=True, resumes=one.session)


def _named(one: SessionInfo, desk: Desk) -> str:
    words = one.words if len(one.words) <= SHOWN else f"{one.words[:SHOWN].rstrip()}…"
    return f"**{literal(words)}**, {desk.when(one.last)}"


COMMAND = Command(
    "resume",
    "go on with an earlier conversation of this chat",
    run,
    MEMBERS,
    usage="[N|WORDS]",
    place=96,
)
