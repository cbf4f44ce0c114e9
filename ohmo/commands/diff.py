"""``/diff [N]``: what the last change of files in this conversation did."""

from __future__ import annotations

from ohmo.commands.contract import MEMBERS, Command, Desk, Effect, Order, Reply, changes_ago


async def run(order: Order, desk: Desk) -> Effect:
    back = changes_ago(order.argument)
    if back is None:
        return Reply("Say `/diff`, or `/diff N` for the change before it (2), and so on.")
    text, files = await desk.diff_of(order.thread, back)
    return Reply(text, files)


COMMAND = Command(
    "diff", "what the last turn changed in files", run, MEMBERS, usage="[N]", place=91
)
