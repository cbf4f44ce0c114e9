"""``/effort [low|medium|high|default]``: how hard the model thinks in this thread."""

from __future__ import annotations

from dataclasses import replace

from ohmo.commands.contract import MEMBERS, Choose, Command, Desk, Effect, Order, Reply

_AFRESH = (
    " What was said stays; only the provider's cache of it begins anew with the next message. A"
    " model that knows no effort answers as before."
)


async def run(order: Order, desk: Desk) -> Effect:  # noqa: ARG001
    choice = order.argument.lower()
    present = order.settings.effort
    match choice:
        case "":
            shown = f"`{present}`" if present else "as configured"
            return Reply(f"Effort: {shown}. Say `/effort low`, `medium`, `high` or `default`.")
        case "low" | "medium" | "high":
            if present == choice:
                return Reply(f"Effort is `{choice}` already.")
            return Choose(
                f"Effort is now `{choice}`.{_AFRESH}", replace(order.settings, effort=choice)
            )
        case "default":
            if present is None:
                return Reply("Effort is as configured already.")
            return Choose(
                f"Effort is now as configured.{_AFRESH}", replace(order.settings, effort=None)
            )
        case _:
            return Reply(
                f"`{order.argument[:100]}` is no effort: say `/effort low`, `medium`, `high` or"
                " `default`."
            )


COMMAND = Command(
    "effort",
    "how hard the model thinks here",
    run,
    MEMBERS,
    usage="[low|medium|high|default]",
    place=85,
)
