"""``/start``: what Telegram sends when somebody opens the chat with a bot
(https://core.telegram.org/bots/features#commands): a welcome."""

from __future__ import annotations

from ohmo.commands.contract import Command, Desk, Effect, Order, Reply

_MAY = {
    "guest": "You are a guest here: I answer, and nothing is changed for you.",
    "user": "Before I change something, I ask you.",
    "admin": "Before I change something, I ask you. You may answer what I ask others here, too.",
    "owner": "Before I change something, I ask you. You are the owner.",
}


async def run(order: Order, desk: Desk) -> Effect:
    del desk
    begin = " `/new` begins a new conversation," if order.standing != "guest" else ""
    return Reply(
        "Welcome! I am ohmo. Write what you would like in your own words, or send a picture or a"
        f" file. {_MAY[order.standing]}{begin} `/stop` stops me, `/help` shows the rest."
    )


COMMAND = Command("start", "a welcome, and how to begin", run, place=210)
