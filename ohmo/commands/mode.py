"""``/mode [default|plan|full_auto]``: how freely tools may act in this thread."""

from __future__ import annotations

from dataclasses import replace

from ohmo.commands.contract import MEMBERS, Choose, Command, Desk, Effect, Order, Reply


async def _run(order: Order, desk: Desk) -> Effect:
    del desk
    wanted = order.argument.lower().replace("-", "_")
    match wanted:
        case "":
            return Reply(f"Mode: `{order.settings.mode or 'as configured'}`. Say `/mode default`, `/mode plan` or `/mode full_auto`.")
        case "full_auto" if order.standing != "owner":
            return Reply("Only the owner may switch to full_auto.")
        case "default" | "plan" | "full_auto":
            return Choose(f"Mode is now `{wanted}`.", replace(order.settings, mode=wanted))
        case _:
            return Reply(f"`{order.argument}` is not a mode: say `/mode default`, `/mode plan` or `/mode full_auto`.")


COMMAND = Command("mode", "default, plan (nothing is changed) or full_auto", _run, MEMBERS, usage="[default|plan|full_auto]")
