"""``/mode [default|plan|full_auto]``: how freely tools may act in this thread."""

from __future__ import annotations

import re
from dataclasses import replace

from ohmo.commands.contract import MEMBERS, Choose, Command, Desk, Effect, Order, Reply

_KNOWS = re.compile(r"\s[-\u2012-\u2015]*i[ -]know\W*$")  # keyboards make one dash of two
_WARNING = (
    "`full_auto` lets everything run unasked and change whatever is in the workspace; only the"
    " sandbox, where one holds (`ohmo status`), keeps commands in there. If that is what you want,"
    " say `/mode full_auto --i-know`: it holds in this conversation for 8 hours and ends by itself."
)


async def run(order: Order, desk: Desk) -> Effect:
    argument = order.argument.lower()
    name = _KNOWS.sub("", argument).replace("-", "_")
    match name:
        case "":
            mode = order.settings.mode or "as configured"
            until = order.settings.free_until
            end = f" until {desk.when(until)}" if order.settings.mode and until else ""
            info = await desk.thread(order.thread)
            if info is not None and order.settings.planning == info.session_seq:
                end += "; first there is a plan to be made (`/plan`)"
            return Reply(
                f"Mode: `{mode}`{end}. Say `/mode default`, `/mode plan` or `/mode full_auto`."
            )
        case "full_auto" if order.standing != "owner":
            return Reply("Only the owner may switch to full_auto.")
        case "full_auto" if not _KNOWS.search(argument):
            return Reply(_WARNING)
        case "full_auto":
            until, words = desk.free_until()
            text = (
                f"Mode is now `full_auto`, until {words}, also after `/new`: what changes files or"
                " runs commands is no longer asked about in this chat, only what cannot be read for"
                " certain. `/mode default` ends it before."
            )
            settings = replace(order.settings, mode="full_auto", free_until=until, planning=None)
            return Choose(text, settings)
        case "default" | "plan":
            settings = replace(order.settings, mode=name, free_until=None, planning=None)
            return Choose(f"Mode is now `{name}`.", settings)
        case _:
            return Reply(
                f"`{order.argument}` is not a mode: say `/mode default`, `/mode plan` or `/mode"
                " full_auto`."
            )


COMMAND = Command(
    "mode",
    "default, plan (nothing is changed) or full_auto",
    run,
    MEMBERS,
    usage="[default|plan|full_auto]",
    place=50,
)
