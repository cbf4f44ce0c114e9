"""``/export [md|json]``: the present conversation as a file."""

from __future__ import annotations

from ohmo.commands.contract import Command, Desk, Effect, Order, Reply


async def run(order: Order, desk: Desk) -> Effect:
    match order.argument.lower().removeprefix("."):
        case "" | "md" | "markdown":
            text, files = await desk.exported(order, "md")
        case "json":
            text, files = await desk.exported(order, "json")
        case _:
            text, files = "Say `/export`, `/export md` or `/export json`.", ()
    return Reply(text, files)


COMMAND = Command(
    "export", "this conversation as a file (Markdown or JSON)", run, usage="[md|json]", place=97
)
