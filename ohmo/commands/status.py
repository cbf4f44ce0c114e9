"""``/status``: how the house and this thread are."""

from __future__ import annotations

from ohmo.commands.contract import Command, Desk, Effect, Order, Reply


async def run(order: Order, desk: Desk) -> Effect:
    status, questions = await desk.status(), await desk.open_questions(order.thread)
    here = "a question waits for an answer" if questions else "nothing runs"
    if desk.running_turn(order.thread):
        here = "I am at work"
    lines = [
        (
            f"**ohmo {status.version}**: {'ready' if status.ready else 'not ready'}; model"
            f" {status.model} ({status.provider})"
        ),
        f"Here: {here}.",
    ]
    if order.standing in ("owner", "admin"):
        lines += [
            f"- {name}: {channel.state}{' (' + channel.detail + ')' if channel.detail else ''}"
            for name, channel in status.channels.items()
        ]
        lines.append(
            f"Everywhere: {status.turns_running} at work, {status.turns_parked} waiting for a"
            " person's answer."
        )
        lines += [f"Warning: {warning}" for warning in status.warnings]
    return Reply("\n".join(lines))


COMMAND = Command("status", "how things are", run, place=30)
