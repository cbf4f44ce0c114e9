"""``/retry``: what failed last in this thread is tried again; the button below the failure does the
same."""

from __future__ import annotations

from ohmo.commands.contract import Command, Desk, Effect, Order, Reply, Retry


async def run(order: Order, desk: Desk) -> Effect:
    letters = await desk.failed(order.thread)
    if not letters:
        return Reply("Nothing failed here that could be tried again.")
    if order.standing == "guest" and any(letter.person != order.person for letter in letters):
        return Reply("A guest tries again only what they said themselves.")
    return Retry(tuple(letter.seq for letter in letters))


COMMAND = Command("retry", "try again what failed here last", run, alone=True, place=60)
